// SPDX-License-Identifier: BSD-2-Clause
#include "decode/decode.h"
#include "decode/pack.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The shape of a kind's records. fixed 0: the kind is not known here. */
struct form {
	uint32_t fixed; /* bytes known here */
	uint32_t least; /* bytes that each record has: those up to `fixed` that are missing are 0 */
	uint32_t strings_count;
	enum perfx_role role;
};

static const struct form forms[] = {
#define FORM(kind, name, number, bytes, least, strings, role) \
	[PERFX_KIND_##kind] = {(bytes), (least), (strings), PERFX_ROLE_##role},
	PERFX_RECORDS(FORM)
#undef FORM
};
#define FORMS_COUNT (sizeof(forms) / sizeof(*forms))

#define FORM_OK(kind, name, number, bytes, least, strings, role) \
	_Static_assert((least) <= (bytes) && (strings) <= EVENT_STRINGS_MAX, #name);
PERFX_RECORDS(FORM_OK)
#undef FORM_OK

enum perfx_role role_of(enum perfx_kind kind)
{
	return kind < FORMS_COUNT ? forms[kind].role : PERFX_ROLE_NONE;
}

uint64_t record_time_ns(const struct perfx_record *record)
{
	const struct perfx_span *span = (const void *)record;

	switch (role_of(record->kind)) {
	case PERFX_ROLE_CALL:
		return span->start_ns ? span->start_ns + span->duration_ns : 0;
	case PERFX_ROLE_EVENT:
	case PERFX_ROLE_STATE:
	case PERFX_ROLE_MEMORY:
	case PERFX_ROLE_SAMPLE:
		return ((const struct perfx_usage *)(const void *)record)->time_ns;
	case PERFX_ROLE_FACT:
	case PERFX_ROLE_SUM:
	case PERFX_ROLE_CAPTURE:
	case PERFX_ROLE_NONE:
		break;
	}
	return 0;
}

/* Cuts [text, end) into count NUL-terminated strings. */
static bool split_strings(const char *text, const char *end, const char **strings, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const char *nul = memchr(text, '\0', (size_t)(end - text));

		if (!nul)
			return false;
		strings[i] = text;
		text = nul + 1;
	}
	return true;
}

/* Values that later code indexes or switches by: PERFX_FIELDS_<name>. */
#define IS_ID(member, space)
#define IS_TIME(member)
#define IS_BOOT_TIME(member)
#define HAS_SUMS(count)
#define IS_WITHIN(member, first, last) \
	&&(uint64_t)record->member - (first) <= (uint64_t)(last) - (first)
#define IS_TRUE(condition) &&(condition)

static bool values_ok(const struct event *event)
{
	switch (event->kind) {
#define VALUES_OK(kind, name, ...)                                \
	case PERFX_KIND_##kind: {                                 \
		const struct perfx_##name *record = &event->name; \
                                                                  \
		(void)record;                                     \
		return true PERFX_FIELDS_##name;                  \
	}
		PERFX_RECORDS(VALUES_OK)
#undef VALUES_OK
	case PERFX_KIND_INVALID:
		break;
	}
	return false;
}

ssize_t decode_event(const void *data, size_t size, struct event *event, size_t *skip)
{
	const char *bytes = data;
	struct perfx_record hdr;
	const struct form *form;
	size_t known;

	if (size < sizeof(hdr))
		return -EAGAIN;
	memcpy(&hdr, data, sizeof(hdr));
	if (hdr.size < sizeof(hdr) || hdr.size > PERFX_RECORD_MAX || hdr.size % 8 ||
	    hdr.fixed < sizeof(hdr) || hdr.fixed > hdr.size)
		return -EBADMSG;
	if (hdr.size > size)
		return -EAGAIN;

	*skip = hdr.size;
	form = &forms[hdr.kind < FORMS_COUNT ? hdr.kind : PERFX_KIND_INVALID];
	if (!form->fixed || hdr.fixed < form->least)
		return -ENOTSUP;

	event->kind = hdr.kind;
	known = hdr.fixed < form->fixed ? hdr.fixed : form->fixed;
	memcpy((char *)event + offsetof(struct event, hdr), data, known);
	memset((char *)event + offsetof(struct event, hdr) + known, 0, form->fixed - known);
	if (!split_strings(bytes + hdr.fixed, bytes + hdr.size, event->strings,
			   form->strings_count))
		return -ENOTSUP;
	event->record = data;
	event->addresses = NULL;
	/* the addresses of a STACK record lie whole between its fixed part and its end */
	if (hdr.kind == PERFX_KIND_STACK) {
		event->addresses = (const unsigned char *)bytes + hdr.fixed;
		if (event->stack.frames_count > PERFX_STACK_FRAMES_MAX ||
		    event->stack.frames_count > (hdr.size - hdr.fixed) / sizeof(uint64_t))
			return -ENOTSUP;
	}
	return values_ok(event) ? (ssize_t)hdr.size : -ENOTSUP;
}

size_t decode_next(const void *data, size_t size, struct event *event)
{
	static const struct perfx_loss undecoded = {
		.hdr = {sizeof(undecoded), PERFX_KIND_LOSS, sizeof(undecoded)},
		.loss = PERFX_LOSS_UNDECODED,
		.count = 1,
	};
	size_t skip = size;
	ssize_t used = decode_event(data, size, event, &skip);

	if (used >= 0)
		return (size_t)used;
	decode_event(&undecoded, sizeof(undecoded), event, &(size_t){0});
	return used == -ENOTSUP ? skip : size;
}

const struct perfx_record *pack_record(struct pack_buffer *buffer, enum perfx_kind kind,
				       const void *fixed, size_t fixed_size,
				       const char *const *strings, size_t strings_count)
{
	struct perfx_record *hdr = (struct perfx_record *)buffer->bytes;
	size_t used = fixed_size;

	assert(fixed_size + strings_count + 8 <= sizeof(buffer->bytes));
	memcpy(buffer->bytes, fixed, fixed_size);
	for (size_t i = 0; i < strings_count; i++) {
		const char *text = strings[i] ? strings[i] : "";
		/* room for the terminators of those that follow */
		size_t room = sizeof(buffer->bytes) - 8 - used - (strings_count - i);
		size_t length = strnlen(text, room);

		memcpy(buffer->bytes + used, text, length);
		buffer->bytes[used + length] = '\0';
		used += length + 1;
	}
	while (used % 8)
		buffer->bytes[used++] = '\0';
	hdr->size = (__u32)used;
	hdr->kind = (__u16)kind;
	hdr->fixed = (__u16)fixed_size;
	return hdr;
}
