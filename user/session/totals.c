// SPDX-License-Identifier: BSD-2-Clause
#include "session/recording.h"

#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/sampler.h"
#include "attach/thread_counters.h"
#include "attach/tracer.h"
#include "base/clock.h"
#include "base/emitted.h"
#include "base/message.h"
#include "decode/decode.h"
#include "decode/pack.h"
#include "gpu/agents.h"
#include "peaks/peaks.h"
#include "proc/process.h"
#include "session/follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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
	char *boot_id = NULL;

	if (!buffer)
		return;
	uname(&names);
	if (proc_read("/proc/sys/kernel/random/boot_id", &boot_id, 0) > 0)
		boot_id[strcspn(boot_id, "\n")] = '\0';
	SINK_PACK(sink, buffer, PERFX_KIND_HOST, record, names.nodename, names.release, boot_id,
		  options->command, PERFX_VERSION);
	free(boot_id);
	free(buffer);
}

/* In these records: from calls_count to the end. */
#define OVERFLOW_CALLS_SUMS                                     \
	((sizeof(struct perfx_overflow_calls) -                 \
	  offsetof(struct perfx_overflow_calls, calls_count)) / \
	 sizeof(uint64_t))

struct totals {
	struct recording *recording;
	struct emitted calls_emitted;		  /* by context, in OVERFLOW_CALLS records */
	struct emitted sums_emitted[PERFX_KINDS]; /* by the keys of their maps */
	struct emitted losses_emitted;		  /* by kind */
	uint64_t overflow_count, entries_count;
	bool overflowed_lately;
	struct pack_buffer buffer;
};

static void send_overflow(struct totals *totals, uint32_t id, const struct perfx_context_node *node)
{
	struct perfx_overflow_calls overflow = {
		.context = id,
		.calls_count = node->calls_count,
		.unwound_count = node->unwound_count,
		.untimed_count = node->untimed_count,
		.total_ns = node->total_ns,
		.self_ns = node->self_ns,
		.flops = node->flops,
		.bytes = node->bytes,
		.counted_count = node->counted_count,
		.unread_count = node->unread_count,
		.nested_count = node->nested_count,
		.opaque_count = node->opaque_count,
		.bus_bytes = node->bus_bytes,
		.bus_moved_bytes = node->bus_moved_bytes,
		.off_cpu_ns = node->off_cpu_ns,
	};
	uint64_t rest;

	emitted_subtract(&totals->calls_emitted, id, &overflow.calls_count);
	/* The kernel writes while this reads. Calls that are counted as unwound, but not as calls
	 * yet, come the next time. */
	if (!overflow.calls_count ||
	    __builtin_sub_overflow(overflow.calls_count, overflow.unwound_count, &rest) ||
	    rest < overflow.untimed_count ||
	    emitted_add(&totals->calls_emitted, id, &overflow.calls_count))
		return;
	SINK_PACK(totals->recording->sink, &totals->buffer, PERFX_KIND_OVERFLOW_CALLS, overflow);
}

/* Nodes with calls that found no room in the ring, or whose thread has no state. */
static void send_overflows(struct totals *totals)
{
	struct recording *recording = totals->recording;
	uint64_t overflowed = tracer__counter(recording->tracer, PERFX_COUNTER_RING_DROPS) +
			      tracer__counter(recording->tracer, PERFX_COUNTER_STATELESS_CALLS);
	uint32_t count;
	const struct perfx_context_node *nodes = tracer__contexts(recording->tracer, &count);

	/* nearly always none; once more after some, because a node's sums may come after the
	 * counter */
	if (overflowed == totals->overflow_count && !totals->overflowed_lately)
		return;
	totals->overflowed_lately = overflowed != totals->overflow_count;
	totals->overflow_count = overflowed;
	for (uint32_t id = 1; id < count; id++)
		if (nodes[id].calls_count)
			send_overflow(totals, id, &nodes[id]);
}

static void send_sums(void *ctx, struct perfx_sums *record)
{
	struct totals *totals = ctx;
	struct emitted *emitted = &totals->sums_emitted[record->hdr.kind];
	uint64_t id = (uint64_t)record->key.process << 32 | record->key.id;

	emitted->width = record_sums(record->hdr.kind);
	if (emitted_advance(emitted, id, record->sums) > 0)
		sink_packed(totals->recording->sink, &record->hdr);
}

static void send_loss(struct sink *sink, struct pack_buffer *buffer, enum perfx_loss_kind loss,
		      uint64_t count)
{
	struct perfx_loss record = {.loss = loss, .count = count};

	SINK_PACK(sink, buffer, PERFX_KIND_LOSS, record);
}

static void send_losses(struct totals *totals)
{
	const struct tracer *tracer = totals->recording->tracer;
	uint64_t now[PERFX_LOSS_KINDS] = {
#define KERNEL(kind) [PERFX_LOSS_##kind] = tracer__counter(tracer, PERFX_COUNTER_##kind),
#define TRACER(kind)
#define COUNT(kind, name, by, meaning) by(kind)
		PERFX_LOSSES(COUNT)
#undef KERNEL
#undef TRACER
#undef COUNT
	};
	now[PERFX_LOSS_NMISSED] = tracer__missed(tracer);
	now[PERFX_LOSS_PROCESSES_MISSED] = follow__result(totals->recording->follow)->missed_count;
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		if (emitted_advance(&totals->losses_emitted, (uint64_t)i, &now[i]) > 0)
			send_loss(totals->recording->sink, &totals->buffer, i, now[i]);
}

void totals__emit(struct totals *totals, uint64_t now_ns, bool last)
{
	thread_counters__report(totals->recording->thread_counters, totals->recording->tracer,
				totals->recording->sink);
	memory__report(totals->recording->memory);
	sampler__report(totals->recording->sampler);
	operations__report(totals->recording->operations, last);
	waits__emit(totals->recording->waits, now_ns, last);
	gpu_work__emit(totals->recording->gpu_work);
	agents__emit_sums(gpu_agents__agents(totals->recording->gpu_agents));
	send_overflows(totals);
	tracer__each_sums(totals->recording->tracer, send_sums, totals);
	totals->entries_count = probes__report_hits(totals->recording->probes);
	send_losses(totals);
}

static bool is_of_gone(const void *gone, uint64_t key)
{
	uint64_t process = key >> 32;

	return process <= PERFX_MAX_PROCESS_INDICES && ((const bool *)gone)[process];
}

void totals__forget(struct totals *totals, const bool gone[])
{
	for (size_t kind = 0; kind < PERFX_KINDS; kind++)
		emitted_forget(&totals->sums_emitted[kind], is_of_gone, gone);
}

void totals__segment(struct totals *totals, uint64_t time_ns)
{
	struct perfx_segment record = {.time_ns = time_ns};

	SINK_PACK(totals->recording->sink, &totals->buffer, PERFX_KIND_SEGMENT, record);
}

static void send_skipped(struct sink *sink, struct pack_buffer *buffer,
			 const struct skipped_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct skipped *skipped = &list->items[i];
		struct perfx_not_attached record = {.count = skipped->count,
						    .flags = skipped->flags};

		sink_packed(sink, PACK(buffer, PERFX_KIND_NOT_ATTACHED, record, skipped->name,
				       skipped->reason));
	}
}

static void send_end(struct sink *sink, struct pack_buffer *buffer, const struct ending *ending)
{
	struct perfx_end record = {.time_ns = ending->end_ns,
				   .end_unix_ns = clock_ns(CLOCK_REALTIME) -
						  (clock_monotonic_ns() - ending->end_ns),
				   .end_boot_ns = clock_monotonic_to_boot(ending->end_ns),
				   .flags = (ending->killed ? PERFX_END_TARGET_KILLED : 0) |
					    (ending->exited ? PERFX_END_TARGET_EXITED : 0) |
					    (ending->interrupted ? PERFX_END_INTERRUPTED : 0) |
					    (ending->dump ? PERFX_END_DUMP : 0),
				   .maps_read_count = ending->maps_read_count,
				   .recording_cpu_ns = ending->recording_cpu_ns,
				   .untraced_read_count = ending->untraced_read_count};
	struct process_usage usage;

	/* finer than /proc's ticks */
	record.tracer_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (process_usage(getpid(), &usage)) {
		record.tracer_rss_anon_bytes = UINT64_MAX;
	} else {
		record.tracer_rss_anon_bytes = usage.rss_anon_bytes;
		record.tracer_rss_peak_bytes = usage.rss_peak_bytes;
	}
	SINK_PACK(sink, buffer, PERFX_KIND_END, record);
}

void totals_of_nothing(struct sink *sink, const struct recorder_options *options)
{
	const struct ending ending = {.end_ns = clock_monotonic_ns(), .exited = true};
	struct pack_buffer buffer;

	totals_host(sink, options, ending.end_ns);
	send_end(sink, &buffer, &ending);
}

void totals__close(struct totals *totals, struct sink *closing, const struct ending *ending)
{
	const struct plan *plan = totals->recording->plan;
	struct perfx_not_attached waiting = {.count = 1};
	/* calls that have not ended: hits of entries, minus records and overflow sums */
	uint64_t begun = totals->entries_count -
			 tracer__counter(totals->recording->tracer, PERFX_COUNTER_REPEATS);
	uint64_t ended = ending->spans_count +
			 tracer__counter(totals->recording->tracer, PERFX_COUNTER_RING_DROPS);

	probes__skip_nameless(totals->recording->probes);
	probes__skip_failed(totals->recording->probes);
	send_skipped(closing, &totals->buffer, &plan->skipped);
	send_skipped(closing, &totals->buffer, &totals->recording->skipped);
	for (size_t i = 0; i < plan->options.patterns_count; i++)
		if (plan__waits(plan, i))
			SINK_PACK(closing, &totals->buffer, PERFX_KIND_NOT_ATTACHED, waiting,
				  pattern__text(plan->options.patterns[i]),
				  "no file of that name was mapped");
	if (!ending->goes_on)
		send_loss(closing, &totals->buffer, PERFX_LOSS_UNMATCHED_ENTRIES,
			  begun > ended ? begun - ended : 0);
	send_loss(closing, &totals->buffer, PERFX_LOSS_DETACHED_PROBES,
		  probes__detached_count(totals->recording->probes));
	send_end(closing, &totals->buffer, ending);
}

static int open_totals(struct recording *recording)
{
	struct totals *totals = calloc(1, sizeof(*totals));

	if (!totals)
		return -ENOMEM;
	totals->recording = recording;
	totals->calls_emitted.width = OVERFLOW_CALLS_SUMS;
	totals->losses_emitted.width = 1;
	recording->totals = totals;
	return 0;
}

static void end_totals(struct recording *recording)
{
	totals__emit(recording->totals, recording->ended_ns, true);
	gpu_work__name(recording->gpu_work);
}

static void close_totals(struct recording *recording)
{
	struct totals *totals = recording->totals;

	if (!totals)
		return;
	emitted_clear(&totals->calls_emitted);
	for (size_t i = 0; i < PERFX_KINDS; i++)
		emitted_clear(&totals->sums_emitted[i]);
	emitted_clear(&totals->losses_emitted);
	free(totals);
}

const struct recording_part totals_part = {
	.name = "sums", .open = open_totals, .end = end_totals, .close = close_totals};

/*
 * The host's peak performance, as PEAK records (host_peaks_emit() in recording.h).
 */

static void emit_peak(struct sink *sink, struct perfx_peak record)
{
	struct pack_buffer buffer;

	if (!record.flops_per_s && !record.bytes_per_s)
		return;
	SINK_PACK(sink, &buffer, PERFX_KIND_PEAK, record);
}

/* A rate of all CPUs that the user has given replaces the measured one. */
static void emit_peaks(struct sink *sink, const struct peaks *peaks,
		       const struct peaks_given *given, enum perfx_peak_origin origin)
{
	for (int who = peaks->threads == 1 ? PEAKS_ALL : PEAKS_ONE; who <= PEAKS_ALL; who++) {
		struct perfx_peak record = {.threads = who == PEAKS_ONE ? 1 : peaks->threads,
					    .origin = (uint8_t)origin};

		for (size_t i = 0; peaks_dtypes[i]; i++) {
			if (who == PEAKS_ALL && given->flops[peaks_dtypes[i]])
				continue;
			record.dtype = (uint8_t)peaks_dtypes[i];
			record.flops_per_s = (uint64_t)peaks->flops[who][peaks_dtypes[i]];
			emit_peak(sink, record);
		}
		record.dtype = PERFX_DTYPE_UNKNOWN;
		record.flops_per_s = 0;
		record.bytes_per_s = (uint64_t)peaks->bytes[who];
		if (who == PEAKS_ONE || !given->bytes)
			emit_peak(sink, record);
	}
}

/*
 * Kept from an earlier time; else measured, but only where it disturbs no other program; else
 * estimated. Who has come to look at a job does not take its CPUs for a second.
 */
static int find_peaks(struct peaks *peaks, enum perfx_peak_origin *origin)
{
	bool kept = !peaks_find(peaks);
	bool wanted = !kept || peaks_is_doubtful(peaks, clock_ns(CLOCK_REALTIME) / 1000000000u);
	int err;

	*origin = PERFX_PEAK_CACHED;
	if (wanted && peaks_host_is_idle()) {
		*origin = PERFX_PEAK_MEASURED;
		/* if the cache cannot be written, the next recording measures again; doctor
		 * reports it */
		err = peaks_renew(peaks, NULL);
		if (!err || !kept)
			return err;
	}
	if (kept)
		return 0;
	*origin = PERFX_PEAK_ESTIMATED;
	err = peaks_estimate(peaks);
	if (!err)
		msg_say("estimated peak of this host: f64 %.3g GFLOP/s, f32 %.3g GFLOP/s (measure "
			"it while "
			"the machine is idle: sudo perfx-trace peaks)",
			peaks->flops[PEAKS_ALL][PERFX_DTYPE_F64] * 1e-9,
			peaks->flops[PEAKS_ALL][PERFX_DTYPE_F32] * 1e-9);
	return err;
}

/* Is the work of a planned function known? */
static bool any_cost_known(const struct plan *plan)
{
	for (size_t i = 0; i < plan->functions_count; i++)
		if (plan_knows_work(plan, plan->functions[i].cost_program))
			return true;
	return false;
}

void perf_counters_emit(struct thread_counters *counters, struct sink *sink,
			const struct plan *plan)
{
	if (thread_counters__counters(counters) || thread_counters__all_functions(counters) ||
	    any_cost_known(plan))
		thread_counters__describe(counters, sink);
}

static void emit_given(struct sink *sink, const struct peaks_given *given)
{
	struct perfx_peak record = {.threads = 1, .origin = PERFX_PEAK_GIVEN};
	struct peaks_key key;

	if (!peaks_key_read(&key) && key.threads)
		record.threads = key.threads;
	peaks_key_clear(&key);
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		record.dtype = (uint8_t)peaks_dtypes[i];
		record.flops_per_s = given->flops[peaks_dtypes[i]];
		emit_peak(sink, record);
	}
	record.dtype = PERFX_DTYPE_UNKNOWN;
	record.flops_per_s = 0;
	record.bytes_per_s = given->bytes;
	emit_peak(sink, record);
}

void host_peaks_emit(struct host_peaks *emitted, struct sink *sink, const struct peaks_given *given,
		     const struct plan *plan)
{
	enum perfx_peak_origin origin;
	struct peaks peaks;
	int err;

	if (!emitted->given && peaks_given_any(given))
		emit_given(sink, given);
	emitted->given = true;
	if (emitted->found || given->measure_nothing || peaks_given_all(given) ||
	    !any_cost_known(plan))
		return;
	emitted->found = true;
	err = find_peaks(&peaks, &origin);
	if (err)
		msg_say("the peak of this host is not known: %s", strerror(-err));
	else
		emit_peaks(sink, &peaks, given, origin);
}
