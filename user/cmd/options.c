// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/options_table.h"

#include "analyze/rule_set.h"
#include "base/cache.h"
#include "base/file.h"
#include "base/message.h"
#include "base/text.h"
#include "cost/cost_model.h"
#include "elf/pattern.h"
#include "plan/operators.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Values of getopt_long for options by their long names: this and the row's index. */
#define LONG_OPTION 256

static bool has_option(const struct option_row *row, enum verb verb)
{
	return verb == VERB_HELP || verb == VERB_VERSION || (row->verbs & FOR_VERB(verb));
}

static int parse_option(struct options *options, const struct option_row *row, char *value)
{
	struct text names;

	if (!row->only || has_option(row, options->verb))
		return row->parse(row, options, value);
	/* "--since is an option of report, export; not of diff" */
	names = (struct text){0};
	for (size_t i = 0; i < verb_rows_count; i++)
		if (row->verbs & FOR_VERB(verb_rows[i].verb))
			text_printf(&names, "%s%s", names.length ? ", " : "", verb_rows[i].name);
	msg_say("--%s is an option of %s; not of %s", row->name, text_peek(&names),
		verb_row_of(options->verb)->name);
	text_clear(&names);
	return EXIT_USAGE;
}

static const struct option_row *row_of(int value)
{
	if (value >= LONG_OPTION)
		return &option_rows[value - LONG_OPTION];
	for (size_t i = 0; i < option_rows_count; i++)
		if (value && option_rows[i].letter == value)
			return &option_rows[i];
	return NULL;
}

static const char *verb_name_at(size_t index)
{
	return index < verb_rows_count ? verb_rows[index].name : NULL;
}

static const char *option_name_at(size_t index)
{
	return index < option_rows_count ? option_rows[index].name : NULL;
}

/* The most similar name; "" when none is near. */
static void find_nearest(char name[32], const char *word, const char *(*at)(size_t index))
{
	struct text near = {0};

	nearest_names(&near, word, at);
	snprintf(name, 32, "%.*s", (int)strcspn(text_peek(&near), ","), text_peek(&near));
	text_clear(&near);
}

static void say_unknown_option(const struct options *options, const char *word)
{
	const struct verb_row *verb = verb_row_of(options->verb);
	const char *name = word + strspn(word, "-");
	char written[64], nearest[32];
	struct text beginning = {0};

	snprintf(written, sizeof(written), "%.*s", (int)strcspn(name, "="), name);
	find_nearest(nearest, written, option_name_at);
	if (begins_with(word, "--")) {
		/* the options that begin with the word: "--step-range, --steps" for --ste */
		size_t length = strcspn(name, "=");

		for (size_t i = 0; length && i < option_rows_count; i++)
			if (!strncmp(option_rows[i].name, name, length))
				text_printf(&beginning, "%s--%s", beginning.length ? ", " : "",
					    option_rows[i].name);
	}
	if (beginning.length)
		msg_say("'%s' can be %s: write out one of them", word, text_peek(&beginning));
	else if (*nearest && strlen(name) > 1)
		msg_say("unknown option '%s': did you mean --%s?", word, nearest);
	else
		msg_say("unknown option '%s': perfx-trace%s%s --help lists them", word,
			verb == verb_rows ? "" : " ", verb == verb_rows ? "" : verb->name);
	text_clear(&beginning);
}

/* Reports a mistake found by getopt; option: getopt's return value. */
static int say_mistake(const struct options *options, int option, const char *word)
{
	const struct option_row *row = row_of(optopt);

	if (row && option == ':' && !begins_with(word, "--"))
		msg_say("-%c needs a value: -%c %s", row->letter, row->letter, row->arg);
	else if (row && option == ':')
		msg_say("--%s needs a value: --%s %s", row->name, row->name, row->arg);
	else if (row)
		msg_say("--%s takes no value", row->name);
	else
		say_unknown_option(options, word);
	return EXIT_USAGE;
}

/* How many words the verb has between its options: files that it reads, or commands. */
static size_t words_count(const struct options *options)
{
	if (options->verb == VERB_MERGE)
		return SIZE_MAX;
	if (options->verb == VERB_DIFF || options->verb == VERB_COMPARE)
		return 2;
	return options->verb == VERB_REPORT || options->verb == VERB_EXPORT;
}

/* help VERB */
static int parse_topic(struct options *options, const char *name)
{
	const struct verb_row *row = name ? verb_row_named(name) : NULL;
	char nearest[32];

	if (row && !options->help_of)
		options->help_of = row->verb;
	if (row || !name || options->help_of)
		return EXIT_OK;
	find_nearest(nearest, name, verb_name_at);
	if (*nearest)
		msg_say("no verb '%s': did you mean %s?", name, nearest);
	else
		msg_say("no verb '%s': perfx-trace help lists them", name);
	return EXIT_USAGE;
}

static bool is_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

static bool is_in_path(const char *name)
{
	char *folders = strdup(getenv("PATH") ? getenv("PATH") : ""), *file;
	bool found = false;

	for (char *rest = folders, *folder; rest && !found && (folder = strsep(&rest, ":"));) {
		if (asprintf(&file, "%s/%s", folder, name) < 0)
			break;
		found = is_file(file) && !access(file, X_OK);
		free(file);
	}
	free(folders);
	return found;
}

/* Can the word begin a command line, as "train.py", "./train" and "python3" can? */
static bool is_program(const char *word)
{
	if (strchr(word, '/') || is_file(word))
		return is_file(word) && (script_interpreter(word) || !access(word, X_OK));
	return script_interpreter(word) || is_in_path(word);
}

/* Suggests "perfx-trace run -d 5 -- python3 train.py" for `-d 5 train.py`. */
static void say_run(char *const *before, int before_count, char **words)
{
	struct text line = {0};

	for (int i = 0; i < before_count && strcmp(before[i], "--") != 0; i++) {
		text_add(&line, " ");
		shell_quote(&line, before[i]);
	}
	text_add(&line, " -- ");
	/* the program as a shell needs it: "python3 train.py", "./train" */
	if (script_interpreter(words[0]))
		text_printf(&line, "%s ", script_interpreter(words[0]));
	else if (!strchr(words[0], '/') && !is_in_path(words[0]))
		text_add(&line, "./");
	shell_quote(&line, words[0]);
	for (size_t i = 1; words[i]; i++) {
		text_add(&line, " ");
		shell_quote(&line, words[i]);
	}
	msg_say("to start a program: perfx-trace run%s", text_peek(&line));
	text_clear(&line);
}

/* Reports words that the verb does not take and suggests a correction. before: the words in front
 * of them. */
static void say_unexpected(const struct options *options, char *const *before, int before_count,
			   char **words)
{
	const struct verb_row *verb = verb_row_of(options->verb);
	const char *word = words[0], *ending = strrchr(word, '.');
	bool records = options->verb == VERB_TRACE || options->verb == VERB_RECORD;
	bool names_process = options->targets_count || options->all;
	struct text line = {0};
	char nearest[32];

	find_nearest(nearest, word, verb_name_at);
	if (ending && !strcmp(ending, ".perfx")) {
		shell_quote(&line, word);
		msg_say("to report from a capture: perfx-trace report %s", text_peek(&line));
		text_clear(&line);
	} else if (verb_row_named(word))
		msg_say("the verb comes first: perfx-trace %s ...", word);
	else if (text_is_number(word))
		msg_say("unexpected argument '%s': a process is named with -p: -p %s", word, word);
	else if (records && !names_process && is_program(word))
		say_run(before, before_count, words);
	else if (verb == verb_rows && !before_count && *nearest)
		msg_say("no verb '%s': did you mean %s?", word, nearest);
	else
		msg_say("unexpected argument '%s': a process is named with -p, a verb comes first; "
			"see perfx-trace --help",
			word);
}

/* The words after the options; argv has all words, from the program's name on. */
static int parse_operands(struct options *options, int argc, char **argv)
{
	const struct verb_row *verb = verb_row_of(options->verb);

	if (verb->operands == COMPLETE_PROGRAM) {
		options->command = argv + optind;
		if (optind == argc)
			msg_say("%s needs a program: perfx-trace %s %s", verb->name, verb->name,
				verb->synopsis);
		return optind < argc ? EXIT_OK : EXIT_USAGE;
	}
	if (optind == argc)
		return EXIT_OK;
	say_unexpected(options, argv + 1, optind - 1, argv + optind);
	return EXIT_USAGE;
}

const char *options_capture(const struct options *options)
{
	const char *dot = options->output ? strrchr(options->output, '.') : NULL;

	if (options->verb == VERB_RECORD)
		return options->output;
	if (options->verb == VERB_DUMP)
		return options->keep;
	if (options->verb != VERB_TRACE && options->verb != VERB_RUN)
		return NULL;
	return !options->format && dot && !strcmp(dot, ".perfx") ? options->output : options->keep;
}

/* Options that exclude or need each other. */
static int check_combination(const struct options *options)
{
	const char *capture = options_capture(options);
	bool names_process = options->targets_count || options->all;
	bool writes_report =
		!options->output || !strcmp(options->output, "-") || capture != options->output;
	bool traces_malloc = options->memory == MEMORY_ALL || options->memory == MEMORY_SAMPLED;
	bool records = options->verb == VERB_TRACE || options->verb == VERB_RUN;
	bool triggered = trigger_is_set(&options->trigger);
	bool live = options->verb == VERB_TOP || options->verb == VERB_SERVE;
	const struct {
		bool wrong;
		const char *say;
	} rules[] = {
		{has_option(option_row_named("pid"), options->verb) && !names_process,
		 "no process: name one with -p PID or -p NAME, or trace all with -a; see --help"},
		{options->all && options->targets_count,
		 "-a traces every process and excludes -p: use one of them"},
		{options->all && traces_malloc,
		 "-a would trace every malloc of the machine: name processes with -p, or use "
		 "--memory tensor"},
		{options->verb == VERB_RECORD && !options->output,
		 "record needs a file for the capture: -o FILE.perfx"},
		{options->verb == VERB_MERGE && !options->output,
		 "merge needs a file for the capture of the job: -o FILE.perfx"},
		{options->keep && capture != options->keep,
		 "--capture keeps the capture of a report, but -o FILE.perfx writes no report: "
		 "leave one out"},
		{options->capture_max && !capture && !live,
		 "--max-size limits a capture: use record -o FILE, or --capture FILE"},
		{options->flight_ns && writes_report && !live,
		 "--flight writes captures, no report: use record -o FILE.perfx"},
		{options->flight_ns && options->wait,
		 "--flight records all the time, --wait what the program selects: use one of them"},
		{options->at_unix_ns && options->wait,
		 "--at begins at a time, --wait when the program says so: use one of them"},
		{options->rules_file && records && !writes_report,
		 "--rules judges a report, but -o FILE.perfx writes none: give it to report"},
		{options->fail_on_severity && records && !writes_report,
		 "--fail-on judges a report, but -o FILE.perfx writes none: leave one out"},
		{options->listen.size && !options->listen.loopback && !options->token_file &&
			 !options->tls_cert,
		 "--listen: other machines can reach this address: add --token-file FILE, or "
		 "--tls-cert and --tls-key"},
		{!options->tls_cert != !options->tls_key,
		 "--tls-cert and --tls-key need each other"},
		{triggered && !options->flight_ns,
		 "--trigger needs a flight recorder: add --flight 30s"},
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (!rules[i].wrong)
			continue;
		msg_say("%s", rules[i].say);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

/* A capture cannot be made again, so no file is both read and written, and none is written twice.
 * stdout counts, where a shell has led it into a file. */
#define STDOUT_PATH "/dev/stdout"

static int check_read(const struct options *options, const char *written)
{
	const char *const read[] = {options->capture,	  options->capture_after,
				    options->flops_rules, options->operators_file,
				    options->template,	  options->rules_file};
	const size_t fixed_count = sizeof(read) / sizeof(read[0]);

	for (size_t i = 0; i < fixed_count + options->captures_count; i++) {
		const char *path = i < fixed_count ? read[i] : options->captures[i - fixed_count];

		if (!path || !output_is_same(written, path))
			continue;
		msg_say("%s is an input and would be overwritten: name another file with -o", path);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static int check_files(const struct options *options)
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
	if (code || !keep || !output_is_same(output, keep))
		return code;
	msg_say("--capture %s: the report is written to the same file: name another one", keep);
	return EXIT_USAGE;
}

static int load_rules(struct options *options)
{
	char why[RULE_SET_WHY];

	if (!options->rules_file)
		return EXIT_OK;
	options->rules = rule_set__load(options->rules_file, why);
	if (!options->rules)
		msg_say("%s", why);
	return options->rules ? EXIT_OK : EXIT_USAGE;
}

/* The rules are read at once, so that a mistake in them is reported before anything is touched. */
static int load_cost_model(struct options *options)
{
	char why[512];

	if (options->flops == FLOPS_OFF && options->flops_rules) {
		msg_say("--flops off excludes --flops-rules: use one of them");
		return EXIT_USAGE;
	}
	if (options->flops == FLOPS_OFF || options->verb == VERB_PEAKS ||
	    options->verb == VERB_DOCTOR)
		return EXIT_OK;
	options->cost_model = cost_model__load(options->flops_rules, why, sizeof(why));
	if (!options->cost_model)
		msg_say("%s", why);
	return options->cost_model ? EXIT_OK : EXIT_USAGE;
}

static int load_operators(struct options *options)
{
	char why[512];

	if (options->verb == VERB_PEAKS || options->verb == VERB_DOCTOR)
		return EXIT_OK;
	options->operators = operators__load(options->operators_file, why, sizeof(why));
	if (!options->operators)
		msg_say("%s", why);
	return options->operators ? EXIT_OK : EXIT_USAGE;
}

/* Rejects an option's name after one dash: getopt reads "-duration 5" as -d with "uration". */
static bool say_one_dash(int argc, char **argv, int *code)
{
	int at = optind ? optind : 1; /* 0: getopt has not started */
	const char *word = at < argc ? argv[at] : "";
	const struct option_row *row = NULL;
	char name[32];

	if (*word == '-' && word[1] && word[1] != '-' && word[2]) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 1, "="), word + 1);
		row = option_row_named(name);
	}
	if (!row || row->parse == set_help)
		return false;
	msg_say("unknown option '%s': did you mean -%s?", word, word);
	*code = EXIT_USAGE;
	return true;
}

/* Up to the first word that is not an option: options end at the program that run starts. */
static int parse_options(struct options *options, int argc, char **argv)
{
	const size_t count = option_rows_count + option_aliases_count;
	struct option *longs = calloc(count + 1, sizeof(*longs));
	/* + stops at the first operand; : returns ':' for a missing value, not '?' */
	char shorts[2 * 64] = "+:", *letters = shorts + strlen(shorts);
	int option, code = longs ? EXIT_OK : EXIT_FAILED;

	for (size_t i = 0; longs && i < count; i++) {
		const char *name = i < option_rows_count
					   ? option_rows[i].name
					   : option_aliases[i - option_rows_count].name;
		const struct option_row *row = option_row_named(name);

		longs[i].name = name;
		longs[i].has_arg = row->arg ? required_argument : no_argument;
		longs[i].val = LONG_OPTION + (int)(row - option_rows);
	}
	for (size_t i = 0; i < option_rows_count; i++) {
		if (!option_rows[i].letter)
			continue;
		*letters++ = option_rows[i].letter;
		if (option_rows[i].arg)
			*letters++ = ':';
	}
	opterr = 0;
	while (!code && !say_one_dash(argc, argv, &code) &&
	       (option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct option_row *row = row_of(option);

		code = row && option != '?' && option != ':'
			       ? parse_option(options, row, optarg)
			       : say_mistake(options, option, argv[optind - 1]);
	}
	free(longs);
	return code;
}

/* report FILE -o X: options before, between and after the words. */
static int parse_words(struct options *options, int argc, char **argv)
{
	const struct verb_row *row = verb_row_of(options->verb);
	const char **words = calloc((size_t)argc, sizeof(*words));
	size_t count = 0;
	int code = EXIT_OK;

	options->captures = words;
	if (!words)
		return EXIT_FAILED;
	while (!code && optind < argc) {
		words[count++] = argv[optind++];
		code = parse_options(options, argc, argv);
	}
	/* -h after a file */
	if (code || !words_count(options))
		return code;
	if (options->verb == VERB_MERGE ? count < 2 : count != words_count(options)) {
		msg_say("%s needs %s: perfx-trace %s %s", row->name,
			options->verb == VERB_COMPARE ? "two commands"
			: options->verb == VERB_MERGE ? "two capture files or more"
			: words_count(options) == 2   ? "two capture files"
						      : "one capture file",
			row->name, row->synopsis);
		return EXIT_USAGE;
	}
	if (options->verb == VERB_MERGE) {
		options->captures_count = count;
	} else if (options->verb == VERB_COMPARE) {
		memcpy(options->commands, words, sizeof(options->commands));
	} else {
		options->capture = words[0];
		options->capture_after = count > 1 ? words[1] : NULL;
	}
	return EXIT_OK;
}

/* The row of an option's word: "--name", "--name=value", "-x"; *value: whether it has its value
 * with it. */
static const struct option_row *row_of_word(const char *word, bool *value)
{
	char name[64];
	size_t length = strcspn(word + 2, "=");

	if (!begins_with(word, "--")) {
		*value = word[2] != '\0';
		return row_of(word[1]);
	}
	*value = word[2 + length] == '=';
	snprintf(name, sizeof(name), "%.*s", (int)length, word + 2);
	return length < sizeof(name) ? option_row_named(name) : NULL;
}

/* "--workers=0,1" or "--workers" "0,1". */
static int parse_list(struct options *options, char *word, char *next)
{
	char *equals = strchr(word, '=');
	const char *values = equals ? equals + 1 : next;

	if (!values || !*values || (!equals && *values == '-')) {
		msg_say("%s: neither an option of tune nor followed by values to try, as in %s "
			"1,2,4",
			word, word);
		return EXIT_USAGE;
	}
	if (equals)
		*equals = '\0';
	return options_add_list(options, (struct option_list){.name = word + 2, .values = values});
}

/* Takes the lists out of the words, up to the program. */
static int parse_lists(struct options *options, int *argc, char **argv)
{
	int kept = 1, at = 1, code = EXIT_OK;

	while (at < *argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0 && !code) {
		bool value = false;
		const struct option_row *row = row_of_word(argv[at], &value);

		if (begins_with(argv[at], "--") && !(row && has_option(row, VERB_TUNE))) {
			bool next = !strchr(argv[at], '=') && at + 1 < *argc;

			code = parse_list(options, argv[at], next ? argv[at + 1] : NULL);
			at += 1 + next;
			continue;
		}
		argv[kept++] = argv[at++];
		if (row && row->arg && !value && at < *argc)
			argv[kept++] = argv[at++];
	}
	while (at < *argc)
		argv[kept++] = argv[at++];
	argv[kept] = NULL;
	*argc = kept;
	return code;
}

/* All rings of one kind together, by default. There are two kinds: 16 MiB of the tracer's memory.
 */
#define RINGS_BYTES (8u << 20)

static int parse(struct options *options, int argc, char **argv)
{
	const struct verb_row *row = argc > 1 ? verb_row_named(argv[1]) : NULL;
	int code;

	*options = (struct options){.verb = VERB_TRACE,
				    .interval_ns = 250000000,
				    .observe_ns = 1000000000,
				    .sample_bytes = 512 << 10,
				    .sample_hz = 99,
				    .gpu_events_max = 1000000,
				    .stacks = PERFX_STACKS_UNWIND,
				    .functions_max = 20000,
				    .metric = TUNE_STEPS_PER_S,
				    .warmup_ns = 2000000000,
				    .timeout_ns = 300000000000,
				    .off_cpu = true};
	if (row) {
		options->verb = row->verb;
		argv[1] = argv[0];
		argc--;
		argv++;
	} else if (argc == 1) {
		options->verb = VERB_HELP;
	}
	optind = 0; /* glibc: start over, for tests that parse twice */
	code = options->verb == VERB_TUNE ? parse_lists(options, &argc, argv) : EXIT_OK;
	if (!code)
		code = parse_options(options, argc, argv);
	if (!options->ring_bytes) {
		/* as many rings as there are CPUs, if their number is not given */
		size_t count = options->rings_count ? options->rings_count
						    : (size_t)sysconf(_SC_NPROCESSORS_CONF);

		options->ring_bytes = RINGS_BYTES;
		for (size_t n = 1; n < count && n < PERFX_MAX_RINGS; n *= 2)
			options->ring_bytes /= 2;
	}
	if (code || options->verb == VERB_VERSION)
		return code;
	if (options->verb == VERB_HELP)
		return parse_topic(options, argv[optind]);
	if (options->verb == VERB_EXPLAIN) { /* options before and after the kind */
		if (optind < argc) {
			options->kind = argv[optind++];
			code = parse_options(options, argc, argv);
		}
		return code ? code : parse_operands(options, argc, argv);
	}
	code = words_count(options) ? parse_words(options, argc, argv)
				    : parse_operands(options, argc, argv);
	if (code || options->verb == VERB_HELP || options->verb == VERB_VERSION)
		return code;
	/* all programs have the C library's allocator */
	if (options->all && options->memory == MEMORY_DEFAULT)
		options->memory = MEMORY_TENSOR;
	code = check_combination(options) ?: check_files(options);
	if (code || (words_count(options) && options->verb != VERB_COMPARE))
		return code;
	return load_operators(options) ?: load_cost_model(options);
}

int options_parse(struct options *options, int argc, char **argv)
{
	int code = parse(options, argc, argv);

	if (!code)
		code = load_rules(options);
	if (!code && !options->no_cache && options->verb != VERB_HELP &&
	    options->verb != VERB_VERSION)
		options->facts_folder = cache_path("symbols");
	return code;
}

void options_clear(struct options *options)
{
	rule_set__free(options->rules);
	cost_model__free(options->cost_model);
	operators__free(options->operators);
	for (size_t i = 0; i < options->patterns_count; i++)
		pattern__free(options->patterns[i]);
	free(options->patterns);
	free(options->usdt);
	free(options->targets);
	free(options->captures);
	free(options->lists);
	free(options->facts_folder);
}
