// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/slow_steps.h"

#include "aggregate/statistics.h"
#include "analyze/location.h"
#include "analyze/stack_kind.h"
#include "base/grow.h"
#include "base/hash.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t duration_of(const struct profile_step_time *step)
{
	return step->to_ns - step->from_ns;
}

/* From the median distance from the median to a standard deviation, of a normal distribution. */
#define NORMAL_DEVIATION 1.4826

bool slow_steps_is_slow(const struct slow_steps *slow, const struct profile_step_time *step)
{
	return slow->least_ns && duration_of(step) > slow->least_ns;
}

bool slow_steps_is_periodic(const struct slow_steps *slow, size_t index)
{
	return slow->period && index >= slow->first && (index - slow->first) % slow->period == 0;
}

/* Distances between slow steps are tried as periods: of each to so many after it, for others may
 * lie between, and at most so many. */
#define PERIOD_REACH  4
#define PERIODS_TRIED 256

/* Every period-th step from the first one on, as a candidate. */
struct grid {
	size_t period, first, hits, expected;
	double chance; /* log of the probability that it is one */
};

/* Lists the distances between two slow steps, each once, in order. */
static size_t list_periods(const size_t *indices, size_t indices_count, size_t longest,
			   size_t *periods)
{
	size_t count = 0;

	for (size_t reach = 1; reach <= PERIOD_REACH; reach++) {
		for (size_t i = 0; i + reach < indices_count && count < PERIODS_TRIED; i++) {
			size_t period = indices[i + reach] - indices[i], known = 0;

			while (known < count && periods[known] != period)
				known++;
			if (known == count && period >= 2 && period <= longest)
				periods[count++] = period;
		}
	}
	return count;
}

/* Finds which of each period's steps is slow most often. counts: room for a period. */
static struct grid grid_of(const struct slow_steps *slow, const size_t *indices, size_t period,
			   size_t *counts)
{
	struct grid best = {.period = period};
	double others, rate;

	memset(counts, 0, period * sizeof(*counts));
	for (size_t i = 0; i < slow->count; i++)
		counts[indices[i] % period]++;
	for (size_t first = 0; first < period; first++) {
		if (counts[first] <= best.hits)
			continue;
		best.first = first;
		best.hits = counts[first];
	}
	best.expected = (slow->steps_count - 1 - best.first) / period + 1;
	/* how likely so many of the grid are slow when each is with the rate of those that are not
	 * on it */
	others = (double)(slow->steps_count - best.expected);
	rate = ((double)(slow->count - best.hits) + 1) / (others + 2);
	best.chance = lgamma((double)best.expected + 1) - lgamma((double)best.hits + 1) -
		      lgamma((double)(best.expected - best.hits) + 1) +
		      (double)best.hits * log(rate);
	return best;
}

static int find_period(struct slow_steps *slow, const size_t *indices,
		       const struct slow_limits *limits)
{
	size_t periods[PERIODS_TRIED], longest = slow->steps_count / SLOW_PERIODS_MIN;
	size_t count = list_periods(indices, slow->count, longest, periods);
	size_t *counts = calloc(longest + 1, sizeof(*counts));
	struct grid best = {.chance = 0};

	if (!counts)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct grid grid = grid_of(slow, indices, periods[i], counts);

		if (grid.hits >= SLOW_PERIODS_MIN && grid.chance < best.chance &&
		    (double)grid.hits >= limits->covered * (double)grid.expected)
			best = grid;
	}
	free(counts);
	if (!best.period)
		return 0;
	/* so many periods and beginnings of each were tried */
	slow->confidence = 1 - fmin(1, exp(best.chance) * (double)count * (double)best.period);
	if (slow->confidence < limits->confidence)
		return 0;
	slow->period = best.period;
	slow->first = best.first;
	slow->periodic_count = best.hits;
	slow->expected_count = best.expected;
	return 0;
}

int slow_steps_find(struct slow_steps *slow, const struct profile_steps *steps,
		    const struct slow_limits *limits)
{
	size_t *indices = calloc(steps->times_count + 1, sizeof(*indices));
	uint64_t *values = calloc(steps->times_count + 1, sizeof(*values));
	int err = indices && values ? 0 : -ENOMEM;
	double deviations;

	*slow = (struct slow_steps){.steps_count = steps->times_count};
	if (err || steps->times_count < SLOW_STEPS_MIN)
		goto out;
	for (size_t i = 0; i < steps->times_count; i++)
		values[i] = duration_of(&steps->times[i]);
	slow->ordinary_ns = median_u64(values, steps->times_count);
	for (size_t i = 0; i < steps->times_count; i++)
		values[i] = values[i] > slow->ordinary_ns ? values[i] - slow->ordinary_ns
							  : slow->ordinary_ns - values[i];
	deviations = limits->deviations * NORMAL_DEVIATION *
		     (double)median_u64(values, steps->times_count);
	slow->least_ns = (uint64_t)fmax(limits->least * (double)slow->ordinary_ns,
					(double)slow->ordinary_ns + deviations);
	for (size_t i = 0; i < steps->times_count; i++)
		if (slow_steps_is_slow(slow, &steps->times[i]))
			indices[slow->count++] = i;
	err = find_period(slow, indices, limits);
	for (size_t i = 0; i < slow->count; i++)
		if (slow_steps_is_periodic(slow, indices[i]))
			slow->periodic_ns += (double)duration_of(&steps->times[indices[i]]) -
					     (double)slow->ordinary_ns;
out:
	free(indices);
	free(values);
	return err;
}

enum step_kind { STEP_ORDINARY, STEP_WANTED, STEP_LEFT_OUT };

static enum step_kind kind_of_step(const struct slow_steps *slow, const struct profile_steps *steps,
				   size_t index, bool periodic)
{
	if (slow->only && index == slow->only - 1)
		return STEP_WANTED;
	if (!slow_steps_is_slow(slow, &steps->times[index]))
		return STEP_ORDINARY;
	return !slow->only && slow_steps_is_periodic(slow, index) == periodic ? STEP_WANTED
									      : STEP_LEFT_OUT;
}

/* A line of the program, or a function that it calls. */
struct slow_place {
	const struct profile_frame *frame;
	double ns; /* extra */
};

#define SLOW_PLACES_MAX 256

struct slow_places {
	struct slow_place list[SLOW_PLACES_MAX];
	size_t count;
};

static void places_add(struct slow_places *places, const struct profile_frame *frame, double ns)
{
	for (size_t i = 0; i < places->count; i++) {
		if (!frame_is_same_line(places->list[i].frame, frame))
			continue;
		places->list[i].ns += ns;
		return;
	}
	if (places->count < SLOW_PLACES_MAX)
		places->list[places->count++] = (struct slow_place){frame, ns};
}

/* The line with the most time, in the function with the most time. */
static struct slow_place places_lead(const struct slow_places *places)
{
	struct slow_place lead = {0};
	double line_ns = 0;

	for (size_t i = 0; i < places->count; i++) {
		double ns = 0;

		for (size_t k = 0; k < places->count; k++)
			if (frame_is_same_function(places->list[k].frame, places->list[i].frame))
				ns += places->list[k].ns;
		if (ns < lead.ns || (ns == lead.ns && places->list[i].ns <= line_ns))
			continue;
		lead = (struct slow_place){places->list[i].frame, ns};
		line_ns = places->list[i].ns;
	}
	return lead;
}

/* Names of the things that the thread waited for. */
struct slow_names {
	struct {
		const char *name;
		double ns;
	} list[32];
	size_t count;
};

static const char *names_lead(const struct slow_names *names)
{
	const char *lead = "";
	double most_ns = 0;

	for (size_t i = 0; i < names->count; i++) {
		if (names->list[i].ns <= most_ns)
			continue;
		lead = names->list[i].name;
		most_ns = names->list[i].ns;
	}
	return lead;
}

/* How long steps were in a Python function, or at a line of one: slow ones, and as many ordinary
 * ones. */
struct step_share {
	double slow_ns, ordinary_ns;
	const struct profile_activity *last; /* recursion counts once in a sample */
};

struct step_shares {
	struct map64 ids; /* key_of() → index */
	struct step_share *list;
	size_t count, capacity;
};

/* While it is found. */
struct comparison {
	const struct slow_steps *slow;
	const struct profile_steps *steps;
	bool periodic;
	double scale; /* of ordinary steps to as many as are slow */
	struct step_shares shares;
	struct step_share all; /* of all samples */
	size_t ordinary_count; /* samples of ordinary steps */
	bool failed;
	struct slow_places lines, callees, callers;
	struct slow_names names[SLOW_PARTS];
	struct slow_cause *cause;
};

static enum slow_part part_of(const struct profile_activity *sample)
{
	if (sample->state == PERFX_SAMPLE_ON_CPU)
		return SLOW_RUNS;
	if (sample->state == PERFX_SAMPLE_RUNNABLE || sample->reason == PERFX_WAIT_RUNNABLE)
		return SLOW_NO_CPU;
	if (sample->reason == PERFX_WAIT_STOPPED)
		return SLOW_STOPPED;
	if (sample->reason == PERFX_WAIT_DISK)
		return SLOW_DISK;
	if (sample->reason == PERFX_WAIT_GIL)
		return SLOW_GIL;
	return sample->reason == PERFX_WAIT_PAGE_FAULT ? SLOW_FAULTS : SLOW_WAITS;
}

/* The program's own Python function that runs or waits; of a stack without Python the innermost
 * native one that has a source line. NULL: not known. */
static const struct profile_frame *frame_shown(const struct profile_stack *stack, size_t python)
{
	const struct profile_frame *native;

	if (python < stack->frames_count)
		return stack->frames[python];
	native = profile_line_frame(stack->frames, stack->frames_count, PERFX_LANGUAGE_NATIVE);
	if (native && native->function[0])
		return native;
	return stack->frames_count && stack->frames[0]->function[0] ? stack->frames[0] : NULL;
}

/* A function that only slow steps enter has so little of them in ordinary steps, and of those. */
#define ORDINARY_SHARE 0.10
/* With fewer samples of ordinary steps it is not known which functions they enter. */
#define ORDINARY_SAMPLES 10
/* A function that is called for nothing but another one has this much of the other's time. */
#define CHAIN_SHARE 0.90

enum share_kind { SHARE_OF_FUNCTION, SHARE_OF_LINE };

static uint64_t key_of(const struct profile_frame *frame, enum share_kind kind)
{
	uint64_t parts[] = {fnv1a(frame->function, strlen(frame->function)),
			    fnv1a(frame->file, strlen(frame->file)),
			    kind == SHARE_OF_LINE ? frame->line + 1ULL : 0};

	return fnv1a(parts, sizeof(parts));
}

static struct step_share *share_of(struct comparison *c, const struct profile_frame *frame,
				   enum share_kind kind)
{
	struct step_share *share = MAP64_ITEM_OF(&c->shares, key_of(frame, kind));

	c->failed |= !share;
	return share;
}

static void share_add(struct step_share *share, const struct profile_activity *sample, double ns)
{
	if (!share || share->last == sample)
		return;
	share->last = sample;
	*(ns > 0 ? &share->slow_ns : &share->ordinary_ns) += fabs(ns);
}

/* ns < 0: of ordinary steps. */
static void count_shares(struct comparison *c, const struct profile_activity *sample, double ns)
{
	const struct profile_stack *stack = sample->stack;

	c->cause->samples_count += ns > 0;
	c->ordinary_count += ns < 0;
	share_add(&c->all, sample, ns);
	for (size_t i = 0; stack && i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];

		if (frame->language != PERFX_LANGUAGE_PYTHON || !frame->function[0])
			continue;
		share_add(share_of(c, frame, SHARE_OF_FUNCTION), sample, ns);
		share_add(share_of(c, frame, SHARE_OF_LINE), sample, ns);
	}
}

static bool names_occasional(const char *name)
{
	static const char *const words[] = {"eval", "valid", "test", "save", "checkpoint", NULL};
	bool found = false;

	for (size_t i = 0; words[i]; i++)
		found |= strcasestr(name, words[i]) != NULL;
	return found;
}

/* Does its name, or that of its class, say that trainers do it now and then? */
static bool is_occasional(const struct profile_frame *frame)
{
	return names_occasional(frame->function) && frame_last_name(frame)[0] != '_';
}

/* Do only slow steps enter the function, or reach the line? */
static bool is_of_slow_steps(struct comparison *c, const struct profile_frame *frame,
			     enum share_kind kind)
{
	const struct step_share *share;

	if (frame->language != PERFX_LANGUAGE_PYTHON || !frame->function[0] ||
	    (kind == SHARE_OF_FUNCTION && frame_last_name(frame)[0] == '<'))
		return false;
	share = share_of(c, frame, kind);
	if (!share || (c->ordinary_count < ORDINARY_SAMPLES && !is_occasional(frame)))
		return false;
	return share->ordinary_ns < ORDINARY_SHARE * share->slow_ns &&
	       share->ordinary_ns <= ORDINARY_SHARE * c->all.ordinary_ns;
}

/* The outermost frame of it; frames_count: there is none. */
static size_t outermost_of_slow_steps(struct comparison *c, const struct profile_stack *stack,
				      enum share_kind kind)
{
	for (size_t i = stack->frames_count; i-- > 0;)
		if (is_of_slow_steps(c, stack->frames[i], kind))
			return i;
	return stack->frames_count;
}

/* The program's own functions first, then those whose names say more than that of a hook or of a
 * decorator's wrapper which calls them: the function's own name more than its class's. */
static int rank_of(const struct profile_frame *frame)
{
	return (location_is_own_python(frame) ? 8 : 0) + (is_occasional(frame) ? 4 : 0) +
	       (names_occasional(frame_last_name(frame)) ? 2 : 0) +
	       (frame_last_name(frame)[0] != '_' && !strstr(frame->function, "<locals>"));
}

/* The outermost function that only slow steps enter, as evaluate(): not the layers below it, which
 * ordinary steps enter as well. Where it is called for one other function alone, that may have the
 * better name. Without such a function a line of the program's own that only slow steps reach, else
 * the innermost one. */
static size_t python_of(struct comparison *c, const struct profile_stack *stack)
{
	size_t outermost = outermost_of_slow_steps(c, stack, SHARE_OF_FUNCTION), best = outermost;

	for (size_t i = outermost; outermost < stack->frames_count && i-- > 0;)
		if (is_of_slow_steps(c, stack->frames[i], SHARE_OF_FUNCTION) &&
		    share_of(c, stack->frames[i], SHARE_OF_FUNCTION)->slow_ns >=
			    CHAIN_SHARE * share_of(c, stack->frames[outermost], SHARE_OF_FUNCTION)
						  ->slow_ns &&
		    rank_of(stack->frames[i]) > rank_of(stack->frames[best]))
			best = i;
	if (best == stack->frames_count)
		best = outermost_of_slow_steps(c, stack, SHARE_OF_LINE);
	if (best < stack->frames_count &&
	    (location_is_own_python(stack->frames[best]) ||
	     is_of_slow_steps(c, stack->frames[best], SHARE_OF_FUNCTION)))
		return best;
	return location_python(stack->frames, stack->frames_count);
}

/* The function that the place calls: the layers of a model below an evaluation are none, which
 * ordinary steps enter as well. NULL: none. */
static const struct profile_frame *callee_of(struct comparison *c,
					     const struct profile_stack *stack, size_t place)
{
	size_t inner = location_python(stack->frames, stack->frames_count);

	if (place == stack->frames_count)
		return NULL;
	for (size_t i = place; i-- > 0;)
		if (location_is_own_python(stack->frames[i]) &&
		    is_of_slow_steps(c, stack->frames[i], SHARE_OF_FUNCTION) &&
		    !frame_is_same_function(stack->frames[i], stack->frames[place]))
			return stack->frames[i];
	if (!frame_is_same_function(stack->frames[inner], stack->frames[place]))
		return NULL;
	while (inner-- > 0)
		/* not a wrapper that a package's decorator made */
		if (stack->frames[inner]->language == PERFX_LANGUAGE_PYTHON &&
		    !(strstr(stack->frames[inner]->function, "<locals>") &&
		      !location_is_own_python(stack->frames[inner])))
			return stack->frames[inner];
	return NULL;
}

static void compare_sample(struct comparison *c, const struct profile_activity *sample, double ns)
{
	const struct profile_stack *stack = sample->stack;
	const struct profile_frame *place, *callee;
	enum slow_part part = part_of(sample);
	struct slow_names *names = &c->names[part];
	size_t at = 0, python, own;

	c->cause->extra_ns += ns;
	c->cause->parts[part] += ns;
	if (stack_collects_garbage(stack) && part != SLOW_NO_CPU)
		c->cause->parts[SLOW_COLLECTS] += ns;
	if (stack_compiler(stack) != NO_COMPILER)
		c->cause->parts[SLOW_COMPILES] += ns;
	while (at < names->count && strcmp(names->list[at].name, sample->object_name) != 0)
		at++;
	if (sample->object_name[0] && at < sizeof(names->list) / sizeof(names->list[0])) {
		names->count += at == names->count;
		names->list[at].name = sample->object_name;
		names->list[at].ns += ns;
	}
	if (!stack)
		return;
	python = python_of(c, stack);
	place = frame_shown(stack, python);
	if (!place)
		return;
	places_add(&c->lines, place, ns);
	callee = callee_of(c, stack, python);
	if (callee)
		places_add(&c->callees, callee, ns);
	own = location_own_python(stack->frames, stack->frames_count);
	if (!location_is_own_python(place) && own < stack->frames_count)
		places_add(&c->callers, stack->frames[own], ns);
}

/* Samples and steps are both in order of time. */
static void compare_samples(struct comparison *c, enum step_kind wanted,
			    void (*add)(struct comparison *c, const struct profile_activity *sample,
					double ns))
{
	const struct profile_steps *steps = c->steps;
	size_t step = 0;

	FOR_EACH (sample, steps->samples) {
		double ns = (double)sample->what.ns;

		while (step < steps->times_count && steps->times[step].to_ns <= sample->time_ns)
			step++;
		if (step == steps->times_count)
			return;
		if (sample->time_ns < steps->times[step].from_ns ||
		    kind_of_step(c->slow, steps, step, c->periodic) != wanted)
			continue;
		add(c, &sample->what, wanted == STEP_WANTED ? ns : -c->scale * ns);
	}
}

/* The part of a function's extra time that is in its callee. */
#define CALLEE_SHARE 0.25

int slow_steps_cause(struct slow_cause *cause, const struct slow_steps *slow,
		     const struct profile_process *process, bool periodic)
{
	const struct profile_steps *steps = &process->steps;
	struct comparison *c = calloc(1, sizeof(*c));
	size_t counts[STEP_LEFT_OUT + 1] = {0};
	struct slow_place lead, callee;
	bool failed;

	*cause = (struct slow_cause){.file = "", .rival = ""};
	if (!c)
		return -ENOMEM;
	*c = (struct comparison){
		.slow = slow, .steps = steps, .periodic = periodic, .cause = cause};
	for (size_t i = 0; i < steps->times_count; i++)
		counts[kind_of_step(slow, steps, i, periodic)]++;
	if (counts[STEP_ORDINARY])
		c->scale = (double)counts[STEP_WANTED] / (double)counts[STEP_ORDINARY];
	/* places of slow steps first: there is room for so many */
	compare_samples(c, STEP_WANTED, count_shares);
	compare_samples(c, STEP_ORDINARY, count_shares);
	compare_samples(c, STEP_WANTED, compare_sample);
	compare_samples(c, STEP_ORDINARY, compare_sample);
	for (size_t i = 0; i < steps->times_count; i++) {
		enum step_kind kind = kind_of_step(slow, steps, i, periodic);
		double scale = kind == STEP_WANTED ? 1 : -c->scale;

		for (int phase = 0; phase < PROFILE_PHASES && kind != STEP_LEFT_OUT; phase++)
			cause->phases[phase] += scale * (double)steps->times[i].phases[phase];
	}
	lead = places_lead(&c->lines);
	cause->place = lead.frame;
	cause->place_ns = lead.ns;
	cause->place_is_new = lead.frame && is_of_slow_steps(c, lead.frame, SHARE_OF_FUNCTION);
	callee = places_lead(&c->callees);
	if (callee.ns >= CALLEE_SHARE * lead.ns)
		cause->callee = callee.frame;
	if (lead.frame && !location_is_own_python(lead.frame))
		cause->caller = places_lead(&c->callers).frame;
	cause->file = names_lead(&c->names[SLOW_DISK]);
	/* samples do not say who had the CPU, waits do: longest first */
	for (size_t i = 0; i < process->blocked.count && !cause->rival[0]; i++) {
		const struct profile_activity *wait = &process->blocked.list[i];

		if (wait->tid == steps->tid && wait->reason == PERFX_WAIT_RUNNABLE &&
		    wait->rival_kind != PROFILE_RIVAL_OWN)
			cause->rival = wait->object_name;
	}
	failed = c->failed;
	map64_clear(&c->shares.ids);
	free(c->shares.list);
	free(c);
	return failed ? -ENOMEM : 0;
}
