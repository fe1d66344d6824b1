// SPDX-License-Identifier: BSD-2-Clause
#include "capture/fold.h"

#include "capture/fold_internal.h"

#include <stdlib.h>

#define SLOTS (2 * TEMPLATES_MAX)

/* Room of a column but WHOLE: the shortest record that is folded, 48 bytes, gives 10 to one of
 * them; the shortest of all, 8 bytes, gives 1 to ORDER. */
#define COLUMN_ROOM (FOLD_RECORDS_MAX / 4 + VARINT_MAX)

struct folder {
	struct columns columns;
	struct template templates[TEMPLATES_MAX];
	uint32_t templates_count;
	uint16_t slots[SLOTS]; /* template + 1 by its hash; 0: empty */
	uint64_t span_end, memory_time;
	unsigned char rooms[FOLD_RECORDS_MAX + (COLUMNS - 1) * COLUMN_ROOM];
};

struct folder *folder__new(void)
{
	struct folder *folder = calloc(1, sizeof(*folder));
	unsigned char *room;

	if (!folder)
		return NULL;
	room = folder->rooms;
	for (int i = 0; i < COLUMNS; i++) {
		folder->columns.bytes[i] = room;
		room += i == COLUMN_WHOLE ? FOLD_RECORDS_MAX : COLUMN_ROOM;
	}
	return folder;
}

void folder__free(struct folder *folder)
{
	free(folder);
}

static void put(struct folder *folder, enum column column, uint64_t value)
{
	unsigned char *at = folder->columns.bytes[column] + folder->columns.sizes[column];
	unsigned char *to = at;

	for (; value >= 0x80; value >>= 7)
		*to++ = (unsigned char)(value | 0x80);
	*to++ = (unsigned char)value;
	folder->columns.sizes[column] += (size_t)(to - at);
}

static void put_bytes(struct folder *folder, enum column column, const void *bytes, size_t size)
{
	memcpy(folder->columns.bytes[column] + folder->columns.sizes[column], bytes, size);
	folder->columns.sizes[column] += size;
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
static struct template *find(struct folder *folder, const uint64_t *words)
{
	uint32_t slot = hash_of(words);

	for (; folder->slots[slot]; slot = (slot + 1) % SLOTS) {
		struct template *template = &folder->templates[folder->slots[slot] - 1];

		if (is_like(template, words))
			return template;
	}
	if (folder->templates_count == TEMPLATES_MAX)
		return NULL;
	folder->slots[slot] = (uint16_t)++folder->templates_count;
	folder->templates[folder->templates_count - 1].shape = SHAPE_NONE;
	return &folder->templates[folder->templates_count - 1];
}

static void put_span(struct folder *folder, const uint64_t *own)
{
	uint64_t end = own[0] + own[1];

	put(folder, COLUMN_SPAN_END, zigzag(end - folder->span_end));
	put(folder, COLUMN_SPAN_DURATION, own[1]);
	put(folder, COLUMN_SPAN_CALLED, own[1] - own[2]);
	folder->span_end = end;
}

static void put_memory(struct folder *folder, const uint64_t *own)
{
	put(folder, COLUMN_MEMORY_TIME, zigzag(own[0] - folder->memory_time));
	put_bytes(folder, COLUMN_MEMORY_ADDRESS, &own[1], sizeof(own[1]));
	put(folder, COLUMN_MEMORY_SIZE, own[2]);
	folder->memory_time = own[0];
}

static void put_figure(struct folder *folder, struct template *template, const uint64_t *figure)
{
	uint64_t *last = &template->words[WORD_FIGURE];

	put(folder, COLUMN_SPAN_FLOPS, zigzag(figure[0] - last[0]));
	put(folder, COLUMN_SPAN_BYTES, zigzag(figure[1] - last[1]));
	memcpy(last, figure, 2 * sizeof(*figure));
}

static void fold_known(struct folder *folder, const unsigned char *record, uint32_t size,
		       enum shape shape)
{
	uint64_t words[WORDS_MAX] = {0};
	struct template *template;

	memcpy(words, record, size);
	template = find(folder, words);
	if (!template || template->shape == SHAPE_NONE) {
		put(folder, COLUMN_ORDER, template ? ORDER_TEMPLATE : ORDER_WHOLE);
		put_bytes(folder, COLUMN_WHOLE, record, size);
		if (!template)
			return;
		memcpy(template->words, words, sizeof(words));
		template->shape = shape;
		return;
	}
	put(folder, COLUMN_ORDER, (uint64_t)(template - folder->templates) + ORDER_LIKE);
	if (shape == SHAPE_MEMORY)
		put_memory(folder, &words[WORD_OWN]);
	else
		put_span(folder, &words[WORD_OWN]);
	if (shape == SHAPE_FIGURE)
		put_figure(folder, template, &words[WORD_FIGURE]);
}

static void start(struct folder *folder)
{
	memset(folder->columns.sizes, 0, sizeof(folder->columns.sizes));
	memset(folder->slots, 0, sizeof(folder->slots));
	folder->templates_count = 0;
	folder->span_end = folder->memory_time = 0;
}

const struct columns *folder__fold(struct folder *folder, const void *records, size_t size)
{
	const unsigned char *record = records, *end = record + size;
	struct perfx_record hdr;

	start(folder);
	for (; record < end; record += hdr.size) {
		enum shape shape;

		memcpy(&hdr, record, sizeof(hdr));
		shape = shape_of(&hdr);
		if (shape != SHAPE_NONE) {
			fold_known(folder, record, hdr.size, shape);
			continue;
		}
		put(folder, COLUMN_ORDER, ORDER_WHOLE);
		put_bytes(folder, COLUMN_WHOLE, record, hdr.size);
	}
	return &folder->columns;
}
