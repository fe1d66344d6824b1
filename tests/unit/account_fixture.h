/* SPDX-License-Identifier: BSD-2-Clause */
/* What tests of a process's account and of its hottest place share. */
#ifndef ACCOUNT_FIXTURE_H
#define ACCOUNT_FIXTURE_H

#include "training_fixture.h"

#define PACKAGES "/home/me/venv/lib/python3.11/site-packages/"
#define IN_CALL	 python_frame(0x7f000000a000, 3)
#define FITS	 python_frame(0x7f000000b000, 467)

static inline uint64_t sum_of(const struct account *account)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
		sum += account->ns[k];
	return sum;
}

/* The classes of each thread and of the process are all of its time. */
static inline void expect_whole(const struct process_account *account)
{
	uint64_t wall_ns = 0;

	for (size_t i = 0; i < account->threads_count; i++) {
		const struct account *thread = &account->threads[i];

		cr_expect_eq(sum_of(thread), thread->wall_ns, "thread %u", thread->tid);
		wall_ns += thread->wall_ns;
	}
	cr_expect_eq(account->all.wall_ns, wall_ns);
	cr_expect_eq(sum_of(&account->all), wall_ns);
}

static inline const struct process_account *account_of(const struct report *report)
{
	const struct process_account *account = &report->analysis->processes[0].account;

	expect_whole(account);
	return account;
}

static inline void blocked(struct stream *s, uint32_t tid, enum perfx_wait_reason reason,
			   uint64_t ms, uint64_t count)
{
	stream_plain(s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = tid,
		     .reason = (uint8_t)reason, .object = 7, .blocked_ns = ms * MS, .count = count,
		     .max_ns = ms * MS);
}

static inline void expect_ms(const struct account *account, enum account_class class, uint64_t ms)
{
	cr_assert_not_null(account);
	cr_expect_eq(account->ns[class], ms * MS, "%s of thread %u: %llu ns",
		     account_class_name(class), account->tid,
		     (unsigned long long)account->ns[class]);
}

static inline struct report end_of_ms(struct stream *s, uint64_t main_ms, uint64_t runnable_ms,
				      uint64_t pool_ms)
{
	return end_of_threads(s, (struct threads_time){main_ms * MS, runnable_ms * MS, pool_ms * MS,
						       (main_ms + pool_ms) * MS});
}

/* A process whose main thread runs for 100 ms of ten seconds. */
static inline struct report end_of_pool_after(struct stream *s, uint64_t pool_ms,
					      uint64_t runnable_ms)
{
	return end_of_ms(s, 100, runnable_ms, pool_ms);
}

static inline struct report end_of_pool(struct stream *s, uint64_t pool_ms)
{
	return end_of_pool_after(s, pool_ms, 1900);
}

#endif
