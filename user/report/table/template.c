// SPDX-License-Identifier: BSD-2-Clause
#include "report/table/table.h"

#include "base/escape.h"
#include "base/grow.h"
#include "base/units.h"
#include "elf/pattern.h"
#include "report/json/output.h"
#include "report/report.h"
#include "report_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32 /* sections in each other */

struct part {
	const char *at;
	size_t length;
};

static bool is(struct part part, const char *text)
{
	return part.length == strlen(text) && (!part.length || !memcmp(part.at, text, part.length));
}

/* Text between tags belongs to none. */
struct tag {
	char kind; /* # ^ / ! & and = for a plain value */
	struct part name, format;
	const char *begin, *end; /* a section's, alone on its line, with the line */
	size_t closing;		 /* of a section: index of the tag that ends it */
};

struct tags {
	struct tag *list;
	size_t count, capacity;
};

static bool is_section(const struct tag *tag)
{
	return tag->kind == '#' || tag->kind == '^';
}

static struct part trimmed(const char *from, const char *to)
{
	while (from < to && strchr(" \t", *from))
		from++;
	while (to > from && strchr(" \t", to[-1]))
		to--;
	return (struct part){from, (size_t)(to - from)};
}

/* The first tag from there on; text: where the whole begins. A tag without an end has no name, and
 * goes up to the end. */
static bool next_tag(struct tag *tag, const char *text, const char *from)
{
	const char *at, *close, *colon;
	bool triple;

	*tag = (struct tag){.begin = strstr(from, "{{"), .kind = '='};
	if (!tag->begin)
		return false;
	triple = tag->begin[2] == '{';
	at = tag->begin + 2 + triple;
	close = strstr(at, triple ? "}}}" : "}}");
	if (!close) {
		tag->end = tag->begin + strlen(tag->begin);
		return true;
	}
	tag->end = close + 2 + triple;
	if (triple)
		tag->kind = '&';
	else if (*at && strchr("#^/!&", *at))
		tag->kind = *at++;
	colon = memchr(at, ':', (size_t)(close - at));
	tag->name = trimmed(at, colon ? colon : close);
	if (colon)
		tag->format = trimmed(colon + 1, close);
	if (!strchr("#^/!", tag->kind))
		return true;
	at = tag->begin;
	while (at > text && strchr(" \t", at[-1]))
		at--;
	close = tag->end + strspn(tag->end, " \t\r");
	if ((at == text || at[-1] == '\n') && (!*close || *close == '\n')) {
		tag->begin = at;
		tag->end = close + (*close == '\n');
	}
	return true;
}

static const char *fault_of(const struct tag *tag, const struct tag *open, size_t depth)
{
	static const char *const formats[] = {"",   "ns", "bytes", "count", "percent",
					      "si", "md", "html",  "json"};
	struct part format = tag->format;
	bool is_number = format.length && format.length < 9 &&
			 strspn(format.at, "0123456789") >= format.length;
	bool known = false;

	if (tag->kind == '!')
		return NULL;
	if (!tag->name.length)
		return "a tag without an end or a name";
	if (is_section(tag) && depth == DEPTH_MAX)
		return "sections nested too deeply";
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		known = known || is(format, formats[i]);
	if (is_section(tag) && format.length && !(tag->kind == '#' && is_number))
		return "after the colon a section has a number of elements";
	if (!is_section(tag) && !known)
		return "no such format: ns, bytes, count, percent, si, md, html, json";
	if (tag->kind == '/' && (!open || tag->name.length != open->name.length ||
				 memcmp(tag->name.at, open->name.at, tag->name.length) != 0))
		return "not the end of the open section";
	return NULL;
}

static int refuse(char why[TEMPLATE_WHY], const char *text, const struct tag *tag,
		  const char *fault)
{
	struct part name = tag->name.length ? tag->name : (struct part){"{{", 2};
	int line = 1;

	for (; text < tag->begin; text++)
		line += *text == '\n';
	snprintf(why, TEMPLATE_WHY, "%d: %.*s: %s", line, name.length > 60 ? 60 : (int)name.length,
		 name.at, fault);
	return -EINVAL;
}

/* 0, -EINVAL with the reason, or -ENOMEM; the caller frees the list either way. */
static int parse(struct tags *tags, const char *text, char why[TEMPLATE_WHY])
{
	size_t open[DEPTH_MAX], depth = 0;
	struct tag tag;

	for (const char *from = text; next_tag(&tag, text, from); from = tag.end) {
		const char *fault =
			fault_of(&tag, depth ? &tags->list[open[depth - 1]] : NULL, depth);

		if (fault)
			return refuse(why, text, &tag, fault);
		if (is_section(&tag))
			open[depth++] = tags->count;
		else if (tag.kind == '/')
			tags->list[open[--depth]].closing = tags->count;
		if (LIST_ADD_TO(tags, tag))
			return -ENOMEM;
	}
	return depth ? refuse(why, text, &tags->list[open[depth - 1]], "the section has no end")
		     : 0;
}

int template_check(const char *text, char why[TEMPLATE_WHY])
{
	struct tags tags = {0};
	int err = parse(&tags, text, why);

	free(tags.list);
	return err;
}

/* The part of a.b.c before the first dot; name is then the rest, all-zero behind the last. */
static struct part first_member(struct part *name)
{
	const char *dot = memchr(name->at, '.', name->length);
	struct part first = {name->at, dot ? (size_t)(dot - name->at) : name->length};

	*name = dot ? (struct part){dot + 1, name->length - first.length - 1} : (struct part){0};
	return first;
}

static const char *report_name_at(size_t index)
{
	return index < sizeof(report_names) / sizeof(report_names[0]) ? report_names[index] : NULL;
}

static bool is_report_name(struct part part)
{
	size_t i = 0;

	while (report_name_at(i) && !is(part, report_name_at(i)))
		i++;
	return report_name_at(i) || is(part, "") || is(part, "@index") || is(part, "@first") ||
	       is(part, "@last");
}

int template_check_names(const char *text, char why[TEMPLATE_WHY])
{
	char fault[120], word[64];
	struct tag tag;

	for (const char *from = text; next_tag(&tag, text, from); from = tag.end) {
		struct part name = tag.name, member = {0};
		struct text near = {0};

		if (strchr("!/", tag.kind) || !name.length)
			continue;
		while (name.at && is_report_name(member = first_member(&name)))
			member = (struct part){0};
		if (!member.at)
			continue;
		snprintf(word, sizeof(word), "%.*s", (int)member.length, member.at);
		nearest_names(&near, word, report_name_at);
		snprintf(fault, sizeof(fault), "no such name in a report%s%s",
			 near.length ? "; similar: " : "", text_peek(&near));
		text_clear(&near);
		return refuse(why, text, &tag, fault);
	}
	return 0;
}

/* The value that names are resolved in: an object, or an element of a list. */
struct scope {
	const struct scope *around;
	const json_t *value;
	size_t index, count;
};

/* The name up to the first dot in the innermost scope that has it, then on from there. */
static const json_t *value_named(const struct scope *scope, struct part name)
{
	const json_t *value = NULL;
	struct part first;

	if (is(name, "."))
		return scope->value;
	first = first_member(&name);
	for (; scope && !value; scope = scope->around)
		value = json_object_getn(scope->value, first.at, first.length);
	while (value && name.at) {
		first = first_member(&name);
		value = json_object_getn(value, first.at, first.length);
	}
	return value;
}

/* The value as the report has it. */
static void add_plain(struct text *into, const json_t *value)
{
	char *dumped;

	if (json_is_string(value)) {
		text_add(into, json_string_value(value));
	} else if (json_is_real(value)) {
		text_printf(into, "%.9g", json_real_value(value));
	} else if (value && !json_is_null(value)) {
		dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		text_add(into, dumped ? dumped : "");
		into->failed |= !dumped;
		free(dumped);
	}
}

static bool add_number(struct text *into, struct part format, double value)
{
	uint64_t whole = value > 0 && value < 0x1p63 ? (uint64_t)(value + 0.5) : 0;

	if (is(format, "ns"))
		add_ns(into, whole);
	else if (is(format, "bytes"))
		add_bytes(into, whole);
	else if (is(format, "count"))
		add_count(into, whole);
	else if (is(format, "percent"))
		add_percent(into, value > 0 ? value : 0);
	else if (is(format, "si"))
		add_si(into, value > 0 ? value : 0, "");
	else
		return false;
	return true;
}

/* For the form that the format names; without one harmless on a terminal. */
static void add_escaped(struct text *into, struct part format, const char *plain)
{
	struct text shown = {0};
	json_t *string;
	char *dumped;

	escape_display(&shown, plain);
	if (is(format, "md")) {
		escape_markdown(into, text_peek(&shown));
	} else if (is(format, "html")) {
		escape_html(into, text_peek(&shown));
	} else if (is(format, "json")) {
		string = json_string(text_peek(&shown));
		dumped = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
		text_add(into, dumped ? dumped : "");
		into->failed |= !dumped;
		free(dumped);
		json_decref(string);
	} else {
		text_add(into, text_peek(&shown));
	}
	text_finish(&shown, &into->failed);
}

static void put_value(FILE *out, const struct tag *tag, const struct scope *scope, int *err)
{
	const json_t *value = value_named(scope, tag->name);
	struct text plain = {0}, text = {0};

	if (is(tag->name, "@index"))
		text_printf(&plain, "%zu", scope->index + 1);
	else
		add_plain(&plain, value);
	if (tag->kind == '&')
		text_add(&text, text_peek(&plain));
	else if (!json_is_number(value) ||
		 !add_number(&text, tag->format, json_number_value(value)))
		add_escaped(&text, tag->format, text_peek(&plain));
	fwrite(text_peek(&text), 1, text.length, out);
	if (plain.failed || text.failed)
		*err = -ENOMEM;
	text_clear(&plain);
	text_clear(&text);
}

/* Is the section's value true? */
static bool holds(const struct tag *tag, const struct scope *scope, const json_t *value)
{
	if (is(tag->name, "@last"))
		return scope->index + 1 >= scope->count;
	if (is(tag->name, "@first"))
		return !scope->index;
	if (json_is_array(value))
		return json_array_size(value) > 0;
	return value && !json_is_null(value) && !json_is_false(value);
}

/* The text from there up to the tag at index `to`, with the tags from index `at` on. */
static int render(FILE *out, const struct tags *tags, const char *from, size_t at, size_t to,
		  const struct scope *scope)
{
	int err = 0;

	for (; at < to && !err; at++) {
		const struct tag *tag = &tags->list[at];
		struct scope inner = {.around = scope, .count = 1};
		const json_t *value, *list;

		fwrite(from, 1, (size_t)(tag->begin - from), out);
		from = tag->end;
		if (tag->kind == '=' || tag->kind == '&')
			put_value(out, tag, scope, &err);
		if (!is_section(tag))
			continue;
		value = value_named(scope, tag->name);
		list = tag->kind == '#' && json_is_array(value) ? value : NULL;
		if (list)
			inner.count = json_array_size(list);
		if (list && tag->format.length && strtoul(tag->format.at, NULL, 10) < inner.count)
			inner.count = strtoul(tag->format.at, NULL, 10);
		if (holds(tag, scope, value) != (tag->kind == '#'))
			inner.count = 0;
		for (; inner.index < inner.count && !err; inner.index++) {
			inner.value = list ? json_array_get(list, inner.index) : value;
			err = render(out, tags, from, at + 1, tag->closing,
				     list || json_is_object(value) ? &inner : scope);
		}
		at = tag->closing;
		from = tags->list[at].end;
	}
	fwrite(from, 1, to < tags->count ? (size_t)(tags->list[to].begin - from) : strlen(from),
	       out);
	return err;
}

int template_render(FILE *out, const char *text, const json_t *report)
{
	struct scope scope = {.value = report, .count = 1};
	char why[TEMPLATE_WHY];
	struct tags tags = {0};
	int err = parse(&tags, text, why);

	if (!err)
		err = render(out, &tags, text, 0, tags.count, &scope);
	free(tags.list);
	return err;
}

static int write_template(FILE *out, const struct profile *profile, const struct analysis *analysis,
			  const struct report_options *options)
{
	char *text = NULL;
	size_t size;
	int err = report_json_text(&text, &size, profile, analysis, options);
	json_t *root = err ? NULL : json_loadb(text, size, 0, NULL);

	if (!err && !root)
		err = -ENOMEM;
	if (!err)
		err = template_render(out, options->template, root);
	json_decref(root);
	free(text);
	if (!err && ferror(out))
		err = errno ? -errno : -EIO;
	return err;
}

const struct report_writer report_writer_template = {
	{"template", " "}, NULL, write_template, false};
