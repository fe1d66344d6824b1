// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/options_internal.h"

#include "base/message.h"
#include "cost/figures.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"all", no_argument, NULL, 'a'},
	{"functions", required_argument, NULL, 'F'},
	{"duration", required_argument, NULL, 'd'},
	{"output", required_argument, NULL, 'o'},
	{"format", required_argument, NULL, 'f'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"link", required_argument, NULL, OPT_LINK},
	{"return", required_argument, NULL, OPT_RETURN},
	{"probe-site", required_argument, NULL, OPT_SITE},
	{"compensate", no_argument, NULL, OPT_COMPENSATE},
	{"no-calibrate", no_argument, NULL, OPT_NO_CALIBRATE},
	{"ring-size", required_argument, NULL, OPT_RING},
	{"rings", required_argument, NULL, OPT_RINGS},
	{"interval", required_argument, NULL, OPT_INTERVAL},
	{"max-functions", required_argument, NULL, OPT_MAX},
	{"top", required_argument, NULL, OPT_TOP},
	{"full", no_argument, NULL, OPT_FULL},
	{"no-children", no_argument, NULL, OPT_NO_CHILDREN},
	{"as-root", no_argument, NULL, OPT_AS_ROOT},
	{"user", no_argument, NULL, OPT_USER}, /* was not the default once */
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
	{"python-level", required_argument, NULL, OPT_PYTHON_LEVEL},
	{"usdt", required_argument, NULL, OPT_USDT},
	{"step-range", required_argument, NULL, OPT_STEP_RANGE},
	{"steps", required_argument, NULL, OPT_STEPS},
	{"fail-on", required_argument, NULL, OPT_FAIL_ON},
	{"wait", no_argument, NULL, OPT_WAIT},
	{"ring", required_argument, NULL, OPT_FLIGHT},
	{"trigger", required_argument, NULL, OPT_TRIGGER},
	{"since", required_argument, NULL, OPT_SINCE},
	{"until", required_argument, NULL, OPT_UNTIL},
	{NULL, 0, NULL, 0},
};

static int take_option(struct options *options, int option, char *value)
{
	switch (option) {
	case 'p':
		return option_add_targets(options, value);
	case 'a':
		options->all = true;
		return EXIT_OK;
	case 'F':
		return option_add_pattern(options, value);
	case 'd':
		return option_set_time(&options->duration_ns, "-d", value);
	case 'o':
		options->output = value;
		return *value ? EXIT_OK : option_bad("-o", value, "an empty file name");
	case 'f':
		options->format = value;
		return EXIT_OK;
	case OPT_CAPTURE:
		options->keep = value;
		return *value ? EXIT_OK : option_bad("--capture", value, "an empty file name");
	case OPT_MAX_SIZE:
		return option_set_max_size(options, value);
	case OPT_FLIGHT:
		return option_set_time(&options->flight_ns, "--ring", value);
	case OPT_TRIGGER:
		return option_set_trigger(options, value);
	case OPT_SINCE:
		return option_set_bound(&options->part.since, "--since", value);
	case OPT_UNTIL:
		return option_set_bound(&options->part.until, "--until", value);
	case OPT_FAIL_ON:
		return option_set_fail_on(options, value);
	case 'h':
		options->verb = VERB_HELP;
		return EXIT_OK;
	case 'V':
		options->verb = VERB_VERSION;
		return EXIT_OK;
	case OPT_WAIT:
		options->wait = true;
		return EXIT_OK;
	case OPT_COMPENSATE:
		options->compensate = true;
		return EXIT_OK;
	case OPT_NO_CALIBRATE:
		options->no_calibrate = true;
		return EXIT_OK;
	case OPT_RINGS:
		return option_set_rings(options, value);
	case OPT_RING:
		return option_set_ring(options, value);
	case OPT_INTERVAL:
		return option_set_time(&options->interval_ns, "--interval", value);
	case OPT_MAX:
		return option_set_count(&options->functions_max, "--max-functions", value,
					1u << 20);
	case OPT_TOP:
		return option_set_count(&options->top, "--top", value, 1u << 20);
	case 'v':
	case OPT_FULL:
		options->full = true;
		return EXIT_OK;
	case OPT_NO_CHILDREN:
		options->no_children = true;
		return EXIT_OK;
	case OPT_AS_ROOT:
		options->as_root = true;
		return EXIT_OK;
	case OPT_USER:
		return EXIT_OK;
	case OPT_MEMORY:
		return option_set_memory(options, value);
	case OPT_PEAK_FLOPS:
	case OPT_PEAK_BANDWIDTH:
	case OPT_NO_PEAKS:
		return option_set_peaks(options, option, value);
	case OPT_COUNTERS:
		return option_set_counters(options, value);
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
		return option_add_usdt(options, value);
	case OPT_STEP_RANGE:
		options->step_range = value;
		return *value ? EXIT_OK : option_bad("--step-range", value, "an empty name");
	case OPT_STEPS:
		return option_set_count(&options->steps_max, "--steps", value, UINT32_MAX);
	case OPT_LINK:
	case OPT_RETURN:
	case OPT_SITE:
	case OPT_HOST_LEVEL:
	case OPT_PYTHON_LEVEL:
	case OPT_FLOPS:
	case OPT_CMDLINE:
		return option_set_choice(options, option, value);
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
		{"peaks", VERB_PEAKS},	 {"doctor", VERB_DOCTOR}, {"help", VERB_HELP},
		{"trace", VERB_TRACE},
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

/* A flight recorder writes captures, when it is asked to, and makes no report. */
static int check_flight(const struct options *options)
{
	bool triggered = options->trigger.ns || options->trigger.times > 0;

	if (options->flight_ns && (!options->output || !strcmp(options->output, "-") ||
				   options_capture(options) != options->output)) {
		msg_say("--ring writes captures, and no report: record -o FILE.perfx");
		return EXIT_USAGE;
	}
	if (options->flight_ns && options->wait) {
		msg_say("--ring keeps the last of all, --wait what the program says: one of them");
		return EXIT_USAGE;
	}
	if (triggered && !options->flight_ns) {
		msg_say("--trigger says when --ring writes: --ring 30s");
		return EXIT_USAGE;
	}
	if (part_chosen(&options->part) && options->verb != VERB_REPORT &&
	    options->verb != VERB_EXPORT) {
		msg_say("--since and --until choose a part of a capture: report and export have "
			"them");
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static int check_targets(const struct options *options)
{
	bool needs_target = options->verb == VERB_TRACE || options->verb == VERB_RECORD ||
			    options->verb == VERB_PROBES;

	if (needs_target && !options->targets_count && !options->all) {
		msg_say("no process: name one with -p PID (or a name), or all with -a; see --help");
		return EXIT_USAGE;
	}
	if (options->targets_count && options->verb == VERB_RUN) {
		msg_say("run traces the program that it starts: it does not go with -p");
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
	if (options->wait && options->verb != VERB_TRACE && options->verb != VERB_RECORD &&
	    options->verb != VERB_RUN) {
		msg_say("--wait goes with -p, record and run");
		return EXIT_USAGE;
	}
	if (options->python_functions && options->verb != VERB_RUN) {
		msg_say("--python-level 1 goes with run: of a process that runs already, Python "
			"functions are seen where they are marked, by @perfx.track");
		return EXIT_USAGE;
	}
	if (options->as_root && options->verb != VERB_RUN) {
		msg_say("--as-root goes with run");
		return EXIT_USAGE;
	}
	return check_flight(options);
}

/* The rules are read at once, so that a mistake in them is told before anything is touched. */
static int load_figures(struct options *options)
{
	char why[512];

	if (options->flops == FLOPS_OFF && options->flops_rules) {
		msg_say("--flops-rules says what functions do: it does not go with --flops off");
		return EXIT_USAGE;
	}
	if (options->flops == FLOPS_OFF || options->verb == VERB_PEAKS ||
	    options->verb == VERB_DOCTOR)
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
	       (option = getopt_long(argc, argv, "+p:aF:d:o:f:vhV", long_options, NULL)) != -1)
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
	code = check_targets(options);
	return code ? code : option_check_files(options);
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
	if (!code)
		code = option_check_files(options);
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
