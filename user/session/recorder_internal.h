/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files behind recorder.h share. */
#ifndef PERFX_SESSION_RECORDER_INTERNAL_H
#define PERFX_SESSION_RECORDER_INTERNAL_H

#include "attach/hit_cost.h"
#include "attach/mapped_files.h"
#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/reader.h"
#include "attach/tracer.h"
#include "decode/pack.h"
#include "session/attach_queue.h"
#include "session/frames.h"
#include "session/operations.h"
#include "session/process_table.h"
#include "session/recorder.h"
#include "session/step_watch.h"
#include "session/totals.h"

struct recorder {
	const struct recorder_options *options;
	const struct features *features;
	struct pipeline *pipeline;
	struct sink *sink; /* the pipeline's */
	struct plan *plan;
	struct loading *loading; /* of the tracer, beside the plan; NULL: it has ended */
	struct tracer *tracer;
	struct calibration calibration;
	struct probes *probes;
	struct memory *memory;
	struct thread_counters *thread_counters;
	struct operations *operations;
	struct frames *frames; /* NULL: no stacks are recorded */
	struct process_table *processes;
	struct reader *reader;
	struct mappings *mappings;
	int epoll_fd, timer_fd;
	uint64_t start_ns, end_ns, next_sample_ns, next_scan_ns, next_flush_ns, next_progress_ns;
	pid_t main_pid; /* the first target: whose end by a signal is reported */
	bool main_ended, rescan;
	bool all_gone; /* all targets had ended when the recording began */
	int main_status;
	struct pack_buffer late; /* for LATE records */
	struct {
		uint64_t next_ns, hits_count; /* looked at next; hits by then */
	} untraced;
	struct file_watch *file_watch; /* NULL: files are looked at when something is mapped */
	struct attach_queue *queue;    /* processes that are to be looked at */
	unsigned mappings_wakes;       /* by mappings since the last tick */
	uint64_t looks_count, untraced_read_count; /* as in struct perfx_end */
	uint64_t begin_cpu_ns;			   /* the tracer's own, when the recording began */
	size_t waiting_said;
	bool given_emitted, peaks_emitted;
	struct step_watch *steps; /* NULL: not by steps */
	struct totals *totals;
	uint64_t next_segment_ns;
	struct {
		unsigned files, triggered; /* how many were asked for */
		unsigned signals;	   /* acted upon */
		uint64_t due_ns;	   /* when a slow step's is to be; 0: none is */
		char why[160];
		bool failed;
	} flight;
	bool begun;		      /* the recording has its beginning */
	bool windowed;		      /* --wait: a window was open */
	bool paused;		      /* --wait: none is */
	uint64_t paused_ns;	      /* since then */
	uint64_t opened_ns;	      /* the last window */
	uint64_t next_turn_sample_ns; /* /proc is not read at the end of a window before */
	size_t turns_count;	      /* beginnings and ends of windows */
	size_t pauses_emitted;	      /* between windows, to memory */
	struct recording_pause {
		uint64_t from_ns, to_ns;
	} * pauses; /* that memory does not know of yet */
	size_t pauses_count, pauses_capacity;
};

/* follow.c: which processes the recording is about, from the targets that were named to what they
 * start and map later. */

/* Traces the targets, and those of their descendants that live. 0 or -errno. */
int follow_targets(struct recorder *recorder);
/* Attaches for all traced processes. 0, or -errno, which has been said. */
int follow_attach(struct recorder *recorder);
/* Acts upon a record as it passes: fork, exec, exit. ctx is the recorder. */
void follow_record(void *ctx, const struct perfx_record *record);
/* Likewise: of an object by which calls are distinguished. */
void follow_object(void *ctx, const struct perfx_object_record *record);
/* Goes by process in files that processes which are not traced have come to call often. */
void follow_untraced(struct recorder *recorder, uint64_t now_ns);
/* Takes the probes out of files that have been written to. */
void follow_files(struct recorder *recorder);
/* Notes who has mapped something since. */
void follow_mappings(struct recorder *recorder);
/* Attaches for the noted processes; never where a ring is being read. */
void follow_attach_queued(struct recorder *recorder);

/* Is the work of a planned function known? */
bool any_cost_known(const struct plan *plan);
/* totals.c: what this host can do, once there is something to compare with it. */
void host_peaks_emit(struct recorder *recorder);

/* flight.c: segments of a capture, and the flight recorder's files. */

/* The recording begins, at start_ns. */
void flight_begin(struct recorder *recorder);
/* Every now and then: ends segments, writes what is asked for, says what has been written. */
void flight_tick(struct recorder *recorder, uint64_t now_ns);
/* The recording is over; what there is is written, and said: EXIT_OK or EXIT_FAILED, if any file
 * could not be. */
int flight_finish(struct recorder *recorder, const struct ending *ending);

/* recorder.c: what the recording begins with, at a time; --wait: what a program says of
 * it. */
void recording_begin(struct recorder *recorder, uint64_t start_ns);
void recording_window_turns(struct recorder *recorder,
			    const struct perfx_recording_window *recording_window);
/* To be called when the rings have been read. */
void recording_window_settle(struct recorder *recorder);
/* recorder.c: what is counted, or, where it could be missed, why nothing is. */
void emit_perf_counters(struct recorder *recorder);
void count_threads(struct recorder *recorder);

/* progress.c: what is going on, on a terminal. */
void progress_attaching(const struct recorder *recorder);
void progress_tick(struct recorder *recorder, uint64_t now_ns);

/* Messages to the user. */
void say_scan_error(pid_t pid, const struct recorder *recorder, ssize_t err);
void say_waiting(struct recorder *recorder);
void say_tracing(struct recorder *recorder);
/* PERFX_DEBUG: how long the start took, and what of it. */
void say_phases(const struct recorder *recorder);
void say_program_decides(const struct recorder *recorder);
void say_turned(struct recorder *recorder, const struct perfx_recording_window *recording_window);

#endif
