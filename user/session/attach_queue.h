/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that are to be looked at, because they began, executed or mapped something: they are
 * put here while the rings are drained, and worked off between two drains. A process waits once,
 * however often it is put.
 *
 * Who maps code all the time (a just-in-time compiler that writes files, a plugin that is opened
 * and closed) is not looked at each time: looks that found nothing new may take
 * ATTACH_QUEUE_SHARE of the time, for each process, after ATTACH_QUEUE_BURST_NS at once.
 */
#ifndef PERFX_SESSION_ATTACH_QUEUE_H
#define PERFX_SESSION_ATTACH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ATTACH_QUEUE_SHARE    50 /* one part in so many */
#define ATTACH_QUEUE_BURST_NS 20000000

/* Why a process waits; of several reasons the last in this order. */
enum attach_cause {
	ATTACH_MOVED = 0, /* it maps a file that is known at another address */
	ATTACH_FORKED,	  /* it maps what its parent does */
	ATTACH_MAPPED,	  /* it maps a file that may be new */
	ATTACH_EXECUTED,  /* everything is new; has its turn whatever looking at it has cost */
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
/* The next whose turn it is; false: none. */
bool attach_queue__take(struct attach_queue *queue, uint64_t now_ns, struct attach_task *task);
bool attach_queue__is_empty(const struct attach_queue *queue);
bool attach_queue__has(const struct attach_queue *queue, pid_t pid);
/* A look at this process took so much CPU time, and nothing came of it. */
void attach_queue__charge(struct attach_queue *queue, pid_t pid, uint64_t now_ns, uint64_t cost_ns);
/* The process has ended. True: it still waited, and *task says since when. */
bool attach_queue__forget(struct attach_queue *queue, pid_t pid, struct attach_task *task);

#endif
