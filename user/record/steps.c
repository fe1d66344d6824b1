// SPDX-License-Identifier: BSD-2-Clause
/* --steps N: the recording ends when a process has done so many. Counted as the report counts them.
 */
#include "aggregate/steps.h"

#include "base/grow.h"
#include "record/recorder_internal.h"

#include <stdlib.h>

struct step_watch {
	struct sink *sink;
	uint64_t steps_max;
	struct steps steps;
	unsigned *classes; /* by function id */
	size_t classes_capacity;
	bool done;
};

static void note_function(struct step_watch *watch, const struct event *event)
{
	const struct perfx_function *function = &event->function;

	if (function->function > AGGREGATE_FUNCTIONS_MAX ||
	    grow_array(&watch->classes, &watch->classes_capacity, (size_t)function->function + 1,
		       sizeof(*watch->classes)))
		return;
	watch->classes[function->function] =
		step_class(function->source, event->strings[0], function->flags);
}

static void note_span(struct step_watch *watch, const struct perfx_span *span)
{
	unsigned class =
		span->function < watch->classes_capacity ? watch->classes[span->function] : 0;

	if (!class || (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED)) ||
	    steps_span(&watch->steps, span, class) || !(class & STEP_RANK_MASK))
		return;
	watch->done = watch->done ||
		      steps_of_process(&watch->steps, span->process).count >= watch->steps_max;
}

static int on_event(void *ctx, const struct event *event)
{
	if (event->kind == PERFX_KIND_FUNCTION)
		note_function(ctx, event);
	else if (event->kind == PERFX_KIND_SPAN)
		note_span(ctx, &event->span);
	else if (event->kind == PERFX_KIND_WINDOW && (event->window.flags & PERFX_WINDOW_OPENS))
		return steps_window(&((struct step_watch *)ctx)->steps, event->window.time_ns);
	return 0;
}

struct step_watch *step_watch__new(struct sink *sink, uint64_t steps_max)
{
	struct step_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->sink = sink;
	watch->steps_max = steps_max;
	sink->on_event = on_event;
	sink->ctx = watch;
	return watch;
}

void step_watch__free(struct step_watch *watch)
{
	if (!watch)
		return;
	watch->sink->on_event = NULL;
	steps_clear(&watch->steps);
	free(watch->classes);
	free(watch);
}

bool step_watch__done(const struct step_watch *watch)
{
	return watch && watch->done;
}
