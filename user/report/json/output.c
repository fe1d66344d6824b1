// SPDX-License-Identifier: BSD-2-Clause
#include "report/json/output.h"

#include "aggregate/profile.h"
#include "base/escape.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>

static void begin_item(struct json_output *o, const char *key)
{
	fputs(o->first ? "\n" : ",\n", o->file);
	for (unsigned i = 0; i < o->depth; i++)
		fputs("  ", o->file);
	if (key)
		fprintf(o->file, "\"%s\": ", key);
	o->first = false;
}

void json_open(struct json_output *o, const char *key, char bracket)
{
	if (o->depth)
		begin_item(o, key);
	fputc(bracket, o->file);
	o->depth++;
	o->first = true;
}

void json_close(struct json_output *o, char bracket)
{
	o->depth--;
	if (!o->first) {
		fputc('\n', o->file);
		for (unsigned i = 0; i < o->depth; i++)
			fputs("  ", o->file);
	}
	fputc(bracket, o->file);
	o->first = false;
}

int json_end(struct json_output *o)
{
	json_close(o, '}');
	fputc('\n', o->file);
	if (!o->err && ferror(o->file))
		o->err = errno ? -errno : -EIO;
	return o->err;
}

static void put(struct json_output *o, const char *key, json_t *value, size_t digits)
{
	if (json_is_null(value))
		return;
	if (!value) {
		o->err = -ENOMEM;
		return;
	}
	begin_item(o, key);
	if (json_dumpf(value, o->file, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits)))
		o->err = errno ? -errno : -EIO;
	json_decref(value);
}

void json_put(struct json_output *o, const char *key, json_t *value)
{
	put(o, key, value, 9);
}

void json_put_exact(struct json_output *o, const char *key, json_t *value)
{
	put(o, key, value, 17);
}

void json_put_members(struct json_output *o, json_t *object)
{
	if (!object)
		o->err = -ENOMEM;
	for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
		json_put(o, json_object_iter_key(at), json_incref(json_object_iter_value(at)));
	json_decref(object);
}

void json_put_object(struct json_output *o, const char *key, json_t *object)
{
	json_open(o, key, '{');
	json_put_members(o, object);
	json_close(o, '}');
}

void json_put_integer(struct json_output *o, const char *key, uint64_t value)
{
	json_put(o, key, json_of_integer(value));
}

void json_put_string(struct json_output *o, const char *key, const char *value)
{
	json_put(o, key, json_of_string(value));
}

json_t *json_of_members(const struct json_member *members)
{
	json_t *object = json_object();
	bool failed = !object;

	for (; members->key; members++)
		if (!json_is_null(members->value))
			failed |= json_object_set_new(object, members->key, members->value) != 0;
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

void json_set(json_t *object, const char *key, json_t *value)
{
	if (!json_is_null(value))
		json_object_set_new(object, key, value);
}

void json_set_integer(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_of_integer(value));
}

void json_set_string(json_t *object, const char *key, const char *value)
{
	json_object_set_new(object, key, json_of_string(value));
}

json_t *json_unless_empty(json_t *container)
{
	if (!container || json_object_size(container) || json_array_size(container))
		return container;
	json_decref(container);
	return json_null();
}

json_t *json_of_integer(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *json_of_measured(uint64_t value)
{
	return value == PROFILE_ABSENT ? json_null() : json_of_integer(value);
}

json_t *json_of_count(uint64_t value)
{
	return value ? json_of_integer(value) : json_null();
}

json_t *json_of_known(double value)
{
	return value >= 0 ? json_real(value) : json_null();
}

json_t *json_of_positive(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

json_t *json_of_number(double number)
{
	if (!isfinite(number))
		return json_null();
	/* up to 2^53 every whole number is a double */
	return number == floor(number) && fabs(number) <= 0x1p53 ? json_integer((json_int_t)number)
								 : json_real(number);
}

static json_t *json_of_text(struct text *text)
{
	json_t *json = text->failed ? NULL : json_string(text_peek(text));

	text_clear(text);
	return json;
}

json_t *json_of_string(const char *value)
{
	struct text text = {0};

	utf8_repair(&text, value);
	return json_of_text(&text);
}

json_t *json_of_name(const char *name)
{
	struct text text = {0};

	escape_display(&text, name[0] ? name : "?");
	return json_of_text(&text);
}

json_t *json_of_sentence(const char *value)
{
	struct text text = {0};

	escape_unmarked(&text, value);
	return json_of_text(&text);
}

json_t *json_of_any_string(const char *value)
{
	return value && *value ? json_of_string(value) : json_null();
}

uint64_t json_to_u64(const json_t *value)
{
	double real = json_number_value(value);

	if (json_is_integer(value) && json_integer_value(value) >= 0)
		return (uint64_t)json_integer_value(value);
	return json_is_real(value) && real >= 0 && real < 0x1p63 ? (uint64_t)(real + 0.5)
								 : PROFILE_ABSENT;
}

static json_t *json_of_value(const struct value *value)
{
	switch (value->kind) {
	case VALUE_INTEGER:
		return json_of_integer(value->integer);
	case VALUE_REAL:
		return json_real(value->real);
	case VALUE_TEXT:
		return json_of_string(value->text);
	case VALUE_SENTENCE:
		return json_of_sentence(value->text);
	case VALUE_RANK:
		return json_string(value->text);
	case VALUE_FLAG:
		return json_boolean(value->integer);
	case VALUE_JSON:
		return value->json;
	case VALUE_ABSENT:
		break;
	}
	return NULL;
}

json_t *json_of_row(struct data_table *table, const struct data_table_row *row)
{
	json_t *object = json_object();

	for (size_t i = 0; object && i < table->kind->columns_count; i++) {
		const struct data_table_column *column = &table->kind->columns[i];
		struct value value;

		if (!data_table_column_in(table->kind, column, COLUMN_JSON))
			continue;
		value = data_table_value(table, row, column);
		if (value.kind != VALUE_ABSENT)
			json_object_set_new(object, column->name, json_of_value(&value));
	}
	return object;
}

void json_put_rows(struct json_output *o, const char *key, const char *kind,
		   const struct profile *profile, const struct data_table_row *of_process)
{
	struct data_table table = {.kind = data_table_kind_named(kind), .profile = profile};

	if (data_table_fill_process(&table, of_process))
		o->err = -ENOMEM;
	json_open(o, key, '[');
	for (size_t i = 0; i < table.rows_count; i++)
		json_put(o, NULL, json_of_row(&table, &table.rows[i]));
	json_close(o, ']');
	data_table_clear(&table);
}
