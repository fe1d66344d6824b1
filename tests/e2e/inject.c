// SPDX-License-Identifier: BSD-2-Clause
/*
 * inject PID LIBRARY [TIMES [DEADLINE_MS]]: puts a library (tests/workloads/lib/injected.c) into a
 * process that many times. A line each:
 *
 *	ok HELD_NS DLOPEN_NS LEFT_BYTES WHERE
 *	refused ERRNO WHY
 *	silent
 *
 * "silent": loaded, but its thread did not say so. Exits with 0 when all were ok, else with 1.
 */
#include "inject/inject.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[16] = "perfx-injected!";

static char *read_library(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *image;

	if (fd < 0 || fstat(fd, &st))
		return NULL;
	image = malloc((size_t)st.st_size);
	if (!image || read(fd, image, (size_t)st.st_size) != st.st_size)
		return NULL;
	close(fd);
	*size = (size_t)st.st_size;
	return image;
}

static bool says_hello(int fd)
{
	struct pollfd socket = {.fd = fd, .events = POLLIN};
	char byte = 0;

	return poll(&socket, 1, 5000) == 1 && read(fd, &byte, 1) == 1 && byte == 'x';
}

static bool inject_once(struct inject_request *request, uint64_t deadline_ms)
{
	struct inject_result result;
	bool hello;
	int err;

	request->deadline_ns = clock_monotonic_ns() + deadline_ms * 1000000;
	err = inject__library(request, &result);
	if (err) {
		printf("refused %s %s\n", strerrorname_np(-err), result.why);
		return false;
	}
	hello = says_hello(result.socket_fd);
	close(result.socket_fd);
	if (hello)
		printf("ok %llu %llu %llu %s\n", (unsigned long long)result.held_ns,
		       (unsigned long long)result.dlopen_ns, (unsigned long long)result.left_bytes,
		       result.where);
	else
		puts("silent");
	return hello;
}

int main(int argc, char **argv)
{
	unsigned long times = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
	uint64_t deadline_ms = argc > 4 ? strtoul(argv[4], NULL, 10) : 5000;
	struct inject_request request = {.pid = argc > 1 ? atoi(argv[1]) : 0};
	size_t size = 0;
	char *image = argc > 2 ? read_library(argv[2], &size) : NULL;
	char *config = image ? memmem(image, size, magic, sizeof(magic)) : NULL;
	bool all = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!config) {
		fputs("inject PID LIBRARY [TIMES [DEADLINE_MS]]\n", stderr);
		return 2;
	}
	request.image = image;
	request.image_bytes = size;
	request.fd_offset = (size_t)(config - image) + sizeof(magic);
	for (unsigned long i = 0; i < times; i++)
		all = inject_once(&request, deadline_ms) && all;
	free(image);
	return all ? 0 : 1;
}
