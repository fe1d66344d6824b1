// SPDX-License-Identifier: BSD-2-Clause
/* Attaching and detaching: which program and link serves which points, and what is left of them. */
#include "attach/link.h"
#include "attach/tracer_internal.h"
#include "base/grow.h"
#include "perfx.skel.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Perf-event uprobes are one link a probe, and closing one takes tens of milliseconds. */
#define PERF_LINKS_MAX 512

/* Keeps a link that has been made; one that finds no room is closed. */
static int keep_link(struct tracer *tracer, struct link link, const struct link_tag *tag)
{
	if (grow_array(&tracer->links, &tracer->links_capacity, tracer->links_count + 1,
		       sizeof(*tracer->links))) {
		link_close_all(&link, 1);
		return -ENOMEM;
	}
	tracer->links[tracer->links_count++] = (struct kept_link){link, *tag};
	tracer->gate_links[tag->gate % PERFX_MAX_GATES]++;
	tracer->perf_links_count += link.perf != NULL;
	return 0;
}

/* Descriptors that are left for what else is opened meanwhile: files of /proc, objects, captures.
 */
#define DESCRIPTORS_KEPT 64

static bool has_descriptors(const struct tracer *tracer)
{
	int lowest = fcntl(bpf_map__fd(tracer->skel->maps.perfx_gates), F_DUPFD_CLOEXEC, 0);
	struct rlimit limit;

	if (lowest < 0)
		return false;
	close(lowest);
	return getrlimit(RLIMIT_NOFILE, &limit) ||
	       (rlim_t)lowest + DESCRIPTORS_KEPT < limit.rlim_cur;
}

/* How a set of points is attached: by which program and link. */
struct attach_way {
	int file_fd;
	pid_t pid;
	uint64_t gate; /* where it is in a cookie */
	struct bpf_program *program;
	int attach_type; /* of multi and session links */
	bool at_return;	 /* the program runs at return only */
	struct link_tag tag;
};

/* Attaches count points by one link. When the kernel refuses one, halves find out which: the rest
 * are attached all the same. */
static void attach_multi(struct tracer *tracer, const struct attach_way *way,
			 struct attach_point **points, size_t count, uint64_t *numbers)
{
	uint64_t *offsets = numbers, *cookies = numbers + count, *semaphores = cookies + count;
	struct link_points link_points = {.offsets = offsets, .cookies = cookies, .count = count};
	int err, fd;

	for (size_t i = 0; i < count; i++) {
		offsets[i] = points[i]->offset;
		cookies[i] = way->gate | points[i]->probe;
		semaphores[i] = points[i]->semaphore;
		if (points[i]->semaphore)
			link_points.semaphores = semaphores;
	}
	fd = has_descriptors(tracer)
		     ? link_multi(bpf_program__fd(way->program), way->attach_type, way->file_fd,
				  way->pid, way->at_return, &link_points)
		     : -EMFILE;
	err = fd < 0 ? fd : keep_link(tracer, (struct link){.fd = fd}, &way->tag);
	/* too many open files, no such process: halving would not help */
	if (err && count > 1 && err != -ESRCH && err != -EMFILE && err != -ENFILE &&
	    err != -ENOMEM) {
		attach_multi(tracer, way, points, count / 2, numbers);
		attach_multi(tracer, way, points + count / 2, count - count / 2, numbers);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (!points[i]->err)
			points[i]->err = err;
}

static void attach_perf(struct tracer *tracer, const struct attach_way *way,
			struct attach_point **points, size_t count)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", way->file_fd);
	for (size_t i = 0; i < count; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = way->gate | points[i]->probe,
			    .retprobe = way->at_return, .ref_ctr_offset = points[i]->semaphore);
		struct link link = {.fd = -1};
		int err = has_descriptors(tracer) ? -ENOSPC : -EMFILE;

		if (err == -ENOSPC && tracer->perf_links_count < PERF_LINKS_MAX) {
			link.perf = bpf_program__attach_uprobe_opts(way->program,
								    way->pid ? way->pid : -1, path,
								    points[i]->offset, &opts);
			err = link.perf ? keep_link(tracer, link, &way->tag) : -errno;
		}
		if (!points[i]->err)
			points[i]->err = err;
	}
}

static void fail_points(struct attach_point **points, size_t count, int err)
{
	for (size_t i = 0; i < count; i++)
		points[i]->err = err;
}

static void attach_way(struct tracer *tracer, const struct attach_way *way, enum perfx_link link,
		       struct attach_point **points, size_t count)
{
	uint64_t *numbers;

	if (!count)
		return;
	if (bpf_program__fd(way->program) < 0) {
		fail_points(points, count, -EOPNOTSUPP);
		return;
	}
	if (link == PERFX_LINK_PERF) {
		attach_perf(tracer, way, points, count);
		return;
	}
	numbers = calloc(count * 3, sizeof(*numbers));
	if (!numbers) {
		fail_points(points, count, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < count; i++)
		numbers[i] = points[i]->offset;
	link_warm_pages(way->file_fd, numbers, count);
	attach_multi(tracer, way, points, count, numbers);
	free(numbers);
}

/* What points must share to share links. */
struct batch {
	bool is_alloc_probe, is_annotation, by_return;
	uint32_t group;
};

static bool in_batch(const struct attach_point *point, const struct batch *batch)
{
	return point->is_alloc_probe == batch->is_alloc_probe &&
	       point->is_annotation == batch->is_annotation &&
	       point->by_return == batch->by_return && point->group == batch->group;
}

/* A batch's points as pointers into the caller's array; those that failed are left out. */
static size_t select_points(struct attach_point *points, size_t count, const struct batch *batch,
			    struct attach_point **selected)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		if (in_batch(&points[i], batch) && !points[i].err)
			selected[n++] = &points[i];
	return n;
}

static void attach_hits(struct tracer *tracer, struct attach_way *way, const struct batch *batch,
			struct attach_point **points, size_t count)
{
	const struct perfx_bpf *skel = tracer->skel;

	way->program = batch->is_alloc_probe  ? skel->progs.perfx_on_memory_hit
		       : batch->is_annotation ? skel->progs.perfx_on_mark
					      : skel->progs.perfx_on_hit;
	way->attach_type = BPF_ATTACH_UPROBE_MULTI;
	way->at_return = false;
	attach_way(tracer, way, tracer->hit_link, points, count);
}

/* Entry and return: by one session, or by two links. */
static void attach_returns(struct tracer *tracer, struct attach_way *way, const struct batch *batch,
			   struct attach_point **points, size_t count)
{
	const struct perfx_bpf *skel = tracer->skel;
	size_t n = 0;

	if (tracer->return_link == PERFX_LINK_SESSION) {
		way->program = batch->is_alloc_probe ? skel->progs.perfx_on_memory_session
						     : skel->progs.perfx_on_session;
		way->attach_type = BPF_ATTACH_UPROBE_SESSION;
		attach_way(tracer, way, PERFX_LINK_SESSION, points, count);
		return;
	}
	/* returns first: an entry without its return would stay open */
	way->program = batch->is_alloc_probe ? skel->progs.perfx_on_memory_return
					     : skel->progs.perfx_on_return;
	way->attach_type = BPF_ATTACH_UPROBE_MULTI;
	way->at_return = true;
	attach_way(tracer, way, tracer->return_link, points, count);
	for (size_t i = 0; i < count; i++)
		if (!points[i]->err)
			points[n++] = points[i];
	attach_hits(tracer, way, batch, points, n);
}

static void attach_batch(struct tracer *tracer, struct attach_way *way, const struct batch *batch,
			 struct attach_point *points, size_t count, struct attach_point **selected)
{
	size_t n = select_points(points, count, batch, selected);

	way->tag.is_alloc_probe = batch->is_alloc_probe;
	way->tag.is_annotation = batch->is_annotation;
	way->tag.by_return = batch->by_return;
	way->tag.group = batch->group;
	if (batch->by_return)
		attach_returns(tracer, way, batch, selected, n);
	else
		attach_hits(tracer, way, batch, selected, n);
}

/* Neighbours of one group. */
static void attach_groups(struct tracer *tracer, struct attach_way *way,
			  struct attach_point *points, size_t count, struct attach_point **selected)
{
	size_t n;

	for (size_t i = 0; i < count; i += n) {
		struct batch batch = {points[i].is_alloc_probe, points[i].is_annotation,
				      points[i].by_return, points[i].group};

		for (n = 1; i + n < count && in_batch(&points[i + n], &batch); n++)
			;
		if (batch.group)
			attach_batch(tracer, way, &batch, &points[i], n, selected);
	}
}

size_t tracer__attach(struct tracer *tracer, const struct attach_target *target,
		      struct attach_point *points, size_t count)
{
	bool by_pid = tracer->multi_pid || tracer->hit_link == PERFX_LINK_PERF;
	struct attach_way way = {
		.file_fd = target->file_fd,
		.pid = by_pid ? target->pid : 0,
		.gate = (uint64_t)target->gate << PERFX_COOKIE_GATE_SHIFT,
		.tag = {.born = target->born, .gate = target->gate, .file_fd = target->file_fd}};
	struct attach_point **selected = calloc(count ? count : 1, sizeof(*selected));
	size_t attached = 0;

	for (size_t i = 0; i < count; i++)
		points[i].err = selected ? 0 : -ENOMEM;
	if (!selected)
		return 0;
	link_closer__hold(tracer->closer, true);
	/* groups hold exits, which come before their entries */
	attach_groups(tracer, &way, points, count, selected);
	for (int i = 0; i < 5; i++) {
		struct batch batch = {
			.is_alloc_probe = i & 1, .by_return = i & 2, .is_annotation = i & 4};

		attach_batch(tracer, &way, &batch, points, count, selected);
	}
	link_closer__hold(tracer->closer, false);
	free(selected);
	for (size_t i = 0; i < count; i++)
		attached += !points[i].err;
	return attached;
}

/* A gate through which no link leads any more is closed, and can be had anew. */
static void leave_gate(struct tracer *tracer, uint32_t gate)
{
	uint32_t place = gate % PERFX_MAX_GATES;

	if (!--tracer->gate_links[place] && gate != PERFX_GATE_NONE)
		__atomic_store_n(&tracer->gates[place], 0, __ATOMIC_SEQ_CST);
}

/* Takes the links for which wanted says so off the list, to be closed meanwhile. */
static void release(struct tracer *tracer,
		    bool (*wanted)(const struct link_tag *tag, uint32_t which), uint32_t which)
{
	size_t kept = 0;

	for (size_t i = 0; i < tracer->links_count; i++) {
		const struct kept_link *link = &tracer->links[i];

		if (wanted(&link->tag, which)) {
			leave_gate(tracer, link->tag.gate);
			tracer->perf_links_count -= link->link.perf != NULL;
			link_closer__add(tracer->closer, link->link);
		} else {
			tracer->links[kept++] = *link;
		}
	}
	tracer->links_count = kept;
}

/* The same, and waits until they are closed. */
static void detach(struct tracer *tracer,
		   bool (*wanted)(const struct link_tag *tag, uint32_t which), uint32_t which)
{
	release(tracer, wanted, which);
	link_closer__wait(tracer->closer);
}

static bool any_link(const struct link_tag *tag, uint32_t which)
{
	(void)tag;
	(void)which;
	return true;
}

static bool by_return(const struct link_tag *tag, uint32_t which)
{
	(void)which;
	return tag->by_return && !tag->is_alloc_probe;
}

static bool of_group(const struct link_tag *tag, uint32_t group)
{
	return tag->group == group;
}

static bool of_process(const struct link_tag *tag, uint32_t born)
{
	return tag->born == born;
}

static bool of_file(const struct link_tag *tag, uint32_t file_fd)
{
	return tag->file_fd == (int)file_fd;
}

void tracer__detach(struct tracer *tracer)
{
	detach(tracer, any_link, 0);
}

void tracer__detach_later(struct tracer *tracer)
{
	release(tracer, any_link, 0);
}

void tracer__detach_returns(struct tracer *tracer)
{
	detach(tracer, by_return, 0);
}

void tracer__detach_file(struct tracer *tracer, int file_fd)
{
	detach(tracer, of_file, (uint32_t)file_fd);
}

void tracer__detach_group(struct tracer *tracer, uint32_t group)
{
	detach(tracer, of_group, group);
}

void tracer__release(struct tracer *tracer, uint32_t born)
{
	release(tracer, of_process, born);
}

uint32_t tracer__new_gate(struct tracer *tracer)
{
	for (uint32_t tries = 0; tries < PERFX_MAX_GATES; tries++) {
		uint32_t gate = ++tracer->last_gate;

		if (gate % PERFX_MAX_GATES && !tracer->gate_links[gate % PERFX_MAX_GATES])
			return gate;
	}
	return PERFX_GATE_NONE;
}

void tracer__open_gate(struct tracer *tracer, uint32_t gate)
{
	if (tracer->gate_links[gate % PERFX_MAX_GATES])
		__atomic_store_n(&tracer->gates[gate % PERFX_MAX_GATES], gate, __ATOMIC_SEQ_CST);
}
