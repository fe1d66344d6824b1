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

SPECIMEN(nop5, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "");
SPECIMEN(nop, "nop", "");
SPECIMEN(push, "push %rbx", "pop %rbx");
SPECIMEN(branch, "jmp 2f\n2:", "");
SPECIMEN(stepped, "lea 1(%rax), %rax", "");

#define ROW(kind, name)                                                              \
	{                                                                            \
		.site = (kind), .call = (void (*)(void))perfx_specimen_##name,       \
		.entry = perfx_specimen_##name, .exit = perfx_specimen_##name##_exit \
	}

static const struct specimen specimens[] = {
	ROW(PERFX_SITE_NOP5, nop5),	  ROW(PERFX_SITE_NOP, nop),
	ROW(PERFX_SITE_PUSH, push),	  ROW(PERFX_SITE_BRANCH, branch),
	ROW(PERFX_SITE_STEPPED, stepped),
};

#else

/* Plain C elsewhere: one kind, timed by return probe. */
static __attribute__((noinline)) void specimen_plain(void)
{
	asm volatile("");
}

static const struct specimen specimens[] = {
	{.site = PERFX_SITE_STEPPED,
	 .call = specimen_plain,
	 .entry = (const unsigned char *)specimen_plain},
};

#endif

const struct specimen *specimen_of(enum perfx_site site)
{
	for (size_t i = 0; i < sizeof(specimens) / sizeof(specimens[0]); i++)
		if (specimens[i].site == site)
			return &specimens[i];
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
