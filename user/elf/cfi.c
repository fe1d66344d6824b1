// SPDX-License-Identifier: BSD-2-Clause
/*
 * Call frame information (DWARF 5, section 6.4) is a table of all addresses and all registers,
 * written as a program for each function: instructions say what changes, and at which address. To
 * find the callers, three registers are enough: the stack pointer, the frame pointer and the return
 * address. The rules of all other registers are skipped.
 */
#include "base/order.h"
#include "elf/eh_frame.h"

#include <dwarf.h>
#include <errno.h>

/* DWARF's numbers of registers. */
#if defined(__aarch64__)
enum { REG_SP = 31, REG_FP = 29 };
#else
enum { REG_SP = 7, REG_FP = 6 };
#endif

/* Compilers nest remembered states once, assemblers' authors twice. */
#define REMEMBERED_MAX 16
/*
 * What reading may cost, in bytes of instructions: for one function, and for each byte of code of a
 * range. The longest program of a function in OpenBLAS, PyTorch, TensorFlow and jaxlib has 7,567
 * bytes; all programs together have a twelfth of the bytes that their code has.
 */
#define FUNCTION_WORK  (64 << 10)
#define CODE_BYTE_WORK 16
#define FDE_WORK       64 /* to find one and to read its head */

struct place {
	enum place_kind {
		PLACE_SAME = 0, /* also without a rule */
		PLACE_UNDEFINED,
		PLACE_AT_CFA,	     /* *(CFA + offset) */
		PLACE_AT_EXPRESSION, /* *(expression) */
		PLACE_OTHER
	} kind;
	int64_t offset;
	struct eh_cursor expression; /* operations of a stack machine (DWARF 5, section 2.5) */
};

enum { PLACE_OF_SP, PLACE_OF_FP, PLACE_OF_PC, PLACE_OF_OTHERS, PLACES };

/* A row of the table. */
struct state {
	uint64_t cfa_reg;
	int64_t cfa_offset;
	struct eh_cursor cfa_expression; /* instead, where there is one */
	struct place places[PLACES];
};

struct machine {
	const struct eh_fde *fde;
	struct eh_cursor program;
	struct state now, initial, remembered[REMEMBERED_MAX];
	size_t remembered_count;
	uint64_t at, next; /* `now` holds from at to next */
	bool failed;	   /* the table says nothing, or nonsense, from `at` to the FDE's end */
	struct eh_cie cie; /* whose program has made `initial`; .read: one has */
};

static struct eh_cursor read_expression(struct eh_cursor *program)
{
	uint64_t size = eh_cursor__uleb(program);
	struct eh_cursor expression = *program;

	eh_cursor__skip(program, size);
	expression.end = program->at;
	return expression;
}

static struct place *machine__place(struct machine *machine, uint64_t reg)
{
	struct place *places = machine->now.places;

	if (reg == machine->fde->cie.ret_addr_reg)
		return &places[PLACE_OF_PC];
	return &places[reg == REG_SP ? PLACE_OF_SP : reg == REG_FP ? PLACE_OF_FP : PLACE_OF_OTHERS];
}

/* Offsets are counted in units, which are hostile too: the product may wrap, but not trap. */
static int64_t scaled(const struct machine *machine, int64_t units)
{
	return (int64_t)((uint64_t)units * (uint64_t)machine->fde->cie.data_align);
}

static struct place at_cfa(const struct machine *machine, int64_t units)
{
	return (struct place){.kind = PLACE_AT_CFA, .offset = scaled(machine, units)};
}

/* op without the register that some have in their lower bits. False: there is no such op. */
static bool run_place(struct machine *machine, uint8_t op, uint64_t reg)
{
	struct place *place = machine__place(machine, reg);
	struct eh_cursor *program = &machine->program;

	switch (op) {
	case DW_CFA_offset:
	case DW_CFA_offset_extended:
		*place = at_cfa(machine, (int64_t)eh_cursor__uleb(program));
		return true;
	case DW_CFA_offset_extended_sf:
		*place = at_cfa(machine, eh_cursor__sleb(program));
		return true;
	case DW_CFA_GNU_negative_offset_extended:
		*place = at_cfa(machine, (int64_t)(0 - eh_cursor__uleb(program)));
		return true;
	case DW_CFA_restore:
	case DW_CFA_restore_extended:
		*place = machine->initial.places[place - machine->now.places];
		return true;
	case DW_CFA_same_value:
		*place = (struct place){.kind = PLACE_SAME};
		return true;
	case DW_CFA_undefined:
		*place = (struct place){.kind = PLACE_UNDEFINED};
		return true;
	case DW_CFA_expression:
		*place = (struct place){.kind = PLACE_AT_EXPRESSION,
					.expression = read_expression(program)};
		return true;
	case DW_CFA_val_expression:
		read_expression(program);
		break;
	case DW_CFA_register:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		eh_cursor__uleb(program);
		break;
	default:
		return false;
	}
	*place = (struct place){.kind = PLACE_OTHER};
	return true;
}

static void run_cfa(struct machine *machine, uint8_t op)
{
	struct eh_cursor *program = &machine->program;
	struct state *now = &machine->now;

	if (op == DW_CFA_def_cfa_expression) {
		now->cfa_expression = read_expression(program);
		return;
	}
	if (op == DW_CFA_def_cfa || op == DW_CFA_def_cfa_sf || op == DW_CFA_def_cfa_register) {
		now->cfa_reg = eh_cursor__uleb(program);
		now->cfa_expression = (struct eh_cursor){0};
	}
	if (op == DW_CFA_def_cfa || op == DW_CFA_def_cfa_offset)
		now->cfa_offset = (int64_t)eh_cursor__uleb(program);
	if (op == DW_CFA_def_cfa_sf || op == DW_CFA_def_cfa_offset_sf)
		now->cfa_offset = scaled(machine, eh_cursor__sleb(program));
}

/* The end of the FDE is as far as it goes. */
static bool advance(struct machine *machine, uint64_t units)
{
	uint64_t left = machine->fde->end - machine->next, bytes;

	if (__builtin_mul_overflow(units, machine->fde->cie.code_align, &bytes) || bytes > left)
		bytes = left;
	machine->next += bytes;
	return true;
}

/* False: the instruction is unknown, and so is where the next one begins. */
static bool run_instruction(struct machine *machine)
{
	struct eh_cursor *program = &machine->program;
	uint8_t op = (uint8_t)eh_cursor__fixed(program, 1);
	uint8_t high = op & 0xc0, low = op & 0x3f;
	uint64_t vaddr;

	if (high == DW_CFA_advance_loc)
		return advance(machine, low);
	if (high)
		return run_place(machine, high, low);
	switch (op) {
	case DW_CFA_nop:
	case DW_CFA_GNU_window_save: /* arm64: the return address is signed, or no longer */
		return true;
	case DW_CFA_GNU_args_size: /* of use to landing pads alone */
		eh_cursor__uleb(program);
		return true;
	case DW_CFA_advance_loc1:
		return advance(machine, eh_cursor__fixed(program, 1));
	case DW_CFA_advance_loc2:
		return advance(machine, eh_cursor__fixed(program, 2));
	case DW_CFA_advance_loc4:
		return advance(machine, eh_cursor__fixed(program, 4));
	case DW_CFA_MIPS_advance_loc8:
		return advance(machine, eh_cursor__fixed(program, 8));
	case DW_CFA_set_loc:
		vaddr = eh_cursor__pointer(program, machine->fde->cie.pointer_encoding, 0);
		if (vaddr < machine->next)
			return false;
		machine->next = min_u64(vaddr, machine->fde->end);
		return true;
	case DW_CFA_remember_state:
		if (machine->remembered_count == REMEMBERED_MAX)
			return false;
		machine->remembered[machine->remembered_count++] = machine->now;
		return true;
	case DW_CFA_restore_state:
		if (!machine->remembered_count)
			return false;
		machine->now = machine->remembered[--machine->remembered_count];
		return true;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_def_cfa_expression:
		run_cfa(machine, op);
		return true;
	default:
		return run_place(machine, op, eh_cursor__uleb(program));
	}
}

/* Runs up to the next address that the program names. */
static void run_to_advance(struct machine *machine)
{
	const struct eh_cursor *program = &machine->program;

	while (machine->next == machine->at && program->at < program->end && !machine->failed)
		machine->failed = !run_instruction(machine) || program->failed;
}

static bool spend_work(uint64_t *left, uint64_t amount)
{
	bool enough = *left >= amount;

	*left = enough ? *left - amount : 0;
	return enough;
}

/* Runs the program of its CIE, which nearly all functions of a file share. */
static void run_cie(struct machine *machine)
{
	const struct eh_cie *cie = &machine->fde->cie;

	if (machine->cie.read && machine->cie.vaddr == cie->vaddr &&
	    machine->cie.program.debug == cie->program.debug) {
		machine->now = machine->initial;
		return;
	}
	machine->now = machine->initial = (struct state){0};
	machine->program = cie->program;
	run_to_advance(machine);
	machine->initial = machine->now;
	machine->cie = *cie;
	machine->cie.read = !machine->failed && !machine->remembered_count;
}

/* The first row is still to come. *machine: of the FDE before it, or 0. */
static void machine__begin(struct machine *machine, const struct eh_fde *fde, uint64_t *work)
{
	uint64_t bytes = (uint64_t)(fde->cie.program.end - fde->cie.program.at) +
			 (uint64_t)(fde->program.end - fde->program.at);

	machine->fde = fde;
	machine->remembered_count = 0;
	machine->failed = !spend_work(work, bytes);
	machine->at = machine->next = fde->start;
	run_cie(machine);
	machine->next = fde->start;
	machine->program = fde->program;
}

/* Goes to the next row; false: there is none. */
static bool machine__row(struct machine *machine)
{
	machine->at = machine->next;
	if (machine->at >= machine->fde->end)
		return false;
	run_to_advance(machine);
	if (machine->next == machine->at || machine->failed)
		machine->next = machine->fde->end;
	return true;
}

/*
 * From a row to a rule. An expression could be any program; these few are all that compilers,
 * linkers and authors of assembler write where they keep to the stack.
 */

static const struct perfx_unwind_rule rule_none = {.cfa = PERFX_CFA_NONE};
static const struct perfx_unwind_rule rule_bad = {.cfa = PERFX_CFA_BAD};

static bool fits(int64_t offset)
{
	return offset == (int32_t)offset;
}

/* 0: neither sp nor fp. */
static uint8_t base_of(uint64_t reg)
{
	return reg == REG_SP ? PERFX_BASE_SP : reg == REG_FP ? PERFX_BASE_FP : 0;
}

/* base + offset, as expressions begin. */
static bool read_base(struct eh_cursor *at, uint8_t *base, int32_t *offset)
{
	uint64_t op = eh_cursor__fixed(at, 1);
	int64_t value;

	if (op < DW_OP_breg0 || op > DW_OP_breg31)
		return false;
	value = eh_cursor__sleb(at);
	*base = base_of(op - DW_OP_breg0);
	*offset = (int32_t)value;
	return !at->failed && *base && fits(value);
}

static bool is_at_base(const struct place *place, uint8_t *base, int32_t *offset)
{
	struct eh_cursor at = place->expression;

	return place->kind == PLACE_AT_EXPRESSION && read_base(&at, base, offset) &&
	       at.at == at.end;
}

/* The linker's words for "+ ((pc & 15) >= n ? 8 : 0)". */
static bool read_plt(struct eh_cursor at, int32_t *pushed_from)
{
	static const uint8_t head[] = {DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and};
	static const uint8_t tail[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};
	const uint8_t *found = eh_cursor__skip(&at, sizeof(head) + 1 + sizeof(tail));

	if (!found || at.at != at.end)
		return false;
	*pushed_from = found[sizeof(head)] - DW_OP_lit0;
	return !memcmp(found, head, sizeof(head)) && *pushed_from >= 0 && *pushed_from <= 15 &&
	       !memcmp(found + sizeof(head) + 1, tail, sizeof(tail));
}

/* "*( ) + n", n often left out. */
static bool read_deref(struct eh_cursor at, int32_t *addend)
{
	int64_t value = 0;

	if (eh_cursor__fixed(&at, 1) != DW_OP_deref)
		return false;
	if (at.at < at.end && eh_cursor__fixed(&at, 1) == DW_OP_plus_uconst)
		value = (int64_t)eh_cursor__uleb(&at);
	*addend = (int32_t)value;
	return !at.failed && at.at == at.end && fits(value);
}

static enum perfx_unwind_cfa cfa_of(const struct state *state, struct perfx_unwind_rule *rule)
{
	struct eh_cursor at = state->cfa_expression;

	if (!at.at) {
		rule->base = base_of(state->cfa_reg);
		rule->cfa_offset = (int32_t)state->cfa_offset;
		return rule->base && fits(state->cfa_offset) ? PERFX_CFA_BASE : PERFX_CFA_BAD;
	}
	if (!read_base(&at, &rule->base, &rule->cfa_offset))
		return PERFX_CFA_BAD;
	if (at.at == at.end)
		return PERFX_CFA_BASE;
	if (read_deref(at, &rule->addend))
		return PERFX_CFA_DEREF;
	if (rule->base == PERFX_BASE_SP && read_plt(at, &rule->addend))
		return PERFX_CFA_PLT;
	return PERFX_CFA_BAD;
}

static enum perfx_unwind_fp fp_of(const struct place *place, int32_t *offset)
{
	int32_t at_base;
	uint8_t base;

	if (place->kind == PLACE_SAME)
		return PERFX_FP_SAME;
	if (place->kind == PLACE_AT_CFA && fits(place->offset)) {
		*offset = (int32_t)place->offset;
		return PERFX_FP_AT_CFA;
	}
	if (!is_at_base(place, &base, &at_base))
		return PERFX_FP_UNKNOWN;
	*offset = at_base;
	return base == PERFX_BASE_SP ? PERFX_FP_AT_SP : PERFX_FP_AT_FP;
}

/* The caller's pc and sp are saved beside each other, and the CFA is the latter. */
static bool is_signal(const struct state *state, struct perfx_unwind_rule *rule)
{
	uint8_t pc_base, sp_base;
	int32_t sp_offset;

	return rule->cfa == PERFX_CFA_DEREF && !rule->addend &&
	       is_at_base(&state->places[PLACE_OF_SP], &sp_base, &sp_offset) &&
	       is_at_base(&state->places[PLACE_OF_PC], &pc_base, &rule->addend) &&
	       sp_base == rule->base && pc_base == rule->base && sp_offset == rule->cfa_offset;
}

/* The caller's pc is at CFA - 8 and its sp is the CFA. (arm64 keeps the pc where it likes, which a
 * rule cannot express yet: all are bad.) */
static bool is_call(const struct state *state)
{
	const struct place *pc = &state->places[PLACE_OF_PC];

	return pc->kind == PLACE_AT_CFA && pc->offset == -8 &&
	       state->places[PLACE_OF_SP].kind == PLACE_SAME;
}

static struct perfx_unwind_rule machine__rule(const struct machine *machine)
{
	const struct state *now = &machine->now;
	struct perfx_unwind_rule rule = {0};

	if (machine->failed)
		return rule_bad;
	if (now->places[PLACE_OF_PC].kind == PLACE_UNDEFINED)
		return (struct perfx_unwind_rule){.cfa = PERFX_CFA_END};
	rule.cfa = cfa_of(now, &rule);
	rule.fp_rule = fp_of(&now->places[PLACE_OF_FP], &rule.fp_offset);
	if (rule.cfa == PERFX_CFA_BAD)
		return rule_bad;
	if (!machine->fde->cie.signal_frame)
		return is_call(now) ? rule : rule_bad;
	if (!is_signal(now, &rule))
		return rule_bad;
	rule.cfa = PERFX_CFA_SIGNAL;
	return rule;
}

int image__cfa(struct image *image, uint64_t vaddr, enum cfa_reg *reg, int64_t *cfa_offset)
{
	uint64_t work = FUNCTION_WORK;
	struct machine machine = {0};
	struct eh_fde fde = {0};

	if (!eh_frame__find(image, vaddr, &fde))
		return -ENOENT;
	machine__begin(&machine, &fde, &work);
	do
		machine__row(&machine);
	while (machine.next <= vaddr);
	if (machine.failed)
		return -ENOENT;
	if (machine.now.cfa_expression.at || !base_of(machine.now.cfa_reg))
		return -ENOTSUP;
	*reg = machine.now.cfa_reg == REG_SP ? CFA_RSP : CFA_RBP;
	*cfa_offset = machine.now.cfa_offset;
	return 0;
}

/* Where rows go. One is kept back until the address of the next is known. */
struct rows {
	struct cfi_row kept;
	struct perfx_unwind_rule given; /* the last one */
	bool any_given;
	cfi_row_fn *fn;
	void *ctx;
	int err; /* what fn returned */
	struct machine machine;
};

static void rows__flush(struct rows *rows)
{
	if (rows->err || (rows->any_given && cfi_rule_equal(&rows->given, &rows->kept.rule)))
		return;
	rows->given = rows->kept.rule;
	rows->any_given = true;
	rows->err = rows->fn(&rows->kept, rows->ctx);
}

/* Addresses never run back: FDEs that overlap, or begin before what is asked for, are cut. */
static void rows__add(struct rows *rows, uint64_t vaddr, const struct perfx_unwind_rule *rule)
{
	if (vaddr > rows->kept.vaddr) {
		rows__flush(rows);
		rows->kept.vaddr = vaddr;
	}
	rows->kept.rule = *rule;
}

static void add_fde(struct rows *rows, const struct eh_fde *fde, uint64_t to, uint64_t *work)
{
	struct machine *machine = &rows->machine;

	machine__begin(machine, fde, work);
	while (!rows->err && machine__row(machine) && machine->at < to) {
		struct perfx_unwind_rule rule = machine__rule(machine);

		rows__add(rows, machine->at, &rule);
	}
	rows__add(rows, fde->end < to ? fde->end : to, &rule_none);
}

int image__cfi_rows(struct image *image, uint64_t from, uint64_t to, cfi_row_fn *fn, void *ctx)
{
	/* addresses have 48 bits; the product of more could run over */
	uint64_t bytes = to - from < 1ull << 48 ? to - from : 1ull << 48;
	uint64_t work = FUNCTION_WORK + CODE_BYTE_WORK * bytes;
	struct rows rows = {.kept.vaddr = from, .fn = fn, .ctx = ctx};
	size_t count = eh_frame__count(image);
	struct eh_fde fde = {0};

	if (!count)
		return -ENOENT;
	for (size_t i = eh_frame__search(image, from); i < count && !rows.err; i++) {
		uint64_t start = eh_frame__start(image, i), next = to;

		if (start >= to)
			break;
		if (!spend_work(&work, FDE_WORK)) {
			rows__add(&rows, start, &rule_bad);
			break;
		}
		if (i + 1 < count && eh_frame__start(image, i + 1) < to)
			next = eh_frame__start(image, i + 1);
		if (start < next && eh_frame__read(image, i, &fde))
			add_fde(&rows, &fde, next, &work);
	}
	if (rows.kept.vaddr < to)
		rows__flush(&rows);
	return rows.err;
}

bool cfi_rule_equal(const struct perfx_unwind_rule *a, const struct perfx_unwind_rule *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Both halves are mixed by odd constants (those of splitmix64). */
uint64_t cfi_rule_hash(const struct perfx_unwind_rule *rule)
{
	uint64_t halves[2], hash;

	memcpy(halves, rule, sizeof(halves));
	hash = (halves[0] ^ halves[0] >> 30) * 0xbf58476d1ce4e5b9ULL + halves[1];
	hash = (hash ^ hash >> 27) * 0x94d049bb133111ebULL;
	return hash ^ hash >> 31;
}
