/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ctrl-C (SIGINT, SIGTERM): the first asks for the end of the recording and its report, the second
 * ends the program at once with 130. Nothing needs to be cleaned up then: links hang on
 * descriptors.
 */
#ifndef PERFX_BASE_INTERRUPT_H
#define PERFX_BASE_INTERRUPT_H

#include <stdbool.h>

void interrupt_install(void);
bool interrupt_asked(void);
/* By which signal; 0: it is not. */
int interrupt_signal(void);

/* SIGUSR1 asks for a file of the flight recorder from now on. */
void interrupt_install_dumps(void);
/* How often it has, so far. */
unsigned interrupt_dumps_asked(void);

#endif
