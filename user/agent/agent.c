// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent's thread: begins, reads what CUPTI has completed, and leaves.
 *
 * Its descriptors are in the program's table, and a program that closes all of them (daemons do)
 * may get the same number for a file of its own. So the socket's inode is checked before each use,
 * the ring's memfd is closed when it is mapped, and waiting is done on a futex.
 */
#include "agent.h"

#include "libc.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_NS       200000000ull
#define WAIT_NS	       50000000ull    /* the socket is read so often */
#define START_NS       10000000000ull /* the tracer sends START within */
#define DRIVER_POLL_NS 2000000ull     /* cuInit may be under way */
#define EXIT_NS	       1000000000ull  /* the program's exit waits so long at most */
#define STACK_BYTES    (256u << 10)
#define FLUSH_FORCED   1 /* CUPTI_ACTIVITY_FLAG_FLUSH_FORCED */

/* Injectors find it in the file by its magic and write to it: never folded. */
__attribute__((used)) volatile struct perfx_agent_config perfx_agent_config = {
	.magic = PERFX_AGENT_MAGIC,
	.version = PERFX_AGENT_VERSION,
	.size = sizeof(struct perfx_agent_config),
	.socket_fd = -1,
};

/* The bounds of the image, by the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static pid_t own_pid;
/* Into a process that ran already, rather than loaded by CUDA as it was initialised. */
static bool is_injected;
static int socket_fd = -1;
static ino_t socket_inode;

/* Read from the environment while no other thread can change it. */
static char socket_name[108];
static char other_injection[200];

/* Bits of what the thread is asked for; a futex. */
#define ASKED_DRAIN 0x1
#define ASKED_EXIT  0x2
#define HAS_ENDED   0x4 /* by the thread, for the program's exit */
static _Atomic uint32_t attention;

static long system_pid(void)
{
	return syscall(SYS_getpid); /* older C libraries keep the parent's after a raw clone */
}

bool agent_is_here(void)
{
	return system_pid() == own_pid;
}

uint64_t agent_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void ask(uint32_t bits)
{
	int saved = errno;

	if ((atomic_fetch_or(&attention, bits) & bits) != bits)
		syscall(SYS_futex, &attention, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	errno = saved;
}

void agent_wake(void)
{
	ask(ASKED_DRAIN);
}

/* Until the word is another than was seen, or for so long. */
static void wait_for(uint32_t seen, uint64_t ns)
{
	struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000u),
				   .tv_nsec = (long)(ns % 1000000000u)};

	syscall(SYS_futex, &attention, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
}

static ino_t inode_of(int fd)
{
	struct stat stat;

	/* the function is not in older C libraries */
	return syscall(SYS_fstat, fd, &stat) ? 0 : stat.st_ino;
}

static bool socket_is_ours(void)
{
	return socket_fd >= 0 && socket_inode && inode_of(socket_fd) == socket_inode;
}

static int connect_by_name(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(name);
	int fd;

	if (!length || length >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path + 1, name, length);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void answer(enum perfx_agent_message kind, const char *text, uint64_t left_mapped_bytes)
{
	struct perfx_agent_answer message = {
		.kind = kind,
		.version = PERFX_AGENT_VERSION,
		.cupti_version = cupti.version,
		.driver_version = (uint32_t)cupti.driver_version,
		.tid = (uint32_t)syscall(SYS_gettid),
		.left_mapped_bytes = left_mapped_bytes,
	};

	memcpy(message.text, text, strnlen(text, sizeof(message.text) - 1));
	if (socket_is_ours())
		send(socket_fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A message of the tracer's and the descriptor that came with it, or -1. The kind; 0: nothing has
 * come; -1: the tracer is gone. */
static int receive(struct perfx_agent_start *message, int *memfd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {.iov_base = message, .iov_len = sizeof(*message)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};
	struct cmsghdr *first;
	ssize_t size;

	if (!socket_is_ours())
		return -1;
	*memfd = -1;
	size = recvmsg(socket_fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (size < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	first = CMSG_FIRSTHDR(&header);
	if (first && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS)
		memcpy(memfd, CMSG_DATA(first), sizeof(*memfd));
	return size == sizeof(*message) ? (int)message->kind : -1;
}

static void drain(void)
{
	buffers_drain(records_parse);
	records_count_drops();
	if (ring_publish())
		answer(PERFX_AGENT_FILLED, "", 0);
}

static bool wait_for_start(struct perfx_agent_start *start)
{
	uint64_t until_ns = agent_now_ns() + START_NS;
	int memfd = -1, kind = 0;
	bool mapped;

	while (!kind && agent_now_ns() < until_ns && !(atomic_load(&attention) & ASKED_EXIT)) {
		wait_for(0, DRIVER_POLL_NS);
		kind = receive(start, &memfd);
	}
	mapped = kind == PERFX_AGENT_START && start->version == PERFX_AGENT_VERSION && memfd >= 0 &&
		 ring_map(memfd, start->ring_bytes);
	if (memfd >= 0)
		close(memfd);
	return mapped;
}

/* What ends the recording. */
enum end { END_NONE = 0, END_STOP, END_STEP_ASIDE, END_TRACER_GONE, END_DEADLINE, END_EXIT };

static enum end receive_end(uint64_t deadline_ns)
{
	struct perfx_agent_start message;
	int memfd = -1, kind = receive(&message, &memfd);

	if (memfd >= 0)
		close(memfd);
	if (atomic_load(&attention) & ASKED_EXIT)
		return END_EXIT;
	if (kind < 0)
		return END_TRACER_GONE;
	if (kind == PERFX_AGENT_STOP)
		return END_STOP;
	if (kind == PERFX_AGENT_STEP_ASIDE)
		return END_STEP_ASIDE;
	return deadline_ns && agent_now_ns() >= deadline_ns ? END_DEADLINE : END_NONE;
}

/* The driver may be initialising itself, and this library with it. */
static bool wait_for_driver(uint64_t deadline_ns, char *why, size_t why_size)
{
	enum driver driver;

	while ((driver = driver_state(why, why_size)) == DRIVER_NOT_YET) {
		if (receive_end(deadline_ns)) {
			snprintf(why, why_size, "CUDA was not initialised");
			return false;
		}
		wait_for(0, DRIVER_POLL_NS);
	}
	return driver == DRIVER_READY;
}

static enum end record(uint64_t deadline_ns)
{
	uint64_t flush_ns = agent_now_ns() + FLUSH_NS;
	enum end end;

	while (!(end = receive_end(deadline_ns))) {
		uint32_t asked = atomic_fetch_and(&attention, ~(uint32_t)ASKED_DRAIN);
		bool is_due = agent_now_ns() >= flush_ns;

		if (is_due) {
			cupti.flush_all(0);
			flush_ns = agent_now_ns() + FLUSH_NS;
		}
		if (is_due || (asked & ASKED_DRAIN))
			drain();
		wait_for(0, WAIT_NS);
	}
	return end;
}

static uint64_t image_bytes(void)
{
	return (uintptr_t)_end - (uintptr_t)__ehdr_start;
}

static void stop(enum end end)
{
	static const char *const why[] = {[END_STOP] = "",
					  [END_DEADLINE] = "its time was over",
					  [END_EXIT] = "the process exits",
					  [END_TRACER_GONE] = "the tracer is gone"};

	/* while the process exits, CUPTI is only asked for what it has */
	if (end != END_EXIT)
		cupti_disable();
	cupti.flush_all(FLUSH_FORCED);
	drain();
	if (end != END_EXIT)
		buffers_end();
	answer(PERFX_AGENT_STOPPED, why[end],
	       end == END_EXIT ? 0 : image_bytes() + buffers_mapped_bytes());
}

static void refuse(const char *why)
{
	answer(PERFX_AGENT_REFUSED, why, image_bytes() + buffers_mapped_bytes());
}

static void work(void)
{
	struct perfx_agent_start start;
	char text[PERFX_AGENT_TEXT] = "";
	enum end end;

	socket_fd = perfx_agent_config.socket_fd;
	if (socket_fd < 0)
		socket_fd = connect_by_name(socket_name);
	socket_inode = socket_fd >= 0 ? inode_of(socket_fd) : 0;
	if (!socket_inode)
		return;
	if (!wait_for_start(&start)) {
		refuse("the tracer's messages are not understood");
		return;
	}
	if (!wait_for_driver(start.deadline_ns, text, sizeof(text))) {
		refuse(text);
		return;
	}
	driver_tell_devices();
	/* CUPTI 13.0 crashes in the launch of a graph that was instantiated before GRAPH_TRACE was
	 * enabled; its nodes can be recorded */
	if (is_injected)
		start.flags |= PERFX_AGENT_GRAPH_NODES;
	if (!cupti_open(*other_injection ? other_injection : NULL, text, sizeof(text)) ||
	    !cupti_begin(start.level, start.flags, text, sizeof(text))) {
		refuse(text);
		return;
	}
	answer(PERFX_AGENT_HELLO, cupti.path, 0);
	end = record(start.deadline_ns);
	if (end != END_STEP_ASIDE) {
		stop(end);
		return;
	}
	/* CUPTI belongs to the process's profiler: what that has enabled by now must stay so, and
	 * its callbacks have taken the place of ours. Complete buffers are read; nothing of CUPTI
	 * is called. */
	buffers_drain(records_parse);
	ring_publish();
	answer(PERFX_AGENT_STEPPED_ASIDE, "the process's own profiler has begun",
	       image_bytes() + buffers_mapped_bytes());
}

static void *thread_main(void *ctx)
{
	prctl(PR_SET_NAME, "perfx-gpu");
	work();
	if (socket_is_ours())
		close(socket_fd);
	socket_fd = -1;
	ring_unmap();
	ask(HAS_ENDED);
	return ctx;
}

/* The last records are asked for before the driver is torn down. */
static void on_exit_of_program(void)
{
	uint64_t until_ns = agent_now_ns() + EXIT_NS;
	uint32_t seen;

	if (!agent_is_here())
		return;
	ask(ASKED_EXIT);
	while (!((seen = atomic_load(&attention)) & HAS_ENDED) && agent_now_ns() < until_ns)
		wait_for(seen, WAIT_NS);
}

static bool start_thread(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int err;

	if (pthread_attr_init(&attributes))
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before); /* of this thread, and of the one that it starts */
	err = pthread_create(&thread, &attributes, thread_main, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return !err;
}

__attribute__((constructor)) static void begin(void)
{
	const char *name = getenv(PERFX_AGENT_SOCKET_VARIABLE);
	const char *other = getenv("CUDA_INJECTION64_PATH");

	is_injected = perfx_agent_config.socket_fd >= 0 || perfx_agent_config.socket_name[0];
	snprintf(socket_name, sizeof(socket_name), "%s", name ? name : "");
	for (size_t i = 0; perfx_agent_config.socket_name[0] && i < PERFX_AGENT_SOCKET_NAME; i++)
		socket_name[i] = perfx_agent_config.socket_name[i];
	if (is_injected && other)
		snprintf(other_injection, sizeof(other_injection), "%s", other);
	if (!is_injected && !*socket_name)
		return;
	own_pid = (pid_t)system_pid();
	if (start_thread())
		atexit(on_exit_of_program);
}

/* Called by the driver in the library that CUDA_INJECTION64_PATH names; 1 is success. */
__attribute__((visibility("default"))) int InitializeInjection(void);

int InitializeInjection(void)
{
	return 1;
}
