// SPDX-License-Identifier: BSD-2-Clause
#include "attach/links.h"

#include "attach/perf_links.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/thread.h"
#include "proc/process.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BPF_CMD_LINK_CREATE   28
#define UPROBE_MULTI_F_RETURN 1U

/* union bpf_attr, link_create.uprobe_multi: linux/bpf.h of Linux 6.6 (kernel commit 89ae89f53d20).
 */
struct link_create_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid;
	uint32_t pad;
};

int link_multi(int prog_fd, int attach_type, int file_fd, pid_t pid, bool at_return,
	       const struct link_points *points)
{
	char path[64];
	struct link_create_attr attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = (uint32_t)attach_type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)points->offsets,
		.ref_ctr_offsets = (uintptr_t)points->semaphores,
		.cookies = (uintptr_t)points->cookies,
		.count = (uint32_t)points->count,
		.multi_flags = at_return ? UPROBE_MULTI_F_RETURN : 0,
		.pid = (uint32_t)pid,
	};
	long fd;

	/* by descriptor: the very file, be it deleted or in another mount namespace */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
	fd = syscall(SYS_bpf, BPF_CMD_LINK_CREATE, &attr, sizeof(attr));
	return fd < 0 ? -errno : (int)fd;
}

struct link {
	int fd;
	uint32_t event; /* tracefs event to remove with the link; 0: none */
};

static void close_one(const struct link *link, const struct perf_events *events)
{
	close(link->fd);
	if (link->event)
		perf_events__remove(events, link->event);
}

/* The kernel makes and closes perf-event links under one lock, and holds the lock during a grace
 * period. */
static bool closes_in_series(enum perfx_link kind)
{
	return kind == PERFX_LINK_PERF || kind == PERFX_LINK_SINGLE;
}

#define CLOSERS_MAX 32

struct closing {
	const struct link *links;
	size_t count, next;
	const struct perf_events *events;
};

static void *close_some(void *arg)
{
	struct closing *closing = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&closing->next, 1, __ATOMIC_RELAXED)) < closing->count)
		close_one(&closing->links[i], closing->events);
	return NULL;
}

/* Closes links, many at a time: the kernel makes each wait until no CPU runs its programs any more
 * (25 to 65 ms seen), and threads that wait together wait once. */
static void link_close_all(const struct link *links, size_t count, const struct perf_events *events)
{
	struct closing closing = {.links = links, .count = count, .events = events};
	pthread_t threads[CLOSERS_MAX];
	size_t started = 0;

	while (started + 1 < count && started < CLOSERS_MAX &&
	       !pthread_create(&threads[started], NULL, close_some, &closing))
		started++;
	close_some(&closing);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

/*
 * At the end of a recording with perf-event links, a forked process holds the last descriptors of
 * the links and closes them. The report is written at once, and the tracer may exit before the last
 * probe is removed.
 */

static struct {
	pid_t pid; /* 0: none, or it has ended */
	size_t count;
	size_t *closed; /* links closed so far; memory shared with the process */
	uint64_t begun_ns;
} detaching;

/* Least time assumed for closing a link until the first one has been closed. */
#define CLOSE_NS 50000000u

uint64_t detaching_left_ns(void)
{
	uint64_t each_ns = clock_monotonic_ns() - detaching.begun_ns;
	size_t closed;

	if (detaching_wait(0))
		return 0;
	closed = __atomic_load_n(detaching.closed, __ATOMIC_RELAXED);
	if (closed)
		each_ns /= closed;
	else if (each_ns < CLOSE_NS)
		each_ns = CLOSE_NS;
	return (detaching.count - closed) * each_ns;
}

bool detaching_wait(int timeout_ms)
{
	if (detaching.pid && !process_ends_within(detaching.pid, timeout_ms))
		return false;
	if (detaching.pid)
		waitpid(detaching.pid, NULL, WNOHANG);
	if (detaching.closed)
		munmap(detaching.closed, sizeof(*detaching.closed));
	detaching.closed = NULL;
	detaching.pid = 0;
	return true;
}

pid_t detaching_pid(void)
{
	return detaching.pid;
}

ORDER(compare_int, int, ASCENDING(*a, *b))

/* Closes the links and exits. Makes only system calls: another thread of the parent may have held a
 * lock of the C library when the process was forked. needed: the descriptors to keep, ascending. */
static _Noreturn void close_and_exit(const struct closing *closing, const int *needed, int go_fd)
{
	unsigned from = 0;
	char nothing;

	setsid();
	(void)!chdir("/");
	/* another process may wait until the last descriptor of a pipe or socket is closed */
	for (size_t i = 0; i < closing->count + 2; i++) {
		if (needed[i] < 0)
			continue;
		if ((unsigned)needed[i] > from)
			close_range(from, (unsigned)needed[i] - 1, 0);
		from = (unsigned)needed[i] + 1;
	}
	close_range(from, ~0u, 0);
	/* the end of the pipe: the parent has closed its descriptors */
	while (read(go_fd, &nothing, 1) < 0 && errno == EINTR)
		;
	for (size_t i = 0; i < closing->count; i++) {
		close_one(&closing->links[i], closing->events);
		__atomic_store_n(detaching.closed, i + 1, __ATOMIC_RELAXED);
	}
	_exit(0);
}

/* Closes the links in a forked process, which blocks all signals, so that Ctrl-C does not end it.
 * False: it could not be started. */
static bool close_in_child(const struct closing *closing)
{
	int *needed = calloc(closing->count + 2, sizeof(*needed)), go[2] = {-1, -1};
	void *page = MAP_FAILED;
	sigset_t all, before;

	detaching_wait(-1);
	if (needed && !pipe2(go, O_CLOEXEC))
		page = mmap(NULL, sizeof(*detaching.closed), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED) {
		for (size_t i = 0; i < closing->count; i++)
			needed[i] = closing->links[i].fd;
		needed[closing->count] = closing->events ? perf_events__fd(closing->events) : -1;
		needed[closing->count + 1] = go[0];
		qsort(needed, closing->count + 2, sizeof(*needed), compare_int);
		detaching.closed = page;
		detaching.count = closing->count;
		detaching.begun_ns = clock_monotonic_ns();
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		detaching.pid = fork();
		if (!detaching.pid)
			close_and_exit(closing, needed, go[0]);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	for (size_t i = 0; detaching.pid > 0 && i < closing->count; i++)
		close(closing->links[i].fd);
	for (int i = 0; i < 2; i++)
		if (go[i] >= 0)
			close(go[i]);
	free(needed);
	if (detaching.pid > 0)
		return true;
	detaching.pid = 0;
	detaching_wait(0);
	return false;
}

/*
 * Links that a thread closes while their owner goes on, at most as many as the process may have
 * descriptors. Without a thread, links are closed at once.
 */

struct link_closer {
	const struct perf_events *events;
	bool in_series;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct link *waiting;
	size_t waiting_count, waiting_capacity;
	size_t waiters; /* threads that wait until all are closed */
	bool busy, held, ends;
};

/* May the links be closed one by one? Closing many perf-event links at once would delay attaching
 * to a new process until the last one is closed. */
static bool has_time(const struct link_closer *closer)
{
	return closer->in_series && !closer->waiters && !closer->ends;
}

/* Closes one link while has_time(), otherwise all together, so that they wait for the kernel
 * together. The caller holds the lock, which is released meanwhile. */
static void close_next(struct link_closer *closer)
{
	struct link one, *links = &one;
	size_t count = 1;

	if (has_time(closer)) {
		one = closer->waiting[--closer->waiting_count];
	} else {
		links = closer->waiting;
		count = closer->waiting_count;
		closer->waiting = NULL;
		closer->waiting_count = closer->waiting_capacity = 0;
	}
	pthread_mutex_unlock(&closer->lock);
	link_close_all(links, count, closer->events);
	if (links != &one)
		free(links);
	pthread_mutex_lock(&closer->lock);
}

static void *close_waiting(void *arg)
{
	struct link_closer *closer = arg;

	pthread_mutex_lock(&closer->lock);
	while (closer->waiting_count || !closer->ends) {
		closer->busy = closer->waiting_count && !(closer->held && has_time(closer));
		if (closer->busy) {
			close_next(closer);
		} else {
			pthread_cond_broadcast(&closer->changed);
			pthread_cond_wait(&closer->changed, &closer->lock);
		}
	}
	pthread_mutex_unlock(&closer->lock);
	return NULL;
}

static struct link_closer *link_closer__new(const struct perf_events *events, bool in_series)
{
	struct link_closer *closer = calloc(1, sizeof(*closer));

	if (!closer)
		return NULL;
	closer->events = events;
	closer->in_series = in_series;
	pthread_mutex_init(&closer->lock, NULL);
	pthread_cond_init(&closer->changed, NULL);
	if (!thread_start(&closer->thread, close_waiting, closer))
		return closer;
	free(closer);
	return NULL;
}

/* 0 or -ENOMEM. */
static int link_closer__add(struct link_closer *closer, struct link link)
{
	int err;

	pthread_mutex_lock(&closer->lock);
	err = LIST_ADD(closer->waiting, link);
	pthread_cond_broadcast(&closer->changed);
	pthread_mutex_unlock(&closer->lock);
	return err;
}

/* While links are made, perf-event links are not closed, because the kernel takes the same lock for
 * both, unless a caller waits until they are closed. */
static void link_closer__hold(struct link_closer *closer, bool held)
{
	if (!closer)
		return;
	pthread_mutex_lock(&closer->lock);
	closer->held = held;
	pthread_cond_broadcast(&closer->changed);
	pthread_mutex_unlock(&closer->lock);
}

void link_warm_pages(int file_fd, const uint64_t *offsets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char byte;

		/* an unreadable page shows when the link is made */
		if (pread(file_fd, &byte, 1, (off_t)offsets[i]) < 0)
			return;
	}
}

int link_iterate(int link_fd)
{
	int fd = bpf_iter_create(link_fd);
	char nothing[64];

	if (fd < 0)
		return -errno;
	while (read(fd, nothing, sizeof(nothing)) > 0)
		;
	close(fd);
	return 0;
}

struct link_tag {
	enum point_kind kind;
	bool by_return;
	bool old; /* has a successor */
	uint32_t group;
	uint32_t born; /* whose it is; 0: of all processes */
	uint32_t gate;
	int file_fd;
};

struct kept_link {
	struct link link;
	struct link_tag tag;
};

struct links {
	struct links_options options;
	struct kept_link *kept;
	size_t kept_count, kept_capacity;
	struct perf_events *events;	      /* NULL: not PERFX_LINK_PERF */
	struct link_closer *closer;	      /* NULL: they are closed at once */
	uint32_t gate_links[PERFX_MAX_GATES]; /* by place: how many lead through it */
	uint32_t last_gate;		      /* handed out last */
};

struct links *links__new(const struct links_options *options)
{
	struct links *links = calloc(1, sizeof(*links));

	if (!links)
		return NULL;
	links->options = *options;
	if (options->hit_link == PERFX_LINK_PERF) {
		links->events = perf_events__new();
		if (!links->events) {
			free(links);
			return NULL;
		}
	}
	links->closer = link_closer__new(links->events, closes_in_series(options->hit_link));
	return links;
}

/* Keeps a link that has been made; one that finds no room is closed. */
static int keep_link(struct links *links, struct link link, const struct link_tag *tag)
{
	int err = LIST_ADD(links->kept, (struct kept_link){link, *tag});

	if (err)
		close_one(&link, links->events);
	else
		links->gate_links[tag->gate % PERFX_MAX_GATES]++;
	return err;
}

/* Descriptors left for files of /proc, ELF files and captures. */
#define DESCRIPTORS_KEPT 64

/* How a set of points is attached: by which program and link. */
struct attach_way {
	enum perfx_link kind;
	int file_fd;
	pid_t pid;
	uint32_t plain_gate, groups_gate;
	uint64_t gate; /* one of them, where it is in a cookie */
	struct bpf_program *program;
	bool at_return; /* the program runs at return only */
	struct link_tag tag;
};

/* Each probe needs a single link, and closing one takes tens of milliseconds. */
#define SINGLE_LINKS_MAX 512

/* Makes one link for points of a file. 0 or -errno. */
static int make_link(struct links *links, const struct attach_way *way,
		     const struct link_points *points, struct link *link)
{
	const struct link_request request = {.prog_fd = bpf_program__fd(way->program),
					     .file_fd = way->file_fd,
					     .pid = way->pid,
					     .at_return = way->at_return,
					     .points = points};
	int lowest = fcntl(way->file_fd, F_DUPFD_CLOEXEC, 0);
	struct rlimit limit;

	if (lowest < 0)
		return -EMFILE;
	close(lowest);
	if (!getrlimit(RLIMIT_NOFILE, &limit) &&
	    (rlim_t)lowest + DESCRIPTORS_KEPT >= limit.rlim_cur)
		return -EMFILE;
	switch (way->kind) {
	case PERFX_LINK_SESSION:
	case PERFX_LINK_MULTI:
		link->fd =
			link_multi(request.prog_fd, bpf_program__expected_attach_type(way->program),
				   way->file_fd, way->pid, way->at_return, points);
		break;
	case PERFX_LINK_PERF:
		link->fd = link_event(links->events, &request, &link->event);
		break;
	case PERFX_LINK_SINGLE:
		link->fd = links->kept_count < SINGLE_LINKS_MAX ? link_single(&request) : -ENOSPC;
		break;
	case PERFX_LINK_INVALID:
		return -EINVAL;
	}
	return link->fd < 0 ? link->fd : 0;
}

/* Attaches count points by one link. When the kernel refuses a point, bisection finds it, and
 * the others are attached. */
static void attach_together(struct links *links, const struct attach_way *way,
			    struct attach_point **points, size_t count, uint64_t *numbers)
{
	uint64_t *offsets = numbers, *cookies = numbers + count, *semaphores = cookies + count;
	struct link_points link_points = {.offsets = offsets, .cookies = cookies, .count = count};
	struct link link = {.fd = -1};
	int err;

	for (size_t i = 0; i < count; i++) {
		offsets[i] = points[i]->offset;
		cookies[i] = way->gate | points[i]->probe;
		semaphores[i] = points[i]->semaphore;
		if (points[i]->semaphore)
			link_points.semaphores = semaphores;
	}
	err = make_link(links, way, &link_points, &link);
	if (!err)
		err = keep_link(links, link, &way->tag);
	/* too many open files, no such process: halving would not help */
	if (err && count > 1 && err != -ESRCH && err != -EMFILE && err != -ENFILE &&
	    err != -ENOMEM) {
		attach_together(links, way, points, count / 2, numbers);
		attach_together(links, way, points + count / 2, count - count / 2, numbers);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (!points[i]->err)
			points[i]->err = err;
}

static void attach_way(struct links *links, struct attach_way *way, enum tracer_program program,
		       enum perfx_link kind, struct attach_point **points, size_t count)
{
	size_t together = kind == PERFX_LINK_SINGLE ? 1 : count;
	uint64_t *numbers;

	if (!count)
		return;
	way->program = links->options.program(links->options.tracer, program);
	way->kind = kind;
	numbers = calloc(count * 3, sizeof(*numbers));
	for (size_t i = 0; i < count; i++) {
		points[i]->err = !way->program ? -EOPNOTSUPP : numbers ? 0 : -ENOMEM;
		if (numbers)
			numbers[i] = points[i]->offset;
	}
	if (way->program && numbers) {
		link_warm_pages(way->file_fd, numbers, count);
		for (size_t i = 0; i < count; i += together)
			attach_together(links, way, points + i, together, numbers);
	}
	free(numbers);
}

/* Annotation functions and calls on files are not probed at their return. */
const struct point_programs point_programs[POINT_KINDS] = {
	[POINT_CALL] = {PROGRAM_HIT, PROGRAM_RETURN, PROGRAM_SESSION},
	[POINT_MEMORY] = {PROGRAM_MEMORY_HIT, PROGRAM_MEMORY_RETURN, PROGRAM_MEMORY_SESSION},
	[POINT_ANNOTATION] = {PROGRAM_ANNOTATION, PROGRAM_ANNOTATION, PROGRAM_ANNOTATION},
	[POINT_FILE_CALL] = {PROGRAM_FILE_CALL, PROGRAM_FILE_CALL, PROGRAM_FILE_CALL},
};

/* Points share links if they have all of this in common. */
struct batch {
	enum point_kind kind;
	bool by_return;
	uint32_t group;
};

static bool in_batch(const struct attach_point *point, const struct batch *batch)
{
	return point->kind == batch->kind && point->by_return == batch->by_return &&
	       point->group == batch->group;
}

/* Attaches the points of a batch but those that have failed. selected: room for so many. */
static void attach_batch(struct links *links, struct attach_way *way, const struct batch *batch,
			 struct attach_point *points, size_t count, struct attach_point **selected)
{
	enum perfx_link return_link = links->options.return_link;
	const struct point_programs *programs = &point_programs[batch->kind];
	size_t n = 0, entered = 0;

	for (size_t i = 0; i < count; i++)
		if (in_batch(&points[i], batch) && !points[i].err)
			selected[n++] = &points[i];
	way->tag.gate = batch->group ? way->groups_gate : way->plain_gate;
	way->gate = (uint64_t)way->tag.gate << PERFX_COOKIE_GATE_SHIFT;
	way->tag.kind = batch->kind;
	way->tag.by_return = batch->by_return;
	way->tag.group = batch->group;
	/* entry and return: by one session, or by two links */
	if (batch->by_return && return_link == PERFX_LINK_SESSION) {
		attach_way(links, way, programs->session, return_link, selected, n);
		return;
	}
	if (batch->by_return) {
		/* returns first: an entry without its return would stay open */
		way->at_return = true;
		attach_way(links, way, programs->at_return, return_link, selected, n);
		for (size_t i = 0; i < n; i++)
			if (!selected[i]->err)
				selected[entered++] = selected[i];
		n = entered;
	}
	way->at_return = false;
	attach_way(links, way, programs->hit, links->options.hit_link, selected, n);
}

size_t links__attach(struct links *links, const struct attach_target *target,
		     struct attach_point *points, size_t count)
{
	bool by_pid = links->options.multi_pid || closes_in_series(links->options.hit_link);
	struct attach_way way = {.file_fd = target->file_fd,
				 .pid = by_pid ? target->pid : 0,
				 .plain_gate = target->gate,
				 .groups_gate = target->groups_gate,
				 .tag = {.born = target->born, .file_fd = target->file_fd}};
	struct attach_point **selected = calloc(count ? count : 1, sizeof(*selected));
	size_t attached = 0, n;

	for (size_t i = 0; i < count; i++)
		points[i].err = selected ? 0 : -ENOMEM;
	if (!selected)
		return 0;
	link_closer__hold(links->closer, true);
	/* neighbours of one group: groups hold exits, which come before their entries */
	for (size_t i = 0; i < count; i += n) {
		struct batch batch = {points[i].kind, points[i].by_return, points[i].group};

		for (n = 1; i + n < count && in_batch(&points[i + n], &batch); n++)
			;
		if (batch.group)
			attach_batch(links, &way, &batch, &points[i], n, selected);
	}
	for (enum point_kind kind = 0; kind < POINT_KINDS; kind++)
		for (int by_return = 0; by_return < 2; by_return++) {
			struct batch batch = {.kind = kind, .by_return = by_return};

			attach_batch(links, &way, &batch, points, count, selected);
		}
	link_closer__hold(links->closer, false);
	free(selected);
	for (size_t i = 0; i < count; i++)
		attached += !points[i].err;
	return attached;
}

void links__wait(struct links *links)
{
	struct link_closer *closer = links->closer;

	if (!closer)
		return;
	pthread_mutex_lock(&closer->lock);
	closer->waiters++;
	pthread_cond_broadcast(&closer->changed);
	while (closer->waiting_count || closer->busy)
		pthread_cond_wait(&closer->changed, &closer->lock);
	closer->waiters--;
	pthread_mutex_unlock(&closer->lock);
}

bool links__are_closing(const struct links *links)
{
	struct link_closer *closer = links->closer;
	bool busy;

	if (!closer)
		return false;
	pthread_mutex_lock(&closer->lock);
	busy = closer->waiting_count || closer->busy;
	pthread_mutex_unlock(&closer->lock);
	return busy;
}

enum links_wanted { ALL, BY_RETURN, OF_GROUP, BELOW_GROUP, OF_PROCESS, OF_FILE, OLD };

static bool is_wanted(const struct link_tag *tag, enum links_wanted wanted, uint32_t which)
{
	switch (wanted) {
	case ALL:
		return true;
	case BY_RETURN:
		return tag->by_return && tag->kind != POINT_MEMORY;
	case OF_GROUP:
		return tag->group == which;
	case BELOW_GROUP:
		return tag->group < which;
	case OF_PROCESS:
		return tag->born == which;
	case OF_FILE:
		return tag->file_fd == (int)which;
	case OLD:
		return tag->old;
	}
	return false;
}

/* Takes the wanted links off the list and hands them to the closer. A gate without links is closed,
 * and free for reuse. */
static void release(struct links *links, enum links_wanted wanted, uint32_t which)
{
	size_t count = 0;

	FOR_EACH (kept, links->kept) {
		uint32_t gate = kept->tag.gate, place = gate % PERFX_MAX_GATES;

		if (!is_wanted(&kept->tag, wanted, which)) {
			links->kept[count++] = *kept;
			continue;
		}
		if (!--links->gate_links[place] && gate != PERFX_GATE_NONE)
			__atomic_store_n(&links->options.gates[place], 0, __ATOMIC_SEQ_CST);
		if (!links->closer || link_closer__add(links->closer, kept->link))
			close_one(&kept->link, links->events);
	}
	links->kept_count = count;
}

/* The same, and waits until they are closed. */
static void detach(struct links *links, enum links_wanted wanted, uint32_t which)
{
	release(links, wanted, which);
	links__wait(links);
}

void links__detach_later(struct links *links)
{
	release(links, ALL, 0);
}

void links__detach_returns(struct links *links)
{
	detach(links, BY_RETURN, 0);
}

void links__detach_file(struct links *links, int file_fd)
{
	detach(links, OF_FILE, (uint32_t)file_fd);
}

void links__age_file(struct links *links, int file_fd, bool groups)
{
	FOR_EACH (kept, links->kept)
		kept->tag.old |= kept->tag.file_fd == file_fd && (groups || !kept->tag.group);
}

void links__detach_group(struct links *links, uint32_t group)
{
	release(links, OF_GROUP, group);
}

bool links__end(struct links *links, uint32_t kept_from)
{
	struct link_closer *closer = links->closer;
	struct closing closing;

	if (!closes_in_series(links->options.hit_link)) {
		detach(links, BELOW_GROUP, kept_from);
		return true;
	}
	/* while held, the closer's thread closes no link, so the process can close all; if it
	 * cannot be started, the thread closes them */
	link_closer__hold(closer, true);
	release(links, ALL, 0);
	if (closer) {
		pthread_mutex_lock(&closer->lock);
		closing = (struct closing){.links = closer->waiting,
					   .count = closer->waiting_count,
					   .events = closer->events};
		if (closing.count && close_in_child(&closing))
			closer->waiting_count = 0;
		pthread_mutex_unlock(&closer->lock);
	}
	link_closer__hold(closer, false);
	return false;
}

void links__free(struct links *links)
{
	struct link_closer *closer = links ? links->closer : NULL;

	if (!links)
		return;
	if (closes_in_series(links->options.hit_link))
		links__end(links, 0);
	else
		detach(links, ALL, 0);
	if (closer) {
		pthread_mutex_lock(&closer->lock);
		closer->ends = true;
		pthread_cond_broadcast(&closer->changed);
		pthread_mutex_unlock(&closer->lock);
		pthread_join(closer->thread, NULL);
		pthread_cond_destroy(&closer->changed);
		pthread_mutex_destroy(&closer->lock);
		free(closer->waiting);
		free(closer);
	}
	perf_events__free(links->events);
	free(links->kept);
	free(links);
}

void links__release(struct links *links, uint32_t born)
{
	release(links, OF_PROCESS, born);
}

uint32_t links__new_gate(struct links *links)
{
	for (uint32_t tries = 0; tries < PERFX_MAX_GATES; tries++) {
		uint32_t gate = ++links->last_gate;

		if (gate % PERFX_MAX_GATES && !links->gate_links[gate % PERFX_MAX_GATES])
			return gate;
	}
	return PERFX_GATE_NONE;
}

static void set_gate(struct links *links, uint32_t gate, uint64_t turn)
{
	if (gate != PERFX_GATE_NONE && links->gate_links[gate % PERFX_MAX_GATES])
		__atomic_store_n(&links->options.gates[gate % PERFX_MAX_GATES], turn << 32 | gate,
				 __ATOMIC_SEQ_CST);
}

void links__open_gate(struct links *links, uint32_t gate)
{
	set_gate(links, gate, PERFX_GATE_OPENS);
}

bool links__turn_gates(struct links *links)
{
	bool any_old = false;

	FOR_EACH (kept, links->kept) {
		if (!kept->tag.old)
			continue;
		set_gate(links, kept->tag.gate, PERFX_GATE_CLOSES);
		any_old = true;
	}
	__atomic_store_n(links->options.gates_turned, 1, __ATOMIC_SEQ_CST);
	return any_old;
}

void links__end_turn(struct links *links)
{
	release(links, OLD, 0);
	for (size_t i = 0; i < PERFX_MAX_GATES; i++)
		if (links->options.gates[i] >> 32 == PERFX_GATE_OPENS)
			set_gate(links, (uint32_t)links->options.gates[i], 0);
	__atomic_store_n(links->options.gates_turned, 0, __ATOMIC_SEQ_CST);
}
