/* SPDX-License-Identifier: BSD-2-Clause */
/* Command lines as one string. */
#ifndef PERFX_BASE_SHELL_H
#define PERFX_BASE_SHELL_H

#include "base/text.h"

/* Adds an argument so that a POSIX shell reads it back: plain, or in single quotes. */
void shell_quote(struct text *into, const char *argument);
/* Takes the next word of a quoted command line, as a shell would read it, and returns where the
 * rest begins; NULL when there is none. */
const char *shell_word(struct text *word, const char *line);

#endif
