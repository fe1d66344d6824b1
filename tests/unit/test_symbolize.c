// SPDX-License-Identifier: BSD-2-Clause
#include "elf/symbolize.h"

#include "image_damage.h"
#include "places_fixture.h"

#include <sys/resource.h>

TestSuite(symbolize, .init = fixture_set_up, .fini = fixture_tear_down);

struct answers {
	char *text[PLACES];
	size_t told[PLACES];
};

static void keep(size_t index, const struct symbolized_place *places, size_t count, void *ctx)
{
	struct answers *answers = ctx;
	struct text text = {0};

	for (size_t i = 0; i < count; i++)
		places_add(&text, places[i].function, places[i].file, places[i].line);
	free(answers->text[index]);
	answers->text[index] = text_take(&text);
	answers->told[index]++;
}

static int compare_places(const void *left, const void *right)
{
	const struct known_place *a = left, *b = right;

	return (a->vaddr > b->vaddr) - (a->vaddr < b->vaddr);
}

/* All at once, as they are meant to be asked for: by a child with limits, and here. */
static void expect_answers(struct image *image, struct symbolize_budget *budget, const char *file,
			   const struct known_place *known, size_t count)
{
	struct answers answers = {0};
	uint64_t vaddrs[PLACES];

	for (size_t i = 0; i < count; i++)
		vaddrs[i] = known[i].vaddr;
	cr_assert_eq(symbolize(image, budget, vaddrs, count, keep, &answers), 0);
	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(answers.told[i], 1, "%s: told %zu times", known[i].name,
			     answers.told[i]);
		cr_expect_str_eq(answers.text[i], known[i].wanted, "%s, %s: %s", file,
				 known[i].name, answers.text[i]);
		free(answers.text[i]);
	}
}

static void expect_at(const char *file, const char *root, struct known_place *known, size_t count)
{
	struct image *image = open_image(file, root);
	struct symbolize_budget budget = {.left_ns = SYMBOLIZE_CPU_NS_MAX};

	qsort(known, count, sizeof(*known), compare_places);
	expect_answers(image, &budget, file, known, count);
	expect_answers(image, NULL, file, known, count);
	image__free(image);
}

/* What p.so was made into. */
static void expect_places(const char *file, const char *root, const struct known_place *known)
{
	struct known_place places[PLACES];

	memcpy(places, known, sizeof(places));
	for (size_t i = 0; i < PLACES; i++)
		places[i].vaddr = places_vaddr(places[i].name);
	expect_at(file, root, places, PLACES);
}

Test(symbolize, compilers_and_versions)
{
	static const char *const compilers[] = {
		"cc -gdwarf-4",	   "cc -gdwarf-5",    "cc -gdwarf-5 -flto",
		"clang -gdwarf-4", "clang -gdwarf-5", "clang -gdwarf-4 -gdwarf-aranges"};

	for (size_t i = 0; i < sizeof(compilers) / sizeof(*compilers); i++) {
		places_build(compilers[i], "places.c");
		expect_places("p.so", "", places_of_c);
	}
}

Test(symbolize, without_dwarf)
{
	places_build("cc", "places.c");
	expect_places("p.so", "", places_by_symtab);
	fixture_run("strip -o stripped.so p.so");
	expect_places("stripped.so", "", places_by_dynsym);
}

/* Skeletons have lines; the trees lie in files that the program names, and that we leave alone. */
Test(symbolize, split_dwarf)
{
	struct known_place place = {.name = "in_inner", .wanted = "outer inner.h:12"};

	places_build("cc -gdwarf-5 -gsplit-dwarf", "places.c");
	place.vaddr = places_vaddr(place.name);
	expect_at("p.so", "", &place, 1);
}

Test(symbolize, compressed)
{
	static const char *const kinds[] = {"zlib", "zlib-gnu"};

	places_build("cc -g", "places.c");
	for (size_t i = 0; i < 2; i++) {
		fixture_run("objcopy --compress-debug-sections=%s p.so z.so", kinds[i]);
		expect_places("z.so", "", places_of_c);
	}
}

Test(symbolize, separate_debug_file)
{
	char root[128];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	places_build("cc -g -Wl,--build-id=0xabcdef01", "places.c");
	fixture_run("mkdir -p root/usr/lib/debug/.build-id/ab && "
		    "objcopy --only-keep-debug --compress-debug-sections=zlib p.so "
		    "root/usr/lib/debug/.build-id/ab/cdef01.debug && "
		    "strip -o stripped.so p.so && strip -g -o names.so p.so");
	expect_places("stripped.so", root, places_of_c);
	expect_places("stripped.so", "", places_by_dynsym);
	/* with a .symtab of its own it needs the other file for lines only */
	expect_places("names.so", root, places_of_c);
	expect_places("names.so", "", places_by_symtab);
}

Test(symbolize, separate_debug_file_by_link)
{
	places_build("cc -g", "places.c");
	fixture_run("objcopy --only-keep-debug p.so p.debug && strip -o stripped.so p.so && "
		    "objcopy --add-gnu-debuglink=p.debug stripped.so");
	expect_places("stripped.so", "", places_of_c);
	fixture_run("rm p.debug");
	expect_places("stripped.so", "", places_by_dynsym);
}

/* What no symbol covers has no name, and a name in it does not spread. */
Test(symbolize, outside)
{
	struct known_place places[] = {{.name = "header", .wanted = " :0", .vaddr = 0},
				       {.name = "in_outer", .wanted = "outer outer.c:203"},
				       {.name = "nowhere", .wanted = " :0", .vaddr = UINT64_MAX}};

	places_build("cc -g", "places.c");
	places[1].vaddr = places_vaddr("in_outer");
	expect_at("p.so", "", places, 3);
}

/* Their ranges begin at 0 and reach over everything. */
Test(symbolize, dropped_functions)
{
	static const char *const versions[] = {"4", "5"};
	char compiler[128];

	for (size_t i = 0; i < 2; i++) {
		snprintf(compiler, sizeof(compiler),
			 "cc -DDROPPED -ffunction-sections -Wl,--gc-sections -gdwarf-%s",
			 versions[i]);
		places_build(compiler, "places.c");
		fixture_run("! nm p.so | grep -q dropped");
		expect_places("p.so", "", places_of_c);
	}
}

/* gcc only: the inner one is in the outer one's tree and not in its code. */
Test(symbolize, nested_functions)
{
	struct known_place places[] = {
		{.name = "in_nested",
		 .wanted = "in_nested_function outer.c:228 < nested.0 outer.c:236"},
		{.name = "in_outer", .wanted = "outer outer.c:203"}};

	places_build("gcc -g -DNESTED", "places.c");
	places[0].vaddr = places_vaddr("in_nested");
	places[1].vaddr = places_vaddr("in_outer");
	expect_at("p.so", "", places, 2);
}

#define RUN(line) " < ns::Holder::run places.cc:" #line

Test(symbolize, cxx)
{
	struct known_place places[PLACES] = {
		{.name = "in_constructor", .wanted = "ns::Box<char>::Box places.h:20" RUN(107)},
		{.name = "in_member", .wanted = "ns::Box<char>::get places.h:15" RUN(115)},
		{.name = "in_anonymous",
		 .wanted = "(anonymous namespace)::anonymous places.h:61" RUN(117)},
		{.name = "in_hidden_member",
		 .wanted = "(anonymous namespace)::Hidden::member places.h:55" RUN(117)},
		/* gcc says nothing of a local class but where it is */
		{.name = "in_lambda",
		 .wanted = "ns::Holder::run::{lambda}::operator() places.cc:110" RUN(116)},
	};

	places_build("c++ -g", "places.cc");
	expect_places("p.so", "", places);
	places[4].wanted = "ns::Holder::run(int)::$_0::operator() places.cc:110" RUN(116);
	places_build("clang++ -g", "places.cc");
	expect_places("p.so", "", places);
}

/* DWARF 4 by hand: the names are in the common file, as DW_FORM_GNU_strp_alt (0x1f21) and behind
 * DW_FORM_GNU_ref_alt (0x1f20). "code" is no function symbol. */
/* "code" is no function, so that its name is not the one of the symbol. */
static const char dwz_source[] =
	".text\n.globl code\n.type code, %object\ncode: .fill 16, 1, 0x90\nend:\n"
	".section .gnu_debugaltlink, \"\", %progbits\n"
	"	.asciz \"/nowhere/common.debug\"\n .byte 0xab, 0xcd, 0xef, 0x01\n"
	".section .debug_abbrev, \"\", %progbits\n"
	"	.uleb128 1, 0x11\n .byte 1\n .uleb128 0x11, 1, 0x12, 7, 0, 0\n"
	"	.uleb128 2, 0x2e\n .byte 1\n .uleb128 0x3, 0x1f21, 0x11, 1, 0x12, 7, 0, 0\n"
	"	.uleb128 3, 0x1d\n .byte 0\n .uleb128 0x31, 0x1f20, 0x11, 1, 0x12, 7\n"
	"	.uleb128 0x59, 11, 0, 0\n"
	"	.byte 0\n"
	".section .debug_info, \"\", %progbits\n"
	"	.long unit_end - unit\nunit: .short 4\n .long .debug_abbrev\n .byte 8\n"
	"	.uleb128 1\n .quad code, end - code\n"
	"	.uleb128 2\n .long 1\n .quad code, end - code\n"
	"	.uleb128 3\n .long 12\n .quad code + 4, 4\n .byte 77\n"
	"	.byte 0, 0\nunit_end:\n";
static const char dwz_common_source[] =
	".section .debug_str, \"\", %progbits\n .byte 0\n .asciz \"from_common\"\n"
	".section .debug_abbrev, \"\", %progbits\n"
	"	.uleb128 1, 0x3c\n .byte 1\n .uleb128 0, 0\n"
	"	.uleb128 2, 0x2e\n .byte 0\n .uleb128 0x3, 8, 0, 0\n .byte 0\n"
	".section .debug_info, \"\", %progbits\n"
	"	.long unit_end - unit\nunit: .short 4\n .long .debug_abbrev\n .byte 8\n"
	"	.uleb128 1\n"
	"	.uleb128 2\n .asciz \"inlined_from_common\"\n"
	"	.byte 0\nunit_end:\n";

Test(symbolize, dwz_common_file)
{
	struct known_place places[] = {{.name = "code", .wanted = "from_common :0"},
				       {.name = "inlined",
					.wanted = "inlined_from_common :0 < from_common :77"}};
	struct known_place alone[] = {{.name = "code", .wanted = " :0"}};
	char root[128];

	snprintf(root, sizeof(root), "%s/root", fixture_dir);
	fixture_text("p.S", dwz_source);
	fixture_text("common.S", dwz_common_source);
	fixture_run("mkdir -p root/nowhere && cc -shared -nostdlib -o p.so p.S && "
		    "cc -shared -nostdlib -Wl,--build-id=0xabcdef01 -o root/nowhere/common.debug "
		    "common.S");
	places[0].vaddr = alone[0].vaddr = places_vaddr("code");
	places[1].vaddr = places[0].vaddr + 4;
	expect_at("p.so", root, places, 2);
	expect_at("p.so", "", alone, 1);
	/* another file's build-id */
	fixture_run("cc -shared -nostdlib -Wl,--build-id=0xabcdef02 -o root/nowhere/common.debug "
		    "common.S");
	expect_at("p.so", root, alone, 1);
}

static void count_names(size_t index, const struct symbolized_place *places, size_t count,
			void *ctx)
{
	(void)index;
	for (size_t i = 0; i < count; i++)
		*(size_t *)ctx += strlen(places[i].function) + strlen(places[i].file);
}

static void use_places(struct image *image)
{
	uint64_t vaddrs[512], vaddr;
	size_t size, count = 0, sum = 0;

	if (image__code_segment(image, 0, &vaddr, &size))
		for (; count < 512 && count < size; count++)
			vaddrs[count] = vaddr + count;
	symbolize(image, NULL, vaddrs, count, count_names, &sum);
	sink = sum;
}

/* Whoever has lines is not said to lack them. */
Test(symbolize, within_its_budget)
{
	struct symbolize_budget budget = {.left_ns = SYMBOLIZE_CPU_NS_MAX};
	struct image *image;

	places_build("cc -g -gz=zlib", "places.c");
	image = open_image("p.so", "");
	expect_answers(image, &budget, "p.so",
		       &(struct known_place){.wanted = "outer outer.c:203",
					     .vaddr = places_vaddr("in_outer")},
		       1);
	cr_expect(!budget.exceeded);
	cr_expect_lt(budget.left_ns, SYMBOLIZE_CPU_NS_MAX);
	image__free(image);
}

/*
 * Debug information without measure: 64 bytes of code with a symbol, and sections that unpack to
 * more than any machine has, or take hours to read.
 */
#define UNIT_OF_CODE                                                               \
	".section .debug_info, \"\", %%progbits\n"                                 \
	"	.long unit_end - unit\nunit: .short 4\n .long .debug_abbrev\n .byte 8\n" \
	"	.uleb128 1\n .quad code, 64\n .long .debug_line\n"
#define ABBREV_OF_UNIT                               \
	".section .debug_abbrev, \"\", %%progbits\n" \
	"	.uleb128 1, 0x11\n .byte 1\n .uleb128 0x11, 1, 0x12, 7, 0x10, 0x17, 0, 0\n"
#define LINE_TABLE(rows)                                                    \
	".section .debug_line, \"\", %%progbits\n"                          \
	"	.long line_end - line\nline: .short 4\n .long program - header\n" \
	"header: .byte 1, 1, 1, -5, 14, 13, 0,1,1,1,1,0,0,0,1,0,0,1, 0\n"   \
	"	.asciz \"f.c\"\n .byte 0, 0, 0, 0\n"                              \
	"program: .byte 0, 9, 2\n .quad code\n" rows " .byte 0, 1, 1\nline_end:\n"

/* Lines alone. */
static const char many_rows[] = UNIT_OF_CODE ".byte 0\nunit_end:\n" ABBREV_OF_UNIT
					     ".byte 0\n" LINE_TABLE(".fill 8000000, 1, 0x20\n");
/* Functions without end, one behind the other, none of them at the code. */
static const char many_entries[] =
	UNIT_OF_CODE ".fill 10000000, 1, 2\n .byte 0\nunit_end:\n" ABBREV_OF_UNIT
		     "	.uleb128 2, 0x2e\n .byte 0\n .uleb128 0, 0\n .byte 0\n" LINE_TABLE("");
/* Each unit looks for an abbreviation that none of the million is. */
static const char many_abbreviations[] =
	".section .debug_info, \"\", %%progbits\n"
	"	.rept 3000\n .long 9\n .short 4\n .long .debug_abbrev\n .byte 8\n"
	"	.byte 0xff, 0x7f\n .endr\n"
	".section .debug_abbrev, \"\", %%progbits\n"
	"	.set code_of, 20000\n"
	"	.rept 100000\n .uleb128 code_of, 0x2e\n .byte 0\n .uleb128 0, 0\n"
	"	.set code_of, code_of + 1\n .endr\n .byte 0\n";
/* Sections that are nothing but zeros. */
static const char much_to_unpack[] = UNIT_OF_CODE
	".byte 0\nunit_end:\n" ABBREV_OF_UNIT
	".byte 0\n" LINE_TABLE(".fill 64, 1, 0x20\n") ".section .debug_str, \"\", %%progbits\n"
						      "	.fill 280000000, 1, 0\n";

static void build_endless(const char *debug_sections)
{
	char *source = NULL, format[4096];

	snprintf(format, sizeof(format), "%s%s",
		 ".text\n.globl code\n.type code, %%function\ncode: .fill 64, 1, 0x90\n"
		 ".size code, 64\n",
		 debug_sections);
	cr_assert_gt(asprintf(&source, format, 0), 0);
	fixture_text("p.S", source);
	free(source);
	fixture_run("cc -shared -nostdlib -o p.so p.S && "
		    "objcopy --compress-debug-sections=zlib p.so z.so");
}

Test(symbolize, endless)
{
	/* the first and the last end at the limit of memory, the others at that of time */
	static const struct {
		const char *sections;
		uint64_t left_ns;
	} kinds[] = {{many_rows, SYMBOLIZE_CPU_NS_MAX},
		     {many_entries, SYMBOLIZE_CPU_NS_MAX / 20},
		     {many_abbreviations, SYMBOLIZE_CPU_NS_MAX / 20},
		     {much_to_unpack, SYMBOLIZE_CPU_NS_MAX}};
	static const char *const files[] = {"p.so", "z.so"};
	struct known_place known = {.name = "code", .wanted = "code :0"};
	struct rusage usage;

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		build_endless(kinds[kind].sections);
		known.vaddr = places_vaddr("code") + 8;
		for (size_t i = 0; i < 2; i++) {
			struct image *image = open_image(files[i], "");
			struct symbolize_budget budget = {.left_ns = kinds[kind].left_ns};

			/* what is not compressed and holds no name is never read */
			bool is_read = kinds[kind].sections != much_to_unpack || i;

			known.wanted = is_read ? "code :0" : "code f.c:1";
			expect_answers(image, &budget, files[i], &known, 1);
			cr_expect_eq(budget.exceeded, is_read, "kind %zu, %s", kind, files[i]);
			image__free(image);
		}
	}
	/* of the children, the compiler included */
	getrusage(RUSAGE_SELF, &usage);
	cr_expect_lt(usage.ru_maxrss, 250 << 10, "%ld KiB", usage.ru_maxrss);
}

/* A name that ends where its section does, without a NUL: libdw would read on. Such a file has no
 * debug information that is to be trusted. */
Test(symbolize, text_without_end)
{
	places_build("cc -gdwarf-4", "places.c");
	fixture_run(
		"objcopy -O binary --only-section=.debug_str --set-section-flags "
		".debug_str=alloc p.so str && "
		"sed -i 's/\\(.*\\)inner\\x00.*/\\1inner/; $!d' str && "
		"tail -c1 str | grep -q r && objcopy --update-section .debug_str=str p.so s.so");
	expect_places("s.so", "", places_by_symtab);
}

Test(symbolize, damaged)
{
	static const char *const compilers[] = {"cc -gdwarf-4", "cc -gdwarf-5", "clang -gdwarf-5",
						"cc -g -gz=zlib"};

	for (size_t i = 0; i < sizeof(compilers) / sizeof(*compilers); i++) {
		places_build(compilers[i], "places.c");
		image_damage_with("p.so", 1500, use_places);
	}
	places_build("c++ -g", "places.cc");
	image_damage_with("p.so", 1500, use_places);
}
