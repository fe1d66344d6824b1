/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings that outlive the profile they are of: to judge costs more than a snapshot does (16 ms
 * for a minute of a PyTorch trainer, where the rest takes 1 ms), so it is done less often.
 */
#ifndef PERFX_LIVE_JUDGEMENT_H
#define PERFX_LIVE_JUDGEMENT_H

#include "analyze/analyze.h"
#include "base/grow.h"

/* All-zero: none. */
struct judgement {
	struct analysis *analysis; /* NULL: none */
	struct profile who;	   /* its processes: index, pid, comm and cmdline, no more */
	struct pool names;
	struct map64 places; /* index → place among the processes */
};

/* 0 or -ENOMEM: then there is none. */
int judgement_make(struct judgement *judgement, const struct profile *profile,
		   const struct rule_set *rules);
/* NULL: it does not know the process. */
const struct process_analysis *judgement_of(const struct judgement *judgement,
					    const struct profile_process *process);
void judgement_clear(struct judgement *judgement);

#endif
