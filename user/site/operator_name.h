/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the name of a PyTorch operator ends and its overload begins.
 *
 * A symbol joins both by '_', which names contain too: add_Tensor is the overload Tensor of add,
 * but unique_dim has no overload, and sum_dim_IntList is dim_IntList of sum. The operator's code
 * separates them: its first call looks the operator up in the dispatcher by the two strings
 * "aten::add" and "Tensor".
 */
#ifndef PERFX_SITE_OPERATOR_NAME_H
#define PERFX_SITE_OPERATOR_NAME_H

#include "elf/image.h"

#include <stdint.h>

/* symbol: of at::_ops::NAME::call, whose code is at vaddr. Returns the bytes of NAME before its
 * overload, all of them if it has none. 0: another function, or the code does not show it. */
uint16_t operator_name_bytes(const struct image *image, const char *symbol, uint64_t vaddr,
			     uint64_t size);

#endif
