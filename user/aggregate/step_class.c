// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/steps.h"

#include "aggregate/aggregate.h"
#include "base/grow.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* TensorFlow ends the name of a traced function with a number: "train_function_506". */
static bool is_traced_function(const char *name, const char *function)
{
	size_t length = strlen(function);

	return begins_with(name, function) &&
	       (!name[length] ||
		(name[length] == '_' && name[length + 1] &&
		 name[length + 1 + strspn(name + length + 1, "0123456789")] == '\0'));
}

/* A call is a step: a TensorFlow session's run, the functions that Keras' loops call. */
static bool is_natural_step(unsigned source, const char *name)
{
	static const char *const traced[] = {
		"TF_SessionRun",
		"one_step_on_iterator",
		"multi_step_on_iterator",
		"one_step_on_data",
		"one_step_on_data_distributed",
		"multi_step_on_data",
		"train_function",
		"test_function",
		"predict_function",
		NULL,
	};
	bool found = false;

	for (size_t i = 0; source == PERFX_SOURCE_TF && traced[i]; i++)
		found |= is_traced_function(name, traced[i]);
	return found;
}

unsigned step_class(unsigned source, const char *name, unsigned flags)
{
	unsigned class = flags & PERFX_FUNCTION_RANGE ? STEP_RANGE : 0;

	if (source == PERFX_SOURCE_TORCH && (flags & PERFX_FUNCTION_RANGE)) {
		if (begins_with(name, "Optimizer."))
			class |= PROFILE_PHASE_OPTIMIZER;
		if (begins_with(name, "Optimizer.step#"))
			class |= STEP_BY_OPTIMIZER << STEP_RANK_SHIFT;
		if (begins_with(name, "enumerate(DataLoader)"))
			class |= PROFILE_PHASE_DATA;
	} else if ((source == PERFX_SOURCE_TORCH &&
		    !strcmp(name, "torch::autograd::Engine::execute")) ||
		   (source == PERFX_SOURCE_TF && !strcmp(name, "TFE_Py_TapeGradient"))) {
		class = PROFILE_PHASE_BACKWARD | STEP_RANGE | STEP_BY_BACKWARD << STEP_RANK_SHIFT;
	} else if (flags & PERFX_FUNCTION_INFERENCE) {
		class = STEP_RANGE | STEP_BY_INFERENCE << STEP_RANK_SHIFT;
	} else if (flags & PERFX_FUNCTION_ROUND || is_natural_step(source, name)) {
		class = STEP_RANGE | STEP_BY_CALL << STEP_RANK_SHIFT;
	}
	if (flags & PERFX_FUNCTION_STEP)
		class = (class & ~STEP_RANK_MASK) | STEP_RANGE | STEP_BY_NAME << STEP_RANK_SHIFT;
	return class;
}

void step_classes_add(struct step_classes *classes, const struct perfx_function *function,
		      const char *name)
{
	if (function->function > AGGREGATE_FUNCTIONS_MAX ||
	    grow_array(&classes->list, &classes->capacity, (size_t)function->function + 1,
		       sizeof(*classes->list)))
		return;
	classes->list[function->function] = step_class(function->source, name, function->flags);
}

unsigned step_classes_of(const struct step_classes *classes, const struct perfx_span *span)
{
	if (span->function >= classes->capacity ||
	    (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED)))
		return 0;
	return classes->list[span->function];
}

void step_classes_clear(struct step_classes *classes)
{
	free(classes->list);
	*classes = (struct step_classes){0};
}
