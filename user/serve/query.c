// SPDX-License-Identifier: BSD-2-Clause
#include "serve/job.h"

#include "base/units.h"
#include "report/table/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REPORT_LENGTH_NS 10000000000u
/* A dump is at the end of what has been recorded. */
#define DUMP_LENGTH_NS 2000000000u
/* Messages repeat so much of a wrong value. */
#define SHOWN "%.40s"

const char *report_query_type(const struct report_query *query)
{
	return query->dump     ? query->dump_writer->type
	       : query->writer ? query->writer->type
			       : query->export->type;
}

const char *report_query_file(const struct report_query *query, char name[QUERY_FILE])
{
	const struct format *format = query->dump     ? &query->dump_writer->format
				      : query->writer ? &query->writer->format
						      : &query->export->format;
	const char *suffix = format->suffixes + 1;

	snprintf(name, QUERY_FILE, "%s%.*s", query->dump ? "dump" : "report",
		 (int)strcspn(suffix, " "), suffix);
	return name;
}

static int parse_format(struct report_query *query, const char *value, char why[QUERY_WHY])
{
	if (query->dump) {
		query->dump_writer = format_named(&dump_formats, value);
		if (query->dump_writer)
			return 0;
		snprintf(why, QUERY_WHY, "format=" SHOWN ": no such format: %s", value,
			 format_names(&dump_formats));
		return -EINVAL;
	}
	query->writer = report_writer_named(value);
	query->export = query->writer ? NULL : export_format_named(value);
	if (query->writer || query->export)
		return 0;
	snprintf(why, QUERY_WHY, "format=" SHOWN ": no such format: %s, %s", value,
		 format_names(&report_formats), format_names(&export_formats));
	return -EINVAL;
}

static int parse_seconds(struct report_query *query, const char *value, char why[QUERY_WHY])
{
	if (!parse_duration(value, &query->length_ns) && query->length_ns)
		return 0;
	snprintf(why, QUERY_WHY, "seconds=" SHOWN ": not a duration: try 10, 500ms, 2m", value);
	return -EINVAL;
}

static int parse_table(struct report_query *query, const char *value, char why[QUERY_WHY])
{
	const struct data_table_kind *kind = data_table_kind_named(value);

	if (kind) {
		query->table = kind->name;
		return 0;
	}
	snprintf(why, QUERY_WHY, "table=" SHOWN ": no such table: see perfx-trace report --help",
		 value);
	return -EINVAL;
}

static int parse_of(struct report_query *query, const char *value, char why[QUERY_WHY])
{
	static const char *const names[] = {"calls", "cpu", "off-cpu", "alloc", "sums"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], value) != 0)
			continue;
		query->of = (enum export_of)(EXPORT_OF_CALLS + i);
		return 0;
	}
	snprintf(why, QUERY_WHY, "of=" SHOWN ": not calls, cpu, off-cpu, alloc or sums", value);
	return -EINVAL;
}

static const struct argument {
	const char *key;
	int (*parse)(struct report_query *query, const char *value, char why[QUERY_WHY]);
	bool of_captures, of_dumps; /* too */
} arguments[] = {
	{"format", parse_format, false, true},
	{"seconds", parse_seconds, true, false},
	{"table", parse_table, false, false},
	{"of", parse_of, false, false},
};

int report_query_parse(struct report_query *query, const char *key, const char *value,
		       char why[QUERY_WHY])
{
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
		if (strcmp(arguments[i].key, key) != 0 ||
		    (query->capture && !arguments[i].of_captures) ||
		    (query->dump && !arguments[i].of_dumps))
			continue;
		if (query->given & 1u << i) {
			snprintf(why, QUERY_WHY, "%s is given twice", key);
			return -EINVAL;
		}
		query->given |= 1u << i;
		return arguments[i].parse(query, value ? value : "", why);
	}
	snprintf(why, QUERY_WHY, SHOWN ": no such argument: %s", key,
		 query->capture ? "seconds"
		 : query->dump	? "format"
				: "format, seconds, table, of");
	return -EINVAL;
}

int report_query_end(struct report_query *query, uint64_t length_max_ns, char why[QUERY_WHY])
{
	if (query->dump) {
		query->dump_writer = query->dump_writer ?: format_named(&dump_formats, "text");
		query->length_ns = length_max_ns < DUMP_LENGTH_NS ? length_max_ns : DUMP_LENGTH_NS;
		return 0;
	}
	if (!query->writer && !query->export && !query->capture)
		query->writer = report_writer_named("html");
	if (query->length_ns > length_max_ns) {
		snprintf(why, QUERY_WHY, "the last %s are kept (--flight): ask for less",
			 as_ns(length_max_ns));
		return -EINVAL;
	}
	if (query->table && !(query->writer && query->writer->tables)) {
		snprintf(why, QUERY_WHY, "table needs format=csv or tsv");
		return -EINVAL;
	}
	if (query->of && !(query->export && query->export->of & EXPORT_BIT(query->of))) {
		struct text formats = {0};

		export_add_formats(&formats, query->of);
		snprintf(why, QUERY_WHY, "of needs one of these formats: %s", text_peek(&formats));
		text_clear(&formats);
		return -EINVAL;
	}
	if (!query->length_ns && !query->capture)
		query->length_ns =
			length_max_ns < REPORT_LENGTH_NS ? length_max_ns : REPORT_LENGTH_NS;
	return 0;
}

/* The q of a media range's parameters: 1 if it has none, 0 if it is not a number. */
static double quality_of(const char *parameters, const char *end)
{
	for (const char *p = parameters; p < end; p++) {
		if (*p != ';')
			continue;
		p += 1 + strspn(p + 1, " \t");
		if (p + 1 < end && (*p == 'q' || *p == 'Q') && p[1] == '=')
			return strtod(p + 2, NULL);
		p--;
	}
	return 1;
}

static bool is_range(const char *item, const char *name)
{
	size_t length = strlen(name);

	return !strncasecmp(item, name, length) && strchr(" \t;,", item[length]);
}

bool accepts_openmetrics(const char *accept)
{
	double openmetrics = 0, text = 0;

	while (accept && *accept) {
		const char *item = accept + strspn(accept, " \t,");
		const char *end = item + strcspn(item, ",");
		double quality = quality_of(item, end);

		if (is_range(item, "application/openmetrics-text")) {
			if (quality > openmetrics)
				openmetrics = quality;
		} else if (is_range(item, "text/plain") && quality > text) {
			text = quality;
		}
		accept = end;
	}
	return openmetrics > 0 && openmetrics >= text;
}
