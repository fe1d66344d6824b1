// SPDX-License-Identifier: BSD-2-Clause
/* What thunks of XLA compute, by what lay in the memory of a real program; and by what is damaged.
 */
#include "rounds.h"
#include "xla/internal.h"
#include "xla/thunk.h"
#include "xla_thunks.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct scene {
	const char *name;
	uint64_t thunk;
	const char *operation;
	const struct captured_range *ranges;
	size_t ranges_count;
	const struct captured_word *words;
	size_t words_count;
	struct xla_cost cost;
};

#define SCENE(name, thunk, operation, ...)                                              \
	{                                                                               \
#name, thunk, operation, name##_ranges,                                 \
			sizeof(name##_ranges) / sizeof(name##_ranges[0]), name##_words, \
			sizeof(name##_words) / sizeof(name##_words[0]),                 \
		{                                                                       \
			__VA_ARGS__                                                     \
		}                                                                       \
	}

/* clang-format off */
static const struct scene scenes[] = {
	/* s32[100,200]ᵀ × s32[100,50] */
	SCENE(dot_s32, 139679452855920, "dot_general.1", PERFX_COST_COUNTED,
	      PERFX_DTYPE_INTEGER, 2ULL * 200 * 100 * 50, 4 * (100 * 200 + 100 * 50 + 200 * 50)),
	/* c64[2,3,10,20] × c64[2,3,20,5] */
	SCENE(dot_c64_batch, 139679452134256, "dot_general.1", PERFX_COST_COUNTED,
	      PERFX_DTYPE_C64, 8ULL * 6 * 10 * 20 * 5, 8 * 6 * (10 * 20 + 20 * 5 + 10 * 5)),
	/* f32[2,32,30,4] by f32[3,5,2,8], two groups, strides 2×1, kernel dilated 2×1 */
	SCENE(convolution, 139679458151120, "convolution-window-dilated", PERFX_COST_COUNTED,
	      PERFX_DTYPE_F32, 2ULL * (2 * 14 * 26 * 8) * (3 * 5 * 2),
	      4 * (2 * 32 * 30 * 4 + 3 * 5 * 2 * 8 + 2 * 14 * 26 * 8)),
	/* f32[2,32,30,3], dilated 2×2, by f32[3,5,3,8] */
	SCENE(convolution_transposed, 139679456735184, "convolution-base-dilated",
	      PERFX_COST_COUNTED, PERFX_DTYPE_F32, 2ULL * (2 * 32 * 30 * 3) * (3 * 5 * 8),
	      4 * (2 * 32 * 30 * 3 + 3 * 5 * 3 * 8 + 2 * 63 * 59 * 8)),
	/* f32[3,70,6] by f32[5,6,10] */
	SCENE(convolution_line, 140597973843536, "convolution", PERFX_COST_COUNTED,
	      PERFX_DTYPE_F32, 2ULL * (3 * 69 * 10) * (5 * 6),
	      4 * (3 * 70 * 6 + 5 * 6 * 10 + 3 * 69 * 10)),
	/* f32[33,64] × f32[64,48] */
	SCENE(fusion, 139679458893712, "ynn_fusion", PERFX_COST_COUNTED, PERFX_DTYPE_F32,
	      2ULL * 33 * 64 * 48, 4 * (33 * 64 + 64 * 48 + 33 * 48)),
	/* f32[2,3,40,20] × f32[2,3,50,20], the last dimension of both contracted */
	SCENE(fusion_batch, 139679385115072, "ynn_fusion", PERFX_COST_COUNTED, PERFX_DTYPE_F32,
	      2ULL * 6 * 40 * 20 * 50, 4 * 6 * (40 * 20 + 50 * 20 + 40 * 50)),
	/* f32[2,20,18,32] by f32[3,5,16,48], two groups, kernel dilated 2×1 */
	SCENE(fusion_convolution, 140003052211088, "ynn_fusion", PERFX_COST_COUNTED,
	      PERFX_DTYPE_F32, 2ULL * (2 * 19 * 17 * 48) * (3 * 5 * 16),
	      4 * (2 * 20 * 18 * 32 + 3 * 5 * 16 * 48 + 2 * 19 * 17 * 48)),
	/* a sum: no product in it */
	SCENE(fusion_sum, 139679318158368, "ynn_fusion", PERFX_COST_NONE, 0, 0, 0),
	SCENE(kernel, 139679450956736, "wrapped_tanh", PERFX_COST_OPAQUE, 0, 0, 0),
	SCENE(kernel, 139679450956736, "dot.6", PERFX_COST_UNREAD, 0, 0, 0),
	SCENE(kernel, 139679450956736, "do", PERFX_COST_OPAQUE, 0, 0, 0),
};
/* clang-format on */
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

struct world {
	const struct scene *scene;
	uint64_t *words; /* of all ranges, one after another */
	size_t words_count;
	uint64_t missing; /* the word at this address cannot be read; 0: all can */
};

static uint64_t *word_at(struct world *world, uint64_t address)
{
	size_t before = 0;

	for (size_t i = 0; i < world->scene->ranges_count; i++) {
		const struct captured_range *range = &world->scene->ranges[i];

		if (address >= range->address && address < range->address + 8 * range->words)
			return &world->words[before + (address - range->address) / 8];
		before += range->words;
	}
	return NULL;
}

static uint64_t address_of(const struct world *world, size_t index)
{
	for (size_t i = 0; i < world->scene->ranges_count; i++) {
		if (index < world->scene->ranges[i].words)
			return world->scene->ranges[i].address + 8 * index;
		index -= world->scene->ranges[i].words;
	}
	abort();
}

static bool read_world(void *ctx, uint64_t address, void *to, size_t bytes)
{
	struct world *world = ctx;
	unsigned char *out = to;

	for (const uint64_t *word = NULL; bytes; address++, bytes--) {
		if (!word || address % 8 == 0)
			word = word_at(world, address & ~7ULL);
		if (!word || (world->missing && (address & ~7ULL) == world->missing))
			return false;
		*out++ = (unsigned char)(*word >> (address % 8 * 8));
	}
	return true;
}

static struct world world_of(const struct scene *scene)
{
	struct world world = {.scene = scene};

	for (size_t i = 0; i < scene->ranges_count; i++)
		world.words_count += scene->ranges[i].words;
	world.words = calloc(world.words_count, sizeof(*world.words));
	cr_assert(world.words);
	for (size_t i = 0; i < scene->words_count; i++)
		*word_at(&world, scene->words[i].address) = scene->words[i].value;
	return world;
}

static struct xla_cost cost_of(struct world *world)
{
	struct xla_memory memory = {.read = read_world, .ctx = world};
	struct xla_cost cost;

	xla_thunk_cost(&memory, world->scene->thunk, world->scene->operation, &cost);
	return cost;
}

static bool same(const struct xla_cost *a, const struct xla_cost *b)
{
	return a->state == b->state && a->dtype == b->dtype && a->flops == b->flops &&
	       a->bytes == b->bytes;
}

Test(xla, real_thunks)
{
	for (size_t i = 0; i < SCENES; i++) {
		struct world world = world_of(&scenes[i]);
		struct xla_cost cost = cost_of(&world);

		cr_expect(same(&cost, &scenes[i].cost), "%s: state %d dtype %d flops %lu bytes %lu",
			  scenes[i].name, cost.state, cost.dtype, cost.flops, cost.bytes);
		free(world.words);
	}
}

static bool makes_another_cost(const struct scene *scene, const struct xla_cost *cost)
{
	return cost->state == PERFX_COST_COUNTED && !same(cost, &scene->cost);
}

/* Whatever word is another one: the same cost, or none. */
Test(xla, damaged_words)
{
	for (size_t i = 0; i < SCENES; i++) {
		struct world world = world_of(&scenes[i]);

		for (size_t k = 0; k < world.words_count; k += rounds_stride(1)) {
			const uint64_t was = world.words[k];
			const uint64_t damaged[] = {0,	      was + 1, was - 1, was + 8,   was << 1,
						    was >> 1, ~was,    ~0ULL,	1ULL << 40};

			for (size_t n = 0; n < sizeof(damaged) / sizeof(damaged[0]); n++) {
				struct xla_cost cost;

				world.words[k] = damaged[n];
				cost = cost_of(&world);
				cr_expect(!makes_another_cost(&scenes[i], &cost),
					  "%s: %lx at %lx (thunk + %ld) was %lx: %lu flops, %lu "
					  "bytes",
					  scenes[i].name, damaged[n], address_of(&world, k),
					  (long)(address_of(&world, k) - scenes[i].thunk), was,
					  cost.flops, cost.bytes);
			}
			world.words[k] = was;
		}
		free(world.words);
	}
}

Test(xla, unreadable_words)
{
	for (size_t i = 0; i < SCENES; i++) {
		struct world world = world_of(&scenes[i]);

		for (size_t k = 0; k < world.words_count; k++) {
			struct xla_cost cost;

			world.missing = address_of(&world, k);
			cost = cost_of(&world);
			cr_expect(!makes_another_cost(&scenes[i], &cost), "%s without %lx",
				  scenes[i].name, world.missing);
		}
		free(world.words);
	}
}

/* A fusion is that of its thunk by its name. */
Test(xla, another_instruction)
{
	for (size_t i = 0; i < SCENES; i++) {
		struct scene scene = scenes[i];
		struct world world;
		struct xla_cost cost;

		if (!strstr(scene.name, "fusion"))
			continue;
		scene.operation = "ynn_fusion.2";
		world = world_of(&scene);
		cost = cost_of(&world);
		cr_expect_eq(cost.state, PERFX_COST_UNREAD);
		free(world.words);
	}
}

/* Words of fusion_convolution: its windows of both dimensions, its result, its numbers. */
#define FIRST_STRIDE	  0x7f55003413e0
#define SECOND_DILATED_BY 0x7f550006f050 /* the input */
#define OUT_HEIGHT	  0x7f55002cfeb8
#define OUT_WIDTH	  0x7f55002cfec0
#define GROUPS		  0x7f55002f9270
#define BATCH_GROUPS	  0x7f55002f9278
#define BATCH_DIMENSION	  0x7f55002f9320

static const struct xla_cost unread = {.state = PERFX_COST_UNREAD};

static void expect_changed(const char *what, const struct captured_word changes[2],
			   const struct xla_cost *expected)
{
	struct xla_cost cost;
	struct world world;
	size_t i = 0;

	while (strcmp(scenes[i].name, "fusion_convolution") != 0)
		i++;
	world = world_of(&scenes[i]);
	for (i = 0; i < 2 && changes[i].address; i++)
		*word_at(&world, changes[i].address) = changes[i].value;
	cost = cost_of(&world);
	cr_expect(same(&cost, expected), "%s: state %d flops %lu bytes %lu", what, cost.state,
		  cost.flops, cost.bytes);
	free(world.words);
}

/* Another window, with the result that it makes; and without. */
Test(xla, convolution_windows)
{
	const struct captured_word strided[] = {{FIRST_STRIDE, 2}, {OUT_HEIGHT, 10}};
	const struct captured_word transposed[] = {{SECOND_DILATED_BY, 2}, {OUT_WIDTH, 34}};
	const uint64_t rest = 4 * (2 * 20 * 18 * 32 + 3 * 5 * 16 * 48);

	expect_changed("strided", strided,
		       &(struct xla_cost){PERFX_COST_COUNTED, PERFX_DTYPE_F32,
					  2ULL * (2 * 10 * 17 * 48) * (3 * 5 * 16),
					  rest + 4ULL * (2 * 10 * 17 * 48)});
	expect_changed("transposed", transposed,
		       &(struct xla_cost){PERFX_COST_COUNTED, PERFX_DTYPE_F32,
					  2ULL * (2 * 20 * 18 * 32) * (3 * 5 * 24),
					  rest + 4ULL * (2 * 19 * 34 * 48)});
	for (size_t i = 0; i < 2; i++) {
		const struct captured_word one[][2] = {{strided[i]}, {transposed[i]}};

		expect_changed("strided, half", one[0], &unread);
		expect_changed("transposed, half", one[1], &unread);
	}
}

Test(xla, convolution_numbers)
{
	const struct captured_word changes[][2] = {
		{{GROUPS, 1}},	     {{GROUPS, 4}},	     {{GROUPS, 0}},
		{{BATCH_GROUPS, 2}}, {{BATCH_DIMENSION, 3}}, {{BATCH_DIMENSION, 4}},
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		expect_changed("numbers", changes[i], &unread);
}

static bool read_nothing(void *ctx, uint64_t address, void *to, size_t bytes)
{
	(void)ctx;
	(void)address;
	(void)to;
	(void)bytes;
	return false;
}

Test(xla, nothing_there)
{
	struct xla_memory memory = {.read = read_nothing};
	struct xla_cost cost;

	xla_thunk_cost(&memory, 4096, "dot", &cost);
	cr_expect_eq(cost.state, PERFX_COST_UNREAD);
	cr_expect_eq(cost.flops, 0);
}

static bool read_array(void *ctx, uint64_t address, void *to, size_t bytes)
{
	memcpy(to, (const char *)ctx + address, bytes);
	return true;
}

/* More dimensions than there is room for in the shape are elsewhere. */
Test(xla, shapes)
{
	uint64_t elsewhere[] = {2, 3, 1, 5, 1, 1, 7};
	struct xla_memory memory = {.read = read_array, .ctx = elsewhere};
	struct xla_words words = {.count = 8, .at = {11, 7 << 1 | 1, 0}};
	struct xla_shape shape;
	uint64_t bytes;

	cr_assert(xla_shape_read(&memory, &words, 0, &shape));
	cr_expect_eq(shape.rank, 7);
	cr_expect_eq(shape.numel, 2 * 3 * 5 * 7);
	cr_expect(xla_shape_bytes(&shape, &bytes) && bytes == 4 * 2 * 3 * 5 * 7);
	words.at[1] = 0; /* a scalar */
	cr_expect(xla_shape_read(&memory, &words, 0, &shape) && shape.numel == 1);
	words.at[1] = 7 << 1; /* in place there are six at most */
	cr_expect_not(xla_shape_read(&memory, &words, 0, &shape));
	words.at[1] = 1 << 1;
	words.at[2] = ~0ULL; /* negative */
	cr_expect_not(xla_shape_read(&memory, &words, 0, &shape));
	words.at[2] = 3;
	words.at[0] = 13; /* a tuple */
	cr_expect_not(xla_shape_read(&memory, &words, 0, &shape));
	words.at[0] = 11;
	words.count = 7; /* cut */
	cr_expect_not(xla_shape_read(&memory, &words, 0, &shape));
}
