// SPDX-License-Identifier: BSD-2-Clause
#include "session/process_table.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/text.h"
#include "decode/pack.h"
#include "proc/cgroup.h"
#include "proc/limits.h"
#include "proc/place.h"
#include "proc/process.h"
#include "session/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
	uint32_t process, exec_count;
	uint32_t born; /* its first process index */
	pid_t pid, ppid;
	uint64_t start_boot_ns;
	char comm[64];
	unsigned rank_reads; /* attempts to read its rank */
	uint64_t environ_at; /* rank_of_process */
	bool ranked;
	unsigned samples_count; /* of its program */
	struct place place;
	struct growth_watch growth;
};

struct process_table {
	struct tracer *tracer;
	struct sink *sink;
	bool full_cmdline;
	pid_t launched; /* the program that the tracer has started; 0: none */
	bool held;	/* no process is sampled */
	struct process *running;
	pid_t *pids; /* of running, same order */
	size_t count, capacity, pids_capacity;
	struct pack_buffer buffer;
	struct host_cpu host; /* while all are sampled; else not measured */
};

struct process_table *process_table__new(struct tracer *tracer, struct sink *sink,
					 bool full_cmdline, pid_t launched)
{
	struct process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->tracer = tracer;
	table->sink = sink;
	table->full_cmdline = full_cmdline;
	table->launched = launched;
	return table;
}

void process_table__hold(struct process_table *table, bool held)
{
	table->held = held;
}

void process_table__free(struct process_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->count; i++)
		place_clear(&table->running[i].place);
	free(table->running);
	free(table->pids);
	free(table);
}

enum growth process_table__growth(struct process_table *table, uint64_t now_ns)
{
	enum growth growth = GROWTH_NONE;

	for (size_t i = 0; i < table->count && i < GROWTH_PROCESSES_MAX; i++) {
		struct growth_watch *watch = &table->running[i].growth;
		uint64_t bytes = process_anon_bytes(table->pids[i]);

		if (bytes != UINT64_MAX)
			growth_add(watch, now_ns, bytes);
		if (watch->growth > growth)
			growth = watch->growth;
	}
	return growth;
}

const pid_t *process_table__pids(const struct process_table *table, size_t *count)
{
	*count = table->count;
	return table->pids;
}

bool process_table__all_ended(const struct process_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		if (!process_has_ended(table->pids[i]))
			return false;
	return true;
}

static struct process *find_pid(const struct process_table *table, pid_t pid)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->pids[i] == pid)
			return &table->running[i];
	return NULL;
}

static struct process *process_of(const struct process_table *table, uint32_t process)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->running[i].process == process)
			return &table->running[i];
	return NULL;
}

/* The times since the last snapshot; the new ones replace them. */
static struct cpu_times times_since(const struct busy_snapshot *last, struct busy_snapshot *now,
				    pid_t pid, pid_t tid, struct cpu_times times)
{
	const struct busy_thread *thread = last->list, *end = last->list + last->count;

	if (now->count < BUSY_THREADS_MAX)
		now->list[now->count++] = (struct busy_thread){pid, tid, times};
	while (thread < end && (thread->pid != pid || thread->tid != tid))
		thread++;
	if (thread == end || times.on_cpu_ns < thread->times.on_cpu_ns)
		return (struct cpu_times){0};
	return (struct cpu_times){times.on_cpu_ns - thread->times.on_cpu_ns,
				  times.runnable_ns - thread->times.runnable_ns};
}

/* Reads the process as a whole if it has too many threads, or the kernel keeps no times of them. */
static uint64_t process_busy_ns(const struct busy_snapshot *last, struct busy_snapshot *now,
				pid_t pid, uint64_t elapsed_ns)
{
	struct cpu_times times, since, busiest = {0};
	uint64_t sum_ns = 0, most_ns;
	pid_t *tids;
	ssize_t count = process_threads(pid, &tids);
	bool is_known = false;

	for (ssize_t i = 0; count <= (ssize_t)(BUSY_THREADS_MAX - now->count) && i < count; i++) {
		if (!thread_cpu_times(pid, tids[i], &times))
			continue;
		since = times_since(last, now, pid, tids[i], times);
		sum_ns += since.on_cpu_ns;
		busiest = since.on_cpu_ns > busiest.on_cpu_ns ? since : busiest;
		is_known = true;
	}
	if (count >= 0)
		free(tids);
	if (!is_known) {
		times = (struct cpu_times){.on_cpu_ns = process_cpu_ns(pid)};
		if (times.on_cpu_ns != UINT64_MAX)
			sum_ns = times_since(last, now, pid, 0, times).on_cpu_ns;
	}
	most_ns = elapsed_ns > busiest.runnable_ns ? elapsed_ns - busiest.runnable_ns : 0;
	most_ns = most_ns > busiest.on_cpu_ns ? most_ns : busiest.on_cpu_ns;
	return sum_ns < most_ns ? sum_ns : most_ns;
}

uint64_t process_table__busy_ns(const struct process_table *table, struct busy_snapshot *last,
				uint64_t elapsed_ns)
{
	struct busy_snapshot now;
	uint64_t busy_ns = 0;

	now.count = 0;
	for (size_t i = 0; i < table->count && now.count < BUSY_THREADS_MAX; i++)
		busy_ns += process_busy_ns(last, &now, table->pids[i], elapsed_ns);
	*last = now;
	return busy_ns;
}

pid_t process_table__pid(const struct process_table *table, uint32_t process)
{
	const struct process *proc = process_of(table, process);

	return proc ? proc->pid : 0;
}

uint32_t process_table__process(const struct process_table *table, pid_t pid)
{
	const struct process *proc = find_pid(table, pid);

	return proc ? proc->process : 0;
}

uint32_t process_table__born(const struct process_table *table, pid_t pid)
{
	const struct process *proc = find_pid(table, pid);

	return proc ? proc->born : 0;
}

bool process_table__has(const struct process_table *table, pid_t pid)
{
	return find_pid(table, pid) != NULL;
}

static void describe_place(struct process_table *table, struct process *proc)
{
	struct place *place = &proc->place;
	bool has_names = false;

	place_clear(place);
	if (place_read_cgroup(proc->pid, place))
		return;
	/* files of the host are read once for a container */
	if (place->of[PERFX_PLACE_CONTAINER_ID] || place->of[PERFX_PLACE_POD_UID]) {
		for (size_t i = 0; i < table->count && !has_names; i++)
			has_names = &table->running[i] != proc &&
				    place_add_names_of(place, &table->running[i].place);
		if (!has_names)
			place_add_names(place);
	}
	place_read_claims(proc->pid, place);
	for (unsigned part = 1; part < PERFX_PLACES; part++) {
		struct perfx_place record = {.process = proc->process, .part = (uint8_t)part};
		const char *name = place->of[part];

		if (name)
			SINK_PACK(table->sink, &table->buffer, PERFX_KIND_PLACE, record, name);
	}
}

static void describe(struct process_table *table, struct process *proc, uint64_t time_ns)
{
	struct perfx_process record = {
		.time_ns = time_ns,
		.start_boot_ns = proc->start_boot_ns,
		.process = proc->process,
		.pid = (uint32_t)proc->pid,
		.ppid = (uint32_t)proc->ppid,
		.exec_count = proc->exec_count,
		.flags = proc->pid == table->launched ? PERFX_PROCESS_LAUNCHED : 0,
	};
	char *cmdline = process_command(proc->pid, "\x1f", table->full_cmdline);
	SINK_PACK(table->sink, &table->buffer, PERFX_KIND_PROCESS, record, proc->comm,
		  cmdline ? cmdline : "");
	free(cmdline);
	describe_place(table, proc);
}

/* Adds a process and describes it. Its pid may have an entry still, of a former owner whose exit
 * record was lost. Of info: ppid, comm and start_ns. 0 or -ENOMEM. */
static int add(struct process_table *table, uint32_t process, pid_t pid,
	       const struct process_info *info, uint64_t time_ns)
{
	struct process *proc = find_pid(table, pid);

	if (!proc) {
		if (grow_array(&table->running, &table->capacity, table->count + 1,
			       sizeof(*table->running)) ||
		    grow_array(&table->pids, &table->pids_capacity, table->count + 1,
			       sizeof(*table->pids)))
			return -ENOMEM;
		proc = &table->running[table->count];
		*proc = (struct process){.pid = pid};
		table->pids[table->count++] = pid;
	}
	proc->process = proc->born = process;
	proc->ppid = info->ppid;
	proc->exec_count = 0;
	memcpy(proc->comm, info->comm, sizeof(proc->comm));
	proc->start_boot_ns = info->start_ns;
	describe(table, proc, time_ns);
	return 0;
}

/* Sends a USAGE record. Bytes over sockets are absent where the kernel cannot count them. */
static void send_usage(struct process_table *table, struct perfx_usage *record, uint64_t rx_bytes,
		       uint64_t tx_bytes)
{
	bool counted = tracer__counts_sockets(table->tracer);

	record->net_rx_bytes = counted ? rx_bytes : UINT64_MAX;
	record->net_tx_bytes = counted ? tx_bytes : UINT64_MAX;
	SINK_PACK(table->sink, &table->buffer, PERFX_KIND_USAGE, *record);
}

/* Reads /proc, and the bytes that the process moved over sockets. its_memory false: the memory
 * belongs to another program already. */
static void emit_usage(struct process_table *table, const struct process *proc, uint64_t rx_bytes,
		       uint64_t tx_bytes, bool its_memory)
{
	struct cgroup_throttle throttle = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct process_usage usage, memory;
	struct perfx_usage record;

	if (table->held || process_usage(proc->pid, &usage))
		return;
	process_throttle(proc->pid, &throttle);
	memory = usage;
	if (!its_memory)
		memset(&memory, 0xff, sizeof(memory)); /* all absent */
	record = (struct perfx_usage){.time_ns = clock_monotonic_ns(),
				      .process = proc->process,
				      .threads_count = usage.threads_count,
				      .cpu_user_ns = usage.cpu_user_ns,
				      .cpu_system_ns = usage.cpu_system_ns,
				      .read_bytes = usage.read_bytes,
				      .write_bytes = usage.write_bytes,
				      .major_faults_count = usage.major_faults,
				      .rss_bytes = memory.rss_bytes,
				      .rss_anon_bytes = memory.rss_anon_bytes,
				      .rss_file_bytes = memory.rss_file_bytes,
				      .rss_shmem_bytes = memory.rss_shmem_bytes,
				      .rss_peak_bytes = memory.rss_peak_bytes,
				      .throttle_periods_count = throttle.periods_count,
				      .throttled_count = throttle.throttled_count,
				      .throttled_ns = throttle.throttled_ns,
				      .host_busy_ns = table->host.busy_ns,
				      .host_steal_ns = table->host.steal_ns};
	send_usage(table, &record, rx_bytes, tx_bytes);
}

/* A program may learn of its rank when it has run for a while: at the samples 1, 2, 4, … */
#define RANK_READS_MAX 64

static void sample_threads(struct process_table *table, const struct process *proc)
{
	pid_t *tids;
	ssize_t count = process_threads(proc->pid, &tids);

	for (ssize_t i = 0; i < count; i++) {
		struct perfx_thread record = {.process = proc->process, .tid = (uint32_t)tids[i]};
		struct thread_usage usage;

		if (thread_usage(proc->pid, tids[i], &usage))
			continue;
		record.time_ns = clock_monotonic_ns();
		record.on_cpu_ns = usage.on_cpu_ns;
		record.runnable_ns = usage.runnable_ns;
		record.state = (uint8_t)usage.state;
		record.start_ns = clock_boot_to_monotonic(ticks_to_ns(usage.start_ticks));
		SINK_PACK(table->sink, &table->buffer, PERFX_KIND_THREAD, record, usage.comm);
	}
	if (count >= 0)
		free(tids);
}

static void emit_limits(struct process_table *table, const struct process *proc, bool whole)
{
	struct process_limits limits = process_limits(proc->pid, whole);
	struct perfx_limits record = {.time_ns = clock_monotonic_ns(),
				      .process = proc->process,
				      .cpus_count = limits.cpus_count,
				      .cpu_limit_milli = limits.cpu_limit_milli,
				      .memory_limit_bytes = limits.memory_limit_bytes,
				      .memory_used_bytes = limits.memory_used_bytes,
				      .address_limit_bytes = limits.address_limit_bytes,
				      .address_used_bytes = limits.address_used_bytes,
				      .host_available_bytes = limits.host_available_bytes,
				      .shm_limit_bytes = limits.shm_limit_bytes,
				      .shm_used_bytes = limits.shm_used_bytes,
				      .descriptors_limit = limits.descriptors_limit,
				      .descriptors_count = limits.descriptors_count,
				      .mappings_limit = limits.mappings_limit,
				      .mappings_count = limits.mappings_count};

	SINK_PACK(table->sink, &table->buffer, PERFX_KIND_LIMITS, record);
}

/* Limits change seldom, but a program may end at any time: every so many samples. */
#define LIMITS_SAMPLES 8

static void sample_process(struct process_table *table, struct process *proc, bool whole)
{
	struct perfx_rank record = {.process = proc->process};
	struct perfx_traced_process traced;
	unsigned reads = ++proc->rank_reads;
	struct rank rank;

	if (!proc->ranked && reads <= RANK_READS_MAX && !(reads & (reads - 1)) &&
	    rank_of_process(proc->pid, &proc->environ_at, &rank)) {
		proc->ranked = true;
		record.rank = rank.rank;
		record.world_size = rank.world_size;
		record.local_rank = rank.local_rank;
		SINK_PACK(table->sink, &table->buffer, PERFX_KIND_RANK, record, rank.source,
			  rank.job);
	}
	/* its pid may have a new owner already */
	if (tracer__traced_process(table->tracer, proc->pid, &traced) ||
	    traced.process != proc->process)
		traced.net_rx_bytes = traced.net_tx_bytes = UINT64_MAX;
	emit_usage(table, proc, traced.net_rx_bytes, traced.net_tx_bytes, true);
	if (proc->samples_count++ % LIMITS_SAMPLES == 0 || whole)
		emit_limits(table, proc, whole);
	if (whole)
		sample_threads(table, proc);
}

void process_table__sample(struct process_table *table, bool whole)
{
	table->host = host_cpu_read();
	for (size_t i = 0; i < table->count && !table->held; i++)
		sample_process(table, &table->running[i], whole);
	table->host = (struct host_cpu){0};
}

int process_table__open(struct process_table *table, uint32_t process, pid_t pid)
{
	struct process_info info;

	return process_info(pid, &info) ?: add(table, process, pid, &info, clock_monotonic_ns());
}

void process_table__on_adopted(struct process_table *table, const struct perfx_process *adopted)
{
	const char *comm = (const char *)adopted + adopted->hdr.fixed;
	struct process_info info = {.ppid = (pid_t)adopted->ppid,
				    .start_ns = adopted->start_boot_ns};

	snprintf(info.comm, sizeof(info.comm), "%s", comm);
	add(table, adopted->process, (pid_t)adopted->pid, &info, adopted->time_ns);
}

void process_table__on_fork(struct process_table *table, const struct perfx_fork *fork)
{
	const struct process *parent = process_of(table, fork->parent_process);
	struct process_info info = {0};
	struct perfx_usage usage;

	/* a child that is gone already keeps its parent's name */
	if (parent)
		memcpy(info.comm, parent->comm, sizeof(info.comm));
	process_info((pid_t)fork->pid, &info);
	info.ppid = (pid_t)fork->ppid;
	info.start_ns = info.start_ns ?: clock_monotonic_to_boot(fork->time_ns);
	if (add(table, fork->process, (pid_t)fork->pid, &info, fork->time_ns) || table->held)
		return;
	/* a forked child begins with a usage of zero */
	memset(&usage, 0xff, sizeof(usage)); /* all absent */
	usage.time_ns = fork->time_ns;
	usage.process = fork->process;
	usage.cpu_user_ns = usage.cpu_system_ns = 0;
	usage.read_bytes = usage.write_bytes = 0;
	usage.major_faults_count = 0;
	send_usage(table, &usage, 0, 0);
}

void process_table__on_exec(struct process_table *table, const struct perfx_exec *exec)
{
	struct process *proc = process_of(table, exec->old_process);
	struct process_info info = {0};

	if (!proc)
		return;
	/* usage so far is the old process index's end and the new one's start */
	emit_usage(table, proc, exec->net_rx_bytes, exec->net_tx_bytes, false);
	/* it may have ended already */
	if (!process_info(proc->pid, &info))
		memcpy(proc->comm, info.comm, sizeof(proc->comm));
	else if (exec->comm[0])
		snprintf(proc->comm, sizeof(proc->comm), "%.*s", PERFX_COMM_BYTES, exec->comm);
	proc->process = exec->process;
	proc->exec_count++;
	proc->ranked = false;
	proc->environ_at = 0;
	proc->rank_reads = proc->samples_count = 0;
	describe(table, proc, exec->time_ns);
	if (!table->held)
		sample_process(table, proc, false);
}

static void emit_exit_usage(struct process_table *table, const struct perfx_exit *exit,
			    bool executed)
{
	uint64_t ticks = exit->user_tick_ns + exit->system_tick_ns;
	double system = ticks ? (double)exit->system_tick_ns / (double)ticks : 0;
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	struct perfx_usage record;

	memset(&record, 0xff, sizeof(record)); /* all absent */
	record.time_ns = exit->time_ns;
	record.process = exit->process;
	record.host_busy_ns = record.host_steal_ns = 0;
	/* user and system time in the proportion of the ticks (kernel: cputime_adjust) */
	record.cpu_system_ns = (uint64_t)(system * (double)exit->runtime_ns);
	record.cpu_user_ns = exit->runtime_ns - record.cpu_system_ns;
	if (exit->flags & PERFX_EXIT_MEMORY) {
		record.rss_anon_bytes = exit->anon_pages * page_bytes;
		record.rss_file_bytes = exit->file_pages * page_bytes;
		record.rss_shmem_bytes = exit->shmem_pages * page_bytes;
		record.rss_bytes =
			record.rss_anon_bytes + record.rss_file_bytes + record.rss_shmem_bytes;
	}
	/* the peak may belong to a program that the process executed before */
	record.rss_peak_bytes =
		exit->flags & PERFX_EXIT_MEMORY || !executed ? exit->peak_pages * page_bytes : 0;
	record.read_bytes = exit->read_bytes;
	record.write_bytes = exit->write_bytes;
	record.major_faults_count = exit->major_faults_count;
	send_usage(table, &record, exit->net_rx_bytes, exit->net_tx_bytes);
}

uint32_t process_table__on_exit(struct process_table *table, const struct perfx_exit *exit)
{
	struct process *proc = process_of(table, exit->process);
	uint32_t born = proc ? proc->born : 0;

	/* not of one whose record was lost */
	if (!table->held && exit->flags & PERFX_EXIT_USAGE)
		emit_exit_usage(table, exit, proc && proc->exec_count);
	if (proc) {
		place_clear(&proc->place);
		table->count--;
		table->pids[proc - table->running] = table->pids[table->count];
		*proc = table->running[table->count];
	}
	return born;
}

static int open_processes(struct recording *recording)
{
	const struct recorder_options *options = recording->options;

	recording->processes =
		process_table__new(recording->tracer, recording->sink, options->full_cmdline,
				   options->launch ? recording->main_pid : 0);
	return recording->processes ? 0 : -ENOMEM;
}

static void sample(struct recording *recording, enum usage_sample what)
{
	if (what != USAGE_OF_GPUS)
		process_table__sample(recording->processes, what == USAGE_WHOLE);
}

VERB(close_processes, process_table__free(recording->processes))

const struct recording_part processes_part = {
	.name = "processes", .open = open_processes, .sample = sample, .close = close_processes};
