// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace report FILE: any report from a capture, without root and without the target. */
#include "base/message.h"
#include "base/units.h"
#include "capture/capture.h"
#include "cmd/cmd.h"
#include "cmd/output.h"
#include "cmd/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

const char *capture_open_error(int err)
{
	switch (err) {
	case ENOEXEC:
		return "not a capture of perfx-trace record";
	case EPROTO:
		return "a capture of another version of perfx-trace";
	case ENOMEM:
		return "out of memory";
	default:
		return strerror(err);
	}
}

void capture_say_damage(const char *path, const struct capture_damage *damage)
{
	char size[UNITS_MAX];

	format_bytes(size, damage->bytes);
	if (damage->bytes)
		msg_say("%s: %s in %" PRIu64 " %s damaged or cut off: what was there is missing",
			path, size, damage->places,
			damage->places == 1 ? "place is" : "places are");
	if (damage->strange_blocks)
		msg_say("%s: %" PRIu64 " blocks of a kind unknown to this version were left out",
			path, damage->strange_blocks);
}

int cmd_report(const struct options *options)
{
	struct report_target target = {.output.fd = -1};
	struct pipeline pipeline = {.aggregate = aggregate__new()};
	int code, err = pipeline.aggregate ? replay_capture(options, &pipeline, true) : -ENOMEM;

	if (err) {
		code = replay_say_error(options, err);
	} else {
		code = report_target_open(&target, options);
		if (!code)
			code = report_target_write(&target, pipeline.aggregate, options);
		report_target_close(&target);
	}
	aggregate__free(pipeline.aggregate);
	return code;
}
