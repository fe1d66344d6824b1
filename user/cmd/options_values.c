// SPDX-License-Identifier: BSD-2-Clause
/* What the values of options mean. */
#include "cmd/options_internal.h"

#include "base/message.h"
#include "base/units.h"
#include "perfx_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int option_bad(const char *option, const char *value, const char *want)
{
	msg_say("%s '%s': %s", option, value, want);
	return EXIT_USAGE;
}

/* -p 1,2,name */
int option_add_targets(struct options *options, char *list)
{
	for (char *rest = list, *item; (item = strsep(&rest, ","));) {
		const char **targets;

		if (!*item)
			return option_bad("-p", list, "an empty pid or name");
		targets =
			realloc(options->targets, (options->targets_count + 1) * sizeof(*targets));
		if (!targets)
			return option_bad("-p", list, "out of memory");
		options->targets = targets;
		targets[options->targets_count++] = item;
	}
	return EXIT_OK;
}

int option_add_pattern(struct options *options, const char *text)
{
	char why[256];
	struct pattern *pattern = pattern__parse(text, why, sizeof(why));
	struct pattern **patterns;

	if (!pattern)
		return option_bad("-F", text, why);
	patterns = realloc(options->patterns, (options->patterns_count + 1) * sizeof(*patterns));
	if (!patterns) {
		pattern__free(pattern);
		return option_bad("-F", text, "out of memory");
	}
	options->patterns = patterns;
	patterns[options->patterns_count++] = pattern;
	return EXIT_OK;
}

int option_add_usdt(struct options *options, const char *text)
{
	const char *colon = strchr(text, ':'), **usdt;

	if (!colon || colon == text || !colon[1])
		return option_bad("--usdt", text, "PROVIDER:NAME, such as libstdcxx:throw");
	usdt = realloc(options->usdt, (options->usdt_count + 1) * sizeof(*usdt));
	if (!usdt)
		return option_bad("--usdt", text, "out of memory");
	options->usdt = usdt;
	usdt[options->usdt_count++] = text;
	return EXIT_OK;
}

int option_set_time(uint64_t *ns, const char *option, const char *text)
{
	int err = parse_duration(text, ns);

	if (err)
		return option_bad(option, text,
				  err == -ERANGE ? "too long"
						 : "not a duration: try 10, 10s, 500ms, 2m");
	return *ns ? EXIT_OK : option_bad(option, text, "must be longer than nothing");
}

int option_set_count(uint64_t *count, const char *option, const char *text, uint64_t max)
{
	char *end;

	errno = 0;
	*count = strtoull(text, &end, 10);
	if (errno || *end || !*text || *text == '-' || !*count || *count > max)
		return option_bad(option, text, "not a number in range");
	return EXIT_OK;
}

int option_set_ring(struct options *options, const char *text)
{
	if (parse_size(text, &options->ring_bytes))
		return option_bad("--ring-size", text, "not a size: try 64K, 8M, 1G");
	if (options->ring_bytes < 4096 || options->ring_bytes > (1u << 30))
		return option_bad("--ring-size", text, "between 4K and 1G");
	return EXIT_OK;
}

int option_set_rings(struct options *options, const char *text)
{
	uint64_t count;
	int code = option_set_count(&count, "--rings", text, PERFX_MAX_RINGS);

	if (!code)
		options->rings_count = (uint32_t)count;
	return code;
}

int option_set_max_size(struct options *options, const char *text)
{
	if (parse_size(text, &options->capture_max))
		return option_bad("--max-size", text, "not a size: try 100M, 1G");
	if (options->capture_max < 1 << 20)
		return option_bad("--max-size", text, "1M at least");
	return EXIT_OK;
}

int option_set_trigger(struct options *options, const char *text)
{
	if (trigger_parse(text, &options->trigger))
		return option_bad("--trigger", text, "not a trigger: try 'step>2x', 'step>250ms'");
	return EXIT_OK;
}

/* "5s" after the start, "-5s" before the end. */
int option_set_bound(struct part_bound *bound, const char *option, const char *text)
{
	int err;

	*bound = (struct part_bound){.given = true, .from_end = *text == '-'};
	err = parse_duration(text + bound->from_end, &bound->ns);
	if (!err)
		return EXIT_OK;
	return option_bad(option, text,
			  err == -ERANGE ? "too long"
					 : "not a time: try 5s, after the start, or -5s, before "
					   "the end");
}

/* "5%" and "5" are the same. */
int option_set_fail_on(struct options *options, const char *text)
{
	if (parse_percent(text, &options->fail_on) || !(options->fail_on > 0))
		return option_bad("--fail-on", text, "not a share of what was: try 5%");
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
		return option_bad("--memory", whole, "not a size: try sampled=512K");
	if (!options->sample_bytes || options->sample_bytes > 1ull << 40)
		return option_bad("--memory", whole, "between 1 and 1T");
	options->memory = MEMORY_SAMPLED;
	return EXIT_OK;
}

int option_set_memory(struct options *options, const char *value)
{
	static const char *const names[] = {"off", "tensor", "all", "sampled", NULL};
	int index = choice(names, value);

	if (!strncmp(value, "sampled=", 8))
		return set_sampled(options, value, value + 8);
	if (index < 0)
		return option_bad("--memory", value, "off, tensor, all or sampled[=BYTES]");
	options->memory = (enum memory_choice)(MEMORY_OFF + index);
	return EXIT_OK;
}

int option_set_peaks(struct options *options, int option, const char *value)
{
	if (option == OPT_NO_PEAKS) {
		options->peaks.measure_nothing = true;
		return EXIT_OK;
	}
	if (option == OPT_PEAK_FLOPS)
		return peaks_given_flops(&options->peaks, value)
			       ? option_bad("--peak-flops", value,
					    "not operations a second: try 350G, 1.2T or "
					    "f32:1.2T,f64:600G")
			       : EXIT_OK;
	return peaks_given_bytes(&options->peaks, value)
		       ? option_bad("--peak-bandwidth", value,
				    "not bytes a second: try 25G, 204.8GB/s")
		       : EXIT_OK;
}

int option_set_counters(struct options *options, const char *value)
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
	return option_bad("--counters", word, why);
}

int option_set_choice(struct options *options, int option, const char *value)
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
		return index < 0 ? option_bad("--link", value, "session, multi or perf") : EXIT_OK;
	case OPT_RETURN:
		index = choice(returns, value);
		options->return_mode = (enum return_mode)index;
		return index < 0 ? option_bad("--return", value, "auto, exit or probe") : EXIT_OK;
	case OPT_SITE:
		index = choice(sites, value);
		options->site_entry_only = index == 1;
		return index < 0 ? option_bad("--probe-site", value, "auto or entry") : EXIT_OK;
	case OPT_HOST_LEVEL:
		index = choice(levels, value);
		options->host_level = (enum host_level)(HOST_OFF + index);
		return index < 0 ? option_bad("--host-level", value, "0, 1, 2 or 3") : EXIT_OK;
	case OPT_PYTHON_LEVEL:
		index = choice(levels, value);
		options->python_functions = index == 1;
		return index < 0 || index > 1 ? option_bad("--python-level", value, "0 or 1")
					      : EXIT_OK;
	case OPT_FLOPS:
		index = choice(flops, value);
		options->flops = (enum flops_choice)(FLOPS_OFF + index);
		return index < 0 ? option_bad("--flops", value, "on or off") : EXIT_OK;
	default:
		index = choice(cmdlines, value);
		options->full_cmdline = index == 1;
		return index < 0 ? option_bad("--cmdline", value, "hidden or full") : EXIT_OK;
	}
}
