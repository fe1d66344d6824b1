/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line as a struct: parsed once, passed down, so that a test can parse a literal argv.
 */
#ifndef PERFX_CMD_OPTIONS_H
#define PERFX_CMD_OPTIONS_H

#include "analyze/analyze.h"
#include "attach/thread_counters.h"
#include "export/export.h"
#include "peaks/peaks.h"
#include "perfx_record.h"
#include "plan/plan.h"
#include "replay/replay.h"
#include "serve/http.h"
#include "session/step_watch.h"
#include "tune/tune.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum verb {
	VERB_TRACE = 1, /* record and report */
	VERB_RECORD,
	VERB_REPORT,
	VERB_EXPORT,
	VERB_DIFF,
	VERB_MERGE,
	VERB_RUN,
	VERB_TOP,
	VERB_SERVE,
	VERB_TUNE,
	VERB_COMPARE,
	VERB_PROBES,
	VERB_PEAKS,
	VERB_DOCTOR,
	VERB_EXPLAIN,
	VERB_HELP,
	VERB_VERSION,
};

/* --flops. ON: what is traced by default and has a known cost is so beside what -F names. */
enum flops_choice { FLOPS_DEFAULT = 0, FLOPS_OFF, FLOPS_ON };

/* tune: values to try, "0,1,2", of a placeholder or of a variable; borrowed from argv. */
struct option_list {
	const char *name, *values;
	bool environment;
};

struct options {
	enum verb verb;
	enum verb help_of;    /* VERB_HELP: of which verb; 0: of all */
	const char **targets; /* -p: pids and names as they were written, borrowed from argv */
	size_t targets_count;
	bool all;
	struct pattern **patterns; /* -F, owned */
	size_t patterns_count;
	uint64_t duration_ns; /* UINT64_MAX: until the end; 0: not given */
	const char *output;   /* -o; NULL: stdout */
	const char *format;   /* -f; NULL: by the suffix of output, else text */
	const char *keep;     /* --capture: the capture beside the report; NULL: none */
	uint64_t capture_max; /* --max-size, bytes of the capture, or of a flight recorder's memory;
				 0: as long as it gets */
	uint64_t flight_ns;   /* --flight: the last so much, in memory; 0: all, into the file */
	struct trigger trigger;
	enum export_of of;		     /* export: --of */
	const char *rank;		     /* export: of this one alone; NULL: all */
	struct time_slice_choice time_slice; /* report, export: of the capture */
	uint64_t interval_ns;
	uint64_t observe_ns;	     /* --observe; 0: off */
	double max_overhead_percent; /* 0: not given; HUGE_VAL: off */
	uint64_t ring_bytes;	     /* of each */
	uint64_t rings_count;	     /* 0: by the number of CPUs */
	uint64_t functions_max;
	uint64_t top;
	uint64_t frames_max; /* top: -n; 0: no limit */
	enum perfx_link link;
	enum return_mode return_mode;
	enum memory_choice memory;
	uint64_t sample_bytes; /* MEMORY_SAMPLED: mean distance between samples */
	uint64_t sample_hz;    /* --sample; 0: off */
	enum perfx_stacks stacks;
	uint64_t gpu_devices; /* --gpu-devices: bits; 0: those that traced processes use */
	struct peaks_given peaks;
	enum host_level host_level;
	enum gpu_level gpu;
	bool gpu_graph_nodes;	 /* --gpu-graphs node */
	uint64_t gpu_events_max; /* --gpu-max-events */
	const char **usdt;	 /* globs of provider:name, borrowed from argv */
	size_t usdt_count;
	const char *step_range; /* NULL: found by the names that frameworks give */
	uint64_t steps_max;	/* 0: no end by steps */
	bool wait;		/* --wait: until the program says so */
	enum counters_choice counters;
	const char *counters_names; /* COUNTERS_LISTED, borrowed */
	enum flops_choice flops;
	const char *rules_file;	       /* --rules; NULL: the built-in rules */
	struct rule_set *rules;	       /* read from it, owned; NULL likewise */
	const char *flops_rules;       /* a file; NULL: the built-in table alone */
	struct cost_model *cost_model; /* owned; NULL with FLOPS_OFF */
	bool site_entry_only;
	bool off_cpu;
	bool compensate;
	bool no_children;
	bool no_calibrate;
	bool no_cache;
	char *facts_folder; /* owned; NULL: findings of files are not kept */
	bool full_cmdline;
	bool full;		   /* text: not the short report; probes: each function */
	const char *process;	   /* report: by pid or name; NULL: all */
	const char *table;	   /* of CSV and TSV; NULL: functions */
	const char *sort;	   /* column; NULL: the report's own order */
	bool no_header;		   /* CSV and TSV */
	double carbon_intensity;   /* g CO2 per kWh; 0: not given */
	const char *template;	   /* a file: the report in its form; NULL: none */
	bool as_root;		   /* run --as-root */
	bool python_functions;	   /* run --python-level 1 */
	const char *kind;	   /* explain KIND; NULL: all */
	const char *capture;	   /* report FILE, export FILE, diff FILE FILE */
	const char *capture_after; /* the second */
	const char **captures;	   /* merge FILE FILE …, borrowed from argv */
	size_t captures_count;
	char *const *argv;			/* as main() got it, for the report's "command" */
	double fail_on;				/* diff: a share; 0: not given */
	enum finding_severity fail_on_severity; /* of a report; 0: not given */
	char **command;				/* run, tune -- CMD, borrowed, NULL-terminated */
	const char *commands[2];		/* compare: of a shell each */
	struct option_list *lists;		/* tune */
	size_t lists_count;
	enum tune_unit metric;	 /* tune, compare: what is measured */
	const char *metric_name; /* of the counter, pattern of the functions */
	uint64_t warmup_ns, timeout_ns;
	uint64_t repeat; /* rounds; 0: the verb's own number */
	bool no_trace;	 /* compare: not what changed inside */

	/* serve */
	struct listen_address listen;		     /* size 0: the default */
	const char *token_file, *tls_cert, *tls_key; /* NULL: none */
};

/* EXIT_OK, or EXIT_USAGE after a message that says what is wrong. */
int options_parse(struct options *options, int argc, char **argv);
void options_clear(struct options *options);

/* Where the capture goes: -o of `record`, -o x.perfx, or --capture; NULL: none is kept. Where it is
 * -o, no report is made. */
const char *options_capture(const struct options *options);

/* --help, on stdout: of a verb, 0: of all. */
void options_help(enum verb verb);
/* The man page, on stdout: the template with the synopsis, verbs and options in place of
 * @SYNOPSIS@,
 * @VERBS@ and @OPTIONS@. */
void options_man(FILE *template);
/* What a shell offers for the last of the words that follow the program's name, on stdout: a
 * candidate and a tab and what it is, a line; or ":file", ":process", ":program I" (a command line
 * of its own, from that word on). */
void options_complete(int count, char *const *words);

#endif
