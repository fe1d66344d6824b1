/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record ABI: BPF programs write records into the rings, a capture file contains them, and
 * decode reads nothing else. Shared by BPF and user space: fixed-size types, explicit padding, no
 * pointers.
 *
 * A record starts with struct perfx_record; `size` counts the whole record, header included, and is
 * a multiple of 8, so that a reader can skip unknown records. Text follows the fixed part as
 * NUL-terminated strings, in the order of the struct's comment. The fixed part of a kind may only
 * grow at its end: a reader uses the bytes that it knows and ignores the rest.
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
 * Every kind of record, once. The enum, the assertions of sizes, decode, struct event, and the
 * handling of a kind by aggregate, keyframes and time slices come from this table. To add a kind: a
 * row, a struct perfx_<name>, PERFX_FIELDS_<name> after it, handle_<name>() in user/aggregate.
 *
 *	X(KIND, name, number, bytes, least_bytes, strings_count, ROLE)
 *
 * `bytes` is the size of struct perfx_<name>. A record may be as short as `least_bytes`: fields
 * beyond that were added later, or are only written if known, and read as 0 if missing. Numbers are
 * never reused or changed.
 *
 * PERFX_FIELDS_<name> describes the fields of a record for user/decode:
 *
 *	IS_ID(member, SPACE)            an id of its capture: enum id_space in user/decode/decode.h
 *	IS_TIME(member)                 by CLOCK_MONOTONIC; 0: none
 *	IS_BOOT_TIME(member)            by CLOCK_BOOTTIME; 0: none
 *	IS_WITHIN(member, first, last)  a record with another value is not decoded
 *	IS_TRUE(condition)              the record is valid only if this condition on `record` holds
 *	HAS_SUMS(count)                 the record is a value of the BPF map perfx_sum_<name>
 *	                                (SUM_MAP in perfx.bpf.h), sent as its sums grow: `count`
 *	                                sums of 8 bytes each, from byte 16 on
 */
/* clang-format off */
#define PERFX_RECORDS(X)                                                         \
	/* rings of calls */                                                     \
	X(SPAN,              span,               1,  80,  56, 0, CALL)           \
	X(USER_VALUE,        user_value,         5,  40,  40, 0, EVENT)          \
	/* memory ring */                                                        \
	X(ALLOCATION,        allocation,         2,  56,  56, 0, MEMORY)         \
	X(FREE,              free,               3,  48,  48, 0, MEMORY)         \
	X(STACK,             stack,              4,  24,  24, 0, FACT)           \
	X(SAMPLE,            sample,             6,  56,  56, 0, EVENT)          \
	X(SLICE,             slice,             81,  88,  88, 0, EVENT)          \
	X(FILE_SAMPLE,       file_sample,       93,  40,  40, 0, EVENT)          \
	X(THREAD_STATE,      thread_state,      84, 104, 104, 1, EVENT)          \
	/* made by the agent in a process (--gpu 1) */                           \
	X(GPU_ACTIVITY,      gpu_activity,      64, 104, 104, 0, EVENT)          \
	X(GPU_CALL,          gpu_call,          65,  48,  48, 0, EVENT)          \
	/* control ring: made by the kernel */                                   \
	X(FORK,              fork,              16,  32,  32, 0, STATE)          \
	X(EXEC,              exec,              17,  80,  32, 0, STATE)          \
	X(EXIT,              exit,              18, 128,  56, 0, STATE)          \
	X(RECORDING_WINDOW,  recording_window,  19,  32,  32, 0, EVENT)          \
	X(SIGNAL,            signal,            20, 152, 152, 3, EVENT)          \
	/* made by the tracer */                                                 \
	X(HOST,              host,              32,  48,  48, 5, CAPTURE)        \
	X(PROCESS,           process,           33,  48,  40, 2, STATE)          \
	X(FUNCTION,          function,          34,  32,  24, 3, FACT)           \
	X(PROBE,             probe_record,      35,  40,  40, 0, FACT)           \
	X(CONTEXT,           context,           36,  40,  24, 0, FACT)           \
	X(USAGE,             usage,             37, 168, 144, 0, SAMPLE)         \
	X(THREAD,            thread,            38,  56,  48, 1, EVENT)          \
	X(NOT_ATTACHED,      not_attached,      39,  16,  16, 2, FACT)           \
	X(CALIBRATION,       calibration,       40,  24,  24, 0, FACT)           \
	X(ALLOCATOR,         allocator,         41,  16,  16, 2, FACT)           \
	X(MEMORY_MODE,       memory_mode,       42,  48,  48, 0, MEMORY)         \
	X(FRAME,             frame,             43,  40,  40, 3, FACT)           \
	X(PEAK,              peak,              44,  32,  32, 0, FACT)           \
	X(OBJECT_COST,       object_cost,       45,  40,  40, 0, FACT)           \
	X(PERF_COUNTER,      perf_counter,      46,  16,  16, 3, FACT)           \
	X(USER_VALUE_NAME,   user_value_name,   47,  16,  16, 1, FACT)           \
	X(FILE_GROUP,        file_group,        92,  16,  16, 2, FACT)           \
	X(LATE,              late,              56,  40,  40, 1, EVENT)          \
	X(WAIT_OBJECT,       wait_object,       58,  24,  24, 1, FACT)           \
	X(WAIT_TARGET,       wait_target,       85,  48,  48, 1, EVENT)          \
	X(ASYNC_TASK,        async_task,        94,  48,  48, 2, EVENT)          \
	X(PYTHON,            python,            59,  16,  16, 2, FACT)           \
	X(SAMPLING,          sampling,          62,  32,  32, 1, FACT)           \
	X(LIMITS,            limits,            76, 120,  72, 0, FACT)           \
	X(MEMORY_SUM,        memory_sum,        90, 384, 384, 0, EVENT)          \
	X(GPU_NAME,          gpu_name,          66,  16,  16, 2, FACT)           \
	X(GPU_DEVICE,        gpu_device,        69,  48,  48, 3, FACT)           \
	X(GPU_USAGE,         gpu_usage,         70,  88,  88, 0, EVENT)          \
	X(GPU_MEMORY,        gpu_memory,        71,  40,  40, 0, EVENT)          \
	X(GPU_STATE,         gpu_state,         72,  48,  48, 1, STATE)          \
	X(HOST_ENERGY,       host_energy,       74,  32,  32, 1, EVENT)          \
	X(UNPROBED_STEPS,    unprobed_steps,    75,  48,  48, 0, FACT)           \
	X(RANK,              rank,              77,  24,  24, 2, FACT)           \
	X(PLACE,             place,             78,  16,  16, 1, FACT)           \
	X(DEATH,             death,             88,  40,  40, 1, EVENT)          \
	X(MERGED,            merged,            80,  88,  88, 5, FACT)           \
	X(REDUCED,           reduced,           82,  32,  32, 0, FACT)           \
	/* read from kernel maps: at the end, and new sums at each SEGMENT    */ \
	X(OVERFLOW_CALLS,    overflow_calls,    48, 128,  56, 0, SUM)            \
	X(HITS,              hits,              49,  32,  24, 0, SUM)            \
	X(LOSS,              loss,              50,  32,  24, 0, SUM)            \
	X(OVERFLOW_MEMORY,   overflow_memory,   52,  40,  40, 0, SUM)            \
	X(CALL_COUNTERS,     call_counters,     53,  80,  80, 0, SUM)            \
	X(PROCESS_COUNTERS,  process_counters,  54,  64,  64, 0, SUM)            \
	X(OVERFLOW_VALUES,   overflow_values,   55,  64,  64, 0, SUM)            \
	X(FILE_CALLS,        file_calls,        79, 144, 144, 0, SUM)            \
	X(BLOCKED,           blocked,           57,  56,  56, 0, SUM)            \
	X(BACKGROUND,        background,        63,  24,  24, 0, SUM)            \
	X(GPU_LAUNCHES,      gpu_launches,      67,  64,  64, 0, SUM)            \
	X(GPU_COPIES,        gpu_copies,        68,  40,  40, 0, SUM)            \
	X(GPU_OVERFLOW,      gpu_overflow,      73,  88,  80, 0, SUM)            \
	X(END,               end,               51,  88,  56, 0, CAPTURE)        \
	X(SEGMENT,           segment,           60,  24,  16, 0, CAPTURE)        \
	X(TIME_SLICE,        time_slice,        61,  56,  32, 1, CAPTURE)
/* clang-format on */

enum perfx_kind {
	PERFX_KIND_INVALID = 0,
#define PERFX_KIND_NUMBER(kind, name, number, ...) PERFX_KIND_##kind = (number),
	PERFX_RECORDS(PERFX_KIND_NUMBER)
#undef PERFX_KIND_NUMBER
};

/* How a time slice of a capture treats a kind. Records of all roles but FACT, SUM and CAPTURE
 * have their time right after the header. */
enum perfx_role {
	PERFX_ROLE_NONE = 0,
	PERFX_ROLE_CALL,    /* in the slice in which the call ends */
	PERFX_ROLE_EVENT,   /* in the slice in which it happens */
	PERFX_ROLE_STATE,   /* an event whose effect lasts, also into later slices */
	PERFX_ROLE_MEMORY,  /* likewise; changes which blocks are live */
	PERFX_ROLE_SAMPLE,  /* counters so far: interpolated at both ends of a slice */
	PERFX_ROLE_FACT,    /* holds for the whole capture */
	PERFX_ROLE_SUM,	    /* of the time since the SEGMENT before; has no time of its own */
	PERFX_ROLE_CAPTURE, /* about the capture itself: its start and end */
};

#define PERFX_KINDS 96 /* entries of a table indexed by kind */

#define PERFX_COMM_BYTES 16 /* name of a thread: the kernel's TASK_COMM_LEN */

struct perfx_record {
	__u32 size;  /* bytes, header included, multiple of 8 */
	__u16 kind;  /* enum perfx_kind */
	__u16 fixed; /* bytes of the fixed part, header included: strings start here */
};

/* The beginning of a record with HAS_SUMS. */
struct perfx_sums {
	struct perfx_record hdr;
	struct perfx_sum_key {
		__u32 process, id; /* id: the subject of the sums, such as a value */
	} key;
	__u64 sums[];
};

#include "perfx_record_gpu.h"
#include "perfx_record_job.h"
#include "perfx_record_memory.h"
#include "perfx_record_process.h"
#include "perfx_record_stack.h"

/*
 * One ended call. self_ns is the duration minus the time in its traced callees on the same thread;
 * the kernel computes it. `context` is a node of the calling-context tree (CONTEXT record),
 * `process` the index of a process (PROCESS record).
 */
/* Left by an exception or longjmp: duration and self time are unknown, 0. */
#define PERFX_SPAN_UNWOUND 0x1
/* Counted at its entry because its end cannot be seen: times are 0. */
#define PERFX_SPAN_UNTIMED 0x2
/* A data transfer, such as a collective: it moves `bytes` and computes nothing. `flops` are the
 * bytes over the bus (enum perfx_bus), 0 if the number of ranks is unknown. */
#define PERFX_SPAN_MOVES 0x4
/* A range that any thread may end, on no thread's stack: depth is 0, tid the thread that started
 * it. */
#define PERFX_SPAN_ASYNC 0x8
/* The call handed its work to other threads or a device, which continue after the call, so
 * duration_ns is not the time of the work. */
#define PERFX_SPAN_SUBMITTED 0x10

/* State of a call's own cost, the floating-point operations that its arguments imply. A cost counts
 * once: an operator's cost contains the costs of the calls inside it. */
enum perfx_cost_state {
	PERFX_COST_NONE = 0,	  /* no cost model for this function */
	PERFX_COST_COUNTED = 1,	  /* flops and bytes are this call's */
	PERFX_COST_INSIDE = 2,	  /* inside a call of the same thread whose cost is known */
	PERFX_COST_ELSEWHERE = 3, /* on a pool thread, for an operator whose cost is known */
	PERFX_COST_UNREAD = 4,	  /* arguments unreadable or invalid */
	PERFX_COST_OPAQUE = 5,	  /* compiled code without a description of its operations */
	/* `flops` is the id of the OBJECT_COST record with the cost, which may come later. */
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
	__u8 dtype;	 /* enum perfx_dtype of the multiplied elements */
	__u16 object;	 /* of an optimizer's step: hash of the optimizer; 0: unknown */
	/* Only in records of functions with a cost model (see hdr.fixed); 0 unless COUNTED. */
	__u64 flops; /* one multiply-add is 2 */
	__u64 bytes; /* of operands and result by their shapes, each counted once */
	/* Part of duration_ns in which the thread was off the CPU; only written if not 0. */
	__u64 off_cpu_ns;
};
#define PERFX_FIELDS_span                                             \
	IS_TIME(start_ns)                                             \
	IS_ID(process, PROCESS)                                       \
	IS_ID(context, CONTEXT)                                       \
	IS_ID(function, FUNCTION)                                     \
	IS_TRUE(record->self_ns <= record->duration_ns)               \
	IS_TRUE(record->off_cpu_ns <= record->duration_ns)            \
	IS_WITHIN(cost_state, PERFX_COST_NONE, PERFX_COST_STATES - 1) \
	IS_WITHIN(dtype, PERFX_DTYPE_UNKNOWN, PERFX_DTYPES - 1)
#define PERFX_SPAN_PLAIN_BYTES 56 /* size of a record without flops and bytes */
#define PERFX_SPAN_COST_BYTES  72 /* with them, without off_cpu_ns */

/* A value of the program: set (perfx_counter) or added to (perfx_counter_add). */
#define PERFX_USER_VALUE_ADDED	0x1 /* otherwise set */
#define PERFX_USER_VALUE_BEFORE 0x2 /* value at the start of the capture, not a sample */

struct perfx_user_value {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 number_bits; /* bits of a double: may be infinite or NaN */
	__u32 process;
	__u32 tid;
	__u32 value; /* USER_VALUE_NAME record */
	__u32 flags; /* PERFX_USER_VALUE_ */
};
#define PERFX_FIELDS_user_value \
	IS_TIME(time_ns)        \
	IS_ID(process, PROCESS) \
	IS_ID(value, VALUE)

/* --wait: a traced program starts or stops the recording. If there are such records, only the time
 * between start and stop is recorded. */
#define PERFX_RECORDING_WINDOW_OPENS 0x1 /* otherwise the window closes */
/* Further windows are not kept: the last one stays open. */
#define PERFX_RECORDING_WINDOWS_MAX 4096

struct perfx_recording_window {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process; /* caller of start or stop, or an ended process */
	__u32 pid;
	__u32 flags; /* PERFX_RECORDING_WINDOW_ */
	__u32 pad;
};
#define PERFX_FIELDS_recording_window \
	IS_TIME(time_ns)              \
	IS_ID(process, PROCESS)

/* strings: host name, kernel release, boot id, recording command line (one string, space-joined,
 * shell-quoted), version of the recording tool */
struct perfx_host {
	struct perfx_record hdr;
	__u64 start_ns;	     /* all probes attached: the capture's time 0 */
	__u64 start_unix_ns; /* the same instant by CLOCK_REALTIME */
	__u64 start_boot_ns; /* and by CLOCK_BOOTTIME */
	__u32 cpus_count;
	__u32 memory_mib;
	__u32 ring_bytes;
	__u32 flags;
};
#define PERFX_FIELDS_host \
	IS_TIME(start_ns) \
	IS_BOOT_TIME(start_boot_ns)
#define PERFX_HOST_COMPENSATED 0x1 /* --compensate: probe cost subtracted in the kernel */

/* Source of a function's name; lower-case in the JSON report. */
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
	PERFX_SOURCE_MPI = 14,
};
#define PERFX_SOURCES (PERFX_SOURCE_MPI + 1) /* entries of a table indexed by source */

/* strings: name (demangled), module (path as the process sees it), build-id */
struct perfx_function {
	struct perfx_record hdr;
	__u64 offset; /* of the function in the module's file, bytes */
	__u32 function;
	__u16 source; /* enum perfx_source */
	__u16 flags;  /* PERFX_FUNCTION_ */
	/* length of NAME without its overload in at::_ops::NAME::call; 0: unknown */
	__u16 operator_bytes;
	__u16 pad[3];
};
#define PERFX_FIELDS_function     \
	IS_ID(function, FUNCTION) \
	IS_WITHIN(source, PERFX_SOURCE_PERFX, PERFX_SOURCES - 1)
#define PERFX_FUNCTION_RANGE 0x1 /* a range announced by the program: no module, no offset */
/* Shown for PyTorch's ranges whose names no probed function receives. */
#define PERFX_NAMELESS_RANGE "record_function (name not known)"
#define PERFX_FUNCTION_STEP  0x2 /* its end is the end of a step: --step-range */
/* A Go function: its calls change threads, so their time off the CPU is unknown. */
#define PERFX_FUNCTION_GO 0x4
/* A range that is a function of the program compiled by a framework: JAX, tf.function. */
#define PERFX_FUNCTION_COMPILED 0x8
/* A call on files and sockets: its calls are in FILE_CALLS records. */
#define PERFX_FUNCTION_FILES 0x10
/* A call is a step of training, or a unit of inference: plan/operators.h. */
#define PERFX_FUNCTION_ROUND	 0x20
#define PERFX_FUNCTION_INFERENCE 0x40

enum perfx_link {
	PERFX_LINK_INVALID = 0,
	PERFX_LINK_SESSION = 1,
	PERFX_LINK_MULTI = 2,
	PERFX_LINK_PERF = 3,   /* one perf event for many probes */
	PERFX_LINK_SINGLE = 4, /* one perf event for each probe */
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

/* An attached probe. */
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
#define PERFX_FIELDS_probe_record                              \
	IS_ID(probe, PROBE)                                    \
	IS_ID(function, FUNCTION)                              \
	IS_WITHIN(link, PERFX_LINK_SESSION, PERFX_LINK_SINGLE) \
	IS_WITHIN(ret, PERFX_RETURN_NONE, PERFX_RETURN_PROBE)  \
	IS_WITHIN(site, PERFX_SITE_NOP5, PERFX_SITE_STEPPED)

/* A node of the calling-context tree. parent 0: called from untraced code. */
struct perfx_context {
	struct perfx_record hdr;
	__u32 context;
	__u32 parent;
	__u32 function;
	__u32 process;
	/* The Python frame that made the call, if the parent is a range or none; 0: none. Calls
	 * from other lines are other contexts. */
	__u64 caller;
	__u32 stack; /* STACK record of its first call; 0: none */
	__u32 pad;   /* between kernel and tracer: code object of the caller */
};
#define PERFX_FIELDS_context      \
	IS_ID(context, CONTEXT)   \
	IS_ID(parent, CONTEXT)    \
	IS_ID(function, FUNCTION) \
	IS_ID(process, PROCESS)

/* Resource usage of a process so far; UINT64_MAX: not measured. Sampled at the start, at intervals
 * and at the end of the process. */
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
	/* Of the whole machine since boot, summed over CPUs: used by any program or interrupt;
	 * taken by the hypervisor. 0: not measured. */
	__u64 host_busy_ns, host_steal_ns;
	__u64 rss_peak_bytes; /* since the program began; 0: not in the record */
};
#define PERFX_FIELDS_usage \
	IS_TIME(time_ns)   \
	IS_ID(process, PROCESS)

/* Resource limits of a process, at the start and the end of the recording. UINT64_MAX: no limit, or
 * unknown. */
struct perfx_limits {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process;
	__u32 cpus_count;      /* on which its threads may run; 0: not known */
	__u64 cpu_limit_milli; /* thousandths of a CPU: the quota of its cgroups */
	/* Of the cgroup with the least room: its limit, and its use that cannot be reclaimed. */
	__u64 memory_limit_bytes, memory_used_bytes;
	__u64 address_limit_bytes, address_used_bytes; /* RLIMIT_AS */
	__u64 host_available_bytes; /* of the machine's memory, without swapping */
	/* 0: not in the record */
	__u64 shm_limit_bytes, shm_used_bytes;	    /* of its /dev/shm, by all processes */
	__u64 descriptors_limit, descriptors_count; /* RLIMIT_NOFILE */
	__u64 mappings_limit, mappings_count;	    /* vm.max_map_count */
};
#define PERFX_FIELDS_limits \
	IS_TIME(time_ns)    \
	IS_ID(process, PROCESS)

/* Times of one thread, at the start and the end of the recording, at an exec and at the thread's
 * end. strings: comm */
#define PERFX_THREAD_ENDED 0x1

struct perfx_thread {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 on_cpu_ns, runnable_ns; /* UINT64_MAX: not measured */
	__u32 process;
	__u32 tid;
	__u8 state; /* R S D Z T */
	__u8 flags; /* PERFX_THREAD_ */
	__u8 pad[6];
	__u64 start_ns; /* of the thread; 0: unknown */
};
#define PERFX_FIELDS_thread \
	IS_TIME(time_ns)    \
	IS_TIME(start_ns)   \
	IS_ID(process, PROCESS)

/* strings: name, reason */
#define PERFX_NOT_ATTACHED_BY_DESIGN 0x1 /* a limit of attaching, not a failure */
/* Time off the CPU, no longer recorded: its sums cover the time before. */
#define PERFX_NOT_ATTACHED_WAITS 0x2

struct perfx_not_attached {
	struct perfx_record hdr;
	__u32 count; /* functions with this reason; name is the first */
	__u32 flags; /* PERFX_NOT_ATTACHED_ */
};
#define PERFX_FIELDS_not_attached

/*
 * A process was traced late: its calls into some files were not traced from since_ns to time_ns. Or
 * it ended at time_ns before it could be traced. strings: module (path as the process sees it) of
 * the first file; "": it ended
 */
enum perfx_late_cause {
	PERFX_LATE_INVALID = 0,
	PERFX_LATE_FORKED = 1,	 /* a child of a process whose files others map too */
	PERFX_LATE_MAPPED = 2,	 /* a file that was not mapped before */
	PERFX_LATE_EXECUTED = 3, /* a program */
};

struct perfx_late {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 since_ns; /* the fork, the exec, the first mapping */
	__u32 process;
	__u32 functions_count; /* attached there now, allocators included; 0: it ended */
	__u32 files_count;
	__u32 cause; /* enum perfx_late_cause */
};
#define PERFX_FIELDS_late \
	IS_TIME(time_ns)  \
	IS_TIME(since_ns) \
	IS_ID(process, PROCESS)

/*
 * The overhead budget reduced the probes of a function at time_ns. The record comes before the
 * calls that the reduction changed.
 */
enum perfx_reduced_to {
	PERFX_REDUCED_INVALID = 0,
	PERFX_REDUCED_COUNTED = 1, /* its calls have no times */
	PERFX_REDUCED_REMOVED = 2, /* its calls are not traced */
};

struct perfx_reduced {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 function;	 /* 0: time off the CPU, of all threads */
	__u32 merged;	 /* of the processes of this capture; 0: of all */
	__u8 to;	 /* enum perfx_reduced_to */
	__u8 loses_cost; /* FLOPs and bytes of its calls are unknown too */
	__u8 pad[6];
};
#define PERFX_FIELDS_reduced      \
	IS_TIME(time_ns)          \
	IS_ID(function, FUNCTION) \
	IS_WITHIN(to, PERFX_REDUCED_COUNTED, PERFX_REDUCED_REMOVED)

/* Cost of one hit of one kind of site, measured on this host at start. */
struct perfx_calibration {
	struct perfx_record hdr;
	__u64 cost_ps;
	__u8 link, ret, site, pad[5];
};
#define PERFX_FIELDS_calibration                               \
	IS_WITHIN(link, PERFX_LINK_INVALID, PERFX_LINK_SINGLE) \
	IS_WITHIN(ret, PERFX_RETURN_NONE, PERFX_RETURN_PROBE)  \
	IS_WITHIN(site, PERFX_SITE_NONE, PERFX_SITE_STEPPED)

/* Peak performance of this host, with one thread and with one on each CPU that the tracer may use.
 * One record per (threads, dtype). */
enum perfx_peak_origin {
	PERFX_PEAK_MEASURED = 0,
	PERFX_PEAK_CACHED = 1,	  /* measured before on this host */
	PERFX_PEAK_GIVEN = 2,	  /* --peak-flops, --peak-bandwidth */
	PERFX_PEAK_ESTIMATED = 3, /* from the CPU's identification */
};

struct perfx_peak {
	struct perfx_record hdr;
	__u64 flops_per_s; /* 0: unknown */
	__u64 bytes_per_s; /* memory reads and writes; 0: unknown */
	__u32 threads;
	__u8 dtype;  /* enum perfx_dtype */
	__u8 origin; /* enum perfx_peak_origin */
	__u16 pad;
};
#define PERFX_FIELDS_peak                                       \
	IS_WITHIN(dtype, PERFX_DTYPE_UNKNOWN, PERFX_DTYPES - 1) \
	IS_WITHIN(origin, PERFX_PEAK_MEASURED, PERFX_PEAK_ESTIMATED)

/*
 * Perf counters: counts of perf events per thread, such as cycles or instructions; hardware events
 * count user mode only. At most PERFX_PERF_COUNTERS, each described by a PERF_COUNTER record; a
 * MISSING one has the reason. strings: name, unit, reason ("": it counts)
 */
#define PERFX_PERF_COUNTERS 4 /* a power of two */

enum perfx_perf_counter_kind {
	PERFX_PERF_COUNTER_PLAIN = 0,
	PERFX_PERF_COUNTER_FLOPS = 1,	/* floating-point operations, a multiply-add is 2 */
	PERFX_PERF_COUNTER_MISSING = 2, /* `counter` has no meaning */
};

struct perfx_perf_counter {
	struct perfx_record hdr;
	__u32 counter; /* index into `values` */
	__u8 kind;     /* enum perfx_perf_counter_kind */
	__u8 pad[3];
};
#define PERFX_FIELDS_perf_counter                                             \
	IS_WITHIN(kind, PERFX_PERF_COUNTER_PLAIN, PERFX_PERF_COUNTER_MISSING) \
	IS_TRUE(record->counter < PERFX_PERF_COUNTERS || record->kind == PERFX_PERF_COUNTER_MISSING)

/* Counts during the calls of a context on their threads, with nested calls and without work that
 * they handed to other threads. */
struct perfx_call_counters {
	struct perfx_record hdr;
	__u32 context;
	__u32 pad;
	__u64 calls_count;  /* with counters read */
	__u64 missed_count; /* counters not read: thread too new, or too many events */
	__u64 values[PERFX_PERF_COUNTERS];
	/* Of calls with a known cost: their FLOPs by the cost model, and by the FLOPs counter. */
	__u64 flops, counted_flops;
};
#define PERFX_FIELDS_call_counters IS_ID(context, CONTEXT)

/* Counts of all threads of a process since they were found, so the start of a new thread is
 * missing. threads_count is absolute, the rest is added up. */
struct perfx_process_counters {
	struct perfx_record hdr;
	__u32 process;
	__u32 threads_count;
	__u64 values[PERFX_PERF_COUNTERS];
	/* If the processor has too few counters, events take turns: they counted during running_ns
	 * of enabled_ns, and values are scaled up accordingly. */
	__u64 enabled_ns, running_ns;
};
#define PERFX_FIELDS_process_counters IS_ID(process, PROCESS)

/* Cost of one run of an operation of a compiled program (an XLA thunk), read once from the
 * operation's object. */
struct perfx_object_cost {
	struct perfx_record hdr;
	__u64 flops, bytes; /* COUNTED: of one run */
	__u32 object_cost;
	__u32 function;
	__u8 state; /* enum perfx_cost_state: COUNTED, UNREAD, OPAQUE or NONE */
	__u8 dtype; /* enum perfx_dtype */
	__u8 pad[6];
};
#define PERFX_FIELDS_object_cost                             \
	IS_ID(object_cost, OBJECT_COST)                      \
	IS_ID(function, FUNCTION)                            \
	IS_WITHIN(state, PERFX_COST_NONE, PERFX_COST_OPAQUE) \
	IS_WITHIN(dtype, PERFX_DTYPE_UNKNOWN, PERFX_DTYPES - 1)

/* strings: name */
struct perfx_user_value_name {
	struct perfx_record hdr;
	__u32 value;
	__u32 pad;
};
#define PERFX_FIELDS_user_value_name IS_ID(value, VALUE)

/* Sums of dropped USER_VALUE records: counts are exact; `sum` covers the integers among them, and
 * unsummed_count counts the others. */
struct perfx_overflow_values {
	struct perfx_record hdr;
	__u32 process;
	__u32 value;
	__u64 sets_count, adds_count;
	__s64 sum;
	__u64 unsummed_count;
	__u64 last_bits, last_ns; /* last value set; last_ns 0: none */
};
#define PERFX_FIELDS_overflow_values \
	IS_ID(process, PROCESS)      \
	IS_ID(value, VALUE)          \
	HAS_SUMS(4)                  \
	IS_TIME(last_ns)

/* Files that are used alike, or a peer of sockets. strings: path, in which the name of the file is
 * "*" or "*.jpg" if there are several, or "tcp 10.0.0.7:443"; type of the file system ("nfs4"; "":
 * sockets, or unknown). A later record of an id replaces an earlier one. */
#define PERFX_FILE_GROUP_SOCKET 0x1

struct perfx_file_group {
	struct perfx_record hdr;
	__u32 group;
	__u32 flags; /* PERFX_FILE_GROUP_ */
};
#define PERFX_FIELDS_file_group IS_ID(group, FILE_GROUP)

/* Calls of the C library on files and sockets: exact, by thread and group of files. */
struct perfx_file_calls {
	struct perfx_record hdr;
	__u32 process;
	__u32 key; /* of the thread and the group: PERFX_FILE_KEY */
	__u64 opens_count, open_ns;
	__u64 reads_count; /* that have returned, also without bytes (the end of a file) */
	__u64 read_bytes, read_ns;
	__u64 sequential_count; /* of these reads: from where the thread's last one of the file
				   ended */
	__u64 stored_bytes;	/* that the reads fetched from storage, with what was read ahead */
	__u64 writes_count, write_bytes, write_ns;
	__u64 answers_count; /* sockets: first reads after a write, by the same thread */
	__u64 answer_ns;     /* from the end of the write to the first bytes */
	__u64 errors_count;  /* calls that failed, but for sockets that would block */
	__u64 faults_count;  /* major faults of mapped files */
	__u64 fault_bytes; /* fetched from storage until their ends, since the call or fault before
			    */
	__u32 group;	   /* FILE_GROUP record */
	__u32 tid;	   /* 0: of several threads */
};
#define PERFX_FIELDS_file_calls  \
	IS_ID(process, PROCESS)  \
	IS_ID(group, FILE_GROUP) \
	HAS_SUMS(15)

/* A call on a file or socket that stands for others, with the stack that made it: the more likely
 * the longer it took. The first one of each thread and group stands for itself. */
struct perfx_file_sample {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 ns; /* the time in calls that it stands for */
	__u32 process;
	__u32 tid;
	__u32 group; /* FILE_GROUP record */
	__u32 stack; /* STACK record; 0: unknown */
};
#define PERFX_FIELDS_file_sample \
	IS_TIME(time_ns)         \
	IS_ID(process, PROCESS)  \
	IS_ID(group, FILE_GROUP)

/* Calls whose span record was dropped: exact sums per calling context. */
struct perfx_overflow_calls {
	struct perfx_record hdr;
	__u32 context;
	__u32 pad;
	__u64 calls_count;	 /* unwound and untimed calls included */
	__u64 unwound_count;	 /* of these */
	__u64 untimed_count;	 /* of these */
	__u64 total_ns, self_ns; /* over the timed ones */
	/* Costs: flops and bytes are of the COUNTED calls. */
	__u64 flops, bytes;
	__u64 counted_count, unread_count, nested_count; /* nested: INSIDE or ELSEWHERE */
	__u64 opaque_count;
	/* Of data transfers: bytes over the bus, and the part of `bytes` for which that is known.
	 */
	__u64 bus_bytes, bus_moved_bytes;
	__u64 off_cpu_ns; /* as in spans, over the timed ones */
};
#define PERFX_FIELDS_overflow_calls IS_ID(context, CONTEXT)

/*
 * Step time without tracing: steps of a thread just before and after the recording, with no probe
 * except on the function that ends them.
 */
struct perfx_unprobed_steps {
	struct perfx_record hdr;
	__u64 steps_count;
	__u64 step_ns;	/* median; 0: too few */
	__u64 noise_ns; /* of that median: two standard errors */
	__u32 process;
	__u32 function; /* that ends them */
	__u32 tid;
	__u32 cpu_wait_ppm; /* part of that time in which the thread waited for a CPU */
};
#define PERFX_FIELDS_unprobed_steps \
	IS_ID(process, PROCESS)     \
	IS_ID(function, FUNCTION)

struct perfx_hits {
	struct perfx_record hdr;
	__u32 probe;
	__u32 pad;
	__u64 hits_count; /* by threads of traced processes */
	/* Cost of a hit, picoseconds, as measured while tracing; 0: as calibrated (PROBE). */
	__u64 cost_ps;
};
#define PERFX_FIELDS_hits IS_ID(probe, PROBE)

/*
 * Kinds of loss: X(KIND, name in the JSON report, counted by, meaning in reports). KERNEL: a
 * counter of the BPF programs with the same name (enum perfx_counter). Add new kinds at the end.
 * The OVERFLOW kinds have the sums of dropped spans, memory records and values.
 */
/* clang-format off */
#define PERFX_LOSSES(X)                                                                       \
	X(RING_DROPS, "ring_drops", KERNEL, "spans dropped, ring full; totals include them")  \
	X(MAP_FULL, "map_full", KERNEL,                                                       \
		"calls without thread state or calling context, map full")                    \
	X(UNMATCHED_ENTRIES, "unmatched_entries", TRACER, "calls still running at the end")   \
	X(UNMATCHED_RETURNS, "unmatched_returns", KERNEL,                                     \
		"returns of calls that began before tracing")                                 \
	X(STACK_FAILURES, "stack_failures", KERNEL, "call stacks that could not be unwound")  \
	X(READ_FAULTS, "read_faults", KERNEL, "failed reads of the program's memory")         \
	X(UNTIMED_CALLS, "untimed_calls", KERNEL, "calls counted but not timed")              \
	X(NMISSED, "nmissed", TRACER, "probe hits that the kernel did not deliver")           \
	X(DETACHED_PROBES, "detached_probes", TRACER, "probes removed while tracing")         \
	X(UNDECODED, "undecoded", TRACER, "records that could not be decoded")                \
	X(TRUNCATED_BYTES, "truncated_bytes", TRACER, "bytes lost at a damaged or cut end")   \
	X(CONTROL_DROPS, "control_drops", KERNEL, "process events dropped, ring full")        \
	X(FOREIGN_HITS, "foreign_hits", KERNEL, "hits in processes that are not traced")      \
	X(MEMORY_DROPS, "memory_drops", KERNEL, "allocations and frees dropped, ring full")   \
	X(VALUE_DROPS, "value_drops", KERNEL, "counter samples dropped, ring full; counted")  \
	X(SAMPLE_DROPS, "sample_drops", TRACER, "samples of threads dropped, ring full")      \
	X(GPU_RECORDS, "gpu_records", TRACER, "records of the GPU dropped, buffers full")     \
	X(GPU_KEYS, "gpu_keys", KERNEL, "launches and copies without name or size, map full") \
	X(PROCESSES_MISSED, "processes_missed", TRACER,                                       \
		"processes that ended before their program was probed (-a)")                  \
	X(SLICE_DROPS, "slice_drops", KERNEL, "slices of --timeline dropped, ring full")
/* clang-format on */

enum perfx_loss_kind {
#define PERFX_LOSS_KIND(kind, ...) PERFX_LOSS_##kind,
	PERFX_LOSSES(PERFX_LOSS_KIND)
#undef PERFX_LOSS_KIND
		PERFX_LOSS_KINDS
};

/* process 0: the whole capture */
struct perfx_loss {
	struct perfx_record hdr;
	__u32 loss; /* enum perfx_loss_kind */
	__u32 process;
	__u64 count;
	__u32 merged; /* in this capture; 0: this one */
	__u32 pad;
};
#define PERFX_FIELDS_loss       \
	IS_ID(process, PROCESS) \
	IS_WITHIN(loss, PERFX_LOSS_RING_DROPS, PERFX_LOSS_KINDS - 1)

/*
 * End of a segment: all SUM records up to here have been written, so a time slice may end here.
 * Losses that are not sums (UNMATCHED_ENTRIES, DETACHED_PROBES) belong to no segment.
 */
struct perfx_segment {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 since_ns; /* its start, if segments overlap (merged captures); 0: the end of the one
			   before */
};
#define PERFX_FIELDS_segment \
	IS_TIME(time_ns)     \
	IS_TIME(since_ns)

/* The capture is a time slice of a recording. strings: reason ("SIGUSR1"; "": by choice) */
#define PERFX_TIME_SLICE_FLIGHT 0x1 /* by a flight recorder: --flight */
#define PERFX_TIME_SLICE_VIEW	0x2 /* of a capture: --since, --until */
#define PERFX_TIME_SLICE_FULL	0x4 /* shorter than requested: memory was full */

struct perfx_time_slice {
	struct perfx_record hdr;
	__u64 recording_ns;   /* start of the recording */
	__u64 left_out_count; /* calls in sums of segments that the slice cuts */
	__u32 flags;	      /* PERFX_TIME_SLICE_ */
	__u32 left_out;	      /* PERFX_LEFT_OUT: which sums such segments had */
	/* The slow step that triggered the flight recorder (--trigger); all 0: none. */
	__u64 step_from_ns, step_to_ns;
	__u32 step_process;
	__u32 pad;
};
#define PERFX_FIELDS_time_slice IS_TIME(recording_ns)

/* A kind of sum as a bit. */
#define PERFX_LEFT_OUT(kind) (1u << ((kind)-PERFX_KIND_OVERFLOW_CALLS))

#define PERFX_END_TARGET_KILLED 0x1 /* by a signal, or ended before probes were attached */
#define PERFX_END_TARGET_EXITED 0x2
#define PERFX_END_INTERRUPTED	0x4 /* first Ctrl-C */
#define PERFX_END_DUMP		0x8 /* perfx-trace dump: it ended when all threads were seen */

/* CPU time that tracing took from the traced processes outside probes. */
struct perfx_background {
	struct perfx_record hdr;
	__u64 samples_ns; /* interrupts in which call stacks are sampled */
	__u64 waits_ns;	  /* the scheduler's tracepoints, for time off the CPU */
};
#define PERFX_FIELDS_background

/* The last record. A capture without it was truncated. */
struct perfx_end {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 flags;
	__u32 pad;
	__u64 tracer_cpu_ns; /* the tracer's own */
	__u64 tracer_rss_anon_bytes;
	/* time_ns by the other clocks, as in HOST, to show their drift. 0: unknown */
	__u64 end_unix_ns;
	__u64 end_boot_ns;
	/* Numbers of checks: of the mappings of traced processes, and of other processes for
	 * traced files. */
	__u64 maps_read_count, untraced_read_count;
	__u64 recording_cpu_ns;	     /* the part of tracer_cpu_ns while recording; 0: unknown */
	__u64 tracer_rss_peak_bytes; /* files included; 0: unknown */
};
#define PERFX_FIELDS_end IS_TIME(time_ns)

#ifndef __bpf__
_Static_assert(sizeof(struct perfx_record) == 8, "ABI: struct perfx_record");
#define PERFX_ASSERT_SIZE(kind, name, number, bytes, ...) \
	_Static_assert(sizeof(struct perfx_##name) == (bytes), "ABI: struct perfx_" #name);
PERFX_RECORDS(PERFX_ASSERT_SIZE)
#undef PERFX_ASSERT_SIZE
#define PERFX_ASSERT_BIT(kind, name, number, bytes, least, strings, role)   \
	_Static_assert((number) < PERFX_KINDS, "struct perfx_" #name);      \
	_Static_assert(PERFX_ROLE_##role != PERFX_ROLE_SUM ||               \
			       ((number) >= PERFX_KIND_OVERFLOW_CALLS &&    \
				(number) < PERFX_KIND_OVERFLOW_CALLS + 32), \
		       "a bit of left_out: struct perfx_" #name);
PERFX_RECORDS(PERFX_ASSERT_BIT)
#undef PERFX_ASSERT_BIT
#endif

#endif
