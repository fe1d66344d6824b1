// SPDX-License-Identifier: BSD-2-Clause
#include "session/operations.h"

#include "base/grow.h"
#include "base/map64.h"
#include "base/message.h"
#include "base/text.h"
#include "decode/pack.h"
#include "xla/thunk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

struct operations {
	const struct plan *plan;
	struct tracer *tracer;
	struct probes *probes;
	struct sink *sink;
	struct xla_work *works; /* by id */
	size_t works_count, works_capacity;
	/* The first thunk that multiplies decides whether they can be read in this process's
	 * release: what the kernels below say must not be counted beside it. */
	bool any_counted, unreadable;
	struct map64 owed_ids; /* context << 32 | work → owed_told[] */
	uint64_t *owed_told;
	size_t owed_count, owed_capacity;
	bool last; /* report: what has not been read by now never is */
	struct pack_buffer buffer;
};

struct operations *operations__new(const struct plan *plan, struct tracer *tracer,
				   struct probes *probes, struct sink *sink)
{
	struct operations *operations = calloc(1, sizeof(*operations));

	if (!operations)
		return NULL;
	operations->plan = plan;
	operations->tracer = tracer;
	operations->probes = probes;
	operations->sink = sink;
	return operations;
}

void operations__free(struct operations *operations)
{
	if (!operations)
		return;
	free(operations->works);
	free(operations->owed_told);
	map64_clear(&operations->owed_ids);
	free(operations);
}

static bool read_process(void *ctx, uint64_t address, void *to, size_t bytes)
{
	const pid_t *pid = ctx;
	struct iovec local = {.iov_base = to, .iov_len = bytes};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = bytes};

	return process_vm_readv(*pid, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* The names come from the process: any bytes but NUL. */
static void name_function(struct operations *operations, const struct perfx_object_record *object)
{
	const struct plan_function *runner = probes__function(operations->probes, object->runner);
	const struct plan_module *module =
		runner ? &operations->plan->modules[runner->module] : NULL;
	struct perfx_function record = {.offset = runner ? runner->offset : 0,
					.function = object->function,
					.source = PERFX_SOURCE_XLA};
	struct text name = {0};

	text_printf(&name, "%s/%s", object->module, object->operation);
	SINK_PACK(operations->sink, &operations->buffer, PERFX_KIND_FUNCTION, record,
		  name.data ? name.data : "", module ? module->path : "",
		  module ? module->build_id : "");
	text_clear(&name);
}

static void decide(struct operations *operations, struct xla_work *work)
{
	if (operations->unreadable) {
		if (work->state == PERFX_FIGURE_COUNTED)
			*work = (struct xla_work){.state = PERFX_FIGURE_UNREAD};
		return;
	}
	if (work->state == PERFX_FIGURE_COUNTED)
		operations->any_counted = true;
	if (work->state != PERFX_FIGURE_UNREAD || operations->any_counted)
		return;
	operations->unreadable = true;
	probes__want_workers(operations->probes);
	msg_say("the operations of this release of XLA cannot be read: what they compute is told "
		"by "
		"their kernels");
}

static void read_object(struct operations *operations, const struct perfx_object_record *object,
			struct xla_work *work)
{
	pid_t pid = (pid_t)object->pid;
	struct xla_memory memory = {.read = read_process, .ctx = &pid};

	*work = (struct xla_work){.state = PERFX_FIGURE_NONE};
	if (!operations->plan->options.figures)
		return;
	xla_thunk_work(&memory, object->key.address, object->operation, work);
	decide(operations, work);
}

static void tell_work(struct operations *operations, const struct perfx_object_record *object,
		      const struct xla_work *work)
{
	struct perfx_work record = {.flops = work->flops,
				    .bytes = work->bytes,
				    .work = object->work,
				    .function = object->function,
				    .state = (uint8_t)work->state,
				    .dtype = (uint8_t)work->dtype};
	const struct perfx_record *packed = PACK(&operations->buffer, PERFX_KIND_WORK, record);
	struct perfx_object known = {.flops = work->flops,
				     .bytes = work->bytes,
				     .function = object->function,
				     .work = object->work,
				     .owner = object->owner,
				     .state = (uint8_t)work->state,
				     .dtype = (uint8_t)work->dtype};

	sink_packed(operations->sink, packed);
	tracer__tell_object(operations->tracer, object, &known);
}

void operations__on_object(struct operations *operations, const struct perfx_object_record *object)
{
	struct xla_work work;

	if (object->new_function)
		name_function(operations, object);
	read_object(operations, object, &work);
	tell_work(operations, object, &work);
	if (grow_array(&operations->works, &operations->works_capacity, (size_t)object->work + 1,
		       sizeof(*operations->works)))
		return;
	operations->works[object->work] = work;
	if (object->work >= operations->works_count)
		operations->works_count = (size_t)object->work + 1;
}

/* What of it has not been told; 0 also where memory is out. */
static uint64_t owed_since(struct operations *operations, const struct perfx_owed_key *key,
			   uint64_t count)
{
	uint64_t id = (uint64_t)key->context << 32 | key->work, more;
	uint32_t at = map64_get(&operations->owed_ids, id);

	if (at == MAP64_NONE) {
		at = (uint32_t)operations->owed_count;
		if (grow_array(&operations->owed_told, &operations->owed_capacity,
			       operations->owed_count + 1, sizeof(*operations->owed_told)) ||
		    map64_put(&operations->owed_ids, id, at))
			return 0;
		operations->owed_count++;
	}
	more = count - operations->owed_told[at];
	operations->owed_told[at] = count;
	return more;
}

static void book_owed(void *ctx, const struct perfx_owed_key *key, uint64_t runs_count)
{
	struct operations *operations = ctx;
	struct perfx_book record = {.context = key->context};
	struct xla_work work = {.state = PERFX_FIGURE_UNREAD};
	uint64_t count;

	if (key->work >= operations->works_count && !operations->last)
		return;
	count = owed_since(operations, key, runs_count);
	if (!count)
		return;
	if (key->work < operations->works_count)
		work = operations->works[key->work];
	if (work.state == PERFX_FIGURE_COUNTED) {
		record.counted_count = count;
		if (__builtin_mul_overflow(work.flops, count, &record.flops) ||
		    __builtin_mul_overflow(work.bytes, count, &record.bytes))
			return;
	} else if (work.state == PERFX_FIGURE_OPAQUE) {
		record.opaque_count = count;
	} else if (work.state == PERFX_FIGURE_UNREAD) {
		record.unread_count = count;
	}
	SINK_PACK(operations->sink, &operations->buffer, PERFX_KIND_BOOK, record);
}

void operations__report(struct operations *operations, bool last)
{
	operations->last = last;
	tracer__each_owed(operations->tracer, book_owed, operations);
}
