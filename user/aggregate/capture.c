// SPDX-License-Identifier: BSD-2-Clause
/* Facts about the capture and its machine; a merged capture has those of each of its captures. */
#include "aggregate/state.h"

#include <stdlib.h>
#include <string.h>

/* Usage of a whole machine, from its earliest and latest sample. */
struct host_usage {
	uint64_t first_ns, last_ns; /* 0: no sample */
	uint64_t first_busy_ns, last_busy_ns;
	uint64_t first_steal_ns, last_steal_ns;
};

/* [0]: the capture itself, which has its machine's usage alone. */
struct merged_capture {
	struct perfx_merged record; /* merged 0: not described */
	const char *strings[5];
	struct host_usage usage;
	uint64_t losses[PERFX_LOSS_KINDS];
};

struct captures {
	struct merged_capture *list; /* by id */
	size_t capacity, count;
	struct profile_capture *shown; /* the profile's */

	bool has_host, has_end;
	struct perfx_host host;
	const char *host_strings[5];
	struct perfx_end end;
	struct perfx_time_slice time_slice;
	const char *time_slice_why;	  /* NULL: a whole recording */
	struct profile_interval *windows; /* to_ns UINT64_MAX: open */
	size_t windows_capacity, windows_count;
	struct profile_not_attached *not_attached;
	size_t not_attached_capacity, not_attached_count;
	struct perfx_peak *peaks;
	size_t peaks_capacity, peaks_count;
};

/* NULL with errno: ERANGE, ENOMEM. */
static struct merged_capture *merged_get(struct aggregate *a, uint32_t id)
{
	struct captures *captures = a->captures;

	errno = ERANGE;
	if (id > PERFX_MERGED_MAX)
		return NULL;
	return grow_to(&captures->list, &captures->capacity, &captures->count, id,
		       sizeof(*captures->list));
}

static int handle_merged(struct aggregate *a, const struct event *event)
{
	struct merged_capture *capture = merged_get(a, event->merged.merged);

	if (!capture)
		return rejected(a);
	capture->record = event->merged;
	for (int i = 0; i < 5; i++) {
		capture->strings[i] = intern(a, event->strings[i]);
		if (!capture->strings[i])
			return -ENOMEM;
	}
	return 0;
}

/* NULL: it is not described. */
static const struct perfx_merged *record_of(const struct aggregate *a, uint32_t id)
{
	return id && id < a->captures->count && a->captures->list[id].record.merged
		       ? &a->captures->list[id].record
		       : NULL;
}

uint64_t capture_start_ns(const struct aggregate *a, uint32_t id)
{
	const struct perfx_merged *record = record_of(a, id);
	uint64_t start_ns = a->captures->has_host ? a->captures->host.start_ns : a->first_ns;

	/* a slice may begin later than the capture did */
	return record ? max_u64(record->start_ns, start_ns) : start_ns;
}

uint64_t capture_end_ns(const struct aggregate *a, uint32_t id)
{
	const struct perfx_merged *record = record_of(a, id);
	uint64_t end_ns = a->captures->has_end ? a->captures->end.time_ns : a->last_ns;

	return record ? min_u64(record->end_ns, end_ns) : end_ns;
}

static void fill_usage(const struct host_usage *host, uint64_t *busy_ns, uint64_t *steal_ns)
{
	*busy_ns = *steal_ns = PROFILE_ABSENT;
	if (host->last_ns <= host->first_ns || host->last_busy_ns < host->first_busy_ns)
		return;
	*busy_ns = host->last_busy_ns - host->first_busy_ns;
	*steal_ns = host->last_steal_ns >= host->first_steal_ns
			    ? host->last_steal_ns - host->first_steal_ns
			    : 0;
}

static void add_measured(uint64_t *sum, uint64_t more)
{
	if (more != PROFILE_ABSENT)
		*sum = *sum == PROFILE_ABSENT ? more : add_capped(*sum, more);
}

static int fill_merged(struct captures *captures, struct profile *p)
{
	static const struct host_usage none;

	fill_usage(captures->count ? &captures->list[0].usage : &none, &p->host_busy_ns,
		   &p->host_steal_ns);
	free(captures->shown);
	captures->shown = calloc(captures->count + 1, sizeof(*captures->shown));
	if (!captures->shown)
		return -ENOMEM;
	p->captures = captures->shown;
	for (size_t i = 1; i < captures->count; i++) {
		const struct merged_capture *capture = &captures->list[i];
		struct profile_capture *shown = &p->captures[p->captures_count];
		uint64_t busy_ns, steal_ns;
		bool is_counted = false;

		if (!capture->record.merged)
			continue;
		*shown = (struct profile_capture){.host_name = capture->strings[0],
						  .kernel = capture->strings[1],
						  .boot_id = capture->strings[2],
						  .command = capture->strings[3],
						  .tool_version = capture->strings[4],
						  .facts = capture->record};
		memcpy(shown->losses, capture->losses, sizeof(shown->losses));
		/* two tracers of one machine have both measured all of it */
		FOR_EACH (other, p->captures)
			is_counted |= !strcmp(other->boot_id, shown->boot_id);
		p->captures_count++;
		if (is_counted)
			continue;
		p->hosts_count++;
		fill_usage(&capture->usage, &busy_ns, &steal_ns);
		add_measured(&p->host_busy_ns, busy_ns);
		add_measured(&p->host_steal_ns, steal_ns);
	}
	if (!p->captures_count)
		p->hosts_count = 1;
	return 0;
}

static int handle_host(struct aggregate *a, const struct event *event)
{
	struct captures *captures = a->captures;

	for (int i = 0; i < 5; i++) {
		captures->host_strings[i] = pool_add(&a->strings, event->strings[i]);
		if (!captures->host_strings[i])
			return -ENOMEM;
	}
	captures->host = event->host;
	captures->has_host = true;
	return 0;
}

static int handle_not_attached(struct aggregate *a, const struct event *event)
{
	struct profile_not_attached *row;

	if (GROW_BY_ONE(a->captures->not_attached))
		return -ENOMEM;
	row = &a->captures->not_attached[a->captures->not_attached_count];
	row->name = pool_add(&a->strings, event->strings[0]);
	row->reason = pool_add(&a->strings, event->strings[1]);
	row->count = event->not_attached.count;
	row->by_design = event->not_attached.flags & PERFX_NOT_ATTACHED_BY_DESIGN;
	row->waits = event->not_attached.flags & PERFX_NOT_ATTACHED_WAITS;
	if (!row->name || !row->reason)
		return -ENOMEM;
	a->captures->not_attached_count++;
	return 0;
}

static int handle_peak(struct aggregate *a, const struct event *event)
{
	return LIST_ADD(a->captures->peaks, event->peak);
}

static void saw_host(struct host_usage *host, const struct perfx_usage *record)
{
	/* 0 in records that do not have it, absent at a birth */
	if (!record->host_busy_ns || record->host_busy_ns == PROFILE_ABSENT ||
	    record->host_steal_ns == PROFILE_ABSENT)
		return;
	if (!host->first_ns || record->time_ns < host->first_ns) {
		host->first_ns = record->time_ns;
		host->first_busy_ns = record->host_busy_ns;
		host->first_steal_ns = record->host_steal_ns;
	}
	if (record->time_ns >= host->last_ns) {
		host->last_ns = record->time_ns;
		host->last_busy_ns = record->host_busy_ns;
		host->last_steal_ns = record->host_steal_ns;
	}
}

/* A window whose end was lost lasts until the next one begins. */
int capture_window(struct aggregate *a, const struct perfx_recording_window *record)
{
	struct captures *captures = a->captures;
	struct profile_interval *last =
		captures->windows_count ? &captures->windows[captures->windows_count - 1] : NULL;
	size_t i = captures->windows_count;

	saw_time(a, record->time_ns);
	if (!(record->flags & PERFX_RECORDING_WINDOW_OPENS)) {
		/* A window's end may be recorded after the beginning of the next one. */
		while (i && record->time_ns < captures->windows[i - 1].from_ns)
			i--;
		if (i)
			captures->windows[i - 1].to_ns = record->time_ns;
		return 0;
	}
	if (last && (record->time_ns <= last->from_ns ||
		     captures->windows_count == PERFX_RECORDING_WINDOWS_MAX)) {
		last->to_ns = UINT64_MAX;
		return 0;
	}
	return LIST_ADD(captures->windows,
			(struct profile_interval){.from_ns = record->time_ns, .to_ns = UINT64_MAX})
		       ?: 1;
}

const struct profile_interval *capture_windows(const struct aggregate *a, size_t *count)
{
	*count = a->captures->windows_count;
	return a->captures->windows;
}

const struct perfx_host *capture_host(const struct aggregate *a)
{
	return a->captures->has_host ? &a->captures->host : NULL;
}

int capture_lose(struct aggregate *a, const struct perfx_loss *record)
{
	struct merged_capture *capture;

	aggregate__lose(a, record->loss, record->count);
	if (!record->merged)
		return 0;
	capture = merged_get(a, record->merged);
	if (!capture)
		return errno == ENOMEM ? -ENOMEM : 0;
	add_up(&capture->losses[record->loss], record->count);
	return 0;
}

int capture_usage(struct aggregate *a, uint32_t merged, const struct perfx_usage *record)
{
	struct merged_capture *capture = merged_get(a, merged);

	if (!capture)
		return errno == ENOMEM ? -ENOMEM : 0;
	saw_host(&capture->usage, record);
	return 0;
}

static int handle_end(struct aggregate *a, const struct event *event)
{
	a->captures->end = event->end;
	a->captures->has_end = true;
	saw_time(a, a->captures->end.time_ns);
	return 0;
}

bool aggregate__is_dump(const struct aggregate *a)
{
	return a->captures->has_end && a->captures->end.flags & PERFX_END_DUMP;
}

static int handle_time_slice(struct aggregate *a, const struct event *event)
{
	a->captures->time_slice = event->time_slice;
	a->captures->time_slice_why = pool_add(&a->strings, event->strings[0]);
	return a->captures->time_slice_why ? 0 : -ENOMEM;
}

static int handle_segment(struct aggregate *a, const struct event *event)
{
	saw_time(a, event->segment.time_ns);
	return 0;
}

static void fill_host(const struct aggregate *a, struct profile *p)
{
	const struct captures *c = a->captures;
	uint64_t start = c->has_host ? c->host.start_ns : a->first_ns;
	uint64_t end = c->has_end ? c->end.time_ns : a->last_ns;

	p->host_name = c->has_host ? c->host_strings[0] : "";
	p->kernel = c->has_host ? c->host_strings[1] : "";
	p->boot_id = c->has_host ? c->host_strings[2] : "";
	p->command = c->has_host ? c->host_strings[3] : "";
	p->tool_version = c->has_host ? c->host_strings[4] : "";
	p->cpus_count = c->host.cpus_count;
	p->memory_mib = c->host.memory_mib;
	p->ring_bytes = c->host.ring_bytes;
	p->compensated = c->host.flags & PERFX_HOST_COMPENSATED;
	p->start_ns = start;
	p->start_unix_ns = c->host.start_unix_ns;
	p->start_boot_ns = c->host.start_boot_ns;
	p->duration_ns = sub_capped(end, start);
	p->ended = c->has_end;
	p->target_killed = c->end.flags & PERFX_END_TARGET_KILLED;
	p->target_exited = c->end.flags & PERFX_END_TARGET_EXITED;
	p->interrupted = c->end.flags & PERFX_END_INTERRUPTED;
	p->tracer_cpu_ns = c->has_end ? c->end.tracer_cpu_ns : PROFILE_ABSENT;
	p->recording_cpu_ns = c->end.recording_cpu_ns;
	p->tracer_rss_anon_bytes = c->has_end ? c->end.tracer_rss_anon_bytes : PROFILE_ABSENT;
	p->tracer_rss_peak_bytes = c->end.tracer_rss_peak_bytes;
	/* 0: an older capture, which does not say how often maps were read */
	p->maps_read_count = c->end.maps_read_count ? c->end.maps_read_count : PROFILE_ABSENT;
	p->untraced_read_count =
		c->end.maps_read_count ? c->end.untraced_read_count : PROFILE_ABSENT;
	p->not_attached = c->not_attached;
	p->not_attached_count = c->not_attached_count;
	p->peaks = c->peaks;
	p->peaks_count = c->peaks_count;
	p->time_slice =
		(struct profile_time_slice){.flags = c->time_slice.flags,
					    .recording_ns = c->time_slice.recording_ns,
					    .left_out_count = c->time_slice.left_out_count,
					    .left_out = c->time_slice.left_out,
					    .why = c->time_slice_why ? c->time_slice_why : "",
					    .step_process = c->time_slice.step_process,
					    .step_from_ns = c->time_slice.step_from_ns,
					    .step_to_ns = c->time_slice.step_to_ns};
}

/* Cuts the windows of the stream to the time of the capture. */
static int fill_windows(const struct captures *captures, struct profile *p)
{
	uint64_t end_ns = add_capped(p->start_ns, p->duration_ns), before_ns = p->start_ns;

	p->recording_windows = calloc(captures->windows_count + 1, sizeof(*p->recording_windows));
	if (!p->recording_windows)
		return -ENOMEM;
	for (size_t i = 0; i < captures->windows_count; i++) {
		struct profile_interval window = captures->windows[i];

		if (i + 1 < captures->windows_count)
			window.to_ns = min_u64(window.to_ns, captures->windows[i + 1].from_ns);
		window.from_ns = max_u64(window.from_ns, before_ns);
		window.to_ns = max_u64(min_u64(window.to_ns, end_ns), window.from_ns);
		before_ns = window.to_ns;
		p->recording_windows[p->recording_windows_count++] = window;
	}
	return 0;
}

static int capture_fill(struct finish_ctx *ctx)
{
	int err;

	fill_host(ctx->a, ctx->profile);
	err = fill_merged(ctx->a->captures, ctx->profile);
	return err ?: fill_windows(ctx->a->captures, ctx->profile);
}

static void captures_clear(void *state)
{
	struct captures *captures = state;

	free(captures->list);
	free(captures->shown);
	free(captures->windows);
	free(captures->not_attached);
	free(captures->peaks);
}

const struct part part_capture = {
	PART_STATE(captures),
	.add = {TAKES(HOST, host), TAKES(MERGED, merged), TAKES(NOT_ATTACHED, not_attached),
		TAKES(PEAK, peak), TAKES(SEGMENT, segment), TAKES(TIME_SLICE, time_slice),
		TAKES(END, end)},
	.finish = capture_fill,
	.clear = captures_clear,
};
