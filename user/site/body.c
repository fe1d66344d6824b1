// SPDX-License-Identifier: BSD-2-Clause
#include "site/body.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Imports.
 *
 * Names of functions called through the procedure linkage table: the last call of a function
 * may be one that does not come back, or that only gives memory back.
 *
 * A stub is "jmp *slot(%rip)", the slot has a relocation in DT_JMPREL, that names a symbol.
 * Nothing is built or kept: linkers write these relocations in the order of their slots, so a
 * binary search finds the one.
 */

struct dynamic {
	uint64_t relocations, relocations_bytes, symbols, strings;
};

static bool read_at(const struct image *image, uint64_t vaddr, void *to, size_t bytes)
{
	size_t available;
	const uint8_t *data = image__data(image, vaddr, &available);

	if (!data || available < bytes)
		return false;
	memcpy(to, data, bytes);
	return true;
}

static bool read_dynamic(const struct image *image, struct dynamic *dynamic)
{
	uint64_t value;
	int64_t tag;

	*dynamic = (struct dynamic){0};
	for (size_t i = 0; image__dynamic(image, i, &tag, &value); i++) {
		if (tag == DT_JMPREL)
			dynamic->relocations = value;
		else if (tag == DT_PLTRELSZ)
			dynamic->relocations_bytes = value;
		else if (tag == DT_SYMTAB)
			dynamic->symbols = value;
		else if (tag == DT_STRTAB)
			dynamic->strings = value;
	}
	return dynamic->relocations && dynamic->symbols && dynamic->strings;
}

static bool find_relocation(const struct image *image, const struct dynamic *dynamic, uint64_t slot,
			    Elf64_Rela *found)
{
	const size_t size = sizeof(*found);
	size_t count = dynamic->relocations_bytes / size;
	size_t at = PARTITION_POINT(i, count,
				    read_at(image, dynamic->relocations + i * size, found, size) &&
					    found->r_offset < slot);

	return at < count && read_at(image, dynamic->relocations + at * size, found, size) &&
	       found->r_offset == slot;
}

/* The slot that a stub jumps through; 0: it is no stub. */
static uint64_t slot_of(const struct image *image, uint64_t stub)
{
	struct insn insn;
	size_t available;
	const uint8_t *code = image__code(image, stub, &available);

	if (!code || insn_decode(code, available, stub, &insn))
		return 0;
	if (insn.is_endbr &&
	    insn_decode(code + insn.length, available - insn.length, stub + insn.length, &insn))
		return 0;
	return insn.flow == FLOW_JMP_INDIRECT && insn.base == REG_RIP ? insn.target : 0;
}

const char *import_at(const struct image *image, uint64_t stub, uint64_t *vaddr)
{
	uint64_t slot = slot_of(image, stub);
	struct dynamic dynamic;
	Elf64_Rela relocation;
	Elf64_Sym symbol;
	const char *name;
	size_t available;

	if (!slot || !read_dynamic(image, &dynamic) ||
	    !find_relocation(image, &dynamic, slot, &relocation) ||
	    !read_at(image, dynamic.symbols + ELF64_R_SYM(relocation.r_info) * sizeof(symbol),
		     &symbol, sizeof(symbol)))
		return NULL;
	name = (const char *)image__data(image, dynamic.strings + symbol.st_name, &available);
	if (!name || strnlen(name, available) == available)
		return NULL;
	if (vaddr)
		*vaddr = symbol.st_shndx == SHN_UNDEF ? 0 : symbol.st_value;
	return name;
}

/* intrusive_ptr's and shared_ptr's, which first check whether there is another reference, need ten.
 */
#define DROP_INSNS_MAX 12

bool body__drops_reference(const struct body *body, uint64_t vaddr)
{
	size_t available;
	const uint8_t *code = image__code(body->image, vaddr, &available);
	struct insn insn;

	for (int i = 0; code && i < DROP_INSNS_MAX; i++) {
		if (insn_decode(code, available, vaddr, &insn) ||
		    (insn.flow != FLOW_NEXT && insn.flow != FLOW_JCC))
			return false;
		if (insn.subtracts)
			return true;
		code += insn.length;
		available -= insn.length;
		vaddr += insn.length;
	}
	return false;
}

/*
 * Does it leave its own stack?
 *
 * A coroutine switch loads the stack pointer from where it was saved for another coroutine; the
 * frames of the calls that were open stay behind.
 *
 * Ordinary code loads rsp, too: leave and "mov %rbp,%rsp" drop a frame, a variable-length array
 * goes by "mov %rax,%rsp" with a value saved earlier, a realigned frame ends in
 * "lea -8(%r10),%rsp". What they have in common is that the value was computed from rsp or rbp,
 * or spilled to the function's own frame. So: which registers ever hold such a value? Order of
 * execution is left out; that errs towards "own stack".
 */

static bool holds(uint16_t set, uint8_t reg)
{
	return reg < REG_RIP && (set & REG_BIT(reg));
}

/* Is the value moved to dst computed from a register of the set? */
static bool computes_from(const struct insn *insn, uint16_t set)
{
	if (insn->op == OP_LEA)
		return holds(set, insn->base) || holds(set, insn->index);
	return (insn->op == OP_MOVE || insn->op == OP_ADD) && holds(set, insn->src);
}

/* frame: registers that point into the frame. own: those, and what is loaded from there. Not what
 * is loaded through a loaded pointer: that may be a context that was spilled. */
struct sets {
	uint16_t frame, own;
};

static bool is_own(const struct insn *insn, const struct sets *sets)
{
	if (insn->op == OP_LOAD)
		return holds(sets->frame, insn->base);
	return computes_from(insn, sets->own);
}

static bool sets_rsp(const struct insn *insn)
{
	return insn->dst == REG_RSP &&
	       (insn->op == OP_MOVE || insn->op == OP_LEA || insn->op == OP_LOAD);
}

static bool switches_stack(const struct body *body)
{
	const uint16_t start = REG_BIT(REG_RSP) | REG_BIT(REG_RBP);
	struct sets sets = {start, start}, before;
	bool loads = false;

	FOR_EACH_OF (insn, body->insns) {
		if (insn->odd_rsp)
			return true;
		loads |= sets_rsp(insn);
	}
	if (!loads) /* as in most functions */
		return false;
	do {
		before = sets;
		FOR_EACH_OF (insn, body->insns) {
			if (insn->dst >= REG_RIP)
				continue;
			if (computes_from(insn, sets.frame))
				sets.frame |= REG_BIT(insn->dst);
			if (is_own(insn, &sets))
				sets.own |= REG_BIT(insn->dst);
		}
	} while (sets.frame != before.frame || sets.own != before.own);
	FOR_EACH_OF (insn, body->insns)
		if (sets_rsp(insn) && !is_own(insn, &sets))
			return true;
	return false;
}

/* A search may see every instruction: a bound for generated functions with thousands of rets. */
#define SEARCHES_MAX 256

static const struct part *part_of(const struct body *body, uint64_t vaddr)
{
	for (int i = 0; i < body->parts_count; i++)
		if (vaddr - body->parts[i].start < body->parts[i].size)
			return &body->parts[i];
	return NULL;
}

int32_t body__find(const struct body *body, uint64_t vaddr)
{
	const struct part *part = part_of(body, vaddr);

	return part ? part->index_at[vaddr - part->start] : -1;
}

bool body__contains(const struct body *body, uint64_t vaddr)
{
	return part_of(body, vaddr) != NULL;
}

enum frame body__frame(const struct body *body, uint64_t vaddr)
{
	enum cfa_reg reg;
	int64_t offset;
	int err = image__cfa(body->image, vaddr, &reg, &offset);

	if (err == -ENOENT)
		return body->moves_rsp ? FRAME_UNKNOWN : FRAME_GONE;
	/* any other rule (-ENOTSUP: a realigned stack) describes a frame */
	return !err && reg == CFA_RSP && offset == 8 ? FRAME_GONE : FRAME_THERE;
}

bool body__add_part(struct body *body, uint64_t start, uint64_t size, int *err)
{
	struct part *part = &body->parts[body->parts_count];
	const uint8_t *code;
	size_t available;

	if (body->parts_count == BODY_PARTS_MAX || size > BODY_BYTES_MAX - body->bytes) {
		body->undecoded = "too large to decode";
		return false;
	}
	for (int i = 0; i < body->parts_count; i++)
		if (start < body->parts[i].start + body->parts[i].size &&
		    body->parts[i].start < start + size)
			body->undecoded = "shares code with another function";
	if (body->undecoded)
		return false;
	code = image__code(body->image, start, &available);
	if (!code || available < size) {
		body->undecoded = "ends beyond the file's code";
		return false;
	}
	*part = (struct part){.start = start, .size = size, .first = (int32_t)body->insns.count};
	body->parts_count++;
	body->bytes += size;
	part->index_at = malloc(size * sizeof(*part->index_at));
	if (!part->index_at) {
		*err = -ENOMEM;
		return false;
	}
	memset(part->index_at, 0xff, size * sizeof(*part->index_at));
	*err = insns__decode(&body->insns, code, size, start);
	part->count = (int32_t)body->insns.count - part->first;
	for (int32_t i = part->first; i < part->first + part->count; i++)
		part->index_at[body->insns.list[i].vaddr - start] = i;
	if (*err == -EILSEQ) {
		*err = 0;
		body->undecoded = "has bytes that are not instructions";
	}
	return !*err && !body->undecoded;
}

int32_t body__before(const struct body *body, int32_t index)
{
	for (int i = 0; i < body->parts_count; i++)
		if (index == body->parts[i].first)
			return -1;
	return index - 1;
}

bool body__falls_through(const struct body *body, int32_t index)
{
	const struct insn *insn = &body->insns.list[index];
	bool calls = insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT;

	return insn->flow == FLOW_NEXT || insn->flow == FLOW_JCC || (calls && !insn->never_returns);
}

static void link_jumps(struct body *body)
{
	for (int32_t i = 0; i < (int32_t)body->insns.count; i++) {
		struct insn *insn = &body->insns.list[i];

		if (!(insn->flow == FLOW_JMP || insn->flow == FLOW_JCC) ||
		    !body__contains(body, insn->target))
			continue;
		insn->target_index = body__find(body, insn->target);
		if (insn->target_index < 0) {
			/* Old glibc jumps over a lock prefix: "je 1f; lock; 1: cmpxchg". The
			 * locked instruction is one to us, whose second byte is the target. */
			int32_t locked = body__find(body, insn->target - 1);

			if (locked >= 0 && body->insns.list[locked].refused)
				insn->target_index = locked;
		}
		if (insn->target_index < 0) {
			body->undecoded = "jumps into the middle of an instruction";
			return;
		}
		insn->next_jump = body->insns.list[insn->target_index].jumps_here;
		body->insns.list[insn->target_index].jumps_here = i;
	}
}

/* Does the callee never return? The last call of a part does not (_Unwind_Resume, abort), and
 * neither does the callee of a failed stack-protector check. */
static void mark_callee(struct body *body, int32_t index)
{
	struct insn *last = &body->insns.list[index];

	if (last->flow == FLOW_CALL || last->flow == FLOW_CALL_INDIRECT)
		last->never_returns = true;
	if (last->flow != FLOW_CALL)
		return;
	FOR_EACH_OF (insn, body->insns)
		if (insn->flow == FLOW_CALL && insn->target == last->target)
			insn->never_returns = true;
}

/* Calls of imported functions, known by name. In a shared object a function calls itself that
 * way, too, if another object may replace it. */
static void mark_imports(struct body *body)
{
	static const char *const releases[] = {"free",
					       /* operator delete */
					       "_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm",
					       "_ZdlPvSt11align_val_t", "_ZdlPvmSt11align_val_t",
					       NULL};
	static const char *const no_returns[] = {/* C */
						 "__stack_chk_fail", "abort", "__assert_fail",
						 "_exit", "exit", "longjmp",
						 /* C++ */
						 "_Unwind_Resume", "__cxa_throw", "__cxa_rethrow",
						 "_ZSt9terminatev", "__cxa_bad_cast", NULL};

	FOR_EACH_OF (insn, body->insns) {
		const char *name;
		uint64_t vaddr;

		if (insn->flow != FLOW_CALL || body__contains(body, insn->target))
			continue;
		name = import_at(body->image, insn->target, &vaddr);
		if (!name)
			continue;
		/* also std::__throw_length_error and the like */
		insn->never_returns = text_is_one_of(name, no_returns) ||
				      (begins_with(name, "_ZSt") && strstr(name, "__throw_"));
		insn->frees = text_is_one_of(name, releases);
		body->calls_itself |= vaddr == body->parts[0].start;
	}
}

/* The last instruction of a part but for padding that nothing jumps to. */
static int32_t last_of(const struct body *body, const struct part *part)
{
	int32_t last = part->first + part->count - 1;

	while (last > part->first && body->insns.list[last].nop &&
	       body->insns.list[last].jumps_here < 0)
		last--;
	return last;
}

/* The check of a stack protector is "sub %fs:0x28,%rax" (or xor), or "mov %fs:0x28,%rax; cmp
 * 8(%rsp),%rax"; then comes a jne to the code for a failure, or a je over it. The index of that
 * code; -1: there is no such check. */
static int32_t canary_failure(const struct body *body, int32_t index)
{
	const struct insn *insn = &body->insns.list[index], *jump;
	int32_t branch = index + (insn->op == OP_LOAD ? 2 : 1);

	if (!insn->reads_canary || branch + 1 >= (int32_t)body->insns.count ||
	    (insn->op == OP_LOAD && !insn[1].compares_frame))
		return -1;
	jump = &body->insns.list[branch];
	if (jump->flow != FLOW_JCC || jump->target_index < 0)
		return -1;
	if (jump->condition == 5)
		return jump->target_index;
	return jump->condition == 4 ? branch + 1 : -1;
}

static void mark_calls_without_return(struct body *body)
{
	for (int i = 0; i < body->parts_count; i++)
		mark_callee(body, last_of(body, &body->parts[i]));
	for (int32_t i = 0; i < (int32_t)body->insns.count; i++) {
		int32_t failure = canary_failure(body, i);

		/* vzeroupper or the like may stand before the call */
		for (int steps = 0; failure >= 0 && steps < 3; steps++, failure++) {
			if (failure >= (int32_t)body->insns.count)
				break;
			if (body->insns.list[failure].flow == FLOW_NEXT)
				continue;
			mark_callee(body, failure);
			break;
		}
	}
}

static void note_calls(struct body *body)
{
	FOR_EACH_OF (insn, body->insns) {
		if (insn->flow != FLOW_CALL || !body__contains(body, insn->target))
			continue;
		if (insn->target == body->parts[0].start)
			body->calls_itself = true;
		else if (insn->target != insn->vaddr + insn->length)
			body->exits_doubt = "calls into its own middle";
	}
}

/* A return that is a jump: push target; ret (and the retpoline, which stores over its own
 * return address). */
static void note_false_returns(struct body *body)
{
	for (int32_t i = 0; i < (int32_t)body->insns.count; i++) {
		int32_t before = body__before(body, i);

		if (body->insns.list[i].flow != FLOW_RET || before < 0)
			continue;
		if (body->insns.list[before].op == OP_PUSH ||
		    body->insns.list[before].op == OP_STORE_TOP)
			body->exits_doubt = "uses a return as a jump";
	}
}

int body__decode(struct body *body, struct image *image, uint64_t start, uint64_t size)
{
	int err = 0;

	*body = (struct body){.image = image};
	if (!body__add_part(body, start, size, &err))
		return err;
	FOR_EACH_OF (insn, body->insns)
		body->moves_rsp |= (insn->writes & REG_BIT(REG_RSP)) && insn->flow == FLOW_NEXT;
	err = body__decide_jumps(body);
	if (err || body->undecoded)
		return err;
	link_jumps(body);
	if (body->undecoded)
		return 0;
	mark_imports(body);
	mark_calls_without_return(body);
	for (int i = 0; i < body->parts_count; i++)
		if (body__falls_through(body, last_of(body, &body->parts[i])))
			body->exits_doubt = "falls through into the code behind it";
	note_calls(body);
	note_false_returns(body);
	body->switches_stack = switches_stack(body);
	if (body->switches_stack)
		body->exits_doubt = "switches to another stack";
	return 0;
}

void body__clear(struct body *body)
{
	for (int i = 0; i < body->parts_count; i++)
		free(body->parts[i].index_at);
	insns__clear(&body->insns);
	free(body->seen);
	free(body->stack);
	*body = (struct body){0};
}

static void search_push(struct body *body, int32_t *depth, int32_t index)
{
	if (body->seen[index] == body->searches)
		return;
	body->seen[index] = body->searches;
	body->stack[(*depth)++] = index;
}

/* Which table a switch jumps through is not kept: any switch leads to any table's targets. */
bool body__reaches(struct body *body, int32_t from, int32_t to)
{
	size_t count = body->insns.count;
	bool tables_done = false;
	int32_t depth = 0;

	if (body->searches == SEARCHES_MAX)
		return true;
	if (!body->seen)
		body->seen = calloc(count, sizeof(*body->seen));
	if (!body->stack)
		body->stack = malloc(count * sizeof(*body->stack));
	body->searches++;
	if (!body->seen || !body->stack)
		return true;
	search_push(body, &depth, from);
	while (depth) {
		int32_t at = body->stack[--depth];
		const struct insn *insn = &body->insns.list[at];

		if (at == to)
			return true;
		if (insn->target_index >= 0)
			search_push(body, &depth, insn->target_index);
		if (insn->flow == FLOW_JMP_INDIRECT && !insn->leaves && !tables_done) {
			for (int32_t i = 0; i < (int32_t)count; i++)
				if (body->insns.list[i].is_table_target)
					search_push(body, &depth, i);
			tables_done = true;
		}
		if (body__falls_through(body, at) && at + 1 < (int32_t)count)
			search_push(body, &depth, at + 1);
	}
	return false;
}
