/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Code objects of a running interpreter, read from outside while it runs: what is read may be gone
 * already, or another object. So all is checked, and sizes are bounded.
 */
#ifndef PERFX_CPYTHON_CODE_H
#define PERFX_CPYTHON_CODE_H

#include "cpython/cpython.h"
#include "cpython/lines.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct code {
	char *function; /* qualified name, up to 3.10 the plain one; UTF-8 */
	char *file;	/* as the interpreter names it */
	struct code_lines lines;
	bool is_generator; /* or an asynchronous one */
};

/* -ESTALE: no code object is there; -ESRCH: the process is gone. */
int code_read(pid_t pid, const struct cpython *python, uint64_t address, struct code *code);
void code_clear(struct code *code);

/* The text of a str object, UTF-8; the caller frees. NULL with errno: ESTALE: none is there. */
char *code_string(pid_t pid, const struct cpython *python, uint64_t address);

/* Tells it from a code object that has, or had, the same address, as python_code() in
 * bpf/python.bpf.h does. 0, -ESTALE, or -ESRCH and the like. */
int code_identity(pid_t pid, const struct cpython *python, uint64_t address, uint32_t *identity);

#endif
