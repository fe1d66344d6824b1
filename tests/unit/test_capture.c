// SPDX-License-Identifier: BSD-2-Clause
#include "decode/decode.h"
#include "stream/capture.h"
#include "stream/pack.h"
#include "stream/sink.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct pack_buffer buffer;

/* A file of its own that is already unlinked once the reader has it. */
static int temporary(char path[32])
{
	strcpy(path, "/tmp/perfx-captureXXXXXX");
	return mkstemp(path);
}

static struct capture_reader *reopen(const char *path)
{
	struct capture_reader *reader = capture_reader__open(path);
	int err = errno;

	unlink(path);
	errno = err;
	return reader;
}

Test(pack, strings_follow_the_fixed_part)
{
	struct perfx_process process = {.process = 3, .pid = 42};
	const struct perfx_record *record =
		PACK(&buffer, PERFX_KIND_PROCESS, process, "python3", "");
	struct event event;
	size_t skip;

	cr_assert_eq(record->size % 8, 0);
	cr_assert_eq(decode_event(record, record->size, &event, &skip), record->size);
	cr_assert_eq(event.process.pid, 42);
	cr_assert_str_eq(event.strings[0], "python3");
	cr_assert_str_eq(event.strings[1], "");
}

Test(pack, what_does_not_fit_is_cut)
{
	struct perfx_not_attached refusal = {.count = 1};
	char *text = malloc(200000);
	const struct perfx_record *record;
	struct event event;
	size_t skip;

	memset(text, 'x', 199999);
	text[199999] = '\0';
	record = PACK(&buffer, PERFX_KIND_NOT_ATTACHED, refusal, text, text);
	cr_assert_leq(record->size, PERFX_RECORD_MAX);
	cr_assert_gt(decode_event(record, record->size, &event, &skip), 0);
	cr_assert_gt(strlen(event.strings[0]), 60000);
	cr_assert_eq(strlen(event.strings[1]), 0);
	free(text);
}

Test(capture, comes_back_as_it_was_written)
{
	char path[32];
	struct capture_writer *writer = capture_writer__new(temporary(path));
	struct capture_reader *reader;
	const char *data;
	size_t size, records = 0;

	for (uint32_t i = 1; i <= 50000; i++) {
		struct perfx_hits hits = {.probe = i, .hits_count = 2ull * i};
		const struct perfx_record *record = PACK(&buffer, PERFX_KIND_HITS, hits);

		cr_assert_eq(capture_writer__add(writer, record, record->size), 0);
	}
	cr_assert_eq(capture_writer__free(writer), 0);

	reader = reopen(path);
	cr_assert_not_null(reader);
	data = capture_reader__data(reader, &size);
	while (size) {
		struct event event;
		size_t skip;
		ssize_t used = decode_event(data, size, &event, &skip);

		cr_assert_gt(used, 0);
		cr_assert_eq(event.hits.probe, ++records);
		cr_assert_eq(event.hits.hits_count, 2 * records);
		data += used;
		size -= (size_t)used;
	}
	cr_assert_eq(records, 50000);
	capture_reader__free(reader);
}

static int open_bytes(const void *bytes, size_t size)
{
	char path[32];
	int fd = temporary(path);
	struct capture_reader *reader;

	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	close(fd);
	reader = reopen(path);
	if (!reader)
		return errno;
	capture_reader__free(reader);
	return 0;
}

Test(capture, what_is_no_capture_is_refused)
{
	struct {
		char magic[8];
		uint32_t version, records;
	} header = {{'P', 'E', 'R', 'F', 'X', 'C', 'A', 'P'}, 1, PERFX_RECORD_VERSION};

	cr_expect_eq(open_bytes(&header, sizeof(header)), 0);
	cr_expect_eq(open_bytes(&header, sizeof(header) - 1), ENOEXEC);
	cr_expect_eq(open_bytes("", 0), ENOEXEC);
	header.version = 2;
	cr_expect_eq(open_bytes(&header, sizeof(header)), EPROTO);
	header.magic[0] = 'p';
	cr_expect_eq(open_bytes(&header, sizeof(header)), ENOEXEC);
	cr_expect_null(capture_reader__open("/tmp"));
	cr_expect_eq(errno, EISDIR);
	cr_expect_null(capture_reader__open("/no/such/file"));
	cr_expect_eq(errno, ENOENT);
}

Test(capture, a_full_disk_is_told_once_and_for_all)
{
	struct capture_writer *writer = capture_writer__new(open("/dev/full", O_WRONLY));
	struct perfx_hits hits = {.probe = 1};
	const struct perfx_record *record = PACK(&buffer, PERFX_KIND_HITS, hits);

	cr_assert_eq(capture_writer__add(writer, record, record->size), 0);
	cr_assert_eq(capture_writer__flush(writer), -ENOSPC);
	cr_assert_eq(capture_writer__add(writer, record, record->size), -ENOSPC);
	cr_assert_eq(capture_writer__free(writer), -ENOSPC);
}

Test(sink, a_cut_tail_and_strange_records_are_counted)
{
	char path[32];
	struct capture_writer *writer = capture_writer__new(temporary(path));
	struct perfx_record strange = {.size = 16, .kind = 999, .fixed = 8};
	struct perfx_hits hits = {.probe = 1, .hits_count = 5};
	const struct perfx_record *record;
	struct sink sink = {.aggregate = aggregate__new()};
	const struct profile *profile;
	struct capture_reader *reader;
	char bytes[16] = {0};

	memcpy(bytes, &strange, sizeof(strange));
	capture_writer__add(writer, bytes, sizeof(bytes));
	record = PACK(&buffer, PERFX_KIND_HITS, hits);
	capture_writer__add(writer, record, 20); /* of 24 */
	cr_assert_eq(capture_writer__free(writer), 0);

	reader = reopen(path);
	cr_assert_eq(sink_replay(&sink, reader), 0);
	profile = aggregate__finish(sink.aggregate);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 1);
	cr_expect_eq(profile->losses[PERFX_LOSS_TRUNCATED_BYTES], 20);
	capture_reader__free(reader);
	aggregate__free(sink.aggregate);
}
