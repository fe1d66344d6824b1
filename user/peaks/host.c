// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/internal.h"

#include "base/order.h"
#include "base/text.h"
#include "proc/limits.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t host_cpus(int **cpus)
{
	size_t size = CPU_ALLOC_SIZE(HOST_CPUS_MAX), count = 0;
	cpu_set_t *set = CPU_ALLOC(HOST_CPUS_MAX);
	int *list = calloc(HOST_CPUS_MAX, sizeof(*list));

	if (!set || !list || sched_getaffinity(0, size, set)) {
		int err = set && list ? -errno : -ENOMEM;

		CPU_FREE(set);
		free(list);
		return err;
	}
	for (int cpu = 0; cpu < HOST_CPUS_MAX; cpu++)
		if (CPU_ISSET_S((size_t)cpu, size, set))
			list[count++] = cpu;
	CPU_FREE(set);
	*cpus = list;
	return (ssize_t)count;
}

/* The first line of a small file. */
static bool read_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");
	bool ok = file && fgets(line, (int)size, file);

	if (file)
		fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

static bool read_cache_file(int cpu, int index, const char *name, char *line, size_t size)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index,
		 name);
	return read_line(path, line, size);
}

#define CACHE_GUESS_BYTES (32u << 20)

struct host_cache host_cache_of(int cpu)
{
	struct host_cache cache = {.first_cpu = 0};
	char line[256], *unit;
	long highest = 0;

	for (int index = 0; read_cache_file(cpu, index, "level", line, sizeof(line)); index++) {
		long level = strtol(line, NULL, 10);

		if (level <= highest || !read_cache_file(cpu, index, "size", line, sizeof(line)))
			continue;
		highest = level;
		cache.bytes = strtoull(line, &unit, 10); /* "32768K" */
		cache.bytes <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : 0;
		if (read_cache_file(cpu, index, "shared_cpu_list", line, sizeof(line)))
			cache.first_cpu = (int)strtol(line, NULL, 10);
	}
	if (!cache.bytes) {
		long size = sysconf(_SC_LEVEL3_CACHE_SIZE);

		cache.bytes = size > 0 ? (uint64_t)size : CACHE_GUESS_BYTES;
	}
	return cache;
}

uint64_t host_spare_memory(void)
{
	struct process_limits limits = process_limits(getpid(), false);
	uint64_t bytes = limits.host_available_bytes;

	if (bytes == UINT64_MAX)
		return 0;
	if (limits.memory_limit_bytes != UINT64_MAX)
		bytes = min_u64(bytes,
				limits.memory_limit_bytes - min_u64(limits.memory_limit_bytes,
								    limits.memory_used_bytes));
	return bytes / 4;
}

/* The value of "key<blanks>: value"; NULL where the line is another's. */
static const char *value_of(const char *line, const char *key)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length))
		return NULL;
	line += length + strspn(line + length, " \t");
	return *line == ':' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

uint32_t host_cores(const int *cpus, size_t count)
{
	int *firsts = calloc(count + 1, sizeof(*firsts)); /* the first CPU of each core */
	char path[128], line[256];
	uint32_t cores = 0;

	for (size_t i = 0; firsts && i < count; i++) {
		int first = cpus[i];
		size_t at = 0;

		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", first);
		if (read_line(path, line, sizeof(line)))
			first = (int)strtol(line, NULL, 10);
		while (at < cores && firsts[at] != first)
			at++;
		if (at == cores)
			firsts[cores++] = first;
	}
	free(firsts);
	return cores;
}

double host_hz_in(const char *cpuinfo)
{
	for (const char *line = cpuinfo; line && *line && *line != '\n';) {
		const char *value = value_of(line, "cpu MHz");

		if (value)
			return strtod(value, NULL) * 1e6;
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}

double host_hz(void)
{
	char line[256], cpuinfo[4096] = "";
	FILE *file;

	if (read_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", line, sizeof(line)))
		return strtod(line, NULL) * 1e3;
	file = fopen("/proc/cpuinfo", "re");
	if (!file)
		return 0;
	cpuinfo[fread(cpuinfo, 1, sizeof(cpuinfo) - 1, file)] = '\0';
	fclose(file);
	return host_hz_in(cpuinfo);
}

/* x86 has a name; arm64 has numbers: "implementer 0x41 part 0xd40 variant 0x1 revision 1". */
char *host_cpu_name(const char *cpuinfo)
{
	static const char *const keys[] = {"model name", "CPU implementer", "CPU part",
					   "CPU variant", "CPU revision"};
	struct text name = {0};

	for (const char *line = cpuinfo; line && *line && *line != '\n';) {
		const char *end = strchrnul(line, '\n');

		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			const char *value = value_of(line, keys[i]);

			if (!value || value > end)
				continue;
			text_add(&name, i ? strchr(keys[i], ' ') + (name.length ? 0 : 1) : "");
			text_add(&name, i ? " " : "");
			text_add_bytes(&name, value, (size_t)(end - value));
		}
		line = *end ? end + 1 : end;
	}
	if (!name.length)
		text_add(&name, "");
	return text_take(&name);
}
