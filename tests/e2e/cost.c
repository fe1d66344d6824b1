// SPDX-License-Identifier: BSD-2-Clause
/*
 * FLOPs of calls by their arguments: the cost VM of perfx_cost.h, tested on this process itself.
 * cost LINK [cost]: perf, multi or session; exits with 0 if all results are right.
 */
#include "cost.h"

#include "attach/hit_cost.h"
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

void begin(const char *name)
{
	current_case = name;
	puts(name);
	fflush(stdout);
}

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
FUNCTION(transfer_outer)
FUNCTION(transfer_inner)
FUNCTION(noter)
FUNCTION(plain)
FUNCTION(counted)
FUNCTION(hint)

static traced *const functions[FUNCTIONS] = {
	[OPERATOR] = operator_outer,
	[OPERATOR_INSIDE] = operator_inner,
	[KERNEL] = kernel_outer,
	[KERNEL_INSIDE] = kernel_inner,
	[TRANSFER] = transfer_outer,
	[TRANSFER_INSIDE] = transfer_inner,
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

static enum perfx_probe_kind kind_of(enum function function)
{
	return function == COUNTED ? PERFX_PROBE_COUNT
	       : function == HINT  ? PERFX_PROBE_HINT
				   : PERFX_PROBE_RETURN;
}

static void attach(void)
{
	struct attach_point points[FUNCTIONS];
	struct attach_target all_processes = {.file_fd =
						      open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};

	for (int i = OPERATOR; i < FUNCTIONS; i++) {
		struct perfx_probe probe = {.function = (uint32_t)i,
					    .kind = kind_of((enum function)i)};
		int64_t id = tracer__add_probe(tracer, &probe);

		REQUIRE(id > 0);
		probe_of[i] = (uint32_t)id;
		points[i - 1] =
			(struct attach_point){.offset = (uint64_t)calib_target_offset(functions[i]),
					      .probe = (uint32_t)id,
					      .by_return = probe.kind == PERFX_PROBE_RETURN};
	}
	REQUIRE(links__attach(tracer__links(tracer), &all_processes, points, FUNCTIONS - 1) ==
		FUNCTIONS - 1);
	close(all_processes.file_fd);
}

#if defined(__x86_64__)
/* A calibration target: its entry, the `jmp` before its end, which is the hint here, and the `ret`.
 */
bool call_leaf(uint64_t hint)
{
	const struct calib_target *leaf = calib_target_of(PERFX_SITE_NOP, false);
	const unsigned char *sites[] = {leaf->exit + 2, leaf->exit, leaf->entry};
	static const enum perfx_probe_kind kinds[] = {PERFX_PROBE_EXIT, PERFX_PROBE_HINT,
						      PERFX_PROBE_ENTRY};
	struct attach_point points[3];
	struct attach_target all_processes = {.file_fd =
						      open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};

	for (int i = 0; i < 3; i++) {
		struct perfx_probe probe = {.function = LEAF, .kind = kinds[i], .cfa_offset = 8};

		if (probe.kind == PERFX_PROBE_HINT)
			probe.cost_program = HINT;
		points[i] =
			(struct attach_point){.offset = (uint64_t)calib_target_offset(sites[i]),
					      .probe = (uint32_t)tracer__add_probe(tracer, &probe)};
	}
	REQUIRE(*sites[0] == 0xc3);
	REQUIRE(links__attach(tracer__links(tracer), &all_processes, points, 3) == 3);
	close(all_processes.file_fd);
	((void (*)(uint64_t))leaf->call)(hint);
	return true;
}
#else
bool call_leaf(uint64_t hint)
{
	(void)hint;
	return false;
}
#endif

static size_t copy_part(struct perfx_cost_program *cost, size_t at,
			const struct perfx_instruction *part)
{
	for (; part && part->op != PERFX_OP_END; part++)
		cost->code[at++] = *part;
	return at;
}

void set_cost(enum function function, const struct perfx_instruction *entry,
	      const struct perfx_instruction *at_exit, uint32_t flags)
{
	struct perfx_cost_program cost = {.flags = flags};

	cost.entry_count = (uint16_t)copy_part(&cost, 0, entry);
	cost.count = (uint16_t)copy_part(&cost, cost.entry_count, at_exit);
	REQUIRE(!tracer__set_cost_program(tracer, (uint32_t)function, &cost));
	tracer__probe(tracer, probe_of[function])->cost_program = (uint32_t)function;
}

void count_only(enum function function)
{
	tracer__probe(tracer, probe_of[function])->kind = PERFX_PROBE_COUNT;
}

void time_again(enum function function)
{
	tracer__probe(tracer, probe_of[function])->kind = PERFX_PROBE_RETURN;
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

void expect_span(enum function function, enum perfx_cost_state state, enum perfx_dtype dtype,
		 uint64_t flops, uint64_t bytes)
{
	struct perfx_span span = next_span();

	if (span.hdr.fixed < PERFX_SPAN_COST_BYTES || span.hdr.size != span.hdr.fixed ||
	    span.function != function || span.cost_state != state || span.dtype != dtype ||
	    span.flops != flops || span.bytes != bytes || (span.flags & PERFX_SPAN_UNWOUND))
		fail("function %u: %u bytes, state %u, dtype %u, %llu flops, %llu bytes, flags %u; "
		     "not function %u, state %u, dtype %u, %llu flops, %llu bytes",
		     span.function, span.hdr.fixed, span.cost_state, span.dtype, span.flops,
		     span.bytes, span.flags, function, state, dtype, (unsigned long long)flops,
		     (unsigned long long)bytes);
}

void expect_plain(enum function function)
{
	struct perfx_span span = next_span();

	REQUIRE(span.function == function);
	REQUIRE(span.hdr.fixed == PERFX_SPAN_PLAIN_BYTES && span.cost_state == PERFX_COST_NONE);
	REQUIRE(!span.flags);
}

void expect_unwound(enum function function)
{
	struct perfx_span span = next_span();

	REQUIRE(span.function == function && span.flags == PERFX_SPAN_UNWOUND);
	REQUIRE(span.cost_state == PERFX_COST_NONE && !span.flops && !span.bytes);
}

void forget_layouts(void)
{
	tracer__remove_process(tracer, getpid());
	REQUIRE(tracer__add_process(tracer, getpid(), NULL) > 0);
}

static struct perfx_traced_process traced_process(void)
{
	struct perfx_traced_process found;

	REQUIRE(!tracer__traced_process(tracer, getpid(), &found));
	return found;
}

uint32_t open_operators(void)
{
	return traced_process().open_operators;
}

uint32_t layouts(void)
{
	return traced_process().tensor_layouts;
}

/* Calls whose records find no room: their costs are in the overflow sums. */
static void overflow(void)
{
	const struct perfx_context_node *nodes;
	uint64_t calls = 4000, flops = 0, counted = 0, unread = 0;
	uint32_t count;

	begin("overflow");
	set_cost(OPERATOR, PROGRAM(I(ARG, 1, 0), I(CONST, 0, 8), I(SUB, 0, 0), FLOPS), NULL, 0);
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
		counted += spans.span[i].cost_state == PERFX_COST_COUNTED;
		unread += spans.span[i].cost_state == PERFX_COST_UNREAD;
	}
	REQUIRE(counted == calls / 5 && unread == calls / 5 * 4 && flops == calls / 10);
}

/* ns per call, the minimum of several. */
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
	set_cost(OPERATOR_INSIDE,
		 PROGRAM(I(ARG, 2, 0), I(TENSOR, 0, 0), I(ARG, 3, 0), I(TENSOR, 1, 0),
			 I(SIZE, 0, 1), I(SIZE, 1, 0), I(SAME, 0, 0), I(SIZE, 0, 0), I(MUL, 0, 0),
			 I(SIZE, 1, 1), I(MUL, 0, 0), I(CONST, 0, 2), I(MUL, 0, 0),
			 I(COMPLEX, 0, 0), I(MUL, 0, 0), FLOPS, I(NUMEL, 0, 0), I(NUMEL, 1, 0),
			 I(ADD, 0, 0), I(SIZE, 0, 0), I(SIZE, 1, 1), I(MUL, 0, 0), I(ADD, 0, 0),
			 I(ELEMENT, 0, 0), I(MUL, 0, 0), I(BYTES, 0, 0)),
		 NULL, 0);
	printf("plain %.0f ns (again %.0f), mm %.0f ns", plain_ns, none_ns,
	       time_calls(OPERATOR_INSIDE, &mm));
	set_cost(KERNEL,
		 PROGRAM(I(ARG, 4, 0), I(DIM, 4, 0), I(ARG, 5, 0), I(DIM, 4, 0), I(MUL, 0, 0),
			 I(ARG, 6, 0), I(DIM, 4, 0), I(MUL, 0, 0), I(CONST, 0, 2), I(MUL, 0, 0),
			 FLOPS),
		 NULL, PERFX_COST_F_KERNEL);
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
					 .rings_count = 1, /* the threads' work is in order */
					 .probes_max = FUNCTIONS + 3};
	struct features features;

	features_try(&features);
	features_end(&features);
	tracer = tracer__new(&options, &features);
	if (!tracer) {
		fprintf(stderr, "%s\n", strerror(errno));
		return errno == ENOTSUP ? 77 : 1;
	}
	spans.ring = tracer_rings_reader(tracer__spans(tracer), take_span, NULL);
	REQUIRE(spans.ring && tracer__add_process(tracer, getpid(), NULL) > 0);
	attach();
	tracer__start(tracer);
	if (argc > 2) {
		print_cost();
	} else {
		vm_cases();
		tensor_cases();
		guard_cases();
		overflow();
	}
	tracer__stop(tracer, 0);
	ring_buffer__free(spans.ring);
	tracer__free(tracer);
	puts("all right");
	return 0;
}
