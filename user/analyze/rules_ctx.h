/* SPDX-License-Identifier: BSD-2-Clause */
/* The context that rules share, and how they build a finding. */
#ifndef PERFX_ANALYZE_RULES_CTX_H
#define PERFX_ANALYZE_RULES_CTX_H

#include "analyze/analyze.h"
#include "analyze/driver.h"
#include "analyze/rule_set.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/units.h"

struct requests {
	bool awaited; /* does the process wait for them, most of the time that it waits for input?
		       */
	/* The wait of the thread of its own that sends most of them, for the answers; NULL: they
	 * come by sockets. */
	const struct profile_activity *client;
};

struct rules_ctx {
	const struct profile *profile;
	const struct rule_set *rules;
	const struct thresholds *thresholds; /* of the rules */
	const struct profile_process *process;
	const struct memory_analysis *memory; /* same index as process->memory */
	const struct rss_growth *growth;
	const struct parallel_functions *parallel; /* called by that thread */
	const struct process_account *account;
	const struct driver *driver;  /* what its main thread does */
	const struct step_time *time; /* where a step's time goes */
	const struct ranks *ranks;    /* of all jobs */
	struct requests requests;
	enum process_role role;
	bool is_main;	    /* findings about the whole capture are reported with it */
	bool is_minor;	    /* it uses less than half of the CPU time of the main one */
	bool evidence_lost; /* rules_evidence_lost() */
	struct finding *findings;
	size_t findings_count, findings_capacity;
	size_t silenced_count; /* that the rules silence */
	bool failed;	       /* memory was out */
};

/* Findings of this kind weigh what they leak, bytes a second. */
#define LEAK_KIND "MemoryLeak"

/* A finding while it is written: its fields are those of struct finding. of_function: its subject
 * does not name the process. Without a subject it is about the process; threshold, suggestion and
 * look are otherwise those of its kind (catalogue.h). */
struct note {
	bool of_function;
	enum bottleneck bottleneck;
	double gain_ns;
	bool gain_unknown;
	bool urgent;  /* as in struct finding */
	bool is_work; /* its time is CPU time, so rules_most_gain_ns() does not limit it */
	double confidence;
	const struct profile_frame *place; /* NULL: not known */
	const char *look;		   /* borrowed until it is added; NULL: nothing */
	struct text subject, evidence, threshold, suggestion;
	struct text headline;	    /* without its class, "PYTHON-BOUND: " */
	const char *headline_class; /* NULL: that of the bottleneck */
	double share;
};

/* A note of a wait or of work that can be saved: this share of the time, for sure. */
struct note rules_note(const struct rules_ctx *ctx, enum bottleneck bottleneck, double share);

static inline enum finding_severity high_if(bool high)
{
	return high ? FINDING_HIGH : FINDING_MEDIUM;
}

static inline enum finding_severity medium_if(bool medium)
{
	return medium ? FINDING_MEDIUM : FINDING_LOW;
}

/* The unit of gains: an average step, without steps a second. */
double rules_unit_ns(const struct rules_ctx *ctx);
/* " of the wall time", of which driver->judged_ns is all or a part. */
const char *rules_of_judged(const struct rules_ctx *ctx);
/* By the thresholds All.high and All.medium. */
enum finding_severity rules_severity(const struct rules_ctx *ctx, double gain_ns);
/* The most that a finding of this kind can save of a unit: without any wait, a unit still needs its
 * CPU time, divided by the CPUs that the process may use; without a lock, that of the driving
 * thread. */
double rules_most_gain_ns(const struct rules_ctx *ctx, enum bottleneck bottleneck);

/* Takes the note's texts; the note is empty again. */
void rules_ctx_add(struct rules_ctx *ctx, const char *kind, enum finding_severity severity,
		   double weight, struct note *note);

/* rules_*.c: adds what they find about ctx->process. */
void rules_functions(struct rules_ctx *ctx);
void rules_driver(struct rules_ctx *ctx);
void rules_process(struct rules_ctx *ctx);
void rules_death(struct rules_ctx *ctx);
void rules_contention(struct rules_ctx *ctx);
void rules_input(struct rules_ctx *ctx);
void rules_steps(struct rules_ctx *ctx);
void rules_stalls(struct rules_ctx *ctx);
void rules_compute(struct rules_ctx *ctx);
void rules_operators(struct rules_ctx *ctx);
void rules_compile(struct rules_ctx *ctx);
void rules_gpu(struct rules_ctx *ctx);
void rules_memory(struct rules_ctx *ctx); /* who holds and leaks: one finding a place */
void rules_heap(struct rules_ctx *ctx);	  /* what the heap as a whole does */
void rules_parallel(struct rules_ctx *ctx);
void rules_imbalance(struct rules_ctx *ctx);
void rules_fragmentation(struct rules_ctx *ctx);
void rules_memory_sum(struct rules_ctx *ctx); /* what resident memory consists of */
void rules_limits(struct rules_ctx *ctx);     /* how near memory is to a limit */
void rules_capture(struct rules_ctx *ctx);
/* Do the other ranks of its job wait for it? After the other rules, for it names their places. */
void rules_straggler(struct rules_ctx *ctx);

/* Questions that several rules ask. Was the process recorded too briefly to judge shares? Does it
 * only feed its parent? Does it use hardly any CPU? Do its steps wait for data? */
bool rules_is_short(const struct rules_ctx *ctx);
bool rules_is_worker(const struct rules_ctx *ctx);
/* A process that Python starts beside its workers, and that only waits, as it should? */
bool rules_is_helper(const struct rules_ctx *ctx);
bool rules_is_idle(const struct rules_ctx *ctx);
bool rules_data_bound(const struct rules_ctx *ctx);
/* Do its steps update parameters, for sure? Steps of another kind may be answers of a server. */
bool rules_trains(const struct rules_ctx *ctx);
struct requests requests_find(const struct rules_ctx *ctx);
/* A compiler that a traced process has started: its time is a compilation of that one. */
bool is_compiler_of_another(const struct profile *profile, const struct profile_process *process);
/* CPUs on which it may run, by affinity and by the quota of its cgroups. CPU time of programs that
 * are not of its job; PROFILE_ABSENT. */
unsigned rules_allowed_cpus(const struct rules_ctx *ctx);
uint64_t rules_others_cpu_ns(const struct rules_ctx *ctx);
/* The part, 0 to 1, of its waits for a CPU in which it takes or releases a mutex that it often
 * waits for. With more CPUs it would wait for the mutex instead. */
double rules_mutex_part(const struct rules_ctx *ctx);
/* Does it launch kernels most of the time, and the GPU does not need that long for them? */
bool rules_launch_bound(const struct rules_ctx *ctx);
/* Does the GPU work nearly all the time? Then what the host does in the meantime costs nothing. */
bool gpu_is_limit(const struct profile_process *process, const struct thresholds *thresholds);
/* The share of the time in which its GPUs work, by their times or else as the driver samples it; <
 * 0: not known. "the GPU was busy for 96.6 % of the time" */
double gpu_busy_share(const struct profile_process *process);
void add_gpu_busy(struct text *text, const struct profile_process *process);
/* "; meanwhile python3 (pid 43) runs mostly decode (data.py:18)": who prepares what is waited for
 */
void add_feeder(struct text *text, struct rules_ctx *ctx);

/* "; meanwhile make (pid 77) had the CPU for 62.0 %, its own threads for 11.0 %": of the time in
 * which its threads waited for one. Nothing where nobody is known. */
void add_who_had_cpus(struct text *text, const struct rules_ctx *ctx);
/* " (12.1 ms of each 60.2 ms step)"; nothing without steps. */
void add_step_part(struct text *text, const struct rules_ctx *ctx, double share);
/* ": every 5th step takes 123 ms more"; nothing where slow steps are not periodic. */
void add_slow_period(struct text *text, struct rules_ctx *ctx);
/* The program's own line from which most of a function's time is called, of forward passes rather
 * than of backward ones. NULL: not known. */
const struct profile_frame *rules_place_of(const struct rules_ctx *ctx, uint32_t function);
/* Adds to the note's suggestion, as framework_add(). */
void rules_suggest(struct note *note, const struct rules_ctx *ctx, const char *words);
/* The note's place, else the process. */
void rules_subject(struct note *note, const struct rules_ctx *ctx);
/* "OPERATOR-BOUND: 34.2 % of the wall time (3.71 ms of each 10.9 ms step) WORDS, WHERE its place".
 * of: " of the wall time", or what its share is of. */
void rules_headline(struct note *note, const struct rules_ctx *ctx, const char *of,
		    const char *words, const char *where);
/* The confidence that a number with this standard error, from many samples, is this far above its
 * threshold. */
double confidence_above(double distance, double error);

/* ranking.c: what each process is, by its account; and which of the findings remain, and in which
 * order. find_roles(): 0 or -ENOMEM. */
int find_roles(struct analysis *analysis, const struct profile *profile,
	       const struct thresholds *thresholds);
void rules_rank(struct rules_ctx *ctx);
/* Calls and samples that no sum has were lost: what findings rest on. */
bool rules_evidence_lost(const struct profile *profile);
void finding_clear(struct finding *finding);
/* Is it about that for which the recording was made? */
bool finding_is_asked(const struct finding *finding);
/* Memory that grows, whoever holds it: MemoryGrowth or UntracedMemory, above low. */
bool finding_is_growth(const struct finding *finding);

/* verdict.c. NULL: memory was out. The verdict is about analysis->first and its process. */
char *verdict_of(const struct profile *profile, const struct analysis *analysis,
		 const struct thresholds *thresholds);
/* The first finding that is about the program, if it matters; NULL: none. */
const struct finding *first_problem(const struct process_analysis *analysis);
char *silence_of(const struct profile *profile, const struct profile_process *process,
		 const struct process_account *account);

struct thread_sums {
	uint64_t on_cpu_ns, runnable_ns;
	unsigned measured, blocked; /* threads; blocked: nine tenths of the time */
};
struct thread_sums sum_threads(const struct profile_process *process);

/* Numbers that several rules use. Shares are of the process's wall time; < 0: unknown. */
double cpu_share(const struct profile_process *process);
double wall_share(const struct profile_process *process, uint64_t ns);
/* "62.0 % of the wall time", "3.1 times the wall time": threads add up. */
void add_wall_share(struct text *text, double share);
/* A count in a second of the process's wall time. */
double rate_of(const struct profile_process *process, uint64_t count);
/* For how long calls of a function were timed (PERFX_REDUCED_COUNTED) or seen
 * (PERFX_REDUCED_REMOVED): the wall time, unless the overhead budget ended that. Their sums are
 * divided by it. */
uint64_t watched_ns(const struct profile *profile, const struct profile_process *process,
		    uint32_t function, enum perfx_reduced_to until);
/* The share of a function's time in the time in which it was timed; < 0: unknown. */
double timed_share(const struct profile *profile, const struct profile_process *process,
		   uint32_t function, uint64_t ns);
/* "62.0 % of the wall time", "62.0 % of the 2.80 s in which it was timed" */
void add_timed_share(struct text *text, const struct profile *profile,
		     const struct profile_process *process, uint32_t function, uint64_t ns);
/* Adds "comm (pid 42)" and a function's name, marked. */
void add_process_name(struct text *text, const struct profile_process *process);
void add_function_name(struct text *text, const struct profile *profile, uint32_t function);

#endif
