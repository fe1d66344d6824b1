/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unwind tables for the BPF programs (bpf/unwind.bpf.h): where traced processes map which files,
 * and the tables of these files, for a page of 64 KiB of text at a time. Pages are loaded if a
 * process has them in memory when its mapping is first seen, or when a walk asks for them.
 *
 * Everything is bounded, because files may be hostile: 32 MiB of rows, 16,384 rules, 4 GiB of text,
 * 4,096 mappings of a process. When the rows are full, those of files go that no process maps any
 * more. What finds no room ends a stack; its record has the reason.
 */
#ifndef PERFX_ATTACH_UNWIND_TABLES_H
#define PERFX_ATTACH_UNWIND_TABLES_H

#include "attach/tracer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct unwind_tables;

/* Stacks are unwound from now on in processes that unwind_tables__map has seen. NULL with errno. */
struct unwind_tables *unwind_tables__new(struct tracer *tracer);
void unwind_tables__free(struct unwind_tables *tables);

/* The next five accept NULL tables: stacks are then walked by frame pointers. */
/* Reads the mappings of a process; cheap if they have not changed. The programs use them after the
 * next unwind_tables__publish(). 0 or -errno. */
int unwind_tables__map(struct unwind_tables *tables, pid_t pid);
/* Makes new mappings known to the programs, which takes a grace period of the kernel, some 20 ms: a
 * thread waits for it, because files that arrive meanwhile are to be attached. With wait it is over
 * on return. */
void unwind_tables__publish(struct unwind_tables *tables, bool wait);
/* Does that thread still wait? Then most other calls wait for it. */
bool unwind_tables__is_publishing(struct unwind_tables *tables);
/* A child has its parent's mappings; the programs know that already. */
void unwind_tables__fork(struct unwind_tables *tables, const struct perfx_fork *fork);
/* It has ended, or is another program. */
void unwind_tables__forget(struct unwind_tables *tables, pid_t pid);

/* Readable when a walk has missed a page. */
int unwind_tables__fd(const struct unwind_tables *tables);
/* Loads what was asked for. */
void unwind_tables__serve(struct unwind_tables *tables);

struct unwind_usage {
	size_t files, pages, bytes; /* pages and kernel memory of rows */
	size_t left_out;	    /* files without tables: too many were open */
	uint64_t cpu_ns;	    /* that compiling rows and reading mappings took */
};
struct unwind_usage unwind_tables__usage(const struct unwind_tables *tables);

#endif
