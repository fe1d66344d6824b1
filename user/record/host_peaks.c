// SPDX-License-Identifier: BSD-2-Clause
/*
 * What this host can do, as records of the stream: given, kept from an earlier time, or measured
 * now. Measured only when there is something to compare with it, and before anything is attached;
 * where a library with such functions came later, at the end.
 */
#include "base/clock.h"
#include "base/message.h"
#include "base/text.h"
#include "base/units.h"
#include "decode/names.h"
#include "peaks/cache.h"
#include "record/recorder_internal.h"
#include "stream/pack.h"

#include <stdlib.h>
#include <string.h>

static void tell(struct sink *sink, struct perfx_peak record)
{
	struct pack_buffer buffer;
	const struct perfx_record *packed;

	if (!record.flops_per_s && !record.bytes_per_s)
		return;
	packed = PACK(&buffer, PERFX_KIND_PEAK, record);
	sink_record(sink, packed, packed->size);
}

static void tell_given(struct sink *sink, const struct peaks_given *given, uint32_t threads)
{
	struct perfx_peak record = {.threads = threads, .origin = PERFX_PEAK_GIVEN};

	for (size_t i = 0; peaks_dtypes[i]; i++) {
		record.dtype = (uint8_t)peaks_dtypes[i];
		record.flops_per_s = given->flops[peaks_dtypes[i]];
		tell(sink, record);
	}
	record = (struct perfx_peak){
		.threads = threads, .origin = PERFX_PEAK_GIVEN, .bytes_per_s = given->bytes};
	tell(sink, record);
}

/* One of the two rates of all CPUs that the user has given is not told as measured. */
static void tell_peaks(struct sink *sink, const struct peaks *peaks,
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
			tell(sink, record);
		}
		record.dtype = PERFX_DTYPE_UNKNOWN;
		record.flops_per_s = 0;
		record.bytes_per_s = (uint64_t)peaks->bytes[who];
		if (who == PEAKS_ONE || !given->bytes)
			tell(sink, record);
	}
}

/* "f64 222 GFLOP/s, f32 415 GFLOP/s, memory 29.4 GB/s" */
static void list_rates(struct text *text, const struct peaks *peaks)
{
	static const enum perfx_dtype shown[] = {PERFX_DTYPE_F64, PERFX_DTYPE_F32};

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		if (peaks->flops[PEAKS_ALL][shown[i]] > 0)
			text_printf(text, "%s %.3g GFLOP/s, ", name_of_dtype(shown[i]),
				    peaks->flops[PEAKS_ALL][shown[i]] * 1e-9);
	if (peaks->bytes[PEAKS_ALL] > 0)
		text_printf(text, "memory %.3g GB/s", peaks->bytes[PEAKS_ALL] * 1e-9);
	else
		text_add(text, "memory not measured: too little of it is free, or too slowly");
}

static void say_measured(const struct peaks *peaks, uint64_t spent_ns, bool first)
{
	char spent[UNITS_MAX];
	struct text text = {0};

	list_rates(&text, peaks);
	msg_say("measured in %s what this host can do%s: %s%s", format_ns(spent, spent_ns),
		first ? "" : ", once more", text_peek(&text),
		peaks->busy && peaks->bytes[PEAKS_ALL] > 0 ? " or more (others are working)" : "");
	text_clear(&text);
}

/* Kept from an earlier time, or measured and kept. */
static int find_peaks(struct peaks *peaks, enum perfx_peak_origin *origin)
{
	struct peaks_key key;
	struct peaks kept;
	char *path = peaks_path();
	bool has_key = !peaks_key_read(&key), has_kept;
	uint64_t start_ns = clock_monotonic_ns();
	int err = 0;

	has_kept = has_key && path && !peaks_load(path, &key, &kept);
	*origin = has_kept ? PERFX_PEAK_CACHED : PERFX_PEAK_MEASURED;
	if (has_kept)
		*peaks = kept;
	if (!has_kept || peaks_is_doubtful(&kept, clock_ns(CLOCK_REALTIME) / 1000000000u)) {
		err = peaks_measure(peaks);
		*origin = PERFX_PEAK_MEASURED;
		if (!err && has_kept)
			peaks_merge(peaks, &kept);
		if (!err)
			say_measured(peaks, clock_monotonic_ns() - start_ns, !has_kept);
		/* a folder that cannot be written to costs the next one the time; doctor says so */
		if (!err && has_key && path)
			peaks_store(path, &key, peaks);
	}
	if (has_key)
		peaks_key_clear(&key);
	free(path);
	return err;
}

bool has_figures(const struct plan *plan)
{
	for (size_t i = 0; i < plan->functions_count; i++)
		if (plan->functions[i].figure)
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

void host_peaks_tell(struct recorder *recorder)
{
	const struct peaks_given *given = &recorder->options->peaks;
	enum perfx_peak_origin origin;
	struct peaks peaks;
	int err;

	if (!recorder->given_told && peaks_given_any(given))
		tell_given(recorder->sink, given, threads_here());
	recorder->given_told = true;
	if (recorder->peaks_told || given->measure_nothing || peaks_given_all(given) ||
	    !has_figures(recorder->plan))
		return;
	recorder->peaks_told = true;
	err = find_peaks(&peaks, &origin);
	if (err)
		msg_say("what this host can do was not measured: %s", strerror(-err));
	else
		tell_peaks(recorder->sink, &peaks, given, origin);
}
