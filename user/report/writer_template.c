// SPDX-License-Identifier: BSD-2-Clause
/* The JSON report, put into the places of a template. */
#include "report/template.h"
#include "report/writers.h"

#include <errno.h>
#include <stdlib.h>

static int report_as_json(json_t **root, const struct profile *profile,
			  const struct analysis *analysis, const struct report_options *options)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int err = out ? report_write_json(out, profile, analysis, options) : -ENOMEM;

	if (out && fclose(out) && !err)
		err = -ENOMEM;
	*root = err ? NULL : json_loadb(text, size, 0, NULL);
	free(text);
	return err ? err : *root ? 0 : -ENOMEM;
}

static int write_template(FILE *out, const struct profile *profile, const struct analysis *analysis,
			  const struct report_options *options)
{
	json_t *root;
	int err = report_as_json(&root, profile, analysis, options);

	if (!err)
		err = template_render(out, options->template, root);
	json_decref(root);
	if (!err && ferror(out))
		err = errno ? -errno : -EIO;
	return err;
}

const struct report_writer report_writer_template = {
	.name = "template", .suffixes = " ", .write = write_template};
