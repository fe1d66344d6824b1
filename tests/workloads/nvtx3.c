/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges by NVTX 3, whose functions are inlined: of all kinds, in two domains that are not nested
 * in each other, on two threads. For `perfx-trace run`; `nvtx3 wait` is attached to.
 */
#if defined(NVTX)
#include <nvtx3/nvToolsExt.h>
#else
#include "nvtx3_mock.h"
#endif

#include <pthread.h>

#include "known.h"

#define ROUNDS 200

static nvtxDomainHandle_t first, second;
static nvtxStringHandle_t registered;

TRACED void work(int n)
{
	for (int i = 0; i < n; i++)
		KEEP(i);
}

static nvtxEventAttributes_t named(const char *name)
{
	nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
					    .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
					    .messageType = NVTX_MESSAGE_TYPE_ASCII};

	attributes.message.ascii = name;
	return attributes;
}

static nvtxEventAttributes_t by_handle(nvtxStringHandle_t handle)
{
	nvtxEventAttributes_t attributes = named(NULL);

	attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	attributes.message.registered = handle;
	return attributes;
}

static void push_and_pop(void)
{
	nvtxEventAttributes_t attributes = named("by attributes");

	nvtxRangePushA("outer");
	nvtxRangePushEx(&attributes);
	nvtxRangePushW(L"breit: Ä→𝄞");
	work(2);
	nvtxRangePop();
	nvtxRangePop();
	nvtxMarkA("mark");
	nvtxRangePop();
}

/* In each domain, its own ranges are last in, first out. */
static void cross_domains(void)
{
	nvtxEventAttributes_t one = named("of the first"), two = named("of the second"),
			      third = by_handle(registered);

	nvtxDomainRangePushEx(first, &one);
	nvtxDomainRangePushEx(second, &two);
	nvtxDomainRangePushEx(first, &third);
	work(1);
	nvtxDomainRangePop(first);
	nvtxDomainRangePop(first);
	nvtxDomainMarkEx(second, &two);
	work(3);
	nvtxDomainRangePop(second);
}

static void start_and_end(void)
{
	nvtxEventAttributes_t attributes = named("started in a domain");
	nvtxRangeId_t a = nvtxRangeStartA("started"),
		      b = nvtxDomainRangeStartEx(first, &attributes);

	nvtxRangeEnd(a);
	nvtxDomainRangeEnd(first, b);
}

static void *rounds(void *none)
{
	for (int i = 0; i < ROUNDS; i++) {
		push_and_pop();
		cross_domains();
		start_and_end();
	}
	/* one pop too many: ignored */
	nvtxRangePop();
	return none;
}

static void run(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, rounds, NULL);
	rounds(NULL);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"outer",   "by attributes",	     "breit: Ä→𝄞",
					    "mark",    "of the first",	     "registered",
					    "started", "started in a domain"};
	uint64_t runs = 1;

	(void)argv;
	first = nvtxDomainCreateA("first");
	second = nvtxDomainCreateA("second");
	registered = nvtxDomainRegisterStringA(first, "registered");
	if (argc > 1)
		runs = known_main(run);
	else
		run();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		known_expect(names[i], "calls", runs * 2 * ROUNDS);
	known_expect("of the second", "calls", runs * 4 * ROUNDS);
	known_expect("work", "calls", runs * 6 * ROUNDS);
	nvtxDomainDestroy(second);
	return 0;
}
