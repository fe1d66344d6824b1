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
	FOR_EACH (thread, thread_counters->threads)
		if (thread->tid)
			close_thread(thread_counters, thread);
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

/* Adds the counts of a thread's events, scaled up for the time that they were not on a counter. */
static void add_thread(struct thread_counters *thread_counters, const struct perf_thread *thread)
{
	struct perf_process *process = GROW_TO(thread_counters->processes, thread->process);
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
	FOR_EACH (thread, thread_counters->threads)
		if (thread->tid == tid)
			return thread;
	return NULL;
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

	if (thread && thread->process == process) {
		thread->seen = true;
		return;
	}
	if (thread) /* it executed another program */
		drop_thread(thread_counters, tracer, thread);
	thread = find_thread(thread_counters, 0);
	if (!thread && thread_counters->threads_count < PERFX_PERF_THREADS)
		thread = &thread_counters->threads[thread_counters->threads_count++];
	if (!thread) /* all slots are taken */
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

void thread_counters__scan(struct thread_counters *thread_counters, struct tracer *tracer,
			   const pid_t *pids, size_t count)
{
	if (!thread_counters->counters.count)
		return;
	FOR_EACH (thread, thread_counters->threads)
		thread->seen = false;
	for (size_t i = 0; i < count; i++) {
		struct perfx_traced_process traced;
		pid_t *tids = NULL;
		ssize_t tids_count;

		if (tracer__traced_process(tracer, pids[i], &traced))
			continue;
		tids_count = process_threads(pids[i], &tids);
		for (ssize_t k = 0; k < tids_count; k++)
			count_thread(thread_counters, tracer, traced.process, tids[k]);
		free(tids);
	}
	FOR_EACH (thread, thread_counters->threads)
		if (thread->tid && !thread->seen)
			drop_thread(thread_counters, tracer, thread);
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

void thread_counters__report(struct thread_counters *thread_counters, struct tracer *tracer,
			     struct sink *sink)
{
	size_t ended_bytes = thread_counters->processes_count * sizeof(*thread_counters->processes);
	struct perf_process *ended;
	struct pack_buffer buffer;
	uint32_t contexts_count;

	if (!thread_counters->counters.count)
		return;
	tracer__contexts(tracer, &contexts_count);
	for (uint32_t context = 1; context < contexts_count; context++) {
		struct perfx_call_counters record = {.context = context};
		struct perfx_perf_sums sums;

		if (!tracer__perf_sums(tracer, context, &sums))
			continue;
		memcpy(&record.calls_count, &sums, sizeof(sums));
		emitted_subtract(&thread_counters->contexts_emitted, context, &record.calls_count);
		if ((record.calls_count || record.missed_count) &&
		    !emitted_add(&thread_counters->contexts_emitted, context, &record.calls_count))
			SINK_PACK(sink, &buffer, PERFX_KIND_CALL_COUNTERS, record);
	}
	/* sums of ended threads, plus the counts of running ones, which are read now */
	ended = malloc(ended_bytes + 1);
	if (!ended)
		return;
	if (ended_bytes)
		memcpy(ended, thread_counters->processes, ended_bytes);
	FOR_EACH (thread, thread_counters->threads)
		if (thread->tid)
			add_thread(thread_counters, thread);
	for (uint32_t i = 0; i < thread_counters->processes_count; i++) {
		struct perf_process *process = &thread_counters->processes[i];
		struct perfx_process_counters record = {.process = i,
							.threads_count = process->threads_count,
							.enabled_ns = process->enabled_ns,
							.running_ns = process->running_ns};

		memcpy(record.values, process->values, sizeof(record.values));
		*process = (struct perf_process){0};
		if (!record.threads_count ||
		    emitted_advance(&thread_counters->processes_emitted, i, record.values) < 0)
			continue;
		/* scaled up, a count may seem to shrink */
		for (int k = 0; k < PERFX_PERF_COUNTERS; k++)
			if ((int64_t)record.values[k] < 0)
				record.values[k] = 0;
		SINK_PACK(sink, &buffer, PERFX_KIND_PROCESS_COUNTERS, record);
	}
	if (ended_bytes)
		memcpy(thread_counters->processes, ended, ended_bytes);
	free(ended);
}
