/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trainer whose best number of workers is known: tunable WORKERS [STEPS]. With 0, 1, 2, 4 and 8 a
 * step sleeps for 20, 10, 8.2, 8 and 12 ms; with others it fails. The first steps take three times
 * as long. It adds 32 samples in each, and starts a worker that it never ends. By TUNABLE_PACE a
 * step takes so many times as long; with TUNABLE_DEAF it stays through SIGTERM and SIGINT.
 */
#include <perfx.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "known.h"

#define SLOW_STEPS 4
#define SAMPLES	   32

/* 0: there is no such number */
static double step_ms(long workers)
{
	static const double steps[] = {[0] = 20, [1] = 10, [2] = 8.2, [4] = 8, [8] = 12};

	return workers >= 0 && workers <= 8 ? steps[workers] : 0;
}

TRACED void tunable_step(double ms)
{
	struct timespec time = {.tv_nsec = (long)(ms * 1e6)};

	perfx_step_begin();
	nanosleep(&time, NULL);
	perfx_counter_add("samples", SAMPLES);
	perfx_step_end();
}

static void start_worker(void)
{
	if (fork())
		return;
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	long workers = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	long steps = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	const char *pace = getenv("TUNABLE_PACE");
	double ms = step_ms(workers) * (pace ? strtod(pace, NULL) : 1);

	if (!(ms > 0)) {
		fprintf(stderr, "starting\ntunable: %ld workers are too many\n", workers);
		return 3;
	}
	if (getenv("TUNABLE_DEAF")) {
		signal(SIGTERM, SIG_IGN);
		signal(SIGINT, SIG_IGN);
	}
	start_worker();
	for (long i = 0; !steps || i < steps; i++)
		tunable_step(i < SLOW_STEPS ? 3 * ms : ms);
	return 0;
}
