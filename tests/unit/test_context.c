// SPDX-License-Identifier: BSD-2-Clause
/* The functions of a program that prepare its batches, found by their callers. */
#include "analyze/context.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MS  1000000ull
#define TID 42

#define MAIN "/home/me/train.py"
#define FIELDS(path, name, generates)                                                           \
	{                                                                                       \
		.function = (name), .file = (path), .line = 1, .module = "", .module_base = "", \
		.is_generator = (generates), .language = PERFX_LANGUAGE_PYTHON                  \
	}
#define FRAME(path, name, generates) (&(const struct profile_frame)FIELDS(path, name, generates))
#define OWN(name)		     FRAME(MAIN, name, false)
#define GENERATOR(name)		     FRAME(MAIN, name, true)
#define TORCH			     "/venv/lib/python3.11/site-packages/torch/"
/* innermost first */
#define STACK(...)                                                       \
	(&(const struct profile_stack){                                  \
		.frames = (const struct profile_frame *[]){__VA_ARGS__}, \
		.frames_count =                                          \
			sizeof((const struct profile_frame *[]){__VA_ARGS__}) / sizeof(void *)})

#define SAMPLES_MAX 8

static const struct profile_frame backward = FIELDS(TORCH "autograd/graph.py", "backward", false),
				  layer = FIELDS(TORCH "nn/modules/linear.py", "forward", false),
				  forward = FIELDS(MAIN, "Net.forward", false),
				  step = FIELDS(MAIN, "step", false),
				  module = FIELDS(MAIN, "<module>", false),
				  loop = FIELDS(MAIN, "main", false);

/* A hundred steps of a thread, by its samples. */
struct training {
	const struct profile_frame *frames[2][5];
	struct profile_stack stacks[2];
	struct profile profile;
	struct profile_process process;
	struct profile_activity samples[SAMPLES_MAX];
};

static void add(struct training *t, const struct profile_stack *stack, bool waits, uint64_t count)
{
	t->samples[t->process.samples.count++] = (struct profile_activity){
		.tid = TID,
		.stack = stack,
		.state = waits ? PERFX_SAMPLE_WAITING : PERFX_SAMPLE_ON_CPU,
		.reason = waits ? PERFX_WAIT_SLEEP : PERFX_WAIT_NONE,
		.object_name = "",
		.count = count,
		.ns = count * 20 * MS,
	};
	t->process.samples.list = t->samples;
}

/* A backward pass below its loop, and a forward pass. */
static struct training *training_new(const struct profile_frame *of_loop)
{
	struct training *t = calloc(1, sizeof(*t));

	cr_assert_not_null(t);
	t->process.steps.count = t->process.steps.ends_count = 100;
	t->process.steps.tid = TID;
	memcpy(t->frames[0], ((const struct profile_frame *[]){&backward, &step, of_loop, &module}),
	       4 * sizeof(void *));
	memcpy(t->frames[1],
	       ((const struct profile_frame *[]){&layer, &forward, &step, of_loop, &module}),
	       5 * sizeof(void *));
	t->stacks[0] = (struct profile_stack){.frames = t->frames[0], .frames_count = 4};
	t->stacks[1] = (struct profile_stack){.frames = t->frames[1], .frames_count = 5};
	add(t, &t->stacks[0], false, 20);
	add(t, &t->stacks[1], false, 10);
	return t;
}

/* The same without samples: the call that ends the steps has a stack. */
static struct training *training_by_its_ends(struct profile_context *ends)
{
	struct training *t = calloc(1, sizeof(*t));

	cr_assert_not_null(t);
	t->process.steps.count = t->process.steps.ends_count = 100;
	t->process.steps.tid = TID;
	t->process.steps.function = ends->function;
	t->process.contexts = ends;
	t->process.contexts_count = 1;
	return t;
}

static void expect_loader(struct training *t, const struct profile_stack *stack, bool expected)
{
	struct contexts contexts;

	cr_assert_eq(contexts_begin(&contexts, &t->profile, &t->process), 0);
	cr_expect_eq(stack_is_of_batch(&contexts, stack), expected, "%s",
		     stack->frames[0]->function);
	contexts_clear(&contexts);
	free(t);
}

/* Adds so many samples of a stack to a training, and expects whether they prepare a batch. */
static void expect_of_batch(const struct profile_frame *of_loop, const struct profile_stack *stack,
			    bool waits, bool expected)
{
	struct training *t = training_new(of_loop);

	add(t, stack, waits, 50);
	expect_loader(t, stack, expected);
}

Test(loaders, iterators_of_the_loop)
{
	expect_of_batch(&loop, STACK(GENERATOR("batches"), &loop, &module), true, true);
	expect_of_batch(&loop, STACK(OWN("parse"), GENERATOR("batches"), &loop, &module), false,
			true);
	expect_of_batch(&loop, STACK(OWN("Reader.__next__"), &loop, &module), false, true);
	expect_of_batch(&loop, STACK(OWN("Array.__getitem__"), &loop, &module), true, true);
	/* through another iterator, as tqdm's */
	expect_of_batch(&loop, STACK(GENERATOR("rows"), GENERATOR("tqdm.__iter__"), &loop, &module),
			false, true);
}

#define PACKAGES "/venv/lib/python3.11/site-packages/"
#define NATIVE(path, name)                                                      \
	(&(const struct profile_frame){.function = (name),                      \
				       .file = "",                              \
				       .module = (path),                        \
				       .module_base = strrchr((path), '/') + 1, \
				       .language = PERFX_LANGUAGE_NATIVE})
#define NUMPY NATIVE(PACKAGES "numpy/_core/_multiarray_umath.so", "DOUBLE_multiply")

/* In the loop's own lines: by libraries that decode; by NumPy before the training is called. */
Test(loaders, lines_of_the_loop)
{
	const struct profile_frame after = {.function = "main",
					    .file = MAIN,
					    .line = 2,
					    .module = "",
					    .module_base = "",
					    .language = PERFX_LANGUAGE_PYTHON};

	expect_of_batch(&loop, STACK(FRAME(PACKAGES "PIL/Image.py", "Image.convert", false), &loop),
			false, true);
	expect_of_batch(&loop, STACK(NATIVE("/usr/lib/libz.so.1", "inflate"), &loop), false, true);
	expect_of_batch(&loop, STACK(NATIVE("/usr/lib/libz.so.1", "inflate"), &after), false, true);
	expect_of_batch(&loop, STACK(NUMPY, &loop), false, true);
	expect_of_batch(&loop, STACK(NUMPY, &after), false, false);
	expect_of_batch(&loop, STACK(&loop), false, false);
	/* what it writes, what the model does, and what is in another function */
	expect_of_batch(&loop, STACK(NATIVE("/usr/lib/libz.so.1", "deflate"), &loop), false, false);
	expect_of_batch(&loop, STACK(FRAME(PACKAGES "PIL/Image.py", "Image.save", false), &loop),
			false, false);
	expect_of_batch(&loop, STACK(NUMPY, &layer, &loop), false, false);
	expect_of_batch(&loop, STACK(NUMPY, OWN("score"), &loop), false, false);
}

/* An environment may have a framework's name. */
Test(loaders, folders_with_the_name_of_a_framework)
{
	const struct profile_frame *sort =
		FRAME("/venvs/jax/lib/python3.11/site-packages/numpy/lib/sort.py", "sort", false);

	expect_of_batch(&loop, STACK(sort, OWN("load"), &loop, &module), false, true);
}

/* Of a program without a framework it may be the model. */
Test(loaders, numpy_may_be_the_model)
{
	for (unsigned decodes = 0; decodes < 2; decodes++) {
		const struct profile_stack *call = STACK(NUMPY, &loop, &module);
		const struct profile_stack *batch =
			decodes ? STACK(NATIVE("/usr/lib/libz.so.1", "inflate"), &loop, &module)
				: call;
		struct profile_context context = {.id = 1, .function = 7, .stack = call};
		struct training *t = training_by_its_ends(&context);

		add(t, batch, false, 50);
		expect_loader(t, batch, decodes);
	}
}

/* What runs may do so for any purpose: only names that say what for count. */
Test(loaders, calls_by_their_names)
{
	expect_of_batch(&loop, STACK(OWN("sample"), &loop, &module), true, true);
	expect_of_batch(&loop, STACK(OWN("sample"), &loop, &module), false, false);
	expect_of_batch(&loop, STACK(OWN("get_batch"), &loop, &module), false, true);
	expect_of_batch(&loop, STACK(OWN("Images.load"), &loop, &module), false, true);
	expect_of_batch(&loop, STACK(OWN("reload"), &loop, &module), false, false);
	expect_of_batch(&loop, STACK(OWN("is_ready"), &loop, &module), false, false);
	expect_of_batch(&loop, STACK(OWN("spread"), &loop, &module), false, false);
	/* a part of the model */
	expect_of_batch(&loop, STACK(&layer, OWN("decode"), &loop, &module), false, false);
	expect_of_batch(&loop, STACK(OWN("throttle"), &loop, &module), true, false);
	expect_of_batch(&loop, STACK(OWN("load_state"), &loop, &module), false, false);
	expect_of_batch(&loop, STACK(OWN("readWeights"), &loop, &module), true, false);
}

/* By with lock, say: what holds the lock is the cause. */
Test(loaders, waits_for_a_lock)
{
	const struct profile_frame acquire = {.function = "__futex_abstimed_wait_common",
					      .file = "",
					      .module = "libc.so.6",
					      .module_base = "libc.so.6"},
				   lock = {.function = "pthread_mutex_lock",
					   .file = "",
					   .module = "libc.so.6",
					   .module_base = "libc.so.6"};
	const struct profile_stack *stack =
		STACK(&acquire, &lock, OWN("get_batch"), &loop, &module);
	struct training *t = training_new(&loop);

	add(t, stack, true, 50);
	t->samples[t->process.samples.count - 1].reason = PERFX_WAIT_FUTEX;
	expect_loader(t, stack, false);
}

Test(loaders, what_is_no_batch)
{
	struct training *t;

	/* Python imports a module */
	expect_of_batch(&loop,
			STACK(FRAME("<frozen importlib._bootstrap>", "_find_and_load", false),
			      &loop, &module),
			false, false);
	/* an iteration in the forward pass */
	expect_of_batch(&loop, STACK(GENERATOR("patches"), &forward, &step, &loop, &module), false,
			false);
	/* a training that is a generator itself */
	expect_of_batch(GENERATOR("train"), STACK(OWN("log"), GENERATOR("train"), &module), true,
			false);
	/* the parameters of a model */
	expect_of_batch(&loop,
			STACK(FRAME("/venv/torch/nn/modules/module.py", "parameters", true), &loop,
			      &module),
			false, false);
	/* hardly any time */
	t = training_new(&loop);
	add(t, STACK(GENERATOR("batches"), &loop, &module), false, 1);
	expect_loader(t, STACK(GENERATOR("batches"), &loop, &module), false);
	/* where the data phase is known, it is that */
	t = training_new(&loop);
	t->process.steps.phases[PROFILE_PHASE_DATA] = MS;
	add(t, STACK(GENERATOR("batches"), &loop, &module), false, 50);
	expect_loader(t, STACK(GENERATOR("batches"), &loop, &module), false);
	/* without steps there are no batches */
	t = training_new(&loop);
	t->process.steps.count = 0;
	add(t, STACK(GENERATOR("batches"), &loop, &module), false, 50);
	expect_loader(t, STACK(GENERATOR("batches"), &loop, &module), false);
}

/* Steps that do nothing but wait have no samples of their own: the call that ends them has a stack.
 */
Test(loaders, steps_without_samples)
{
	const struct profile_stack *batch =
		STACK(OWN("read"), GENERATOR("batches"), &loop, &module);
	const struct profile_stack *others[] = {
		STACK(&backward, &step, &loop, &module),
		/* the loop of another training */
		STACK(&backward, &step, OWN("other"), &module),
	};

	for (size_t i = 0; i < 2; i++) {
		struct profile_context context = {.id = 1, .function = 7, .stack = others[i]};
		struct training *t = training_by_its_ends(&context);

		add(t, batch, true, 50);
		expect_loader(t, batch, i == 0);
	}
}
