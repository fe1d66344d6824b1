/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Call stacks, identified by their hash: a stack goes through the ring once, and later records name
 * it.
 *
 * A walk goes from frame to frame by the unwind tables (unwind.bpf.h), and where these do not cover
 * the code (JIT compilers, assembler)
 *
 *	1. by rbp, if it points to what looks like a frame: a return address behind a call,
 *	2. by the first word up the stack that is a return address behind a call, kept only if the
 *	   walk then reaches the thread's start, and marked PERFX_STACK_GUESSED.
 *
 * Processes without tables are walked by frame pointers alone. bpf_get_stack() would do no more,
 * and lose the immediate caller (the callee's first instruction has not yet pushed its own frame),
 * show the trampoline where a return probe has replaced a return address, and need more time;
 * bpf_get_stackid() loses stacks that collide.
 *
 * The stack is read a chunk at a time. A step that needs memory which is not in the chunk returns
 * to its caller, which reads it and repeats the step: so the caller chooses how memory is read, and
 * a program can walk the stack of another task (stack_run).
 */
#ifndef PERFX_STACK_BPF_H
#define PERFX_STACK_BPF_H

#include "python.bpf.h"
#include "thread.bpf.h"
#include "unwind.bpf.h"

/* As many as struct memory_thread has room for. */
#define STACK_CHUNK_WORDS 256
#define STACK_CHUNK_BYTES (8 * STACK_CHUNK_WORDS)

enum stack_stage {
	STAGE_RULE,  /* of the frame, and its extent by it */
	STAGE_FRAME, /* it is added */
	STAGE_RETURN,
	STAGE_FP,
	STAGE_RBP,   /* without a rule: is rbp a frame pointer? */
	STAGE_SCAN,  /* it is not */
	STAGE_CHAIN, /* of frame pointers: the process has no tables */
};

/*
 * A walk and the STACK record that it makes. Each kind of program has one of its own, since one may
 * interrupt another: uprobes in their thread's task storage (they are preempted), perf events by
 * CPU (they interrupt uprobes, and not each other), an iterator a single one.
 */
struct call_stack {
	/* the frame that the walk is at */
	__u64 pc, sp, fp;
	/* its caller's, as far as they are known */
	__u64 cfa, return_address;
	__u64 task; /* its task_struct */
	struct perfx_unwind_process process;
	__u64 wanted; /* what is to be read into the chunk, or is in it */
	__u32 wanted_bytes;
	__u32 chunk_bytes; /* of these; 0: not read yet */
	__u64 code_behind; /* a possible return address; 0: none is looked at */
	__u64 scan_at, scan_end;
	__u64 scanned_fp;   /* the last word that may be a saved rbp */
	__u64 guess_at;	    /* where the first guess was found; 0: none */
	__u32 guess_count;  /* frames by then */
	__u32 guess_merged; /* and Python frames among them */
	__u64 guess_entry;  /* python.entry by then */
	__u32 guesses;
	__u32 rule;
	__u32 flags;	 /* PERFX_STACK_, STACK_SKIP_FIRST */
	__u32 fallback;	 /* enum perfx_stack_end: why there was no rule */
	__u8 stage;	 /* enum stack_stage */
	__u8 exact;	 /* pc is an instruction, not a return address */
	__u8 by_fp;	 /* found by its callee's rbp, without a rule */
	__u8 wants_code; /* what is wanted is code */
	__u8 careful;	 /* a chunk that crossed a page could not be read */
	__u8 pad[7];
	union {
		__u64 chunk[STACK_CHUNK_WORDS];
		struct python_memory python_memory; /* before the native walk */
	};
	struct python_walk python;
	struct perfx_stack head;
	__u64 addresses[PERFX_STACK_FRAMES_MAX + 1]; /* with room for the time: append_tail() */
};

/* For stack_walk, beside PERFX_STACK_PC: the walk begins at an instruction that leaves a function,
 * which is not shown. */
#define STACK_SKIP_FIRST 0x10000

/* enum perfx_stacks; user space sets it when it has tables. */
extern volatile __u32 perfx_stacks_by;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PERFX_MAX_RINGS);
	__type(key, __u32);
	__array(values, struct ring);
} perfx_memory __weak SEC(".maps");

struct stack_key {
	__u64 hash;
	__u32 process;
	__u32 pad;
};

struct stack_value {
	__u32 stack;
	__u32 check; /* of another hash function: a collision of both is not to be expected */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* user space: PERFX_MAX_STACKS when memory is recorded */
	__type(key, struct stack_key);
	__type(value, struct stack_value);
} perfx_stack_ids __weak SEC(".maps");

extern volatile __u32 perfx_next_stack;

/* Nested return probes that are searched for a replaced return address. */
#define RETURN_INSTANCES_MAX 64

static __always_inline __u64 trampoline_of(const struct task_struct *task)
{
	return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

struct replaced_search {
	struct return_instance *instance;
	__u64 ret_addr_sp, found;
};

static long replaced_step(__u32 i, void *ctx)
{
	struct replaced_search *search = ctx;
	struct return_instance *instance = search->instance;

	if (!instance)
		return 1;
	if (BPF_CORE_READ(instance, stack) == search->ret_addr_sp) {
		search->found = BPF_CORE_READ(instance, orig_ret_vaddr);
		return 1;
	}
	search->instance = BPF_CORE_READ(instance, next);
	return 0;
}

/* A return address that may be the trampoline of a return probe, which begins a page, as it was
 * before; 0: not found. Out of line, as what follows: verified once, not once for every way that
 * leads there. */
__weak __noinline __u64 replaced_address(__u64 task_address, __u64 return_address,
					 __u64 ret_addr_sp)
{
	const struct task_struct *task = (const void *)task_address;
	struct replaced_search search = {.ret_addr_sp = ret_addr_sp};

	if (return_address != trampoline_of(task))
		return return_address;
	search.instance = BPF_CORE_READ(task, utask, return_instances);
	repeat(RETURN_INSTANCES_MAX, replaced_step, &search);
	return search.found;
}

/* At most, of an instruction. */
#define INSTRUCTION_BYTES 16

/* Where a thread is in its program. An instruction that the kernel steps for a probe runs from a
 * copy in a page without a file: that is at the probed one. */
static __always_inline __u64 program_ip(const struct task_struct *task, const struct pt_regs *regs)
{
	const struct uprobe_task *utask = BPF_CORE_READ(task, utask);
	__u64 ip = PT_REGS_IP(regs), copy = utask ? BPF_CORE_READ(utask, xol_vaddr) : 0;

	if (!copy || ip - copy >= INSTRUCTION_BYTES)
		return ip;
	return BPF_CORE_READ(utask, vaddr) + (ip - copy);
}

static __always_inline __u64 repaired(__u64 task, __u64 return_address, __u64 ret_addr_sp)
{
	return return_address & 4095 ? return_address
				     : replaced_address(task, return_address, ret_addr_sp);
}

/* User space begins above the first pages. */
static __always_inline bool is_user_address(__u64 address)
{
	return address >= 65536 && !(address >> 56);
}

/* What a step comes to. */
enum stack_step {
	STACK_GOES_ON,
	STACK_WANTS, /* memory: s->wanted_bytes from s->wanted on, in s->chunk */
	STACK_DONE,
};

/* A guess that leads nowhere was none: the next one is tried. */
#define STACK_GUESSES_MAX 8
/* Further up than these is no saved rbp, and no end of a frame without a rule. */
#define STACK_NEAR_BYTES (1ull << 20)
#define STACK_SCAN_BYTES 8192

/* As if the first guess had not been made. */
static __always_inline void forget_guess(struct call_stack *s)
{
	s->head.frames_count = s->guess_count;
	s->python.merged = s->guess_merged;
	s->python.entry = s->guess_entry;
	s->flags &= ~PERFX_STACK_GUESSED;
}

static __always_inline int resume_scan(struct call_stack *s)
{
	forget_guess(s);
	s->scan_at = s->guess_at + 8;
	s->scan_end = s->guess_at + STACK_SCAN_BYTES;
	s->guess_at = 0;
	s->stage = STAGE_SCAN;
	return STACK_GOES_ON;
}

__weak __noinline int finish(struct call_stack *s, __u32 end)
{
	if (!s)
		return STACK_DONE;
	if (s->guess_at && end != PERFX_STACK_END_START) {
		if (s->guesses < STACK_GUESSES_MAX)
			return resume_scan(s);
		forget_guess(s);
		end = s->fallback;
	}
	s->head.flags =
		(s->flags & (PERFX_STACK_PC | PERFX_STACK_GUESSED)) | PERFX_STACK_ENDED(end);
	if (end == PERFX_STACK_END_START)
		s->head.flags |= PERFX_STACK_COMPLETE;
	else if (end == PERFX_STACK_END_DEPTH)
		s->head.flags |= PERFX_STACK_CUT;
	return STACK_DONE;
}

/* A stack that is too deep keeps its outer Python frames, which say where the program was: behind
 * so many frames, native ones leave room for them. */
#define STACK_MIXED_FRAMES 64

static __always_inline bool is_full(const struct call_stack *s)
{
	__u32 at = s->head.frames_count, count = s->python.count, merged = s->python.merged;
	__u32 rest = at < STACK_MIXED_FRAMES || merged > count ? 0 : count - merged;

	return at + rest >= PERFX_STACK_FRAMES_MAX;
}

/* Adds the frame that the walk is at; 0: there is no room. What a signal interrupted is shown
 * as if it had been called, since names are looked up before a return address. */
__weak __noinline int push(struct call_stack *s)
{
	__u32 at;

	if (!s)
		return 0;
	at = s->head.frames_count;
	if (s->flags & STACK_SKIP_FIRST) {
		s->flags &= ~(STACK_SKIP_FIRST | PERFX_STACK_PC);
		return 1;
	}
	if (is_full(s))
		return 0;
	s->head.frames_count = at + 1;
	s->addresses[at & (PERFX_STACK_FRAMES_MAX - 1)] = s->pc + (s->exact && at);
	return 1;
}

static __always_inline bool push_python(struct call_stack *s, __u64 frame)
{
	__u32 at = s->head.frames_count;

	if (at >= PERFX_STACK_FRAMES_MAX)
		return false;
	s->addresses[at & (PERFX_STACK_FRAMES_MAX - 1)] = frame;
	s->head.frames_count = at + 1;
	return true;
}

static __always_inline __u64 python_slot(const struct call_stack *s, __u32 at)
{
	return s->python.slots[at & (PERFX_STACK_FRAMES_MAX - 1)];
}

/* Adds the next slot of a group. */
static long merge_step(__u32 i, void *ctx)
{
	struct call_stack *s = *(struct call_stack **)ctx;
	__u64 slot = python_slot(s, s->python.merged);

	if (s->python.merged >= s->python.count || !(slot & PERFX_FRAME_PYTHON) ||
	    !push_python(s, slot))
		return 1;
	s->python.merged++;
	return 0;
}

static long merge_rest_step(__u32 i, void *ctx)
{
	struct call_stack *s = *(struct call_stack **)ctx;
	__u64 slot;

	if (s->python.merged >= s->python.count)
		return 1;
	slot = python_slot(s, s->python.merged++);
	return (slot & PERFX_FRAME_PYTHON) && !push_python(s, slot);
}

/* Adds the Python frames whose native ones the walk has not reached. */
__weak __noinline int merge_rest(struct call_stack *s)
{
	if (s)
		repeat(PERFX_STACK_FRAMES_MAX, merge_rest_step, &s);
	return 0;
}

/* The word at an address, or false: it is to be read. */
static __always_inline bool read_memory(struct call_stack *s, __u64 address, __u64 *value)
{
	__u64 at = address - s->wanted;

	if (s->chunk_bytes >= 8 && at <= s->chunk_bytes - 8 && !(at & 7)) {
		at /= 8;
		if (at >= STACK_CHUNK_WORDS)
			return false;
		*value = s->chunk[at];
		return true;
	}
	s->wanted = address;
	s->chunk_bytes = 0;
	return false;
}

/* Asks for what read_memory lacked. Frames hold what is saved at their upper end, the return
 * address last, so a chunk of the stack begins below what is wanted. */
#define STACK_BELOW_BYTES 128

__weak __noinline int want_stack(struct call_stack *s)
{
	__u64 from;

	if (!s)
		return STACK_DONE;
	from = s->wanted - s->sp < STACK_CHUNK_BYTES / 2 ? s->sp : s->wanted - STACK_BELOW_BYTES;
	if (s->wanted & 7 || !is_user_address(s->wanted))
		return finish(s, PERFX_STACK_END_UNREADABLE);
	s->wanted_bytes = STACK_CHUNK_BYTES;
	if (s->careful) {
		if ((from ^ s->wanted) & ~4095ull)
			from = s->wanted & ~4095ull;
		if (s->wanted_bytes > 4096 - (from & 4095))
			s->wanted_bytes = 4096 - (from & 4095);
	}
	s->wanted = from;
	return STACK_WANTS;
}

/* The 8 bytes before an address of code. */
static __always_inline int want_code(struct call_stack *s)
{
	s->wanted_bytes = 8;
	s->wants_code = 1;
	return STACK_WANTS;
}

/* What was wanted is in s->chunk, or could not be read. The top of a stack may be less than a chunk
 * away, but it ends a page. Returns enum stack_step. */
__weak __noinline int stack_has_read(struct call_stack *s, bool failed)
{
	if (!s)
		return STACK_DONE;
	if (failed && !s->wants_code) {
		if (s->careful)
			return finish(s, PERFX_STACK_END_UNREADABLE);
		s->careful = 1;
		return STACK_GOES_ON;
	}
	if (failed)
		s->chunk[0] = 0;
	s->chunk_bytes = s->wanted_bytes;
	s->wants_code = 0;
	return STACK_GOES_ON;
}

/* Of the next group; 0: not known. */
static __always_inline __u64 next_entry(const struct call_stack *s)
{
	return python_slot(s, s->python.merged) ?: s->python.entry;
}

/* Does the native frame that the walk is at, [sp, CFA), run the next group? Its entry lies there.
 */
static __always_inline bool runs_group(const struct call_stack *s)
{
	__u64 entry = next_entry(s);

	if (s->python.merged >= s->python.count)
		return false;
	return entry ? entry - s->sp < s->cfa - s->sp
		     : s->pc - s->python.eval_start < s->python.eval_end - s->python.eval_start;
}

/* Before the native frame is added, which runs it; previous: the entry of the one that follows, or
 * 0. */
__weak __noinline int merge_group(struct call_stack *s, __u64 previous)
{
	if (!s)
		return 0;
	s->python.entry = previous;
	s->python.merged++;
	repeat(PERFX_STACK_FRAMES_MAX, merge_step, &s);
	return 0;
}

/* Adds the group that the native frame runs, if it does; false: memory is to be read. */
static __always_inline bool merge_python(struct call_stack *s)
{
	__u64 entry, previous = 0;

	if (!runs_group(s))
		return true;
	entry = next_entry(s);
	if (entry && s->python.entry_previous &&
	    !read_memory(s, entry + s->python.entry_previous, &previous))
		return false;
	merge_group(s, previous);
	return true;
}

/* The walk goes on in the caller. */
static __always_inline int to_caller(struct call_stack *s, __u64 fp, bool exact)
{
	if (!exact)
		s->return_address = repaired(s->task, s->return_address, s->cfa - 8);
	if (!s->return_address)
		return finish(s, PERFX_STACK_END_START);
	if (!is_user_address(s->return_address))
		return finish(s, PERFX_STACK_END_BAD_ADDRESS);
	s->pc = s->return_address;
	s->sp = s->cfa;
	s->fp = fp;
	s->exact = exact;
	s->by_fp = s->stage == STAGE_RBP;
	s->stage = STAGE_RULE;
	return STACK_GOES_ON;
}

static __always_inline int fall_back(struct call_stack *s, __u32 end)
{
	if (!push(s))
		return finish(s, PERFX_STACK_END_DEPTH);
	if (!s->guess_at)
		s->fallback = end;
	s->stage = STAGE_RBP;
	return STACK_GOES_ON;
}

/* Does a rule lead to a caller? */
static __always_inline bool leads_on(__u32 cfa)
{
	return cfa != PERFX_CFA_NONE && cfa != PERFX_CFA_END && cfa != PERFX_CFA_BAD;
}

/* A frame that is not unwound by its rule; why: RULE_MISSING + enum perfx_stack_end, or enum
 * perfx_unwind_cfa. */
__weak __noinline int leave_rule(struct call_stack *s, __u32 why)
{
	if (!s)
		return STACK_DONE;
	switch (why) {
	case PERFX_CFA_END:
		return finish(s, push(s) ? PERFX_STACK_END_START : PERFX_STACK_END_DEPTH);
	case PERFX_CFA_NONE:
		return fall_back(s, PERFX_STACK_END_NO_RULE);
	}
	return fall_back(s, why > RULE_MISSING ? why - RULE_MISSING : PERFX_STACK_END_BAD_RULE);
}

static __always_inline int step_cfa(struct call_stack *s, const struct perfx_unwind_rule *rule)
{
	__u64 at = (rule->base == PERFX_BASE_FP ? s->fp : s->sp) + (__s64)rule->cfa_offset;

	s->cfa = at;
	if (rule->cfa == PERFX_CFA_DEREF || rule->cfa == PERFX_CFA_SIGNAL) {
		if (!read_memory(s, at, &s->cfa))
			return want_stack(s);
		if (rule->cfa == PERFX_CFA_DEREF)
			s->cfa += (__s64)rule->addend;
	} else if (rule->cfa == PERFX_CFA_PLT && (s->pc & 15) >= (__u32)rule->addend) {
		s->cfa += 8;
	}
	/* a signal may have a stack of its own */
	if (s->cfa & 7 || (rule->cfa != PERFX_CFA_SIGNAL &&
			   (s->cfa <= s->sp || s->cfa - s->sp > STACK_SPAN_BYTES)))
		return finish(s, push(s) ? PERFX_STACK_END_NOT_RISING : PERFX_STACK_END_DEPTH);
	s->stage = STAGE_FRAME;
	return STACK_GOES_ON;
}

/* Adds the frame, of which all is known now: it is [sp, CFA). */
static __always_inline int step_frame(struct call_stack *s)
{
	if (!merge_python(s))
		return want_stack(s);
	if (!push(s))
		return finish(s, PERFX_STACK_END_DEPTH);
	s->stage = STAGE_RETURN;
	return STACK_GOES_ON;
}

static __always_inline int step_return(struct call_stack *s, const struct perfx_unwind_rule *rule)
{
	__u64 at = s->cfa - 8;

	if (rule->cfa == PERFX_CFA_SIGNAL)
		at = (rule->base == PERFX_BASE_FP ? s->fp : s->sp) + (__s64)rule->addend;
	if (!read_memory(s, at, &s->return_address))
		return want_stack(s);
	s->stage = STAGE_FP;
	return STACK_GOES_ON;
}

static __always_inline int step_fp(struct call_stack *s, const struct perfx_unwind_rule *rule)
{
	__u64 fp = s->fp, at;

	switch (rule->fp_rule) {
	case PERFX_FP_SAME:
		return to_caller(s, fp, rule->cfa == PERFX_CFA_SIGNAL);
	case PERFX_FP_AT_CFA:
		at = s->cfa;
		break;
	case PERFX_FP_AT_SP:
		at = s->sp;
		break;
	case PERFX_FP_AT_FP:
		at = fp;
		break;
	default:
		return to_caller(s, 0, rule->cfa == PERFX_CFA_SIGNAL);
	}
	if (!read_memory(s, at + (__s64)rule->fp_offset, &fp))
		return want_stack(s);
	return to_caller(s, fp, rule->cfa == PERFX_CFA_SIGNAL);
}

/* As far as the memory goes that is there. */
static __always_inline int step_by_rule(struct call_stack *s)
{
	struct perfx_unwind_rule *rule;
	int next = STACK_GOES_ON;
	__u32 index;

	if (s->stage == STAGE_RULE)
		s->rule = find_rule(&s->process, s->pc - !s->exact);
	index = s->rule;
	rule = bpf_map_lookup_elem(&perfx_unwind_rules, &index);
	if (!rule)
		return leave_rule(s, index);
	if (s->stage == STAGE_RULE) {
		if (!leads_on(rule->cfa))
			return leave_rule(s, rule->cfa);
		next = step_cfa(s, rule);
	}
	if (!next && s->stage == STAGE_FRAME)
		next = step_frame(s);
	if (!next && s->stage == STAGE_RETURN)
		next = step_return(s, rule);
	if (!next && s->stage == STAGE_FP)
		next = step_fp(s, rule);
	return next;
}

/* Bytes of an indirect call (ff /2) with this modrm and, where there is one, sib: 4 bits for each
 * mod and rm, without a branch for each, which the verifier would follow. */
#define CALL_BYTES_LOW	0x3334333322632222ull /* mod 0 and 1 */
#define CALL_BYTES_HIGH 0x2222222266676666ull

static __always_inline __u32 indirect_call_bytes(__u8 modrm, __u8 sib)
{
	__u32 mod = modrm >> 6, rm = modrm & 7;
	__u64 bytes = mod & 2 ? CALL_BYTES_HIGH : CALL_BYTES_LOW;

	if ((modrm >> 3 & 7) != 2)
		return 0;
	if (!mod && rm == 4 && (sib & 7) == 5) /* an address without a base */
		return 7;
	return bytes >> (32 * (mod & 1) + 4 * rm) & 15;
}

/* Do 8 bytes of code end in a call? */
static __always_inline bool ends_in_call(__u64 code)
{
	if ((code >> 24 & 0xff) == 0xe8)
		return true;
	for (__u32 bytes = 2; bytes < 8; bytes++) {
		__u64 call = code >> (64 - 8 * bytes);

		if ((call & 0xff) == 0xff && indirect_call_bytes(call >> 8, call >> 16) == bytes)
			return true;
	}
	return false;
}

static __always_inline bool may_be_code(const struct call_stack *s, __u64 word)
{
	return word >= s->process.lowest && word < s->process.highest;
}

enum is_code { CODE_NO, CODE_YES, CODE_WANTED };

/* Is s->code_behind a return address? Once that is known it is 0. */
__weak __noinline int is_behind_call(struct call_stack *s)
{
	__u64 code;

	if (!s)
		return CODE_NO;
	if (may_be_code(s, s->code_behind) && !read_memory(s, s->code_behind - 8, &code))
		return CODE_WANTED;
	if (!may_be_code(s, s->code_behind) || !ends_in_call(code))
		code = 0;
	s->code_behind = 0;
	return code ? CODE_YES : CODE_NO;
}

static __always_inline int begin_scan(struct call_stack *s)
{
	s->scan_at = s->sp;
	s->scan_end = s->sp + STACK_SCAN_BYTES;
	s->scanned_fp = s->fp;
	s->stage = STAGE_SCAN;
	return STACK_GOES_ON;
}

static __always_inline bool has_rule(const struct call_stack *s, __u64 address)
{
	__u32 rule = find_rule(&s->process, address);

	return rule > PERFX_UNWIND_RULE_BAD && rule < RULE_MISSING;
}

/* Code of a file that describes none of its frames at this address. */
__weak __noinline int is_without_rule(struct call_stack *s, __u64 address)
{
	__u32 rule = s ? find_rule(&s->process, address) : 0;

	return rule == PERFX_UNWIND_RULE_NONE || rule == RULE_MISSING + PERFX_STACK_END_NO_RULE;
}

/* The end of a chain of frame pointers: what a thread begins with need not be a call, as in Go. */
static __always_inline bool is_outermost(struct call_stack *s)
{
	return !s->scanned_fp && may_be_code(s, s->return_address) &&
	       is_without_rule(s, s->return_address - 1);
}

/* A function of Go that calls none has no frame. Where a goroutine begins with one, rbp is 0, and
 * the return address is one that no call has left. STACK_DONE: it is none of these. */
static __always_inline int step_goroutine(struct call_stack *s)
{
	if (!s->code_behind) {
		if (!is_without_rule(s, s->pc))
			return STACK_DONE;
		if (!read_memory(s, s->sp, &s->return_address))
			return want_stack(s);
		if (!is_without_rule(s, s->return_address))
			return STACK_DONE;
		s->code_behind = s->return_address;
	}
	switch (is_behind_call(s)) {
	case CODE_WANTED:
		return want_code(s);
	case CODE_YES:
		return STACK_DONE;
	}
	s->cfa = s->sp + 8;
	return to_caller(s, 0, false);
}

/* Is rbp a frame pointer? 0 ends a chain of them, by the ABI. */
static __always_inline int step_rbp(struct call_stack *s)
{
	if (!s->fp && s->by_fp)
		return finish(s, PERFX_STACK_END_START);
	if (!s->fp && s->exact) {
		int next = step_goroutine(s);

		if (next != STACK_DONE)
			return next;
	}
	if (s->fp < s->sp || s->fp - s->sp > STACK_NEAR_BYTES || s->fp & 7)
		return begin_scan(s);
	if (!s->code_behind) {
		if (!read_memory(s, s->fp, &s->scanned_fp) ||
		    !read_memory(s, s->fp + 8, &s->return_address))
			return want_stack(s);
		s->code_behind = s->return_address;
	}
	switch (is_behind_call(s)) {
	case CODE_WANTED:
		return want_code(s);
	case CODE_NO:
		if (!is_outermost(s))
			return begin_scan(s);
	}
	s->cfa = s->fp + 16;
	return to_caller(s, s->scanned_fp, false);
}

/* A return address was found at s->scan_at. */
static __always_inline int accept_guess(struct call_stack *s, __u64 word)
{
	s->guesses++;
	if (!s->guess_at) {
		s->guess_at = s->scan_at;
		s->guess_count = s->head.frames_count;
		s->guess_merged = s->python.merged;
		s->guess_entry = s->python.entry;
	}
	s->flags |= PERFX_STACK_GUESSED;
	s->return_address = word;
	s->cfa = s->scan_at + 8;
	return to_caller(s, s->scanned_fp, false);
}

struct scan {
	struct call_stack *stack;
	bool wants_stack;
};

static long scan_step(__u32 i, void *ctx)
{
	struct scan *scan = ctx;
	struct call_stack *s = scan->stack;
	__u64 at = s->scan_at, word;

	if (at >= s->scan_end)
		return 1;
	if (!read_memory(s, at, &word)) {
		scan->wants_stack = true;
		return 1;
	}
	if (may_be_code(s, word)) {
		s->code_behind = word;
		return 1;
	}
	if (word > at && word - at < STACK_NEAR_BYTES && !(word & 7))
		s->scanned_fp = word;
	s->scan_at = at + 8;
	return 0;
}

/* Goes up the stack to what may be a return address; false: the stack is to be read. */
static __always_inline bool scan_up(struct call_stack *s)
{
	struct scan scan = {.stack = s};

	repeat(STACK_CHUNK_WORDS, scan_step, &scan);
	return !scan.wants_stack;
}

__weak __noinline int step_scan(struct call_stack *s)
{
	__u64 word;

	if (!s)
		return STACK_DONE;
	if (!s->code_behind) {
		if (!scan_up(s))
			return want_stack(s);
		if (s->scan_at >= s->scan_end)
			return finish(s, s->fallback);
	}
	word = s->code_behind;
	switch (word ? is_behind_call(s) : CODE_NO) {
	case CODE_WANTED:
		return want_code(s);
	case CODE_YES:
		if (has_rule(s, word - 1))
			return accept_guess(s, word);
		break;
	}
	s->scan_at += 8;
	return STACK_GOES_ON;
}

/* They must rise and be aligned; anything else ends the chain. */
static __always_inline int step_chain(struct call_stack *s)
{
	__u64 fp = 0;
	bool rises = s->fp >= s->sp && s->fp - s->sp <= STACK_SPAN_BYTES && !(s->fp & 7);

	if (rises &&
	    (!read_memory(s, s->fp, &fp) || !read_memory(s, s->fp + 8, &s->return_address)))
		return want_stack(s);
	s->cfa = s->fp + 16;
	if (rises && !merge_python(s))
		return want_stack(s);
	if (!push(s))
		return finish(s, PERFX_STACK_END_DEPTH);
	if (rises && s->return_address && to_caller(s, fp, false) == STACK_GOES_ON) {
		s->stage = STAGE_CHAIN;
		return STACK_GOES_ON;
	}
	return finish(s, PERFX_STACK_END_FRAME_POINTER);
}

/* Goes on as far as it can without reading: at most to the next frame. Returns enum stack_step. All
 * of them in one function: a loop in which two calls lead to the same place is a back edge to
 * verifiers before 6.2, which they refuse. */
__weak __noinline int stack_step(struct call_stack *s)
{
	if (!s)
		return STACK_DONE;
	switch (s->stage) {
	case STAGE_SCAN:
		return step_scan(s);
	case STAGE_RBP:
		return step_rbp(s);
	case STAGE_CHAIN:
		return step_chain(s);
	}
	return step_by_rule(s);
}

/* Some steps, up to one that wants memory or ends the walk: two short loops, one in the other, cost
 * the verifier less than a long one. Inlined: the kernel allows 512 bytes of stack for a chain of
 * calls, and none takes less than 32. */
#define STACK_STEPS_AT_ONCE 32

static __always_inline int stack_steps(struct call_stack *s)
{
	int next = STACK_GOES_ON;

	for (int i = 0; i < STACK_STEPS_AT_ONCE; i++) {
		next = stack_step(s);
		if (next != STACK_GOES_ON)
			break;
	}
	return next;
}

/* Begins a walk of `task`, of process tgid, with the registers of a frame: pc its return address
 * (with PERFX_STACK_PC: the instruction that it is at), sp behind that. */
static __always_inline void stack_begin(struct call_stack *s, __u64 task, __u32 tgid, __u64 pc,
					__u64 sp, __u64 fp, __u32 flags)
{
	struct perfx_unwind_process *process =
		perfx_stacks_by == PERFX_STACKS_UNWIND
			? bpf_map_lookup_elem(&perfx_unwind_processes, &tgid)
			: NULL;

	s->exact = !!(flags & PERFX_STACK_PC);
	s->pc = s->exact ? pc : repaired(task, pc, sp - 8);
	s->sp = sp;
	s->fp = fp;
	s->task = task;
	s->flags = flags;
	s->by_fp = s->wants_code = s->careful = 0;
	s->chunk_bytes = 0;
	s->code_behind = 0;
	s->guess_at = 0;
	s->guesses = 0;
	s->head.frames_count = 0;
	s->stage = STAGE_CHAIN;
	if (!process)
		return;
	s->process = *process;
	s->stage = STAGE_RULE;
}

/* Chunks and guesses of the deepest walk. */
#define STACK_READS_MAX 320

/* A search that needs more reads than that has led nowhere. */
static __always_inline void end_search(struct call_stack *s)
{
	if (PERFX_STACK_END(s->head.flags) != PERFX_STACK_END_DEPTH ||
	    (!s->guess_at && s->stage != STAGE_SCAN))
		return;
	s->guesses = STACK_GUESSES_MAX;
	finish(s, s->fallback);
}

struct stack_run {
	struct call_stack *stack;
	void *ctx; /* the reader's */
};

/* A step of stack_run: goes on as far as it can without reading, and reads. */
static __always_inline long stack_read(const struct stack_run *run, memory_reader *read)
{
	struct call_stack *s = run->stack;
	int next = stack_steps(s);
	__u32 bytes = s->wanted_bytes;

	if (next == STACK_WANTS && bytes <= STACK_CHUNK_BYTES)
		next = stack_has_read(s, read(s->chunk, bytes, s->wanted, run->ctx) != 0);
	return next == STACK_DONE;
}

static long stack_read_current(__u32 i, void *ctx)
{
	return stack_read(ctx, read_current);
}

/* Walks what stack_begin and python_begin have begun. */
static __always_inline void stack_run(struct call_stack *s, repeat_step *read, void *ctx)
{
	struct stack_run run = {s, ctx};

	if (perfx_stacks_by == PERFX_STACKS_OFF) {
		s->addresses[0] = s->pc;
		s->head.frames_count = 1;
		s->python.merged = 0;
		s->head.flags = s->flags & PERFX_STACK_PC;
		return;
	}
	/* unless it ends before */
	s->head.flags = PERFX_STACK_CUT | PERFX_STACK_ENDED(PERFX_STACK_END_DEPTH);
	repeat(STACK_READS_MAX, read, &run);
	end_search(s);
	merge_rest(s);
}

/* The stack of the current task; see stack_begin. flags: PERFX_STACK_PC, STACK_SKIP_FIRST. */
__weak __noinline int stack_walk(struct call_stack *s, __u64 pc, __u64 sp, __u64 fp, __u32 flags)
{
	if (!s)
		return 0;
	stack_begin(s, bpf_get_current_task(), current_tgid(), pc, sp, fp, flags);
	if (perfx_stacks_by != PERFX_STACKS_OFF)
		python_begin(&s->python, &s->python_memory);
	stack_run(s, stack_read_current, NULL);
	return 0;
}

struct stack_hash {
	const struct call_stack *stack;
	__u64 a, b; /* multiplied (FNV-1a with a wider prime); rotated and added */
};

static long stack_hash_step(__u32 i, void *ctx)
{
	struct stack_hash *hash = ctx;
	__u64 address;

	if (i >= hash->stack->head.frames_count || i >= PERFX_STACK_FRAMES_MAX)
		return 1;
	address = hash->stack->addresses[i];
	hash->a = mix(hash->a, address);
	hash->b = (hash->b << 7 | hash->b >> 57) + address;
	return 0;
}

static __always_inline __u32 hash_of(const struct call_stack *stack, __u64 *hash)
{
	/* the same addresses mean something else where the first is no return address */
	struct stack_hash steps = {.stack = stack,
				   .a = 0x9e3779b97f4a7c15ULL ^ stack->head.flags,
				   .b = 0xc2b2ae3d27d4eb4fULL};

	/* and of Python frames where other code objects have taken their addresses */
	if (stack->python.merged)
		steps.a ^= stack->python.codes_hash;
	repeat(PERFX_STACK_FRAMES_MAX, stack_hash_step, &steps);
	*hash = steps.a;
	return steps.b ^ (steps.b >> 32);
}

struct code_append {
	struct call_stack *stack;
	__u32 at; /* in addresses, counted in halves */
};

static long code_append_step(__u32 slot, void *ctx)
{
	struct code_append *append = ctx;
	struct python_walk *w = &append->stack->python;
	__u32 at = append->at;

	slot &= PERFX_STACK_FRAMES_MAX - 1;
	if (slot >= w->merged || at >= 2 * PERFX_STACK_FRAMES_MAX)
		return 1;
	if (w->slots[slot] & PERFX_FRAME_PYTHON) {
		((__u32 *)append->stack->addresses)[at & (2 * PERFX_STACK_FRAMES_MAX - 1)] =
			w->codes[slot];
		append->at = at + 1;
	}
	return 0;
}

/* For the tracer, behind the frames: the time, then the code objects of the Python frames, as far
 * as there is room. Returns the bytes of all. */
__weak __noinline __u32 append_tail(struct call_stack *record)
{
	struct code_append append = {.stack = record};
	__u32 count = record ? record->head.frames_count : 0;

	if (!record || count > PERFX_STACK_FRAMES_MAX)
		return 0;
	record->addresses[count] = bpf_ktime_get_ns();
	append.at = 2 * (count + 1);
	if (record->python.merged)
		repeat(PERFX_STACK_FRAMES_MAX, code_append_step, &append);
	return (append.at + 1) / 2 * sizeof(__u64);
}

/* Emits a stack. Returns its id; 0: there is no room. */
static __always_inline __u32 emit_stack(struct call_stack *record, void *ring, __u32 process)
{
	__u32 size = sizeof(record->head) + append_tail(record);

	if (size > sizeof(record->head) + sizeof(record->addresses))
		size = sizeof(record->head) + sizeof(record->addresses);
	record->head.hdr.size = size;
	record->head.hdr.kind = PERFX_KIND_STACK;
	record->head.hdr.fixed = sizeof(record->head);
	record->head.stack = __sync_fetch_and_add(&perfx_next_stack, 1);
	record->head.process = process;
	return bpf_ringbuf_output(ring, &record->head, size, BPF_RB_NO_WAKEUP) ? 0
									       : record->head.stack;
}

/* The id of the stack, which is emitted when it is new; 0: no room to keep or emit it. */
__weak __noinline __u32 stack_id(struct call_stack *record, __u32 process, __u32 tid)
{
	struct stack_key key = {.process = process};
	struct stack_value value, *known;
	void *ring = ring_of(&perfx_memory, tid);

	if (!record || !ring)
		return 0;
	value.check = hash_of(record, &key.hash);
	known = bpf_map_lookup_elem(&perfx_stack_ids, &key);
	if (known) {
		if (known->check == value.check)
			return known->stack;
		counter_add(PERFX_COUNTER_STACK_FAILURES, 1);
		return 0;
	}
	value.stack = emit_stack(record, ring, process);
	/* emitted before it can be found, so that records that name it come later */
	if (!value.stack || bpf_map_update_elem(&perfx_stack_ids, &key, &value, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&perfx_stack_ids, &key);
		if (known && known->check == value.check)
			return known->stack;
		counter_add(PERFX_COUNTER_STACK_FAILURES, 1);
		return 0;
	}
	return value.stack;
}

#endif
