// SPDX-License-Identifier: BSD-2-Clause
/*
 * Operations of compiled programs: XLA's thunks. The programs in the kernel emit each thunk when
 * it is run for the first time; here it gets its name, and what a run of it computes is read from
 * the process (xla/thunk.h) and passed to the stream and to the kernel.
 *
 * Reading takes 5 to 20 µs, of a fusion 0.1 ms, once for each thunk. Runs before that are emitted
 * with the thunk's id alone; the OBJECT_COST record that follows gives their cost.
 */
#include "session/recording.h"

#include "attach/probes.h"
#include "base/emitted.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/text.h"
#include "decode/pack.h"
#include "proc/process.h"
#include "xla/thunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct operations {
	const struct recording *recording;
	struct xla_cost *costs; /* by id */
	size_t costs_count, costs_capacity;
	/* The first thunk that multiplies shows whether this release of XLA can be read. Only if
	 * not, the kernels below are traced; counting both would count FLOPs twice. */
	bool any_counted, unreadable;
	struct emitted runs_emitted; /* by context << 32 | object cost */
	bool last;		     /* report: what has not been read will not be */
	struct pack_buffer buffer;
};

static bool read_process(void *ctx, uint64_t address, void *to, size_t bytes)
{
	const pid_t *pid = ctx;
	return !process_read(*pid, address, to, bytes);
}

/* The names come from the process: any bytes but NUL. */
static void name_function(struct operations *operations, const struct perfx_object_record *object)
{
	const struct recording *recording = operations->recording;
	const struct plan_function *runner = probes__function(recording->probes, object->runner);
	const struct plan_module *module =
		runner ? &recording->plan->modules[runner->module] : NULL;
	struct perfx_function record = {.offset = runner ? runner->offset : 0,
					.function = object->function,
					.source = PERFX_SOURCE_XLA};
	struct text name = {0};

	text_printf(&name, "%s/%s", object->module, object->operation);
	SINK_PACK(recording->sink, &operations->buffer, PERFX_KIND_FUNCTION, record,
		  name.data ? name.data : "", module ? module->path : "",
		  module ? module->build_id : "");
	text_clear(&name);
}

static void emit_cost(struct operations *operations, const struct perfx_object_record *object,
		      const struct xla_cost *cost)
{
	struct perfx_object_cost record = {.flops = cost->flops,
					   .bytes = cost->bytes,
					   .object_cost = object->object_cost,
					   .function = object->function,
					   .state = (uint8_t)cost->state,
					   .dtype = (uint8_t)cost->dtype};
	const struct perfx_record *packed =
		PACK(&operations->buffer, PERFX_KIND_OBJECT_COST, record);
	struct perfx_object known = {.flops = cost->flops,
				     .bytes = cost->bytes,
				     .function = object->function,
				     .object_cost = object->object_cost,
				     .owner = object->owner,
				     .state = (uint8_t)cost->state,
				     .dtype = (uint8_t)cost->dtype};

	sink_packed(operations->recording->sink, packed);
	tracer__set_object(operations->recording->tracer, object, &known);
}

/* What a run computes. Where this release of XLA cannot be read, the kernels below are traced. */
static struct xla_cost read_cost(struct operations *operations,
				 const struct perfx_object_record *object)
{
	pid_t pid = (pid_t)object->pid;
	struct xla_memory memory = {.read = read_process, .ctx = &pid};
	struct xla_cost cost = {.state = PERFX_COST_NONE};

	if (!operations->recording->plan->options.cost_model)
		return cost;
	xla_thunk_cost(&memory, object->key.address, object->operation, &cost);
	if (operations->unreadable) {
		if (cost.state == PERFX_COST_COUNTED)
			cost = (struct xla_cost){.state = PERFX_COST_UNREAD};
		return cost;
	}
	if (cost.state == PERFX_COST_COUNTED)
		operations->any_counted = true;
	if (cost.state != PERFX_COST_UNREAD || operations->any_counted)
		return cost;
	operations->unreadable = true;
	probes__want_workers(operations->recording->probes);
	msg_say("the operations of this release of XLA cannot be read: FLOPs are those of their "
		"kernels");
	return cost;
}

void operations__on_object(struct operations *operations, const struct perfx_object_record *object)
{
	struct xla_cost cost;

	if (object->new_function)
		name_function(operations, object);
	cost = read_cost(operations, object);
	emit_cost(operations, object, &cost);
	if (GROW_TO(operations->costs, object->object_cost))
		operations->costs[object->object_cost] = cost;
}

static void add_unrecorded_runs(void *ctx, const struct perfx_pending_key *key, uint64_t runs_count)
{
	struct operations *operations = ctx;
	struct perfx_overflow_calls record = {.context = key->context};
	struct xla_cost cost = {.state = PERFX_COST_UNREAD};
	uint64_t count = runs_count;

	if (key->object_cost >= operations->costs_count && !operations->last)
		return;
	if (emitted_advance(&operations->runs_emitted,
			    (uint64_t)key->context << 32 | key->object_cost, &count) <= 0)
		return;
	if (key->object_cost < operations->costs_count)
		cost = operations->costs[key->object_cost];
	if (cost.state == PERFX_COST_COUNTED) {
		record.counted_count = count;
		if (__builtin_mul_overflow(cost.flops, count, &record.flops) ||
		    __builtin_mul_overflow(cost.bytes, count, &record.bytes))
			return;
	} else if (cost.state == PERFX_COST_OPAQUE) {
		record.opaque_count = count;
	} else if (cost.state == PERFX_COST_UNREAD) {
		record.unread_count = count;
	}
	SINK_PACK(operations->recording->sink, &operations->buffer, PERFX_KIND_OVERFLOW_CALLS,
		  record);
}

void operations__report(struct operations *operations, bool last)
{
	operations->last = last;
	tracer__each_pending_run(operations->recording->tracer, add_unrecorded_runs, operations);
}

static int open_operations(struct recording *recording)
{
	struct operations *operations = calloc(1, sizeof(*operations));

	if (!operations)
		return -ENOMEM;
	operations->recording = recording;
	operations->runs_emitted.width = 1;
	recording->operations = operations;
	return 0;
}

static void close_operations(struct recording *recording)
{
	struct operations *operations = recording->operations;

	if (!operations)
		return;
	free(operations->costs);
	emitted_clear(&operations->runs_emitted);
	free(operations);
}

const struct recording_part operations_part = {
	.name = "compiled operations", .open = open_operations, .close = close_operations};
