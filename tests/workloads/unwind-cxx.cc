/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forced unwinding through C++ frames: pthread_exit, pthread_cancel and _Unwind_ForcedUnwind
 * itself (as language runtimes use it), destructors and catch (...) blocks on the way.
 */
#include "known.h"

#include <cxxabi.h>
#include <initializer_list>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <unwind.h>

static uint64_t destroyed;
static sem_t waiting;

struct guard {
	guard()
	{
	}
	~guard()
	{
		destroyed++;
	}
};

TRACED int leave(int x)
{
	guard g;

	if (x == 1)
		pthread_exit(nullptr);
	while (x == 2) {
		sem_post(&waiting);
		pause();
	}
	return x;
}

/* A handler for everything receives the unwinding, and must let it continue. */
TRACED int handler(int x)
{
	try {
		return leave(x) + 1;
	} catch (abi::__forced_unwind &) {
		destroyed++;
		throw;
	}
}

TRACED int outer(int x)
{
	guard g;

	return handler(x);
}

static void *thread_main(void *arg)
{
	for (int i = 0; i < 10; i++)
		outer(0);
	outer((int)(intptr_t)arg);
	return nullptr;
}

struct forced {
	_Unwind_Exception exception;
	jmp_buf target;
	uintptr_t target_frame;
};

/* Called before each frame is unwound; stops at the frame that started it. */
static _Unwind_Reason_Code stop(int, _Unwind_Action actions, _Unwind_Exception_Class,
				_Unwind_Exception *, _Unwind_Context *context, void *arg)
{
	forced *f = (forced *)arg;

	known_require(!(actions & _UA_END_OF_STACK), "the unwinder passed through every frame");
	if (_Unwind_GetCFA(context) > f->target_frame)
		longjmp(f->target, 1);
	return _URC_NO_REASON;
}

TRACED int force_inner(forced *f)
{
	guard g;

	_Unwind_ForcedUnwind(&f->exception, stop, f);
	return 1;
}

TRACED int force_outer(forced *f)
{
	guard g;

	return force_inner(f) + 1;
}

TRACED int force(void)
{
	static forced f;

	f.target_frame = (uintptr_t)__builtin_frame_address(0);
	if (!setjmp(f.target))
		return force_outer(&f);
	return 0;
}

static void run_thread(int kind)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, nullptr, thread_main, (void *)(intptr_t)kind);
	if (kind == 2) {
		sem_wait(&waiting);
		pthread_cancel(thread);
	}
	pthread_join(thread, &result);
	known_require(result == (kind == 2 ? PTHREAD_CANCELED : nullptr), "the thread's value");
}

static void scenario()
{
	uint64_t before = destroyed;

	for (int i = 0; i < 50; i++) {
		run_thread(1);
		run_thread(2);
		known_require(force() == 0, "_Unwind_ForcedUnwind");
	}
	/* 10 plain calls and one forced, of 2 guards; a handler each time it is forced. */
	known_require(destroyed - before == 50 * (2 * (2 * 11 + 1) + 2), "every destructor ran");
}

int main()
{
	uint64_t runs;

	sem_init(&waiting, 0, 0);
	runs = known_main(scenario);
	for (const char *name : {"outer", "handler", "leave"}) {
		known_expect(name, "calls", runs * 1100);
		known_expect(name, "unwound", runs * 100);
	}
	for (const char *name : {"force_outer", "force_inner"}) {
		known_expect(name, "calls", runs * 50);
		known_expect(name, "unwound", runs * 50);
	}
	known_expect("force", "calls", runs * 50);
	return 0;
}
