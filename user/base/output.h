/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that a report or a capture goes to. Opened before anything is traced, so that a bad name
 * costs no measurement; an old file keeps its content until the new one is complete in memory.
 */
#ifndef PERFX_BASE_OUTPUT_H
#define PERFX_BASE_OUTPUT_H

#include <stddef.h>

/* A descriptor to write to, or -errno. "-" is stdout. Links are not followed, the file is not
 * world-writable and belongs to the user who called sudo. */
int output_open(const char *path);
/* Why output_open or output_write failed, for a message. */
const char *output_error(int err);
/* Replaces the file's content: 0 or -errno. */
int output_write(int fd, const void *data, size_t size);
/* Adds to it: 0 or -errno. */
int output_write_on(int fd, const void *data, size_t size);
/* Closes what output_open gave: 0 or -errno (a full disk may show only now). */
int output_close(int fd);

/* A file that takes another's place when it is whole: until then it is called PATH.part, and stays
 * so where this program is killed. */
struct output_part {
	int fd;
	char *name;
};

/* 0 or -errno, for the same reasons as output_open. */
int output_part_open(struct output_part *part, const char *path);
/* The disk has it, then it takes its place: 0 or -errno. err, of writing: it is thrown away, and
 * err returned. */
int output_part_close(struct output_part *part, const char *path, int err);

#endif
