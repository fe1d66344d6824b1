// SPDX-License-Identifier: BSD-2-Clause
#include "session/gpus.h"

#include "base/message.h"
#include "session/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of a recording waits so long for a sample. */
#define LAST_NS 1000000000u

struct gpus {
	struct gpus_parts parts;
	struct gpu_thread *thread; /* NULL: it has failed */
	uint64_t described;	   /* bits: GPU_DEVICE was emitted */
	struct nvml_uuids uuids;   /* count 0: not known yet, or never */
	struct pack_buffer buffer;
};

struct gpus *gpus__new(const struct gpus_parts *parts)
{
	struct gpus *gpus = calloc(1, sizeof(*gpus));

	if (!gpus)
		return NULL;
	gpus->parts = *parts;
	gpus->thread = gpu_thread__new(&parts->options);
	if (gpus->thread)
		return gpus;
	free(gpus);
	return NULL;
}

void gpus__free(struct gpus *gpus)
{
	if (!gpus)
		return;
	gpu_thread__free(gpus->thread);
	free(gpus);
}

/* Processes come before their GPU: what it has used since its last sample is divided among them. */
static void emit_sample(struct gpus *gpus, const struct gpu_sample *sample)
{
	const struct nvml_device *device = &sample->device;
	uint64_t bit = 1ull << device->record.device;
	struct perfx_gpu_device described = device->record;
	struct perfx_gpu_usage usage = sample->usage;
	char name[32];

	if (!(gpus->described & bit))
		SINK_PACK(gpus->parts.sink, &gpus->buffer, PERFX_KIND_GPU_DEVICE, described,
			  device->name, device->uuid, device->driver);
	gpus->described |= bit;
	if (sample->lost) {
		snprintf(name, sizeof(name), "GPU %u", usage.device);
		msg_say("%s (%s) is lost: it has fallen off its bus, or must be reset", name,
			device->name);
		skipped_add(gpus->parts.skipped, name, "it was lost during the recording");
		return;
	}
	for (size_t i = 0; i < sample->processes_count; i++) {
		const struct nvml_process *process = &sample->processes[i];
		struct perfx_gpu_memory record = {.time_ns = usage.time_ns,
						  .used_bytes = process->used_bytes,
						  .device = usage.device,
						  .sm_percent = process->sm_percent};

		if (process->pid)
			record.process =
				process_table__process(gpus->parts.processes, process->pid);
		if (record.process || !process->pid)
			SINK_PACK(gpus->parts.sink, &gpus->buffer, PERFX_KIND_GPU_MEMORY, record);
	}
	SINK_PACK(gpus->parts.sink, &gpus->buffer, PERFX_KIND_GPU_USAGE, usage);
}

static void end_thread(struct gpus *gpus)
{
	gpu_thread__free(gpus->thread);
	gpus->thread = NULL;
}

/* Report a broken driver only if a traced process uses it. */
static bool is_missed(const struct gpus *gpus)
{
	const char *proc = gpus->parts.options.proc ? gpus->parts.options.proc : "/proc";
	size_t count;
	const pid_t *pids = process_table__pids(gpus->parts.processes, &count);

	for (size_t i = 0; i < count; i++)
		if (gpu_files_open(proc, pids[i]))
			return true;
	return false;
}

static void fail(struct gpus *gpus)
{
	const char *why = gpu_thread__why(gpus->thread);

	if (!gpus->described && !gpus->parts.options.devices && !is_missed(gpus))
		return;
	msg_say("GPUs are not sampled: %s", why);
	skipped_add(gpus->parts.skipped, "GPUs", why);
	end_thread(gpus);
}

void gpus__tick(struct gpus *gpus)
{
	const struct gpu_round *round;

	if (!gpus || !gpus->thread)
		return;
	switch (gpu_thread__state(gpus->thread)) {
	case GPU_THREAD_DONE:
		round = gpu_thread__round(gpus->thread);
		for (size_t i = 0; i < round->count; i++)
			emit_sample(gpus, &round->samples[i]);
		gpu_thread__release(gpus->thread);
		break;
	case GPU_THREAD_UNLOADED:
	case GPU_THREAD_NOTHING:
		end_thread(gpus);
		break;
	case GPU_THREAD_OPENING:
	case GPU_THREAD_IDLE:
	case GPU_THREAD_WORKING:
	case GPU_THREAD_FAILED: /* reported at the next sample */
		break;
	}
}

/* Kept, for the thread may fail later. 0 or -errno. */
static int know_uuids(struct gpus *gpus)
{
	if (gpus->uuids.count)
		return 0;
	if (!gpus->thread)
		return -ENODEV;
	switch (gpu_thread__state(gpus->thread)) {
	case GPU_THREAD_OPENING:
		return -EAGAIN;
	case GPU_THREAD_FAILED:
	case GPU_THREAD_UNLOADED:
	case GPU_THREAD_NOTHING:
		return -ENODEV;
	case GPU_THREAD_IDLE:
	case GPU_THREAD_WORKING:
	case GPU_THREAD_DONE:
		break;
	}
	gpus->uuids = *gpu_thread__uuids(gpus->thread);
	return 0;
}

int gpus__find(struct gpus *gpus, const char *uuid)
{
	int err = gpus ? know_uuids(gpus) : -ENODEV;

	if (err)
		return err;
	for (uint32_t i = 0; *uuid && i < gpus->uuids.count; i++)
		if (!strcmp(gpus->uuids.text[i], uuid))
			return (int)i;
	return -ENOENT;
}

void gpus__sample(struct gpus *gpus)
{
	size_t count;
	const pid_t *pids;

	gpus__tick(gpus);
	if (!gpus || !gpus->thread)
		return;
	if (gpu_thread__state(gpus->thread) == GPU_THREAD_FAILED) {
		fail(gpus);
		return;
	}
	if (gpu_thread__state(gpus->thread) != GPU_THREAD_IDLE)
		return;
	pids = process_table__pids(gpus->parts.processes, &count);
	if (gpu_thread__ask(gpus->thread, pids, count))
		msg_say("GPUs: out of memory");
}

void gpus__finish(struct gpus *gpus)
{
	if (!gpus || !gpus->thread)
		return;
	if (gpu_thread__wait(gpus->thread, LAST_NS) == GPU_THREAD_OPENING && is_missed(gpus)) {
		msg_say("GPUs are not sampled: the driver had not started by the end of the "
			"recording: nvidia-smi -pm 1 keeps it running");
		skipped_add(gpus->parts.skipped, "GPUs",
			    "the driver had not started by the end of the recording");
	}
	gpus__tick(gpus);
}

/* A recording goes on without them. */
static int open_gpus(struct recording *recording)
{
	struct gpus_parts parts = {.processes = recording->processes,
				   .sink = recording->sink,
				   .skipped = &recording->skipped,
				   .options.devices = recording->options->gpu_devices};

	if (recording->options->plan.gpu == GPU_OFF)
		return 0;
	recording->gpus = gpus__new(&parts);
	if (!recording->gpus)
		msg_say("GPUs are not sampled: %s", strerror(errno));
	return 0;
}

static void sample(struct recording *recording, enum usage_sample what)
{
	(void)what;
	gpus__sample(recording->gpus);
}

VERB(tick, gpus__tick(recording->gpus))
VERB(end, gpus__finish(recording->gpus))
VERB(close_gpus, gpus__free(recording->gpus))

const struct recording_part gpus_part = {.name = "GPUs",
					 .open = open_gpus,
					 .sample = sample,
					 .tick = tick,
					 .end = end,
					 .close = close_gpus};
