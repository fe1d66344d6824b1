// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded into the tracer: refuses resources, as another kernel or a full machine would.
 *
 *	REFUSE_PROGRAM=NAME	BPF programs whose names begin with NAME (the kernel sees 15
 *				characters)
 *	REFUSE_THREADS=N	threads, from the N-th on
 *	REFUSE_PROCESSES=N	processes, from the N-th on
 *	REFUSE_MEMORY=N		blocks of memory of 4 KiB and more, from the N-th on
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LARGE_BYTES 4096

/* Instructions of the stub that replaces a program that is not needed yet. */
#define EMPTY 2

/* Has the program requested as many as the variable says? */
static int is_used_up(const char *variable, long *count)
{
	const char *first = getenv(variable);

	return first && __atomic_add_fetch(count, 1, __ATOMIC_RELAXED) >= atol(first);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *arg)
{
	static long count;
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		(int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))(
			uintptr_t)dlsym(RTLD_NEXT, "pthread_create");

	return is_used_up("REFUSE_THREADS", &count) ? EAGAIN : next(thread, attributes, run, arg);
}

pid_t fork(void)
{
	static long count;
	pid_t (*next)(void) = (pid_t(*)(void))(uintptr_t)dlsym(RTLD_NEXT, "fork");

	if (!is_used_up("REFUSE_PROCESSES", &count))
		return next();
	errno = EAGAIN;
	return -1;
}

/* The C library's own names of these, because dlsym allocates. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

static int is_without_memory(size_t size)
{
	static long count;

	if (size < LARGE_BYTES || !is_used_up("REFUSE_MEMORY", &count))
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	return is_without_memory(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return is_without_memory(count * size) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
	return is_without_memory(size) ? NULL : __libc_realloc(block, size);
}

static int is_refused(const union bpf_attr *attr)
{
	const char *name = getenv("REFUSE_PROGRAM");

	return name && !strncmp(attr->prog_name, name, strlen(name)) && attr->insn_cnt > EMPTY;
}

long syscall(long number, ...)
{
	long (*next)(long, ...) = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_bpf && arguments[0] == BPF_PROG_LOAD &&
	    is_refused((const union bpf_attr *)arguments[1])) {
		errno = EINVAL;
		return -1;
	}
	return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
		    arguments[5]);
}
