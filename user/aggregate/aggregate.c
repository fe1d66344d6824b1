// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/state.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct aggregate *aggregate__new(void)
{
	struct aggregate *a = calloc(1, sizeof(*a));

	if (a)
		a->first_ns = UINT64_MAX;
	return a;
}

void aggregate__free(struct aggregate *a)
{
	if (!a)
		return;
	profile_clear(&a->profile);
	memory_clear(&a->memory);
	stacks_clear(&a->stacks);
	samples_clear(&a->samples);
	energy_clear(&a->energy);
	merged_clear(&a->merged);
	gpu_clear(&a->gpu);
	map64_clear(&a->interned.ids);
	free(a->interned.list);
	steps_clear(&a->steps);
	periods_clear(&a->periods);
	usual_costs_clear(&a->usual_costs);
	values_clear(&a->values);
	for (size_t i = 0; i < a->processes_count; i++)
		process__free(a->processes[i]);
	free(a->processes);
	for (size_t i = 0; i < a->rows_count; i++)
		row__free(a->rows[i]);
	free(a->rows);
	map64_clear(&a->row_ids);
	for (size_t i = 0; i < a->contexts_count; i++)
		free(a->contexts[i].sums.costs);
	free(a->contexts);
	free(a->functions);
	free(a->probes);
	map64_clear(&a->probe_ids);
	free(a->not_attached);
	free(a->reduced);
	free(a->late);
	free(a->calibrations);
	free(a->peaks);
	free(a->unprobed_steps);
	free(a->recording_windows);
	free(a->object_costs);
	free(a->waiting);
	pool_clear(&a->strings);
	free(a);
}

void aggregate__lose(struct aggregate *a, enum perfx_loss_kind loss, uint64_t count)
{
	add_up(&a->losses[loss], count);
}

static bool goes_on(void *ctx, uint32_t process)
{
	const struct aggregate *a = ctx;

	return process < a->processes_count && a->processes[process] &&
	       a->processes[process]->origin != PROCESS_UNKNOWN && !a->processes[process]->closed;
}

int aggregate__continue(struct aggregate *a, struct aggregate *before, uint64_t from_ns)
{
	int err;

	for (uint32_t i = 0; i < before->processes_count; i++) {
		if (!before->processes[i] || !goes_on(a, i))
			continue;
		a->processes[i]->has_rows = before->processes[i]->has_rows;
		a->processes[i]->has_steps = before->processes[i]->has_steps;
	}
	a->has_off_cpu = before->has_off_cpu;
	err = steps_continue(&a->steps, &before->steps, from_ns, goes_on, a);
	err = err ?: usual_costs_continue(&a->usual_costs, &before->usual_costs, goes_on, a);
	return err ?: periods_continue(&a->periods, &before->periods, goes_on, a);
}

int handle_host(struct aggregate *a, const struct event *event)
{
	for (int i = 0; i < 5; i++) {
		a->host_strings[i] = pool_add(&a->strings, event->strings[i]);
		if (!a->host_strings[i])
			return -ENOMEM;
	}
	a->host = event->host;
	a->has_host = true;
	return 0;
}

/* Functions of one file come one after another: they share its strings. */
static const char *shared_string(struct aggregate *a, const char *before, const char *text)
{
	return before && !strcmp(before, text) ? before : pool_add(&a->strings, text);
}

int handle_function(struct aggregate *a, const struct event *event)
{
	const struct perfx_function *record = &event->function;
	struct profile_function *f, *before;

	if (record->function == 0 || record->function > AGGREGATE_FUNCTIONS_MAX)
		return undecoded(a);
	f = GROW_TO(a->functions, record->function - 1);
	if (!f)
		return -ENOMEM;
	before = record->function > 1 ? f - 1 : f;

	f->name = pool_add(&a->strings, event->strings[0]);
	f->module = shared_string(a, before->module, event->strings[1]);
	f->build_id = shared_string(a, before->build_id, event->strings[2]);
	if (!f->name || !f->module || !f->build_id)
		return -ENOMEM;
	f->label = record->flags & PERFX_FUNCTION_RANGE
			   ? f->name
			   : intern_label(a, f->name, record->operator_bytes);
	if (!f->label)
		return -ENOMEM;
	f->module_base = base_name(f->module);
	f->source = record->source;
	f->offset = record->offset;
	f->flags = record->flags;
	f->id = record->function;
	return 0;
}

int handle_probe_record(struct aggregate *a, const struct event *event)
{
	const struct perfx_probe_record *record = &event->probe_record;
	struct profile_probe *probe = MAP64_ITEM(a->probe_ids, record->probe, a->probes);
	struct profile_function *function;

	if (!probe)
		return -ENOMEM;
	*probe = (struct profile_probe){
		.id = record->probe,
		.function = record->function,
		.offset = record->offset,
		.link = record->link,
		.ret = record->ret,
		.site = record->site,
		.is_exit = record->is_exit,
		.hits_count = probe->hits_count,
		.seen_hits_count = probe->seen_hits_count,
		.seen_ns = probe->seen_ns,
		.cost_ns = (double)record->cost_ps / 1000,
	};
	function = function_at(a, record->function);
	if (function)
		function->ret = record->ret;
	return 0;
}

int handle_hits(struct aggregate *a, const struct event *event)
{
	const struct perfx_hits *record = &event->hits;
	struct profile_probe *probe = MAP64_FIND(a->probe_ids, record->probe, a->probes);

	if (!probe)
		return undecoded(a);
	add_up(&probe->hits_count, record->hits_count);
	if (record->cost_ps) {
		probe->seen_hits_count += (double)record->hits_count;
		probe->seen_ns += (double)record->hits_count * (double)record->cost_ps / 1000;
	}
	return 0;
}

int handle_background(struct aggregate *a, const struct event *event)
{
	const struct perfx_background *record = &event->background;

	add_up(&a->samples_cost_ns, record->samples_ns);
	add_up(&a->waits_cost_ns, record->waits_ns);
	return 0;
}

int handle_not_attached(struct aggregate *a, const struct event *event)
{
	struct profile_not_attached *row;

	if (GROW_BY_ONE(a->not_attached))
		return -ENOMEM;
	row = &a->not_attached[a->not_attached_count];
	row->name = pool_add(&a->strings, event->strings[0]);
	row->reason = pool_add(&a->strings, event->strings[1]);
	row->count = event->not_attached.count;
	row->by_design = event->not_attached.flags & PERFX_NOT_ATTACHED_BY_DESIGN;
	row->waits = event->not_attached.flags & PERFX_NOT_ATTACHED_WAITS;
	if (!row->name || !row->reason)
		return -ENOMEM;
	a->not_attached_count++;
	return 0;
}

int handle_late(struct aggregate *a, const struct event *event)
{
	const struct perfx_late *record = &event->late;
	struct process *proc =
		record->process < a->processes_count ? a->processes[record->process] : NULL;
	struct profile_late *row;

	if (record->time_ns < record->since_ns)
		return undecoded(a);
	if (GROW_BY_ONE(a->late))
		return -ENOMEM;
	row = &a->late[a->late_count];
	*row = (struct profile_late){.process = record->process,
				     .cause = record->cause,
				     .since_ns = record->since_ns,
				     .late_ns = record->time_ns - record->since_ns,
				     .functions_count = record->functions_count,
				     .files_count = record->files_count,
				     .module = pool_add(&a->strings, event->strings[0])};
	if (!row->module)
		return -ENOMEM;
	a->late_count++;
	if (proc && record->cause == PERFX_LATE_MAPPED && record->functions_count &&
	    !proc->has_rows)
		proc->sets_up = true;
	return steps_gap(&a->steps, record->process, record->time_ns);
}

int handle_calibration(struct aggregate *a, const struct event *event)
{
	return LIST_ADD(a->calibrations, event->calibration);
}

int handle_peak(struct aggregate *a, const struct event *event)
{
	return LIST_ADD(a->peaks, event->peak);
}

int handle_loss(struct aggregate *a, const struct event *event)
{
	const struct perfx_loss *record = &event->loss;
	struct merged_capture *capture = NULL;
	struct process *proc;

	aggregate__lose(a, record->loss, record->count);
	if (record->merged)
		capture = merged_get(a, record->merged);
	if (record->merged && !capture && errno == ENOMEM)
		return -ENOMEM;
	if (capture)
		add_up(&capture->losses[record->loss], record->count);
	if (record->process == 0)
		return 0;
	proc = process_get(a, record->process);
	if (!proc)
		return rejected(a);
	if (record->loss == PERFX_LOSS_UNMATCHED_ENTRIES)
		add_up(&proc->unmatched_entries, record->count);
	if (record->loss == PERFX_LOSS_SAMPLE_DROPS)
		add_up(&proc->samples_lost, record->count);
	return 0;
}

/* A window's end may be recorded after the beginning of the next one. */
static void close_recording_window(struct aggregate *a, uint64_t time_ns)
{
	size_t i = a->recording_windows_count;

	while (i && time_ns < a->recording_windows[i - 1].from_ns)
		i--;
	if (i)
		a->recording_windows[i - 1].to_ns = time_ns;
}

/* A window whose end was lost lasts until the next one begins. */
int handle_recording_window(struct aggregate *a, const struct event *event)
{
	const struct perfx_recording_window *record = &event->recording_window;
	struct profile_interval *last =
		a->recording_windows_count ? &a->recording_windows[a->recording_windows_count - 1]
					   : NULL;

	saw_time(a, record->time_ns);
	if (!(record->flags & PERFX_RECORDING_WINDOW_OPENS)) {
		close_recording_window(a, record->time_ns);
		return 0;
	}
	if (last && (record->time_ns <= last->from_ns ||
		     a->recording_windows_count == PERFX_RECORDING_WINDOWS_MAX)) {
		last->to_ns = UINT64_MAX;
		return 0;
	}
	if (GROW_BY_ONE(a->recording_windows) || steps_recording_window(&a->steps, record->time_ns))
		return -ENOMEM;
	a->recording_windows[a->recording_windows_count++] =
		(struct profile_interval){.from_ns = record->time_ns, .to_ns = UINT64_MAX};
	return 0;
}

int handle_end(struct aggregate *a, const struct event *event)
{
	a->end = event->end;
	a->has_end = true;
	saw_time(a, a->end.time_ns);
	return 0;
}

int handle_time_slice(struct aggregate *a, const struct event *event)
{
	a->time_slice = event->time_slice;
	a->time_slice_why = pool_add(&a->strings, event->strings[0]);
	return a->time_slice_why ? 0 : -ENOMEM;
}

/* Who was hit, for what that cost them: a call at its entry and its end, a block that is freed
 * once. */
static int add_seen_hits(struct aggregate *a, const struct event *event)
{
	switch (event->kind) {
	case PERFX_KIND_SPAN:
		return process_hits(a, event->span.process, event->span.tid, 2);
	case PERFX_KIND_ALLOCATION:
		return process_hits(a, event->allocation.process, event->allocation.tid, 2);
	case PERFX_KIND_FREE:
		return process_hits(a, event->free.process, event->free.tid, 1);
	default:
		return 0;
	}
}

int handle_segment(struct aggregate *a, const struct event *event)
{
	saw_time(a, event->segment.time_ns);
	return 0;
}

static int add_event(struct aggregate *a, const struct event *event)
{
	switch (event->kind) {
#define DISPATCH(kind, name, ...) \
	case PERFX_KIND_##kind:   \
		return handle_##name(a, event);
		PERFX_RECORDS(DISPATCH)
#undef DISPATCH
	case PERFX_KIND_INVALID:
		break;
	}
	return undecoded(a);
}

int aggregate__add(struct aggregate *a, const struct event *event)
{
	int err = add_event(a, event);

	return err ?: add_seen_hits(a, event);
}
