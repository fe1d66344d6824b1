/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Metrics as OpenMetrics text, a family after the other:
 *
 *     # TYPE perfx_function_calls counter
 *     # HELP perfx_function_calls Calls that ended during the recording.
 *     perfx_function_calls_total{module="a.so",function="f",source="perfx"} 7
 *
 * The families that the export of a capture and a live recording share are named here, once.
 */
#ifndef PERFX_EXPORT_METRICS_H
#define PERFX_EXPORT_METRICS_H

#include "aggregate/profile.h"
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>

struct metric_family {
	const char *name, *type; /* series of a counter have the suffix _total */
	const char *unit;	 /* NULL: none */
	const char *help;
};

extern const struct metric_family
	/* of a recording */
	metric_duration,
	/* of a function */
	metric_function_calls, metric_function_self, metric_function_total,
	/* of a process */
	metric_process_cpu, metric_process_resident,
	/* of a process's memory, by domain */
	metric_allocated, metric_live_bytes,
	/* of a process's steps */
	metric_steps, metric_step_phases, metric_step_flops;

/* What is written, and to where. All-zero but for `out` is the beginning. The first error sticks.
 */
struct metrics {
	FILE *out;
	const struct metric_family *family;
	struct text line;
	int err; /* -errno */
};

/* Its description; the series that follow are of it. The family outlives them. */
void metrics_family(struct metrics *metrics, const struct metric_family *family);

/* A series: begin, its labels, one value. suffix: of a summary "_sum" or "_count"; else NULL. */
void metrics_begin(struct metrics *metrics, const char *suffix);
void metrics_label(struct metrics *metrics, const char *key, const char *harmless);
/* Several, as they are written: key="value",… */
void metrics_labels(struct metrics *metrics, const char *labels);
/* Of the traced program: made harmless (base/escape.h). */
void metrics_foreign(struct metrics *metrics, const char *key, const char *value);
/* pid, exec (but of the first program), comm; container, pod, namespace, job_id where they are
 * known
 */
void metrics_process(struct metrics *metrics, const struct profile_process *process);
/* gpu, uuid */
void metrics_gpu(struct metrics *metrics, const struct profile_gpu_device *device);

/* Whole families: utilization, memory and power of all GPUs, by one number of their series; losses
 * by kind. */
void metrics_gpus(struct metrics *metrics, const struct profile *profile,
		  uint64_t (*value_of)(const struct profile_gpu_series *series));
void metrics_losses(struct metrics *metrics, const uint64_t losses[PERFX_LOSS_KINDS]);

void metrics_count(struct metrics *metrics, uint64_t value);
void metrics_seconds(struct metrics *metrics, uint64_t ns);
void metrics_joules(struct metrics *metrics, double joules);
/* digits: significant ones, at most. */
void metrics_number(struct metrics *metrics, double value, int digits);

/* Escapes for a label's value what is harmless otherwise. */
void metrics_escape(struct text *into, const char *harmless);

/* The end of the text. 0 or -errno. */
int metrics_end(struct metrics *metrics);

#endif
