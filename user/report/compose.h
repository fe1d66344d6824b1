/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that compose a document share. */
#ifndef PERFX_REPORT_COMPOSE_H
#define PERFX_REPORT_COMPOSE_H

#include "report/document.h"

struct composer {
	struct document *document;
	const struct profile *profile;
	const struct analysis *analysis;
	const struct report_options *options;
	const struct document_limits *limits;
	unsigned more_left; /* of limits->more */
};

/* facts.c: command line, what the process used, its threads */
void compose_facts(struct composer *c, const struct profile_process *process);
void compose_threads(struct composer *c, const struct profile_process *process);
/* functions.c: the table and who called */
void compose_functions(struct composer *c, const struct profile_process *process);
/* measured.c */
void compose_measured(struct composer *c);

#endif
