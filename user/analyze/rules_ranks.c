// SPDX-License-Identifier: BSD-2-Clause
/* The rank of a job for which the others wait in each step, and what it does meanwhile. */
#include "analyze/location.h"
#include "analyze/ranks.h"
#include "analyze/rules_ctx.h"

/* A rank's own time by activity, and the class of its finding. */
static const struct {
	const char *words;
	enum bottleneck bottleneck;
} excesses[TIME_CLASSES] = {
	[TIME_COMPUTE] = {"computes", BOTTLENECK_COMPUTE},
	[TIME_NATIVE] = {"runs native code outside of operators", BOTTLENECK_COMPUTE},
	[TIME_PYTHON] = {"runs Python", BOTTLENECK_PYTHON},
	[TIME_INPUT] = {"prepares or awaits its data", BOTTLENECK_INPUT},
	[TIME_GIL] = {"waits for the GIL", BOTTLENECK_GIL},
	[TIME_LOCK] = {"waits for a lock", BOTTLENECK_LOCK},
	[TIME_DISK] = {"waits for the disk", BOTTLENECK_DISK},
	[TIME_OUTPUT] = {"waits for the reader of its output", BOTTLENECK_OUTPUT},
	[TIME_CHILD] = {"waits for a child process", BOTTLENECK_CHILD},
	[TIME_SLEEP] = {"sleeps", BOTTLENECK_SLEEP},
	[TIME_LAUNCH] = {"launches kernels", BOTTLENECK_LAUNCH},
	[TIME_GPU_SYNC] = {"waits for its GPU", BOTTLENECK_GPU_SYNC},
	[TIME_RUNNABLE] = {"waits for a CPU", BOTTLENECK_CONTENTION},
	[TIME_OTHER] = {"does what is not known", BOTTLENECK_NONE},
};

/* A finding of its own that says where that time goes. */
static const struct finding *cause_of(const struct rules_ctx *ctx, enum bottleneck bottleneck)
{
	const struct finding *cause = NULL;

	for (size_t i = 0; bottleneck && i < ctx->findings_count; i++) {
		const struct finding *finding = &ctx->findings[i];

		if (finding->bottleneck == bottleneck &&
		    (!cause || finding->gain_ns > cause->gain_ns))
			cause = finding;
	}
	return cause;
}

/* Python is known by line, whether it is much or not. */
static const struct profile_frame *frame_of_excess(const struct rules_ctx *ctx,
						   enum time_class excess)
{
	if (excess == TIME_PYTHON)
		return ctx->driver->python.lead.frame;
	if (excess == TIME_INPUT)
		return ctx->driver->data.lead.frame;
	return NULL;
}

/* "; before it make (pid 77) had the CPU (62.0 %); it may use 1 CPU, another rank 8": of the ranks
 * of the job on its machine. */
static void add_cpus(struct text *text, const struct rules_ctx *ctx, const struct rank_row *row)
{
	unsigned own = ctx->process->limits.cpus_count, others = 0;

	for (size_t i = 0; i < ctx->ranks->count; i++) {
		const struct rank_row *other_row = &ctx->ranks->rows[i];
		const struct profile_process *other = &ctx->profile->processes[other_row->process];

		if (other_row != row && other_row->leader == row->leader &&
		    other->merged == ctx->process->merged && other->limits.cpus_count > others)
			others = other->limits.cpus_count;
	}
	if (row->excess == TIME_RUNNABLE)
		add_who_had_cpus(text, ctx);
	if (own && own < others)
		text_printf(text, "; it may use %u CPU%s, another rank %u", own,
			    own == 1 ? "" : "s", others);
}

/* "rank 1 (pid 43) runs Python for 6.02 ms more than the others do, mostly in load (train.py:88)"
 */
static void add_cause(struct text *text, const struct rules_ctx *ctx, const struct rank_row *row,
		      const struct profile_frame *place)
{
	const struct finding *cause = cause_of(ctx, excesses[row->excess].bottleneck);

	text_printf(text, "it %s for %s more than the others do", excesses[row->excess].words,
		    as_ns(u64_of(row->excess_ns)));
	if (place) {
		location_after(text, ", mostly in ", place);
	} else if (cause && cause->of_function) {
		text_printf(text, ", mostly in %s", cause->subject);
	}
}

/* "; it is the last to come to 92.0 % of 412 collectives, 6.02 ms after the first on average" */
static void add_arrivals(struct text *text, const struct ranks *ranks, const struct rank_row *row)
{
	const struct skew *skew;
	const struct skew_rank *rank = skew_of_row(ranks, row, &skew);

	if (!rank)
		return;
	text_printf(text,
		    "; it is the last to come to %s of %s collectives, %s after the first on "
		    "average",
		    as_percent((double)rank->last_count / (double)skew->count),
		    as_count(skew->count), as_ns(u64_of(rank->late_ns)));
}

/* Before findings of the same gain: it has their causes. */
#define STRAGGLER_WEIGHT 2

void rules_straggler(struct rules_ctx *ctx)
{
	size_t at = (size_t)(ctx->process - ctx->profile->processes);
	const struct rank_row *row = ranks_of_process(ctx->ranks, at);
	const struct profile_rank *rank = &ctx->process->rank;
	struct note note = {.bottleneck = BOTTLENECK_COMMUNICATION};

	if (!row || !row->leads || !ctx->time->known ||
	    row->lead_ns < ctx->thresholds->straggler_share * row->step_ns)
		return;
	note.gain_ns = row->lead_ns;
	note.share = row->lead_ns / row->step_ns;
	note.confidence = confidence_above(
		row->lead_ns - ctx->thresholds->straggler_share * row->step_ns, row->lead_error_ns);
	if (note.confidence < ctx->thresholds->straggler_confidence)
		return;
	note.place = frame_of_excess(ctx, row->excess);
	note.look = "Ranks: the steps of each rank, and how long it waits for the others.";
	text_printf(&note.subject, "rank %u of %u, ", rank->rank, rank->world_size);
	add_process_name(&note.subject, ctx->process);
	text_printf(&note.evidence,
		    "the other ranks wait for it for %s of each %s step on average, it for them "
		    "for %s; its own part of a step is %s longer than any other's: ",
		    as_ns(u64_of(row->others_wait_ns)), as_ns(u64_of(row->step_ns)),
		    as_ns(u64_of(row->wait_ns)), as_ns(u64_of(row->lead_ns)));
	add_cause(&note.evidence, ctx, row, note.place);
	add_cpus(&note.evidence, ctx, row);
	add_arrivals(&note.evidence, ctx->ranks, row);
	text_printf(&note.headline, "rank %u holds up each step by %s of %s: ", rank->rank,
		    as_ns(u64_of(row->lead_ns)), as_ns(u64_of(row->step_ns)));
	add_cause(&note.headline, ctx, row, note.place);
	if (row->excess == TIME_RUNNABLE)
		add_who_had_cpus(&note.headline, ctx);
	FOR_EACH (finding, ctx->findings) {
		if (finding->gain_ns <= note.gain_ns)
			continue;
		finding->gain_ns = note.gain_ns;
		if (finding->severity < rules_severity(ctx, note.gain_ns))
			finding->severity = rules_severity(ctx, note.gain_ns);
	}
	rules_ctx_add(ctx, "Straggler", rules_severity(ctx, note.gain_ns), STRAGGLER_WEIGHT, &note);
}
