/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the rule that unwinds the frame of a code address, in tables that user space compiles from
 * .eh_frame (user/attach/unwind_tables.c) and extends while they are read.
 *
 *	tgid ─▶ set of mappings ─▶ mapping ─▶ page of 64 KiB of a file ─▶ its rows ─▶ rule
 *
 * User space loads a page when a walk first requests it (perfx_unwind_requests). Sizes of tables
 * and rounds of searches have fixed bounds: a damaged .eh_frame cannot exceed them.
 */
#ifndef PERFX_UNWIND_BPF_H
#define PERFX_UNWIND_BPF_H

#include "perfx.bpf.h"
#include "perfx_unwind.h"

/* How often rows of pages were reused for other pages. */
extern volatile __u32 perfx_unwind_drops;

/* By tgid. A forked child has its parent's tables from its first instruction. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PERFX_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct perfx_unwind_process);
} perfx_unwind_processes __weak SEC(".maps");

/* A forked child has its parent's mappings until it maps something. */
static __always_inline void unwind_fork(__u32 parent, __u32 child)
{
	struct perfx_unwind_process *process =
					    bpf_map_lookup_elem(&perfx_unwind_processes, &parent),
				    copy;

	if (!process)
		return;
	copy = *process;
	if (bpf_map_update_elem(&perfx_unwind_processes, &child, &copy, BPF_ANY))
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
}

/* Drops the mappings of a process that has ended or called exec. */
static __always_inline void unwind_forget(__u32 tgid)
{
	bpf_map_delete_elem(&perfx_unwind_processes, &tgid);
}

/* BPF_F_INNER_MAP: each is as large as its process needs. */
struct unwind_set {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_INNER_MAP);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct perfx_unwind_mapping));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFX_UNWIND_SETS_MAX);
	__type(key, __u32);
	__array(values, struct unwind_set);
} perfx_unwind_sets __weak SEC(".maps");

/* struct perfx_unwind_page, written as one word. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space: PERFX_UNWIND_PAGES_MAX where stacks are unwound */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} perfx_unwind_pages __weak SEC(".maps");

/* Two rows per value: the kernel rounds the values of an array up to 8 bytes. */
struct unwind_slab {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_UNWIND_SLAB_ROWS / 2);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
};

/* User space adds slabs as needed. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFX_UNWIND_SLABS_MAX);
	__type(key, __u32);
	__array(values, struct unwind_slab);
} perfx_unwind_rows __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space: PERFX_UNWIND_RULES_MAX */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_unwind_rule);
} perfx_unwind_rules __weak SEC(".maps");

/*
 * Cache of rules by code address. Address and generation are permuted to one word: its lowest bits
 * are the index of an entry, which has the other bits above the rule's index. An entry is one word,
 * so programs that interrupt each other, and other CPUs, read all of it or another entry.
 */
#define UNWIND_CACHE_KEY ((1ull << PERFX_UNWIND_CACHE_BITS) - 1)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space: 1 << PERFX_UNWIND_CACHE_BITS */
	__type(key, __u32);
	__type(value, __u64);
} perfx_unwind_cache __weak SEC(".maps");

/* Indices into perfx_unwind_pages that walks have missed. User space loads them; they are not
 * captured. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 10);
} perfx_unwind_requests __weak SEC(".maps");

/* find_rule returns this + enum perfx_stack_end if there is no rule. */
#define RULE_MISSING 0x10000

static __always_inline __u64 permuted(__u64 address, __u32 generation)
{
	/* permutations: xor of a number with its upper half, and multiplication by an odd number */
	__u64 x = address ^ (__u64)generation << PERFX_UNWIND_ADDRESS_BITS;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	return x;
}

/* A binary search. Its step is a global function: the verifier walks it once, not in each iteration
 * and state. */
struct halving {
	__u64 sought;
	__u32 low, high;
	__u32 from;  /* index of the first row */
	__u32 found; /* 1 + the index of the mapping that contains the address, or the rule of the
			last row at or below the offset; 0: none so far */
};

/* Returns whether to continue. */
__weak __noinline int halve_mappings(struct halving *h, __u32 slot)
{
	struct perfx_unwind_mapping *mapping;
	__u32 middle;
	void *set = bpf_map_lookup_elem(&perfx_unwind_sets, &slot);

	if (!h || !set || h->low >= h->high)
		return 0;
	middle = (h->low + h->high) / 2;
	mapping = bpf_map_lookup_elem(set, &middle);
	if (!mapping)
		return 0;
	if (h->sought >= mapping->end)
		h->low = middle + 1;
	else if (h->sought < mapping->start)
		h->high = middle;
	else
		h->found = middle + 1;
	return !h->found;
}

/* 1 + the index of the mapping that contains a code address; 0: none. */
static __always_inline __u32 find_mapping(const struct perfx_unwind_process *process, __u64 address)
{
	struct halving h = {.sought = address, .high = process->mappings_count};

	for (int i = 0; i < PERFX_UNWIND_MAPPINGS_BITS + 1; i++)
		if (!halve_mappings(&h, process->set))
			break;
	return h.found;
}

__weak __noinline int halve_rows(struct halving *h, __u32 slab)
{
	__u32 middle, row, key;
	__u64 *pair;
	void *rows = bpf_map_lookup_elem(&perfx_unwind_rows, &slab);

	if (!h || !rows || h->low >= h->high)
		return 0;
	middle = (h->low + h->high) / 2;
	row = h->from + middle;
	key = row / 2;
	pair = bpf_map_lookup_elem(rows, &key);
	if (!pair)
		return 0;
	row = row & 1 ? *pair >> 32 : *pair;
	if (PERFX_UNWIND_ROW_OFFSET(row) <= h->sought) {
		h->found = PERFX_UNWIND_ROW_RULE(row);
		h->low = middle + 1;
	} else {
		h->high = middle;
	}
	return 1;
}

/* The rule of the last row at or below `offset` in a page; 0: none. */
static __always_inline __u32 find_row(__u32 first, __u32 count, __u32 offset)
{
	struct halving h = {
		.sought = offset, .high = count, .from = first % PERFX_UNWIND_SLAB_ROWS};

	for (int i = 0; i < PERFX_UNWIND_PAGE_BITS + 1; i++)
		if (!halve_rows(&h, first / PERFX_UNWIND_SLAB_ROWS))
			break;
	return h.found;
}

/* Requests a page, once: the page is marked as requested. */
static __always_inline void request_page(__u64 *page, __u32 index)
{
	if (__sync_val_compare_and_swap(page, 0, PERFX_UNWIND_PAGE_ASKED))
		return;
	if (bpf_ringbuf_output(&perfx_unwind_requests, &index, sizeof(index), 0))
		__sync_val_compare_and_swap(page, PERFX_UNWIND_PAGE_ASKED, 0);
}

/* The rule of an address in a mapping, or RULE_MISSING + the reason. */
static __always_inline __u32 rule_in(const struct perfx_unwind_mapping *mapping, __u64 address)
{
	__u64 vaddr = address - mapping->bias, *page;
	__u32 index = mapping->pages_base + (__u32)(vaddr >> PERFX_UNWIND_PAGE_BITS), rule;
	struct perfx_unwind_page loaded;

	page = mapping->has_pages ? bpf_map_lookup_elem(&perfx_unwind_pages, &index) : NULL;
	if (!page)
		return RULE_MISSING + PERFX_STACK_END_NO_MAPPING;
	*(__u64 *)&loaded = *(volatile __u64 *)page;
	if (!loaded.rows_count) {
		request_page(page, index);
		return RULE_MISSING + PERFX_STACK_END_NO_TABLE;
	}
	rule = find_row(loaded.first_row, loaded.rows_count,
			vaddr & ((1 << PERFX_UNWIND_PAGE_BITS) - 1));
	return rule ? rule : RULE_MISSING + PERFX_STACK_END_NO_RULE;
}

/* As find_rule, without the cache. */
__weak __noinline __u32 search_rule(const struct perfx_unwind_process *process, __u64 address)
{
	struct perfx_unwind_mapping *mapping;
	__u32 at, slot;
	void *set;

	if (!process)
		return RULE_MISSING + PERFX_STACK_END_NO_MAPPING;
	at = find_mapping(process, address) - 1;
	slot = process->set;
	set = bpf_map_lookup_elem(&perfx_unwind_sets, &slot);
	mapping = set ? bpf_map_lookup_elem(set, &at) : NULL;
	return mapping ? rule_in(mapping, address) : RULE_MISSING + PERFX_STACK_END_NO_MAPPING;
}

/* The rule of a code address, or RULE_MISSING + enum perfx_stack_end. */
static __always_inline __u32 find_rule(const struct perfx_unwind_process *process, __u64 address)
{
	__u64 mixed = permuted(address, process->generation), found, *cached;
	__u32 key = mixed & UNWIND_CACHE_KEY, drops, rule;

	cached = bpf_map_lookup_elem(&perfx_unwind_cache, &key);
	if (!cached || address >> PERFX_UNWIND_ADDRESS_BITS)
		return RULE_MISSING + PERFX_STACK_END_BAD_ADDRESS;
	mixed &= ~UNWIND_CACHE_KEY;
	found = mixed ^ *(volatile __u64 *)cached;
	if (found && found <= UNWIND_CACHE_KEY)
		return found;
	drops = perfx_unwind_drops;
	rule = search_rule(process, address);
	if (rule >= RULE_MISSING)
		return rule;
	/* rows may have been reused for another page while they were read */
	if (drops != perfx_unwind_drops)
		return RULE_MISSING + PERFX_STACK_END_NO_TABLE;
	*(volatile __u64 *)cached = mixed | rule;
	return rule;
}

#endif
