/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calling contexts of a process, by id: which are calls, which ranges, and which prepare data;
 * and the Python functions that prepare its batches where no library's name says so.
 *
 * A training loop gets each batch from an iterator or by a call of its own:
 *
 *	for batch in batches():         a generator, which the loop resumes
 *	batch = next(reader)            an object's __next__ or __getitem__
 *	batch = get_batch(step)         a function whose name says so: "load", "read_images"; or
 *					"sample", "next_data", which mostly waits
 *
 * The loop is the function that is in (nearly) all stacks of the backward pass and the optimizer;
 * a forward pass has its own calls, but it is in none of those. So a function prepares batches if
 * the loop calls it, through other iterators (enumerate, tqdm), and if no part of the training is
 * in it.
 *
 * A loop may also prepare the batch in its own lines, by libraries that decode (PIL, zlib, json)
 * or, before the first line that calls the training, by NumPy.
 */
#ifndef PERFX_ANALYZE_CONTEXT_H
#define PERFX_ANALYZE_CONTEXT_H

#include "aggregate/profile.h"
#include "base/grow.h"

#define LOADERS_MAX 16

#define TRAINING_LOOPS_MAX 8

/* Python functions that prepare batches. Borrows. */
struct loaders {
	const struct profile_frame *list[LOADERS_MAX];
	size_t count;
	/* The program's functions that contain the training, and the first line that calls it:
	 * decoding there, outside of the training, also prepares batches. */
	struct training_loop {
		const struct profile_frame *function;
		uint32_t training_line;
	} loops[TRAINING_LOOPS_MAX];
	size_t loops_count;
};

/* The calling contexts of a process, by id. Borrows. */
struct contexts {
	const struct profile *profile;
	const struct profile_process *process;
	struct map64 places; /* id → process->contexts[] */
	struct map64
		batches; /* functions that fetch a loader's next batch, and whose ends are seen */
	bool has_loader; /* a framework's, by the name of its range */
	struct loaders loaders;
};

/* 0 or -ENOMEM; to be cleared in both cases. */
int contexts_begin(struct contexts *contexts, const struct profile *profile,
		   const struct profile_process *process);
void contexts_clear(struct contexts *contexts);
/* NULL: 0, or not known. */
const struct profile_context *context_of(const struct contexts *contexts, uint32_t id);
/* Is a traced call the innermost? A range does not count. */
bool context_is_call(const struct contexts *contexts, uint32_t id);
/* Is it in a range of a data loader's next batch? */
bool context_is_data(const struct contexts *contexts, uint32_t id);
/* The same, by a range or by the stack. */
bool sample_is_of_batch(const struct contexts *contexts, const struct profile_activity *sample);
bool stack_is_of_batch(const struct contexts *contexts, const struct profile_stack *stack);
/* May the function prepare batches, by its name and kind? */
bool frame_may_load(const struct profile_frame *frame);
/* A range, or what has no name in PyTorch 1.13 (plan/annotations.c): it does no work itself. */
bool function_is_marker(const struct profile_function *function);

#endif
