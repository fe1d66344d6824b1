// SPDX-License-Identifier: BSD-2-Clause
#include "report/table/table.h"

#include "base/escape.h"
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
	return part.length == strlen(text) && !memcmp(part.at, text, part.length);
}

struct tag {
	char kind; /* # ^ / ! & and = for a plain value; 0: there is none */
	struct part name, format;
	const char *begin, *end; /* with its line, where it is a section's alone on it */
};

static struct part trimmed(const char *from, const char *to)
{
	while (from < to && strchr(" \t", *from))
		from++;
	while (to > from && strchr(" \t", to[-1]))
		to--;
	return (struct part){from, (size_t)(to - from)};
}

/* A section's tag that is alone on its line takes the line with it. */
static void extend_to_line(struct tag *tag, const char *text)
{
	const char *from = tag->begin, *to = tag->end;

	if (!strchr("#^/!", tag->kind))
		return;
	while (from > text && strchr(" \t", from[-1]))
		from--;
	while (*to == ' ' || *to == '\t' || *to == '\r')
		to++;
	if ((from > text && from[-1] != '\n') || (*to && *to != '\n'))
		return;
	tag->begin = from;
	tag->end = *to ? to + 1 : to;
}

/* The first tag from there on; text: where the whole begins. A tag without an end has no name, and
 * goes up to the end. */
static struct tag next_tag(const char *text, const char *from)
{
	struct tag tag = {.begin = strstr(from, "{{"), .kind = '='};
	const char *at, *close, *colon;
	bool triple;

	if (!tag.begin)
		return (struct tag){0};
	triple = tag.begin[2] == '{';
	at = tag.begin + 2 + triple;
	close = strstr(at, triple ? "}}}" : "}}");
	if (!close) {
		tag.end = tag.begin + strlen(tag.begin);
		return tag;
	}
	tag.end = close + 2 + triple;
	if (triple)
		tag.kind = '&';
	else if (*at && strchr("#^/!&", *at))
		tag.kind = *at++;
	colon = memchr(at, ':', (size_t)(close - at));
	tag.name = trimmed(at, colon ? colon : close);
	if (colon)
		tag.format = trimmed(colon + 1, close);
	extend_to_line(&tag, text);
	return tag;
}

/* The tag that ends a section, or kind 0. */
static struct tag closing(const char *text, const struct tag *section)
{
	const char *at = section->end;
	unsigned depth = 1;

	for (;;) {
		struct tag tag = next_tag(text, at);

		if (!tag.kind)
			return tag;
		depth += tag.kind == '#' || tag.kind == '^';
		depth -= tag.kind == '/';
		if (!depth)
			return tag;
		at = tag.end;
	}
}

static const char *const formats[] = {"ns", "bytes", "count", "percent",
				      "si", "md",    "html",  "json"};

static const char *fault_of(const struct tag *tag, const struct part *open, size_t depth)
{
	bool section = tag->kind == '#' || tag->kind == '^', known = !tag->format.length;
	struct part name = tag->name, format = tag->format;
	bool is_number = format.length && format.length < 9 &&
			 strspn(format.at, "0123456789") >= format.length;

	if (tag->kind == '!')
		return NULL;
	if (!tag->name.length)
		return "a tag without an end or a name";
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		known = known || (!section && is(tag->format, formats[i]));
	if (section && depth == DEPTH_MAX)
		return "sections nested too deeply";
	if (!known && !(tag->kind == '#' && is_number))
		return section ? "after the colon a section has a number of elements"
			       : "no such format: ns, bytes, count, percent, si, md, html, json";
	if (tag->kind == '/' && (!depth || name.length != open[depth - 1].length ||
				 memcmp(name.at, open[depth - 1].at, name.length) != 0))
		return "not the end of the open section";
	return NULL;
}

static int line_of(const char *text, const char *at)
{
	int line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

static void set_why(char why[TEMPLATE_WHY], int line, struct part name, const char *fault)
{
	if (!name.length)
		name = (struct part){"{{", 2};
	snprintf(why, TEMPLATE_WHY, "%d: %.*s: %s", line, name.length > 60 ? 60 : (int)name.length,
		 name.at, fault);
}

int template_check(const char *text, char why[TEMPLATE_WHY])
{
	const char *opened[DEPTH_MAX + 1];
	struct part open[DEPTH_MAX];
	size_t depth = 0;
	struct tag tag = {.end = text};

	while ((tag = next_tag(text, tag.end)).kind) {
		const char *fault = fault_of(&tag, open, depth);

		if (fault) {
			set_why(why, line_of(text, tag.begin), tag.name, fault);
			return -EINVAL;
		}
		if (tag.kind == '#' || tag.kind == '^') {
			opened[depth] = tag.begin;
			open[depth++] = tag.name;
		}
		depth -= tag.kind == '/';
	}
	if (!depth)
		return 0;
	set_why(why, line_of(text, opened[depth - 1]), open[depth - 1], "the section has no end");
	return -EINVAL;
}

static bool is_name(struct part part)
{
	static const char *const special[] = {"", "@index", "@first", "@last"};

	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (is(part, special[i]))
			return true;
	for (size_t i = 0; i < sizeof(report_names) / sizeof(report_names[0]); i++)
		if (is(part, report_names[i]))
			return true;
	return false;
}

static const char *report_name_at(size_t index)
{
	return index < sizeof(report_names) / sizeof(report_names[0]) ? report_names[index] : NULL;
}

/* The first member of a.b.c that no report has; length 0: there is none. */
static struct part unknown_member(struct part name)
{
	while (name.length) {
		const char *dot = memchr(name.at, '.', name.length);
		struct part member = {name.at, dot ? (size_t)(dot - name.at) : name.length};

		if (!is_name(member))
			return member;
		if (!dot)
			break;
		name = (struct part){dot + 1, name.length - member.length - 1};
	}
	return (struct part){name.at, 0};
}

int template_check_names(const char *text, char why[TEMPLATE_WHY])
{
	char fault[120], word[64];
	struct tag tag = {.end = text};

	while ((tag = next_tag(text, tag.end)).kind) {
		struct part unknown = {0};
		struct text near = {0};

		if (!strchr("!/", tag.kind))
			unknown = unknown_member(tag.name);
		if (!unknown.length)
			continue;
		snprintf(word, sizeof(word), "%.*s", (int)unknown.length, unknown.at);
		nearest_names(&near, word, report_name_at);
		snprintf(fault, sizeof(fault), "no such name in a report%s%s",
			 near.length ? "; similar: " : "", text_peek(&near));
		text_clear(&near);
		set_why(why, line_of(text, tag.begin), tag.name, fault);
		return -EINVAL;
	}
	return 0;
}

/* The value that names are resolved in: an object, or an element of a list. */
struct scope {
	const struct scope *around;
	const json_t *value;
	size_t index, count;
};

struct rendering {
	FILE *out;
	const char *text;
	int err;
};

static const json_t *member(const json_t *object, struct part name)
{
	char key[64];

	if (name.length >= sizeof(key))
		return NULL;
	memcpy(key, name.at, name.length);
	key[name.length] = '\0';
	return json_object_get(object, key);
}

/* The name up to the first dot in the innermost scope that has it, then on from there. */
static const json_t *value_named(const struct scope *scope, struct part name)
{
	const char *dot = memchr(name.at, '.', name.length);
	size_t length = dot ? (size_t)(dot - name.at) : name.length;
	const json_t *value = NULL;

	if (is(name, "."))
		return scope->value;
	for (; scope && !value; scope = scope->around)
		value = member(scope->value, (struct part){name.at, length});
	while (value && length < name.length) {
		name = (struct part){name.at + length + 1, name.length - length - 1};
		dot = memchr(name.at, '.', name.length);
		length = dot ? (size_t)(dot - name.at) : name.length;
		value = member(value, (struct part){name.at, length});
	}
	return value;
}

/* As it stands in the report. */
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

static void put_value(struct rendering *r, const struct tag *tag, const struct scope *scope)
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
	fwrite(text_peek(&text), 1, text.length, r->out);
	if (plain.failed || text.failed)
		r->err = -ENOMEM;
	text_clear(&plain);
	text_clear(&text);
}

static void render(struct rendering *r, const char *from, const char *to,
		   const struct scope *scope);

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

static void render_list(struct rendering *r, const struct tag *tag, const char *to,
			const struct scope *around, const json_t *list)
{
	size_t count = json_array_size(list);
	size_t limit = tag->format.length ? strtoul(tag->format.at, NULL, 10) : count;
	struct scope scope = {.around = around, .count = count < limit ? count : limit};

	for (; scope.index < scope.count && !r->err; scope.index++) {
		scope.value = json_array_get(list, scope.index);
		render(r, tag->end, to, &scope);
	}
}

static void render_section(struct rendering *r, const struct tag *tag, const char *to,
			   const struct scope *scope)
{
	const json_t *value = value_named(scope, tag->name);
	struct scope inner = {.around = scope, .value = value, .count = 1};

	if (holds(tag, scope, value) != (tag->kind == '#'))
		return;
	if (json_is_array(value) && tag->kind == '#')
		render_list(r, tag, to, scope, value);
	else
		render(r, tag->end, to, json_is_object(value) ? &inner : scope);
}

/* Text was checked: sections end, and there are not too many in each other. */
static void render(struct rendering *r, const char *from, const char *to, const struct scope *scope)
{
	while (from < to && !r->err) {
		struct tag tag = next_tag(r->text, from), end;
		const char *until = tag.kind && tag.begin < to ? tag.begin : to;

		fwrite(from, 1, (size_t)(until - from), r->out);
		if (until == to)
			return;
		from = tag.end;
		if (tag.kind == '=' || tag.kind == '&')
			put_value(r, &tag, scope);
		if (tag.kind != '#' && tag.kind != '^')
			continue;
		end = closing(r->text, &tag);
		if (!end.kind)
			return;
		render_section(r, &tag, end.begin, scope);
		from = end.end;
	}
}

int template_render(FILE *out, const char *text, const json_t *report)
{
	struct rendering r = {.out = out, .text = text};
	struct scope scope = {.value = report, .count = 1};

	render(&r, text, text + strlen(text), &scope);
	return r.err;
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
