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
		json_t *object = json_object();

		json_set_string(object, "function", caller->frame->function);
		json_set_string(object, "file", caller->frame->file);
		json_set_integer(object, "line", caller->frame->line);
		json_set_integer(object, "calls", caller->calls_count);
		if (row->timed_count)
			json_set_integer(object, "total_ns", caller->total_ns);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *ended_object(const struct profile_stack_quality *quality)
{
	json_t *ended = json_object();

	for (int end = 0; end < PERFX_STACK_ENDS; end++) {
		uint64_t count = 0;

		for (size_t i = 0; i < quality->ends_count; i++)
			if (quality->ends[i].end == (enum perfx_stack_end)end)
				count += quality->ends[i].count;
		json_set_count(ended, name_of_stack_end(end), count);
	}
	return ended;
}

static json_t *ends_array(const struct profile_stack_quality *quality)
{
	json_t *array = json_array();

	for (size_t i = 0; i < quality->ends_count; i++) {
		const struct profile_stack_ends *ends = &quality->ends[i];
		json_t *object = json_object();

		json_object_set_new(object, "reason", json_string(name_of_stack_end(ends->end)));
		json_set_string(object, "module", ends->module);
		json_set_integer(object, "stacks", ends->count);
		json_array_append_new(array, object);
	}
	return array;
}

static void put_stacks(struct json_output *o, const struct profile_process *process)
{
	const struct profile_stack_quality *quality = &process->stacks;

	if (!quality->known)
		return;
	json_open(o, "stacks", '{');
	json_put_integer(o, "taken", quality->taken_count);
	json_put_integer(o, "complete", quality->complete_count);
	json_put_integer(o, "guessed", quality->guessed_count);
	json_put_integer(o, "cut", quality->cut_count);
	json_put_integer(o, "left_out", quality->left_out_count);
	json_put(o, "ended", ended_object(quality));
	json_put(o, "ended_at", ends_array(quality));
	json_put_integer(o, "code_objects_gone", quality->gone_count);
	json_close(o, '}');
}

/* The interval is rounded to nanoseconds: three decimals give 99 Hz back as 99. */
static double hz_of(uint64_t interval_ns)
{
	return interval_ns ? round(1e12 / (double)interval_ns) / 1000 : 0;
}

static void put_samples(struct json_output *o, const struct profile *profile,
			const struct profile_process *process)
{
	const struct profile_sampling *sampling = &profile->sampling;
	struct profile_sample_sums sums = profile_sample_sums(process);

	if (!profile->sampling_known)
		return;
	json_open(o, "samples", '{');
	json_put(o, "hz", json_real(hz_of(sampling->on_cpu_interval_ns)));
	json_put_integer(o, "on_cpu", sums.on_cpu_count);
	json_put_integer(o, "off_cpu", sums.off_cpu_count);
	json_put_integer(o, "lost", process->samples_lost);
	json_put(o, "off_cpu_hz", json_real(hz_of(sampling->off_cpu_interval_ns)));
	json_put_integer(o, "on_cpu_ns", sums.on_cpu_ns);
	json_put_integer(o, "off_cpu_ns", sums.off_cpu_ns);
	if (sampling->why[0])
		json_put_string(o, "why", sampling->why);
	json_close(o, '}');
}

static void put_python(struct json_output *o, const struct profile_process *process)
{
	if (!process->python_version)
		return;
	json_open(o, "python", '{');
	json_put_string(o, "version", process->python_version);
	json_put(o, "frames", json_boolean(!process->python_why[0]));
	if (process->python_why[0])
		json_put_string(o, "why", process->python_why);
	json_close(o, '}');
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
		json_t *object = json_object();

		json_set_integer(object, "pid", rival->pid);
		json_set_string(object, "comm", rival->name);
		json_set_string(object, "kind", kinds[rival->kind]);
		json_set_integer(object, "ns", rival->ns);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static void set_frame(json_t *in, const char *key, const struct profile_frame *frame)
{
	json_t *object;

	if (!frame)
		return;
	object = json_object();
	json_set_string(object, "function", frame->function);
	if (frame->file[0]) {
		json_set_string(object, "file", frame->file);
		json_set_integer(object, "line", frame->line);
	} else {
		json_set_string(object, "module", frame->module);
	}
	json_object_set_new(in, key, object);
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
		json_set_count(object, keys[k], account->ns[k]);
	json_set_count(object, "stops", account->stops_count);
	return object;
}

static json_t *place_object(const struct account_place *place)
{
	json_t *object = json_object();

	json_object_set_new(object, "class", json_string(account_class_name(place->class)));
	json_set_integer(object, "tid", place->tid);
	json_set_integer(object, "ns", place->ns);
	json_set_integer(object, "samples", place->count);
	set_frame(object, "own", place->own);
	set_frame(object, "python", place->python);
	set_frame(object, "native", place->native);
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
	for (size_t i = 0; i < account->places_count && i < ACCOUNT_PLACES; i++)
		json_put(o, NULL, place_object(&account->places[i]));
	json_close(o, ']');
	json_close(o, '}');
}

void json_put_code(struct json_output *o, const struct profile *profile,
		   const struct data_table_row *row)
{
	if (row->analysis)
		put_account(o, &row->analysis->account);
	put_python(o, row->process);
	put_stacks(o, row->process);
	put_samples(o, profile, row->process);
	if (row->process->lines_count)
		json_put_rows(o, "lines", "lines", profile, row);
	if (row->process->blocked.count)
		json_put_rows(o, "blocked", "blocked", profile, row);
	put_rivals(o, row->process);
}
