// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace tune, compare: runs of a program, measured alternately. */
#include "tune/tune.h"
#include "base/message.h"
#include "base/text.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "session/trial.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TUNE_ROUNDS    3
#define COMPARE_ROUNDS 6
#define DURATION_NS    10000000000u

/* A program that failed so often does so always. */
#define FAILURES_MAX 2

/* The settings of all runs. */
struct bench {
	const struct options *options;
	struct features features;
	struct rate_options rate;
	struct recorder_options recording; /* of the rate alone */
	size_t runs_count, run;
	bool has_none; /* the program makes nothing that could be counted */
};

static bool is_traced(const struct options *options)
{
	return options->metric != TUNE_SECONDS;
}

/* The events whose rate is measured (steps, calls or a counter), and for how long. */
static struct rate_options rate_options_of(const struct options *options)
{
	static const enum rate_of kinds[] = {[TUNE_STEPS_PER_S] = RATE_STEPS,
					     [TUNE_CALLS_PER_S] = RATE_CALLS,
					     [TUNE_COUNTER_PER_S] = RATE_COUNTER,
					     [TUNE_SECONDS] = RATE_STEPS};
	uint64_t duration_ns = options->duration_ns ? options->duration_ns
			       : options->steps_max ? UINT64_MAX
						    : DURATION_NS;

	return (struct rate_options){.of = kinds[options->metric],
				     .counter = options->metric_name,
				     .warmup_ns = options->warmup_ns,
				     .duration_ns = duration_ns,
				     .events_max = options->steps_max};
}

/* Traces only what the rate needs: marks of steps, or the named functions. */
static struct recorder_options cheapest(const struct bench *bench)
{
	struct recorder_options recording = recorder_options_of(bench->options, &bench->features);
	bool calls = bench->options->metric == TUNE_CALLS_PER_S;

	recording.plan.host_level = calls ? HOST_OFF : HOST_ANNOTATIONS;
	recording.plan.memory = MEMORY_OFF;
	recording.plan.gpu = GPU_OFF;
	recording.plan.cost_model = NULL;
	recording.stacks = PERFX_STACKS_OFF;
	recording.sample_hz = 0;
	recording.off_cpu = false;
	recording.plan.files = false;
	recording.calibrate = false;
	recording.counters = COUNTERS_OFF;
	recording.peaks.measure_nothing = true;
	recording.steps_max = 0;
	return recording;
}

static int bench_begin(struct bench *bench, const struct options *options)
{
	int code = is_traced(options) ? features_check(&bench->features, options) : EXIT_OK;

	/* the programs that it has started must not be measured */
	features_end(&bench->features);
	bench->options = options;
	bench->rate = rate_options_of(options);
	bench->recording = cheapest(bench);
	bench->recording.command = "";
	trials_begin();
	return code;
}

static struct tune_metric metric_of(const struct options *options)
{
	return (struct tune_metric){options->metric, options->metric_name};
}

/* "run 3 of 15: workers=2: 8.31 steps/s" */
static void say_run(const struct bench *bench, const char *name, double value, const char *why)
{
	const struct tune_metric metric = metric_of(bench->options);
	struct text text = {0};

	if (why)
		text_add(&text, why);
	else
		tune_add_value(&text, &metric, value);
	msg_say("run %zu of %zu: %s: %s", bench->run, bench->runs_count, name, text_peek(&text));
	text_clear(&text);
}

static struct trial_options trial_options_of(const struct bench *bench, char *const *argv,
					     char *const *environment)
{
	return (struct trial_options){.argv = argv,
				      .environment = environment,
				      .as_caller = !bench->options->as_root,
				      .timeout_ns = bench->options->timeout_ns,
				      .rate = is_traced(bench->options) ? &bench->rate : NULL,
				      .recording = bench->recording,
				      .features = &bench->features};
}

/* A program without steps will have none in later runs, either. */
static void say_none(const struct bench *bench, const char *name)
{
	static const char *const ways[] = {
		[TUNE_STEPS_PER_S] = "no training step was seen in its first run: --step-range "
				     "NAME names what ends a step, --metric exit-time measures "
				     "the time until it exits, --metric 'MODULE:GLOB' counts calls",
		[TUNE_CALLS_PER_S] = "no traced function was called in its first run: perfx-trace "
				     "probes shows what can be traced",
		[TUNE_COUNTER_PER_S] = "the counter was not seen in its first run: perfx_counter "
				       "and perfx_counter_add write it (perfx.h)",
	};

	msg_say("%s: %s", name, ways[bench->options->metric]);
}

/* Makes a run of the round, and notes it. A failure that ends all runs is its code. is_first: no
 * run before it has shown that there is something to measure. */
static int measure(struct bench *bench, const struct trial_options *trial, const char *name,
		   struct tune_runs *runs, size_t round, bool is_first)
{
	struct trial_result result;
	double value = NAN;
	int code;

	bench->run++;
	if (runs->failed_count >= FAILURES_MAX)
		return EXIT_OK;
	msg_status("run %zu of %zu: %s…", bench->run, bench->runs_count, name);
	trial_run(trial, &result);
	code = result.code;
	if (result.known)
		value = is_traced(bench->options) ? rate_per_s(&result.rate)
						  : (double)result.exit_ns / 1e9;
	if (result.known && !(value > 0)) {
		result.why = strdup("the counter did not grow");
		value = NAN;
	}
	bench->has_none = result.none && is_first;
	if (bench->has_none)
		say_none(bench, name);
	else if (!code && (result.why || !isnan(value)))
		say_run(bench, name, value, result.why);
	tune_runs_add(runs, round, value);
	if (result.why)
		tune_runs_fail(runs, strdup(result.why));
	trial_result_clear(&result);
	return code;
}

/* Runs once without measuring, so that files are in memory: time until the exit has no warm-up. */
static int warm_up(const struct bench *bench, const struct trial_options *trial)
{
	struct trial_result result;
	int code;

	if (is_traced(bench->options))
		return EXIT_OK;
	msg_say("a run that warms up: it does not count");
	trial_run(trial, &result);
	code = result.code;
	trial_result_clear(&result);
	return code;
}

static void say_plan(const struct bench *bench, size_t rounds_count)
{
	uint64_t run_ns = bench->rate.warmup_ns + bench->rate.duration_ns;
	struct text text = {0};

	text_printf(&text, "%zu runs", bench->runs_count);
	if (rounds_count > 1)
		text_printf(&text, " in %zu rounds", rounds_count);
	if (is_traced(bench->options) && bench->rate.duration_ns != UINT64_MAX)
		text_printf(&text, ": each takes %s from its first event on", as_ns(run_ns));
	msg_say("%s", text_peek(&text));
	text_clear(&text);
}

static int prepare(struct tune *tune, const struct options *options)
{
	char why[TUNE_WHY];
	int err = 0;

	tune->metric = metric_of(options);
	tune->command = options->command;
	for (size_t i = 0; i < options->lists_count && !err; i++)
		err = tune_add_list(tune, options->lists[i].name, options->lists[i].values,
				    options->lists[i].environment, why);
	if (!err)
		err = tune_prepare(tune, options->repeat ? options->repeat : TUNE_ROUNDS, why);
	if (err)
		msg_say("%s", why);
	return err ? EXIT_USAGE : EXIT_OK;
}

static int run_point(struct bench *bench, struct tune *tune, size_t run)
{
	struct tune_point *point = &tune->points[tune_order(tune, run)];
	char **command = tune_command(tune, point), **environment = tune_environment(tune, point);
	struct text name = {0};
	int code = EXIT_FAILED;

	tune_add_point(&name, tune, point);
	if (command && environment) {
		struct trial_options trial = trial_options_of(bench, command, environment);

		code = run ? EXIT_OK : warm_up(bench, &trial);
		if (!code)
			code = measure(bench, &trial, text_peek(&name), &point->runs,
				       run / tune->points_count, !run);
	} else {
		msg_say("out of memory");
	}
	text_clear(&name);
	tune_free_words(command);
	tune_free_words(environment);
	return code;
}

int cmd_tune(const struct options *options)
{
	const struct tune_writer *writer = output_format(&tune_formats, "tune", options);
	const char *path = output_path(options);
	struct tune tune = {0};
	struct bench bench = {0};
	struct tune_layout layout;
	int code = writer ? prepare(&tune, options) : EXIT_USAGE;
	char *text = NULL;
	size_t size = 0;
	FILE *stream;

	if (!code)
		code = bench_begin(&bench, options);
	if (code)
		goto out;
	bench.runs_count = tune.points_count * tune.rounds_count;
	say_plan(&bench, tune.rounds_count);
	for (size_t run = 0;
	     run < bench.runs_count && !code && !bench.has_none && !interrupt_asked(); run++)
		code = run_point(&bench, &tune, run);
	tune.interrupted = interrupt_asked();
	if (bench.has_none)
		code = EXIT_FAILED;
	if (code)
		goto out;
	tune_judge(&tune);
	stream = open_memstream(&text, &size);
	output_terminal(path, &layout.width, &layout.color);
	code = output_whole(path, stream, &text, &size,
			    stream ? writer->write(stream, &tune, &layout) : 0);
	if (!code && tune.best == TUNE_NONE)
		code = EXIT_FAILED;
out:
	tune_clear(&tune);
	return code;
}

/* Runs A or B. */
static int run_side(struct bench *bench, struct comparison *comparison, bool is_b, size_t round)
{
	char *const argv[] = {"/bin/sh", "-c",
			      (char *)(is_b ? comparison->command_b : comparison->command_a), NULL};
	struct trial_options trial = trial_options_of(bench, argv, NULL);
	int code = round ? EXIT_OK : warm_up(bench, &trial);

	return code ? code
		    : measure(bench, &trial, is_b ? "B" : "A",
			      is_b ? &comparison->b : &comparison->a, round, !round);
}

static int run_rounds(struct bench *bench, struct comparison *comparison)
{
	int code = EXIT_OK;

	bench->runs_count = 2 * comparison->rounds_count;
	say_plan(bench, comparison->rounds_count);
	for (size_t run = 0;
	     run < bench->runs_count && !code && !bench->has_none && !interrupt_asked(); run++) {
		size_t round = run / 2;
		bool is_b = comparison_begins_with_b(round) != (run % 2 != 0);

		code = run_side(bench, comparison, is_b, round);
	}
	comparison->interrupted = interrupt_asked();
	return bench->has_none ? EXIT_FAILED : code;
}

/* A traced run of each side, to show the changes inside. It compares the processes that make most
 * steps, not shells or helpers that either side starts. */
struct traced {
	struct aggregate *aggregates[2];
	struct selection selections[2];
	struct analysis *analyses[2];
	struct diff *diff; /* NULL: there is none */
};

/* Selects the process that made most steps; with as many, most CPU time. A process before its exec
 * is another one than after it. 0 or -errno. */
static int select_main(struct selection *selection, const struct profile *profile)
{
	int err = selection_make(selection, profile, NULL);
	const struct profile_process *main = profile->processes;

	if (err || !profile->processes_count)
		return err ? err : -ENOENT;
	FOR_EACH (process, profile->processes)
		if (process->steps.count != main->steps.count
			    ? process->steps.count > main->steps.count
			    : process->cpu_ns > main->cpu_ns)
			main = process;
	selection_keep(selection, (size_t)(main - profile->processes));
	return 0;
}

static int trace_side(const struct bench *bench, const char *command, struct aggregate *aggregate)
{
	char *const argv[] = {"/bin/sh", "-c", (char *)command, NULL};
	struct trial_options trial = trial_options_of(bench, argv, NULL);
	struct trial_result result;
	int code;

	trial.rate = &bench->rate;
	trial.recording = recorder_options_of(bench->options, &bench->features);
	trial.recording.steps_max = 0;
	trial.recording.command = "";
	trial.aggregate = aggregate;
	trial_run(&trial, &result);
	code = result.code;
	trial_result_clear(&result);
	return code;
}

/* False: what went wrong was said. */
static bool trace_one(struct bench *bench, const char *command, struct traced *traced, int side)
{
	const struct profile *profile = NULL;

	msg_say("tracing %c, to explain the difference", "AB"[side]);
	traced->aggregates[side] = aggregate__new();
	if (traced->aggregates[side]) {
		if (trace_side(bench, command, traced->aggregates[side]))
			return false;
		profile = aggregate__finish(traced->aggregates[side]);
	}
	if (profile && !select_main(&traced->selections[side], profile))
		traced->analyses[side] =
			analyze(&traced->selections[side].profile, bench->options->rules);
	if (!traced->analyses[side])
		msg_say("tracing %c: nothing was recorded", "AB"[side]);
	return traced->analyses[side];
}

static int write_comparison(const struct comparison_writer *writer,
			    const struct comparison *comparison, const struct diff *diff,
			    const struct options *options)
{
	struct diff_options layout = {.name_a = comparison->command_a,
				      .name_b = comparison->command_b,
				      .top = (unsigned)options->top};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	output_terminal(output_path(options), &layout.width, &layout.color);
	return output_whole(output_path(options), out, &text, &size,
			    out ? writer->write(out, comparison, diff, &layout) : 0);
}

/* A gate that compared nothing must not pass. */
static int judge(const struct comparison *comparison, const struct options *options)
{
	if (!comparison->change.pairs_count)
		return EXIT_FAILED;
	if (!(options->fail_on > 0))
		return EXIT_OK;
	if (!comparison->change.known) {
		msg_say("--fail-on: one round cannot show a significant difference: --repeat 6");
		return EXIT_USAGE;
	}
	if (!comparison_regressed(comparison, options->fail_on))
		return EXIT_OK;
	msg_say("--fail-on: B is slower by more than %.4g %%", options->fail_on * 100);
	return EXIT_FINDINGS;
}

static int compare(struct bench *bench, struct comparison *comparison,
		   const struct comparison_writer *writer)
{
	const struct options *options = bench->options;
	struct traced traced = {0};
	int code = run_rounds(bench, comparison);

	if (code)
		return code;
	comparison_judge(comparison);
	if (!options->no_trace && comparison->change.pairs_count && !interrupt_asked() &&
	    trace_one(bench, comparison->command_a, &traced, 0) && !interrupt_asked() &&
	    trace_one(bench, comparison->command_b, &traced, 1)) {
		traced.diff = diff__new(
			&traced.selections[0].profile, &traced.selections[1].profile,
			bench->options->fail_on > 0 ? bench->options->fail_on : DIFF_THRESHOLD);
		if (!traced.diff ||
		    diff_findings(traced.diff, traced.analyses[0], traced.analyses[1])) {
			msg_say("out of memory");
			diff__free(traced.diff);
			traced.diff = NULL;
		}
	}
	code = write_comparison(writer, comparison, traced.diff, options);
	diff__free(traced.diff);
	for (int i = 0; i < 2; i++) {
		analysis__free(traced.analyses[i]);
		selection_clear(&traced.selections[i]);
		aggregate__free(traced.aggregates[i]);
	}
	return code ? code : judge(comparison, options);
}

int cmd_compare(const struct options *options)
{
	const struct comparison_writer *writer =
		output_format(&comparison_formats, "compare", options);
	struct bench bench = {0};
	struct comparison comparison = {.metric = metric_of(options),
					.command_a = options->commands[0],
					.command_b = options->commands[1],
					.rounds_count =
						options->repeat ? options->repeat : COMPARE_ROUNDS};
	int code = EXIT_USAGE;

	if (writer && !tune_runs_init(&comparison.a, comparison.rounds_count) &&
	    !tune_runs_init(&comparison.b, comparison.rounds_count))
		code = bench_begin(&bench, options);
	if (!code)
		code = compare(&bench, &comparison, writer);
	tune_runs_clear(&comparison.a);
	tune_runs_clear(&comparison.b);
	return code;
}
