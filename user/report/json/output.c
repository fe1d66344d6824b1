// SPDX-License-Identifier: BSD-2-Clause
#include "report/json/output.h"

#include "aggregate/profile.h"
#include "base/escape.h"
#include "base/text.h"
#include "base/utf8.h"

#include <errno.h>

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

static void put(struct json_output *o, const char *key, json_t *value, size_t digits)
{
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

json_t *json_of_integer(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* What a traced process wrote may be no UTF-8. */
json_t *json_of_string(const char *value)
{
	struct text text = {0};
	json_t *json = NULL;

	utf8_repair(&text, value);
	if (!text.failed)
		json = json_string(text_peek(&text));
	text_clear(&text);
	return json;
}

json_t *json_of_sentence(const char *value)
{
	struct text text = {0};
	json_t *json = NULL;

	escape_unmarked(&text, value);
	if (!text.failed)
		json = json_string(text_peek(&text));
	text_clear(&text);
	return json;
}

/* Sets an integer in an object, unless it was not measured. */
void json_set_measured(json_t *object, const char *key, uint64_t value)
{
	if (value != PROFILE_ABSENT)
		json_object_set_new(object, key, json_of_integer(value));
}

void json_put_measured(struct json_output *o, const char *key, uint64_t value)
{
	if (value != PROFILE_ABSENT)
		json_put(o, key, json_of_integer(value));
}
