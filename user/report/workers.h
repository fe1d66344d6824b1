/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that do the same work, as the workers of a DataLoader and the ranks of a training. */
#ifndef PERFX_REPORT_WORKERS_H
#define PERFX_REPORT_WORKERS_H

#include "aggregate/profile.h"

/* For each process the place of the first that does the same: of one parent, with one command line,
 * and with the same functions where its time goes. malloc'd; NULL: out of memory. */
size_t *workers_group(const struct profile *profile);

/* What workers of a group called, each function once, by self time. */
struct worker_row {
	uint32_t function;
	uint64_t calls_count, timed_count, self_ns, total_ns; /* sums */
};

#define WORKER_DOMAINS (PERFX_DOMAIN_USER + 1)

struct worker_sum {
	size_t count; /* of workers */
	uint64_t wall_ns, cpu_ns, rss_bytes;
	uint64_t untraced_ns; /* PROFILE_ABSENT where one's is not known */
	uint64_t steps_count, steps_ns, steps_avg_least_ns, steps_avg_most_ns;
	uint64_t allocated_bytes[WORKER_DOMAINS]; /* by enum perfx_domain */
	bool estimated[WORKER_DOMAINS];		  /* from samples */
	struct worker_row *rows;
	size_t rows_count;
};

/* Of the group whose first process is at `first`. 0 or -ENOMEM; worker_sum_clear either way. */
int worker_sum_make(struct worker_sum *sum, const struct profile *profile, const size_t *groups,
		    size_t first);
void worker_sum_clear(struct worker_sum *sum);

#endif
