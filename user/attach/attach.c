// SPDX-License-Identifier: BSD-2-Clause
/* Attaching and detaching: which program and link serves which points, and what is left of them. */
#include "attach/link.h"
#include "attach/tracer_internal.h"
#include "base/grow.h"
#include "perfx.skel.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Perf-event uprobes are one link a probe, and closing one takes tens of milliseconds. */
#define PERF_LINKS_MAX 512

static int keep_link(struct tracer *tracer, int fd, struct link_tag tag)
{
	if (fd < 0)
		return fd;
	if (grow_array(&tracer->links, &tracer->links_capacity, tracer->links_count + 1,
		       sizeof(*tracer->links))) {
		close(fd);
		return -ENOMEM;
	}
	tracer->links[tracer->links_count++] = (struct kept_link){fd, tag};
	return 0;
}

/* How a set of points is attached: by which program and link. */
struct attach_way {
	int file_fd;
	pid_t pid;
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
	int err;

	for (size_t i = 0; i < count; i++) {
		offsets[i] = points[i]->offset;
		cookies[i] = points[i]->probe;
		semaphores[i] = points[i]->semaphore;
		if (points[i]->semaphore)
			link_points.semaphores = semaphores;
	}
	err = keep_link(tracer,
			link_multi(bpf_program__fd(way->program), way->attach_type, way->file_fd,
				   way->pid, way->at_return, &link_points),
			way->tag);
	/* too many open files, no such process: halving would not help */
	if (err && count > 1 && err != -ESRCH && err != -EMFILE && err != -ENOMEM) {
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
	if (!tracer->perf_links)
		tracer->perf_links = calloc(PERF_LINKS_MAX, sizeof(*tracer->perf_links));
	for (size_t i = 0; i < count; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = points[i]->probe,
			    .retprobe = way->at_return, .ref_ctr_offset = points[i]->semaphore);
		struct bpf_link *link;

		if (!tracer->perf_links || tracer->perf_links_count == PERF_LINKS_MAX) {
			points[i]->err = -ENOSPC;
			continue;
		}
		link = bpf_program__attach_uprobe_opts(way->program, way->pid ? way->pid : -1, path,
						       points[i]->offset, &opts);
		if (link)
			tracer->perf_links[tracer->perf_links_count++] =
				(struct kept_perf_link){link, way->tag};
		else if (!points[i]->err)
			points[i]->err = -errno;
	}
}

static void attach_way(struct tracer *tracer, const struct attach_way *way, enum perfx_link link,
		       struct attach_point **points, size_t count)
{
	uint64_t *numbers;

	if (!count)
		return;
	if (link == PERFX_LINK_PERF) {
		attach_perf(tracer, way, points, count);
		return;
	}
	numbers = calloc(count * 3, sizeof(*numbers));
	if (!numbers) {
		for (size_t i = 0; i < count; i++)
			points[i]->err = -ENOMEM;
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
	bool is_hook, is_mark, by_return;
	uint32_t group;
};

static bool in_batch(const struct attach_point *point, const struct batch *batch)
{
	return point->is_hook == batch->is_hook && point->is_mark == batch->is_mark &&
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

	way->program = batch->is_hook	? skel->progs.perfx_on_memory_hit
		       : batch->is_mark ? skel->progs.perfx_on_mark
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
		way->program = batch->is_hook ? skel->progs.perfx_on_memory_session
					      : skel->progs.perfx_on_session;
		way->attach_type = BPF_ATTACH_UPROBE_SESSION;
		attach_way(tracer, way, PERFX_LINK_SESSION, points, count);
		return;
	}
	/* returns first: an entry without its return would stay open */
	way->program =
		batch->is_hook ? skel->progs.perfx_on_memory_return : skel->progs.perfx_on_return;
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

	way->tag =
		(struct link_tag){batch->is_hook, batch->is_mark, batch->by_return, batch->group};
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
		struct batch batch = {points[i].is_hook, points[i].is_mark, points[i].by_return,
				      points[i].group};

		for (n = 1; i + n < count && in_batch(&points[i + n], &batch); n++)
			;
		if (batch.group)
			attach_batch(tracer, way, &batch, &points[i], n, selected);
	}
}

size_t tracer__attach(struct tracer *tracer, int file_fd, pid_t pid, struct attach_point *points,
		      size_t count)
{
	struct attach_way way = {
		.file_fd = file_fd,
		.pid = tracer->multi_pid || tracer->hit_link == PERFX_LINK_PERF ? pid : 0};
	struct attach_point **selected = calloc(count ? count : 1, sizeof(*selected));
	size_t attached = 0;

	for (size_t i = 0; i < count; i++)
		points[i].err = selected ? 0 : -ENOMEM;
	if (!selected)
		return 0;
	/* groups hold exits, which come before their entries */
	attach_groups(tracer, &way, points, count, selected);
	for (int i = 0; i < 5; i++) {
		struct batch batch = {.is_hook = i & 1, .by_return = i & 2, .is_mark = i & 4};

		attach_batch(tracer, &way, &batch, points, count, selected);
	}
	free(selected);
	for (size_t i = 0; i < count; i++)
		attached += !points[i].err;
	return attached;
}

/* Multi and session links; those that cannot be put on a list go at once. */
static void detach_links(struct tracer *tracer, bool (*wanted)(struct link_tag tag, uint32_t group),
			 uint32_t group)
{
	int *fds = calloc(tracer->links_count + 1, sizeof(*fds));
	size_t kept = 0, n = 0;

	for (size_t i = 0; i < tracer->links_count; i++) {
		if (!wanted(tracer->links[i].tag, group))
			tracer->links[kept++] = tracer->links[i];
		else if (fds)
			fds[n++] = tracer->links[i].fd;
		else
			close(tracer->links[i].fd);
	}
	tracer->links_count = kept;
	if (fds)
		link_close_all(fds, n);
	free(fds);
}

/* Takes away the links for which wanted says so. */
static void detach(struct tracer *tracer, bool (*wanted)(struct link_tag tag, uint32_t group),
		   uint32_t group)
{
	size_t kept = 0;

	detach_links(tracer, wanted, group);
	for (size_t i = 0; i < tracer->perf_links_count; i++) {
		if (wanted(tracer->perf_links[i].tag, group))
			bpf_link__destroy(tracer->perf_links[i].link);
		else
			tracer->perf_links[kept++] = tracer->perf_links[i];
	}
	tracer->perf_links_count = kept;
}

static bool any_link(struct link_tag tag, uint32_t group)
{
	(void)tag;
	(void)group;
	return true;
}

static bool by_return(struct link_tag tag, uint32_t group)
{
	(void)group;
	return tag.by_return && !tag.is_hook;
}

static bool of_group(struct link_tag tag, uint32_t group)
{
	return tag.group == group;
}

void tracer__detach(struct tracer *tracer)
{
	detach(tracer, any_link, 0);
}

void tracer__detach_returns(struct tracer *tracer)
{
	detach(tracer, by_return, 0);
}

void tracer__detach_group(struct tracer *tracer, uint32_t group)
{
	detach(tracer, of_group, group);
}
