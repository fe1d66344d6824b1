/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples of the GPUs that traced processes use, taken by a thread of its own: NVML's calls take
 * milliseconds, and those on a broken GPU may never return. A thread that gets no answer in time is
 * given up, with what it works on.
 */
#ifndef PERFX_GPU_THREAD_H
#define PERFX_GPU_THREAD_H

#include "gpu/nvml.h"

#include <stdbool.h>

struct gpu_thread;

struct gpu_thread_options {
	const char *library;  /* NULL: the driver's own */
	const char *proc;     /* NULL: /proc */
	uint64_t devices;     /* bits: these GPUs; 0: those that the asked-for processes use */
	uint64_t patience_ns; /* that a round may take; 0: 5 s. To open the library takes longer */
};

/* A GPU in a round. */
struct gpu_sample {
	struct perfx_gpu_usage usage;
	struct nvml_device device;
	bool lost; /* between the round before and this one: there is nothing else about it */
	/* Those asked for that have a context on it; the last one may be pid 0: all others
	 * together. */
	struct nvml_process *processes;
	size_t processes_count, processes_capacity;
};

struct gpu_round {
	struct gpu_sample *samples;
	size_t count, capacity;
};

enum gpu_thread_state {
	GPU_THREAD_OPENING, /* nothing to be had yet: it can take seconds */
	GPU_THREAD_IDLE,
	GPU_THREAD_WORKING,
	GPU_THREAD_DONE,     /* gpu_thread__round() has what it found */
	GPU_THREAD_FAILED,   /* for good: gpu_thread__why() */
	GPU_THREAD_UNLOADED, /* for good: NVIDIA's driver is installed, but not loaded */
	GPU_THREAD_NOTHING   /* for good: there is no NVIDIA driver here */
};

/* NULL with errno. */
struct gpu_thread *gpu_thread__new(const struct gpu_thread_options *options);
/* One that is stuck is left behind. */
void gpu_thread__free(struct gpu_thread *thread);

/* FAILED also when its time is over: the thread is given up. */
enum gpu_thread_state gpu_thread__state(struct gpu_thread *thread);
/* The same after waiting for the end of what it does. */
enum gpu_thread_state gpu_thread__wait(struct gpu_thread *thread, uint64_t timeout_ns);
/* IDLE: begins a round about these processes. 0 or -ENOMEM. */
int gpu_thread__ask(struct gpu_thread *thread, const pid_t *pids, size_t count);
/* DONE: what was found, until gpu_thread__release(). */
const struct gpu_round *gpu_thread__round(const struct gpu_thread *thread);
void gpu_thread__release(struct gpu_thread *thread);
/* IDLE: the version of the driver, and how many GPUs it has. */
const char *gpu_thread__driver(const struct gpu_thread *thread);
uint32_t gpu_thread__devices_count(const struct gpu_thread *thread);
/* IDLE, WORKING, DONE: of all GPUs. */
const struct nvml_uuids *gpu_thread__uuids(const struct gpu_thread *thread);
/* FAILED, NOTHING: a line. */
const char *gpu_thread__why(const struct gpu_thread *thread);
/* Which of /dev/nvidia<N> a process has open, as bits; proc: "/proc". */
uint64_t gpu_files_open(const char *proc, pid_t pid);

#endif
