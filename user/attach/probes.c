// SPDX-License-Identifier: BSD-2-Clause
#include "attach/probes.h"

#include "attach/links.h"
#include "attach/probes_internal.h"
#include "attach/tracer_internal.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/text.h"
#include "elf/image.h"
#include "proc/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct attached_process for_all_processes = {0, 0};

/* Instructions that are tried where the kernel refuses some. */
#define REFUSALS_MAX 4

struct probes *probes__new(const struct probes_parts *parts)
{
	struct probes *probes = calloc(1, sizeof(*probes));

	if (!probes)
		return NULL;
	probes->plan = parts->plan;
	probes->skipped = parts->skipped;
	probes->tracer = parts->tracer;
	probes->hit_costs.tracer = parts->tracer;
	probes->hit_costs.calibration = parts->calibration;
	probes->sink = parts->sink;
	probes->adopts = parts->adopts;
	probes->hits_emitted.width = 1;
	probes->background_emitted.width = TRACER_BACKGROUNDS;
	return probes;
}

void probes__free(struct probes *probes)
{
	if (!probes)
		return;
	for (size_t i = 0; i < probes->attachments_capacity; i++)
		free(probes->attachments[i].processes);
	free(probes->attachments);
	free(probes->openings);
	free(probes->failures);
	free(probes->allocators_emitted);
	emitted_clear(&probes->hits_emitted);
	emitted_clear(&probes->background_emitted);
	free(probes->placed);
	free(probes);
}

void probes__enable_counters(struct probes *probes, bool all)
{
	probes->counters_enabled = true;
	probes->counters_all = all;
}

size_t probes__functions_count(const struct probes *probes)
{
	return probes->functions_count;
}

size_t probes__sites_count(const struct probes *probes)
{
	return probes->sites_count;
}

const struct plan_function *probes__function(const struct probes *probes, uint32_t id)
{
	for (size_t i = 0; id && i < probes->placed_count; i++)
		if (probes->placed[i].id == id)
			return &probes->plan->functions[i];
	return NULL;
}

/* Room for what has been planned since. */
static int match_plan(struct probes *probes)
{
	const struct plan *plan = probes->plan;
	int err = grow_array(&probes->placed, &probes->placed_capacity, plan->functions_count,
			     sizeof(*probes->placed))
			  ?: grow_array(&probes->attachments, &probes->attachments_capacity,
					plan->modules_count, sizeof(*probes->attachments));

	for (size_t i = probes->placed_count; !err && i < plan->functions_count; i++)
		placed_begin(&probes->placed[probes->placed_count++], plan, &plan->functions[i]);
	return err;
}

/* A function's exits as points to be attached; returns how many. */
static size_t exit_points(struct probes *probes, size_t index, struct attach_point *points)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	size_t n = 0;

	for (size_t i = 0; i < placed->exits_count; i++)
		if (!placed_enters_at(placed, &function->site.exits[i]))
			points[n++] = (struct attach_point){
				.offset = site_offset(function, function->site.exits[i].vaddr),
				.probe = placed->first_exit + (uint32_t)i,
				.kind = point_kind_of(function),
				.group = probes_exits_group(probes, index)};
	return n;
}

/* The points of one function, exits first: an entry must never be open before its exits are. When a
 * function that nests is attached anew, its exits are still there, and its entry was on a link of
 * return probes. */
static size_t points_of(struct probes *probes, size_t index, struct attach_point *points)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	size_t n = 0;

	if (placed->ret == PERFX_RETURN_EXIT && !(placed->nests && placed->stale))
		n = exit_points(probes, index, points);
	points[n++] = (struct attach_point){
		.offset = site_offset(function, placed->entry_site.vaddr),
		.probe = placed->entry,
		.by_return = placed->ret == PERFX_RETURN_PROBE || (placed->nests && !placed->stale),
		.semaphore = plan_semaphore(function),
		.kind = point_kind_of(function),
		.group = probes_entry_group(probes, index)};
	return n;
}

/* The kernel refuses the instruction, in whichever process. */
static bool is_refusal(int err)
{
	return err == -KERNEL_ENOTSUPP || err == -EINVAL;
}

static const char *attach_error(int err)
{
	switch (-err) {
	case KERNEL_ENOTSUPP:
	case EINVAL:
		return "the kernel refuses to probe its instructions";
	case ENOSPC:
		return "too many probes: the limit of 512 single links or of the tables is reached";
	case EMFILE:
	case ENFILE:
		return "too many open files: raise ulimit -n";
	case ESRCH:
		return "the process has exited";
	case ENOMEM:
		return "out of memory";
	case EOWNERDEAD:
		return "its main thread has exited, without which links by process do not work";
	case EOPNOTSUPP:
		return "this kernel rejects the BPF program for it";
	default:
		return strerror(-err);
	}
}

/* The kernel refuses some first instructions (a lock prefix): the next safe one serves. */
static bool try_other_entry(struct probes *probes, struct image *image, size_t index,
			    const struct attach_target *target, struct attach_point *entry)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct plan_options *options = &probes->plan->options;
	struct placed *placed = &probes->placed[index];
	uint64_t refused[REFUSALS_MAX];
	struct site_options wanted = {.optimized_nop5 = options->site.optimized_nop5,
				      .nop5_kills = options->site.nop5_kills,
				      .refused = refused};

	while (wanted.refused_count < REFUSALS_MAX && entry->err == -KERNEL_ENOTSUPP) {
		refused[wanted.refused_count++] = placed->entry_site.vaddr;
		if (!placed_move_entry(placed, function, image, &wanted))
			return false;
		probes_place(probes, index);
		entry->offset = site_offset(function, placed->entry_site.vaddr);
		links__attach(tracer__links(probes->tracer), target, entry, 1);
	}
	return !entry->err;
}

/* points: of one function, its entry last. */
static void settle(struct probes *probes, size_t index, const struct attach_target *target,
		   struct attach_point *points, size_t count)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct plan_module *module = &probes->plan->modules[function->module];
	struct placed *placed = &probes->placed[index];
	struct attach_point *entry = &points[count - 1];
	bool exits_failed = false;

	/* not for allocation probes and annotations, which read arguments at the first site */
	if (entry->err == -KERNEL_ENOTSUPP && function->role != PLAN_ALLOC_PROBE &&
	    !plan_is_annotation(function)) {
		struct image *image = image__open(module->fd, module->path, "");

		if (image)
			try_other_entry(probes, image, index, target, entry);
		image__free(image);
	}
	for (size_t i = 0; i + 1 < count; i++)
		exits_failed |= points[i].err != 0;
	if (entry->err) {
		/* failures of single processes are reported together: note_failure */
		if (!placed->attached &&
		    !(function->role == PLAN_ALLOC_PROBE && placed->described) &&
		    (!target->born || is_refusal(entry->err)))
			skipped_add(probes->skipped, function->name, attach_error(entry->err));
		if (placed->object_arg && !placed->attached)
			probes__want_workers(probes);
		return;
	}
	if (exits_failed)
		probes_only_count(probes, index);
	if (function->role != PLAN_ALLOC_PROBE)
		probes->functions_count += !placed->attached;
	placed->attached = true;
	if (placed->object_arg && probes->plan->options.cost_model)
		tracer__read_objects(probes->tracer, true);
}

/* The gate for links of a file that are being made for a process. */
static uint32_t gate_of(struct probes *probes, struct opening opening)
{
	FOR_EACH (open, probes->openings)
		if (open->born == opening.born && open->module == opening.module &&
		    open->of_groups == opening.of_groups)
			return open->gate;
	if (GROW_BY_ONE(probes->openings))
		return PERFX_GATE_NONE;
	opening.gate = links__new_gate(tracer__links(probes->tracer));
	probes->openings[probes->openings_count++] = opening;
	return opening.gate;
}

void probes__open(struct probes *probes)
{
	struct links *links = tracer__links(probes->tracer);

	FOR_EACH (opening, probes->openings) {
		struct attachment *attachment = &probes->attachments[opening->module];

		links__open_gate(links, opening->gate);
		/* new links that replace those for all processes do not make the file late */
		if (opening->born || !attachment->opened_ns)
			attachment->opened_ns = clock_monotonic_ns();
	}
	probes->openings_count = 0;
	if (links__turn_gates(links))
		tracer_wait_for_programs(probes->tracer);
	links__end_turn(links);
}

uint64_t probes__opened_ns(const struct probes *probes, size_t module)
{
	return module < probes->attachments_capacity ? probes->attachments[module].opened_ns : 0;
}

/* Functions of a file could not be attached for a process; err: of the last one. */
static void note_failure(struct probes *probes, size_t module, pid_t pid, size_t functions_count,
			 int err)
{
	struct failure *failure = probes->failures;
	size_t i = 0;

	while (i < probes->failures_count && (failure[i].module != module || failure[i].err != err))
		i++;
	if (grow_array(&probes->failures, &probes->failures_capacity, i + 1,
		       sizeof(*probes->failures)))
		return;
	failure = &probes->failures[i];
	if (i == probes->failures_count) {
		probes->failures_count++;
		*failure = (struct failure){.module = module, .err = err};
	}
	if (functions_count > failure->functions_count)
		failure->functions_count = functions_count;
	if (failure->processes_count < sizeof(failure->pids) / sizeof(*failure->pids))
		failure->pids[failure->processes_count] = pid;
	failure->processes_count++;
}

void probes__skip_failed(struct probes *probes)
{
	FOR_EACH (failure, probes->failures) {
		const char *base = probes->plan->modules[failure->module].base;
		size_t named = sizeof(failure->pids) / sizeof(*failure->pids);
		struct text text = {0};
		char *reason;

		text_printf(&text, "%zu functions of %s not attached for %zu process%s (pid",
			    failure->functions_count, base, failure->processes_count,
			    failure->processes_count == 1 ? "" : "es");
		for (size_t k = 0; k < named && k < failure->processes_count; k++)
			text_printf(&text, "%s %d", k ? "," : "", (int)failure->pids[k]);
		text_printf(&text, "%s): %s", failure->processes_count > named ? ", ..." : "",
			    attach_error(failure->err));
		reason = text_take(&text);
		skipped_add(probes->skipped, base, reason ? reason : attach_error(failure->err));
		free(reason);
	}
	probes->failures_count = 0;
}

/* The kernel compares a link's process by the memory of its main thread. If that thread has
 * exited, links could be made and would never be hit. */
static void attach_points(struct probes *probes, size_t module, struct attach_target *target,
			  struct attach_point *points, size_t count)
{
	struct opening opening = {.module = module, .born = target->born};

	if (!target->born || process_task(target->pid) == target->pid) {
		target->gate = gate_of(probes, opening);
		opening.of_groups = true;
		target->groups_gate = gate_of(probes, opening);
		links__attach(tracer__links(probes->tracer), target, points, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		points[i].err = -EOWNERDEAD;
}

/* Is a function to be attached with its file now? */
static bool is_wanted(const struct probes *probes, size_t index, bool only_stale)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];

	if ((probes->only && !probes->only(probes->plan, function)) || placed->given_up ||
	    (only_stale && !placed->stale) ||
	    (function->role == PLAN_ALLOC_PROBE && !probes_alloc_wanted(probes, function)))
		return false;
	/* thunks have the FLOPs of the kernels below them, which are called a hundred times as
	 * often */
	if (plan_is_worker(function) && function->by_default && !probes->workers_wanted)
		FOR_EACH_PLACED(i, probes, function->module)
	if (probes->placed[i].object_arg)
		return false;
	return true;
}

/* counts: points of each function of the module. */
static void settle_all(struct probes *probes, size_t module, const struct attach_target *target,
		       struct attach_point *points, const size_t *counts)
{
	const struct plan_module *planned = &probes->plan->modules[module];
	size_t failed_count = 0;
	int last_err = 0;

	for (size_t i = 0; i < planned->functions_count; points += counts[i++]) {
		size_t index = planned->functions_first + i;
		bool was_attached = probes->placed[index].attached;
		int err;

		if (!counts[i])
			continue;
		settle(probes, index, target, points, counts[i]);
		err = points[counts[i] - 1].err;
		if (err && !is_refusal(err)) {
			failed_count++;
			last_err = err;
		}
		if (probes->placed[index].attached && !was_attached)
			probes_describe(probes, index);
	}
	if (failed_count && target->born)
		note_failure(probes, module, target->pid, failed_count, last_err);
}

/* Attaches the functions of one file: all, or those that have become stale. */
static void attach_functions(struct probes *probes, size_t module,
			     const struct attached_process *for_process, bool only_stale)
{
	const struct plan_module *planned = &probes->plan->modules[module];
	struct attach_target target = {
		.file_fd = planned->fd, .pid = for_process->pid, .born = for_process->born};
	size_t points_max = 1, count = 0;
	struct attach_point *points;
	size_t *counts = calloc(planned->functions_count + 1, sizeof(*counts));

	for (size_t i = 0; i < planned->functions_count; i++)
		points_max +=
			1 + probes->plan->functions[planned->functions_first + i].site.exits_count;
	points = calloc(points_max, sizeof(*points));
	for (size_t i = 0; points && counts && i < planned->functions_count; i++) {
		size_t index = planned->functions_first + i;

		if (!is_wanted(probes, index, only_stale))
			continue;
		probes->placed[index].stays |= probes->only != NULL;
		if (probes_place(probes, index))
			skipped_add(probes->skipped, probes->plan->functions[index].name,
				    attach_error(-ENOSPC));
		else
			counts[i] = points_of(probes, index, points + count);
		count += counts[i];
	}
	if (count) {
		attach_points(probes, module, &target, points, count);
		settle_all(probes, module, &target, points, counts);
	}
	free(points);
	free(counts);
}

void probes__want_workers(struct probes *probes)
{
	const struct plan *plan = probes->plan;

	tracer__read_objects(probes->tracer, false);
	if (probes->workers_wanted)
		return;
	probes->workers_wanted = true;
	for (size_t i = 0; i < probes->placed_count; i++)
		if (plan_is_worker(&plan->functions[i]) && !probes->placed[i].attached)
			probes->placed[i].stale = true;
	probes_reattach(probes);
}

static struct attached_process *find_process(const struct attachment *attachment, uint32_t born)
{
	FOR_EACH (process, attachment->processes)
		if (process->born == born)
			return process;
	return NULL;
}

bool probes__attach(struct probes *probes, size_t module, uint32_t born, pid_t pid,
		    bool all_processes)
{
	struct attached_process for_process = {born, pid};
	struct attachment *attachment;

	if (match_plan(probes))
		return false;
	attachment = &probes->attachments[module];
	if (attachment->all_processes || find_process(attachment, born))
		return attachment->all_processes;
	/* processes with links of their own must not be hit by a link for all processes too,
	 * even if no untraced process maps the file any more */
	if (all_processes && !attachment->by_process) {
		attachment->all_processes = true;
		for_process = for_all_processes;
	} else {
		if (GROW_BY_ONE(attachment->processes))
			return false;
		attachment->processes[attachment->processes_count++] = for_process;
		attachment->by_process = true;
	}
	attach_functions(probes, module, &for_process, false);
	return attachment->all_processes;
}

bool probes__decided(const struct probes *probes, size_t module)
{
	return module < probes->attachments_capacity &&
	       (probes->attachments[module].all_processes ||
		probes->attachments[module].by_process);
}

bool probes__attached_for(const struct probes *probes, size_t module, uint32_t born)
{
	return module < probes->attachments_capacity &&
	       (probes->attachments[module].all_processes ||
		find_process(&probes->attachments[module], born));
}

void probes__release(struct probes *probes, uint32_t born)
{
	links__release(tracer__links(probes->tracer), born);
	for (size_t i = 0; i < probes->attachments_capacity; i++) {
		struct attachment *attachment = &probes->attachments[i];
		struct attached_process *for_process = find_process(attachment, born);

		if (for_process)
			*for_process = attachment->processes[--attachment->processes_count];
	}
}

static void forget_attachment(struct probes *probes, size_t module)
{
	struct attachment *attachment = &probes->attachments[module];

	FOR_EACH_PLACED(i, probes, module)
	{
		if (probes->plan->functions[i].role != PLAN_ALLOC_PROBE)
			probes->functions_count -= probes->placed[i].attached;
		probes->placed[i].attached = false;
	}
	attachment->all_processes = attachment->by_process = false;
	attachment->processes_count = 0;
	attachment->opened_ns = 0;
}

void probes__drop(struct probes *probes, size_t module)
{
	if (module >= probes->attachments_capacity)
		return;
	links__detach_file(tracer__links(probes->tracer), probes->plan->modules[module].fd);
	forget_attachment(probes, module);
}

void probes__renew(struct probes *probes, size_t module)
{
	links__age_file(tracer__links(probes->tracer), probes->plan->modules[module].fd, true);
	forget_attachment(probes, module);
}

size_t probes__attached_count(const struct probes *probes, size_t module)
{
	size_t count = 0;

	FOR_EACH_PLACED(i, probes, module)
	count += probes->placed[i].attached;
	return count;
}

bool probes__go_by_process(const struct probes *probes)
{
	for (size_t i = 0; i < probes->attachments_capacity; i++)
		if (probes->attachments[i].by_process && probes->plan->modules[i].functions_count)
			return true;
	return false;
}

void probes_reattach_module(struct probes *probes, size_t module)
{
	struct attachment attachment = probes->attachments[module];

	if (attachment.all_processes)
		attach_functions(probes, module, &for_all_processes, true);
	FOR_EACH (process, attachment.processes)
		attach_functions(probes, module, process, true);
	FOR_EACH_PLACED(i, probes, module)
	probes->placed[i].stale = false;
}

void probes_reattach(struct probes *probes)
{
	for (size_t i = 0; i < probes->plan->modules_count && i < probes->attachments_capacity; i++)
		probes_reattach_module(probes, i);
	probes__open(probes);
}

void probes__only(struct probes *probes, probes_wanted_fn *wanted)
{
	probes->only = wanted;
}

void probes__attach_rest(struct probes *probes)
{
	probes->only = NULL;
	for (size_t i = 0; i < probes->placed_count; i++)
		probes->placed[i].stale = !probes->placed[i].attached;
	probes_reattach(probes);
}

void probes_age_ungrouped(struct probes *probes, size_t module)
{
	FOR_EACH_PLACED(i, probes, module)
	if (probes->placed[i].attached && !probes_entry_group(probes, i))
		probes->placed[i].stale = true;
	links__age_file(tracer__links(probes->tracer), probes->plan->modules[module].fd, false);
}

static void distrust(struct probes *probes, size_t index)
{
	struct links *links = tracer__links(probes->tracer);
	struct placed *placed = &probes->placed[index];
	uint32_t entry = probes_entry_group(probes, index);

	if (entry) {
		links__detach_group(links, entry);
		links__detach_group(links, probes_exits_group(probes, index));
	} else {
		probes_age_ungrouped(probes, probes->plan->functions[index].module);
	}
	/* sessions decline the return from here on; the new links have an entry of their own */
	if (placed->relies_on_c && placed->entry) {
		tracer__probe(probes->tracer, placed->entry)->kind = PERFX_PROBE_COUNT;
		placed->old_entry = placed->entry;
		placed->entry = 0;
		placed->expense.entry_hits_count = 0;
	}
	probes->functions_count--;
	placed->attached = placed->nests = false;
	placed->stale = true;
}

void probes__distrust_returns(struct probes *probes)
{
	const struct plan_function *functions = probes->plan->functions;
	bool any = false;

	if (match_plan(probes))
		return;
	for (size_t i = 0; i < probes->placed_count; i++)
		any |= probes->placed[i].relies_on_c;
	if (!any)
		return;
	/* programs of other links cannot decline the return probe, so these links go first */
	if (tracer__return_link(probes->tracer) != PERFX_LINK_SESSION)
		links__detach_returns(tracer__links(probes->tracer));
	for (size_t i = 0; i < probes->placed_count; i++) {
		struct placed *placed = &probes->placed[i];

		if (placed->attached && functions[i].role != PLAN_ALLOC_PROBE &&
		    (placed->relies_on_c || placed->nests || placed->ret == PERFX_RETURN_PROBE))
			distrust(probes, i);
		placed_distrust_returns(placed, &functions[i]);
	}
	/* no call is to be counted by a link that goes and by its successor */
	links__wait(tracer__links(probes->tracer));
	/* their entries and exits are sites now, as of other functions */
	probes_reattach(probes);
}

/*
 * Calls that nest deeper than return probes may: the programs decline the return probe, count the
 * call, and list the probe (tracer__drain_declined). From then on that function is timed at its
 * exits, where these are known.
 *
 * A link serves many functions, so that of the entry stays: a session link makes no return probe
 * where the entry's kind says that exits end the call. Exits come first, for an entry must never be
 * open before its exits are. Calls that have a return probe by then end by it.
 */

/* Attaches the exits of one function for all processes that have its file attached. */
static int attach_exits(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct attachment *attachment = &probes->attachments[function->module];
	struct attach_point *points = calloc(function->site.exits_count + 1, sizeof(*points));
	size_t processes = attachment->all_processes ? 1 : attachment->processes_count, count;
	int err = points ? probes_place_exits(probes, index, PERFX_PROBE_F_TAKES_OVER) : -ENOMEM;

	for (size_t p = 0; !err && p < processes; p++) {
		const struct attached_process *for_process =
			attachment->all_processes ? &for_all_processes : &attachment->processes[p];
		struct attach_target target = {.file_fd =
						       probes->plan->modules[function->module].fd,
					       .pid = for_process->pid,
					       .born = for_process->born};

		count = exit_points(probes, index, points);
		if (count)
			attach_points(probes, function->module, &target, points, count);
		for (size_t i = 0; i < count; i++)
			if (points[i].err && points[i].err != -ESRCH) /* no call is missed */
				err = points[i].err;
	}
	free(points);
	probes__open(probes);
	return err;
}

static void time_at_exits(struct probes *probes, size_t index)
{
	struct placed *placed = &probes->placed[index];

	if (!placed->attached ||
	    !placed_prefer_exits(placed, probes->plan, &probes->plan->functions[index]))
		return;
	if (attach_exits(probes, index)) {
		probes_drop_exits(probes, index);
		placed->exits_count = 0;
		placed_doubt_exits(placed);
		return;
	}
	placed->nests = true;
	probes_place(probes, index);
	probes_describe(probes, index);
	msg_say("%s: its calls nest too deeply for return probes: timed at its exits from now on",
		probes->plan->functions[index].name);
}

void probes__time_deep_calls_at_exits(struct probes *probes)
{
	uint32_t declined[PERFX_DECLINED_PLACES];
	size_t count = tracer__drain_declined(probes->tracer, declined);

	for (size_t i = 0; i < count; i++) {
		size_t index = 0;

		while (index < probes->placed_count && probes->placed[index].entry != declined[i])
			index++;
		if (index < probes->placed_count)
			time_at_exits(probes, index);
	}
}
