/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library that is loaded late and allocates: each "go" is a step (open, use, use, close).
 * Allocations of dlopen are the loader's, so expectations are of the library's functions; they call
 * libc's allocator, which was there from the start, through a newly resolved name.
 */
#include <dlfcn.h>
#include <libgen.h>

#include "memory.h"

static char library[4096];
static void *handle;
static void *(*late_take)(size_t);
static void (*late_give)(void *);
static uint64_t uses;

static void open_library(void)
{
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (handle) {
		late_take = (void *(*)(size_t))dlsym(handle, "late_take");
		late_give = (void (*)(void *))dlsym(handle, "late_give");
	}
	known_require(handle && late_take && late_give, "dlopen");
}

static void use_library(void)
{
	for (int i = 0; i < 100; i++) {
		void *block = late_take(777);

		if (i % 4)
			late_give(block);
	}
	uses++;
}

static void close_library(void)
{
	dlclose(handle);
}

int main(int argc, char **argv)
{
	static void (*const steps[])(void) = {open_library, use_library, use_library,
					      close_library};
	char place[4096];

	snprintf(place, sizeof(place), "%s", argv[0]);
	snprintf(library, sizeof(library), "%s/%s.so", dirname(place),
		 argc > 1 ? argv[1] : "memory_late_lib");
	known_ready();
	for (int step = 0; known_go(); step = (step + 1) % 4) {
		steps[step]();
		known_say("done");
	}
	known_expect("late_take", "allocs", uses * 100);
	known_expect("late_take", "frees", uses * 75);
	known_expect("late_take", "live_bytes", uses * 25 * 777);
	return 0;
}
