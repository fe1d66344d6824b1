/* SPDX-License-Identifier: BSD-2-Clause */
/* The marking functions of the stub libraries (lib/). */
#ifndef TESTS_WORKLOADS_RANGES_H
#define TESTS_WORKLOADS_RANGES_H

#include <stdint.h>

int nvtxRangePushA(const char *text);
int nvtxRangePushEx(const void *attributes);
int nvtxRangePop(void);
uint64_t nvtxRangeStartA(const char *text);
void nvtxRangeEnd(uint64_t id);
void nvtxMarkA(const char *text);

int roctxRangePushA(const char *text);
int roctxRangePop(void);
uint64_t roctxRangeStartA(const char *text);
void roctxRangeStop(uint64_t id);
void roctxMarkA(const char *text);

struct string {
	const char *text;
	uint64_t length;
};

void itt_range_push(const char *text) __asm__("_ZN5torch8profiler14itt_range_pushEPKc");
void itt_range_pop(void) __asm__("_ZN5torch8profiler13itt_range_popEv");
void record_end(void *record) __asm__("_ZN2at14RecordFunction3endEv");
void **enter_new(void **slot, const struct string *name, const void *arguments) __asm__(
	"_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_"
	"stringIcSt11char_traitsIcESaIcEEERKSt8optionalIS7_E");

void *engine_execute(void *slot, void (*body)(void)) __asm__(
	"_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6Tensor"
	"ESaIS9_EEbbbS7_");

#endif
