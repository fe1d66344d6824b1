// SPDX-License-Identifier: BSD-2-Clause
/*
 * The markers of include/perfx.h with every compiler, linker and optimisation level of this
 * machine: each is there once, begins with the bytes that the header promises and has its note,
 * also in a stripped file; the program runs; what is not used leaves nothing.
 */
#include "image_fixture.h"

#include <sys/wait.h>

#define DATA "\"$OLDPWD\"/tests/unit/data/"

TestSuite(markers, .init = fixture_set_up, .fini = fixture_tear_down, .timeout = 300);

static const char *const names[] = {"range_push",  "range_pop",	 "range_start", "range_end",
				    "mark",	   "counter",	 "counter_add", "memory_alloc",
				    "memory_free", "step_begin", "step_end",	"trace_start",
				    "trace_stop"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static bool have(const char *tool)
{
	char command[128];

	snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", tool);
	if (!system(command))
		return true;
	fprintf(stderr, "test_markers: no %s here: skipped\n", tool);
	return false;
}

struct found {
	const char *what;
	struct image *image;
	unsigned notes[NAMES];
};

static void expect_body(struct image *image, uint64_t vaddr, const char *what)
{
#if defined(__aarch64__)
	static const uint8_t body[] = {0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6};
#else
	static const uint8_t body[] = {0x0f, 0x1f, 0x44, 0x00, 0x00, 0x90, 0xc3};
#endif
	size_t available;
	const uint8_t *code = image__code(image, vaddr, &available);

	cr_assert_not_null(code, "%s", what);
	cr_assert_geq(available, sizeof(body));
	cr_expect_arr_eq(code, body, sizeof(body), "%s: other bytes at %#lx", what,
			 (unsigned long)vaddr);
}

static int count_note(const struct usdt_probe *probe, void *ctx)
{
	struct found *found = ctx;

	cr_expect_str_eq(probe->provider, "perfx");
	cr_expect_eq(probe->semaphore_vaddr, 0);
	expect_body(found->image, probe->vaddr, found->what);
	for (size_t i = 0; i < NAMES; i++)
		found->notes[i] += strcmp(names[i], probe->name) == 0;
	return 0;
}

static void count_notes(const char *name, struct found *found)
{
	memset(found->notes, 0, sizeof(found->notes));
	found->image = open_image(name, "");
	cr_assert_eq(image__each_usdt(found->image, count_note, found), 0);
	image__free(found->image);
}

/* ThinLTO compiles each file on its own and keeps all copies of a group, of which one is called. */
static void check_notes(const char *name, const char *what)
{
	bool thin = strstr(what, "=thin") != NULL;
	struct found found = {.what = what};

	count_notes(name, &found);
	for (size_t i = 0; i < NAMES; i++)
		cr_expect(thin ? found.notes[i] >= 1 : found.notes[i] == 1, "%s: %s %u times", what,
			  names[i], found.notes[i]);
}

static const char *const ways[] = {
	"-O0",
	"-O1 -no-pie",
	"-O2 -fPIE -pie",
	"-Os -fPIE -pie",
	"-O3 -static",
	"-O2 -flto",
	"-O2 -fcf-protection=full -ffunction-sections -Wl,--gc-sections",
	"-O2 -masm=intel -fno-asynchronous-unwind-tables",
};
static const char *const lld_ways[] = {"-O2 -fuse-ld=lld -Wl,--gc-sections",
				       "-O2 -fuse-ld=lld -flto", "-O2 -fuse-ld=lld -flto=thin"};

static void check_way(const char *compiler, const char *way)
{
	char what[128];

	snprintf(what, sizeof(what), "%s %s", compiler, way);
	fixture_run("%s %s -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror "
		    "-I\"$OLDPWD\"/include -o a " DATA "markers.c " DATA "markers_other.c && ./a",
		    compiler, way);
	check_notes("a", what);
	fixture_run("strip a && ./a");
	check_notes("a", what);
}

static void check_compiler(const char *command, const char *options)
{
	char compiler[64];

	if (!have(command))
		return;
	snprintf(compiler, sizeof(compiler), "%s %s", command, options);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		check_way(compiler, ways[i]);
	if (strcmp(command, "clang") != 0 || !have("ld.lld"))
		return;
	for (size_t i = 0; i < sizeof(lld_ways) / sizeof(lld_ways[0]); i++)
		check_way(compiler, lld_ways[i]);
}

Test(markers, gcc)
{
	check_compiler("gcc", "-std=c11");
}

Test(markers, clang)
{
	check_compiler("clang", "-std=c11");
}

Test(markers, gxx)
{
	check_compiler("gcc", "-x c++ -std=c++11");
	check_way("gcc -x c++ -std=c++20", "-O2 -fPIE -pie");
}

Test(markers, clangxx)
{
	check_compiler("clang", "-x c++ -std=c++11");
}

/* A library has markers of its own; the ids of its ranges are none of the program's. */
Test(markers, modules)
{
	fixture_text("lib.c", "#include <perfx.h>\n"
			      "uint64_t begin(void); uint64_t begin(void)\n"
			      "{ return perfx_range_start(\"lib\"); }\n");
	fixture_text("main.c", "#include <perfx.h>\n"
			       "uint64_t begin(void);\n"
			       "int main(void) { for (int i = 0; i < 1000; i++) {\n"
			       "uint64_t a = perfx_range_start(\"a\"), b = begin();\n"
			       "if (a == b || a - b < 1 << 20 || b - a < 1 << 20) return 1; }\n"
			       "return 0; }\n");
	fixture_run("cc -O2 -fPIC -shared -I\"$OLDPWD\"/include -o l.so lib.c && "
		    "cc -O2 -I\"$OLDPWD\"/include -o a main.c ./l.so && ./a && "
		    "test $(readelf -n l.so | grep -c 'Name: range_start') = 1 && "
		    "test $(readelf -n a | grep -c 'Name: range_start') = 1");
}

/* A program that includes the header and links the library, too: its own markers serve it. */
Test(markers, beside_the_library)
{
	fixture_run("cc -O2 -fPIC -shared -nostdlib -fvisibility=hidden -I\"$OLDPWD\"/include "
		    "-Wl,-soname,libperfx.so.1 -o libperfx.so \"$OLDPWD\"/user/libperfx/perfx.c && "
		    "ln -s libperfx.so libperfx.so.1 && "
		    "cc -O2 -Wl,--no-as-needed,--fatal-warnings -I\"$OLDPWD\"/include -o a " DATA
		    "markers.c " DATA "markers_other.c -L. -lperfx -Wl,-rpath,. && ./a");
	check_notes("a", "with libperfx");
	/* it needs no other library, and exports no more than the header declares */
	fixture_run(
		"! readelf -d libperfx.so | grep NEEDED && "
		"nm -D --defined-only libperfx.so | sed 's/.* T //' | sort > is && "
		"printf 'perfx_%%s\\n' range_push range_push_in range_pop range_start "
		"range_start_in range_end mark counter counter_add memory_alloc memory_free "
		"flops step_begin step_end trace_start trace_stop | sort > must && diff is must");
}

static void expect_nothing_of(const char *marker, const char *linker)
{
	struct found found = {.what = linker};

	count_notes("a", &found);
	for (size_t i = 0; i < NAMES; i++)
		cr_expect_eq(found.notes[i], strcmp(names[i], marker) != 0, "%s: %s", linker,
			     names[i]);
}

Test(markers, dead_code_is_collected)
{
	static const char *const linkers[] = {"", "-fuse-ld=lld"};

	for (size_t i = 0; i < 2; i++) {
		if (i && !have("ld.lld"))
			return;
		fixture_run("cc -O2 -DNEVER_CALLED -ffunction-sections -Wl,--gc-sections %s "
			    "-I\"$OLDPWD\"/include -o a " DATA "markers.c " DATA "markers_other.c",
			    linkers[i]);
		expect_nothing_of("memory_alloc", linkers[i]);
		fixture_run("! nm a | grep perfx_at_memory_alloc");
	}
}

/* Who includes the header and marks nothing has the same object file as who does not include it. */
Test(markers, unused_leave_nothing)
{
	static const char *const compilers[] = {"gcc", "gcc -x c++", "clang", "clang -x c++"};

	fixture_text("with.c", "#include <perfx.h>\nint x; int f(int a);\n"
			       "int f(int a) { return a + x; }\n");
	fixture_text("without.c", "#include <stdint.h>\nint x; int f(int a);\n"
				  "int f(int a) { return a + x; }\n");
	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		if (!have(i < 2 ? "gcc" : "clang"))
			continue;
		for (int level = 0; level < 3; level += 2)
			fixture_run("for f in with without; do %s -O%d -I\"$OLDPWD\"/include -c "
				    "-o $f.o $f.c && objcopy --strip-unneeded $f.o && "
				    "readelf -SW $f.o | grep -v strtab | tr -s ' ' | cut -d' ' "
				    "-f2-4 > $f.txt; "
				    "done; diff with.txt without.txt && size with.o without.o | "
				    "awk 'NR > 1 { print $4 }' | uniq | wc -l | grep -qx 1",
				    compilers[i], level);
	}
}

/* Elsewhere all of it is empty: a machine without markers, and one that is not 64-bit ELF. */
Test(markers, other_platforms)
{
	static const char *const missing[] = {"__x86_64__", "__ELF__", "__LP64__", "__GNUC__"};

	fixture_text("o.c", "#include <stddef.h>\n#include <stdint.h>\n#undef MISSING\n"
			    "#undef __aarch64__\n#include <perfx.h>\n"
			    "int main(void) { PERFX_SCOPE(\"s\"); perfx_counter(\"c\", 1);\n"
			    "perfx_flops(3); perfx_step_begin(); perfx_step_end();\n"
			    "perfx_range_end(perfx_range_start(\"r\"));\n"
			    "return (int)perfx_range_start(\"r\"); }\n");
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
		fixture_run(
			"sed 's/MISSING/%s/' o.c > p.c && cc %s -O2 -I\"$OLDPWD\"/include -o a p.c "
			"&& ./a && ! nm a | grep perfx_at && ! readelf -n a | grep perfx",
			missing[i / 2], i % 2 ? "-x c++" : "");
}

/* The other architecture, as far as it goes without its C library. */
Test(markers, arm64)
{
	if (!have("aarch64-linux-gnu-gcc"))
		return;
	for (int pic = 0; pic < 2; pic++)
		fixture_run(
			"aarch64-linux-gnu-gcc -O2 -Wall -Wextra -Wpedantic -Werror -ffreestanding "
			"-nostdlib %s "
			"-I\"$OLDPWD\"/include -o a " DATA "markers.c " DATA "markers_other.c && "
			"test $(readelf -n a | grep -c 'Provider: perfx') = 13 && "
			"readelf -n a | grep -q 'Arguments: 8@x0 8@x1 8@x2'",
			pic ? "-fPIC -shared" : "-static -Wl,-e,main -mno-outline-atomics");
}
