/* SPDX-License-Identifier: BSD-2-Clause */
/* How tables and their columns are written down: columns*.c. */
#ifndef PERFX_REPORT_TABLE_COLUMNS_H
#define PERFX_REPORT_TABLE_COLUMNS_H

#include "base/units.h"
#include "report/table/table.h"

#include <stddef.h>

static inline struct value absent(void)
{
	return (struct value){.kind = VALUE_ABSENT};
}

static inline struct value integer(uint64_t number)
{
	return (struct value){.kind = number == PROFILE_ABSENT ? VALUE_ABSENT : VALUE_INTEGER,
			      .integer = number};
}

static inline struct value flag(bool set)
{
	return (struct value){.kind = VALUE_FLAG, .integer = set};
}

static inline struct value words(const char *text)
{
	return (struct value){.kind = VALUE_TEXT, .text = text};
}

static inline struct value words_if(const char *text)
{
	return text ? words(text) : absent();
}

static inline struct value real(double number)
{
	return (struct value){.kind = number < 0 ? VALUE_ABSENT : VALUE_REAL, .real = number};
}

static inline struct value nested(json_t *json)
{
	return (struct value){.kind = json_is_null(json) ? VALUE_ABSENT : VALUE_JSON, .json = json};
}

/* Negative: absent. */
static inline struct value rounded(double number)
{
	return number < 0 ? absent() : integer(u64_of(number + 0.5));
}

static inline struct value function_name(const struct data_table *s, uint32_t id)
{
	const struct profile_function *function = profile_function(s->profile, id);

	return words_if(function ? function->name : NULL);
}

/* A column's function: `VALUE(name, expression)` with table s and row r. */
#define VALUE(name, ...)                                                               \
	static struct value name(struct data_table *s, const struct data_table_row *r) \
	{                                                                              \
		(void)s;                                                               \
		(void)r;                                                               \
		return __VA_ARGS__;                                                    \
	}

/* A row's item, `name`, and the same without its type for data_table_kind, `name_item`. */
#define ITEM(name, type, ...)                                          \
	static const struct type *name(const struct data_table_row *r) \
	{                                                              \
		return __VA_ARGS__;                                    \
	}                                                              \
	static const void *name##_item(const struct data_table_row *r) \
	{                                                              \
		return name(r);                                        \
	}

/* A member of the row's item. */
#define MEMBER(of, field, member_type) .offset = offsetof(struct of, field), .type = (member_type)
#define AT(of, field) \
	MEMBER(of, field,                           \
	       _Generic(((struct of *)NULL)->field, \
		       uint64_t: COLUMN_U64,        \
		       uint32_t: COLUMN_U32,        \
		       double: COLUMN_REAL,         \
		       bool: COLUMN_TRUTH,          \
		       char *: COLUMN_TEXT,         \
		       const char *: COLUMN_TEXT))
#define COUNT_AT(of, field)    MEMBER(of, field, COLUMN_COUNT)
#define SENTENCE_AT(of, field) MEMBER(of, field, COLUMN_SENTENCE)
#define NONZERO		       .unless_zero = true
/* What `get` returns, unless it is an integer. */
#define WORDS  .type = COLUMN_TEXT
#define RATIO  .type = COLUMN_REAL
#define NESTED .type = COLUMN_NESTED
/* Where a column is in one place only. */
#define CSV	     .only = COLUMN_CSV
#define JSON	     .only = COLUMN_JSON
#define SQL	     .only = COLUMN_SQL
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* columns.c */
struct value column_process(struct data_table *s, const struct data_table_row *r);
struct value column_pid(struct data_table *s, const struct data_table_row *r);
struct value column_comm(struct data_table *s, const struct data_table_row *r);

/* A text that lives until the next value. */
struct value made(struct data_table *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Innermost first: "append (train.c:12);main (main.c:9)" */
struct value column_frames(struct data_table *s, const struct profile_frame *const *frames,
			   size_t count);

/* Columns that every table begins with. */
#define OF_PROCESS                                                                \
	{"process", .get = column_process, SQL}, {"pid", .get = column_pid, CSV}, \
	{                                                                         \
		"comm", .get = column_comm, WORDS, CSV                            \
	}

/* The first members of a struct data_table_kind with the columns `name_columns`. */
#define COLUMNS(name) #name, name##_columns, COUNT(name##_columns)
/* A row for each of so many of the process. */
#define EACH(field) .count_offset = offsetof(struct profile_process, field)

extern const struct data_table_kind functions_table, processes_table;
/* columns_memory.c */
extern const struct data_table_kind memory_table, hotspots_table;
/* columns_gpu.c */
extern const struct data_table_kind gpu_kernels_table, gpu_copies_table, gpu_syncs_table;

#endif
