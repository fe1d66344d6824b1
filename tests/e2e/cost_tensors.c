// SPDX-License-Identifier: BSD-2-Clause
/* Shapes, read from imitations of c10::TensorImpl in three of its layouts. */
#include "cost.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* Offsets of the fields after the number of dimensions, in words. */
#define AT_SIZES   1
#define AT_STRIDES 6
#define AT_NUMEL   12
#define AT_DTYPE   13
#define AT_KEYS	   14
/* and from the beginning */
#define AT_STORAGE 2

static void store(struct fake_tensor *tensor, const void *elements)
{
	tensor->words[AT_STORAGE] = (uintptr_t)tensor->storage;
	tensor->storage[AT_STORAGE] = (uintptr_t)elements;
}

const void *fake(struct fake_tensor *tensor, size_t first, uint16_t scalar, size_t ndim,
		 const int64_t *sizes)
{
	uint64_t *words = tensor->words, *fields = words + first / 8, numel = 1;

	/* like a heap's contents: mostly pointers */
	for (size_t i = 0; i < 40; i++)
		words[i] = 0x7f1234560000 + 64 * i;
	for (size_t i = 0; i < ndim; i++) {
		numel *= (uint64_t)sizes[i];
		tensor->far_sizes[i] = sizes[i];
		if (i < 5) {
			fields[AT_SIZES + i] = (uint64_t)sizes[i];
			fields[AT_STRIDES + i] = 1;
		}
	}
	fields[0] = ndim;
	if (ndim > 5)
		fields[AT_SIZES] = (uintptr_t)tensor->far_sizes;
	fields[11] = 0; /* storage_offset */
	fields[AT_NUMEL] = numel;
	fields[AT_DTYPE] = scalar | 0xff0001ull << 16; /* and the device */
	fields[AT_KEYS] = 1;			       /* of the CPU */
	store(tensor, tensor);
	tensor->impl = words;
	return tensor;
}

static void call_with(const void *a, const void *b)
{
	call(OPERATOR, &(struct arguments){.registers = {(uintptr_t)a, (uintptr_t)b}});
}

static void unread(const void *a, const void *b)
{
	call_with(a, b);
	expect_span(OPERATOR, PERFX_COST_UNREAD, 0, 0, 0);
}

static void read_as(const void *a, const void *b, enum perfx_dtype dtype, uint64_t flops,
		    uint64_t bytes)
{
	call_with(a, b);
	expect_span(OPERATOR, PERFX_COST_COUNTED, dtype, flops, bytes);
}

#define MULTIPLY I(MUL, 0, 0)
#define READ_A_B I(ARG, 1, 0), I(TENSOR, 0, 0), I(ARG, 2, 0), I(TENSOR, 1, 0)
/* 2 m n k, 8 m n k of complex numbers; the operands' bytes */
static const struct perfx_instruction mm[] = {READ_A_B,
					      I(SIZE, 0, -1),
					      I(SIZE, 1, 0),
					      I(SAME, 0, 0),
					      I(SIZE, 0, 0),
					      MULTIPLY,
					      I(SIZE, 1, 1),
					      MULTIPLY,
					      I(CONST, 0, 2),
					      MULTIPLY,
					      I(COMPLEX, 0, 0),
					      MULTIPLY,
					      FLOPS,
					      I(NUMEL, 0, 0),
					      I(ELEMENT, 0, 0),
					      MULTIPLY,
					      I(BYTES, 0, 0),
					      I(NUMEL, 1, 0),
					      I(ELEMENT, 1, 0),
					      MULTIPLY,
					      I(BYTES, 0, 0),
					      {0}};

static void known_layouts(void)
{
	static const size_t first[] = {72, 64, 56, 40, 96};
	struct fake_tensor a, b, c;

	set_cost(OPERATOR, mm, NULL, 0);
	for (size_t i = 0; i < 5; i++) {
		forget_layouts();
		REQUIRE(layouts() == PERFX_TENSOR_LAYOUTS_ALL);
		fake(&a, first[i], 6, SIZES(3, 4));
		fake(&b, first[i], 6, SIZES(4, 5));
		read_as(&a, &b, PERFX_DTYPE_F32, 120, 48 + 80);
		REQUIRE(layouts() == 1u << (first[i] - PERFX_TENSOR_FIRST) / 8);
		read_as(&a, &b, PERFX_DTYPE_F32, 120, 48 + 80);
		/* once one layout is known, others are rejected */
		fake(&c, first[i] ^ 8, 6, SIZES(3, 4));
		unread(&c, &b);
		REQUIRE(layouts() == 1u << (first[i] - PERFX_TENSOR_FIRST) / 8);
	}
}

static void element_types(void)
{
	static const struct {
		uint16_t scalar;
		enum perfx_dtype dtype;
		uint64_t flops, bytes;
	} types[] = {
		{7, PERFX_DTYPE_F64, 120, 8},	 {5, PERFX_DTYPE_F16, 120, 2},
		{15, PERFX_DTYPE_BF16, 120, 2},	 {9, PERFX_DTYPE_C64, 480, 8},
		{10, PERFX_DTYPE_C128, 480, 16}, {23, PERFX_DTYPE_F8, 120, 1},
		{26, PERFX_DTYPE_F8, 120, 1},	 {4, PERFX_DTYPE_INTEGER, 120, 8},
	};
	struct fake_tensor a, b;

	forget_layouts();
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		fake(&a, 56, types[i].scalar, SIZES(3, 4));
		fake(&b, 56, types[i].scalar, SIZES(4, 5));
		read_as(&a, &b, types[i].dtype, types[i].flops, 32 * types[i].bytes);
	}
	/* an unknown type has no bytes; a type of no release makes no tensor */
	fake(&b, 56, 40, SIZES(4, 5));
	unread(&a, &b);
	fake(&b, 56, 49, SIZES(4, 5));
	unread(&a, &b);
}

static void strange_shapes(void)
{
	struct fake_tensor a, b;

	forget_layouts();
	read_as(fake(&a, 56, 6, SIZES(3, 0)), fake(&b, 56, 6, SIZES(0, 5)), PERFX_DTYPE_F32, 0, 0);
	read_as(fake(&a, 56, 6, SIZES(1, 1)), fake(&b, 56, 6, SIZES(1, 1)), PERFX_DTYPE_F32, 2, 8);
	/* sizes that do not match, of one dimension too few */
	unread(&a, fake(&b, 56, 6, SIZES(2, 1)));
	unread(&a, fake(&b, 56, 6, SIZES(1)));
	/* number of elements that is not the sizes' product */
	fake(&b, 56, 6, SIZES(1, 1));
	b.words[7 + AT_NUMEL] = 2;
	unread(&a, &b);
	/* too many dimensions, a negative size */
	fake(&b, 56, 6, SIZES(1, 1));
	b.words[7] = 9;
	unread(&a, &b);
	fake(&b, 56, 6, SIZES(-1, -1));
	unread(&a, &b);
	/* the product of all sizes; a scalar has one element and does not decide the type */
	set_cost(OPERATOR, PROGRAM(READ_A_B, I(NUMEL, 0, 0), FLOPS, I(NDIM, 0, 0), I(BYTES, 0, 0)),
		 NULL, 0);
	fake(&b, 56, 7, 0, NULL);
	fake(&a, 56, 6, SIZES(2, 3, 4, 5, 6, 7, 1, 1));
	read_as(&a, &b, PERFX_DTYPE_F32, 5040, 8);
	read_as(&b, &a, PERFX_DTYPE_F32, 1, 0);
	read_as(&b, &b, PERFX_DTYPE_UNKNOWN, 1, 0);
	fake(&a, 56, 6, SIZES(2, 3, 4, 5, 6));
	read_as(&a, &b, PERFX_DTYPE_F32, 720, 5);
	fake(&a, 56, 6, SIZES(2, 3, 4, 5, 6, 7));
	a.words[7 + AT_SIZES] = 8;
	unread(&a, &b);
	/* indices from the end, and out of range */
	fake(&a, 56, 6, SIZES(2, 3, 4));
	set_cost(OPERATOR, PROGRAM(READ_A_B, I(SIZE, 0, -3), FLOPS), NULL, 0);
	read_as(&a, &b, PERFX_DTYPE_F32, 2, 0);
	set_cost(OPERATOR, PROGRAM(READ_A_B, I(SIZE, 0, -4), FLOPS), NULL, 0);
	unread(&a, &b);
	set_cost(OPERATOR, PROGRAM(READ_A_B, I(SIZE, 0, 3), FLOPS), NULL, 0);
	unread(&a, &b);
}

static void bad_pointers(void)
{
	uint64_t faults = tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS);
	struct fake_tensor a;
	const void *nothing = NULL;
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fake(&a, 56, 6, SIZES(3, 3));
	set_cost(OPERATOR, mm, NULL, 0);
	forget_layouts();
	unread(&a, page);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults + 1);
	unread(NULL, &a);
	unread((void *)0xffff888000000000, &a);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults + 3);
	unread(&page, &a);
	unread(&nothing, &a);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults + 5);
	/* an optional tensor: absent, undefined (with a type that has another meaning later),
	 * present */
	set_cost(OPERATOR,
		 PROGRAM(I(ARG, 1, 0), I(TENSOR, 0, 0), I(ARG, 2, 0), I(TENSOR_OR_NONE, 1, 0),
			 I(NUMEL, 1, 0), FLOPS),
		 NULL, 0);
	read_as(&a, NULL, PERFX_DTYPE_F32, 0, 0);
	read_as(&a, &nothing, PERFX_DTYPE_F32, 0, 0);
	read_as(&a, fake(&(struct fake_tensor){NULL}, 56, 23, SIZES(0)), PERFX_DTYPE_F32, 0, 0);
	read_as(&a, fake(&(struct fake_tensor){NULL}, 56, 7, SIZES(6)), PERFX_DTYPE_F64, 6, 0);
	unread(&a, page);
	munmap(page, 4096);
}

/* As in older releases, with two reference counts in each. */
static void store_after_two_counts(struct fake_tensor *tensor, const void *elements)
{
	tensor->words[AT_STORAGE] = tensor->storage[AT_STORAGE] = 1;
	tensor->words[AT_STORAGE + 1] = (uintptr_t)tensor->storage;
	tensor->storage[AT_STORAGE + 1] = (uintptr_t)elements;
}

/* A shape without elements means nothing; oneDNN's elements are elsewhere. */
static void elements(void)
{
	uint64_t faults = tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS);
	struct fake_tensor a, b;

	forget_layouts();
	set_cost(OPERATOR, mm, NULL, 0);
	fake(&a, 56, 6, SIZES(3, 4));
	fake(&b, 56, 6, SIZES(4, 5));
	read_as(&a, &b, PERFX_DTYPE_F32, 120, 48 + 80);
	store_after_two_counts(&a, &a);
	store_after_two_counts(&b, &b);
	read_as(&a, &b, PERFX_DTYPE_F32, 120, 48 + 80);
	store_after_two_counts(&b, NULL);
	unread(&a, &b);
	b.words[AT_STORAGE + 1] = 0;
	unread(&a, &b);
	store(&b, NULL);
	unread(&a, &b);
	b.words[AT_STORAGE] = 0;
	unread(&a, &b);
	for (int bit = 20; bit <= 23; bit++) {
		b.words[7 + AT_KEYS] = 1ull << bit;
		if (bit == 21 || bit == 22)
			read_as(&a, &b, PERFX_DTYPE_F32, 120, 48 + 80);
		else
			unread(&a, &b);
		b.words[7 + AT_KEYS] |= 1; /* sparse, of the CPU */
		unread(&a, &b);
	}
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults);
	b.words[AT_STORAGE] = 0x7f1234560000;
	unread(&a, &b);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults + 1);
}

static void call_of_flags(uint32_t flags)
{
	struct perfx_span span = next_span();

	REQUIRE(span.cost_state == PERFX_COST_COUNTED && span.flops == 120 && span.flags == flags);
}

/* A device works while the program continues; so does a function that is marked SUBMITS. */
static void submitted(void)
{
	struct fake_tensor a, b;

	fake(&a, 56, 6, SIZES(3, 4));
	fake(&b, 56, 6, SIZES(4, 5));
	call_with(&a, &b);
	call_of_flags(0);
	for (int bit = 1; bit <= 12; bit++) {
		a.words[7 + AT_KEYS] = 1ull << bit | 1ull << 16;
		call_with(&a, &b);
		call_of_flags(PERFX_SPAN_SUBMITTED);
	}
	a.words[7 + AT_KEYS] = 1 | 1ull << 16;
	call_with(&a, &b);
	call_of_flags(0);
	set_cost(OPERATOR, mm, NULL, PERFX_COST_F_SUBMITS);
	call_with(&a, &b);
	call_of_flags(PERFX_SPAN_SUBMITTED);
	count_only(OPERATOR);
	call_with(&a, &b);
	call_of_flags(PERFX_SPAN_UNTIMED | PERFX_SPAN_SUBMITTED);
	time_again(OPERATOR);
}

/* A tensor that fits two layouts is not guessed, and excludes neither layout. */
static void ambiguity(void)
{
	struct fake_tensor both, one;

	forget_layouts();
	set_cost(OPERATOR, PROGRAM(I(ARG, 1, 0), I(TENSOR, 0, 0), I(NUMEL, 0, 0), FLOPS), NULL, 0);
	/* three dimensions 2 3 4 at 56; at 64 it could be two, 3 and 4 */
	fake(&both, 56, 6, SIZES(2, 3, 4));
	both.words[8 + AT_NUMEL] = 12;
	both.words[8 + AT_DTYPE] = 6;
	unread(&both, NULL);
	REQUIRE(layouts() == (1u << 2 | 1u << 3));
	fake(&one, 56, 6, SIZES(2, 3, 4));
	read_as(&one, NULL, PERFX_DTYPE_F32, 24, 0);
	REQUIRE(layouts() == 1u << 2);
	/* no tensor: no layout is excluded */
	memset(both.words, 0x55, sizeof(both.words));
	unread(&both, NULL);
	REQUIRE(layouts() == 1u << 2);
}

/* A child inherits its parent's layout. */
static void inheritance(void)
{
	struct fake_tensor a;
	struct perfx_traced_process child;
	int go[2], status;
	pid_t pid;
	char c;

	forget_layouts();
	fake(&a, 72, 6, SIZES(2, 3));
	read_as(&a, NULL, PERFX_DTYPE_F32, 6, 0);
	REQUIRE(!pipe(go));
	pid = fork();
	if (!pid) {
		close(go[1]);
		_exit(read(go[0], &c, 1) != 0);
	}
	REQUIRE(pid > 0 && !tracer__traced_process(tracer, pid, &child));
	REQUIRE(child.tensor_layouts == 1u << 4 && !child.open_operators);
	close(go[0]);
	close(go[1]);
	REQUIRE(waitpid(pid, &status, 0) == pid && !status);
}

void tensor_cases(void)
{
	begin("known layouts");
	known_layouts();
	begin("element types");
	element_types();
	begin("strange shapes");
	strange_shapes();
	begin("bad pointers");
	bad_pointers();
	begin("elements");
	elements();
	begin("submitted");
	submitted();
	begin("ambiguity");
	ambiguity();
	begin("inheritance");
	inheritance();
}
