// SPDX-License-Identifier: BSD-2-Clause
#include "record/totals.h"

#include "base/clock.h"
#include "stream/pack.h"
#include "target/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

static void send(struct sink *sink, const struct perfx_record *packed)
{
	sink_record(sink, packed, packed->size);
}

static void read_boot_id(char *text, size_t size)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	text[0] = '\0';
	if (!file)
		return;
	if (!fgets(text, (int)size, file))
		text[0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

void totals_host(struct sink *sink, const struct recorder_options *options, uint64_t start_ns)
{
	struct perfx_host record = {
		.start_ns = start_ns,
		.start_unix_ns = clock_ns(CLOCK_REALTIME) - (clock_monotonic_ns() - start_ns),
		.start_boot_ns = clock_monotonic_to_boot(start_ns),
		.cpus_count = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
		.memory_mib = (uint32_t)((uint64_t)sysconf(_SC_PHYS_PAGES) *
						 (uint64_t)sysconf(_SC_PAGESIZE) >>
					 20),
		.ring_bytes = (uint32_t)options->ring_bytes,
		.flags = options->compensate ? PERFX_HOST_COMPENSATED : 0,
	};
	struct pack_buffer *buffer = malloc(sizeof(*buffer));
	struct utsname names;
	char boot_id[64];

	if (!buffer)
		return;
	uname(&names);
	read_boot_id(boot_id, sizeof(boot_id));
	send(sink, PACK(buffer, PERFX_KIND_HOST, record, names.nodename, names.release, boot_id,
			options->command, PERFX_VERSION));
	free(buffer);
}

/* Nodes with calls that found no room in the ring. */
static void send_books(struct sink *sink, struct pack_buffer *buffer, const struct tracer *tracer)
{
	uint32_t count;
	const struct perfx_context_node *nodes = tracer__contexts(tracer, &count);

	for (uint32_t id = 1; id < count; id++) {
		struct perfx_book record = {
			.context = id,
			.calls_count = nodes[id].calls_count,
			.unwound_count = nodes[id].unwound_count,
			.untimed_count = nodes[id].untimed_count,
			.total_ns = nodes[id].total_ns,
			.self_ns = nodes[id].self_ns,
			.flops = nodes[id].flops,
			.bytes = nodes[id].bytes,
			.counted_count = nodes[id].counted_count,
			.unread_count = nodes[id].unread_count,
			.silenced_count = nodes[id].silenced_count,
			.opaque_count = nodes[id].opaque_count,
			.bus_bytes = nodes[id].bus_bytes,
			.bus_moved_bytes = nodes[id].bus_moved_bytes,
		};

		if (record.calls_count)
			send(sink, PACK(buffer, PERFX_KIND_BOOK, record));
	}
}

static void send_refusals(struct sink *sink, struct pack_buffer *buffer, const struct plan *plan)
{
	for (size_t i = 0; i < plan->refusals_count; i++) {
		const struct plan_refusal *refusal = &plan->refusals[i];
		struct perfx_not_attached record = {.count = refusal->count};

		send(sink,
		     PACK(buffer, PERFX_KIND_NOT_ATTACHED, record, refusal->name, refusal->reason));
	}
	for (size_t i = 0; i < plan->options.patterns_count; i++) {
		struct perfx_not_attached record = {.count = 1};

		if (plan__waits(plan, i))
			send(sink, PACK(buffer, PERFX_KIND_NOT_ATTACHED, record,
					pattern__text(plan->options.patterns[i]),
					"no file of that name was mapped"));
	}
}

struct lost_values {
	struct sink *sink;
	struct pack_buffer *buffer;
};

static void send_lost_value(void *ctx, const struct perfx_value_key *key,
			    const struct perfx_value_lost *lost)
{
	const struct lost_values *values = ctx;
	struct perfx_value_book record = {
		.process = key->process,
		.value = key->value,
		.sets_count = lost->sets_count,
		.adds_count = lost->adds_count,
		.sum = lost->sum,
		.unsummed_count = lost->unsummed_count,
		.last_bits = lost->last_bits,
		.last_ns = lost->last_ns,
	};

	send(values->sink, PACK(values->buffer, PERFX_KIND_VALUE_BOOK, record));
}

/* What only the end knows of the recording as a whole. */
struct counts {
	uint64_t entries, spans, detached;
};

/* The hot path counts hits and nothing else: calls begun are the hits of entries, calls ended have
 * a record, or a place in the book. */
static void send_losses(struct sink *sink, struct pack_buffer *buffer, const struct tracer *tracer,
			const struct counts *counts)
{
	uint64_t begun = counts->entries - tracer__counter(tracer, PERFX_COUNTER_REPEATS);
	uint64_t ended = counts->spans + tracer__counter(tracer, PERFX_COUNTER_RING_DROPS);
	const struct {
		enum perfx_loss_kind loss;
		uint64_t count;
	} losses[] = {
		{PERFX_LOSS_RING_DROPS, tracer__counter(tracer, PERFX_COUNTER_RING_DROPS)},
		{PERFX_LOSS_MAP_FULL, tracer__counter(tracer, PERFX_COUNTER_MAP_FULL)},
		{PERFX_LOSS_UNMATCHED_ENTRIES, begun > ended ? begun - ended : 0},
		{PERFX_LOSS_UNMATCHED_RETURNS,
		 tracer__counter(tracer, PERFX_COUNTER_UNMATCHED_RETURNS)},
		{PERFX_LOSS_READ_FAULTS, tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS)},
		{PERFX_LOSS_UNTIMED_CALLS, tracer__counter(tracer, PERFX_COUNTER_UNTIMED)},
		{PERFX_LOSS_DETACHED_PROBES, counts->detached},
		{PERFX_LOSS_NMISSED, tracer__missed(tracer)},
		{PERFX_LOSS_CONTROL_DROPS, tracer__counter(tracer, PERFX_COUNTER_CONTROL_DROPS)},
		{PERFX_LOSS_STACK_FAILURES, tracer__counter(tracer, PERFX_COUNTER_STACK_FAILURES)},
		{PERFX_LOSS_MEMORY_DROPS, tracer__counter(tracer, PERFX_COUNTER_MEMORY_DROPS)},
		{PERFX_LOSS_VALUE_DROPS, tracer__counter(tracer, PERFX_COUNTER_VALUE_DROPS)},
		{PERFX_LOSS_FOREIGN_HITS, tracer__counter(tracer, PERFX_COUNTER_FOREIGN_HITS)},
	};

	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		struct perfx_loss record = {.loss = losses[i].loss, .count = losses[i].count};

		send(sink, PACK(buffer, PERFX_KIND_LOSS, record));
	}
}

static void send_end(struct sink *sink, struct pack_buffer *buffer, const struct totals *totals)
{
	struct perfx_end record = {.time_ns = totals->end_ns,
				   .end_unix_ns = clock_ns(CLOCK_REALTIME) -
						  (clock_monotonic_ns() - totals->end_ns),
				   .end_boot_ns = clock_monotonic_to_boot(totals->end_ns),
				   .flags = (totals->killed ? PERFX_END_TARGET_KILLED : 0) |
					    (totals->exited ? PERFX_END_TARGET_EXITED : 0) |
					    (totals->interrupted ? PERFX_END_INTERRUPTED : 0)};
	struct process_usage usage;

	/* finer than /proc's ticks */
	record.tracer_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	record.tracer_rss_anon_bytes =
		process_usage(getpid(), &usage) ? UINT64_MAX : usage.rss_anon_bytes;
	send(sink, PACK(buffer, PERFX_KIND_END, record));
}

void totals_end(struct sink *sink, struct tracer *tracer, const struct plan *plan,
		struct probes *probes, const struct totals *totals)
{
	struct pack_buffer *buffer = malloc(sizeof(*buffer));
	struct counts counts = {.spans = totals->spans_count,
				.detached = probes__detached_count(probes)};

	if (!buffer)
		return;
	send_books(sink, buffer, tracer);
	tracer__each_value_lost(tracer, send_lost_value, &(struct lost_values){sink, buffer});
	counts.entries = probes__report_hits(probes);
	probes__refuse_nameless(probes);
	send_refusals(sink, buffer, plan);
	send_losses(sink, buffer, tracer, &counts);
	send_end(sink, buffer, totals);
	free(buffer);
}
