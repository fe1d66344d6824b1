/* SPDX-License-Identifier: BSD-2-Clause */
/* A capture as another tool's file: read once for its sums, and once for its calls. */
#ifndef PERFX_EXPORT_CAPTURE_H
#define PERFX_EXPORT_CAPTURE_H

#include "export/export.h"
#include "replay/source.h"

/* The on_event of a pipeline that fills the aggregate (its ctx) as the format needs it. */
typedef int export_read(void *aggregate, const struct event *event);
export_read *export_reader(const struct export_format *format);

/* Leaves in `view`, a copy of the profile, the processes of one rank, which are in `kept`: room for
 * all of them. False: there is no such rank. */
bool export_only_rank(struct profile *view, struct profile_process *kept, const char *rank);

/* profile: of that aggregate, or a view of it. 0 or -errno of reading and writing. */
int export_write(FILE *out, const struct export_format *format, enum export_of of,
		 const struct profile *profile, const struct capture_source *source);

#endif
