// SPDX-License-Identifier: BSD-2-Clause
/*
 * CUPTI: which one, whether it may be used in this process, how it begins and how it is left. Its
 * own types are written out here, so that a build needs no CUDA.
 *
 * The process may have a profiler of its own, now or later, and that one comes first: where another
 * subscriber is found nothing is enabled, and the agent does not keep the place of the subscriber
 * while it records. A profiler that begins later finds it free.
 */
#include "agent.h"

#include "libc.h"
#include "perfx_record.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cupti cupti;

#define VERSION_OLDEST	    12 /* CUDA 10: records of CONCURRENT_KERNEL as here */
#define VERSION_NULL_BUFFER 27 /* 12.9: a request for a buffer may be declined */

#define CUDA_NOT_INITIALISED 3

enum driver driver_state(char *why, size_t why_size)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*get_count)(int *) = library ? dlsym(library, "cuDeviceGetCount") : NULL;
	int (*get_version)(int *) = library ? dlsym(library, "cuDriverGetVersion") : NULL;
	int count = 0, result;

	if (!get_count || !get_version) {
		snprintf(why, why_size, "libcuda.so.1 is not mapped: it has not used CUDA");
		return DRIVER_UNUSABLE;
	}
	result = get_count(&count);
	if (result == CUDA_NOT_INITIALISED)
		return DRIVER_NOT_YET;
	if (result || count < 1) {
		snprintf(why, why_size, "the CUDA driver has no device (error %d)", result);
		return DRIVER_UNUSABLE;
	}
	get_version(&cupti.driver_version);
	return DRIVER_READY;
}

void driver_tell_devices(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*get_count)(int *) = dlsym(library, "cuDeviceGetCount");
	int (*get)(int *, int) = dlsym(library, "cuDeviceGet");
	int (*get_uuid)(void *, int) = dlsym(library, "cuDeviceGetUuid_v2");
	int count = 0, handle;

	if (!get_uuid) /* before CUDA 11.4; it does not tell the parts of a GPU apart */
		get_uuid = dlsym(library, "cuDeviceGetUuid");
	if (!get || !get_uuid || get_count(&count))
		return;
	for (int i = 0; i < count && i < PERFX_GPU_DEVICES_MAX; i++) {
		struct perfx_agent_device record = {.device = (uint32_t)i};

		if (!get(&handle, i) && !get_uuid(record.uuid, handle))
			ring_put(&record, sizeof(record), PERFX_AGENT_DEVICE, NULL, 0);
	}
}

struct mapped_search {
	const char *prefix; /* of the file's name */
	char path[PATH_MAX];
};

static void set_path(const char *path)
{
	size_t length = strnlen(path, sizeof(cupti.path) - 1);

	memcpy(cupti.path, path, length);
	cupti.path[length] = '\0';
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int note_mapped(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct mapped_search *search = ctx;

	(void)size;
	if (!info->dlpi_name ||
	    strncmp(file_name(info->dlpi_name), search->prefix, strlen(search->prefix)) != 0)
		return 0;
	snprintf(search->path, sizeof(search->path), "%s", info->dlpi_name);
	return 1;
}

static bool find_mapped(const char *prefix, struct mapped_search *search)
{
	*search = (struct mapped_search){.prefix = prefix};
	return dl_iterate_phdr(note_mapped, search);
}

/* Where the packages of pip and the toolkit have CUPTI, seen from libcudart's folder. */
static const char *const places[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/",
				     "../../../extras/CUPTI/lib64/"};

/* Opens the CUPTI of libcudart's release, beside it. */
static void *open_beside(const char *cudart)
{
	const char *name = file_name(cudart), *suffix = strstr(name, ".so.");
	char path[PATH_MAX + 64];
	void *library = NULL;

	for (size_t i = 0; suffix && !library && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%.*s%slibcupti.so.%d", (int)(name - cudart), cudart,
			 places[i], atoi(suffix + 4));
		if (!access(path, R_OK))
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	if (library)
		set_path(path);
	return library;
}

static void *open_library(void)
{
	struct mapped_search search;

	if (find_mapped("libcupti.so", &search)) {
		set_path(search.path);
		return dlopen(search.path, RTLD_NOW | RTLD_NOLOAD);
	}
	if (find_mapped("libcudart.so", &search))
		return open_beside(search.path);
	/* as the process itself would find it */
	snprintf(cupti.path, sizeof(cupti.path), "libcupti.so.%d", cupti.driver_version / 1000);
	return dlopen(cupti.path, RTLD_NOW | RTLD_LOCAL);
}

#define FUNCTION(member, name, optional)                       \
	{                                                      \
		offsetof(struct cupti, member), name, optional \
	}

static const struct {
	size_t offset;
	const char *name;
	bool optional;
} functions[] = {
	FUNCTION(get_version, "cuptiGetVersion", false),
	FUNCTION(get_result_string, "cuptiGetResultString", false),
	FUNCTION(subscribe, "cuptiSubscribe", false),
	FUNCTION(subscribe_v2, "cuptiSubscribe_v2", true),
	FUNCTION(unsubscribe, "cuptiUnsubscribe", false),
	FUNCTION(get_callback_name, "cuptiGetCallbackName", false),
	FUNCTION(register_callbacks, "cuptiActivityRegisterCallbacks", false),
	FUNCTION(register_timestamp, "cuptiActivityRegisterTimestampCallback", false),
	FUNCTION(set_thread_id_type, "cuptiSetThreadIdType", false),
	FUNCTION(activity_enable, "cuptiActivityEnable", false),
	FUNCTION(activity_disable, "cuptiActivityDisable", false),
	FUNCTION(enable_driver_call, "cuptiActivityEnableDriverApi", true),
	FUNCTION(enable_runtime_call, "cuptiActivityEnableRuntimeApi", true),
	FUNCTION(flush_all, "cuptiActivityFlushAll", false),
	FUNCTION(next_record, "cuptiActivityGetNextRecord", false),
	FUNCTION(dropped_records, "cuptiActivityGetNumDroppedRecords", false),
	FUNCTION(tracing_is_running, "cuptiIsTracingSessionRunning", true),
};

static int note_profiler(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const char **name = ctx;

	(void)size;
	*name = info->dlpi_name ? perfx_agent_profiler(file_name(info->dlpi_name)) : NULL;
	return *name != NULL;
}

static bool version_is_good(char *why, size_t why_size)
{
	const char *bad;
	int major, result = cupti.get_version(&cupti.version);

	if (result) {
		snprintf(why, why_size, "%s does not work here (error %d)", cupti.path, result);
		return false;
	}
	/* the CUDA release that the version belongs to */
	major = cupti.version >= 10000 ? (int)(cupti.version / 10000)
		: cupti.version >= 19  ? 12
		: cupti.version >= 13  ? 11
				       : 10;
	bad = perfx_agent_bad_cupti(cupti.version);
	if (bad)
		snprintf(why, why_size, "CUPTI %u: %s", cupti.version, bad);
	else if (cupti.version < VERSION_OLDEST)
		snprintf(why, why_size, "CUPTI %u is too old", cupti.version);
	else if (major > cupti.driver_version / 1000)
		snprintf(why, why_size, "CUPTI %u is newer than the driver (CUDA %d.%d)",
			 cupti.version, cupti.driver_version / 1000,
			 cupti.driver_version % 1000 / 10);
	else
		return true;
	return false;
}

bool cupti_open(const char *injection, char *why, size_t why_size)
{
	const char *other = NULL;

	/* the profiler that the process has already */
	if (!dl_iterate_phdr(note_profiler, &other))
		other = injection;
	if (other) {
		snprintf(why, why_size, "%s profiles it already", other);
		return false;
	}
	cupti.library = open_library();
	if (!cupti.library) {
		snprintf(why, why_size, "no libcupti is mapped, nor is one found%s%s",
			 *cupti.path ? ": " : " beside libcudart", cupti.path);
		return false;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(cupti.library, functions[i].name);

		if (!function && !functions[i].optional) {
			snprintf(why, why_size, "%s is too old: it has no %s", cupti.path,
				 functions[i].name);
			return false;
		}
		memcpy((char *)&cupti + functions[i].offset, &function, sizeof(function));
	}
	return version_is_good(why, why_size);
}

#define MULTIPLE_SUBSCRIBERS 39 /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */

static void explain(const char *what, int result, char *why, size_t why_size)
{
	const char *text = NULL;

	if (cupti.get_result_string(result, &text) || !text)
		text = "unknown error";
	snprintf(why, why_size, "CUPTI %u: %s: %s (%d)", cupti.version, what, text, result);
}

static void ignore_callback(void *ctx, int domain, uint32_t call, const void *data)
{
	(void)ctx, (void)domain, (void)call, (void)data;
}

/* CUpti_SubscriberParams as it was at first. */
struct subscriber_params {
	size_t size;
	const char *name;
	char *old_name;
	size_t old_name_size;
};

/* Is the subscriber's place free? The agent leaves it at once. */
static bool place_is_free(char *why, size_t why_size)
{
	char other[64] = "";
	struct subscriber_params params = {.size = sizeof(params),
					   .name = "perfx-trace",
					   .old_name = other,
					   .old_name_size = sizeof(other)};
	void *subscriber = NULL;
	uint8_t running = 0;
	int result;

	if (cupti.tracing_is_running && !cupti.tracing_is_running(&running) && running) {
		snprintf(why, why_size, "another profiler is recording in it");
		return false;
	}
	result = cupti.subscribe_v2
			 ? cupti.subscribe_v2(&subscriber, ignore_callback, NULL, &params)
			 : cupti.subscribe(&subscriber, ignore_callback, NULL);
	if (result == MULTIPLE_SUBSCRIBERS)
		snprintf(why, why_size, "another profiler uses CUPTI%s%.63s", *other ? ": " : "",
			 other);
	else if (result)
		explain("cuptiSubscribe", result, why, why_size);
	else
		cupti.unsubscribe(subscriber);
	return !result;
}

static const struct {
	int kind;
	bool needed;
} kinds[] = {
	{CUPTI_CONCURRENT_KERNEL, true}, {CUPTI_MEMCPY, true},		 {CUPTI_MEMCPY_PEER, false},
	{CUPTI_MEMSET, false},		 {CUPTI_SYNCHRONIZATION, false},
};

static const int kind_of_calls[DOMAINS] = {
	[DOMAIN_DRIVER] = CUPTI_DRIVER, [DOMAIN_RUNTIME] = CUPTI_RUNTIME};

/* All calls of a domain, and from 12.5 on without those that nobody asks for. The other way round,
 * calls alone without their kind, nothing is recorded where a context exists already (seen with
 * CUPTI 13.0 and driver 580). */
static void enable_calls(void)
{
	int (*const by_call[DOMAINS])(uint32_t, uint8_t) = {
		[DOMAIN_DRIVER] = cupti.enable_driver_call,
		[DOMAIN_RUNTIME] = cupti.enable_runtime_call,
	};

	for (int domain = DOMAIN_DRIVER; domain < DOMAINS; domain++) {
		cupti.activity_enable(kind_of_calls[domain]);
		for (uint32_t call = 0; by_call[domain] && call < CALLS_MAX; call++)
			if (!call_op_of((enum domain)domain, call))
				by_call[domain](call, 0);
	}
}

static bool enable(uint32_t flags, char *why, size_t why_size)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int result = cupti.activity_enable(kinds[i].kind);

		if (!result || !kinds[i].needed)
			continue;
		explain("cuptiActivityEnable", result, why, why_size);
		cupti_disable();
		return false;
	}
	/* without it, kernels and copies in graphs have records of their own */
	if (!(flags & PERFX_AGENT_GRAPH_NODES))
		cupti.activity_enable(CUPTI_GRAPH_TRACE);
	enable_calls();
	return true;
}

#define THREAD_ID_SYSTEM 1 /* CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM: gettid, not pthread_self */

bool cupti_begin(uint32_t level, uint32_t flags, char *why, size_t why_size)
{
	int result;

	if (!place_is_free(why, why_size))
		return false;
	if (!buffers_map(cupti.version >= VERSION_NULL_BUFFER)) {
		snprintf(why, why_size, "no memory for CUPTI's buffers");
		return false;
	}
	records_find_calls();
	/* before anything is enabled: records of before would have other clocks */
	result = cupti.register_timestamp(agent_now_ns);
	if (!result)
		result = cupti.set_thread_id_type(THREAD_ID_SYSTEM);
	if (!result)
		result = cupti.register_callbacks(buffer_requested, buffer_completed);
	if (result) {
		explain("cannot be set up", result, why, why_size);
		return false;
	}
	return enable(flags | (level > 1 ? PERFX_AGENT_GRAPH_NODES : 0), why, why_size);
}

/* Not cuptiFinalize: while other threads launch, that destroys what they work with. With 13.0 a
 * PyTorch program died of a corrupted heap at its eighth detachment, a JAX program of failing
 * launches. */
void cupti_disable(void)
{
	for (int domain = DOMAIN_DRIVER; domain < DOMAINS; domain++)
		cupti.activity_disable(kind_of_calls[domain]);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		cupti.activity_disable(kinds[i].kind);
	cupti.activity_disable(CUPTI_GRAPH_TRACE);
}
