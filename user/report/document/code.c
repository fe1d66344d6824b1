// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where in the code: the lines that cost most, what threads waited for, and how far the call stacks
 * behind both can be trusted. Sampled numbers stand in columns that say so.
 */
#include "analyze/hottest.h"
#include "analyze/location.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/syscalls.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/compose.h"

#include <errno.h>
#include <stdlib.h>

enum { HAS_SAMPLES = 1, HAS_CALLS = 2, HAS_MEMORY = 4, HAS_SOURCE = 8, HAS_SPINS = 16 };

static unsigned columns_of_lines(struct composer *c, const struct profile_process *p,
				 enum perfx_language language)
{
	const uint64_t *spinning_ns = compose_analysis(c, p)->lines_spinning_ns;
	unsigned has = 0;

	for (size_t i = 0; i < p->lines_count; i++) {
		const struct profile_line *line = &p->lines[i];

		if (line->language != language)
			continue;
		has |= line->samples_count ? HAS_SAMPLES : 0;
		has |= spinning_ns[i] ? HAS_SPINS : 0;
		has |= line->calls_ns && line->calls_ns != PROFILE_ABSENT ? HAS_CALLS : 0;
		has |= line->allocs_count ? HAS_MEMORY : 0;
	}
	return has;
}

/* The lines of one language that are shown. */
struct shown_lines {
	const struct profile_line **lines;
	size_t count, left;
};

/* Adds lines in their order: the program's own Python code (own), or all others. */
static void add_shown(struct shown_lines *shown, const struct composer *c,
		      const struct profile_process *p, enum perfx_language language, bool own)
{
	for (size_t i = 0; i < p->lines_count; i++) {
		const struct profile_line *line = &p->lines[i];
		const struct profile_frame frame = {.function = line->function,
						    .file = line->file,
						    .language = line->language,
						    .of_package = line->of_package,
						    .of_command = line->of_command};

		if (line->language != language || location_is_own_python(&frame) != own)
			continue;
		if (shown->count < c->limits->lines)
			shown->lines[shown->count++] = line;
		else
			shown->left++;
	}
}

/* "≈400 ms" */
static const char *cell_sampled(struct composer *c, uint64_t ns)
{
	return ns ? document_format(c->document, "≈%s", as_ns(ns)) : "-";
}

/* Adds the most expensive lines of one language. Returns how many are left out. */
static size_t compose_line_table(struct composer *c, const struct profile_process *p,
				 enum perfx_language language)
{
	struct shown_lines shown = {.lines = calloc(p->lines_count + 1, sizeof(*shown.lines))};
	char **sources = calloc(p->lines_count + 1, sizeof(*sources)); /* NULL: cannot be shown */
	const uint64_t *spinning_ns = compose_analysis(c, p)->lines_spinning_ns;
	unsigned has = columns_of_lines(c, p, language);
	struct source source = {0};

	if (!shown.lines || !sources) {
		c->document->failed = true;
		goto out;
	}
	add_shown(&shown, c, p, language, true);
	add_shown(&shown, c, p, language, false);
	for (size_t i = 0; i < shown.count && c->limits->sources; i++) {
		sources[i] = source_line(&source, shown.lines[i]->file, shown.lines[i]->line,
					 c->profile->start_unix_ns);
		has |= sources[i] ? HAS_SOURCE : 0;
	}
	document_headings(c->document, has, NUMBERS("CPU", .where = HAS_SAMPLES),
			  NUMBERS("Spins", .where = HAS_SPINS),
			  NUMBERS("Waiting", .rank = 2, .where = HAS_SAMPLES),
			  NUMBERS("In calls", .where = HAS_CALLS),
			  NUMBERS("Allocated", .rank = 1, .where = HAS_MEMORY),
			  NUMBERS("Allocs", .rank = 3, .where = HAS_MEMORY), REST("Line"),
			  WORDS("Source", .where = HAS_SOURCE));
	for (size_t i = 0; i < shown.count; i++) {
		const struct profile_line *line = shown.lines[i];
		struct text name = {0}; /* "Model.forward (train.py:41)" */

		location_line(&name, line);
		document_row(c->document, cell_sampled(c, line->on_cpu_ns),
			     cell_share(spinning_ns[line - p->lines] ?: PROFILE_ABSENT,
					line->on_cpu_ns),
			     cell_sampled(c, line->off_cpu_ns),
			     cell_ns(line->calls_ns ?: PROFILE_ABSENT),
			     cell_bytes(line->allocs_count ? line->alloc_bytes : PROFILE_ABSENT),
			     cell_count(line->allocs_count ?: PROFILE_ABSENT),
			     compose_name(c, text_peek(&name)),
			     sources[i] ? compose_mark(c, sources[i]) : "");
		text_finish(&name, &c->document->failed);
		free(sources[i]);
	}
	source_clear(&source);
out:
	free(sources);
	free(shown.lines);
	return shown.left;
}

/* "≈ is sampled: 100 samples on the CPU, one every 10.0 ms, …" */
static void add_intervals(struct text *text, const struct profile *profile,
			  const struct profile_process *p)
{
	const struct profile_sampling *sampling = &profile->sampling;
	struct profile_sample_sums sums = profile_sample_sums(p);
	const char *separator = "≈ is sampled: ";

	if (sums.on_cpu_count) {
		text_printf(text, "%s%s sample%s on the CPU", separator,
			    as_count(sums.on_cpu_count), sums.on_cpu_count == 1 ? "" : "s");
		if (sampling->on_cpu_interval_ns)
			text_printf(text, ", one every %s", as_ns(sampling->on_cpu_interval_ns));
		separator = "; ";
	}
	if (sums.off_cpu_count) {
		text_printf(text, "%s%s of waiting threads", separator,
			    as_count(sums.off_cpu_count));
		if (sampling->off_cpu_interval_ns)
			text_printf(text, ", one every %s", as_ns(sampling->off_cpu_interval_ns));
		separator = "; ";
	}
	text_add(text, *separator == ';' ? "." : "");
}

/* Adds a sentence, with a space before it unless it is the first. */
static void add_sentence(struct text *text, const char *sentence)
{
	text_add(text, text->length ? " " : "");
	text_add(text, sentence);
}

#define NATIVE_LIBRARIES 5

/* Classes with less of it are left out. */
#define ACCOUNT_SHARE 0.005

/* A frame of native code; "-": NULL. */
static const char *cell_native(struct composer *c, const struct profile_frame *frame)
{
	struct text cell = {0};

	if (!frame)
		return "-";
	add_native(&cell, frame);
	return document_words(c->document, &cell);
}

void compose_account(struct composer *c, const struct profile_process *p)
{
	const struct process_account *account = &compose_analysis(c, p)->account;
	const struct account *all = &account->all;

	/* without samples and waits the account adds nothing to the facts above */
	if (!account_is_known(account))
		return;
	document_headings(c->document, 0, NUMBERS("Time"), NUMBERS("Share", .rank = 1),
			  WORDS("All threads were"), REST("Mostly in"));
	for (int k = 0; k < ACCOUNT_CLASSES; k++) {
		if ((double)all->ns[k] < ACCOUNT_SHARE * (double)all->wall_ns)
			continue;
		document_row(c->document, cell_ns(all->ns[k]), cell_share(all->ns[k], all->wall_ns),
			     account_class_words(k),
			     cell_native(c, k == ACCOUNT_COMPUTING
						    ? hottest_of(account, 0).place.frame
						    : account->leads[k]));
	}
	document_printf(c->document, BLOCK_NOTE,
			"Wall time of %zu thread%s, as the kernel counts it; samples say how it is "
			"divided among these rows.",
			account->threads_count, plural(account->threads_count));
}

enum { HAS_SPINNING = 1, HAS_BELOW = 2 };

/* "CPU by library: libxgboost.so 41.0 %, libgomp.so.1 53.0 %." */
static void compose_libraries(struct composer *c, const struct profile_process *p)
{
	struct native_functions libraries;
	struct text text = {0};

	c->document->failed |= native_functions_find(&libraries, p, true) != 0;
	for (size_t i = 0; i < libraries.count && i < NATIVE_LIBRARIES; i++) {
		const struct native_function *library = &libraries.list[i];

		if ((double)library->self_ns < NATIVE_ROW_SHARE * (double)libraries.all_ns)
			break;
		text_add(&text, i ? ", " : "CPU by library: ");
		escape_name(&text, library->frame->module_base[0] ? library->frame->module_base
								  : "code without a file");
		text_printf(&text, " %s",
			    as_percent((double)library->self_ns / (double)libraries.all_ns));
	}
	free(libraries.list);
	text_add(&text, text.length ? "." : "");
	document_add_any(c->document, BLOCK_NOTE, &text);
}

/* How to name generated code. */
static void compose_perf_map(struct composer *c, const struct profile_process *p)
{
	const char *end = strchrnul(p->cmdline, PROFILE_ARGUMENT_END);
	struct text program = {0};

	text_add_bytes(&program, p->cmdline, (size_t)(end - p->cmdline));
	if (!strcmp(base_name(text_peek(&program)), "java"))
		document_printf(c->document, BLOCK_NOTE,
				"Code that the JVM compiled has no names yet: run `jcmd %d "
				"Compiler.perfmap`, then trace it again.",
				(int)p->pid);
	else if (!strcmp(base_name(text_peek(&program)), "node"))
		document_say(c->document, BLOCK_NOTE,
			     "Code that Node.js compiled has no names: start it with `node "
			     "--perf-basic-prof`.");
	text_clear(&program);
}

static void compose_natives(struct composer *c, const struct profile_process *p)
{
	struct native_functions functions;
	bool unnamed = false;
	unsigned has = 0;
	bool calls_say_it; /* several traced functions show where the CPU time goes */

	c->document->failed |= native_functions_find(&functions, p, false) != 0;
	calls_say_it = p->rows_count && 2 * p->self_ns > functions.all_ns &&
		       2 * p->rows[0].self_ns < p->self_ns;
	for (size_t i = 0; i < functions.count; i++) {
		const struct profile_frame *frame = functions.list[i].frame;

		unnamed |= !frame->function[0] && !frame->module_base[0];
		has |= functions.list[i].spinning_ns ? HAS_SPINNING : 0;
		has |= functions.list[i].below ? HAS_BELOW : 0;
	}
	if (functions.count && !(c->limits->brief && calls_say_it)) {
		document_headings(c->document, has, NUMBERS("CPU", .rank = 1), NUMBERS("Share"),
				  NUMBERS("Total"), NUMBERS("Spins", .where = HAS_SPINNING),
				  REST("Native function"), WORDS("Below", .where = HAS_BELOW));
		for (size_t i = 0; i < functions.count; i++) {
			const struct native_function *f = &functions.list[i];
			const char *below = "-"; /* "train.py:12" */

			if (f->below)
				below = document_format(c->document, "%s:%u",
							base_name(f->below->file), f->below->line);
			document_row(c->document, cell_sampled(c, f->self_ns),
				     cell_share(f->self_ns ?: PROFILE_ABSENT, functions.all_ns),
				     cell_share(f->total_ns, functions.all_ns),
				     cell_share(f->spinning_ns ?: PROFILE_ABSENT, f->total_ns),
				     cell_native(c, f->frame), compose_name(c, below));
		}
		document_printf(c->document, BLOCK_NOTE,
				"Share: of all threads' CPU time, sampled; Total: with callees%s.",
				has & HAS_SPINNING ? "; Spins: of that, only waiting on a CPU"
						   : "");
		compose_libraries(c, p);
		if (unnamed)
			compose_perf_map(c, p);
	}
	free(functions.list);
}

void compose_lines(struct composer *c, const struct profile_process *p)
{
	bool chart = c->limits->charts && p->samples.count;
	size_t python = 0, native, left = 0;
	struct text text = {0};
	unsigned has;

	for (size_t i = 0; i < p->lines_count; i++)
		python += p->lines[i].language == PERFX_LANGUAGE_PYTHON;
	native = p->lines_count - python;
	if ((!p->lines_count && !chart) || !c->limits->lines)
		return;
	document_say(c->document, BLOCK_SECTION, "Where in the code");
	if (chart)
		document_add_chart(c->document,
				   (struct chart){.kind = CHART_SAMPLES, .process = p});
	if (python)
		left += compose_line_table(c, p, PERFX_LANGUAGE_PYTHON);
	/* in brief a Python program's own lines are enough */
	if (python && c->limits->brief) {
		left += native;
	} else if (native) {
		if (python)
			document_say(c->document, BLOCK_CAPTION, "Native lines");
		left += compose_line_table(c, p, PERFX_LANGUAGE_NATIVE);
	}
	compose_natives(c, p);
	has = columns_of_lines(c, p, PERFX_LANGUAGE_PYTHON) |
	      columns_of_lines(c, p, PERFX_LANGUAGE_NATIVE);
	add_intervals(&text, c->profile, p);
	if (has & HAS_SPINS)
		add_sentence(&text, "Spins: of CPU, only waiting there.");
	if (has & HAS_CALLS)
		add_sentence(&text,
			     "In calls: time of the traced calls that the line makes, exact.");
	if (has & HAS_MEMORY)
		add_sentence(&text, "Allocated: by the line and what it calls in other languages.");
	if (left)
		text_printf(&text, "%s%zu more line%s in the %s report.", text.length ? " " : "",
			    left, plural(left), c->limits->brief ? "HTML" : "JSON");
	document_add_any(c->document, BLOCK_NOTE, &text);
}

static void add_object(struct text *text, const char *before, const struct profile_activity *wait)
{
	if (!wait->object)
		return;
	text_add(text, before);
	if (wait->object_name[0])
		escape_name(text, wait->object_name);
	else
		text_printf(text, "0x%llx", (unsigned long long)wait->object);
}

static void add_thread(struct text *text, const struct profile_process *p, uint32_t tid)
{
	const char *name = profile_thread_name(p, tid);

	if (name[0]) {
		escape_name(text, name);
		text_printf(text, " (%u)", tid);
	} else {
		text_printf(text, "%u", tid);
	}
}

void document_add_wait(struct text *text, const struct profile_process *p,
		       const struct profile_activity *wait)
{
	static const struct {
		const char *words, *before_object;
	} reasons[PERFX_WAIT_REASONS] = {
		[PERFX_WAIT_NONE] = {"?", " "},
		[PERFX_WAIT_READ] = {"read", " from "},
		[PERFX_WAIT_WRITE] = {"write", " to "},
		[PERFX_WAIT_POLL] = {"poll", " of "},
		[PERFX_WAIT_EPOLL] = {"epoll", " of "},
		[PERFX_WAIT_FUTEX] = {"lock or condition", " "},
		[PERFX_WAIT_GIL] = {"the GIL", " "},
		[PERFX_WAIT_SLEEP] = {"sleep", " "},
		[PERFX_WAIT_WAIT] = {"a child's end", ": "},
		[PERFX_WAIT_DISK] = {"disk", ": "},
		[PERFX_WAIT_PAGE_FAULT] = {"page fault", ": "},
		[PERFX_WAIT_RUNNABLE] = {"a free CPU", ", used by "}, /* add_rivals() */
		[PERFX_WAIT_SYSCALL] = {"", " of "},
		[PERFX_WAIT_STOPPED] = {"stopped: SIGSTOP, a debugger or a freezer", " "},
	};

	if (wait->reason == PERFX_WAIT_SYSCALL && syscall_name(wait->syscall))
		text_add(text, syscall_name(wait->syscall));
	else if (wait->reason == PERFX_WAIT_SYSCALL)
		text_printf(text, "system call %u", wait->syscall);
	/* its name is complete: "lock at libgomp.so.1+0x1234" */
	if (wait->reason == PERFX_WAIT_FUTEX && wait->object_name[0]) {
		escape_name(text, wait->object_name);
		return;
	}
	text_add(text, reasons[wait->reason].words);
	if (wait->reason != PERFX_WAIT_GIL)
		add_object(text, reasons[wait->reason].before_object, wait);
	else if (wait->holder_tid) {
		text_add(text, ", held by thread ");
		add_thread(text, p, wait->holder_tid);
	}
}

const struct profile_frame *stack_line(const struct profile_stack *stack)
{
	if (!stack)
		return NULL;
	return profile_line_frame(stack->frames, stack->frames_count, PERFX_LANGUAGE_PYTHON)
		       ?: profile_line_frame(stack->frames, stack->frames_count,
					     PERFX_LANGUAGE_NATIVE);
}

/* Waits for the GIL of at least this share of the wall time get a sentence each. */
#define GIL_SHARE     0.01
#define GIL_SENTENCES 3

enum { HAS_STACKS = 1 };

/* A row: a wait, or all the time in which a thread had no CPU. */
struct wait_row {
	const struct profile_activity *wait; /* the longest of them */
	uint64_t ns, count, max_ns;
	bool idle;
};

/* A thread that waits for this share of the wall time is idle. */
#define IDLE_SHARE 0.99

/* Idle threads last: they do not slow the program. */
ORDER(by_importance, struct wait_row, ASCENDING(a->idle, b->idle), DESCENDING(a->ns, b->ns),
      ASCENDING(a->wait, b->wait))

/* malloc'd; NULL: memory is out. */
static struct wait_row *make_wait_rows(const struct profile_process *p, size_t *count)
{
	struct wait_row *rows = calloc(p->blocked.count + 1, sizeof(*rows));
	double idle_ns = IDLE_SHARE * (double)profile_wall_ns(p);
	struct map64 rivals = {0}; /* tid → its row of no CPU */

	*count = 0;
	for (size_t i = 0; rows && i < p->blocked.count; i++) {
		const struct profile_activity *wait = &p->blocked.list[i];
		bool runnable = wait->reason == PERFX_WAIT_RUNNABLE;
		uint32_t at = runnable ? map64_get(&rivals, wait->tid) : MAP64_NONE;
		struct wait_row *row = &rows[at == MAP64_NONE ? *count : at];

		if (at == MAP64_NONE) {
			if (runnable && map64_put(&rivals, wait->tid, (uint32_t)*count)) {
				free(rows);
				rows = NULL;
				break;
			}
			row->wait = wait;
			++*count;
		}
		row->ns += wait->ns;
		row->count += wait->count;
		row->max_ns = max_u64(row->max_ns, wait->max_ns);
		row->idle = !runnable && (double)wait->ns >= idle_ns;
	}
	map64_clear(&rivals);
	for (size_t i = 0; rows && i < *count; i++) /* it may have begun before the time slice */
		rows[i].max_ns = min_u64(rows[i].max_ns, rows[i].ns);
	if (rows)
		qsort(rows, *count, sizeof(*rows), by_importance);
	return rows;
}

#define RIVALS_NAMED 3

/* "a free CPU: cc1 (12 processes) 41.0 %, make (pid 77) 12.3 %, …": in the order of their time */
static void add_rivals(struct text *text, const struct profile_process *p,
		       const struct wait_row *row)
{
	unsigned named = 0;

	text_add(text, "a free CPU");
	for (size_t i = 0; i < p->blocked.count && named < RIVALS_NAMED; i++) {
		const struct profile_activity *wait = &p->blocked.list[i];

		if (wait->reason != PERFX_WAIT_RUNNABLE || wait->tid != row->wait->tid ||
		    !wait->object)
			continue;
		add_object(text, named ? ", " : ": ", wait);
		/* " (pid 77)", " (12 processes)" */
		if (wait->rival_kind == PROFILE_RIVAL_OWN)
			text_add(text, " itself");
		else if (wait->rivals_count > 1)
			text_printf(text, " (%u processes)", wait->rivals_count);
		else if (wait->object_name[0])
			text_printf(text, " (pid %llu)", (unsigned long long)wait->object);
		text_printf(text, " %s", as_percent((double)wait->ns / (double)row->ns));
		named++;
	}
}

void compose_waits(struct composer *c, const struct profile_process *p)
{
	unsigned has = 0, gil_sentences = 0;
	struct text text = {0};
	struct wait_row *rows;
	size_t count;

	if (!p->blocked.count || !c->limits->waits)
		return;
	rows = make_wait_rows(p, &count);
	if (!rows) {
		c->document->failed = true;
		return;
	}
	document_say(c->document, BLOCK_SECTION, "Waiting");
	for (size_t i = 0; i < p->blocked.count; i++) {
		const struct profile_activity *wait = &p->blocked.list[i];

		has |= wait->stack ? HAS_STACKS : 0;
		if (wait->reason != PERFX_WAIT_GIL || gil_sentences == GIL_SENTENCES ||
		    (double)wait->ns < GIL_SHARE * (double)profile_wall_ns(p))
			continue;
		/* "Thread python3 (4242) waited 2.10 s for the GIL, held by thread loader (4243)."
		 */
		text_add(&text, "Thread ");
		add_thread(&text, p, wait->tid);
		text_printf(&text, " waited %s for ", as_ns(wait->ns));
		document_add_wait(&text, p, wait);
		text_add(&text, ".");
		document_add(c->document, BLOCK_PARAGRAPH, &text);
		gil_sentences++;
	}
	document_headings(c->document, has, NUMBERS("Time"), NUMBERS("Waits", .rank = 2),
			  NUMBERS("Longest", .rank = 3), WORDS("Thread", .cut_end = true),
			  REST("For", .cut_end = true),
			  WORDS("In (sampled)", .rank = 1, .where = HAS_STACKS));
	for (size_t i = 0; i < count && i < c->limits->waits; i++) {
		const struct wait_row *row = &rows[i];
		const struct profile_stack *stack = row->wait->stack;
		const struct profile_frame *line = stack_line(stack);
		struct text thread = {0}, reason = {0};

		if (!line && stack && stack->frames_count)
			line = stack->frames[0];
		add_thread(&thread, p, row->wait->tid);
		if (row->wait->reason == PERFX_WAIT_RUNNABLE)
			add_rivals(&reason, p, row);
		else
			document_add_wait(&reason, p, row->wait);
		document_row(c->document, cell_ns(row->ns), cell_count(row->count),
			     cell_ns(row->max_ns), document_words(c->document, &thread),
			     document_words(c->document, &reason), compose_frame(c, line));
	}
	free(rows);
	document_printf(c->document, BLOCK_NOTE,
			"Measured, not sampled%s; the times of all threads are added up.%s",
			profile_waits_are_whole(c->profile)
				? ""
				: ", until the overhead budget stopped recording waits",
			has && !c->limits->brief ? " In: where most samples of it were." : "");
	if (count > c->limits->waits)
		compose_left_out(c, count - c->limits->waits, "", compose_larger(c));
}

static void add_quality(struct text *text, const struct profile_stack_quality *quality)
{
	double stacks = (double)quality->taken_count;

	text_printf(text, "%s of stacks reach the thread's start",
		    as_percent((double)quality->complete_count / stacks));
	if (quality->guessed_count)
		text_printf(text, "; %s are guessed in part (~)",
			    as_percent((double)quality->guessed_count / stacks));
	if (quality->cut_count)
		text_printf(text, "; %s are deeper than %u frames",
			    as_percent((double)quality->cut_count / stacks),
			    PERFX_STACK_FRAMES_MAX);
	text_add(text, ".");
	if (quality->left_out_count)
		text_printf(text,
			    " Of %s more allocations the stack was not followed, to keep the cost "
			    "down.",
			    as_count(quality->left_out_count));
	if (quality->gone_count)
		text_printf(text, " %s Python code object%s gone before %s could be named.",
			    as_count(quality->gone_count),
			    quality->gone_count == 1 ? " was" : "s were",
			    quality->gone_count == 1 ? "it" : "they");
}

void compose_stack_quality(struct composer *c, const struct profile_process *p)
{
	const struct profile_stack_quality *quality = &p->stacks;
	struct profile_sample_sums sums = profile_sample_sums(p);
	uint64_t taken = sums.on_cpu_count + sums.off_cpu_count;
	struct text text = {0};

	if (quality->known && quality->taken_count)
		add_quality(&text, quality);
	if (c->profile->sampling_known)
		add_marked(&text, " No samples: ", c->profile->sampling.why, ".");
	if (c->profile->sampling_known && (taken || p->samples_lost))
		text_printf(&text, " %s sample%s, %s lost.", as_count(taken), taken == 1 ? "" : "s",
			    p->samples_lost ? as_count(p->samples_lost) : "none");
	if (p->python_version && p->python_why[0]) {
		text_add(&text, " No Python frames");
		add_marked(&text, " (Python ", p->python_version, ")");
		add_marked(&text, ": ", p->python_why, ".");
	}
	if (!text.length) {
		text_clear(&text);
		return;
	}
	if (c->limits->brief) {
		document_add(c->document, BLOCK_NOTE, &text);
		return;
	}
	document_say(c->document, BLOCK_SECTION, "Call stacks");
	document_add(c->document, BLOCK_PARAGRAPH, &text);
	if (quality->known && quality->ends_count) {
		document_headings(c->document, 0, NUMBERS("Stacks"), NUMBERS("Share"),
				  REST("Ended at"), WORDS("In"));
		for (size_t i = 0; i < quality->ends_count; i++) {
			const struct profile_stack_ends *ends = &quality->ends[i];

			document_row(c->document, cell_count(ends->count),
				     cell_share(ends->count, quality->taken_count),
				     meaning_of_stack_end(ends->end),
				     compose_name(c,
						  ends->module_base[0] ? ends->module_base : "-"));
		}
	}
}
