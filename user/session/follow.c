// SPDX-License-Identifier: BSD-2-Clause
#include "session/follow_internal.h"

#include "attach/probes.h"
#include "attach/tracer.h"
#include "attach/unwind_tables.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "proc/process.h"
#include "session/frames.h"
#include "session/process_table.h"
#include "session/progress.h"
#include "session/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Period of reading all mappings where the kernel does not report new ones. */
#define SCAN_NS 1000000000u
/* Least time between two updates of the mappings by which stacks are unwound, after files that
 * arrive late: each takes a grace period of the kernel (5 to 40 ms), and the next file's probes
 * would wait for it. */
#define UNWIND_UPDATES_NS 50000000u

/* Links of a child's own cost the tracer and its parent's next fork milliseconds. Where the last
 * child that ended has lived less than this, the next ones get theirs at twice its age. */
#define SHORT_LIFE_NS 125000000u

const struct follow_result *follow__result(const struct follow *follow)
{
	return &follow->result;
}

static void update_unwinding(struct follow *follow, uint64_t now_ns)
{
	if (now_ns < follow->next_unwind_ns ||
	    unwind_tables__is_publishing(follow->recording->unwind_tables))
		return;
	for (size_t i = 0; i < follow->grown_count; i++)
		if (process_table__has(follow->recording->processes, follow->grown[i]))
			unwind_tables__map(follow->recording->unwind_tables, follow->grown[i]);
	if (follow->grown_count)
		follow->next_unwind_ns = now_ns + UNWIND_UPDATES_NS;
	follow->grown_count = 0;
	unwind_tables__publish(follow->recording->unwind_tables, false);
}

void follow_update_mappings(struct follow *follow, const struct attach_task *task)
{
	struct recording *recording = follow->recording;
	struct perfx_traced_process traced;

	follow->result.maps_read_count++;
	if (!tracer__traced_process(recording->tracer, task->pid, &traced))
		frames__map(recording->frames, traced.memory_process, task->pid);
	/* the unwinding of a process that maps files late is updated later, together */
	if (task->cause == ATTACH_MAPPED && task->since_ns) {
		for (size_t i = 0; i < follow->grown_count; i++)
			if (follow->grown[i] == task->pid)
				return;
		if (!LIST_ADD(follow->grown, task->pid))
			return;
	}
	unwind_tables__map(recording->unwind_tables, task->pid);
}

/* A process that was found. If it has ended meanwhile, there may be no record of that to come. */
static int open_process(struct follow *follow, uint32_t process, pid_t pid)
{
	/* a target that has ended already is to be named as such */
	bool ended = follow->recording->options->all && process_has_ended(pid);
	int err = ended ? -ESRCH : process_table__open(follow->recording->processes, process, pid);

	if (err && !tracer__remove_process(follow->recording->tracer, pid))
		recycle__ended(follow->recording->recycle, process, clock_monotonic_ns());
	return err;
}

/* Longest wait for the end of an exec; a program without a command line looks like one. */
#define EXEC_NS 100000000u

/* -a: traces a process that maps a file of interest. False: try again later, because the process
 * executes a program, or because BPF traces it already and its PROCESS record is still unread. */
static bool adopt(struct follow *follow, pid_t pid, uint64_t since_ns)
{
	bool existed = false, is_ml = false, executing;
	char *cmdline = NULL;
	size_t *modules = NULL;
	ssize_t count;
	int64_t process;

	if (process_table__has(follow->recording->processes, pid) || pid == getpid())
		return true;
	count = plan__scan(follow->recording->plan, pid, &modules);
	for (ssize_t i = 0; i < count; i++)
		is_ml |= follow->recording->plan->modules[modules[i]].is_ml;
	free(modules);
	if (!is_ml)
		return true;
	/* during an exec the new mappings exist, but the BPF programs have not seen the exec yet */
	if (clock_monotonic_ns() - since_ns < EXEC_NS) {
		executing = !process_cmdline(pid, &cmdline, 1) && !process_has_ended(pid);
		free(cmdline);
		if (executing)
			return false;
	}
	process = tracer__add_process(follow->recording->tracer, pid, &existed);
	if (process > 0 && !existed)
		open_process(follow, (uint32_t)process, pid);
	return !existed;
}

void follow_emit_late(struct follow *follow, const struct attach_task *task,
		      struct perfx_late *record, const char *path)
{
	static const enum perfx_late_cause causes[] = {[ATTACH_MOVED] = PERFX_LATE_MAPPED,
						       [ATTACH_FORKED] = PERFX_LATE_FORKED,
						       [ATTACH_MAPPED] = PERFX_LATE_MAPPED,
						       [ATTACH_EXECUTED] = PERFX_LATE_EXECUTED};

	uint64_t since_ns = task->since_ns > follow->begin_ns ? task->since_ns : follow->begin_ns;

	/* nothing was missed: it ended, or its probes were open, before */
	if (record->time_ns <= since_ns)
		return;
	record->since_ns = since_ns;
	record->cause = causes[task->cause];
	SINK_PACK(follow->recording->sink, &follow->made, PERFX_KIND_LATE, *record, path);
}

/* CPU time of the traced processes that live. */
static uint64_t used_ns(const struct follow *follow)
{
	size_t count;
	const pid_t *pids = process_table__pids(follow->recording->processes, &count);
	uint64_t sum_ns = 0;

	for (size_t i = 0; i < count; i++)
		sum_ns += process_cpu_ns(pids[i]);
	return sum_ns;
}

static void begin(struct recording *recording)
{
	struct follow *follow = recording->follow;

	if (follow->begin_ns)
		return;
	follow->begin_ns = recording->start_ns;
	follow->used_ns = used_ns(follow);
}

bool follow_maps_as_parent(const struct follow *follow, const struct attach_task *task)
{
	return task->cause == ATTACH_FORKED && task->since_ns >= follow->opened_ns &&
	       !attach_queue__has(follow->queue, task->parent);
}

/* More wait for the next drain. */
#define BATCH_MAX 64

void follow_enqueue(struct follow *follow, const struct attach_task *task)
{
	if (attach_queue__put(follow->queue, task))
		skipped_add(&follow->recording->skipped, "files mapped later", "out of memory");
}

/* Applies to all traced processes what files planned since require. */
static void apply_plan_settings(struct follow *follow, bool trusted)
{
	if (follow->recording->plan->many_stacks)
		tracer__expect_many_stacks(follow->recording->tracer);
	if (trusted && !follow->recording->plan->c_alone)
		probes__distrust_returns(follow->recording->probes);
}

/* False: try the process again later: its EXIT or PROCESS record is still unread, it executes a
 * program, or may end soon. */
static bool handle_task(struct follow *follow, struct attach_batch *batch,
			const struct attach_task *task)
{
	struct recording *recording = follow->recording;
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	ssize_t found = 0;

	if (recording->options->all && !adopt(follow, task->pid, task->since_ns))
		return false;
	/* links for all processes: a child needs none of its own */
	if (!process_table__has(recording->processes, task->pid) ||
	    (!probes__go_by_process(recording->probes) && follow_maps_as_parent(follow, task)))
		return true;
	/* its links would be its own, and it may end soon */
	if (!task->known && follow_maps_as_parent(follow, task) &&
	    follow->child_life_ns < SHORT_LIFE_NS &&
	    clock_monotonic_ns() - task->since_ns < 2 * follow->child_life_ns)
		return false;
	if (task->cause == ATTACH_MOVED)
		follow_update_mappings(follow, task);
	else
		found = attach_batch_scan(follow, batch, task);
	if (found > 0)
		return true;
	attach_queue__charge(follow->queue, task->pid, clock_monotonic_ns(),
			     clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
	/* another process may have the pid by now */
	return found != -ESRCH && !process_has_ended(task->pid);
}

void follow__attach_queued(struct follow *follow)
{
	bool trusted = follow->recording->plan->c_alone;
	struct attach_batch batch = {0};
	struct attach_task task, ended[BATCH_MAX];
	size_t ended_count = 0;

	for (size_t i = 0;
	     i < BATCH_MAX && attach_queue__pop(follow->queue, clock_monotonic_ns(), &task); i++)
		if (!handle_task(follow, &batch, &task))
			ended[ended_count++] = task;
	/* they go back into the queue: their exit record reports that they were not attached */
	for (size_t i = 0; i < ended_count; i++)
		follow_enqueue(follow, &ended[i]);
	apply_plan_settings(follow, trusted);
	if (batch.jobs_count)
		attach_batch_open(follow, &batch);
	attach_batch_clear(&batch);
	follow_count_missed(follow);
	/* both in one grace period, where the update is due */
	update_unwinding(follow, clock_monotonic_ns());
	unwind_tables__publish(follow->recording->unwind_tables, false);
}

void follow__drop_written_files(struct follow *follow)
{
	struct plan *plan = follow->recording->plan;

	file_watch__drain(follow->file_watch);
	for (size_t i = 0; i < plan->modules_count; i++) {
		if (plan->modules[i].overwritten || !plan__has_changed(plan, i))
			continue;
		probes__drop(follow->recording->probes, i);
		plan__forget(plan, i);
		if (!plan->modules[i].functions_count)
			continue;
		msg_say("%s was overwritten while it was traced: its probes are removed; programs "
			"that map it from now on are traced again",
			plan->modules[i].path);
		skipped_add(&follow->recording->skipped, plan->modules[i].base,
			    "overwritten while it was traced: only calls before and after the "
			    "change are counted");
	}
}

/* At some microseconds a hit: about a hundredth of a CPU. */
#define UNTRACED_HITS_PER_S 1000
#define UNTRACED_PERIOD_NS  1000000000u
/* After a check that has found nothing. */
#define UNTRACED_PAUSE_NS 10000000000u

/* Attaches the file process by process from now on. Links of the traced processes take over from
 * those for all at one moment, so that no call is lost. */
static void go_by_process(struct follow *follow, size_t module)
{
	struct probes *probes = follow->recording->probes;
	size_t count;
	const pid_t *pids = process_table__pids(follow->recording->processes, &count);

	probes__renew(probes, module);
	for (size_t i = 0; i < count; i++) {
		uint32_t born = process_table__born(follow->recording->processes, pids[i]);

		if (!process_maps(pids[i], follow->recording->plan, module))
			continue;
		probes__attach(probes, module, born, pids[i], false);
		follow_release_if_ended(follow, pids[i], born);
	}
	probes__open(probes);
	skipped_add(
		&follow->recording->skipped, follow->recording->plan->modules[module].base,
		"called by untraced programs as well: attached process by process from then on");
}

/* Attaches process by process the files that untraced processes map too. Returns how many files. */
static size_t separate_untraced(struct follow *follow)
{
	struct sharing *files = calloc(follow->recording->plan->modules_count + 1, sizeof(*files));
	size_t count = 0, moved = 0;

	for (size_t i = 0; files && i < follow->recording->plan->modules_count; i++)
		if (probes__attached_for(follow->recording->probes, i, 0) &&
		    probes__attached_count(follow->recording->probes, i))
			files[count++].module = i;
	if (count) {
		/* reports of new mappings have missed the process that calls them */
		follow->untraced_files.complete = false;
		follow->result.untraced_read_count +=
			sharing_find(&follow->untraced_files, follow->recording->plan,
				     follow_is_traced, follow, files, count);
	}
	for (size_t i = 0; i < count; i++) {
		if (!files[i].shared)
			continue;
		go_by_process(follow, files[i].module);
		moved++;
	}
	free(files);
	return moved;
}

static void check_untraced_hits(struct follow *follow, uint64_t now_ns)
{
	uint64_t hits_count, before = follow->untraced.hits_count;

	if (follow->recording->options->all || now_ns < follow->untraced.next_ns)
		return;
	hits_count = tracer__counter(follow->recording->tracer, PERFX_COUNTER_FOREIGN_HITS);
	follow->untraced.hits_count = hits_count;
	follow->untraced.next_ns = now_ns + UNTRACED_PERIOD_NS;
	if (hits_count - before >= UNTRACED_HITS_PER_S && !separate_untraced(follow))
		follow->untraced.next_ns = now_ns + UNTRACED_PAUSE_NS;
}

/* Is a file attached by process? Then a forked child is not traced from its start. */
static bool goes_by_process(const struct follow *follow)
{
	for (size_t i = 0; i < follow->recording->plan->modules_count; i++)
		if (probes__decided(follow->recording->probes, i) &&
		    !probes__attached_for(follow->recording->probes, i, 0) &&
		    probes__attached_count(follow->recording->probes, i))
			return true;
	return false;
}

/* A process whose end found no room in the ring: its pid has come again. */
static void forget_predecessor(struct follow *follow, pid_t pid, uint64_t time_ns)
{
	uint32_t born = process_table__born(follow->recording->processes, pid);

	probes__release(follow->recording->probes, born);
	recycle__ended(follow->recording->recycle,
		       process_table__process(follow->recording->processes, pid), time_ns);
	recycle__ended(follow->recording->recycle, born, time_ns);
}

/* -a: BPF has begun to trace a process at its first call; its other files may need probes. */
static void on_adopted(struct follow *follow, const struct perfx_process *adopted)
{
	pid_t pid = (pid_t)adopted->pid;

	if (process_table__has(follow->recording->processes, pid))
		forget_predecessor(follow, pid, adopted->time_ns);
	process_table__on_adopted(follow->recording->processes, adopted);
	follow_enqueue(follow, &(struct attach_task){.pid = pid,
						     .cause = ATTACH_MAPPED,
						     .known = true,
						     .since_ns = adopted->time_ns});
}

static void on_fork(struct follow *follow, const struct perfx_fork *fork)
{
	struct recording *recording = follow->recording;
	struct attach_task task = {.pid = (pid_t)fork->pid,
				   .parent = (pid_t)fork->ppid,
				   .cause = ATTACH_FORKED,
				   .known = !goes_by_process(follow),
				   .since_ns = fork->time_ns};

	if (process_table__has(recording->processes, task.pid))
		forget_predecessor(follow, task.pid, fork->time_ns);
	process_table__on_fork(recording->processes, fork);
	frames__fork(recording->frames, fork->process, (pid_t)fork->pid, fork->parent_process);
	unwind_tables__fork(recording->unwind_tables, fork);
	/* files attached by process need links for the child */
	follow_enqueue(follow, &task);
	if (!task.known)
		skipped_hint(
			&recording->skipped, "first moments of forked children",
			"not traced: other programs map the same files, so each child gets its "
			"own probes after its start");
}

static void on_exec(struct follow *follow, const struct perfx_exec *exec)
{
	const struct plan *plan = follow->recording->plan;
	pid_t pid = (pid_t)exec->pid;
	uint32_t born = process_table__born(follow->recording->processes, pid);
	ssize_t module = plan__find(plan, exec->inode, exec->dev_major, exec->dev_minor);
	/* is the new program's own file attached already, or without functions? */
	bool is_known =
		module >= 0 && (!plan->modules[module].functions_count ||
				follow_was_attached(follow, (size_t)module, born, exec->time_ns));

	process_table__on_exec(follow->recording->processes, exec);
	/* by the first one its links are known */
	if (exec->old_process != born)
		recycle__ended(follow->recording->recycle, exec->old_process, exec->time_ns);
	unwind_tables__forget(follow->recording->unwind_tables, pid);
	/* links by pid end with the main thread */
	if (exec->flags & PERFX_EXEC_BY_THREAD)
		probes__release(follow->recording->probes, born);
	follow_enqueue(follow, &(struct attach_task){.pid = pid,
						     .cause = ATTACH_EXECUTED,
						     .known = is_known,
						     .since_ns = exec->time_ns});
}

static void on_exit_event(struct follow *follow, const struct perfx_exit *exit)
{
	uint32_t born = process_table__on_exit(follow->recording->processes, exit);
	struct attach_task task = {.cause = ATTACH_MOVED};
	bool waited;

	recycle__ended(follow->recording->recycle, exit->process, exit->time_ns);
	recycle__ended(follow->recording->recycle, born, exit->time_ns);
	if (born)
		probes__release(follow->recording->probes, born);
	unwind_tables__forget(follow->recording->unwind_tables, (pid_t)exit->pid);
	waited = attach_queue__forget(follow->queue, (pid_t)exit->pid, &task);
	if (task.cause == ATTACH_FORKED)
		follow->child_life_ns = exit->time_ns - task.since_ns;
	if (waited && !task.known)
		follow_emit_late(follow, &task,
				 &(struct perfx_late){.time_ns = exit->time_ns,
						      .process = exit->process},
				 "");
	if ((pid_t)exit->pid == follow->recording->main_pid && !follow->result.main_ended) {
		follow->result.main_ended = true;
		follow->result.main_status = exit->status;
	}
}

void follow__record(struct follow *follow, const struct perfx_record *record)
{
	switch (record->kind) {
	case PERFX_KIND_PROCESS:
		on_adopted(follow, (const struct perfx_process *)record);
		break;
	case PERFX_KIND_FORK:
		on_fork(follow, (const struct perfx_fork *)record);
		break;
	case PERFX_KIND_EXEC:
		on_exec(follow, (const struct perfx_exec *)record);
		break;
	case PERFX_KIND_SIGNAL:
		deaths_on_signal(follow->recording->sink, (const struct perfx_signal *)record);
		break;
	case PERFX_KIND_EXIT:
		on_exit_event(follow, (const struct perfx_exit *)record);
		break;
	}
}

static void note_mapping(const struct new_mapping *mapping, void *ctx)
{
	struct attach_task task = {
		.pid = mapping->pid, .cause = ATTACH_MAPPED, .since_ns = mapping->time_ns};
	struct follow *follow = ctx;
	struct recording *recording = follow->recording;
	const struct mapping *file = &mapping->mapping;
	const struct plan_module *planned;
	struct perfx_traced_process process;
	bool traced = process_table__has(recording->processes, mapping->pid);
	ssize_t module;

	/* The kernel has dropped reports of new mappings, of whichever processes. Those that do not
	 * run map nothing. */
	if (!mapping->pid) {
		follow->rescan = true;
		follow->untraced_files.complete = false;
		if (follow->begin_ns &&
		    (recording->options->all || used_ns(follow) != follow->used_ns))
			skipped_hint(&recording->skipped, "files that are mapped for a moment",
				     "not seen in processes that unmapped them, or ended, at once: "
				     "the kernel dropped reports of new mappings, because there "
				     "were too many");
		return;
	}
	/* addresses mean something else from now on */
	if (traced && !tracer__traced_process(recording->tracer, mapping->pid, &process))
		frames__mapped(recording->frames, process.memory_process, mapping);
	if (!file->inode)
		return;
	module = plan__find(recording->plan, file->inode, file->dev_major, file->dev_minor);
	planned = module < 0 ? NULL : &recording->plan->modules[module];
	if (!traced) {
		untraced_files_add(&follow->untraced_files, file->inode);
		if (!recording->options->all || (planned && !planned->is_ml))
			return;
	}
	if (planned && (!planned->functions_count ||
			follow_was_attached(follow, (size_t)module,
					    process_table__born(recording->processes, mapping->pid),
					    mapping->time_ns))) {
		task.cause = ATTACH_MOVED;
		task.known = true;
	} else if (!traced) {
		early_files_add(&follow->early, mapping);
	}
	follow_enqueue(follow, &task);
}

/* Queues the processes that may have mapped a file since mappings were read last. */
static void rescan(struct follow *follow)
{
	struct recording *recording = follow->recording;
	size_t count;
	const pid_t *traced = process_table__pids(recording->processes, &count), *pids = traced;
	pid_t *all = NULL;

	if (recording->options->all) {
		ssize_t all_count = process_list(&all);

		count = all_count < 0 ? count : (size_t)all_count;
		pids = all_count < 0 ? traced : all;
	}
	for (size_t i = 0; i < count; i++)
		follow_enqueue(follow, &(struct attach_task){.pid = pids[i],
							     .cause = ATTACH_MAPPED,
							     .known = true,
							     .since_ns = follow->taken_ns});
	free(all);
}

static void read_new_mappings(struct follow *follow)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (follow->mappings)
		mappings__drain(follow->mappings, note_mapping, follow);
	if (follow->rescan)
		rescan(follow);
	follow->rescan = false;
	follow->taken_ns = now_ns;
}

bool follow__read_mappings(struct follow *follow)
{
	read_new_mappings(follow);
	return !attach_queue__is_empty(follow->queue);
}

void follow__read_mappings_until(struct follow *follow, uint64_t time_ns)
{
	if (follow->mappings && time_ns > follow->taken_ns)
		read_new_mappings(follow);
}

#define LOST_PERIOD_NS 10000000000u

/*
 * Processes whose end found no room in the ring of control records. Their entries in the kernel's
 * table went after their records had been tried, so one that was missing at the last check and is
 * still known here has no record to come.
 */
static void end_lost(struct follow *follow, uint64_t now_ns)
{
	size_t count, missing_count = 0, found_count = 0;
	const pid_t *pids = process_table__pids(follow->recording->processes, &count);
	pid_t missing[LOST_MAX], found[LOST_MAX];
	struct perfx_traced_process traced;

	if (now_ns < follow->next_lost_ns)
		return;
	follow->next_lost_ns = now_ns + LOST_PERIOD_NS;
	for (size_t i = 0; i < count && missing_count < LOST_MAX; i++) {
		bool was_missing = false;

		if (!tracer__traced_process(follow->recording->tracer, pids[i], &traced))
			continue;
		for (size_t k = 0; k < follow->missing_count; k++)
			was_missing |= follow->missing[k] == pids[i];
		if (was_missing)
			found[found_count++] = pids[i];
		else
			missing[missing_count++] = pids[i];
	}
	memcpy(follow->missing, missing, missing_count * sizeof(missing[0]));
	follow->missing_count = missing_count;
	for (size_t i = 0; i < found_count; i++) {
		struct perfx_exit exit = {
			.time_ns = now_ns,
			.process = process_table__process(follow->recording->processes, found[i]),
			.pid = (uint32_t)found[i]};

		SINK_PACK(follow->recording->sink, &follow->made, PERFX_KIND_EXIT, exit);
		on_exit_event(follow, &exit);
	}
}

static void tick(struct recording *recording)
{
	uint64_t now_ns = recording->now_ns;
	struct follow *follow = recording->follow;

	if (!follow->full && tracer__counter(recording->tracer, PERFX_COUNTER_PROCESSES_FULL)) {
		follow->full = true;
		msg_say("too many processes (%d at a time, %d in all): further ones are not traced",
			PERFX_MAX_PROCESSES, PERFX_MAX_PROCESS_INDICES);
		skipped_add(&recording->skipped, "further processes",
			    "too many at a time, or in all: they are not traced");
	}
	end_lost(follow, now_ns);
	update_unwinding(follow, now_ns);
	check_untraced_hits(follow, now_ns);
	if (follow->mappings || now_ns < follow->next_scan_ns)
		return;
	follow->rescan = true;
	follow->next_scan_ns = now_ns + SCAN_NS;
}

/* Adds a process and, unless asked not to, its running descendants. */
static int add_target(struct follow *follow, pid_t pid)
{
	pid_t *children = NULL;
	bool existed;
	int64_t process = tracer__add_process(follow->recording->tracer, pid, &existed);
	ssize_t count;
	int err;

	if (process < 0)
		return (int)process;
	if (!process_table__has(follow->recording->processes, pid)) {
		err = open_process(follow, (uint32_t)process, pid);
		if (err)
			return err;
	}
	if (!follow->recording->options->follow_children)
		return 0;
	/* after the process is in the kernel's map: children forked from now on have fork
	 * records */
	count = process_descendants(pid, &children);
	for (ssize_t i = 0; i < count; i++) {
		if (children[i] == getpid()) /* a program may have itself traced */
			continue;
		process = tracer__add_process(follow->recording->tracer, children[i], &existed);
		if (process > 0 && !existed)
			open_process(follow, (uint32_t)process, children[i]);
	}
	free(children);
	return 0;
}

int follow__targets(struct follow *follow)
{
	const struct recorder_options *options = follow->recording->options;
	pid_t *all_processes = NULL;
	ssize_t count;
	int err;

	for (size_t i = 0; i < options->pids_count; i++) {
		err = add_target(follow, options->pids[i]);
		if (err)
			return err;
	}
	if (options->launch)
		return add_target(follow, launch__pid(options->launch));
	if (!options->all)
		return 0;
	count = process_find(NULL, &all_processes);
	for (ssize_t i = 0; i < count; i++)
		adopt(follow, all_processes[i], 0);
	free(all_processes);
	return 0;
}

/* Injected libraries, attached before the program maps them; no other process does. */
static void attach_ahead(struct follow *follow)
{
	struct recording *recording = follow->recording;
	const struct launch *launch = recording->options->launch;
	size_t count;
	char *const *files = launch__files(launch, &count);
	pid_t pid = launch__pid(launch);

	for (size_t i = 0; i < count; i++) {
		ssize_t module = plan__add_file(recording->plan, files[i], 0);

		if (module >= 0)
			probes__attach(recording->probes, (size_t)module,
				       process_table__born(recording->processes, pid), pid, true);
	}
	probes__open(recording->probes);
}

int follow__attach(struct follow *follow)
{
	struct recording *recording = follow->recording;
	bool trusted = recording->plan->c_alone;
	struct attach_batch batch = {0};
	size_t count;
	const pid_t *pids = process_table__pids(recording->processes, &count);
	int err = 0;

	for (size_t i = 0; !err && i < count; i++) {
		struct attach_task task = {.pid = pids[i]};
		ssize_t n = attach_batch_scan(follow, &batch, &task);

		err = n < 0 && n != -ESRCH && n != -ENOENT ? (int)n : 0;
		if (err)
			say_scan_error(pids[i], err, recording->options->plan.functions_max);
	}
	apply_plan_settings(follow, trusted);
	unwind_tables__publish(recording->unwind_tables, true);
	if (!err)
		attach_batch_open(follow, &batch);
	attach_batch_clear(&batch);
	if (!err && recording->options->launch)
		attach_ahead(follow);
	return err;
}

static int open_follow(struct recording *recording)
{
	struct follow *follow = calloc(1, sizeof(*follow));

	if (!follow)
		return -ENOMEM;
	follow->recording = recording;
	recording->follow = follow;
	follow->queue = attach_queue__new();
	follow->file_watch = file_watch__new();
	follow->mappings = mappings__new();
	return follow->queue ? 0 : -ENOMEM;
}

static int mappings_fd(const struct recording *recording)
{
	const struct follow *follow = recording->follow;

	return follow->mappings ? mappings__fd(follow->mappings) : -1;
}

static void close_follow(struct recording *recording)
{
	struct follow *follow = recording->follow;

	if (!follow)
		return;
	mappings__free(follow->mappings);
	file_watch__free(follow->file_watch);
	attach_queue__free(follow->queue);
	untraced_files_clear(&follow->untraced_files);
	early_files_clear(&follow->early);
	free(follow->grown);
	free(follow);
}

/* A process that maps code all the time must not wake the tracer each time. */
#define MAPPINGS_WAKES_MAX 50

/* A new mapping only wakes the loop, which then reads the mappings (follow__read_mappings). */
const struct recording_part follow_part = {.name = "processes to follow",
					   .open = open_follow,
					   .begin = begin,
					   .fd = mappings_fd,
					   .wakes_max = MAPPINGS_WAKES_MAX,
					   .tick = tick,
					   .close = close_follow};

static int written_files_fd(const struct recording *recording)
{
	return file_watch__fd(recording->follow->file_watch);
}

VERB(drop_written_files, follow__drop_written_files(recording->follow))

const struct recording_part written_files_part = {
	.name = "written files", .fd = written_files_fd, .on_readable = drop_written_files};
