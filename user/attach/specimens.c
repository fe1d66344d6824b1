// SPDX-License-Identifier: BSD-2-Clause
#include "attach/specimens.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#if defined(__x86_64__)

/* name, first instruction, what undoes it; the exit is a branch. */
#define SPECIMEN(name, first, undo)                                                         \
	extern const unsigned char perfx_specimen_##name[], perfx_specimen_##name##_exit[]; \
	asm(".pushsection .text\n"                                                          \
	    ".p2align 4\n"                                                                  \
	    ".globl perfx_specimen_" #name ", perfx_specimen_" #name "_exit\n"              \
	    ".hidden perfx_specimen_" #name ", perfx_specimen_" #name "_exit\n"             \
	    ".type perfx_specimen_" #name ", @function\n"                                   \
	    "perfx_specimen_" #name ":\n" first "\n" undo "\n"                              \
	    "perfx_specimen_" #name "_exit:\n"                                              \
	    "	jmp 1f\n"                                                                     \
	    "1:	ret\n"                                                                      \
	    ".size perfx_specimen_" #name ", . - perfx_specimen_" #name "\n"                \
	    ".popsection\n")

#define TWO_SPECIMENS(name, first, undo) \
	SPECIMEN(name, first, undo);     \
	SPECIMEN(name##_by_return, first, undo)

TWO_SPECIMENS(nop5, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "");
TWO_SPECIMENS(nop, "nop", "");
TWO_SPECIMENS(push, "push %rbx", "pop %rbx");
TWO_SPECIMENS(branch, "jmp 2f\n2:", "");
TWO_SPECIMENS(stepped, "lea 1(%rax), %rax", "");

#define ROW(kind, name)                                                              \
	{                                                                            \
		.site = (kind), .call = (void (*)(void))perfx_specimen_##name,       \
		.entry = perfx_specimen_##name, .exit = perfx_specimen_##name##_exit \
	}

#define ROWS(kind, name)                                     \
	{                                                    \
		ROW(kind, name), ROW(kind, name##_by_return) \
	}

static const struct specimen specimens[][2] = {
	ROWS(PERFX_SITE_NOP5, nop5),	   ROWS(PERFX_SITE_NOP, nop),
	ROWS(PERFX_SITE_PUSH, push),	   ROWS(PERFX_SITE_BRANCH, branch),
	ROWS(PERFX_SITE_STEPPED, stepped),
};

#else

/* Plain C elsewhere: one kind, timed by return probe. */
static __attribute__((noinline)) void specimen_plain(void)
{
	asm volatile("");
}

#define PLAIN                                                       \
	{                                                           \
		.site = PERFX_SITE_STEPPED, .call = specimen_plain, \
		.entry = (const unsigned char *)specimen_plain      \
	}
static const struct specimen specimens[][2] = {{PLAIN, PLAIN}};

#endif

const struct specimen *specimen_of(enum perfx_site site, bool by_return)
{
	for (size_t i = 0; i < sizeof(specimens) / sizeof(specimens[0]); i++)
		if (specimens[i][by_return].site == site)
			return &specimens[i][by_return];
	return NULL;
}

int64_t specimen_offset(const void *address)
{
	uint64_t start, end, offset;
	int64_t found = -ENOENT;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	if (!maps)
		return -errno;
	while (found < 0 && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
		    (uintptr_t)address >= start && (uintptr_t)address < end)
			found = (int64_t)((uintptr_t)address - start + offset);
	fclose(maps);
	return found;
}
