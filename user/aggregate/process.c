// SPDX-License-Identifier: BSD-2-Clause
/* Processes: when their facts begin and end, and the samples in between. */
#include "aggregate/process.h"

#include "base/order.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct process *process_get(struct aggregate *a, uint32_t process)
{
	struct processes *all = a->processes;
	struct process **proc;

	if (process < all->count && all->list[process])
		return all->list[process];
	errno = ERANGE;
	if (process == 0 || process > AGGREGATE_PROCESSES_MAX)
		return NULL;
	proc = grow_to(&all->list, &all->capacity, &all->count, process, sizeof(*all->list));
	if (proc && !*proc)
		*proc = calloc(1, sizeof(**proc));
	return proc ? *proc : NULL;
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

static int handle_process(struct aggregate *a, const struct event *event)
{
	const struct perfx_process *record = &event->process;
	struct process *proc = process_get(a, record->process);

	if (!proc)
		return rejected(a);
	process_open(proc, PROCESS_FOUND, record->time_ns);
	proc->pid = record->pid;
	proc->ppid = record->ppid;
	proc->exec_count = record->exec_count;
	proc->merged = record->merged;
	proc->launched = record->flags & PERFX_PROCESS_LAUNCHED;
	proc->start_boot_ns = record->start_boot_ns;
	proc->comm = pool_add(&a->strings, event->strings[0]);
	proc->cmdline = pool_add(&a->strings, event->strings[1]);
	saw_time(a, record->time_ns);
	return proc->comm && proc->cmdline ? 0 : -ENOMEM;
}

static int handle_fork(struct aggregate *a, const struct event *event)
{
	const struct perfx_fork *record = &event->fork;
	struct process *proc = process_get(a, record->process);
	const struct process *parent = process_find(a, record->parent_process);

	if (!proc)
		return rejected(a);
	process_open(proc, PROCESS_FORKED, record->time_ns);
	proc->pid = record->pid;
	proc->ppid = record->ppid;
	if (parent)
		proc->merged = parent->merged;
	/* a child is its parent's image until a PROCESS record knows better */
	if (parent && !proc->comm) {
		proc->comm = parent->comm;
		proc->cmdline = parent->cmdline;
		proc->place = parent->place;
	}
	saw_time(a, record->time_ns);
	return 0;
}

static int handle_exec(struct aggregate *a, const struct event *event)
{
	const struct perfx_exec *record = &event->exec;
	struct process *proc = process_get(a, record->process), *old = NULL;

	if (!proc)
		return rejected(a);
	process_open(proc, PROCESS_EXECUTED, record->time_ns);
	proc->pid = record->pid;
	proc->old_process = record->old_process;
	if (record->old_process != record->process)
		old = process_find(a, record->old_process);
	if (old) {
		process_close(old, record->time_ns);
		proc->ppid = old->ppid;
		proc->merged = old->merged;
		proc->start_boot_ns = old->start_boot_ns;
		proc->place = old->place;
		if (!proc->exec_count)
			proc->exec_count = old->exec_count + 1;
	}
	saw_time(a, record->time_ns);
	return 0;
}

static int handle_exit(struct aggregate *a, const struct event *event)
{
	const struct perfx_exit *record = &event->exit;
	struct process *proc = process_get(a, record->process);

	if (!proc)
		return rejected(a);
	process_close(proc, record->time_ns);
	proc->exited = true;
	proc->status = record->status;
	proc->exit = *record;
	saw_time(a, record->time_ns);
	return 0;
}

static int add_point(struct process *proc, const struct perfx_usage *usage)
{
	struct profile_usage_point *point = THINNED_POINT(proc, PROFILE_POINTS_MAX);
	uint64_t user_ns = usage->cpu_user_ns, system_ns = usage->cpu_system_ns;

	if (!point)
		return -errno;
	*point = (struct profile_usage_point){
		.time_ns = usage->time_ns,
		.cpu_ns = user_ns == PROFILE_ABSENT || system_ns == PROFILE_ABSENT
				  ? PROFILE_ABSENT
				  : add_capped(user_ns, system_ns),
		.rss_bytes = usage->rss_bytes,
		.rss_anon_bytes = usage->rss_anon_bytes,
		.rss_shmem_bytes = usage->rss_shmem_bytes,
		.read_bytes = usage->read_bytes,
		.write_bytes = usage->write_bytes,
	};
	return 0;
}

/* Keeps the last known value of each field that the record does not have: a counter that began at 0
 * would otherwise look as if nothing had been used. */
static void keep_known(struct perfx_usage *last, const struct perfx_usage *record)
{
	struct perfx_usage before = *last;

	*last = *record;
#define KEEP(field)                          \
	if (record->field == PROFILE_ABSENT) \
	last->field = before.field
	KEEP(rss_bytes);
	KEEP(rss_anon_bytes);
	KEEP(rss_file_bytes);
	KEEP(rss_shmem_bytes);
	KEEP(rss_peak_bytes);
	KEEP(threads_count);
	KEEP(throttle_periods_count);
	KEEP(throttled_count);
	KEEP(throttled_ns);
#undef KEEP
	if (!record->rss_peak_bytes) /* of a capture without it */
		last->rss_peak_bytes = before.rss_peak_bytes;
}

static int handle_usage(struct aggregate *a, const struct event *event)
{
	const struct perfx_usage *record = &event->usage;
	struct process *proc = process_get(a, record->process);

	if (!proc)
		return rejected(a);
	if (!proc->has_usage) {
		proc->first = *record;
		proc->last = *record;
	}
	keep_known(&proc->last, record);
	proc->has_usage = true;
	if (record->rss_bytes != PROFILE_ABSENT && record->rss_bytes > proc->rss_peak_bytes)
		proc->rss_peak_bytes = record->rss_bytes;
	if (capture_usage(a, proc->merged, record))
		return -ENOMEM;
	saw_time(a, record->time_ns);
	return add_point(proc, record);
}

/* Bytes; no address space has more. */
#define MEMORY_SUM_MAX (1ULL << 48)

static int handle_memory_sum(struct aggregate *a, const struct event *event)
{
	const struct perfx_memory_sum *record = &event->memory_sum;
	struct process *proc = process_get(a, record->process);
	struct profile_memory_sums *sums;
	struct perfx_memory_sum *point;

	if (!proc)
		return rejected(a);
	for (int i = 0; i < PERFX_MEMORY_PARTS; i++)
		if (record->resident[i] > MEMORY_SUM_MAX ||
		    record->proportional[i] > MEMORY_SUM_MAX)
			return undecoded(a);
	sums = &proc->memory_sums;
	if (!sums->points_count)
		sums->first = sums->peak = *record;
	if (memory_sum_resident(record) > memory_sum_resident(&sums->peak))
		sums->peak = *record;
	sums->last = *record;
	saw_time(a, record->time_ns);
	point = thinned_point(&proc->memory_sums_thinning, &sums->points, &sums->points_count,
			      sizeof(*point), PROFILE_MEMORY_SUMS_MAX);
	if (point)
		*point = *record;
	return point ? 0 : -errno;
}

static int handle_limits(struct aggregate *a, const struct event *event)
{
	const struct perfx_limits *record = &event->limits;
	struct process *proc = process_get(a, record->process);
	struct profile_limits_point *point;
	struct perfx_limits before;

	if (!proc)
		return rejected(a);
	if (!proc->has_limits || record->time_ns >= proc->limits.time_ns) {
		before = proc->limits;
		proc->limits = *record;
		if (proc->has_limits && record->mappings_count == PROFILE_ABSENT)
			proc->limits.mappings_count = before.mappings_count;
	}
	proc->has_limits = true;
	point = thinned_point(&proc->limits_points_thinning, &proc->limits_points,
			      &proc->limits_points_count, sizeof(*point), PROFILE_POINTS_MAX);
	if (!point)
		return -errno;
	*point = (struct profile_limits_point){record->time_ns, record->shm_used_bytes,
					       record->descriptors_count};
	return 0;
}

int64_t process_thread(struct process *proc, uint32_t tid)
{
	uint32_t at = (uint32_t)proc->last_thread;
	struct thread *thread;

	if (at < proc->threads_count && proc->threads[at].tid == tid)
		return at;
	at = map64_get(&proc->thread_ids, tid);
	if (at != MAP64_NONE) {
		proc->last_thread = at;
		return at;
	}
	if (proc->threads_count == AGGREGATE_THREADS_MAX)
		return AGGREGATE_THREADS_MAX;
	thread = MAP64_ITEM(proc->thread_ids, tid, proc->threads);
	if (!thread)
		return -ENOMEM;
	thread->tid = tid;
	proc->last_thread = proc->threads_count - 1;
	return (int64_t)proc->last_thread;
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
	if (at < AGGREGATE_THREADS_MAX)
		proc->threads[at].hits_count += hits;
	return 0;
}

static int handle_thread(struct aggregate *a, const struct event *event)
{
	const struct perfx_thread *record = &event->thread;
	struct process *proc = process_get(a, record->process);
	struct thread *thread;
	int64_t at;

	if (!proc)
		return rejected(a);
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
	if (record->start_ns)
		thread->start_ns = record->start_ns;
	thread->last =
		(struct thread_sample){record->time_ns, record->on_cpu_ns, record->runnable_ns};
	if (thread->samples_count++ == 0)
		thread->first = thread->last;
	saw_time(a, record->time_ns);
	return 0;
}

bool process_is_bygone(const struct aggregate *a, const struct process *proc)
{
	const struct profile_interval *windows;
	size_t count;

	if (!proc->closed)
		return false;
	/* the program had not said that it is to be recorded */
	windows = capture_windows(a, &count);
	if (count && proc->to_ns < windows[0].from_ns)
		return true;
	return capture_host(a) && proc->to_ns < capture_start_ns(a, proc->merged) &&
	       !proc->has_rows;
}

/*
 * What a process used while it was open: the difference of two samples. A counter's value at
 * the beginning is 0 for a process forked while tracing, and what the process before had last for
 * one that called exec.
 */

static const struct perfx_usage nothing_used;

static uint64_t difference(uint64_t from, uint64_t to)
{
	if (from == PROFILE_ABSENT || to == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	return sub_capped(to, from);
}

static bool recorded_in_windows(const struct aggregate *a)
{
	size_t count;

	capture_windows(a, &count);
	return count > 0;
}

/* It began before the capture did: how does not matter then. */
static bool began_before(const struct aggregate *a, const struct process *proc)
{
	return capture_host(a) && proc->from_ns < capture_start_ns(a, proc->merged);
}

/* Did the process start during the capture, with its counters at 0? It was forked, or found (-a)
 * with a later start than the recording's. */
static bool began_here(const struct aggregate *a, const struct process *proc)
{
	if (began_before(a, proc))
		return false;
	return proc->origin == PROCESS_FORKED ||
	       (proc->origin == PROCESS_FOUND && capture_host(a) && !proc->merged &&
		proc->start_boot_ns > capture_host(a)->start_boot_ns);
}

/* NULL: nothing is known. */
static const struct perfx_usage *usage_at_start(const struct aggregate *a,
						const struct process *proc)
{
	const struct process *old;

	if (began_before(a, proc))
		return proc->has_usage ? &proc->first : NULL;
	if (began_here(a, proc))
		return &nothing_used;
	if (proc->origin == PROCESS_EXECUTED) {
		old = process_find(a, proc->old_process);
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
	    (recorded_in_windows(a) && exit->time_ns > capture_end_ns(a, proc->merged)))
		return false;
	total = exit->runtime_ns - before;
	user = ticks ? (uint64_t)((u128)exit->runtime_ns * exit->user_tick_ns / ticks)
		     : exit->runtime_ns;
	user = sub_capped(user, start->cpu_user_ns);
	user = min_u64(user, total);
	facts->cpu_ns = total;
	facts->cpu_user_ns = user;
	facts->cpu_system_ns = total - user;
	return true;
}

static void cpu_facts(const struct aggregate *a, const struct process *proc,
		      const struct perfx_usage *start, struct profile_process *facts)
{
	uint64_t from_ns;

	facts->cpu_user_ns = facts->cpu_system_ns = facts->cpu_ns = PROFILE_ABSENT;
	facts->cpu_wall_ns = PROFILE_ABSENT;
	if (!start || start->cpu_user_ns == PROFILE_ABSENT ||
	    start->cpu_system_ns == PROFILE_ABSENT)
		return;
	from_ns = max_u64(start->time_ns, proc->from_ns);
	facts->cpu_wall_ns = difference(from_ns, proc->exit.time_ns);
	if (cpu_from_exit(a, proc, start, facts) || !proc->has_usage)
		return;
	facts->cpu_wall_ns = difference(from_ns, proc->last.time_ns);
	facts->cpu_user_ns = difference(start->cpu_user_ns, proc->last.cpu_user_ns);
	facts->cpu_system_ns = difference(start->cpu_system_ns, proc->last.cpu_system_ns);
	if (facts->cpu_user_ns != PROFILE_ABSENT && facts->cpu_system_ns != PROFILE_ABSENT)
		facts->cpu_ns = add_capped(facts->cpu_user_ns, facts->cpu_system_ns);
}

static void usage_facts(const struct aggregate *a, const struct process *proc,
			struct profile_process *facts)
{
	struct perfx_usage absent;
	const struct perfx_usage *first, *last, *start = usage_at_start(a, proc);
	uint64_t mark = proc->last.rss_peak_bytes;

	memset(&absent, 0xff, sizeof(absent)); /* each field PROFILE_ABSENT */
	first = proc->has_usage ? &proc->first : &absent;
	last = proc->has_usage ? &proc->last : &absent;
	cpu_facts(a, proc, start, facts);
	start = start ? start : &absent;
	facts->rss_bytes = last->rss_bytes;
	facts->rss_peak_bytes = proc->rss_peak_bytes ?: PROFILE_ABSENT;
	/* The kernel's own high-water mark, where it was reached while the process was recorded:
	 * its program began meanwhile, or the mark rose. */
	if (mark != PROFILE_ABSENT && mark > proc->rss_peak_bytes &&
	    (began_here(a, proc) || proc->origin == PROCESS_EXECUTED ||
	     mark > proc->first.rss_peak_bytes))
		facts->rss_peak_bytes = mark;
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
	facts->memory_sums = proc->memory_sums.points_count ? &proc->memory_sums : NULL;
	facts->points = proc->points;
	facts->points_count = proc->points_count;
}

/* Finds the CPU times of a thread at the start of its recorded life; false: they are not known.
 * forked: the process began in the capture, so its threads did, too. */
static bool thread_start(const struct process *proc, bool forked, const struct thread *thread,
			 uint64_t middle_ns, struct thread_sample *from)
{
	*from = thread->first;
	if (thread->start_ns > proc->from_ns)
		*from = (struct thread_sample){.time_ns = thread->start_ns};
	else if (forked || (!thread->start_ns && thread->samples_count == 1 &&
			    thread->first.time_ns > middle_ns))
		/* without its start, when a thread began is known of the main one only */
		*from = (struct thread_sample){
			.time_ns = thread->tid == proc->pid ? proc->from_ns : PROFILE_ABSENT};
	else
		return thread->samples_count > 1;
	return true;
}

static void thread_facts(const struct process *proc, bool forked, const struct thread *thread,
			 uint64_t middle_ns, struct profile_thread *facts)
{
	struct thread_sample from;

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
	if (!thread_start(proc, forked, thread, middle_ns, &from))
		return;
	facts->wall_ns = difference(from.time_ns, thread->last.time_ns);
	facts->on_cpu_ns = difference(from.on_cpu_ns, thread->last.on_cpu_ns);
	facts->runnable_ns = difference(from.runnable_ns, thread->last.runnable_ns);
	if (facts->wall_ns != PROFILE_ABSENT && facts->on_cpu_ns != PROFILE_ABSENT &&
	    facts->runnable_ns != PROFILE_ABSENT)
		facts->blocked_ns = difference(add_capped(facts->on_cpu_ns, facts->runnable_ns),
					       facts->wall_ns);
}

/* PROFILE_ABSENT + 1 is 0: last. */
ORDER(by_cpu, struct profile_thread, DESCENDING(a->on_cpu_ns + 1, b->on_cpu_ns + 1),
      ASCENDING(a->tid, b->tid))

static int threads_facts(const struct aggregate *a, const struct process *proc,
			 struct profile_process *facts)
{
	bool here = began_here(a, proc);
	/* the first and the last time at which threads were sampled */
	uint64_t from_ns = UINT64_MAX, to_ns = 0, middle_ns;

	FOR_EACH (thread, proc->threads) {
		if (!thread->samples_count)
			continue;
		from_ns = min_u64(from_ns, thread->first.time_ns);
		to_ns = max_u64(to_ns, thread->last.time_ns);
	}
	if (from_ns > to_ns)
		return 0;
	middle_ns = from_ns + (to_ns - from_ns) / 2;
	facts->threads = calloc(proc->threads_count, sizeof(*facts->threads));
	if (!facts->threads)
		return -ENOMEM;
	FOR_EACH (thread, proc->threads)
		if (thread->samples_count)
			thread_facts(proc, here, thread, middle_ns,
				     &facts->threads[facts->threads_count++]);
	SORT_ITEMS(facts->threads, facts->threads_count, by_cpu);
	return 0;
}

static int handle_rank(struct aggregate *a, const struct event *event)
{
	struct process *proc = process_get(a, event->rank.process);

	if (!proc || !event->rank.world_size || event->rank.rank >= event->rank.world_size)
		return !proc && errno == ENOMEM ? -ENOMEM : undecoded(a);
	proc->rank = (struct profile_rank){.rank = event->rank.rank,
					   .world_size = event->rank.world_size,
					   .local_rank = event->rank.local_rank,
					   .source = intern(a, event->strings[0]),
					   .job = intern(a, event->strings[1])};
	return proc->rank.source && proc->rank.job ? 0 : -ENOMEM;
}

static int handle_place(struct aggregate *a, const struct event *event)
{
	struct process *proc = process_get(a, event->place.process);
	const char **part;

	if (!proc)
		return rejected(a);
	if (event->place.part == PERFX_PLACE_CGROUP)
		proc->place = (struct profile_place){0};
	if (!event->strings[0][0])
		return 0;
	part = &proc->place.of[event->place.part];
	*part = intern(a, event->strings[0]);
	return *part ? 0 : -ENOMEM;
}

static int process_fill(const struct aggregate *a, uint32_t process, struct profile_process *facts)
{
	const struct process *proc = a->processes->list[process];
	uint64_t start_ns = capture_start_ns(a, proc->merged),
		 end_ns = capture_end_ns(a, proc->merged);

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
		.from_ns = max_u64(proc->from_ns, start_ns),
		.to_ns = proc->closed ? proc->to_ns : end_ns,
		.exited = proc->exited,
		.launched = proc->launched,
		.sets_up = proc->sets_up,
		.status = proc->status,
		.unmatched_entries = proc->unmatched_entries,
		.samples_lost = proc->samples_lost,
		.python_version = proc->python_version,
		.python_why = proc->python_why,
		.rank = proc->rank,
		.place = proc->place,
		.merged = proc->merged,
		.collectives = proc->collectives.list,
		.collectives_count = proc->collectives.count,
		.stacks.gone_count = proc->gone_count,
	};
	/* it went on when nothing was recorded any more */
	if (recorded_in_windows(a) && facts->to_ns > end_ns)
		facts->to_ns = end_ns;
	facts->to_ns = max_u64(facts->to_ns, facts->from_ns);
	usage_facts(a, proc, facts);
	memset(&facts->limits, 0xff, sizeof(facts->limits)); /* all absent */
	facts->limits.cpus_count = 0;
	facts->limits.points = NULL;
	facts->limits.points_count = 0;
	if (proc->has_limits)
		facts->limits = (struct profile_limits){
			.cpus_count = proc->limits.cpus_count,
			.cpu_limit_milli = proc->limits.cpu_limit_milli,
			.memory_limit_bytes = proc->limits.memory_limit_bytes,
			.memory_used_bytes = proc->limits.memory_used_bytes,
			.address_limit_bytes = proc->limits.address_limit_bytes,
			.address_used_bytes = proc->limits.address_used_bytes,
			.host_available_bytes = proc->limits.host_available_bytes,
			.shm_limit_bytes = proc->limits.shm_limit_bytes,
			.shm_used_bytes = proc->limits.shm_used_bytes,
			.descriptors_limit = proc->limits.descriptors_limit,
			.descriptors_count = proc->limits.descriptors_count,
			.mappings_limit = proc->limits.mappings_limit,
			.mappings_count = proc->limits.mappings_count,
			.points = proc->limits_points,
			.points_count = proc->limits_points_count,
		};
	return threads_facts(a, proc, facts);
}

uint64_t profile_others_cpu_ns(const struct profile *profile)
{
	uint64_t ours = profile->tracer_cpu_ns == PROFILE_ABSENT ? 0 : profile->tracer_cpu_ns;

	if (profile->recording_cpu_ns) /* the host is measured while recording alone */
		ours = profile->recording_cpu_ns;
	if (profile->host_busy_ns == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	FOR_EACH (process, profile->processes)
		if (process->cpu_ns != PROFILE_ABSENT)
			add_up(&ours, process->cpu_ns);
	return sub_capped(profile->host_busy_ns, ours);
}

static int handle_python(struct aggregate *a, const struct event *event)
{
	struct process *proc = process_get(a, event->python.process);

	if (!proc)
		return rejected(a);
	proc->python_version = intern(a, event->strings[0]);
	proc->python_why = intern(a, event->strings[1]);
	proc->python_frames = event->python.flags & PERFX_PYTHON_FRAMES;
	return proc->python_version && proc->python_why ? 0 : -ENOMEM;
}

static int handle_process_counters(struct aggregate *a, const struct event *event)
{
	const struct perfx_process_counters *record = &event->process_counters;
	struct process *proc = process_get(a, record->process);
	struct profile_process_counters *to;

	if (!proc)
		return rejected(a);
	to = &proc->perf;
	to->threads_count = record->threads_count;
	add_up(&to->enabled_ns, record->enabled_ns);
	add_up(&to->running_ns, record->running_ns);
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		add_up(&to->values[i], record->values[i]);
	return 0;
}

static int handle_loss(struct aggregate *a, const struct event *event)
{
	const struct perfx_loss *record = &event->loss;
	struct process *proc;
	int err = capture_lose(a, record);

	if (err || record->process == 0)
		return err;
	proc = process_get(a, record->process);
	if (!proc)
		return rejected(a);
	if (record->loss == PERFX_LOSS_UNMATCHED_ENTRIES)
		add_up(&proc->unmatched_entries, record->count);
	if (record->loss == PERFX_LOSS_SAMPLE_DROPS)
		add_up(&proc->samples_lost, record->count);
	return 0;
}

bool process_goes_on(void *ctx, uint32_t process)
{
	const struct process *proc = process_find(ctx, process);

	return proc && proc->origin != PROCESS_UNKNOWN && !proc->closed;
}

static int processes_take_over(struct aggregate *a, struct aggregate *before, uint64_t from_ns)
{
	(void)from_ns;
	for (uint32_t i = 0; i < before->processes->count; i++) {
		const struct process *from = before->processes->list[i];

		if (!from || !process_goes_on(a, i))
			continue;
		a->processes->list[i]->has_rows = from->has_rows;
		a->processes->list[i]->has_steps = from->has_steps;
	}
	return 0;
}

ORDER(by_start, struct profile_process, ASCENDING(a->from_ns, b->from_ns),
      ASCENDING(a->index, b->index))

static bool is_shown(const struct aggregate *a, uint32_t process)
{
	return a->processes->list[process] &&
	       a->processes->list[process]->origin != PROCESS_UNKNOWN &&
	       !process_is_bygone(a, a->processes->list[process]);
}

static int fill_processes(struct finish_ctx *w)
{
	const struct aggregate *a = w->a;
	struct profile *p = w->profile;
	size_t shown_count = 0; /* far fewer than indices, where these are used again */
	int err = 0;

	for (uint32_t i = 0; i < a->processes->count; i++)
		shown_count += is_shown(a, i);
	p->processes = calloc(shown_count + 1, sizeof(*p->processes));
	w->places = malloc((a->processes->count + 1) * sizeof(*w->places));
	if (!p->processes || !w->places)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->processes->count && !err; i++) {
		struct profile_process *process = &p->processes[p->processes_count];

		w->places[i] = MAP64_NONE;
		if (!is_shown(a, i))
			continue;
		err = process_fill(a, i, process);
		p->processes_count++;
	}
	if (err)
		return err;
	SORT_ITEMS(p->processes, p->processes_count, by_start);
	for (uint32_t i = 0; i < p->processes_count; i++)
		w->places[p->processes[i].index] = i;
	profile_find_ancestors(p);
	return 0;
}

static void processes_clear(void *state)
{
	struct processes *processes = state;

	for (size_t i = 0; i < processes->count; i++) {
		struct process *proc = processes->list[i];

		if (!proc)
			continue;
		map64_clear(&proc->thread_ids);
		map64_clear(&proc->frame_ids);
		free(proc->threads);
		free(proc->points);
		free(proc->memory_sums.points);
		free(proc->limits_points);
		free(proc->collectives.list);
		free(proc);
	}
	free(processes->list);
}

const struct part part_process = {
	PART_STATE(processes),
	.add = {TAKES(PROCESS, process), TAKES(FORK, fork), TAKES(EXEC, exec), TAKES(EXIT, exit),
		TAKES(USAGE, usage), TAKES(LIMITS, limits), TAKES(MEMORY_SUM, memory_sum),
		TAKES(THREAD, thread), TAKES(RANK, rank), TAKES(PLACE, place),
		TAKES(PYTHON, python), TAKES(PROCESS_COUNTERS, process_counters),
		TAKES(LOSS, loss)},
	.take_over = processes_take_over,
	.finish = fill_processes,
	.clear = processes_clear,
};
