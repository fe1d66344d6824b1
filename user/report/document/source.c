// SPDX-License-Identifier: BSD-2-Clause
#include "report/document/compose.h"

#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file is opened before it is looked at, so that it cannot become another one in between. */
static char *read_source(const char *path, uint64_t recorded_unix_ns)
{
	static const char *const suffixes[] = {".py",  ".pyx", ".c",   ".h",   ".cc", ".cpp",
					       ".cxx", ".hh",  ".hpp", ".hxx", ".cu", ".cuh",
					       ".inc", ".rs",  ".go",  ".f90", ".S",  NULL};
	const char *suffix = strrchr(path, '.');
	char opened[64], *text = NULL;
	struct stat status;
	int fd;

	if (path[0] != '/' || !suffix || !text_is_one_of(suffix, suffixes))
		return NULL;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	/* root may read everything, the readers of its report may not */
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) &&
	    (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec <=
		    recorded_unix_ns &&
	    (status.st_mode & S_IROTH || (geteuid() && status.st_uid == geteuid())))
		text = file_read_text(opened);
	close(fd);
	return text;
}

char *source_line(struct source *source, const char *path, uint32_t line, uint64_t recorded_unix_ns)
{
	const char *text;
	size_t length;

	if (!source->path || strcmp(source->path, path) != 0) {
		source_clear(source);
		source->path = strdup(path);
		source->text = source->path ? read_source(path, recorded_unix_ns) : NULL;
	}
	text = line ? source->text : NULL;
	for (; text && line > 1; line--) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	if (!text)
		return NULL;
	for (length = strcspn(text, "\r\n"); length && isspace((unsigned char)*text); length--)
		text++;
	return length ? strndup(text, length) : NULL;
}

void source_clear(struct source *source)
{
	free(source->path);
	free(source->text);
	*source = (struct source){0};
}
