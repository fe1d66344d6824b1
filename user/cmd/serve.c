// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace serve -p …: a recording by HTTP. */
#include "serve/serve.h"

#include "base/clock.h"
#include "base/message.h"
#include "cmd/cmd.h"
#include "cmd/live_session.h"

#define DEFAULT_ADDRESS "127.0.0.1:9477"

struct serving {
	struct live *live;
	struct serve *serve;
	bool failed; /* and it was said */
};

static void on_tick(void *ctx, uint64_t now_ns)
{
	struct serving *serving = ctx;
	int err = 0;

	if (live__tick(serving->live, now_ns))
		err = serve__publish(serving->serve, live__snapshot(serving->live));
	if (err && !serving->failed)
		msg_say("out of memory: metrics are not up to date");
	serving->failed = err != 0;
	serve__tick(serving->serve, now_ns);
}

static uint64_t known_from_ns(void *ctx)
{
	const struct serving *serving = ctx;

	return live__known_from_ns(serving->live);
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

int cmd_serve(const struct options *options, char *const *argv)
{
	const struct live_options live_options = {.judges = true, .rules = options->rules};
	struct serving serving = {.live = live__new(&live_options)};
	const struct recorder_watcher watcher = {
		.ctx = &serving,
		.fd = -1,
		.on_tick = on_tick,
		.known_from_ns = known_from_ns,
		.wants_capture = wants_capture,
		.captured = captured,
	};
	int code = EXIT_FAILED;

	if (serving.live)
		serving.serve = open_serve(options, &code);
	else
		msg_say("out of memory");
	if (serving.serve)
		code = live_session_run(options, argv, serving.live, &watcher, NULL);
	if (serving.serve)
		serve__finish(serving.serve, live__finish(serving.live, clock_monotonic_ns()));
	serve__free(serving.serve);
	live__free(serving.live);
	return code;
}
