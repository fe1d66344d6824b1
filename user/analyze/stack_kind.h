/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The activity of a call stack, by the functions and files of its frames: the interpreter, input,
 * collectives, garbage collection, compiling. A stack may be NULL: then it is doing nothing.
 */
#ifndef PERFX_ANALYZE_STACK_KIND_H
#define PERFX_ANALYZE_STACK_KIND_H

#include "aggregate/profile.h"

/* The functions, files and libraries that the analysis knows by name: known_code.c lists them. */
enum known_code {
	/* Python's own library */
	CODE_IMPORT,	      /* runs an import statement, and what a module does then */
	CODE_CONDITION,	      /* waits for a condition or an event, by a lock or a semaphore */
	CODE_THREADS_QUEUE,   /* a queue between threads */
	CODE_QUEUE_PUT,	      /* puts into a queue, between threads or processes */
	CODE_QUEUE_TAKE,      /* reads what another thread or process provides */
	CODE_INPUT,	      /* the same, or fetches a data loader's next batch */
	CODE_INTER_PROCESS,   /* a pipe, a queue or a lock of multiprocessing */
	CODE_POOL_THREAD,     /* a thread of a pool, which waits for tasks by a queue in C */
	CODE_POOL_LOOP,	      /* a worker of a pool of processes or threads takes tasks */
	CODE_JOIN,	      /* waits for threads, tasks of a pool or processes to end */
	CODE_CHILD,	      /* starts a child process, or waits for it */
	CODE_CHILD_POLL,      /* asks repeatedly whether a child has ended */
	CODE_PROCESS_START,   /* calls the function for which multiprocessing started a process */
	CODE_LOADER_WORKER,   /* a process of PyTorch's DataLoader takes requests */
	CODE_COLLECTOR,	      /* CPython's garbage collector */
	CODE_INTERPRETER_END, /* the interpreter shuts down */
	/* frameworks */
	CODE_PIPELINE_ASKED, /* asks an iterator of tf.data for the next batch */
	CODE_PIPELINE_TAKEN, /* TensorFlow's own thread takes a step's batch from tf.data */
	CODE_COLLECTIVE,     /* in which other processes of the job take part */
	CODE_COMPILER,	     /* a framework's Python that traces, lowers and compiles */
	CODE_BACKWARD,	     /* PyTorch's backward pass */
	CODE_ONEDNN,
	/* data */
	CODE_DECODER, /* libraries that decode files */
	CODE_WRITER,  /* those of their functions that write */
	/* threads */
	CODE_MUTEX,	       /* takes a mutex that another thread holds */
	CODE_MUTEX_UNLOCK,     /* hands it over */
	CODE_MUTEX_CONDITION,  /* a condition that waits by the slow way to lock a mutex */
	CODE_SHARED_CONDITION, /* a condition or a barrier, which processes may share */
	CODE_BARRIER,
	CODE_SPIN_LOCK,
	CODE_POLL,	   /* on a CPU there a thread polls: it yields, does not block, or spins */
	CODE_POOL_RUNTIME, /* a library that only starts threads and lets them wait */
	CODE_POOL_WAIT,	   /* threads of a pool without such a library, and their caller, wait */
	CODE_THREAD_START, /* below these lies all that a program or a thread runs */
	KNOWN_CODE_KINDS
};

bool frame_is(const struct profile_frame *frame, enum known_code kind);
/* Is one of its frames of that kind? NULL: no. */
bool stack_has(const struct profile_stack *stack, enum known_code kind);

bool frame_is_same_function(const struct profile_frame *a, const struct profile_frame *b);
bool frame_is_same_line(const struct profile_frame *a, const struct profile_frame *b);
/* "score" of Runner.score, "<genexpr>" of score.<locals>.<genexpr> */
const char *frame_last_name(const struct profile_frame *frame);
/* The interpreter, or one of its own modules in C (math, _json, …). */
bool frame_is_interpreter(const struct profile_frame *frame);
/* glibc's function for a system call? "__GI___libc_read", "fsync" */
bool frame_is_system_call(const struct profile_frame *frame);

/* frames_count: there is none. stack: not NULL. */
size_t stack_innermost_python(const struct profile_stack *stack);
/* NULL has none. */
bool stack_has_python(const struct profile_stack *stack);
bool stack_has_function(const struct profile_stack *stack, const struct profile_frame *function);
/* Is a Python function in it, inside of which is nothing but the interpreter? */
bool stack_is_in_interpreter(const struct profile_stack *stack);
/* The same, and no system call? */
bool stack_runs_python(const struct profile_stack *stack);
/* Is the innermost Python function interrupted by CPython's garbage collector? What a finalizer
 * runs meanwhile is Python again. */
bool stack_collects_garbage(const struct profile_stack *stack);

/* The outermost frame of a framework's compiler, by the Python that traces, lowers and compiles:
 * what runs when code that is compiled already is called does not come here. The outermost, for
 * functions that are traced can be compiled themselves. */
#define NO_COMPILER SIZE_MAX
size_t stack_compiler(const struct profile_stack *stack);

#endif
