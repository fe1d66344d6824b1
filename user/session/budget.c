// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include "base/clock.h"
#include "base/message.h"

#include <math.h>
#include <stdlib.h>

/* The time between two looks: short at first, while all of the default is attached. */
#define FIRST_LOOK_NS  100000000u
#define EARLY_LOOKS_NS 50000000u
#define EARLY_NS       1000000000u
#define LOOKS_NS       250000000u

/* The cost of a second of a program counts, and that of earlier ones less and less: a burst is no
 * rate. */
#define WINDOW_NS 1000000000.0

/* Nothing smaller than this share of the limit is reduced: it would be missed, and nothing won. */
#define LEAST 0.02

/* Calls by which steps are found are kept up to this share of the program's time, whatever the
 * limit: without them the other figures have no base. Calls that cost more are too short for steps.
 */
#define STEPS_SHARE 0.04

/* Samples are halved so often at most: fewer say nothing. */
#define SAMPLES_HALVED_MAX 3

/* A program is slowed down by more than hits take themselves: they cool its caches and the
 * processor's predictors. Measured on small PyTorch trainers, traced and untraced ones taking turns
 * on one CPU: 1.2 to 1.3. */
#define DISTURBANCE 1.3

/* Credit, in CPU time of the program whose allowance it is: of a recording that begins, and the
 * most that a program can save for a burst. Debt is paid back within this time. */
#define FIRST_CREDIT_NS 600000000.0
#define MOST_CREDIT_NS	4000000000.0
#define PAYBACK_NS	4000000000.0

struct budget {
	struct budget_parts parts;
	bool everything;
	double limit_percent;
	uint64_t started_ns, looked_ns, next_look_ns;
	struct busy_look busy;
	double busy_ns,
		spent_ns; /* of the program and of all that is in the budget: in the window */
	double credit_ns; /* of cost; < 0: more has been spent than the limit allows */
	uint64_t background_ns[TRACER_BACKGROUNDS]; /* by the last look */
	double background_spent_ns[TRACER_BACKGROUNDS];
	unsigned samples_halved;
};

double budget_slowdown_percent(double spent_ns, double busy_ns)
{
	return spent_ns < busy_ns ? 100 * spent_ns / (busy_ns - spent_ns) : HUGE_VAL;
}

/* The cost that a limit allows in this time, which contains the cost. */
static double allowance_ns(const struct budget *budget, double busy_ns)
{
	return busy_ns * budget->limit_percent / (100 + budget->limit_percent);
}

struct budget *budget__new(const struct budget_parts *parts)
{
	struct budget *budget = calloc(1, sizeof(*budget));

	if (!budget)
		return NULL;
	budget->parts = *parts;
	budget->everything = parts->max_percent > 0;
	budget->limit_percent = budget->everything ? parts->max_percent : BUDGET_PERCENT;
	budget->credit_ns = allowance_ns(budget, FIRST_CREDIT_NS);
	return budget;
}

void budget__free(struct budget *budget)
{
	free(budget);
}

void budget__start(struct budget *budget, uint64_t now_ns)
{
	budget->started_ns = budget->looked_ns = now_ns;
	budget->next_look_ns = now_ns + FIRST_LOOK_NS;
	process_table__busy_ns(budget->parts.processes, &budget->busy, 0);
}

/* --- samples and time off the CPU --- */

/* Runs are accounted for in a tick of ten (hit_costs_watch): the cost of these stands for that of a
 * look's time, and until the next account. */
#define ACCOUNTED_NS 50000000

static void look_at_background(struct budget *budget, uint64_t elapsed_ns, double kept)
{
	for (enum tracer_background i = 0; i < TRACER_BACKGROUNDS; i++) {
		uint64_t ns = tracer__background_ns(budget->parts.tracer, i);

		budget->background_spent_ns[i] *= kept;
		budget->background_spent_ns[i] +=
			(double)(ns - budget->background_ns[i]) * (double)elapsed_ns / ACCOUNTED_NS;
		budget->background_ns[i] = ns;
	}
}

/* They count in any case, and are reduced only for a limit that was given: where threads compute
 * and wait is the base of the report. */
static void add_background(const struct budget *budget, struct expenses *expenses)
{
	for (size_t i = 0; i < TRACER_BACKGROUNDS; i++) {
		struct expense expense = {
			.of = EXPENSE_BACKGROUND, .index = i, .ns = budget->background_spent_ns[i]};

		if (budget->everything &&
		    (i != TRACER_SAMPLES || budget->samples_halved < SAMPLES_HALVED_MAX))
			expenses_add(expenses, WORTH_PHASES, expense);
		else
			expenses->all_ns += expense.ns;
	}
}

static void reduce_background(struct budget *budget, enum tracer_background which)
{
	budget->background_spent_ns[which] *= which == TRACER_SAMPLES ? 0.5 : 0;
	if (which == TRACER_SAMPLES) {
		budget->samples_halved++;
		sampler__thin(budget->parts.sampler, "a higher --max-overhead keeps more");
		return;
	}
	waits__give_up(budget->parts.waits, clock_monotonic_ns());
	skipped_waits(budget->parts.skipped,
		      "removed during the recording: it cost more than --max-overhead allows");
	msg_reduced("time off the CPU", "not recorded", "a higher --max-overhead keeps it");
}

/* --- a look --- */

static struct expenses expenses_of(const struct budget *budget)
{
	struct expenses expenses = {0};

	probes__add_expenses(budget->parts.probes, budget->everything, &expenses);
	memory__add_expenses(budget->parts.memory, budget->everything, &expenses);
	add_background(budget, &expenses);
	return expenses;
}

const struct expense *budget_choose(const struct expenses *expenses, double allowed_ns,
				    struct budget_least least)
{
	double left_ns = expenses->all_ns;
	int worth = WORTH_DETAIL;

	if (left_ns <= allowed_ns)
		return NULL;
	/* by giving up the least worth alone, if that is enough */
	while (worth < WORTH_STEPS && (left_ns -= expenses->ns[worth]) > allowed_ns)
		worth++;
	for (; worth >= WORTH_DETAIL; worth--)
		if (expenses->most[worth].ns > (worth == WORTH_STEPS ? least.steps_ns : least.ns))
			return &expenses->most[worth];
	return NULL;
}

static void reduce(struct budget *budget, const struct expense *expense)
{
	const struct budget_parts *parts = &budget->parts;

	switch (expense->of) {
	case EXPENSE_FUNCTION:
		probes__reduce(parts->probes, expense->index, budget->everything);
		break;
	case EXPENSE_MEMORY:
		memory__reduce(parts->memory, (enum perfx_domain)expense->index, budget->busy_ns,
			       budget->limit_percent, budget->everything);
		break;
	case EXPENSE_BACKGROUND:
		reduce_background(budget, (enum tracer_background)expense->index);
		break;
	}
}

/* The cost that is allowed in the window, less a part of the debt. */
static double allowed_now_ns(const struct budget *budget)
{
	double allowed = allowance_ns(budget, budget->busy_ns);

	return fmax(allowed / 2, allowed + budget->credit_ns * budget->busy_ns / PAYBACK_NS);
}

static bool reduce_to_limit(struct budget *budget)
{
	double allowed = allowed_now_ns(budget) / DISTURBANCE;
	struct budget_least least = {.ns = LEAST * allowed,
				     .steps_ns = budget->busy_ns * STEPS_SHARE / DISTURBANCE};
	struct expenses expenses;
	const struct expense *expense;
	bool reduced = false;

	probes__find_nested(budget->parts.probes);
	expenses = expenses_of(budget);
	while ((expense = budget_choose(&expenses, allowed, least))) {
		reduce(budget, expense);
		expenses = expenses_of(budget);
		reduced = true;
	}
	return reduced;
}

static bool reduce_frees(struct budget *budget)
{
	enum perfx_domain domain = memory__costly_frees(budget->parts.memory, budget->everything,
							budget->busy_ns, budget->limit_percent);
	if (domain == PERFX_DOMAINS)
		return false;
	memory__reduce(budget->parts.memory, domain, budget->busy_ns, budget->limit_percent,
		       budget->everything);
	return true;
}

/* Adds the time since the last look to the window. */
static void look(struct budget *budget, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - budget->looked_ns;
	double kept = budget->spent_ns > 0 ? exp(-(double)elapsed_ns / WINDOW_NS) : 0;
	double busy_ns =
		(double)process_table__busy_ns(budget->parts.processes, &budget->busy, elapsed_ns);
	double spent_ns = kept * budget->spent_ns;

	probes__look(budget->parts.probes, kept);
	memory__look(budget->parts.memory, now_ns, kept);
	look_at_background(budget, elapsed_ns, kept);
	budget->looked_ns = now_ns;
	budget->busy_ns = kept * budget->busy_ns + busy_ns;
	budget->spent_ns = expenses_of(budget).all_ns;
	budget->credit_ns +=
		allowance_ns(budget, busy_ns) - DISTURBANCE * (budget->spent_ns - spent_ns);
	budget->credit_ns = fmin(budget->credit_ns, allowance_ns(budget, MOST_CREDIT_NS));
}

void budget__tick(struct budget *budget, uint64_t now_ns)
{
	bool reduced = false;

	memory__tick(budget->parts.memory, now_ns);
	if (now_ns < budget->next_look_ns || !probes__cost_is_known(budget->parts.probes))
		return;
	look(budget, now_ns);
	budget->next_look_ns =
		now_ns + (now_ns < budget->started_ns + EARLY_NS ? EARLY_LOOKS_NS : LOOKS_NS);
	if (budget->credit_ns < 0)
		reduced = reduce_to_limit(budget);
	else if (DISTURBANCE * budget->spent_ns <= allowance_ns(budget, budget->busy_ns))
		reduced = reduce_frees(budget);
	if (!reduced)
		return;
	probes__apply_reductions(budget->parts.probes);
	/* Calls that are only counted run another program, and a program has less to do for a
	 * sample: the window begins anew with the new probes and their cost. */
	look(budget, clock_monotonic_ns());
	probes__forget_cost(budget->parts.probes);
	budget->spent_ns = 0;
}
