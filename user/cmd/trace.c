// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace -p …, record, run: a recording, and its report or its capture. */
#include "base/message.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "gpu/agents.h"
#include "replay/replay.h"
#include "session/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DURATION_NS 10000000000u

/* Memory limit of a flight recorder. */
#define FLIGHT_BYTES (256ull << 20)

static uint64_t flight_bytes(const struct options *options)
{
	return options->capture_max ? options->capture_max : FLIGHT_BYTES;
}

/* Share of a capture's size reserved for its end: totals, names of stack frames. */
#define CLOSING_SHARE 8
#define CLOSING_MAX   (4u << 20)

struct outputs {
	const char *capture_path; /* NULL: not kept */
	bool report;		  /* wanted now */
	bool capture_is_named;	  /* a message has named it */
	struct aggregate *aggregate;
	struct capture_writer *capture;
	struct output output; /* the capture's, but for a flight recorder's */
	struct report_target target;
};

static int open_capture(struct outputs *outputs)
{
	int err = output_open(&outputs->output, outputs->capture_path, OUTPUT_GROWING);
	int fd = err ? -1 : fcntl(outputs->output.fd, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		outputs->capture = capture_writer__new(fd);
	if (outputs->capture)
		return EXIT_OK;
	err = err ? err : -errno;
	output_discard(&outputs->output);
	msg_say("%s: %s", outputs->capture_path, output_error(err));
	return EXIT_FAILED;
}

/* In memory; that a file can be written is tried before anything is traced. */
static int open_flight(struct outputs *outputs, const struct options *options)
{
	int err = output_open(&outputs->output, outputs->capture_path, OUTPUT_FILE);
	struct block_store *store = NULL;

	output_discard(&outputs->output);
	if (!err)
		store = flight_buffer__new(options->flight_ns, flight_bytes(options));
	if (store)
		outputs->capture = capture_writer__new_store(store);
	if (outputs->capture) {
		interrupt_install_dumps();
		return EXIT_OK;
	}
	msg_say("%s: %s", outputs->capture_path, output_error(err ? err : errno));
	return EXIT_FAILED;
}

static int open_outputs(struct outputs *outputs, const struct options *options)
{
	int code = EXIT_OK;

	outputs->target.output.fd = -1;
	outputs->output.fd = -1;
	outputs->capture_path = options_capture(options);
	outputs->report = !outputs->capture_path || outputs->capture_path == options->keep;
	if (outputs->report) {
		outputs->aggregate = aggregate__new();
		if (!outputs->aggregate) {
			msg_say("out of memory");
			return EXIT_FAILED;
		}
		code = report_target_open(&outputs->target, options);
	}
	if (code || !outputs->capture_path)
		return code;
	return options->flight_ns ? open_flight(outputs, options) : open_capture(outputs);
}

/* The command that reports from the capture, quoted for a shell; malloc'd. */
static char *report_command(const char *capture)
{
	return shell_join((char *const[]){"perfx-trace", "report", (char *)capture, NULL});
}

/* Closes the capture and names it in a message. 0 or -errno. */
static int close_and_name_capture(struct outputs *outputs)
{
	char *report = report_command(outputs->capture_path);
	bool is_file = outputs->output.part || outputs->output.made;
	int err = output_close(&outputs->output);

	if (!err && is_file && report && !outputs->capture_is_named)
		msg_say("%s: written: %s", outputs->capture_path, report);
	free(report);
	if (!err)
		interrupt_says("ended at once: %s has the recording, no report is written",
			       outputs->capture_path);
	return err;
}

/* A failed recording leaves no file; after an error of writing, the part before it stays. */
static int close_capture(struct outputs *outputs, int err, bool recorded)
{
	struct output *output = &outputs->output;
	int written = capture_writer__free(outputs->capture);

	err = err ? err : written;
	if (!recorded)
		output_discard(output);
	else if (!err && output->fd >= 0)
		err = close_and_name_capture(outputs);
	if (!err)
		return EXIT_OK;
	msg_say("%s: %s%s", output->fd < 0 ? outputs->capture_path : output_name(output),
		output_error(err),
		output->fd < 0 ? "" : "; the part written so far can be reported");
	output_leave(output);
	return EXIT_FAILED;
}

static int close_outputs(struct outputs *outputs, const struct options *options, int sink_err,
			 bool recorded)
{
	int code = EXIT_OK;

	if (outputs->capture) {
		code = close_capture(outputs, sink_err, recorded);
	} else if (sink_err) {
		msg_say("recording: %s", output_error(sink_err));
		code = EXIT_FAILED;
	}
	if (outputs->report && recorded) {
		int written = report_target_write(&outputs->target, outputs->aggregate, options);

		code = code ? code : written;
	}
	report_target_close(&outputs->target);
	aggregate__free(outputs->aggregate);
	return code;
}

/* As a shell reports how a program ended. */
static int shell_status(int status)
{
	return status & 0x7f ? 128 + (status & 0x7f) : (status >> 8) & 0xff;
}

/* Time that a program has to exit after Ctrl-C before a message says that it is still running. */
#define PATIENCE_MS 1000

/* run: the program's own status. The recording may have ended before the program, by -d or by
 * Ctrl-C, which the terminal sends to both: it has the terminal until it ends. A second Ctrl-C ends
 * this program at once; SIGTERM, which came to it alone, is passed on. */
static int status_of_child(struct launch *launch, const char *program, int seen)
{
	bool said = false, passed_on = false;
	int status;

	interrupt_says("ended at once: %s is left running", program);

	if (seen >= 0)
		return shell_status(seen);
	while (!launch__wait(launch, interrupt_asked() || said ? PATIENCE_MS : 0, &status)) {
		if (!said)
			msg_say("%s is still running, waiting for its exit: Ctrl-C goes to it, %s "
				"leaves it running",
				program, interrupt_asked() ? "another" : "a second one");
		said = true;
		if (interrupt_asked() == SIGTERM && !passed_on)
			passed_on = !kill(launch__pid(launch), SIGTERM);
	}
	return shell_status(status);
}

struct recorder_options recorder_options_of(const struct options *options,
					    const struct features *features)
{
	bool ends_itself = options->verb == VERB_RUN || options->steps_max || options->wait ||
			   options->flight_ns;

	return (struct recorder_options){
		.all = options->all,
		.at_unix_ns = options->at_unix_ns,
		.duration_ns = options->duration_ns ? options->duration_ns
			       : ends_itself	    ? UINT64_MAX
						    : DEFAULT_DURATION_NS,
		.interval_ns = options->interval_ns,
		.observe_ns = options->observe_ns,
		.max_overhead_percent = options->max_overhead_percent,
		.steps_max = options->steps_max,
		.wait = options->wait,
		.plan = plan_options_of(options, features),
		.link = options->link,
		.ring_bytes = options->ring_bytes,
		.rings_count = options->rings_count,
		.sample_bytes = options->sample_bytes,
		.sample_hz = options->sample_hz,
		.stacks = options->stacks,
		.off_cpu = options->off_cpu,
		.timeline = options->timeline,
		.gpu_level = options->gpu >= GPU_AGENT ? options->gpu - GPU_CALLS : 0,
		.gpu_graph_nodes = options->gpu_graph_nodes,
		.gpu_events_max = options->gpu_events_max,
		.gpu_devices = options->gpu_devices,
		.follow_children = !options->no_children,
		.compensate = options->compensate,
		.calibrate = !options->no_calibrate || options->compensate,
		.full_cmdline = options->full_cmdline,
		.counters = options->counters,
		.counters_names = options->counters_names,
		.peaks = options->peaks,
		.flight_ns = options->flight_ns,
		.flight_bytes = flight_bytes(options),
		.trigger = options->trigger,
		.dumps = options->trigger.stall_ns > 0,
	};
}

static int record(const struct options *options, const struct features *features,
		  struct outputs *outputs, struct phases *phases)
{
	struct pipeline pipeline = {.aggregate = outputs->aggregate, .capture = outputs->capture};
	struct recorder_options recording = recorder_options_of(options, features);
	char gpu_socket[AGENTS_NAME_BYTES];
	const struct launch_options launching = {
		.as_caller = !options->as_root,
		.nvtx = options->host_level != HOST_OFF,
		.python_functions = options->python_functions,
		.gpu_socket = options->gpu >= GPU_AGENT ? gpu_socket : NULL,
	};
	char *command = shell_join(options->argv);
	pid_t *pids = NULL;
	int code = EXIT_OK, child = -1, written;
	bool recorded;

	if (!options->flight_ns) /* where it limits memory, it does not end the recording */
		pipeline.capture_max = options->capture_max -
				       min_u64(options->capture_max / CLOSING_SHARE, CLOSING_MAX);
	recording.command = command ? command : "";
	recording.flight_path = outputs->capture_path;
	recording.phases = phases;
	recording.gpu_socket = launching.gpu_socket;
	agents_socket_name(gpu_socket);
	phases_begin(phases, "find");
	if (options->command)
		recording.launch = launch__start(options->command, &launching, &code);
	else
		code = targets_find(options, &pids, &recording.pids_count);
	if (!code)
		code = targets_check_process(options, pids, recording.pids_count);
	recording.pids = pids;
	recording.plan.nvtx_injected = recording.launch && launch__nvtx(recording.launch);
	recording.plan.python_functions = recording.launch && options->python_functions;
	if (options->command && !recording.launch) {
		free(command);
		close_outputs(outputs, options, 0, false);
		return code;
	}
	pipeline_init(&pipeline);
	if (!code)
		code = recorder_run(&recording, features, &pipeline, &child);
	outputs->capture_is_named = pipeline.full;
	if (pipeline.full)
		msg_say("%s: --max-size is reached: the recording ends", outputs->capture_path);
	recorded = code == EXIT_OK || code == EXIT_TARGET;
	written = close_outputs(outputs, options, pipeline.err, recorded);
	code = code ? code : written;
	if (recorded && recording.launch) {
		int status = status_of_child(recording.launch, options->command[0], child);

		/* the failure of the program says more than findings */
		if (!code || (code == EXIT_FINDINGS && status))
			code = status;
	}
	launch__free(recording.launch);
	free(pids);
	free(command);
	return code;
}

int cmd_trace(const struct options *options)
{
	struct outputs outputs = {0};
	struct phases phases = {0};
	struct features features;
	char *report = NULL;
	int code;

	phases_begin(&phases, "features");
	code = features_check(&features, options);
	if (code)
		goto out;
	code = open_outputs(&outputs, options);
	if (outputs.capture)
		report = report_command(output_name(&outputs.output));
	/* for a second Ctrl-C, which ends the program and leaves the files as they are */
	if (options->flight_ns)
		interrupt_says("ended at once: the flight recorder's memory is dropped; files that "
			       "it has written stay");
	else if (report)
		interrupt_says("ended at once: %s has the recording but for its last half second, "
			       "and no totals: %s",
			       output_name(&outputs.output), report);
	else
		interrupt_says("ended at once: the recording is dropped, no report is written");
	free(report);
	if (code)
		close_outputs(&outputs, options, 0, false);
	else
		code = record(options, &features, &outputs, &phases);
out:
	features_end(&features);
	return code;
}
