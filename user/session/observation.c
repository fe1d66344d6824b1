// SPDX-License-Identifier: BSD-2-Clause
#include "session/observation.h"

#include "aggregate/statistics.h"
#include "aggregate/steps.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
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

/* Two of them. */
static double errors_of(const double *values, size_t count)
{
	double mean = 0, squares = 0;

	for (size_t i = 0; i < count; i++)
		mean += values[i] / (double)count;
	for (size_t i = 0; i < count; i++)
		squares += (values[i] - mean) * (values[i] - mean);
	return count < 2 ? 0 : 2 * sqrt(squares / (double)(count - 1) / (double)count);
}

uint64_t unprobed_median(const struct unprobed *unprobed, uint64_t *noise_ns)
{
	size_t before_count = unprobed->before_count, after_count = unprobed->after_count;
	double before = (double)median_u64(unprobed->before_ns, before_count);
	double after = (double)median_u64(unprobed->after_ns, after_count);
	double parts[2 * PARTS];
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
	*noise_ns = (uint64_t)hypot(errors_of(parts, count), (after - before) / 2);
	return (uint64_t)((before + after) / 2);
}

/* Ends of steps by calls of one function on one thread. */
struct series {
	uint32_t process, tid, function;
	uint64_t last_ns; /* 0: none yet of this time */
	bool last_after;
	uint64_t *before_ns, *after_ns;
	size_t before_count, before_capacity, after_count, after_capacity;
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
	uint64_t begin_ns, observed_ns;
	struct pack_buffer buffer;
};

static void note_function(struct observation *observation, const struct perfx_function *function)
{
	const char *name = (const char *)function + function->hdr.fixed;

	if (observation->functions_count < FUNCTIONS_MAX &&
	    is_step(function->source, name, function->flags))
		observation->functions[observation->functions_count++] = function->function;
}

static bool ends_step(const struct observation *observation, const struct perfx_span *span)
{
	if (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED))
		return false;
	for (size_t i = 0; i < observation->functions_count; i++)
		if (observation->functions[i] == span->function)
			return true;
	return false;
}

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
	uint64_t end_ns = span->start_ns + span->duration_ns, step_ns;

	if (!series)
		return;
	step_ns = end_ns - series->last_ns;
	if (series->last_ns && series->last_after == observation->after) {
		if (observation->after && !grow_array(&series->after_ns, &series->after_capacity,
						      series->after_count + 1, sizeof(step_ns)))
			series->after_ns[series->after_count++] = step_ns;
		if (!observation->after && !grow_array(&series->before_ns, &series->before_capacity,
						       series->before_count + 1, sizeof(step_ns)))
			series->before_ns[series->before_count++] = step_ns;
	}
	series->last_ns = end_ns;
	series->last_after = observation->after;
}

static bool is_early(const struct observation *observation, const struct perfx_span *span)
{
	return span->start_ns + span->duration_ns < observation->from_ns;
}

static bool is_fact(unsigned kind)
{
	switch (kind) {
#define FACT_OF(kind, name, number, bytes, least, strings, role) \
	case PERFX_KIND_##kind:                                  \
		return PERFX_ROLE_##role == PERFX_ROLE_FACT;
		PERFX_RECORDS(FACT_OF)
#undef FACT_OF
	default:
		return false;
	}
}

static void on_record(struct sink *sink, const void *record, size_t size)
{
	struct observation *observation = (struct observation *)sink;
	const struct perfx_record *header = record;
	bool is_span = header->kind == PERFX_KIND_SPAN;

	if (header->kind == PERFX_KIND_FUNCTION)
		note_function(observation, record);
	if (!observation->done &&
	    (observation->after || (is_span && is_early(observation, record)))) {
		if (is_span && ends_step(observation, record))
			note_end(observation, record);
		if (!is_fact(header->kind))
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
		free(observation->series[i].before_ns);
		free(observation->series[i].after_ns);
	}
	free(observation);
}

struct sink *observation__sink(struct observation *observation)
{
	return &observation->sink;
}

static struct main_thread *thread_of(struct observation *observation, pid_t pid)
{
	for (size_t i = 0; i < observation->threads_count; i++)
		if (observation->threads[i].pid == pid)
			return &observation->threads[i];
	if (observation->threads_count == THREADS_MAX)
		return NULL;
	observation->threads[observation->threads_count] = (struct main_thread){.pid = pid};
	return &observation->threads[observation->threads_count++];
}

/* UINT64_MAX: not known. */
static uint64_t cpu_wait_ns(pid_t pid)
{
	struct thread_usage usage;

	return thread_usage(pid, pid, &usage) ? UINT64_MAX : usage.runnable_ns;
}

static void begin(struct observation *observation, const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct main_thread *thread = thread_of(observation, pids[i]);

		if (thread)
			thread->begin_wait_ns = cpu_wait_ns(pids[i]);
	}
	observation->begin_ns = clock_monotonic_ns();
}

static void end(struct observation *observation)
{
	observation->observed_ns += clock_monotonic_ns() - observation->begin_ns;
	FOR_EACH (thread, observation->threads) {
		uint64_t now_ns = cpu_wait_ns(thread->pid);

		if (now_ns != UINT64_MAX && now_ns > thread->begin_wait_ns)
			thread->wait_ns += now_ns - thread->begin_wait_ns;
	}
}

/* How often it is asked whether the user has interrupted. */
#define WATCH_TICK_NS 20000000u

void observation__watch(struct observation *observation, struct tracer *tracer, const pid_t *pids,
			size_t count, uint64_t ns)
{
	uint64_t until_ns = clock_monotonic_ns() + ns;

	begin(observation, pids, count);
	tracer__observe(tracer, true);
	while (!interrupt_asked() && clock_monotonic_ns() < until_ns)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = WATCH_TICK_NS},
				NULL);
	tracer__observe(tracer, false);
	end(observation);
}

void observation__recording(struct observation *observation, uint64_t from_ns)
{
	observation->from_ns = from_ns;
}

void observation__after(struct observation *observation)
{
	observation->after = true;
}

static void emit_series(struct observation *observation, const struct series *series)
{
	struct unprobed unprobed = {.before_ns = series->before_ns,
				    .before_count = series->before_count,
				    .after_ns = series->after_ns,
				    .after_count = series->after_count};
	struct perfx_unprobed_steps record = {.steps_count =
						      series->before_count + series->after_count,
					      .process = series->process,
					      .function = series->function,
					      .tid = series->tid};

	uint64_t noise_ns;

	for (size_t i = 0; i < observation->threads_count; i++)
		if (observation->threads[i].pid == (pid_t)series->tid && observation->observed_ns)
			record.cpu_wait_ppm =
				(uint32_t)(1e6 * (double)observation->threads[i].wait_ns /
					   (double)observation->observed_ns);
	record.step_ns = unprobed_median(&unprobed, &noise_ns);
	record.noise_ns = noise_ns;
	SINK_PACK(observation->next, &observation->buffer, PERFX_KIND_UNPROBED_STEPS, record);
}

void observation__emit(struct observation *observation)
{
	observation->done = true;
	for (size_t i = 0; i < observation->series_count; i++)
		emit_series(observation, &observation->series[i]);
}
