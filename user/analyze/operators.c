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

	if (sample->state != PERFX_SAMPLE_ON_CPU || stack_spins(&pool->spinning, stack))
		return NULL;
	for (size_t i = stack_innermost_python(stack); i-- > 0;) {
		const struct profile_function function = {.source = PERFX_SOURCE_TORCH,
							  .name = stack->frames[i]->function};

		if (begins_with(function.name, "at::_ops::") &&
		    remedy_of_name(&function) == REMEDY_COPY)
			return stack->frames[i];
	}
	return (begins_with(stack->frames[0]->function, "__memmove_") ||
		begins_with(stack->frames[0]->function, "__memcpy_"))
		       ? stack->frames[0]
		       : NULL;
}

/* Does a sample's innermost code belong to an operator, and what does it do there? */
static void examine_operator(struct operator_sample *found, const struct thread_pool *pool,
			     const struct profile_activity *sample)
{
	const struct profile_stack *stack = sample->stack;
	const struct profile_frame *innermost = found->innermost;
	bool in_framework = false;

	for (size_t i = 0; i < stack_innermost_python(stack); i++) {
		in_framework |= is_framework(stack->frames[i]);
		/* PyTorch's loop over the elements, in all but products of matrices */
		found->kernel |=
			begins_with(stack->frames[i]->function, "at::TensorIteratorBase::") &&
			strstr(stack->frames[i]->function, "for_each");
	}
	if (!in_framework)
		return;
	found->code = hash_text(innermost->module_base) +
		      (is_named(innermost) ? hash_text(innermost->function)
					   : (innermost->offset >> LOOP_SHIFT) + 1);
	found->kernel |= !(is_framework(innermost) || frame_is_interpreter(innermost) ||
			   frame_is_system_library(innermost));
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

/* Lists a thread's samples, scaled to its time in the steps: two clocks take the samples of running
 * and of waiting, so together they may stand for more time than there was. */
static size_t list_samples(struct operator_sample *samples, const struct thread *thread)
{
	const struct profile_process *process = thread->process;
	uint64_t wall_ns =
		profile_recorded_ns(thread->profile, process) - process->steps.outside_ns;
	uint64_t sampled_ns = 0;
	size_t count = 0;
	double part;

	FOR_EACH_OF (sample, process->samples)
		sampled_ns += sample->tid == thread->tid ? activity_judged_ns(sample) : 0;
	part = sampled_ns > wall_ns ? (double)wall_ns / (double)sampled_ns : 1;
	FOR_EACH_OF (sample, process->samples) {
		const struct profile_frame *frame = line_of(sample, thread->tid);
		struct operator_sample *listed = &samples[count];
		size_t python;

		if (!frame || !activity_judged_count(sample))
			continue;
		*listed = (struct operator_sample){
			.line = hash_line(frame),
			.frame = frame,
			.innermost = sample->stack->frames[0],
			.ns = (uint64_t)(part * (double)activity_judged_ns(sample)),
			.count = activity_judged_count(sample)};
		examine_operator(listed, &thread->pool, sample);
		python = stack_innermost_python(sample->stack);
		listed->calls = listed->code || (python < sample->stack->frames_count &&
						 sample->stack->frames[python] == frame);
		count++;
	}
	return count;
}

/* A function that dispatches, or one that allocates and of which no calls are recorded: where its
 * samples cluster is a probe, and no loop. */
static bool is_probed(const struct thread *thread, const struct profile_frame *frame)
{
	if (begins_with(frame->function, "at::_ops::"))
		return true;
	FOR_EACH (probe, thread->profile->probes) {
		const struct profile_function *function =
			profile_function(thread->profile, probe->function);
		bool has_calls = false;

		if (!function || strcmp(function->name, frame->function) != 0)
			continue;
		FOR_EACH (row, thread->process->rows)
			has_calls |= row->function == function->id;
		if (!has_calls)
			return true;
	}
	return false;
}

/* Sums samples of one line, ordered by their code. */
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
		uint64_t ns = 0, hits = 0;
		bool is_loop;

		for (; to < count && samples[to].code == samples[from].code; to++) {
			ns += samples[to].ns;
			hits += samples[to].count;
		}
		if (!samples[from].code)
			continue;
		is_loop = hits >= LOOP_SAMPLES &&
			  (double)ns >= LOOP_SHARE * (double)line.operators_ns &&
			  !is_probed(thread, samples[from].innermost);
		for (size_t i = from; i < to; i++) {
			bool is_kernel = is_loop || samples[i].kernel;

			line.kernels_ns += is_kernel ? samples[i].ns : 0;
			line.copies_ns += is_kernel && samples[i].copy ? samples[i].ns : 0;
		}
	}
	return line;
}

ORDER(by_line_and_code, struct operator_sample, ASCENDING(a->line, b->line),
      ASCENDING(a->code, b->code))

ORDER(by_ns, struct operator_line, DESCENDING(a->ns, b->ns))

int operator_lines_find(struct operator_lines *lines, const struct profile *profile,
			const struct profile_process *process, uint32_t tid)
{
	struct operator_sample *samples = calloc(process->samples.count + 1, sizeof(*samples));
	struct thread thread = {profile, process, tid, {0}};
	size_t count;
	int err = samples ? thread_pool_find(&thread.pool, process, tid) : -ENOMEM;

	*lines = (struct operator_lines){0};
	count = err ? 0 : list_samples(samples, &thread);
	if (count)
		qsort(samples, count, sizeof(*samples), by_line_and_code);
	for (size_t from = 0, to = 0; from < count && !err; from = to) {
		while (to < count && samples[to].line == samples[from].line)
			to++;
		err = LIST_ADD_TO(lines, sum_line(&thread, &samples[from], to - from));
	}
	if (lines->count)
		qsort(lines->list, lines->count, sizeof(*lines->list), by_ns);
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

		size_t at = 0;

		if (!frame || hash_line(frame) != hash_line(line))
			continue;
		name = name_of(&pool, sample);
		if (!name)
			continue;
		names->ns += activity_judged_ns(sample);
		while (at < names->count && strcmp(names->list[at].name, name) != 0)
			at++;
		if (at == OPERATOR_NAMES)
			continue;
		names->count += at == names->count;
		names->list[at].name = name;
		names->list[at].ns += activity_judged_ns(sample);
	}
	qsort(names->list, names->count, sizeof(*names->list), by_name_ns);
	return err;
}

/* The outermost operator; of other frameworks the outermost function. NULL: it has no name. */
static const char *operator_name(const struct thread_pool *pool,
				 const struct profile_activity *sample)
{
	const char *name = NULL;

	(void)pool;
	for (size_t i = stack_innermost_python(sample->stack); i-- > 0;) {
		const struct profile_frame *frame = sample->stack->frames[i];

		if (begins_with(frame->function, "at::_ops::") ||
		    strstr(frame->function, "THPVariable_"))
			return frame_label(frame);
		if (!name && is_framework(frame) && !is_torch(frame) && is_named(frame))
			name = frame_label(frame);
	}
	return name;
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

/* Writes the innermost operator of PyTorch in which a thread is. False: it is in none. */
static bool name_operator(const struct profile_stack *stack, char *name, size_t size)
{
	size_t native = stack ? stack_innermost_python(stack) : 0, at = 0, length;
	const char *call;

	while (at < native && !begins_with(stack->frames[at]->function, DISPATCH))
		at++;
	if (at == native)
		return false;
	call = stack->frames[at]->function;
	length = strcspn(call + strlen(DISPATCH), ":");
	/* "at::_ops::mul_Tensor::redispatch" has no label: use the label of the call around it */
	for (; at < native; at++) {
		const struct profile_frame *frame = stack->frames[at];

		if (strncmp(frame->function, call, strlen(DISPATCH) + length) != 0 ||
		    !begins_with(frame_label(frame), "aten::"))
			continue;
		/* without the overload of "aten::add.Tensor" */
		snprintf(name, size, "%.*s", (int)strcspn(frame->label, "."), frame->label);
		return true;
	}
	snprintf(name, size, "aten::%.*s", (int)length, call + strlen(DISPATCH));
	return true;
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
		const struct profile_context *context = context_of(&contexts, sample->context);
		const struct profile_function *function =
			context ? profile_function(profile, context->function) : NULL;
		/* the innermost traced call has that time */
		bool is_explained = context_is_call(&contexts, sample->context) &&
				    !(function && remedy_of_name(function) == REMEDY_AUTOGRAD);
		char name[sizeof(operators->list->name)];
		size_t at = 0;

		if (sample->state != PERFX_SAMPLE_ON_CPU || is_explained ||
		    !name_operator(sample->stack, name, sizeof(name)))
			continue;
		while (at < operators->count && strcmp(operators->list[at].name, name) != 0)
			at++;
		if (at == SAMPLED_OPERATORS_MAX)
			continue;
		operators->count += at == operators->count;
		strcpy(operators->list[at].name, name);
		operators->list[at].ns += sample->ns;
		operators->list[at].count += sample->count;
	}
	contexts_clear(&contexts);
	qsort(operators->list, operators->count, sizeof(*operators->list), by_operator_ns);
	return err;
}
