/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A call's arguments determine its floating-point operations and bytes. A cost program, for the
 * small cost VM, says what to read and multiply. user/cost compiles it from one line of text per
 * kind of function; bpf/cost.bpf.h runs it at the function's entry and, if the result is needed, at
 * its exit. Not part of a capture.
 *
 * Values are unsigned 64-bit. A program fails on an unreadable address, an invalid tensor, SAME of
 * different values, an overflow, or a negative or absurd dimension. The call then counts as unread;
 * nothing is guessed.
 */
#ifndef PERFX_COST_H
#define PERFX_COST_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* One byte of operation, one of operand `n`, four of immediate `imm`. Stack effects in brackets,
 * top to the right. */
enum perfx_op {
	PERFX_OP_END = 0,
	PERFX_OP_CONST, /* [-- imm] */
	/* [-- value] of argument register n at the entry site: 1 rdi, 2 rsi, 3 rdx, 4 rcx, 5 r8,
	 * 6 r9, 7 rax. At exits: n = 7 is the result; the others are gone. */
	PERFX_OP_ARG,
	/* [-- value] of stack argument n, from 1: u64 at ret_addr_sp + 8 n, where the return
	 * address lies. Entry programs only. */
	PERFX_OP_STACK,
	PERFX_OP_KEEP, /* [v --] until the exit, as value n < PERFX_COST_KEPT */
	PERFX_OP_KEPT, /* [-- v] */
	/* [address -- value at address + (signed) imm]; n = bytes: 1, 2, 4 unsigned, 8; 4 with
	 * PERFX_OP_SIGNED added: sign-extended */
	PERFX_OP_LOAD,
	/* [v -- v as a dimension]: signed, of n bytes, 4 or 8. Fails if negative or above
	 * PERFX_COST_DIM_MAX. */
	PERFX_OP_DIM,
	PERFX_OP_LOW, /* [v -- v & (2^(8n) - 1)] n < 8: the upper bits of arguments are undefined */
	PERFX_OP_ADD, /* [a b -- a+b] fails on overflow, as do SUB (below 0) and MUL */
	PERFX_OP_SUB, /* [a b -- a-b] */
	PERFX_OP_MUL, /* [a b -- a*b] */
	PERFX_OP_DIV, /* [a b -- a/b] fails if there is a remainder */
	PERFX_OP_EQ,  /* [a b -- a==b] */
	PERFX_OP_SELECT, /* [c a b -- c ? a : b] */
	PERFX_OP_PAIR,	 /* [a b -- low 32 bits of a, and above them the low 32 bits of b] */
	PERFX_OP_SAME,	 /* [a b -- a] fails unless a == b */
	/* [address of an at::Tensor --] reads its TensorImpl into tensor n < PERFX_COST_TENSORS,
	 * checked: product of sizes == numel, at most 8 dimensions, elements in memory (not of
	 * meta, fake and sparse tensors, wrappers, and under vmap). The last TENSOR of dimension
	 * > 0 of a program decides the dtype, unless the program has DTYPE. */
	PERFX_OP_TENSOR,
	/* As TENSOR, but an undefined tensor is one of no elements (optional results). */
	PERFX_OP_TENSOR_OR_NONE,
	PERFX_OP_NUMEL, /* [-- elements of tensor n] */
	PERFX_OP_NDIM,	/* [-- dimensions of tensor n] */
	/* [-- size imm of tensor n]; imm < 0 counts from the last, as in Python; fails outside */
	PERFX_OP_SIZE,
	PERFX_OP_ELEMENT, /* [-- bytes of an element of tensor n] fails for unknown types */
	PERFX_OP_COMPLEX, /* [-- 4 if tensor n is complex: 4 real multiply-adds; else 1] */
	/* [m n k sizes count -- sum of m[i]*n[i]*k[i]*sizes[i]]: addresses of arrays of integers of
	 * n bytes (4, 8), count <= PERFX_COST_GROUPS: the batched calls of BLAS */
	PERFX_OP_GROUPS,
	/* [key a b --] stores two values for key in this process (a handle whose contents are not
	 * public). NOTED0/1: [key -- a], [key -- b]; fails if nothing is stored. */
	PERFX_OP_NOTE,
	PERFX_OP_NOTED0,
	PERFX_OP_NOTED1,
	/* [key --] computes the bytes on the busiest link of a collective from its bytes so far:
	 * enum perfx_bus n, with the first value noted for key as the number of ranks; none if
	 * nothing is noted. ONCE has no key. */
	PERFX_OP_BUS,
	/* Work that a call hands to a device (bpf/gpu.bpf.h), counted once per outermost call:
	 * [kernel gridxy gridz blockxy blockz shared --], [graph --] */
	PERFX_OP_LAUNCH,
	PERFX_OP_LAUNCH_BY_STUB, /* the caller is the stub, if the handle is unknown */
	PERFX_OP_GRAPH,
	/* [bytes --] where n is an enum perfx_gpu_direction; otherwise enum perfx_copy */
	PERFX_OP_COPY,
	/* NAME [handle address --]: a kernel's handle has the name at this address. ALIAS [handle
	 * other --]: it is the kernel of another handle or stub. */
	PERFX_OP_KERNEL_NAME,
	PERFX_OP_KERNEL_ALIAS,
	PERFX_OP_DTYPE, /* sets the dtype to n, enum perfx_dtype; 0: from [t --], a cudaDataType */
	PERFX_OP_FLOPS, /* [v --] adds to the cost */
	PERFX_OP_BYTES, /* [v --] adds to the bytes */
	PERFX_OPS
};
#define PERFX_OP_SIGNED 0x80

/*
 * How often the bytes of a collective among n ranks pass a link. The factor does not depend on the
 * algorithm: nccl-tests (doc/PERFORMANCE.md) use it to compare bandwidth with the hardware's.
 */
enum perfx_bus {
	PERFX_BUS_ONCE = 1,   /* 1: broadcast, reduce, send, recv */
	PERFX_BUS_OTHERS = 2, /* n - 1: a rank's own part, to or from each other rank */
	PERFX_BUS_RING = 3,   /* 2 (n - 1) / n: all-reduce */
};

/* COPY: other sources of its direction. */
enum perfx_copy {
	PERFX_COPY_MEMSET = 16, /* [bytes --] a memset */
	PERFX_COPY_KIND = 17,	/* [cudaMemcpyKind bytes --] */
	PERFX_COPY_TYPES = 18,	/* [CUmemorytype of the source, of the destination bytes --] */
};

#define PERFX_COST_CODE_MAX 64 /* instructions of a program, both parts */
#define PERFX_COST_DEPTH    8  /* values on its stack */
#define PERFX_COST_KEPT	    4
#define PERFX_COST_TENSORS  3
#define PERFX_COST_GROUPS   64
#define PERFX_COST_DIM_MAX  (1ull << 40)
#define PERFX_COST_DIMS_MAX 8 /* dimensions of a tensor */

struct perfx_instruction {
	__u8 op; /* enum perfx_op */
	__u8 n;
	__u16 pad;
	__s32 imm;
};

/* A pool thread may run it for an operator that is open on another thread: BLAS. */
#define PERFX_COST_F_KERNEL 0x1
/* No cost of its own: only NOTE, LAUNCH, … */
#define PERFX_COST_F_NOTES 0x2
/* Moves data, as a collective does: no operations; its flops are bytes over the bus. Nested calls
 * keep their own cost. */
#define PERFX_COST_F_MOVES 0x4
/* Calls nothing else with a known cost: its own is known even without its exit. */
#define PERFX_COST_F_LEAF 0x8
/* A worker of operations whose costs are read from objects (perfx_object). If these are readable,
 * they contain its work, on any thread. */
#define PERFX_COST_F_WORKER 0x10
/* Submits its work and returns: its duration is not that of the work. */
#define PERFX_COST_F_SUBMITS 0x20
/* Hands work to a device, or waits for it: nested calls of this kind are part of it. */
#define PERFX_COST_F_DEVICE 0x40
/* Works for operations whose costs are read from objects, and for others: on a pool thread it
 * counts as WORKER if the process runs such objects. */
#define PERFX_COST_F_SHARED 0x80

struct perfx_cost_program {
	__u16 entry_count; /* instructions run at entry: code[0, entry_count) */
	__u16 count;	   /* the rest at exit, when > entry_count */
	__u32 flags;	   /* PERFX_COST_F_ */
	struct perfx_instruction code[PERFX_COST_CODE_MAX];
};

#define PERFX_MAX_COST_PROGRAMS 1024 /* distinct programs; 0 is none */

/*
 * A TensorImpl's fields lie at these distances from its number of dimensions
 * (c10/core/TensorImpl.h: SizesAndStrides {size, inline or pointed-to sizes[5], strides[5]},
 * storage_offset_, numel_, data_type_, device_opt_, key_set_). The place of the number depends on
 * the release. It is found by trying each candidate, which must give at most 8 dimensions, sizes
 * whose product is numel, and a known data type.
 */
#define PERFX_TENSOR_FIRST   40 /* bytes; candidates every 8 */
#define PERFX_TENSOR_LAYOUTS 8	/* 40 … 96 */
#define PERFX_TENSOR_SIZES   8	/* 5 in place; a pointer to them when there are more */
#define PERFX_TENSOR_NUMEL   96
#define PERFX_TENSOR_DTYPE   104
#define PERFX_TENSOR_KEYS    112
#define PERFX_TENSOR_INLINE  5

/*
 * A TensorImpl and its StorageImpl begin with the vtable and the reference counts: one word, in
 * older releases two. Next come a tensor's storage and a storage's data address. Reference counts
 * are smaller than any address.
 */
#define PERFX_TENSOR_STORAGE	 16 /* bytes; with two words of counts 24 */
#define PERFX_TENSOR_ADDRESS_MIN 65536

/* DispatchKey::MkldnnCPU: bit 21 in 1.13, 22 later, and no bit of a backend
 * (c10/core/DispatchKey.h)
 */
#define PERFX_TENSOR_ONEDNN_KEYS  (3ull << 21)
#define PERFX_TENSOR_BACKEND_KEYS 0x1fffull
/* All backends but the CPU: devices that work asynchronously. */
#define PERFX_TENSOR_DEVICE_KEYS 0x1ffeull

#endif
