/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream that a test has built, as its aggregate. */
#ifndef REPLAY_FIXTURE_H
#define REPLAY_FIXTURE_H

#include "stream_builder.h"

#include <criterion/criterion.h>

/* The stream is empty again; the caller frees what comes back. */
static inline struct aggregate *replay(struct stream *stream)
{
	struct aggregate *aggregate = aggregate__new();

	cr_assert_eq(stream_replay(stream, aggregate), 0);
	stream_clear(stream);
	return aggregate;
}

static inline const struct profile_process *only_process(struct aggregate *aggregate)
{
	const struct profile *profile = aggregate__finish(aggregate);

	cr_assert_eq(profile->processes_count, 1);
	return &profile->processes[0];
}

#endif
