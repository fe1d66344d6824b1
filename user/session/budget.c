// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include "base/clock.h"
#include "base/message.h"
#include "session/process_table.h"
#include "session/recording.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The time between two checks: at first that of a tick, while all of the default is attached. */
#define EARLY_CHECKS_NS 15000000u
#define EARLY_NS	2000000000u
#define CHECKS_NS	240000000u

/* The cost of a second of a program counts, and that of earlier ones less and less: a burst is no
 * rate. */
#define WINDOW_NS 1000000000.0

/* Nothing smaller than this share of the limit is reduced: it would be missed, and nothing won. The
 * limit is that of this time at least, as a few cold hits at the first check say little of a rate.
 */
#define LEAST	    0.1
#define LEAST_OF_NS 100000000.0

/* Nor is anything of a worth that fits the limit and makes up less than this share of the excess:
 * that comes from expenses that stay, such as ends of steps or functions that the user chose. */
#define LEAST_OF_EXCESS 0.1

/* The allocations of memory that grows stay unless they take this share of the limit alone; or a
 * larger one, before they have been watched for a while. For them the rest goes, down to what costs
 * the last share. */
#define GROWTH_LEAST	  0.85
#define GROWTH_LEAST_SOON 2
#define GROWTH_LEAST_REST 0.01

/* Samples and waits stay unless one of them alone exceeds this share of the limit: the account of
 * time rests on them. Their cost is known only after some time. */
#define WAITS_LEAST 0.9
#define WATCHED_NS  300000000.0

/* Calls by which steps are found are kept up to this share of the program's time, whatever the
 * limit, and what surely ends one up to the other: without them the other figures have no base.
 * Calls that cost more are too short for steps. */
#define STEPS_SHARE	0.04
#define STEP_ENDS_SHARE 0.08
/* For the ends, the time is this at least: where threads spin on all CPUs, the first hits are often
 * interrupted, and seem to take half a millisecond. */
#define STEP_ENDS_OF_NS WINDOW_NS

/* Samples are halved so often at most: fewer say nothing. */
#define SAMPLES_HALVED_MAX 3

/* A program counts as busy for at least this share of the time. The cost of one that hardly runs
 * delays nothing, and to reduce it would leave nothing to report. */
#define BUSY_SHARE_MIN 0.2

/* The share of the limit that is aimed at: reductions come late, and end a little above it. */
#define AIM 0.9

/* Credit, in CPU time of the program whose allowance it is: an advance on the recording's first
 * time, and the most that a program can save for a burst. */
#define ADVANCE_NS     400000000.0
#define MOST_CREDIT_NS 4000000000.0

/* Debt is paid back within this time at least, and at most where the recording has no known end;
 * and not from more than this share of the limit. What is removed does not come back, so a short
 * recording that began with a burst is not left without probes. */
#define PAYBACK_MIN_NS 2000000000.0
#define PAYBACK_MAX_NS 10000000000.0
#define PAYBACK_SHARE  0.5

struct budget {
	struct recording *recording;
	bool everything;
	struct pace pace;
	uint64_t started_ns, measured_ns, next_check_ns;
	struct busy_snapshot busy;
	double background_ns[TRACER_BACKGROUNDS]; /* when measured last */
	double background_spent_ns[TRACER_BACKGROUNDS];
	unsigned samples_halved;
};

/* The cost that is allowed in this time, which contains the cost. */
static double allowance_ns(const struct pace *pace, double busy_ns)
{
	double percent = AIM * pace->limit_percent;

	return busy_ns * percent / (100 + percent);
}

void pace_begin(struct pace *pace, double limit_percent)
{
	*pace = (struct pace){.limit_percent = limit_percent};
}

void pace_add(struct pace *pace, double kept, uint64_t wall_ns, double busy_ns, double spent_ns)
{
	double counted_ns = fmax(busy_ns, BUSY_SHARE_MIN * (double)wall_ns);
	/* the programs' times are by the clock, and contain what they waited for a CPU */
	double cpu_ns = fmin(spent_ns, counted_ns);

	pace->wall_ns = kept * pace->wall_ns + (double)wall_ns;
	pace->busy_ns = kept * pace->busy_ns + busy_ns;
	pace->spent_ns = kept * pace->spent_ns + spent_ns;
	pace->credit_ns += allowance_ns(pace, counted_ns) - cpu_ns;
	pace->credit_ns = fmin(pace->credit_ns, allowance_ns(pace, MOST_CREDIT_NS));
}

double pace_busy_ns(const struct pace *pace)
{
	return fmax(pace->busy_ns, BUSY_SHARE_MIN * pace->wall_ns);
}

double pace_allowed_ns(const struct pace *pace, double rest_ns)
{
	double allowed_ns = allowance_ns(pace, pace_busy_ns(pace));
	double payback_ns = fmin(fmax(rest_ns, PAYBACK_MIN_NS), PAYBACK_MAX_NS);

	if (pace->credit_ns + allowance_ns(pace, ADVANCE_NS) >= 0)
		return HUGE_VAL;
	return fmax(PAYBACK_SHARE * allowed_ns,
		    allowed_ns + pace->credit_ns * pace->wall_ns / payback_ns);
}

static double limit_ns(const struct budget *budget)
{
	return allowance_ns(&budget->pace, pace_busy_ns(&budget->pace));
}

static double growth_least_ns(const struct budget *budget)
{
	return limit_ns(budget) *
	       (budget->pace.wall_ns >= WATCHED_NS ? GROWTH_LEAST : GROWTH_LEAST_SOON);
}

static struct expenses expenses_of(const struct budget *budget)
{
	struct expenses expenses = {0};

	probes__add_expenses(budget->recording->probes, budget->everything, &expenses);
	memory__add_expenses(budget->recording->memory, budget->everything, growth_least_ns(budget),
			     &expenses);
	for (size_t i = 0; i < TRACER_BACKGROUNDS; i++) {
		struct expense expense = {
			.of = EXPENSE_BACKGROUND, .index = i, .ns = budget->background_spent_ns[i]};

		if (budget->pace.wall_ns >= WATCHED_NS &&
		    (i != TRACER_SAMPLES || budget->samples_halved < SAMPLES_HALVED_MAX))
			expenses_add(&expenses, WORTH_WAITS, expense);
		else
			expenses.all_ns += expense.ns;
	}
	return expenses;
}

const struct expense *budget_choose(const struct expenses *expenses, double allowed_ns,
				    struct budget_least least)
{
	double left_ns = expenses->all_ns - expenses->deferred_ns;
	double excess_ns = left_ns - allowed_ns;
	int worth = WORTH_DETAIL;

	if (excess_ns <= 0)
		return NULL;
	/* by giving up the least worth alone, if that is enough */
	while (worth < WORTHS - 1 && (left_ns -= expenses->ns[worth]) > allowed_ns)
		worth++;
	for (; worth >= WORTH_DETAIL; worth--)
		if (expenses->most[worth].ns > least.ns[worth] &&
		    (expenses->ns[worth] > allowed_ns ||
		     expenses->ns[worth] >= LEAST_OF_EXCESS * excess_ns))
			return &expenses->most[worth];
	return NULL;
}

static void reduce_memory(struct budget *budget, enum perfx_domain domain, double allowed_ns)
{
	memory__reduce(budget->recording->memory, domain, limit_ns(budget), allowed_ns,
		       budget->everything);
}

/* A record of each switch costs about as much as its sums. */
static void reduce_switches(struct budget *budget)
{
	struct recording *recording = budget->recording;
	double *spent_ns = &budget->background_spent_ns[TRACER_SWITCHES];

	if (waits__stop_timeline(recording->waits)) {
		*spent_ns /= 2;
		skipped_add(&recording->skipped, "the rest of the timeline",
			    "it cost more than --max-overhead allows");
		msg_reduced("the timeline", "not recorded any more",
			    "a higher --max-overhead keeps it");
		return;
	}
	*spent_ns = 0;
	waits__give_up(recording->waits, clock_monotonic_ns());
	skipped_waits(&recording->skipped, "removed during the recording: it cost more than "
					   "--max-overhead allows");
	msg_reduced("time off the CPU", "not recorded", "a higher --max-overhead keeps it");
}

static void reduce(struct budget *budget, const struct expense *expense, double allowed_ns)
{
	struct recording *recording = budget->recording;

	switch (expense->of) {
	case EXPENSE_FUNCTION:
		probes__reduce(recording->probes, expense->index, budget->everything);
		break;
	case EXPENSE_MEMORY:
		reduce_memory(budget, (enum perfx_domain)expense->index, allowed_ns);
		break;
	case EXPENSE_BACKGROUND:
		if (expense->index == TRACER_SAMPLES) {
			budget->background_spent_ns[expense->index] *= 0.5;
			budget->samples_halved++;
			sampler__thin(recording->sampler, "a higher --max-overhead keeps more");
		} else {
			reduce_switches(budget);
		}
		break;
	}
}

static struct budget_least least_of(const struct budget *budget, const struct expenses *expenses,
				    double allowed_ns)
{
	double busy_ns = fmax(pace_busy_ns(&budget->pace), LEAST_OF_NS);
	double ends_of_ns = fmax(busy_ns, STEP_ENDS_OF_NS);
	double least = expenses->ns[WORTH_GROWTH] > 0 ? GROWTH_LEAST_REST : LEAST;
	double little = least * allowance_ns(&budget->pace, busy_ns);
	double limit = limit_ns(budget);

	return (struct budget_least){.ns = {little, little, little, growth_least_ns(budget),
					    WAITS_LEAST * limit,
					    fmax(allowed_ns, STEPS_SHARE * busy_ns),
					    fmax(allowed_ns, STEP_ENDS_SHARE * ends_of_ns)}};
}

static bool reduce_to_limit(struct budget *budget, double allowed_ns)
{
	struct expenses expenses;
	const struct expense *expense;
	bool reduced = false;

	probes__find_nested(budget->recording->probes);
	for (;; reduced = true) {
		expenses = expenses_of(budget);
		expense = budget_choose(&expenses, allowed_ns,
					least_of(budget, &expenses, allowed_ns));
		if (!expense)
			return reduced;
		/* hits before this reduction are reported at the price that they had */
		if (!reduced)
			probes__report_hits(budget->recording->probes);
		reduce(budget, expense, allowed_ns);
	}
}

/* Adds the costs since they were measured last to the window. */
static void measure_costs(struct budget *budget, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - budget->measured_ns;
	double kept = budget->pace.spent_ns > 0 ? exp(-(double)elapsed_ns / WINDOW_NS) : 0;
	double busy_ns = (double)process_table__busy_ns(budget->recording->processes, &budget->busy,
							elapsed_ns);

	probes__measure_cost(budget->recording->probes, kept);
	memory__measure_cost(budget->recording->memory, now_ns, kept);
	for (enum tracer_background i = 0; i < TRACER_BACKGROUNDS; i++) {
		double ns = probes__hit_costs(budget->recording->probes)->background[i].spent_ns;

		budget->background_spent_ns[i] *= kept;
		budget->background_spent_ns[i] += ns - budget->background_ns[i];
		budget->background_ns[i] = ns;
	}
	budget->measured_ns = now_ns;
	pace_add(&budget->pace, kept, elapsed_ns, busy_ns,
		 expenses_of(budget).all_ns - kept * budget->pace.spent_ns);
}

static void tick(struct recording *recording)
{
	uint64_t now_ns = recording->now_ns;
	struct budget *budget = recording->budget;
	struct hit_costs *hit_costs = probes__hit_costs(recording->probes);
	bool is_early = now_ns < budget->started_ns + EARLY_NS;
	double allowed_ns, rest_ns = HUGE_VAL;
	enum perfx_domain domain;

	if (recording->windows.paused)
		return;
	memory__tick(recording->memory, now_ns);
	if (memory__places_leaks(recording->memory))
		memory__note_growth(recording->memory,
				    process_table__growth(recording->processes, now_ns));
	if (now_ns < budget->next_check_ns || hit_costs->forgotten)
		return;
	measure_costs(budget, now_ns);
	budget->next_check_ns = now_ns + (is_early ? EARLY_CHECKS_NS : CHECKS_NS);
	if (recording->end_ns != UINT64_MAX)
		rest_ns = (double)recording->end_ns - (double)now_ns;
	allowed_ns = pace_allowed_ns(&budget->pace, rest_ns);
	if (allowed_ns < HUGE_VAL) {
		if (!reduce_to_limit(budget, allowed_ns))
			return;
	} else {
		domain = memory__costly_frees(recording->memory, budget->everything,
					      limit_ns(budget));
		if (domain == PERFX_DOMAINS)
			return;
		reduce_memory(budget, domain, HUGE_VAL);
	}
	/* the window is one of the new state by now, as if it had never been another */
	budget->pace.spent_ns = expenses_of(budget).all_ns;
	probes__apply_reductions(recording->probes);
	/* Calls that are only counted run another program, and a program has less to do for a
	 * sample: the window begins anew with the new probes and their cost. */
	measure_costs(budget, clock_monotonic_ns());
	hit_costs_forget(hit_costs, recording->tracer);
	budget->pace.spent_ns = 0;
}

static int open_budget(struct recording *recording)
{
	double max_percent = recording->options->max_overhead_percent;
	struct budget *budget = calloc(1, sizeof(*budget));

	if (!budget)
		return -ENOMEM;
	budget->recording = recording;
	budget->everything = max_percent > 0;
	pace_begin(&budget->pace, budget->everything ? max_percent : BUDGET_PERCENT);
	recording->budget = budget;
	return 0;
}

static void begin(struct recording *recording)
{
	struct budget *budget = recording->budget;

	budget->started_ns = budget->measured_ns = recording->start_ns;
	budget->next_check_ns = recording->start_ns + EARLY_CHECKS_NS;
	process_table__busy_ns(recording->processes, &budget->busy, 0);
}

VERB(close_budget, free(recording->budget))

const struct recording_part budget_part = {.name = "the overhead budget",
					   .open = open_budget,
					   .begin = begin,
					   .tick = tick,
					   .close = close_budget};
