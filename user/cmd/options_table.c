// SPDX-License-Identifier: BSD-2-Clause
/*
 * Every verb and every option, once: how it is spelled, what takes its value, and what --help, the
 * man page and the completions say. An option that is added here is known everywhere.
 */
#include "cmd/options_table.h"

#include "option_texts.h"
#include "perfx_config.h"
#include "verb_texts.h"

#include <string.h>

/* The first verb is the default. */
const struct verb_row verb_rows[] = {
	{"trace", VERB_TRACE, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING, VERB_TEXTS_trace},
	{"dump", VERB_DUMP, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING, VERB_TEXTS_dump},
	{"record", VERB_RECORD, "-p PID|NAME -o FILE [OPTIONS]", COMPLETE_NOTHING,
	 VERB_TEXTS_record},
	{"run", VERB_RUN, "[OPTIONS] -- CMD [ARGUMENTS]", COMPLETE_PROGRAM, VERB_TEXTS_run},
	{"top", VERB_TOP, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING, VERB_TEXTS_top},
	{"serve", VERB_SERVE, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING, VERB_TEXTS_serve},
	{"report", VERB_REPORT, "FILE [OPTIONS]", COMPLETE_CAPTURE, VERB_TEXTS_report},
	{"export", VERB_EXPORT, "FILE -f FORMAT [OPTIONS]", COMPLETE_CAPTURE, VERB_TEXTS_export},
	{"diff", VERB_DIFF, "BEFORE AFTER [OPTIONS]", COMPLETE_CAPTURE, VERB_TEXTS_diff},
	{"merge", VERB_MERGE, "FILE FILE [...] -o FILE", COMPLETE_CAPTURE, VERB_TEXTS_merge},
	{"tune", VERB_TUNE, "--NAME VALUE,VALUE[,...] [OPTIONS] -- CMD [ARGUMENTS]",
	 COMPLETE_PROGRAM, VERB_TEXTS_tune},
	{"compare", VERB_COMPARE, "'CMD A' 'CMD B' [OPTIONS]", COMPLETE_NOTHING,
	 VERB_TEXTS_compare},
	{"probes", VERB_PROBES, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING, VERB_TEXTS_probes},
	{"peaks", VERB_PEAKS, "", COMPLETE_NOTHING, VERB_TEXTS_peaks},
	{"doctor", VERB_DOCTOR, "", COMPLETE_NOTHING, VERB_TEXTS_doctor},
	{"explain", VERB_EXPLAIN, "[KIND] [OPTIONS]", COMPLETE_KIND, VERB_TEXTS_explain},
	{"help", VERB_HELP, "[VERB]", COMPLETE_NOTHING, VERB_TEXTS_help},
};
const size_t verb_rows_count = sizeof(verb_rows) / sizeof(verb_rows[0]);

#define LIVE	  (FOR_VERB(VERB_TOP) | FOR_VERB(VERB_SERVE))
#define FILING	  (FOR_VERB(VERB_TRACE) | FOR_VERB(VERB_RECORD) | FOR_VERB(VERB_RUN))
#define RECORDING (FILING | LIVE)
#define ATTACHING (FOR_VERB(VERB_TRACE) | FOR_VERB(VERB_RECORD) | LIVE)
#define DUMPING	  FOR_VERB(VERB_DUMP)
#define PROBING	  (RECORDING | FOR_VERB(VERB_PROBES))
#define READING	  (FOR_VERB(VERB_REPORT) | FOR_VERB(VERB_EXPORT))
#define PUSHING	  (FOR_VERB(VERB_EXPORT) | FOR_VERB(VERB_SERVE))
#define REPORTING (FOR_VERB(VERB_TRACE) | FOR_VERB(VERB_RUN) | FOR_VERB(VERB_REPORT))
#define COMPARING FOR_VERB(VERB_DIFF)
#define MERGING	  FOR_VERB(VERB_MERGE)
#define MEASURING (FOR_VERB(VERB_TUNE) | FOR_VERB(VERB_COMPARE))
#define ALL	  (~0u)

#define INTO(member) .offset = offsetof(struct options, member)

const struct option_row option_rows[] = {
	/* --- what to trace --- */
	{"pid", 'p', .only = true, SECTION_WHAT, ATTACHING | DUMPING | FOR_VERB(VERB_PROBES),
	 .arg = "PID|NAME[,...]", COMPLETE_PROCESS, .parse = set_targets, OPTION_TEXTS_pid},
	{"all", 'a', .only = true, SECTION_WHAT, ATTACHING | DUMPING | FOR_VERB(VERB_PROBES),
	 .parse = set_flag, INTO(all), OPTION_TEXTS_all},
	{"functions", 'F', false, SECTION_WHAT, PROBING, .arg = "MODULE:GLOB", .parse = set_pattern,
	 OPTION_TEXTS_functions},
	{"host-level", 0, false, SECTION_WHAT, PROBING, .arg = "0|1|2|3", .parse = set_choice,
	 INTO(host_level), .min = HOST_OFF, OPTION_TEXTS_host_level},
	{"python-level", 0, false, SECTION_WHAT, FILING, .arg = "0|1", .parse = set_python,
	 INTO(python_functions), OPTION_TEXTS_python_level},
	{"usdt", 0, false, SECTION_WHAT, PROBING, .arg = "PROVIDER:NAME", .parse = set_usdt,
	 OPTION_TEXTS_usdt},
	{"no-children", 0, false, SECTION_WHAT, ATTACHING | DUMPING | FOR_VERB(VERB_RUN),
	 .parse = set_flag, INTO(no_children), OPTION_TEXTS_no_children},
	{"as-root", 0, .only = true, SECTION_WHAT, FOR_VERB(VERB_RUN) | MEASURING,
	 .parse = set_flag, INTO(as_root), OPTION_TEXTS_as_root},
	{"user", 0, false, SECTION_WHAT, FOR_VERB(VERB_RUN), .parse = set_nothing},
	{"memory", 0, false, SECTION_WHAT, PROBING, .arg = "off|tensor|all|sampled[=BYTES]",
	 .parse = set_memory, INTO(memory), .min = MEMORY_OFF, OPTION_TEXTS_memory},
	{"off-cpu", 0, false, SECTION_WHAT, RECORDING, .arg = "off|on", .parse = set_switch,
	 INTO(off_cpu), OPTION_TEXTS_off_cpu},
	{"timeline", 0, false, SECTION_WHAT, FILING, .parse = set_flag, INTO(timeline),
	 OPTION_TEXTS_timeline},
	{"files", 0, false, SECTION_WHAT, RECORDING, .arg = "off|on", .parse = set_switch,
	 INTO(files), OPTION_TEXTS_files},
	{"metric", 0, .only = true, SECTION_WHAT, MEASURING,
	 .arg = "steps|exit-time|COUNTER|MODULE:GLOB", .parse = set_metric, OPTION_TEXTS_metric},
	{"env", 0, .only = true, SECTION_WHAT, FOR_VERB(VERB_TUNE), .arg = "NAME=VALUE[,...]",
	 .parse = set_variable, OPTION_TEXTS_env},
	{"values", 0, .only = true, SECTION_WHAT, FOR_VERB(VERB_TUNE), .arg = "NAME=VALUE[,...]",
	 .parse = set_values, OPTION_TEXTS_values},
	{"step-range", 0, false, SECTION_WHAT, PROBING | MEASURING, .arg = "NAME",
	 .parse = set_text, INTO(step_range), OPTION_TEXTS_step_range},
	{"flops", 0, false, SECTION_WHAT, PROBING, .arg = "off|on", .parse = set_choice,
	 INTO(flops), .min = FLOPS_OFF, OPTION_TEXTS_flops},
	{"gpu", 0, false, SECTION_WHAT, PROBING, .arg = "off|0|1|2", .parse = set_choice, INTO(gpu),
	 .min = GPU_OFF, OPTION_TEXTS_gpu},
	{"gpu-graphs", 0, false, SECTION_WHAT, RECORDING, .arg = "graph|node", .parse = set_switch,
	 INTO(gpu_graph_nodes), OPTION_TEXTS_gpu_graphs},
	{"gpu-max-events", 0, false, SECTION_WHAT, RECORDING, .arg = "N", .parse = set_count,
	 INTO(gpu_events_max), .max = 1000000000, OPTION_TEXTS_gpu_max_events},
	{"flops-rules", 0, .only = true, SECTION_WHAT, PROBING, .arg = "FILE", COMPLETE_FILE,
	 .parse = set_text, INTO(flops_rules), OPTION_TEXTS_flops_rules},
	{"operators", 0, .only = true, SECTION_WHAT, PROBING, .arg = "FILE", COMPLETE_FILE,
	 .parse = set_text, INTO(operators_file), OPTION_TEXTS_operators},
	{"counters", 0, false, SECTION_WHAT, RECORDING, .arg = "on|off|NAME[,...]",
	 .names = names_of_counters, .parse = set_counters, OPTION_TEXTS_counters},

	{"stacks", 0, false, SECTION_WHAT, RECORDING, .arg = "off|fp|unwind", .parse = set_choice,
	 INTO(stacks), .min = PERFX_STACKS_OFF, OPTION_TEXTS_stacks},

	{"sample", 0, false, SECTION_WHAT, RECORDING, .arg = "HZ|off", .parse = set_sample,
	 INTO(sample_hz), .max = 1000, OPTION_TEXTS_sample},

	{"gpu-devices", 0, false, SECTION_WHAT, RECORDING, .arg = "N[,...]", .parse = set_devices,
	 INTO(gpu_devices), OPTION_TEXTS_gpu_devices},

	/* --- how long --- */
	{"at", 0, .only = true, SECTION_WHEN, FILING, .arg = "HH:MM[:SS]|/TIME", .parse = set_at,
	 INTO(at_unix_ns), OPTION_TEXTS_at},
	{"duration", 'd', false, SECTION_WHEN, RECORDING | MEASURING, .arg = "TIME",
	 .parse = set_time, INTO(duration_ns), OPTION_TEXTS_duration},
	{"observe", 0, false, SECTION_WHEN, FILING, .arg = "TIME|off", .parse = set_time_or_off,
	 INTO(observe_ns), OPTION_TEXTS_observe},
	{"max-overhead", 0, false, SECTION_HOW, RECORDING, .arg = "PERCENT|off",
	 .parse = set_overhead, INTO(max_overhead_percent), OPTION_TEXTS_max_overhead},
	{"frames", 'n', .only = true, SECTION_WHEN, FOR_VERB(VERB_TOP), .arg = "N",
	 .parse = set_count, INTO(frames_max), .max = UINT32_MAX, OPTION_TEXTS_frames},
	{"warmup", 0, .only = true, SECTION_WHEN, MEASURING, .arg = "TIME|off",
	 .parse = set_time_or_off, INTO(warmup_ns), OPTION_TEXTS_warmup},
	{"repeat", 0, .only = true, SECTION_WHEN, MEASURING, .arg = "N", .parse = set_count,
	 INTO(repeat), .max = 1000, OPTION_TEXTS_repeat},
	{"timeout", 0, .only = true, SECTION_WHEN, MEASURING, .arg = "TIME", .parse = set_time,
	 INTO(timeout_ns), OPTION_TEXTS_timeout},
	{"watch", 0, .only = true, SECTION_WHEN, DUMPING, .arg = "TIME", .parse = set_time,
	 INTO(watch_ns), OPTION_TEXTS_watch},
	{"steps", 0, false, SECTION_WHEN, RECORDING | MEASURING, .arg = "N", .parse = set_count,
	 INTO(steps_max), .max = UINT32_MAX, OPTION_TEXTS_steps},
	{"wait", 0, .only = true, SECTION_WHEN, RECORDING, .parse = set_flag, INTO(wait),
	 OPTION_TEXTS_wait},
	{"max-size", 0, false, SECTION_WHEN, RECORDING, .arg = "SIZE", .parse = set_size,
	 INTO(capture_max), .min = 1 << 20, .max = UINT64_MAX, .want = "1M at least",
	 OPTION_TEXTS_max_size},
	{"flight", 0, false, SECTION_WHEN, RECORDING, .arg = "TIME", .parse = set_time,
	 INTO(flight_ns), OPTION_TEXTS_flight},
	{"trigger", 0, false, SECTION_WHEN, FILING, .arg = "CONDITION", .parse = set_trigger,
	 OPTION_TEXTS_trigger},

	/* --- report and capture --- */
	{"no-trace", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_COMPARE), .parse = set_flag,
	 INTO(no_trace), OPTION_TEXTS_no_trace},
	{"output", 'o', false, SECTION_OUTPUT,
	 FILING | DUMPING | READING | COMPARING | MERGING | MEASURING, .arg = "FILE", COMPLETE_FILE,
	 .parse = set_text, INTO(output), OPTION_TEXTS_output},
	{"format", 'f', false, SECTION_OUTPUT,
	 REPORTING | DUMPING | READING | COMPARING | MEASURING, .arg = "FORMAT",
	 .names = names_of_formats, .parse = set_text, INTO(format), OPTION_TEXTS_format},
	{"capture", 0, .only = true, SECTION_OUTPUT,
	 FOR_VERB(VERB_TRACE) | FOR_VERB(VERB_RUN) | DUMPING, .arg = "FILE", COMPLETE_FILE,
	 .parse = set_text, INTO(keep), OPTION_TEXTS_capture},
	{"of", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_EXPORT),
	 .arg = "calls|cpu|off-cpu|alloc|sums", .parse = set_choice, INTO(of),
	 .min = EXPORT_OF_CALLS, OPTION_TEXTS_of},
	{"rank", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_EXPORT), .arg = "N",
	 .parse = set_text, INTO(rank), OPTION_TEXTS_rank},
	{"since", 0, .only = true, SECTION_OUTPUT, READING, .arg = "TIME", .parse = set_bound,
	 INTO(time_slice.since), OPTION_TEXTS_since},
	{"until", 0, .only = true, SECTION_OUTPUT, READING, .arg = "TIME", .parse = set_bound,
	 INTO(time_slice.until), OPTION_TEXTS_until},
	{"full", 0, false, SECTION_OUTPUT, REPORTING | DUMPING | FOR_VERB(VERB_PROBES),
	 .parse = set_flag, INTO(full), OPTION_TEXTS_full},
	{"verbose", 'v', false, SECTION_OUTPUT, REPORTING | DUMPING | FOR_VERB(VERB_PROBES),
	 .parse = set_flag, INTO(full), OPTION_TEXTS_verbose},
	{"top", 0, false, SECTION_OUTPUT,
	 REPORTING | COMPARING | FOR_VERB(VERB_COMPARE) | FOR_VERB(VERB_TOP), .arg = "N",
	 .parse = set_count, INTO(top), .max = 1 << 20, OPTION_TEXTS_top},
	{"sort", 0, false, SECTION_OUTPUT, REPORTING, .arg = "COLUMN", .names = names_of_columns,
	 .parse = set_text, INTO(sort), OPTION_TEXTS_sort},
	{"process", 0, false, SECTION_OUTPUT, FILING | FOR_VERB(VERB_REPORT) | COMPARING,
	 .arg = "PID|NAME", COMPLETE_PROCESS, .parse = set_text, INTO(process),
	 OPTION_TEXTS_process},
	{"table", 0, false, SECTION_OUTPUT, REPORTING, .arg = "TABLE", .names = names_of_tables,
	 .parse = set_text, INTO(table), OPTION_TEXTS_table},
	{"template", 0, false, SECTION_OUTPUT, REPORTING, .arg = "FILE", COMPLETE_FILE,
	 .parse = set_text, INTO(template), OPTION_TEXTS_template},
	{"no-header", 0, false, SECTION_OUTPUT, REPORTING, .parse = set_flag, INTO(no_header),
	 OPTION_TEXTS_no_header},
	{"carbon-intensity", 0, false, SECTION_OUTPUT, REPORTING, .arg = "G_PER_KWH",
	 .parse = set_carbon, INTO(carbon_intensity), OPTION_TEXTS_carbon_intensity},
	{"rules", 0, .only = true, SECTION_OUTPUT,
	 LIVE | REPORTING | COMPARING | FOR_VERB(VERB_COMPARE) | FOR_VERB(VERB_EXPLAIN),
	 .arg = "FILE", COMPLETE_FILE, .parse = set_text, INTO(rules_file), OPTION_TEXTS_rules},
	{"fail-on", 0, .only = true, SECTION_OUTPUT, REPORTING | COMPARING | FOR_VERB(VERB_COMPARE),
	 .arg = "high|medium|low|PERCENT", .parse = set_fail_on, OPTION_TEXTS_fail_on},
	{"cmdline", 0, false, SECTION_OUTPUT, RECORDING | DUMPING | FOR_VERB(VERB_REPORT),
	 .arg = "hidden|full", .parse = set_switch, INTO(full_cmdline), OPTION_TEXTS_cmdline},

	{"listen", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "ADDR:PORT",
	 .parse = set_listen, INTO(listen), OPTION_TEXTS_listen},
	{"token-file", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "FILE",
	 COMPLETE_FILE, .parse = set_text, INTO(token_file), OPTION_TEXTS_token_file},
	{"tls-cert", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "FILE",
	 COMPLETE_FILE, .parse = set_text, INTO(tls_cert), OPTION_TEXTS_tls_cert},
	{"tls-key", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "FILE",
	 COMPLETE_FILE, .parse = set_text, INTO(tls_key), OPTION_TEXTS_tls_key},

	{"push", 0, .only = true, SECTION_OUTPUT, PUSHING, .arg = "URL", .parse = set_text,
	 INTO(push), OPTION_TEXTS_push},
	{"push-every", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "TIME",
	 .parse = set_time, INTO(push_every_ns), OPTION_TEXTS_push_every},
	{"spool", 0, .only = true, SECTION_OUTPUT, PUSHING, .arg = "DIR", COMPLETE_FILE,
	 .parse = set_text, INTO(spool), OPTION_TEXTS_spool},
	{"spool-size", 0, .only = true, SECTION_OUTPUT, PUSHING, .arg = "SIZE", .parse = set_size,
	 INTO(spool_bytes), .min = 1 << 16, .max = UINT64_MAX, .want = "64K at least",
	 OPTION_TEXTS_spool_size},

	/* --- how to measure --- */
	{"link", 0, false, SECTION_HOW, PROBING, .arg = "session|multi|perf|single",
	 .parse = set_choice, INTO(link), .min = PERFX_LINK_SESSION, OPTION_TEXTS_link},
	{"return", 0, false, SECTION_HOW, PROBING, .arg = "auto|exit|probe", .parse = set_choice,
	 INTO(return_mode), .min = RETURN_AUTO, OPTION_TEXTS_return},
	{"probe-site", 0, false, SECTION_HOW, PROBING, .arg = "auto|entry", .parse = set_switch,
	 INTO(site_entry_only), OPTION_TEXTS_probe_site},
	{"compensate", 0, false, SECTION_HOW, RECORDING, .parse = set_flag, INTO(compensate),
	 OPTION_TEXTS_compensate},
	{"no-calibrate", 0, false, SECTION_HOW, PROBING, .parse = set_flag, INTO(no_calibrate),
	 OPTION_TEXTS_no_calibrate},
	{"no-cache", 0, false, SECTION_HOW, PROBING | DUMPING, .parse = set_flag, INTO(no_cache),
	 OPTION_TEXTS_no_cache},
	{"peak-flops", 0, false, SECTION_HOW, RECORDING, .arg = "RATE|TYPE:RATE[,...]",
	 .parse = set_peak_flops, OPTION_TEXTS_peak_flops},
	{"peak-bandwidth", 0, false, SECTION_HOW, RECORDING, .arg = "RATE",
	 .parse = set_peak_bandwidth, OPTION_TEXTS_peak_bandwidth},
	{"no-peaks", 0, false, SECTION_HOW, RECORDING, .parse = set_flag,
	 INTO(peaks.measure_nothing), OPTION_TEXTS_no_peaks},
	{"ring-size", 0, false, SECTION_HOW, PROBING | DUMPING, .arg = "SIZE", .parse = set_size,
	 INTO(ring_bytes), .min = 4096, .max = 1 << 30, .want = "between 4K and 1G",
	 OPTION_TEXTS_ring_size},
	{"rings", 0, false, SECTION_HOW, RECORDING, .arg = "N", .parse = set_count,
	 INTO(rings_count), .max = PERFX_MAX_RINGS, OPTION_TEXTS_rings},
	{"interval", 0, false, SECTION_HOW, RECORDING, .arg = "TIME", .parse = set_time,
	 INTO(interval_ns), OPTION_TEXTS_interval},
	{"max-functions", 0, false, SECTION_HOW, PROBING, .arg = "N", .parse = set_count,
	 INTO(functions_max), .max = 1 << 20, OPTION_TEXTS_max_functions},

	/* --- other --- */
	{"help", 'h', false, SECTION_OTHER, ALL, .parse = set_help, .min = VERB_HELP,
	 OPTION_TEXTS_help},
	{"version", 'V', false, SECTION_OTHER, ALL, .parse = set_help, .min = VERB_VERSION,
	 OPTION_TEXTS_version},
};
const size_t option_rows_count = sizeof(option_rows) / sizeof(option_rows[0]);

const struct option_alias option_aliases[] = {
	{"ring", "flight", .until = "0.2.0"},
};
const size_t option_aliases_count = sizeof(option_aliases) / sizeof(option_aliases[0]);

const struct verb_row *verb_row_named(const char *name)
{
	for (size_t i = 0; i < verb_rows_count; i++)
		if (!strcmp(verb_rows[i].name, name))
			return &verb_rows[i];
	return NULL;
}

const struct verb_row *verb_row_of(enum verb verb)
{
	for (size_t i = 0; i < verb_rows_count; i++)
		if (verb_rows[i].verb == verb)
			return &verb_rows[i];
	return NULL;
}

const struct option_row *option_row_named(const char *name)
{
	for (size_t i = 0; i < option_aliases_count; i++)
		if (!strcmp(option_aliases[i].name, name))
			name = option_aliases[i].now;
	for (size_t i = 0; i < option_rows_count; i++)
		if (!strcmp(option_rows[i].name, name))
			return &option_rows[i];
	return NULL;
}

const char *section_title(enum section section)
{
	static const char *const titles[] = {"What to trace", "How long", "Report and capture",
					     "How to measure", "Other"};

	return titles[section];
}
