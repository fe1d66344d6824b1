// SPDX-License-Identifier: BSD-2-Clause
#include "session/step_watch.h"

#include "aggregate/steps.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/units.h"
#include "session/progress.h"
#include "session/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX	     "step>"
#define STALL_PREFIX "stall>"

int trigger_parse(const char *text, struct trigger *trigger)
{
	const char *value = text + strlen(PREFIX);
	char *end;

	*trigger = (struct trigger){0};
	if (begins_with(text, STALL_PREFIX))
		return parse_duration(text + strlen(STALL_PREFIX), &trigger->stall_ns) ||
				       !trigger->stall_ns
			       ? -EINVAL
			       : 0;
	if (!begins_with(text, PREFIX))
		return -EINVAL;
	/* strtod takes more than numbers */
	if (*value < '0' || *value > '9')
		return -EINVAL;
	trigger->times = strtod(value, &end);
	if (!strcmp(end, "x"))
		return trigger->times >= 1 && trigger->times <= 1e6 ? 0 : -EINVAL;
	trigger->times = 0;
	return parse_duration(value, &trigger->ns) || !trigger->ns ? -EINVAL : 0;
}

bool trigger_fires(const struct trigger *trigger, const struct slow_step *step,
		   uint64_t steps_count)
{
	if (trigger->ns)
		return step->duration_ns > trigger->ns;
	if (trigger->stall_ns)
		return false;
	return steps_count >= TRIGGER_STEPS_MIN &&
	       (double)step->duration_ns > trigger->times * (double)step->median_ns;
}

struct step_watch {
	struct pipeline *pipeline;
	/* The watcher before this one: it gets the events first. */
	int (*next)(void *ctx, const struct event *event);
	void *next_ctx;
	uint64_t steps_max; /* 0: no end by them */
	const struct trigger *trigger;
	struct steps steps;
	struct step_classes classes;
	struct profile_steps *latest; /* by process, when its last step ended; without the series */
	size_t latest_capacity;
	struct last_step {
		uint64_t to_ns; /* 0: none yet */
		bool stalled;	/* it has been said */
	} * last;		/* by process */
	size_t last_count, last_capacity;
	uint64_t most_count; /* steps of the process that has done most */
	bool done, slow;
	struct slow_step slow_one; /* the first that was slow since the last was taken */
};

static void note_end(struct step_watch *watch, uint32_t process, uint64_t to_ns)
{
	struct last_step *last = GROW_TO(watch->last, process);

	if (last)
		*last = (struct last_step){.to_ns = to_ns};
}

/* A step may have ended; not if the function that ends steps has just changed. */
static void note_span(struct step_watch *watch, const struct perfx_span *span)
{
	unsigned class = step_classes_of(&watch->classes, span);
	uint32_t process = span->process;
	struct profile_steps now, before;
	struct slow_step step = {.process = process, .to_ns = span->start_ns + span->duration_ns};

	if (!class || steps_span(&watch->steps, span, class) || !(class & STEP_RANK_MASK))
		return;
	now = steps_of_process(&watch->steps, process);
	if (now.count > watch->most_count)
		watch->most_count = now.count;
	watch->done = watch->done || (watch->steps_max && now.count >= watch->steps_max);
	if (!watch->trigger || process > AGGREGATE_PROCESSES_MAX ||
	    grow_array(&watch->latest, &watch->latest_capacity, (size_t)process + 1,
		       sizeof(*watch->latest)))
		return;
	before = watch->latest[process];
	watch->latest[process] = now;
	if (now.count > before.count)
		note_end(watch, process, step.to_ns);
	if (now.function != before.function || now.tid != before.tid ||
	    now.count != before.count + 1)
		return;
	step.number = now.count;
	step.duration_ns = now.total_ns - before.total_ns;
	step.median_ns = before.p50_ns;
	if (watch->slow || !trigger_fires(watch->trigger, &step, before.count))
		return;
	watch->slow = true;
	watch->slow_one = step;
}

static int on_event(void *ctx, const struct event *event)
{
	struct step_watch *watch = ctx;
	int err = watch->next ? watch->next(watch->next_ctx, event) : 0;

	if (err)
		return err;
	if (event->kind == PERFX_KIND_FUNCTION)
		step_classes_add(&watch->classes, &event->function, event->strings[0]);
	else if (event->kind == PERFX_KIND_SPAN)
		note_span(watch, &event->span);
	else if (event->kind == PERFX_KIND_LATE)
		return steps_gap(&watch->steps, event->late.process, event->late.time_ns);
	else if (event->kind == PERFX_KIND_RECORDING_WINDOW &&
		 (event->recording_window.flags & PERFX_RECORDING_WINDOW_OPENS))
		return steps_recording_window(&watch->steps, event->recording_window.time_ns);
	return 0;
}

bool step_watch__done(const struct step_watch *watch)
{
	return watch && watch->done;
}

uint64_t step_watch__count(const struct step_watch *watch)
{
	return watch ? watch->most_count : 0;
}

bool step_watch__slow(struct step_watch *watch, struct slow_step *step)
{
	if (!watch || !watch->slow)
		return false;
	*step = watch->slow_one;
	watch->slow = false;
	return true;
}

bool step_watch__stalled(struct step_watch *watch, uint64_t now_ns, struct stall *stall)
{
	if (!watch || !watch->trigger || !watch->trigger->stall_ns)
		return false;
	for (size_t i = 0; i < watch->last_count; i++) {
		struct last_step *last = &watch->last[i];

		if (!last->to_ns || last->stalled || now_ns < last->to_ns ||
		    now_ns - last->to_ns < watch->trigger->stall_ns)
			continue;
		last->stalled = true;
		*stall = (struct stall){.process = (uint32_t)i,
					.steps_count = watch->latest[i].count,
					.since_ns = last->to_ns};
		return true;
	}
	return false;
}

static int open_steps(struct recording *recording)
{
	const struct recorder_options *options = recording->options;
	struct pipeline *pipeline = recording->pipeline;
	bool is_triggered = trigger_is_set(&options->trigger);
	struct step_watch *watch;

	/* without a report, the progress line alone does not justify decoding all records */
	if (!options->steps_max && !is_triggered &&
	    !(pipeline->aggregate && progress_is_shown(recording)))
		return 0;
	watch = recording->steps = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->pipeline = pipeline;
	watch->steps_max = options->steps_max;
	watch->trigger = is_triggered ? &options->trigger : NULL;
	watch->next = pipeline->on_event;
	watch->next_ctx = pipeline->ctx;
	pipeline->on_event = on_event;
	pipeline->ctx = watch;
	return 0;
}

static void close_steps(struct recording *recording)
{
	struct step_watch *watch = recording->steps;

	if (!watch)
		return;
	watch->pipeline->on_event = watch->next;
	watch->pipeline->ctx = watch->next_ctx;
	steps_clear(&watch->steps);
	step_classes_clear(&watch->classes);
	free(watch->latest);
	free(watch->last);
	free(watch);
}

const struct recording_part steps_part = {
	.name = "steps", .open = open_steps, .close = close_steps};
