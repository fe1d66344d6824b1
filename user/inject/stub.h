/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a held thread is made to run, and how it gets back by itself: bytes for its stack and its
 * memory, made without touching it.
 *
 * Two ways back. By rt_sigreturn: a frame as the kernel lays out for signal handlers lies below the
 * red zone of the thread's stack, with its registers, vector state and signal mask; a system call
 * made at `syscall; ret` returns into it. That needs no code of ours. And by the stub's last
 * instructions, for a thread whose interrupted wait goes on with restart_syscall: rt_sigreturn
 * would end that with EINTR.
 */
#ifndef PERFX_INJECT_STUB_H
#define PERFX_INJECT_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#define RED_ZONE_BYTES	 128
#define XSTATE_BYTES_MAX (16u << 10)
#define FRAME_BYTES_MAX	 (XSTATE_BYTES_MAX + 1024)
#define FRAME_NAME_BYTES 32

/* Of a stopped thread. */
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

#endif
