/* SPDX-License-Identifier: BSD-2-Clause */
/* A CUPTI that records what the program tells it: stub.h. */
#include "stub.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define NOT_INITIALISED 15
#define MAX_LIMIT	12
#define INVALID		1
#define SUBSCRIBED	39
#define DOMAINS		3
#define CALLS		1024
#define KINDS		64

typedef void requested_fn(uint8_t **buffer, size_t *size, size_t *records_max);
typedef void completed_fn(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			  size_t valid);
typedef void callback_fn(void *ctx, int domain, uint32_t call, const void *data);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	bool kinds[KINDS], calls[DOMAINS][CALLS];
	bool has_clock, misused, finalised;
	int flushes, subscribers;
	requested_fn *requested;
	completed_fn *completed;
	uint8_t *buffer;
	size_t size, used;
	size_t dropped;
} stub;

/* Begins each function: the behavior that the environment requests. */
static int enter(const char *function)
{
	const char *fail = getenv("STUB_CUPTI_FAIL"), *colon = fail ? strchr(fail, ':') : NULL;
	int (*get_count)(int *) = dlsym(RTLD_DEFAULT, "cuDeviceGetCount");
	int count;

	if (!get_count || get_count(&count)) {
		stub.misused = true;
		if (getenv("STUB_CUPTI_CRASH"))
			raise(SIGSEGV);
		return NOT_INITIALISED;
	}
	if (colon && (size_t)(colon - fail) == strlen(function) &&
	    !strncmp(fail, function, strlen(function)))
		return atoi(colon + 1);
	return 0;
}

#define ENTER()                            \
	do {                               \
		int err = enter(__func__); \
		if (err)                   \
			return err;        \
	} while (0)

int cuptiGetVersion(uint32_t *version)
{
	const char *text = getenv("STUB_CUPTI_VERSION");

	ENTER();
	*version = text ? (uint32_t)atoi(text) : 130001;
	return 0;
}

int cuptiGetResultString(int result, const char **text)
{
	*text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR";
	return 0;
}

__attribute__((noipa)) int cuptiSubscribe(void **subscriber, callback_fn *callback, void *ctx)
{
	ENTER();
	(void)callback, (void)ctx;
	if (stub.subscribers || getenv("STUB_CUPTI_OTHER"))
		return SUBSCRIBED;
	stub.subscribers++;
	*subscriber = &stub;
	return 0;
}

struct subscriber_params {
	size_t size;
	const char *name;
	char *old_name;
	size_t old_name_size;
};

int cuptiSubscribe_v2(void **subscriber, callback_fn *callback, void *ctx,
		      struct subscriber_params *params)
{
	const char *other = getenv("STUB_CUPTI_OTHER");

	if (other && params)
		snprintf(params->old_name, params->old_name_size, "CUPTI for %s", other);
	return cuptiSubscribe(subscriber, callback, ctx);
}

int cuptiUnsubscribe(void *subscriber)
{
	ENTER();
	if (subscriber != &stub || !stub.subscribers)
		return INVALID;
	stub.subscribers--;
	return 0;
}

static const struct {
	int domain;
	uint32_t call;
	const char *name;
} names[] = {
	{1, STUB_cuLaunchKernel, "cuLaunchKernel"},
	{1, STUB_cuCtxGetCurrent, "cuCtxGetCurrent"},
	{2, STUB_cudaMemcpyAsync, "cudaMemcpyAsync_v3020"},
	{2, STUB_cudaMemsetAsync, "cudaMemsetAsync_v3020"},
	{2, STUB_cudaStreamSynchronize, "cudaStreamSynchronize_v3020"},
	{2, STUB_cudaLaunchKernel, "cudaLaunchKernel_v7000"},
	{2, STUB_cudaGraphLaunch, "cudaGraphLaunch_v10000"},
};

int cuptiGetCallbackName(int domain, uint32_t call, const char **name)
{
	ENTER();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].domain != domain || names[i].call != call)
			continue;
		*name = names[i].name;
		return 0;
	}
	return INVALID;
}

int cuptiActivityRegisterCallbacks(requested_fn *requested, completed_fn *completed)
{
	ENTER();
	stub.requested = requested;
	stub.completed = completed;
	return 0;
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*now_ns)(void))
{
	ENTER();
	stub.has_clock = now_ns != NULL;
	return 0;
}

int cuptiSetThreadIdType(int type)
{
	ENTER();
	return type == 1 ? 0 : INVALID;
}

static const uint32_t kind_of_calls[] = {[1] = 4, [2] = 5}; /* DRIVER, RUNTIME */

static void enabling(void)
{
	stub.misused = stub.misused || !stub.has_clock || !stub.requested;
}

int cuptiActivityEnable(uint32_t kind)
{
	ENTER();
	enabling();
	stub.kinds[kind % KINDS] = true;
	for (int domain = 1; domain <= 2; domain++)
		if (kind == kind_of_calls[domain])
			memset(stub.calls[domain], true, sizeof(stub.calls[domain]));
	return 0;
}

int cuptiActivityDisable(uint32_t kind)
{
	ENTER();
	stub.kinds[kind % KINDS] = false;
	return 0;
}

int cuptiActivityEnableDriverApi(uint32_t call, uint8_t enable)
{
	ENTER();
	enabling();
	stub.calls[1][call % CALLS] = enable;
	return 0;
}

int cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t enable)
{
	ENTER();
	enabling();
	stub.calls[2][call % CALLS] = enable;
	return 0;
}

int cuptiActivityFlushAll(uint32_t flag)
{
	ENTER();
	(void)flag;
	stub.flushes++;
	stub_complete();
	return 0;
}

/* Each record is preceded by its size: the real one knows sizes by kind. */
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record)
{
	uint64_t bytes = 0;
	uint8_t *next = buffer + 8;

	ENTER();
	if (*record) {
		memcpy(&bytes, *record - 8, sizeof(bytes));
		next = *record + bytes + 8;
	}
	if (next >= buffer + valid)
		return MAX_LIMIT;
	*record = next;
	return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	ENTER();
	(void)context, (void)stream;
	pthread_mutex_lock(&lock);
	*dropped = stub.dropped;
	stub.dropped = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuptiFinalize(void)
{
	ENTER();
	stub.finalised = true;
	return 0;
}

bool stub_enabled(uint32_t kind)
{
	return stub.kinds[kind % KINDS];
}

/* A call that was enabled without its kind is not recorded: the real CUPTI has a context by then.
 * */
bool stub_call_enabled(int domain, uint32_t call)
{
	return stub.kinds[kind_of_calls[domain]] && stub.calls[domain][call % CALLS];
}

bool stub_was_misused(void)
{
	return stub.misused;
}

bool stub_was_finalised(void)
{
	return stub.finalised;
}

int stub_subscribers(void)
{
	return stub.subscribers;
}

int stub_flushes(void)
{
	return stub.flushes;
}

/* The caller holds the lock. */
static void complete(void)
{
	uint8_t *buffer = stub.buffer;

	stub.buffer = NULL;
	if (buffer)
		stub.completed(NULL, 0, buffer, stub.size, stub.used);
}

void stub_complete(void)
{
	pthread_mutex_lock(&lock);
	complete();
	pthread_mutex_unlock(&lock);
}

static bool request(void)
{
	size_t records_max = 0;

	stub.used = 0;
	if (!stub.buffer && stub.requested)
		stub.requested(&stub.buffer, &stub.size, &records_max);
	return stub.buffer != NULL;
}

void stub_put(const void *record, size_t bytes)
{
	uint64_t prefix = bytes;

	pthread_mutex_lock(&lock);
	if (stub.buffer && stub.used + 8 + bytes > stub.size)
		complete();
	if (stub.buffer || request()) {
		memcpy(stub.buffer + stub.used, &prefix, sizeof(prefix));
		memcpy(stub.buffer + stub.used + 8, record, bytes);
		stub.used += 8 + bytes;
	} else {
		stub.dropped++;
	}
	pthread_mutex_unlock(&lock);
}

bool stub_hold_buffer(void)
{
	size_t size, records_max;
	uint8_t *buffer = NULL;

	stub.requested(&buffer, &size, &records_max);
	return buffer != NULL;
}

void stub_complete_unknown(void)
{
	static uint8_t buffer[64];

	stub.completed(NULL, 0, buffer, sizeof(buffer), sizeof(buffer));
	stub.completed(NULL, 0, NULL, 0, 0);
}

static void foreign_request(uint8_t **buffer, size_t *size, size_t *records_max)
{
	*buffer = NULL;
	*size = *records_max = 0;
}

static void foreign_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			     size_t valid)
{
	(void)context, (void)stream, (void)buffer, (void)size, (void)valid;
}

int stub_profiler_begins(void)
{
	void *subscriber;
	int err = cuptiSubscribe(&subscriber, NULL, NULL);

	return err ? err : cuptiActivityRegisterCallbacks(foreign_request, foreign_complete);
}
