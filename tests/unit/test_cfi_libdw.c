// SPDX-License-Identifier: BSD-2-Clause
/*
 * The unwind tables of this machine's libraries, row by row beside libdw's: in made-up registers
 * and memory both must find the same caller. PERFX_TESTS=all compares every row of the big ones.
 */
#include "elf/eh_frame.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <glob.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { RBP = 6, RSP = 7, RIP = 16 };

/* Something else at each address: what lies there, and what a register holds. */
static uint64_t memory_at(uint64_t address)
{
	uint64_t value = (address ^ address >> 30) * 0xbf58476d1ce4e5b9ULL;

	value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
	return value ^ value >> 31;
}

static uint64_t register_at(uint64_t pc, uint64_t reg)
{
	return reg == RIP ? pc : memory_at(reg) & ~7ULL;
}

struct frame {
	uint64_t cfa, pc, fp;
	bool ended, fp_unknown;
};

/* What a rule leads to. False: to nothing. */
static bool frame_by_rule(const struct perfx_unwind_rule *rule, uint64_t pc, struct frame *frame)
{
	uint64_t fp = register_at(pc, RBP), sp = register_at(pc, RSP);
	uint64_t base = rule->base == PERFX_BASE_SP ? sp : fp;
	uint64_t at = base + (uint64_t)rule->cfa_offset, addend = (uint64_t)rule->addend;

	*frame = (struct frame){.ended = rule->cfa == PERFX_CFA_END};
	switch ((enum perfx_unwind_cfa)rule->cfa) {
	case PERFX_CFA_NONE:
	case PERFX_CFA_BAD:
		return false;
	case PERFX_CFA_END:
		return true;
	case PERFX_CFA_BASE:
		frame->cfa = at;
		break;
	case PERFX_CFA_DEREF:
		frame->cfa = memory_at(at) + addend;
		break;
	case PERFX_CFA_PLT:
		frame->cfa = at + ((pc & 15) >= addend ? 8 : 0);
		break;
	case PERFX_CFA_SIGNAL:
		frame->cfa = memory_at(at);
		break;
	}
	frame->pc = memory_at(rule->cfa == PERFX_CFA_SIGNAL ? base + addend : frame->cfa - 8);
	switch ((enum perfx_unwind_fp)rule->fp_rule) {
	case PERFX_FP_SAME:
		frame->fp = fp;
		break;
	case PERFX_FP_AT_CFA:
		frame->fp = memory_at(frame->cfa + (uint64_t)rule->fp_offset);
		break;
	case PERFX_FP_AT_SP:
		frame->fp = memory_at(sp + (uint64_t)rule->fp_offset);
		break;
	case PERFX_FP_AT_FP:
		frame->fp = memory_at(fp + (uint64_t)rule->fp_offset);
		break;
	case PERFX_FP_UNKNOWN:
		frame->fp_unknown = true;
		break;
	}
	return true;
}

/* The stack machine of DWARF expressions, as far as unwind tables use it. */
struct stack {
	uint64_t values[16];
	size_t count;
	bool is_value; /* and not the address of one */
	bool failed;
};

static void push(struct stack *stack, uint64_t value)
{
	if (stack->count == 16)
		stack->failed = true;
	else
		stack->values[stack->count++] = value;
}

static uint64_t pop(struct stack *stack)
{
	if (stack->count)
		return stack->values[--stack->count];
	stack->failed = true;
	return 0;
}

static void run_binary(struct stack *stack, uint8_t atom)
{
	uint64_t right = pop(stack), left = pop(stack);

	switch (atom) {
	case DW_OP_plus:
		push(stack, left + right);
		break;
	case DW_OP_and:
		push(stack, left & right);
		break;
	case DW_OP_shl:
		push(stack, left << (right & 63));
		break;
	case DW_OP_ge:
		push(stack, (int64_t)left >= (int64_t)right);
		break;
	default:
		stack->failed = true;
	}
}

static void run_op(struct stack *stack, const Dwarf_Op *op, uint64_t pc, uint64_t cfa)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		push(stack, register_at(pc, op->atom - DW_OP_breg0) + op->number);
	} else if (op->atom == DW_OP_bregx) {
		push(stack, register_at(pc, op->number) + op->number2);
	} else if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
		push(stack, op->atom - DW_OP_lit0);
	} else if (op->atom == DW_OP_regx) {
		push(stack, register_at(pc, op->number));
		stack->is_value = true;
	} else if (op->atom == DW_OP_call_frame_cfa) {
		push(stack, cfa);
	} else if (op->atom == DW_OP_plus_uconst) {
		push(stack, pop(stack) + op->number);
	} else if (op->atom == DW_OP_deref) {
		push(stack, memory_at(pop(stack)));
	} else if (op->atom == DW_OP_stack_value) {
		stack->is_value = true;
	} else {
		run_binary(stack, op->atom);
	}
}

static bool run_ops(const Dwarf_Op *ops, size_t count, uint64_t pc, uint64_t cfa,
		    struct stack *stack)
{
	*stack = (struct stack){.count = 0};
	for (size_t i = 0; i < count; i++)
		run_op(stack, &ops[i], pc, cfa);
	return !stack->failed && stack->count; /* below the result may lie the CFA */
}

enum found { UNDEFINED, KNOWN, STRANGE };

static enum found caller_register(Dwarf_Frame *theirs, int reg, uint64_t pc, uint64_t cfa,
				  uint64_t *value)
{
	Dwarf_Op memory[3], *ops;
	struct stack stack;
	size_t count;

	cr_assert_eq(dwarf_frame_register(theirs, reg, memory, &ops, &count), 0);
	if (!count && ops == memory)
		return UNDEFINED;
	*value = register_at(pc, (uint64_t)reg);
	if (!count) /* as it is */
		return KNOWN;
	if (!run_ops(ops, count, pc, cfa, &stack))
		return STRANGE;
	*value = stack.is_value ? pop(&stack) : memory_at(pop(&stack));
	return KNOWN;
}

/* False: what libdw says of it leads to nothing that this test could follow. */
static bool frame_by_libdw(Dwarf_Frame *theirs, uint64_t pc, struct frame *frame)
{
	struct stack stack;
	Dwarf_Op *ops;
	size_t count;
	enum found found;

	*frame = (struct frame){0};
	if (caller_register(theirs, RIP, pc, 0, &frame->pc) == UNDEFINED) {
		*frame = (struct frame){.ended = true};
		return true;
	}
	if (dwarf_frame_cfa(theirs, &ops, &count) || !run_ops(ops, count, pc, 0, &stack))
		return false;
	frame->cfa = pop(&stack);
	found = caller_register(theirs, RBP, pc, frame->cfa, &frame->fp);
	frame->fp_unknown = found != KNOWN;
	return caller_register(theirs, RIP, pc, frame->cfa, &frame->pc) == KNOWN;
}

/* One rule says all of a caller of which the CFA is rsp or rbp and some bytes: it must not be bad.
 */
static bool is_plain(Dwarf_Frame *theirs, uint64_t pc, const struct frame *frame)
{
	uint64_t sp = 0;
	Dwarf_Op *ops;
	size_t count;

	return !dwarf_frame_cfa(theirs, &ops, &count) && count == 1 && ops->atom == DW_OP_bregx &&
	       (ops->number == RSP || ops->number == RBP) &&
	       frame->pc == memory_at(frame->cfa - 8) &&
	       caller_register(theirs, RSP, pc, frame->cfa, &sp) == KNOWN && sp == frame->cfa;
}

struct comparison {
	Dwarf_CFI *libdw;
	struct cfi_row row; /* whose end is still to come; to_come: there is one */
	bool to_come;
	size_t step; /* every so many rows are compared */
	size_t rows_count, compared, bad, fp_unknown, different;
};

static bool same_frame(struct comparison *comparison, uint64_t pc)
{
	const struct perfx_unwind_rule *rule = &comparison->row.rule;
	bool ours, theirs_known = false, plain = false;
	struct frame mine, theirs = {0};
	Dwarf_Frame *frame;

	ours = frame_by_rule(rule, pc, &mine);
	if (dwarf_cfi_addrframe(comparison->libdw, pc, &frame))
		return rule->cfa == PERFX_CFA_NONE;
	theirs_known = frame_by_libdw(frame, pc, &theirs);
	plain = theirs_known && !theirs.ended && is_plain(frame, pc, &theirs);
	free(frame);
	if (!ours)
		return rule->cfa == PERFX_CFA_BAD && !plain;
	return theirs_known && mine.ended == theirs.ended && mine.cfa == theirs.cfa &&
	       mine.pc == theirs.pc &&
	       (mine.fp_unknown || (mine.fp == theirs.fp && !theirs.fp_unknown));
}

static void compare_at(struct comparison *comparison, uint64_t pc)
{
	const struct perfx_unwind_rule *rule = &comparison->row.rule;

	if (same_frame(comparison, pc))
		return;
	if (comparison->different++ < 5)
		cr_log_error("%#" PRIx64 ": cfa %d, base %d%+d%+d, fp %d%+d", pc, rule->cfa,
			     rule->base, rule->cfa_offset, rule->addend, rule->fp_rule,
			     rule->fp_offset);
}

static void compare_row(struct comparison *comparison, uint64_t end)
{
	if (!comparison->to_come || comparison->rows_count++ % comparison->step)
		return;
	comparison->compared++;
	comparison->bad += comparison->row.rule.cfa == PERFX_CFA_BAD;
	comparison->fp_unknown += comparison->row.rule.fp_rule == PERFX_FP_UNKNOWN;
	compare_at(comparison, comparison->row.vaddr);
	compare_at(comparison, end - 1);
	/* this one differs within the row */
	if (comparison->row.rule.cfa == PERFX_CFA_PLT)
		for (uint64_t pc = comparison->row.vaddr; pc < end; pc++)
			compare_at(comparison, pc);
}

static int on_row(const struct cfi_row *row, void *ctx)
{
	struct comparison *comparison = ctx;

	compare_row(comparison, row->vaddr);
	comparison->row = *row;
	comparison->to_come = true;
	return 0;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void compare_segments(struct image *image, struct comparison *comparison)
{
	uint64_t vaddr;
	size_t size;

	for (size_t i = 0; image__code_segment(image, i, &vaddr, &size); i++) {
		cr_assert_eq(image__cfi_rows(image, vaddr, vaddr + size, on_row, comparison), 0);
		compare_row(comparison, vaddr + size);
		comparison->to_come = false;
	}
}

static void compare_file(const char *path, size_t step)
{
	struct comparison comparison = {.step = step};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct image *image = image__open(fd, path, "");
	double began = seconds();
	Elf *elf;

	cr_assert_not_null(image, "%s", path);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	comparison.libdw = dwarf_getcfi_elf(elf);
	cr_assert_not_null(comparison.libdw, "%s: %s", path, dwarf_errmsg(-1));
	compare_segments(image, &comparison);
	cr_log_info("%s: %zu rows, %zu compared, %zu bad, %zu without rbp, %.2f s", path,
		    comparison.rows_count, comparison.compared, comparison.bad,
		    comparison.fp_unknown, seconds() - began);
	cr_expect_eq(comparison.different, 0, "%s: %zu of %zu rows differ", path,
		     comparison.different, comparison.compared);
	cr_expect_gt(comparison.compared, 1000);
	dwarf_cfi_end(comparison.libdw);
	elf_end(elf);
	image__free(image);
	close(fd);
}

static bool all_rows(void)
{
	const char *tests = getenv("PERFX_TESTS");

	return tests && !strcmp(tests, "all");
}

/* Links to a file that was compared are left out. */
static size_t compare_files(const char *pattern, size_t step)
{
	size_t count = 0;
	struct stat info;
	glob_t found;

	if (glob(pattern, GLOB_BRACE, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (lstat(found.gl_pathv[i], &info) || !S_ISREG(info.st_mode))
			continue;
		compare_file(found.gl_pathv[i], all_rows() ? 1 : step);
		count++;
	}
	globfree(&found);
	return count;
}

Test(cfi_libdw, libc)
{
	Dl_info info;

	cr_assert_neq(dladdr((void *)gnu_get_libc_version, &info), 0);
	compare_file(info.dli_fname, 1);
}

/* Compilers' code, and assembler by hand. */
Test(cfi_libdw, system_libraries)
{
	if (!compare_files("/usr/lib/*-linux-gnu/{libpython3,libstdc++,libcrypto}*.so*", 1))
		cr_skip_test("none of them is installed");
}

/* C++ with realigned stacks in its kernels; GCC's and clang's. */
Test(cfi_libdw, big_libraries)
{
	enum { STEP = 61 }; /* a prime: rows of all places in functions */
	const char *venv = getenv("ML_VENV");
	size_t count = compare_files("/usr/lib/*-linux-gnu/libtorch_cpu.so*", STEP);
	char wheels[512];

	snprintf(wheels, sizeof(wheels),
		 "%s/lib/python3*/site-packages/{torch/lib/libtorch_cpu,jaxlib/libjax_common}.so",
		 venv ? venv : "");
	if (venv)
		count += compare_files(wheels, STEP);
	if (!count)
		cr_skip_test("neither PyTorch nor JAX is installed");
}
#endif
