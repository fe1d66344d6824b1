// SPDX-License-Identifier: BSD-2-Clause
#include "diff/internal.h"

#include "analyze/steps.h"

#include <math.h>

static const struct profile_steps *steps_of(const struct profile_process *p)
{
	return p && p->steps.count ? &p->steps : NULL;
}

static struct sample sample_of(const struct profile_steps *steps)
{
	if (!steps)
		return (struct sample){.mean = NAN, .stddev = -1};
	return (struct sample){.count = steps->count,
			       .mean = (double)steps->total_ns / (double)steps->count,
			       .stddev = steps->stddev_ns};
}

static double known(double number)
{
	return number < 0 ? NAN : number;
}

static struct step_rates rates_of(const struct profile *profile, const struct profile_process *p)
{
	if (steps_of(p))
		return steps_rates(profile, p);
	return (struct step_rates){.flops = -1, .flops_per_s = -1, .mfu = -1};
}

#define PAIR(field)                                                    \
	(struct diff_pair)                                             \
	{                                                              \
		a ? (double)a->field : NAN, b ? (double)b->field : NAN \
	}

static void compare_cost(const struct diff *diff, const struct diff_process *process,
			 struct diff_steps *into)
{
	struct step_rates a = rates_of(diff->a, process->a), b = rates_of(diff->b, process->b);

	into->flops = (struct diff_pair){known(a.flops), known(b.flops)};
	into->flops_per_s = (struct diff_pair){known(a.flops_per_s), known(b.flops_per_s)};
	into->mfu = (struct diff_pair){known(a.mfu), known(b.mfu)};
}

void diff_steps(const struct diff *diff, struct diff_process *process)
{
	const struct profile_steps *a = steps_of(process->a), *b = steps_of(process->b);
	struct diff_steps *into = &process->steps;

	into->in = (a ? DIFF_IN_A : 0) | (b ? DIFF_IN_B : 0);
	into->a = sample_of(a);
	into->b = sample_of(b);
	into->count = PAIR(count);
	into->avg_ns = (struct diff_pair){into->a.mean, into->b.mean};
	into->p50_ns = PAIR(p50_ns);
	into->p95_ns = PAIR(p95_ns);
	into->max_ns = PAIR(max_ns);
	for (int i = 0; i < PROFILE_PHASES; i++)
		into->phases_ns[i] = (struct diff_pair){a ? diff_of(a->phases[i], a->count) : NAN,
							b ? diff_of(b->phases[i], b->count) : NAN};
	compare_cost(diff, process, into);
	into->welch = welch_test(&into->a, &into->b);
}

void diff_judge_steps(const struct diff *diff, struct diff_steps *steps)
{
	double change = diff_change(steps->avg_ns);

	steps->time = diff_judge(diff, &steps->welch, change);
	steps->regressed = steps->time == DIFF_WORSE && change > diff->threshold;
}
