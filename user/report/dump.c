// SPDX-License-Identifier: BSD-2-Clause
/*
 * A dump as text:
 *
 *     WAITS FOR read from pipe:[8123] from python3 (pid 4712), for 12.3 s: thread python3 (4711) in
 *     step (train.py:41)
 *
 *     python3 train.py (pid 4711), 14 threads
 *
 *     python3 (4711) waits for read from pipe:[8123] from python3 (pid 4712), for 12.3 s
 *         __read (libc.so.6)
 *         Connection._recv (connection.py:379)
 *         step (train.py:41)
 *
 *     12 threads wait for …: pt_autograd_0 (4713), …
 */
#include "report/dump.h"

#include "analyze/location.h"
#include "base/escape.h"
#include "base/units.h"
#include "report/document/document.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* Of a brief report. */
#define GROUPS_MAX  10 /* of a process */
#define FRAMES_MAX  20
#define NATIVE_MAX  6 /* innermost, before the first Python frame; of a stack without Python */
#define THREADS_MAX 4 /* named, of a group */

struct layout {
	struct document *document;
	const struct profile *profile;
	const struct dump *dump;
	const struct report_options *options;
};

static void add_command(struct text *text, const struct profile_process *process)
{
	struct text words = {0}, shortened = {0};

	for (const char *p = process->cmdline; *p; p++)
		text_add_bytes(&words, *p == PROFILE_ARGUMENT_END ? " " : p, 1);
	utf8_cut(&shortened, words.length ? base_name(text_peek(&words)) : process->comm, 80);
	escape_name(text, text_peek(&shortened));
	text_finish(&words, &text->failed);
	text_finish(&shortened, &text->failed);
}

static void compose_process(struct layout *l, const struct profile_process *process)
{
	struct text text = {0};

	add_command(&text, process);
	text_printf(&text, " (pid %u), ", process->pid);
	if (process->rank.world_size)
		text_printf(&text, "rank %u of %u, ", process->rank.rank, process->rank.world_size);
	text_printf(&text, "%zu thread%s", process->states_count, plural(process->states_count));
	if (process->python_why && process->python_why[0]) {
		text_add(&text, "; no Python frames: ");
		escape_name(&text, process->python_why);
	}
	document_add(l->document, BLOCK_HEADING, &text);
}

/* A stack without the native frames between those of Python, and without most of a long native
 * one. */
static bool is_shown(const struct layout *l, const struct profile_stack *stack, size_t i,
		     size_t first_python)
{
	if (l->options->full)
		return true;
	return stack->frames[i]->language == PERFX_LANGUAGE_PYTHON ||
	       (i < NATIVE_MAX && i < first_python);
}

static void compose_stack(struct layout *l, const struct profile_stack *stack)
{
	unsigned width = l->options->width > 8 ? l->options->width - 4 : UINT_MAX;
	size_t python = 0, shown = 0, left = 0;
	struct text text = {0};

	while (python < stack->frames_count &&
	       stack->frames[python]->language != PERFX_LANGUAGE_PYTHON)
		python++;
	for (size_t i = 0; i < stack->frames_count; i++) {
		struct text name = {0}, shortened = {0};

		if (!is_shown(l, stack, i, python) || (!l->options->full && shown == FRAMES_MAX)) {
			left++;
			continue;
		}
		shown++;
		location_frame(&name, stack->frames[i], LOCATION_BRIEF);
		utf8_shorten(&shortened, text_peek(&name), width);
		text_add(&text, "    ");
		escape_display(&text, text_peek(&shortened));
		text_add(&text, "\n");
		text_finish(&name, &text.failed);
		text_finish(&shortened, &text.failed);
	}
	if (left)
		text_printf(&text, "    … %zu more frame%s with --full\n", left, plural(left));
	if (!stack->frames_count)
		text_add(&text, "    (no stack)\n");
	document_add_plot(l->document, &text, &(struct text){0});
}

static void add_threads(struct layout *l, struct text *text, const struct dump_group *group)
{
	size_t shown = l->options->full ? group->threads_count : THREADS_MAX;

	for (size_t i = 0; i < group->threads_count && i < shown; i++) {
		text_add(text, i ? ", " : "");
		dump_add_thread(text, &l->dump->threads[group->threads[i]]);
	}
	if (group->threads_count > shown)
		text_printf(text, " and %zu more", group->threads_count - shown);
}

static void add_age(struct text *text, const struct dump_group *group,
		    const struct profile_thread_state *state)
{
	struct text age = {0};

	dump_add_age(&age, state, group->most_age_ns);
	if (age.length)
		text_printf(text, ", %s", text_peek(&age));
	if (age.length && group->least_age_ns != group->most_age_ns)
		text_printf(text, " (the last one %s)", as_ns(group->least_age_ns));
	text_finish(&age, &text->failed);
}

static void compose_group(struct layout *l, const struct dump_group *group)
{
	const struct dump_thread *first = &l->dump->threads[group->threads[0]];
	struct text text = {0};

	if (group->threads_count > 1) {
		text_printf(&text, "%zu threads, each: ", group->threads_count);
	} else {
		dump_add_thread(&text, first);
		text_add(&text, " ");
	}
	dump_add_what(&text, l->profile, first);
	add_age(&text, group, first->state);
	if (group->threads_count > 1) {
		text_add(&text, ": ");
		add_threads(l, &text, group);
	}
	document_add(l->document, BLOCK_CAPTION, &text);
	if (first->state->stack)
		compose_stack(l, first->state->stack);
}

static void compose_deadlock(struct layout *l, const struct dump_deadlock *deadlock)
{
	struct text text = {0};

	for (size_t i = 0; i < deadlock->threads_count; i++) {
		const struct dump_thread *thread = &l->dump->threads[deadlock->threads[i]];

		dump_add_thread(&text, thread);
		text_add(&text, " ");
		dump_add_what(&text, l->profile, thread);
		location_after(&text, " in ", dump_place(thread->state));
		document_add(l->document, BLOCK_PARAGRAPH, &text);
	}
}

static void compose_groups(struct layout *l)
{
	const struct profile_process *process = NULL;
	size_t shown = 0, left = 0;

	for (size_t i = 0; i <= l->dump->groups_count; i++) {
		const struct dump_group *group =
			i < l->dump->groups_count ? &l->dump->groups[i] : NULL;

		if (!group || group->process != process) {
			if (left)
				document_printf(l->document, BLOCK_NOTE,
						"%zu more group%s of threads with --full.", left,
						plural(left));
			shown = left = 0;
			process = group ? group->process : NULL;
			if (process)
				compose_process(l, process);
		}
		if (group && (l->options->full || shown++ < GROUPS_MAX))
			compose_group(l, group);
		else if (group)
			left++;
	}
}

static int compose(struct document *document, const struct profile *profile,
		   const struct dump *dump, const struct report_options *options)
{
	struct layout l = {document, profile, dump, options};

	document_say(document, BLOCK_VERDICT, dump->verdict);
	for (size_t i = 0; i < dump->deadlocks_count; i++)
		compose_deadlock(&l, &dump->deadlocks[i]);
	compose_groups(&l);
	if (profile->losses[PERFX_LOSS_SAMPLE_DROPS])
		document_printf(document, BLOCK_WARNING,
				"Partial: %s records of threads found no room (--ring-size).",
				as_count(profile->losses[PERFX_LOSS_SAMPLE_DROPS]));
	return document->failed ? -ENOMEM : 0;
}

int dump_write_text(FILE *out, const struct profile *profile, const struct dump *dump,
		    const struct report_options *options)
{
	struct document document = {0};
	int err = compose(&document, profile, dump, options);

	err = err
		      ?: document_write_text(out, &document, options->color,
					     options->width ? options->width : 100);
	document_clear(&document);
	return err;
}

int dump_write_md(FILE *out, const struct profile *profile, const struct dump *dump,
		  const struct report_options *options)
{
	struct document document = {0};
	int err = compose(&document, profile, dump, options);

	err = err ?: document_write_md(out, &document);
	document_clear(&document);
	return err;
}

static const struct dump_writer writers[] = {
	{{"text", " .txt .text "}, dump_write_text},
	{{"md", " .md .markdown "}, dump_write_md},
	{{"json", " .json "}, dump_write_json},
};

struct format_table dump_formats = FORMAT_TABLE(writers);
