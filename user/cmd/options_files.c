// SPDX-License-Identifier: BSD-2-Clause
/*
 * A capture cannot be made again: no file is written that is read, and none by two. stdout counts,
 * where a shell has led it into a file.
 */
#include "cmd/options_internal.h"

#include "base/message.h"
#include "base/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STDOUT_PATH "/dev/stdout"

/* Or is the one what the other is called until it is whole? */
static bool collide(const char *written, const char *other)
{
	char *part;
	bool same = output_is_same(written, other);

	if (same || asprintf(&part, "%s" OUTPUT_PART_SUFFIX, written) < 0)
		return same;
	same = output_is_same(part, other);
	free(part);
	return same;
}

static int check_read(const struct options *options, const char *written)
{
	const char *const read[] = {options->capture, options->capture_after, options->flops_rules,
				    options->template};

	for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++) {
		if (!read[i] || !collide(written, read[i]))
			continue;
		msg_say("%s is read, and would be overwritten: name another file with -o", read[i]);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

int option_check_files(const struct options *options)
{
	const char *output =
		options->output && strcmp(options->output, "-") ? options->output : STDOUT_PATH;
	const char *keep = options->keep;
	int code;

	if (options->verb == VERB_PROBES || options->verb == VERB_PEAKS ||
	    options->verb == VERB_DOCTOR)
		return EXIT_OK;
	code = check_read(options, output);
	if (!code && keep)
		code = check_read(options, keep);
	if (code || !keep || (!collide(output, keep) && !collide(keep, output)))
		return code;
	msg_say("--capture %s: the report is written to the same file: name another", keep);
	return EXIT_USAGE;
}
