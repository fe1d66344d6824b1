/* SPDX-License-Identifier: BSD-2-Clause */
/* A capture file, or a time slice of it, through a pipeline. */
#ifndef PERFX_REPLAY_SOURCE_H
#define PERFX_REPLAY_SOURCE_H

#include "replay/pipeline.h"

struct capture_source {
	const char *path;
	struct time_slice_choice time_slice; /* all zero: the whole */
};

/* 0 or -errno; -ERANGE: the slice is empty. *damage: what could not be read; NULL: not asked. */
int capture_source_replay(const struct capture_source *source, struct pipeline *pipeline,
			  struct capture_damage *damage);

#endif
