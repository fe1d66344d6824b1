// SPDX-License-Identifier: BSD-2-Clause
/* Messages to the user while a recording is made: one line each. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/message.h"
#include "base/quantity.h"
#include "base/text.h"
#include "proc/process.h"
#include "session/recorder_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void say_scan_error(pid_t pid, const struct recorder *recorder, ssize_t err)
{
	if (err == -E2BIG)
		msg_say("the patterns match more than %zu functions: narrow them, or raise "
			"--max-functions",
			recorder->options->plan.functions_max);
	else
		msg_say("process %d: %s", (int)pid, strerror((int)-err));
}

void say_waiting(struct recorder *recorder)
{
	const struct plan_options *options = &recorder->plan->options;

	for (size_t i = 0; i < options->patterns_count; i++)
		if (plan__waits(recorder->plan, i))
			msg_say("-F '%s': no such file is mapped yet; waiting for it",
				pattern__text(options->patterns[i]));
}

/* What could not be attached though it should have been: "; 3 not attached (gemm: …)". What no
 * attaching could do is a hint at the end of the report. */
static void add_skipped(const struct plan *plan, struct text *into)
{
	const struct plan_skipped *first = NULL;
	size_t count = 0, reasons = 0;

	for (size_t i = 0; i < plan->skipped_count; i++) {
		if (plan->skipped[i].by_design)
			continue;
		first = first ? first : &plan->skipped[i];
		count += plan->skipped[i].count;
		reasons++;
	}
	if (count)
		text_printf(into, "; %zu not attached (%s: %s%s)", count, first->name,
			    first->reason, reasons > 1 ? ", …" : "");
}

void say_phases(const struct recorder *recorder)
{
	char text[192] = "";

	if (!getenv("PERFX_DEBUG"))
		return;
	phases_format(recorder->options->phases, clock_monotonic_ns(), text, sizeof(text));
	msg_say("%s", text);
}

/* --wait */
void say_program_decides(const struct recorder *recorder)
{
	bool annotated = false;

	for (size_t i = 0; i < recorder->plan->functions_count; i++)
		annotated |=
			recorder->plan->functions[i].is_annotation &&
			recorder->plan->functions[i].annotation.action == PERFX_ANNOTATION_RECORD;
	msg_say("waiting for perfx_trace_start: nothing is recorded until then%s",
		annotated ? "" : " (no file that is mapped has it yet)");
}

/* A program may turn it on and off ten thousand times a second. */
#define TURNS_SAID 100

void say_turned(struct recorder *recorder, const struct perfx_recording_window *recording_window)
{
	if (recorder->turns_count++ >= TURNS_SAID) {
		if (recorder->turns_count == TURNS_SAID + 1)
			msg_say("further calls of perfx_trace_start and perfx_trace_stop take "
				"effect, but are no longer shown here");
		return;
	}
	if (recording_window->flags & PERFX_RECORDING_WINDOW_OPENS)
		msg_say("recording: process %u has called perfx_trace_start",
			recording_window->pid);
	else
		msg_say("paused: process %u has called perfx_trace_stop, or ended",
			recording_window->pid);
}

void say_tracing(struct recorder *recorder)
{
	struct process_info info = {.comm = "?"};
	struct text refused = {0};
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);
	char who[128], *memory;

	if (recorder->main_pid || count == 1)
		process_info(recorder->main_pid ? recorder->main_pid : pids[0], &info);
	if (count == 1)
		snprintf(who, sizeof(who), "%d %s", (int)pids[0], info.comm);
	else if (recorder->main_pid)
		snprintf(who, sizeof(who), "%d %s and %zu more", (int)recorder->main_pid, info.comm,
			 count ? count - 1 : 0);
	else
		snprintf(who, sizeof(who), "%zu processes", count);
	if (thread_counters__all_functions(recorder->thread_counters) &&
	    *thread_counters__why(recorder->thread_counters))
		msg_say("%s: %s",
			thread_counters__counters(recorder->thread_counters)
				? "not counted"
				: "no hardware counters here",
			thread_counters__why(recorder->thread_counters));
	add_skipped(recorder->plan, &refused);
	memory = memory__summary(recorder->memory);
	msg_say("tracing %s: %zu probes on %zu functions%s%s%s", who,
		probes__sites_count(recorder->probes), probes__functions_count(recorder->probes),
		memory && *memory ? "; memory: " : "", memory ? memory : "", text_peek(&refused));
	if (!probes__functions_count(recorder->probes) && !recorder->options->all)
		msg_say("no annotated function and no known ML library is mapped%s: choose "
			"functions with -F 'MODULE:GLOB'",
			memory && *memory ? ", only memory is traced" : "");
	text_clear(&refused);
	free(memory);
}

/*
 * What the user at a terminal sees while a recording is made, in one line:
 *
 *     attaching 738 probes…
 *     8 s left · 12 steps · 30,261 calls · Ctrl-C stops and reports
 */

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
