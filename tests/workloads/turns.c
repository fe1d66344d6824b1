/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two libraries that are loaded in turn, each for one call, at the same addresses. Each "go" is
 * fifty turns of both, turn_a 14 ms of CPU time and turn_b 7 ms: a turn is no multiple of the time
 * between two samples. Further key of "expect":
 *	cpu_ns          of the function, by the thread's own clock
 */
#include <dlfcn.h>
#include <libgen.h>

#include "known.h"

#define ROUNDS 50

struct turn {
	const char *name;
	uint64_t spin_ns, cpu_ns, calls;
	void *at;
};

static void take_turn(const char *folder, struct turn *turn)
{
	char path[4096];
	void *library;
	uint64_t (*spin)(uint64_t);

	snprintf(path, sizeof(path), "%s/%s.so", folder, turn->name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	spin = library ? (uint64_t(*)(uint64_t))dlsym(library, turn->name) : NULL;
	known_require(spin != NULL, "dlopen");
	turn->at = (void *)spin;
	turn->cpu_ns += spin(turn->spin_ns);
	turn->calls++;
	dlclose(library);
}

int main(int argc, char **argv)
{
	struct turn turns[] = {{.name = "turn_a", .spin_ns = 14000000},
			       {.name = "turn_b", .spin_ns = 7000000}};
	char *folder = dirname(argv[0]);

	(void)argc;
	known_ready();
	while (known_go()) {
		for (int i = 0; i < ROUNDS; i++) {
			take_turn(folder, &turns[0]);
			take_turn(folder, &turns[1]);
			known_require(turns[0].at == turns[1].at, "both lie at one address");
		}
		known_say("done");
	}
	for (int i = 0; i < 2; i++) {
		known_expect(turns[i].name, "cpu_ns", turns[i].cpu_ns);
		known_expect(turns[i].name, "calls", turns[i].calls);
	}
	return 0;
}
