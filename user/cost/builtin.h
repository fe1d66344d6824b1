/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions whose work is known by default: BLAS in all its spellings, oneDNN,
 * PyTorch's operators, cuBLAS, NCCL. These functions are traced by default (plan adds functions
 * of which only the time matters).
 *
 * Convention: a multiply-add is 2 operations, of complex numbers 8. Biases, norms, activations and
 * softmax count nothing, as in torch.utils.flop_counter. Bytes: operands and result, each once, by
 * their shapes; a bias is left out.
 */
#ifndef PERFX_COST_BUILTIN_H
#define PERFX_COST_BUILTIN_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>

#define BUILTIN_TEXT_MAX 1024

struct builtin {
	enum perfx_source source;
	/* Traced by default; false where it only leads to others of the table. */
	bool by_default;
	char text[BUILTIN_TEXT_MAX]; /* its cost: cost/cost_program.h */
};

/* Does the table know a symbol (as in the file) of a file of this base name? */
bool builtin_find(const char *base_name, const char *symbol, struct builtin *builtin);

/* The NAME of at::_ops::NAME::call; false: the symbol is something else. */
bool builtin_torch_name(const char *symbol, char *name, size_t size);

/* Adds the prefixes of the mangled names in the table. 0 or -ENOMEM. */
struct prefixes;
int builtin_prefixes(struct prefixes *set);
int builtin_torch_prefixes(struct prefixes *set);
extern const char builtin_ynn_prefix[];

/* The sets of the table: a new one is a row here and a file with builtin_<name>(), as builtin_find.
 * The other column adds the prefixes of its mangled names to `set`: 0 or -ENOMEM. */
#define BUILTIN_SETS(X)                                \
	X(torch, builtin_torch_prefixes(set))          \
	X(blas, prefixes_add(set, builtin_ynn_prefix)) \
	X(cuda, 0)

#define BUILTIN_SET(name, ...) \
	bool builtin_##name(const char *base_name, const char *symbol, struct builtin *builtin);
BUILTIN_SETS(BUILTIN_SET)
#undef BUILTIN_SET

#endif
