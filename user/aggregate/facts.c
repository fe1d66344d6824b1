// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a process used while it was open: the difference of two samples. A counter's value at
 * the beginning is 0 for a process forked while tracing, and what the process before had last for
 * one that called exec.
 */
#include "aggregate/internal.h"

#include <ctype.h>
#include <stdlib.h>

static const struct perfx_usage nothing_used;

static uint64_t difference(uint64_t from, uint64_t to)
{
	if (from == PROFILE_ABSENT || to == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	return to > from ? to - from : 0;
}

static uint64_t start_of(const struct aggregate *a)
{
	return a->has_host ? a->host.start_ns : a->first_ns;
}

static uint64_t end_of(const struct aggregate *a)
{
	return a->has_end ? a->end.time_ns : a->last_ns;
}

/* It began before the capture did: how does not matter then. */
static bool began_before(const struct aggregate *a, const struct process *proc)
{
	return a->has_host && proc->from_ns < a->host.start_ns;
}

/* NULL: nothing is known. */
static const struct perfx_usage *usage_at_start(const struct aggregate *a,
						const struct process *proc)
{
	const struct process *old;

	if (began_before(a, proc))
		return proc->has_usage ? &proc->first : NULL;
	if (proc->origin == PROCESS_FORKED)
		return &nothing_used;
	if (proc->origin == PROCESS_EXECUTED && proc->old_process < a->processes_count) {
		old = a->processes[proc->old_process];
		if (old && old != proc && old->has_usage)
			return &old->last;
	}
	return proc->has_usage ? &proc->first : NULL;
}

/* The kernel's sum at exit is exact, the last sample before it is not. */
static bool cpu_from_exit(const struct aggregate *a, const struct process *proc,
			  const struct perfx_usage *start, struct profile_process *facts)
{
	const struct perfx_exit *exit = &proc->exit;
	uint64_t before = add_capped(start->cpu_user_ns, start->cpu_system_ns);
	uint64_t ticks = add_capped(exit->user_tick_ns, exit->system_tick_ns);
	uint64_t total, user;

	if (!proc->exited || exit->runtime_ns < before ||
	    (a->recording_windows_count && exit->time_ns > end_of(a)))
		return false;
	total = exit->runtime_ns - before;
	user = ticks ? (uint64_t)((u128)exit->runtime_ns * exit->user_tick_ns / ticks)
		     : exit->runtime_ns;
	user = user > start->cpu_user_ns ? user - start->cpu_user_ns : 0;
	if (user > total)
		user = total;
	facts->cpu_ns = total;
	facts->cpu_user_ns = user;
	facts->cpu_system_ns = total - user;
	return true;
}

static void cpu_facts(const struct aggregate *a, const struct process *proc,
		      const struct perfx_usage *start, struct profile_process *facts)
{
	facts->cpu_user_ns = facts->cpu_system_ns = facts->cpu_ns = PROFILE_ABSENT;
	if (!start || start->cpu_user_ns == PROFILE_ABSENT ||
	    start->cpu_system_ns == PROFILE_ABSENT)
		return;
	if (cpu_from_exit(a, proc, start, facts) || !proc->has_usage)
		return;
	facts->cpu_user_ns = difference(start->cpu_user_ns, proc->last.cpu_user_ns);
	facts->cpu_system_ns = difference(start->cpu_system_ns, proc->last.cpu_system_ns);
	if (facts->cpu_user_ns != PROFILE_ABSENT && facts->cpu_system_ns != PROFILE_ABSENT)
		facts->cpu_ns = add_capped(facts->cpu_user_ns, facts->cpu_system_ns);
}

static void usage_facts(const struct aggregate *a, const struct process *proc,
			struct profile_process *facts)
{
	static const struct perfx_usage absent = {
		.rss_bytes = PROFILE_ABSENT,
		.rss_anon_bytes = PROFILE_ABSENT,
		.rss_file_bytes = PROFILE_ABSENT,
		.rss_shmem_bytes = PROFILE_ABSENT,
		.read_bytes = PROFILE_ABSENT,
		.write_bytes = PROFILE_ABSENT,
		.net_rx_bytes = PROFILE_ABSENT,
		.net_tx_bytes = PROFILE_ABSENT,
		.threads_count = PROFILE_ABSENT,
		.major_faults_count = PROFILE_ABSENT,
		.throttle_periods_count = PROFILE_ABSENT,
		.throttled_count = PROFILE_ABSENT,
		.throttled_ns = PROFILE_ABSENT,
	};
	const struct perfx_usage *start = usage_at_start(a, proc), *first = &absent,
				 *last = &absent;

	cpu_facts(a, proc, start, facts);
	if (proc->has_usage) {
		last = &proc->last;
		first = &proc->first;
	}
	if (!start)
		start = &absent;
	facts->rss_bytes = last->rss_bytes;
	facts->rss_peak_bytes =
		last->rss_bytes == PROFILE_ABSENT ? PROFILE_ABSENT : proc->rss_peak_bytes;
	facts->rss_anon_bytes = last->rss_anon_bytes;
	facts->rss_file_bytes = last->rss_file_bytes;
	facts->rss_shmem_bytes = last->rss_shmem_bytes;
	facts->read_bytes = difference(start->read_bytes, last->read_bytes);
	facts->write_bytes = difference(start->write_bytes, last->write_bytes);
	facts->net_rx_bytes = difference(start->net_rx_bytes, last->net_rx_bytes);
	facts->net_tx_bytes = difference(start->net_tx_bytes, last->net_tx_bytes);
	facts->major_faults_count = difference(start->major_faults_count, last->major_faults_count);
	facts->kernel_threads_count = last->threads_count;
	/* the cgroup's: not 0 when the process starts */
	facts->throttled_ns = difference(first->throttled_ns, last->throttled_ns);
	facts->throttled_count = difference(first->throttled_count, last->throttled_count);
	facts->throttle_periods_count =
		difference(first->throttle_periods_count, last->throttle_periods_count);
	facts->points = proc->points;
	facts->points_count = proc->points_count;
}

/* The first and the last time at which threads were looked at. */
static void sampled_interval(const struct process *proc, uint64_t *from, uint64_t *to)
{
	*from = UINT64_MAX;
	*to = 0;
	for (size_t i = 0; i < proc->threads_count; i++) {
		const struct thread *thread = &proc->threads[i];

		if (!thread->samples_count)
			continue;
		if (thread->first.time_ns < *from)
			*from = thread->first.time_ns;
		if (thread->last.time_ns > *to)
			*to = thread->last.time_ns;
	}
}

/* forked: its process began in the capture, and it with it. */
static void thread_facts(const struct process *proc, bool forked, const struct thread *thread,
			 uint64_t middle_ns, struct profile_thread *facts)
{
	struct thread_sample from = thread->first;
	bool began_here =
		forked || (thread->samples_count == 1 && thread->first.time_ns > middle_ns);

	*facts = (struct profile_thread){
		.tid = thread->tid,
		.comm = thread->comm,
		.state = isalpha((unsigned char)thread->state) ? thread->state : 0,
		.wall_ns = PROFILE_ABSENT,
		.on_cpu_ns = PROFILE_ABSENT,
		.runnable_ns = PROFILE_ABSENT,
		.blocked_ns = PROFILE_ABSENT,
		.hits_count = thread->hits_count,
	};
	if (began_here)
		from = (struct thread_sample){.time_ns = proc->from_ns};
	else if (thread->samples_count == 1)
		return;
	/* when a thread began is known of the first one only */
	if (!began_here || thread->tid == proc->pid)
		facts->wall_ns = difference(from.time_ns, thread->last.time_ns);
	facts->on_cpu_ns = difference(from.on_cpu_ns, thread->last.on_cpu_ns);
	facts->runnable_ns = difference(from.runnable_ns, thread->last.runnable_ns);
	if (facts->wall_ns != PROFILE_ABSENT && facts->on_cpu_ns != PROFILE_ABSENT &&
	    facts->runnable_ns != PROFILE_ABSENT)
		facts->blocked_ns = difference(add_capped(facts->on_cpu_ns, facts->runnable_ns),
					       facts->wall_ns);
}

static int by_cpu(const void *left, const void *right)
{
	const struct profile_thread *a = left, *b = right;
	/* absent wraps to 0: last */
	uint64_t a_ns = a->on_cpu_ns + 1, b_ns = b->on_cpu_ns + 1;

	if (a_ns != b_ns)
		return a_ns < b_ns ? 1 : -1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int threads_facts(const struct aggregate *a, const struct process *proc,
			 struct profile_process *facts)
{
	bool forked = proc->origin == PROCESS_FORKED && !began_before(a, proc);
	uint64_t from_ns, to_ns, middle_ns;

	sampled_interval(proc, &from_ns, &to_ns);
	if (from_ns > to_ns)
		return 0;
	middle_ns = from_ns + (to_ns - from_ns) / 2;
	if (from_ns == to_ns)
		middle_ns = to_ns;
	facts->threads = calloc(proc->threads_count, sizeof(*facts->threads));
	if (!facts->threads)
		return -ENOMEM;
	for (size_t i = 0; i < proc->threads_count; i++) {
		if (proc->threads[i].samples_count)
			thread_facts(proc, forked, &proc->threads[i], middle_ns,
				     &facts->threads[facts->threads_count++]);
	}
	qsort(facts->threads, facts->threads_count, sizeof(*facts->threads), by_cpu);
	return 0;
}

int facts_of_process(const struct aggregate *a, uint32_t process, struct profile_process *facts)
{
	const struct process *proc = a->processes[process];
	uint64_t start_ns = start_of(a), end_ns = end_of(a);

	*facts = (struct profile_process){
		.index = process,
		.seen_hits_count = proc->hits_count,
		.pid = proc->pid,
		.ppid = proc->ppid,
		.exec_count = proc->exec_count,
		.perf = proc->perf,
		.start_boot_ns = proc->start_boot_ns,
		.comm = proc->comm ? proc->comm : "",
		.cmdline = proc->cmdline ? proc->cmdline : "",
		.from_ns = proc->from_ns > start_ns ? proc->from_ns : start_ns,
		.to_ns = proc->closed ? proc->to_ns : end_ns,
		.exited = proc->exited,
		.status = proc->status,
		.unmatched_entries = proc->unmatched_entries,
	};
	/* it went on when nothing was recorded any more */
	if (a->recording_windows_count && facts->to_ns > end_ns)
		facts->to_ns = end_ns;
	if (facts->to_ns < facts->from_ns)
		facts->to_ns = facts->from_ns;
	usage_facts(a, proc, facts);
	return threads_facts(a, proc, facts);
}

uint64_t profile_others_cpu_ns(const struct profile *profile)
{
	uint64_t ours = profile->tracer_cpu_ns == PROFILE_ABSENT ? 0 : profile->tracer_cpu_ns;

	if (profile->host_busy_ns == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	for (size_t i = 0; i < profile->processes_count; i++) {
		if (profile->processes[i].cpu_ns != PROFILE_ABSENT)
			ours = add_capped(ours, profile->processes[i].cpu_ns);
	}
	return profile->host_busy_ns > ours ? profile->host_busy_ns - ours : 0;
}
