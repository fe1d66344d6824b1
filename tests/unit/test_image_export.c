// SPDX-License-Identifier: BSD-2-Clause
#include "image_fixture.h"

TestSuite(image_export, .init = fixture_set_up, .fini = fixture_tear_down);

/* With one hash table, with the other, with both, and without sections to find either by. */
Test(image_export, only_what_others_may_call)
{
	static const char *const styles[] = {"gnu", "sysv", "both"};

	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
		char flags[64];
		struct image *image;

		snprintf(flags, sizeof(flags), "-Wl,--hash-style=%s", styles[i]);
		image_build(flags);
		image = open_image("f.so", "");
		cr_expect(image__exports(image, "seven"), "%s", styles[i]);
		cr_expect(image__exports(image, "twin"), "%s", styles[i]);
		cr_expect(image__exports(image, "chosen"), "%s: IFUNC", styles[i]);
		cr_expect_not(image__exports(image, "hidden_one"), "%s: local", styles[i]);
		cr_expect_not(image__exports(image, "elsewhere"), "%s: undefined", styles[i]);
		cr_expect_not(image__exports(image, "thing"), "%s: data", styles[i]);
		cr_expect_not(image__exports(image, "seve"), "%s", styles[i]);
		cr_expect_not(image__exports(image, ""), "%s", styles[i]);
		image__free(image);
	}
}

/* Enough names for chains of several in a bucket. */
Test(image_export, many)
{
	FILE *out = fopen(fixture_path("many.c"), "w");
	struct image *image;
	char name[32];

	for (int i = 0; i < 3000; i++)
		fprintf(out, "void many_%d(void) {}\n", i);
	fclose(out);
	fixture_run("cc -shared -fPIC -nostdlib -o many.so many.c");
	image = open_image("many.so", "");
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "many_%d", i);
		cr_expect(image__exports(image, name), "%s", name);
		snprintf(name, sizeof(name), "few_%d", i);
		cr_expect_not(image__exports(image, name), "%s", name);
	}
	image__free(image);
}

Test(image_export, static_files_export_nothing)
{
	struct image *image;

	fixture_text("s.c", "int seven(void) { return 7; }\nvoid _start(void) {}\n");
	fixture_run("cc -static -nostdlib -o s s.c");
	image = open_image("s", "");
	cr_expect_not(image__exports(image, "seven"));
	image__free(image);
}

/* Every word of the table overwritten in turn: a wrong answer, never a crash or an endless chain.
 */
Test(image_export, damaged_table)
{
	unsigned char bytes[65536];
	size_t size;
	FILE *in;

	image_build("-Wl,--hash-style=gnu");
	fixture_run("objcopy -O binary --only-section=.gnu.hash f.so table");
	in = fopen(fixture_path("table"), "r");
	size = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	cr_assert_gt(size, 16);
	for (size_t at = 0; at + 4 <= size; at += 4) {
		static const unsigned values[] = {0, 1, 0x7fffffff, 0xffffffff};

		for (size_t v = 0; v < 4; v++) {
			unsigned char changed[sizeof(bytes)];
			struct image *image;

			memcpy(changed, bytes, size);
			memcpy(changed + at, &values[v], 4);
			fixture_write("new", changed, size);
			fixture_run("cp f.so g.so && objcopy --update-section .gnu.hash=new g.so");
			image = open_image("g.so", "");
			image__exports(image, "seven");
			cr_expect_not(image__exports(image, "elsewhere"));
			image__free(image);
		}
	}
}
