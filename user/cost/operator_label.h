/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names by which users know PyTorch's functions: operators as torch.profiler shows them, and
 * methods as Python calls them.
 *
 *	at::_ops::add_Tensor::call            aten::add.Tensor
 *	at::_ops::_softmax::call              aten::_softmax
 *	torch::autograd::THPVariable_add      Tensor.add
 */
#ifndef PERFX_COST_OPERATOR_LABEL_H
#define PERFX_COST_OPERATOR_LABEL_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* Adds the label of a function to an empty text. name_bytes: from operator_name_bytes()
 * (site/site.h); 0 (unknown): only names that cannot contain an overload get a label.
 * False: there is no label; users know the function by its C++ name. */
bool operator_label(struct text *label, const char *function, uint16_t name_bytes);

#endif
