/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_SITE_SWITCHES_H
#define PERFX_SITE_SWITCHES_H

#include "elf/image.h"

/*
 * Does any function of the file leave its stack for another (a coroutine switch)? A return probe on
 * a frame that is left so, however far up, kills the program. Names do not tell: such code is often
 * a few instructions written by hand. So instructions that load the stack pointer from an object or
 * an argument, with one nearby that saves it, are looked for, and the function around them decoded;
 * where there is no unwind table to find it, they are taken for a switch.
 *
 * Files with more than limit bytes of code are not searched: false.
 */
bool image_switches_stacks(struct image *image, size_t limit);

#endif
