// SPDX-License-Identifier: BSD-2-Clause
/* Plans each file that a process maps, once, and answers questions about a process's files. */
#include "base/grow.h"
#include "base/hash.h"
#include "base/text.h"
#include "cost/cost_model.h"
#include "plan/defaults.h"
#include "plan/internal.h"
#include "plan/operators.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static bool read_state(int fd, struct plan_file_state *state)
{
	struct statfs system;
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		return false;
	*state = (struct plan_file_state){.size_bytes = (uint64_t)status.st_size,
					  .written = status.st_mtim,
					  .changed = status.st_ctim,
					  .linked = status.st_nlink > 0,
					  .overlay = !fstatfs(fd, &system) &&
						     system.f_type == OVERLAYFS_SUPER_MAGIC};
	return true;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool plan__has_changed(const struct plan *plan, size_t module)
{
	const struct plan_file_state *then = &plan->modules[module].state;
	struct plan_file_state now;

	if (!read_state(plan->modules[module].fd, &now))
		return false;
	/* when another takes its name, its change time moves and nothing else */
	return now.size_bytes != then->size_bytes || !is_same_time(&now.written, &then->written) ||
	       (now.linked && !is_same_time(&now.changed, &then->changed));
}

void plan__forget(struct plan *plan, size_t module)
{
	plan->modules[module].overwritten = true;
}

/* Is it the same file, by what /proc/PID/maps says? */
#define IS_FILE(a, b)                                                    \
	((a)->inode == (b)->inode && (a)->dev_major == (b)->dev_major && \
	 (a)->dev_minor == (b)->dev_minor)

static ssize_t find_module(const struct plan *plan, const struct module_ref *ref)
{
	FOR_EACH (module, plan->modules)
		if (!module->overwritten && IS_FILE(module, ref))
			return module - plan->modules;
	FOR_EACH (alias, plan->aliases)
		if (IS_FILE(alias, ref) && !plan->modules[alias->module].overwritten)
			return (ssize_t)alias->module;
	return -ENOENT;
}

ssize_t plan__find(const struct plan *plan, uint64_t inode, uint32_t dev_major, uint32_t dev_minor)
{
	const struct module_ref ref = {
		.inode = inode, .dev_major = dev_major, .dev_minor = dev_minor};

	return find_module(plan, &ref);
}

static const char *open_error(int err)
{
	switch (err) {
	case ENOTSUP:
		return "32-bit, or of another machine";
	case ENOEXEC:
		return "not an ELF file, or damaged";
	case EACCES:
	case EPERM:
		return "cannot be read (permission denied), nor as the process's own user";
	case ESTALE:
		return "replaced on disk, and the mapped file cannot be reached";
	default:
		return "cannot be opened";
	}
}

static struct plan_module *add_module(struct plan *plan, const struct module_ref *ref)
{
	struct plan_module *module;

	if (GROW_BY_ONE(plan->modules))
		return NULL;
	module = &plan->modules[plan->modules_count++];
	*module = (struct plan_module){
		.inode = ref->inode,
		.dev_major = ref->dev_major,
		.dev_minor = ref->dev_minor,
		.path = strdup(ref->path),
		.base = strdup(ref->base),
		.fd = -1,
		.functions_first = plan->functions_count,
	};
	return module->path && module->base ? module : NULL;
}

/* Devices differ between maps and stat on some file systems: the inode has to do. A library taken
 * for the executable is only searched for more. */
static bool is_executable(pid_t pid, const struct module_ref *ref)
{
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return !stat(path, &status) && status.st_ino == ref->inode;
}

/* Each overlay gives a file of a layer that several share a device of its own. The inode shows
 * through, also that of the copy in an upper layer, which has been changed later.
 * -ENOENT: it is another file. */
static ssize_t find_beneath(const struct plan *plan, const struct module_ref *ref,
			    const struct plan_file_state *state)
{
	FOR_EACH (module, plan->modules)
		if (!module->overwritten && module->inode == ref->inode &&
		    (module->state.overlay || state->overlay) &&
		    module->state.size_bytes == state->size_bytes &&
		    is_same_time(&module->state.written, &state->written) &&
		    is_same_time(&module->state.changed, &state->changed))
			return module - plan->modules;
	return -ENOENT;
}

/* Do a pattern or a rule of the user choose among all functions of this file? */
static bool may_name_any_function(const struct plan_options *options,
				  const struct module_names *module)
{
	for (size_t i = 0; i < options->patterns_count; i++)
		if (!pattern__excludes(options->patterns[i]) &&
		    pattern__matches_module(options->patterns[i], module))
			return true;
	return cost_model__names_module(options->cost_model, module) ||
	       operators__name_module(options->operators, module, true);
}

static int plan_file(struct plan *plan, pid_t pid, const struct module_ref *ref, int fd)
{
	struct plan_module *module = add_module(plan, ref);
	struct interest interest = {.mangled = &plan->interest,
				    .operators = plan->options.operators,
				    .base = ref->base};
	size_t index = plan->modules_count - 1;
	struct module_names names;
	struct image *image;
	char root[64];
	int err;

	if (!module) {
		close(fd);
		return -ENOMEM;
	}
	if (plan->options.files_only) {
		module->is_ml =
			default_module(ref->base) ||
			operators__name_module(plan->options.operators,
					       &(struct module_names){.base = ref->base}, false);
		if (fd >= 0)
			close(fd);
		return 0;
	}
	FOR_EACH (former, plan->modules)
		module->successor |= former->overwritten && IS_FILE(former, module);
	read_state(fd, &module->state);
	snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	image = fd >= 0 ? image__open(fd, ref->path, root) : NULL;
	module->soname = image ? strdup(image__soname(image)) : NULL;
	names = plan_module_names(module);
	if (!image) {
		err = fd < 0 ? -fd : errno;
		if (plan_worth_searching(plan, &names))
			skipped_add(&plan->skipped, ref->base, open_error(err));
		plan->c_alone = false; /* not known: the careful answer */
		if (fd >= 0 && module->successor)
			module->fd = fd; /* perhaps it is still being written */
		else if (fd >= 0)
			close(fd);
		return 0;
	}
	if (!may_name_any_function(&plan->options, &names)) {
		image__narrow(image, interest_has, &interest);
		/* the interest depends on this program and the file's name, on no option */
		if (plan->tool_id && plan->options.facts_folder)
			image__keep_facts(image, plan->options.facts_folder,
					  plan->tool_id ^ fnv1a(ref->base, strlen(ref->base)));
	}
	plan_consider_file(plan, image, ref->base);
	err = plan_image(plan, image, index) ?: plan_hints(plan, image, index)
		?: plan_annotations(plan, image, index) ?: plan_usdt(plan, image, index)
		?: plan_file_calls(plan, image, index)
		?: plan_alloc_probes(plan, image, index, is_executable(pid, ref));
	module = &plan->modules[index];
	module->build_id = strdup(image__build_id(image));
	module->functions_count = plan->functions_count - module->functions_first;
	image__free(image);
	if (module->functions_count || module->successor)
		module->fd = fd;
	else
		close(fd);
	return err;
}

/* Plans a file that is not known by this name yet. */
static int plan_module(struct plan *plan, pid_t pid, const struct module_ref *ref)
{
	int fd = module_open(pid, ref);
	struct plan_file_state state;
	ssize_t beneath = read_state(fd, &state) ? find_beneath(plan, ref, &state) : -ENOENT;

	if (beneath < 0)
		return plan_file(plan, pid, ref, fd);
	close(fd);
	return LIST_ADD(plan->aliases, (struct plan_alias){.inode = ref->inode,
							   .dev_major = ref->dev_major,
							   .dev_minor = ref->dev_minor,
							   .module = (size_t)beneath});
}

ssize_t plan__scan(struct plan *plan, pid_t pid, size_t **modules)
{
	/* a thread whose files and memory can be read */
	pid_t task = process_task(pid);
	struct maps *maps = maps__read(task);
	struct module_ref *refs = NULL;
	size_t n = 0;
	ssize_t count;
	int err = 0;

	*modules = NULL;
	if (!maps)
		return -errno;
	count = maps__modules(maps, &refs);
	if (count > 0)
		*modules = calloc((size_t)count, sizeof(**modules));
	for (ssize_t i = 0; i < count; i++)
		if (begins_with(refs[i].base, "libperfx-nvtx"))
			plan->options.nvtx_injected = true;
		else if (begins_with(refs[i].base, "libcuda.so"))
			plan->options.no_cuda = false;
	if (count < 0 || (count && !*modules))
		err = count < 0 ? (int)count : -ENOMEM;
	for (ssize_t i = 0; !err && i < count; i++) {
		ssize_t index = find_module(plan, &refs[i]);

		if (index < 0 && plan->options.no_cuda && !plan->options.patterns_count &&
		    cuda_module(refs[i].base))
			continue;
		if (index < 0) {
			err = plan_module(plan, task, &refs[i]);
			index = find_module(plan, &refs[i]);
		}
		if (!err && index >= 0 &&
		    (plan->modules[index].functions_count ||
		     (plan->options.files_only && plan->modules[index].is_ml)))
			(*modules)[n++] = (size_t)index;
	}
	free(refs);
	maps__free(maps);
	if (err) {
		free(*modules);
		*modules = NULL;
		return err;
	}
	for (size_t i = 0; i < plan->functions_count; i++)
		plan->kinds |= plan_kinds_of(plan, &plan->functions[i], true);
	return (ssize_t)n;
}

/* On some file systems /proc/PID/maps says other devices than stat does, so the file is mapped here
 * and found in our own maps. */
static ssize_t add_mapped(struct plan *plan, const void *address)
{
	struct maps *maps = maps__read(getpid());
	const struct mapping *mapping = maps ? maps__find(maps, (uintptr_t)address) : NULL;
	struct module_ref *refs = NULL;
	ssize_t count = mapping ? maps__modules(maps, &refs) : 0, found = -ENOENT;

	for (ssize_t i = 0; i < count; i++) {
		if (!IS_FILE(&refs[i], mapping))
			continue;
		found = find_module(plan, &refs[i]);
		if (found < 0)
			found = plan_module(plan, getpid(), &refs[i])
					?: find_module(plan, &refs[i]);
		break;
	}
	free(refs);
	maps__free(maps);
	return found;
}

ssize_t plan__add_file(struct plan *plan, const char *path, uint64_t inode)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	/* the path may lead to another file by now; opening a FIFO must not block */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	void *address = MAP_FAILED;
	struct stat status;
	ssize_t index;

	if (fd < 0)
		return -ENOENT;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && (!inode || status.st_ino == inode))
		address = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	if (address == MAP_FAILED)
		return -ENOENT;
	index = add_mapped(plan, address);
	munmap(address, bytes);
	return index;
}

static ssize_t first_in_order(const struct plan *plan, const struct maps *maps,
			      const uint64_t *order, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct mapping *mapping = maps__find(maps, order[i]);
		struct module_ref ref;
		ssize_t module;

		if (!mapping || !mapping->inode)
			continue;
		ref = module_of(mapping);
		module = find_module(plan, &ref);
		if (module >= 0 && plan->modules[module].exports_malloc)
			return module;
	}
	return -ENOENT;
}

/* A file that replaces the C library's malloc comes before it. */
static ssize_t guess_provider(const struct plan *plan, const struct module_ref *refs, size_t count)
{
	ssize_t last = -ENOENT;

	for (size_t i = 0; i < count; i++) {
		ssize_t module = find_module(plan, &refs[i]);

		if (module < 0 || !plan->modules[module].exports_malloc)
			continue;
		if (!begins_with(refs[i].base, "libc.") && !begins_with(refs[i].base, "libc-") &&
		    !begins_with(refs[i].base, "ld-"))
			return module;
		last = module;
	}
	return last;
}

/* The executable is the file that defines malloc without being asked to export it. */
static ssize_t own_malloc(const struct plan *plan, const struct module_ref *refs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		ssize_t module = find_module(plan, &refs[i]);

		if (module >= 0 && plan->modules[module].defines_malloc &&
		    !plan->modules[module].exports_malloc)
			return module;
	}
	return -1;
}

ssize_t plan__provider(const struct plan *plan, pid_t pid, ssize_t *own, bool *guessed)
{
	struct maps *maps = maps__read(pid);
	struct module_ref *refs = NULL;
	ssize_t count, provider, ordered;
	uint64_t *order = NULL;

	*own = -1;
	*guessed = false;
	if (!maps)
		return -errno;
	count = maps__modules(maps, &refs);
	if (count < 0) {
		maps__free(maps);
		return count;
	}
	*own = own_malloc(plan, refs, (size_t)count);
	ordered = link_map_read(pid, &order);
	provider = ordered > 0 ? first_in_order(plan, maps, order, (size_t)ordered)
			       : guess_provider(plan, refs, (size_t)count);
	*guessed = ordered <= 0 && provider >= 0;
	free(order);
	free(refs);
	maps__free(maps);
	return provider < 0 && *own >= 0 ? *own : provider;
}

/* Where a pattern's functions are searched once more, for the message that there are none. */
struct search {
	const struct pattern *pattern;
	struct nearest *nearest;
	const struct image *image;
	char *unreadable;    /* the first file that cannot be read; NULL: none */
	const char *problem; /* why not */
	char *nameless;	     /* the first that is stripped */
	size_t functions_count;
};

static int offer_nearest(const struct symbol *symbol, void *ctx)
{
	struct search *search = ctx;
	char *label;

	search->functions_count++;
	if (!pattern__names_operators(search->pattern)) {
		nearest__offer(search->nearest, symbol->name);
		return 0;
	}
	label = plan_operator_name(search->image, symbol);
	if (label) {
		label[strcspn(label, ".")] = '\0'; /* without its overload */
		nearest__offer(search->nearest, label);
	}
	free(label);
	return 0;
}

static void search_file(struct search *search, pid_t pid, const struct module_ref *ref)
{
	int fd = module_open(pid, ref);
	struct image *image = fd < 0 ? NULL : image__open(fd, ref->path, "");

	if (!image && !search->unreadable) {
		search->problem = open_error(fd < 0 ? -fd : errno);
		search->unreadable = strdup(ref->path);
	}
	if (image) {
		search->image = image;
		image__each_function(image, offer_nearest, search);
		if (!image__traits(image)->has_symtab && !search->nameless)
			search->nameless = strdup(ref->base);
	}
	image__free(image);
	if (fd >= 0)
		close(fd);
}

static void search_again(const struct plan *plan, struct search *search, pid_t pid)
{
	struct maps *maps = maps__read(pid);
	struct module_ref *refs = NULL;
	ssize_t count = maps ? maps__modules(maps, &refs) : 0;

	for (ssize_t i = 0; i < count; i++) {
		ssize_t index = find_module(plan, &refs[i]);
		struct module_names names = {.base = refs[i].base};

		if (index >= 0)
			names = plan_module_names(&plan->modules[index]);
		if (pattern__matches_module(search->pattern, &names))
			search_file(search, pid, &refs[i]);
	}
	free(refs);
	maps__free(maps);
}

/* Only where all files were searched and have names is there no such function. */
static char *why_unmatched(const struct search *searched, const char *nearest)
{
	struct text why = {0};

	if (searched->unreadable) {
		text_printf(&why, "%s: %s", searched->unreadable, searched->problem);
	} else if (searched->nameless && !searched->functions_count) {
		text_printf(&why, "%s has no symbols (it is stripped): install its debug symbols",
			    searched->nameless);
	} else {
		text_add(&why, "no function of that name is mapped");
		if (searched->nameless)
			text_printf(&why,
				    " (%s is stripped: it has the names of exported functions)",
				    searched->nameless);
	}
	if (nearest[0])
		text_printf(&why, "; similar: %s", nearest);
	return text_take(&why);
}

bool plan__waits(const struct plan *plan, size_t pattern)
{
	const struct pattern *p = plan->options.patterns[pattern];

	return !pattern__excludes(p) && pattern__names_module(p) &&
	       !plan->pattern_saw_module[pattern];
}

int plan__unmatched(struct plan *plan, pid_t pid, char **why)
{
	*why = NULL;
	for (size_t i = 0; i < plan->options.patterns_count; i++) {
		const struct pattern *pattern = plan->options.patterns[i];
		struct search search = {.pattern = pattern};

		if (pattern__excludes(pattern) || plan->pattern_matched[i] || plan__waits(plan, i))
			continue;
		search.nearest = nearest__new(pattern, 3);
		if (search.nearest) {
			search_again(plan, &search, pid);
			*why = why_unmatched(&search, nearest__list(search.nearest));
			free(search.unreadable);
			free(search.nameless);
		}
		nearest__free(search.nearest);
		return (int)i;
	}
	return -1;
}
