// SPDX-License-Identifier: BSD-2-Clause
#include "session/trial.h"

#include "aggregate/steps.h"
#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rate_watch {
	struct pipeline *pipeline;
	struct rate_options options;
	uint64_t first_ns; /* the first event; 0: there was none */
	bool lost, done;
	/* Steps. */
	struct steps steps;
	struct step_classes classes;
	uint32_t process_max;
	/* Calls and counters: since the first event after the warm-up. */
	uint64_t from_ns, to_ns, events_count;
	double amount;
	uint32_t counter; /* its number; 0: not named yet */
	double *values;	  /* by process, as they were set last; NAN: not yet */
	size_t values_count, values_capacity;
};

/* Steps that began after the warm-up. */
static struct rate rate_of_steps(const struct rate_watch *watch, uint32_t process)
{
	struct profile_steps steps = steps_of_process(&watch->steps, process);
	struct rate rate = {.began = watch->first_ns != 0};
	uint64_t from_ns = 0;

	FOR_EACH (step, steps.series) {
		if (step->from_ns < watch->first_ns + watch->options.warmup_ns)
			continue;
		from_ns = from_ns ? from_ns : step->from_ns;
		rate.events_count += step->count;
		rate.ns = step->to_ns - from_ns;
	}
	rate.amount = (double)rate.events_count;
	return rate;
}

static bool is_enough(const struct rate_watch *watch, const struct rate *rate)
{
	const struct rate_options *options = &watch->options;

	if (options->events_max && rate->events_count >= options->events_max)
		return true;
	return rate->ns >= options->duration_ns && rate->events_count >= RATE_EVENTS_MIN;
}

static struct rate rate_of_events(const struct rate_watch *watch)
{
	return (struct rate){.amount = watch->amount,
			     .events_count = watch->events_count,
			     .ns = watch->to_ns - watch->from_ns,
			     .began = watch->first_ns != 0,
			     .lost = watch->lost};
}

/* The first one after the warm-up is where the rate begins: it does not count itself. */
static void note_amount(struct rate_watch *watch, uint64_t time_ns, double amount)
{
	struct rate rate;

	watch->first_ns = watch->first_ns ? watch->first_ns : time_ns;
	if (time_ns < watch->first_ns + watch->options.warmup_ns)
		return;
	if (!watch->from_ns) {
		watch->from_ns = watch->to_ns = time_ns;
		return;
	}
	if (time_ns > watch->to_ns)
		watch->to_ns = time_ns;
	watch->events_count++;
	watch->amount += amount;
	rate = rate_of_events(watch);
	watch->done = watch->done || is_enough(watch, &rate);
}

static void note_step(struct rate_watch *watch, const struct perfx_span *span)
{
	unsigned class = step_classes_of(&watch->classes, span);
	uint64_t end_ns = span->start_ns + span->duration_ns;
	struct rate rate;

	if (!class || span->process > AGGREGATE_PROCESSES_MAX ||
	    steps_span(&watch->steps, span, class) || !(class & STEP_RANK_MASK))
		return;
	watch->process_max =
		span->process > watch->process_max ? span->process : watch->process_max;
	watch->first_ns = watch->first_ns ? watch->first_ns : end_ns;
	if (end_ns < watch->first_ns + watch->options.warmup_ns)
		return;
	rate = rate_of_steps(watch, span->process);
	watch->done = watch->done || is_enough(watch, &rate);
}

static void note_value(struct rate_watch *watch, const struct perfx_user_value *record)
{
	double number, before;

	memcpy(&number, &record->number_bits, sizeof(number));
	if (!watch->counter || record->value != watch->counter || !isfinite(number))
		return;
	if (!(record->flags & PERFX_USER_VALUE_ADDED)) {
		/* by how much a value that is set has grown; 0 the first time */
		if (record->process > AGGREGATE_PROCESSES_MAX)
			return;
		while (watch->values_count <= record->process)
			if (LIST_ADD(watch->values, NAN))
				return;
		before = watch->values[record->process];
		watch->values[record->process] = number;
		number = isnan(before) ? 0 : number - before;
	}
	if (!(record->flags & PERFX_USER_VALUE_BEFORE))
		note_amount(watch, record->time_ns, number);
}

static int on_event(void *ctx, const struct event *event)
{
	struct rate_watch *watch = ctx;
	enum rate_of of = watch->options.of;

	switch ((enum perfx_kind)event->kind) {
	case PERFX_KIND_FUNCTION:
		if (of == RATE_STEPS)
			step_classes_add(&watch->classes, &event->function, event->strings[0]);
		break;
	case PERFX_KIND_SPAN:
		if (of == RATE_STEPS)
			note_step(watch, &event->span);
		else if (of == RATE_CALLS)
			note_amount(watch, event->span.start_ns + event->span.duration_ns, 1);
		break;
	case PERFX_KIND_OVERFLOW_CALLS:
		watch->lost |= of == RATE_CALLS && event->overflow_calls.calls_count;
		break;
	case PERFX_KIND_USER_VALUE_NAME:
		if (of == RATE_COUNTER && !strcmp(event->strings[0], watch->options.counter))
			watch->counter = event->user_value_name.value;
		break;
	case PERFX_KIND_USER_VALUE:
		if (of == RATE_COUNTER)
			note_value(watch, &event->user_value);
		break;
	case PERFX_KIND_OVERFLOW_VALUES:
		watch->lost |= of == RATE_COUNTER && watch->counter &&
			       event->overflow_values.value == watch->counter;
		break;
	default:
		break;
	}
	return 0;
}

struct rate_watch *rate_watch__new(struct pipeline *pipeline, const struct rate_options *options)
{
	struct rate_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->pipeline = pipeline;
	watch->options = *options;
	pipeline->on_event = on_event;
	pipeline->ctx = watch;
	return watch;
}

void rate_watch__free(struct rate_watch *watch)
{
	if (!watch)
		return;
	watch->pipeline->on_event = NULL;
	steps_clear(&watch->steps);
	step_classes_clear(&watch->classes);
	free(watch->values);
	free(watch);
}

struct rate rate_watch__rate(const struct rate_watch *watch)
{
	struct rate most = {.began = watch->first_ns != 0};

	if (watch->options.of != RATE_STEPS)
		return rate_of_events(watch);
	for (uint32_t process = 0; process <= watch->process_max; process++) {
		struct rate rate = rate_of_steps(watch, process);

		if (rate.events_count > most.events_count)
			most = rate;
	}
	return most;
}

bool rate_watch__enough(void *watch)
{
	return ((const struct rate_watch *)watch)->done;
}
