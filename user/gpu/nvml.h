/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NVIDIA's management library (NVML), which comes with the driver: what the GPUs of this host do,
 * and for which processes. It is loaded when it is there; nothing links it, and no header of NVIDIA
 * is needed to build.
 *
 * Calls take milliseconds, the first ones seconds, and on a broken GPU they may never return: not
 * for a thread that has other work. One thread at a time.
 */
#ifndef PERFX_GPU_NVML_H
#define PERFX_GPU_NVML_H

#include "perfx_record.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct nvml;

/* path: NULL for the driver's own, found as any library is. 0, and *nvml is the caller's to close;
 * else `why` says in a line what is missing and what helps, and the result is -ENOENT (no such
 * library: no driver is installed), -ENODEV (no driver is loaded, or no GPU there), -EACCES,
 * -ENOMEM or -EIO. */
int nvml__open(const char *path, struct nvml **nvml, char *why, size_t size);
void nvml__close(struct nvml *nvml);

/* "580.65.06" */
const char *nvml__driver(const struct nvml *nvml);
/* GPUs, by index below it; at most PERFX_GPU_DEVICES_MAX. */
uint32_t nvml__devices_count(const struct nvml *nvml);

#define NVML_UUID_BYTES 96

/* By index: "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"; "" is unknown. */
struct nvml_uuids {
	uint32_t count;
	char text[PERFX_GPU_DEVICES_MAX][NVML_UUID_BYTES];
};

void nvml__uuids(struct nvml *nvml, struct nvml_uuids *uuids);

/* Facts that do not change. `record` is filled but for its header; unknown fields are 0, or "". */
struct nvml_device {
	struct perfx_gpu_device record;
	char name[96], uuid[NVML_UUID_BYTES], driver[80];
	uint32_t minor; /* of /dev/nvidia<minor>; UINT32_MAX: unknown */
};

/* 0, or why this GPU cannot be asked: -ENODEV (it is lost), -EACCES, -EIO. */
int nvml__device(struct nvml *nvml, uint32_t index, struct nvml_device *device);

/* A GPU now: all but the header of a record; what this GPU or this driver does not tell is absent
 * (UINT32_MAX, UINT64_MAX). Activity of its units is that since the last call. 0 or -ENODEV: the
 * GPU is lost, and is not to be asked again. */
int nvml__usage(struct nvml *nvml, uint32_t index, struct perfx_gpu_usage *usage);

/* A process with a context on a GPU. */
struct nvml_process {
	pid_t pid;	     /* in the driver's pid namespace, which is the host's */
	uint32_t sm_percent; /* of about the last second; UINT32_MAX: not measured */
	uint64_t used_bytes; /* UINT64_MAX: not measured */
};

#define NVML_PROCESSES_MAX 256 /* of a GPU */

/* The count, or -E2BIG (more than that), -ENOTSUP, -EACCES, -ENODEV (lost), -EIO. Of each process
 * one entry. */
ssize_t nvml__processes(struct nvml *nvml, uint32_t index,
			struct nvml_process processes[NVML_PROCESSES_MAX]);

#endif
