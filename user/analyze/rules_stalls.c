// SPDX-License-Identifier: BSD-2-Clause
/* Rules about interruptions of a training: slow steps, periodic or not, and garbage collection. */
#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/rules_ctx.h"
#include "analyze/slow_steps.h"
#include "analyze/stack_kind.h"
#include "base/escape.h"
#include "base/order.h"
#include "remedy_texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "torch.save" */
static void add_callee(struct text *text, const struct profile_frame *frame)
{
	const char *package = "";
	size_t length = location_package(frame->file, &package);
	const char *library = strstr(frame->file, "/lib/python3");
	struct text name = {0}, shortened = {0};

	/* also of the standard library: "gzip" of /usr/lib/python3.11/gzip.py */
	library = !length && library ? strchr(library + strlen("/lib/"), '/') : NULL;
	if (library)
		length = location_module(library + 1, &package);
	text_add_bytes(&name, package, length);
	text_printf(&name, "%s%s", length ? "." : "", frame_label(frame));
	utf8_shorten(&shortened, text_peek(&name), 60);
	escape_name(text, text_peek(&shortened));
	text_clear(&name);
	text_clear(&shortened);
}

/* A part with this share of the extra time is the cause. */
#define MAIN_CAUSE 0.50

static bool is_mostly(const struct slow_cause *cause, enum slow_part part)
{
	return cause->parts[part] >= MAIN_CAUSE * cause->extra_ns && cause->extra_ns > 0;
}

/* Work that ordinary steps do not have makes a step slow even if that work waits for CPUs. */
static bool lacks_cpus_mostly(const struct slow_cause *cause)
{
	bool is_work = cause->place_is_new && cause->place_ns >= MAIN_CAUSE * cause->extra_ns;

	return is_mostly(cause, SLOW_NO_CPU) && !is_work;
}

/* A smaller share is not reported. */
#define PART_SHARE 0.10

static void add_part(struct text *text, const struct slow_cause *cause, enum slow_part part,
		     const char *words, const char *name)
{
	double share = cause->parts[part] / cause->extra_ns;

	if (share < PART_SHARE)
		return;
	text_printf(text, "; %s %s", as_percent(fmin(share, 1)), words);
	if (!name[0])
		return;
	text_add(text, " (");
	escape_name(text, name);
	text_add(text, ")");
}

/* Are there enough samples of these steps? */
static bool is_known(const struct rules_ctx *ctx, const struct slow_cause *cause)
{
	return (double)cause->samples_count >= ctx->thresholds->all_cause_samples &&
	       cause->extra_ns > 0;
}

static void add_place(struct text *text, const struct slow_cause *cause)
{
	if (!cause->place)
		return;
	location_place(text, cause->place);
	location_after(text, ", for ", cause->caller);
	if (is_mostly(cause, SLOW_COMPILES)) {
		text_add(text, ", which compiles");
		return;
	}
	if (!cause->callee)
		return;
	text_add(text, ", which calls ");
	add_callee(text, cause->callee);
}

static enum profile_phase main_phase(const struct slow_cause *cause)
{
	enum profile_phase most = PROFILE_PHASE_OTHER;

	for (int i = 0; i < PROFILE_PHASES; i++)
		if (cause->phases[i] > cause->phases[most])
			most = (enum profile_phase)i;
	return most;
}

static void add_cause(struct text *text, const struct rules_ctx *ctx,
		      const struct slow_cause *cause)
{
	if (!is_known(ctx, cause)) {
		text_printf(text, "; most of it is %s", profile_phase_name(main_phase(cause)));
		return;
	}
	if (cause->place && !lacks_cpus_mostly(cause) && !is_mostly(cause, SLOW_STOPPED)) {
		text_printf(text, "; %s of that in ",
			    as_percent(fmin(cause->place_ns / cause->extra_ns, 1)));
		add_place(text, cause);
	}
	add_part(text, cause, SLOW_DISK, "waits for the disk", cause->file);
	add_part(text, cause, SLOW_FAULTS, "waits for pages that are not in memory", "");
	add_part(text, cause, SLOW_NO_CPU, "without a CPU", cause->rival);
	add_part(text, cause, SLOW_STOPPED, "stopped by a signal, a debugger or a freezer", "");
	add_part(text, cause, SLOW_GIL, "waits for the GIL", "");
	if (!is_mostly(cause, SLOW_COMPILES))
		add_part(text, cause, SLOW_WAITS, "waits for something else", "");
	add_part(text, cause, SLOW_COLLECTS, "collects garbage", "");
}

static const struct stall_remedy {
	const char *const *words; /* in the names of functions that stall a step */
	const char *remedy;
} stall_remedies[] = {
	{(const char *const[]){"save", "checkpoint", "dump", "fsync", NULL}, TRY_CHECKPOINTS},
	{(const char *const[]){"DataLoader", NULL}, TRY_LOADER_RESTARTS},
	{(const char *const[]){"log", "print", "summary", "report", "track", "plot", NULL},
	 TRY_LOGGING},
	{(const char *const[]){"eval", "valid", "test", "metric", "sample", "generate", NULL},
	 "Evaluate less often, on fewer batches, or in another process from a checkpoint."},
	{(const char *const[]){"Trainer.fit", NULL}, TRY_EPOCHS},
};

#define DISK_REMEDY 0
#define DISK_STALL  0.30 /* share of the extra time in waits for the disk */

static bool has_word(const struct profile_frame *frame, const char *const *words)
{
	for (; frame && *words; words++)
		if (strcasestr(frame->function, *words))
			return true;
	return false;
}

static const char *stall_remedy(const struct slow_cause *cause)
{
	if (is_mostly(cause, SLOW_COMPILES))
		return remedy_text(REMEDY_COMPILE);
	for (size_t i = 0; i < sizeof(stall_remedies) / sizeof(stall_remedies[0]); i++)
		if (has_word(cause->place, stall_remedies[i].words) ||
		    has_word(cause->callee, stall_remedies[i].words))
			return stall_remedies[i].remedy;
	if (cause->parts[SLOW_DISK] >= DISK_STALL * cause->extra_ns && cause->extra_ns > 0)
		return stall_remedies[DISK_REMEDY].remedy;
	return "Do it less often, make it cheaper, or do it in another thread or process.";
}

static const char *ordinal_suffix(size_t number)
{
	static const char *const suffixes[] = {"th", "st", "nd", "rd"};
	bool is_teen = number % 100 >= 11 && number % 100 <= 13;

	return is_teen || number % 10 > 3 ? "th" : suffixes[number % 10];
}

/* "every 20th step takes 57.4 ms more" */
static void add_period(struct text *text, const struct slow_steps *slow, const char *step)
{
	text_printf(text, "every %zu%s%s takes %s more", slow->period, ordinal_suffix(slow->period),
		    step, as_ns(u64_of(slow->periodic_ns / (double)slow->periodic_count)));
}

static void write_periodic(struct note *note, const struct rules_ctx *ctx,
			   const struct slow_steps *slow, const struct slow_cause *cause)
{
	const struct profile_steps *steps = &ctx->process->steps;

	rules_subject(note, ctx);
	add_period(&note->evidence, slow, " step");
	text_printf(&note->evidence,
		    " than the median of %s (%zu of %zu times): %s, %s of each step",
		    as_ns(slow->ordinary_ns), slow->periodic_count, slow->expected_count,
		    as_ns(u64_of(note->gain_ns)), as_percent(note->share));
	add_cause(&note->evidence, ctx, cause);
	text_printf(&note->headline, "%s of each %s step, as ", as_percent(note->share),
		    as_ns(steps->avg_ns));
	add_period(&note->headline, slow, "");
	if (cause->place && is_known(ctx, cause)) {
		text_add(&note->headline, ", in ");
		add_place(&note->headline, cause);
	}
	text_printf(&note->threshold,
		    "at least %.0f %% of the step time, of steps at least %.0f %% longer than the "
		    "median, at a confidence of %.0f %%",
		    ctx->thresholds->periodic_stall_low * 100,
		    (ctx->thresholds->periodic_stall_slow - 1) * 100,
		    ctx->thresholds->periodic_stall_confidence * 100);
	rules_suggest(note, ctx, stall_remedy(cause));
}

/* Extra time of the periodic steps, relative to the other steps. */
static double periodic_share(const struct rules_ctx *ctx, const struct slow_steps *slow)
{
	double unit_ns = rules_unit_ns(ctx), steps_count = (double)slow->steps_count;

	return slow->period && steps_count > 0 ? slow->periodic_ns / steps_count / unit_ns : 0;
}

static void periodic_stall(struct rules_ctx *ctx, const struct slow_steps *slow)
{
	double share = periodic_share(ctx, slow);
	struct note note = {.bottleneck = BOTTLENECK_STALL,
			    .gain_ns = share * rules_unit_ns(ctx),
			    .confidence = slow->confidence,
			    .share = share};
	struct slow_cause cause;

	if (!slow->period || share < ctx->thresholds->periodic_stall_low)
		return;
	if (slow_steps_cause(&cause, slow, ctx->process, true)) {
		ctx->failed = true;
		return;
	}
	/* other rules cover every step, not only the slow ones */
	if (main_phase(&cause) == PROFILE_PHASE_OPTIMIZER ||
	    (cause.callee && strstr(cause.callee->file, "/optim/")) ||
	    is_mostly(&cause, SLOW_COLLECTS) ||
	    (main_phase(&cause) == PROFILE_PHASE_DATA && rules_data_bound(ctx)))
		return;
	if (is_mostly(&cause, SLOW_COMPILES))
		note.bottleneck = BOTTLENECK_RECOMPILATION;
	else if (is_mostly(&cause, SLOW_STOPPED))
		note.bottleneck = BOTTLENECK_STOPPED;
	else if (main_phase(&cause) == PROFILE_PHASE_DATA)
		note.bottleneck = BOTTLENECK_INPUT;
	note.place = is_known(ctx, &cause) ? cause.place : NULL;
	write_periodic(&note, ctx, slow, &cause);
	rules_ctx_add(ctx, "PeriodicStall", rules_severity(ctx, note.gain_ns), share, &note);
}

static enum bottleneck bottleneck_of(const struct slow_cause *cause)
{
	if (lacks_cpus_mostly(cause))
		return BOTTLENECK_CONTENTION;
	if (is_mostly(cause, SLOW_COMPILES))
		return BOTTLENECK_RECOMPILATION;
	if (is_mostly(cause, SLOW_STOPPED))
		return BOTTLENECK_STOPPED;
	if (is_mostly(cause, SLOW_DISK) || is_mostly(cause, SLOW_FAULTS))
		return BOTTLENECK_DISK;
	return BOTTLENECK_STALL;
}

/* At most this share of all steps may be slow. */
#define FEW_STEPS 0.10
/* The slowest steps that are named have this share of the lost time of all slow steps. */
#define FEW_COVER 0.90

/* Each of them loses at least this time on average, in median steps and in ns. Smaller losses are
 * ordinary variation (a boosting round grows a larger tree), or a thread of the pool lost its CPU
 * for a time slice. */
#define FEW_TIMES    4
#define FEW_EXTRA_NS 10000000.0

/* The slowest steps outside of the period; count 0: there are none, or too many. */
struct few_steps {
	size_t count;
	double extra_ns; /* extra time beyond the median, of all of them */
	double share;	 /* extra time relative to the time of all steps */
};

/* The extra time of each slow step that is not periodic, in ascending order. Returns their count.
 */
static size_t find_extras(uint64_t *extras_ns, const struct profile_steps *steps,
			  const struct slow_steps *slow)
{
	size_t count = 0;

	for (size_t i = 0; i < steps->times_count; i++)
		if (slow_steps_is_slow(slow, &steps->times[i]) && !slow_steps_is_periodic(slow, i))
			extras_ns[count++] =
				steps->times[i].to_ns - steps->times[i].from_ns - slow->ordinary_ns;
	qsort(extras_ns, count, sizeof(*extras_ns), compare_u64);
	return count;
}

static struct few_steps few_steps_of(struct rules_ctx *ctx, const struct slow_steps *slow)
{
	const struct profile_steps *steps = &ctx->process->steps;
	uint64_t *extras_ns = calloc(steps->times_count + 1, sizeof(*extras_ns));
	struct few_steps few = {0};
	double all_ns = 0, extra_ns = 0, least_ns;
	size_t count;

	if (!extras_ns) {
		ctx->failed = true;
		return few;
	}
	for (size_t i = 0; i < steps->times_count; i++)
		all_ns += (double)(steps->times[i].to_ns - steps->times[i].from_ns);
	count = find_extras(extras_ns, steps, slow);
	for (size_t i = 0; i < count; i++)
		extra_ns += (double)extras_ns[i];
	while (few.count < count && few.extra_ns < FEW_COVER * extra_ns)
		few.extra_ns += (double)extras_ns[count - ++few.count];
	free(extras_ns);
	few.share = all_ns > 0 ? few.extra_ns / all_ns : 0;
	least_ns = (double)few.count * fmax(FEW_TIMES * (double)slow->ordinary_ns, FEW_EXTRA_NS);
	if ((double)few.count > FEW_STEPS * (double)steps->times_count ||
	    few.share < ctx->thresholds->uneven_steps_few || few.extra_ns < least_ns)
		return (struct few_steps){0};
	return few;
}

/* "STALLED: 29.0 % of each 2.56 ms step, as 34 of 2,344 steps take 51.1 ms more on average, in fit
 * (train.py:12)" */
static void write_few(struct note *note, const struct rules_ctx *ctx, const struct few_steps *few,
		      const struct slow_cause *cause)
{
	const struct profile_steps *steps = &ctx->process->steps;

	text_printf(&note->headline, "%s of each %s step, as %s of %s steps take %s more%s",
		    as_percent(note->share), as_ns(steps->avg_ns), as_count(few->count),
		    as_count(steps->times_count), as_ns(u64_of(few->extra_ns / (double)few->count)),
		    few->count > 1 ? " on average" : "");
	if (!is_known(ctx, cause) || !cause->place)
		return;
	text_add(&note->headline, ", in ");
	add_place(&note->headline, cause);
}

static void write_uneven(struct note *note, const struct rules_ctx *ctx,
			 const struct slow_cause *cause, size_t few_count)
{
	const struct profile_steps *steps = &ctx->process->steps;

	text_printf(&note->evidence, "%s steps: median %s, p95 %s, longest %s",
		    as_count(steps->count), as_ns(steps->p50_ns), as_ns(steps->p95_ns),
		    as_ns(steps->max_ns));
	if (few_count)
		text_printf(&note->evidence, "; if the slowest %s took the median time, ",
			    as_count(few_count));
	else
		text_add(&note->evidence, "; if every step took the median time, ");
	text_printf(&note->evidence, "%s would be saved", as_percent(note->share));
	if (is_known(ctx, cause))
		add_cause(&note->evidence, ctx, cause);
	if (few_count && note->place) {
		rules_suggest(note, ctx, stall_remedy(cause));
		return;
	}
	text_add(&note->suggestion, is_mostly(cause, SLOW_STOPPED) ? TRY_STOPPED
				    : lacks_cpus_mostly(cause)	   ? TRY_LACKING_CPUS
								   : TRY_COMMON_CAUSE);
}

/* Another program has the CPUs: that finding covers all steps. */
static bool is_contended(const struct rules_ctx *ctx)
{
	for (size_t i = 0; i < ctx->findings_count; i++) {
		enum bottleneck bottleneck = ctx->findings[i].bottleneck;

		if (bottleneck == BOTTLENECK_CONTENTION ||
		    bottleneck == BOTTLENECK_OVERSUBSCRIBED || bottleneck == BOTTLENECK_THROTTLED)
			return true;
	}
	return false;
}

/* Each round of boosting grows another tree: where a step is one library call, longer computation
 * is ordinary variation. */
static bool is_own_variation(const struct rules_ctx *ctx, const struct slow_cause *cause)
{
	return ctx->process->steps.found_by == PROFILE_STEPS_BY_CALL &&
	       (!is_known(ctx, cause) || (is_mostly(cause, SLOW_RUNS) && !cause->place_is_new));
}

/* Time beyond the periodic extra time. */
static void uneven_steps(struct rules_ctx *ctx, const struct slow_steps *slow)
{
	const struct profile_steps *steps = &ctx->process->steps;
	double alike_ns = (double)steps->p50_ns * (double)steps->count;
	double share = 1 - alike_ns / (double)steps->total_ns - periodic_share(ctx, slow);
	struct few_steps few = few_steps_of(ctx, slow);
	struct note note = {};
	enum finding_severity severity;
	struct slow_cause cause;

	if (share < ctx->thresholds->uneven_steps_low && !few.count)
		return;
	if (slow_steps_cause(&cause, slow, ctx->process, false)) {
		ctx->failed = true;
		return;
	}
	/* it waits for a CPU, or for threads that may wait for one */
	if (is_mostly(&cause, SLOW_COLLECTS) ||
	    (is_contended(ctx) && cause.extra_ns > 0 &&
	     cause.parts[SLOW_NO_CPU] + cause.parts[SLOW_WAITS] >= MAIN_CAUSE * cause.extra_ns))
		return;
	note.bottleneck = bottleneck_of(&cause);
	if (lacks_cpus_mostly(&cause) || is_mostly(&cause, SLOW_STOPPED))
		few.count = 0;
	else if (is_known(ctx, &cause))
		note.place = cause.place;
	if (!few.count &&
	    (share < ctx->thresholds->uneven_steps_low ||
	     (share < ctx->thresholds->uneven_steps_medium && is_own_variation(ctx, &cause))))
		return;
	note.share = few.count ? few.share : share;
	note.gain_ns = note.share * rules_unit_ns(ctx);
	severity = medium_if(share >= ctx->thresholds->uneven_steps_medium);
	if (few.count) {
		severity = rules_severity(ctx, note.gain_ns);
		write_few(&note, ctx, &few, &cause);
	}
	write_uneven(&note, ctx, &cause, few.count);
	rules_ctx_add(ctx, "UnevenSteps", severity, note.share, &note);
}

/* Its index in steps->times, from 1; 0: not found. */
static size_t captured_step(const struct rules_ctx *ctx)
{
	const struct profile_time_slice *slice = &ctx->profile->time_slice;
	const struct profile_steps *steps = &ctx->process->steps;
	uint64_t middle_ns = slice->step_from_ns + (slice->step_to_ns - slice->step_from_ns) / 2;

	if (!slice->step_to_ns || slice->step_process != ctx->process->index)
		return 0;
	for (size_t i = 0; i < steps->times_count; i++)
		if (steps->times[i].from_ns <= middle_ns && middle_ns < steps->times[i].to_ns)
			return i + 1;
	return 0;
}

/* "the step for which this was recorded took 1.20 s, 5.2 times the median of 231 ms; 93.0 % of that
 * in save (train.py:12); 80.0 % waits for the disk" */
static void write_captured(struct note *note, const struct rules_ctx *ctx, uint64_t step_ns,
			   const struct slow_cause *cause)
{
	uint64_t median_ns = ctx->process->steps.p50_ns;

	text_printf(&note->evidence,
		    "the step for which this was recorded took %s, %.1f times the median of %s",
		    as_ns(step_ns), (double)step_ns / (double)(median_ns ?: 1), as_ns(median_ns));
	add_cause(&note->evidence, ctx, cause);
	text_add(&note->headline, text_peek(&note->evidence));
	rules_suggest(note, ctx,
		      is_mostly(cause, SLOW_STOPPED) ? TRY_STOPPED
		      : lacks_cpus_mostly(cause)
			      ? "Other threads or programs use the CPUs: see which had them."
			      : stall_remedy(cause));
}

static void slow_step(struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;
	struct slow_steps slow = {.only = captured_step(ctx)};
	struct note note = {.confidence = 1};
	struct slow_cause cause;
	uint64_t step_ns;

	if (!slow.only)
		return;
	slow.least_ns = 2 * steps->p50_ns;
	step_ns = steps->times[slow.only - 1].to_ns - steps->times[slow.only - 1].from_ns;
	if (slow_steps_cause(&cause, &slow, ctx->process, false)) {
		ctx->failed = true;
		return;
	}
	note.bottleneck = bottleneck_of(&cause);
	if (is_known(ctx, &cause) && !lacks_cpus_mostly(&cause) && !is_mostly(&cause, SLOW_STOPPED))
		note.place = cause.place;
	note.share = (double)(step_ns - fmin(step_ns, steps->p50_ns)) / (double)steps->total_ns;
	note.gain_ns = note.share * rules_unit_ns(ctx);
	write_captured(&note, ctx, step_ns, &cause);
	rules_ctx_add(ctx, "SlowStep", FINDING_HIGH, note.share, &note);
}

static void write_garbage(struct note *note, const struct rules_ctx *ctx,
			  const struct sampled *collecting)
{
	const struct profile_steps *steps = &ctx->process->steps;

	rules_subject(note, ctx);
	text_printf(&note->evidence, "collecting garbage takes %s%s", as_percent(note->share),
		    rules_of_judged(ctx));
	if (steps->count)
		text_printf(&note->evidence, " (%s of each %s step)", as_ns(u64_of(note->gain_ns)),
			    as_ns(steps->avg_ns));
	if (note->place) {
		location_after(&note->evidence, ", mostly as ", note->place);
		text_add(&note->evidence, " allocates or asks for it");
	}
	text_add(&note->headline, text_peek(&note->evidence));
	text_printf(&note->evidence, " (%llu samples, standard error %.1f points)",
		    (unsigned long long)collecting->count,
		    collecting->error_ns / (double)ctx->driver->judged_ns * 100);
}

static void garbage_collection(struct rules_ctx *ctx)
{
	const struct sampled *collecting = &ctx->driver->collecting;
	double wall = (double)ctx->driver->judged_ns, share = (double)collecting->ns / wall;
	double error = collecting->error_ns / wall;
	double above = share - ctx->thresholds->garbage_collection_low;
	struct note note = {.bottleneck = BOTTLENECK_STALL,
			    .gain_ns = share * rules_unit_ns(ctx),
			    .confidence = confidence_above(above, error),
			    .place = collecting->lead.frame,
			    .share = share};

	if (!collecting->count || above < ctx->thresholds->garbage_collection_deviations * error)
		return;
	write_garbage(&note, ctx, collecting);
	rules_ctx_add(ctx, "GarbageCollection", rules_severity(ctx, note.gain_ns), share, &note);
}

/* False: there are too few steps. */
static bool find_slow(struct rules_ctx *ctx, struct slow_steps *slow)
{
	const struct profile_steps *steps = &ctx->process->steps;
	const struct slow_limits limits = {
		.least = ctx->thresholds->periodic_stall_slow,
		.deviations = ctx->thresholds->periodic_stall_deviations,
		.covered = ctx->thresholds->periodic_stall_covered,
		.confidence = ctx->thresholds->periodic_stall_confidence,
	};

	if ((double)steps->ends_count < ctx->thresholds->all_steps || !steps->total_ns)
		return false;
	if (slow_steps_find(slow, steps, &limits)) {
		ctx->failed = true;
		return false;
	}
	return true;
}

void add_slow_period(struct text *text, struct rules_ctx *ctx)
{
	struct slow_steps slow;

	if (!find_slow(ctx, &slow) || !slow.period)
		return;
	text_add(text, ": ");
	add_period(text, &slow, " step");
}

void rules_stalls(struct rules_ctx *ctx)
{
	struct slow_steps slow;

	slow_step(ctx);
	if (!rules_is_short(ctx))
		garbage_collection(ctx);
	if (!find_slow(ctx, &slow))
		return;
	periodic_stall(ctx, &slow);
	uneven_steps(ctx, &slow);
}
