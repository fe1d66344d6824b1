/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stuck CASE [PATH]: threads and processes that wait for each other, or for something else that
 * never comes. Prints "expect FUNCTION KEY VALUE" for tids and pids that a dump must name, then
 * "ready PID" when all of them are about to wait, and ends when its input is closed.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "known.h"

#define THREADS 3

static pthread_mutex_t mutexes[THREADS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
					   PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static size_t circle;
static const char *path;
static pid_t child;

static void say_tid(const char *function)
{
	known_expect(function, "tid", (uint64_t)syscall(SYS_gettid));
}

static void start(void *(*run)(void *), size_t index)
{
	pthread_t thread;

	known_require(!pthread_create(&thread, NULL, run, (void *)index), "pthread_create");
}

/* A child that runs until this process ends. */
static void start_child(const char *name, void (*run)(void))
{
	child = fork();
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	run();
	_exit(0);
}

TRACED void rest(void)
{
	for (;;)
		poll(NULL, 0, 600000);
}

/* Each thread has its mutex and wants the next one's. */
TRACED void *take_next(void *index)
{
	size_t own = (size_t)index;

	pthread_mutex_lock(&mutexes[own]);
	known_expect("take_next",
		     own == 0	? "tid0"
		     : own == 1 ? "tid1"
				: "tid2",
		     (uint64_t)syscall(SYS_gettid));
	pthread_barrier_wait(&barrier);
	pthread_mutex_lock(&mutexes[(own + 1) % circle]);
	return index;
}

static void start_circle(size_t count)
{
	circle = count;
	pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
	for (size_t i = 0; i < count; i++)
		start(take_next, i);
	pthread_barrier_wait(&barrier);
}

static void cross(void)
{
	start_circle(2);
}

static void three(void)
{
	start_circle(3);
}

/* One that takes its own mutex again; the rest of kinds have their owner as well. */
static void itself(void)
{
	start_circle(1);
}

TRACED void *hold_and_rest(void *kind)
{
	if (kind)
		pthread_rwlock_wrlock(&rwlock);
	else
		pthread_mutex_lock(&mutexes[0]);
	say_tid("hold_and_rest");
	pthread_barrier_wait(&barrier);
	rest();
	return kind;
}

TRACED void *want_read(void *unused)
{
	pthread_rwlock_rdlock(&rwlock);
	return unused;
}

TRACED void *want_write(void *unused)
{
	pthread_rwlock_wrlock(&rwlock);
	return unused;
}

TRACED void *want_mutex(void *unused)
{
	pthread_mutex_lock(&mutexes[0]);
	return unused;
}

static void hold(size_t kind)
{
	pthread_barrier_init(&barrier, NULL, 2);
	start(hold_and_rest, kind);
	pthread_barrier_wait(&barrier);
}

static void writer(void)
{
	hold(1);
	start(want_read, 0);
	start(want_read, 0);
	start(want_write, 0);
}

static void readers(void)
{
	pthread_rwlock_rdlock(&rwlock);
	start(want_write, 0);
}

/* A chain: main joins a thread that wants a mutex whose owner rests. */
TRACED void *join_it(void *thread)
{
	pthread_join((pthread_t)thread, NULL);
	return thread;
}

static void chain(void)
{
	pthread_t thread;

	hold(0);
	pthread_create(&thread, NULL, want_mutex, NULL);
	start(join_it, (size_t)thread);
}

/* fork() while another thread has the mutex: nobody in the child will ever unlock it. */
static void lock_after_fork(void)
{
	want_mutex(NULL);
}

static void forked(void)
{
	hold(0);
	start_child("forked", lock_after_fork);
}

/* Of each kind with an owner in its word: robust, and with priority inheritance. */
TRACED void *want_given(void *mutex)
{
	pthread_mutex_lock(mutex);
	return mutex;
}

static void kinds(void)
{
	static pthread_mutex_t robust, inherits, errors, recursive;
	static pthread_mutex_t *const all[] = {&robust, &inherits, &errors, &recursive};
	pthread_mutexattr_t attr;

	for (int i = 0; i < 4; i++) {
		pthread_mutexattr_init(&attr);
		if (i == 0)
			pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
		if (i == 1)
			pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
		if (i >= 2)
			pthread_mutexattr_settype(&attr, i == 2 ? PTHREAD_MUTEX_ERRORCHECK
								: PTHREAD_MUTEX_RECURSIVE);
		pthread_mutex_init(all[i], &attr);
		pthread_mutex_lock(all[i]);
		start(want_given, (size_t)all[i]);
	}
}

/* A mutex that processes share; the child has it. */
static pthread_mutex_t *shared_mutex;

static void hold_shared(void)
{
	pthread_mutex_lock(shared_mutex);
	pthread_barrier_wait((pthread_barrier_t *)(shared_mutex + 1));
	rest();
}

static void shared(void)
{
	pthread_mutexattr_t attr;
	pthread_barrierattr_t barriers;
	pthread_barrier_t *both;

	shared_mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	both = (pthread_barrier_t *)(shared_mutex + 1);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(shared_mutex, &attr);
	pthread_barrierattr_init(&barriers);
	pthread_barrierattr_setpshared(&barriers, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(both, &barriers, 2);
	start_child("holder", hold_shared);
	pthread_barrier_wait(both);
	start(want_given, (size_t)shared_mutex);
}

static int pipe_fds[2];

TRACED void *read_pipe(void *unused)
{
	char byte;

	return read(pipe_fds[0], &byte, 1) ? unused : NULL;
}

static void pipe_from_child(void)
{
	known_require(!pipe(pipe_fds), "pipe");
	start_child("writer", rest);
	close(pipe_fds[1]);
	start(read_pipe, 0);
}

static int socket_fds[2];

TRACED void *receive(void *index)
{
	char byte;

	return recv(socket_fds[(size_t)index], &byte, 1, 0) ? index : NULL;
}

static void sockets(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int server = socket(AF_INET, SOCK_STREAM, 0), accepted, pair[2];

	known_require(!bind(server, (struct sockaddr *)&address, length) && !listen(server, 1) &&
			      !getsockname(server, (struct sockaddr *)&address, &length),
		      "listen");
	socket_fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	known_require(!connect(socket_fds[0], (struct sockaddr *)&address, length), "connect");
	accepted = accept(server, NULL, NULL);
	known_require(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	socket_fds[1] = pair[0];
	start_child("peer", rest);
	close(accepted);
	close(pair[1]);
	known_expect("receive", "port", ntohs(address.sin_port));
	start(receive, 0);
	start(receive, 1);
}

TRACED void *await_child(void *unused)
{
	return waitpid(child, NULL, 0) ? unused : NULL;
}

static void stop(void)
{
	raise(SIGSTOP);
}

static void child_awaited(void)
{
	start_child("awaited", stop);
	waitpid(child, NULL, WUNTRACED);
	start(await_child, 0);
}

TRACED void *doze(void *unused)
{
	struct timespec length = {.tv_sec = 600};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
	return unused;
}

static int timer_fd, epoll_fd;

TRACED void *read_timer(void *unused)
{
	uint64_t count;

	return read(timer_fd, &count, sizeof(count)) ? unused : NULL;
}

TRACED void *wait_events(void *unused)
{
	struct epoll_event event;

	return epoll_wait(epoll_fd, &event, 1, 500000) ? unused : NULL;
}

TRACED void *poll_two(void *unused)
{
	struct pollfd two[2] = {{.fd = pipe_fds[0], .events = POLLIN},
				{.fd = timer_fd, .events = POLLIN}};

	return poll(two, 2, -1) ? unused : NULL;
}

static void timers(void)
{
	struct itimerspec in = {.it_value.tv_sec = 400, .it_interval.tv_sec = 300};

	timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
	timerfd_settime(timer_fd, 0, &in, NULL);
	start(doze, 0);
	start(read_timer, 0);
}

static void events(void)
{
	pipe_from_child();
	timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
	epoll_fd = epoll_create1(0);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_fds[0], &(struct epoll_event){.events = EPOLLIN});
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &(struct epoll_event){.events = EPOLLIN});
	start(wait_events, 0);
	start(poll_two, 0);
}

TRACED void *lock_file(void *unused)
{
	return flock(open(path, O_RDONLY), LOCK_EX) ? NULL : unused;
}

static void hold_file(void)
{
	flock(open(path, O_RDONLY), LOCK_EX);
	known_require(write(pipe_fds[1], "", 1) == 1, "write");
	rest();
}

static void file_lock(void)
{
	known_require(!pipe(pipe_fds), "pipe");
	start_child("locker", hold_file);
	read_pipe(NULL);
	start(lock_file, 0);
}

/* The child fills the pipe that the parent does not read; the parent waits for the child. */
static void fill_pipe(void)
{
	static char block[4096];

	close(pipe_fds[0]);
	while (write(pipe_fds[1], block, sizeof(block)) > 0)
		;
}

static void full_pipe(void)
{
	known_require(!pipe(pipe_fds), "pipe");
	start_child("filler", fill_pipe);
	close(pipe_fds[1]);
	known_expect("child", "pid", (uint64_t)child);
	known_ready();
	await_child(NULL);
}

static const struct known_case cases[] = {
	{"cross", cross, NULL},		 {"three", three, NULL},     {"itself", itself, NULL},
	{"writer", writer, NULL},	 {"readers", readers, NULL}, {"chain", chain, NULL},
	{"forked", forked, NULL},	 {"kinds", kinds, NULL},     {"shared", shared, NULL},
	{"pipe", pipe_from_child, NULL}, {"sockets", sockets, NULL}, {"child", child_awaited, NULL},
	{"timers", timers, NULL},	 {"events", events, NULL},   {"file_lock", file_lock, NULL},
	{"full_pipe", full_pipe, NULL},
};

int main(int argc, char **argv)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	path = argc > 2 ? argv[2] : argv[0];
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		cases[i].run();
		known_expect("main", "tid", (uint64_t)getpid());
		if (child)
			known_expect("child", "pid", (uint64_t)child);
		known_ready();
		while (read(STDIN_FILENO, &byte, 1) > 0)
			;
		if (child)
			kill(child, SIGKILL);
		_exit(0);
	}
	fprintf(stderr, "usage: %s CASE [PATH]\n", argv[0]);
	return 2;
}
