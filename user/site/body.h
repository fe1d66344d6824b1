/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole function, decoded: its own range and the cold parts that belong to it, as one array of
 * instructions with the jumps between them.
 */
#ifndef PERFX_SITE_BODY_H
#define PERFX_SITE_BODY_H

#include "elf/image.h"
#include "site/insn.h"

/* 1 MiB: libtorch's largest functions are half of that. */
#define BODY_BYTES_MAX (1u << 20)
#define BODY_PARTS_MAX 8

struct part {
	uint64_t start, size;
	int32_t first, count; /* in body.insns */
	int32_t *index_at;    /* by byte: index of the instruction that starts there, or -1 */
};

struct body {
	struct image *image;
	struct insns insns;
	struct part parts[BODY_PARTS_MAX]; /* [0] is the function's own range */
	int parts_count;
	uint64_t bytes;
	/* Static texts; NULL: no doubt. The first: not decoded whole, nothing is proved about it.
	 * The second: decoded, but not every exit is known. */
	const char *undecoded;
	const char *exits_doubt;
	bool goes_anywhere; /* has an indirect jump inside itself whose targets are not known */
	bool moves_rsp;	    /* by anything but calls */
	bool switches_stack;
	bool calls_itself;
	int32_t *seen; /* body__reaches(): by instruction, the number of the search that saw it */
	int32_t *stack;
	int32_t searches;
};

/* Is the function's frame gone at an instruction: nothing of it above the return address? */
enum frame { FRAME_GONE = 1, FRAME_THERE, FRAME_UNKNOWN };

/* Decodes the function, follows its jumps into cold parts, decides of every jump whether it
 * leaves, links branches and targets. Doubts are no error: see above. 0 or -ENOMEM; clear it
 * in either case. */
int body__decode(struct body *body, struct image *image, uint64_t start, uint64_t size);
void body__clear(struct body *body);

/* Does the function at `vaddr` drop a reference to an object: is an atomic subtraction among its
 * first instructions? */
bool body__drops_reference(const struct body *body, uint64_t vaddr);

/* Index of the instruction at a vaddr, -1 when none starts there. */
int32_t body__find(const struct body *body, uint64_t vaddr);
bool body__contains(const struct body *body, uint64_t vaddr);
enum frame body__frame(const struct body *body, uint64_t vaddr);

/* Adds a part that belongs to the function. False: it can not be; the doubt is noted. */
bool body__add_part(struct body *body, uint64_t start, uint64_t size, int *err);

/* jumps.c: sets insn.leaves, insn.is_table_target and body.goes_anywhere, adds cold parts to the
 * body, and notes doubts. 0 or -ENOMEM. */
int body__decide_jumps(struct body *body);

/* Does control go from an instruction to the one after it in memory? */
bool body__falls_through(const struct body *body, int32_t index);
/* The instruction before it in the same part, or -1. */
int32_t body__before(const struct body *body, int32_t index);
/* Can control come from one instruction to another? Does not follow exceptions. */
bool body__reaches(struct body *body, int32_t from, int32_t to);

/* Name of the function that the stub at a vaddr (procedure linkage table) jumps to; NULL: no stub,
 * or not known. Borrowed from the image. *vaddr: where this file defines it, 0 if another does; may
 * be NULL. */
const char *import_at(const struct image *image, uint64_t stub, uint64_t *vaddr);

#endif
