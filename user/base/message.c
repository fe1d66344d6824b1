// SPDX-License-Identifier: BSD-2-Clause
#include "base/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void msg_say(const char *fmt, ...)
{
	char text[4096], line[4 * sizeof(text) + 32];
	int saved_errno = errno;
	size_t used;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);

	used = (size_t)sprintf(line, "perfx-trace: ");
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c < 0x20 || c == 0x7f)
			used += (size_t)sprintf(line + used, "\\x%02x", c);
		else
			line[used++] = *p;
	}
	line[used++] = '\n';
	/* one write, so that lines of two tracers do not mix */
	fwrite(line, 1, used, stderr);
	errno = saved_errno;
}
