/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading objects of a C++ program that was built by others: memory through a function,
 * classes by their run-time type information (Itanium C++ ABI: the vtable has a pointer to the
 * type_info before it, which has a pointer to the mangled name), strings as libstdc++ lays them
 * out. Nothing that is read is trusted: pointers may point anywhere.
 */
#ifndef PERFX_XLA_MEMORY_H
#define PERFX_XLA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xla_memory {
	/* Reads all of it, or nothing: false. */
	bool (*read)(void *ctx, uint64_t address, void *to, size_t bytes);
	void *ctx;
};

/* Some words of an object; those that could not be read are absent. */
#define XLA_WORDS_MAX 352

struct xla_words {
	uint64_t address;
	size_t count;
	uint64_t at[XLA_WORDS_MAX];
};

/* As many of `count` words from an address (of which 1 word at least) as can be read. */
bool xla_read_words(const struct xla_memory *memory, uint64_t address, size_t count,
		    struct xla_words *words);

/* The mangled name of an object's class, without the leading N of a nested one
 * ("3xla3cpu8DotThunkE"); false: it is no object of a class with virtual functions. */
#define XLA_CLASS_MAX 96
bool xla_class_of(const struct xla_memory *memory, uint64_t object, char name[XLA_CLASS_MAX]);

/* Is there a std::string of this text? */
bool xla_string_is(const struct xla_memory *memory, uint64_t string, const char *text);

#endif
