/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes whose mappings are to be scanned, because they were forked, executed or mapped
 * something: they are queued while the rings are drained, and scanned between two drains. A process
 * is in the queue once, however often it is put.
 *
 * A process that maps code all the time (a just-in-time compiler that writes files, a plugin that
 * is opened and closed) is not scanned each time: for each process, scans that found nothing new
 * may take ATTACH_QUEUE_BURST_NS at once, then ATTACH_QUEUE_SHARE of the time.
 */
#ifndef PERFX_SESSION_ATTACH_QUEUE_H
#define PERFX_SESSION_ATTACH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ATTACH_QUEUE_SHARE    50 /* one part in so many */
#define ATTACH_QUEUE_BURST_NS 20000000

/* Why a process is queued; of several reasons the last in this order. */
enum attach_cause {
	ATTACH_MOVED = 0, /* it maps a file that is known at another address */
	ATTACH_FORKED,	  /* it maps what its parent does */
	ATTACH_MAPPED,	  /* it maps a file that may be new */
	ATTACH_EXECUTED,  /* everything is new; scanned whatever earlier scans have cost */
};

struct attach_task {
	pid_t pid, parent; /* parent: of FORKED */
	enum attach_cause cause;
	bool known; /* of a program that is traced from its first instruction on, or not at all */
	uint64_t since_ns; /* of the first event that was not handled; CLOCK_MONOTONIC */
};

struct attach_queue;

struct attach_queue *attach_queue__new(void);
void attach_queue__free(struct attach_queue *queue);

/* 0 or -ENOMEM. */
int attach_queue__put(struct attach_queue *queue, const struct attach_task *task);
/* Takes the next process that is due out of the queue; false: none is. */
bool attach_queue__pop(struct attach_queue *queue, uint64_t now_ns, struct attach_task *task);
bool attach_queue__is_empty(const struct attach_queue *queue);
bool attach_queue__has(const struct attach_queue *queue, pid_t pid);
/* A scan of this process took so much CPU time and found nothing new. */
void attach_queue__charge(struct attach_queue *queue, pid_t pid, uint64_t now_ns, uint64_t cost_ns);
/* The process has ended. True: it was still queued; *task is its entry. */
bool attach_queue__forget(struct attach_queue *queue, pid_t pid, struct attach_task *task);

#endif
