// SPDX-License-Identifier: BSD-2-Clause
#include "attach/links.h"
#include "base/message.h"
#include "base/units.h"
#include "cmd/cmd.h"

#include <locale.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options are parsed in a copy: getopt and -p lists write into it. */
static char **copy_arguments(int argc, char **argv)
{
	char **copy = calloc((size_t)argc + 1, sizeof(*copy));

	for (int i = 0; copy && i < argc; i++)
		copy[i] = strdup(argv[i]);
	return copy;
}

static int dispatch(const struct options *options, char *const *argv)
{
	switch (options->verb) {
	case VERB_TRACE:
	case VERB_RECORD:
	case VERB_RUN:
		return cmd_trace(options, argv);
	case VERB_TOP:
		return cmd_top(options, argv);
	case VERB_SERVE:
		return cmd_serve(options, argv);
	case VERB_REPORT:
		return cmd_report(options);
	case VERB_EXPORT:
		return cmd_export(options);
	case VERB_DIFF:
		return cmd_diff(options);
	case VERB_MERGE:
		return cmd_merge(options);
	case VERB_TUNE:
		return cmd_tune(options);
	case VERB_COMPARE:
		return cmd_compare(options);
	case VERB_PROBES:
		return cmd_probes(options);
	case VERB_PEAKS:
		return cmd_peaks();
	case VERB_DOCTOR:
		return cmd_doctor();
	case VERB_EXPLAIN:
		return cmd_explain(options);
	case VERB_HELP:
		options_help(options->help_of);
		return EXIT_OK;
	case VERB_VERSION:
		puts("perfx-trace " PERFX_VERSION);
		return EXIT_OK;
	}
	return EXIT_USAGE;
}

/* What the build and the shells ask for; no verbs of a user's. */
static bool answer(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "generate-man"))
		options_man(stdin);
	else if (argc > 2 && !strcmp(argv[1], "complete"))
		options_complete(argc - 2, argv + 2);
	else
		return false;
	return true;
}

#define LARGE_BLOCK_BYTES (128 << 10)

int main(int argc, char **argv)
{
	struct options options;
	char **copy = copy_arguments(argc, argv);
	int code;

	/* A thread that frees a large block leaves it in its own heap, which nothing trims: the
	 * kernel's types, 12 MiB in each thread that loads programs. Mapped blocks are given back.
	 */
	mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
	if (!copy)
		return EXIT_FAILED;
	if (answer(argc, argv))
		return EXIT_OK;
	/* one name for all that a message can begin with, getopt's included */
	copy[0] = "perfx-trace";
	setlocale(LC_CTYPE, "");
	interrupt_install();
	code = options_parse(&options, argc, copy);
	if (code == EXIT_OK)
		code = dispatch(&options, argv);
	/* Probes left by a recording have no effect, but each hit still costs a trap. */
	if (!detaching_wait(DETACHING_PATIENCE_MS))
		msg_say("the probes stay in the program, without effect, for about %s more: this "
			"kernel removes them one by one (process %d does it)",
			as_ns(detaching_left_ns()), (int)detaching_pid());
	options_clear(&options);
	return code;
}
