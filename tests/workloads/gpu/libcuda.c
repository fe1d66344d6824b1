/* SPDX-License-Identifier: BSD-2-Clause */
/* A CUDA driver without a device: initializes itself, and loads CUDA_INJECTION64_PATH meanwhile. */
#include "stub.h"

#include <dlfcn.h>
#include <stdlib.h>

#define NOT_INITIALISED 3
#define NO_DEVICE	100
#define INVALID_DEVICE	101
#define HANDLES		1000 /* not ordinals */

static _Atomic int initialised;

__attribute__((noipa)) int cuInit(unsigned flags)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && !initialised ? dlopen(path, RTLD_NOW) : NULL;
	int (*initialise)(void) = library ? dlsym(library, "InitializeInjection") : NULL;

	(void)flags;
	if (initialise)
		initialise();
	initialised = 1;
	return getenv("STUB_NO_DEVICE") ? NO_DEVICE : 0;
}

static const char *visible(void)
{
	const char *text = getenv("STUB_DEVICES");

	return text ? text : "0";
}

int cuDeviceGetCount(int *count)
{
	*count = 0;
	if (!initialised)
		return NOT_INITIALISED;
	if (getenv("STUB_NO_DEVICE"))
		return NO_DEVICE;
	*count = (int)strlen(visible());
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	if (ordinal < 0 || ordinal >= (int)strlen(visible()))
		return INVALID_DEVICE;
	*device = HANDLES + visible()[ordinal] - '0';
	return 0;
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
	if (device < HANDLES)
		return INVALID_DEVICE;
	memset(uuid, device - HANDLES, 16);
	return 0;
}

int cuDriverGetVersion(int *version)
{
	const char *text = getenv("STUB_DRIVER");

	*version = text ? atoi(text) : 13000;
	return 0;
}
