/* SPDX-License-Identifier: BSD-2-Clause */
/* A decoded record: what everything after decode works with. */
#ifndef PERFX_DECODE_EVENT_H
#define PERFX_DECODE_EVENT_H

#include "perfx_record.h"

#include <stdint.h>
#include <string.h>

#define EVENT_STRINGS_MAX 5

struct event {
	enum perfx_kind kind;
	union {
		struct perfx_record hdr;
		struct perfx_span span;
		struct perfx_allocation allocation;
		struct perfx_free free;
		struct perfx_stack stack;
		struct perfx_fork fork;
		struct perfx_exec exec;
		struct perfx_exit exit;
		struct perfx_recording_window recording_window;
		struct perfx_host host;
		struct perfx_process process;
		struct perfx_function function;
		struct perfx_probe_record probe;
		struct perfx_context context;
		struct perfx_usage usage;
		struct perfx_thread thread;
		struct perfx_not_attached not_attached;
		struct perfx_late late;
		struct perfx_calibration calibration;
		struct perfx_allocator allocator;
		struct perfx_memory_mode memory_mode;
		struct perfx_frame frame;
		struct perfx_peak peak;
		struct perfx_perf_counter perf_counter;
		struct perfx_call_counters call_counters;
		struct perfx_process_counters process_counters;
		struct perfx_object_cost object_cost;
		struct perfx_overflow_memory overflow_memory;
		struct perfx_user_value value;
		struct perfx_user_value_name value_name;
		struct perfx_overflow_values overflow_values;
		struct perfx_overflow_calls overflow_calls;
		struct perfx_hits hits;
		struct perfx_loss loss;
		struct perfx_end end;
		struct perfx_segment segment;
		struct perfx_time_slice time_slice;
	};
	/* The record's strings in the order that perfx_record.h gives; never NULL for those that
	 * the kind has; borrowed from the bytes that were decoded. */
	const char *strings[EVENT_STRINGS_MAX];
	/* STACK: stack.frames_count of them, at most PERFX_STACK_FRAMES_MAX; borrowed likewise, and
	 * unaligned where the bytes are: read with memcpy or stack_address(). */
	const unsigned char *addresses;
	const void *record; /* the bytes that were decoded, hdr.size of them; borrowed */
};

static inline uint64_t stack_address(const struct event *event, uint32_t frame)
{
	uint64_t address;

	memcpy(&address, event->addresses + frame * sizeof(address), sizeof(address));
	return address;
}

#endif
