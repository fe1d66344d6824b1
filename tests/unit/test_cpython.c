// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/code.h"
#include "cpython/cpython.h"
#include "cpython/lines.h"
#include "line_tables.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

Test(lines, as_each_release_knows_them)
{
	for (size_t i = 0; i < KNOWN_TABLES; i++) {
		const struct known_table *known = &known_tables[i];
		struct code_lines lines = {.format = known->format,
					   .bytes = known->bytes,
					   .length = known->length,
					   .first_line = known->first_line};
		uint32_t instruction = 0;

		for (size_t run = 0; run < known->runs_count; run++)
			for (uint32_t n = 0; n < known->runs[run].count; n++, instruction++)
				cr_assert_eq(line_of_instruction(&lines, instruction),
					     known->runs[run].line,
					     "%s, instruction %u: %u, not %u", known->name,
					     instruction, line_of_instruction(&lines, instruction),
					     known->runs[run].line);
		cr_assert_gt(instruction, 3);
	}
}

Test(lines, cut_tables_are_read_to_their_end)
{
	for (size_t i = 0; i < KNOWN_TABLES; i++) {
		const struct known_table *known = &known_tables[i];

		for (size_t length = 0; length < known->length; length++) {
			uint8_t *bytes = malloc(length ? length : 1);
			struct code_lines lines = {.format = known->format,
						   .bytes = bytes,
						   .length = length,
						   .first_line = known->first_line};

			memcpy(bytes, known->bytes, length);
			line_of_instruction(&lines, 0);
			line_of_instruction(&lines, 100);
			line_of_instruction(&lines, UINT32_MAX);
			free(bytes);
		}
	}
}

Test(lines, none_of_what_no_program_has)
{
	/* a location 2^31 lines further, and a line before the first */
	static const uint8_t far[] = {0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x0f},
			     before[] = {2, (uint8_t)-100};
	struct code_lines lines = {LINE_TABLE_LOCATIONS, far, sizeof(far), 10};

	cr_expect_eq(line_of_instruction(&lines, 0), 0);
	lines = (struct code_lines){LINE_TABLE_RANGES, before, sizeof(before), 10};
	cr_expect_eq(line_of_instruction(&lines, 0), 0);
}

static uint8_t runtime[CPYTHON_RUNTIME_BYTES];

static void put(size_t word, uint64_t value)
{
	memcpy(runtime + word * sizeof(value), &value, sizeof(value));
}

/* _Py_DebugOffsets of 3.14, the GIL's build: what is read of it, at its place. */
static void describe_314(void)
{
	static const uint64_t interpreter[] = {80000, 7384, 7280, 7288, 7296},
			      debugger[] = {24, 304, 8076, 0, 4, 512},
			      thread[] = {832, 0, 8, 16, 72, 152}, frame[] = {88, 8, 0, 56, 80, 74},
			      code[] = {216, 112, 120, 128, 136, 68, 52, 96, 104, 208};

	memcpy(runtime, "xdebugpy", 8);
	put(1, 0x030e00f0);
	put(2, 0);
	put(5, 808);
	for (size_t i = 0; i < 5; i++)
		put(6 + i, interpreter[i]);
	for (size_t i = 0; i < 6; i++)
		put(89 + i, debugger[i]);
	put(6 + 9, 16);
	for (size_t i = 0; i < 6; i++)
		put(22 + i, thread[i]);
	for (size_t i = 0; i < 6; i++)
		put(31 + i, frame[i]);
	for (size_t i = 0; i < 10; i++)
		put(39 + i, code[i]);
}

Test(release, described_by_itself)
{
	struct cpython_release release;

	describe_314();
	cr_assert_null(cpython_release(runtime, 0, &release));
	cr_expect_eq(release.runtime_interpreters, 808);
	cr_expect_eq(release.interpreter_gil, 16);
	cr_expect_eq(release.frames.version, 0x030e00f0);
	cr_expect_eq(release.frames.entry, PERFX_PYTHON_ENTRY_SHIM);
	cr_expect_eq(release.frames.interpreter_next, 7280);
	cr_expect_eq(release.frames.interpreter_threads, 7288);
	cr_expect_eq(release.frames.thread_frame, 72);
	cr_expect_eq(release.frames.thread_id, 152);
	cr_expect_eq(release.frames.frame_instruction, 56);
	cr_expect_eq(release.frames.frame_entry, 74);
	cr_expect_eq(release.frames.frame_locals, 80);
	cr_expect_eq(release.frames.frame_bytes, 80);
	cr_expect_eq(release.frames.code_first, 208);
	cr_expect_eq(release.code.file, 112);
	cr_expect_eq(release.code.qualname, 128);
	cr_expect_eq(release.code.first_line, 68);
	cr_expect_eq(release.remote.main_thread, 7296);
	cr_expect_eq(release.remote.enabled, 8076);
	cr_expect_eq(release.remote.pending, 304);
	cr_expect_eq(release.remote.path, 308);
	cr_expect_eq(release.remote.path_bytes, 512);
	/* sets, numbers and generators are not described here: tasks are not read, all else is */
	cr_expect_eq(release.tasks.generator_frame, 0);
}

/* A script's path would be written behind the thread's state. */
Test(release, no_place_for_a_script)
{
	struct cpython_release release;

	describe_314();
	put(94, 525);
	cr_expect_str_eq(cpython_release(runtime, 0, &release),
			 "its _Py_DebugOffsets make no sense");
}

/* It is read at once, from the pointer to frames on. */
Test(release, a_thread_state_too_far_apart)
{
	static const uint64_t thread_ids[] = {64, 72 + PERFX_PYTHON_WORDS * sizeof(uint64_t), 150};
	struct cpython_release release;

	for (size_t i = 0; i < sizeof(thread_ids) / sizeof(*thread_ids); i++) {
		describe_314();
		put(22 + 5, thread_ids[i]);
		cr_expect_str_eq(cpython_release(runtime, 0, &release),
				 "its _Py_DebugOffsets make no sense");
	}
}

Test(release, refused_by_name)
{
	struct cpython_release release;

	cr_expect_str_eq(cpython_release(runtime, 0x030702f0, &release),
			 "its release is not among 3.8 to 3.14");
	cr_expect_str_eq(cpython_release(runtime, 0x030d00f0, &release),
			 "its _PyRuntime does not begin with _Py_DebugOffsets");
	describe_314();
	put(2, 1);
	cr_expect_str_eq(cpython_release(runtime, 0, &release), "it is a free-threaded build");
	put(2, 0);
	put(1, 0x030f00f0);
	cr_expect_str_eq(cpython_release(runtime, 0, &release),
			 "its release is not among 3.8 to 3.14");
	put(1, 0x030e00f0);
	put(31 + 5, 4000);
	cr_expect_str_eq(cpython_release(runtime, 0, &release),
			 "its _Py_DebugOffsets make no sense");
}

Test(release, by_table)
{
	struct cpython_release release;

	for (uint32_t minor = 0x0308; minor <= 0x030c; minor++) {
		cr_assert_null(cpython_release(runtime, minor << 16, &release));
		cr_expect_eq(release.frames.version, minor << 16);
		cr_expect_leq(release.frames.frame_bytes, PERFX_PYTHON_WORDS * sizeof(uint64_t));
		cr_expect_lt(release.frames.frame_instruction, release.frames.frame_bytes);
		cr_expect_lt(release.frames.frame_code, release.frames.frame_bytes);
		cr_expect_lt(release.frames.thread_frame ? release.frames.thread_frame
							 : release.frames.thread_cframe,
			     release.frames.thread_id);
	}
}

/* Runs until it is killed; prints a line when it is where it waits, in a function of a name that is
 * no ASCII. */
static const char program[] = "import sys, time\n"
			      "class Greeting:\n"
			      "    def grüße(self):\n"
			      "        print('here', id(self.grüße.__code__), flush=True)\n"
			      "        time.sleep(60)\n"
			      "        yield\n"
			      "next(Greeting().grüße())\n";

/* Starts an interpreter; 0: there is none of that name, or it cannot run. *code: the address of the
 * method's code object. */
static pid_t start(const char *name, uint64_t *code)
{
	char line[64] = "";
	int fds[2];
	pid_t pid;
	FILE *output;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], STDOUT_FILENO);
		freopen("/dev/null", "w", stderr);
		setenv("PYTHONUTF8", "1", 1);
		execlp(name, name, "-c", program, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	output = fdopen(fds[0], "r");
	if (!fgets(line, sizeof(line), output) || sscanf(line, "here %lu", code) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	fclose(output);
	return pid;
}

/* As the tracer: a process that does not have its CPU may be as it is for long. */
static enum cpython_found find(pid_t pid, const struct maps *maps, struct cpython *python,
			       const char **why)
{
	enum cpython_found found = cpython_find(pid, maps, python, why);

	for (int i = 0; i < 20 && found == CPYTHON_NOT_YET; i++) {
		usleep(100000);
		found = cpython_find(pid, maps, python, why);
	}
	return found;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void check_live(const char *name, uint32_t minor)
{
	struct cpython python;
	struct code code;
	const char *why;
	uint64_t address;
	uint32_t identity, again;
	struct maps *maps;
	pid_t pid = start(name, &address);

	if (!pid) {
		cr_log_info("%s: cannot be run here", name);
		return;
	}
	maps = maps__read(pid);
	cr_assert(maps);
	cr_assert_eq(find(pid, maps, &python, &why), CPYTHON_FOUND, "%s: %s", name, why);
	cr_expect_eq(CPYTHON_MINOR(python.release.frames.version), minor, "%s", name);
	cr_expect_neq(python.release.frames.gil, 0);
	cr_assert_eq(code_read(pid, &python, address, &code), 0, "%s", name);
	cr_expect_str_eq(code.function, minor >= 0x030b ? "Greeting.grüße" : "grüße");
	cr_expect_str_eq(code.file, "<string>");
	cr_expect_eq(code.lines.first_line, 3);
	cr_expect(code.is_generator, "%s", name);
	cr_expect_eq(line_of_instruction(&code.lines, minor >= 0x030b ? 4 : 2), 4);
	cr_expect_eq(code_identity(pid, &python, address, &identity), 0);
	cr_expect_eq(code_identity(pid, &python, address, &again), 0);
	cr_expect_eq(identity, again);
	code_clear(&code);
	/* an object of another type, and none */
	cr_expect_eq(code_read(pid, &python, python.code_type, &code), -ESTALE);
	cr_expect_eq(code_read(pid, &python, 64, &code), -ESTALE);
	maps__free(maps);
	stop(pid);
	cr_expect_eq(code_read(pid, &python, address, &code), -ESRCH);
	cr_expect_eq(code_identity(pid, &python, address, &identity), -ESRCH);
}

/* What this machine has of them. */
Test(cpython, of_each_release, .timeout = 60)
{
	check_live("python3.8", 0x0308);
	check_live("python3.9", 0x0309);
	check_live("python3.10", 0x030a);
	check_live("python3.11", 0x030b);
	check_live("python3.12", 0x030c);
	check_live("python3.13", 0x030d);
	check_live("python3.14", 0x030e);
}

/* A program that has Python in it, before its first instruction. */
Test(cpython, not_before_it_starts)
{
	struct cpython python;
	enum cpython_found found;
	const char *why;
	struct maps *maps;
	pid_t pid = fork();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl("/usr/bin/python3", "python3", "-c", "", (char *)NULL);
		_exit(127);
	}
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	maps = maps__read(pid);
	cr_assert(maps);
	found = cpython_find(pid, maps, &python, &why);
	/* where it is in a library, that is not mapped yet */
	cr_expect(found == CPYTHON_NOT_YET || found == CPYTHON_NONE, "%d", found);
	cr_expect_str_eq(why, "");
	maps__free(maps);
	stop(pid);
}

Test(cpython, not_in_other_programs)
{
	struct maps *maps = maps__read(getpid());
	struct cpython python;
	const char *why;

	cr_expect_eq(cpython_find(getpid(), maps, &python, &why), CPYTHON_NONE);
	maps__free(maps);
}
