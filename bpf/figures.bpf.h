/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which calls have a figure of their own. What a call does is counted once: inside a call that has
 * a figure, on the same thread, none is (INSIDE); a kernel that a pool thread runs while an
 * operator with a figure is open elsewhere in the process is taken for that operator's (ELSEWHERE);
 * a call that could not be read silences nothing (UNREAD); one that is unwound has done nobody
 * knows what.
 */
#ifndef PERFX_FIGURES_BPF_H
#define PERFX_FIGURES_BPF_H

#include "machine.bpf.h"

/* Objects say what their runs compute: so workers' figures are contained in theirs. */
volatile __u32 perfx_objects_told = 0;

/* Where a program finds what it reads at entry. */
static __always_inline void take_arguments(struct thread *t, struct pt_regs *ctx)
{
	struct machine *m = &t->machine;

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
	t->machine.arguments[7] = PT_REGS_RC(ctx);
}

static __always_inline struct work *work_at(struct thread *t, __u32 index)
{
	return &t->works[index & (WORKS_MAX - 1)];
}

/* 1 + the index of one that was free, or 0. */
static __always_inline __u32 take_work(struct thread *t)
{
	for (__u32 i = 0; i < WORKS_MAX; i++)
		if (!(t->works_taken & 1u << i)) {
			t->works_taken |= 1u << i;
			return i + 1;
		}
	return 0;
}

static __always_inline struct perfx_family *current_family(void)
{
	__u32 tgid = current_tgid();

	return bpf_map_lookup_elem(&perfx_families, &tgid);
}

static __always_inline __u32 layouts_of(const struct perfx_family *family)
{
	__u32 layouts = family ? family->tensor_layouts : 0;

	/* two threads that narrow them at once may leave none */
	return layouts ? layouts : PERFX_TENSOR_LAYOUTS_ALL;
}

/* Is a kernel that begins the work of a pool thread, or inside such a one? */
static __always_inline bool is_elsewhere(struct thread *t, const struct perfx_family *family)
{
	if (t->depth)
		return frame_at(t, 0)->figure == PERFX_FIGURE_ELSEWHERE;
	return family && family->open_figures;
}

/* Has the open calls' figure room for this one's? */
static __always_inline __u8 state_of_call(struct thread *t, __u32 flags, bool read,
					  const struct perfx_family *family)
{
	if (flags & PERFX_FIGURE_F_MOVES ? t->mover : t->silencer)
		return PERFX_FIGURE_INSIDE;
	if ((flags & PERFX_FIGURE_F_WORKER) && perfx_objects_told)
		return PERFX_FIGURE_ELSEWHERE;
	if ((flags & PERFX_FIGURE_F_KERNEL) && is_elsewhere(t, family))
		return PERFX_FIGURE_ELSEWHERE;
	return read ? PERFX_FIGURE_COUNTED : PERFX_FIGURE_UNREAD;
}

/* What m->… says becomes the work of the call that begins. Returns whether there was room. */
static __always_inline bool begin_work(struct thread *t, __u32 figure)
{
	const struct machine *m = &t->machine;
	__u32 index = take_work(t);
	struct work *work;

	if (!index)
		return false;
	work = work_at(t, index - 1);
	work->flops = m->flops;
	work->bytes = m->bytes;
	for (int i = 0; i < PERFX_FIGURE_KEPT; i++)
		work->kept[i] = m->kept[i];
	work->figure = figure;
	work->dtype = m->dtype;
	work->flags = m->given_dtype ? WORK_GIVEN_DTYPE : 0;
	if (m->submits)
		work->flags |= WORK_SUBMITS;
	t->outcome.work = index;
	return true;
}

/* Then it stands for nothing that is called inside it: a nested tensor has no sizes to be read, and
 * the products of its parts do the work. A kernel's sizes are its arguments, and 0 means 0. */
static __always_inline bool computes_nothing(struct thread *t, __u32 flags)
{
	return !t->machine.flops && !(flags & (PERFX_FIGURE_F_MOVES | PERFX_FIGURE_F_KERNEL));
}

/* From now on it stands for what is called inside it. */
static __always_inline void silence_others(struct thread *t, __u32 flags,
					   struct perfx_family *family)
{
	__u32 index = t->outcome.work;

	if (flags & PERFX_FIGURE_F_MOVES) {
		work_at(t, index - 1)->flags |= WORK_MOVES;
		t->mover = index;
		return;
	}
	t->silencer = index;
	if ((flags & PERFX_FIGURE_F_KERNEL) || !family)
		return;
	work_at(t, index - 1)->flags |= WORK_OPERATOR;
	__sync_fetch_and_add(&family->open_figures, 1);
}

static __always_inline void start_machine(struct thread *t, const struct perfx_family *family)
{
	struct machine *m = &t->machine;

	m->flops = m->bytes = 0;
	m->dtype = m->given_dtype = m->submits = 0;
	m->layouts = layouts_of(family);
}

/*
 * A call begins whose function has a figure; take_arguments has been done, its frame is not open
 * yet and never will be unless has_frame. What is known of it is in t->outcome then.
 */
__noinline int begin_figure(struct thread *t, __u32 index, __u32 has_frame)
{
	struct perfx_family *family = current_family();
	const struct perfx_figure *figure;
	struct outcome *outcome;
	__u32 flags, later;
	bool read;

	figure = bpf_map_lookup_elem(&perfx_figures, &index);
	if (!t || !figure)
		return 0;
	flags = figure->flags;
	later = figure->count > figure->entry_count ? index : 0;
	outcome = &t->outcome;
	outcome->state = PERFX_FIGURE_NONE;
	outcome->flops = outcome->bytes = 0;
	outcome->work = 0;
	outcome->moves = !!(flags & PERFX_FIGURE_F_MOVES);
	start_machine(t, family);
	read = !run_figure(t, index, 0);
	t->machine.submits |= !!(flags & PERFX_FIGURE_F_SUBMITS);
	outcome->submitted = t->machine.submits;
	outcome->dtype = read ? t->machine.dtype : 0;
	if (flags & PERFX_FIGURE_F_NOTES) {
		if (read && later && has_frame)
			begin_work(t, later);
		return 0;
	}
	outcome->state = state_of_call(t, flags, read, family);
	if (outcome->state == PERFX_FIGURE_INSIDE && outcome->dtype &&
	    !(flags & PERFX_FIGURE_F_MOVES))
		work_at(t, t->silencer - 1)->dtype = outcome->dtype;
	if (outcome->state != PERFX_FIGURE_COUNTED)
		return 0;
	if (!later && (!has_frame || computes_nothing(t, flags))) {
		outcome->flops = t->machine.flops;
		outcome->bytes = t->machine.bytes;
	} else if (has_frame && begin_work(t, later)) {
		silence_others(t, flags, family);
	} else {
		outcome->state = PERFX_FIGURE_UNREAD;
	}
	return 0;
}

/*
 * A call begins that runs t->object. As begin_figure; but it silences nothing: what works for an
 * object is flagged (WORKER), and objects that run others (loops) have no part in those' figures.
 */
__noinline int begin_object(struct thread *t, __u32 has_frame, __u32 event_arg)
{
	struct outcome *outcome;
	struct work *work;
	__u8 state;

	if (!t)
		return 0;
	outcome = &t->outcome;
	state = t->object.state;
	outcome->work = 0;
	outcome->submitted = 0;
	outcome->flops = state == PERFX_FIGURE_BY_OBJECT ? t->object.work : t->object.flops;
	outcome->bytes = t->object.bytes;
	outcome->dtype = t->object.dtype;
	if (state != PERFX_FIGURE_COUNTED && state != PERFX_FIGURE_BY_OBJECT) {
		outcome->state = state;
		return 0;
	}
	outcome->state = t->silencer ? PERFX_FIGURE_INSIDE : state;
	if (t->silencer || !has_frame)
		return 0;
	t->machine.flops = outcome->flops;
	t->machine.bytes = outcome->bytes;
	t->machine.dtype = outcome->dtype;
	t->machine.given_dtype = t->machine.submits = 0;
	if (!begin_work(t, 0)) {
		outcome->state = PERFX_FIGURE_UNREAD;
		return 0;
	}
	work = work_at(t, outcome->work - 1);
	work->flags |= WORK_EVENT;
	work->kept[0] = event_arg ? t->machine.arguments[event_arg & 7] : 0;
	return 0;
}

/* The exit part of a program. */
static __always_inline bool finish_work(struct thread *t, struct work *work)
{
	struct machine *m = &t->machine;

	start_machine(t, current_family());
	m->flops = work->flops;
	m->bytes = work->bytes;
	m->dtype = work->dtype;
	m->given_dtype = work->flags & WORK_GIVEN_DTYPE;
	for (int i = 0; i < PERFX_FIGURE_KEPT; i++)
		m->kept[i] = work->kept[i];
	if (run_figure(t, work->figure, 1))
		return false;
	work->flops = m->flops;
	work->bytes = m->bytes;
	work->dtype = m->dtype;
	return true;
}

/* An object's run has ended: is what it began still going on? */
static __always_inline bool goes_on(struct thread *t, const struct work *work)
{
	__u64 *word = t->machine.words;

	return work->kept[0] && read_user(word, 8, work->kept[0]) && *word &&
	       read_user(word, 8, *word + PERFX_EVENT_STATE) &&
	       (*word & PERFX_EVENT_MASK) < PERFX_EVENT_DONE;
}

static __always_inline void release_work(struct thread *t, __u32 index)
{
	struct perfx_family *family;

	t->works_taken &= ~(1u << ((index - 1) & (WORKS_MAX - 1)));
	if (t->silencer == index)
		t->silencer = 0;
	if (t->mover == index)
		t->mover = 0;
	if (!(work_at(t, index - 1)->flags & WORK_OPERATOR))
		return;
	family = current_family();
	if (family)
		__sync_fetch_and_add(&family->open_figures, -1);
}

/* What is told of a call with a figure, in t->outcome; the figure is over. */
static __always_inline void tell_figure(struct thread *t, const struct frame *f, __u8 state)
{
	struct outcome *outcome = &t->outcome;
	const struct work *work;

	outcome->flops = outcome->bytes = 0;
	outcome->dtype = f->dtype;
	outcome->moves = outcome->submitted = 0;
	outcome->state = state;
	if (!f->work)
		return;
	work = work_at(t, f->work - 1);
	if (state == PERFX_FIGURE_COUNTED || state == PERFX_FIGURE_BY_OBJECT) {
		outcome->flops = work->flops;
		outcome->bytes = work->bytes;
		outcome->dtype = work->dtype;
		outcome->moves = !!(work->flags & WORK_MOVES);
		outcome->submitted = !!(work->flags & WORK_SUBMITS);
	}
	release_work(t, f->work);
}

/* A frame with a figure ends; take_result has been done. */
__noinline int end_figure(struct thread *t, __u32 frame)
{
	struct work *work;
	struct frame *f;
	__u8 state;

	if (!t)
		return 0;
	f = frame_at(t, frame);
	state = f->figure;
	if (f->work) {
		work = work_at(t, f->work - 1);
		if (work->figure && !finish_work(t, work) && state == PERFX_FIGURE_COUNTED)
			state = PERFX_FIGURE_UNREAD;
		if ((work->flags & WORK_EVENT) && goes_on(t, work))
			work->flags |= WORK_SUBMITS;
	}
	tell_figure(t, f, state);
	return 0;
}

/* It is left without its end being seen, as the record's flags say. Apart from end_figure: what
 * unwinds frames has no stack to spare for the program that a figure is. */
__noinline int drop_figure(struct thread *t, __u32 frame, __u32 flags)
{
	struct frame *f;
	__u8 state;

	if (!t)
		return 0;
	f = frame_at(t, frame);
	state = f->figure;
	if (flags & PERFX_SPAN_UNWOUND)
		state = PERFX_FIGURE_NONE;
	else if (f->work && work_at(t, f->work - 1)->figure && state == PERFX_FIGURE_COUNTED)
		state = PERFX_FIGURE_UNREAD;
	tell_figure(t, f, state);
	return 0;
}

/* A hint: what m->… says is added to the innermost open call. Returns whether there was room. */
__noinline int credit_hint(struct thread *t)
{
	const struct machine *m;
	struct work *work;
	struct frame *f;

	if (!t || !t->depth)
		return 0;
	m = &t->machine;
	f = frame_at(t, t->depth - 1);
	if (!f->work) {
		if (!begin_work(t, 0))
			return 0;
		f->work = t->outcome.work;
		f->figure = PERFX_FIGURE_COUNTED;
		return 1;
	}
	work = work_at(t, f->work - 1);
	f->figure = PERFX_FIGURE_COUNTED;
	if (work->flags & WORK_MOVES) {
		/* it computes after all */
		work->flags &= ~WORK_MOVES;
		work->flops = 0;
	}
	work->flops += m->flops;
	work->bytes += m->bytes;
	return 1;
}

#endif
