// SPDX-License-Identifier: BSD-2-Clause
#include "attach/meters.h"

#include "base/grow.h"
#include "decode/pack.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct metered_thread {
	pid_t tid; /* 0: the slot is free */
	uint32_t process;
	bool seen; /* in the scan that goes on */
	int fds[PERFX_METER_EVENTS];
};

struct metered_process {
	uint32_t threads_count;
	uint64_t values[PERFX_METERS], enabled_ns, running_ns;
};

struct meters {
	enum counters_choice choice;
	struct counters counters;
	char why[256];
	bool described;
	struct metered_thread *threads;	   /* by slot */
	size_t threads_count;		   /* slots in use or free again: the highest + 1 */
	struct metered_process *processes; /* by index */
	size_t processes_count, processes_capacity;
	/* As they were told last. */
	struct metered_process *processes_told;
	size_t processes_told_capacity;
	struct perfx_meter_sums *contexts_told;
	size_t contexts_told_capacity;
};

struct meters *meters__new(enum counters_choice choice, const char *names)
{
	struct meters *meters = calloc(1, sizeof(*meters));
	struct counters_machine machine;
	const char *word;

	if (!meters)
		return NULL;
	meters->choice = choice;
	if (choice == COUNTERS_OFF)
		return meters;
	meters->threads = calloc(PERFX_METER_THREADS, sizeof(*meters->threads));
	if (!meters->threads) {
		free(meters);
		return NULL;
	}
	counters_machine_read(&machine);
	if (choice == COUNTERS_LISTED)
		counters_named(&machine, names, &meters->counters, &word); /* checked before */
	else
		counters_of_hardware(&machine, &meters->counters);
	counters_try(&machine, &meters->counters, meters->why, sizeof(meters->why));
	return meters;
}

static void close_thread(const struct meters *meters, struct metered_thread *thread)
{
	for (size_t i = 0; i < meters->counters.events_count; i++)
		close(thread->fds[i]);
	thread->tid = 0;
}

void meters__free(struct meters *meters)
{
	if (!meters)
		return;
	for (size_t i = 0; i < meters->threads_count; i++)
		if (meters->threads[i].tid)
			close_thread(meters, &meters->threads[i]);
	free(meters->threads);
	free(meters->processes);
	free(meters->processes_told);
	free(meters->contexts_told);
	free(meters);
}

const struct counters *meters__counters(const struct meters *meters)
{
	return meters->counters.count ? &meters->counters : NULL;
}

const char *meters__why(const struct meters *meters)
{
	return meters->why;
}

bool meters__all_functions(const struct meters *meters)
{
	return meters->choice == COUNTERS_ON || meters->choice == COUNTERS_LISTED;
}

/* --- sums of processes ---------------------------------------------------------------------- */

static struct metered_process *process_of(struct meters *meters, uint32_t process)
{
	if (grow_array(&meters->processes, &meters->processes_capacity, (size_t)process + 1,
		       sizeof(*meters->processes)))
		return NULL;
	if (process >= meters->processes_count)
		meters->processes_count = (size_t)process + 1;
	return &meters->processes[process];
}

/* What a thread's events have counted up to now, those that had to wait scaled up. */
static void add_thread(struct meters *meters, const struct metered_thread *thread)
{
	struct metered_process *process = process_of(meters, thread->process);
	uint64_t read_back[3]; /* count, ns enabled, ns running */

	if (!process)
		return;
	process->threads_count++;
	for (size_t i = 0; i < meters->counters.events_count; i++) {
		const struct counter_event *event = &meters->counters.events[i];
		double count;

		if (read(thread->fds[i], read_back, sizeof(read_back)) != sizeof(read_back))
			continue;
		count = (double)read_back[0];
		if (read_back[2] && read_back[2] < read_back[1])
			count *= (double)read_back[1] / (double)read_back[2];
		process->values[event->counter] += (uint64_t)count * event->weight;
		process->enabled_ns += read_back[1];
		process->running_ns += read_back[2];
	}
}

/* --- threads -------------------------------------------------------------------------------- */

static struct metered_thread *find_thread(const struct meters *meters, pid_t tid)
{
	for (size_t i = 0; i < meters->threads_count; i++)
		if (meters->threads[i].tid == tid)
			return &meters->threads[i];
	return NULL;
}

/* NULL: all slots are taken. */
static struct metered_thread *free_slot(struct meters *meters)
{
	struct metered_thread *thread = find_thread(meters, 0);

	if (!thread && meters->threads_count < PERFX_METER_THREADS)
		thread = &meters->threads[meters->threads_count++];
	return thread;
}

static void drop_thread(struct meters *meters, struct tracer *tracer, struct metered_thread *thread)
{
	tracer__unmeter_thread(tracer, thread->tid, (uint32_t)(thread - meters->threads));
	add_thread(meters, thread);
	close_thread(meters, thread);
}

static void meter_thread(struct meters *meters, struct tracer *tracer, uint32_t process, pid_t tid)
{
	struct metered_thread *thread = find_thread(meters, tid);
	size_t opened = 0, count = meters->counters.events_count;
	uint32_t slot;

	if (thread && thread->process != process) {
		/* it executed another program */
		drop_thread(meters, tracer, thread);
		thread = NULL;
	}
	if (thread) {
		thread->seen = true;
		return;
	}
	thread = free_slot(meters);
	if (!thread)
		return;
	slot = (uint32_t)(thread - meters->threads);
	for (; opened < count; opened++) {
		thread->fds[opened] = counter_event_open(&meters->counters.events[opened], tid);
		if (thread->fds[opened] < 0)
			break;
	}
	if (opened < count || tracer__meter_thread(tracer, tid, slot, thread->fds, count)) {
		while (opened)
			close(thread->fds[--opened]);
		return;
	}
	thread->tid = tid;
	thread->process = process;
	thread->seen = true;
}

static void meter_process(struct meters *meters, struct tracer *tracer, pid_t pid)
{
	struct perfx_family family;
	struct dirent *entry;
	char path[64];
	DIR *tasks;

	if (tracer__family(tracer, pid, &family))
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid > 0)
			meter_thread(meters, tracer, family.process, tid);
	}
	if (tasks)
		closedir(tasks);
}

void meters__scan(struct meters *meters, struct tracer *tracer, const pid_t *pids, size_t count)
{
	if (!meters->counters.count)
		return;
	for (size_t i = 0; i < meters->threads_count; i++)
		meters->threads[i].seen = false;
	for (size_t i = 0; i < count; i++)
		meter_process(meters, tracer, pids[i]);
	for (size_t i = 0; i < meters->threads_count; i++) {
		struct metered_thread *thread = &meters->threads[i];

		if (thread->tid && !thread->seen)
			drop_thread(meters, tracer, thread);
	}
}

/* --- records -------------------------------------------------------------------------------- */

void meters__describe(struct meters *meters, struct sink *sink)
{
	struct pack_buffer buffer;

	if (meters->described)
		return;
	meters->described = true;
	for (size_t i = 0; i < meters->counters.count; i++) {
		const struct counter *counter = &meters->counters.list[i];
		struct perfx_meter record = {.meter = (uint32_t)i,
					     .kind = counter->is_flops ? PERFX_METER_FLOPS
								       : PERFX_METER_PLAIN};

		sink_packed(sink, PACK(&buffer, PERFX_KIND_METER, record, counter->name,
				       counter->unit, ""));
	}
	if (*meters->why) {
		struct perfx_meter record = {.kind = PERFX_METER_MISSING};

		SINK_PACK(sink, &buffer, PERFX_KIND_METER, record, "", "", meters->why);
	}
}

static struct perfx_metered metered_since(uint32_t context, const struct perfx_meter_sums *sums,
					  const struct perfx_meter_sums *told)
{
	struct perfx_metered record = {
		.context = context,
		.calls_count = sums->calls_count - told->calls_count,
		.missed_count = sums->missed_count - told->missed_count,
		.flops = sums->flops - told->flops,
		.counted_flops = sums->counted_flops - told->counted_flops,
	};

	for (int i = 0; i < PERFX_METERS; i++)
		record.values[i] = sums->values[i] - told->values[i];
	return record;
}

static void report_contexts(struct meters *meters, struct tracer *tracer, struct sink *sink)
{
	struct pack_buffer buffer;
	struct perfx_meter_sums sums, *told;
	uint32_t count;

	tracer__contexts(tracer, &count);
	if (grow_array(&meters->contexts_told, &meters->contexts_told_capacity, count,
		       sizeof(*meters->contexts_told)))
		return;
	for (uint32_t context = 1; context < count; context++) {
		struct perfx_metered record;

		if (!tracer__metered(tracer, context, &sums))
			continue;
		told = &meters->contexts_told[context];
		record = metered_since(context, &sums, told);
		if (!record.calls_count && !record.missed_count)
			continue;
		*told = sums;
		SINK_PACK(sink, &buffer, PERFX_KIND_METERED, record);
	}
}

static struct perfx_metered_process process_since(uint32_t process,
						  const struct metered_process *now,
						  const struct metered_process *told)
{
	struct perfx_metered_process record = {
		.process = process,
		.threads_count = now->threads_count,
		.enabled_ns = now->enabled_ns - told->enabled_ns,
		.running_ns = now->running_ns - told->running_ns,
	};

	/* scaled up, a count may seem to shrink */
	for (int i = 0; i < PERFX_METERS; i++)
		if (now->values[i] > told->values[i])
			record.values[i] = now->values[i] - told->values[i];
	return record;
}

/* Of threads that have ended it is known, of the others read now. */
static void report_processes(struct meters *meters, struct sink *sink)
{
	struct metered_process *ended = NULL;
	size_t ended_count = meters->processes_count;
	struct pack_buffer buffer;

	if (ended_count) {
		ended = malloc(ended_count * sizeof(*ended));
		if (!ended)
			return;
		memcpy(ended, meters->processes, ended_count * sizeof(*ended));
	}
	for (size_t i = 0; i < meters->threads_count; i++)
		if (meters->threads[i].tid)
			add_thread(meters, &meters->threads[i]);
	for (uint32_t i = 0; i < meters->processes_count; i++) {
		struct metered_process *process = &meters->processes[i], *told;
		struct perfx_metered_process record;

		if (!process->threads_count ||
		    grow_array(&meters->processes_told, &meters->processes_told_capacity,
			       (size_t)i + 1, sizeof(*told)))
			continue;
		told = &meters->processes_told[i];
		record = process_since(i, process, told);
		*told = *process;
		SINK_PACK(sink, &buffer, PERFX_KIND_METERED_PROCESS, record);
	}
	memset(meters->processes, 0, meters->processes_count * sizeof(*meters->processes));
	if (ended)
		memcpy(meters->processes, ended, ended_count * sizeof(*ended));
	free(ended);
}

void meters__report(struct meters *meters, struct tracer *tracer, struct sink *sink)
{
	if (!meters->counters.count)
		return;
	report_contexts(meters, tracer, sink);
	report_processes(meters, sink);
}
