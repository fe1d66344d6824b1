// SPDX-License-Identifier: BSD-2-Clause
#include "attach/stubs.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#if defined(__x86_64__)

/* name, first instruction, what undoes it; the exit is a branch. */
#define STUB(name, first, undo)                                                                    \
	extern const unsigned char perfx_stub_##name[], perfx_stub_##name##_exit[];                \
	asm(".pushsection .text\n"                                                                 \
	    ".p2align 4\n"                                                                         \
	    ".globl perfx_stub_" #name ", perfx_stub_" #name "_exit\n"                             \
	    ".hidden perfx_stub_" #name ", perfx_stub_" #name "_exit\n"                            \
	    ".type perfx_stub_" #name ", @function\n"                                              \
	    "perfx_stub_" #name ":\n" first "\n" undo "\n"                                         \
	    "perfx_stub_" #name "_exit:\n"                                                         \
	    "	jmp 1f\n"                                                                            \
	    "1:	ret\n"                                                                            \
	    ".size perfx_stub_" #name ", . - perfx_stub_" #name "\n"                               \
	    ".popsection\n")

STUB(nop5, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "");
STUB(nop, "nop", "");
STUB(push, "push %rbx", "pop %rbx");
STUB(branch, "jmp 2f\n2:", "");
STUB(stepped, "lea 1(%rax), %rax", "");

#define ROW(kind, name)                                                                            \
	{.site = (kind),                                                                           \
	 .call = (void (*)(void))perfx_stub_##name,                                                \
	 .entry = perfx_stub_##name,                                                               \
	 .exit = perfx_stub_##name##_exit}

static const struct stub stubs[] = {
	ROW(PERFX_SITE_NOP5, nop5),	ROW(PERFX_SITE_NOP, nop),
	ROW(PERFX_SITE_PUSH, push),	ROW(PERFX_SITE_BRANCH, branch),
	ROW(PERFX_SITE_STEPPED, stepped),
};

#else

/* Plain C elsewhere: one kind, timed by return probe. */
static __attribute__((noinline)) void stub_plain(void)
{
	asm volatile("");
}

static const struct stub stubs[] = {
	{.site = PERFX_SITE_STEPPED, .call = stub_plain, .entry = (const unsigned char *)stub_plain},
};

#endif

const struct stub *stub_of(enum perfx_site site)
{
	for (size_t i = 0; i < sizeof(stubs) / sizeof(stubs[0]); i++)
		if (stubs[i].site == site)
			return &stubs[i];
	return NULL;
}

int64_t stub_offset(const void *address)
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
