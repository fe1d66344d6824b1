/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_INJECT_INTERNAL_H
#define PERFX_INJECT_INTERNAL_H

#include "elf/image.h"
#include "inject/inject.h"
#include "proc/maps.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/*
 * Facts of a process, found before any of its threads is touched: whether it can load a library,
 * where the functions for that are, and which code a thread must not be in.
 */

/* The debug registers of a CPU. */
#define TARGET_ENTRIES_MAX 4

enum module_kind {
	MODULE_OTHER = 0,
	MODULE_LIBC,   /* glibc: busy are its functions of target.busy */
	MODULE_LOADER, /* the dynamic linker, and what else is busy as a whole */
	MODULE_BUSY
};

/* An executable mapping of a file. Strings and images belong to the target. */
struct target_module {
	uint64_t start, end;
	uint64_t bias; /* address - vaddr */
	enum module_kind kind;
	const char *name;
	struct image *image; /* NULL: no ELF file, or not to be opened */
};

struct target_range {
	uint64_t start, end;
	const char *name;
};

struct target {
	pid_t pid;
	struct maps *maps;
	struct target_module *modules; /* by ascending address */
	size_t modules_count, modules_capacity;
	/* Functions of libc that hold its locks, or may. */
	struct target_range *busy;
	size_t busy_count, busy_capacity;
	/* Functions of libc in which a thread may be asleep. */
	struct target_range *sleeps;
	size_t sleeps_count, sleeps_capacity;
	/* Where a thread may be stopped: at the entry of these. */
	struct target_range entries[TARGET_ENTRIES_MAX];
	size_t entries_count;

	uint64_t dlopen, dlopen_flags;
	uint64_t dlerror; /* 0: none */
	uint64_t errno_location;
	uint64_t syscall_return; /* the instructions `syscall; ret` */
	uint64_t sigreturn;	 /* `mov $15, %rax; syscall`, where signal handlers return to */
	uint64_t loader_data;	 /* _rtld_global: has the loader's locks; 0: not found */
	uint64_t loader_data_bytes;
	int notify_signal; /* default action: none, and the process has no handler of it */
	bool has_seccomp;
};

/* 0, or -errno as inject__library() gives it, with why. Clear it in either case. */
int target_inspect(struct target *target, const struct inject_request *request,
		   char why[INJECT_WHY_BYTES]);
void target_clear(struct target *target);

/* NULL: no file's code. */
const struct target_module *target_module(const struct target *target, uint64_t address);
/* The first of the ranges that has the address, or NULL. */
const struct target_range *target_range_of(const struct target_range *ranges, size_t count,
					   uint64_t address);
/* Does a thread of the process hold a lock of the dynamic linker? To be asked just before it is
 * made to load something. */
bool target_is_loading(const struct target *target);

/* Why ptrace refuses. */
int target_refused(pid_t pid, int err, char why[INJECT_WHY_BYTES]);

/*
 * The code that a held thread runs, and its way back: bytes for its stack and its memory, made
 * without touching the thread.
 *
 * Two ways back. By rt_sigreturn: a frame as the kernel lays out for signal handlers lies below the
 * red zone of the thread's stack, with its registers, vector state and signal mask; a system call
 * made at `syscall; ret` returns into it. That needs no code of ours. And by the stub's last
 * instructions, for a thread whose interrupted wait goes on with restart_syscall: rt_sigreturn
 * would end that with EINTR.
 */

#define RED_ZONE_BYTES	 128
#define XSTATE_BYTES_MAX (16u << 10)
#define FRAME_BYTES_MAX	 (XSTATE_BYTES_MAX + 1024)
#define FRAME_NAME_BYTES 32

/* The state of a stopped thread. */
struct thread_state {
	struct user_regs_struct regs; /* with which it is to go on */
	uint64_t mask;		      /* blocked signals */
	uint8_t xstate[XSTATE_BYTES_MAX];
	size_t xstate_bytes;
};

/* Where it lies in the thread's stack. */
struct way_back {
	uint64_t sp;	/* with which `syscall; ret` is to be entered */
	uint64_t name;	/* a string: of the memory file */
	uint64_t pair;	/* room for int[2] */
	uint64_t start; /* of the bytes */
	size_t size;
};

/* Makes the bytes that are to be written at back->start. -E2BIG: more vector state than is known.
 */
int way_back_make(struct way_back *back, uint8_t bytes[FRAME_BYTES_MAX],
		  const struct thread_state *state, uint64_t sigreturn);

#define STUB_CODE_BYTES	 4096u
#define STUB_DATA_BYTES	 (16u << 10)
#define STUB_STACK_BYTES (256u << 10)
#define STUB_BYTES	 (STUB_CODE_BYTES + STUB_DATA_BYTES + STUB_STACK_BYTES)
#define STUB_PATH_BYTES	 96
#define STUB_ERROR_BYTES 192
#define STUB_XSAVE_AT	 1024

enum stub_done { STUB_LOADED = 1, STUB_FAILED = 2 };

/* Behind the code. 64-bit words by their number in stub.c; shared with the process: untrusted. */
struct stub_data {
	uint64_t mapping_bytes; /* 0 */
	uint64_t pad0;		/* 1 */
	uint64_t dlopen;	/* 2 */
	uint64_t dlopen_flags;	/* 3 */
	uint64_t dlerror;	/* 4; 0: none */
	uint64_t errno_location;
	uint64_t back_sp; /* 6 */
	uint64_t syscall_return;
	uint64_t restarts; /* 8: goes back by itself, to restart_syscall, with what follows */
	uint64_t rip;	   /* 9 */
	uint64_t rsp;
	uint64_t mask;
	uint64_t rdi; /* 12 */
	uint64_t rsi;
	uint64_t rdx;
	uint64_t r8; /* 15 */
	uint64_t r9;
	uint64_t r10;
	uint64_t memfd;	  /* 18: closed at the end, */
	uint64_t peer_fd; /* 19: as this */
	uint64_t own_fd;  /* 20: closed when the library was refused */
	/* Written by the stub. */
	uint64_t handle;      /* 21 */
	uint64_t errno_at;    /* 22 */
	uint64_t errno_saved; /* 23 */
	uint64_t began[2];    /* 24: struct timespec of CLOCK_MONOTONIC */
	uint64_t ended[2];    /* 26 */
	uint64_t outcome;     /* 28 */
	uint64_t done;	      /* 29: enum stub_done, the last that is written */
	uint64_t pad[2];
	char path[STUB_PATH_BYTES]; /* 32 */
	char error[STUB_ERROR_BYTES];
};

/* The code, position-independent, of at most STUB_CODE_BYTES. */
const void *stub_code(size_t *size);

/*
 * One thread of another process, by ptrace: waited for at the entry of a function, stopped where it
 * sleeps, made to do system calls.
 *
 * No stop is one from which a thread would not go on when we die, for the kernel then lets it go
 * with the signal it was stopped by. So there is no SIGTRAP: a breakpoint is a perf event on a
 * debug register, which ends with our descriptor, and tells of a hit by a signal that does nothing
 * (F_SETSIG). System call stops are those of PTRACE_O_TRACESYSGOOD, whose number is no signal.
 * Letting a thread go that is not stopped takes no stop, either: the thread of ours that seized it
 * ends.
 */

struct hold {
	const struct target *target;
	pid_t tid;
	int entries[TARGET_ENTRIES_MAX]; /* perf events */
	size_t entries_count;
	int signal; /* it is stopped by this one, which it would not get */
	bool seized, stopped;
	uint64_t stopped_ns; /* since when */
	uint64_t held_ns;    /* until the last time it went on */
};

/* 0 or -errno: that of ptrace. The calling thread must end soon after: that lets the thread go
 * however it is then. */
int hold__seize(struct hold *hold, const struct target *target, pid_t tid);

/* Breakpoints at the target's entries, not armed: 0, or -errno of the first; -EAGAIN: not
 * in this thread. Closed by hold__close(). */
int hold__break(struct hold *hold);
void hold__arm(struct hold *hold, bool armed);
void hold__close(struct hold *hold);

/* Waits until it is stopped at an entry; signals that come meanwhile are passed on. 0: stopped,
 * disarmed; -ETIMEDOUT: it is not; -EAGAIN: nor will it soon, it sleeps; -ESRCH: it is gone. */
int hold__wait_entry(struct hold *hold, uint64_t until_ns, const struct target_range **entry);
/* Stops it where it sleeps. 0; -EAGAIN: it does not sleep; -EBUSY: the process is stopped. */
int hold__wait_asleep(struct hold *hold, uint64_t until_ns);

/* While stopped. 0 or -errno. */
int hold__state(struct hold *hold, struct thread_state *state);
int hold__set_regs(struct hold *hold, const struct user_regs_struct *regs);
int hold__set_mask(struct hold *hold, uint64_t mask);
int hold__write(struct hold *hold, uint64_t address, const void *bytes, size_t size);
int hold__read(struct hold *hold, uint64_t address, void *bytes, size_t size);
/* A system call in its place: *result as the kernel gives it. The registers are then still those of
 * the call, by which it goes back to what it did. Never again after an error. */
int hold__call(struct hold *hold, const struct user_regs_struct *way_back, long nr,
	       const uint64_t args[6], int64_t *result);

/* It goes on, still traced. */
void hold__continue(struct hold *hold);
/* The same, and it is let alone for a while: 0 or -ESRCH. */
int hold__rest(struct hold *hold, uint64_t until_ns);
/* It goes on, untraced. */
void hold__detach(struct hold *hold);

/* Whether a stopped thread may call dlopen: that no frame of its stack holds a lock for it. */

struct stack_place {
	uint64_t pc, sp, fp;
	uint64_t tls; /* address of the thread's control block */
	bool asleep;  /* stopped behind a system call, not at the entry of a function */
};

#define STACK_WHY_BYTES 96

/* 0: it may; *where: the function of libc in which it is asleep, else NULL. Else -EAGAIN, and why
 * not, as "in the dynamic linker". */
int stack_check(const struct target *target, const struct stack_place *place, const char **where,
		char why[STACK_WHY_BYTES]);

/* Whether a thread's seccomp filters let through what loading a library takes. */

/* A classic BPF program's answer to that system call: SECCOMP_RET_…. For a damaged program, which
 * the kernel would have refused: SECCOMP_RET_KILL_PROCESS. */
uint32_t seccomp_run(const struct sock_filter *program, size_t count,
		     const struct seccomp_data *data);

/* Checks a thread that we have stopped. NULL: its filters allow all; else why not, a static text,
 * or one made in `why`. */
const char *seccomp_forbids(pid_t tid, char *why, size_t why_bytes);

#endif
