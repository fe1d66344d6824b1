// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/spinning.h"

#include "analyze/stack_kind.h"
#include "analyze/thread_pool.h"
#include "base/grow.h"
#include "base/text.h"
#include "cost/gpu_calls.h"

#include <stdlib.h>
#include <string.h>

/* The loop of a barrier has two or three instructions. Loops that compute are unrolled, and longer.
 */
#define SPIN_LOOP_BYTES 8
/* Share of the samples in code that was compiled at run time. */
#define SPIN_LOOP_SHARE 0.30
#define SPIN_SAMPLES	30

static bool is_in_loop(uint64_t loop, uint64_t address)
{
	return loop && address + SPIN_LOOP_BYTES > loop && address < loop + SPIN_LOOP_BYTES;
}

/* In a kernel of oneDNN that was compiled at run time: these have barriers. Compiled loops of the
 * program have none, but samples also meet a short loop at few addresses, where it waits for a
 * division or a root. loop: around that address, 0: anywhere. */
static bool is_compiled(const struct profile_activity *sample, uint64_t loop)
{
	const struct profile_stack *stack = sample->stack;

	return stack && stack->frames_count && !stack->frames[0]->module[0] &&
	       stack->frames[0]->language != PERFX_LANGUAGE_PYTHON &&
	       (!loop || is_in_loop(loop, stack->frames[0]->address)) &&
	       sample->state == PERFX_SAMPLE_ON_CPU && stack_is_of_pool(stack) &&
	       stack_has(stack, CODE_ONEDNN);
}

static uint64_t samples_in_loop(const struct profile_activities *samples, uint64_t loop)
{
	uint64_t count = 0;

	for (size_t i = 0; i < samples->count; i++)
		if (is_compiled(&samples->list[i], loop))
			count += samples->list[i].count;
	return count;
}

/* Rows are sorted by frequency: only the first ones can contain a loop. */
#define LOOP_TRIES 16

static uint64_t find_loop(const struct profile_activities *samples)
{
	uint64_t all = 0, most = 0, loop = 0;
	unsigned tries = 0;

	for (size_t i = 0; i < samples->count; i++)
		if (is_compiled(&samples->list[i], 0))
			all += samples->list[i].count;
	for (size_t i = 0; i < samples->count && tries < LOOP_TRIES; i++) {
		uint64_t address, count;

		if (!is_compiled(&samples->list[i], 0))
			continue;
		tries++;
		address = samples->list[i].stack->frames[0]->address;
		count = samples_in_loop(samples, address);
		if (count > most) {
			most = count;
			loop = address;
		}
	}
	return most >= SPIN_SAMPLES && (double)most >= SPIN_LOOP_SHARE * (double)all ? loop : 0;
}

struct spinning spinning_of(const struct profile_process *process)
{
	return (struct spinning){.loop_address = find_loop(&process->samples)};
}

/* CUDA's waits poll unless the program has chosen blocking waits. */
static bool polls_gpu(const struct profile_stack *stack)
{
	for (size_t i = 0; i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];
		const struct gpu_call *call = begins_with(frame->module_base, "libcuda")
						      ? gpu_call_find(frame->function)
						      : NULL;

		if (call && call->op == PERFX_GPU_OP_SYNC)
			return true;
	}
	return false;
}

static bool polls_child(const struct profile_stack *stack)
{
	size_t python = stack_innermost_python(stack);

	return python < stack->frames_count && frame_is(stack->frames[python], CODE_CHILD_POLL);
}

/* By the innermost frame alone. The code of a pool itself polls for work, whichever function calls
 * it. */
static bool frame_spins(const struct profile_frame *frame)
{
	return frame->spins || frame_is(frame, CODE_POOL_RUNTIME) ||
	       frame_is(frame, CODE_POOL_WAIT) || frame_is(frame, CODE_SPIN_LOCK) ||
	       frame_is(frame, CODE_POLL);
}

bool stack_spins(const struct spinning *spinning, const struct profile_stack *stack)
{
	const struct profile_frame *first = stack && stack->frames_count ? stack->frames[0] : NULL;

	if (!first)
		return false;
	if (first->language != PERFX_LANGUAGE_PYTHON &&
	    (frame_spins(first) ||
	     (!first->module[0] && is_in_loop(spinning->loop_address, first->address) &&
	      stack_is_of_pool(stack))))
		return true;
	return polls_gpu(stack) || polls_child(stack);
}

bool sample_spins(const struct spinning *spinning, const struct profile_activity *sample)
{
	return sample->state == PERFX_SAMPLE_ON_CPU && stack_spins(spinning, sample->stack);
}

/* Texts of frames and lines are interned. */
static bool is_line_of(const struct profile_line *line, const struct profile_frame *frame)
{
	return line->file == frame->file && line->function == frame->function &&
	       line->line == frame->line && line->language == frame->language &&
	       (line->line || !strcmp(line->module_base, frame->module_base)) &&
	       (line->line || line->function[0] || line->offset == frame->offset);
}

uint64_t *spinning_of_lines(const struct profile_process *process)
{
	const struct spinning spinning = spinning_of(process);
	uint64_t *ns = calloc(process->lines_count + 1, sizeof(*ns));

	FOR_EACH_OF (sample, process->samples) {
		if (!ns || !sample_spins(&spinning, sample))
			continue;
		for (int language = PERFX_LANGUAGE_NATIVE; language <= PERFX_LANGUAGE_PYTHON;
		     language++) {
			const struct profile_frame *frame =
				profile_sample_line(sample->stack, language);
			size_t i = 0;

			while (frame && i < process->lines_count &&
			       !is_line_of(&process->lines[i], frame))
				i++;
			if (frame && i < process->lines_count)
				ns[i] += sample->ns;
		}
	}
	return ns;
}
