// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include "base/clock.h"
#include "base/message.h"

#include <math.h>
#include <stdlib.h>

/* Between two looks: long enough for a step of training. */
#define LOOK_NS 250000000u
/* The first look comes sooner, because until then the full cost is paid. A burst is no rate. */
#define FIRST_LOOK_NS 100000000u

/* What costs less of the limit stays: it would be missed, and nothing won. */
#define LEAST 0.02

/* A program is slowed down by more than hits take themselves: they cool its caches and the
 * processor's predictors. Measured on small PyTorch trainers, traced and untraced ones taking turns
 * on one CPU: 1.2 to 1.3. */
#define DISTURBANCE 1.3

struct budget {
	struct budget_parts parts;
	bool everything;
	double limit_percent;
	uint64_t looked_ns, next_look_ns;
	struct busy_look busy;
	uint64_t background_ns[TRACER_BACKGROUNDS]; /* by the last look */
	double background_spent_ns[TRACER_BACKGROUNDS];
};

double budget_slowdown_percent(double spent_ns, double busy_ns)
{
	return spent_ns < busy_ns ? 100 * spent_ns / (busy_ns - spent_ns) : HUGE_VAL;
}

struct budget *budget__new(const struct budget_parts *parts)
{
	struct budget *budget = calloc(1, sizeof(*budget));

	if (!budget)
		return NULL;
	budget->parts = *parts;
	budget->everything = parts->max_percent > 0;
	budget->limit_percent = budget->everything ? parts->max_percent : BUDGET_PERCENT;
	return budget;
}

void budget__free(struct budget *budget)
{
	free(budget);
}

void budget__start(struct budget *budget, uint64_t now_ns)
{
	budget->looked_ns = now_ns;
	budget->next_look_ns = now_ns + FIRST_LOOK_NS;
	process_table__busy_ns(budget->parts.processes, &budget->busy, 0);
}

/* --- samples and time off the CPU --- */

/* Runs are accounted for in a tick of ten (hit_costs_watch): what they took stands for a look's
 * time, and until the next account. */
#define ACCOUNTED_NS 50000000

static void look_at_background(struct budget *budget, uint64_t elapsed_ns)
{
	for (enum tracer_background i = 0; i < TRACER_BACKGROUNDS; i++) {
		uint64_t ns = tracer__background_ns(budget->parts.tracer, i);

		if (ns == budget->background_ns[i])
			continue;
		budget->background_spent_ns[i] =
			(double)(ns - budget->background_ns[i]) * (double)elapsed_ns / ACCOUNTED_NS;
		budget->background_ns[i] = ns;
	}
}

/* They count in any case, and go only by a limit that was given. */
static struct expense dearest_background(const struct budget *budget, double *spent_ns)
{
	struct expense dearest = {0};

	for (size_t i = 0; i < TRACER_BACKGROUNDS; i++) {
		double ns = budget->background_spent_ns[i];

		*spent_ns += ns;
		if (budget->everything && ns > dearest.ns)
			dearest = (struct expense){.index = i, .ns = ns};
	}
	return dearest;
}

static void thin_background(struct budget *budget, enum tracer_background which)
{
	budget->background_spent_ns[which] = 0;
	if (which == TRACER_SAMPLES) {
		sampler__thin(budget->parts.sampler, "a higher --max-overhead keeps more");
		return;
	}
	waits__give_up(budget->parts.waits, clock_monotonic_ns());
	skipped_waits(budget->parts.skipped,
		      "removed during the recording: it cost more than --max-overhead allows");
	msg_reduced("time off the CPU", "not recorded", "a higher --max-overhead keeps it");
}

/* --- a look --- */

/* Whatever costs most steps down. False: nothing can. */
static bool thin_dearest(struct budget *budget, double busy_ns)
{
	const struct budget_parts *parts = &budget->parts;
	double spent_ns = 0;
	struct expense function = probes__dearest(parts->probes, budget->everything, &spent_ns);
	struct expense domain = memory__dearest(parts->memory, budget->everything, &spent_ns);
	struct expense background = dearest_background(budget, &spent_ns);
	double most_ns = fmax(function.ns, fmax(domain.ns, background.ns));
	double percent = 100 * most_ns / busy_ns, domain_percent = 100 * domain.ns / busy_ns;
	bool frees = memory__frees_cost_much(parts->memory, (enum perfx_domain)domain.index,
					     domain_percent, budget->limit_percent);

	if (!frees &&
	    (percent < LEAST * budget->limit_percent ||
	     budget_slowdown_percent(DISTURBANCE * spent_ns, busy_ns) <= budget->limit_percent))
		return false;
	if (!frees && most_ns == function.ns)
		probes__thin(parts->probes, function.index, budget->everything);
	else if (frees || most_ns == domain.ns)
		memory__thin(parts->memory, (enum perfx_domain)domain.index, domain_percent,
			     budget->limit_percent, budget->everything);
	else
		thin_background(budget, (enum tracer_background)background.index);
	return true;
}

static void look(struct budget *budget, uint64_t now_ns)
{
	double busy_ns = (double)process_table__busy_ns(budget->parts.processes, &budget->busy,
							now_ns - budget->looked_ns);
	bool thinned = false;

	probes__look(budget->parts.probes);
	memory__look(budget->parts.memory, now_ns);
	look_at_background(budget, now_ns - budget->looked_ns);
	budget->looked_ns = now_ns;
	/* the first look's time is short: a burst is no rate */
	busy_ns = fmax(busy_ns, LOOK_NS);
	while (thin_dearest(budget, busy_ns))
		thinned = true;
	probes__thinned(budget->parts.probes);
	/* calls that are only counted run another program, and a program has less to do for what is
	 * sampled: nothing else goes by what hits have cost so far */
	if (thinned)
		probes__forget_cost(budget->parts.probes);
}

void budget__tick(struct budget *budget, uint64_t now_ns)
{
	memory__tick(budget->parts.memory, now_ns);
	if (now_ns < budget->next_look_ns)
		return;
	look(budget, now_ns);
	budget->next_look_ns = now_ns + LOOK_NS;
}
