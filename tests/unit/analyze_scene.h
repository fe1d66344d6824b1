/* SPDX-License-Identifier: BSD-2-Clause */
/* The smallest profile on which rules can be tried, and the findings that it makes. */
#ifndef ANALYZE_SCENE_H
#define ANALYZE_SCENE_H

#include "analyze/analyze.h"
#include "analyze/rule_set.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL
#define S  1000000000ULL

/* One process of ten seconds that does nothing remarkable. */
struct scene {
	struct profile profile;
	struct profile_process process;
	struct profile_row row;
	struct profile_function function;
	struct profile_probe probe;
	struct profile_thread thread;
	struct profile_usage_point points[8];
};

static inline void scene_set(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->function = (struct profile_function){.id = 1,
						.source = PERFX_SOURCE_SYMBOL,
						.name = "f",
						.module = "/m",
						.module_base = "m"};
	s->row = (struct profile_row){.function = 1,
				      .calls_count = 1000,
				      .timed_count = 1000,
				      .total_ns = 1 * S,
				      .self_ns = 1 * S,
				      .avg_ns = 1 * MS};
	s->thread = (struct profile_thread){.tid = 42,
					    .comm = "main",
					    .state = 'R',
					    .wall_ns = 10 * S,
					    .on_cpu_ns = 9 * S,
					    .runnable_ns = 0,
					    .blocked_ns = 1 * S};
	s->process = (struct profile_process){.index = 1,
					      .pid = 42,
					      .comm = "python3",
					      .cmdline = "",
					      .from_ns = 0,
					      .to_ns = 10 * S,
					      .cpu_user_ns = 9 * S,
					      .cpu_ns = 9 * S,
					      .rss_bytes = 1 << 30,
					      .throttled_ns = PROFILE_ABSENT,
					      .read_bytes = 0,
					      .write_bytes = 0,
					      .rows = &s->row,
					      .rows_count = 1,
					      .calls_count = 1000,
					      .self_ns = 1 * S,
					      .threads = &s->thread,
					      .threads_count = 1,
					      .points = s->points,
					      .points_count = 8};
	for (uint64_t i = 0; i < 8; i++)
		s->points[i] = (struct profile_usage_point){.time_ns = i * S, .rss_bytes = 1 << 30};
	s->probe =
		(struct profile_probe){.id = 1, .function = 1, .hits_count = 2000, .cost_ns = 500};
	s->profile = (struct profile){.host_name = "",
				      .kernel = "",
				      .boot_id = "",
				      .command = "",
				      .tool_version = "",
				      .duration_ns = 10 * S,
				      .cpus_count = 4,
				      .ended = true,
				      .functions = &s->function,
				      .functions_count = 1,
				      .probes = &s->probe,
				      .probes_count = 1,
				      .processes = &s->process,
				      .processes_count = 1,
				      .calls_count = 1000,
				      .hits_count = 2000,
				      .overhead_ns = 1e6,
				      .overhead_percent = 0.01};
}

/* The findings' kinds and severities: "SlowOperation/high Losses/low". */
static inline const char *kinds_by(const struct scene *s, const struct rule_set *rules,
				   char *buffer, size_t size)
{
	static const char *const severities[] = {"", "high", "medium", "low"};
	struct analysis *analysis = analyze(&s->profile, rules);
	size_t used = 0;

	cr_assert_not_null(analysis);
	buffer[0] = '\0';
	for (size_t i = 0; i < analysis->processes[0].findings_count; i++) {
		const struct finding *f = &analysis->processes[0].findings[i];

		cr_expect(f->subject[0] && f->evidence[0] && f->threshold[0] && f->suggestion[0]);
		used += (size_t)snprintf(buffer + used, size - used, "%s%s/%s", i ? " " : "",
					 f->kind, severities[f->severity]);
	}
	analysis__free(analysis);
	return buffer;
}

#define expect_kinds(scene, kinds)                                                              \
	do {                                                                                    \
		char buffer[256];                                                               \
                                                                                                \
		cr_expect_str_eq(kinds_by(&(scene), NULL, buffer, sizeof(buffer)), kinds, "%s", \
				 buffer);                                                       \
	} while (0)

#endif
