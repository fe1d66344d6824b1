// SPDX-License-Identifier: BSD-2-Clause
/* Rules about floating-point work: what of it is not known, and how far it is from what the host
 * can do. */
#include "analyze/roofline.h"
#include "analyze/rules_ctx.h"
#include "base/units.h"

/* Time in calls without a known cost, of those that should have one. */
#define UNREAD_LOW    0.10
#define UNREAD_MEDIUM 0.50
/* Of the wall time in calls that compute: below, the process does something else. */
#define COMPUTING_MIN 0.10
/* Model FLOPs utilisation. Well-tuned training reaches 0.3 to 0.5. */
#define UTILIZATION_LOW	   0.20
#define UTILIZATION_MEDIUM 0.05
/* Inclusive time of a function, of the wall time. */
#define BOUND_SHARE    0.10
#define BOUND_FINDINGS 3
/* An operator's dispatch costs a framework 2 to 10 µs: in calls this short it shows. */
#define SHORT_AVG_NS 100000

static void unread_compute(struct rules_ctx *ctx)
{
	const struct profile_compute *compute = &ctx->process->compute;
	double share = 1 - roofline_attributed(compute);
	const struct profile_row *most = NULL;
	struct note note = {0};

	if (share > 1) /* nothing was timed */
		share = (double)compute->cost.unread_count /
			((double)compute->cost.unread_count + (double)compute->cost.counted_count);
	if (!compute->cost.unread_count || share < UNREAD_LOW)
		return;
	for (size_t i = 0; i < ctx->process->rows_count; i++) {
		const struct profile_row *row = &ctx->process->rows[i];

		if (row->cost.unread_count &&
		    (!most || row->cost.unread_count > most->cost.unread_count))
			most = row;
	}
	add_process_name(&note.subject, ctx->process);
	add_count(&note.evidence, compute->cost.unread_count);
	text_add(&note.evidence, compute->cost.unread_count == 1 ? " call that computes has"
								 : " calls that compute have");
	text_add(&note.evidence, " arguments that could not be read, ");
	add_percent(&note.evidence, share);
	text_add(&note.evidence, " of the compute time (");
	add_ns(&note.evidence, compute->unread_ns);
	text_add(&note.evidence, ")");
	if (most) {
		text_add(&note.evidence, ", most of them of ");
		add_function_name(&note.evidence, ctx->profile, most->function);
	}
	text_printf(&note.threshold, "from %.0f %% of the compute time (medium: %.0f %%)",
		    UNREAD_LOW * 100, UNREAD_MEDIUM * 100);
	text_add(&note.suggestion,
		 "Their operations are missing in all rates and shares of the peak, which are too "
		 "low by them. A line for the function in a rules file (--flops-rules) can say how "
		 "its work follows from its arguments.");
	rules_ctx_add(ctx, "UnreadCompute", share >= UNREAD_MEDIUM ? FINDING_MEDIUM : FINDING_LOW,
		      share, &note);
}

static void add_rate(struct text *text, double flops_per_s)
{
	char buffer[UNITS_MAX];

	text_add(text, format_si(buffer, flops_per_s, "FLOP/s"));
}

/* "2 cores", "1.4 cores": tenths are enough */
static void add_cores(struct text *text, double cores)
{
	double shown = (double)(unsigned)(cores * 10 + 0.5) / 10;

	text_printf(text, "%g core%s", shown, shown > 1 ? "s" : "");
}

/* What would help depends on where the time goes. */
static const char *remedy_for(double computing, double cores, double all_cores)
{
	if (computing < 0.5)
		return "Most of the time nothing is computed: look at what runs between the "
		       "operators (data loading, Python, waiting), prefetch the data, and compile "
		       "the model (torch.compile, jit).";
	if (cores < all_cores / 2)
		return "It computes on few of the cores: raise the number of threads "
		       "(OMP_NUM_THREADS, torch.set_num_threads) or make the operators large "
		       "enough to be divided.";
	return "The operators themselves are slow: larger batches, a lower precision that the CPU "
	       "has units for (bf16), another memory layout, or a BLAS built for this CPU.";
}

static void low_utilization(struct rules_ctx *ctx)
{
	const struct profile_process *p = ctx->process;
	enum perfx_dtype dtype = roofline_dtype(p);
	struct roof roof = roofline_whole_roof(ctx->profile, dtype);
	double computing = wall_share(p, p->compute.counted_ns);
	double cores = roofline_cores(ctx->profile, p);
	double mfu = roofline_mfu(ctx->profile, dtype, p->compute.cost.flops, profile_wall_ns(p));
	struct note note = {0};

	if (mfu < 0 || mfu >= UTILIZATION_LOW || computing < COMPUTING_MIN)
		return;
	add_process_name(&note.subject, p);
	add_rate(&note.evidence, mfu * roof.flops_per_s);
	text_add(&note.evidence, ", ");
	add_percent(&note.evidence, mfu);
	text_add(&note.evidence, " of the ");
	add_rate(&note.evidence, roof.flops_per_s);
	text_printf(&note.evidence, " that %.0f core%s can do%s; ", roof.cores,
		    roof.cores > 1 ? "s" : "", roof.estimated ? " (estimated)" : "");
	add_percent(&note.evidence, computing);
	text_add(&note.evidence, " of the wall time in calls that compute");
	if (cores > 0) {
		text_add(&note.evidence, ", using ");
		add_cores(&note.evidence, cores);
		text_add(&note.evidence, " on average");
	}
	text_printf(&note.threshold, "below %.0f %% (medium: %.0f %%)", UTILIZATION_LOW * 100,
		    UTILIZATION_MEDIUM * 100);
	text_add(&note.suggestion, remedy_for(computing, cores, roof.cores));
	rules_ctx_add(ctx, "LowUtilization",
		      mfu < UTILIZATION_MEDIUM ? FINDING_MEDIUM : FINDING_LOW, 1 - mfu, &note);
}

static void add_line(struct text *text, const struct roofline *line, const struct profile_row *row)
{
	add_rate(text, line->flops_per_s);
	text_add(text, ", ");
	add_percent(text, line->flops_per_s / line->attainable_flops_per_s);
	text_add(text, " of what ");
	add_cores(text, line->roof.cores);
	text_printf(text, " could do at %.3g FLOP/byte, in ", line->intensity);
	add_count(text, row->calls_count);
	text_add(text, row->calls_count == 1 ? " call of " : " calls of ");
	add_ns(text, row->avg_ns);
	text_add(text, " on average");
}

static void overhead_bound(struct rules_ctx *ctx, const struct profile_row *row,
			   const struct roofline *line, double share)
{
	struct note note = {.of_function = true};

	add_function_name(&note.subject, ctx->profile, row->function);
	add_line(&note.evidence, line, row);
	text_printf(&note.threshold, "below %.0f %% of the roof, from %.0f %% of the wall time",
		    ROOFLINE_OVERHEAD_SHARE * 100, BOUND_SHARE * 100);
	if (row->avg_ns < SHORT_AVG_NS)
		text_add(
			&note.suggestion,
			"Many small operations, of which calling is the larger part: batch them "
			"(bmm in place of mm, a larger batch), or fuse them (torch.compile, jit).");
	else
		text_add(&note.suggestion,
			 "Long calls that compute little: check that the BLAS is an optimised one "
			 "for this CPU, that its threads do not wait for each other or for a CPU, "
			 "and that matrices are neither thin nor strided.");
	rules_ctx_add(ctx, "OverheadBound", FINDING_MEDIUM, share, &note);
}

static void memory_bound(struct rules_ctx *ctx, const struct profile_row *row,
			 const struct roofline *line, double share)
{
	struct note note = {.of_function = true};

	add_function_name(&note.subject, ctx->profile, row->function);
	add_line(&note.evidence, line, row);
	text_printf(&note.evidence, "; compute-bound from %.3g FLOP/byte on",
		    roof_ridge(&line->roof));
	text_printf(&note.threshold,
		    "intensity below that, %.0f %% of the roof or more, from %.0f %% of the wall "
		    "time",
		    ROOFLINE_OVERHEAD_SHARE * 100, BOUND_SHARE * 100);
	text_add(&note.suggestion,
		 "It waits for memory: use what is read more often (a larger batch, fused "
		 "operators) or read less (a lower precision). More cores or a faster kernel help "
		 "little.");
	rules_ctx_add(ctx, "MemoryBound", FINDING_LOW, share, &note);
}

/* Functions with a cost of their own: of a caller it is not known what else it does. */
static bool bound_function(struct rules_ctx *ctx, const struct profile_row *row)
{
	double share = wall_share(ctx->process, row->computing_ns);
	struct roofline line;

	if (!row->cost.flops || share < BOUND_SHARE || row->avg_ns == PROFILE_ABSENT)
		return false;
	line = roofline_of_row(ctx->profile, ctx->process, row);
	if (line.bound == ROOFLINE_OVERHEAD)
		overhead_bound(ctx, row, &line, share);
	else if (line.bound == ROOFLINE_MEMORY)
		memory_bound(ctx, row, &line, share);
	else
		return false;
	return true;
}

void rules_compute(struct rules_ctx *ctx)
{
	unsigned bound = 0;

	if (!ctx->process->compute.measured || profile_wall_ns(ctx->process) < WALL_MIN_NS)
		return;
	unread_compute(ctx);
	low_utilization(ctx);
	for (size_t i = 0; i < ctx->process->rows_count && bound < BOUND_FINDINGS; i++)
		bound += bound_function(ctx, &ctx->process->rows[i]);
}
