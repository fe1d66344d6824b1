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

/* After one pass, files that no report of a new mapping has named cost no further pass. */
Test(mapped_files, other_programs_are_read_once)
{
	struct plan_module modules[] = {own_module(), own_module()};
	struct plan plan = {.modules = modules, .modules_count = 2};
	struct sharing own = {.module = 0}, unknown = {.module = 1};
	struct untraced_files untraced = {.complete = false};
	const pid_t member = getpid();

	modules[1].inode = ~0ull - 1;
	cr_expect_gt(sharing_find(&untraced, &plan, NULL, 0, &own, 1), 0);
	cr_expect(own.shared, "this program maps it and is not traced");
	cr_expect_eq(sharing_find(&untraced, &plan, NULL, 0, &unknown, 1), 0);
	cr_expect_not(unknown.shared);
	/* an untraced process mapped it, and has ended or unmapped it since */
	untraced_files_add(&untraced, modules[1].inode);
	cr_expect_gt(sharing_find(&untraced, &plan, NULL, 0, &unknown, 1), 0);
	cr_expect_not(unknown.shared);
	/* only a member maps it now */
	own.shared = false;
	cr_expect_gt(sharing_find(&untraced, &plan, &member, 1, &own, 1), 0);
	untraced_files_clear(&untraced);
}
