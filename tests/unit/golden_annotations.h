/* SPDX-License-Identifier: BSD-2-Clause */
/* Annotations of perfx.h, in recording windows that the program opens. */
#ifndef GOLDEN_ANNOTATIONS_H
#define GOLDEN_ANNOTATIONS_H

#include "stream_builder.h"

#include <math.h>

static void golden_recording_windows(struct stream *s)
{
	static const uint64_t times[] = {0, 2 * S, 3 * S, 5 * S}; /* opened, closed, … */

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		stream_plain(s, PERFX_KIND_RECORDING_WINDOW, struct perfx_recording_window,
			     .time_ns = STREAM_START + times[i], .process = 1, .pid = 4242,
			     .flags = i % 2 ? 0 : PERFX_RECORDING_WINDOW_OPENS);
}

static void golden_annotations(struct stream *s)
{
	static const struct stream_place pool = {1, 4242, 1, 0, 1024, PERFX_DOMAIN_USER};

	stream_host(s);
	stream_process(s, 1, 4242, "trainer", "./trainer");
	golden_recording_windows(s);
	stream_add(s, PERFX_KIND_FUNCTION, struct perfx_function, STRINGS("step", TRAINER, ""),
		   .function = 1, .source = PERFX_SOURCE_PERFX,
		   .flags = PERFX_FUNCTION_RANGE | PERFX_FUNCTION_STEP);
	stream_context(s, 1, 0, 1, 1);
	stream_usage(s, 1, 0, 0, 0, 10 << 20);
	stream_value_name(s, 1, "loss");
	stream_value_name(s, 2, "tokens | `n` <b>");
	stream_value_name(s, 3, "grad norm");
	stream_value_name(s, 4, "rare");
	stream_allocator(s, 1024, PERFX_DOMAIN_USER, "arena", "");
	for (uint64_t i = 0; i < 40; i++) {
		uint64_t at = i * 100 * MS + (i < 20 ? 0 : 1 * S);

		stream_value(s, 1, at + 50 * MS, 1.25 / (double)(i + 1), 0);
		stream_value(s, 2, at + 60 * MS, 32768, PERFX_USER_VALUE_ADDED);
		stream_value(s, 3, at + 60 * MS, i == 30 ? NAN : (double)i - 20, 0);
		stream_call(s, 1, 4242, at, 90 * MS, 90 * MS, 0);
		stream_allocation(s, &pool, at + 10 * MS, 0x1000 + i * 4096, 4096, 0);
		if (i % 2)
			stream_free(s, &pool, at + 80 * MS, 0x1000 + i * 4096, 0, 0);
	}
	stream_plain(s, PERFX_KIND_OVERFLOW_VALUES, struct perfx_overflow_values, .process = 1,
		     .value = 4, .adds_count = 12, .sum = 7, .unsummed_count = 2);
	stream_loss(s, PERFX_LOSS_VALUE_DROPS, 12);
	stream_usage(s, 1, 5 * S, 4 * S, 0, 12 << 20);
	stream_end(s, 5 * S, 0);
}

#endif
