// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/skew.h"
#include "report/json/output.h"
#include "report/report.h"

static json_t *json_of_ns(double ns)
{
	return json_of_integer((uint64_t)(ns > 0 ? ns + 0.5 : 0));
}

/* The ranks that waited for this one, and how long. */
static json_t *waits_of(const struct profile *profile, const struct ranks *ranks,
			const struct skew *skew, size_t at)
{
	json_t *array = json_array();

	for (size_t i = 0; skew->waits && i < skew->ranks_count; i++) {
		double wait_ns = skew->waits[at * skew->ranks_count + i];
		const struct rank_row *row = &ranks->rows[skew->ranks[i].row];
		json_t *object;

		if (wait_ns < 1)
			continue;
		object = json_object();
		json_set_integer(object, "rank", profile->processes[row->process].rank.rank);
		json_object_set_new(object, "wait_ns", json_of_ns(wait_ns));
		json_array_append_new(array, object);
	}
	return array;
}

/* When the rank arrives at collectives, compared with the others. */
static void set_arrivals(json_t *object, const struct profile *profile, const struct ranks *ranks,
			 const struct rank_row *row)
{
	const struct skew *skew;
	const struct skew_rank *rank = skew_of_row(ranks, row, &skew);

	if (!rank)
		return;
	json_set_integer(object, "collectives", skew->count);
	json_set_integer(object, "last_count", rank->last_count);
	json_object_set_new(object, "late_ns", json_of_ns(rank->late_ns));
	json_object_set_new(object, "collectives_wait_ns", json_of_ns(rank->wait_ns));
	json_object_set_new(object, "waits_for",
			    waits_of(profile, ranks, skew, (size_t)(rank - skew->ranks)));
}

static json_t *object_of(const struct profile *profile, const struct ranks *ranks,
			 const struct rank_row *row)
{
	const struct profile_process *process = &profile->processes[row->process];
	const struct profile_rank *rank = &process->rank;
	json_t *object = json_object(), *phases = json_object();

	for (int i = 0; i < PROFILE_PHASES; i++)
		json_set_count(phases, profile_phase_name(i), process->steps.phases[i]);
	json_set_integer(object, "rank", rank->rank);
	json_set_integer(object, "world_size", rank->world_size);
	if (rank->local_rank != UINT32_MAX)
		json_set_integer(object, "local_rank", rank->local_rank);
	if (rank->job[0])
		json_set_string(object, "job", rank->job);
	json_set_string(object, "host", profile_host_name(profile, process));
	json_set_integer(object, "pid", process->pid);
	json_set_integer(object, "steps", process->steps.count);
	json_set_integer(object, "avg_step_ns", process->steps.avg_ns);
	json_set_integer(object, "wait_ns",
			 (uint64_t)(row->wait_ns * (double)process->steps.count));
	json_object_set_new(object, "phases", phases);
	set_arrivals(object, profile, ranks, row);
	return object;
}

static json_t *window_of(const struct profile *profile, const struct skew_window *window)
{
	json_t *object = json_object();

	json_set_integer(object, "since_ns", profile_since_start(profile, window->from_ns));
	json_set_integer(object, "until_ns", profile_since_start(profile, window->to_ns));
	json_set_integer(object, "collectives", window->count);
	json_object_set_new(object, "min_ns", json_of_ns(window->least_ns));
	json_object_set_new(object, "median_ns", json_of_ns(window->median_ns));
	json_object_set_new(object, "max_ns", json_of_ns(window->most_ns));
	return object;
}

static json_t *skew_object(const struct profile *profile, const struct ranks *ranks,
			   const struct skew *skew)
{
	const struct rank_row *row = &ranks->rows[skew->ranks[0].row];
	json_t *object = json_object(), *windows = json_array();

	json_set_string(object, "job", row->job);
	json_set_integer(object, "collectives", skew->count);
	json_object_set_new(object, "median_ns", json_of_ns(skew->median_ns));
	json_object_set_new(object, "max_ns", json_of_ns(skew->most_ns));
	json_object_set_new(object, "trend_ns", json_integer((json_int_t)skew->trend_ns));
	for (size_t i = 0; i < skew->windows_count; i++)
		json_array_append_new(windows, window_of(profile, &skew->windows[i]));
	json_object_set_new(object, "windows", windows);
	return object;
}

static void put_skews(struct json_output *o, const struct profile *profile,
		      const struct ranks *ranks)
{
	size_t known = 0;

	for (size_t i = 0; i < ranks->skews_count; i++)
		known += ranks->skews[i].count > 0;
	if (!known)
		return;
	json_open(o, "skew", '[');
	for (size_t i = 0; i < ranks->skews_count; i++)
		if (ranks->skews[i].count)
			json_put(o, NULL, skew_object(profile, ranks, &ranks->skews[i]));
	json_close(o, ']');
}

void json_put_ranks(struct json_output *o, const struct profile *profile, const struct ranks *ranks)
{
	if (!ranks->count)
		return;
	json_open(o, "ranks", '[');
	for (size_t i = 0; i < ranks->count; i++)
		json_put(o, NULL, object_of(profile, ranks, &ranks->rows[i]));
	json_close(o, ']');
	put_skews(o, profile, ranks);
}
