/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Metrics as OpenMetrics text, a family after the other:
 *
 *     # TYPE perfx_function_calls counter
 *     # HELP perfx_function_calls Calls that ended during the recording.
 *     perfx_function_calls_total{module="a.so",function="f",source="perfx"} 7
 *
 * The export of a capture and a live recording have the same table of families.
 */
#ifndef PERFX_EXPORT_METRICS_H
#define PERFX_EXPORT_METRICS_H

#include "aggregate/profile.h"
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>

/* X(id, name, type, help). The name ends in the unit, where it has one. Series of a counter have
 * the suffix _total. */
#define METRICS(X)                                                                              \
	X(DURATION, "perfx_capture_duration_seconds", "gauge", "Duration of the recording.")    \
	X(PROCESSES, "perfx_processes", "gauge", "Processes that are being traced.")            \
	X(PROCESSES_SEEN, "perfx_processes_seen", "counter",                                    \
	  "Processes that were traced since the recording began.")                              \
	X(STEPS_COUNT, "perfx_steps", "counter",                                                \
	  "Training steps of all processes, also those that have ended.")                       \
	X(LOSSES, "perfx_losses", "counter", "Lost records by kind; see the report.")           \
	X(HITS, "perfx_probe_hits", "counter", "Hits of probes in all traced processes.")       \
	X(OVERHEAD, "perfx_overhead_seconds", "counter",                                        \
	  "Estimated time that the hits have cost the traced processes.")                       \
	X(OWN_CPU, "perfx_tracer_cpu_seconds", "counter", "CPU time of the tracer itself.")     \
	X(OWN_RESIDENT, "perfx_tracer_resident_bytes", "gauge",                                 \
	  "Resident memory of the tracer itself.")                                              \
	X(SNAPSHOTS, "perfx_snapshot_cpu_seconds", "counter",                                   \
	  "CPU time of the tracer that making snapshots took.")                                 \
	X(FUNCTION_CALLS, "perfx_function_calls", "counter",                                    \
	  "Calls that ended during the recording.")                                             \
	X(FUNCTION_SELF, "perfx_function_self_seconds", "counter",                              \
	  "Time in the function itself, without traced functions that it called.")              \
	X(FUNCTION_TOTAL, "perfx_function_seconds", "counter", "Time from entry to end.")       \
	X(FUNCTION_FLOPS, "perfx_function_flops", "counter",                                    \
	  "Known floating-point operations of the function's own calls.")                       \
	X(FUNCTION_BYTES, "perfx_function_bytes", "counter",                                    \
	  "Known bytes that the function's own calls read and wrote.")                          \
	X(CPU, "perfx_process_cpu_seconds", "counter", "CPU time used during the recording.")   \
	X(RESIDENT, "perfx_process_resident_bytes", "gauge", "Resident memory.")                \
	X(READ, "perfx_process_read_bytes", "counter",                                          \
	  "Bytes that the process has read from storage.")                                      \
	X(WRITTEN, "perfx_process_written_bytes", "counter",                                    \
	  "Bytes that the process has written to storage.")                                     \
	X(FLOPS, "perfx_process_flops", "counter",                                              \
	  "Known floating-point operations of the process.")                                    \
	X(GPU_BUSY, "perfx_process_gpu_busy_seconds", "counter",                                \
	  "Time in which a GPU worked for the process.")                                        \
	X(STEPS, "perfx_step_seconds", "summary", "Duration of training steps.")                \
	X(STEP_PHASES, "perfx_step_phase_seconds", "counter", "Time of the steps by phase.")    \
	X(STEP_FLOPS, "perfx_step_flops", "counter",                                            \
	  "Known floating-point operations in the steps.")                                      \
	X(WAITS, "perfx_waits", "counter",                                                      \
	  "Times that a thread of the process has waited, by what for.")                        \
	X(WAIT_TIME, "perfx_wait_seconds", "counter",                                           \
	  "Time that threads of the process have waited, by what for.")                         \
	X(ALLOCS, "perfx_memory_allocations", "counter", "Allocations during the recording.")   \
	X(ALLOCATED, "perfx_memory_allocated_bytes", "counter",                                 \
	  "Bytes allocated during the recording.")                                              \
	X(LIVE, "perfx_memory_live_bytes", "gauge",                                             \
	  "Bytes allocated during the recording and not freed.")                                \
	X(PEAK, "perfx_memory_peak_live_bytes", "gauge", "Peak of live bytes.")                 \
	/* of the program's own counters; a sum may fall, so it is a gauge */                   \
	X(VALUE, "perfx_counter_value", "gauge", "Last value of the program's own counters.")   \
	X(VALUE_SUM, "perfx_counter_sum", "gauge", "Sum of the samples.")                       \
	X(VALUE_SAMPLES, "perfx_counter_samples", "counter", "Number of samples.")              \
	X(GPU_UTILISATION, "perfx_gpu_utilization_ratio", "gauge",                              \
	  "Share of the time in which a kernel ran.")                                           \
	X(GPU_MEMORY, "perfx_gpu_memory_used_bytes", "gauge", "Memory in use by all programs.") \
	X(GPU_POWER, "perfx_gpu_power_watts", "gauge", "Power.")                                \
	X(GPU_ENERGY, "perfx_gpu_energy_joules", "counter",                                     \
	  "Energy that the GPU used during the recording.")                                     \
	X(PROCESS_ENERGY, "perfx_process_gpu_energy_joules", "counter",                         \
	  "Energy of the GPUs that the process used, by its share.")                            \
	X(HOST_ENERGY, "perfx_host_energy_joules", "counter",                                   \
	  "Energy of the host's processors and memory during the recording.")

#define METRIC_ID(id, name, type, help) METRIC_##id,
enum metric { METRICS(METRIC_ID) };

/* The state of writing; begins all-zero but for `out`. The first error sticks. */
struct metrics {
	FILE *out;
	enum metric metric;
	struct text line;
	int err; /* -errno */
};

/* The description of a family, before its series. */
void metrics_family(struct metrics *metrics, enum metric metric);

/* A series: begin, its labels, one value. suffix: of a summary "_sum" or "_count"; else NULL. */
void metrics_begin(struct metrics *metrics, const char *suffix);
void metrics_label(struct metrics *metrics, const char *key, const char *harmless);
/* Several, as they are written: key="value",… */
void metrics_labels(struct metrics *metrics, const char *labels);
/* Of the traced program: made harmless (base/escape.h). */
void metrics_foreign(struct metrics *metrics, const char *key, const char *value);
/* Begins a series without suffix of a process: pid, exec (but of the first program), comm;
 * container, pod, namespace, job_id where they are known. */
void metrics_begin_process(struct metrics *metrics, const struct profile_process *process);
/* gpu, uuid */
void metrics_gpu(struct metrics *metrics, const struct profile_gpu_device *device);

/* Series of a process's steps: their sum and number; their time by phase. */
void metrics_steps(struct metrics *metrics, const struct profile_process *process,
		   uint64_t total_ns, uint64_t count);
void metrics_phases(struct metrics *metrics, const struct profile_process *process,
		    const uint64_t phases[PROFILE_PHASES]);

/* Whole families: utilization, memory and power of all GPUs, by the last or the average value of
 * the recording; losses by kind. */
void metrics_gpus(struct metrics *metrics, const struct profile *profile, bool last);
void metrics_losses(struct metrics *metrics, const uint64_t losses[PERFX_LOSS_KINDS]);
/* A series of a process, with one more label or none (key NULL). PROFILE_ABSENT: no series. */
void metrics_process(struct metrics *metrics, const struct profile_process *process,
		     const char *key, const char *label, uint64_t value);

/* Nanoseconds if the unit of the family is seconds. */
void metrics_value(struct metrics *metrics, uint64_t value);
void metrics_count(struct metrics *metrics, uint64_t value);
void metrics_joules(struct metrics *metrics, double joules);
/* digits: significant ones, at most. */
void metrics_number(struct metrics *metrics, double value, int digits);

/* Escapes harmless text for the value of a label. */
void metrics_escape(struct text *into, const char *harmless);

/* The end of the text. 0 or -errno. */
int metrics_end(struct metrics *metrics);

#endif
