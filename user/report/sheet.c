// SPDX-License-Identifier: BSD-2-Clause
#include "report/sheet.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct sheet_column *sheet_column_named(const struct sheet_kind *kind, const char *name)
{
	for (size_t i = 0; i < kind->columns_count; i++) {
		if (!strcmp(kind->columns[i].name, name))
			return &kind->columns[i];
	}
	return NULL;
}

void sheet_column_names(const struct sheet_kind *kind, struct text *into)
{
	for (size_t i = 0; i < kind->columns_count; i++)
		text_printf(into, "%s%s", i ? ", " : "", kind->columns[i].name);
}

struct value sheet_value(struct sheet *sheet, const struct sheet_row *row,
			 const struct sheet_column *column)
{
	uint64_t figure;

	if (column->get)
		return column->get(sheet, row);
	memcpy(&figure, (const char *)sheet->kind->item(row) + column->offset, sizeof(figure));
	return (struct value){.kind = figure == PROFILE_ABSENT ? VALUE_ABSENT : VALUE_INTEGER,
			      .integer = figure};
}

int sheet_add(struct sheet *sheet, const struct sheet_row *of_process, size_t item, size_t part)
{
	struct sheet_row *row;

	if (grow_array(&sheet->rows, &sheet->rows_capacity, sheet->rows_count + 1,
		       sizeof(*sheet->rows)))
		return -ENOMEM;
	row = &sheet->rows[sheet->rows_count++];
	*row = *of_process;
	row->item = item;
	row->part = part;
	return 0;
}

int sheet_fill(struct sheet *sheet, const struct sheet_kind *kind, const struct profile *profile,
	       const struct analysis *analysis)
{
	*sheet = (struct sheet){.kind = kind, .profile = profile};
	for (size_t i = 0; i < profile->processes_count; i++) {
		struct sheet_row row = {.process = &profile->processes[i],
					.analysis = analysis ? &analysis->processes[i] : NULL};
		int err = kind->fill(sheet, &row);

		if (err)
			return err;
	}
	return 0;
}

void sheet_clear(struct sheet *sheet)
{
	free(sheet->rows);
	text_clear(&sheet->made);
	*sheet = (struct sheet){0};
}

/* --- order ---------------------------------------------------------------------------------- */

struct key {
	struct value value;
	char *text; /* owned */
	struct sheet_row row;
	size_t place;
};

static int compare_values(const struct value *a, const struct value *b)
{
	if (a->kind != b->kind) /* one is absent */
		return a->kind == VALUE_ABSENT ? 1 : -1;
	switch (a->kind) {
	case VALUE_INTEGER:
	case VALUE_FLAG:
		return a->integer < b->integer ? 1 : a->integer > b->integer ? -1 : 0;
	case VALUE_REAL:
		return a->real < b->real ? 1 : a->real > b->real ? -1 : 0;
	case VALUE_RANK:
		return a->integer < b->integer ? -1 : a->integer > b->integer;
	case VALUE_TEXT:
	case VALUE_SENTENCE:
		return strcmp(a->text, b->text);
	case VALUE_ABSENT:
		break;
	}
	return 0;
}

static int compare_keys(const void *left, const void *right)
{
	const struct key *a = left, *b = right;
	int order = compare_values(&a->value, &b->value);

	if (order)
		return order;
	return a->place < b->place ? -1 : a->place > b->place;
}

static int make_key(struct sheet *sheet, const struct sheet_column *column, struct key *key,
		    size_t i)
{
	key->row = sheet->rows[i];
	key->place = i;
	key->value = sheet_value(sheet, &sheet->rows[i], column);
	if (key->value.kind == VALUE_TEXT || key->value.kind == VALUE_SENTENCE) {
		key->text = strdup(key->value.text);
		key->value.text = key->text;
		return key->text ? 0 : -ENOMEM;
	}
	return 0;
}

int sheet_sort(struct sheet *sheet, const struct sheet_column *column)
{
	struct key *keys = calloc(sheet->rows_count + 1, sizeof(*keys));
	int err = keys ? 0 : -ENOMEM;

	for (size_t i = 0; i < sheet->rows_count && !err; i++)
		err = make_key(sheet, column, &keys[i], i);
	if (!err)
		qsort(keys, sheet->rows_count, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < sheet->rows_count && keys; i++) {
		if (!err)
			sheet->rows[i] = keys[i].row;
		free(keys[i].text);
	}
	free(keys);
	return err;
}
