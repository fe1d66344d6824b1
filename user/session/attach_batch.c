// SPDX-License-Identifier: BSD-2-Clause
/* How the files of the processes that are followed get probes. */
#include "attach/memory.h"
#include "attach/probes.h"
#include "attach/tracer.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/order.h"
#include "proc/process.h"
#include "session/follow_internal.h"
#include "session/process_table.h"
#include "session/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void attach_batch_clear(struct attach_batch *batch)
{
	FOR_EACH (job, batch->jobs)
		free(job->modules);
	free(batch->jobs);
	free(batch->files);
}

static int check_sharing(struct follow *follow, struct attach_batch *batch, size_t module)
{
	if (follow->recording->plan->modules[module].successor || follow->recording->options->all ||
	    probes__decided(follow->recording->probes, module))
		return 0;
	FOR_EACH (file, batch->files)
		if (file->module == module)
			return 0;
	return LIST_ADD(batch->files, (struct sharing){.module = module});
}

/* Takes ownership of the job's modules. */
static int add_job(struct follow *follow, struct attach_batch *batch, const struct attach_job *job)
{
	int err = LIST_ADD(batch->jobs, *job);

	if (err) {
		free(job->modules);
		return err;
	}
	for (size_t i = 0; !err && i < job->modules_count; i++)
		err = check_sharing(follow, batch, job->modules[i]);
	return err;
}

bool follow_was_attached(const struct follow *follow, size_t module, uint32_t born,
			 uint64_t since_ns)
{
	const struct probes *probes = follow->recording->probes;

	return probes__attached_for(probes, module, born) &&
	       (!since_ns || probes__opened_ns(probes, module) <= since_ns);
}

/* Does the pid still belong to the process that had it? */
static bool is_same(const struct follow *follow, pid_t pid, uint32_t born)
{
	struct perfx_traced_process traced;

	return !tracer__traced_process(follow->recording->tracer, pid, &traced) &&
	       traced.born == born;
}

ssize_t attach_batch_scan(struct follow *follow, struct attach_batch *batch,
			  const struct attach_task *task)
{
	struct recording *recording = follow->recording;
	const struct plan *plan = recording->plan;
	struct attach_job job = {.task = *task,
				 .born = process_table__born(recording->processes, task->pid)};
	ssize_t count;

	if (!is_same(follow, task->pid, job.born))
		return -ESRCH;
	if (follow_maps_as_parent(follow, task))
		job.parent = process_table__born(recording->processes, task->parent);
	if (job.parent)
		return add_job(follow, batch, &job) ?: 1;
	count = plan__scan(recording->plan, task->pid, &job.modules);
	if (count < 0)
		return count;
	follow_update_mappings(follow, task);
	/* keeps the modules that were not attached for the process at its event */
	for (ssize_t i = 0; i < count; i++) {
		size_t module = job.modules[i];

		if (!plan->modules[module].functions_count)
			continue;
		if (!follow_was_attached(follow, module, job.born, task->since_ns) &&
		    (!plan->modules[module].successor || process_holds(task->pid, plan, module)))
			job.modules[job.modules_count++] = module;
	}
	if (job.modules_count)
		return add_job(follow, batch, &job) ?: (ssize_t)job.modules_count;
	free(job.modules);
	return 0;
}

static bool for_all_processes(const struct follow *follow, const struct attach_batch *batch,
			      size_t module)
{
	/* some may still have the old content */
	if (follow->recording->plan->modules[module].successor)
		return false;
	FOR_EACH (file, batch->files)
		if (file->module == module)
			return !file->shared;
	return true;
}

void follow_release_if_ended(struct follow *follow, pid_t pid, uint32_t born)
{
	if (!is_same(follow, pid, born))
		probes__release(follow->recording->probes, born);
}

/* Finds the files that are attached for the parent, which comes before its child in a batch. */
static void find_inherited(const struct follow *follow, struct attach_job *job)
{
	struct recording *recording = follow->recording;
	const struct probes *probes = recording->probes;
	size_t count = recording->plan->modules_count;

	job->modules = calloc(count + 1, sizeof(*job->modules));
	if (!job->modules)
		skipped_add(&recording->skipped, "files of a forked child", "out of memory");
	for (size_t i = 0; job->modules && i < count; i++)
		if (probes__attached_for(probes, i, job->parent) &&
		    !probes__attached_for(probes, i, job->born))
			job->modules[job->modules_count++] = i;
}

static void attach_jobs(struct follow *follow, const struct attach_batch *batch, bool executed)
{
	FOR_EACH (job, batch->jobs) {
		if ((job->task.cause == ATTACH_EXECUTED) != executed)
			continue;
		if (job->parent)
			find_inherited(follow, job);
		for (size_t i = 0; i < job->modules_count; i++)
			probes__attach(follow->recording->probes, job->modules[i], job->born,
				       job->task.pid,
				       for_all_processes(follow, batch, job->modules[i]));
		follow_release_if_ended(follow, job->task.pid, job->born);
	}
}

/* Targets are attached before the recording begins: they are never late. */
static void emit_attached(struct follow *follow, const struct attach_job *job)
{
	struct perfx_traced_process traced;
	struct perfx_late late = {0};
	const char *path = NULL;

	for (size_t i = 0; i < job->modules_count; i++) {
		size_t count = probes__attached_count(follow->recording->probes, job->modules[i]);

		if (!count)
			continue;
		path = path ?: follow->recording->plan->modules[job->modules[i]].path;
		late.time_ns = max_u64(late.time_ns, probes__opened_ns(follow->recording->probes,
								       job->modules[i]));
		late.functions_count += (uint32_t)count;
		late.files_count++;
	}
	if (!job->task.since_ns || !path)
		return;
	if (tracer__traced_process(follow->recording->tracer, job->task.pid, &traced) ||
	    traced.born != job->born) {
		/* it has ended, and another may have its pid: its EXIT record follows */
		follow_enqueue(follow, &job->task);
	} else {
		late.process = traced.process;
		follow_emit_late(follow, &job->task, &late, path);
	}
}

bool follow_is_traced(pid_t pid, void *follow)
{
	struct perfx_traced_process traced;

	return !tracer__traced_process(((const struct follow *)follow)->recording->tracer, pid,
				       &traced);
}

void attach_batch_open(struct follow *follow, struct attach_batch *batch)
{
	file_watch__follow(follow->file_watch, follow->recording->plan);
	/* untraced children inherit mappings, and nothing reports those */
	if (!follow->mappings || !follow->recording->options->follow_children)
		follow->untraced_files.complete = false;
	if (batch->files_count)
		follow->result.untraced_read_count +=
			sharing_find(&follow->untraced_files, follow->recording->plan,
				     follow_is_traced, follow, batch->files, batch->files_count);
	memory__consider(follow->recording->memory);
	/* new programs first: their files may not be attached yet, while a child's are attached
	 * for its parent */
	attach_jobs(follow, batch, true);
	attach_jobs(follow, batch, false);
	probes__open(follow->recording->probes);
	FOR_EACH (job, batch->jobs) {
		if (!job->parent)
			follow->opened_ns = clock_monotonic_ns();
		emit_attached(follow, job);
	}
}

#define EARLY_MAX 4096

void early_files_add(struct early_files *early, const struct new_mapping *mapping)
{
	const struct mapping *file = &mapping->mapping;

	if (early->files_count == EARLY_MAX || GROW_BY_ONE(early->files))
		return;
	early->files[early->files_count++] = (struct early_file){
		mapping->pid, file->dev_major, file->dev_minor, file->inode, strdup(file->path)};
}

static ssize_t planned_module(const struct plan *plan, const struct early_file *file)
{
	return plan__find(plan, file->inode, file->dev_major, file->dev_minor);
}

/* 1: the process mapped a file of interest; 0: none; -1: one of its files cannot be read any more.
 */
static int early_files_are_ml(const struct early_files *early, const struct plan *plan, pid_t pid)
{
	int found = 0;

	FOR_EACH (file, early->files) {
		ssize_t module = planned_module(plan, file);

		if (file->pid != pid)
			continue;
		if (module >= 0 && plan->modules[module].is_ml)
			return 1;
		found = module < 0 ? -1 : found;
	}
	return found;
}

static void early_files_forget(struct early_files *early, pid_t pid)
{
	size_t kept = 0;

	FOR_EACH (file, early->files) {
		if (file->pid == pid)
			free(file->path);
		else
			early->files[kept++] = *file;
	}
	early->files_count = kept;
}

void early_files_clear(struct early_files *early)
{
	FOR_EACH (file, early->files)
		free(file->path);
	free(early->files);
}

void follow_count_missed(struct follow *follow)
{
	struct early_files *early = &follow->early;

	if (!early->files_count)
		return;
	/* plans the files of processes that have ended, and attaches those of interest for all
	 * processes */
	FOR_EACH (file, early->files) {
		ssize_t module = planned_module(follow->recording->plan, file);

		if (module < 0 && file->path && process_has_ended(file->pid) &&
		    plan__add_file(follow->recording->plan, file->path, file->inode) >= 0)
			module = planned_module(follow->recording->plan, file);
		if (module >= 0 && follow->recording->plan->modules[module].is_ml)
			probes__attach(follow->recording->probes, (size_t)module, 0, 0, true);
	}
	probes__open(follow->recording->probes);
	for (size_t i = 0; i < early->files_count;) {
		pid_t pid = early->files[i].pid;
		bool traced = process_table__has(follow->recording->processes, pid);
		bool ended = !traced && process_has_ended(pid);
		int is_ml = ended ? early_files_are_ml(early, follow->recording->plan, pid) : 0;

		if (!traced && !ended && attach_queue__has(follow->queue, pid)) {
			i++;
			continue;
		}
		follow->result.missed_count += is_ml > 0;
		if (is_ml < 0)
			skipped_hint(&follow->recording->skipped, "short-lived processes",
				     "some ended before it was known what they run, and the file "
				     "is not there any more");
		early_files_forget(early, pid);
	}
}
