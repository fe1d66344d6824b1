// SPDX-License-Identifier: BSD-2-Clause
/*
 * The stack is followed by the unwind tables from frame to frame. Where they end early (code made
 * at run time, a return probe's trampoline, hand-written assembly) every further word of the stack
 * that could be a return address counts as one: too many, never too few.
 */
#include "inject/internal.h"

#include "elf/eh_frame.h"
#include "proc/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX	2000
#define STACK_BYTES_MAX (1u << 20) /* deeper stacks are no safe moment */
#define CHUNK_BYTES	(16u << 10)
#define SIGRETURN_BYTES 9

struct walk {
	const struct target *target;
	uint64_t pc, sp, fp;
	bool fp_known;
	uint64_t begin, end; /* of the stack's mapping, from the innermost frame on */
	uint8_t *bytes;	     /* from begin on */
	size_t bytes_count;
	char *why;
};

static int busy(struct walk *walk, const char *what, const char *name)
{
	snprintf(walk->why, STACK_WHY_BYTES, "%s%s", what, name);
	return -EAGAIN;
}

static bool read_up_to(struct walk *walk, uint64_t end)
{
	size_t wanted = (size_t)(end - walk->begin) + CHUNK_BYTES;
	uint8_t *bytes;

	if (wanted > walk->end - walk->begin)
		wanted = walk->end - walk->begin;
	if (wanted > STACK_BYTES_MAX)
		return false;
	bytes = realloc(walk->bytes, wanted);
	if (!bytes)
		return false;
	walk->bytes = bytes;
	if (process_read(walk->target->pid, walk->begin + walk->bytes_count,
			 bytes + walk->bytes_count, wanted - walk->bytes_count))
		return false;
	walk->bytes_count = wanted;
	return true;
}

static bool word(struct walk *walk, uint64_t address, uint64_t *value)
{
	if (address < walk->begin || address >= walk->end || walk->end - address < 8)
		return false;
	if (address + 8 > walk->begin + walk->bytes_count && !read_up_to(walk, address + 8))
		return false;
	memcpy(value, walk->bytes + (address - walk->begin), 8);
	return true;
}

/* As the stack has it, behind a call: a handler returns to the very beginning of sigreturn. */
static int check_code(struct walk *walk, uint64_t return_address)
{
	const struct target *target = walk->target;
	uint64_t pc = return_address - 1;
	const struct target_module *module = target_module(target, pc);
	const struct target_range *range;

	if (return_address - target->sigreturn < SIGRETURN_BYTES)
		return busy(walk, "in a signal handler", "");
	if (!module)
		return 0;
	if (module->kind == MODULE_LOADER)
		return busy(walk, "in the dynamic linker", "");
	if (module->kind == MODULE_BUSY)
		return busy(walk, "in ", module->name);
	range = target_range_of(target->busy, target->busy_count, pc);
	return range ? busy(walk, "in ", range->name) : 0;
}

/* Is there a call in front of it? Of 2 to 7 bytes: e8 and ff /2. */
static bool follows_call(const struct target_module *module, uint64_t address)
{
	size_t available = 0;
	const uint8_t *code = NULL;

	if (address < module->start + 8)
		return true;
	if (module->image)
		code = image__code(module->image, address - 8 - module->bias, &available);
	if (!code || available < 8)
		return true;
	if (code[3] == 0xe8)
		return true;
	for (int bytes = 2; bytes <= 7; bytes++)
		if (code[8 - bytes] == 0xff && (code[9 - bytes] >> 3 & 7) == 2)
			return true;
	return false;
}

static int scan(struct walk *walk)
{
	uint64_t value;

	for (uint64_t at = (walk->sp + 7) & ~7ull; at + 8 <= walk->end; at += 8) {
		const struct target_module *module;
		int err;

		if (!word(walk, at, &value))
			return busy(walk, "too deep in its stack", "");
		module = target_module(walk->target, value);
		if (!module)
			continue;
		err = check_code(walk, value);
		if (err && (value == walk->target->sigreturn || follows_call(module, value)))
			return err;
	}
	return 0;
}

static int copy_rule(const struct cfi_row *row, void *ctx)
{
	*(struct perfx_unwind_rule *)ctx = row->rule;
	return 1;
}

static bool find_rule(const struct walk *walk, uint64_t pc, struct perfx_unwind_rule *rule)
{
	const struct target_module *module = target_module(walk->target, pc);
	uint64_t vaddr;

	*rule = (struct perfx_unwind_rule){.cfa = PERFX_CFA_NONE};
	if (!module || !module->image)
		return false;
	vaddr = pc - module->bias;
	return image__cfi_rows(module->image, vaddr, vaddr + 1, copy_rule, rule) >= 0;
}

static bool find_cfa(struct walk *walk, const struct perfx_unwind_rule *rule, uint64_t *cfa)
{
	uint64_t base = rule->base == PERFX_BASE_FP ? walk->fp : walk->sp;

	if (rule->base == PERFX_BASE_FP && !walk->fp_known)
		return false;
	*cfa = base + (uint64_t)(int64_t)rule->cfa_offset;
	switch ((enum perfx_unwind_cfa)rule->cfa) {
	case PERFX_CFA_BASE:
		return true;
	case PERFX_CFA_DEREF:
		if (!word(walk, *cfa, cfa))
			return false;
		*cfa += (uint64_t)(int64_t)rule->addend;
		return true;
	case PERFX_CFA_PLT:
		*cfa += (walk->pc & 15) >= (uint64_t)rule->addend ? 8 : 0;
		return true;
	case PERFX_CFA_NONE:
	case PERFX_CFA_SIGNAL:
	case PERFX_CFA_END:
	case PERFX_CFA_BAD:
		return false;
	}
	return false;
}

static void find_fp(struct walk *walk, const struct perfx_unwind_rule *rule, uint64_t cfa)
{
	uint64_t offset = (uint64_t)(int64_t)rule->fp_offset;

	switch ((enum perfx_unwind_fp)rule->fp_rule) {
	case PERFX_FP_SAME:
		break;
	case PERFX_FP_AT_CFA:
		walk->fp_known = word(walk, cfa + offset, &walk->fp);
		break;
	case PERFX_FP_AT_SP:
		walk->fp_known = word(walk, walk->sp + offset, &walk->fp);
		break;
	case PERFX_FP_AT_FP:
		walk->fp_known = walk->fp_known && word(walk, walk->fp + offset, &walk->fp);
		break;
	case PERFX_FP_UNKNOWN:
		walk->fp_known = false;
		break;
	}
}

/* 1: to the caller; 0: it was the last frame; -ENOENT: the tables do not lead on; -EAGAIN. */
static int up(struct walk *walk, bool innermost)
{
	struct perfx_unwind_rule rule;
	uint64_t cfa, pc;

	if (!find_rule(walk, walk->pc - !innermost, &rule))
		return -ENOENT;
	if (rule.cfa == PERFX_CFA_END)
		return 0;
	if (rule.cfa == PERFX_CFA_SIGNAL)
		return busy(walk, "in a signal handler", "");
	if (!find_cfa(walk, &rule, &cfa) || cfa <= walk->sp || !word(walk, cfa - 8, &pc))
		return -ENOENT;
	find_fp(walk, &rule, cfa);
	walk->pc = pc;
	walk->sp = cfa;
	return 1;
}

/* One of libc's frames that lead into the kernel must be a known wait. */
static int check_sleep(struct walk *walk, bool *in_libc, const char **where)
{
	const struct target_module *module = target_module(walk->target, walk->pc - 1);
	const struct target_range *range;

	if (!*in_libc)
		return 0;
	*in_libc = module && module->kind == MODULE_LIBC;
	range = target_range_of(walk->target->sleeps, walk->target->sleeps_count, walk->pc - 1);
	if (range)
		*where = range->name;
	if (!*in_libc && !*where)
		return busy(walk, "in a system call of its own", "");
	return 0;
}

static int follow(struct walk *walk, bool asleep, const char **where)
{
	bool in_libc = asleep;
	int err = 0;

	for (size_t frame = 0; frame < FRAMES_MAX; frame++) {
		/* the entry of malloc is no frame of it yet */
		if (frame || asleep)
			err = check_code(walk, walk->pc);
		if (!err)
			err = check_sleep(walk, &in_libc, where);
		if (!err)
			err = up(walk, !frame);
		if (err == -ENOENT)
			return in_libc && !*where ? busy(walk, "in a system call of its own", "")
						  : scan(walk);
		if (err <= 0)
			return err;
		err = 0;
	}
	return busy(walk, "too deep in its stack", "");
}

int stack_check(const struct target *target, const struct stack_place *place, const char **where,
		char why[STACK_WHY_BYTES])
{
	const struct mapping *mapping = maps__find(target->maps, place->sp);
	struct walk walk = {.target = target,
			    .pc = place->pc,
			    .sp = place->sp,
			    .fp = place->fp,
			    .fp_known = true,
			    .begin = place->sp & ~7ull,
			    .why = why};
	int err;

	*where = NULL;
	if (!mapping || !mapping->writable)
		return busy(&walk, "on a stack that is not known", "");
	/* glibc puts a thread's control block at the top of its stack. A stack that the program
	 * made itself may be small, and have something else right below it. */
	if (strcmp(mapping->path, "[stack]") != 0 &&
	    (place->tls < mapping->start || place->tls >= mapping->end))
		return busy(&walk, "on a coroutine's stack", "");
	walk.end = mapping->end;
	err = follow(&walk, place->asleep, where);
	free(walk.bytes);
	return err;
}
