/* SPDX-License-Identifier: BSD-2-Clause */
/* The formats that export.c's table names, and what several of them need. */
#ifndef PERFX_EXPORT_FORMATS_H
#define PERFX_EXPORT_FORMATS_H

#include "base/text.h"
#include "export/export.h"

int export_perfetto(const struct export *export);
int export_chrome(const struct export *export);
int export_pprof(const struct export *export);
int export_folded(const struct export *export);
int export_speedscope(const struct export *export);
int export_openmetrics(const struct export *export);

/* A stream's error so far: 0 or -errno. */
int export_error(FILE *out);
/* The function's name made harmless (base/escape.h); "?" when it has none. */
void export_function_name(struct text *into, const struct profile *profile, uint32_t function);
/* A JSON string of what escape_display gives, quotes included. */
void export_json_string(struct text *into, const char *name);
/* "trainer (pid 4242)", "… (pid 4242, exec 1)": harmless */
void export_process_name(struct text *into, const struct profile_process *process);
/* The process of an index that a record gives; NULL: not described. */
const struct profile_process *export_process(const struct profile *profile, uint32_t index);

#endif
