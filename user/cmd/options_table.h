/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of verbs and options, of which the parser, --help, the man page and the shells'
 * completions are made. */
#ifndef PERFX_CMD_OPTIONS_TABLE_H
#define PERFX_CMD_OPTIONS_TABLE_H

#include "cmd/cmd.h"

enum complete {
	COMPLETE_NOTHING = 0,
	COMPLETE_FILE,
	COMPLETE_CAPTURE, /* FILE, of these suffixes by preference */
	COMPLETE_PROCESS,
	COMPLETE_KIND,	  /* of a finding */
	COMPLETE_PROGRAM, /* with its own arguments */
};

/*
 * Texts. `help` is for a terminal, its first clause (up to ';', ':', '.' or '(') for a completion's
 * menu; `man` is for the man page: `word` is literal, *ARG* a placeholder, a blank line begins a
 * paragraph, a tab an example; without it the help does. '@' stands for the names of the option's
 * values.
 */
struct verb_row {
	const char *name;
	enum verb verb;
	const char *synopsis; /* what follows the name */
	enum complete operands;
	const char *help, *man;
};

enum section { SECTION_WHAT, SECTION_WHEN, SECTION_OUTPUT, SECTION_HOW, SECTION_OTHER };

struct option_row;

/* Takes the value: EXIT_OK, or EXIT_USAGE after a message. NULL value: a flag. */
typedef int option_parse(const struct option_row *row, struct options *options, char *value);

struct option_row {
	const char *name;
	char letter; /* 0: none */
	bool only;   /* an error with other verbs; the rest is ignored there */
	enum section section;
	unsigned verbs;	 /* FOR_VERB() of those that take it */
	const char *arg; /* placeholder; lower-case alternatives are the values: on|off */
	enum complete complete;
	const char *(*names)(enum verb verb); /* values that another module knows: "a, b, c" */
	option_parse *parse;		      /* below */
	size_t offset;			      /* of the member of struct options */
	uint64_t min, max;
	const char *want; /* the range, for a message */
	const char *help, *man;
};

/* A former name, accepted and shown nowhere. */
struct option_alias {
	const char *name, *now;
	const char *until; /* the release that drops it */
};

#define FOR_VERB(verb) (1u << (verb))

extern const struct verb_row verb_rows[];
extern const struct option_row option_rows[];
extern const struct option_alias option_aliases[];
extern const size_t verb_rows_count, option_rows_count, option_aliases_count;

const struct verb_row *verb_row_named(const char *name);
const struct verb_row *verb_row_of(enum verb verb);
const struct option_row *option_row_named(const char *name);
const char *section_title(enum section section);

/* options_values.c: the functions that put an option's value into struct options. */

/* Does it take a value from a list? The list is in `arg`: "off|tensor|sampled[=BYTES]". */
bool option_has_choices(const struct option_row *row);
/* The index-th value, without what is in brackets; false past the last. */
bool option_choice(const struct option_row *row, size_t index, char *word, size_t size);

/* A value for option_row.parse. */
option_parse set_choice;      /* into an enum whose values are in the order of the choices, from
				 row->min on */
option_parse set_switch;      /* into a bool: of two choices the second is true */
option_parse set_flag;	      /* into a bool: true without a value */
option_parse set_text;	      /* into a const char *, borrowed */
option_parse set_time;	      /* into ns */
option_parse set_time_or_off; /* into ns; "off" is 0 */
option_parse set_at;	      /* "14:30:05", "/10s" into a time of CLOCK_REALTIME */
option_parse set_count;	      /* into a uint64_t from 1 to row->max */
option_parse set_size;	      /* into bytes from row->min to row->max; else says row->want */
option_parse set_bound;	      /* into a struct time_slice_bound */
option_parse set_nothing;     /* was not the default once */
option_parse set_help;	      /* the verb becomes row->min */

/* Values of one option each. */
option_parse set_targets, set_pattern, set_python, set_usdt, set_memory, set_counters, set_devices,
	set_sample, set_overhead, set_trigger, set_fail_on, set_carbon, set_peak_flops,
	set_peak_bandwidth, set_metric, set_variable, set_values, set_listen;

/* For tune; EXIT_OK, or EXIT_FAILED after a message. */
int options_add_list(struct options *options, struct option_list list);

/* Names of values for option_row.names: "a, b, c". */
const char *names_of_formats(enum verb verb);
const char *names_of_tables(enum verb verb);
const char *names_of_columns(enum verb verb);
const char *names_of_counters(enum verb verb);

#endif
