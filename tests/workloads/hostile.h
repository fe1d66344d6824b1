/* SPDX-License-Identifier: BSD-2-Clause */
/* Hostile names, which a tracer must handle. */
#ifndef TESTS_WORKLOADS_HOSTILE_H
#define TESTS_WORKLOADS_HOSTILE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Each once: markup, formulas, escapes, invalid UTF-8, an empty name; a mebibyte; unreadable ones:
 * unmapped, in the kernel, or continued into unmapped memory. */
static inline void hostile_names(void (*tell)(const char *name))
{
	static const char *const shown[] = {"| `a` <b>&amp;</b> [x](y)", "=1+2\t\"q\"",
					    "\x1b[31mred\x1b[0m", "\xff\xfe\xc3(", ""};
	size_t huge = 1 << 20;
	char *text = malloc(huge + 1), *page;

	for (size_t k = 0; k < sizeof(shown) / sizeof(shown[0]); k++)
		tell(shown[k]);
	memset(text, 'h', huge);
	text[huge] = '\0';
	tell(text);
	free(text);
	tell(NULL);
	tell((const char *)8);
	tell((const char *)0xffffffff80000000);
	/* ends without a NUL at the end of what is mapped */
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(page + 4096, 4096);
	memset(page, 'x', 4096);
	tell(page + 4090);
	munmap(page, 4096);
}

#endif
