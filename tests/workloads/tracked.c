/* SPDX-License-Identifier: BSD-2-Clause */
/* Annotated functions in a program and in its own library (lib/tracked.c), also built stripped:
 * then only the notes have their names. */
#include <perfx.h>

#include "known.h"
#include "tracked.h"

static int program_inner(int x)
{
	PERFX_TRACK();
	KEEP(x);
	return x + 1;
}

static int program_step(int x)
{
	PERFX_TRACK();
	return program_inner(x) + program_inner(x + 1);
}

static int renamed(int x)
{
	PERFX_TRACK_AS("my step: 100% | `mine`");
	KEEP(x);
	return x;
}

static void scenario(void)
{
	for (int i = 0; i < 1000; i++) {
		program_step(i);
		library_step(i);
		renamed(i);
	}
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("program_step", "calls", runs * 1000);
	known_expect("program_inner", "calls", runs * 2000);
	known_expect("library_step", "calls", runs * 1000);
	known_expect("library_inner", "calls", runs * 3000);
	known_expect("my step: 100% | `mine`", "calls", runs * 1000);
	return 0;
}
