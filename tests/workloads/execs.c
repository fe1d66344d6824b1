/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exec in the middle. Built twice, as execs and as execs-other, with different names of their
 * function. In each run the program calls its function 100 times, executes itself, calls it 50
 * times, executes the other one, which calls its own 200 times and waits for the next run. So the
 * pid stays and the program alternates. State travels in argv.
 */
#include "known.h"

#if defined(OTHER)
#define WORK other_work
#define ME   1
#else
#define WORK own_work
#define ME   0
#endif

static const char *const names[2] = {"own_work", "other_work"};
static uint64_t calls[2];

TRACED int WORK(int x)
{
	KEEP(x);
	return x + 1;
}

static void call_work(int count)
{
	for (int i = 0; i < count; i++)
		WORK(i);
	calls[ME] += (uint64_t)count;
}

static void execute(const char *path, const char *phase)
{
	char own[24], other[24];

	snprintf(own, sizeof(own), "%" PRIu64, calls[0]);
	snprintf(other, sizeof(other), "%" PRIu64, calls[1]);
	execl(path, path, phase, own, other, NULL);
	perror(path);
	exit(1);
}

/* DIR/execs ↔ DIR/execs-other */
static const char *peer_of(const char *path)
{
	static char peer[4096];
	size_t length = strlen(path);

	if (ME)
		snprintf(peer, sizeof(peer), "%.*s", (int)(length - strlen("-other")), path);
	else
		snprintf(peer, sizeof(peer), "%s-other", path);
	return peer;
}

int main(int argc, char **argv)
{
	const char *phase = argc > 3 ? argv[1] : "start";

	if (argc > 3) {
		calls[0] = strtoull(argv[2], NULL, 10);
		calls[1] = strtoull(argv[3], NULL, 10);
	}
	if (!strcmp(phase, "again")) {
		call_work(50);
		execute(peer_of(argv[0]), "peer");
	}
	if (!strcmp(phase, "peer")) {
		call_work(200);
		known_say("done");
	} else {
		known_ready();
	}
	if (known_go()) {
		call_work(100);
		execute(argv[0], "again");
	}
	for (int i = 0; i < 2; i++)
		known_expect(names[i], "calls", calls[i]);
	return 0;
}
