// SPDX-License-Identifier: BSD-2-Clause
/* Rules about the capture itself: what tracing cost, what it lost. */
#include "analyze/rules_ctx.h"
#include "base/units.h"

#define OVERHEAD_MEDIUM 5.0 /* per cent longer */
#define OVERHEAD_HIGH	20.0

static double probe_cost(const struct profile_probe *probe)
{
	return (double)probe->hits_count * probe->cost_ns;
}

/* Adds the function whose probes cost most. */
static void add_dearest(struct text *text, const struct profile *profile)
{
	const struct profile_probe *most_expensive = NULL;

	for (size_t i = 0; i < profile->probes_count; i++) {
		if (!most_expensive || probe_cost(&profile->probes[i]) > probe_cost(most_expensive))
			most_expensive = &profile->probes[i];
	}
	if (!most_expensive || !profile_function(profile, most_expensive->function))
		return;
	text_add(text, "; the most expensive probe is on ");
	add_function_name(text, profile, most_expensive->function);
	text_add(text, " (");
	add_percent(text, probe_cost(most_expensive) / profile->overhead_ns);
	text_add(text, " of the cost)");
}

static void overhead(struct rules_ctx *ctx)
{
	const struct profile *p = ctx->profile;
	struct note note = {0};
	char slowdown[UNITS_MAX];

	if (p->overhead_percent < OVERHEAD_MEDIUM)
		return;
	text_add(&note.subject, "perfx-trace");
	add_count(&note.evidence, p->hits_count);
	text_add(&note.evidence, " probe hits cost about ");
	add_ns(&note.evidence, (uint64_t)p->overhead_ns);
	text_add(&note.evidence, ": slowdown ");
	text_add(&note.evidence, format_slowdown(slowdown, p->overhead_percent / 100));
	add_dearest(&note.evidence, p);
	text_printf(&note.threshold, "from %.0f %% (high: %.0f %%)", OVERHEAD_MEDIUM,
		    OVERHEAD_HIGH);
	text_add(&note.suggestion,
		 "Times of callers contain the cost of the probes in their callees. Trace fewer or "
		 "longer functions: leave out the one above with -F '!MODULE:NAME', or take the "
		 "cost "
		 "off with --compensate.");
	rules_ctx_add(ctx, "Overhead",
		      p->overhead_percent >= OVERHEAD_HIGH ? FINDING_HIGH : FINDING_MEDIUM,
		      p->overhead_percent, &note);
}

struct loss_words {
	const char *what, *remedy;
};

/* Only losses that profile_loss_share weighs can come here. */
static struct loss_words words_of(enum perfx_loss_kind loss)
{
	switch (loss) {
	case PERFX_LOSS_RING_DROPS:
		return (struct loss_words){
			"span records found no room in the ring: calls and totals contain them, "
			"percentiles, minimum, maximum and deviation do not",
			"A larger ring (--ring-size 64M), or fewer functions."};
	case PERFX_LOSS_MAP_FULL:
		return (struct loss_words){"calls came without a calling context or thread state",
					   "Trace fewer functions: the call tree is too large."};
	case PERFX_LOSS_UNTIMED_CALLS:
		return (struct loss_words){
			"calls were counted without their time: nested too deeply, or the ways out "
			"of the function are not known",
			"`perfx-trace probes` says which functions and why."};
	case PERFX_LOSS_NMISSED:
		return (struct loss_words){"probe hits were missed by the kernel",
					   "Trace fewer functions, or another --link."};
	case PERFX_LOSS_UNDECODED:
		return (struct loss_words){
			"records were not understood",
			"A capture of another version, or a damaged one: use the "
			"version that recorded it."};
	case PERFX_LOSS_CONTROL_DROPS:
		return (struct loss_words){
			"process events were lost: some process data may be missing",
			"Trace without children (--no-children), or fewer "
			"processes."};
	case PERFX_LOSS_STACK_FAILURES:
		return (struct loss_words){"stacks could not be walked",
					   "Build with frame pointers."};
	case PERFX_LOSS_READ_FAULTS:
		return (struct loss_words){"reads of the program's memory failed",
					   "Nothing to do: the pages were not there."};
	case PERFX_LOSS_MEMORY_DROPS:
		return (struct loss_words){
			"allocation and free records found no room in the ring: counts and "
			"allocated bytes contain them, live bytes and peaks are bounds",
			"A larger ring (--ring-size 64M), or --memory sampled."};
	case PERFX_LOSS_VALUE_DROPS:
		return (struct loss_words){
			"samples of the program's counters found no room in the ring: their number "
			"and sums of whole numbers contain them, lowest and highest do not",
			"A larger ring (--ring-size 64M)."};
	case PERFX_LOSS_UNMATCHED_ENTRIES:
	case PERFX_LOSS_UNMATCHED_RETURNS:
	case PERFX_LOSS_TRUNCATED_BYTES:
	case PERFX_LOSS_FOREIGN_HITS:
	case PERFX_LOSS_DETACHED_PROBES:
	case PERFX_LOSS_KINDS:
		break;
	}
	return (struct loss_words){"events were lost", ""};
}

static void losses(struct rules_ctx *ctx)
{
	for (int i = 0; i < PERFX_LOSS_KINDS; i++) {
		double share = profile_loss_share(ctx->profile, i);
		struct loss_words words = words_of(i);
		struct note note = {0};

		if (share <= PROFILE_LOSSY_SHARE)
			continue;
		text_add(&note.subject, "perfx-trace");
		add_count(&note.evidence, ctx->profile->losses[i]);
		text_printf(&note.evidence, " %s (", words.what);
		add_percent(&note.evidence, share);
		text_add(&note.evidence, ")");
		text_printf(&note.threshold, "more than %.0f %%", PROFILE_LOSSY_SHARE * 100);
		text_add(&note.suggestion, words.remedy);
		rules_ctx_add(ctx, "Losses",
			      i == PERFX_LOSS_RING_DROPS ? FINDING_LOW : FINDING_MEDIUM, share,
			      &note);
	}
}

void rules_capture(struct rules_ctx *ctx)
{
	overhead(ctx);
	losses(ctx);
}
