// SPDX-License-Identifier: BSD-2-Clause
/* The unwind table as rows: known ones, hostile ones, and those of big libraries as libdw reads
 * them. */
#include "elf/cfi.h"
#include "image_fixture.h"

#include <criterion/logging.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <glob.h>
#include <inttypes.h>
#include <sys/mman.h>

/* Rows as text, addresses from `base` on. */
struct dump {
	char text[4096];
	size_t used, count;
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

	dump->count++;
	snprintf(fp, sizeof(fp), places[row->rule.fp_rule], row->rule.fp_offset);
	if (dump->used < sizeof(dump->text))
		dump->used += (size_t)snprintf(dump->text + dump->used,
					       sizeof(dump->text) - dump->used,
					       "%" PRIx64 ": %s%s\n", row->vaddr - dump->base,
					       cfa_text(&row->rule), fp);
	return 0;
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

#define USUAL_ROWS                                                                                 \
	"0: sp+8\n"                                                                                \
	"1: sp+16, fp *(cfa-16)\n"                                                                 \
	"4: fp+16, fp *(cfa-16)\n"                                                                 \
	"5: sp+8\n"                                                                                \
	"6: fp+16, fp *(cfa-16)\n"                                                                 \
	"9: none\n"                                                                                \
	"10: sp+8\n"                                                                               \
	"90: sp+16\n"                                                                              \
	"210: sp+24\n"                                                                             \
	"12210: sp+8\n"                                                                            \
	"12211: none\n"

Test(cfi, rows)
{
	struct image *image = assemble(usual_source, "");

	expect_rows(image, TEXT_VADDR, TEXT_VADDR + 0x13000, USUAL_ROWS);
	image__free(image);
}

Test(cfi, rows_without_search_table)
{
	struct image *image = assemble(usual_source, "-Wl,--no-eh-frame-hdr");

	expect_rows(image, TEXT_VADDR, TEXT_VADDR + 0x13000, USUAL_ROWS);
	image__free(image);
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
