/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State → findings: what to look at first, with the evidence, the threshold that made
 * it a finding and what to do about it. A rule is a function of rules_*.c, a pure one of the
 * profile.
 *
 * Every text is one line in which the traced program's names are harmless and marked (see
 * base/escape.h), so that a writer can quote them in its own way.
 */
#ifndef PERFX_ANALYZE_ANALYZE_H
#define PERFX_ANALYZE_ANALYZE_H

#include "aggregate/profile.h"
#include "analyze/account.h"
#include "analyze/dump.h"
#include "analyze/leaks.h"
#include "analyze/ranks.h"
#include "analyze/step_time.h"
#include "analyze/thread_pool.h"
#include "base/text.h"

/* Severity order is display order. */
enum finding_severity { FINDING_HIGH = 1, FINDING_MEDIUM, FINDING_LOW };
const char *finding_severity_name(enum finding_severity severity); /* "high" … */

/* The class of a finding: what kind of time a step has too much of. */
enum bottleneck {
	BOTTLENECK_NONE = 0, /* it is about no time: the capture, a note */
	BOTTLENECK_INPUT,
	BOTTLENECK_PYTHON,
	BOTTLENECK_GIL,
	BOTTLENECK_LOCK,
	BOTTLENECK_LAUNCH,
	BOTTLENECK_OPERATORS, /* many that are tiny */
	BOTTLENECK_COPIES,    /* and conversions */
	BOTTLENECK_GPU_STARVED,
	BOTTLENECK_GPU_SYNC,
	BOTTLENECK_COMPUTE,
	BOTTLENECK_BANDWIDTH,
	BOTTLENECK_COMMUNICATION,
	BOTTLENECK_STALL, /* a checkpoint, a log, a garbage collection: a slow step in many */
	BOTTLENECK_RECOMPILATION,
	BOTTLENECK_DISK,
	BOTTLENECK_OUTPUT,
	BOTTLENECK_CHILD,
	BOTTLENECK_SLEEP,
	BOTTLENECK_CONTENTION,	   /* for CPUs, with other programs */
	BOTTLENECK_OVERSUBSCRIBED, /* with threads of its own */
	BOTTLENECK_THROTTLED,
	BOTTLENECK_MEMORY,
	BOTTLENECK_IDLE,
	BOTTLENECK_HEALTHY,
	BOTTLENECK_STOPPED,   /* by a signal, a debugger or a freezer */
	BOTTLENECK_IMBALANCE, /* threads wait for the slowest of them */
	BOTTLENECK_DEATH,     /* it failed, or a child that it needs */
	BOTTLENECKS
};
/* "input": of JSON; NULL: BOTTLENECK_NONE. */
const char *bottleneck_name(enum bottleneck bottleneck);
/* "INPUT-BOUND": what a verdict begins with. */
const char *bottleneck_headline(enum bottleneck bottleneck);

/* Where the cause is; function NULL: not known. */
struct finding_place {
	char *function, *file; /* file "": not known */
	uint32_t line;	       /* 0: not known */
	bool is_own;	       /* location_is_own_python() */
};

struct finding {
	const char *kind; /* "SlowOperation", … : static, or of the rule set */
	enum bottleneck bottleneck;
	enum finding_severity severity;
	double weight;	  /* orders findings of one severity: larger first */
	bool urgent;	  /* the program soon fails by it: it ranks before all others */
	bool partial;	  /* losses above 1 %: the numbers under it may be incomplete */
	bool of_function; /* the subject is a function, and does not name its process */
	/* Upper bound of the saving per step, or per second without steps; 0: it saves no time.
	 * gain_unknown: this is the time that the finding covers, used to rank it; how much of it
	 * the remedy saves is unknown. */
	double gain_ns;
	bool gain_unknown;
	double confidence; /* 0 to 1 that it is so, by the statistics of its evidence; 0: unknown */
	struct finding_place place;
	char *subject, *evidence, *threshold, *suggestion;
	char *look; /* what to look at next: a section of the report, a command; "" */
	/* For a bottleneck: the verdict's sentence if it is the largest one, and its share of the
	 * driving thread's time. "": not a bottleneck. */
	char *headline;
	double share;
};

/* A process's part in its job. */
enum process_role {
	PROCESS_JOB = 0,
	/* It feeds its parent, which works on what it sends: that it waits is good news. */
	PROCESS_WORKER,
	/* It waits for the job, which it has started: sh -c, torchrun, uv run. */
	PROCESS_LAUNCHER,
};

struct analysis {
	char *verdict;		/* one sentence about the whole capture */
	const char *rules_file; /* of the rule set; NULL: the built-in rules */
	size_t silenced_count;	/* findings that it has silenced, of all processes */
	/* Per process, same index as profile->processes: ranked findings and, when nothing fired
	 * there, why that may be (else NULL). */
	struct process_analysis {
		enum process_role role;
		struct finding *findings;
		size_t findings_count;
		size_t silenced_count;
		char *silence;
		struct process_account account;
		uint64_t *lines_spinning_ns; /* same index as profile_process.lines */
		struct step_time time;	     /* where that of a step goes */
		struct parallel_functions parallel;
		struct memory_analysis *memory; /* same index as profile_process.memory */
		size_t memory_count;
		struct rss_growth growth; /* of resident memory */
	} * processes;
	size_t processes_count;
	/* The problem that the verdict names: shown first. NULL: no problem was found. */
	const struct finding *first;
	size_t first_process;
	/* The threads at one moment; NULL: the recording has no dump. */
	struct dump *dump;
	struct ranks ranks; /* of all jobs; borrows their names from the profile */
};

struct rule_set;

/* By the rules, which outlive it: NULL: those that are built in. NULL with errno ENOMEM. The caller
 * frees. Borrows the names of jobs and the frames of accounts from profile. */
struct analysis *analyze(const struct profile *profile, const struct rule_set *rules);
void analysis__free(struct analysis *analysis);

/* "79.0 % of one CPU", "1.65 of 2 CPUs": its CPU time over its wall time. Nothing if that is not
 * known. */
void add_cpu_use(struct text *text, const struct profile_process *process);

#endif
