// SPDX-License-Identifier: BSD-2-Clause
#include "capture/fold.h"
#include "capture/fold_internal.h"

#include <errno.h>
#include <stdlib.h>

struct unfolder {
	struct template templates[TEMPLATES_MAX];
	uint32_t templates_count;
	uint64_t span_end, memory_time;
	const unsigned char *at[COLUMNS], *end[COLUMNS];
};

struct unfolder *unfolder__new(void)
{
	return calloc(1, sizeof(struct unfolder));
}

void unfolder__free(struct unfolder *unfolder)
{
	free(unfolder);
}

static bool take_long(struct unfolder *unfolder, enum column column, uint64_t *value)
{
	const unsigned char *at = unfolder->at[column];
	unsigned shift = 0;
	uint64_t sum = 0;

	for (; at < unfolder->end[column] && shift < 7 * VARINT_MAX; shift += 7) {
		unsigned char byte = *at++;

		sum |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (shift == 63 && byte > 1) /* more than 64 bits */
			return false;
		unfolder->at[column] = at;
		*value = sum;
		return true;
	}
	return false;
}

/* Most are of one byte or two. */
static inline bool take(struct unfolder *unfolder, enum column column, uint64_t *value)
{
	const unsigned char *at = unfolder->at[column];

	if (unfolder->end[column] - at < 2)
		return take_long(unfolder, column, value);
	if (at[0] < 0x80) {
		*value = at[0];
		unfolder->at[column] = at + 1;
		return true;
	}
	if (at[1] < 0x80) {
		*value = (at[0] & 0x7fu) | (uint64_t)at[1] << 7;
		unfolder->at[column] = at + 2;
		return true;
	}
	return take_long(unfolder, column, value);
}

static inline bool take_bytes(struct unfolder *unfolder, enum column column, void *to, size_t size)
{
	if ((size_t)(unfolder->end[column] - unfolder->at[column]) < size)
		return false;
	memcpy(to, unfolder->at[column], size);
	unfolder->at[column] += size;
	return true;
}

static bool take_span(struct unfolder *unfolder, uint64_t *own)
{
	uint64_t end, duration, called;

	if (!take(unfolder, COLUMN_SPAN_END, &end) ||
	    !take(unfolder, COLUMN_SPAN_DURATION, &duration) ||
	    !take(unfolder, COLUMN_SPAN_CALLED, &called))
		return false;
	unfolder->span_end += unzigzag(end);
	own[0] = unfolder->span_end - duration;
	own[1] = duration;
	own[2] = duration - called;
	return true;
}

static bool take_memory(struct unfolder *unfolder, uint64_t *own)
{
	uint64_t time;

	if (!take(unfolder, COLUMN_MEMORY_TIME, &time) ||
	    !take_bytes(unfolder, COLUMN_MEMORY_ADDRESS, &own[1], sizeof(own[1])) ||
	    !take(unfolder, COLUMN_MEMORY_SIZE, &own[2]))
		return false;
	unfolder->memory_time += unzigzag(time);
	own[0] = unfolder->memory_time;
	return true;
}

static bool take_figure(struct unfolder *unfolder, uint64_t *figure)
{
	uint64_t flops, bytes;

	if (!take(unfolder, COLUMN_SPAN_FLOPS, &flops) ||
	    !take(unfolder, COLUMN_SPAN_BYTES, &bytes))
		return false;
	figure[0] += unzigzag(flops);
	figure[1] += unzigzag(bytes);
	return true;
}

/* Each returns the size of the record that it has put at `to`, where there is so much room; 0:
 * damage. */
static size_t unfold_like(struct unfolder *unfolder, uint64_t number, unsigned char *to,
			  size_t room)
{
	struct template *template;
	uint64_t *words;

	if (number >= unfolder->templates_count)
		return 0;
	template = &unfolder->templates[number];
	words = template->words;
	if (template->size > room)
		return 0;
	if (!(template->shape == SHAPE_MEMORY ? take_memory(unfolder, &words[WORD_OWN])
					      : take_span(unfolder, &words[WORD_OWN])))
		return 0;
	if (template->shape == SHAPE_FIGURE && !take_figure(unfolder, &words[WORD_FIGURE]))
		return 0;
	memcpy(to, words, template->size);
	return template->size;
}

static size_t unfold_whole(struct unfolder *unfolder, bool is_template, unsigned char *to,
			   size_t room)
{
	struct template *template = &unfolder->templates[unfolder->templates_count];
	struct perfx_record hdr;

	if (room < sizeof(hdr) || !take_bytes(unfolder, COLUMN_WHOLE, &hdr, sizeof(hdr)))
		return 0;
	if (hdr.size < sizeof(hdr) || hdr.size > PERFX_RECORD_MAX || hdr.size % 8 ||
	    hdr.size > room)
		return 0;
	memcpy(to, &hdr, sizeof(hdr));
	if (!take_bytes(unfolder, COLUMN_WHOLE, to + sizeof(hdr), hdr.size - sizeof(hdr)))
		return 0;
	if (!is_template)
		return hdr.size;
	if (unfolder->templates_count == TEMPLATES_MAX || shape_of(&hdr) == SHAPE_NONE)
		return 0;
	template->shape = shape_of(&hdr);
	template->size = hdr.size;
	memcpy(template->words, to, hdr.size);
	unfolder->templates_count++;
	return hdr.size;
}

static void start(struct unfolder *unfolder, const struct columns *columns)
{
	unfolder->templates_count = 0;
	unfolder->span_end = unfolder->memory_time = 0;
	for (int i = 0; i < COLUMNS; i++) {
		unfolder->at[i] = columns->bytes[i];
		unfolder->end[i] = columns->bytes[i] + columns->sizes[i];
	}
}

int unfolder__unfold(struct unfolder *unfolder, const struct columns *columns, void *records,
		     size_t size)
{
	unsigned char *to = records, *end = to + size;

	start(unfolder, columns);
	while (to < end) {
		size_t used, room = (size_t)(end - to);
		uint64_t order;

		if (!take(unfolder, COLUMN_ORDER, &order))
			return -EBADMSG;
		used = order >= ORDER_LIKE
			       ? unfold_like(unfolder, order - ORDER_LIKE, to, room)
			       : unfold_whole(unfolder, order == ORDER_TEMPLATE, to, room);
		if (!used)
			return -EBADMSG;
		to += used;
	}
	for (int i = 0; i < COLUMNS; i++)
		if (unfolder->at[i] != unfolder->end[i])
			return -EBADMSG;
	return 0;
}
