// SPDX-License-Identifier: BSD-2-Clause
#include "session/trial.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/text.h"
#include "base/units.h"
#include "proc/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time that a program has to end by itself after each signal. */
#define PATIENCE_MS 5000
/* The same for what it has left behind. */
#define LEFTOVERS_MS 2000
#define POLL_MS	     20

void trials_begin(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* As a user would: asked twice, in two ways, then killed. */
static void end_program(struct launch *launch, const char *name)
{
	static const int signals[] = {SIGTERM, SIGINT};
	int status;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		kill(launch__pid(launch), signals[i]);
		if (launch__wait(launch, PATIENCE_MS, &status))
			return;
	}
	msg_say("%s still runs after SIGTERM and SIGINT: it is killed", name);
	kill(launch__pid(launch), SIGKILL);
	while (!launch__wait(launch, -1, &status))
		;
}

static size_t signal_leftovers(int signal)
{
	pid_t *pids = NULL;
	ssize_t count = process_descendants(getpid(), &pids);

	for (ssize_t i = 0; i < count; i++)
		kill(pids[i], signal);
	free(pids);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return count > 0 ? (size_t)count : 0;
}

/* Workers that the program has not ended itself, and the program where recording it failed: all
 * processes below this one, for there are no others. A signal of 0 only counts them. */
static void end_leftovers(void)
{
	const struct timespec interval = {.tv_nsec = POLL_MS * 1000000L};
	size_t left = signal_leftovers(SIGTERM);

	for (int ms = 0; left && ms < LEFTOVERS_MS; ms += POLL_MS) {
		nanosleep(&interval, NULL);
		left = signal_leftovers(0);
	}
	while (left) {
		left = signal_leftovers(SIGKILL);
		nanosleep(&interval, NULL);
	}
}

struct trial {
	const struct trial_options *options;
	struct trial_result *result;
	struct launch *launch;
	FILE *output;
	uint64_t lasted_ns; /* from the start of the program */
};

#define TAIL_BYTES 4096

/* The last line of its output that says something: "ValueError: …". */
static void add_last_line(struct text *why, FILE *output)
{
	char tail[TAIL_BYTES + 1];
	size_t length;

	if (fseek(output, -TAIL_BYTES, SEEK_END))
		rewind(output);
	length = fread(tail, 1, TAIL_BYTES, output);
	while (length && strchr(" \n\r\t", tail[length - 1]))
		length--;
	tail[length] = '\0';
	if (length)
		text_printf(why, ": %s", strrchr(tail, '\n') ? strrchr(tail, '\n') + 1 : tail);
}

static const char *const events_names[] = {
	[RATE_STEPS] = "training step",
	[RATE_CALLS] = "traced call",
	[RATE_COUNTER] = "sample of the counter",
};

static void add_too_few(struct text *why, const struct trial_options *options,
			const struct rate *rate)
{
	const char *what = events_names[options->rate->of];

	if (rate->lost)
		text_add(why, "events came faster than they can be recorded one by one");
	else if (!rate->began)
		text_printf(why, "no %s was seen%s", what,
			    options->rate->of == RATE_STEPS ? " (--step-range names what ends one)"
							    : "");
	else
		text_printf(why, "%" PRIu64 " %s%s after the warm-up: %d are needed",
			    rate->events_count, what, rate->events_count == 1 ? "" : "s",
			    RATE_EVENTS_MIN);
}

/* ended: by itself, with this status. */
static char *explain(const struct trial *trial, bool ended, int status)
{
	const struct trial_options *options = trial->options;
	struct text why = {0};

	if (ended && WIFSIGNALED(status))
		text_printf(&why, "killed by signal %d (%s)", WTERMSIG(status),
			    strsignal(WTERMSIG(status)));
	else if (ended && WEXITSTATUS(status))
		text_printf(&why, "exit status %d", WEXITSTATUS(status));
	if (why.length) {
		add_last_line(&why, trial->output);
		return text_take(&why);
	}
	if (ended)
		text_add(&why, "it has exited: ");
	else
		text_printf(&why, "within %s ",
			    as_ns(trial->lasted_ns < options->timeout_ns ? trial->lasted_ns
									 : options->timeout_ns));
	if (options->rate)
		add_too_few(&why, options, &trial->result->rate);
	else
		text_add(&why, "it did not exit");
	return text_take(&why);
}

/* A run that sees no event for this long tells the user what it waits for. */
#define SAY_NONE_NS 30000000000u

struct watcher {
	const struct trial *trial;
	struct rate_watch *watch;
	uint64_t begun_ns;
	bool said;
};

static bool is_enough(void *ctx)
{
	struct watcher *watcher = ctx;
	const struct trial_options *options = watcher->trial->options;

	if (!watcher->said && clock_monotonic_ns() - watcher->begun_ns >= SAY_NONE_NS) {
		watcher->said = true;
		if (!rate_watch__rate(watcher->watch).began)
			msg_say("no %s was seen in 30 s: the run goes on for %s in all (--timeout)",
				events_names[options->rate->of], as_ns(options->timeout_ns));
	}
	return rate_watch__enough(watcher->watch);
}

static void record(struct trial *trial)
{
	const struct trial_options *options = trial->options;
	struct recorder_options recording = options->recording;
	struct pipeline pipeline = {.aggregate = options->aggregate};
	struct rate_watch *watch = rate_watch__new(&pipeline, options->rate);
	struct watcher watcher = {trial, watch, clock_monotonic_ns(), false};
	struct phases phases = {0};
	int seen;

	recording.launch = trial->launch;
	recording.plan.nvtx_injected = launch__nvtx(trial->launch);
	recording.duration_ns = options->timeout_ns;
	recording.enough = is_enough;
	recording.enough_ctx = &watcher;
	recording.quiet = true;
	recording.phases = &phases;
	pipeline_init(&pipeline);
	trial->result->code = EXIT_FAILED;
	if (watch) {
		trial->result->code = recorder_run(&recording, options->features, &pipeline, &seen);
		trial->result->rate = rate_watch__rate(watch);
	}
	rate_watch__free(watch);
}

static void measure(struct trial *trial)
{
	const struct trial_options *options = trial->options;
	struct trial_result *result = trial->result;
	uint64_t from_ns = clock_monotonic_ns();
	bool ended = false, failed;
	int status;

	if (options->rate) {
		record(trial);
	} else {
		launch__go(trial->launch);
		while (!ended && !interrupt_asked() &&
		       clock_monotonic_ns() < from_ns + options->timeout_ns)
			ended = launch__wait(trial->launch, POLL_MS, &status);
		if (ended)
			result->exit_ns = clock_monotonic_ns() - from_ns;
	}
	trial->lasted_ns = clock_monotonic_ns() - from_ns;
	/* the target's end is a result like another */
	if (result->code == EXIT_TARGET)
		result->code = EXIT_OK;
	if (result->code)
		return;
	ended = launch__wait(trial->launch, 0, &status);
	if (!ended)
		end_program(trial->launch, options->argv[0]);
	failed = ended && status;
	result->known = !failed && (options->rate ? rate_is_known(&result->rate) : result->exit_ns);
	if (result->known || interrupt_asked())
		return;
	result->none = options->rate && !failed && !result->rate.began && !result->rate.lost;
	result->why = explain(trial, ended, status);
}

void trial_run(const struct trial_options *options, struct trial_result *result)
{
	struct trial trial = {.options = options, .result = result, .output = tmpfile()};
	struct launch_options launching = {.as_caller = options->as_caller,
					   .nvtx = options->rate != NULL,
					   .environment = options->environment};

	*result = (struct trial_result){.code = EXIT_FAILED};
	if (!trial.output) {
		msg_say("cannot keep the program's output: %s", strerror(errno));
		return;
	}
	launching.apart_fd = fileno(trial.output);
	trial.launch = launch__start(options->argv, &launching, &result->code);
	if (trial.launch)
		measure(&trial);
	else if (interrupt_asked())
		result->code = EXIT_OK; /* the runs before this one are reported */
	else if (result->code != EXIT_FAILED) {
		/* a message has said why: another trial may start another program */
		result->code = EXIT_OK;
		result->why = strdup("it cannot be started");
	}
	launch__free(trial.launch);
	end_leftovers();
	fclose(trial.output);
}

void trial_result_clear(struct trial_result *result)
{
	free(result->why);
	*result = (struct trial_result){0};
}
