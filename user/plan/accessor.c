// SPDX-License-Identifier: BSD-2-Clause
#include "plan/accessor.h"

#include "site/insn.h"

#include <string.h>

#define INSNS_MAX 40

/* What a register is known to hold: a word that is reached from `this`. */
struct origin {
	bool known;
	struct accessor path;
};

struct walk {
	struct origin registers[16];
	const uint8_t *code;
	size_t size, at;
};

static struct origin loaded(const struct walk *walk, const struct insn *insn)
{
	struct origin origin = {0};

	if (insn->base >= 16 || insn->index != REG_NONE || insn->mem_bytes != 8 ||
	    insn->displacement < 0 || insn->displacement > UINT16_MAX)
		return origin;
	origin = walk->registers[insn->base];
	origin.known = origin.known && origin.path.count < ACCESSOR_STEPS_MAX;
	if (origin.known)
		origin.path.steps[origin.path.count++] = (uint16_t)insn->displacement;
	return origin;
}

static void follow(struct walk *walk, const struct insn *insn)
{
	struct origin origin = {0};

	if (insn->op == OP_LOAD)
		origin = loaded(walk, insn);
	else if (insn->op == OP_MOVE && insn->moves_all && insn->src < 16)
		origin = walk->registers[insn->src];
	for (unsigned i = 0; i < 16; i++)
		if (insn->writes & REG_BIT(i))
			walk->registers[i].known = false;
	if ((insn->op == OP_LOAD || insn->op == OP_MOVE) && insn->dst < 16)
		walk->registers[insn->dst] = origin;
}

/* The next instruction, in the order of the code; false where it calls, returns or is none. */
static bool step(struct walk *walk)
{
	struct insn insn;

	if (walk->at >= walk->size ||
	    insn_decode(walk->code + walk->at, walk->size - walk->at, walk->at, &insn) ||
	    (insn.flow != FLOW_NEXT && insn.flow != FLOW_JCC && insn.flow != FLOW_JMP))
		return false;
	follow(walk, &insn);
	walk->at += insn.length;
	return true;
}

static void start(struct walk *walk, const uint8_t *code, size_t size)
{
	*walk = (struct walk){.code = code, .size = size};
	walk->registers[REG_RDI].known = true;
}

bool accessor_of_pointer(const uint8_t *code, size_t size, struct accessor *accessor)
{
	struct walk walk;

	start(&walk, code, size);
	for (size_t i = 0; i < INSNS_MAX && step(&walk); i++)
		;
	*accessor = walk.registers[REG_RAX].path;
	return walk.registers[REG_RAX].known && accessor->count;
}

/* rdx has the pointer of a string_view, rax the length: a std::string has one behind the other. */
static bool is_text(const struct walk *walk)
{
	const struct origin *text = &walk->registers[REG_RDX], *length = &walk->registers[REG_RAX];
	size_t last = text->path.count - 1;

	return text->known && length->known && text->path.count &&
	       text->path.count == length->path.count &&
	       !memcmp(text->path.steps, length->path.steps, last * sizeof(text->path.steps[0])) &&
	       length->path.steps[last] == text->path.steps[last] + 8;
}

bool accessor_of_text(const uint8_t *code, size_t size, struct accessor *accessor)
{
	struct walk walk;

	start(&walk, code, size);
	for (size_t i = 0; i < INSNS_MAX; i++) {
		if (!step(&walk))
			return false;
		if (is_text(&walk)) {
			*accessor = walk.registers[REG_RDX].path;
			return true;
		}
	}
	return false;
}
