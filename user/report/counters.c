// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perf events of calls, beside what their arguments say:
 *
 *     Perf counters
 *         Value  A call  Estimate  Differs  Counter       Function
 *     12.3 G     6.1 M          -        -  instructions  (all threads)
 *     4.10 G     2.0 M     4.00 G   +2.5 %  flops         cblas_sgemm
 */
#include "analyze/perf_counters.h"
#include "base/escape.h"
#include "base/units.h"
#include "report/compose.h"

#define FUNCTIONS_SHOWN 8

static bool any_perf_counter(const struct profile *profile)
{
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		if (profile->perf_counters[i].name)
			return true;
	return false;
}

static void cell_value(struct composer *c, double value)
{
	char buffer[UNITS_MAX];
	struct text text = {0};

	text_add(&text, format_si(buffer, value, ""));
	document_cell(c->document, &text);
}

static void cells_of_estimate(struct composer *c, const struct flops_check *flops)
{
	if (!flops->known) {
		document_cell_printf(c->document, "-");
		document_cell_printf(c->document, "-");
		return;
	}
	cell_value(c, (double)flops->estimated);
	document_cell_printf(c->document, "%+.1f %%", flops_check_difference(flops) * 100);
}

static void cells_of_counter(struct composer *c, int counter, uint64_t value, uint64_t calls_count,
			     const struct flops_check *flops)
{
	static const struct flops_check none = {0};
	const struct profile_perf_counter *m = &c->profile->perf_counters[counter];

	/* of the same calls as the estimate */
	cell_value(c, (double)(m->is_flops && flops->known ? flops->counted : value));
	if (calls_count)
		cell_value(c, (double)value / (double)calls_count);
	else
		document_cell_printf(c->document, "-");
	cells_of_estimate(c, m->is_flops ? flops : &none);
	document_cell_name(c->document, m->name, 0);
}

static void compose_total(struct composer *c, const struct profile_process *p)
{
	struct flops_check flops = flops_check_of_process(c->profile, p);

	for (int i = 0; p->perf.threads_count && i < PERFX_PERF_COUNTERS; i++) {
		if (!c->profile->perf_counters[i].name)
			continue;
		cells_of_counter(c, i, p->perf.values[i], 0, &flops);
		document_cell_printf(c->document, "(all threads)");
	}
}

static void compose_row(struct composer *c, const struct profile_process *p,
			const struct profile_row *row)
{
	struct flops_check flops = flops_check_of_row(c->profile, row);

	for (int i = 0; i < PERFX_PERF_COUNTERS; i++) {
		struct text name = {0};

		if (!c->profile->perf_counters[i].name)
			continue;
		cells_of_counter(c, i, row->perf->values[i], row->perf->calls_count, &flops);
		compose_function_name(c, p, row->function, &name);
		document_cell(c->document, &name);
	}
}

static void compose_note(struct composer *c, const struct profile_process *p, uint64_t calls_count,
			 uint64_t missed_count)
{
	char buffer[UNITS_MAX];
	struct text text = {0};

	text_add(&text, "A function's are those of the threads that call it, with what it calls "
			"there; work that other threads do for it is in the process's line only.");
	if (missed_count) {
		text_add(&text, " Of ");
		text_add(&text, format_count(buffer, missed_count + calls_count));
		text_add(&text, " calls ");
		text_add(&text, format_count(buffer, missed_count));
		text_add(&text, " are not in them: their threads were too new, or the processor's "
				"counters were taken.");
	}
	if (perf_share(&p->perf) < 0.995)
		text_printf(&text,
			    " The processor's counters were free for %.0f %% of the time; the "
			    "process's values are scaled up.",
			    perf_share(&p->perf) * 100);
	document_add(c->document, BLOCK_NOTE, &text);
}

static void compose_table(struct composer *c, const struct profile_process *p)
{
	static const struct column columns[] = {
		{.title = "Value", .right = true},
		{.title = "A call", .right = true, .rank = 1},
		{.title = "Estimate", .right = true},
		{.title = "Differs", .right = true},
		{.title = "Counter"},
		{.title = "Function", .takes_rest = true},
	};
	uint64_t calls_count = 0, missed_count = 0;
	unsigned shown = 0;

	document_say(c->document, BLOCK_CAPTION, "Perf counters");
	document_table(c->document, columns);
	compose_total(c, p);
	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_call_counters *perf = p->rows[i].perf;

		if (!perf)
			continue;
		calls_count += perf->calls_count;
		missed_count += perf->missed_count;
		if (perf->calls_count && shown++ < FUNCTIONS_SHOWN)
			compose_row(c, p, &p->rows[i]);
	}
	compose_note(c, p, calls_count, missed_count);
}

static bool has_perf_counters(const struct profile_process *p)
{
	for (size_t i = 0; i < p->rows_count; i++)
		if (p->rows[i].perf)
			return true;
	return p->perf.threads_count;
}

void compose_counters(struct composer *c, const struct profile_process *p)
{
	struct text text = {0};

	if (any_perf_counter(c->profile) && has_perf_counters(p)) {
		compose_details(c, "Perf counters of functions");
		compose_table(c, p);
		compose_details_end(c);
	}
	if (!c->profile->perf_counters_why || !(p->compute.measured || has_perf_counters(p)))
		return;
	text_add(&text,
		 any_perf_counter(c->profile) ? "Not counted: " : "No hardware counters here: ");
	escape_name(&text, c->profile->perf_counters_why);
	text_add(&text, ".");
	document_add(c->document, BLOCK_NOTE, &text);
}
