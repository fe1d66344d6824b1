// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/options.h"

#include "base/message.h"
#include "base/units.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
	"Usage: perfx-trace -p PID [options]             trace for 10 s, report on the terminal\n"
	"       perfx-trace record -p PID -o FILE        keep the capture\n"
	"       perfx-trace report FILE [-f FORMAT]      report from a capture\n"
	"       perfx-trace export FILE -f FORMAT        for other tools: perfetto, chrome, "
	"pprof,\n"
	"                                                folded, speedscope, openmetrics\n"
	"       perfx-trace run [options] -- CMD…        start a program and trace it to its end\n"
	"       perfx-trace probes -p PID                what would be attached, at what cost\n"
	"       perfx-trace doctor                       what works here, how to mend the rest\n"
	"\n"
	"What to trace\n"
	"  -p, --pid PID|NAME[,…]     processes, with their children; repeatable\n"
	"  -a, --all                  every process that maps an ML library or is annotated\n"
	"  -F, --functions 'MODULE:GLOB'\n"
	"                             functions of a file; '!' in front excludes; repeatable;\n"
	"                             MODULE:/ERE/ is a regular expression\n"
	"      --no-children          not the children, present or future\n"
	"      --user                 run: as the user who called sudo, with their environment\n"
	"      --memory off|tensor|all|sampled[=BYTES]\n"
	"                             allocations: of frameworks and GPUs; of the C library too;\n"
	"                             of that, one in BYTES (512K). Default: what stays cheap\n"
	"\n"
	"How long, and where to\n"
	"  -d, --duration TIME        10, 500ms, 2m (default 10s; run: until it exits)\n"
	"  -o, --output FILE          format by suffix: .txt .md .html .json .csv; '-' is stdout\n"
	"  -f, --format FORMAT        text, md, html, json, csv, tsv, line\n"
	"      --top N                rows a table\n"
	"      --sort COLUMN          order of the functions, or of the table: calls, p99_ns, …\n"
	"      --process PID|NAME     report on these processes only\n"
	"      --table functions|callers|threads|memory|hotspots|findings|processes\n"
	"                             the table of a CSV or TSV file\n"
	"      --no-header            CSV and TSV without names of columns\n"
	"      --cmdline full         show command lines with what looks like a secret\n"
	"\n"
	"How to measure\n"
	"      --link session|multi|perf    kind of uprobe link (default: the best there is)\n"
	"      --return auto|exit|probe     how calls are timed (default auto: harmless)\n"
	"      --probe-site auto|entry      entry: always the first instruction\n"
	"      --compensate           take the probes' own cost off nested times\n"
	"      --no-calibrate         do not measure what a hit costs here\n"
	"      --ring-size SIZE       ring buffer (default 8M)\n"
	"      --interval TIME        between samples of /proc (default 250ms)\n"
	"      --max-functions N      refuse patterns that match more (default 20000)\n"
	"\n"
	"  -h, --help    -V, --version\n"
	"\n"
	"First Ctrl-C: stop and report; second: abort.\n"
	"Exit: 0 ok, 1 failed, 2 usage, 3 target killed or gone, 77 not enough privilege,\n"
	"130 second Ctrl-C; run passes the program's own status on.\n";

void options_help(void)
{
	fputs(help_text, stdout);
}

enum long_option {
	OPT_LINK = 256,
	OPT_RETURN,
	OPT_SITE,
	OPT_COMPENSATE,
	OPT_NO_CALIBRATE,
	OPT_RING,
	OPT_INTERVAL,
	OPT_MAX,
	OPT_TOP,
	OPT_NO_CHILDREN,
	OPT_USER,
	OPT_CMDLINE,
	OPT_MEMORY,
	OPT_SORT,
	OPT_PROCESS,
	OPT_TABLE,
	OPT_NO_HEADER,
};

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"all", no_argument, NULL, 'a'},
	{"functions", required_argument, NULL, 'F'},
	{"duration", required_argument, NULL, 'd'},
	{"output", required_argument, NULL, 'o'},
	{"format", required_argument, NULL, 'f'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"link", required_argument, NULL, OPT_LINK},
	{"return", required_argument, NULL, OPT_RETURN},
	{"probe-site", required_argument, NULL, OPT_SITE},
	{"compensate", no_argument, NULL, OPT_COMPENSATE},
	{"no-calibrate", no_argument, NULL, OPT_NO_CALIBRATE},
	{"ring-size", required_argument, NULL, OPT_RING},
	{"interval", required_argument, NULL, OPT_INTERVAL},
	{"max-functions", required_argument, NULL, OPT_MAX},
	{"top", required_argument, NULL, OPT_TOP},
	{"no-children", no_argument, NULL, OPT_NO_CHILDREN},
	{"user", no_argument, NULL, OPT_USER},
	{"cmdline", required_argument, NULL, OPT_CMDLINE},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"sort", required_argument, NULL, OPT_SORT},
	{"process", required_argument, NULL, OPT_PROCESS},
	{"table", required_argument, NULL, OPT_TABLE},
	{"no-header", no_argument, NULL, OPT_NO_HEADER},
	{NULL, 0, NULL, 0},
};

static int bad(const char *option, const char *value, const char *want)
{
	msg_say("%s '%s': %s", option, value, want);
	return EXIT_USAGE;
}

/* -p 1,2,name */
static int add_targets(struct options *options, char *list)
{
	for (char *rest = list, *item; (item = strsep(&rest, ","));) {
		const char **targets;

		if (!*item)
			return bad("-p", list, "an empty pid or name");
		targets =
			realloc(options->targets, (options->targets_count + 1) * sizeof(*targets));
		if (!targets)
			return bad("-p", list, "out of memory");
		options->targets = targets;
		targets[options->targets_count++] = item;
	}
	return EXIT_OK;
}

static int add_pattern(struct options *options, const char *text)
{
	char why[256];
	struct pattern *pattern = pattern__parse(text, why, sizeof(why));
	struct pattern **patterns;

	if (!pattern)
		return bad("-F", text, why);
	patterns = realloc(options->patterns, (options->patterns_count + 1) * sizeof(*patterns));
	if (!patterns) {
		pattern__free(pattern);
		return bad("-F", text, "out of memory");
	}
	options->patterns = patterns;
	patterns[options->patterns_count++] = pattern;
	return EXIT_OK;
}

static int set_time(uint64_t *ns, const char *option, const char *text)
{
	int err = parse_duration(text, ns);

	if (err)
		return bad(option, text,
			   err == -ERANGE ? "too long" : "not a duration: try 10, 10s, 500ms, 2m");
	return *ns ? EXIT_OK : bad(option, text, "must be longer than nothing");
}

static int set_count(uint64_t *count, const char *option, const char *text, uint64_t max)
{
	char *end;

	errno = 0;
	*count = strtoull(text, &end, 10);
	if (errno || *end || !*text || *text == '-' || !*count || *count > max)
		return bad(option, text, "not a number in range");
	return EXIT_OK;
}

static int set_ring(struct options *options, const char *text)
{
	if (parse_size(text, &options->ring_bytes))
		return bad("--ring-size", text, "not a size: try 64K, 8M, 1G");
	if (options->ring_bytes < 4096 || options->ring_bytes > (1u << 30))
		return bad("--ring-size", text, "between 4K and 1G");
	return EXIT_OK;
}

/* The place of value in a NULL-terminated list, or -1. */
static int choice(const char *const *list, const char *value)
{
	for (int i = 0; list[i]; i++)
		if (!strcmp(list[i], value))
			return i;
	return -1;
}

/* One allocated byte in so many is a sample. */
static int set_sampled(struct options *options, const char *whole, const char *size)
{
	if (parse_size(size, &options->sample_bytes))
		return bad("--memory", whole, "not a size: try sampled=512K");
	if (!options->sample_bytes || options->sample_bytes > 1ull << 40)
		return bad("--memory", whole, "between 1 and 1T");
	options->memory = MEMORY_SAMPLED;
	return EXIT_OK;
}

static int set_memory(struct options *options, const char *value)
{
	static const char *const names[] = {"off", "tensor", "all", "sampled", NULL};
	int index = choice(names, value);

	if (!strncmp(value, "sampled=", 8))
		return set_sampled(options, value, value + 8);
	if (index < 0)
		return bad("--memory", value, "off, tensor, all or sampled[=BYTES]");
	options->memory = (enum memory_choice)(MEMORY_OFF + index);
	return EXIT_OK;
}

static int set_choice(struct options *options, int option, const char *value)
{
	static const char *const links[] = {"session", "multi", "perf", NULL};
	static const char *const returns[] = {"auto", "exit", "probe", NULL};
	static const char *const sites[] = {"auto", "entry", NULL};
	static const char *const cmdlines[] = {"hidden", "full", NULL};
	int index;

	switch (option) {
	case OPT_LINK:
		index = choice(links, value);
		options->link = (enum perfx_link)(PERFX_LINK_SESSION + index);
		return index < 0 ? bad("--link", value, "session, multi or perf") : EXIT_OK;
	case OPT_RETURN:
		index = choice(returns, value);
		options->return_mode = (enum return_mode)index;
		return index < 0 ? bad("--return", value, "auto, exit or probe") : EXIT_OK;
	case OPT_SITE:
		index = choice(sites, value);
		options->site_entry_only = index == 1;
		return index < 0 ? bad("--probe-site", value, "auto or entry") : EXIT_OK;
	default:
		index = choice(cmdlines, value);
		options->full_cmdline = index == 1;
		return index < 0 ? bad("--cmdline", value, "hidden or full") : EXIT_OK;
	}
}

static int take_option(struct options *options, int option, char *value)
{
	switch (option) {
	case 'p':
		return add_targets(options, value);
	case 'a':
		options->all = true;
		return EXIT_OK;
	case 'F':
		return add_pattern(options, value);
	case 'd':
		return set_time(&options->duration_ns, "-d", value);
	case 'o':
		options->output = value;
		return *value ? EXIT_OK : bad("-o", value, "an empty file name");
	case 'f':
		options->format = value;
		return EXIT_OK;
	case 'h':
		options->verb = VERB_HELP;
		return EXIT_OK;
	case 'V':
		options->verb = VERB_VERSION;
		return EXIT_OK;
	case OPT_COMPENSATE:
		options->compensate = true;
		return EXIT_OK;
	case OPT_NO_CALIBRATE:
		options->no_calibrate = true;
		return EXIT_OK;
	case OPT_RING:
		return set_ring(options, value);
	case OPT_INTERVAL:
		return set_time(&options->interval_ns, "--interval", value);
	case OPT_MAX:
		return set_count(&options->functions_max, "--max-functions", value, 1u << 20);
	case OPT_TOP:
		return set_count(&options->top, "--top", value, 1u << 20);
	case OPT_NO_CHILDREN:
		options->no_children = true;
		return EXIT_OK;
	case OPT_USER:
		options->as_caller = true;
		return EXIT_OK;
	case OPT_MEMORY:
		return set_memory(options, value);
	case OPT_SORT:
		options->sort = value;
		return EXIT_OK;
	case OPT_PROCESS:
		options->process = value;
		return EXIT_OK;
	case OPT_TABLE:
		options->table = value;
		return EXIT_OK;
	case OPT_NO_HEADER:
		options->no_header = true;
		return EXIT_OK;
	case OPT_LINK:
	case OPT_RETURN:
	case OPT_SITE:
	case OPT_CMDLINE:
		return set_choice(options, option, value);
	default:
		return EXIT_USAGE; /* getopt has said it */
	}
}

static enum verb verb_named(const char *name)
{
	static const struct {
		const char *name;
		enum verb verb;
	} verbs[] = {
		{"record", VERB_RECORD}, {"report", VERB_REPORT}, {"export", VERB_EXPORT},
		{"run", VERB_RUN},	 {"probes", VERB_PROBES}, {"doctor", VERB_DOCTOR},
		{"help", VERB_HELP},	 {"trace", VERB_TRACE},
	};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, name))
			return verbs[i].verb;
	return 0;
}

static bool reads_capture(const struct options *options)
{
	return options->verb == VERB_REPORT || options->verb == VERB_EXPORT;
}

/* What is left after the options. */
static int take_operands(struct options *options, int argc, char **argv)
{
	if (options->verb == VERB_RUN) {
		if (!argc) {
			msg_say("run: no program: perfx-trace run [options] -- CMD…");
			return EXIT_USAGE;
		}
		options->command = argv;
		return EXIT_OK;
	}
	if (reads_capture(options) && argc == 1) {
		options->capture = argv[0];
		return EXIT_OK;
	}
	if (reads_capture(options)) {
		msg_say("%s: one capture file: perfx-trace %s",
			options->verb == VERB_REPORT ? "report" : "export",
			options->verb == VERB_REPORT ? "report FILE" : "export FILE -f FORMAT");
		return EXIT_USAGE;
	}
	if (!argc)
		return EXIT_OK;
	msg_say("what is '%s'? a process is named with -p; see perfx-trace --help", argv[0]);
	return EXIT_USAGE;
}

static int check_targets(const struct options *options)
{
	bool needs_target = options->verb == VERB_TRACE || options->verb == VERB_RECORD ||
			    options->verb == VERB_PROBES;

	if (needs_target && !options->targets_count && !options->all) {
		msg_say("no process: name one with -p PID (or a name), or all with -a; see --help");
		return EXIT_USAGE;
	}
	if (options->all && (options->targets_count || options->verb == VERB_RUN)) {
		msg_say("-a is every process: it does not go with -p or run");
		return EXIT_USAGE;
	}
	if (options->all && (options->memory == MEMORY_ALL || options->memory == MEMORY_SAMPLED)) {
		msg_say("-a with this --memory would stop at every malloc of the machine: name "
			"processes with -p, or --memory tensor");
		return EXIT_USAGE;
	}
	if (options->verb == VERB_RECORD && !options->output) {
		msg_say("record: where to? -o FILE.perfx");
		return EXIT_USAGE;
	}
	if (options->as_caller && options->verb != VERB_RUN) {
		msg_say("--user goes with run");
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

int options_parse(struct options *options, int argc, char **argv)
{
	int option, code = EXIT_OK;

	*options = (struct options){.verb = VERB_TRACE,
				    .interval_ns = 250000000,
				    .ring_bytes = 8 << 20,
				    .sample_bytes = 512 << 10,
				    .functions_max = 20000};
	if (argc > 1 && verb_named(argv[1])) {
		options->verb = verb_named(argv[1]);
		argv[1] = argv[0];
		argc--;
		argv++;
	} else if (argc == 1) {
		options->verb = VERB_HELP;
	}
	optind = 0; /* glibc: start over, for tests that parse twice */
	/* '+': options end at the program that run starts */
	while (!code &&
	       (option = getopt_long(argc, argv, "+p:aF:d:o:f:hV", long_options, NULL)) != -1)
		code = take_option(options, option, optarg);
	/* report FILE -o X: options after the file as well */
	if (!code && reads_capture(options) && optind < argc) {
		options->capture = argv[optind++];
		while (!code && (option = getopt_long(argc, argv, "+p:aF:d:o:f:hV", long_options,
						      NULL)) != -1)
			code = take_option(options, option, optarg);
		argv[--optind] = (char *)options->capture;
	}
	if (code || options->verb == VERB_HELP || options->verb == VERB_VERSION)
		return code;
	/* the C library's allocator is everybody's */
	if (options->all && options->memory == MEMORY_DEFAULT)
		options->memory = MEMORY_TENSOR;
	code = take_operands(options, argc - optind, argv + optind);
	return code ? code : check_targets(options);
}

void options_clear(struct options *options)
{
	for (size_t i = 0; i < options->patterns_count; i++)
		pattern__free(options->patterns[i]);
	free(options->patterns);
	free(options->targets);
}
