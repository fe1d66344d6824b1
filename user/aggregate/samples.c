// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/calls.h"
#include "aggregate/gpu.h"
#include "base/hash.h"
#include "base/order.h"

#include <stdlib.h>

/* Running, or waiting for something. No padding: compared and hashed as bytes. */
struct activity_key {
	uint64_t object;
	uint32_t process, tid, context, stack, holder_tid;
	uint16_t syscall;
	uint8_t state, reason;
};
_Static_assert(sizeof(struct activity_key) == 32, "hashed as bytes");

struct activity {
	struct activity_key key;
	uint64_t count, ns, max_ns;
	uint32_t waker_tid; /* FUTEX: of the part that took longest; 0: unknown */
	uint64_t waker_ns;  /* of that part */
};

/* One row for each key. */
struct activities {
	struct map64 ids; /* hash → list[]; of one that is taken, the next key */
	struct activity *list;
	size_t capacity, count;
};

struct wait_object {
	uint64_t object;
	uint32_t process;
	enum perfx_wait_reason reason;
	enum perfx_object_kind kind;
	const char *name;
};

/* When a sample was taken. The last ones are kept to explain slow steps: 16 bytes each. */
#define SAMPLE_TIMES_MAX (1u << 18)

struct sample_time {
	uint64_t time_ns;
	uint32_t interval_us;
	uint32_t activity; /* sampled.list[] */
};

struct sample_times {
	struct sample_time *list;
	size_t count, capacity;
	bool cut; /* older ones are gone */
};

/* Samples of all threads of a process on CPUs while the calls of a row ran: they tell how parallel
 * the function is. Only functions that a single thread calls have them, as overlapping calls would
 * count a sample twice. */
struct row_samples {
	uint32_t tid; /* of the calls */
	uint64_t wall_ns;
	struct map64 ids; /* activity → list[] */
	struct row_sample *list;
	size_t count, capacity;
};

struct samples {
	struct activities sampled, blocked;
	struct row_samples *rows; /* by row */
	size_t rows_count, rows_capacity;
	struct sample_times times;
	struct map64 object_ids; /* hash → objects[] */
	struct wait_object *objects;
	size_t objects_capacity, objects_count;
	bool has_sampling;
	struct perfx_sampling sampling; /* the last */
	const char *sampling_why;
};

struct row_sample {
	uint32_t activity; /* samples.sampled.list[] */
	uint64_t ns, count;
};

static struct activity *activity_find(const struct activities *activities,
				      const struct activity_key *key, uint64_t *hash)
{
	uint32_t at;

	for (*hash = fnv1a(key, sizeof(*key));
	     (at = map64_get(&activities->ids, *hash)) != MAP64_NONE; ++*hash)
		if (!memcmp(&activities->list[at].key, key, sizeof(*key)))
			return &activities->list[at];
	return NULL;
}

/* NULL with errno: ENOSPC (AGGREGATE_ACTIVITIES_MAX), ENOMEM. */
static struct activity *activity_get(struct activities *activities, const struct activity_key *key)
{
	uint64_t hash;
	struct activity *activity = activity_find(activities, key, &hash);

	if (activity)
		return activity;
	errno = ENOSPC;
	if (activities->count >= AGGREGATE_ACTIVITIES_MAX)
		return NULL;
	activity = MAP64_ITEM_OF(activities, hash);
	if (activity)
		activity->key = *key;
	return activity;
}

/* Where there is no more room, a row without stack and object. *at: its place in the list, of one
 * that has none MAP64_NONE. */
static int activity_add(struct aggregate *a, struct activities *activities,
			struct activity_key *key, const struct activity *more, uint32_t *at)
{
	struct activity *activity = activity_get(activities, key);
	uint64_t hash, max_ns = more->max_ns;

	*at = MAP64_NONE;
	if (!activity && errno == ENOSPC) {
		key->stack = key->context = 0;
		key->object = 0;
		activity = activity_find(activities, key, &hash);
		if (!activity)
			return undecoded(a);
	}
	if (!activity)
		return -ENOMEM;
	add_up(&activity->count, more->count);
	add_up(&activity->ns, more->ns);
	/* A wait that began before a time slice counts from where that begins. One for a CPU has
	 * parts of other pids. */
	if (key->reason != PERFX_WAIT_RUNNABLE)
		max_ns = min_u64(max_ns, activity->ns);
	activity->max_ns = max_u64(activity->max_ns, max_ns);
	if (more->waker_tid && more->ns >= activity->waker_ns) {
		activity->waker_tid = more->waker_tid;
		activity->waker_ns = more->ns;
	}
	*at = (uint32_t)(activity - activities->list);
	return 0;
}

/* The older half goes where there is no more room. */
static int sample_times_add(struct sample_times *times, const struct perfx_sample *record,
			    uint32_t activity)
{
	uint64_t us = record->interval_ns / 1000;

	if (times->count == SAMPLE_TIMES_MAX) {
		LIST_DROP_FROM(times, SAMPLE_TIMES_MAX / 2);
		times->cut = true;
	}
	return LIST_ADD_TO(times, (struct sample_time){
					  .time_ns = record->time_ns,
					  .interval_us = (uint32_t)min_u64(us, UINT32_MAX),
					  .activity = activity,
				  });
}

/* The context of a sample without the calls whose end would not have been seen: those that were
 * open when the overhead budget removed their probes. */
static uint32_t context_known(const struct aggregate *a, const struct perfx_sample *sample)
{
	uint32_t id = sample->context;

	while (id && id < a->calls->contexts_count) {
		const struct context *context = &a->calls->contexts[id];
		uint64_t until_ns = calls_seen_until(a, sample->process, context->function, NULL);

		if (!until_ns || sample->time_ns < until_ns)
			break;
		id = context->parent;
	}
	return id;
}

static int handle_sample(struct aggregate *a, const struct event *event)
{
	const struct perfx_sample *record = &event->sample;
	struct activity_key key = {.object = record->object,
				   .process = record->process,
				   .tid = record->tid,
				   .context = context_known(a, record),
				   .stack = record->stack,
				   .holder_tid = record->holder_tid,
				   .syscall = record->syscall,
				   .state = record->state,
				   .reason = record->reason};
	/* one without time shows only where the thread was */
	const struct activity more = {.count = record->interval_ns > 0, .ns = record->interval_ns};
	uint32_t at;

	if (!process_get(a, record->process))
		return rejected(a);
	saw_time(a, record->time_ns);
	if (activity_add(a, &a->samples->sampled, &key, &more, &at) ||
	    (at != MAP64_NONE && sample_times_add(&a->samples->times, record, at)))
		return -ENOMEM;
	return gpu_sample(a, record);
}

static int handle_blocked(struct aggregate *a, const struct event *event)
{
	const struct perfx_blocked *record = &event->blocked;
	/* the waking thread may change from segment to segment: the wait remains the same */
	bool is_lock = record->reason == PERFX_WAIT_FUTEX;
	struct activity_key key = {.object = record->object,
				   .process = record->process,
				   .tid = record->tid,
				   .holder_tid = is_lock ? 0 : record->holder_tid,
				   .syscall = record->syscall,
				   .reason = record->reason};
	const struct activity more = {.count = record->count,
				      .ns = record->blocked_ns,
				      .max_ns = record->max_ns,
				      .waker_tid = is_lock ? record->holder_tid : 0};
	uint32_t at;

	if (!process_get(a, record->process))
		return rejected(a);
	return activity_add(a, &a->samples->blocked, &key, &more, &at);
}

static struct wait_object *object_find(const struct samples *samples, uint32_t process,
				       enum perfx_wait_reason reason, uint64_t object,
				       uint64_t *hash)
{
	const uint64_t words[] = {process, (uint64_t)reason, object};

	for (*hash = fnv1a(words, sizeof(words));; ++*hash) {
		uint32_t at = map64_get(&samples->object_ids, *hash);
		struct wait_object *found = at == MAP64_NONE ? NULL : &samples->objects[at];

		if (!found || (found->process == process && found->reason == reason &&
			       found->object == object))
			return found;
	}
}

static int handle_wait_object(struct aggregate *a, const struct event *event)
{
	const struct perfx_wait_object *record = &event->wait_object;
	struct samples *samples = a->samples;
	uint64_t hash;
	struct wait_object *object =
		object_find(samples, record->process, record->reason, record->object, &hash);

	if (!object) {
		if (samples->objects_count >= AGGREGATE_ACTIVITIES_MAX)
			return undecoded(a);
		object = MAP64_ITEM(samples->object_ids, hash, samples->objects);
		if (!object)
			return -ENOMEM;
		*object = (struct wait_object){.object = record->object,
					       .process = record->process,
					       .reason = record->reason};
	}
	object->kind = (enum perfx_object_kind)record->kind;
	object->name = intern(a, event->strings[0]);
	return object->name ? 0 : -ENOMEM;
}

static int handle_sampling(struct aggregate *a, const struct event *event)
{
	a->samples->sampling = event->sampling;
	a->samples->has_sampling = true;
	a->samples->sampling_why = intern(a, event->strings[0]);
	return a->samples->sampling_why ? 0 : -ENOMEM;
}

int samples_span(struct aggregate *a, const struct row *row, const struct perfx_span *span)
{
	const struct sample_times *times = &a->samples->times;
	struct row_samples *samples;

	if (!times->count || row->threads_count > 1 || span->flags & PERFX_SPAN_ASYNC)
		return 0;
	samples = GROW_TO(a->samples->rows, row->index);
	if (!samples)
		return -ENOMEM;
	samples->tid = span->tid;
	add_up(&samples->wall_ns, span->duration_ns);
	for (size_t i = times->count; i > 0 && times->list[i - 1].time_ns >= span->start_ns; i--) {
		const struct sample_time *time = &times->list[i - 1];
		const struct activity_key *key = &a->samples->sampled.list[time->activity].key;
		struct row_sample *sample;

		if (key->process != span->process || key->state != PERFX_SAMPLE_ON_CPU ||
		    time->time_ns >= span->start_ns + span->duration_ns)
			continue;
		sample = MAP64_ITEM_OF(samples, time->activity);
		if (!sample)
			return -ENOMEM;
		sample->activity = time->activity;
		sample->ns += (uint64_t)time->interval_us * 1000;
		sample->count++;
	}
	return 0;
}

void samples_on_cpu(const struct aggregate *a, uint64_t from_ns, uint64_t to_ns,
		    void (*visit)(void *ctx, uint32_t process, uint32_t tid, uint32_t stack),
		    void *ctx)
{
	FOR_EACH_OF (time, a->samples->times) {
		const struct activity_key *key = &a->samples->sampled.list[time->activity].key;

		if (time->time_ns >= from_ns && time->time_ns < to_ns &&
		    key->state == PERFX_SAMPLE_ON_CPU)
			visit(ctx, key->process, key->tid, key->stack);
	}
}

/* When stacks are filled. */
static struct profile_activity samples_describe(const struct finish_ctx *ctx,
						const struct activity *activity)
{
	static const struct wait_object unknown = {.name = ""};
	const struct activity_key *key = &activity->key;
	const struct wait_object *object = NULL;
	uint64_t hash;

	if (key->object)
		object =
			object_find(ctx->a->samples, key->process, key->reason, key->object, &hash);
	object = object ?: &unknown;
	return (struct profile_activity){
		.tid = key->tid,
		.context = key->context,
		.stack = stack_of(ctx, key->process, key->stack),
		.state = key->state,
		.reason = key->reason,
		.syscall = key->syscall,
		.holder_tid = key->holder_tid ?: activity->waker_tid,
		.object = key->object,
		.object_kind = object->kind,
		.object_name = object->name,
		.count = activity->count,
		.ns = activity->ns,
		.max_ns = activity->max_ns,
	};
}

ORDER(by_ns, struct profile_activity, DESCENDING(a->ns, b->ns), ASCENDING(a->tid, b->tid),
      ASCENDING(a->reason, b->reason), ASCENDING(a->object, b->object),
      ASCENDING(a->stack, b->stack))

/* When the first step began, where the process made none before, and the last one ended, where
 * it has ended. */
static struct profile_interval time_of_steps(const struct profile *profile,
					     const struct profile_process *process)
{
	const struct profile_steps *steps = &process->steps;
	struct profile_interval time = {process->from_ns, process->to_ns};
	/* no step ran before: it began in the recording, or loaded what its steps call */
	bool started_here = process->launched || process->sets_up ||
			    (!process->merged && profile->start_boot_ns &&
			     process->start_boot_ns > profile->start_boot_ns);

	if (!steps->count || !steps->series_count)
		return time;
	if (started_here)
		time.from_ns =
			max_u64(time.from_ns, min_u64(steps->series[0].from_ns, steps->first_ns));
	if (process->exited)
		time.to_ns = min_u64(time.to_ns, steps->series[steps->series_count - 1].to_ns);
	return time;
}

struct outside {
	uint64_t count, ns;
};

/* The share of a wait that was outside of the steps, by its samples. A thread that waits for a CPU
 * is not always sampled; that wait, and one without samples, is taken to be as long in any part of
 * the recording. */
static double share_outside(const struct profile *profile, const struct profile_process *process,
			    const struct profile_activity *wait)
{
	uint64_t all_ns = 0, outside_ns = 0;

	FOR_EACH_OF (sample, process->samples) {
		if (sample->tid != wait->tid || sample->reason != wait->reason ||
		    sample->syscall != wait->syscall ||
		    (sample->object && sample->object != wait->object))
			continue;
		add_up(&all_ns, sample->ns);
		add_up(&outside_ns, sample->outside_ns);
	}
	if (!all_ns || wait->reason == PERFX_WAIT_RUNNABLE)
		return (double)process->steps.outside_ns /
		       (double)profile_recorded_ns(profile, process);
	return (double)outside_ns / (double)all_ns;
}

static void divide_waits(const struct profile *profile, struct profile_process *process)
{
	uint64_t inside_max_ns = profile_recorded_ns(profile, process) - process->steps.outside_ns;

	for (size_t i = 0; i < process->blocked.count && process->steps.outside_ns; i++) {
		struct profile_activity *wait = &process->blocked.list[i];
		double share;

		if (wait->tid != process->steps.tid)
			continue;
		share = share_outside(profile, process, wait);
		wait->outside_ns = (uint64_t)((double)wait->ns * share);
		/* few samples give a rough share: a thread waits no longer than there is time */
		if (wait->ns - wait->outside_ns > inside_max_ns)
			wait->outside_ns = wait->ns - inside_max_ns;
		wait->outside_count = (uint64_t)((double)wait->count * share);
	}
}

static struct profile_activities *activities_of(struct profile_process *process, bool is_blocked)
{
	return is_blocked ? &process->blocked : &process->samples;
}

/* The rows of one process are counted, then made, then sorted. outside: of each; NULL: of none. */
static int fill_activities(struct finish_ctx *ctx, bool is_blocked, const struct outside *outside)
{
	const struct samples *samples = ctx->a->samples;
	const struct activities *activities = is_blocked ? &samples->blocked : &samples->sampled;
	struct profile *profile = ctx->profile;

	FOR_EACH_OF (activity, *activities) {
		struct profile_process *process = process_at(ctx, activity->key.process);

		if (process && (is_blocked || activity->count))
			activities_of(process, is_blocked)->count++;
	}
	FOR_EACH (process, profile->processes) {
		struct profile_activities *to = activities_of(process, is_blocked);

		to->list = calloc(to->count + 1, sizeof(*to->list));
		if (!to->list)
			return -ENOMEM;
		to->count = 0;
	}
	for (size_t i = 0; i < activities->count; i++) {
		struct profile_process *process = process_at(ctx, activities->list[i].key.process);
		struct profile_activities *to;
		struct profile_activity *row;

		if (!process || (!is_blocked && !activities->list[i].count))
			continue;
		to = activities_of(process, is_blocked);
		row = &to->list[to->count++];
		*row = samples_describe(ctx, &activities->list[i]);
		if (!outside)
			continue;
		row->outside_count = outside[i].count;
		row->outside_ns = min_u64(outside[i].ns, row->ns);
	}
	FOR_EACH (process, profile->processes) {
		struct profile_activities *to = activities_of(process, is_blocked);

		SORT_ITEMS(to->list, to->count, by_ns);
	}
	return 0;
}

/* Merged captures come from several machines, which may use the same pid. */
static uint64_t pid_key(const struct profile_process *process, uint64_t pid)
{
	return (uint64_t)process->merged << 32 | (uint32_t)pid;
}

static enum profile_rival_kind kind_of_rival(const struct profile *profile,
					     const struct map64 *pids,
					     const struct profile_process *process,
					     const struct profile_activity *wait)
{
	uint32_t at = map64_get(pids, pid_key(process, wait->object));

	if (wait->object == process->pid)
		return PROFILE_RIVAL_OWN;
	if (at == MAP64_NONE)
		return strcmp(wait->object_name, PERFX_TRACER_NAME) ? PROFILE_RIVAL_OTHER
								    : PROFILE_RIVAL_TRACER;
	return profile_is_same_job(profile, process, &profile->processes[at]) ? PROFILE_RIVAL_JOB
									      : PROFILE_RIVAL_OTHER;
}

ORDER(by_rival_ns, struct profile_rival, DESCENDING(a->ns, b->ns), ASCENDING(a->pid, b->pid))

static int find_rivals(const struct profile *profile, const struct map64 *pids,
		       struct profile_process *process)
{
	struct map64 places = {0}; /* pid → process->rivals[] */
	size_t capacity = 0;
	int err = 0;

	FOR_EACH_OF (wait, process->blocked) {
		struct profile_rival *rival;

		if (err || wait->reason != PERFX_WAIT_RUNNABLE || !wait->object)
			continue;
		wait->rival_kind = kind_of_rival(profile, pids, process, wait);
		wait->rivals_count = 1;
		rival = map64_item(&places, wait->object, &process->rivals, &capacity,
				   &process->rivals_count, sizeof(*rival));
		if (!rival) {
			err = -ENOMEM;
			continue;
		}
		if (!rival->name)
			*rival = (struct profile_rival){.pid = (uint32_t)wait->object,
							.name = wait->object_name,
							.kind = wait->rival_kind};
		add_up(&rival->ns, wait->ns);
	}
	map64_clear(&places);
	SORT_ITEMS(process->rivals, process->rivals_count, by_rival_ns);
	return err;
}

/* Rivals of one name side by side, the most time first. */
ORDER(by_rival, struct profile_activity, ASCENDING(a->reason, b->reason), ASCENDING(a->tid, b->tid),
      ASCENDING(a->rival_kind, b->rival_kind), strcmp(a->object_name, b->object_name), by_ns(a, b))

/* The rivals of a thread that have one name are one row: a build has hundreds of them. */
static void merge_rivals(struct profile_activities *waits)
{
	size_t kept = 0;

	SORT_ITEMS(waits->list, waits->count, by_rival);
	FOR_EACH_OF (wait, *waits) {
		struct profile_activity *last = kept ? &waits->list[kept - 1] : NULL;

		if (!last || wait->reason != PERFX_WAIT_RUNNABLE || last->reason != wait->reason ||
		    last->tid != wait->tid || last->rival_kind != wait->rival_kind ||
		    !wait->object_name[0] || strcmp(last->object_name, wait->object_name)) {
			waits->list[kept++] = *wait;
			continue;
		}
		last->rivals_count++;
		add_up(&last->count, wait->count);
		add_up(&last->ns, wait->ns);
		last->max_ns = max_u64(last->max_ns, wait->max_ns);
	}
	waits->count = kept;
	SORT_ITEMS(waits->list, waits->count, by_ns);
}

/* Samples of one wait: thread, reason and object. */
static uint64_t wait_hash(const struct profile_activity *activity)
{
	const uint64_t words[] = {activity->tid, (uint64_t)activity->reason, activity->syscall,
				  activity->object};

	return fnv1a(words, sizeof(words));
}

/* Samples are in the order of their time: the first of a wait is its most frequent one. */
static int give_stacks(struct profile_process *process)
{
	struct map64 firsts = {0};
	int err = 0;

	for (uint32_t i = 0; i < process->samples.count && !err; i++) {
		const struct profile_activity *sample = &process->samples.list[i];

		if (sample->stack && sample->reason != PERFX_WAIT_NONE &&
		    map64_get(&firsts, wait_hash(sample)) == MAP64_NONE)
			err = map64_put(&firsts, wait_hash(sample), i);
	}
	FOR_EACH_OF (wait, process->blocked) {
		const struct profile_activity *sample =
			MAP64_FIND(firsts, wait_hash(wait), process->samples.list);

		if (sample && sample->tid == wait->tid && sample->reason == wait->reason &&
		    sample->syscall == wait->syscall && sample->object == wait->object)
			wait->stack = sample->stack;
	}
	map64_clear(&firsts);
	return err;
}

ORDER(by_time, struct profile_step_sample, ASCENDING(a->time_ns, b->time_ns))

static int fill_step_samples(const struct finish_ctx *ctx, struct profile_process *process)
{
	const struct samples *samples = ctx->a->samples;
	struct profile_steps *steps = &process->steps;
	size_t capacity = 0;

	FOR_EACH_OF (time, samples->times) {
		const struct activity *activity = &samples->sampled.list[time->activity];
		struct profile_step_sample *sample;

		if (activity->key.process != process->index || activity->key.tid != steps->tid ||
		    !steps->times_count || time->time_ns < steps->times[0].from_ns ||
		    time->time_ns >= steps->times[steps->times_count - 1].to_ns)
			continue;
		if (grow_array(&steps->samples, &capacity, steps->samples_count + 1,
			       sizeof(*steps->samples)))
			return -ENOMEM;
		sample = &steps->samples[steps->samples_count++];
		sample->time_ns = time->time_ns;
		sample->what = samples_describe(ctx, activity);
		sample->what.count = 1;
		sample->what.ns = sample->what.max_ns = (uint64_t)time->interval_us * 1000;
	}
	SORT_ITEMS(steps->samples, steps->samples_count, by_time);
	return 0;
}

static int fill_samples(struct finish_ctx *ctx)
{
	const struct samples *samples = ctx->a->samples;
	struct profile *profile = ctx->profile;
	struct outside *outside = NULL; /* of each activity, if all times of samples are known */
	int err;

	if (samples->times.count && !samples->times.cut) {
		outside = calloc(samples->sampled.count, sizeof(*outside));
		if (!outside)
			return -ENOMEM;
	}
	FOR_EACH (process, profile->processes) {
		struct profile_interval time = time_of_steps(profile, process);
		struct profile_steps *steps = &process->steps;

		steps->startup_ns =
			profile_recorded_between(profile, process->from_ns, time.from_ns);
		if (!outside)
			continue;
		steps->outside_ns = steps->startup_ns +
				    profile_recorded_between(profile, time.to_ns, process->to_ns);
		for (size_t i = 0; i < samples->times.count && steps->outside_ns; i++) {
			const struct sample_time *sample = &samples->times.list[i];
			uint32_t at = sample->activity;

			if (samples->sampled.list[at].key.process != process->index ||
			    (sample->time_ns >= time.from_ns && sample->time_ns < time.to_ns))
				continue;
			outside[at].count++;
			outside[at].ns += (uint64_t)sample->interval_us * 1000;
		}
	}
	err = fill_activities(ctx, false, outside);
	free(outside);
	return err;
}

static int fill_during(struct finish_ctx *ctx, struct profile_process *process)
{
	const struct samples *samples = ctx->a->samples;

	FOR_EACH (out, process->rows) {
		const struct row *row = row_find(ctx->a, process->index, out->function);
		const struct row_samples *from =
			row && row->index < samples->rows_count ? &samples->rows[row->index] : NULL;

		if (!from || !from->wall_ns || row->threads_count != 1)
			continue;
		out->during.list = calloc(from->count + 1, sizeof(*out->during.list));
		if (!out->during.list)
			return -ENOMEM;
		out->during_ns = from->wall_ns;
		out->during_tid = from->tid;
		FOR_EACH_OF (sample, *from) {
			struct profile_activity *to = &out->during.list[out->during.count++];

			*to = samples_describe(ctx, &samples->sampled.list[sample->activity]);
			to->count = sample->count;
			to->ns = sample->ns;
		}
	}
	return 0;
}

ssize_t samples_last(const struct finish_ctx *ctx, uint32_t process, uint64_t from_ns,
		     uint64_t to_ns, struct profile_last_sample *last, size_t most)
{
	const struct samples *samples = ctx->a->samples;
	struct map64 seen = {0}; /* tid → last[] */
	size_t count = 0, at = samples->times.count, first = 0;
	int err = 0;

	while (first < at) { /* the first one after the time: they are in order */
		size_t middle = first + (at - first) / 2;

		if (samples->times.list[middle].time_ns > to_ns)
			at = middle;
		else
			first = middle + 1;
	}
	while (at-- > 0 && count < most && !err) {
		const struct sample_time *time = &samples->times.list[at];
		const struct activity *activity = &samples->sampled.list[time->activity];

		if (time->time_ns < from_ns)
			break;
		if (activity->key.process != process ||
		    map64_get(&seen, activity->key.tid) != MAP64_NONE)
			continue;
		err = map64_put(&seen, activity->key.tid, (uint32_t)count);
		last[count] = (struct profile_last_sample){.tid = activity->key.tid,
							   .before_ns = time->time_ns,
							   .what = samples_describe(ctx, activity)};
		last[count].what.count = 1;
		last[count++].what.ns = 0;
	}
	map64_clear(&seen);
	return err ?: (ssize_t)count;
}

static int samples_fill(struct finish_ctx *ctx)
{
	const struct samples *samples = ctx->a->samples;
	struct profile *profile = ctx->profile;
	struct map64 pids = {0};
	int err = fill_samples(ctx);

	/* of a part of the time they would be compared with all of it */
	if (!err && !(profile->time_slice.left_out & PERFX_LEFT_OUT(PERFX_KIND_BLOCKED)))
		err = fill_activities(ctx, true, NULL);
	for (size_t i = 0; i < profile->processes_count && !err; i++) {
		uint64_t key = pid_key(&profile->processes[i], profile->processes[i].pid);

		if (map64_get(&pids, key) == MAP64_NONE)
			err = map64_put(&pids, key, (uint32_t)i);
	}
	for (size_t i = 0; i < profile->processes_count && !err; i++) {
		struct profile_process *process = &profile->processes[i];

		err = give_stacks(process);
		divide_waits(profile, process);
		err = err ?: find_rivals(profile, &pids, process);
		merge_rivals(&process->blocked);
		if (!err && process->steps.count)
			err = fill_step_samples(ctx, process);
		err = err ?: fill_during(ctx, process);
	}
	map64_clear(&pids);
	profile->sampling_known = samples->has_sampling;
	profile->sampling = (struct profile_sampling){
		.on_cpu_interval_ns = samples->sampling.on_cpu_interval_ns,
		.off_cpu_interval_ns = samples->sampling.off_cpu_interval_ns,
		.stacks = samples->sampling.stacks,
		.why = samples->sampling_why ? samples->sampling_why : "",
	};
	return err;
}

static void samples_clear(void *state)
{
	struct samples *samples = state;

	map64_clear(&samples->sampled.ids);
	free(samples->sampled.list);
	free(samples->times.list);
	map64_clear(&samples->blocked.ids);
	free(samples->blocked.list);
	map64_clear(&samples->object_ids);
	free(samples->objects);
	FOR_EACH (row, samples->rows) {
		map64_clear(&row->ids);
		free(row->list);
	}
	free(samples->rows);
}

const struct part part_samples = {
	PART_STATE(samples),
	.add = {TAKES(SAMPLE, sample), TAKES(BLOCKED, blocked), TAKES(WAIT_OBJECT, wait_object),
		TAKES(SAMPLING, sampling)},
	.finish = samples_fill,
	.clear = samples_clear,
};
