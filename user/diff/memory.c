// SPDX-License-Identifier: BSD-2-Clause
#include "diff/internal.h"

#include "base/order.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double known(uint64_t value)
{
	return value == PROFILE_ABSENT ? NAN : (double)value;
}

static const struct profile_memory *memory_of(const struct profile_process *p, unsigned domain)
{
	for (size_t i = 0; p && domain && i < p->memory_count; i++)
		if (p->memory[i].domain == domain)
			return &p->memory[i];
	return NULL;
}

/* Was every allocation recorded, for as long as the process was traced? */
static bool is_exact(const struct profile_memory *memory, const struct profile_process *p)
{
	return !memory->sampled && !memory->bound &&
	       (double)memory->recorded_ns >= 0.99 * (double)profile_wall_ns(p);
}

static double rate(const struct profile_memory *memory, uint64_t count)
{
	return memory ? diff_per_s(count, memory->recorded_ns) : NAN;
}

/* domain 0: resident */
static void compare_domain(const struct diff *diff, struct diff_process *process, unsigned domain)
{
	const struct profile_process *p = process->a, *q = process->b;
	const struct profile_memory *a = memory_of(p, domain), *b = memory_of(q, domain);
	struct diff_memory into = {
		.domain = (enum perfx_domain)domain,
		.peak_bytes = {a ? known(a->peak_bytes) : NAN, b ? known(b->peak_bytes) : NAN},
		.allocated_per_s = {rate(a, a ? a->allocated_bytes.value : 0),
				    rate(b, b ? b->allocated_bytes.value : 0)},
		.allocs_per_s = {rate(a, a ? a->allocs.value : 0),
				 rate(b, b ? b->allocs.value : 0)},
		.exact = !domain || (a && b && is_exact(a, p) && is_exact(b, q)),
	};
	double change, bytes;

	if (!domain)
		into.peak_bytes = (struct diff_pair){p ? known(p->rss_peak_bytes) : NAN,
						     q ? known(q->rss_peak_bytes) : NAN};
	if (!a && !b && isnan(into.peak_bytes.a) && isnan(into.peak_bytes.b))
		return;
	/* Memory has no spread within a recording: a large enough change of an exact peak is
	 * significant. The change is NAN if A has no memory. */
	change = diff_change(into.peak_bytes);
	bytes = into.peak_bytes.b - into.peak_bytes.a;
	if (into.exact && !isnan(bytes)) {
		into.verdict = DIFF_SAME;
		if (fabs(bytes) >= DIFF_MEMORY_BYTES_MIN && !(fabs(change) < DIFF_MEMORY_SHARE_MIN))
			into.verdict = bytes > 0 ? DIFF_WORSE : DIFF_BETTER;
		into.regressed = bytes >= DIFF_MEMORY_BYTES_MIN && !(change <= diff->threshold);
	}
	process->memory[process->memory_count++] = into;
}

struct side_place {
	char *key; /* functions of the stack, innermost first */
	const struct profile_memory *memory;
	const struct profile_hotspot *hotspot;
};

struct side_places {
	struct side_place *places;
	size_t count;
};

/* Leaves out lines and offsets, which move with every edit, and the files and modules of known
 * functions. */
static char *key_of(const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	struct text key = {0};

	text_printf(&key, "%u\x1f%s", (unsigned)memory->domain, hotspot->allocator);
	for (size_t i = 0; i < hotspot->frames_count; i++) {
		text_add(&key, "\x1e");
		text_add(&key, hotspot->frames[i]->function);
		if (!hotspot->frames[i]->function[0])
			text_add(&key, hotspot->frames[i]->module_base);
	}
	return text_take(&key);
}

ORDER(by_key, struct side_place, strcmp(a->key, b->key))

static int collect_places(struct side_places *side, const struct profile_process *p)
{
	size_t most = 0;

	for (size_t i = 0; p && i < p->memory_count; i++)
		most += p->memory[i].hotspots_count;
	side->places = calloc(most + 1, sizeof(*side->places));
	if (!side->places)
		return -ENOMEM;
	for (size_t i = 0; p && i < p->memory_count; i++) {
		const struct profile_memory *memory = &p->memory[i];

		for (size_t j = 0; j < memory->hotspots_count; j++) {
			struct side_place *place = &side->places[side->count++];

			*place = (struct side_place){key_of(memory, &memory->hotspots[j]), memory,
						     &memory->hotspots[j]};
			if (!place->key)
				return -ENOMEM;
		}
	}
	qsort(side->places, side->count, sizeof(*side->places), by_key);
	return 0;
}

static void clear_places(struct side_places *side)
{
	for (size_t i = 0; i < side->count; i++)
		free(side->places[i].key);
	free(side->places);
}

/* NAN stays until something is added. */
static void add(double *sum, double value)
{
	if (!isnan(value))
		*sum = isnan(*sum) ? value : *sum + value;
}

/* Adds all places of the key on one side. Returns how many there are. */
static size_t add_side(struct diff_place *into, bool is_b, const struct side_places *side,
		       size_t at, const char *key)
{
	size_t i;

	for (i = at; i < side->count && !strcmp(side->places[i].key, key); i++) {
		const struct profile_memory *memory = side->places[i].memory;
		const struct profile_hotspot *h = side->places[i].hotspot;
		bool held = memory->current_bytes != PROFILE_ABSENT;

		add(diff_side(&into->live_at_peak_bytes, is_b),
		    held ? known(h->live_at_peak_bytes) : NAN);
		add(diff_side(&into->live_bytes, is_b), held ? known(h->live_bytes) : NAN);
		add(diff_side(&into->allocated_per_s, is_b),
		    rate(memory, h->allocated_bytes.value));
		add(diff_side(&into->allocs_per_s, is_b), rate(memory, h->allocs.value));
	}
	return i - at;
}

static void match_places(const struct diff *diff, struct diff_process *process,
			 const struct side_places *a, const struct side_places *b)
{
	static const struct diff_pair none = {NAN, NAN};

	for (size_t i = 0, j = 0, in_a, in_b; i < a->count || j < b->count; i += in_a, j += in_b) {
		struct diff_place *p = &process->places[process->places_count++];
		const struct side_place *shown;
		bool is_b =
			i == a->count || (j < b->count && by_key(&a->places[i], &b->places[j]) > 0);
		const char *key = is_b ? b->places[j].key : a->places[i].key;

		*p = (struct diff_place){.live_at_peak_bytes = none,
					 .live_bytes = none,
					 .allocated_per_s = none,
					 .allocs_per_s = none};
		in_a = add_side(p, false, a, i, key);
		in_b = add_side(p, true, b, j, key);
		p->in = (in_a ? DIFF_IN_A : 0) | (in_b ? DIFF_IN_B : 0);
		shown = in_b ? &b->places[j] : &a->places[i];
		p->profile = in_b ? diff->b : diff->a;
		p->memory = shown->memory;
		p->hotspot = shown->hotspot;
	}
}

static double change_at_peak(const struct diff_place *p)
{
	return fabs((isnan(p->live_at_peak_bytes.b) ? 0 : p->live_at_peak_bytes.b) -
		    (isnan(p->live_at_peak_bytes.a) ? 0 : p->live_at_peak_bytes.a));
}

static double allocated_per_s(const struct diff_place *p)
{
	return fmax(p->allocated_per_s.a, p->allocated_per_s.b);
}

ORDER(by_change, struct diff_place, DESCENDING(change_at_peak(a), change_at_peak(b)),
      DESCENDING(allocated_per_s(a), allocated_per_s(b)))

static int compare_places(const struct diff *diff, struct diff_process *process)
{
	struct side_places a = {0}, b = {0};
	int err = collect_places(&a, process->a);

	if (!err)
		err = collect_places(&b, process->b);
	if (!err) {
		process->places = calloc(a.count + b.count + 1, sizeof(*process->places));
		err = process->places ? 0 : -ENOMEM;
	}
	if (!err) {
		match_places(diff, process, &a, &b);
		qsort(process->places, process->places_count, sizeof(*process->places), by_change);
	}
	clear_places(&a);
	clear_places(&b);
	return err;
}

int diff_memory(struct diff *diff, struct diff_process *process)
{
	process->memory = calloc(PERFX_DOMAINS + 1, sizeof(*process->memory));
	if (!process->memory)
		return -ENOMEM;
	for (unsigned domain = 0; domain < PERFX_DOMAINS; domain++)
		compare_domain(diff, process, domain);
	return compare_places(diff, process);
}
