// SPDX-License-Identifier: BSD-2-Clause
/* Text files of the kernel, in which processes choose some of the words, and of this tool. The
 * first byte says which; what takes two has a NUL between them. */
#include "fuzz.h"

#include "peaks/peaks.h"
#include "proc/cgroup.h"
#include "proc/maps.h"
#include "proc/place.h"
#include "proc/process.h"

static void read_maps(const char *text, size_t size)
{
	struct maps *maps = maps__parse(text, size);
	struct module_ref *modules = NULL;

	if (!maps)
		return;
	for (size_t i = 0; i < maps__count(maps); i++)
		if (maps__at(maps, i)->end > maps__at(maps, i)->start)
			maps__find(maps, maps__at(maps, i)->start);
	maps__modules(maps, &modules);
	free(modules);
	maps__free(maps);
}

static void read_cgroups(const char *cgroup, const char *mountinfo)
{
	struct cgroup_throttle throttle = {0};
	struct cgroup_place place;

	if (!cgroup_find_place(cgroup, mountinfo, "cpu", &place) &&
	    place.mount_size > strlen(place.folder))
		abort();
	cgroup_add_cpu_stat(cgroup, &throttle);
}

static void read_peaks(const char *text)
{
	const struct peaks_key key = {.cpu = (char *)"cpu", .host = (char *)"host", .threads = 2};
	struct peaks peaks;

	peaks_parse(text, &key, &peaks);
}

static void read_stat(const char *text)
{
	struct process_stat stat;
	struct host_cpu cpu;

	process_stat_parse(text, &stat);
	host_cpu_parse(text, &cpu);
	keyed_number(text, "VmRSS:");
}

/* The cgroup of a process, and what a container is called by those who call it so. These names go
 * on as they are to whoever reads a report: they must be words. */
static void read_names(const char *cgroup, const uint8_t *bytes, size_t size)
{
	static const enum perfx_place_part words[] = {
		PERFX_PLACE_CONTAINER_ID, PERFX_PLACE_CONTAINER, PERFX_PLACE_POD,
		PERFX_PLACE_NAMESPACE,	  PERFX_PLACE_POD_UID,	 PERFX_PLACE_JOB,
		PERFX_PLACE_JOB_STEP,	  PERFX_PLACE_HOST_NAME};
	char *text = fuzz_text(bytes, size), *environment = calloc(size + 1, 1);
	struct place place = {0};

	if (!environment)
		abort();
	memcpy(environment, bytes, size);
	place_parse_cgroup(cgroup, &place);
	place_parse_log_file(text, &place);
	place_parse_log_folder(text, &place);
	place_parse_docker(text, strlen(text), &place);
	place_parse_podman(text, strlen(text), &place);
	place_parse_environment(environment, size, &place);
	place_parse_hostname(text, &place);
	for (size_t i = 0; i < FUZZ_COUNT(words); i++)
		if (place.of[words[i]] && strpbrk(place.of[words[i]], "\"\\/<>&|;$`\x1b\n "))
			abort();
	place_clear(&place);
	free(environment);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *second;
	size_t length;

	if (!size)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	length = strlen(text);
	switch (data[0] % 5) {
	case 0:
		read_maps(text, length);
		break;
	case 1:
		second = length + 2 < size ? fuzz_text(data + length + 2, size - length - 2)
					   : fuzz_text(data, 0);
		read_cgroups(text, second);
		free(second);
		break;
	case 2:
		read_peaks(text);
		break;
	case 3:
		read_stat(text);
		break;
	case 4:
		length = length + 2 < size ? length + 2 : size;
		read_names(text, data + length, size - length);
		break;
	}
	free(text);
	return 0;
}
