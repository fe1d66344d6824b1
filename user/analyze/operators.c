// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/operators.h"

#include "analyze/driver.h"
#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/stack_kind.h"
#include "analyze/thread_pool.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function, or without symbols so many bytes of code, is a loop if it has this part of the
 * samples in operators beneath a line, and so many samples. The costliest functions of PyTorch's
 * dispatch have 4 %. */
#define LOOP_SHARE   0.05
#define LOOP_SAMPLES 4
#define LOOP_SHIFT   8 /* 256 bytes */

static bool is_torch(const struct profile_frame *frame)
{
	return begins_with(frame->module_base, "libtorch") ||
	       begins_with(frame->module_base, "libc10");
}

static bool is_xla(const struct profile_frame *frame)
{
	static const char *const prefixes[] = {"libjax", "_jax", "xla_extension", NULL};

	return text_begins_with_one_of(frame->module_base, prefixes);
}

/* Libraries that dispatch operators. */
static bool is_framework(const struct profile_frame *frame)
{
	static const char *const prefixes[] = {"_multiarray_umath", "libtensorflow",
					       "_pywrap_tensorflow", NULL};

	return text_begins_with_one_of(frame->module_base, prefixes) || is_torch(frame) ||
	       is_xla(frame);
}

static bool is_copy(const struct profile_frame *frame)
{
	struct profile_function function = {.source = PERFX_SOURCE_TORCH, .name = frame->function};

	return begins_with(frame->function, "at::_ops::") &&
	       remedy_of_name(&function) == REMEDY_COPY;
}

/* The stub of a call between libraries has the name of what is before it. */
static bool is_named(const struct profile_frame *frame)
{
	return frame->function[0] && strcmp(frame->function, "_init") != 0;
}

static uint64_t hash_text(const char *text)
{
	return fnv1a(text, strlen(text));
}

static uint64_t hash_line(const struct profile_frame *frame)
{
	return hash_text(frame->function) * 31 + hash_text(frame->file) + frame->line;
}

static uint64_t hash_code(const struct profile_frame *frame)
{
	uint64_t hash = hash_text(frame->module_base);

	return hash +
	       (is_named(frame) ? hash_text(frame->function) : (frame->offset >> LOOP_SHIFT) + 1);
}

/* Whose samples they are. */
struct thread {
	const struct profile *profile;
	const struct profile_process *process;
	uint32_t tid;
	struct thread_pool pool;
};

/* A sample of a line. */
struct operator_sample {
	uint64_t line, code; /* hashes: of the line; of the innermost code, 0: of no operator */
	const struct profile_frame *frame, *innermost;
	uint64_t ns, count;
	bool kernel, copy;
	bool calls; /* of an operator, or Python of the line itself */
};

/* The copy or conversion in which a sample is, by its outermost frame; NULL: it does not copy. Time
 * without a CPU, or in a loop that polls for other threads, does not count. */
static const struct profile_frame *find_copy(const struct thread_pool *pool,
					     const struct profile_activity *sample)
{
	const struct profile_stack *stack = sample->stack;

	if (sample->state != PERFX_SAMPLE_ON_CPU || stack_spins(pool, stack))
		return NULL;
	for (size_t i = stack_innermost_python(stack); i-- > 0;)
		if (is_copy(stack->frames[i]))
			return stack->frames[i];
	return (begins_with(stack->frames[0]->function, "__memmove_") ||
		begins_with(stack->frames[0]->function, "__memcpy_"))
		       ? stack->frames[0]
		       : NULL;
}

static const struct profile_frame *innermost_python(const struct profile_activity *sample)
{
	size_t at = stack_innermost_python(sample->stack);

	return at < sample->stack->frames_count ? sample->stack->frames[at] : NULL;
}

static void examine_operator(struct operator_sample *found, const struct thread_pool *pool,
			     const struct profile_activity *sample)
{
	const struct profile_stack *stack = sample->stack;
	size_t native = stack_innermost_python(stack);
	bool in_framework = false;

	for (size_t i = 0; i < native; i++) {
		in_framework |= is_framework(stack->frames[i]);
		/* PyTorch's loop over the elements of all that is no matrix. */
		found->kernel |=
			begins_with(stack->frames[i]->function, "at::TensorIteratorBase::") &&
			strstr(stack->frames[i]->function, "for_each");
	}
	if (!in_framework)
		return;
	found->code = hash_code(found->innermost);
	found->kernel |=
		!(is_framework(found->innermost) || frame_is_interpreter(found->innermost) ||
		  frame_is_system_library(found->innermost));
	found->copy = find_copy(pool, sample);
}

/* The line of the program's own, or of any Python, that a thread is in; NULL: none. */
static const struct profile_frame *line_of(const struct profile_activity *sample, uint32_t tid)
{
	const struct profile_stack *stack = sample->stack;
	size_t at;

	if (sample->tid != tid || sample->state == PERFX_SAMPLE_WAITING || !stack)
		return NULL;
	at = location_python(stack->frames, stack->frames_count);
	return at < stack->frames_count ? stack->frames[at] : NULL;
}

/* Scales a thread's samples to its time in the steps. Two clocks take the samples of running and of
 * waiting, so together they may stand for more time than there was. */
static double part_of_samples(const struct thread *thread)
{
	uint64_t wall_ns = profile_recorded_ns(thread->profile, thread->process) -
			   thread->process->steps.outside_ns;
	uint64_t sampled_ns = 0;

	for (size_t i = 0; i < thread->process->samples.count; i++)
		if (thread->process->samples.list[i].tid == thread->tid)
			sampled_ns += activity_judged_ns(&thread->process->samples.list[i]);
	return sampled_ns > wall_ns ? (double)wall_ns / (double)sampled_ns : 1;
}

static size_t list_samples(struct operator_sample *samples, const struct thread *thread)
{
	const struct profile_activities *all = &thread->process->samples;
	double part = part_of_samples(thread);
	size_t count = 0;

	for (size_t i = 0; i < all->count; i++) {
		const struct profile_activity *sample = &all->list[i];
		const struct profile_frame *frame = line_of(sample, thread->tid);
		uint64_t ns = activity_judged_ns(sample);

		if (!frame || !activity_judged_count(sample))
			continue;
		samples[count] = (struct operator_sample){.line = hash_line(frame),
							  .frame = frame,
							  .innermost = sample->stack->frames[0],
							  .ns = (uint64_t)(part * (double)ns),
							  .count = activity_judged_count(sample)};
		examine_operator(&samples[count], &thread->pool, sample);
		samples[count].calls = samples[count].code || innermost_python(sample) == frame;
		count++;
	}
	return count;
}

ORDER(by_line_and_code, struct operator_sample, ASCENDING(a->line, b->line),
      ASCENDING(a->code, b->code))

static bool has_calls(const struct profile_process *process, uint32_t function)
{
	for (size_t i = 0; i < process->rows_count; i++)
		if (process->rows[i].function == function)
			return true;
	return false;
}

/* A function that dispatches, or one that allocates and of which no calls are recorded: where its
 * samples cluster is a probe, and no loop. */
static bool is_probed(const struct thread *thread, const struct profile_frame *frame)
{
	if (begins_with(frame->function, "at::_ops::"))
		return true;
	for (size_t i = 0; i < thread->profile->probes_count; i++) {
		const struct profile_function *function =
			profile_function(thread->profile, thread->profile->probes[i].function);

		if (function && !strcmp(function->name, frame->function) &&
		    !has_calls(thread->process, function->id))
			return true;
	}
	return false;
}

/* Samples of one code. */
static void add_code(struct operator_line *line, const struct thread *thread,
		     const struct operator_sample *samples, size_t count)
{
	uint64_t ns = 0, hits = 0;
	bool loop;

	for (size_t i = 0; i < count; i++) {
		ns += samples[i].ns;
		hits += samples[i].count;
	}
	loop = hits >= LOOP_SAMPLES && (double)ns >= LOOP_SHARE * (double)line->operators_ns &&
	       !is_probed(thread, samples->innermost);
	for (size_t i = 0; i < count; i++) {
		if (!loop && !samples[i].kernel)
			continue;
		line->kernels_ns += samples[i].ns;
		line->copies_ns += samples[i].copy ? samples[i].ns : 0;
	}
}

/* Samples of one line, ordered by their code. */
static struct operator_line sum_line(const struct thread *thread,
				     const struct operator_sample *samples, size_t count)
{
	struct operator_line line = {.frame = samples->frame};

	for (size_t i = 0; i < count; i++) {
		double ns = (double)samples[i].ns;

		line.ns += samples[i].ns;
		line.count += samples[i].count;
		line.squares += samples[i].count ? ns * ns / (double)samples[i].count : 0;
		line.operators_ns += samples[i].code ? samples[i].ns : 0;
		line.calls_ns += samples[i].calls ? samples[i].ns : 0;
	}
	for (size_t from = 0, to = 0; from < count; from = to) {
		while (to < count && samples[to].code == samples[from].code)
			to++;
		if (samples[from].code)
			add_code(&line, thread, &samples[from], to - from);
	}
	return line;
}

ORDER(by_ns, struct operator_line, DESCENDING(a->ns, b->ns))

static int sum_lines(struct operator_lines *lines, const struct thread *thread,
		     const struct operator_sample *samples, size_t count)
{
	for (size_t from = 0, to = 0; from < count; from = to) {
		while (to < count && samples[to].line == samples[from].line)
			to++;
		if (grow_array(&lines->list, &lines->capacity, lines->count + 1,
			       sizeof(*lines->list)))
			return -ENOMEM;
		lines->list[lines->count++] = sum_line(thread, &samples[from], to - from);
	}
	if (lines->count)
		qsort(lines->list, lines->count, sizeof(*lines->list), by_ns);
	return 0;
}

int operator_lines_find(struct operator_lines *lines, const struct profile *profile,
			const struct profile_process *process, uint32_t tid)
{
	struct operator_sample *samples = calloc(process->samples.count + 1, sizeof(*samples));
	struct thread thread = {profile, process, tid, {0}};
	size_t count;
	int err = samples ? thread_pool_find(&thread.pool, process, tid) : -ENOMEM;

	*lines = (struct operator_lines){0};
	if (!err) {
		count = list_samples(samples, &thread);
		qsort(samples, count, sizeof(*samples), by_line_and_code);
		err = sum_lines(lines, &thread, samples, count);
	}
	free(samples);
	return err;
}

uint64_t operators_handed_over_ns(const struct profile_process *process, uint32_t tid)
{
	uint64_t ns = 0;

	FOR_EACH_OF (sample, process->samples) {
		const struct profile_stack *stack = sample->stack;
		bool computes = false;

		if (sample->tid == tid || sample->state != PERFX_SAMPLE_ON_CPU || !stack ||
		    frame_is_system_library(stack->frames[0]))
			continue;
		for (size_t k = 0; k < stack->frames_count; k++)
			computes |= is_xla(stack->frames[k]);
		ns += computes ? activity_judged_ns(sample) : 0;
	}
	return ns;
}

void operator_lines_clear(struct operator_lines *lines)
{
	free(lines->list);
	*lines = (struct operator_lines){0};
}

/* The outermost operator; of other frameworks the outermost function. NULL: it has no name. */
static const char *operator_of(const struct profile_stack *stack)
{
	const char *name = NULL;

	for (size_t i = stack_innermost_python(stack); i-- > 0;) {
		const struct profile_frame *frame = stack->frames[i];

		if (begins_with(frame->function, "at::_ops::") ||
		    strstr(frame->function, "THPVariable_"))
			return frame_label(frame);
		if (!name && is_framework(frame) && !is_torch(frame) && is_named(frame))
			name = frame_label(frame);
	}
	return name;
}

static void names_add(struct operator_names *names, const char *name, uint64_t ns)
{
	names->ns += ns;
	for (size_t i = 0; i < names->count; i++) {
		if (strcmp(names->list[i].name, name) != 0)
			continue;
		names->list[i].ns += ns;
		return;
	}
	if (names->count < OPERATOR_NAMES)
		names->list[names->count++] = (struct operator_name){name, ns};
}

ORDER(by_name_ns, struct operator_name, DESCENDING(a->ns, b->ns))

/* name_of: of a sample; NULL: it does not count. */
static int find_names(struct operator_names *names, const struct profile_process *process,
		      uint32_t tid, const struct profile_frame *line,
		      const char *(*name_of)(const struct thread_pool *pool,
					     const struct profile_activity *sample))
{
	struct thread_pool pool;
	int err = thread_pool_find(&pool, process, tid);

	*names = (struct operator_names){0};
	for (size_t i = 0; i < process->samples.count && !err; i++) {
		const struct profile_activity *sample = &process->samples.list[i];
		const struct profile_frame *frame = line_of(sample, tid);
		const char *name;

		if (!frame || hash_line(frame) != hash_line(line))
			continue;
		name = name_of(&pool, sample);
		if (name)
			names_add(names, name, activity_judged_ns(sample));
	}
	qsort(names->list, names->count, sizeof(*names->list), by_name_ns);
	return err;
}

static const char *operator_name(const struct thread_pool *pool,
				 const struct profile_activity *sample)
{
	(void)pool;
	return operator_of(sample->stack);
}

static const char *copying_operator(const struct thread_pool *pool,
				    const struct profile_activity *sample)
{
	const struct profile_frame *copy = find_copy(pool, sample);

	return copy ? frame_label(copy) : NULL;
}

int operator_names_find(struct operator_names *names, const struct profile_process *process,
			uint32_t tid, const struct profile_frame *line)
{
	return find_names(names, process, tid, line, operator_name);
}

int operator_copies_find(struct operator_names *names, const struct profile_process *process,
			 uint32_t tid, const struct profile_frame *line)
{
	return find_names(names, process, tid, line, copying_operator);
}

#define DISPATCH "at::_ops::"

/* "at::_ops::mul_Tensor::redispatch" has no label: use the label of the call around it. */
static void name_dispatched(const struct profile_stack *stack, size_t at, size_t native, char *name,
			    size_t size)
{
	const char *call = stack->frames[at]->function;
	size_t length = strcspn(call + strlen(DISPATCH), ":") + strlen(DISPATCH);

	for (size_t i = at; i < native; i++) {
		const struct profile_frame *frame = stack->frames[i];

		if (strncmp(frame->function, call, length) != 0 ||
		    !begins_with(frame_label(frame), "aten::"))
			continue;
		/* without the overload of "aten::add.Tensor" */
		snprintf(name, size, "%.*s", (int)strcspn(frame->label, "."), frame->label);
		return;
	}
	snprintf(name, size, "aten::%.*s", (int)(length - strlen(DISPATCH)),
		 call + strlen(DISPATCH));
}

/* The innermost operator of PyTorch in which a thread is. False: in none. */
static bool name_operator(const struct profile_stack *stack, char *name, size_t size)
{
	size_t native = stack ? stack_innermost_python(stack) : 0;

	for (size_t i = 0; i < native; i++) {
		if (!begins_with(stack->frames[i]->function, DISPATCH))
			continue;
		name_dispatched(stack, i, native, name, size);
		return true;
	}
	return false;
}

/* Has the innermost traced call that time? */
static bool is_explained(const struct contexts *contexts, const struct profile_activity *sample)
{
	const struct profile_context *context = context_of(contexts, sample->context);
	const struct profile_function *function =
		context ? profile_function(contexts->profile, context->function) : NULL;

	return context_is_call(contexts, sample->context) &&
	       !(function && remedy_of_name(function) == REMEDY_AUTOGRAD);
}

static void add_operator(struct sampled_operators *operators, const char *name,
			 const struct profile_activity *sample)
{
	size_t i = 0;

	while (i < operators->count && strcmp(operators->list[i].name, name) != 0)
		i++;
	if (i == SAMPLED_OPERATORS_MAX)
		return;
	if (i == operators->count)
		snprintf(operators->list[operators->count++].name, sizeof(operators->list[i].name),
			 "%s", name);
	operators->list[i].ns += sample->ns;
	operators->list[i].count += sample->count;
}

ORDER(by_operator_ns, struct sampled_operator, DESCENDING(a->ns, b->ns), strcmp(a->name, b->name))

int sampled_operators_find(struct sampled_operators *operators, const struct profile *profile,
			   const struct profile_process *process)
{
	struct contexts contexts;
	int err = contexts_begin(&contexts, profile, process);

	*operators = (struct sampled_operators){0};
	for (size_t i = 0; i < process->samples.count && !err; i++) {
		const struct profile_activity *sample = &process->samples.list[i];
		char name[sizeof(operators->list->name)];

		if (sample->state == PERFX_SAMPLE_ON_CPU && !is_explained(&contexts, sample) &&
		    name_operator(sample->stack, name, sizeof(name)))
			add_operator(operators, name, sample);
	}
	contexts_clear(&contexts);
	qsort(operators->list, operators->count, sizeof(*operators->list), by_operator_ns);
	return err;
}
