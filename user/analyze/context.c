// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/context.h"

#include "analyze/loaders.h"
#include "analyze/remedy.h"
#include "analyze/stack_kind.h"
#include "base/text.h"

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
		loaders_find(&contexts->loaders, contexts);
	return err;
}

void contexts_clear(struct contexts *contexts)
{
	map64_clear(&contexts->places);
	map64_clear(&contexts->batches);
}

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

bool sample_is_of_batch(const struct contexts *contexts, const struct profile_activity *sample)
{
	return context_is_data(contexts, sample->context) ||
	       stack_is_of_batch(contexts, sample->stack);
}

bool stack_is_of_batch(const struct contexts *contexts, const struct profile_stack *stack)
{
	return stack_has(stack, CODE_INPUT) || loaders_have(&contexts->loaders, stack);
}
