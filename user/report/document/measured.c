// SPDX-License-Identifier: BSD-2-Clause
/* The last part of every report: attached probes, failures to attach, overhead, losses. */
#include "base/escape.h"
#include "base/order.h"
#include "base/text.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/compose.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Probes of one kind: link, return, site and end decide what a hit costs. */
struct probe_group {
	enum perfx_link link;
	enum perfx_return ret;
	enum perfx_site site;
	bool is_exit;
	uint64_t probes_count, hits_count;
	double cost_ns; /* of all hits */
};

/* links × returns × sites × ends: there are at most a few dozen groups */
#define GROUPS_MAX (5 * 3 * 6 * 2)

ORDER(by_hits, struct probe_group, DESCENDING(a->hits_count, b->hits_count))

/* Percent; less is not mentioned. */
#define TRACER_WAIT_LEAST 0.1

void text_add_observed(struct text *text, const struct profile *profile)
{
	const struct profile_observed *observed = &profile->observed;
	double percent, noise;

	if (profile->tracer_wait_percent >= TRACER_WAIT_LEAST)
		text_printf(text, " and %s more by waiting while perfx-trace had a CPU",
			    as_percent(profile->tracer_wait_percent / 100));
	if (!observed->without_ns)
		return;
	percent = profile_observed_percent(observed);
	noise = observed->noise_percent;
	if (percent < -noise)
		text_printf(text,
			    ", not observed: steps were %s faster while they were traced, so the "
			    "machine changed by more than tracing costs",
			    as_percent(-percent / 100));
	else if (percent <= noise)
		text_printf(text, ", observed none beyond the noise of ±%s",
			    as_percent(noise / 100));
	else
		text_printf(text, ", observed %s (noise ±%s)", as_slowdown(percent / 100),
			    as_percent(noise / 100));
	/* ": from one backward to the next 57 ms, 52 ms without probes" */
	if (observed->function) {
		const struct profile_function *function =
			profile_function(profile, observed->function);

		text_add(text, ": from one ");
		escape_name(text, function ? function_label(function) : "call");
		text_printf(text, " to the next %s", as_ns(observed->with_ns));
	} else {
		text_printf(text, ": a step takes %s", as_ns(observed->with_ns));
	}
	text_printf(text, ", %s without probes", as_ns(observed->without_ns));
	if (profile->overhead_percent < 0)
		return;
	if (profile_slowdown_agreement(profile) == SLOWDOWN_DISAGREES)
		text_add(text, "; they disagree: the observed one counts, unless another program "
			       "began or ended meanwhile");
	else if (profile_slowdown_agreement(profile) == SLOWDOWN_IN_NOISE)
		text_add(text, "; the noise is too large to check the estimate");
}

static void compose_cost(struct document *document, const struct profile *profile)
{
	struct text text = {0};

	text_printf(&text, "%s probe%s, %s hit%s.", as_count(profile->probes_count),
		    plural(profile->probes_count), as_count(profile->hits_count),
		    plural(profile->hits_count));
	if (profile->overhead_percent >= 0)
		text_printf(&text, " Estimated slowdown: %s",
			    as_slowdown(profile->overhead_percent / 100));
	else
		text_add(&text, " Estimated slowdown: unknown");
	if (profile->overhead_ns > 0)
		text_printf(&text, " (%s of the traced processes' CPU time)",
			    as_ns(u64_of(profile_cost_ns(profile))));
	text_add_observed(&text, profile);
	text_add(&text, ".");
	if (profile->compensated)
		text_add(&text, " The cost of probes is subtracted from the times of callers.");
	document_add(document, BLOCK_PARAGRAPH, &text);
}

static void compose_groups(struct document *document, const struct profile *profile)
{
	struct probe_group *groups = calloc(GROUPS_MAX, sizeof(*groups));
	size_t count = 0;

	if (!groups) {
		document->failed = true;
		return;
	}
	for (size_t i = 0; i < profile->probes_count; i++) {
		const struct profile_probe *probe = &profile->probes[i];
		size_t at = 0;

		while (at < count &&
		       (groups[at].link != probe->link || groups[at].ret != probe->ret ||
			groups[at].site != probe->site || groups[at].is_exit != probe->is_exit))
			at++;
		if (at == count)
			groups[count++] = (struct probe_group){.link = probe->link,
							       .ret = probe->ret,
							       .site = probe->site,
							       .is_exit = probe->is_exit};
		groups[at].probes_count++;
		groups[at].hits_count += probe->hits_count;
		groups[at].cost_ns += (double)probe->hits_count * probe->cost_ns;
	}
	qsort(groups, count, sizeof(*groups), by_hits);
	if (count)
		document_headings(document, 0, NUMBERS("Probes"), WORDS("Link"), WORDS("At"),
				  REST("Instruction"), WORDS("Timed by", .rank = 1),
				  NUMBERS("Hits"), NUMBERS("Per hit"), NUMBERS("Cost"));
	for (size_t i = 0; i < count; i++) {
		const struct probe_group *g = &groups[i];
		bool known = g->hits_count && g->cost_ns > 0;

		document_row(document, cell_count(g->probes_count), name_of_link(g->link),
			     g->is_exit ? "exit" : "entry", name_of_site(g->site),
			     name_of_return(g->ret), cell_count(g->hits_count),
			     known ? as_ns(u64_of(g->cost_ns / (double)g->hits_count)) : "-",
			     known ? as_ns(u64_of(g->cost_ns)) : "-");
	}
	free(groups);
}

static void compose_not_attached(struct document *document, const struct profile *profile,
				 const struct document_limits *limits)
{
	uint64_t functions = 0;
	size_t reasons = 0, shown = 0;

	for (size_t i = 0; i < profile->not_attached_count; i++) {
		if (profile->not_attached[i].by_design)
			continue;
		functions += profile->not_attached[i].count;
		reasons++;
	}
	if (!reasons) {
		document_say(document, BLOCK_PARAGRAPH,
			     profile->probes_count ? "All requested functions are attached."
						   : "No probe was attached.");
		return;
	}
	document_printf(document, BLOCK_CAPTION, "Not attached: %s function%s.",
			as_count(functions), plural(functions));
	document_headings(document, 0, NUMBERS("Functions"), REST("First"), WORDS("Reason"));
	for (size_t i = 0; i < profile->not_attached_count && shown < limits->not_attached; i++) {
		const struct profile_not_attached *row = &profile->not_attached[i];

		if (row->by_design)
			continue;
		shown++;
		document_row(document, cell_count(row->count),
			     document_name(document, row->name, limits->name_columns),
			     document_name(document, row->reason, limits->name_columns));
	}
	if (reasons > shown)
		document_printf(document, BLOCK_NOTE, "%zu more reasons in the JSON report.",
				reasons - shown);
}

void compose_hints(struct composer *c)
{
	for (size_t i = 0; i < c->profile->not_attached_count; i++) {
		const struct profile_not_attached *row = &c->profile->not_attached[i];

		if (row->by_design)
			document_printf(c->document, BLOCK_NOTE, "Hint: %s: %s.",
					compose_mark(c, row->name), compose_mark(c, row->reason));
	}
}

void compose_late(struct composer *c)
{
	struct profile_late_sum sum = profile_late_sum(c->profile);

	if (sum.late_count)
		document_printf(
			c->document, BLOCK_PARAGRAPH,
			"Traced late: %s process%s, by up to %s (%s function%s of %s%s) after they "
			"started or mapped the file: earlier calls there are not counted.",
			as_count(sum.late_count), sum.late_count == 1 ? "" : "es",
			as_ns(sum.latest->late_ns), as_count(sum.latest->functions_count),
			plural(sum.latest->functions_count),
			compose_mark(c, base_name(sum.latest->module)),
			sum.latest->files_count > 1 ? " and other files" : "");
	if (sum.ended_count)
		document_printf(c->document, BLOCK_PARAGRAPH,
				"Not traced: %s process%s that ended before probes could be "
				"attached, the longest-lived after %s: calls into files that no "
				"traced process had mapped before are not counted.",
				as_count(sum.ended_count), sum.ended_count == 1 ? "" : "es",
				as_ns(sum.longest->late_ns));
}

static void compose_precision(struct document *document, const struct profile *profile)
{
	struct text text = {0};

	text_printf(&text,
		    "Every call is counted; calls are not sampled. Percentiles are accurate to "
		    "%.1f %%, other numbers are exact. Times are of CLOCK_MONOTONIC.",
		    SKETCH_ERROR * 100);
	if (profile->tracer_cpu_ns != PROFILE_ABSENT)
		text_printf(&text, " Until the recording ended, the tracer itself used %s of CPU",
			    as_ns(profile->tracer_cpu_ns));
	if (profile->tracer_rss_peak_bytes)
		text_printf(&text, " and at most %s of memory (RSS)",
			    as_bytes(profile->tracer_rss_peak_bytes));
	text_add(&text, profile->tracer_cpu_ns != PROFILE_ABSENT ? "." : "");
	document_add(document, BLOCK_PARAGRAPH, &text);
}

static void compose_origin(struct document *document, const struct profile *profile)
{
	struct text text = {0};
	time_t seconds = (time_t)(profile->start_unix_ns / 1000000000);
	char buffer[64];
	struct tm tm;

	text_printf(&text, "Captured %s", as_ns(profile->duration_ns));
	if (profile->start_unix_ns && gmtime_r(&seconds, &tm) &&
	    strftime(buffer, sizeof(buffer), "%Y-%m-%d %H:%M:%S UTC", &tm))
		text_printf(&text, " from %s", buffer);
	add_marked(&text, " on ", profile->host_name, "");
	if (profile->cpus_count)
		text_printf(&text, " (%u CPUs)", profile->cpus_count);
	add_marked(&text, ", Linux ", profile->kernel, "");
	add_marked(&text, ", perfx-trace ", profile->tool_version, "");
	add_marked(&text, ", by ", profile->command, "");
	if (profile->interrupted)
		text_add(&text, ", interrupted");
	text_add(&text, ".");
	document_add(document, BLOCK_NOTE, &text);
}

/* How a merged capture's clock was found: ", by 412 collectives: +3.000012 s, error 45.0 µs". */
static void add_alignment(struct text *text, const struct perfx_merged *merged)
{
	if (merged->alignment == PERFX_ALIGNMENT_REFERENCE)
		text_add(text, ", whose clock is the report's");
	else if (merged->alignment == PERFX_ALIGNMENT_SAME_BOOT)
		text_add(text, ", with the same clock");
	else if (merged->alignment == PERFX_ALIGNMENT_WALL_CLOCK)
		text_add(text, ", by the machines' time of day, whose error is not known");
	else
		text_printf(text, ", its clock moved by %+.6f s, error %s, by %" PRIu64 " %s",
			    (double)merged->offset_ns / 1e9, as_ns(merged->error_ns),
			    (uint64_t)merged->pairs_count,
			    merged->alignment == PERFX_ALIGNMENT_COLLECTIVES ? "collectives"
									     : "backward passes");
}

/* The captures that were merged into this one. */
static void compose_captures(struct document *document, const struct profile *profile)
{
	for (size_t i = 0; i < profile->captures_count; i++) {
		const struct profile_capture *capture = &profile->captures[i];
		struct text text = {0};
		uint64_t lost = 0;

		for (int k = 0; k < PERFX_LOSS_KINDS; k++)
			if (k != PERFX_LOSS_UNMATCHED_ENTRIES && k != PERFX_LOSS_UNMATCHED_RETURNS)
				lost += capture->losses[k];
		text_printf(&text, "Capture %u of %zu: ", capture->facts.merged,
			    profile->captures_count);
		escape_name(&text, capture->host_name);
		text_printf(&text, " (%u CPUs), %s", capture->facts.cpus_count,
			    as_ns(capture->facts.end_ns - capture->facts.start_ns));
		add_alignment(&text, &capture->facts);
		if (lost)
			text_printf(&text, "; lost there: %s", as_count(lost));
		text_add(&text, ".");
		document_add(document, BLOCK_NOTE, &text);
	}
}

void compose_measured(struct composer *c)
{
	struct document *document = c->document;
	const struct profile *profile = c->profile;
	uint64_t windows_ns = 0;

	document_say(document, BLOCK_HEADING, "How it was measured");
	for (size_t i = 0; i < profile->recording_windows_count; i++)
		windows_ns +=
			profile->recording_windows[i].to_ns - profile->recording_windows[i].from_ns;
	if (profile->recording_windows_count) /* --wait */
		document_printf(document, BLOCK_PARAGRAPH,
				"Recorded between perfx_trace_start and perfx_trace_stop: %s in %s "
				"window%s. Wall and CPU time run from the first window to the "
				"last, pauses included.",
				as_ns(windows_ns), as_count(profile->recording_windows_count),
				plural(profile->recording_windows_count));
	compose_cost(document, profile);
	compose_late(c);
	document_say(document, BLOCK_FOLD, "Probes, losses and precision");
	compose_groups(document, profile);
	compose_not_attached(document, profile, c->limits);
	document_headings(document, 0, NUMBERS("Count"), WORDS("Loss"), REST("Meaning"));
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		document_row(document, cell_count(profile->losses[i]),
			     document_name(document, name_of_loss(i), 0), meaning_of_loss(i));
	compose_precision(document, profile);
	document_say(document, BLOCK_UNFOLD, "");
	compose_hints(c);
	compose_origin(document, profile);
	compose_captures(document, profile);
}
