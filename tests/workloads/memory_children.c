/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Children: each process has live blocks of its own; inherited blocks are not the child's.
 *
 *	memory_children fork	the child frees what it inherited, keeps what it makes; so does its
 *own memory_children vfork	the child allocates in the parent's memory, then executes
 *	memory_children spawn	posix_spawn
 *	memory_children exec	the program executes itself: the old live blocks end, new ones begin
 *
 * An executed program allocates in in_executed(): what its loader does besides is no concern here.
 * libc is everybody's, so a tracer that does not want to disturb strangers must come to each child
 * anew: each waits for it.
 */
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "memory.h"

#define CHILDREN 8
#define BLOCKS	 20

static struct family {
	struct memory book;
	pid_t pid;
} * family; /* shared with the children */
static int children_count;
static uint64_t executed_count;
static char *program;
static void *inherited[BLOCKS];

static void await_tracer(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 700000000}, NULL);
}

TRACED void keep(int count, size_t size)
{
	for (int i = 0; i < count; i++)
		memory_took(malloc(size), size);
}

TRACED void in_executed(void)
{
	await_tracer();
	for (int i = 0; i < 10; i++) {
		char *block = malloc(1000);

		KEEP(block);
	}
}

/* Each frees half of the blocks that both have inherited. */
static void begin_child(int first)
{
	memory = (struct memory){0};
	await_tracer();
	for (int i = first; i < first + BLOCKS / 2; i++) {
		memory_gave_unknown();
		free(inherited[i]);
	}
	keep(7, 3000);
}

static void end_child(struct family *me)
{
	keep(7, 3000);
	me->book = memory;
	_exit(0);
}

static void child_main(struct family *me)
{
	pid_t pid;

	begin_child(0);
	pid = fork();
	if (!pid) {
		begin_child(BLOCKS / 2);
		end_child(me + 1);
	}
	me[1].pid = pid;
	waitpid(pid, NULL, 0);
	end_child(me);
}

static void forks(void)
{
	struct family *child = &family[children_count];
	pid_t pid;

	known_require(children_count + 2 <= CHILDREN, "too many runs");
	for (int i = 0; i < BLOCKS; i++)
		inherited[i] = memory_took(malloc(500), 500);
	pid = fork();
	if (!pid)
		child_main(child);
	child->pid = pid;
	waitpid(pid, NULL, 0);
	children_count += 2;
	for (int i = 0; i < BLOCKS; i++) {
		memory_gave(inherited[i], 500);
		free(inherited[i]);
	}
	keep(3, 200);
}

static void expect_exit(pid_t pid)
{
	int status;

	known_require(pid > 0, "a child");
	known_require(waitpid(pid, &status, 0) == pid && !status, "a child's end");
	executed_count++;
}

static void vforks(void)
{
	static void *volatile block;
	pid_t pid;

	keep(3, 200);
	pid = vfork();
	if (!pid) {
		await_tracer();
		block = memory_took(malloc(12345), 12345);
		memory.last = 0;
		execl(program, program, "executed", NULL);
		_exit(1);
	}
	expect_exit(pid);
	memory_gave(block, 12345);
	free(block);
	keep(3, 200);
}

static void spawns(void)
{
	char *argv[] = {program, (char *){"executed"}, NULL};
	pid_t pid = 0;

	keep(3, 200);
	known_require(!posix_spawn(&pid, program, NULL, NULL, argv, environ), "posix_spawn");
	expect_exit(pid);
	keep(3, 200);
}

static void execs(void)
{
	char word[24];

	keep(5, 1000);
	snprintf(word, sizeof(word), "%d", (int)executed_count + 1);
	execl(program, program, "exec", word, NULL);
	known_require(false, "execl");
}

static const struct memory_scenario scenarios[] = {
	{"fork", forks}, {"vfork", vforks}, {"spawn", spawns}, {"exec", execs}, {NULL, NULL},
};

static void expect(const char *scenario)
{
	known_expect("in_executed", "live_bytes", executed_count * 10000);
	known_expect("in_executed", "allocs", executed_count * 10);
	if (!strcmp(scenario, "exec")) { /* each exec discards its own blocks */
		known_expect("keep", "live_bytes", executed_count * 5000);
		known_expect("keep", "allocs", executed_count * 5);
		return;
	}
	if (!strcmp(scenario,
		    "spawn")) { /* allocates a stack for the child, with a size of its own */
		known_expect("memory", "current_bytes", memory.current_bytes);
		known_expect("memory", "unknown_frees", 0);
		return;
	}
	memory_expect();
	for (int i = 0; i < children_count; i++)
		memory_expect_of(&family[i].book, family[i].pid);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "fork";
	size_t size = CHILDREN * sizeof(*family);

	program = argv[0];
	if (!strcmp(name, "executed")) {
		in_executed();
		return 0;
	}
	family = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	known_require(family != MAP_FAILED, "mmap");
	if (argc > 2) {
		executed_count = strtoull(argv[2], NULL, 10);
		in_executed();
		known_say("done");
		while (known_go())
			execs();
	} else {
		known_main(memory_find(scenarios, name));
	}
	expect(name);
	return 0;
}
