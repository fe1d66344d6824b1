// SPDX-License-Identifier: BSD-2-Clause
#include "attach/thread_counters.h"

#include "base/emitted.h"
#include "base/grow.h"
#include "decode/pack.h"
#include "proc/process.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct perf_thread {
	pid_t tid; /* 0: the slot is free */
	uint32_t process;
	bool seen; /* in the scan that goes on */
	int fds[PERFX_PERF_EVENTS];
};

struct perf_process {
	uint32_t threads_count;
	uint64_t values[PERFX_PERF_COUNTERS], enabled_ns, running_ns;
};

/* In a PROCESS_COUNTERS record: values, enabled_ns, running_ns. */
#define PROCESS_SUMS (PERFX_PERF_COUNTERS + 2)
/* In a CALL_COUNTERS record, from calls_count on, which is laid out as the programs' sums. */
#define CONTEXT_SUMS (sizeof(struct perfx_perf_sums) / sizeof(uint64_t))

struct thread_counters {
	enum counters_choice choice;
	struct counters counters;
	char why[256];
	bool described;
	struct perf_thread *threads;	/* by slot */
	size_t threads_count;		/* slots in use or free again: the highest + 1 */
	struct perf_process *processes; /* by index */
	size_t processes_count, processes_capacity;
	struct emitted processes_emitted, contexts_emitted; /* by index */
};

struct thread_counters *thread_counters__new(enum counters_choice choice, const char *names)
{
	struct thread_counters *thread_counters = calloc(1, sizeof(*thread_counters));
	struct counters_cpu cpu;
	const char *word;

	if (!thread_counters)
		return NULL;
	thread_counters->choice = choice;
	thread_counters->processes_emitted.width = PROCESS_SUMS;
	thread_counters->contexts_emitted.width = CONTEXT_SUMS;
	if (choice == COUNTERS_OFF)
		return thread_counters;
	thread_counters->threads = calloc(PERFX_PERF_THREADS, sizeof(*thread_counters->threads));
	if (!thread_counters->threads) {
		free(thread_counters);
		return NULL;
	}
	counters_cpu_read(&cpu);
	if (choice == COUNTERS_LISTED)
		counters_named(&cpu, names, &thread_counters->counters, &word); /* checked before */
	else
		counters_of_hardware(&cpu, &thread_counters->counters);
	counters_try(&cpu, &thread_counters->counters, thread_counters->why,
		     sizeof(thread_counters->why));
	return thread_counters;
}

static void close_thread(const struct thread_counters *thread_counters, struct perf_thread *thread)
{
	for (size_t i = 0; i < thread_counters->counters.events_count; i++)
		close(thread->fds[i]);
	thread->tid = 0;
}

void thread_counters__free(struct thread_counters *thread_counters)
{
	if (!thread_counters)
		return;
	for (size_t i = 0; i < thread_counters->threads_count; i++)
		if (thread_counters->threads[i].tid)
			close_thread(thread_counters, &thread_counters->threads[i]);
	free(thread_counters->threads);
	free(thread_counters->processes);
	emitted_clear(&thread_counters->processes_emitted);
	emitted_clear(&thread_counters->contexts_emitted);
	free(thread_counters);
}

const struct counters *thread_counters__counters(const struct thread_counters *thread_counters)
{
	return thread_counters->counters.count ? &thread_counters->counters : NULL;
}

const char *thread_counters__why(const struct thread_counters *thread_counters)
{
	return thread_counters->why;
}

bool thread_counters__all_functions(const struct thread_counters *thread_counters)
{
	return thread_counters->choice == COUNTERS_ON || thread_counters->choice == COUNTERS_LISTED;
}

static struct perf_process *process_of(struct thread_counters *thread_counters, uint32_t process)
{
	if (grow_array(&thread_counters->processes, &thread_counters->processes_capacity,
		       (size_t)process + 1, sizeof(*thread_counters->processes)))
		return NULL;
	if (process >= thread_counters->processes_count)
		thread_counters->processes_count = (size_t)process + 1;
	return &thread_counters->processes[process];
}

/* Adds the counts of a thread's events, scaled up for the time that they were not on a counter. */
static void add_thread(struct thread_counters *thread_counters, const struct perf_thread *thread)
{
	struct perf_process *process = process_of(thread_counters, thread->process);
	uint64_t read_back[3]; /* count, ns enabled, ns running */

	if (!process)
		return;
	process->threads_count++;
	for (size_t i = 0; i < thread_counters->counters.events_count; i++) {
		const struct counter_event *event = &thread_counters->counters.events[i];
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

static struct perf_thread *find_thread(const struct thread_counters *thread_counters, pid_t tid)
{
	for (size_t i = 0; i < thread_counters->threads_count; i++)
		if (thread_counters->threads[i].tid == tid)
			return &thread_counters->threads[i];
	return NULL;
}

/* NULL: all slots are taken. */
static struct perf_thread *free_slot(struct thread_counters *thread_counters)
{
	struct perf_thread *thread = find_thread(thread_counters, 0);

	if (!thread && thread_counters->threads_count < PERFX_PERF_THREADS)
		thread = &thread_counters->threads[thread_counters->threads_count++];
	return thread;
}

static void drop_thread(struct thread_counters *thread_counters, struct tracer *tracer,
			struct perf_thread *thread)
{
	tracer__drop_perf_thread(tracer, thread->tid,
				 (uint32_t)(thread - thread_counters->threads));
	add_thread(thread_counters, thread);
	close_thread(thread_counters, thread);
}

static void count_thread(struct thread_counters *thread_counters, struct tracer *tracer,
			 uint32_t process, pid_t tid)
{
	struct perf_thread *thread = find_thread(thread_counters, tid);
	size_t opened = 0, count = thread_counters->counters.events_count;
	uint32_t slot;

	if (thread && thread->process != process) {
		/* it executed another program */
		drop_thread(thread_counters, tracer, thread);
		thread = NULL;
	}
	if (thread) {
		thread->seen = true;
		return;
	}
	thread = free_slot(thread_counters);
	if (!thread)
		return;
	slot = (uint32_t)(thread - thread_counters->threads);
	for (; opened < count; opened++) {
		thread->fds[opened] =
			counter_event_open(&thread_counters->counters.events[opened], tid);
		if (thread->fds[opened] < 0)
			break;
	}
	if (opened < count || tracer__add_perf_thread(tracer, tid, slot, thread->fds, count)) {
		while (opened)
			close(thread->fds[--opened]);
		return;
	}
	thread->tid = tid;
	thread->process = process;
	thread->seen = true;
}

static void count_process(struct thread_counters *thread_counters, struct tracer *tracer, pid_t pid)
{
	struct perfx_traced_process traced;
	pid_t *tids = NULL;
	ssize_t count;

	if (tracer__traced_process(tracer, pid, &traced))
		return;
	count = process_threads(pid, &tids);
	for (ssize_t i = 0; i < count; i++)
		count_thread(thread_counters, tracer, traced.process, tids[i]);
	free(tids);
}

void thread_counters__scan(struct thread_counters *thread_counters, struct tracer *tracer,
			   const pid_t *pids, size_t count)
{
	if (!thread_counters->counters.count)
		return;
	for (size_t i = 0; i < thread_counters->threads_count; i++)
		thread_counters->threads[i].seen = false;
	for (size_t i = 0; i < count; i++)
		count_process(thread_counters, tracer, pids[i]);
	for (size_t i = 0; i < thread_counters->threads_count; i++) {
		struct perf_thread *thread = &thread_counters->threads[i];

		if (thread->tid && !thread->seen)
			drop_thread(thread_counters, tracer, thread);
	}
}

void thread_counters__describe(struct thread_counters *thread_counters, struct sink *sink)
{
	struct pack_buffer buffer;

	if (thread_counters->described)
		return;
	thread_counters->described = true;
	for (size_t i = 0; i < thread_counters->counters.count; i++) {
		const struct counter *counter = &thread_counters->counters.list[i];
		struct perfx_perf_counter record = {.counter = (uint32_t)i,
						    .kind = counter->is_flops
								    ? PERFX_PERF_COUNTER_FLOPS
								    : PERFX_PERF_COUNTER_PLAIN};

		sink_packed(sink, PACK(&buffer, PERFX_KIND_PERF_COUNTER, record, counter->name,
				       counter->unit, ""));
	}
	if (*thread_counters->why) {
		struct perfx_perf_counter record = {.kind = PERFX_PERF_COUNTER_MISSING};

		SINK_PACK(sink, &buffer, PERFX_KIND_PERF_COUNTER, record, "", "",
			  thread_counters->why);
	}
}

static void report_contexts(struct thread_counters *thread_counters, struct tracer *tracer,
			    struct sink *sink)
{
	struct pack_buffer buffer;
	struct perfx_perf_sums sums;
	uint32_t count;

	tracer__contexts(tracer, &count);
	for (uint32_t context = 1; context < count; context++) {
		struct perfx_call_counters record = {.context = context};

		if (!tracer__perf_sums(tracer, context, &sums))
			continue;
		memcpy(&record.calls_count, &sums, sizeof(sums));
		emitted_subtract(&thread_counters->contexts_emitted, context, &record.calls_count);
		if ((record.calls_count || record.missed_count) &&
		    !emitted_add(&thread_counters->contexts_emitted, context, &record.calls_count))
			SINK_PACK(sink, &buffer, PERFX_KIND_CALL_COUNTERS, record);
	}
}

static void report_process(struct thread_counters *thread_counters, uint32_t index,
			   struct sink *sink)
{
	const struct perf_process *process = &thread_counters->processes[index];
	struct perfx_process_counters record = {.process = index,
						.threads_count = process->threads_count,
						.enabled_ns = process->enabled_ns,
						.running_ns = process->running_ns};
	struct pack_buffer buffer;

	if (!process->threads_count)
		return;
	memcpy(record.values, process->values, sizeof(record.values));
	if (emitted_advance(&thread_counters->processes_emitted, index, record.values) < 0)
		return;
	/* scaled up, a count may seem to shrink */
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		if ((int64_t)record.values[i] < 0)
			record.values[i] = 0;
	SINK_PACK(sink, &buffer, PERFX_KIND_PROCESS_COUNTERS, record);
}

/* Sums of ended threads, plus the counts of running ones, which are read now. */
static void report_processes(struct thread_counters *thread_counters, struct sink *sink)
{
	struct perf_process *ended = NULL;
	size_t ended_count = thread_counters->processes_count;

	if (ended_count) {
		ended = malloc(ended_count * sizeof(*ended));
		if (!ended)
			return;
		memcpy(ended, thread_counters->processes, ended_count * sizeof(*ended));
	}
	for (size_t i = 0; i < thread_counters->threads_count; i++)
		if (thread_counters->threads[i].tid)
			add_thread(thread_counters, &thread_counters->threads[i]);
	for (uint32_t i = 0; i < thread_counters->processes_count; i++)
		report_process(thread_counters, i, sink);
	memset(thread_counters->processes, 0,
	       thread_counters->processes_count * sizeof(*thread_counters->processes));
	if (ended)
		memcpy(thread_counters->processes, ended, ended_count * sizeof(*ended));
	free(ended);
}

void thread_counters__report(struct thread_counters *thread_counters, struct tracer *tracer,
			     struct sink *sink)
{
	if (!thread_counters->counters.count)
		return;
	report_contexts(thread_counters, tracer, sink);
	report_processes(thread_counters, sink);
}
