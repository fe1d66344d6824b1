// SPDX-License-Identifier: BSD-2-Clause
#include "live/run.h"

#include "base/hash.h"
#include "base/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A process of the run, as long as its epoch shows it. */
struct run_process {
	struct live_process live; /* its pointers: of the last snapshot */
	uint32_t index;
	uint64_t epoch;	       /* the last one that had it */
	uint64_t last_step_ns; /* the end of its last step */
	size_t history_capacity;
	struct live_point *history;
};

/* The snapshot that is being made. */
struct making {
	struct run *run;
	struct live_snapshot *view;
	struct growth *growth;
	const struct profile *profile;
	uint64_t to_ns;
};

#define THREAD_SUMS  4
#define PROCESS_SUMS 5

void growth_reset(struct growth *growth)
{
	static const size_t widths[GROWTH_TABLES] = {[GROWTH_ROWS] = sizeof(struct live_sums) /
								     sizeof(uint64_t),
						     [GROWTH_LINES] = 3,
						     [GROWTH_WAITS] = 2,
						     [GROWTH_THREADS] = THREAD_SUMS,
						     [GROWTH_PROCESSES] = PROCESS_SUMS,
						     [GROWTH_REASONS] = 2,
						     [GROWTH_DOMAINS] = 2};

	for (int i = 0; i < GROWTH_TABLES; i++)
		emitted_clear(&growth->tables[i]);
	*growth = (struct growth){0};
	for (int i = 0; i < GROWTH_TABLES; i++)
		growth->tables[i].width = widths[i];
}

/* Replaces the sums by their growth. PROFILE_ABSENT counts as 0. A sum that fell, because a sample
 * was named anew, grew by 0. 1: something has grown, 0, or -ENOMEM. */
static int grown(struct growth *growth, enum growth_table of, uint64_t key, void *sums)
{
	struct emitted *table = &growth->tables[of];
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
		any |= list[i] != 0;
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

/* NULL: no memory. */
static struct live_function *function_of(struct run *run, const struct profile_function *function)
{
	const char *label = function_label(function);
	uint64_t key = fnv1a(label, strlen(label)) * 31 +
		       fnv1a(function->module, strlen(function->module));
	struct live_function *new;
	uint32_t at;

	/* two of one key: the next keys are tried */
	while ((at = map64_get(&run->function_ids, key)) != MAP64_NONE) {
		if (!strcmp(run->functions[at].name, label) &&
		    !strcmp(run->functions[at].module, function->module))
			return &run->functions[at];
		key++;
	}
	if (run->functions_count == LIVE_FUNCTIONS_MAX)
		run->functions[run->functions_count++] =
			(struct live_function){.name = LIVE_OTHERS, .module = ""};
	if (run->functions_count > LIVE_FUNCTIONS_MAX)
		return &run->functions[LIVE_FUNCTIONS_MAX];
	new = &run->functions[run->functions_count];
	*new = (struct live_function){.name = pool_add(&run->names, label),
				      .module = pool_add(&run->names, function->module),
				      .source = function->source};
	if (!new->name || !new->module ||
	    map64_put(&run->function_ids, key, (uint32_t)run->functions_count))
		return NULL;
	run->functions_count++;
	return new;
}

/* NULL: no memory. An index is another process's only when its process has been gone for more than
 * an epoch. */
static struct run_process *run_process_get(struct run *run, uint32_t index)
{
	struct run_process **known = MAP64_FIND(run->process_ids, index, run->processes), *new;

	if (known)
		return *known;
	new = calloc(1, sizeof(*new));
	if (!new || GROW_BY_ONE(run->processes) ||
	    map64_put(&run->process_ids, index, (uint32_t)run->processes_count)) {
		free(new);
		return NULL;
	}
	new->index = index;
	run->processes[run->processes_count++] = new;
	run->totals.processes_count++;
	return new;
}

int run_forget(struct run *run, uint64_t epoch)
{
	size_t kept = 0;

	map64_clear(&run->process_ids);
	FOR_EACH (slot, run->processes) {
		struct run_process *process = *slot;

		if (process->epoch != epoch) {
			free(process->history);
			free(process);
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
	FOR_EACH (process, run->processes) {
		free((*process)->history);
		free(*process);
	}
	free(run->processes);
	map64_clear(&run->process_ids);
	map64_clear(&run->function_ids);
	pool_clear(&run->names);
}

static int add_row(const struct making *making, struct live_process *live,
		   const struct profile_row *row)
{
	struct live_row out = {
		.process = live->process,
		.row = row,
		.period = {.calls_count = row->calls_count,
			   .timed_count = row->timed_count,
			   .total_ns = row->total_ns,
			   .self_ns = row->self_ns,
			   .flops = row->cost.flops,
			   .bytes = row->cost.bytes + row->cost.moved_bytes},
	};
	struct live_function *function;
	int more = grown(making->growth, GROWTH_ROWS,
			 MAP64_PAIR(live->process->index, row->function), &out.period);

	if (more <= 0)
		return more;
	function = function_of(making->run, profile_function(making->profile, row->function));
	if (!function)
		return -ENOMEM;
	live_sums_add(&live->period, &out.period);
	live_sums_add(&function->run, &out.period);
	live_sums_add(&making->run->totals.sums, &out.period);
	return LIST_ADD(making->view->rows, out);
}

static int add_line(const struct making *making, const struct profile_process *process,
		    const struct profile_line *line)
{
	/* texts of one profile are compared by address */
	const uint64_t key[] = {process->index,
				line->line,
				line->language,
				(uintptr_t)line->file,
				(uintptr_t)line->function,
				(uintptr_t)line->module_base,
				line->offset};
	uint64_t sums[] = {line->samples_count, line->on_cpu_ns, line->off_cpu_ns};
	int more = grown(making->growth, GROWTH_LINES, fnv1a(key, sizeof(key)), sums);

	return more <= 0
		       ? more
		       : LIST_ADD(making->view->lines, (struct live_line){.process = process,
									  .line = line,
									  .samples_count = sums[0],
									  .on_cpu_ns = sums[1],
									  .off_cpu_ns = sums[2]});
}

static int add_thread(const struct making *making, const struct profile_process *process,
		      const struct profile_thread *thread)
{
	const uint64_t now[THREAD_SUMS] = {thread->on_cpu_ns, thread->runnable_ns,
					   thread->blocked_ns, thread->wall_ns};
	uint64_t sums[THREAD_SUMS];
	int more;

	memcpy(sums, now, sizeof(sums));
	more = grown(making->growth, GROWTH_THREADS, MAP64_PAIR(process->index, thread->tid), sums);
	if (more < 0)
		return more;
	for (int i = 0; i < THREAD_SUMS; i++)
		if (now[i] == PROFILE_ABSENT)
			sums[i] = PROFILE_ABSENT;
	return LIST_ADD(making->view->threads, (struct live_thread){.process = process,
								    .thread = thread,
								    .on_cpu_ns = sums[0],
								    .runnable_ns = sums[1],
								    .blocked_ns = sums[2],
								    .wall_ns = sums[3]});
}

static int add_wait(const struct making *making, const struct profile_process *process,
		    const struct profile_activity *wait)
{
	/* a wait is the same one when another thread ends it */
	const uint64_t key[] = {
		process->index, wait->tid,
		wait->reason,	wait->syscall,
		wait->object,	wait->reason == PERFX_WAIT_FUTEX ? 0 : wait->holder_tid};
	uint64_t sums[] = {wait->count, wait->ns};
	int more = grown(making->growth, GROWTH_WAITS, fnv1a(key, sizeof(key)), sums);

	return more <= 0 ? more
			 : LIST_ADD(making->view->waits, (struct live_wait){.process = process,
									    .wait = wait,
									    .count = sums[0],
									    .ns = sums[1]});
}

static int add_usage(const struct making *making, struct live_process *live,
		     struct live_point *point)
{
	const struct profile_process *process = live->process;
	uint64_t used[PROCESS_SUMS] = {process->cpu_ns, process->read_bytes, process->write_bytes,
				       process->gpu.busy_ns, process->cpu_wall_ns};
	int err = grown(making->growth, GROWTH_PROCESSES, process->index, used);

	point->rss_bytes = process->rss_bytes;
	point->gpu_busy_ns = process->gpu.busy_ns == PROFILE_ABSENT ? PROFILE_ABSENT : used[3];
	/* late records of a process that ended before the epoch count in the epoch before */
	if (err < 0 || (process->exited && process->to_ns <= making->profile->start_ns))
		return err < 0 ? err : 0;
	point->cpu_ns = used[0];
	point->cpu_wall_ns = used[4];
	live->cpu_ns += used[0];
	live->read_bytes += used[1];
	live->write_bytes += used[2];
	return 0;
}

static int add_wait_reasons(struct growth *growth, struct live_process *live)
{
	const struct profile_activities *waits = &live->process->blocked;
	uint64_t sums[PERFX_WAIT_REASONS][2] = {0};
	int err = 0;

	for (size_t i = 0; i < waits->count; i++) {
		sums[waits->list[i].reason][0] += waits->list[i].count;
		sums[waits->list[i].reason][1] += waits->list[i].ns;
	}
	for (uint32_t i = 0; i < PERFX_WAIT_REASONS && err >= 0; i++) {
		err = grown(growth, GROWTH_REASONS, MAP64_PAIR(live->process->index, i), sums[i]);
		live->blocked_counts[i] += sums[i][0];
		live->blocked_ns[i] += sums[i][1];
	}
	return err < 0 ? err : 0;
}

static int add_memory(struct growth *growth, struct live_process *live, struct live_point *point)
{
	const struct profile_process *process = live->process;
	int err = 0;

	point->live_bytes =
		process->memory_count ? process->memory[0].current_bytes : PROFILE_ABSENT;
	for (size_t i = 0; i < process->memory_count && err >= 0; i++) {
		const struct profile_memory *memory = &process->memory[i];
		uint64_t sums[] = {memory->allocs.value, memory->allocated_bytes.value};

		err = grown(growth, GROWTH_DOMAINS, MAP64_PAIR(process->index, memory->domain),
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

/* Each profile has all steps of the run. Where it finds that others are the steps, and fewer, the
 * sums stay until these are more: they never fall. */
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

/* Steps that have ended since the last one that was seen, even if their period is not certain. */
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
		process->last_step_ns = max_u64(process->last_step_ns, step->to_ns);
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

/* What the process has called, used, waited for and allocated since the last time, and its steps.
 */
static int add_process(const struct making *making, struct run_process *process)
{
	struct live_process *live = &process->live;
	const struct profile_process *from = live->process;
	struct live_point point = {.time_ns = making->to_ns};
	int err = 0;

	live->period = (struct live_sums){0};
	FOR_EACH (row, from->rows)
		err = err ?: add_row(making, live, row);
	/* the calls of a process contain each other */
	live->period.total_ns = live->period.self_ns;
	live_sums_add(&live->run, &live->period);
	live->flops_cut |= from->compute.until_ns != 0;
	point.flops = live_flops(live, &live->period);
	err = err ?: add_usage(making, live, &point) ?: add_wait_reasons(making->growth, live);
	err = err ?: add_memory(making->growth, live, &point);
	if (err)
		return err;
	add_steps(making->run, live);
	show_steps(process, &point);
	err = add_point(process, &point);
	FOR_EACH (line, from->lines)
		err = err ?: add_line(making, from, line);
	FOR_EACH (thread, from->threads)
		err = err ?: add_thread(making, from, thread);
	FOR_EACH_OF (wait, from->blocked)
		err = err ?: add_wait(making, from, wait);
	return err ?: LIST_ADD(making->view->processes, *live);
}

/* How much one number has grown by; *before: its value at the last snapshot. */
static uint64_t grown_by(uint64_t *before, uint64_t now)
{
	uint64_t more = now > *before ? now - *before : 0;

	*before = now;
	return more;
}

ORDER(by_self, struct live_row, DESCENDING(a->period.self_ns, b->period.self_ns),
      DESCENDING(a->period.calls_count, b->period.calls_count))
ORDER(by_samples, struct live_line,
      DESCENDING(a->on_cpu_ns + a->off_cpu_ns, b->on_cpu_ns + b->off_cpu_ns))
/* absent wraps to 0: last */
ORDER(by_on_cpu, struct live_thread, DESCENDING(a->on_cpu_ns + 1, b->on_cpu_ns + 1))
ORDER(by_wait, struct live_wait, DESCENDING(a->ns, b->ns))
ORDER(by_steps, struct live_process,
      DESCENDING(a->history[a->history_count - 1].steps_count,
		 b->history[b->history_count - 1].steps_count),
      DESCENDING(a->period.self_ns, b->period.self_ns), ASCENDING(a->process->pid, b->process->pid))

/* Waits are in order: a thread's first is its longest. */
static int name_longest(struct live_snapshot *view)
{
	struct map64 firsts = {0};
	int err = 0;

	for (uint32_t i = 0; i < view->waits_count && !err; i++) {
		const struct live_wait *wait = &view->waits[i];
		uint64_t key = MAP64_PAIR(wait->process->index, wait->wait->tid);

		if (map64_get(&firsts, key) == MAP64_NONE)
			err = map64_put(&firsts, key, i);
	}
	FOR_EACH (thread, view->threads)
		thread->longest =
			MAP64_FIND(firsts, MAP64_PAIR(thread->process->index, thread->thread->tid),
				   view->waits);
	map64_clear(&firsts);
	return err;
}

int run_snapshot(struct run *run, struct live_snapshot *view, struct growth *growth,
		 const struct profile *profile, uint64_t epoch, uint64_t to_ns)
{
	const struct making making = {run, view, growth, profile, to_ns};
	int err = 0;

	view->processes_count = view->rows_count = view->lines_count = 0;
	view->threads_count = view->waits_count = 0;
	for (size_t i = 0; i < profile->processes_count && !err; i++) {
		struct run_process *process = run_process_get(run, profile->processes[i].index);

		if (!process)
			return -ENOMEM;
		process->epoch = epoch;
		process->live.process = &profile->processes[i];
		process->live.analysis = NULL;
		err = add_process(&making, process);
	}
	if (err)
		return err;
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		run->totals.losses[i] += grown_by(&growth->losses[i], profile->losses[i]);
	run->totals.hits_count += grown_by(&growth->hits_count, profile->hits_count);
	if (profile->overhead_ns > growth->overhead_ns)
		run->totals.overhead_ns += profile->overhead_ns - growth->overhead_ns;
	growth->overhead_ns = profile->overhead_ns;
	SORT_ITEMS(view->processes, view->processes_count, by_steps);
	SORT_ITEMS(view->rows, view->rows_count, by_self);
	SORT_ITEMS(view->lines, view->lines_count, by_samples);
	SORT_ITEMS(view->threads, view->threads_count, by_on_cpu);
	SORT_ITEMS(view->waits, view->waits_count, by_wait);
	return name_longest(view);
}
