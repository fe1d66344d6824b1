/* SPDX-License-Identifier: BSD-2-Clause */
/* Small files that the user names: rules, templates. */
#ifndef PERFX_BASE_FILE_H
#define PERFX_BASE_FILE_H

#define FILE_TEXT_MAX (1u << 20)

/* The whole file as a string, malloc'd; also of a pipe, as the shell's <(…) gives one. NULL with
 * errno: EINVAL neither file nor pipe (a device has no end), EFBIG more than FILE_TEXT_MAX bytes,
 * or that of open and read. */
char *file_read_text(const char *path);
/* Why it could not, for a message. */
const char *file_error(int err);

#endif
