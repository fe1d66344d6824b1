/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Python functions that prepare a process's batches, where no library's name says so.
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
#ifndef PERFX_ANALYZE_LOADERS_H
#define PERFX_ANALYZE_LOADERS_H

#include "analyze/account.h"

/* Searches the stacks of the thread that drives the steps. Finds none if the steps have a data
 * phase, which is exact. */
void loaders_find(struct loaders *loaders, const struct contexts *contexts);
/* May the function prepare batches, by its name and kind? */
bool frame_may_load(const struct profile_frame *frame);
bool loaders_have(const struct loaders *loaders, const struct profile_stack *stack);

#endif
