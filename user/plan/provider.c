// SPDX-License-Identifier: BSD-2-Clause
/* Several files may define malloc; a call goes to the first of them. */
#include "plan/internal.h"
#include "proc/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static ssize_t module_at(const struct plan *plan, const struct mapping *mapping)
{
	struct module_ref ref;

	if (!mapping || !mapping->inode)
		return -ENOENT;
	ref = (struct module_ref){.inode = mapping->inode,
				  .dev_major = mapping->dev_major,
				  .dev_minor = mapping->dev_minor};
	return plan_find_module(plan, &ref);
}

static ssize_t first_in_order(const struct plan *plan, const struct maps *maps,
			      const uint64_t *order, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		ssize_t module = module_at(plan, maps__find(maps, order[i]));

		if (module >= 0 && plan->modules[module].exports_malloc)
			return module;
	}
	return -ENOENT;
}

/* Whoever takes the place of the C library's malloc comes before it. */
static ssize_t guess(const struct plan *plan, const struct module_ref *refs, size_t count)
{
	ssize_t last = -ENOENT;

	for (size_t i = 0; i < count; i++) {
		ssize_t module = plan_find_module(plan, &refs[i]);

		if (module < 0 || !plan->modules[module].exports_malloc)
			continue;
		if (strncmp(refs[i].base, "libc.", 5) != 0 &&
		    strncmp(refs[i].base, "libc-", 5) != 0 && strncmp(refs[i].base, "ld-", 3) != 0)
			return module;
		last = module;
	}
	return last;
}

/* The executable is the file that defines malloc without being asked to export it. */
static ssize_t own_malloc(const struct plan *plan, const struct module_ref *refs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		ssize_t module = plan_find_module(plan, &refs[i]);

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
			       : guess(plan, refs, (size_t)count);
	*guessed = ordered <= 0 && provider >= 0;
	free(order);
	free(refs);
	maps__free(maps);
	return provider < 0 && *own >= 0 ? *own : provider;
}
