/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a report goes: chosen and opened before tracing, written in one piece after it. */
#ifndef PERFX_CMD_OUTPUT_H
#define PERFX_CMD_OUTPUT_H

#include "aggregate/aggregate.h"
#include "base/output.h"
#include "cmd/options.h"
#include "report/report.h"

struct report_target {
	const struct report_writer *writer;
	const char *path; /* NULL: stdout */
	char *template;	  /* its text */
	/* Open meanwhile only where it is no regular file: of one it was seen that it can be
	 * written. */
	struct output output;
};

/* EXIT_OK, or EXIT_USAGE (unknown format) or EXIT_FAILED (cannot be written) after a message. */
int report_target_open(struct report_target *target, const struct options *options);
/* Judges and writes. EXIT_OK or EXIT_FAILED after a message; a report that cannot be written to its
 * file goes to the terminal, so that the measurement is not lost. */
int report_target_write(struct report_target *target, struct aggregate *aggregate,
			const struct options *options);
void report_target_close(struct report_target *target);

#endif
