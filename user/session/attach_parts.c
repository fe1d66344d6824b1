// SPDX-License-Identifier: BSD-2-Clause
/* The parts of attach/, as parts of a recording. */
#include "aggregate/steps.h"
#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/reader.h"
#include "attach/sampler.h"
#include "attach/thread_counters.h"
#include "attach/tracer.h"
#include "attach/unwind_tables.h"
#include "base/message.h"
#include "session/follow.h"
#include "session/frames.h"
#include "session/process_table.h"
#include "session/progress.h"
#include "session/recording.h"

#include <errno.h>
#include <string.h>

static int open_probes(struct recording *recording)
{
	recording->probes =
		probes__new(&(struct probes_parts){.plan = recording->plan,
						   .skipped = &recording->skipped,
						   .tracer = recording->tracer,
						   .calibration = &recording->calibration,
						   .sink = recording->sink,
						   .adopts = recording->options->all});
	if (!recording->probes)
		return -errno;
	if (thread_counters__counters(recording->thread_counters))
		probes__enable_counters(recording->probes,
					thread_counters__all_functions(recording->thread_counters));
	return 0;
}

static void tick_probes(struct recording *recording)
{
	probes__watch_cost(recording->probes);
	probes__heed_nesting(recording->probes);
}

static void close_probes(struct recording *recording)
{
	probes__free(recording->probes);
}

const struct recording_part probes_part = {
	.name = "probes", .open = open_probes, .tick = tick_probes, .close = close_probes};

static void count_threads(struct recording *recording)
{
	size_t count;
	const pid_t *pids = process_table__pids(recording->processes, &count);

	thread_counters__scan(recording->thread_counters, recording->tracer, pids, count);
}

static void begin_thread_counters(struct recording *recording)
{
	count_threads(recording);
	perf_counters_emit(recording->thread_counters, recording->sink, recording->plan);
}

static void end_thread_counters(struct recording *recording)
{
	perf_counters_emit(recording->thread_counters, recording->sink, recording->plan);
}

static void close_thread_counters(struct recording *recording)
{
	thread_counters__free(recording->thread_counters);
}

/* Opened before the tracer, which wants to know the counters. */
const struct recording_part thread_counters_part = {.name = "hardware counters",
						    .begin = begin_thread_counters,
						    .tick = count_threads,
						    .end = end_thread_counters,
						    .close = close_thread_counters};

static int open_memory(struct recording *recording)
{
	struct memory_options options = {.sample_bytes = recording->options->sample_bytes,
					 .all_processes = recording->options->all};

	recording->memory = memory__new(recording->plan, recording->tracer, recording->probes,
					recording->sink, &options);
	return recording->memory ? 0 : -ENOMEM;
}

static void begin_memory(struct recording *recording)
{
	memory__start(recording->memory, recording->start_ns);
}

static void close_memory(struct recording *recording)
{
	memory__free(recording->memory);
}

const struct recording_part memory_part = {
	.name = "memory", .open = open_memory, .begin = begin_memory, .close = close_memory};

static int open_sampler(struct recording *recording)
{
	recording->sampler =
		sampler__new(recording->tracer, recording->sink, recording->options->sample_hz);
	return recording->sampler ? 0 : -ENOMEM;
}

static void begin_sampler(struct recording *recording)
{
	sampler__describe(recording->sampler);
}

static void tick_sampler(struct recording *recording)
{
	sampler__tick(recording->sampler);
}

static void stop_sampler(struct recording *recording)
{
	sampler__stop(recording->sampler);
}

static void close_sampler(struct recording *recording)
{
	sampler__free(recording->sampler);
}

const struct recording_part sampler_part = {.name = "samples",
					    .open = open_sampler,
					    .begin = begin_sampler,
					    .tick = tick_sampler,
					    .stop = stop_sampler,
					    .close = close_sampler};

static void tick_programs(struct recording *recording)
{
	tracer__renew_room(recording->tracer);
}

static void stop_programs(struct recording *recording)
{
	recording->detached = tracer__stop(recording->tracer, PROBES_KEPT);
}

static void end_programs(struct recording *recording)
{
	hint_detaching(&recording->skipped);
	lacking_names(recording->tracer, &recording->skipped);
}

/* Loaded before there are parts: a plan without a match, or a kernel that refuses them, ends the
 * recording with a message of its own. */
const struct recording_part programs_part = {
	.name = "BPF programs", .tick = tick_programs, .stop = stop_programs, .end = end_programs};

static void on_recording_window(struct recording *recording,
				const struct perfx_recording_window *window)
{
	size_t turns_count = recording->windows.turns_count;

	recording_turn(recording, window);
	say_turned(window, turns_count);
}

static void on_stack(struct recording *recording, struct perfx_stack *stack)
{
	follow__read_mappings_until(recording->follow, frames__stack_time_ns(stack));
	frames__stack(recording->frames, stack);
}

static void on_stack_named(struct recording *recording, uint32_t process, uint32_t *stack,
			   uint64_t time_ns)
{
	follow__read_mappings_until(recording->follow, time_ns);
	frames__name_stack(recording->frames, process, stack, time_ns);
}

static void on_range(struct recording *recording, const struct perfx_function *range)
{
	const char *name = (const char *)range + range->hdr.fixed;
	unsigned class = step_class(range->source, name, range->flags);

	if ((class & STEP_RANK_MASK) >> STEP_RANK_SHIFT > STEP_BY_BACKWARD)
		probes__steps_end_by_range(recording->probes);
}

/* Each control record, name of a range, CONTEXT, STACK, ALLOCATION and SAMPLE as it passes. */
static void on_record(void *ctx, struct perfx_record *record)
{
	struct recording *recording = ctx;
	struct perfx_allocation *allocation = (struct perfx_allocation *)record;
	struct perfx_sample *sample = (struct perfx_sample *)record;

	switch (record->kind) {
	case PERFX_KIND_RECORDING_WINDOW:
		on_recording_window(recording, (const struct perfx_recording_window *)record);
		break;
	case PERFX_KIND_STACK:
		on_stack(recording, (struct perfx_stack *)record);
		break;
	case PERFX_KIND_ALLOCATION:
		on_stack_named(recording, allocation->process, &allocation->stack,
			       allocation->time_ns);
		break;
	case PERFX_KIND_SAMPLE:
		on_stack_named(recording, sample->process, &sample->stack, sample->time_ns);
		break;
	case PERFX_KIND_FUNCTION:
		on_range(recording, (const struct perfx_function *)record);
		break;
	case PERFX_KIND_CONTEXT:
		frames__caller(recording->frames, (struct perfx_context *)record);
		break;
	default:
		follow__record(recording->follow, record);
	}
}

static void on_object(void *ctx, const struct perfx_object_record *record)
{
	const struct recording *recording = ctx;

	operations__on_object(recording->operations, record);
}

static int open_reader(struct recording *recording)
{
	recording->reader =
		reader__new(recording->tracer, recording->sink, on_record, on_object, recording);
	if (!recording->reader)
		return -errno;
	reader__name_steps(recording->reader, recording->options->plan.step_range);
	return 0;
}

static int reader_fd(const struct recording *recording)
{
	return reader__fd(recording->reader);
}

static void drain(struct recording *recording)
{
	reader__drain(recording->reader);
	recording_windows_report(&recording->windows, recording->memory);
}

static void stop_reader(struct recording *recording)
{
	reader__finish(recording->reader);
	recording_windows_report(&recording->windows, recording->memory);
}

static void close_reader(struct recording *recording)
{
	reader__free(recording->reader);
}

const struct recording_part reader_part = {.name = "rings",
					   .open = open_reader,
					   .fd = reader_fd,
					   .on_readable = drain,
					   .stop = stop_reader,
					   .close = close_reader};

static int open_unwind_tables(struct recording *recording)
{
	if (recording->options->stacks != PERFX_STACKS_UNWIND)
		return 0;
	recording->unwind_tables = unwind_tables__new(recording->tracer);
	if (!recording->unwind_tables)
		msg_say("call stacks: by frame pointers alone, so most are short: no unwind "
			"tables: %s",
			strerror(errno));
	return 0;
}

static int unwind_tables_fd(const struct recording *recording)
{
	return recording->unwind_tables ? unwind_tables__fd(recording->unwind_tables) : -1;
}

static void serve_unwind_tables(struct recording *recording)
{
	unwind_tables__serve(recording->unwind_tables);
}

static void end_unwind_tables(struct recording *recording)
{
	say_unwind_tables(recording->unwind_tables);
	lacking_files(recording->unwind_tables, &recording->skipped);
}

static void close_unwind_tables(struct recording *recording)
{
	unwind_tables__free(recording->unwind_tables);
}

const struct recording_part unwind_tables_part = {.name = "unwind tables",
						  .open = open_unwind_tables,
						  .fd = unwind_tables_fd,
						  .on_readable = serve_unwind_tables,
						  .end = end_unwind_tables,
						  .close = close_unwind_tables};
