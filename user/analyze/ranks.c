// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/ranks.h"

#include "analyze/skew.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A data loader's workers inherit their trainer's environment. */
static bool is_rank(const struct profile *profile, const struct profile_process *process)
{
	const struct profile_process *parent = profile_parent(profile, process);

	return process->rank.world_size > 1 && process->steps.count &&
	       !(parent && parent->steps.count &&
		 parent->rank.world_size == process->rank.world_size &&
		 parent->rank.rank == process->rank.rank);
}

static struct rank_row row_of(const struct profile *profile, size_t process,
			      const struct step_time *time)
{
	struct rank_row row = {.process = process,
			       .job = profile->processes[process].rank.job,
			       .step_ns = (double)profile->processes[process].steps.avg_ns};

	if (time->known)
		row.wait_ns = fmin(time->ns[TIME_COMMUNICATION], row.step_ns);
	row.own_ns = row.step_ns - row.wait_ns;
	row.own_error_ns = time->error_ns[TIME_COMMUNICATION];
	return row;
}

/* Whose excess over the average of the other ranks of a job is the largest. */
static void find_excess(struct rank_row *lead, const struct rank_row *rows, size_t count,
			const struct step_time *times)
{
	for (enum time_class class = 0; class < TIME_CLASSES; class ++) {
		double others = 0, excess;

		if (class == TIME_COMMUNICATION)
			continue;
		for (size_t i = 0; i < count; i++)
			if (&rows[i] != lead)
				others += times[rows[i].process].ns[class];
		excess = times[lead->process].ns[class] - others / (double)(count - 1);
		if (excess <= lead->excess_ns)
			continue;
		lead->excess_ns = excess;
		lead->excess = class;
	}
}

/* The rows of one job. */
static void find_lead(struct rank_row *rows, size_t count, const struct step_time *times)
{
	struct rank_row *lead = NULL, *next = NULL;
	double waits = 0;

	for (size_t i = 0; i < count; i++) {
		waits += rows[i].wait_ns;
		if (!lead || rows[i].own_ns > lead->own_ns) {
			next = lead;
			lead = &rows[i];
		} else if (!next || rows[i].own_ns > next->own_ns) {
			next = &rows[i];
		}
	}
	for (size_t i = 0; i < count; i++)
		rows[i].leader = lead->process;
	if (!next)
		return;
	lead->leads = true;
	lead->lead_ns = lead->own_ns - next->own_ns;
	lead->lead_error_ns = hypot(lead->own_error_ns, next->own_error_ns);
	lead->others_wait_ns = (waits - lead->wait_ns) / (double)(count - 1);
	find_excess(lead, rows, count, times);
}

/* Two launchers on a machine may have started worlds of the same size. */
static bool is_one_job(const struct profile_rank *a, const struct profile_rank *b)
{
	return a->world_size > 1 && a->world_size == b->world_size && !strcmp(a->job, b->job);
}

size_t ranks_of_job(const struct profile *profile, const struct profile_process *process)
{
	size_t count = 0;

	for (size_t i = 0; i < profile->processes_count; i++)
		count += is_rank(profile, &profile->processes[i]) &&
			 is_one_job(&profile->processes[i].rank, &process->rank);
	return count;
}

/* Insertion by job and rank: there are few. */
static void insert(struct ranks *ranks, const struct profile *profile, struct rank_row row)
{
	const struct profile_process *processes = profile->processes;
	size_t at = ranks->count++;

	for (; at; at--) {
		const struct rank_row *before = &ranks->rows[at - 1];
		int order = strcmp(before->job, row.job);

		if (!order)
			order = processes[before->process].rank.world_size <
						processes[row.process].rank.world_size
					? -1
					: processes[before->process].rank.world_size >
						  processes[row.process].rank.world_size;
		if (order < 0 || (!order && processes[before->process].rank.rank <=
						    processes[row.process].rank.rank))
			break;
		ranks->rows[at] = *before;
	}
	ranks->rows[at] = row;
}

int ranks_find(struct ranks *ranks, const struct profile *profile, const struct step_time *times)
{
	size_t from = 0;

	*ranks = (struct ranks){.rows = calloc(profile->processes_count + 1, sizeof(*ranks->rows)),
				.skews = calloc(profile->processes_count + 1,
						sizeof(*ranks->skews))};
	if (!ranks->rows || !ranks->skews)
		return -ENOMEM;
	for (size_t i = 0; i < profile->processes_count; i++)
		if (is_rank(profile, &profile->processes[i]))
			insert(ranks, profile, row_of(profile, i, &times[i]));
	for (size_t i = 1; i <= ranks->count; i++) {
		if (i < ranks->count &&
		    is_one_job(&profile->processes[ranks->rows[from].process].rank,
			       &profile->processes[ranks->rows[i].process].rank))
			continue;
		find_lead(ranks->rows + from, i - from, times);
		if (i - from > 1 &&
		    skew_find(&ranks->skews[ranks->skews_count++], profile, ranks, from, i - from))
			return -ENOMEM;
		from = i;
	}
	return 0;
}

void ranks_clear(struct ranks *ranks)
{
	for (size_t i = 0; i < ranks->skews_count; i++)
		skew_clear(&ranks->skews[i]);
	free(ranks->skews);
	free(ranks->rows);
	*ranks = (struct ranks){0};
}

const struct rank_row *ranks_of_process(const struct ranks *ranks, size_t process)
{
	for (size_t i = 0; i < ranks->count; i++)
		if (ranks->rows[i].process == process)
			return &ranks->rows[i];
	return NULL;
}
