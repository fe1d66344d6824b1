// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a call computes by its arguments: the stack machine of perfx_figure.h, tried on this process
 * itself. figures LINK [cost]: perf, multi or session; exits with 0 when all is as it should be.
 */
#include "figures.h"

#include "attach/specimens.h"
#include "base/clock.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#define SPANS_MAX 4096

struct tracer *tracer;

static const char *current_case = "";
static uint32_t probe_of[FUNCTIONS];
static struct {
	struct perfx_span span[SPANS_MAX];
	size_t count, next;
	struct ring_buffer *ring;
} spans;

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", current_case);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static void begin(const char *name)
{
	current_case = name;
	puts(name);
	fflush(stdout);
}

/* --- the traced functions --- */

static struct {
	uint64_t result;
	void (*inside)(void);
} next_call;

/* Six arguments in registers, two on the stack. */
#define FUNCTION(name)                                                                          \
	static TRACED uint64_t name(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, \
				    uint64_t f, uint64_t g, uint64_t h)                         \
	{                                                                                       \
		uint64_t result = next_call.result;                                             \
		void (*inside)(void) = next_call.inside;                                        \
                                                                                                \
		next_call.inside = NULL;                                                        \
		__asm__ __volatile__("" : : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));    \
		__asm__ __volatile__("" : : "r"(g), "r"(h));                                    \
		if (inside)                                                                     \
			inside();                                                               \
		KEEP(result);                                                                   \
		return result;                                                                  \
	}

typedef uint64_t traced(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
			uint64_t g, uint64_t h);

FUNCTION(operator_outer)
FUNCTION(operator_inner)
FUNCTION(kernel_outer)
FUNCTION(kernel_inner)
FUNCTION(mover_outer)
FUNCTION(mover_inner)
FUNCTION(noter)
FUNCTION(plain)
FUNCTION(counted)
FUNCTION(hint)

static traced *const functions[FUNCTIONS] = {
	[OPERATOR] = operator_outer,
	[OPERATOR_INSIDE] = operator_inner,
	[KERNEL] = kernel_outer,
	[KERNEL_INSIDE] = kernel_inner,
	[MOVER] = mover_outer,
	[MOVER_INSIDE] = mover_inner,
	[NOTER] = noter,
	[PLAIN] = plain,
	[COUNTED] = counted,
	[HINT] = hint,
};

void call(enum function function, const struct arguments *arguments)
{
	const uint64_t *a = arguments->registers;

	next_call.result = arguments->result;
	next_call.inside = arguments->inside;
	functions[function](a[0], a[1], a[2], a[3], a[4], a[5], arguments->stack[0],
			    arguments->stack[1]);
}

void call_plainly(enum function function)
{
	call(function, &(struct arguments){.inside = NULL});
}

/* --- tracing them --- */

static enum perfx_probe_kind kind_of(enum function function)
{
	return function == COUNTED ? PERFX_PROBE_COUNT
	       : function == HINT  ? PERFX_PROBE_HINT
				   : PERFX_PROBE_RETURN;
}

static void attach(void)
{
	struct attach_point points[FUNCTIONS];
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	for (int i = OPERATOR; i < FUNCTIONS; i++) {
		struct perfx_probe probe = {.function = (uint32_t)i,
					    .kind = kind_of((enum function)i)};
		int64_t id = tracer__add_probe(tracer, &probe);

		REQUIRE(id > 0);
		probe_of[i] = (uint32_t)id;
		points[i - 1] =
			(struct attach_point){.offset = (uint64_t)specimen_offset(functions[i]),
					      .probe = (uint32_t)id,
					      .by_return = probe.kind == PERFX_PROBE_RETURN};
	}
	REQUIRE(tracer__attach(tracer, exe, 0, points, FUNCTIONS - 1) == FUNCTIONS - 1);
	close(exe);
}

static size_t copy_part(struct perfx_figure *figure, size_t at,
			const struct perfx_instruction *part)
{
	for (; part && part->op != PERFX_OP_END; part++)
		figure->code[at++] = *part;
	return at;
}

void set_figure(enum function function, const struct perfx_instruction *entry,
		const struct perfx_instruction *at_exit, uint32_t flags)
{
	struct perfx_figure figure = {.flags = flags};

	figure.entry_count = (uint16_t)copy_part(&figure, 0, entry);
	figure.count = (uint16_t)copy_part(&figure, figure.entry_count, at_exit);
	REQUIRE(!tracer__set_figure(tracer, (uint32_t)function, &figure));
	tracer__probe(tracer, probe_of[function])->figure = (uint32_t)function;
}

static int take_span(void *ctx, void *data, size_t size)
{
	(void)ctx;
	if (spans.count == SPANS_MAX)
		fail("too many records");
	memset(&spans.span[spans.count], 0, sizeof(struct perfx_span));
	memcpy(&spans.span[spans.count++], data,
	       size < sizeof(struct perfx_span) ? size : sizeof(struct perfx_span));
	return 0;
}

struct perfx_span next_span(void)
{
	if (spans.next == spans.count) {
		spans.next = spans.count = 0;
		ring_buffer__consume(spans.ring);
	}
	if (spans.next == spans.count)
		fail("no record");
	return spans.span[spans.next++];
}

void expect_span(enum function function, enum perfx_figure_state state, enum perfx_dtype dtype,
		 uint64_t flops, uint64_t bytes)
{
	struct perfx_span span = next_span();

	if (span.hdr.fixed != sizeof(span) || span.hdr.size != sizeof(span) ||
	    span.function != function || span.figure != state || span.dtype != dtype ||
	    span.flops != flops || span.bytes != bytes || (span.flags & PERFX_SPAN_UNWOUND))
		fail("function %u: %u bytes, state %u, dtype %u, %llu flops, %llu bytes, flags %u; "
		     "not function %u, state %u, dtype %u, %llu flops, %llu bytes",
		     span.function, span.hdr.fixed, span.figure, span.dtype, span.flops, span.bytes,
		     span.flags, function, state, dtype, (unsigned long long)flops,
		     (unsigned long long)bytes);
}

void expect_plain(enum function function)
{
	struct perfx_span span = next_span();

	REQUIRE(span.function == function);
	REQUIRE(span.hdr.fixed == PERFX_SPAN_PLAIN_BYTES && span.figure == PERFX_FIGURE_NONE);
	REQUIRE(!span.flags);
}

void expect_unwound(enum function function)
{
	struct perfx_span span = next_span();

	REQUIRE(span.function == function && span.flags == PERFX_SPAN_UNWOUND);
	REQUIRE(span.figure == PERFX_FIGURE_NONE && !span.flops && !span.bytes);
}

void forget_layouts(void)
{
	tracer__remove_family(tracer, getpid());
	REQUIRE(tracer__add_family(tracer, getpid(), NULL) > 0);
}

static struct perfx_family family(void)
{
	struct perfx_family found;

	REQUIRE(!tracer__family(tracer, getpid(), &found));
	return found;
}

uint32_t open_figures(void)
{
	return family().open_figures;
}

uint32_t layouts(void)
{
	return family().tensor_layouts;
}

/* --- the machine --- */

static struct arguments given = {.registers = {11, 22, 33, 44, 55, 66}, .stack = {77, 88}};

/* A program that gives flops; ~0: it must fail. */
static void expect_flops(const struct perfx_instruction *program, uint64_t flops)
{
	set_figure(OPERATOR, program, NULL, 0);
	call(OPERATOR, &given);
	if (flops == ~0ull)
		expect_span(OPERATOR, PERFX_FIGURE_UNREAD, 0, 0, 0);
	else
		expect_span(OPERATOR, PERFX_FIGURE_COUNTED, 0, flops, 0);
}

#define FLOPS		 I(FLOPS, 0, 0)
#define BINARY(a, b, op) PROGRAM(I(CONST, 0, a), I(CONST, 0, b), I(op, 0, 0), FLOPS)
/* 2^(8 n) */
#define HUGE_OF(n) I(CONST, 0, -1), I(LOW, n, 0), I(CONST, 0, 1), I(ADD, 0, 0)

static void arithmetic(void)
{
	begin("arithmetic");
	expect_flops(BINARY(7, 5, ADD), 12);
	expect_flops(BINARY(7, 5, SUB), 2);
	expect_flops(BINARY(7, 7, SUB), 0);
	expect_flops(BINARY(7, 5, MUL), 35);
	expect_flops(BINARY(0, 5, MUL), 0);
	expect_flops(BINARY(35, 5, DIV), 7);
	expect_flops(BINARY(5, 5, EQ), 1);
	expect_flops(BINARY(5, 6, EQ), 0);
	expect_flops(BINARY(5, 5, SAME), 5);
	expect_flops(
		PROGRAM(I(CONST, 0, 1), I(CONST, 0, 5), I(CONST, 0, 6), I(SELECT, 0, 0), FLOPS), 5);
	expect_flops(
		PROGRAM(I(CONST, 0, 0), I(CONST, 0, 5), I(CONST, 0, 6), I(SELECT, 0, 0), FLOPS), 6);
	expect_flops(PROGRAM(I(CONST, 0, -1), I(LOW, 2, 0), FLOPS), 0xffff);
	expect_flops(PROGRAM(I(CONST, 0, 7), I(DIM, 4, 0), FLOPS), 7);
	expect_flops(PROGRAM(HUGE_OF(5), I(DIM, 8, 0), FLOPS), 1ull << 40);
	expect_flops(PROGRAM(HUGE_OF(4), HUGE_OF(3), I(MUL, 0, 0), FLOPS), 1ull << 56);
	/* junk above an int's 32 bits */
	expect_flops(PROGRAM(HUGE_OF(4), I(CONST, 0, 3), I(ADD, 0, 0), I(DIM, 4, 0), FLOPS), 3);
	expect_flops(PROGRAM(I(CONST, 0, 3), FLOPS, I(CONST, 0, 4), FLOPS), 7);
}

static void failures(void)
{
	begin("failures");
	expect_flops(BINARY(5, 7, SUB), ~0ull);
	expect_flops(BINARY(5, 6, SAME), ~0ull);
	expect_flops(BINARY(36, 5, DIV), ~0ull);
	expect_flops(BINARY(36, 0, DIV), ~0ull);
	expect_flops(BINARY(-1, 1, ADD), ~0ull);
	expect_flops(PROGRAM(HUGE_OF(4), HUGE_OF(4), I(MUL, 0, 0), FLOPS), ~0ull);
	expect_flops(PROGRAM(I(CONST, 0, -1), I(DIM, 4, 0), FLOPS), ~0ull);
	expect_flops(PROGRAM(I(CONST, 0, -1), I(DIM, 8, 0), FLOPS), ~0ull);
	expect_flops(PROGRAM(HUGE_OF(5), I(CONST, 0, 1), I(ADD, 0, 0), I(DIM, 8, 0), FLOPS), ~0ull);
	expect_flops(PROGRAM(I(CONST, 0, -1), FLOPS, I(CONST, 0, 1), FLOPS), ~0ull);
	expect_flops(PROGRAM(I(CONST, 0, 1), FLOPS, (struct perfx_instruction){.op = PERFX_OPS}),
		     ~0ull);
	REQUIRE(!tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS));
}

static void arguments(void)
{
	static const uint64_t word = 0x8877665544332211;

	begin("arguments");
	for (int i = 1; i <= 6; i++)
		expect_flops(PROGRAM(I(ARG, i, 0), FLOPS), 11 * (uint64_t)i);
	expect_flops(PROGRAM(I(STACK, 1, 0), FLOPS), 77);
	expect_flops(PROGRAM(I(STACK, 2, 0), FLOPS), 88);
	given.registers[0] = (uint64_t)(uintptr_t)&word;
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 8, 0), FLOPS), word);
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 4, 4), FLOPS), 0x88776655);
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 4 | PERFX_OP_SIGNED, 4), FLOPS),
		     0xffffffff88776655);
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 2, 1), FLOPS), 0x3322);
	given.registers[0] += 8;
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 1, -3), FLOPS), 0x66);
	given.registers[0] = 8;
	REQUIRE(!tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS));
	expect_flops(PROGRAM(I(ARG, 1, 0), I(LOAD, 8, 0), FLOPS), ~0ull);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == 1);
}

static void exits(void)
{
	const struct perfx_instruction *keep = PROGRAM(I(ARG, 2, 0), I(KEEP, 2, 0));

	begin("exits");
	given.result = 1000;
	set_figure(OPERATOR, keep,
		   PROGRAM(I(KEPT, 2, 0), I(ARG, 7, 0), I(MUL, 0, 0), FLOPS, I(CONST, 0, 5),
			   I(BYTES, 0, 0), I(DTYPE, PERFX_DTYPE_F32, 0)),
		   0);
	call(OPERATOR, &given);
	expect_span(OPERATOR, PERFX_FIGURE_COUNTED, PERFX_DTYPE_F32, 22000, 5);
	/* what was an argument is one no longer */
	set_figure(OPERATOR, keep, PROGRAM(I(ARG, 1, 0), FLOPS), 0);
	call(OPERATOR, &given);
	expect_span(OPERATOR, PERFX_FIGURE_UNREAD, 0, 0, 0);
	/* its end is not seen */
	set_figure(COUNTED, keep, PROGRAM(I(KEPT, 2, 0), FLOPS), 0);
	call(COUNTED, &given);
	expect_span(COUNTED, PERFX_FIGURE_UNREAD, 0, 0, 0);
	set_figure(COUNTED, PROGRAM(I(ARG, 2, 0), FLOPS), NULL, 0);
	call(COUNTED, &given);
	expect_span(COUNTED, PERFX_FIGURE_COUNTED, 0, 22, 0);
	REQUIRE(!open_figures());
}

static void dtypes(void)
{
	begin("dtypes");
	set_figure(OPERATOR, PROGRAM(I(ARG, 2, 0), I(DTYPE, 0, 0)), NULL, 0);
	given.registers[1] = 14; /* CUDA_R_16BF */
	call(OPERATOR, &given);
	expect_span(OPERATOR, PERFX_FIGURE_COUNTED, PERFX_DTYPE_BF16, 0, 0);
	given.registers[1] = 64;
	call(OPERATOR, &given);
	expect_span(OPERATOR, PERFX_FIGURE_COUNTED, PERFX_DTYPE_UNKNOWN, 0, 0);
	given.registers[1] = 22;
}

static void expect_groups(size_t bytes, uint64_t count, uint64_t flops)
{
	given.registers[4] = count;
	expect_flops(PROGRAM(I(ARG, 1, 0), I(ARG, 2, 0), I(ARG, 3, 0), I(ARG, 4, 0), I(ARG, 5, 0),
			     I(GROUPS, bytes, 0), FLOPS),
		     flops);
}

static void groups(void)
{
	int32_t m[] = {1, 2, 3}, n[] = {4, 5, 6}, k[] = {7, 8, -9}, sizes[] = {10, 11, 12};
	int64_t wide[PERFX_FIGURE_GROUPS + 1];
	const struct arguments before = given;
	uint64_t faults = tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS);

	begin("groups");
	given.registers[0] = (uintptr_t)m;
	given.registers[1] = (uintptr_t)n;
	given.registers[2] = (uintptr_t)k;
	given.registers[3] = (uintptr_t)sizes;
	expect_groups(4, 2, 280 + 880);
	expect_groups(4, 0, 0);
	expect_groups(4, 3, ~0ull);
	for (size_t i = 0; i <= PERFX_FIGURE_GROUPS; i++)
		wide[i] = 2;
	for (int i = 0; i < 4; i++)
		given.registers[i] = (uintptr_t)wide;
	expect_groups(8, PERFX_FIGURE_GROUPS, 16 * PERFX_FIGURE_GROUPS);
	expect_groups(8, PERFX_FIGURE_GROUPS + 1, ~0ull);
	wide[1] = 1ll << 17;
	expect_groups(8, 2, ~0ull); /* 2^68 */
	wide[1] = (1ll << 40) + 1;
	expect_groups(8, 2, ~0ull);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults);
	given.registers[2] = 8;
	expect_groups(8, 1, ~0ull);
	REQUIRE(tracer__counter(tracer, PERFX_COUNTER_READ_FAULTS) == faults + 1);
	given = before;
}

static void notes(void)
{
	uint64_t handle = 0;
	const struct arguments creates = {.registers = {(uintptr_t)&handle, 30, 40}};
	const struct arguments uses = {.registers = {0x1234}}, other = {.registers = {0x4321}};

	begin("notes");
	/* the handle comes back through a pointer: it is known at the exit */
	set_figure(NOTER,
		   PROGRAM(I(ARG, 1, 0), I(KEEP, 0, 0), I(ARG, 2, 0), I(KEEP, 1, 0), I(ARG, 3, 0),
			   I(KEEP, 2, 0)),
		   PROGRAM(I(KEPT, 0, 0), I(LOAD, 8, 0), I(KEPT, 1, 0), I(KEPT, 2, 0),
			   I(NOTE, 0, 0)),
		   PERFX_FIGURE_F_NOTES);
	set_figure(OPERATOR,
		   PROGRAM(I(ARG, 1, 0), I(NOTED0, 0, 0), FLOPS, I(ARG, 1, 0), I(NOTED1, 0, 0),
			   I(BYTES, 0, 0)),
		   NULL, 0);
	call(OPERATOR, &uses);
	expect_span(OPERATOR, PERFX_FIGURE_UNREAD, 0, 0, 0);
	handle = 0x1234;
	call(NOTER, &creates);
	expect_plain(NOTER);
	call(OPERATOR, &uses);
	expect_span(OPERATOR, PERFX_FIGURE_COUNTED, 0, 30, 40);
	call(OPERATOR, &other);
	expect_span(OPERATOR, PERFX_FIGURE_UNREAD, 0, 0, 0);
	REQUIRE(!open_figures());
}

/* --- main --- */

/* Calls whose records find no room: the books have their figures. */
static void overflow(void)
{
	const struct perfx_context_node *nodes;
	uint64_t calls = 4000, flops = 0, counted = 0, unread = 0;
	uint32_t count;

	begin("overflow");
	set_figure(OPERATOR, PROGRAM(I(ARG, 1, 0), I(CONST, 0, 8), I(SUB, 0, 0), FLOPS), NULL, 0);
	for (uint64_t i = 0; i < calls; i++)
		call(OPERATOR, &(struct arguments){.registers = {i % 10}});
	nodes = tracer__contexts(tracer, &count);
	for (uint32_t i = 1; i < count; i++) {
		flops += nodes[i].flops;
		counted += nodes[i].counted_count;
		unread += nodes[i].unread_count;
	}
	REQUIRE(counted + unread == tracer__counter(tracer, PERFX_COUNTER_RING_DROPS));
	REQUIRE(counted && unread);
	spans.count = 0;
	ring_buffer__consume(spans.ring);
	for (size_t i = 0; i < spans.count; i++) {
		flops += spans.span[i].flops;
		counted += spans.span[i].figure == PERFX_FIGURE_COUNTED;
		unread += spans.span[i].figure == PERFX_FIGURE_UNREAD;
	}
	REQUIRE(counted == calls / 5 && unread == calls / 5 * 4 && flops == calls / 10);
}

/* ns a call, the least of some. */
static double time_calls(enum function function, const struct arguments *of)
{
	double least = 1e9;

	for (int round = 0; round < 50; round++) {
		uint64_t start = clock_monotonic_ns();

		for (int i = 0; i < 500; i++)
			call(function, of);
		start = clock_monotonic_ns() - start;
		if ((double)start / 500 < least)
			least = (double)start / 500;
		spans.count = 0;
		ring_buffer__consume(spans.ring);
	}
	return least;
}

static void print_cost(void)
{
	struct fake_tensor a, b;
	const struct arguments mm = {.registers = {0, (uintptr_t)fake(&a, 56, 6, SIZES(8, 16)),
						   (uintptr_t)fake(&b, 56, 6, SIZES(16, 32))}};
	double plain_ns = time_calls(PLAIN, &mm), none_ns = time_calls(OPERATOR_INSIDE, &mm);

	forget_layouts();
	set_figure(OPERATOR_INSIDE,
		   PROGRAM(I(ARG, 2, 0), I(TENSOR, 0, 0), I(ARG, 3, 0), I(TENSOR, 1, 0),
			   I(SIZE, 0, 1), I(SIZE, 1, 0), I(SAME, 0, 0), I(SIZE, 0, 0), I(MUL, 0, 0),
			   I(SIZE, 1, 1), I(MUL, 0, 0), I(CONST, 0, 2), I(MUL, 0, 0),
			   I(COMPLEX, 0, 0), I(MUL, 0, 0), FLOPS, I(NUMEL, 0, 0), I(NUMEL, 1, 0),
			   I(ADD, 0, 0), I(SIZE, 0, 0), I(SIZE, 1, 1), I(MUL, 0, 0), I(ADD, 0, 0),
			   I(ELEMENT, 0, 0), I(MUL, 0, 0), I(BYTES, 0, 0)),
		   NULL, 0);
	printf("no figure %.0f ns (again %.0f), mm %.0f ns", plain_ns, none_ns,
	       time_calls(OPERATOR_INSIDE, &mm));
	set_figure(KERNEL,
		   PROGRAM(I(ARG, 4, 0), I(DIM, 4, 0), I(ARG, 5, 0), I(DIM, 4, 0), I(MUL, 0, 0),
			   I(ARG, 6, 0), I(DIM, 4, 0), I(MUL, 0, 0), I(CONST, 0, 2), I(MUL, 0, 0),
			   FLOPS),
		   NULL, PERFX_FIGURE_F_KERNEL);
	printf(", dgemm %.0f ns\n", time_calls(KERNEL, &mm));
}

static enum perfx_link link_of(const char *name)
{
	return !strcmp(name, "session") ? PERFX_LINK_SESSION
	       : !strcmp(name, "multi") ? PERFX_LINK_MULTI
					: PERFX_LINK_PERF;
}

int main(int argc, char **argv)
{
	struct tracer_options options = {.link = link_of(argc > 1 ? argv[1] : "perf"),
					 .follow_children = true,
					 .ring_bytes = 64 << 10,
					 .probes_max = FUNCTIONS};
	struct features features;

	features_try(&features);
	tracer = tracer__new(&options, &features);
	if (!tracer) {
		fprintf(stderr, "%s\n", strerror(errno));
		return errno == ENOTSUP ? 77 : 1;
	}
	spans.ring = ring_buffer__new(tracer__spans_fd(tracer), take_span, NULL, NULL);
	REQUIRE(spans.ring && tracer__add_family(tracer, getpid(), NULL) > 0);
	attach();
	tracer__start(tracer);
	if (argc > 2) {
		print_cost();
	} else {
		arithmetic();
		failures();
		arguments();
		exits();
		dtypes();
		groups();
		notes();
		begin("tensors");
		tensor_cases();
		begin("guards");
		guard_cases();
		overflow();
	}
	tracer__stop(tracer);
	ring_buffer__free(spans.ring);
	tracer__free(tracer);
	puts("all right");
	return 0;
}
