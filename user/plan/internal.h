/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of this module. */
#ifndef PERFX_PLAN_INTERNAL_H
#define PERFX_PLAN_INTERNAL_H

#include "elf/image.h"
#include "plan/plan.h"

/* scan.c asks select.c, ranges.c, file_calls.c and alloc_probes.c for each file; these add to the
 * plan (plan.c) what defaults.c, annotations.c, jitted.c and allocators.c know by name. */

/* plan.c: takes the function over, names and site; -ENOMEM: frees them. */
int plan_add_function(struct plan *plan, struct plan_function *function);
void plan_function_clear(struct plan_function *function);
/* Is there one of that role at that place, from the first on? */
bool plan_has(const struct plan *plan, size_t first, enum plan_role role, uint64_t vaddr);
/* Bits of enum plan_kind. has_all: all files of a process have been read. */
uint32_t plan_kinds_of(const struct plan *plan, const struct plan_function *function, bool has_all);
/* The host_level that the options mean. */
enum host_level plan_host_level(const struct plan *plan);
/* Notes why a function, by its mangled name, is not traced. */
void plan_skip_symbol(struct plan *plan, const char *symbol, const char *reason);
/* The reason by an error of site_plan(). */
const char *plan_site_error(int err);
/* Chooses a site where the arguments (from 1; 0: none) can be read, and changes them to the
 * registers that have them there. NULL, or why there is none. */
const char *plan_find_site(struct image *image, struct plan_function *function,
			   struct site_options *options, __u8 *const arguments[], size_t count);

/* select.c: plans the functions of a file that are to be traced. 0, -ENOMEM, -E2BIG. */
int plan_image(struct plan *plan, struct image *image, size_t module);
/* The places in a file with perfx_flops(). 0, -ENOMEM. */
int plan_hints(struct plan *plan, struct image *image, size_t module);
/* Are this file's symbols worth a search? Notes which patterns name it. */
bool plan_worth_searching(struct plan *plan, const struct module_names *module);
/* The label of an operator, "aten::add.Tensor"; the caller frees it. NULL: the symbol is no
 * operator, or the length of its name is unknown. */
char *plan_operator_name(const struct image *image, const struct symbol *symbol);
/* Notes whether anything may unwind through this file's frames, or switches stacks. */
void plan_consider_file(struct plan *plan, struct image *image, const char *base);

/* ranges.c: plans the functions by which programs mark ranges, the USDT probes that were asked for,
 * and those of perfx.h. 0, -ENOMEM. */
int plan_annotations(struct plan *plan, struct image *image, size_t module);
int plan_usdt(struct plan *plan, struct image *image, size_t module);

/* file_calls.c: plans the C library's calls on files and sockets. 0, -ENOMEM. */
int plan_file_calls(struct plan *plan, struct image *image, size_t module);

/* alloc_probes.c: plans the allocation probes of a file's allocators. 0, -ENOMEM. */
int plan_alloc_probes(struct plan *plan, struct image *image, size_t module, bool executable);

#endif
