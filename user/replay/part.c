// SPDX-License-Identifier: BSD-2-Clause
#include "replay/part.h"

#include "aggregate/aggregate.h"
#include "base/grow.h"
#include "decode/decode.h"
#include "decode/pack.h"
#include "replay/past.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More between two segments is not of a recorder's making: memory is not for it to fill. */
#define SUMS_BYTES_MAX (64u << 20)

/* Samples of a process. */
struct sampled {
	struct perfx_usage last;
	bool has_last, begun, ended; /* it has its sample at since, at until */
};

struct part {
	part_emit *emit;
	void *ctx;
	struct past *past;
	uint64_t since_after_ns, until_after_ns; /* the start; UINT64_MAX: to the end */
	uint64_t since_ns, until_ns;		 /* CLOCK_MONOTONIC, once HOST has come */
	uint64_t start_ns, seen_ns;		 /* of the capture; the latest time seen */
	bool begun, memory_begun, has_end;
	struct perfx_end end;
	struct sampled *sampled; /* by process */
	size_t sampled_count, sampled_capacity;
	/* Sums since the last segment ended. */
	char *sums;
	size_t sums_used, sums_capacity;
	uint64_t segment_ns; /* when that was */
	uint64_t left_out_count;
	struct pack_buffer buffer;
};

static uint64_t after_start(const struct part_bound *bound, uint64_t duration_ns)
{
	if (!bound->from_end)
		return bound->ns;
	return bound->ns < duration_ns ? duration_ns - bound->ns : 0;
}

struct part *part__new(const struct part_choice *choice, uint64_t duration_ns)
{
	struct part *part = calloc(1, sizeof(*part));

	if (!part)
		return NULL;
	part->since_after_ns = after_start(&choice->since, duration_ns);
	part->until_after_ns =
		choice->until.given ? after_start(&choice->until, duration_ns) : UINT64_MAX;
	part->past = past__new(0);
	part->until_ns = UINT64_MAX;
	if (part->past && part->since_after_ns < part->until_after_ns)
		return part;
	errno = part->past ? ERANGE : ENOMEM;
	past__free(part->past);
	free(part);
	return NULL;
}

void part__free(struct part *part)
{
	if (!part)
		return;
	past__free(part->past);
	free(part->sampled);
	free(part->sums);
	free(part);
}

void part__to(struct part *part, part_emit *emit, void *ctx)
{
	part->emit = emit;
	part->ctx = ctx;
}

static int emit_event(struct part *part, const struct event *event)
{
	return part->emit(part->ctx, event);
}

static int emit_record(void *ctx, const void *record, size_t size)
{
	struct event event;
	size_t skip;

	if (decode_event(record, size, &event, &skip) < 0)
		return 0;
	return emit_event(ctx, &event);
}

static int emit_packed(struct part *part, const struct perfx_record *packed)
{
	return emit_record(part, packed, packed->size);
}

/* --- where it begins --- */

static int begin(struct part *part)
{
	if (part->begun)
		return 0;
	part->begun = true;
	return past__tell(part->past, part->since_ns, emit_record, part);
}

static int begin_memory(struct part *part)
{
	int err = begin(part);

	if (err || part->memory_begun)
		return err;
	part->memory_begun = true;
	return past__tell_memory(part->past, part->since_ns, emit_record, part);
}

static void take_host(struct part *part, const struct perfx_host *host)
{
	part->start_ns = part->segment_ns = host->start_ns;
	part->since_ns = host->start_ns + part->since_after_ns;
	if (part->until_after_ns < UINT64_MAX - host->start_ns)
		part->until_ns = host->start_ns + part->until_after_ns;
}

static void see(struct part *part, uint64_t time_ns)
{
	if (time_ns > part->seen_ns)
		part->seen_ns = time_ns;
}

/* --- what has a time --- */

enum side { BEFORE, WITHIN, AFTER };

static enum side side_of(struct part *part, uint64_t time_ns)
{
	see(part, time_ns);
	if (!part->start_ns || time_ns < part->since_ns)
		return BEFORE;
	return time_ns < part->until_ns ? WITHIN : AFTER;
}

static int take_span(struct part *part, const struct event *event)
{
	const struct perfx_span *span = &event->span;
	/* counted only: when is known by what came before it */
	uint64_t time_ns = span->start_ns ? span->start_ns + span->duration_ns : part->seen_ns;
	int err;

	if (side_of(part, time_ns) != WITHIN)
		return 0;
	err = begin(part);
	return err ? err : emit_event(part, event);
}

static int take_timed(struct part *part, const struct event *event, uint64_t time_ns)
{
	enum side side = side_of(part, time_ns);
	int err;

	if (side == AFTER)
		return 0;
	if (side == BEFORE && !part->begun)
		return past__add(part->past, event);
	err = begin(part);
	return err ? err : emit_event(part, event);
}

static int take_memory(struct part *part, const struct event *event, uint64_t time_ns)
{
	enum side side = side_of(part, time_ns);
	int err;

	if (side == AFTER)
		return 0;
	if (side == BEFORE && !part->memory_begun)
		return past__add(part->past, event);
	err = begin_memory(part);
	return err ? err : emit_event(part, event);
}

/* Names and the like hold always: what comes later may be of something in the part. */
static int take_fact(struct part *part, const struct event *event)
{
	return part->begun ? emit_event(part, event) : past__add(part->past, event);
}

/* --- samples --- */

static uint64_t between(uint64_t a, uint64_t b, uint64_t part, uint64_t whole)
{
	if (a == UINT64_MAX || b == UINT64_MAX || b < a || !whole)
		return a;
	return a + (uint64_t)((unsigned __int128)(b - a) * part / whole);
}

/* Counters at a time between two samples; what is no counter is as in the first. */
static struct perfx_usage interpolate(const struct perfx_usage *a, const struct perfx_usage *b,
				      uint64_t time_ns)
{
	uint64_t part = time_ns > a->time_ns ? time_ns - a->time_ns : 0;
	uint64_t whole = b->time_ns > a->time_ns ? b->time_ns - a->time_ns : 0;
	struct perfx_usage usage = *a;

	usage.time_ns = time_ns;
	if (part > whole)
		part = whole;
#define COUNTER(field) usage.field = between(a->field, b->field, part, whole)
	COUNTER(cpu_user_ns);
	COUNTER(cpu_system_ns);
	COUNTER(read_bytes);
	COUNTER(write_bytes);
	COUNTER(net_rx_bytes);
	COUNTER(net_tx_bytes);
	COUNTER(major_faults_count);
	COUNTER(throttle_periods_count);
	COUNTER(throttled_count);
	COUNTER(throttled_ns);
	COUNTER(host_busy_ns);
	COUNTER(host_steal_ns);
#undef COUNTER
	return usage;
}

static int emit_usage(struct part *part, struct perfx_usage usage, uint64_t time_ns)
{
	usage.time_ns = time_ns;
	return emit_packed(part, PACK(&part->buffer, PERFX_KIND_USAGE, usage));
}

static struct sampled *sampled_of(struct part *part, uint32_t process)
{
	if (grow_array(&part->sampled, &part->sampled_capacity, (size_t)process + 1,
		       sizeof(*part->sampled)))
		return NULL;
	if (process >= part->sampled_count)
		part->sampled_count = (size_t)process + 1;
	return &part->sampled[process];
}

/* The sample at an end of the part, from those on both sides of it. */
static int emit_between(struct part *part, const struct sampled *sampled,
			const struct perfx_usage *next, uint64_t time_ns)
{
	struct perfx_usage usage;
	int err = begin(part);

	if (err || !sampled->has_last)
		return err;
	usage = interpolate(&sampled->last, next, time_ns);
	return emit_usage(part, usage, time_ns);
}

static int take_usage(struct part *part, const struct event *event)
{
	const struct perfx_usage *usage = &event->usage;
	enum side side = side_of(part, usage->time_ns);
	struct sampled *sampled;
	int err = 0;

	if (usage->process > AGGREGATE_PROCESSES_MAX || (side == BEFORE && part->begun))
		return 0;
	sampled = sampled_of(part, usage->process);
	if (!sampled)
		return -ENOMEM;
	if (side != BEFORE && !sampled->begun) {
		if (usage->time_ns > part->since_ns)
			err = emit_between(part, sampled, usage, part->since_ns);
		sampled->begun = true;
	}
	if (!err && side == WITHIN)
		err = emit_event(part, event);
	if (!err && side == AFTER && !sampled->ended) {
		err = emit_between(part, sampled, usage, part->until_ns);
		sampled->ended = true;
	}
	sampled->last = *usage;
	sampled->has_last = true;
	return err;
}

/* Processes whose last sample was before the part. */
static int emit_rest(struct part *part)
{
	int err = 0;

	for (size_t i = 0; i < part->sampled_count && !err; i++)
		if (part->sampled[i].has_last && !part->sampled[i].begun)
			err = emit_usage(part, part->sampled[i].last, part->since_ns);
	return err;
}

/* --- sums --- */

static int end_segment(struct part *part, uint64_t to_ns);

static int keep_sum(struct part *part, const struct event *event)
{
	size_t size = event->hdr.size;
	int err = 0;

	if (part->sums_used > SUMS_BYTES_MAX)
		err = end_segment(part, part->seen_ns);
	if (err)
		return err;
	if (grow_array(&part->sums, &part->sums_capacity, part->sums_used + size, 1))
		return -ENOMEM;
	memcpy(part->sums + part->sums_used, event->record, size);
	part->sums_used += size;
	return 0;
}

/* These say how things are at the end of a recording: no sums. */
static bool is_level(const struct event *event)
{
	return event->kind == PERFX_KIND_LOSS &&
	       (event->loss.loss == PERFX_LOSS_UNMATCHED_ENTRIES ||
		event->loss.loss == PERFX_LOSS_DETACHED_PROBES);
}

static int take_sum(struct part *part, const struct event *sum, uint64_t to_ns)
{
	bool whole = part->segment_ns >= part->since_ns && to_ns <= part->until_ns;
	bool apart = to_ns <= part->since_ns || part->segment_ns >= part->until_ns;

	if (is_level(sum))
		return to_ns <= part->until_ns && part->has_end ? emit_event(part, sum) : 0;
	if (whole)
		return emit_event(part, sum);
	if (!apart && sum->kind == PERFX_KIND_BOOK)
		part->left_out_count += sum->book.calls_count;
	return 0;
}

/* All since the last segment are of calls up to a time. */
static int end_segment(struct part *part, uint64_t to_ns)
{
	size_t size;
	int err = 0;

	if (part->sums_used && to_ns > part->since_ns)
		err = begin_memory(part);
	for (size_t at = 0; at < part->sums_used && !err; at += size) {
		struct event event;
		size_t skip;

		size = (size_t)decode_event(part->sums + at, part->sums_used - at, &event, &skip);
		err = take_sum(part, &event, to_ns);
	}
	part->sums_used = 0;
	part->segment_ns = to_ns;
	return err;
}

static int take_segment(struct part *part, const struct event *event)
{
	uint64_t time_ns = event->segment.time_ns;
	int err;

	see(part, time_ns);
	err = end_segment(part, time_ns);
	if (err || part->begun)
		return err;
	return past__add(part->past, event);
}

/* --- all of it --- */

int part__event(struct part *part, const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_SPAN:
		return take_span(part, event);
	case PERFX_KIND_ALLOCATION:
		/* what a part of a recording begins with */
		if (event->allocation.flags & PERFX_ALLOCATION_BEFORE && !part->memory_begun)
			return past__add(part->past, event);
		return take_memory(part, event, event->allocation.time_ns);
	case PERFX_KIND_FREE:
		return take_memory(part, event, event->free.time_ns);
	case PERFX_KIND_MEMORY_MODE:
		return take_memory(part, event, event->memory_mode.time_ns);
	case PERFX_KIND_PROCESS:
		return take_timed(part, event, event->process.time_ns);
	case PERFX_KIND_FORK:
		return take_timed(part, event, event->fork.time_ns);
	case PERFX_KIND_EXEC:
		return take_timed(part, event, event->exec.time_ns);
	case PERFX_KIND_EXIT:
		return take_timed(part, event, event->exit.time_ns);
	case PERFX_KIND_THREAD:
		return take_timed(part, event, event->thread.time_ns);
	case PERFX_KIND_VALUE:
		if (event->value.flags & PERFX_VALUE_BEFORE && !part->begun)
			return past__add(part->past, event);
		return take_timed(part, event, event->value.time_ns);
	case PERFX_KIND_WINDOW:
		return take_timed(part, event, event->window.time_ns);
	case PERFX_KIND_LATE:
		return take_timed(part, event, event->late.time_ns);
	case PERFX_KIND_USAGE:
		return take_usage(part, event);
	case PERFX_KIND_MEMORY_BOOK:
		if (event->memory_book.before && !part->memory_begun)
			return past__add(part->past, event);
		return keep_sum(part, event);
	case PERFX_KIND_BOOK:
	case PERFX_KIND_HITS:
	case PERFX_KIND_LOSS:
	case PERFX_KIND_METERED:
	case PERFX_KIND_METERED_PROCESS:
	case PERFX_KIND_VALUE_BOOK:
		return keep_sum(part, event);
	case PERFX_KIND_SEGMENT:
		return take_segment(part, event);
	case PERFX_KIND_HOST:
		take_host(part, &event->host);
		return past__add(part->past, event);
	case PERFX_KIND_PART:
		return past__add(part->past, event);
	case PERFX_KIND_END:
		see(part, event->end.time_ns);
		part->end = event->end;
		part->has_end = true;
		return end_segment(part, event->end.time_ns);
	case PERFX_KIND_STACK:
	case PERFX_KIND_FUNCTION:
	case PERFX_KIND_PROBE:
	case PERFX_KIND_CONTEXT:
	case PERFX_KIND_NOT_ATTACHED:
	case PERFX_KIND_CALIBRATION:
	case PERFX_KIND_ALLOCATOR:
	case PERFX_KIND_FRAME:
	case PERFX_KIND_PEAK:
	case PERFX_KIND_WORK:
	case PERFX_KIND_METER:
	case PERFX_KIND_VALUE_NAME:
		return take_fact(part, event);
	case PERFX_KIND_INVALID:
		break;
	}
	return 0;
}

static int emit_part(struct part *part)
{
	const char *why = "";
	const struct perfx_part *source = past__part(part->past, &why);
	struct perfx_part record = {.recording_ns = part->start_ns};

	if (source)
		record = *source;
	record.flags |= PERFX_PART_VIEW;
	record.left_out_count += part->left_out_count;
	return emit_packed(part, PACK(&part->buffer, PERFX_KIND_PART, record, why));
}

/* A part that ends before the capture is whole, even where that was cut later. */
static int emit_end(struct part *part)
{
	if (part->has_end && part->end.time_ns < part->until_ns)
		return emit_packed(part, PACK(&part->buffer, PERFX_KIND_END, part->end));
	if (part->seen_ns < part->until_ns)
		return 0;
	part->end = (struct perfx_end){.time_ns = part->until_ns,
				       .tracer_cpu_ns = UINT64_MAX,
				       .tracer_rss_anon_bytes = UINT64_MAX,
				       .looks_count = UINT64_MAX,
				       .strangers_read_count = UINT64_MAX};
	return emit_packed(part, PACK(&part->buffer, PERFX_KIND_END, part->end));
}

int part__finish(struct part *part)
{
	int err = 0;

	if (part->start_ns && part->seen_ns < part->since_ns)
		return -ERANGE;
	if (!part->has_end)
		err = end_segment(part, part->seen_ns);
	if (!err)
		err = begin_memory(part);
	if (!err)
		err = emit_rest(part);
	if (!err)
		err = emit_part(part);
	return err ? err : emit_end(part);
}
