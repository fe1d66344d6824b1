// SPDX-License-Identifier: BSD-2-Clause
#include "inject/inject.h"
#include "inject/internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint32_t answer(const struct sock_filter *program, size_t count, int nr, uint64_t arg)
{
	struct seccomp_data data = {.nr = nr, .arch = AUDIT_ARCH_X86_64, .args = {arg}};

	return seccomp_run(program, count, &data);
}

Test(seccomp, as_libseccomp_writes_them)
{
	const struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x10000000, 0, 2),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	cr_assert_eq(answer(program, COUNT(program), SYS_read, 0), SECCOMP_RET_ALLOW);
	cr_assert_eq(answer(program, COUNT(program), SYS_clone, 0x3d0f00), SECCOMP_RET_ALLOW);
	cr_assert_eq(answer(program, COUNT(program), SYS_clone, 0x10000000),
		     SECCOMP_RET_ERRNO | EPERM);
	cr_assert_eq(answer(program, COUNT(program), 0x40000001, 0), SECCOMP_RET_ERRNO | ENOSYS);
}

static uint32_t calculated(uint16_t code, uint32_t a, uint32_t k)
{
	const struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_IMM, a), BPF_STMT(BPF_ALU | code | BPF_K, k),
		BPF_STMT(BPF_ST, 3),	       BPF_STMT(BPF_LDX | BPF_MEM, 3),
		BPF_STMT(BPF_LD | BPF_IMM, 0), BPF_STMT(BPF_MISC | BPF_TXA, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};

	return answer(program, COUNT(program), 0, 0);
}

Test(seccomp, calculates)
{
	cr_assert_eq(calculated(BPF_ADD, 0xffffffff, 3), 2);
	cr_assert_eq(calculated(BPF_SUB, 1, 2), 0xffffffff);
	cr_assert_eq(calculated(BPF_MUL, 7, 6), 42);
	cr_assert_eq(calculated(BPF_DIV, 42, 5), 8);
	cr_assert_eq(calculated(BPF_AND, 0xff, 0x3c), 0x3c);
	cr_assert_eq(calculated(BPF_OR, 0xf0, 0x0f), 0xff);
	cr_assert_eq(calculated(BPF_XOR, 0xff, 0x0f), 0xf0);
	cr_assert_eq(calculated(BPF_LSH, 1, 31), 0x80000000);
	cr_assert_eq(calculated(BPF_LSH, 1, 40), 0);
	cr_assert_eq(calculated(BPF_RSH, 0x80000000, 31), 1);
	cr_assert_eq(calculated(BPF_NEG, 1, 0), 0xffffffff);
}

/* Where the kernel would not have taken the program, nothing is let through. */
Test(seccomp, damaged_programs_kill)
{
	const struct sock_filter damaged[][2] = {
		{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 3), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000)},
		{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000)},
		{BPF_STMT(BPF_LD | BPF_MEM, BPF_MEMWORDS), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000)},
		{BPF_STMT(BPF_ST, BPF_MEMWORDS), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000)},
		{BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000)},
		{BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000)},
		{BPF_STMT(BPF_LD | BPF_IMM, 0), BPF_STMT(BPF_LD | BPF_IMM, 0)},
	};

	for (size_t i = 0; i < COUNT(damaged); i++)
		cr_assert_eq(answer(damaged[i], 2, 0, 0), SECCOMP_RET_KILL_PROCESS, "%zu", i);
	cr_assert_eq(answer(damaged[0], 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
}

#ifdef __x86_64__

static struct thread_state state_of_thread(void)
{
	struct thread_state state = {
		.regs = {.rip = 0x1111,
			 .rsp = 0x7ffe00012345,
			 .rax = 7,
			 .eflags = 0x202,
			 .cs = 0x33},
		.mask = 0x10,
		.xstate_bytes = XSTATE_BYTES_MAX,
	};

	memset(state.xstate, 0, sizeof(state.xstate));
	return state;
}

Test(way_back, lies_below_the_red_zone)
{
	struct thread_state state = state_of_thread();
	static uint8_t bytes[FRAME_BYTES_MAX];
	uint64_t word;
	struct way_back back;

	cr_assert_eq(way_back_make(&back, bytes, &state, 0x2222), 0);
	cr_assert_leq(back.start + back.size, state.regs.rsp - RED_ZONE_BYTES);
	cr_assert_eq(back.start % 64, 0, "xrstor takes no other");
	memcpy(&word, bytes + (back.sp - back.start), sizeof(word));
	cr_assert_eq(word, 0x2222, "`ret` leads to rt_sigreturn");
	cr_assert_str_eq((char *)bytes + (back.name - back.start), "perfx");
	cr_assert_lt(back.pair, back.start + back.size);
}

Test(way_back, more_vector_state_than_there_is)
{
	struct thread_state state = state_of_thread();
	static uint8_t bytes[FRAME_BYTES_MAX];
	struct way_back back;

	state.xstate_bytes = 512;
	cr_assert_eq(way_back_make(&back, bytes, &state, 0x2222), -E2BIG);
}

/* What a signal handler's frame looks like is the kernel's affair: it is asked to return by one. */
static void go_back_by(const struct way_back *back, const uint8_t *bytes)
{
	memcpy((void *)back->start, bytes, back->size);
	__asm__ volatile("mov %0, %%rsp\n"
			 "ret\n"
			 :
			 : "r"(back->sp)
			 : "memory");
	__builtin_unreachable();
}

static void arrive(void)
{
	_exit(42);
}

__attribute__((naked)) static void sigreturn_there(void)
{
	__asm__("mov $15, %eax\n"
		"syscall\n");
}

Test(way_back, the_kernel_takes_it, .exit_code = 42)
{
	static uint8_t bytes[FRAME_BYTES_MAX];
	char *stack =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct thread_state state = state_of_thread();
	struct way_back back;

	state.regs.rip = (uint64_t)arrive;
	state.regs.rsp = (uint64_t)stack + (1 << 20) - 8;
	state.regs.ss = 0x2b;
	memset(state.xstate + 24, 0, 4);
	((uint32_t *)state.xstate)[6] = 0x1f80; /* MXCSR: none traps */
	cr_assert_eq(way_back_make(&back, bytes, &state, (uint64_t)sigreturn_there), 0);
	go_back_by(&back, bytes);
}

Test(stub, fits_its_page)
{
	size_t size;

	cr_assert_not_null(stub_code(&size));
	cr_assert_gt(size, 100);
	cr_assert_leq(size, STUB_CODE_BYTES);
}

#endif

static int refused(struct inject_request request, struct inject_result *result)
{
	int err = inject__library(&request, result);

	cr_assert_lt(err, 0);
	cr_assert_eq(result->socket_fd, -1);
	cr_assert_neq(result->why[0], '\0');
	return err;
}

Test(inject, refuses_before_it_touches_anything)
{
	struct inject_result result;

	cr_assert_eq(
		refused((struct inject_request){.pid = 4194303, .image = "", .image_bytes = 64},
			&result),
		-ESRCH);
	cr_assert_str_eq(result.why, "it has ended");
	cr_assert_eq(refused((struct inject_request){.pid = getpid(),
						     .image = "",
						     .image_bytes = 64,
						     .fd_offset = 61},
			     &result),
		     -EINVAL);
}
