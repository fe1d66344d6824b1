// SPDX-License-Identifier: BSD-2-Clause
#include "base/text.h"
#include "report/table/table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char report[] =
	"{\"verdict\": \"a<b>\\u001b[1m | c\", \"n\": 1234567, \"ns\": 1500000, \"share\": 0.25,"
	" \"no\": false, \"none\": null, \"empty\": [], \"real\": 0.5,"
	" \"host\": {\"name\": \"h\", \"cpus\": {\"count\": 2}},"
	" \"rows\": [{\"name\": \"x\", \"calls\": 3}, {\"name\": \"y\"}, {\"name\": \"z\", "
	"\"calls\": 0}], \"words\": [\"p\", \"q\"]}";

static void check(const char *template, const char *expected)
{
	json_t *root = json_loads(report, 0, NULL);
	char why[TEMPLATE_WHY] = "", *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_not_null(root);
	cr_assert_eq(template_check(template, why), 0, "%s: %s", template, why);
	cr_assert_eq(template_render(out, template, root), 0);
	fclose(out);
	cr_expect_str_eq(text, expected, "%s gives\n%s", template, text);
	free(text);
	json_decref(root);
}

Test(template, values)
{
	check("", "");
	check("no tag } }} {", "no tag } }} {");
	check("{{n}} {{ real }} {{no}} {{none}}{{missing}}.", "1234567 0.5 false .");
	check("{{host.name}} {{host.cpus.count}} {{host.cpus}} {{host.x.y}}", "h 2 {\"count\":2} ");
	check("{{n:count}} {{ns:ns}} {{share:percent}} {{n:bytes}} {{n:si}}{{missing:ns}}",
	      "1,234,567 1.50 ms 25.0 % 1.18 MiB 1.23 M");
}

/* A foreign text is harmless, and escaped for the form that is asked for. */
Test(template, escapes)
{
	check("{{verdict}}", "a<b>\\x1b[1m | c");
	check("{{verdict:html}}", "a&#60;b&#62;\\x1b[1m | c");
	check("{{verdict:md}}", "a&lt;b&gt;\\\\x1b\\[1m &#124; c");
	check("{{verdict:json}}", "\"a<b>\\\\x1b[1m | c\"");
	check("{{{verdict}}}{{&verdict}}", "a<b>\x1b[1m | ca<b>\x1b[1m | c");
}

Test(template, sections)
{
	check("{{#rows}}{{name}}{{calls}};{{/rows}}", "x3;y;z0;");
	check("{{#rows:2}}{{@index}}{{name}}{{^@last}}, {{/@last}}{{/rows}}", "1x, 2y");
	check("{{#rows}}{{#@first}}first {{/@first}}{{name}}{{/rows}}", "first xyz");
	check("{{#words}}<{{.}}>{{/words}}{{#empty}}x{{/empty}}{{^empty}}none{{/empty}}",
	      "<p><q>none");
	check("{{#rows}}{{#calls}}{{name}} {{/calls}}{{^calls}}-{{name}} {{/calls}}{{/rows}}",
	      "x -y z ");
	check("{{#no}}x{{/no}}{{#none}}x{{/none}}{{#missing}}x{{/missing}}{{^no}}y{{/no}}", "y");
	check("{{#host}}{{name}} {{n}} {{#cpus}}{{count}}{{/cpus}}{{/host}}", "h 1234567 2");
	check("{{#rows:1}}{{#rows:1}}{{name}}{{/rows}}{{/rows}}", "x");
}

/* A section's tag takes its line, where it is alone. */
Test(template, lines)
{
	check("a\n{{#rows:2}}\n{{name}}\n{{/rows}}\nb\n", "a\nx\ny\nb\n");
	check("  {{! said to nobody }}  \nx {{! here }} y\n{{n}}\n", "x  y\n1234567\n");
	check("{{#no}}\r\nx\r\n{{/no}}\r\nend", "end");
	check("{{^no}}\nend\n{{/no}}", "end\n");
}

/* A tag for every member, however deep. */
static void name_all(struct text *text, const json_t *value)
{
	const char *key;
	json_t *member;
	size_t at;

	json_object_foreach((json_t *)value, key, member)
	{
		text_printf(text, "{{%s}}", key);
		name_all(text, member);
	}
	json_array_foreach(value, at, member) name_all(text, member);
}

Test(template, mistakes)
{
	static const struct {
		const char *template, *why;
	} rows[] = {
		{"{{", "1: {{: a tag without an end or a name"},
		{"a\nb{{ }}", "2: {{: a tag without an end or a name"},
		{"{{#a}}\n{{#b}}\n{{/b}}", "1: a: the section has no end"},
		{"{{#a}}{{/b}}", "1: b: not the end of the open section"},
		{"\n\n{{/b}}", "3: b: not the end of the open section"},
		{"{{a:ms}}", "1: a: no such format: ns, bytes, count, percent, si, md, html, json"},
		{"{{#a:ns}}{{/a}}", "1: a: after the colon a section has a number of elements"},
		{"{{#a:-1}}{{/a}}", "1: a: after the colon a section has a number of elements"},
		{"{{^a:1}}{{/a}}", "1: a: after the colon a section has a number of elements"},
	};
	char why[TEMPLATE_WHY], *deep = calloc(1, 10 * 40 + 1);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_expect_eq(template_check(rows[i].template, why), -EINVAL, "%s",
			     rows[i].template);
		cr_expect_str_eq(why, rows[i].why);
	}
	for (int i = 0; i < 40; i++)
		strcat(deep, "{{#a}}");
	cr_expect_eq(template_check(deep, why), -EINVAL);
	cr_expect_str_eq(why, "1: a: sections nested too deeply");
	free(deep);
}

/* Each name of the reports that the golden tests make is one; a slip is told with what is near. */
Test(template, names)
{
	static const char *const files[] = {"ordinary", "memory",      "compute",
					    "ranges",	"annotations", "findings",
					    "killed",	"truncated",   "overflow"};
	char why[TEMPLATE_WHY];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct text text = {0};
		char path[64];
		json_t *root;

		snprintf(path, sizeof(path), "tests/golden/%s.json", files[i]);
		root = json_load_file(path, 0, NULL);
		cr_assert_not_null(root, "%s", path);
		name_all(&text, root);
		cr_expect_eq(template_check_names(text_peek(&text), why), 0, "%s:%s", path, why);
		text_clear(&text);
		json_decref(root);
	}
	cr_expect_eq(template_check_names(
			     "{{#functions}}{{.}}{{@index}}{{! vedict }}{{/functions}}", why),
		     0);
	cr_expect_eq(template_check_names("a\n{{vedict}}", why), -EINVAL);
	cr_expect(strstr(why, "2: vedict: no such name in a report; similar: verdict") == why, "%s",
		  why);
	cr_expect_eq(template_check_names("{{capture.durations_ns:ns}}", why), -EINVAL);
	cr_expect_not_null(strstr(why, "similar: duration_ns"), "%s", why);
}

/* What was checked can be rendered, whatever it is. */
Test(template, garbage)
{
	static const char *const pieces[] = {"{{",   "}}",	 "{{#rows}}", "{{/rows}}",
					     "{{{",  "}}}",	 "\n",	      " ",
					     "name", "{{name}}", "{{^n}}",    "{{/n}}",
					     ":",    "2",	 "{{.}}"};
	json_t *root = json_loads(report, 0, NULL);
	char why[TEMPLATE_WHY], template[512];
	FILE *out = fopen("/dev/null", "we");
	unsigned rendered = 0;

	srand(9);
	for (int round = 0; round < 50000; round++) {
		template[0] = '\0';
		for (int i = rand() % 12; i >= 0; i--)
			strcat(template,
			       pieces[(size_t)rand() % (sizeof(pieces) / sizeof(pieces[0]))]);
		if (template_check(template, why))
			continue;
		cr_assert_eq(template_render(out, template, root), 0);
		rendered++;
	}
	cr_assert_gt(rendered, 1000);
	fclose(out);
	json_decref(root);
}
