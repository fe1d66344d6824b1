// SPDX-License-Identifier: BSD-2-Clause
#include "attach/calibrate.h"

#include "attach/calibration_targets.h"
#include "base/clock.h"

#include <bpf/libbpf.h>
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
static double time_call(const struct calib_target *calib_target)
{
	double batches[BATCHES];

	calib_target->call(); /* page faults, the first-hit path, the nop5's rewriting */
	for (int i = 0; i < BATCHES; i++) {
		uint64_t start = clock_monotonic_ns();

		for (int j = 0; j < BATCH_CALLS; j++)
			calib_target->call();
		batches[i] = (double)(clock_monotonic_ns() - start) / BATCH_CALLS;
	}
	qsort(batches, BATCHES, sizeof(batches[0]), compare_double);
	return batches[BATCHES / 4];
}

/* Puts a site of a calibration target into the tables and into points. */
static int add_point(struct tracer *tracer, const struct perfx_probe *probe,
		     const unsigned char *address, struct attach_point *point)
{
	int64_t offset = calib_target_offset(address), id = tracer__add_probe(tracer, probe);

	if (offset < 0 || id < 0)
		return -ENOENT;
	*point = (struct attach_point){.offset = (uint64_t)offset,
				       .probe = (uint32_t)id,
				       .by_return = probe->kind == PERFX_PROBE_RETURN};
	return 0;
}

/* Entry and exit, or entry with return probe, of a calibration target: how many points it took, or
 * < 0. */
static int add_calib_target(struct tracer *tracer, const struct calib_target *calib_target,
			    bool by_return, struct attach_point *points)
{
	struct perfx_probe probe = {.function = calib_target->site,
				    .kind = by_return ? PERFX_PROBE_RETURN : PERFX_PROBE_ENTRY};
	int n = 0;

	if (add_point(tracer, &probe, calib_target->entry, &points[n++]))
		return -ENOENT;
	if (by_return)
		return n;
	probe.kind = PERFX_PROBE_EXIT;
	probe.cfa_offset = 8;
	return add_point(tracer, &probe, calib_target->exit, &points[n++]) ? -ENOENT : n;
}

/* Closing perf links takes tens of milliseconds each: there only the kinds that matter. */
static bool wanted(const struct tracer *tracer, enum perfx_site site)
{
	return tracer__hit_link(tracer) != PERFX_LINK_PERF || site == PERFX_SITE_PUSH ||
	       site == PERFX_SITE_BRANCH || site == PERFX_SITE_STEPPED;
}

/* Durations that the spans of the calibration targets' calls show. */
struct durations {
	double ns[SITE_KINDS][BATCH_CALLS * BATCHES];
	size_t count[SITE_KINDS];
};

static int take_span(void *ctx, void *data, size_t size)
{
	struct durations *durations = ctx;
	const struct perfx_span *span = data;
	size_t *count;

	if (size < PERFX_SPAN_PLAIN_BYTES || span->function >= SITE_KINDS || span->flags)
		return 0;
	count = &durations->count[span->function];
	if (*count < BATCH_CALLS * BATCHES)
		durations->ns[span->function][(*count)++] = (double)span->duration_ns;
	return 0;
}

static void median_durations(struct tracer *tracer, double *median_ns)
{
	struct durations *durations = calloc(1, sizeof(*durations));
	struct ring_buffer *ring =
		durations ? tracer_rings_reader(tracer__spans(tracer), take_span, durations) : NULL;

	if (ring)
		ring_buffer__consume(ring);
	for (int site = PERFX_SITE_NOP5; ring && site < SITE_KINDS; site++) {
		size_t count = durations->count[site];

		qsort(durations->ns[site], count, sizeof(double), compare_double);
		median_ns[site] = count ? durations->ns[site][count / 2] : 0;
	}
	ring_buffer__free(ring);
	free(durations);
}

/* What of that the programs take: apart, for the account takes time too. */
static void account_calls(struct tracer *tracer, const struct calib_target *const *calib_targets)
{
	tracer__account_runs(tracer, true);
	for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++)
		for (int i = 0; calib_targets[site] && i < BATCH_CALLS; i++)
			calib_targets[site]->call();
	tracer__account_runs(tracer, false);
}

/* ns that tracing adds to a call of each calibration target. The links stay: taking one away takes
 * longer than all of this. */
static void cost_of_calls(struct tracer *tracer, int exe_fd, bool by_return, double *added_ns,
			  double *span_ns)
{
	struct attach_point points[2 * SITE_KINDS];
	const struct calib_target *calib_targets[SITE_KINDS] = {NULL};
	struct attach_target target = {.file_fd = exe_fd, .pid = getpid()};
	double base[SITE_KINDS];
	size_t count = 0;

	for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++) {
		const struct calib_target *calib_target =
			calib_target_of((enum perfx_site)site, by_return);
		int n;

		if (!calib_target || !wanted(tracer, (enum perfx_site)site) ||
		    (!by_return && !calib_target->exit))
			continue;
		n = add_calib_target(tracer, calib_target, by_return, points + count);
		if (n < 0)
			continue;
		count += (size_t)n;
		calib_targets[site] = calib_target;
		base[site] = time_call(calib_target);
	}
	if (!count || tracer__attach(tracer, &target, points, count) != count)
		return;
	for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++) {
		double ns = calib_targets[site] ? time_call(calib_targets[site]) - base[site] : 0;

		added_ns[site] = ns > 0 ? ns : 0;
	}
	account_calls(tracer, calib_targets);
	median_durations(tracer, span_ns);
}

static void measure(struct tracer *tracer, int exe_fd, struct calibration *calibration)
{
	double pairs[SITE_KINDS] = {0}, branch_ns;

	cost_of_calls(tracer, exe_fd, false, pairs, calibration->empty_span_ns);
	/* every calibration target leaves by a branch; this one begins with one too: half is one
	 * hit */
	branch_ns = pairs[PERFX_SITE_BRANCH] / 2;
	for (int site = PERFX_SITE_NOP5; site < SITE_KINDS; site++)
		calibration->hit_ns[site] = pairs[site] > branch_ns ? pairs[site] - branch_ns : 0;
	cost_of_calls(tracer, exe_fd, true, calibration->call_ns,
		      calibration->empty_span_by_return_ns);
}

int calibrate(struct tracer *tracer, struct calibration *calibration)
{
	int exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int64_t traced;

	*calibration = (struct calibration){0};
	if (exe_fd < 0)
		return -errno;
	traced = tracer__add_process(tracer, getpid(), NULL);
	if (traced >= 0) {
		tracer__start(tracer);
		measure(tracer, exe_fd, calibration);
		tracer__run_times(tracer, &calibration->run_times);
		tracer__abandon(tracer);
		tracer__remove_process(tracer, getpid());
	}
	tracer__reset(tracer);
	close(exe_fd);
	return traced < 0 ? (int)traced : 0;
}

double calibration_hit_ns(const struct calibration *calibration, enum perfx_site site,
			  enum perfx_return ret)
{
	return ret == PERFX_RETURN_PROBE ? calibration->call_ns[site] : calibration->hit_ns[site];
}
