// SPDX-License-Identifier: BSD-2-Clause
#include "image_fixture.h"

TestSuite(image_debug, .init = image_set_up, .fini = fixture_tear_down);

static void split_debug(void)
{
	fixture_run("objcopy --only-keep-debug f.so f.debug && strip f.so && "
		    "objcopy --add-gnu-debuglink=f.debug f.so");
}

static void expect_debug_symbols(const char *name, const char *root, bool wanted)
{
	struct image *image = open_image(name, root);
	struct list list = functions_of(image);

	if (wanted) {
		expect(&list, "hidden_one", 5, SYMBOL_DEBUG);
		expect(&list, "seven", 7, SYMBOL_DEBUG);
		expect(&list, "sized_by_fde", 9, SYMBOL_DEBUG);
		cr_expect_eq(find(&list, "seven")->vaddr, TEXT_VADDR);
		cr_expect_eq(list.count, 7);
	} else {
		cr_expect_null(find(&list, "hidden_one"));
	}
	cr_expect_eq(image__traits(image)->has_symtab, wanted);
	image__free(image);
}

Test(image_debug, debuglink_beside)
{
	split_debug();
	expect_debug_symbols("f.so", "", true);
}

Test(image_debug, debuglink_in_dot_debug)
{
	split_debug();
	fixture_run("mkdir .debug && mv f.debug .debug/");
	expect_debug_symbols("f.so", "", true);
}

Test(image_debug, debuglink_of_another_build)
{
	split_debug();
	fixture_run("echo >> f.debug");
	expect_debug_symbols("f.so", "", false);
}

/* With a root, "/" means that root: a container's own /usr/lib/debug. */
Test(image_debug, debuglink_under_root)
{
	char root[128];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	split_debug();
	fixture_run("mkdir -p root/usr/lib/debug%s && mv f.debug root/usr/lib/debug%s/",
		    fixture_dir, fixture_dir);
	expect_debug_symbols("f.so", root, true);
	expect_debug_symbols("f.so", "", false);
}

Test(image_debug, debug_by_build_id)
{
	struct image *image = open_image("f.so", "");
	char root[128], id[80];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	snprintf(id, sizeof(id), "%s", image__build_id(image));
	image__free(image);
	cr_assert_eq(strlen(id), 40);
	fixture_run("objcopy --only-keep-debug f.so f.debug && strip f.so && "
		    "mkdir -p root/usr/lib/debug/.build-id/%.2s && "
		    "mv f.debug root/usr/lib/debug/.build-id/%.2s/%s.debug",
		    id, id, id + 2);
	expect_debug_symbols("f.so", root, true);
	/* somebody else's file under our build-id */
	fixture_run("cc -shared -nostdlib " REGISTERS " -Wl,--build-id=0x1234 -o other.so f.S && "
		    "cp other.so root/usr/lib/debug/.build-id/%.2s/%s.debug",
		    id, id + 2);
	expect_debug_symbols("f.so", root, false);
}

Test(image_debug, links_cannot_leave_the_root)
{
	char root[128];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	split_debug();
	fixture_run("mkdir -p root%s && ln -s %s/f.debug root%s/f.debug", fixture_dir, fixture_dir,
		    fixture_dir);
	/* the link leads to itself when "/" is the root, and to the real file when it is not */
	expect_debug_symbols("f.so", root, false);
}
