// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/gpu.h"

#include "base/hash.h"
#include "base/order.h"

#include <stdlib.h>

/* At most so many of each, 24 MB in all. */
#define SPANS_MAX      (1u << 18)
#define CALLS_MAX      (1u << 17)
#define ACTIVITIES_MAX (1u << 17)
#define SAMPLES_MAX    (1u << 14)

#define LAG_NS	   1000000000ull  /* what is older has come */
#define SETTLE_NS  2000000000ull  /* how often */
#define PAST_NS	   64000000000ull /* as long as there is room */
#define GAP_LEAST  10000	  /* ns: a shorter pause is no idle time to explain */
#define GAP_PROBES 15		  /* moments of a gap at which its thread is examined */
#define STEPS_MAX  4096		  /* spans passed over in search of the one around a moment */

void history_clear(struct gpu_history *history)
{
	free(history->spans);
	free(history->calls);
	free(history->activities);
	free(history->samples);
	*history = (struct gpu_history){0};
}

/* Makes room, by settling when there is none. */
static int settle_when_due(struct aggregate *a, uint64_t time_ns)
{
	struct gpu_history *h = &a->gpu->history;

	h->newest_ns = max_u64(h->newest_ns, time_ns);
	if (!h->settled_ns)
		h->settled_ns = h->newest_ns;
	if (h->newest_ns < h->settled_ns + SETTLE_NS && h->spans_count < SPANS_MAX &&
	    h->calls_count < CALLS_MAX && h->activities_count < ACTIVITIES_MAX)
		return 0;
	return history_settle(a, false);
}

int history_span(struct aggregate *a, const struct perfx_span *span)
{
	struct gpu_history *h = &a->gpu->history;
	uint64_t end_ns = add_capped(span->start_ns, span->duration_ns);
	int err = settle_when_due(a, end_ns);

	if (err || !span->context ||
	    span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED | PERFX_SPAN_ASYNC))
		return err;
	return LIST_ADD(h->spans, (struct past_span){.start_ns = span->start_ns,
						     .end_ns = end_ns,
						     .process = span->process,
						     .tid = span->tid,
						     .context = span->context});
}

int history_sample(struct aggregate *a, const struct perfx_sample *sample)
{
	struct gpu_history *h = &a->gpu->history;

	if (!sample->stack)
		return 0;
	if (h->samples_count == SAMPLES_MAX) {
		h->samples_count /= 2;
		memmove(h->samples, h->samples + h->samples_count,
			h->samples_count * sizeof(*h->samples));
	}
	return LIST_ADD(h->samples, (struct past_sample){.time_ns = sample->time_ns,
							 .process = sample->process,
							 .tid = sample->tid,
							 .stack = sample->stack});
}

int history_call(struct aggregate *a, const struct perfx_gpu_call *call, uint32_t work)
{
	struct gpu_history *h = &a->gpu->history;
	int err = settle_when_due(a, call->end_ns);

	if (err)
		return err;
	return LIST_ADD(h->calls, (struct past_call){.start_ns = call->time_ns,
						     .end_ns = call->end_ns,
						     .call = call->call,
						     .process = call->process,
						     .tid = call->tid,
						     .work = work});
}

int history_activity(struct aggregate *a, const struct perfx_gpu_activity *activity, uint32_t work)
{
	struct gpu_history *h = &a->gpu->history;
	int err = settle_when_due(a, activity->end_ns);

	if (err)
		return err;
	return LIST_ADD(h->activities, (struct past_activity){.start_ns = activity->time_ns,
							      .end_ns = activity->end_ns,
							      .call = activity->call,
							      .process = activity->process,
							      .device = activity->device,
							      .work = work,
							      .op = activity->op});
}

static int compare_threads(uint32_t process_a, uint32_t tid_a, uint32_t process_b, uint32_t tid_b)
{
	return ASCENDING(process_a, process_b) ?: ASCENDING(tid_a, tid_b);
}

/* By thread and end: of nested spans the inner one comes first. */
ORDER(by_end, struct past_span, compare_threads(a->process, a->tid, b->process, b->tid),
      ASCENDING(a->end_ns, b->end_ns), ASCENDING(b->start_ns, a->start_ns))

/* Within both its own span, if that is traced, and those around it. */
static uint64_t moment_of(const struct past_call *call)
{
	return call->start_ns + (call->end_ns - call->start_ns) / 2;
}

ORDER(by_moment, struct past_call, compare_threads(a->process, a->tid, b->process, b->tid),
      ASCENDING(moment_of(a), moment_of(b)))

/*
 * The innermost span around a call is the first one to end of those that have begun before it. So
 * one pass over the ends of a thread's spans, with a stack of the calls before: each span takes
 * those from the top that it contains.
 */
static void place_thread(struct aggregate *a, const struct past_span *spans, size_t spans_count,
			 struct past_call *calls, size_t calls_count, uint32_t *waiting)
{
	uint64_t forgotten_ns = a->gpu->history.forgotten_ns;
	size_t depth = 0, next = 0;

	for (size_t i = 0; i < spans_count; i++) {
		for (; next < calls_count && moment_of(&calls[next]) <= spans[i].end_ns; next++)
			if (!calls[next].placed && moment_of(&calls[next]) >= forgotten_ns)
				waiting[depth++] = (uint32_t)next;
		for (; depth && moment_of(&calls[waiting[depth - 1]]) >= spans[i].start_ns;
		     depth--) {
			struct past_call *call = &calls[waiting[depth - 1]];

			call->placed = true;
			call->context = spans[i].context;
			gpu_caller_add(&a->gpu->works[call->work], call->context, 1,
				       call->end_ns - call->start_ns);
		}
	}
}

static int place_calls(struct aggregate *a)
{
	struct gpu_history *h = &a->gpu->history;
	uint32_t *waiting = malloc((h->calls_count + 1) * sizeof(*waiting));
	size_t span = 0;

	if (!waiting)
		return -ENOMEM;
	SORT_ITEMS(h->spans, h->spans_count, by_end);
	SORT_ITEMS(h->calls, h->calls_count, by_moment);
	for (size_t call = 0, end; call < h->calls_count; call = end) {
		const struct past_call *of = &h->calls[call];
		size_t spans_end;

		for (end = call; end < h->calls_count &&
				 !compare_threads(of->process, of->tid, h->calls[end].process,
						  h->calls[end].tid);)
			end++;
		while (span < h->spans_count &&
		       compare_threads(h->spans[span].process, h->spans[span].tid, of->process,
				       of->tid) < 0)
			span++;
		for (spans_end = span;
		     spans_end < h->spans_count &&
		     !compare_threads(of->process, of->tid, h->spans[spans_end].process,
				      h->spans[spans_end].tid);)
			spans_end++;
		if (spans_end > span)
			place_thread(a, h->spans + span, spans_end - span, h->calls + call,
				     end - call, waiting);
		span = spans_end;
	}
	free(waiting);
	return 0;
}

static uint64_t call_hash(uint32_t process, uint64_t call)
{
	const uint64_t words[] = {process, call};

	return fnv1a(words, sizeof(words));
}

static struct past_call *call_of(struct gpu_history *h, const struct map64 *ids,
				 const struct past_activity *activity)
{
	uint64_t hash = call_hash(activity->process, activity->call);
	struct past_call *call = activity->call ? MAP64_FIND(*ids, hash, h->calls) : NULL;
	bool is_it = call && call->process == activity->process && call->call == activity->call;

	return is_it ? call : NULL;
}

/* Links the activities whose caller is known and drops them. all: counts and drops the others, too.
 */
static int link_activities(struct aggregate *a, const struct map64 *ids, bool all)
{
	struct gpu_history *h = &a->gpu->history;
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < h->activities_count && !err; i++) {
		struct past_activity *activity = &h->activities[i];
		struct past_call *call = call_of(h, ids, activity);

		if (!activity->covered || (activity->call && !all && !(call && call->placed))) {
			h->activities[kept++] = *activity;
			continue;
		}
		if (call)
			call->has_met = true;
		err = gpu_link(a, activity, call);
	}
	h->activities_count = kept;
	return err;
}

/* The context of a thread at a moment, by the sorted spans; 0: in no traced call, as far as is
 * known. */
static uint32_t context_at(const struct gpu_history *h, uint32_t process, uint32_t tid,
			   uint64_t time_ns)
{
	const struct past_span *spans = h->spans;
	size_t first =
		PARTITION_POINT(i, h->spans_count,
				(compare_threads(spans[i].process, spans[i].tid, process, tid)
					 ?: ASCENDING(spans[i].end_ns, time_ns)) < 0);

	for (size_t i = first; i < h->spans_count && i < first + STEPS_MAX; i++) {
		if (spans[i].process != process || spans[i].tid != tid)
			return 0;
		if (spans[i].start_ns <= time_ns)
			return spans[i].context;
	}
	return 0;
}

/* The one that comes most often. */
static uint32_t most_frequent(const uint32_t *values, size_t count)
{
	uint32_t most = 0;
	size_t most_count = 0;

	for (size_t i = 0; i < count; i++) {
		size_t same = 0;

		for (size_t j = 0; j < count; j++)
			same += values[j] == values[i];
		if (same > most_count) {
			most_count = same;
			most = values[i];
		}
	}
	return most;
}

/* Finds what the launching thread did in the gap by its spans and samples. */
static void explain(const struct gpu_history *h, struct gpu_gap *gap)
{
	uint64_t length_ns = gap->to_ns - gap->from_ns;
	uint32_t seen[GAP_PROBES], stacks[64];
	size_t stacks_count = 0;

	for (unsigned i = 0; i < GAP_PROBES; i++) {
		/* n - 1 moments within */
		uint64_t after_ns = (uint64_t)((double)length_ns * (i + 1) / (GAP_PROBES + 1));

		seen[i] = context_at(h, gap->process, gap->tid, gap->from_ns + after_ns);
	}
	gap->context = most_frequent(seen, GAP_PROBES);
	for (size_t i = 0; i < h->samples_count && stacks_count < 64; i++) {
		const struct past_sample *sample = &h->samples[i];

		if (sample->process == gap->process && sample->tid == gap->tid &&
		    sample->time_ns >= gap->from_ns && sample->time_ns < gap->to_ns)
			stacks[stacks_count++] = sample->stack;
	}
	gap->stack = most_frequent(stacks, stacks_count);
}

/* One of the place's longest? */
static void add_gap(struct aggregate *a, struct gpu_place *at, struct gpu_gap gap)
{
	struct gpu_gap *into = at->gaps, *end = at->gaps + at->gaps_count;

	if (gap.to_ns - gap.from_ns < GAP_LEAST)
		return;
	if (at->gaps_count < GPU_GAPS_MAX) {
		into = &at->gaps[at->gaps_count++];
	} else {
		for (struct gpu_gap *each = at->gaps; each < end; each++)
			if (each->to_ns - each->from_ns < into->to_ns - into->from_ns)
				into = each;
		if (into->to_ns - into->from_ns >= gap.to_ns - gap.from_ns)
			return;
	}
	if (gap.tid)
		explain(&a->gpu->history, &gap);
	*into = gap;
}

ORDER(by_start, struct past_activity, ASCENDING(a->start_ns, b->start_ns),
      ASCENDING(a->end_ns, b->end_ns))

/* In order of time, as far as all before a time has come. */
static int cover_until(struct aggregate *a, const struct map64 *ids, uint64_t until_ns)
{
	struct gpu_history *h = &a->gpu->history;
	int err = 0;

	SORT_ITEMS(h->activities, h->activities_count, by_start);
	FOR_EACH (activity, h->activities) {
		const struct past_call *call;
		struct gpu_place *at;

		if (err || activity->covered || activity->start_ns >= until_ns)
			continue;
		call = call_of(h, ids, activity);
		at = gpu_place_find(a->gpu, activity->process, activity->device);
		activity->covered = true;
		if (at->busy.until_ns && activity->start_ns > at->busy.until_ns)
			add_gap(a, at,
				(struct gpu_gap){.from_ns = at->busy.until_ns,
						 .to_ns = activity->start_ns,
						 .process = activity->process,
						 .device = activity->device,
						 .tid = call ? call->tid : 0});
		err = gpu_cover(a, at, activity);
	}
	return err;
}

/* Forgets spans by age, so that at least half of the room is free. */
static void forget_spans(struct gpu_history *h)
{
	uint64_t past_ns = PAST_NS, from_ns;
	size_t kept;

	do {
		from_ns = sub_capped(h->newest_ns, past_ns);
		kept = 0;
		FOR_EACH (span, h->spans)
			kept += span->end_ns >= from_ns;
		past_ns /= 2;
	} while (kept > SPANS_MAX / 2 && past_ns);
	if (kept == h->spans_count)
		return;
	kept = 0;
	FOR_EACH (span, h->spans)
		if (span->end_ns >= from_ns)
			h->spans[kept++] = *span;
	h->spans_count = kept;
	h->forgotten_ns = max_u64(h->forgotten_ns, from_ns);
}

/* Calls that have met their activities go first. */
static void forget_calls(struct gpu_history *h, uint64_t before_ns)
{
	uint64_t past_ns = PAST_NS;
	size_t kept = 0;

	FOR_EACH (call, h->calls)
		if (!call->has_met || !call->placed || call->end_ns >= before_ns)
			h->calls[kept++] = *call;
	h->calls_count = kept;
	for (; h->calls_count > CALLS_MAX / 2 && past_ns; past_ns /= 2) {
		kept = 0;
		FOR_EACH (call, h->calls)
			if (call->end_ns + past_ns >= h->newest_ns)
				h->calls[kept++] = *call;
		h->calls_count = kept;
	}
}

int history_settle(struct aggregate *a, bool all)
{
	struct gpu_history *h = &a->gpu->history;
	uint64_t until_ns = sub_capped(h->newest_ns, LAG_NS);
	bool crowded = h->activities_count >= ACTIVITIES_MAX / 4 * 3;
	struct map64 ids = {0};
	int err = place_calls(a);

	for (size_t i = 0; i < h->calls_count && !err; i++) {
		uint64_t hash = call_hash(h->calls[i].process, h->calls[i].call);

		if (map64_get(&ids, hash) == MAP64_NONE)
			err = map64_put(&ids, hash, (uint32_t)i);
	}

	err = err ?: cover_until(a, &ids, all || crowded ? UINT64_MAX : until_ns);
	err = err ?: link_activities(a, &ids, all || crowded);
	map64_clear(&ids);
	h->settled_ns = h->newest_ns;
	forget_spans(h);
	forget_calls(h, until_ns);
	return err;
}
