/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture in a file: a header of 16 bytes, then blocks of records (block.h), the last of which
 * ends with the END record. Only ever appended to; docs/capture.md has it byte by byte.
 */
#ifndef PERFX_CAPTURE_CAPTURE_H
#define PERFX_CAPTURE_CAPTURE_H

#include "replay/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPTURE_MAGIC	"PERFXCAP"
#define CAPTURE_VERSION 2

struct capture_header {
	char magic[8];
	uint32_t version;
	uint32_t record_version; /* PERFX_RECORD_VERSION */
};

/*
 * Compressing, writing and syncing are a thread's of its own: who adds records waits only when the
 * disk is behind by some megabytes.
 */
struct capture_writer;

/* Takes over fd and writes the header. NULL with errno; the descriptor is closed then. */
struct capture_writer *capture_writer__new(int fd);
/* None in a file: the last window_ns in memory, of at most about bytes_max (ring.h), until a dump
 * is asked for. NULL with errno ENOMEM. */
struct capture_writer *capture_writer__new_ring(uint64_t window_ns, uint64_t bytes_max);
/* What was added, up to now, into a file: takes the dump over and does not wait. 0 or -errno. */
int capture_writer__dump(struct capture_writer *writer, struct ring_dump *dump);
/* The oldest dump that has been written, or could not be: the caller's. NULL: none. wait: until
 * those that were asked for are. */
struct ring_dump *capture_writer__dumped(struct capture_writer *writer, bool wait);
/* What was added since the last segment began, about, as it is kept. */
uint64_t capture_writer__segment_bytes(const struct capture_writer *writer);

/* One record, whole. 0, or -errno of what was written until now; after an error nothing more is
 * written. */
int capture_writer__add(struct capture_writer *writer, const void *record, size_t size);
/* What was added is on its way to the disk; does not wait for it. 0 or -errno as add. */
int capture_writer__flush(struct capture_writer *writer);
/* Size of the file, once all is written that was added: what is not yet is estimated. */
uint64_t capture_writer__bytes(struct capture_writer *writer);
/* Writes what is left, waits for the disk and closes: 0 or the first error. NULL is fine. */
int capture_writer__free(struct capture_writer *writer);

struct capture_reader;

/* What could not be read of a capture. */
struct capture_damage {
	uint64_t bytes;		 /* damaged, cut off, or of blocks that are not there */
	uint64_t places;	 /* runs of these */
	uint64_t strange_blocks; /* of a type that is not known here: not damaged */
};

/* NULL with errno: ENOEXEC not a capture, EPROTO one of another version, or that of open. */
struct capture_reader *capture_reader__open(const char *path);
/* The records of the next block that is whole: 1; 0: that was all; -errno. They are the reader's,
 * until the next call. */
int capture_reader__next(struct capture_reader *reader, const void **records, size_t *size);
/* So far. */
const struct capture_damage *capture_reader__damage(const struct capture_reader *reader);
void capture_reader__free(struct capture_reader *reader);

#endif
