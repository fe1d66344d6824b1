/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of allocations; included by perfx_record.h. */
#ifndef PERFX_RECORD_MEMORY_H
#define PERFX_RECORD_MEMORY_H

/*
 * Memory domains, never summed because they overlap: the heap; tensors of a framework (often from
 * that heap); GPU memory; blocks of allocators that the program announces (from any of these). In
 * the last domain the upper 11 bits of an address are changed by the allocator's number, because
 * one allocator may divide a block of another.
 *
 * Records of the memory ring are in order of time: a block is freed at the entry of `free` and
 * allocated at the return of `malloc`, so an address reused by another thread is never live twice.
 */
enum perfx_domain {
	PERFX_DOMAIN_INVALID = 0,
	PERFX_DOMAIN_HOST = 1,
	PERFX_DOMAIN_TENSOR = 2,
	PERFX_DOMAIN_GPU = 3,
	PERFX_DOMAIN_USER = 4, /* perfx_memory_alloc */
};
#define PERFX_DOMAINS	  5 /* entries of a table indexed by domain */
#define PERFX_DOMAINS_MAX 8 /* entries of a table whose index is masked */

/* Sampled: stands for other allocations too (see perfx_memory_mode). */
#define PERFX_ALLOCATION_SAMPLED 0x1
/* Pages from the kernel: parts may be unmapped, and a fixed mapping replaces older ones. */
#define PERFX_ALLOCATION_MAPPED 0x2
/* Completes this thread's realloc: frees the block that FREE_REALLOC_BEGIN named. */
#define PERFX_ALLOCATION_RESIZED 0x4
/* The address may be live already at another size (tracemalloc's Track): no free was lost. */
#define PERFX_ALLOCATION_REPLACES 0x8
/* Allocated before the capture began: live from its start, but not one of its allocations. */
#define PERFX_ALLOCATION_BEFORE 0x10

struct perfx_allocation {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 address;
	__u64 size_bytes;
	__u32 process;
	__u32 tid;
	__u32 context;	 /* calling context of the innermost traced function; 0: none */
	__u32 stack;	 /* STACK record; 0: unknown */
	__u16 allocator; /* ALLOCATOR record */
	__u8 domain;	 /* enum perfx_domain */
	__u8 flags;	 /* PERFX_ALLOCATION_ */
	__u32 pad;
};
#define PERFX_FIELDS_allocation     \
	IS_TIME(time_ns)            \
	IS_ID(process, PROCESS)     \
	IS_ID(context, CONTEXT)     \
	IS_ID(allocator, ALLOCATOR) \
	IS_WITHIN(domain, PERFX_DOMAIN_HOST, PERFX_DOMAINS - 1)

/* `realloc` has begun: the block is set aside, because its address may be reused before the call
 * returns. An allocation with RESIZED or one of the next two flags completes it. */
#define PERFX_FREE_REALLOC_BEGIN 0x1
#define PERFX_FREE_RESTORED	 0x2 /* realloc failed: the block is unchanged */
#define PERFX_FREE_SETTLED	 0x4 /* realloc to size 0: the block is freed */
#define PERFX_FREE_MAPPED	 0x8 /* munmap: [address, address + size_bytes) */

struct perfx_free {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 address;
	__u64 size_bytes; /* MAPPED: unmapped bytes; otherwise 0, the whole block */
	__u32 process;
	__u32 tid;
	__u16 allocator;
	__u8 domain;
	__u8 flags; /* PERFX_FREE_ */
	__u32 pad;
};
#define PERFX_FIELDS_free           \
	IS_TIME(time_ns)            \
	IS_ID(process, PROCESS)     \
	IS_ID(allocator, ALLOCATOR) \
	IS_WITHIN(domain, PERFX_DOMAIN_HOST, PERFX_DOMAINS - 1)

/* strings: name ("libc", "jemalloc", "torch", …), module (path of the probed file) */
#define PERFX_ALLOCATOR_MMAP 2047 /* the program's own mmap, mremap, brk */

struct perfx_allocator {
	struct perfx_record hdr;
	__u16 allocator;
	__u8 domain; /* enum perfx_domain */
	__u8 pad[5];
};
#define PERFX_FIELDS_allocator      \
	IS_ID(allocator, ALLOCATOR) \
	IS_WITHIN(domain, PERFX_DOMAIN_HOST, PERFX_DOMAINS - 1)

enum perfx_memory_level {
	PERFX_MEMORY_OFF = 0,	     /* nothing is recorded */
	PERFX_MEMORY_EXACT = 1,	     /* every allocation, every free */
	PERFX_MEMORY_SAMPLED = 2,    /* a sample by bytes, and its frees */
	PERFX_MEMORY_SAMPLED_IN = 3, /* a sample by bytes, without frees: live bytes are unknown */
	/* every allocation; a block counts as freed when its memory is allocated again */
	PERFX_MEMORY_FREES_INFERRED = 4,
};

#define PERFX_MEMORY_IS_SAMPLED(level) \
	((level) == PERFX_MEMORY_SAMPLED || (level) == PERFX_MEMORY_SAMPLED_IN)

/*
 * How a domain is recorded from now on, for all processes. Sampled: by a Poisson process over the
 * bytes that a thread allocates, with one point every sample_bytes on average; an allocation of S
 * bytes is in the sample with probability 1 - exp(-S / sample_bytes). Duty-cycled: during on_ns of
 * each period_ns.
 */
struct perfx_memory_mode {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 sample_bytes;
	__u64 on_ns, period_ns; /* equal: always */
	__u8 domain;		/* enum perfx_domain */
	__u8 level;		/* enum perfx_memory_level */
	__u8 pad[2];
	__u32 merged; /* for the processes of this capture; 0: for all */
};
#define PERFX_FIELDS_memory_mode                                        \
	IS_TIME(time_ns)                                                \
	IS_WITHIN(domain, PERFX_DOMAIN_HOST, PERFX_DOMAINS - 1)         \
	IS_WITHIN(level, PERFX_MEMORY_OFF, PERFX_MEMORY_FREES_INFERRED) \
	IS_TRUE(record->on_ns <= record->period_ns)

/* Losses before the capture began, of unknown size. */
#define PERFX_BEFORE_LOST_ALLOCS 0x1
#define PERFX_BEFORE_LOST_FREES	 0x2
#define PERFX_BEFORE_BLIND	 0x4 /* frees were not recorded: live blocks are unknown */

/* Dropped records of the memory ring: exact sums. Live bytes and peak become bounds. */
struct perfx_overflow_memory {
	struct perfx_record hdr;
	__u32 process;
	__u8 domain;
	__u8 before; /* PERFX_BEFORE_ */
	__u8 pad[2];
	__u64 allocs_count, allocated_bytes;
	__u64 frees_count;
};
#define PERFX_FIELDS_overflow_memory \
	IS_ID(process, PROCESS)      \
	IS_WITHIN(domain, PERFX_DOMAIN_HOST, PERFX_DOMAINS - 1)

/* The parts of a process's resident memory. Each page is in one part. */
enum perfx_memory_part {
	PERFX_MEMORY_HEAP_USED = 0, /* blocks of allocators, and their own data */
	PERFX_MEMORY_HEAP_FREE = 1, /* freed, and kept by the allocator */
	PERFX_MEMORY_HEAP_MAPPED =
		2, /* large blocks of glibc's malloc, with mappings of their own */
	PERFX_MEMORY_PYTHON_USED = 3,  /* CPython's small objects */
	PERFX_MEMORY_PYTHON_FREE = 4,  /* the rest of its pools */
	PERFX_MEMORY_STACKS = 5,       /* of threads */
	PERFX_MEMORY_FILES = 6,	       /* mapped files, as they are on disk */
	PERFX_MEMORY_FILES_DATA = 7,   /* their private copies: data of libraries */
	PERFX_MEMORY_SHARED = 8,       /* /dev/shm, memfd, shared anonymous mappings */
	PERFX_MEMORY_HUGE_PADDING = 9, /* parts of huge pages that hold zeros only: an estimate */
	PERFX_MEMORY_INHERITED = 10,   /* of a forked child: still shared since the fork */
	PERFX_MEMORY_COPIED = 11,      /* of a forked child: its own copies of such pages */
	PERFX_MEMORY_OTHER = 12,       /* anonymous mappings of unknown owners */
	PERFX_MEMORY_PARTS = 13,
};
#define PERFX_MEMORY_PARTS_MAX 16

#define PERFX_MEMORY_SUM_GLIBC	      0x1 /* heap_ fields are known */
#define PERFX_MEMORY_SUM_PYTHON	      0x2 /* python_ fields are known */
#define PERFX_MEMORY_SUM_PROPORTIONAL 0x4 /* proportional[] is known */
#define PERFX_MEMORY_SUM_ROUGH	      0x8 /* a heap changed while it was read */
/* Other heaps that were read; allocators that are mapped and of which no heap could be read. */
#define PERFX_MEMORY_SUM_JEMALLOC	 0x10
#define PERFX_MEMORY_SUM_TCMALLOC	 0x20
#define PERFX_MEMORY_SUM_MIMALLOC	 0x40
#define PERFX_MEMORY_SUM_HEAPS		 0x71 /* any of those that were read */
#define PERFX_MEMORY_SUM_GLIBC_UNREAD	 0x80
#define PERFX_MEMORY_SUM_JEMALLOC_UNREAD 0x100
#define PERFX_MEMORY_SUM_TCMALLOC_UNREAD 0x200
#define PERFX_MEMORY_SUM_MIMALLOC_UNREAD 0x400
#define PERFX_MEMORY_SUM_UNREAD		 0x780 /* any of those that were not */

/* The memory of a process at one moment, read from outside. Bytes; UINT64_MAX: not known. */
struct perfx_memory_sum {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 read_ns; /* CPU time of reading it */
	__u32 process;
	__u32 flags;	      /* PERFX_MEMORY_SUM_ */
	__u64 reserved_bytes; /* of address space that may be written, touched or not */
	__u64 private_bytes, swapped_bytes, huge_bytes;
	__u64 heap_held_bytes, heap_free_bytes; /* of glibc's arenas, resident or not */
	__u64 heap_mapped_bytes;		/* blocks with mappings of their own */
	__u64 heap_arenas_count;
	__u64 python_blocks_count;
	__u64 other_heaps_held_bytes, other_heaps_free_bytes; /* of other allocators' heaps */
	__u64 mappings_count;				      /* 0: not counted */
	__u64 resident[PERFX_MEMORY_PARTS_MAX];
	/* a page that n processes map counts as an n-th */
	__u64 proportional[PERFX_MEMORY_PARTS_MAX];
};
#define PERFX_FIELDS_memory_sum \
	IS_TIME(time_ns)        \
	IS_ID(process, PROCESS)

#endif
