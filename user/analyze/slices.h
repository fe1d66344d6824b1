/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words for what a thread did between two context switches (--timeline). They contain names
 * unescaped: the writer escapes them.
 */
#ifndef PERFX_ANALYZE_SLICES_H
#define PERFX_ANALYZE_SLICES_H

#include "aggregate/profile.h"
#include "base/grow.h"
#include "base/text.h"
#include "perfx_record.h"

/* Names of what threads waited for, by process, reason and object. The profile is borrowed. */
struct wait_names {
	const struct profile_activity **list;
	size_t list_count, list_capacity;
	struct map64 places;
};

/* 0 or -ENOMEM; to be cleared in any case. */
int wait_names_make(struct wait_names *names, const struct profile *profile);
void wait_names_clear(struct wait_names *names);

/* "futex: lock at libfoo.so+0x40", "read: /data/x", "syscall 73"; nothing if the thread
 * did not wait for an event. */
void slice_wait_words(struct text *into, const struct wait_names *names,
		      const struct perfx_slice *slice);
/* "python3 (tid 12)", "python3 (tid 12 of pid 7)": of another process, "an interrupt"; "" if
 * nothing woke it. */
void slice_waker_words(struct text *into, const struct profile *profile,
		       const struct perfx_slice *slice);

#endif
