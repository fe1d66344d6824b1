// SPDX-License-Identifier: BSD-2-Clause
/*
 * A process beside its functions:
 *     ./trainer --epochs 3
 *     wall 10.0 s · CPU 8.00 s user, 1.00 s system (90.0 %) · RSS 305 MiB, peak 310 MiB · 2 threads
 */
#include "base/escape.h"
#include "base/quantity.h"
#include "base/units.h"
#include "report/compose.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* "exited with status 0", "killed by SIGKILL" */
static void add_end(struct text *text, const struct profile_process *p)
{
	const char *name;

	if (!p->exited)
		return;
	text_add(text, " · ");
	if (!WIFSIGNALED(p->status)) {
		text_printf(text, "exited with status %d", WEXITSTATUS(p->status));
		return;
	}
	name = sigabbrev_np(WTERMSIG(p->status));
	if (name)
		text_printf(text, "killed by SIG%s", name);
	else
		text_printf(text, "killed by signal %d", WTERMSIG(p->status));
}

static void add_cpu_facts(struct text *text, const struct profile_process *p)
{
	uint64_t wall_ns = profile_wall_ns(p);
	char buffer[UNITS_MAX];

	if (p->cpu_ns == PROFILE_ABSENT)
		return;
	text_add(text, " · CPU ");
	add_ns(text, p->cpu_user_ns);
	text_add(text, " user, ");
	add_ns(text, p->cpu_system_ns);
	text_add(text, " system");
	if (wall_ns)
		text_printf(text, " (%s)",
			    format_percent(buffer, (double)p->cpu_ns / (double)wall_ns));
}

/* Nothing read and nothing written is no news in a brief report. */
static void add_pair(struct composer *c, struct text *text, const char *first, uint64_t first_bytes,
		     const char *second, uint64_t second_bytes)
{
	if (first_bytes == PROFILE_ABSENT || second_bytes == PROFILE_ABSENT ||
	    (c->limits->brief && !first_bytes && !second_bytes))
		return;
	text_add(text, first);
	add_bytes(text, first_bytes);
	text_add(text, second);
	add_bytes(text, second_bytes);
}

/* How much of a command line a text report shows. */
#define CMDLINE_CHARS 200

static void compose_cmdline(struct composer *c, const struct profile_process *p)
{
	struct text plain = {0}, text = {0};

	for (const char *s = p->cmdline; *s; s++) {
		if (!c->options->full_cmdline && plain.length >= CMDLINE_CHARS) {
			text_add(&plain, "…");
			break;
		}
		text_add_bytes(&plain, *s == PROFILE_ARGUMENT_END ? " " : s, 1);
	}
	escape_name(&text, text_peek(&plain));
	if (plain.length)
		document_add(c->document, BLOCK_NOTE, &text);
	text_clear(&text);
	text_clear(&plain);
}

void compose_facts(struct composer *c, const struct profile_process *p)
{
	struct text text = {0};

	compose_cmdline(c, p);
	text_add(&text, "wall ");
	add_ns(&text, profile_wall_ns(p));
	add_cpu_facts(&text, p);
	add_pair(c, &text, " · RSS ", p->rss_bytes, ", peak ", p->rss_peak_bytes);
	add_pair(c, &text, " · disk read ", p->read_bytes, ", written ", p->write_bytes);
	add_pair(c, &text, " · network in ", p->net_rx_bytes, ", out ", p->net_tx_bytes);
	if (p->kernel_threads_count != PROFILE_ABSENT)
		text_printf(&text, " · %llu thread%s", (unsigned long long)p->kernel_threads_count,
			    p->kernel_threads_count == 1 ? "" : "s");
	if (p->unmatched_entries)
		text_printf(&text, " · %llu call%s not over at the end",
			    (unsigned long long)p->unmatched_entries,
			    p->unmatched_entries == 1 ? "" : "s");
	add_end(&text, p);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

void compose_threads(struct composer *c, const struct profile_process *p)
{
	static const struct column columns[] = {
		{.title = "TID", .right = true},
		{.title = "On CPU", .right = true},
		{.title = "Runnable", .right = true},
		{.title = "Blocked", .right = true},
		{.title = "State"},
		{.title = "Thread", .takes_rest = true},
	};
	size_t shown =
		p->threads_count < c->limits->threads ? p->threads_count : c->limits->threads;
	struct text text = {0};

	if (!shown)
		return;
	text_printf(&text, "Threads (%zu)", p->threads_count);
	document_add(c->document, BLOCK_FOLD, &text);
	document_table(c->document, columns);
	for (size_t i = 0; i < shown; i++) {
		const struct profile_thread *thread = &p->threads[i];

		document_cell_printf(c->document, "%u", thread->tid);
		document_cell_ns(c->document, thread->on_cpu_ns);
		document_cell_ns(c->document, thread->runnable_ns);
		document_cell_ns(c->document, thread->blocked_ns);
		document_cell_printf(c->document, "%c", thread->state ? thread->state : '-');
		document_cell_name(c->document, thread->comm, c->limits->name_columns);
	}
	if (shown < p->threads_count) {
		text_printf(&text, "%zu more in the JSON report.", p->threads_count - shown);
		document_add(c->document, BLOCK_NOTE, &text);
	}
	document_say(c->document, BLOCK_UNFOLD, "");
}
