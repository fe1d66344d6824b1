// SPDX-License-Identifier: BSD-2-Clause
/* Whom a recording is about: targets, their children, what they execute and map later. */
#include "record/recorder_internal.h"
#include "target/process.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Which of the pids in the family may share files with strangers. */
static bool for_everybody(struct recorder *recorder, size_t module)
{
	size_t count;
	const pid_t *pids = books__pids(recorder->books, &count);

	return recorder->options->all ||
	       !module_is_shared(&recorder->plan->modules[module], pids, count);
}

/* What a process maps now is what its stacks' addresses mean. */
static void look_at_mappings(struct recorder *recorder, pid_t pid)
{
	struct perfx_family family;

	if (recorder->frames && !tracer__family(recorder->tracer, pid, &family))
		frames__map(recorder->frames, family.memory_process, pid);
}

/* Attaches for a process what it maps and what is planned for that. */
static ssize_t attach_process(struct recorder *recorder, pid_t pid)
{
	bool trusted = recorder->plan->c_alone;
	size_t *modules;
	ssize_t count = plan__scan(recorder->plan, pid, &modules);

	if (count < 0)
		return count;
	look_at_mappings(recorder, pid);
	if (recorder->plan->many_stacks)
		tracer__expect_many_stacks(recorder->tracer);
	if (trusted && !recorder->plan->c_alone)
		probes__distrust_returns(recorder->probes);
	memory__consider(recorder->memory);
	for (ssize_t i = 0; i < count; i++)
		probes__attach(recorder->probes, modules[i], pid,
			       for_everybody(recorder, modules[i]));
	free(modules);
	return count;
}

static void on_fork(struct recorder *recorder, const struct perfx_fork *fork)
{
	books__on_fork(recorder->books, fork);
	if (recorder->frames)
		frames__fork(recorder->frames, fork->process, fork->parent_process);
	/* files that others map too have links by process: the child needs its own */
	attach_process(recorder, (pid_t)fork->pid);
	if (probes__go_by_process(recorder->probes))
		plan__refuse(recorder->plan, "first moments of forked children",
			     "other programs map the same files, so each child gets probes of its "
			     "own once it runs");
}

static void on_exit_event(struct recorder *recorder, const struct perfx_exit *exit)
{
	books__on_exit(recorder->books, exit);
	if ((pid_t)exit->pid == recorder->main_pid) {
		recorder->main_ended = true;
		recorder->main_status = exit->status;
	}
}

void follow_record(void *ctx, const struct perfx_record *record)
{
	struct recorder *recorder = ctx;

	switch (record->kind) {
	case PERFX_KIND_FORK:
		on_fork(recorder, (const struct perfx_fork *)record);
		break;
	case PERFX_KIND_EXEC:
		books__on_exec(recorder->books, (const struct perfx_exec *)record);
		attach_process(recorder, (pid_t)((const struct perfx_exec *)record)->pid);
		break;
	case PERFX_KIND_STACK:
		if (recorder->frames)
			frames__stack(recorder->frames, (const struct perfx_stack *)record);
		break;
	case PERFX_KIND_WINDOW:
		window_turns(recorder, (const struct perfx_window *)record);
		break;
	case PERFX_KIND_EXIT:
		on_exit_event(recorder, (const struct perfx_exit *)record);
		break;
	}
}

void follow_object(void *ctx, const struct perfx_object_record *record)
{
	struct recorder *recorder = ctx;

	operations__on_object(recorder->operations, record);
}

static void note_mapping(pid_t pid, void *ctx)
{
	struct recorder *recorder = ctx;
	pid_t *scans;

	if (!pid)
		recorder->rescan = true;
	if (!pid || (!recorder->options->all && !books__has(recorder->books, pid)))
		return;
	for (size_t i = 0; i < recorder->scans_count; i++)
		if (recorder->scans[i] == pid)
			return;
	scans = realloc(recorder->scans, (recorder->scans_count + 1) * sizeof(*scans));
	if (!scans)
		return;
	recorder->scans = scans;
	scans[recorder->scans_count++] = pid;
}

static bool worth_tracing(struct recorder *recorder, const size_t *modules, ssize_t count)
{
	for (ssize_t i = 0; i < count; i++)
		if (recorder->plan->modules[modules[i]].is_ml)
			return true;
	return false;
}

/* -a: a process that has not been known becomes a member when it maps something of interest. */
static void adopt(struct recorder *recorder, pid_t pid)
{
	size_t *modules = NULL;
	ssize_t count;
	int64_t process;

	if (books__has(recorder->books, pid) || pid == getpid())
		return;
	count = plan__scan(recorder->plan, pid, &modules);
	if (count > 0 && worth_tracing(recorder, modules, count)) {
		process = tracer__add_family(recorder->tracer, pid, NULL);
		if (process > 0)
			books__open(recorder->books, (uint32_t)process, pid);
	}
	free(modules);
}

void follow_mappings(struct recorder *recorder)
{
	size_t count;
	const pid_t *pids;

	mappings__take(recorder->mappings, note_mapping, recorder);
	if (recorder->rescan) {
		recorder->rescan = false;
		pids = books__pids(recorder->books, &count);
		for (size_t i = 0; i < count; i++)
			note_mapping(pids[i], recorder);
	}
	for (size_t i = 0; i < recorder->scans_count; i++) {
		if (recorder->options->all)
			adopt(recorder, recorder->scans[i]);
		if (books__has(recorder->books, recorder->scans[i]))
			attach_process(recorder, recorder->scans[i]);
	}
	recorder->scans_count = 0;
}

/* Adds a process and, unless told not to, its living descendants. */
static int add_target(struct recorder *recorder, pid_t pid)
{
	pid_t *children = NULL;
	bool existed;
	int64_t process = tracer__add_family(recorder->tracer, pid, &existed);
	ssize_t count;
	int err;

	if (process < 0)
		return (int)process;
	if (!books__has(recorder->books, pid)) {
		err = books__open(recorder->books, (uint32_t)process, pid);
		if (err)
			return err;
	}
	if (!recorder->options->follow_children)
		return 0;
	/* after the family is in the kernel: a child born meanwhile comes by its fork record */
	count = process_descendants(pid, &children);
	for (ssize_t i = 0; i < count; i++) {
		if (children[i] == getpid()) /* a program may have itself traced */
			continue;
		process = tracer__add_family(recorder->tracer, children[i], &existed);
		if (process > 0 && !existed)
			books__open(recorder->books, (uint32_t)process, children[i]);
	}
	free(children);
	return 0;
}

int follow_targets(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	pid_t *everybody = NULL;
	ssize_t count;
	int err;

	for (size_t i = 0; i < options->pids_count; i++) {
		err = add_target(recorder, options->pids[i]);
		if (err)
			return err;
	}
	if (options->launch)
		return add_target(recorder, launch__pid(options->launch));
	if (!options->all)
		return 0;
	count = process_find(NULL, &everybody);
	for (ssize_t i = 0; i < count; i++)
		adopt(recorder, everybody[i]);
	free(everybody);
	return 0;
}

/* What it maps later and marks ranges by from its first call on: nobody else maps these files. */
static void attach_ahead(struct recorder *recorder)
{
	const struct launch *launch = recorder->options->launch;
	size_t count;
	char *const *files = launch__files(launch, &count);

	for (size_t i = 0; i < count; i++) {
		ssize_t module = plan__add_file(recorder->plan, files[i]);

		if (module >= 0)
			probes__attach(recorder->probes, (size_t)module, launch__pid(launch), true);
	}
}

int follow_attach(struct recorder *recorder)
{
	size_t count, i = 0;
	const pid_t *pids = books__pids(recorder->books, &count);

	while (i < count) {
		ssize_t err = attach_process(recorder, pids[i]);

		if (err < 0 && err != -ESRCH && err != -ENOENT) {
			say_scan_error(pids[i], recorder, err);
			return (int)err;
		}
		i++;
		pids = books__pids(recorder->books, &count);
	}
	if (recorder->options->launch)
		attach_ahead(recorder);
	return 0;
}
