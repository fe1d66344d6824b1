/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a C++ object keeps a member, read from the code of its accessor: the layout of a class
 * differs from release to release, and the accessor is compiled with it. If a method
 *
 *	mov  0xb08(%rdi),%rcx ; mov 0x8(%rcx),%rax ; … mov 0x8(%rax),%rdx ; mov 0x10(%rax),%rax
 *
 * returns as a string_view is the string at 8 in what 0xb08 and then 8 lead to. Pure: code in,
 * offsets out. x86-64.
 */
#ifndef PERFX_PLAN_JITTED_H
#define PERFX_PLAN_JITTED_H

#include "perfx_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCESSOR_STEPS_MAX 4

/* Words to be followed from `this`, bytes each. */
struct accessor {
	uint16_t steps[ACCESSOR_STEPS_MAX];
	size_t count;
};

/* For a method that returns a pointer: the last step is where that lies. False: not understood. */
bool accessor_of_pointer(const uint8_t *code, size_t size, struct accessor *accessor);
/* For one that returns a std::string as a view: the last step is where the string lies. */
bool accessor_of_text(const uint8_t *code, size_t size, struct accessor *accessor);

/* Calls a jitted function of JAX, named by its module. */
bool runs_jitted(const char *symbol);

/* Adds the prefixes of those functions, and of those that lead to its name. 0 or -ENOMEM. */
struct prefixes;
int jitted_prefixes(struct prefixes *set);

/* The path from the arguments of `call`, which executes a module, to the module's name. False: not
 * known. */
struct image;
bool jitted_name(struct image *image, const char *call, struct perfx_annotation *annotation);

#endif
