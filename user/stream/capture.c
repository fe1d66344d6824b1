// SPDX-License-Identifier: BSD-2-Clause
#include "stream/capture.h"

#include "perfx_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPTURE_VERSION 1
#define BUFFER_BYTES	(256 << 10)

struct capture_header {
	char magic[8];
	uint32_t version;
	uint32_t record_version;
};

static const char capture_magic[8] = {'P', 'E', 'R', 'F', 'X', 'C', 'A', 'P'};

struct capture_writer {
	int fd;
	int err;
	uint64_t bytes;
	size_t used;
	char buffer[BUFFER_BYTES];
};

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

int capture_writer__flush(struct capture_writer *writer)
{
	if (!writer->err)
		writer->err = write_all(writer->fd, writer->buffer, writer->used);
	writer->used = 0;
	return writer->err;
}

int capture_writer__add(struct capture_writer *writer, const void *record, size_t size)
{
	if (writer->err)
		return writer->err;
	if (writer->used + size > sizeof(writer->buffer) && capture_writer__flush(writer))
		return writer->err;
	memcpy(writer->buffer + writer->used, record, size);
	writer->used += size;
	writer->bytes += size;
	return 0;
}

uint64_t capture_writer__bytes(const struct capture_writer *writer)
{
	return writer->bytes;
}

struct capture_writer *capture_writer__new(int fd)
{
	struct capture_header header = {.version = CAPTURE_VERSION,
					.record_version = PERFX_RECORD_VERSION};
	struct capture_writer *writer = calloc(1, sizeof(*writer));

	if (!writer) {
		close(fd);
		return NULL;
	}
	memcpy(header.magic, capture_magic, sizeof(header.magic));
	writer->fd = fd;
	capture_writer__add(writer, &header, sizeof(header));
	return writer;
}

int capture_writer__free(struct capture_writer *writer)
{
	int err;

	if (!writer)
		return 0;
	err = capture_writer__flush(writer);
	if (close(writer->fd) && !err)
		err = -errno;
	free(writer);
	return err;
}

struct capture_reader {
	char *map;
	size_t size;
};

static int header_check(const struct capture_reader *reader)
{
	struct capture_header header;

	if (reader->size < sizeof(header))
		return ENOEXEC;
	memcpy(&header, reader->map, sizeof(header));
	if (memcmp(header.magic, capture_magic, sizeof(header.magic)))
		return ENOEXEC;
	if (header.version != CAPTURE_VERSION || header.record_version != PERFX_RECORD_VERSION)
		return EPROTO;
	return 0;
}

static int map_file(struct capture_reader *reader, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;

	if (fd < 0)
		return errno;
	if (fstat(fd, &st))
		err = errno;
	else if (S_ISDIR(st.st_mode))
		err = EISDIR;
	else if (st.st_size == 0)
		err = ENOEXEC;
	if (!err) {
		reader->size = (size_t)st.st_size;
		reader->map = mmap(NULL, reader->size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (reader->map == MAP_FAILED) {
			reader->map = NULL;
			err = errno;
		}
	}
	close(fd);
	return err;
}

struct capture_reader *capture_reader__open(const char *path)
{
	struct capture_reader *reader = calloc(1, sizeof(*reader));
	int err;

	if (!reader)
		return NULL;
	err = map_file(reader, path);
	if (!err)
		err = header_check(reader);
	if (err) {
		capture_reader__free(reader);
		errno = err;
		return NULL;
	}
	return reader;
}

const char *capture_reader__data(const struct capture_reader *reader, size_t *size)
{
	*size = reader->size - sizeof(struct capture_header);
	return reader->map + sizeof(struct capture_header);
}

void capture_reader__free(struct capture_reader *reader)
{
	if (!reader)
		return;
	if (reader->map)
		munmap(reader->map, reader->size);
	free(reader);
}
