/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture in a file: a 16-byte header, then records as they came (perfx_record.h), the END
 * record last.
 *
 *   offset 0   8 bytes  "PERFXCAP"
 *          8   u32      version of this layout, 1; little endian
 *         12   u32      PERFX_RECORD_VERSION
 */
#ifndef PERFX_STREAM_CAPTURE_H
#define PERFX_STREAM_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

struct capture_writer;

/* Takes over fd. NULL with errno; the descriptor is closed then. */
struct capture_writer *capture_writer__new(int fd);
/* 0 or -errno; after an error nothing more is written. */
int capture_writer__add(struct capture_writer *writer, const void *record, size_t size);
int capture_writer__flush(struct capture_writer *writer);
uint64_t capture_writer__bytes(const struct capture_writer *writer);
/* Flushes and closes: 0 or the first error. NULL is fine. */
int capture_writer__free(struct capture_writer *writer);

struct capture_reader;

/* NULL with errno: ENOEXEC not a capture, EPROTO a later version of the layout, or that of open. */
struct capture_reader *capture_reader__open(const char *path);
/* All records. */
const char *capture_reader__data(const struct capture_reader *reader, size_t *size);
void capture_reader__free(struct capture_reader *reader);

#endif
