/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Walks of call stacks.
 *
 * A walk steps from frame to frame by the unwind tables (unwind.bpf.h). Where these do not cover
 * the code (JIT compilers, assembler) it continues
 *
 *	1. at rbp, if it points to a frame: a saved rbp and a return address that follows a call,
 *	2. at the first word up the stack that is a return address after a call. This guess is kept
 *	   only if the walk then reaches the thread's start, and marked PERFX_STACK_GUESSED.
 *
 * Processes without tables are walked by frame pointers only. bpf_get_stack() does the same, but it
 * loses the immediate caller (at its first instruction a function has not pushed its frame yet),
 * shows the trampoline in place of a return address that a return probe replaced, and takes longer;
 * bpf_get_stackid() loses stacks that collide.
 *
 * The stack is read in chunks. A step that needs memory outside of the chunk returns to its caller,
 * which reads it and repeats the step. So the caller chooses how to read memory, and a program can
 * walk the stack of another task (stack_run).
 */
#ifndef PERFX_WALK_BPF_H
#define PERFX_WALK_BPF_H

#include "python.bpf.h"
#include "thread.bpf.h"
#include "unwind.bpf.h"

/* As large as struct memory_thread allows. */
#define STACK_CHUNK_WORDS 256
#define STACK_CHUNK_BYTES (8 * STACK_CHUNK_WORDS)

enum stack_stage {
	STAGE_RULE,   /* find the frame's rule and compute its CFA */
	STAGE_FRAME,  /* add the frame */
	STAGE_RETURN, /* read its return address */
	STAGE_FP,     /* restore its caller's rbp */
	STAGE_RBP,    /* without a rule: is rbp a frame pointer? */
	STAGE_SCAN,   /* it is not: search for a return address */
	STAGE_CHAIN,  /* the process has no tables: follow frame pointers */
};

/*
 * A walk and its STACK record. Each kind of program has its own, because one may interrupt another:
 * uprobes in task storage (they are preempted), perf events one per CPU (they interrupt uprobes,
 * but not each other), an iterator a single one.
 */
struct call_stack {
	/* the current frame */
	__u64 pc, sp, fp;
	/* its caller's, as far as known */
	__u64 cfa, return_address;
	__u64 task; /* its task_struct */
	struct perfx_unwind_process process;
	__u64 wanted; /* address of the chunk, or of the memory to read into it */
	__u32 wanted_bytes;
	__u32 chunk_bytes; /* bytes in the chunk; 0: not read yet */
	__u64 code_behind; /* a possible return address that is being checked; 0: none */
	__u64 scan_at, scan_end;
	__u64 scanned_fp;   /* the last word that may be a saved rbp */
	__u64 guess_at;	    /* address of the first guess; 0: none */
	__u32 guess_count;  /* frames at that time */
	__u32 guess_merged; /* and Python frames among them */
	__u64 guess_entry;  /* python.entry at that time */
	__u32 guesses;
	__u32 rule;
	__u32 flags;	 /* PERFX_STACK_, STACK_SKIP_FIRST */
	__u32 fallback;	 /* enum perfx_stack_end: why there was no rule */
	__u8 stage;	 /* enum stack_stage */
	__u8 exact;	 /* pc is an instruction, not a return address */
	__u8 by_fp;	 /* found by its callee's rbp, without a rule */
	__u8 wants_code; /* the memory to read is code */
	__u8 careful;	 /* read within a page: a chunk that crossed one could not be read */
	__u8 pad[7];
	union {
		__u64 chunk[STACK_CHUNK_WORDS];
		struct python_memory python_memory; /* before the native walk */
	};
	struct python_walk python;
	struct perfx_stack head;
	__u64 addresses[PERFX_STACK_FRAMES_MAX + 1]; /* with room for the time: append_tail() */
};

/* Flag of stack_walk, beside PERFX_STACK_PC: the walk begins at an exit of a function, which it
 * leaves out. */
#define STACK_SKIP_FIRST 0x10000

/* enum perfx_stacks; user space sets it when it has tables. */
extern volatile __u32 perfx_stacks_by;

/* Number of nested return probes to search for a replaced return address. */
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

/* The original of a return address that may be the trampoline of a return probe; 0: not found. A
 * global function, like others below: verified once, not on each path to it. */
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

/* Longest instruction. */
#define INSTRUCTION_BYTES 16

/* The address of a thread's instruction in its program. The kernel steps a probed instruction in a
 * copy on a page without a file; then this is the probed address. */
static __always_inline __u64 program_ip(const struct task_struct *task, const struct pt_regs *regs)
{
	const struct uprobe_task *utask = BPF_CORE_READ(task, utask);
	__u64 ip = PT_REGS_IP(regs), copy = utask ? BPF_CORE_READ(utask, xol_vaddr) : 0;

	if (!copy || ip - copy >= INSTRUCTION_BYTES)
		return ip;
	return BPF_CORE_READ(utask, vaddr) + (ip - copy);
}

/* A return address, or the original one if it is the trampoline of a return probe, which begins a
 * page. */
static __always_inline __u64 original_address(__u64 task, __u64 return_address, __u64 ret_addr_sp)
{
	return return_address & 4095 ? return_address
				     : replaced_address(task, return_address, ret_addr_sp);
}

/* User space begins above the first pages. */
static __always_inline bool is_user_address(__u64 address)
{
	return address >= 65536 && !(address >> 56);
}

/* Result of a step. */
enum stack_step {
	STACK_GOES_ON,
	STACK_WANTS, /* s->wanted_bytes of memory at s->wanted, in s->chunk */
	STACK_DONE,
};

/* Guesses that are tried until one leads to the thread's start. */
#define STACK_GUESSES_MAX 8
/* Bounds of the search for a saved rbp, and for the end of a frame without a rule. */
#define STACK_NEAR_BYTES (1ull << 20)
#define STACK_SCAN_BYTES 8192

/* Restores the state before the first guess. */
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

/* A stack that is too deep keeps its outer Python frames, which say where the program was: after
 * this many frames, native frames leave room for them. */
#define STACK_MIXED_FRAMES 64

static __always_inline bool is_full(const struct call_stack *s)
{
	__u32 at = s->head.frames_count, count = s->python.count, merged = s->python.merged;
	__u32 rest = at < STACK_MIXED_FRAMES || merged > count ? 0 : count - merged;

	return at + rest >= PERFX_STACK_FRAMES_MAX;
}

/* Adds the current frame; 0: no room. The address of an interrupted instruction is stored as a
 * return address, one higher, because readers subtract one. */
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

/* The word at an address; false: it must be read first. */
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

/* Requests the memory that read_memory lacked. Frames save registers at their upper end, the return
 * address last, so a chunk begins below the wanted address. */
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

/* Requests the 8 bytes before a code address. */
static __always_inline int want_code(struct call_stack *s)
{
	s->wanted_bytes = 8;
	s->wants_code = 1;
	return STACK_WANTS;
}

/* The requested memory is in s->chunk, or could not be read. After a failure a smaller chunk is
 * tried: the top of the stack may be less than a chunk away, at the end of a page. Returns enum
 * stack_step. */
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

/* Entry of the next group of Python frames; 0: unknown. */
static __always_inline __u64 next_entry(const struct call_stack *s)
{
	return python_slot(s, s->python.merged) ?: s->python.entry;
}

/* Returns whether the current native frame, [sp, CFA), runs the next group: it contains its entry.
 */
static __always_inline bool runs_group(const struct call_stack *s)
{
	__u64 entry = next_entry(s);

	if (s->python.merged >= s->python.count)
		return false;
	return entry ? entry - s->sp < s->cfa - s->sp
		     : s->pc - s->python.eval_start < s->python.eval_end - s->python.eval_start;
}

/* Adds the next group, before the native frame that runs it. previous: entry of the group after it,
 * or 0. */
__weak __noinline int merge_group(struct call_stack *s, __u64 previous)
{
	if (!s)
		return 0;
	s->python.entry = previous;
	s->python.merged++;
	repeat(PERFX_STACK_FRAMES_MAX, merge_step, &s);
	return 0;
}

/* Adds the group that the native frame runs, if any; false: memory must be read first. */
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

/* Continues the walk in the caller. */
static __always_inline int to_caller(struct call_stack *s, __u64 fp, bool exact)
{
	if (!exact)
		s->return_address = original_address(s->task, s->return_address, s->cfa - 8);
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

/* Returns whether a rule leads to a caller. */
static __always_inline bool leads_on(__u32 cfa)
{
	return cfa != PERFX_CFA_NONE && cfa != PERFX_CFA_END && cfa != PERFX_CFA_BAD;
}

/* Handles a frame that no rule unwinds. why: RULE_MISSING + enum perfx_stack_end, or enum
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
	/* a signal handler may have a stack of its own */
	if (s->cfa & 7 || (rule->cfa != PERFX_CFA_SIGNAL &&
			   (s->cfa <= s->sp || s->cfa - s->sp > STACK_SPAN_BYTES)))
		return finish(s, push(s) ? PERFX_STACK_END_NOT_RISING : PERFX_STACK_END_DEPTH);
	s->stage = STAGE_FRAME;
	return STACK_GOES_ON;
}

/* Adds the frame, whose extent [sp, CFA) is known now. */
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

/* Steps as far as the memory in the chunk allows. */
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

/* Length of an indirect call (ff /2) by modrm: 4 bits for each mod and rm, without branches, which
 * the verifier would follow. */
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

/* Returns whether 8 bytes of code end in a call. */
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

/* Returns whether s->code_behind is a return address, and then clears it; or CODE_WANTED. */
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

/* Returns whether the file of this code has no rule at this address. */
__weak __noinline int is_without_rule(struct call_stack *s, __u64 address)
{
	__u32 rule = s ? find_rule(&s->process, address) : 0;

	return rule == PERFX_UNWIND_RULE_NONE || rule == RULE_MISSING + PERFX_STACK_END_NO_RULE;
}

/* Returns whether a chain of frame pointers ends here: a thread need not begin with a call, as in
 * Go. */
static __always_inline bool is_outermost(struct call_stack *s)
{
	return !s->scanned_fp && may_be_code(s, s->return_address) &&
	       is_without_rule(s, s->return_address - 1);
}

/* Steps from a Go function without a frame, with which a goroutine begins: rbp is 0, and no call
 * precedes the return address. STACK_DONE: it is not such a function. */
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

/* Steps by rbp if it is a frame pointer; by the ABI 0 ends the chain. */
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

/* Continues at a return address that was found at s->scan_at. */
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

/* Searches up the stack for a possible return address; false: memory must be read first. */
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

/* Follows a chain of frame pointers, which must rise and be aligned; otherwise it ends. */
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

/* Makes a step, at most to the next frame. Returns enum stack_step. All stages are in one function:
 * verifiers before 6.2 refuse a loop in which two calls join, as a back edge. */
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

/* Makes steps until one wants memory or ends the walk: two nested short loops cost the verifier
 * less than a long one. Inlined: the kernel allows 512 bytes of stack for a chain of calls, and
 * each call takes at least 32. */
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

/* Begins a walk of `task`, of process tgid, with the registers of a frame. pc: its return address,
 * or its current instruction with PERFX_STACK_PC; sp: the address above it. */
static __always_inline void stack_begin(struct call_stack *s, __u64 task, __u32 tgid, __u64 pc,
					__u64 sp, __u64 fp, __u32 flags)
{
	struct perfx_unwind_process *process =
		perfx_stacks_by == PERFX_STACKS_UNWIND
			? bpf_map_lookup_elem(&perfx_unwind_processes, &tgid)
			: NULL;

	s->exact = !!(flags & PERFX_STACK_PC);
	s->pc = s->exact ? pc : original_address(task, pc, sp - 8);
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

/* Ends a search for a return address that needed more reads. */
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
	void *ctx; /* of the reader */
};

/* A step of stack_run: walks as far as the chunk allows, then reads. */
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

/* Runs the walk that stack_begin() and python_begin() have prepared. */
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
	/* unless the walk ends earlier */
	s->head.flags = PERFX_STACK_CUT | PERFX_STACK_ENDED(PERFX_STACK_END_DEPTH);
	repeat(STACK_READS_MAX, read, &run);
	end_search(s);
	merge_rest(s);
}

/* Walks the stack of the current task; arguments as stack_begin. flags: PERFX_STACK_PC,
 * STACK_SKIP_FIRST. */
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

/*
 * Walks the stack of a call that returns. At a return probe the registers are the caller's; at an
 * exit site some may not be restored yet, so the function itself is unwound first.
 */
static __always_inline void stack_walk_return(struct call_stack *s, struct pt_regs *ctx,
					      __u64 return_address, __u64 ret_addr_sp)
{
	if (PT_REGS_SP(ctx) <= ret_addr_sp && perfx_stacks_by == PERFX_STACKS_UNWIND) {
		stack_walk(s, PT_REGS_IP(ctx), PT_REGS_SP(ctx), PT_REGS_FP(ctx),
			   PERFX_STACK_PC | STACK_SKIP_FIRST);
		if (s->addresses[0] == return_address)
			return;
	}
	stack_walk(s, return_address, ret_addr_sp + 8, PT_REGS_FP(ctx), 0);
}

#endif
