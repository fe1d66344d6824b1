/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NVIDIA's management library without a GPU: it answers by a script, the file NVML_STUB, which it
 * reads at each call, so that a test can change it. A line is a call (without _v2, _v3), a device,
 * and the answer:
 *
 *	nvmlDeviceGetCount 0 2
 *	nvmlDeviceGetName 0 NVIDIA H100 80GB HBM3
 *	nvmlDeviceGetPowerUsage 0 250000
 *	nvmlDeviceGetPowerUsage 1 !15            fails: the GPU is lost
 *	nvmlDeviceGetUtilizationRates 1 hang     never returns
 *	nvmlDeviceGetTotalEnergyConsumption 0 1000+250000
 *	                                         1000 mJ when it was loaded, then 250 W
 *	nvmlDeviceGetComputeRunningProcesses 0 4711:1073741824 4712:2048
 *	nvmlDeviceGetProcessUtilization 0 4711:75
 *	nvmlGpmMetricsGet 0 2:45.5 5:12
 *
 * Calls without a line are not supported, as on an older GPU. With NVML_OLD calls of later drivers
 * are not exported; with NVML_V3_BYTES=32 running processes have the layout of driver 535.54.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef NVML_V3_BYTES
#define NVML_V3_BYTES 24
#endif

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

#define ANSWER_MAX 1024

static uint64_t loaded_ns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((constructor)) static void load(void)
{
	loaded_ns = now_ns();
}

/* A handle is the device's index, and one. */
static unsigned index_of(const void *device)
{
	return (unsigned)(uintptr_t)device - 1;
}

static int take(const char *text, char answer[ANSWER_MAX])
{
	if (!strcmp(text, "hang"))
		for (;;)
			pause();
	if (*text == '!')
		return atoi(text + 1);
	snprintf(answer, ANSWER_MAX, "%s", text);
	return SUCCESS;
}

/* The result, and the answer where that is SUCCESS. */
static int ask(const char *call, unsigned device, char answer[ANSWER_MAX])
{
	const char *path = getenv("NVML_STUB");
	FILE *script = path ? fopen(path, "re") : NULL;
	char line[ANSWER_MAX], name[128], text[ANSWER_MAX] = "!3";
	unsigned of;
	int at;

	while (script && fgets(line, sizeof(line), script)) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%127s %u %n", name, &of, &at) == 2 && !strcmp(name, call) &&
		    of == device)
			snprintf(text, sizeof(text), "%s", line + at);
	}
	if (script)
		fclose(script);
	return take(text, answer);
}

static int ask_text(const char *call, unsigned device, char *to, unsigned size)
{
	char answer[ANSWER_MAX];
	int result = ask(call, device, answer);

	if (result)
		return result;
	if (strlen(answer) >= size)
		return INSUFFICIENT_SIZE;
	strcpy(to, answer);
	return SUCCESS;
}

/* Up to three numbers; "base+rate" grows by rate a second. */
static int ask_numbers(const char *call, const void *device, uint64_t numbers[3])
{
	char answer[ANSWER_MAX], *at = answer;
	int result = ask(call, index_of(device), answer);

	for (int i = 0; !result && i < 3; i++) {
		numbers[i] = strtoull(at, &at, 10);
		if (*at == '+')
			numbers[i] += (uint64_t)((double)strtoull(at + 1, &at, 10) *
						 (double)(now_ns() - loaded_ns) / 1e9);
	}
	return result;
}

static int ask_number(const char *call, const void *device, unsigned *to)
{
	uint64_t numbers[3];
	int result = ask_numbers(call, device, numbers);

	if (!result)
		*to = (unsigned)numbers[0];
	return result;
}

static int ask_long(const char *call, const void *device, unsigned long long *to)
{
	uint64_t numbers[3];
	int result = ask_numbers(call, device, numbers);

	if (!result)
		*to = numbers[0];
	return result;
}

int nvmlInit_v2(void)
{
	char answer[ANSWER_MAX];

	return ask("nvmlInit", 0, answer);
}

int nvmlShutdown(void)
{
	return SUCCESS;
}

const char *nvmlErrorString(int result)
{
	return result == 999 ? "Unknown Error" : "Some Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
	return ask_text("nvmlSystemGetDriverVersion", 0, version, size);
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	return ask_number("nvmlDeviceGetCount", (void *)1, count);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	char answer[ANSWER_MAX];
	int result = ask("nvmlDeviceGetHandleByIndex", index, answer);

	if (result == NOT_SUPPORTED) /* no line about it */
		result = SUCCESS;
	*device = (void *)(uintptr_t)(index + 1);
	return result;
}

int nvmlDeviceGetName(void *device, char *name, unsigned size)
{
	return ask_text("nvmlDeviceGetName", index_of(device), name, size);
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size)
{
	return ask_text("nvmlDeviceGetUUID", index_of(device), uuid, size);
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
	uint64_t numbers[3];
	int result = ask_numbers("nvmlDeviceGetCudaComputeCapability", device, numbers);

	*major = (int)numbers[0];
	*minor = (int)numbers[1];
	return result;
}

#define NUMBER(call, type, ask)                      \
	int call(void *device, type *to);            \
	int call(void *device, type *to)             \
	{                                            \
		return ask_##ask(#call, device, to); \
	}

#define OF_KIND(call)                                            \
	int call(void *device, unsigned kind, unsigned *to);     \
	int call(void *device, unsigned kind, unsigned *to)      \
	{                                                        \
		char name[64];                                   \
                                                                 \
		snprintf(name, sizeof(name), #call ".%u", kind); \
		return ask_number(name, device, to);             \
	}

NUMBER(nvmlDeviceGetMinorNumber, unsigned, number)
NUMBER(nvmlDeviceGetNumGpuCores, unsigned, number)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, number)
NUMBER(nvmlDeviceGetPowerUsage, unsigned, number)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, long)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, long)
OF_KIND(nvmlDeviceGetMaxClockInfo)
OF_KIND(nvmlDeviceGetClockInfo)
OF_KIND(nvmlDeviceGetTemperature)

struct memory_v1 {
	unsigned long long total, free, used;
};

int nvmlDeviceGetMemoryInfo(void *device, struct memory_v1 *memory)
{
	uint64_t numbers[3];
	int result = ask_numbers("nvmlDeviceGetMemoryInfo", device, numbers);

	*memory = (struct memory_v1){numbers[0], numbers[0] - numbers[1], numbers[1]};
	return result;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned utilization[2])
{
	uint64_t numbers[3];
	int result = ask_numbers("nvmlDeviceGetUtilizationRates", device, numbers);

	utilization[0] = (unsigned)numbers[0];
	utilization[1] = (unsigned)numbers[1];
	return result;
}

static int list_running(const void *device, unsigned *count, unsigned char *list, size_t bytes)
{
	char answer[ANSWER_MAX], *at = answer;
	int result = ask("nvmlDeviceGetComputeRunningProcesses", index_of(device), answer);
	unsigned room = *count;

	*count = 0;
	while (!result && *at) {
		uint32_t pid = (uint32_t)strtoul(at, &at, 10);
		uint64_t used = *at == ':' ? strtoull(at + 1, &at, 10) : UINT64_MAX;

		if (*count == room)
			return INSUFFICIENT_SIZE;
		memset(list, 0xee, bytes); /* callers only read fields that they know */
		memcpy(list, &pid, sizeof(pid));
		memcpy(list + 8, &used, sizeof(used));
		list += bytes;
		++*count;
		at += strspn(at, " ");
	}
	return result;
}

int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *list)
{
	return list_running(device, count, list, 16);
}

struct share {
	uint32_t pid;
	uint64_t time_us;
	uint32_t sm, memory, encoder, decoder;
};

/* Two samples of each: an old one at 1 %, and the script's value, now. */
int nvmlDeviceGetProcessUtilization(void *device, struct share *list, unsigned *count,
				    unsigned long long since_us)
{
	char answer[ANSWER_MAX], *at = answer;
	int result = ask("nvmlDeviceGetProcessUtilization", index_of(device), answer);
	uint64_t now_us = (uint64_t)time(NULL) * 1000000;
	unsigned room = *count;

	*count = 0;
	while (!result && *at) {
		struct share share = {.pid = (uint32_t)strtoul(at, &at, 10), .time_us = now_us};

		share.sm = *at == ':' ? (uint32_t)strtoul(at + 1, &at, 10) : 0;
		if (*count + 2 > room)
			return INSUFFICIENT_SIZE;
		list[(*count)++] = share;
		share.time_us = since_us + 1;
		share.sm = 1;
		if (share.time_us < now_us)
			list[(*count)++] = share;
		at += strspn(at, " ");
	}
	return result || *count ? result : NOT_FOUND;
}

#ifndef NVML_OLD

int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, void *list)
{
	return list_running(device, count, list, 24);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *list)
{
	return list_running(device, count, list, NVML_V3_BYTES);
}

NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, long)

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

/* 1 MiB is the driver's own. */
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory)
{
	struct memory_v1 older;
	int result = nvmlDeviceGetMemoryInfo(device, &older);

	if (memory->version != (sizeof(*memory) | 2 << 24))
		return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
	memory->total = older.total;
	memory->reserved = 1 << 20;
	memory->free = older.free;
	memory->used = older.used - memory->reserved;
	return result;
}

struct support {
	unsigned version, supported;
};

struct sample {
	unsigned device;
	uint64_t time_ns; /* 0: not taken */
};

struct metrics {
	unsigned version, count;
	struct sample *before, *now;
	struct metric {
		unsigned metric;
		int result;
		double value;
		char *names[3];
	} metrics[];
};

int nvmlGpmQueryDeviceSupport(void *device, struct support *support)
{
	if (support->version != 1)
		return 25;
	return ask_number("nvmlGpmQueryDeviceSupport", device, &support->supported);
}

int nvmlGpmSampleAlloc(struct sample **sample)
{
	*sample = calloc(1, sizeof(**sample));
	return *sample ? SUCCESS : 20;
}

int nvmlGpmSampleFree(struct sample *sample)
{
	free(sample);
	return SUCCESS;
}

int nvmlGpmSampleGet(void *device, struct sample *sample)
{
	*sample = (struct sample){index_of(device), now_ns()};
	return SUCCESS;
}

/* The value of a metric in "2:45.5 5:12". */
static int metric_of(const char *answer, struct metric *metric)
{
	for (const char *at = answer; *at;) {
		char *end;
		unsigned long id = strtoul(at, &end, 10);
		double value = *end == ':' ? strtod(end + 1, &end) : 0;

		if (id == metric->metric) {
			metric->value = value;
			return SUCCESS;
		}
		if (end == at)
			break;
		at = end + strspn(end, " ");
	}
	return NOT_SUPPORTED;
}

/* Two samples that are 100 ms apart, the older one first. */
int nvmlGpmMetricsGet(struct metrics *metrics)
{
	char answer[ANSWER_MAX];
	int result;

	if (metrics->version != 1 || !metrics->before->time_ns ||
	    metrics->now->time_ns < metrics->before->time_ns + 100000000)
		return INVALID;
	result = ask("nvmlGpmMetricsGet", metrics->now->device, answer);
	for (unsigned i = 0; !result && i < metrics->count; i++)
		metrics->metrics[i].result = metric_of(answer, &metrics->metrics[i]);
	return result;
}
#endif
