/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Annotations: ranges that programs mark with function calls (NVTX, ROCTX, ITT, perfx.h, PyTorch's
 * record_function), and values and blocks that they report with perfx.h.
 *
 * A range is a frame among its thread's open calls, with the id of its name as function, so calls
 * and ranges form one hierarchy and one account. It is not on the program's stack and ends only
 * when the program ends it, not when a call around it returns or is unwound. A pop ends the last
 * range that the same thread and library pushed; without one the pop is counted and ends nothing.
 * PyTorch's ranges end with their object, in any order. Ranges that any thread may end are in a
 * table, not on a stack.
 *
 * For tasks that share a thread (asyncio) a program can name a started range as the parent of
 * another: the parent is charged with its time, independent of the stack.
 */
#ifndef PERFX_RANGES_BPF_H
#define PERFX_RANGES_BPF_H

#include "frames.bpf.h"
#include "memory.bpf.h"

/* The BPF program may sleep until a page of the target is read: a string literal that the program
 * has not accessed yet is not in memory, and a read without page faults fails. */
const volatile bool perfx_annotations_sleep = false;

/* Reads text up to a NUL, or as much as fits. */
static __always_inline bool read_text(struct thread *t, __u64 address)
{
	t->unread = address;
	return address &&
	       bpf_probe_read_user_str(t->name.text, PERFX_NAME_BYTES + 2, (void *)address) >= 0;
}

/* Reads text of a known length; a NUL ends it. */
static __always_inline bool read_bytes(struct thread *t, __u64 address, __u64 length)
{
	__u32 bytes = length > PERFX_NAME_BYTES + 1 ? PERFX_NAME_BYTES + 1 : length;

	/* too long for a string: not one */
	if (length >> 40)
		return false;
	barrier_var(bytes);
	bytes &= 2 * PERFX_NAME_BYTES - 1;
	if (bytes > PERFX_NAME_BYTES + 1)
		return false;
	t->unread = address;
	return !bytes || !bpf_probe_read_user(t->name.text, bytes, (void *)address);
}

static __always_inline __u64 read_word_at(__u64 address)
{
	__u64 word = 0;

	if (address)
		bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

/* nvtxEventAttributes_t (nvToolsExt.h, versions 2 and 3): offsets of its message and its type. */
#define NVTX_MESSAGE_TYPE  32
#define NVTX_MESSAGE	   40
#define NVTX_MESSAGE_ASCII 1

static __always_inline bool read_string(struct thread *t, const struct perfx_annotation *annotation,
					__u64 argument)
{
	__u64 text;

	for (int i = 0; i < PERFX_PATH_MAX; i++)
		if (i < annotation->path_count)
			argument = read_word_at(argument ? argument + annotation->path[i] : 0);
	if (argument)
		argument += annotation->text_offset;
	switch (annotation->text) {
	case PERFX_TEXT_C:
		return read_text(t, argument);
	case PERFX_TEXT_NVTX:
		return argument &&
		       (__u32)read_word_at(argument + NVTX_MESSAGE_TYPE) == NVTX_MESSAGE_ASCII &&
		       read_text(t, read_word_at(argument + NVTX_MESSAGE));
	case PERFX_TEXT_STRING:
		return argument &&
		       read_bytes(t, read_word_at(argument), read_word_at(argument + 8));
	case PERFX_TEXT_OLD_STRING:
		text = read_word_at(argument);
		return text && read_bytes(t, text, read_word_at(text - 24));
	case PERFX_TEXT_VIEW:
		text = read_word_at(argument + 8);
		return text && read_bytes(t, text, read_word_at(argument));
	default:
		return false;
	}
}

/* Reads a mark's name into t->name. t->vm.arguments are the marking function's. 0: unreadable,
 * perhaps because the page of t->unread is not in memory. */
__noinline int read_mark_name(struct thread *t, const struct perfx_annotation *annotation)
{
	if (!t || !annotation)
		return 0;
	t->unread = 0;
	__builtin_memset(&t->name, 0, sizeof(t->name));
	t->name.source = annotation->source;
	if (annotation->flags & PERFX_ANNOTATION_F_KIND)
		t->name.source |= PERFX_NAME_OF_KERNEL;
	if (!read_string(t, annotation, t->vm.arguments[annotation->text_arg & 7]))
		return 0;
	t->unread = 0;
	return 1;
}

/* As name_id, for the current thread: ranges do not belong to goroutines. */
__noinline int name_id_of_thread(void)
{
	return name_id(bpf_task_storage_get(&perfx_threads, bpf_get_current_task_btf(), NULL, 0));
}

static __always_inline __u32 name_of_unreadable(struct thread *t,
						const struct perfx_annotation *annotation)
{
	counter_add(PERFX_COUNTER_READ_FAULTS, 1);
	t->name.source = annotation->source;
	SET_TEXT(&t->name, "(unreadable)");
	return name_id_of_thread();
}

/* Reads the pages of t->unread into memory. Inlined: a program that may not sleep is refused if it
 * calls a function that may. */
static __always_inline void touch(const struct thread *t)
{
	__u64 address = t->unread;
	char byte;

	if (!address)
		return;
	bpf_copy_from_user(&byte, 1, (void *)address);
	bpf_copy_from_user(&byte, 1, (void *)(address + PERFX_NAME_BYTES));
}

SUM_MAP(overflow_values, PERFX_MAX_NAMES);

/* IEEE 754, binary64 */
#define DOUBLE_FRACTION 52
#define DOUBLE_BIAS	1023

/* Converts a double that is a whole number up to 2^53; false: it is another. BPF has no floating
 * point, so other numbers are not summed here. */
static __always_inline bool whole_number(__u64 bits, __s64 *number)
{
	__u64 fraction = bits & ((1ull << DOUBLE_FRACTION) - 1);
	__u32 exponent = bits >> DOUBLE_FRACTION & 0x7ff, shift;

	*number = 0;
	if (!exponent && !fraction)
		return true;
	if (exponent < DOUBLE_BIAS || exponent > DOUBLE_BIAS + DOUBLE_FRACTION)
		return false;
	shift = DOUBLE_BIAS + DOUBLE_FRACTION - exponent;
	fraction |= 1ull << DOUBLE_FRACTION;
	if (fraction & ((1ull << shift) - 1))
		return false;
	fraction >>= shift;
	*number = bits >> 63 ? -(__s64)fraction : (__s64)fraction;
	return true;
}

/* Adds a value for which the ring has no room. */
static __always_inline void overflow_value(struct thread *t, __u32 value, __u64 bits, bool added)
{
	const struct perfx_overflow_values none = {.process = t->process, .value = value};
	struct perfx_overflow_values *lost;
	__s64 number;

	counter_add(PERFX_COUNTER_VALUE_DROPS, 1);
	lost = sums_get(&perfx_sum_overflow_values, &none);
	if (!lost)
		return;
	if (whole_number(bits, &number))
		__sync_fetch_and_add(&lost->sum, number);
	else
		__sync_fetch_and_add(&lost->unsummed_count, 1);
	if (added) {
		__sync_fetch_and_add(&lost->adds_count, 1);
		return;
	}
	__sync_fetch_and_add(&lost->sets_count, 1);
	lost->last_bits = bits;
	lost->last_ns = bpf_ktime_get_ns();
}

__noinline int emit_value(struct thread *t, __u32 value, __u64 bits, __u32 flags)
{
	struct perfx_user_value *record;
	void *ring;

	if (!t)
		return 0;
	ring = ring_of(&perfx_spans, t->tid);
	record = ring ? bpf_ringbuf_reserve(ring, sizeof(*record), 0) : NULL;
	if (!record) {
		overflow_value(t, value, bits, flags & PERFX_USER_VALUE_ADDED);
		return 0;
	}
	record->hdr.size = sizeof(*record);
	record->hdr.kind = PERFX_KIND_USER_VALUE;
	record->hdr.fixed = sizeof(*record);
	record->time_ns = bpf_ktime_get_ns();
	record->number_bits = bits;
	record->process = t->process;
	record->tid = t->tid;
	record->value = value;
	record->flags = flags;
	bpf_ringbuf_submit(record, wake_flags(ring, &t->records));
	return 0;
}

/* Two allocators may use the same address for a block: a pool, and an allocator that divides its
 * blocks. */
#define ALLOCATOR_SHIFT 53

/* t->vm has the marker's registers but for the frame pointer. */
__noinline int emit_block(struct thread *t, const struct perfx_annotation *annotation,
			  __u32 allocator, __u64 fp)
{
	struct block block = {.allocator = allocator, .domain = PERFX_DOMAIN_USER};
	struct memory_thread *m;
	__u64 ret_addr_sp, return_address;

	if (!t || !annotation || level_of(PERFX_DOMAIN_USER) == PERFX_MEMORY_OFF)
		return 0;
	block.address = t->vm.arguments[annotation->key_arg & 7];
	m = block.address ? memory_thread(true, NULL) : NULL;
	if (!m)
		return 0;
	block.address ^= (__u64)allocator << ALLOCATOR_SHIFT;
	if (annotation->action == PERFX_ANNOTATION_FREED) {
		emit_free(m, &block);
		return 0;
	}
	ret_addr_sp = t->vm.ret_addr_sp;
	block.size_bytes = t->vm.arguments[annotation->size_arg & 7];
	return_address = read_word(ret_addr_sp);
	if (!omits_stack(m, PERFX_DOMAIN_USER, return_address))
		stack_walk(&m->stack, return_address, ret_addr_sp + 8, fp, 0);
	emit_allocation(m, &block, ret_addr_sp);
	return 0;
}

static __always_inline void emit_marked(struct thread *t, const struct perfx_annotation *annotation,
					__u32 id, __u64 fp)
{
	__u64 bits = t->vm.arguments[annotation->key_arg & 7];

	switch (annotation->action) {
	case PERFX_ANNOTATION_SET:
		emit_value(t, id, bits, 0);
		break;
	case PERFX_ANNOTATION_ADD:
		emit_value(t, id, bits, PERFX_USER_VALUE_ADDED);
		break;
	case PERFX_ANNOTATION_ALLOCATED:
	case PERFX_ANNOTATION_FREED:
		emit_block(t, annotation, id, fp);
		break;
	}
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PERFX_MAX_STARTED);
	__type(key, struct perfx_started_key);
	__type(value, struct perfx_started);
} perfx_started SEC(".maps");

/* Bits in frame.ret_addr_sp of a range, above all addresses; the rest is its key, if not STACKED.
 */
#define RANGE_SP	 (1ull << 63)
#define RANGE_STACKED	 (RANGE_SP | 1ull << 62)
#define STARTED_NAMELESS (1ull << 63)

static __always_inline __u32 source_of(const struct frame *f)
{
	return f->entry >> FRAME_SOURCE_SHIFT & FRAME_SOURCE_MASK;
}

/* As pass_frame. */
__noinline int pass_range(struct thread *t, __u64 ret_addr_sp, __u32 source)
{
	struct frame *f;

	if (!t || !t->kept)
		return 0;
	f = frame_at(t, t->kept - 1);
	if ((f->entry & (FRAME_RANGE | FRAME_PENDING)) && f->ret_addr_sp == ret_addr_sp &&
	    (!source || source_of(f) == source))
		return 0;
	t->kept--;
	return 1;
}

static long range_step(__u32 i, void *ctx)
{
	const struct frame_search *search = ctx;

	return !pass_range(search->thread, search->ret_addr_sp, search->wanted);
}

/* 1 + the index of the uppermost range of `source` (0: any), open or pending, with this
 * ret_addr_sp; 0: none. */
__noinline int find_range(struct thread *t, __u64 ret_addr_sp, __u32 source)
{
	struct frame_search search = {t, ret_addr_sp, source};

	if (!t)
		return 0;
	t->kept = t->depth;
	repeat(PERFX_MAX_DEPTH, range_step, &search);
	return t->kept;
}

/* Removes a frame that will not end: its call stays an entry without an end. */
__noinline int forget_frame(struct thread *t, __u32 index)
{
	if (!t || index >= t->depth || index >= PERFX_MAX_DEPTH)
		return 0;
	raise_frame(t, index);
	t->depth--;
	if (frame_at(t, t->depth)->entry & (FRAME_RANGE | FRAME_PENDING))
		t->ranges--;
	return 0;
}

static __always_inline struct perfx_started *started_of(struct thread *t, __u64 id)
{
	struct perfx_started_key key = {
		.id = id, .process = t->process, .source = PERFX_SOURCE_PERFX};

	return bpf_map_lookup_elem(&perfx_started, &key);
}

/* The context of a range that belongs to t->within, or to the innermost frame. */
__noinline int context_of_range(struct thread *t, __u32 function)
{
	struct perfx_started *parent;

	if (!t)
		return 0;
	parent = t->within ? started_of(t, t->within) : NULL;
	if (parent)
		return context_below(t, parent->context, function, 0);
	return context_of_call(t, function);
}

/* Charges the parent of a range with the range's duration. */
__noinline int charge_range(struct thread *t, __u64 id, __u64 duration_ns)
{
	struct perfx_started *parent = t && id ? started_of(t, id) : NULL;

	if (parent)
		__sync_fetch_and_add(&parent->inside_ns, duration_ns);
	return 0;
}

static __always_inline bool is_optimizer_step(const char *name)
{
	static const char optimizer[] = "Optimizer.step#";

#pragma unroll
	for (__u32 i = 0; i < sizeof(optimizer) - 1; i++)
		if (name[i] != optimizer[i])
			return false;
	return true;
}

/* Distinguishes optimizers of a class, whose steps PyTorch gives the same name: a hash of the
 * address of the optimizer whose range begins. 0: unknown, or another range. */
static __always_inline __u16 optimizer_of(struct thread *t, __u32 source)
{
	__u64 object;

	if (source != PERFX_SOURCE_TORCH || !is_optimizer_step(t->name.text))
		return 0;
	object = python_wrapped_object();
	return object ? (__u16)(mix(0, object) >> 16) ?: 1 : 0;
}

/* Emits a call of which only the beginning is known. */
__noinline int emit_instant(struct thread *t, __u32 function)
{
	struct frame *f;

	if (!t)
		return 0;
	f = instant_frame(t, function);
	t->outcome.state = PERFX_COST_NONE;
	f->context = context_of_call(t, function);
	f->object = t->optimizer;
	emit(t, f, 0, 0, PERFX_SPAN_UNTIMED);
	return 0;
}

/* Opens a frame of `function`; without room its end will be skipped too. Returns whether there was
 * room. */
__noinline int open_range(struct thread *t, const struct perfx_annotation *annotation,
			  __u32 function, __u64 ret_addr_sp, __u32 entry)
{
	__u32 context;
	struct frame *f;

	if (!t || !annotation)
		return 0;
	if (t->depth >= PERFX_MAX_DEPTH) {
		t->skipped++;
		counter_add(PERFX_COUNTER_UNTIMED_CALLS, 1);
		emit_instant(t, function);
		return 0;
	}
	context = context_of_range(t, function);
	f = frame_at(t, t->depth);
	__builtin_memset(f, 0, sizeof(*f));
	f->ret_addr_sp = ret_addr_sp;
	f->within = t->within;
	f->function = function;
	f->context = context;
	f->object = t->optimizer;
	f->entry = entry | (annotation->source & FRAME_SOURCE_MASK) << FRAME_SOURCE_SHIFT;
	t->depth++;
	t->ranges++;
	start_clocks(t, f);
	return 1;
}

/* As end_below, of a range. */
__noinline int end_range(struct thread *t, __u32 index, __u64 now, __u32 call_cost_ns)
{
	return end_inside(t, index, now, call_cost_ns, SPAN_OF_RANGE);
}

static __always_inline void pop_range(struct thread *t, const struct perfx_annotation *annotation,
				      __u64 now, __u32 cost_ns)
{
	struct frame *f;
	__u32 index;

	if (t->skipped) {
		t->skipped--;
		return;
	}
	index = find_range(t, RANGE_STACKED, annotation->source);
	if (!index) {
		counter_add(PERFX_COUNTER_UNMATCHED_RETURNS, 1);
		return;
	}
	f = frame_at(t, index - 1);
	if (f->within)
		charge_range(t, f->within, now - f->start_ns);
	end_range(t, index - 1, now, cost_ns);
}

/* An id for a started range without one (NVTX without a tool): the last range started is the first
 * to stop. */
static __always_inline __u64 id_of_nameless(struct perfx_traced_process *traced, bool starts)
{
	__u32 n;

	if (!traced)
		return 0;
	if (starts)
		return STARTED_NAMELESS | __sync_fetch_and_add(&traced->started_nameless, 1);
	n = traced->started_nameless;
	if (!n)
		return 0;
	__sync_fetch_and_add(&traced->started_nameless, -1);
	return STARTED_NAMELESS | (n - 1);
}

/* Starts range `id` of t->start_function; its parent is t->within, if the program named one. Not
 * inlined: the kernel allows 512 bytes of stack for a whole chain of calls, and this is its last.
 */
static __noinline int start_async(struct thread *t, __u32 source, __u64 id)
{
	struct perfx_started_key key = {.id = id, .process = t->process, .source = source};
	struct perfx_started started = {.start_ns = t->start_ns,
					.within = t->within,
					.function = t->start_function,
					.tid = t->tid,
					.recording_window = current_recording_window()};

	t->start_function = 0;
	started.context = source == PERFX_SOURCE_PERFX ? context_of_range(t, started.function)
						       : context_below(t, 0, started.function, 0);
	if (!id)
		key.id = id_of_nameless(current_process(), true);
	if (bpf_map_update_elem(&perfx_started, &key, &started, BPF_ANY)) {
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
		emit_instant(t, started.function);
	}
	return 0;
}

static __always_inline void stop_async(struct thread *t, __u32 source, __u64 id, __u64 now)
{
	struct perfx_started_key key = {.id = id, .process = t->process, .source = source};
	struct perfx_started *started = bpf_map_lookup_elem(&perfx_started, &key);
	struct frame *f;
	__u64 inside_ns, within;
	__u32 tid = t->tid;

	if (!started) {
		key.id = id_of_nameless(current_process(), false);
		if (key.id)
			started = bpf_map_lookup_elem(&perfx_started, &key);
	}
	if (!started || started->recording_window != current_recording_window()) {
		counter_add(PERFX_COUNTER_UNMATCHED_RETURNS, 1);
		if (started)
			bpf_map_delete_elem(&perfx_started, &key);
		return;
	}
	f = instant_frame(t, started->function);
	f->start_ns = started->start_ns;
	f->context = started->context;
	inside_ns = started->inside_ns;
	within = started->within;
	t->tid = started->tid;
	bpf_map_delete_elem(&perfx_started, &key);
	now -= f->start_ns;
	charge_range(t, within, now);
	t->outcome.state = PERFX_COST_NONE;
	emit(t, f, now, now > inside_ns ? now - inside_ns : 0, PERFX_SPAN_ASYNC);
	t->tid = tid;
}

/* Returns whether a hit marks something. The constructor of an object that BEGIN's function creates
 * does not. */
static __always_inline bool is_relevant(struct thread *t, const struct perfx_annotation *annotation)
{
	__u64 tag = t->vm.arguments[annotation->tag_arg & 7];

	if (annotation->tag_arg && (__u32)tag != annotation->tag)
		return false;
	return annotation->action != PERFX_ANNOTATION_OPEN || annotation->text || !t->depth ||
	       !(frame_at(t, t->depth - 1)->entry & FRAME_PENDING);
}

static __always_inline bool begins_range(__u8 action)
{
	return action == PERFX_ANNOTATION_PUSH || action == PERFX_ANNOTATION_BEGIN ||
	       action == PERFX_ANNOTATION_OPEN || action == PERFX_ANNOTATION_START ||
	       action == PERFX_ANNOTATION_START_ID || action == PERFX_ANNOTATION_CALL ||
	       action == PERFX_ANNOTATION_INSTANT;
}

/* Returns whether a mark has a name and emits a record that is not a range. */
static __always_inline bool emits_record(__u8 action)
{
	return action == PERFX_ANNOTATION_SET || action == PERFX_ANNOTATION_ADD ||
	       action == PERFX_ANNOTATION_ALLOCATED || action == PERFX_ANNOTATION_FREED;
}

/* Drops the open range with a key that another range now uses: its end was not seen. */
static __always_inline void forget_key(struct thread *t, __u64 ret_addr_sp)
{
	__u32 index = t->ranges ? find_range(t, ret_addr_sp, 0) : 0;

	if (index)
		forget_frame(t, index - 1);
}

#define KIND_BYTES 32

struct kind_search {
	const char *kind; /* of KIND_BYTES */
	__u64 length;
	bool found;
};

static long kind_step(__u32 i, void *ctx)
{
	struct kind_search *search = ctx;
	const char *at;

	if (i + 4 >= search->length || i + 6 > KIND_BYTES)
		return 1;
	at = search->kind + (i & (KIND_BYTES - 1));
	search->found = (at[0] == 'M' && at[1] == 'a' && at[2] == 't' && at[3] == 'M' &&
			 at[4] == 'u' && at[5] == 'l') ||
			(at[0] == 'C' && at[1] == 'o' && at[2] == 'n' && at[3] == 'v' &&
			 (at[4] == '2' || at[4] == '3'));
	return search->found;
}

/* Returns whether an operation of this kind multiplies. view: address of its length and pointer. */
__noinline int multiplies(struct thread *t, __u64 view)
{
	__u64 length = read_word_at(view), text = read_word_at(view + 8);
	struct kind_search search = {.length = length};

	if (!t || !text || !length || length > KIND_BYTES * 2)
		return 0;
	search.kind = t->name.text;
	__builtin_memset(t->name.text, 0, sizeof(t->name.text));
	if (bpf_probe_read_user_str(t->name.text, KIND_BYTES, (void *)text) < 0)
		return 0;
	repeat(KIND_BYTES, kind_step, &search);
	return search.found;
}

/* Marks the FLOPs of the last opened call as pending if it is an operation that multiplies. */
static __always_inline void await_flops(struct thread *t, const struct perfx_annotation *annotation)
{
	__u64 view = t->vm.arguments[annotation->text_arg & 7] + annotation->text_offset + 16;
	__u32 depth = t->depth;

	if (!depth || depth >= PERFX_MAX_DEPTH || !multiplies(t, view))
		return;
	frame_at(t, depth - 1)->cost_state = PERFX_COST_UNREAD;
	t->pending_flops = depth;
}

/* The id of a mark's name, which all ranges of this name have as function; `own` if the name is not
 * to be emitted. 0: no room for another name. */
static __always_inline __u32 id_of_annotation(struct thread *t,
					      const struct perfx_annotation *annotation, __u32 own)
{
	bool hides = annotation->flags & PERFX_ANNOTATION_F_UNDERSCORES;
	bool read = read_mark_name(t, annotation);
	__u32 id = 0;

	if (!read && perfx_annotations_sleep && t->unread) {
		touch(t);
		read = read_mark_name(t, annotation);
	}
	if (read && hides && (t->name.text[0] != '_' || t->name.text[1] != '_'))
		return own;
	if (read)
		id = name_id_of_thread();
	if (id)
		return id;
	return hides && !t->unread ? own : name_of_unreadable(t, annotation);
}

static __always_inline void annotation_begins(struct thread *t,
					      const struct perfx_annotation *annotation,
					      __u32 function, __u32 index, bool counted)
{
	__u64 ret_addr_sp = t->vm.ret_addr_sp, key = t->vm.arguments[annotation->key_arg & 7];

	t->within = annotation->within_arg ? t->vm.arguments[annotation->within_arg & 7] : 0;
	/* the marking function may itself be traced: its frame, at `ret_addr_sp`, is alive */
	drop_left_frames(t, ret_addr_sp - 8);
	switch (annotation->action) {
	case PERFX_ANNOTATION_PUSH:
		open_range(t, annotation, function, RANGE_STACKED, index | FRAME_RANGE);
		break;
	case PERFX_ANNOTATION_BEGIN:
		open_range(t, annotation, function, ret_addr_sp, index | FRAME_PENDING);
		t->pending = t->vm.arguments[1];
		break;
	case PERFX_ANNOTATION_CALL:
		if (counted)
			emit_instant(t, function);
		else if (open_range(t, annotation, function, ret_addr_sp, index | FRAME_PENDING) &&
			 (annotation->flags & PERFX_ANNOTATION_F_KIND))
			await_flops(t, annotation);
		break;
	case PERFX_ANNOTATION_OPEN:
		forget_key(t, RANGE_SP | key);
		open_range(t, annotation, function, RANGE_SP | key, index | FRAME_RANGE);
		break;
	case PERFX_ANNOTATION_START:
	case PERFX_ANNOTATION_START_ID:
		t->start_function = function;
		t->start_ns = bpf_ktime_get_ns();
		/* a function whose exits are unknown returns no id either */
		if (annotation->action == PERFX_ANNOTATION_START_ID)
			start_async(t, annotation->source, annotation->key_arg ? key : 0);
		break;
	case PERFX_ANNOTATION_INSTANT:
		emit_instant(t, function);
		break;
	}
}

static __always_inline void annotation_ends(struct thread *t,
					    const struct perfx_annotation *annotation, __u64 now,
					    __u32 cost_ns)
{
	__u64 key = t->vm.arguments[annotation->key_arg & 7];
	__u32 index;

	switch (annotation->action) {
	case PERFX_ANNOTATION_POP:
		pop_range(t, annotation, now, cost_ns);
		break;
	case PERFX_ANNOTATION_END:
		index = t->ranges ? find_range(t, RANGE_SP | key, 0) : 0;
		if (index)
			end_range(t, index - 1, now, cost_ns);
		else if (annotation->source == PERFX_SOURCE_PERFX)
			counter_add(PERFX_COUNTER_UNMATCHED_RETURNS, 1);
		break;
	case PERFX_ANNOTATION_STOP:
		stop_async(t, annotation->source, key, now);
		break;
	}
}

/* The marking function at `ret_addr_sp` has created the object of its pending range: the object's
 * address becomes the range's key. */
static __always_inline void settle_pending(struct thread *t,
					   const struct perfx_annotation *annotation,
					   __u64 ret_addr_sp)
{
	__u64 object = read_word_at(t->pending), key = RANGE_SP | (object + annotation->key_offset);
	struct frame *f;
	__u32 index;

	if (object)
		forget_key(t, key);
	else
		counter_add(PERFX_COUNTER_READ_FAULTS, 1);
	index = find_range(t, ret_addr_sp, 0);
	if (!index)
		return;
	f = frame_at(t, index - 1);
	f->ret_addr_sp = key;
	f->entry = (f->entry & ~FRAME_PENDING) | FRAME_RANGE;
	if (!object)
		forget_frame(t, index - 1);
}

/* The marking function at `ret_addr_sp` returns. */
static __always_inline void annotation_returns(struct thread *t,
					       const struct perfx_annotation *annotation,
					       __u64 ret_addr_sp, __u64 now, __u32 cost_ns)
{
	__u32 index;

	if (annotation->action == PERFX_ANNOTATION_START) {
		if (t->start_function)
			start_async(t, annotation->source, t->vm.arguments[7]);
		return;
	}
	if (!t->ranges)
		return;
	if (annotation->action == PERFX_ANNOTATION_BEGIN) {
		settle_pending(t, annotation, ret_addr_sp);
		return;
	}
	index = find_range(t, ret_addr_sp, 0);
	if (index)
		end_range(t, index - 1, now, cost_ns);
}

static __always_inline struct perfx_annotation *mark_of(const struct perfx_probe *probe)
{
	__u32 index = probe->rule;

	return bpf_map_lookup_elem(&perfx_annotations, &index);
}

/* Opens or closes the recording window of a waiting tracer. Returns whether the mark is one of
 * these. */
static __always_inline bool turn_recording(const struct perfx_probe *probe,
					   const struct perfx_annotation *annotation, __u32 index)
{
	struct perfx_traced_process *traced;

	if (annotation->action != PERFX_ANNOTATION_RECORD &&
	    annotation->action != PERFX_ANNOTATION_PAUSE)
		return false;
	traced = perfx_waiting ? current_process() : NULL;
	if (!traced || traced->dead)
		return true;
	count_hit(index);
	if (annotation->action == PERFX_ANNOTATION_RECORD)
		recording_window_open(traced);
	else
		recording_window_close(traced);
	return true;
}

/* As follow_first_call. A USDT probe may be at any instruction of a function; others are at its
 * entry. */
static __always_inline void follow_first_mark(struct thread *t,
					      const struct perfx_annotation *annotation,
					      struct pt_regs *ctx)
{
	__u64 sp = PT_REGS_SP(ctx), fp = PT_REGS_FP(ctx);

	if (annotation->source == PERFX_SOURCE_USDT)
		follow_first_call(t, PT_REGS_IP(ctx), sp, fp, PERFX_STACK_PC);
	else
		follow_first_call(t, read_word(sp), sp + 8, fp, 0);
}

/* A hit at the entry of a marking function. */
static __always_inline void annotation_entered(struct pt_regs *ctx, const struct perfx_probe *probe,
					       const struct perfx_annotation *annotation,
					       __u32 index)
{
	__u64 now = bpf_ktime_get_ns();
	bool opens = begins_range(annotation->action);
	/* another thread may have started the range that it stops */
	bool creates = opens || emits_record(annotation->action) ||
		       annotation->action == PERFX_ANNOTATION_STOP;
	struct thread *t =
		thread_find(creates ? probe : NULL, annotation->action != PERFX_ANNOTATION_END);
	__u32 id;

	if (!t)
		return;
	count_hit(index);
	save_arguments(t, ctx);
	if (!is_relevant(t, annotation)) {
		if (opens)
			counter_add(PERFX_COUNTER_REPEATS, 1);
	} else if (opens || emits_record(annotation->action)) {
		id = annotation->text ? id_of_annotation(t, annotation, probe->function)
				      : probe->function;
		/* called here: the kernel allows 512 bytes of stack for a whole chain of calls */
		t->optimizer = optimizer_of(t, annotation->source);
		if (id && opens)
			annotation_begins(t, annotation, id, index,
					  probe->flags & PERFX_PROBE_F_BY_CHOICE);
		else if (id)
			emit_marked(t, annotation, id, PT_REGS_FP(ctx));
	} else {
		annotation_ends(t, annotation, now, probe->call_cost_ns);
	}
	if (t->new_context)
		follow_first_mark(t, annotation, ctx);
}

/* A hit at an exit of a marking function. */
static __always_inline void annotation_left(struct pt_regs *ctx, const struct perfx_probe *probe,
					    const struct perfx_annotation *annotation, __u32 index)
{
	__u64 now = bpf_ktime_get_ns(), sp = PT_REGS_SP(ctx), fp = PT_REGS_FP(ctx);
	struct thread *t;

	if (!(probe->flags & PERFX_PROBE_F_LEAVES) && !condition_holds(ctx, probe->condition))
		return;
	t = thread_find(NULL, false);
	if (!t)
		return;
	count_hit(index);
	save_result(t, ctx);
	/* the verifier refuses a computed offset into ctx */
	barrier_var(sp);
	barrier_var(fp);
	annotation_returns(t, annotation,
			   (probe->cfa_is_fp ? fp : sp) + (__s64)probe->cfa_offset - 8, now,
			   probe->call_cost_ns);
	if (t->new_context)
		follow_first_call(t, PT_REGS_IP(ctx), sp, fp, PERFX_STACK_PC | STACK_SKIP_FIRST);
}

#endif
