/* SPDX-License-Identifier: BSD-2-Clause */
/* The other file of markers.c: its markers are the same ones. */
#include "markers.h"
#include "perfx.h"

uint64_t other_range(uint64_t parent)
{
	PERFX_SCOPE("other");
	return perfx_range_start_in("second", parent);
}
