/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_BASE_THREAD_H
#define PERFX_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* A thread that gets no signals: these are the main thread's, where they end waiting. 0 or -errno.
 */
static inline int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

#endif
