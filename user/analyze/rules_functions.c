// SPDX-License-Identifier: BSD-2-Clause
/* Rules about single functions. */
#include "analyze/remedy.h"
#include "analyze/rules_ctx.h"

/* Self time of one function, of the wall time of its process. Threads add up. */
#define SLOW_MEDIUM 0.20
#define SLOW_HIGH   0.40
/* Calls so short and so many that calling is the work. Dispatching one operator costs a framework
 * 2 to 10 µs. */
#define TINY_AVG_NS	  5000
#define TINY_CALLS_PER_S  10000
#define TINY_FINDINGS_MAX 3
/* A thrown and caught C++ exception costs 1 to 10 µs for each frame it crosses. */
#define UNWOUND_LOW    0.01
#define UNWOUND_MEDIUM 0.10
#define UNWOUND_CALLS  10

static double per_second(const struct profile_process *process, uint64_t count)
{
	uint64_t wall_ns = profile_wall_ns(process);

	return wall_ns ? (double)count * 1e9 / (double)wall_ns : 0;
}

static void add_caller(struct text *text, const struct rules_ctx *ctx,
		       const struct profile_row *row)
{
	const struct profile_caller *caller = row->callers;

	if (!row->callers_count || !profile_function(ctx->profile, caller->caller))
		return;
	text_add(text, "; called mostly by ");
	add_function_name(text, ctx->profile, caller->caller);
	text_add(text, " (");
	add_percent(text, (double)caller->calls_count / (double)row->calls_count);
	text_add(text, " of the calls)");
}

static void slow_operation(struct rules_ctx *ctx, const struct profile_row *row)
{
	double share = wall_share(ctx->process, row->self_ns);
	struct note note = {.of_function = true};

	if (share < SLOW_MEDIUM)
		return;
	add_function_name(&note.subject, ctx->profile, row->function);
	text_add(&note.evidence, "self time ");
	add_ns(&note.evidence, row->self_ns);
	text_add(&note.evidence, ", ");
	add_percent(&note.evidence, share);
	text_add(&note.evidence, " of the wall time, in ");
	add_count(&note.evidence, row->calls_count);
	text_add(&note.evidence, row->calls_count == 1 ? " call" : " calls");
	if (row->avg_ns != PROFILE_ABSENT) {
		text_add(&note.evidence, " of ");
		add_ns(&note.evidence, row->avg_ns);
		text_add(&note.evidence, " on average");
	}
	add_caller(&note.evidence, ctx, row);
	text_printf(&note.threshold, "self time from %.0f %% of the wall time (high: %.0f %%)",
		    SLOW_MEDIUM * 100, SLOW_HIGH * 100);
	text_add(&note.suggestion, remedy_text(remedy_kind(ctx->profile, ctx->process, row)));
	rules_ctx_add(ctx, "SlowOperation", share >= SLOW_HIGH ? FINDING_HIGH : FINDING_MEDIUM,
		      share, &note);
}

static bool tiny_calls(struct rules_ctx *ctx, const struct profile_row *row)
{
	double rate = per_second(ctx->process, row->calls_count);
	struct note note = {.of_function = true};

	if (row->avg_ns == PROFILE_ABSENT || row->avg_ns >= TINY_AVG_NS || rate < TINY_CALLS_PER_S)
		return false;
	add_function_name(&note.subject, ctx->profile, row->function);
	add_count(&note.evidence, (uint64_t)rate);
	text_add(&note.evidence, " calls a second of ");
	add_ns(&note.evidence, row->avg_ns);
	text_add(&note.evidence, " on average");
	add_caller(&note.evidence, ctx, row);
	text_printf(&note.threshold, "more than %d calls a second that take less than %d µs",
		    TINY_CALLS_PER_S, TINY_AVG_NS / 1000);
	text_add(
		&note.suggestion,
		"Calling costs as much as the work: larger batches, fused or vectorised operations "
		"(torch.compile, jit), or inlining. The probes themselves weigh on calls this "
		"short; leave the function out to see the program at full speed.");
	rules_ctx_add(ctx, "TinyCalls", FINDING_MEDIUM, rate, &note);
	return true;
}

static void unwound(struct rules_ctx *ctx, const struct profile_row *row)
{
	double share = (double)row->unwound_count / (double)row->calls_count;
	struct note note = {.of_function = true};

	if (row->unwound_count < UNWOUND_CALLS || share < UNWOUND_LOW)
		return;
	add_function_name(&note.subject, ctx->profile, row->function);
	add_count(&note.evidence, row->unwound_count);
	text_add(&note.evidence, " of ");
	add_count(&note.evidence, row->calls_count);
	text_add(&note.evidence, " calls (");
	add_percent(&note.evidence, share);
	text_add(&note.evidence, ") were left by an exception or longjmp");
	text_printf(&note.threshold, "at least %d calls and %.0f %% (medium: %.0f %%)",
		    UNWOUND_CALLS, UNWOUND_LOW * 100, UNWOUND_MEDIUM * 100);
	text_add(&note.suggestion,
		 "Exceptions on a frequent path are slow, and something fails here: check before "
		 "calling, or return an error instead of throwing.");
	rules_ctx_add(ctx, "Unwound", share >= UNWOUND_MEDIUM ? FINDING_MEDIUM : FINDING_LOW, share,
		      &note);
}

void rules_functions(struct rules_ctx *ctx)
{
	unsigned tiny = 0;

	for (size_t i = 0; i < ctx->process->rows_count; i++) {
		const struct profile_row *row = &ctx->process->rows[i];

		slow_operation(ctx, row);
		unwound(ctx, row);
		if (tiny < TINY_FINDINGS_MAX)
			tiny += tiny_calls(ctx, row);
	}
}
