/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space tells the BPF programs, and the tables both sides look at. Not part of a capture:
 * it may change with every build.
 */
#ifndef PERFX_CONFIG_H
#define PERFX_CONFIG_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define PERFX_MAX_PROCESSES 4096
/* Traced calls open at once on one thread. Deeper ones are counted, without their time. A power of
 * two. 48 bytes each, of kernel memory, for every thread that hits a probe. */
#define PERFX_MAX_DEPTH 256
/* Nodes of calling-context trees. When three quarters are used, further calls are booked under
 * (process, function) alone: totals stay exact, flame graphs lose depth. */
#define PERFX_MAX_CONTEXTS 65536

/* One probe; the attach cookie is its index. */
enum perfx_probe_kind {
	PERFX_PROBE_INVALID = 0,
	PERFX_PROBE_COUNT = 1,	 /* entry of a function whose ways out are not known */
	PERFX_PROBE_ENTRY = 2,	 /* its end comes from exit sites */
	PERFX_PROBE_RETURN = 3,	 /* entry and return of one function by return probe */
	PERFX_PROBE_EXIT = 4,	 /* leaves, always */
	PERFX_PROBE_EXIT_IF = 5, /* a jcc: leaves when the condition holds */
};

/* Entries: the same instruction is a way out as well, EXIT or (with IF) EXIT_IF `condition`. */
#define PERFX_PROBE_F_LEAVES	0x1
#define PERFX_PROBE_F_LEAVES_IF 0x2
/* Entries: the instruction is the target of a loop; a hit with its frame open is another round. */
#define PERFX_PROBE_F_REPEATS 0x4
/* Counted only because timing it would be too dear: no loss. */
#define PERFX_PROBE_F_BY_CHOICE 0x8

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
	__u32 pad;
};

struct perfx_family {
	__u32 process; /* index of its book */
	__u32 dead;
	__u64 net_rx_bytes, net_tx_bytes;
};

/* A node of the calling-context tree and, in its second half, the overflow book. */
struct perfx_context_node {
	__u32 parent, function, process, pad;
	__u64 calls_count, unwound_count, untimed_count;
	__u64 total_ns, self_ns;
	__u64 pad2;
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
	PERFX_COUNTERS
};

#endif
