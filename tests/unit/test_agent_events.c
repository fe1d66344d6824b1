// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/internal.h"

#include "base/hash.h"
#include "decode/decode.h"
#include "perfx_agent.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

/* What an agent's activities are summed up to, beyond the limit. */

static struct {
	struct sink sink;
	size_t sums_count, shaped_count, named_count;
	uint64_t count, total_ns, bytes;
} got;

static void take(struct sink *sink, const void *bytes, size_t size)
{
	struct event event;
	size_t skip;

	(void)sink;
	cr_assert_eq(decode_event(bytes, size, &event, &skip), (ssize_t)size);
	if (event.kind != PERFX_KIND_GPU_OVERFLOW)
		return;
	got.sums_count++;
	got.shaped_count += event.gpu_overflow.grid[0] != 0;
	got.named_count += event.gpu_overflow.name != 0;
	got.count += event.gpu_overflow.count;
	got.total_ns += event.gpu_overflow.total_ns;
	got.bytes += event.gpu_overflow.bytes;
}

static struct gpu_events all;
static struct agent_events events;

static void begin(void)
{
	got.sink.record = take;
	all = (struct gpu_events){.sink = &got.sink, .names = gpu_names__new(&got.sink)};
	agent_events_init(&events, &all, getpid(), 1);
}

static void end(void)
{
	agent_events_clear(&events);
	gpu_events_clear(&all);
	gpu_names__free(all.names);
}

TestSuite(agent_events, .init = begin, .fini = end);

static void name(uint32_t number)
{
	union agent_record record = {.name = {.name = number}};

	record.hdr.kind = PERFX_AGENT_NAME;
	snprintf(record.text, sizeof(record.text), "kernel %u", number);
	agent_events_add(&events, &record);
}

static void kernel(struct perfx_agent_activity activity)
{
	union agent_record record = {.activity = activity};

	record.hdr.kind = PERFX_AGENT_ACTIVITY;
	record.activity.op = PERFX_GPU_OP_KERNEL;
	record.activity.start_ns = 1000;
	record.activity.end_ns = 1010;
	record.activity.block[0] = 128;
	agent_events_add(&events, &record);
}

/* Two of equal FNV-1a hash. */
Test(agent_events, names_are_compared)
{
	static const char first[] = "8yn0iYCKYHlIj4-BwPqk", second[] = "GReLUrM4wMqfg9yzV3KQ";
	uint32_t name = gpu_names__id(all.names, first, "", 0);
	uint32_t other = gpu_names__id(all.names, second, "", 0);

	cr_assert_eq(fnv1a(first, sizeof(first)), fnv1a(second, sizeof(second)));
	cr_expect_neq(name, other);
	cr_expect_neq(name, gpu_names__id(all.names, first, "m", 0));
	cr_expect_eq(name, gpu_names__id(all.names, first, "", 0));
	cr_expect_eq(other, gpu_names__id(all.names, second, "", 0));
}

/* Each of what a sum is by makes another one. */
Test(agent_events, sums_are_by_name_stream_and_shape)
{
	static const struct perfx_agent_activity kinds[] = {
		{.name = 1, .stream = 7, .grid = {8, 1, 1}},
		{.name = 2, .stream = 7, .grid = {8, 1, 1}},
		{.name = 1, .stream = 8, .grid = {8, 1, 1}},
		{.name = 1, .stream = 7, .grid = {9, 1, 1}},
		{.name = 1, .stream = 7, .grid = {8, 1, 1}, .dynamic_shared_bytes = 4096},
		{.name = 1, .stream = 7, .grid = {8, 1, 1}, .device = 1},
	};

	name(1);
	name(2);
	for (size_t i = 0; i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++)
		kernel(kinds[i / 2]);
	gpu_events_emit_sums(&all);
	cr_expect_eq(got.sums_count, sizeof(kinds) / sizeof(kinds[0]));
	cr_expect_eq(got.count, 2 * got.sums_count);
	cr_expect_eq(got.total_ns, 10 * got.count);
	/* what has been sent is not sent again */
	gpu_events_emit_sums(&all);
	cr_expect_eq(got.count, 2 * sizeof(kinds) / sizeof(kinds[0]));
}

/* A process that never launches the same twice: memory is bounded, and nothing is lost. */
Test(agent_events, too_many_sums_lose_their_shapes_then_their_names)
{
	const uint32_t names_count = 20000, shapes_count = 60000;

	for (uint32_t i = 1; i <= names_count; i++)
		name(i);
	for (uint32_t i = 0; i < shapes_count; i++)
		kernel((struct perfx_agent_activity){.name = 1, .grid = {i + 1, 1, 1}});
	for (uint32_t i = 1; i <= names_count; i++)
		kernel((struct perfx_agent_activity){.name = i, .grid = {1, 1, 1}});
	gpu_events_emit_sums(&all);
	cr_expect_eq(got.count, shapes_count + names_count);
	cr_expect_eq(got.total_ns, 10 * got.count);
	cr_expect_leq(got.sums_count, 65537);
	cr_expect_eq(got.shaped_count, 49152);
	cr_expect_eq(got.named_count, got.sums_count - 1);
}
