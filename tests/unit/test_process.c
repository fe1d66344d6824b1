// SPDX-License-Identifier: BSD-2-Clause
#include "fixture.h"
#include "proc/process.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
	text = process_command(pid, "|", false);
	cr_expect_eq(strcmp(text + strlen(fixture_path("s")), "|60"), 0);
	free(text);
	stop(pid);
	text = process_command(pid, "|", false);
	cr_expect_str_eq(text, "");
	free(text);
}

static bool holds(const pid_t *list, ssize_t count, pid_t pid)
{
	for (ssize_t i = 0; i < count; i++)
		if (list[i] == pid)
			return true;
	return false;
}

/* As a program that sets its title leaves its command line. */
Test(process, by_title)
{
	char title[64];
	pid_t pid, *list;
	ssize_t count = 0;

	snprintf(title, sizeof(title), "rank 0: /step-%d", (int)getpid());
	fixture_text("titled", "#!/bin/bash\nexec -a \"$1\" sleep 60\n");
	fixture_run("chmod +x titled");
	pid = start("titled", title);
	for (int i = 0; i < 100 && (count = process_find(title, &list)) != 1; i++) {
		free(list);
		usleep(50000);
	}
	cr_assert_eq(count, 1);
	cr_expect_eq(list[0], pid);
	free(list);
	cr_expect_eq(process_find(strchr(title, '/') + 1, &list), 1, "without folders");
	free(list);
	cr_expect_eq(process_find("rank 0", &list), 0);
	free(list);
	stop(pid);
}

Test(process, by_name)
{
	char name[64], title[256];
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
	snprintf(title, sizeof(title), "%s 60", fixture_path(name));
	count = process_find(title, &list);
	cr_expect(count == 1 && list[0] == pid, "the command line");
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
	cr_expect_eq(process_thread_by_own_id(getpid(), 4711), 4711); /* no container */
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

#define REST                                                                   \
	" 7 8 9 0 -1 4194560 11 12 13 14 150 160 17 18 20 0 3 0 4242 1000 25 " \
	"18446744073709551615 "                                                \
	"1 1 0 0 0\n"

Test(process_stat, fields)
{
	struct process_stat stat;

	cr_assert_eq(process_stat_parse("42 (train) S" REST, &stat), 0);
	cr_expect_str_eq(stat.comm, "train");
	cr_expect_eq(stat.state, 'S');
	cr_expect_eq(stat.ppid, 7);
	cr_expect_not(stat.kernel_thread);
	cr_expect_eq(stat.minor_faults, 11);
	cr_expect_eq(stat.major_faults, 13);
	cr_expect_eq(stat.user_ticks, 150);
	cr_expect_eq(stat.system_ticks, 160);
	cr_expect_eq(stat.start_ticks, 4242);
	cr_assert_eq(process_stat_parse("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 5 0 0 20 0 1 "
					"0 3 0 0\n",
					&stat),
		     0);
	cr_expect(stat.kernel_thread);
}

Test(process_stat, host_cpu)
{
	uint64_t tick_ns = ticks_to_ns(1);
	struct host_cpu cpu;

	cr_assert_eq(host_cpu_parse("cpu  10 2 30 4000 500 6 7 80 9 0\ncpu0 1 1 1 1\n", &cpu), 0);
	cr_expect_eq(cpu.busy_ns, 55 * tick_ns);
	cr_expect_eq(cpu.steal_ns, 80 * tick_ns);
	cr_expect_eq(host_cpu_parse("cpu  10 2 30 4000", &cpu), -EINVAL);
	cr_expect_eq(cpu.busy_ns, 0);
	cpu = host_cpu_read();
	cr_expect_gt(cpu.busy_ns, 0);
}

/* A process calls itself what it likes. */
Test(process_stat, names)
{
	static const char *const names[] = {"a b",     ")",
					    "(",       ") R 1 (x",
					    "",	       "a\nb)",
					    "(a) (b)", "kworker/u8:2-a-long-workqueue-name"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct process_stat stat;
		char text[512];

		snprintf(text, sizeof(text), "42 (%s) D" REST, names[i]);
		cr_assert_eq(process_stat_parse(text, &stat), 0, "%s", names[i]);
		cr_expect_str_eq(stat.comm, names[i]);
		cr_expect_eq(stat.state, 'D');
		cr_expect_eq(stat.start_ticks, 4242);
	}
}

Test(process_stat, refuses)
{
	static const char *const texts[] = {"", "42", "42 (a", ")(", "42 (a) S 1 2 3"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct process_stat stat;

		cr_expect_eq(process_stat_parse(texts[i], &stat), -EINVAL, "%s", texts[i]);
	}
}

Test(process_stat, keys)
{
	static const char text[] =
		"VmRSS:\t  123 kB\nXVmRSS: 5\nnr_periods 7\nnr_periods_x 8\nlast: 9";

	cr_expect_eq(keyed_number(text, "VmRSS:"), 123);
	cr_expect_eq(keyed_number(text, "nr_periods"), 7);
	cr_expect_eq(keyed_number(text, "last:"), 9);
	cr_expect_eq(keyed_number(text, "nr_period"), UINT64_MAX);
	cr_expect_eq(keyed_number("", "last:"), UINT64_MAX);
}

Test(process_stat, ticks)
{
	cr_expect_eq(ticks_to_ns((uint64_t)sysconf(_SC_CLK_TCK)), 1000000000);
	cr_expect_eq(ticks_to_ns(0), 0);
}

enum { TICK_NS = 10000000, MEBIBYTE = 1 << 20 };

static uint64_t timeval_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

static void burn(void)
{
	volatile uint64_t sum = 0;

	for (uint64_t i = 0; i < 30000000; i++)
		sum += i;
	(void)sum;
}

/* The kernel's own account, asked before and after, brackets ours. */
Test(process_usage, cpu_time)
{
	struct process_usage usage;
	struct rusage before, after;

	burn();
	getrusage(RUSAGE_SELF, &before);
	cr_assert_eq(process_usage(getpid(), &usage), 0);
	getrusage(RUSAGE_SELF, &after);
	cr_expect_geq(usage.cpu_user_ns + TICK_NS, timeval_ns(before.ru_utime));
	cr_expect_leq(usage.cpu_user_ns, timeval_ns(after.ru_utime));
	cr_expect_geq(usage.cpu_system_ns + TICK_NS, timeval_ns(before.ru_stime));
	cr_expect_leq(usage.cpu_system_ns, timeval_ns(after.ru_stime));
	cr_expect_geq(usage.minor_faults, (uint64_t)before.ru_minflt);
	cr_expect_leq(usage.minor_faults, (uint64_t)after.ru_minflt);
}

/* The file is about the main thread; the test's is one, or this says nothing. */
Test(process_usage, switches)
{
	struct timespec nap = {.tv_nsec = 1000};
	struct process_usage usage;
	struct rusage before, after;

	cr_assert_eq(getpid(), (pid_t)syscall(SYS_gettid));
	for (int i = 0; i < 5; i++)
		nanosleep(&nap, NULL);
	getrusage(RUSAGE_THREAD, &before);
	cr_assert_eq(process_usage(getpid(), &usage), 0);
	getrusage(RUSAGE_THREAD, &after);
	cr_expect_geq(before.ru_nvcsw, 5);
	cr_expect_geq(usage.voluntary_switches, (uint64_t)before.ru_nvcsw);
	cr_expect_leq(usage.voluntary_switches, (uint64_t)after.ru_nvcsw);
	cr_expect_geq(usage.involuntary_switches, (uint64_t)before.ru_nivcsw);
	cr_expect_leq(usage.involuntary_switches, (uint64_t)after.ru_nivcsw);
}

Test(process_usage, memory)
{
	const size_t size = 64 * MEBIBYTE;
	struct process_usage before, after;
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(bytes, MAP_FAILED);
	cr_assert_eq(process_usage(getpid(), &before), 0);
	memset(bytes, 1, size);
	cr_assert_eq(process_usage(getpid(), &after), 0);
	/* the kernel sums its per-CPU counts up with an error of some dozen pages a CPU */
	cr_expect_geq(after.rss_anon_bytes, before.rss_anon_bytes + size - 4 * MEBIBYTE);
	cr_expect_geq(after.rss_bytes, before.rss_bytes + size - 4 * MEBIBYTE);
	cr_expect_leq(after.rss_file_bytes, before.rss_file_bytes + 4 * MEBIBYTE);
	cr_expect_gt(before.rss_file_bytes, 0);
	cr_expect_neq(before.rss_shmem_bytes, UINT64_MAX);
	cr_expect_neq(before.read_bytes, UINT64_MAX);
	cr_expect_neq(before.write_bytes, UINT64_MAX);
}

struct other {
	pthread_barrier_t started, finish;
	pid_t tid;
};

static void *run_other(void *ctx)
{
	struct other *other = ctx;

	prctl(PR_SET_NAME, "pt_data) 1");
	other->tid = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&other->started);
	pthread_barrier_wait(&other->finish);
	return NULL;
}

/* The test framework may have threads of its own here. */
Test(process_usage, threads)
{
	struct thread_usage thread;
	struct process_usage usage;
	struct other other;
	ssize_t before, count;
	pthread_t id;
	pid_t *list;

	before = process_threads(getpid(), &list);
	cr_assert_geq(before, 1);
	free(list);
	pthread_barrier_init(&other.started, NULL, 2);
	pthread_barrier_init(&other.finish, NULL, 2);
	cr_assert_eq(pthread_create(&id, NULL, run_other, &other), 0);
	pthread_barrier_wait(&other.started);
	count = process_threads(getpid(), &list);
	cr_expect_eq(count, before + 1);
	cr_expect(holds(list, count, getpid()) && holds(list, count, other.tid));
	free(list);
	cr_assert_eq(process_usage(getpid(), &usage), 0);
	cr_expect_eq(usage.threads_count, (uint64_t)count);
	cr_assert_eq(thread_usage(getpid(), other.tid, &thread), 0);
	cr_expect_eq(thread.tid, other.tid);
	cr_expect_str_eq(thread.comm, "pt_data) 1");
	pthread_barrier_wait(&other.finish);
	pthread_join(id, NULL);
}

Test(process_usage, thread_time)
{
	struct timespec before, after, nap = {.tv_nsec = 2000000};
	struct thread_usage thread;

	burn();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	nanosleep(&nap, NULL); /* the books are up to date after a switch */
	cr_assert_eq(thread_usage(getpid(), getpid(), &thread), 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	cr_expect_eq(thread.state, 'R');
	if (thread.on_cpu_ns == UINT64_MAX)
		cr_skip("this kernel keeps no schedstat");
	cr_expect_geq(thread.on_cpu_ns,
		      (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec);
	cr_expect_leq(thread.on_cpu_ns,
		      (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec);
	cr_expect_neq(thread.runnable_ns, UINT64_MAX);
}

static pid_t start_child(int ends[2], const char *answer, bool hangs)
{
	pid_t pid;

	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		if (answer && write(ends[1], answer, 4) != 4)
			_exit(1);
		while (hangs)
			pause();
		_exit(0);
	}
	close(ends[1]);
	return pid;
}

Test(process, a_childs_answer_is_read, .timeout = 30)
{
	char answer[4];
	int ends[2];
	pid_t pid = start_child(ends, "yes", true);

	cr_assert(process_answers(pid, ends[0], answer, sizeof(answer), 20000));
	cr_assert_str_eq(answer, "yes");
	cr_assert_eq(kill(pid, 0), 0); /* it goes on */
	process_reap(pid, 0);
	cr_assert_eq(kill(pid, 0), -1);
}

Test(process, a_child_that_ends_without_an_answer_has_none, .timeout = 30)
{
	char answer[4];
	int ends[2];
	pid_t pid = start_child(ends, NULL, false);

	cr_assert_not(process_answers(pid, ends[0], answer, sizeof(answer), 20000));
	process_reap(pid, 20000);
	cr_assert_eq(kill(pid, 0), -1);
}

Test(process, a_child_that_hangs_is_killed, .timeout = 30)
{
	char answer[4];
	int ends[2];
	pid_t pid = start_child(ends, NULL, true);

	cr_assert_not(process_answers(pid, ends[0], answer, sizeof(answer), 10));
	process_reap(pid, 20000);
	cr_assert_eq(kill(pid, 0), -1);
}
