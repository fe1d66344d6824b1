// SPDX-License-Identifier: BSD-2-Clause
/* Processes: when their facts begin and end, and the samples in between. */
#include "aggregate/internal.h"

#include <stdlib.h>
#include <string.h>

struct process *process_get(struct aggregate *a, uint32_t process)
{
	if (process == 0 || process > AGGREGATE_PROCESSES_MAX) {
		errno = ERANGE;
		return NULL;
	}
	if (process >= a->processes_count) {
		if (grow_array(&a->processes, &a->processes_capacity, (size_t)process + 1,
			       sizeof(*a->processes))) {
			errno = ENOMEM;
			return NULL;
		}
		a->processes_count = (size_t)process + 1;
	}
	if (!a->processes[process])
		a->processes[process] = calloc(1, sizeof(struct process));
	return a->processes[process];
}

void process__free(struct process *proc)
{
	if (!proc)
		return;
	map64_clear(&proc->thread_ids);
	free(proc->threads);
	free(proc->points);
	free(proc);
}

/* What process_get's failure means to a caller. */
static int no_process(struct aggregate *a)
{
	return errno == ENOMEM ? -ENOMEM : undecoded(a);
}

static void process_open(struct process *proc, enum process_origin origin, uint64_t time_ns)
{
	if (proc->origin == PROCESS_UNKNOWN)
		proc->from_ns = time_ns;
	if (proc->origin < origin)
		proc->origin = origin;
}

static void process_close(struct process *proc, uint64_t time_ns)
{
	proc->closed = true;
	proc->to_ns = time_ns;
}

int process_described(struct aggregate *a, const struct event *event)
{
	const struct perfx_process *record = &event->process;
	struct process *proc = process_get(a, record->process);

	if (!proc)
		return no_process(a);
	process_open(proc, PROCESS_FOUND, record->time_ns);
	proc->pid = record->pid;
	proc->ppid = record->ppid;
	proc->exec_count = record->exec_count;
	proc->start_boot_ns = record->start_boot_ns;
	proc->comm = pool_add(&a->strings, event->strings[0]);
	proc->cmdline = pool_add(&a->strings, event->strings[1]);
	saw_time(a, record->time_ns);
	return proc->comm && proc->cmdline ? 0 : -ENOMEM;
}

int process_forked(struct aggregate *a, const struct perfx_fork *record)
{
	struct process *proc = process_get(a, record->process), *parent = NULL;

	if (!proc)
		return no_process(a);
	if (record->parent_process < a->processes_count)
		parent = a->processes[record->parent_process];
	process_open(proc, PROCESS_FORKED, record->time_ns);
	proc->pid = record->pid;
	proc->ppid = record->ppid;
	/* a child is its parent's image until a PROCESS record knows better */
	if (parent && !proc->comm) {
		proc->comm = parent->comm;
		proc->cmdline = parent->cmdline;
	}
	saw_time(a, record->time_ns);
	return 0;
}

int process_executed(struct aggregate *a, const struct perfx_exec *record)
{
	struct process *proc = process_get(a, record->process), *old = NULL;

	if (!proc)
		return no_process(a);
	process_open(proc, PROCESS_EXECUTED, record->time_ns);
	proc->pid = record->pid;
	proc->old_process = record->old_process;
	if (record->old_process != record->process && record->old_process < a->processes_count)
		old = a->processes[record->old_process];
	if (old) {
		process_close(old, record->time_ns);
		proc->ppid = old->ppid;
		proc->start_boot_ns = old->start_boot_ns;
		if (!proc->exec_count)
			proc->exec_count = old->exec_count + 1;
	}
	saw_time(a, record->time_ns);
	return 0;
}

int process_exited(struct aggregate *a, const struct perfx_exit *record)
{
	struct process *proc = process_get(a, record->process);

	if (!proc)
		return no_process(a);
	process_close(proc, record->time_ns);
	proc->exited = true;
	proc->status = record->status;
	proc->exit = *record;
	saw_time(a, record->time_ns);
	return 0;
}

static uint64_t total_cpu(const struct perfx_usage *usage)
{
	if (usage->cpu_user_ns == PROFILE_ABSENT || usage->cpu_system_ns == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	return add_capped(usage->cpu_user_ns, usage->cpu_system_ns);
}

/* Keeps every second point, so that a long capture's series stays bounded. */
static void thin_out(struct process *proc)
{
	for (size_t i = 0; i < proc->points_count; i += 2)
		proc->points[i / 2] = proc->points[i];
	proc->points_count = (proc->points_count + 1) / 2;
	proc->points_stride *= 2;
}

static int add_point(struct process *proc, const struct perfx_usage *usage)
{
	if (!proc->points_stride)
		proc->points_stride = 1;
	if (proc->points_skipped++ % proc->points_stride)
		return 0;
	if (proc->points_count == PROFILE_POINTS_MAX)
		thin_out(proc);
	if (grow_array(&proc->points, &proc->points_capacity, proc->points_count + 1,
		       sizeof(*proc->points)))
		return -ENOMEM;
	proc->points[proc->points_count++] = (struct profile_usage_point){
		.time_ns = usage->time_ns,
		.cpu_ns = total_cpu(usage),
		.rss_bytes = usage->rss_bytes,
		.rss_anon_bytes = usage->rss_anon_bytes,
		.read_bytes = usage->read_bytes,
		.write_bytes = usage->write_bytes,
	};
	return 0;
}

static void saw_host(struct host_usage *host, const struct perfx_usage *record)
{
	/* 0 in records that do not have it, absent at a birth */
	if (!record->host_busy_ns || record->host_busy_ns == PROFILE_ABSENT ||
	    record->host_steal_ns == PROFILE_ABSENT)
		return;
	if (!host->first_ns || record->time_ns < host->first_ns) {
		host->first_ns = record->time_ns;
		host->first_busy_ns = record->host_busy_ns;
		host->first_steal_ns = record->host_steal_ns;
	}
	if (record->time_ns >= host->last_ns) {
		host->last_ns = record->time_ns;
		host->last_busy_ns = record->host_busy_ns;
		host->last_steal_ns = record->host_steal_ns;
	}
}

int process_sampled(struct aggregate *a, const struct perfx_usage *record)
{
	struct process *proc = process_get(a, record->process);

	if (!proc)
		return no_process(a);
	if (!proc->has_usage)
		proc->first = *record;
	proc->last = *record;
	proc->has_usage = true;
	if (record->rss_bytes != PROFILE_ABSENT && record->rss_bytes > proc->rss_peak_bytes)
		proc->rss_peak_bytes = record->rss_bytes;
	saw_host(&a->host_usage, record);
	saw_time(a, record->time_ns);
	return add_point(proc, record);
}

int64_t process_thread(struct process *proc, uint32_t tid)
{
	uint32_t at = (uint32_t)proc->last_thread;

	if (at < proc->threads_count && proc->threads[at].tid == tid)
		return at;
	at = map64_get(&proc->thread_ids, tid);
	if (at != MAP64_NONE) {
		proc->last_thread = at;
		return at;
	}
	if (proc->threads_count == AGGREGATE_THREADS_MAX)
		return AGGREGATE_THREADS_MAX;
	at = (uint32_t)proc->threads_count;
	if (grow_array(&proc->threads, &proc->threads_capacity, (size_t)at + 1,
		       sizeof(*proc->threads)) ||
	    map64_put(&proc->thread_ids, tid, at))
		return -ENOMEM;
	proc->threads[at].tid = tid;
	proc->threads_count++;
	proc->last_thread = at;
	return at;
}

int process_hits(struct aggregate *a, uint32_t process, uint32_t tid, unsigned hits)
{
	struct process *proc = process_get(a, process);
	int64_t at;

	if (!proc)
		return errno == ENOMEM ? -ENOMEM : 0;
	at = process_thread(proc, tid);
	if (at < 0)
		return (int)at;
	proc->hits_count += hits;
	if (at == AGGREGATE_THREADS_MAX)
		return 0;
	proc->threads[at].hits_count += hits;
	return 0;
}

int process_thread_sampled(struct aggregate *a, const struct event *event)
{
	const struct perfx_thread *record = &event->thread;
	struct process *proc = process_get(a, record->process);
	struct thread *thread;
	int64_t at;

	if (!proc)
		return no_process(a);
	at = process_thread(proc, record->tid);
	if (at < 0)
		return (int)at;
	if (at == AGGREGATE_THREADS_MAX)
		return undecoded(a);
	thread = &proc->threads[at];
	if (!thread->comm || strcmp(thread->comm, event->strings[0]))
		thread->comm = pool_add(&a->strings, event->strings[0]);
	if (!thread->comm)
		return -ENOMEM;
	thread->state = (char)record->state;
	thread->last =
		(struct thread_sample){record->time_ns, record->on_cpu_ns, record->runnable_ns};
	if (thread->samples_count++ == 0)
		thread->first = thread->last;
	saw_time(a, record->time_ns);
	return 0;
}
