// SPDX-License-Identifier: BSD-2-Clause
#include "diff/diff.h"

#include "analyze/roofline.h"
#include "base/escape.h"
#include "base/text.h"
#include "diff/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Findings of one side only. Two findings are the same if their kinds and subjects are: subjects
 * are compared without the IDs of processes and threads, which differ from run to run.
 */

/* Without " (pid 42)" and " (tid 42)". */
static char *subject_without_ids(const struct finding *finding)
{
	struct text subject = {0}, key = {0};

	escape_unmarked(&subject, finding->subject);
	for (const char *at = text_peek(&subject); *at; at++) {
		bool is_id = begins_with(at, " (pid ") || begins_with(at, " (tid ");
		size_t digits = is_id ? strspn(at + 6, "0123456789") : 0;

		if (is_id && at[6 + digits] == ')')
			at += 6 + digits;
		else
			text_add_bytes(&key, at, 1);
	}
	text_finish(&subject, &key.failed);
	return text_take(&key);
}

/* 1, 0 or -ENOMEM */
static int is_same(const struct finding *x, const struct finding *y)
{
	char *a, *b;
	int same;

	if (strcmp(x->kind, y->kind) != 0)
		return 0;
	a = subject_without_ids(x);
	b = subject_without_ids(y);
	same = a && b ? !strcmp(a, b) : -ENOMEM;
	free(a);
	free(b);
	return same;
}

static int add_missing(struct diff_process *process, unsigned in, const struct process_analysis *of,
		       const struct process_analysis *other)
{
	for (size_t i = 0; i < of->findings_count; i++) {
		int found = 0;

		for (size_t k = 0; k < other->findings_count && !found; k++)
			found = is_same(&other->findings[k], &of->findings[i]);
		if (found < 0)
			return found;
		if (!found)
			process->findings[process->findings_count++] =
				(struct diff_finding){in, &of->findings[i]};
	}
	return 0;
}

int diff_findings(struct diff *diff, const struct analysis *analysis_a,
		  const struct analysis *analysis_b)
{
	for (size_t i = 0; i < diff->processes_count; i++) {
		struct diff_process *p = &diff->processes[i];
		const struct process_analysis *a, *b;
		int err;

		if (!p->a || !p->b)
			continue;
		a = &analysis_a->processes[p->a - diff->a->processes];
		b = &analysis_b->processes[p->b - diff->b->processes];
		p->findings =
			calloc(a->findings_count + b->findings_count + 1, sizeof(*p->findings));
		if (!p->findings)
			return -ENOMEM;
		err = add_missing(p, DIFF_IN_A, a, b);
		if (!err)
			err = add_missing(p, DIFF_IN_B, b, a);
		if (err)
			return err;
	}
	return 0;
}

static const struct profile_steps *steps_of(const struct profile_process *p)
{
	return p && p->steps.count ? &p->steps : NULL;
}

/* Steps that were found by the periods of different functions, or by a period and by a mark, may be
 * different things: only marked steps count then. */
static void drop_other_steps(const struct diff *diff, const struct profile_steps **a,
			     const struct profile_steps **b)
{
	bool period_a = *a && (*a)->found_by == PROFILE_STEPS_BY_PERIOD;
	bool period_b = *b && (*b)->found_by == PROFILE_STEPS_BY_PERIOD;
	const struct profile_function *of_a, *of_b;

	if (!*a || !*b || (!period_a && !period_b))
		return;
	of_a = profile_function(diff->a, (*a)->function);
	of_b = profile_function(diff->b, (*b)->function);
	if (period_a && period_b && of_a && of_b && strcmp(of_a->name, of_b->name))
		*a = *b = NULL;
	else if (period_a && !period_b)
		*a = NULL;
	else if (!period_a)
		*b = NULL;
}

static struct sample sample_of(const struct profile_steps *s)
{
	return s ? (struct sample){s->count, (double)s->total_ns / (double)s->count, s->stddev_ns}
		 : (struct sample){.mean = NAN, .stddev = -1};
}

double diff_known(double number)
{
	return number < 0 ? NAN : number;
}

static struct step_rates rates_of(const struct profile *profile, const struct profile_process *p)
{
	return steps_of(p) ? steps_rates(profile, p)
			   : (struct step_rates){.flops = -1, .flops_per_s = -1, .mfu = -1};
}

#define PAIR(field)                                                    \
	(struct diff_pair)                                             \
	{                                                              \
		a ? (double)a->field : NAN, b ? (double)b->field : NAN \
	}

/* Of a step. */
static double step_part(const struct profile_steps *steps, uint64_t whole)
{
	return steps ? diff_of(whole, steps->count) : NAN;
}

#define STEP_PAIR(field)                                                               \
	(struct diff_pair)                                                             \
	{                                                                              \
		step_part(a, a && a->gpu_used ? a->gpu.field : PROFILE_ABSENT),        \
			step_part(b, b && b->gpu_used ? b->gpu.field : PROFILE_ABSENT) \
	}

static double step_joules(const struct profile_process *p, const struct profile_steps *steps)
{
	return p && p->energy.gpu_mj ? step_part(steps, p->energy.steps_mj) / 1e3 : NAN;
}

static void diff_steps(const struct diff *diff, struct diff_process *process)
{
	const struct profile_steps *a = steps_of(process->a), *b = steps_of(process->b);
	const struct step_rates rates_a = rates_of(diff->a, process->a);
	const struct step_rates rates_b = rates_of(diff->b, process->b);
	struct diff_steps *into = &process->steps;

	drop_other_steps(diff, &a, &b);
	into->in = (a ? DIFF_IN_A : 0) | (b ? DIFF_IN_B : 0);
	into->a = sample_of(a);
	into->b = sample_of(b);
	into->count = PAIR(ends_count);
	into->avg_ns = (struct diff_pair){into->a.mean, into->b.mean};
	into->p50_ns = PAIR(p50_ns);
	into->p95_ns = PAIR(p95_ns);
	into->max_ns = PAIR(max_ns);
	for (int i = 0; i < PROFILE_PHASES; i++)
		into->phases_ns[i] = (struct diff_pair){a ? diff_known(steps_phase_ns(a, i)) : NAN,
							b ? diff_known(steps_phase_ns(b, i)) : NAN};
	into->flops = (struct diff_pair){diff_known(rates_a.flops), diff_known(rates_b.flops)};
	into->flops_per_s = (struct diff_pair){diff_known(rates_a.flops_per_s),
					       diff_known(rates_b.flops_per_s)};
	into->mfu = (struct diff_pair){diff_known(rates_a.mfu), diff_known(rates_b.mfu)};
	into->gpu_busy_ns = STEP_PAIR(busy_ns);
	into->gpu_kernels = STEP_PAIR(kernels_count);
	into->gpu_wait_ns = STEP_PAIR(wait_ns);
	into->gpu_energy_j =
		(struct diff_pair){step_joules(process->a, a), step_joules(process->b, b)};
	into->welch = welch_test(&into->a, &into->b);
}

double diff_ratio(struct diff_pair pair)
{
	return pair.a > 0 ? pair.b / pair.a : NAN;
}

double diff_change(struct diff_pair pair)
{
	return diff_ratio(pair) - 1;
}

double diff_of(uint64_t part, uint64_t whole)
{
	return part == PROFILE_ABSENT || !whole ? NAN : (double)part / (double)whole;
}

double diff_per_s(uint64_t count, uint64_t ns)
{
	return diff_of(count, ns) * 1e9;
}

/* Pairs each process of B without a counterpart with the first unpaired one of A that has its name
 * and, with by_cmdline, its command line. Both lists are in order of their start, so that ranks of
 * one command line are paired in that order. Returns how many of B are left. */
static size_t pair_alike(struct diff *diff, bool *taken, bool by_cmdline)
{
	size_t left = diff->b->processes_count;

	for (size_t i = 0; i < diff->b->processes_count; i++) {
		struct diff_process *process = &diff->processes[i];

		for (size_t j = 0; j < diff->a->processes_count && !process->a; j++) {
			const struct profile_process *a = &diff->a->processes[j];

			if (taken[j] || strcmp(a->comm, process->b->comm) != 0 ||
			    (by_cmdline && strcmp(a->cmdline, process->b->cmdline) != 0))
				continue;
			process->a = a;
			taken[j] = true;
		}
		left -= process->a != NULL;
	}
	return left;
}

static int pair_processes(struct diff *diff)
{
	size_t in_a = diff->a->processes_count, in_b = diff->b->processes_count, left_b;
	bool *taken = calloc(in_a + 1, sizeof(*taken));

	diff->processes = calloc(in_a + in_b + 1, sizeof(*diff->processes));
	if (!taken || !diff->processes) {
		free(taken);
		return -ENOMEM;
	}
	diff->processes_count = in_b;
	for (size_t i = 0; i < in_b; i++)
		diff->processes[i].b = &diff->b->processes[i];
	pair_alike(diff, taken, true);
	left_b = pair_alike(diff, taken, false);
	for (size_t i = 0; i < in_a; i++)
		if (!taken[i])
			diff->processes[diff->processes_count++].a = &diff->a->processes[i];
	free(taken);
	/* one is left on either side: a program that was renamed */
	for (size_t i = 0; i < in_b && left_b == 1 && diff->processes_count == in_b + 1; i++) {
		if (diff->processes[i].a)
			continue;
		diff->processes[i].a = diff->processes[in_b].a;
		diff->processes[in_b].a = NULL;
		diff->processes_count = in_b;
	}
	return 0;
}

static int compare_process(struct diff *diff, struct diff_process *process)
{
	int err = diff_functions(diff, process);

	process->wall_ns = process->cores = process->flops_per_s = (struct diff_pair){NAN, NAN};
	for (int is_b = 0; is_b <= 1; is_b++) {
		const struct profile_process *p = is_b ? process->b : process->a;

		if (!p)
			continue;
		*diff_side(&process->wall_ns, is_b) = (double)profile_wall_ns(p);
		*diff_side(&process->cores, is_b) = diff_of(p->cpu_ns, profile_wall_ns(p));
		*diff_side(&process->flops_per_s, is_b) = diff_known(roofline_flops_per_s(p));
	}
	for (size_t i = 0; i < process->functions_count && !err; i++) {
		diff->compared_count += process->functions[i].in == (DIFF_IN_A | DIFF_IN_B);
		diff->tested_count += process->functions[i].welch.known;
	}
	diff_steps(diff, process);
	diff->tested_count += process->steps.welch.known;
	if (!err)
		err = diff_gpu(diff, process);
	for (size_t i = 0; i < process->gpu.works_count && !err; i++)
		diff->tested_count += process->gpu.works[i].welch.known;
	return err ? err : diff_memory(diff, process);
}

static void judge_process(struct diff *diff, struct diff_process *process)
{
	double change = diff_change(process->steps.avg_ns);

	for (size_t i = 0; i < process->functions_count; i++) {
		struct diff_function *f = &process->functions[i];

		diff_judge_function(diff, f);
		diff->worse_count += f->time == DIFF_WORSE;
		diff->better_count += f->time == DIFF_BETTER;
		diff->regressions_count += f->regressed;
	}
	process->steps.time = diff_judge(diff, &process->steps.welch, change);
	process->steps.regressed = process->steps.time == DIFF_WORSE && change > diff->threshold;
	diff->regressions_count += process->steps.regressed;
	diff_judge_gpu(diff, &process->gpu);
	for (size_t i = 0; i < process->gpu.works_count; i++)
		diff->regressions_count += process->gpu.works[i].regressed;
	for (size_t i = 0; i < process->memory_count; i++) {
		diff->regressions_count += process->memory[i].regressed;
		diff->judged_domains_count +=
			process->memory[i].domain && process->memory[i].verdict != DIFF_UNJUDGED;
	}
	qsort(process->functions, process->functions_count, sizeof(*process->functions),
	      diff_order_functions);
}

struct diff *diff__new(const struct profile *a, const struct profile *b, double threshold)
{
	struct diff *diff = calloc(1, sizeof(*diff));
	int err;

	if (!diff)
		return NULL;
	*diff = (struct diff){.a = a, .b = b, .threshold = threshold};
	err = pair_processes(diff);
	for (size_t i = 0; i < diff->processes_count && !err; i++)
		err = compare_process(diff, &diff->processes[i]);
	for (size_t i = 0; i < diff->processes_count && !err; i++)
		judge_process(diff, &diff->processes[i]);
	if (!err)
		return diff;
	diff__free(diff);
	errno = -err;
	return NULL;
}

void diff__free(struct diff *diff)
{
	if (!diff)
		return;
	for (size_t i = 0; i < diff->processes_count; i++) {
		free(diff->processes[i].functions);
		free(diff->processes[i].gpu.works);
		free(diff->processes[i].memory);
		free(diff->processes[i].places);
		free(diff->processes[i].findings);
	}
	free(diff->processes);
	free(diff);
}
