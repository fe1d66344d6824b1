/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a hit costs on this host, now: the numbers move from machine to machine (4 to 17 µs for a
 * stepped instruction on machines of one kind), so none is quoted. Calibration targets of our own
 * are traced by the same programs and links that the target gets.
 */
#ifndef PERFX_ATTACH_CALIBRATE_H
#define PERFX_ATTACH_CALIBRATE_H

#include "attach/run_times.h"
#include "attach/tracer.h"
#include "perfx_record.h"

#define SITE_KINDS (PERFX_SITE_STEPPED + 1)

struct calibration {
	/* by enum perfx_site; 0: not measured */
	double hit_ns[SITE_KINDS];  /* a hit at an entry or exit site, half of the program's work in
				       it */
	double call_ns[SITE_KINDS]; /* entry on that site and return probe together */
	/* What the span of an empty call shows, by the entry's site: the part of the cost that lies
	 * between the two time stamps. With exit sites, and with a return probe. */
	double empty_span_ns[SITE_KINDS], empty_span_by_return_ns[SITE_KINDS];
	struct run_times run_times; /* of the programs in hit_ns and call_ns */
};

/* Before anything else is attached; leaves the tracer as if new. 0 or -errno: then all is 0. */
int calibrate(struct tracer *tracer, struct calibration *calibration);

/* Cost of one hit: for a function timed by return probe the return is in its entry's hit. */
double calibration_hit_ns(const struct calibration *calibration, enum perfx_site site,
			  enum perfx_return ret);

#endif
