// SPDX-License-Identifier: BSD-2-Clause
/*
 * Types and numbers are those of nvml.h as NVIDIA publishes it (PyPI: nvidia-nvml-dev-cu12 12.9.79,
 * nvidia-nvml-dev 13.5.37, nvidia-ml-py 13.615.71; the offsets are the same in all of them),
 * written down anew. What the driver at hand does not export is not called: each call that is
 * missing, not supported or not permitted leaves its number out.
 *
 * Seen against a stub library alone; not on hardware.
 */
#include "gpu/nvml.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

/* nvmlReturn_t, those that lead to something. */
enum result {
	DONE = 0,
	NOT_SUPPORTED = 3,
	NO_PERMISSION = 4,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
	FUNCTION_NOT_FOUND = 13,
	GPU_IS_LOST = 15,
	RESET_REQUIRED = 16,
	VERSION_MISMATCH = 18,
};

enum clock_type { CLOCK_SM = 1, CLOCK_MEMORY = 2 }; /* nvmlClockType_t */
enum sensor { SENSOR_GPU = 0 };			    /* nvmlTemperatureSensors_t */

/* nvmlUtilization_t */
struct utilization {
	unsigned gpu, memory; /* percent */
};

/* nvmlMemory_t, of the call without version: used counts what the driver reserves, too. */
struct memory_v1 {
	unsigned long long total, free, used;
};

/* nvmlMemory_v2_t */
struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

/* NVML_STRUCT_VERSION(): the size, and the version above it. */
#define STRUCT_VERSION(type, version) ((unsigned)(sizeof(type) | (version) << 24))

/* nvmlProcessInfo_v1_t, which is how nvmlProcessInfo_v2_t begins. */
struct running_v1 {
	unsigned pid;
	unsigned long long used_bytes; /* all ones: not available */
};

/* nvmlProcessInfo_v2_t; _v3 of the call has it, too. */
struct running_v2 {
	struct running_v1 v1;
	unsigned gpu_instance, compute_instance;
};

/* Bytes of an entry that _v3 of the call wrote in drivers 535.43 to 535.86. */
#define RUNNING_SIZE_MAX 32

/* nvmlProcessUtilizationSample_t */
struct share {
	unsigned pid;
	unsigned long long time_us;
	unsigned sm, memory, encoder, decoder; /* percent */
};

/* nvmlGpmSupport_t */
struct gpm_support {
	unsigned version, supported;
};

/* nvmlGpmMetric_t, and the metrics of nvmlGpmMetricId_t that are asked for, all in percent. */
struct gpm_metric {
	unsigned metric;
	int result;
	double value;
	char *short_name, *long_name, *unit;
};

enum gpm_metric_id {
	GPM_SM_ACTIVE = 2,
	GPM_SM_OCCUPANCY = 3,
	GPM_TENSOR_ACTIVE = 5,
	GPM_DRAM_ACTIVE = 10,
};

/* Room for NVML_GPM_METRIC_MAX of any release: it was 98, 210, 333 and 477, all by version 1. */
#define GPM_METRICS_MAX 1024

/* nvmlGpmMetricsGet_t */
struct gpm_metrics {
	unsigned version, count;
	struct gpm_sample *before, *now;
	struct gpm_metric metrics[GPM_METRICS_MAX];
};

_Static_assert(sizeof(struct memory_v2) == 40, "ABI: nvmlMemory_v2_t");
_Static_assert(sizeof(struct running_v1) == 16, "ABI: nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct running_v2) == 24, "ABI: nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct share) == 32, "ABI: nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct gpm_metric) == 40, "ABI: nvmlGpmMetric_t");

struct handle; /* nvmlDevice_t */

/* The library's functions; NULL: not exported. */
struct calls {
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error)(int result);
	int (*driver)(char *version, unsigned size);
	int (*count)(unsigned *count);
	int (*handle)(unsigned index, struct handle **device);
	int (*name)(struct handle *device, char *name, unsigned size);
	int (*uuid)(struct handle *device, char *uuid, unsigned size);
	int (*minor)(struct handle *device, unsigned *minor);
	int (*capability)(struct handle *device, int *major, int *minor);
	int (*cores)(struct handle *device, unsigned *count);
	int (*max_clock)(struct handle *device, unsigned type, unsigned *mhz);
	int (*power_limit)(struct handle *device, unsigned *mw);
	int (*memory_v2)(struct handle *device, struct memory_v2 *memory);
	int (*memory)(struct handle *device, struct memory_v1 *memory);
	int (*utilization)(struct handle *device, struct utilization *utilization);
	int (*power)(struct handle *device, unsigned *mw);
	int (*energy)(struct handle *device, unsigned long long *mj);
	int (*clock)(struct handle *device, unsigned type, unsigned *mhz);
	int (*temperature)(struct handle *device, unsigned sensor, unsigned *celsius);
	int (*reasons)(struct handle *device, unsigned long long *bits);
	int (*throttle)(struct handle *device, unsigned long long *bits); /* its older name */
	int (*running_v3)(struct handle *device, unsigned *count, void *list);
	int (*running_v2)(struct handle *device, unsigned *count, void *list);
	int (*running_v1)(struct handle *device, unsigned *count, void *list);
	int (*shares)(struct handle *device, struct share *list, unsigned *count,
		      unsigned long long since_us);
	int (*gpm_support)(struct handle *device, struct gpm_support *support);
	int (*gpm_alloc)(struct gpm_sample **sample);
	int (*gpm_free)(struct gpm_sample *sample);
	int (*gpm_sample)(struct handle *device, struct gpm_sample *sample);
	int (*gpm_metrics)(struct gpm_metrics *metrics);
};

#define CALL(member, symbol)                                  \
	{                                                     \
		offsetof(struct calls, member), "nvml" symbol \
	}

static const struct {
	size_t offset;
	const char *symbol;
} symbols[] = {
	CALL(init, "Init_v2"),
	CALL(shutdown, "Shutdown"),
	CALL(error, "ErrorString"),
	CALL(driver, "SystemGetDriverVersion"),
	CALL(count, "DeviceGetCount_v2"),
	CALL(handle, "DeviceGetHandleByIndex_v2"),
	CALL(name, "DeviceGetName"),
	CALL(uuid, "DeviceGetUUID"),
	CALL(minor, "DeviceGetMinorNumber"),
	CALL(capability, "DeviceGetCudaComputeCapability"),
	CALL(cores, "DeviceGetNumGpuCores"),
	CALL(max_clock, "DeviceGetMaxClockInfo"),
	CALL(power_limit, "DeviceGetEnforcedPowerLimit"),
	CALL(memory_v2, "DeviceGetMemoryInfo_v2"),
	CALL(memory, "DeviceGetMemoryInfo"),
	CALL(utilization, "DeviceGetUtilizationRates"),
	CALL(power, "DeviceGetPowerUsage"),
	CALL(energy, "DeviceGetTotalEnergyConsumption"),
	CALL(clock, "DeviceGetClockInfo"),
	CALL(temperature, "DeviceGetTemperature"),
	CALL(reasons, "DeviceGetCurrentClocksEventReasons"),
	CALL(throttle, "DeviceGetCurrentClocksThrottleReasons"),
	CALL(running_v3, "DeviceGetComputeRunningProcesses_v3"),
	CALL(running_v2, "DeviceGetComputeRunningProcesses_v2"),
	CALL(running_v1, "DeviceGetComputeRunningProcesses"),
	CALL(shares, "DeviceGetProcessUtilization"),
	CALL(gpm_support, "GpmQueryDeviceSupport"),
	CALL(gpm_alloc, "GpmSampleAlloc"),
	CALL(gpm_free, "GpmSampleFree"),
	CALL(gpm_sample, "GpmSampleGet"),
	CALL(gpm_metrics, "GpmMetricsGet"),
};

struct device {
	struct handle *handle; /* NULL: not asked for yet, or not to be had */
	bool lost;
	/* Activity of its units is the difference of two samples. */
	bool has_gpm;
	struct gpm_sample *gpm_before, *gpm_now; /* before: NULL until there is one */
	uint64_t gpm_ns;			 /* when `before` was taken */
};

struct nvml {
	void *library;
	struct calls calls;
	bool initialized;
	char driver[80];
	uint32_t count;
	struct device devices[PERFX_GPU_DEVICES_MAX];
	struct gpm_metrics metrics;
};

/* Calls a function of the library, where it has it. */
#define NVML(nvml, call, ...) \
	((nvml)->calls.call ? (nvml)->calls.call(__VA_ARGS__) : FUNCTION_NOT_FOUND)

static int errno_of(int result)
{
	switch ((enum result)result) {
	case DONE:
		return 0;
	case NOT_SUPPORTED:
	case FUNCTION_NOT_FOUND:
		return -ENOTSUP;
	case NO_PERMISSION:
		return -EACCES;
	case DRIVER_NOT_LOADED:
	case GPU_IS_LOST:
	case RESET_REQUIRED:
		return -ENODEV;
	default:
		return -EIO;
	}
}

static int explain(const struct nvml *nvml, int result, char *why, size_t size)
{
	const char *name = nvml->calls.error ? nvml->calls.error(result) : NULL;

	switch ((enum result)result) {
	case DRIVER_NOT_LOADED:
		snprintf(why, size,
			 "NVIDIA's driver is not loaded: load it (modprobe nvidia), or, in a "
			 "container, start that with access to the GPUs");
		break;
	case VERSION_MISMATCH:
		snprintf(why, size,
			 "NVIDIA's driver and its " LIBRARY
			 " are of different versions: reload the driver or reboot");
		break;
	case NO_PERMISSION:
		snprintf(why, size, "no permission to open /dev/nvidiactl: run as root");
		break;
	default:
		snprintf(why, size, "NVIDIA's " LIBRARY " does not start: %s",
			 name ? name : "unknown error");
	}
	return errno_of(result);
}

static int load_library(struct nvml *nvml, const char *path, char *why, size_t size)
{
	const char *error;

	nvml->library = dlopen(path ? path : LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (nvml->library) {
		for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
			void *symbol = dlsym(nvml->library, symbols[i].symbol);

			memcpy((char *)&nvml->calls + symbols[i].offset, &symbol, sizeof(symbol));
		}
		return 0;
	}
	error = dlerror();
	if (error && strstr(error, "No such file")) {
		snprintf(why, size, "no " LIBRARY " here: it comes with NVIDIA's driver");
		return -ENOENT;
	}
	snprintf(why, size, "NVIDIA's library cannot be loaded: %s", error ? error : "?");
	return -EIO;
}

static int begin(struct nvml *nvml, char *why, size_t size)
{
	const struct calls *calls = &nvml->calls;
	unsigned count = 0;
	int result;

	if (!calls->init || !calls->count || !calls->handle) {
		snprintf(why, size, "NVIDIA's " LIBRARY " is older than driver 319: update it");
		return -EIO;
	}
	result = calls->init();
	nvml->initialized = result == DONE;
	if (result == DONE)
		result = calls->count(&count);
	if (result != DONE)
		return explain(nvml, result, why, size);
	if (NVML(nvml, driver, nvml->driver, sizeof(nvml->driver)) != DONE)
		nvml->driver[0] = '\0';
	nvml->count = count < PERFX_GPU_DEVICES_MAX ? count : PERFX_GPU_DEVICES_MAX;
	if (count)
		return 0;
	snprintf(why, size, "NVIDIA's driver %s has no GPU", nvml->driver);
	return -ENODEV;
}

int nvml__open(const char *path, struct nvml **out, char *why, size_t size)
{
	struct nvml *nvml = calloc(1, sizeof(*nvml));
	int err;

	*out = NULL;
	if (!nvml) {
		snprintf(why, size, "out of memory");
		return -ENOMEM;
	}
	err = load_library(nvml, path, why, size);
	if (!err)
		err = begin(nvml, why, size);
	if (err) {
		nvml__close(nvml);
		return err;
	}
	*out = nvml;
	return 0;
}

/* The library stays loaded: it may have threads of its own. */
void nvml__close(struct nvml *nvml)
{
	if (!nvml)
		return;
	for (uint32_t i = 0; i < nvml->count; i++) {
		if (nvml->devices[i].gpm_before)
			NVML(nvml, gpm_free, nvml->devices[i].gpm_before);
		if (nvml->devices[i].gpm_now)
			NVML(nvml, gpm_free, nvml->devices[i].gpm_now);
	}
	if (nvml->initialized)
		NVML(nvml, shutdown);
	free(nvml);
}

const char *nvml__driver(const struct nvml *nvml)
{
	return nvml->driver;
}

uint32_t nvml__devices_count(const struct nvml *nvml)
{
	return nvml->count;
}

/* Notes a GPU that has fallen off its bus: every later call fails. */
static int note_lost(struct device *device, int result)
{
	if (result == GPU_IS_LOST || result == RESET_REQUIRED)
		device->lost = true;
	return result;
}

static unsigned number(struct device *device, int result, unsigned value)
{
	return note_lost(device, result) == DONE ? value : UINT32_MAX;
}

/* NVML counts cores; multiprocessors only of MIG's instances (nvmlDeviceGetAttributes). */
static uint32_t multiprocessors(struct nvml *nvml, struct device *device,
				const struct perfx_gpu_device *record)
{
	/* cores of each, by compute capability: CUDA C++ Programming Guide, "Compute Capabilities"
	 */
	static const uint8_t cores_each[] = {[3] = 192, [5] = 128,  [6] = 64,	[7] = 64,  [8] = 64,
					     [9] = 128, [10] = 128, [11] = 128, [12] = 128};
	uint32_t major = record->compute_major;
	uint32_t each = major < sizeof(cores_each) ? cores_each[major] : 0;
	unsigned cores = 0;

	if ((major == 6 || major == 8) && record->compute_minor)
		each = 128;
	if (note_lost(device, NVML(nvml, cores, device->handle, &cores)) != DONE || !each)
		return 0;
	return cores / each;
}

static int get_handle(struct nvml *nvml, uint32_t index)
{
	struct device *device = &nvml->devices[index];
	struct gpm_support support = {.version = 1};
	int result;

	if (device->lost)
		return -ENODEV;
	if (device->handle)
		return 0;
	result = note_lost(device, nvml->calls.handle(index, &device->handle));
	if (result != DONE) {
		device->handle = NULL;
		return errno_of(result);
	}
	device->has_gpm =
		NVML(nvml, gpm_support, device->handle, &support) == DONE && support.supported;
	return 0;
}

static void read_uuid(struct nvml *nvml, const struct device *device, char uuid[NVML_UUID_BYTES])
{
	if (NVML(nvml, uuid, device->handle, uuid, NVML_UUID_BYTES) != DONE)
		uuid[0] = '\0';
}

void nvml__uuids(struct nvml *nvml, struct nvml_uuids *uuids)
{
	uuids->count = nvml->count;
	for (uint32_t i = 0; i < nvml->count; i++) {
		uuids->text[i][0] = '\0';
		if (!get_handle(nvml, i))
			read_uuid(nvml, &nvml->devices[i], uuids->text[i]);
	}
}

int nvml__device(struct nvml *nvml, uint32_t index, struct nvml_device *out)
{
	struct device *device = &nvml->devices[index];
	struct perfx_gpu_device *record = &out->record;
	int err = get_handle(nvml, index), major = 0, minor = 0;
	struct memory_v1 memory;
	unsigned value = 0;

	*out = (struct nvml_device){.record.device = index, .minor = UINT32_MAX};
	if (err)
		return err;
	memcpy(out->driver, nvml->driver, sizeof(out->driver));
	if (NVML(nvml, name, device->handle, out->name, sizeof(out->name)) != DONE)
		out->name[0] = '\0';
	read_uuid(nvml, device, out->uuid);
	if (NVML(nvml, minor, device->handle, &value) == DONE)
		out->minor = value;
	if (NVML(nvml, capability, device->handle, &major, &minor) == DONE) {
		record->compute_major = (uint32_t)major;
		record->compute_minor = (uint32_t)minor;
	}
	record->multiprocessors = multiprocessors(nvml, device, record);
	if (note_lost(device, NVML(nvml, memory, device->handle, &memory)) == DONE)
		record->memory_bytes = memory.total;
	if (NVML(nvml, max_clock, device->handle, CLOCK_SM, &value) == DONE)
		record->max_sm_clock_mhz = value;
	if (NVML(nvml, power_limit, device->handle, &value) == DONE)
		record->power_limit_mw = value;
	return device->lost ? -ENODEV : 0;
}

/* The second version leaves out what the driver reserves for itself, as nvidia-smi does. */
static uint64_t used_memory(struct nvml *nvml, struct device *device)
{
	struct memory_v2 memory = {.version = STRUCT_VERSION(struct memory_v2, 2)};
	struct memory_v1 older;

	if (note_lost(device, NVML(nvml, memory_v2, device->handle, &memory)) == DONE)
		return memory.used;
	return note_lost(device, NVML(nvml, memory, device->handle, &older)) == DONE ? older.used
										     : UINT64_MAX;
}

static uint32_t clock_mhz(struct nvml *nvml, struct device *device, enum clock_type type)
{
	unsigned mhz = 0;
	int result = NVML(nvml, clock, device->handle, type, &mhz);

	return number(device, result, mhz);
}

/* The driver refreshes what it samples no more often. */
#define GPM_INTERVAL_NS 100000000u

static void set_activity(struct nvml *nvml, const struct device *device,
			 struct perfx_gpu_usage *usage)
{
	const struct {
		enum gpm_metric_id id;
		uint32_t *value;
	} wanted[] = {
		{GPM_SM_ACTIVE, &usage->sm_active},
		{GPM_SM_OCCUPANCY, &usage->sm_occupancy},
		{GPM_TENSOR_ACTIVE, &usage->tensor_active},
		{GPM_DRAM_ACTIVE, &usage->dram_active},
	};
	unsigned count = sizeof(wanted) / sizeof(wanted[0]);

	nvml->metrics.version = 1;
	nvml->metrics.count = count;
	nvml->metrics.before = device->gpm_before;
	nvml->metrics.now = device->gpm_now;
	for (unsigned i = 0; i < count; i++)
		nvml->metrics.metrics[i] = (struct gpm_metric){.metric = wanted[i].id};
	if (NVML(nvml, gpm_metrics, &nvml->metrics) != DONE)
		return;
	for (unsigned i = 0; i < count; i++) {
		const struct gpm_metric *metric = &nvml->metrics.metrics[i];

		if (metric->result == DONE && metric->value >= 0)
			*wanted[i].value = /* permille */
				metric->value < 100 ? (uint32_t)(metric->value * 10 + 0.5) : 1000;
	}
}

static void sample_activity(struct nvml *nvml, struct device *device, struct perfx_gpu_usage *usage)
{
	struct gpm_sample *sample;

	if (!device->has_gpm || usage->time_ns - device->gpm_ns < GPM_INTERVAL_NS)
		return;
	if (!device->gpm_now && NVML(nvml, gpm_alloc, &device->gpm_now) != DONE) {
		device->gpm_now = NULL;
		device->has_gpm = false;
		return;
	}
	if (note_lost(device, NVML(nvml, gpm_sample, device->handle, device->gpm_now)) != DONE)
		return;
	if (device->gpm_before)
		set_activity(nvml, device, usage);
	sample = device->gpm_before;
	device->gpm_before = device->gpm_now;
	device->gpm_now = sample;
	device->gpm_ns = usage->time_ns;
}

int nvml__usage(struct nvml *nvml, uint32_t index, struct perfx_gpu_usage *usage)
{
	struct device *device = &nvml->devices[index];
	struct utilization utilization = {0};
	unsigned long long mj = 0, reasons = 0;
	unsigned celsius = 0, mw = 0;
	int err = get_handle(nvml, index), result;

	memset(usage, 0xff, sizeof(*usage)); /* all absent */
	usage->device = index;
	usage->pad = 0;
	usage->time_ns = clock_monotonic_ns();
	if (err)
		return err;
	result = NVML(nvml, power, device->handle, &mw);
	usage->power_mw = number(device, result, mw);
	result = note_lost(device, NVML(nvml, energy, device->handle, &mj));
	usage->energy_mj = result == DONE ? mj : UINT64_MAX;
	result = note_lost(device, NVML(nvml, utilization, device->handle, &utilization));
	usage->utilisation_percent = number(device, result, utilization.gpu);
	usage->memory_utilisation_percent = number(device, result, utilization.memory);
	usage->memory_used_bytes = used_memory(nvml, device);
	result = NVML(nvml, reasons, device->handle, &reasons);
	if (result == FUNCTION_NOT_FOUND)
		result = NVML(nvml, throttle, device->handle, &reasons);
	usage->throttle = note_lost(device, result) == DONE ? reasons : UINT64_MAX;
	usage->sm_clock_mhz = clock_mhz(nvml, device, CLOCK_SM);
	usage->memory_clock_mhz = clock_mhz(nvml, device, CLOCK_MEMORY);
	result = NVML(nvml, temperature, device->handle, SENSOR_GPU, &celsius);
	usage->temperature_c = number(device, result, celsius);
	sample_activity(nvml, device, usage);
	return device->lost ? -ENODEV : 0;
}

/* The call that this library has, the newest first, and the size of what it writes. */
static int list_running(struct nvml *nvml, struct handle *handle, unsigned *count, void *list,
			size_t *size)
{
	unsigned major = 0, minor = 0;
	/* drivers 535.43 to 535.86 had a larger struct under the name of _v3 */
	bool broken_v3 =
		sscanf(nvml->driver, "%u.%u", &major, &minor) == 2 && major == 535 && minor < 98;

	*size = sizeof(struct running_v2);
	if (nvml->calls.running_v3 && !(broken_v3 && nvml->calls.running_v2))
		return nvml->calls.running_v3(handle, count, list);
	if (nvml->calls.running_v2)
		return nvml->calls.running_v2(handle, count, list);
	*size = sizeof(struct running_v1);
	return NVML(nvml, running_v1, handle, count, list);
}

static struct nvml_process *find_process(struct nvml_process *processes, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (processes[i].pid == pid)
			return &processes[i];
	return NULL;
}

/* The driver takes a sample each sixth of a second to each second, by the clock of the day. */
#define SHARES_US 1000000u

/* Uses each process's newest sample of the last second. A process without any did nothing. */
static void add_shares(struct nvml *nvml, struct device *device, struct nvml_process *processes,
		       size_t count)
{
	unsigned long long newest_us[NVML_PROCESSES_MAX] = {0};
	struct share shares[NVML_PROCESSES_MAX];
	unsigned shares_count = NVML_PROCESSES_MAX;
	int result = note_lost(device, NVML(nvml, shares, device->handle, shares, &shares_count,
					    clock_ns(CLOCK_REALTIME) / 1000 - SHARES_US));

	if (result == NOT_FOUND)
		shares_count = 0;
	else if (result != DONE || shares_count > NVML_PROCESSES_MAX)
		return;
	for (size_t i = 0; i < count; i++)
		processes[i].sm_percent = 0;
	for (unsigned i = 0; i < shares_count; i++) {
		const struct share *share = &shares[i];
		struct nvml_process *process = find_process(processes, count, (pid_t)share->pid);

		if (!process || share->sm > 100 || share->time_us < newest_us[process - processes])
			continue;
		newest_us[process - processes] = share->time_us;
		process->sm_percent = share->sm;
	}
}

ssize_t nvml__processes(struct nvml *nvml, uint32_t index,
			struct nvml_process processes[NVML_PROCESSES_MAX])
{
	_Alignas(8) unsigned char list[NVML_PROCESSES_MAX * RUNNING_SIZE_MAX] = {0};
	struct device *device = &nvml->devices[index];
	unsigned listed = NVML_PROCESSES_MAX;
	int err = get_handle(nvml, index), result;
	size_t count = 0, size;

	if (err)
		return err;
	result = note_lost(device, list_running(nvml, device->handle, &listed, list, &size));
	if (result != DONE)
		return result == INSUFFICIENT_SIZE ? -E2BIG : errno_of(result);
	for (unsigned i = 0; i < listed && i < NVML_PROCESSES_MAX; i++) {
		const struct running_v1 *running = (const void *)(list + i * size);
		struct nvml_process *process = find_process(processes, count, (pid_t)running->pid);

		/* a process has an entry for each of MIG's instances that it uses */
		if (!process)
			processes[count++] =
				(struct nvml_process){.pid = (pid_t)running->pid,
						      .sm_percent = UINT32_MAX,
						      .used_bytes = running->used_bytes};
		else if (process->used_bytes != UINT64_MAX && running->used_bytes != UINT64_MAX)
			process->used_bytes += running->used_bytes;
	}
	if (count)
		add_shares(nvml, device, processes, count);
	return device->lost ? -ENODEV : (ssize_t)count;
}
