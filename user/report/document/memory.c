// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory of a process, a domain after the other, never summed:
 *
 *     Memory: RSS anon 1.20 GiB = traced host heap 300 MiB + 929 MiB from before tracing or not
 *     traced · file 80.0 MiB · shmem 0 B
 *
 *     Host heap (libc)
 *     allocated 12.3 GiB in 1,234,567 allocations (123,457 a second, 1.23 GiB/s) · 1,234,000 frees
 *     · live at the end 300 MiB in 567 blocks · peak 1.20 GiB at 3.20 s · 45.0 % temporary
 *     Live over 10.0 s: ▁▂▅█▇▇▂▁ 2.00 MiB to 1.20 GiB
 *     Sizes: 16 B ▁▂█▂▁ 1.00 MiB; half are of at most 128 B
 *
 *     At peak     Live  Allocated  …
 */
#include "analyze/location.h"
#include "base/escape.h"
#include "base/order.h"
#include "base/units.h"
#include "report/document/compose.h"
#include "report/document/plot.h"

bool memory_sees_frees(const struct profile_memory *memory)
{
	return memory->current_bytes != PROFILE_ABSENT;
}

/* Precedes a number of live blocks: "~ " an estimate, "≥ " or "≤ " a bound, "" exact. */
static const char *sign_of(const struct profile_memory *memory)
{
	if (memory->bound == PROFILE_MEMORY_LOST_ALLOCS)
		return "≥ ";
	if (memory->bound == PROFILE_MEMORY_LOST_FREES)
		return "≤ ";
	return memory->bound || memory->sampled ? "~ " : "";
}

/* Three digits of a count: an estimate has no more. */
static uint64_t rounded(uint64_t count)
{
	uint64_t unit = 1;

	while (count / unit >= 1000)
		unit *= 10;
	return (count + unit / 2) / unit * unit;
}

/* "1 block", "12 blocks"; an estimate is rounded. */
static void add_number(struct text *text, const struct profile_memory *memory, uint64_t count,
		       const char *noun)
{
	text_printf(text, "%s %s%s", as_count(memory->sampled ? rounded(count) : count), noun,
		    count == 1 ? "" : "s");
}

/* "12.3 GiB"; of a sample "~ 12.3 GiB (11.9 GiB to 12.7 GiB)" */
static void add_estimate(struct text *text, const struct profile_estimate *e, bool sampled,
			 void (*add)(struct text *, uint64_t))
{
	const uint64_t numbers[] = {e->value, e->low, e->high};
	bool is_count = add == add_count;

	text_add(text, sampled ? "~ " : "");
	for (int i = 0; i < (sampled ? 3 : 1); i++) {
		text_add(text, i == 2 ? " to " : i ? " (" : "");
		add(text, sampled && is_count ? rounded(numbers[i]) : numbers[i]);
	}
	text_add(text, sampled ? ")" : "");
}

static void compose_resident(struct composer *c, const struct profile_process *p)
{
	const struct profile_memory *host = NULL, *tensor = NULL;
	struct text text = {0};

	for (size_t i = 0; i < p->memory_count; i++) {
		if (!memory_sees_frees(&p->memory[i]))
			continue;
		if (p->memory[i].domain == PERFX_DOMAIN_HOST)
			host = &p->memory[i];
		else if (p->memory[i].domain == PERFX_DOMAIN_TENSOR)
			tensor = &p->memory[i];
	}
	if (p->rss_anon_bytes == PROFILE_ABSENT)
		return;
	text_printf(&text, "RSS anon %s", as_bytes(p->rss_anon_bytes));
	if (host && host->current_bytes <= p->rss_anon_bytes)
		text_printf(&text,
			    " = traced %s %s%s + %s allocated before the recording or untraced",
			    memory_words(host), sign_of(host), as_bytes(host->current_bytes),
			    as_bytes(p->rss_anon_bytes - host->current_bytes));
	else if (host)
		text_printf(&text,
			    "; traced %s %s%s: at least %s of it is not resident (never touched, "
			    "or swapped out)",
			    memory_words(host), sign_of(host), as_bytes(host->current_bytes),
			    as_bytes(host->current_bytes - p->rss_anon_bytes));
	else if (tensor) /* some may be on a GPU: no sum */
		text_printf(&text,
			    ", of which traced tensors up to %s%s; the rest was allocated before "
			    "the recording or is untraced",
			    sign_of(tensor), as_bytes(tensor->current_bytes));
	if (p->rss_file_bytes != PROFILE_ABSENT)
		text_printf(&text, " · file %s", as_bytes(p->rss_file_bytes));
	if (p->rss_shmem_bytes != PROFILE_ABSENT)
		text_printf(&text, " · shmem %s", as_bytes(p->rss_shmem_bytes));
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

/* "Host heap (jemalloc, libc)" */
static void add_title(struct text *text, const struct profile_memory *memory)
{
	static const char *const titles[PERFX_DOMAINS] = {
		[PERFX_DOMAIN_INVALID] = "Host heap",	   [PERFX_DOMAIN_HOST] = "Host heap",
		[PERFX_DOMAIN_TENSOR] = "Tensors",	   [PERFX_DOMAIN_GPU] = "GPU",
		[PERFX_DOMAIN_USER] = "Custom allocators",
	};

	text_add(text, memory_is_of_arrays(memory) && memory->domain == PERFX_DOMAIN_TENSOR
			       ? "Arrays"
			       : titles[memory->domain]);
	for (size_t i = 0; i < memory->allocators_count; i++) {
		text_add(text, i ? ", " : " (");
		escape_name(text, memory->allocators[i].name[0] ? memory->allocators[i].name : "?");
	}
	if (memory->allocators_count)
		text_add(text, ")");
}

static void add_allocated(struct text *text, const struct profile_memory *memory)
{
	text_add(text, "allocated ");
	add_estimate(text, &memory->allocated_bytes, memory->sampled, add_bytes);
	text_add(text, " in ");
	add_estimate(text, &memory->allocs, memory->sampled, add_count);
	text_add(text, memory->allocs.value == 1 ? " allocation" : " allocations");
	if (!memory->recorded_ns || memory->recorded_ns == PROFILE_ABSENT)
		return;
	text_printf(text, " (%s", memory->sampled ? "~ " : "");
	if (memory->allocs.value >= memory->recorded_ns / 1000000000) {
		uint64_t rate =
			u64_of((double)memory->allocs.value * 1e9 / (double)memory->recorded_ns);

		text_printf(text, "%s/s, ", as_count(memory->sampled ? rounded(rate) : rate));
	}
	text_printf(text, "%s/s)",
		    as_bytes(u64_of((double)memory->allocated_bytes.value * 1e9 /
				    (double)memory->recorded_ns)));
}

/* " · live at the end 6.25 MiB in 100 blocks · peak 38.2 MiB at 9.96 s" */
static void add_kept(struct text *text, const struct profile *p,
		     const struct profile_process *process, const struct profile_memory *memory)
{
	const char *sign = sign_of(memory);

	text_printf(text, " · live at the end %s%s", sign, as_bytes(memory->current_bytes));
	if (memory->current_count != PROFILE_ABSENT) {
		text_printf(text, " in %s", sign);
		add_number(text, memory, memory->current_count, "block");
	}
	if (memory->peak_bytes == PROFILE_ABSENT)
		return;
	text_printf(text, " · peak %s%s", sign, as_bytes(memory->peak_bytes));
	if (!memory->peak_bytes || memory->peak_ns == PROFILE_ABSENT)
		return;
	text_printf(text, " at %s", as_ns(profile_since_start(p, memory->peak_ns)));
	if (memory_is_reserved(process, memory))
		text_printf(text, ", partly reserved only: no more than %s was resident",
			    as_bytes(process->rss_peak_bytes));
}

static void compose_numbers(struct composer *c, const struct profile_process *p,
			    const struct profile_memory *memory)
{
	const char *about = memory->sampled ? "~ " : "";
	struct text text = {0};

	add_allocated(&text, memory);
	if (memory_sees_frees(memory)) {
		text_printf(&text, " · %s", memory->frees_inferred ? "≥ " : about);
		add_number(&text, memory, memory->frees_count, "free");
		add_kept(&text, c->profile, p, memory);
		if (memory->temporary_count != PROFILE_ABSENT && memory->allocs.value &&
		    (!memory->sampled || memory->temporary_count))
			text_printf(&text, " · %s%s temporary", about,
				    as_percent((double)memory->temporary_count /
					       (double)memory->allocs.value));
		if (memory->unknown_frees_count != PROFILE_ABSENT && memory->unknown_frees_count)
			text_printf(&text, " · %s %s allocated before",
				    as_count(memory->unknown_frees_count),
				    memory->unknown_frees_count == 1 ? "free of a block"
								     : "frees of blocks");
	}
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

/* Of the process's time; 1: all of it, or not known. */
static double recorded_share(const struct profile_process *p, const struct profile_memory *memory)
{
	uint64_t wall_ns = profile_wall_ns(p);
	double share = wall_ns ? (double)memory->recorded_ns / (double)wall_ns : 1;

	return memory->recorded_ns == PROFILE_ABSENT || share >= 0.995 ? 1 : share;
}

static void add_lost(struct text *text, const char *separator, uint64_t count, const char *what)
{
	text_printf(text, "%s%s %s%s", separator, as_count(count), what, count == 1 ? "" : "s");
}

static void add_losses(struct text *text, const struct profile_memory *memory)
{
	uint64_t allocs = memory->lost_allocs_count, frees = memory->lost_frees_count;

	if (allocs)
		add_lost(text, " ", allocs, "allocation");
	if (frees)
		add_lost(text, allocs ? " and " : " ", frees, "free");
	if (allocs || frees)
		text_add(text, allocs + frees == 1
				       ? " was dropped (ring full): counts include it."
				       : " were dropped (ring full): counts include them.");
	if (memory->bound && memory_sees_frees(memory))
		text_printf(text, " Live bytes and the peak are %s.",
			    memory->bound == PROFILE_MEMORY_LOST_ALLOCS	 ? "lower bounds (≥)"
			    : memory->bound == PROFILE_MEMORY_LOST_FREES ? "upper bounds (≤)"
									 : "approximate (~)");
	if (memory->replaced_count && memory->replaced_count != PROFILE_ABSENT) {
		add_lost(text, " ", memory->replaced_count, "free");
		text_add(text, memory->replaced_count == 1
				       ? " was missed: its address was allocated again."
				       : " were missed: their addresses were allocated again.");
	}
}

static void compose_caveats(struct composer *c, const struct profile_process *p, size_t domain)
{
	const struct profile_memory *memory = &p->memory[domain];
	const char *unjudged = compose_analysis(c, p)->memory[domain].unjudged;
	struct text text = {0};

	if (!memory_sees_frees(memory))
		text_add(&text,
			 memory->level == PERFX_MEMORY_SAMPLED_IN
				 ? " Frees were not recorded: live bytes are not known."
				 : " Not all frees were recorded: live bytes are not known.");
	else if (unjudged)
		text_printf(&text, " No leak detection: %s.", unjudged);
	if (memory->frees_inferred && memory_sees_frees(memory))
		text_add(&text, " A block counts as freed when its memory is given out again: "
				"recording each free took more of the time than it may.");
	if (memory->sampled) {
		text_printf(&text,
			    " Estimated from a sample of one point per %s allocated on average; "
			    "ranges are 95 %% confidence intervals; %s",
			    as_bytes(memory->sample_bytes),
			    memory_sees_frees(memory)
				    ? "live bytes, the peak and the table are estimates as well."
				    : "the table is an estimate as well.");
	}
	if (recorded_share(p, memory) < 1)
		text_printf(&text,
			    " Recorded %s of the time (%s of %s): counts and rates are of that "
			    "time.",
			    as_percent(recorded_share(p, memory)), as_ns(memory->recorded_ns),
			    as_ns(profile_wall_ns(p)));
	add_losses(&text, memory);
	if (text.length)
		document_say(c->document, BLOCK_NOTE, text_peek(&text) + 1);
	text_finish(&text, &c->document->failed);
}

static void compose_allocators(struct composer *c, const struct profile_memory *memory)
{
	bool frees = memory_sees_frees(memory);

	if (memory->allocators_count < 2)
		return;
	document_headings(c->document, 0, NUMBERS("Allocations"), NUMBERS("Frees", .rank = 1),
			  NUMBERS("Allocated"), NUMBERS("Live"), REST("Allocator"),
			  WORDS("Module", .rank = 2));
	for (size_t i = 0; i < memory->allocators_count; i++) {
		const struct profile_allocator *a = &memory->allocators[i];

		document_row(c->document, cell_count(a->allocs_count),
			     cell_count(frees ? a->frees_count : PROFILE_ABSENT),
			     cell_bytes(a->allocated_bytes),
			     cell_bytes(frees ? a->live_bytes : PROFILE_ABSENT),
			     compose_name(c, a->name), compose_name(c, a->module));
	}
}

static bool is_idle(const struct profile_memory *memory)
{
	return !memory->allocs.value && !memory->frees_count && !memory->unknown_frees_count &&
	       !memory->current_count && !memory->bound;
}

#define SPARK_COLUMNS 40

/* The highest live bytes, or the bytes allocated, in each of SPARK_COLUMNS parts of the time. */
static void compose_series(struct composer *c, const struct profile_process *p,
			   const struct profile_memory *memory)
{
	uint64_t wall_ns = profile_wall_ns(p), live = 0, allocated = 0;
	uint64_t columns[SPARK_COLUMNS], least = UINT64_MAX, most = 0;
	bool is_held = memory_sees_frees(memory);
	struct text text = {0};
	size_t at = 0;

	if (memory->points_count < 2)
		return;
	if (c->limits->charts) {
		document_add_chart(c->document, (struct chart){.kind = CHART_HELD,
							       .process = p,
							       .memory = memory});
		return;
	}
	for (size_t i = 0; i < SPARK_COLUMNS; i++) {
		uint64_t end =
			p->from_ns + u64_of((double)wall_ns * (double)(i + 1) / SPARK_COLUMNS);
		uint64_t highest = live, lowest = live, before = allocated;

		for (; at < memory->points_count && memory->points[at].time_ns <= end; at++) {
			live = memory->points[at].live_bytes;
			allocated = memory->points[at].allocated_bytes;
			highest = max_u64(highest, live);
			lowest = min_u64(lowest, live);
		}
		columns[i] = is_held ? highest : allocated - before;
		least = min_u64(least, is_held ? lowest : columns[i]);
		most = max_u64(most, columns[i]);
	}
	text_printf(&text, "%s over %s: ", is_held ? "Live" : "Allocated", as_ns(wall_ns));
	spark(&text, columns, SPARK_COLUMNS);
	text_printf(&text, " %s to %s", as_bytes(least), as_bytes(most));
	if (!is_held)
		text_printf(&text, " per %s", as_ns(wall_ns / SPARK_COLUMNS));
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

static void compose_sizes(struct composer *c, const struct profile_memory *memory)
{
	size_t first = PROFILE_SIZES, last = 0, half = 0;
	uint64_t all = 0, sum = 0;
	struct text text = {0};

	for (size_t i = 0; i < PROFILE_SIZES; i++) {
		if (!memory->sizes[i])
			continue;
		first = first < i ? first : i;
		last = i;
		all += memory->sizes[i];
	}
	if (!all)
		return;
	while (half < last && (sum += memory->sizes[half]) < all - all / 2)
		half++;
	text_printf(&text, "Sizes: %s ", as_bytes(largest_size(first)));
	spark(&text, memory->sizes + first, last - first + 1);
	text_printf(&text, "%s%s; median at most %s",
		    last == PROFILE_SIZES - 1 ? " more than " : " ",
		    as_bytes(largest_size(last == PROFILE_SIZES - 1 ? last - 1 : last)),
		    as_bytes(largest_size(half)));
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

void compose_memory_worst(struct composer *c, const struct profile_process *p)
{
	bool any = false;

	for (size_t i = 0; i < p->memory_count; i++) {
		const struct profile_memory *memory = &p->memory[i];
		struct text text = {0};

		if (is_idle(memory))
			continue;
		if (!any && c->limits->brief)
			document_say(c->document, BLOCK_SECTION, "Memory");
		any = true;
		/* "Tensors (torch): 3.13 GiB allocated in 300 allocations · live at the end 6.25
		 * MiB · peak …" */
		add_title(&text, memory);
		text_add(&text, ": ");
		add_allocated(&text, memory);
		if (recorded_share(p, memory) < 1)
			text_printf(&text, ", recorded for %s of %s", as_ns(memory->recorded_ns),
				    as_ns(profile_wall_ns(p)));
		if (memory_sees_frees(memory))
			add_kept(&text, c->profile, p, memory);
		document_add(c->document, BLOCK_PARAGRAPH, &text);
	}
	if (any)
		compose_worst_places(c, p);
}

void compose_memory(struct composer *c, const struct profile_process *p)
{
	if (!p->memory_count)
		return;
	document_say(c->document, BLOCK_SECTION, "Memory");
	compose_resident(c, p);
	if (c->limits->folds)
		compose_memory_worst(c, p);
	compose_details(c, "Memory by domain, call stacks");
	if (c->limits->charts && p->points_count > 1)
		document_add_chart(c->document,
				   (struct chart){.kind = CHART_RESIDENT, .process = p});
	for (size_t i = 0; i < p->memory_count; i++) {
		const struct profile_memory *memory = &p->memory[i];
		struct text title = {0};

		add_title(&title, memory);
		document_add(c->document, BLOCK_CAPTION, &title);
		if (is_idle(memory)) {
			document_say(c->document, BLOCK_NOTE, "Nothing was allocated or freed.");
			continue;
		}
		compose_numbers(c, p, memory);
		compose_series(c, p, memory);
		compose_sizes(c, memory);
		compose_caveats(c, p, i);
		compose_allocators(c, memory);
		compose_hotspots(c, p, i);
	}
	compose_details_end(c);
}
