// SPDX-License-Identifier: BSD-2-Clause
/* Who may ask, and what for: addresses, hosts, tokens, arguments. */
#include "serve/http.h"
#include "serve/job.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Test(listen, addresses)
{
	static const struct {
		const char *text, *shown; /* shown NULL: not one */
		bool loopback;
	} rows[] = {
		{"127.0.0.1:9477", "127.0.0.1:9477", true},
		{"localhost:0", "127.0.0.1:0", true},
		{"127.9.9.9:1", "127.9.9.9:1", true},
		{"[::1]:9477", "[::1]:9477", true},
		{"0.0.0.0:9477", "0.0.0.0:9477", false},
		{"10.1.2.3:65535", "10.1.2.3:65535", false},
		{"[::]:9477", "[::]:9477", false},
		{"[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", false},
		{"", NULL, false},
		{":9477", NULL, false},
		{"9477", NULL, false},
		{"127.0.0.1", NULL, false},
		{"127.0.0.1:", NULL, false},
		{"127.0.0.1:65536", NULL, false},
		{"127.0.0.1:-1", NULL, false},
		{"127.0.0.1:+1", NULL, false},
		{"127.0.0.1:1x", NULL, false},
		{"127.0.0.1:99999999999999999999", NULL, false},
		{"::1:9477", NULL, false},
		{"[]:1", NULL, false},
		{"[:1", NULL, false},
		{"[127.0.0.1]:1", NULL, false},
		{"example.org:80", NULL, false},
		{"1111111111111111111111111111111111111111111111111111111111:1", NULL, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct listen_address address;
		char shown[LISTEN_SHOWN];
		int err = listen_parse(rows[i].text, &address);

		cr_expect_eq(!err, rows[i].shown != NULL, "%s", rows[i].text);
		if (err)
			continue;
		cr_expect_str_eq(listen_show(&address, shown), rows[i].shown);
		cr_expect_eq(address.loopback, rows[i].loopback, "%s", rows[i].text);
	}
}

Test(host, a_loopback_has_few_names)
{
	static const char *const good[] = {"localhost", "LOCALHOST:9477", "127.0.0.1:9477",
					   "127.0.0.1", "127.1.2.3:80",	  "[::1]:9477",
					   "[::1]"};
	static const char *const bad[] = {"",
					  "evil.org",
					  "evil.org:9477",
					  "localhost.evil.org",
					  "127.0.0.1.evil.org",
					  "localhost:evil",
					  "127.0.0.1:",
					  "127.0.0.1:99999",
					  "128.0.0.1",
					  "[::2]",
					  "::1",
					  "[::1]evil",
					  "localhost:80:80",
					  "0x7f000001",
					  "2130706433",
					  "127.1",
					  "0.0.0.0",
					  "127.0.0.1 ",
					  "10.0.0.1:9477"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_expect(host_is_loopback(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(host_is_loopback(bad[i]), "%s", bad[i]);
}

#define TOKEN "0123456789abcdef"

Test(token, is_the_whole_of_it)
{
	static const char *const bad[] = {"", " " TOKEN, TOKEN "0", "0123456789abcde",
					  "0123456789abcdeF"};

	cr_expect(is_token(TOKEN, TOKEN));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(is_token(bad[i], TOKEN), "%s", bad[i]);
}

static char *load(const char *content, mode_t mode, const char **why)
{
	char path[] = "/tmp/perfx-token-XXXXXX", *token;
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
	fchmod(fd, mode);
	close(fd);
	*why = NULL;
	token = token_load(path, why);
	unlink(path);
	return token;
}

Test(token, is_read_from_a_file_that_others_cannot_read)
{
	static const struct {
		const char *content, *why;
		mode_t mode;
	} bad[] = {
		{TOKEN "\n", "everybody can read it", 0644},
		{"short\n", "no token of 16", 0600},
		{"", "no token of 16", 0600},
		{"\n" TOKEN, "no token of 16", 0600},
		{"0123456789 abcdef", "a header cannot have", 0600},
	};
	const char *why;
	char *token = load(TOKEN "\nmore\n", 0640, &why);

	cr_assert_not_null(token, "%s", why);
	cr_expect_str_eq(token, TOKEN);
	free(token);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_null(load(bad[i].content, bad[i].mode, &why));
		cr_assert_not_null(why);
		cr_expect(strstr(why, bad[i].why), "%s", why);
	}
	cr_expect_null(token_load("/no/such/file", &why));
	cr_expect_str_eq(why, "No such file or directory");
}

#define FLIGHT_NS 30000000000u

/* "key=value&…" as a server hands it on. 0 or -errno. */
static int take(struct report_query *query, const char *arguments, char why[QUERY_WHY])
{
	char copy[256], *rest = copy, *item;
	int err = 0;

	*query = (struct report_query){0};
	snprintf(copy, sizeof(copy), "%s", arguments);
	while (!err && (item = strsep(&rest, "&")) && *item) {
		char *value = strchr(item, '=');

		if (value)
			*value++ = '\0';
		err = report_query_parse(query, item, value, why);
	}
	return err ? err : report_query_end(query, FLIGHT_NS, why);
}

Test(query, what_a_report_is_to_be)
{
	static const struct {
		const char *arguments, *type, *file;
		uint64_t length_ns;
	} rows[] = {
		{"", "text/html; charset=utf-8", "report.html", 10000000000u},
		{"format=json&seconds=30", "application/json", "report.json", FLIGHT_NS},
		{"seconds=500ms&format=text", "text/plain; charset=utf-8", "report.txt", 500000000},
		{"format=csv&table=threads", "text/csv; charset=utf-8", "report.csv", 10000000000u},
		{"format=folded&of=cpu", "text/plain; charset=utf-8", "report.folded",
		 10000000000u},
		{"format=perfetto", "application/octet-stream", "report.pftrace", 10000000000u},
	};
	struct report_query query;
	char why[QUERY_WHY], name[QUERY_FILE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(take(&query, rows[i].arguments, why), 0, "%s", why);
		cr_expect_str_eq(report_query_type(&query), rows[i].type);
		cr_expect_str_eq(report_query_file(&query, name), rows[i].file);
		cr_expect_eq(query.length_ns, rows[i].length_ns);
	}
}

/* A format that is added is served with its type. */
Test(query, knows_all_formats)
{
	for (size_t i = 0; i < report_formats.rows_count + export_formats.rows_count; i++) {
		bool report = i < report_formats.rows_count;
		const struct format_table *table = report ? &report_formats : &export_formats;
		size_t at = report ? i : i - report_formats.rows_count;
		const struct format *format =
			(const void *)((const char *)table->rows + at * table->row_size);
		struct report_query query = {0};
		char why[QUERY_WHY] = "";

		cr_expect_eq(report_query_parse(&query, "format", format->name, why), 0, "%s", why);
		cr_expect_eq(report_query_parse(&query, "format", "x", why), -EINVAL);
		query = (struct report_query){0};
		cr_expect_eq(report_query_parse(&query, "format", "x", why), -EINVAL);
		cr_expect(strstr(why, format->name), "%s is not in: %s", format->name, why);
	}
}

Test(query, what_a_dump_is_to_be)
{
	struct report_query query = {.dump = true};
	char why[QUERY_WHY] = "", name[QUERY_FILE];

	cr_expect_eq(report_query_end(&query, FLIGHT_NS, why), 0);
	cr_expect_str_eq(report_query_type(&query), "text/plain; charset=utf-8");
	cr_expect_str_eq(report_query_file(&query, name), "dump.txt");
	query = (struct report_query){.dump = true};
	cr_expect_eq(report_query_parse(&query, "format", "json", why), 0);
	cr_expect_eq(report_query_end(&query, FLIGHT_NS, why), 0);
	cr_expect_str_eq(report_query_file(&query, name), "dump.json");
	query = (struct report_query){.dump = true};
	cr_expect_eq(report_query_parse(&query, "format", "html", why), -EINVAL);
	cr_expect(strstr(why, "text, md, json"), "%s", why);
	cr_expect_eq(report_query_parse(&query, "seconds", "1", why), -EINVAL);
	cr_expect(strstr(why, "no such argument: format"), "%s", why);
}

Test(query, says_what_is_wrong)
{
	static const struct {
		const char *arguments, *why;
	} rows[] = {
		{"format=xml", "no such format: text, md"},
		{"format", "no such format"},
		{"seconds=0", "not a duration"},
		{"seconds=-1", "not a duration"},
		{"seconds=x", "not a duration"},
		{"seconds=31", "30.0 s are kept"},
		{"seconds=99999999999999999999", "not a duration"},
		{"seconds=1&seconds=2", "given twice"},
		{"table=threads", "needs format=csv"},
		{"format=csv&table=x", "no such table"},
		{"of=cpu", "one of these formats: pprof, folded, speedscope"},
		{"format=folded&of=x", "not calls, cpu"},
		{"path=/etc/passwd", "no such argument"},
		{"%00=1", "no such argument"},
	};
	struct report_query query;
	char why[QUERY_WHY];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		why[0] = '\0';
		cr_expect_eq(take(&query, rows[i].arguments, why), -EINVAL, "%s",
			     rows[i].arguments);
		cr_expect(strstr(why, rows[i].why), "%s: %s", rows[i].arguments, why);
	}
}

Test(accept, openmetrics_is_chosen_where_it_is_liked_as_much)
{
	static const struct {
		const char *accept;
		bool openmetrics;
	} rows[] = {
		{NULL, false},
		{"", false},
		{"*/*", false},
		{"text/plain", false},
		{"application/openmetrics-text", true},
		{"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version="
		 "0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		 true},
		{"text/plain, application/openmetrics-text;q=0.5", false},
		{"application/openmetrics-text; q=0", false},
		{"application/openmetrics-textual", false},
		{"APPLICATION/OPENMETRICS-TEXT ; Q=1", true},
		{",,;;q=,application/openmetrics-text;q=x", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(accepts_openmetrics(rows[i].accept), rows[i].openmetrics, "%s",
			     rows[i].accept ? rows[i].accept : "NULL");
}
