/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Configuration of the BPF programs by user space, and tables that both use. Not part of a capture,
 * so it may change with every build.
 */
#ifndef PERFX_CONFIG_H
#define PERFX_CONFIG_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#include "perfx_cost.h"
#include "perfx_record.h"
#include "perfx_unwind.h"

#define PERFX_MAX_PROCESSES 4096
/* Process indices, equal to AGGREGATE_PROCESSES_MAX. Recordings of limited length never reuse an
 * index; further processes are not traced. */
#define PERFX_MAX_PROCESS_INDICES 65536
/* Ring buffers of one kind of records; a power of two. */
#define PERFX_MAX_RINGS 8
/* Events of processes and threads. */
#define PERFX_CONTROL_RING_BYTES (256 << 10)
#define PERFX_MAX_CPUS		 8192 /* the maximum of CONFIG_NR_CPUS */
/* Open traced calls of one thread; a power of two. Deeper calls are counted without their time.
 * Each takes 80 bytes of kernel memory in every thread that hits a probe. */
#define PERFX_MAX_DEPTH 256
/* Nodes of calling-context trees; each takes 220 bytes of kernel memory. Recordings of few
 * processes use the smaller number. Once three quarters are used, further calls are counted by
 * process and function: totals stay exact, flame graphs lose depth. */
#define PERFX_MAX_CONTEXTS     262144
#define PERFX_MAX_CONTEXTS_FEW 65536

/*
 * Queue of free indices for endless recordings (--flight, top, serve): user space adds an index
 * long after its process or context has ended, and BPF programs take the oldest one by
 * compare-and-swap before they make a new index. Both counts wrap.
 */
enum perfx_id_kind {
	PERFX_ID_PROCESS,
	PERFX_ID_CONTEXT,
	PERFX_ID_KINDS,
};

#define PERFX_FREE_PLACES 262144 /* a power of two; at least the indices of each kind */

struct perfx_free_ids {
	__u32 given, taken; /* number of indices added and taken so far */
	__u32 ids[PERFX_FREE_PLACES];
};

/*
 * An attach cookie is the index of a probe and, above it, the number of a gate. A gate is open
 * while its slot in perfx_gates (number modulo PERFX_MAX_GATES, a power of two) has its number, so
 * a slot can be reused while hits of an older gate may still come.
 */
#define PERFX_COOKIE_GATE_SHIFT 32
#define PERFX_MAX_GATES		16384
#define PERFX_GATE_NONE		0 /* always open */
/* In the upper half of a slot: this gate opens, or closes, when perfx_gates_turned becomes 1, so
 * that many gates change at the same time. */
#define PERFX_GATE_OPENS  1
#define PERFX_GATE_CLOSES 2

/* One probe. */
enum perfx_probe_kind {
	PERFX_PROBE_INVALID = 0,
	PERFX_PROBE_COUNT = 1,	 /* entry, counted only: exits unknown */
	PERFX_PROBE_ENTRY = 2,	 /* entry; the call ends at an exit site */
	PERFX_PROBE_RETURN = 3,	 /* entry and return, by return probe */
	PERFX_PROBE_EXIT = 4,	 /* exit site: always leaves */
	PERFX_PROBE_EXIT_IF = 5, /* exit site, a jcc: leaves when the condition holds */
	/* entry of an allocator's function, described by perfx_alloc_probes[rule] */
	PERFX_PROBE_ALLOC = 6,
	PERFX_PROBE_ALLOC_EXIT = 7, /* its exit site, if it has no return probe */
	/* perfx_flops(n): adds n, read by the cost program, to the innermost open call */
	PERFX_PROBE_HINT = 8,
	/* an annotation function, described by perfx_annotations[rule] */
	PERFX_PROBE_ANNOTATION = 9,
	PERFX_PROBE_ANNOTATION_EXIT = 10, /* its exit site; flags as of an ALLOC_EXIT */
};

/* Entries: the instruction is an exit as well, EXIT or (_IF) EXIT_IF `condition`. An ALLOC_EXIT has
 * one of the two flags. */
#define PERFX_PROBE_F_LEAVES	0x1
#define PERFX_PROBE_F_LEAVES_IF 0x2
/* Entries: the instruction is the target of a loop; a hit while its frame is open is an iteration,
 * not a call. */
#define PERFX_PROBE_F_REPEATS 0x4
/* Counted only, because timing is too expensive; not a loss. */
#define PERFX_PROBE_F_BY_CHOICE 0x8
/* Entries: perf events of the thread are read at entry and exit. */
#define PERFX_PROBE_F_PERF 0x10
/* Exits: the function had a return probe before. Calls that began then end by it, or were only
 * counted. */
#define PERFX_PROBE_F_TAKES_OVER 0x20

/* Entries: a call inside one that hands work to a device is part of that one and not recorded. */
#define PERFX_PROBE_F_OUTERMOST 0x40
/* Entries: a hit by an untraced process starts tracing that process (-a). */
#define PERFX_PROBE_F_ADOPTS 0x80

/* Size of the table of entry probes whose calls nest too deep for a return probe; indexed by probe
 * modulo this power of two. */
#define PERFX_DECLINED_PLACES 64

struct perfx_probe {
	__u32 function;
	__u8 kind;	/* enum perfx_probe_kind */
	__u8 condition; /* EXIT_IF: condition code of the jcc ("tttn" in the Intel SDM) */
	__u8 cfa_is_fp; /* exits: CFA = rbp + cfa_offset, otherwise rsp + cfa_offset */
	__u8 flags;	/* PERFX_PROBE_F_ */
	__s32 cfa_offset;
	/* --compensate: cost of entry and exit of a call, subtracted from its callers' durations,
	 * and the part inside its own span, subtracted from its own. */
	__u32 call_cost_ns;
	__u32 own_cost_ns; /* entries */
	__u32 rule; /* ALLOC: index into perfx_alloc_probes; ANNOTATION: into perfx_annotations */
	__u32 cost_program; /* entries, HINT: index into perfx_cost_programs; 0: none */
	/* Entries: argument register (see perfx_alloc_probe) that points to the object that
	 * identifies the operation (perfx_object); 0: none. */
	__u8 object_arg;
	/* Argument register that points to its result, an event (PERFX_EVENT_STATE); 0: unknown. */
	__u8 event_arg;
	__u8 is_go; /* a Go function: its calls belong to the goroutine, not to the thread */
	__u8 pad;
};

/* Effect of an allocator's function. */
enum perfx_action {
	PERFX_ACTION_INVALID = 0,
	PERFX_ACTION_ALLOCATE = 1,   /* returns a new block */
	PERFX_ACTION_ALLOCATED = 2,  /* receives a new block: address and size are arguments */
	PERFX_ACTION_FREE = 3,	     /* frees a block, or is called when one is freed */
	PERFX_ACTION_REALLOCATE = 4, /* both */
	PERFX_ACTION_CHANGE = 5,     /* receives a block with a signed size: < 0 is a free */
	/* Pages that the program maps through the C library. MAP: count_arg is the protection,
	 * tag_arg has the flags. REMAP: count_arg is the new size. */
	PERFX_ACTION_MAP = 6,
	PERFX_ACTION_UNMAP = 7,
	PERFX_ACTION_REMAP = 8,
	PERFX_ACTION_BREAK = 9, /* the end of the heap may move */
};

/* Where ALLOCATE finds the new block's address. */
enum perfx_result {
	PERFX_RESULT_VALUE = 0, /* the return value; 0: it failed */
	PERFX_RESULT_OUT = 1,	/* *pointer argument, if the return value (an int) is 0 */
};

/* ALLOCATED: the address may be live already (tracemalloc's Track). */
#define PERFX_ALLOC_F_REPLACES 0x1
/* ALLOCATE: calls no other probed allocator, so calls outside the sample need no return probe. */
#define PERFX_ALLOC_F_LEAF 0x2
/* ALLOCATE: may call back (a new_handler), so frees inside it are the program's. */
#define PERFX_ALLOC_F_CALLS_BACK 0x4
/* FREE: may call another probed allocator for the same block (the CUDA runtime calls the driver):
 * counted as one free. */
#define PERFX_ALLOC_F_FORWARDS 0x8

#define PERFX_MAX_ALLOC_PROBES 1024

/* Arguments are registers, numbered from 1 (x86-64: rdi, rsi, rdx, rcx, r8, r9); 0: none. The
 * function may have copied an argument to another of these, or to 7, rax, before the probe site. */
struct perfx_alloc_probe {
	__u16 allocator; /* ALLOCATOR record */
	__u8 domain;	 /* enum perfx_domain */
	__u8 action;	 /* enum perfx_action */
	__u8 result;	 /* enum perfx_result */
	__u8 flags;	 /* PERFX_ALLOC_F_ */
	__u8 pointer_arg;
	__u8 size_arg;
	__u8 count_arg; /* size = size × count (calloc) */
	/* Recorded only if the low `tag_bytes` bytes of this argument are `tag` (tracemalloc's
	 * domain, a device's type); 0: always. */
	__u8 tag_arg, tag_bytes;
	__u8 pad;
	__u32 tag;
};

/* Effect of an annotation function (NVTX, ITT, perfx.h, …). */
enum perfx_annotation_action {
	PERFX_ANNOTATION_INVALID = 0,
	PERFX_ANNOTATION_PUSH = 1,  /* opens a range on its thread */
	PERFX_ANNOTATION_POP = 2,   /* ends the last one of its source there */
	PERFX_ANNOTATION_BEGIN = 3, /* opens one; its key is in the returned object */
	PERFX_ANNOTATION_OPEN = 4,  /* opens one; its key is an argument */
	PERFX_ANNOTATION_END = 5,   /* ends the range with a key; unknown keys are ignored */
	/* starts one that any thread may stop, by the returned id */
	PERFX_ANNOTATION_START = 6,
	PERFX_ANNOTATION_START_ID = 7, /* the same; the id is an argument */
	PERFX_ANNOTATION_STOP = 8,     /* ends the range with an id */
	PERFX_ANNOTATION_INSTANT = 9,  /* a point in time */
	PERFX_ANNOTATION_CALL = 10,    /* the call itself is the range */
	/* of perfx.h only, no ranges: */
	PERFX_ANNOTATION_SET = 11, /* sets a value; the key has the bits of a double */
	PERFX_ANNOTATION_ADD = 12, /* adds to a value */
	/* a block of the program's own allocator: key_arg, size_arg */
	PERFX_ANNOTATION_ALLOCATED = 13,
	PERFX_ANNOTATION_FREED = 14,
	PERFX_ANNOTATION_RECORD = 15, /* --wait: recording starts */
	PERFX_ANNOTATION_PAUSE = 16,  /* --wait: recording stops */
	/* Calls of the C library on files and sockets (bpf/files.bpf.c); the key is the descriptor.
	 */
	PERFX_ANNOTATION_OPEN_FILE = 17, /* returns a descriptor */
	PERFX_ANNOTATION_READ_FILE = 18,
	PERFX_ANNOTATION_WRITE_FILE = 19,
};

/* Flags in a name's source, beside enum perfx_source: the name is not that of a range. */
#define PERFX_NAME_OF_VALUE	0x40
#define PERFX_NAME_OF_ALLOCATOR 0x80
/* The name is neither a range's nor a function's: TensorFlow's kernel for a function compiled by
 * XLA has that function's name. */
#define PERFX_NAME_OF_KERNEL 0x20

/* Form of the argument that has the name. */
enum perfx_text {
	PERFX_TEXT_NONE = 0,	   /* no argument: the function's name */
	PERFX_TEXT_C = 1,	   /* NUL-terminated */
	PERFX_TEXT_NVTX = 2,	   /* nvtxEventAttributes_t, whose message may be text */
	PERFX_TEXT_STRING = 3,	   /* std::string const &: pointer, length */
	PERFX_TEXT_OLD_STRING = 4, /* of the old ABI: pointer; length 24 bytes before text */
	PERFX_TEXT_VIEW = 5,	   /* absl::string_view: length, pointer */
};

#define PERFX_MAX_ANNOTATIONS 256
/* Pointers to follow from the argument to the structure that has the name. */
#define PERFX_PATH_MAX 3

/* The name counts only if it begins with two underscores, otherwise the function's does. */
#define PERFX_ANNOTATION_F_UNDERSCORES 0x1
/* CALL: the kind follows the name. FLOPs of kinds that multiply (…MatMul…, …Conv2…, …Conv3…) are
 * unknown unless a nested call has a known cost. */
#define PERFX_ANNOTATION_F_KIND 0x2

struct perfx_annotation {
	__u8 action;   /* enum perfx_annotation_action */
	__u8 source;   /* enum perfx_source */
	__u8 text;     /* enum perfx_text */
	__u8 text_arg; /* arguments as of a perfx_alloc_probe */
	__u8 key_arg;  /* key, id or descriptor */
	__u8 tag_arg; /* recorded only if its low 4 bytes are `tag`; 0: always. READ_FILE: offset */
	/* The structure with the name: follow path_count pointers, each at path[i] bytes; the name
	 * is at text_offset bytes. */
	__u16 text_offset;
	__u32 tag;
	__u32 key_offset; /* BEGIN: bytes, of the key in the returned object */
	__u16 path[PERFX_PATH_MAX];
	__u8 path_count;
	__u8 flags; /* PERFX_ANNOTATION_F_ */
	/* PUSH, START_ID: argument with the id of the parent, a started range; value 0: the parent
	 * is the innermost call or range of the thread. */
	__u8 within_arg;
	__u8 size_arg; /* ALLOCATED */
	__u8 pad[2];
};

/*
 * Files that the program uses, in groups: those of one folder with the same suffix, or a socket's
 * peer. Groups beyond the maximum are counted together, as PERFX_FILES_OTHER.
 */
#define PERFX_FILE_GROUP_BITS 12
#define PERFX_MAX_FILE_GROUPS (1 << PERFX_FILE_GROUP_BITS)
#define PERFX_FILES_OTHER     1 /* 0: none */
/* Sums of calls by threads, each with a group. */
#define PERFX_MAX_FILE_SUMS 65536
/* The key of such sums in a process. thread: number of the thread among those of the process that
 * have used files, from 1; those beyond the maximum are counted together, as 0. */
#define PERFX_MAX_FILE_THREADS	      (1u << (32 - PERFX_FILE_GROUP_BITS))
#define PERFX_FILE_KEY(thread, group) ((thread) << PERFX_FILE_GROUP_BITS | (group))
#define PERFX_FILE_PATH_BYTES	      512 /* a power of two */
/* A name is cut to PERFX_FILE_NAME_BYTES - 1 bytes, a path to its last PERFX_FILE_DEPTH names. */
#define PERFX_FILE_NAME_BYTES 256
#define PERFX_FILE_DEPTH      24

struct perfx_files_seen {
	__u32 ready;   /* the other members are valid: written last */
	__u32 tgid;    /* process that used it first */
	__u32 device;  /* dev_t of the file system, as the kernel has it */
	__u32 several; /* calls on another file than the first one, so far */
	__u64 inode;   /* of the first file */
	struct perfx_peer {
		__u16 family; /* AF_INET, AF_INET6; 0: a file */
		__u16 port;   /* in host order */
		__u32 is_stream;
		__u64 address[2];
	} peer;
	/* Names from the file up to the root of its file system, each with a '/' after it. */
	char path[PERFX_FILE_PATH_BYTES];
};

/* Bytes of a range's name; longer names are cut. */
#define PERFX_NAME_BYTES 128
/* Distinct names; further ones become "(other)", for which NAMES_KEPT entries are reserved. A
 * process may use as many names as it leaves free: the first process half of the table. */
#define PERFX_MAX_NAMES	 32768
#define PERFX_NAMES_KEPT 64

/* A process's share of the table of names; the key is the index of the process. */
struct perfx_name_share {
	__u32 tgid;
	__u32 count;   /* names that the process added */
	__u64 refused; /* uses of further names, which became "(other)" */
};
#define PERFX_MAX_NAME_SHARES 8192

struct perfx_name_key {
	__u32 source; /* enum perfx_source */
	/* NUL-padded; one byte more than PERFX_NAME_BYTES shows that the name was cut */
	char text[PERFX_NAME_BYTES + 4];
};

struct perfx_name {
	/* id of the function, value or allocator; 0: not assigned yet */
	__u32 id;
	__u32 pad;
	struct perfx_name_key key;
};

/* A range that any thread may stop. */
struct perfx_started_key {
	__u64 id; /* STARTED_NAMELESS | n: the n-th open one without an id */
	__u32 process;
	__u32 source;
};

struct perfx_started {
	__u64 start_ns;
	__u64 inside_ns; /* time of its child ranges */
	__u64 within;	 /* id of its parent range; 0: none */
	__u32 function;
	__u32 tid;
	__u32 context;
	__u32 recording_window; /* number of the window in which it started */
};

#define PERFX_MAX_STARTED 16384

/* Ids of allocators that programs announce start here; further allocators share the last id. */
#define PERFX_ALLOCATOR_NAMED 1024
#define PERFX_ALLOCATOR_OTHER (PERFX_ALLOCATOR_MMAP - 1)

/* How a domain is recorded; user space may change it at any time. */
struct perfx_memory_knobs {
	__u32 level; /* enum perfx_memory_level */
	/* One in so many stacks, chosen at random, is unwound; the others have the immediate caller
	 * only. 0: all are unwound. */
	__u32 stacks_every;
	__u64 sample_bytes;
};

/* Entries of the table of sampling distances: quantiles of the exponential distribution, in
 * PERFX_SAMPLE_ONE-ths of the mean. */
#define PERFX_SAMPLE_QUANTILES 1024
#define PERFX_SAMPLE_ONE       65536
/* Live sampled blocks, whose frees are recorded. */
#define PERFX_MAX_SAMPLED 262144

/* Distinct stacks; further ones are unknown, and counted. */
#define PERFX_MAX_STACKS 65536
/* Stacks of samples, in a separate table because a long recording has more of them. */
#define PERFX_MAX_SAMPLE_STACKS 65536

/* --- unwind tables (perfx_unwind.h has the rules) --- */

/* Executable mappings of a process; code of JIT compilers beyond them is unknown. */
#define PERFX_UNWIND_MAPPINGS_BITS 12
#define PERFX_UNWIND_MAPPINGS_MAX  (1 << PERFX_UNWIND_MAPPINGS_BITS)
/* Sets of mappings: one for each process that does not share its parent's. */
#define PERFX_UNWIND_SETS_MAX 1024
/* Pages of text: 4 GiB. */
#define PERFX_UNWIND_PAGE_BITS 16
#define PERFX_UNWIND_PAGES_MAX 65536
/* Rows, at most 32 MiB; of a slab 1 MiB. A page's rows lie in one slab. */
#define PERFX_UNWIND_SLAB_ROWS 262144
#define PERFX_UNWIND_SLABS_MAX 32
/* Distinct rules; index 0 is none. */
#define PERFX_UNWIND_RULES_MAX 16384
#define PERFX_UNWIND_RULE_NONE 1 /* PERFX_CFA_NONE */
#define PERFX_UNWIND_RULE_BAD  2 /* PERFX_CFA_BAD */
/* Addresses of code and, above them, generations of a process's mappings. */
#define PERFX_UNWIND_ADDRESS_BITS 47
#define PERFX_UNWIND_CACHE_BITS	  16
#define PERFX_UNWIND_GENERATIONS  (1u << (64 - PERFX_UNWIND_ADDRESS_BITS))

/* From this offset in its page on, this rule. */
#define PERFX_UNWIND_ROW(offset, rule) ((__u32)(offset) << 16 | (rule))
#define PERFX_UNWIND_ROW_OFFSET(row)   ((row) >> 16)
#define PERFX_UNWIND_ROW_RULE(row)     ((row)&0xffff)

struct perfx_unwind_process {
	__u32 set;
	__u32 mappings_count;
	/* Changes when other code is mapped at an address. */
	__u32 generation;
	__u32 pad;
	__u64 lowest, highest; /* addresses of code */
};

/* Sorted by address. */
struct perfx_unwind_mapping {
	__u64 start, end;
	__u64 bias;	  /* address - vaddr in the file */
	__u32 pages_base; /* + vaddr / 64 KiB is the index of its page */
	__u32 has_pages;  /* 0: code without a file, or without a table */
};

/* A page without rows is not loaded. */
struct perfx_unwind_page {
	__u32 first_row;  /* of all slabs, one after the other */
	__u32 rows_count; /* 0: first_row is 0, or PAGE_ASKED */
};
#define PERFX_UNWIND_PAGE_ASKED 1ull

/* Dropped memory records by process (0: processes beyond the table) and domain. */
struct perfx_memory_lost {
	__u64 allocs_count, allocated_bytes, frees_count;
	__u64 pad;
};

#define PERFX_TENSOR_LAYOUTS_ALL ((1u << PERFX_TENSOR_LAYOUTS) - 1)

struct perfx_traced_process {
	__u32 process;	      /* its index */
	__u32 memory_process; /* owner of its memory: itself, or a vfork's parent */
	__u32 dead;
	/* open calls of operators (not PERFX_COST_F_KERNEL) with a known cost */
	__u32 open_operators;
	/* Layouts of a tensor that fit all tensors seen so far: bit i is PERFX_TENSOR_FIRST + 8 i.
	 * A single bit: found. */
	__u32 tensor_layouts;
	__u32 started_nameless; /* open started ranges without an id */
	__u32 recording;	/* --wait: it has called start */
	__u32 recording_window; /* window in which open_operators was counted */
	/* Its first process index, unchanged by exec: distinguishes processes with the same pid. */
	__u32 born;
	__u32 runs_objects; /* it runs objects with costs, in this recording window */
	__u32 file_threads; /* that have used files: PERFX_FILE_KEY */
	__u32 pad;
	__u64 net_rx_bytes, net_tx_bytes;
};

/* A node of the calling-context tree and, after the caller, its overflow sums. In a new node,
 * `function` is set last, except for `stack`, because the first call is unwound only then. */
struct perfx_context_node {
	__u32 parent, function, process, stack;
	__u64 caller; /* Python frame, as perfx_context's; 0: none */
	__u32 caller_code, pad;
	__u64 calls_count, unwound_count, untimed_count;
	__u64 total_ns, self_ns;
	__u64 flops, bytes;
	__u64 counted_count, unread_count, nested_count;
	__u64 opaque_count;
	__u64 bus_bytes, bus_moved_bytes;
	__u64 off_cpu_ns;
};

#define PERFX_PERF_EVENTS  8	/* per thread; a power of two */
#define PERFX_PERF_THREADS 2048 /* threads with perf events at a time */

/* A perf event adds `weight` × its count to a counter. */
struct perfx_perf_event {
	__u32 counter, weight;
};

/* As struct perfx_call_counters. */
struct perfx_perf_sums {
	__u64 calls_count, missed_count;
	__u64 values[PERFX_PERF_COUNTERS];
	__u64 flops, counted_flops;
};

/*
 * Objects that identify the operation of a call: thunks of XLA's executor, one for each operation
 * of a compiled module. A thunk begins (xla/backends/cpu/runtime/thunk.h)
 *
 *	0 vtable, 8 kind, 16 std::string name of the operation, 48 std::string name of its module,
 *	80 the module's number
 *
 * A new object is reported to user space, which names its function and reads the cost of a run from
 * the object; later runs find it in the table.
 */
/*
 * The result of a run is a pointer to an event (tsl::AsyncValue, async_value.h), whose state is in
 * the lowest bits of a word: 2 and above mean done or failed.
 */
#define PERFX_EVENT_STATE 8 /* bytes */
#define PERFX_EVENT_MASK  3
#define PERFX_EVENT_DONE  2

#define PERFX_OBJECT_WORDS 11	 /* u64 at its start, which identify it */
#define PERFX_OBJECT_TEXT  128	 /* bytes of a name, NUL included; longer ones are cut */
#define PERFX_MAX_OBJECTS  65536 /* runs of further ones count as calls of the runner */
/* distinct pairs of module and operation names */
#define PERFX_MAX_OPERATIONS 32768

struct perfx_object_key {
	__u64 address;
	__u64 check; /* hash of its head: an address may be reused */
	__u32 process, pad;
};

struct perfx_object {
	__u64 flops, bytes;
	__u32 function;	   /* of its operation */
	__u32 object_cost; /* id of its OBJECT_COST record */
	__u32 owner;	   /* function from which its module was compiled; 0: unknown */
	__u8 state;	   /* enum perfx_cost_state; BY_OBJECT: not read yet */
	__u8 dtype;
	__u8 pad[2];
};

/* A new object. In a separate ring; not part of a capture. */
struct perfx_object_record {
	struct perfx_record hdr;
	struct perfx_object_key key;
	__u32 pid;
	__u32 runner;	/* function that runs it */
	__u32 function; /* of its operation */
	__u32 object_cost;
	__u32 new_function; /* first object of its operation */
	__u32 owner;	    /* as perfx_object's */
	char operation[PERFX_OBJECT_TEXT];
	char module[PERFX_OBJECT_TEXT];
};

/* Runs without a record of objects that have not been read yet. */
struct perfx_pending_key {
	__u32 object_cost, context;
};

/*
 * Waits of threads (bpf/waiting.bpf.c). Programs of the scheduler's tracepoints must not take the
 * locks of a hash map, so both tables are open-addressed: an entry is in one of PERFX_WAIT_TRIES
 * slots from its hash on, claimed by compare-and-swap.
 */
#define PERFX_WAIT_TRIES 8

/* A wait: its thread, reason and object. */
struct perfx_wait {
	__u64 object; /* as in struct perfx_blocked */
	__u32 process;
	__u32 tgid, tid;
	__u32 holder_tid; /* GIL: in its process's pid namespace */
	__u16 syscall;
	__u8 reason; /* enum perfx_wait_reason */
	__u8 pad;
	/* The file of `object`, and the thread's descriptor of it; -1: none. */
	__s32 fd;
	union {
		struct {
			__u64 inode;
			__u32 device; /* the kernel's dev_t */
			__u32 mode;   /* its type and permissions; 0: unknown */
		};
		char comm[PERFX_COMM_BYTES]; /* RUNNABLE: name of the process `object` */
	};
};

/* A thread of a traced process. */
#define PERFX_MAX_WAITERS 16384 /* a power of two */
/* The slots of a thread: `try` is below PERFX_WAIT_TRIES. */
#define PERFX_WAITER_PLACE(tid, try) ((((tid)*0x9e3779b1u >> 8) + (try)) & (PERFX_MAX_WAITERS - 1))

struct perfx_waiter {
	__u32 tid;	 /* 0: a free slot */
	__u32 waker_tid; /* FUTEX: a thread of its process that wakes it; 0: unknown */
	struct perfx_wait wait;
	__u64 off_cpu_ns; /* when it left the CPU */
	/* With --timeline: what it has done since it last got a CPU. `left_ns` and `woken_ns` are 0
	 * until that has happened. */
	struct perfx_slice slice;
	/* Start of this wait, which may directly follow another. By a clock that stops during
	 * pauses (--wait), plus 1. */
	__u64 began_ns;
	/* Start of the part that is not in the sums yet, by the same clock; 0: the thread runs.
	 * User space may move it; the side that changes it adds the time. */
	__u64 since_ns;
};

/* Sums of equal waits. If the slots for objects are full, a thread's waits are summed over all
 * objects; if those are full, over all threads of the process. Each level has as many slots. */
#define PERFX_MAX_WAIT_SUMS 8192 /* a power of two */
#define PERFX_WAIT_LEVELS   3
/* The key of a slot that user space retires. A program that found it before may still add to it for
 * less than a millisecond; user space frees it later. */
#define PERFX_WAIT_RETIRED 1

struct perfx_wait_sum {
	__u64 key; /* hash of `wait`; 0: a free slot; WAIT_RETIRED: free soon */
	struct perfx_wait wait;
	__u64 blocked_ns, count, max_ns;
	/* FUTEX: the thread that woke it in most cases, by releasing the lock. By majority vote
	 * (Boyer and Moore); a race of two CPUs costs one vote. */
	__u32 waker_tid, waker_votes;
};

/*
 * Work that traced calls hand to a GPU (bpf/gpu.bpf.h), summed by this key. The last quarter of the
 * table is reserved for keys without shapes, the last sixteenth for keys without names.
 */
#define PERFX_MAX_GPU_SUMS 16384

struct perfx_gpu_key {
	/* The address of the kernel's host stub, its handle, or (is_named) the hash of its name; a
	 * graph's handle; 0: omitted. */
	__u64 kernel;
	__u32 process;
	__u32 context;
	__u32 grid[3], block[3];
	__u32 shared_bytes;
	__u8 op;	/* enum perfx_gpu_op */
	__u8 direction; /* enum perfx_gpu_direction */
	__u8 is_named;
	__u8 pad;
};

struct perfx_gpu_sum {
	struct perfx_gpu_key key;
	__u64 count, bytes; /* count 0: being initialized */
};

/* Names of kernels that have a handle, by their hash; longer ones are cut. */
#define PERFX_KERNEL_NAME_BYTES 1024
#define PERFX_MAX_KERNEL_NAMES	8192
#define PERFX_MAX_KERNELS	65536 /* handles */

struct perfx_kernel_name {
	char text[PERFX_KERNEL_NAME_BYTES]; /* NUL-padded */
};

struct perfx_kernel_key {
	__u64 handle;
	__u32 process, pad;
};

struct perfx_kernel {
	__u64 kernel; /* as perfx_gpu_key's */
	__u32 is_named, pad;
};

enum perfx_counter {
	PERFX_COUNTER_REPEATS =
		0, /* hits of an entry that began no call: _F_REPEATS, _F_OUTERMOST */
#define PERFX_COUNTED_BY_KERNEL(kind) PERFX_COUNTER_##kind,
#define PERFX_COUNTED_BY_TRACER(kind)
#define PERFX_LOSS_COUNTER(kind, name, by, meaning) PERFX_COUNTED_BY_##by(kind)
	PERFX_LOSSES(PERFX_LOSS_COUNTER)
#undef PERFX_COUNTED_BY_KERNEL
#undef PERFX_COUNTED_BY_TRACER
#undef PERFX_LOSS_COUNTER
		PERFX_COUNTER_SAMPLE_DROPS, /* of all processes */
	PERFX_COUNTER_PROCESSES_FULL,	    /* processes that are not traced: too many */
	PERFX_COUNTER_WAITS,	       /* claimed slots of wait sums: user space names new ones */
	PERFX_COUNTER_SAMPLES,	       /* of running threads */
	PERFX_COUNTER_STATELESS_CALLS, /* on threads without state, among the untimed calls */
	PERFX_COUNTERS
};

#endif
