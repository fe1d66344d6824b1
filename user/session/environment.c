// SPDX-License-Identifier: BSD-2-Clause
#include "session/environment.h"

#include "proc/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_MAX (2 << 20)

/* The sudo process among our ancestors; where sudo has replaced itself by us, the shell above. */
static pid_t sudo_process(void)
{
	pid_t pid = getppid(), parent = pid;
	struct process_info info;

	for (int depth = 0; pid > 1 && depth < 8; depth++) {
		if (process_info(pid, &info))
			break;
		if (!strcmp(info.comm, "sudo"))
			return pid;
		pid = info.ppid;
	}
	return parent;
}

static char *read_environment(pid_t pid, size_t *size)
{
	char path[64], *text = malloc(ENVIRONMENT_MAX + 1);
	ssize_t n, used = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)process_task(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (text && fd >= 0 && used < ENVIRONMENT_MAX &&
	       (n = read(fd, text + used, (size_t)(ENVIRONMENT_MAX - used))) > 0)
		used += n;
	if (fd >= 0)
		close(fd);
	if (!text || used == 0) {
		free(text);
		return NULL;
	}
	text[used] = '\0';
	*size = (size_t)used;
	return text;
}

char **caller_environment(void)
{
	size_t size = 0, count = 0, n = 0;
	char *text = read_environment(sudo_process(), &size), *strings;
	char **environment;

	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i++)
		count += !text[i];
	environment = malloc((count + 2) * sizeof(*environment) + size + 1);
	if (environment) {
		strings = (char *)(environment + count + 2);
		memcpy(strings, text, size + 1);
		for (char *p = strings; p < strings + size; p += strlen(p) + 1)
			environment[n++] = p;
		environment[n] = NULL;
	}
	free(text);
	return environment;
}
