/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which perf events are counted during calls: the hardware's where this machine has them (cycles,
 * instructions, last-level cache misses, floating-point operations), or those that the user names.
 * A counter may be made of several events: Intel counts floating-point instructions by width.
 */
#ifndef PERFX_COUNTERS_COUNTERS_H
#define PERFX_COUNTERS_COUNTERS_H

#include "perfx_config.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A perf event of a counter. */
struct counter_event {
	uint32_t counter; /* place in the set */
	uint32_t weight;  /* so much of it for each */
	uint32_t type;	  /* perf_event_attr */
	uint64_t config;
	/* Only in user mode: the probes' own work in the kernel is not the program's. Events of the
	 * kernel's software have no such mode. */
	bool user_only;
};

struct counter {
	const char *name, *unit; /* static */
	bool is_flops;
};

struct counters {
	struct counter list[PERFX_PERF_COUNTERS];
	size_t count; /* 0: nothing is counted */
	struct counter_event events[PERFX_PERF_EVENTS];
	size_t events_count;
};

/* Vendors with events of their own. */
enum counters_vendor {
	COUNTERS_OTHER = 0, /* cycles, instructions and cache misses alone */
	COUNTERS_INTEL,
	COUNTERS_AMD,
};

struct counters_cpu {
	bool has_pmu;	 /* the kernel knows one for the processor's cores */
	bool is_hybrid;	 /* cores of two kinds, with events of their own */
	bool is_virtual; /* a hypervisor is there */
	int paranoid;	 /* perf_event_paranoid; -1: unknown */
	enum counters_vendor vendor;
	unsigned family; /* of the processor, x86 */
	bool has_avx512;
};

void counters_cpu_read(struct counters_cpu *cpu);

/* All that the hardware could count. */
void counters_of_hardware(const struct counters_cpu *cpu, struct counters *counters);

/* "task-clock,page-faults": 0, or -EINVAL with the word that is no counter, or one too many, at
 * *word (borrowed from text). */
int counters_named(const struct counters_cpu *cpu, const char *text, struct counters *counters,
		   const char **word);
/* All names, divided by blanks. */
const char *counters_names(void);

/*
 * Tries them on this thread. Leaves out events that do not open and, last first, those for which
 * the processor has no counter free. why: "" where all count; with some left, which do not and why;
 * with none, why. A line without a dot at its end.
 */
void counters_try(const struct counters_cpu *cpu, struct counters *counters, char *why,
		  size_t why_size);

/* An event of a thread, counting: its descriptor, or -errno. tid 0: the caller's. */
int counter_event_open(const struct counter_event *event, pid_t tid);
/* Why opening failed, in words. */
const char *counters_refusal(const struct counters_cpu *cpu, int err, char *buffer, size_t size);

#endif
