/* SPDX-License-Identifier: BSD-2-Clause */
#define TURN turn_b
#include "turn_a.c"
