// SPDX-License-Identifier: BSD-2-Clause
/* This machine: perfx-trace doctor (its features, each tried) and perfx-trace peaks (its peak
 * performance). */
#include "attach/features.h"
#include "base/message.h"
#include "cmd/cmd.h"
#include "counters/counters.h"
#include "decode/names.h"
#include "gpu/cupti_check.h"
#include "gpu/gpu_thread.h"
#include "peaks/peaks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum check_flags {
	USEFUL = 0,
	NEEDED = 1, /* tracing does not work without it */
	TRIED = 2,  /* by loading a program, which takes privilege */
	UNUSED = 4, /* this machine has no device that it is for */
};

struct check {
	const char *what;
	bool ok;
	unsigned flags;
	const char *otherwise;
};

/* Are measured peaks stored, or can they be? */
static bool peaks_are_kept(void)
{
	char *path = peaks_path(), *slash;
	bool kept = path && !access(path, R_OK);

	/* the folder, or the nearest that there is */
	while (path && !kept && (slash = strrchr(path, '/')) && slash != path) {
		*slash = '\0';
		if (!access(path, F_OK)) {
			kept = !access(path, W_OK);
			break;
		}
	}
	free(path);
	return kept;
}

/* A driver without persistence mode begins with each GPU anew. */
#define DRIVER_NS 20000000000u

/* Asks NVIDIA's driver for its version and its GPUs; otherwise why it gives none. */
static enum gpu_thread_state ask_driver(char *what, char *why, size_t size)
{
	const struct gpu_thread_options options = {0};
	struct gpu_thread *thread = gpu_thread__new(&options);
	enum gpu_thread_state state =
		thread ? gpu_thread__wait(thread, DRIVER_NS) : GPU_THREAD_FAILED;

	snprintf(what, size, "samples of NVIDIA GPUs (NVML)");
	if (state == GPU_THREAD_IDLE)
		snprintf(what, size, "samples of NVIDIA GPUs (NVML): driver %s, %u GPU%s",
			 gpu_thread__driver(thread), gpu_thread__devices_count(thread),
			 gpu_thread__devices_count(thread) == 1 ? "" : "s");
	else if (state == GPU_THREAD_OPENING)
		snprintf(why, size, "the driver has given no answer for 20 s: see dmesg");
	else
		snprintf(why, size, "%s", thread ? gpu_thread__why(thread) : strerror(errno));
	gpu_thread__free(thread);
	return state;
}

/* A feature that could not be tried is not called missing. */
static const char *state_of(const struct check *check, bool privileged)
{
	if ((check->flags & TRIED) && !privileged)
		return "?";
	if (check->ok)
		return "ok";
	return check->flags & NEEDED ? "MISSING" : check->flags & UNUSED ? "-" : "missing";
}

int cmd_doctor(const struct options *options)
{
	struct features f;
	struct utsname names;
	struct counters_cpu cpu;
	struct counters counters;
	int missing = 0;
	char no_counters[256], gpus[256], no_gpus[256], cupti[512], no_cupti[512], no_ptrace[64],
		profilers[512];

	features_try(&f);
	features_end(&f);
	counters_cpu_read(&cpu);
	counters_of_hardware(&cpu, &counters);
	counters_try(&cpu, &counters, no_counters, sizeof(no_counters));
	enum gpu_thread_state driver = ask_driver(gpus, no_gpus, sizeof(gpus));
	bool no_driver = driver == GPU_THREAD_NOTHING;
	bool ptrace_allowed = ptrace_check(no_ptrace, sizeof(no_ptrace));
	bool no_profilers = profilers_check(profilers, sizeof(profilers));
	enum cupti_state cupti_state = cupti_check(cupti, no_cupti, sizeof(cupti));
	bool cupti_unused =
		cupti_state == CUPTI_NO_GPU || (cupti_state == CUPTI_ABSENT && no_driver);
	uname(&names);
	printf("        perfx-trace " PERFX_VERSION ", Linux %s %s\n", names.release,
	       names.machine);

	const struct check checks[] = {
		{"privilege to load BPF programs", f.privileged, NEEDED,
		 "run with sudo, or grant CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE for "
		 "processes of other users)"},
		{"kernel types (BTF)", f.btf, NEEDED,
		 "needs a kernel with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)"},
		{"BPF ring buffer", f.ring_buffer, NEEDED | TRIED, "needs Linux 5.8 or later"},
		{"BPF cookies", f.cookies, NEEDED | TRIED, "needs Linux 5.15 or later"},
		{"uprobes by perf event", f.uprobe_perf, f.uprobe_multi ? USEFUL : NEEDED,
		 "needs a kernel with CONFIG_UPROBE_EVENTS"},
		{"perf events of many uprobes (tracefs)", f.uprobe_events, TRIED,
		 "tracefs cannot be written here; without it and uprobe_multi, each probe is a "
		 "link of its own, 512 at most, and removing them takes up to a minute"},
		{"uprobe_multi links", f.uprobe_multi, TRIED,
		 "needs Linux 6.6; without it, many probes share a perf event"},
		{"uprobe_multi links by process", f.multi_pid, TRIED,
		 "needs Linux 6.10; without it, other processes that map the same file are slowed "
		 "down, too"},
		{"uprobe session links", f.uprobe_session, TRIED,
		 "needs Linux 6.13; without it, functions timed by return probe take two links"},
		{"optimized 5-byte nop", f.optimized_nop5, USEFUL,
		 "needs Linux 6.18; without it, a hit of a USDT probe costs a trap"},
		{"optimized 5-byte nop in forked children",
		 !f.optimized_nop5 || f.nop5_survives_fork, TRIED,
		 "bug in this kernel: forked children of traced programs can crash; perfx-trace "
		 "probes another instruction, at the cost of a trap, but USDT probes of other "
		 "tools are affected"},
		{"network I/O", f.socket_lengths, TRIED,
		 "needs Linux 6.3; without it, reports have no bytes sent and received"},
		{"time off the CPU", f.switches, TRIED,
		 "this kernel refuses programs at sched_switch; without them, reports do not say "
		 "what threads wait for"},
		{"host process ids", pids_are_the_hosts(), NEEDED,
		 "in a container: start it with --pid=host"},
		{"notification of new mappings (perf events)",
		 !access("/proc/sys/kernel/perf_event_paranoid", R_OK), USEFUL,
		 "needs a kernel with CONFIG_PERF_EVENTS; without it, libraries loaded late are "
		 "found a second later"},
		{"hardware counters (cycles, instructions, operations, cache misses)",
		 !*no_counters, TRIED, no_counters},
		{"samples of threads that run (perf events by the CPU's clock)", f.cpu_clock, TRIED,
		 "needs a kernel with CONFIG_PERF_EVENTS, and perf_event_open(2) allowed; without "
		 "it, reports have no CPU time by line"},
		{"samples of threads that wait", f.task_memory, TRIED,
		 "needs Linux 5.18; without it, reports do not say where threads wait"},
		{"time on run queues (schedstat)", !access("/proc/self/schedstat", R_OK), USEFUL,
		 "needs a kernel with CONFIG_SCHED_INFO; without it, threads show no runnable "
		 "time"},
		{"storage I/O (/proc/PID/io)", !access("/proc/self/io", R_OK), USEFUL,
		 "needs a kernel with CONFIG_TASK_IO_ACCOUNTING"},
		{"storage for measured peaks", peaks_are_kept(), USEFUL,
		 "/var/cache/perfx-trace (for users other than root: ~/.cache/perfx-trace) is not "
		 "writable: peaks are estimated for each recording"},
		{gpus, driver == GPU_THREAD_IDLE, no_driver ? UNUSED : USEFUL, no_gpus},
		{cupti, cupti_state == CUPTI_WORKS, cupti_unused ? UNUSED : USEFUL, no_cupti},
		{"free place for a profiler in CUPTI", no_profilers, USEFUL, profilers},
		{"ptrace, by which --gpu 1 enters a running program", ptrace_allowed, USEFUL,
		 no_ptrace},
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		const char *state = state_of(&checks[i], f.privileged);
		bool is_known = *state != '?', ok = checks[i].ok || !is_known;

		printf("%-8s%s%s%s\n", state, checks[i].what, ok ? "" : ": ",
		       ok ? "" : checks[i].otherwise);
		missing += is_known && !checks[i].ok && (checks[i].flags & NEEDED);
	}
	if (!f.privileged) {
		char *command = command_by_sudo(options);

		if (geteuid())
			printf("\nNot root: lines with ? were not tested; run: %s\n",
			       command ? command : "sudo perfx-trace doctor");
		else
			printf("\nRoot has no permission to load BPF programs here (%s): lines "
			       "with "
			       "? were not tested.\n",
			       strerror(f.load_error));
		free(command);
		return EXIT_PRIVILEGE;
	}
	if (!missing)
		return EXIT_OK;
	printf("\nTracing does not work here: %d required features are missing.\n", missing);
	return EXIT_FAILED;
}

static void print_rate(const char *what, const double rates[2], const char *unit)
{
	if (rates[PEAKS_ALL] > 0)
		printf("%-7s %10.1f %10.1f %s\n", what, rates[PEAKS_ONE] * 1e-9,
		       rates[PEAKS_ALL] * 1e-9, unit);
}

int cmd_peaks(const struct options *options)
{
	struct peaks peaks;
	char *path;
	int err = peaks_renew(&peaks, &path);
	char all[32];

	(void)options;
	if (err) {
		msg_say("cannot measure peaks: %s", strerror(-err));
		return EXIT_FAILED;
	}
	snprintf(all, sizeof(all), "%u thread%s", peaks.threads, peaks.threads == 1 ? "" : "s");
	printf("%-7s %10s %10s\n", "", "1 thread", all);
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		enum perfx_dtype dtype = peaks_dtypes[i];
		const double rates[2] = {peaks.flops[PEAKS_ONE][dtype],
					 peaks.flops[PEAKS_ALL][dtype]};

		print_rate(name_of_dtype(dtype), rates, "GFLOP/s");
	}
	print_rate("memory", peaks.bytes, "GB/s");
	if (!(peaks.bytes[PEAKS_ALL] > 0))
		puts("memory: not measured: too little free memory, or too slow");
	else if (peaks.busy)
		puts("The machine was busy: memory may be faster. Measure again when it is idle.");
	if (!path) {
		msg_say("cannot store the result: see perfx-trace doctor");
		return EXIT_FAILED;
	}
	printf("Stored in %s.\n", path);
	free(path);
	return EXIT_OK;
}
