// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/state.h"

#include <stdlib.h>
#include <string.h>

struct merged_capture *merged_get(struct aggregate *a, uint32_t id)
{
	struct merged *merged = &a->merged;

	errno = ERANGE;
	if (id > PERFX_MERGED_MAX)
		return NULL;
	return grow_to(&merged->list, &merged->capacity, &merged->count, id, sizeof(*merged->list));
}

int handle_merged(struct aggregate *a, const struct event *event)
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

void merged_clear(struct merged *merged)
{
	free(merged->list);
	free(merged->shown);
	*merged = (struct merged){0};
}

/* NULL: it is not described. */
static const struct perfx_merged *record_of(const struct aggregate *a, uint32_t id)
{
	return id && id < a->merged.count && a->merged.list[id].record.merged
		       ? &a->merged.list[id].record
		       : NULL;
}

uint64_t merged_start_ns(const struct aggregate *a, uint32_t id)
{
	const struct perfx_merged *record = record_of(a, id);
	uint64_t start_ns = a->has_host ? a->host.start_ns : a->first_ns;

	/* a slice may begin later than the capture did */
	return record ? max_u64(record->start_ns, start_ns) : start_ns;
}

uint64_t merged_end_ns(const struct aggregate *a, uint32_t id)
{
	const struct perfx_merged *record = record_of(a, id);
	uint64_t end_ns = a->has_end ? a->end.time_ns : a->last_ns;

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

/* Two tracers of one machine have both measured all of it. */
static bool is_counted(const struct profile *p, const char *boot_id)
{
	for (size_t i = 0; i < p->captures_count; i++)
		if (!strcmp(p->captures[i].boot_id, boot_id))
			return true;
	return false;
}

static void add_measured(uint64_t *sum, uint64_t more)
{
	if (more != PROFILE_ABSENT)
		*sum = *sum == PROFILE_ABSENT ? more : add_capped(*sum, more);
}

static void show(struct profile *p, const struct merged_capture *capture)
{
	struct profile_capture *shown = &p->captures[p->captures_count];
	uint64_t busy_ns, steal_ns;

	*shown = (struct profile_capture){.host_name = capture->strings[0],
					  .kernel = capture->strings[1],
					  .boot_id = capture->strings[2],
					  .command = capture->strings[3],
					  .tool_version = capture->strings[4],
					  .facts = capture->record};
	memcpy(shown->losses, capture->losses, sizeof(shown->losses));
	fill_usage(&capture->usage, &busy_ns, &steal_ns);
	if (!is_counted(p, shown->boot_id)) {
		p->hosts_count++;
		add_measured(&p->host_busy_ns, busy_ns);
		add_measured(&p->host_steal_ns, steal_ns);
	}
	p->captures_count++;
}

int merged_fill(struct finish_ctx *ctx)
{
	struct aggregate *a = ctx->a;
	struct profile *p = ctx->profile;
	static const struct host_usage none;

	fill_usage(a->merged.count ? &a->merged.list[0].usage : &none, &p->host_busy_ns,
		   &p->host_steal_ns);
	free(a->merged.shown);
	a->merged.shown = calloc(a->merged.count + 1, sizeof(*a->merged.shown));
	if (!a->merged.shown)
		return -ENOMEM;
	p->captures = a->merged.shown;
	for (size_t i = 1; i < a->merged.count; i++)
		if (a->merged.list[i].record.merged)
			show(p, &a->merged.list[i]);
	if (!p->captures_count)
		p->hosts_count = 1;
	return 0;
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

/* The outermost traced process above it, or itself. Pids that were used again could form a loop. */
static const struct profile_process *ancestor_of(const struct profile *profile,
						 const struct profile_process *process)
{
	const struct profile_process *parent = profile_parent(profile, process);

	for (size_t depth = 0; parent && depth < profile->processes_count; depth++) {
		process = parent;
		parent = profile_parent(profile, process);
	}
	return process;
}

bool profile_is_same_job(const struct profile *profile, const struct profile_process *a,
			 const struct profile_process *b)
{
	const struct profile_process *of_a, *of_b;

	if (a->rank.world_size > 1 && b->rank.world_size > 1 && a->rank.job && b->rank.job &&
	    a->rank.job[0])
		return !strcmp(a->rank.job, b->rank.job);
	if (!is_same_machine(profile, a, b))
		return false;
	of_a = ancestor_of(profile, a);
	of_b = ancestor_of(profile, b);
	/* init adopts strangers */
	return of_a->pid == of_b->pid ||
	       (of_a->ppid == of_b->ppid && of_a->ppid != 1 && !strcmp(of_a->comm, of_b->comm));
}
