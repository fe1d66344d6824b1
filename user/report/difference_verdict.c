// SPDX-License-Identifier: BSD-2-Clause
#include "report/difference_cells.h"

#include "base/escape.h"
#include "base/quantity.h"

#include <math.h>

const char *difference_of_time(enum diff_verdict verdict)
{
	static const char *const names[] = {"unknown", "same", "faster", "slower"};

	return names[verdict];
}

const char *difference_of_memory(enum diff_verdict verdict)
{
	static const char *const names[] = {"unknown", "same", "less", "more"};

	return names[verdict];
}

/* The first of a process is the one with the largest impact. */
static const struct diff_function *largest(const struct diff *diff, enum diff_verdict verdict)
{
	const struct diff_function *found = NULL;

	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_process *p = &diff->processes[i];

		for (size_t j = 0; j < p->functions_count; j++) {
			const struct diff_function *f = &p->functions[j];

			if (f->time == verdict && (!found || fabs(f->impact) > fabs(found->impact)))
				found = f;
		}
	}
	return found;
}

static double growth(const struct diff_memory *memory)
{
	return memory->peak_bytes.b - memory->peak_bytes.a;
}

static const struct diff_memory *more_memory(const struct diff *diff)
{
	const struct diff_memory *found = NULL;

	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_process *p = &diff->processes[i];

		for (size_t j = 0; j < p->memory_count; j++) {
			const struct diff_memory *m = &p->memory[j];

			if (m->verdict == DIFF_WORSE && (!found || growth(m) >= growth(found)))
				found = m;
		}
	}
	return found;
}

static void add_function(struct text *into, const struct diff_function *f)
{
	escape_name(into, f->function->name[0] ? f->function->name : "?");
	text_printf(into, " is %s: %+.1f %% a call (", difference_of_time(f->time),
		    100 * diff_change(f->avg_ns));
	add_both(into, f->avg_ns, add_time);
	text_add(into, ").");
}

/* The most severe of those of one side, and how many there are. */
static const struct finding *first_finding(const struct diff *diff, unsigned in, size_t *count)
{
	const struct finding *first = NULL;

	*count = 0;
	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_process *p = &diff->processes[i];

		for (size_t j = 0; j < p->findings_count; j++) {
			const struct finding *finding = p->findings[j].finding;

			if (p->findings[j].in != in)
				continue;
			++*count;
			if (!first || finding->severity < first->severity)
				first = finding;
		}
	}
	return first;
}

static void add_findings(struct text *into, const struct diff *diff, unsigned in)
{
	size_t count;
	const struct finding *finding = first_finding(diff, in, &count);

	if (!finding)
		return;
	text_add(into, in == DIFF_IN_A ? "Gone: " : "New: ");
	story_add_finding(into, finding);
	if (count > 1)
		text_printf(into, " (and %zu more finding%s)", count - 1, count == 2 ? "" : "s");
	text_add(into, ". ");
}

static void add_memory(struct text *into, const struct diff_memory *m)
{
	text_add(into, "The ");
	story_add_peak(into, m);
	text_add(into, ". ");
}

/* Of processes with steps on both sides the one whose changed most, in time. */
static const struct diff_steps *changed_steps(const struct diff *diff)
{
	const struct diff_steps *found = NULL;

	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_steps *s = &diff->processes[i].steps;

		if (s->time == DIFF_UNJUDGED)
			continue;
		if (!found || fabs(diff_change(s->avg_ns)) > fabs(diff_change(found->avg_ns)))
			found = s;
	}
	return found;
}

static void add_steps(struct text *into, const struct diff_steps *steps)
{
	text_add(into, "Steps: ");
	story_add_steps(into, steps);
	text_add(into, ". ");
}

void difference_verdict(struct text *into, const struct diff *diff)
{
	const struct diff_function *f = largest(diff, DIFF_WORSE);
	const struct diff_memory *m = more_memory(diff);
	const struct diff_steps *steps = changed_steps(diff);

	if (!f)
		f = largest(diff, DIFF_BETTER);
	add_findings(into, diff, DIFF_IN_A);
	add_findings(into, diff, DIFF_IN_B);
	if (m)
		add_memory(into, m);
	if (steps)
		add_steps(into, steps);
	if (f)
		add_function(into, f);
	else if (!diff->compared_count)
		text_add(into, "No function was called in both recordings.");
	else if (!diff->tested_count)
		text_add(into, "Too few calls of every function to tell.");
	else
		text_add(into, "No function changed significantly.");
	if (!diff->compared_count)
		return;
	text_add(into, " Of ");
	add_count(into, diff->compared_count);
	text_printf(into, " function%s in both, %zu slower, %zu faster.",
		    diff->compared_count == 1 ? "" : "s", diff->worse_count, diff->better_count);
}
