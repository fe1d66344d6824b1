// SPDX-License-Identifier: BSD-2-Clause
/* The unwind table as rows: known ones and hostile ones. */
#include "elf/eh_frame.h"
#include "image_fixture.h"

#include <dwarf.h>
#include <elf.h>
#include <inttypes.h>
#include <sys/mman.h>

/* Rows as text, addresses from `base` on. */
struct dump {
	char text[4096];
	size_t used;
	uint64_t base;
};

static const char *cfa_text(const struct perfx_unwind_rule *rule)
{
	static char text[64];
	const char *base = rule->base == PERFX_BASE_SP ? "sp" : "fp";

	switch ((enum perfx_unwind_cfa)rule->cfa) {
	case PERFX_CFA_NONE:
		return "none";
	case PERFX_CFA_BASE:
		snprintf(text, sizeof(text), "%s%+d", base, rule->cfa_offset);
		return text;
	case PERFX_CFA_DEREF:
		snprintf(text, sizeof(text), "*(%s%+d)%+d", base, rule->cfa_offset, rule->addend);
		return text;
	case PERFX_CFA_PLT:
		snprintf(text, sizeof(text), "plt %s%+d from %d", base, rule->cfa_offset,
			 rule->addend);
		return text;
	case PERFX_CFA_SIGNAL:
		snprintf(text, sizeof(text), "signal *(%s%+d), pc *(%s%+d)", base, rule->cfa_offset,
			 base, rule->addend);
		return text;
	case PERFX_CFA_END:
		return "end";
	case PERFX_CFA_BAD:
		return "bad";
	}
	return "?";
}

static int dump_row(const struct cfi_row *row, void *ctx)
{
	static const char *const places[] = {"", ", fp *(cfa%+d)", ", fp *(sp%+d)", ", fp *(fp%+d)",
					     ", fp unknown"};
	struct dump *dump = ctx;
	char fp[32];

	snprintf(fp, sizeof(fp), places[row->rule.fp_rule], row->rule.fp_offset);
	dump->used += (size_t)snprintf(dump->text + dump->used, sizeof(dump->text) - dump->used,
				       "%" PRIx64 ": %s%s\n", row->vaddr - dump->base,
				       cfa_text(&row->rule), fp);
	return dump->used < sizeof(dump->text) ? 0 : -ENOSPC;
}

static void expect_rows(struct image *image, uint64_t from, uint64_t to, const char *expected)
{
	struct dump dump = {.base = from};

	cr_assert_eq(image__cfi_rows(image, from, to, dump_row, &dump), 0);
	cr_expect_str_eq(dump.text, expected, "%s\ninstead of\n%s", dump.text, expected);
}

TestSuite(cfi, .init = fixture_set_up, .fini = fixture_tear_down);

static struct image *assemble(const char *source, const char *flags)
{
	fixture_text("c.S", source);
	fixture_run("cc -shared -nostdlib -Wl,-Ttext=%#x %s -o c.so c.S", TEXT_VADDR, flags);
	return open_image("c.so", "");
}

#if defined(__x86_64__)
#define GNU_STACK ".section .note.GNU-stack, \"\", %progbits\n"

static const char usual_source[] =
	".text\n"
	".cfi_startproc\n .byte 1\n" /* push %rbp */
	".cfi_def_cfa_offset 16\n .cfi_offset 6, -16\n .byte 2, 2, 2\n"
	".cfi_def_cfa_register 6\n .byte 3\n"
	".cfi_remember_state\n .cfi_restore 6\n .cfi_def_cfa 7, 8\n .byte 4\n"
	".cfi_restore_state\n .byte 5\n"
	".cfi_escape 0x2e, 0x10\n .byte 5\n" /* DW_CFA_GNU_args_size: nothing changes */
	".cfi_offset 3, -24\n .byte 5\n"     /* nor by where rbx is */
	".cfi_endproc\n"
	".fill 7, 1, 0\n"
	/* advances of one, two and four bytes */
	".cfi_startproc\n .fill 0x80, 1, 6\n .cfi_adjust_cfa_offset 8\n .fill 0x180, 1, 6\n"
	".cfi_adjust_cfa_offset 8\n .fill 0x12000, 1, 6\n .cfi_adjust_cfa_offset -16\n .byte 6\n"
	".cfi_endproc\n" GNU_STACK;

static const char usual_rows[] = "0: sp+8\n"
				 "1: sp+16, fp *(cfa-16)\n"
				 "4: fp+16, fp *(cfa-16)\n"
				 "5: sp+8\n"
				 "6: fp+16, fp *(cfa-16)\n"
				 "9: none\n"
				 "10: sp+8\n"
				 "90: sp+16\n"
				 "210: sp+24\n"
				 "12210: sp+8\n"
				 "12211: none\n";

Test(cfi, rows)
{
	struct image *image = assemble(usual_source, "");

	expect_rows(image, TEXT_VADDR, TEXT_VADDR + 0x13000, usual_rows);
	expect_rows(image, TEXT_VADDR, UINT64_MAX, usual_rows);
	image__free(image);
}

Test(cfi, rows_without_search_table)
{
	struct image *image = assemble(usual_source, "-Wl,--no-eh-frame-hdr");

	expect_rows(image, TEXT_VADDR, TEXT_VADDR + 0x13000, usual_rows);
	image__free(image);
}

/* Go's linker writes no other table. */
Test(cfi, rows_of_debug_frame)
{
	static const char *const flags[] = {"", "-Wl,--compress-debug-sections=zlib"};
	char source[sizeof(usual_source) + 256];

	/* linkers compress what becomes smaller: 99 more functions, behind the rows that are asked
	 * for */
	snprintf(source, sizeof(source),
		 ".cfi_sections .debug_frame\n%s.text\n.fill 0x1000, 1, 0\n"
		 ".rept 99\n.cfi_startproc\n.byte 1\n.cfi_endproc\n.endr\n",
		 usual_source);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct image *image = assemble(source, flags[i]);

		expect_rows(image, TEXT_VADDR, TEXT_VADDR + 0x13000, usual_rows);
		image__free(image);
	}
}

/* As they are loaded: page by page, the first row where the page begins. */
Test(cfi, rows_of_a_part)
{
	struct image *image = assemble(usual_source, "");

	expect_rows(image, TEXT_VADDR + 3, TEXT_VADDR + 9,
		    "0: sp+16, fp *(cfa-16)\n1: fp+16, fp *(cfa-16)\n2: sp+8\n"
		    "3: fp+16, fp *(cfa-16)\n");
	expect_rows(image, TEXT_VADDR + 0x10000, TEXT_VADDR + 0x12210, "0: sp+24\n");
	expect_rows(image, TEXT_VADDR - 0x100, TEXT_VADDR + 1, "0: none\n100: sp+8\n");
	expect_rows(image, TEXT_VADDR + 0x100000, TEXT_VADDR + 0x110000, "0: none\n");
	expect_rows(image, TEXT_VADDR, TEXT_VADDR, "");
	image__free(image);
}

static int stop(const struct cfi_row *row, void *ctx)
{
	return row->rule.cfa == PERFX_CFA_BASE && ++*(int *)ctx == 3 ? -ECANCELED : 0;
}

Test(cfi, stops_when_told)
{
	struct image *image = assemble(usual_source, "");
	int count = 0;

	cr_expect_eq(image__cfi_rows(image, TEXT_VADDR, TEXT_VADDR + 0x13000, stop, &count),
		     -ECANCELED);
	cr_expect_eq(count, 3);
	image__free(image);
}

/* Expressions: DW_CFA_def_cfa_expression is 0x0f, DW_CFA_expression 0x10, breg rsp 0x77, rbp 0x76.
 */
static const char unusual_source[] =
	".text\n"
	".cfi_startproc\n" /* of a linker's procedure linkage table */
	".cfi_escape 0x0f, 0x0b, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n"
	".fill 16, 1, 1\n"
	".cfi_escape 0x0f, 0x0b, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22\n"
	".fill 16, 1, 1\n"
	/* as long, but shifted by 2 */
	".cfi_escape 0x0f, 0x0b, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x32, 0x24, 0x22\n"
	".fill 16, 1, 1\n .cfi_endproc\n"
	/* a stack realigned by GCC: the CFA in r10, then pushed */
	".cfi_startproc\n .cfi_def_cfa 10, 0\n .fill 16, 1, 2\n"
	".cfi_escape 0x10, 6, 2, 0x76, 0\n .cfi_escape 0x0f, 3, 0x76, 0x78, 6\n .fill 16, 1, 2\n"
	/* by OpenSSL: the stack pointer of before at rsp + 64 */
	".cfi_restore 6\n .cfi_escape 0x0f, 6, 0x77, 0xc0, 0, 6, 0x23, 8\n .fill 16, 1, 2\n"
	".cfi_escape 0x0f, 3, 0x77, 0xc0, 0\n .fill 16, 1, 2\n"
	".cfi_escape 0x0f, 3, 0x72, 0x78, 6\n .fill 16, 1, 2\n .cfi_endproc\n"
	/* rbp in rbx, given up, a value instead of a place */
	".cfi_startproc\n .cfi_register 6, 3\n .fill 16, 1, 3\n .cfi_undefined 6\n .fill 16, 1, 3\n"
	".cfi_escape 0x14, 6, 1\n .fill 16, 1, 3\n .cfi_same_value 6\n .fill 16, 1, 3\n"
	/* a return address that is elsewhere, and a caller's rsp that is not the CFA */
	".cfi_offset 16, -24\n .fill 16, 1, 3\n .cfi_restore 16\n .cfi_offset 7, -16\n"
	".fill 16, 1, 3\n .cfi_endproc\n"
	".cfi_startproc\n .cfi_undefined 16\n .fill 16, 1, 4\n .cfi_endproc\n"
	/* as glibc's __restore_rt */
	".cfi_startproc\n .cfi_signal_frame\n"
	".cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 6\n .cfi_escape 0x10, 7, 3, 0x77, 0xa0, 1\n"
	".cfi_escape 0x10, 16, 3, 0x77, 0xa8, 1\n .cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0\n"
	".fill 16, 1, 5\n .cfi_escape 0x10, 7, 3, 0x77, 0xa8, 1\n .fill 16, 1, 5\n"
	".cfi_endproc\n" GNU_STACK;

Test(cfi, unusual_rules)
{
	struct image *image = assemble(unusual_source, "");

	expect_rows(image, TEXT_VADDR, TEXT_VADDR + 0x120,
		    "0: plt sp+8 from 11\n"
		    "10: plt sp+8 from 10\n"
		    "20: bad\n"
		    "40: *(fp-8)+0, fp *(fp+0)\n"
		    "50: *(sp+64)+8\n"
		    "60: sp+64\n"
		    "70: bad\n"
		    "80: sp+8, fp unknown\n"
		    "b0: sp+8\n"
		    "c0: bad\n"
		    "e0: end\n"
		    "f0: signal *(sp+160), pc *(sp+168), fp *(sp+120)\n"
		    "100: bad\n"
		    "110: none\n");
	image__free(image);
}
#endif

/*
 * Hostile tables: a file whose .eh_frame is one CIE and FDEs of our own making. The code lies at
 * TEXT_VADDR, CODE_BYTES of it.
 */
#define CODE_BYTES  0x10000
#define TABLE_VADDR 0x1000

struct table {
	uint8_t *bytes; /* of the file; vaddr and offset are the same up to the code */
	size_t size;
};

static void add_bytes(struct table *table, const void *bytes, size_t size)
{
	table->bytes = realloc(table->bytes, table->size + size);
	cr_assert_not_null(table->bytes);
	memcpy(table->bytes + table->size, bytes, size);
	table->size += size;
}

static void add_number(struct table *table, uint64_t value, size_t size)
{
	add_bytes(table, &value, size);
}

static void add_uleb(struct table *table, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		add_number(table, (value & 0x7f) | 0x80, 1);
	add_number(table, value, 1);
}

static void add_repeated(struct table *table, const void *bytes, size_t size, size_t count)
{
	while (count--)
		add_bytes(table, bytes, size);
}

/* A record's length, now that it is all there. */
static void end_record(struct table *table, size_t start)
{
	uint32_t length = (uint32_t)(table->size - start - 4);

	memcpy(table->bytes + start, &length, sizeof(length));
}

/* The CIE: CFA = rsp + 8, return address at CFA - 8. */
static void begin_table(struct table *table, const char *augmentation, uint64_t code_align)
{
	static const uint8_t program[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};

	*table = (struct table){.bytes = calloc(1, TABLE_VADDR), .size = TABLE_VADDR};
	add_number(table, 0, 8);
	add_number(table, 1, 1);
	add_bytes(table, augmentation, strlen(augmentation) + 1);
	add_uleb(table, code_align);
	add_number(table, 0x78, 1); /* data alignment -8 */
	add_number(table, 16, 1);
	add_uleb(table, 0); /* no augmentation data: pointers are absolute */
	add_bytes(table, program, sizeof(program));
	end_record(table, TABLE_VADDR);
}

/* The caller adds the program, then calls end_record. */
static size_t begin_fde(struct table *table, uint64_t start, uint64_t size)
{
	size_t record = table->size;

	add_number(table, 0, 4);
	add_number(table, table->size - TABLE_VADDR, 4);
	add_number(table, start, 8);
	add_number(table, size, 8);
	add_uleb(table, 0);
	return record;
}

struct search_entry {
	uint64_t code, fde; /* vaddrs */
};

/* Appends .eh_frame_hdr, which names the FDEs in `entries`; without them it says where .eh_frame
 * is. */
static uint64_t add_header(struct table *table, const struct search_entry *entries, size_t count)
{
	static const uint8_t searched[] = {1, DW_EH_PE_udata4, DW_EH_PE_udata4,
					   DW_EH_PE_datarel | DW_EH_PE_sdata4};
	static const uint8_t plain[] = {1, DW_EH_PE_udata4, DW_EH_PE_omit, DW_EH_PE_omit};
	uint64_t header = table->size;

	add_bytes(table, entries ? searched : plain, 4);
	add_number(table, TABLE_VADDR, 4);
	add_number(table, count, entries ? 4 : 0);
	for (size_t i = 0; i < count; i++) {
		add_number(table, entries[i].code - header, 4);
		add_number(table, entries[i].fde - header, 4);
	}
	return header;
}

static struct image *open_table(struct table *table, const struct search_entry *entries,
				size_t count)
{
	static const uint8_t code[CODE_BYTES] = {0x90};
	Elf64_Ehdr ehdr = {.e_ident = ELFMAG,
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_phoff = sizeof(Elf64_Ehdr),
			   .e_ehsize = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 3};
	Elf64_Phdr phdrs[3];
	struct image *image;
	uint64_t header;
	int fd = memfd_create("table", MFD_CLOEXEC);

	add_number(table, 0, 4); /* the end of .eh_frame */
	header = add_header(table, entries, count);
	phdrs[0] = (Elf64_Phdr){PT_GNU_EH_FRAME, PF_R, 0, header, 0, 12, 12, 4};
	phdrs[1] = (Elf64_Phdr){PT_LOAD, PF_R, 0, 0, 0, table->size, table->size, 1};
	phdrs[2] = (Elf64_Phdr){PT_LOAD, PF_R | PF_X, table->size, TEXT_VADDR,
				0,	 CODE_BYTES,  CODE_BYTES,  1};
	ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr.e_ident[EI_VERSION] = EV_CURRENT;
	memcpy(table->bytes, &ehdr, sizeof(ehdr));
	memcpy(table->bytes + sizeof(ehdr), phdrs, sizeof(phdrs));
	add_bytes(table, code, sizeof(code));
	cr_assert_eq(write(fd, table->bytes, table->size), (ssize_t)table->size);
	image = image__open(fd, "/table", "");
	cr_assert_not_null(image, "%s", strerror(errno));
	close(fd);
	free(table->bytes);
	return image;
}

/* Of the only FDE of a table, which covers the code, and is ended here. */
static void expect_rows_of(struct table *table, size_t fde, const char *expected)
{
	struct image *image;

	end_record(table, fde);
	image = open_table(table, NULL, 0);
	expect_rows(image, TEXT_VADDR, TEXT_VADDR + CODE_BYTES, expected);
	image__free(image);
}

/* libdw would make room for all registers up to this one. */
Test(cfi_hostile, register_number)
{
	static const uint8_t behind[] = {DW_CFA_advance_loc | 16, DW_CFA_def_cfa_offset, 16};
	struct table table;
	size_t fde;

	begin_table(&table, "z", 1);
	fde = begin_fde(&table, TEXT_VADDR, CODE_BYTES);
	add_number(&table, DW_CFA_offset_extended, 1);
	add_uleb(&table, UINT64_MAX);
	add_uleb(&table, UINT64_MAX);
	add_number(&table, DW_CFA_expression, 1);
	add_uleb(&table, UINT32_MAX);
	add_uleb(&table, 0);
	add_bytes(&table, behind, sizeof(behind));
	expect_rows_of(&table, fde, "0: sp+8\n10: sp+16\n");
}

/* The last row is reached, and no address runs over. */
Test(cfi_hostile, advance)
{
	static const uint8_t far[] = {DW_CFA_advance_loc4,   0xff, 0xff, 0xff, 0xff,
				      DW_CFA_def_cfa_offset, 16};
	struct table table;
	size_t fde;

	begin_table(&table, "z", UINT64_MAX / 3);
	fde = begin_fde(&table, TEXT_VADDR, UINT64_MAX - TEXT_VADDR);
	add_repeated(&table, far, sizeof(far), 5000);
	expect_rows_of(&table, fde, "0: sp+8\n");
}

Test(cfi_hostile, location_before)
{
	struct table table;
	size_t fde;

	begin_table(&table, "z", 1);
	fde = begin_fde(&table, TEXT_VADDR, CODE_BYTES);
	for (uint64_t at = TEXT_VADDR + 32; at >= TEXT_VADDR; at -= 16) {
		add_number(&table, DW_CFA_set_loc, 1);
		add_number(&table, at, 8);
	}
	expect_rows_of(&table, fde, "0: sp+8\n20: bad\n");
}

Test(cfi_hostile, remembered_states)
{
	static const uint8_t pair[] = {DW_CFA_remember_state, DW_CFA_restore_state};
	static const uint8_t next[] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16,
				       DW_CFA_advance_loc | 1};
	struct table table;
	size_t fde;

	begin_table(&table, "z", 1);
	fde = begin_fde(&table, TEXT_VADDR, CODE_BYTES);
	add_repeated(&table, pair, sizeof(pair), 5000);
	add_bytes(&table, next, sizeof(next));
	add_repeated(&table, pair, 1, 5000);
	expect_rows_of(&table, fde, "0: sp+8\n1: sp+16\n2: bad\n");

	begin_table(&table, "z", 1);
	fde = begin_fde(&table, TEXT_VADDR, CODE_BYTES);
	add_bytes(&table, next, sizeof(next));
	add_bytes(&table, pair + 1, 1); /* what has not been remembered */
	expect_rows_of(&table, fde, "0: sp+8\n1: sp+16\n2: bad\n");
}

/* Found by fuzzing: register 195,035,122, and then no instruction. */
Test(cfi_hostile, found_by_fuzzing)
{
	static const uint8_t found[] = {0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x7a,
					0x52, 0x00, 0x01, 0x78, 0x10, 0x01, 0x1b, 0x0c, 0x07, 0x08,
					0x90, 0x01, 0x00, 0x00, 0x29, 0x00, 0x00, 0x00, 0x1c, 0x00,
					0x00, 0x00, 0xb0, 0xf1, 0xff, 0xff, 0x04, 0x00, 0x00, 0x00,
					0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x48,
					0x00, 0x00, 0x00, 0x10, 0xf2, 0xff, 0xff, 0x5c, 0x00, 0x00,
					0x00, 0x20, 0xf2, 0xff, 0xff, 0x70, 0x00, 0x00, 0x00, 0x31,
					0xf2, 0xff, 0xff};
	const uint64_t function = TABLE_VADDR + 0x20 - 0xe50; /* of the FDE, pc-relative */
	struct table table = {.bytes = calloc(1, TABLE_VADDR), .size = TABLE_VADDR};
	struct image *image;
	enum cfa_reg reg;
	int64_t offset;

	add_bytes(&table, found, sizeof(found));
	image = open_table(&table, NULL, 0);
	expect_rows(image, function - 1, function + 8, "0: none\n1: bad\n5: none\n");
	cr_expect_eq(image__cfa(image, function, &reg, &offset), -ENOENT);
	image__free(image);
}

/* Letters without an end. */
Test(cfi_hostile, augmentation)
{
	static char letters[1 << 20];
	struct search_entry entry = {.code = TEXT_VADDR};
	struct table table;
	struct image *image;

	memset(letters, 'R', sizeof(letters) - 1);
	letters[0] = 'z';
	begin_table(&table, letters, 1);
	entry.fde = begin_fde(&table, TEXT_VADDR, CODE_BYTES);
	end_record(&table, entry.fde);
	image = open_table(&table, &entry, 1);
	expect_rows(image, TEXT_VADDR, TEXT_VADDR + CODE_BYTES, "0: none\n");
	image__free(image);
}

/* A number without an end. */
Test(cfi_hostile, number)
{
	static const uint8_t next[] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset}, more = 0x80;
	struct table table;
	size_t fde;

	begin_table(&table, "z", 1);
	fde = begin_fde(&table, TEXT_VADDR, CODE_BYTES);
	add_bytes(&table, next, sizeof(next));
	add_repeated(&table, &more, 1, 5000);
	expect_rows_of(&table, fde, "0: sp+8\n1: bad\n");
}

/* Millions of instructions that say nothing. */
Test(cfi_hostile, long_program)
{
	static const uint8_t nops[4 << 20];
	struct search_entry entry = {.code = TEXT_VADDR};
	struct table table;
	struct image *image;
	enum cfa_reg reg;
	int64_t offset;

	begin_table(&table, "z", 1);
	entry.fde = begin_fde(&table, TEXT_VADDR, CODE_BYTES);
	add_bytes(&table, nops, sizeof(nops));
	end_record(&table, entry.fde);
	image = open_table(&table, &entry, 1);
	expect_rows(image, TEXT_VADDR, TEXT_VADDR + CODE_BYTES, "0: bad\n");
	cr_expect_eq(image__cfa(image, TEXT_VADDR, &reg, &offset), -ENOENT);
	image__free(image);
}

/* One program that is not too long, for thousands of functions: 16 of them are what a page's worth
 * of work pays for. */
Test(cfi_hostile, shared_program)
{
	static const uint8_t nops[64000];
	static struct search_entry entries[CODE_BYTES / 16];
	struct table table;
	struct image *image;
	size_t fde;

	begin_table(&table, "z", 1);
	fde = begin_fde(&table, TEXT_VADDR, CODE_BYTES);
	add_bytes(&table, nops, sizeof(nops));
	end_record(&table, fde);
	for (size_t i = 0; i < CODE_BYTES / 16; i++)
		entries[i] = (struct search_entry){TEXT_VADDR + 16 * i, fde};
	image = open_table(&table, entries, CODE_BYTES / 16);
	expect_rows(image, TEXT_VADDR, TEXT_VADDR + CODE_BYTES, "0: sp+8\n110: bad\n");
	image__free(image);
}

/* Functions that overlap, all of one start, and in no order: none is given twice. */
Test(cfi_hostile, search_table_in_disorder)
{
	struct search_entry entries[5];
	struct table table;
	struct image *image;

	begin_table(&table, "z", 1);
	for (uint64_t i = 0; i < 5; i++) {
		entries[i].code = TEXT_VADDR + (uint64_t[]){0, 16, 16, 64, 32}[i];
		entries[i].fde = begin_fde(&table, entries[i].code, i == 3 ? 8 : 40);
		add_number(&table, DW_CFA_def_cfa_offset, 1);
		add_uleb(&table, 8 * (i + 1));
		end_record(&table, entries[i].fde);
	}
	image = open_table(&table, entries, 5);
	expect_rows(image, TEXT_VADDR, TEXT_VADDR + 128,
		    "0: sp+8\n10: sp+24\n38: sp+40\n48: none\n");
	image__free(image);
}
