/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that glibc 2.34 has moved from libdl and libpthread to libc, by the version that they
 * have in both, so that what is linked here is found by older releases, too. The two libraries are
 * named as needed: every process with a CUDA driver has them mapped, and since 2.34 they are empty.
 */
#ifndef PERFX_AGENT_LIBC_H
#define PERFX_AGENT_LIBC_H

#include <dlfcn.h>
#include <pthread.h>

#if defined(__x86_64__)
#define OLD_VERSION "GLIBC_2.2.5"
#else
#define OLD_VERSION "GLIBC_2.17"
#endif
#define OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@" OLD_VERSION)

OLD_SYMBOL(dlopen);
OLD_SYMBOL(dlsym);
OLD_SYMBOL(pthread_create);
OLD_SYMBOL(pthread_attr_setstacksize);

#endif
