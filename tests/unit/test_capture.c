// SPDX-License-Identifier: BSD-2-Clause
#include "base/text.h"
#include "capture/block.h"
#include "capture/capture.h"
#include "decode/decode.h"
#include "decode/pack.h"
#include "replay/replay.h"

#include "golden_cases.h"
#include "rounds.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

static struct column_encoder *encoder;
static struct column_decoder *decoder;
static struct stream story;
static unsigned char decoded[COLUMNS_RECORDS_MAX];

static void set_up(void)
{
	encoder = column_encoder__new();
	decoder = column_decoder__new();
	srand(3);
}

static void tear_down(void)
{
	column_encoder__free(encoder);
	column_decoder__free(decoder);
	stream_clear(&story);
}

TestSuite(encode, .init = set_up, .fini = tear_down);

static uint64_t any(void)
{
	uint64_t bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();

	return bits >> rand() % 64;
}

/* Whole records from `at` on, as many as the encoder takes at a time. */
static size_t piece_from(size_t at)
{
	size_t size = 0;

	while (at + size < story.bytes.length) {
		struct perfx_record hdr;

		memcpy(&hdr, story.bytes.data + at + size, sizeof(hdr));
		if (size + hdr.size > COLUMNS_RECORDS_MAX)
			break;
		size += hdr.size;
	}
	return size;
}

/* The columns of the last piece. */
static const struct columns *there_and_back(void)
{
	const struct columns *columns = NULL;
	size_t size;

	for (size_t at = 0; at < story.bytes.length; at += size) {
		const char *records = story.bytes.data + at;
		size_t sum = 0;

		size = piece_from(at);
		columns = column_encoder__encode(encoder, records, size);
		for (int i = 0; i < COLUMNS; i++)
			sum += columns->sizes[i];
		cr_assert_leq(sum, COLUMNS_GROWTH * size);
		memset(decoded, 0xa5, sizeof(decoded));
		cr_assert_eq(column_decoder__decode(decoder, columns, decoded, size), 0);
		cr_assert_arr_eq(decoded, records, size);
	}
	return columns;
}

static void add_span(uint32_t context, uint64_t start, uint64_t duration, uint64_t self)
{
	struct perfx_span span = {.hdr = {PERFX_SPAN_PLAIN_BYTES, PERFX_KIND_SPAN,
					  PERFX_SPAN_PLAIN_BYTES},
				  .start_ns = start,
				  .duration_ns = duration,
				  .self_ns = self,
				  .process = 1,
				  .context = context,
				  .function = context,
				  .tid = 4242};

	stream_put(&story, &span.hdr);
}

Test(encode, a_loop_costs_its_times)
{
	const struct columns *columns;

	for (uint64_t i = 0; i < 1000; i++)
		add_span(1, STREAM_START + 1000 * i, 100, 100);
	columns = there_and_back();
	cr_expect_eq(columns->sizes[COLUMN_ORDER], 1000);
	cr_expect_eq(columns->sizes[COLUMN_WHOLE], PERFX_SPAN_PLAIN_BYTES);
	cr_expect_eq(columns->sizes[COLUMN_SPAN_DURATION], 999);
	cr_expect_eq(columns->sizes[COLUMN_SPAN_CALLED], 999);
	/* 2000, as a signed varint, and all of the first one's time */
	cr_expect_leq(columns->sizes[COLUMN_SPAN_END], 2 * 998 + 10);
}

Test(encode, all_that_is_recorded)
{
	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		if (!strcmp(golden_cases[i].name, "truncated"))
			continue; /* ends within a record */
		golden_cases[i].build(&story);
		there_and_back();
		stream_clear(&story);
	}
}

/* Numbers that no clock and no heap gives: the inverse is exact all the same. */
Test(encode, any_numbers)
{
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 2000; i++) {
			struct stream_place place = {(uint32_t)any() % 3, 7, 1, 1, 1,
						     PERFX_DOMAIN_HOST};

			if (rand() % 4 == 0)
				add_span((uint32_t)rand() % 5, any(), any(), any());
			else if (rand() % 3 == 0)
				stream_plain(&story, PERFX_KIND_SPAN, struct perfx_span,
					     .start_ns = any(), .duration_ns = any(),
					     .self_ns = any(), .flops = any(), .bytes = any());
			else if (rand() % 2)
				stream_allocation(&story, &place, any(), any(), any(), 0);
			else
				stream_free(&story, &place, any(), any(), any(), 0);
		}
		there_and_back();
		stream_clear(&story);
	}
}

/* More contexts than a block may have templates: the rest is kept whole. */
Test(encode, more_templates_than_there_may_be)
{
	for (uint64_t i = 0; i < 16000; i++)
		add_span((uint32_t)(i % 9000) + 1, STREAM_START + i, 10, 10);
	there_and_back();
	cr_expect_gt(column_encoder__encode(encoder, story.bytes.data, story.bytes.length)
			     ->sizes[COLUMN_WHOLE],
		     8192u * PERFX_SPAN_PLAIN_BYTES);
}

/* Kinds and forms that are not encoded, as a later version has them. */
Test(encode, unknown_kinds_are_kept_whole)
{
	struct {
		struct perfx_span span;
		uint64_t more;
	} later = {.span = {.hdr = {80, PERFX_KIND_SPAN, 80}}, .more = 9};
	struct perfx_record strange = {.size = 8, .kind = 4711, .fixed = 8};

	for (int i = 0; i < 3; i++) {
		stream_put(&story, &later.span.hdr);
		stream_put(&story, &strange);
	}
	cr_expect_eq(there_and_back()->sizes[COLUMN_WHOLE], story.bytes.length);
}

/* Each is damaged in one way: refused, and nothing is written beyond the room. */
Test(encode, damaged_columns_are_refused)
{
	unsigned char template[PERFX_SPAN_PLAIN_BYTES] = {PERFX_SPAN_PLAIN_BYTES, 0, 0, 0, 1, 0,
							  PERFX_SPAN_PLAIN_BYTES};
	unsigned char endless[11] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", one[] = {1};
	unsigned char order[] = {1, 2}, beyond[] = {1, 3}, short_order[] = {1};
	unsigned char short_size[8] = {4, 0, 0, 0, 1, 0, 8}, odd_size[8] = {12, 0, 0, 0, 1, 0, 8};
	unsigned char nothing[1];
	const struct columns good = {.bytes = {order, template, one, one, one, nothing, nothing,
					       nothing, nothing, nothing},
				     .sizes = {2, sizeof(template), 1, 1, 1}};
	struct columns bad = good;

	cr_expect_eq(column_decoder__decode(decoder, &good, decoded, 112), 0);
	cr_expect_eq(column_decoder__decode(decoder, &good, decoded, 104), -EBADMSG,
		     "no room for the last");
	cr_expect_eq(column_decoder__decode(decoder, &good, decoded, 120), -EBADMSG,
		     "room is left");
	cr_expect_eq(column_decoder__decode(decoder, &good, decoded, 56), -EBADMSG,
		     "columns are left");
	bad.bytes[COLUMN_ORDER] = beyond;
	cr_expect_eq(column_decoder__decode(decoder, &bad, decoded, 112), -EBADMSG,
		     "no such template");
	bad = good;
	bad.sizes[COLUMN_SPAN_CALLED] = 0;
	cr_expect_eq(column_decoder__decode(decoder, &bad, decoded, 112), -EBADMSG,
		     "an empty column");
	bad = good;
	bad.bytes[COLUMN_SPAN_END] = endless;
	for (size_t size = 9; size <= sizeof(endless); size++) {
		bad.sizes[COLUMN_SPAN_END] = size;
		cr_expect_eq(column_decoder__decode(decoder, &bad, decoded, 112), -EBADMSG,
			     "a varint");
	}
	bad = good;
	bad.sizes[COLUMN_WHOLE] = 55;
	cr_expect_eq(column_decoder__decode(decoder, &bad, decoded, 112), -EBADMSG, "a cut record");
	bad = (struct columns){.bytes = {short_order, short_size}, .sizes = {1, 8}};
	for (int i = 2; i < COLUMNS; i++)
		bad.bytes[i] = nothing;
	cr_expect_eq(column_decoder__decode(decoder, &bad, decoded, 8), -EBADMSG,
		     "a size below its header's");
	bad.bytes[COLUMN_WHOLE] = odd_size;
	cr_expect_eq(column_decoder__decode(decoder, &bad, decoded, 16), -EBADMSG, "an odd size");
	odd_size[0] = 8;
	odd_size[4] = PERFX_KIND_LOSS;
	cr_expect_eq(column_decoder__decode(decoder, &bad, decoded, 8), -EBADMSG,
		     "none of the encoded kinds");
}

static struct pack_buffer buffer;

/* Bytes of the records that are all there. */
static size_t whole_records(const char *bytes, size_t size)
{
	struct perfx_record hdr;
	size_t at = 0;

	for (; at + sizeof(hdr) <= size; at += hdr.size) {
		memcpy(&hdr, bytes + at, sizeof(hdr));
		if (hdr.size > size - at)
			break;
	}
	return at;
}

static void add_records(struct capture_writer *writer, const char *bytes, size_t size)
{
	struct perfx_record hdr;

	for (size_t at = 0; at < size; at += hdr.size) {
		memcpy(&hdr, bytes + at, sizeof(hdr));
		cr_assert_eq(capture_writer__add(writer, bytes + at, hdr.size), 0);
	}
}

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

/* All records of all blocks that can be read. */
static void read_all(struct capture_reader *reader, struct text *all)
{
	const void *records;
	size_t size;
	int found;

	text_clear(all);
	while ((found = capture_reader__next(reader, &records, &size)) > 0)
		text_add_bytes(all, records, size);
	cr_assert_eq(found, 0);
}

static struct capture_reader *reopen_bytes(const void *bytes, size_t size)
{
	char path[32];
	int fd = temporary(path);

	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	close(fd);
	return reopen(path);
}

static void read_file(const char *path, struct text *file)
{
	char bytes[65536];
	int fd = open(path, O_RDONLY);
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		text_add_bytes(file, bytes, (size_t)n);
	close(fd);
}

/* A file as the writer makes it, a block from each of some stories of tests/golden; and where its
 * blocks begin, the end last. */
struct small {
	struct text file, records;
	size_t starts[GOLDEN_CASES + 1];
	size_t lengths[GOLDEN_CASES]; /* of the records in each */
};

static void write_stories(struct small *small, size_t first, size_t count)
{
	struct packer *packer = packer__new();
	struct capture_header header = {.version = CAPTURE_VERSION,
					.record_version = PERFX_RECORD_VERSION};

	memcpy(header.magic, CAPTURE_MAGIC, 8);
	text_add_bytes(&small->file, (const char *)&header, sizeof(header));
	for (uint32_t i = 0; i < count; i++) {
		struct stream s = {0};
		const void *block;
		size_t bytes;

		golden_cases[first + i].build(&s);
		/* the truncated story ends within a record */
		small->lengths[i] = whole_records(s.bytes.data, s.bytes.length);
		text_add_bytes(&small->records, s.bytes.data, small->lengths[i]);
		block = packer__pack(packer, s.bytes.data, small->lengths[i], i, &bytes);
		small->starts[i] = small->file.length;
		text_add_bytes(&small->file, block, bytes);
		stream_clear(&s);
	}
	small->starts[count] = small->file.length;
	packer__free(packer);
}

static void write_small(struct small *small)
{
	write_stories(small, 0, GOLDEN_CASES);
}

static void clear_small(struct small *small)
{
	text_clear(&small->file);
	text_clear(&small->records);
}

Test(capture, comes_back_as_it_was_written)
{
	char path[32];
	struct capture_writer *writer = capture_writer__new(temporary(path));
	struct text given = {0}, back = {0}, file = {0};
	struct capture_reader *reader;

	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		struct stream s = {0};

		golden_cases[i].build(&s);
		s.bytes.length = whole_records(s.bytes.data, s.bytes.length);
		add_records(writer, s.bytes.data, s.bytes.length);
		text_add_bytes(&given, s.bytes.data, s.bytes.length);
		cr_assert_eq(capture_writer__flush(writer), 0);
		stream_clear(&s);
	}
	cr_assert_eq(capture_writer__free(writer), 0);
	read_file(path, &file);
	reader = reopen(path);
	cr_assert_not_null(reader);
	read_all(reader, &back);
	cr_assert_eq(back.length, given.length);
	cr_assert_arr_eq(back.data, given.data, given.length);
	cr_expect_eq(capture_reader__damage(reader)->bytes, 0);
	cr_expect_lt(file.length, given.length);
	capture_reader__free(reader);
	text_clear(&given);
	text_clear(&back);
	text_clear(&file);
}

/* More than one block, more than the disk may be behind. */
Test(capture, comes_back_when_there_is_much)
{
	char path[32];
	struct capture_writer *writer = capture_writer__new(temporary(path));
	struct capture_reader *reader;
	const void *records;
	size_t size, blocks = 0;
	uint32_t count = 0;

	for (uint32_t i = 1; i <= 1000000; i++) {
		struct perfx_hits hits = {.probe = i, .hits_count = 2ull * i};
		const struct perfx_record *record = PACK(&buffer, PERFX_KIND_HITS, hits);

		cr_assert_eq(capture_writer__add(writer, record, record->size), 0);
	}
	cr_assert_eq(capture_writer__free(writer), 0);

	reader = reopen(path);
	cr_assert_not_null(reader);
	for (; capture_reader__next(reader, &records, &size) > 0; blocks++) {
		for (const char *at = records; size; size -= sizeof(struct perfx_hits)) {
			struct perfx_hits hits;

			memcpy(&hits, at, sizeof(hits));
			cr_assert_eq(hits.probe, ++count);
			cr_assert_eq(hits.hits_count, 2ull * count);
			at += sizeof(hits);
		}
	}
	cr_expect_eq(count, 1000000);
	cr_expect_geq(blocks, 1000000 * sizeof(struct perfx_hits) / COLUMNS_RECORDS_MAX);
	capture_reader__free(reader);
}

Test(capture, a_record_that_is_none_is_refused)
{
	char path[32];
	struct capture_writer *writer = capture_writer__new(temporary(path));
	struct perfx_hits hits = {.probe = 1};
	const struct perfx_record *record = PACK(&buffer, PERFX_KIND_HITS, hits);

	cr_expect_eq(capture_writer__add(writer, record, record->size - 4), -EINVAL);
	cr_expect_eq(capture_writer__add(writer, record, record->size - 8), -EINVAL);
	cr_expect_eq(capture_writer__add(writer, record, 0), -EINVAL);
	cr_expect_eq(capture_writer__add(writer, record, record->size), 0);
	cr_expect_eq(capture_writer__free(writer), 0);
	unlink(path);
}

static int open_bytes(const void *bytes, size_t size)
{
	struct capture_reader *reader = reopen_bytes(bytes, size);

	if (!reader)
		return errno;
	capture_reader__free(reader);
	return 0;
}

Test(capture, what_is_no_capture_is_refused)
{
	struct capture_header header = {
		{'P', 'E', 'R', 'F', 'X', 'C', 'A', 'P'}, CAPTURE_VERSION, PERFX_RECORD_VERSION};

	cr_expect_eq(open_bytes(&header, sizeof(header)), 0);
	cr_expect_eq(open_bytes(&header, sizeof(header) - 1), ENOEXEC);
	cr_expect_eq(open_bytes("", 0), ENOEXEC);
	header.record_version++;
	cr_expect_eq(open_bytes(&header, sizeof(header)), EPROTO);
	header.record_version--;
	header.version++;
	cr_expect_eq(open_bytes(&header, sizeof(header)), EPROTO);
	header.magic[0] = 'p';
	cr_expect_eq(open_bytes(&header, sizeof(header)), ENOEXEC);
	cr_expect_null(capture_reader__open("/tmp"));
	cr_expect_eq(errno, EISDIR);
	cr_expect_null(capture_reader__open("/no/such/file"));
	cr_expect_eq(errno, ENOENT);
}

Test(capture, a_full_disk_is_reported_once)
{
	struct perfx_hits hits = {.probe = 1};
	const struct perfx_record *record = PACK(&buffer, PERFX_KIND_HITS, hits);
	struct capture_writer *writer;
	struct rlimit limit;
	char path[32];
	int err = 0;

	cr_expect_null(capture_writer__new(open("/dev/full", O_WRONLY)));
	cr_expect_eq(errno, ENOSPC);
	/* a file that may not grow: as a full disk, without one */
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 100;
	writer = capture_writer__new(temporary(path));
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(capture_writer__add(writer, record, record->size), 0);
	capture_writer__flush(writer);
	for (int i = 0; i < 10000 && !err; i++) {
		usleep(1000);
		err = capture_writer__flush(writer);
	}
	cr_expect_eq(err, -EFBIG);
	cr_expect_eq(capture_writer__free(writer), -EFBIG);
	unlink(path);
}

/* Cut at every byte: the blocks before the cut come back, what is cut off is counted. */
/* Linked in place of libc's: the next one fails, as on a disk that has lost what was written. */
static int fdatasync_error;

int fdatasync(int fd)
{
	errno = fdatasync_error;
	fdatasync_error = 0;
	return errno ? -1 : fsync(fd);
}

Test(capture, a_disk_that_fails_once_has_failed)
{
	struct perfx_hits hits = {.probe = 1};
	const struct perfx_record *record = PACK(&buffer, PERFX_KIND_HITS, hits);
	char path[32];
	struct capture_writer *writer = capture_writer__new(temporary(path));
	int err = 0;

	fdatasync_error = EIO;
	cr_assert_eq(capture_writer__add(writer, record, record->size), 0);
	for (int i = 0; i < 10000 && !err; i++) {
		err = capture_writer__flush(writer);
		usleep(1000);
	}
	cr_expect_eq(err, -EIO);
	cr_expect_eq(fdatasync_error, 0, "the kernel tells of it once");
	cr_expect_eq(capture_writer__free(writer), -EIO);
	unlink(path);
}

/* Stories at a time, where a file is read once for each of its bytes. */
#define FEW_STORIES 3

static size_t few_stories(size_t first)
{
	return first + FEW_STORIES < GOLDEN_CASES ? FEW_STORIES : GOLDEN_CASES - first;
}

static void cut_everywhere(const struct small *small, struct text *back)
{
	for (size_t at = sizeof(struct capture_header); at < small->file.length;
	     at += rounds_stride(1)) {
		struct capture_reader *reader = reopen_bytes(small->file.data, at);
		size_t whole = 0, block = 0;

		for (; small->starts[block + 1] <= at; block++)
			whole += small->lengths[block];
		cr_assert_not_null(reader);
		read_all(reader, back);
		cr_assert_eq(back->length, whole, "cut at %zu", at);
		cr_assert(!whole || !memcmp(back->data, small->records.data, whole));
		cr_assert_eq(capture_reader__damage(reader)->bytes, at - small->starts[block]);
		capture_reader__free(reader);
	}
}

Test(capture, cut_anywhere)
{
	struct text back = {0};

	for (size_t first = 0; first < GOLDEN_CASES; first += FEW_STORIES) {
		struct small small = {0};

		write_stories(&small, first, few_stories(first));
		cut_everywhere(&small, &back);
		clear_small(&small);
	}
	text_clear(&back);
}

static size_t length_but(const struct small *small, size_t block)
{
	return small->records.length - small->lengths[block];
}

static void change_each_byte(struct small *small, struct text *back)
{
	size_t block = 0;

	for (size_t at = small->starts[0]; at < small->file.length; at += rounds_stride(7)) {
		struct capture_reader *reader;

		while (at >= small->starts[block + 1])
			block++;
		small->file.data[at] ^= (char)(1 << at % 8);
		reader = reopen_bytes(small->file.data, small->file.length);
		small->file.data[at] ^= (char)(1 << at % 8);
		read_all(reader, back);
		cr_assert_eq(back->length, length_but(small, block), "byte %zu", at);
		cr_assert_eq(capture_reader__damage(reader)->bytes,
			     small->starts[block + 1] - small->starts[block]);
		cr_assert_eq(capture_reader__damage(reader)->places, 1);
		capture_reader__free(reader);
	}
}

/* Any byte of any block changed: the others come back, none of it does. */
Test(capture, one_byte_wrong)
{
	struct text back = {0};

	for (size_t first = 0; first < GOLDEN_CASES; first += FEW_STORIES) {
		struct small small = {0};

		write_stories(&small, first, few_stories(first));
		change_each_byte(&small, &back);
		clear_small(&small);
	}
	text_clear(&back);
}

/* A block that is gone altogether is noticed by the numbers of the others; one that is there twice
 * counts once. */
Test(capture, blocks_missing_and_doubled)
{
	struct small small = {0};
	struct text back = {0}, file = {0};
	const struct capture_damage *damage;
	struct capture_reader *reader;
	size_t second;

	write_small(&small);
	second = small.starts[2] - small.starts[1];
	text_add_bytes(&file, small.file.data, small.starts[1]);
	text_add_bytes(&file, small.file.data + small.starts[2],
		       small.file.length - small.starts[2]);
	reader = reopen_bytes(file.data, file.length);
	read_all(reader, &back);
	damage = capture_reader__damage(reader);
	cr_expect_eq(back.length, length_but(&small, 1));
	cr_expect_eq(damage->bytes, sizeof(struct block_header));
	cr_expect_eq(damage->places, 1);
	capture_reader__free(reader);

	text_clear(&file);
	text_add_bytes(&file, small.file.data, small.starts[2]);
	text_add_bytes(&file, small.file.data + small.starts[1],
		       small.file.length - small.starts[1]);
	reader = reopen_bytes(file.data, file.length);
	read_all(reader, &back);
	damage = capture_reader__damage(reader);
	cr_expect_eq(back.length, small.records.length);
	cr_expect_arr_eq(back.data, small.records.data, back.length);
	cr_expect_eq(damage->bytes, second);
	capture_reader__free(reader);
	text_clear(&back);
	text_clear(&file);
	clear_small(&small);
}

static void seal(struct block_header *header)
{
	header->header_crc =
		(uint32_t)crc32(0, (const void *)header, offsetof(struct block_header, header_crc));
}

/* What a later version may put between blocks. */
Test(capture, strange_blocks_are_skipped)
{
	struct small small = {0};
	struct text back = {0}, file = {0};
	struct block_header strange = {.type = 77, .payload_bytes = 1000, .sequence = 1};
	struct pipeline pipeline = {.aggregate = aggregate__new()};
	struct capture_reader *reader;
	char payload[1000];

	write_small(&small);
	memcpy(strange.sync, BLOCK_SYNC, BLOCK_SYNC_BYTES);
	seal(&strange);
	memset(payload, 'P', sizeof(payload));
	memcpy(payload + 100, BLOCK_SYNC, BLOCK_SYNC_BYTES);
	text_add_bytes(&file, small.file.data, small.starts[1]);
	text_add_bytes(&file, (const char *)&strange, sizeof(strange));
	text_add_bytes(&file, payload, sizeof(payload));
	for (uint32_t i = 1; i < GOLDEN_CASES; i++) {
		struct block_header header;
		const char *block = small.file.data + small.starts[i];

		memcpy(&header, block, sizeof(header));
		header.sequence++;
		seal(&header);
		text_add_bytes(&file, (const char *)&header, sizeof(header));
		text_add_bytes(&file, block + sizeof(header),
			       small.starts[i + 1] - small.starts[i] - sizeof(header));
	}
	reader = reopen_bytes(file.data, file.length);
	read_all(reader, &back);
	cr_expect_eq(back.length, small.records.length);
	cr_expect_eq(capture_reader__damage(reader)->bytes, 0);
	cr_expect_eq(capture_reader__damage(reader)->strange_blocks, 1);
	capture_reader__free(reader);

	reader = reopen_bytes(file.data, file.length);
	cr_assert_eq(pipeline_replay(&pipeline, reader), 0);
	cr_expect_geq(aggregate__finish(pipeline.aggregate)->losses[PERFX_LOSS_UNDECODED], 1);
	aggregate__free(pipeline.aggregate);
	capture_reader__free(reader);
	text_clear(&back);
	text_clear(&file);
	clear_small(&small);
}

static void damage(struct text *file, size_t from)
{
	for (int hits = 1 + rand() % 8; hits; hits--) {
		size_t at = from + (size_t)rand() % (file->length - from);

		if (rand() % 2)
			file->data[at] = (char)rand();
		else
			file->data[at] ^= (char)(1 << rand() % 8);
	}
	if (rand() % 8 == 0)
		file->length = from + (size_t)rand() % (file->length - from) + 1;
}

/* A thousand damaged files: each is read to its end, and nothing comes back that was not given.
 */
Test(capture, damaged_files)
{
	struct small small = {0};
	struct text back = {0}, bad = {0};

	srand(8);
	write_small(&small);
	for (int round = 0; round < rounds(1000); round++) {
		struct capture_reader *reader;

		text_clear(&bad);
		text_add_bytes(&bad, small.file.data, small.file.length);
		damage(&bad, sizeof(struct capture_header));
		reader = reopen_bytes(bad.data, bad.length);
		read_all(reader, &back);
		cr_assert_leq(back.length, small.records.length);
		cr_assert(back.length == small.records.length ||
			  capture_reader__damage(reader)->bytes || bad.length < small.file.length);
		capture_reader__free(reader);
	}
	text_clear(&back);
	text_clear(&bad);
	clear_small(&small);
}

Test(sink, damage_and_strange_records_are_counted)
{
	struct perfx_record strange = {.size = 16, .kind = 999, .fixed = 8};
	struct perfx_loss loss = {.loss = PERFX_LOSS_NMISSED, .count = 5};
	struct pipeline pipeline = {.aggregate = aggregate__new()};
	const struct perfx_record *record;
	const struct profile *profile;
	struct capture_writer *writer;
	struct capture_reader *reader;
	char path[32], bytes[16] = {0};
	int fd = temporary(path);

	writer = capture_writer__new(dup(fd));
	memcpy(bytes, &strange, sizeof(strange));
	capture_writer__add(writer, bytes, sizeof(bytes));
	record = PACK(&buffer, PERFX_KIND_LOSS, loss);
	capture_writer__add(writer, record, record->size);
	cr_assert_eq(capture_writer__free(writer), 0);
	cr_assert_eq(write(fd, "of something else", 17), 17);
	close(fd);

	reader = reopen(path);
	cr_assert_eq(pipeline_replay(&pipeline, reader), 0);
	profile = aggregate__finish(pipeline.aggregate);
	cr_expect_eq(profile->losses[PERFX_LOSS_NMISSED], 5);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 1);
	cr_expect_eq(profile->losses[PERFX_LOSS_TRUNCATED_BYTES], 17);
	capture_reader__free(reader);
	aggregate__free(pipeline.aggregate);
}
