/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files behind thunk.h share. */
#ifndef PERFX_XLA_INTERNAL_H
#define PERFX_XLA_INTERNAL_H

#include "xla/shape.h"
#include "xla/thunk.h"

/* Adds a product of so many multiply-adds. False: too much. */
bool xla_add_product(struct xla_work *work, const struct xla_shape *left,
		     const struct xla_shape *right, const struct xla_shape *out,
		     uint64_t multiply_adds);

/* hlo.c: of a thunk that was made from an instruction. False: that cannot be read. */
bool xla_fusion_work(const struct xla_memory *memory, const struct xla_words *thunk,
		     const char *operation, struct xla_work *work);

#endif
