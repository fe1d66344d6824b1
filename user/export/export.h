/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures → files of other tools. Formats with single calls read them from the capture as they
 * write, so memory does not grow with them; the others show sums.
 */
#ifndef PERFX_EXPORT_EXPORT_H
#define PERFX_EXPORT_EXPORT_H

#include "aggregate/profile.h"
#include "base/format.h"
#include "base/text.h"
#include "replay/replay.h"

#include <stdbool.h>
#include <stdio.h>

struct event;

/* An export can contain one of these alone. */
enum export_of {
	EXPORT_OF_ALL = 0, /* all that the format can hold; folded: calls */
	EXPORT_OF_CALLS,   /* time by calling context, exact */
	EXPORT_OF_CPU,	   /* samples of threads on the CPU */
	EXPORT_OF_OFF_CPU, /* samples of threads that wait */
	EXPORT_OF_ALLOC,   /* blocks and bytes */
	EXPORT_OF_SUMS,	   /* no single calls, samples and GPU work */
};

#define EXPORT_BIT(of) (1u << (of))
/* Those of the formats of call stacks. */
#define EXPORT_STACKS                                                                              \
	(EXPORT_BIT(EXPORT_OF_CALLS) | EXPORT_BIT(EXPORT_OF_CPU) | EXPORT_BIT(EXPORT_OF_OFF_CPU) | \
	 EXPORT_BIT(EXPORT_OF_ALLOC))

struct export
{
	FILE *out;
	enum export_of of;
	/* Complete for formats of sums; without calls, but with steps, for formats of calls. */
	const struct profile *profile;
	/* Gives each event of the capture to on_event, in order, until it returns other than 0,
	 * which is returned. Otherwise 0 or -errno. */
	int (*read)(void *capture, int (*on_event)(void *ctx, const struct event *event),
		    void *ctx);
	void *capture;
	/* The programs' values, samples of threads, GPUs, context switches: without them no pass
	 * is needed. */
	bool has_values, has_samples, has_gpu, has_slices;
};

struct export_format {
	struct format format;
	const char *type;			   /* by HTTP */
	bool spans;				   /* needs the calls */
	unsigned of;				   /* EXPORT_BIT of what it can be limited to */
	int (*write)(const struct export *export); /* 0 or -errno */
};

extern struct format_table export_formats;

/* "pprof, folded": those that can be limited to it, for messages. */
void export_add_formats(struct text *into, enum export_of of);

static inline const struct export_format *export_format_named(const char *name)
{
	return format_named(&export_formats, name);
}

/* A capture as another tool's file: read once for its sums, and once for its calls. */

/* The on_event of a pipeline that fills the aggregate (its ctx) as the format needs it. */
typedef int export_read(void *aggregate, const struct event *event);
export_read *export_reader(const struct export_format *format);

/* The labels that tell processes of a fleet apart: host, pid, program, rank, job, pod, namespace,
 * container, each if known, by the names of OpenTelemetry's resources or by plain ones. */
enum export_label_names { EXPORT_LABELS_PLAIN, EXPORT_LABELS_OPENTELEMETRY };
void export_labels(const struct profile *profile, const struct profile_process *process,
		   enum export_label_names names,
		   void (*add)(void *ctx, const char *name, const char *value), void *ctx);

/* Compresses. Without a time and name in the header: the same data give the same bytes. 0 or
 * -errno. */
int export_gzip(FILE *out, const struct text *data);

/* Leaves in `view`, a copy of the profile, the processes of one rank, which are in `kept`: room for
 * all of them. False: there is no such rank. */
bool export_only_rank(struct profile *view, struct profile_process *kept, const char *rank);

/* profile: of that aggregate, or a view of it. 0 or -errno of reading and writing. */
int export_write(FILE *out, const struct export_format *format, enum export_of of,
		 const struct profile *profile, const struct capture_source *source);

#endif
