/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who else uses the lock for which a thread waits, and who has it meanwhile.
 *
 * The holder of Python's GIL is recorded, and of a lock the thread that woke the waiting one, as it
 * released it. In older captures it is one of the threads that wait for the same lock at other
 * times: of these the one that runs most, if it runs the very function in which it waits for the
 * lock. All that do so may hold it as well.
 */
#ifndef PERFX_ANALYZE_LOCKS_H
#define PERFX_ANALYZE_LOCKS_H

#include "analyze/driver.h"

struct lock_use {
	unsigned waiters_count; /* threads, the one that was asked for included */
	uint64_t waited_ns;	/* of all of them */
	uint32_t holder_tid;	/* 0: not known */
	unsigned holders_count; /* threads that may be meant: it is the one that runs most */
	bool holder_recorded;	/* otherwise it is likely by what it runs */
	struct place holder;	/* what that runs; frame NULL: not known */
};

struct lock_use lock_use_of(const struct profile_process *process,
			    const struct profile_activity *wait);

#endif
