// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace merge FILE FILE … -o JOB.perfx: captures of a job's processes become one. */
#include "merge/merge.h"

#include "base/file.h"
#include "base/message.h"
#include "base/units.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

static void say_losses(const struct merge_part *part)
{
	if (part->damaged_bytes || !part->ended)
		msg_say("%s: damaged or cut off: its missing records are missing in the merged "
			"capture",
			part->path);
	if (part->left_out_count)
		msg_say("%s: %" PRIu64 " records of GPUs left out: a capture has %d at most",
			part->path, part->left_out_count, PERFX_GPU_DEVICES_MAX);
	if (part->counters_left_out)
		msg_say("%s: its perf counters are others than the first capture's, and left out",
			part->path);
}

/* "clock -3.000012 s, error 45.0 µs, drift 0.00 ppm, by 412 ends of MPI_Allreduce" */
static void say_clock(const struct merge_part *part)
{
	const struct alignment *alignment = &part->alignment;

	switch (alignment->by) {
	case PERFX_ALIGNMENT_REFERENCE:
		msg_say("%s (%s): its clock is the job's", part->path, part->host_name);
		return;
	case PERFX_ALIGNMENT_SAME_BOOT:
		msg_say("%s (%s): the same machine, the same clock", part->path, part->host_name);
		return;
	case PERFX_ALIGNMENT_WALL_CLOCK:
		msg_say("%s (%s): no collective in common with the others: aligned by the "
			"machines' time of day, whose error is not known",
			part->path, part->host_name);
		return;
	case PERFX_ALIGNMENT_COLLECTIVES:
	case PERFX_ALIGNMENT_BACKWARD:
	case PERFX_ALIGNMENT_INVALID:
		break;
	}
	msg_say("%s (%s): clock %+.6f s, error %s, drift %.2f ppm, by %" PRIu64 " ends of %s",
		part->path, part->host_name, (double)alignment->offset_ns / 1e9,
		as_ns(alignment->error_ns), alignment->drift * 1e6, alignment->pairs_count,
		alignment->name);
}

static int write_to(struct merger *merge, const struct output *output)
{
	int fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 0);
	struct capture_writer *writer = fd < 0 ? NULL : capture_writer__new(fd);
	int err = writer ? merger__write(merge, writer) : -errno;
	int written = capture_writer__free(writer);

	return err ? err : written;
}

static int merge_captures(struct merger *merge, const struct options *options)
{
	struct output output;
	int code, err;
	char *why;

	for (size_t i = 0; i < options->captures_count; i++) {
		err = merger__add(merge, options->captures[i]);
		if (!err)
			continue;
		replay_say_unreadable(options->captures[i], err, CAPTURE_NEEDED);
		return EXIT_FAILED;
	}
	why = merger__check(merge);
	if (why) {
		msg_say("%s", why);
		free(why);
		return EXIT_USAGE;
	}
	err = output_open(&output, options->output, OUTPUT_WHOLE);
	if (!err)
		err = write_to(merge, &output);
	if (!err)
		err = output_close(&output);
	else
		output_discard(&output);
	code = output_result(options->output, err);
	for (size_t i = 0; !code && i < merger__count(merge); i++) {
		struct merge_part part = merger__part(merge, i);

		say_clock(&part);
		say_losses(&part);
	}
	return code;
}

int cmd_merge(const struct options *options)
{
	struct merger *merge = merger__new();
	int code;

	if (!merge)
		return output_result(options->output, -ENOMEM);
	code = merge_captures(merge, options);
	merger__free(merge);
	return code;
}
