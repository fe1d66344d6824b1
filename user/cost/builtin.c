// SPDX-License-Identifier: BSD-2-Clause
#include "cost/builtin.h"

#include "base/prefixes.h"

bool builtin_find(const char *base_name, const char *symbol, struct builtin *builtin)
{
	return builtin_torch(symbol, builtin) || builtin_blas(base_name, symbol, builtin) ||
	       builtin_cuda(base_name, symbol, builtin);
}

int builtin_prefixes(struct prefixes *set)
{
	int err = builtin_torch_prefixes(set);

	return err ? err : prefixes_add(set, builtin_ynn_prefix);
}
