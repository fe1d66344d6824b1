// SPDX-License-Identifier: BSD-2-Clause
/*
 * The report of one screen or two: of each process what to look at first, identical workers as one,
 * and a line of what the tracing cost and lost:
 *
 *     Cost: 242 probes, 30,261 hits, estimated slowdown 0.1 %. No record was lost.
 *     All of it: --full, or -o report.html.
 */
#include "analyze/location.h"
#include "base/escape.h"
#include "base/quantity.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/compose.h"
#include "report/workers.h"

#include <stdio.h>

void compose_brief_process(struct composer *c, size_t i)
{
	const struct profile_process *p = &c->profile->processes[i];

	compose_process_title(c, p);
	compose_facts(c, p);
	compose_steps(c, p);
	if (!p->steps.cost.flops)
		compose_compute(c, p);
	if (p->rows_count)
		compose_functions(c, p);
	else if (c->analysis->processes[i].silence)
		document_say(c->document, BLOCK_PARAGRAPH, c->analysis->processes[i].silence);
	compose_values(c, p);
	compose_memory_worst(c, p, &c->analysis->processes[i]);
}

/* --- identical workers ---------------------------------------------------------------------- */

#define PIDS_SHOWN 8

/* "python3: 4 identical workers (pids 4711, 4712, 4713, 4714)" */
static void compose_workers_title(struct composer *c, size_t first, size_t count)
{
	struct text text = {0};
	size_t shown = 0;

	escape_name(&text, c->profile->processes[first].comm);
	text_printf(&text, ": %zu identical workers (pids ", count);
	for (size_t i = first; i < c->profile->processes_count && shown < PIDS_SHOWN; i++)
		if (c->groups[i] == first)
			text_printf(&text, "%s%u", shown++ ? ", " : "",
				    c->profile->processes[i].pid);
	text_add(&text, count > shown ? ", …)" : ")");
	document_add(c->document, BLOCK_HEADING, &text);
}

/* " · CPU 1.20 s each (12.0 %), 4.80 s together" */
static void add_each(struct text *text, const char *title, uint64_t sum, size_t count,
		     void (*add)(struct text *, uint64_t))
{
	if (sum == PROFILE_ABSENT)
		return;
	text_printf(text, " · %s ", title);
	add(text, sum / count);
	text_add(text, " each, ");
	add(text, sum);
	text_add(text, " together");
}

static void add_allocated(struct text *text, const struct worker_sum *sum, enum perfx_domain domain)
{
	char title[64];

	snprintf(title, sizeof(title), "%s allocated%s", domain_words(domain),
		 sum->estimated[domain] ? " ~" : "");
	if (sum->allocated_bytes[domain])
		add_each(text, title, sum->allocated_bytes[domain], sum->count, add_bytes);
}

static void compose_workers_facts(struct composer *c, const struct worker_sum *sum)
{
	struct text text = {0};

	text_add(&text, "wall ");
	add_ns(&text, sum->wall_ns / sum->count);
	text_add(&text, " each");
	add_each(&text, "CPU", sum->cpu_ns, sum->count, add_ns);
	add_each(&text, "RSS", sum->rss_bytes, sum->count, add_bytes);
	for (int i = 0; i < WORKER_DOMAINS; i++)
		add_allocated(&text, sum, (enum perfx_domain)i);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
	if (!sum->steps_count)
		return;
	add_count(&text, sum->steps_count);
	text_add(&text, " steps of all workers: ");
	add_ns(&text, sum->steps_ns / sum->steps_count);
	text_add(&text, " on average, from ");
	add_ns(&text, sum->steps_avg_least_ns);
	text_add(&text, " to ");
	add_ns(&text, sum->steps_avg_most_ns);
	text_add(&text, " by worker");
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

#define WORKER_FUNCTIONS 5

static void compose_workers_untraced(struct composer *c, const struct worker_sum *sum)
{
	if (sum->untraced_ns == PROFILE_ABSENT)
		return;
	document_foot(c->document);
	document_cell_share(c->document, sum->untraced_ns, sum->wall_ns);
	document_cell_ns(c->document, sum->untraced_ns);
	document_cell_ns(c->document, sum->untraced_ns / sum->count);
	document_cell_count(c->document, PROFILE_ABSENT);
	document_cell_ns(c->document, PROFILE_ABSENT);
	document_cell_printf(c->document, "%s", PROFILE_UNTRACED_NAME);
}

static void compose_workers_table(struct composer *c, size_t first, const struct worker_sum *sum)
{
	static const struct column columns[] = {
		{.title = "Self %", .right = true},    {.title = "Self", .right = true},
		{.title = "Self each", .right = true}, {.title = "Calls", .right = true},
		{.title = "Avg", .right = true},       {.title = "Function", .takes_rest = true},
	};

	if (!sum->rows_count) {
		document_say(c->document, BLOCK_PARAGRAPH,
			     "None of the traced functions was called in them.");
		return;
	}
	document_table(c->document, columns);
	for (size_t i = 0; i < sum->rows_count && i < WORKER_FUNCTIONS; i++) {
		const struct worker_row *row = &sum->rows[i];
		bool timed = row->timed_count > 0;
		struct text name = {0};

		document_cell_share(c->document, timed ? row->self_ns : PROFILE_ABSENT,
				    sum->wall_ns);
		document_cell_ns(c->document, timed ? row->self_ns : PROFILE_ABSENT);
		document_cell_ns(c->document, timed ? row->self_ns / sum->count : PROFILE_ABSENT);
		document_cell_count(c->document, row->calls_count);
		document_cell_ns(c->document,
				 timed ? row->total_ns / row->timed_count : PROFILE_ABSENT);
		compose_function_name(c, &c->profile->processes[first], row->function, &name);
		document_cell(c->document, &name);
	}
	compose_workers_untraced(c, sum);
	document_say(c->document, BLOCK_NOTE,
		     "Sums over these workers; Self % is of the wall time of each.");
}

void compose_workers(struct composer *c, size_t first)
{
	struct worker_sum sum;

	if (worker_sum_make(&sum, c->profile, c->groups, first)) {
		c->document->failed = true;
	} else {
		compose_workers_title(c, first, sum.count);
		compose_workers_facts(c, &sum);
		compose_workers_table(c, first, &sum);
	}
	worker_sum_clear(&sum);
}

/* --- the end -------------------------------------------------------------------------------- */

/* "Lost: 12 ring_drops (records without room; calls and totals have them)." */
static void add_losses(struct text *text, const struct profile *profile)
{
	const char *separator = " Lost: ";

	for (int i = 0; i < PERFX_LOSS_KINDS; i++) {
		if (!(profile_loss_share(profile, i) > 0))
			continue;
		text_add(text, separator);
		add_count(text, profile->losses[i]);
		text_printf(text, " %s (%s)", name_of_loss(i), meaning_of_loss(i));
		separator = ", ";
	}
	text_add(text, *separator == ' ' ? " No record was lost." : ".");
}

static void compose_cost_line(struct composer *c)
{
	const struct profile *profile = c->profile;
	char buffer[UNITS_MAX];
	struct text text = {0};

	text_add(&text, "Cost: ");
	add_count(&text, profile->probes_count);
	text_add(&text, profile->probes_count == 1 ? " probe, " : " probes, ");
	add_count(&text, profile->hits_count);
	text_add(&text, profile->hits_count == 1 ? " hit" : " hits");
	if (profile->overhead_percent >= 0)
		text_printf(&text, ", estimated slowdown %s",
			    format_slowdown(buffer, profile->overhead_percent / 100));
	text_add(&text, ".");
	add_losses(&text, profile);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

/* What should have been attached: it stays prominent. */
static void compose_failures(struct composer *c)
{
	const struct profile_not_attached *first = NULL;
	struct text text = {0};
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
	add_count(&text, count);
	text_add(&text, count == 1 ? " function is" : " functions are");
	text_add(&text, " not attached: ");
	escape_name(&text, first->name);
	text_add(&text, " (");
	escape_name(&text, first->reason);
	text_add(&text, count == first->count ? ")." : "), … (--full lists them).");
	document_add(c->document, BLOCK_WARNING, &text);
}

void compose_brief_end(struct composer *c)
{
	document_say(c->document, BLOCK_HEADING, "How it was measured");
	compose_cost_line(c);
	compose_failures(c);
	compose_late(c);
	compose_hints(c);
	document_say(c->document, BLOCK_NOTE,
		     "The full report: --full, or -o report.html; --capture FILE keeps the data "
		     "for it.");
}
