// SPDX-License-Identifier: BSD-2-Clause
/* A library for injection (tests/e2e/inject.c): its constructor starts a thread, which writes a
 * byte to the socket whose number is in the image. -DPLAIN: without a thread, for old C libraries,
 * in which pthread_create has another symbol version. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct injected_config {
	char magic[16];
	int socket_fd;
};

__attribute__((used)) volatile struct injected_config injected_config = {.magic = "perfx-injected!",
									 .socket_fd = -1};

static void *say_hello(void *arg)
{
	char byte = 'x';

	(void)arg;
	if (write(injected_config.socket_fd, &byte, 1) == 1)
		close(injected_config.socket_fd);
	return NULL;
}

__attribute__((constructor)) static void injected_begin(void)
{
#ifdef PLAIN
	say_hello(NULL);
#else
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_create(&thread, &attr, say_hello, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
}
