/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording and the shape of its parts.
 *
 * A part is a row of the table in recorder.c. The table's order is the order in which parts are
 * opened; each verb runs through the table in that order, close runs backwards. A part keeps its
 * own state, and finds the other parts here. A new part is a file and a row.
 */
#ifndef PERFX_SESSION_RECORDING_H
#define PERFX_SESSION_RECORDING_H

#include "attach/hit_cost.h"
#include "attach/memory.h"
#include "attach/tracer.h"
#include "attach/unwind_tables.h"
#include "attach/waiting.h"
#include "decode/pack.h"
#include "perfx_record.h"
#include "plan/plan.h"
#include "session/recorder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The recording windows of --wait: the program starts and stops the recording. The BPF programs
 * turn themselves on and off; their records of it may arrive late, the end of a window after the
 * beginning of the next one, and are sorted here. */

struct recording_windows {
	bool any;	    /* one was open; without --wait the whole recording is one window */
	bool paused;	    /* no window is open */
	uint64_t paused_ns; /* since then */
	uint64_t opened_ns; /* when the last window ended */
	uint64_t next_sample_ns; /* /proc is not read at the end of a window before this time */
	size_t turns_count;	 /* count of beginnings and ends */
	size_t pauses_emitted;	 /* time between windows, already reported to memory */
	struct recording_pause {
		uint64_t from_ns, to_ns;
	} * pauses; /* not yet reported to memory */
	size_t pauses_count, pauses_capacity;
};

struct recording {
	const struct recorder_options *options;
	struct pipeline *pipeline;
	struct sink *sink; /* receives all records and passes them on to the pipeline's sink */
	pid_t main_pid;	   /* the first target; 0: none was named */
	struct plan *plan; /* grows by files that are mapped later */
	struct skipped_list skipped; /* planned functions that are not recorded, with the reasons */
	struct tracer *tracer;
	struct calibration calibration;

	bool begun;		   /* with --wait, the beginning of the first window */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; end: UINT64_MAX if no time limit is set */
	struct recording_windows windows;
	uint64_t now_ns;   /* time of the current tick */
	uint64_t ended_ns; /* time of its end */
	uint64_t next_progress_ns;
	bool detached; /* all probes have been removed by its end */

	/* Parts that others use; NULL: not wanted, or not supported here. */
	struct probes *probes;
	struct thread_counters *thread_counters;
	struct memory *memory;
	struct memory_sums *memory_sums; /* NULL: --memory off */
	struct operations *operations;
	struct process_table *processes;
	struct frames *frames;
	struct unwind_tables *unwind_tables; /* NULL: stacks are walked by frame pointers */
	struct sampler *sampler;
	struct waits *waits; /* NULL: time off the CPU is not recorded */
	struct files *files; /* NULL: calls on files are not recorded */
	struct dump *dump;   /* NULL: it is no dump */
	struct reader *reader;
	struct powercap *powercap;
	struct gpus *gpus; /* NULL: GPUs are not sampled */
	struct gpu_names *gpu_names;
	struct gpu_work *gpu_work;
	struct profiler_watch *profiler_watch;
	struct gpu_agents *gpu_agents;
	struct recycle *recycle; /* NULL: the recording ends before indices run out */
	struct follow *follow;
	struct budget *budget;
	struct step_watch *steps; /* NULL: no part depends on steps */
	struct totals *totals;
	struct flight *flight;
};

/* How a recording ended; for a running one, its state. */
struct ending {
	uint64_t end_ns;
	uint64_t spans_count; /* count of records read from the rings */
	bool killed, exited, interrupted, dump;
	bool goes_on; /* the number of running calls is unknown then */
	uint64_t maps_read_count, untraced_read_count; /* as in struct perfx_end */
	uint64_t recording_cpu_ns;		       /* as in struct perfx_end */
};

enum usage_sample {
	USAGE_OF_GPUS, /* and energy: the increase from now on counts */
	USAGE_TICK,
	USAGE_WHOLE, /* with values that seldom change */
};

/* Each verb may be NULL. */
struct recording_part {
	const char *name; /* for messages: "cannot set up NAME" */
	/* Acquires; records nothing yet. A part that is not wanted stays NULL. 0 or -errno. */
	int (*open)(struct recording *recording);
	/* The recording begins: start_ns; with --wait, with the first window. */
	void (*begin)(struct recording *recording);
	/* Emits the use of resources by processes, GPUs and the host until now. */
	void (*sample)(struct recording *recording, enum usage_sample what);
	/* A descriptor that is readable when the part has work for the loop; -1: none. */
	int (*fd)(const struct recording *recording);
	void (*on_readable)(struct recording *recording);
	/* After so many wakes between two ticks, the descriptor is ignored until the next tick; 0:
	 * no limit. */
	unsigned wakes_max;
	/* Every 50 ms, after the rings were drained, also in a pause. Time: now_ns. */
	void (*tick)(struct recording *recording);
	/* Recording stops here. */
	void (*stop)(struct recording *recording);
	/* All records have been read: emits values that are known only at the end. Time: ended_ns.
	 */
	void (*end)(struct recording *recording);
	/* Releases everything, also after a failed open. */
	void (*close)(struct recording *recording);
};

/* Defines a verb that is one call: VERB(close_frames, frames__free(recording->frames)) */
#define VERB(name, call)                              \
	static void name(struct recording *recording) \
	{                                             \
		call;                                 \
	}

/* In attach_parts.c. */
extern const struct recording_part probes_part, thread_counters_part, memory_part, programs_part,
	sampler_part, reader_part, unwind_tables_part;
/* In files of their names. */
extern const struct recording_part memory_sums_part, operations_part, processes_part, powercap_part,
	gpus_part, frames_part, waits_part, files_part, dump_part, recycle_part, follow_part,
	written_files_part, budget_part, gpu_work_part, gpu_agents_part, steps_part, totals_part,
	flight_part, progress_part;

/* Functions of parts that other parts call and that have no header of their own. A part that is
 * absent is NULL; all functions but those of operations and flight accept NULL. */

/* operations.c: the record of a thunk that ran for the first time. */
void operations__on_object(struct operations *operations, const struct perfx_object_record *record);
/* Emits OVERFLOW_CALLS records of runs that found no room in the ring since the last call. last:
 * includes runs whose record has not been read yet. */
void operations__report(struct operations *operations, bool last);

/* gpu_work.c: emits the increase of the sums since the last call. */
void gpu_work__emit(struct gpu_work *work);
/* Number of kernel names that have been emitted since the last call. */
void gpu_work__name(struct gpu_work *work);

/* waits.c: records time off the CPU from since_ns on, if it is wanted. Call it after the start of
 * the tracer, whose programs ignore it before. On failure it reports the reason. */
void waits__start(struct recording *recording, uint64_t from_ns);
/* Emits BLOCKED records for the time since the last call; ended: the recording ends at now_ns. */
void waits__emit(struct waits *waits, uint64_t now_ns, bool ended);
/* Emits the names of awaited objects again, for waits from now on. */
void waits__renew(struct waits *waits);
/* No SLICE records from now on. False: there are none anyway. */
bool waits__stop_timeline(struct waits *waits);
/* Emits pending waits, and stops recording waits. */
void waits__give_up(struct waits *waits, uint64_t now_ns);

/* recycle.c: releases an index whose process has ended; records that are still in the rings stay
 * valid. Repeated calls have no effect. */
void recycle__ended(struct recycle *recycle, uint32_t process, uint64_t time_ns);

/* deaths.c: DEATH records of a process that ends by this signal. */
void deaths_on_signal(struct sink *sink, const struct perfx_signal *signal);

/* flight.c: the recording is over and all sums are emitted: writes and reports the files still
 * asked for. EXIT_OK, or EXIT_FAILED if any file could not be written. */
int flight__finish(struct flight *flight, const struct ending *ending);

/* recorder.c: a RECORDING_WINDOW record starts, pauses or resumes the recording. During a pause, no
 * samples are taken. */
void recording_turn(struct recording *recording, const struct perfx_recording_window *window);
/* Reports the pauses to memory. Call it after the rings have been read: control records are read
 * first, and other records may be older than the pause. */
void recording_report_pauses(struct recording *recording);

/* attach_parts.c: records as not attached each part of the tracer whose programs the kernel has
 * rejected. */
void skip_rejected_programs(struct recording *recording);
/* Reports the cost of unwind tables if PERFX_DEBUG is set. */
void say_unwind_tables(const struct recording *recording);

static inline bool recording_is_on(const struct recording *recording)
{
	return recording->begun && !recording->windows.paused;
}

/* totals.c: the host, sums without a time, and values that are known only at the end. */

struct totals;

void totals_host(struct sink *sink, const struct recorder_options *options, uint64_t start_ns);
/* HOST and END records of a recording whose program ended before it began. */
void totals_of_nothing(struct sink *sink, const struct recorder_options *options);

/* Emits the increase of the sums since the last call: HITS, LOSS, OVERFLOW_CALLS, _MEMORY, _VALUES,
 * CALL_COUNTERS, PROCESS_COUNTERS, BLOCKED. last: no records follow. */
void totals__emit(struct totals *totals, uint64_t now_ns, bool last);
/* The entries of processes in the maps of sums have been removed (tracer__forget). */
void totals__forget(struct totals *totals, const bool gone[]);
/* SEGMENT: all sums have been emitted up to now. */
void totals__segment(struct totals *totals, uint64_t time_ns);
/* Emits the values of an end that are no sums: NOT_ATTACHED, some LOSS records, END. closing: the
 * sink of the recording, or of a flight buffer's file. After totals__emit. */
void totals__close(struct totals *totals, struct sink *closing, const struct ending *ending);

/* PEAK records that have been emitted. */
struct host_peaks {
	bool given, found;
};

/* Emits the host's peak performance: given, cached, measured now or estimated. Only if FLOPs of a
 * planned function are known, and before probes are attached; if such a library is mapped later, at
 * the end. */
void host_peaks_emit(struct host_peaks *emitted, struct sink *sink, const struct peaks_given *given,
		     const struct plan *plan);

/* Emits which perf events are counted, or, if the user may expect them, why none is. */
void perf_counters_emit(struct thread_counters *counters, struct sink *sink,
			const struct plan *plan);

/* The energy that the host's processors and their memory have used, from the kernel's powercap
 * (RAPL of Intel and AMD). It covers the whole machine. Virtual machines have no such counters. */

struct powercap;

/* root: NULL for /sys/class/powercap. NULL: no memory. Without a readable domain powercap__count()
 * is 0. */
struct powercap *powercap__new(const char *root);
void powercap__free(struct powercap *powercap);
size_t powercap__count(const struct powercap *powercap);

/* Emits HOST_ENERGY of each domain. NULL: does nothing. */
void powercap__sample(struct powercap *powercap, struct sink *sink);

/* --gpu 1 and 2: the agents of a recording's processes (gpu/agents.h). An agent stops when its
 * process uses a profiler itself. */

struct agents;

/* Stands in front of the recording's sink, and sees which process calls CUPTI functions of a
 * profiler. Drops waits of the agents' own threads, which do not belong to the program. All zero:
 * it sees nothing. */
struct profiler_watch {
	struct sink sink;
	struct sink *next;
	struct agents *agents; /* NULL: not started */
	uint32_t functions[8]; /* by FUNCTION record: is it a profiler's function, in each file that
				  has it */
	size_t functions_count;
};

/* Returns the sink to use from now on. */
struct sink *profiler_watch_init(struct profiler_watch *watch, struct sink *next);

/* Injects agents into the traced processes that use CUDA now. Reports failures, and records them in
 * the stream. Takes up to seconds for each process. */
void gpu_agents__inject(struct gpu_agents *gpu_agents);

/* Returns NULL if there are no agents, which all functions of agents.h accept. */
struct agents *gpu_agents__agents(const struct gpu_agents *gpu_agents);

#endif
