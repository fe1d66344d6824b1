/* SPDX-License-Identifier: BSD-2-Clause */
/* Flips bytes of a file and cuts it short, a few thousand times over, always the same ones; an
 * image of it may be refused or tell less, and must not crash (best under the address sanitizer).
 */
#ifndef PERFX_TESTS_IMAGE_DAMAGE_H
#define PERFX_TESTS_IMAGE_DAMAGE_H

#include "image_fixture.h"
#include "rounds.h"

#include <sys/mman.h>

static int touch(const struct symbol *symbol, void *ctx)
{
	*(size_t *)ctx += strlen(symbol->name);
	return 0;
}

static volatile size_t sink; /* so that nothing is optimized away */

__attribute__((unused)) static void use_all(struct image *image)
{
	size_t sum = 0, available;
	enum cfa_reg reg;
	uint64_t start, size;
	int64_t offset;

	image__each_function(image, touch, &sum);
	image__each_annotation(image, touch, &sum);
	for (uint64_t at = TEXT_VADDR; at < 0x7654020; at += 3) {
		const uint8_t *code = image__code(image, at, &available);

		if (code)
			sum += code[0] + (size_t)code[available - 1];
		image__fde(image, at, &start, &size);
		image__cfa(image, at, &reg, &offset);
	}
	sink = sum + strlen(image__build_id(image)) + image__traits(image)->dynamic;
}

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static size_t try_damaged(const uint8_t *bytes, size_t size, void (*use)(struct image *image))
{
	int fd = memfd_create("damaged", MFD_CLOEXEC);
	struct image *image;

	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	image = image__open(fd, "/damaged", "");
	close(fd);
	if (!image)
		return 0;
	use(image);
	image__free(image);
	return 1;
}

/* Half of the flips go where the tables are: the first pages and the section headers at the end. */
static void image_damage_with(const char *name, int count, void (*use)(struct image *image))
{
	static uint8_t good[1 << 16], bad[1 << 16];
	int fd = fixture_open(name);
	ssize_t size = read(fd, good, sizeof(good));
	uint32_t state = 2463534242u;
	size_t opened = 0;

	close(fd);
	cr_assert(size > 0 && (size_t)size < sizeof(good));
	for (int round = 0; round < rounds(count); round++) {
		size_t length = (size_t)size;
		uint32_t flips = 1 + next_random(&state) % 6;

		memcpy(bad, good, length);
		while (flips--) {
			size_t at = next_random(&state) % length;

			if (next_random(&state) % 4 == 0)
				at %= 0x300;
			else if (next_random(&state) % 4 == 0)
				at = length - 1 - at % 0x600;
			bad[at] = (uint8_t)(next_random(&state) % 3 ? next_random(&state) : 0xff);
		}
		if (round % 8 == 0)
			length = next_random(&state) % length;
		opened += try_damaged(bad, length, use);
	}
	/* most must get past the door, or this tests nothing but the door */
	cr_expect_gt(opened, (size_t)rounds(count) / 2);
}

__attribute__((unused)) static void image_damage(const char *name, int count)
{
	image_damage_with(name, count, use_all);
}

#endif
