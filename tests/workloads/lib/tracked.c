/* SPDX-License-Identifier: BSD-2-Clause */
/* The library of tracked.c. */
#include <perfx.h>

#include "known.h"
#include "tracked.h"

static int library_inner(int x)
{
	PERFX_TRACK();
	KEEP(x);
	return x + 1;
}

int library_step(int x)
{
	PERFX_TRACK();
	return library_inner(x) + library_inner(x + 1) + library_inner(x + 2);
}
