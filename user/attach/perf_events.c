// SPDX-License-Identifier: BSD-2-Clause
/* Threads' perf events, where the programs find them. */
#include "attach/tracer_internal.h"
#include "perfx.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

void perf_events_open(struct perfx_bpf *skel, const struct counters *counters)
{
	if (!counters || !counters->count)
		return;
	skel->rodata->perfx_perf_enabled = true;
	skel->rodata->perfx_perf_events_count = (uint32_t)counters->events_count;
	for (size_t i = 0; i < counters->events_count; i++) {
		skel->rodata->perfx_perf_events[i].counter = counters->events[i].counter;
		skel->rodata->perfx_perf_events[i].weight = counters->events[i].weight;
	}
	for (size_t i = 0; i < counters->count; i++)
		if (counters->list[i].is_flops)
			skel->rodata->perfx_perf_flops = (uint32_t)i;
	bpf_map__set_max_entries(skel->maps.perfx_perf_array,
				 PERFX_PERF_THREADS * PERFX_PERF_EVENTS);
	bpf_map__set_max_entries(skel->maps.perfx_perf_sums, PERFX_MAX_CONTEXTS);
}

int tracer__add_perf_thread(struct tracer *tracer, pid_t tid, uint32_t slot, const int *fds,
			    size_t count)
{
	int array_fd = bpf_map__fd(tracer->skel->maps.perfx_perf_array);
	uint32_t key = (uint32_t)tid, value = slot + 1;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = slot * PERFX_PERF_EVENTS + i;

		if (bpf_map_update_elem(array_fd, &at, &fds[i], BPF_ANY))
			return -errno;
	}
	return bpf_map_update_elem(bpf_map__fd(tracer->skel->maps.perfx_perf_slots), &key, &value,
				   BPF_ANY)
		       ? -errno
		       : 0;
}

void tracer__drop_perf_thread(struct tracer *tracer, pid_t tid, uint32_t slot)
{
	int array_fd = bpf_map__fd(tracer->skel->maps.perfx_perf_array);
	uint32_t key = (uint32_t)tid;

	bpf_map_delete_elem(bpf_map__fd(tracer->skel->maps.perfx_perf_slots), &key);
	for (uint32_t i = 0; i < PERFX_PERF_EVENTS; i++) {
		uint32_t at = slot * PERFX_PERF_EVENTS + i;

		bpf_map_delete_elem(array_fd, &at);
	}
}

bool tracer__perf_sums(const struct tracer *tracer, uint32_t context, struct perfx_perf_sums *sums)
{
	return !bpf_map_lookup_elem(bpf_map__fd(tracer->skel->maps.perfx_perf_sums), &context,
				    sums) &&
	       (sums->calls_count || sums->missed_count);
}
