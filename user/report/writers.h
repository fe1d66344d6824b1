/* SPDX-License-Identifier: BSD-2-Clause */
/* The writers that report.c's table names. Each: 0 or -errno. */
#ifndef PERFX_REPORT_WRITERS_H
#define PERFX_REPORT_WRITERS_H

#include "report/report.h"

int report_write_text(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options);
int report_write_md(FILE *out, const struct profile *profile, const struct analysis *analysis,
		    const struct report_options *options);
int report_write_html(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options);
int report_write_csv(FILE *out, const struct profile *profile, const struct analysis *analysis,
		     const struct report_options *options);
int report_write_tsv(FILE *out, const struct profile *profile, const struct analysis *analysis,
		     const struct report_options *options);
int report_write_line(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options);
int report_write_json(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options);

#endif
