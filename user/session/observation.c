// SPDX-License-Identifier: BSD-2-Clause
#include "session/observation.h"

#include "aggregate/statistics.h"
#include "aggregate/steps.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/units.h"
#include "proc/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_step(unsigned source, const char *name, unsigned flags)
{
	return step_class(source, name, flags) & STEP_RANK_MASK;
}

/* Ranges end steps by their functions only if the user named one: PyTorch's own come many times per
 * step, and a backward pass ends a step, too. */
bool observation_ends_steps(const struct plan *plan, const struct plan_function *function)
{
	const char *named = plan->options.step_range;

	if (named)
		return plan_is_annotation(function) || !strcmp(function->name, named);
	return function->role == PLAN_CALLS &&
	       is_step(function->source, function->name, function->stream_flags);
}

bool observation_is_possible(const struct plan *plan)
{
	for (size_t i = 0; i < plan->functions_count; i++)
		if (observation_ends_steps(plan, &plan->functions[i]))
			return true;
	return false;
}

/* Parts of the steps of either time. */
#define PARTS	  4
#define STEPS_MIN 3

static size_t add_parts(const uint64_t *steps_ns, size_t count, double *parts)
{
	size_t n = count < PARTS ? count : PARTS;

	for (size_t i = 0; i < n; i++) {
		size_t from = count * i / n, to = count * (i + 1) / n;

		parts[i] = (double)median_u64(steps_ns + from, to - from);
	}
	return n;
}

uint64_t unprobed_median(const struct unprobed *unprobed, uint64_t *noise_ns)
{
	size_t before_count = unprobed->before_count, after_count = unprobed->after_count;
	double before = (double)median_u64(unprobed->before_ns, before_count);
	double after = (double)median_u64(unprobed->after_ns, after_count);
	double parts[2 * PARTS], mean = 0, squares = 0, errors = 0;
	size_t count;

	*noise_ns = 0;
	if (before_count < STEPS_MIN && after_count < STEPS_MIN)
		return 0;
	if (before_count < STEPS_MIN)
		before = after, before_count = 0;
	if (after_count < STEPS_MIN)
		after = before, after_count = 0;
	count = add_parts(unprobed->before_ns, before_count, parts);
	/* as far as they differ among themselves: how the two times differ is the other term */
	for (size_t i = 0; i < count; i++)
		parts[i] += after - before;
	count += add_parts(unprobed->after_ns, after_count, parts + count);
	for (size_t i = 0; i < count; i++)
		mean += parts[i] / (double)count;
	for (size_t i = 0; i < count; i++)
		squares += (parts[i] - mean) * (parts[i] - mean);
	if (count > 1)
		errors = 2 * sqrt(squares / (double)(count - 1) / (double)count);
	*noise_ns = (uint64_t)root_of_squares(errors, (after - before) / 2);
	return (uint64_t)((before + after) / 2);
}

/* Ends of steps by calls of one function on one thread. */
struct series {
	uint32_t process, tid, function;
	uint64_t last_ns; /* 0: none yet of this time */
	bool last_after;
	struct durations {
		uint64_t *list;
		size_t count, capacity;
	} times[2]; /* before, after */
};

/* A main thread, while it was observed. */
struct main_thread {
	pid_t pid;
	uint64_t begin_wait_ns, wait_ns; /* for a CPU */
};

#define THREADS_MAX   64
#define FUNCTIONS_MAX 64
#define SERIES_MAX    256

struct observation {
	struct sink sink; /* first: the sink is the observation */
	struct sink *next;
	uint64_t from_ns; /* of the recording; UINT64_MAX: it has not begun */
	bool after, done;
	uint32_t functions[FUNCTIONS_MAX]; /* that end steps */
	size_t functions_count;
	struct series series[SERIES_MAX];
	size_t series_count;
	struct main_thread threads[THREADS_MAX];
	size_t threads_count;
	uint64_t observed_ns;
	struct pack_buffer buffer;
};

static struct series *series_of(struct observation *observation, const struct perfx_span *span)
{
	struct series *series = observation->series;

	for (size_t i = 0; i < observation->series_count; i++, series++)
		if (series->process == span->process && series->tid == span->tid &&
		    series->function == span->function)
			return series;
	if (observation->series_count == SERIES_MAX)
		return NULL;
	observation->series_count++;
	*series = (struct series){
		.process = span->process, .tid = span->tid, .function = span->function};
	return series;
}

/* A step is between two ends of the same time; without memory there are fewer. */
static void note_end(struct observation *observation, const struct perfx_span *span)
{
	struct series *series = series_of(observation, span);
	uint64_t end_ns = span->start_ns + span->duration_ns;

	if (!series)
		return;
	if (series->last_ns && series->last_after == observation->after)
		(void)LIST_ADD_TO(&series->times[observation->after], end_ns - series->last_ns);
	series->last_ns = end_ns;
	series->last_after = observation->after;
}

static void on_record(struct sink *sink, const void *record, size_t size)
{
	static const bool is_fact[PERFX_KINDS] = {
#define FACT_OF(kind, name, number, bytes, least, strings, role) \
	[PERFX_KIND_##kind] = PERFX_ROLE_##role == PERFX_ROLE_FACT,
		PERFX_RECORDS(FACT_OF)
#undef FACT_OF
	};
	struct observation *observation = (struct observation *)sink;
	const struct perfx_record *header = record;
	const struct perfx_function *function = record;
	const struct perfx_span *span = record;
	bool is_span = header->kind == PERFX_KIND_SPAN, ends_step = false;

	if (header->kind == PERFX_KIND_FUNCTION && observation->functions_count < FUNCTIONS_MAX &&
	    is_step(function->source, (const char *)record + header->fixed, function->flags))
		observation->functions[observation->functions_count++] = function->function;
	if (!observation->done &&
	    (observation->after ||
	     (is_span && span->start_ns + span->duration_ns < observation->from_ns))) {
		if (is_span && !(span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED)))
			FOR_EACH (ending, observation->functions)
				ends_step |= *ending == span->function;
		if (ends_step)
			note_end(observation, span);
		if (header->kind >= PERFX_KINDS || !is_fact[header->kind])
			return;
	}
	sink_record(observation->next, record, size);
}

_Static_assert(offsetof(struct observation, sink) == 0, "the sink is the observation");

struct observation *observation__new(struct sink *next)
{
	struct observation *observation = calloc(1, sizeof(*observation));

	if (!observation)
		return NULL;
	observation->sink.record = on_record;
	observation->from_ns = UINT64_MAX;
	observation->next = next;
	return observation;
}

void observation__free(struct observation *observation)
{
	for (size_t i = 0; observation && i < observation->series_count; i++) {
		free(observation->series[i].times[0].list);
		free(observation->series[i].times[1].list);
	}
	free(observation);
}

struct sink *observation__sink(struct observation *observation)
{
	return &observation->sink;
}

/* UINT64_MAX: not known. */
static uint64_t cpu_wait_ns(pid_t pid)
{
	struct thread_usage usage;

	return thread_usage(pid, pid, &usage) ? UINT64_MAX : usage.runnable_ns;
}

/* How often it is asked whether the user has interrupted. */
#define WATCH_TICK_NS 20000000u

void observation__watch(struct observation *observation, struct tracer *tracer, const pid_t *pids,
			size_t count, uint64_t ns)
{
	uint64_t begin_ns;

	for (size_t i = 0; i < count; i++) {
		size_t at = 0;

		while (at < observation->threads_count && observation->threads[at].pid != pids[i])
			at++;
		if (at == THREADS_MAX)
			continue;
		if (at == observation->threads_count)
			observation->threads[observation->threads_count++] =
				(struct main_thread){.pid = pids[i]};
		observation->threads[at].begin_wait_ns = cpu_wait_ns(pids[i]);
	}
	begin_ns = clock_monotonic_ns();
	tracer__observe(tracer, true);
	while (!interrupt_asked() && clock_monotonic_ns() < begin_ns + ns)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = WATCH_TICK_NS},
				NULL);
	tracer__observe(tracer, false);
	observation->observed_ns += clock_monotonic_ns() - begin_ns;
	FOR_EACH (thread, observation->threads) {
		uint64_t now_ns = cpu_wait_ns(thread->pid);

		if (now_ns != UINT64_MAX && now_ns > thread->begin_wait_ns)
			thread->wait_ns += now_ns - thread->begin_wait_ns;
	}
}

void observation__recording(struct observation *observation, uint64_t from_ns)
{
	observation->from_ns = from_ns;
}

void observation__after(struct observation *observation)
{
	observation->after = true;
}

void observation__emit(struct observation *observation)
{
	observation->done = true;
	for (size_t i = 0; i < observation->series_count; i++) {
		const struct series *series = &observation->series[i];
		const struct durations *before = &series->times[0], *after = &series->times[1];
		struct unprobed unprobed = {before->list, after->list, before->count, after->count};
		struct perfx_unprobed_steps record = {.steps_count = before->count + after->count,
						      .process = series->process,
						      .function = series->function,
						      .tid = series->tid};
		uint64_t noise_ns;

		FOR_EACH (thread, observation->threads)
			if (thread->pid == (pid_t)series->tid && observation->observed_ns)
				record.cpu_wait_ppm = (uint32_t)(1e6 * (double)thread->wait_ns /
								 (double)observation->observed_ns);
		record.step_ns = unprobed_median(&unprobed, &noise_ns);
		record.noise_ns = noise_ns;
		SINK_PACK(observation->next, &observation->buffer, PERFX_KIND_UNPROBED_STEPS,
			  record);
	}
}
