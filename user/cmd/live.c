// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace top, serve: a recording that is watched while it goes on, on a screen or by HTTP. */
#include "base/clock.h"
#include "base/message.h"
#include "cmd/cmd.h"
#include "push/push.h"
#include "replay/replay.h"
#include "serve/serve.h"
#include "top/top.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLIGHT_NS 30000000000u /* without --flight */

#define PUSH_NS 30000000000u /* without --push-every */
/* Requests of a recording that has ended have this long. */
#define PUSH_END_NS 5000000000u

static uint64_t push_every_ns_of(const struct options *options)
{
	return options->push_every_ns ? options->push_every_ns : PUSH_NS;
}

static uint64_t flight_ns_of(const struct options *options)
{
	uint64_t least_ns = options->push ? push_every_ns_of(options) : 0;

	if (options->flight_ns)
		return options->flight_ns;
	return least_ns > FLIGHT_NS ? least_ns : FLIGHT_NS;
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

/* Records with the last --flight in memory, until -d is over, Ctrl-C, all processes of -p have
 * ended, or enough() is true (NULL: not called; ctx is the watcher's). All records go to the feed,
 * which the caller has started and which is stopped at the end. Returns an exit code; a message has
 * explained any other than EXIT_OK and EXIT_TARGET. */
static int record_live(const struct options *options, struct live_feed *feed,
		       const struct recorder_watcher *watcher, bool (*enough)(void *ctx))
{
	struct phases phases = {0};
	struct recorder_options recording;
	struct features features;
	char *command = shell_join(options->argv);
	pid_t *pids = NULL;
	int code;

	phases_begin(&phases, "features");
	code = features_check(&features, options);
	if (!code) {
		recording = recorder_options_of(options, &features);
		recording.duration_ns = options->duration_ns ? options->duration_ns : UINT64_MAX;
		recording.flight_ns = flight_ns_of(options);
		recording.observe_ns = 0; /* nobody wants to wait for it, at the end least of all */
		recording.command = command ? command : "";
		recording.phases = &phases;
		recording.watcher = watcher;
		recording.dumps = watcher->wants_dump;
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

static int watch(const struct options *options, struct live_feed *feed)
{
	const struct top_options look = {.screen = screen_is_possible(),
					 .frames_max = options->frames_max,
					 .rows_max = (unsigned)options->top,
					 .flight_ns = flight_ns_of(options),
					 .rules_file = options->rules_file};
	struct top *top = top__new(&look, feed);
	struct recorder_watcher watcher;
	int code;

	if (!top) {
		msg_say("cannot begin: %s", strerror(errno));
		return EXIT_FAILED;
	}
	watcher = top__watcher(top);
	code = record_live(options, feed, &watcher, top__enough);
	live_feed__stop(feed);
	if (!code && top__failed(top))
		code = EXIT_FAILED;
	top__free(top);
	return code;
}

int cmd_top(const struct options *options)
{
	struct live *live =
		live__new(&(struct live_options){.judges = true, .rules = options->rules});
	struct live_feed *feed = live ? live_feed__new(live) : NULL;
	int code = EXIT_FAILED;

	if (feed)
		code = watch(options, feed);
	else
		msg_say("out of memory");
	live_feed__free(feed);
	live__free(live);
	return code;
}

#define DEFAULT_ADDRESS "127.0.0.1:9477"

struct serving {
	struct live_feed *feed;
	struct serve *serve;
	struct push *push; /* NULL: none */
	bool failed;	   /* a message was printed; used by the feed's thread only */
};

/* Called by the feed's thread. */
static void publish(void *ctx, const struct live_snapshot *snapshot)
{
	struct serving *serving = ctx;
	int err = serve__publish(serving->serve, snapshot);

	if (err && !serving->failed)
		msg_say("out of memory: metrics are not up to date");
	serving->failed = err != 0;
}

static void on_tick(void *ctx, uint64_t now_ns)
{
	struct serving *serving = ctx;

	live_feed__tick(serving->feed, now_ns);
	serve__tick(serving->serve, now_ns);
}

static uint64_t known_from_ns(void *ctx)
{
	const struct serving *serving = ctx;

	return live_feed__known_from_ns(serving->feed);
}

static char *wants_capture(void *ctx)
{
	const struct serving *serving = ctx;

	return serve__wants_capture(serving->serve);
}

static bool wants_dump(void *ctx)
{
	const struct serving *serving = ctx;

	return serve__wants_dump(serving->serve);
}

static void captured(void *ctx, const char *path, int err)
{
	const struct serving *serving = ctx;

	serve__captured(serving->serve, path, err);
}

static struct serve *open_serve(const struct options *options, struct push *push, int *code)
{
	struct serve_options serving = {
		.address = options->listen,
		.token_file = options->token_file,
		.tls_cert = options->tls_cert,
		.tls_key = options->tls_key,
		.push = push,
		.push_every_ns = push_every_ns_of(options),
		.flight_ns = flight_ns_of(options),
		.rules = options->rules,
	};

	if (!serving.address.size)
		listen_parse(DEFAULT_ADDRESS, &serving.address);
	return serve__new(&serving, code);
}

static struct push *open_push(const struct options *options, int *code)
{
	const struct push_options pushing = {
		.url = options->push, .spool = options->spool, .spool_bytes = options->spool_bytes};

	if (flight_ns_of(options) >= push_every_ns_of(options))
		return push__new(&pushing, code);
	msg_say("--push-every: longer than what is kept (--flight)");
	*code = EXIT_USAGE;
	return NULL;
}

static void close_push(struct push *push)
{
	if (!push)
		return;
	push__drain(push, PUSH_END_NS);
	push__say(push);
	push__free(push);
}

int cmd_serve(const struct options *options)
{
	const struct live_options live_options = {.judges = true, .rules = options->rules};
	struct live *live = live__new(&live_options);
	struct serving serving = {.feed = live ? live_feed__new(live) : NULL};
	const struct recorder_watcher watcher = {
		.ctx = &serving,
		.fd = -1,
		.on_tick = on_tick,
		.known_from_ns = known_from_ns,
		.wants_capture = wants_capture,
		.wants_dump = wants_dump,
		.captured = captured,
	};
	int code = EXIT_FAILED;

	if (!serving.feed)
		msg_say("out of memory");
	else if (options->push)
		serving.push = open_push(options, &code);
	if (serving.feed && (serving.push || !options->push))
		serving.serve = open_serve(options, serving.push, &code);
	if (serving.serve && live_feed__start(serving.feed, publish, &serving)) {
		msg_say("no thread can be started for the metrics: too many threads");
	} else if (serving.serve) {
		code = record_live(options, serving.feed, &watcher, NULL);
		live_feed__stop(serving.feed);
		serve__finish(serving.serve, live__finish(live, clock_monotonic_ns()));
	}
	live_feed__free(serving.feed);
	serve__free(serving.serve);
	close_push(serving.push);
	live__free(live);
	return code;
}
