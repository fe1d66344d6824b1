// SPDX-License-Identifier: BSD-2-Clause
#include "replay/replay.h"

#include "aggregate/aggregate.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "decode/decode.h"
#include "decode/pack.h"
#include "replay/keyframe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* No recorder makes more between two segments: a hostile capture must not fill the memory. */
#define SUMS_BYTES_MAX (64u << 20)

/* Samples of a process. */
struct sampled {
	struct perfx_usage last;
	bool has_last, begun, ended; /* begun, ended: the slice has the sample at that end */
};

struct time_slice {
	time_slice_emit *emit;
	void *ctx;
	struct keyframe *keyframe;
	uint64_t since_after_ns, until_after_ns; /* the start; UINT64_MAX: to the end */
	uint64_t since_ns, until_ns;		 /* CLOCK_MONOTONIC, once HOST has come */
	uint64_t start_ns, seen_ns;		 /* of the capture; the latest time seen */
	bool begun, memory_begun, has_end;
	struct perfx_end end;
	struct sampled *sampled; /* by process */
	size_t sampled_count, sampled_capacity;
	struct text sums;	 /* records since the last segment ended */
	uint64_t segment_ns;	 /* when that was */
	uint64_t left_out_count; /* as in struct perfx_time_slice */
	uint32_t left_out;
	struct pack_buffer buffer;
};

struct time_slice *time_slice__new(uint64_t since_after_ns, uint64_t until_after_ns)
{
	struct time_slice *slice = calloc(1, sizeof(*slice));

	if (!slice)
		return NULL;
	slice->since_after_ns = since_after_ns;
	slice->until_after_ns = until_after_ns;
	slice->keyframe = keyframe__new(0);
	slice->until_ns = UINT64_MAX;
	if (slice->keyframe && slice->since_after_ns < slice->until_after_ns)
		return slice;
	errno = slice->keyframe ? ERANGE : ENOMEM;
	keyframe__free(slice->keyframe);
	free(slice);
	return NULL;
}

void time_slice__free(struct time_slice *slice)
{
	if (!slice)
		return;
	keyframe__free(slice->keyframe);
	free(slice->sampled);
	text_clear(&slice->sums);
	free(slice);
}

void time_slice__to(struct time_slice *slice, time_slice_emit *emit, void *ctx)
{
	slice->emit = emit;
	slice->ctx = ctx;
}

static int emit_event(struct time_slice *slice, const struct event *event)
{
	return slice->emit(slice->ctx, event);
}

static int emit_record(void *ctx, const struct perfx_record *record)
{
	struct event event;

	decode_next(record, record->size, &event);
	return emit_event(ctx, &event);
}

static int begin(struct time_slice *slice)
{
	if (slice->begun)
		return 0;
	slice->begun = true;
	return keyframe__write(slice->keyframe, slice->since_ns, emit_record, slice);
}

static int begin_memory(struct time_slice *slice)
{
	int err = begin(slice);

	if (err || slice->memory_begun)
		return err;
	slice->memory_begun = true;
	return keyframe__write_memory(slice->keyframe, slice->since_ns, emit_record, slice);
}

enum side { BEFORE, WITHIN, AFTER };

static enum side side_of(struct time_slice *slice, uint64_t time_ns)
{
	slice->seen_ns = max_u64(slice->seen_ns, time_ns);
	if (!slice->start_ns || time_ns < slice->since_ns)
		return BEFORE;
	return time_ns < slice->until_ns ? WITHIN : AFTER;
}

/* An event, or a change of memory, at its time. */
static int emit_timed(struct time_slice *slice, const struct event *event, bool is_memory)
{
	enum side side = side_of(slice, event_time_ns(event));
	bool begun = is_memory ? slice->memory_begun : slice->begun;
	int err;

	if (side == AFTER)
		return 0;
	switch (side == BEFORE ? event->kind : PERFX_KIND_INVALID) {
	case PERFX_KIND_SAMPLE:
	case PERFX_KIND_FILE_SAMPLE:
	case PERFX_KIND_THREAD_STATE:
	case PERFX_KIND_WAIT_TARGET:
	case PERFX_KIND_ASYNC_TASK:
	case PERFX_KIND_GPU_ACTIVITY:
	case PERFX_KIND_GPU_USAGE:
	case PERFX_KIND_GPU_MEMORY:
	case PERFX_KIND_HOST_ENERGY:
		return 0; /* over, without effect on the slice */
	default:	  /* late records of the time before still describe processes */
		break;
	}
	if (side == BEFORE && !begun)
		return keyframe__add(slice->keyframe, event);
	err = is_memory ? begin_memory(slice) : begin(slice);
	return err ?: emit_event(slice, event);
}

static uint64_t between(uint64_t a, uint64_t b, uint64_t part, uint64_t whole)
{
	if (a == UINT64_MAX || b == UINT64_MAX || b < a || !whole)
		return a;
	return a + (uint64_t)((unsigned __int128)(b - a) * part / whole);
}

/* Interpolates counters between two samples; other fields are those of the first. */
static struct perfx_usage interpolate(const struct perfx_usage *a, const struct perfx_usage *b,
				      uint64_t time_ns)
{
	uint64_t whole = b->time_ns > a->time_ns ? b->time_ns - a->time_ns : 0;
	uint64_t part = min_u64(time_ns > a->time_ns ? time_ns - a->time_ns : 0, whole);
	struct perfx_usage usage = *a;

	usage.time_ns = time_ns;
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

static int emit_usage(struct time_slice *slice, struct perfx_usage usage, uint64_t time_ns)
{
	usage.time_ns = time_ns;
	return emit_record(slice, PACK(&slice->buffer, PERFX_KIND_USAGE, usage));
}

/* The sample at an end of the slice, from those on both sides of it. */
static int emit_between(struct time_slice *slice, const struct sampled *sampled,
			const struct perfx_usage *next, uint64_t time_ns)
{
	int err = begin(slice);

	return err || !sampled->has_last
		       ? err
		       : emit_usage(slice, interpolate(&sampled->last, next, time_ns), time_ns);
}

static int add_usage(struct time_slice *slice, const struct event *event)
{
	const struct perfx_usage *usage = &event->usage;
	enum side side = side_of(slice, usage->time_ns);
	struct sampled *sampled;
	int err = 0;

	if (usage->process > AGGREGATE_PROCESSES_MAX || (side == BEFORE && slice->begun))
		return 0;
	sampled = GROW_TO(slice->sampled, usage->process);
	if (!sampled)
		return -ENOMEM;
	if (side != BEFORE && !sampled->begun) {
		if (usage->time_ns > slice->since_ns)
			err = emit_between(slice, sampled, usage, slice->since_ns);
		sampled->begun = true;
	}
	if (!err && side == WITHIN)
		err = emit_event(slice, event);
	if (!err && side == AFTER && !sampled->ended) {
		err = emit_between(slice, sampled, usage, slice->until_ns);
		sampled->ended = true;
	}
	sampled->last = *usage;
	sampled->has_last = true;
	return err;
}

/* A sum of a segment. */
static int emit_sum(struct time_slice *slice, const struct event *sum, uint64_t from_ns,
		    uint64_t to_ns)
{
	const struct perfx_overflow_memory *memory = &sum->overflow_memory;
	struct perfx_overflow_memory doubt = {0};

	if (event_is_final_state(sum))
		return to_ns <= slice->until_ns && slice->has_end ? emit_event(slice, sum) : 0;
	if (to_ns <= slice->since_ns)
		return slice->memory_begun ? 0 : keyframe__add(slice->keyframe, sum);
	if (from_ns >= slice->until_ns)
		return 0;
	if (from_ns >= slice->since_ns && to_ns <= slice->until_ns)
		return emit_event(slice, sum);
	/* The slice cuts the sum's segment: its share is not known. */
	slice->left_out |= PERFX_LEFT_OUT(sum->kind);
	if (sum->kind == PERFX_KIND_OVERFLOW_CALLS)
		slice->left_out_count += sum->overflow_calls.calls_count;
	if (sum->kind != PERFX_KIND_OVERFLOW_MEMORY)
		return 0;
	/* allocations or frees were dropped inside or outside of the slice: live bytes are bounds
	 */
	doubt.process = memory->process;
	doubt.domain = memory->domain;
	doubt.before = (uint8_t)((memory->allocs_count ? PERFX_BEFORE_LOST_ALLOCS : 0) |
				 (memory->frees_count ? PERFX_BEFORE_LOST_FREES : 0));
	return emit_record(slice, PACK(&slice->buffer, PERFX_KIND_OVERFLOW_MEMORY, doubt));
}

/* All sums that have come are of calls between two times. */
static int end_segment(struct time_slice *slice, uint64_t from_ns, uint64_t to_ns)
{
	const struct text *sums = &slice->sums;
	struct event event;
	int err = 0;

	if (sums->length && to_ns > slice->since_ns)
		err = begin_memory(slice);
	for (size_t at = 0; at < sums->length && !err;) {
		at += decode_next(sums->data + at, sums->length - at, &event);
		err = emit_sum(slice, &event, from_ns, to_ns);
	}
	slice->sums.length = 0;
	slice->segment_ns = to_ns;
	return err;
}

/* Is it of the state at the start of a capture that is itself a time slice? */
static bool is_of_keyframe(const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_ALLOCATION:
		return event->allocation.flags & PERFX_ALLOCATION_BEFORE;
	case PERFX_KIND_USER_VALUE:
		return event->user_value.flags & PERFX_USER_VALUE_BEFORE;
	case PERFX_KIND_OVERFLOW_MEMORY:
		return event->overflow_memory.before;
	default:
		return false;
	}
}

static int add_of_capture(struct time_slice *slice, const struct event *event)
{
	int err;

	if (event->kind == PERFX_KIND_SEGMENT) {
		uint64_t since_ns = event->segment.since_ns;

		slice->seen_ns = max_u64(slice->seen_ns, event->segment.time_ns);
		err = end_segment(slice, since_ns ? since_ns : slice->segment_ns,
				  event->segment.time_ns);
		return err || slice->begun ? err : keyframe__add(slice->keyframe, event);
	}
	if (event->kind == PERFX_KIND_END) {
		slice->seen_ns = max_u64(slice->seen_ns, event->end.time_ns);
		slice->end = event->end;
		slice->has_end = true;
		return end_segment(slice, slice->segment_ns, event->end.time_ns);
	}
	if (event->kind == PERFX_KIND_HOST) {
		slice->start_ns = slice->segment_ns = event->host.start_ns;
		slice->since_ns = event->host.start_ns + slice->since_after_ns;
		if (slice->until_after_ns < UINT64_MAX - event->host.start_ns)
			slice->until_ns = event->host.start_ns + slice->until_after_ns;
	}
	return keyframe__add(slice->keyframe, event);
}

int time_slice__event(struct time_slice *slice, const struct event *event)
{
	enum perfx_role role = role_of(event->kind);
	bool begun = role == PERFX_ROLE_EVENT ? slice->begun : slice->memory_begun;
	const struct perfx_span *span = &event->span;
	int err = 0;

	if (is_of_keyframe(event) && !begun)
		return keyframe__add(slice->keyframe, event);
	switch (role) {
	case PERFX_ROLE_CALL:
		/* one that was only counted ended when the record before it was made */
		if (side_of(slice, span->start_ns ? span->start_ns + span->duration_ns
						  : slice->seen_ns) != WITHIN)
			return 0;
		return begin(slice) ?: emit_event(slice, event);
	case PERFX_ROLE_EVENT:
	case PERFX_ROLE_STATE:
	case PERFX_ROLE_MEMORY:
		return emit_timed(slice, event, role == PERFX_ROLE_MEMORY);
	case PERFX_ROLE_SAMPLE:
		return add_usage(slice, event);
	case PERFX_ROLE_FACT:
		/* names and the like always hold: a late one may be of something in the slice */
		return slice->begun ? emit_event(slice, event)
				    : keyframe__add(slice->keyframe, event);
	case PERFX_ROLE_SUM:
		if (slice->sums.length > SUMS_BYTES_MAX)
			err = end_segment(slice, slice->segment_ns, slice->seen_ns);
		text_add_bytes(&slice->sums, event->record, event->hdr.size);
		return err ?: slice->sums.failed ? -ENOMEM : 0;
	case PERFX_ROLE_CAPTURE:
		return add_of_capture(slice, event);
	case PERFX_ROLE_NONE:
		break;
	}
	return 0;
}

int time_slice__finish(struct time_slice *slice)
{
	struct perfx_time_slice record = {.recording_ns = slice->start_ns};
	const struct perfx_time_slice *source;
	const char *why = "";
	int err = 0;

	if (slice->start_ns && slice->seen_ns < slice->since_ns)
		return -ERANGE;
	if (!slice->has_end)
		err = end_segment(slice, slice->segment_ns, slice->seen_ns);
	err = err ?: begin_memory(slice);
	/* processes whose last sample was before the slice */
	FOR_EACH (sampled, slice->sampled)
		if (!err && sampled->has_last && !sampled->begun)
			err = emit_usage(slice, sampled->last, slice->since_ns);
	if (err)
		return err;
	source = keyframe__time_slice(slice->keyframe, &why);
	if (source)
		record = *source;
	record.flags |= PERFX_TIME_SLICE_VIEW;
	record.left_out_count += slice->left_out_count;
	record.left_out |= slice->left_out;
	err = emit_record(slice, PACK(&slice->buffer, PERFX_KIND_TIME_SLICE, record, why));
	if (err)
		return err;
	/* a slice that ends before its capture is whole, even where that was cut later */
	if (!slice->has_end || slice->end.time_ns >= slice->until_ns) {
		if (slice->seen_ns < slice->until_ns)
			return 0;
		slice->end = (struct perfx_end){.time_ns = slice->until_ns,
						.tracer_cpu_ns = UINT64_MAX,
						.tracer_rss_anon_bytes = UINT64_MAX,
						.maps_read_count = UINT64_MAX,
						.untraced_read_count = UINT64_MAX};
	}
	return emit_record(slice, PACK(&slice->buffer, PERFX_KIND_END, slice->end));
}
