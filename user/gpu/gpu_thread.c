// SPDX-License-Identifier: BSD-2-Clause
/*
 * Who may touch what: `state` is behind the lock. In OPENING and WORKING all else is the thread's,
 * in every other state the owner's; `uuids` does not change after OPENING. So a stuck thread keeps
 * its part, and nobody waits for it.
 */
#include "gpu/gpu_thread.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS 5000000000u
/* Without persistence mode the driver starts each GPU anew: some seconds each. */
#define OPENING_TIMES 12

struct gpu_thread {
	struct gpu_thread_options options;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum gpu_thread_state state;
	bool stop, left; /* behind the lock, too; left: by its owner, who waits for nothing more */
	/* always the owner's */
	pthread_t id;
	uint64_t asked_ns; /* when it began what it does */
	bool overdue;	   /* it is given up */
	struct nvml *nvml;
	struct nvml_uuids uuids;
	char why[192];
	pid_t *pids;
	size_t pids_count, pids_capacity;
	uint64_t used;	    /* bits: GPUs on which one of the processes had a context */
	uint64_t described; /* bits: `devices` has them */
	uint64_t minors;    /* of /dev/nvidia<N>, that a process has open in this round */
	struct nvml_device devices[PERFX_GPU_DEVICES_MAX];
	bool lost[PERFX_GPU_DEVICES_MAX];
	struct gpu_round round;
};

uint64_t gpu_files_open(const char *proc, pid_t pid)
{
	char path[300], target[64];
	uint64_t minors = 0;
	struct dirent *entry;
	unsigned minor;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%d/fd", proc, pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[length < 0 ? 0 : length] = '\0';
		if (sscanf(target, "/dev/nvidia%u", &minor) == 1 && minor < PERFX_GPU_DEVICES_MAX)
			minors |= 1ull << minor;
	}
	if (dir)
		closedir(dir);
	return minors;
}

static void add_process(struct gpu_sample *sample, const struct nvml_process *process)
{
	if (!GROW_BY_ONE(sample->processes))
		sample->processes[sample->processes_count++] = *process;
}

/* Does one of the processes have a context on this GPU? */
static bool sort_processes(struct gpu_thread *thread, uint32_t index, struct gpu_sample *sample)
{
	struct nvml_process list[NVML_PROCESSES_MAX], others = {.pid = 0};
	ssize_t count = nvml__processes(thread->nvml, index, list), left_out = 0;

	for (ssize_t i = 0; i < count; i++) {
		bool asked = false;

		FOR_EACH (pid, thread->pids)
			asked |= *pid == list[i].pid;
		if (asked) {
			add_process(sample, &list[i]);
			continue;
		}
		left_out++;
		if (list[i].used_bytes != UINT64_MAX)
			others.used_bytes += list[i].used_bytes;
		if (list[i].sm_percent == UINT32_MAX || others.sm_percent == UINT32_MAX)
			others.sm_percent = UINT32_MAX;
		else
			others.sm_percent += list[i].sm_percent;
	}
	if (!sample->processes_count)
		return false;
	if (left_out)
		add_process(sample, &others);
	return true;
}

/* A GPU that a process has had a context on is sampled to the end. One whose file is open is so for
 * now: the driver's runtime opens more than it uses. */
static bool is_wanted(struct gpu_thread *thread, uint32_t index, struct gpu_sample *sample)
{
	uint32_t minor = thread->described >> index & 1 ? thread->devices[index].minor : UINT32_MAX;

	if (thread->options.devices && !(thread->options.devices >> index & 1))
		return false;
	if (sort_processes(thread, index, sample))
		thread->used |= 1ull << index;
	return thread->options.devices || thread->used >> index & 1 ||
	       (!thread->used && minor < PERFX_GPU_DEVICES_MAX && thread->minors >> minor & 1);
}

static void sample_device(struct gpu_thread *thread, uint32_t index)
{
	struct gpu_round *round = &thread->round;
	uint64_t bit = 1ull << index;
	struct gpu_sample *sample;
	int err;

	if (thread->lost[index] || grow_array(&round->samples, &round->capacity, round->count + 1,
					      sizeof(*round->samples)))
		return;
	sample = &round->samples[round->count];
	sample->processes_count = 0;
	sample->lost = false;
	if (!(thread->described & bit) &&
	    !nvml__device(thread->nvml, index, &thread->devices[index]))
		thread->described |= bit;
	if (!is_wanted(thread, index, sample))
		return;
	err = nvml__usage(thread->nvml, index, &sample->usage);
	if (err && err != -ENODEV)
		return;
	sample->lost = thread->lost[index] = err == -ENODEV;
	sample->device = thread->devices[index];
	thread->round.count++;
}

static void destroy(struct gpu_thread *thread)
{
	for (size_t i = 0; i < thread->round.capacity; i++)
		free(thread->round.samples[i].processes);
	free(thread->round.samples);
	free(thread->pids);
	nvml__close(thread->nvml);
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->lock);
	free(thread);
}

/* A missing driver is no failure. */
static enum gpu_thread_state open_library(struct gpu_thread *thread)
{
	int err = nvml__open(thread->options.library, &thread->nvml, thread->why,
			     sizeof(thread->why));

	if (err && access("/dev/nvidiactl", F_OK) && !thread->options.library) {
		if (err == -ENOENT)
			return GPU_THREAD_NOTHING;
		if (err == -ENODEV)
			return GPU_THREAD_UNLOADED;
	}
	if (err)
		return GPU_THREAD_FAILED;
	nvml__uuids(thread->nvml, &thread->uuids);
	return GPU_THREAD_IDLE;
}

/* The result of what it did. Is it to go on? Left meanwhile, all is the thread's. */
static bool publish(struct gpu_thread *thread, enum gpu_thread_state state)
{
	bool left, goes_on;

	pthread_mutex_lock(&thread->lock);
	thread->state = state;
	pthread_cond_broadcast(&thread->changed);
	while (!thread->left && !thread->stop && thread->state != GPU_THREAD_WORKING)
		pthread_cond_wait(&thread->changed, &thread->lock);
	left = thread->left;
	goes_on = !left && !thread->stop;
	pthread_mutex_unlock(&thread->lock);
	if (left)
		destroy(thread);
	return goes_on;
}

static void *work(void *arg)
{
	struct gpu_thread *thread = arg;
	const char *proc = thread->options.proc ?: "/proc";
	enum gpu_thread_state state = open_library(thread);

	while (publish(thread, state)) {
		thread->round.count = 0;
		thread->minors = 0;
		for (size_t i = 0; i < thread->pids_count; i++)
			if (!thread->used && !thread->options.devices)
				thread->minors |= gpu_files_open(proc, thread->pids[i]);
		for (uint32_t i = 0; i < nvml__devices_count(thread->nvml); i++)
			sample_device(thread, i);
		state = GPU_THREAD_DONE;
	}
	return NULL;
}

struct gpu_thread *gpu_thread__new(const struct gpu_thread_options *options)
{
	struct gpu_thread *thread = calloc(1, sizeof(*thread));
	pthread_condattr_t attributes;
	int err;

	if (!thread)
		return NULL;
	thread->options = *options;
	if (!thread->options.patience_ns)
		thread->options.patience_ns = PATIENCE_NS;
	pthread_mutex_init(&thread->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&thread->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	thread->asked_ns = clock_monotonic_ns();
	err = thread_start(&thread->id, work, thread);
	if (!err)
		return thread;
	destroy(thread);
	errno = -err;
	return NULL;
}

static void set_state(struct gpu_thread *thread, enum gpu_thread_state state)
{
	pthread_mutex_lock(&thread->lock);
	thread->state = state;
	pthread_cond_broadcast(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
}

static bool is_busy(enum gpu_thread_state state)
{
	return state == GPU_THREAD_OPENING || state == GPU_THREAD_WORKING;
}

enum gpu_thread_state gpu_thread__wait(struct gpu_thread *thread, uint64_t timeout_ns)
{
	uint64_t end_ns = clock_monotonic_ns() + timeout_ns;
	uint64_t patience_ns = thread->options.patience_ns;
	struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000),
			       .tv_nsec = (long)(end_ns % 1000000000)};
	enum gpu_thread_state state;
	int err = 0;

	pthread_mutex_lock(&thread->lock);
	while (timeout_ns && !err && !thread->overdue && is_busy(thread->state))
		err = pthread_cond_timedwait(&thread->changed, &thread->lock, &end);
	state = thread->state;
	pthread_mutex_unlock(&thread->lock);
	if (state == GPU_THREAD_OPENING)
		patience_ns *= OPENING_TIMES;
	thread->overdue |= is_busy(state) && clock_monotonic_ns() - thread->asked_ns > patience_ns;
	return thread->overdue ? GPU_THREAD_FAILED : state;
}

enum gpu_thread_state gpu_thread__state(struct gpu_thread *thread)
{
	return gpu_thread__wait(thread, 0);
}

int gpu_thread__ask(struct gpu_thread *thread, const pid_t *pids, size_t count)
{
	if (grow_array(&thread->pids, &thread->pids_capacity, count, sizeof(*pids)))
		return -ENOMEM;
	if (count)
		memcpy(thread->pids, pids, count * sizeof(*pids));
	thread->pids_count = count;
	thread->asked_ns = clock_monotonic_ns();
	set_state(thread, GPU_THREAD_WORKING);
	return 0;
}

const struct gpu_round *gpu_thread__round(const struct gpu_thread *thread)
{
	return &thread->round;
}

void gpu_thread__release(struct gpu_thread *thread)
{
	set_state(thread, GPU_THREAD_IDLE);
}

const char *gpu_thread__driver(const struct gpu_thread *thread)
{
	return nvml__driver(thread->nvml);
}

uint32_t gpu_thread__devices_count(const struct gpu_thread *thread)
{
	return nvml__devices_count(thread->nvml);
}

const struct nvml_uuids *gpu_thread__uuids(const struct gpu_thread *thread)
{
	return &thread->uuids;
}

const char *gpu_thread__why(const struct gpu_thread *thread)
{
	return thread->overdue ? "NVIDIA's library gives no answer: is a GPU broken? (nvidia-smi, "
				 "dmesg)"
			       : thread->why;
}

void gpu_thread__free(struct gpu_thread *thread)
{
	pthread_t id;
	bool stuck;

	if (!thread)
		return;
	id = thread->id;
	pthread_mutex_lock(&thread->lock);
	stuck = is_busy(thread->state);
	thread->left = stuck;
	thread->stop = true;
	pthread_cond_broadcast(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
	if (stuck) {
		pthread_detach(id); /* which frees the rest when it comes back */
		return;
	}
	pthread_join(id, NULL);
	destroy(thread);
}
