// SPDX-License-Identifier: BSD-2-Clause
/* The parts of attach/, as parts of a recording. */
#include "aggregate/steps.h"
#include "attach/links.h"
#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/reader.h"
#include "attach/sampler.h"
#include "attach/thread_counters.h"
#include "attach/tracer.h"
#include "attach/unwind_tables.h"
#include "base/message.h"
#include "base/units.h"
#include "elf/file_cache.h"
#include "session/dump.h"
#include "session/follow.h"
#include "session/frames.h"
#include "session/process_table.h"
#include "session/progress.h"
#include "session/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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
	hit_costs_watch(probes__hit_costs(recording->probes), recording->tracer);
	probes__time_deep_calls_at_exits(recording->probes);
}

VERB(close_probes, probes__free(recording->probes))

const struct recording_part probes_part = {
	.name = "probes", .open = open_probes, .tick = tick_probes, .close = close_probes};

static void count_threads(struct recording *recording)
{
	size_t count;
	const pid_t *pids = process_table__pids(recording->processes, &count);

	thread_counters__scan(recording->thread_counters, recording->tracer, pids, count);
}

VERB(emit_counters,
     perf_counters_emit(recording->thread_counters, recording->sink, recording->plan))

static void begin_thread_counters(struct recording *recording)
{
	count_threads(recording);
	emit_counters(recording);
}

VERB(close_thread_counters, thread_counters__free(recording->thread_counters))

/* Opened before the tracer, which wants to know the counters. */
const struct recording_part thread_counters_part = {.name = "hardware counters",
						    .begin = begin_thread_counters,
						    .tick = count_threads,
						    .end = emit_counters,
						    .close = close_thread_counters};

static int open_memory(struct recording *recording)
{
	struct memory_options options = {.sample_bytes = recording->options->sample_bytes,
					 .all_processes = recording->options->all};

	recording->memory = memory__new(recording->plan, recording->tracer, recording->probes,
					recording->sink, &options);
	return recording->memory ? 0 : -ENOMEM;
}

VERB(begin_memory, memory__start(recording->memory, recording->start_ns))
VERB(close_memory, memory__free(recording->memory))

const struct recording_part memory_part = {
	.name = "memory", .open = open_memory, .begin = begin_memory, .close = close_memory};

static int open_sampler(struct recording *recording)
{
	recording->sampler =
		sampler__new(recording->tracer, recording->sink, recording->options->sample_hz);
	return recording->sampler ? 0 : -ENOMEM;
}

VERB(begin_sampler, sampler__describe(recording->sampler))
VERB(tick_sampler, sampler__tick(recording->sampler))
VERB(stop_sampler, sampler__stop(recording->sampler))
VERB(close_sampler, sampler__free(recording->sampler))

const struct recording_part sampler_part = {.name = "samples",
					    .open = open_sampler,
					    .begin = begin_sampler,
					    .tick = tick_sampler,
					    .stop = stop_sampler,
					    .close = close_sampler};

void skip_rejected_programs(struct recording *recording)
{
	static const char *const names[TRACER_PARTS] = {
		[TRACER_ANNOTATIONS] = "annotated ranges and values",
		[TRACER_MEMORY] = "allocations",
		[TRACER_FILES] = "files",
		[TRACER_FAULTS] = "faults of mapped files",
		[TRACER_SOCKETS] = "network I/O",
		[TRACER_ON_CPU] = "samples of threads that run",
		[TRACER_OFF_CPU] = "samples of threads that wait",
		[TRACER_DUMP] = "states of threads",
		[TRACER_WAITING] = "time off the CPU",
	};

	for (int part = 0; part < TRACER_PARTS; part++) {
		if (!tracer__lacks(recording->tracer, (enum tracer_part)part))
			continue;
		msg_say("%s: not recorded: this kernel rejects the BPF program for it "
			"(PERFX_DEBUG=1 shows why)",
			names[part]);
		skipped_add(&recording->skipped, names[part],
			    "this kernel rejects the BPF program for it");
	}
}

VERB(tick_programs, tracer__renew_room(recording->tracer))
VERB(stop_programs, recording->detached = tracer__stop(recording->tracer, PROBES_KEPT))

/* Processes reported to have used up their share of names. */
enum { NAMES_SAID_MAX = 16 };

static void end_programs(struct recording *recording)
{
	struct perfx_name_share shares[NAMES_SAID_MAX];
	size_t count = tracer__name_shares(recording->tracer, shares, NAMES_SAID_MAX);
	uint64_t left_ns = detaching_left_ns();
	char reason[160];

	if (left_ns > DETACHING_PATIENCE_MS * 1000000ull) {
		snprintf(reason, sizeof(reason),
			 "without effect, for about %s after the recording: this kernel removes "
			 "them one by one",
			 as_ns(left_ns));
		skipped_hint(&recording->skipped, "probes stay in the program", reason);
	}
	for (size_t i = 0; i < count; i++) {
		snprintf(reason, sizeof(reason),
			 "process %u brought %u, all that it may have of %u: its further ones are "
			 "\"(other)\", %" PRIu64 " times",
			 shares[i].tgid, shares[i].count, PERFX_MAX_NAMES - PERFX_NAMES_KEPT,
			 (uint64_t)shares[i].refused);
		skipped_hint(&recording->skipped, "names of ranges and values", reason);
	}
}

/* Loaded before there are parts: a plan without a match, or a kernel that refuses them, ends the
 * recording with a message of its own. */
const struct recording_part programs_part = {
	.name = "BPF programs", .tick = tick_programs, .stop = stop_programs, .end = end_programs};

/* A record of time_ns names a stack. */
static void name_stack(struct recording *recording, uint32_t process, uint32_t *stack,
		       uint64_t time_ns)
{
	follow__read_mappings_until(recording->follow, time_ns);
	frames__name_stack(recording->frames, process, stack, time_ns);
}

/* Each control record, name of a range, CONTEXT, STACK, ALLOCATION, SAMPLE, FILE_SAMPLE and
 * THREAD_STATE as it passes. */
static void on_record(void *ctx, struct perfx_record *record)
{
	struct recording *recording = ctx;
	struct perfx_recording_window *window = (struct perfx_recording_window *)record;
	struct perfx_allocation *allocation = (struct perfx_allocation *)record;
	struct perfx_sample *sample = (struct perfx_sample *)record;
	struct perfx_file_sample *file_sample = (struct perfx_file_sample *)record;
	struct perfx_thread_state *state = (struct perfx_thread_state *)record;
	struct perfx_stack *stack = (struct perfx_stack *)record;
	struct perfx_function *range = (struct perfx_function *)record;
	unsigned class;

	switch (record->kind) {
	case PERFX_KIND_RECORDING_WINDOW:
		recording_turn(recording, window);
		say_turned(window, recording->windows.turns_count);
		break;
	case PERFX_KIND_STACK:
		follow__read_mappings_until(recording->follow, frames__stack_time_ns(stack));
		frames__stack(recording->frames, stack);
		break;
	case PERFX_KIND_ALLOCATION:
		name_stack(recording, allocation->process, &allocation->stack, allocation->time_ns);
		break;
	case PERFX_KIND_SAMPLE:
		name_stack(recording, sample->process, &sample->stack, sample->time_ns);
		dump__on_sample(recording, sample);
		break;
	case PERFX_KIND_FILE_SAMPLE:
		name_stack(recording, file_sample->process, &file_sample->stack,
			   file_sample->time_ns);
		break;
	case PERFX_KIND_THREAD_STATE:
		name_stack(recording, state->process, &state->stack, state->time_ns);
		dump__on_state(recording, state);
		break;
	case PERFX_KIND_FUNCTION:
		class = step_class(range->source, (const char *)range + range->hdr.fixed,
				   range->flags);
		if ((class & STEP_RANK_MASK) >> STEP_RANK_SHIFT > STEP_BY_BACKWARD)
			probes__steps_end_by_range(recording->probes);
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
	operations__on_object(((const struct recording *)ctx)->operations, record);
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
	recording_report_pauses(recording);
}

static void stop_reader(struct recording *recording)
{
	reader__finish(recording->reader);
	recording_report_pauses(recording);
}

VERB(close_reader, reader__free(recording->reader))

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

void say_unwind_tables(const struct recording *recording)
{
	struct unwind_usage usage;

	if (!recording->unwind_tables || !getenv("PERFX_DEBUG"))
		return;
	usage = unwind_tables__usage(recording->unwind_tables);
	msg_say("unwind tables: %zu files, %zu pages of code, %zu KiB, %" PRIu64 " ms of CPU time",
		usage.files, usage.pages, usage.bytes >> 10, usage.cpu_ns / 1000000);
}

static void end_unwind_tables(struct recording *recording)
{
	size_t left_out = recording->unwind_tables
				  ? unwind_tables__usage(recording->unwind_tables).left_out
				  : 0;
	char reason[128];

	say_unwind_tables(recording);
	if (!left_out)
		return;
	snprintf(reason, sizeof(reason),
		 "of %zu files that were mapped after %d others: stacks end at their functions",
		 left_out, FILE_CACHE_FILES_MAX);
	skipped_add(&recording->skipped, "unwind tables", reason);
}

VERB(serve_unwind_tables, unwind_tables__serve(recording->unwind_tables))
VERB(close_unwind_tables, unwind_tables__free(recording->unwind_tables))

const struct recording_part unwind_tables_part = {.name = "unwind tables",
						  .open = open_unwind_tables,
						  .fd = unwind_tables_fd,
						  .on_readable = serve_unwind_tables,
						  .end = end_unwind_tables,
						  .close = close_unwind_tables};
