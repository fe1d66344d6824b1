// SPDX-License-Identifier: BSD-2-Clause
#include "proc/process.h"

#include "proc/proc.h"
#include "proc/process_stat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t keyed_kilobytes(const char *text, const char *key)
{
	uint64_t number = keyed_number(text, key);

	return number == UINT64_MAX ? number : 1024 * number;
}

static void read_status(pid_t pid, struct process_usage *usage)
{
	char *text;

	if (proc_read_pid(process_task(pid), "status", &text, 0) < 0)
		return;
	usage->rss_bytes = keyed_kilobytes(text, "VmRSS:");
	usage->rss_anon_bytes = keyed_kilobytes(text, "RssAnon:");
	usage->rss_file_bytes = keyed_kilobytes(text, "RssFile:");
	usage->rss_shmem_bytes = keyed_kilobytes(text, "RssShmem:");
	usage->threads_count = keyed_number(text, "Threads:");
	usage->voluntary_switches = keyed_number(text, "voluntary_ctxt_switches:");
	usage->involuntary_switches = keyed_number(text, "nonvoluntary_ctxt_switches:");
	free(text);
}

static void read_io(pid_t pid, struct process_usage *usage)
{
	char *text;

	if (proc_read_pid(pid, "io", &text, 0) < 0)
		return;
	usage->read_bytes = keyed_number(text, "read_bytes:");
	usage->write_bytes = keyed_number(text, "write_bytes:");
	free(text);
}

int process_usage(pid_t pid, struct process_usage *usage)
{
	struct process_stat stat;
	int err = process_stat_read(pid, &stat);

	if (err)
		return err;
	memset(usage, 0xff, sizeof(*usage)); /* UINT64_MAX: not measured */
	usage->cpu_user_ns = ticks_to_ns(stat.user_ticks);
	usage->cpu_system_ns = ticks_to_ns(stat.system_ticks);
	usage->minor_faults = stat.minor_faults;
	usage->major_faults = stat.major_faults;
	read_status(pid, usage);
	read_io(pid, usage);
	return 0;
}

/* "on-cpu-ns runnable-ns slices"; a kernel that does not keep them says "0 0 0", and so does a
 * thread that has never run: which of them it is, the ticks tell. */
static void parse_schedstat(const char *text, bool has_run, struct thread_usage *usage)
{
	unsigned long long on_cpu, runnable, slices;

	if (sscanf(text, "%llu %llu %llu", &on_cpu, &runnable, &slices) != 3 ||
	    (!on_cpu && !slices && has_run))
		return;
	usage->on_cpu_ns = on_cpu;
	usage->runnable_ns = runnable;
}

int thread_usage(pid_t pid, pid_t tid, struct thread_usage *usage)
{
	struct process_stat stat;
	char name[64], *text;
	ssize_t size;
	int err;

	snprintf(name, sizeof(name), "task/%d/stat", (int)tid);
	size = proc_read_pid(pid, name, &text, 0);
	if (size < 0)
		return (int)size;
	err = process_stat_parse(text, &stat);
	free(text);
	if (err)
		return err;
	*usage = (struct thread_usage){.tid = tid,
				       .state = stat.state,
				       .on_cpu_ns = UINT64_MAX,
				       .runnable_ns = UINT64_MAX};
	memcpy(usage->comm, stat.comm, sizeof(usage->comm));
	snprintf(name, sizeof(name), "task/%d/schedstat", (int)tid);
	if (proc_read_pid(pid, name, &text, 0) < 0)
		return 0;
	parse_schedstat(text, stat.user_ticks + stat.system_ticks > 0, usage);
	free(text);
	return 0;
}
