// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls that nest deeper than return probes may: the programs decline the return probe, count the
 * call, and tell which probe it was. From then on that function is timed at its exits, where these
 * are known.
 *
 * A link serves many functions, so that of the entry stays: a session link makes no return probe
 * where the entry's kind says that exits end the call. Exits come first, for an entry must never be
 * open before its exits are. Calls that have a return probe by then end by it.
 */
#include "attach/probes_internal.h"
#include "base/message.h"

#include <errno.h>
#include <stdlib.h>

/* Attaches the exits of one function for those that have its file. */
static int attach_exits_for(struct probes *probes, size_t index,
			    const struct attached_process *for_process)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct attach_target target = {.file_fd = probes->plan->modules[function->module].fd,
				       .pid = for_process->pid,
				       .born = for_process->born};
	struct attach_point *points = calloc(function->site.exits_count + 1, sizeof(*points));
	size_t count;
	int err = 0;

	if (!points)
		return -ENOMEM;
	count = probes_exit_points(probes, index, points);
	if (count)
		probes_attach_points(probes, &target, points, count);
	for (size_t i = 0; i < count; i++)
		if (points[i].err && points[i].err != -ESRCH) /* it is gone: no call is missed */
			err = points[i].err;
	free(points);
	return err;
}

static int attach_exits(struct probes *probes, size_t index)
{
	static const struct attached_process all_processes = {0, 0};
	const struct attachment *attachment =
		&probes->attachments[probes->plan->functions[index].module];
	int err = probes_place_exits(probes, index, PERFX_PROBE_F_TAKES_OVER);

	if (!err && attachment->all_processes)
		err = attach_exits_for(probes, index, &all_processes);
	for (size_t i = 0; !err && i < attachment->processes_count; i++)
		err = attach_exits_for(probes, index, &attachment->processes[i]);
	probes__open(probes);
	return err;
}

static void time_at_exits(struct probes *probes, size_t index)
{
	struct placed *placed = &probes->placed[index];

	if (!placed->attached || !plan__prefer_exits(probes->plan, index))
		return;
	if (attach_exits(probes, index)) {
		probes_drop_exits(probes, index);
		placed->exits_count = 0;
		plan__doubt_exits(probes->plan, index, "one of its exits cannot be probed");
		return;
	}
	placed->nests = true;
	probes_place(probes, index);
	probes_describe(probes, index);
	msg_say("%s: its calls nest too deep for return probes: timed at its exits from now on",
		probes->plan->functions[index].name);
}

/* The function whose entry this is; functions_count: none. */
static size_t function_of_entry(const struct probes *probes, uint32_t entry)
{
	size_t count = probes->plan->functions_count, i = 0;

	while (i < count && i < probes->placed_capacity && probes->placed[i].entry != entry)
		i++;
	return i < probes->placed_capacity ? i : count;
}

void probes__heed_nesting(struct probes *probes)
{
	uint32_t declined[PERFX_DECLINED_PLACES];
	size_t count = tracer__take_declined(probes->tracer, declined);

	for (size_t i = 0; i < count; i++) {
		size_t index = function_of_entry(probes, declined[i]);

		if (index < probes->plan->functions_count)
			time_at_exits(probes, index);
	}
}
