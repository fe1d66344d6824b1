/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel's x86 uprobes make of the instruction under a probe
 * (arch/x86/kernel/uprobes.c, 5.15 to 6.18): emulate it in the trap, single-step a copy of it,
 * or refuse the probe.
 */
#ifndef PERFX_SITE_UPROBES_H
#define PERFX_SITE_UPROBES_H

#include "site/insn.h"

/* From the bytes of a decoded instruction: sets emulated, refused, nop. */
void uprobes_classify(const uint8_t *code, struct insn *insn);

#endif
