/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does a function leave its own stack? A coroutine switch loads the stack pointer from where it
 * was saved for another coroutine; the frames of the calls that were open stay behind.
 */
#ifndef PERFX_SITE_STACK_H
#define PERFX_SITE_STACK_H

#include "site/body.h"

bool stack_is_switched(const struct body *body);

#endif
