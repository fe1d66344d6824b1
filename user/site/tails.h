/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a function that ends by a jump to another returns after all: in that other. Needed only
 * when its result is wanted.
 */
#ifndef PERFX_SITE_TAILS_H
#define PERFX_SITE_TAILS_H

#include "site/body.h"

/* Operator new and its like go through three. */
#define TAILS_MAX 8

struct tails {
	uint64_t starts[TAILS_MAX], sizes[TAILS_MAX];
	int count;
};

/* Notes the function that a leaving jump goes to. NULL, or why that cannot be followed (static). */
const char *tails_add(struct tails *tails, const struct body *body, const struct insn *jump);

#endif
