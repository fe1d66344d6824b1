/* SPDX-License-Identifier: BSD-2-Clause */
/* Hashes of bytes, for tables. */
#ifndef PERFX_BASE_HASH_H
#define PERFX_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static inline uint64_t fnv1a(const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ULL;
	return hash;
}

#endif
