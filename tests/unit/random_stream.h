/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A long recording that never was, in segments as a recorder makes them: processes that come and
 * go, calls, blocks that live for long, reallocations under way, mappings of which parts are freed,
 * memory that is sampled from some time on. Drawn by rand().
 */
#ifndef RANDOM_STREAM_H
#define RANDOM_STREAM_H

#include "stream_builder.h"

#include <stdio.h>
#include <stdlib.h>

#define RANDOM_SEGMENT	 (100 * MS)
#define RANDOM_PROCESSES 40
#define RANDOM_BLOCKS	 64 /* places of a process */
#define RANDOM_FUNCTIONS 6

struct random_process {
	bool lives, described;
	uint32_t pid;
	uint64_t cpu;
	bool block[RANDOM_BLOCKS], mapped[RANDOM_BLOCKS];
	uint32_t reallocated; /* a block that thread 1 reallocates: + 1; 0: none */
};

struct random_stream {
	struct stream stream;
	uint64_t at; /* since the start */
	struct random_process processes[RANDOM_PROCESSES];
	uint32_t processes_count;
	uint32_t contexts_count, functions_count;
	bool sampled, with_sampling;
	bool infers_frees, with_inferred_frees; /* only without sampling */
};

static inline struct stream_place random_place(const struct random_stream *r, uint32_t process,
					       uint32_t tid)
{
	uint32_t context = r->contexts_count ? 1 + (uint32_t)rand() % r->contexts_count : 0;

	if (r->stream.contexts[context].process != process)
		context = 0;
	return (struct stream_place){.process = process,
				     .tid = tid,
				     .context = context,
				     .stack = 1 + (uint32_t)rand() % 4,
				     .allocator = 1,
				     .domain = PERFX_DOMAIN_HOST};
}

static inline void random_describe(struct random_stream *r, uint32_t process, uint64_t time_at)
{
	struct random_process *p = &r->processes[process];
	char comm[32];

	snprintf(comm, sizeof(comm), "worker%u", process);
	stream_add(&r->stream, PERFX_KIND_PROCESS, struct perfx_process, STRINGS(comm, comm),
		   .time_ns = STREAM_START + time_at, .start_boot_ns = 40 * S, .process = process,
		   .pid = p->pid, .ppid = 1);
	p->described = true;
	stream_usage(&r->stream, process, time_at, p->cpu, p->cpu / 2, 1 << 20);
	for (uint32_t stack = 1; stack <= 4; stack++)
		stream_stack(&r->stream, process, stack, 0, 0x1000 * stack, 0x9000);
}

static inline void random_begin(struct random_stream *r)
{
	struct stream *s = &r->stream;

	stream_function(s, 1, "f1", "/lib/a.so", PERFX_SOURCE_SYMBOL);
	r->functions_count = 1;
	stream_plain(s, PERFX_KIND_PROBE, struct perfx_probe_record, .probe = 1, .function = 1,
		     .link = PERFX_LINK_MULTI, .ret = PERFX_RETURN_EXIT, .site = PERFX_SITE_PUSH,
		     .cost_ps = 500000);
	stream_allocator(s, 1, PERFX_DOMAIN_HOST, "libc", "/lib/libc.so.6");
	stream_add(s, PERFX_KIND_USER_VALUE_NAME, struct perfx_user_value_name, STRINGS("loss"),
		   .value = 1);
	stream_add(s, PERFX_KIND_USER_VALUE_NAME, struct perfx_user_value_name, STRINGS("tokens"),
		   .value = 2);
	r->processes[1] = (struct random_process){.lives = true, .pid = 1001};
	r->processes_count = 2;
	stream_process(s, 1, 1001, "worker1", "worker1");
	stream_host(s);
	random_describe(r, 1, 0);
	stream_plain(s, PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode, .time_ns = STREAM_START,
		     .domain = PERFX_DOMAIN_HOST, .level = PERFX_MEMORY_EXACT);
}

static inline void random_fork(struct random_stream *r)
{
	uint32_t process = r->processes_count, parent = 1;

	if (process == RANDOM_PROCESSES)
		return;
	r->processes_count++;
	r->processes[process] = (struct random_process){.lives = true, .pid = 1000 + process};
	stream_plain(&r->stream, PERFX_KIND_FORK, struct perfx_fork,
		     .time_ns = STREAM_START + r->at, .process = process, .parent_process = parent,
		     .pid = 1000 + process, .ppid = 1001);
	random_describe(r, process, r->at);
}

static inline void random_exit(struct random_stream *r, uint32_t process)
{
	r->processes[process].lives = false;
	stream_plain(&r->stream, PERFX_KIND_EXIT, struct perfx_exit,
		     .time_ns = STREAM_START + r->at, .process = process,
		     .pid = r->processes[process].pid, .runtime_ns = r->processes[process].cpu);
}

static inline void random_call(struct random_stream *r, uint32_t process)
{
	struct stream *s = &r->stream;
	uint64_t duration = 1 + (uint64_t)rand() % (r->at < 50 * US ? r->at + 1 : 50 * US);

	if (r->functions_count < RANDOM_FUNCTIONS && !(rand() % 40)) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", ++r->functions_count);
		stream_function(s, r->functions_count, name, "/lib/a.so", PERFX_SOURCE_SYMBOL);
	}
	if (r->contexts_count + 1 < STREAM_CONTEXTS && !(rand() % 10)) {
		uint32_t context = ++r->contexts_count;

		stream_context(s, context, 0, 1 + (uint32_t)rand() % r->functions_count, process);
	}
	for (uint32_t context = 1; context <= r->contexts_count; context++) {
		if (s->contexts[context].process != process || rand() % 4)
			continue;
		stream_call(s, context, r->processes[process].pid + (uint32_t)rand() % 2,
			    r->at - duration, duration, duration, 0);
		return;
	}
}

static inline void random_block(struct random_stream *r, uint32_t process)
{
	struct random_process *p = &r->processes[process];
	uint32_t i = (uint32_t)rand() % RANDOM_BLOCKS;
	struct stream_place place = random_place(r, process, p->pid + 1);
	uint64_t address = 0x100000ull * (i + 1), size = 16 + (uint64_t)rand() % 4096;

	if (p->reallocated && p->reallocated - 1 == i)
		return;
	if (p->mapped[i]) {
		/* half of it, maybe */
		stream_free(&r->stream, &place, r->at, address, rand() % 2 ? 4096 : 16384,
			    PERFX_FREE_MAPPED);
		p->mapped[i] = rand() % 2;
	} else if (p->block[i]) {
		if (!r->infers_frees || rand() % 8 == 0)
			stream_free(&r->stream, &place, r->at, address, 0, 0);
		p->block[i] = false;
	} else if (rand() % 8 == 0 && !r->sampled) {
		stream_allocation(&r->stream, &place, r->at, address, 16384,
				  PERFX_ALLOCATION_MAPPED);
		p->mapped[i] = true;
	} else {
		stream_allocation(&r->stream, &place, r->at, address, size,
				  r->sampled ? PERFX_ALLOCATION_SAMPLED : 0);
		p->block[i] = true;
	}
}

/* A reallocation begins, and ends some time later. */
static inline void random_resize(struct random_stream *r, uint32_t process)
{
	struct random_process *p = &r->processes[process];
	struct stream_place place = random_place(r, process, p->pid);
	uint32_t i = (uint32_t)rand() % RANDOM_BLOCKS;

	if (p->reallocated) {
		stream_allocation(&r->stream, &place, r->at, 0x100000ull * p->reallocated, 777,
				  PERFX_ALLOCATION_RESIZED |
					  (r->sampled ? PERFX_ALLOCATION_SAMPLED : 0));
		p->reallocated = 0;
	} else if (p->block[i]) {
		stream_free(&r->stream, &place, r->at, 0x100000ull * (i + 1), 0,
			    PERFX_FREE_REALLOC_BEGIN);
		p->reallocated = i + 1;
	}
}

static inline void random_mode(struct random_stream *r)
{
	if (!r->with_sampling && !r->with_inferred_frees)
		return;
	r->sampled = r->with_sampling;
	r->infers_frees = !r->with_sampling;
	stream_plain(&r->stream, PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode,
		     .time_ns = STREAM_START + r->at, .domain = PERFX_DOMAIN_HOST,
		     .level = r->sampled ? PERFX_MEMORY_SAMPLED : PERFX_MEMORY_FREES_INFERRED,
		     .sample_bytes = 512u << rand() % 4);
}

/* What came in a segment and has no time; then it ends. */
static inline void random_segment(struct random_stream *r)
{
	struct stream *s = &r->stream;

	for (uint32_t i = 1; i < r->processes_count; i++) {
		struct random_process *p = &r->processes[i];

		if (!p->lives)
			continue;
		p->cpu += (uint64_t)rand() % RANDOM_SEGMENT;
		stream_usage(s, i, r->at, p->cpu, p->cpu / 2, 1 << 20);
		stream_thread(s, i, p->pid, "main", 'S', r->at - 1, p->cpu, 5);
	}
	if (r->contexts_count && r->processes[s->contexts[1].process].lives && rand() % 2)
		stream_plain(s, PERFX_KIND_OVERFLOW_CALLS, struct perfx_overflow_calls,
			     .context = 1, .calls_count = 3, .total_ns = 300, .self_ns = 300);
	if (rand() % 2)
		stream_plain(s, PERFX_KIND_LOSS, struct perfx_loss, .loss = PERFX_LOSS_RING_DROPS,
			     .count = 3);
	stream_plain(s, PERFX_KIND_HITS, struct perfx_hits, .probe = 1,
		     .hits_count = 1 + (uint64_t)rand() % 100);
	stream_plain(s, PERFX_KIND_SEGMENT, struct perfx_segment, .time_ns = STREAM_START + r->at);
}

/* Set, or added to; whole numbers, whose sums are exact. */
static inline void random_value(struct random_stream *r, uint32_t process)
{
	double number = rand() % 100;
	struct perfx_user_value record = {.time_ns = STREAM_START + r->at,
					  .process = process,
					  .tid = r->processes[process].pid,
					  .value = 1 + (uint32_t)rand() % 2,
					  .flags = rand() % 8 ? PERFX_USER_VALUE_ADDED : 0};

	memcpy(&record.number_bits, &number, sizeof(number));
	stream_put(&r->stream, PACK(&r->stream.buffer, PERFX_KIND_USER_VALUE, record));
}

static inline void random_event(struct random_stream *r)
{
	uint32_t process = 1 + (uint32_t)rand() % (r->processes_count - 1);

	if (!r->processes[process].lives)
		return;
	switch (rand() % 200) {
	case 0:
		random_fork(r);
		return;
	case 1:
		if (process > 1)
			random_exit(r, process);
		return;
	case 2:
		if (!(rand() % 8))
			random_mode(r);
		return;
	case 3 ... 10:
		random_resize(r, process);
		return;
	case 11 ... 20:
		random_value(r, process);
		return;
	case 21 ... 100:
		random_block(r, process);
		return;
	default:
		random_call(r, process);
		return;
	}
}

/* Events up to and with the end of a segment. */
static inline void random_go_on(struct random_stream *r)
{
	uint64_t end = r->at - r->at % RANDOM_SEGMENT + RANDOM_SEGMENT;

	while (r->at + 1 * MS < end) {
		r->at += 1 + (uint64_t)rand() % (1 * MS);
		random_event(r);
	}
	r->at = end;
	random_segment(r);
}

static inline void random_end(struct random_stream *r)
{
	stream_plain(&r->stream, PERFX_KIND_END, struct perfx_end, .time_ns = STREAM_START + r->at,
		     .tracer_cpu_ns = 1, .tracer_rss_anon_bytes = 1);
}

#endif
