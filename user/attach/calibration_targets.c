// SPDX-License-Identifier: BSD-2-Clause
#include "attach/calibration_targets.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#if defined(__x86_64__)

/* name, first instruction, what undoes it; the exit is a branch. */
#define CALIB_TARGET(name, first, undo)                                               \
	extern const unsigned char perfx_calib_##name[], perfx_calib_##name##_exit[]; \
	asm(".pushsection .text\n"                                                    \
	    ".p2align 4\n"                                                            \
	    ".globl perfx_calib_" #name ", perfx_calib_" #name "_exit\n"              \
	    ".hidden perfx_calib_" #name ", perfx_calib_" #name "_exit\n"             \
	    ".type perfx_calib_" #name ", @function\n"                                \
	    "perfx_calib_" #name ":\n" first "\n" undo "\n"                           \
	    "perfx_calib_" #name "_exit:\n"                                           \
	    "	jmp 1f\n"                                                               \
	    "1:	ret\n"                                                                \
	    ".size perfx_calib_" #name ", . - perfx_calib_" #name "\n"                \
	    ".popsection\n")

#define TWO_CALIB_TARGETS(name, first, undo) \
	CALIB_TARGET(name, first, undo);     \
	CALIB_TARGET(name##_by_return, first, undo)

TWO_CALIB_TARGETS(nop5, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "");
TWO_CALIB_TARGETS(nop, "nop", "");
TWO_CALIB_TARGETS(push, "push %rbx", "pop %rbx");
TWO_CALIB_TARGETS(branch, "jmp 2f\n2:", "");
TWO_CALIB_TARGETS(stepped, "lea 1(%rax), %rax", "");

#define ROW(kind, name)                                                        \
	{                                                                      \
		.site = (kind), .call = (void (*)(void))perfx_calib_##name,    \
		.entry = perfx_calib_##name, .exit = perfx_calib_##name##_exit \
	}

#define ROWS(kind, name)                                     \
	{                                                    \
		ROW(kind, name), ROW(kind, name##_by_return) \
	}

static const struct calib_target calib_targets[][2] = {
	ROWS(PERFX_SITE_NOP5, nop5),	   ROWS(PERFX_SITE_NOP, nop),
	ROWS(PERFX_SITE_PUSH, push),	   ROWS(PERFX_SITE_BRANCH, branch),
	ROWS(PERFX_SITE_STEPPED, stepped),
};

#else

/* Plain C elsewhere: one kind, timed by return probe. */
static __attribute__((noinline)) void calib_target_plain(void)
{
	asm volatile("");
}

#define PLAIN                                                           \
	{                                                               \
		.site = PERFX_SITE_STEPPED, .call = calib_target_plain, \
		.entry = (const unsigned char *)calib_target_plain      \
	}
static const struct calib_target calib_targets[][2] = {{PLAIN, PLAIN}};

#endif

const struct calib_target *calib_target_of(enum perfx_site site, bool by_return)
{
	for (size_t i = 0; i < sizeof(calib_targets) / sizeof(calib_targets[0]); i++)
		if (calib_targets[i][by_return].site == site)
			return &calib_targets[i][by_return];
	return NULL;
}

int64_t calib_target_offset(const void *address)
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
