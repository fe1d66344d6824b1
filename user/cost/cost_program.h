/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The language of costs (operations and bytes of a call), and its compiler to the small programs
 * that run at a function's entry and exit (include/perfx_cost.h). A cost is a list of statements,
 * separated by ';':
 *
 *	flops = EXPR            operations, one multiply-add being 2; several add up
 *	bytes = EXPR            bytes touched, operands and result each once
 *	dtype = f32             the type of the factors: f64 f32 tf32 f16 bf16 f8 c128 c64 integer,
 *or dtype = cuda(EXPR)      a cudaDataType; without, it is that of the last tensor that is read let
 *NAME = EXPR         names a value for the statements that follow same(EXPR, EXPR)        no known
 *cost for this call unless they are equal note(KEY, EXPR, EXPR)   remembers two values of a key for
 *this process (a handle's contents) int = 64                the width of int() from here on: 32
 *bits (the default) or 64 slot                    the function returns an object in memory (a C++
 *class): the first register has its place, so the arguments begin at the second kernel an
 *operator's worker: on a pool thread its work is the operator's worker                  a kernel
 *whose work is in the costs of XLA's operations, where these can be read leaf calls nothing else
 *that has a known cost shared                  a kernel of XLA's operations and of others: on a
 *pool thread its work is in XLA's, where the process runs such submits                 submits its
 *work and returns: its duration is not that of the work moves                   moves data: has
 *bytes and no flops, and owns no nested call launch(kernel, gridxy, gridz, blockxy, blockz, shared)
 *a kernel is launched: its stub's address or its handle; two sizes of the grid and the block in one
 *	launch_by_stub(…)       the same, by the stub itself: it is known when the handle is not
 *	graph(handle)           a graph is launched
 *	copy(WHERE, EXPR)       bytes are copied: host_to_device device_to_host device_to_device
 *	                        host_to_host peer unknown, kind(a cudaMemcpyKind), types(two of
 *	                        CUmemorytype: source, destination); or set: memset
 *	wait                    waits for submitted work: calls inside are a part of it
 *	kernel_name(handle, text)   a kernel's handle has the name at this address
 *	kernel_alias(handle, other)   a handle is that of another, or of a stub
 *	exit                    the statements that follow run when the function returns: arguments
 *	                        are gone then, values with a name are kept (at most four; with slot
 *	                        the result is one of them)
 *
 * Values are 64-bit and unsigned; what overflows, is below zero or does not divide evenly makes the
 * cost fail, as do a bad address and a dimension below zero: such a call has none.
 *
 *	12  a + b  a - b  a * b  a / b  (a)  NAME
 *	argN                    N-th argument in a register, from 1 (integers and pointers: 6)
 *	stackN                  N-th 8 bytes of the caller's stack arguments, from 1
 *	result                  what the function returns, after exit
 *	int(a) i32(a) i64(a)    a as a signed dimension; *int(a) …: of the one at address a, as in
 *	                        Fortran
 *	u8(a) u16(a) u32(a)     the low bits: the rest of the register is junk
 *	load8(a) … load64(a)    unsigned, at an address
 *	pair(a, b)              the low 32 bits of a, and above them those of b
 *	eq(a, b)                1 or 0
 *	select(c, a, b)         a if c is not 0, else b; both are worked out
 *	same(a, b)              a, if they are equal
 *	numel(t) ndim(t) elem(t) size(t, i)   of the at::Tensor at address t: elements, dimensions,
 *	                        bytes an element, size (from the last when i < 0)
 *	complex(t)              4 when its numbers are complex, for a multiply-add of these is 4
 *	maybe(t)                as t; a tensor that is not there has no elements
 *	groups(m, n, k, s, c)   sum of m[i]*n[i]*k[i]*s[i] over c groups, arrays of int()
 *	noted0(key) noted1(key) the values of note()
 */
#ifndef PERFX_COST_COST_PROGRAM_H
#define PERFX_COST_COST_PROGRAM_H

#include "perfx_cost.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0; -EINVAL with a one-line reason in why, which says where and what to do. */
int cost_compile(const char *text, struct perfx_cost_program *cost, char *why, size_t why_size);

/* The argument registers that the program reads at the entry: bit 0 rdi … 5 r9. */
uint8_t cost_argument_regs(const struct perfx_cost_program *cost);
/* Does a part of the program run when the function returns? */
bool cost_has_exit(const struct perfx_cost_program *cost);
/* Does that part read the register with the function's result? */
bool cost_reads_result(const struct perfx_cost_program *cost);

#endif
