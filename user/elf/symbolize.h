/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which function and which source line an address of an ELF file belongs to, many addresses of one
 * file at a time.
 *
 * With DWARF (.debug_info, in the file or in its separate debug file, compressed or not, parts of
 * it moved to a common file by dwz): file, line, and the functions that the compiler inlined there.
 * Without: the symbol table's name alone. Damaged debug information gives less.
 *
 * What it costs: the symbol table is sorted once (libtorch_cpu's 530,000 names: 0.1 s, 8 MB); an
 * address is then a search and a demangling, 15 µs in long C++ names. DWARF is read in one pass
 * over the ranges of its compilation units, then the function tree and the line table of just those
 * units that have addresses (5 to 20 ms each MB). Measured: 5,000 addresses all over a file take
 * 0.2 s in libtorch_cpu (0.5 s when it is not in the page cache), 0.1 s in libc with its compressed
 * debug file or in a libpython with DWARF. Nothing is kept afterwards.
 *
 * Reading crafted DWARF can take any time and memory, so a child process with limits on both reads
 * it. Addresses that the child did not reach get only the name of their symbol.
 */
#ifndef PERFX_ELF_SYMBOLIZE_H
#define PERFX_ELF_SYMBOLIZE_H

#include "elf/image.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes that the child may use beyond its parent's: unpacked sections and libdw's data. */
#define SYMBOLIZE_MEMORY_MAX (256u << 20)
#define SYMBOLIZE_CPU_NS_MAX UINT64_C(1000000000)
/* Inlined functions at an address, the function itself included; the outermost are left out. */
#define SYMBOLIZE_PLACES_MAX 64

struct symbolized_place {
	const char *function; /* demangled (elf/demangle.h); "": unknown */
	const char *file;     /* as the compiler was given it; "": unknown */
	uint32_t line;	      /* 0: unknown */
};

/* places[0] is the innermost function at vaddrs[index], the last one the function whose code it is;
 * each but the first stands at the line where the one before it was inlined. count is at least 1.
 * Borrowed until it returns. */
typedef void symbolized_fn(size_t index, const struct symbolized_place *places, size_t count,
			   void *ctx);

/* Limits of reading a file's DWARF. symbolize() updates them; at first only left_ns is set. */
struct symbolize_budget {
	uint64_t left_ns; /* CPU time of children */
	bool exceeded;	  /* the last child failed or exceeded a limit: no other is started */
};

/* Calls fn for each address once, in no particular order. vaddrs ascend; of a call they are the
 * return address less one, for what follows a call may belong to another line, or even to another
 * function when the call does not return. budget NULL: the file is trusted, so it is read without
 * a child or limits. 0 or -ENOMEM. */
int symbolize(struct image *image, struct symbolize_budget *budget, const uint64_t *vaddrs,
	      size_t count, symbolized_fn *fn, void *ctx);

#endif
