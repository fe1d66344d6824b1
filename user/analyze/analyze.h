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
#include "analyze/leaks.h"

/* Severity order is display order. */
enum finding_severity { FINDING_HIGH = 1, FINDING_MEDIUM, FINDING_LOW };
const char *finding_severity_name(enum finding_severity severity); /* "high" … */

struct finding {
	const char *kind; /* "SlowOperation", … : static */
	enum finding_severity severity;
	double weight;	  /* orders findings of one severity: larger first */
	bool partial;	  /* losses above 1 %: the numbers under it may be incomplete */
	bool of_function; /* the subject is a function, and does not name its process */
	char *subject, *evidence, *threshold, *suggestion;
	/* Of a bottleneck: what the verdict says if it is the largest one, and its part of the time
	 * of the thread that drives the process. "": it is none. */
	char *headline;
	double share;
};

struct analysis {
	char *verdict; /* one sentence about the whole capture */
	/* Per process, same index as profile->processes: ranked findings and, when nothing fired
	 * there, why that may be (else NULL). */
	struct process_analysis {
		struct finding *findings;
		size_t findings_count;
		char *silence;
		struct memory_analysis *memory; /* same index as profile_process.memory */
		size_t memory_count;
	} * processes;
	size_t processes_count;
};

/* NULL with errno ENOMEM. The caller frees. Borrows nothing from profile. */
struct analysis *analyze(const struct profile *profile);
void analysis__free(struct analysis *analysis);

#endif
