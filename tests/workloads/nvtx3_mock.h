/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A replacement for NVTX 3's headers: the parts that nvtx3.c uses, with the same ABI. As there,
 * everything is inlined, and the first call loads the library in NVTX_INJECTION64_PATH.
 */
#ifndef TESTS_WORKLOADS_NVTX3_MOCK_H
#define TESTS_WORKLOADS_NVTX3_MOCK_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <wchar.h>

typedef uint64_t nvtxRangeId_t;
typedef struct mock_domain *nvtxDomainHandle_t;
typedef struct mock_string *nvtxStringHandle_t;

#define NVTX_VERSION		      3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))
#define NVTX_MESSAGE_TYPE_ASCII	      1
#define NVTX_MESSAGE_TYPE_UNICODE     2
#define NVTX_MESSAGE_TYPE_REGISTERED  3

typedef struct {
	uint16_t version, size;
	uint32_t category;
	int32_t colorType;
	uint32_t color;
	int32_t payloadType, reserved0;
	uint64_t payload;
	int32_t messageType;
	union {
		const char *ascii;
		const wchar_t *unicode;
		nvtxStringHandle_t registered;
	} message;
} nvtxEventAttributes_t;

typedef void (*mock_call)(void);

static mock_call mock_core[16], mock_core2[16];
static mock_call *mock_slots[2][16];

static inline int mock_module(int module, mock_call ***slots, unsigned *count)
{
	if (module != 1 && module != 5)
		return 0;
	for (unsigned i = 1; i < 16; i++)
		mock_slots[module == 5][i] = module == 5 ? &mock_core2[i] : &mock_core[i];
	*slots = mock_slots[module == 5];
	*count = 16;
	return 1;
}

static inline const void *mock_table(uint32_t id)
{
	static const struct {
		size_t size;
		int (*module)(int module, mock_call ***slots, unsigned *count);
	} table = {sizeof(table), mock_module};

	return id == 1 ? &table : NULL;
}

static inline void mock_begin(void)
{
	static int begun;
	const char *path = begun ? NULL : getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*start)(const void *(*)(uint32_t)) =
		library ? (int (*)(const void *(*)(uint32_t)))dlsym(library,
								    "InitializeInjectionNvtx2")
			: NULL;

	begun = 1;
	if (start)
		start(mock_table);
}

#define MOCK(type, otherwise, name, table, id, parameters, arguments)                            \
	static inline type name parameters                                                       \
	{                                                                                        \
		mock_begin();                                                                    \
		return table[id] ? ((type(*) parameters)table[id])arguments : (type)(otherwise); \
	}
#define MOCK_VOID(name, table, id, parameters, arguments)          \
	static inline void name parameters                         \
	{                                                          \
		mock_begin();                                      \
		if (table[id])                                     \
			((void(*) parameters)table[id]) arguments; \
	}

MOCK_VOID(nvtxMarkA, mock_core, 2, (const char *name), (name))
MOCK(nvtxRangeId_t, 0, nvtxRangeStartA, mock_core, 5, (const char *name), (name))
MOCK_VOID(nvtxRangeEnd, mock_core, 7, (nvtxRangeId_t id), (id))
MOCK(int, -2, nvtxRangePushEx, mock_core, 8, (const nvtxEventAttributes_t *a), (a))
MOCK(int, -2, nvtxRangePushA, mock_core, 9, (const char *name), (name))
MOCK(int, -2, nvtxRangePushW, mock_core, 10, (const wchar_t *name), (name))
MOCK(int, -2, nvtxRangePop, mock_core, 11, (void), ())
MOCK_VOID(nvtxDomainMarkEx, mock_core2, 1, (nvtxDomainHandle_t d, const nvtxEventAttributes_t *a),
	  (d, a))
MOCK(nvtxRangeId_t, 0, nvtxDomainRangeStartEx, mock_core2, 2,
     (nvtxDomainHandle_t d, const nvtxEventAttributes_t *a), (d, a))
MOCK_VOID(nvtxDomainRangeEnd, mock_core2, 3, (nvtxDomainHandle_t d, nvtxRangeId_t id), (d, id))
MOCK(int, -2, nvtxDomainRangePushEx, mock_core2, 4,
     (nvtxDomainHandle_t d, const nvtxEventAttributes_t *a), (d, a))
MOCK(int, -2, nvtxDomainRangePop, mock_core2, 5, (nvtxDomainHandle_t d), (d))
MOCK(nvtxStringHandle_t, 0, nvtxDomainRegisterStringA, mock_core2, 10,
     (nvtxDomainHandle_t d, const char *name), (d, name))
MOCK(nvtxDomainHandle_t, 0, nvtxDomainCreateA, mock_core2, 12, (const char *name), (name))
MOCK_VOID(nvtxDomainDestroy, mock_core2, 14, (nvtxDomainHandle_t d), (d))

#endif
