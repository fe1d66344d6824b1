// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server that waits for requests: no worker makes them come sooner. They come by a socket that
 * others connect to, by a thread that waits at such a socket and hands them over, or from a thread
 * of its own that waits for each answer: one that reads ahead fills a queue, and does not wait for
 * the steps.
 */
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "analyze/wait_class.h"

/* Does a thread wait in Python for what the thread of the steps does? */
static bool awaits_answer(const struct rules_ctx *ctx, const struct profile_activity *wait)
{
	return wait->tid != ctx->driver->tid && wait->holder_tid == ctx->driver->tid &&
	       wait->reason == PERFX_WAIT_FUTEX && wait_class(wait) != ACCOUNT_LOCK &&
	       stack_has_python(wait->stack) && !stack_has(wait->stack, CODE_QUEUE_PUT);
}

/* Does a thread wait at a server's sockets? */
static bool serves(const struct rules_ctx *ctx, uint32_t tid)
{
	const struct profile_activities *blocked = &ctx->process->blocked;

	for (size_t i = 0; i < blocked->count; i++)
		if (blocked->list[i].tid == tid &&
		    blocked->list[i].object_kind == PERFX_OBJECT_SERVER)
			return true;
	return false;
}

/* Steps that end with an update of parameters are no answers. */
bool rules_trains(const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	return steps->count && (steps->found_by == PROFILE_STEPS_BY_OPTIMIZER ||
				steps->found_by == PROFILE_STEPS_BY_BACKWARD);
}

struct requests requests_find(const struct rules_ctx *ctx)
{
	const struct profile_activities *blocked = &ctx->process->blocked;
	uint64_t input_ns = 0, sockets_ns = 0, queues_ns = 0, answers_ns = 0;
	struct requests requests = {0};

	FOR_EACH_OF (wait, *blocked) {
		uint64_t ns = activity_judged_ns(wait);

		if (awaits_answer(ctx, wait)) {
			answers_ns += ns;
			if (!requests.client || wait->ns > requests.client->ns)
				requests.client = wait;
		}
		if (wait->tid != ctx->driver->tid || wait_class(wait) != ACCOUNT_INPUT)
			continue;
		input_ns += ns;
		if (wait->object_kind == PERFX_OBJECT_SERVER ||
		    (wait->reason == PERFX_WAIT_FUTEX && wait->holder_tid &&
		     serves(ctx, wait->holder_tid)))
			sockets_ns += ns;
		else if (wait->reason == PERFX_WAIT_FUTEX && wait->holder_tid)
			queues_ns += ns;
	}
	/* while it does not wait for requests, somebody waits for its answer */
	if (!requests.client || 2 * (answers_ns + input_ns) < ctx->driver->judged_ns + input_ns)
		queues_ns = 0;
	if (sockets_ns >= queues_ns)
		requests.client = NULL;
	requests.awaited = 2 * (sockets_ns + queues_ns) > input_ns && !rules_trains(ctx);
	return requests;
}
