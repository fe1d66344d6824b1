/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library that is loaded late, unloaded and loaded again. Each "go" is one step: open, call,
 * close, so that a test can wait until the tracer knows the library. `dlopen --sudden` does all
 * three in one step, as programs do; then calls are an upper bound.
 */
#include <dlfcn.h>
#include <libgen.h>

#include "known.h"

static char library[4096];
static void *handle;
static int (*late_work)(int);
static uint64_t calls;

static void open_library(void)
{
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	late_work = handle ? (int (*)(int))dlsym(handle, "late_work") : NULL;
	if (!late_work) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		exit(1);
	}
}

static void call_library(void)
{
	for (int i = 0; i < 500; i++)
		known_require(late_work(i) == 2 * i + 3, "late_work");
	calls += 500;
}

static void close_library(void)
{
	dlclose(handle);
}

int main(int argc, char **argv)
{
	static void (*const steps[])(void) = {open_library, call_library, close_library};
	bool sudden = argc > 1 && !strcmp(argv[1], "--sudden");
	int step = 0;

	snprintf(library, sizeof(library), "%s/late.so", dirname(argv[0]));
	known_ready();
	while (known_go()) {
		do {
			steps[step]();
			step = (step + 1) % 3;
		} while (sudden && step);
		known_say("done");
	}
	known_expect("late_work", sudden ? "at_most" : "calls", calls);
	known_expect("late_inner", sudden ? "at_most" : "calls", 2 * calls);
	return 0;
}
