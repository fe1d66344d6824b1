// SPDX-License-Identifier: BSD-2-Clause
/*
 * Seccomp filters are classic BPF programs over struct seccomp_data, without loops: jumps lead
 * forward, so a run takes as many steps as there are instructions at most. Semantics as in the
 * kernel's Documentation/userspace-api/seccomp_filter.rst and net/core/filter.c.
 */
#include "inject/internal.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define FILTERS_MAX 64 /* the last message names it */

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000U
#endif

struct machine {
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
	const struct seccomp_data *data;
};

/* false: the instruction reads what is not there. */
static bool load(const struct machine *machine, const struct sock_filter *insn, uint32_t *value)
{
	switch (insn->code & ~(BPF_LD | BPF_LDX)) {
	case BPF_IMM:
		*value = insn->k;
		return true;
	case BPF_MEM:
		if (insn->k >= BPF_MEMWORDS)
			return false;
		*value = machine->memory[insn->k];
		return true;
	case BPF_LEN:
		*value = sizeof(*machine->data);
		return true;
	case BPF_ABS:
		if (insn->k % 4 || insn->k >= sizeof(*machine->data))
			return false;
		memcpy(value, (const char *)machine->data + insn->k, sizeof(*value));
		return true;
	}
	return false;
}

static bool calculate(struct machine *machine, const struct sock_filter *insn)
{
	uint32_t by = BPF_SRC(insn->code) == BPF_X ? machine->x : insn->k, *a = &machine->a;

	switch (BPF_OP(insn->code)) {
	case BPF_ADD:
		*a += by;
		return true;
	case BPF_SUB:
		*a -= by;
		return true;
	case BPF_MUL:
		*a *= by;
		return true;
	case BPF_DIV:
		*a = by ? *a / by : 0;
		return by;
	case BPF_AND:
		*a &= by;
		return true;
	case BPF_OR:
		*a |= by;
		return true;
	case BPF_XOR:
		*a ^= by;
		return true;
	case BPF_LSH:
		*a = by < 32 ? *a << by : 0;
		return true;
	case BPF_RSH:
		*a = by < 32 ? *a >> by : 0;
		return true;
	case BPF_NEG:
		*a = -*a;
		return true;
	}
	return false;
}

/* How many instructions are skipped; -1: it is no jump. */
static int64_t jump(const struct machine *machine, const struct sock_filter *insn)
{
	uint32_t by = BPF_SRC(insn->code) == BPF_X ? machine->x : insn->k;

	switch (BPF_OP(insn->code)) {
	case BPF_JA:
		return insn->k;
	case BPF_JEQ:
		return machine->a == by ? insn->jt : insn->jf;
	case BPF_JGT:
		return machine->a > by ? insn->jt : insn->jf;
	case BPF_JGE:
		return machine->a >= by ? insn->jt : insn->jf;
	case BPF_JSET:
		return machine->a & by ? insn->jt : insn->jf;
	}
	return -1;
}

/* One instruction that is no return; *skip: how many of those behind it are left out. */
static bool step(struct machine *machine, const struct sock_filter *insn, int64_t *skip)
{
	*skip = 0;
	switch (BPF_CLASS(insn->code)) {
	case BPF_LD:
		return load(machine, insn, &machine->a);
	case BPF_LDX:
		return load(machine, insn, &machine->x);
	case BPF_ST:
	case BPF_STX:
		if (insn->k >= BPF_MEMWORDS)
			return false;
		machine->memory[insn->k] =
			BPF_CLASS(insn->code) == BPF_ST ? machine->a : machine->x;
		return true;
	case BPF_ALU:
		return calculate(machine, insn);
	case BPF_JMP:
		*skip = jump(machine, insn);
		return *skip >= 0;
	case BPF_MISC:
		if (BPF_MISCOP(insn->code) == BPF_TAX)
			machine->x = machine->a;
		else
			machine->a = machine->x;
		return true;
	}
	return false;
}

uint32_t seccomp_run(const struct sock_filter *program, size_t count,
		     const struct seccomp_data *data)
{
	struct machine machine = {.data = data};
	int64_t skip;

	for (size_t at = 0; at < count; at += 1 + (size_t)skip) {
		const struct sock_filter *insn = &program[at];

		if (BPF_CLASS(insn->code) == BPF_RET)
			return BPF_RVAL(insn->code) == BPF_A ? machine.a : insn->k;
		if (!step(&machine, insn, &skip))
			break;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* System calls of the injection, then of dlopen, then of a library that starts a thread and talks
 * to a socket. Arguments are those that a filter may check. */
static const struct needed {
	const char *name;
	int nr;
	uint64_t args[6];
} needed[] = {
	{"memfd_create", SYS_memfd_create, {0, MFD_CLOEXEC | MFD_ALLOW_SEALING}},
	{"socketpair", SYS_socketpair, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC}},
	{"mmap", SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, 3}},
	{"mprotect", SYS_mprotect, {0, 4096, PROT_READ | PROT_WRITE}},
	{"munmap", SYS_munmap, {0}},
	{"openat", SYS_openat, {(uint64_t)-100}},
	{"read", SYS_read, {3}},
	{"pread64", SYS_pread64, {3}},
	{"newfstatat", SYS_newfstatat, {3}},
	{"close", SYS_close, {3}},
	{"clock_gettime", SYS_clock_gettime, {1}},
	{"rt_sigprocmask", SYS_rt_sigprocmask, {2}},
	{"rt_sigreturn", SYS_rt_sigreturn, {0}},
	{"futex", SYS_futex, {0, 128}},
	{"clone", SYS_clone, {0x3d0f00}},
	{"exit", SYS_exit, {0}},
#ifdef SYS_poll
	{"poll", SYS_poll, {0, 1, 100}},
#endif
	{"sendmsg", SYS_sendmsg, {3}},
	{"recvmsg", SYS_recvmsg, {3}},
};

const char *seccomp_forbids(pid_t tid, char *why, size_t why_bytes)
{
	static __thread struct sock_filter program[BPF_MAXINSNS];

	for (long index = 0; index < FILTERS_MAX; index++) {
		long count = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, NULL);

		if (count < 0 && errno == ENOENT)
			return NULL;
		if (count < 0 || count > BPF_MAXINSNS ||
		    ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, program) != count)
			return "it has a seccomp filter that this kernel does not let us read";
		for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
			struct seccomp_data data = {.nr = needed[i].nr, .arch = AUDIT_ARCH_X86_64};
			uint32_t action;

			memcpy(data.args, needed[i].args, sizeof(data.args));
			action = seccomp_run(program, (size_t)count, &data) &
				 SECCOMP_RET_ACTION_FULL;
			if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG)
				continue;
			snprintf(why, why_bytes, "its seccomp filter forbids %s", needed[i].name);
			return why;
		}
	}
	return "it has more than 64 seccomp filters";
}
