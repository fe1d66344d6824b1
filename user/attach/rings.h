/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring buffers of one kind of records, read as one stream. Each thread writes into one of them
 * (bpf/perfx.bpf.h), so a thread's records keep their order; those of different threads are merged
 * by time, those of one ring too where `exact_times`: a thread may lose its CPU between making room
 * for a record and reading the clock. What is newer than the beginning of a drain is held back
 * until the next one: another ring, read before, may have got something older meanwhile.
 */
#ifndef PERFX_ATTACH_RINGS_H
#define PERFX_ATTACH_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rings;

struct rings_options {
	const int *fds; /* of BPF ring buffers, the caller's; not needed after rings__new */
	size_t count;
	/* When a record was made, CLOCK_MONOTONIC ns; 0: it has no time and goes out at once. */
	uint64_t (*time_of)(const void *record);
	/* A thread's records have times in the order in which it made them. */
	bool exact_times;
	/* Gets each record, in order; it is valid during the call. */
	void (*take)(void *ctx, const void *record, size_t size);
	void *ctx;
};

/* NULL with errno. */
struct rings *rings__new(const struct rings_options *options);
void rings__free(struct rings *rings);

/* A descriptor for epoll: readable when there is something to drain. */
int rings__fd(const struct rings *rings);
/* Takes what is there, two million records at most, so that an endless flood ends when the
 * recording does: then true, there is more. */
bool rings__drain(struct rings *rings);
/* All records that were made before this time have been given away. A thread that has lost its CPU
 * while it writes a record holds back this one and those of others. */
uint64_t rings__drained_ns(const struct rings *rings);
/* Gives away what is held back. To be called after the last write. */
void rings__flush(struct rings *rings);

/*
 * Merges the records of several lanes by time. The output is in order as long as each lane has been
 * given all records up to the time that is asked for; a later one is emitted late.
 */

struct merge;

/* NULL: memory is out. */
struct merge *merge__new(size_t lanes_count);
void merge__free(struct merge *merge);

/* Copies a record to the end of a lane, whose order is kept: one with an earlier time than the
 * record before it gets that one's. 0 or -ENOMEM. */
int merge__add(struct merge *merge, size_t lane, uint64_t time_ns, const void *record, size_t size);
/* Copies a record to its place in a lane by its time: 0 or -ENOMEM. */
int merge__insert(struct merge *merge, size_t lane, uint64_t time_ns, const void *record,
		  size_t size);
/* Gives away all records up to and including that time. They are valid until the next call. */
void merge__drain(struct merge *merge, uint64_t until_ns,
		  void (*take)(void *ctx, const void *record, size_t size), void *ctx);

#endif
