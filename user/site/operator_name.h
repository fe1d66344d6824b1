/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names by which users know PyTorch's functions: operators as torch.profiler shows them, and
 * methods as Python calls them.
 *
 *	at::_ops::add_Tensor::call            aten::add.Tensor
 *	at::_ops::_softmax::call              aten::_softmax
 *	torch::autograd::THPVariable_add      Tensor.add
 *
 * A symbol joins an operator's name and its overload by '_', which names have too: add_Tensor is
 * the overload Tensor of add, but unique_dim has no overload, and sum_dim_IntList is dim_IntList of
 * sum. The code of the operator says which: its first call looks the operator up in the dispatcher
 * by the two strings "aten::add" and "Tensor".
 */
#ifndef PERFX_SITE_OPERATOR_NAME_H
#define PERFX_SITE_OPERATOR_NAME_H

#include "base/text.h"
#include "elf/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the symbol of an at::_ops::NAME::call, whose code is at vaddr: the bytes of NAME before its
 * overload, all of them where it has none. 0: another function, or the code does not say. */
uint16_t operator_name_bytes(const struct image *image, const char *symbol, uint64_t vaddr,
			     uint64_t size);

/* Adds the name that users know to an empty text. name_bytes: as above; 0 (not known) gives a name
 * only where NAME cannot have an overload. False: it is known by its C++ name. */
bool operator_label(struct text *label, const char *function, uint16_t name_bytes);

#endif
