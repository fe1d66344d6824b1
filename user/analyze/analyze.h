/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State → findings: what a person should look at first, with the evidence, the threshold that made
 * it a finding and what to do about it. One rule a file or a function of rules.c; a rule is a pure
 * function of the profile.
 */
#ifndef PERFX_ANALYZE_ANALYZE_H
#define PERFX_ANALYZE_ANALYZE_H

#include "aggregate/profile.h"

struct analysis {
	char *verdict; /* one sentence about the whole capture */
	/* Per process, same index as profile->processes: ranked findings and, when nothing fired
	 * there, why that may be (else NULL). */
	struct process_analysis {
		struct finding *findings;
		size_t findings_count;
		char *silence;
	} *processes;
	size_t processes_count;
};

/* NULL with errno ENOMEM. The caller frees. Borrows nothing from profile. */
struct analysis *analyze(const struct profile *profile);
void analysis__free(struct analysis *analysis);

#endif
