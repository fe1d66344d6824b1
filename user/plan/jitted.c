// SPDX-License-Identifier: BSD-2-Clause
#include "plan/jitted.h"

#include "base/grow.h"
#include "base/text.h"
#include "elf/image.h"
#include "site/insn.h"

#include <string.h>

#define INSNS_MAX 40

/* The known content of a register: a word that is reached from `this`. */
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

/* The next instruction, in the order of the code; false where it calls, returns or is none. */
static bool step(struct walk *walk)
{
	struct insn insn;
	struct origin origin;

	if (walk->at >= walk->size ||
	    insn_decode(walk->code + walk->at, walk->size - walk->at, walk->at, &insn) ||
	    (insn.flow != FLOW_NEXT && insn.flow != FLOW_JCC && insn.flow != FLOW_JMP))
		return false;
	origin = (struct origin){0};
	if (insn.op == OP_LOAD)
		origin = loaded(walk, &insn);
	else if (insn.op == OP_MOVE && insn.moves_all && insn.src < 16)
		origin = walk->registers[insn.src];
	for (unsigned i = 0; i < 16; i++)
		if (insn.writes & REG_BIT(i))
			walk->registers[i].known = false;
	if ((insn.op == OP_LOAD || insn.op == OP_MOVE) && insn.dst < 16)
		walk->registers[insn.dst] = origin;
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

/*
 * Calls of jitted functions, by name: XLA's executable has a module, whose name is the Python
 * function's with "jit_" before it. Where the name lies is read from the accessors that the file
 * has.
 */

/* The prefix of the called function; the accessor of its executable (NULL: it is one itself); the
 * executable's accessor of its name. */
static const struct release {
	const char *call, *executable, *name;
} releases[] = {
	{"_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteE",
	 "_ZNK3xla23PjRtCpuLoadedExecutable13GetExecutableEv",
	 "_ZNK3xla17PjRtCpuExecutable4nameEv"},
	/* jaxlib 0.7; before */
	{"_ZNK3xla17PjRtCpuExecutable7ExecuteE", NULL, "_ZNK3xla17PjRtCpuExecutable4nameEv"},
	{"_ZN3xla17TfrtCpuExecutable7ExecuteE", NULL, "_ZNK3xla17TfrtCpuExecutable4nameEv"},
};

enum { EXECUTABLE, NAME, SYMBOLS };

struct wanted {
	const char *symbols[SYMBOLS]; /* NULL: not wanted */
	struct symbol found[SYMBOLS]; /* without a name: not there */
};

static const struct release *release_of(const char *symbol)
{
	for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
		if (begins_with(symbol, releases[i].call))
			return &releases[i];
	return NULL;
}

bool runs_jitted(const char *symbol)
{
	return release_of(symbol) != NULL;
}

int jitted_prefixes(struct prefixes *set)
{
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(releases) / sizeof(releases[0]); i++) {
		err = prefixes_add(set, releases[i].call);
		if (!err && releases[i].executable)
			err = prefixes_add(set, releases[i].executable);
		if (!err)
			err = prefixes_add(set, releases[i].name);
	}
	return err;
}

static int match(const struct symbol *symbol, void *ctx)
{
	struct wanted *wanted = ctx;

	for (size_t i = 0; i < SYMBOLS; i++)
		if (wanted->symbols[i] && !strcmp(symbol->name, wanted->symbols[i]))
			wanted->found[i] = *symbol;
	return 0;
}

static bool read_accessor(const struct image *image, const struct symbol *symbol, bool is_text,
			  struct accessor *accessor)
{
	size_t available = 0;
	const uint8_t *code = symbol->name ? image__code(image, symbol->vaddr, &available) : NULL;

	if (!code)
		return false;
	if (symbol->size && symbol->size < available)
		available = (size_t)symbol->size;
	return is_text ? accessor_of_text(code, available, accessor)
		       : accessor_of_pointer(code, available, accessor);
}

bool jitted_name(struct image *image, const char *call, struct perfx_annotation *annotation)
{
	const struct release *release = release_of(call);
	struct accessor executable = {0}, name;
	struct wanted wanted = {0};

	if (!release)
		return false;
	wanted.symbols[EXECUTABLE] = release->executable;
	wanted.symbols[NAME] = release->name;
	image__each_function(image, match, &wanted);
	if ((release->executable &&
	     !read_accessor(image, &wanted.found[EXECUTABLE], false, &executable)) ||
	    !read_accessor(image, &wanted.found[NAME], true, &name) ||
	    executable.count + name.count - 1 > PERFX_PATH_MAX)
		return false;
	annotation->path_count = 0;
	for (size_t i = 0; i < executable.count; i++)
		annotation->path[annotation->path_count++] = executable.steps[i];
	for (size_t i = 0; i + 1 < name.count; i++)
		annotation->path[annotation->path_count++] = name.steps[i];
	annotation->text_offset = name.steps[name.count - 1];
	return true;
}
