/* SPDX-License-Identifier: BSD-2-Clause */
/* A capture through a sink, or the part of it that --since and --until choose. */
#ifndef PERFX_CMD_REPLAY_H
#define PERFX_CMD_REPLAY_H

#include "cmd/options.h"
#include "replay/pipeline.h"

#include <stdbool.h>

/* 0 or -errno, of which replay_error tells more. */
int replay_capture(const struct options *options, struct pipeline *pipeline, bool say_damage);
/* Says why, and returns the exit code for it. */
int replay_say_error(const struct options *options, int err);

#endif
