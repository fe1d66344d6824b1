// SPDX-License-Identifier: BSD-2-Clause
/* A recording that is watched while it goes on, as top and serve need it. */
#include "base/message.h"
#include "cmd/cmd.h"
#include "replay/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLIGHT_NS 30000000000u /* without --flight */

uint64_t live_session_flight_ns(const struct options *options)
{
	return options->flight_ns ? options->flight_ns : FLIGHT_NS;
}

/* A pipeline that also copies its records to the feed. */
struct fed_pipeline {
	struct pipeline pipeline;
	void (*record)(struct sink *sink, const void *record, size_t size); /* the pipeline's own */
	struct live_feed *feed;
};

static void add_record(struct sink *sink, const void *record, size_t size)
{
	struct fed_pipeline *fed = (struct fed_pipeline *)sink; /* the pipeline's first member */
	int err = live_feed__record(fed->feed, record, size);

	if (err && !fed->pipeline.err)
		fed->pipeline.err = err;
	fed->record(sink, record, size);
}

static int record(const struct recorder_options *recording, const struct features *features,
		  struct live_feed *feed)
{
	struct block_store *store =
		flight_buffer__new(recording->flight_ns, recording->flight_bytes);
	struct fed_pipeline fed = {
		.feed = feed, .pipeline.capture = store ? capture_writer__new_store(store) : NULL};
	int code, child;

	if (!fed.pipeline.capture) {
		msg_say("cannot keep the last seconds in memory: %s", strerror(errno));
		return EXIT_FAILED;
	}
	pipeline_init(&fed.pipeline);
	fed.record = fed.pipeline.sink.record;
	fed.pipeline.sink.record = add_record;
	code = recorder_run(recording, features, &fed.pipeline, &child);
	live_feed__stop(feed);
	if (fed.pipeline.err) {
		msg_say("recording: %s", output_error(fed.pipeline.err));
		code = EXIT_FAILED;
	}
	capture_writer__free(fed.pipeline.capture);
	return code;
}

int live_session_run(const struct options *options, struct live_feed *feed,
		     const struct recorder_watcher *watcher, bool (*enough)(void *ctx))
{
	struct phases phases = {0};
	struct recorder_options recording;
	struct features features;
	char *command = shell_join(options->argv);
	pid_t *pids = NULL;
	int code;

	phases_begin(&phases, "features");
	code = features_check(&features, options->no_cache);
	if (!code) {
		recording = recorder_options_of(options, &features);
		recording.duration_ns = options->duration_ns ? options->duration_ns : UINT64_MAX;
		recording.flight_ns = live_session_flight_ns(options);
		recording.observe_ns = 0; /* nobody wants to wait for it, at the end least of all */
		recording.command = command ? command : "";
		recording.phases = &phases;
		recording.watcher = watcher;
		recording.enough = enough;
		recording.enough_ctx = watcher->ctx;
		phases_begin(&phases, "find");
		code = targets_find(options, &pids, &recording.pids_count);
		recording.pids = pids;
		if (!code)
			code = record(&recording, &features, feed);
	}
	features_end(&features);
	free(pids);
	free(command);
	return code;
}
