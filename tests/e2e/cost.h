/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cost programs written by hand, run by the real BPF programs on calls that this process
 * makes itself: what cost.c's cases are made of.
 */
#ifndef TESTS_E2E_COST_H
#define TESTS_E2E_COST_H

#include "attach/tracer.h"
#include "known.h"
#include "perfx_config.h"
#include "perfx_record.h"

#include <stdint.h>

/* One instruction: I(CONST, 0, 7) */
#define I(op_, n_, imm_)                                                \
	(struct perfx_instruction)                                      \
	{                                                               \
		.op = PERFX_OP_##op_, .n = (uint8_t)(n_), .imm = (imm_) \
	}
#define PROGRAM(...) ((const struct perfx_instruction[]){__VA_ARGS__, {0}})

/* The functions that are traced, and how. */
enum function {
	OPERATOR = 1,
	OPERATOR_INSIDE,
	KERNEL,
	KERNEL_INSIDE,
	TRANSFER,
	TRANSFER_INSIDE,
	NOTER,
	PLAIN,	 /* no known cost */
	COUNTED, /* its end is not seen */
	HINT,
	FUNCTIONS,
	LEAF = FUNCTIONS /* timed at its exit site, with a hint in its midst */
};

struct arguments {
	uint64_t registers[6], stack[2];
	uint64_t result;
	void (*inside)(void); /* called in the midst of it */
};

/* Calls a traced function. */
void call(enum function function, const struct arguments *arguments);
/* The same with nothing of interest. */
void call_plainly(enum function function);

/* Gives a function the cost whose entry and exit parts (NULL: none) these are. */
void set_cost(enum function function, const struct perfx_instruction *entry,
	      const struct perfx_instruction *at_exit, uint32_t flags);

/* LEAF: has nothing on its stack but its return address. Returns false where there is none. */
bool call_leaf(uint64_t hint);

/* From now on a function's calls are counted, or timed. */
void count_only(enum function function);
void time_again(enum function function);

/* The next record; fails the test when there is none. */
struct perfx_span next_span(void);
/* That it is this function's, of this size and outcome. */
void expect_span(enum function function, enum perfx_cost_state state, enum perfx_dtype dtype,
		 uint64_t flops, uint64_t bytes);
void expect_plain(enum function function);
/* The next record must be of an unwound call. */
void expect_unwound(enum function function);

/* Names the case, for what fails in it. */
void begin(const char *name);
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define REQUIRE(holds)                                    \
	do {                                              \
		if (!(holds))                             \
			fail("%d: %s", __LINE__, #holds); \
	} while (0)

extern struct tracer *tracer;
/* As a process that was just found: all layouts of tensors are possible. */
void forget_layouts(void);
uint32_t open_operators(void);
uint32_t layouts(void);

/* Something that looks like a TensorImpl whose number of dimensions lies at `first`. */
struct fake_tensor {
	const uint64_t *impl; /* all that an at::Tensor is */
	uint64_t words[40];
	uint64_t storage[4]; /* class, count of references, address of the elements */
	int64_t far_sizes[16];
};
const void *fake(struct fake_tensor *tensor, size_t first, uint16_t scalar, size_t ndim,
		 const int64_t *sizes);
#define FLOPS I(FLOPS, 0, 0) /* what ends most programs */
#define SIZES(...)                                                                  \
	sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) \
	{                                                                           \
		__VA_ARGS__                                                         \
	}

/* cost_vm.c */
void vm_cases(void);
/* cost_guards.c */
void guard_cases(void);
/* cost_tensors.c */
void tensor_cases(void);

#endif
