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

/*
 * --wait: the program starts and stops what is recorded. The BPF programs turn themselves on and
 * off; their records of that are put in order here, for they may come late, the end of a window
 * after the beginning of the next one.
 */

struct recording_windows {
	bool any;		 /* one was open; all of a recording without --wait is one */
	bool paused;		 /* none is */
	uint64_t paused_ns;	 /* since then */
	uint64_t opened_ns;	 /* the last one */
	uint64_t next_sample_ns; /* /proc is not read at the end of a window before */
	size_t turns_count;	 /* beginnings and ends */
	size_t pauses_emitted;	 /* between windows, to memory */
	struct recording_pause {
		uint64_t from_ns, to_ns;
	} * pauses; /* that memory does not know of yet */
	size_t pauses_count, pauses_capacity;
};

struct recording {
	const struct recorder_options *options;
	struct pipeline *pipeline;
	struct sink *sink;	     /* of all records; it passes them on to the pipeline's */
	pid_t main_pid;		     /* the first target; 0: none was named */
	struct plan *plan;	     /* files that are mapped later are added to it */
	struct skipped_list skipped; /* what was planned and is not recorded, and why */
	struct tracer *tracer;
	struct calibration calibration;

	bool begun;		   /* with --wait, not before the first window */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; end: UINT64_MAX if no clock ends it */
	struct recording_windows windows;
	uint64_t now_ns;   /* of a tick */
	uint64_t ended_ns; /* when it ended */
	uint64_t next_progress_ns;
	bool detached; /* all probes were removed at its end */

	/* Parts that others use; NULL: not wanted, or not possible here. */
	struct probes *probes;
	struct thread_counters *thread_counters;
	struct memory *memory;
	struct operations *operations;
	struct process_table *processes;
	struct frames *frames;
	struct unwind_tables *unwind_tables; /* NULL: stacks are walked by frame pointers */
	struct sampler *sampler;
	struct waits *waits; /* NULL: time off the CPU is not recorded */
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
	struct step_watch *steps; /* NULL: nothing depends on steps */
	struct totals *totals;
	struct flight *flight;
};

/* How a recording ends, or stands now. */
struct ending {
	uint64_t end_ns;
	uint64_t spans_count; /* read from the rings */
	bool killed, exited, interrupted;
	bool goes_on; /* the number of calls that are running is not known then */
	uint64_t maps_read_count, untraced_read_count; /* as in struct perfx_end */
	uint64_t recording_cpu_ns;		       /* likewise */
};

enum usage_sample {
	USAGE_OF_GPUS, /* and of energy: processes count from here on by themselves */
	USAGE_TICK,
	USAGE_WHOLE, /* with what changes seldom */
};

/* Each verb may be NULL. */
struct recording_part {
	const char *name; /* for messages: "cannot set up NAME" */
	/* Acquires; records nothing yet. A part that is not wanted stays NULL. 0 or -errno. */
	int (*open)(struct recording *recording);
	/* The recording begins: start_ns; with --wait, with the first window. */
	void (*begin)(struct recording *recording);
	/* Emits what processes, GPUs and the host have used until now. */
	void (*sample)(struct recording *recording, enum usage_sample what);
	/* A descriptor that wakes the tracer when it is readable; -1: none. */
	int (*fd)(const struct recording *recording);
	void (*on_readable)(struct recording *recording);
	/* After so many wakes between two ticks, the next one waits for the tick; 0: no limit. */
	unsigned wakes_max;
	/* Every 50 ms, after the rings were drained, also in a pause: now_ns. */
	void (*tick)(struct recording *recording);
	/* Nothing is recorded from now on. */
	void (*stop)(struct recording *recording);
	/* All records were read: emits what is known only now. ended_ns. */
	void (*end)(struct recording *recording);
	/* Releases, also after a failed open. */
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
extern const struct recording_part operations_part, processes_part, powercap_part, gpus_part,
	frames_part, waits_part, recycle_part, follow_part, written_files_part, budget_part,
	gpu_work_part, gpu_agents_part, steps_part, totals_part, flight_part, progress_part;

/*
 * Functions that parts call of each other, beside those in headers of their own. NULL is a part
 * that is absent, for all but operations and flight.
 */

/* operations.c: the record of a thunk that ran for the first time. */
void operations__on_object(struct operations *operations, const struct perfx_object_record *record);
/* OVERFLOW_CALLS records of runs, since the last time, that had not been read yet and found no
 * room. last: also of those that have not been read by now. */
void operations__report(struct operations *operations, bool last);

/* gpu_work.c: what has been added to the sums since the last time. */
void gpu_work__emit(struct gpu_work *work);
/* The names of kernels that have been emitted since the last time. */
void gpu_work__name(struct gpu_work *work);

/* waits.c: records time off the CPU from a time on, where that is wanted. Only after the start of
 * the tracer: its programs do nothing without that. Says why if it fails. */
void waits__start(struct recording *recording, uint64_t from_ns);
/* BLOCKED records since the last time, up to now; ended: the recording ends then. */
void waits__emit(struct waits *waits, uint64_t now_ns, bool ended);
/* Names are emitted anew, of what is waited for from now on. */
void waits__renew(struct waits *waits);
/* Emits, and records no further waits. */
void waits__give_up(struct waits *waits, uint64_t now_ns);

/* recycle.c: nothing of that index comes after this time, but what is in the rings. Once more does
 * nothing. */
void recycle__ended(struct recycle *recycle, uint32_t process, uint64_t time_ns);

/* flight.c: the recording is over and all sums are emitted: writes and reports the files still
 * asked for. EXIT_OK, or EXIT_FAILED if any file could not be written. */
int flight__finish(struct flight *flight, const struct ending *ending);

/* A RECORDING_WINDOW record: the recording begins, pauses or goes on. In between, no samples are
 * taken. In recorder.c. */
void recording_turn(struct recording *recording, const struct perfx_recording_window *window);
/* Passes the pauses to memory. To be called when the rings have been read: control records are read
 * first, and other records may be older than the pause. */
void recording_report_pauses(struct recording *recording);

/* attach_parts.c: notes each part of the tracer whose programs the kernel has rejected. */
void skip_rejected_programs(struct recording *recording);
/* Reports the cost of unwind tables, where PERFX_DEBUG is set. */
void say_unwind_tables(const struct recording *recording);

static inline bool recording_is_on(const struct recording *recording)
{
	return recording->begun && !recording->windows.paused;
}

/* The host, sums without a time, and what is known only at the end. */

struct totals;

void totals_host(struct sink *sink, const struct recorder_options *options, uint64_t start_ns);
/* HOST and END records of a recording whose program ended before it began. */
void totals_of_nothing(struct sink *sink, const struct recorder_options *options);

/* Emits what was added to the sums since the last time: HITS, LOSS, OVERFLOW_CALLS, _MEMORY,
 * _VALUES, CALL_COUNTERS, PROCESS_COUNTERS, BLOCKED. last: nothing comes after it. */
void totals__emit(struct totals *totals, uint64_t now_ns, bool last);
/* SEGMENT: all sums have been emitted up to now. */
void totals__segment(struct totals *totals, uint64_t time_ns);
/* Emits the levels at an end, which are not sums: NOT_ATTACHED, some LOSS records, END. closing:
 * the sink of the recording, or of a dump. After totals__emit. */
void totals__close(struct totals *totals, struct sink *closing, const struct ending *ending);

/* Which PEAK records are out. */
struct host_peaks {
	bool given, found;
};

/*
 * Emits the host's peak performance: given, kept from an earlier time, measured now or estimated.
 * Only when a planned function's work is known, and before anything is attached; at the end if such
 * a library was mapped later.
 */
void host_peaks_emit(struct host_peaks *emitted, struct sink *sink, const struct peaks_given *given,
		     const struct plan *plan);

/* Which perf events are counted, or, where they could be missed, why none is. */
void perf_counters_emit(struct thread_counters *counters, struct sink *sink,
			const struct plan *plan);

/*
 * The energy that the host's processors and their memory have used, as the kernel's powercap
 * counts it (RAPL of Intel and AMD): the whole machine's, whoever used it. Virtual machines have
 * none of it.
 */

struct powercap;

/* root: NULL for /sys/class/powercap. NULL: memory is out. One without a readable domain has
 * powercap__count() 0. */
struct powercap *powercap__new(const char *root);
void powercap__free(struct powercap *powercap);
size_t powercap__count(const struct powercap *powercap);

/* HOST_ENERGY of each domain; of NULL nothing. */
void powercap__sample(struct powercap *powercap, struct sink *sink);

/*
 * --gpu 1 and 2: the agents of a recording's processes (gpu/agents.h). They step aside for
 * profilers that the processes use themselves.
 */

struct agents;

/* Precedes the recording's sink, and sees which process calls a profiler's functions of CUPTI.
 * Waits of the agents' own threads are dropped: they are not the program's. All-zero: no watch. */
struct profiler_watch {
	struct sink sink;
	struct sink *next;
	struct agents *agents; /* NULL: not yet */
	uint32_t functions[8]; /* by FUNCTION record: such a function, in each file that has it */
	size_t functions_count;
};

/* The sink to use from now on. */
struct sink *profiler_watch_init(struct profiler_watch *watch, struct sink *next);

/* Injects agents into the traced processes that use CUDA now. Reports failures, and records them in
 * the stream. Takes seconds for each process, at worst. */
void gpu_agents__inject(struct gpu_agents *gpu_agents);

/* NULL of NULL: there are none, and all of agents.h does nothing. */
struct agents *gpu_agents__agents(const struct gpu_agents *gpu_agents);

#endif
