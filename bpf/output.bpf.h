/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Output of ended calls: the calling-context tree, records, overflow sums, and perf events that
 * were counted during calls.
 *
 * A record for which the ring has no room is added to the overflow sums of its calling context, so
 * calls, total and self time stay exact under any load.
 */
#ifndef PERFX_OUTPUT_BPF_H
#define PERFX_OUTPUT_BPF_H

#include "memory.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PERFX_MAX_CONTEXTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_context_node);
} perfx_contexts SEC(".maps");

struct context_key {
	__u32 parent, function, process;
	__u32 caller_code; /* python_code() of the frame */
	__u64 caller;	   /* Python frame that made the call; 0: none, or a traced function did */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_CONTEXTS);
	__type(key, struct context_key);
	__type(value, __u32);
} perfx_context_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_OBJECTS);
	__type(key, struct perfx_pending_key);
	__type(value, __u64);
} perfx_pending_runs SEC(".maps");

static __always_inline struct perfx_context_node *context_node(__u32 context)
{
	return bpf_map_lookup_elem(&perfx_contexts, &context);
}

/* A new id, greater than the parent's, so that readers can rule out cycles. 0: the table is full.
 */
static __always_inline __u32 new_context(__u32 parent, __u32 limit)
{
	__u32 id = reuse_id(PERFX_ID_CONTEXT, parent);

	if (id)
		return id;
	return perfx_next_context < limit ? __sync_fetch_and_add(&perfx_next_context, 1) : 0;
}

/* The node of a key; a new one is also t->new_context. t: NULL if the thread has no state. 0: the
 * table is full. */
static __always_inline __u32 context_id(struct thread *t, struct context_key *key, __u32 limit)
{
	struct perfx_context_node *node;
	__u32 *known, id;

	known = bpf_map_lookup_elem(&perfx_context_ids, key);
	if (known)
		return *known;
	id = new_context(key->parent, limit);
	node = id ? context_node(id) : NULL;
	if (!node)
		return 0;
	/* filled before it can be found; a node that loses the race below stays unused */
	node->parent = key->parent;
	node->process = key->process;
	node->caller = key->caller;
	node->caller_code = key->caller_code;
	node->function = key->function;
	if (bpf_map_update_elem(&perfx_context_ids, key, &id, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&perfx_context_ids, key);
		return known ? *known : 0;
	}
	if (t)
		t->new_context = id;
	return id;
}

/*
 * Counts a call on a thread for whose state the kernel has no memory at this moment, so the call
 * has neither a time nor a caller. Returns whether it was counted: some hits are no calls of their
 * own, which only the thread's state shows.
 */
__noinline int count_stateless_call(const struct perfx_probe *probe, __u32 process)
{
	struct context_key key = {.process = process};
	struct perfx_context_node *node;
	__u32 context;

	if (!probe || probe->kind >= PERFX_PROBE_EXIT ||
	    (probe->flags & (PERFX_PROBE_F_REPEATS | PERFX_PROBE_F_OUTERMOST)))
		return 0;
	key.function = probe->function;
	context = context_id(NULL, &key, perfx_contexts_max);
	node = context ? context_node(context) : NULL;
	if (!node)
		return 0;
	counter_add(PERFX_COUNTER_UNTIMED_CALLS, 1);
	counter_add(PERFX_COUNTER_STATELESS_CALLS, 1);
	__sync_fetch_and_add(&node->calls_count, 1);
	__sync_fetch_and_add(&node->untimed_count, 1);
	if (probe->cost_program)
		__sync_fetch_and_add(&node->unread_count, 1);
	return 1;
}

/*
 * The context of a function called from `parent`, or by a Python frame. Recursion f → f → f shares
 * its second node, so deep recursion makes two nodes, not hundreds.
 */
__noinline __u32 context_below(struct thread *t, __u32 parent, __u32 function, __u64 caller)
{
	struct context_key key = {.parent = parent, .function = function, .caller = caller};
	struct perfx_context_node *node, *above;
	__u32 id;

	if (!t)
		return 0;
	key.process = t->process;
	key.caller_code = caller ? t->caller_code : 0;
	node = parent ? context_node(parent) : NULL;
	if (node && node->function == function) {
		above = context_node(node->parent);
		if (node->parent && above && above->function == function)
			return parent;
	}
	id = context_id(t, &key, perfx_contexts_max / 4 * 3);
	if (id)
		return id;
	counter_add(PERFX_COUNTER_MAP_FULL, 1);
	key.parent = 0;
	key.caller = 0;
	key.caller_code = 0;
	return context_id(t, &key, perfx_contexts_max);
}

/* The Python frame that makes a call, if no traced function is open inside the innermost range: a
 * traced function has its own Python caller. */
static __always_inline __u64 caller_of_call(struct thread *t, const struct frame *innermost)
{
	if (!perfx_pythons_count || (innermost && !(innermost->entry & FRAME_RANGE)))
		return 0;
	return python_caller(&t->caller_code);
}

/* Returns whether the last context of this function belongs to calls by this Python frame. */
static __always_inline bool is_context_of(__u32 context, __u64 caller, __u32 code)
{
	struct perfx_context_node *node;

	if (!perfx_pythons_count)
		return true;
	node = context_node(context);
	return node && node->caller == caller && (!caller || node->caller_code == code);
}

/* The context of a call of `function` by the innermost of `callers` frames; without frames, by
 * `owner` (0: none), on any thread. */
__noinline __u32 context_from(struct thread *t, __u32 function, __u32 owner, __u32 callers)
{
	__u32 *last_function, *last_context;
	struct frame *innermost = NULL;
	__u32 parent = 0;
	__u64 caller;

	if (!t)
		return 0;
	last_function = &t->root_function;
	last_context = &t->root_context;
	if (callers) {
		innermost = frame_at(t, callers - 1);
		parent = innermost->context;
		last_function = &innermost->child_function;
		last_context = &innermost->child_context;
	}
	caller = caller_of_call(t, innermost);
	if (*last_function != function || !is_context_of(*last_context, caller, t->caller_code)) {
		if (owner && !callers)
			parent = context_below(t, 0, owner, 0);
		*last_context = context_below(t, parent, function, caller);
		*last_function = function;
	}
	return *last_context;
}

static __always_inline __u32 context_of_call(struct thread *t, __u32 function)
{
	return context_from(t, function, 0, t->depth);
}

/* The same for the operation that runs, or for the function that runs it. */
static __always_inline __u32 context_of_run(struct thread *t, __u32 operation, __u32 function,
					    __u32 callers)
{
	return operation ? context_from(t, operation, t->object.owner, callers)
			 : context_from(t, function, 0, callers);
}

/*
 * Records the stack of the first call in t->new_context; registers as stack_walk's. Called at the
 * top of a program, because a walk from context_id() would exceed the kernel's limit of nested
 * calls. User space may have read the context already, so it reads the stack again at the end.
 */
__noinline int follow_first_call(struct thread *t, __u64 pc, __u64 sp, __u64 fp, __u32 flags)
{
	struct perfx_context_node *node;
	struct memory_thread *m;
	struct frame *f;
	__u32 context;
	void *ring;

	if (!t)
		return 0;
	context = t->new_context;
	t->new_context = 0;
	if (perfx_stacks_by == PERFX_STACKS_OFF)
		return 0;
	node = context_node(context);
	m = memory_thread(true, NULL);
	ring = ring_of(&perfx_memory, t->tid);
	if (!node || !m || !ring)
		return 0;
	stack_walk(&m->stack, pc, sp, fp, flags);
	/* without deduplication: contexts seldom share a stack */
	node->stack = emit_stack(&m->stack, ring, t->process);
	if (!node->stack)
		counter_add(PERFX_COUNTER_STACK_FAILURES, 1);
	/* the span does not include the walk */
	f = frame_at(t, t->depth - 1);
	if (t->depth && f->context == context)
		f->start_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void overflow_moved(struct perfx_context_node *node,
					   const struct outcome *outcome)
{
	__sync_fetch_and_add(&node->bytes, outcome->bytes);
	if (!outcome->flops)
		return;
	__sync_fetch_and_add(&node->bus_bytes, outcome->flops);
	__sync_fetch_and_add(&node->bus_moved_bytes, outcome->bytes);
}

static __always_inline void overflow_cost(struct perfx_context_node *node,
					  const struct outcome *outcome)
{
	switch (outcome->state) {
	case PERFX_COST_COUNTED:
		__sync_fetch_and_add(&node->counted_count, 1);
		if (outcome->moves) {
			overflow_moved(node, outcome);
			break;
		}
		__sync_fetch_and_add(&node->flops, outcome->flops);
		__sync_fetch_and_add(&node->bytes, outcome->bytes);
		break;
	case PERFX_COST_UNREAD:
		__sync_fetch_and_add(&node->unread_count, 1);
		break;
	case PERFX_COST_OPAQUE:
		__sync_fetch_and_add(&node->opaque_count, 1);
		break;
	case PERFX_COST_INSIDE:
	case PERFX_COST_ELSEWHERE:
		__sync_fetch_and_add(&node->nested_count, 1);
		break;
	default:
		break;
	}
}

/* Counts a run, in this context, of an object that has not been read yet. */
static __always_inline void add_pending_run(__u32 object_cost, __u32 context)
{
	struct perfx_pending_key key = {.object_cost = object_cost, .context = context};
	__u64 none = 0, *count = bpf_map_lookup_elem(&perfx_pending_runs, &key);

	if (!count) {
		bpf_map_update_elem(&perfx_pending_runs, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&perfx_pending_runs, &key);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
}

/* The part of a timed call in which its thread was off the CPU. Bounded by the duration: a
 * preemption after the end of the call was timed does not belong to it. */
static __always_inline __u64 off_cpu_part(const struct thread *t, const struct frame *f,
					  __u64 duration_ns, __u16 flags)
{
	__u64 off_cpu_ns = flags ? 0 : t->off_cpu_ns - f->off_cpu_ns;

	return off_cpu_ns < duration_ns ? off_cpu_ns : duration_ns;
}

/* Adds a call for which the ring had no room. Not inlined, like emit(): inlined at each end of a
 * call, they would take longer to verify than everything else. */
__noinline int overflow_add(struct thread *t, const struct frame *f, __u64 duration_ns,
			    __u64 self_ns, __u16 flags)
{
	const struct outcome *outcome;
	struct perfx_context_node *node;
	__u64 off_cpu_ns;

	if (!t || !f)
		return 0;
	counter_add(PERFX_COUNTER_RING_DROPS, 1);
	node = context_node(f->context);
	if (!node)
		return 0;
	outcome = &t->outcome;
	off_cpu_ns = off_cpu_part(t, f, duration_ns, flags);
	__sync_fetch_and_add(&node->calls_count, 1);
	if (flags & PERFX_SPAN_UNWOUND) {
		__sync_fetch_and_add(&node->unwound_count, 1);
	} else if (flags & PERFX_SPAN_UNTIMED) {
		__sync_fetch_and_add(&node->untimed_count, 1);
	} else {
		__sync_fetch_and_add(&node->total_ns, duration_ns);
		__sync_fetch_and_add(&node->self_ns, self_ns);
		if (off_cpu_ns)
			__sync_fetch_and_add(&node->off_cpu_ns, off_cpu_ns);
	}
	if (outcome->state == PERFX_COST_BY_OBJECT)
		add_pending_run(outcome->flops, f->context);
	else
		overflow_cost(node, outcome);
	return 0;
}

/* All fields but the cost. */
static __always_inline void fill_span(struct perfx_span *span, const struct thread *t,
				      const struct frame *f, __u32 depth, __u64 duration_ns,
				      __u64 self_ns, __u16 flags)
{
	span->hdr.kind = PERFX_KIND_SPAN;
	span->start_ns = f->start_ns;
	span->duration_ns = duration_ns;
	span->self_ns = self_ns;
	span->process = t->process;
	span->context = f->context;
	span->function = f->operation ? f->operation : f->function;
	span->tid = t->tid;
	span->depth = depth;
	span->flags = flags;
	span->object = f->object;
}

/* A cost, if the call has one, is in t->outcome. bytes: size of the record, a constant. */
static __always_inline void emit_span(struct thread *t, const struct frame *f, __u32 depth,
				      __u64 duration_ns, __u64 self_ns, __u16 flags, __u32 bytes)
{
	const struct outcome *outcome = &t->outcome;
	void *ring = ring_of(&perfx_spans, t->tid);
	__u64 off_cpu_ns = off_cpu_part(t, f, duration_ns, flags);
	struct perfx_span *span;

	span = ring ? bpf_ringbuf_reserve(ring, bytes, 0) : NULL;
	if (!span) {
		overflow_add(t, f, duration_ns, self_ns, flags);
		return;
	}
	span->hdr.size = bytes;
	span->hdr.fixed = bytes;
	if (outcome->state && outcome->moves)
		flags |= PERFX_SPAN_MOVES;
	if (outcome->state && outcome->submitted)
		flags |= PERFX_SPAN_SUBMITTED;
	fill_span(span, t, f, depth, duration_ns, self_ns, flags);
	span->cost_state = outcome->state;
	span->dtype = outcome->state ? outcome->dtype : 0;
	if (bytes >= PERFX_SPAN_COST_BYTES) {
		span->flops = outcome->state ? outcome->flops : 0;
		span->bytes = outcome->state ? outcome->bytes : 0;
	}
	if (bytes > PERFX_SPAN_COST_BYTES)
		span->off_cpu_ns = off_cpu_ns;
	bpf_ringbuf_submit(span, wake_flags(ring, &t->records));
}

/* An ended call: writes its record, or adds it to the overflow sums. */
__noinline int emit(struct thread *t, const struct frame *f, __u64 duration_ns, __u64 self_ns,
		    __u16 flags)
{
	__u32 depth;

	if (!t || !f)
		return 0;
	depth = flags & PERFX_SPAN_ASYNC ? 0 : t->depth;
	if (t->pending_flops && t->outcome.state == PERFX_COST_COUNTED) {
		frame_at(t, t->pending_flops - 1)->cost_state = PERFX_COST_NONE;
		t->pending_flops = 0;
	}
	if (off_cpu_part(t, f, duration_ns, flags))
		emit_span(t, f, depth, duration_ns, self_ns, flags, sizeof(struct perfx_span));
	else if (t->outcome.state)
		emit_span(t, f, depth, duration_ns, self_ns, flags, PERFX_SPAN_COST_BYTES);
	else
		emit_span(t, f, depth, duration_ns, self_ns, flags, PERFX_SPAN_PLAIN_BYTES);
	return 0;
}

/* A call of `function` that is emitted as it begins; it is not among the open calls. */
static __always_inline struct frame *instant_frame(struct thread *t, __u32 function)
{
	struct frame *f = &t->instant;

	__builtin_memset(f, 0, sizeof(*f));
	f->start_ns = bpf_ktime_get_ns();
	f->function = function;
	return f;
}

/*
 * Perf events of the calling thread, counted during calls.
 *
 * An event of a thread follows it over CPUs and stops while others run, so its difference between
 * entry and exit belongs to the call; an event of a CPU would also count other threads. The kernel
 * lets a program read an event of the current thread from any element of a perf event array
 * (perf_event_read_local): user space assigns each thread a slot of PERFX_PERF_EVENTS elements.
 * Sums are kept by calling context and never pass through the ring: records stay small, and no
 * count is lost.
 */

const volatile bool perfx_perf_enabled = false;
const volatile __u32 perfx_perf_events_count = 0;
const volatile struct perfx_perf_event perfx_perf_events[PERFX_PERF_EVENTS] = {};
/* The counter that counts floating-point operations; PERFX_PERF_COUNTERS: none does. */
const volatile __u32 perfx_perf_flops = PERFX_PERF_COUNTERS;

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1); /* user space makes it as large as it needs */
	__type(key, __u32);
	__type(value, __u32);
} perfx_perf_array SEC(".maps");

/* tid → 1 + slot */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PERFX_PERF_THREADS);
	__type(key, __u32);
	__type(value, __u32);
} perfx_perf_slots SEC(".maps");

/* By calling context. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as perfx_contexts, where perf events are counted */
	__type(key, __u32);
	__type(value, struct perfx_perf_sums);
} perfx_perf_sums SEC(".maps");

struct reading {
	__u64 values[PERFX_PERF_COUNTERS];
	/* Time that events waited for a hardware counter, summed over events: if this grows during
	 * a call, a part of the call was not counted. */
	__u64 waited_ns;
};

struct perf_thread {
	__u32 slot; /* 1 + slot; 0: unknown */
	__u32 pad;
	struct reading now;
	struct reading frames[PERFX_MAX_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct perf_thread);
} perfx_perf_threads SEC(".maps");

static __always_inline bool read_event(struct perf_thread *m, __u32 i)
{
	struct bpf_perf_event_value value;
	__u32 at = (m->slot - 1) * PERFX_PERF_EVENTS + i;

	if (bpf_perf_event_read_value(&perfx_perf_array, at, &value, sizeof(value)))
		return false;
	m->now.values[perfx_perf_events[i].counter & (PERFX_PERF_COUNTERS - 1)] +=
		value.counter * perfx_perf_events[i].weight;
	m->now.waited_ns += value.enabled - value.running;
	return true;
}

/* The current thread's events → m->now. */
static __always_inline bool read_perf(struct perf_thread *m)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u32 *slot;

	if (!m->slot) {
		slot = bpf_map_lookup_elem(&perfx_perf_slots, &tid);
		if (!slot)
			return false;
		m->slot = *slot;
	}
	__builtin_memset(&m->now, 0, sizeof(m->now));
	for (__u32 i = 0; i < PERFX_PERF_EVENTS; i++) {
		if (i >= perfx_perf_events_count)
			break;
		if (!read_event(m, i)) {
			m->slot = 0; /* assigned to another thread meanwhile */
			return false;
		}
	}
	return true;
}

/* A frame opens. Returns its frame.perf. */
__noinline int begin_perf(__u32 depth)
{
	struct perf_thread *m;

	m = task_storage_make(&perfx_perf_threads, bpf_get_current_task_btf());
	if (!m || !read_perf(m))
		return PERF_MISSED;
	m->frames[depth & (PERFX_MAX_DEPTH - 1)] = m->now;
	return PERF_OPEN;
}

static __always_inline void add_perf(struct perfx_perf_sums *sums, const struct reading *then,
				     const struct reading *now, const struct outcome *outcome)
{
	__sync_fetch_and_add(&sums->calls_count, 1);
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		__sync_fetch_and_add(&sums->values[i], now->values[i] - then->values[i]);
	if (outcome->state != PERFX_COST_COUNTED || outcome->moves ||
	    perfx_perf_flops >= PERFX_PERF_COUNTERS)
		return;
	__sync_fetch_and_add(&sums->flops, outcome->flops);
	__sync_fetch_and_add(&sums->counted_flops,
			     now->values[perfx_perf_flops & (PERFX_PERF_COUNTERS - 1)] -
				     then->values[perfx_perf_flops & (PERFX_PERF_COUNTERS - 1)]);
}

/* A frame of the current thread returns; t->outcome is its cost. */
__noinline int end_perf(struct thread *t, __u32 frame)
{
	struct perfx_perf_sums *sums;
	struct perf_thread *m;
	struct reading *then;
	struct frame *f;
	__u32 context;

	if (!t)
		return 0;
	f = frame_at(t, frame);
	context = f->context;
	sums = bpf_map_lookup_elem(&perfx_perf_sums, &context);
	if (!sums)
		return 0;
	m = bpf_task_storage_get(&perfx_perf_threads, bpf_get_current_task_btf(), NULL, 0);
	if (m && f->perf == PERF_OPEN && read_perf(m)) {
		then = &m->frames[frame & (PERFX_MAX_DEPTH - 1)];
		if (m->now.waited_ns == then->waited_ns) {
			add_perf(sums, then, &m->now, &t->outcome);
			return 0;
		}
	}
	__sync_fetch_and_add(&sums->missed_count, 1);
	return 0;
}

#endif
