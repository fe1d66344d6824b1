// SPDX-License-Identifier: BSD-2-Clause
#include "base/message.h"

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

#define MESSAGE_BEGIN "perfx-trace: "
#define TO_LINE_START "\r\x1b[K" /* and empties the line */

/* --- messages that are kept while a screen is shown --- */

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

/* --- one at a time --- */

void msg_say(const char *fmt, ...)
{
	char text[4096], line[4 * sizeof(text) + 32];
	int saved_errno = errno;
	size_t used;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);

	used = (size_t)sprintf(line, MESSAGE_BEGIN);
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c < 0x20 || c == 0x7f)
			used += (size_t)sprintf(line + used, "\\x%02x", c);
		else
			line[used++] = *p;
	}
	line[used++] = '\n';
	line[used] = '\0';
	if (!hold(line)) {
		msg_status_clear();
		/* one write, so that lines of two tracers do not mix */
		fwrite(line, 1, used, stderr);
	}
	errno = saved_errno;
}

bool msg_has_status(void)
{
	const char *terminal = getenv("TERM");

	return !held.holds && isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") &&
	       tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static unsigned terminal_columns(void)
{
	struct winsize size = {0};

	return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

void msg_status(const char *fmt, ...)
{
	char words[512];
	struct text line = {0};
	int saved_errno = errno;
	va_list ap;

	if (msg_has_status()) {
		va_start(ap, fmt);
		vsnprintf(words, sizeof(words), fmt, ap);
		va_end(ap);
		text_add(&line, TO_LINE_START);
		/* in the last column some terminals begin another line */
		utf8_cut(&line, words, terminal_columns() - 1);
		fwrite(text_peek(&line), 1, line.length, stderr);
		status_shown = 1;
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

/* Ends the line where it stands, for the signal handler that ends the program. */
static void status_leave(void)
{
	if (status_shown && write(STDERR_FILENO, "\n", 1) < 0)
		return;
	status_shown = 0;
}

static volatile sig_atomic_t asked;
static void (*volatile at_exit)(void);

static void on_signal(int signal)
{
	if (asked) {
		if (at_exit)
			at_exit();
		status_leave();
		_exit(EXIT_INTERRUPTED);
	}
	asked = signal;
}

void interrupt_install(void)
{
	/* system calls of libraries go on; epoll_wait is never restarted and ends the wait */
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* a pipe that closes, and a file that may not grow, is an error of write, not a death */
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	sigaction(SIGXFSZ, &action, NULL);
}

bool interrupt_asked(void)
{
	return asked;
}

int interrupt_signal(void)
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
