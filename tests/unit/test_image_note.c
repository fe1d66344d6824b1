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
	".fill 8, 1, 0\n .Lmark4: .fill 8, 1, 0\n" NOTE(".Lmark4", "0", "2", ".asciz \"nowhere\"")
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

TestSuite(image_usdt, .init = fixture_set_up, .fini = fixture_tear_down);

/* As SystemTap's <sys/sdt.h> has it, which needs not be installed. */
#define USDT(location, base, semaphore, strings)                                        \
	".pushsection .note.stapsdt, \"\", %note\n .balign 4\n"                         \
	".long 8, 8f - 7f, 3\n .asciz \"stapsdt\"\n"                                    \
	"7: .quad " location ", " base ", " semaphore "\n " strings "\n 8: .balign 4\n" \
	".popsection\n"
#define BASE "_.stapsdt.base"

static const char usdt_source[] =
	".text\n"
	"code: .fill 64, 1, 0x90\n"
	".pushsection .stapsdt.base, \"aG\", %progbits, .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n .hidden _.stapsdt.base\n _.stapsdt.base: .space 1\n"
	".popsection\n"
	".pushsection .probes, \"aw\", %progbits\n .balign 2\n"
	".short 7\n semaphore: .short 0\n .popsection\n"
	/* prelinked by 0x10 and then not: a base of its own */
	USDT("code + 1", BASE, "0", ".asciz \"lib\", \"plain\", \"\"")
		USDT("code + 2", BASE, "semaphore",
		     ".asciz \"lib\", \"guarded\", \"8@%rdi -4@-20(%rbp)\"")
			USDT("code + 3", BASE, "0", ".asciz \"lib\", \"plain\", \"4@$5\"")
				USDT("code + 0x14 - 0x10", BASE " - 0x10", "semaphore - 0x10",
				     ".asciz \"other\", \"moved\", \"\"")
					USDT("code + 5", "0", "0", ".asciz \"old\", \"no args\"")
	/* wrong: outside the code, nameless, open strings, odd semaphore, semaphore in the code */
	USDT("0", BASE, "0", ".asciz \"lib\", \"zero\", \"\"") USDT(
		"semaphore", BASE, "0", ".asciz \"lib\", \"data\", \"\"")
		USDT("code", BASE, "0", ".asciz \"lib\", \"\", \"\"") USDT(
			"code", BASE, "0", ".asciz \"\", \"name\", \"\"") USDT("code", BASE, "0",
									       ".ascii \"open\"")
			USDT("code", BASE, "0", ".asciz \"lib\"\n .ascii \"open\"")
				USDT("code", BASE, "semaphore + 1", ".asciz \"lib\", \"odd\", \"\"")
					USDT("code", BASE, "code + 2",
					     ".asciz \"lib\", \"in code\", \"\"")
						USDT("code", BASE, "0x7fff0000",
						     ".asciz \"lib\", \"far\", \"\"")
	/* not theirs, not that type, too short */
	".pushsection .note.stapsdt, \"\", %note\n .balign 4\n"
	".long 8, 8f - 7f, 3\n .asciz \"statsdt\"\n"
	"7: .quad code, 0, 0\n .asciz \"a\", \"b\", \"\"\n 8: .balign 4\n"
	".long 8, 8f - 7f, 4\n .asciz \"stapsdt\"\n"
	"7: .quad code, 0, 0\n .asciz \"a\", \"b\", \"\"\n 8: .balign 4\n"
	".long 8, 16, 3\n .asciz \"stapsdt\"\n .quad code, 0\n"
	".popsection\n" USDT(
		"code + 6", BASE, "0",
		".asciz \"lib\", \"last\", \"x\"") ".section .note.GNU-stack, \"\", %progbits\n";

struct probes {
	struct usdt_probe probes[32];
	size_t count;
};

static int keep(const struct usdt_probe *probe, void *ctx)
{
	struct probes *probes = ctx;

	cr_assert_lt(probes->count, 32);
	probes->probes[probes->count++] = *probe;
	return 0;
}

static void expect_probe(struct image *image, const struct usdt_probe *probe, const char *text,
			 uint64_t at)
{
	char is[200];

	snprintf(is, sizeof(is), "%s:%s(%s)", probe->provider, probe->name, probe->arguments);
	cr_expect_str_eq(is, text);
	cr_expect_eq(probe->vaddr, TEXT_VADDR + at, "%s: at %#lx", is, (unsigned long)probe->vaddr);
	cr_expect_eq(image__vaddr(image, probe->offset), TEXT_VADDR + at);
}

static void expect_semaphore(struct image *image, const struct usdt_probe *probe)
{
	size_t available;
	const uint8_t *bytes = image__data(image, probe->semaphore_vaddr - 2, &available);

	cr_assert_not_null(bytes);
	cr_expect_eq(bytes[0], 7);
	cr_expect_eq(image__vaddr(image, probe->semaphore_offset), probe->semaphore_vaddr);
	cr_expect_eq(probe->semaphore_offset % 2, 0);
}

static void expect_probes(struct image *image)
{
	struct probes found = {.count = 0};

	cr_assert_eq(image__each_usdt(image, keep, &found), 0);
	cr_assert_eq(found.count, 6, "%zu probes", found.count);
	expect_probe(image, &found.probes[0], "lib:plain()", 1);
	cr_expect_eq(found.probes[0].semaphore_vaddr, 0);
	cr_expect_eq(found.probes[0].semaphore_offset, 0);
	expect_probe(image, &found.probes[1], "lib:guarded(8@%rdi -4@-20(%rbp))", 2);
	expect_semaphore(image, &found.probes[1]);
	expect_probe(image, &found.probes[2], "lib:plain(4@$5)", 3);
	expect_probe(image, &found.probes[3], "other:moved()", 0x14);
	expect_semaphore(image, &found.probes[3]);
	expect_probe(image, &found.probes[4], "old:no args()", 5);
	expect_probe(image, &found.probes[5], "lib:last(x)", 6);
}

static void build_usdt(void)
{
	fixture_text("u.S", usdt_source);
	fixture_run("cc -shared -nostdlib -Wl,-Ttext=%#x -o u.so u.S", TEXT_VADDR);
}

Test(image_usdt, probes)
{
	struct image *image;

	build_usdt();
	image = open_image("u.so", "");
	expect_probes(image);
	image__free(image);
	fixture_run("strip u.so");
	image = open_image("u.so", "");
	expect_probes(image);
	image__free(image);
}

static int stop_at_second(const struct usdt_probe *probe, void *ctx)
{
	(void)probe;
	return ++*(int *)ctx == 2 ? 77 : 0;
}

Test(image_usdt, stops)
{
	struct image *image;
	int count = 0;

	build_usdt();
	image = open_image("u.so", "");
	cr_expect_eq(image__each_usdt(image, stop_at_second, &count), 77);
	cr_expect_eq(count, 2);
	image__free(image);
}

Test(image_usdt, none)
{
	struct probes found = {.count = 0};
	struct image *image;

	fixture_text("e.c", "int f(void) { return 1; }\n");
	fixture_run("cc -shared -nostdlib -o e.so e.c");
	image = open_image("e.so", "");
	cr_expect_eq(image__each_usdt(image, keep, &found), 0);
	cr_expect_eq(found.count, 0);
	image__free(image);
}

/* Every marker of perfx.h, by the product's own reader. */
Test(image_usdt, libperfx)
{
	static const char *const expected[] = {
		"range_push 8@%rdi 8@%rsi",
		"range_pop ",
		"range_start 8@%rdi 8@%rsi 8@%rdx",
		"range_end 8@%rdi",
		"mark 8@%rdi",
		"counter 8@%rdi 8@%rsi",
		"counter_add 8@%rdi 8@%rsi",
		"memory_alloc 8@%rdi 8@%rsi 8@%rdx",
		"memory_free 8@%rdi 8@%rsi",
		"step_begin ",
		"step_end ",
		"trace_start ",
		"trace_stop ",
	};
	static const uint8_t body[] = {0x0f, 0x1f, 0x44, 0x00, 0x00, 0x90, 0xc3};
	enum { EXPECTED = sizeof(expected) / sizeof(expected[0]) };
	struct probes found = {.count = 0};
	struct image *image;

#if !defined(__x86_64__)
	cr_skip_test("the registers are those of x86-64");
#endif
	fixture_run("cc -O2 -fPIC -shared -nostdlib -I\"$OLDPWD\"/include -o l.so "
		    "\"$OLDPWD\"/user/libperfx/perfx.c && strip l.so");
	image = open_image("l.so", "");
	cr_assert_eq(image__each_usdt(image, keep, &found), 0);
	cr_assert_eq(found.count, EXPECTED);
	for (size_t i = 0; i < EXPECTED; i++) {
		size_t available, hits = 0;

		for (size_t j = 0; j < EXPECTED; j++) {
			char is[100];

			snprintf(is, sizeof(is), "%s %s", found.probes[j].name,
				 found.probes[j].arguments);
			hits += strcmp(is, expected[i]) == 0;
		}
		cr_expect_eq(hits, 1, "%s: %zu times", expected[i], hits);
		cr_expect_str_eq(found.probes[i].provider, "perfx");
		cr_expect_arr_eq(image__code(image, found.probes[i].vaddr, &available), body,
				 sizeof(body));
	}
	image__free(image);
}

static int touch_probe(const struct usdt_probe *probe, void *ctx)
{
	*(size_t *)ctx += strlen(probe->provider) + strlen(probe->name) + strlen(probe->arguments) +
			  probe->offset + probe->semaphore_offset;
	return 0;
}

static void use_probes(struct image *image)
{
	size_t sum = 0;

	image__each_usdt(image, touch_probe, &sum);
	sink = sum;
}

Test(image_usdt, survives_damage, .timeout = 120)
{
	build_usdt();
	image_damage_with("u.so", 3000, use_probes);
}
