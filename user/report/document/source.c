// SPDX-License-Identifier: BSD-2-Clause
#include "report/document/compose.h"

#include "base/file.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_source_name(const char *path)
{
	static const char *const suffixes[] = {".py",  ".pyx", ".c",   ".h",   ".cc", ".cpp",
					       ".cxx", ".hh",  ".hpp", ".hxx", ".cu", ".cuh",
					       ".inc", ".rs",  ".go",  ".f90", ".S"};
	const char *suffix = strrchr(path, '.');

	for (size_t i = 0; suffix && i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (!strcmp(suffix, suffixes[i]))
			return true;
	return false;
}

/* Root may read everything, the readers of its report may not. */
static bool may_be_shown(const struct stat *status, uint64_t recorded_unix_ns)
{
	uint64_t changed_ns =
		(uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec;

	return S_ISREG(status->st_mode) && changed_ns <= recorded_unix_ns &&
	       (status->st_mode & S_IROTH || (geteuid() && status->st_uid == geteuid()));
}

/* The file is opened before it is looked at, so that it cannot become another one in between. */
static char *read_source(const char *path, uint64_t recorded_unix_ns)
{
	char opened[64], *text = NULL;
	struct stat status;
	int fd;

	if (path[0] != '/' || !is_source_name(path))
		return NULL;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	if (!fstat(fd, &status) && may_be_shown(&status, recorded_unix_ns))
		text = file_read_text(opened);
	close(fd);
	return text;
}

static char *copy_of_line(const char *text, uint32_t line)
{
	size_t length;

	for (; line > 1; line--) {
		text = strchr(text, '\n');
		if (!text)
			return NULL;
		text++;
	}
	length = strcspn(text, "\r\n");
	while (length && isspace((unsigned char)*text)) {
		text++;
		length--;
	}
	return length ? strndup(text, length) : NULL;
}

char *source_line(struct source *source, const char *path, uint32_t line, uint64_t recorded_unix_ns)
{
	if (!source->path || strcmp(source->path, path) != 0) {
		source_clear(source);
		source->path = strdup(path);
		source->text = source->path ? read_source(path, recorded_unix_ns) : NULL;
	}
	return source->text && line ? copy_of_line(source->text, line) : NULL;
}

void source_clear(struct source *source)
{
	free(source->path);
	free(source->text);
	*source = (struct source){0};
}
