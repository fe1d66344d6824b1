/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where to put the probes of one function: decode it, choose the instruction, prove it safe.
 * Pure: bytes and an unwind table in, a plan out; touches no process.
 *
 * The cost of a uprobe hit is decided by the instruction under it: what the kernel emulates
 * (arch/x86/kernel/uprobes.c: push %reg, nop, jmp, jcc, call) costs one trap, anything else two
 * and a single step: several times as much.
 */
#ifndef PERFX_SITE_SITE_H
#define PERFX_SITE_SITE_H

#include "elf/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cheapest first. */
enum site_kind {
	SITE_NOP5 = 1, /* 0f 1f 44 00 00 at the entry, with optimized uprobes: a call, no trap */
	SITE_NOP,      /* one-byte nop (with prefixes) */
	SITE_PUSH,     /* push %reg */
	SITE_BRANCH,   /* jmp, jcc, call: emulated */
	SITE_STEPPED   /* anything else: single-stepped out of line */
};

/* When does a hit at an exit site mean that the function is leaving? */
enum exit_when {
	EXIT_ALWAYS = 1, /* ret, jmp */
	EXIT_IF_TAKEN,	 /* jcc whose target leads out */
	EXIT_IF_NOT_TAKEN
};

/* Plain probes at each exit. A hit where "when" does not hold is the function going on: not an
 * exit. No two exit sites of a plan have the same vaddr. */
struct exit_site {
	uint64_t vaddr;
	enum site_kind kind;
	enum exit_when when;
	uint8_t condition; /* low nibble of the jcc opcode (Intel SDM, table "tttn"): 0 O … 15 G */
	enum cfa_reg cfa_reg;
	int32_t cfa_offset; /* CFA = reg + cfa_offset at this instruction */
};

enum exits_state {
	EXITS_KNOWN = 1, /* every exit has a site; may be none (noreturn) */
	EXITS_UNKNOWN	 /* some may be missing: calls are counted without times */
};

/* rdi, rsi, rdx, rcx, r8, r9, rax */
#define ARGUMENT_REGS 7

struct site_plan {
	uint64_t entry_vaddr; /* where the entry probe goes: the function or a little further on */
	enum site_kind entry_kind;
	/* Where an argument is at the entry site: bit numbers of site_options.argument_regs. */
	uint8_t arguments[ARGUMENT_REGS];
	const char *entry_note; /* static; why the entry instruction itself was kept, or NULL */
	/* The entry instruction is also the target of a jump inside the function: a hit with the
	 * CFA of a call of it that is still open is another round of the loop, not a call. */
	bool entry_repeats;
	/* The entry site is also an exit site (a function that is one tail jump): one program has
	 * to do both there, entry first; the kernel does not order two programs. */
	bool entry_is_exit;
	enum exits_state exits_state;
	const char *exits_note;	 /* static; why EXITS_UNKNOWN, or NULL */
	struct exit_site *exits; /* malloc'd; free with site_plan__clear */
	size_t exits_count, exits_capacity;
	bool calls_itself;   /* a direct call to its own entry */
	bool switches_stack; /* loads rsp from memory or from a register that is not its own
				frame: a coroutine switch in assembly; exits are unknown then */
};

struct site_options {
	bool entry_only;     /* --probe-site entry: always the first instruction */
	bool optimized_nop5; /* the kernel turns a nop5 into a call (6.18), */
	bool nop5_kills;     /* of which forked children die: no probe goes there */
	/* Bit set of argument registers the BPF program reads at entry and that must be untouched
	 * there: bit 0 rdi, 1 rsi, 2 rdx, 3 rcx, 4 r8, 5 r9, 6 rax. 0 for plain spans. */
	uint8_t argument_regs;
	bool arguments_may_move; /* untouched, or copied to another of these: site_plan.arguments */
	/* The program reads what is returned at exits: rax must be final there. Exits may then lie
	 * in functions that this one ends by jumping to. */
	bool needs_result;
	bool result_in_memory; /* it is an object whose place is known: rax need not be final */
	/* Entry sites that the kernel refused (lock prefix: ENOTSUPP) and must not be chosen again.
	 */
	const uint64_t *refused;
	size_t refused_count;
};

/* vaddr and size are the symbol's. Where the function can not be decoded (size 0 or over 1 MiB,
 * bytes that are no instructions, another architecture than x86-64) the plan still names the
 * entry, with a note, and the exits are unknown.
 * 0, or -errno: -ENOENT not in a file-backed executable segment; -ENOTSUP the kernel refuses the
 * entry instruction (or it breaks it) and there is no other site: plan->entry_note says why;
 * -ENOMEM. Clear the plan in either case. */
int site_plan(struct image *image, uint64_t vaddr, uint64_t size,
	      const struct site_options *options, struct site_plan *plan);
void site_plan__clear(struct site_plan *plan);

/* The instruction by which the function at `vaddr` calls, or ends by jumping to, the one at
 * `target` of the same file; emulated. 0: there is none, or there are several. */
uint64_t site_of_call(struct image *image, uint64_t vaddr, uint64_t size, uint64_t target);

/*
 * Does any function of the file leave its stack for another (a coroutine switch)? A return probe on
 * a frame that is left so, however far up, kills the program. Names do not show it: such code is
 * often a few instructions written by hand. So instructions that load the stack pointer from an
 * object or an argument, with one nearby that saves it, are looked for, and the function around
 * them decoded; where there is no unwind table to find it, they are taken for a switch.
 *
 * Files with more than limit bytes of code are not searched: false.
 */
bool image_switches_stacks(struct image *image, size_t limit);

/* Is this the function that is asked about? vaddr: where it is in this file, 0 when elsewhere;
 * name: as an import, or NULL. */
typedef bool (*forward_fn)(uint64_t vaddr, const char *name, void *ctx);

/* A call of the function at vaddr always comes to one of the others, or does nothing (gives back a
 * NULL): by jumps, so that the other's caller is this one's, or by calls. */
enum forward { FORWARD_NO = 0, FORWARD_JUMPS, FORWARD_CALLS };

/* FORWARD_NO also where nothing can be proved; -ENOMEM. */
int forward_decide(struct image *image, uint64_t vaddr, uint64_t size, forward_fn is_other,
		   void *ctx);

/* 1: some path through the function calls one of the others, or jumps to it. 0: none does; < 0: not
 * known, or -ENOMEM. */
int forward_passes(struct image *image, uint64_t vaddr, uint64_t size, forward_fn is_other,
		   void *ctx);

/* symbol: of at::_ops::NAME::call, whose code is at vaddr. Returns the bytes of NAME before its
 * overload, all of them if it has none. 0: another function, or the code does not show it. */
uint16_t operator_name_bytes(const struct image *image, const char *symbol, uint64_t vaddr,
			     uint64_t size);

#endif
