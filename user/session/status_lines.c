// SPDX-License-Identifier: BSD-2-Clause
/* Messages to the user while a recording is made: one line each. */
#include "base/clock.h"
#include "base/message.h"
#include "base/text.h"
#include "proc/process.h"
#include "session/recorder_internal.h"

#include <errno.h>
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
