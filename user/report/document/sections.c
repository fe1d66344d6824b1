// SPDX-License-Identifier: BSD-2-Clause
/*
 * Composes a report in the order in which it is read: verdict, findings, each process with what it
 * used and which functions it called, how it was measured.
 */
#include "base/escape.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/compose.h"
#include "report/dump.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void compose_partial(struct composer *c)
{
	unsigned partial = c->profile->partial;
	struct text text = {0};

	if (!partial)
		return;
	if (partial & PROFILE_PARTIAL_KILLED)
		text_add(&text, "; the target was killed during the recording");
	if (partial & PROFILE_PARTIAL_TRUNCATED)
		text_printf(&text, "; the capture is %s",
			    c->profile->ended ? "damaged: unreadable parts are missing"
					      : "cut off or damaged: later data is missing");
	if (partial & PROFILE_PARTIAL_LOSSY)
		text_add(&text, "; more than 1 % of some records were lost (see the losses below)");
	document_printf(c->document, BLOCK_WARNING, "Partial: %s.", text_peek(&text) + 2);
	text_finish(&text, &c->document->failed);
}

/* Lists the sums that are incomplete: a segment that the slice cuts leaves no part of its sums. */
static void add_left_out(struct text *text, const struct profile_time_slice *time_slice)
{
	static const struct {
		uint32_t kinds;
		const char *shown;
	} sums[] = {
		{PERFX_LEFT_OUT(PERFX_KIND_HITS), "probe hits"},
		{PERFX_LEFT_OUT(PERFX_KIND_CALL_COUNTERS) |
			 PERFX_LEFT_OUT(PERFX_KIND_PROCESS_COUNTERS),
		 "performance counters"},
		{PERFX_LEFT_OUT(PERFX_KIND_LOSS), "losses"},
		{PERFX_LEFT_OUT(PERFX_KIND_OVERFLOW_MEMORY),
		 "allocations whose records were dropped (ring full)"},
		{PERFX_LEFT_OUT(PERFX_KIND_OVERFLOW_VALUES),
		 "counter samples whose records were dropped (ring full)"},
		{PERFX_LEFT_OUT(PERFX_KIND_GPU_LAUNCHES) | PERFX_LEFT_OUT(PERFX_KIND_GPU_COPIES) |
			 PERFX_LEFT_OUT(PERFX_KIND_GPU_OVERFLOW),
		 "launches and copies of GPUs that are counted only"},
	};
	const char *separator =
		" Its ends cut segments of the capture, of which these are missing: ";

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		if (!(time_slice->left_out & sums[i].kinds))
			continue;
		text_printf(text, "%s%s", separator, sums[i].shown);
		separator = ", ";
	}
	if (time_slice->left_out_count)
		text_printf(text, "%s%s calls whose records were dropped (ring full)", separator,
			    as_count(time_slice->left_out_count));
	if (*separator == ',')
		text_add(text, ".");
	if (time_slice->left_out & PERFX_LEFT_OUT(PERFX_KIND_BLOCKED))
		text_add(text, " Waits are left out: they are summed by segment, and its ends cut "
			       "segments.");
}

/* The time slice's place in the recording, and its missing data. */
static void compose_time_slice(struct composer *c)
{
	const struct profile *p = c->profile;
	const struct profile_time_slice *time_slice = &p->time_slice;
	uint64_t before_ns =
		p->start_ns > time_slice->recording_ns ? p->start_ns - time_slice->recording_ns : 0;
	struct text text = {0};

	if (!time_slice->flags)
		return;
	if (time_slice->flags & PERFX_TIME_SLICE_VIEW) {
		text_printf(&text,
			    "Part of the recording, from %s to %s: whole segments of about a "
			    "second, because waits and hits are summed by segment. A call counts "
			    "where it ends, with all of its time; what exists only for the whole "
			    "recording (thread times, the tracer's own cost) is left out",
			    as_ns(before_ns), as_ns(before_ns + p->duration_ns));
	} else {
		text_printf(&text, "Flight recorder: the last %s of %s", as_ns(p->duration_ns),
			    as_ns(before_ns + p->duration_ns));
		if (time_slice->flags & PERFX_TIME_SLICE_FULL)
			text_add(&text, ", all that memory could hold (--max-size)");
	}
	add_marked(&text, "; reason for writing: ", time_slice->why, "");
	text_add(&text, ".");
	add_left_out(&text, time_slice);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

/* `trainer (pid 42)` or, where there are several processes, `gemm in pid 42`; its gain: "saves up
 * to 12.1 ms of each 60.2 ms step (20.1 %), confidence 98 %" */
static void add_finding(struct composer *c, const struct finding *finding, size_t process,
			unsigned alike)
{
	const struct profile_process *p = &c->profile->processes[process];
	bool has_gain = !finding->gain_unknown && finding->gain_ns > 0;
	struct text text = {0}, gain = {0};

	text_add(&text, finding->subject);
	if (finding->of_function && c->profile->processes_count > 1)
		text_printf(&text, " in pid %u", p->pid);
	if (alike)
		text_printf(&text, " and %u similar worker%s", alike, plural(alike));
	if (has_gain && p->steps.count && p->steps.avg_ns)
		text_printf(&gain, "saves up to %s of each %s step (%s)",
			    as_ns(u64_of(finding->gain_ns)), as_ns(p->steps.avg_ns),
			    as_percent(finding->gain_ns / (double)p->steps.avg_ns));
	else if (has_gain)
		text_printf(&gain, "saves up to %s of the time",
			    as_percent(finding->gain_ns / 1e9));
	if (has_gain && finding->confidence > 0 && finding->confidence < 1)
		text_printf(&gain, ", confidence %.0f %%", 100 * finding->confidence);
	document_add_finding(c->document, finding, &text, &gain, !c->limits->brief);
}

/* "python3 (pid 42)" of one worker is "python3 (pid 43)" of another. */
static bool is_same_finding(const struct finding *a, const struct finding *b)
{
	const char *a_pid = strstr(a->subject, "(pid "), *b_pid = strstr(b->subject, "(pid ");

	if (a->severity != b->severity || strcmp(a->kind, b->kind) != 0)
		return false;
	if (!a_pid || !b_pid)
		return !strcmp(a->subject, b->subject);
	return a_pid - a->subject == b_pid - b->subject &&
	       !strncmp(a->subject, b->subject, (size_t)(a_pid - a->subject));
}

/* Counts the other identical workers with the finding; *earlier: one precedes this process. */
static unsigned count_alike(const struct composer *c, const struct finding *finding, size_t process,
			    bool *earlier)
{
	unsigned alike = 0;

	*earlier = false;
	for (size_t i = 0; c->groups && i < c->analysis->processes_count; i++) {
		const struct process_analysis *p = &c->analysis->processes[i];
		bool found = false;

		if (i == process || c->groups[i] != c->groups[process])
			continue;
		for (size_t j = 0; j < p->findings_count && !found; j++)
			found = is_same_finding(&p->findings[j], finding);
		alike += found;
		*earlier |= found && i < process;
	}
	return alike;
}

/* The verdict's, or that of an identical worker. */
static bool is_first(const struct composer *c, const struct finding *finding, size_t process)
{
	const struct analysis *analysis = c->analysis;

	if (finding == analysis->first)
		return true;
	return analysis->first && c->groups &&
	       c->groups[process] == c->groups[analysis->first_process] &&
	       is_same_finding(finding, analysis->first);
}

/* The verdict's first; then over all processes by severity, and in each process's own order. */
static void compose_findings(struct composer *c)
{
	const struct analysis *analysis = c->analysis;
	unsigned all = 0, alike;
	bool earlier, any = false;

	for (size_t i = 0; i < analysis->processes_count; i++)
		any |= analysis->processes[i].findings_count > 0;
	if (!any && !analysis->rules_file)
		return;
	document_say(c->document, BLOCK_HEADING, "Findings");
	if (analysis->first && all++ < c->limits->findings) {
		alike = count_alike(c, analysis->first, analysis->first_process, &earlier);
		add_finding(c, analysis->first, analysis->first_process, alike);
	}
	for (int severity = FINDING_HIGH; severity <= FINDING_LOW; severity++) {
		for (size_t i = 0; i < c->analysis->processes_count; i++) {
			const struct process_analysis *p = &c->analysis->processes[i];

			for (size_t j = 0; j < p->findings_count; j++) {
				const struct finding *finding = &p->findings[j];

				if ((int)finding->severity != severity || is_first(c, finding, i))
					continue;
				alike = count_alike(c, finding, i, &earlier);
				/* identical workers have it once */
				if (!earlier && all++ < c->limits->findings)
					add_finding(c, finding, i, alike);
			}
		}
	}
	if (all > c->limits->findings)
		compose_left_out(c, all - c->limits->findings, " finding", compose_larger(c));
	/* "Rules of ci.rules; 3 findings are silenced." */
	if (!analysis->rules_file)
		return;
	document_printf(c->document, BLOCK_NOTE, "Rules of %s; %zu finding%s silenced.",
			compose_mark(c, analysis->rules_file), analysis->silenced_count,
			analysis->silenced_count == 1 ? " is" : "s are");
}

void compose_left_out(struct composer *c, size_t count, const char *what, const char *report)
{
	if (count)
		document_printf(c->document, BLOCK_NOTE, "%zu more%s%s in the %s report.", count,
				what, *what ? plural(count) : "", report);
}

void compose_details(struct composer *c, const char *title)
{
	if (c->limits->folds)
		document_say(c->document, BLOCK_FOLD, title);
}

void compose_details_end(struct composer *c)
{
	if (c->limits->folds)
		document_say(c->document, BLOCK_UNFOLD, "");
}

static compose_section *const sections[] = {
	compose_process_title,	compose_facts,	  compose_last_lines, compose_steps,
	compose_process_energy, compose_account,  compose_functions,  compose_gpu,
	compose_lines,		compose_waits,	  compose_files,      compose_values,
	compose_compute,	compose_counters, compose_memory,     compose_memory_sum,
	compose_stack_quality,	compose_threads,  compose_timeline,   NULL,
};

static compose_section *const brief_sections[] = {
	compose_process_title,
	compose_facts,
	compose_last_lines,
	compose_steps,
	compose_process_energy,
	compose_account,
	compose_compute,
	compose_functions,
	compose_gpu,
	compose_lines,
	compose_stack_quality,
	compose_waits,
	compose_files,
	compose_values,
	compose_memory_worst,
	compose_memory_sum,
	NULL,
};

/* The threads at the moment of a dump. */
static void compose_dump(struct composer *c)
{
	const struct dump *dump = c->analysis->dump;
	struct text text = {0};

	if (!dump)
		return;
	text_printf(&text, "What each thread did %s after the start",
		    as_ns(profile_since_start(c->profile, dump->threads[0].state->time_ns)));
	document_add(c->document, BLOCK_HEADING, &text);
	document_say(c->document, BLOCK_PARAGRAPH, dump->verdict);
	dump_compose(c->document, c->profile, dump, c->options);
}

static void compose_process(struct composer *c, size_t i)
{
	for (compose_section *const *section = c->limits->brief ? brief_sections : sections;
	     *section; section++)
		(*section)(c, &c->profile->processes[i]);
}

/* Processes without a section: one row each; in a brief report, their number. */
static void compose_others(struct composer *c, const bool *shown)
{
	size_t others = 0, rows = 0;

	for (size_t i = 0; i < c->profile->processes_count; i++)
		others += !shown[i];
	if (!others)
		return;
	if (c->limits->brief) {
		document_printf(c->document, BLOCK_NOTE, "%zu other process%s in the full report.",
				others, others == 1 ? "" : "es");
		return;
	}
	document_printf(c->document, BLOCK_FOLD, "Other processes (%zu)", others);
	document_headings(c->document, 0, NUMBERS("PID"), NUMBERS("Wall"), NUMBERS("CPU"),
			  NUMBERS("Calls"), REST("Process"));
	for (size_t i = 0; i < c->profile->processes_count; i++) {
		const struct profile_process *p = &c->profile->processes[i];

		if (shown[i] || rows++ >= 50)
			continue;
		document_row(c->document, document_format(c->document, "%u", p->pid),
			     cell_ns(profile_wall_ns(p)), cell_ns(p->cpu_ns),
			     cell_count(p->calls_count), compose_name(c, p->comm));
	}
	document_say(c->document, BLOCK_UNFOLD, "");
}

static bool has_news(const struct profile_process *p)
{
	for (size_t i = 0; i < p->memory_count; i++)
		if (p->memory[i].allocs.value)
			return true;
	return p->calls_count > 0 || p->values_count > 0 || p->samples.count > 0;
}

/* The one that the verdict is about; then those with calls or allocations; when there are none, the
 * one that used most CPU time says why. */
static size_t next_process(const struct composer *c, const bool *shown, bool any_news)
{
	const struct profile *profile = c->profile;
	size_t best = profile->processes_count;

	if (!shown[c->analysis->first_process])
		return c->analysis->first_process;
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *p = &profile->processes[i];
		const struct profile_process *q = &profile->processes[best];

		if (shown[i] || (any_news && !has_news(p)))
			continue;
		if (best == profile->processes_count || p->self_ns > q->self_ns ||
		    (p->self_ns == q->self_ns && p->cpu_ns + 1 > q->cpu_ns + 1))
			best = i;
	}
	return best;
}

/* One section for all of a group, then those of its members, as many as processes get one. */
static void compose_group(struct composer *c, size_t first, bool *shown)
{
	size_t count = 0;

	compose_workers(c, first);
	for (size_t i = first; i < c->profile->processes_count; i++)
		shown[i] |= c->groups[i] == first;
	if (c->limits->brief)
		return;
	document_say(c->document, BLOCK_FOLD, "Each of these workers");
	for (size_t i = first; i < c->profile->processes_count; i++)
		if (c->groups[i] == first && count++ < c->limits->processes)
			compose_process(c, i);
	if (count > c->limits->processes)
		compose_left_out(c, count - c->limits->processes, "", "JSON");
	document_say(c->document, BLOCK_UNFOLD, "");
}

static void compose_processes(struct composer *c)
{
	bool *shown = calloc(c->profile->processes_count + 1, sizeof(*shown));
	bool any_news = false;

	if (!shown) {
		c->document->failed = true;
		return;
	}
	for (size_t i = 0; i < c->profile->processes_count; i++)
		any_news |= has_news(&c->profile->processes[i]);
	for (unsigned n = 0; n < c->limits->processes; n++) {
		size_t i = next_process(c, shown, any_news), alike = 0;

		if (i == c->profile->processes_count)
			break;
		shown[i] = true;
		for (size_t k = 0; c->groups && k < c->profile->processes_count; k++)
			alike += c->groups[k] == c->groups[i];
		if (alike > 1)
			compose_group(c, c->groups[i], shown);
		else
			compose_process(c, i);
	}
	compose_others(c, shown);
	free(shown);
}

/*
 * Cost and losses of tracing, in a line:
 *
 *     Cost: 242 probes, 30,261 hits, estimated slowdown 0.1 %. No record was lost.
 *     All of it: --full, or -o report.html.
 */

/* "Lost: 12 ring_drops (records without room; calls and totals have them)." */
static void add_losses(struct text *text, const struct profile *profile)
{
	const char *separator = " Lost: ";

	for (int i = 0; i < PERFX_LOSS_KINDS; i++) {
		if (!(profile_loss_share(profile, i) > 0))
			continue;
		text_printf(text, "%s%s %s (%s)", separator, as_count(profile->losses[i]),
			    name_of_loss(i), meaning_of_loss(i));
		separator = ", ";
	}
	if (*separator == ',')
		text_add(text, ".");
	else if (profile->time_slice.left_out & PERFX_LEFT_OUT(PERFX_KIND_LOSS))
		text_add(text, " Losses in the segments that its ends cut are not known.");
	else
		text_add(text, " No record was lost.");
}

/* Functions that were requested and could not be attached. */
static void compose_failures(struct composer *c)
{
	const struct profile_not_attached *first = NULL;
	uint64_t count = 0;

	for (size_t i = 0; i < c->profile->not_attached_count; i++) {
		const struct profile_not_attached *row = &c->profile->not_attached[i];

		if (row->by_design)
			continue;
		first = first ? first : row;
		count += row->count;
	}
	if (!first)
		return;
	document_printf(c->document, BLOCK_WARNING, "%s function%s not attached: %s (%s)%s",
			as_count(count), count == 1 ? " is" : "s are", compose_mark(c, first->name),
			compose_mark(c, first->reason),
			count == first->count ? "." : ", … (--full lists them).");
}

/* The end of a brief report. */
static void compose_brief_end(struct composer *c)
{
	const struct profile *profile = c->profile;
	bool is_cut = profile->time_slice.left_out & PERFX_LEFT_OUT(PERFX_KIND_HITS);
	const char *at_least = is_cut ? "at least " : "";
	struct text text = {0};

	document_say(c->document, BLOCK_HEADING, "How it was measured");
	text_printf(&text, "Cost: %s probe%s, %s%s hit%s", as_count(profile->probes_count),
		    plural(profile->probes_count), at_least, as_count(profile->hits_count),
		    plural(profile->hits_count));
	if (profile->overhead_percent >= 0)
		text_printf(&text, ", estimated slowdown %s%s", at_least,
			    as_slowdown(profile->overhead_percent / 100));
	else if (profile->hits_count)
		text_add(&text, ", slowdown unknown: the CPU time of the traced processes is not "
				"known well enough");
	text_add_observed(&text, profile);
	text_add(&text, ".");
	add_losses(&text, profile);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
	compose_failures(c);
	compose_late(c);
	compose_hints(c);
	document_say(c->document, BLOCK_NOTE,
		     "Full report: --full or -o report.html; --capture FILE keeps the data for "
		     "later reports.");
}

int document_compose(struct document *document, const struct profile *profile,
		     const struct analysis *analysis, const struct report_options *options,
		     const struct document_limits *limits)
{
	struct composer c = {.document = document,
			     .profile = profile,
			     .analysis = analysis,
			     .options = options,
			     .limits = limits,
			     .more_left = limits->more};

	if (limits->groups && !(c.groups = workers_group(profile)))
		document->failed = true;
	document_say(document, BLOCK_VERDICT, analysis->verdict);
	compose_time_slice(&c);
	compose_partial(&c);
	compose_findings(&c);
	compose_dump(&c);
	compose_ranks(&c);
	compose_processes(&c);
	compose_ended(&c);
	compose_energy(&c);
	compose_job_memory(&c);
	if (limits->brief)
		compose_brief_end(&c);
	else
		compose_measured(&c);
	free(c.shared_names);
	free(c.groups);
	return document->failed ? -ENOMEM : 0;
}
