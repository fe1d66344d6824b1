// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the fuzzers begin with: seeds FOLDER ELF…, into FOLDER/DOOR. Captures are the stories of
 * tests/golden in each of the forms that fuzz_capture.c takes; of each ELF file the sections are
 * taken that a door is about. What is text comes from tests/fuzz/run.
 */
#include "fuzz_image.h"

#include "capture/block.h"
#include "cost/builtin.h"
#include "golden_cases.h"
#include "line_tables.h"
#include "perfx_agent.h"
#include "xla_thunks.h"

#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>

struct part {
	const void *bytes;
	size_t size;
};

static const char *folder_path;

/* Into a file FOLDER/DOOR/NAME-NUMBER. */
static void save(const char *door, const char *name, size_t number, const struct part *parts,
		 size_t count)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder_path, door);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/%s-%zu", folder_path, door, name, number);
	file = fopen(path, "we");
	if (!file)
		exit(1);
	for (size_t i = 0; i < count; i++)
		fwrite(parts[i].bytes, 1, parts[i].size, file);
	if (fclose(file))
		exit(1);
}

static void save_form(const char *name, char form, const void *bytes, size_t size)
{
	const struct part parts[] = {{&form, 1}, {bytes, size}};

	save("capture", name, (size_t)form, parts, 2);
}

static void save_columns(const char *name, struct column_encoder *encoder, const struct stream *s,
			 size_t size)
{
	const struct columns *columns = column_encoder__encode(encoder, s->bytes.data, size);
	struct part parts[COLUMNS + 2] = {{"\2", 1}};
	uint16_t sizes[COLUMNS + 1];

	parts[1] = (struct part){sizes, sizeof(sizes)};
	for (int i = 0; i < COLUMNS; i++) {
		sizes[i] = (uint16_t)columns->sizes[i];
		parts[i + 2] = (struct part){columns->bytes[i], columns->sizes[i]};
	}
	sizes[COLUMNS] = (uint16_t)(size / 8);
	save("capture", name, 2, parts, COLUMNS + 2);
}

/* The truncated story ends within a record. */
static size_t whole_records(const struct stream *s)
{
	struct perfx_record hdr;
	size_t at = 0;

	for (; at + sizeof(hdr) <= s->bytes.length; at += hdr.size) {
		memcpy(&hdr, s->bytes.data + at, sizeof(hdr));
		if (hdr.size > s->bytes.length - at)
			break;
	}
	return at;
}

static void save_captures(void)
{
	struct packer *packer = packer__new();
	struct column_encoder *encoder = column_encoder__new();

	if (!packer || !encoder)
		exit(1);
	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		const char *name = golden_cases[i].name;
		struct stream s = {0};
		const void *block;
		size_t size, block_size;

		golden_cases[i].build(&s);
		size = whole_records(&s);
		block = packer__pack(packer, s.bytes.data, size, 0, &block_size);
		save_form(name, 0, block, block_size);
		save_form(name, 1, block, block_size);
		save_columns(name, encoder, &s, size);
		save_form(name, 3, s.bytes.data, s.bytes.length);
		stream_clear(&s);
	}
	column_encoder__free(encoder);
	packer__free(packer);
}

static struct fuzz_part part_of(Elf *elf, const char *name, struct part *part)
{
	size_t names;
	Elf_Scn *section = NULL;
	GElf_Shdr shdr;

	*part = (struct part){"", 0};
	if (elf_getshdrstrndx(elf, &names))
		exit(1);
	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *data = elf_rawdata(section, NULL);

		if (!gelf_getshdr(section, &shdr) ||
		    strcmp(elf_strptr(elf, names, shdr.sh_name), name) || !data->d_buf)
			continue;
		*part = (struct part){data->d_buf, data->d_size};
		return (struct fuzz_part){(uint32_t)shdr.sh_addr, (uint32_t)data->d_size};
	}
	return (struct fuzz_part){0};
}

static void save_sections(const struct fuzz_door *door, const char *name, size_t number, Elf *elf,
			  const struct symbol *function)
{
	size_t count = fuzz_sections_count(door);
	struct fuzz_question question = {0};
	struct fuzz_part heads[FUZZ_SECTIONS_MAX];
	struct part parts[FUZZ_SECTIONS_MAX + 2];

	for (size_t i = 0; i < count; i++)
		heads[i] = part_of(elf, door->sections[i].name, &parts[i + 2]);
	if (!heads[0].size)
		return;
	if (function) { /* of .text this one */
		parts[2].bytes = (const char *)parts[2].bytes + (function->vaddr - heads[0].vaddr);
		parts[2].size = function->size;
		heads[0] = (struct fuzz_part){(uint32_t)function->vaddr, (uint32_t)function->size};
		question.size = (uint16_t)function->size;
	}
	parts[0] = (struct part){&question, function ? sizeof(question) : 0};
	parts[1] = (struct part){heads, count * sizeof(heads[0])};
	save(door->name, name, number, parts, count + 2);
}

struct functions {
	const struct fuzz_door *door;
	const char *name;
	Elf *elf;
	struct fuzz_part text;
	size_t count;
};

static int save_function(const struct symbol *symbol, void *ctx)
{
	struct functions *functions = ctx;

	if (symbol->size && symbol->size <= UINT16_MAX && symbol->vaddr >= functions->text.vaddr &&
	    symbol->vaddr + symbol->size <= functions->text.vaddr + functions->text.size)
		save_sections(functions->door, functions->name, functions->count++, functions->elf,
			      symbol);
	return 0;
}

static void save_door(const struct fuzz_door *door, const char *name, Elf *elf, struct image *image)
{
	struct functions functions = {.door = door, .name = name, .elf = elf};
	struct part text;

	if (strcmp(door->name, "code")) {
		save_sections(door, name, 0, elf, NULL);
		return;
	}
	functions.text = part_of(elf, ".text", &text);
	image__each_function(image, save_function, &functions);
}

static void save_elf(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct image *image = fd < 0 ? NULL : image__open(fd, path, "");
	Elf *elf = image && elf_version(EV_CURRENT) ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	struct part all = {0};

	if (!elf) {
		fprintf(stderr, "seeds: %s is no ELF file\n", path);
		exit(1);
	}
	all.bytes = elf_rawfile(elf, &all.size);
	save("elf", name, 0, &all, 1);
	for (size_t i = 0; i < FUZZ_DOORS; i++)
		save_door(&fuzz_doors[i], name, elf, image);
	elf_end(elf);
	image__free(image);
	close(fd);
}

static void save_rules(void)
{
	static const struct {
		const char *base_name, *symbol;
	} known[] = {
		{"libopenblas.so.0", "cblas_sgemm"},
		{"libopenblas.so.0", "dgemm_"},
		{"libmkl_rt.so.2", "cblas_sgemm_batch"},
		{"libtorch_cpu.so", "_ZN2at4_ops2mm4callERKNS_6TensorES4_"},
		{"libtorch_cpu.so", "_ZN2at4_ops6linear4callERKNS_6TensorES4_"},
		{"libcublas.so.12", "cublasGemmEx"},
		{"libcublasLt.so.12", "cublasLtMatmul"},
		{"libnccl.so.2", "ncclAllReduce"},
	};
	struct builtin builtin;
	char text[2 * BUILTIN_TEXT_MAX];

	for (size_t i = 0; i < FUZZ_COUNT(known); i++) {
		struct part part = {text, 0};

		if (!builtin_find(known[i].base_name, known[i].symbol, &builtin))
			continue;
		part.size = (size_t)snprintf(text, sizeof(text), "libfast.so:fast_* %s\n",
					     builtin.text);
		save("rules", "builtin", i, &part, 1);
	}
}

static const struct scene {
	uint64_t thunk;
	const char *operation;
	const struct captured_range *ranges;
	size_t ranges_count;
	const struct captured_word *words;
	size_t words_count;
} scenes[] = {
#define SCENE(name, thunk, operation)                                                     \
	{                                                                                 \
		thunk, operation, name##_ranges, FUZZ_COUNT(name##_ranges), name##_words, \
			FUZZ_COUNT(name##_words)                                          \
	}
	SCENE(dot_s32, 139679452855920, "dot_general.1"),
	SCENE(dot_c64_batch, 139679452134256, "dot_general.1"),
	SCENE(convolution, 139679458151120, "convolution-window-dilated"),
	SCENE(fusion, 139679458893712, "ynn_fusion"),
	SCENE(fusion_convolution, 140003052211088, "ynn_fusion"),
	SCENE(fusion_sum, 139679318158368, "ynn_fusion"),
	SCENE(kernel, 139679450956736, "wrapped_tanh"),
#undef SCENE
};

static uint64_t captured_word(const struct scene *scene, uint64_t address)
{
	for (size_t i = 0; i < scene->words_count; i++)
		if (scene->words[i].address == address)
			return scene->words[i].value;
	return 0;
}

static void save_scene(const struct scene *scene, size_t number)
{
	struct fuzz_xla head = {.thunk = scene->thunk};
	static uint64_t words[1 << 16];
	struct part parts[] = {{&head, sizeof(head)}, {words, 0}};

	snprintf(head.operation, sizeof(head.operation), "%s", scene->operation);
	for (size_t i = 0; i < scene->ranges_count && i < FUZZ_XLA_RANGES; i++) {
		const struct captured_range *range = &scene->ranges[i];

		head.ranges[i] = (struct fuzz_xla_range){range->address, 8 * range->words};
		for (size_t k = 0; k < range->words; k++, parts[1].size += 8)
			words[parts[1].size / 8] = captured_word(scene, range->address + 8 * k);
	}
	save("xla", scene->operation, number, parts, 2);
}

static void save_lines(void)
{
	for (size_t i = 0; i < KNOWN_TABLES; i++) {
		const struct known_table *known = &known_tables[i];
		uint8_t head[4] = {(uint8_t)known->format, (uint8_t)known->first_line,
				   (uint8_t)(known->first_line >> 8)};
		struct part parts[] = {{head, sizeof(head)}, {known->bytes, known->length}};

		save("lines", "known", i, parts, 2);
	}
}

/* _Py_DebugOffsets of 3.13. */
static void save_runtime(void)
{
	static const uint64_t words[] = {0,    0x030d00f0, 0,	 0,    0,    632, 80000, 7272, 7336,
					 7344, 7600,	   7592, 7560, 7568, 16,  48,	 0,    0,
					 0,    0,	   0,	 368,  0,    8,	  16,	 72,   152,
					 160,  0,	   0,	 88,   8,    0,	  56};
	uint8_t kind = 0;
	struct part parts[] = {{&kind, 1}, {"xdebugpy", 8}, {words + 1, sizeof(words) - 8}};

	save("lines", "runtime", 0, parts, 3);
}

/* The input of fuzz_mappings.c. */
static void save_mappings(void)
{
	static const uint64_t files[FUZZ_MAPPED_FILES][6] = {
		{0x1000, 0x4000, 0x1000},
		{0x21000, 0x32000, 0x20000},
		{0x10000, 0x3f00, 0, 0x33f00, 0x4000, 0x3f00},
		{0, 0x4000, 0x1000},
	};
	static const char first[] = "400000-405000 r-xp 00000000 08:01 4 /bin/a\n"
				    "7f0000001000-7f0000033000 r-xp 00020000 08:01 5 /lib/b.so\n"
				    "7f0000100000-7f0000104000 r-xp 00000000 08:01 6 /lib/c.so\n"
				    "7f0000123000-7f0000128000 r-xp 00003000 08:01 6 /lib/c.so\n"
				    "7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]\n",
			  second[] = "400000-405000 r-xp 00000000 08:01 4 /bin/a\n"
				     "7f0000000000-7f0000005000 r-xp 00000000 08:01 7 /lib/d.so\n"
				     "7f0000003000-7f0000009000 r-xp 00000000 08:01 7 /lib/d.so\n";
	const struct part parts[] = {
		{files, sizeof(files)}, {first, sizeof(first)},	  {"", 1}, {second, sizeof(second)},
		{first, sizeof(first)}, {second, sizeof(second)}, {"", 1}};

	save("mappings", "processes", 0, parts, FUZZ_COUNT(parts));
}

/* A name, a device, an activity and a call, as fuzz_agent.c takes them. */
static void save_ring(void)
{
	static const char text[16] = "_Z4gemmPfS_";
	struct perfx_agent_name name = {
		.hdr = {.size = sizeof(name) + sizeof(text), .kind = PERFX_AGENT_NAME}, .name = 1};
	struct perfx_agent_device device = {
		.hdr = {.size = sizeof(device), .kind = PERFX_AGENT_DEVICE}, .uuid = {0x5c, 0x89}};
	struct perfx_agent_activity activity = {.hdr = {.size = sizeof(activity),
							.kind = PERFX_AGENT_ACTIVITY},
						.start_ns = 1000,
						.end_ns = 2000,
						.name = 1,
						.grid = {8, 4, 2},
						.op = PERFX_GPU_OP_KERNEL};
	struct perfx_agent_call call = {.hdr = {.size = sizeof(call), .kind = PERFX_AGENT_CALL},
					.start_ns = 900,
					.end_ns = 950,
					.name = 1,
					.op = PERFX_GPU_OP_KERNEL};
	uint64_t positions[2] = {
		sizeof(name) + sizeof(text) + sizeof(device) + sizeof(activity) + sizeof(call), 0};
	const struct part parts[] = {{positions, sizeof(positions)}, {&name, sizeof(name)},
				     {text, sizeof(text)},	     {&device, sizeof(device)},
				     {&activity, sizeof(activity)},  {&call, sizeof(call)}};

	save("agent", "ring", 0, parts, FUZZ_COUNT(parts));
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 1;
	folder_path = argv[1];
	save_captures();
	save_rules();
	save_lines();
	save_runtime();
	save_mappings();
	save_ring();
	for (size_t i = 0; i < FUZZ_COUNT(scenes); i++)
		save_scene(&scenes[i], i);
	for (int i = 2; i < argc; i++)
		save_elf(argv[i]);
	return 0;
}
