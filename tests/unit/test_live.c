// SPDX-License-Identifier: BSD-2-Clause
/* Sums of a recording that is looked at in epochs are those of one aggregate over all of it. */
#include "random_stream.h"

#include "live/live.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define EPOCH_SEGMENTS 10
#define EPOCH	       (EPOCH_SEGMENTS * RANDOM_SEGMENT)

/* Both ways that a stream goes. */
struct watched {
	struct live *live;
	struct aggregate *whole;
	size_t at; /* bytes that have been read */
	uint64_t snapshots_count;
	struct live_totals last;
	uint64_t last_functions[LIVE_FUNCTIONS_MAX + 1];
};

static struct watched watch(uint64_t epoch_ns)
{
	/* a snapshot each period, however slow this machine is */
	const struct live_options options = {
		.period_ns = RANDOM_SEGMENT, .epoch_ns = epoch_ns, .own_share = 1e6};
	struct watched watched = {.live = live__new(&options), .whole = aggregate__new()};

	cr_assert_not_null(watched.live);
	cr_assert_not_null(watched.whole);
	return watched;
}

static void stop_watching(struct watched *watched)
{
	live__free(watched->live);
	aggregate__free(watched->whole);
}

/* Sums never fall. */
static void check_rising(struct watched *watched, const struct live_snapshot *snapshot)
{
	const struct live_totals *last = &watched->last, *now = &snapshot->totals;

	cr_assert_geq(now->sums.calls_count, last->sums.calls_count);
	cr_assert_geq(now->sums.self_ns, last->sums.self_ns);
	cr_assert_geq(now->processes_count, last->processes_count);
	cr_assert_geq(now->steps_count, last->steps_count);
	cr_assert_geq(now->hits_count, last->hits_count);
	cr_assert_geq(now->overhead_ns, last->overhead_ns);
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		cr_assert_geq(now->losses[i], last->losses[i]);
	for (size_t i = 0; i < snapshot->functions_count; i++) {
		uint64_t calls = snapshot->functions[i].run.calls_count;

		cr_assert_geq(calls, watched->last_functions[i]);
		watched->last_functions[i] = calls;
	}
	watched->last = *now;
}

/* What the rows of a snapshot say of its period is what the sums have grown by. */
static void check_period(const struct watched *watched, const struct live_snapshot *snapshot)
{
	uint64_t calls = 0, of_processes = 0;

	for (size_t i = 0; i < snapshot->rows_count; i++)
		calls += snapshot->rows[i].period.calls_count;
	for (size_t i = 0; i < snapshot->processes_count; i++)
		of_processes += snapshot->processes[i].period.calls_count;
	cr_assert_eq(calls, snapshot->totals.sums.calls_count - watched->last.sums.calls_count);
	cr_assert_eq(of_processes, calls);
}

static void tick(struct watched *watched, uint64_t now_ns)
{
	const struct live_snapshot *snapshot;

	if (!live__tick(watched->live, now_ns))
		return;
	snapshot = live__snapshot(watched->live);
	watched->snapshots_count++;
	cr_assert_eq(snapshot->number, watched->snapshots_count);
	cr_assert_eq(snapshot->to_ns, now_ns);
	check_period(watched, snapshot);
	check_rising(watched, snapshot);
}

/* What has been added to the stream since the last call. */
static const struct live_snapshot *read_on(struct watched *watched, const struct stream *s)
{
	while (watched->at < s->bytes.length) {
		struct event event;
		size_t skip;
		ssize_t used = decode_event(s->bytes.data + watched->at,
					    s->bytes.length - watched->at, &event, &skip);

		cr_assert_gt(used, 0);
		watched->at += (size_t)used;
		cr_assert_eq(live__event(watched->live, &event), 0);
		cr_assert_eq(aggregate__add(watched->whole, &event), 0);
		if (event.kind == PERFX_KIND_SEGMENT)
			tick(watched, event.segment.time_ns);
	}
	return live__snapshot(watched->live);
}

static struct live_sums sums_of(const struct profile *profile, const char *name)
{
	struct live_sums sums = {0};

	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		for (size_t j = 0; j < process->rows_count; j++) {
			const struct profile_row *row = &process->rows[j];

			if (strcmp(profile_function(profile, row->function)->name, name))
				continue;
			sums.calls_count += row->calls_count;
			sums.timed_count += row->timed_count;
			sums.total_ns += row->total_ns;
			sums.self_ns += row->self_ns;
			sums.flops += row->cost.flops;
			sums.bytes += row->cost.bytes;
		}
	}
	return sums;
}

static void check_functions(const struct live_snapshot *snapshot, const struct profile *whole)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < snapshot->functions_count; i++) {
		const struct live_function *function = &snapshot->functions[i];
		struct live_sums sums = sums_of(whole, function->name);

		calls += sums.calls_count;
		cr_assert_arr_eq(&function->run, &sums, sizeof(sums), "%s", function->name);
	}
	cr_assert_eq(calls, whole->calls_count);
	cr_assert_eq(snapshot->totals.sums.calls_count, whole->calls_count);
}

static const struct profile_process *process_of(const struct profile *profile, uint32_t pid)
{
	for (size_t i = 0; i < profile->processes_count; i++)
		if (profile->processes[i].pid == pid)
			return &profile->processes[i];
	return NULL;
}

/* What lives now, wherever it was allocated; 0: the epoch knows of nothing. */
static uint64_t live_bytes_of(const struct profile_process *process, enum perfx_domain domain)
{
	for (size_t i = 0; i < process->memory_count; i++)
		if (process->memory[i].domain == domain)
			return process->memory[i].current_bytes;
	return 0;
}

/* Of those that the last epoch knows. */
static void check_processes(const struct live_snapshot *snapshot, const struct profile *whole,
			    bool sampled)
{
	for (size_t i = 0; i < snapshot->processes_count; i++) {
		const struct live_process *live = &snapshot->processes[i];
		const struct profile_process *process = process_of(whole, live->process->pid);

		cr_assert_not_null(process);
		cr_assert_eq(live->run.calls_count, process->calls_count);
		cr_assert_eq(live->run.self_ns, process->self_ns);
		/* the story's exits know nothing of system time */
		if (!process->exited)
			cr_assert_eq(live->cpu_ns, process->cpu_ns);
		cr_assert_eq(live->read_bytes, process->read_bytes);
		cr_assert_eq(live->write_bytes, process->write_bytes);
		for (size_t j = 0; j < process->memory_count && !sampled; j++) {
			const struct profile_memory *memory = &process->memory[j];

			cr_assert_eq(live->allocs_counts[memory->domain], memory->allocs.value);
			cr_assert_eq(live->alloc_bytes[memory->domain],
				     memory->allocated_bytes.value);
			if (!process->exited)
				cr_assert_eq(live_bytes_of(live->process, memory->domain),
					     memory->current_bytes);
		}
	}
}

static void check_story(unsigned seed)
{
	struct random_stream r = {.with_sampling = seed % 2, .with_inferred_frees = seed % 4 == 0};
	struct watched watched = watch(EPOCH);
	const struct live_snapshot *snapshot = NULL;
	const struct profile *whole;

	srand(seed);
	random_begin(&r);
	for (int i = 0; i < 5 * EPOCH_SEGMENTS + 3; i++) {
		random_go_on(&r);
		snapshot = read_on(&watched, &r.stream);
	}
	whole = aggregate__finish(watched.whole);
	cr_assert_gt(whole->calls_count, 300, "%lu", (unsigned long)whole->calls_count);
	cr_assert_gt(watched.snapshots_count, 40);
	check_functions(snapshot, whole);
	check_processes(snapshot, whole, r.sampled);
	cr_assert_eq(snapshot->totals.processes_count, whole->processes_count);
	cr_assert_eq(snapshot->totals.hits_count, whole->hits_count);
	cr_assert_float_eq(snapshot->totals.overhead_ns, whole->overhead_ns, 1);
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		cr_assert_eq(snapshot->totals.losses[i], whole->losses[i]);
	text_clear(&r.stream.bytes);
	stop_watching(&watched);
}

Test(live, sums_of_epochs_are_those_of_the_whole)
{
	for (unsigned seed = 1; seed <= 8; seed++)
		check_story(seed);
}

enum { STEP = 1, MATMUL, CHECKPOINT };

static void segment(struct stream *s, uint64_t at)
{
	stream_plain(s, PERFX_KIND_SEGMENT, struct perfx_segment, .time_ns = STREAM_START + at);
}

static void begin_training(struct stream *s, uint32_t step_flags, const char *last)
{
	stream_host(s);
	stream_process(s, 1, 4242, "python3", "python3");
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("step", "", ""),
		   .function = STEP, .source = PERFX_SOURCE_NVTX, .flags = step_flags);
	stream_function(s, MATMUL, "at::_ops::mm::call", "/lib/torch.so", PERFX_SOURCE_TORCH);
	stream_function(s, CHECKPOINT, last, "/lib/torch.so", PERFX_SOURCE_TORCH);
	for (uint32_t i = STEP; i <= CHECKPOINT; i++)
		stream_context(s, i, 0, i, 1);
}

/* A step of 70 ms, so that some of them are in two segments, and in two epochs. Its calls have no
 * period of their own. */
static void train(struct stream *s, uint64_t *at, uint64_t *segment_at)
{
	static const uint64_t distances_ms[] = {1, 3, 9, 27, 2, 8, 20};
	const struct stream_cost cost = {PERFX_COST_COUNTED, PERFX_DTYPE_F32, 1000, 10};

	for (int i = 0; i < 7; i++) {
		*at += distances_ms[i] * MS;
		if (*at >= *segment_at) {
			segment(s, *segment_at);
			*segment_at += RANDOM_SEGMENT;
		}
		stream_compute(s, MATMUL, 4242, *at - 1 * MS, 500 * US, 500 * US, cost);
	}
	stream_call(s, CHECKPOINT, 4242, *at - 500 * US, 200 * US, 200 * US, 0);
	stream_call(s, STEP, 4242, *at - 300 * US, 200 * US, 200 * US, 0);
}

static void check_steps(uint32_t step_flags, const char *last, enum profile_steps_by by)
{
	struct stream s = {0};
	struct watched watched = watch(EPOCH);
	uint64_t at = 0, segment_at = RANDOM_SEGMENT, last_count = 0;
	const struct live_snapshot *snapshot;
	const struct profile_steps *whole;

	begin_training(&s, step_flags, last);
	for (int i = 0; i < 100; i++) {
		train(&s, &at, &segment_at);
		snapshot = read_on(&watched, &s);
		cr_assert_leq(snapshot ? snapshot->totals.steps_count : 0, (uint64_t)i + 1);
	}
	segment(&s, segment_at);
	snapshot = read_on(&watched, &s);
	whole = &aggregate__finish(watched.whole)->processes[0].steps;
	cr_assert_eq(whole->found_by, by);
	cr_assert_geq(whole->count, 95);
	cr_assert_eq(snapshot->totals.steps_count, whole->count, "%lu of %lu",
		     (unsigned long)snapshot->totals.steps_count, (unsigned long)whole->count);
	cr_assert_eq(snapshot->processes[0].steps_ns, whole->total_ns);
	cr_assert_eq(snapshot->processes[0].steps_flops, whole->cost.flops);
	cr_assert_arr_eq(snapshot->processes[0].phases, whole->phases, sizeof(whole->phases));
	/* the epoch's own are those that ended in it */
	cr_assert_lt(snapshot->processes[0].process->steps.count, 20);
	for (size_t i = 0; i < snapshot->processes[0].history_count; i++)
		last_count += snapshot->processes[0].history[i].steps_count;
	if (by != PROFILE_STEPS_BY_PERIOD)
		cr_assert_eq(last_count, whole->count, "%lu of %lu", (unsigned long)last_count,
			     (unsigned long)whole->count);
	text_clear(&s.bytes);
	stop_watching(&watched);
}

Test(live, a_step_in_two_epochs_counts_once)
{
	const char *backward = "torch::autograd::Engine::execute";

	check_steps(PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP, backward, PROFILE_STEPS_BY_RANGE);
	check_steps(0, backward, PROFILE_STEPS_BY_BACKWARD);
}

/* Known after some epochs: those of the past count, too. */
Test(live, a_period_is_found_across_epochs)
{
	check_steps(0, "at::_ops::_foreach_add_::call", PROFILE_STEPS_BY_PERIOD);
}

/* Uses half of the time, in each epoch; calls once a segment. */
static void live_process(struct stream *s, uint32_t process, uint32_t pid, uint64_t at)
{
	stream_usage(s, process, at, at / 2, 0, 1 << 20);
	stream_call(s, process, pid, at - 2 * MS, 1 * MS, 1 * MS, 0);
	segment(s, at);
}

static void begin_process(struct stream *s, uint32_t process, uint32_t pid, uint64_t at)
{
	stream_plain(s, PERFX_KIND_FORK, struct perfx_fork, .time_ns = STREAM_START + at,
		     .process = process, .pid = pid, .ppid = 1);
	stream_context(s, process, 0, 1, process);
}

static void end_process(struct stream *s, uint32_t process, uint32_t pid, uint64_t at)
{
	stream_plain(s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + at,
		     .process = process, .pid = pid, .runtime_ns = at / 2 + 5 * MS);
}

static const struct live_process *live_of(const struct live_snapshot *snapshot, uint32_t pid)
{
	for (size_t i = 0; i < snapshot->processes_count; i++)
		if (snapshot->processes[i].process->pid == pid)
			return &snapshot->processes[i];
	return NULL;
}

Test(live, an_index_is_used_again)
{
	struct stream s = {0};
	struct watched watched = watch(2 * S);
	const struct live_snapshot *snapshot;

	stream_host(&s);
	stream_process(&s, 9, 900, "other", "other");
	stream_function(&s, 1, "f", "/lib/a.so", PERFX_SOURCE_SYMBOL);
	begin_process(&s, 1, 100, 1 * MS);
	for (uint64_t at = 1 * S; at <= 3 * S; at += 1 * S)
		live_process(&s, 1, 100, at);
	snapshot = read_on(&watched, &s);
	cr_assert_eq(live_of(snapshot, 100)->run.calls_count, 3);
	cr_assert_eq(live_of(snapshot, 100)->cpu_ns, 1500 * MS);
	cr_assert_eq(live_of(snapshot, 100)->history_count, 3);
	end_process(&s, 1, 100, 3200 * MS);
	segment(&s, 4 * S);
	snapshot = read_on(&watched, &s);
	/* the kernel's own sum, when it ended */
	cr_assert_eq(live_of(snapshot, 100)->cpu_ns, 1605 * MS);
	cr_assert(live_of(snapshot, 100)->process->exited);
	for (uint64_t at = 5 * S; at <= 12 * S; at += 1 * S)
		segment(&s, at);
	snapshot = read_on(&watched, &s);
	cr_assert_null(live_of(snapshot, 100));
	cr_assert_eq(snapshot->totals.sums.calls_count, 3);
	cr_assert_eq(snapshot->totals.processes_count, 2);
	begin_process(&s, 1, 200, 12100 * MS);
	live_process(&s, 1, 200, 13 * S);
	snapshot = read_on(&watched, &s);
	cr_assert_null(live_of(snapshot, 100));
	cr_assert_eq(live_of(snapshot, 200)->run.calls_count, 1);
	cr_assert_eq(live_of(snapshot, 200)->history_count, 1);
	cr_assert_eq(snapshot->totals.sums.calls_count, 4);
	cr_assert_eq(snapshot->totals.processes_count, 3);
	cr_assert_eq(snapshot->functions_count, 1);
	cr_assert_eq(snapshot->functions[0].run.calls_count, 4);
	text_clear(&s.bytes);
	stop_watching(&watched);
}

Test(live, a_crowd_makes_epochs_short)
{
	struct stream s = {0};
	struct watched watched = watch(0);
	const struct live_snapshot *snapshot;
	uint32_t number = 0;

	stream_host(&s);
	for (uint64_t at = 1 * S; at <= 24 * S; at += 1 * S) {
		for (size_t i = 0; i < LIVE_EPOCH_PROCESSES / 8; i++) {
			number++;
			stream_plain(&s, PERFX_KIND_FORK, struct perfx_fork,
				     .time_ns = STREAM_START + at - 900 * MS, .process = number,
				     .pid = 1000 + number, .ppid = 1);
			end_process(&s, number, 1000 + number, at - 700 * MS);
		}
		segment(&s, at);
	}
	snapshot = read_on(&watched, &s);
	/* the last epoch has nine periods at most, and the processes that had just ended */
	cr_expect_leq(snapshot->profile->processes_count, 11 * LIVE_EPOCH_PROCESSES / 8);
	cr_expect_eq(snapshot->totals.processes_count, number);
	text_clear(&s.bytes);
	stop_watching(&watched);
}

Test(live, functions_beyond_the_limit_are_others)
{
	struct stream s = {0};
	struct watched watched = watch(EPOCH);
	const struct live_snapshot *snapshot;
	const uint32_t beyond = 20;

	stream_host(&s);
	stream_process(&s, 1, 4242, "python3", "python3");
	for (uint32_t i = 1; i <= LIVE_FUNCTIONS_MAX + beyond; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		stream_function(&s, i, name, "/lib/a.so", PERFX_SOURCE_SYMBOL);
		stream_plain(&s, PERFX_KIND_CONTEXT, struct perfx_context, .context = i,
			     .function = i, .process = 1);
	}
	for (uint64_t at = RANDOM_SEGMENT; at <= 25 * RANDOM_SEGMENT; at += RANDOM_SEGMENT) {
		for (uint32_t i = 1; i <= LIVE_FUNCTIONS_MAX + beyond; i++)
			stream_plain(&s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
				     .context = i, .calls_count = 2, .total_ns = 300 + i,
				     .self_ns = 300 + i);
		segment(&s, at);
	}
	snapshot = read_on(&watched, &s);
	cr_assert_eq(snapshot->functions_count, LIVE_FUNCTIONS_MAX + 1);
	/* those with the most time came first, of these only they are known by name */
	for (size_t i = 0; i < LIVE_FUNCTIONS_MAX; i++)
		cr_assert_eq(snapshot->functions[i].run.calls_count, 50);
	cr_assert_str_eq(snapshot->functions[LIVE_FUNCTIONS_MAX].name, LIVE_OTHERS);
	cr_assert_eq(snapshot->functions[LIVE_FUNCTIONS_MAX].run.calls_count, 50 * beyond);
	cr_assert_eq(snapshot->totals.sums.calls_count, 50 * (LIVE_FUNCTIONS_MAX + beyond));
	text_clear(&s.bytes);
	stop_watching(&watched);
}

Test(live, history_has_the_last_periods)
{
	struct stream s = {0};
	struct watched watched = watch(EPOCH);
	const struct live_process *process;
	uint64_t at = 0;

	stream_host(&s);
	stream_process(&s, 1, 4242, "python3", "python3");
	for (int i = 0; i < LIVE_HISTORY + 60; i++) {
		at += RANDOM_SEGMENT;
		stream_usage(&s, 1, at, at / 4, 0, 1 << 20);
		segment(&s, at);
	}
	process = &read_on(&watched, &s)->processes[0];
	cr_assert_eq(process->history_count, LIVE_HISTORY);
	for (size_t i = 0; i < LIVE_HISTORY; i++) {
		const struct live_point *point = &process->history[i];

		cr_assert_eq(point->time_ns,
			     STREAM_START + at - (LIVE_HISTORY - 1 - i) * RANDOM_SEGMENT);
		cr_assert_eq(point->cpu_ns, RANDOM_SEGMENT / 4);
		cr_assert_eq(point->rss_bytes, 1 << 20);
		cr_assert_eq(point->step_ns, PROFILE_ABSENT);
		cr_assert_eq(point->live_bytes, PROFILE_ABSENT);
	}
	text_clear(&s.bytes);
	stop_watching(&watched);
}

/* What was found stays while an epoch is young, and nothing that it refers to goes. */
static void check_judged(uint64_t epoch_ns)
{
	const struct live_options options = {
		.epoch_ns = epoch_ns, .own_share = 1e6, .judges = true};
	struct stream s = {0};
	struct watched watched = {.live = live__new(&options), .whole = aggregate__new()};

	stream_host(&s);
	stream_process(&s, 1, 100, "train", "train");
	stream_add(&s, PERFX_KIND_RANK, struct perfx_rank, STRINGS("RANK", "a job"), .process = 1,
		   .rank = 0, .world_size = 2);
	stream_add(&s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("step", "", ""),
		   .function = 1, .source = PERFX_SOURCE_NVTX,
		   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP);
	stream_context(&s, 1, 0, 1, 1);
	for (uint64_t at = 1 * S; at <= 40 * S; at += 1 * S) {
		const struct live_snapshot *snapshot;

		live_process(&s, 1, 100, at);
		snapshot = read_on(&watched, &s);
		cr_assert_not_null(snapshot->analysis);
		cr_assert_gt(strlen(snapshot->analysis->verdict), 0);
		cr_assert_eq(snapshot->analyzed->processes[0].pid, 100);
		cr_assert_eq(snapshot->analyzed->processes_count,
			     snapshot->analysis->processes_count);
		cr_assert_eq(snapshot->processes[0].analysis, &snapshot->analysis->processes[0]);
		cr_assert_eq(snapshot->analysis->ranks.count, 1);
		cr_assert_str_eq(snapshot->analysis->ranks.rows[0].job, "a job");
	}
	text_clear(&s.bytes);
	stop_watching(&watched);
}

Test(live, findings_outlive_their_profile)
{
	check_judged(15 * S);
	check_judged(3 * S);
}
