// SPDX-License-Identifier: BSD-2-Clause
/* What a client of serve sends: headers and arguments, one a line. */
#include "fuzz.h"

#include "serve/http.h"
#include "serve/job.h"

#define TOKEN	  "0123456789abcdef"
#define FLIGHT_NS 30000000000u

/* "key=value&key", as the HTTP library hands it on. */
static void take_arguments(char *arguments)
{
	struct report_query query = {0};
	char why[QUERY_WHY] = "", name[QUERY_FILE], *item;
	int err = 0;

	while (!err && (item = strsep(&arguments, "&"))) {
		char *value = strchr(item, '=');

		if (value)
			*value++ = '\0';
		err = report_query_parse(&query, item, value, why);
	}
	if (!err)
		err = report_query_end(&query, FLIGHT_NS, why);
	if (err && (!*why || !memchr(why, '\0', sizeof(why))))
		abort();
	if (err)
		return;
	if (!report_query_type(&query) || !report_query_file(&query, name) ||
	    query.length_ns > FLIGHT_NS)
		abort();
}

static void take_address(const char *text)
{
	struct listen_address address, again;
	char shown[LISTEN_SHOWN];

	if (listen_parse(text, &address))
		return;
	if (listen_parse(listen_show(&address, shown), &again) ||
	    address.loopback != again.loopback)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		host_is_loopback(line);
		accepts_openmetrics(line);
		take_address(line);
		/* nobody guesses it */
		if (is_token(line, TOKEN) && strcmp(line, TOKEN) != 0)
			abort();
		take_arguments(line);
	}
	free(text);
	return 0;
}
