// SPDX-License-Identifier: BSD-2-Clause
#include "attach/mapped_files.h"

#include <criterion/criterion.h>
#include <unistd.h>

/* Of the file that has this code. */
static struct plan_module own_module(void)
{
	struct maps *maps = maps__read(getpid());
	const struct mapping *mapping = maps ? maps__find(maps, (uintptr_t)own_module) : NULL;
	struct plan_module module = {.fd = -1};

	cr_assert(mapping);
	module.inode = mapping->inode;
	module.dev_major = mapping->dev_major;
	module.dev_minor = mapping->dev_minor;
	maps__free(maps);
	return module;
}

static bool none_is_traced(pid_t pid, void *ctx)
{
	(void)pid, (void)ctx;
	return false;
}

/* Each process is by the second question. */
static bool is_traced_by_now(pid_t pid, void *ctx)
{
	pid_t *asked = ctx;
	bool again = *asked == pid;

	*asked = pid;
	return again;
}

/* After one pass, files that no report of a new mapping has named cost no further pass. */
Test(mapped_files, other_programs_are_read_once)
{
	struct plan_module modules[] = {own_module(), own_module()};
	struct plan plan = {.modules = modules, .modules_count = 2};
	struct sharing own = {.module = 0}, unknown = {.module = 1};
	struct untraced_files untraced = {.complete = false};
	pid_t asked = 0;

	modules[1].inode = ~0ull - 1;
	cr_expect_gt(sharing_find(&untraced, &plan, none_is_traced, NULL, &own, 1), 0);
	cr_expect(own.shared, "this program maps it and is not traced");
	cr_expect_eq(sharing_find(&untraced, &plan, none_is_traced, NULL, &unknown, 1), 0);
	cr_expect_not(unknown.shared);
	/* an untraced process mapped it, and has ended or unmapped it since */
	untraced_files_add(&untraced, modules[1].inode);
	cr_expect_gt(sharing_find(&untraced, &plan, none_is_traced, NULL, &unknown, 1), 0);
	cr_expect_not(unknown.shared);
	/* only traced processes map it now, which were forked while they were looked at */
	own.shared = false;
	cr_expect_gt(sharing_find(&untraced, &plan, is_traced_by_now, &asked, &own, 1), 0);
	cr_expect_not(own.shared);
	untraced_files_clear(&untraced);
}
