/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths to malloc that are hard to unwind without frame pointers: each ends in leaf(), with a size
 * of its own (sizes, below), and tests/e2e/test_stacks.py has the chain of functions. All run in
 * the main thread and in some others.
 */
#include "known.h"

#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { THREADS = 3, ROUNDS = 20, DEEP = 100, TOO_DEEP = 400 };

/* One for each path, which identifies its stacks. */
enum size {
	SORTED = 101,
	DYNAMIC,
	REALIGNED,
	VIRTUAL,
	FAR,
	RECURSIVE,
	CUT,
	HANDLED,
	HANDLED_APART,
	TAIL,
	JUMPED,
	LANDED,
	BARE,
	FRAMED,
	COMPILED,
	COMPILED_FRAMED
};

static volatile bool always = true;

extern "C" {

void far_away(void (*back)(size_t size), size_t size);
void bare(void (*callee)(size_t), size_t size);
void framed(void (*callee)(size_t), size_t size);

TRACED void leaf(size_t size)
{
	void *block = malloc(size);

	KEEP(block);
	free(block);
}

/* --- functions of a file without .eh_frame: assembler --- */

__asm__(".text\n"
	".type bare, @function\n"
	"bare:\n\tpush %rbx\n\tsub $48, %rsp\n\tmov %rdi, %rax\n\tmov %rsi, %rdi\n\tcall *%rax\n"
	"\tadd $48, %rsp\n\tpop %rbx\n\tret\n"
	".size bare, . - bare\n"
	".type framed, @function\n"
	"framed:\n\tpush %rbp\n\tmov %rsp, %rbp\n\tsub $4000, %rsp\n\tmov %rdi, %rax\n"
	"\tmov %rsi, %rdi\n\tcall *%rax\n\tleave\n\tret\n"
	".size framed, . - framed\n");

/* --- by compilers --- */

static thread_local size_t sorted_once;

TRACED int compare(const void *a, const void *b)
{
	if (sorted_once) {
		sorted_once = 0;
		leaf(SORTED);
	}
	return *(const int *)a - *(const int *)b;
}

TRACED void sorts(void)
{
	int numbers[] = {3, 1, 2, 5, 4};

	sorted_once = 1;
	qsort(numbers, 5, sizeof(numbers[0]), compare);
	KEEP(numbers[0]);
}

TRACED void dynamic(size_t bytes)
{
	char *room = (char *)alloca(bytes);

	memset(room, 1, bytes);
	leaf(DYNAMIC);
	KEEP(room[3]);
}

/* alloca makes rbp the frame; the vector makes it a realigned one. */
TRACED void realigned(size_t bytes)
{
	alignas(64) char vector[128];
	char *room = (char *)alloca(bytes);

	memset(room, 1, bytes);
	memset(vector, 2, sizeof(vector));
	KEEP(vector[1]);
	leaf(REALIGNED);
	KEEP(room[3]);
	KEEP(vector[7]);
}

TRACED void recursive(int depth, size_t size)
{
	if (depth > 1)
		recursive(depth - 1, size);
	else
		leaf(size);
	KEEP(depth);
}

TRACED void tail_last(size_t size)
{
	leaf(size);
	KEEP(size);
}

/* Jumps there, so it is on no stack. */
TRACED void tail_first(size_t size)
{
	KEEP(size);
	tail_last(size);
}

static thread_local jmp_buf landing;

TRACED void jumps(void)
{
	leaf(JUMPED);
	longjmp(landing, 1);
}

TRACED void lands(void)
{
	if (!setjmp(landing))
		jumps();
	leaf(LANDED);
	KEEP(always);
}

TRACED void on_signal(int number)
{
	leaf(number == SIGUSR1 ? HANDLED : HANDLED_APART);
	KEEP(number);
}

TRACED void interrupted(int number)
{
	pthread_kill(pthread_self(), number);
	KEEP(number);
}

TRACED void calls_far(void)
{
	far_away(leaf, FAR);
	KEEP(always);
}

TRACED void calls_bare(void)
{
	bare(leaf, BARE);
	KEEP(always);
}

TRACED void calls_framed(void)
{
	framed(leaf, FRAMED);
	KEEP(always);
}

/* --- code without a file --- */

typedef void compiled_fn(void (*callee)(size_t), size_t size);
static compiled_fn *compiled, *compiled_framed;

TRACED void calls_compiled(void)
{
	compiled(leaf, COMPILED);
	KEEP(always);
}

TRACED void calls_compiled_framed(void)
{
	compiled_framed(leaf, COMPILED_FRAMED);
	KEEP(always);
}

} /* extern "C" */

/* The two functions of assembler, copied: they are position-independent. */
static void compile(void)
{
	char *code = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);

	memcpy(code, (void *)bare, 64);
	memcpy(code + 4096, (void *)framed, 64);
	mprotect(code, 8192, PROT_READ | PROT_EXEC);
	compiled = (compiled_fn *)code;
	compiled_framed = (compiled_fn *)(code + 4096);
}

struct base {
	virtual ~base() = default;
	virtual void method(size_t size) = 0;
};

struct derived : base {
	TRACED void method(size_t size) override
	{
		leaf(size);
		KEEP(always);
	}
};

extern "C" TRACED void calls_virtual(base *object)
{
	object->method(VIRTUAL);
	KEEP(always);
}

extern "C" TRACED void every_way(void)
{
	derived object;

	for (int i = 0; i < ROUNDS; i++) {
		sorts();
		dynamic(1000 + 16 * i);
		realigned(500 + 16 * i);
		calls_virtual(&object);
		calls_far();
		recursive(DEEP, RECURSIVE);
		recursive(TOO_DEEP, CUT);
		interrupted(SIGUSR1);
		interrupted(SIGUSR2);
		tail_first(TAIL);
		lands();
		calls_bare();
		calls_framed();
		calls_compiled();
		calls_compiled_framed();
	}
}

static void *run_thread(void *)
{
	static thread_local char apart[64 << 10];
	stack_t stack = {};

	stack.ss_sp = apart;
	stack.ss_size = sizeof(apart);
	sigaltstack(&stack, NULL);
	every_way();
	return NULL;
}

static void scenario(void)
{
	pthread_t threads[THREADS];

	run_thread(NULL);
	for (pthread_t &thread : threads)
		pthread_create(&thread, NULL, run_thread, NULL);
	for (pthread_t thread : threads)
		pthread_join(thread, NULL);
}

int main()
{
	struct sigaction action = {};

	compile();
	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
	known_expect("leaf", "allocs", known_main(scenario) * ROUNDS * 16 * (1 + THREADS));
}
