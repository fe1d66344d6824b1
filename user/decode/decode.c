// SPDX-License-Identifier: BSD-2-Clause
#include "decode/decode.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* What is known of a kind: its fixed part, how much of it each record has (what is beyond that and
 * missing is 0), and how many strings follow. */
struct form {
	size_t fixed, least;
	unsigned strings_count;
};

static bool form_of(enum perfx_kind kind, struct form *form)
{
#define FORM(type, strings) ((struct form){sizeof(struct type), sizeof(struct type), (strings)})
	/* no default: a new kind that is forgotten here is a compiler warning */
	switch (kind) {
	case PERFX_KIND_INVALID:
		return false;
	case PERFX_KIND_SPAN:
		*form = FORM(perfx_span, 0);
		form->least = PERFX_SPAN_PLAIN_BYTES;
		return true;
	case PERFX_KIND_USER_VALUE:
		*form = FORM(perfx_user_value, 0);
		return true;
	case PERFX_KIND_USER_VALUE_NAME:
		*form = FORM(perfx_user_value_name, 1);
		return true;
	case PERFX_KIND_OVERFLOW_VALUES:
		*form = FORM(perfx_overflow_values, 0);
		return true;
	case PERFX_KIND_ALLOCATION:
		*form = FORM(perfx_allocation, 0);
		return true;
	case PERFX_KIND_FREE:
		*form = FORM(perfx_free, 0);
		return true;
	case PERFX_KIND_STACK:
		*form = FORM(perfx_stack, 0);
		return true;
	case PERFX_KIND_ALLOCATOR:
		*form = FORM(perfx_allocator, 2);
		return true;
	case PERFX_KIND_MEMORY_MODE:
		*form = FORM(perfx_memory_mode, 0);
		return true;
	case PERFX_KIND_PEAK:
		*form = FORM(perfx_peak, 0);
		return true;
	case PERFX_KIND_PERF_COUNTER:
		*form = FORM(perfx_perf_counter, 3);
		return true;
	case PERFX_KIND_CALL_COUNTERS:
		*form = FORM(perfx_call_counters, 0);
		return true;
	case PERFX_KIND_PROCESS_COUNTERS:
		*form = FORM(perfx_process_counters, 0);
		return true;
	case PERFX_KIND_OBJECT_COST:
		*form = FORM(perfx_object_cost, 0);
		return true;
	case PERFX_KIND_FRAME:
		*form = FORM(perfx_frame, 3);
		return true;
	case PERFX_KIND_OVERFLOW_MEMORY:
		*form = FORM(perfx_overflow_memory, 0);
		return true;
	case PERFX_KIND_FORK:
		*form = FORM(perfx_fork, 0);
		return true;
	case PERFX_KIND_EXEC:
		*form = FORM(perfx_exec, 0);
		form->least = offsetof(struct perfx_exec, net_rx_bytes);
		return true;
	case PERFX_KIND_EXIT:
		*form = FORM(perfx_exit, 0);
		form->least = offsetof(struct perfx_exit, net_rx_bytes);
		return true;
	case PERFX_KIND_RECORDING_WINDOW:
		*form = FORM(perfx_recording_window, 0);
		return true;
	case PERFX_KIND_HOST:
		*form = FORM(perfx_host, 5);
		return true;
	case PERFX_KIND_PROCESS:
		*form = FORM(perfx_process, 2);
		return true;
	case PERFX_KIND_FUNCTION:
		*form = FORM(perfx_function, 3);
		return true;
	case PERFX_KIND_PROBE:
		*form = FORM(perfx_probe_record, 0);
		return true;
	case PERFX_KIND_CONTEXT:
		*form = FORM(perfx_context, 0);
		return true;
	case PERFX_KIND_USAGE:
		*form = FORM(perfx_usage, 0);
		form->least = offsetof(struct perfx_usage, host_busy_ns);
		return true;
	case PERFX_KIND_THREAD:
		*form = FORM(perfx_thread, 1);
		return true;
	case PERFX_KIND_NOT_ATTACHED:
		*form = FORM(perfx_not_attached, 2);
		return true;
	case PERFX_KIND_LATE:
		*form = FORM(perfx_late, 1);
		return true;
	case PERFX_KIND_CALIBRATION:
		*form = FORM(perfx_calibration, 0);
		return true;
	case PERFX_KIND_OVERFLOW_CALLS:
		*form = FORM(perfx_overflow_calls, 0);
		form->least = offsetof(struct perfx_overflow_calls, flops);
		return true;
	case PERFX_KIND_HITS:
		*form = FORM(perfx_hits, 0);
		form->least = offsetof(struct perfx_hits, cost_ps);
		return true;
	case PERFX_KIND_LOSS:
		*form = FORM(perfx_loss, 0);
		return true;
	case PERFX_KIND_END:
		*form = FORM(perfx_end, 0);
		form->least = offsetof(struct perfx_end, looks_count);
		return true;
	case PERFX_KIND_SEGMENT:
		*form = FORM(perfx_segment, 0);
		return true;
	case PERFX_KIND_TIME_SLICE:
		*form = FORM(perfx_time_slice, 1);
		return true;
	}
#undef FORM
	return false;
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

/* Values that later code indexes or switches by. */
static bool values_ok(const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_FUNCTION:
		return event->function.source > 0 && event->function.source <= PERFX_SOURCE_NCCL;
	case PERFX_KIND_PROBE:
		return event->probe.link > 0 && event->probe.link <= PERFX_LINK_TRACEPOINT &&
		       event->probe.ret <= PERFX_RETURN_PROBE && event->probe.site > 0 &&
		       event->probe.site <= PERFX_SITE_STEPPED;
	case PERFX_KIND_CALIBRATION:
		return event->calibration.link <= PERFX_LINK_TRACEPOINT &&
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
		       event->memory_mode.level <= PERFX_MEMORY_SAMPLED_IN &&
		       event->memory_mode.on_ns <= event->memory_mode.period_ns;
	case PERFX_KIND_SPAN:
		return event->span.self_ns <= event->span.duration_ns &&
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
	default:
		return true;
	}
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
