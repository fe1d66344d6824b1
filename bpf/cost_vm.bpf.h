/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The cost VM of perfx_cost.h. user/cost has checked its programs: how deep their stack
 * gets, which of their tensors have been read. Indices are masked all the same, for the verifier
 * asks.
 */
#ifndef PERFX_COST_VM_BPF_H
#define PERFX_COST_VM_BPF_H

#include "tensor.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_COST_PROGRAMS);
	__type(key, __u32);
	__type(value, struct perfx_cost_program);
} perfx_cost_programs SEC(".maps");

/* What NOTE remembers. */
#define NOTES_MAX 8192

struct note_key {
	__u64 key;
	__u32 process, pad;
};

struct note {
	__u64 values[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, NOTES_MAX);
	__type(key, struct note_key);
	__type(value, struct note);
} perfx_notes SEC(".maps");

/* By cudaDataType (library_types.h). */
#define CUDA_TYPES 64 /* in no section of its own, which a table of 32 bytes gets */
static const __u8 cuda_dtypes[CUDA_TYPES] = {
	[0] = PERFX_DTYPE_F32,	    [1] = PERFX_DTYPE_F64,	[2] = PERFX_DTYPE_F16,
	[3] = PERFX_DTYPE_INTEGER,  [4] = PERFX_DTYPE_C64,	[5] = PERFX_DTYPE_C128,
	[6] = PERFX_DTYPE_F16,	    [7] = PERFX_DTYPE_INTEGER,	[8] = PERFX_DTYPE_INTEGER,
	[9] = PERFX_DTYPE_INTEGER,  [10] = PERFX_DTYPE_INTEGER, [11] = PERFX_DTYPE_INTEGER,
	[12] = PERFX_DTYPE_INTEGER, [13] = PERFX_DTYPE_INTEGER, [14] = PERFX_DTYPE_BF16,
	[15] = PERFX_DTYPE_BF16,    [16] = PERFX_DTYPE_INTEGER, [17] = PERFX_DTYPE_INTEGER,
	[18] = PERFX_DTYPE_INTEGER, [19] = PERFX_DTYPE_INTEGER, [20] = PERFX_DTYPE_INTEGER,
	[21] = PERFX_DTYPE_INTEGER, [22] = PERFX_DTYPE_INTEGER, [23] = PERFX_DTYPE_INTEGER,
	[24] = PERFX_DTYPE_INTEGER, [25] = PERFX_DTYPE_INTEGER, [26] = PERFX_DTYPE_INTEGER,
	[27] = PERFX_DTYPE_INTEGER, [28] = PERFX_DTYPE_F8,	[29] = PERFX_DTYPE_F8,
};

/* A dimension of 4 or 8 bytes, signed. */
static __always_inline bool to_dimension(__u64 *value, __u32 bytes)
{
	if (bytes == 4)
		*value = (__s64)(__s32)*value;
	return *value <= PERFX_COST_DIM_MAX; /* negative ones are huge */
}

static __always_inline __u64 *stack_at(struct cost_vm *m, __u32 index)
{
	return &m->stack[index & (PERFX_COST_DEPTH - 1)];
}

/* GROUPS: its five operands end at m->depth. Adds this group's product to m->words[0]; 0 or -1. */
__noinline int add_group(struct thread *t, __u32 group, __u32 bytes)
{
	__u64 product = 1;
	struct cost_vm *m;

	if (!t || (bytes != 4 && bytes != 8))
		return -1;
	m = &t->vm;
	for (int i = 0; i < 4; i++) {
		m->words[1] = 0;
		if (!read_user(&m->words[1], bytes,
			       *stack_at(m, m->depth - 5 + i) + group * bytes) ||
		    !to_dimension(&m->words[1], bytes) || !multiply(product, m->words[1], &product))
			return -1;
	}
	m->words[0] += product;
	return m->words[0] < product ? -1 : 0;
}

/* GROUPS: the sum goes to m->words[0]. 0 or -1. */
__noinline int sum_groups(struct thread *t, __u32 bytes)
{
	struct cost_vm *m;
	__u64 count;

	if (!t)
		return -1;
	m = &t->vm;
	m->words[0] = 0;
	count = *stack_at(m, m->depth - 1);
	if (count > PERFX_COST_GROUPS)
		return -1;
	for (__u32 group = 0; group < PERFX_COST_GROUPS; group++) {
		if (group >= count)
			break;
		if (add_group(t, group, bytes))
			return -1;
	}
	return 0;
}

/* NOTE: [key a b --] */
static __always_inline bool remember(struct thread *t, __u64 name, __u64 a, __u64 b)
{
	struct note_key key = {.key = name, .process = t->process};
	struct note note = {{a, b}};

	if (!bpf_map_update_elem(&perfx_notes, &key, &note, BPF_ANY))
		return true;
	counter_add(PERFX_COUNTER_MAP_FULL, 1);
	return false;
}

static __always_inline const struct note *recall(struct thread *t, __u64 name)
{
	struct note_key key = {.key = name, .process = t->process};

	return bpf_map_lookup_elem(&perfx_notes, &key);
}

/* A tensor's dtype is the call's, unless the program says which. */
static __always_inline void take_dtype(struct cost_vm *m, __u32 n)
{
	const struct tensor *tensor = &m->tensors[n & 3];

	if (!m->given_dtype && tensor->ndim && tensor->scalar < SCALARS_MAX)
		m->dtype = scalar_dtypes[tensor->scalar];
}

/* SIZE: as in Python, index < 0 counts from the last. */
static __always_inline bool size_at(const struct tensor *tensor, __s32 index, __u64 *size)
{
	if (index < 0)
		index += tensor->ndim;
	if (index < 0 || index >= (__s32)tensor->ndim)
		return false;
	*size = tensor->sizes[index & (PERFX_COST_DIMS_MAX - 1)];
	return true;
}

/* [address -- value] of 1, 2, 4 or 8 bytes. */
static __always_inline bool load(struct cost_vm *m, __u64 address, __u32 n, __u64 *value)
{
	__u32 bytes = n & 15;

	m->words[0] = 0;
	if (bytes > 8 || !read_user(m->words, bytes, address))
		return false;
	*value = n & PERFX_OP_SIGNED ? (__u64)(__s64)(__s32)m->words[0] : m->words[0];
	return true;
}

/* What an instruction does to the stack: takes so many values off it and puts one there. */
struct effect {
	__u64 result;
	__u32 taken, given;
};

/* Constants, arguments, memory. */
static __always_inline bool step_values(struct cost_vm *m, const struct perfx_instruction *code,
					__u64 b, bool at_exit, struct effect *e)
{
	__u32 n = code->n;

	switch (code->op) {
	case PERFX_OP_CONST:
		e->result = (__u64)(__s64)code->imm;
		return true;
	case PERFX_OP_ARG:
		e->result = m->arguments[n & 7];
		return !at_exit || n == 7;
	case PERFX_OP_STACK:
		if (at_exit || !read_user(m->words, 8, m->slot + 8 * n))
			return false;
		e->result = m->words[0];
		return true;
	case PERFX_OP_KEEP:
		e->taken = 1;
		e->given = 0;
		m->kept[n & 3] = b;
		return true;
	case PERFX_OP_KEPT:
		e->result = m->kept[n & 3];
		return true;
	case PERFX_OP_LOAD:
		e->taken = 1;
		return load(m, b + (__s64)code->imm, n, &e->result);
	default:
		return false;
	}
}

/* Of one value. */
static __always_inline bool step_checks(const struct perfx_instruction *code, __u64 b,
					struct effect *e)
{
	e->taken = 1;
	e->result = b;
	if (code->op == PERFX_OP_DIM)
		return to_dimension(&e->result, code->n);
	e->result &= (1ull << (8 * (code->n & 7))) - 1;
	return true;
}

static __always_inline bool step_arithmetic(struct cost_vm *m, __u32 op, __u64 a, __u64 b,
					    struct effect *e)
{
	e->taken = 2;
	switch (op) {
	case PERFX_OP_ADD:
		e->result = a + b;
		return e->result >= a;
	case PERFX_OP_SUB:
		e->result = a - b;
		return a >= b;
	case PERFX_OP_MUL:
		return multiply(a, b, &e->result);
	case PERFX_OP_DIV:
		if (!b || a % b)
			return false;
		e->result = a / b;
		return true;
	case PERFX_OP_EQ:
		e->result = a == b;
		return true;
	case PERFX_OP_SELECT:
		e->taken = 3;
		e->result = *stack_at(m, m->depth - 3) ? a : b;
		return true;
	case PERFX_OP_SAME:
		e->result = a;
		return a == b;
	default:
		return false;
	}
}

static __always_inline bool step_reads(struct thread *t, __u32 op, __u32 n, __u64 b,
				       struct effect *e)
{
	struct cost_vm *m = &t->vm;

	e->taken = 1;
	e->given = 0;
	if (op == PERFX_OP_TENSOR ? !read_tensor(t, b, n) : !read_tensor_or_none(t, b, n))
		return false;
	m->submits |= !!(m->tensors[n & 3].keys & PERFX_TENSOR_DEVICE_KEYS);
	/* an undefined one has a type of its own, which depends on the release */
	if (op == PERFX_OP_TENSOR || m->tensors[n & 3].numel)
		take_dtype(m, n);
	return true;
}

/* What is known of a tensor. */
static __always_inline bool step_tensor(const struct tensor *tensor,
					const struct perfx_instruction *code, struct effect *e)
{
	switch (code->op) {
	case PERFX_OP_NUMEL:
		e->result = tensor->numel;
		return true;
	case PERFX_OP_NDIM:
		e->result = tensor->ndim;
		return true;
	case PERFX_OP_SIZE:
		return size_at(tensor, code->imm, &e->result);
	case PERFX_OP_ELEMENT:
		e->result = scalar_bytes[tensor->scalar & (SCALARS_MAX - 1)];
		/* of no elements it does not matter */
		return e->result || !tensor->numel;
	case PERFX_OP_COMPLEX:
		e->result = is_complex(tensor->scalar) ? 4 : 1;
		return true;
	default:
		return false;
	}
}

static __always_inline bool step_groups(struct thread *t, __u32 bytes, struct effect *e)
{
	e->taken = 5;
	if (sum_groups(t, bytes))
		return false;
	e->result = t->vm.words[0];
	return true;
}

static __always_inline __u64 over_bus(__u64 bytes, __u32 kind, __u64 ranks)
{
	__u64 product;

	if (kind == PERFX_BUS_ONCE)
		return bytes;
	if (!ranks || !multiply(bytes, ranks - 1, &product))
		return 0;
	if (kind == PERFX_BUS_OTHERS)
		return product;
	return multiply(product, 2, &product) ? product / ranks : 0;
}

/* BUS: [key --] */
static __always_inline bool step_bus(struct thread *t, __u32 kind, __u64 key, struct effect *e)
{
	struct cost_vm *m = &t->vm;
	const struct note *note = NULL;

	e->taken = kind != PERFX_BUS_ONCE;
	e->given = 0;
	if (kind != PERFX_BUS_ONCE)
		note = recall(t, key);
	m->flops = over_bus(m->bytes, kind, note ? note->values[0] : 0);
	return true;
}

static __always_inline bool step_notes(struct thread *t, __u32 op, __u64 a, __u64 b,
				       struct effect *e)
{
	const struct note *note;

	if (op == PERFX_OP_NOTE) {
		e->taken = 3;
		e->given = 0;
		return remember(t, *stack_at(&t->vm, t->vm.depth - 3), a, b);
	}
	e->taken = 1;
	note = recall(t, b);
	if (!note)
		return false;
	e->result = op == PERFX_OP_NOTED0 ? note->values[0] : note->values[1];
	return true;
}

/* The results. */
static __always_inline bool step_results(struct cost_vm *m, const struct perfx_instruction *code,
					 __u64 b, struct effect *e)
{
	__u32 n = code->n;

	e->taken = 1;
	e->given = 0;
	switch (code->op) {
	case PERFX_OP_DTYPE:
		e->taken = !n;
		m->dtype = n ? n : b < CUDA_TYPES ? cuda_dtypes[b & (CUDA_TYPES - 1)] : 0;
		m->given_dtype = 1;
		return true;
	case PERFX_OP_FLOPS:
		m->flops += b;
		return m->flops >= b;
	case PERFX_OP_BYTES:
		m->bytes += b;
		return m->bytes >= b;
	default:
		return false;
	}
}

static __always_inline bool perform(struct thread *t, const struct perfx_instruction *code,
				    bool at_exit, struct effect *e)
{
	struct cost_vm *m = &t->vm;
	__u32 depth = m->depth;
	__u64 b = *stack_at(m, depth - 1), a = *stack_at(m, depth - 2);

	switch (code->op) {
	case PERFX_OP_CONST ... PERFX_OP_LOAD:
		return step_values(m, code, b, at_exit, e);
	case PERFX_OP_DIM ... PERFX_OP_LOW:
		return step_checks(code, b, e);
	case PERFX_OP_ADD ... PERFX_OP_SAME:
		return step_arithmetic(m, code->op, a, b, e);
	case PERFX_OP_TENSOR ... PERFX_OP_TENSOR_OR_NONE:
		return step_reads(t, code->op, code->n, b, e);
	case PERFX_OP_NUMEL ... PERFX_OP_COMPLEX:
		return step_tensor(&m->tensors[code->n & 3], code, e);
	case PERFX_OP_GROUPS:
		return step_groups(t, code->n, e);
	case PERFX_OP_NOTE ... PERFX_OP_NOTED1:
		return step_notes(t, code->op, a, b, e);
	case PERFX_OP_BUS:
		return step_bus(t, code->n, b, e);
	default:
		return step_results(m, code, b, e);
	}
}

/* Not static: the verifier walks it once, and not at every turn of run_cost_program's loop. 0 or
 * -1. */
__noinline int step(struct thread *t, const struct perfx_instruction *code, __u32 at_exit)
{
	struct effect e = {.given = 1};
	__u32 depth;

	if (!t || !code || !perform(t, code, at_exit, &e))
		return -1;
	depth = t->vm.depth - e.taken;
	if (e.given)
		*stack_at(&t->vm, depth++) = e.result;
	t->vm.depth = depth;
	return 0;
}

/* Bytes without operations are what collectives move; a product of nothing is not one of them. */
static __always_inline void settle_bytes(struct cost_vm *m, const struct perfx_cost_program *cost)
{
	if (!m->flops && !(cost->flags & PERFX_COST_F_MOVES))
		m->bytes = 0;
}

/*
 * Runs the entry or the exit part of a cost program on t->vm: arguments, slot, kept,
 * layouts, flops, bytes, dtype and given_dtype are the caller's. 0, or -1 where there is no known
 * cost.
 */
__noinline int run_cost_program(struct thread *t, __u32 index, __u32 at_exit)
{
	const struct perfx_cost_program *cost;
	struct cost_vm *m;
	__u32 end;

	cost = bpf_map_lookup_elem(&perfx_cost_programs, &index);
	if (!t || !cost)
		return -1;
	m = &t->vm;
	m->depth = 0;
	m->pc = at_exit ? cost->entry_count : 0;
	end = at_exit ? cost->count : cost->entry_count;
	for (int i = 0; i < PERFX_COST_CODE_MAX; i++) {
		__u32 pc = m->pc++;

		if (pc >= end) {
			if (end == cost->count)
				settle_bytes(m, cost);
			return 0;
		}
		if (step(t, &cost->code[pc & (PERFX_COST_CODE_MAX - 1)], at_exit))
			return -1;
	}
	settle_bytes(m, cost);
	return 0;
}

#endif
