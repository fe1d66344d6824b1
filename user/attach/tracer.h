/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF side of a recording, as one object, in the order of its life:
 *
 *   new → (calibrate) → add processes and probes, attach files → start → … → stop → read → free
 *
 * Files may be attached and processes added also while tracing. Nothing is left in the kernel or in
 * the target after free, nor when the process is killed: every link hangs on a descriptor.
 */
#ifndef PERFX_ATTACH_TRACER_H
#define PERFX_ATTACH_TRACER_H

#include "attach/features.h"
#include "attach/links.h"
#include "attach/waiting.h"
#include "counters/counters.h"
#include "perfx_config.h"
#include "perfx_python.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tracer;

struct tracer_options {
	enum perfx_link link; /* PERFX_LINK_INVALID: the best there is */
	bool follow_children;
	bool compensate;
	bool many_processes; /* room for PERFX_MAX_CONTEXTS, not _FEW */
	size_t ring_bytes;   /* of each; rounded up to a power of two of pages */
	size_t rings_count;  /* of a kind of records; rounded up likewise. 0: by the number of CPUs
			      */
	uint32_t probes_max; /* room in the tables */
	bool memory;	     /* room and programs for allocation probes */
	bool files;	     /* likewise, for calls on files */
	bool samples;	     /* likewise, for samples of threads */
	bool dump;	     /* states of threads; */
	bool only_dump;	     /* instead of samples of those that wait */
	enum perfx_stacks stacks;
	bool waiting;			 /* and for time off the CPU */
	bool timeline;			 /* with a record of each wait */
	const struct counters *counters; /* of calls marked F_PERF; NULL: none */
	/* enum plan_kind: what will be attached, as far as is known by now; borrowed. NULL: nothing
	 * is known. */
	const _Atomic uint32_t *kinds;
};

/* Loads the programs and attaches those that follow the traced processes. NULL with errno: EPERM,
 * ENOTSUP (a forced link that this kernel lacks), or what the kernel said. */
struct tracer *tracer__new(const struct tracer_options *options, const struct features *features);
void tracer__free(struct tracer *tracer);

/* Parts that a recording can do without. */
enum tracer_part {
	TRACER_ANNOTATIONS,
	TRACER_MEMORY,
	TRACER_FILES,
	TRACER_FAULTS, /* of mapped files */
	TRACER_SOCKETS,
	TRACER_ON_CPU,	/* samples of threads that run */
	TRACER_OFF_CPU, /* and of those that do not */
	TRACER_DUMP,	/* states of threads */
	TRACER_WAITING,
	TRACER_PARTS
};

/* Does this kernel refuse a program of that part? Then it is not there, and points that need it
 * fail with EOPNOTSUPP. Of annotations, memory and files this is known when the first are attached.
 */
bool tracer__lacks(const struct tracer *tracer, enum tracer_part part);

/* Does the kernel report bytes sent and received over sockets? */
bool tracer__counts_sockets(const struct tracer *tracer);

/* Time off the CPU, which has a start and a stop of its own. NULL: it is not recorded. */
struct waiting *tracer__waiting(const struct tracer *tracer);

/* Its uprobes. */
struct links *tracer__links(const struct tracer *tracer);
/* The kind of link for entry and exit sites, and for return probes. */
enum perfx_link tracer__hit_link(const struct tracer *tracer);
enum perfx_link tracer__return_link(const struct tracer *tracer);

/* Adds a process; its index, or -errno. A process that is already traced keeps its
 * own. *existed may be NULL. */
int64_t tracer__add_process(struct tracer *tracer, pid_t pid, bool *existed);
/* 0, or -ENOENT: it has ended already. */
int tracer__remove_process(struct tracer *tracer, pid_t pid);
int tracer__traced_process(const struct tracer *tracer, pid_t pid,
			   struct perfx_traced_process *traced);

/* Puts a probe into the table: its index (> 0), or -ENOSPC. */
int64_t tracer__add_probe(struct tracer *tracer, const struct perfx_probe *probe);
/* The table's entry, shared with the programs: changes take effect with the next hit. */
struct perfx_probe *tracer__probe(struct tracer *tracer, uint32_t probe);

/* Entry probes whose calls have nested too deep for a return probe since the last time, where these
 * are made by session links. Returns how many. */
size_t tracer__drain_declined(struct tracer *tracer, uint32_t probes[PERFX_DECLINED_PLACES]);

/* An id that no other function has. */
uint32_t tracer__new_function(struct tracer *tracer);

/* The program of probes with this .cost: 0 or -errno. */
int tracer__set_cost_program(struct tracer *tracer, uint32_t index,
			     const struct perfx_cost_program *cost);

/* Objects by which calls are distinguished (perfx_object). What has been read from one takes effect
 * with its next run; 0 or -errno, -ESTALE: the record is not of the one in the table. */
int tracer__set_object(struct tracer *tracer, const struct perfx_object_record *record,
		       const struct perfx_object *object);
/* Are costs read from objects? Then those of their workers are contained in them. */
void tracer__read_objects(struct tracer *tracer, bool enabled);
/* Runs without a record of objects that had not been read yet; in any order. */
void tracer__each_pending_run(const struct tracer *tracer,
			      void (*visit)(void *ctx, const struct perfx_pending_key *key,
					    uint64_t count),
			      void *ctx);

/* Puts an allocator's allocation probe into its table: its index, or -ENOSPC. */
int64_t tracer__add_alloc_probe(struct tracer *tracer, const struct perfx_alloc_probe *alloc_probe);
/* Puts what a marking function does into its table: its index, or -ENOSPC. */
int64_t tracer__add_annotation(struct tracer *tracer, const struct perfx_annotation *annotation);

/* How a domain is recorded from now on. sample_bytes: where it is sampled. */
void tracer__set_memory(struct tracer *tracer, enum perfx_domain domain,
			enum perfx_memory_level level, uint64_t sample_bytes);

/* From now on one of so many of a domain's allocations gets its stack. */
void tracer__thin_stacks(struct tracer *tracer, enum perfx_domain domain, uint32_t every);

/* How stacks are recorded from now on: UNWIND only where its tables were asked for. */
void tracer__set_stacks(struct tracer *tracer, enum perfx_stacks stacks);
enum perfx_stacks tracer__stacks(const struct tracer *tracer);

/* Descriptors of the maps that user/attach/unwind_tables.c fills (bpf/unwind.bpf.h). */
struct tracer_unwind_maps {
	int processes_fd, sets_fd, pages_fd, slabs_fd, rules_fd, cache_fd, requests_fd;
};
struct tracer_unwind_maps tracer__unwind_maps(const struct tracer *tracer);
/* Rows that the programs may be reading become others: what they find now does not count. */
void tracer__unwind_rows_dropped(struct tracer *tracer);

/* Where the frames of a process's Python are, from now on also in children that it forks. 0 or
 * -errno. */
int tracer__set_python(struct tracer *tracer, pid_t pid, const struct perfx_python_layout *python);
/* Where the state of a thread of such a process is; a dump alone has room for it. */
void tracer__set_python_state(struct tracer *tracer, pid_t pid, uint64_t thread_id, uint64_t state);

/* The traced programs switch stacks in user space: frames are matched one by one. */
void tracer__expect_many_stacks(struct tracer *tracer);

/* Room for the states of threads, in a control group that is full of what it has read: makes some;
 * makes more where there was none, now and then. */
void tracer__make_room(struct tracer *tracer);
void tracer__renew_room(struct tracer *tracer);

void tracer__start(struct tracer *tracer);
/* Instead of start: counts between the program's own start and stop (RECORDING_WINDOW records). */
void tracer__wait(struct tracer *tracer);
/* Stops counting; calls that threads have left without passing an exit are emitted as unwound. Then
 * removes all links but those of group_kept and waits until no program runs any more. False: a
 * forked process is still closing all links (links__end()). */
bool tracer__stop(struct tracer *tracer, uint32_t kept_from);
/* Counts what is attached now, or no longer, before tracer__start or after tracer__stop: threads
 * begin anew with the next start. */
void tracer__observe(struct tracer *tracer, bool on);
/* As stop, but does not wait: where what is attached is not called any more. */
void tracer__abandon(struct tracer *tracer);

/* Descriptors for a ring reader. Spans and memory records come by several rings each. */
struct tracer_rings {
	int fds[PERFX_MAX_RINGS];
	size_t count;
};
struct ring_buffer;
/* Reads them one after the other, without merging by time. NULL with errno. */
struct ring_buffer *tracer_rings_reader(const struct tracer_rings *rings,
					int (*take)(void *ctx, void *record, size_t size),
					void *ctx);
/* Puts maps into a map of maps: all at once where the kernel can do so (since 5.19), because it
 * waits after each update until no CPU runs programs any more (6 to 17 ms). 0 or -errno. */
int tracer_put_maps(int map_fd, const uint32_t *keys, const int *fds, uint32_t count);
const struct tracer_rings *tracer__spans(const struct tracer *tracer);
const struct tracer_rings *tracer__memory(const struct tracer *tracer);
int tracer__control_fd(const struct tracer *tracer);
int tracer__objects_fd(const struct tracer *tracer);
/* Records of a domain that found no room; process: below PERFX_MAX_PROCESSES. */
void tracer__memory_lost(const struct tracer *tracer, uint32_t process, enum perfx_domain domain,
			 struct perfx_memory_lost *lost);

/* Programs that take a sample: of the interrupted thread, for perf events of each CPU, whose cookie
 * is the time that the sample stands for; of threads that do not run, for an iterator over tasks,
 * one at a time; that records states of threads, likewise. < 0: not loaded. */
int tracer__on_cpu_fd(const struct tracer *tracer);
int tracer__off_cpu_fd(const struct tracer *tracer);
int tracer__dump_fd(const struct tracer *tracer);
/* < 0: not loaded. */
int tracer__major_fault_fd(const struct tracer *tracer);
/* A new dump begins: the states of all threads are recorded again. fair: the kernel's own scheduler
 * knows how long each thread's last run took. */
void tracer__begin_dump(struct tracer *tracer, bool fair);
/* The time that the iterator's next samples stand for. */
void tracer__set_off_cpu_interval(struct tracer *tracer, uint64_t interval_ns);
/* Different stacks in samples so far. */
uint64_t tracer__sample_stacks(const struct tracer *tracer);
/* Samples of a process that found no room; process: below PERFX_MAX_PROCESSES. */
uint64_t tracer__samples_lost(const struct tracer *tracer, uint32_t process);
/* The pids of traced processes, `max` at most: how many. */
size_t tracer__pids(const struct tracer *tracer, pid_t *pids, size_t max);

/* Visits the entries of all maps of sums (SUM_MAP in perfx.bpf.h), as records; in any order. */
void tracer__each_sums(const struct tracer *tracer,
		       void (*visit)(void *ctx, struct perfx_sums *record), void *ctx);

/* Groups of files, mapped: entries [PERFX_FILES_OTHER + 1, *next) below PERFX_MAX_FILE_GROUPS that
 * are ready. NULL: calls on files are not recorded. */
const struct perfx_files_seen *tracer__files_seen(const struct tracer *tracer, uint32_t *next);

/* Sums of GPU work, mapped: entries [1, *count); an entry whose count is 0 is being made. */
const struct perfx_gpu_sum *tracer__gpu_sums(const struct tracer *tracer, uint32_t *count);
/* The name of a kernel, by its hash. */
bool tracer__kernel_name(const struct tracer *tracer, uint64_t hash,
			 struct perfx_kernel_name *name);

uint64_t tracer__counter(const struct tracer *tracer, enum perfx_counter which);
uint64_t tracer__hits(const struct tracer *tracer, uint32_t probe);
/* The calling-context table, mapped: entries [1, *count) are described. */
const struct perfx_context_node *tracer__contexts(const struct tracer *tracer, uint32_t *count);
/* Names of ranges, values and allocators, mapped: entries [0, *count), of which one whose id is 0
 * is being made. */
const struct perfx_name *tracer__names(const struct tracer *tracer, uint32_t *count);
/* Writes the shares of at most count_max processes whose names had no room. Returns the count. */
size_t tracer__name_shares(const struct tracer *tracer, struct perfx_name_share *shares,
			   size_t count_max);
/* Indices handed out so far: [1, n). */
uint32_t tracer__processes_count(const struct tracer *tracer);

/* Changes whenever a recording window opens or closes (--wait), before the record about it. */
uint64_t tracer__recording_windows(const struct tracer *tracer);
/* Runs of programs that the kernel skipped (recursion). */
uint64_t tracer__missed(const struct tracer *tracer);

/* Perf events of a thread for what is marked F_PERF; slot: below PERFX_PERF_THREADS, the caller's
 * to hand out. Descriptors stay the caller's. 0 or -errno. */
int tracer__add_perf_thread(struct tracer *tracer, pid_t tid, uint32_t slot, const int *fds,
			    size_t count);
void tracer__drop_perf_thread(struct tracer *tracer, pid_t tid, uint32_t slot);
/* The counts of a context; false: none. */
bool tracer__perf_sums(const struct tracer *tracer, uint32_t context, struct perfx_perf_sums *sums);

/*
 * How long the BPF programs run in the traced processes, by the kernel's own account
 * (BPF_ENABLE_STATS, Linux 5.8).
 */
struct accounted_runs {
	uint64_t count, ns;
};

/* Programs that run in the traced processes without being called by them. */
enum tracer_background { TRACER_SAMPLES, TRACER_SWITCHES, TRACER_BACKGROUNDS };

/* Samples, or waits, of traced threads, and accounted runs of the programs, which the threads of
 * all processes cause. 0: they are not loaded. */
struct background {
	uint64_t events_count;
	struct accounted_runs runs;
};
struct background tracer__background(const struct tracer *tracer, enum tracer_background which);
/* These alone: the kernel need not be asked of each program. */
uint64_t tracer__background_events(const struct tracer *tracer, enum tracer_background which);

/* Keeps the account from now on, or no longer. It makes every run of a BPF program on this machine
 * take some tens of ns longer, so it is kept for some of the time. */
void tracer__account_runs(struct tracer *tracer, bool on);
/* All accounted runs of a program so far; 0: it is not loaded. */
struct accounted_runs tracer__runs(const struct tracer *tracer, enum tracer_program which);

/* Forgets all counts, contexts and records: what calibration left. */
void tracer__reset(struct tracer *tracer);

/*
 * Loads the BPF programs while something else is done, as planning for the files of a framework;
 * those of uprobes, which the kernel verifies for most of the time, when they are needed first.
 */

struct loading;

/* options is copied; what it points to, and features, are borrowed until the end. NULL: out of
 * memory. */
struct loading *loading__start(const struct tracer_options *options,
			       const struct features *features);
/* Waits for the tracer, and loads it again if its tables have no room for so many probes. NULL with
 * errno, as tracer__new. Frees `loading`. */
struct tracer *loading__end(struct loading *loading, uint32_t probes_count);

/*
 * Reuse of indices in an endless recording: entries of ended processes are removed from the
 * kernel's tables (recycling.c). session/recycle.c decides when.
 */

/* gone: by process index, up to PERFX_MAX_PROCESS_INDICES; set for processes that no program and no
 * record names any more. Removes their entries, and sets contexts (by index, up to
 * PERFX_MAX_CONTEXTS) for their calling contexts, which can then be given. 0 or -errno: nothing may
 * be given. */
int tracer__forget(struct tracer *tracer, const bool gone[], bool contexts[]);

/* Stacks of samples are emitted anew, under other numbers. 0 or -errno: those of some are. */
int tracer__renew_sample_stacks(struct tracer *tracer);

/* An index is free. Only for those that tracer__forget has set, each once. */
void tracer__give(struct tracer *tracer, enum perfx_id_kind kind, uint32_t id);

/* The queue of free indices: those at places [n, taken) have been taken again since `taken` was
 * n. */
const struct perfx_free_ids *tracer__free_ids(const struct tracer *tracer, enum perfx_id_kind kind);

#endif
