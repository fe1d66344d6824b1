/* SPDX-License-Identifier: BSD-2-Clause */
/* Nested calls, and functions that start with each kind of instruction that a probe may meet. */
#include "known.h"

TRACED int leaf(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int middle(int x)
{
	int sum = 0;

	for (int i = 0; i < 10; i++)
		sum += leaf(x + i);
	return sum;
}

TRACED int outer(int x)
{
	return middle(x) + leaf(x) + middle(x + 1);
}

#if defined(__x86_64__)
/*
 * Written in assembler, so that the first instruction is certain. Each returns its argument plus 1
 * in eax. The last three are traps for those who move a probe off the entry, or count entries:
 * - late_target: the nop is cheap to probe, but a branch jumps to it twice a call;
 * - late_argument: the push is, but rdi has changed before it;
 * - loop_to_entry: the entry itself is executed three times a call.
 * first_lock: the kernel refuses a probe on a lock prefix.
 */
#define FUNCTION(name, code)                                                              \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t" \
		".balign 16\n" #name ":\n\t.cfi_startproc\n\t" code                       \
		"\n\t.cfi_endproc\n\t.size " #name ",.-" #name "\n\t.popsection");        \
	int name(int x);

FUNCTION(first_push, "push %rbx\n\t.cfi_adjust_cfa_offset 8\n\tlea 1(%rdi),%eax\n\tpop %rbx\n\t"
		     ".cfi_adjust_cfa_offset -8\n\tret")
FUNCTION(first_endbr64, "endbr64\n\tpush %rbx\n\t.cfi_adjust_cfa_offset 8\n\tlea 1(%rdi),%eax\n\t"
			"pop %rbx\n\t.cfi_adjust_cfa_offset -8\n\tret")
FUNCTION(first_test, "test %edi,%edi\n\tje 1f\n\tlea 1(%rdi),%eax\n\tret\n1:\tmov $1,%eax\n\tret")
FUNCTION(first_lea, "lea 1(%rdi),%eax\n\tret")
FUNCTION(first_mov, "mov %edi,%eax\n\tinc %eax\n\tret")
FUNCTION(first_cmp, "cmpl $0,first_data(%rip)\n\tjne 1f\n\tlea 1(%rdi),%eax\n1:\tret")
FUNCTION(first_nop5, ".byte 0x0f,0x1f,0x44,0,0\n\tnop\n\tlea 1(%rdi),%eax\n\tret")
FUNCTION(first_nop, "nop\n\tlea 1(%rdi),%eax\n\tret")
FUNCTION(first_jmp, "jmp first_lea")
FUNCTION(first_call, "call first_lea\n\tret")
FUNCTION(first_sub, "sub $24,%rsp\n\t.cfi_adjust_cfa_offset 24\n\tlea 1(%rdi),%eax\n\t"
		    "add $24,%rsp\n\t.cfi_adjust_cfa_offset -24\n\tret")
FUNCTION(first_ret, "ret")
FUNCTION(first_lock, "lock incl first_data+4(%rip)\n\tlea 1(%rdi),%eax\n\tret")
FUNCTION(late_target, "mov $3,%ecx\n1:\tnop\n\tdec %ecx\n\tjnz 1b\n\tlea 1(%rdi),%eax\n\tret")
FUNCTION(late_argument, "lea 1(%rdi),%edi\n\tpush %rbx\n\t.cfi_adjust_cfa_offset 8\n\t"
			"mov %edi,%eax\n\tpop %rbx\n\t.cfi_adjust_cfa_offset -8\n\tret")
FUNCTION(loop_to_entry, "add $0x40000000,%edi\n\tjnc loop_to_entry\n\tmov %esi,%eax\n\tret")
/* The trampoline gives loop_to_entry an argument that wraps at the third turn. */
FUNCTION(call_loop_to_entry, "lea 1(%rdi),%esi\n\tmov $0x40000000,%edi\n\tcall loop_to_entry\n\t"
			     "ret")

int first_data[2];

static int (*const firsts[])(int) = {
	first_push, first_endbr64, first_test, first_mov,  first_cmp,	first_nop5,    first_nop,
	first_sub,  first_lock,	   first_jmp,  first_call, late_target, late_argument,
};
static const char *const first_names[] = {
	"first_push", "first_endbr64", "first_test",	"first_mov",  "first_cmp",
	"first_nop5", "first_nop",     "first_sub",	"first_lock", "first_jmp",
	"first_call", "late_target",   "late_argument",
};
#define FIRSTS	    (sizeof(firsts) / sizeof(firsts[0]))
#define FIRST_CALLS 300

static void call_firsts(void)
{
	for (size_t f = 0; f < FIRSTS; f++)
		for (int i = 0; i < FIRST_CALLS; i++)
			known_require(firsts[f](i) == i + 1, first_names[f]);
	for (int i = 0; i < FIRST_CALLS; i++) {
		first_ret(i);
		known_require(call_loop_to_entry(i) == i + 1, "loop_to_entry");
	}
}

static void expect_firsts(uint64_t runs)
{
	for (size_t f = 0; f < FIRSTS; f++)
		known_expect(first_names[f], "calls", runs * FIRST_CALLS);
	known_expect("first_lea", "calls",
		     runs * 2 * FIRST_CALLS); /* from first_jmp and first_call */
	known_expect("first_ret", "calls", runs * FIRST_CALLS);
	known_expect("loop_to_entry", "calls", runs * FIRST_CALLS);
}
#else
static void call_firsts(void)
{
}

static void expect_firsts(uint64_t runs)
{
	(void)runs;
}
#endif

static void scenario(void)
{
	for (int i = 0; i < 1000; i++)
		outer(i);
	call_firsts();
}

int main(void)
{
	uint64_t runs = known_main(scenario);

	known_expect("outer", "calls", runs * 1000);
	known_expect("middle", "calls", runs * 2000);
	known_expect("leaf", "calls", runs * 21000);
	expect_firsts(runs);
	return 0;
}
