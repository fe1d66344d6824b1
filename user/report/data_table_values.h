/* SPDX-License-Identifier: BSD-2-Clause */
/* How the columns of tables (data_table.h) are written down. */
#ifndef PERFX_REPORT_DATA_TABLE_VALUES_H
#define PERFX_REPORT_DATA_TABLE_VALUES_H

#include "report/data_table.h"

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

/* "" is shown as "?": a reader of CSV would take it for "absent". */
static inline struct value words(const char *text)
{
	return (struct value){.kind = VALUE_TEXT, .text = text[0] ? text : "?"};
}

static inline struct value real(double number)
{
	return (struct value){.kind = number < 0 ? VALUE_ABSENT : VALUE_REAL, .real = number};
}

static inline struct value sentence(const char *text)
{
	return (struct value){.kind = VALUE_SENTENCE, .text = text};
}

/* A column's function: `VALUE(name, expression)` with table s and row r. */
#define VALUE(name, ...)                                                               \
	static struct value name(struct data_table *s, const struct data_table_row *r) \
	{                                                                              \
		(void)s;                                                               \
		(void)r;                                                               \
		return __VA_ARGS__;                                                    \
	}

#define AT(type, field) .offset = offsetof(struct type, field)
#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))

/* --- of every table --------------------------------------------------------------------------- */

VALUE(get_pid, integer(r->process->pid))
VALUE(get_comm, words(r->process->comm))

#define OF_PROCESS                  \
	{"pid", get_pid, 0},        \
	{                           \
		"comm", get_comm, 0 \
	}

/* data_table_steps.c */
extern const struct data_table_kind data_table_steps;

#endif
