// SPDX-License-Identifier: BSD-2-Clause
#include "serve/page.h"

#include "base/text.h"
#include "export/export.h"
#include "page_html.h"
#include "report/report.h"
#include "report_html.h"

#define POLICY                                                                \
	"default-src 'none'; style-src '" report_css_hash "' '" page_css_hash \
	"'; script-src '" report_js_hash "' '" page_js_hash                   \
	"'; connect-src 'self'; base-uri 'none'; form-action "                \
	"'none'; frame-ancestors 'none'"

const char *page_policy(void)
{
	return POLICY;
}

static const char head[] =
	"<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n"
	"<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
	"<meta name=color-scheme content=\"light dark\">\n"
	"<meta name=generator content=perfx-trace>\n<title>perfx-trace</title>\n";

/* With the names of the formats of reports and of exports. */
static const char body[] =
	"<main>\n<h1 id=verdict>perfx-trace</h1>\n"
	"<p class=\"note state\" id=state role=status>Waiting for the recording…</p>\n"
	"<div class=tools><button type=button id=pause aria-pressed=false>Pause</button>\n"
	"<a href=\"report?seconds=10\">Report of the last 10 s</a>\n"
	"<a href=\"capture\">Capture</a> <a href=\"metrics\">Metrics</a></div>\n"
	"<noscript><p class=warning>Without its script this page shows nothing live; what is below "
	"works.</p></noscript>\n"
	"<div id=charts class=charts hidden></div>\n<div id=findings></div>\n<div "
	"id=tables></div>\n"
	"<p class=note id=own></p>\n"
	"<h2>What there is</h2>\n<div class=\"table there\"><table><thead>"
	"<tr><th scope=col>Path<th scope=col>What it is</thead><tbody>\n"
	"<tr><td><a href=\"metrics\">/metrics</a>"
	"<td>counters since the recording began, for Prometheus\n"
	"<tr><td><a "
	"href=\"report?format=html&amp;seconds=30\">/report?format=html&amp;seconds=30</a>"
	"<td>the last seconds as a report: %s\n"
	"<tr><td><a href=\"report?format=perfetto&amp;seconds=10\">"
	"/report?format=perfetto&amp;seconds=10</a>"
	"<td>or as another tool's file: %s\n"
	"<tr><td><a href=\"capture\">/capture</a>"
	"<td>all that the flight recorder has, for perfx-trace report, export and diff\n"
	"<tr><td><a href=\"live.json\">/live.json</a><td>what this page shows\n"
	"<tr><td><a href=\"healthz\">/healthz</a><td>200 while the recording goes on\n"
	"</tbody></table></div>\n</main>\n";

char *page_new(size_t *size)
{
	struct text page = {0};

	text_printf(&page, "%s<style>", head);
	text_add_bytes(&page, (const char *)report_css, sizeof(report_css));
	text_add(&page, "</style><style>");
	text_add_bytes(&page, (const char *)page_css, sizeof(page_css));
	text_add(&page, "</style>\n");
	text_printf(&page, body, format_names(&report_formats), format_names(&export_formats));
	text_add(&page, "<script>");
	text_add_bytes(&page, (const char *)report_js, sizeof(report_js));
	text_add(&page, "</script><script>");
	text_add_bytes(&page, (const char *)page_js, sizeof(page_js));
	text_add(&page, "</script>\n</html>\n");
	*size = page.length;
	return text_take(&page);
}
