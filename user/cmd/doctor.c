// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace doctor: what works here, found by trying it, and how to mend the rest. */
#include "attach/features.h"
#include "base/message.h"
#include "cmd/cmd.h"
#include "counters/counters.h"
#include "peaks/cache.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum check_flags {
	USEFUL = 0,
	NEEDED = 1, /* tracing cannot work without it */
	TRIED = 2,  /* by loading a program: without privilege nobody knows */
};

struct check {
	const char *what;
	bool ok;
	unsigned flags;
	const char *otherwise;
};

static bool readable(const char *path)
{
	return access(path, R_OK) == 0;
}

static bool exists_any(const char *pattern)
{
	glob_t found;
	bool any = !glob(pattern, 0, NULL, &found) && found.gl_pathc;

	globfree(&found);
	return any;
}

static bool have_cupti(void)
{
	return exists_any("/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so*") ||
	       exists_any("/usr/local/cuda*/lib64/libcupti.so*") ||
	       exists_any("/usr/lib/*-linux-gnu/libcupti.so*");
}

static bool pids_are_the_hosts(void)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == 0xEFFFFFFCu;
}

/* What was measured of this host can be kept, or is. */
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

/* Otherwise says why not. */
static bool hardware_counts(char *why, size_t size)
{
	struct counters_machine machine;
	struct counters counters;

	counters_machine_read(&machine);
	counters_of_hardware(&machine, &counters);
	counters_try(&machine, &counters, why, size);
	return !*why;
}

/* A kernel is not blamed for what could not be tried. */
static int print_check(const struct check *check, bool privileged)
{
	bool missing = !check->ok && (check->flags & NEEDED);

	if ((check->flags & TRIED) && !privileged) {
		printf("%-8s%s\n", "?", check->what);
		return 0;
	}
	printf("%-8s%s", check->ok ? "ok" : missing ? "MISSING" : "missing", check->what);
	if (!check->ok)
		printf(": %s", check->otherwise);
	putchar('\n');
	return missing;
}

static int say_unprivileged(const struct features *features)
{
	if (geteuid())
		printf("\nNot root: what is marked ? cannot be known: run sudo perfx-trace "
		       "doctor.\n");
	else
		printf("\nBPF programs may not be loaded here, though this is root (%s): what is "
		       "marked ? cannot be known.\n",
		       strerror(features->load_error));
	return EXIT_PRIVILEGE;
}

int cmd_doctor(void)
{
	struct features f;
	struct utsname names;
	int missing = 0;
	char counted[256];

	features_try(&f);
	features_end(&f);
	bool counts = hardware_counts(counted, sizeof(counted));
	uname(&names);
	printf("        perfx-trace " PERFX_VERSION ", Linux %s %s\n", names.release,
	       names.machine);

	const struct check checks[] = {
		{"privilege to load BPF programs", f.privileged, NEEDED,
		 "run with sudo, or give CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE for other "
		 "users' processes)"},
		{"kernel types (BTF)", f.btf, NEEDED,
		 "/sys/kernel/btf/vmlinux: a kernel with CONFIG_DEBUG_INFO_BTF"},
		{"BPF ring buffer", f.ring_buffer, NEEDED | TRIED, "Linux 5.8 or later"},
		{"BPF cookies", f.cookies, NEEDED | TRIED, "Linux 5.15 or later"},
		{"uprobes by perf event", f.uprobe_perf, f.uprobe_multi ? USEFUL : NEEDED,
		 "a kernel with CONFIG_UPROBE_EVENTS"},
		{"uprobe_multi links", f.uprobe_multi, TRIED,
		 "Linux 6.6: without, a link a probe, 512 at most"},
		{"uprobe_multi links by process", f.multi_pid, TRIED,
		 "Linux 6.10: without, other processes that map the same file are slowed too"},
		{"uprobe session links", f.uprobe_session, TRIED,
		 "Linux 6.13: without, two links for functions timed by return probe"},
		{"optimized 5-byte nop", f.optimized_nop5, USEFUL,
		 "Linux 6.18: without, a hit on a marker costs a trap"},
		{"optimized 5-byte nop in forked children",
		 !f.optimized_nop5 || f.nop5_survives_fork, TRIED,
		 "this kernel lets children of a probed program die of it, so markers are probed "
		 "elsewhere and a hit costs a trap; other tools' probes on USDT nops do harm here"},
		{"bytes over sockets", f.socket_lengths, TRIED,
		 "Linux 6.3: without, no network I/O in reports"},
		{"host process ids", pids_are_the_hosts(), NEEDED,
		 "in a container: start it with --pid=host"},
		{"new mappings as they happen (perf events)",
		 readable("/proc/sys/kernel/perf_event_paranoid"), USEFUL,
		 "a kernel with CONFIG_PERF_EVENTS: without, late libraries are found a second "
		 "later"},
		{"hardware counters (cycles, instructions, operations, cache misses)", counts,
		 TRIED, counted},
		{"time on run queues (schedstat)", readable("/proc/self/schedstat"), USEFUL,
		 "a kernel with CONFIG_SCHED_INFO: without, threads show no waiting for a CPU"},
		{"storage I/O (/proc/PID/io)", readable("/proc/self/io"), USEFUL,
		 "a kernel with CONFIG_TASK_IO_ACCOUNTING"},
		{"a place to keep measured peaks", peaks_are_kept(), USEFUL,
		 "/var/cache/perfx-trace (of others than root: ~/.cache/perfx-trace) cannot be "
		 "written to: without, what this host can do is estimated each time"},
		{"CUPTI", have_cupti(), USEFUL,
		 "NVIDIA's CUDA toolkit; needed for times on the GPU only"},
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		missing += print_check(&checks[i], f.privileged);
	if (!f.privileged)
		return say_unprivileged(&f);
	if (!missing)
		return EXIT_OK;
	printf("\nTracing cannot work here: %d of these are needed.\n", missing);
	return EXIT_FAILED;
}
