/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions written in assembler, built into a shared object, opened as an image: what the tests
 * of user/site/ plan probes for.
 */
#ifndef PERFX_TESTS_SITE_FIXTURE_H
#define PERFX_TESTS_SITE_FIXTURE_H

#include "elf/image.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct asm_function {
	const char *name;
	const char *code;  /* the body, without label; local labels are digits */
	bool without_cfi;  /* no .eh_frame entry */
	const char *extra; /* anything else it needs: tables, cold parts */
};

#define LINK_SHARED "cc -shared -nostdlib -o %s/t.so %s/t.o"
#define LINK_STATIC "cc -static -no-pie -nostdlib -Wl,-e,0 -o %s/t.so %s/t.o"

struct fixture {
	char directory[64], library[96];
	struct image *image;
};

static inline void fixture__run(const char *format, const char *directory)
{
	char command[512];

	snprintf(command, sizeof(command), format, directory, directory);
	cr_assert_eq(system(command), 0, "%s", command);
}

static inline void fixture__open(struct fixture *f)
{
	int fd;

	snprintf(f->library, sizeof(f->library), "%s/t.so", f->directory);
	fd = open(f->library, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	f->image = image__open(fd, f->library, "");
	cr_assert_not_null(f->image);
	close(fd);
}

static inline FILE *fixture__create(struct fixture *f, const char *file)
{
	char path[128];
	FILE *out;

	snprintf(f->directory, sizeof(f->directory), "/tmp/perfx-site-XXXXXX");
	cr_assert_not_null(mkdtemp(f->directory));
	snprintf(path, sizeof(path), "%s/%s", f->directory, file);
	out = fopen(path, "w");
	cr_assert_not_null(out);
	return out;
}

static inline void fixture__write(FILE *out, const struct asm_function *function)
{
	const char *name = function->name;

	fprintf(out, "\t.text\n\t.p2align 6\n\t.globl %s\n\t.type %s,@function\n%s:\n", name, name,
		name);
	fprintf(out, "%s%s%s\t.size %s,.-%s\n", function->without_cfi ? "" : "\t.cfi_startproc\n",
		function->code, function->without_cfi ? "" : "\t.cfi_endproc\n", name, name);
	if (function->extra)
		fprintf(out, "%s", function->extra);
}

/* Rows of size bytes that start with a struct asm_function. link: how cc links them. */
static inline void fixture__assemble(struct fixture *f, const void *rows, size_t count, size_t size,
				     const char *link)
{
	FILE *out = fixture__create(f, "t.s");

	fprintf(out, "\t.section .note.GNU-stack,\"\",@progbits\n");
	for (size_t i = 0; i < count; i++)
		fixture__write(out, (const void *)((const char *)rows + i * size));
	fclose(out);
	fixture__run("cc -c -o %s/t.o %s/t.s", f->directory);
	fixture__run(link, f->directory);
	fixture__open(f);
}

static inline void fixture__close(struct fixture *f)
{
	image__free(f->image);
	fixture__run("rm -r %s", f->directory);
}

struct fixture_lookup {
	const char *name;
	struct symbol symbol;
};

static inline int fixture__match(const struct symbol *symbol, void *ctx)
{
	struct fixture_lookup *lookup = ctx;

	if (strcmp(symbol->name, lookup->name) != 0)
		return 0;
	lookup->symbol = *symbol;
	return 1;
}

static inline struct symbol fixture__symbol(struct fixture *f, const char *name)
{
	struct fixture_lookup lookup = {.name = name};

	cr_assert_eq(image__each_function(f->image, fixture__match, &lookup), 1, "%s", name);
	return lookup.symbol;
}

#endif
