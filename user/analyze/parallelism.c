// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/parallelism.h"

#include "base/grow.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Fewer say nothing. */
#define SAMPLES_MIN 30

static int parallelism_of(struct parallelism *parallelism, const struct thread_pool *pool,
			  const struct profile_row *row)
{
	double work_ns = 0, error_ns = 0, wall_ns = (double)row->during_ns;
	struct map64 tids = {0};
	int err = 0;

	*parallelism = (struct parallelism){0};
	for (size_t i = 0; i < row->during.count && !err; i++) {
		const struct profile_activity *sample = &row->during.list[i];
		double ns = (double)sample->ns;

		if (sample->tid != row->during_tid && !stack_is_of_pool(sample->stack))
			continue;
		if (map64_get(&tids, sample->tid) == MAP64_NONE)
			err = map64_put(&tids, sample->tid, parallelism->threads_count++);
		parallelism->samples_count += sample->count;
		if (stack_spins(pool, sample->stack))
			continue;
		work_ns += ns;
		/* a Poisson process: the variance of n samples is n */
		error_ns = hypot(error_ns, ns / sqrt((double)sample->count));
	}
	map64_clear(&tids);
	if (!parallelism->threads_count || wall_ns <= 0)
		return err;
	parallelism->speedup = work_ns / wall_ns;
	parallelism->efficiency = parallelism->speedup / parallelism->threads_count;
	parallelism->error = error_ns / wall_ns / parallelism->threads_count;
	return err;
}

static int by_total(const void *left, const void *right)
{
	const struct parallel_function *a = left, *b = right;

	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	return a->function < b->function ? -1 : a->function > b->function;
}

int parallel_functions_find(struct parallel_functions *functions,
			    const struct profile_process *process, uint32_t tid)
{
	struct thread_pool pool;
	int err = thread_pool_find(&pool, process, tid);

	functions->list = calloc(process->rows_count + 1, sizeof(*functions->list));
	if (!functions->list)
		return -ENOMEM;
	for (size_t i = 0; i < process->rows_count && !err; i++) {
		const struct profile_row *row = &process->rows[i];
		struct parallel_function *function = &functions->list[functions->count];

		if (!row->during_ns || row->during_tid != tid)
			continue;
		err = parallelism_of(&function->parallelism, &pool, row);
		if (function->parallelism.threads_count < 2 ||
		    function->parallelism.samples_count < SAMPLES_MIN)
			continue;
		function->function = row->function;
		function->total_ns = row->total_ns;
		functions->count++;
	}
	qsort(functions->list, functions->count, sizeof(*functions->list), by_total);
	return err;
}

void parallel_functions_clear(struct parallel_functions *functions)
{
	free(functions->list);
	*functions = (struct parallel_functions){0};
}
