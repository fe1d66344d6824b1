/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to the user at the terminal: one line each, on stderr, in the order in which they
 * are said. The layer that knows the user's noun (a pid, a file, a pattern) says it, once.
 */
#ifndef PERFX_BASE_MESSAGE_H
#define PERFX_BASE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "perfx-trace: " + text + newline. The text is escaped (escape_display), because names from a
 * traced process may contain control characters. errno is preserved. */
void msg_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A status line, overwritten by the next one: only where stderr is a terminal that this program has
 * in the foreground, and not TERM=dumb. Cut to its width. The next message or msg_status_clear()
 * removes it. Escaped as above. */
void msg_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void msg_status_clear(void);
/* Is there such a terminal? */
bool msg_has_status(void);

/*
 * The reductions of a recording so far, made because it cost too much, a line for each state:
 *
 *     overhead budget: sgemm_ and dgemm_ only counted since 2.1 s: -F keeps those that it names
 *
 * Each reduction has a subject, its state, and a note on the effect or on how to avoid it. A new
 * reduction of a subject replaces the old one.
 */
void msg_reductions_begin(uint64_t start_ns);
void msg_reduced(const char *what, const char *now, const char *note);
/* Call it regularly: prints them if they have changed. in_place: no other program writes to the
 * terminal, so they are one row, cut at its end, which replaces the previous one; otherwise they
 * are printed when the changes have stopped for a while. ended: the last call, which prints them
 * at once and in full. */
void msg_reductions_show(bool in_place, bool ended);

/* While a screen covers the terminal, messages are kept, the last ones at least, and there is no
 * status line; msg_release prints the kept lines. Other threads may say something meanwhile. */
void msg_hold(void);
void msg_release(void);
/* How many were said since msg_hold; the last one, as one line, cut to `size`. */
size_t msg_held(char *line, size_t size);

/* Exit codes, as documented in the man page. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,       /* no such pid, attach failed, output failed */
	EXIT_USAGE = 2,	       /* usage, bad value, nothing matches */
	EXIT_TARGET = 3,       /* the target was killed, or gone before anything was attached */
	EXIT_FINDINGS = 4,     /* findings over --fail-on */
	EXIT_PRIVILEGE = 77,   /* not enough privilege */
	EXIT_INTERRUPTED = 130 /* second Ctrl-C */
};

/*
 * Ctrl-C (SIGINT, SIGTERM, SIGHUP): the first asks for the end of the recording and its report, a
 * second SIGINT or SIGTERM ends the program at once with 130. Nothing needs to be cleaned up then:
 * links end with their descriptors.
 */
void interrupt_install(void);
/* The signal that came; 0: none. */
int interrupt_asked(void);
/* Sets the message of the second signal: the data that it loses. Default: "ended at once". */
void interrupt_says(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Called by the second one before it ends the program, in the signal's handler; NULL: none. */
void interrupt_at_exit(void (*leave)(void));

/* From now on SIGUSR1 asks for a file of the flight recorder. */
void interrupt_install_dumps(void);
/* How many came, so far. */
unsigned interrupt_dumps_asked(void);

#endif
