// SPDX-License-Identifier: BSD-2-Clause
#include "image_damage.h"

TestSuite(image_usdt, .init = fixture_set_up, .fini = fixture_tear_down);

/* As SystemTap's <sys/sdt.h> has it, which needs not be installed. */
#define USDT(location, base, semaphore, strings)                                        \
	".pushsection .note.stapsdt, \"\", %note\n .balign 4\n"                         \
	".long 8, 8f - 7f, 3\n .asciz \"stapsdt\"\n"                                    \
	"7: .quad " location ", " base ", " semaphore "\n " strings "\n 8: .balign 4\n" \
	".popsection\n"
#define BASE "_.stapsdt.base"

static const char source[] =
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

static void build(void)
{
	fixture_text("u.S", source);
	fixture_run("cc -shared -nostdlib -Wl,-Ttext=%#x -o u.so u.S", TEXT_VADDR);
}

Test(image_usdt, probes)
{
	struct image *image;

	build();
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

	build();
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
	build();
	image_damage_with("u.so", 3000, use_probes);
}
