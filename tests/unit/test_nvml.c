// SPDX-License-Identifier: BSD-2-Clause
/* NVML against a stub of the library (tests/workloads/lib/libnvidia-ml.c), which answers what a
 * script says. */
#include "gpu/nvml.h"

#include "fixture.h"

#include <errno.h>
#include <time.h>

static const char two_devices[] =
	"nvmlInit 0 ok\n"
	"nvmlSystemGetDriverVersion 0 580.65.06\n"
	"nvmlDeviceGetCount 0 2\n"
	"nvmlDeviceGetName 0 NVIDIA H100 80GB HBM3\n"
	"nvmlDeviceGetUUID 0 GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f\n"
	"nvmlDeviceGetMinorNumber 0 3\n"
	"nvmlDeviceGetCudaComputeCapability 0 9 0\n"
	"nvmlDeviceGetNumGpuCores 0 16896\n"
	"nvmlDeviceGetMaxClockInfo.1 0 1980\n"
	"nvmlDeviceGetEnforcedPowerLimit 0 700000\n"
	"nvmlDeviceGetMemoryInfo 0 85520809984 1074790400\n"
	"nvmlDeviceGetUtilizationRates 0 87 41\n"
	"nvmlDeviceGetPowerUsage 0 412345\n"
	"nvmlDeviceGetTotalEnergyConsumption 0 123456789012\n"
	"nvmlDeviceGetClockInfo.1 0 1755\n"
	"nvmlDeviceGetClockInfo.2 0 2619\n"
	"nvmlDeviceGetTemperature.0 0 61\n"
	"nvmlDeviceGetCurrentClocksEventReasons 0 4\n"
	"nvmlDeviceGetCurrentClocksThrottleReasons 0 8\n"
	"nvmlDeviceGetComputeRunningProcesses 0 4711:1073741824 4712:2048 4711:1024 4713\n"
	"nvmlDeviceGetProcessUtilization 0 4711:75 9999:20\n"
	"nvmlGpmQueryDeviceSupport 0 1\n"
	"nvmlGpmMetricsGet 0 2:45.54 3:100.7 5:0\n";

static const struct perfx_gpu_usage all_absent = {
	.memory_used_bytes = UINT64_MAX,
	.energy_mj = UINT64_MAX,
	.throttle = UINT64_MAX,
	.utilisation_percent = UINT32_MAX,
	.memory_utilisation_percent = UINT32_MAX,
	.power_mw = UINT32_MAX,
	.sm_clock_mhz = UINT32_MAX,
	.memory_clock_mhz = UINT32_MAX,
	.temperature_c = UINT32_MAX,
	.sm_active = UINT32_MAX,
	.sm_occupancy = UINT32_MAX,
	.tensor_active = UINT32_MAX,
	.dram_active = UINT32_MAX,
};

/* Lines behind others take precedence. */
static void write_script(const char *begin, const char *end)
{
	char text[8192];

	snprintf(text, sizeof(text), "%s%s", begin, end);
	fixture_text("script", text);
}

static void begin(void)
{
	fixture_set_up();
	write_script(two_devices, "");
	setenv("NVML_STUB", fixture_path("script"), 1);
}

/* The library, built with these flags. */
static const char *build(const char *flags)
{
	char cwd[256];

	cr_assert_not_null(getcwd(cwd, sizeof(cwd)));
	fixture_run("cc -shared -fPIC -D_GNU_SOURCE %s -o stub.so "
		    "%s/tests/workloads/lib/libnvidia-ml.c",
		    flags, cwd);
	return fixture_path("stub.so");
}

static struct nvml *open_stub(const char *flags)
{
	char why[256] = "";
	struct nvml *nvml;

	cr_assert_eq(nvml__open(build(flags), &nvml, why, sizeof(why)), 0, "%s", why);
	return nvml;
}

static void expect_usage(const struct perfx_gpu_usage *got, const struct perfx_gpu_usage *want)
{
	cr_expect_eq(got->memory_used_bytes, want->memory_used_bytes, "%llu",
		     got->memory_used_bytes);
	cr_expect_eq(got->energy_mj, want->energy_mj, "%llu", got->energy_mj);
	cr_expect_eq(got->throttle, want->throttle, "%llu", got->throttle);
	cr_expect_eq(got->utilisation_percent, want->utilisation_percent);
	cr_expect_eq(got->memory_utilisation_percent, want->memory_utilisation_percent);
	cr_expect_eq(got->power_mw, want->power_mw);
	cr_expect_eq(got->sm_clock_mhz, want->sm_clock_mhz);
	cr_expect_eq(got->memory_clock_mhz, want->memory_clock_mhz);
	cr_expect_eq(got->temperature_c, want->temperature_c);
	cr_expect_eq(got->sm_active, want->sm_active, "%u", got->sm_active);
	cr_expect_eq(got->sm_occupancy, want->sm_occupancy, "%u", got->sm_occupancy);
	cr_expect_eq(got->tensor_active, want->tensor_active, "%u", got->tensor_active);
	cr_expect_eq(got->dram_active, want->dram_active, "%u", got->dram_active);
}

TestSuite(nvml, .init = begin, .fini = fixture_tear_down);

Test(nvml, a_device)
{
	struct nvml *nvml = open_stub("");
	struct nvml_device device;
	struct nvml_uuids uuids;

	cr_expect_eq(nvml__devices_count(nvml), 2);
	nvml__uuids(nvml, &uuids);
	cr_expect_eq(uuids.count, 2);
	cr_expect_str_eq(uuids.text[0], "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f");
	cr_expect_str_eq(uuids.text[1], ""); /* it does not tell */
	cr_expect_str_eq(nvml__driver(nvml), "580.65.06");
	cr_assert_eq(nvml__device(nvml, 0, &device), 0);
	cr_expect_str_eq(device.name, "NVIDIA H100 80GB HBM3");
	cr_expect_str_eq(device.uuid, "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f");
	cr_expect_str_eq(device.driver, "580.65.06");
	cr_expect_eq(device.minor, 3);
	cr_expect_eq(device.record.device, 0);
	cr_expect_eq(device.record.memory_bytes, 85520809984);
	cr_expect_eq(device.record.multiprocessors, 132);
	cr_expect_eq(device.record.max_sm_clock_mhz, 1980);
	cr_expect_eq(device.record.compute_major, 9);
	cr_expect_eq(device.record.compute_minor, 0);
	cr_expect_eq(device.record.power_limit_mw, 700000);
	nvml__close(nvml);
}

Test(nvml, its_usage)
{
	struct nvml *nvml = open_stub("");
	struct perfx_gpu_usage usage, want = {.memory_used_bytes = 1073741824,
					      .energy_mj = 123456789012,
					      .throttle = 4,
					      .utilisation_percent = 87,
					      .memory_utilisation_percent = 41,
					      .power_mw = 412345,
					      .sm_clock_mhz = 1755,
					      .memory_clock_mhz = 2619,
					      .temperature_c = 61,
					      .sm_active = UINT32_MAX,
					      .sm_occupancy = UINT32_MAX,
					      .tensor_active = UINT32_MAX,
					      .dram_active = UINT32_MAX};

	cr_assert_eq(nvml__usage(nvml, 0, &usage), 0);
	expect_usage(&usage, &want); /* of its units nothing was sampled before */
	cr_assert_eq(nvml__usage(nvml, 0, &usage), 0);
	expect_usage(&usage, &want); /* that was too soon */
	nanosleep(&(struct timespec){.tv_nsec = 110000000}, NULL);
	cr_assert_eq(nvml__usage(nvml, 0, &usage), 0);
	want.sm_active = 455;
	want.sm_occupancy = 1000;
	want.tensor_active = 0;
	expect_usage(&usage, &want);
	nvml__close(nvml);
}

static const struct nvml_process *process_of(const struct nvml_process *list, ssize_t count,
					     pid_t pid)
{
	for (ssize_t i = 0; i < count; i++)
		if (list[i].pid == pid)
			return &list[i];
	return NULL;
}

/* By whatever name and size the library has the call: two of MIG's instances are one process. */
static void expect_processes(struct nvml *nvml)
{
	struct nvml_process list[NVML_PROCESSES_MAX];
	const struct nvml_process *first, *second, *third;
	ssize_t count = nvml__processes(nvml, 0, list);

	cr_assert_eq(count, 3, "%zd", count);
	first = process_of(list, count, 4711);
	second = process_of(list, count, 4712);
	third = process_of(list, count, 4713);
	cr_assert(first && second && third);
	cr_expect_eq(first->used_bytes, 1073742848);
	cr_expect_eq(first->sm_percent, 75, "%u", first->sm_percent);
	cr_expect_eq(second->used_bytes, 2048);
	cr_expect_eq(second->sm_percent, 0);
	cr_expect_eq(third->used_bytes, UINT64_MAX);
	nvml__close(nvml);
}

Test(nvml, processes)
{
	expect_processes(open_stub(""));
}

/* More than fit: none is taken for all. */
Test(nvml, too_many_processes)
{
	static char line[8192] = "nvmlDeviceGetComputeRunningProcesses 0";
	struct nvml_process list[NVML_PROCESSES_MAX];
	struct nvml *nvml;

	for (int i = 0; i <= NVML_PROCESSES_MAX; i++)
		strcat(line, " 1");
	strcat(line, "\n");
	write_script(two_devices, line);
	nvml = open_stub("");
	cr_expect_eq(nvml__processes(nvml, 0, list), -E2BIG);
	nvml__close(nvml);
}

Test(nvml, processes_of_an_old_library)
{
	expect_processes(open_stub("-DNVML_OLD"));
}

/* 535.54 wrote 32 bytes for each under the name of _v3, others 24. */
Test(nvml, processes_of_driver_535_54)
{
	write_script(two_devices, "nvmlSystemGetDriverVersion 0 535.54.03\n");
	expect_processes(open_stub("-DNVML_V3_BYTES=32"));
}

Test(nvml, an_old_library)
{
	struct nvml *nvml = open_stub("-DNVML_OLD");
	struct perfx_gpu_usage usage;

	cr_assert_eq(nvml__usage(nvml, 0, &usage), 0);
	cr_expect_eq(usage.throttle, 8);
	cr_expect_eq(usage.memory_used_bytes, 1074790400);
	nvml__close(nvml);
}

/* Each number of its own: none is supported, and none is made up. */
Test(nvml, nothing_supported)
{
	struct nvml *nvml = open_stub("");
	struct nvml_process list[NVML_PROCESSES_MAX];
	struct nvml_device device;
	struct perfx_gpu_usage usage;

	cr_assert_eq(nvml__device(nvml, 1, &device), 0);
	cr_expect_str_eq(device.name, "");
	cr_expect_eq(device.minor, UINT32_MAX);
	cr_expect_eq(device.record.multiprocessors, 0);
	cr_expect_eq(device.record.memory_bytes, 0);
	cr_assert_eq(nvml__usage(nvml, 1, &usage), 0);
	expect_usage(&usage, &all_absent);
	cr_expect_eq(nvml__processes(nvml, 1, list), -ENOTSUP);
	nvml__close(nvml);
}

Test(nvml, each_call_fails)
{
	static const char *const calls[] = {
		"nvmlDeviceGetMemoryInfo",    "nvmlDeviceGetUtilizationRates",
		"nvmlDeviceGetPowerUsage",    "nvmlDeviceGetTotalEnergyConsumption",
		"nvmlDeviceGetClockInfo.1",   "nvmlDeviceGetClockInfo.2",
		"nvmlDeviceGetTemperature.0", "nvmlDeviceGetCurrentClocksEventReasons",
		"nvmlGpmMetricsGet",
	};
	struct nvml *nvml = open_stub("");

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct perfx_gpu_usage usage;
		unsigned known = 0;
		char line[128];

		snprintf(line, sizeof(line), "%s 0 !%d\n", calls[i], i % 2 ? 3 : 999);
		write_script(two_devices, line);
		cr_assert_eq(nvml__usage(nvml, 0, &usage), 0, "%s", calls[i]);
		known += usage.memory_used_bytes != UINT64_MAX;
		known += usage.utilisation_percent != UINT32_MAX;
		known += usage.power_mw != UINT32_MAX;
		known += usage.energy_mj != UINT64_MAX;
		known += usage.sm_clock_mhz != UINT32_MAX;
		known += usage.memory_clock_mhz != UINT32_MAX;
		known += usage.temperature_c != UINT32_MAX;
		known += usage.throttle != UINT64_MAX;
		cr_expect_eq(known, i < 8 ? 7 : 8, "%s: %u", calls[i], known);
	}
	nvml__close(nvml);
}

Test(nvml, lost_midway)
{
	struct nvml *nvml = open_stub("");
	struct nvml_process list[NVML_PROCESSES_MAX];
	struct perfx_gpu_usage usage;

	cr_assert_eq(nvml__usage(nvml, 0, &usage), 0);
	write_script(two_devices, "nvmlDeviceGetUtilizationRates 0 !15\n");
	cr_expect_eq(nvml__usage(nvml, 0, &usage), -ENODEV);
	write_script(two_devices, "nvmlDeviceGetUtilizationRates 0 hang\n");
	cr_expect_eq(nvml__usage(nvml, 0, &usage), -ENODEV); /* is not asked again */
	cr_expect_eq(nvml__processes(nvml, 0, list), -ENODEV);
	cr_expect_eq(nvml__usage(nvml, 1, &usage), 0); /* the other one is there */
	nvml__close(nvml);
}

Test(nvml, no_permission_for_a_device)
{
	struct nvml_device device;
	struct nvml *nvml;

	write_script(two_devices, "nvmlDeviceGetHandleByIndex 0 !4\n");
	nvml = open_stub("");
	cr_expect_eq(nvml__device(nvml, 0, &device), -EACCES);
	cr_expect_eq(nvml__device(nvml, 1, &device), 0);
	nvml__close(nvml);
}

static void expect_closed(const char *line, int err, const char *why)
{
	struct nvml *nvml;
	char said[256] = "";

	write_script(two_devices, line);
	cr_expect_eq(nvml__open(fixture_path("stub.so"), &nvml, said, sizeof(said)), err, "%s",
		     line);
	cr_expect_null(nvml);
	cr_expect_not_null(strstr(said, why), "%s", said);
}

Test(nvml, does_not_open)
{
	struct nvml *nvml;
	char why[256];

	build("");
	expect_closed("nvmlInit 0 !9\n", -ENODEV, "modprobe nvidia");
	expect_closed("nvmlInit 0 !18\n", -EIO, "different versions");
	expect_closed("nvmlInit 0 !4\n", -EACCES, "no permission");
	expect_closed("nvmlInit 0 !999\n", -EIO, "Unknown Error");
	expect_closed("nvmlDeviceGetCount 0 0\n", -ENODEV, "has no GPU");
	cr_expect_eq(nvml__open(fixture_path("none.so"), &nvml, why, sizeof(why)), -ENOENT);
	cr_expect_not_null(strstr(why, "NVIDIA's driver"), "%s", why);
	fixture_text("none.so", "no library");
	cr_expect_eq(nvml__open(fixture_path("none.so"), &nvml, why, sizeof(why)), -EIO);
	cr_expect_not_null(strstr(why, "cannot be loaded"), "%s", why);
}
