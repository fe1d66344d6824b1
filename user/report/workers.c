// SPDX-License-Identifier: BSD-2-Clause
#include "report/workers.h"

#include "base/map64.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A function that took less of a process's self time may be missing in its twin. */
#define SHARE_OF_WORK 0.05

static bool has_row(const struct profile_process *p, uint32_t function)
{
	for (size_t i = 0; i < p->rows_count; i++)
		if (p->rows[i].function == function)
			return true;
	return false;
}

/* Did b call all that took a's time? */
static bool does_cost_of(const struct profile_process *b, const struct profile_process *a)
{
	for (size_t i = 0; i < a->rows_count; i++)
		if ((double)a->rows[i].self_ns >= SHARE_OF_WORK * (double)a->self_ns &&
		    !has_row(b, a->rows[i].function))
			return false;
	return true;
}

static bool are_alike(const struct profile_process *a, const struct profile_process *b)
{
	return a->ppid == b->ppid && a->exec_count == b->exec_count && !strcmp(a->comm, b->comm) &&
	       !strcmp(a->cmdline, b->cmdline) && !a->rows_count == !b->rows_count &&
	       does_cost_of(a, b) && does_cost_of(b, a);
}

size_t *workers_group(const struct profile *profile)
{
	size_t *groups = malloc((profile->processes_count + 1) * sizeof(*groups));

	for (size_t i = 0; groups && i < profile->processes_count; i++) {
		size_t first = 0;

		/* of a group only the first is compared with */
		while (first < i &&
		       (groups[first] != first ||
			!are_alike(&profile->processes[first], &profile->processes[i])))
			first++;
		groups[i] = first;
	}
	return groups;
}

/* --- sums ----------------------------------------------------------------------------------- */

static uint64_t plus(uint64_t sum, uint64_t value)
{
	return sum == PROFILE_ABSENT || value == PROFILE_ABSENT ? PROFILE_ABSENT : sum + value;
}

static int add_rows(struct worker_sum *sum, struct map64 *places, const struct profile_process *p)
{
	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_row *row = &p->rows[i];
		uint32_t at = map64_get(places, row->function);

		if (at == MAP64_NONE) {
			at = (uint32_t)sum->rows_count++;
			sum->rows[at] = (struct worker_row){.function = row->function};
			if (map64_put(places, row->function, at))
				return -ENOMEM;
		}
		sum->rows[at].calls_count += row->calls_count;
		sum->rows[at].timed_count += row->timed_count;
		sum->rows[at].self_ns += row->timed_count ? row->self_ns : 0;
		sum->rows[at].total_ns += row->timed_count ? row->total_ns : 0;
	}
	return 0;
}

static void add_memory(struct worker_sum *sum, const struct profile_process *p)
{
	for (size_t i = 0; i < p->memory_count; i++) {
		enum perfx_domain domain = p->memory[i].domain;

		sum->allocated_bytes[domain] += p->memory[i].allocated_bytes.value;
		sum->estimated[domain] |= p->memory[i].sampled;
	}
}

static void add_steps(struct worker_sum *sum, const struct profile_steps *steps)
{
	if (!steps->count)
		return;
	if (!sum->steps_count || steps->avg_ns < sum->steps_avg_least_ns)
		sum->steps_avg_least_ns = steps->avg_ns;
	if (steps->avg_ns > sum->steps_avg_most_ns)
		sum->steps_avg_most_ns = steps->avg_ns;
	sum->steps_count += steps->count;
	sum->steps_ns += steps->total_ns;
}

static int by_self(const void *left, const void *right)
{
	const struct worker_row *a = left, *b = right;

	if (a->self_ns != b->self_ns)
		return a->self_ns < b->self_ns ? 1 : -1;
	return a->calls_count < b->calls_count ? 1 : a->calls_count > b->calls_count ? -1 : 0;
}

int worker_sum_make(struct worker_sum *sum, const struct profile *profile, const size_t *groups,
		    size_t first)
{
	struct map64 places = {0};
	size_t rows = 0;
	int err = 0;

	*sum = (struct worker_sum){0};
	for (size_t i = first; i < profile->processes_count; i++)
		rows += groups[i] == first ? profile->processes[i].rows_count : 0;
	sum->rows = malloc((rows + 1) * sizeof(*sum->rows));
	if (!sum->rows)
		return -ENOMEM;
	for (size_t i = first; i < profile->processes_count && !err; i++) {
		const struct profile_process *p = &profile->processes[i];

		if (groups[i] != first)
			continue;
		sum->count++;
		sum->wall_ns += profile_wall_ns(p);
		sum->untraced_ns = plus(sum->untraced_ns,
					p->untraced.tid ? p->untraced.self_ns : PROFILE_ABSENT);
		sum->cpu_ns = plus(sum->cpu_ns, p->cpu_ns);
		sum->rss_bytes = plus(sum->rss_bytes, p->rss_bytes);
		add_steps(sum, &p->steps);
		add_memory(sum, p);
		err = add_rows(sum, &places, p);
	}
	qsort(sum->rows, sum->rows_count, sizeof(*sum->rows), by_self);
	map64_clear(&places);
	return err;
}

void worker_sum_clear(struct worker_sum *sum)
{
	free(sum->rows);
	*sum = (struct worker_sum){0};
}
