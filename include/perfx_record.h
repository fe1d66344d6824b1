/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record ABI: what BPF programs put into the rings, what a capture file holds, and the only
 * thing that decode reads. Shared by BPF and user space: fixed-size types, explicit padding, no
 * pointers.
 *
 * A record starts with struct perfx_record; `size` counts the whole record, header included, and is
 * a multiple of 8, so that a reader can skip what it does not know. Text follows the fixed part as
 * NUL-terminated strings, in the order that the struct's comment gives. The fixed part of a kind
 * may only grow at its end: a reader takes the bytes that it knows and leaves the rest.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC unless a name says otherwise (bpf_ktime_get_ns).
 */
#ifndef PERFX_RECORD_H
#define PERFX_RECORD_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define PERFX_RECORD_VERSION 1
#define PERFX_RECORD_MAX     65536 /* bytes; a longer one is damage */

/*
 * Every kind of record, once. The enum, the assertions of sizes, decode, struct event and what
 * aggregate, keyframes and time slices do with a kind all come from this table; docs/capture.md
 * shows it. To add a kind: a row, a struct perfx_<name>, handle_<name>() in user/aggregate.
 *
 *	X(KIND, name, number, bytes, least_bytes, strings_count, ROLE)
 *
 * `bytes` is the size of struct perfx_<name>. A record may be as short as `least_bytes`: fields
 * beyond that were added later, or are only written where they are known, and read as 0 when
 * missing. Numbers are never reused or changed.
 */
/* clang-format off */
#define PERFX_RECORDS(X)                                                         \
	/* rings of calls */                                                     \
	X(SPAN,              span,               1,  72,  56, 0, CALL)           \
	X(USER_VALUE,        user_value,         5,  40,  40, 0, EVENT)          \
	/* memory ring */                                                        \
	X(ALLOCATION,        allocation,         2,  56,  56, 0, MEMORY)         \
	X(FREE,              free,               3,  48,  48, 0, MEMORY)         \
	X(STACK,             stack,              4,  24,  24, 0, FACT)           \
	/* control ring: made by the kernel */                                   \
	X(FORK,              fork,              16,  32,  32, 0, EVENT)          \
	X(EXEC,              exec,              17,  64,  32, 0, EVENT)          \
	X(EXIT,              exit,              18,  72,  56, 0, EVENT)          \
	X(RECORDING_WINDOW,  recording_window,  19,  32,  32, 0, EVENT)          \
	/* made by the tracer */                                                 \
	X(HOST,              host,              32,  48,  48, 5, CAPTURE)        \
	X(PROCESS,           process,           33,  40,  40, 2, EVENT)          \
	X(FUNCTION,          function,          34,  24,  24, 3, FACT)           \
	X(PROBE,             probe_record,      35,  40,  40, 0, FACT)           \
	X(CONTEXT,           context,           36,  24,  24, 0, FACT)           \
	X(USAGE,             usage,             37, 160, 144, 0, SAMPLE)         \
	X(THREAD,            thread,            38,  48,  48, 1, EVENT)          \
	X(NOT_ATTACHED,      not_attached,      39,  16,  16, 2, FACT)           \
	X(CALIBRATION,       calibration,       40,  24,  24, 0, FACT)           \
	X(ALLOCATOR,         allocator,         41,  16,  16, 2, FACT)           \
	X(MEMORY_MODE,       memory_mode,       42,  48,  48, 0, MEMORY)         \
	X(FRAME,             frame,             43,  40,  40, 3, FACT)           \
	X(PEAK,              peak,              44,  32,  32, 0, FACT)           \
	X(OBJECT_COST,       object_cost,       45,  40,  40, 0, FACT)           \
	X(PERF_COUNTER,      perf_counter,      46,  16,  16, 3, FACT)           \
	X(USER_VALUE_NAME,   user_value_name,   47,  16,  16, 1, FACT)           \
	X(LATE,              late,              56,  40,  40, 1, EVENT)          \
	/* read from kernel maps: at the end, and what is new at each SEGMENT */ \
	X(OVERFLOW_CALLS,    overflow_calls,    48, 120,  56, 0, SUM)            \
	X(HITS,              hits,              49,  32,  24, 0, SUM)            \
	X(LOSS,              loss,              50,  24,  24, 0, SUM)            \
	X(OVERFLOW_MEMORY,   overflow_memory,   52,  40,  40, 0, SUM)            \
	X(CALL_COUNTERS,     call_counters,     53,  80,  80, 0, SUM)            \
	X(PROCESS_COUNTERS,  process_counters,  54,  64,  64, 0, SUM)            \
	X(OVERFLOW_VALUES,   overflow_values,   55,  64,  64, 0, SUM)            \
	X(END,               end,               51,  80,  56, 0, CAPTURE)        \
	X(SEGMENT,           segment,           60,  16,  16, 0, CAPTURE)        \
	X(TIME_SLICE,        time_slice,        61,  32,  32, 1, CAPTURE)
/* clang-format on */

enum perfx_kind {
	PERFX_KIND_INVALID = 0,
#define PERFX_KIND_NUMBER(kind, name, number, ...) PERFX_KIND_##kind = (number),
	PERFX_RECORDS(PERFX_KIND_NUMBER)
#undef PERFX_KIND_NUMBER
};

/* What a kind means for a time slice of a capture. Records of all roles but FACT, SUM and CAPTURE
 * have their time right after the header. */
enum perfx_role {
	PERFX_ROLE_NONE = 0,
	PERFX_ROLE_CALL,    /* in the slice in which the call ends */
	PERFX_ROLE_EVENT,   /* in the slice in which it happens */
	PERFX_ROLE_MEMORY,  /* likewise; changes which blocks are live */
	PERFX_ROLE_SAMPLE,  /* counters so far: interpolated at both ends of a slice */
	PERFX_ROLE_FACT,    /* holds for the whole capture */
	PERFX_ROLE_SUM,	    /* of the time since the SEGMENT before; has no time of its own */
	PERFX_ROLE_CAPTURE, /* of the capture itself: where it begins, how far it goes */
};

struct perfx_record {
	__u32 size;  /* bytes, header included, multiple of 8 */
	__u16 kind;  /* enum perfx_kind */
	__u16 fixed; /* bytes of the fixed part, header included: strings start here */
};

/*
 * One ended call. self_ns = duration less the time in traced calls that it made on the same
 * thread, computed in the kernel. `context` is the node of the calling-context tree (CONTEXT
 * records); `process` the index of the process.
 */
#define PERFX_SPAN_UNWOUND \
	0x1 /* passed no exit (exception, longjmp): duration and self unknown, 0 */
#define PERFX_SPAN_UNTIMED 0x2 /* counted at its entry: no way to see its end; times are 0 */
/* It moves `bytes`, as a collective does, and computes nothing: `flops` are bytes over the bus
 * (enum perfx_bus), 0 where the number of ranks is not known. */
#define PERFX_SPAN_MOVES 0x4
/* A range that any thread may end: on no thread's stack. depth 0; tid is who started it. */
#define PERFX_SPAN_ASYNC 0x8
/* Its work is known, and goes on after it: it was handed to other threads or to a device, so that
 * duration_ns is not the time it takes. */
#define PERFX_SPAN_SUBMITTED 0x10

/* What became of a call's own cost: the floating-point operations that its arguments say it does.
 * A cost counts once: an operator's contains those of the calls inside it. */
enum perfx_cost_state {
	PERFX_COST_NONE = 0,	  /* not a function whose work is known */
	PERFX_COST_COUNTED = 1,	  /* flops and bytes are this call's */
	PERFX_COST_INSIDE = 2,	  /* in a call of the same thread that has a known cost */
	PERFX_COST_ELSEWHERE = 3, /* on a pool thread, for an operator that has a known cost */
	PERFX_COST_UNREAD = 4,	  /* its arguments could not be read, or make no sense */
	PERFX_COST_OPAQUE = 5,	  /* compiled code: what it computes is written nowhere */
	/* As the OBJECT_COST record whose id is in `flops` says; it may come later. */
	PERFX_COST_BY_OBJECT = 6,
};
#define PERFX_COST_STATES 7 /* entries of a table indexed by state */

enum perfx_dtype {
	PERFX_DTYPE_UNKNOWN = 0,
	PERFX_DTYPE_F64 = 1,
	PERFX_DTYPE_F32 = 2,
	PERFX_DTYPE_F16 = 3,
	PERFX_DTYPE_BF16 = 4,
	PERFX_DTYPE_F8 = 5,
	PERFX_DTYPE_C128 = 6,
	PERFX_DTYPE_C64 = 7,
	PERFX_DTYPE_INTEGER = 8,
	PERFX_DTYPE_TF32 = 9,
};
#define PERFX_DTYPES 10 /* entries of a table indexed by dtype */

struct perfx_span {
	struct perfx_record hdr;
	__u64 start_ns;
	__u64 duration_ns;
	__u64 self_ns;
	__u32 process;
	__u32 context;
	__u32 function;
	__u32 tid;
	__u16 depth;	 /* traced frames around it on its thread; 0: outermost */
	__u16 flags;	 /* PERFX_SPAN_ */
	__u8 cost_state; /* enum perfx_cost_state */
	__u8 dtype;	 /* enum perfx_dtype, of what is multiplied */
	__u16 pad;
	/* Only in records of calls whose function has a known cost (hdr.fixed says); 0 unless
	 * COUNTED.
	 */
	__u64 flops; /* one multiply-add is 2 */
	__u64 bytes; /* operands and result, each once, by their shapes */
};
#define PERFX_SPAN_PLAIN_BYTES 56 /* of a record without flops and bytes */

/*
 * A value of the program's own (perfx_counter, perfx_counter_add): what it is from now on, or what
 * is added to it.
 */
#define PERFX_USER_VALUE_ADDED	0x1 /* otherwise set */
#define PERFX_USER_VALUE_BEFORE 0x2 /* what it was when the capture begins: none of its samples */

struct perfx_user_value {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 number_bits; /* a double: may be infinite, or no number */
	__u32 process;
	__u32 tid;
	__u32 value; /* USER_VALUE_NAME record */
	__u32 flags; /* PERFX_VALUE_ */
};

/*
 * Memory. Things that are never summed: what the program asked its heap for, what a framework
 * handed out as tensors (often out of that heap), what was taken from a GPU, and what the program
 * says that allocators of its own handed out (out of any of these). Of the last the upper 11 bits
 * of an address are changed by the allocator's number, for what one hands out another may divide.
 *
 * Records of the memory ring are in the order in which things happened: a block is freed at the
 * entry of `free` and allocated at the return of `malloc`, so that an address used anew by another
 * thread cannot be confused. They name their process, thread and calling context themselves.
 */
enum perfx_domain {
	PERFX_DOMAIN_INVALID = 0,
	PERFX_DOMAIN_HOST = 1,
	PERFX_DOMAIN_TENSOR = 2,
	PERFX_DOMAIN_GPU = 3,
	PERFX_DOMAIN_USER = 4, /* perfx_memory_alloc */
};
#define PERFX_DOMAINS	  5 /* entries of a table indexed by domain */
#define PERFX_DOMAINS_MAX 8 /* of one whose index is masked */

/* One of a sample: stands for more (see perfx_memory_mode). */
#define PERFX_ALLOCATION_SAMPLED 0x1
/* Whole pages from the kernel: parts of it may be freed, and a fixed mapping replaces what lay
 * there. */
#define PERFX_ALLOCATION_MAPPED 0x2
/* Ends this thread's reallocation: the block that FREE_REALLOC_BEGIN named is freed by it. */
#define PERFX_ALLOCATION_RESIZED 0x4
/* The block may be known already, at another size (tracemalloc's Track): not a lost free. */
#define PERFX_ALLOCATION_REPLACES 0x8
/* Lives since before the capture begins: held from its start on, but none of its allocations. */
#define PERFX_ALLOCATION_BEFORE 0x10

struct perfx_allocation {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 address;
	__u64 size_bytes;
	__u32 process;
	__u32 tid;
	__u32 context;	 /* calling context: its function is the innermost traced one; 0: none */
	__u32 stack;	 /* STACK record; 0: unknown */
	__u16 allocator; /* ALLOCATOR record */
	__u8 domain;	 /* enum perfx_domain */
	__u8 flags;	 /* PERFX_ALLOCATION_ */
	__u32 pad;
};

/* `realloc` has begun: the block is kept apart, for its address may be handed out again before the
 * call returns. Then either an allocation with RESIZED ends it or one of the next two. */
#define PERFX_FREE_REALLOC_BEGIN 0x1
#define PERFX_FREE_RESTORED	 0x2 /* it failed: the block is where it was */
#define PERFX_FREE_SETTLED	 0x4 /* of size 0: the block is gone, nothing came instead */
#define PERFX_FREE_MAPPED	 0x8 /* munmap: [address, address + size_bytes) */

struct perfx_free {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 address;
	__u64 size_bytes; /* MAPPED: how much; otherwise 0, the whole block */
	__u32 process;
	__u32 tid;
	__u16 allocator;
	__u8 domain;
	__u8 flags; /* PERFX_FREE_ */
	__u32 pad;
};

/* A call stack, once for each process that shows it, before the first allocation that names it.
 * After the fixed part: frames_count × __u64, addresses in the process, innermost first: the
 * instruction after each call. */
#define PERFX_STACK_FRAMES_MAX 64
#define PERFX_STACK_CUT	       0x1 /* deeper than PERFX_STACK_FRAMES_MAX */

struct perfx_stack {
	struct perfx_record hdr;
	__u32 stack;
	__u32 process;
	__u32 frames_count;
	__u32 flags; /* PERFX_STACK_ */
};

/* A new traced process: the child has an index of its own from its first instruction. */
struct perfx_fork {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process, parent_process;
	__u32 pid, ppid; /* tgid */
};

/* Another thread than the main one did it: to links by pid the process is a new one. */
#define PERFX_EXEC_BY_THREAD 0x1

/* exec: the old process index ends, a new one begins for the same pid. */
struct perfx_exec {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process, old_process;
	__u32 pid;
	__u32 flags;			  /* PERFX_EXEC_ */
	__u64 net_rx_bytes, net_tx_bytes; /* of the old one, over internet sockets */
	/* The program's file, as /proc/PID/maps names it. */
	__u64 inode;
	__u32 dev_major, dev_minor;
};

struct perfx_exit {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process;
	__u32 pid;
	__s32 status; /* as wait(2) gives it: signal in the low 7 bits, exit code << 8 */
	__u32 pad;
	/* CPU time of all its threads: run time as the scheduler measured it; user and system as
	 * the clock tick saw them, good for their proportion only (kernel: cputime_adjust). */
	__u64 runtime_ns, user_tick_ns, system_tick_ns;
	__u64 net_rx_bytes, net_tx_bytes; /* over internet sockets */
};

/* --wait: from here on is recorded, or no longer, as a traced program has said. Where there is any,
 * nothing is recorded but between the two. */
#define PERFX_RECORDING_WINDOW_OPENS 0x1 /* otherwise it closes */
/* So many are kept; of more the last goes on. */
#define PERFX_RECORDING_WINDOWS_MAX 4096

struct perfx_recording_window {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process; /* who said it, or ended */
	__u32 pid;
	__u32 flags; /* PERFX_RECORDING_WINDOW_ */
	__u32 pad;
};

/* strings: host name, kernel release, boot id, recording command line (one string, space-joined,
 * shell-quoted), version of the recording tool */
struct perfx_host {
	struct perfx_record hdr;
	__u64 start_ns;	     /* when everything was attached: the capture's zero */
	__u64 start_unix_ns; /* the same instant by CLOCK_REALTIME */
	__u64 start_boot_ns; /* and by CLOCK_BOOTTIME */
	__u32 cpus_count;
	__u32 memory_mib;
	__u32 ring_bytes;
	__u32 flags;
};
#define PERFX_HOST_COMPENSATED 0x1 /* --compensate: nested probe cost taken off in the kernel */

/* strings: comm, cmdline (arguments joined by \x1f, secrets already hidden) */
struct perfx_process {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 start_boot_ns; /* when the process started, CLOCK_BOOTTIME */
	__u32 process;
	__u32 pid, ppid;
	__u32 exec_count; /* execs seen while tracing */
};

/* source of a function's name; the JSON report spells them lower-case */
enum perfx_source {
	PERFX_SOURCE_INVALID = 0,
	PERFX_SOURCE_PERFX = 1, /* annotated */
	PERFX_SOURCE_SYMBOL = 2,
	PERFX_SOURCE_TORCH = 3,
	PERFX_SOURCE_JAX = 4,
	PERFX_SOURCE_XLA = 5,
	PERFX_SOURCE_TF = 6,
	PERFX_SOURCE_NVTX = 7,
	PERFX_SOURCE_ROCTX = 8,
	PERFX_SOURCE_ITT = 9,
	PERFX_SOURCE_USDT = 10,
	PERFX_SOURCE_BLAS = 11,
	PERFX_SOURCE_CUDA = 12,
	PERFX_SOURCE_NCCL = 13,
};

/* strings: name (demangled), module (path as the target sees it), build-id */
struct perfx_function {
	struct perfx_record hdr;
	__u64 offset; /* of the function in the module's file, bytes */
	__u32 function;
	__u16 source; /* enum perfx_source */
	__u16 flags;  /* PERFX_FUNCTION_ */
};
#define PERFX_FUNCTION_RANGE 0x1 /* marked in the program, not a function: no module, no offset */
#define PERFX_FUNCTION_STEP  0x2 /* its ends are those of steps: --step-range */

enum perfx_link {
	PERFX_LINK_INVALID = 0,
	PERFX_LINK_SESSION = 1,
	PERFX_LINK_MULTI = 2,
	PERFX_LINK_PERF = 3,
	PERFX_LINK_TRACEPOINT = 4,
};

enum perfx_return {
	PERFX_RETURN_NONE = 0, /* counted only */
	PERFX_RETURN_EXIT = 1, /* timed at its exit sites */
	PERFX_RETURN_PROBE = 2,
};

/* values are those of enum site_kind */
enum perfx_site {
	PERFX_SITE_NONE = 0,
	PERFX_SITE_NOP5 = 1,
	PERFX_SITE_NOP = 2,
	PERFX_SITE_PUSH = 3,
	PERFX_SITE_BRANCH = 4,
	PERFX_SITE_STEPPED = 5,
};

/* One probe that is attached. */
struct perfx_probe_record {
	struct perfx_record hdr;
	__u64 offset;  /* of the probed instruction in the module's file */
	__u64 cost_ps; /* calibrated cost of a hit on this host, picoseconds; 0: not calibrated */
	__u32 probe;
	__u32 function;
	__u8 link; /* enum perfx_link */
	__u8 ret;  /* enum perfx_return of the function */
	__u8 site; /* enum perfx_site */
	__u8 is_exit;
	__u32 pad;
};

/* A node of the calling-context tree. parent 0: called from untraced code. */
struct perfx_context {
	struct perfx_record hdr;
	__u32 context;
	__u32 parent;
	__u32 function;
	__u32 process;
};

/* What a process has used so far; UINT64_MAX: not measured. Once at the start, at each interval and
 * at the end of each process. */
struct perfx_usage {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process;
	__u32 pad;
	__u64 cpu_user_ns, cpu_system_ns;
	__u64 rss_bytes, rss_anon_bytes, rss_file_bytes, rss_shmem_bytes;
	__u64 read_bytes, write_bytes;
	__u64 net_rx_bytes, net_tx_bytes;
	__u64 threads_count;
	__u64 major_faults_count;
	__u64 throttle_periods_count, throttled_count, throttled_ns; /* its cgroup's */
	/* of the whole machine since its start, all CPUs added up: by any program or interrupt;
	 * taken by the hypervisor. 0: not measured */
	__u64 host_busy_ns, host_steal_ns;
};

/* strings: comm. One thread's time, at start and end. */
struct perfx_thread {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 on_cpu_ns, runnable_ns; /* UINT64_MAX: not measured */
	__u32 process;
	__u32 tid;
	__u8 state; /* R S D Z T */
	__u8 pad[7];
};

/* strings: name, reason */
#define PERFX_NOT_ATTACHED_BY_DESIGN 0x1 /* attaching cannot do it: no failure */

struct perfx_not_attached {
	struct perfx_record hdr;
	__u32 count; /* how many functions share the reason; name is the first */
	__u32 flags; /* PERFX_NOT_ATTACHED_ */
};

/*
 * What a process called of some files from since_ns to time_ns was not seen: probes were only put
 * there once the tracer had heard of it. Or it ended at time_ns before the tracer could look.
 * strings: module (path as the target sees it) of the first file; "": it ended
 */
enum perfx_late_cause {
	PERFX_LATE_INVALID = 0,
	PERFX_LATE_FORKED = 1,	 /* the child of a process whose files others map too */
	PERFX_LATE_MAPPED = 2,	 /* a file that was not mapped before */
	PERFX_LATE_EXECUTED = 3, /* a program */
};

struct perfx_late {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 since_ns; /* the fork, the exec, the first mapping */
	__u32 process;
	__u32 functions_count; /* now attached there, those for memory too; 0: it ended */
	__u32 files_count;
	__u32 cause; /* enum perfx_late_cause */
};

/* Cost of one hit of one kind of site, measured on this host at start. */
struct perfx_calibration {
	struct perfx_record hdr;
	__u64 cost_ps;
	__u8 link, ret, site, pad[5];
};

/* strings: name ("libc", "jemalloc", "torch", …), module (path of the file that it is probed in) */
#define PERFX_ALLOCATOR_MMAP 2047 /* mmap, mremap and brk that the program calls itself */

struct perfx_allocator {
	struct perfx_record hdr;
	__u16 allocator;
	__u8 domain; /* enum perfx_domain */
	__u8 pad[5];
};

enum perfx_memory_level {
	PERFX_MEMORY_OFF = 0,	     /* nothing is recorded from here on */
	PERFX_MEMORY_EXACT = 1,	     /* every allocation, every free */
	PERFX_MEMORY_SAMPLED = 2,    /* a sample by bytes, and the frees of what was sampled */
	PERFX_MEMORY_SAMPLED_IN = 3, /* a sample by bytes, no frees: who allocates, not who holds */
};

/*
 * How a domain is recorded from now on, for all processes. Sampled: the points of a Poisson process
 * over the bytes that a thread allocates, one every sample_bytes on average; an allocation of size
 * S is in the sample with probability 1 - exp(-S / sample_bytes). Duty-cycled: only during on_ns of
 * each period_ns.
 */
struct perfx_memory_mode {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 sample_bytes;
	__u64 on_ns, period_ns; /* equal: always */
	__u8 domain;		/* enum perfx_domain */
	__u8 level;		/* enum perfx_memory_level */
	__u8 pad[6];
};

/* One frame at an address of a process's stacks. Functions inlined there come as frames of their
 * own, innermost first: `depth` 0, 1, … of one address. Strings: function (demangled; "" unknown),
 * module (path as the target sees it; "": none), source file ("" unknown). */
struct perfx_frame {
	struct perfx_record hdr;
	__u64 address; /* as in the STACK record */
	__u64 offset;  /* of the call in the module's file; 0 without module */
	__u32 process;
	__u32 line; /* 0: unknown */
	__u16 depth;
	__u16 pad[3];
};

/* What this host can do, measured by kernels of our own or given by the user; on all CPUs that the
 * tracer may use (threads of them) and on one. One record per (threads, dtype). */
enum perfx_peak_origin {
	PERFX_PEAK_MEASURED = 0,
	PERFX_PEAK_CACHED = 1,	  /* measured before on this host */
	PERFX_PEAK_GIVEN = 2,	  /* --peak-flops, --peak-bandwidth */
	PERFX_PEAK_ESTIMATED = 3, /* by what the CPU says of itself */
};

struct perfx_peak {
	struct perfx_record hdr;
	__u64 flops_per_s; /* 0: not known */
	__u64 bytes_per_s; /* of memory, read and written; 0: not known */
	__u32 threads;
	__u8 dtype;  /* enum perfx_dtype */
	__u8 origin; /* enum perfx_peak_origin */
	__u16 pad;
};

/*
 * Perf counters: what perf events count of a thread, such as cycles or instructions, in user mode
 * where they are the hardware's. At most PERFX_PERF_COUNTERS, each described by a PERF_COUNTER
 * record; a missing one says why nothing is counted. strings: name, unit, why ("": it counts)
 */
#define PERFX_PERF_COUNTERS 4 /* a power of two */

enum perfx_perf_counter_kind {
	PERFX_PERF_COUNTER_PLAIN = 0,
	PERFX_PERF_COUNTER_FLOPS = 1,	/* floating-point operations, a multiply-add is 2 */
	PERFX_PERF_COUNTER_MISSING = 2, /* `counter` has no meaning */
};

struct perfx_perf_counter {
	struct perfx_record hdr;
	__u32 counter; /* place in `values` */
	__u8 kind;     /* enum perfx_perf_counter_kind */
	__u8 pad[3];
};

/* What was counted during the calls of a context on their threads, calls inside included; work that
 * they had done by other threads is not in it. */
struct perfx_call_counters {
	struct perfx_record hdr;
	__u32 context;
	__u32 pad;
	__u64 calls_count;  /* with counters read */
	__u64 missed_count; /* not, or not all the time: the thread was too new, events were too
			       many */
	__u64 values[PERFX_PERF_COUNTERS];
	/* Of those with a cost of their own: what it says, and what the counter of floating-point
	 * operations has counted. */
	__u64 flops, counted_flops;
};

/* What all threads of a process did meanwhile, from when they were found: those of a thread that
 * began while tracing lack its first moment. threads_count: so far, the rest adds up. */
struct perfx_process_counters {
	struct perfx_record hdr;
	__u32 process;
	__u32 threads_count;
	__u64 values[PERFX_PERF_COUNTERS];
	/* Events wait where the processor has too few counters: of enabled_ns they counted during
	 * running_ns, which the values have been scaled up for. */
	__u64 enabled_ns, running_ns;
};

/* What each run of an operation of a compiled program does (a thunk of XLA): read from the object
 * that describes it, once. */
struct perfx_object_cost {
	struct perfx_record hdr;
	__u64 flops, bytes; /* COUNTED: of one run */
	__u32 object_cost;
	__u32 function;
	__u8 state; /* enum perfx_cost_state: COUNTED, UNREAD, OPAQUE or NONE */
	__u8 dtype; /* enum perfx_dtype */
	__u8 pad[6];
};

/* strings: name */
struct perfx_user_value_name {
	struct perfx_record hdr;
	__u32 value;
	__u32 pad;
};

/* Records of a value that found no room: counts are exact; a sum is that of the whole numbers among
 * them. */
struct perfx_overflow_values {
	struct perfx_record hdr;
	__u32 process;
	__u32 value;
	__u64 sets_count, adds_count;
	__s64 sum;
	__u64 unsummed_count;
	__u64 last_bits, last_ns; /* of what was set; last_ns 0: nothing */
};
/* Of what was lost before the capture begins nothing is known but that it was. */
#define PERFX_BEFORE_LOST_ALLOCS 0x1
#define PERFX_BEFORE_LOST_FREES	 0x2
#define PERFX_BEFORE_BLIND	 0x4 /* blocks were freed unseen: what lives is not known */

/* Records of the memory ring that found no room: exact sums. Live bytes and peak are bounds then.
 */
struct perfx_overflow_memory {
	struct perfx_record hdr;
	__u32 process;
	__u8 domain;
	__u8 before; /* PERFX_BEFORE_: what happened before the capture begins */
	__u8 pad[2];
	__u64 allocs_count, allocated_bytes;
	__u64 frees_count;
};

/* Calls whose span record found no room in the ring: exact sums per calling context. */
struct perfx_overflow_calls {
	struct perfx_record hdr;
	__u32 context;
	__u32 pad;
	__u64 calls_count;   /* ended calls without a record, unwound and untimed ones included */
	__u64 unwound_count; /* of these */
	__u64 untimed_count; /* of these */
	__u64 total_ns, self_ns; /* over the timed ones */
	/* Their costs; of those COUNTED the sums. */
	__u64 flops, bytes;
	__u64 counted_count, unread_count, nested_count; /* nested: INSIDE or ELSEWHERE */
	__u64 opaque_count;
	/* Of those that move data: over the bus, and of how many of `bytes` that is known. */
	__u64 bus_bytes, bus_moved_bytes;
};

struct perfx_hits {
	struct perfx_record hdr;
	__u32 probe;
	__u32 pad;
	__u64 hits_count; /* by the target's threads */
	/* What one cost, picoseconds, as far as it was seen while tracing; 0: as the probe says. */
	__u64 cost_ps;
};

/* In the order of design.md; the JSON report spells them lower-case. */
enum perfx_loss_kind {
	PERFX_LOSS_RING_DROPS = 0,    /* span records without room; in the overflow sums */
	PERFX_LOSS_MAP_FULL,	      /* thread state or calling context that could not be made */
	PERFX_LOSS_UNMATCHED_ENTRIES, /* calls still running at the end */
	PERFX_LOSS_UNMATCHED_RETURNS, /* returns of calls that began before tracing */
	PERFX_LOSS_STACK_FAILURES,
	PERFX_LOSS_READ_FAULTS,
	PERFX_LOSS_UNTIMED_CALLS, /* depth, exits not known */
	PERFX_LOSS_NMISSED,	  /* the kernel did not run the program (recursion) */
	PERFX_LOSS_DETACHED_PROBES,
	PERFX_LOSS_UNDECODED,	    /* records unknown to decode */
	PERFX_LOSS_TRUNCATED_BYTES, /* damaged or cut tail of a capture */
	PERFX_LOSS_CONTROL_DROPS,   /* process events without room: data may be missing */
	PERFX_LOSS_FOREIGN_HITS,    /* hits in processes that are not traced: cost, no data */
	PERFX_LOSS_MEMORY_DROPS, /* memory records without room; in the overflow sums of memory */
	PERFX_LOSS_VALUE_DROPS,	 /* values without room; in sums of their own */
	PERFX_LOSS_KINDS
};

/* process 0: of the whole capture */
struct perfx_loss {
	struct perfx_record hdr;
	__u32 loss; /* enum perfx_loss_kind */
	__u32 process;
	__u64 count;
};

/*
 * All sums since the one before (OVERFLOW_CALLS, HITS, LOSS, CALL_COUNTERS, PROCESS_COUNTERS,
 * OVERFLOW_MEMORY) have come, of calls and allocations up to here: so that a time slice of a
 * recording has them. The calls still running at the end, and probes that were detached, are in no
 * segment: these are not sums.
 */
struct perfx_segment {
	struct perfx_record hdr;
	__u64 time_ns;
};

/* The capture is a time slice of a recording. strings: why it was taken ("SIGUSR1"; "" the user's
 * choice)
 */
#define PERFX_TIME_SLICE_FLIGHT 0x1 /* by a flight recorder: --flight */
#define PERFX_TIME_SLICE_VIEW	0x2 /* of a capture: --since, --until */
#define PERFX_TIME_SLICE_FULL	0x4 /* shorter than asked for: memory was full */

struct perfx_time_slice {
	struct perfx_record hdr;
	__u64 recording_ns;   /* when the recording began */
	__u64 left_out_count; /* calls known only as sums of a time that the slice cuts */
	__u32 flags;	      /* PERFX_TIME_SLICE_ */
	__u32 pad;
};

#define PERFX_END_TARGET_KILLED 0x1 /* by a signal, or gone before anything was attached */
#define PERFX_END_TARGET_EXITED 0x2
#define PERFX_END_INTERRUPTED	0x4 /* first Ctrl-C */

/* The last record: a capture without it was cut. */
struct perfx_end {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 flags;
	__u32 pad;
	__u64 tracer_cpu_ns; /* the tracer's own */
	__u64 tracer_rss_anon_bytes;
	/* time_ns by the other clocks, as in the HOST record: how they drifted apart. 0: unknown */
	__u64 end_unix_ns;
	__u64 end_boot_ns;
	/* How often a traced process was looked at for what it maps, and how many times the
	 * mappings of another were read, to know whether it maps a traced file. */
	__u64 looks_count, untraced_read_count;
	__u64 recording_cpu_ns; /* of tracer_cpu_ns, while it recorded; 0: unknown */
};

#ifndef __bpf__
_Static_assert(sizeof(struct perfx_record) == 8, "ABI: struct perfx_record");
#define PERFX_ASSERT_SIZE(kind, name, number, bytes, ...) \
	_Static_assert(sizeof(struct perfx_##name) == (bytes), "ABI: struct perfx_" #name);
PERFX_RECORDS(PERFX_ASSERT_SIZE)
#undef PERFX_ASSERT_SIZE
#endif

#endif
