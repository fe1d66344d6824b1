/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of records for tests, written as a story: one call a record. Replaying them goes through
 * decode, as a ring's or a file's bytes do.
 */
#ifndef STREAM_BUILDER_H
#define STREAM_BUILDER_H

#include "aggregate/aggregate.h"
#include "base/text.h"
#include "decode/decode.h"
#include "decode/pack.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define US 1000ULL
#define MS (1000 * US)
#define S  (1000 * MS)

#define STREAM_CONTEXTS 64
#define STREAM_START	(100 * S) /* CLOCK_MONOTONIC of the capture's zero */

struct stream {
	struct text bytes;
	struct pack_buffer buffer;
	struct perfx_context contexts[STREAM_CONTEXTS];
};

/* stream_add(s, PERFX_KIND_FORK, struct perfx_fork, STRINGS("a", "b"), .process = 1, …) */
#define STRINGS(...) __VA_ARGS__
#define stream_add(stream, kind, type, strings, ...) \
	stream_put(stream, PACK(&(stream)->buffer, kind, ((type){__VA_ARGS__}), strings))
#define stream_plain(stream, kind, type, ...) \
	stream_put(stream, PACK(&(stream)->buffer, kind, ((type){__VA_ARGS__})))

static inline void stream_put(struct stream *s, const struct perfx_record *record)
{
	text_add_bytes(&s->bytes, (const char *)record, record->size);
}

static inline void stream_host(struct stream *s)
{
	stream_add(s, PERFX_KIND_HOST, struct perfx_host,
		   STRINGS("node1", "6.18.0", "5e0b1a9c", "perfx-trace -p 4242 -d '10 s'", "0.1.0"),
		   .start_ns = STREAM_START, .start_unix_ns = 1764000000ULL * S,
		   .start_boot_ns = STREAM_START, .cpus_count = 2, .memory_mib = 4096,
		   .ring_bytes = 8 << 20);
}

static inline void stream_process(struct stream *s, uint32_t process, uint32_t pid,
				  const char *comm, const char *cmdline)
{
	stream_add(s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS(comm, cmdline),
		   .time_ns = STREAM_START, .start_boot_ns = 40 * S, .process = process, .pid = pid,
		   .ppid = 1);
}

/* What is known of where a process runs; NULL: not known. */
static inline void stream_place_of(struct stream *s, uint32_t process,
				   const char *const of[PERFX_PLACES])
{
	for (uint8_t part = 1; part < PERFX_PLACES; part++)
		if (of[part])
			stream_add(s, PERFX_KIND_PLACE, struct perfx_place, STRINGS(of[part]),
				   .process = process, .part = part);
}

static inline void stream_function(struct stream *s, uint32_t function, const char *name,
				   const char *module, enum perfx_source source)
{
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS(name, module, "b1d"),
		   .offset = 0x1000ULL * function, .function = function, .source = source);
}

static inline void stream_context(struct stream *s, uint32_t context, uint32_t parent,
				  uint32_t function, uint32_t process)
{
	s->contexts[context] =
		(struct perfx_context){.parent = parent, .function = function, .process = process};
	stream_plain(s, PERFX_KIND_CONTEXT, struct perfx_context, .context = context,
		     .parent = parent, .function = function, .process = process);
}

/* What a call computes; state 0: not a function whose work is known. */
struct stream_cost {
	enum perfx_cost_state state;
	enum perfx_dtype dtype;
	uint64_t flops, bytes;
};

static inline size_t stream_span_bytes(const struct perfx_span *span)
{
	if (span->off_cpu_ns)
		return sizeof(*span);
	return span->cost_state ? PERFX_SPAN_COST_BYTES : PERFX_SPAN_PLAIN_BYTES;
}

/* As the kernel writes it: without the fields at the end that say nothing. */
static inline void stream_span(struct stream *s, struct perfx_span *span)
{
	span->process = s->contexts[span->context].process;
	span->function = s->contexts[span->context].function;
	stream_put(s, pack_record(&s->buffer, PERFX_KIND_SPAN, span, stream_span_bytes(span), NULL,
				  0));
}

/* A call in a context that was given before; at: since the start. */
static inline void stream_call(struct stream *s, uint32_t context, uint32_t tid, uint64_t at,
			       uint64_t duration, uint64_t self, uint16_t flags)
{
	struct perfx_span span = {.start_ns = STREAM_START + at,
				  .duration_ns = duration,
				  .self_ns = self,
				  .context = context,
				  .tid = tid,
				  .flags = flags};

	stream_span(s, &span);
}

static inline void stream_compute(struct stream *s, uint32_t context, uint32_t tid, uint64_t at,
				  uint64_t duration, uint64_t self, struct stream_cost cost)
{
	struct perfx_span span = {.start_ns = STREAM_START + at,
				  .duration_ns = duration,
				  .self_ns = self,
				  .context = context,
				  .tid = tid,
				  .cost_state = (uint8_t)cost.state,
				  .dtype = (uint8_t)cost.dtype,
				  .flops = cost.flops,
				  .bytes = cost.bytes};

	stream_span(s, &span);
}

/* bus_bytes 0: the number of ranks is not known */
static inline void stream_move(struct stream *s, uint32_t context, uint32_t tid, uint64_t at,
			       uint64_t duration, uint64_t bytes, uint64_t bus_bytes)
{
	struct perfx_span span = {.start_ns = STREAM_START + at,
				  .duration_ns = duration,
				  .self_ns = duration,
				  .context = context,
				  .tid = tid,
				  .flags = PERFX_SPAN_MOVES,
				  .cost_state = PERFX_COST_COUNTED,
				  .flops = bus_bytes,
				  .bytes = bytes};

	stream_span(s, &span);
}

static inline void stream_peak(struct stream *s, uint32_t threads, enum perfx_dtype dtype,
			       uint64_t flops_per_s, uint64_t bytes_per_s)
{
	stream_plain(s, PERFX_KIND_PEAK, struct perfx_peak, .flops_per_s = flops_per_s,
		     .bytes_per_s = bytes_per_s, .threads = threads, .dtype = (uint8_t)dtype);
}

static inline void stream_perf_counter(struct stream *s, uint32_t counter, const char *name,
				       const char *unit, enum perfx_perf_counter_kind kind)
{
	stream_add(s, PERFX_KIND_PERF_COUNTER, struct perfx_perf_counter, STRINGS(name, unit, ""),
		   .counter = counter, .kind = (uint8_t)kind);
}

/* Why nothing, or not all, is counted. */
static inline void stream_no_perf_counter(struct stream *s, const char *why)
{
	stream_add(s, PERFX_KIND_PERF_COUNTER, struct perfx_perf_counter, STRINGS("", "", why),
		   .kind = PERFX_PERF_COUNTER_MISSING);
}

static inline void stream_probe(struct stream *s, uint32_t probe, uint32_t function,
				enum perfx_site site, bool is_exit, uint64_t hits)
{
	stream_plain(s, PERFX_KIND_PROBE, struct perfx_probe_record, .probe = probe,
		     .function = function, .offset = 0x1000ULL * function + (is_exit ? 0x40 : 0),
		     .link = PERFX_LINK_MULTI, .ret = PERFX_RETURN_EXIT, .site = site,
		     .is_exit = is_exit, .cost_ps = site == PERFX_SITE_PUSH ? 550000 : 520500);
	stream_plain(s, PERFX_KIND_HITS, struct perfx_hits, .probe = probe, .hits_count = hits);
}

static inline struct perfx_usage usage_absent(uint32_t process, uint64_t at)
{
	struct perfx_usage usage;

	memset(&usage, 0xff, sizeof(usage));
	usage.time_ns = STREAM_START + at;
	usage.process = process;
	usage.pad = 0;
	usage.host_busy_ns = usage.host_steal_ns = 0;
	return usage;
}

static inline void stream_usage(struct stream *s, uint32_t process, uint64_t at, uint64_t user,
				uint64_t system, uint64_t rss_bytes)
{
	struct perfx_usage usage = usage_absent(process, at);

	usage.cpu_user_ns = user;
	usage.cpu_system_ns = system;
	usage.rss_bytes = rss_bytes;
	usage.rss_anon_bytes = rss_bytes / 2;
	usage.read_bytes = at / 1000;
	usage.write_bytes = 4096;
	usage.threads_count = 2;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_USAGE, usage));
}

static inline void stream_thread(struct stream *s, uint32_t process, uint32_t tid, const char *comm,
				 char state, uint64_t at, uint64_t on_cpu, uint64_t runnable)
{
	stream_add(s, PERFX_KIND_THREAD, struct perfx_thread, STRINGS(comm),
		   .time_ns = STREAM_START + at, .on_cpu_ns = on_cpu, .runnable_ns = runnable,
		   .process = process, .tid = tid, .state = (uint8_t)state);
}

/* Who allocates or frees: what most records of a story have in common. */
struct stream_place {
	uint32_t process, tid, context, stack;
	uint16_t allocator;
	enum perfx_domain domain;
};

static inline void stream_allocation(struct stream *s, const struct stream_place *place,
				     uint64_t at, uint64_t address, uint64_t size_bytes,
				     uint8_t flags)
{
	stream_plain(s, PERFX_KIND_ALLOCATION, struct perfx_allocation,
		     .time_ns = STREAM_START + at, .address = address, .size_bytes = size_bytes,
		     .process = place->process, .tid = place->tid, .context = place->context,
		     .stack = place->stack, .allocator = place->allocator,
		     .domain = (uint8_t)place->domain, .flags = flags);
}

/* size_bytes: 0 but for PERFX_FREE_MAPPED */
static inline void stream_free(struct stream *s, const struct stream_place *place, uint64_t at,
			       uint64_t address, uint64_t size_bytes, uint8_t flags)
{
	stream_plain(s, PERFX_KIND_FREE, struct perfx_free, .time_ns = STREAM_START + at,
		     .address = address, .size_bytes = size_bytes, .process = place->process,
		     .tid = place->tid, .allocator = place->allocator,
		     .domain = (uint8_t)place->domain, .flags = flags);
}

/* stream_stack(s, process, stack, flags, address, …): innermost first */
#define stream_stack(s, process, stack, flags, ...)                           \
	stream_put_stack(s, process, stack, flags, (uint64_t[]){__VA_ARGS__}, \
			 sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static inline void stream_put_stack(struct stream *s, uint32_t process, uint32_t stack,
				    uint32_t flags, const uint64_t *addresses, size_t count)
{
	struct {
		struct perfx_stack fixed;
		uint64_t addresses[PERFX_STACK_FRAMES_MAX];
	} record = {.fixed = {.hdr = {.size = (__u32)(sizeof(struct perfx_stack) + 8 * count),
				      .kind = PERFX_KIND_STACK,
				      .fixed = sizeof(struct perfx_stack)},
			      .stack = stack,
			      .process = process,
			      .frames_count = (uint32_t)count,
			      .flags = flags}};

	memcpy(record.addresses, addresses, count * sizeof(addresses[0]));
	stream_put(s, &record.fixed.hdr);
}

static inline void stream_allocator(struct stream *s, uint16_t allocator, enum perfx_domain domain,
				    const char *name, const char *module)
{
	stream_add(s, PERFX_KIND_ALLOCATOR, struct perfx_allocator, STRINGS(name, module),
		   .allocator = allocator, .domain = (uint8_t)domain);
}

/* Always on; for a duty cycle write the record. */
static inline void stream_memory_mode(struct stream *s, uint64_t at, enum perfx_domain domain,
				      enum perfx_memory_level level, uint64_t sample_bytes)
{
	stream_plain(s, PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode,
		     .time_ns = STREAM_START + at, .sample_bytes = sample_bytes, .on_ns = 1,
		     .period_ns = 1, .domain = (uint8_t)domain, .level = (uint8_t)level);
}

static inline void stream_frame(struct stream *s, uint32_t process, uint64_t address,
				uint16_t depth, const char *function, const char *module,
				uint64_t offset, const char *file, uint32_t line)
{
	stream_add(s, PERFX_KIND_FRAME, struct perfx_frame, STRINGS(function, module, file),
		   .address = address, .offset = offset, .process = process, .line = line,
		   .depth = depth);
}

/* A Python frame as stacks have it; `code` is a multiple of 16. */
static inline uint64_t python_frame(uint64_t code, uint32_t instruction)
{
	return PERFX_FRAME_PYTHON | code >> 4 << 20 | instruction;
}

static inline void stream_python_frame(struct stream *s, uint32_t process, uint64_t address,
				       const char *function, const char *file, uint32_t line)
{
	stream_add(s, PERFX_KIND_FRAME, struct perfx_frame, STRINGS(function, "", file),
		   .address = address, .process = process, .line = line,
		   .language = PERFX_LANGUAGE_PYTHON);
}

/* A context of which it is known who in Python called it. */
static inline void stream_called_context(struct stream *s, uint32_t context, uint32_t parent,
					 uint32_t function, uint32_t process, uint64_t caller,
					 uint32_t stack)
{
	s->contexts[context] =
		(struct perfx_context){.parent = parent, .function = function, .process = process};
	stream_plain(s, PERFX_KIND_CONTEXT, struct perfx_context, .context = context,
		     .parent = parent, .function = function, .process = process, .caller = caller,
		     .stack = stack);
}

/* at: since the start; times and kind of the record are the caller's */
static inline void stream_sample(struct stream *s, uint64_t at, struct perfx_sample sample)
{
	sample.time_ns = STREAM_START + at;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_SAMPLE, sample));
}

static inline void stream_object_of(struct stream *s, uint32_t process,
				    enum perfx_wait_reason reason, uint64_t object,
				    const char *name, enum perfx_object_kind kind)
{
	stream_add(s, PERFX_KIND_WAIT_OBJECT, struct perfx_wait_object, STRINGS(name),
		   .process = process, .reason = (uint8_t)reason, .kind = (uint8_t)kind,
		   .object = object);
}

static inline void stream_wait_object(struct stream *s, uint32_t process,
				      enum perfx_wait_reason reason, uint64_t object,
				      const char *name)
{
	stream_object_of(s, process, reason, object, name, PERFX_OBJECT_OTHER);
}

static inline void stream_overflow_memory(struct stream *s, uint32_t process,
					  enum perfx_domain domain, uint64_t allocs,
					  uint64_t allocated_bytes, uint64_t frees)
{
	stream_plain(s, PERFX_KIND_OVERFLOW_MEMORY, struct perfx_overflow_memory,
		     .process = process, .domain = (uint8_t)domain, .allocs_count = allocs,
		     .allocated_bytes = allocated_bytes, .frees_count = frees);
}

static inline void stream_value_name(struct stream *s, uint32_t value, const char *name)
{
	stream_add(s, PERFX_KIND_USER_VALUE_NAME, struct perfx_user_value_name, STRINGS(name),
		   .value = value);
}

/* Of process 1. */
static inline void stream_value(struct stream *s, uint32_t value, uint64_t at, double number,
				uint32_t flags)
{
	struct perfx_user_value record = {.time_ns = STREAM_START + at,
					  .process = 1,
					  .tid = 1,
					  .value = value,
					  .flags = flags};

	memcpy(&record.number_bits, &number, sizeof(number));
	stream_put(s, PACK(&s->buffer, PERFX_KIND_USER_VALUE, record));
}

/* An H100. */
static inline void stream_gpu_device(struct stream *s, uint32_t device)
{
	stream_add(s, PERFX_KIND_GPU_DEVICE, struct perfx_gpu_device,
		   STRINGS("NVIDIA H100 80GB HBM3", "GPU-5f2c1a9b", "580.65.06"),
		   .memory_bytes = 80ull << 30, .device = device, .multiprocessors = 132,
		   .max_sm_clock_mhz = 1980, .compute_major = 9, .power_limit_mw = 700000);
}

static inline void stream_gpu_name(struct stream *s, uint32_t name, const char *text)
{
	stream_add(s, PERFX_KIND_GPU_NAME, struct perfx_gpu_name, STRINGS(text, "libtorch_cuda.so"),
		   .name = name);
}

static inline void stream_gpu_state(struct stream *s, uint32_t process,
				    enum perfx_gpu_agent_state state, uint32_t level,
				    const char *why)
{
	stream_add(s, PERFX_KIND_GPU_STATE, struct perfx_gpu_state, STRINGS(why),
		   .time_ns = STREAM_START, .process = process, .level = level, .state = state);
}

/* Of process 1; at: since the start; the rest of the record is the caller's. */
static inline void stream_gpu_activity(struct stream *s, uint64_t at, uint64_t duration,
				       struct perfx_gpu_activity activity)
{
	activity.process = 1;
	activity.time_ns = STREAM_START + at;
	activity.end_ns = STREAM_START + at + duration;
	stream_put(s, PACK(&s->buffer, PERFX_KIND_GPU_ACTIVITY, activity));
}

static inline void stream_gpu_call(struct stream *s, uint64_t call, uint32_t tid, uint64_t at,
				   uint64_t duration, enum perfx_gpu_op op, uint32_t name)
{
	stream_plain(s, PERFX_KIND_GPU_CALL, struct perfx_gpu_call, .process = 1,
		     .time_ns = STREAM_START + at, .end_ns = STREAM_START + at + duration,
		     .call = call, .tid = tid, .op = (uint8_t)op, .name = name);
}

/* Nothing measured. */
static inline struct perfx_gpu_usage gpu_usage_absent(uint32_t device, uint64_t at)
{
	struct perfx_gpu_usage usage;

	memset(&usage, 0xff, sizeof(usage));
	usage.time_ns = STREAM_START + at;
	usage.device = device;
	usage.pad = 0;
	return usage;
}

/* The overhead budget reduces a function of all processes. */
static inline void stream_reduced(struct stream *s, uint32_t function, uint64_t at,
				  enum perfx_reduced_to to, bool loses_cost)
{
	stream_plain(s, PERFX_KIND_REDUCED, struct perfx_reduced, .time_ns = STREAM_START + at,
		     .function = function, .to = (uint8_t)to, .loses_cost = loses_cost);
}

static inline void stream_loss(struct stream *s, enum perfx_loss_kind loss, uint64_t count)
{
	stream_plain(s, PERFX_KIND_LOSS, struct perfx_loss, .loss = loss, .count = count);
}

static inline void stream_end(struct stream *s, uint64_t at, uint32_t flags)
{
	stream_plain(s, PERFX_KIND_END, struct perfx_end, .time_ns = STREAM_START + at,
		     .flags = flags, .tracer_cpu_ns = 120 * MS, .tracer_rss_anon_bytes = 9 << 20,
		     .tracer_rss_peak_bytes = 64 << 20);
}

/* As sink_replay does with a file. */
static inline int stream_replay(const struct stream *s, struct aggregate *aggregate)
{
	const char *data = text_peek(&s->bytes);
	size_t size = s->bytes.length, skip = 0;
	struct event event;

	while (size) {
		ssize_t used = decode_event(data, size, &event, &skip);
		int err = 0;

		if (used == -ENOTSUP) {
			aggregate__lose(aggregate, PERFX_LOSS_UNDECODED, 1);
			used = (ssize_t)skip;
		} else if (used < 0) {
			aggregate__lose(aggregate, PERFX_LOSS_TRUNCATED_BYTES, size);
			return 0;
		} else {
			err = aggregate__add(aggregate, &event);
		}
		if (err)
			return err;
		data += used;
		size -= (size_t)used;
	}
	return 0;
}

static inline void stream_clear(struct stream *s)
{
	text_clear(&s->bytes);
}

#endif
