// SPDX-License-Identifier: BSD-2-Clause
/*
 * CUPTI's records → the ring's. CUPTI's structs only ever grow at their ends, so a field is read at
 * its offset, and a field that came later only where CUPTI's version has it. Offsets are those of
 * cupti_activity.h (CUDA 13.0) and cupti_activity_deprecated.h.
 */
#include "agent.h"

#include "perfx_record.h"

#include <stdio.h>
#include <string.h>

/* cuptiGetVersion of CUDA 11.6: records name the graph that they belong to. */
#define VERSION_GRAPH_ID 17

static struct call {
	uint8_t op;
	uint32_t name; /* of the ring; 0: not yet */
	char text[56]; /* "cudaLaunchKernel" */
} calls[DOMAINS][CALLS_MAX];

static bool begins(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool ends(const char *text, size_t length, const char *suffix)
{
	size_t suffix_length = strlen(suffix);

	return length >= suffix_length &&
	       !strncmp(text + length - suffix_length, suffix, suffix_length);
}

/* Length without what CUPTI adds for versions and per-thread streams: "_v3020", "_ptsz", "_ptds",
 * in any order. */
static size_t plain_length(const char *name)
{
	size_t length = strlen(name);

	for (;;) {
		size_t digits = length;

		while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
			digits--;
		if (digits < length && ends(name, digits, "_v"))
			length = digits - 2;
		else if (ends(name, length, "_ptsz") || ends(name, length, "_ptds"))
			length -= 5;
		else
			return length;
	}
}

uint8_t call_op(const char *name)
{
	size_t length = plain_length(name);
	const char *verb = name;

	while (*verb == '_')
		verb++;
	if (!begins(verb, "cu"))
		return PERFX_GPU_OP_INVALID;
	verb += begins(verb, "cuda") ? 4 : 2;
	if (ends(name, length, "Synchronize"))
		return PERFX_GPU_OP_SYNC;
	if (begins(verb, "LaunchHostFunc"))
		return PERFX_GPU_OP_INVALID;
	if (begins(verb, "Launch"))
		return PERFX_GPU_OP_KERNEL;
	if (begins(verb, "GraphLaunch"))
		return PERFX_GPU_OP_GRAPH;
	if (begins(verb, "Memcpy"))
		return PERFX_GPU_OP_COPY;
	return begins(verb, "Memset") ? PERFX_GPU_OP_MEMSET : PERFX_GPU_OP_INVALID;
}

uint8_t call_op_of(enum domain domain, uint32_t call)
{
	return call < CALLS_MAX ? calls[domain][call].op : PERFX_GPU_OP_INVALID;
}

void records_find_calls(void)
{
	for (int domain = DOMAIN_DRIVER; domain < DOMAINS; domain++) {
		for (uint32_t i = 0; i < CALLS_MAX; i++) {
			struct call *call = &calls[domain][i];
			const char *name = NULL;

			if (cupti.get_callback_name(domain, i, &name) || !name)
				continue;
			call->op = call_op(name);
			snprintf(call->text, sizeof(call->text), "%.*s", (int)plain_length(name),
				 name);
		}
	}
}

static uint16_t u16_at(const uint8_t *record, size_t offset)
{
	uint16_t value;

	memcpy(&value, record + offset, sizeof(value));
	return value;
}

static uint32_t u32_at(const uint8_t *record, size_t offset)
{
	uint32_t value;

	memcpy(&value, record + offset, sizeof(value));
	return value;
}

static uint64_t u64_at(const uint8_t *record, size_t offset)
{
	uint64_t value;

	memcpy(&value, record + offset, sizeof(value));
	return value;
}

/* Both ends of what a record is about; 0 is CUPTI's "not known". */
static bool read_times(const uint8_t *record, size_t offset, __u64 *start_ns, __u64 *end_ns)
{
	*start_ns = u64_at(record, offset);
	*end_ns = u64_at(record, offset + 8);
	if (*start_ns && *end_ns >= *start_ns)
		return true;
	loss_add(LOSS_UNTIMED, 1);
	return false;
}

static uint32_t graph_at(const uint8_t *record, size_t offset)
{
	return cupti.version >= VERSION_GRAPH_ID ? u32_at(record, offset) : 0;
}

static void put_activity(struct perfx_agent_activity *activity)
{
	if (activity->device >= PERFX_GPU_DEVICES_MAX) /* not as it is laid out here */
		loss_add(LOSS_UNKNOWN_KINDS, 1);
	else
		ring_put(activity, sizeof(*activity), PERFX_AGENT_ACTIVITY, NULL, 0);
}

static void parse_kernel(const uint8_t *record)
{
	struct perfx_agent_activity activity = {.op = PERFX_GPU_OP_KERNEL,
						.host_memory = PERFX_GPU_HOST_MEMORY_NONE};
	const char *name = (const char *)(uintptr_t)u64_at(record, 104);

	if (!read_times(record, 16, &activity.start_ns, &activity.end_ns))
		return;
	activity.registers = u16_at(record, 6);
	activity.device = u32_at(record, 40);
	activity.stream = u32_at(record, 48);
	for (size_t i = 0; i < 3; i++) {
		activity.grid[i] = u32_at(record, 52 + 4 * i);
		activity.block[i] = u32_at(record, 64 + 4 * i);
	}
	activity.static_shared_bytes = u32_at(record, 76);
	activity.dynamic_shared_bytes = u32_at(record, 80);
	activity.call = u32_at(record, 92);
	activity.graph = graph_at(record, 156);
	activity.name = name && *name
				? ring_name(name, 0)
				: ring_name("(kernel without a name)", PERFX_AGENT_NAME_UNKNOWN);
	put_activity(&activity);
}

/* CUpti_ActivityMemcpyKind; arrays are on the device. */
static uint8_t copy_direction(uint8_t kind)
{
	static const uint8_t directions[] = {
		[1] = PERFX_GPU_HOST_TO_DEVICE,	  [2] = PERFX_GPU_DEVICE_TO_HOST,
		[3] = PERFX_GPU_HOST_TO_DEVICE,	  [4] = PERFX_GPU_DEVICE_TO_HOST,
		[5] = PERFX_GPU_DEVICE_TO_DEVICE, [6] = PERFX_GPU_DEVICE_TO_DEVICE,
		[7] = PERFX_GPU_DEVICE_TO_DEVICE, [8] = PERFX_GPU_DEVICE_TO_DEVICE,
		[9] = PERFX_GPU_HOST_TO_HOST,	  [10] = PERFX_GPU_PEER,
	};

	return kind < sizeof(directions) ? directions[kind] : PERFX_GPU_DIRECTION_UNKNOWN;
}

/* CUpti_ActivityMemoryKind */
static uint8_t host_memory(uint8_t kind)
{
	static const uint8_t memories[] = {
		[1] = PERFX_GPU_HOST_MEMORY_PAGEABLE,
		[2] = PERFX_GPU_HOST_MEMORY_PINNED,
		[5] = PERFX_GPU_HOST_MEMORY_MANAGED,
		[7] = PERFX_GPU_HOST_MEMORY_MANAGED,
	};

	return kind < sizeof(memories) ? memories[kind] : PERFX_GPU_HOST_MEMORY_UNKNOWN;
}

static uint8_t copy_host_memory(const uint8_t *record, uint8_t direction)
{
	switch (direction) {
	case PERFX_GPU_HOST_TO_DEVICE:
	case PERFX_GPU_HOST_TO_HOST:
		return host_memory(record[5]);
	case PERFX_GPU_DEVICE_TO_HOST:
		return host_memory(record[6]);
	case PERFX_GPU_DIRECTION_UNKNOWN:
		return PERFX_GPU_HOST_MEMORY_UNKNOWN;
	default:
		return PERFX_GPU_HOST_MEMORY_NONE;
	}
}

/* MEMCPY, MEMCPY_PEER (from one device to another) and MEMSET begin alike. */
static void parse_transfer(const uint8_t *record)
{
	uint32_t kind = u32_at(record, 0);
	bool peer = kind == CUPTI_MEMCPY_PEER;
	struct perfx_agent_activity activity = {
		.op = kind == CUPTI_MEMSET ? PERFX_GPU_OP_MEMSET : PERFX_GPU_OP_COPY,
		.host_memory = PERFX_GPU_HOST_MEMORY_NONE,
		.bytes = u64_at(record, 8),
		.device = u32_at(record, 32),
		.stream = u32_at(record, 40),
		.call = u32_at(record, peer ? 60 : 44),
		.graph = graph_at(record, peer ? 80 : 72),
	};

	if (!read_times(record, 16, &activity.start_ns, &activity.end_ns))
		return;
	if (peer)
		activity.direction = PERFX_GPU_PEER;
	if (kind == CUPTI_MEMCPY) {
		activity.direction = copy_direction(record[4]);
		activity.host_memory = copy_host_memory(record, activity.direction);
	}
	put_activity(&activity);
}

static void parse_sync(const uint8_t *record)
{
	struct perfx_agent_activity activity = {.op = PERFX_GPU_OP_SYNC};

	if (!read_times(record, 8, &activity.start_ns, &activity.end_ns))
		return;
	activity.call = u32_at(record, 24);
	activity.stream = u32_at(record, 32);
	put_activity(&activity);
}

static void parse_graph(const uint8_t *record)
{
	struct perfx_agent_activity activity = {.op = PERFX_GPU_OP_GRAPH,
						.host_memory = PERFX_GPU_HOST_MEMORY_NONE};

	if (!read_times(record, 8, &activity.start_ns, &activity.end_ns))
		return;
	activity.call = u32_at(record, 4);
	activity.device = u32_at(record, 24);
	activity.graph = u32_at(record, 28);
	activity.stream = u32_at(record, 36);
	put_activity(&activity);
}

static void parse_call(const uint8_t *record)
{
	struct perfx_agent_call out = {.tid = u32_at(record, 28), .call = u32_at(record, 32)};
	enum domain domain = u32_at(record, 0) == CUPTI_DRIVER ? DOMAIN_DRIVER : DOMAIN_RUNTIME;
	uint32_t number = u32_at(record, 4);
	struct call *call;

	out.op = call_op_of(domain, number);
	/* before 12.5 CUPTI records all of them or none */
	if (out.op == PERFX_GPU_OP_INVALID || !read_times(record, 8, &out.start_ns, &out.end_ns))
		return;
	call = &calls[domain][number];
	if (!call->name)
		call->name = ring_name(call->text, 0);
	out.name = call->name;
	ring_put(&out, sizeof(out), PERFX_AGENT_CALL, NULL, 0);
}

/* least_bytes: of a record since the first CUPTI that is used, and since CUDA 11.6. */
static const struct parser {
	uint32_t kind;
	size_t least_bytes, with_graph_bytes;
	void (*parse)(const uint8_t *record);
} parsers[] = {
	{CUPTI_CONCURRENT_KERNEL, 144, 160, parse_kernel},
	{CUPTI_MEMCPY, 64, 76, parse_transfer},
	{CUPTI_MEMCPY_PEER, 64, 84, parse_transfer},
	{CUPTI_MEMSET, 48, 76, parse_transfer},
	{CUPTI_SYNCHRONIZATION, 40, 40, parse_sync},
	{CUPTI_GRAPH_TRACE, 48, 48, parse_graph},
	{CUPTI_DRIVER, 40, 40, parse_call},
	{CUPTI_RUNTIME, 40, 40, parse_call},
};

void records_parse(uint8_t *bytes, size_t valid)
{
	uint8_t *record = NULL;

	while (valid && !cupti.next_record(bytes, valid, &record) && record >= bytes &&
	       record + 8 <= bytes + valid) {
		size_t room = (size_t)(bytes + valid - record);
		const struct parser *found = NULL;

		for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++) {
			const struct parser *parser = &parsers[i];

			if (parser->kind == u32_at(record, 0) &&
			    room >= (cupti.version >= VERSION_GRAPH_ID ? parser->with_graph_bytes
								       : parser->least_bytes))
				found = parser;
		}
		if (found)
			found->parse(record);
		else
			loss_add(LOSS_UNKNOWN_KINDS, 1);
	}
}

void records_count_drops(void)
{
	size_t dropped = 0;

	if (!cupti.dropped_records(NULL, 0, &dropped))
		loss_add(LOSS_CUPTI_DROPPED, dropped);
}
