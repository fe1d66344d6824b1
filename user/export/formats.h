/* SPDX-License-Identifier: BSD-2-Clause */
/* The writers, which export.c's table names, and what several of them need (common.c). */
#ifndef PERFX_EXPORT_FORMATS_H
#define PERFX_EXPORT_FORMATS_H

#include "aggregate/profile.h"
#include "base/grow.h"
#include "base/text.h"
#include "export/export.h"

#include <stdbool.h>

/* A new format: a row here, a file with export_<name>().
 *
 *	X(name, suffixes, type by HTTP, needs the calls, what it can be limited to) */
#define EXPORT_FORMATS(X)                                                         \
	X(perfetto, " .pftrace .perfetto-trace ", TYPE_BYTES, true, 0)            \
	X(chrome, " .trace.json .pt.trace.json ", TYPE_JSON, true, 0)             \
	X(pprof, " .pb.gz .pprof ", TYPE_BYTES, false, EXPORT_STACKS)             \
	X(folded, " .folded ", TYPE_PLAIN, false, EXPORT_STACKS)                  \
	X(speedscope, " .speedscope.json ", TYPE_JSON, false, EXPORT_STACKS)      \
	X(openmetrics, " .prom .openmetrics ",                                    \
	  "application/openmetrics-text; version=1.0.0; charset=utf-8", false, 0) \
	X(otlp, " .otlp ", "application/x-protobuf", false, 0)                    \
	X(sqlite, " .sqlite .sqlite3 .db ", "application/vnd.sqlite3", false,     \
	  EXPORT_BIT(EXPORT_OF_SUMS))

#define EXPORT_WRITER(name, ...) int export_##name(const struct export *export);
EXPORT_FORMATS(EXPORT_WRITER)
#undef EXPORT_WRITER

/* The error of a stream: 0 or -errno. */
int export_error(FILE *out);
/* The label of a function; "?" where it has none. */
const char *export_label(const struct profile_function *function);
/* The same made harmless (base/escape.h). */
void export_function_name(struct text *into, const struct profile *profile, uint32_t function);
/* The result of escape_display as a JSON string, quotes included. */
void export_json_string(struct text *into, const char *name);
/* "trainer (pid 4242)", "… (pid 4242, exec 1)": harmless */
void export_process_name(struct text *into, const struct profile_process *process);
/* A pid or thread id of the process, unique over the machines of a merged capture. */
uint32_t export_pid(const struct profile_process *process, uint32_t pid);
/* "rank 3 (pid 4711) node2"; without a rank the name of the command. */
void export_rank_name(struct text *into, const struct profile *profile,
		      const struct profile_process *process);
/* Did a process make steps? Was one sampled? */
bool export_any_steps(const struct profile *profile);
bool export_any_samples(const struct profile *profile);

/* A process's calling contexts by id. Make gives 0 or -ENOMEM; places are to be cleared in any
 * case.
 */
struct export_contexts {
	const struct profile_process *process;
	struct map64 places;
};

#define EXPORT_PATH_MAX 512

int export_contexts_make(struct export_contexts *contexts, const struct profile_process *process);
/* A traced function, or the Python line that called it. */
struct export_frame {
	uint32_t function;		    /* where python is NULL */
	const struct profile_frame *python; /* borrowed */
};
/* The functions of the i-th context and of its callers, innermost first, with the Python lines that
 * are known. Returns how many. */
size_t export_path(const struct export_contexts *contexts, size_t i,
		   struct export_frame path[EXPORT_PATH_MAX]);
/* Does the export show this? */
bool export_has(const struct export *export, enum export_of of);
/* Is it a sample of this kind, CPU or OFF_CPU? */
bool export_is_of(const struct profile_activity *sample, enum export_of of);
/* The memory of a process where only one domain is shown: the first of tensor, host, GPU and user
 * with allocations. NULL: none. */
const struct profile_memory *export_memory(const struct profile_process *process);
/* The process of an index that a record gives; NULL: not described. */
const struct profile_process *export_process(const struct profile *profile, uint32_t index);

#endif
