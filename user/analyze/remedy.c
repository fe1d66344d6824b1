// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/remedy.h"

#include "analyze/roofline.h"
#include "analyze/rules_ctx.h"
#include "base/text.h"
#include "elf/glob.h"
#include "remedy_texts.h"

#include <math.h>
#include <string.h>

/* Callers make a function theirs from this share of its calls on. */
#define CALLED_MOSTLY 0.5

#define ANY PERFX_SOURCE_INVALID

struct kind_of_name {
	enum perfx_source source; /* or ANY */
	const char *glob;
	enum remedy_kind kind;
};

/* The first that matches counts. Asked of every function each time that a live recording is judged.
 * Those of REMEDY_DATA come first (remedy_is_data). */
static const struct kind_of_name names[] = {
	{ANY, "enumerate(DataLoader)*", REMEDY_DATA},
	{ANY, "*DataLoader*", REMEDY_DATA},
	{PERFX_SOURCE_TF, "*Iterator*GetNext*", REMEDY_DATA},
	{PERFX_SOURCE_TF, "TFE_Py_TapeGradient", REMEDY_RANGE},
	{PERFX_SOURCE_TORCH, "Optimizer.*", REMEDY_OPTIMIZER},
	{PERFX_SOURCE_TORCH, "at::_ops::_fused_*", REMEDY_OPTIMIZER},
	{PERFX_SOURCE_TORCH, "at::_ops::_foreach_*", REMEDY_OPTIMIZER},
	{PERFX_SOURCE_TORCH, "torch::autograd::Engine::*", REMEDY_AUTOGRAD},

	/* "CompiledFunction" runs what was compiled */
	{ANY, "*Compile", REMEDY_COMPILE},
	{ANY, "*Compile[A-Z:(_ #]*", REMEDY_COMPILE},
	{ANY, "*_compile", REMEDY_COMPILE},
	{ANY, "*_compile_*", REMEDY_COMPILE},
	{ANY, "*HloPass*", REMEDY_COMPILE},
	{ANY, "nvrtcCompileProgram", REMEDY_COMPILE},

	{PERFX_SOURCE_NCCL, "*", REMEDY_COLLECTIVE},
	{PERFX_SOURCE_MPI, "*", REMEDY_COLLECTIVE},
	{ANY, "c10d::*", REMEDY_COLLECTIVE},
	{ANY, "*[aA]ll[rR]educe*", REMEDY_COLLECTIVE},

	{ANY, "*memcpy*", REMEDY_COPY},
	{ANY, "*Memcpy*", REMEDY_COPY},
	{ANY, "memmove", REMEDY_COPY},
	{PERFX_SOURCE_TORCH, "at::_ops::*copy*::*", REMEDY_COPY},
	{PERFX_SOURCE_TORCH, "at::_ops::to_*::*", REMEDY_COPY},
	{PERFX_SOURCE_TORCH, "at::_ops::clone::*", REMEDY_COPY},
	{PERFX_SOURCE_TORCH, "at::_ops::contiguous::*", REMEDY_COPY},
	{PERFX_SOURCE_XLA, "*/copy*", REMEDY_COPY},
	{PERFX_SOURCE_XLA, "*/transpose*", REMEDY_COPY},
	{PERFX_SOURCE_JAX, "*BufferFromHost*", REMEDY_COPY},
	{PERFX_SOURCE_JAX, "*ToLiteral*", REMEDY_COPY},
	{PERFX_SOURCE_JAX, "*CopyRawToHost*", REMEDY_COPY},
	{PERFX_SOURCE_JAX, "*CopyToMemorySpace*", REMEDY_COPY},

	{ANY, "*Synchronize", REMEDY_SYNCHRONIZE},
	{ANY, "*BlockUntilReady*", REMEDY_SYNCHRONIZE},
	{ANY, "*BlockHostUntilReady*", REMEDY_SYNCHRONIZE},
	{ANY, "*AcquireExternalReference*", REMEDY_SYNCHRONIZE},
	{ANY, "pthread_cond_*wait*", REMEDY_SYNCHRONIZE},
	{ANY, "pthread_barrier_wait", REMEDY_SYNCHRONIZE},
	{ANY, "pthread_join", REMEDY_SYNCHRONIZE},
	{ANY, "pthread_mutex_*lock", REMEDY_SYNCHRONIZE},
	{ANY, "sem_*wait", REMEDY_SYNCHRONIZE},
	{ANY, "std::*condition_variable*::wait*", REMEDY_SYNCHRONIZE},
	{PERFX_SOURCE_TORCH, "at::_ops::_local_scalar_dense::*", REMEDY_SYNCHRONIZE},

	{ANY, "*nanosleep", REMEDY_SLEEP},
	{ANY, "usleep", REMEDY_SLEEP},
	{ANY, "sleep", REMEDY_SLEEP},
	{ANY, "*sleep_for*", REMEDY_SLEEP},
	{ANY, "*sleep_until*", REMEDY_SLEEP},

	{PERFX_SOURCE_BLAS, "*", REMEDY_BLAS},
};

static bool has_name(const struct profile_function *function, const struct kind_of_name *name)
{
	return (name->source == ANY || name->source == function->source) &&
	       glob_matches(name->glob, function->name);
}

bool remedy_is_data(const struct profile_function *function)
{
	for (size_t i = 0; names[i].kind == REMEDY_DATA; i++)
		if (has_name(function, &names[i]))
			return true;
	return false;
}

enum remedy_kind remedy_of_name(const struct profile_function *function)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (has_name(function, &names[i]))
			return names[i].kind;
	return REMEDY_NEUTRAL;
}

static enum framework framework_of_stack(const struct profile_stack *stack)
{
	static const struct {
		const char *package, *library;
		enum framework framework;
	} libraries[] = {
		{"-packages/torch/", "libtorch", FRAMEWORK_TORCH},
		{"-packages/torch/", "libc10", FRAMEWORK_TORCH},
		{"-packages/jax/", "libjax", FRAMEWORK_JAX},
		{"-packages/jax/", "_jax", FRAMEWORK_JAX},
		{"-packages/jax/", "xla_extension", FRAMEWORK_JAX},
		{"-packages/tensorflow/", "libtensorflow", FRAMEWORK_TENSORFLOW},
		{"-packages/tensorflow/", "_pywrap_tensorflow", FRAMEWORK_TENSORFLOW},
	};

	for (size_t i = 0; stack && i < stack->frames_count; i++)
		for (size_t j = 0; j < sizeof(libraries) / sizeof(libraries[0]); j++)
			if (stack->frames[i]->language == PERFX_LANGUAGE_PYTHON
				    ? strstr(stack->frames[i]->file, libraries[j].package) != NULL
				    : begins_with(stack->frames[i]->module_base,
						  libraries[j].library))
				return libraries[j].framework;
	return FRAMEWORK_NONE;
}

static enum framework most_of(const double ns[FRAMEWORKS])
{
	enum framework most = FRAMEWORK_NONE;

	for (int i = 0; i < FRAMEWORK_NONE; i++)
		if (ns[i] > (most == FRAMEWORK_NONE ? 0 : ns[most]))
			most = (enum framework)i;
	return most;
}

enum framework framework_of(const struct profile *profile, const struct profile_process *process)
{
	double calls_ns[FRAMEWORKS] = {0}, samples_ns[FRAMEWORKS] = {0};

	FOR_EACH (row, process->rows) {
		const struct profile_function *function = profile_function(profile, row->function);
		enum perfx_source source = function ? function->source : PERFX_SOURCE_INVALID;

		calls_ns[source == PERFX_SOURCE_TORCH ? FRAMEWORK_TORCH
			 : source == PERFX_SOURCE_JAX ? FRAMEWORK_JAX
			 : source == PERFX_SOURCE_TF  ? FRAMEWORK_TENSORFLOW
						      : FRAMEWORK_NONE] += (double)row->total_ns;
	}
	if (most_of(calls_ns) != FRAMEWORK_NONE)
		return most_of(calls_ns);
	FOR_EACH_OF (sample, process->samples)
		samples_ns[framework_of_stack(sample->stack)] += (double)sample->ns;
	return most_of(samples_ns);
}

void framework_add(struct text *text, enum framework framework, const char *words)
{
	const char *open;

	for (; (open = strchr(words, '{')); words = strchr(open, '}') + 1) {
		text_add_bytes(text, words, (size_t)(open - words));
		for (int i = 0; i < (int)framework; i++)
			open = strchr(open + 1, '|');
		text_add_bytes(text, open + 1, strcspn(open + 1, "|}"));
	}
	text_add(text, words);
}

static bool is_operator(const struct profile_function *function)
{
	return function->source == PERFX_SOURCE_TORCH || function->source == PERFX_SOURCE_JAX ||
	       function->source == PERFX_SOURCE_XLA || function->source == PERFX_SOURCE_TF;
}

bool remedy_waits(enum remedy_kind kind)
{
	return kind == REMEDY_SLEEP || kind == REMEDY_SYNCHRONIZE || kind == REMEDY_COLLECTIVE ||
	       kind == REMEDY_DATA;
}

enum remedy_kind remedy_kind(const struct profile *profile, const struct profile_process *process,
			     const struct profile_row *row)
{
	const struct profile_function *function = profile_function(profile, row->function);
	static const enum remedy_kind by_bound[] = {
		[ROOFLINE_UNKNOWN] = REMEDY_OPERATOR,
		[ROOFLINE_COMPUTE] = REMEDY_COMPUTE,
		[ROOFLINE_MEMORY] = REMEDY_MEMORY_BOUND,
		[ROOFLINE_OVERHEAD] = REMEDY_OVERHEAD,
	};
	const struct profile_function *caller = NULL;
	double cpu = cpu_share(process);
	enum remedy_kind kind;

	if (!function)
		return REMEDY_NEUTRAL;
	kind = remedy_of_name(function);
	if (remedy_waits(kind))
		return kind;
	/* A thread in a function that uses less CPU than it takes time does not compute there; of
	 * many at once some may. */
	if (cpu >= 0 && cpu < fmin(wall_share(process, row->self_ns), 1) / 2)
		return REMEDY_WAITING;
	if (kind != REMEDY_NEUTRAL)
		return kind;
	if ((function->flags & PERFX_FUNCTION_RANGE) &&
	    (!is_operator(function) || function->source == PERFX_SOURCE_TORCH))
		return REMEDY_RANGE;
	if (is_operator(function)) {
		if (row->callers_count &&
		    (double)row->callers->calls_count >= CALLED_MOSTLY * (double)row->calls_count)
			caller = profile_function(profile, row->callers->caller);
		kind = caller ? remedy_of_name(caller) : REMEDY_NEUTRAL;
		return kind == REMEDY_OPTIMIZER || kind == REMEDY_DATA
			       ? kind
			       : by_bound[roofline_of_row(profile, process, row).bound];
	}
	return function->source == PERFX_SOURCE_PERFX || function->source == PERFX_SOURCE_SYMBOL
		       ? REMEDY_USER
		       : REMEDY_NEUTRAL;
}

const char *remedy_text(enum remedy_kind kind)
{
	static const char *const texts[REMEDY_KINDS] = {
		[REMEDY_OPERATOR] = TRY_OPERATOR,
		[REMEDY_COMPUTE] = TRY_COMPUTE,
		[REMEDY_MEMORY_BOUND] = TRY_MEMORY_BOUND,
		[REMEDY_OVERHEAD] = TRY_OVERHEAD,
		[REMEDY_BLAS] = TRY_BLAS,
		[REMEDY_COPY] = TRY_COPY,
		[REMEDY_COMPILE] = TRY_COMPILE,
		[REMEDY_AUTOGRAD] = TRY_AUTOGRAD,
		[REMEDY_DATA] = TRY_DATA,
		[REMEDY_OPTIMIZER] = TRY_OPTIMIZER,
		[REMEDY_SYNCHRONIZE] = TRY_SYNCHRONIZE,
		[REMEDY_COLLECTIVE] = TRY_COLLECTIVE,
		[REMEDY_SLEEP] = TRY_SLEEP,
		[REMEDY_RANGE] = TRY_RANGE,
		[REMEDY_WAITING] = TRY_WAITING,
		[REMEDY_USER] = TRY_USER,
		[REMEDY_NEUTRAL] = TRY_NEUTRAL,
	};

	return texts[kind];
}
