// SPDX-License-Identifier: BSD-2-Clause
/*
 * A dump as text:
 *
 *     WAITS FOR pipe:[8123] from python3 (pid 4712), for 12.3 s: thread python3 (4711) in
 *     step (train.py:41)
 *
 *     python3 train.py (pid 4711), 14 threads
 *
 *     python3 (4711) waits for pipe:[8123] from python3 (pid 4712), for 12.3 s
 *         __read (libc.so.6)
 *         Connection._recv (connection.py:379)
 *         step (train.py:41)
 *
 *     Each of 12 threads waits for a lock or a condition, for 14.2 min: pt_autograd_0 (4713), …
 */
#include "report/dump.h"

#include "analyze/location.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/units.h"
#include "report/document/document.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Of a brief report. */
#define GROUPS_MAX  10 /* of processes that do the same work */
#define FRAMES_MAX  20
#define NATIVE_MAX  6 /* innermost ones */
#define THREADS_MAX 4 /* named, of a group */
#define MOVES_MAX   4 /* threads that have moved */
#define RANKS_MAX   8 /* named, in one call */
#define PIDS_MAX    8 /* likewise, of processes that do the same work */

#define COMMAND_COLUMNS 80
/* Times of a group that differ by less are said once. */
#define ALIKE_AGES 0.9

struct layout {
	struct document *document;
	const struct profile *profile;
	const struct dump *dump;
	const struct report_options *options;
};

/* The command line without the program's folder. */
static void add_command(struct text *text, const struct profile_process *process)
{
	struct text words = {0}, shortened = {0};
	const char *command, *slash;

	for (const char *p = process->cmdline; *p; p++)
		text_add_bytes(&words, *p == PROFILE_ARGUMENT_END ? " " : p, 1);
	command = words.length ? text_peek(&words) : process->comm;
	slash = memrchr(command, '/', strcspn(command, " "));
	utf8_cut(&shortened, slash ? slash + 1 : command, COMMAND_COLUMNS);
	escape_name(text, text_peek(&shortened));
	text_finish(&words, &text->failed);
	text_finish(&shortened, &text->failed);
}

/* One that ended before its threads were seen has none. */
static bool is_in_class(const struct layout *l, size_t process, size_t class)
{
	return l->dump->classes[process] == class && l->profile->processes[process].states_count;
}

/* "pid 4711, rank 0 of 4" or, of several processes, "pids 4711, 4712 and 14 more". */
static void add_pids(struct layout *l, struct text *text, size_t class, size_t count)
{
	size_t shown = 0, most = l->options->full ? SIZE_MAX : PIDS_MAX;

	text_printf(text, " (pid%s ", plural(count));
	for (size_t i = class; i < l->profile->processes_count && shown < most; i++)
		if (is_in_class(l, i, class))
			text_printf(text, "%s%u", shown++ ? ", " : "",
				    l->profile->processes[i].pid);
	if (count > shown)
		text_printf(text, " and %zu more", count - shown);
	if (count == 1 && l->profile->processes[class].rank.world_size)
		text_printf(text, ", rank %u of %u", l->profile->processes[class].rank.rank,
			    l->profile->processes[class].rank.world_size);
	text_add(text, ")");
}

/* The title of the processes that do the same work. */
static void compose_class(struct layout *l, size_t class)
{
	const struct profile_process *first = &l->profile->processes[class];
	size_t count = 0, threads = 0;
	struct text text = {0};

	for (size_t i = class; i < l->profile->processes_count; i++) {
		if (!is_in_class(l, i, class))
			continue;
		count++;
		threads += l->profile->processes[i].states_count;
	}
	if (count > 1)
		text_printf(&text, "%zu processes: ", count);
	add_command(&text, first);
	add_pids(l, &text, class, count);
	text_printf(&text, ", %zu thread%s", threads, plural(threads));
	if (first->python_why && first->python_why[0]) {
		text_add(&text, "; no Python frames: ");
		escape_name(&text, first->python_why);
	}
	document_add(l->document, BLOCK_HEADING, &text);
}

static void compose_stack(struct layout *l, const struct profile_stack *stack)
{
	unsigned width = l->options->width > 8 ? l->options->width - 4 : UINT_MAX;
	size_t python = dump_first_python(stack), shown = 0, left = 0;
	struct text text = {0};

	for (size_t i = 0; i < stack->frames_count; i++) {
		struct text name = {0}, shortened = {0};
		bool is_native = stack->frames[i]->language != PERFX_LANGUAGE_PYTHON;

		if (!l->options->full &&
		    (!dump_frame_tells(stack, i, python) || shown == FRAMES_MAX ||
		     (is_native && shown == NATIVE_MAX))) {
			left++;
			continue;
		}
		shown++;
		location_frame(&name, stack->frames[i],
			       l->options->full ? LOCATION_FULL : LOCATION_BRIEF);
		utf8_shorten(&shortened, text_peek(&name), width);
		text_add(&text, "    ");
		escape_display(&text, text_peek(&shortened));
		text_add(&text, "\n");
		text_finish(&name, &text.failed);
		text_finish(&shortened, &text.failed);
	}
	if (left)
		text_printf(&text, "    … %zu more frame%s with --full\n", left, plural(left));
	if (stack->flags & PERFX_STACK_GUESSED)
		text_add(&text, "    (partly guessed: code without unwind tables)\n");
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
	if (!age.length)
		return;
	text_printf(text, ", %s", text_peek(&age));
	if ((double)group->least_age_ns < ALIKE_AGES * (double)group->most_age_ns)
		text_printf(text, " (the last one %s)", as_ns(group->least_age_ns));
	text_finish(&age, &text->failed);
}

static bool targets_differ(const struct layout *l, const struct dump_group *group)
{
	struct text first = {0}, other = {0};
	bool differ = false;

	dump_add_what(&first, l->profile, &l->dump->threads[group->threads[0]]);
	for (size_t i = 1; i < group->threads_count && !differ; i++) {
		dump_add_what(&other, l->profile, &l->dump->threads[group->threads[i]]);
		differ = strcmp(text_peek(&first), text_peek(&other)) != 0;
		text_clear(&other);
	}
	text_clear(&first);
	return differ;
}

static void compose_group(struct layout *l, const struct dump_group *group)
{
	const struct dump_thread *first = &l->dump->threads[group->threads[0]];
	struct text text = {0};

	if (group->threads_count > 1) {
		text_printf(&text, "Each of %zu threads ", group->threads_count);
	} else {
		dump_add_thread(&text, first);
		text_add(&text, " ");
	}
	dump_add_what(&text, l->profile, first);
	if (targets_differ(l, group))
		text_add(&text, " and the like");
	add_age(&text, group, first->state);
	if (group->threads_count > 1) {
		text_add(&text, ": ");
		add_threads(l, &text, group);
	}
	document_add(l->document, BLOCK_CAPTION, &text);
	if (first->state->stack)
		compose_stack(l, first->state->stack);
}

/* Tasks that are awaited in a circle, or by each other in many ways, end here. */
#define TASK_DEPTH_MAX 32
#define TASKS_SHOWN    100

static bool is_known_task(const struct profile_process *process, uint64_t id)
{
	FOR_EACH (task, process->tasks)
		if (task->id == id)
			return true;
	return false;
}

/* The task, its coroutines callers first, and below them the tasks that it awaits. */
static void add_task(struct text *text, const struct profile_process *process,
		     const struct profile_async_task *task, int depth, size_t *left)
{
	const char *lines = task->coroutines;
	struct dump_coroutine *c = malloc(sizeof(*c));
	struct text place = {0};

	if (!c || depth > TASK_DEPTH_MAX || !*left) {
		free(c);
		return;
	}
	(*left)--;
	text_printf(text, "    %*s", 2 * depth, "");
	escape_name(text, task->name[0] ? task->name : "(task)");
	text_add(text, task->runs ? " runs:" : ":");
	while (dump_next_coroutine(&lines, c)) {
		text_add(&place, place.length ? " ← " : " ");
		escape_name(&place, c->function);
		text_add(&place, " (");
		escape_name(&place, base_name(c->file));
		text_printf(&place, ":%u)", c->line);
	}
	text_add(text, text_peek(&place));
	text_add(text, "\n");
	text_finish(&place, &text->failed);
	free(c);
	FOR_EACH (other, process->tasks)
		if (other->awaited_by == task->id)
			add_task(text, process, other, depth + 1, left);
}

/* The asyncio tasks of a process, as a tree of who awaits whom, for each event loop's thread. */
static void compose_tasks(struct layout *l, const struct profile_process *process)
{
	size_t left = l->options->full ? SIZE_MAX : TASKS_SHOWN;
	uint32_t tid = UINT32_MAX;
	struct text text = {0};

	if (dump_hides_tasks(process))
		document_printf(
			l->document, BLOCK_NOTE,
			"The asyncio tasks of pid %u are not shown: CPython says where they "
			"are since 3.14.",
			process->pid);
	FOR_EACH (task, process->tasks) {
		if (is_known_task(process, task->awaited_by))
			continue;
		if (task->tid != tid && text.length)
			document_add_plot(l->document, &text, &(struct text){0});
		if (task->tid != tid)
			document_printf(l->document, BLOCK_CAPTION,
					task->tid
						? "asyncio tasks of pid %u, event loop of thread %u"
						: "asyncio tasks of pid %u, whose thread has ended",
					process->pid, task->tid);
		tid = task->tid;
		add_task(&text, process, task, 0, &left);
	}
	if (text.length)
		document_add_plot(l->document, &text, &(struct text){0});
}

static void compose_groups(struct layout *l)
{
	size_t class = SIZE_MAX, shown = 0, left = 0;

	for (size_t i = 0; i <= l->dump->groups_count; i++) {
		const struct dump_group *group =
			i < l->dump->groups_count ? &l->dump->groups[i] : NULL;
		size_t next =
			group ? l->dump->classes[group->process - l->profile->processes] : SIZE_MAX;

		if (next != class) {
			if (left)
				document_printf(l->document, BLOCK_NOTE,
						"%zu more group%s of threads with --full.", left,
						plural(left));
			shown = left = 0;
			class = next;
			if (group)
				compose_class(l, class);
		}
		if (group && (l->options->full || shown++ < GROUPS_MAX))
			compose_group(l, group);
		else if (group)
			left++;
	}
}

/* --watch: "After 12.3 s 1 thread has moved: python (42) from main (train.py:12) to main
 * (train.py:17)." */
static void compose_moves(struct layout *l)
{
	size_t count = 0, shown = 0, most = l->options->full ? SIZE_MAX : MOVES_MAX;
	struct text text = {0};

	if (!l->dump->watched_ns)
		return;
	FOR_EACH (thread, l->dump->threads)
		count += dump_has_moved(thread->state);
	if (count)
		text_printf(&text, "After %s %zu thread%s moved: ", as_ns(l->dump->watched_ns),
			    count, count > 1 ? "s have" : " has");
	else
		text_printf(&text, "Nothing has moved for %s.", as_ns(l->dump->watched_ns));
	FOR_EACH (thread, l->dump->threads) {
		if (!dump_has_moved(thread->state) || shown == most)
			continue;
		text_add(&text, shown++ ? "; " : "");
		dump_add_thread(&text, thread);
		location_after(&text, " from ", dump_place(thread->state->first_stack));
		location_after(&text, " to ", dump_place(thread->state->stack));
	}
	if (count > shown)
		text_printf(&text, "; and %zu more", count - shown);
	document_add(l->document, BLOCK_PARAGRAPH, &text);
}

/* Ranks side by side, by the call that they are in. */
static void compose_ranks(struct layout *l)
{
	if (!l->dump->ranks_count)
		return;
	document_headings(l->document, 0, WORDS("Ranks"), WORDS("In"), NUMBERS("For"),
			  REST("Where"));
	FOR_EACH (group, l->dump->ranks) {
		const struct profile_thread_state *state =
			group->thread == DUMP_NONE ? NULL : l->dump->threads[group->thread].state;
		struct text ranks = {0}, call = {0};

		for (size_t i = 0; i < group->processes_count && i < RANKS_MAX; i++)
			text_printf(&ranks, "%s%u", i ? ", " : "",
				    l->profile->processes[group->processes[i]].rank.rank);
		if (group->processes_count > RANKS_MAX)
			text_printf(&ranks, " and %zu more", group->processes_count - RANKS_MAX);
		escape_name(&call, group->call[0] ? group->call : "?");
		if (group->library)
			text_printf(&call, " (%s)", group->library);
		document_row(l->document, document_words(l->document, &ranks),
			     document_words(l->document, &call), cell_ns(group->least_age_ns),
			     document_frame(l->document, state ? dump_place(state->stack) : NULL,
					    0));
	}
}

void dump_compose(struct document *document, const struct profile *profile, const struct dump *dump,
		  const struct report_options *options)
{
	struct layout l = {document, profile, dump, options};

	compose_moves(&l);
	compose_ranks(&l);
	compose_groups(&l);
	FOR_EACH (process, profile->processes)
		compose_tasks(&l, process);
}

static int compose(struct document *document, const struct profile *profile,
		   const struct dump *dump, const struct report_options *options)
{
	document_say(document, BLOCK_VERDICT, dump->verdict);
	dump_compose(document, profile, dump, options);
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
	{{"text", " .txt .text "}, TYPE_PLAIN, dump_write_text},
	{{"md", " .md .markdown "}, "text/markdown; charset=utf-8", dump_write_md},
	{{"json", " .json "}, TYPE_JSON, dump_write_json},
};

struct format_table dump_formats = FORMAT_TABLE(writers);
