// SPDX-License-Identifier: BSD-2-Clause
#include "site/switches.h"

#include "site/site.h"

#if defined(__x86_64__)

#define RSP 4
#define RBP 5

/* How far apart a switch saves one stack pointer and loads the other, in bytes of code. */
#define SWITCH_BYTES 128

/* REX.W mov between r/m and a register; Intel SDM volume 2, opcode and ModRM. */
struct move {
	uint8_t mod, reg, rm; /* numbers with their REX bits */
};

static bool is_move(const uint8_t *at, uint8_t opcode, struct move *move)
{
	if ((at[0] & 0xf8) != 0x48 || at[1] != opcode)
		return false;
	move->mod = at[2] >> 6;
	move->reg = (uint8_t)((at[2] >> 3 & 7) | (at[0] & 4) << 1);
	move->rm = (uint8_t)((at[2] & 7) | (at[0] & 1) << 3);
	return true;
}

/* Memory of the function's own frame: mod 0 with rm 5 is relative to rip instead. rm 4 is a SIB
 * byte, which names rsp as base in practice. */
static bool own_memory(const struct move *move)
{
	return (move->rm == RBP && move->mod != 0) || move->rm == RSP;
}

/* Arguments in the order of the System V ABI: rdi rsi rdx rcx. */
static bool is_argument(uint8_t reg)
{
	return reg == 7 || reg == 6 || reg == 2 || reg == 1;
}

/* The stack pointer comes from an object or an argument. */
static bool loads_rsp(const uint8_t *at)
{
	struct move move;

	if (is_move(at, 0x8b, &move) && move.reg == RSP)
		return move.mod == 3 ? is_argument(move.rm) : !own_memory(&move);
	if (is_move(at, 0x89, &move) && move.mod == 3 && move.rm == RSP)
		return is_argument(move.reg);
	return is_move(at, 0x87, &move) && (move.reg == RSP || (move.mod == 3 && move.rm == RSP));
}

/* The stack pointer goes to an object or a register. */
static bool saves_rsp(const uint8_t *at)
{
	struct move move;

	if (is_move(at, 0x89, &move) && move.reg == RSP)
		return move.mod == 3 ? move.rm != RBP : !own_memory(&move);
	return is_move(at, 0x87, &move) && move.reg == RSP;
}

static bool saves_nearby(const uint8_t *code, size_t size, size_t at)
{
	size_t from = at > SWITCH_BYTES ? at - SWITCH_BYTES : 0;
	size_t to = size - at > SWITCH_BYTES ? at + SWITCH_BYTES : size;

	for (size_t i = from; i + 3 <= to; i++)
		if (saves_rsp(code + i))
			return true;
	return false;
}

struct search {
	struct image *image;
	uint64_t last_start; /* of the function decoded last, for several hits in one */
	bool last_answer;
};

/* Is it a switch, this instruction? The bytes may also be the middle of another one. */
static bool is_switch(struct search *search, uint64_t vaddr)
{
	struct site_options options = {0};
	struct site_plan plan;
	uint64_t start, size;

	/* hand-written code often comes without an unwind table: then nothing speaks for it */
	if (image__fde(search->image, vaddr, &start, &size))
		return true;
	if (start == search->last_start)
		return search->last_answer;
	search->last_start = start;
	search->last_answer = true;
	if (!site_plan(search->image, start, size, &options, &plan)) {
		search->last_answer = plan.switches_stack;
		site_plan__clear(&plan);
	}
	return search->last_answer;
}

bool image_switches_stacks(struct image *image, size_t limit)
{
	struct search search = {.image = image, .last_start = UINT64_MAX};
	const uint8_t *code;
	uint64_t vaddr;
	size_t size;

	for (size_t i = 0; (code = image__code_segment(image, i, &vaddr, &size)); i++) {
		if (size > limit)
			return false;
		for (size_t at = 0; at + 3 <= size; at++)
			if ((code[at] & 0xf8) == 0x48 && loads_rsp(code + at) &&
			    saves_nearby(code, size, at) && is_switch(&search, vaddr + at))
				return true;
	}
	return false;
}

#else

bool image_switches_stacks(struct image *image, size_t limit)
{
	(void)image;
	(void)limit;
	return true; /* not known */
}

#endif
