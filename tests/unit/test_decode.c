// SPDX-License-Identifier: BSD-2-Clause
#include "decode/decode.h"
#include "golden_cases.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct perfx_record *pack_process(struct pack_buffer *buffer)
{
	struct perfx_process process = {.process = 3, .pid = 42};

	return PACK(buffer, PERFX_KIND_PROCESS, process, "comm",
		    "a\x1f"
		    "b");
}

Test(decode, fixed_part_and_strings)
{
	struct pack_buffer buffer;
	const struct perfx_record *record = pack_process(&buffer);
	struct event event;
	size_t skip;

	cr_assert_eq(decode_event(record, record->size, &event, &skip), record->size);
	cr_expect_eq(event.kind, PERFX_KIND_PROCESS);
	cr_expect_eq(event.process.process, 3);
	cr_expect_eq(event.process.pid, 42);
	cr_expect_str_eq(event.strings[0], "comm");
	cr_expect_str_eq(event.strings[1], "a\x1f"
					   "b");
}

/* What is not understood is a loss: a record of an unknown kind alone, bytes without a size all. */
Test(decode, next_is_an_event_or_a_loss)
{
	static const struct perfx_record unknown[] = {{8, 999, 8}, {0}, {0}};
	struct pack_buffer buffer;
	const struct perfx_record *record = pack_process(&buffer);
	struct event event;

	cr_expect_eq(decode_next(record, record->size, &event), record->size);
	cr_expect_eq(event.kind, PERFX_KIND_PROCESS);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq(decode_next(&unknown[i], 2 * sizeof(*unknown), &event),
			     (i + 1) * sizeof(*unknown));
		cr_expect_eq(event.kind, PERFX_KIND_LOSS);
		cr_expect_eq(event.loss.loss, PERFX_LOSS_UNDECODED);
		cr_expect_eq(event.loss.count, 1);
		cr_expect_eq(event.hdr.size, sizeof(event.loss));
	}
}

/* A later version's longer fixed part: what is known is taken, the strings are found behind it. */
Test(decode, a_kind_may_grow)
{
	struct {
		struct perfx_process process;
		__u64 later[3];
	} grown = {.process = {.pid = 42}, .later = {7, 8, 9}};
	struct pack_buffer buffer;
	const struct perfx_record *record =
		pack_record(&buffer, PERFX_KIND_PROCESS, &grown, sizeof(grown),
			    (const char *const[]){"comm", "line", "and a later string"}, 3);
	struct event event;
	size_t skip;

	cr_assert_eq(decode_event(record, record->size, &event, &skip), record->size);
	cr_expect_eq(event.process.pid, 42);
	cr_expect_str_eq(event.strings[0], "comm");
	cr_expect_str_eq(event.strings[1], "line");
}

Test(decode, a_cut_tail_is_not_an_error_of_the_record)
{
	struct pack_buffer buffer;
	const struct perfx_record *record = pack_process(&buffer);
	struct event event;
	size_t skip;

	for (size_t size = 0; size < record->size; size++) {
		/* at the end of its own allocation: a read beyond is found by ASan */
		char *cut = malloc(size + 1);

		memcpy(cut + 1, record, size);
		cr_expect_eq(decode_event(cut + 1, size, &event, &skip), -EAGAIN, "%zu", size);
		free(cut);
	}
}

static ssize_t decode_changed(void (*change)(struct perfx_record *record), size_t *skip)
{
	struct pack_buffer buffer;
	struct perfx_record *record;
	struct event event;

	pack_process(&buffer);
	record = (struct perfx_record *)buffer.bytes;
	change(record);
	*skip = 0;
	return decode_event(record, sizeof(buffer.bytes), &event, skip);
}

static void size_short(struct perfx_record *r)
{
	r->size = 4;
}

static void size_odd(struct perfx_record *r)
{
	r->size += 4;
}

static void size_huge(struct perfx_record *r)
{
	r->size = PERFX_RECORD_MAX + 8;
}

static void fixed_beyond_record(struct perfx_record *r)
{
	r->fixed = (__u16)(r->size + 8);
}

static void fixed_short(struct perfx_record *r)
{
	r->fixed = offsetof(struct perfx_process, merged) - 8;
}

static void kind_unknown(struct perfx_record *r)
{
	r->kind = 999;
}

static void kind_invalid(struct perfx_record *r)
{
	r->kind = PERFX_KIND_INVALID;
}

static void no_terminator(struct perfx_record *r)
{
	memset((char *)r + r->fixed, 'x', r->size - r->fixed);
}

Test(decode, damage_ends_it_and_what_is_unknown_is_skipped)
{
	static const struct {
		void (*change)(struct perfx_record *record);
		int err;
	} rows[] = {
		{size_short, -EBADMSG},	  {size_odd, -EBADMSG},
		{size_huge, -EBADMSG},	  {fixed_beyond_record, -EBADMSG},
		{fixed_short, -ENOTSUP},  {kind_unknown, -ENOTSUP},
		{kind_invalid, -ENOTSUP}, {no_terminator, -ENOTSUP},
	};
	struct pack_buffer buffer;
	size_t whole = pack_process(&buffer)->size, skip;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_expect_eq(decode_changed(rows[i].change, &skip), rows[i].err, "row %zu", i);
		if (rows[i].err == -ENOTSUP)
			cr_expect_eq(skip, whole, "row %zu", i);
	}
}

#define REFUSED(kind, type, ...)                                                           \
	do {                                                                               \
		struct pack_buffer buffer;                                                 \
		struct event event;                                                        \
		size_t skip;                                                               \
		const struct perfx_record *record =                                        \
			PACK(&buffer, kind, ((type){__VA_ARGS__}), "", "", "");            \
                                                                                           \
		cr_expect_eq(decode_event(record, record->size, &event, &skip), -ENOTSUP); \
	} while (0)

/* Values that later code indexes by. */
Test(decode, enums_out_of_range_are_refused)
{
	REFUSED(PERFX_KIND_FUNCTION, struct perfx_function, .source = 0);
	REFUSED(PERFX_KIND_FUNCTION, struct perfx_function, .source = 99);
	REFUSED(PERFX_KIND_PROBE, struct perfx_probe_record, .link = 9, .site = 1);
	REFUSED(PERFX_KIND_PROBE, struct perfx_probe_record, .link = 1, .site = 9);
	REFUSED(PERFX_KIND_PROBE, struct perfx_probe_record, .link = 1, .site = 1, .ret = 9);
	REFUSED(PERFX_KIND_LOSS, struct perfx_loss, .loss = PERFX_LOSS_KINDS);
	REFUSED(PERFX_KIND_SPAN, struct perfx_span, .duration_ns = 5, .self_ns = 6);
	REFUSED(PERFX_KIND_SPAN, struct perfx_span, .cost_state = PERFX_COST_STATES);
	REFUSED(PERFX_KIND_SPAN, struct perfx_span, .dtype = PERFX_DTYPES);
	REFUSED(PERFX_KIND_PEAK, struct perfx_peak, .dtype = PERFX_DTYPES);
	REFUSED(PERFX_KIND_PERF_COUNTER, struct perfx_perf_counter, .counter = PERFX_PERF_COUNTERS);
	REFUSED(PERFX_KIND_PERF_COUNTER, struct perfx_perf_counter,
		.kind = PERFX_PERF_COUNTER_MISSING + 1);
	REFUSED(PERFX_KIND_PEAK, struct perfx_peak, .origin = PERFX_PEAK_ESTIMATED + 1);
	REFUSED(PERFX_KIND_CALIBRATION, struct perfx_calibration, .site = 77);
	REFUSED(PERFX_KIND_ALLOCATION, struct perfx_allocation, .domain = 0);
	REFUSED(PERFX_KIND_ALLOCATION, struct perfx_allocation, .domain = PERFX_DOMAINS);
	REFUSED(PERFX_KIND_FREE, struct perfx_free, .domain = 0);
	REFUSED(PERFX_KIND_FREE, struct perfx_free, .domain = 255);
	REFUSED(PERFX_KIND_ALLOCATOR, struct perfx_allocator, .domain = PERFX_DOMAINS);
	REFUSED(PERFX_KIND_OVERFLOW_MEMORY, struct perfx_overflow_memory, .domain = PERFX_DOMAINS);
	REFUSED(PERFX_KIND_SAMPLE, struct perfx_sample, .state = PERFX_SAMPLE_INVALID);
	REFUSED(PERFX_KIND_SAMPLE, struct perfx_sample, .state = PERFX_SAMPLE_RUNNABLE + 1);
	REFUSED(PERFX_KIND_SAMPLE, struct perfx_sample, .state = PERFX_SAMPLE_WAITING,
		.reason = PERFX_WAIT_REASONS);
	REFUSED(PERFX_KIND_BLOCKED, struct perfx_blocked, .reason = PERFX_WAIT_NONE);
	REFUSED(PERFX_KIND_BLOCKED, struct perfx_blocked, .reason = PERFX_WAIT_REASONS);
	REFUSED(PERFX_KIND_WAIT_OBJECT, struct perfx_wait_object, .reason = PERFX_WAIT_NONE);
	REFUSED(PERFX_KIND_WAIT_OBJECT, struct perfx_wait_object, .reason = PERFX_WAIT_READ,
		.kind = PERFX_OBJECT_KINDS);
	REFUSED(PERFX_KIND_FRAME, struct perfx_frame, .language = PERFX_LANGUAGE_PYTHON + 1);
	REFUSED(PERFX_KIND_SAMPLING, struct perfx_sampling, .stacks = PERFX_STACKS_UNWIND + 1);
	REFUSED(PERFX_KIND_SPAN, struct perfx_span, .duration_ns = 5, .off_cpu_ns = 6);
	REFUSED(PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode, .domain = PERFX_DOMAINS);
	REFUSED(PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode, .domain = 1,
		.level = PERFX_MEMORY_FREES_INFERRED + 1);
	REFUSED(PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode, .domain = 1, .on_ns = 2,
		.period_ns = 1);
	REFUSED(PERFX_KIND_GPU_ACTIVITY, struct perfx_gpu_activity, .op = 0);
	REFUSED(PERFX_KIND_GPU_ACTIVITY, struct perfx_gpu_activity, .op = PERFX_GPU_OPS);
	REFUSED(PERFX_KIND_GPU_ACTIVITY, struct perfx_gpu_activity, .op = PERFX_GPU_OP_COPY,
		.direction = PERFX_GPU_DIRECTIONS);
	REFUSED(PERFX_KIND_GPU_ACTIVITY, struct perfx_gpu_activity, .op = PERFX_GPU_OP_COPY,
		.host_memory = PERFX_GPU_HOST_MEMORIES);
	REFUSED(PERFX_KIND_GPU_ACTIVITY, struct perfx_gpu_activity, .op = PERFX_GPU_OP_KERNEL,
		.device = PERFX_GPU_DEVICES_MAX);
	REFUSED(PERFX_KIND_GPU_ACTIVITY, struct perfx_gpu_activity, .op = PERFX_GPU_OP_KERNEL,
		.time_ns = 2, .end_ns = 1);
	REFUSED(PERFX_KIND_GPU_CALL, struct perfx_gpu_call, .op = PERFX_GPU_OPS);
	REFUSED(PERFX_KIND_HOST_ENERGY, struct perfx_host_energy,
		.domain = PERFX_ENERGY_DOMAINS_MAX);
	REFUSED(PERFX_KIND_GPU_CALL, struct perfx_gpu_call, .op = PERFX_GPU_OP_SYNC, .time_ns = 2,
		.end_ns = 1);
	REFUSED(PERFX_KIND_GPU_LAUNCHES, struct perfx_gpu_launches, .op = PERFX_GPU_OP_COPY);
	REFUSED(PERFX_KIND_GPU_COPIES, struct perfx_gpu_copies, .op = PERFX_GPU_OP_KERNEL);
	REFUSED(PERFX_KIND_GPU_COPIES, struct perfx_gpu_copies, .op = PERFX_GPU_OP_COPY,
		.direction = PERFX_GPU_DIRECTIONS);
	REFUSED(PERFX_KIND_GPU_DEVICE, struct perfx_gpu_device, .device = PERFX_GPU_DEVICES_MAX);
	REFUSED(PERFX_KIND_GPU_USAGE, struct perfx_gpu_usage, .device = PERFX_GPU_DEVICES_MAX);
	REFUSED(PERFX_KIND_GPU_MEMORY, struct perfx_gpu_memory, .device = PERFX_GPU_DEVICES_MAX);
	REFUSED(PERFX_KIND_GPU_STATE, struct perfx_gpu_state, .state = PERFX_GPU_AGENT_INVALID);
	REFUSED(PERFX_KIND_GPU_STATE, struct perfx_gpu_state, .state = PERFX_GPU_AGENT_FAILED + 1);
	REFUSED(PERFX_KIND_GPU_OVERFLOW, struct perfx_gpu_overflow, .op = 0);
	REFUSED(PERFX_KIND_GPU_OVERFLOW, struct perfx_gpu_overflow, .op = PERFX_GPU_OP_KERNEL,
		.device = PERFX_GPU_DEVICES_MAX);
}

/* A STACK record of three frames, of which what follows the fixed part is `room` bytes. */
static ssize_t decode_stack(uint32_t frames_count, size_t room, struct event *event,
			    unsigned char **bytes)
{
	struct perfx_stack stack = {.hdr = {.size = (__u32)(sizeof(stack) + room),
					    .kind = PERFX_KIND_STACK,
					    .fixed = sizeof(stack)},
				    .stack = 5,
				    .process = 1,
				    .frames_count = frames_count};
	size_t skip;

	/* one byte off any alignment, and nothing behind it */
	*bytes = malloc(1 + stack.hdr.size);
	memcpy(*bytes + 1, &stack, sizeof(stack));
	for (uint64_t i = 0; i < room / sizeof(i); i++) {
		uint64_t address = 0x7f0000000000 + i;

		memcpy(*bytes + 1 + sizeof(stack) + i * sizeof(i), &address, sizeof(address));
	}
	return decode_event(*bytes + 1, stack.hdr.size, event, &skip);
}

Test(decode, a_stack_has_all_its_addresses)
{
	struct event event;
	unsigned char *bytes;

	cr_assert_gt(decode_stack(3, 24, &event, &bytes), 0);
	cr_expect_eq(event.stack.stack, 5);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(stack_address(&event, i), 0x7f0000000000 + i);
	free(bytes);
	/* more bytes than addresses: a later version's */
	cr_expect_gt(decode_stack(2, 24, &event, &bytes), 0);
	free(bytes);
	cr_expect_gt(decode_stack(0, 0, &event, &bytes), 0);
	free(bytes);
	cr_expect_gt(decode_stack(PERFX_STACK_FRAMES_MAX, 8L * PERFX_STACK_FRAMES_MAX, &event,
				  &bytes),
		     0);
	free(bytes);
}

Test(decode, a_stack_that_claims_more_than_it_has)
{
	static const struct {
		uint32_t frames;
		size_t room;
	} rows[] = {
		{4, 24},
		{1, 0},
		{UINT32_MAX, 24},
		{1u << 29, 24},
		{PERFX_STACK_FRAMES_MAX + 1, 8L * (PERFX_STACK_FRAMES_MAX + 1)},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct event event;
		unsigned char *bytes;

		cr_expect_eq(decode_stack(rows[i].frames, rows[i].room, &event, &bytes), -ENOTSUP,
			     "row %zu", i);
		free(bytes);
	}
}

Test(decode, memory_records_as_they_were_written)
{
	struct perfx_frame frame = {.address = 0x55, .line = 12, .depth = 3};
	struct pack_buffer buffer;
	const struct perfx_record *record =
		PACK(&buffer, PERFX_KIND_FRAME, frame, "f", "/lib/a.so", "a.c");
	struct event event;
	size_t skip;

	cr_assert_eq(decode_event(record, record->size, &event, &skip), record->size);
	cr_expect_eq(event.frame.address, 0x55);
	cr_expect_eq(event.frame.depth, 3);
	cr_expect_str_eq(event.strings[2], "a.c");
	/* two strings where three belong */
	record = PACK(&buffer, PERFX_KIND_FRAME, frame, "12345678", "1234567");
	((struct perfx_record *)buffer.bytes)->size = sizeof(frame) + 16;
	cr_expect_eq(decode_event(record, record->size, &event, &skip), -ENOTSUP);
}

/* Of a kind that has grown since, what a record lacks is 0, not what lay there before. */
static void check_short(enum perfx_kind kind, const void *record, size_t least, size_t whole,
			struct event *event)
{
	struct pack_buffer buffer;
	const struct perfx_record *packed;
	size_t skip;

	for (size_t size = least; size <= whole; size += 8) {
		packed = pack_record(&buffer, kind, record, size, NULL, 0);
		memset(event, 0xaa, sizeof(*event));
		cr_assert_eq(decode_event(packed, packed->size, event, &skip), (ssize_t)size);
		for (size_t at = size; at < whole; at++)
			cr_assert_eq(((char *)&event->hdr)[at], 0, "%zu of %zu", at, size);
	}
	packed = pack_record(&buffer, kind, record, least - 8, NULL, 0);
	cr_expect_eq(decode_event(packed, packed->size, event, &skip), -ENOTSUP);
}

Test(decode, spans_without_a_cost)
{
	const struct perfx_span span = {.duration_ns = 9,
					.cost_state = PERFX_COST_UNREAD,
					.flops = 0x7777777777777777,
					.bytes = 0x7777777777777777};
	struct event event;

	check_short(PERFX_KIND_SPAN, &span, PERFX_SPAN_PLAIN_BYTES, sizeof(span), &event);
	cr_expect_eq(event.span.duration_ns, 9);
	cr_expect_eq(event.span.cost_state, PERFX_COST_UNREAD);
}

Test(decode, contexts_of_before_callers_were_known)
{
	const struct perfx_context context = {
		.context = 3, .parent = 2, .caller = UINT64_MAX, .stack = 7};
	struct event event;

	check_short(PERFX_KIND_CONTEXT, &context, offsetof(struct perfx_context, caller),
		    sizeof(context), &event);
	cr_expect_eq(event.context.parent, 2);
}

Test(decode, a_python_frame_has_its_code_and_instruction)
{
	const uint64_t frame = python_frame(0x7f12345678a0, 77);

	cr_expect(frame & PERFX_FRAME_PYTHON);
	cr_expect_eq(PERFX_FRAME_CODE(frame), 0x7f12345678a0);
	cr_expect_eq(PERFX_FRAME_INSTRUCTION(frame), 77);
}

Test(decode, overflow_of_before_there_were_costs)
{
	struct perfx_overflow_calls book = {.context = 3, .calls_count = 4, .self_ns = 5};
	struct event event;

	memset(&book.flops, 0x77, sizeof(book) - offsetof(struct perfx_overflow_calls, flops));
	check_short(PERFX_KIND_OVERFLOW_CALLS, &book, offsetof(struct perfx_overflow_calls, flops),
		    sizeof(book), &event);
	cr_expect_eq(event.overflow_calls.self_ns, 5);
}

Test(decode, time_and_ids_of_any_record)
{
	const struct perfx_span span = {.hdr = {sizeof(span), PERFX_KIND_SPAN, sizeof(span)},
					.start_ns = 5,
					.duration_ns = 7,
					.process = 2,
					.context = 9};
	const struct perfx_gpu_usage usage = {.hdr = {sizeof(usage), PERFX_KIND_GPU_USAGE,
						      sizeof(usage)},
					      .time_ns = 11,
					      .device = 3};
	const struct perfx_stack stack = {.hdr = {sizeof(stack), PERFX_KIND_STACK, sizeof(stack)},
					  .process = 4};

	cr_expect_eq(record_time_ns(&span.hdr), 12);
	cr_expect_eq(record_id(&span.hdr, ID_PROCESS), 2);
	cr_expect_eq(record_id(&span.hdr, ID_CONTEXT), 9);
	cr_expect_eq(record_time_ns(&usage.hdr), 11);
	cr_expect_eq(record_id(&usage.hdr, ID_PROCESS), 0);
	cr_expect_eq(record_id(&usage.hdr, ID_GPU_DEVICE), 3);
	cr_expect_eq(record_time_ns(&stack.hdr), 0);
	cr_expect_eq(record_id(&stack.hdr, ID_PROCESS), 4);
}

/* Any bytes: decode says what it takes, and that is within what there is. */
Test(decode, garbage)
{
	srand(3);
	for (int i = 0; i < 100000; i++) {
		size_t size = (size_t)rand() % 256, skip = 0;
		unsigned char *bytes = malloc(size + 1);
		struct event event;
		ssize_t used;

		for (size_t j = 0; j < size; j++)
			bytes[j] = (unsigned char)rand();
		/* often enough plausible, so that more than the first check is reached */
		if (size >= 8 && i % 4) {
			bytes[0] = (unsigned char)(rand() % 32 * 8);
			bytes[1] = bytes[2] = bytes[3] = 0;
			bytes[4] = (unsigned char)(rand() % 80);
			bytes[5] = bytes[7] = 0;
		}
		used = decode_event(bytes, size, &event, &skip);
		cr_assert(used == -EAGAIN || used == -EBADMSG || used == -ENOTSUP ||
			  (used > 0 && (size_t)used <= size));
		if (used == -ENOTSUP)
			cr_assert(skip >= sizeof(struct perfx_record) && skip <= size);
		free(bytes);
	}
}
