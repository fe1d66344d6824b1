/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a process computes: the hottest place, which the verdict names, and its native functions.
 * By samples on CPUs.
 */
#ifndef PERFX_ANALYZE_HOTTEST_H
#define PERFX_ANALYZE_HOTTEST_H

#include "analyze/account.h"
#include "base/text.h"

/* The program's own function or, without one, that of a package, or a native one; and inside of it
 * the function of a package or library, the native one with most of its time, and where it only
 * polls. */
struct hottest {
	struct place place, inside, native, polling;
	uint32_t tid;	     /* 0: of all threads */
	uint64_t all_ns;     /* on a CPU, with a known place */
	uint64_t polling_ns; /* of the place, in whatever function */
	uint32_t function;   /* of the traced calls that have most of the place; 0: none */
	uint64_t function_ns;
};
/* tid 0: of all threads. */
struct hottest hottest_of(const struct process_account *account, uint32_t tid);
/* For the thread that the verdict names if it has most of the CPU time, else for all threads. */
struct hottest hottest_of_process(const struct process_account *account);
/* The traced function in which all threads compute most; 0: none. */
uint32_t hottest_function(const struct process_account *account);
/* "main (train.py:12), 62.0 % of it in torch Linear.forward (linear.py:134), in gemm (libblas.so)"
 */
void add_hottest(struct text *text, const struct hottest *hottest);
/* "; 41.7 % of it only polls for other threads, in gomp_barrier_wait (libgomp.so.1)"; or nothing.
 */
void add_polling(struct text *text, const struct hottest *hottest);
/* ", 30.0 % of it at that line": nothing where the line has nearly all of the function's time. */
void add_line_share(struct text *text, const struct place *place);
/* location_place(), but "libonnxruntime.so (no symbols)" for a native function without a name. */
void add_native(struct text *text, const struct profile_frame *frame);

/* A function needs at least this share of all threads' CPU time for a row. */
#define NATIVE_ROW_SHARE 0.01
/* Rows of functions by their own time, and as many of those that call them. */
#define NATIVE_ROWS 7

/* Sampled on CPUs, of all threads. Without a name: all of its library. */
struct native_function {
	const struct profile_frame *frame;
	const struct profile_frame
		*below;		    /* the Python line with most of it; NULL: none is known */
	uint64_t self_ns, total_ns; /* total: with callees, recursion once */
	uint64_t spinning_ns;	    /* of total_ns */
	/* While it is made. */
	uint64_t below_ns, called_ns; /* of total_ns */
	bool passes_on, continues;
	size_t seen;
};

struct native_functions {
	/* Those with most time of their own, self_ns descending; then callers, total_ns descending,
	 * without those that say the same as their own caller. */
	struct native_function *list;
	size_t count, leaves_count;
	uint64_t all_ns; /* of all samples on CPUs */
};

/* Neither the interpreter's nor a thread's start. by_library: libraries in place of functions.
 * 0 or -ENOMEM; the caller frees `list` either way. */
int native_functions_find(struct native_functions *functions, const struct profile_process *process,
			  bool by_library);

#endif
