// SPDX-License-Identifier: BSD-2-Clause
/* How a process ended. */
#include "analyze/death.h"
#include "analyze/location.h"
#include "base/text.h"
#include "decode/names.h"
#include "report/json/output.h"

#include <sys/wait.h>

static json_t *of_sender(const struct profile_end *end)
{
	const struct perfx_signal *signal = &end->signal;

	if (!(signal->flags & PERFX_SIGNAL_SENT))
		return json_null();
	return json_object_of({"pid", json_of_integer(signal->sender_pid)},
			      {"comm", json_of_any_string(end->sender)},
			      {"ppid", json_of_integer(signal->sender_ppid)},
			      {"parent_comm", json_of_any_string(end->sender_parent)});
}

static json_t *of_storage(const struct profile_end *end)
{
	const struct perfx_signal *signal = &end->signal;

	if (!(signal->flags & PERFX_SIGNAL_TMPFS) || !signal->storage_bytes)
		return json_null();
	return json_object_of({"mount", json_of_any_string(end->storage)},
			      {"bytes", json_of_integer(signal->storage_bytes)},
			      {"used_bytes", json_of_integer(signal->storage_used_bytes)});
}

static json_t *of_mapping(const struct profile_end *end)
{
	const struct perfx_signal *signal = &end->signal;
	const char permissions[] = {signal->flags & PERFX_SIGNAL_READ ? 'r' : '-',
				    signal->flags & PERFX_SIGNAL_WRITE ? 'w' : '-',
				    signal->flags & PERFX_SIGNAL_EXEC ? 'x' : '-', '\0'};
	bool is_file = *end->file;

	if (!(signal->flags & PERFX_SIGNAL_MAPPED))
		return json_null();
	return json_object_of(
		{"start", json_of_integer(signal->mapping_start)},
		{"end", json_of_integer(signal->mapping_end)},
		{"permissions", json_string(permissions)},
		{"what", signal->flags & PERFX_SIGNAL_HEAP    ? json_string("heap")
			 : signal->flags & PERFX_SIGNAL_STACK ? json_string("stack")
							      : json_null()},
		{"file", json_of_any_string(end->file)},
		{"offset", is_file ? json_of_integer(signal->file_offset) : json_null()},
		{"file_bytes", is_file ? json_of_integer(signal->file_bytes) : json_null()},
		{"storage", of_storage(end)});
}

static json_t *of_signal(const struct profile_process *process)
{
	const struct perfx_signal *signal = death_signal(process);
	bool is_fault = signal && signal->flags & PERFX_SIGNAL_FAULT;

	if (!signal)
		return json_null();
	return json_object_of(
		{"name", json_of_string(signal_words((int)signal->signal))},
		{"number", json_of_integer(signal->signal)}, {"code", json_integer(signal->code)},
		{"tid", json_of_integer(signal->tid)},
		{"before_ns", json_of_integer(signal->time_ns - signal->sent_ns)},
		{"sender", of_sender(&process->end)},
		{"address", is_fault ? json_of_integer(signal->address) : json_null()},
		{"ip", is_fault ? json_of_integer(signal->ip) : json_null()},
		{"near_stack",
		 is_fault ? json_boolean(signal->flags & PERFX_SIGNAL_NEAR_STACK) : json_null()},
		{"mapping", of_mapping(&process->end)});
}

/* Only where the kernel killed it. */
static json_t *of_cgroup(const struct profile_process *process)
{
	const struct profile_end *end = &process->end;
	const struct perfx_signal *signal = death_signal(process);
	json_t *others = json_array();

	if (!signal || !signal->cgroup_limit_bytes) {
		json_decref(others);
		return json_null();
	}
	for (size_t i = 0; i < end->neighbours_count; i++)
		json_array_append_new(
			others, json_object_of({"pid", json_of_integer(end->neighbours[i].pid)},
					       {"comm", json_of_string(end->neighbours[i].comm)},
					       {"rss_bytes",
						json_of_integer(end->neighbours[i].rss_bytes)}));
	return json_object_of({"path", json_of_any_string(end->cgroup)},
			      {"limit_bytes", json_of_integer(signal->cgroup_limit_bytes)},
			      {"used_bytes", json_of_integer(signal->cgroup_used_bytes)},
			      {"oom_kills", json_of_measured(end->oom_kills_count)},
			      {"others", others});
}

static json_t *of_threads(const struct profile_process *process)
{
	const struct profile_end *end = &process->end;
	json_t *threads = json_array();

	for (size_t i = 0; i < end->samples_count; i++) {
		const struct profile_last_sample *sample = &end->samples[i];
		const struct profile_stack *stack = sample->what.stack;
		const struct profile_frame *place = death_place_of(sample);
		struct text text = {0};

		if (place)
			location_frame(&text, place, LOCATION_BRIEF);
		json_array_append_new(
			threads,
			json_object_of({"tid", json_of_integer(sample->tid)},
				       {"comm", json_of_any_string(sample->comm)},
				       {"before_ns", json_of_integer(sample->before_ns)},
				       {"by_signal", death_sample_is_exact(process, sample)
							     ? json_true()
							     : json_null()},
				       {"place", json_of_any_string(text_peek(&text))},
				       {"frames",
					stack ? json_of_frames(stack->frames, stack->frames_count)
					      : json_null()}));
		text_clear(&text);
	}
	return json_unless_empty(threads);
}

void json_put_end(struct json_output *o, const struct profile *profile,
		  const struct profile_process *process)
{
	static const char *const names[] = {
		[DEATH_NONE] = "exit",	     [DEATH_ASKED] = "asked",
		[DEATH_STATUS] = "status",   [DEATH_KILLED] = "killed",
		[DEATH_CRASHED] = "crashed", [DEATH_OF_MEMORY] = "out_of_memory",
	};
	struct text cause = {0};
	int status = process->status;

	if (!process->exited)
		return;
	death_add(&cause, profile, process);
	json_put_object(
		o, "end",
		json_object_of({"class", json_string(names[death_of(profile, process)])},
			       {"failed", json_boolean(death_is_failure(profile, process))},
			       {"cause", json_of_sentence(text_peek(&cause))},
			       {"code", WIFSIGNALED(status) ? json_null()
							    : json_of_integer(WEXITSTATUS(status))},
			       {"core_dumped", WIFSIGNALED(status) && WCOREDUMP(status)
						       ? json_true()
						       : json_null()},
			       {"signal", of_signal(process)}, {"cgroup", of_cgroup(process)},
			       {"threads", of_threads(process)}));
	text_clear(&cause);
}
