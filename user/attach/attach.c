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
			 struct attach_point **points, size_t count, uint64_t *offsets,
			 uint64_t *cookies)
{
	struct link_points link_points = {.offsets = offsets, .cookies = cookies, .count = count};
	int err;

	for (size_t i = 0; i < count; i++) {
		offsets[i] = points[i]->offset;
		cookies[i] = points[i]->probe;
	}
	err = keep_link(tracer,
			link_multi(bpf_program__fd(way->program), way->attach_type, way->file_fd,
				   way->pid, way->at_return, &link_points),
			way->tag);
	/* too many open files, no such process: halving would not help */
	if (err && count > 1 && err != -ESRCH && err != -EMFILE && err != -ENOMEM) {
		attach_multi(tracer, way, points, count / 2, offsets, cookies);
		attach_multi(tracer, way, points + count / 2, count - count / 2, offsets, cookies);
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
			    .retprobe = way->at_return);
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
	numbers = calloc(count * 2, sizeof(*numbers));
	if (!numbers) {
		for (size_t i = 0; i < count; i++)
			points[i]->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < count; i++)
		numbers[i] = points[i]->offset;
	link_warm_pages(way->file_fd, numbers, count);
	attach_multi(tracer, way, points, count, numbers, numbers + count);
	free(numbers);
}

/* The points of one kind, as pointers into the caller's array. */
static size_t select_points(struct attach_point *points, size_t count, bool by_return,
			    struct attach_point **selected)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		if (points[i].by_return == by_return && !points[i].group && !points[i].err)
			selected[n++] = &points[i];
	return n;
}

static void attach_groups(struct tracer *tracer, struct attach_way *way,
			  struct attach_point *points, size_t count, struct attach_point **selected)
{
	size_t n;

	for (size_t i = 0; i < count; i += n ? n : 1) {
		uint32_t group = points[i].group;

		for (n = 0; group && i + n < count && points[i + n].group == group; n++)
			selected[n] = &points[i + n];
		way->tag.group = group;
		attach_way(tracer, way, tracer->hit_link, selected, n);
	}
	way->tag.group = 0;
}

size_t tracer__attach(struct tracer *tracer, int file_fd, pid_t pid, struct attach_point *points,
		      size_t count)
{
	struct perfx_bpf *skel = tracer->skel;
	struct attach_way way = {
		.file_fd = file_fd,
		.pid = tracer->multi_pid || tracer->hit_link == PERFX_LINK_PERF ? pid : 0,
		.program = skel->progs.perfx_on_hit,
		.attach_type = BPF_ATTACH_UPROBE_MULTI};
	struct attach_point **selected = calloc(count ? count : 1, sizeof(*selected));
	size_t n, attached = 0;

	for (size_t i = 0; i < count; i++)
		points[i].err = selected ? 0 : -ENOMEM;
	if (!selected)
		return 0;

	attach_groups(tracer, &way, points, count, selected);
	n = select_points(points, count, false, selected);
	attach_way(tracer, &way, tracer->hit_link, selected, n);

	n = select_points(points, count, true, selected);
	way.tag.by_return = true;
	if (tracer->return_link == PERFX_LINK_SESSION) {
		way.program = skel->progs.perfx_on_session;
		way.attach_type = BPF_ATTACH_UPROBE_SESSION;
		attach_way(tracer, &way, PERFX_LINK_SESSION, selected, n);
	} else {
		/* returns first: an entry without its return would stay open */
		way.program = skel->progs.perfx_on_return;
		way.at_return = true;
		attach_way(tracer, &way, tracer->return_link, selected, n);
		n = select_points(points, count, true, selected);
		way.program = skel->progs.perfx_on_hit;
		way.at_return = false;
		attach_way(tracer, &way, tracer->hit_link, selected, n);
	}
	free(selected);
	for (size_t i = 0; i < count; i++)
		attached += !points[i].err;
	return attached;
}

/* Takes away the links for which wanted says so. */
static void detach(struct tracer *tracer, bool (*wanted)(struct link_tag tag, uint32_t group),
		   uint32_t group)
{
	size_t kept = 0;

	for (size_t i = 0; i < tracer->links_count; i++) {
		if (wanted(tracer->links[i].tag, group))
			close(tracer->links[i].fd);
		else
			tracer->links[kept++] = tracer->links[i];
	}
	tracer->links_count = kept;
	kept = 0;
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
	return tag.by_return;
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
