/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs, and what they share: finding processes, reading captures, writing reports. Each
 * function that returns an exit code (base/message.h) has said what went wrong. */
#ifndef PERFX_CMD_CMD_H
#define PERFX_CMD_CMD_H

#include "aggregate/aggregate.h"
#include "analyze/analyze.h"
#include "attach/features.h"
#include "attach/thread_counters.h"
#include "base/file.h"
#include "export/export.h"
#include "live/live.h"
#include "peaks/peaks.h"
#include "perfx_record.h"
#include "plan/plan.h"
#include "replay/replay.h"
#include "report/report.h"
#include "serve/http.h"
#include "session/recorder.h"
#include "session/step_watch.h"
#include "tune/tune.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * The command line as a struct: parsed once, passed down, so that a test can parse a literal argv.
 */

enum verb {
	VERB_TRACE = 1, /* record and report */
	VERB_DUMP,
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

/* --flops. ON: default functions with a known cost are traced beside those that -F names. */
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
	size_t targets_count, targets_capacity;
	bool all;
	struct pattern **patterns; /* -F, owned */
	size_t patterns_count, patterns_capacity;
	uint64_t at_unix_ns;  /* when the recording begins; 0: at once */
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
	uint64_t watch_ns;	     /* dump --watch; 0: once */
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
	size_t usdt_count, usdt_capacity;
	const char *step_range; /* NULL: found by the names that frameworks give */
	uint64_t steps_max;	/* 0: no end by steps */
	bool wait;		/* --wait: until the program says so */
	enum counters_choice counters;
	const char *counters_names; /* COUNTERS_LISTED, borrowed */
	enum flops_choice flops;
	const char *rules_file;	       /* --rules; NULL: the built-in rules */
	struct rule_set *rules;	       /* read from it, owned; NULL likewise */
	const char *operators_file;    /* NULL: the built-in rules alone */
	const char *flops_rules;       /* a file; NULL: the built-in table alone */
	struct cost_model *cost_model; /* owned; NULL with FLOPS_OFF */
	struct operators *operators;   /* owned */
	bool site_entry_only;
	bool off_cpu;
	bool timeline;
	bool files;
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
	size_t lists_count, lists_capacity;
	enum tune_unit metric;	 /* tune, compare: what is measured */
	const char *metric_name; /* of the counter, pattern of the functions */
	uint64_t warmup_ns, timeout_ns;
	uint64_t repeat; /* rounds; 0: the verb's own number */
	bool no_trace;	 /* compare: not what changed inside */

	/* serve */
	struct listen_address listen;		     /* size 0: the default */
	const char *token_file, *tls_cert, *tls_key; /* NULL: none */
	const char *push, *spool;		     /* NULL: none; the user's */
	uint64_t push_every_ns, spool_bytes;	     /* 0: the default */
};

/* EXIT_OK, or EXIT_USAGE after a message. */
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
/* Prints the shell's candidates for the last of the words that follow the program's name: a line
 * for each, with a tab and a description; or ":file", ":process", ":program I" (a command line
 * of its own, from that word on). */
void options_complete(int count, char *const *words);

int cmd_trace(const struct options *options); /* and record, and run */
int cmd_dump(const struct options *options);
int cmd_top(const struct options *options);
int cmd_serve(const struct options *options);
int cmd_report(const struct options *options);
int cmd_export(const struct options *options);
int cmd_diff(const struct options *options);
int cmd_merge(const struct options *options);
int cmd_tune(const struct options *options);
int cmd_compare(const struct options *options);
int cmd_probes(const struct options *options);
int cmd_doctor(const struct options *options);
int cmd_explain(const struct options *options);
int cmd_peaks(const struct options *options);

/* The command line's part of the options; the caller fills the rest. */
struct recorder_options recorder_options_of(const struct options *options,
					    const struct features *features);

/* Pids of what -p names, malloc'd. EXIT_OK, or EXIT_FAILED: no such process, a kernel thread, our
 * own pid, 32-bit. */
int targets_find(const struct options *options, pid_t **pids, size_t *count);
/* --process names what may be traced, as far as that can be known before: EXIT_OK or EXIT_USAGE. No
 * pids: of a program that is yet to be started. */
int targets_check_process(const struct options *options, const pid_t *pids, size_t count);
/* EXIT_OK, EXIT_PRIVILEGE or EXIT_FAILED. */
int features_check(struct features *features, const struct options *options);
/* This command line with sudo, as a shell takes it; malloc'd. */
char *command_by_sudo(const struct options *options);
/* Do process ids here mean what they mean to the kernel? Not in a container's pid namespace. */
bool pids_are_the_hosts(void);
/* The plan's options as the command line gives them. */
struct plan_options plan_options_of(const struct options *options, const struct features *features);
/* The arguments as one string that a shell would take, malloc'd. */
char *shell_join(char *const *argv);

/* A whole file. 0 or -errno, for which replay_say_unreadable() has words. */
int replay_file(const char *path, struct pipeline *pipeline, bool say_damage);
/* options->capture, or the time slice that --since and --until choose. As above. */
int replay_capture(const struct options *options, struct pipeline *pipeline, bool say_damage);
#define CAPTURE_NEEDED "a capture (perfx-trace record -o FILE.perfx)"
/* Prints a line: why the file cannot be read, or which kind of file it is and which is needed. */
void replay_say_unreadable(const char *path, int err, const char *needed);
struct capture_source source_of(const struct options *options);
/* Says why replay_capture() failed, and returns the exit code for it. */
int replay_say_error(const struct options *options, int err);

struct dump_writer;

/* Analyzes a dump and writes it. EXIT_OK or EXIT_FAILED. */
int dump_write(const struct dump_writer *writer, struct aggregate *aggregate,
	       const struct options *options);

struct report_target {
	const struct report_writer *writer;
	const char *path;  /* NULL: stdout */
	char *template;	   /* its text */
	bool says_written; /* names the file and the verdict even if stderr is no terminal */
	/* Open during the recording only if it is no regular file: a regular file was tried. */
	struct output output;
};

/* EXIT_OK, EXIT_USAGE (unknown format) or EXIT_FAILED (cannot be written). */
int report_target_open(struct report_target *target, const struct options *options);
/* Analyzes and writes. EXIT_OK, EXIT_FINDINGS (--fail-on) or EXIT_FAILED; a report that cannot be
 * written to its file goes to the terminal, so that the measurement is not lost. */
int report_target_write(struct report_target *target, struct aggregate *aggregate,
			const struct options *options);
void report_target_close(struct report_target *target);
/* -o, but for "-"; NULL: stdout. */
const char *output_path(const struct options *options);
/* Or that the path is a directory. */
void say_unknown_suffix(const char *path, struct format_table *table);
/* The verb's format, by -f, by the suffix of -o, or text; NULL after a message. */
const void *output_format(struct format_table *table, const char *verb,
			  const struct options *options);
/* EXIT_OK, also where stdout's reader has seen enough; EXIT_FAILED. */
int output_result(const char *path, int err);
/* Closes a stream of open_memstream() (NULL: it could not be opened), writes its text and frees it;
 * err: of making the text. As output_result. */
int output_whole(const char *path, FILE *stream, char **text, const size_t *size, int err);
/* Is stdout, which gets the output, a terminal? Its width (0: unknown), and whether it has colors.
 */
void output_terminal(const char *path, unsigned *width, bool *color);

#endif
