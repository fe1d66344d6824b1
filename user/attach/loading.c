// SPDX-License-Identifier: BSD-2-Clause
#include "attach/loading.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct loading {
	struct tracer_options options;
	const struct features *features;
	struct tracer *tracer;
	int err; /* > 0: why there is none */
	pthread_t thread;
	bool has_thread;
};

static void *load(void *arg)
{
	struct loading *loading = arg;

	loading->tracer = tracer__new(&loading->options, loading->features);
	loading->err = loading->tracer ? 0 : errno;
	return NULL;
}

/* Signals are for the main thread, which waits for them. */
static bool start_thread(struct loading *loading)
{
	sigset_t all, before;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = !pthread_create(&loading->thread, NULL, load, loading);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

struct loading *loading__start(const struct tracer_options *options,
			       const struct features *features)
{
	struct loading *loading = calloc(1, sizeof(*loading));

	if (!loading)
		return NULL;
	loading->options = *options;
	loading->features = features;
	loading->has_thread = start_thread(loading);
	return loading;
}

struct tracer *loading__end(struct loading *loading, uint32_t probes_count)
{
	struct tracer *tracer;
	int err;

	if (loading->has_thread)
		pthread_join(loading->thread, NULL);
	if (!loading->has_thread ||
	    (loading->tracer && probes_count > loading->options.probes_max)) {
		tracer__free(loading->tracer);
		if (probes_count > loading->options.probes_max)
			loading->options.probes_max = probes_count;
		load(loading);
	}
	tracer = loading->tracer;
	err = loading->err;
	free(loading);
	errno = err;
	return tracer;
}
