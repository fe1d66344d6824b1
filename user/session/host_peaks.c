// SPDX-License-Identifier: BSD-2-Clause
/*
 * What this host can do, as records of the stream: given, kept from an earlier time, measured now
 * or estimated. Only when there is something to compare with it, and before anything is attached;
 * where a library with such functions came later, at the end.
 */
#include "base/clock.h"
#include "base/message.h"
#include "decode/pack.h"
#include "peaks/cache.h"
#include "peaks/estimate.h"
#include "session/recorder_internal.h"

#include <stdlib.h>
#include <string.h>

static void emit_peak(struct sink *sink, struct perfx_peak record)
{
	struct pack_buffer buffer;

	if (!record.flops_per_s && !record.bytes_per_s)
		return;
	SINK_PACK(sink, &buffer, PERFX_KIND_PEAK, record);
}

static void emit_given(struct sink *sink, const struct peaks_given *given, uint32_t threads)
{
	struct perfx_peak record = {.threads = threads, .origin = PERFX_PEAK_GIVEN};

	for (size_t i = 0; peaks_dtypes[i]; i++) {
		record.dtype = (uint8_t)peaks_dtypes[i];
		record.flops_per_s = given->flops[peaks_dtypes[i]];
		emit_peak(sink, record);
	}
	record = (struct perfx_peak){
		.threads = threads, .origin = PERFX_PEAK_GIVEN, .bytes_per_s = given->bytes};
	emit_peak(sink, record);
}

/* One of the two rates of all CPUs that the user has given is not recorded as measured. */
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

/* "f64 222 GFLOP/s, f32 415 GFLOP/s" */
static void say_estimated(const struct peaks *peaks)
{
	msg_say("what this host can do is estimated: f64 %.3g GFLOP/s, f32 %.3g GFLOP/s "
		"(measured while nothing runs: sudo perfx-trace peaks)",
		peaks->flops[PEAKS_ALL][PERFX_DTYPE_F64] * 1e-9,
		peaks->flops[PEAKS_ALL][PERFX_DTYPE_F32] * 1e-9);
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
		/* a folder that cannot be written to costs the next one the time; doctor says so */
		err = peaks_renew(peaks, NULL);
		if (!err || !kept)
			return err;
	}
	if (kept)
		return 0;
	*origin = PERFX_PEAK_ESTIMATED;
	err = peaks_estimate(peaks);
	if (!err)
		say_estimated(peaks);
	return err;
}

bool any_cost_known(const struct plan *plan)
{
	for (size_t i = 0; i < plan->functions_count; i++)
		if (plan->functions[i].cost_program)
			return true;
	return false;
}

static uint32_t threads_here(void)
{
	struct peaks_key key;
	uint32_t threads = peaks_key_read(&key) ? 0 : key.threads;

	peaks_key_clear(&key);
	return threads ? threads : 1;
}

void host_peaks_emit(struct recorder *recorder)
{
	const struct peaks_given *given = &recorder->options->peaks;
	enum perfx_peak_origin origin;
	struct peaks peaks;
	int err;

	if (!recorder->given_emitted && peaks_given_any(given))
		emit_given(recorder->sink, given, threads_here());
	recorder->given_emitted = true;
	if (recorder->peaks_emitted || given->measure_nothing || peaks_given_all(given) ||
	    !any_cost_known(recorder->plan))
		return;
	recorder->peaks_emitted = true;
	err = find_peaks(&peaks, &origin);
	if (err)
		msg_say("what this host can do is not known: %s", strerror(-err));
	else
		emit_peaks(recorder->sink, &peaks, given, origin);
}
