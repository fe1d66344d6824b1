// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace serve -p …: a recording by HTTP. */
#include "serve/serve.h"

#include "base/clock.h"
#include "base/message.h"
#include "cmd/cmd.h"

#define DEFAULT_ADDRESS "127.0.0.1:9477"

struct serving {
	struct live_feed *feed;
	struct serve *serve;
	bool failed; /* a message was printed; used by the feed's thread only */
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

static void captured(void *ctx, const char *path, int err)
{
	const struct serving *serving = ctx;

	serve__captured(serving->serve, path, err);
}

static struct serve *open_serve(const struct options *options, int *code)
{
	struct serve_options serving = {
		.address = options->listen,
		.token_file = options->token_file,
		.tls_cert = options->tls_cert,
		.tls_key = options->tls_key,
		.flight_ns = live_session_flight_ns(options),
		.rules = options->rules,
	};

	if (!serving.address.size)
		listen_parse(DEFAULT_ADDRESS, &serving.address);
	return serve__new(&serving, code);
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
		.captured = captured,
	};
	int code = EXIT_FAILED;

	if (serving.feed)
		serving.serve = open_serve(options, &code);
	else
		msg_say("out of memory");
	if (serving.serve && live_feed__start(serving.feed, publish, &serving)) {
		msg_say("no thread can be started for the metrics: too many threads");
	} else if (serving.serve) {
		code = live_session_run(options, serving.feed, &watcher, NULL);
		live_feed__stop(serving.feed);
		serve__finish(serving.serve, live__finish(live, clock_monotonic_ns()));
	}
	live_feed__free(serving.feed);
	serve__free(serving.serve);
	live__free(live);
	return code;
}
