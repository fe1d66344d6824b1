/* SPDX-License-Identifier: BSD-2-Clause */
/* Libraries in which it is known what stands where (data/places.c, data/places.cc), and a way to
 * write that down: "inner inner.h:12 < outer outer.c:202", innermost first. */
#ifndef PERFX_TESTS_PLACES_FIXTURE_H
#define PERFX_TESTS_PLACES_FIXTURE_H

#include "base/text.h"
#include "fixture.h"

#include <stdint.h>

struct known_place {
	const char *name, *wanted;
	uint64_t vaddr;
};

enum { PLACES = 5 };

/* clang-format off */
static const struct known_place places_of_c[PLACES] = {
	{.name = "in_inner", .wanted = "inner inner.h:12 < middle middle.h:102 < outer outer.c:202"},
	{.name = "in_middle", .wanted = "middle middle.h:103 < outer outer.c:202"},
	{.name = "in_outer", .wanted = "outer outer.c:203"},
	{.name = "in_hidden", .wanted = "hidden outer.c:209"},
	{.name = "in_exported", .wanted = "Exported outer.c:220"},
};
/* With symbols alone; hidden is not exported. */
__attribute__((unused)) static const struct known_place places_by_symtab[PLACES] = {
	{.name = "in_inner", .wanted = "outer :0"},
	{.name = "in_middle", .wanted = "outer :0"},
	{.name = "in_outer", .wanted = "outer :0"},
	{.name = "in_hidden", .wanted = "hidden :0"},
	{.name = "in_exported", .wanted = "Exported :0"},
};
__attribute__((unused)) static const struct known_place places_by_dynsym[PLACES] = {
	{.name = "in_inner", .wanted = "outer :0"},
	{.name = "in_middle", .wanted = "outer :0"},
	{.name = "in_outer", .wanted = "outer :0"},
	{.name = "in_hidden", .wanted = " :0"},
	{.name = "in_exported", .wanted = "Exported :0"},
};
/* clang-format on */

/* p.so from a file in data. */
__attribute__((unused)) static void places_build(const char *compiler, const char *source)
{
	char *here = getcwd(NULL, 0);

	fixture_run("%s -O2 -fPIC -shared -o p.so %s/tests/unit/data/%s", compiler, here, source);
	free(here);
}

__attribute__((unused)) static uint64_t places_vaddr(const char *name)
{
	unsigned long long vaddr = 0;
	char command[256];
	FILE *nm;

	snprintf(command, sizeof(command), "nm %s/p.so | sed -n 's/ . %s$//p'", fixture_dir, name);
	nm = popen(command, "r");
	cr_assert_eq(fscanf(nm, "%llx", &vaddr), 1, "no %s", name);
	pclose(nm);
	return vaddr;
}

/* The file without the folder that it was compiled in. */
__attribute__((unused)) static void places_add(struct text *text, const char *function,
					       const char *file, uint32_t line)
{
	size_t length = strlen(fixture_dir);

	if (strncmp(file, fixture_dir, length) == 0)
		file += length + 1;
	text_printf(text, "%s%s %s:%u", text->length ? " < " : "", function, file, line);
}

#endif
