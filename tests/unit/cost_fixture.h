/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A call as its cost program sees it, and what the program makes of it: written from
 * include/perfx_cost.h, not from the interpreter in bpf/. Addresses are this process's own.
 */
#ifndef COST_FIXTURE_H
#define COST_FIXTURE_H

#include "cost/builtin.h"
#include "cost/cost_program.h"
#include "perfx_record.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

/* c10::ScalarType */
enum { F16 = 5, F32 = 6, F64 = 7, C64 = 9, C128 = 10, BF16 = 15, F8 = 24 };

/* As a release's TensorImpl; an at::Tensor is a pointer to one. */
struct tensor_impl {
	char before[56];
	uint64_t ndim;
	int64_t sizes[5], strides[5];
	int64_t storage_offset, numel;
	uint16_t dtype;
};

struct tensor {
	struct tensor_impl *impl;
	struct tensor_impl own;
};

struct call {
	uint64_t args[8];   /* from 1; at the exit 7 is the result */
	uint64_t stack[24]; /* from 1 */
	uint64_t result;
};

struct outcome {
	bool ok;
	uint64_t flops, bytes;
	int dtype;
};

static struct {
	uint64_t key, a, b;
} noted[64];
static size_t noted_count;

static inline uint64_t address(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static inline struct tensor *tensor_make(struct tensor *tensor, int dtype, const int64_t *sizes,
					 size_t ndim)
{
	memset(tensor, 0, sizeof(*tensor));
	tensor->impl = &tensor->own;
	tensor->own.ndim = ndim;
	tensor->own.numel = 1;
	tensor->own.dtype = (uint16_t)dtype;
	for (size_t i = 0; i < ndim; i++) {
		tensor->own.sizes[i] = sizes[i];
		tensor->own.numel *= sizes[i];
	}
	return tensor;
}

#define TENSOR(dtype, ...)                                                              \
	address(tensor_make(&(struct tensor){0}, dtype, (const int64_t[]){__VA_ARGS__}, \
			    sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static int dtype_of_scalar(int scalar)
{
	switch (scalar) {
	case F16:
		return PERFX_DTYPE_F16;
	case F32:
		return PERFX_DTYPE_F32;
	case F64:
		return PERFX_DTYPE_F64;
	case C64:
		return PERFX_DTYPE_C64;
	case C128:
		return PERFX_DTYPE_C128;
	case BF16:
		return PERFX_DTYPE_BF16;
	case F8:
		return PERFX_DTYPE_F8;
	default:
		return PERFX_DTYPE_UNKNOWN;
	}
}

static uint64_t scalar_bytes(int scalar)
{
	static const struct {
		int scalar, bytes;
	} rows[] = {{F16, 2}, {F32, 4}, {F64, 8}, {C64, 8}, {C128, 16}, {BF16, 2}, {F8, 1}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].scalar == scalar)
			return (uint64_t)rows[i].bytes;
	return 0;
}

struct cost_vm {
	const struct call *call;
	bool at_exit, given;
	uint64_t stack[PERFX_COST_DEPTH], kept[PERFX_COST_KEPT];
	size_t depth;
	const struct tensor_impl *tensors[PERFX_COST_TENSORS];
	struct outcome outcome;
};

static inline void push(struct cost_vm *m, uint64_t value)
{
	cr_assert_lt(m->depth, PERFX_COST_DEPTH);
	m->stack[m->depth++] = value;
}

static inline uint64_t pop(struct cost_vm *m)
{
	cr_assert_gt(m->depth, 0);
	return m->stack[--m->depth];
}

static bool dimension(uint64_t value, unsigned bytes, uint64_t *out)
{
	int64_t v = bytes == 4 ? (int32_t)value : (int64_t)value;

	*out = (uint64_t)v;
	return v >= 0 && (uint64_t)v <= PERFX_COST_DIM_MAX;
}

static bool read_tensor(struct cost_vm *m, uint64_t at, unsigned n, bool or_none)
{
	static const struct tensor_impl none = {.numel = 0};
	const struct tensor_impl *impl;
	int64_t product = 1;

	cr_assert_lt(n, PERFX_COST_TENSORS);
	if (!at)
		return false;
	impl = *(const struct tensor_impl *const *)(uintptr_t)at;
	if (!impl) {
		m->tensors[n] = &none;
		return or_none;
	}
	for (uint64_t i = 0; i < impl->ndim; i++)
		product *= impl->sizes[i];
	m->tensors[n] = impl;
	if (impl->ndim && !m->given)
		m->outcome.dtype = dtype_of_scalar(impl->dtype);
	return product == impl->numel;
}

static bool sum_groups(struct cost_vm *m, unsigned bytes)
{
	uint64_t count = pop(m), sum = 0, arrays[4];

	for (int i = 3; i >= 0; i--)
		arrays[i] = pop(m);
	if (count > PERFX_COST_GROUPS)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t product = 1;

		for (int j = 0; j < 4; j++)
			product *= bytes == 4 ? ((const uint32_t *)(uintptr_t)arrays[j])[i]
					      : ((const uint64_t *)(uintptr_t)arrays[j])[i];
		sum += product;
	}
	push(m, sum);
	return true;
}

static bool arithmetic(struct cost_vm *m, enum perfx_op op)
{
	uint64_t b = pop(m), a = pop(m), result = 0;
	bool failed = false;

	if (op == PERFX_OP_ADD)
		failed = __builtin_add_overflow(a, b, &result);
	else if (op == PERFX_OP_SUB)
		failed = __builtin_sub_overflow(a, b, &result);
	else if (op == PERFX_OP_MUL)
		failed = __builtin_mul_overflow(a, b, &result);
	else if (op == PERFX_OP_DIV && (!b || a % b))
		failed = true;
	else if (op == PERFX_OP_DIV)
		result = a / b;
	else if (op == PERFX_OP_EQ)
		result = a == b;
	else {
		result = a; /* SAME */
		failed = a != b;
	}
	push(m, result);
	return !failed;
}

static bool load(struct cost_vm *m, const struct perfx_instruction *code)
{
	uint64_t at = pop(m) + (uint64_t)(int64_t)code->imm, value = 0;
	unsigned bytes = code->n & ~PERFX_OP_SIGNED;

	if (at < 4096)
		return false;
	memcpy(&value, (const void *)(uintptr_t)at, bytes);
	push(m, code->n & PERFX_OP_SIGNED ? (uint64_t)(int64_t)(int32_t)value : value);
	return true;
}

static bool of_tensor(struct cost_vm *m, const struct perfx_instruction *code)
{
	const struct tensor_impl *impl = m->tensors[code->n];
	int64_t index = code->imm;

	cr_assert_not_null(impl, "a tensor that was not read");
	switch (code->op) {
	case PERFX_OP_NUMEL:
		push(m, (uint64_t)impl->numel);
		return true;
	case PERFX_OP_NDIM:
		push(m, impl->ndim);
		return true;
	case PERFX_OP_ELEMENT:
		push(m, scalar_bytes(impl->dtype));
		return !impl->numel || scalar_bytes(impl->dtype);
	case PERFX_OP_COMPLEX:
		push(m, impl->dtype == C64 || impl->dtype == C128 ? 4 : 1);
		return true;
	default:
		index += index < 0 ? (int64_t)impl->ndim : 0;
		push(m, index >= 0 && index < 5 ? (uint64_t)impl->sizes[index] : 0);
		return index >= 0 && (uint64_t)index < impl->ndim;
	}
}

static bool recall(struct cost_vm *m, enum perfx_op op)
{
	uint64_t key = pop(m);

	for (size_t i = noted_count; i-- > 0;)
		if (noted[i].key == key) {
			push(m, op == PERFX_OP_NOTED0 ? noted[i].a : noted[i].b);
			return true;
		}
	return false;
}

static bool step(struct cost_vm *m, const struct perfx_instruction *code)
{
	uint64_t a, b, c;

	switch (code->op) {
	case PERFX_OP_CONST:
		push(m, (uint64_t)code->imm);
		return true;
	case PERFX_OP_ARG:
		cr_assert(!m->at_exit || code->n == 7);
		push(m, m->at_exit ? m->call->result : m->call->args[code->n]);
		return true;
	case PERFX_OP_STACK:
		cr_assert(!m->at_exit);
		push(m, m->call->stack[code->n]);
		return true;
	case PERFX_OP_KEEP:
		cr_assert_lt(code->n, PERFX_COST_KEPT);
		m->kept[code->n] = pop(m);
		return true;
	case PERFX_OP_KEPT:
		cr_assert_lt(code->n, PERFX_COST_KEPT);
		push(m, m->kept[code->n]);
		return true;
	case PERFX_OP_LOAD:
		return load(m, code);
	case PERFX_OP_DIM:
		if (!dimension(pop(m), code->n, &a))
			return false;
		push(m, a);
		return true;
	case PERFX_OP_LOW:
		push(m, pop(m) & ((1ull << (8 * code->n)) - 1));
		return true;
	case PERFX_OP_ADD:
	case PERFX_OP_SUB:
	case PERFX_OP_MUL:
	case PERFX_OP_DIV:
	case PERFX_OP_EQ:
	case PERFX_OP_SAME:
		return arithmetic(m, (enum perfx_op)code->op);
	case PERFX_OP_SELECT:
		b = pop(m);
		a = pop(m);
		push(m, pop(m) ? a : b);
		return true;
	case PERFX_OP_TENSOR:
	case PERFX_OP_TENSOR_OR_NONE:
		return read_tensor(m, pop(m), code->n, code->op == PERFX_OP_TENSOR_OR_NONE);
	case PERFX_OP_NUMEL:
	case PERFX_OP_NDIM:
	case PERFX_OP_SIZE:
	case PERFX_OP_ELEMENT:
	case PERFX_OP_COMPLEX:
		return of_tensor(m, code);
	case PERFX_OP_GROUPS:
		return sum_groups(m, code->n);
	case PERFX_OP_NOTE:
		c = pop(m);
		b = pop(m);
		a = pop(m);
		cr_assert_lt(noted_count, sizeof(noted) / sizeof(noted[0]));
		noted[noted_count].key = a;
		noted[noted_count].a = b;
		noted[noted_count++].b = c;
		return true;
	case PERFX_OP_NOTED0:
	case PERFX_OP_NOTED1:
		return recall(m, (enum perfx_op)code->op);
	case PERFX_OP_BUS:
		b = m->outcome.bytes;
		a = 0;
		if (code->n != PERFX_BUS_ONCE && recall(m, PERFX_OP_NOTED0))
			a = pop(m);
		if (code->n == PERFX_BUS_ONCE)
			m->outcome.flops = b;
		else if (a)
			m->outcome.flops =
				code->n == PERFX_BUS_RING ? b * 2 * (a - 1) / a : b * (a - 1);
		return true;
	case PERFX_OP_DTYPE:
		a = code->n ? code->n : pop(m);
		/* as bpf/ does, for the types that the tests have */
		m->outcome.dtype = code->n   ? (int)a
				   : a == 0  ? PERFX_DTYPE_F32
				   : a == 2  ? PERFX_DTYPE_F16
				   : a == 5  ? PERFX_DTYPE_C128
				   : a == 14 ? PERFX_DTYPE_BF16
					     : PERFX_DTYPE_UNKNOWN;
		m->given = true;
		return true;
	case PERFX_OP_FLOPS:
		m->outcome.flops += pop(m);
		return true;
	case PERFX_OP_BYTES:
		m->outcome.bytes += pop(m);
		return true;
	default:
		cr_assert_fail("operation %d", code->op);
		return false;
	}
}

static struct outcome run_cost_program(const struct perfx_cost_program *cost,
				       const struct call *call)
{
	struct cost_vm m = {.call = call};

	for (size_t i = 0; i < cost->count; i++) {
		m.at_exit = i >= cost->entry_count;
		if (i == cost->entry_count) {
			cr_assert_eq(m.depth, 0);
			memset(m.tensors, 0, sizeof(m.tensors));
		}
		if (!step(&m, &cost->code[i]))
			return (struct outcome){.ok = false};
	}
	cr_assert_eq(m.depth, 0);
	m.outcome.ok = true;
	return m.outcome;
}

#endif
