// SPDX-License-Identifier: BSD-2-Clause
#include "base/message.h"

#include "base/clock.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* stderr is one for the whole program, and so is the line on it */
static volatile sig_atomic_t status_shown;
/* The line above is that of the reductions, in one row, so it can be replaced. */
static bool line_above_is_reductions;

#define MESSAGE_BEGIN "perfx-trace: "
#define TO_LINE_START "\r\x1b[K"       /* and clears the line */
#define LINE_ABOVE    "\r\x1b[A\x1b[K" /* the same for the line above */

#define HELD_MAX 100

static struct {
	pthread_mutex_t lock;
	bool holds;
	size_t count;	       /* said meanwhile; of them the last are kept */
	char *lines[HELD_MAX]; /* each with its newline, at its number modulo HELD_MAX */
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

void msg_hold(void)
{
	msg_status_clear();
	pthread_mutex_lock(&held.lock);
	held.holds = true;
	held.count = 0;
	pthread_mutex_unlock(&held.lock);
}

/* Keeps a line; false: it is to be printed. */
static bool hold(const char *line)
{
	char **place;
	bool holds;

	pthread_mutex_lock(&held.lock);
	holds = held.holds;
	if (holds) {
		place = &held.lines[held.count++ % HELD_MAX];
		free(*place);
		*place = strdup(line);
	}
	pthread_mutex_unlock(&held.lock);
	return holds;
}

void msg_release(void)
{
	pthread_mutex_lock(&held.lock);
	held.holds = false;
	for (size_t i = 0; i < HELD_MAX; i++) {
		char **place = &held.lines[(held.count + i) % HELD_MAX];

		if (*place)
			fputs(*place, stderr);
		free(*place);
		*place = NULL;
	}
	pthread_mutex_unlock(&held.lock);
}

size_t msg_held(char *line, size_t size)
{
	const char *last;
	size_t count;

	pthread_mutex_lock(&held.lock);
	count = held.count;
	last = count ? held.lines[(count - 1) % HELD_MAX] : NULL;
	snprintf(line, size, "%s", last ? last + strlen(MESSAGE_BEGIN) : "");
	pthread_mutex_unlock(&held.lock);
	line[strcspn(line, "\n")] = '\0';
	return count;
}

/* Escapes the text: names from a traced process may contain control characters. */
static void add_escaped(struct text *line, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static void add_escaped(struct text *line, const char *fmt, va_list ap)
{
	char words[4096];

	vsnprintf(words, sizeof(words), fmt, ap);
	escape_display(line, words);
}

static void make_line(struct text *line, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static void make_line(struct text *line, const char *fmt, va_list ap)
{
	text_add(line, MESSAGE_BEGIN);
	add_escaped(line, fmt, ap);
	text_add(line, "\n");
}

void msg_say(const char *fmt, ...)
{
	int saved_errno = errno;
	struct text line = {0};
	va_list ap;

	va_start(ap, fmt);
	make_line(&line, fmt, ap);
	va_end(ap);
	line_above_is_reductions = false;
	if (!hold(text_peek(&line))) {
		msg_status_clear();
		/* one write, so that lines of two tracers do not mix */
		fwrite(text_peek(&line), 1, line.length, stderr);
	}
	text_clear(&line);
	errno = saved_errno;
}

static unsigned terminal_columns(void)
{
	struct winsize size = {0};

	return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

/* A line for each change would be ten lines in two seconds: if the line cannot be replaced, it is
 * printed when nothing has changed for this long. */
#define SETTLED_NS 2000000000u

struct reduction {
	char *what, *now, *note;
	double since_s;
	bool added; /* added to the line that is being composed */
};

static struct {
	struct reduction *list;
	size_t count, capacity;
	uint64_t start_ns, changed_ns;
	bool changed; /* since the line was printed */
	bool is_cut;  /* the printed line was cut to one row */
} reductions;

void msg_reductions_begin(uint64_t start_ns)
{
	FOR_EACH_OF (row, reductions) {
		free(row->what);
		free(row->now);
		free(row->note);
	}
	free(reductions.list);
	memset(&reductions, 0, sizeof(reductions));
	reductions.start_ns = start_ns;
}

void msg_reduced(const char *what, const char *now, const char *note)
{
	struct reduction *row = NULL, old;

	FOR_EACH_OF (other, reductions)
		if (other->what && !strcmp(other->what, what))
			row = other;
	if (!row) {
		if (LIST_ADD_TO(&reductions, (struct reduction){0}))
			return;
		row = &reductions.list[reductions.count - 1];
	}
	/* the reduced "call stacks of tensor allocations" say nothing once these are sampled */
	for (size_t i = 0; i < reductions.count; i++) {
		char **part = &reductions.list[i].what, *of = *part ? strstr(*part, " of ") : NULL;

		if (!of || strcmp(of + strlen(" of "), what) != 0 ||
		    !(begins_with(now, "not recorded") || begins_with(now, "sampled")))
			continue;
		free(*part);
		*part = NULL;
	}
	old = *row;
	reductions.changed_ns = clock_monotonic_ns();
	reductions.changed = true;
	*row = (struct reduction){
		.what = strdup(what),
		.now = strdup(now),
		.note = strdup(note),
		.since_s = (double)(reductions.changed_ns - reductions.start_ns) * 1e-9,
	};
	free(old.what);
	free(old.now);
	free(old.note);
}

/* Adds all rows in the same state as this one: "sgemm_, dgemm_ and 3 more only counted since 0.3 s:
 * -F 'tinyblas.so:sgemm_' times it" */
static void add_reduction(struct text *line, const struct reduction *like)
{
	struct reduction *second = NULL;
	size_t count = 0;

	FOR_EACH_OF (row, reductions) {
		if (row->added || strcmp(row->now, like->now) != 0)
			continue;
		row->added = true;
		if (++count == 2)
			second = row;
	}
	text_add(line, like->what);
	if (second)
		text_printf(line, "%s%s", count > 2 ? ", " : " and ", second->what);
	if (count > 2)
		text_printf(line, " and %zu more", count - 2);
	text_printf(line, " %s since %.1f s: %s", like->now, like->since_s,
		    second && begins_with(like->note, "-F '") ? "-F keeps those that it names"
							      : like->note);
}

#define REDUCTIONS_BEGIN "overhead budget: "

/* All of them in one row as far as they fit, or a line for each state. */
static void say_reductions(bool in_one_row)
{
	const unsigned columns = terminal_columns() - 1 - (unsigned)strlen(MESSAGE_BEGIN);
	struct text line = {0}, shown = {0};

	FOR_EACH_OF (row, reductions)
		row->added = !row->what || !row->now || !row->note;
	FOR_EACH_OF (row, reductions) {
		if (row->added)
			continue;
		text_add(&line, line.length ? "; " : REDUCTIONS_BEGIN);
		add_reduction(&line, row);
		if (in_one_row)
			continue;
		msg_say("%s", text_peek(&line));
		text_clear(&line);
	}
	reductions.is_cut = in_one_row && utf8_width(text_peek(&line)) > columns;
	if (reductions.is_cut)
		utf8_cut(&shown, text_peek(&line), columns);
	if (in_one_row)
		msg_say("%s", text_peek(reductions.is_cut ? &shown : &line));
	text_clear(&line);
	text_clear(&shown);
}

void msg_reductions_show(bool in_place, bool ended)
{
	bool has_waited = clock_monotonic_ns() - reductions.changed_ns >= SETTLED_NS;

	in_place &= msg_has_status();
	if (!reductions.changed && !(ended && reductions.is_cut))
		return;
	if (!in_place && !ended && !has_waited)
		return;
	if (in_place && line_above_is_reductions) {
		msg_status_clear();
		fputs(LINE_ABOVE, stderr);
	}
	say_reductions(in_place && !ended);
	reductions.changed = false;
	line_above_is_reductions = in_place && !ended;
}

bool msg_has_status(void)
{
	const char *terminal = getenv("TERM");

	return !held.holds && isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") &&
	       tcgetpgrp(STDERR_FILENO) == getpgrp();
}

void msg_status(const char *fmt, ...)
{
	struct text words = {0}, line = {0};
	int saved_errno = errno;
	va_list ap;

	if (msg_has_status()) {
		va_start(ap, fmt);
		add_escaped(&words, fmt, ap);
		va_end(ap);
		text_add(&line, TO_LINE_START);
		/* in the last column some terminals begin another line */
		utf8_cut(&line, text_peek(&words), terminal_columns() - 1);
		fwrite(text_peek(&line), 1, line.length, stderr);
		status_shown = 1;
		text_clear(&words);
		text_clear(&line);
	}
	errno = saved_errno;
}

void msg_status_clear(void)
{
	if (status_shown)
		fwrite(TO_LINE_START, 1, strlen(TO_LINE_START), stderr);
	status_shown = 0;
}

static volatile sig_atomic_t asked;
static void (*volatile at_exit)(void);

/* Formatted in advance: a signal handler must not format. */
static struct {
	char line[1024];
	volatile size_t length;
} exit_message;

static void on_signal(int signal)
{
	/* the kernel and the shell may each send one when a terminal goes away */
	if (asked && signal == SIGHUP)
		return;
	if (asked) {
		if (at_exit)
			at_exit();
		if ((status_shown && write(STDERR_FILENO, "\n", 1) < 0) ||
		    write(STDERR_FILENO, exit_message.line, exit_message.length) < 0)
			_exit(EXIT_INTERRUPTED);
		_exit(EXIT_INTERRUPTED);
	}
	asked = signal;
}

void interrupt_says(const char *fmt, ...)
{
	struct text line = {0};
	va_list ap;

	exit_message.length = 0;
	va_start(ap, fmt);
	make_line(&line, fmt, ap);
	va_end(ap);
	snprintf(exit_message.line, sizeof(exit_message.line), "%s", text_peek(&line));
	exit_message.length = strlen(exit_message.line);
	text_clear(&line);
}

void interrupt_install(void)
{
	/* system calls of libraries go on; epoll_wait is never restarted and ends the wait */
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* a session that is lost ends a recording, whose report may go to a file; nohup prevents it
	 */
	if (signal(SIGHUP, SIG_IGN) != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
	/* a pipe that closes, and a file that may not grow, is an error of write, not a death */
	interrupt_says("ended at once");
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	sigaction(SIGXFSZ, &action, NULL);
}

int interrupt_asked(void)
{
	return asked;
}

void interrupt_at_exit(void (*leave)(void))
{
	at_exit = leave;
}

static volatile sig_atomic_t dumps;

static void on_dump(int signal)
{
	(void)signal;
	dumps++;
}

void interrupt_install_dumps(void)
{
	struct sigaction action = {.sa_handler = on_dump, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &action, NULL);
}

unsigned interrupt_dumps_asked(void)
{
	return (unsigned)dumps;
}
