// SPDX-License-Identifier: BSD-2-Clause
#include "capture/columns.h"
#include "capture/columns_internal.h"

#include <errno.h>
#include <stdlib.h>

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

static bool take_long(struct column_decoder *decoder, enum column column, uint64_t *value)
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
static inline bool take(struct column_decoder *decoder, enum column column, uint64_t *value)
{
	const unsigned char *at = decoder->at[column];

	if (decoder->end[column] - at < 2)
		return take_long(decoder, column, value);
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
	return take_long(decoder, column, value);
}

static inline bool take_bytes(struct column_decoder *decoder, enum column column, void *to,
			      size_t size)
{
	if ((size_t)(decoder->end[column] - decoder->at[column]) < size)
		return false;
	memcpy(to, decoder->at[column], size);
	decoder->at[column] += size;
	return true;
}

static bool take_span(struct column_decoder *decoder, uint64_t *own)
{
	uint64_t end, duration, called;

	if (!take(decoder, COLUMN_SPAN_END, &end) ||
	    !take(decoder, COLUMN_SPAN_DURATION, &duration) ||
	    !take(decoder, COLUMN_SPAN_CALLED, &called))
		return false;
	decoder->span_end += unzigzag(end);
	own[0] = decoder->span_end - duration;
	own[1] = duration;
	own[2] = duration - called;
	return true;
}

static bool take_memory(struct column_decoder *decoder, uint64_t *own)
{
	uint64_t time;

	if (!take(decoder, COLUMN_MEMORY_TIME, &time) ||
	    !take_bytes(decoder, COLUMN_MEMORY_ADDRESS, &own[1], sizeof(own[1])) ||
	    !take(decoder, COLUMN_MEMORY_SIZE, &own[2]))
		return false;
	decoder->memory_time += unzigzag(time);
	own[0] = decoder->memory_time;
	return true;
}

static bool take_cost(struct column_decoder *decoder, uint64_t *cost)
{
	uint64_t flops, bytes;

	if (!take(decoder, COLUMN_SPAN_FLOPS, &flops) || !take(decoder, COLUMN_SPAN_BYTES, &bytes))
		return false;
	cost[0] += unzigzag(flops);
	cost[1] += unzigzag(bytes);
	return true;
}

/* Each returns the size of the record that it has put at `to`, where there is so much room; 0:
 * damage. */
static size_t decode_like(struct column_decoder *decoder, uint64_t number, unsigned char *to,
			  size_t room)
{
	struct template *template;
	uint64_t *words;

	if (number >= decoder->templates_count)
		return 0;
	template = &decoder->templates[number];
	words = template->words;
	if (template->size > room)
		return 0;
	if (!(template->shape == SHAPE_MEMORY ? take_memory(decoder, &words[WORD_OWN])
					      : take_span(decoder, &words[WORD_OWN])))
		return 0;
	if (template->shape == SHAPE_COST && !take_cost(decoder, &words[WORD_COST]))
		return 0;
	memcpy(to, words, template->size);
	return template->size;
}

static size_t decode_whole(struct column_decoder *decoder, bool is_template, unsigned char *to,
			   size_t room)
{
	struct template *template = &decoder->templates[decoder->templates_count];
	struct perfx_record hdr;

	if (room < sizeof(hdr) || !take_bytes(decoder, COLUMN_WHOLE, &hdr, sizeof(hdr)))
		return 0;
	if (hdr.size < sizeof(hdr) || hdr.size > PERFX_RECORD_MAX || hdr.size % 8 ||
	    hdr.size > room)
		return 0;
	memcpy(to, &hdr, sizeof(hdr));
	if (!take_bytes(decoder, COLUMN_WHOLE, to + sizeof(hdr), hdr.size - sizeof(hdr)))
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

static void start(struct column_decoder *decoder, const struct columns *columns)
{
	decoder->templates_count = 0;
	decoder->span_end = decoder->memory_time = 0;
	for (int i = 0; i < COLUMNS; i++) {
		decoder->at[i] = columns->bytes[i];
		decoder->end[i] = columns->bytes[i] + columns->sizes[i];
	}
}

int column_decoder__decode(struct column_decoder *decoder, const struct columns *columns,
			   void *records, size_t size)
{
	unsigned char *to = records, *end = to + size;

	start(decoder, columns);
	while (to < end) {
		size_t used, room = (size_t)(end - to);
		uint64_t order;

		if (!take(decoder, COLUMN_ORDER, &order))
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
