/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The terminal as a screen: draws what layout.h has made, and reads keys. One at a time.
 *
 * The terminal is left as it was by screen_close, and by signals that end the program.
 */
#ifndef PERFX_TOP_SCREEN_H
#define PERFX_TOP_SCREEN_H

#include "top/layout.h"

#include <stdbool.h>
#include <stdint.h>

/* Do stdin and stdout lead to a terminal? */
bool screen_is_possible(void);

/* Takes the terminal over; messages are kept until screen_close (base/message.h). False: its kind
 * is not known, and nothing has happened. */
bool screen_open(void);
void screen_close(void);
bool screen_is_open(void);

void screen_size(unsigned *width, unsigned *height);
void screen_draw(const struct top_layout *layout);

enum screen_input { SCREEN_NONE, SCREEN_KEY, SCREEN_RESIZED, SCREEN_GONE };

/* The next key that was pressed (enum top_key); does not wait. */
enum screen_input screen_key(uint32_t *key);

#endif
