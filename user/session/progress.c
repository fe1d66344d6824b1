// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the user at a terminal sees while a recording is made, in one line:
 *
 *     attaching 738 probes…
 *     8 s left · 12 steps · 30,261 calls · Ctrl-C stops and reports
 */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/message.h"
#include "base/quantity.h"
#include "session/recorder_internal.h"

#include <inttypes.h>

#define SECOND_NS 1000000000u
/* Often enough to be seen alive, seldom enough to be read. */
#define PROGRESS_NS 500000000u

void progress_attaching(const struct recorder *recorder)
{
	size_t probes = 0;

	for (size_t i = 0; i < recorder->plan->functions_count; i++)
		probes += 1 + recorder->plan->functions[i].site.exits_count;
	msg_status("attaching %zu probe%s…", probes, probes == 1 ? "" : "s");
}

static void add_time(struct text *text, const struct recorder *recorder, uint64_t now_ns)
{
	uint64_t end_ns = recorder->end_ns, left_ns = end_ns > now_ns ? end_ns - now_ns : 0;

	if (recorder->paused)
		text_add(text, "waiting for perfx_trace_start");
	else if (end_ns == UINT64_MAX)
		text_printf(text, "%" PRIu64 " s so far",
			    (now_ns - recorder->start_ns) / SECOND_NS);
	else
		text_printf(text, "%" PRIu64 " s left", (left_ns + SECOND_NS - 1) / SECOND_NS);
}

static void add_counts(struct text *text, const struct recorder *recorder)
{
	uint64_t steps = step_watch__count(recorder->steps);

	if (steps) {
		text_add(text, " · ");
		add_count(text, steps);
		text_add(text, steps == 1 ? " step" : " steps");
	}
	text_add(text, " · ");
	add_count(text, reader__spans_count(recorder->reader));
	text_add(text, " calls · Ctrl-C stops and ");
	text_add(text, recorder->pipeline->aggregate ? "reports" : "writes the capture");
}

void progress_tick(struct recorder *recorder, uint64_t now_ns)
{
	struct text text = {0};

	/* the program that run starts has the terminal for itself */
	if (now_ns < recorder->next_progress_ns || recorder->options->launch || !msg_has_status())
		return;
	recorder->next_progress_ns = now_ns + PROGRESS_NS;
	add_time(&text, recorder, now_ns);
	add_counts(&text, recorder);
	if (!text.failed)
		msg_status("%s", text_peek(&text));
	text_clear(&text);
}
