// SPDX-License-Identifier: BSD-2-Clause
/* Rules about memory: leaks (leaks.h decides what is one), the peak's composition, the heap as a
 * whole. */
#include "analyze/leaks.h"
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "base/order.h"
#include "base/units.h"
#include "remedy_texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Named in a finding. */
#define LEAK_PLACES_MAX 3
/* Told apart; beyond them places are only counted. */
#define LEAK_PLACES_KEPT 32
#define PEAK_PLACES	 3

/* "; estimated from about 80 sampled blocks (± 22 %)": of N that a Poisson process gives */
static void add_sample(struct text *text, const struct profile_memory *memory, uint64_t live_count,
		       uint64_t live_bytes)
{
	double blocks = (double)live_count, draws;

	if (!memory->sampled || !memory->sample_bytes)
		return;
	draws = (double)live_bytes / (double)memory->sample_bytes;
	blocks = fmax(fmin(blocks, draws), 1);
	text_printf(text, "; estimated from about %.0f sampled blocks (± %.0f %%)", blocks,
		    196 / sqrt(blocks));
}

/* The leaks of a domain: what loses memory in several places has one cause more often than not. */
struct leak_place {
	size_t hotspot; /* index */
	double bytes_per_s;
};

struct leak {
	const struct profile_memory *memory;
	double bytes_per_s; /* of all places */
	size_t places_count;
	bool unseen;				    /* every one of them */
	struct leak_place places[LEAK_PLACES_KEPT]; /* the largest first */
	uint64_t live_count, live_bytes, oldest_ns;
};

static const struct hotspot_trend *trend_of(const struct rules_ctx *ctx, const struct leak *leak,
					    size_t hotspot)
{
	return &ctx->memory[leak->memory - ctx->process->memory].trends[hotspot];
}

static void leak_evidence(struct text *text, const struct rules_ctx *ctx, const struct leak *leak)
{
	const struct profile_memory *memory = leak->memory;
	const struct profile_hotspot *first = &memory->hotspots[leak->places[0].hotspot];
	const struct line *line = &ctx->growth->parts[RSS_ANON];
	double per_s = rate_of(ctx->process, u64_of(line->growth));

	text_printf(text,
		    "retains %s/s of %s, %s per hour; %s live blocks of %s on average, allocated "
		    "throughout the recording, the oldest live for %s",
		    as_bytes(u64_of(leak->bytes_per_s)), memory_words(memory),
		    as_bytes(u64_of(leak->bytes_per_s * 3600)), as_count(leak->live_count),
		    as_bytes(leak->live_count ? leak->live_bytes / leak->live_count : 0),
		    as_ns(ctx->process->to_ns - leak->oldest_ns));
	if (leak->places_count > 1) {
		/* "6.10 MiB/s in append (train.cc:12), …" */
		text_printf(text, "; in %zu places: ", leak->places_count);
		for (size_t i = 0; i < leak->places_count && i < LEAK_PLACES_MAX; i++) {
			text_printf(text, "%s%s/s in ", i ? ", " : "",
				    as_bytes(u64_of(leak->places[i].bytes_per_s)));
			location_hotspot(text, ctx->profile, memory,
					 &memory->hotspots[leak->places[i].hotspot]);
		}
		if (leak->places_count > LEAK_PLACES_MAX)
			text_printf(text, ", %zu smaller (see the JSON report)",
				    leak->places_count - LEAK_PLACES_MAX);
	} else if (location_first(memory, first) < first->frames_count &&
		   profile_function(ctx->profile, first->function)) {
		text_add(text, "; allocated by ");
		add_function_name(text, ctx->profile, first->function);
	}
	add_sample(text, memory, leak->live_count, leak->live_bytes);
	if (leak->unseen) {
		text_add(text, "; resident memory did not grow with it: the pages were not "
			       "touched, or reuse memory that was resident before");
	} else if (line->is_steady && domain_is_resident(memory->domain)) {
		text_printf(text, "; resident memory grew by %s/s", as_bytes(u64_of(per_s)));
		if (leak->bytes_per_s < per_s)
			text_printf(text, ", of which this leak accounts for %s",
				    as_percent(leak->bytes_per_s / per_s));
	}
}

static void file_leak(struct rules_ctx *ctx, const struct leak *leak)
{
	const struct profile_hotspot *first = &leak->memory->hotspots[leak->places[0].hotspot];
	const struct profile_steps *steps = &ctx->process->steps;
	size_t frame = location_first(leak->memory, first);
	double hour = leak->bytes_per_s * 3600;
	struct note note = {.of_function = true,
			    .bottleneck = BOTTLENECK_MEMORY,
			    .place = frame < first->frames_count ? first->frames[frame] : NULL,
			    .look = "Memory: Call stacks"};

	location_hotspot(&note.subject, ctx->profile, leak->memory, first);
	if (leak->places_count > 1)
		text_printf(&note.subject, " and %zu more place%s", leak->places_count - 1,
			    leak->places_count == 2 ? "" : "s");
	leak_evidence(&note.evidence, ctx, leak);
	/* "append (train.py:57) keeps 4.10 MiB a step, 14.1 GiB per hour" */
	text_printf(&note.headline, "%s keep%s ", text_peek(&note.subject),
		    leak->places_count == 1 ? "s" : "");
	if (steps->count)
		text_printf(&note.headline, "%s a step, ",
			    as_bytes(u64_of(leak->bytes_per_s * (double)steps->avg_ns / 1e9)));
	text_printf(&note.headline, "%s per hour", as_bytes(u64_of(hour)));
	text_add(&note.suggestion, leak->memory->domain == PERFX_DOMAIN_TENSOR ? TRY_LEAKED_TENSORS
				   : leak->memory->domain == PERFX_DOMAIN_GPU
					   ? TRY_LEAKED_GPU_BLOCKS
					   : TRY_LEAKED_BLOCKS);
	rules_ctx_add(ctx, LEAK_KIND,
		      leak->unseen || hour < ctx->thresholds->memory_leak_medium
			      ? FINDING_LOW
			      : high_if(hour >= ctx->thresholds->memory_leak_high),
		      leak->bytes_per_s, &note);
}

/* Is this leak of the heap the one that a framework's tensors show? */
static bool is_reported(const struct rules_ctx *ctx, const struct profile_hotspot *hotspot,
			const struct hotspot_trend *trend)
{
	for (size_t i = 0; i < ctx->process->memory_count; i++) {
		const struct profile_memory *memory = &ctx->process->memory[i];

		for (size_t k = 0;
		     memory->domain == PERFX_DOMAIN_TENSOR && k < memory->hotspots_count; k++) {
			const struct hotspot_trend *other = &ctx->memory[i].trends[k];

			if (other->leak && memory->hotspots[k].context == hotspot->context &&
			    fabs(other->slope_bytes_per_s - trend->slope_bytes_per_s) <=
				    ctx->thresholds->memory_leak_same * trend->slope_bytes_per_s)
				return true;
		}
	}
	return false;
}

static size_t places_kept(const struct leak *leak)
{
	return leak->places_count < LEAK_PLACES_KEPT ? leak->places_count : LEAK_PLACES_KEPT;
}

/* Adds a hotspot to its place. A line of Python is one place, however many native callers it has.
 * Hotspots are in the order of their size: beyond the first places it is not looked for equal ones.
 */
static void add_place(const struct rules_ctx *ctx, struct leak *leak, size_t hotspot)
{
	const struct profile_hotspot *hotspots = leak->memory->hotspots,
				     *added = &hotspots[hotspot];
	double slope = trend_of(ctx, leak, hotspot)->slope_bytes_per_s;
	size_t kept = places_kept(leak), first = location_first(leak->memory, added);
	const struct profile_frame *frame =
		first < added->frames_count ? added->frames[first] : NULL;

	for (size_t i = 0; i < kept && frame; i++) {
		const struct profile_hotspot *known = &hotspots[leak->places[i].hotspot];

		first = location_first(leak->memory, known);
		if (first == known->frames_count || !frame->line ||
		    frame->language != PERFX_LANGUAGE_PYTHON ||
		    !frame_is_same_line(known->frames[first], frame))
			continue;
		leak->places[i].bytes_per_s += slope;
		return;
	}
	if (kept < LEAK_PLACES_KEPT)
		leak->places[kept] = (struct leak_place){hotspot, slope};
	leak->places_count++;
}

ORDER(by_slope, struct leak_place, DESCENDING(a->bytes_per_s, b->bytes_per_s),
      ASCENDING(a->hotspot, b->hotspot))

static void leaks_of(struct rules_ctx *ctx, size_t domain)
{
	const struct profile_memory *memory = &ctx->process->memory[domain];
	struct leak leak = {.memory = memory, .unseen = true, .oldest_ns = UINT64_MAX};

	for (size_t i = 0; i < memory->hotspots_count; i++) {
		const struct profile_hotspot *hotspot = &memory->hotspots[i];
		const struct hotspot_trend *trend = trend_of(ctx, &leak, i);

		if (!trend->leak ||
		    (memory->domain == PERFX_DOMAIN_HOST && is_reported(ctx, hotspot, trend)))
			continue;
		leak.bytes_per_s += trend->slope_bytes_per_s;
		leak.unseen &= trend->unseen;
		leak.live_count += hotspot->live_count;
		leak.live_bytes += hotspot->live_bytes;
		if (hotspot->oldest_ns < leak.oldest_ns)
			leak.oldest_ns = hotspot->oldest_ns;
		add_place(ctx, &leak, i);
	}
	if (!leak.places_count)
		return;
	qsort(leak.places, places_kept(&leak), sizeof(leak.places[0]), by_slope);
	file_leak(ctx, &leak);
}

static void peak_memory(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	const struct thresholds *t = ctx->thresholds;
	double host_bytes = (double)((uint64_t)ctx->profile->memory_mib << 20);
	double peak_bytes = (double)memory->peak_bytes;
	bool tight = host_bytes > 0 && ctx->process->rss_peak_bytes != PROFILE_ABSENT &&
		     memory->domain != PERFX_DOMAIN_GPU &&
		     (double)ctx->process->rss_peak_bytes >=
			     ctx->thresholds->peak_memory_medium * host_bytes;
	struct note note = {.bottleneck = BOTTLENECK_MEMORY};

	/* what the program calls its own is not reported as a part of anything */
	if (memory->peak_bytes == PROFILE_ABSENT || memory->domain == PERFX_DOMAIN_USER ||
	    memory_is_reserved(ctx->process, memory) ||
	    (memory->domain == PERFX_DOMAIN_GPU && peak_bytes < t->peak_memory_gpu_bytes) ||
	    (memory->domain != PERFX_DOMAIN_GPU &&
	     (peak_bytes < t->peak_memory_bytes || ctx->process->rss_peak_bytes == PROFILE_ABSENT ||
	      peak_bytes < t->peak_memory_share * (double)ctx->process->rss_peak_bytes)))
		return;
	text_printf(&note.subject, "%s of ", memory_words(memory));
	add_process_name(&note.subject, ctx->process);
	text_printf(&note.evidence, "peak of %s, %s after the start", as_bytes(memory->peak_bytes),
		    as_ns(memory->peak_ns > ctx->profile->start_ns
				  ? memory->peak_ns - ctx->profile->start_ns
				  : 0));
	if (memory->domain != PERFX_DOMAIN_GPU)
		text_printf(&note.evidence, " (peak RSS %s)",
			    as_bytes(ctx->process->rss_peak_bytes));
	for (size_t i = 0; i < memory->hotspots_count && i < PEAK_PLACES; i++) {
		const struct profile_hotspot *hotspot = &memory->hotspots[i];

		if (hotspot->live_at_peak_bytes == PROFILE_ABSENT || !hotspot->live_at_peak_bytes)
			break;
		text_printf(&note.evidence, "%s%s from ", i ? ", " : ": ",
			    as_percent((double)hotspot->live_at_peak_bytes / peak_bytes));
		location_hotspot(&note.evidence, ctx->profile, memory, hotspot);
	}
	if (memory->domain == PERFX_DOMAIN_GPU)
		text_printf(&note.threshold, "a peak of at least %g GiB",
			    ctx->thresholds->peak_memory_gpu_bytes / (1 << 30));
	rules_ctx_add(ctx, "PeakMemory", tight ? FINDING_MEDIUM : FINDING_LOW,
		      (double)memory->peak_bytes, &note);
}

void rules_memory(struct rules_ctx *ctx)
{
	for (size_t i = 0; i < ctx->process->memory_count; i++) {
		leaks_of(ctx, i);
		peak_memory(ctx, &ctx->process->memory[i]);
	}
}

/* An allocation and its free cost an allocator some 50 ns when no other thread wants the same
 * arena, and more in caches that they spoil. */
#define CHURN_PAIR_NS 50

/* The domain whose blocks are host memory: the heap, else tensors. */
static const struct profile_memory *traced_memory(const struct rules_ctx *ctx)
{
	FOR_EACH (memory, ctx->process->memory)
		if (domain_is_resident(memory->domain) && memory->current_bytes != PROFILE_ABSENT &&
		    !memory->bound &&
		    (double)memory->recorded_ns >= ctx->thresholds->memory_leak_recorded *
							   (double)profile_wall_ns(ctx->process))
			return memory;
	return NULL;
}

/* "resident memory grew steadily from 8.91 MiB to 12.0 MiB: 202 KiB/s (first half 204 KiB/s, second
 * half 200 KiB/s; R² 1.00 over 60 samples)" */
static void add_growth(struct text *text, const struct line *line, enum rss_part part)
{
	static const char *const words[] = {"", "anonymous ", "shared "};

	text_printf(text, "%sresident memory grew steadily from %s to %s", words[part],
		    as_bytes(u64_of(line->first)), as_bytes(u64_of(line->last)));
	text_printf(text, ": %s/s (first half %s/s, second half %s/s; R² %.2f over %zu samples)",
		    as_bytes(u64_of(line->per_s)), as_bytes(u64_of(line->early)),
		    as_bytes(u64_of(line->late)), line->straightness, line->points_count);
}

/* Blocks of the first half of the recording that live: those of the last step are none. */
static uint64_t old_bytes_of(const struct profile_memory *memory)
{
	uint64_t bytes = 0;

	FOR_EACH (hotspot, memory->hotspots)
		bytes += hotspot->old_bytes;
	return bytes;
}

/* As much of what grows is in blocks that are traced, in the first half of the time. */
#define GROWTH_TRACED 0.25

/* Fewer sampled blocks do not say where it grows; nor do Python's, which takes memory for small
 * objects by the MiB, at the line that needs the next of them. */
#define GROWTH_BLOCKS 5

/* "; of the blocks that stay 92.0 % are of keep (leak.c:5), by a sample" */
static void add_growing_place(struct note *note, const struct profile_memory *memory)
{
	struct lines lines = {0};
	uint64_t blocks = 0;
	struct place lead;

	FOR_EACH (hotspot, memory->hotspots) {
		size_t first = location_first(memory, hotspot);

		if (first < hotspot->frames_count)
			lines_add(&lines, hotspot->frames[first], hotspot->old_bytes);
	}
	lead = lines_lead(&lines);
	if (!lead.frame || !lead.ns)
		return;
	FOR_EACH (hotspot, memory->hotspots) {
		size_t first = location_first(memory, hotspot);

		if (first < hotspot->frames_count &&
		    frame_is_same_function(hotspot->frames[first], lead.frame))
			blocks += hotspot->live_count;
	}
	if (memory->sampled
		    ? lead.ns < GROWTH_BLOCKS * memory->sample_bytes
		    : lead.frame->language == PERFX_LANGUAGE_PYTHON && blocks < GROWTH_BLOCKS)
		return;
	note->place = lead.frame;
	text_printf(&note->evidence, "; of the blocks that stay %s are of ",
		    as_percent((double)lead.ns / (double)old_bytes_of(memory)));
	location_place(&note->evidence, lead.frame);
	text_add(&note->evidence, memory->sampled ? ", by a sample" : "");
}

/* "MEMORY: python3 (pid 42) grows by 202 KiB/s, 710 MiB per hour: --memory all shows where" */
static void growth_headline(struct text *text, const struct rules_ctx *ctx, const struct note *note,
			    double bytes_per_s, enum rss_part part)
{
	const char *option = part == RSS_SHMEM ? NULL : growth_option_words(ctx->process);

	if (part == RSS_SHMEM)
		text_add(text, "shared memory (files of /dev/shm, memfd) in ");
	add_process_name(text, ctx->process);
	text_printf(text, " grows by %s/s, %s per hour", as_bytes(u64_of(bytes_per_s)),
		    as_bytes(u64_of(bytes_per_s * 3600)));
	if (note->place)
		text_printf(text, ", mostly in %s", text_peek(&note->subject));
	else if (option)
		text_printf(text, ": %s", option);
}

static void suggest_for_growth(struct text *text, const struct rules_ctx *ctx,
			       const struct note *note)
{
	const char *option = growth_option(ctx->process);

	text_add(text, "A leak, or a cache without a limit: in training loops often tensors kept "
		       "with their graph (append loss.item(), not loss) or lists that only grow. ");
	if (note->place)
		text_add(text, "A longer recording (-d 3m) shows whether it levels off.");
	else if (option)
		text_printf(text,
			    "Record every block for a minute or more to see where it is allocated "
			    "and whether it levels off (%s -d 1m).",
			    option);
	else
		text_add(text, "A longer recording (-d 3m) shows where it is allocated and whether "
			       "it levels off; start a Python program with PYTHONMALLOC=malloc, or "
			       "its small objects are recorded by the MiB.");
}

static void memory_growth(struct rules_ctx *ctx)
{
	enum rss_part part = ctx->growth->part;
	const struct line *line = &ctx->growth->parts[part];
	struct note note = {.bottleneck = BOTTLENECK_MEMORY};
	const struct profile_memory *memory = traced_memory(ctx);
	double bytes_per_s = line->per_s;

	add_growth(&note.evidence, line, part);
	if (part != RSS_SHMEM && memory &&
	    (double)old_bytes_of(memory) >= GROWTH_TRACED * line->growth)
		add_growing_place(&note, memory);
	rules_subject(&note, ctx);
	growth_headline(&note.headline, ctx, &note, bytes_per_s, part);
	if (part == RSS_SHMEM)
		text_add(&note.suggestion, TRY_SHARED_SEGMENTS);
	else
		suggest_for_growth(&note.suggestion, ctx, &note);
	rules_ctx_add(ctx, "MemoryGrowth",
		      bytes_per_s * 3600 < ctx->thresholds->memory_leak_medium ? FINDING_LOW
									       : FINDING_MEDIUM,
		      line->growth / (line->first + 1), &note);
}

/* From traced blocks only; the exit of a process frees what it kept. */
static uint64_t kept_bytes(const struct rules_ctx *ctx, const struct profile_memory *memory)
{
	return ctx->process->exited && memory->peak_bytes != PROFILE_ABSENT ? memory->peak_bytes
									    : memory->current_bytes;
}

/* Resident memory grows, and for the most part not by what is traced. Returns whether it is so. */
static bool untraced_memory(struct rules_ctx *ctx)
{
	const struct thresholds *t = ctx->thresholds;
	const struct profile_memory *memory = traced_memory(ctx);
	const struct line *line = &ctx->growth->parts[RSS_ANON];
	struct note note = {.bottleneck = BOTTLENECK_MEMORY};
	bool leaks;
	double rest;

	if (!(memory && (memory->domain == PERFX_DOMAIN_HOST ? !memory->sampled
							     : memory->allocs.value > 0)) ||
	    !line->is_steady)
		return false;
	rest = line->growth - (double)kept_bytes(ctx, memory);
	if (rest <= ctx->thresholds->untraced_memory_explained * line->growth ||
	    rest < ctx->thresholds->memory_growth_bytes)
		return false;
	leaks = ctx->memory[memory - ctx->process->memory].leaks_count;
	add_growth(&note.evidence, line, RSS_ANON);
	text_printf(&note.evidence, "; traced %s grew by %s/s%s; the other %s/s are untraced",
		    memory_words(memory),
		    as_bytes(u64_of(rate_of(ctx->process, kept_bytes(ctx, memory)))),
		    leaks ? " (see the leak)" : "",
		    as_bytes(u64_of(rate_of(ctx->process, (uint64_t)rest))));
	growth_headline(&note.headline, ctx, &note, line->per_s, RSS_ANON);
	text_printf(&note.threshold,
		    "growth of at least %g MiB, R² of at least %g, the second half at least %g %% "
		    "of the first one, each eighth at least %g %% of an even share; at least %g %% "
		    "and %g MiB of it untraced",
		    t->memory_growth_bytes / (1 << 20), t->memory_growth_straightness,
		    t->memory_growth_halves * 100, t->memory_growth_part * 100,
		    (1 - t->untraced_memory_explained) * 100, t->memory_growth_bytes / (1 << 20));
	text_add(&note.suggestion,
		 memory->domain == PERFX_DOMAIN_HOST ? TRY_UNTRACED_HEAP : TRY_UNTRACED_BY_TENSORS);
	rules_ctx_add(ctx, "UntracedMemory", leaks ? FINDING_LOW : FINDING_MEDIUM,
		      rest / (line->first + 1), &note);
	return true;
}

static void add_busiest(struct text *text, const struct rules_ctx *ctx,
			const struct profile_memory *memory, bool by_bytes)
{
	const struct profile_hotspot *hotspot = NULL;
	double part, whole;

	FOR_EACH (other, memory->hotspots)
		if (!hotspot ||
		    (by_bytes ? other->allocated_bytes.value > hotspot->allocated_bytes.value
			      : other->allocs.value > hotspot->allocs.value))
			hotspot = other;
	if (!hotspot)
		return;
	part = (double)(by_bytes ? hotspot->allocated_bytes.value : hotspot->allocs.value);
	whole = (double)(by_bytes ? memory->allocated_bytes.value : memory->allocs.value);
	text_printf(text, "; %s%s", as_percent(whole > 0 ? part / whole : 0),
		    by_bytes ? " of the bytes in " : " of them in ");
	location_hotspot(text, ctx->profile, memory, hotspot);
}

/* While it was recorded: a duty cycle sees a part of the time. */
static double recorded_rate(const struct profile_memory *memory, uint64_t count)
{
	return memory->recorded_ns ? (double)count * 1e9 / (double)memory->recorded_ns : 0;
}

/* The lower bound of an estimate: one sampled block of ten bytes stands for fifty thousand. */
static void host_churn(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	double rate = recorded_rate(memory, memory->allocs.low);
	struct note note = {.bottleneck = BOTTLENECK_MEMORY, .look = "Memory"};

	if (rate < ctx->thresholds->memory_churn_low)
		return;
	text_printf(&note.evidence, "%s%s heap allocations/s", memory->sampled ? "at least " : "",
		    as_count(u64_of(rate)));
	if (memory->current_bytes != PROFILE_ABSENT && memory->temporary_count != PROFILE_ABSENT &&
	    memory->allocs.value && !memory->sampled)
		text_printf(
			&note.evidence,
			", %s of them freed by the same thread's next allocator call",
			as_percent((double)memory->temporary_count / (double)memory->allocs.value));
	add_busiest(&note.evidence, ctx, memory, false);
	text_printf(&note.evidence, "; at %d ns per malloc and free, they take %s of one CPU",
		    CHURN_PAIR_NS, as_percent(rate * CHURN_PAIR_NS / 1e9));
	text_add(&note.suggestion, TRY_REUSE_BUFFERS);
	rules_ctx_add(ctx, "MemoryChurn", medium_if(rate >= ctx->thresholds->memory_churn_medium),
		      rate, &note);
}

static void gpu_churn(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	double rate = recorded_rate(memory, memory->allocs.value);
	struct note note = {.bottleneck = BOTTLENECK_MEMORY, .look = "Memory"};

	if (rate < ctx->thresholds->memory_churn_gpu_per_s)
		return;
	text_printf(&note.evidence, "%s device memory allocations/s", as_count(u64_of(rate)));
	add_busiest(&note.evidence, ctx, memory, false);
	text_printf(&note.threshold, "at least %g/s", ctx->thresholds->memory_churn_gpu_per_s);
	text_add(&note.suggestion, TRY_REUSE_GPU_BLOCKS);
	rules_ctx_add(ctx, "MemoryChurn", FINDING_MEDIUM, rate, &note);
}

static void tensor_churn(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	const struct profile_process *p = ctx->process;
	double rate = recorded_rate(memory, memory->allocated_bytes.value), system;
	double probes = 0, hits = 0, size = 0;
	struct note note = {.bottleneck = BOTTLENECK_MEMORY};

	/* probes run in the kernel */
	FOR_EACH (process, ctx->profile->processes)
		hits += (double)process->seen_hits_count;
	if (hits > 0)
		probes = ctx->profile->overhead_ns * (double)p->seen_hits_count / hits;
	if (p->cpu_ns == PROFILE_ABSENT || (double)p->cpu_ns <= probes ||
	    p->cpu_system_ns == PROFILE_ABSENT)
		return;
	system = fmax((double)p->cpu_system_ns - probes, 0) / ((double)p->cpu_ns - probes);
	if (memory->allocs.value)
		size = (double)(memory->allocated_bytes.value / memory->allocs.value);
	if (rate < ctx->thresholds->tensor_churn_bytes_per_s ||
	    size < ctx->thresholds->tensor_churn_bytes ||
	    system < ctx->thresholds->tensor_churn_low)
		return;
	text_printf(&note.evidence,
		    "%s/s of tensors allocated, %s each on average; %s of the CPU time is spent "
		    "in the kernel, without that of probes",
		    as_bytes(u64_of(rate)), as_bytes(u64_of(size)), as_percent(system));
	add_busiest(&note.evidence, ctx, memory, true);
	rules_ctx_add(ctx, "TensorChurn", medium_if(system >= ctx->thresholds->tensor_churn_medium),
		      system, &note);
}

void rules_heap(struct rules_ctx *ctx)
{
	double seconds = (double)profile_wall_ns(ctx->process) / 1e9, leaked = 0;
	double growth = ctx->growth->parts[ctx->growth->part].growth;

	for (size_t i = 0; i < ctx->process->memory_count; i++)
		if (domain_is_resident(ctx->process->memory[i].domain))
			leaked = fmax(leaked, ctx->memory[i].leaks_bytes_per_s * seconds);
	/* leaks may already say where resident memory goes */
	if (!untraced_memory(ctx) && ctx->growth->grows &&
	    leaked < ctx->thresholds->untraced_memory_explained * growth)
		memory_growth(ctx);
	FOR_EACH (memory, ctx->process->memory) {
		if (memory->domain == PERFX_DOMAIN_HOST)
			host_churn(ctx, memory);
		if (memory->domain == PERFX_DOMAIN_TENSOR)
			tensor_churn(ctx, memory);
		if (memory->domain == PERFX_DOMAIN_GPU)
			gpu_churn(ctx, memory);
	}
}
