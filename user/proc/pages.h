/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pages of a process, by /proc/PID/pagemap: resident, swapped, shared, huge.
 *
 * Not by /proc/PID/smaps: its reader holds the lock of the process's address space for as long as a
 * mapping is counted, 12 ms for each GiB of small pages, and mmap() of the process waits that long.
 * pagemap holds the lock for 2 MiB at a time.
 */
#ifndef PERFX_PROC_PAGES_H
#define PERFX_PROC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct page_group { /* bytes */
	uint64_t resident;
	uint64_t private;      /* of that, mapped by no other process */
	uint64_t proportional; /* a page that n processes map counts as an n-th */
};

struct page_sums {
	struct page_group anonymous, of_files; /* of_files: also shared memory */
	uint64_t huge_bytes;		       /* of anonymous: in huge pages */
	uint64_t swapped_bytes;
};

struct pages;

/* NULL with errno set: EACCES, EPERM: not allowed; ESRCH, ENOENT: no such process. */
struct pages *pages__open(pid_t pid);
void pages__close(struct pages *pages);
/* Is `proportional` counted? The kernel tells only root how often a page is mapped. */
bool pages__counts_mappings(const struct pages *pages);
/* Adds the pages of [start, end). Of many pages that are shared singly, `proportional` is estimated
 * from 256 of each 8,192. 0 or -errno. */
int pages__add(struct pages *pages, uint64_t start, uint64_t end, struct page_sums *sums);

/* Addresses of pages of 4 KiB in huge pages, evenly among those that pages__add() has found. */
#define HUGE_SAMPLES 4096
const uint64_t *pages__huge_samples(const struct pages *pages, size_t *count);

/* Copies memory of the process: all of it or -errno. By /proc/PID/mem: process_vm_readv() pins a
 * page, and a page that a forked process shares with another is copied before it is pinned. */
int pages__read(const struct pages *pages, uint64_t address, void *to, size_t bytes);

/* Which of `count` pages from start on are resident? Up to PAGES_ASKED_MAX. */
#define PAGES_ASKED_MAX 1024
int pages__are_resident(struct pages *pages, uint64_t start, size_t count, bool *resident);

#endif
