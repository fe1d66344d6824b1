// SPDX-License-Identifier: BSD-2-Clause
/* JSON reports, which diff compares, and the templates that they are put into: a report, then,
 * where there is one, a NUL and a template. */
#include "fuzz.h"

#include "diff/diff.h"
#include "report/report.h"
#include "report/table/table.h"

static void compare(const struct json_report *report)
{
	static const char *const formats[] = {"text", "md", "json"};
	const struct diff_options options = {.name_a = "a", .name_b = "b", .width = 80};
	const struct profile *profile = json_report__profile(report);
	struct analysis *analysis = json_report__analysis(report, profile);
	struct diff *diff = diff__new(profile, profile, DIFF_THRESHOLD);

	if (!analysis || !diff || diff_findings(diff, analysis, analysis))
		abort();
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		diff_writer_named(formats[i])->write(fuzz_nowhere(), diff, &options);
	diff__free(diff);
	analysis__free(analysis);
}

static void fill_in(const char *template, const char *json, size_t size)
{
	json_t *root = json_loadb(json, size, 0, NULL);
	char why[TEMPLATE_WHY];

	template_check_names(template, why);
	if (root && !template_check(template, why))
		template_render(fuzz_nowhere(), template, root);
	json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, 0, size);
	size_t json_size = end ? (size_t)(end - data) : size;
	char path[FUZZ_PATH], why[JSON_REPORT_WHY] = "", *template;
	int fd = fuzz_file(data, json_size, path);
	struct json_report *report = json_report__read(path, why);

	close(fd);
	if (report)
		compare(report);
	else if (!*why)
		abort();
	json_report__free(report);
	if (!end)
		return 0;
	template = fuzz_text(end + 1, size - json_size - 1);
	fill_in(template, (const char *)data, json_size);
	free(template);
	return 0;
}
