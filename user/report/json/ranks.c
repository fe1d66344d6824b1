// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/ranks.h"
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
		uint32_t rank = profile->processes[row->process].rank.rank;

		if (wait_ns >= 1)
			json_array_append_new(array,
					      json_object_of({"rank", json_of_integer(rank)},
							     {"wait_ns", json_of_ns(wait_ns)}));
	}
	return array;
}

static json_t *rank_object(const struct profile *profile, const struct ranks *ranks,
			   const struct rank_row *row)
{
	const struct profile_process *process = &profile->processes[row->process];
	const struct profile_rank *rank = &process->rank;
	const struct skew *skew;
	/* its arrivals at collectives, compared with those of the other ranks */
	const struct skew_rank *arrivals = skew_of_row(ranks, row, &skew);
	json_t *phases = json_object(), *object;

	for (int i = 0; i < PROFILE_PHASES; i++)
		json_set(phases, profile_phase_name(i), json_of_count(process->steps.phases[i]));
	object = json_object_of(
		{"rank", json_of_integer(rank->rank)},
		{"world_size", json_of_integer(rank->world_size)},
		{"local_rank",
		 rank->local_rank == UINT32_MAX ? json_null() : json_of_integer(rank->local_rank)},
		{"job", json_of_any_string(rank->job)},
		{"host", json_of_string(profile_host_name(profile, process))},
		{"pid", json_of_integer(process->pid)},
		{"steps", json_of_integer(process->steps.count)},
		{"avg_step_ns", json_of_integer(process->steps.avg_ns)},
		{"wait_ns",
		 json_of_integer((uint64_t)(row->wait_ns * (double)process->steps.count))},
		{"phases", phases});
	if (!arrivals)
		return object;
	json_set_integer(object, "collectives", skew->count);
	json_set_integer(object, "last_count", arrivals->last_count);
	json_object_set_new(object, "late_ns", json_of_ns(arrivals->late_ns));
	json_object_set_new(object, "collectives_wait_ns", json_of_ns(arrivals->wait_ns));
	json_object_set_new(object, "waits_for",
			    waits_of(profile, ranks, skew, (size_t)(arrivals - skew->ranks)));
	return object;
}

static json_t *skew_object(const struct profile *profile, const struct ranks *ranks,
			   const struct skew *skew)
{
	const struct rank_row *row = &ranks->rows[skew->ranks[0].row];
	json_t *windows = json_array();

	for (size_t i = 0; i < skew->windows_count; i++) {
		const struct skew_window *window = &skew->windows[i];

		json_array_append_new(
			windows, json_object_of({"since_ns", json_of_integer(profile_since_start(
								     profile, window->from_ns))},
						{"until_ns", json_of_integer(profile_since_start(
								     profile, window->to_ns))},
						{"collectives", json_of_integer(window->count)},
						{"min_ns", json_of_ns(window->least_ns)},
						{"median_ns", json_of_ns(window->median_ns)},
						{"max_ns", json_of_ns(window->most_ns)}));
	}
	return json_object_of(
		{"job", json_of_string(row->job)}, {"collectives", json_of_integer(skew->count)},
		{"median_ns", json_of_ns(skew->median_ns)}, {"max_ns", json_of_ns(skew->most_ns)},
		{"trend_ns", json_integer((json_int_t)skew->trend_ns)}, {"windows", windows});
}

void json_put_ranks(struct json_output *o, const struct profile *profile, const struct ranks *ranks)
{
	size_t known = 0;

	if (!ranks->count)
		return;
	json_open(o, "ranks", '[');
	for (size_t i = 0; i < ranks->count; i++)
		json_put(o, NULL, rank_object(profile, ranks, &ranks->rows[i]));
	json_close(o, ']');
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
