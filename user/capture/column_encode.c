// SPDX-License-Identifier: BSD-2-Clause
#include "capture/columns.h"

#include "capture/columns_internal.h"

#include <stdlib.h>

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

static void put(struct column_encoder *encoder, enum column column, uint64_t value)
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

static bool is_like(const struct template *template, const uint64_t *words)
{
	return template->words[0] == words[0] &&
	       !memcmp(&template->words[WORD_SHARED], &words[WORD_SHARED], 3 * sizeof(*words));
}

/* The template that the record is like, or a new one, empty; NULL: there are too many. */
static struct template *find(struct column_encoder *encoder, const uint64_t *words)
{
	uint32_t slot = hash_of(words);

	for (; encoder->slots[slot]; slot = (slot + 1) % SLOTS) {
		struct template *template = &encoder->templates[encoder->slots[slot] - 1];

		if (is_like(template, words))
			return template;
	}
	if (encoder->templates_count == TEMPLATES_MAX)
		return NULL;
	encoder->slots[slot] = (uint16_t)++encoder->templates_count;
	encoder->templates[encoder->templates_count - 1].shape = SHAPE_NONE;
	return &encoder->templates[encoder->templates_count - 1];
}

static void put_span(struct column_encoder *encoder, const uint64_t *own)
{
	uint64_t end = own[0] + own[1];

	put(encoder, COLUMN_SPAN_END, zigzag(end - encoder->span_end));
	put(encoder, COLUMN_SPAN_DURATION, own[1]);
	put(encoder, COLUMN_SPAN_CALLED, own[1] - own[2]);
	encoder->span_end = end;
}

static void put_memory(struct column_encoder *encoder, const uint64_t *own)
{
	put(encoder, COLUMN_MEMORY_TIME, zigzag(own[0] - encoder->memory_time));
	put_bytes(encoder, COLUMN_MEMORY_ADDRESS, &own[1], sizeof(own[1]));
	put(encoder, COLUMN_MEMORY_SIZE, own[2]);
	encoder->memory_time = own[0];
}

static void put_cost(struct column_encoder *encoder, struct template *template,
		     const uint64_t *cost)
{
	uint64_t *last = &template->words[WORD_COST];

	put(encoder, COLUMN_SPAN_FLOPS, zigzag(cost[0] - last[0]));
	put(encoder, COLUMN_SPAN_BYTES, zigzag(cost[1] - last[1]));
	memcpy(last, cost, 2 * sizeof(*cost));
}

static void encode_known(struct column_encoder *encoder, const unsigned char *record, uint32_t size,
			 enum shape shape)
{
	uint64_t words[WORDS_MAX] = {0};
	struct template *template;

	memcpy(words, record, size);
	template = find(encoder, words);
	if (!template || template->shape == SHAPE_NONE) {
		put(encoder, COLUMN_ORDER, template ? ORDER_TEMPLATE : ORDER_WHOLE);
		put_bytes(encoder, COLUMN_WHOLE, record, size);
		if (!template)
			return;
		memcpy(template->words, words, sizeof(words));
		template->shape = shape;
		return;
	}
	put(encoder, COLUMN_ORDER, (uint64_t)(template - encoder->templates) + ORDER_LIKE);
	if (shape == SHAPE_MEMORY)
		put_memory(encoder, &words[WORD_OWN]);
	else
		put_span(encoder, &words[WORD_OWN]);
	if (shape == SHAPE_COST)
		put_cost(encoder, template, &words[WORD_COST]);
}

static void start(struct column_encoder *encoder)
{
	memset(encoder->columns.sizes, 0, sizeof(encoder->columns.sizes));
	memset(encoder->slots, 0, sizeof(encoder->slots));
	encoder->templates_count = 0;
	encoder->span_end = encoder->memory_time = 0;
}

const struct columns *column_encoder__encode(struct column_encoder *encoder, const void *records,
					     size_t size)
{
	const unsigned char *record = records, *end = record + size;
	struct perfx_record hdr;

	start(encoder);
	for (; record < end; record += hdr.size) {
		enum shape shape;

		memcpy(&hdr, record, sizeof(hdr));
		shape = shape_of(&hdr);
		if (shape != SHAPE_NONE) {
			encode_known(encoder, record, hdr.size, shape);
			continue;
		}
		put(encoder, COLUMN_ORDER, ORDER_WHOLE);
		put_bytes(encoder, COLUMN_WHOLE, record, hdr.size);
	}
	return &encoder->columns;
}
