/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The native stacks of a process's threads as libdw unwinds them, for test_referees.py: a JSON line
 * for each thread,
 *
 *	{"tid": 42, "whole": true, "addresses": [140012345, …]}
 *
 * innermost first, what is executed and then return addresses. The process is stopped meanwhile.
 */
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int print_frame(Dwfl_Frame *frame, void *arg)
{
	int *count = arg;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	printf("%s%" PRIu64, *count ? ", " : "", (uint64_t)pc);
	++*count;
	return DWARF_CB_OK;
}

static int print_thread(Dwfl_Thread *thread, void *arg)
{
	int count = 0, err;

	(void)arg;
	printf("{\"tid\": %d, \"addresses\": [", (int)dwfl_thread_tid(thread));
	err = dwfl_thread_getframes(thread, print_frame, &count);
	printf("], \"whole\": %s}\n", err ? "false" : "true");
	return DWARF_CB_OK;
}

int main(int argc, char **argv)
{
	static char *debug_path;
	static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
						 .find_debuginfo = dwfl_standard_find_debuginfo,
						 .debuginfo_path = &debug_path};
	pid_t pid = argc == 2 ? atoi(argv[1]) : 0;
	Dwfl *dwfl = pid ? dwfl_begin(&callbacks) : NULL;

	if (!dwfl) {
		fprintf(stderr, "usage: dwfl_stacks PID\n");
		return 2;
	}
	if (dwfl_linux_proc_report(dwfl, pid) || dwfl_report_end(dwfl, NULL, NULL) ||
	    dwfl_linux_proc_attach(dwfl, pid, false) || dwfl_getthreads(dwfl, print_thread, NULL)) {
		fprintf(stderr, "process %d: %s\n", (int)pid, dwfl_errmsg(-1));
		return 1;
	}
	dwfl_end(dwfl);
	return 0;
}
