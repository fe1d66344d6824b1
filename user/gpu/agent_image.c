// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/agents.h"

#include <stdint.h>

/* The assembler finds it in the folders of -I: the build's is one. */
__asm__(".section .rodata, \"a\", @progbits\n"
	".balign 8\n"
	"agent_image_begin:\n"
	".incbin \"lib/perfx/libperfx-gpu.so\"\n"
	".Lend:\n"
	".balign 8\n"
	"agent_image_bytes:\n"
	".quad .Lend - agent_image_begin\n"
	".previous\n");

extern const char agent_image_begin[] __attribute__((visibility("hidden")));
extern const uint64_t agent_image_bytes __attribute__((visibility("hidden")));

const void *agent_image(size_t *bytes)
{
	*bytes = agent_image_bytes;
	return agent_image_begin;
}
