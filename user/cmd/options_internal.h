/* SPDX-License-Identifier: BSD-2-Clause */
/* The options' numbers, and what takes their values: EXIT_OK, or EXIT_USAGE after a message. */
#ifndef PERFX_CMD_OPTIONS_INTERNAL_H
#define PERFX_CMD_OPTIONS_INTERNAL_H

#include "cmd/options.h"

enum long_option {
	OPT_LINK = 256,
	OPT_RETURN,
	OPT_SITE,
	OPT_COMPENSATE,
	OPT_NO_CALIBRATE,
	OPT_RING,
	OPT_RINGS,
	OPT_INTERVAL,
	OPT_MAX,
	OPT_TOP,
	OPT_FULL,
	OPT_NO_CHILDREN,
	OPT_USER,
	OPT_AS_ROOT,
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
	OPT_PYTHON_LEVEL,
	OPT_USDT,
	OPT_STEP_RANGE,
	OPT_STEPS,
	OPT_FAIL_ON,
	OPT_WAIT,
	OPT_FLIGHT,
	OPT_TRIGGER,
	OPT_SINCE,
	OPT_UNTIL,
};

/* Says what is wrong with a value; EXIT_USAGE. */
int option_bad(const char *option, const char *value, const char *want);

int option_add_targets(struct options *options, char *list);
int option_add_pattern(struct options *options, const char *text);
int option_add_usdt(struct options *options, const char *text);
int option_set_time(uint64_t *ns, const char *option, const char *text);
int option_set_count(uint64_t *count, const char *option, const char *text, uint64_t max);
int option_set_ring(struct options *options, const char *text);
int option_set_rings(struct options *options, const char *text);
int option_set_max_size(struct options *options, const char *text);
int option_set_trigger(struct options *options, const char *text);
int option_set_bound(struct part_bound *bound, const char *option, const char *text);
int option_set_fail_on(struct options *options, const char *text);
int option_set_memory(struct options *options, const char *value);
int option_set_peaks(struct options *options, int option, const char *value);
int option_set_counters(struct options *options, const char *value);
int option_set_choice(struct options *options, int option, const char *value);

/* options_files.c: no file that is written is one that is read, or written twice. */
int option_check_files(const struct options *options);

#endif
