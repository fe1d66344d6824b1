// SPDX-License-Identifier: BSD-2-Clause
#include "figures/builtin.h"

bool builtin_find(const char *base_name, const char *symbol, struct builtin *builtin)
{
	return builtin_torch(symbol, builtin) || builtin_blas(base_name, symbol, builtin) ||
	       builtin_cuda(base_name, symbol, builtin);
}
