// SPDX-License-Identifier: BSD-2-Clause
/*
 * A dump as JSON, "perfx.dump/1": a contract as that of the report (write.c). Stacks are members of
 * groups, because threads that are alike share one.
 */
#include "report/dump.h"
#include "base/escape.h"
#include "base/syscalls.h"
#include "decode/names.h"
#include "report/json/output.h"

#include <stdlib.h>

static json_t *json_of_thread_ref(const struct dump *dump, size_t thread)
{
	return json_object_of({"pid", json_of_integer(dump->threads[thread].process->pid)},
			      {"tid", json_of_integer(dump->threads[thread].state->tid)});
}

static json_t *json_of_frame(const struct profile_frame *frame)
{
	bool python = frame->language == PERFX_LANGUAGE_PYTHON;

	return json_object_of({"function", json_of_string(frame->function)},
			      {"file", json_of_any_string(frame->file)},
			      {"line", json_of_count(frame->line)},
			      {"module", python ? json_null() : json_of_any_string(frame->module)},
			      {"offset", python ? json_null() : json_of_integer(frame->offset)},
			      {"language", json_string(python ? "python" : "native")});
}

static json_t *json_of_stack(const struct profile_stack *stack)
{
	json_t *frames = json_array();

	for (size_t i = 0; stack && i < stack->frames_count; i++)
		json_array_append_new(frames, json_of_frame(stack->frames[i]));
	return frames;
}

static json_t *json_of_target(const struct profile_wait_target *target)
{
	if (!target->kind && !target->text[0])
		return json_null();
	return json_object_of({"kind", json_string(name_of_target(target->kind))},
			      {"text", json_of_any_string(target->text)},
			      {"pid", json_of_count(target->pid)},
			      {"tid", json_of_count(target->tid)},
			      {"deadline_ns", json_of_count(target->deadline_ns)});
}

static json_t *json_of_flag(const struct profile_thread_state *state, unsigned flag)
{
	return state->flags & flag ? json_true() : json_null();
}

static json_t *json_of_state(const struct profile *profile, const struct dump *dump,
			     const struct dump_thread *thread)
{
	const struct profile_thread_state *state = thread->state;
	bool calls = state->syscall != PERFX_NO_SYSCALL;
	char letter[2] = {state->state, '\0'};
	struct text what = {0};
	json_t *object;

	dump_add_what(&what, profile, thread);
	object = json_object_of(
		{"tid", json_of_integer(state->tid)}, {"name", json_of_string(state->comm)},
		{"state", json_of_string(letter)}, {"doing", json_of_sentence(text_peek(&what))},
		{"reason", state->reason ? json_string(name_of_wait(state->reason)) : json_null()},
		{"syscall", calls && syscall_name(state->syscall)
				    ? json_string(syscall_name(state->syscall))
				    : json_null()},
		{"syscall_number", calls ? json_of_integer(state->syscall) : json_null()},
		{"fd", state->fd >= 0 ? json_of_integer((uint64_t)state->fd) : json_null()},
		{"target", json_of_target(&state->target)},
		{"holder_tid", json_of_count(state->holder_tid)},
		{"tracer_pid", json_of_count(state->tracer_pid)},
		{"age_ns", json_of_measured(state->age_ns)},
		{"age_is_exact", state->age_ns == PROFILE_ABSENT
					 ? json_null()
					 : json_boolean(state->flags & PERFX_THREAD_STATE_EXACT)},
		{"on_cpu", json_of_flag(state, PERFX_THREAD_STATE_ON_CPU)},
		{"frozen", json_of_flag(state, PERFX_THREAD_STATE_FROZEN)},
		{"throttled", json_of_flag(state, PERFX_THREAD_STATE_THROTTLED)},
		{"samples", json_of_count(state->samples_count)},
		{"moved_from", dump->watched_ns && dump_has_moved(state)
				       ? json_of_frame(dump_place(state->first_stack))
				       : json_null()},
		{"waits_for", thread->waits_for == DUMP_NONE
				      ? json_null()
				      : json_of_thread_ref(dump, thread->waits_for)},
		{"group", json_of_integer(thread->group)});
	text_clear(&what);
	return object;
}

/* Coroutines as the interpreter names them: "function\tfile\tline\n" each. */
static json_t *json_of_coroutines(const char *lines)
{
	json_t *frames = json_array();
	struct dump_coroutine *c = malloc(sizeof(*c));

	while (c && dump_next_coroutine(&lines, c))
		json_array_append_new(frames,
				      json_object_of({"function", json_of_string(c->function)},
						     {"file", json_of_string(c->file)},
						     {"line", json_of_count(c->line)}));
	free(c);
	return frames;
}

static void put_tasks(struct json_output *o, const struct profile_process *process)
{
	if (!process->tasks_count)
		return;
	json_open(o, "tasks", '[');
	for (size_t i = 0; i < process->tasks_count; i++) {
		const struct profile_async_task *task = &process->tasks[i];
		json_t *awaiters = json_array();

		json_array_append_new(awaiters, json_of_count(task->awaited_by));
		for (; i + 1 < process->tasks_count && process->tasks[i + 1].id == task->id; i++)
			json_array_append_new(awaiters,
					      json_of_count(process->tasks[i + 1].awaited_by));
		json_put(o, NULL,
			 json_object_of({"id", json_of_integer(task->id)},
					{"name", json_of_string(task->name)},
					{"tid", json_of_count(task->tid)},
					{"runs", task->runs ? json_true() : json_null()},
					{"awaited_by", task->awaited_by ? awaiters : json_null()},
					{"stack", json_of_coroutines(task->coroutines)}));
		if (!task->awaited_by)
			json_decref(awaiters);
	}
	json_close(o, ']');
}

static void put_processes(struct json_output *o, const struct profile *profile,
			  const struct dump *dump)
{
	size_t at = 0;

	json_open(o, "processes", '[');
	FOR_EACH (process, profile->processes) {
		bool ranked = process->rank.world_size > 0;

		if (!process->states_count)
			continue;
		json_open(o, NULL, '{');
		json_put_members(
			o, json_object_of({"pid", json_of_integer(process->pid)},
					  {"ppid", json_of_integer(process->ppid)},
					  {"comm", json_of_string(process->comm)},
					  {"command", json_of_arguments(process->cmdline)},
					  {"rank", ranked ? json_of_integer(process->rank.rank)
							  : json_null()},
					  {"world_size", json_of_count(process->rank.world_size)},
					  {"python", json_of_any_string(process->python_version)}));
		json_open(o, "threads", '[');
		for (; at < dump->threads_count && dump->threads[at].process == process; at++)
			json_put(o, NULL, json_of_state(profile, dump, &dump->threads[at]));
		json_close(o, ']');
		put_tasks(o, process);
		json_close(o, '}');
	}
	json_close(o, ']');
}

static void put_groups(struct json_output *o, const struct dump *dump)
{
	json_open(o, "groups", '[');
	FOR_EACH (group, dump->groups) {
		json_t *tids = json_array();

		for (size_t i = 0; i < group->threads_count; i++)
			json_array_append_new(
				tids, json_of_integer(dump->threads[group->threads[i]].state->tid));
		json_open(o, NULL, '{');
		json_put_integer(o, "pid", group->process->pid);
		json_put(o, "threads", tids);
		json_put(o, "stack", json_of_stack(dump->threads[group->threads[0]].state->stack));
		json_close(o, '}');
	}
	json_close(o, ']');
}

static void put_graph(struct json_output *o, const struct dump *dump)
{
	json_open(o, "deadlocks", '[');
	FOR_EACH (deadlock, dump->deadlocks) {
		json_t *threads = json_array();

		for (size_t i = 0; i < deadlock->threads_count; i++)
			json_array_append_new(threads,
					      json_of_thread_ref(dump, deadlock->threads[i]));
		json_put(o, NULL, threads);
	}
	json_close(o, ']');
	if (dump->culprit != DUMP_NONE)
		json_put(o, "culprit", json_of_thread_ref(dump, dump->culprit));
}

static void put_ranks(struct json_output *o, const struct profile *profile, const struct dump *dump)
{
	if (!dump->ranks_count)
		return;
	json_open(o, "ranks", '[');
	FOR_EACH (group, dump->ranks) {
		json_t *ranks = json_array();

		for (size_t i = 0; i < group->processes_count; i++) {
			const struct profile_process *process =
				&profile->processes[group->processes[i]];

			json_array_append_new(
				ranks, json_object_of({"rank", json_of_integer(process->rank.rank)},
						      {"pid", json_of_integer(process->pid)}));
		}
		json_put(o, NULL,
			 json_object_of({"call", json_of_any_string(group->call)},
					{"library", json_of_any_string(group->library)},
					{"in_collective", json_boolean(group->in_collective)},
					{"age_ns", json_of_measured(group->least_age_ns)},
					{"ranks", ranks}));
	}
	json_close(o, ']');
}

void dump_put_json(struct json_output *o, const struct profile *profile, const struct dump *dump)
{
	static const char *const answers[] = {
		[DUMP_ANSWER_NOTHING] = "nothing",
		[DUMP_ANSWER_DEADLOCK] = "deadlock",
		[DUMP_ANSWER_RANK_ELSEWHERE] = "rank_elsewhere",
		[DUMP_ANSWER_STOPPED] = "stopped",
		[DUMP_ANSWER_WAITS] = "waits",
		[DUMP_ANSWER_COMPUTES] = "computes",
		[DUMP_ANSWER_SPINS] = "spins",
		[DUMP_ANSWER_READY] = "waits_for_cpu",
	};

	json_put(o, "answer", json_string(answers[dump->answer]));
	json_put(o, "verdict", json_of_sentence(dump->verdict));
	put_graph(o, dump);
	put_ranks(o, profile, dump);
	put_processes(o, profile, dump);
	put_groups(o, dump);
}

int dump_write_json(FILE *out, const struct profile *profile, const struct dump *dump,
		    const struct report_options *options)
{
	struct json_output o = {.file = out};

	(void)options;
	json_open(&o, NULL, '{');
	json_put(&o, "schema", json_string("perfx.dump/1"));
	json_put(&o, "tool",
		 json_object_of({"name", json_string("perfx-trace")},
				{"version", json_of_string(profile->tool_version)}));
	json_put(&o, "taken",
		 json_object_of({"host", json_of_string(profile->host_name)},
				{"kernel", json_of_string(profile->kernel)},
				{"unix_ns", json_of_integer(profile->start_unix_ns)},
				{"duration_ns", json_of_integer(profile->duration_ns)},
				{"watched_ns", json_of_count(dump->watched_ns)},
				{"sample_interval_ns",
				 json_of_integer(profile->sampling.on_cpu_interval_ns)},
				{"records_lost",
				 json_of_integer(profile->losses[PERFX_LOSS_SAMPLE_DROPS])}));
	dump_put_json(&o, profile, dump);
	return json_end(&o);
}
