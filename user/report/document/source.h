/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of source files, for the reader of a report. Which files, the traced program says: so only
 * those are read that look like sources, that anybody may read or the user owns, and that have not
 * changed since the recording began.
 */
#ifndef PERFX_REPORT_DOCUMENT_SOURCE_H
#define PERFX_REPORT_DOCUMENT_SOURCE_H

#include <stdint.h>

/* The file that was read last. All-zero: none. */
struct source {
	char *path, *text;
};

/* Adds the line, without indentation, to a buffer of its own: malloc'd; NULL: it cannot be shown.
 * recorded_unix_ns: when the recording began. */
char *source_line(struct source *source, const char *path, uint32_t line,
		  uint64_t recorded_unix_ns);
void source_clear(struct source *source);

#endif
