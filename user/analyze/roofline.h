/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fast something computed, and what kept it from being faster: the roofline model (Williams,
 * Waterman, Patterson, 2009). Pure functions of the profile.
 *
 * The roof is what the host could do with the cores that were at work: the lower of its peak for
 * the data type and of intensity × memory bandwidth. Peaks are known for some numbers of threads,
 * usually one and all; between them they are interpolated.
 */
#ifndef PERFX_ANALYZE_ROOFLINE_H
#define PERFX_ANALYZE_ROOFLINE_H

#include "aggregate/profile.h"
#include "base/text.h"

enum roofline_class {
	ROOFLINE_UNKNOWN = 0,
	ROOFLINE_COMPUTE,
	ROOFLINE_MEMORY,
	/* Neither of them: calling, waiting, or a kernel that is far from what the CPU can do. */
	ROOFLINE_OVERHEAD,
};

/* Why something that computes has no rate, though it was timed. */
enum roofline_withheld {
	ROOFLINE_RATED = 0,
	/* Calls in it return before their work is done: on other threads, on a device. */
	ROOFLINE_SUBMITTED,
	/* No host is that fast: whoever does the work, it is not these calls alone. */
	ROOFLINE_ABOVE_PEAK,
};

/*
 * Below this share of its roof it is neither arithmetic nor memory that limits. Kernels worth their
 * name reach half of the roof and more, BLAS on thin or odd shapes a third; at a quarter three
 * parts of the time in four go elsewhere.
 */
#define ROOFLINE_OVERHEAD_SHARE 0.25
/* With fewer timed calls than this share of all, time and operations are not of the same calls. */
#define ROOFLINE_TIMED_SHARE 0.99

/* Above this share of what all cores can do a rate is not believed: peaks may have been measured on
 * a busy host, or below the clock of a short run. */
#define ROOFLINE_PEAK_TOLERANCE 1.25

/* The host's capability; 0: not known. */
struct roof {
	enum perfx_dtype dtype; /* whose peak it is: 16-bit types may have to take f32's */
	double cores;
	double flops_per_s, bytes_per_s;
	bool estimated; /* flops_per_s: not measured here */
};

struct roofline {
	enum perfx_dtype dtype;
	double flops_per_s; /* < 0: not known */
	double intensity;   /* operations for each byte; < 0: not known */
	struct roof roof;
	double attainable_flops_per_s; /* at this intensity; 0: not known */
	enum roofline_class bound;
	enum roofline_withheld withheld;
};

/*
 * How many cores a call that computes had, 0 when the process's CPU time is not known. Pool threads
 * work for the thread that calls, which alone is seen: of the CPU use what is left when other code
 * runs for the rest of the time on one core, for each thread that computes. At least 1, at most as
 * many as there is a peak for.
 */
double roofline_cores(const struct profile *profile, const struct profile_process *process);

struct roof roofline_roof(const struct profile *profile, enum perfx_dtype dtype, double cores);
/* All cores for which there is a peak. */
struct roof roofline_whole_roof(const struct profile *profile, enum perfx_dtype dtype);
/* The intensity from which on arithmetic limits; 0: not known. */
double roof_ridge(const struct roof *roof);

/* Inclusive operations over the time that they took (profile_row.computing_ns). Where that is not
 * the time of the work there is no rate, and `withheld` says why. */
struct roofline roofline_of_row(const struct profile *profile,
				const struct profile_process *process,
				const struct profile_row *row);
/* All operations over wall time. */
struct roofline roofline_of_process(const struct profile *profile,
				    const struct profile_process *process);
/* All operations over the time of the calls that compute. */
struct roofline roofline_of_calls(const struct profile *profile,
				  const struct profile_process *process);

/* The type of most operations of the process. */
enum perfx_dtype roofline_dtype(const struct profile_process *process);
/* Model FLOPs utilisation: operations done in a time, of what all cores could have done at the peak
 * of the data type; of a process, or a part of it. < 0: not known. */
double roofline_mfu(const struct profile *profile, enum perfx_dtype dtype, uint64_t flops,
		    uint64_t ns);
/* The time in which a process would have done the operations that were counted, all of them, at the
 * rate at which it did them while all were counted: the wall time unless the overhead budget
 * reduced probes. 0: not known. */
uint64_t roofline_wall_ns(const struct profile_process *process);
/* All operations that were counted over that time; < 0: not known. */
double roofline_flops_per_s(const struct profile_process *process);
/* Did the overhead budget stop counting operations before the end? */
bool roofline_is_cut(const struct profile_process *process);
/* "at 0.91 s the overhead budget stopped measuring at::_ops::mm::call and 2 more functions"; of
 * costs, otherwise of times. */
void add_reduction(struct text *text, const struct profile *profile, uint64_t time_ns,
		   bool of_costs);
/* Share of the time of compute calls that is in calls with a known cost; < 0: no time. */
double roofline_attributed(const struct profile_compute *compute);

/* "compute", "memory", "overhead"; NULL: unknown. */
const char *roofline_class_name(enum roofline_class bound);
/* "submitted", "above_peak"; NULL: nothing is withheld. */
const char *roofline_withheld_name(enum roofline_withheld withheld);

/* Operations by both of them, of the same work. */
struct flops_check {
	bool known;
	uint64_t estimated, counted;
};

/* For a function: its calls with a known cost; without a cost of its own, all of its callees, if
 * every call was counted. */
struct flops_check flops_check_of_row(const struct profile *profile, const struct profile_row *row);
struct flops_check flops_check_of_process(const struct profile *profile,
					  const struct profile_process *process);
/* (counted - estimated) / estimated */
double flops_check_difference(const struct flops_check *flops);
/* Share of the time in which the processor had counters free; 1 where there were enough. */
double perf_share(const struct profile_process_counters *perf);

/* A step is slow that takes more than so many times the median. */
#define STEPS_SLOW 1.5

/* The compute of steps; < 0: not known. */
struct step_rates {
	double flops; /* of a step, on average */
	double flops_per_s;
	double thread_share; /* of the operations, those of the steps' own thread */
	struct roof roof;    /* of all cores; flops_per_s 0: not known */
	double mfu;
	/* In the process, by calls that came without a record (the overflow sums): in no step. */
	uint64_t unrecorded_flops;
};

struct step_rates steps_rates(const struct profile *profile, const struct profile_process *process);
/* Why there are no steps, or why figures are those of fewer steps than are whole, or of none;
 * nothing where they are not. */
void steps_add_why(struct text *text, const struct profile *profile,
		   const struct profile_process *process);
/* For consecutive steps; < 0: not known. */
double steps_mfu(const struct profile *profile, const struct profile_steps *steps,
		 const struct profile_step *step);

/* Is there a slow one among them? */
bool steps_slow(const struct profile_steps *steps, const struct profile_step *step);
/* Ends of steps that came without a record: each made one step of two. */
uint64_t steps_unrecorded(const struct profile_process *process);

/* What GPUs computed for a process; < 0: not known. */
struct gpu_rates {
	double flops_per_s; /* while kernels of calls with known operations ran */
	/* Of the steps' time, or else of all recorded time, against the devices' peak for the type
	 * of most operations: the share that useful operations would have taken. */
	double mfu;
};

struct gpu_rates gpu_rates(const struct profile_process *process);

#endif
