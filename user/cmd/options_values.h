/* SPDX-License-Identifier: BSD-2-Clause */
/* What the command line gives an option, into struct options: the functions that the rows of
 * cmd/options_table.c name. */
#ifndef PERFX_CMD_OPTIONS_VALUES_H
#define PERFX_CMD_OPTIONS_VALUES_H

#include "cmd/options_table.h"

/* Does it take a value from a list? The list is in `arg`: "off|tensor|sampled[=BYTES]". */
bool option_has_choices(const struct option_row *row);
/* The index-th value, without what is in brackets; false past the last. */
bool option_choice(const struct option_row *row, size_t index, char *word, size_t size);

/* A value for option_row.parse. */
option_take take_choice;      /* into an enum whose values are in the order of the choices, from
				 row->min on */
option_take take_switch;      /* into a bool: of two choices the second is true */
option_take take_flag;	      /* into a bool: true without a value */
option_take take_text;	      /* into a const char *, borrowed */
option_take take_time;	      /* into ns */
option_take take_time_or_off; /* likewise; off: 0 */
option_take take_count;	      /* into a uint64_t from 1 to row->max */
option_take take_size;	      /* into bytes from row->min to row->max; else says row->want */
option_take take_bound;	      /* into a struct time_slice_bound */
option_take take_nothing;     /* was not the default once */
option_take take_help;	      /* the verb becomes row->min */

/* Of one option each. */
option_take take_targets, take_pattern, take_python, take_usdt, take_memory, take_counters,
	take_devices, take_sample, take_overhead, take_trigger, take_fail_on, take_carbon,
	take_peak_flops, take_peak_bandwidth, take_metric, take_variable, take_values, take_listen;

/* Of tune; EXIT_OK, or EXIT_FAILED after a message. */
int options_add_list(struct options *options, struct option_list list);

/* Names of values for option_row.names: "a, b, c". */
const char *names_of_formats(enum verb verb);
const char *names_of_tables(enum verb verb);
const char *names_of_columns(enum verb verb);
const char *names_of_counters(enum verb verb);

#endif
