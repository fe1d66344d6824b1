// SPDX-License-Identifier: BSD-2-Clause
#include "base/format.h"

#include <stdbool.h>
#include <string.h>

static const struct format *row(const struct format_table *table, size_t i)
{
	return (const void *)((const char *)table->rows + i * table->row_size);
}

const void *format_named(const struct format_table *table, const char *name)
{
	for (size_t i = 0; i < table->rows_count; i++)
		if (!strcmp(row(table, i)->name, name))
			return row(table, i);
	return NULL;
}

/* Does the name end in one of these, with something in front? */
static bool ends_in(const char *name, const char *suffixes)
{
	size_t length = strlen(name);

	while (*(suffixes += strspn(suffixes, " "))) {
		size_t count = strcspn(suffixes, " ");

		if (length > count && !strncmp(name + length - count, suffixes, count))
			return true;
		suffixes += count;
	}
	return false;
}

const void *format_for_path(const struct format_table *table, const char *path)
{
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < table->rows_count; i++)
		if (ends_in(slash ? slash + 1 : path, row(table, i)->suffixes))
			return row(table, i);
	return NULL;
}

const void *format_like(const struct format_table *table, const char *path, const void *before)
{
	const char *ending = strrchr(base_name(path), '.');
	size_t length = ending ? strlen(ending) : 0;
	bool begins = !before;

	for (size_t i = 0; length && i < table->rows_count; i++) {
		const char *found = row(table, i)->suffixes;

		if (begins)
			while ((found = strstr(found, ending)) && found[length] != ' ')
				found += length;
		if (begins && found)
			return row(table, i);
		begins |= row(table, i) == before;
	}
	return NULL;
}

const char *format_names(struct format_table *table)
{
	bool made = table->names.length > 0;

	for (size_t i = 0; i < table->rows_count && !made; i++)
		text_printf(&table->names, "%s%s", i ? ", " : "", row(table, i)->name);
	return text_peek(&table->names);
}

const char *format_suffixes(struct format_table *table)
{
	bool made = table->suffixes.length > 0;

	for (size_t i = 0; i < table->rows_count && !made; i++) {
		const char *first = row(table, i)->suffixes + 1;

		text_add(&table->suffixes, i ? " " : "");
		text_add_bytes(&table->suffixes, first, strcspn(first, " "));
	}
	return text_peek(&table->suffixes);
}
