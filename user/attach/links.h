/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Uprobe links of all kinds: which program and link serve which points, for which process they are
 * attached, and how they are removed. Links of iterators are run here too.
 */
#ifndef PERFX_ATTACH_LINKS_H
#define PERFX_ATTACH_LINKS_H

#include "perfx_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* enum bpf_attach_type of linux/bpf.h, which older copies of that header lack. */
#define BPF_ATTACH_UPROBE_MULTI	  48
#define BPF_ATTACH_UPROBE_SESSION 57

struct link_points {
	const uint64_t *offsets; /* in the file */
	const uint64_t *cookies;
	/* Where in the file the kernel counts tracers (USDT semaphores), 0: nowhere; NULL: none of
	 * them has one. It counts back down when the link goes, however that comes about. */
	const uint64_t *semaphores;
	size_t count;
};

/* A multi or session link of many offsets of one file, by the raw bpf() call: libbpf 1.4 knows no
 * session links, and the kernel headers of a stable distribution neither. prog_fd must have been
 * loaded with the same attach type. at_return: multi links only, the program runs at return. pid 0:
 * every process. Returns the link's descriptor or -errno; -ENOTSUPP (524) when the kernel refuses
 * an instruction.
 */
int link_multi(int prog_fd, int attach_type, int file_fd, pid_t pid, bool at_return,
	       const struct link_points *points);

/* The kernel's own code for an operation that it does not support, not in errno.h. */
#define KERNEL_ENOTSUPP 524

/* Reads a byte of the page of each offset: registering a uprobe on a page that is not in the page
 * cache makes some kernels complain in their log. */
void link_warm_pages(int file_fd, const uint64_t *offsets, size_t count);

/* Runs an iterator's program once on everything that its link iterates over. 0 or -errno. */
int link_iterate(int link_fd);

/* BPF programs of links: by the kind of points and the moment. */
enum tracer_program {
	PROGRAM_HIT,
	PROGRAM_RETURN,
	PROGRAM_SESSION,
	PROGRAM_ANNOTATION,
	PROGRAM_FILE_CALL,
	PROGRAM_MEMORY_HIT,
	PROGRAM_MEMORY_RETURN,
	PROGRAM_MEMORY_SESSION,
};
#define TRACER_PROGRAMS (PROGRAM_MEMORY_SESSION + 1)

/* Points by the programs that serve them. */
enum point_kind {
	POINT_CALL,	  /* of a call that is recorded */
	POINT_MEMORY,	  /* of an allocator */
	POINT_ANNOTATION, /* of a function that marks ranges */
	POINT_FILE_CALL,  /* of a call on files and sockets */
};
#define POINT_KINDS (POINT_FILE_CALL + 1)

struct point_programs {
	enum tracer_program hit, at_return, session;
};

extern const struct point_programs point_programs[POINT_KINDS];

struct bpf_program;
struct tracer;

struct links_options {
	enum perfx_link hit_link, return_link; /* for sites; for entry and return */
	bool multi_pid;			       /* multi links can be of one process */
	/* Loads it, if it is not. NULL: the kernel refuses it. */
	struct bpf_program *(*program)(struct tracer *tracer, enum tracer_program which);
	struct tracer *tracer;
	uint64_t *gates;	/* the programs', by place; borrowed */
	uint32_t *gates_turned; /* the programs' perfx_gates_turned; borrowed */
};

struct links;

/* options is copied. NULL: out of memory. */
struct links *links__new(const struct links_options *options);
/* Removes them, and waits until they are closed. */
void links__free(struct links *links);

/* One site of a file. */
struct attach_point {
	enum point_kind kind;
	uint64_t offset;    /* in the file */
	uint32_t probe;	    /* index, the cookie */
	bool by_return;	    /* entry and return */
	uint64_t semaphore; /* in the file, raised as long as it is attached; 0: none */
	uint32_t group;	    /* > 0: neighbours of one group get links that can be removed */
	int err;	    /* out: 0, or why this one could not be attached */
};

/* A file, and for which processes. */
struct attach_target {
	int file_fd;
	/* 0: every process that maps it (which of them are traced is checked in the kernel) */
	pid_t pid;
	uint32_t born; /* its first process index, by which links are released; 0: of all processes
			*/
	/* Through which its hits go, those of links of no group and of groups; PERFX_GATE_NONE:
	 * through none. */
	uint32_t gate, groups_gate;
};

/* Attaches sites of one file. Returns how many were attached; each point has its own error. */
size_t links__attach(struct links *links, const struct attach_target *target,
		     struct attach_point *points, size_t count);

/* Functions that are attached one after the other are counted from one moment on: their hits do
 * nothing as long as their gate is closed. Returns a new gate, which is closed; PERFX_GATE_NONE:
 * all are in use. */
uint32_t links__new_gate(struct links *links);
/* From the next links__turn_gates on. */
void links__open_gate(struct links *links, uint32_t gate);
/* At one moment the gates open that are to be opened, and those of old links close
 * (links__age_file): each call is counted by the one or by the other. Are there old links? Then
 * hits that are under way have to end before links__end_turn, which releases them. */
bool links__turn_gates(struct links *links);
void links__end_turn(struct links *links);

/* A process has ended: its links have no effect from now on, and are closed without waiting. */
void links__release(struct links *links, uint32_t born);
/* Removes the return probes that were attached so far; sites stay. */
void links__detach_returns(struct links *links);
/* Removes all links on a file, by the descriptor that it was attached with. */
void links__detach_file(struct links *links, int file_fd);
/* A file's links, those of groups too or not, are to be made anew: those that are there now are old
 * from here on, and have an effect until links__turn_gates, when their successors are there. */
void links__age_file(struct links *links, int file_fd, bool groups);
/* Waits until all that was released is closed. */
void links__wait(struct links *links);
/* Is there anything to wait for? Until then hits go through closed gates, and do nothing. */
bool links__are_closing(const struct links *links);
/* Removes the links of a group without waiting until they are closed: their breakpoints go at once,
 * and the kernel then waits for programs that run. */
void links__detach_group(struct links *links, uint32_t group);
/* Removes all links without waiting until they are closed. */
void links__detach_later(struct links *links);
/* For the end of a recording. Removes all links but those of group_kept, waits until they are
 * closed and returns true. If the kernel closes links one after the other (perf events), it returns
 * false at once, and a forked process closes all links, those of group_kept too. */
bool links__end(struct links *links, uint32_t kept_from);

/* Longest wait for this process after the report has been written. */
#define DETACHING_PATIENCE_MS 2000

/* Waits at most timeout_ms (-1: no limit) until the process has ended. False: it still runs. */
bool detaching_wait(int timeout_ms);
/* Estimated time until the process ends; 0: none, or it has ended. */
uint64_t detaching_left_ns(void);
/* 0: none, or detaching_wait() has returned true. */
pid_t detaching_pid(void);

#endif
