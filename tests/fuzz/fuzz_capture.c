// SPDX-License-Identifier: BSD-2-Clause
/*
 * Captures, through everything that reads them. The first byte chooses where the rest goes in:
 *
 *	0  a file from its first block on, with its checksums made right, so that they keep
 *	   nothing out
 *	1  such a file as it is
 *	2  the columns of a block, opened: ten sizes of 16 bits, the size of the records in
 *	   eights, then the columns
 *	3  records
 *	4  two such files as 0, each a half, to be merged; what becomes of them is read again
 */
#include "fuzz.h"

#include "aggregate/aggregate.h"
#include "analyze/analyze.h"
#include "capture/block.h"
#include "decode/decode.h"
#include "merge/merge.h"
#include "replay/replay.h"
#include "report/report.h"

#include <zlib.h>

static void report(struct aggregate *aggregate)
{
	static const char *const formats[] = {"text", "md", "json"};
	const struct report_options options = {.width = 80};
	const struct profile *profile = aggregate__finish(aggregate);
	struct analysis *analysis = profile ? analyze(profile, NULL) : NULL;

	for (size_t i = 0; analysis && i < sizeof(formats) / sizeof(formats[0]); i++)
		report_writer_named(formats[i])->write(fuzz_nowhere(), profile, analysis, &options);
	analysis__free(analysis);
}

/* A capture of these blocks. */
static int capture_of(const uint8_t *data, size_t size, char path[FUZZ_PATH])
{
	struct capture_header header = {.version = CAPTURE_VERSION,
					.record_version = PERFX_RECORD_VERSION};
	int fd;

	memcpy(header.magic, CAPTURE_MAGIC, sizeof(header.magic));
	fd = fuzz_file(&header, sizeof(header), path);
	if (write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

static void replay_file(const char *path)
{
	struct pipeline pipeline = {.aggregate = aggregate__new()};
	struct capture_reader *reader = capture_reader__open(path);

	if (!reader || pipeline_replay(&pipeline, reader))
		abort();
	report(pipeline.aggregate);
	capture_reader__free(reader);
	aggregate__free(pipeline.aggregate);
}

static void replay(const uint8_t *data, size_t size)
{
	char path[FUZZ_PATH];
	int fd = capture_of(data, size, path);

	replay_file(path);
	close(fd);
}

/* Every header's checksums, and the sizes that lead out of the file. */
static void mend(uint8_t *data, size_t size)
{
	struct block_header header;

	for (size_t at = 0; at + sizeof(header) <= size; at++) {
		size_t rest = size - at - sizeof(header);

		if (memcmp(data + at, BLOCK_SYNC, BLOCK_SYNC_BYTES) != 0)
			continue;
		memcpy(&header, data + at, sizeof(header));
		if (header.payload_bytes > rest)
			header.payload_bytes = (uint32_t)rest;
		header.payload_crc =
			(uint32_t)crc32_z(0, data + at + sizeof(header), header.payload_bytes);
		header.header_crc = (uint32_t)crc32_z(0, (const void *)&header,
						      offsetof(struct block_header, header_crc));
		memcpy(data + at, &header, sizeof(header));
		at += sizeof(header) + header.payload_bytes - 1;
	}
}

static void replay_records(const uint8_t *data, size_t size)
{
	struct aggregate *aggregate = aggregate__new();
	struct event event;
	size_t skip = 0;

	while (size) {
		ssize_t used = decode_event(data, size, &event, &skip);

		if (used >= 0 && aggregate__add(aggregate, &event))
			abort();
		if (used < 0 && skip == 0)
			break;
		used = used < 0 ? (ssize_t)skip : used;
		skip = 0;
		data += used;
		size -= (size_t)used;
	}
	report(aggregate);
	aggregate__free(aggregate);
}

/* What was decoded must encode into the same records again. */
static void encode_again(const uint8_t *records, size_t size)
{
	static struct packer *packer;
	static struct unpacker *unpacker;
	struct block_header header;
	const uint8_t *block;
	const void *back;
	size_t bytes;

	if (!packer)
		packer = packer__new();
	if (!unpacker)
		unpacker = unpacker__new();
	block = packer__pack(packer, records, size, 0, &bytes);
	if (!block_header_read(&header, block, bytes))
		abort();
	back = unpacker__unpack(unpacker, &header, block + sizeof(header));
	if (!back || header.records_bytes != size || memcmp(back, records, size) != 0)
		abort();
}

static void decode(const uint8_t *data, size_t size)
{
	static struct column_decoder *decoder;
	struct columns columns;
	uint16_t sizes[COLUMNS + 1];
	uint8_t *records, *copy;

	if (!decoder)
		decoder = column_decoder__new();
	if (size < sizeof(sizes))
		return;
	memcpy(sizes, data, sizeof(sizes));
	data += sizeof(sizes);
	size -= sizeof(sizes);
	copy = malloc(size + 1);
	memcpy(copy, data, size);
	for (size_t i = 0, at = 0; i < COLUMNS; i++) {
		columns.bytes[i] = copy + at;
		columns.sizes[i] = sizes[i] < size - at ? sizes[i] : size - at;
		at += columns.sizes[i];
	}
	records = malloc(8u * sizes[COLUMNS] + 1);
	if (sizes[COLUMNS] &&
	    !column_decoder__decode(decoder, &columns, records, 8u * sizes[COLUMNS])) {
		encode_again(records, 8u * sizes[COLUMNS]);
		replay_records(records, 8u * sizes[COLUMNS]);
	}
	free(records);
	free(copy);
}

static void merge(uint8_t *data, size_t size)
{
	char paths[2][FUZZ_PATH], merged[FUZZ_PATH];
	struct merger *merger = merger__new();
	char *why;
	int fds[2], fd;

	mend(data, size);
	fds[0] = capture_of(data, size / 2, paths[0]);
	fds[1] = capture_of(data + size / 2, size - size / 2, paths[1]);
	if (merger__add(merger, paths[0]) || merger__add(merger, paths[1]))
		abort();
	why = merger__check(merger);
	if (!why) {
		struct capture_writer *writer;

		fd = fuzz_file("", 0, merged);
		writer = capture_writer__new(dup(fd));
		if (merger__write(merger, writer) || capture_writer__free(writer))
			abort();
		replay_file(merged);
		close(fd);
	}
	free(why);
	merger__free(merger);
	close(fds[0]);
	close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	if (!size)
		return 0;
	copy = malloc(size);
	memcpy(copy, data + 1, size - 1);
	switch (data[0] % 5) {
	case 0:
		mend(copy, size - 1);
		replay(copy, size - 1);
		break;
	case 1:
		replay(copy, size - 1);
		break;
	case 2:
		decode(copy, size - 1);
		break;
	case 3:
		replay_records(copy, size - 1);
		break;
	case 4:
		merge(copy, size - 1);
		break;
	}
	free(copy);
	return 0;
}
