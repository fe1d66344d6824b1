// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace top: a recording to be watched. */
#include "top/top.h"

#include "base/message.h"
#include "cmd/cmd.h"
#include "cmd/live_session.h"
#include "top/screen.h"

static int watch(const struct options *options, char *const *argv, struct live *live)
{
	const struct top_options look = {.screen = screen_is_possible(),
					 .frames_max = options->frames_max,
					 .rows_max = (unsigned)options->top,
					 .flight_ns = live_session_flight_ns(options),
					 .rules_file = options->rules_file};
	struct top *top = top__new(&look, live);
	struct recorder_watcher watcher;
	int code;

	if (!top) {
		msg_say("out of memory");
		return EXIT_FAILED;
	}
	watcher = top__watcher(top);
	code = live_session_run(options, argv, live, &watcher, top__enough);
	if (!code && top__failed(top))
		code = EXIT_FAILED;
	top__free(top);
	return code;
}

int cmd_top(const struct options *options, char *const *argv)
{
	struct live *live =
		live__new(&(struct live_options){.judges = true, .rules = options->rules});
	int code;

	if (!live) {
		msg_say("out of memory");
		return EXIT_FAILED;
	}
	code = watch(options, argv, live);
	live__free(live);
	return code;
}
