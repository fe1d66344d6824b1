/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures → files of other tools. Formats with single calls read them from the capture as they
 * write, so memory does not grow with them; the others show sums.
 */
#ifndef PERFX_EXPORT_EXPORT_H
#define PERFX_EXPORT_EXPORT_H

#include "aggregate/profile.h"
#include "base/format.h"

#include <stdbool.h>
#include <stdio.h>

/* 0 to go on; another value ends the iteration. */
typedef int export_on_span(void *ctx, const struct perfx_span *span);
typedef int export_on_value(void *ctx, const struct perfx_user_value *value);
typedef int export_on_sample(void *ctx, const struct perfx_sample *sample);
/* Of GPUs: a call, or what a device did; the other one is NULL. */
typedef int export_on_gpu(void *ctx, const struct perfx_gpu_call *call,
			  const struct perfx_gpu_activity *activity);

/* What folded, pprof and speedscope show. */
enum export_of {
	EXPORT_OF_ALL = 0, /* all that the format can hold; folded: calls */
	EXPORT_OF_CALLS,   /* time by calling context, exact */
	EXPORT_OF_CPU,	   /* samples of threads on the CPU */
	EXPORT_OF_OFF_CPU, /* samples of threads that wait */
	EXPORT_OF_ALLOC,   /* blocks and bytes */
};

struct export
{
	FILE *out;
	enum export_of of;
	/* Complete for formats of sums; without calls, but with steps, for formats of calls. */
	const struct profile *profile;
	/* Gives each call's record, in the order of the capture. 0 or what on_span returned, or
	 * -errno. */
	int (*each_span)(void *capture, export_on_span *on_span, void *ctx);
	/* Likewise the programs' values; NULL: there are none. */
	int (*each_value)(void *capture, export_on_value *on_value, void *ctx);
	/* Likewise samples of threads; NULL: there are none. */
	int (*each_sample)(void *capture, export_on_sample *on_sample, void *ctx);
	/* Likewise calls and activities of GPUs; NULL: there are none. */
	int (*each_gpu)(void *capture, export_on_gpu *on_gpu, void *ctx);
	void *capture;
};

struct export_format {
	struct format format;
	bool spans;				   /* needs each_span */
	bool stacks;				   /* can be of one thing only: export_of */
	int (*write)(const struct export *export); /* 0 or -errno */
};

extern struct format_table export_formats;

static inline const struct export_format *export_format_named(const char *name)
{
	return format_named(&export_formats, name);
}

#endif
