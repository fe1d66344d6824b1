// SPDX-License-Identifier: BSD-2-Clause
/* Patterns without a match: those that wait for their file, and those that are wrong. */
#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int offer_nearest(const struct symbol *symbol, void *ctx)
{
	nearest__offer(ctx, symbol->name);
	return 0;
}

static void feed_nearest(struct nearest *nearest, const struct pattern *pattern, pid_t pid)
{
	struct maps *maps = maps__read(pid);
	struct module_ref *refs = NULL;
	ssize_t count = maps ? maps__modules(maps, &refs) : 0;

	for (ssize_t i = 0; i < count; i++) {
		struct image *image;
		int fd;

		if (!pattern__matches_module(pattern, refs[i].base))
			continue;
		fd = module_open(pid, &refs[i]);
		if (fd < 0)
			continue;
		image = image__open(fd, refs[i].path, "");
		if (image)
			image__each_function(image, offer_nearest, nearest);
		image__free(image);
		close(fd);
	}
	free(refs);
	maps__free(maps);
}

bool plan__waits(const struct plan *plan, size_t pattern)
{
	const struct pattern *p = plan->options.patterns[pattern];

	return !pattern__excludes(p) && pattern__names_module(p) &&
	       !plan->pattern_saw_module[pattern];
}

int plan__unmatched(struct plan *plan, pid_t pid, char **nearest)
{
	*nearest = NULL;
	for (size_t i = 0; i < plan->options.patterns_count; i++) {
		const struct pattern *pattern = plan->options.patterns[i];
		struct nearest *names;

		if (pattern__excludes(pattern) || plan->pattern_matched[i] || plan__waits(plan, i))
			continue;
		names = nearest__new(pattern, 3);
		if (names) {
			feed_nearest(names, pattern, pid);
			*nearest = strdup(nearest__list(names));
			nearest__free(names);
		}
		return (int)i;
	}
	return -1;
}
