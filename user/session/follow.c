// SPDX-License-Identifier: BSD-2-Clause
/* Whom a recording is about: targets, their children, what they execute and map later. */
#include "attach/mapped_files.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "decode/pack.h"
#include "proc/process.h"
#include "session/recorder_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* What a process maps now is what its stacks' addresses mean. */
static void look_at_mappings(struct recorder *recorder, pid_t pid)
{
	struct perfx_traced_process traced;

	recorder->looks_count++;
	if (recorder->frames && !tracer__traced_process(recorder->tracer, pid, &traced))
		frames__map(recorder->frames, traced.memory_process, pid);
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

	if (process_table__has(recorder->processes, pid) || pid == getpid())
		return;
	count = plan__scan(recorder->plan, pid, &modules);
	if (count > 0 && worth_tracing(recorder, modules, count)) {
		process = tracer__add_process(recorder->tracer, pid, NULL);
		if (process > 0)
			process_table__open(recorder->processes, (uint32_t)process, pid);
	}
	free(modules);
}

/* --- attaching: worked off between drains, for many processes at once --- */

/* More wait for the next drain. */
#define BATCH_MAX 64

/* What is planned in the files that a process maps. */
struct job {
	struct attach_task task;
	uint32_t born;	 /* the process's first index */
	size_t *modules; /* malloc'd */
	size_t modules_count;
};

struct batch {
	struct job *jobs;
	size_t jobs_count, jobs_capacity;
	struct sharing
		*files; /* those of which it has to be found out which other processes map them */
	size_t files_count, files_capacity;
};

static void batch_clear(struct batch *batch)
{
	for (size_t i = 0; i < batch->jobs_count; i++)
		free(batch->jobs[i].modules);
	free(batch->jobs);
	free(batch->files);
}

static int want_sharing(struct recorder *recorder, struct batch *batch, size_t module)
{
	if (recorder->plan->modules[module].successor)
		return 0;
	if (recorder->options->all || probes__decided(recorder->probes, module))
		return 0;
	for (size_t i = 0; i < batch->files_count; i++)
		if (batch->files[i].module == module)
			return 0;
	if (grow_array(&batch->files, &batch->files_capacity, batch->files_count + 1,
		       sizeof(*batch->files)))
		return -ENOMEM;
	batch->files[batch->files_count++] = (struct sharing){.module = module};
	return 0;
}

/* Says what was not seen of a process since then; or, without a file, of one that has ended. */
static void emit_late(struct recorder *recorder, const struct attach_task *task,
		      struct perfx_late *record, const char *path)
{
	static const enum perfx_late_cause causes[] = {[ATTACH_MOVED] = PERFX_LATE_MAPPED,
						       [ATTACH_FORKED] = PERFX_LATE_FORKED,
						       [ATTACH_MAPPED] = PERFX_LATE_MAPPED,
						       [ATTACH_EXECUTED] = PERFX_LATE_EXECUTED};

	record->since_ns = task->since_ns;
	record->cause = causes[task->cause];
	SINK_PACK(recorder->sink, &recorder->late, PERFX_KIND_LATE, *record, path);
}

/* Takes the modules over. */
static int add_job(struct recorder *recorder, struct batch *batch, const struct job *job)
{
	int err = grow_array(&batch->jobs, &batch->jobs_capacity, batch->jobs_count + 1,
			     sizeof(*batch->jobs));

	if (err) {
		free(job->modules);
		return err;
	}
	batch->jobs[batch->jobs_count++] = *job;
	for (size_t i = 0; !err && i < job->modules_count; i++)
		err = want_sharing(recorder, batch, job->modules[i]);
	return err;
}

/* Keeps of the modules those that are not attached for the process yet. */
static size_t only_new(const struct recorder *recorder, pid_t pid, uint32_t born, size_t *modules,
		       size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!probes__attached_for(recorder->probes, modules[i], born) &&
		    (!recorder->plan->modules[modules[i]].successor ||
		     process_holds(pid, recorder->plan, modules[i])))
			modules[kept++] = modules[i];
	return kept;
}

/* Is the process that has this pid still the one that we know by it? */
static bool is_same(const struct recorder *recorder, pid_t pid, uint32_t born)
{
	struct perfx_traced_process traced;

	return !tracer__traced_process(recorder->tracer, pid, &traced) && traced.born == born;
}

/* Adds what a process maps and what is planned for that. How many modules are to be attached, or
 * -errno. */
static ssize_t look_at(struct recorder *recorder, struct batch *batch,
		       const struct attach_task *task)
{
	struct job job = {.task = *task,
			  .born = process_table__born(recorder->processes, task->pid)};
	ssize_t count;
	int err;

	if (!is_same(recorder, task->pid, job.born))
		return -ESRCH;
	count = plan__scan(recorder->plan, task->pid, &job.modules);
	if (count < 0)
		return count;
	look_at_mappings(recorder, task->pid);
	job.modules_count = only_new(recorder, task->pid, job.born, job.modules, (size_t)count);
	if (!job.modules_count) {
		free(job.modules);
		return 0;
	}
	err = add_job(recorder, batch, &job);
	return err ? err : (ssize_t)job.modules_count;
}

static bool for_all_processes(const struct recorder *recorder, const struct batch *batch,
			      size_t module)
{
	/* some may still have the old content */
	if (recorder->plan->modules[module].successor)
		return false;
	for (size_t i = 0; i < batch->files_count; i++)
		if (batch->files[i].module == module)
			return !batch->files[i].shared;
	return true;
}

static void attach_job(struct recorder *recorder, const struct batch *batch, const struct job *job)
{
	for (size_t i = 0; i < job->modules_count; i++)
		probes__attach(recorder->probes, job->modules[i], job->born, job->task.pid,
			       for_all_processes(recorder, batch, job->modules[i]));
	/* has it ended meanwhile? They may be links on the next one of that pid */
	if (!is_same(recorder, job->task.pid, job->born))
		probes__release(recorder->probes, job->born);
}

/* The targets are attached before anything is recorded: of them nothing is late. */
static void emit_attached(struct recorder *recorder, const struct job *job)
{
	struct perfx_late late = {.time_ns = clock_monotonic_ns()};
	struct perfx_traced_process traced;
	const char *path = NULL;

	for (size_t i = 0; i < job->modules_count; i++) {
		size_t count = probes__attached_count(recorder->probes, job->modules[i]);

		if (count && !path)
			path = recorder->plan->modules[job->modules[i]].path;
		late.functions_count += (uint32_t)count;
		late.files_count += count > 0;
	}
	if (!job->task.since_ns || !path ||
	    tracer__traced_process(recorder->tracer, job->task.pid, &traced) ||
	    traced.born != job->born)
		return;
	late.process = traced.process;
	emit_late(recorder, &job->task, &late, path);
}

/* One look at all other processes serves the whole batch; none is taken where it is known for each
 * file whether it goes by process. */
static void attach_batch(struct recorder *recorder, struct batch *batch)
{
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);

	file_watch__follow(recorder->file_watch, recorder->plan);
	if (batch->files_count)
		recorder->untraced_read_count +=
			sharing_find(recorder->plan, pids, count, batch->files, batch->files_count);
	memory__consider(recorder->memory);
	/* a new program first: its files may be new to all, a child's are attached for others */
	for (size_t i = 0; i < batch->jobs_count; i++)
		if (batch->jobs[i].task.cause == ATTACH_EXECUTED)
			attach_job(recorder, batch, &batch->jobs[i]);
	for (size_t i = 0; i < batch->jobs_count; i++)
		if (batch->jobs[i].task.cause != ATTACH_EXECUTED)
			attach_job(recorder, batch, &batch->jobs[i]);
	/* from this moment on */
	probes__open(recorder->probes);
	for (size_t i = 0; i < batch->jobs_count; i++)
		emit_attached(recorder, &batch->jobs[i]);
}

/* What the files that were planned last say of all that is traced. */
static void heed_plan(struct recorder *recorder, bool trusted)
{
	if (recorder->plan->many_stacks)
		tracer__expect_many_stacks(recorder->tracer);
	if (trusted && !recorder->plan->c_alone)
		probes__distrust_returns(recorder->probes);
}

static void enqueue(struct recorder *recorder, const struct attach_task *task)
{
	if (attach_queue__put(recorder->queue, task))
		plan__skip(recorder->plan, "files mapped later", "out of memory");
}

/* A forked child maps what its parent did, of which nothing is new where links are for all: unless
 * the parent has not been looked at either. */
static bool is_covered(const struct recorder *recorder, const struct attach_task *task)
{
	return task->cause == ATTACH_FORKED && !probes__go_by_process(recorder->probes) &&
	       !attach_queue__has(recorder->queue, task->parent);
}

/* False: it has ended, which its exit record will say. */
static bool work_off(struct recorder *recorder, struct batch *batch, const struct attach_task *task)
{
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (recorder->options->all)
		adopt(recorder, task->pid);
	if (!process_table__has(recorder->processes, task->pid) || is_covered(recorder, task))
		return true;
	if (task->cause == ATTACH_MOVED)
		look_at_mappings(recorder, task->pid);
	else if (look_at(recorder, batch, task) > 0)
		return true;
	attach_queue__charge(recorder->queue, task->pid, clock_monotonic_ns(),
			     clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
	return !process_has_ended(task->pid);
}

void follow_attach_queued(struct recorder *recorder)
{
	bool trusted = recorder->plan->c_alone;
	struct batch batch = {0};
	struct attach_task task, ended[BATCH_MAX];
	size_t ended_count = 0;

	for (size_t i = 0;
	     i < BATCH_MAX && attach_queue__take(recorder->queue, clock_monotonic_ns(), &task); i++)
		if (!work_off(recorder, &batch, &task))
			ended[ended_count++] = task;
	/* they wait again: their exit finds that they were not looked at */
	for (size_t i = 0; i < ended_count; i++)
		enqueue(recorder, &ended[i]);
	heed_plan(recorder, trusted);
	if (batch.jobs_count)
		attach_batch(recorder, &batch);
	batch_clear(&batch);
}

void follow_files(struct recorder *recorder)
{
	struct plan *plan = recorder->plan;

	for (size_t i = 0; i < plan->modules_count; i++) {
		if (plan->modules[i].overwritten || !plan__has_changed(plan, i))
			continue;
		probes__drop(recorder->probes, i);
		plan__forget(plan, i);
		if (!plan->modules[i].functions_count)
			continue;
		msg_say("%s was written to while it was traced: its probes are taken away; "
			"programs that map it from now on are traced anew",
			plan->modules[i].path);
		plan__skip(plan, plan->modules[i].base,
			   "written to while it was traced: only what mapped it before or after "
			   "the write is counted");
	}
}

/* A hit costs a program some microseconds: about a hundredth of a CPU. */
#define UNTRACED_HITS_PER_S 1000
#define UNTRACED_PERIOD_NS  1000000000u
/* Where none was found, none will be that soon. */
#define UNTRACED_PAUSE_NS 10000000000u

/* The file goes by process from now on: members get links of their own with the next batch, and
 * what they call until then is said to be missing. */
static void go_by_process(struct recorder *recorder, size_t module, uint64_t now_ns)
{
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);

	probes__drop(recorder->probes, module);
	for (size_t i = 0; i < count; i++)
		enqueue(recorder, &(struct attach_task){.pid = pids[i],
							.cause = ATTACH_MAPPED,
							.known = true,
							.since_ns = now_ns});
	plan__skip(recorder->plan, recorder->plan->modules[module].base,
		   "other programs have come to call it: attached for each traced process from "
		   "then on");
}

/* Files that are attached for all processes though untraced ones map them; how many went by
 * process. */
static size_t leave_untraced_alone(struct recorder *recorder, uint64_t now_ns)
{
	struct sharing *files = calloc(recorder->plan->modules_count + 1, sizeof(*files));
	size_t count = 0, members_count, moved = 0;
	const pid_t *members = process_table__pids(recorder->processes, &members_count);

	for (size_t i = 0; files && i < recorder->plan->modules_count; i++)
		if (probes__attached_for(recorder->probes, i, 0) &&
		    probes__attached_count(recorder->probes, i))
			files[count++].module = i;
	if (count)
		recorder->untraced_read_count +=
			sharing_find(recorder->plan, members, members_count, files, count);
	for (size_t i = 0; i < count; i++) {
		if (!files[i].shared)
			continue;
		go_by_process(recorder, files[i].module, now_ns);
		moved++;
	}
	free(files);
	return moved;
}

void follow_untraced(struct recorder *recorder, uint64_t now_ns)
{
	uint64_t hits_count, before = recorder->untraced.hits_count;

	if (recorder->options->all || now_ns < recorder->untraced.next_ns)
		return;
	hits_count = tracer__counter(recorder->tracer, PERFX_COUNTER_FOREIGN_HITS);
	recorder->untraced.hits_count = hits_count;
	recorder->untraced.next_ns = now_ns + UNTRACED_PERIOD_NS;
	if (hits_count - before >= UNTRACED_HITS_PER_S && !leave_untraced_alone(recorder, now_ns))
		recorder->untraced.next_ns = now_ns + UNTRACED_PAUSE_NS;
}

/* --- what happens to processes --- */

/* Is something attached by process, so that a forked child is not traced from the start? */
static bool goes_by_process(const struct recorder *recorder)
{
	for (size_t i = 0; i < recorder->plan->modules_count; i++)
		if (probes__decided(recorder->probes, i) &&
		    !probes__attached_for(recorder->probes, i, 0) &&
		    probes__attached_count(recorder->probes, i))
			return true;
	return false;
}

static void on_fork(struct recorder *recorder, const struct perfx_fork *fork)
{
	struct attach_task task = {.pid = (pid_t)fork->pid,
				   .parent = (pid_t)fork->ppid,
				   .cause = ATTACH_FORKED,
				   .known = !goes_by_process(recorder),
				   .since_ns = fork->time_ns};
	uint32_t predecessor = process_table__born(recorder->processes, task.pid);

	/* whose end found no room in the ring */
	if (predecessor)
		probes__release(recorder->probes, predecessor);
	process_table__on_fork(recorder->processes, fork);
	if (recorder->frames)
		frames__fork(recorder->frames, fork->process, fork->parent_process);
	/* files that others map too have links by process: the child needs its own */
	enqueue(recorder, &task);
	if (!task.known)
		plan__hint(recorder->plan, "first moments of forked children",
			   "other programs map the same files, so each child gets probes of its "
			   "own once it runs");
}

/* Nothing of this program waits for probes of its own. */
static bool is_known(const struct recorder *recorder, const struct perfx_exec *exec)
{
	ssize_t module = plan__find(recorder->plan, exec->inode, exec->dev_major, exec->dev_minor);

	return module >= 0 &&
	       (!recorder->plan->modules[module].functions_count ||
		probes__attached_for(recorder->probes, (size_t)module,
				     process_table__born(recorder->processes, (pid_t)exec->pid)));
}

static void on_exec(struct recorder *recorder, const struct perfx_exec *exec)
{
	struct attach_task task = {.pid = (pid_t)exec->pid,
				   .cause = ATTACH_EXECUTED,
				   .known = is_known(recorder, exec),
				   .since_ns = exec->time_ns};

	process_table__on_exec(recorder->processes, exec);
	/* links by pid go with the main thread, which has gone */
	if (exec->flags & PERFX_EXEC_BY_THREAD)
		probes__release(recorder->probes,
				process_table__born(recorder->processes, task.pid));
	enqueue(recorder, &task);
}

static void on_exit_event(struct recorder *recorder, const struct perfx_exit *exit)
{
	uint32_t born = process_table__on_exit(recorder->processes, exit);
	struct attach_task task;

	if (born)
		probes__release(recorder->probes, born);
	if (attach_queue__forget(recorder->queue, (pid_t)exit->pid, &task) && !task.known)
		emit_late(recorder, &task,
			  &(struct perfx_late){.time_ns = exit->time_ns, .process = exit->process},
			  "");
	if ((pid_t)exit->pid == recorder->main_pid && !recorder->main_ended) {
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
		on_exec(recorder, (const struct perfx_exec *)record);
		break;
	case PERFX_KIND_STACK:
		if (recorder->frames)
			frames__stack(recorder->frames, (const struct perfx_stack *)record);
		break;
	case PERFX_KIND_RECORDING_WINDOW:
		recording_window_turns(recorder, (const struct perfx_recording_window *)record);
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

/* What may be new by this mapping; false: nothing. */
static bool is_news(const struct recorder *recorder, const struct new_mapping *mapping,
		    struct attach_task *task)
{
	ssize_t module =
		plan__find(recorder->plan, mapping->inode, mapping->dev_major, mapping->dev_minor);

	task->cause = ATTACH_MAPPED;
	if (module < 0)
		return true;
	if (recorder->plan->modules[module].functions_count &&
	    !probes__attached_for(recorder->probes, (size_t)module,
				  process_table__born(recorder->processes, mapping->pid)))
		return true;
	task->cause = ATTACH_MOVED;
	task->known = true;
	return recorder->frames;
}

static void note_mapping(const struct new_mapping *mapping, void *ctx)
{
	struct attach_task task = {.pid = mapping->pid, .since_ns = mapping->time_ns};
	struct recorder *recorder = ctx;

	if (!mapping->pid)
		recorder->rescan = true;
	else if ((recorder->options->all ||
		  process_table__has(recorder->processes, mapping->pid)) &&
		 is_news(recorder, mapping, &task))
		enqueue(recorder, &task);
}

void follow_mappings(struct recorder *recorder)
{
	uint64_t now_ns = clock_monotonic_ns();
	size_t count;
	const pid_t *pids;

	if (recorder->mappings)
		mappings__take(recorder->mappings, note_mapping, recorder);
	if (!recorder->rescan)
		return;
	recorder->rescan = false;
	pids = process_table__pids(recorder->processes, &count);
	for (size_t i = 0; i < count; i++)
		enqueue(recorder, &(struct attach_task){.pid = pids[i],
							.cause = ATTACH_MAPPED,
							.since_ns = now_ns});
}

/* --- the targets --- */

/* Adds a process and, unless asked not to, its living descendants. */
static int add_target(struct recorder *recorder, pid_t pid)
{
	pid_t *children = NULL;
	bool existed;
	int64_t process = tracer__add_process(recorder->tracer, pid, &existed);
	ssize_t count;
	int err;

	if (process < 0)
		return (int)process;
	if (!process_table__has(recorder->processes, pid)) {
		err = process_table__open(recorder->processes, (uint32_t)process, pid);
		if (err)
			return err;
	}
	if (!recorder->options->follow_children)
		return 0;
	/* after the process is in the kernel: a child born meanwhile comes by its fork record */
	count = process_descendants(pid, &children);
	for (ssize_t i = 0; i < count; i++) {
		if (children[i] == getpid()) /* a program may have itself traced */
			continue;
		process = tracer__add_process(recorder->tracer, children[i], &existed);
		if (process > 0 && !existed)
			process_table__open(recorder->processes, (uint32_t)process, children[i]);
	}
	free(children);
	return 0;
}

int follow_targets(struct recorder *recorder)
{
	const struct recorder_options *options = recorder->options;
	pid_t *all_processes = NULL;
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
	count = process_find(NULL, &all_processes);
	for (ssize_t i = 0; i < count; i++)
		adopt(recorder, all_processes[i]);
	free(all_processes);
	return 0;
}

/* What it maps later and marks ranges by from its first call on: no other process maps these
 * files. */
static void attach_ahead(struct recorder *recorder)
{
	const struct launch *launch = recorder->options->launch;
	size_t count;
	char *const *files = launch__files(launch, &count);
	pid_t pid = launch__pid(launch);

	for (size_t i = 0; i < count; i++) {
		ssize_t module = plan__add_file(recorder->plan, files[i]);

		if (module >= 0)
			probes__attach(recorder->probes, (size_t)module,
				       process_table__born(recorder->processes, pid), pid, true);
	}
	probes__open(recorder->probes);
}

int follow_attach(struct recorder *recorder)
{
	bool trusted = recorder->plan->c_alone;
	struct batch batch = {0};
	size_t count;
	const pid_t *pids = process_table__pids(recorder->processes, &count);
	int err = 0;

	for (size_t i = 0; !err && i < count; i++) {
		struct attach_task task = {.pid = pids[i]};
		ssize_t n = look_at(recorder, &batch, &task);

		err = n < 0 && n != -ESRCH && n != -ENOENT ? (int)n : 0;
		if (err)
			say_scan_error(pids[i], recorder, err);
	}
	heed_plan(recorder, trusted);
	if (!err)
		attach_batch(recorder, &batch);
	batch_clear(&batch);
	if (!err && recorder->options->launch)
		attach_ahead(recorder);
	return err;
}
