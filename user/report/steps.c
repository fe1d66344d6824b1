// SPDX-License-Identifier: BSD-2-Clause
/*
 * The steps of a training:
 *
 *     Steps
 *     120 steps by Optimizer.step#SGD.step: 81.2 ms on average, median 80.1 ms, 95 % within
 *     95.0 ms, longest 130 ms
 *
 *     Phase      Share  Per step   Total
 *     data       40.1 %  32.6 ms   3.91 s
 */
#include "base/quantity.h"
#include "base/units.h"
#include "report/compose.h"

const char *name_of_phase(enum profile_phase phase)
{
	switch (phase) {
	case PROFILE_PHASE_FORWARD:
		return "forward";
	case PROFILE_PHASE_DATA:
		return "data";
	case PROFILE_PHASE_BACKWARD:
		return "backward";
	case PROFILE_PHASE_OPTIMIZER:
		return "optimizer";
	case PROFILE_PHASE_OTHER:
	case PROFILE_PHASES:
		break;
	}
	return "other";
}

static void compose_durations(struct composer *c, const struct profile_process *p)
{
	const struct profile_steps *steps = &p->steps;
	struct text text = {0};

	add_count(&text, steps->count);
	text_add(&text, steps->count == 1 ? " step by " : " steps by ");
	compose_function_name(c, p, steps->function, &text);
	text_add(&text, ": ");
	add_ns(&text, steps->avg_ns);
	text_add(&text, " on average, median ");
	add_ns(&text, steps->p50_ns);
	text_add(&text, ", 95 % within ");
	add_ns(&text, steps->p95_ns);
	text_add(&text, ", longest ");
	add_ns(&text, steps->max_ns);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

static void compose_phase(struct composer *c, const struct profile_steps *steps,
			  enum profile_phase phase)
{
	document_cell_printf(c->document, "%s", name_of_phase(phase));
	document_cell_share(c->document, steps->phases[phase], steps->total_ns);
	document_cell_ns(c->document, steps->phases[phase] / steps->count);
	document_cell_ns(c->document, steps->phases[phase]);
}

void compose_steps(struct composer *c, const struct profile_process *p)
{
	static const struct column columns[] = {
		{.title = "Phase"},
		{.title = "Share", .right = true},
		{.title = "Per step", .right = true},
		{.title = "Total", .right = true},
	};
	/* in the order of a step */
	static const enum profile_phase order[] = {PROFILE_PHASE_DATA, PROFILE_PHASE_FORWARD,
						   PROFILE_PHASE_BACKWARD, PROFILE_PHASE_OPTIMIZER,
						   PROFILE_PHASE_OTHER};

	if (!p->steps.count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Steps");
	compose_durations(c, p);
	document_table(c->document, columns);
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		compose_phase(c, &p->steps, order[i]);
}
