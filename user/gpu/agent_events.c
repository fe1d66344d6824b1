// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/internal.h"

#include "base/hash.h"
#include "proc/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The key of a sum: the fields of a record between its header and its sums. */
#define KEY_BYTES \
	(offsetof(struct perfx_gpu_overflow, count) - offsetof(struct perfx_gpu_overflow, process))

/* Shapes are merged first when there are too many sums, then names; few sums remain. */
#define SHAPED_SUMS_MAX 49152
#define NAMED_SUMS_MAX	65536

static uint64_t hash_of(const struct perfx_gpu_overflow *key)
{
	return fnv1a(&key->process, KEY_BYTES);
}

/* The sum to which a key belongs; NULL: memory is out. */
static struct perfx_gpu_overflow *find_sum(struct gpu_events *all, struct perfx_gpu_overflow *key)
{
	uint32_t index = map64_get(&all->sums_by_key, hash_of(key));

	if (index == MAP64_NONE && all->sums_count >= SHAPED_SUMS_MAX) {
		memset(key->grid, 0, sizeof(key->grid));
		memset(key->block, 0, sizeof(key->block));
		key->dynamic_shared_bytes = 0;
		index = map64_get(&all->sums_by_key, hash_of(key));
	}
	if (index == MAP64_NONE && all->sums_count >= NAMED_SUMS_MAX) {
		key->name = key->stream = 0;
		index = map64_get(&all->sums_by_key, hash_of(key));
	}
	if (index != MAP64_NONE)
		return &all->sums[index];
	index = (uint32_t)all->sums_count;
	if (GROW_BY_ONE(all->sums) || map64_put(&all->sums_by_key, hash_of(key), index))
		return NULL;
	all->sums[all->sums_count++] = *key;
	return &all->sums[index];
}

static void add_to_sum(struct gpu_events *all, const struct perfx_gpu_activity *activity)
{
	struct perfx_gpu_overflow key = {.process = activity->process,
					 .device = activity->device,
					 .stream = activity->stream,
					 .name = activity->name,
					 .op = activity->op,
					 .direction = activity->direction,
					 .host_memory = activity->host_memory,
					 .dynamic_shared_bytes = activity->dynamic_shared_bytes};
	struct perfx_gpu_overflow *sum;

	memcpy(key.grid, activity->grid, sizeof(key.grid));
	memcpy(key.block, activity->block, sizeof(key.block));
	sum = find_sum(all, &key);
	if (!sum)
		return;
	all->summed_count++;
	if (key.block[0]) {
		sum->static_shared_bytes = activity->static_shared_bytes;
		sum->registers = activity->registers;
	}
	sum->count++;
	sum->total_ns += activity->end_ns - activity->time_ns;
	sum->bytes += activity->bytes;
}

void gpu_events_emit_sums(struct gpu_events *events)
{
	struct pack_buffer buffer;

	FOR_EACH (sum, events->sums) {
		if (!sum->count)
			continue;
		SINK_PACK(events->sink, &buffer, PERFX_KIND_GPU_OVERFLOW, *sum);
		sum->count = sum->total_ns = sum->bytes = 0;
	}
}

void gpu_events_clear(struct gpu_events *events)
{
	map64_clear(&events->sums_by_key);
	free(events->sums);
	events->sums = NULL;
	events->sums_count = events->sums_capacity = 0;
}

uint32_t agent_events_thread(struct agent_events *events, uint32_t own_id)
{
	uint32_t tid;

	if (!events->has_own_pids)
		return own_id;
	tid = map64_get(&events->threads, own_id);
	if (tid != MAP64_NONE)
		return tid;
	tid = (uint32_t)process_thread_by_own_id(events->pid, (pid_t)own_id);
	map64_put(&events->threads, own_id, tid); /* without memory it is looked up again */
	return tid;
}

/* The recording's number. uuid: "" unknown. */
static uint8_t number_device(const struct gpu_events *all, uint32_t ordinal, const char *uuid)
{
	int number = all->device_of ? all->device_of(all->ctx, uuid) : -ENODEV;

	if (number >= 0)
		return (uint8_t)number;
	if (number == -ENODEV)
		return (uint8_t)ordinal;
	return (uint8_t)(AGENT_DEVICES_UNLISTED + ordinal % AGENT_DEVICES_UNLISTED);
}

/* An agent's names are numbered in the order in which they come, so a gap is of its making. */
#define NAMES_MAX 65536

static uint32_t name_of(const struct agent_events *events, uint32_t name)
{
	return name < events->names_capacity ? events->names[name] : 0;
}

static bool is_recorded(const struct gpu_events *all, uint64_t start_ns)
{
	return start_ns >= all->begin_ns && (!all->end_ns || start_ns <= all->end_ns);
}

static void add_activity(struct agent_events *events, const struct perfx_agent_activity *from)
{
	struct perfx_gpu_activity activity = {
		.time_ns = from->start_ns,
		.end_ns = from->end_ns,
		.bytes = from->bytes,
		.call = from->call,
		.process = events->process,
		.device = events->devices[from->device],
		.stream = from->stream,
		.name = name_of(events, from->name),
		.graph = from->graph,
		.static_shared_bytes = from->static_shared_bytes,
		.dynamic_shared_bytes = from->dynamic_shared_bytes,
		.registers = from->registers,
		.op = from->op,
		.direction = from->direction,
		.host_memory = from->host_memory,
	};
	struct pack_buffer buffer;

	if (!is_recorded(events->all, from->start_ns))
		return;
	memcpy(activity.grid, from->grid, sizeof(activity.grid));
	memcpy(activity.block, from->block, sizeof(activity.block));
	if (events->all->events_count >= events->all->events_max) {
		add_to_sum(events->all, &activity);
		return;
	}
	events->all->events_count++;
	SINK_PACK(events->all->sink, &buffer, PERFX_KIND_GPU_ACTIVITY, activity);
}

/* Beyond the limit calls are left out: the probes on the same functions have their sums. */
static void add_call(struct agent_events *events, const struct perfx_agent_call *from)
{
	struct perfx_gpu_call call = {.time_ns = from->start_ns,
				      .end_ns = from->end_ns,
				      .call = from->call,
				      .process = events->process,
				      .name = name_of(events, from->name),
				      .op = from->op};
	struct pack_buffer buffer;

	if (!is_recorded(events->all, from->start_ns) ||
	    events->all->events_count >= events->all->events_max)
		return;
	events->all->events_count++;
	call.tid = agent_events_thread(events, from->tid);
	SINK_PACK(events->all->sink, &buffer, PERFX_KIND_GPU_CALL, call);
}

void agent_events_add(struct agent_events *events, const union agent_record *record)
{
	static const char *const before[16] = {
		[0] = "GPU-", [4] = "-", [6] = "-", [8] = "-", [10] = "-"};
	uint32_t name, device;
	size_t length = 0;
	char uuid[48];

	switch (record->hdr.kind) {
	case PERFX_AGENT_NAME:
		name = record->name.name;
		if (name < NAMES_MAX && !grow_array(&events->names, &events->names_capacity,
						    (size_t)name + 1, sizeof(*events->names)))
			events->names[name] =
				gpu_names__id(events->all->names, record->text, "",
					      record->name.flags & PERFX_AGENT_NAME_UNKNOWN
						      ? PERFX_GPU_NAME_UNKNOWN
						      : 0);
		break;
	case PERFX_AGENT_DEVICE:
		device = record->device.device;
		/* "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f", as NVML has it */
		for (size_t i = 0; i < 16; i++)
			length += (size_t)snprintf(uuid + length, sizeof(uuid) - length, "%s%02x",
						   before[i] ?: "", record->device.uuid[i]);
		events->devices[device] = number_device(events->all, device, uuid);
		break;
	case PERFX_AGENT_ACTIVITY:
		add_activity(events, &record->activity);
		break;
	case PERFX_AGENT_CALL:
		add_call(events, &record->call);
		break;
	}
}

void agent_events_init(struct agent_events *events, struct gpu_events *all, pid_t pid,
		       uint32_t process)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	*events = (struct agent_events){.all = all, .pid = pid, .process = process};
	events->has_own_pids = !stat("/proc/self/ns/pid", &ours) && !stat(path, &theirs) &&
			       ours.st_ino != theirs.st_ino;
	for (uint32_t i = 0; i < PERFX_GPU_DEVICES_MAX; i++)
		events->devices[i] = number_device(events->all, i, "");
}

void agent_events_clear(struct agent_events *events)
{
	free(events->names);
	map64_clear(&events->threads);
	events->names = NULL;
	events->names_capacity = 0;
}
