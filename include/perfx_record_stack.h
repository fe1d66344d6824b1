/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of call stacks, samples and waits; included by perfx_record.h. */
#ifndef PERFX_RECORD_STACK_H
#define PERFX_RECORD_STACK_H

/*
 * A call stack, once for each process, before the first record that names it. The fixed part is
 * followed by frames_count × __u64, innermost first. A native frame is a return address (with
 * PERFX_STACK_PC, the first frame is the executed instruction), a Python frame a code object and
 * the instruction in it. Python frames come just before the native frame of the interpreter's
 * function that runs them.
 */
#define PERFX_FRAME_PYTHON (1ull << 63) /* otherwise native */
/* A Python frame holds the address of the code object, which is a multiple of 16, and the
 * instruction, in code units of 2 bytes. */
#define PERFX_FRAME_CODE(frame)	       (((frame) & ~PERFX_FRAME_PYTHON) >> 20 << 4)
#define PERFX_FRAME_INSTRUCTION(frame) ((__u32)((frame)&0xfffff))
/* If the address had another code object before, the frame is a number below this. */
#define PERFX_FRAME_NUMBERS (1ull << 32)
/* Bits 48 to 62 of a native frame number the libraries at its address in the order of mapping, from
 * 0; UNKNOWN: the library at that time is unknown. */
#define PERFX_FRAME_ADDRESS_BITS	      48
#define PERFX_FRAME_NUMBER_UNKNOWN	      0x7fffull
#define PERFX_FRAME_NUMBERED(address, number) ((address) | (number) << PERFX_FRAME_ADDRESS_BITS)
#define PERFX_FRAME_ADDRESS(frame) \
	((frame)&PERFX_FRAME_PYTHON ? (frame) : (frame) & ((1ull << PERFX_FRAME_ADDRESS_BITS) - 1))

#define PERFX_STACK_FRAMES_MAX 256
#define PERFX_STACK_CUT	       0x1 /* deeper than PERFX_STACK_FRAMES_MAX */
#define PERFX_STACK_COMPLETE   0x2 /* reached the thread's start */
#define PERFX_STACK_GUESSED    0x4 /* a frame was found by scanning for a return address */
#define PERFX_STACK_PC	       0x8 /* frames[0] is being executed: no return address */
/* Why the stack ends: bits 8 to 15 of the flags. */
#define PERFX_STACK_END(flags)	  (((flags) >> 8) & 0xff)
#define PERFX_STACK_ENDED(reason) ((__u32)(reason) << 8)

enum perfx_stack_end {
	PERFX_STACK_END_UNKNOWN = 0,	   /* not recorded (older captures) */
	PERFX_STACK_END_START = 1,	   /* the thread's start */
	PERFX_STACK_END_DEPTH = 2,	   /* PERFX_STACK_FRAMES_MAX */
	PERFX_STACK_END_NO_MAPPING = 3,	   /* code without a file: compiled at run time */
	PERFX_STACK_END_NO_TABLE = 4,	   /* the unwind table of its page is not loaded yet */
	PERFX_STACK_END_NO_RULE = 5,	   /* .eh_frame does not cover it */
	PERFX_STACK_END_BAD_RULE = 6,	   /* a rule that the tables cannot express */
	PERFX_STACK_END_UNREADABLE = 7,	   /* the stack could not be read */
	PERFX_STACK_END_NOT_RISING = 8,	   /* a caller's frame below its callee's */
	PERFX_STACK_END_FRAME_POINTER = 9, /* --stacks fp: the chain of frame pointers ended */
	PERFX_STACK_END_LEFT_OUT = 11,	   /* not unwound, to limit the cost */
	PERFX_STACK_END_BAD_ADDRESS = 10,  /* the return address is not in code */
};
#define PERFX_STACK_ENDS 12 /* entries of a table indexed by end */

struct perfx_stack {
	struct perfx_record hdr;
	__u32 stack;
	__u32 process;
	__u32 frames_count;
	__u32 flags; /* PERFX_STACK_ */
};
#define PERFX_FIELDS_stack IS_ID(process, PROCESS)

/* Causes of waits. */
enum perfx_wait_reason {
	PERFX_WAIT_NONE = 0,
	PERFX_WAIT_READ = 1,
	PERFX_WAIT_WRITE = 2,
	PERFX_WAIT_POLL = 3,
	PERFX_WAIT_EPOLL = 4,
	PERFX_WAIT_FUTEX = 5, /* a lock, a condition, a semaphore */
	PERFX_WAIT_GIL = 6,   /* of CPython */
	PERFX_WAIT_SLEEP = 7,
	PERFX_WAIT_WAIT = 8, /* a child */
	PERFX_WAIT_DISK = 9,
	PERFX_WAIT_PAGE_FAULT = 10,
	PERFX_WAIT_RUNNABLE = 11, /* no CPU was free */
	PERFX_WAIT_SYSCALL = 12,  /* another system call: its number is in `syscall` */
	PERFX_WAIT_STOPPED = 13,  /* by a signal, a debugger or the freezer of its cgroup */
};
#define PERFX_WAIT_REASONS 14 /* entries of a table indexed by reason */

enum perfx_sample_state {
	PERFX_SAMPLE_INVALID = 0,
	PERFX_SAMPLE_ON_CPU = 1,
	PERFX_SAMPLE_WAITING = 2,
	PERFX_SAMPLE_RUNNABLE = 3,
};

/* A sample: the activity of a thread at one moment. */
struct perfx_sample {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 interval_ns; /* the time that it stands for */
	__u32 process;
	__u32 tid;
	__u32 context;	  /* calling context of the innermost traced call; 0: none */
	__u32 stack;	  /* STACK record; 0: unknown */
	__u8 state;	  /* enum perfx_sample_state */
	__u8 reason;	  /* enum perfx_wait_reason */
	__u16 syscall;	  /* SYSCALL: its number */
	__u32 holder_tid; /* GIL: the thread that holds it; 0: unknown */
	__u64 object;	  /* as in struct perfx_blocked */
};
#define PERFX_FIELDS_sample                                          \
	IS_TIME(time_ns)                                             \
	IS_ID(process, PROCESS)                                      \
	IS_ID(context, CONTEXT)                                      \
	IS_WITHIN(state, PERFX_SAMPLE_ON_CPU, PERFX_SAMPLE_RUNNABLE) \
	IS_WITHIN(reason, PERFX_WAIT_NONE, PERFX_WAIT_REASONS - 1)

enum perfx_language {
	PERFX_LANGUAGE_NATIVE = 0,
	PERFX_LANGUAGE_PYTHON = 1,
};

/* The code object was gone before its names were read. */
#define PERFX_FRAME_GONE 0x1
/* The frame's file belongs to an installed package. */
#define PERFX_FRAME_PACKAGE 0x2
/* A Python generator, which its caller resumes. */
#define PERFX_FRAME_GENERATOR 0x4
/* A native instruction of a loop that only waits for memory to change (user/site/spin.h). */
#define PERFX_FRAME_SPINS 0x8

/* The symbol of a frame in a process's stacks. Inlined functions have their own records, innermost
 * first: `depth` 0, 1, … strings: function (demangled, Python's qualified; "": unknown), module
 * (path as the process sees it; "": none), source file ("": unknown) */
struct perfx_frame {
	struct perfx_record hdr;
	__u64 address; /* as in the STACK or CONTEXT record */
	__u64 offset;  /* of the call in the module's file; 0 without module */
	__u32 process;
	__u32 line; /* 0: unknown */
	__u16 depth;
	__u16 language;	      /* enum perfx_language */
	__u16 flags;	      /* PERFX_FRAME_ */
	__u16 operator_bytes; /* as in struct perfx_function */
};
#define PERFX_FIELDS_frame      \
	IS_ID(process, PROCESS) \
	IS_WITHIN(language, PERFX_LANGUAGE_NATIVE, PERFX_LANGUAGE_PYTHON)

/* The Python interpreter of a process. strings: version ("3.11.2"), why its frames are not recorded
 * ("": they are) */
#define PERFX_PYTHON_FRAMES 0x1 /* they are recorded */

struct perfx_python {
	struct perfx_record hdr;
	__u32 process;
	__u32 flags; /* PERFX_PYTHON_ */
};
#define PERFX_FIELDS_python IS_ID(process, PROCESS)

enum perfx_stacks {
	PERFX_STACKS_OFF = 0,
	PERFX_STACKS_FRAME_POINTERS = 1,
	PERFX_STACKS_UNWIND = 2, /* by .eh_frame */
};

/* How stacks and samples are recorded from now on, in all processes; the last one holds. strings:
 * why there are no samples ("") */
struct perfx_sampling {
	struct perfx_record hdr;
	__u64 on_cpu_interval_ns;  /* of threads that run; 0: off */
	__u64 off_cpu_interval_ns; /* of threads that wait; 0: off */
	__u32 stacks;		   /* enum perfx_stacks */
	__u32 pad;
};
#define PERFX_FIELDS_sampling IS_WITHIN(stacks, PERFX_STACKS_OFF, PERFX_STACKS_UNWIND)

/* The object of a wait. strings: name ("pipe:[1234]", "/data/train.bin", "tcp 127.0.0.1:80",
 * "lock at 0x7f… in libfoo.so", the name of the process that had the CPU; for the recording tracer
 * PERFX_TRACER_NAME, which is longer than any process's name) */
#define PERFX_TRACER_NAME "perfx-trace itself"

enum perfx_object_kind {
	PERFX_OBJECT_OTHER = 0,	     /* also in older captures */
	PERFX_OBJECT_SERVER = 1,     /* a socket that listens or was accepted; an epoll of some */
	PERFX_OBJECT_OWN_EVENTS = 2, /* an epoll that only timers and its own process signal */
	PERFX_OBJECT_KINDS
};

struct perfx_wait_object {
	struct perfx_record hdr;
	__u32 process;
	__u8 reason; /* enum perfx_wait_reason */
	__u8 kind;   /* enum perfx_object_kind */
	__u8 pad[2];
	__u64 object;
};
#define PERFX_FIELDS_wait_object                                   \
	IS_ID(process, PROCESS)                                    \
	IS_WITHIN(reason, PERFX_WAIT_READ, PERFX_WAIT_REASONS - 1) \
	IS_WITHIN(kind, PERFX_OBJECT_OTHER, PERFX_OBJECT_KINDS - 1)

/*
 * --timeline: a thread ran on a CPU from on_ns to left_ns, waited for an event until woken_ns, and
 * for a CPU until time_ns. Every thread has one after the other, so a lost record leaves a gap.
 */
#define PERFX_SLICE_INTERRUPT  0x1 /* no thread woke it: a timer, a device, the network did */
#define PERFX_SLICE_EXITS      0x2 /* the thread ends at left_ns */
#define PERFX_SLICE_UNFINISHED 0x4 /* the recording ends at time_ns, in one of the three */

struct perfx_slice {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 on_ns; /* left_ns: it is unknown how long it ran */
	__u64 left_ns;
	__u64 woken_ns; /* left_ns: it did not wait for an event: `reason` is RUNNABLE */
	__u64 object;	/* as in struct perfx_blocked; RUNNABLE: 0 */
	__u32 process, tid;
	/* The thread that woke it, by the system call that it was in. */
	__u32 waker_process; /* 0: not traced */
	__u32 waker_tid;     /* 0: unknown */
	__u16 cpu;	     /* on which it ran */
	__u16 syscall;	     /* SYSCALL: its number */
	__u8 reason;	     /* enum perfx_wait_reason */
	__u8 flags;	     /* PERFX_SLICE_ */
	__u8 pad[2];
	char waker_comm[PERFX_COMM_BYTES];
};
#define PERFX_FIELDS_slice                                                                 \
	IS_TIME(time_ns)                                                                   \
	IS_TIME(on_ns)                                                                     \
	IS_TIME(left_ns)                                                                   \
	IS_TIME(woken_ns)                                                                  \
	IS_ID(process, PROCESS)                                                            \
	IS_ID(waker_process, PROCESS)                                                      \
	IS_TRUE(record->on_ns <= record->left_ns && record->left_ns <= record->woken_ns && \
		record->woken_ns <= record->time_ns)                                       \
	IS_WITHIN(reason, PERFX_WAIT_READ, PERFX_WAIT_REASONS - 1)

/*
 * A dump: what a thread did at one moment, from the iterator over tasks. Threads on a CPU have no
 * stack here: their samples of that moment show where they were. strings: name of the thread
 */
#define PERFX_THREAD_STATE_ON_CPU 0x1 /* it ran, or would have without the tracer's thread */
/* since_ns is the beginning of its wait, but for CPU time of its last run that interrupts or a
 * hypervisor had. Otherwise it last got a CPU at since_ns, and ran for an unknown time. */
#define PERFX_THREAD_STATE_EXACT      0x2
#define PERFX_THREAD_STATE_FROZEN     0x4  /* by the freezer of its cgroup */
#define PERFX_THREAD_STATE_KERNEL     0x8  /* a thread of the process that never runs its code */
#define PERFX_THREAD_STATE_THROTTLED  0x10 /* its cgroup has used up its CPU time (cpu.max) */
#define PERFX_THREAD_STATE_UNFINISHED 0x20 /* an unwind table was missing: its stack is cut */

#define PERFX_NO_SYSCALL      0xffff
#define PERFX_STATE_ARGUMENTS 3

struct perfx_thread_state {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 since_ns; /* 0: unknown */
	__u32 process;
	__u32 tid;
	__u32 stack;	    /* STACK record; 0: unknown */
	__u32 holder_tid;   /* as in struct perfx_sample */
	__u8 state;	    /* as in /proc/PID/stat: R S D T t Z X I */
	__u8 reason;	    /* enum perfx_wait_reason */
	__u16 syscall;	    /* in which it is; NO_SYSCALL: none */
	__s32 fd;	    /* the descriptor that it waits for; -1: none */
	__u64 object;	    /* as in struct perfx_blocked; STOPPED: the signal that did so last */
	__u64 inode;	    /* of `object`, if it is a file; 0: unknown */
	__u32 device, mode; /* its file system as the kernel's dev_t; its type and permissions */
	__u64 arguments[PERFX_STATE_ARGUMENTS]; /* of the system call */
	__u32 flags;				/* PERFX_THREAD_STATE_ */
	__u32 tracer_pid; /* of the process that traces it (ptrace); 0: none */
};
#define PERFX_FIELDS_thread_state \
	IS_TIME(time_ns)          \
	IS_TIME(since_ns)         \
	IS_ID(process, PROCESS)   \
	IS_WITHIN(reason, PERFX_WAIT_NONE, PERFX_WAIT_REASONS - 1)

/* The target of a thread's wait in a dump. The tracer finds it from outside, soon after the
 * THREAD_STATE record. strings: in words ("pipe:[1234] from python3 (pid 4711)"; "": unknown) */
enum perfx_target_kind {
	PERFX_TARGET_UNKNOWN = 0,
	PERFX_TARGET_FILE = 1,
	PERFX_TARGET_PIPE = 2,
	PERFX_TARGET_SOCKET = 3,
	PERFX_TARGET_EVENTS = 4, /* an epoll, a poll of several descriptors, an eventfd */
	PERFX_TARGET_CHILD = 5,
	PERFX_TARGET_TIMER = 6,
	PERFX_TARGET_MUTEX = 7,	 /* pthread_mutex_t: has an owner */
	PERFX_TARGET_RWLOCK = 8, /* pthread_rwlock_t: held by a writer, or by readers */
	PERFX_TARGET_GIL = 9,
	PERFX_TARGET_CONDITION = 10, /* nobody owns it */
	PERFX_TARGET_LOCK = 11,	     /* another lock or a semaphore, without an owner */
	PERFX_TARGET_THREAD = 12,    /* the end of a thread (pthread_join) */
	PERFX_TARGET_FILE_LOCK = 13,
	PERFX_TARGET_TERMINAL = 14,
	PERFX_TARGET_GPU = 15,
	PERFX_TARGET_TRACER = 16, /* ptrace: `pid` has stopped it */
};
#define PERFX_TARGET_KINDS 17 /* entries of a table indexed by kind */

struct perfx_wait_target {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 deadline_ns; /* when the wait ends by itself; 0: unknown, or never */
	__u32 process;
	__u32 tid;
	/* The process that must act for the wait to end, as the tracer sees pids, and its thread;
	 * 0: unknown, or nobody in particular */
	__u32 pid;
	__u32 owner_tid;
	__u8 kind;  /* enum perfx_target_kind */
	__u8 flags; /* PERFX_TARGET_ORPHANED */
	__u8 pad[6];
};
/* A mutex whose owner is no thread of the process: nobody will unlock it. */
#define PERFX_TARGET_ORPHANED 0x1
#define PERFX_FIELDS_wait_target \
	IS_TIME(time_ns)         \
	IS_TIME(deadline_ns)     \
	IS_ID(process, PROCESS)  \
	IS_WITHIN(kind, PERFX_TARGET_UNKNOWN, PERFX_TARGET_KINDS - 1)

/* An asyncio task of CPython 3.14 or later in a dump, which has not ended; one record for each task
 * that awaits it. strings: name; its coroutines, innermost first, "function\tfile\tline\n" each */
struct perfx_async_task {
	struct perfx_record hdr;
	__u64 time_ns;	  /* that of all tasks of one dump */
	__u64 task;	  /* tells it from others */
	__u64 awaited_by; /* the task that waits for its end; 0: none */
	__u32 process;
	__u32 tid;   /* thread of its event loop; 0: it has ended */
	__u32 flags; /* PERFX_ASYNC_TASK_RUNS */
	__u32 pad;
};
#define PERFX_ASYNC_TASK_RUNS 0x1 /* on its thread: its coroutines are in that thread's stack */
#define PERFX_FIELDS_async_task \
	IS_TIME(time_ns)        \
	IS_ID(process, PROCESS)

/* Time of a thread off the CPU, by reason: exact. Unfinished waits contribute their time so far,
 * and are counted at their end or at that of the recording. */
struct perfx_blocked {
	struct perfx_record hdr;
	__u32 process;
	__u32 tid;
	__u8 reason; /* enum perfx_wait_reason */
	__u8 pad;
	__u16 syscall; /* SYSCALL: its number */
	/* GIL: the thread that held it; FUTEX: the thread that mostly woke it, by releasing the
	 * lock. 0: unknown */
	__u32 holder_tid;
	/* The object of the wait: a file, or the address of a lock. RUNNABLE: the pid that had the
	 * CPU during this part of the wait. WAIT_OBJECT names it. 0: none, or unknown */
	__u64 object;
	__u64 blocked_ns;
	__u64 count;  /* RUNNABLE: of the waits in which this pid had the CPU longest */
	__u64 max_ns; /* the longest wait, other pids' parts included */
};
#define PERFX_FIELDS_blocked    \
	IS_ID(process, PROCESS) \
	IS_WITHIN(reason, PERFX_WAIT_READ, PERFX_WAIT_REASONS - 1)

#endif
