/* SPDX-License-Identifier: BSD-2-Clause */
/* A dump → a file, by one writer per format. The first line, or member, is the verdict. */
#ifndef PERFX_REPORT_DUMP_H
#define PERFX_REPORT_DUMP_H

#include "analyze/dump.h"
#include "base/format.h"
#include "report/report.h"

#include <stdio.h>

/* 0 or -errno of the stream. Of the options width, color, full and full_cmdline count. */
typedef int dump_writer_write(FILE *out, const struct profile *profile, const struct dump *dump,
			      const struct report_options *options);

struct dump_writer {
	struct format format; /* "text", "md", "json" */
	const char *type;     /* by HTTP */
	dump_writer_write *write;
};

dump_writer_write dump_write_text, dump_write_md, dump_write_json;

extern struct format_table dump_formats;

struct document;
struct json_output;

/* Adds which threads have moved, and the groups of threads, to a document. */
void dump_compose(struct document *document, const struct profile *profile, const struct dump *dump,
		  const struct report_options *options);
/* Adds the members of a dump to the open object. */
void dump_put_json(struct json_output *output, const struct profile *profile,
		   const struct dump *dump);

#endif
