/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loops that only wait: for a value in memory that another thread writes. A short loop is one if it
 * has a `pause`, which is there for such loops alone; or if each round of it is like the one
 * before: it reads memory or the time stamp counter, writes nothing but an exchange (a spin lock),
 * and no register carries a value from one round into the next. Loops that compute or search carry
 * one.
 */
#ifndef PERFX_SITE_SPIN_H
#define PERFX_SITE_SPIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer loops do more than wait. */
#define SPIN_LOOP_BYTES_MAX 64

/* Is the instruction at code[at] one of a loop that only waits? code: x86-64, size bytes; an
 * instruction begins at `at`. Code before it and behind it is needed for SPIN_LOOP_BYTES_MAX. */
bool spin_loop_at(const uint8_t *code, size_t size, size_t at);

#endif
