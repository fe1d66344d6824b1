/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges as programs mark them (stub libraries, lib/): ranges CASE. Expectations of a range are
 * printed under its name, as of a function.
 */
#include "ranges.h"

#include "hostile.h"
#include "known.h"

#include <pthread.h>
#include <sys/wait.h>

#define ROUNDS 1000

static void *torch_begin(const char *name)
{
	struct string string = {name, strlen(name)};
	void *object;

	enter_new(&object, &string, NULL);
	return object;
}

static void torch_finish(void *object)
{
	record_end((char *)object + 16);
	record_end((char *)object + 16);
	free(object);
}

TRACED void work(int n)
{
	for (int i = 0; i < n; i++)
		KEEP(i);
}

static void nested(void)
{
	char name[32], node[64];

	for (int i = 0; i < ROUNDS; i++) {
		void *outer, *inner;

		snprintf(name, sizeof(name), "step %d", i % 3);
		nvtxRangePushA("epoch");
		nvtxRangePushA(name);
		work(10);
		roctxRangePushA("kernel");
		work(5);
		/* of different libraries: each pops its own */
		nvtxRangePop();
		roctxRangePop();
		nvtxRangePop();
		itt_range_push("itt range");
		itt_range_pop();
		nvtxMarkA("here");
		outer = torch_begin("Optimizer.step#SGD.step");
		record_end(node);
		inner = torch_begin("a name that is longer than what std::string keeps in itself");
		torch_finish(outer);
		torch_finish(inner);
	}
}

static void expect_nested(uint64_t runs)
{
	known_expect("work", "calls", runs * ROUNDS * 2);
	known_expect("epoch", "calls", runs * ROUNDS);
	known_expect("step 0", "calls", runs * 334);
	known_expect("step 1", "calls", runs * 333);
	known_expect("step 2", "calls", runs * 333);
	known_expect("kernel", "calls", runs * ROUNDS);
	known_expect("itt range", "calls", runs * ROUNDS);
	known_expect("here", "calls", runs * ROUNDS);
	known_expect("Optimizer.step#SGD.step", "calls", runs * ROUNDS);
	known_expect("a name that is longer than what std::string keeps in itself", "calls",
		     runs * ROUNDS);
}

TRACED void pushes(void)
{
	nvtxRangePushA("pushed inside");
	work(3);
}

TRACED void pops(void)
{
	work(3);
	nvtxRangePop();
}

static void unbalanced(void)
{
	static int left_open = 3;

	for (int i = 0; i < 100; i++) {
		pushes();
		work(3);
		pops();
	}
	for (int i = 0; i < 7; i++)
		nvtxRangePop();
	if (left_open-- > 0)
		roctxRangePushA("never popped");
}

static void expect_unbalanced(uint64_t runs)
{
	known_expect("pushed inside", "calls", runs * 100);
	known_expect("pushes", "calls", runs * 100);
	known_expect("pops", "calls", runs * 100);
	known_expect("nvtxRangePop", "begun_before", runs * 7);
	known_expect("never popped", "running", runs < 3 ? runs : 3);
}

static uint64_t handed[64];

static void *ends(void *arg)
{
	(void)arg;
	for (int i = 0; i < 64; i++)
		nvtxRangeEnd(handed[63 - i]);
	/* begun here, never ended */
	nvtxRangePushA("of a thread that ends");
	return NULL;
}

static void threads(void)
{
	pthread_t thread;
	uint64_t ids[2];

	for (int i = 0; i < 64; i++)
		handed[i] = nvtxRangeStartA(i % 2 ? "odd" : "even");
	pthread_create(&thread, NULL, ends, NULL);
	pthread_join(thread, NULL);
	ids[0] = roctxRangeStartA("first without id");
	ids[1] = roctxRangeStartA("second without id");
	roctxRangeStop(ids[1]);
	roctxRangeStop(ids[0]);
	roctxRangeStop(0);
}

static void expect_threads(uint64_t runs)
{
	known_expect("odd", "calls", runs * 32);
	known_expect("even", "calls", runs * 32);
	known_expect("first without id", "calls", runs);
	known_expect("second without id", "calls", runs);
	known_expect("roctxRangeStop", "begun_before", runs);
	known_expect("of a thread that ends", "running", runs);
}

static void spin(void)
{
	work(20000);
}

static void torch_range(const char *name, int n)
{
	void *object = torch_begin(name);

	work(n);
	torch_finish(object);
}

static void train(void)
{
	for (int i = 0; i < 50; i++) {
		nvtxRangePushA("my step");
		torch_range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10000);
		work(30000);
		torch_range("Optimizer.zero_grad#SGD.zero_grad", 1000);
		engine_execute(NULL, spin);
		if (i % 2) {
			work(1000);
			torch_range("Optimizer.step#SGD.step", 5000);
		}
		nvtxRangePop();
	}
}

static void expect_train(uint64_t runs)
{
	known_expect("Optimizer.step#SGD.step", "calls", runs * 25);
	known_expect("my step", "calls", runs * 50);
}

static void names(void)
{
	char name[32];

	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "name %d", i);
		nvtxRangePushA(name);
		nvtxRangePop();
	}
}

static void too_many_names(void)
{
	char name[32];

	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "name %d", i);
		nvtxRangePushA(name);
		nvtxRangePop();
	}
}

static void push_pop(const char *name)
{
	nvtxRangePushA(name);
	nvtxRangePop();
}

static void hostile(void)
{
	char text[160];

	for (int i = 0; i < 10; i++) {
		hostile_names(push_pop);
		/* the last of 128 shown bytes is in the middle of a character */
		memset(text, 'u', 127);
		strcpy(text + 127, "\xe2\x82\xac"
				   "tail");
		push_pop(text);
		memset(text, 'v', 128);
		text[128] = '\0';
		push_pop(text);
	}
}

static void forks(void)
{
	for (int i = 0; i < 5; i++) {
		pid_t child;
		int status;

		nvtxRangePushA("around fork");
		child = fork();
		if (!child) {
			nvtxRangePop();
			for (int k = 0; k < 10; k++)
				push_pop("in the child");
			_exit(0);
		}
		known_require(waitpid(child, &status, 0) == child && !status, "a child died");
		nvtxRangePop();
	}
}

static void expect_forks(uint64_t runs)
{
	known_expect("around fork", "calls", runs * 5);
	known_expect("in the child", "calls", runs * 50);
	/* each child pops ranges that it has not pushed */
	known_expect("nvtxRangePop", "begun_before", runs * 5);
}

static void deep(void)
{
	for (int i = 0; i < 400; i++)
		nvtxRangePushA("deep");
	for (int i = 0; i < 400; i++)
		nvtxRangePop();
	push_pop("after");
}

static void expect_deep(uint64_t runs)
{
	known_expect("after", "calls", runs);
}

static const struct known_case cases[] = {
	{"nested", nested, expect_nested},
	{"unbalanced", unbalanced, expect_unbalanced},
	{"threads", threads, expect_threads},
	{"train", train, expect_train},
	{"names", names, NULL},
	{"too_many_names", too_many_names, NULL},
	{"hostile", hostile, NULL},
	{"forks", forks, expect_forks},
	{"deep", deep, expect_deep},
};

int main(int argc, char **argv)
{
	return known_cases_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
