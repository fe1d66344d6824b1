// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/options_table.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/text.h"
#include "base/units.h"
#include "diff/diff.h"
#include "perfx_config.h"
#include "report/dump.h"
#include "report/report.h"
#include "report/table/table.h"
#include "session/recorder.h"
#include "tune/tune.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *member_of(const struct option_row *row, struct options *options)
{
	return (char *)options + row->offset;
}

/* Reports a wrong value, and a right one. */
static int bad(const struct option_row *row, const char *value, const char *want)
{
	if (row->letter)
		msg_say("-%c '%s': %s", row->letter, value, want);
	else
		msg_say("--%s '%s': %s", row->name, value, want);
	return EXIT_USAGE;
}

bool option_has_choices(const struct option_row *row)
{
	return row->arg && !isupper((unsigned char)*row->arg) && strchr(row->arg, '|');
}

bool option_choice(const struct option_row *row, size_t index, char *word, size_t size)
{
	const char *start = row->arg;

	for (; start && index; index--) {
		start = strchr(start, '|');
		if (start)
			start++;
	}
	if (start)
		snprintf(word, size, "%.*s", (int)strcspn(start, "|["), start);
	return start != NULL;
}

/* The place of value among the choices; -1 after a message. */
static int choice_of(const struct option_row *row, const char *value)
{
	char word[32];
	const char *last;
	struct text want;

	for (size_t i = 0; option_choice(row, i, word, sizeof(word)); i++)
		if (!strcmp(word, value))
			return (int)i;
	/* "session|multi|perf" as "session, multi or perf". */
	last = strrchr(row->arg, '|');
	want = (struct text){0};
	for (const char *c = row->arg; *c; c++)
		if (*c == '|')
			text_add(&want, c == last ? " or " : ", ");
		else
			text_add_bytes(&want, c, 1);
	bad(row, value, text_peek(&want));
	text_clear(&want);
	return -1;
}

int set_choice(const struct option_row *row, struct options *options, char *value)
{
	int index = choice_of(row, value);

	*(int *)member_of(row, options) = (int)row->min + index;
	return index < 0 ? EXIT_USAGE : EXIT_OK;
}

int set_switch(const struct option_row *row, struct options *options, char *value)
{
	int index = choice_of(row, value);

	*(bool *)member_of(row, options) = index == 1;
	return index < 0 ? EXIT_USAGE : EXIT_OK;
}

int set_flag(const struct option_row *row, struct options *options, char *value)
{
	*(bool *)member_of(row, options) = !value;
	return EXIT_OK;
}

int set_text(const struct option_row *row, struct options *options, char *value)
{
	*(const char **)member_of(row, options) = value;
	return *value ? EXIT_OK : bad(row, value, "must not be empty");
}

int set_time(const struct option_row *row, struct options *options, char *value)
{
	uint64_t *member = member_of(row, options);
	int err = parse_duration(value, member);

	if (err)
		return bad(row, value,
			   err == -ERANGE ? "too long" : "not a duration: try 10, 10s, 500ms, 2m");
	return *member ? EXIT_OK : bad(row, value, "must be longer than 0");
}

int set_time_or_off(const struct option_row *row, struct options *options, char *value)
{
	if (strcmp(value, "off") != 0)
		return set_time(row, options, value);
	*(uint64_t *)member_of(row, options) = 0;
	return EXIT_OK;
}

#define SECOND_NS 1000000000u
#define DAY_NS	  (86400 * (uint64_t)SECOND_NS)

/* The next time of day, by local time. False: it is none. */
static bool parse_time_of_day(const char *value, uint64_t now_ns, uint64_t *unix_ns)
{
	time_t now = (time_t)(now_ns / SECOND_NS), then;
	const char *end;
	struct tm day;

	localtime_r(&now, &day);
	day.tm_sec = 0;
	end = strptime(value, "%H:%M:%S", &day);
	if (!end || *end) {
		localtime_r(&now, &day);
		day.tm_sec = 0;
		end = strptime(value, "%H:%M", &day);
	}
	day.tm_isdst = -1;
	then = mktime(&day);
	if (!end || *end || then == -1)
		return false;
	if (then <= now) {
		day.tm_mday++;
		day.tm_isdst = -1;
		then = mktime(&day);
	}
	*unix_ns = (uint64_t)then * SECOND_NS;
	return true;
}

int set_at(const struct option_row *row, struct options *options, char *value)
{
	uint64_t *unix_ns = member_of(row, options), now_ns = clock_ns(CLOCK_REALTIME), period_ns;

	if (*value != '/')
		return parse_time_of_day(value, now_ns, unix_ns)
			       ? EXIT_OK
			       : bad(row, value, "not a time: try 14:30, 14:30:05, /10s");
	if (parse_duration(value + 1, &period_ns) || !period_ns || period_ns > DAY_NS)
		return bad(row, value, "not a period up to a day: try /10s, /5m");
	*unix_ns = (now_ns + RECORDER_LEAD_NS + period_ns - 1) / period_ns * period_ns;
	return EXIT_OK;
}

int set_count(const struct option_row *row, struct options *options, char *value)
{
	uint64_t *member = member_of(row, options);
	char *end, want[64];

	errno = 0;
	*member = strtoull(value, &end, 10);
	if (!errno && !*end && *value && *value != '-' && *member && *member <= row->max)
		return EXIT_OK;
	snprintf(want, sizeof(want), "not a number from 1 to %llu", (unsigned long long)row->max);
	return bad(row, value, want);
}

int set_size(const struct option_row *row, struct options *options, char *value)
{
	uint64_t *member = member_of(row, options);

	if (parse_size(value, member))
		return bad(row, value, "not a size: try 64K, 8M, 1G");
	return *member >= row->min && *member <= row->max ? EXIT_OK : bad(row, value, row->want);
}

/* -p 1,2,name */
int set_targets(const struct option_row *row, struct options *options, char *list)
{
	for (char *rest = list, *item; (item = strsep(&rest, ","));) {
		if (!*item)
			return bad(row, list, "an empty pid or name");
		if (LIST_ADD(options->targets, item))
			return bad(row, list, "out of memory");
	}
	return EXIT_OK;
}

int set_pattern(const struct option_row *row, struct options *options, char *value)
{
	char why[256];
	struct pattern *pattern = pattern__parse(value, why, sizeof(why));

	if (!pattern)
		return bad(row, value, why);
	if (!LIST_ADD(options->patterns, pattern))
		return EXIT_OK;
	pattern__free(pattern);
	return bad(row, value, "out of memory");
}

/* steps, exit-time, functions (MODULE:GLOB), or the name of a counter. */
int set_metric(const struct option_row *row, struct options *options, char *value)
{
	if (!*value)
		return bad(row, value, "must not be empty");
	options->metric = !strcmp(value, "steps")	? TUNE_STEPS_PER_S
			  : !strcmp(value, "exit-time") ? TUNE_SECONDS
			  : strchr(value, ':')		? TUNE_CALLS_PER_S
							: TUNE_COUNTER_PER_S;
	options->metric_name = value;
	return options->metric == TUNE_CALLS_PER_S ? set_pattern(row, options, value) : EXIT_OK;
}

int options_add_list(struct options *options, struct option_list list)
{
	if (!LIST_ADD(options->lists, list))
		return EXIT_OK;
	msg_say("out of memory");
	return EXIT_FAILED;
}

static int add_list(const struct option_row *row, struct options *options, char *value,
		    bool environment)
{
	char *equals = strchr(value, '=');

	if (!equals || equals == value || !equals[1])
		return bad(row, value, "not NAME=VALUE,VALUE,...");
	*equals = '\0';
	return options_add_list(options, (struct option_list){value, equals + 1, environment});
}

int set_variable(const struct option_row *row, struct options *options, char *value)
{
	return add_list(row, options, value, true);
}

int set_values(const struct option_row *row, struct options *options, char *value)
{
	return add_list(row, options, value, false);
}

int set_usdt(const struct option_row *row, struct options *options, char *value)
{
	const char *colon = strchr(value, ':');

	if (!colon || colon == value || !colon[1])
		return bad(row, value, "PROVIDER:NAME, such as libstdcxx:throw");
	return LIST_ADD(options->usdt, value) ? bad(row, value, "out of memory") : EXIT_OK;
}

int set_trigger(const struct option_row *row, struct options *options, char *value)
{
	return trigger_parse(value, &options->trigger)
		       ? bad(row, value,
			     "not a condition: try 'step>2x', 'step>250ms', 'stall>60s'")
		       : EXIT_OK;
}

/* "5s": after the start; "-5s": before the end. */
int set_bound(const struct option_row *row, struct options *options, char *value)
{
	struct time_slice_bound *bound = member_of(row, options);
	int err;

	bound->given = true;
	bound->from_end = *value == '-';
	err = parse_duration(value + bound->from_end, &bound->ns);
	if (!err)
		return EXIT_OK;
	return bad(row, value,
		   err == -ERANGE ? "too long"
				  : "not a time: try 5s (after the start) or -5s (before the end)");
}

/* Grams per kWh: more than of any fuel. */
#define CARBON_MAX 10000

/* A severity for a report, a percentage for a comparison. */
int set_fail_on(const struct option_row *row, struct options *options, char *value)
{
	if (options->verb == VERB_DIFF || options->verb == VERB_COMPARE) {
		if (parse_percent(value, &options->fail_on) || !(options->fail_on > 0))
			return bad(row, value, "not a percentage above 0: try 5%");
		return EXIT_OK;
	}
	for (int i = FINDING_HIGH; i <= FINDING_LOW; i++) {
		if (strcmp(finding_severity_name((enum finding_severity)i), value) != 0)
			continue;
		options->fail_on_severity = (enum finding_severity)i;
		return EXIT_OK;
	}
	return bad(row, value, "high, medium or low");
}

int set_overhead(const struct option_row *row, struct options *options, char *value)
{
	double share;

	options->max_overhead_percent = HUGE_VAL;
	if (!strcmp(value, "off"))
		return EXIT_OK;
	if (parse_percent(value, &share) || !(share > 0))
		return bad(row, value, "not a percentage above 0: try 5%");
	options->max_overhead_percent = 100 * share;
	return EXIT_OK;
}

int set_listen(const struct option_row *row, struct options *options, char *value)
{
	return listen_parse(value, &options->listen)
		       ? bad(row, value, "not ADDRESS:PORT: try 127.0.0.1:9477, [::1]:9477")
		       : EXIT_OK;
}

int set_carbon(const struct option_row *row, struct options *options, char *value)
{
	double *member = member_of(row, options);
	char *end;

	*member = strtod(value, &end);
	if (end == value || *end || !(*member > 0) || *member > CARBON_MAX)
		return bad(row, value, "not grams of CO2 per kWh: try 480");
	return EXIT_OK;
}

/* sampled=BYTES, beside the words. */
int set_memory(const struct option_row *row, struct options *options, char *value)
{
	if (!begins_with(value, "sampled="))
		return set_choice(row, options, value);
	if (parse_size(value + 8, &options->sample_bytes))
		return bad(row, value, "not a size: try sampled=512K");
	if (!options->sample_bytes || options->sample_bytes > 1ull << 40)
		return bad(row, value, "from 1 byte to 1T");
	options->memory = MEMORY_SAMPLED;
	return EXIT_OK;
}

int set_sample(const struct option_row *row, struct options *options, char *value)
{
	if (strcmp(value, "off") != 0)
		return set_count(row, options, value);
	options->sample_hz = 0;
	return EXIT_OK;
}

int set_peak_flops(const struct option_row *row, struct options *options, char *value)
{
	return peaks_given_flops(&options->peaks, value)
		       ? bad(row, value, "not FLOP/s: try 350G, 1.2T or f32:1.2T,f64:600G")
		       : EXIT_OK;
}

int set_peak_bandwidth(const struct option_row *row, struct options *options, char *value)
{
	return peaks_given_bytes(&options->peaks, value)
		       ? bad(row, value, "not bytes per second: try 25G, 204.8GB/s")
		       : EXIT_OK;
}

int set_counters(const struct option_row *row, struct options *options, char *value)
{
	struct counters_cpu machine = {0};
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
	return bad(row, word, why);
}

/* "0,3" as bits */
int set_devices(const struct option_row *row, struct options *options, char *value)
{
	uint64_t *member = member_of(row, options);

	for (const char *at = value;; at++) {
		char *end;
		unsigned long device = strtoul(at, &end, 10);

		if (end == at || *at == '-' || device >= PERFX_GPU_DEVICES_MAX ||
		    (*end && *end != ','))
			return bad(row, value, "not a list of GPUs: try 0 or 0,3");
		*member |= 1ull << device;
		at = end;
		if (!*at)
			return EXIT_OK;
	}
}

int set_python(const struct option_row *row, struct options *options, char *value)
{
	int code = set_switch(row, options, value);

	if (code || !options->python_functions || options->verb == VERB_RUN)
		return code;
	return bad(row, value,
		   "needs run: in a running process, Python functions are traced where "
		   "@perfx.track annotates them");
}

int set_help(const struct option_row *row, struct options *options, char *value)
{
	(void)value;
	options->help_of = options->verb;
	options->verb = (enum verb)row->min;
	return EXIT_OK;
}

int set_nothing(const struct option_row *row, struct options *options, char *value)
{
	(void)row, (void)options, (void)value;
	return EXIT_OK;
}

const char *names_of_formats(enum verb verb)
{
	if (verb == VERB_EXPORT)
		return format_names(&export_formats);
	if (verb == VERB_TUNE || verb == VERB_COMPARE)
		return format_names(verb == VERB_TUNE ? &tune_formats : &comparison_formats);
	if (verb == VERB_DUMP)
		return format_names(&dump_formats);
	return format_names(verb == VERB_DIFF ? &diff_formats : &report_formats);
}

const char *names_of_tables(enum verb verb)
{
	(void)verb;
	return data_table_kind_names();
}

const char *names_of_counters(enum verb verb)
{
	(void)verb;
	return counters_names();
}

const char *names_of_columns(enum verb verb)
{
	static struct text names;

	(void)verb;
	if (!names.length)
		data_table_column_names(data_table_kind_named("functions"), &names);
	return text_peek(&names);
}
