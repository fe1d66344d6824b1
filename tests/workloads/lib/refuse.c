// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded into the tracer: a kernel that refuses the BPF programs whose names begin with
 * $REFUSE_PROGRAM. The kernel is told 15 characters of a program's name.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static int is_refused(const union bpf_attr *attr)
{
	const char *name = getenv("REFUSE_PROGRAM");

	return name && !strncmp(attr->prog_name, name, strlen(name));
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
