// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/account.h"
#include "decode/names.h"
#include "report/json/output.h"

#include <math.h>

/*
 * Where in the code, beside the tables "lines" and "blocked":
 *
 *     "stacks": {"taken": 1000, "complete": 970, "guessed": 12, "cut": 1, "left_out": 0,
 *                "ended": {"no_mapping": 20, "no_rule": 10}, "code_objects_gone": 0,
 *                "ended_at": [{"reason": "no_mapping", "module": "", "stacks": 20}, …]}
 *     "samples": {"hz": 99.0, "on_cpu": 950, "off_cpu": 120, "lost": 0, "off_cpu_hz": 10.0,
 *                 "on_cpu_ns": …, "off_cpu_ns": …}
 *     "python": {"version": "3.11.2", "frames": true}
 *
 * "ended" has no stacks that reached the thread's start.
 */

json_t *json_of_python_callers(const struct profile_row *row)
{
	json_t *array = json_array();

	for (size_t i = 0; i < row->python_callers_count; i++) {
		const struct profile_python_caller *caller = &row->python_callers[i];

		json_array_append_new(
			array, json_object_of({"function", json_of_string(caller->frame->function)},
					      {"file", json_of_string(caller->frame->file)},
					      {"line", json_of_integer(caller->frame->line)},
					      {"calls", json_of_integer(caller->calls_count)},
					      {"total_ns",
					       row->timed_count ? json_of_integer(caller->total_ns)
								: json_null()}));
	}
	return array;
}

static void put_stacks(struct json_output *o, const struct profile_stack_quality *quality)
{
	json_t *ended, *ended_at;

	if (!quality->known)
		return;
	ended = json_object();
	ended_at = json_array();
	for (int end = 0; end < PERFX_STACK_ENDS; end++) {
		uint64_t count = 0;

		for (size_t i = 0; i < quality->ends_count; i++)
			if (quality->ends[i].end == (enum perfx_stack_end)end)
				count += quality->ends[i].count;
		json_set(ended, name_of_stack_end(end), json_of_count(count));
	}
	for (size_t i = 0; i < quality->ends_count; i++) {
		const struct profile_stack_ends *ends = &quality->ends[i];

		json_array_append_new(
			ended_at,
			json_object_of({"reason", json_string(name_of_stack_end(ends->end))},
				       {"module", json_of_string(ends->module)},
				       {"stacks", json_of_integer(ends->count)}));
	}
	json_put_object(
		o, "stacks",
		json_object_of({"taken", json_of_integer(quality->taken_count)},
			       {"complete", json_of_integer(quality->complete_count)},
			       {"guessed", json_of_integer(quality->guessed_count)},
			       {"cut", json_of_integer(quality->cut_count)},
			       {"left_out", json_of_integer(quality->left_out_count)},
			       {"ended", ended}, {"ended_at", ended_at},
			       {"code_objects_gone", json_of_integer(quality->gone_count)}));
}

/* The interval is rounded to nanoseconds: three decimals give 99 Hz back as 99. */
static json_t *json_of_hz(uint64_t interval_ns)
{
	return json_real(interval_ns ? round(1e12 / (double)interval_ns) / 1000 : 0);
}

static void put_samples(struct json_output *o, const struct profile *profile,
			const struct profile_process *process)
{
	const struct profile_sampling *sampling = &profile->sampling;
	struct profile_sample_sums sums = profile_sample_sums(process);

	if (!profile->sampling_known)
		return;
	json_put_object(o, "samples",
			json_object_of({"hz", json_of_hz(sampling->on_cpu_interval_ns)},
				       {"on_cpu", json_of_integer(sums.on_cpu_count)},
				       {"off_cpu", json_of_integer(sums.off_cpu_count)},
				       {"lost", json_of_integer(process->samples_lost)},
				       {"off_cpu_hz", json_of_hz(sampling->off_cpu_interval_ns)},
				       {"on_cpu_ns", json_of_integer(sums.on_cpu_ns)},
				       {"off_cpu_ns", json_of_integer(sums.off_cpu_ns)},
				       {"why", json_of_any_string(sampling->why)}));
}

/* The processes that had a CPU while threads of this one waited for it. */
static void put_rivals(struct json_output *o, const struct profile_process *process)
{
	static const char *const kinds[PROFILE_RIVAL_KINDS] = {
		[PROFILE_RIVAL_OTHER] = "other",
		[PROFILE_RIVAL_OWN] = "own",
		[PROFILE_RIVAL_JOB] = "job",
		[PROFILE_RIVAL_TRACER] = "tracer",
	};

	if (!process->rivals_count)
		return;
	json_open(o, "rivals", '[');
	for (size_t i = 0; i < process->rivals_count; i++) {
		const struct profile_rival *rival = &process->rivals[i];

		json_put(o, NULL,
			 json_object_of({"pid", json_of_integer(rival->pid)},
					{"comm", json_of_string(rival->name)},
					{"kind", json_string(kinds[rival->kind])},
					{"ns", json_of_integer(rival->ns)}));
	}
	json_close(o, ']');
}

json_t *json_of_line(const struct profile_frame *frame)
{
	if (!frame)
		return json_null();
	if (!frame->file[0])
		return json_object_of({"function", json_of_string(frame->function)},
				      {"module", json_of_string(frame->module)});
	return json_object_of({"function", json_of_string(frame->function)},
			      {"file", json_of_string(frame->file)},
			      {"line", json_of_integer(frame->line)});
}

static json_t *account_object(const struct account *account)
{
	static const char *const keys[ACCOUNT_CLASSES] = {
		[ACCOUNT_COMPUTING] = "computing_ns", [ACCOUNT_SPINNING] = "spinning_ns",
		[ACCOUNT_JOIN] = "join_ns",	      [ACCOUNT_GIL] = "gil_ns",
		[ACCOUNT_LOCK] = "lock_ns",	      [ACCOUNT_INPUT] = "input_ns",
		[ACCOUNT_OUTPUT] = "output_ns",	      [ACCOUNT_DISK] = "disk_ns",
		[ACCOUNT_SLEEP] = "sleep_ns",	      [ACCOUNT_CHILD] = "child_ns",
		[ACCOUNT_OTHER] = "other_ns",	      [ACCOUNT_RUNNABLE] = "runnable_ns",
		[ACCOUNT_STOPPED] = "stopped_ns",     [ACCOUNT_UNKNOWN] = "unknown_ns",
	};
	json_t *object = json_object();

	json_set_integer(object, "wall_ns", account->wall_ns);
	for (int k = 0; k < ACCOUNT_CLASSES; k++)
		json_set(object, keys[k], json_of_count(account->ns[k]));
	json_set(object, "stops", json_of_count(account->stops_count));
	return object;
}

/* The report's most important places; the others are in "lines". */
#define ACCOUNT_PLACES 50

/* "account": {"wall_ns": …, "computing_ns": …, "join_ns": …, "tid": 43, "threads": [{"tid": 42,
 *             "wall_ns": …, …}], "places": [{"class": "computing", "tid": 43, "ns": …, …}]} */
static void put_account(struct json_output *o, const struct process_account *account)
{
	if (!account->threads_count)
		return;
	json_open(o, "account", '{');
	json_put_members(o, account_object(&account->all));
	json_put_integer(o, "tid", account->tid);
	json_open(o, "threads", '[');
	for (size_t i = 0; i < account->threads_count; i++) {
		json_t *thread = account_object(&account->threads[i]);

		json_set_integer(thread, "tid", account->threads[i].tid);
		json_put(o, NULL, thread);
	}
	json_close(o, ']');
	json_open(o, "places", '[');
	for (size_t i = 0; i < account->places_count && i < ACCOUNT_PLACES; i++) {
		const struct account_place *place = &account->places[i];

		json_put(o, NULL,
			 json_object_of({"class", json_string(account_class_name(place->class))},
					{"tid", json_of_integer(place->tid)},
					{"ns", json_of_integer(place->ns)},
					{"samples", json_of_integer(place->count)},
					{"own", json_of_line(place->own)},
					{"python", json_of_line(place->python)},
					{"native", json_of_line(place->native)}));
	}
	json_close(o, ']');
	json_close(o, '}');
}

void json_put_code(struct json_output *o, const struct profile *profile,
		   const struct data_table_row *row)
{
	const struct profile_process *process = row->process;

	if (row->analysis)
		put_account(o, &row->analysis->account);
	if (process->python_version)
		json_put_object(o, "python",
				json_object_of({"version", json_of_string(process->python_version)},
					       {"frames", json_boolean(!process->python_why[0])},
					       {"why", json_of_any_string(process->python_why)}));
	put_stacks(o, &process->stacks);
	put_samples(o, profile, process);
	if (process->lines_count)
		json_put_rows(o, "lines", "lines", profile, row);
	if (process->blocked.count)
		json_put_rows(o, "blocked", "blocked", profile, row);
	put_rivals(o, process);
}
