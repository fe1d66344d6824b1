/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with a GPU that is none (gpu/), for the agent's tests: what it does is the first
 * argument. It waits until the agent records, and says at the end how it found CUPTI:
 *
 *	cupti misused=0 finalised=0 enabled=1 subscribers=0
 */
#include "gpu/stub.h"
#include "known.h"
#include "nvtx3_mock.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define KERNEL	   10
#define GRAPH	   51
#define WAIT_MS	   5000
#define THREADS	   2
#define PER_THREAD 1000

static uint32_t version;

static uint32_t own_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void await_kernels(bool enabled)
{
	for (int i = 0; i < WAIT_MS && stub_enabled(KERNEL) != enabled; i++)
		sleep_ms(1);
}

/* Calls are enabled last: waits until that is done. */
static void await_agent(void)
{
	await_kernels(true);
	for (int i = 0; i < WAIT_MS && !stub_flushes(); i++)
		sleep_ms(1);
}

static void say_cupti(void)
{
	printf("cupti misused=%d finalised=%d enabled=%d subscribers=%d\n", stub_was_misused(),
	       stub_was_finalised(), stub_enabled(KERNEL), stub_subscribers());
	fflush(stdout);
}

static void put_kernel_on(uint32_t device, const char *name, uint64_t duration_ns, uint32_t stream,
			  uint32_t call)
{
	uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC);

	stub_put_kernel(&(struct stub_kernel){.name = name,
					      .start_ns = start_ns,
					      .end_ns = start_ns + duration_ns,
					      .device = device,
					      .stream = stream,
					      .call = call,
					      .grid = {8, 4, 2},
					      .block = {128, 2, 1},
					      .static_shared = 1024,
					      .dynamic_shared = 2048,
					      .registers = 40},
			version);
}

static void put_kernel(const char *name, uint64_t duration_ns, uint32_t stream, uint32_t call)
{
	put_kernel_on(0, name, duration_ns, stream, call);
}

static void put_copy(uint8_t kind, uint8_t from, uint8_t to, uint64_t bytes, uint32_t call)
{
	uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC);

	stub_put_copy(&(struct stub_copy){.kind = kind,
					  .from = from,
					  .to = to,
					  .bytes = bytes,
					  .start_ns = start_ns,
					  .end_ns = start_ns + 200,
					  .stream = 7,
					  .call = call},
		      version);
}

/* A launch: the call on this thread, and its activity on the device. */
TRACED void launch(const char *kernel, uint64_t duration_ns, uint32_t call)
{
	uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC);

	put_kernel(kernel, duration_ns, 7, call);
	stub_put_call(2, STUB_cudaLaunchKernel, start_ns, known_clock_ns(CLOCK_MONOTONIC),
		      own_tid(), call);
}

TRACED void train_step(uint32_t call)
{
	launch("_Z4gemmPfS_", 1000, call);
	launch("reduce", 500, call + 1);
}

static void put_others(void)
{
	uint64_t start_ns = known_clock_ns(CLOCK_MONOTONIC);
	struct stub_record unknown = {.bytes = {17}};

	put_copy(1, 2, 3, 4096, 101); /* from pinned memory to the device */
	put_copy(1, 2, 3, 4096, 102);
	put_copy(2, 3, 1, 1000, 103); /* to pageable memory */
	put_copy(8, 3, 3, 50, 104);
	put_copy(10, 3, 3, 60, 105);
	stub_put_memset(300, start_ns, start_ns + 30, 7, 106);
	stub_put_sync(start_ns, start_ns + 40, 7, 107);
	stub_put_graph(start_ns, start_ns + 5000, 5, 8, 108);
	stub_put_call(2, STUB_cudaStreamSynchronize, start_ns, start_ns + 45, own_tid(), 107);
	stub_put_call(1, STUB_cuLaunchKernel, start_ns, start_ns + 10, own_tid(), 109);
	stub_put_call(1, STUB_cuCtxGetCurrent, start_ns, start_ns + 10, own_tid(), 110);
	stub_put_memset(300, 0, 0, 7, 111); /* without times */
	for (int i = 0; i < 4; i++)
		stub_put(&unknown, 48);
	put_kernel(NULL, 100, 9, 112);
}

static void records(void)
{
	await_agent();
	for (uint32_t i = 0; i < 3; i++)
		train_step(1 + 2 * i);
	put_others();
}

static void put_node(const char *name, uint64_t start_ns, uint64_t duration_ns, uint32_t call)
{
	stub_put_kernel(&(struct stub_kernel){.name = name,
					      .start_ns = start_ns,
					      .end_ns = start_ns + duration_ns,
					      .stream = 7,
					      .call = call,
					      .graph = 5,
					      .grid = {4, 1, 1},
					      .block = {64, 1, 1},
					      .registers = 32},
			version);
}

/* A graph of two kernels, in a range: as a whole or by its nodes, as requested. */
static void graphs(void)
{
	await_agent();
	for (uint32_t call = 1; call <= 4; call++) {
		uint64_t start_ns;

		nvtxRangePushA("replay");
		start_ns = known_clock_ns(CLOCK_MONOTONIC);
		if (stub_enabled(GRAPH)) {
			stub_put_graph(start_ns, start_ns + 300, 5, 7, call);
		} else {
			put_node("first node", start_ns, 100, call);
			put_node("second node", start_ns + 100, 200, call);
		}
		stub_put_call(2, STUB_cudaGraphLaunch, start_ns, known_clock_ns(CLOCK_MONOTONIC),
			      own_tid(), call);
		nvtxRangePop();
	}
}

/* CUDA's ordinals. */
static void two_devices(void)
{
	await_agent();
	put_kernel_on(0, "on the first", 10, 7, 1);
	put_kernel_on(1, "on the second", 10, 7, 2);
}

/* All buffers are in use: further records are lost, and CUPTI counts them. */
static void drops(void)
{
	int held = 0;

	await_agent();
	while (held < 20 && stub_hold_buffer())
		held++;
	printf("held %d\n", held);
	for (int i = 0; i < 30; i++)
		put_kernel("lost", 1000, 7, 1);
}

static void *put_many(void *ctx)
{
	for (uint32_t i = 0; i < PER_THREAD; i++)
		put_kernel(ctx, 10, 7, i);
	return NULL;
}

static void two_threads(void)
{
	static char *const names[THREADS] = {"first", "second"};
	pthread_t threads[THREADS];

	await_agent();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, put_many, names[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* More than the ring holds, faster than it is read. */
static void flood(void)
{
	await_agent();
	for (uint32_t i = 0; i < 400000; i++)
		put_kernel("flood", 10, 7, i);
}

/* A child has no agent: its records do not count, and it ends as without an agent. */
static void forks(void)
{
	int status;
	pid_t child;

	await_agent();
	put_kernel("before", 10, 7, 1);
	child = fork();
	if (!child) {
		for (uint32_t i = 0; i < 20000; i++)
			put_kernel("of the child", 10, 7, i);
		exit(7);
	}
	waitpid(child, &status, 0);
	printf("child %d\n", status);
	put_kernel("after", 10, 7, 2);
}

static void executes(char *self)
{
	char *argv[] = {self, "records", NULL};

	await_agent();
	put_kernel("before exec", 10, 7, 1);
	sleep_ms(500);
	execv(self, argv);
}

/* The agent's descriptors are closed and their numbers reused: the other files get no data. */
static void closes(void)
{
	int ends[64][2], bytes = 0;
	char buffer[64];

	await_agent();
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	for (int i = 0; i < 64; i++)
		if (pipe2(ends[i], O_NONBLOCK))
			exit(1);
	put_kernel("unheard", 10, 7, 1);
	sleep_ms(600);
	for (int i = 0; i < 64; i++)
		bytes += read(ends[i][0], buffer, sizeof(buffer)) > 0;
	printf("foreign bytes %d\n", bytes);
}

/* Until stdin is closed. */
static void idle(void)
{
	char byte;

	await_agent();
	known_say("idle");
	while (read(0, &byte, 1) > 0)
		;
	put_kernel("afterwards", 10, 7, 1); /* to the file that has it now */
	stub_complete();
	stub_complete_unknown();
}

#define WORKERS 2

/* Until the pipe ends. The exit handlers of the parent's agent run in the child, too. */
static void load_data(int from)
{
	uint64_t sum = 0;
	char byte;

	while (read(from, &byte, 1) == 1) {
		char *batch = malloc(1000);

		memset(batch, byte, 1000);
		sum += (uint64_t)batch[999];
		free(batch);
	}
	put_kernel("of a worker", 10, 7, 1);
	exit(sum == 5 * 'x' ? 7 : 8);
}

/* As in a DataLoader: workers are forked once the agent records, and outlive some steps. */
static void workers(void)
{
	pid_t pids[WORKERS];
	int ends[WORKERS][2], status, good = 0;

	known_ready();
	known_go();
	await_agent();
	for (int i = 0; i < WORKERS; i++) {
		if (pipe2(ends[i], O_CLOEXEC))
			exit(1);
		pids[i] = fork();
		if (pids[i])
			continue;
		for (int k = 0; k <= i; k++)
			close(ends[k][1]);
		load_data(ends[i][0]);
	}
	for (uint32_t step = 0; step < 5; step++) {
		for (int i = 0; i < WORKERS; i++)
			if (write(ends[i][1], "x", 1) != 1)
				exit(1);
		train_step(1 + 2 * step);
	}
	stub_complete();
	for (int i = 0; i < WORKERS; i++) {
		close(ends[i][1]);
		good += waitpid(pids[i], &status, 0) == pids[i] && WEXITSTATUS(status) == 7;
	}
	known_say("done");
	while (known_go())
		;
	known_expect("workers", "good", good);
}

/* It ends by a signal; a worker stays, with all inherited descriptors. */
static void orphans(void)
{
	known_ready();
	known_go();
	await_agent();
	train_step(1);
	stub_complete();
	if (!fork()) {
		sleep_ms(8000);
		_exit(0);
	}
	sleep_ms(500);
	raise(SIGKILL);
}

/* The agent is injected while it runs. */
static void attached(void)
{
	known_ready();
	while (known_go()) {
		await_agent();
		for (uint32_t i = 0; i < 5; i++)
			train_step(1 + 2 * i);
		stub_complete();
		known_say("done");
	}
}

static void profiles(void)
{
	await_agent();
	put_kernel("before", 10, 7, 1);
	sleep_ms(500); /* records that are not flushed by then are the profiler's */
	printf("profiler %d\n", stub_profiler_begins());
	fflush(stdout);
	sleep_ms(1000);
}

/* The agent is refused, or absent: prints so after a while. */
static void waits(void)
{
	sleep_ms(500);
}

int main(int argc, char **argv)
{
	const char *scenario = argc > 1 ? argv[1] : "records";
	const char *text = getenv("STUB_CUPTI_VERSION");

	version = text ? (uint32_t)atoi(text) : 130001;
	if (strcmp(scenario, "no-init") != 0)
		cuInit(0);
	if (!strcmp(scenario, "records") || !strcmp(scenario, "exits"))
		records();
	else if (!strcmp(scenario, "devices"))
		two_devices();
	else if (!strcmp(scenario, "drops"))
		drops();
	else if (!strcmp(scenario, "threads"))
		two_threads();
	else if (!strcmp(scenario, "flood"))
		flood();
	else if (!strcmp(scenario, "forks"))
		forks();
	else if (!strcmp(scenario, "executes"))
		executes(argv[0]);
	else if (!strcmp(scenario, "closes"))
		closes();
	else if (!strcmp(scenario, "idle"))
		idle();
	else if (!strcmp(scenario, "attached"))
		attached();
	else if (!strcmp(scenario, "profiles"))
		profiles();
	else if (!strcmp(scenario, "graphs"))
		graphs();
	else if (!strcmp(scenario, "workers"))
		workers();
	else if (!strcmp(scenario, "orphans"))
		orphans();
	else
		waits();
	say_cupti();
	if (!strcmp(scenario, "exits")) {
		sleep_ms(400); /* a flush of the agent's */
		_exit(0);
	}
	return 0;
}
