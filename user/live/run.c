// SPDX-License-Identifier: BSD-2-Clause
#include "live/run.h"

#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void growth_init(struct growth *growth)
{
	*growth = (struct growth){
		.rows.width = GROWTH_ROW_WIDTH,
		.lines.width = GROWTH_LINE_WIDTH,
		.waits.width = GROWTH_WAIT_WIDTH,
		.threads.width = GROWTH_THREAD_WIDTH,
		.processes.width = GROWTH_PROCESS_WIDTH,
		.reasons.width = GROWTH_REASON_WIDTH,
		.domains.width = GROWTH_DOMAIN_WIDTH,
	};
}

void growth_clear(struct growth *growth)
{
	emitted_clear(&growth->rows);
	emitted_clear(&growth->lines);
	emitted_clear(&growth->waits);
	emitted_clear(&growth->threads);
	emitted_clear(&growth->processes);
	emitted_clear(&growth->reasons);
	emitted_clear(&growth->domains);
}

int grown(struct emitted *table, uint64_t key, void *sums)
{
	uint64_t *list = sums;
	bool any = false;

	for (size_t i = 0; i < table->width; i++)
		if (list[i] == PROFILE_ABSENT)
			list[i] = 0;
	if (!emitted_subtract(table, key, sums))
		return 0;
	if (emitted_add(table, key, sums))
		return -ENOMEM;
	for (size_t i = 0; i < table->width; i++) {
		if ((int64_t)list[i] < 0)
			list[i] = 0;
		any = any || list[i];
	}
	return any;
}

void live_sums_add(struct live_sums *sums, const struct live_sums *more)
{
	sums->calls_count += more->calls_count;
	sums->timed_count += more->timed_count;
	sums->total_ns += more->total_ns;
	sums->self_ns += more->self_ns;
	sums->flops += more->flops;
	sums->bytes += more->bytes;
}

/* Functions beyond LIVE_FUNCTIONS_MAX share one entry. */
static struct live_function *others(struct run *run)
{
	struct live_function *function = &run->functions[LIVE_FUNCTIONS_MAX];

	if (run->functions_count == LIVE_FUNCTIONS_MAX) {
		*function = (struct live_function){.name = LIVE_OTHERS, .module = ""};
		run->functions_count++;
	}
	return function;
}

/* NULL: no memory. */
static struct live_function *function_of(struct run *run, const struct profile_function *function)
{
	uint64_t key = fnv1a(function_label(function), strlen(function_label(function))) * 31 +
		       fnv1a(function->module, strlen(function->module));
	struct live_function *new;
	uint32_t at;

	/* two of one key: the next keys are tried */
	while ((at = map64_get(&run->function_ids, key)) != MAP64_NONE) {
		if (!strcmp(run->functions[at].name, function_label(function)) &&
		    !strcmp(run->functions[at].module, function->module))
			return &run->functions[at];
		key++;
	}
	if (run->functions_count >= LIVE_FUNCTIONS_MAX)
		return others(run);
	new = &run->functions[run->functions_count];
	*new = (struct live_function){.name = pool_add(&run->names, function_label(function)),
				      .module = pool_add(&run->names, function->module),
				      .source = function->source};
	if (!new->name || !new->module ||
	    map64_put(&run->function_ids, key, (uint32_t)run->functions_count))
		return NULL;
	run->functions_count++;
	return new;
}

int run_function(struct run *run, const struct profile_function *function,
		 const struct live_sums *more)
{
	struct live_function *known = function_of(run, function);

	if (!known)
		return -ENOMEM;
	live_sums_add(&known->run, more);
	live_sums_add(&run->totals.sums, more);
	return 0;
}

static void run_process_free(struct run_process *process)
{
	free(process->history);
	free(process);
}

/* NULL: no memory. */
static struct run_process *run_process_new(struct run *run, uint32_t index)
{
	struct run_process *new = calloc(1, sizeof(*new));

	if (!new || GROW_BY_ONE(run->processes) ||
	    map64_put(&run->process_ids, index, (uint32_t)run->processes_count)) {
		free(new);
		return NULL;
	}
	new->index = index;
	run->processes[run->processes_count++] = new;
	return new;
}

/* An index is another process's only when its process has been gone for more than an epoch. */
struct run_process *run_process(struct run *run, const struct profile_process *process,
				uint64_t epoch)
{
	uint32_t at = map64_get(&run->process_ids, process->index);
	struct run_process *found =
		at == MAP64_NONE ? run_process_new(run, process->index) : run->processes[at];

	if (!found)
		return NULL;
	if (at == MAP64_NONE)
		run->totals.processes_count++;
	found->epoch = epoch;
	return found;
}

int run_forget(struct run *run, uint64_t epoch)
{
	size_t kept = 0;

	map64_clear(&run->process_ids);
	for (size_t i = 0; i < run->processes_count; i++) {
		struct run_process *process = run->processes[i];

		if (process->epoch != epoch) {
			run_process_free(process);
			continue;
		}
		run->processes[kept] = process;
		if (map64_put(&run->process_ids, process->index, (uint32_t)kept++))
			return -ENOMEM;
	}
	run->processes_count = kept;
	return 0;
}

void run_clear(struct run *run)
{
	for (size_t i = 0; i < run->processes_count; i++)
		run_process_free(run->processes[i]);
	free(run->processes);
	map64_clear(&run->process_ids);
	map64_clear(&run->function_ids);
	pool_clear(&run->names);
}

static int add_usage(struct live_process *live, const struct profile *profile,
		     struct growth *growth, struct live_point *point)
{
	const struct profile_process *process = live->process;
	uint64_t used[GROWTH_PROCESS_WIDTH] = {process->cpu_ns, process->read_bytes,
					       process->write_bytes, process->gpu.busy_ns,
					       process->cpu_wall_ns};
	int err = grown(&growth->processes, process->index, used);

	point->rss_bytes = process->rss_bytes;
	point->gpu_busy_ns = process->gpu.busy_ns == PROFILE_ABSENT ? PROFILE_ABSENT : used[3];
	/* late records of a process that ended before the epoch count in the epoch before */
	if (err < 0 || (process->exited && process->to_ns <= profile->start_ns))
		return err < 0 ? err : 0;
	point->cpu_ns = used[0];
	point->cpu_wall_ns = used[4];
	live->cpu_ns += used[0];
	live->read_bytes += used[1];
	live->write_bytes += used[2];
	return 0;
}

static int add_waits(struct live_process *live, struct growth *growth)
{
	const struct profile_activities *waits = &live->process->blocked;
	uint64_t sums[PERFX_WAIT_REASONS][GROWTH_REASON_WIDTH] = {0};
	int err = 0;

	for (size_t i = 0; i < waits->count; i++) {
		sums[waits->list[i].reason][0] += waits->list[i].count;
		sums[waits->list[i].reason][1] += waits->list[i].ns;
	}
	for (uint32_t i = 0; i < PERFX_WAIT_REASONS && err >= 0; i++) {
		err = grown(&growth->reasons, (uint64_t)live->process->index << 32 | i, sums[i]);
		live->blocked_counts[i] += sums[i][0];
		live->blocked_ns[i] += sums[i][1];
	}
	return err < 0 ? err : 0;
}

static int add_memory(struct live_process *live, struct growth *growth, struct live_point *point)
{
	const struct profile_process *process = live->process;
	int err = 0;

	point->live_bytes =
		process->memory_count ? process->memory[0].current_bytes : PROFILE_ABSENT;
	for (size_t i = 0; i < process->memory_count && err >= 0; i++) {
		const struct profile_memory *memory = &process->memory[i];
		uint64_t sums[GROWTH_DOMAIN_WIDTH] = {memory->allocs.value,
						      memory->allocated_bytes.value};

		err = grown(&growth->domains, (uint64_t)process->index << 32 | memory->domain,
			    sums);
		live->allocs_counts[memory->domain] += sums[0];
		live->alloc_bytes[memory->domain] += sums[1];
	}
	return err < 0 ? err : 0;
}

static uint64_t raise(uint64_t *sum, uint64_t now)
{
	uint64_t more = now > *sum ? now - *sum : 0;

	*sum += more;
	return more;
}

/* All steps of the run come with each profile. Where others are found to be the steps, and fewer,
 * the sums stay until these are more: they never fall. */
static void add_steps(struct run *run, struct live_process *live)
{
	const struct profile_step_sums *steps = &live->process->steps.run;
	uint64_t more = raise(&live->steps_count, steps->count);

	run->totals.steps_count += more;
	if (!more)
		return;
	raise(&live->steps_ns, steps->total_ns);
	raise(&live->steps_flops, steps->flops);
	for (int i = 0; i < PROFILE_PHASES; i++)
		raise(&live->phases[i], steps->phases[i]);
}

/* Those that have ended since the last one that was seen, also where a period is not certain yet.
 */
static void show_steps(struct run_process *process, struct live_point *point)
{
	struct live_process *live = &process->live;
	const struct profile_steps *steps = &live->process->steps;
	uint64_t ns = 0, before_ns = process->last_step_ns;

	memset(live->period_phases, 0, sizeof(live->period_phases));
	for (size_t i = steps->times_count; i-- > 0 && steps->times[i].to_ns > before_ns;) {
		const struct profile_step_time *step = &steps->times[i];

		point->steps_count++;
		ns += step->to_ns - step->from_ns;
		for (int k = 0; k < PROFILE_PHASES; k++)
			live->period_phases[k] += step->phases[k];
		if (step->to_ns > process->last_step_ns)
			process->last_step_ns = step->to_ns;
	}
	point->step_ns = point->steps_count ? ns / point->steps_count : PROFILE_ABSENT;
}

static int add_point(struct run_process *process, const struct live_point *point)
{
	struct live_process *live = &process->live;

	if (live->history_count == LIVE_HISTORY) {
		live->history_count--;
		memmove(process->history, process->history + 1,
			live->history_count * sizeof(*process->history));
	}
	if (grow_array(&process->history, &process->history_capacity, live->history_count + 1,
		       sizeof(*process->history)))
		return -ENOMEM;
	process->history[live->history_count++] = *point;
	live->history = process->history;
	return 0;
}

int run_process_add(struct run *run, struct run_process *process, const struct profile *profile,
		    struct growth *growth, uint64_t to_ns)
{
	struct live_process *live = &process->live;
	struct live_point point = {.time_ns = to_ns};
	int err = add_usage(live, profile, growth, &point);

	live->flops_cut |= live->process->compute.until_ns != 0;
	point.flops = live_flops(live, &live->period);

	if (!err)
		err = add_waits(live, growth);
	if (!err)
		err = add_memory(live, growth, &point);
	if (err)
		return err;
	add_steps(run, live);
	show_steps(process, &point);
	return add_point(process, &point);
}

/* How much one number has grown by; *before: its value at the last snapshot. */
static uint64_t grown_by(uint64_t *before, uint64_t now)
{
	uint64_t more = now > *before ? now - *before : 0;

	*before = now;
	return more;
}

void run_totals(struct run *run, const struct profile *profile, struct growth *growth)
{
	struct live_totals *totals = &run->totals;

	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		totals->losses[i] += grown_by(&growth->losses[i], profile->losses[i]);
	totals->hits_count += grown_by(&growth->hits_count, profile->hits_count);
	if (profile->overhead_ns > growth->overhead_ns)
		totals->overhead_ns += profile->overhead_ns - growth->overhead_ns;
	growth->overhead_ns = profile->overhead_ns;
}
