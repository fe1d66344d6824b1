// SPDX-License-Identifier: BSD-2-Clause
#include "decode/decode.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The shape of a kind's records. */
struct form {
	size_t fixed; /* bytes known here */
	size_t least; /* bytes that each record has: those up to `fixed` that are missing are 0 */
	unsigned strings_count;
};

static bool form_of(enum perfx_kind kind, struct form *form)
{
	switch (kind) {
#define FORM(kind, name, number, bytes, least, strings, role)                         \
	case PERFX_KIND_##kind: {                                                     \
		_Static_assert((least) <= (bytes) && (strings) <= EVENT_STRINGS_MAX); \
		*form = (struct form){(bytes), (least), (strings)};                   \
		return true;                                                          \
	}
		PERFX_RECORDS(FORM)
#undef FORM
	case PERFX_KIND_INVALID:
		break;
	}
	return false;
}

enum perfx_role role_of(enum perfx_kind kind)
{
	switch (kind) {
#define ROLE(kind, name, number, bytes, least, strings, role) \
	case PERFX_KIND_##kind:                               \
		return PERFX_ROLE_##role;
		PERFX_RECORDS(ROLE)
#undef ROLE
	case PERFX_KIND_INVALID:
		break;
	}
	return PERFX_ROLE_NONE;
}

/* Cuts [text, end) into count NUL-terminated strings. */
static bool split_strings(const char *text, const char *end, const char **strings, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const char *nul = memchr(text, '\0', (size_t)(end - text));

		if (!nul)
			return false;
		strings[i] = text;
		text = nul + 1;
	}
	return true;
}

/* The addresses of a STACK record lie whole between its fixed part and its end. */
static bool find_addresses(struct event *event, const char *from, const char *end)
{
	event->addresses = (const unsigned char *)from;
	return event->stack.frames_count <= PERFX_STACK_FRAMES_MAX &&
	       event->stack.frames_count <= (size_t)(end - from) / sizeof(uint64_t);
}

static bool domain_ok(uint8_t domain)
{
	return domain > PERFX_DOMAIN_INVALID && domain < PERFX_DOMAINS;
}

static bool wait_reason_ok(uint8_t reason)
{
	return reason > PERFX_WAIT_NONE && reason < PERFX_WAIT_REASONS;
}

static bool gpu_op_ok(uint8_t op)
{
	return op > PERFX_GPU_OP_INVALID && op < PERFX_GPU_OPS;
}

static bool copy_ok(uint8_t direction, uint8_t host_memory)
{
	return direction < PERFX_GPU_DIRECTIONS && host_memory < PERFX_GPU_HOST_MEMORIES;
}

/* Values that later code indexes or switches by. */
static bool values_ok(const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_FUNCTION:
		return event->function.source > 0 && event->function.source < PERFX_SOURCES;
	case PERFX_KIND_PROBE:
		return event->probe_record.link > 0 &&
		       event->probe_record.link <= PERFX_LINK_SINGLE &&
		       event->probe_record.ret <= PERFX_RETURN_PROBE &&
		       event->probe_record.site > 0 &&
		       event->probe_record.site <= PERFX_SITE_STEPPED;
	case PERFX_KIND_CALIBRATION:
		return event->calibration.link <= PERFX_LINK_SINGLE &&
		       event->calibration.ret <= PERFX_RETURN_PROBE &&
		       event->calibration.site <= PERFX_SITE_STEPPED;
	case PERFX_KIND_LOSS:
		return event->loss.loss < PERFX_LOSS_KINDS;
	case PERFX_KIND_ALLOCATION:
		return domain_ok(event->allocation.domain);
	case PERFX_KIND_FREE:
		return domain_ok(event->free.domain);
	case PERFX_KIND_ALLOCATOR:
		return domain_ok(event->allocator.domain);
	case PERFX_KIND_OVERFLOW_MEMORY:
		return domain_ok(event->overflow_memory.domain);
	case PERFX_KIND_MEMORY_MODE:
		return domain_ok(event->memory_mode.domain) &&
		       event->memory_mode.level <= PERFX_MEMORY_FREES_INFERRED &&
		       event->memory_mode.on_ns <= event->memory_mode.period_ns;
	case PERFX_KIND_REDUCED:
		return event->reduced.to == PERFX_REDUCED_COUNTED ||
		       event->reduced.to == PERFX_REDUCED_REMOVED;
	case PERFX_KIND_SAMPLE:
		return event->sample.state >= PERFX_SAMPLE_ON_CPU &&
		       event->sample.state <= PERFX_SAMPLE_RUNNABLE &&
		       event->sample.reason < PERFX_WAIT_REASONS;
	case PERFX_KIND_BLOCKED:
		return wait_reason_ok(event->blocked.reason);
	case PERFX_KIND_WAIT_OBJECT:
		return wait_reason_ok(event->wait_object.reason) &&
		       event->wait_object.kind < PERFX_OBJECT_KINDS;
	case PERFX_KIND_FRAME:
		return event->frame.language <= PERFX_LANGUAGE_PYTHON;
	case PERFX_KIND_PLACE:
		return event->place.part > 0 && event->place.part < PERFX_PLACES;
	case PERFX_KIND_SAMPLING:
		return event->sampling.stacks <= PERFX_STACKS_UNWIND;
	case PERFX_KIND_SPAN:
		return event->span.self_ns <= event->span.duration_ns &&
		       event->span.off_cpu_ns <= event->span.duration_ns &&
		       event->span.cost_state < PERFX_COST_STATES &&
		       event->span.dtype < PERFX_DTYPES;
	case PERFX_KIND_PERF_COUNTER:
		return event->perf_counter.kind <= PERFX_PERF_COUNTER_MISSING &&
		       (event->perf_counter.counter < PERFX_PERF_COUNTERS ||
			event->perf_counter.kind == PERFX_PERF_COUNTER_MISSING);
	case PERFX_KIND_OBJECT_COST:
		return event->object_cost.state < PERFX_COST_BY_OBJECT &&
		       event->object_cost.dtype < PERFX_DTYPES;
	case PERFX_KIND_PEAK:
		return event->peak.dtype < PERFX_DTYPES &&
		       event->peak.origin <= PERFX_PEAK_ESTIMATED;
	case PERFX_KIND_GPU_ACTIVITY:
		return gpu_op_ok(event->gpu_activity.op) &&
		       copy_ok(event->gpu_activity.direction, event->gpu_activity.host_memory) &&
		       event->gpu_activity.end_ns >= event->gpu_activity.time_ns &&
		       event->gpu_activity.device < PERFX_GPU_DEVICES_MAX;
	case PERFX_KIND_GPU_CALL:
		return gpu_op_ok(event->gpu_call.op) &&
		       event->gpu_call.end_ns >= event->gpu_call.time_ns;
	case PERFX_KIND_GPU_LAUNCHES:
		return event->gpu_launches.op == PERFX_GPU_OP_KERNEL ||
		       event->gpu_launches.op == PERFX_GPU_OP_GRAPH;
	case PERFX_KIND_GPU_COPIES:
		return (event->gpu_copies.op == PERFX_GPU_OP_COPY ||
			event->gpu_copies.op == PERFX_GPU_OP_MEMSET) &&
		       copy_ok(event->gpu_copies.direction, event->gpu_copies.host_memory);
	case PERFX_KIND_GPU_DEVICE:
		return event->gpu_device.device < PERFX_GPU_DEVICES_MAX;
	case PERFX_KIND_GPU_USAGE:
		return event->gpu_usage.device < PERFX_GPU_DEVICES_MAX;
	case PERFX_KIND_GPU_MEMORY:
		return event->gpu_memory.device < PERFX_GPU_DEVICES_MAX;
	case PERFX_KIND_HOST_ENERGY:
		return event->host_energy.domain < PERFX_ENERGY_DOMAINS_MAX;
	case PERFX_KIND_MERGED:
		return event->merged.merged > 0 && event->merged.merged <= PERFX_MERGED_MAX &&
		       event->merged.alignment > PERFX_ALIGNMENT_INVALID &&
		       event->merged.alignment <= PERFX_ALIGNMENT_WALL_CLOCK;
	case PERFX_KIND_GPU_STATE:
		return event->gpu_state.state > PERFX_GPU_AGENT_INVALID &&
		       event->gpu_state.state <= PERFX_GPU_AGENT_FAILED;
	case PERFX_KIND_GPU_OVERFLOW:
		return gpu_op_ok(event->gpu_overflow.op) &&
		       copy_ok(event->gpu_overflow.direction, event->gpu_overflow.host_memory) &&
		       event->gpu_overflow.device < PERFX_GPU_DEVICES_MAX;
	case PERFX_KIND_INVALID:
	case PERFX_KIND_USER_VALUE:
	case PERFX_KIND_STACK:
	case PERFX_KIND_FORK:
	case PERFX_KIND_EXEC:
	case PERFX_KIND_EXIT:
	case PERFX_KIND_RECORDING_WINDOW:
	case PERFX_KIND_HOST:
	case PERFX_KIND_PROCESS:
	case PERFX_KIND_CONTEXT:
	case PERFX_KIND_USAGE:
	case PERFX_KIND_THREAD:
	case PERFX_KIND_NOT_ATTACHED:
	case PERFX_KIND_USER_VALUE_NAME:
	case PERFX_KIND_LATE:
	case PERFX_KIND_PYTHON:
	case PERFX_KIND_LIMITS:
	case PERFX_KIND_GPU_NAME:
	case PERFX_KIND_UNPROBED_STEPS:
	case PERFX_KIND_RANK:
	case PERFX_KIND_OVERFLOW_CALLS:
	case PERFX_KIND_HITS:
	case PERFX_KIND_CALL_COUNTERS:
	case PERFX_KIND_PROCESS_COUNTERS:
	case PERFX_KIND_OVERFLOW_VALUES:
	case PERFX_KIND_BACKGROUND:
	case PERFX_KIND_END:
	case PERFX_KIND_SEGMENT:
	case PERFX_KIND_TIME_SLICE:
		break; /* no such values */
	}
	return true;
}

ssize_t decode_event(const void *data, size_t size, struct event *event, size_t *skip)
{
	const char *bytes = data;
	struct perfx_record hdr;
	struct form form;
	size_t known;

	if (size < sizeof(hdr))
		return -EAGAIN;
	memcpy(&hdr, data, sizeof(hdr));
	if (hdr.size < sizeof(hdr) || hdr.size > PERFX_RECORD_MAX || hdr.size % 8 ||
	    hdr.fixed < sizeof(hdr) || hdr.fixed > hdr.size)
		return -EBADMSG;
	if (hdr.size > size)
		return -EAGAIN;

	*skip = hdr.size;
	if (!form_of(hdr.kind, &form) || hdr.fixed < form.least)
		return -ENOTSUP;

	event->kind = hdr.kind;
	known = hdr.fixed < form.fixed ? hdr.fixed : form.fixed;
	memcpy((char *)event + offsetof(struct event, hdr), data, known);
	memset((char *)event + offsetof(struct event, hdr) + known, 0, form.fixed - known);
	if (!split_strings(bytes + hdr.fixed, bytes + hdr.size, event->strings, form.strings_count))
		return -ENOTSUP;
	event->addresses = NULL;
	event->record = data;
	if (hdr.kind == PERFX_KIND_STACK &&
	    !find_addresses(event, bytes + hdr.fixed, bytes + hdr.size))
		return -ENOTSUP;
	if (!values_ok(event))
		return -ENOTSUP;
	return (ssize_t)hdr.size;
}

size_t decode_next(const void *data, size_t size, struct event *event)
{
	static const struct perfx_loss undecoded = {
		.hdr = {sizeof(undecoded), PERFX_KIND_LOSS, sizeof(undecoded)},
		.loss = PERFX_LOSS_UNDECODED,
		.count = 1,
	};
	size_t skip = size;
	ssize_t used = decode_event(data, size, event, &skip);

	if (used >= 0)
		return (size_t)used;
	decode_event(&undecoded, sizeof(undecoded), event, &(size_t){0});
	return used == -ENOTSUP ? skip : size;
}
