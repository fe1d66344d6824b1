/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Cost of calls: the VM that runs the cost programs of perfx_cost.h, and the rules by which a call
 * has a cost of its own.
 *
 * user/cost has checked the programs: the depth of their stack, and that tensors are read before
 * use. Indices are masked nevertheless, because the verifier requires it.
 */
#ifndef PERFX_COST_BPF_H
#define PERFX_COST_BPF_H

#include "gpu.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_COST_PROGRAMS);
	__type(key, __u32);
	__type(value, struct perfx_cost_program);
} perfx_cost_programs SEC(".maps");

/* Values that NOTE stores. */
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
#define CUDA_TYPES 64 /* a table of 32 bytes would get a section of its own */
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
	return *value <= PERFX_COST_DIM_MAX; /* false for negative values */
}

/* GROUPS, whose five operands end at m->depth: adds one group's product to m->words[0]. 0 or -1. */
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

/* GROUPS: m->words[0] becomes the sum over all groups. 0 or -1. */
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

/* The call's dtype becomes the tensor's, unless the cost program gives one. */
static __always_inline void set_dtype(struct cost_vm *m, __u32 n)
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

/* Effect of an instruction on the stack: pops values, then pushes the result or nothing. */
struct effect {
	__u64 result;
	__u32 pops, pushes;
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
		if (at_exit || !read_user(m->words, 8, m->ret_addr_sp + 8 * n))
			return false;
		e->result = m->words[0];
		return true;
	case PERFX_OP_KEEP:
		e->pops = 1;
		e->pushes = 0;
		m->kept[n & 3] = b;
		return true;
	case PERFX_OP_KEPT:
		e->result = m->kept[n & 3];
		return true;
	case PERFX_OP_LOAD:
		e->pops = 1;
		return load(m, b + (__s64)code->imm, n, &e->result);
	default:
		return false;
	}
}

/* Checks and conversions of one value. */
static __always_inline bool step_checks(const struct perfx_instruction *code, __u64 b,
					struct effect *e)
{
	e->pops = 1;
	e->result = b;
	if (code->op == PERFX_OP_DIM)
		return to_dimension(&e->result, code->n);
	e->result &= (1ull << (8 * (code->n & 7))) - 1;
	return true;
}

static __always_inline bool step_arithmetic(struct cost_vm *m, __u32 op, __u64 a, __u64 b,
					    struct effect *e)
{
	e->pops = 2;
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
		e->pops = 3;
		e->result = *stack_at(m, m->depth - 3) ? a : b;
		return true;
	case PERFX_OP_PAIR:
		e->result = (__u32)a | b << 32;
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

	e->pops = 1;
	e->pushes = 0;
	if (op == PERFX_OP_TENSOR ? !read_tensor(t, b, n) : !read_tensor_or_none(t, b, n))
		return false;
	m->submits |= !!(m->tensors[n & 3].keys & PERFX_TENSOR_DEVICE_KEYS);
	/* an undefined tensor has a type of its own, which depends on the release */
	if (op == PERFX_OP_TENSOR || m->tensors[n & 3].numel)
		set_dtype(m, n);
	return true;
}

/* Properties of a tensor that has been read. */
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
		/* irrelevant without elements */
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
	e->pops = 5;
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

	e->pops = kind != PERFX_BUS_ONCE;
	e->pushes = 0;
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
		e->pops = 3;
		e->pushes = 0;
		return remember(t, *stack_at(&t->vm, t->vm.depth - 3), a, b);
	}
	e->pops = 1;
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

	e->pops = 1;
	e->pushes = 0;
	switch (code->op) {
	case PERFX_OP_DTYPE:
		e->pops = !n;
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

/* Only transfers have bytes without operations; a product without elements moves nothing. */
static __always_inline void settle_bytes(struct cost_vm *m, const struct perfx_cost_program *cost)
{
	if (!m->flops && !(cost->flags & PERFX_COST_F_MOVES))
		m->bytes = 0;
}

/* Runs the next instruction. 0; 1: no instruction is left; -1: the cost is unknown. A global
 * function: the verifier walks it once, not in each iteration of run_cost_program. */
__noinline int step(struct thread *t, const struct perfx_cost_program *cost, __u32 at_exit)
{
	const struct perfx_instruction *code;
	struct effect e = {.pushes = 1};
	__u32 pc, depth;

	if (!t || !cost)
		return -1;
	pc = t->vm.pc++;
	if (pc >= (at_exit ? cost->count : cost->entry_count))
		return 1;
	code = &cost->code[pc & (PERFX_COST_CODE_MAX - 1)];
	if (is_gpu_op(code->op))
		return gpu_op(t, code->op, code->n) ? -1 : 0;
	if (!perform(t, code, at_exit, &e))
		return -1;
	depth = t->vm.depth - e.pops;
	if (e.pushes)
		*stack_at(&t->vm, depth++) = e.result;
	t->vm.depth = depth;
	return 0;
}

/*
 * Runs the entry or exit part of a cost program on t->vm. The caller has set arguments,
 * ret_addr_sp, kept, layouts, flops, bytes, dtype and given_dtype. 0, or -1 if the cost is unknown.
 */
__noinline int run_cost_program(struct thread *t, __u32 index, __u32 at_exit)
{
	const struct perfx_cost_program *cost = bpf_map_lookup_elem(&perfx_cost_programs, &index);
	int ended = 0;

	if (!t || !cost)
		return -1;
	t->vm.depth = 0;
	t->vm.pc = at_exit ? cost->entry_count : 0;
	for (int i = 0; i < PERFX_COST_CODE_MAX && !ended; i++)
		ended = step(t, cost, at_exit);
	if (ended < 0)
		return -1;
	if (at_exit || cost->entry_count == cost->count)
		settle_bytes(&t->vm, cost);
	return 0;
}

/*
 * Operations are counted once. Calls inside a call of known cost, on the same thread, do not count
 * (INSIDE). A kernel that a pool thread runs while an operator of known cost is open elsewhere in
 * the process is assumed to be that operator's (ELSEWHERE). A call that could not be read covers no
 * nested call (UNREAD). The cost of an unwound call is unknown.
 */

/* 1: costs of runs are read from their objects, and include the workers' costs. */
volatile __u32 perfx_objects_read = 0;

/* Saves the registers that cost programs read at entry. */
static __always_inline void save_arguments(struct thread *t, struct pt_regs *ctx)
{
	struct cost_vm *m = &t->vm;

	read_arguments(m->arguments, ctx);
	m->ret_addr_sp = PT_REGS_SP(ctx);
}

static __always_inline void save_result(struct thread *t, struct pt_regs *ctx)
{
	t->vm.arguments[7] = PT_REGS_RC(ctx);
}

static __always_inline struct call_cost *call_cost_at(struct thread *t, __u32 index)
{
	return &t->call_costs[index & (CALL_COSTS_MAX - 1)];
}

/* 1 + the index of a free call_cost, or 0. */
static __always_inline __u32 claim_call_cost(struct thread *t)
{
	__u32 free = ~t->call_costs_used & ((1u << CALL_COSTS_MAX) - 1), lowest = free & -free;

	t->call_costs_used |= lowest;
	/* without a branch for each index: the verifier would follow each of them to the end */
	return lowest ? 1 + __builtin_popcount(lowest - 1) : 0;
}

static __always_inline struct perfx_traced_process *current_process(void)
{
	__u32 tgid = current_tgid();

	return bpf_map_lookup_elem(&perfx_traced_tgids, &tgid);
}

static __always_inline __u32 layouts_of(const struct perfx_traced_process *traced)
{
	__u32 layouts = traced ? traced->tensor_layouts : 0;

	/* two threads that narrow the layouts at once may leave none */
	return layouts ? layouts : PERFX_TENSOR_LAYOUTS_ALL;
}

/* Returns whether a kernel that begins belongs to a call elsewhere: it is a pool thread's work, or
 * inside such a kernel, or it belongs to an object that this thread or (SHARED) another one runs.
 * Objects continue after the call that started them. */
static __always_inline bool is_elsewhere(struct thread *t, __u32 flags,
					 const struct perfx_traced_process *traced)
{
	if (t->object_owner)
		return true;
	if (t->depth)
		return frame_at(t, 0)->cost_state == PERFX_COST_ELSEWHERE;
	return traced &&
	       (traced->open_operators || ((flags & PERFX_COST_F_SHARED) && traced->runs_objects));
}

/* State of a call that begins, given the open calls. */
static __always_inline __u8 state_of_call(struct thread *t, __u32 flags, bool read,
					  const struct perfx_traced_process *traced)
{
	if (flags & PERFX_COST_F_MOVES ? t->transfer_owner : t->flops_owner)
		return PERFX_COST_INSIDE;
	if ((flags & PERFX_COST_F_WORKER) && perfx_objects_read)
		return PERFX_COST_ELSEWHERE;
	if ((flags & PERFX_COST_F_KERNEL) && is_elsewhere(t, flags, traced))
		return PERFX_COST_ELSEWHERE;
	return read ? PERFX_COST_COUNTED : PERFX_COST_UNREAD;
}

/* Stores the cost in the VM for the call that begins. Returns whether there was room. */
static __always_inline bool begin_call_cost(struct thread *t, __u32 program)
{
	const struct cost_vm *m = &t->vm;
	__u32 index = claim_call_cost(t);
	struct call_cost *call;

	if (!index)
		return false;
	call = call_cost_at(t, index - 1);
	call->flops = m->flops;
	call->bytes = m->bytes;
	for (int i = 0; i < PERFX_COST_KEPT; i++)
		call->kept[i] = m->kept[i];
	call->program = program;
	call->dtype = m->dtype;
	call->flags = m->given_dtype ? CALL_COST_GIVEN_DTYPE : 0;
	if (m->submits)
		call->flags |= CALL_COST_SUBMITS;
	t->outcome.call_cost = index;
	return true;
}

/* Returns whether a call covers no calls inside it: a nested tensor has no sizes to read, and
 * products of its parts do the work. A kernel's sizes are its arguments, so 0 means 0. */
static __always_inline bool computes_nothing(struct thread *t, __u32 flags)
{
	return !t->vm.flops && !(flags & (PERFX_COST_F_MOVES | PERFX_COST_F_KERNEL));
}

/* From now on the call that begins covers the calls inside it. */
static __always_inline void own_nested(struct thread *t, __u32 flags,
				       struct perfx_traced_process *traced)
{
	__u32 index = t->outcome.call_cost;

	if (flags & PERFX_COST_F_MOVES) {
		call_cost_at(t, index - 1)->flags |= CALL_COST_MOVES;
		t->transfer_owner = index;
		return;
	}
	t->flops_owner = index;
	if ((flags & PERFX_COST_F_KERNEL) || !traced)
		return;
	call_cost_at(t, index - 1)->flags |= CALL_COST_OPERATOR;
	__sync_fetch_and_add(&traced->open_operators, 1);
}

static __always_inline void start_cost_vm(struct thread *t,
					  const struct perfx_traced_process *traced)
{
	struct cost_vm *m = &t->vm;

	m->flops = m->bytes = 0;
	m->dtype = m->given_dtype = m->submits = 0;
	m->layouts = layouts_of(traced);
}

/*
 * A call of a function with a cost program begins; save_arguments() has run. Its frame is not open
 * yet, and only opens if has_frame. Sets t->outcome.
 */
__noinline int begin_cost(struct thread *t, __u32 index, __u32 has_frame)
{
	struct perfx_traced_process *traced = current_process();
	const struct perfx_cost_program *cost;
	struct outcome *outcome;
	__u32 flags, later;
	bool read;

	cost = bpf_map_lookup_elem(&perfx_cost_programs, &index);
	if (!t || !cost)
		return 0;
	flags = cost->flags;
	later = cost->count > cost->entry_count ? index : 0;
	outcome = &t->outcome;
	outcome->state = PERFX_COST_NONE;
	outcome->flops = outcome->bytes = 0;
	outcome->call_cost = 0;
	outcome->moves = !!(flags & PERFX_COST_F_MOVES);
	start_cost_vm(t, traced);
	read = !run_cost_program(t, index, 0);
	t->vm.submits |= !!(flags & PERFX_COST_F_SUBMITS);
	outcome->submitted = t->vm.submits;
	outcome->dtype = read ? t->vm.dtype : 0;
	if ((flags & PERFX_COST_F_DEVICE) && has_frame && !t->device_call)
		t->device_call = t->depth + 1;
	if (flags & PERFX_COST_F_NOTES) {
		if (read && later && has_frame)
			begin_call_cost(t, later);
		return 0;
	}
	outcome->state = state_of_call(t, flags, read, traced);
	if (outcome->state == PERFX_COST_INSIDE && outcome->dtype && !(flags & PERFX_COST_F_MOVES))
		call_cost_at(t, t->flops_owner - 1)->dtype = outcome->dtype;
	if (outcome->state != PERFX_COST_COUNTED)
		return 0;
	if (!later && (!has_frame || computes_nothing(t, flags))) {
		outcome->flops = t->vm.flops;
		outcome->bytes = t->vm.bytes;
	} else if (has_frame && begin_call_cost(t, later)) {
		own_nested(t, flags, traced);
	} else {
		outcome->state = PERFX_COST_UNREAD;
	}
	return 0;
}

/*
 * As begin_cost, for a call that runs t->object. It covers only kernels of nested calls: the cost
 * of an object that runs others (a loop) does not include theirs.
 */
__noinline int begin_object(struct thread *t, __u32 has_frame, __u32 event_arg)
{
	struct perfx_traced_process *traced;
	struct outcome *outcome;
	struct call_cost *call;
	__u8 state;

	if (!t)
		return 0;
	outcome = &t->outcome;
	state = t->object.state;
	outcome->call_cost = 0;
	outcome->submitted = 0;
	outcome->flops = state == PERFX_COST_BY_OBJECT ? t->object.object_cost : t->object.flops;
	outcome->bytes = t->object.bytes;
	outcome->dtype = t->object.dtype;
	if (state != PERFX_COST_COUNTED && state != PERFX_COST_BY_OBJECT) {
		outcome->state = state;
		return 0;
	}
	outcome->state = t->flops_owner ? PERFX_COST_INSIDE : state;
	if (t->flops_owner || !has_frame)
		return 0;
	t->vm.flops = outcome->flops;
	t->vm.bytes = outcome->bytes;
	t->vm.dtype = outcome->dtype;
	t->vm.given_dtype = t->vm.submits = 0;
	if (!begin_call_cost(t, 0)) {
		outcome->state = PERFX_COST_UNREAD;
		return 0;
	}
	if (!t->object_owner)
		t->object_owner = outcome->call_cost;
	traced = current_process();
	if (traced)
		traced->runs_objects = 1;
	call = call_cost_at(t, outcome->call_cost - 1);
	call->flags |= CALL_COST_EVENT;
	call->kept[0] = event_arg ? t->vm.arguments[event_arg & 7] : 0;
	return 0;
}

/* Runs the exit part of a call's cost program. */
static __always_inline bool finish_call_cost(struct thread *t, struct call_cost *call)
{
	struct cost_vm *m = &t->vm;

	start_cost_vm(t, current_process());
	m->flops = call->flops;
	m->bytes = call->bytes;
	m->dtype = call->dtype;
	m->given_dtype = call->flags & CALL_COST_GIVEN_DTYPE;
	for (int i = 0; i < PERFX_COST_KEPT; i++)
		m->kept[i] = call->kept[i];
	if (run_cost_program(t, call->program, 1))
		return false;
	call->flops = m->flops;
	call->bytes = m->bytes;
	call->dtype = m->dtype;
	return true;
}

/* Returns whether the work that an object's run started continues after the run's call. */
static __always_inline bool goes_on(struct thread *t, const struct call_cost *call)
{
	__u64 *word = t->vm.words;

	return call->kept[0] && read_user(word, 8, call->kept[0]) && *word &&
	       read_user(word, 8, *word + PERFX_EVENT_STATE) &&
	       (*word & PERFX_EVENT_MASK) < PERFX_EVENT_DONE;
}

static __always_inline void release_call_cost(struct thread *t, __u32 index)
{
	struct perfx_traced_process *traced;

	t->call_costs_used &= ~(1u << ((index - 1) & (CALL_COSTS_MAX - 1)));
	if (t->flops_owner == index)
		t->flops_owner = 0;
	if (t->transfer_owner == index)
		t->transfer_owner = 0;
	if (t->object_owner == index)
		t->object_owner = 0;
	if (!(call_cost_at(t, index - 1)->flags & CALL_COST_OPERATOR))
		return;
	traced = current_process();
	if (traced)
		__sync_fetch_and_add(&traced->open_operators, -1);
}

/* Sets t->outcome to the complete cost of a call that ends. */
static __always_inline void settle_cost(struct thread *t, const struct frame *f, __u8 state)
{
	struct outcome *outcome = &t->outcome;
	const struct call_cost *call;

	outcome->flops = outcome->bytes = 0;
	outcome->dtype = f->dtype;
	outcome->moves = outcome->submitted = 0;
	outcome->state = state;
	if (!f->call_cost)
		return;
	call = call_cost_at(t, f->call_cost - 1);
	if (state == PERFX_COST_COUNTED || state == PERFX_COST_BY_OBJECT) {
		outcome->flops = call->flops;
		outcome->bytes = call->bytes;
		outcome->dtype = call->dtype;
		outcome->moves = !!(call->flags & CALL_COST_MOVES);
		outcome->submitted = !!(call->flags & CALL_COST_SUBMITS);
	}
	release_call_cost(t, f->call_cost);
}

/* A frame with a cost ends; save_result() has run. */
__noinline int end_cost(struct thread *t, __u32 frame)
{
	struct call_cost *call;
	struct frame *f;
	__u8 state;

	if (!t)
		return 0;
	f = frame_at(t, frame);
	state = f->cost_state;
	if (f->call_cost) {
		call = call_cost_at(t, f->call_cost - 1);
		if (call->program && !finish_call_cost(t, call) && state == PERFX_COST_COUNTED)
			state = PERFX_COST_UNREAD;
		if ((call->flags & CALL_COST_EVENT) && goes_on(t, call))
			call->flags |= CALL_COST_SUBMITS;
	}
	settle_cost(t, f, state);
	return 0;
}

/* A frame with a cost ends without its exit being seen; flags: of its record. Not part of end_cost:
 * programs that unwind frames have no stack left for a cost program. */
__noinline int drop_cost(struct thread *t, __u32 frame, __u32 flags)
{
	struct frame *f;
	__u8 state;

	if (!t)
		return 0;
	f = frame_at(t, frame);
	state = f->cost_state;
	if (flags & PERFX_SPAN_UNWOUND)
		state = PERFX_COST_NONE;
	else if (f->call_cost && call_cost_at(t, f->call_cost - 1)->program &&
		 state == PERFX_COST_COUNTED)
		state = PERFX_COST_UNREAD;
	settle_cost(t, f, state);
	return 0;
}

/* A hint adds the cost in the VM to the innermost open call. Returns whether there was room. */
__noinline int credit_hint(struct thread *t)
{
	const struct cost_vm *m;
	struct call_cost *call;
	struct frame *f;

	if (!t || !t->depth)
		return 0;
	m = &t->vm;
	f = frame_at(t, t->depth - 1);
	if (!f->call_cost) {
		if (!begin_call_cost(t, 0))
			return 0;
		f->call_cost = t->outcome.call_cost;
		f->cost_state = PERFX_COST_COUNTED;
		return 1;
	}
	call = call_cost_at(t, f->call_cost - 1);
	f->cost_state = PERFX_COST_COUNTED;
	if (call->flags & CALL_COST_MOVES) {
		/* the call computes after all */
		call->flags &= ~CALL_COST_MOVES;
		call->flops = 0;
	}
	call->flops += m->flops;
	call->bytes += m->bytes;
	return 1;
}

#endif
