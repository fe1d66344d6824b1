/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One decoded x86-64 instruction, reduced to the needs of choosing a probe site: where control goes
 * after it, how the kernel's uprobes treat it, which registers it writes, and the few data
 * movements from which jump tables and stack switches are recognised.
 */
#ifndef PERFX_SITE_INSN_H
#define PERFX_SITE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General registers by their hardware number, as in the encoding. */
enum insn_reg {
	REG_RAX,
	REG_RCX,
	REG_RDX,
	REG_RBX,
	REG_RSP,
	REG_RBP,
	REG_RSI,
	REG_RDI,
	REG_R8,
	REG_R9,
	REG_RIP = 16,
	REG_NONE = 255
};
#define REG_BIT(reg) ((uint16_t)(1u << (reg)))

enum insn_flow {
	FLOW_NEXT = 1,	   /* on to the next instruction */
	FLOW_JMP,	   /* direct */
	FLOW_JCC,	   /* conditional; condition is CONDITION_NONE for loop, jrcxz, xbegin */
	FLOW_JMP_INDIRECT, /* through a register or memory */
	FLOW_CALL,	   /* direct */
	FLOW_CALL_INDIRECT,
	FLOW_RET,
	FLOW_STOP /* ud2, hlt, int3, iret: nothing after it is reached from it */
};
#define CONDITION_NONE 0xff

/* The data movements that are looked at; everything else is OP_OTHER. */
enum insn_op {
	OP_OTHER = 1,
	OP_MOVE,    /* dst = src */
	OP_LOAD,    /* dst = memory, mem_bytes wide */
	OP_LEA,	    /* dst = address */
	OP_ADD,	    /* dst += src */
	OP_WIDEN,   /* dst = sign-extended dst (cltq) */
	OP_COMPARE, /* cmp $value, src or memory */
	OP_PUSH,
	OP_STORE_TOP /* mov register,(%rsp) */
};

enum insn_nop {
	NOP_NO = 0,
	NOP_SHORT,    /* 90 with prefixes: emulated by every kernel */
	NOP_LONG,     /* the recommended forms of 3 to 8 bytes: emulated from 6.18 on */
	NOP_FIVE,     /* 0f 1f 44 00 00 in one page: overwritten with a call from 6.18 on */
	NOP_FIVE_ODD, /* other forms of 5 bytes: overwritten as well */
	NOP_OTHER     /* a long nop of another form: single-stepped */
};

struct insn {
	uint64_t vaddr;
	uint64_t target; /* of a direct branch or call; else what a rip-relative operand names */
	int64_t value;	 /* OP_COMPARE: the immediate */
	int64_t displacement;
	/* Set by body.c: index of the instruction that target names, and the list of direct jumps
	 * that lead here. -1: none. */
	int32_t target_index;
	int32_t jumps_here;
	int32_t next_jump;
	uint16_t writes; /* REG_BIT()s of the general registers that it writes, implied ones too */
	uint8_t length;
	uint8_t flow; /* enum insn_flow */
	uint8_t op;   /* enum insn_op */
	uint8_t nop;  /* enum insn_nop */
	uint8_t condition;
	uint8_t dst, src;		       /* enum insn_reg */
	uint8_t base, index, scale, mem_bytes; /* memory operand */
	bool has_memory : 1;
	bool emulated : 1;	 /* push or branch that uprobes emulate */
	bool refused : 1;	 /* no probe goes here: see insn.c */
	bool moves_all : 1;	 /* OP_MOVE of the whole register */
	bool restores : 1;	 /* belongs into an epilogue: see insn.c */
	bool reads_canary : 1;	 /* %fs:0x28, the stack protector's value */
	bool compares_frame : 1; /* cmp, sub or xor with a slot of the frame */
	bool odd_rsp : 1;	 /* rsp by pop %rsp, xchg, cmov */
	bool subtracts : 1;	 /* from a number in memory, atomically */
	bool stores : 1;	 /* a register to memory, and nothing else */
	bool repeats : 1;	 /* rep string instruction */
	bool is_endbr : 1;
	bool enters_kernel : 1;	  /* syscall and the like */
	bool is_table_target : 1; /* body.c: a jump table leads here */
	bool leaves : 1;	  /* body.c: jump out of the function for good */
	bool frees : 1;		  /* body.c: call of free or operator delete */
	bool never_returns : 1;	  /* body.c: call after which nothing comes */
};

/* Decodes exactly one. -EILSEQ: no instruction, or longer than available. */
int insn_decode(const uint8_t *code, size_t available, uint64_t vaddr, struct insn *insn);

/* A growing array of them. */
struct insns {
	struct insn *list;
	size_t count, capacity;
};

/* Appends all of code[0..size). -EILSEQ where bytes are no instruction (those before it are
 * appended), -ENOMEM. */
int insns__decode(struct insns *insns, const uint8_t *code, size_t size, uint64_t vaddr);
void insns__clear(struct insns *insns);

#endif
