// SPDX-License-Identifier: BSD-2-Clause
#include "attach/run_times.h"

#include "attach/tracer_internal.h"
#include "perfx.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

static const struct bpf_program *program_of(const struct tracer *tracer, enum tracer_program which)
{
	const struct perfx_bpf *skel = tracer->skel;

	switch (which) {
	case PROGRAM_HIT:
		return skel->progs.perfx_on_hit;
	case PROGRAM_RETURN:
		return skel->progs.perfx_on_return;
	case PROGRAM_SESSION:
		return skel->progs.perfx_on_session;
	case PROGRAM_ANNOTATION:
		return skel->progs.perfx_on_mark;
	case PROGRAM_MEMORY_HIT:
		return skel->progs.perfx_on_memory_hit;
	case PROGRAM_MEMORY_RETURN:
		return skel->progs.perfx_on_memory_return;
	case PROGRAM_MEMORY_SESSION:
		return skel->progs.perfx_on_memory_session;
	}
	return NULL;
}

/* All runs that were ever accounted for; none of a program that is not loaded. */
static struct accounted_runs runs_of(const struct tracer *tracer, enum tracer_program which)
{
	int fd = bpf_program__fd(program_of(tracer, which));
	struct bpf_prog_info info = {0};
	uint32_t size = sizeof(info);

	if (fd < 0 || bpf_prog_get_info_by_fd(fd, &info, &size))
		return (struct accounted_runs){0};
	return (struct accounted_runs){.count = info.run_cnt, .ns = info.run_time_ns};
}

void tracer__account_runs(struct tracer *tracer, bool on)
{
	if (on == (tracer->account_fd > 0))
		return;
	if (on) {
		/* < 0: not known then, and what was calibrated stands */
		tracer->account_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		return;
	}
	close(tracer->account_fd);
	tracer->account_fd = 0;
}

void tracer__run_times(const struct tracer *tracer, struct run_times *times)
{
	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++) {
		struct accounted_runs runs = runs_of(tracer, i);
		uint64_t count = runs.count - tracer->forgotten[i].count;

		times->ns[i] =
			count ? (double)(runs.ns - tracer->forgotten[i].ns) / (double)count : 0;
	}
}

void tracer__forget_runs(struct tracer *tracer)
{
	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++)
		tracer->forgotten[i] = runs_of(tracer, i);
}
