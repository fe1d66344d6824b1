// SPDX-License-Identifier: BSD-2-Clause
#include "report/difference.h"

#include "analyze/place.h"
#include "base/escape.h"
#include "base/quantity.h"
#include "base/units.h"

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
	add_ns(into, (uint64_t)f->avg_ns.a);
	text_add(into, ", then ");
	add_ns(into, (uint64_t)f->avg_ns.b);
	text_add(into, ").");
}

static void add_memory(struct text *into, const struct diff_memory *m)
{
	text_printf(into, " The peak of %s went from ",
		    m->domain ? domain_words(m->domain) : "resident memory");
	add_bytes(into, (uint64_t)m->peak_bytes.a);
	text_add(into, " to ");
	add_bytes(into, (uint64_t)m->peak_bytes.b);
	text_add(into, ".");
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
	if (steps->time == DIFF_SAME)
		text_add(into, "Steps take as long as before (");
	else
		text_printf(into, "Steps are %s: %+.1f %% (", difference_of_time(steps->time),
			    100 * diff_change(steps->avg_ns));
	add_ns(into, (uint64_t)steps->avg_ns.a);
	text_add(into, ", then ");
	add_ns(into, (uint64_t)steps->avg_ns.b);
	text_add(into, "). ");
}

void difference_verdict(struct text *into, const struct diff *diff)
{
	const struct diff_function *f = largest(diff, DIFF_WORSE);
	const struct diff_memory *m = more_memory(diff);
	const struct diff_steps *steps = changed_steps(diff);

	if (!f)
		f = largest(diff, DIFF_BETTER);
	if (steps)
		add_steps(into, steps);
	if (f)
		add_function(into, f);
	else if (!diff->compared_count)
		text_add(into, "No function was called in both recordings.");
	else if (!diff->tested_count)
		text_add(into, "Too few calls of every function to tell.");
	else
		text_add(into, "No function is slower or faster than its spread explains.");
	if (m)
		add_memory(into, m);
	if (!diff->compared_count)
		return;
	text_add(into, " Of ");
	add_count(into, diff->compared_count);
	text_printf(into, " function%s in both, %zu slower, %zu faster.",
		    diff->compared_count == 1 ? "" : "s", diff->worse_count, diff->better_count);
}
