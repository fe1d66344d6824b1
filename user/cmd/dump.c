// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace dump: what each thread does now, and what it waits for. */
#include "analyze/dump.h"
#include "base/file.h"
#include "base/message.h"
#include "cmd/cmd.h"
#include "replay/replay.h"
#include "report/dump.h"
#include "session/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

/* Samples of threads on a CPU, each second: a dump takes a twentieth of it. */
#define SAMPLE_HZ 250
/* Whatever holds it up, a dump ends by then. */
#define LONGEST_NS 5000000000u

int dump_write(const struct dump_writer *writer, struct aggregate *aggregate,
	       const struct options *options)
{
	struct report_options look = {.full = options->full, .full_cmdline = options->full_cmdline};
	const struct profile *profile = aggregate__finish(aggregate);
	struct dump *dump = profile ? dump__new(profile) : NULL;
	char *text = NULL;
	size_t size = 0;
	FILE *out = dump ? open_memstream(&text, &size) : NULL;
	int code;

	msg_status_clear();
	output_terminal(output_path(options), &look.width, &look.color);
	code = output_whole(output_path(options), out, &text, &size,
			    out ? writer->write(out, profile, dump, &look) : -ENOMEM);
	dump__free(dump);
	return code;
}

/* Without probes and without anything that a dump does not show. */
static struct recorder_options dump_options_of(const struct options *options)
{
	return (struct recorder_options){
		.all = options->all,
		.duration_ns = options->watch_ns + LONGEST_NS,
		.interval_ns = LONGEST_NS,
		.quiet = true,
		.dump = true,
		.dump_watch_ns = options->watch_ns,
		.plan = {.files_only = true},
		.link = options->link,
		.ring_bytes = options->ring_bytes,
		.sample_hz = SAMPLE_HZ,
		.stacks = PERFX_STACKS_UNWIND,
		.peaks = {.measure_nothing = true},
		.counters = COUNTERS_OFF,
		.follow_children = !options->no_children,
		.full_cmdline = options->full_cmdline,
	};
}

static int record(const struct options *options, const struct features *features,
		  struct pipeline *pipeline)
{
	struct recorder_options recording = dump_options_of(options);
	struct phases phases = {0};
	char *command = shell_join(options->argv);
	pid_t *pids = NULL;
	int code;

	recording.command = command ? command : "";
	recording.phases = &phases;
	phases_begin(&phases, "find");
	code = targets_find(options, &pids, &recording.pids_count);
	recording.pids = pids;
	pipeline_init(pipeline);
	code = code ?: recorder_run(&recording, features, pipeline, NULL);
	free(pids);
	free(command);
	return code;
}

/* --capture. */
static int open_capture(struct pipeline *pipeline, struct output *output, const char *path)
{
	int err = path ? output_open(output, path, OUTPUT_WHOLE) : 0;
	int fd = path && !err ? fcntl(output->fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (fd >= 0)
		pipeline->capture = capture_writer__new(fd);
	if (!path || pipeline->capture)
		return EXIT_OK;
	return output_result(path, err ? err : -errno);
}

static int close_capture(struct pipeline *pipeline, struct output *output, const char *path,
			 bool recorded)
{
	int err = pipeline->capture ? capture_writer__free(pipeline->capture) : 0;

	if (pipeline->err)
		err = pipeline->err;
	if (!recorded || err)
		output_discard(output);
	else if (path)
		err = output_close(output);
	return recorded ? output_result(path, err) : EXIT_OK;
}

int cmd_dump(const struct options *options)
{
	const struct dump_writer *writer = output_format(&dump_formats, "dump", options);
	struct output capture = {.fd = -1};
	struct pipeline pipeline = {0};
	struct features features = {0};
	int code, written;

	if (!writer)
		return EXIT_USAGE;
	code = features_check(&features, options);
	if (!code && !features.task_memory) {
		msg_say("dump needs Linux 5.18: this kernel's programs cannot read the memory of "
			"other tasks");
		code = EXIT_FAILED;
	}
	code = code ?: open_capture(&pipeline, &capture, options->keep);
	if (!code) {
		pipeline.aggregate = aggregate__new();
		code = pipeline.aggregate ? record(options, &features, &pipeline) : EXIT_FAILED;
		written = close_capture(&pipeline, &capture, options->keep, !code);
		code = code ?: written;
	}
	if (!code)
		code = dump_write(writer, pipeline.aggregate, options);
	aggregate__free(pipeline.aggregate);
	features_end(&features);
	return code;
}
