// SPDX-License-Identifier: BSD-2-Clause
#include "decode/decode.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The shape of a kind's records. */
struct form {
	size_t fixed; /* bytes known here */
	size_t least; /* bytes that each record has: those up to `fixed` that are missing are 0 */
	unsigned strings_count;
};

static bool form_of(enum perfx_kind kind, struct form *form)
{
	switch (kind) {
#define FORM(kind, name, number, bytes, least, strings, role)                         \
	case PERFX_KIND_##kind: {                                                     \
		_Static_assert((least) <= (bytes) && (strings) <= EVENT_STRINGS_MAX); \
		*form = (struct form){(bytes), (least), (strings)};                   \
		return true;                                                          \
	}
		PERFX_RECORDS(FORM)
#undef FORM
	case PERFX_KIND_INVALID:
		break;
	}
	return false;
}

enum perfx_role role_of(enum perfx_kind kind)
{
	switch (kind) {
#define ROLE(kind, name, number, bytes, least, strings, role) \
	case PERFX_KIND_##kind:                               \
		return PERFX_ROLE_##role;
		PERFX_RECORDS(ROLE)
#undef ROLE
	case PERFX_KIND_INVALID:
		break;
	}
	return PERFX_ROLE_NONE;
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

/* The addresses of a STACK record lie whole between its fixed part and its end. */
static bool find_addresses(struct event *event, const char *from, const char *end)
{
	event->addresses = (const unsigned char *)from;
	return event->stack.frames_count <= PERFX_STACK_FRAMES_MAX &&
	       event->stack.frames_count <= (size_t)(end - from) / sizeof(uint64_t);
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
	struct form form;
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
	if (!form_of(hdr.kind, &form) || hdr.fixed < form.least)
		return -ENOTSUP;

	event->kind = hdr.kind;
	known = hdr.fixed < form.fixed ? hdr.fixed : form.fixed;
	memcpy((char *)event + offsetof(struct event, hdr), data, known);
	memset((char *)event + offsetof(struct event, hdr) + known, 0, form.fixed - known);
	if (!split_strings(bytes + hdr.fixed, bytes + hdr.size, event->strings, form.strings_count))
		return -ENOTSUP;
	event->addresses = NULL;
	event->record = data;
	if (hdr.kind == PERFX_KIND_STACK &&
	    !find_addresses(event, bytes + hdr.fixed, bytes + hdr.size))
		return -ENOTSUP;
	if (!values_ok(event))
		return -ENOTSUP;
	return (ssize_t)hdr.size;
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
