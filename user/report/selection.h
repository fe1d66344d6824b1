/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What of a profile a report is about, and in which order: --process and --sort. A selection is a
 * profile like any other, so that rules and writers need not know of it.
 */
#ifndef PERFX_REPORT_SELECTION_H
#define PERFX_REPORT_SELECTION_H

#include "aggregate/profile.h"

/* Copies of what changes; the rest is borrowed from the profile it was made of. */
struct selection {
	struct profile profile;
};

/* The processes that `process` names, by pid or comm; NULL: all. 0, -ENOENT when there is none,
 * -ENOMEM. */
int selection_make(struct selection *selection, const struct profile *profile, const char *process);
/* Puts each process's functions in the order of a column of the table "functions". Rules look at
 * them in the order of the aggregate: sort after them. 0, -EINVAL for no such column, -ENOMEM. */
int selection_sort(struct selection *selection, const char *column);
void selection_clear(struct selection *selection);

#endif
