// SPDX-License-Identifier: BSD-2-Clause
/*
 * NVTX 3 is headers alone: a program that uses it has its functions inlined, and nothing in it can
 * be probed. But each first asks NVTX_INJECTION64_PATH for a library that wants to be called
 * instead. This is that library, which `perfx-trace run` names there: it passes its arguments on
 * to empty functions of its own, perfx_nvtx_*, which the tracer probes. Ranges of different domains
 * need not be nested in each other, so each has a key.
 *
 * The ABI is that of nvtx3/nvtxDetail/nvtxTypes.h, versions 2 and 3; declared here, for the headers
 * come with CUDA alone.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__)
/* as perfx.h's markers: a nop that newer kernels turn into a call, and one for older ones */
#define PLACE ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\tnop"
#else
#define PLACE "nop"
#endif

EXPORT void perfx_nvtx_push(const char *name, uint64_t key);
EXPORT void perfx_nvtx_pop(uint64_t key);
EXPORT void perfx_nvtx_start(const char *name, uint64_t id);
EXPORT void perfx_nvtx_end(uint64_t id);
EXPORT void perfx_nvtx_mark(const char *name);

#define PROBED __attribute__((noinline, noclone)) void

PROBED perfx_nvtx_push(const char *name, uint64_t key)
{
	__asm__ __volatile__(PLACE : : "r"(name), "r"(key) : "memory");
}

PROBED perfx_nvtx_pop(uint64_t key)
{
	__asm__ __volatile__(PLACE : : "r"(key) : "memory");
}

PROBED perfx_nvtx_start(const char *name, uint64_t id)
{
	__asm__ __volatile__(PLACE : : "r"(name), "r"(id) : "memory");
}

PROBED perfx_nvtx_end(uint64_t id)
{
	__asm__ __volatile__(PLACE : : "r"(id) : "memory");
}

PROBED perfx_nvtx_mark(const char *name)
{
	__asm__ __volatile__(PLACE : : "r"(name) : "memory");
}

/* nvtxEventAttributes_t: the members before the message have the same size in all versions. */
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};
_Static_assert(offsetof(struct attributes, message) == 40, "as in nvToolsExt.h");

enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };

/* Longer names are cut, by the tracer too. */
#define NAME_MAX_BYTES 256

static size_t put_utf8(char *to, uint32_t c)
{
	static const uint32_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = length - 1; i; i--, c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)(first[length] | (length == 4 ? c & 7 : c));
	return length;
}

static const char *narrow(const wchar_t *wide, char buffer[NAME_MAX_BYTES])
{
	size_t n = 0;

	while (wide && *wide && n + 4 < NAME_MAX_BYTES)
		n += put_utf8(buffer + n, (uint32_t)*wide++);
	buffer[n] = '\0';
	return buffer;
}

static const char *name_of(const struct attributes *attributes, char buffer[NAME_MAX_BYTES])
{
	if (!attributes || !attributes->message)
		return "";
	switch (attributes->message_type) {
	case MESSAGE_ASCII:
	case MESSAGE_REGISTERED: /* as register_name gave it */
		return attributes->message;
	case MESSAGE_UNICODE:
		return narrow(attributes->message, buffer);
	default:
		return "";
	}
}

/* Each thread has a stack of open ranges in each domain; beyond so many, some share theirs. */
#define DOMAINS 64

struct domain {
	unsigned index; /* 0: the domain that has no name */
};

static __thread uint32_t depths[DOMAINS];
static atomic_uint domains_count = 1;
static atomic_ullong ids = 1;

/* No address has it, for by these other ranges are distinguished. */
static uint64_t key_of(unsigned domain, uint32_t depth)
{
	return 1ull << 56 | (uint64_t)domain << 32 | depth;
}

static unsigned index_of(const struct domain *domain)
{
	return domain ? domain->index : 0;
}

static int push(unsigned domain, const char *name)
{
	uint32_t depth = depths[domain]++;

	perfx_nvtx_push(name ? name : "", key_of(domain, depth));
	return (int)depth;
}

static int pop(unsigned domain)
{
	if (!depths[domain])
		return -1;
	depths[domain]--;
	perfx_nvtx_pop(key_of(domain, depths[domain]));
	return (int)depths[domain];
}

static uint64_t start(const char *name)
{
	uint64_t id = atomic_fetch_add(&ids, 1);

	perfx_nvtx_start(name ? name : "", id);
	return id;
}

static void mark_ex(const struct attributes *attributes)
{
	char buffer[NAME_MAX_BYTES];

	perfx_nvtx_mark(name_of(attributes, buffer));
}

static void mark_a(const char *name)
{
	perfx_nvtx_mark(name ? name : "");
}

static void mark_w(const wchar_t *name)
{
	char buffer[NAME_MAX_BYTES];

	perfx_nvtx_mark(narrow(name, buffer));
}

static uint64_t start_ex(const struct attributes *attributes)
{
	char buffer[NAME_MAX_BYTES];

	return start(name_of(attributes, buffer));
}

static uint64_t start_w(const wchar_t *name)
{
	char buffer[NAME_MAX_BYTES];

	return start(narrow(name, buffer));
}

static int push_ex(const struct attributes *attributes)
{
	char buffer[NAME_MAX_BYTES];

	return push(0, name_of(attributes, buffer));
}

static int push_a(const char *name)
{
	return push(0, name);
}

static int push_w(const wchar_t *name)
{
	char buffer[NAME_MAX_BYTES];

	return push(0, narrow(name, buffer));
}

static int pop_default(void)
{
	return pop(0);
}

static void domain_mark_ex(const struct domain *domain, const struct attributes *attributes)
{
	(void)domain;
	mark_ex(attributes);
}

static uint64_t domain_start_ex(const struct domain *domain, const struct attributes *attributes)
{
	(void)domain;
	return start_ex(attributes);
}

static void domain_end(const struct domain *domain, uint64_t id)
{
	(void)domain;
	perfx_nvtx_end(id);
}

static int domain_push_ex(const struct domain *domain, const struct attributes *attributes)
{
	char buffer[NAME_MAX_BYTES];

	return push(index_of(domain), name_of(attributes, buffer));
}

static int domain_pop(const struct domain *domain)
{
	return pop(index_of(domain));
}

/* Handles are kept as long as the process lives: NVTX has no way to give one back. */
static const void *register_a(const struct domain *domain, const char *name)
{
	(void)domain;
	return strdup(name ? name : "");
}

static const void *register_w(const struct domain *domain, const wchar_t *name)
{
	char buffer[NAME_MAX_BYTES];

	return register_a(domain, narrow(name, buffer));
}

static struct domain *create_domain(const void *name)
{
	struct domain *domain = malloc(sizeof(*domain));
	unsigned n = atomic_fetch_add(&domains_count, 1);

	(void)name;
	if (domain)
		domain->index = n < DOMAINS ? n : 1 + n % (DOMAINS - 1);
	return domain;
}

static void destroy_domain(struct domain *domain)
{
	free(domain);
}

typedef void (*callback)(void);

struct callback_of {
	unsigned id; /* enum NvtxCallbackIdCore, NvtxCallbackIdCore2 */
	callback call;
};

#define CALL(id, function)               \
	{                                \
		id, (callback)(function) \
	}

static const struct callback_of core[] = {
	CALL(1, mark_ex), CALL(2, mark_a),  CALL(3, mark_w),	     CALL(4, start_ex),
	CALL(5, start),	  CALL(6, start_w), CALL(7, perfx_nvtx_end), CALL(8, push_ex),
	CALL(9, push_a),  CALL(10, push_w), CALL(11, pop_default),
};

static const struct callback_of core2[] = {
	CALL(1, domain_mark_ex),  CALL(2, domain_start_ex), CALL(3, domain_end),
	CALL(4, domain_push_ex),  CALL(5, domain_pop),	    CALL(10, register_a),
	CALL(11, register_w),	  CALL(12, create_domain),  CALL(13, create_domain),
	CALL(14, destroy_domain),
};

enum { MODULE_CORE = 1, MODULE_CORE2 = 5, TABLE_CALLBACKS = 1 };

struct callbacks_table {
	size_t struct_size;
	int (*get_module)(int module, callback ***slots, unsigned *count);
};

static void fill(const struct callbacks_table *table, int module, const struct callback_of *calls,
		 size_t count)
{
	callback **slots;
	unsigned size;

	if (!table->get_module(module, &slots, &size))
		return;
	for (size_t i = 0; i < count; i++)
		if (calls[i].id < size && slots[calls[i].id])
			*slots[calls[i].id] = calls[i].call;
}

EXPORT int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t id));

/* Called by each copy of NVTX in the process, once. 0: NVTX lacks a table that is needed. */
int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t id))
{
	const struct callbacks_table *table = get_table ? get_table(TABLE_CALLBACKS) : NULL;

	if (!table || table->struct_size < sizeof(*table) || !table->get_module)
		return 0;
	fill(table, MODULE_CORE, core, sizeof(core) / sizeof(core[0]));
	fill(table, MODULE_CORE2, core2, sizeof(core2) / sizeof(core2[0]));
	return 1;
}
