// SPDX-License-Identifier: BSD-2-Clause
#include "capture/block.h"

#include "base/grow.h"
#include "perfx_record.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* In the ORDER column; from ORDER_LIKE on it is the template's number. */
#define ORDER_WHOLE    0 /* the next of WHOLE */
#define ORDER_TEMPLATE 1 /* the next of WHOLE, and those to come may be like it */
#define ORDER_LIKE     2

#define TEMPLATES_MAX 8192

#define VARINT_MAX 10 /* bytes of 64 bits by seven */

enum shape { SHAPE_NONE, SHAPE_SPAN, SHAPE_COST, SHAPE_MEMORY };

/* The records that are encoded, by their headers. All have three words of their own after it. */
static inline enum shape shape_of(const struct perfx_record *hdr)
{
	if (hdr->size != hdr->fixed)
		return SHAPE_NONE;
	if (hdr->kind == PERFX_KIND_SPAN && hdr->size == PERFX_SPAN_PLAIN_BYTES)
		return SHAPE_SPAN;
	if (hdr->kind == PERFX_KIND_SPAN && hdr->size == PERFX_SPAN_COST_BYTES)
		return SHAPE_COST;
	if (hdr->kind == PERFX_KIND_ALLOCATION && hdr->size == sizeof(struct perfx_allocation))
		return SHAPE_MEMORY;
	if (hdr->kind == PERFX_KIND_FREE && hdr->size == sizeof(struct perfx_free))
		return SHAPE_MEMORY;
	return SHAPE_NONE;
}

/* Words of a record, 8 bytes each: the header; three of its own; up to three that it shares with
 * its template; flops and bytes of a span with a known cost. */
#define WORD_OWN    1
#define WORD_SHARED 4
#define WORD_COST   7
#define WORDS_MAX   9

_Static_assert(offsetof(struct perfx_span, start_ns) == 8 &&
		       offsetof(struct perfx_span, duration_ns) == 16 &&
		       offsetof(struct perfx_span, self_ns) == 24 &&
		       offsetof(struct perfx_span, flops) == 56 &&
		       offsetof(struct perfx_span, bytes) == 64,
	       "docs/capture.md: words of a span");
_Static_assert(offsetof(struct perfx_allocation, time_ns) == 8 &&
		       offsetof(struct perfx_allocation, address) == 16 &&
		       offsetof(struct perfx_allocation, size_bytes) == 24 &&
		       offsetof(struct perfx_free, time_ns) == 8 &&
		       offsetof(struct perfx_free, address) == 16 &&
		       offsetof(struct perfx_free, size_bytes) == 24,
	       "docs/capture.md: words of a memory record");

/* A template, and what the next record of it is compared with. */
struct template
{
	uint64_t words[WORDS_MAX];
	uint32_t size;
	enum shape shape;
};

/* Small numbers of either sign → small numbers: 0 -1 1 -2 2 … */
static inline uint64_t zigzag(uint64_t difference)
{
	return (difference << 1) ^ -(difference >> 63);
}

static inline uint64_t unzigzag(uint64_t value)
{
	return (value >> 1) ^ -(value & 1);
}

#define SLOTS (2 * TEMPLATES_MAX)

/* Room of a column but WHOLE: the shortest record that is encoded, 48 bytes, gives 10 to one of
 * them; the shortest of all, 8 bytes, gives 1 to ORDER. */
#define COLUMN_ROOM (COLUMNS_RECORDS_MAX / 4 + VARINT_MAX)

struct column_encoder {
	struct columns columns;
	struct template templates[TEMPLATES_MAX];
	uint32_t templates_count;
	uint16_t slots[SLOTS]; /* template + 1 by its hash; 0: empty */
	uint64_t span_end, memory_time;
	unsigned char rooms[COLUMNS_RECORDS_MAX + (COLUMNS - 1) * COLUMN_ROOM];
};

struct column_encoder *column_encoder__new(void)
{
	struct column_encoder *encoder = calloc(1, sizeof(*encoder));
	unsigned char *room;

	if (!encoder)
		return NULL;
	room = encoder->rooms;
	for (int i = 0; i < COLUMNS; i++) {
		encoder->columns.bytes[i] = room;
		room += i == COLUMN_WHOLE ? COLUMNS_RECORDS_MAX : COLUMN_ROOM;
	}
	return encoder;
}

void column_encoder__free(struct column_encoder *encoder)
{
	free(encoder);
}

static void put_value(struct column_encoder *encoder, enum column column, uint64_t value)
{
	unsigned char *at = encoder->columns.bytes[column] + encoder->columns.sizes[column];
	unsigned char *to = at;

	for (; value >= 0x80; value >>= 7)
		*to++ = (unsigned char)(value | 0x80);
	*to++ = (unsigned char)value;
	encoder->columns.sizes[column] += (size_t)(to - at);
}

static void put_bytes(struct column_encoder *encoder, enum column column, const void *bytes,
		      size_t size)
{
	memcpy(encoder->columns.bytes[column] + encoder->columns.sizes[column], bytes, size);
	encoder->columns.sizes[column] += size;
}

static uint32_t hash_of(const uint64_t *words)
{
	uint64_t hash = words[0];

	for (int i = 0; i < 3; i++)
		hash = (hash ^ words[WORD_SHARED + i]) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash >> 40) % SLOTS;
}

/* The template that the record is like, or a new one, empty; NULL: there are too many. */
static struct template *find_template(struct column_encoder *encoder, const uint64_t *words)
{
	uint32_t slot = hash_of(words);

	for (; encoder->slots[slot]; slot = (slot + 1) % SLOTS) {
		struct template *template = &encoder->templates[encoder->slots[slot] - 1];

		if (template->words[0] == words[0] &&
		    !memcmp(&template->words[WORD_SHARED], &words[WORD_SHARED], 3 * sizeof(*words)))
			return template;
	}
	if (encoder->templates_count == TEMPLATES_MAX)
		return NULL;
	encoder->slots[slot] = (uint16_t)++encoder->templates_count;
	encoder->templates[encoder->templates_count - 1].shape = SHAPE_NONE;
	return &encoder->templates[encoder->templates_count - 1];
}

static void encode_known(struct column_encoder *encoder, const unsigned char *record, uint32_t size,
			 enum shape shape)
{
	uint64_t words[WORDS_MAX] = {0};
	const uint64_t *own = &words[WORD_OWN], *cost = &words[WORD_COST];
	struct template *template;

	memcpy(words, record, size);
	template = find_template(encoder, words);
	if (!template || template->shape == SHAPE_NONE) {
		put_value(encoder, COLUMN_ORDER, template ? ORDER_TEMPLATE : ORDER_WHOLE);
		put_bytes(encoder, COLUMN_WHOLE, record, size);
		if (!template)
			return;
		memcpy(template->words, words, sizeof(words));
		template->shape = shape;
		return;
	}
	put_value(encoder, COLUMN_ORDER, (uint64_t)(template - encoder->templates) + ORDER_LIKE);
	if (shape == SHAPE_MEMORY) {
		put_value(encoder, COLUMN_MEMORY_TIME, zigzag(own[0] - encoder->memory_time));
		put_bytes(encoder, COLUMN_MEMORY_ADDRESS, &own[1], sizeof(own[1]));
		put_value(encoder, COLUMN_MEMORY_SIZE, own[2]);
		encoder->memory_time = own[0];
	} else {
		uint64_t end = own[0] + own[1];

		put_value(encoder, COLUMN_SPAN_END, zigzag(end - encoder->span_end));
		put_value(encoder, COLUMN_SPAN_DURATION, own[1]);
		put_value(encoder, COLUMN_SPAN_CALLED, own[1] - own[2]);
		encoder->span_end = end;
	}
	if (shape == SHAPE_COST) {
		put_value(encoder, COLUMN_SPAN_FLOPS, zigzag(cost[0] - template->words[WORD_COST]));
		put_value(encoder, COLUMN_SPAN_BYTES,
			  zigzag(cost[1] - template->words[WORD_COST + 1]));
		memcpy(&template->words[WORD_COST], cost, 2 * sizeof(*cost));
	}
}

const struct columns *column_encoder__encode(struct column_encoder *encoder, const void *records,
					     size_t size)
{
	const unsigned char *record = records, *end = record + size;
	struct perfx_record hdr;

	memset(encoder->columns.sizes, 0, sizeof(encoder->columns.sizes));
	memset(encoder->slots, 0, sizeof(encoder->slots));
	encoder->templates_count = 0;
	encoder->span_end = encoder->memory_time = 0;
	for (; record < end; record += hdr.size) {
		enum shape shape;

		memcpy(&hdr, record, sizeof(hdr));
		shape = shape_of(&hdr);
		if (shape != SHAPE_NONE) {
			encode_known(encoder, record, hdr.size, shape);
			continue;
		}
		put_value(encoder, COLUMN_ORDER, ORDER_WHOLE);
		put_bytes(encoder, COLUMN_WHOLE, record, hdr.size);
	}
	return &encoder->columns;
}

struct column_decoder {
	struct template templates[TEMPLATES_MAX];
	uint32_t templates_count;
	uint64_t span_end, memory_time;
	const unsigned char *at[COLUMNS], *end[COLUMNS];
};

struct column_decoder *column_decoder__new(void)
{
	return calloc(1, sizeof(struct column_decoder));
}

void column_decoder__free(struct column_decoder *decoder)
{
	free(decoder);
}

static bool read_long_varint(struct column_decoder *decoder, enum column column, uint64_t *value)
{
	const unsigned char *at = decoder->at[column];
	unsigned shift = 0;
	uint64_t sum = 0;

	for (; at < decoder->end[column] && shift < 7 * VARINT_MAX; shift += 7) {
		unsigned char byte = *at++;

		sum |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (shift == 63 && byte > 1) /* more than 64 bits */
			return false;
		decoder->at[column] = at;
		*value = sum;
		return true;
	}
	return false;
}

/* Most are of one byte or two. */
static inline bool read_varint(struct column_decoder *decoder, enum column column, uint64_t *value)
{
	const unsigned char *at = decoder->at[column];

	if (decoder->end[column] - at < 2)
		return read_long_varint(decoder, column, value);
	if (at[0] < 0x80) {
		*value = at[0];
		decoder->at[column] = at + 1;
		return true;
	}
	if (at[1] < 0x80) {
		*value = (at[0] & 0x7fu) | (uint64_t)at[1] << 7;
		decoder->at[column] = at + 2;
		return true;
	}
	return read_long_varint(decoder, column, value);
}

static inline bool read_bytes(struct column_decoder *decoder, enum column column, void *to,
			      size_t size)
{
	if ((size_t)(decoder->end[column] - decoder->at[column]) < size)
		return false;
	memcpy(to, decoder->at[column], size);
	decoder->at[column] += size;
	return true;
}

static bool decode_span(struct column_decoder *decoder, uint64_t *own)
{
	uint64_t end, called;

	if (!read_varint(decoder, COLUMN_SPAN_END, &end) ||
	    !read_varint(decoder, COLUMN_SPAN_DURATION, &own[1]) ||
	    !read_varint(decoder, COLUMN_SPAN_CALLED, &called))
		return false;
	decoder->span_end += unzigzag(end);
	own[0] = decoder->span_end - own[1];
	own[2] = own[1] - called;
	return true;
}

static bool decode_memory(struct column_decoder *decoder, uint64_t *own)
{
	uint64_t time;

	if (!read_varint(decoder, COLUMN_MEMORY_TIME, &time) ||
	    !read_bytes(decoder, COLUMN_MEMORY_ADDRESS, &own[1], sizeof(own[1])) ||
	    !read_varint(decoder, COLUMN_MEMORY_SIZE, &own[2]))
		return false;
	decoder->memory_time += unzigzag(time);
	own[0] = decoder->memory_time;
	return true;
}

/* Each returns the size of the record that it has put at `to`, where there is so much room; 0:
 * damage. */
static size_t decode_like(struct column_decoder *decoder, uint64_t number, unsigned char *to,
			  size_t room)
{
	struct template *template;
	uint64_t *words, flops, bytes;

	if (number >= decoder->templates_count)
		return 0;
	template = &decoder->templates[number];
	words = template->words;
	if (template->size > room)
		return 0;
	if (!(template->shape == SHAPE_MEMORY ? decode_memory(decoder, &words[WORD_OWN])
					      : decode_span(decoder, &words[WORD_OWN])))
		return 0;
	if (template->shape == SHAPE_COST) {
		if (!read_varint(decoder, COLUMN_SPAN_FLOPS, &flops) ||
		    !read_varint(decoder, COLUMN_SPAN_BYTES, &bytes))
			return 0;
		words[WORD_COST] += unzigzag(flops);
		words[WORD_COST + 1] += unzigzag(bytes);
	}
	memcpy(to, words, template->size);
	return template->size;
}

static size_t decode_whole(struct column_decoder *decoder, bool is_template, unsigned char *to,
			   size_t room)
{
	struct template *template = &decoder->templates[decoder->templates_count];
	struct perfx_record hdr;

	if (room < sizeof(hdr) || !read_bytes(decoder, COLUMN_WHOLE, &hdr, sizeof(hdr)))
		return 0;
	if (hdr.size < sizeof(hdr) || hdr.size > PERFX_RECORD_MAX || hdr.size % 8 ||
	    hdr.size > room)
		return 0;
	memcpy(to, &hdr, sizeof(hdr));
	if (!read_bytes(decoder, COLUMN_WHOLE, to + sizeof(hdr), hdr.size - sizeof(hdr)))
		return 0;
	if (!is_template)
		return hdr.size;
	if (decoder->templates_count == TEMPLATES_MAX || shape_of(&hdr) == SHAPE_NONE)
		return 0;
	template->shape = shape_of(&hdr);
	template->size = hdr.size;
	memcpy(template->words, to, hdr.size);
	decoder->templates_count++;
	return hdr.size;
}

int column_decoder__decode(struct column_decoder *decoder, const struct columns *columns,
			   void *records, size_t size)
{
	unsigned char *to = records, *end = to + size;

	decoder->templates_count = 0;
	decoder->span_end = decoder->memory_time = 0;
	for (int i = 0; i < COLUMNS; i++) {
		decoder->at[i] = columns->bytes[i];
		decoder->end[i] = columns->bytes[i] + columns->sizes[i];
	}
	while (to < end) {
		size_t used, room = (size_t)(end - to);
		uint64_t order;

		if (!read_varint(decoder, COLUMN_ORDER, &order))
			return -EBADMSG;
		used = order >= ORDER_LIKE
			       ? decode_like(decoder, order - ORDER_LIKE, to, room)
			       : decode_whole(decoder, order == ORDER_TEMPLATE, to, room);
		if (!used)
			return -EBADMSG;
		to += used;
	}
	for (int i = 0; i < COLUMNS; i++)
		if (decoder->at[i] != decoder->end[i])
			return -EBADMSG;
	return 0;
}

/* Fast enough for a flood, and columns leave little for the slower levels to find. */
#define LEVEL 1

/* At the start of a payload. Stored as it is where compressing it gains nothing. */
struct column_sizes {
	uint32_t bytes, stored_bytes;
};

struct payload_head {
	uint32_t columns_count;
	uint32_t pad;
	struct column_sizes columns[COLUMNS];
};

_Static_assert(sizeof(struct block_header) == 32, "docs/capture.md: header of a block");
_Static_assert(sizeof(struct payload_head) == 88, "docs/capture.md: head of a payload");

static uint32_t crc_of(const void *bytes, size_t size)
{
	return (uint32_t)crc32_z(0, bytes, size);
}

bool block_header_read(struct block_header *header, const void *bytes, size_t size)
{
	if (size < sizeof(*header))
		return false;
	memcpy(header, bytes, sizeof(*header));
	return !memcmp(header->sync, BLOCK_SYNC, BLOCK_SYNC_BYTES) &&
	       header->header_crc == crc_of(header, offsetof(struct block_header, header_crc));
}

struct packer {
	struct column_encoder *encoder;
	ZSTD_CCtx *zstd;
	struct {
		struct block_header header;
		struct payload_head head;
		unsigned char rest[COLUMNS_GROWTH * COLUMNS_RECORDS_MAX];
	} block;
};

struct packer *packer__new(void)
{
	struct packer *packer = calloc(1, sizeof(*packer));

	if (!packer)
		return NULL;
	packer->encoder = column_encoder__new();
	packer->zstd = ZSTD_createCCtx();
	if (packer->encoder && packer->zstd)
		return packer;
	packer__free(packer);
	errno = ENOMEM;
	return NULL;
}

void packer__free(struct packer *packer)
{
	if (!packer)
		return;
	column_encoder__free(packer->encoder);
	ZSTD_freeCCtx(packer->zstd);
	free(packer);
}

/* Compresses a column. Returns the bytes stored: never more than the column has. */
static size_t store(struct packer *packer, unsigned char *to, const unsigned char *column,
		    size_t size)
{
	size_t stored = size ? ZSTD_compressCCtx(packer->zstd, to, size, column, size, LEVEL) : 0;

	if (!ZSTD_isError(stored) && stored < size)
		return stored;
	memcpy(to, column, size);
	return size;
}

const void *packer__pack(struct packer *packer, const void *records, size_t size, uint32_t sequence,
			 size_t *bytes)
{
	const struct columns *columns = column_encoder__encode(packer->encoder, records, size);
	struct block_header *header = &packer->block.header;
	struct payload_head *head = &packer->block.head;
	unsigned char *to = packer->block.rest;

	*head = (struct payload_head){.columns_count = COLUMNS};
	for (int i = 0; i < COLUMNS; i++) {
		size_t stored = store(packer, to, columns->bytes[i], columns->sizes[i]);

		head->columns[i] =
			(struct column_sizes){(uint32_t)columns->sizes[i], (uint32_t)stored};
		to += stored;
	}
	*header = (struct block_header){.type = BLOCK_RECORDS,
					.payload_bytes = (uint32_t)(to - (unsigned char *)head),
					.records_bytes = (uint32_t)size,
					.sequence = sequence};
	memcpy(header->sync, BLOCK_SYNC, BLOCK_SYNC_BYTES);
	header->payload_crc = crc_of(head, header->payload_bytes);
	header->header_crc = crc_of(header, offsetof(struct block_header, header_crc));
	*bytes = sizeof(*header) + header->payload_bytes;
	return header;
}

void block_renumber(void *block, uint32_t sequence)
{
	struct block_header header;

	memcpy(&header, block, sizeof(header));
	header.sequence = sequence;
	header.header_crc = crc_of(&header, offsetof(struct block_header, header_crc));
	memcpy(block, &header, sizeof(header));
}

struct unpacker {
	struct column_decoder *decoder;
	ZSTD_DCtx *zstd;
	unsigned char *columns, *records;
	size_t columns_capacity, records_capacity;
};

struct unpacker *unpacker__new(void)
{
	struct unpacker *unpacker = calloc(1, sizeof(*unpacker));

	if (!unpacker)
		return NULL;
	unpacker->decoder = column_decoder__new();
	unpacker->zstd = ZSTD_createDCtx();
	if (unpacker->decoder && unpacker->zstd)
		return unpacker;
	unpacker__free(unpacker);
	errno = ENOMEM;
	return NULL;
}

void unpacker__free(struct unpacker *unpacker)
{
	if (!unpacker)
		return;
	column_decoder__free(unpacker->decoder);
	ZSTD_freeDCtx(unpacker->zstd);
	free(unpacker->columns);
	free(unpacker->records);
	free(unpacker);
}

/* Bytes of all columns, opened; 0: the head cannot be right. */
static size_t check_head(const struct payload_head *head, const struct block_header *header)
{
	uint64_t bytes = 0, stored = sizeof(*head);

	if (head->columns_count != COLUMNS)
		return 0;
	for (int i = 0; i < COLUMNS; i++) {
		bytes += head->columns[i].bytes;
		stored += head->columns[i].stored_bytes;
	}
	if (stored != header->payload_bytes ||
	    bytes > (uint64_t)COLUMNS_GROWTH * header->records_bytes)
		return 0;
	return bytes;
}

const void *unpacker__unpack(struct unpacker *unpacker, const struct block_header *header,
			     const void *payload)
{
	const unsigned char *from = (const unsigned char *)payload + sizeof(struct payload_head);
	struct payload_head head;
	struct columns columns;
	unsigned char *to;
	size_t bytes = 0;

	if (header->payload_bytes >= sizeof(head) && header->records_bytes &&
	    header->records_bytes <= BLOCK_RECORDS_MAX &&
	    header->payload_crc == crc_of(payload, header->payload_bytes)) {
		memcpy(&head, payload, sizeof(head));
		bytes = check_head(&head, header);
	}
	if (!bytes)
		goto damaged;
	if (grow_array(&unpacker->columns, &unpacker->columns_capacity, bytes, 1) ||
	    grow_array(&unpacker->records, &unpacker->records_capacity, header->records_bytes, 1)) {
		errno = ENOMEM;
		return NULL;
	}
	to = unpacker->columns;
	for (int i = 0; i < COLUMNS; i++) {
		size_t size = head.columns[i].bytes, stored = head.columns[i].stored_bytes;

		if (size == stored)
			memcpy(to, from, size);
		else if (ZSTD_decompressDCtx(unpacker->zstd, to, size, from, stored) != size)
			goto damaged;
		columns.bytes[i] = to;
		columns.sizes[i] = size;
		from += stored;
		to += size;
	}
	if (!column_decoder__decode(unpacker->decoder, &columns, unpacker->records,
				    header->records_bytes))
		return unpacker->records;
damaged:
	errno = EBADMSG;
	return NULL;
}
