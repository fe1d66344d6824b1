// SPDX-License-Identifier: BSD-2-Clause
#include "image_fixture.h"

TestSuite(image_traits, .init = fixture_set_up, .fini = fixture_tear_down);

static struct image_traits traits_of(const char *name)
{
	struct image *image = open_image(name, "");
	struct image_traits traits = *image__traits(image);

	cr_expect_eq(memcmp(&traits, image__traits(image), sizeof(traits)), 0, "asked twice");
	image__free(image);
	return traits;
}

static struct image_traits build(const char *code, const char *flags)
{
	fixture_text("t.c", code);
	fixture_run("cc -w %s -o t t.c", flags);
	return traits_of("t");
}

Test(image_traits, plain_c)
{
	struct image_traits traits = build("int f(void) { return 1; }", "-shared");

	cr_expect(traits.dynamic);
	cr_expect_not(traits.needs_loader);
	cr_expect(traits.has_symtab);
	cr_expect_not(traits.has_except_table);
	cr_expect_not(traits.needs_cxx);
	cr_expect_not(traits.is_rust);
	cr_expect_not(traits.is_go);
	cr_expect_not(traits.switches_stacks);
	fixture_run("strip t");
	cr_expect_not(traits_of("t").has_symtab);
}

Test(image_traits, static_program)
{
	struct image_traits traits =
		build("void _start(void) { for (;;); }", "-static -nostdlib -no-pie");

	cr_expect_not(traits.dynamic);
	cr_expect_not(traits.switches_stacks);
}

static const char landing_pad[] = "void g(int *); void h(void);\n"
				  "void f(void) { __attribute__((cleanup(g))) int i; h(); }";

/* C that exceptions of others may cross. */
Test(image_traits, landing_pads)
{
	cr_expect(build(landing_pad, "-shared -fPIC -fexceptions").has_except_table);
	cr_expect_not(build(landing_pad, "-shared -fPIC").has_except_table);
	cr_expect_not(build(landing_pad, "-shared -fPIC -fexceptions").needs_cxx);
}

Test(image_traits, cxx_runtime)
{
	fixture_text("empty.c", "");
	fixture_run("cc -shared -Wl,-soname,libstdc++.so.6 -o libfake.so empty.c && "
		    "cc -shared -Wl,--no-as-needed -o u.so empty.c ./libfake.so");
	cr_expect(traits_of("u.so").needs_cxx);
	cr_expect_not(traits_of("libfake.so").needs_cxx);
	cr_expect(build("void __gxx_personality_v0(void) {}", "-shared").needs_cxx);
	cr_expect_not(build("void __gxx_personality_v0(void); void f(void) "
			    "{ __gxx_personality_v0(); }",
			    "-shared -fPIC")
			      .needs_cxx,
		      "used only");
}

Test(image_traits, rust)
{
	cr_expect(build("void rust_eh_personality(void) {}", "-shared").is_rust);
	cr_expect(build("void _ZN4core3fmt5write17h0123456789abcdefE(void) {}", "-shared").is_rust);
	cr_expect(build("void _RNvC6_123foo3bar(void) {}", "-shared").is_rust);
	cr_expect_not(build("void _Rotate(void) {}", "-shared").is_rust);
	cr_expect_not(build("void _ZN4core3fmt5writeEv(void) {}", "-shared").is_rust);
}

Test(image_traits, go)
{
	cr_expect(build("__attribute__((section(\".gopclntab\"))) int t = 1;", "-shared").is_go);
	cr_expect(
		build("asm(\".section .note.go.buildid, \\\"a\\\", %note\\n .long 0\");", "-shared")
			.is_go);
}

Test(image_traits, stacks)
{
	cr_expect(build("void swapcontext(void); void f(void) { swapcontext(); }", "-shared -fPIC")
			  .switches_stacks);
	/* libc defines it and does not use it */
	cr_expect_not(build("void swapcontext(void) {}", "-shared").switches_stacks);
	/* in a static program what is there is used */
	cr_expect(build("void swapcontext(void) {} void _start(void) { swapcontext(); }",
			"-static -nostdlib")
			  .switches_stacks);
	cr_expect(build("void jump_fcontext(void) {}", "-shared").switches_stacks);
	cr_expect(build("void _ZL10slp_switchv(void) {}", "-shared").switches_stacks);
}

/* Nothing says that there are no landing pads: the careful answer. */
Test(image_traits, without_section_headers)
{
	char zeros[24] = {0};

	cr_expect_not(build("int f(void) { return 1; }", "-shared").has_except_table);
	fixture_write("zeros", zeros, sizeof(zeros));
	/* e_shoff at 40, e_shnum and e_shstrndx at 60 */
	fixture_run("dd if=zeros of=t bs=1 count=8 seek=40 conv=notrunc status=none && "
		    "dd if=zeros of=t bs=1 count=4 seek=60 conv=notrunc status=none");
	cr_expect(traits_of("t").has_except_table);
	cr_expect(traits_of("t").dynamic);
}
