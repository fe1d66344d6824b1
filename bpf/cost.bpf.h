/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which calls count with a cost of their own. Operations are counted once: calls inside a call of
 * known cost, on the same thread, are not (INSIDE); a kernel that a pool thread runs while an
 * operator with a known cost is open elsewhere in the process is taken for that operator's
 * (ELSEWHERE); a call that could not be read owns no nested call (UNREAD); one that is unwound has
 * done no one knows what.
 */
#ifndef PERFX_COST_BPF_H
#define PERFX_COST_BPF_H

#include "cost_vm.bpf.h"

/* Objects say what their runs compute: so workers' costs are contained in theirs. */
volatile __u32 perfx_objects_read = 0;

/* Where a program finds what it reads at entry. */
static __always_inline void take_arguments(struct thread *t, struct pt_regs *ctx)
{
	struct cost_vm *m = &t->vm;

	m->arguments[1] = PT_REGS_PARM1(ctx);
	m->arguments[2] = PT_REGS_PARM2(ctx);
	m->arguments[3] = PT_REGS_PARM3(ctx);
	m->arguments[4] = PT_REGS_PARM4(ctx);
	m->arguments[5] = PT_REGS_PARM5(ctx);
	m->arguments[6] = PT_REGS_PARM6(ctx);
	m->arguments[7] = PT_REGS_RC(ctx); /* where a first instruction may have put one */
	m->slot = PT_REGS_SP(ctx);
}

static __always_inline void take_result(struct thread *t, struct pt_regs *ctx)
{
	t->vm.arguments[7] = PT_REGS_RC(ctx);
}

static __always_inline struct call_cost *call_cost_at(struct thread *t, __u32 index)
{
	return &t->call_costs[index & (CALL_COSTS_MAX - 1)];
}

/* 1 + the index of one that was free, or 0. */
static __always_inline __u32 take_call_cost(struct thread *t)
{
	for (__u32 i = 0; i < CALL_COSTS_MAX; i++)
		if (!(t->call_costs_taken & 1u << i)) {
			t->call_costs_taken |= 1u << i;
			return i + 1;
		}
	return 0;
}

static __always_inline struct perfx_traced_process *current_process(void)
{
	__u32 tgid = current_tgid();

	return bpf_map_lookup_elem(&perfx_traced_tgids, &tgid);
}

static __always_inline __u32 layouts_of(const struct perfx_traced_process *traced)
{
	__u32 layouts = traced ? traced->tensor_layouts : 0;

	/* two threads that narrow them at once may leave none */
	return layouts ? layouts : PERFX_TENSOR_LAYOUTS_ALL;
}

/* Is a kernel that begins the work of a pool thread, or inside such a one? */
static __always_inline bool is_elsewhere(struct thread *t,
					 const struct perfx_traced_process *traced)
{
	if (t->depth)
		return frame_at(t, 0)->cost_state == PERFX_COST_ELSEWHERE;
	return traced && traced->open_operators;
}

/* Does this call count beside the open ones? */
static __always_inline __u8 state_of_call(struct thread *t, __u32 flags, bool read,
					  const struct perfx_traced_process *traced)
{
	if (flags & PERFX_COST_F_MOVES ? t->transfer_owner : t->flops_owner)
		return PERFX_COST_INSIDE;
	if ((flags & PERFX_COST_F_WORKER) && perfx_objects_read)
		return PERFX_COST_ELSEWHERE;
	if ((flags & PERFX_COST_F_KERNEL) && is_elsewhere(t, traced))
		return PERFX_COST_ELSEWHERE;
	return read ? PERFX_COST_COUNTED : PERFX_COST_UNREAD;
}

/* What m->… says becomes the work of the call that begins. Returns whether there was room. */
static __always_inline bool begin_call_cost(struct thread *t, __u32 program)
{
	const struct cost_vm *m = &t->vm;
	__u32 index = take_call_cost(t);
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

/* Then it stands for nothing that is called inside it: a nested tensor has no sizes to be read, and
 * the products of its parts do the work. A kernel's sizes are its arguments, and 0 means 0. */
static __always_inline bool computes_nothing(struct thread *t, __u32 flags)
{
	return !t->vm.flops && !(flags & (PERFX_COST_F_MOVES | PERFX_COST_F_KERNEL));
}

/* From now on it stands for what is called inside it. */
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
 * A call begins whose function has a known cost; take_arguments has been done, its frame is not
 * open yet and never will be unless has_frame. What is known of it is in t->outcome then.
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
 * A call begins that runs t->object. As begin_cost; but it owns no nested call: what works for an
 * object is flagged (WORKER), and objects that run others (loops) have no part in those' costs.
 */
__noinline int begin_object(struct thread *t, __u32 has_frame, __u32 event_arg)
{
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
	call = call_cost_at(t, outcome->call_cost - 1);
	call->flags |= CALL_COST_EVENT;
	call->kept[0] = event_arg ? t->vm.arguments[event_arg & 7] : 0;
	return 0;
}

/* The exit part of a program. */
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

/* An object's run has ended: is what it began still going on? */
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

	t->call_costs_taken &= ~(1u << ((index - 1) & (CALL_COSTS_MAX - 1)));
	if (t->flops_owner == index)
		t->flops_owner = 0;
	if (t->transfer_owner == index)
		t->transfer_owner = 0;
	if (!(call_cost_at(t, index - 1)->flags & CALL_COST_OPERATOR))
		return;
	traced = current_process();
	if (traced)
		__sync_fetch_and_add(&traced->open_operators, -1);
}

/* The outcome of a call with a known cost, in t->outcome; its cost is complete. */
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

/* A frame with a known cost ends; take_result has been done. */
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

/* It is left without its end being seen, as the record's flags say. Apart from end_cost: what
 * unwinds frames has no stack to spare for a cost program. */
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

/* A hint: what m->… says is added to the innermost open call. Returns whether there was room. */
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
		/* it computes after all */
		call->flags &= ~CALL_COST_MOVES;
		call->flops = 0;
	}
	call->flops += m->flops;
	call->bytes += m->bytes;
	return 1;
}

#endif
