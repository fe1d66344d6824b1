// SPDX-License-Identifier: BSD-2-Clause
#include "report/json/output.h"
#include "report/report.h"

static json_t *phases_of(const struct profile_steps *steps)
{
	json_t *object = json_object();

	for (int i = 0; i < PROFILE_PHASES; i++)
		if (steps->phases[i])
			json_object_set_new(object, profile_phase_name(i),
					    json_of_integer(steps->phases[i]));
	return object;
}

static json_t *object_of(const struct profile *profile, const struct rank_row *row)
{
	const struct profile_process *process = &profile->processes[row->process];
	const struct profile_rank *rank = &process->rank;
	json_t *object = json_object();

	json_object_set_new(object, "rank", json_of_integer(rank->rank));
	json_object_set_new(object, "world_size", json_of_integer(rank->world_size));
	if (rank->local_rank != UINT32_MAX)
		json_object_set_new(object, "local_rank", json_of_integer(rank->local_rank));
	if (rank->job[0])
		json_object_set_new(object, "job", json_of_string(rank->job));
	json_object_set_new(object, "host", json_of_string(profile->host_name));
	json_object_set_new(object, "pid", json_of_integer(process->pid));
	json_object_set_new(object, "steps", json_of_integer(process->steps.count));
	json_object_set_new(object, "avg_step_ns", json_of_integer(process->steps.avg_ns));
	json_object_set_new(
		object, "wait_ns",
		json_of_integer((uint64_t)(row->wait_ns * (double)process->steps.count)));
	json_object_set_new(object, "phases", phases_of(&process->steps));
	return object;
}

void json_put_ranks(struct json_output *o, const struct profile *profile, const struct ranks *ranks)
{
	if (!ranks->count)
		return;
	json_open(o, "ranks", '[');
	for (size_t i = 0; i < ranks->count; i++)
		json_put(o, NULL, object_of(profile, &ranks->rows[i]));
	json_close(o, ']');
}
