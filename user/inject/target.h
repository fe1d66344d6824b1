/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of a process before any of its threads is touched: whether it can be given a
 * library at all, where the functions are that this takes, and which code a thread must not be in.
 */
#ifndef PERFX_INJECT_TARGET_H
#define PERFX_INJECT_TARGET_H

#include "elf/image.h"
#include "inject/inject.h"
#include "proc/maps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The debug registers of a CPU. */
#define TARGET_ENTRIES_MAX 4

enum module_kind {
	MODULE_OTHER = 0,
	MODULE_LIBC,   /* glibc: busy are its functions of target.busy */
	MODULE_LOADER, /* the dynamic linker, and what else is busy as a whole */
	MODULE_BUSY
};

/* An executable mapping of a file. Strings and images belong to the target. */
struct target_module {
	uint64_t start, end;
	uint64_t bias; /* address - vaddr */
	enum module_kind kind;
	const char *name;
	struct image *image; /* NULL: no ELF file, or not to be opened */
};

struct target_range {
	uint64_t start, end;
	const char *name;
};

struct target {
	pid_t pid;
	struct maps *maps;
	struct target_module *modules; /* by ascending address */
	size_t modules_count, modules_capacity;
	/* Functions of libc that hold its locks, or may. */
	struct target_range *busy;
	size_t busy_count, busy_capacity;
	/* Functions of libc in which a thread may be asleep. */
	struct target_range *sleeps;
	size_t sleeps_count, sleeps_capacity;
	/* Where a thread may be stopped: at the entry of these. */
	struct target_range entries[TARGET_ENTRIES_MAX];
	size_t entries_count;

	uint64_t dlopen, dlopen_flags;
	uint64_t dlerror; /* 0: none */
	uint64_t errno_location;
	uint64_t syscall_return; /* the instructions `syscall; ret` */
	uint64_t sigreturn;	 /* `mov $15, %rax; syscall`, where signal handlers return to */
	uint64_t loader_data;	 /* _rtld_global: has the loader's locks; 0: not found */
	uint64_t loader_data_bytes;
	int notify_signal; /* default action: none, and the process has no handler of it */
	bool has_seccomp;
};

/* 0, or -errno as inject__library() gives it, with why. Clear it in either case. */
int target_look(struct target *target, const struct inject_request *request,
		char why[INJECT_WHY_BYTES]);
void target_clear(struct target *target);

/* NULL: no file's code. */
const struct target_module *target_module(const struct target *target, uint64_t address);
/* The first of the ranges that has the address, or NULL. */
const struct target_range *target_range_of(const struct target_range *ranges, size_t count,
					   uint64_t address);
/* Does a thread of the process hold a lock of the dynamic linker? To be asked just before it is
 * made to load something. */
bool target_is_loading(const struct target *target);

/* Why ptrace refuses. */
int target_refused(pid_t pid, int err, char why[INJECT_WHY_BYTES]);

#endif
