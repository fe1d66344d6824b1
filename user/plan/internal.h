/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of this module. */
#ifndef PERFX_PLAN_INTERNAL_H
#define PERFX_PLAN_INTERNAL_H

#include "elf/image.h"
#include "plan/plan.h"

/* select.c: plans the functions of a file that are to be traced. 0, -ENOMEM, -E2BIG. */
int plan_image(struct plan *plan, struct image *image, size_t module);
/* Are this file's symbols worth a search? Notes which patterns name it. */
bool plan_worth_searching(struct plan *plan, const struct module_names *module);

/* select.c: the label of an operator, "aten::add.Tensor"; the caller frees it. NULL: the symbol is
 * no operator, or the length of its name is unknown. */
char *plan_operator_name(const struct image *image, const struct symbol *symbol);

/* Takes the function over, names and site; -ENOMEM: it does not. */
int plan_add_function(struct plan *plan, const struct plan_function *function);

/* select.c: the places in a file with perfx_flops(). 0, -ENOMEM. */
int plan_hints(struct plan *plan, struct image *image, size_t module);

/* alloc_probes.c: plans the allocation probes of a file's allocators. 0, -ENOMEM. */
int plan_alloc_probes(struct plan *plan, struct image *image, size_t module, bool executable);

/* annotations.c: plans the functions by which programs mark ranges. 0, -ENOMEM. */
int plan_annotations(struct plan *plan, struct image *image, size_t module);

/* jitted.c: the path from the arguments of `call`, which executes a module, to the module's name.
 * False: not known. */
bool plan_jitted_name(struct image *image, const char *call, struct perfx_annotation *annotation);

/* annotations.c: plans the USDT probes that were asked for, and those of perfx.h. 0, -ENOMEM. */
int plan_usdt(struct plan *plan, struct image *image, size_t module);
/* annotations.c: the host_level that the options mean. */
enum host_level plan_host_level(const struct plan *plan);

/* select.c: notes whether anything may unwind through this file's frames, or switches stacks. */
void plan_consider_file(struct plan *plan, struct image *image, const char *base);

#endif
