// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace report FILE: any report from a capture, without root and without the target. */
#include "base/message.h"
#include "cmd/cmd.h"
#include "cmd/output.h"
#include "stream/capture.h"
#include "stream/sink.h"

#include <errno.h>
#include <string.h>

const char *capture_open_error(int err)
{
	switch (err) {
	case ENOEXEC:
		return "not a capture of perfx-trace record";
	case EPROTO:
		return "a capture of another version of perfx-trace";
	default:
		return strerror(err);
	}
}

int cmd_report(const struct options *options)
{
	struct capture_reader *reader = capture_reader__open(options->capture);
	struct report_target target = {.fd = -1};
	struct sink sink = {0};
	int code = EXIT_FAILED;

	if (!reader) {
		msg_say("%s: %s", options->capture, capture_open_error(errno));
		return EXIT_FAILED;
	}
	sink.aggregate = aggregate__new();
	if (sink.aggregate && !sink_replay(&sink, reader)) {
		code = report_target_open(&target, options);
		if (!code)
			code = report_target_write(&target, sink.aggregate, options);
		report_target_close(&target);
	} else {
		msg_say("out of memory");
	}
	aggregate__free(sink.aggregate);
	capture_reader__free(reader);
	return code;
}
