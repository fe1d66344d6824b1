// SPDX-License-Identifier: BSD-2-Clause
#include "record/probes.h"

#include "attach/link.h"
#include "base/message.h"
#include "stream/pack.h"
#include "target/image.h"
#include "target/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often another instruction is tried where the kernel refuses one. */
#define REFUSALS_MAX 4

/* A function's probes. */
struct placed {
	bool described; /* its FUNCTION record is out */
	bool attached;
	bool stale;	/* was attached in a way that is no longer trusted */
	uint32_t entry; /* probe index; 0: none yet */
	uint32_t first_exit;
	size_t exits_count;
};

struct attachment {
	bool everybody;
	pid_t *pids;
	size_t pids_count;
};

struct probes {
	struct plan *plan;
	struct tracer *tracer;
	const struct calibration *calibration;
	struct sink *sink;
	struct pack_buffer buffer;
	struct placed *placed; /* by function index */
	size_t placed_capacity;
	struct attachment *attachments; /* by module index */
	size_t attachments_capacity;
	size_t functions_count, sites_count;
	uint64_t detached_count;
};

struct probes *probes__new(struct plan *plan, struct tracer *tracer,
			   const struct calibration *calibration, struct sink *sink)
{
	struct probes *probes = calloc(1, sizeof(*probes));

	if (!probes)
		return NULL;
	probes->plan = plan;
	probes->tracer = tracer;
	probes->calibration = calibration;
	probes->sink = sink;
	return probes;
}

void probes__free(struct probes *probes)
{
	if (!probes)
		return;
	for (size_t i = 0; i < probes->attachments_capacity; i++)
		free(probes->attachments[i].pids);
	free(probes->attachments);
	free(probes->placed);
	free(probes);
}

size_t probes__functions_count(const struct probes *probes)
{
	return probes->functions_count;
}

size_t probes__sites_count(const struct probes *probes)
{
	return probes->sites_count;
}

/* An array as long as the plan's, new elements zero. */
static int match_length(void **array, size_t *capacity, size_t count, size_t size)
{
	char *grown;

	if (count <= *capacity)
		return 0;
	grown = realloc(*array, count * size);
	if (!grown)
		return -ENOMEM;
	memset(grown + *capacity * size, 0, (count - *capacity) * size);
	*array = grown;
	*capacity = count;
	return 0;
}

static int match_plan(struct probes *probes)
{
	int err = match_length((void **)&probes->placed, &probes->placed_capacity,
			       probes->plan->functions_count, sizeof(*probes->placed));

	if (!err)
		err = match_length((void **)&probes->attachments, &probes->attachments_capacity,
				   probes->plan->modules_count, sizeof(*probes->attachments));
	return err;
}

/* --- the tables --- */

static uint32_t call_cost_ns(const struct probes *probes, const struct plan_function *function)
{
	const struct calibration *calibration = probes->calibration;
	double cost = calibration_hit_ns(calibration, (enum perfx_site)function->site.entry_kind,
					 function->ret);

	/* one of the exits is hit; which one is not known, so the first */
	if (function->ret == PERFX_RETURN_EXIT && function->site.exits_count)
		cost += calibration_hit_ns(calibration,
					   (enum perfx_site)function->site.exits[0].kind,
					   function->ret);
	return (uint32_t)cost;
}

/* The part of a call's cost that lies between its own two time stamps. */
static uint32_t own_cost_ns(const struct probes *probes, const struct plan_function *function)
{
	const struct calibration *calibration = probes->calibration;

	return (uint32_t)(function->ret == PERFX_RETURN_PROBE
				  ? calibration->empty_span_by_return_ns[function->site.entry_kind]
				  : calibration->empty_span_ns[function->site.entry_kind]);
}

static enum perfx_probe_kind entry_kind(enum perfx_return ret)
{
	switch (ret) {
	case PERFX_RETURN_EXIT:
		return PERFX_PROBE_ENTRY;
	case PERFX_RETURN_PROBE:
		return PERFX_PROBE_RETURN;
	case PERFX_RETURN_NONE:
		break;
	}
	return PERFX_PROBE_COUNT;
}

static struct perfx_probe exit_probe(uint32_t function, const struct exit_site *site,
				     uint32_t cost_ns)
{
	struct perfx_probe probe = {
		.function = function,
		.kind = site->when == EXIT_ALWAYS ? PERFX_PROBE_EXIT : PERFX_PROBE_EXIT_IF,
		.condition = site->condition,
		.cfa_is_fp = site->cfa_reg == CFA_RBP,
		.cfa_offset = site->cfa_offset,
		.call_cost_ns = cost_ns,
	};

	/* codes come in pairs of opposites that differ in the lowest bit */
	if (site->when == EXIT_IF_NOT_TAKEN)
		probe.condition ^= 1;
	return probe;
}

/* What an entry site is besides: a way out, a loop's target. */
static void mark_entry(struct perfx_probe *probe, const struct plan_function *function)
{
	const struct site_plan *site = &function->site;

	if (site->entry_repeats)
		probe->flags |= PERFX_PROBE_F_REPEATS;
	if (function->ret != PERFX_RETURN_EXIT || !site->entry_is_exit)
		return;
	for (size_t i = 0; i < site->exits_count; i++) {
		struct perfx_probe exit = exit_probe(0, &site->exits[i], 0);

		if (site->exits[i].vaddr != site->entry_vaddr)
			continue;
		probe->condition = exit.condition;
		probe->flags |= exit.kind == PERFX_PROBE_EXIT ? PERFX_PROBE_F_LEAVES
							      : PERFX_PROBE_F_LEAVES_IF;
	}
}

/* Gives a function its table entries; 0 or -ENOSPC. */
static int place(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];
	uint32_t id = (uint32_t)index + 1, cost_ns = call_cost_ns(probes, function);
	struct perfx_probe probe = {.function = id,
				    .kind = entry_kind(function->ret),
				    .call_cost_ns = cost_ns,
				    .own_cost_ns = own_cost_ns(probes, function)};
	int64_t slot;

	mark_entry(&probe, function);
	if (placed->entry) {
		*tracer__probe(probes->tracer, placed->entry) = probe;
	} else {
		slot = tracer__add_probe(probes->tracer, &probe);
		if (slot < 0)
			return (int)slot;
		placed->entry = (uint32_t)slot;
	}
	if (function->ret != PERFX_RETURN_EXIT || placed->exits_count)
		return 0;
	for (size_t i = 0; i < function->site.exits_count; i++) {
		probe = exit_probe(id, &function->site.exits[i], cost_ns);
		slot = tracer__add_probe(probes->tracer, &probe);
		if (slot < 0)
			return (int)slot;
		if (!i)
			placed->first_exit = (uint32_t)slot;
		placed->exits_count++;
	}
	return 0;
}

/* --- the stream --- */

static void describe_function(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct plan_module *module = &probes->plan->modules[function->module];
	struct perfx_function record = {.offset = function->offset,
					.function = (uint32_t)index + 1,
					.source = (uint16_t)function->source};
	const struct perfx_record *packed =
		PACK(&probes->buffer, PERFX_KIND_FUNCTION, record, function->name, module->path,
		     module->build_id);

	sink_record(probes->sink, packed, packed->size);
}

static void describe_probe(struct probes *probes, uint32_t probe, size_t index, uint64_t offset,
			   enum site_kind site, bool is_exit)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct perfx_probe_record record = {
		.offset = offset,
		.cost_ps = (uint64_t)(calibration_hit_ns(probes->calibration, (enum perfx_site)site,
							 function->ret) *
				      1000),
		.probe = probe,
		.function = (uint32_t)index + 1,
		.link = function->ret == PERFX_RETURN_PROBE ? tracer__return_link(probes->tracer)
							    : tracer__hit_link(probes->tracer),
		.ret = function->ret,
		.site = (uint8_t)site,
		.is_exit = is_exit,
	};
	const struct perfx_record *packed = PACK(&probes->buffer, PERFX_KIND_PROBE, record);

	sink_record(probes->sink, packed, packed->size);
	probes->sites_count++;
}

static uint64_t site_offset(const struct plan_function *function, uint64_t vaddr)
{
	/* a function and its cold part lie in one segment: addresses and offsets move alike */
	return function->offset + (vaddr - function->vaddr);
}

/* An exit site on the entry's instruction is the entry probe's business. */
static bool at_entry(const struct plan_function *function, size_t exit)
{
	return function->site.exits[exit].vaddr == function->site.entry_vaddr;
}

/* Chosen by default, and dear to time: its exits get a link of their own. */
static bool is_droppable(const struct plan_function *function)
{
	bool stepped = false;

	for (size_t i = 0; i < function->site.exits_count; i++)
		stepped = stepped || function->site.exits[i].kind == SITE_STEPPED;
	return function->by_default && function->ret == PERFX_RETURN_EXIT && stepped;
}

static void describe(struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];

	if (!placed->described)
		describe_function(probes, index);
	placed->described = true;
	describe_probe(probes, placed->entry, index,
		       site_offset(function, function->site.entry_vaddr),
		       function->site.entry_kind, false);
	if (function->ret != PERFX_RETURN_EXIT)
		return;
	for (size_t i = 0; i < placed->exits_count; i++)
		if (!at_entry(function, i))
			describe_probe(probes, placed->first_exit + (uint32_t)i, index,
				       site_offset(function, function->site.exits[i].vaddr),
				       function->site.exits[i].kind, true);
}

/* --- attaching --- */

/* The points of one function, exits first: an entry must never be open before its ways out are. */
static size_t points_of(struct probes *probes, size_t index, struct attach_point *points)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	uint32_t group = is_droppable(function) ? (uint32_t)index + 1 : 0;
	size_t n = 0;

	if (function->ret == PERFX_RETURN_EXIT)
		for (size_t i = 0; i < placed->exits_count; i++)
			if (!at_entry(function, i))
				points[n++] = (struct attach_point){
					.offset = site_offset(function,
							      function->site.exits[i].vaddr),
					.probe = placed->first_exit + (uint32_t)i,
					.group = group};
	points[n++] = (struct attach_point){
		.offset = site_offset(function, function->site.entry_vaddr),
		.probe = placed->entry,
		.by_return = function->ret == PERFX_RETURN_PROBE};
	return n;
}

/* How many points_of gives. */
static size_t points_count(const struct plan_function *function)
{
	size_t count = 1;

	if (function->ret != PERFX_RETURN_EXIT)
		return count;
	for (size_t i = 0; i < function->site.exits_count; i++)
		count += !at_entry(function, i);
	return count;
}

static const char *attach_error(int err)
{
	switch (-err) {
	case KERNEL_ENOTSUPP:
	case EINVAL:
		return "the kernel refuses to probe its instructions";
	case ENOSPC:
		return "too many probes: 512 perf links, or the tables are full";
	case EMFILE:
	case ENFILE:
		return "too many open files";
	case ESRCH:
		return "the process is gone";
	case ENOMEM:
		return "out of memory";
	default:
		return strerror(-err);
	}
}

/* From now on its calls are counted, not timed. */
static void only_count(struct probes *probes, size_t index, const char *why)
{
	struct plan_function *function = &probes->plan->functions[index];
	struct placed *placed = &probes->placed[index];

	function->ret = PERFX_RETURN_NONE;
	function->ret_why = why;
	tracer__probe(probes->tracer, placed->entry)->kind = PERFX_PROBE_COUNT;
	for (size_t i = 0; i < placed->exits_count; i++)
		tracer__probe(probes->tracer, placed->first_exit + (uint32_t)i)->kind =
			PERFX_PROBE_INVALID;
}

/* One function's probes did not all attach. */
static void settle_failure(struct probes *probes, size_t index, const struct attach_point *points,
			   size_t count)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	const struct attach_point *entry = &points[count - 1];

	if (entry->err) {
		if (!placed->attached) /* else for another process, which may be gone */
			plan__refuse(probes->plan, function->name, attach_error(entry->err));
		return;
	}
	/* entered, but a way out is missing */
	only_count(probes, index, "the kernel refuses to probe one of its ways out");
}

/* The kernel refuses some first instructions (a lock prefix): the next safe one serves. */
static bool try_other_entry(struct probes *probes, struct image *image, size_t index, pid_t pid,
			    struct attach_point *entry)
{
	struct plan_function *function = &probes->plan->functions[index];
	uint64_t refused[REFUSALS_MAX];

	for (size_t n = 0; n < REFUSALS_MAX && entry->err == -KERNEL_ENOTSUPP; n++) {
		struct site_options options = {.optimized_nop5 = probes->plan->options.optimized_nop5,
					       .refused = refused,
					       .refused_count = n + 1};
		struct site_plan site;

		refused[n] = function->site.entry_vaddr;
		if (site_plan(image, function->vaddr, function->size, &options, &site))
			return false;
		function->site.entry_vaddr = site.entry_vaddr;
		function->site.entry_kind = site.entry_kind;
		function->site.entry_note = site.entry_note;
		function->site.entry_is_exit = site.entry_is_exit;
		function->site.entry_repeats = site.entry_repeats;
		site_plan__clear(&site);
		place(probes, index);
		entry->offset = site_offset(function, function->site.entry_vaddr);
		tracer__attach(probes->tracer, probes->plan->modules[function->module].fd, pid,
			       entry, 1);
	}
	return !entry->err;
}

static void settle(struct probes *probes, size_t index, pid_t pid, struct attach_point *points,
		   size_t count)
{
	const struct plan_module *module =
		&probes->plan->modules[probes->plan->functions[index].module];
	struct attach_point *entry = &points[count - 1];
	bool failed = false;

	if (entry->err == -KERNEL_ENOTSUPP) {
		struct image *image = image__open(module->fd, module->path, "");

		if (image)
			try_other_entry(probes, image, index, pid, entry);
		image__free(image);
	}
	for (size_t i = 0; i < count; i++)
		failed = failed || points[i].err;
	if (failed)
		settle_failure(probes, index, points, count);
	if (entry->err)
		return;
	probes->functions_count += !probes->placed[index].attached;
	probes->placed[index].attached = true;
}

/* Attaches the functions of one file: all, or those that have become stale. */
static void attach_functions(struct probes *probes, size_t module, pid_t pid, bool only_stale)
{
	struct plan *plan = probes->plan;
	size_t first = plan->modules[module].functions_first;
	size_t end = first + plan->modules[module].functions_count, n = 0, points_max = 0;
	struct attach_point *points;
	bool *wanted;

	for (size_t i = first; i < end; i++)
		points_max += points_count(&plan->functions[i]);
	points = calloc(points_max ? points_max : 1, sizeof(*points));
	wanted = calloc(end - first + 1, sizeof(*wanted));
	for (size_t i = first; points && wanted && i < end; i++) {
		if (only_stale && !probes->placed[i].stale)
			continue;
		if (place(probes, i)) {
			plan__refuse(plan, plan->functions[i].name, attach_error(-ENOSPC));
			continue;
		}
		wanted[i - first] = true;
		n += points_of(probes, i, points + n);
	}
	if (n)
		tracer__attach(probes->tracer, plan->modules[module].fd, pid, points, n);
	n = 0;
	for (size_t i = first; points && wanted && i < end; i++) {
		bool was_attached = probes->placed[i].attached;
		size_t count = points_count(&plan->functions[i]);

		if (!wanted[i - first])
			continue;
		settle(probes, i, pid, points + n, count);
		if (probes->placed[i].attached && !was_attached)
			describe(probes, i);
		n += count;
	}
	free(points);
	free(wanted);
}

static bool attached_for(const struct attachment *attachment, pid_t pid)
{
	if (attachment->everybody)
		return true;
	for (size_t i = 0; i < attachment->pids_count; i++)
		if (attachment->pids[i] == pid)
			return true;
	return false;
}

bool probes__attach(struct probes *probes, size_t module, pid_t pid, bool everybody)
{
	struct attachment *attachment;
	pid_t *pids;

	if (match_plan(probes))
		return false;
	attachment = &probes->attachments[module];
	if (attached_for(attachment, pid))
		return attachment->everybody;
	if (everybody) {
		attachment->everybody = true;
	} else {
		pids = realloc(attachment->pids, (attachment->pids_count + 1) * sizeof(*pids));
		if (!pids)
			return false;
		attachment->pids = pids;
		pids[attachment->pids_count++] = pid;
	}
	attach_functions(probes, module, everybody ? 0 : pid, false);
	return attachment->everybody;
}

static void reattach(struct probes *probes, size_t module)
{
	struct attachment attachment = probes->attachments[module];

	if (attachment.everybody)
		attach_functions(probes, module, 0, true);
	for (size_t i = 0; i < attachment.pids_count; i++)
		attach_functions(probes, module, attachment.pids[i], true);
	for (size_t i = 0; i < probes->plan->modules[module].functions_count; i++)
		probes->placed[probes->plan->modules[module].functions_first + i].stale = false;
}

void probes__distrust_returns(struct probes *probes)
{
	struct plan *plan = probes->plan;

	if (match_plan(probes) || !plan__distrust_returns(plan))
		return;
	tracer__detach_returns(probes->tracer);
	for (size_t i = 0; i < plan->functions_count; i++) {
		struct plan_function *function = &plan->functions[i];

		if (function->c_alone || function->ret == PERFX_RETURN_PROBE) {
			probes->functions_count -= probes->placed[i].attached;
			probes->placed[i].stale = probes->placed[i].attached;
			probes->placed[i].attached = false;
		}
		function->c_alone = false;
	}
	for (size_t i = 0; i < probes->attachments_capacity; i++)
		reattach(probes, i);
}

static double exits_cost_ns(const struct probes *probes, size_t index)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const struct placed *placed = &probes->placed[index];
	double cost_ns = 0;

	for (size_t i = 0; i < placed->exits_count; i++)
		cost_ns += (double)tracer__hits(probes->tracer, placed->first_exit + (uint32_t)i) *
			   calibration_hit_ns(probes->calibration,
					      (enum perfx_site)function->site.exits[i].kind,
					      PERFX_RETURN_EXIT);
	return cost_ns;
}

static void drop_exits(struct probes *probes, size_t index, double percent)
{
	const struct plan_function *function = &probes->plan->functions[index];
	const char *base = probes->plan->modules[function->module].base;

	only_count(probes, index, "timing it was too dear for the default");
	tracer__probe(probes->tracer, probes->placed[index].entry)->flags |= PERFX_PROBE_F_BY_CHOICE;
	tracer__detach_group(probes->tracer, (uint32_t)index + 1);
	probes->detached_count += probes->placed[index].exits_count;
	msg_say("%s: timing it cost %.0f %%: counted from now on; -F '%s:%s' insists",
		function->name, percent, base, function->name);
}

void probes__enforce_budget(struct probes *probes, uint64_t elapsed_ns)
{
	for (size_t i = 0; i < probes->placed_capacity && elapsed_ns; i++) {
		double percent;

		if (!probes->placed[i].attached || !is_droppable(&probes->plan->functions[i]))
			continue;
		percent = 100 * exits_cost_ns(probes, i) / (double)elapsed_ns;
		if (percent > BUDGET_PERCENT)
			drop_exits(probes, i, percent);
	}
}

uint64_t probes__detached_count(const struct probes *probes)
{
	return probes->detached_count;
}

/* A site given up (INVALID) may have been hit before, and is none. */
static bool is_entry(const struct perfx_probe *probe)
{
	return probe->kind == PERFX_PROBE_COUNT || probe->kind == PERFX_PROBE_ENTRY ||
	       probe->kind == PERFX_PROBE_RETURN;
}

uint64_t probes__report_hits(struct probes *probes)
{
	uint64_t entries = 0;

	for (uint32_t i = 1; i < tracer__probes_count(probes->tracer); i++) {
		struct perfx_hits record = {.probe = i,
					    .hits_count = tracer__hits(probes->tracer, i)};
		const struct perfx_record *packed = PACK(&probes->buffer, PERFX_KIND_HITS, record);

		/* a probe without this record was not hit */
		if (!record.hits_count)
			continue;
		if (is_entry(tracer__probe(probes->tracer, i)))
			entries += record.hits_count;
		sink_record(probes->sink, packed, packed->size);
	}
	return entries;
}

static bool maps_module(pid_t pid, const struct plan_module *module)
{
	struct maps *maps = maps__read(pid);
	bool found = false;

	for (size_t i = 0; maps && !found && i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);

		found = mapping->executable && mapping->inode == module->inode &&
			mapping->dev_major == module->dev_major &&
			mapping->dev_minor == module->dev_minor;
	}
	maps__free(maps);
	return found;
}

static bool is_member(pid_t pid, const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

bool module_is_shared(const struct plan_module *module, const pid_t *pids, size_t pids_count)
{
	pid_t *all;
	ssize_t count = process_find(NULL, &all);
	bool shared = false;

	for (ssize_t i = 0; !shared && i < count; i++)
		shared = !is_member(all[i], pids, pids_count) && maps_module(all[i], module);
	if (count >= 0)
		free(all);
	return shared;
}
