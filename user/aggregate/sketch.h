/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mergeable histogram of durations with a stated error: an octave has 32 buckets, so a quantile
 * is at most 1/64 = 1.6 % away from a value of that rank. Memory is bounded: 256 bytes for each
 * octave between the smallest value and the largest, 60 octaves at most (a function's durations
 * usually span two to eight).
 */
#ifndef PERFX_AGGREGATE_SKETCH_H
#define PERFX_AGGREGATE_SKETCH_H

#include <stdint.h>

#define SKETCH_ERROR (1.0 / 64)

struct sketch;

struct sketch *sketch__new(void);
void sketch__free(struct sketch *sketch);
/* 0 or -ENOMEM; then the value is not in. */
int sketch__add(struct sketch *sketch, uint64_t value);
int sketch__merge(struct sketch *into, const struct sketch *from);
uint64_t sketch__count(const struct sketch *sketch);
/* The value at quantile q in [0, 1]: nearest rank, middle of its bucket; 0 when empty. */
uint64_t sketch__quantile(const struct sketch *sketch, double q);

#endif
