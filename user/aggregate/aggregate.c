// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/state.h"

#include "base/hash.h"
#include "base/text.h"
#include "cost/operator_label.h"

#include <assert.h>
#include <stdlib.h>

/* In the order in which they fill the profile. */
static const struct part *const parts[] = {
	&part_capture,	  &part_spans,	  &part_object_costs, &part_process, &part_periods,
	&part_steps,	  &part_energy,	  &part_stacks,	      &part_calls,   &part_costs,
	&part_reductions, &part_memory,	  &part_samples,      &part_slices,  &part_thread_states,
	&part_ends,	  &part_lines,	  &part_values,	      &part_files,   &part_gpu,
	&part_untraced,	  &part_overhead,
};
#define PARTS_COUNT (sizeof(parts) / sizeof(parts[0]))

static void **state_of(struct aggregate *a, const struct part *part)
{
	return (void **)((char *)a + part->offset);
}

struct aggregate *aggregate__new(void)
{
	struct aggregate *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->first_ns = UINT64_MAX;
	for (size_t i = 0; i < PARTS_COUNT; i++) {
		const struct part *part = parts[i];

		for (size_t kind = 0; kind < PART_KINDS; kind++) {
			assert(!a->add[kind] || !part->add[kind]);
			if (part->add[kind])
				a->add[kind] = part->add[kind];
		}
		if (part->size && !(*state_of(a, part) = calloc(1, part->size))) {
			aggregate__free(a);
			return NULL;
		}
	}
	return a;
}

void aggregate__free(struct aggregate *a)
{
	if (!a)
		return;
	profile_clear(&a->profile);
	for (size_t i = 0; i < PARTS_COUNT; i++) {
		void *state = parts[i]->size ? *state_of(a, parts[i]) : NULL;

		if (state)
			parts[i]->clear(state);
		free(state);
	}
	pool_clear(&a->strings);
	map64_clear(&a->texts.ids);
	free(a->texts.list);
	free(a);
}

const char *intern(struct aggregate *a, const char *text)
{
	uint64_t hash = fnv1a(text, strlen(text));
	const char *const *known = MAP64_FIND_OF(&a->texts, hash);
	const char *copy, **item;

	if (known && !strcmp(*known, text))
		return *known;
	copy = pool_add(&a->strings, text);
	/* of two texts with one hash the second is copied each time */
	if (!copy || known)
		return copy;
	item = MAP64_ITEM_OF(&a->texts, hash);
	if (!item)
		return NULL;
	*item = copy;
	return copy;
}

const char *intern_label(struct aggregate *a, const char *function, uint16_t operator_bytes)
{
	struct text label = {0};
	const char *interned = function;

	if (operator_label(&label, function, operator_bytes))
		interned = label.failed ? NULL : intern(a, text_peek(&label));
	text_clear(&label);
	return interned;
}

void aggregate__lose(struct aggregate *a, enum perfx_loss_kind loss, uint64_t count)
{
	add_up(&a->losses[loss], count);
}

int aggregate__continue(struct aggregate *a, struct aggregate *before, uint64_t from_ns)
{
	int err = 0;

	for (size_t i = 0; i < PARTS_COUNT && !err; i++)
		if (parts[i]->take_over)
			err = parts[i]->take_over(a, before, from_ns);
	return err;
}

int aggregate__add(struct aggregate *a, const struct event *event)
{
	part_add *add = (unsigned)event->kind < PART_KINDS ? a->add[event->kind] : NULL;

	return add ? add(a, event) : undecoded(a);
}

/* The share of the processes' lives before the tracer found them (-a): calls in that time are
 * missing. A delay after a traced process has mapped a file does not count: only calls into that
 * file are missing, and only while it was being loaded. */
static double late_share(const struct profile *p)
{
	uint64_t late_ns = 0, all_ns = 0;

	FOR_EACH (process, p->processes) {
		uint64_t longest_ns = 0;

		FOR_EACH (late, p->late)
			if (late->process == process->index && late->since_ns < process->from_ns)
				longest_ns = max_u64(longest_ns, late->late_ns);
		add_up(&late_ns, longest_ns);
		add_up(&all_ns, add_capped(profile_wall_ns(process), longest_ns));
	}
	return all_ns ? (double)late_ns / (double)all_ns : 0;
}

/* A program that the tracer started was recorded for all of its life, however it ended. */
static bool is_whole(const struct profile *profile)
{
	FOR_EACH (process, profile->processes)
		if (process->launched)
			return true;
	return false;
}

const struct profile *aggregate__finish(struct aggregate *a)
{
	struct profile *p = &a->profile;
	struct finish_ctx w = {.a = a, .profile = p};
	int err = 0;

	profile_clear(p);
	for (size_t i = 0; i < PARTS_COUNT && !err; i++)
		if (parts[i]->finish)
			err = parts[i]->finish(&w);
	free(w.places);
	if (err) {
		profile_clear(p);
		errno = -err;
		return NULL;
	}
	memcpy(p->losses, a->losses, sizeof(p->losses));
	add_up(&p->losses[PERFX_LOSS_UNDECODED], w.hidden_records);
	if (p->target_killed && !is_whole(p))
		p->partial |= PROFILE_PARTIAL_KILLED;
	if (!p->ended || p->losses[PERFX_LOSS_TRUNCATED_BYTES])
		p->partial |= PROFILE_PARTIAL_TRUNCATED;
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		if (profile_loss_share(p, i) > PROFILE_LOSSY_SHARE)
			p->partial |= PROFILE_PARTIAL_LOSSY;
	if (late_share(p) > PROFILE_LOSSY_SHARE)
		p->partial |= PROFILE_PARTIAL_LOSSY;
	return p;
}
