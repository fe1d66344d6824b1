// SPDX-License-Identifier: BSD-2-Clause
#include "decode/decode.h"

#include <string.h>

#define FIELD(kind, type, member, space)                                            \
	{                                                                           \
		PERFX_KIND_##kind, (uint16_t)offsetof(struct perfx_##type, member), \
			sizeof(((struct perfx_##type *)0)->member), (space)         \
	}
#define NOTHING(kind)                               \
	{                                           \
		PERFX_KIND_##kind, 0, 0, FIELD_NONE \
	}

/* One group a kind, in any order. */
static const struct field fields[] = {
	FIELD(SPAN, span, start_ns, FIELD_TIME),
	FIELD(SPAN, span, process, ID_PROCESS),
	FIELD(SPAN, span, context, ID_CONTEXT),
	FIELD(SPAN, span, function, ID_FUNCTION),
	FIELD(USER_VALUE, user_value, time_ns, FIELD_TIME),
	FIELD(USER_VALUE, user_value, process, ID_PROCESS),
	FIELD(USER_VALUE, user_value, value, ID_VALUE),
	FIELD(ALLOCATION, allocation, time_ns, FIELD_TIME),
	FIELD(ALLOCATION, allocation, process, ID_PROCESS),
	FIELD(ALLOCATION, allocation, context, ID_CONTEXT),
	FIELD(ALLOCATION, allocation, allocator, ID_ALLOCATOR),
	FIELD(FREE, free, time_ns, FIELD_TIME),
	FIELD(FREE, free, process, ID_PROCESS),
	FIELD(FREE, free, allocator, ID_ALLOCATOR),
	FIELD(STACK, stack, process, ID_PROCESS),
	FIELD(SAMPLE, sample, time_ns, FIELD_TIME),
	FIELD(SAMPLE, sample, process, ID_PROCESS),
	FIELD(SAMPLE, sample, context, ID_CONTEXT),
	FIELD(GPU_ACTIVITY, gpu_activity, time_ns, FIELD_TIME),
	FIELD(GPU_ACTIVITY, gpu_activity, end_ns, FIELD_TIME),
	FIELD(GPU_ACTIVITY, gpu_activity, process, ID_PROCESS),
	FIELD(GPU_ACTIVITY, gpu_activity, device, ID_GPU_DEVICE),
	FIELD(GPU_ACTIVITY, gpu_activity, name, ID_GPU_NAME),
	FIELD(GPU_CALL, gpu_call, time_ns, FIELD_TIME),
	FIELD(GPU_CALL, gpu_call, end_ns, FIELD_TIME),
	FIELD(GPU_CALL, gpu_call, process, ID_PROCESS),
	FIELD(GPU_CALL, gpu_call, name, ID_GPU_NAME),
	FIELD(FORK, fork, time_ns, FIELD_TIME),
	FIELD(FORK, fork, process, ID_PROCESS),
	FIELD(FORK, fork, parent_process, ID_PROCESS),
	FIELD(EXEC, exec, time_ns, FIELD_TIME),
	FIELD(EXEC, exec, process, ID_PROCESS),
	FIELD(EXEC, exec, old_process, ID_PROCESS),
	FIELD(EXIT, exit, time_ns, FIELD_TIME),
	FIELD(EXIT, exit, process, ID_PROCESS),
	FIELD(RECORDING_WINDOW, recording_window, time_ns, FIELD_TIME),
	FIELD(RECORDING_WINDOW, recording_window, process, ID_PROCESS),
	FIELD(HOST, host, start_ns, FIELD_TIME),
	FIELD(HOST, host, start_boot_ns, FIELD_BOOT_TIME),
	FIELD(PROCESS, process, time_ns, FIELD_TIME),
	FIELD(PROCESS, process, start_boot_ns, FIELD_BOOT_TIME),
	FIELD(PROCESS, process, process, ID_PROCESS),
	FIELD(FUNCTION, function, function, ID_FUNCTION),
	FIELD(PROBE, probe_record, probe, ID_PROBE),
	FIELD(PROBE, probe_record, function, ID_FUNCTION),
	FIELD(CONTEXT, context, context, ID_CONTEXT),
	FIELD(CONTEXT, context, parent, ID_CONTEXT),
	FIELD(CONTEXT, context, function, ID_FUNCTION),
	FIELD(CONTEXT, context, process, ID_PROCESS),
	FIELD(USAGE, usage, time_ns, FIELD_TIME),
	FIELD(USAGE, usage, process, ID_PROCESS),
	FIELD(THREAD, thread, time_ns, FIELD_TIME),
	FIELD(THREAD, thread, start_ns, FIELD_TIME),
	FIELD(THREAD, thread, process, ID_PROCESS),
	NOTHING(BACKGROUND),
	NOTHING(NOT_ATTACHED),
	NOTHING(CALIBRATION),
	FIELD(ALLOCATOR, allocator, allocator, ID_ALLOCATOR),
	FIELD(MEMORY_MODE, memory_mode, time_ns, FIELD_TIME),
	FIELD(FRAME, frame, process, ID_PROCESS),
	NOTHING(PEAK),
	FIELD(OBJECT_COST, object_cost, object_cost, ID_OBJECT_COST),
	FIELD(OBJECT_COST, object_cost, function, ID_FUNCTION),
	NOTHING(PERF_COUNTER),
	FIELD(USER_VALUE_NAME, user_value_name, value, ID_VALUE),
	FIELD(LATE, late, time_ns, FIELD_TIME),
	FIELD(LATE, late, since_ns, FIELD_TIME),
	FIELD(LATE, late, process, ID_PROCESS),
	FIELD(WAIT_OBJECT, wait_object, process, ID_PROCESS),
	FIELD(PYTHON, python, process, ID_PROCESS),
	NOTHING(SAMPLING),
	FIELD(LIMITS, limits, time_ns, FIELD_TIME),
	FIELD(LIMITS, limits, process, ID_PROCESS),
	FIELD(GPU_NAME, gpu_name, name, ID_GPU_NAME),
	FIELD(GPU_DEVICE, gpu_device, device, ID_GPU_DEVICE),
	FIELD(GPU_USAGE, gpu_usage, time_ns, FIELD_TIME),
	FIELD(GPU_USAGE, gpu_usage, device, ID_GPU_DEVICE),
	FIELD(GPU_MEMORY, gpu_memory, time_ns, FIELD_TIME),
	FIELD(GPU_MEMORY, gpu_memory, process, ID_PROCESS),
	FIELD(GPU_MEMORY, gpu_memory, device, ID_GPU_DEVICE),
	FIELD(GPU_STATE, gpu_state, time_ns, FIELD_TIME),
	FIELD(GPU_STATE, gpu_state, process, ID_PROCESS),
	FIELD(HOST_ENERGY, host_energy, time_ns, FIELD_TIME),
	FIELD(HOST_ENERGY, host_energy, domain, ID_ENERGY_DOMAIN),
	FIELD(UNPROBED_STEPS, unprobed_steps, process, ID_PROCESS),
	FIELD(UNPROBED_STEPS, unprobed_steps, function, ID_FUNCTION),
	FIELD(REDUCED, reduced, time_ns, FIELD_TIME),
	FIELD(REDUCED, reduced, function, ID_FUNCTION),
	FIELD(RANK, rank, process, ID_PROCESS),
	FIELD(PLACE, place, process, ID_PROCESS),
	FIELD(MERGED, merged, start_ns, FIELD_TIME),
	FIELD(MERGED, merged, end_ns, FIELD_TIME),
	FIELD(OVERFLOW_CALLS, overflow_calls, context, ID_CONTEXT),
	FIELD(HITS, hits, probe, ID_PROBE),
	FIELD(LOSS, loss, process, ID_PROCESS),
	FIELD(OVERFLOW_MEMORY, overflow_memory, process, ID_PROCESS),
	FIELD(CALL_COUNTERS, call_counters, context, ID_CONTEXT),
	FIELD(PROCESS_COUNTERS, process_counters, process, ID_PROCESS),
	FIELD(OVERFLOW_VALUES, overflow_values, process, ID_PROCESS),
	FIELD(OVERFLOW_VALUES, overflow_values, value, ID_VALUE),
	FIELD(OVERFLOW_VALUES, overflow_values, last_ns, FIELD_TIME),
	FIELD(BLOCKED, blocked, process, ID_PROCESS),
	FIELD(GPU_LAUNCHES, gpu_launches, process, ID_PROCESS),
	FIELD(GPU_LAUNCHES, gpu_launches, context, ID_CONTEXT),
	FIELD(GPU_LAUNCHES, gpu_launches, name, ID_GPU_NAME),
	FIELD(GPU_COPIES, gpu_copies, process, ID_PROCESS),
	FIELD(GPU_COPIES, gpu_copies, context, ID_CONTEXT),
	FIELD(GPU_OVERFLOW, gpu_overflow, process, ID_PROCESS),
	FIELD(GPU_OVERFLOW, gpu_overflow, device, ID_GPU_DEVICE),
	FIELD(GPU_OVERFLOW, gpu_overflow, name, ID_GPU_NAME),
	FIELD(END, end, time_ns, FIELD_TIME),
	FIELD(SEGMENT, segment, time_ns, FIELD_TIME),
	FIELD(SEGMENT, segment, since_ns, FIELD_TIME),
	FIELD(TIME_SLICE, time_slice, recording_ns, FIELD_TIME),
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

const struct field *fields_of(enum perfx_kind kind, size_t *count)
{
	/* kinds are few and asked of each record: where their fields begin is found once */
	static uint8_t first[256], counts[256];
	static bool found;

	_Static_assert(FIELDS < 256, "places are bytes");
	if (!found) {
		for (size_t i = 0; i < FIELDS; i++) {
			if (!counts[fields[i].kind])
				first[fields[i].kind] = (uint8_t)i;
			counts[fields[i].kind] += fields[i].space != FIELD_NONE;
		}
		found = true;
	}
	*count = (size_t)kind < 256 ? counts[kind] : 0;
	return &fields[(size_t)kind < 256 ? first[kind] : 0];
}

static bool is_there(const struct field *field, const void *record)
{
	struct perfx_record hdr;

	memcpy(&hdr, record, sizeof(hdr));
	return field->offset + field->bytes <= hdr.fixed;
}

uint64_t field_get(const struct field *field, const void *record)
{
	uint64_t value = 0;

	/* little endian, as the records are */
	if (is_there(field, record))
		memcpy(&value, (const char *)record + field->offset, field->bytes);
	return value;
}

void field_set(const struct field *field, void *record, uint64_t value)
{
	if (is_there(field, record))
		memcpy((char *)record + field->offset, &value, field->bytes);
}

uint32_t event_process(const struct event *event)
{
	size_t count;
	const struct field *field = fields_of(event->kind, &count);

	uint32_t process = 0;

	while (count && field->space != ID_PROCESS)
		count--, field++;
	if (count)
		memcpy(&process, (const char *)&event->hdr + field->offset, field->bytes);
	return process;
}
