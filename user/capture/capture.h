/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture in a file: a header of 16 bytes, then blocks of records (block.h), the last of which
 * ends with the END record. Only ever appended to; docs/capture.md has it byte by byte.
 */
#ifndef PERFX_CAPTURE_CAPTURE_H
#define PERFX_CAPTURE_CAPTURE_H

#include "capture/block.h"

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

/* 0 or -errno. */
int capture_write_header(int fd);

/* A request to write a block store to a file, and its result. */
struct capture_dump {
	char *path;	       /* owned */
	char *why;	       /* owned; "": at the end of the recording */
	uint64_t recording_ns; /* when the recording began */
	uint64_t to_ns;	       /* where it ends */
	struct captured_step {
		uint32_t process;
		uint64_t from_ns, to_ns;
	} step; /* for which it is written; all 0: none */
	/* Records that close a capture, END the last; owned. */
	char *closing;
	size_t closing_bytes;

	int err;	  /* out: 0 or -errno */
	uint64_t from_ns; /* out: where it begins */
	uint64_t bytes;	  /* out: of the file */
	bool full;	  /* out: memory was too small for the whole time */
};

void capture_dump__free(struct capture_dump *dump);

/* Where blocks go that are not written to a file at once (replay/replay.h). Called by the
 * writer's thread only. */
struct block_store {
	/* Copies a block. segment_ns: when the segment ends that ends with the block; 0: none does.
	 * 0 or -ENOMEM. */
	int (*add)(struct block_store *store, const void *block, size_t bytes, uint64_t segment_ns);
	/* Writes what is kept as a capture; the outcome is in the dump. */
	void (*dump)(struct block_store *store, struct packer *packer, struct capture_dump *dump);
	void (*free)(struct block_store *store);
};

/*
 * A thread compresses, writes and syncs: adding a record waits only when the disk is some megabytes
 * behind.
 */
struct capture_writer;

/* Takes over fd and writes the header. NULL with errno; the descriptor is closed then. */
struct capture_writer *capture_writer__new(int fd);
/* Writes to a store, which it takes over. NULL with errno ENOMEM. */
struct capture_writer *capture_writer__new_store(struct block_store *store);
/* Writes all that was added up to now into a file: takes the dump over and does not wait. 0 or
 * -errno. */
int capture_writer__dump(struct capture_writer *writer, struct capture_dump *dump);
/* The oldest finished dump, which the caller owns; NULL: none. wait: for the pending dumps. */
struct capture_dump *capture_writer__dumped(struct capture_writer *writer, bool wait);
/* Estimated compressed size of what was added since the last segment began. */
uint64_t capture_writer__segment_bytes(const struct capture_writer *writer);

/* One record, whole. 0, or -errno of what was written until now; after an error nothing more is
 * written. */
int capture_writer__add(struct capture_writer *writer, const void *record, size_t size);
/* Sends what was added to the disk without waiting. 0 or -errno as add. */
int capture_writer__flush(struct capture_writer *writer);
/* Size of the file with all that was added; the unwritten part is estimated. */
uint64_t capture_writer__bytes(struct capture_writer *writer);
/* Writes what is left, waits for the disk and closes: 0 or the first error. NULL is fine. */
int capture_writer__free(struct capture_writer *writer);

struct capture_reader;

/* The unreadable parts of a capture. */
struct capture_damage {
	uint64_t bytes;		 /* damaged, cut off, or of missing blocks */
	uint64_t places;	 /* runs of these */
	uint64_t strange_blocks; /* of an unknown type, not damaged */
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
