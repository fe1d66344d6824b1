/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space passes to the BPF programs, and the tables both sides look at. Not part of a
 * capture: it may change with every build.
 */
#ifndef PERFX_CONFIG_H
#define PERFX_CONFIG_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#include "perfx_cost.h"
#include "perfx_record.h"

#define PERFX_MAX_PROCESSES 4096
/* Ring buffers of one kind of records. A power of two. */
#define PERFX_MAX_RINGS 8
/* Traced calls open at once on one thread. Deeper ones are counted, without their time. A power of
 * two. 72 bytes each, of kernel memory, for every thread that hits a probe. */
#define PERFX_MAX_DEPTH 256
/* Nodes of calling-context trees. When three quarters are used, further calls are counted under
 * (process, function) alone: totals stay exact, flame graphs lose depth. */
#define PERFX_MAX_CONTEXTS 65536

/*
 * An attach cookie is the index of a probe and, above it, the number of a gate. A gate is open
 * while its place in perfx_gates (number modulo PERFX_MAX_GATES, a power of two) holds its number,
 * so that places can be used again while hits of an older gate are still to come.
 */
#define PERFX_COOKIE_GATE_SHIFT 32
#define PERFX_MAX_GATES		16384
#define PERFX_GATE_NONE		0 /* always open: what has no other */

/* One probe. */
enum perfx_probe_kind {
	PERFX_PROBE_INVALID = 0,
	PERFX_PROBE_COUNT = 1,	 /* entry of a function whose exits are not known */
	PERFX_PROBE_ENTRY = 2,	 /* its end comes from exit sites */
	PERFX_PROBE_RETURN = 3,	 /* entry and return of one function by return probe */
	PERFX_PROBE_EXIT = 4,	 /* leaves, always */
	PERFX_PROBE_EXIT_IF = 5, /* a jcc: leaves when the condition holds */
	PERFX_PROBE_ALLOC =
		6, /* an allocator's function: perfx_alloc_probes[rule] says what it does */
	PERFX_PROBE_ALLOC_EXIT = 7, /* one of its exit sites, where it has no return probe */
	/* perfx_flops(n): n more operations, in `cost`'s argument, for the innermost open call */
	PERFX_PROBE_HINT = 8,
	PERFX_PROBE_ANNOTATION =
		9, /* begins or ends a range: perfx_annotations[rule] says what it does */
	PERFX_PROBE_ANNOTATION_EXIT = 10, /* one of its exit sites, flags as of an ALLOC_EXIT */
};

/* Entries: the same instruction is an exit as well, EXIT or (with IF) EXIT_IF `condition`. An
 * ALLOC_EXIT has one of the two. */
#define PERFX_PROBE_F_LEAVES	0x1
#define PERFX_PROBE_F_LEAVES_IF 0x2
/* Entries: the instruction is the target of a loop; a hit with its frame open is another round. */
#define PERFX_PROBE_F_REPEATS 0x4
/* Counted only because timing it would be too expensive: no loss. */
#define PERFX_PROBE_F_BY_CHOICE 0x8
/* Entries: the thread's perf events are read at its calls' ends. */
#define PERFX_PROBE_F_PERF 0x10
/* Exits: its function had a return probe until lately. Calls of that time end by it, or were only
 * counted. */
#define PERFX_PROBE_F_TAKES_OVER 0x20

/* Places in which the programs note entry probes whose calls nest too deep for a return probe;
 * by index, modulo this power of two. */
#define PERFX_DECLINED_PLACES 64

struct perfx_probe {
	__u32 function;
	__u8 kind;	/* enum perfx_probe_kind */
	__u8 condition; /* EXIT_IF: 4-bit condition code ("tttn" of the Intel SDM) under which it
			   leaves */
	__u8 cfa_is_fp; /* exits: CFA = rbp + cfa_offset, otherwise rsp + cfa_offset */
	__u8 flags;	/* PERFX_PROBE_F_ */
	__s32 cfa_offset;
	/* When compensating: what a call costs by entry and exit, taken off its callers' durations,
	 * and what part of that lies inside its own span, taken off its own. */
	__u32 call_cost_ns;
	__u32 own_cost_ns; /* entries */
	__u32 rule; /* ALLOC: index into perfx_alloc_probes; ANNOTATION: into perfx_annotations */
	__u32 cost_program; /* entries, HINT: index into perfx_cost_programs; 0: none */
	/* Entries: the argument register (see perfx_alloc_probe) that points to an object by which
	 * calls are distinguished (perfx_object); 0: none. */
	__u16 object_arg;
	/* And the one that says where its result goes, an event (PERFX_EVENT_STATE); 0: not known.
	 */
	__u16 event_arg;
};

/* What a function of an allocator does, and where its arguments are. */
enum perfx_action {
	PERFX_ACTION_INVALID = 0,
	PERFX_ACTION_ALLOCATE = 1,   /* returns a new block */
	PERFX_ACTION_ALLOCATED = 2,  /* is given a block: address and size are arguments */
	PERFX_ACTION_FREE = 3,	     /* takes a block, or is called when one goes */
	PERFX_ACTION_REALLOCATE = 4, /* both */
	PERFX_ACTION_CHANGE = 5,     /* is given a block by a signed size: < 0 it goes */
	/* Of pages, for whoever calls the C library for them. MAP: count_arg is the protection,
	 * tag_arg are the flags. REMAP: count_arg is the new size. */
	PERFX_ACTION_MAP = 6,
	PERFX_ACTION_UNMAP = 7,
	PERFX_ACTION_REMAP = 8,
	PERFX_ACTION_BREAK = 9, /* the end of the heap may move */
};

/* Where ALLOCATE finds the new block's address. */
enum perfx_result {
	PERFX_RESULT_VALUE = 0, /* the return value; 0: none was given */
	PERFX_RESULT_OUT = 1,	/* *pointer argument, where the return value (an int) is 0 */
};

/* ALLOCATED: the block may be known already (tracemalloc's Track). */
#define PERFX_ALLOC_F_REPLACES 0x1
/* ALLOCATE: calls no other probed allocator, so where a sample does not want the call its return
 * need not be seen. */
#define PERFX_ALLOC_F_LEAF 0x2
/* ALLOCATE: may call the program (a new_handler), and what that frees is freed by the program. */
#define PERFX_ALLOC_F_CALLS_BACK 0x4
/* FREE: another probed allocator may be called for the same block (the CUDA runtime asks the
 * driver): that is the same free. */
#define PERFX_ALLOC_F_FORWARDS 0x8

#define PERFX_MAX_ALLOC_PROBES 1024

/* Arguments are numbered from 1 (x86-64: rdi, rsi, rdx, rcx, r8, r9); 0: it has none. They are
 * registers: at the site an argument may have been copied to another of these, or to 7, rax. */
struct perfx_alloc_probe {
	__u16 allocator; /* ALLOCATOR record */
	__u8 domain;	 /* enum perfx_domain */
	__u8 action;	 /* enum perfx_action */
	__u8 result;	 /* enum perfx_result */
	__u8 flags;	 /* PERFX_ALLOC_F_ */
	__u8 pointer_arg;
	__u8 size_arg;
	__u8 count_arg; /* size = size × count (calloc) */
	/* Is for us only where the low `tag_bytes` bytes of this argument are `tag` (tracemalloc's
	 * domain, a device's type); 0: always. */
	__u8 tag_arg, tag_bytes;
	__u8 pad;
	__u32 tag;
};

/* What an annotation function (NVTX, ITT, perfx.h, …) does. */
enum perfx_annotation_action {
	PERFX_ANNOTATION_INVALID = 0,
	PERFX_ANNOTATION_PUSH = 1,  /* opens a range on its thread */
	PERFX_ANNOTATION_POP = 2,   /* ends the last of its source there */
	PERFX_ANNOTATION_BEGIN = 3, /* opens one whose key is in the object that it returns */
	PERFX_ANNOTATION_OPEN = 4,  /* opens one whose key is an argument */
	PERFX_ANNOTATION_END = 5,   /* ends that of a key; another one's is no mistake */
	PERFX_ANNOTATION_START =
		6, /* starts one that any thread may stop, by the id that is returned */
	PERFX_ANNOTATION_START_ID = 7, /* the same, the id is an argument */
	PERFX_ANNOTATION_STOP = 8,     /* ends that of an id */
	PERFX_ANNOTATION_INSTANT = 9,  /* something has happened */
	PERFX_ANNOTATION_CALL = 10,    /* runs what the name names: a range as long as the call */
	/* Of perfx.h alone, and no ranges: */
	PERFX_ANNOTATION_SET = 11, /* a value is this now: its key, the bits of a double */
	PERFX_ANNOTATION_ADD = 12, /* this is added to one */
	PERFX_ANNOTATION_ALLOCATED =
		13, /* a block of the program's own allocator: its key, size_arg */
	PERFX_ANNOTATION_FREED = 14,
	PERFX_ANNOTATION_RECORD = 15, /* what a waiting tracer records begins */
	PERFX_ANNOTATION_PAUSE = 16,  /* and ends */
};

/* In the source of a name, above enum perfx_source: it is none of a range. */
#define PERFX_NAME_OF_VALUE	0x40
#define PERFX_NAME_OF_ALLOCATOR 0x80

/* How its argument is its name. */
enum perfx_text {
	PERFX_TEXT_NONE = 0,	   /* it has none: the function's */
	PERFX_TEXT_C = 1,	   /* NUL-terminated */
	PERFX_TEXT_NVTX = 2,	   /* nvtxEventAttributes_t, which may have such */
	PERFX_TEXT_STRING = 3,	   /* std::string const &: pointer, length */
	PERFX_TEXT_OLD_STRING = 4, /* of the old ABI: pointer; length 24 bytes before the text */
	PERFX_TEXT_VIEW = 5,	   /* absl::string_view: length, pointer */
};

#define PERFX_MAX_ANNOTATIONS 256
/* Pointers that may lie between an argument and the structure that has the name. */
#define PERFX_PATH_MAX 3

/* Is recorded under its name where that begins with two underscores, else as the function
 * itself. */
#define PERFX_ANNOTATION_F_UNDERSCORES 0x1
/* CALL: behind the name is another one, its kind: one that multiplies (…MatMul…, …Conv2…, …Conv3…)
 * does work that is not known, unless something inside says how much. */
#define PERFX_ANNOTATION_F_KIND 0x2

struct perfx_annotation {
	__u8 action;   /* enum perfx_annotation_action */
	__u8 source;   /* enum perfx_source */
	__u8 text;     /* enum perfx_text */
	__u8 text_arg; /* arguments as of a perfx_alloc_probe */
	__u8 key_arg;  /* key or id */
	__u8 tag_arg;  /* is for us only where the low 4 bytes of it are `tag`; 0: always */
	/* Where the structure is that has the name: path_count times, what the word at path[i]
	 * bytes points to; in that, text_offset bytes on. */
	__u16 text_offset;
	__u32 tag;
	__u32 key_offset; /* BEGIN: of what ends it, in the object, bytes */
	__u16 path[PERFX_PATH_MAX];
	__u8 path_count;
	__u8 flags; /* PERFX_MARK_F_ */
	/* PUSH, START_ID: id of the range, open across threads, that it belongs to; 0 there: to
	 * what is open on the thread's stack. */
	__u8 within_arg;
	__u8 size_arg; /* ALLOCATED */
	__u8 pad[2];
};

/* Bytes of a range's name that are compared; longer ones are cut. */
#define PERFX_NAME_BYTES 128
/* Distinct names. Ranges of further ones are "(other)", for which some room is kept. */
#define PERFX_MAX_NAMES	 16384
#define PERFX_NAMES_KEPT 64

struct perfx_name_key {
	__u32 source; /* enum perfx_source */
	/* NUL-padded; a byte more than are shown: it was longer */
	char text[PERFX_NAME_BYTES + 4];
};

struct perfx_name {
	/* its id: a function's, a value's, an allocator's; 0: not there yet */
	__u32 id;
	__u32 pad;
	struct perfx_name_key key;
};

/* A range that any thread may stop. */
struct perfx_started_key {
	__u64 id; /* STARTED_NAMELESS | n: the n-th that is open and has no id */
	__u32 process;
	__u32 source;
};

struct perfx_started {
	__u64 start_ns;
	__u64 inside_ns; /* of ranges that have said that they belong to it */
	__u64 within;	 /* id of the range that it belongs to; 0: none that is recorded */
	__u32 function;
	__u32 tid;
	__u32 context;
	__u32 recording_window; /* its number when it was started */
};

#define PERFX_MAX_STARTED 16384

/* Allocators of programs that mark their blocks have ids from here on; those that find no room have
 * the last. */
#define PERFX_ALLOCATOR_NAMED 1024
#define PERFX_ALLOCATOR_OTHER (PERFX_ALLOCATOR_MMAP - 1)

/* Values whose records found no room. */
struct perfx_user_value_key {
	__u32 process, value;
};

struct perfx_user_value_lost {
	__u64 sets_count, adds_count;
	__s64 sum;	      /* of the whole numbers among them */
	__u64 unsummed_count; /* the others */
	__u64 last_bits, last_ns;
};

/* How a domain is recorded; user space may change it at any time. */
struct perfx_memory_knobs {
	__u32 level; /* enum perfx_memory_level */
	__u32 pad;
	__u64 sample_bytes;
};

/* Entries of the table of sampling distances: quantiles of the exponential distribution, in
 * PERFX_SAMPLE_ONE-ths of the mean. */
#define PERFX_SAMPLE_QUANTILES 1024
#define PERFX_SAMPLE_ONE       65536
/* Sampled blocks whose frees are looked for. */
#define PERFX_MAX_SAMPLED 262144

/* Different stacks; further ones are unknown, and counted. */
#define PERFX_MAX_STACKS 65536

/* Memory records that found no room, by process (those beyond the table: 0) and domain. */
struct perfx_memory_lost {
	__u64 allocs_count, allocated_bytes, frees_count;
	__u64 pad;
};

#define PERFX_TENSOR_LAYOUTS_ALL ((1u << PERFX_TENSOR_LAYOUTS) - 1)

struct perfx_traced_process {
	__u32 process;	      /* its index */
	__u32 memory_process; /* whose memory it uses: its own, or a vfork's parent's */
	__u32 dead;
	/* Open calls of operators (not PERFX_COST_F_KERNEL) that have a known cost. */
	__u32 open_operators;
	/* Which of the layouts of a tensor fit all those seen so far: bit i stands for
	 * PERFX_TENSOR_FIRST + 8 i. One bit: found. */
	__u32 tensor_layouts;
	__u32 started_nameless; /* ranges that are open across threads and have no id */
	__u32 recording;	/* it has said that a waiting tracer shall record */
	__u32 recording_window; /* its number when open_operators was counted */
	/* Its first process index, whatever it has executed since: which of the processes that have
	 * had this pid it is. */
	__u32 born;
	__u32 pad;
	__u64 net_rx_bytes, net_tx_bytes;
};

/* A node of the calling-context tree and, in its second half, the overflow sums. */
struct perfx_context_node {
	__u32 parent, function, process, pad;
	__u64 calls_count, unwound_count, untimed_count;
	__u64 total_ns, self_ns;
	__u64 flops, bytes;
	__u64 counted_count, unread_count, nested_count;
	__u64 opaque_count;
	__u64 bus_bytes, bus_moved_bytes;
};

#define PERFX_PERF_EVENTS  8	/* perf events of a thread; a power of two */
#define PERFX_PERF_THREADS 2048 /* that have them at a time */

/* A perf event is worth so much in a counter. */
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
 * Objects by which calls of one function are distinguished: the thunks that XLA's executor runs,
 * one for each operation of a compiled module. A thunk begins (xla/backends/cpu/runtime/thunk.h)
 *
 *	0 vtable, 8 kind, 16 std::string name of the operation, 48 std::string name of its module,
 *	80 the module's number
 *
 * A new one is emitted to user space, which names its function and reads from the object what a run
 * of it computes; what is known of it then is in the table, for later runs.
 */
/*
 * What an object's run gives is a pointer to an event (tsl::AsyncValue, async_value.h), whose state
 * is the lowest bits of a word: from 2 on its work is done, or has failed.
 */
#define PERFX_EVENT_STATE 8 /* bytes */
#define PERFX_EVENT_MASK  3
#define PERFX_EVENT_DONE  2

#define PERFX_OBJECT_WORDS 11	 /* of its head, u64: by these it is known again */
#define PERFX_OBJECT_TEXT  128	 /* bytes of a name, NUL included; longer ones are cut */
#define PERFX_MAX_OBJECTS  65536 /* further ones are runs of the function that runs them */
/* Distinct operations, by the names of module and operation. */
#define PERFX_MAX_OPERATIONS 32768

struct perfx_object_key {
	__u64 address;
	__u64 check; /* hash of its head: an address may be used anew */
	__u32 process, pad;
};

struct perfx_object {
	__u64 flops, bytes;
	__u32 function;	   /* of its operation */
	__u32 object_cost; /* id of its OBJECT_COST record */
	__u32 owner; /* function that its module was made of, as calls of it are named; or 0 */
	__u8 state;  /* enum perfx_cost_state; BY_OBJECT: not read yet */
	__u8 dtype;
	__u8 pad[2];
};

/* A new object. From a ring of its own; not part of a capture. */
struct perfx_object_record {
	struct perfx_record hdr;
	struct perfx_object_key key;
	__u32 pid;
	__u32 runner;	/* the function that runs it */
	__u32 function; /* of its operation */
	__u32 object_cost;
	__u32 new_function; /* this is the first object of its operation */
	__u32 owner;	    /* as perfx_object's */
	char operation[PERFX_OBJECT_TEXT];
	char module[PERFX_OBJECT_TEXT];
};

/* Runs without a record of an object that had not been read yet: whose, where. */
struct perfx_pending_key {
	__u32 object_cost, context;
};

enum perfx_counter {
	PERFX_COUNTER_REPEATS = 0, /* hits of an entry that began no call: PERFX_PROBE_F_REPEATS */
	PERFX_COUNTER_RING_DROPS,
	PERFX_COUNTER_MAP_FULL,
	PERFX_COUNTER_UNMATCHED_RETURNS,
	PERFX_COUNTER_UNTIMED,
	PERFX_COUNTER_CONTROL_DROPS,
	PERFX_COUNTER_FOREIGN_HITS,
	PERFX_COUNTER_READ_FAULTS,
	PERFX_COUNTER_MEMORY_DROPS,
	PERFX_COUNTER_STACK_FAILURES,
	PERFX_COUNTER_VALUE_DROPS,
	PERFX_COUNTERS
};

#endif
