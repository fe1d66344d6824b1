// SPDX-License-Identifier: BSD-2-Clause
/* The steps of the profile's processes. */
#include "aggregate/calls.h"
#include "aggregate/steps.h"
#include "base/text.h"

#include <string.h>

/* Keras evaluates and predicts by functions of the same names as it trains. */
static bool is_of_evaluation(const struct profile_frame *frame)
{
	static const char *const methods[] = {"evaluate", "predict", "test_on_batch",
					      "predict_on_batch", NULL};
	const char *dot = strrchr(frame->function, '.');

	return frame->language == PERFX_LANGUAGE_PYTHON && strstr(frame->file, "/keras/") &&
	       text_is_one_of(dot ? dot + 1 : frame->function, methods);
}

/* Which functions that end steps evaluate a model, by their callers. 0 or -ENOMEM. */
static int find_evaluations(struct aggregate *a)
{
	for (size_t i = 0; i < a->calls->contexts_count; i++) {
		const struct context *context = &a->calls->contexts[i];
		int found;

		if (!context->row || (context->row->step_class & UNDECIDED) ||
		    !(context->row->step_class & STEP_RANK_MASK))
			continue;
		found = stack_has_frame(a, context->process, context->stack, is_of_evaluation);
		if (found < 0)
			return found;
		if (found)
			steps_of_evaluation(a->steps, context->process, context->function);
	}
	return 0;
}

/* Steps of the first moments, which tracing slowed most, stand for no others. Of the functions that
 * have no name of their own one may have been removed that does not end steps: then these go on. */
static struct profile_steps steps_of(const struct finish_ctx *w,
				     const struct profile_process *process)
{
	const struct profile *p = w->profile;
	struct profile_steps steps = steps_of_process(w->a->steps, process->index);
	uint64_t ended_ns, rest_ns;
	uint32_t with;

	ended_ns = steps.times_count ? calls_seen_until(w->a, process->index, steps.function, &with)
				     : 0;
	rest_ns = profile_recorded_between(p, ended_ns, process->to_ns);
	if (!ended_ns ||
	    profile_recorded_between(p, ended_ns, steps.times[steps.times_count - 1].to_ns) >
		    rest_ns / 2)
		return steps;
	if (2 * rest_ns > profile_recorded_ns(p, process))
		steps = (struct profile_steps){.run = steps.run};
	steps.ended_ns = ended_ns;
	steps.ended_with = with;
	return steps;
}

static int handle_recording_window(struct aggregate *a, const struct event *event)
{
	const struct perfx_recording_window *record = &event->recording_window;
	int opens = capture_window(a, record);

	return opens > 0 ? steps_recording_window(a->steps, record->time_ns) : opens;
}

static int steps_take_over(struct aggregate *a, struct aggregate *before, uint64_t from_ns)
{
	return steps_continue(a->steps, before->steps, from_ns, process_goes_on, a);
}

static int steps_fill(struct finish_ctx *ctx)
{
	struct profile *p = ctx->profile;
	int err = find_evaluations(ctx->a);

	for (size_t i = 0; i < p->processes_count && !err; i++) {
		p->processes[i].steps = steps_of(ctx, &p->processes[i]);
		if (!ctx->a->calls->has_off_cpu)
			p->processes[i].steps.off_cpu_ns = PROFILE_ABSENT;
	}
	return err;
}

static void clear(void *state)
{
	steps_clear(state);
}

const struct part part_steps = {
	PART_STATE(steps),
	.add = {TAKES(RECORDING_WINDOW, recording_window)},
	.take_over = steps_take_over,
	.finish = steps_fill,
	.clear = clear,
};
