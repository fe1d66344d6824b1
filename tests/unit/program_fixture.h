/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that a test has built and that stand still while it looks at them. */
#ifndef PERFX_TESTS_PROGRAM_FIXTURE_H
#define PERFX_TESTS_PROGRAM_FIXTURE_H

#include "fixture.h"

#include <signal.h>
#include <sys/wait.h>

/* Source of a program that says it is there, and stays. */
#define PROGRAM_STAYS           \
	"#include <unistd.h>\n" \
	"int main(void) { return write(1, \"!\", 1) != 1 || pause(); }\n"

/* Its pid, once it has written a byte. */
__attribute__((unused)) static pid_t program_start(const char *program, const char *preload)
{
	int ready[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		dup2(ready[1], STDOUT_FILENO);
		close(ready[1]);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		execl(program, program, NULL);
		_exit(127);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1, "%s did not start", program);
	close(ready[0]);
	return pid;
}

__attribute__((unused)) static void program_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#endif
