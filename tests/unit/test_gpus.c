// SPDX-License-Identifier: BSD-2-Clause
/* Samples of GPUs as records, against a stub of NVIDIA's library that answers what a script says.
 */
#include "session/gpus.h"

#include "decode/decode.h"
#include "fixture.h"

#include <time.h>

/* This process is the traced one, by this index. */
#define PROCESS 7

static const char two_devices[] = "nvmlInit 0 ok\n"
				  "nvmlSystemGetDriverVersion 0 580.65.06\n"
				  "nvmlDeviceGetCount 0 2\n"
				  "nvmlDeviceGetName 0 NVIDIA A100-SXM4-80GB\n"
				  "nvmlDeviceGetName 1 NVIDIA A100-SXM4-80GB\n"
				  "nvmlDeviceGetMinorNumber 0 0\n"
				  "nvmlDeviceGetMinorNumber 1 1\n"
				  "nvmlDeviceGetPowerUsage 0 90000\n"
				  "nvmlDeviceGetPowerUsage 1 80000\n"
				  "nvmlDeviceGetUtilizationRates 1 10 20\n";

struct collected {
	struct sink sink;
	struct event usage[16], memory[16], device[16];
	size_t usage_count, memory_count, device_count;
	char names[16][96];
};

static void collect(struct sink *sink, const void *bytes, size_t size)
{
	struct collected *collected = (struct collected *)sink;
	struct event event;
	size_t skip;

	cr_assert_gt(decode_event(bytes, size, &event, &skip), 0);
	if (event.kind == PERFX_KIND_GPU_USAGE)
		collected->usage[collected->usage_count++] = event;
	if (event.kind == PERFX_KIND_GPU_MEMORY)
		collected->memory[collected->memory_count++] = event;
	if (event.kind != PERFX_KIND_GPU_DEVICE)
		return;
	snprintf(collected->names[collected->device_count], sizeof(collected->names[0]), "%s",
		 event.strings[0]);
	collected->device[collected->device_count++] = event;
}

static struct collected collected;
static struct skipped_list skipped;
static struct process_table *processes;

/* A call that is in it twice has the last answer. */
static void write_script(const char *fmt, ...)
{
	char text[4096];
	size_t length = (size_t)snprintf(text, sizeof(text), "%s", two_devices);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + length, sizeof(text) - length, fmt, ap);
	va_end(ap);
	fixture_text("new", text);
	cr_assert_eq(rename(fixture_path("new"), fixture_path("script")), 0);
}

static void begin(void)
{
	char cwd[256];

	fixture_set_up();
	cr_assert_not_null(getcwd(cwd, sizeof(cwd)));
	fixture_run("cc -shared -fPIC -D_GNU_SOURCE -o stub.so "
		    "%s/tests/workloads/lib/libnvidia-ml.c",
		    cwd);
	fixture_run("mkdir -p proc/%d/fd", getpid());
	setenv("NVML_STUB", fixture_path("script"), 1);
	collected.sink.record = collect;
	processes = process_table__new(NULL, &collected.sink, false, 0);
	cr_assert_not_null(processes);
	cr_assert_eq(process_table__open(processes, PROCESS, getpid()), 0);
}

static void end(void)
{
	process_table__free(processes);
	skipped_clear(&skipped);
	fixture_tear_down();
}

static struct gpus *open_gpus(uint64_t devices, uint64_t patience_ns)
{
	static char library[128], proc[128];
	struct gpus_parts parts = {.processes = processes,
				   .sink = &collected.sink,
				   .skipped = &skipped,
				   .options = {.library = library,
					       .proc = proc,
					       .devices = devices,
					       .patience_ns = patience_ns}};

	snprintf(library, sizeof(library), "%s", fixture_path("stub.so"));
	snprintf(proc, sizeof(proc), "%s", fixture_path("proc"));
	return gpus__new(&parts);
}

/* Samples until so many have come in all; false: they did not come. */
static bool sample(struct gpus *gpus, size_t count)
{
	for (int i = 0; i < 2000; i++) {
		if (collected.usage_count >= count)
			return true;
		gpus__sample(gpus);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		gpus__tick(gpus);
	}
	return false;
}

/* Several rounds, of which none must give a sample. */
static void expect_no_sample(struct gpus *gpus)
{
	for (int i = 0; i < 100; i++) {
		gpus__sample(gpus);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		gpus__tick(gpus);
	}
	cr_expect_eq(collected.usage_count, 0);
}

TestSuite(gpus, .init = begin, .fini = end);

Test(gpus, of_a_process)
{
	struct gpus *gpus;

	write_script("nvmlDeviceGetComputeRunningProcesses 1 1:100 %d:1048576 2:1000\n"
		     "nvmlDeviceGetProcessUtilization 1 %d:60 2:30\n",
		     getpid(), getpid());
	gpus = open_gpus(0, 0);
	cr_assert(sample(gpus, 2));
	gpus__finish(gpus);
	gpus__free(gpus);
	cr_expect_eq(collected.device_count, 1);
	cr_expect_eq(collected.device[0].gpu_device.device, 1);
	cr_expect_str_eq(collected.names[0], "NVIDIA A100-SXM4-80GB");
	for (size_t i = 0; i < collected.usage_count; i++) {
		const struct perfx_gpu_usage *usage = &collected.usage[i].gpu_usage;
		const struct perfx_gpu_memory *own = &collected.memory[2 * i].gpu_memory;
		const struct perfx_gpu_memory *others = &collected.memory[2 * i + 1].gpu_memory;

		cr_expect_eq(usage->device, 1);
		cr_expect_eq(usage->power_mw, 80000);
		cr_expect_eq(own->process, PROCESS);
		cr_expect_eq(own->used_bytes, 1048576);
		cr_expect_eq(own->sm_percent, 60);
		cr_expect_eq(own->time_ns, usage->time_ns);
		cr_expect_eq(others->process, 0);
		cr_expect_eq(others->used_bytes, 1100);
		cr_expect_eq(others->sm_percent, 30);
	}
	cr_expect_eq(skipped.count, 0);
}

Test(gpus, that_no_process_uses)
{
	struct gpus *gpus;

	write_script("nvmlDeviceGetComputeRunningProcesses 0 1:100\n");
	gpus = open_gpus(0, 0);
	expect_no_sample(gpus);
	gpus__free(gpus);
	cr_expect_eq(collected.device_count, 0);
	cr_expect_eq(skipped.count, 0);
}

/* Where the driver does not list processes, as without permission. */
Test(gpus, by_open_file)
{
	struct gpus *gpus;

	write_script("%s", "");
	fixture_run("ln -s /dev/nvidia1 proc/%d/fd/5; ln -s /dev/nvidiactl proc/%d/fd/6", getpid(),
		    getpid());
	gpus = open_gpus(0, 0);
	cr_assert(sample(gpus, 1));
	gpus__free(gpus);
	cr_expect_eq(collected.usage[0].gpu_usage.device, 1);
	cr_expect_eq(collected.memory_count, 0);
}

Test(gpus, by_choice)
{
	struct gpus *gpus;

	write_script("%s", "");
	gpus = open_gpus(1, 0);
	cr_assert(sample(gpus, 1));
	gpus__free(gpus);
	cr_expect_eq(collected.usage[0].gpu_usage.device, 0);
	cr_expect_eq(collected.usage[0].gpu_usage.power_mw, 90000);
}

/* The other GPU goes on. */
Test(gpus, one_is_lost)
{
	struct gpus *gpus;
	size_t before;

	write_script("%s", "");
	gpus = open_gpus(3, 0);
	cr_assert(sample(gpus, 2));
	write_script("nvmlDeviceGetPowerUsage 0 !15\n");
	before = collected.usage_count;
	cr_assert(sample(gpus, before + 6));
	gpus__free(gpus);
	cr_expect_eq(collected.usage[collected.usage_count - 1].gpu_usage.device, 1);
	cr_expect_eq(collected.usage[collected.usage_count - 2].gpu_usage.device, 1);
	cr_assert_eq(skipped.count, 1);
	cr_expect_str_eq(skipped.items[0].name, "GPU 0");
}

/* What hangs is given up, once, and keeps nobody. */
Test(gpus, a_call_hangs, .timeout = 10)
{
	struct gpus *gpus;

	write_script("%s", "");
	gpus = open_gpus(3, 50000000);
	cr_assert(sample(gpus, 2));
	write_script("nvmlDeviceGetUtilizationRates 1 hang\n");
	for (int i = 0; i < 2000 && !skipped.count; i++) {
		gpus__sample(gpus);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	cr_assert_eq(skipped.count, 1);
	cr_expect_not_null(strstr(skipped.items[0].reason, "no answer"), "%s",
			   skipped.items[0].reason);
	gpus__sample(gpus);
	gpus__finish(gpus);
	gpus__free(gpus);
	cr_expect_eq(skipped.count, 1);
}

/* A driver that does not start is spoken of where a process has a GPU's file open. */
Test(gpus, no_driver)
{
	struct gpus *gpus;

	write_script("nvmlInit 0 !9\n");
	gpus = open_gpus(0, 0);
	expect_no_sample(gpus);
	cr_expect_eq(skipped.count, 0);
	fixture_run("ln -s /dev/nvidia0 proc/%d/fd/5", getpid());
	gpus__sample(gpus);
	cr_assert_eq(skipped.count, 1);
	cr_expect_not_null(strstr(skipped.items[0].reason, "modprobe nvidia"));
	gpus__free(gpus);
}

Test(gpus, files_of_nobody)
{
	cr_expect_eq(gpu_files_open(fixture_path("proc"), 1), 0);
	fixture_run("ln -s /dev/nvidia-uvm proc/%d/fd/1; ln -s /dev/nvidia64 proc/%d/fd/2",
		    getpid(), getpid());
	cr_expect_eq(gpu_files_open(fixture_path("proc"), getpid()), 0);
}
