// SPDX-License-Identifier: BSD-2-Clause
/* Figures that readers derive from a profile. */
#include "aggregate/gpu.h"
#include "aggregate/memory.h"

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
		free(process->states);
		free(process->tasks);
		free(process->end.samples);
		free(process->files);
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
	free(profile->last_slices);
	free(profile->slice_spans);
	*profile = (struct profile){0};
}

double profile_calls_per_s(const struct profile *p, const struct profile_process *process,
			   const struct profile_row *row)
{
	uint64_t ns = sub_capped(profile_recorded_ns(p, process), process->steps.startup_ns);

	return ns ? 1e9 * (double)row->calls_count / (double)ns : -1;
}

const struct profile_function *profile_function(const struct profile *profile, uint32_t id)
{
	if (id == 0 || id > profile->functions_count || !profile->functions[id - 1].id)
		return NULL;
	return &profile->functions[id - 1];
}

struct profile_sample_sums profile_sample_sums(const struct profile_process *process)
{
	struct profile_sample_sums sums = {0};

	for (size_t i = 0; i < process->samples.count; i++) {
		const struct profile_activity *sample = &process->samples.list[i];
		bool on_cpu = sample->state == PERFX_SAMPLE_ON_CPU;

		add_up(on_cpu ? &sums.on_cpu_count : &sums.off_cpu_count, sample->count);
		add_up(on_cpu ? &sums.on_cpu_ns : &sums.off_cpu_ns, sample->ns);
	}
	return sums;
}

const struct profile_thread *profile_thread(const struct profile_process *process, uint32_t tid)
{
	FOR_EACH (thread, process->threads)
		if (thread->tid == tid)
			return thread;
	return NULL;
}

const char *profile_thread_name(const struct profile_process *process, uint32_t tid)
{
	const struct profile_thread *thread = profile_thread(process, tid);

	return thread && thread->comm ? thread->comm : "";
}

enum perfx_dtype profile_main_dtype(const uint64_t dtypes[PERFX_DTYPES])
{
	enum perfx_dtype most = PERFX_DTYPE_UNKNOWN;

	for (int i = PERFX_DTYPE_UNKNOWN + 1; i < PERFX_DTYPES; i++)
		if (dtypes[i] && (!most || dtypes[i] > dtypes[most]))
			most = i;
	return most;
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
	case PERFX_LOSS_SLICE_DROPS:
		of = add_capped(profile->slices_count, count);
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

/* NULL: nothing was merged. */
static const struct profile_capture *profile_capture_of(const struct profile *profile,
							const struct profile_process *process)
{
	for (size_t i = 0; process->merged && i < profile->captures_count; i++)
		if (profile->captures[i].facts.merged == process->merged)
			return &profile->captures[i];
	return NULL;
}

const char *profile_host_name(const struct profile *profile, const struct profile_process *process)
{
	const struct profile_capture *capture = profile_capture_of(profile, process);

	return capture ? capture->host_name : profile->host_name;
}

static bool is_same_machine(const struct profile *profile, const struct profile_process *a,
			    const struct profile_process *b)
{
	const struct profile_capture *of_a = profile_capture_of(profile, a),
				     *of_b = profile_capture_of(profile, b);

	return of_a == of_b || (of_a && of_b && !strcmp(of_a->boot_id, of_b->boot_id));
}

bool profile_is_child(const struct profile *profile, const struct profile_process *child,
		      const struct profile_process *parent)
{
	return child->ppid == parent->pid && is_same_machine(profile, child, parent);
}

const struct profile_process *profile_parent(const struct profile *profile,
					     const struct profile_process *process)
{
	for (size_t i = 0; i < profile->processes_count; i++)
		if (&profile->processes[i] != process &&
		    profile_is_child(profile, process, &profile->processes[i]))
			return &profile->processes[i];
	return NULL;
}

/* Pids that were used again could form a loop. */
static const struct profile_process *find_ancestor(const struct profile *profile,
						   const struct profile_process *process)
{
	const struct profile_process *above = profile_parent(profile, process), *ancestor = NULL;

	for (size_t depth = 0; above && depth < profile->processes_count; depth++) {
		ancestor = above;
		above = above->ancestor ?: profile_parent(profile, above);
	}
	return ancestor;
}

void profile_find_ancestors(struct profile *profile)
{
	FOR_EACH (process, profile->processes)
		process->ancestor = find_ancestor(profile, process);
}

bool profile_is_same_job(const struct profile *profile, const struct profile_process *a,
			 const struct profile_process *b)
{
	const struct profile_process *of_a = a->ancestor ?: a, *of_b = b->ancestor ?: b;

	if (a->rank.world_size > 1 && b->rank.world_size > 1 && a->rank.job && b->rank.job &&
	    a->rank.job[0])
		return !strcmp(a->rank.job, b->rank.job);
	if (!is_same_machine(profile, a, b))
		return false;
	/* init adopts strangers */
	return of_a->pid == of_b->pid ||
	       (of_a->ppid == of_b->ppid && of_a->ppid != 1 && !strcmp(of_a->comm, of_b->comm));
}
