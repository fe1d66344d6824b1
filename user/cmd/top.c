// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace top: a recording to be watched. */
#include "top/top.h"

#include "base/message.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <string.h>

static int watch(const struct options *options, struct live_feed *feed)
{
	const struct top_options look = {.screen = screen_is_possible(),
					 .frames_max = options->frames_max,
					 .rows_max = (unsigned)options->top,
					 .flight_ns = live_session_flight_ns(options),
					 .rules_file = options->rules_file};
	struct top *top = top__new(&look, feed);
	struct recorder_watcher watcher;
	int code;

	if (!top) {
		msg_say("cannot begin: %s", strerror(errno));
		return EXIT_FAILED;
	}
	watcher = top__watcher(top);
	code = live_session_run(options, feed, &watcher, top__enough);
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
