/* SPDX-License-Identifier: BSD-2-Clause */
/* A process with functions, whose calls a test adds. */
#ifndef FUNCTIONS_FIXTURE_H
#define FUNCTIONS_FIXTURE_H

#include "replay_fixture.h"

#include <stdio.h>

static inline void begin(struct stream *s, uint32_t functions)
{
	stream_host(s);
	stream_process(s, 1, 100, "a", "a");
	for (uint32_t f = 1; f <= functions; f++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", f);
		stream_function(s, f, name, "/bin/a", PERFX_SOURCE_SYMBOL);
	}
}

#endif
