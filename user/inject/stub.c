// SPDX-License-Identifier: BSD-2-Clause
#include "inject/internal.h"

#include <errno.h>
#include <string.h>

#ifdef __x86_64__

#include <cpuid.h>

/* Bytes that the processor leaves to software, in the legacy area. */
#define XSTATE_SOFTWARE_AT 464
#define XSTATE_HEADER_AT   512
#define XSTATE_FIXED_BYTES 576 /* legacy area and header */
#define XSTATE_TILES	   0x60000ull
#define XSTATE_LEAF	   0xd

#define CONTEXT_HAS_XSTATE 0x1
#define CONTEXT_HAS_SS	   0x6 /* UC_SIGCONTEXT_SS and UC_STRICT_RESTORE_SS */
#define STACK_FLAGS_NONE   0x7 /* no valid ones: the alternate stack is left as it is */

#define MAGIC1 0x46505853u /* FP_XSTATE_MAGIC1 */
#define MAGIC2 0x46505845u

/* arch/x86/include/uapi/asm/sigcontext.h: struct _fpx_sw_bytes. */
struct software_bytes {
	uint32_t magic1;
	uint32_t extended_bytes; /* with MAGIC2 behind it */
	uint64_t features;
	uint32_t xstate_bytes;
	uint32_t pad[7];
};
_Static_assert(XSTATE_SOFTWARE_AT + sizeof(struct software_bytes) == XSTATE_HEADER_AT, "48 bytes");

/* struct rt_sigframe of the kernel: struct sigcontext_64 within struct ucontext, then siginfo. */
struct frame {
	uint64_t return_address; /* to rt_sigreturn */
	uint64_t flags, link;
	uint64_t stack_sp, stack_flags, stack_size;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t xstate; /* address */
	uint64_t reserved[8];
	uint64_t mask;
	uint8_t siginfo[128];
	int32_t pair[2];
	char name[FRAME_NAME_BYTES];
};
_Static_assert(offsetof(struct frame, r8) == 8 + 40, "uc_mcontext");
_Static_assert(offsetof(struct frame, mask) == 8 + 40 + 256, "uc_sigmask");

static size_t bytes_of_features(uint64_t features)
{
	uint32_t size, offset, c, d;
	size_t bytes = XSTATE_FIXED_BYTES;

	for (unsigned bit = 2; bit < 63; bit++) {
		if (!(features >> bit & 1))
			continue;
		__cpuid_count(XSTATE_LEAF, bit, size, offset, c, d);
		if (offset + (size_t)size > bytes)
			bytes = offset + (size_t)size;
	}
	return bytes;
}

/* Tiles need a permission that most processes have not asked for: their 8 KiB belong to a frame
 * only where they are in use. */
static uint64_t features_of(const struct thread_state *state)
{
	uint64_t in_use, features;
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	features = (uint64_t)high << 32 | low;
	memcpy(&in_use, state->xstate + XSTATE_HEADER_AT, sizeof(in_use));
	return in_use & XSTATE_TILES ? features : features & ~XSTATE_TILES;
}

static void copy_registers(struct frame *frame, const struct user_regs_struct *regs)
{
	frame->r8 = regs->r8;
	frame->r9 = regs->r9;
	frame->r10 = regs->r10;
	frame->r11 = regs->r11;
	frame->r12 = regs->r12;
	frame->r13 = regs->r13;
	frame->r14 = regs->r14;
	frame->r15 = regs->r15;
	frame->rdi = regs->rdi;
	frame->rsi = regs->rsi;
	frame->rbp = regs->rbp;
	frame->rbx = regs->rbx;
	frame->rdx = regs->rdx;
	frame->rax = regs->rax;
	frame->rcx = regs->rcx;
	frame->rsp = regs->rsp;
	frame->rip = regs->rip;
	frame->eflags = regs->eflags;
	frame->cs = (uint16_t)regs->cs;
	frame->ss = (uint16_t)regs->ss;
}

int way_back_make(struct way_back *back, uint8_t bytes[FRAME_BYTES_MAX],
		  const struct thread_state *state, uint64_t sigreturn)
{
	struct frame frame = {.return_address = sigreturn,
			      .flags = CONTEXT_HAS_XSTATE | CONTEXT_HAS_SS,
			      .stack_flags = STACK_FLAGS_NONE,
			      .mask = state->mask,
			      .name = "perfx"};
	uint64_t features = features_of(state);
	size_t xstate_bytes = bytes_of_features(features);
	size_t xstate_at = (sizeof(frame) + 63) & ~(size_t)63;
	struct software_bytes software = {.magic1 = MAGIC1,
					  .extended_bytes = (uint32_t)xstate_bytes + 4,
					  .features = features,
					  .xstate_bytes = (uint32_t)xstate_bytes};
	uint32_t magic2 = MAGIC2;

	if (xstate_bytes > state->xstate_bytes || xstate_at + xstate_bytes + 4 > FRAME_BYTES_MAX)
		return -E2BIG;
	back->size = xstate_at + xstate_bytes + 4;
	back->start = (state->regs.rsp - RED_ZONE_BYTES - back->size) & ~63ull;
	back->sp = back->start;
	back->name = back->start + offsetof(struct frame, name);
	back->pair = back->start + offsetof(struct frame, pair);
	frame.xstate = back->start + xstate_at;
	copy_registers(&frame, &state->regs);
	memset(bytes, 0, back->size);
	memcpy(bytes, &frame, sizeof(frame));
	memcpy(bytes + xstate_at, state->xstate, xstate_bytes);
	memcpy(bytes + xstate_at + XSTATE_SOFTWARE_AT, &software, sizeof(software));
	memcpy(bytes + xstate_at + xstate_bytes, &magic2, sizeof(magic2));
	return 0;
}

_Static_assert(offsetof(struct stub_data, dlerror) == 8 * 4, "dlerror");
_Static_assert(offsetof(struct stub_data, back_sp) == 8 * 6, "back_sp");
_Static_assert(offsetof(struct stub_data, restarts) == 8 * 8, "restarts");
_Static_assert(offsetof(struct stub_data, rdi) == 8 * 12, "rdi");
_Static_assert(offsetof(struct stub_data, r8) == 8 * 15, "r8");
_Static_assert(offsetof(struct stub_data, memfd) == 8 * 18, "memfd");
_Static_assert(offsetof(struct stub_data, handle) == 8 * 21, "handle");
_Static_assert(offsetof(struct stub_data, began) == 8 * 24, "began");
_Static_assert(offsetof(struct stub_data, done) == 8 * 29, "done");
_Static_assert(offsetof(struct stub_data, path) == 8 * 32, "path");
_Static_assert(offsetof(struct stub_data, error) == 8 * 44, "error");
_Static_assert(sizeof(struct stub_data) <= STUB_XSAVE_AT, "before the vector state");
_Static_assert(STUB_CODE_BYTES + STUB_XSAVE_AT == 5120, "as below");
_Static_assert(STUB_BYTES == 282624 && STUB_CODE_BYTES + STUB_DATA_BYTES == 20480, "as below");

#define WORD(n) "(.Lstub + 4096 + 8 * " #n ")(%rip)"

/*
 * Entered with all signals blocked and the callee-saved registers as they are to be, which dlopen
 * keeps. What is to be restored of the others is in the frame, or in the words.
 */
/* clang-format off */
__asm__(".pushsection .rodata\n"
	".globl inject_stub_begin, inject_stub_end\n"
	".hidden inject_stub_begin, inject_stub_end\n"
	"inject_stub_begin:\n"
	".Lstub:\n"
	"	cld\n"
	"	lea (.Lstub + 282624)(%rip), %rsp\n"
	"	cmpq $0, " WORD(8) "\n"
	"	je .Lload\n"
	/* the vector state without tiles: the loader uses none */
	"	xor %ecx, %ecx\n"
	"	xgetbv\n"
	"	and $0xfff9ffff, %eax\n"
	"	lea (.Lstub + 5120)(%rip), %rdi\n"
	"	xsave64 (%rdi)\n"
	".Lload:\n"
	"	mov $1, %edi\n"
	"	lea " WORD(24) ", %rsi\n"
	"	mov $228, %eax\n" /* clock_gettime */
	"	syscall\n"
	"	call *" WORD(5) "\n"
	"	mov %rax, " WORD(22) "\n"
	"	mov (%rax), %ecx\n"
	"	mov %rcx, " WORD(23) "\n"
	"	lea " WORD(32) ", %rdi\n"
	"	mov " WORD(3) ", %rsi\n"
	"	call *" WORD(2) "\n"
	"	mov %rax, " WORD(21) "\n"
	"	movq $1, " WORD(28) "\n"
	"	test %rax, %rax\n"
	"	jnz .Lloaded\n"
	"	movq $2, " WORD(28) "\n"
	"	cmpq $0, " WORD(4) "\n"
	"	je .Lrefused\n"
	"	call *" WORD(4) "\n"
	"	test %rax, %rax\n"
	"	jz .Lrefused\n"
	"	lea " WORD(44) ", %rdi\n"
	"	mov $191, %ecx\n"
	".Lcopy:\n"
	"	mov (%rax), %dl\n"
	"	mov %dl, (%rdi)\n"
	"	inc %rax\n"
	"	inc %rdi\n"
	"	test %dl, %dl\n"
	"	jz .Lrefused\n"
	"	dec %ecx\n"
	"	jnz .Lcopy\n"
	".Lrefused:\n"
	"	mov " WORD(20) ", %rdi\n"
	"	mov $3, %eax\n" /* close */
	"	syscall\n"
	".Lloaded:\n"
	"	mov " WORD(18) ", %rdi\n"
	"	mov $3, %eax\n"
	"	syscall\n"
	"	mov " WORD(19) ", %rdi\n"
	"	mov $3, %eax\n"
	"	syscall\n"
	"	mov " WORD(22) ", %rax\n"
	"	mov " WORD(23) ", %rcx\n"
	"	mov %ecx, (%rax)\n"
	"	mov $1, %edi\n"
	"	lea " WORD(26) ", %rsi\n"
	"	mov $228, %eax\n"
	"	syscall\n"
	"	mov " WORD(28) ", %rax\n"
	"	mov %rax, " WORD(29) "\n"
	"	cmpq $0, " WORD(8) "\n"
	"	jne .Lrestart\n"
	/* all is given back, this code too: munmap is called in libc and returns to the frame */
	"	lea .Lstub(%rip), %rdi\n"
	"	mov " WORD(0) ", %rsi\n"
	"	mov " WORD(6) ", %rsp\n"
	"	mov $11, %eax\n"
	"	jmp *" WORD(7) "\n"
	/* the way back by itself; the stub's stack is given back first */
	".Lrestart:\n"
	"	xor %ecx, %ecx\n"
	"	xgetbv\n"
	"	and $0xfff9ffff, %eax\n"
	"	lea (.Lstub + 5120)(%rip), %rdi\n"
	"	xrstor64 (%rdi)\n"
	"	mov " WORD(10) ", %rsp\n"
	"	lea (.Lstub + 20480)(%rip), %rdi\n"
	"	mov $262144, %esi\n"
	"	mov $11, %eax\n" /* munmap */
	"	syscall\n"
	/* a handler of a signal that waited until now runs on the thread's own stack */
	"	mov $2, %edi\n"
	"	lea " WORD(11) ", %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	mov $14, %eax\n" /* rt_sigprocmask */
	"	syscall\n"
	"	mov " WORD(12) ", %rdi\n"
	"	mov " WORD(13) ", %rsi\n"
	"	mov " WORD(14) ", %rdx\n"
	"	mov " WORD(15) ", %r8\n"
	"	mov " WORD(16) ", %r9\n"
	"	mov " WORD(17) ", %r10\n"
	"	mov $219, %eax\n" /* restart_syscall */
	"	jmp *" WORD(9) "\n"
	"inject_stub_end:\n"
	".popsection\n");
/* clang-format on */

extern const char inject_stub_begin[], inject_stub_end[];

const void *stub_code(size_t *size)
{
	*size = (size_t)((uintptr_t)inject_stub_end - (uintptr_t)inject_stub_begin);
	return inject_stub_begin;
}

#endif
