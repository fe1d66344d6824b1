/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of libraries that allocate or free memory, and the places of the block and its size
 * among their arguments. A table; reads no process.
 */
#ifndef PERFX_PLAN_ALLOCATORS_H
#define PERFX_PLAN_ALLOCATORS_H

#include "perfx_config.h"
#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The properties of a file that the table asks for. */
struct allocator_file {
	const char *base;    /* name of the file */
	bool defines_malloc; /* the program's own allocator lies in it */
	/* A static program brings its C library along, and the linker may have made that library's
	 * names local. */
	bool is_static;
	/* names by which one knows the allocator; see allocator_note_symbol */
	bool has_jemalloc, has_tcmalloc, has_mimalloc, has_libc;
};

struct allocator_rule {
	size_t order;	  /* in the table: of two names at one address the first counts */
	const char *name; /* the allocator's; NULL: allocator_of_file */
	bool throws;	  /* C++: an exception may leave it, so no return probe */
	bool is_usual;	  /* what nearly all blocks pass through */
	struct perfx_alloc_probe alloc_probe; /* allocator: not set */
};

#define ALLOCATOR_RULES_MAX 2

/* Can a library of this base name hold allocation probes of frameworks or GPUs? Executables are
 * searched whatever their name, and so is what defines malloc. */
bool allocator_library(const char *base);

/* NumPy itself: the interpreter has the functions that it reports its arrays to, used or not. */
bool allocator_is_numpy(const char *base);

/* The dynamic loader has a malloc for itself alone. */
bool allocator_is_loader(const char *base);

/* Exported by a file, each of these makes it worth searching; NULL-terminated. */
extern const char *const allocator_entry_points[];

/* Does the name show an allocator, or has it a rule, in any file? */
bool allocator_concerns(const char *symbol);

/* Adds the prefixes of the mangled names in the table. 0 or -ENOMEM. */
struct prefixes;
int allocator_prefixes(struct prefixes *set);

/* Notes the allocator that a symbol defined in the file shows. */
void allocator_note_symbol(struct allocator_file *file, const char *symbol, bool global);

/* Finds the rules of a symbol of a file. Returns how many apply (two where one function reports for
 * two allocators), 0 for most symbols. */
size_t allocator_rules(const struct allocator_file *file, const char *symbol, bool global,
		       struct allocator_rule rules[ALLOCATOR_RULES_MAX]);

/* Whose malloc a file's malloc is: "libc", "jemalloc", …; NULL: no known one. */
const char *allocator_of_file(const struct allocator_file *file);

/* Is this the name of one of the C library's or C++'s own functions that gives, takes or resizes
 * blocks? action 0: any of these. However it is called, an allocation probe sits where it leads. */
bool allocator_does(const char *symbol, enum perfx_action action);

#endif
