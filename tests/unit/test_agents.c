// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent in a program (workloads/gpu_agent.c) whose CUDA driver and CUPTI are stubs, and the
 * tracer's side of it: what CUPTI records is known, and so must be what comes out.
 */
#include "gpu/agents.h"

#include "base/clock.h"
#include "decode/decode.h"
#include "gpu/internal.h"
#include "perfx_agent.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESS	   7 /* of the program; 8 of what it executes */
#define EVENTS_MAX 1000000

static struct {
	struct sink sink;
	struct perfx_gpu_activity activities[500000];
	size_t activities_count;
	struct perfx_gpu_call calls[5000];
	size_t calls_count;
	struct perfx_gpu_overflow sums[16];
	size_t sums_count;
	char names[64][80];
	struct perfx_gpu_state states[16];
	char state_texts[16][300];
	size_t states_count;
	uint64_t lost;
} got;

static void take(struct sink *sink, const void *bytes, size_t size)
{
	struct event event;
	size_t skip;

	(void)sink;
	cr_assert_eq(decode_event(bytes, size, &event, &skip), (ssize_t)size);
	switch (event.kind) {
	case PERFX_KIND_GPU_ACTIVITY:
		got.activities[got.activities_count++] = event.gpu_activity;
		break;
	case PERFX_KIND_GPU_CALL:
		got.calls[got.calls_count++] = event.gpu_call;
		break;
	case PERFX_KIND_GPU_NAME:
		snprintf(got.names[event.gpu_name.name], sizeof(got.names[0]), "%s",
			 event.strings[0]);
		break;
	case PERFX_KIND_GPU_STATE:
		snprintf(got.state_texts[got.states_count], sizeof(got.state_texts[0]), "%s",
			 event.strings[0]);
		got.states[got.states_count++] = event.gpu_state;
		break;
	case PERFX_KIND_GPU_OVERFLOW:
		got.sums[got.sums_count++] = event.gpu_overflow;
		break;
	case PERFX_KIND_LOSS:
		cr_assert_eq(event.loss.loss, PERFX_LOSS_GPU_RECORDS);
		got.lost += event.loss.count;
		break;
	default:
		cr_assert_fail("a record of kind %d", event.kind);
	}
}

static pid_t child;
static uint32_t child_process;
static int child_stdin, child_stdout;
static char output[4096];
static struct agents *agents;
static struct gpu_names *names;
static struct agents_parts parts;
static char build[PATH_MAX], socket_name[AGENTS_NAME_BYTES];

static bool all_are_traced; /* but not described */

static int64_t process_of(void *ctx, pid_t pid)
{
	(void)ctx;
	if (pid != child)
		return all_are_traced ? 0 : -ESRCH;
	if (!child_process)
		return 0;
	/* having stopped before it ended, it has executed another program */
	return child_process + (got.states_count &&
				got.states[got.states_count - 1].state == PERFX_GPU_AGENT_STOPPED);
}

/* NVML, which opens only after some questions and lists GPUs 0 and 1. */
static int nvml_delay, nvml_asked;

static int device_of(void *ctx, const char *uuid)
{
	(void)ctx;
	if (nvml_asked++ < nvml_delay)
		return -EAGAIN;
	if (!strcmp(uuid, "GPU-00000000-0000-0000-0000-000000000000"))
		return 0;
	return strcmp(uuid, "GPU-01010101-0101-0101-0101-010101010101") ? -ENOENT : 1;
}

static void set_up(void)
{
	ssize_t length = readlink("/proc/self/exe", build, sizeof(build) - 1);

	cr_assert_gt(length, 0);
	build[length] = '\0';
	dirname(build);
	dirname(build);
	got.sink.record = take;
	child_process = PROCESS;
	names = gpu_names__new(&got.sink);
	parts = (struct agents_parts){.sink = &got.sink,
				      .names = names,
				      .level = 1,
				      .events_max = EVENTS_MAX,
				      .process_of = process_of};
}

static void tear_down(void)
{
	agents__free(agents);
	gpu_names__free(names);
}

TestSuite(agents, .init = set_up, .fini = tear_down, .timeout = 60);

/* environment: "NAME=value", NULL at its end. */
static void exec_program(const char *scenario, char *const *environment, const int *in,
			 const int *out)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/lib/perfx/libperfx-gpu.so", build);
	setenv("CUDA_INJECTION64_PATH", path, 1);
	setenv(PERFX_AGENT_SOCKET_VARIABLE, socket_name, 1);
	for (; environment && *environment; environment++)
		putenv(*environment);
	dup2(in[0], 0);
	dup2(out[1], 1);
	snprintf(path, sizeof(path), "%s/workloads/gpu_agent", build);
	execl(path, path, scenario, NULL);
	_exit(127);
}

static void open_socket(void)
{
	agents = agents__new(&parts);
	cr_assert_not_null(agents);
	agents_socket_name(socket_name);
	cr_assert_eq(agents__listen(agents, socket_name), 0);
	agents__begin(agents, clock_monotonic_ns(), 0);
}

static void start(const char *scenario, char *const *environment)
{
	int in[2], out[2];

	if (!agents)
		open_socket();
	cr_assert_eq(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	child = fork();
	if (!child)
		exec_program(scenario, environment, in, out);
	close(in[0]);
	close(out[1]);
	child_stdin = in[1];
	child_stdout = out[0];
}

static void poll_for_ms(int ms)
{
	struct pollfd fd = {.fd = agents__fd(agents), .events = POLLIN};

	poll(&fd, 1, ms);
	agents__poll(agents);
}

/* Everything that the program says. */
static void hear(void)
{
	size_t length = strlen(output);
	ssize_t size;

	while ((size = read(child_stdout, output + length, sizeof(output) - 1 - length)) > 0)
		length += (size_t)size;
}

/* Its status. */
static int finish(void)
{
	int status = -1;

	while (waitpid(child, &status, WNOHANG) == 0)
		poll_for_ms(20);
	agents__poll(agents);
	agents__stop(agents, clock_monotonic_ns());
	agents__emit_sums(agents);
	hear();
	return status;
}

static void run(const char *scenario, char *const *environment)
{
	start(scenario, environment);
	cr_assert_eq(finish(), 0, "%s", output);
}

static void expect_output(const char *text)
{
	cr_assert_not_null(strstr(output, text), "'%s' is not in:\n%s", text, output);
}

static void expect_state(enum perfx_gpu_agent_state state, const char *text)
{
	cr_assert_gt(got.states_count, 0, "no state");
	for (size_t i = 0; i < got.states_count; i++)
		if (got.states[i].state == state && strstr(got.state_texts[i], text))
			return;
	cr_assert_fail("no state %d with '%s'; the last is %d '%s'", state, text,
		       got.states[got.states_count - 1].state,
		       got.state_texts[got.states_count - 1]);
}

static size_t count_of(enum perfx_gpu_op op, const char *name, uint64_t *total_ns)
{
	size_t count = 0;

	*total_ns = 0;
	for (size_t i = 0; i < got.activities_count; i++) {
		const struct perfx_gpu_activity *activity = &got.activities[i];

		if (activity->op != op || strcmp(got.names[activity->name], name) != 0)
			continue;
		count++;
		*total_ns += activity->end_ns - activity->time_ns;
	}
	return count;
}

static void expect_kernels(const char *name, size_t count, uint64_t total_ns)
{
	uint64_t found_ns;

	cr_assert_eq(count_of(PERFX_GPU_OP_KERNEL, name, &found_ns), count, "%s", name);
	cr_assert_eq(found_ns, total_ns, "%s", name);
}

static const struct perfx_gpu_activity *only(enum perfx_gpu_op op, uint64_t call)
{
	const struct perfx_gpu_activity *found = NULL;

	for (size_t i = 0; i < got.activities_count; i++) {
		if (got.activities[i].op != op || got.activities[i].call != call)
			continue;
		cr_assert_null(found, "two of call %d", (int)call);
		found = &got.activities[i];
	}
	cr_assert_not_null(found, "none of call %d", (int)call);
	return found;
}

static void expect_copy(uint64_t call, enum perfx_gpu_direction direction,
			enum perfx_gpu_host_memory memory, uint64_t bytes)
{
	const struct perfx_gpu_activity *copy = only(PERFX_GPU_OP_COPY, call);

	cr_assert_eq(copy->direction, direction);
	cr_assert_eq(copy->host_memory, memory);
	cr_assert_eq(copy->bytes, bytes);
	cr_assert_eq(copy->end_ns - copy->time_ns, 200);
	cr_assert_eq(copy->stream, 7);
	cr_assert_eq(copy->graph, 0);
}

static void expect_call(uint64_t number, const char *name, enum perfx_gpu_op op)
{
	size_t found = 0;

	for (size_t i = 0; i < got.calls_count; i++) {
		const struct perfx_gpu_call *call = &got.calls[i];

		if (call->call != number || strcmp(got.names[call->name], name) != 0)
			continue;
		found++;
		cr_assert_eq(call->op, op);
		cr_assert_eq(call->tid, (uint32_t)child);
		cr_assert_eq(call->process, PROCESS);
	}
	cr_assert_eq(found, 1, "%s: %zu", name, found);
}

static void expect_records(void)
{
	const struct perfx_gpu_activity *kernel;

	expect_kernels("gemm", 3, 3000);
	expect_kernels("reduce", 3, 1500);
	expect_kernels("(kernel without a name)", 1, 100);
	kernel = only(PERFX_GPU_OP_KERNEL, 3);
	cr_assert_eq(kernel->process, PROCESS);
	cr_assert_eq(kernel->stream, 7);
	cr_assert_eq(kernel->device, 0);
	cr_assert_eq(kernel->graph, 0);
	cr_assert_eq(kernel->registers, 40);
	cr_assert_arr_eq(kernel->grid, ((__u32[]){8, 4, 2}), sizeof(kernel->grid));
	cr_assert_arr_eq(kernel->block, ((__u32[]){128, 2, 1}), sizeof(kernel->block));
	cr_assert_eq(kernel->static_shared_bytes, 1024);
	cr_assert_eq(kernel->dynamic_shared_bytes, 2048);
	expect_copy(101, PERFX_GPU_HOST_TO_DEVICE, PERFX_GPU_HOST_MEMORY_PINNED, 4096);
	expect_copy(102, PERFX_GPU_HOST_TO_DEVICE, PERFX_GPU_HOST_MEMORY_PINNED, 4096);
	expect_copy(103, PERFX_GPU_DEVICE_TO_HOST, PERFX_GPU_HOST_MEMORY_PAGEABLE, 1000);
	expect_copy(104, PERFX_GPU_DEVICE_TO_DEVICE, PERFX_GPU_HOST_MEMORY_NONE, 50);
	expect_copy(105, PERFX_GPU_PEER, PERFX_GPU_HOST_MEMORY_NONE, 60);
	cr_assert_eq(only(PERFX_GPU_OP_MEMSET, 106)->bytes, 300);
	cr_assert_eq(only(PERFX_GPU_OP_SYNC, 107)->stream, 7);
	cr_assert_eq(only(PERFX_GPU_OP_GRAPH, 108)->graph, 5);
	expect_call(1, "cudaLaunchKernel", PERFX_GPU_OP_KERNEL);
	expect_call(107, "cudaStreamSynchronize", PERFX_GPU_OP_SYNC);
	expect_call(109, "cuLaunchKernel", PERFX_GPU_OP_KERNEL);
	cr_assert_eq(got.calls_count, 8);
	cr_assert_eq(got.lost, 1); /* the one without times */
	expect_output("misused=0");
}

/* At the program's exit the rest is asked for. */
Test(agents, what_cupti_records_comes_out)
{
	run("records", NULL);
	expect_records();
	expect_state(PERFX_GPU_AGENT_ON, "CUPTI 13.0 (130001), ");
	expect_state(PERFX_GPU_AGENT_STOPPED, "the process exits");
}

/* Records of every size, from CUDA 10's to one that nobody knows yet. */
static void run_version(const char *version)
{
	char *environment[] = {NULL, NULL};

	cr_assert_gt(asprintf(&environment[0], "STUB_CUPTI_VERSION=%s", version), 0);
	run("records", environment);
	free(environment[0]);
	expect_records();
}

#define VERSION(number)                   \
	Test(agents, of_version_##number) \
	{                                 \
		run_version(#number);     \
	}

VERSION(12)
VERSION(13)
VERSION(15)
VERSION(17)
VERSION(18)
VERSION(19)
VERSION(26)
VERSION(27)
VERSION(130500)

Test(agents, a_program_that_ends_at_once_has_what_was_flushed)
{
	run("exits", NULL);
	expect_records();
	expect_state(PERFX_GPU_AGENT_STOPPED, "the process has ended");
}

Test(agents, threads_put_records_side_by_side)
{
	run("threads", NULL);
	expect_kernels("first", 1000, 10000);
	expect_kernels("second", 1000, 10000);
	cr_assert_eq(got.lost, 0);
}

Test(agents, what_finds_no_buffer_is_counted)
{
	run("drops", NULL);
	expect_output("held 8");
	expect_kernels("lost", 0, 0);
	cr_assert_eq(got.lost, 30);
}

/* Before API 27 there is no "no buffer": four more are handed out, to be thrown away. */
Test(agents, before_12_9_buffers_are_thrown_away)
{
	run("drops", (char *[]){"STUB_CUPTI_VERSION=26", NULL});
	expect_output("held 12");
	cr_assert_eq(got.lost, 30);
}

/* Nothing waits for the tracer: what it has not read in time is lost, and every one is counted. */
Test(agents, no_record_is_lost_uncounted)
{
	run("flood", NULL);
	cr_assert_eq(got.activities_count + got.lost, 400000, "%zu + %zu", got.activities_count,
		     (size_t)got.lost);
}

Test(agents, a_forked_child_has_no_agent)
{
	run("forks", NULL);
	expect_output("child 1792"); /* exit(7) */
	expect_kernels("before", 1, 10);
	expect_kernels("after", 1, 10);
	expect_kernels("of the child", 0, 0);
	cr_assert_eq(got.activities_count, 2);
}

Test(agents, a_program_that_closes_all_descriptors_gets_none_of_our_bytes)
{
	run("closes", NULL);
	expect_output("foreign bytes 0");
	expect_output("misused=0");
}

/* The same pid, another program: an agent of its own. */
Test(agents, an_executed_program_has_an_agent_of_its_own)
{
	run("executes", NULL);
	expect_kernels("before exec", 1, 10);
	expect_kernels("gemm", 3, 3000);
	cr_assert_eq(only(PERFX_GPU_OP_COPY, 101)->process, PROCESS + 1);
}

static void expect_devices(const char *visible, uint32_t first, uint32_t second)
{
	char *environment[] = {NULL, NULL};

	cr_assert_gt(asprintf(&environment[0], "STUB_DEVICES=%s", visible), 0);
	run("devices", environment);
	free(environment[0]);
	cr_assert_eq(only(PERFX_GPU_OP_KERNEL, 1)->device, first);
	cr_assert_eq(only(PERFX_GPU_OP_KERNEL, 2)->device, second);
}

Test(agents, devices_are_numbered_as_nvml_numbers_them)
{
	parts.device_of = device_of;
	expect_devices("10", 1, 0);
}

Test(agents, a_device_that_nvml_does_not_list_is_no_other)
{
	parts.device_of = device_of;
	expect_devices("71", AGENT_DEVICES_UNLISTED, 1);
}

Test(agents, without_nvml_devices_keep_cudas_numbers)
{
	expect_devices("10", 0, 1);
}

Test(agents, nvml_that_is_being_opened_is_waited_for)
{
	parts.device_of = device_of;
	nvml_delay = 3;
	expect_devices("10", 1, 0);
}

/* Beyond two seconds nobody waits: the numbers are nobody else's. */
Test(agents, nvml_that_does_not_open_is_not_waited_for)
{
	parts.device_of = device_of;
	nvml_delay = INT_MAX;
	expect_devices("10", AGENT_DEVICES_UNLISTED, AGENT_DEVICES_UNLISTED + 1);
}

static void await_idle(void)
{
	while (!strstr(output, "idle")) {
		struct pollfd fd = {.fd = child_stdout, .events = POLLIN};
		size_t length = strlen(output);

		poll_for_ms(20);
		if (poll(&fd, 1, 0) == 1)
			cr_assert_gt(read(child_stdout, output + length, 100), 0);
	}
	while (!got.states_count)
		poll_for_ms(20);
}

static void let_end(void)
{
	int status;

	close(child_stdin);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	hear();
}

/* cuptiFinalize destroys what threads of the program that launch meanwhile work with. */
Test(agents, a_stop_leaves_cupti_and_gives_its_buffers_back)
{
	start("idle", NULL);
	await_idle();
	agents__stop(agents, clock_monotonic_ns());
	expect_state(PERFX_GPU_AGENT_STOPPED, "CUPTI stays active: launches may stay slower");
	cr_assert_gt(got.states[1].left_mapped_bytes, 4096);
	cr_assert_lt(got.states[1].left_mapped_bytes, 1 << 20);
	let_end();
	expect_output("misused=0 finalised=0 enabled=0 subscribers=0");
}

Test(agents, it_stops_when_the_tracer_is_gone)
{
	start("idle", NULL);
	await_idle();
	agents__free(agents);
	agents = NULL;
	usleep(500000);
	let_end();
	expect_output("misused=0 finalised=0 enabled=0");
}

Test(agents, it_stops_at_its_deadline)
{
	start("idle", NULL);
	agents__begin(agents, clock_monotonic_ns(), clock_monotonic_ns() + 1000000000u);
	await_idle();
	for (int i = 0; i < 100 && got.states_count < 2; i++)
		poll_for_ms(50);
	expect_state(PERFX_GPU_AGENT_STOPPED, "its time was over");
	let_end();
	expect_output("finalised=0 enabled=0");
}

/* It has what the profiler has enabled by now, and calls nothing of CUPTI any more. */
Test(agents, it_steps_aside_for_the_programs_own_profiler)
{
	start("profiles", NULL);
	while (!got.activities_count)
		poll_for_ms(20);
	usleep(500000);
	agents__step_aside(agents, PROCESS);
	cr_assert_eq(finish(), 0);
	expect_output("profiler 0"); /* it found its place free */
	expect_output("misused=0 finalised=0 enabled=1 subscribers=1");
	expect_state(PERFX_GPU_AGENT_STEPPED_ASIDE, "the process's own profiler has begun");
}

static void expect_refusal(const char *variable, const char *why)
{
	run("waits", (char *[]){(char *)variable, NULL});
	expect_state(PERFX_GPU_AGENT_REFUSED, why);
	cr_assert_gt(got.states[0].left_mapped_bytes, 4096); /* the library stays */
	cr_assert_eq(got.activities_count, 0);
	expect_output("misused=0 finalised=0 enabled=0 subscribers=0");
}

#define REFUSAL(name, variable, why)           \
	Test(agents, refuses_##name)           \
	{                                      \
		expect_refusal(variable, why); \
	}

REFUSAL(without_a_device, "STUB_NO_DEVICE=1", "the CUDA driver has no device (error 100)")
REFUSAL(beside_another_profiler, "STUB_CUPTI_OTHER=Kineto",
	"another profiler uses CUPTI: CUPTI for Kineto")
REFUSAL(a_release_that_deadlocks, "STUB_CUPTI_VERSION=130000", "13.0 can deadlock")
REFUSAL(a_release_that_is_too_old, "STUB_CUPTI_VERSION=11", "CUPTI 11 is too old")
REFUSAL(cupti_newer_than_the_driver, "STUB_DRIVER=12080", "newer than the driver (CUDA 12.8)")
REFUSAL(without_the_privilege, "STUB_CUPTI_FAIL=cuptiActivityEnable:35",
	"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)")
REFUSAL(a_cupti_that_does_not_work, "STUB_CUPTI_FAIL=cuptiGetVersion:999", "error 999")
REFUSAL(without_its_clock, "STUB_CUPTI_FAIL=cuptiActivityRegisterTimestampCallback:15",
	"cannot be set up")

/* 13.2.86 dies where it is called without a driver: it is not called. */
Test(agents, a_cupti_that_crashes_without_a_device_is_not_called)
{
	run("waits", (char *[]){"STUB_NO_DEVICE=1", "STUB_CUPTI_CRASH=1", NULL});
	expect_state(PERFX_GPU_AGENT_REFUSED, "no device");
}

Test(agents, without_cuda_there_is_no_agent)
{
	run("no-init", (char *[]){"STUB_CUPTI_CRASH=1", NULL});
	cr_assert_eq(got.states_count, 0);
}

Test(agents, a_process_that_is_never_described_is_not_let_in)
{
	child_process = 0;
	run("waits", NULL);
	cr_assert_eq(got.states_count, 0);
}

static int connect_to_agents(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(socket_name));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path + 1, socket_name);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, size), 0);
	return fd;
}

/* More connections than there are places; each is closed at once. */
static void connect_often(void)
{
	for (int i = 0; i < 1100; i++) {
		close(connect_to_agents());
		agents__poll(agents);
	}
}

static void expect_the_programs_records(void)
{
	run("records", NULL);
	cr_assert_eq(got.states[0].state, PERFX_GPU_AGENT_ON);
	cr_assert_eq(got.states[0].process, PROCESS);
	cr_assert_gt(got.activities_count, 0);
}

Test(agents, a_process_that_is_not_traced_takes_no_place)
{
	int fd;
	char byte;

	open_socket();
	fd = connect_to_agents();
	agents__poll(agents);
	cr_assert_eq(recv(fd, &byte, 1, MSG_DONTWAIT), 0); /* closed */
	close(fd);
	connect_often();
	expect_the_programs_records();
}

Test(agents, the_place_of_an_agent_that_has_ended_is_free)
{
	all_are_traced = true;
	open_socket();
	connect_often();
	expect_the_programs_records();
}

Test(agents, a_process_has_one_agent)
{
	int first, second;
	char byte;

	all_are_traced = true;
	open_socket();
	first = connect_to_agents();
	second = connect_to_agents();
	agents__poll(agents);
	cr_assert_eq(recv(first, &byte, 1, MSG_DONTWAIT), -1);
	cr_assert_eq(recv(second, &byte, 1, MSG_DONTWAIT), 0);
}

#define PROCESSES 300 /* more than one user's may have agents */

/* A process of its own with a connection. Its exit status: is it refused? */
static pid_t connect_in_a_child(uid_t uid, int ready_fd)
{
	pid_t pid = fork();
	char byte = 'x';
	int fd;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (uid && setuid(uid))
		_exit(2);
	fd = connect_to_agents();
	if (write(ready_fd, &byte, 1) != 1)
		_exit(2);
	_exit(recv(fd, &byte, 1, 0) == 0);
}

/* Only as root there is another user: the last one. */
Test(agents, one_users_processes_do_not_take_all_places)
{
	int ready[2], status, count = PROCESSES + !geteuid();
	pid_t other_users = 0;
	char byte;

	all_are_traced = true;
	open_socket();
	cr_assert_eq(getpgrp(), getpid()); /* nobody else gets the signal below */
	cr_assert_eq(pipe(ready), 0);
	for (int i = 0; i < count; i++) {
		other_users = connect_in_a_child(i == PROCESSES ? 65534 : 0, ready[1]);
		cr_assert_gt(other_users, 0);
		cr_assert_eq(read(ready[0], &byte, 1), 1);
		agents__poll(agents);
	}
	for (int i = 0; i < PROCESSES - 256; i++) {
		pid_t pid = waitpid(-1, &status, 0);

		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
		cr_assert(count == PROCESSES || pid != other_users);
	}
	/* the others have their connections */
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (waitpid(-1, &status, 0) > 0)
		cr_assert(WIFSIGNALED(status));
}

Test(agents, beyond_the_limit_sums_are_exact)
{
	uint64_t count = 0, total_ns = 0;

	parts.events_max = 100;
	run("threads", NULL);
	cr_assert_eq(got.activities_count, 100);
	cr_assert_eq(got.sums_count, 2);
	for (size_t i = 0; i < got.sums_count; i++) {
		cr_assert_eq(got.sums[i].process, PROCESS);
		cr_assert_eq(got.sums[i].op, PERFX_GPU_OP_KERNEL);
		cr_assert_eq(got.sums[i].stream, 7);
		cr_assert_arr_eq(got.sums[i].grid, ((__u32[]){8, 4, 2}), 12);
		cr_assert_eq(got.sums[i].dynamic_shared_bytes, 2048);
		cr_assert_eq(got.sums[i].static_shared_bytes, 1024);
		cr_assert_eq(got.sums[i].registers, 40);
		count += got.sums[i].count;
		total_ns += got.sums[i].total_ns;
	}
	cr_assert_eq(count, 1900);
	cr_assert_eq(total_ns, 19000);
}

Test(agents, the_image_has_its_configuration_once)
{
	size_t bytes, found = 0;
	const char *image = agent_image(&bytes);
	struct perfx_agent_config config = {0};

	cr_assert_eq(memcmp(image, "\177ELF", 4), 0);
	for (size_t i = 0; i + sizeof(config) <= bytes; i += 8) {
		if (memcmp(image + i, PERFX_AGENT_MAGIC, sizeof(config.magic)) != 0)
			continue;
		found++;
		memcpy(&config, image + i, sizeof(config));
	}
	cr_assert_eq(found, 1);
	cr_assert_eq(config.version, PERFX_AGENT_VERSION);
	cr_assert_eq(config.size, sizeof(config));
	cr_assert_eq(config.socket_fd, -1);
}

/* One file for every process: versions of symbols that it asks of the C library. */
Test(agents, the_image_needs_no_newer_c_library_than_2_17)
{
	static const char prefix[] = "GLIBC_2.";
	size_t bytes, found = 0;
	const char *image = agent_image(&bytes);
	const char *at = image;

	while ((at = memmem(at, bytes - (size_t)(at - image), prefix, sizeof(prefix) - 1))) {
		at += sizeof(prefix) - 1;
		cr_assert_leq(atoi(at), 17, "GLIBC_2.%d", atoi(at));
		found++;
	}
	cr_assert_gt(found, 0);
}
