// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/context.h"

#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/stack_kind.h"
#include "analyze/wait_class.h"
#include "base/grow.h"
#include "base/text.h"
#include "elf/glob.h"

#include <ctype.h>
#include <string.h>

const struct profile_context *context_of(const struct contexts *contexts, uint32_t id)
{
	return id ? MAP64_FIND(contexts->places, id, contexts->process->contexts) : NULL;
}

bool function_is_marker(const struct profile_function *function)
{
	return function->flags & PERFX_FUNCTION_RANGE ||
	       begins_with(function->name, "record_function ");
}

bool context_is_call(const struct contexts *contexts, uint32_t id)
{
	const struct profile_context *context = context_of(contexts, id);
	const struct profile_function *function =
		context ? profile_function(contexts->profile, context->function) : NULL;

	return id && !(function && function_is_marker(function));
}

bool context_is_data(const struct contexts *contexts, uint32_t id)
{
	const struct profile_context *context = context_of(contexts, id);

	for (; context; context = context_of(contexts, context->parent))
		if (map64_get(&contexts->batches, context->function) != MAP64_NONE)
			return true;
	return false;
}

enum loader_kind {
	LOADER_NONE = 0,
	LOADER_CALL,	 /* a function that is called for a batch, by its name and its waits */
	LOADER_ITERATOR, /* a generator, or an object that is asked for its next item */
};

/* "load_images", "ReadBatch", "np.load"; not "reload", "thread", "is_ready". */
static bool has_word(const char *name, const char *word)
{
	for (const char *at = name; (at = strcasestr(at, word)); at++)
		if (strncasecmp(at, "ready", strlen("ready")) != 0 &&
		    (at == name || !isalpha((unsigned char)at[-1]) ||
		     (isupper((unsigned char)*at) && islower((unsigned char)at[-1]))))
			return true;
	return false;
}

/* Words of functions that read, decode or prepare data. */
static const struct {
	const char *word;
	bool is_sure; /* also where the function runs; the others are for any purpose */
} words[] = {
	{"load", true},	    {"read", true},	  {"fetch", true},	{"decode", true},
	{"parse", true},    {"augment", true},	  {"preproc", true},	{"collate", true},
	{"tokenize", true}, {"get_batch", true},  {"next_batch", true}, {"make_batch", true},
	{"batch", false},   {"data", false},	  {"sample", false},	{"next", false},
	{"item", false},    {"minibatch", false},
};

/* Words of functions that load parts of a model: load_state, read_params. */
static const char *const of_model[] = {"state", "weight", "param", "checkpoint", "model", NULL};

static bool says_data(const char *name, bool waits)
{
	for (size_t i = 0; of_model[i]; i++)
		if (has_word(name, of_model[i]))
			return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((waits || words[i].is_sure) && has_word(name, words[i].word))
			return true;
	return false;
}

static enum loader_kind kind_of(const struct profile_frame *frame, bool waits, bool runs)
{
	static const char *const methods[] = {"__next__", "__iter__", "__getitem__", "next", NULL};
	const char *name = frame_last_name(frame);

	if (frame->language != PERFX_LANGUAGE_PYTHON || name[0] == '<')
		return LOADER_NONE;
	if (frame->is_generator || text_is_one_of(name, methods))
		return LOADER_ITERATOR;
	return (runs || waits) && says_data(name, waits) ? LOADER_CALL : LOADER_NONE;
}

bool frame_may_load(const struct profile_frame *frame)
{
	return kind_of(frame, true, false) != LOADER_NONE;
}

/* How surely a sample is of the training. */
enum training { TRAINING_NONE = 0, TRAINING_CALL, TRAINING_MODEL, TRAINING_UPDATE, TRAININGS };

/* Is it a file of one of these packages, named as "/torch/nn/"? An environment may have the name of
 * a package: /venvs/jax/lib/python3.11/site-packages/numpy/. */
static bool is_file_of(const char *file, const char *const *packages)
{
	const char *package;
	bool installed = location_package(file, &package) > 0;

	for (size_t i = 0; packages[i]; i++)
		if (installed ? begins_with(package - 1, packages[i])
			      : strstr(file, packages[i]) != NULL)
			return true;
	return false;
}

static enum training training_of_frame(const struct profile_frame *frame)
{
	static const char *const updates[] = {"/torch/autograd/", "/torch/optim/",
					      "/torch/_tensor.py", NULL};
	static const char *const models[] = {"/torch/nn/", "/jax/",	   "/flax/", "/optax/",
					     "/keras/",	   "/tensorflow/", NULL};

	if (is_file_of(frame->file, updates))
		return TRAINING_UPDATE;
	return is_file_of(frame->file, models) ? TRAINING_MODEL : TRAINING_NONE;
}

static enum training training_of(const struct contexts *contexts,
				 const struct profile_activity *sample)
{
	enum training training =
		context_is_call(contexts, sample->context) ? TRAINING_CALL : TRAINING_NONE;

	for (size_t i = 0; sample->stack && i < sample->stack->frames_count; i++) {
		enum training of_frame = training_of_frame(sample->stack->frames[i]);

		if (of_frame > training)
			training = of_frame;
	}
	return training;
}

#define CANDIDATES_MAX 64
/* A candidate has at least this share of the thread's time. */
#define WORTH 0.05
/* So many samples of the training show its loop, */
#define TRAINING_MIN 3
/* which is in this share of them. */
#define LOOP_SHARE 0.80
/* A function that only its name tells apart spends at least this share of its time in waits. */
#define WAITS_SHARE 0.50
/* and at most this share in a model, which may also decode. */
#define MODEL_SHARE 0.50

struct candidate {
	const struct profile_frame *function, *caller;
	enum loader_kind kind;
	uint64_t ns; /* of a LOADER_CALL in waits alone */
};

struct search {
	const struct contexts *contexts;
	struct candidate candidates[CANDIDATES_MAX];
	size_t count;
	uint64_t all_ns;
	uint64_t trainings[TRAININGS]; /* samples */
	enum training sure;	       /* the samples that show the training's loop */
	bool has_framework;	       /* some of them are in a framework's Python */
};

static const struct profile_frame *caller_of(const struct profile_stack *stack, size_t at)
{
	for (size_t i = at + 1; i < stack->frames_count; i++)
		if (stack->frames[i]->language == PERFX_LANGUAGE_PYTHON &&
		    kind_of(stack->frames[i], false, false) != LOADER_ITERATOR)
			return stack->frames[i];
	return NULL;
}

/* A function of any purpose may wait for a lock that another thread holds. */
static bool waits_for_data(const struct profile_activity *sample)
{
	enum account_class class = wait_class(sample);

	return sample->state == PERFX_SAMPLE_WAITING && class != ACCOUNT_LOCK &&
	       class != ACCOUNT_GIL;
}

static struct candidate *candidate_of(struct search *search, const struct profile_activity *sample,
				      size_t at)
{
	const struct profile_stack *stack = sample->stack;
	enum loader_kind kind = kind_of(stack->frames[at], waits_for_data(sample),
					sample->state != PERFX_SAMPLE_WAITING);
	const struct profile_frame *caller = kind ? caller_of(stack, at) : NULL;

	if (!caller || training_of_frame(stack->frames[at]))
		return NULL;
	for (size_t i = 0; i < search->count; i++)
		if (frame_is_same_function(search->candidates[i].function, stack->frames[at]) &&
		    frame_is_same_function(search->candidates[i].caller, caller))
			return &search->candidates[i];
	if (search->count == CANDIDATES_MAX)
		return NULL;
	search->candidates[search->count] = (struct candidate){stack->frames[at], caller, kind, 0};
	return &search->candidates[search->count++];
}

/* Python's import statement finds and loads modules, not data. */
static bool is_of_steps(const struct search *search, const struct profile_activity *sample)
{
	return sample->tid == search->contexts->process->steps.tid && sample->stack &&
	       !stack_has(sample->stack, CODE_IMPORT);
}

static void add_candidates(struct search *search, const struct profile_activity *sample)
{
	const struct profile_stack *stack = sample->stack;
	uint64_t ns = activity_judged_ns(sample);

	search->all_ns += ns;
	search->trainings[training_of(search->contexts, sample)] += activity_judged_count(sample);
	for (size_t i = 0; i < stack->frames_count; i++) {
		struct candidate *candidate = candidate_of(search, sample, i);

		if (candidate)
			candidate->ns += ns;
	}
}

/* Samples of the training, in a candidate and elsewhere. */
struct counts {
	uint64_t inside, outside, of_loop, ns;
	uint64_t model_ns; /* of ns: in the model's functions, or in traced calls */
};

static void count_training(struct counts *counts, const struct candidate *candidate,
			   const struct profile_stack *stack, uint64_t count)
{
	*(stack_has_function(stack, candidate->function) ? &counts->inside : &counts->outside) +=
		count;
	if (stack_has_function(stack, candidate->caller))
		counts->of_loop += count;
}

/* The stack of a call that ends steps shows the loop, however short the steps' own work is. */
static bool ends_steps(const struct profile_process *process, const struct profile_context *context)
{
	return context->function == process->steps.function && context->stack &&
	       context->stack->frames_count;
}

static struct counts count_samples(const struct search *search, const struct candidate *candidate)
{
	const struct profile_process *process = search->contexts->process;
	struct counts counts = {0};

	FOR_EACH_OF (sample, process->samples) {
		if (!is_of_steps(search, sample))
			continue;
		if (stack_has_function(sample->stack, candidate->function)) {
			counts.ns += activity_judged_ns(sample);
			if (training_of(search->contexts, sample))
				counts.model_ns += activity_judged_ns(sample);
		}
		if (training_of(search->contexts, sample) >= search->sure)
			count_training(&counts, candidate, sample->stack,
				       activity_judged_count(sample));
	}
	for (size_t i = 0; i < process->contexts_count; i++)
		if (ends_steps(process, &process->contexts[i]))
			count_training(&counts, candidate, process->contexts[i].stack,
				       TRAINING_MIN);
	return counts;
}

/* Does the loop of the training call it, and is no part of the training in it? */
static bool prepares_batches(const struct search *search, const struct candidate *candidate)
{
	struct counts counts;

	if ((double)candidate->ns < WORTH * (double)search->all_ns)
		return false;
	counts = count_samples(search, candidate);
	if (candidate->kind == LOADER_CALL &&
	    ((double)candidate->ns < WAITS_SHARE * (double)counts.ns ||
	     (double)counts.model_ns > MODEL_SHARE * (double)counts.ns))
		return false;
	return counts.outside >= TRAINING_MIN && counts.inside <= counts.outside &&
	       (double)counts.of_loop >= LOOP_SHARE * (double)(counts.inside + counts.outside);
}

/* The frames inside of a loop's own line: do they decode, or compute arrays for the training? */
static bool decodes(const struct profile_stack *stack, size_t end, bool is_before)
{
	bool found = false;

	for (size_t i = 0; i < end; i++) {
		const struct profile_frame *frame = stack->frames[i];

		if (training_of_frame(frame) || frame_is(frame, CODE_WRITER))
			return false;
		found |= frame_is(frame, CODE_DECODER) ||
			 (is_before &&
			  (strstr(frame->file, "/numpy/") || strstr(frame->module, "/numpy/")));
	}
	return found;
}

static bool loop_prepares(const struct loaders *loaders, const struct profile_stack *stack)
{
	size_t own = stack ? location_own_python(stack->frames, stack->frames_count) : 0;

	for (size_t i = 0; stack && own < stack->frames_count && i < loaders->loops_count; i++) {
		const struct training_loop *loop = &loaders->loops[i];
		const struct profile_frame *frame = stack->frames[own];

		if (frame_is_same_function(frame, loop->function))
			return decodes(stack, own, frame->line <= loop->training_line);
	}
	return false;
}

/* Samples of the training, by the functions of the program that they are in. */
struct own_function {
	const struct profile_frame *function;
	uint64_t count;		/* of those that are training for sure */
	uint32_t training_line; /* the first that calls it */
};

struct own_functions {
	struct own_function list[CANDIDATES_MAX];
	size_t count;
	uint64_t samples_count;
};

static struct own_function *own_function_of(struct own_functions *own,
					    const struct profile_frame *frame)
{
	for (size_t i = 0; i < own->count; i++)
		if (frame_is_same_function(own->list[i].function, frame))
			return &own->list[i];
	if (own->count == CANDIDATES_MAX)
		return NULL;
	own->list[own->count] =
		(struct own_function){.function = frame, .training_line = UINT32_MAX};
	return &own->list[own->count++];
}

static void add_own_functions(struct own_functions *own, const struct profile_stack *stack,
			      uint64_t sure_count)
{
	own->samples_count += sure_count;
	for (size_t i = 0; i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];
		struct own_function *function =
			location_is_own_python(frame) ? own_function_of(own, frame) : NULL;

		/* it is called before the data is needed, or after */
		if (glob_matches("*zero_grad", frame->function))
			return;
		if (!function)
			continue;
		function->count += sure_count;
		if (frame->line < function->training_line)
			function->training_line = frame->line;
	}
}

/* The functions of the program that (nearly) all of the training is in. */
static void find_loops(struct loaders *loaders, const struct search *search)
{
	const struct profile_process *process = search->contexts->process;
	enum training least = search->sure < TRAINING_MODEL ? search->sure : TRAINING_MODEL;
	struct own_functions own = {0};

	FOR_EACH_OF (sample, process->samples) {
		enum training training = is_of_steps(search, sample)
						 ? training_of(search->contexts, sample)
						 : TRAINING_NONE;

		if (training && training >= least)
			add_own_functions(&own, sample->stack,
					  training >= search->sure ? activity_judged_count(sample)
								   : 0);
	}
	for (size_t i = 0; i < process->contexts_count; i++)
		if (ends_steps(process, &process->contexts[i]))
			add_own_functions(&own, process->contexts[i].stack, TRAINING_MIN);
	for (size_t i = 0; i < own.count && loaders->loops_count < TRAINING_LOOPS_MAX; i++)
		if (own.samples_count >= TRAINING_MIN &&
		    (double)own.list[i].count >= LOOP_SHARE * (double)own.samples_count)
			loaders->loops[loaders->loops_count++] = (struct training_loop){
				own.list[i].function,
				/* of a program without a framework NumPy may be the model */
				search->has_framework ? own.list[i].training_line : 0};
}

/* Searches the stacks of the thread that drives the steps. Finds none if the steps have a data
 * phase, which is exact. */
static void find_loaders(struct loaders *loaders, const struct contexts *contexts)
{
	const struct profile_process *process = contexts->process;
	struct search search = {.contexts = contexts, .sure = TRAINING_UPDATE};

	*loaders = (struct loaders){0};
	if (!process->steps.count || process->steps.phases[PROFILE_PHASE_DATA])
		return;
	for (size_t i = 0; i < process->samples.count; i++)
		if (is_of_steps(&search, &process->samples.list[i]))
			add_candidates(&search, &process->samples.list[i]);
	search.has_framework =
		search.trainings[TRAINING_MODEL] + search.trainings[TRAINING_UPDATE] > 0;
	for (size_t i = 0; i < process->contexts_count; i++)
		if (ends_steps(process, &process->contexts[i]))
			search.trainings[TRAINING_UPDATE] += TRAINING_MIN;
	while (search.sure > TRAINING_CALL && search.trainings[search.sure] < TRAINING_MIN)
		search.sure--;
	for (size_t i = 0; i < search.count && loaders->count < LOADERS_MAX; i++)
		if (prepares_batches(&search, &search.candidates[i]))
			loaders->list[loaders->count++] = search.candidates[i].function;
	find_loops(loaders, &search);
}

int contexts_begin(struct contexts *contexts, const struct profile *profile,
		   const struct profile_process *process)
{
	int err = 0;

	*contexts = (struct contexts){.profile = profile, .process = process};
	for (size_t i = 0; i < process->contexts_count && !err; i++)
		err = map64_put(&contexts->places, process->contexts[i].id, (uint32_t)i);
	/* names are compared once for each function: context_is_data() asks at each level */
	for (uint32_t id = 1; id <= profile->functions_count && !err; id++) {
		const struct profile_function *function = profile_function(profile, id);

		if (function && remedy_is_data(function))
			err = map64_put(&contexts->batches, id, 1);
	}
	contexts->has_loader = contexts->batches.count > 0;
	/* if the probe of its end was removed, all later samples would be in it */
	for (size_t i = 0; i < process->rows_count; i++)
		if (process->rows[i].seen_until_ns)
			map64_remove(&contexts->batches, process->rows[i].function);
	if (!err)
		find_loaders(&contexts->loaders, contexts);
	return err;
}

void contexts_clear(struct contexts *contexts)
{
	map64_clear(&contexts->places);
	map64_clear(&contexts->batches);
}

bool sample_is_of_batch(const struct contexts *contexts, const struct profile_activity *sample)
{
	return context_is_data(contexts, sample->context) ||
	       stack_is_of_batch(contexts, sample->stack);
}

bool stack_is_of_batch(const struct contexts *contexts, const struct profile_stack *stack)
{
	const struct loaders *loaders = &contexts->loaders;

	if (stack_has(stack, CODE_INPUT))
		return true;
	for (size_t i = 0; i < loaders->count; i++)
		if (stack_has_function(stack, loaders->list[i]))
			return true;
	return loop_prepares(loaders, stack);
}
