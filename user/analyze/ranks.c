// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/ranks.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/units.h"

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
	lead->lead_error_ns = root_of_squares(lead->own_error_ns, next->own_error_ns);
	lead->others_wait_ns = (waits - lead->wait_ns) / (double)(count - 1);
	find_excess(lead, rows, count, times);
}

/* Two launchers on a machine may have started worlds of the same size. */
bool rank_is_same_job(const struct profile_rank *a, const struct profile_rank *b)
{
	return a->world_size > 1 && a->world_size == b->world_size && !strcmp(a->job, b->job);
}

size_t ranks_of_job(const struct profile *profile, const struct profile_process *process)
{
	size_t count = 0;

	for (size_t i = 0; i < profile->processes_count; i++)
		count += is_rank(profile, &profile->processes[i]) &&
			 rank_is_same_job(&profile->processes[i].rank, &process->rank);
	return count;
}

/* Clocks of two machines that were compared by the collectives themselves. */
#define CLOCK_TOLERANCE_NS 1000000u

/* A rank while its collectives are gone through. */
struct visitor {
	const struct profile_collective *list;
	size_t count, at;
	double late_ns; /* sum */
};

struct search {
	const struct profile *profile;
	struct skew *skew;
	struct visitor *visitors; /* as skew->ranks */
	uint64_t *names;	  /* by function: a hash of its name; 0: not asked yet */
	struct spread {
		uint64_t end_ns;
		double ns;
	} * spreads;
};

/* Functions of two captures are two, also where they are the same. */
static uint64_t name_of(struct search *search, uint32_t id)
{
	const struct profile_function *function = profile_function(search->profile, id);

	if (!function)
		return 1;
	if (!search->names[id])
		search->names[id] = fnv1a(function->name, strlen(function->name)) | 1;
	return search->names[id];
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static bool overlap(const struct profile_collective *a, const struct profile_collective *b)
{
	return a->from_ns <= b->to_ns + CLOCK_TOLERANCE_NS &&
	       b->from_ns <= a->to_ns + CLOCK_TOLERANCE_NS;
}

/* The same collective as a rank has seen it, by the nearest end; NULL: it is not among its. */
static const struct profile_collective *same_of(struct search *search, struct visitor *visitor,
						const struct profile_collective *of)
{
	const struct profile_collective *best = NULL;

	while (visitor->at < visitor->count &&
	       visitor->list[visitor->at].to_ns + CLOCK_TOLERANCE_NS < of->from_ns)
		visitor->at++;
	for (size_t i = visitor->at; i < visitor->count; i++) {
		const struct profile_collective *one = &visitor->list[i];

		if (one->to_ns > of->to_ns &&
		    (best || one->to_ns - of->to_ns > CLOCK_TOLERANCE_NS) && !overlap(one, of))
			break;
		if (!overlap(one, of) ||
		    name_of(search, one->function) != name_of(search, of->function))
			continue;
		if (best && distance(one->to_ns, of->to_ns) >= distance(best->to_ns, of->to_ns))
			break;
		best = one;
	}
	return best;
}

/* The rank that came last, and how long each other one waited for it. */
static void add_meeting(struct search *search, const uint64_t *came_ns, uint64_t end_ns)
{
	struct skew *skew = search->skew;
	uint64_t first_ns = came_ns[0];
	size_t last = 0;

	for (size_t i = 1; i < skew->ranks_count; i++) {
		if (came_ns[i] < first_ns)
			first_ns = came_ns[i];
		if (came_ns[i] > came_ns[last])
			last = i;
	}
	for (size_t i = 0; i < skew->ranks_count; i++) {
		double wait_ns = (double)(came_ns[last] - came_ns[i]);

		search->visitors[i].late_ns += (double)(came_ns[i] - first_ns);
		skew->ranks[i].wait_ns += wait_ns;
		if (skew->waits)
			skew->waits[i * skew->ranks_count + last] += wait_ns;
	}
	skew->ranks[last].last_count++;
	search->spreads[skew->count++] =
		(struct spread){end_ns, (double)(came_ns[last] - first_ns)};
}

static void find_meetings(struct search *search, size_t reference, uint64_t *came_ns)
{
	const struct visitor *leads = &search->visitors[reference];
	struct skew *skew = search->skew;

	for (size_t i = 0; i < leads->count; i++) {
		bool all = true;

		for (size_t j = 0; j < skew->ranks_count && all; j++) {
			const struct profile_collective *one =
				j == reference
					? &leads->list[i]
					: same_of(search, &search->visitors[j], &leads->list[i]);

			all = one != NULL;
			came_ns[j] = one ? one->from_ns : 0;
		}
		if (all)
			add_meeting(search, came_ns, leads->list[i].to_ns);
	}
}

ORDER(by_spread, struct spread, ASCENDING(a->ns, b->ns))

/* The median of spreads, which it sorts. */
static double median_of(struct spread *spreads, size_t count)
{
	if (!count)
		return 0;
	qsort(spreads, count, sizeof(*spreads), by_spread);
	return spreads[count / 2].ns;
}

static void fill_windows(struct skew *skew, struct spread *spreads)
{
	uint64_t from_ns = spreads[0].end_ns, to_ns = spreads[skew->count - 1].end_ns + 1, each_ns;
	size_t at = 0;

	if (to_ns < from_ns + SKEW_WINDOWS)
		return;
	each_ns = (to_ns - from_ns) / SKEW_WINDOWS + 1;
	for (size_t i = 0; i < SKEW_WINDOWS; i++) {
		struct skew_window *window = &skew->windows[i];
		size_t begin = at;

		window->from_ns = from_ns + i * each_ns;
		window->to_ns = window->from_ns + each_ns;
		while (at < skew->count && spreads[at].end_ns < window->to_ns)
			at++;
		window->count = at - begin;
		window->median_ns = median_of(spreads + begin, window->count);
		if (window->count) {
			window->least_ns = spreads[begin].ns;
			window->most_ns = spreads[at - 1].ns;
		}
	}
	skew->windows_count = SKEW_WINDOWS;
}

ORDER(by_end, struct spread, ASCENDING(a->end_ns, b->end_ns))

static void sum_up(struct search *search)
{
	struct skew *skew = search->skew;
	struct spread *spreads = search->spreads;
	size_t half = skew->count / 2;

	qsort(spreads, skew->count, sizeof(*spreads), by_end);
	fill_windows(skew, spreads);
	qsort(spreads, skew->count, sizeof(*spreads), by_end);
	skew->trend_ns = -median_of(spreads, half);
	skew->trend_ns += median_of(spreads + half, skew->count - half);
	skew->median_ns = median_of(spreads, skew->count);
	skew->most_ns = spreads[skew->count - 1].ns;
	for (size_t i = 0; i < skew->ranks_count; i++) {
		struct skew_rank *rank = &skew->ranks[i];

		rank->late_ns = search->visitors[i].late_ns / (double)skew->count;
		rank->most = i;
		for (size_t j = 0; skew->waits && j < skew->ranks_count; j++) {
			double wait_ns = skew->waits[i * skew->ranks_count + j];

			if (wait_ns <= rank->most_wait_ns)
				continue;
			rank->most = j;
			rank->most_wait_ns = wait_ns;
		}
	}
}

static int search_all(struct search *search)
{
	struct skew *skew = search->skew;
	uint64_t *came_ns = calloc(skew->ranks_count, sizeof(*came_ns));
	size_t reference = 0;

	search->names = calloc(search->profile->functions_count + 1, sizeof(*search->names));
	for (size_t i = 1; i < skew->ranks_count; i++)
		if (search->visitors[i].count < search->visitors[reference].count)
			reference = i;
	search->spreads = calloc(search->visitors[reference].count + 1, sizeof(*search->spreads));
	if (skew->ranks_count <= SKEW_PAIRS_RANKS_MAX)
		skew->waits = calloc(skew->ranks_count * skew->ranks_count, sizeof(*skew->waits));
	if (came_ns && search->names && search->spreads) {
		find_meetings(search, reference, came_ns);
		if (skew->count)
			sum_up(search);
	}
	free(came_ns);
	free(search->names);
	free(search->spreads);
	return came_ns && search->names && search->spreads ? 0 : -ENOMEM;
}

/* The rows of one job. count 0: nothing is known. 0 or -ENOMEM. */
static int find_skew(struct skew *skew, const struct profile *profile, const struct ranks *ranks,
		     size_t first_row, size_t rows_count)
{
	struct search search = {.profile = profile, .skew = skew};
	int err = 0;

	*skew = (struct skew){.ranks = calloc(rows_count, sizeof(*skew->ranks))};
	search.visitors = calloc(rows_count, sizeof(*search.visitors));
	for (size_t i = 0; i < rows_count && skew->ranks && search.visitors; i++) {
		const struct profile_process *process =
			&profile->processes[ranks->rows[first_row + i].process];

		if (!process->collectives_count)
			continue;
		search.visitors[skew->ranks_count] =
			(struct visitor){process->collectives, process->collectives_count, 0, 0};
		skew->ranks[skew->ranks_count++].row = first_row + i;
	}
	if (!skew->ranks || !search.visitors)
		err = -ENOMEM;
	else if (skew->ranks_count > 1)
		err = search_all(&search);
	free(search.visitors);
	return err;
}

/* By job, then rank; of equal ones in the order of the profile. */
ORDER(by_rank, struct rank_row, strcmp(a->job, b->job),
      ASCENDING(a->rank->world_size, b->rank->world_size), ASCENDING(a->rank->rank, b->rank->rank),
      ASCENDING(a->process, b->process))

int ranks_find(struct ranks *ranks, const struct profile *profile, const struct step_time *times)
{
	size_t from = 0;

	*ranks = (struct ranks){.rows = calloc(profile->processes_count + 1, sizeof(*ranks->rows)),
				.skews = calloc(profile->processes_count + 1,
						sizeof(*ranks->skews))};
	if (!ranks->rows || !ranks->skews)
		return -ENOMEM;
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];
		struct rank_row row = {.process = i,
				       .rank = &process->rank,
				       .job = process->rank.job,
				       .step_ns = (double)process->steps.avg_ns,
				       .own_error_ns = times[i].error_ns[TIME_COMMUNICATION]};

		if (!is_rank(profile, process))
			continue;
		if (times[i].known)
			row.wait_ns = fmin(times[i].ns[TIME_COMMUNICATION], row.step_ns);
		row.own_ns = row.step_ns - row.wait_ns;
		ranks->rows[ranks->count++] = row;
	}
	qsort(ranks->rows, ranks->count, sizeof(*ranks->rows), by_rank);
	for (size_t i = 1; i <= ranks->count; i++) {
		if (i < ranks->count &&
		    rank_is_same_job(ranks->rows[from].rank, ranks->rows[i].rank))
			continue;
		find_lead(ranks->rows + from, i - from, times);
		if (i - from > 1 &&
		    find_skew(&ranks->skews[ranks->skews_count++], profile, ranks, from, i - from))
			return -ENOMEM;
		from = i;
	}
	return 0;
}

void ranks_clear(struct ranks *ranks)
{
	FOR_EACH (skew, ranks->skews) {
		free(skew->ranks);
		free(skew->waits);
	}
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

const struct skew_rank *skew_of_row(const struct ranks *ranks, const struct rank_row *row,
				    const struct skew **skew)
{
	for (size_t i = 0; i < ranks->skews_count; i++) {
		*skew = &ranks->skews[i];
		for (size_t j = 0; (*skew)->count && j < (*skew)->ranks_count; j++)
			if (&ranks->rows[(*skew)->ranks[j].row] == row)
				return &(*skew)->ranks[j];
	}
	*skew = NULL;
	return NULL;
}
