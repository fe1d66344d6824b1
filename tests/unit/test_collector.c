// SPDX-License-Identifier: BSD-2-Clause
/* The garbage collector's code in this machine's interpreter, with symbols or without. */
#include "base/text.h"
#include "cpython/collector.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct image *open_image(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct image *image = fd < 0 ? NULL : image__open(fd, path, "");

	cr_assert_not_null(image, "%s", path);
	close(fd);
	return image;
}

static int is_collector(const struct symbol *symbol, void *ctx)
{
	(void)ctx;
	return begins_with(symbol->name, "gc_collect");
}

Test(collector, of_this_machine)
{
	struct image *image = open_image("/usr/bin/python3");
	struct collector found = collector_find(image);
	uint64_t vaddr, bytes, start, size;

	if (!image__exported(image, "PyGC_Collect", &vaddr, &bytes)) {
		image__free(image);
		cr_skip_test("the interpreter is in a library");
	}
	if (!found.bytes) { /* it has a name */
		cr_expect_eq(image__each_function(image, is_collector, NULL), 1);
	} else {
		cr_expect_eq(image__each_function(image, is_collector, NULL), 0);
		cr_expect_eq(image__fde(image, found.vaddr, &start, &size), 0);
		cr_expect_eq(start, found.vaddr);
		cr_expect_eq(size, found.bytes);
		cr_expect(found.vaddr + found.bytes <= vaddr || found.vaddr >= vaddr + bytes);
	}
	image__free(image);
}

Test(collector, not_in_other_files)
{
	struct image *image = open_image("/proc/self/exe");

	cr_expect_eq(collector_find(image).bytes, 0);
	image__free(image);
}
