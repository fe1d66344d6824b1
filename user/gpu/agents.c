// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/agents.h"

#include "base/clock.h"
#include "base/message.h"
#include "gpu/internal.h"
#include "perfx_record.h"
#include "proc/process.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Time from an agent's connection until its process's PROCESS record is in the stream. */
#define STRANGER_NS 5000000000u
/* NVML, by whose numbers devices are known, has answered by then; else theirs are unlisted. Less
 * than an agent waits for START. */
#define NVML_NS 2000000000u
/* Two seconds for CUPTI, and what the machine takes. */
#define STOP_MS 5000
/* Agents at a time: in all, and of one user, so that no user can take all places. */
#define AGENTS_MAX	1024
#define AGENTS_USER_MAX 256
/* Connections accepted per poll: a flood of them must not stop the tracer's other work. */
#define ACCEPTS_MAX 64
/* Refused connections reported one by one; further ones are only counted. */
#define REFUSALS_NAMED 10

enum agent_state {
	AGENT_STRANGER, /* its process has no PROCESS record in the stream yet */
	AGENT_STARTED,	/* has START */
	AGENT_ON,
	AGENT_ENDED, /* nothing more comes */
};

struct agent {
	enum agent_state state;
	int fd; /* -1: closed */
	/* Readable once the process has ended: its children may keep the socket open. -1: none. */
	int pidfd;
	pid_t pid;
	uid_t uid;
	uint32_t process;
	bool steps_aside; /* it was asked to */
	uint64_t connected_ns;
	uint32_t tid; /* of the agent's thread; 0: not known */
	struct agent_ring ring;
	struct agent_events events;
	uint64_t lost, lost_emitted; /* records */
};

struct agents {
	struct agents_parts parts;
	struct gpu_events all;
	int epoll_fd, listen_fd;
	uint64_t deadline_ns;
	struct agent **list; /* they stay where they are */
	size_t count, capacity;
	uint64_t refusals_count;
	bool said_limit;
};

struct agents *agents__new(const struct agents_parts *parts)
{
	struct agents *agents = calloc(1, sizeof(*agents));

	if (!agents)
		return NULL;
	agents->parts = *parts;
	agents->listen_fd = -1;
	agents->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	agents->all = (struct gpu_events){
		.sink = parts->sink,
		.names = parts->names,
		.events_max = parts->events_max,
		.device_of = parts->device_of,
		.ctx = parts->ctx,
	};
	if (agents->epoll_fd >= 0)
		return agents;
	free(agents);
	return NULL;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void free_agent(struct agent *agent)
{
	close_fd(&agent->fd);
	close_fd(&agent->pidfd);
	agent_ring_unmap(&agent->ring);
	agent_events_clear(&agent->events);
	free(agent);
}

void agents__free(struct agents *agents)
{
	if (!agents)
		return;
	for (size_t i = 0; i < agents->count; i++)
		free_agent(agents->list[i]);
	close_fd(&agents->listen_fd);
	close_fd(&agents->epoll_fd);
	gpu_events_clear(&agents->all);
	free(agents->list);
	free(agents);
}

int agents__fd(const struct agents *agents)
{
	return agents ? agents->epoll_fd : -1;
}

/* Before CUDA 13 versions were counted: the index is the number. */
static const char *const counted_releases[] = {
	[12] = "10",   [13] = "11.0", [14] = "11.1", [15] = "11.2",
	[16] = "11.5", [17] = "11.6", [18] = "11.8", [19] = "12.0",
	[20] = "12.2", [21] = "12.3", [22] = "12.4", [23] = "12.5",
	[24] = "12.6", [26] = "12.8", [27] = "12.9", [28] = "12.9 Update 1"};

void cupti_release(uint32_t version, char *text, size_t size)
{
	if (version >= 10000)
		snprintf(text, size, "%u.%u (%u)", version / 10000, version / 100 % 100, version);
	else if (version < sizeof(counted_releases) / sizeof(*counted_releases) &&
		 counted_releases[version])
		snprintf(text, size, "%s (%u)", counted_releases[version], version);
	else
		snprintf(text, size, "(%u)", version);
}

/* Up to now; an agent that takes back what it has lost is not believed. */
static void count_losses(struct agent *agent)
{
	struct perfx_agent_losses losses = agent_ring_losses(&agent->ring);
	uint64_t lost =
		losses.ring_full + losses.cupti_dropped + losses.thrown_buffers + losses.untimed;

	if (lost > agent->lost)
		agent->lost = lost;
}

static void emit_state(struct agents *agents, struct agent *agent, enum perfx_gpu_agent_state state,
		       uint64_t left_mapped_bytes, const char *text)
{
	struct perfx_gpu_state record = {.time_ns = clock_monotonic_ns(),
					 .left_mapped_bytes = left_mapped_bytes,
					 .process = agent->process,
					 .level = agents->parts.level,
					 .state = state};
	struct pack_buffer buffer;

	count_losses(agent);
	record.dropped_count = agent->lost;
	SINK_PACK(agents->parts.sink, &buffer, PERFX_KIND_GPU_STATE, record, text);
}

static void emit_losses(struct agents *agents, struct agent *agent)
{
	struct perfx_loss record = {.loss = PERFX_LOSS_GPU_RECORDS, .process = agent->process};
	struct pack_buffer buffer;

	count_losses(agent);
	record.count = agent->lost - agent->lost_emitted;
	agent->lost_emitted = agent->lost;
	if (record.count)
		SINK_PACK(agents->parts.sink, &buffer, PERFX_KIND_LOSS, record);
}

static void say_refused(const struct agents *agents, pid_t pid, const char *why)
{
	msg_say("pid %d: its GPU's work is not recorded (--gpu %u): %s", (int)pid,
		agents->parts.level, why);
}

static void emit_refused(struct agents *agents, pid_t pid, const char *why)
{
	int64_t process = agents->parts.process_of(agents->parts.ctx, pid);
	struct agent agent = {.pid = pid, .process = process > 0 ? (uint32_t)process : 0};

	if (agent.process)
		emit_state(agents, &agent, PERFX_GPU_AGENT_REFUSED, 0, why);
}

void agents__refused(struct agents *agents, pid_t pid, const char *why)
{
	say_refused(agents, pid, why);
	emit_refused(agents, pid, why);
}

void agents_socket_name(char name[AGENTS_NAME_BYTES])
{
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = clock_monotonic_ns();
	snprintf(name, AGENTS_NAME_BYTES, "perfx-gpu-%016" PRIx64, number);
}

static int watch(const struct agents *agents, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(agents->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int agents__listen(struct agents *agents, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strnlen(name, sizeof(address.sun_path) - 1);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);

	memcpy(address.sun_path + 1, name, length);
	agents->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (agents->listen_fd < 0 || bind(agents->listen_fd, (struct sockaddr *)&address, size) ||
	    listen(agents->listen_fd, 64))
		return -errno;
	return watch(agents, agents->listen_fd);
}

/* memfd: -1: none goes with it. 0 or -errno. */
static int send_message(const struct agent *agent, const struct perfx_agent_start *message,
			int memfd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS}};
	struct iovec part = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (memfd >= 0) {
		memcpy(CMSG_DATA(&control.header), &memfd, sizeof(memfd));
		header.msg_control = &control;
		header.msg_controllen = sizeof(control);
	}
	return sendmsg(agent->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Reasons for refusing a connection. */
#define NOT_TRACED "the process is not traced"
#define HAS_AGENT  "the process has an agent already"
#define NO_PLACE   "there is no place for another agent"

static void say_refusal(struct agents *agents, pid_t pid, const char *why)
{
	if (agents->refusals_count++ < REFUSALS_NAMED)
		msg_say("pid %d: its connection to the GPU agents' socket is refused: %s", (int)pid,
			why);
}

static void send_request(const struct agent *agent, enum perfx_agent_message kind)
{
	struct perfx_agent_start message = {.kind = kind, .version = PERFX_AGENT_VERSION};

	send_message(agent, &message, -1);
}

static int send_start(struct agents *agents, struct agent *agent)
{
	struct perfx_agent_start start = {
		.kind = PERFX_AGENT_START,
		.version = PERFX_AGENT_VERSION,
		.level = agents->parts.level,
		.flags = agents->parts.graph_nodes ? PERFX_AGENT_GRAPH_NODES : 0,
		.deadline_ns = agents->deadline_ns,
		.ring_bytes = PERFX_AGENT_RING_DEFAULT,
	};
	int memfd = agent_ring_make(&agent->ring, PERFX_AGENT_RING_DEFAULT), err;

	if (memfd < 0)
		return memfd;
	err = send_message(agent, &start, memfd);
	close(memfd);
	return err;
}

static void end_agent(struct agent *agent)
{
	count_losses(agent);
	agent_ring_unmap(&agent->ring);
	close_fd(&agent->fd); /* which takes it out of the epoll set */
	close_fd(&agent->pidfd);
	agent->state = AGENT_ENDED;
}

/* The process has broken the rules, or something is wrong with the agent. */
static void fail_agent(struct agents *agents, struct agent *agent, const char *why)
{
	msg_say("pid %d: its GPU's work is no longer recorded: %s", (int)agent->pid, why);
	emit_state(agents, agent, PERFX_GPU_AGENT_FAILED, 0, why);
	end_agent(agent);
}

/* Does it record, or is it about to? */
static bool is_active(const struct agent *agent)
{
	return agent->state == AGENT_STARTED || agent->state == AGENT_ON;
}

/* The active agent of a process; NULL: there is none. */
static struct agent *agent_of(const struct agents *agents, uint32_t process)
{
	for (size_t i = 0; agents && i < agents->count; i++)
		if (agents->list[i]->process == process && is_active(agents->list[i]))
			return agents->list[i];
	return NULL;
}

/* Sends START once the process's PROCESS record is in the stream, or refuses the agent. */
static void try_to_start(struct agents *agents, struct agent *agent)
{
	int64_t process = agents->parts.process_of(agents->parts.ctx, agent->pid);
	const char *why = NULL;
	int err;

	if (process < 0)
		why = NOT_TRACED;
	else if (process && agent_of(agents, (uint32_t)process))
		why = HAS_AGENT;
	else if (!process && clock_monotonic_ns() - agent->connected_ns > STRANGER_NS)
		why = "the recording does not know the process";
	if (why) {
		say_refusal(agents, agent->pid, why);
		end_agent(agent);
		return;
	}
	if (!process)
		return;
	if (clock_monotonic_ns() - agent->connected_ns < NVML_NS && agents->parts.device_of &&
	    agents->parts.device_of(agents->parts.ctx, "") == -EAGAIN)
		return; /* wait for NVML's numbers */
	agent->process = (uint32_t)process;
	agent_events_init(&agent->events, &agents->all, agent->pid, agent->process);
	err = send_start(agents, agent);
	if (err)
		fail_agent(agents, agent, strerror(-err));
	else
		agent->state = AGENT_STARTED;
}

/* Reads at most one ring of records, however many the process adds meanwhile. */
static void drain_ring(struct agents *agents, struct agent *agent)
{
	uint64_t until = agent->ring.tail + PERFX_AGENT_RING_DEFAULT;
	union agent_record record;
	int found = 0;

	while (agent->ring.tail < until && (found = agent_ring_next(&agent->ring, &record)) > 0)
		agent_events_add(&agent->events, &record);
	if (agents->all.summed_count && !agents->said_limit) {
		agents->said_limit = true;
		msg_say("more than %" PRIu64 " GPU events: of further ones only sums are kept "
			"(--gpu-max-events)",
			agents->parts.events_max);
	}
	if (found < 0)
		fail_agent(agents, agent, "its ring is damaged");
}

static void on_end(struct agents *agents, struct agent *agent,
		   const struct perfx_agent_answer *answer, enum perfx_gpu_agent_state state)
{
	uint64_t left = answer->left_mapped_bytes < 1ull << 40 ? answer->left_mapped_bytes : 0;
	bool stays = left && answer->kind == PERFX_AGENT_STOPPED;
	char text[PERFX_AGENT_TEXT + 64];

	snprintf(text, sizeof(text), "%s%s%s", answer->text, *answer->text && stays ? "; " : "",
		 stays ? "CUPTI stays active: launches may stay slower" : "");
	emit_state(agents, agent, state, left, text);
	end_agent(agent);
}

static void on_answer(struct agents *agents, struct agent *agent,
		      const struct perfx_agent_answer *answer)
{
	char release[48], text[PERFX_AGENT_TEXT + 64];

	drain_ring(agents, agent);
	if (agent->state == AGENT_ENDED)
		return;
	switch (answer->kind) {
	case PERFX_AGENT_HELLO:
		cupti_release(answer->cupti_version, release, sizeof(release));
		snprintf(text, sizeof(text), "CUPTI %s, %s", release, answer->text);
		agent->tid = agent_events_thread(&agent->events, answer->tid);
		agent->state = AGENT_ON;
		emit_state(agents, agent, PERFX_GPU_AGENT_ON, 0, text);
		break;
	case PERFX_AGENT_REFUSED:
		say_refused(agents, agent->pid, answer->text);
		on_end(agents, agent, answer, PERFX_GPU_AGENT_REFUSED);
		break;
	case PERFX_AGENT_STOPPED:
		on_end(agents, agent, answer, PERFX_GPU_AGENT_STOPPED);
		break;
	case PERFX_AGENT_STEPPED_ASIDE:
		msg_say("pid %d: its own profiler has begun: its GPU's work is no longer recorded",
			(int)agent->pid);
		on_end(agents, agent, answer, PERFX_GPU_AGENT_STEPPED_ASIDE);
		break;
	case PERFX_AGENT_FILLED:
		break;
	default:
		fail_agent(agents, agent, "its messages are not understood");
	}
}

/* The other end is closed, without a word: the process has ended or executes another program, or
 * the agent has. */
static void on_closed(struct agents *agents, struct agent *agent)
{
	drain_ring(agents, agent);
	if (agent->state == AGENT_ON)
		emit_state(agents, agent, PERFX_GPU_AGENT_STOPPED, 0, "the process has ended");
	end_agent(agent);
}

/* Messages of one turn: another agent's come, too. */
#define MESSAGES_MAX 64

static void read_messages(struct agents *agents, struct agent *agent)
{
	for (int i = 0; i < MESSAGES_MAX && agent->state != AGENT_ENDED; i++) {
		struct perfx_agent_answer answer;
		ssize_t size = recv(agent->fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_TRUNC);

		if (size < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (size < 0 && errno == ECONNRESET)
			continue; /* it closed without reading all: what it said comes next */
		if (size <= 0) {
			on_closed(agents, agent);
			return;
		}
		if (agent->state == AGENT_STRANGER)
			continue; /* it has nothing to say before START */
		if (size != sizeof(answer) || answer.version != PERFX_AGENT_VERSION) {
			fail_agent(agents, agent, "its messages are not understood");
			return;
		}
		answer.text[sizeof(answer.text) - 1] = '\0';
		on_answer(agents, agent, &answer);
	}
}

/* Messages that an agent sent before its end are read. */
static void poll_agent(struct agents *agents, struct agent *agent)
{
	struct pollfd end = {.fd = agent->pidfd, .events = POLLIN};
	bool exited = agent->pidfd >= 0 && poll(&end, 1, 0) == 1;

	if (agent->state == AGENT_STRANGER)
		try_to_start(agents, agent);
	if (agent->state != AGENT_ENDED)
		read_messages(agents, agent);
	if (agent->state == AGENT_ON)
		drain_ring(agents, agent);
	if (exited && agent->state != AGENT_ENDED)
		on_closed(agents, agent);
}

/* A new entry of the list, or the entry of an ended agent. NULL: all agents live, or no memory. */
static struct agent **find_place(struct agents *agents)
{
	size_t i = 0;

	if (agents->count < AGENTS_MAX)
		return grow_array(&agents->list, &agents->capacity, agents->count + 1,
				  sizeof(*agents->list))
			       ? NULL
			       : &agents->list[agents->count++];
	while (i < AGENTS_MAX && agents->list[i]->state != AGENT_ENDED)
		i++;
	if (i == AGENTS_MAX)
		return NULL;
	emit_losses(agents, agents->list[i]);
	free_agent(agents->list[i]);
	return &agents->list[i];
}

/* Takes over fd; closes it on failure. */
static struct agent *add_agent(struct agents *agents, int fd, pid_t pid, uid_t uid)
{
	struct agent *agent = calloc(1, sizeof(*agent)), **place = NULL;

	if (agent && !watch(agents, fd))
		place = find_place(agents);
	if (!place) {
		free(agent);
		close(fd);
		return NULL;
	}
	agent->fd = fd;
	agent->pid = pid;
	agent->uid = uid;
	agent->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (agent->pidfd >= 0)
		watch(agents, agent->pidfd);
	agent->connected_ns = clock_monotonic_ns();
	*place = agent;
	return agent;
}

/* The uid of injected agents, which no user's limit counts. */
#define NO_USER ((uid_t)-1)

/* Polls the process's agent first: after an exec it has ended, but its state does not say so yet.
 */
static bool has_agent(struct agents *agents, pid_t pid)
{
	for (size_t i = 0; i < agents->count; i++) {
		struct agent *agent = agents->list[i];

		if (agent->pid == pid && agent->state != AGENT_ENDED)
			poll_agent(agents, agent);
		if (agent->pid == pid && agent->state != AGENT_ENDED)
			return true;
	}
	return false;
}

/* Any user finds the socket's name in /proc/net/unix. */
static void accept_one(struct agents *agents, int fd)
{
	struct ucred peer = {.pid = -1};
	socklen_t size = sizeof(peer);
	size_t of_user = 0;
	const char *why = NULL;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		why = strerror(errno);
	else if (agents->parts.process_of(agents->parts.ctx, peer.pid) < 0)
		why = NOT_TRACED;
	else if (has_agent(agents, peer.pid))
		why = HAS_AGENT;
	for (size_t i = 0; !why && i < agents->count; i++)
		of_user +=
			agents->list[i]->state != AGENT_ENDED && agents->list[i]->uid == peer.uid;
	if (of_user >= AGENTS_USER_MAX)
		why = "too many processes of its user have agents";
	if (why)
		close(fd);
	else if (!add_agent(agents, fd, peer.pid, peer.uid))
		why = NO_PLACE;
	if (!why)
		return;
	say_refusal(agents, peer.pid, why);
	if (agents->refusals_count <= AGENTS_MAX && !has_agent(agents, peer.pid))
		emit_refused(agents, peer.pid, why);
}

void agents__adopt(struct agents *agents, int fd, pid_t pid)
{
	struct agent *agent = add_agent(agents, fd, pid, NO_USER);

	if (agent)
		try_to_start(agents, agent);
	else
		agents__refused(agents, pid, NO_PLACE);
}

void agents__poll(struct agents *agents)
{
	if (!agents)
		return;
	for (int i = 0; i < ACCEPTS_MAX && agents->listen_fd >= 0; i++) {
		int fd = accept4(agents->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			break;
		accept_one(agents, fd);
	}
	for (size_t i = 0; i < agents->count; i++)
		if (agents->list[i]->state != AGENT_ENDED)
			poll_agent(agents, agents->list[i]);
}

void agents__begin(struct agents *agents, uint64_t begin_ns, uint64_t deadline_ns)
{
	if (!agents)
		return;
	agents->all.begin_ns = begin_ns;
	agents->deadline_ns = deadline_ns;
}

bool agents__records(const struct agents *agents, uint32_t process)
{
	const struct agent *agent = agent_of(agents, process);

	return agent && agent->state == AGENT_ON;
}

bool agents__has_thread(const struct agents *agents, uint32_t process, uint32_t tid)
{
	for (size_t i = 0; agents && i < agents->count; i++)
		if (tid && agents->list[i]->process == process && agents->list[i]->tid == tid)
			return true;
	return false;
}

void agents__step_aside(struct agents *agents, uint32_t process)
{
	struct agent *agent = agent_of(agents, process);

	if (!agent || agent->steps_aside)
		return;
	agent->steps_aside = true;
	send_request(agent, PERFX_AGENT_STEP_ASIDE);
}

void agents__emit_sums(struct agents *agents)
{
	if (!agents)
		return;
	gpu_events_emit_sums(&agents->all);
	for (size_t i = 0; i < agents->count; i++)
		if (agents->list[i]->process)
			emit_losses(agents, agents->list[i]);
}

void agents__stop(struct agents *agents, uint64_t end_ns)
{
	uint64_t until_ns = clock_monotonic_ns() + STOP_MS * 1000000ull;
	bool active;

	if (!agents)
		return;
	agents__poll(agents); /* what has been recorded so far */
	if (agents->refusals_count > REFUSALS_NAMED)
		msg_say("%" PRIu64 " connections to the GPU agents' socket were refused in all",
			agents->refusals_count);
	close_fd(&agents->listen_fd);
	agents->all.end_ns = end_ns;
	for (size_t i = 0; i < agents->count; i++)
		if (agents->list[i]->fd >= 0)
			send_request(agents->list[i], PERFX_AGENT_STOP);
	for (;;) {
		struct pollfd pollfd = {.fd = agents->epoll_fd, .events = POLLIN};

		active = false;
		for (size_t i = 0; i < agents->count; i++)
			active |= is_active(agents->list[i]);
		if (!active || clock_monotonic_ns() >= until_ns)
			break;
		poll(&pollfd, 1, 50);
		agents__poll(agents);
	}
	for (size_t i = 0; i < agents->count; i++)
		if (is_active(agents->list[i]))
			fail_agent(agents, agents->list[i], "its agent does not answer");
}
