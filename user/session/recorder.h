/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording, from the processes that the user named to the last record of the stream:
 *
 *   plan (nothing is touched) → load and calibrate → attach → trace → detach → totals
 *
 * Reports its progress to the user in messages of one line.
 */
#ifndef PERFX_SESSION_RECORDER_H
#define PERFX_SESSION_RECORDER_H

#include "attach/features.h"
#include "attach/thread_counters.h"
#include "base/clock.h"
#include "peaks/peaks.h"
#include "plan/plan.h"
#include "replay/replay.h"
#include "session/step_watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Starts a program and holds it before its own first instruction: its libraries are mapped and
 * relocated, no constructor has run. So probes see everything from the start.
 *
 * A debugger's way: ptrace to the exec, then a breakpoint on the dynamic linker's _dl_debug_state,
 * which it calls when its list of libraries has become consistent. A static program is held at
 * exec.
 */

struct launch;

struct launch_options {
	bool as_caller;	       /* under sudo: as the calling user, with that user's environment */
	bool nvtx;	       /* make NVTX 3 seen, unless another tool listens */
	bool python_functions; /* make Python functions ranges */
	/* --gpu 1: CUDA loads our agent, which connects there; NULL: it does not. */
	const char *gpu_socket;
	char *const *environment; /* NAME=value, added to its own; NULL: none */
	/* In a session of its own, without input, and its output goes to this file: signals of the
	 * terminal do not reach it, and it does not outlive this program. 0: as this program. */
	int apart_fd;
};

/* argv is NULL-terminated. NULL after a message: it could not be started; *exit_code is a shell's
 * for that (126, 127). */
struct launch *launch__start(char *const *argv, const struct launch_options *options,
			     int *exit_code);
/* Do its NVTX ranges go to our library? */
bool launch__nvtx(const struct launch *launch);
/* Libraries that it will map later, borrowed. */
char *const *launch__files(const struct launch *launch, size_t *count);
pid_t launch__pid(const struct launch *launch);
/* Lets it run. */
void launch__go(struct launch *launch);
/* Waits for its end, for so long at most or until a signal comes, and reaps it: true and its status
 * as wait(2) gives it. */
bool launch__wait(struct launch *launch, int timeout_ms, int *status);
/* Kills a program that still waits to run; otherwise leaves it alone. */
void launch__free(struct launch *launch);

/* Functions of a watcher of the recording (top, serve). Called in the recording's thread; any may
 * be NULL. */
struct recorder_watcher {
	void *ctx;
	int fd; /* on_input is called when it can be read; -1: none */
	void (*on_input)(void *ctx);
	/* Each 50 ms, when the rings have been drained and the sums emitted. */
	void (*on_tick)(void *ctx, uint64_t now_ns);
	/* It may take a process for another one that has the same index, unless the one ended
	 * before this time and the other begins now. */
	uint64_t (*known_from_ns)(void *ctx);
	/* Asked at each tick: the path of a file that is to get the last seconds as a capture;
	 * NULL: none is wanted. The recording frees it. */
	char *(*wants_capture)(void *ctx);
	/* Asked when one is wanted: is a dump to be made first (recorder_options.dumps)? */
	bool (*wants_dump)(void *ctx);
	/* It has been written; err -errno: it could not be. -EAGAIN: nothing is recorded now
	 * (--wait). */
	void (*captured)(void *ctx, const char *path, int err);
};

/* Before a recording that begins at a given time, everything is attached within this time. */
#define RECORDER_LEAD_NS 10000000000u

struct recorder_options {
	const pid_t *pids; /* targets; none with `all` or `launch` */
	size_t pids_count;
	bool all; /* -a: every process that maps an ML library or carries annotations */
	struct launch *launch;	     /* run: a program held before its first instruction */
	uint64_t duration_ns;	     /* UINT64_MAX: until it ends or is interrupted */
	uint64_t interval_ns;	     /* between samples of /proc */
	double max_overhead_percent; /* --max-overhead; 0: not given, HUGE_VAL: no limit */
	uint64_t observe_ns; /* steps without probes, before and after, at most so long; 0: none */
	uint64_t steps_max;  /* ends when a process has done so many steps; 0: not by them */
	/* Called as records arrive: true ends the recording; NULL: not called. */
	bool (*enough)(void *ctx);
	void *enough_ctx;
	bool quiet;	     /* says nothing of what is traced */
	uint64_t at_unix_ns; /* the recording begins then; 0: as soon as all is attached */
	bool wait;	     /* records only between perfx_trace_start and perfx_trace_stop */
	struct plan_options plan;
	uint64_t sample_bytes; /* --memory sampled=: mean distance of samples */
	uint64_t sample_hz;    /* --sample: of each CPU; 0: off */
	enum perfx_stacks stacks;
	enum perfx_link link;
	size_t ring_bytes;
	size_t rings_count;   /* 0: by the number of CPUs */
	uint64_t gpu_devices; /* bits: these GPUs are sampled; 0: those that processes use */
	bool off_cpu;	      /* what threads wait for */
	bool timeline;	      /* with a record of each wait */
	bool dump;	      /* ends when the state of each thread is known */
	bool dumps;	      /* dumps may be wanted while it goes on */
	/* Again each second, until a thread that waits has come to another place, or so long. */
	uint64_t dump_watch_ns;
	uint32_t gpu_level; /* --gpu: 1 or 2, an agent in processes that use a GPU; 0: none */
	bool gpu_graph_nodes;
	uint64_t gpu_events_max;
	const char *gpu_socket; /* where agents of a launched program connect; NULL: nowhere */
	bool follow_children;
	bool compensate;
	bool calibrate;
	bool full_cmdline;
	enum counters_choice counters;
	const char *counters_names; /* COUNTERS_LISTED */
	struct peaks_given peaks;   /* --peak-flops and its like */
	/* The flight recorder: --flight. The sink's capture is one in memory, and goes to files of
	 * this name. */
	uint64_t flight_ns;    /* how long; 0: an ordinary recording */
	uint64_t flight_bytes; /* in memory */
	/* The name of the first file: run.perfx, then run.2.perfx, …; NULL: only the watcher asks
	 * for files. */
	const char *flight_path;
	const struct recorder_watcher *watcher; /* NULL: none; with flight_ns only */
	struct trigger trigger;			/* all zero: none */
	const char *command;   /* this program's own command line, for the report */
	struct phases *phases; /* of the start; printed where PERFX_DEBUG is set */
};

/* Records into the pipeline. Returns an exit code (base/message.h): EXIT_OK also when the target
 * ended by itself; EXIT_TARGET when a signal killed it; what it did until then is recorded.
 * *child_status: the launched program's, as wait(2) gives it. Anything but EXIT_OK and EXIT_TARGET
 * has been explained in a message. */
int recorder_run(const struct recorder_options *options, const struct features *features,
		 struct pipeline *pipeline, int *child_status);

#endif
