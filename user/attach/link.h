/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Uprobe links, one call for all kinds. Multi and session links are made by the raw bpf() call:
 * libbpf 1.4 knows no session links, and the kernel headers of a stable distribution neither.
 */
#ifndef PERFX_ATTACH_LINK_H
#define PERFX_ATTACH_LINK_H

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
	/* Where in the file the kernel counts who looks (USDT semaphores), 0: nowhere; NULL: none
	 * of them has one. It counts back down when the link goes, however that comes about. */
	const uint64_t *semaphores;
	size_t count;
};

/* A link of many offsets of one file. prog_fd must have been loaded with the same attach type.
 * at_return: multi links only, the program runs at return. pid 0: every process.
 * Returns the link's descriptor or -errno; -ENOTSUPP (524) when the kernel refuses an instruction.
 */
int link_multi(int prog_fd, int attach_type, int file_fd, pid_t pid, bool at_return,
	       const struct link_points *points);

struct bpf_link;

/* One of either kind. */
struct link {
	int fd;		       /* multi and session links */
	struct bpf_link *perf; /* NULL: it is not one by perf event */
};

/* Closes links, many at a time: the kernel makes each wait until no CPU runs its programs any more
 * (25 to 65 ms seen), and those who wait together wait once. */
void link_close_all(const struct link *links, size_t count);

/*
 * Closes links while its owner goes on. What waits to be closed is bounded by the descriptors that
 * the process may have. Where no thread can be had, links are closed at once.
 */
struct link_closer;

struct link_closer *link_closer__new(void);
void link_closer__add(struct link_closer *closer, struct link link);
/* Until all are closed. */
void link_closer__wait(struct link_closer *closer);
/* While links are made: those that can keep the kernel from it wait, unless a caller waits for
 * them.
 */
void link_closer__hold(struct link_closer *closer, bool held);
void link_closer__free(struct link_closer *closer);

/* The kernel's own code for an operation that it does not support, not in errno.h. */
#define KERNEL_ENOTSUPP 524

/* Reads a byte of the page of each offset: registering a uprobe on a page that is not in the page
 * cache makes some kernels complain in their log. */
void link_warm_pages(int file_fd, const uint64_t *offsets, size_t count);

#endif
