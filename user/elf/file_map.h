/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of a file, mapped: of a library of 400 MB only what is looked at is read.
 *
 * Such a file may be cut while it is read (a package is being upgraded, a linker writes it anew),
 * and who touches a page behind its end is sent SIGBUS. Here the rest of the file then reads as
 * zeros: it is a damaged file like any other, and whoever reads it expects those.
 */
#ifndef PERFX_ELF_FILE_MAP_H
#define PERFX_ELF_FILE_MAP_H

#include <stddef.h>

/* size bytes from the file's start, and a zero behind them, so that no string runs out of it
 * however the file changes. NULL with errno. */
const void *file_map(int fd, size_t size);
void file_unmap(const void *bytes, size_t size);

#endif
