/* SPDX-License-Identifier: BSD-2-Clause */
/* The last part of a capture as a capture of its own. */
#ifndef PERFX_REPLAY_CUT_H
#define PERFX_REPLAY_CUT_H

#include <stdint.h>

struct cut {
	const char *path;   /* of a capture with segments, as a flight recorder writes it */
	const char *to;	    /* the file that is made */
	uint64_t length_ns; /* at least so much of its end, in whole segments */
	/* Asked now and then: what is not 0 ends it and is returned. */
	int (*check)(void *ctx); /* NULL: nobody is asked */
	void *ctx;
};

/* 0 or -errno: of reading, writing or check. */
int capture_cut(const struct cut *cut);

#endif
