// SPDX-License-Identifier: BSD-2-Clause
/*
 * Every verb and every option, once: how it is spelled, what takes its value, and what --help, the
 * man page and the completions say. An option that is added here is known everywhere.
 */
#include "cmd/options_table.h"

#include "cmd/options_values.h"
#include "perfx_config.h"

#include <string.h>

/* --- verbs --------------------------------------------------------------------------------------
 */

/* The first is what is done without a verb. */
const struct verb_row verb_rows[] = {
	{"trace", VERB_TRACE, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING,
	 .help = "trace for 10 s, then report on the terminal (default)",
	 .man = "Traces processes for ten seconds and prints a report, or writes it to `-o`. "
		"This is the default: the word `trace` can be left out."},
	{"record", VERB_RECORD, "-p PID|NAME -o FILE [OPTIONS]", COMPLETE_NOTHING,
	 .help = "trace, and write a capture for report, export and diff",
	 .man = "Traces processes and writes a capture, from which `report`, `export` and `diff` "
		"read."},
	{"run", VERB_RUN, "[OPTIONS] -- CMD [ARGUMENTS]", COMPLETE_PROGRAM,
	 .help = "start a program and trace it until it exits",
	 .man = "Starts a program and traces it from its first instruction until it exits. "
		"Under sudo(8) the program runs as the user who called it, in that user's "
		"environment. "
		"Options end at the program or at `--`. "
		"If the recording ends before the program does (`-d`, `--steps`), the report is "
		"written then, and `perfx-trace` waits for the program: the first Ctrl-C goes to "
		"the "
		"program, a second one leaves it running."},
	{"top", VERB_TOP, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING,
	 .help = "trace, and show each second what happens: steps, functions, lines, threads",
	 .man = "Traces processes until they end or `q`, and shows on a full screen, each second "
		"anew: training steps and their phases, the use of CPUs, memory and GPUs, and by "
		"views the functions, lines of code, threads with what they wait for, findings "
		"and allocations. "
		"`h` lists the keys; `w` writes a report of the last seconds, as many as "
		"`--flight` "
		"says: 30 by default. "
		"Where standard output is no terminal, frames of plain text are printed instead: "
		"one each second, for `-d`, or `-n` of them. "
		"With `-a` it waits for processes that start later."},
	{"serve", VERB_SERVE, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING,
	 .help = "trace until Ctrl-C, and show it by HTTP: Prometheus metrics, a live page, "
		 "reports",
	 .man = "Traces processes until they end or Ctrl-C, and serves by HTTP (`--listen`): "
		"`/metrics`, counters since the beginning, for Prometheus; `/`, a live page; "
		"`/report?format=html&seconds=30`, the last seconds as a report in any format, or "
		"as a file for another tool; `/capture`, the last seconds as a capture. "
		"`--flight` says how many seconds are kept: 30 by default. "
		"With `-a` it waits for processes that start later."},
	{"report", VERB_REPORT, "FILE [OPTIONS]", COMPLETE_CAPTURE, .help = "report from a capture",
	 .man = "Writes a report from a capture. "
		"Needs no privilege, and neither the traced program nor the machine it ran on."},
	{"export", VERB_EXPORT, "FILE -f FORMAT [OPTIONS]", COMPLETE_CAPTURE,
	 .help = "convert a capture for other tools (@)",
	 .man = "Converts a capture for other tools, without privilege. "
		"The format is named by `-f` or by the suffix of `-o`: `perfetto` (`.pftrace`), "
		"`chrome` (`.trace.json`, as PyTorch's profiler writes it), `pprof` (`.pb.gz`), "
		"`folded` stacks with their time (`.folded`), `speedscope` (`.speedscope.json`), "
		"`openmetrics` (`.prom`). "
		"A suffix that several formats end with, such as `.json`, needs `-f`, or `--of`."},
	{"diff", VERB_DIFF, "BEFORE AFTER [OPTIONS]", COMPLETE_CAPTURE,
	 .help = "compare two captures or JSON reports",
	 .man = "Compares two captures or JSON reports, whatever their lengths: training steps, "
		"call "
		"times, shares of wall time, memory, FLOP and byte rates, new and resolved "
		"findings. "
		"A change is significant if it exceeds the variation between calls and steps. "
		"Formats: @."},
	{"merge", VERB_MERGE, "FILE FILE [...] -o FILE", COMPLETE_CAPTURE,
	 .help = "make one capture of those of a job's machines",
	 .man = "Makes one capture of several: of the machines of a job, or of several tracers on "
		"one machine. "
		"Report, export and diff read it as any other. "
		"The machines' clocks are compared by the ends of the ranks' collectives, which "
		"all ranks see at nearly the same moment; the offset and its error are printed. "
		"Where the captures have no collective in common, the machines' time of day "
		"counts."},
	{"tune", VERB_TUNE, "--NAME VALUE,VALUE[,...] [OPTIONS] -- CMD [ARGUMENTS]",
	 COMPLETE_PROGRAM,
	 .help = "run a program with each of several values, and say which is fastest",
	 .man = "Runs a program with each of the values of a parameter, measures its training "
		"steps a second at the lowest cost of tracing, and reports the optimum, how sure "
		"it is, the curve, and the first value that comes within 5 % of the optimum.\n"
		"\tperfx-trace tune --workers 0,1,2,4,8 -- python3 train.py --workers {}\n\n"
		"Any option that is not one of `tune`'s own names a list of values: `{NAME}` in "
		"the "
		"command, or `{}` where there is one list only, stands for them. "
		"`--env` lists values of an environment variable. "
		"Of several lists each combination is tried, 64 at most. "
		"Runs are made in rounds (`--repeat`), every second one backward. "
		"Each run has a session of its own, no input, and its output is kept from the "
		"terminal; it is ended by SIGTERM, after 5 seconds by SIGINT, after 5 more by "
		"SIGKILL, with all that it has started. "
		"A run that fails is a row with the reason. "
		"Ctrl-C ends the run in progress and reports what there is. "
		"Formats: @."},
	{"compare", VERB_COMPARE, "'CMD A' 'CMD B' [OPTIONS]", COMPLETE_NOTHING,
	 .help = "run two commands alternately, and say how much they differ",
	 .man = "Runs two commands, each a string for /bin/sh, alternately (A B, B A, ...), "
		"measures as `tune` does, and reports by how much B differs from A, with the "
		"confidence "
		"interval. "
		"Then each is traced once, and what changed inside is reported as by `diff`. "
		"Formats: @."},
	{"probes", VERB_PROBES, "-p PID|NAME [OPTIONS]", COMPLETE_NOTHING,
	 .help = "list what would be probed, and the cost of a hit",
	 .man = "Lists what would be probed, without touching the process: the probed instruction "
		"of "
		"each function, the cost of a hit, how its end is detected; what cannot be probed, "
		"and why; the memory allocators, which of them serves malloc(3), and the cost of "
		"each "
		"level of `--memory`. "
		"Functions that are traced by default are grouped by file and kind; `-v` lists "
		"each."},
	{"peaks", VERB_PEAKS, "", COMPLETE_NOTHING,
	 .help = "measure this machine's peak FLOP/s and bandwidth",
	 .man = "Measures this machine's peak FLOP/s and memory bandwidth, for a second on all "
		"CPUs, "
		"and stores them for later recordings."},
	{"doctor", VERB_DOCTOR, "", COMPLETE_NOTHING,
	 .help = "check what works on this machine, and how to fix the rest",
	 .man = "Tests each kernel feature and privilege that tracing uses, and says how to get "
		"those "
		"that are missing."},
	{"explain", VERB_EXPLAIN, "[KIND] [OPTIONS]", COMPLETE_KIND,
	 .help = "list the kinds of findings, or say how one is judged and what to try",
	 .man = "Lists the kinds of findings, or says of one how it is judged, by which "
		"thresholds, "
		"what to try, with an example, and what to look at next. "
		"The kind is the word after the severity in a report, such as `PythonBound`."},
	{"help", VERB_HELP, "[VERB]", COMPLETE_NOTHING, .help = "list the options of a verb",
	 .man = "Lists the options of a verb, as *VERB* `--help` does."},
};
const size_t verb_rows_count = sizeof(verb_rows) / sizeof(verb_rows[0]);

/* --- options ------------------------------------------------------------------------------------
 */

#define LIVE	  (FOR_VERB(VERB_TOP) | FOR_VERB(VERB_SERVE))
#define FILING	  (FOR_VERB(VERB_TRACE) | FOR_VERB(VERB_RECORD) | FOR_VERB(VERB_RUN))
#define RECORDING (FILING | LIVE)
#define ATTACHING (FOR_VERB(VERB_TRACE) | FOR_VERB(VERB_RECORD) | LIVE)
#define PROBING	  (RECORDING | FOR_VERB(VERB_PROBES))
#define READING	  (FOR_VERB(VERB_REPORT) | FOR_VERB(VERB_EXPORT))
#define REPORTING (FOR_VERB(VERB_TRACE) | FOR_VERB(VERB_RUN) | FOR_VERB(VERB_REPORT))
#define COMPARING FOR_VERB(VERB_DIFF)
#define MERGING	  FOR_VERB(VERB_MERGE)
#define MEASURING (FOR_VERB(VERB_TUNE) | FOR_VERB(VERB_COMPARE))
#define ALL	  (~0u)

#define INTO(member) .offset = offsetof(struct options, member)

const struct option_row option_rows[] = {
	/* --- what to trace --- */
	{"pid", 'p', .only = true, SECTION_WHAT, ATTACHING | FOR_VERB(VERB_PROBES),
	 .arg = "PID|NAME[,...]", COMPLETE_PROCESS, .parse = take_targets,
	 .help = "processes by id or name, with their children; repeatable",
	 .man = "Traces these processes, and their present and future children. "
		"*NAME* is the name of the program's file, or the command or title that ps(1) "
		"shows, exactly. "
		"Where several processes have it, a terminal is asked for one of them; elsewhere "
		"all are traced. "
		"Of a shell, its children are traced. "
		"Repeatable."},
	{"all", 'a', .only = true, SECTION_WHAT, ATTACHING | FOR_VERB(VERB_PROBES),
	 .parse = take_flag, INTO(all),
	 .help = "every process that loads an ML library or is annotated with perfx.h",
	 .man = "Traces every process that loads an ML library or is annotated with `<perfx.h>`, "
		"also those that start later."},
	{"functions", 'F', false, SECTION_WHAT, PROBING, .arg = "MODULE:GLOB",
	 .parse = take_pattern,
	 .help = "functions of a file (or PyTorch operators: 'aten::mm'); '!' in front excludes; "
		 "MODULE:/ERE/ is a regular "
		 "expression; "
		 "repeatable. Default: annotated functions and ML operations",
	 .man = "Traces these functions; see *PATTERNS*. "
		"Repeatable. "
		"By default, functions annotated with `<perfx.h>` and the known operations of ML "
		"libraries (BLAS, oneDNN, PyTorch, XLA, cuBLAS, NCCL) are traced; those of XLA, "
		"which "
		"JAX uses, by their names in the compiled module (`jit_train_step/dot.1`)."},
	{"host-level", 0, false, SECTION_WHAT, PROBING, .arg = "0|1|2|3", .parse = take_choice,
	 INTO(host_level), .min = HOST_OFF,
	 .help = "default functions, without -F: 0 none, 1 annotations, 2 also compute operations "
		 "(default), 3 also all other operators of frameworks",
	 .man = "Which functions are traced by default, without `-F`. "
		"`0`: none. "
		"`1`: annotations, that is ranges of NVTX, ROCTX, ITT, PyTorch's record_function "
		"and "
		"`<perfx.h>`, and jitted functions of JAX and TensorFlow. "
		"`2`, the default: also the compute operations of frameworks. "
		"`3`: also all other operators of frameworks."},
	{"python-level", 0, false, SECTION_WHAT, FILING, .arg = "0|1", .parse = take_python,
	 INTO(python_functions), .help = "1 traces each call of a Python function (run only)",
	 .man = "With `run`, `1` traces each call of a Python function as a range, at about 2 "
		"microseconds per call; calls made by imports are left out. "
		"The default is `0`."},
	{"usdt", 0, false, SECTION_WHAT, PROBING, .arg = "PROVIDER:NAME", .parse = take_usdt,
	 .help = "count hits of USDT probes; globs; repeatable",
	 .man = "Counts the hits of USDT probes; their semaphores are raised during the recording. "
		"Both parts are globs. "
		"Repeatable."},
	{"no-children", 0, false, SECTION_WHAT, ATTACHING | FOR_VERB(VERB_RUN), .parse = take_flag,
	 INTO(no_children), .help = "leave out child processes, present and future",
	 .man = "Leaves out child processes, present and future."},
	{"as-root", 0, .only = true, SECTION_WHAT, FOR_VERB(VERB_RUN) | MEASURING,
	 .parse = take_flag, INTO(as_root),
	 .help = "start the program as root, not as the user who called sudo",
	 .man = "Starts the program as root. "
		"By default, under sudo(8), it runs as the user who called sudo, with that user's "
		"groups and environment."},
	{"user", 0, false, SECTION_WHAT, FOR_VERB(VERB_RUN), .parse = take_nothing},
	{"memory", 0, false, SECTION_WHAT, PROBING, .arg = "off|tensor|all|sampled[=BYTES]",
	 .parse = take_memory, INTO(memory), .min = MEMORY_OFF,
	 .help = "allocations: of frameworks and GPUs (tensor); also of malloc (all), or one "
		 "sample "
		 "of it every BYTES (512K). Default: what costs little",
	 .man = "Which allocations are traced. "
		"`off`: none. "
		"`tensor`: those of frameworks (PyTorch, TensorFlow, NumPy, ggml) and GPUs, few "
		"and "
		"large. "
		"`all`: also those of the C library or its replacement (jemalloc, tcmalloc, "
		"mimalloc). "
		"`sampled`: as `all`, with one sample of the C library's allocations every *BYTES* "
		"on "
		"average, by default `512K`. "
		"By default the level with an acceptable cost is chosen; with `-a` it is `tensor`. "
		"`perfx-trace probes` shows the cost of each level."},
	{"off-cpu", 0, false, SECTION_WHAT, RECORDING, .arg = "off|on", .parse = take_switch,
	 INTO(off_cpu), .help = "what threads wait for, by every context switch (default on)",
	 .man = "Whether the time that threads are off the CPU is recorded, by what they wait for: "
		"exactly, from the scheduler's own events. "
		"`on` is the default; `off` saves some tens of nanoseconds per context switch."},
	{"metric", 0, .only = true, SECTION_WHAT, MEASURING,
	 .arg = "steps|exit-time|COUNTER|MODULE:GLOB", .parse = take_metric,
	 .help = "what is measured: training steps a second (default), the time until the program "
		 "exits, a counter's growth a second, or calls of functions a second",
	 .man = "What `tune` and `compare` measure. "
		"`steps`, the default: training steps a second, counted as reports do. "
		"`exit-time`: the time until the program exits, without tracing and its "
		"privileges. "
		"*COUNTER*: what perfx_counter_add() adds to a counter of `<perfx.h>` in a second, "
		"or "
		"by how much one that perfx_counter() sets grows. "
		"*MODULE:GLOB*: calls of functions a second; see *PATTERNS*."},
	{"env", 0, .only = true, SECTION_WHAT, FOR_VERB(VERB_TUNE), .arg = "NAME=VALUE[,...]",
	 .parse = take_variable, .help = "values of an environment variable to try; repeatable",
	 .man = "Values of an environment variable that `tune` tries. "
		"Repeatable.\n"
		"\tperfx-trace tune --env OMP_NUM_THREADS=1,2,4 -- python3 train.py"},
	{"values", 0, .only = true, SECTION_WHAT, FOR_VERB(VERB_TUNE), .arg = "NAME=VALUE[,...]",
	 .parse = take_values,
	 .help = "values to try where NAME is an option of tune's own; repeatable",
	 .man = "Values that `tune` tries, as by `--NAME` *VALUE*,..., where *NAME* is an option "
		"of "
		"`tune`'s own: `--values steps=10,20` for `{steps}`. "
		"Repeatable."},
	{"step-range", 0, false, SECTION_WHAT, PROBING | MEASURING, .arg = "NAME",
	 .parse = take_text, INTO(step_range),
	 .help = "range or function whose end is the end of a training step",
	 .man = "The range or function, which may be a jitted one, whose end is the end of a "
		"training "
		"step. "
		"By default: the step that the program annotates, else PyTorch's range of the "
		"optimizer's step, else the backward pass, else what the period of the calls "
		"shows."},
	{"flops", 0, false, SECTION_WHAT, PROBING, .arg = "off|on", .parse = take_choice,
	 INTO(flops), .min = FLOPS_OFF,
	 .help = "FLOPs of BLAS, PyTorch and cuBLAS calls (default: of those traced); with -F, on "
		 "also traces all of those calls",
	 .man = "Whether the FLOPs and bytes of calls are computed from their arguments: for BLAS, "
		"oneDNN, PyTorch's operators, cuBLAS, NCCL (bytes), and for what perfx_flops() of "
		"`<perfx.h>` states. "
		"With `-F`, only for the functions that it names; `on` adds those that are traced "
		"by "
		"default and have known FLOPs."},
	{"gpu", 0, false, SECTION_WHAT, PROBING, .arg = "off|0|1|2", .parse = take_choice,
	 INTO(gpu), .min = GPU_OFF,
	 .help = "work of NVIDIA GPUs: 0 counts launches by kernel and copies at their calls "
		 "(default; with -F, only if given); 1 and 2 also time it on the device, by an "
		 "agent in the process",
	 .man = "What is recorded of the work that a program hands to GPUs by CUDA. "
		"`0`: launches by kernel and shape, copies by direction and bytes, memsets, and "
		"the time that calls wait for the device, at the calls of the runtime and the "
		"driver; nothing enters the process. "
		"This is the default, but with `-F` or `--host-level` 0 or 1 only if it is given. "
		"`1`: also each kernel, copy, memset and graph with its times on the device, by a "
		"library in the process that uses CUPTI. "
		"`2`: also the kernels and copies that graphs consist of. "
		"`off`: these calls are not traced, and GPUs are not sampled."},
	{"gpu-graphs", 0, false, SECTION_WHAT, RECORDING, .arg = "graph|node", .parse = take_switch,
	 INTO(gpu_graph_nodes),
	 .help = "with --gpu 1: each launch of a graph as a whole (default), or each of its nodes",
	 .man = "How `--gpu 1` records graphs: each launch as a whole (`graph`, the default), or "
		"each kernel and copy in it (`node`), as `--gpu 2` does, which costs the program "
		"more."},
	{"gpu-max-events", 0, false, SECTION_WHAT, RECORDING, .arg = "N", .parse = take_count,
	 INTO(gpu_events_max), .max = 1000000000,
	 .help = "with --gpu 1: how many events are recorded one by one (1000000); further ones "
		 "are summed",
	 .man = "How many kernels, copies and calls `--gpu 1` and `2` record one by one, by "
		"default 1000000. Further ones are summed by kernel, shape and stream: their "
		"counts "
		"and times are exact, but they are on no timeline and belong to no calling "
		"function."},
	{"flops-rules", 0, .only = true, SECTION_WHAT, PROBING, .arg = "FILE", COMPLETE_FILE,
	 .parse = take_text, INTO(flops_rules),
	 .help = "FLOPs of your own functions (docs/flops.md), which are traced as well",
	 .man = "FLOPs of your own functions, one rule per line: a *MODULE:GLOB* and expressions "
		"of the "
		"arguments. "
		"The functions are traced, and a rule takes precedence over the built-in ones.\n"
		"\tlibfast.so:fast_gemm dtype=f32; flops=2*i32(arg1)*i32(arg2)*i32(arg3)"},
	{"counters", 0, false, SECTION_WHAT, RECORDING, .arg = "on|off|NAME[,...]",
	 .names = names_of_counters, .parse = take_counters,
	 .help = "perf events per call: on, off, or at most four of @. Default: hardware counters "
		 "of "
		 "functions with known FLOPs",
	 .man = "Perf events per call, counted for the calling thread. "
		"By default the hardware's, if it has any: cycles, instructions, floating-point "
		"operations and cache misses, for functions with known FLOPs. "
		"`on`: for all functions. "
		"By name: at most four of @, for all functions."},

	{"stacks", 0, false, SECTION_WHAT, RECORDING, .arg = "off|fp|unwind", .parse = take_choice,
	 INTO(stacks), .min = PERFX_STACKS_OFF,
	 .help = "how call stacks are found: unwind tables, frame pointers, not at all",
	 .man = "How the call stacks of allocations, samples and the first call of each calling "
		"context are found. "
		"`unwind`, the default: by the unwind tables of the program's files, which all "
		"compilers write, and where code has none by frame pointers, or by what on the "
		"stack looks like a return address. "
		"`fp`: by frame pointers alone, which few libraries have; the costs are smaller. "
		"`off`: only the immediate caller of allocations and samples is recorded."},

	{"sample", 0, false, SECTION_WHAT, RECORDING, .arg = "HZ|off", .parse = take_sample,
	 INTO(sample_hz), .max = 1000,
	 .help = "sample call stacks of all threads, HZ times a second on each CPU (default 99)",
	 .man = "How often the threads of traced processes are sampled: those that run *HZ* times "
		"a second on each CPU, 99 by default, those that wait a fifth as often. "
		"Each sample has the call stack, the innermost traced call, and what the thread "
		"waits for. "
		"Samples are reported separately from calls, which are counted exactly. "
		"`off`: none are taken."},

	{"gpu-devices", 0, false, SECTION_WHAT, RECORDING, .arg = "N[,...]", .parse = take_devices,
	 INTO(gpu_devices),
	 .help = "GPUs to sample, by nvidia-smi's number (default: those that traced processes "
		 "use)",
	 .man = "Which GPUs are sampled (utilization, memory, power, energy, clocks), by the "
		"number "
		"that nvidia-smi(1) gives them. "
		"By default those on which a traced process has a context."},

	/* --- how long --- */
	{"duration", 'd', false, SECTION_WHEN, RECORDING | MEASURING, .arg = "TIME",
	 .parse = take_time, INTO(duration_ns),
	 .help = "length of the recording: 10, 500ms, 2m (default 10s; run, top, serve: until "
		 "the program exits; tune, compare: of each run, after the warm-up)",
	 .man = "Length of the recording, from the moment all probes are attached: seconds, or "
		"with a "
		"unit as in `500ms` or `2m`. "
		"The default is 10 seconds; with `run`, `top` and `serve`, until the program "
		"exits. "
		"With `tune` and `compare`: what is measured of each run, after the warm-up."},
	{"observe", 0, false, SECTION_WHEN, FILING, .arg = "TIME|off", .parse = take_time_or_off,
	 INTO(observe_ns),
	 .help = "time steps without probes for this long before and after the recording, to "
		 "report the observed slowdown (default 1s)",
	 .man = "How long steps are timed without probes, before the recording and after it, so "
		"that the report can say how much slower the program was while it was traced: 1 "
		"second, or the length of the recording if that is less. "
		"Nothing but the function that ends steps is probed then. "
		"It is left out where nothing ends steps, after Ctrl-C, with `run` and with "
		"`--wait`. "
		"`off`: not at all."},
	{"max-overhead", 0, false, SECTION_HOW, RECORDING, .arg = "PERCENT|off",
	 .parse = take_overhead, INTO(max_overhead_percent),
	 .help = "limit of the slowdown: what exceeds it is recorded in less detail, or dropped "
		 "(default 5%, for what was not asked for)",
	 .man = "By how much tracing may slow the program down, in percent of the program's CPU "
		"time, by its own estimate. "
		"Whatever costs most is recorded in less detail from then on, or no longer, until "
		"the rest is within the limit, each time with a message: functions are counted "
		"instead of timed, then no longer traced; of allocations fewer call stacks are "
		"followed, then their frees are inferred, then they are sampled; samples are taken "
		"half as often; time off the CPU is left out. "
		"The default is 5% and spares what was asked for with `-F` or `--memory`; a limit "
		"that is given is for everything. "
		"`off`: no limit."},
	{"frames", 'n', .only = true, SECTION_WHEN, FOR_VERB(VERB_TOP), .arg = "N",
	 .parse = take_count, INTO(frames_max), .max = UINT32_MAX,
	 .help = "top: end after N frames", .man = "`top` ends after *N* frames, one each second."},
	{"warmup", 0, .only = true, SECTION_WHEN, MEASURING, .arg = "TIME|off",
	 .parse = take_time_or_off, INTO(warmup_ns),
	 .help = "what is left out of each run, from its first step on (default 2s)",
	 .man = "What `tune` and `compare` leave out of each run, from its first step on: `2s` by "
		"default. "
		"What comes before the first step is never measured. "
		"With `--metric exit-time` the first run is left out instead."},
	{"repeat", 0, .only = true, SECTION_WHEN, MEASURING, .arg = "N", .parse = take_count,
	 INTO(repeat), .max = 1000, .help = "rounds of one run of each (default 3; compare: 6)",
	 .man = "Rounds of one run of each value, or of A and B: 3 by default, with `compare` 6. "
		"How sure a difference is takes two at least."},
	{"timeout", 0, .only = true, SECTION_WHEN, MEASURING, .arg = "TIME", .parse = take_time,
	 INTO(timeout_ns), .help = "end of a run, whatever was measured until then (default 5m)",
	 .man = "When `tune` and `compare` end a run whatever was measured until then: after 5 "
		"minutes by default."},
	{"steps", 0, false, SECTION_WHEN, RECORDING | MEASURING, .arg = "N", .parse = take_count,
	 INTO(steps_max), .max = UINT32_MAX,
	 .help = "end when a process has completed N training steps (tune, compare: after the "
		 "warm-up)",
	 .man = "Ends the recording when a process has completed *N* training steps; with `tune` "
		"and `compare`, each run when *N* were measured."},
	{"wait", 0, .only = true, SECTION_WHEN, RECORDING, .parse = take_flag, INTO(wait),
	 .help = "record only between the program's calls of perfx_trace_start and "
		 "perfx_trace_stop",
	 .man = "Attaches all probes, but records only from a traced program's call of "
		"perfx_trace_start() to its call of perfx_trace_stop(), as often as it calls them, "
		"until it exits or for `-d`, which counts from the end of attaching."},
	{"max-size", 0, false, SECTION_WHEN, RECORDING, .arg = "SIZE", .parse = take_size,
	 INTO(capture_max), .min = 1 << 20, .max = UINT64_MAX, .want = "1M at least",
	 .help = "end when the capture has this size; with --flight, limit of its memory (256M)",
	 .man = "Ends the recording when the capture has about this size, of which an eighth, at "
		"most "
		"4M, is reserved for its end. "
		"With `--flight`: limit of the memory that holds the capture, 256M by default, "
		"which "
		"does not end the recording."},
	{"flight", 0, false, SECTION_WHEN, RECORDING, .arg = "TIME", .parse = take_time,
	 INTO(flight_ns),
	 .help = "flight recorder: keep the last TIME in memory and write it to -o FILE.perfx on "
		 "SIGUSR1, on --trigger and at the end",
	 .man = "A flight recorder: keeps the last *TIME* in memory, within 256M or `--max-size`, "
		"until "
		"Ctrl-C or the end of `-d`. "
		"It is written to `-o` *FILE* whenever perfx-trace receives SIGUSR1, after a slow "
		"step "
		"(`--trigger`), and at the end.\n\n"
		"The first file is *FILE*, the next have a number before the suffix "
		"(`run.2.perfx`). "
		"Each is an ordinary capture of at least *TIME* and at most a sixteenth, or 1 "
		"second, "
		"more; it is shorter, and says so, if the memory limit was reached. "
		"While it is written it is called *FILE*`.part`; only a complete file replaces an "
		"older one."},
	{"trigger", 0, false, SECTION_WHEN, FILING, .arg = "CONDITION", .parse = take_trigger,
	 .help = "with --flight: also write after a step slower than a multiple of the median "
		 "('step>2x') or than a time ('step>250ms')",
	 .man = "With `--flight`: also writes a file after a step that took longer than a multiple "
		"of "
		"the median of the steps before it (`step>2x`; after ten steps at least) or than a "
		"time (`step>250ms`). "
		"The file is written a third of the flight recorder's time later, at most 5 "
		"seconds, "
		"so that it contains what follows the step. "
		"At most ten files are written this way."},

	/* --- report and capture --- */
	{"no-trace", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_COMPARE), .parse = take_flag,
	 INTO(no_trace), .help = "do not trace a run of each for what changed inside",
	 .man = "Leaves out the traced runs that show what changed inside."},
	{"output", 'o', false, SECTION_OUTPUT, FILING | READING | COMPARING | MERGING | MEASURING,
	 .arg = "FILE", COMPLETE_FILE, .parse = take_text, INTO(output),
	 .help = "file of the report or capture; '-' is stdout",
	 .man = "Where the report or the capture is written; `-` is standard output. "
		"The suffix selects the format: `.txt`, `.md`, `.html`, `.json`, `.csv`, `.tsv`, "
		"`.line`, and `.perfx` for a capture. "
		"Under sudo(8) the file belongs to the user who called sudo; one that replaces "
		"another belongs to that one's owner. "
		"A symbolic link is not followed; neither is a folder's of another user. "
		"In a folder that others can write, such as /tmp, a file of another user is not "
		"replaced, and nowhere is another user's FIFO written.\n\n"
		"Until it is complete, a file that replaces another is called *FILE*`.part`, with "
		"six letters before `.part` where that name is taken. "
		"A killed recording leaves it, and `report` reads it."},
	{"format", 'f', false, SECTION_OUTPUT, REPORTING | READING | COMPARING | MEASURING,
	 .arg = "FORMAT", .names = names_of_formats, .parse = take_text, INTO(format),
	 .help = "format: @ (default: by the suffix of -o)",
	 .man = "Format of the report, whatever the suffix of `-o`: @. "
		"`line` is a single line, for a log."},
	{"capture", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_TRACE) | FOR_VERB(VERB_RUN),
	 .arg = "FILE", COMPLETE_FILE, .parse = take_text, INTO(keep),
	 .help = "write the capture as well as the report",
	 .man = "Writes the capture as well as the report."},
	{"of", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_EXPORT),
	 .arg = "calls|cpu|off-cpu|alloc", .parse = take_choice, INTO(of), .min = EXPORT_OF_CALLS,
	 .help = "what folded, pprof and speedscope show: calls, samples or allocations",
	 .man = "What a file of call stacks shows (folded, pprof, speedscope): the time of traced "
		"calls, samples of threads on the CPU, samples of waiting threads, or allocated "
		"bytes. "
		"By default pprof and speedscope have all of it, folded the calls."},
	{"rank", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_EXPORT), .arg = "N",
	 .parse = take_text, INTO(rank), .help = "one rank of a job only, with its children",
	 .man = "Exports the processes of one rank of a job only, as HolisticTraceAnalysis wants a "
		"file for each rank."},
	{"since", 0, .only = true, SECTION_OUTPUT, READING, .arg = "TIME", .parse = take_bound,
	 INTO(time_slice.since),
	 .help = "start of the time slice: 5s after the start of the capture, -5s before its end",
	 .man = "Start of the time slice of the capture that is read. "
		"A time counts from the start of the capture, or back from its end if it begins "
		"with "
		"`-`. "
		"A call belongs to the slice in which it ends; allocations are those within the "
		"slice, live memory is that at its end. "
		"Calls that were dropped from full ring buffers are known per second only: a "
		"second "
		"that the slice cuts is left out, and their number is reported."},
	{"until", 0, .only = true, SECTION_OUTPUT, READING, .arg = "TIME", .parse = take_bound,
	 INTO(time_slice.until), .help = "end of the time slice, as for --since"},
	{"full", 0, false, SECTION_OUTPUT, REPORTING | FOR_VERB(VERB_PROBES), .parse = take_flag,
	 INTO(full),
	 .help = "text report: everything, not a summary of one or two screens; probes: each "
		 "function",
	 .man = "Text report: everything. "
		"By default the text is a summary of one or two screens: the verdict, four "
		"findings, "
		"the steps, ten functions, five places that allocate, identical workers as one, "
		"the "
		"cost and losses of tracing, and what could not be traced. "
		"Markdown, HTML and JSON are always complete. "
		"With `probes`: each function, also those traced by default."},
	{"verbose", 'v', false, SECTION_OUTPUT, REPORTING | FOR_VERB(VERB_PROBES),
	 .parse = take_flag, INTO(full), .help = "the same as --full"},
	{"top", 0, false, SECTION_OUTPUT,
	 REPORTING | COMPARING | FOR_VERB(VERB_COMPARE) | FOR_VERB(VERB_TOP), .arg = "N",
	 .parse = take_count, INTO(top), .max = 1 << 20, .help = "rows per table",
	 .man = "Rows per table. "
		"JSON always has all rows."},
	{"sort", 0, false, SECTION_OUTPUT, REPORTING, .arg = "COLUMN", .names = names_of_columns,
	 .parse = take_text, INTO(sort),
	 .help = "sort functions, or the CSV table, by a column: calls, p99_ns, ...",
	 .man = "Sorts the functions, or the table of a CSV or TSV file, by a column of the file, "
		"such "
		"as `calls` or `p99_ns`: numbers descending, text ascending."},
	{"process", 0, false, SECTION_OUTPUT, FILING | FOR_VERB(VERB_REPORT) | COMPARING,
	 .arg = "PID|NAME", COMPLETE_PROCESS, .parse = take_text, INTO(process),
	 .help = "report on these processes only",
	 .man = "Reports on the processes with this id or name only."},
	{"table", 0, false, SECTION_OUTPUT, REPORTING, .arg = "TABLE", .names = names_of_tables,
	 .parse = take_text, INTO(table), .help = "table of a CSV or TSV file: @",
	 .man = "Table of a CSV or TSV file: @. "
		"The default is functions."},
	{"template", 0, false, SECTION_OUTPUT, REPORTING, .arg = "FILE", COMPLETE_FILE,
	 .parse = take_text, INTO(template),
	 .help = "report in a format of your own: {{verdict}} (docs/formats.md)",
	 .man = "Report in a format of your own: the text of *FILE* with values of the JSON report "
		"in "
		"place of `{{verdict}}` or `{{wall_ns:ns}}`, and sections repeated for each row as "
		"in "
		"`{{#functions:10}}...{{/functions}}`. "
		"Excludes `-f`."},
	{"no-header", 0, false, SECTION_OUTPUT, REPORTING, .parse = take_flag, INTO(no_header),
	 .help = "CSV and TSV without the line of column names"},
	{"carbon-intensity", 0, false, SECTION_OUTPUT, REPORTING, .arg = "G_PER_KWH",
	 .parse = take_carbon, INTO(carbon_intensity),
	 .help = "also report energy as grams of CO2, at this many grams per kWh",
	 .man = "Reports the energy that the host and its GPUs used as grams of CO2, too, at this "
		"carbon intensity of electricity in grams per kWh; it depends on place and time, "
		"and has no default."},
	{"rules", 0, .only = true, SECTION_OUTPUT,
	 LIVE | REPORTING | COMPARING | FOR_VERB(VERB_COMPARE) | FOR_VERB(VERB_EXPLAIN),
	 .arg = "FILE", COMPLETE_FILE, .parse = take_text, INTO(rules_file),
	 .help = "thresholds of findings, silenced kinds, rules of your own (docs/rules.md)",
	 .man = "A file by which findings are judged: it changes thresholds, silences kinds and "
		"adds "
		"rules, one a line; `#` begins a comment. "
		"`explain` lists the thresholds, and with this option those in effect.\n"
		"\tPythonBound.medium = 40%\n"
		"\tsilence SlowOperation *softmax*\n"
		"\trule SlowLoss: function loss_* total_share > 5% severity medium \"Compute it "
		"less often.\""},
	{"fail-on", 0, .only = true, SECTION_OUTPUT, REPORTING | COMPARING | FOR_VERB(VERB_COMPARE),
	 .arg = "high|medium|low|PERCENT", .parse = take_fail_on,
	 .help = "exit with 4 on a finding of this severity or above; diff, compare: on a "
		 "regression of "
		 "more "
		 "than PERCENT",
	 .man = "Exits with 4, after the report, if there is a finding of this severity or a "
		"higher one; a line on standard error names it. "
		"With `run` the status of a program that failed comes first. "
		"A kind that shall not count is silenced (`--rules`).\n\n"
		"`diff`: exits with 4 on a regression of more than *PERCENT* (`5%`): a function "
		"with at "
		"least "
		"1 % of wall time in one of the recordings whose calls take significantly longer; "
		"a kernel of a GPU likewise; steps that take significantly longer; or a larger "
		"exact peak of memory (live "
		"bytes of "
		"a domain, or resident set), by 1 MiB or more. "
		"Functions that were called in one recording only and FLOP rates do not count. "
		"With nothing to compare it exits with 2. "
		"With `compare`: if B is significantly slower, by more than *PERCENT*."},
	{"cmdline", 0, false, SECTION_OUTPUT, RECORDING | FOR_VERB(VERB_REPORT),
	 .arg = "hidden|full", .parse = take_switch, INTO(full_cmdline),
	 .help = "full shows passwords and tokens in command lines",
	 .man = "Command lines in reports hide what looks like a secret (passwords, tokens, keys); "
		"`full` shows it."},

	{"listen", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "ADDR:PORT",
	 .parse = take_listen, INTO(listen),
	 .help = "address that serve listens on (default 127.0.0.1:9477)",
	 .man = "The address and port on which `serve` listens, `127.0.0.1:9477` by default; "
		"`[::1]:9477` with IPv6, `0.0.0.0:9477` for all of this machine's. "
		"An address that other machines can reach needs `--token-file` or `--tls-cert`. "
		"Port 0 is any that is free."},
	{"token-file", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "FILE",
	 COMPLETE_FILE, .parse = take_text, INTO(token_file),
	 .help = "serve: who asks must know this file's first line",
	 .man = "Requests to `serve` must have the first line of *FILE* as their token: "
		"`Authorization: Bearer` *TOKEN*, or in a browser as the password. "
		"Everybody being able to read the file is an error."},
	{"tls-cert", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "FILE",
	 COMPLETE_FILE, .parse = take_text, INTO(tls_cert),
	 .help = "serve: HTTPS with this certificate (PEM)",
	 .man = "`serve` speaks HTTPS, with this certificate and the chain that follows it (PEM)."},
	{"tls-key", 0, .only = true, SECTION_OUTPUT, FOR_VERB(VERB_SERVE), .arg = "FILE",
	 COMPLETE_FILE, .parse = take_text, INTO(tls_key),
	 .help = "the private key of --tls-cert (PEM)"},

	/* --- how to measure --- */
	{"link", 0, false, SECTION_HOW, PROBING, .arg = "session|multi|perf|single",
	 .parse = take_choice, INTO(link), .min = PERFX_LINK_SESSION,
	 .help = "kind of uprobe link (default: the first that the kernel has)",
	 .man = "Kind of uprobe link. "
		"The default is the first of these that the kernel has. "
		"`perf` is one perf event for many probes, made through tracefs; `single` is one "
		"for "
		"each probe, 512 at most, which also serves as `perf` where tracefs cannot be "
		"written."},
	{"return", 0, false, SECTION_HOW, PROBING, .arg = "auto|exit|probe", .parse = take_choice,
	 INTO(return_mode), .min = RETURN_AUTO,
	 .help = "how the end of a call is detected (default auto: without risk)",
	 .man = "How the end of a call is detected: by probes on the instructions that leave the "
		"function (`exit`) or by a return probe (`probe`). "
		"A return probe replaces the return address, and a C++ exception that passes it "
		"ends "
		"the program; `auto`, the default, uses one only where no exception can pass. "
		"The kernel allows 64 return probes at a time per thread: calls nested deeper than "
		"48 "
		"are counted without times, and the function is timed at its exits from then on."},
	{"probe-site", 0, false, SECTION_HOW, PROBING, .arg = "auto|entry", .parse = take_switch,
	 INTO(site_entry_only),
	 .help = "probed instruction: the cheapest near the start (auto) or the first",
	 .man = "Where a function is probed. "
		"`auto`, the default: the cheapest instruction at its start that sees the call's "
		"arguments and stack unchanged. "
		"`entry`: its first instruction."},
	{"compensate", 0, false, SECTION_HOW, RECORDING, .parse = take_flag, INTO(compensate),
	 .help = "subtract the cost of probes on nested calls",
	 .man = "Subtracts the measured cost of probes on nested calls from the times of their "
		"callers."},
	{"no-calibrate", 0, false, SECTION_HOW, PROBING, .parse = take_flag, INTO(no_calibrate),
	 .help = "skip measuring the cost of a probe hit",
	 .man = "Skips measuring the cost of a probe hit on this machine."},
	{"no-cache", 0, false, SECTION_HOW, PROBING, .parse = take_flag, INTO(no_cache),
	 .help = "search all files anew, and keep nothing about them",
	 .man = "Searches the symbols of all files anew and keeps nothing. "
		"By default, what a search of a big file has found is kept in "
		"`/var/cache/perfx-trace/symbols`, by its build id, so that tracing begins sooner "
		"the next time."},
	{"peak-flops", 0, false, SECTION_HOW, RECORDING, .arg = "RATE|TYPE:RATE[,...]",
	 .parse = take_peak_flops,
	 .help = "peak FLOP/s of all CPUs: 1.2T, or per type f32:1.2T,f64:600G",
	 .man = "Peak FLOP/s of all CPUs together: `1.2T` for every type, or by type, "
		"`f32:1.2T,f64:600G` (f64, f32, f16, bf16)."},
	{"peak-bandwidth", 0, false, SECTION_HOW, RECORDING, .arg = "RATE",
	 .parse = take_peak_bandwidth, .help = "peak memory bandwidth of all CPUs, in bytes/s: 25G",
	 .man = "Peak memory bandwidth of all CPUs together, in bytes per second: `25G` or "
		"`204.8GB/s`; K, M, G and T are powers of 1000, Ki to Ti of 1024.\n\n"
		"By default both peaks are those that `perfx-trace peaks` stored in "
		"`/var/cache/perfx-trace/peaks`. "
		"If there are none, they are measured while the machine is idle, and otherwise "
		"estimated from the model and clock of the CPU; the report marks an estimate."},
	{"no-peaks", 0, false, SECTION_HOW, RECORDING, .parse = take_flag,
	 INTO(peaks.measure_nothing), .help = "neither measure nor estimate peaks",
	 .man = "Neither measures nor estimates peaks, nor uses those measured before."},
	{"ring-size", 0, false, SECTION_HOW, PROBING, .arg = "SIZE", .parse = take_size,
	 INTO(ring_bytes), .min = 4096, .max = 1 << 30, .want = "between 4K and 1G",
	 .help = "size of each BPF ring buffer (default: together 8M)",
	 .man = "Size of each BPF ring buffer for calls, and likewise for allocations. "
		"By default those of each kind have 8 MiB together: `4M` each on a machine with 2 "
		"CPUs, `1M` with 8 or more. "
		"If one is full, counts and totals stay exact; percentiles lack the calls that the "
		"report counts as ring_drops."},
	{"rings", 0, false, SECTION_HOW, RECORDING, .arg = "N", .parse = take_count,
	 INTO(rings_count), .max = PERFX_MAX_RINGS,
	 .help = "BPF ring buffers (default: one per CPU, at most 8)",
	 .man = "Number of BPF ring buffers for calls, and likewise for allocations: rounded up to "
		"a "
		"power of two, at most 8; by default one per CPU. "
		"Each thread writes to one of them, so that threads on different CPUs do not "
		"contend."},
	{"interval", 0, false, SECTION_HOW, RECORDING, .arg = "TIME", .parse = take_time,
	 INTO(interval_ns), .help = "interval between samples of /proc (default 250ms)",
	 .man = "Interval between samples of CPU time, memory, I/O and threads from /proc; `250ms` "
		"by "
		"default."},
	{"max-functions", 0, false, SECTION_HOW, PROBING, .arg = "N", .parse = take_count,
	 INTO(functions_max), .max = 1 << 20,
	 .help = "limit of functions that patterns may match (default 20000)",
	 .man = "Limit of functions that patterns may match, 20000 by default; more is an error."},

	/* --- other --- */
	{"help", 'h', false, SECTION_OTHER, ALL, .parse = take_help, .min = VERB_HELP,
	 .help = "the options of a verb", .man = "Lists the verbs, or the options of a verb."},
	{"version", 'V', false, SECTION_OTHER, ALL, .parse = take_help, .min = VERB_VERSION,
	 .help = "the version"},
};
const size_t option_rows_count = sizeof(option_rows) / sizeof(option_rows[0]);

const struct option_alias option_aliases[] = {
	{"ring", "flight", .until = "0.2.0"},
};
const size_t option_aliases_count = sizeof(option_aliases) / sizeof(option_aliases[0]);

/* --- look-ups -----------------------------------------------------------------------------------
 */

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
