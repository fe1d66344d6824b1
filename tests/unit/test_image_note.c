// SPDX-License-Identifier: BSD-2-Clause
#include "image_damage.h"

TestSuite(image_note, .init = fixture_set_up, .fini = fixture_tear_down);

/* As include/perfx.h writes it: owner, type, mark, name's address, flags, zero, name. */
#define NOTE(annotation, name, flags, text)                                                     \
	".pushsection .note.perfx, \"\", %note\n .balign 4\n"                                   \
	".long 6, 8f - 7f, 1\n .asciz \"perfx\"\n .balign 4\n"                                  \
	"7: .quad " annotation ", " name "\n .long " flags ", 0\n " text " \n .balign 4\n 8:\n" \
	".popsection\n"

static const char source[] =
	".text\n"
	".type plain, %function\n"
	"plain: .cfi_startproc\n .byte 1\n mark1: .byte 2, 3\n .cfi_endproc\n .size plain, "
	"3\n" NOTE("mark1", "name1", "4", ".long 0")
		NOTE("mark1", "name1", "4", ".long 0") /* the statement was copied */
	".type pretty, %function\n"
	"pretty: .cfi_startproc\n .byte 1\n .cfi_def_cfa SP, 16\n"
	"mark2: .byte 2, 3, 4\n .cfi_endproc\n .size pretty, 4\n" NOTE("mark2", "name2", "5",
								       ".long 0")
		NOTE("mark2 + 1", "0", "2", ".asciz \"author's  int f(int)\"")
	/* the cold part of something: entered with a frame */
	".type pretty.cold, %function\n"
	"pretty.cold: .cfi_startproc\n .cfi_def_cfa SP, 32\n"
	"mark3: .byte 2\n .cfi_endproc\n .size pretty.cold, 1\n" NOTE("mark3", "0", "2",
								      ".asciz \"in the cold\"")
	/* no symbol, no FDE */
	".fill 8, 1, 0\n mark4: .fill 8, 1, 0\n" NOTE("mark4", "0", "2", ".asciz \"nowhere\"")
		NOTE("0", "0", "2", ".asciz \"discarded\"")
	/* nothing to call it by: address outside, empty, not terminated, too short a note */
	NOTE("mark1", "0x7fffffff", "4", ".long 0") NOTE("mark1", "0", "2", ".long 0")
		NOTE("mark1", "0", "2", ".ascii \"open\"")
	/* other owners' notes and other types of ours are skipped */
	".pushsection .note.perfx, \"\", %note\n .balign 4\n"
	".long 6, 0, 1\n .asciz \"perfx\"\n .balign 4\n"
	".long 6, 28, 2\n .asciz \"perfx\"\n .balign 4\n .quad mark1, 0\n .long 2, 0\n .asciz "
	"\"two\"\n"
	".long 6, 28, 1\n .asciz \"other\"\n .balign 4\n .quad mark1, 0\n .long 2, 0\n .asciz "
	"\"own\"\n"
	".popsection\n" NOTE(
		"mark2 + 2", "0", "0x100",
		".asciz \"unknown flag\"") ".section .rodata\n"
					   "name1: .asciz \"plain\"\n"
					   "name2: .asciz \"int ns::pretty(T) [with T = char]\"\n"
					   ".section .note.GNU-stack, \"\", %progbits\n";

static struct list marks_of(struct image *image)
{
	struct list list = {.count = 0};

	cr_assert_eq(image__each_annotation(image, collect, &list), 0);
	for (size_t i = 0; i < list.count; i++)
		cr_expect_eq(list.symbols[i].origin, SYMBOL_NOTE);
	return list;
}

static void expect_mark(const struct list *list, const char *name, uint64_t vaddr, uint64_t size)
{
	const struct symbol *annotation = find(list, name);

	cr_assert_not_null(annotation, "no mark '%s'", name);
	cr_expect_eq(annotation->vaddr, vaddr, "%s: at %#lx", name,
		     (unsigned long)annotation->vaddr);
	cr_expect_eq(annotation->size, size, "%s: size %lu", name, (unsigned long)annotation->size);
}

static void expect_marks(struct image *image)
{
	struct list list = marks_of(image);
	uint64_t offset;

	expect_mark(&list, "plain", TEXT_VADDR, 3);
	expect_mark(&list, "ns::pretty", TEXT_VADDR + 3, 4);
	expect_mark(&list, "author's  int f(int)", TEXT_VADDR + 3, 4);
	expect_mark(&list, "unknown flag", TEXT_VADDR + 3, 4);
	expect_mark(&list, "in the cold", 0, 0);
	expect_mark(&list, "nowhere", 0, 0);
	cr_expect_eq(list.count, 6);
	offset = find(&list, "ns::pretty")->offset;
	cr_expect_eq(image__vaddr(image, offset), TEXT_VADDR + 3);
}

static void build(void)
{
	fixture_text("n.S", source);
	fixture_run("cc -shared -nostdlib " REGISTERS " -Wl,-Ttext=%#x -o n.so n.S", TEXT_VADDR);
}

Test(image_note, annotations)
{
	struct image *image;

	build();
	image = open_image("n.so", "");
	expect_marks(image);
	expect_marks(image); /* asked twice */
	image__free(image);
}

/* None of these functions is in .dynsym: the unwind table alone knows where they start, and that
 * the cold part is none. */
Test(image_note, marks_of_a_stripped_file)
{
	struct image *image;

	build();
	fixture_run("strip n.so");
	image = open_image("n.so", "");
	cr_expect_eq(functions_of(image).count, 0);
	expect_marks(image);
	image__free(image);
}

Test(image_note, none)
{
	struct image *image;

	fixture_text("e.c", "int f(void) { return 1; }\n");
	fixture_run("cc -shared -nostdlib -o e.so e.c");
	image = open_image("e.so", "");
	cr_expect_eq(marks_of(image).count, 0);
	image__free(image);
}

Test(image_note, survives_damage, .timeout = 120)
{
	build();
	image_damage("n.so", 3000);
	fixture_run("strip n.so");
	image_damage("n.so", 3000);
}

/* --- places where operations are given --- */

#define HINT(place, type, size)                                        \
	".pushsection .note.perfx, \"\", %note\n .balign 4\n"          \
	".long 6, " size ", " type "\n .asciz \"perfx\"\n .balign 4\n" \
	".quad " place "\n .long 0, 0\n .popsection\n"

struct places {
	uint64_t vaddrs[16];
	size_t count;
};

static int collect_place(uint64_t vaddr, void *ctx)
{
	struct places *places = ctx;

	cr_assert_lt(places->count, 16);
	places->vaddrs[places->count++] = vaddr;
	return 0;
}

Test(image_note, hints)
{
	static const char hints[] =
		".text\n"
		".type f, %function\n f: .byte 1\n a: nop\n b: nop\n ret\n .size f, . - f\n" HINT(
			"a", "2", "16") HINT("b", "2", "16") HINT("0", "2", "16")
		/* no nop, outside, twice, another type */
		HINT("f", "2", "16") HINT("0x7fffffff", "2", "16") HINT("a", "2", "16")
			HINT("a", "3", "16") ".section .note.GNU-stack, \"\", %progbits\n";
	struct places places = {.count = 0};
	struct list list;
	struct image *image;

	fixture_text("h.S", hints);
	fixture_run("cc -shared -nostdlib -Wl,-Ttext=%#x -o h.so h.S", TEXT_VADDR);
	image = open_image("h.so", "");
	cr_expect_eq(image__each_hint(image, collect_place, &places), 0);
	cr_assert_eq(places.count, 3);
	cr_expect_eq(places.vaddrs[0], TEXT_VADDR + 1);
#if !defined(__aarch64__)
	cr_expect_eq(places.vaddrs[1], TEXT_VADDR + 2);
#endif
	cr_expect_eq(places.vaddrs[2], TEXT_VADDR + 1);
	list = marks_of(image);
	cr_expect_eq(list.count, 0);
	image__free(image);
}
