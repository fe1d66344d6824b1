// SPDX-License-Identifier: BSD-2-Clause
/* Which processes are one group, and what a group adds up to. */
#include "report/document/compose.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define MS 1000000ull

/* A process whose rows take so much self time each; 0 ends them. */
struct worker {
	uint32_t ppid;
	const char *comm, *cmdline;
	struct {
		uint32_t function;
		uint64_t self_ns;
	} rows[4];
};

#define WORKERS_MAX 8

struct scene {
	struct profile_process processes[WORKERS_MAX];
	struct profile_row rows[WORKERS_MAX][4];
	struct profile profile;
};

static void scene_add(struct scene *s, const struct worker *w)
{
	struct profile_process *p = &s->processes[s->profile.processes_count];
	struct profile_row *rows = s->rows[s->profile.processes_count];

	*p = (struct profile_process){.ppid = w->ppid,
				      .comm = w->comm,
				      .cmdline = w->cmdline,
				      .to_ns = 1000 * MS,
				      .cpu_ns = 300 * MS,
				      .rss_bytes = 1 << 20,
				      .rows = rows};
	for (size_t i = 0; i < 4 && w->rows[i].self_ns; i++) {
		rows[p->rows_count++] = (struct profile_row){.function = w->rows[i].function,
							     .self_ns = w->rows[i].self_ns,
							     .total_ns = 2 * w->rows[i].self_ns,
							     .calls_count = 10,
							     .timed_count = 8};
		p->self_ns += w->rows[i].self_ns;
	}
	s->profile.processes = s->processes;
	s->profile.processes_count++;
}

static const struct worker trainer = {1, "python3", "train.py", {{1, 900 * MS}, {2, 100 * MS}}};
static const struct worker loader = {42, "python3", "train.py", {{3, 90 * MS}, {4, 9 * MS}}};

Test(workers, who_is_alike)
{
	static const struct {
		struct worker worker;
		size_t group; /* with the trainer at 0 and a loader at 1 */
	} rows[] = {
		{{42, "python3", "train.py", {{3, 80 * MS}, {4, 8 * MS}}}, 1},
		/* the order of the functions does not matter, nor one that takes nearly nothing */
		{{42, "python3", "train.py", {{4, 80 * MS}, {3, 70 * MS}}}, 1},
		{{42, "python3", "train.py", {{3, 95 * MS}, {4, 10 * MS}, {5, 4 * MS}}}, 1},
		{{42, "python3", "train.py", {{3, 95 * MS}, {4, 10 * MS}, {5, 30 * MS}}}, 2},
		{{42, "python3", "train.py", {{3, 95 * MS}}}, 2},
		{{42, "python3", "train.py", {{0, 0}}}, 2},
		{{43, "python3", "train.py", {{3, 90 * MS}, {4, 9 * MS}}}, 2},
		{{42, "pt_data", "train.py", {{3, 90 * MS}, {4, 9 * MS}}}, 2},
		{{42, "python3", "eval.py", {{3, 90 * MS}, {4, 9 * MS}}}, 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct scene s = {0};
		size_t *groups;

		scene_add(&s, &trainer);
		scene_add(&s, &loader);
		scene_add(&s, &rows[i].worker);
		groups = workers_group(&s.profile);
		cr_assert_not_null(groups);
		cr_expect_eq(groups[0], 0);
		cr_expect_eq(groups[1], 1);
		cr_expect_eq(groups[2], rows[i].group, "row %zu: %zu", i, groups[2]);
		free(groups);
	}
}

Test(workers, sums)
{
	static const struct worker other = {
		42, "python3", "train.py", {{4, 200 * MS}, {3, 10 * MS}, {9, 1 * MS}}};
	static const size_t groups[] = {0, 1, 0, 1};
	struct worker_sum sum;
	struct scene s = {0};

	scene_add(&s, &trainer);
	scene_add(&s, &loader);
	scene_add(&s, &trainer);
	scene_add(&s, &other);
	s.processes[1].steps =
		(struct profile_steps){.count = 10, .total_ns = 100 * MS, .avg_ns = 10 * MS};
	s.processes[3].steps =
		(struct profile_steps){.count = 5, .total_ns = 100 * MS, .avg_ns = 20 * MS};
	s.processes[3].rss_bytes = PROFILE_ABSENT;
	cr_assert_eq(worker_sum_make(&sum, &s.profile, groups, 1), 0);
	cr_expect_eq(sum.count, 2);
	cr_expect_eq(sum.wall_ns, 2000 * MS);
	cr_expect_eq(sum.cpu_ns, 600 * MS);
	cr_expect_eq(sum.rss_bytes, PROFILE_ABSENT);
	cr_expect_eq(sum.steps_count, 15);
	cr_expect_eq(sum.steps_ns, 200 * MS);
	cr_expect_eq(sum.steps_avg_least_ns, 10 * MS);
	cr_expect_eq(sum.steps_avg_most_ns, 20 * MS);
	cr_assert_eq(sum.rows_count, 3);
	/* by self time, each function once */
	cr_expect(sum.rows[0].function == 4 && sum.rows[0].self_ns == 209 * MS &&
		  sum.rows[0].total_ns == 418 * MS);
	cr_expect(sum.rows[1].function == 3 && sum.rows[1].self_ns == 100 * MS &&
		  sum.rows[1].calls_count == 20 && sum.rows[1].timed_count == 16);
	cr_expect(sum.rows[2].function == 9 && sum.rows[2].self_ns == 1 * MS);
	worker_sum_clear(&sum);
}
