// SPDX-License-Identifier: BSD-2-Clause
#include "base/interrupt.h"

#include "base/message.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void on_signal(int signal)
{
	if (asked) {
		msg_status_leave();
		_exit(EXIT_INTERRUPTED);
	}
	asked = signal;
}

void interrupt_install(void)
{
	/* system calls of libraries go on; epoll_wait is never restarted and ends the wait */
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* a pipe that closes, and a file that may not grow, is an error of write, not a death */
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	sigaction(SIGXFSZ, &action, NULL);
}

bool interrupt_asked(void)
{
	return asked;
}

int interrupt_signal(void)
{
	return asked;
}

static volatile sig_atomic_t dumps;

static void on_dump(int signal)
{
	(void)signal;
	dumps++;
}

void interrupt_install_dumps(void)
{
	struct sigaction action = {.sa_handler = on_dump, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &action, NULL);
}

unsigned interrupt_dumps_asked(void)
{
	return (unsigned)dumps;
}
