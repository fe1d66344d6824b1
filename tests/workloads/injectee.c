// SPDX-License-Identifier: BSD-2-Clause
/*
 * The target of an injection: injectee MODE ROUNDS [THREADS [cut|replace]]. Prints "ready PID",
 * works, and prints a sum that depends only on its arguments, or what was wrong. Meanwhile other
 * threads can truncate each memory file among its descriptors, or put another file in its place.
 */
#include "known.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define THREADS_MAX 64

static long rounds;

#define SHOULD(condition)                                                     \
	do {                                                                  \
		if (!(condition)) {                                           \
			printf("not so: %s (errno %d)\n", #condition, errno); \
			exit(1);                                              \
		}                                                             \
	} while (0)

static uint64_t mix(uint64_t sum, uint64_t value)
{
	return (sum ^ value) * 0x9e3779b97f4a7c15ull + (sum >> 29);
}

/* Prevents the compiler from removing it. */
static void churn(size_t size)
{
	char *block = malloc(size);

	KEEP(block);
	free(block);
}

static uint64_t work_malloc(uint64_t seed)
{
	char *kept[64] = {NULL};
	uint64_t sum = seed;

	for (long i = 0; i < rounds * 1000; i++) {
		size_t size = sum % 3000 + 1;
		char **slot = &kept[i % 64];

		if (*slot)
			sum = mix(sum, (uint64_t)(*slot)[0]);
		errno = (int)(i % 100);
		free(*slot);
		SHOULD(errno == (int)(i % 100));
		*slot = i % 5 ? malloc(size) : realloc(NULL, size);
		SHOULD(errno == (int)(i % 100));
		memset(*slot, (int)i, size);
		sum = mix(sum, size);
	}
	for (int i = 0; i < 64; i++)
		free(kept[i]);
	return sum;
}

static uint64_t work_dlopen(uint64_t seed)
{
	uint64_t sum = seed;

	for (long i = 0; i < rounds; i++) {
		void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
		double (*hypot_there)(double, double);

		SHOULD(library);
		*(void **)&hypot_there = dlsym(library, "hypot");
		SHOULD(hypot_there);
		sum = mix(sum, (uint64_t)hypot_there(3 * (double)i, 4 * (double)i));
		SHOULD(!dlclose(library));
		SHOULD(!dlopen("/no/such/library.so", RTLD_NOW));
		churn(sum % 1000);
	}
	return sum;
}

static uint64_t reap(pid_t pid)
{
	int status;

	SHOULD(pid > 0);
	SHOULD(waitpid(pid, &status, 0) == pid);
	SHOULD(WIFEXITED(status));
	return (uint64_t)WEXITSTATUS(status);
}

static uint64_t work_fork(uint64_t seed)
{
	uint64_t sum = seed;

	for (long i = 0; i < rounds; i++) {
		pid_t pid = fork();

		if (!pid) {
			char *text = malloc(100);

			_exit(text ? (int)(i % 100) : 200);
		}
		sum = mix(sum, reap(pid));
		churn(sum % 1000);
	}
	return sum;
}

static pid_t spawn_by_vfork(char **argv, char **environment)
{
	pid_t pid = vfork();

	if (!pid) {
		execve(argv[0], argv, environment);
		_exit(127);
	}
	return pid;
}

static uint64_t work_spawn(uint64_t seed)
{
	char *argv[] = {"/bin/true", NULL}, *none[] = {NULL};
	uint64_t sum = seed;

	for (long i = 0; i < rounds; i++) {
		pid_t pid;

		if (i % 2)
			SHOULD(!posix_spawn(&pid, argv[0], NULL, NULL, argv, none));
		else
			pid = spawn_by_vfork(argv, none);
		sum = mix(sum, reap(pid));
		churn(sum % 1000);
	}
	return sum;
}

static volatile sig_atomic_t handled;
static _Atomic long handler_sum;
static sigjmp_buf jump_here;
static volatile sig_atomic_t may_jump;

static void handle(int signal)
{
	char *text = malloc(64);

	memset(text, signal, 64);
	handler_sum += text[63];
	free(text);
	handled++;
	if (may_jump && handled % 3 == 0)
		siglongjmp(jump_here, 1);
}

/* Its own signals, none of which is lost, with a handler on another stack; calls inside malloc are
 * not interrupted, because these handlers call it. */
static uint64_t work_signals(uint64_t seed)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
	stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
	uint64_t sum = seed;

	SHOULD(!sigaltstack(&stack, NULL));
	SHOULD(!sigaction(SIGUSR1, &action, NULL));
	for (long i = 0; i < rounds * 100; i++) {
		int before = handled;
		stack_t now;

		churn((size_t)(i % 500));
		raise(SIGUSR1);
		SHOULD(handled == before + 1);
		SHOULD(!sigaltstack(NULL, &now) && now.ss_sp == stack.ss_sp && !now.ss_flags);
		sum = mix(sum, (uint64_t)handled);
	}
	SHOULD(!sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL));
	free(stack.ss_sp);
	return mix(sum, (uint64_t)handler_sum);
}

static uint64_t work_jumps(uint64_t seed)
{
	struct sigaction action = {.sa_handler = handle};
	volatile uint64_t sum = seed;
	volatile long i = 0;

	may_jump = 1;
	SHOULD(!sigaction(SIGUSR1, &action, NULL));
	while (i < rounds * 100) {
		jmp_buf here;

		i++;
		if (!setjmp(here)) {
			churn((size_t)i % 300);
			longjmp(here, 1);
		}
		if (!sigsetjmp(jump_here, 1))
			raise(SIGUSR1);
		sum = mix(sum, (uint64_t)handled);
	}
	return sum;
}

/* Signals from a timer at any moment; neither loop nor handler allocates. The handler sometimes
 * leaves by siglongjmp. */
static _Atomic long ticks;

static void tick(int signal)
{
	(void)signal;
	ticks++;
	if (may_jump)
		siglongjmp(jump_here, 1);
}

static uint64_t work_timer(uint64_t seed)
{
	struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
	volatile uint64_t sum = seed;
	volatile long i = 0;

	SHOULD(!sigaction(SIGALRM, &action, NULL));
	SHOULD(!setitimer(ITIMER_REAL, &every, NULL));
	while (i < rounds * 1000) {
		if (!sigsetjmp(jump_here, 1)) {
			may_jump = 1;
			for (int turn = 0; turn < 50; turn++)
				known_clock_ns(CLOCK_MONOTONIC);
			may_jump = 0;
		}
		may_jump = 0;
		sum = mix(sum, (uint64_t)i);
		i = i + 1;
	}
	SHOULD(!setitimer(ITIMER_REAL, &never, NULL));
	SHOULD(ticks > 0);
	return sum;
}

#define COROUTINE_BYTES (16 << 10)
#define GUARD_BYTES	(16 << 10) /* pages are not protected: memory below the stack must stay */

static ucontext_t coroutine, caller;
static volatile uint64_t coroutine_sum;

static void run_coroutine(void)
{
	for (;;) {
		for (int i = 0; i < 50; i++)
			churn((size_t)i * 30);
		coroutine_sum = mix(coroutine_sum, 1);
		swapcontext(&coroutine, &caller);
	}
}

static uint64_t work_coroutines(uint64_t seed)
{
	char *block = malloc(GUARD_BYTES + COROUTINE_BYTES);

	memset(block, 0x5a, GUARD_BYTES + COROUTINE_BYTES - 2048);
	coroutine_sum = seed;
	SHOULD(!getcontext(&coroutine));
	coroutine.uc_stack.ss_sp = block + GUARD_BYTES;
	coroutine.uc_stack.ss_size = COROUTINE_BYTES;
	makecontext(&coroutine, run_coroutine, 0);
	for (long i = 0; i < rounds; i++) {
		swapcontext(&caller, &coroutine);
		churn(100);
	}
	/* and memory that the coroutine never needed: it starts half a page below the top */
	for (long i = 0; i < GUARD_BYTES + COROUTINE_BYTES - 8192; i++)
		SHOULD(block[i] == 0x5a);
	free(block);
	return coroutine_sum;
}

/*
 * Values that live in all vector registers, and mask registers, across calls of clock_gettime and
 * system calls: in assembly, because C would spill them.
 */
__attribute__((target("avx512f,avx512bw"))) static uint64_t vectors_512(uint64_t seed)
{
	uint64_t out[8], sum = seed, start[8];

	for (long i = 0; i < rounds * 200; i++) {
		long result = SYS_getppid;

		for (int lane = 0; lane < 8; lane++)
			start[lane] = mix(sum, (uint64_t)lane);
		__asm__ volatile("vmovdqu64 %[start], %%zmm31\n"
				 "vpaddq %%zmm31, %%zmm31, %%zmm16\n"
				 "vpaddq %%zmm16, %%zmm31, %%zmm1\n"
				 "kmovq %[sum], %%k3\n"
				 "mov $2000, %%ecx\n"
				 "1: push %%rcx\n"
				 "mov $110, %%eax\n"
				 "syscall\n"
				 "pop %%rcx\n"
				 "vpxorq %%zmm1, %%zmm16, %%zmm16\n"
				 "vpaddq %%zmm16, %%zmm31, %%zmm31\n"
				 "vpaddq %%zmm31, %%zmm1, %%zmm1\n"
				 "sub $100, %%ecx\n"
				 "jnz 1b\n"
				 "vmovdqu64 %%zmm1, %[out]\n"
				 "kmovq %%k3, %%rax\n"
				 "xor %%rax, %[out]\n"
				 : [out] "=m"(out), "=&a"(result)
				 : [start] "m"(start), [sum] "r"(sum)
				 : "rcx", "r11", "xmm1", "xmm16", "xmm31", "k3", "memory", "cc");
		for (int lane = 0; lane < 8; lane++)
			sum = mix(sum, out[lane]);
		churn(sum % 100);
	}
	return sum;
}

/* A read from a pipe that another thread feeds: the thread sleeps with live vector registers. */
static int vector_pipe[2];

static void *feed(void *arg)
{
	for (long i = 0; i < rounds; i++) {
		struct timespec pause = {0, 3000000};

		nanosleep(&pause, NULL);
		SHOULD(write(vector_pipe[1], "x", 1) == 1);
	}
	return arg;
}

__attribute__((target("avx2"))) static uint64_t vectors_asleep(uint64_t seed)
{
	uint64_t out[4], sum = seed, start[4];
	pthread_t thread;
	char byte;

	SHOULD(!pipe(vector_pipe));
	SHOULD(!pthread_create(&thread, NULL, feed, NULL));
	for (long i = 0; i < rounds; i++) {
		long result, fd = vector_pipe[0], bytes = 1;
		char *into = &byte;

		for (int lane = 0; lane < 4; lane++)
			start[lane] = mix(sum, (uint64_t)lane);
		__asm__ volatile("mov %%rsp, %%rbx\n"
				 "sub $128, %%rsp\n"
				 "and $-64, %%rsp\n"
				 "vmovdqu (%[start]), %%ymm13\n"
				 "vpaddq %%ymm13, %%ymm13, %%ymm7\n"
				 "call *%[read]\n"
				 "vpxor %%ymm13, %%ymm7, %%ymm7\n"
				 "vmovdqu %%ymm7, (%[out])\n"
				 "mov %%rbx, %%rsp\n"
				 : "=&a"(result), "+D"(fd), "+S"(into), "+d"(bytes)
				 : [out] "r"(out), [start] "r"(start), [read] "r"(read)
				 : "rbx", "rcx", "r8", "r9", "r10", "r11", "xmm7", "xmm13",
				   "memory");
		SHOULD(result == 1);
		for (int lane = 0; lane < 4; lane++)
			sum = mix(sum, out[lane]);
	}
	pthread_join(thread, NULL);
	close(vector_pipe[0]);
	close(vector_pipe[1]);
	return sum;
}

static uint64_t work_vectors(uint64_t seed)
{
	if (__builtin_cpu_supports("avx512bw"))
		return vectors_512(seed);
	return __builtin_cpu_supports("avx2") ? vectors_asleep(seed) : seed;
}

static long nap_ns = 30000000;

/* Not early, and not restarted by each injection: injections come faster than a nap ends. */
static void slept(uint64_t began_ns, int result, int wanted)
{
	uint64_t took_ns = known_clock_ns(CLOCK_MONOTONIC) - began_ns;

	SHOULD(result == wanted);
	if (took_ns < (uint64_t)nap_ns || took_ns > (uint64_t)nap_ns + 3000000000u) {
		printf("slept %llu ns\n", (unsigned long long)took_ns);
		exit(1);
	}
}

static int nap_futex(void)
{
	static int word;
	struct timespec time = {nap_ns / 1000000000, nap_ns % 1000000000};

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0) == -1 &&
			       errno == ETIMEDOUT
		       ? 0
		       : -1;
}

static int nap_condition(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct timespec until;
	int err;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += nap_ns;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&mutex);
	err = pthread_cond_timedwait(&condition, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	return err == ETIMEDOUT ? 0 : -1;
}

static int nap(const char *kind)
{
	struct timespec time = {nap_ns / 1000000000, nap_ns % 1000000000};
	struct timeval span = {nap_ns / 1000000000, nap_ns / 1000 % 1000000};

	if (!strcmp(kind, "nanosleep"))
		return nanosleep(&time, NULL);
	if (!strcmp(kind, "poll"))
		return poll(NULL, 0, (int)(nap_ns / 1000000));
	if (!strcmp(kind, "select"))
		return select(0, NULL, NULL, NULL, &span);
	if (!strcmp(kind, "futex"))
		return nap_futex();
	return nap_condition();
}

static uint64_t work_naps(const char *kind, uint64_t seed)
{
	if (!strncmp(kind, "long-", 5)) {
		nap_ns = 600000000;
		kind += 5;
	}
	for (long i = 0; i < rounds; i++) {
		uint64_t began_ns = known_clock_ns(CLOCK_MONOTONIC);

		slept(began_ns, nap(kind), 0);
	}
	return seed;
}

/* The main thread sleeps until a child writes, or ends: no thread of the process is ever running.
 * */
static pid_t writer(int fd, int per_round)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	for (long i = 0; i < rounds * per_round; i++) {
		struct timespec pause = {nap_ns / 1000000000, nap_ns % 1000000000};

		nanosleep(&pause, NULL);
		if (write(fd, "x", 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static uint64_t work_wait(const char *kind, uint64_t seed)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ends[2], epoll = epoll_create1(EPOLL_CLOEXEC);
	uint64_t sum = seed;
	char byte;
	pid_t pid;

	SHOULD(!pipe(ends));
	SHOULD(!epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event));
	pid = writer(ends[1], 1);
	for (long i = 0; i < rounds; i++) {
		struct pollfd fd = {.fd = ends[0], .events = POLLIN};

		if (!strcmp(kind, "epoll"))
			SHOULD(epoll_wait(epoll, &event, 1, -1) == 1);
		else if (!strcmp(kind, "poll-forever"))
			SHOULD(poll(&fd, 1, -1) == 1);
		SHOULD(read(ends[0], &byte, 1) == 1);
		sum = mix(sum, (uint64_t)byte);
	}
	sum = mix(sum, reap(pid));
	close(ends[0]);
	close(ends[1]);
	close(epoll);
	return sum;
}

#define MEDDLERS     2 /* one continues while the other is held */
#define MEDDLED_FDS  16
#define OWN_CONTENTS "its own"

static int own_file; /* replaces memory files; 0: they are truncated */

static bool is_memory_file(int fd)
{
	char path[64], target[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = '\0';
	return strstr(target, "memfd:");
}

static void *meddle(void *arg)
{
	for (;;) {
		for (int fd = 3; fd < MEDDLED_FDS; fd++) {
			if (!is_memory_file(fd))
				continue;
			if (own_file)
				dup2(own_file, fd);
			else if (!ftruncate(fd, 0))
				sched_yield();
		}
	}
	return arg;
}

static void start_meddling(bool replaces)
{
	pthread_t thread;

	if (replaces) {
		own_file = fileno(tmpfile());
		SHOULD(write(own_file, OWN_CONTENTS, sizeof(OWN_CONTENTS)) == sizeof(OWN_CONTENTS));
	}
	for (int i = 0; i < MEDDLERS; i++)
		SHOULD(!pthread_create(&thread, NULL, meddle, NULL));
}

static bool own_file_is_unharmed(void)
{
	char contents[sizeof(OWN_CONTENTS) + 1];

	return pread(own_file, contents, sizeof(contents), 0) == sizeof(OWN_CONTENTS) &&
	       !memcmp(contents, OWN_CONTENTS, sizeof(OWN_CONTENTS));
}

static const char *mode;

static uint64_t work(uint64_t seed)
{
	static const struct {
		const char *mode;
		uint64_t (*work)(uint64_t seed);
	} works[] = {
		{"malloc", work_malloc},   {"dlopen", work_dlopen},
		{"fork", work_fork},	   {"spawn", work_spawn},
		{"signals", work_signals}, {"jumps", work_jumps},
		{"timer", work_timer},	   {"coroutines", work_coroutines},
		{"vectors", work_vectors}, {"vectors-asleep", vectors_asleep},
	};

	for (size_t i = 0; i < sizeof(works) / sizeof(*works); i++)
		if (!strcmp(mode, works[i].mode))
			return works[i].work(seed);
	if (!strcmp(mode, "read") || !strcmp(mode, "epoll") || !strcmp(mode, "poll-forever"))
		return work_wait(mode, seed);
	return work_naps(mode, seed);
}

static void *one_thread(void *arg)
{
	uint64_t *sum = arg;

	*sum = work(*sum);
	return NULL;
}

static uint64_t work_once(long count)
{
	pthread_t threads[THREADS_MAX];
	uint64_t sum = 0, sums[THREADS_MAX];

	handled = 0;
	handler_sum = ticks = 0;
	for (long i = 0; i < count; i++) {
		sums[i] = (uint64_t)i;
		SHOULD(!pthread_create(&threads[i], NULL, one_thread, &sums[i]));
	}
	if (!count)
		return work(1);
	for (long i = 0; i < count; i++) {
		SHOULD(!pthread_join(threads[i], NULL));
		sum = mix(sum, sums[i]);
	}
	return sum;
}

static bool is_told_to_end(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

int main(int argc, char **argv)
{
	long count = argc > 3 ? atol(argv[3]) : 0;
	uint64_t first;

	if (argc < 3 || count > THREADS_MAX)
		return 2;
	mode = argv[1];
	rounds = atol(argv[2]);
	first = work_once(count);
	if (argc > 4)
		start_meddling(!strcmp(argv[4], "replace"));
	known_ready();
	while (!is_told_to_end())
		SHOULD(work_once(count) == first);
	SHOULD(!own_file || own_file_is_unharmed());
	puts("the same each time");
	return 0;
}
