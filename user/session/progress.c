// SPDX-License-Identifier: BSD-2-Clause
#include "session/progress.h"

#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/reader.h"
#include "attach/thread_counters.h"
#include "base/message.h"
#include "base/order.h"
#include "base/text.h"
#include "base/units.h"
#include "proc/process.h"
#include "session/process_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void say_scan_error(pid_t pid, ssize_t err, size_t functions_max)
{
	if (err == -E2BIG)
		msg_say("the patterns match more than %zu functions: narrow them, or raise "
			"--max-functions",
			functions_max);
	else if (err == -EACCES || err == -EPERM)
		msg_say("process %d: its files and memory cannot be read (%s), even with our "
			"privileges: a sandbox or a security module forbids it",
			(int)pid, strerror((int)-err));
	else
		msg_say("process %d: %s", (int)pid, strerror((int)-err));
}

/* Functions that failed to attach: "; 3 not attached (gemm: …)". Limits by design are hints at
 * the end of the report. */
static void add_skipped(const struct recording *recording, struct text *into)
{
	const struct skipped_list *lists[] = {&recording->plan->skipped, &recording->skipped};
	const struct skipped *first = NULL;
	size_t count = 0, reasons = 0;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		for (size_t k = 0; k < lists[i]->count; k++) {
			const struct skipped *skipped = &lists[i]->items[k];

			if (skipped->flags & PERFX_NOT_ATTACHED_BY_DESIGN)
				continue;
			first = first ? first : skipped;
			count += skipped->count;
			reasons++;
		}
	}
	if (count)
		text_printf(into, "; %zu not attached (%s: %s%s)", count, first->name,
			    first->reason, reasons > 1 ? ", …" : "");
}

/* A program may turn it on and off ten thousand times a second. */
#define TURNS_SAID 100

void say_turned(const struct perfx_recording_window *window, size_t turns_count)
{
	if (turns_count == TURNS_SAID + 1)
		msg_say("further calls of perfx_trace_start and perfx_trace_stop take effect, but "
			"are no longer shown here");
	if (turns_count > TURNS_SAID)
		return;
	if (window->flags & PERFX_RECORDING_WINDOW_OPENS)
		msg_say("recording: process %u called perfx_trace_start", window->pid);
	else
		msg_say("paused: process %u called perfx_trace_stop, or exited", window->pid);
}

/* "4711 python3 and 3 more" */
static void describe_traced(const struct recording *recording, char *text, size_t size)
{
	struct process_info info = {.comm = "?"};
	size_t count;
	const pid_t *pids = process_table__pids(recording->processes, &count);
	pid_t main_pid = count == 1 ? pids[0] : recording->main_pid;

	if (!main_pid) {
		snprintf(text, size, "%zu processes", count);
		return;
	}
	process_info(recording->main_pid ?: main_pid, &info);
	if (count == 1)
		snprintf(text, size, "%d %s", (int)main_pid, info.comm);
	else
		snprintf(text, size, "%d %s and %zu more", (int)main_pid, info.comm,
			 count ? count - 1 : 0);
}

void say_tracing(const struct recording *recording)
{
	struct thread_counters *counters = recording->thread_counters;
	const char *why = thread_counters__why(counters), *left = "";
	size_t functions_count = probes__functions_count(recording->probes);
	const struct plan *plan = recording->plan;
	bool annotated = false;
	char who[128], *memory = memory__summary(recording->memory);
	bool has_memory = memory && *memory, has_samples = recording->options->sample_hz > 0;
	struct text skipped = {0};

	for (size_t i = 0; i < plan->options.patterns_count; i++)
		if (plan__waits(plan, i))
			msg_say("-F '%s': no such file is mapped yet; waiting for it",
				pattern__text(plan->options.patterns[i]));
	for (size_t i = 0; i < plan->functions_count; i++)
		annotated |= plan_is_annotation(&plan->functions[i]) &&
			     plan->functions[i].annotation.action == PERFX_ANNOTATION_RECORD;
	if (recording->options->wait)
		msg_say("waiting for perfx_trace_start: nothing is recorded until then%s",
			annotated ? "" : " (no mapped file has it yet)");
	describe_traced(recording, who, sizeof(who));
	if (thread_counters__all_functions(counters) && *why)
		msg_say("%s: %s",
			thread_counters__counters(counters) ? "not counted"
							    : "no hardware counters",
			why);
	add_skipped(recording, &skipped);
	msg_say("tracing %s: %zu probes on %zu functions%s%s%s", who,
		probes__sites_count(recording->probes), functions_count,
		has_memory ? "; memory: " : "", memory ? memory : "", text_peek(&skipped));
	if (has_memory && has_samples)
		left = ", only memory and samples are recorded";
	else if (has_memory || has_samples)
		left = has_memory ? ", only memory is recorded" : ", only samples are recorded";
	if (!functions_count && !recording->options->all)
		msg_say("no annotated function and no known ML library is mapped%s: choose "
			"functions with -F 'MODULE:GLOB'",
			left);
	text_clear(&skipped);
	free(memory);
}

#define SECOND_NS 1000000000u

/* The program that `run` starts has the terminal for itself. */
bool progress_is_shown(const struct recording *recording)
{
	return !recording->options->launch && msg_has_status();
}

void progress_attaching(const struct plan *plan)
{
	size_t probes = 0;

	for (size_t i = 0; i < plan->functions_count; i++)
		probes += 1 + plan->functions[i].site.exits_count;
	msg_status("attaching %zu probe%s…", probes, probes == 1 ? "" : "s");
}

static void show(const struct recording *recording, uint64_t now_ns)
{
	uint64_t steps_count = step_watch__count(recording->steps);
	uint64_t end_ns = max_u64(recording->end_ns, now_ns);
	struct text text = {0};

	if (recording->windows.paused)
		text_add(&text, "waiting for perfx_trace_start");
	else if (end_ns == UINT64_MAX)
		text_printf(&text, "%" PRIu64 " s so far",
			    (now_ns - recording->start_ns) / SECOND_NS);
	else
		text_printf(&text, "%" PRIu64 " s left",
			    (end_ns - now_ns + SECOND_NS - 1) / SECOND_NS);
	if (steps_count)
		text_printf(&text, " · %s%s", as_count(steps_count),
			    steps_count == 1 ? " step" : " steps");
	text_printf(&text, " · %s calls · Ctrl-C stops and %s",
		    as_count(reader__spans_count(recording->reader)),
		    recording->pipeline->aggregate ? "reports" : "writes the capture");
	if (!text.failed)
		msg_status("%s", text_peek(&text));
	text_clear(&text);
}

/* Often enough to be seen alive, seldom enough to be read. */
#define PROGRESS_NS 500000000u

static void tick(struct recording *recording)
{
	uint64_t now_ns = recording->now_ns;
	bool is_shown = progress_is_shown(recording);

	if (!recording->options->quiet)
		msg_reductions_show(is_shown, false);
	if (!is_shown || now_ns < recording->next_progress_ns)
		return;
	recording->next_progress_ns = now_ns + PROGRESS_NS;
	show(recording, now_ns);
}

static void end(struct recording *recording)
{
	if (!recording->options->quiet)
		msg_reductions_show(progress_is_shown(recording), true);
}

const struct recording_part progress_part = {.name = "progress", .tick = tick, .end = end};
