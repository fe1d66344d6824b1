// SPDX-License-Identifier: BSD-2-Clause
/*
 * Composes a report in the order in which it is read: verdict, findings, each process with what it
 * used and which functions it called, how it was measured.
 */
#include "base/escape.h"
#include "base/units.h"
#include "report/document.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct composer {
	struct document *document;
	const struct profile *profile;
	const struct analysis *analysis;
	const struct report_options *options;
	const struct document_limits *limits;
};

static void add_ns(struct text *text, uint64_t ns)
{
	char buffer[UNITS_MAX];

	text_add(text, ns == PROFILE_ABSENT ? "-" : format_ns(buffer, ns));
}

static void add_bytes(struct text *text, uint64_t bytes)
{
	char buffer[UNITS_MAX];

	text_add(text, format_bytes(buffer, bytes));
}

static void cell_ns(struct document *document, uint64_t ns)
{
	struct text cell = {0};

	add_ns(&cell, ns);
	document_cell(document, &cell);
}

static void cell_count(struct document *document, uint64_t count)
{
	char buffer[UNITS_MAX];

	document_cell_printf(document, "%s", format_count(buffer, count));
}

static void cell_share(struct document *document, uint64_t part, uint64_t whole)
{
	char buffer[UNITS_MAX];

	if (part == PROFILE_ABSENT || !whole)
		document_cell_printf(document, "-");
	else
		document_cell_printf(document, "%s",
				     format_percent(buffer, (double)part / (double)whole));
}

static void cell_name(struct document *document, const char *name)
{
	struct text cell = {0};

	escape_name(&cell, name);
	document_cell(document, &cell);
}

static void compose_partial(struct composer *c)
{
	struct text text = {0};
	const char *separator = "Partial: ";
	unsigned partial = c->profile->partial;

	if (!partial)
		return;
	if (partial & PROFILE_PARTIAL_KILLED) {
		text_printf(&text, "%sthe target was killed while it was traced", separator);
		separator = "; ";
	}
	if (partial & PROFILE_PARTIAL_TRUNCATED) {
		text_printf(&text, "%sthe capture is cut or damaged: what came later is missing",
			    separator);
		separator = "; ";
	}
	if (partial & PROFILE_PARTIAL_LOSSY)
		text_printf(&text, "%smore than 1 %% of something was lost (see the losses below)",
			    separator);
	text_add(&text, ".");
	document_add(c->document, BLOCK_WARNING, &text);
}

static void add_finding(struct document *document, const struct finding *finding)
{
	struct text text = {0};

	text_add(&text, finding->subject);
	document_add(document, BLOCK_FINDING, &text);
	if (!document->failed)
		document->blocks[document->blocks_count - 1].finding = finding;
}

/* Ranked over all processes: first by severity, then in each process's own order. */
static void compose_findings(struct composer *c)
{
	unsigned shown = 0, all = 0;
	struct text text = {0};

	for (size_t i = 0; i < c->analysis->processes_count; i++)
		all += (unsigned)c->analysis->processes[i].findings_count;
	if (!all)
		return;
	document_say(c->document, BLOCK_HEADING, "Findings");
	for (int severity = FINDING_HIGH; severity <= FINDING_LOW; severity++) {
		for (size_t i = 0; i < c->analysis->processes_count; i++) {
			const struct process_analysis *p = &c->analysis->processes[i];

			for (size_t j = 0; j < p->findings_count; j++) {
				if ((int)p->findings[j].severity != severity ||
				    shown == c->limits->findings)
					continue;
				add_finding(c->document, &p->findings[j]);
				shown++;
			}
		}
	}
	if (shown < all) {
		text_printf(&text, "%u more in the JSON report.", all - shown);
		document_add(c->document, BLOCK_NOTE, &text);
	}
}

/* "exited with status 0", "killed by SIGKILL" */
static void add_end(struct text *text, const struct profile_process *p)
{
	const char *name;

	if (!p->exited)
		return;
	text_add(text, " · ");
	if (!WIFSIGNALED(p->status)) {
		text_printf(text, "exited with status %d", WEXITSTATUS(p->status));
		return;
	}
	name = sigabbrev_np(WTERMSIG(p->status));
	if (name)
		text_printf(text, "killed by SIG%s", name);
	else
		text_printf(text, "killed by signal %d", WTERMSIG(p->status));
}

static void add_cpu_facts(struct text *text, const struct profile_process *p)
{
	uint64_t wall_ns = profile_wall_ns(p);
	char buffer[UNITS_MAX];

	if (p->cpu_ns == PROFILE_ABSENT)
		return;
	text_add(text, " · CPU ");
	add_ns(text, p->cpu_user_ns);
	text_add(text, " user, ");
	add_ns(text, p->cpu_system_ns);
	text_add(text, " system");
	if (wall_ns)
		text_printf(text, " (%s)",
			    format_percent(buffer, (double)p->cpu_ns / (double)wall_ns));
}

static void add_pair(struct text *text, const char *first, uint64_t first_bytes, const char *second,
		     uint64_t second_bytes)
{
	if (first_bytes == PROFILE_ABSENT || second_bytes == PROFILE_ABSENT)
		return;
	text_add(text, first);
	add_bytes(text, first_bytes);
	text_add(text, second);
	add_bytes(text, second_bytes);
}

static void compose_facts(struct composer *c, const struct profile_process *p)
{
	struct text text = {0};

	text_add(&text, "wall ");
	add_ns(&text, profile_wall_ns(p));
	add_cpu_facts(&text, p);
	add_pair(&text, " · RSS ", p->rss_bytes, ", peak ", p->rss_peak_bytes);
	add_pair(&text, " · disk read ", p->read_bytes, ", written ", p->write_bytes);
	add_pair(&text, " · network in ", p->net_rx_bytes, ", out ", p->net_tx_bytes);
	if (p->kernel_threads_count != PROFILE_ABSENT)
		text_printf(&text, " · %llu thread%s", (unsigned long long)p->kernel_threads_count,
			    p->kernel_threads_count == 1 ? "" : "s");
	add_end(&text, p);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

/* How much of a command line a report for people shows. */
#define CMDLINE_CHARS 200

static void compose_cmdline(struct composer *c, const struct profile_process *p)
{
	struct text plain = {0}, text = {0};

	for (const char *s = p->cmdline; *s; s++) {
		if (!c->options->full_cmdline && plain.length >= CMDLINE_CHARS) {
			text_add(&plain, "…");
			break;
		}
		text_add_bytes(&plain, *s == PROFILE_ARGUMENT_END ? " " : s, 1);
	}
	escape_name(&text, text_peek(&plain));
	if (plain.length)
		document_add(c->document, BLOCK_NOTE, &text);
	text_clear(&text);
	text_clear(&plain);
}

/* Overloads have one name: then the offset tells them apart. */
static bool is_ambiguous(const struct composer *c, const struct profile_process *p,
			 const struct profile_function *function)
{
	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_function *other =
			profile_function(c->profile, p->rows[i].function);

		if (other && other != function && !strcmp(other->name, function->name))
			return true;
	}
	return false;
}

static void cell_function(struct composer *c, const struct profile_process *p, uint32_t id)
{
	const struct profile_function *function = profile_function(c->profile, id);
	struct text plain = {0}, cell = {0};

	if (!function) {
		document_cell_printf(c->document, "(not known)");
		return;
	}
	text_add(&plain, function->name[0] ? function->name : "?");
	if (is_ambiguous(c, p, function))
		text_printf(&plain, " +0x%llx", (unsigned long long)function->offset);
	escape_name(&cell, text_peek(&plain));
	text_clear(&plain);
	document_cell(c->document, &cell);
}

static void compose_function_table(struct composer *c, const struct profile_process *p, size_t from,
				   size_t to)
{
	/* nsys's and torch.profiler's figures; the name last, so that it gets what room there is */
	static const struct column columns[] = {
		{.title = "Self %", .right = true},
		{.title = "Self", .right = true},
		{.title = "Total", .right = true, .rank = 2},
		{.title = "Calls", .right = true},
		{.title = "Avg", .right = true},
		{.title = "p50", .right = true, .rank = 5},
		{.title = "p95", .right = true, .rank = 3},
		{.title = "p99", .right = true, .rank = 1},
		{.title = "Min", .right = true, .rank = 8},
		{.title = "Max", .right = true, .rank = 4},
		{.title = "Threads", .right = true, .rank = 7},
		{.title = "Function", .takes_rest = true},
		{.title = "Module", .rank = 6},
	};
	uint64_t wall_ns = profile_wall_ns(p);

	document_table(c->document, columns);
	for (size_t i = from; i < to; i++) {
		const struct profile_row *row = &p->rows[i];
		const struct profile_function *function =
			profile_function(c->profile, row->function);
		bool timed = row->timed_count > 0;

		cell_share(c->document, timed ? row->self_ns : PROFILE_ABSENT, wall_ns);
		cell_ns(c->document, timed ? row->self_ns : PROFILE_ABSENT);
		cell_ns(c->document, timed ? row->total_ns : PROFILE_ABSENT);
		cell_count(c->document, row->calls_count);
		cell_ns(c->document, row->avg_ns);
		cell_ns(c->document, row->p50_ns);
		cell_ns(c->document, row->p95_ns);
		cell_ns(c->document, row->p99_ns);
		cell_ns(c->document, row->min_ns);
		cell_ns(c->document, row->max_ns);
		cell_count(c->document, row->threads_count);
		cell_function(c, p, row->function);
		cell_name(c->document, function ? function->module_base : "?");
	}
}

/* What the table's figures do not say by themselves. */
static void compose_function_notes(struct composer *c, const struct profile_process *p)
{
	uint64_t booked = 0, unwound = 0, untimed = 0;
	struct text text = {0};
	char buffer[UNITS_MAX];

	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_row *row = &p->rows[i];

		booked += row->booked_count;
		unwound += row->unwound_count;
		untimed += row->calls_count - row->timed_count - row->unwound_count;
	}
	text_add(&text, "Self % is of the process's wall time; threads add up.");
	if (booked)
		text_printf(
			&text,
			" %s calls found no room in the ring: they are in Calls, Self, Total and "
			"Avg, not in the percentiles, Min and Max.",
			format_count(buffer, booked));
	if (unwound)
		text_printf(&text,
			    " %s calls were left by an exception or longjmp: counted, not timed.",
			    format_count(buffer, unwound));
	if (untimed)
		text_printf(&text, " %s calls could only be counted.",
			    format_count(buffer, untimed));
	document_add(c->document, BLOCK_NOTE, &text);
}

static void compose_callers(struct composer *c, const struct profile_process *p)
{
	static const struct column columns[] = {
		{.title = "Calls", .right = true},
		{.title = "Total", .right = true},
		{.title = "Called by", .takes_rest = true},
	};
	struct text text = {0};

	for (size_t i = 0; i < p->rows_count && i < c->limits->callers; i++) {
		const struct profile_row *row = &p->rows[i];
		const struct profile_function *function =
			profile_function(c->profile, row->function);

		escape_name(&text, function ? function->name : "?");
		text_add(&text, " is called by");
		document_add(c->document, BLOCK_PARAGRAPH, &text);
		document_table(c->document, columns);
		for (size_t j = 0; j < row->callers_count && j < 8; j++) {
			const struct profile_caller *caller = &row->callers[j];

			cell_count(c->document, caller->calls_count);
			cell_ns(c->document, row->timed_count ? caller->total_ns : PROFILE_ABSENT);
			if (caller->caller == PROFILE_CALLER_UNTRACED)
				document_cell_printf(c->document, "(code that is not traced)");
			else
				cell_function(c, p, caller->caller);
		}
	}
}

static bool has_traced_callers(const struct composer *c, const struct profile_process *p)
{
	for (size_t i = 0; i < p->rows_count && i < c->limits->callers; i++) {
		for (size_t j = 0; j < p->rows[i].callers_count; j++) {
			if (p->rows[i].callers[j].caller != PROFILE_CALLER_UNTRACED)
				return true;
		}
	}
	return false;
}

static void compose_functions(struct composer *c, const struct profile_process *p)
{
	size_t shown = p->rows_count < c->limits->functions ? p->rows_count : c->limits->functions;
	size_t more = p->rows_count < c->limits->more ? p->rows_count : c->limits->more;
	struct text text = {0};

	compose_function_table(c, p, 0, shown);
	compose_function_notes(c, p);
	if (more > shown) {
		text_printf(&text,
			    more < p->rows_count ? "Functions %zu to %zu of %zu"
						 : "Functions %zu to %zu",
			    shown + 1, more, p->rows_count);
		document_add(c->document, BLOCK_FOLD, &text);
		compose_function_table(c, p, shown, more);
		document_say(c->document, BLOCK_UNFOLD, "");
		shown = more;
	}
	if (shown < p->rows_count) {
		text_printf(&text, "%zu more functions in the JSON report.", p->rows_count - shown);
		document_add(c->document, BLOCK_NOTE, &text);
	}
	if (has_traced_callers(c, p)) {
		document_say(c->document, BLOCK_FOLD, "Callers");
		compose_callers(c, p);
		document_say(c->document, BLOCK_UNFOLD, "");
	}
}

static void compose_threads(struct composer *c, const struct profile_process *p)
{
	static const struct column columns[] = {
		{.title = "TID", .right = true},
		{.title = "On CPU", .right = true},
		{.title = "Runnable", .right = true},
		{.title = "Blocked", .right = true},
		{.title = "State"},
		{.title = "Thread", .takes_rest = true},
	};
	size_t shown =
		p->threads_count < c->limits->threads ? p->threads_count : c->limits->threads;
	struct text text = {0};

	if (!shown)
		return;
	text_printf(&text, "Threads (%zu)", p->threads_count);
	document_add(c->document, BLOCK_FOLD, &text);
	document_table(c->document, columns);
	for (size_t i = 0; i < shown; i++) {
		const struct profile_thread *thread = &p->threads[i];

		document_cell_printf(c->document, "%u", thread->tid);
		cell_ns(c->document, thread->on_cpu_ns);
		cell_ns(c->document, thread->runnable_ns);
		cell_ns(c->document, thread->blocked_ns);
		document_cell_printf(c->document, "%c", thread->state ? thread->state : '-');
		cell_name(c->document, thread->comm);
	}
	if (shown < p->threads_count) {
		text_printf(&text, "%zu more in the JSON report.", p->threads_count - shown);
		document_add(c->document, BLOCK_NOTE, &text);
	}
	document_say(c->document, BLOCK_UNFOLD, "");
}

static void compose_process(struct composer *c, size_t i)
{
	const struct profile_process *p = &c->profile->processes[i];
	struct text text = {0};

	escape_name(&text, p->comm[0] ? p->comm : "?");
	text_printf(&text, " (pid %u", p->pid);
	if (p->exec_count)
		text_printf(&text, ", exec %u", p->exec_count);
	text_add(&text, ")");
	document_add(c->document, BLOCK_HEADING, &text);
	compose_cmdline(c, p);
	compose_facts(c, p);
	if (p->rows_count)
		compose_functions(c, p);
	else if (c->analysis->processes[i].silence)
		document_say(c->document, BLOCK_PARAGRAPH, c->analysis->processes[i].silence);
	compose_threads(c, p);
}

/* Processes that are not worth a section: one row each. */
static void compose_others(struct composer *c, const bool *shown)
{
	static const struct column columns[] = {
		{.title = "PID", .right = true},	  {.title = "Wall", .right = true},
		{.title = "CPU", .right = true},	  {.title = "Calls", .right = true},
		{.title = "Process", .takes_rest = true},
	};
	size_t others = 0, rows = 0;
	struct text text = {0};

	for (size_t i = 0; i < c->profile->processes_count; i++)
		others += !shown[i];
	if (!others)
		return;
	text_printf(&text, "Other processes (%zu)", others);
	document_add(c->document, BLOCK_FOLD, &text);
	document_table(c->document, columns);
	for (size_t i = 0; i < c->profile->processes_count; i++) {
		const struct profile_process *p = &c->profile->processes[i];

		if (shown[i] || rows++ >= 50)
			continue;
		document_cell_printf(c->document, "%u", p->pid);
		cell_ns(c->document, profile_wall_ns(p));
		cell_ns(c->document, p->cpu_ns);
		cell_count(c->document, p->calls_count);
		cell_name(c->document, p->comm[0] ? p->comm : "?");
	}
	document_say(c->document, BLOCK_UNFOLD, "");
}

/* Those with calls get a section; when there are none, the one that used most CPU time says why. */
static size_t next_process(const struct composer *c, const bool *shown, bool any_calls)
{
	const struct profile *profile = c->profile;
	size_t best = profile->processes_count;

	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *p = &profile->processes[i], *q;

		if (shown[i] || (any_calls && !p->calls_count))
			continue;
		if (best == profile->processes_count) {
			best = i;
			continue;
		}
		q = &profile->processes[best];
		if (p->self_ns > q->self_ns ||
		    (p->self_ns == q->self_ns && p->cpu_ns + 1 > q->cpu_ns + 1))
			best = i;
	}
	return best;
}

static void compose_processes(struct composer *c)
{
	bool *shown = calloc(c->profile->processes_count + 1, sizeof(*shown));
	bool any_calls = c->profile->calls_count > 0;

	if (!shown) {
		c->document->failed = true;
		return;
	}
	for (unsigned n = 0; n < c->limits->processes; n++) {
		size_t i = next_process(c, shown, any_calls);

		if (i == c->profile->processes_count)
			break;
		shown[i] = true;
		compose_process(c, i);
	}
	compose_others(c, shown);
	free(shown);
}

int document_compose(struct document *document, const struct profile *profile,
		     const struct analysis *analysis, const struct report_options *options,
		     const struct document_limits *limits)
{
	struct composer c = {document, profile, analysis, options, limits};

	document_say(document, BLOCK_VERDICT, analysis->verdict);
	compose_partial(&c);
	compose_findings(&c);
	compose_processes(&c);
	compose_measured(document, profile, limits);
	return document->failed ? -ENOMEM : 0;
}
