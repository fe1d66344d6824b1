/* SPDX-License-Identifier: BSD-2-Clause */
/* For stacks.cc: called through a PLT, and calls back. */
#include "known.h"

void far_away(void (*back)(size_t size), size_t size);

TRACED void far_away(void (*back)(size_t size), size_t size)
{
	char text[100];

	memset(text, (int)size, sizeof(text));
	back(size);
	KEEP(text[5]);
}
