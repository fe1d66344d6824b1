/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts a shared library into a running process: one of its threads is held for about a millisecond
 * and made to call dlopen. The library's constructor finds one end of a socket, the caller gets the
 * other. docs/gpu.md says what may be on that thread's stack, and what is refused.
 *
 * At no moment does the process depend on us: whatever the thread is made to do ends by itself with
 * all of its registers as they were, so that a tracer may be killed at any instruction.
 */
#ifndef PERFX_INJECT_INJECT_H
#define PERFX_INJECT_INJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INJECT_WHY_BYTES   256
#define INJECT_WHERE_BYTES 64

struct inject_request {
	pid_t pid;
	/* The library: an ELF file for this machine that needs nothing but the C library, and has
	 * no initial-exec TLS. */
	const void *image;
	size_t image_bytes;
	/* Where in the image an int32_t lies that gets the number of the library's end of the
	 * socket (AF_UNIX, SOCK_SEQPACKET, close-on-exec); aligned to 4. */
	size_t fd_offset;
	/* Where in the image a string lies that gets the name of an abstract socket, to which the
	 * library then connects, and of how many bytes: for inject__by_python alone. */
	size_t name_offset, name_bytes;
	const char *socket_name;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC: a safe moment is waited for until then */
	/* NULL-terminated, or NULL: beginnings of file names ("libcuda.so"); not while the thread
	 * is in one of these. */
	const char *const *busy_modules;
	/* NULL-terminated, or NULL: functions, of whatever file, that the process calls anyway and
	 * at whose entries it may be done: the first two that there are, and some of the C library.
	 */
	const char *const *functions;
};

struct inject_result {
	int socket_fd; /* the caller's to close; -1 */
	pid_t tid;     /* the thread that loaded it */
	/* How long threads were held: by us, and by dlopen. */
	uint64_t held_ns;
	uint64_t dlopen_ns;		/* the part that dlopen took */
	uint64_t left_bytes;		/* mapped for good beside the library */
	char where[INJECT_WHERE_BYTES]; /* "at the entry of malloc", "asleep in poll" */
	char why[INJECT_WHY_BYTES];	/* on failure: one clause */
};

/* 0: the library is loaded. -errno, with result->why: -ENOTSUP never possible in this process;
 * -EBUSY something else traces it or has it stopped; -EPERM not allowed; -ESRCH it has ended;
 * -ETIMEDOUT no thread came to a safe moment; -ELIBBAD its dlopen refused the library. It is
 * unharmed in any case. Blocks until the deadline at most, and a second. */
int inject__library(const struct inject_request *request, struct inject_result *result);

/* The same without holding a thread, where the process is a CPython that runs scripts of debuggers
 * (cpython/remote_script.h): one of these loads it. The library connects to the socket of the
 * request; result->socket_fd is -1. A second at most; -ENOTSUP not possible in this process;
 * -ETIMEDOUT its main thread did not come by: inject__library may be tried. */
int inject__by_python(const struct inject_request *request, struct inject_result *result);

#endif
