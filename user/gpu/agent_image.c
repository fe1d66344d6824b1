// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/agent_image.h"

/* The assembler finds it in the folders of -I: the build's is one. */
__asm__(".section .rodata, \"a\", @progbits\n"
	".balign 8\n"
	"agent_image_begin:\n"
	".incbin \"lib/perfx/libperfx-gpu.so\"\n"
	"agent_image_end:\n"
	".previous\n");

extern const char agent_image_begin[] __attribute__((visibility("hidden")));
extern const char agent_image_end[] __attribute__((visibility("hidden")));

const void *agent_image(size_t *bytes)
{
	*bytes = (size_t)(agent_image_end - agent_image_begin);
	return agent_image_begin;
}
