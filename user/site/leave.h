/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which jumps leave a function for good (tail calls), and which only go to its cold part?
 */
#ifndef PERFX_SITE_LEAVE_H
#define PERFX_SITE_LEAVE_H

#include "site/body.h"

/* Sets insn.leaves, insn.is_table_target and body.goes_anywhere, adds cold parts to the body as
 * it meets them, and notes doubts. 0 or -ENOMEM. */
int leave_decide(struct body *body);

#endif
