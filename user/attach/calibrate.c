// SPDX-License-Identifier: BSD-2-Clause
#include "attach/calibrate.h"

#include "attach/stubs.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Calls a batch; the least of the batches is the cost without disturbance. */
#define BATCH_CALLS 50
#define BATCHES	    9

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* ns a call: the lower quartile of the batches, for noise only ever adds. */
static double time_call(const struct stub *stub)
{
	double batches[BATCHES];

	stub->call(); /* page faults, the first-hit path, the nop5's rewriting */
	for (int i = 0; i < BATCHES; i++) {
		uint64_t start = clock_monotonic_ns();

		for (int j = 0; j < BATCH_CALLS; j++)
			stub->call();
		batches[i] = (double)(clock_monotonic_ns() - start) / BATCH_CALLS;
	}
	qsort(batches, BATCHES, sizeof(batches[0]), compare_double);
	return batches[BATCHES / 4];
}

/* ns that tracing adds to a call of the stub; < 0: could not be attached. */
static double cost_of_call(struct tracer *tracer, int exe_fd, const struct stub *stub,
			   bool by_return)
{
	struct perfx_probe probe = {.function = 1,
				    .kind = by_return ? PERFX_PROBE_RETURN : PERFX_PROBE_ENTRY};
	struct attach_point points[2] = {{.by_return = by_return}};
	double base = time_call(stub), traced = -1;
	int64_t entry = stub_offset(stub->entry), id;
	size_t count = 1;

	id = tracer__add_probe(tracer, &probe);
	if (entry < 0 || id < 0)
		return -1;
	points[0].offset = (uint64_t)entry;
	points[0].probe = (uint32_t)id;
	if (!by_return) {
		probe.kind = PERFX_PROBE_EXIT;
		probe.cfa_offset = 8;
		id = tracer__add_probe(tracer, &probe);
		entry = stub_offset(stub->exit);
		if (entry < 0 || id < 0)
			return -1;
		points[1].offset = (uint64_t)entry;
		points[1].probe = (uint32_t)id;
		count = 2;
	}
	if (tracer__attach(tracer, exe_fd, getpid(), points, count) == count)
		traced = time_call(stub);
	tracer__detach(tracer);
	return traced < 0 ? -1 : traced > base ? traced - base : 0;
}

/* Closing perf links takes tens of milliseconds each: there only the kinds that matter. */
static bool wanted(const struct tracer *tracer, enum perfx_site site)
{
	return tracer__hit_link(tracer) != PERFX_LINK_PERF || site == PERFX_SITE_PUSH ||
	       site == PERFX_SITE_BRANCH || site == PERFX_SITE_STEPPED;
}

static void measure(struct tracer *tracer, int exe_fd, struct calibration *calibration)
{
	const struct stub *branch = stub_of(PERFX_SITE_BRANCH);
	double branch_ns = 0;

	/* entry and exit are both branches in this one: half is one hit */
	if (branch)
		branch_ns = cost_of_call(tracer, exe_fd, branch, false) / 2;
	for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++) {
		const struct stub *stub = stub_of((enum perfx_site)site);
		double ns;

		if (!stub || !wanted(tracer, (enum perfx_site)site))
			continue;
		ns = stub->exit ? cost_of_call(tracer, exe_fd, stub, false) - branch_ns : 0;
		calibration->hit_ns[site] = ns > 0 ? ns : 0;
		ns = cost_of_call(tracer, exe_fd, stub, true);
		calibration->call_ns[site] = ns > 0 ? ns : 0;
	}
}

int calibrate(struct tracer *tracer, struct calibration *calibration)
{
	int exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int64_t family;

	*calibration = (struct calibration){0};
	if (exe_fd < 0)
		return -errno;
	family = tracer__add_family(tracer, getpid(), NULL);
	if (family >= 0) {
		tracer__start(tracer);
		measure(tracer, exe_fd, calibration);
		tracer__stop(tracer);
		tracer__remove_family(tracer, getpid());
	}
	tracer__reset(tracer);
	close(exe_fd);
	return family < 0 ? (int)family : 0;
}

double calibration_hit_ns(const struct calibration *calibration, enum perfx_site site,
			  enum perfx_return ret)
{
	return ret == PERFX_RETURN_PROBE ? calibration->call_ns[site] : calibration->hit_ns[site];
}
