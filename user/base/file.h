/* SPDX-License-Identifier: BSD-2-Clause */
/* Files: small ones that the user names are read, reports and captures are written. */
#ifndef PERFX_BASE_FILE_H
#define PERFX_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FILE_TEXT_MAX (1u << 20)

/* The whole file as a string, malloc'd; also of a pipe, as the shell's <(…) gives one. NULL with
 * errno: EINVAL neither file nor pipe (a device has no end), EFBIG more than FILE_TEXT_MAX bytes,
 * EILSEQ it contains a NUL, or an error of open or read. */
char *file_read_text(const char *path);
/* For a message: the error of this thread's last file_read_text(). */
const char *file_error(int err);

/*
 * Outputs: the files of a report or a capture. A regular file is written as PATH.part and renamed
 * to PATH when it is complete and on the disk, so an error or a kill leaves the old file unchanged.
 * If another file has the name PATH.part, it is kept, and the name gets six random letters:
 * PATH.XXXXXX.part. Files that are not regular (a FIFO, /dev/null, our own descriptors as
 * /dev/stdout and /dev/fd/63) are written directly.
 */

/* Errors of output_open() about files of other users, in addition to the values of errno. */
enum output_refusal {
	OUTPUT_OTHERS_FILE = 4096, /* above the kernel's MAX_ERRNO */
	OUTPUT_OTHERS_FIFO,
	OUTPUT_OTHERS_LINK,
};

enum output_kind {
	OUTPUT_WHOLE,
	/* The same, but nothing else than a regular file will do: -EINVAL. */
	OUTPUT_FILE,
	/* Written for a long time, and of use also when it ends early: it has its own name from the
	 * start where no other file has it. */
	OUTPUT_GROWING,
};

struct output {
	int fd;	       /* -1: not open */
	char *path;    /* NULL: stdout */
	char *part;    /* the name until it is complete; NULL: path from the start */
	bool made;     /* created as path: no file had that name */
	int folder_fd; /* of path, if path is set; -1: a descriptor of ours */
};

/* NULL and "-" are stdout. The file is not world-writable. A new file belongs to the user who
 * called sudo, a replacement to the owner of the old file. A path that is a symbolic link is an
 * error: -ELOOP. Waits for a reader of a FIFO until Ctrl-C: -EINTR. 0, -errno, or a negative
 * output_refusal. */
int output_open(struct output *output, const char *path, enum output_kind kind);
/* For a message: why one of these failed. */
const char *output_error(int err);
/* Appends: 0 or -errno. */
int output_write(int fd, const void *data, size_t size);
/* The file is complete: syncs it and renames it to its path. On -errno it is discarded. */
int output_close(struct output *output);
/* Removes the new file; the old one, if any, stays. Does nothing if none is open. */
void output_discard(struct output *output);
/* Closes it and leaves the file, complete or not, under output_name(). */
void output_leave(struct output *output);
const char *output_name(const struct output *output);
/* Writes it and closes; on -errno it is discarded. */
int output_store(struct output *output, const void *data, size_t size);

/* Do two names lead to one file? Compares device and inode of existing files, links followed;
 * otherwise the folder and the name in it. Terminals, /dev/null and the like keep nothing, so they
 * are never the same. */
bool output_is_same(const char *a, const char *b);

/* False when this was not started by sudo. */
bool caller_ids(uid_t *uid, gid_t *gid);

/* In a child before exec: becomes that user, groups included. 0 or -errno. */
int caller_become(uid_t uid, gid_t gid);

#endif
