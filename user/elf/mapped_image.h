/* SPDX-License-Identifier: BSD-2-Clause */
/* The file behind a mapping of a process: where its symbols are in that process. */
#ifndef PERFX_ELF_MAPPED_IMAGE_H
#define PERFX_ELF_MAPPED_IMAGE_H

#include "elf/image.h"
#include "proc/maps.h"

#include <stdint.h>
#include <sys/types.h>

/* Opens the file of an executable mapping; *bias: what to add to an address in the file to get that
 * in the process. NULL: it cannot be read, or has no code there. The caller frees. */
struct image *mapped_image_open(pid_t pid, const struct mapping *mapping, uint64_t *bias);

/* The address in the process of a symbol that the file exports; 0: it does not. bytes: its size;
 * may be NULL. */
uint64_t mapped_symbol(const struct image *image, uint64_t bias, const char *name, uint64_t *bytes);

/* The same of a variable. A program that uses a library's variable may have a copy of its own,
 * which the library uses too (R_X86_64_COPY): so the executable is asked first. */
uint64_t mapped_variable(pid_t pid, const struct maps *maps, const struct image *image,
			 uint64_t bias, const char *name);

#endif
