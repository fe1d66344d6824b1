// SPDX-License-Identifier: BSD-2-Clause
#include "export/timeline.h"

#include "base/grow.h"
#include "base/order.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct interval {
	uint64_t start_ns, end_ns;
};

/* Some that do not overlap, in the order of time. */
struct intervals {
	struct interval *at;
	size_t count, capacity;
};

struct thread {
	struct nesting_thread public;
	struct perfx_span *held;
	size_t held_count, held_capacity;
	struct intervals roots[NESTING_LANES]; /* outermost calls that went out */
};

/* A track of a process. */
struct async_track {
	struct nesting_thread public;
	uint64_t until_ns; /* its last range ends there */
};

struct process {
	struct async_track *asyncs;
	size_t asyncs_count, asyncs_capacity;
};

struct nesting {
	struct nesting_output output;
	struct map64 ids; /* process, tid → threads */
	struct chunks threads;
	struct map64 process_ids; /* process → processes */
	struct process *processes;
	size_t processes_count, processes_capacity;
	/* while a thread's calls go out */
	struct lane {
		uint64_t *ends; /* of calls that are open */
		size_t count, capacity;
		struct intervals roots; /* the outermost ones */
	} lanes[NESTING_LANES];
};

struct nesting *nesting__new(const struct nesting_output *output)
{
	struct nesting *nesting = calloc(1, sizeof(*nesting));

	if (nesting)
		nesting->output = *output;
	return nesting;
}

static struct thread *thread_at(struct nesting *nesting, size_t i)
{
	return chunks_at(&nesting->threads, i, sizeof(struct thread));
}

void nesting__free(struct nesting *nesting)
{
	if (!nesting)
		return;
	for (size_t i = 0; i < nesting->threads.count; i++) {
		struct thread *thread = thread_at(nesting, i);

		free(thread->held);
		for (unsigned k = 0; k < NESTING_LANES; k++)
			free(thread->roots[k].at);
	}
	FOR_EACH (process, nesting->processes)
		free(process->asyncs);
	for (size_t i = 0; i < NESTING_LANES; i++) {
		free(nesting->lanes[i].ends);
		free(nesting->lanes[i].roots.at);
	}
	chunks_clear(&nesting->threads);
	free(nesting->processes);
	map64_clear(&nesting->ids);
	map64_clear(&nesting->process_ids);
	free(nesting);
}

static struct thread *thread_get(struct nesting *nesting, const struct perfx_span *span)
{
	uint64_t key = (uint64_t)span->process << 32 | span->tid;
	uint32_t id = map64_get(&nesting->ids, key);
	struct thread *thread;

	if (id != MAP64_NONE)
		return thread_at(nesting, id);
	thread = chunks_add(&nesting->threads, sizeof(*thread));
	if (!thread || map64_put(&nesting->ids, key, (uint32_t)nesting->threads.count - 1))
		return NULL;
	thread->public.process = span->process;
	thread->public.tid = span->tid;
	return thread;
}

struct nesting_thread *nesting__thread(struct nesting *nesting, const struct perfx_span *span)
{
	struct thread *thread = thread_get(nesting, span);

	return thread ? &thread->public : NULL;
}

static uint64_t end_of(const struct perfx_span *span)
{
	uint64_t end;

	return __builtin_add_overflow(span->start_ns, span->duration_ns, &end) ? UINT64_MAX : end;
}

/* The free track that was used last; with none free a new one, or the one that becomes free first.
 * NULL: memory is out. */
static struct async_track *async_get(struct process *process, const struct perfx_span *span)
{
	const uint64_t start_ns = span->start_ns;
	struct async_track *best = NULL;

	for (size_t i = 0; i < process->asyncs_count; i++) {
		struct async_track *async = &process->asyncs[i];
		bool is_free = best && best->until_ns <= start_ns;

		if (!best ||
		    (is_free ? async->until_ns <= start_ns && async->until_ns > best->until_ns
			     : async->until_ns < best->until_ns))
			best = async;
	}
	if (best && (best->until_ns <= start_ns || process->asyncs_count == NESTING_ASYNC))
		return best;
	if (GROW_BY_ONE(process->asyncs))
		return NULL;
	best = &process->asyncs[process->asyncs_count++];
	best->public = (struct nesting_thread){.process = span->process,
					       .async = (unsigned)process->asyncs_count};
	return best;
}

static int put_async(struct nesting *nesting, const struct perfx_span *span)
{
	struct process *process =
		MAP64_ITEM(nesting->process_ids, span->process, nesting->processes);
	struct async_track *async = process ? async_get(process, span) : NULL;
	const struct nesting_output *output = &nesting->output;
	struct perfx_span cut = *span;
	uint64_t end_ns = end_of(span);
	int err;

	if (!async)
		return -ENOMEM;
	cut.start_ns = max_u64(cut.start_ns, async->until_ns);
	end_ns = max_u64(end_ns, cut.start_ns);
	cut.duration_ns = end_ns - cut.start_ns;
	async->until_ns = end_ns;
	err = output->begin(output->ctx, &async->public, 0, &cut);
	if (!err && output->end)
		err = output->end(output->ctx, &async->public, 0, end_ns);
	return err;
}

/* Are all roots that overlap it inside it? One with the same begin would be taken for its parent.
 */
static bool encloses(const struct intervals *roots, uint64_t start_ns, uint64_t end_ns)
{
	for (size_t i = roots->count; i-- > 0 && roots->at[i].end_ns > start_ns;) {
		const struct interval *root = &roots->at[i];

		if (root->start_ns < end_ns &&
		    (root->start_ns <= start_ns || root->end_ns > end_ns))
			return false;
	}
	return true;
}

/* Adds one that overlaps none but those inside it, which it replaces. */
static int add_interval(struct intervals *into, struct interval interval)
{
	size_t from = into->count, to;

	while (from && into->at[from - 1].end_ns > interval.start_ns)
		from--;
	for (to = from; to < into->count && into->at[to].start_ns < interval.end_ns;)
		to++;
	if (from == to && grow_array(&into->at, &into->capacity, into->count + 1, sizeof(interval)))
		return -ENOMEM;
	memmove(into->at + from + 1, into->at + to, (into->count - to) * sizeof(interval));
	into->at[from] = interval;
	into->count = into->count - (to - from) + 1;
	return 0;
}

/* Adds the roots of a batch and forgets the oldest ones. */
static int add_roots(struct intervals *into, struct intervals *batch)
{
	int err = 0;

	for (size_t i = 0; i < batch->count && !err; i++)
		err = add_interval(into, batch->at[i]);
	batch->count = 0;
	if (into->count > 2 * NESTING_ROOTS) {
		memmove(into->at, into->at + into->count - NESTING_ROOTS,
			NESTING_ROOTS * sizeof(*into->at));
		into->count = NESTING_ROOTS;
	}
	return err;
}

/* Callers first: earlier, longer, outer. */
ORDER(by_begin, struct perfx_span, ASCENDING(a->start_ns, b->start_ns),
      DESCENDING(end_of(a), end_of(b)), ASCENDING(a->depth, b->depth))

/* Ends the open calls that end by now. */
static int lane_close(struct nesting *nesting, struct thread *thread, unsigned i, uint64_t now_ns)
{
	struct lane *lane = &nesting->lanes[i];
	int err = 0;

	while (lane->count && lane->ends[lane->count - 1] <= now_ns && !err) {
		uint64_t end_ns = lane->ends[--lane->count];

		if (nesting->output.end)
			err = nesting->output.end(nesting->output.ctx, &thread->public, i, end_ns);
	}
	return err;
}

static int lane_open(struct nesting *nesting, struct thread *thread, unsigned i,
		     const struct perfx_span *span, uint64_t end_ns)
{
	struct lane *lane = &nesting->lanes[i];

	if (grow_array(&lane->ends, &lane->capacity, lane->count + 1, sizeof(*lane->ends)))
		return -ENOMEM;
	if (!lane->count && add_interval(&lane->roots, (struct interval){span->start_ns, end_ns}))
		return -ENOMEM;
	lane->ends[lane->count++] = end_ns;
	return nesting->output.begin(nesting->output.ctx, &thread->public, i, span);
}

/* Into the first lane where it nests. */
static int add_to_lane(struct nesting *nesting, struct thread *thread,
		       const struct perfx_span *span)
{
	uint64_t end_ns = end_of(span);

	for (unsigned i = 0; i < NESTING_LANES; i++) {
		struct lane *lane = &nesting->lanes[i];
		uint64_t last;
		int err = lane_close(nesting, thread, i, span->start_ns);

		if (err)
			return err;
		last = lane->count ? lane->ends[lane->count - 1] : UINT64_MAX;
		if (last >= end_ns && encloses(&thread->roots[i], span->start_ns, end_ns))
			return lane_open(nesting, thread, i, span, end_ns);
	}
	return put_async(nesting, span);
}

static int thread_flush(struct nesting *nesting, struct thread *thread)
{
	int err = 0;

	SORT_ITEMS(thread->held, thread->held_count, by_begin);
	for (size_t i = 0; i < thread->held_count && !err; i++)
		err = add_to_lane(nesting, thread, &thread->held[i]);
	for (unsigned i = 0; i < NESTING_LANES; i++) {
		err = err ?: lane_close(nesting, thread, i, UINT64_MAX);
		nesting->lanes[i].count = 0;
		err = err ?: add_roots(&thread->roots[i], &nesting->lanes[i].roots);
	}
	thread->held_count = 0;
	return err;
}

int nesting__add(struct nesting *nesting, const struct perfx_span *span)
{
	struct thread *thread;

	if (span->flags & PERFX_SPAN_ASYNC)
		return put_async(nesting, span);
	thread = thread_get(nesting, span);
	if (!thread || GROW_BY_ONE(thread->held))
		return -ENOMEM;
	thread->held[thread->held_count++] = *span;
	if (span->depth && thread->held_count < NESTING_HELD)
		return 0;
	return thread_flush(nesting, thread);
}

int nesting__flush(struct nesting *nesting)
{
	int err = 0;

	for (size_t i = 0; i < nesting->threads.count && !err; i++)
		err = thread_flush(nesting, thread_at(nesting, i));
	return err;
}

struct export_steps {
	const struct profile *profile;
	bool *ends; /* by function: of some process */
	struct {
		uint64_t count, last_ns;
	} * processes; /* by place */
};

struct export_steps *export_steps__new(const struct profile *profile)
{
	struct export_steps *steps = calloc(1, sizeof(*steps));

	if (!steps)
		return NULL;
	steps->profile = profile;
	steps->ends = calloc(profile->functions_count + 1, sizeof(*steps->ends));
	steps->processes = calloc(profile->processes_count + 1, sizeof(*steps->processes));
	if (!steps->ends || !steps->processes) {
		export_steps__free(steps);
		return NULL;
	}
	FOR_EACH (process, profile->processes)
		if (process->steps.count && profile_function(profile, process->steps.function))
			steps->ends[process->steps.function] = true;
	return steps;
}

void export_steps__free(struct export_steps *steps)
{
	if (!steps)
		return;
	free(steps->ends);
	free(steps->processes);
	free(steps);
}

/* Is it a call that ends a step of the process? */
static bool is_of(const struct profile_process *process, const struct perfx_span *span)
{
	const struct profile_steps *steps = &process->steps;

	return process->index == span->process && steps->count &&
	       steps->function == span->function && steps->tid == span->tid &&
	       (!steps->context || steps->context == span->context);
}

bool export_steps__ends(struct export_steps *steps, const struct perfx_span *span,
			struct export_step *step)
{
	const struct profile *profile = steps->profile;
	uint64_t end_ns = span->start_ns + span->duration_ns;
	size_t i = 0;

	if (span->function > profile->functions_count || !steps->ends[span->function] ||
	    (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED)) || end_ns < span->start_ns)
		return false;
	while (i < profile->processes_count && !is_of(&profile->processes[i], span))
		i++;
	/* the first end belongs to a step whose begin was not seen */
	if (i == profile->processes_count || end_ns <= profile->processes[i].steps.series->from_ns)
		return false;
	step->place = i;
	step->from_ns = steps->processes[i].count ? steps->processes[i].last_ns
						  : profile->processes[i].steps.series->from_ns;
	step->to_ns = max_u64(end_ns, step->from_ns);
	step->number = ++steps->processes[i].count;
	steps->processes[i].last_ns = step->to_ns;
	return true;
}

int value_tracks_make(struct value_tracks *tracks, const struct profile *profile)
{
	size_t count = 0;

	for (size_t i = 0; i < profile->processes_count; i++)
		count += profile->processes[i].values_count;
	tracks->tracks = calloc(count + 1, sizeof(*tracks->tracks));
	if (!tracks->tracks)
		return -ENOMEM;
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		for (size_t j = 0; j < process->values_count; j++) {
			uint64_t key = (uint64_t)process->index << 32 | process->values[j].id;

			if (map64_put(&tracks->ids, key, (uint32_t)tracks->count))
				return -ENOMEM;
			tracks->tracks[tracks->count++] =
				(struct value_track){.process = i, .value = &process->values[j]};
		}
	}
	return 0;
}

void value_tracks_clear(struct value_tracks *tracks)
{
	map64_clear(&tracks->ids);
	free(tracks->tracks);
	*tracks = (struct value_tracks){0};
}

struct value_track *value_tracks_follow(struct value_tracks *tracks,
					const struct perfx_user_value *record)
{
	struct value_track *track =
		MAP64_FIND(tracks->ids, MAP64_PAIR(record->process, record->value), tracks->tracks);
	double number;

	if (!track)
		return NULL;
	memcpy(&number, &record->number_bits, sizeof(number));
	if (!(record->flags & PERFX_USER_VALUE_ADDED))
		track->now = number;
	else if (isfinite(number))
		track->now += number;
	return isfinite(track->now) ? track : NULL;
}

uint32_t gpu_tracks_ordinal(struct gpu_tracks *tracks, uint32_t process)
{
	uint32_t ordinal = map64_get(&tracks->ordinals, process);

	if (ordinal != MAP64_NONE)
		return ordinal;
	ordinal = (uint32_t)tracks->ordinals.count;
	return map64_put(&tracks->ordinals, process, ordinal) ? MAP64_NONE : ordinal;
}

struct gpu_track *gpu_tracks_get(struct gpu_tracks *tracks,
				 const struct perfx_gpu_activity *activity)
{
	/* aggregate and decode keep process indices and devices small */
	uint64_t key = (uint64_t)activity->process << 38 | (uint64_t)activity->device << 32 |
		       activity->stream;
	struct gpu_track *track = MAP64_FIND_OF(tracks, key);
	uint32_t ordinal;

	if (track)
		return track;
	ordinal = gpu_tracks_ordinal(tracks, activity->process);
	track = ordinal == MAP64_NONE ? NULL : MAP64_ITEM_OF(tracks, key);
	if (track)
		*track = (struct gpu_track){.process = activity->process,
					    .device = activity->device,
					    .stream = activity->stream,
					    .ordinal = ordinal};
	return track;
}

void gpu_tracks_clear(struct gpu_tracks *tracks)
{
	map64_clear(&tracks->ids);
	map64_clear(&tracks->ordinals);
	free(tracks->list);
}

const char *gpu_name_of(const struct profile *profile, uint32_t name)
{
	const char *text = name < profile->gpu_names_count ? profile->gpu_names[name].name : NULL;

	return text && *text ? text : "?";
}

static void copy_name(struct text *into, const struct perfx_gpu_activity *activity)
{
	static const char *const hosts[] = {[PERFX_GPU_HOST_MEMORY_PAGEABLE] = "Pageable",
					    [PERFX_GPU_HOST_MEMORY_PINNED] = "Pinned",
					    [PERFX_GPU_HOST_MEMORY_MANAGED] = "Managed"};
	static const struct {
		const char *name;
		bool from_host, to_host;
	} directions[] = {[PERFX_GPU_HOST_TO_DEVICE] = {"HtoD", true, false},
			  [PERFX_GPU_DEVICE_TO_HOST] = {"DtoH", false, true},
			  [PERFX_GPU_DEVICE_TO_DEVICE] = {"DtoD", false, false},
			  [PERFX_GPU_HOST_TO_HOST] = {"HtoH", true, true},
			  [PERFX_GPU_PEER] = {"PtoP", false, false}};
	const size_t direction = activity->direction, memory = activity->host_memory;
	const char *host = memory < COUNT(hosts) && hosts[memory] ? hosts[memory] : "Unknown";

	if (direction >= COUNT(directions) || !directions[direction].name)
		text_add(into, "Memcpy Unknown");
	else
		text_printf(into, "Memcpy %s (%s -> %s)", directions[direction].name,
			    directions[direction].from_host ? host : "Device",
			    directions[direction].to_host ? host : "Device");
}

void gpu_activity_name(struct text *into, const struct profile *profile,
		       const struct perfx_gpu_activity *activity)
{
	if (activity->op == PERFX_GPU_OP_COPY)
		copy_name(into, activity);
	else if (activity->op == PERFX_GPU_OP_MEMSET)
		text_add(into, "Memset (Device)");
	else if (activity->op == PERFX_GPU_OP_GRAPH && !activity->name)
		text_printf(into, "CUDA graph %u", activity->graph);
	else
		text_add(into, gpu_name_of(profile, activity->name));
}

const char *gpu_activity_category(const struct perfx_gpu_activity *activity)
{
	static const char *const categories[] = {[PERFX_GPU_OP_KERNEL] = "kernel",
						 [PERFX_GPU_OP_GRAPH] = "kernel",
						 [PERFX_GPU_OP_COPY] = "gpu_memcpy",
						 [PERFX_GPU_OP_MEMSET] = "gpu_memset"};

	return activity->op < COUNT(categories) ? categories[activity->op] : NULL;
}
