// SPDX-License-Identifier: BSD-2-Clause
/* Tables → profile: everything that needs all of the stream, such as sums, sorting and shares. */
#include "aggregate/state.h"
#include "base/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void profile_clear(struct profile *profile)
{
	for (size_t i = 0; i < profile->processes_count; i++) {
		struct profile_process *process = &profile->processes[i];

		for (size_t j = 0; j < process->rows_count; j++) {
			free(process->rows[j].callers);
			free(process->rows[j].during.list);
		}
		free(process->rows);
		free(process->threads);
		free(process->contexts);
		free(process->compute.sources);
		free(process->compute.dtypes);
		free(process->values);
		free(process->samples.list);
		free(process->steps.samples);
		free(process->lines);
		free(process->python_callers);
		free(process->blocked.list);
		free(process->rivals);
		profile_memory_clear(process->memory, process->memory_count);
	}
	profile_gpu_clear(profile);
	free(profile->processes);
	profile_stacks_clear(profile);
	free(profile->recording_windows);
	*profile = (struct profile){0};
}

const struct profile_function *profile_function(const struct profile *profile, uint32_t id)
{
	if (id == 0 || id > profile->functions_count || !profile->functions[id - 1].id)
		return NULL;
	return &profile->functions[id - 1];
}

double profile_loss_share(const struct profile *profile, enum perfx_loss_kind loss)
{
	uint64_t count = profile->losses[loss], of = profile->calls_count;

	switch (loss) {
	/* the calls at both ends of the recording, other processes' hits, bytes, and what the
	 * overhead budget chose to count only are no lost calls */
	case PERFX_LOSS_UNMATCHED_ENTRIES:
	case PERFX_LOSS_UNMATCHED_RETURNS:
	case PERFX_LOSS_FOREIGN_HITS:
	case PERFX_LOSS_DETACHED_PROBES:
	case PERFX_LOSS_TRUNCATED_BYTES:
	case PERFX_LOSS_KINDS:
		return 0;
	/* these are among the calls */
	case PERFX_LOSS_RING_DROPS:
	case PERFX_LOSS_UNTIMED_CALLS:
		of = max_u64(of, count);
		break;
	case PERFX_LOSS_MEMORY_DROPS:
		of = add_capped(profile->memory_records_count, count);
		break;
	case PERFX_LOSS_VALUE_DROPS:
		of = profile->value_samples_count; /* they are among them */
		of = max_u64(of, count);
		break;
	case PERFX_LOSS_SAMPLE_DROPS:
		of = count;
		for (size_t i = 0; i < profile->processes_count; i++) {
			struct profile_sample_sums sums =
				profile_sample_sums(&profile->processes[i]);

			add_up(&of, add_capped(sums.on_cpu_count, sums.off_cpu_count));
		}
		break;
	case PERFX_LOSS_GPU_RECORDS:
		of = add_capped(profile->gpu_activities_count, count);
		break;
	case PERFX_LOSS_GPU_KEYS:
		of = add_capped(profile->gpu_calls_count, count);
		break;
	case PERFX_LOSS_PROCESSES_MISSED:
		of = add_capped(profile->processes_count, count);
		break;
	case PERFX_LOSS_MAP_FULL:
	case PERFX_LOSS_STACK_FAILURES:
	case PERFX_LOSS_READ_FAULTS:
	case PERFX_LOSS_NMISSED:
	case PERFX_LOSS_UNDECODED:
	case PERFX_LOSS_CONTROL_DROPS:
		add_up(&of, count);
		break;
	}
	return of ? (double)count / (double)of : 0;
}

uint64_t profile_overlap_ns(const struct profile_interval *recording_window, uint64_t from_ns,
			    uint64_t to_ns)
{
	from_ns = max_u64(recording_window->from_ns, from_ns);
	to_ns = min_u64(recording_window->to_ns, to_ns);
	return sub_capped(to_ns, from_ns);
}

/* Adds a process to those of one kind. */
static void add_late(struct map64 *seen, const struct profile_late *row, size_t *count,
		     const struct profile_late **worst)
{
	if (map64_get(seen, row->process) == MAP64_NONE && !map64_put(seen, row->process, 1))
		++*count;
	if (!*worst || row->late_ns > (*worst)->late_ns)
		*worst = row;
}

struct profile_late_sum profile_late_sum(const struct profile *profile)
{
	struct profile_late_sum sum = {0};
	struct map64 late = {0}, ended = {0};

	for (size_t i = 0; i < profile->late_count; i++) {
		const struct profile_late *row = &profile->late[i];

		if (row->functions_count)
			add_late(&late, row, &sum.late_count, &sum.latest);
		else
			add_late(&ended, row, &sum.ended_count, &sum.longest);
	}
	map64_clear(&late);
	map64_clear(&ended);
	return sum;
}

uint64_t profile_recorded_between(const struct profile *profile, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t sum = 0;

	if (!profile->recording_windows_count)
		return sub_capped(to_ns, from_ns);
	for (size_t i = 0; i < profile->recording_windows_count; i++)
		add_up(&sum, profile_overlap_ns(&profile->recording_windows[i], from_ns, to_ns));
	return sum;
}

uint64_t profile_recorded_ns(const struct profile *profile, const struct profile_process *process)
{
	return profile_recorded_between(profile, process->from_ns, process->to_ns);
}

static uint32_t caller_of(const struct aggregate *a, const struct context *context)
{
	const struct context *parent;

	if (!context->described)
		return PROFILE_CALLER_UNKNOWN;
	if (context->parent == 0)
		return PROFILE_CALLER_UNTRACED;
	parent = &a->contexts[context->parent];
	return parent->described || parent->row ? parent->function : PROFILE_CALLER_UNKNOWN;
}

static void add_edge(struct finish_ctx *w, const struct row *row, uint32_t caller,
		     const struct sums *sums)
{
	sums_add(&w->sums[row->index], sums->calls_count, sums->total_ns, sums->self_ns);
	w->edges[w->edges_count++] = (struct edge){
		.row = row->index,
		.caller = caller,
		.calls_count = sums->calls_count,
		.total_ns = sums->total_ns,
	};
}

ORDER(by_row_and_caller, struct edge, ASCENDING(a->row, b->row), ASCENDING(a->caller, b->caller))

/* One edge for each (row, caller), where several contexts gave several. */
static void merge_edges(struct finish_ctx *w)
{
	size_t kept = 0;

	SORT_ITEMS(w->edges, w->edges_count, by_row_and_caller);
	for (size_t i = 0; i < w->edges_count; i++) {
		struct edge *edge = &w->edges[i], *last = kept ? &w->edges[kept - 1] : NULL;

		if (last && last->row == edge->row && last->caller == edge->caller) {
			add_up(&last->calls_count, edge->calls_count);
			add_up(&last->total_ns, edge->total_ns);
		} else {
			w->edges[kept++] = *edge;
		}
	}
	w->edges_count = kept;
}

static int sum_contexts(struct finish_ctx *w)
{
	const struct aggregate *a = w->a;

	w->sums = calloc(a->rows_count + 1, sizeof(*w->sums));
	w->edges = calloc(a->contexts_count + a->rows_count + 1, sizeof(*w->edges));
	if (!w->sums || !w->edges)
		return -ENOMEM;
	for (size_t i = 0; i < a->contexts_count; i++) {
		const struct context *context = &a->contexts[i];

		if (context->row && context->sums.calls_count)
			add_edge(w, context->row, caller_of(a, context), &context->sums);
	}
	for (size_t i = 0; i < a->rows_count; i++)
		if (a->rows[i]->orphans.calls_count)
			add_edge(w, a->rows[i], PROFILE_CALLER_UNKNOWN, &a->rows[i]->orphans);
	merge_edges(w);
	return 0;
}

/*
 * Population standard deviation from exact sums: with m = floor(mean), the sum of (x - m)² is
 * Σx² - 2mΣx + nm², exact in arithmetic modulo 2^128 because the result fits; what m lacks of the
 * mean is taken off after. Nothing large is subtracted in floating point.
 */
static double stddev_of(const struct row *row)
{
	u128 n = row->recorded_count, mean, around;
	long double rest, variance;

	if (!n || row->squares_overflowed)
		return -1;
	mean = row->sum_ns / n;
	around = row->sum_squares - 2 * mean * row->sum_ns + n * mean * mean;
	rest = (long double)(row->sum_ns - n * mean) / (long double)n;
	variance = (long double)around / (long double)n - rest * rest;
	return variance > 0 ? (double)sqrtl(variance) : 0;
}

/* A bucket's middle may lie outside of what was measured. */
static uint64_t quantile_of(const struct row *row, double q)
{
	return min_u64(max_u64(sketch__quantile(row->sketch, q), row->min_ns), row->max_ns);
}

static void fill_row(const struct finish_ctx *w, const struct row *row, struct profile_row *out)
{
	const struct sums *sums = &w->sums[row->index];
	const struct profile_function *function = profile_function(w->profile, row->function);
	uint64_t untimed = add_capped(row->untimed_count, row->unwound_count);
	/* while a goroutine waits, its thread runs others */
	bool is_go = function && function->flags & PERFX_FUNCTION_GO;

	*out = (struct profile_row){
		.function = row->function,
		.calls_count = sums->calls_count,
		.timed_count = sub_capped(sums->calls_count, untimed),
		.unwound_count = row->unwound_count,
		.overflow_count = row->overflow_count,
		.total_ns = sums->total_ns,
		.self_ns = sums->self_ns,
		.avg_ns = PROFILE_ABSENT,
		.min_ns = PROFILE_ABSENT,
		.max_ns = PROFILE_ABSENT,
		.p50_ns = PROFILE_ABSENT,
		.p95_ns = PROFILE_ABSENT,
		.p99_ns = PROFILE_ABSENT,
		.center_ns = PROFILE_ABSENT,
		.stddev_ns = stddev_of(row),
		.threads_count = row->threads_count,
		.alloc_bytes = PROFILE_ABSENT,
		.recorded_ns = row->sum_ns > UINT64_MAX ? UINT64_MAX : (uint64_t)row->sum_ns,
		.off_cpu_ns = w->a->has_off_cpu && !is_go ? row->off_cpu_ns : PROFILE_ABSENT,
		.perf = row->perf,
		.gpu_ns = PROFILE_ABSENT,
	};
	if (out->timed_count)
		out->avg_ns = out->total_ns / out->timed_count;
	out->seen_until_ns = calls_seen_until(w->a, row->process, row->function, NULL);
	compute_fill_row(w, row, out);
	if (!row->recorded_count)
		return;
	out->min_ns = row->min_ns;
	out->max_ns = row->max_ns;
	out->p50_ns = quantile_of(row, 0.50);
	out->p95_ns = quantile_of(row, 0.95);
	out->p99_ns = quantile_of(row, 0.99);
	if (row->sum_ns)
		out->center_ns = (uint64_t)(row->moment / row->sum_ns);
	out->sketch = row->sketch;
}

ORDER(by_calls, struct profile_caller, DESCENDING(a->calls_count, b->calls_count),
      ASCENDING(a->caller, b->caller))

/* The edges of a row begin at `edge` and lie side by side. */
static int fill_callers(const struct finish_ctx *w, size_t edge, struct profile_row *out)
{
	uint32_t row = w->edges[edge].row;
	size_t end = edge;

	while (end < w->edges_count && w->edges[end].row == row)
		end++;
	out->callers = calloc(end - edge, sizeof(*out->callers));
	if (!out->callers)
		return -ENOMEM;
	for (; edge < end; edge++) {
		out->callers[out->callers_count++] = (struct profile_caller){
			.caller = w->edges[edge].caller,
			.calls_count = w->edges[edge].calls_count,
			.total_ns = w->edges[edge].total_ns,
		};
	}
	SORT_ITEMS(out->callers, out->callers_count, by_calls);
	return 0;
}

ORDER(by_self, struct profile_row, DESCENDING(a->self_ns, b->self_ns),
      DESCENDING(a->calls_count, b->calls_count), ASCENDING(a->function, b->function))

struct profile_process *process_of(const struct finish_ctx *w, const struct row *row)
{
	return profile_function(w->profile, row->function) ? process_at(w, row->process) : NULL;
}

/* Room for each process's rows. */
static int make_rows(struct finish_ctx *w)
{
	struct profile *p = w->profile;

	for (size_t i = 0; i < w->edges_count; i++) {
		const struct row *row = w->a->rows[w->edges[i].row];
		struct profile_process *process = process_of(w, row);

		if (i && w->edges[i - 1].row == w->edges[i].row)
			continue;
		if (process)
			w->rows_of[process - p->processes]++;
		else
			add_up(&w->hidden_records, w->sums[row->index].calls_count);
	}
	for (size_t i = 0; i < p->processes_count; i++) {
		p->processes[i].rows = calloc(w->rows_of[i] + 1, sizeof(struct profile_row));
		if (!p->processes[i].rows)
			return -ENOMEM;
	}
	return 0;
}

static int fill_rows(struct finish_ctx *w)
{
	struct profile *p = w->profile;
	int err = make_rows(w);

	for (size_t i = 0; i < w->edges_count && !err; i++) {
		const struct row *row = w->a->rows[w->edges[i].row];
		struct profile_process *process = process_of(w, row);
		struct profile_row *out;

		if (!process || (i && w->edges[i - 1].row == w->edges[i].row))
			continue;
		out = &process->rows[process->rows_count++];
		fill_row(w, row, out);
		add_up(&process->calls_count, out->calls_count);
		add_up(&process->self_ns, out->self_ns);
		add_up(&p->calls_count, out->calls_count);
		err = fill_callers(w, i, out);
	}
	for (size_t i = 0; i < p->processes_count; i++)
		SORT_ITEMS(p->processes[i].rows, p->processes[i].rows_count, by_self);
	return err;
}

static struct profile_process *process_of_context(const struct finish_ctx *w,
						  const struct context *context)
{
	return context->described && context->process < w->a->processes_count
		       ? process_at(w, context->process)
		       : NULL;
}

/* A damaged file may hang a node under another process's: then it is a root. */
uint32_t parent_of(const struct aggregate *a, const struct context *context)
{
	const struct context *parent = &a->contexts[context->parent];

	return parent->described && parent->process == context->process ? context->parent : 0;
}

static int fill_contexts(struct finish_ctx *w)
{
	const struct aggregate *a = w->a;
	struct profile *p = w->profile;
	struct profile_process *process;

	for (size_t i = 0; i < a->contexts_count; i++) {
		process = process_of_context(w, &a->contexts[i]);
		if (process)
			process->contexts_count++;
	}
	for (size_t i = 0; i < p->processes_count; i++) {
		process = &p->processes[i];
		process->contexts = calloc(process->contexts_count + 1, sizeof(*process->contexts));
		if (!process->contexts)
			return -ENOMEM;
		process->contexts_count = 0;
	}
	for (size_t i = 0; i < a->contexts_count; i++) {
		const struct context *context = &a->contexts[i];

		process = process_of_context(w, context);
		if (!process)
			continue;
		process->contexts[process->contexts_count++] = (struct profile_context){
			.id = (uint32_t)i,
			.parent = parent_of(a, context),
			.function = context->function,
			.calls_count = context->sums.calls_count,
			.total_ns = context->sums.total_ns,
			.self_ns = context->sums.self_ns,
			.caller = frame_of(w, context->process, context->caller),
			.stack = stack_of(w, context->process, context->stack),
		};
	}
	return 0;
}

/* Cuts the windows of the stream to the time of the capture. */
static int fill_recording_windows(struct finish_ctx *w)
{
	const struct aggregate *a = w->a;
	struct profile *p = w->profile;
	uint64_t end_ns = add_capped(p->start_ns, p->duration_ns), before_ns = p->start_ns;

	p->recording_windows =
		calloc(a->recording_windows_count + 1, sizeof(*p->recording_windows));
	if (!p->recording_windows)
		return -ENOMEM;
	for (size_t i = 0; i < a->recording_windows_count; i++) {
		struct profile_interval window = a->recording_windows[i];

		if (i + 1 < a->recording_windows_count)
			window.to_ns = min_u64(window.to_ns, a->recording_windows[i + 1].from_ns);
		window.from_ns = max_u64(window.from_ns, before_ns);
		window.to_ns = max_u64(min_u64(window.to_ns, end_ns), window.from_ns);
		before_ns = window.to_ns;
		p->recording_windows[p->recording_windows_count++] = window;
	}
	return 0;
}

static int fill_host(struct finish_ctx *w)
{
	const struct aggregate *a = w->a;
	struct profile *p = w->profile;
	uint64_t start = a->has_host ? a->host.start_ns : a->first_ns;
	uint64_t end = a->has_end ? a->end.time_ns : a->last_ns;

	p->host_name = a->has_host ? a->host_strings[0] : "";
	p->kernel = a->has_host ? a->host_strings[1] : "";
	p->boot_id = a->has_host ? a->host_strings[2] : "";
	p->command = a->has_host ? a->host_strings[3] : "";
	p->tool_version = a->has_host ? a->host_strings[4] : "";
	p->cpus_count = a->host.cpus_count;
	p->memory_mib = a->host.memory_mib;
	p->ring_bytes = a->host.ring_bytes;
	p->compensated = a->host.flags & PERFX_HOST_COMPENSATED;
	p->start_ns = start;
	p->start_unix_ns = a->host.start_unix_ns;
	p->start_boot_ns = a->host.start_boot_ns;
	p->duration_ns = sub_capped(end, start);
	p->ended = a->has_end;
	p->target_killed = a->end.flags & PERFX_END_TARGET_KILLED;
	p->target_exited = a->end.flags & PERFX_END_TARGET_EXITED;
	p->interrupted = a->end.flags & PERFX_END_INTERRUPTED;
	p->tracer_cpu_ns = a->has_end ? a->end.tracer_cpu_ns : PROFILE_ABSENT;
	p->recording_cpu_ns = a->end.recording_cpu_ns;
	p->energy = energy_of_host(&a->energy);
	p->tracer_rss_anon_bytes = a->has_end ? a->end.tracer_rss_anon_bytes : PROFILE_ABSENT;
	p->tracer_rss_peak_bytes = a->end.tracer_rss_peak_bytes;
	/* 0: an older capture, which does not say how often maps were read */
	p->maps_read_count = a->end.maps_read_count ? a->end.maps_read_count : PROFILE_ABSENT;
	p->untraced_read_count =
		a->end.maps_read_count ? a->end.untraced_read_count : PROFILE_ABSENT;
	p->functions = a->functions;
	p->functions_count = a->functions_count;
	p->reduced = a->reduced;
	p->reduced_count = a->reduced_count;
	p->not_attached = a->not_attached;
	p->not_attached_count = a->not_attached_count;
	p->late = a->late;
	p->late_count = a->late_count;
	p->calibrations = a->calibrations;
	p->calibrations_count = a->calibrations_count;
	p->peaks = a->peaks;
	p->peaks_count = a->peaks_count;
	p->time_slice =
		(struct profile_time_slice){.flags = a->time_slice.flags,
					    .recording_ns = a->time_slice.recording_ns,
					    .left_out_count = a->time_slice.left_out_count,
					    .left_out = a->time_slice.left_out,
					    .why = a->time_slice_why ? a->time_slice_why : "",
					    .step_process = a->time_slice.step_process,
					    .step_from_ns = a->time_slice.step_from_ns,
					    .step_to_ns = a->time_slice.step_to_ns};
	memcpy(p->perf_counters, a->perf_counters, sizeof(p->perf_counters));
	p->perf_counters_why = a->perf_counters_why;
	return 0;
}

ORDER(by_start, struct profile_process, ASCENDING(a->from_ns, b->from_ns),
      ASCENDING(a->index, b->index))

static bool is_shown(const struct aggregate *a, uint32_t process)
{
	return a->processes[process] && a->processes[process]->origin != PROCESS_UNKNOWN &&
	       !process_is_bygone(a, a->processes[process]);
}

/* Steps of the first moments, which tracing slowed most, stand for no others. Of the functions that
 * have no name of their own one may have been removed that does not end steps: then these go on. */
static struct profile_steps steps_fill(const struct finish_ctx *w, uint32_t index,
				       const struct profile_process *process)
{
	const struct profile *p = w->profile;
	struct profile_steps steps = steps_of_process(&w->a->steps, index);
	uint64_t ended_ns, rest_ns;
	uint32_t with;

	ended_ns = steps.times_count ? calls_seen_until(w->a, index, steps.function, &with) : 0;
	rest_ns = profile_recorded_between(p, ended_ns, process->to_ns);
	if (!ended_ns ||
	    profile_recorded_between(p, ended_ns, steps.times[steps.times_count - 1].to_ns) >
		    rest_ns / 2)
		return steps;
	if (2 * rest_ns > profile_recorded_ns(p, process))
		steps = (struct profile_steps){.run = steps.run};
	steps.ended_ns = ended_ns;
	steps.ended_with = with;
	return steps;
}

static int fill_processes(struct finish_ctx *w)
{
	const struct aggregate *a = w->a;
	struct profile *p = w->profile;
	size_t shown_count = 0; /* far fewer than indices, where these are used again */
	int err = 0;

	for (uint32_t i = 0; i < a->processes_count; i++)
		shown_count += is_shown(a, i);
	p->processes = calloc(shown_count + 1, sizeof(*p->processes));
	w->places = malloc((a->processes_count + 1) * sizeof(*w->places));
	w->rows_of = calloc(a->processes_count + 1, sizeof(*w->rows_of));
	if (!p->processes || !w->places || !w->rows_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->processes_count && !err; i++) {
		struct profile_process *process = &p->processes[p->processes_count];

		w->places[i] = MAP64_NONE;
		if (!is_shown(a, i))
			continue;
		err = process_fill(a, i, process);
		process->steps = steps_fill(w, i, process);
		process->energy = energy_of_process(&a->energy, i, &process->steps);
		if (!a->has_off_cpu)
			process->steps.off_cpu_ns = PROFILE_ABSENT;
		p->processes_count++;
	}
	if (err)
		return err;
	SORT_ITEMS(p->processes, p->processes_count, by_start);
	for (uint32_t i = 0; i < p->processes_count; i++)
		w->places[p->processes[i].index] = i;
	return 0;
}

/* The share of the processes' lives before the tracer found them (-a): calls in that time are
 * missing. A delay after a traced process has mapped a file does not count: only calls into that
 * file are missing, and only while it was being loaded. */
static double late_share(const struct profile *p)
{
	uint64_t late_ns = 0, all_ns = 0;

	for (size_t i = 0; i < p->processes_count; i++) {
		const struct profile_process *process = &p->processes[i];
		uint64_t longest_ns = 0;

		for (size_t k = 0; k < p->late_count; k++)
			if (p->late[k].process == process->index &&
			    p->late[k].since_ns < process->from_ns &&
			    p->late[k].late_ns > longest_ns)
				longest_ns = p->late[k].late_ns;
		add_up(&late_ns, longest_ns);
		add_up(&all_ns, add_capped(profile_wall_ns(process), longest_ns));
	}
	return all_ns ? (double)late_ns / (double)all_ns : 0;
}

static int fill_losses(struct finish_ctx *w)
{
	struct profile *p = w->profile;

	p->gpu_activities_count = w->a->gpu.activities_count;
	p->gpu_calls_count = w->a->gpu.called_count;
	memcpy(p->losses, w->a->losses, sizeof(p->losses));
	add_up(&p->losses[PERFX_LOSS_UNDECODED], w->hidden_records);
	if (p->target_killed)
		p->partial |= PROFILE_PARTIAL_KILLED;
	if (!p->ended || p->losses[PERFX_LOSS_TRUNCATED_BYTES])
		p->partial |= PROFILE_PARTIAL_TRUNCATED;
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		if (profile_loss_share(p, i) > PROFILE_LOSSY_SHARE)
			p->partial |= PROFILE_PARTIAL_LOSSY;
	if (late_share(p) > PROFILE_LOSSY_SHARE)
		p->partial |= PROFILE_PARTIAL_LOSSY;
	return 0;
}

/* The steps that fill the profile, in order: each uses the results of those before it. */
static int (*const fill_parts[])(struct finish_ctx *ctx) = {
	fill_host,
	merged_fill,
	fill_recording_windows,
	object_costs_settle,
	periods_fill,
	calls_find_evaluations,
	fill_processes,
	stacks_fill,
	sum_contexts,
	compute_sum,
	fill_rows,
	fill_contexts,
	compute_fill,
	memory_fill,
	samples_fill,
	parallel_fill,
	lines_fill,
	values_fill,
	gpu_fill,
	untraced_fill,
	overhead_fill,
	fill_losses,
};

const struct profile *aggregate__finish(struct aggregate *a)
{
	struct finish_ctx w = {.a = a, .profile = &a->profile};
	int err = 0;

	profile_clear(&a->profile);
	for (size_t i = 0; i < sizeof(fill_parts) / sizeof(fill_parts[0]) && !err; i++)
		err = fill_parts[i](&w);
	free(w.sums);
	free(w.row_costs);
	free(w.places);
	free(w.edges);
	free(w.rows_of);
	if (!err)
		return &a->profile;
	profile_clear(&a->profile);
	errno = -err;
	return NULL;
}
