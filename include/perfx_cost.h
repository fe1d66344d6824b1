/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many floating-point operations a call does, and how many bytes it touches, is given by its
 * arguments. What to read and how to multiply it is a small program for the cost VM, made by
 * user/cost from one line of text for each kind of function and run by bpf/cost.bpf.h at the
 * function's entry and, where the result must be looked at, at its exit. Not part of a capture.
 *
 * Values are unsigned 64-bit. A program that fails (an address that cannot be read, a tensor that
 * is none, SAME of what differs, a product that overflows, a negative or absurd dimension) leaves
 * no known cost: the call is counted as unread, never guessed.
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
	/* [-- value] of argument register n where the entry site has it: 1 rdi, 2 rsi, 3 rdx, 4
	 * rcx, 5 r8, 6 r9, 7 rax. At exits: n = 7 is the result; the others are gone. */
	PERFX_OP_ARG,
	/* [-- value] of stack argument n, from 1: u64 at ret_addr_sp + 8 n, where the return
	 * address lies. Entry programs only. */
	PERFX_OP_STACK,
	PERFX_OP_KEEP, /* [v --] until the exit, in place n < PERFX_COST_KEPT */
	PERFX_OP_KEPT, /* [-- v] */
	/* [address -- value at address + (signed) imm]; n = bytes: 1, 2, 4 unsigned, 8; 4 with
	 * PERFX_OP_SIGNED added: sign-extended */
	PERFX_OP_LOAD,
	/* [v -- v as a dimension]: n = bytes that it has, 4 or 8, signed. Fails when negative or
	 * above PERFX_COST_DIM_MAX. */
	PERFX_OP_DIM,
	PERFX_OP_LOW, /* [v -- v & (2^(8n) - 1)] n < 8: what an argument's upper bits hold is junk
		       */
	PERFX_OP_ADD, /* [a b -- a+b] fails on overflow, as do SUB (below 0) and MUL */
	PERFX_OP_SUB, /* [a b -- a-b] */
	PERFX_OP_MUL, /* [a b -- a*b] */
	PERFX_OP_DIV, /* [a b -- a/b] fails unless it goes into a */
	PERFX_OP_EQ,  /* [a b -- a==b] */
	PERFX_OP_SELECT, /* [c a b -- c ? a : b] */
	PERFX_OP_PAIR,	 /* [a b -- low 32 bits of a, and above them those of b] */
	PERFX_OP_SAME,	 /* [a b -- a] fails unless a == b */
	/* [address of an at::Tensor --] reads what it refers to into tensor n <
	 * PERFX_COST_TENSORS, checked: product of sizes == numel, at most 8 dimensions, elements
	 * in memory (not so: meta, fake, sparse, wrappers, those of vmap). The last
	 * TENSOR of dimension > 0 of a program decides the dtype, unless it has DTYPE. */
	PERFX_OP_TENSOR,
	/* As TENSOR, but an undefined tensor is one of no elements (optional results). */
	PERFX_OP_TENSOR_OR_NONE,
	PERFX_OP_NUMEL, /* [-- elements of tensor n] */
	PERFX_OP_NDIM,	/* [-- dimensions of tensor n] */
	/* [-- size imm of tensor n]; imm < 0 counts from the last, as in Python; fails outside */
	PERFX_OP_SIZE,
	PERFX_OP_ELEMENT, /* [-- bytes of an element of tensor n] fails for unknown types */
	PERFX_OP_COMPLEX, /* [-- 4 when tensor n is complex (a multiply-add is 4), otherwise 1] */
	/* [m n k sizes count -- sum of m[i]*n[i]*k[i]*sizes[i]]: addresses of arrays of integers of
	 * n bytes (4, 8), count <= PERFX_COST_GROUPS: the batched calls of BLAS */
	PERFX_OP_GROUPS,
	/* [key a b --] remembers two values for key in this process (a handle whose contents are
	 * not public), NOTED0/1: [key -- a], [key -- b]; fails where nothing was noted */
	PERFX_OP_NOTE,
	PERFX_OP_NOTED0,
	PERFX_OP_NOTED1,
	/* [key --] of what has been moved so far, what goes over the busiest link of a collective
	 * (enum perfx_bus n) among as many ranks as the first value noted for key; nothing
	 * where none was noted. ONCE takes no key. */
	PERFX_OP_BUS,
	/* What a call hands to a device (bpf/gpu.bpf.h), counted unless a call around it is
	 * already: [kernel gridxy gridz blockxy blockz shared --], [graph --] */
	PERFX_OP_LAUNCH,
	PERFX_OP_LAUNCH_BY_STUB, /* the caller is the stub, where the handle is not known */
	PERFX_OP_GRAPH,
	/* [bytes --] where n is an enum perfx_gpu_direction; otherwise enum perfx_copy */
	PERFX_OP_COPY,
	/* A kernel's handle has the name at this address; is another's, or of this stub:
	 * [handle address --], [handle other --] */
	PERFX_OP_KERNEL_NAME,
	PERFX_OP_KERNEL_ALIAS,
	PERFX_OP_DTYPE, /* sets the dtype to n, enum perfx_dtype; 0: of the value [t --], which is a
			   cudaDataType */
	PERFX_OP_FLOPS, /* [v --] adds to the cost */
	PERFX_OP_BYTES, /* [v --] adds to the bytes */
	PERFX_OPS
};
#define PERFX_OP_SIGNED 0x80

/*
 * How often the bytes of a collective among n ranks pass a link, whatever the algorithm: what
 * nccl-tests (doc/PERFORMANCE.md) multiply by to get bus bandwidth, comparable with the hardware's.
 */
enum perfx_bus {
	PERFX_BUS_ONCE = 1,   /* 1: broadcast, reduce, send, recv */
	PERFX_BUS_OTHERS = 2, /* n - 1: of a rank's own part, to or from each other rank */
	PERFX_BUS_RING = 3,   /* 2 (n - 1) / n: all-reduce */
};

/* COPY: what else decides its direction. */
enum perfx_copy {
	PERFX_COPY_MEMSET = 16, /* [bytes --] it is none */
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

/* Work that a pool thread may do for an operator open on another thread: BLAS. */
#define PERFX_COST_F_KERNEL 0x1
/* No cost of its own: remembers or counts something (NOTE, LAUNCH, …). */
#define PERFX_COST_F_NOTES 0x2
/* Moves data, as a collective does: no operation at all; its flops are bytes over the bus. Owns no
 * nested call. */
#define PERFX_COST_F_MOVES 0x4
/* Calls nothing else that has a known cost: its own is known even where its end is not seen. */
#define PERFX_COST_F_LEAF 0x8
/* A worker of operations whose own costs are read from objects (perfx_object): as long as those
 * are read, what it does is in them, whichever thread it runs on. */
#define PERFX_COST_F_WORKER 0x10
/* Hands its work over and returns: its duration is not that of the work. */
#define PERFX_COST_F_SUBMITS 0x20
/* Hands work to a device, or waits for it: what it calls for that is a part of it. */
#define PERFX_COST_F_DEVICE 0x40
/* Works for operations whose own costs are read from objects, and for others: on a pool thread it
 * is a worker of objects in a process that runs such. */
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
 * storage_offset_, numel_, data_type_, device_opt_, key_set_); where that lies changes with the
 * release. Found by trying: it must give at most 8 dimensions, sizes whose product is numel, and a
 * known data type.
 */
#define PERFX_TENSOR_FIRST   40 /* bytes; candidates every 8 */
#define PERFX_TENSOR_LAYOUTS 8	/* 40 … 96 */
#define PERFX_TENSOR_SIZES   8	/* 5 in place; a pointer to them when there are more */
#define PERFX_TENSOR_NUMEL   96
#define PERFX_TENSOR_DTYPE   104
#define PERFX_TENSOR_KEYS    112
#define PERFX_TENSOR_INLINE  5

/*
 * A TensorImpl and its StorageImpl begin with the table of their class and their counts of
 * references: one word, in older releases two. A tensor's storage comes next, and of a storage the
 * address of the data. A count of references is smaller than any address.
 */
#define PERFX_TENSOR_STORAGE	 16 /* bytes; with two words of counts 24 */
#define PERFX_TENSOR_ADDRESS_MIN 65536

/* DispatchKey::MkldnnCPU: bit 21 in 1.13, 22 later, and no bit of a backend
 * (c10/core/DispatchKey.h)
 */
#define PERFX_TENSOR_ONEDNN_KEYS  (3ull << 21)
#define PERFX_TENSOR_BACKEND_KEYS 0x1fffull
/* Of these all but the CPU's are of devices, which work while the program goes on. */
#define PERFX_TENSOR_DEVICE_KEYS 0x1ffeull

#endif
