/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the smallest profile in which nothing is remarkable: a process of ten seconds with
 * one thread, which spends one of them in a function. Tests change what they are about. */
#ifndef PROFILE_PARTS_H
#define PROFILE_PARTS_H

#include "analyze/analyze.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define MS 1000000ULL
#define S  1000000000ULL

static inline struct profile_function part_function(void)
{
	return (struct profile_function){.id = 1,
					 .source = PERFX_SOURCE_SYMBOL,
					 .name = "f",
					 .module = "/m",
					 .module_base = "m"};
}

static inline struct profile_row part_row(void)
{
	return (struct profile_row){.function = 1,
				    .calls_count = 1000,
				    .timed_count = 1000,
				    .total_ns = 1 * S,
				    .self_ns = 1 * S,
				    .avg_ns = 1 * MS};
}

static inline struct profile_thread part_thread(void)
{
	return (struct profile_thread){.tid = 42,
				       .comm = "main",
				       .state = 'R',
				       .wall_ns = 10 * S,
				       .on_cpu_ns = 9 * S,
				       .blocked_ns = 1 * S};
}

/* thread: NULL: none. */
static inline struct profile_process part_process(struct profile_row *row,
						  struct profile_thread *thread)
{
	return (struct profile_process){.index = 1,
					.pid = 42,
					.comm = "python3",
					.cmdline = "",
					.to_ns = 10 * S,
					.cpu_user_ns = 9 * S,
					.cpu_ns = 9 * S,
					.throttled_ns = PROFILE_ABSENT,
					.rows = row,
					.rows_count = 1,
					.calls_count = row->calls_count,
					.self_ns = row->self_ns,
					.threads = thread,
					.threads_count = thread != NULL};
}

static inline struct profile part_profile(struct profile_process *process,
					  const struct profile_function *functions,
					  size_t functions_count)
{
	return (struct profile){.host_name = "",
				.kernel = "",
				.boot_id = "",
				.command = "",
				.tool_version = "",
				.duration_ns = 10 * S,
				.cpus_count = 4,
				.ended = true,
				.functions = functions,
				.functions_count = functions_count,
				.processes = process,
				.processes_count = 1,
				.calls_count = process->calls_count};
}

/* The findings' kinds and severities: "SlowOperation/high Losses/low". */
static inline const char *kinds_of(const struct profile *profile, const struct rule_set *rules,
				   char *buffer, size_t size)
{
	struct analysis *analysis = analyze(profile, rules);
	size_t used = 0;

	cr_assert_not_null(analysis);
	buffer[0] = '\0';
	for (size_t i = 0; i < analysis->processes[0].findings_count; i++) {
		const struct finding *f = &analysis->processes[0].findings[i];

		cr_expect(f->subject[0] && f->evidence[0] && f->threshold[0] && f->suggestion[0]);
		used += (size_t)snprintf(buffer + used, size - used, "%s%s/%s", i ? " " : "",
					 f->kind, finding_severity_name(f->severity));
	}
	analysis__free(analysis);
	return buffer;
}

#define expect_kinds(scene, kinds)                                                                \
	do {                                                                                      \
		char buffer[512];                                                                 \
                                                                                                  \
		cr_expect_str_eq(kinds_of(&(scene).profile, NULL, buffer, sizeof(buffer)), kinds, \
				 "%s", buffer);                                                   \
	} while (0)

#endif
