// SPDX-License-Identifier: BSD-2-Clause
#include "attach/links.h"
#include "base/message.h"
#include "base/units.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int help(const struct options *options)
{
	options_help(options->help_of);
	return EXIT_OK;
}

static int version(const struct options *options)
{
	(void)options;
	puts("perfx-trace " PERFX_VERSION);
	return EXIT_OK;
}

static int (*const verbs[])(const struct options *options) = {
	[VERB_TRACE] = cmd_trace,     [VERB_RECORD] = cmd_trace,  [VERB_RUN] = cmd_trace,
	[VERB_DUMP] = cmd_dump,	      [VERB_TOP] = cmd_top,	  [VERB_SERVE] = cmd_serve,
	[VERB_REPORT] = cmd_report,   [VERB_EXPORT] = cmd_export, [VERB_DIFF] = cmd_diff,
	[VERB_MERGE] = cmd_merge,     [VERB_TUNE] = cmd_tune,	  [VERB_COMPARE] = cmd_compare,
	[VERB_PROBES] = cmd_probes,   [VERB_PEAKS] = cmd_peaks,	  [VERB_DOCTOR] = cmd_doctor,
	[VERB_EXPLAIN] = cmd_explain, [VERB_HELP] = help,	  [VERB_VERSION] = version,
};

/* Fails if stdout lost what was printed, unless its reader closed the pipe. */
static int check_stdout(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

	if (!fflush(stdout) && !ferror(stdout))
		return EXIT_OK;
	if (poll(&out, 1, 0) > 0 && (out.revents & POLLERR))
		return EXIT_OK;
	return output_result(NULL, errno ? -errno : -EIO);
}

#define LARGE_BLOCK_BYTES (128 << 10)

int main(int argc, char **argv)
{
	struct options options;
	/* options are parsed in a copy: getopt and -p lists write into it */
	char **copy = calloc((size_t)argc + 1, sizeof(*copy));
	int code;

	/* A thread that frees a large block leaves it in its own heap, which nothing trims: the
	 * kernel's types, 12 MiB in each thread that loads programs. Mapped blocks are given back.
	 */
	mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
	if (!copy)
		return EXIT_FAILED;
	for (int i = 0; i < argc; i++)
		copy[i] = strdup(argv[i]);
	/* for the build and the shells' completions; these are no verbs for users */
	if (argc == 2 && !strcmp(argv[1], "generate-man")) {
		options_man(stdin);
		return EXIT_OK;
	}
	if (argc > 2 && !strcmp(argv[1], "complete")) {
		options_complete(argc - 2, argv + 2);
		return EXIT_OK;
	}
	/* one name for all that a message can begin with, getopt's included */
	copy[0] = "perfx-trace";
	setlocale(LC_CTYPE, "");
	interrupt_install();
	code = options_parse(&options, argc, copy);
	options.argv = argv;
	if (code == EXIT_OK)
		code = verbs[options.verb](&options);
	if (code == EXIT_OK)
		code = check_stdout();
	/* Probes left by a recording have no effect, but each hit still costs a trap. */
	if (!detaching_wait(DETACHING_PATIENCE_MS))
		msg_say("the probes stay in the program, without effect, for about %s more: this "
			"kernel removes them one by one (process %d does it)",
			as_ns(detaching_left_ns()), (int)detaching_pid());
	options_clear(&options);
	return code;
}
