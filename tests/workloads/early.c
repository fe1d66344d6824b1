/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * early [STATUS | signal NUMBER]: code that runs before and after main, for `perfx-trace run`:
 * calls in .preinit_array, in a library's constructor, in the program's, in main and in a
 * destructor. Prints its expectations before it ends with STATUS (0) or by the signal. Also built
 * static, without the library.
 */
#include <signal.h>

#include "known.h"

TRACED int early_work(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int late_work_at_exit(int x)
{
	KEEP(x);
	return x + 1;
}

static void call_early(int count)
{
	for (int i = 0; i < count; i++)
		early_work(i);
}

static void before_everything(int argc, char **argv, char **envp)
{
	(void)argc;
	(void)argv;
	(void)envp;
	call_early(3);
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const first)(int, char **, char **) = before_everything;

__attribute__((constructor)) static void before_main(void)
{
	call_early(10);
}

__attribute__((destructor)) static void after_main(void)
{
	for (int i = 0; i < 5; i++)
		late_work_at_exit(i);
}

int main(int argc, char **argv)
{
	bool killed = argc > 2 && !strcmp(argv[1], "signal");

	call_early(100);
	known_expect("early_work", "calls", 113);
#if !defined(EARLY_STATIC)
	known_expect("early_library_work", "calls", 20);
#endif
	known_expect("late_work_at_exit", "calls", killed ? 0 : 5);
	if (killed) {
		signal(atoi(argv[2]), SIG_DFL);
		raise(atoi(argv[2]));
	}
	return argc > 1 ? atoi(argv[1]) : 0;
}
