// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/options.h"

#include "base/message.h"
#include "base/units.h"
#include "figures/figures.h"

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
	"       perfx-trace diff FILE FILE               what changed from one to the other\n"
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
	"      --host-level 0|1|2|3       what is traced without -F: nothing; what programs mark; "
	"and\n"
	"                             what frameworks compute with (2); and all their operators\n"
	"      --usdt PROVIDER:NAME   USDT probes, counted; globs; repeatable\n"
	"      --step-range NAME      the range, or function, whose end is a step's\n"
	"      --flops on|off         operations of BLAS, PyTorch, cuBLAS calls; with -F, on adds\n"
	"                             the functions that do them to those named\n"
	"      --counters on|off|NAME[,…]\n"
	"                             perf events of calls: the hardware's, or cycles, flops,\n"
	"                             instructions, llc-misses, task-clock, page-faults,\n"
	"                             context-switches, cpu-migrations; four at most\n"
	"      --flops-rules FILE     what functions of yours do (docs/flops.md); traces them too\n"
	"\n"
	"How long, and where to\n"
	"  -d, --duration TIME        10, 500ms, 2m (default 10s; run: until it exits)\n"
	"      --steps N              until a process has done so many steps\n"
	"  -o, --output FILE          format by suffix: .txt .md .html .json .csv; '-' is stdout\n"
	"  -f, --format FORMAT        text, md, html, json, csv, tsv, line\n"
	"      --capture FILE         keep the capture as well as the report\n"
	"      --max-size SIZE        end the recording when the capture is as large\n"
	"      --top N                rows a table\n"
	"      --sort COLUMN          order of the functions, or of the table: calls, p99_ns, …\n"
	"      --process PID|NAME     report on these processes only\n"
	"      --table functions|callers|threads|steps|memory|hotspots|findings|processes\n"
	"                             the table of a CSV or TSV file\n"
	"      --template FILE        the report in a form of one's own: a text with {{verdict}}, "
	"…\n"
	"      --no-header            CSV and TSV without names of columns\n"
	"      --fail-on PERCENT      diff: exit 4 when something got worse by more\n"
	"      --cmdline full         show command lines with what looks like a secret\n"
	"\n"
	"How to measure\n"
	"      --link session|multi|perf    kind of uprobe link (default: the best there is)\n"
	"      --return auto|exit|probe     how calls are timed (default auto: harmless)\n"
	"      --probe-site auto|entry      entry: always the first instruction\n"
	"      --compensate           take the probes' own cost off nested times\n"
	"      --no-calibrate         do not measure what a hit costs here\n"
	"      --peak-flops RATE      what all CPUs can do: 1.2T, or by type f32:1.2T,f64:600G\n"
	"      --peak-bandwidth RATE  and their memory: 25G (default: both measured, and kept)\n"
	"      --no-peaks             measure neither\n"
	"      --ring-size SIZE       ring buffer (default 8M)\n"
	"      --interval TIME        between samples of /proc (default 250ms)\n"
	"      --max-functions N      refuse patterns that match more (default 20000)\n"
	"\n"
	"  -h, --help    -V, --version\n"
	"\n"
	"First Ctrl-C: stop and report; second: abort.\n"
	"Exit: 0 ok, 1 failed, 2 usage, 3 target killed or gone, 4 regressions (--fail-on),\n"
	"77 not enough privilege, 130 second Ctrl-C; run passes the program's own status on.\n";

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
	OPT_PEAK_FLOPS,
	OPT_PEAK_BANDWIDTH,
	OPT_NO_PEAKS,
	OPT_FLOPS,
	OPT_FLOPS_RULES,
	OPT_COUNTERS,
	OPT_SORT,
	OPT_PROCESS,
	OPT_TABLE,
	OPT_TEMPLATE,
	OPT_NO_HEADER,
	OPT_CAPTURE,
	OPT_MAX_SIZE,
	OPT_HOST_LEVEL,
	OPT_USDT,
	OPT_STEP_RANGE,
	OPT_STEPS,
	OPT_FAIL_ON,
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
	{"peak-flops", required_argument, NULL, OPT_PEAK_FLOPS},
	{"peak-bandwidth", required_argument, NULL, OPT_PEAK_BANDWIDTH},
	{"no-peaks", no_argument, NULL, OPT_NO_PEAKS},
	{"flops", required_argument, NULL, OPT_FLOPS},
	{"flops-rules", required_argument, NULL, OPT_FLOPS_RULES},
	{"counters", required_argument, NULL, OPT_COUNTERS},
	{"sort", required_argument, NULL, OPT_SORT},
	{"process", required_argument, NULL, OPT_PROCESS},
	{"table", required_argument, NULL, OPT_TABLE},
	{"template", required_argument, NULL, OPT_TEMPLATE},
	{"no-header", no_argument, NULL, OPT_NO_HEADER},
	{"capture", required_argument, NULL, OPT_CAPTURE},
	{"max-size", required_argument, NULL, OPT_MAX_SIZE},
	{"host-level", required_argument, NULL, OPT_HOST_LEVEL},
	{"usdt", required_argument, NULL, OPT_USDT},
	{"step-range", required_argument, NULL, OPT_STEP_RANGE},
	{"steps", required_argument, NULL, OPT_STEPS},
	{"fail-on", required_argument, NULL, OPT_FAIL_ON},
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

static int add_usdt(struct options *options, const char *text)
{
	const char *colon = strchr(text, ':'), **usdt;

	if (!colon || colon == text || !colon[1])
		return bad("--usdt", text, "PROVIDER:NAME, such as libstdcxx:throw");
	usdt = realloc(options->usdt, (options->usdt_count + 1) * sizeof(*usdt));
	if (!usdt)
		return bad("--usdt", text, "out of memory");
	options->usdt = usdt;
	usdt[options->usdt_count++] = text;
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

static int set_max_size(struct options *options, const char *text)
{
	if (parse_size(text, &options->capture_max))
		return bad("--max-size", text, "not a size: try 100M, 1G");
	if (options->capture_max < 1 << 20)
		return bad("--max-size", text, "1M at least");
	return EXIT_OK;
}

/* "5%" and "5" are the same. */
static int set_fail_on(struct options *options, const char *text)
{
	if (parse_percent(text, &options->fail_on) || !(options->fail_on > 0))
		return bad("--fail-on", text, "not a share of what was: try 5%");
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

static int set_peaks(struct options *options, int option, const char *value)
{
	if (option == OPT_NO_PEAKS) {
		options->peaks.measure_nothing = true;
		return EXIT_OK;
	}
	if (option == OPT_PEAK_FLOPS)
		return peaks_given_flops(&options->peaks, value)
			       ? bad("--peak-flops", value,
				     "not operations a second: try 350G, 1.2T or f32:1.2T,f64:600G")
			       : EXIT_OK;
	return peaks_given_bytes(&options->peaks, value)
		       ? bad("--peak-bandwidth", value, "not bytes a second: try 25G, 204.8GB/s")
		       : EXIT_OK;
}

static int set_counters(struct options *options, const char *value)
{
	struct counters_machine machine = {0};
	struct counters counters;
	const char *word;
	char why[256];

	options->counters = !strcmp(value, "on")    ? COUNTERS_ON
			    : !strcmp(value, "off") ? COUNTERS_OFF
						    : COUNTERS_LISTED;
	options->counters_names = value;
	if (options->counters != COUNTERS_LISTED ||
	    !counters_named(&machine, value, &counters, &word))
		return EXIT_OK;
	snprintf(why, sizeof(why), "on, off, or at most four of %s", counters_names());
	return bad("--counters", word, why);
}

static int set_choice(struct options *options, int option, const char *value)
{
	static const char *const links[] = {"session", "multi", "perf", NULL};
	static const char *const returns[] = {"auto", "exit", "probe", NULL};
	static const char *const sites[] = {"auto", "entry", NULL};
	static const char *const flops[] = {"off", "on", NULL};
	static const char *const cmdlines[] = {"hidden", "full", NULL};
	static const char *const levels[] = {"0", "1", "2", "3", NULL};
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
	case OPT_HOST_LEVEL:
		index = choice(levels, value);
		options->host_level = (enum host_level)(HOST_OFF + index);
		return index < 0 ? bad("--host-level", value, "0, 1, 2 or 3") : EXIT_OK;
	case OPT_FLOPS:
		index = choice(flops, value);
		options->flops = (enum flops_choice)(FLOPS_OFF + index);
		return index < 0 ? bad("--flops", value, "on or off") : EXIT_OK;
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
	case OPT_CAPTURE:
		options->keep = value;
		return *value ? EXIT_OK : bad("--capture", value, "an empty file name");
	case OPT_MAX_SIZE:
		return set_max_size(options, value);
	case OPT_FAIL_ON:
		return set_fail_on(options, value);
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
	case OPT_PEAK_FLOPS:
	case OPT_PEAK_BANDWIDTH:
	case OPT_NO_PEAKS:
		return set_peaks(options, option, value);
	case OPT_COUNTERS:
		return set_counters(options, value);
	case OPT_FLOPS_RULES:
		options->flops_rules = value;
		return EXIT_OK;
	case OPT_SORT:
		options->sort = value;
		return EXIT_OK;
	case OPT_PROCESS:
		options->process = value;
		return EXIT_OK;
	case OPT_TABLE:
		options->table = value;
		return EXIT_OK;
	case OPT_TEMPLATE:
		options->template = value;
		return EXIT_OK;
	case OPT_NO_HEADER:
		options->no_header = true;
		return EXIT_OK;
	case OPT_USDT:
		return add_usdt(options, value);
	case OPT_STEP_RANGE:
		options->step_range = value;
		return *value ? EXIT_OK : bad("--step-range", value, "an empty name");
	case OPT_STEPS:
		return set_count(&options->steps_max, "--steps", value, UINT32_MAX);
	case OPT_LINK:
	case OPT_RETURN:
	case OPT_SITE:
	case OPT_HOST_LEVEL:
	case OPT_FLOPS:
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
		{"diff", VERB_DIFF},	 {"run", VERB_RUN},	  {"probes", VERB_PROBES},
		{"doctor", VERB_DOCTOR}, {"help", VERB_HELP},	  {"trace", VERB_TRACE},
	};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, name))
			return verbs[i].verb;
	return 0;
}

/* How many files the verb reads. */
static int captures_count(const struct options *options)
{
	if (options->verb == VERB_DIFF)
		return 2;
	return options->verb == VERB_REPORT || options->verb == VERB_EXPORT;
}

static int say_captures(enum verb verb)
{
	if (verb == VERB_DIFF)
		msg_say("diff: two capture files: perfx-trace diff BEFORE AFTER");
	else
		msg_say("%s",
			verb == VERB_REPORT
				? "report: one capture file: perfx-trace report FILE"
				: "export: one capture file: perfx-trace export FILE -f FORMAT");
	return EXIT_USAGE;
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
	if (!argc)
		return EXIT_OK;
	msg_say("what is '%s'? a process is named with -p; see perfx-trace --help", argv[0]);
	return EXIT_USAGE;
}

const char *options_capture(const struct options *options)
{
	const char *dot = options->output ? strrchr(options->output, '.') : NULL;

	if (options->verb == VERB_RECORD)
		return options->output;
	if (options->verb != VERB_TRACE && options->verb != VERB_RUN)
		return NULL;
	return !options->format && dot && !strcmp(dot, ".perfx") ? options->output : options->keep;
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
	if (options->keep && options_capture(options) != options->keep) {
		msg_say("--capture keeps what a report is made of beside it; record and -o x.perfx "
			"make no report");
		return EXIT_USAGE;
	}
	if (options->capture_max && !options_capture(options)) {
		msg_say("--max-size is of a capture: record -o FILE, or --capture FILE");
		return EXIT_USAGE;
	}
	if (options->fail_on > 0 && options->verb != VERB_DIFF) {
		msg_say("--fail-on goes with diff");
		return EXIT_USAGE;
	}
	if (options->as_caller && options->verb != VERB_RUN) {
		msg_say("--user goes with run");
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

/* The rules are read at once, so that a mistake in them is told before anything is touched. */
static int load_figures(struct options *options)
{
	char why[512];

	if (options->flops == FLOPS_OFF && options->flops_rules) {
		msg_say("--flops-rules says what functions do: it does not go with --flops off");
		return EXIT_USAGE;
	}
	if (options->flops == FLOPS_OFF || options->verb == VERB_DOCTOR)
		return EXIT_OK;
	options->figures = figures__load(options->flops_rules, why, sizeof(why));
	if (!options->figures)
		msg_say("%s", why);
	return options->figures ? EXIT_OK : EXIT_USAGE;
}

/* Up to the first word that is none: options end at the program that run starts. */
static int take_options(struct options *options, int argc, char **argv)
{
	int option, code = EXIT_OK;

	while (!code &&
	       (option = getopt_long(argc, argv, "+p:aF:d:o:f:hV", long_options, NULL)) != -1)
		code = take_option(options, option, optarg);
	return code;
}

/* report FILE -o X: options before, between and after the files. */
static int take_captures(struct options *options, int argc, char **argv)
{
	const char *captures[2] = {NULL, NULL};
	int count = 0, code = EXIT_OK;

	while (!code && optind < argc) {
		if (count < 2)
			captures[count] = argv[optind];
		count++;
		optind++;
		code = take_options(options, argc, argv);
	}
	/* -h after a file */
	if (code || !captures_count(options))
		return code;
	if (count != captures_count(options))
		return say_captures(options->verb);
	options->capture = captures[0];
	options->capture_after = captures[1];
	return check_targets(options);
}

int options_parse(struct options *options, int argc, char **argv)
{
	int code;

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
	code = take_options(options, argc, argv);
	if (!code && captures_count(options))
		return take_captures(options, argc, argv);
	if (code || options->verb == VERB_HELP || options->verb == VERB_VERSION)
		return code;
	/* the C library's allocator is everybody's */
	if (options->all && options->memory == MEMORY_DEFAULT)
		options->memory = MEMORY_TENSOR;
	code = take_operands(options, argc - optind, argv + optind);
	if (!code)
		code = check_targets(options);
	return code ? code : load_figures(options);
}

void options_clear(struct options *options)
{
	figures__free(options->figures);
	for (size_t i = 0; i < options->patterns_count; i++)
		pattern__free(options->patterns[i]);
	free(options->patterns);
	free(options->usdt);
	free(options->targets);
}
