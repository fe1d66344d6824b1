// SPDX-License-Identifier: BSD-2-Clause
#include "report/table/table.h"

#include "base/grow.h"
#include "base/order.h"
#include "report/json/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool data_table_column_in(const struct data_table_kind *kind,
			  const struct data_table_column *column, enum column_place place)
{
	if (column->only == COLUMN_BOTH || column->only == place)
		return true;
	return place == COLUMN_SQL &&
	       (column->only == COLUMN_CSV || !data_table_column_named(kind, column->name));
}

const struct data_table_column *data_table_csv_column(const struct data_table_kind *kind,
						      const struct data_table_column *from)
{
	for (; from < kind->columns + kind->columns_count; from++)
		if (data_table_column_in(kind, from, COLUMN_CSV))
			return from;
	return NULL;
}

const struct data_table_column *data_table_column_named(const struct data_table_kind *kind,
							const char *name)
{
	const struct data_table_column *column = kind->columns;

	while ((column = data_table_csv_column(kind, column)) && strcmp(column->name, name))
		column++;
	return column;
}

void data_table_column_names(const struct data_table_kind *kind, struct text *into)
{
	const struct data_table_column *column = kind->columns;

	for (; (column = data_table_csv_column(kind, column)); column++)
		text_printf(into, "%s%s", into->length ? ", " : "", column->name);
}

struct value data_table_value(struct data_table *table, const struct data_table_row *row,
			      const struct data_table_column *column)
{
	struct value value = {0};
	const void *member;

	if (column->get)
		return column->get(table, row);
	member = (const char *)table->kind->item(row) + column->offset;
	switch (column->type) {
	case COLUMN_U64:
	case COLUMN_COUNT:
		value.integer = *(const uint64_t *)member;
		value.kind = value.integer == PROFILE_ABSENT ? VALUE_ABSENT : VALUE_INTEGER;
		break;
	case COLUMN_U32:
		value = (struct value){VALUE_INTEGER, .integer = *(const uint32_t *)member};
		break;
	case COLUMN_REAL:
		value.real = *(const double *)member;
		value.kind = value.real < 0 ? VALUE_ABSENT : VALUE_REAL;
		break;
	case COLUMN_TRUTH:
		value = (struct value){VALUE_FLAG, .integer = *(const bool *)member};
		break;
	case COLUMN_TEXT:
	case COLUMN_SENTENCE:
		value.text = *(const char *const *)member;
		value.kind = !value.text		   ? VALUE_ABSENT
			     : column->type == COLUMN_TEXT ? VALUE_TEXT
							   : VALUE_SENTENCE;
		break;
	case COLUMN_NESTED:
		break;
	}
	if (column->unless_zero && !value.integer && value.real == 0 &&
	    (!value.text || !*value.text))
		value.kind = VALUE_ABSENT;
	return value;
}

void data_table_read(const struct data_table_kind *kind, void *item, const json_t *object)
{
	for (size_t i = 0; i < kind->columns_count; i++) {
		const struct data_table_column *column = &kind->columns[i];
		const json_t *value = json_object_get(object, column->name);
		void *member = (char *)item + column->offset;
		uint64_t number;

		if (column->get || !data_table_column_in(kind, column, COLUMN_JSON))
			continue;
		number = json_to_u64(value);
		switch (column->type) {
		case COLUMN_U64:
			*(uint64_t *)member = number;
			break;
		case COLUMN_COUNT:
			*(uint64_t *)member = number == PROFILE_ABSENT ? 0 : number;
			break;
		case COLUMN_U32:
			*(uint32_t *)member = number == PROFILE_ABSENT ? 0 : (uint32_t)number;
			break;
		case COLUMN_REAL:
			*(double *)member = json_is_number(value) ? json_number_value(value) : -1;
			break;
		case COLUMN_TRUTH:
			*(bool *)member = json_is_true(value);
			break;
		case COLUMN_TEXT:
			*(const char **)member = json_string_value(value) ?: "";
			break;
		case COLUMN_SENTENCE:
		case COLUMN_NESTED:
			break;
		}
	}
}

int data_table_add(struct data_table *table, const struct data_table_row *of_process, size_t item,
		   size_t part)
{
	struct data_table_row *row;

	if (GROW_BY_ONE(table->rows))
		return -ENOMEM;
	row = &table->rows[table->rows_count++];
	*row = *of_process;
	row->item = item;
	row->part = part;
	return 0;
}

int data_table_fill_process(struct data_table *table, const struct data_table_row *of_process)
{
	size_t count;
	int err = 0;

	if (table->kind->fill)
		return table->kind->fill(table, of_process);
	memcpy(&count, (const char *)of_process->process + table->kind->count_offset,
	       sizeof(count));
	for (size_t i = 0; i < count && !err; i++)
		err = data_table_add(table, of_process, i, 0);
	return err;
}

int data_table_fill(struct data_table *table, const struct data_table_kind *kind,
		    const struct profile *profile, const struct analysis *analysis)
{
	*table = (struct data_table){.kind = kind, .profile = profile};
	for (size_t i = 0; i < profile->processes_count; i++) {
		struct data_table_row row = {.process = &profile->processes[i],
					     .analysis = analysis ? &analysis->processes[i] : NULL};
		int err = data_table_fill_process(table, &row);

		if (err)
			return err;
	}
	return 0;
}

void data_table_clear(struct data_table *table)
{
	free(table->rows);
	text_clear(&table->made);
	*table = (struct data_table){0};
}

struct key {
	struct value value;
	char *text; /* owned */
	struct data_table_row row;
	size_t place;
};

static int compare_values(const struct value *a, const struct value *b)
{
	if (a->kind != b->kind) /* one is absent */
		return a->kind == VALUE_ABSENT ? 1 : -1;
	switch (a->kind) {
	case VALUE_INTEGER:
	case VALUE_FLAG:
		return DESCENDING(a->integer, b->integer);
	case VALUE_REAL:
		return DESCENDING(a->real, b->real);
	case VALUE_RANK:
		return ASCENDING(a->integer, b->integer);
	case VALUE_TEXT:
	case VALUE_SENTENCE:
		return strcmp(a->text, b->text);
	case VALUE_JSON:
	case VALUE_ABSENT:
		break;
	}
	return 0;
}

ORDER(compare_keys, struct key, compare_values(&a->value, &b->value), ASCENDING(a->place, b->place))

int data_table_sort(struct data_table *table, const struct data_table_column *column)
{
	struct key *keys = calloc(table->rows_count + 1, sizeof(*keys));
	int err = keys ? 0 : -ENOMEM;

	for (size_t i = 0; i < table->rows_count && !err; i++) {
		struct value value = data_table_value(table, &table->rows[i], column);

		keys[i] = (struct key){.value = value, .row = table->rows[i], .place = i};
		if (value.kind != VALUE_TEXT && value.kind != VALUE_SENTENCE)
			continue;
		/* as CSV shows it */
		keys[i].value.text = keys[i].text = strdup(value.text[0] ? value.text : "?");
		err = keys[i].text ? 0 : -ENOMEM;
	}
	if (!err)
		qsort(keys, table->rows_count, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < table->rows_count && keys; i++) {
		if (!err)
			table->rows[i] = keys[i].row;
		free(keys[i].text);
	}
	free(keys);
	return err;
}
