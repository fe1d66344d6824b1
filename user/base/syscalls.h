/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_BASE_SYSCALLS_H
#define PERFX_BASE_SYSCALLS_H

/* "openat"; NULL: a number that is not known here. */
const char *syscall_name(unsigned number);

#endif
