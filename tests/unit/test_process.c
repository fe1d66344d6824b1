// SPDX-License-Identifier: BSD-2-Clause
#include "proc/process.h"

#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

TestSuite(process, .init = fixture_set_up, .fini = fixture_tear_down);

static pid_t gone(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

/* Runs a program of the folder and waits until the child is it. */
static pid_t start(const char *name, const char *argument)
{
	const char *path = fixture_path(name);
	int ready[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path, argument, (char *)NULL);
		_exit(127);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 0, "closed by exec or exit");
	close(ready[0]);
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool has_child_exited(pid_t pid)
{
	siginfo_t info = {0};

	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
	return info.si_pid == pid;
}

Test(process, itself)
{
	struct timespec now;
	struct process_info info;
	uint64_t now_ns;
	char exe[4096] = "";

	prctl(PR_SET_NAME, "a) b (c");
	cr_assert_eq(process_info(getpid(), &info), 0);
	cr_expect_eq(info.pid, getpid());
	cr_expect_eq(info.ppid, getppid());
	cr_expect_str_eq(info.comm, "a) b (c");
	cr_expect_eq(info.state, 'R');
	cr_expect_not(info.kernel_thread);
	cr_expect_not(info.is_32bit);
	cr_expect_not(info.exe_deleted);
	cr_assert_gt(readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
	cr_expect_str_eq(info.exe, exe);
	clock_gettime(CLOCK_BOOTTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	cr_expect_leq(info.start_ns, now_ns);
	cr_expect_gt(info.start_ns + 3600000000000, now_ns, "this test started within the hour");
}

Test(process, gone_or_dead)
{
	struct process_info info;
	struct process_usage usage;
	struct thread_usage thread;
	pid_t pid = gone(), *list;
	siginfo_t ignored;
	char *text;

	cr_expect_eq(process_info(pid, &info), -ESRCH);
	cr_expect_eq(process_usage(pid, &usage), -ESRCH);
	cr_expect_eq(thread_usage(pid, pid, &thread), -ESRCH);
	cr_expect_eq(process_cmdline(pid, &text, 100), -ESRCH);
	cr_expect_eq(process_threads(pid, &list), -ESRCH);
	cr_expect_eq(process_descendants(pid, &list), -ESRCH);

	pid = fork();
	if (pid == 0)
		_exit(0);
	waitid(P_PID, (id_t)pid, &ignored, WEXITED | WNOWAIT);
	cr_assert_eq(process_info(pid, &info), 0);
	cr_expect_eq(info.state, 'Z');
	cr_expect_str_eq(info.exe, "");
	cr_assert_eq(process_usage(pid, &usage), 0);
	cr_expect_eq(usage.rss_bytes, UINT64_MAX, "not measured, not 0");
	cr_expect_eq(process_descendants(getpid(), &list), 0, "a zombie is no living child");
	free(list);
	waitpid(pid, NULL, 0);
}

Test(process, deleted_executable)
{
	struct process_info info;
	pid_t pid;

	fixture_run("cp $(command -v sleep) 'my (deleted) sleep'");
	pid = start("my (deleted) sleep", "60");
	cr_assert_eq(process_info(pid, &info), 0);
	cr_expect_str_eq(info.exe, fixture_path("my (deleted) sleep"));
	cr_expect_not(info.exe_deleted);
	fixture_run("rm 'my (deleted) sleep'");
	cr_assert_eq(process_info(pid, &info), 0);
	cr_expect_str_eq(info.exe, fixture_path("my (deleted) sleep"));
	cr_expect(info.exe_deleted);
	stop(pid);
}

Test(process, of_32_bits)
{
	static const char code[] = ".globl _start\n _start: jmp _start\n"
				   ".section .note.GNU-stack, \"\", @progbits\n";
	struct process_info info;
	pid_t pid;

	fixture_text("s.S", code);
	if (system("exit $(uname -m | grep -c x86_64)") == 0)
		cr_skip("x86-64 only");
	fixture_run("cc -m32 -nostdlib -static -no-pie -o s32 s.S");
	pid = start("s32", NULL);
	if (has_child_exited(pid))
		cr_skip("this kernel runs no 32-bit programs");
	cr_assert_eq(process_info(pid, &info), 0);
	cr_expect(info.is_32bit);
	stop(pid);
}

Test(process, command_line)
{
	pid_t pid;
	char *text;

	fixture_run("cp $(command -v sleep) s");
	pid = start("s", "60");
	cr_assert_eq(process_cmdline(pid, &text, 4096), (ssize_t)strlen(fixture_path("s")) + 4);
	cr_expect_str_eq(text, fixture_path("s"));
	cr_expect_str_eq(text + strlen(text) + 1, "60");
	free(text);
	cr_assert_eq(process_cmdline(pid, &text, 5), 5);
	cr_expect_str_eq(text, "/tmp/");
	free(text);
	cr_expect_eq(process_cmdline(pid, &text, 0), -EINVAL);
	stop(pid);
}

static bool holds(const pid_t *list, ssize_t count, pid_t pid)
{
	for (ssize_t i = 0; i < count; i++)
		if (list[i] == pid)
			return true;
	return false;
}

Test(process, by_name)
{
	char name[64];
	pid_t pid, *list;
	ssize_t count;

	/* longer than the 15 bytes that a comm can be */
	snprintf(name, sizeof(name), "sleeper-with-a-long-name-%d", (int)getpid());
	fixture_run("cp $(command -v sleep) %s", name);
	pid = start(name, "60");
	cr_expect_eq(process_find(name, &list), 1);
	cr_expect_eq(list[0], pid);
	free(list);
	count = process_find("sleeper-with-a-", &list);
	cr_expect(holds(list, count, pid), "the comm");
	free(list);
	cr_expect_eq(process_find("sleeper", &list), 0, "whole names only");
	free(list);
	count = process_find(NULL, &list);
	cr_expect(holds(list, count, pid) && holds(list, count, getpid()));
	for (ssize_t i = 1; i < count; i++)
		cr_expect_lt(list[i - 1], list[i]);
	free(list);
	stop(pid);
}

/* parent → child → grandchild, all waiting. */
Test(process, descendants)
{
	int numbers[2];
	pid_t child, grandchild, *list;

	cr_assert_eq(pipe(numbers), 0);
	child = fork();
	if (child == 0) {
		grandchild = fork();
		if (grandchild > 0 &&
		    write(numbers[1], &grandchild, sizeof(grandchild)) != sizeof(grandchild))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	cr_assert_eq(read(numbers[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	cr_assert_eq(process_descendants(getpid(), &list), 2);
	cr_expect(holds(list, 2, child) && holds(list, 2, grandchild));
	cr_expect_lt(list[0], list[1]);
	free(list);
	cr_assert_eq(process_descendants(grandchild, &list), 0);
	free(list);
	kill(grandchild, SIGKILL);
	stop(child);
}

static void *ask_for_process(void *arg)
{
	*(pid_t *)arg = gettid() == getpid() ? 0 : process_of_thread(gettid());
	return NULL;
}

Test(process, of_a_thread)
{
	pthread_t thread;
	pid_t pid = 0;

	cr_assert_eq(pthread_create(&thread, NULL, ask_for_process, &pid), 0);
	pthread_join(thread, NULL);
	cr_expect_eq(pid, getpid());
	cr_expect_eq(process_of_thread(getpid()), getpid());
	cr_expect_eq(process_of_thread(INT32_MAX), -ESRCH);
}

static void *wait_for_the_end(void *end)
{
	char byte;

	/* the pipe's other side is the parent's */
	while (read(*(int *)end, &byte, 1) > 0)
		;
	_exit(0);
}

/* A child whose main thread has ended; another one waits for the end of the pipe. */
static pid_t start_without_main_thread(int end)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_create(&thread, NULL, wait_for_the_end, &end);
	pthread_exit(NULL);
}

Test(process, has_ended_when_all_its_threads_have)
{
	struct process_info info;
	int ends[2];
	pid_t pid;

	cr_assert_not(process_has_ended(getpid()));
	cr_assert(process_has_ended(gone()));

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	pid = start_without_main_thread(ends[0]);
	while (!process_info(pid, &info) && info.state != 'Z')
		sched_yield();
	cr_assert_eq(info.state, 'Z');
	cr_assert_not(process_has_ended(pid), "another thread goes on");
	kill(pid, SIGKILL);
	while (!has_child_exited(pid))
		sched_yield();
	cr_assert(process_has_ended(pid), "nobody has waited for it");
	stop(pid);
	close(ends[0]);
	close(ends[1]);
}
