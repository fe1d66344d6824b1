/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes → events. The only door to untrusted bytes, whether from a ring or from a file: everything
 * behind it may rely on sizes, terminators and enum ranges.
 */
#ifndef PERFX_DECODE_DECODE_H
#define PERFX_DECODE_DECODE_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* A decoded record, with which everything after decode works. */
#define EVENT_STRINGS_MAX 5

struct event {
	enum perfx_kind kind;
	union {
		struct perfx_record hdr;
#define EVENT_MEMBER(kind, name, ...) struct perfx_##name name;
		PERFX_RECORDS(EVENT_MEMBER)
#undef EVENT_MEMBER
	};
	/* The record's strings in the order that perfx_record.h gives; never NULL for those that
	 * the kind has; borrowed from the bytes that were decoded. */
	const char *strings[EVENT_STRINGS_MAX];
	/* STACK: stack.frames_count of them, at most PERFX_STACK_FRAMES_MAX; borrowed likewise, and
	 * unaligned where the bytes are: read with memcpy or stack_address(). */
	const unsigned char *addresses;
	const void *record; /* the bytes that were decoded, hdr.size of them; borrowed */
};

/* Records of these roles have their time right after the header. */
#define TIME_AT_HEADER(name)                                                                  \
	_Static_assert(offsetof(struct perfx_##name, time_ns) == sizeof(struct perfx_record), \
		       "struct perfx_" #name);
#define TIME_OF_CALL(name)
#define TIME_OF_EVENT(name)  TIME_AT_HEADER(name)
#define TIME_OF_STATE(name)  TIME_AT_HEADER(name)
#define TIME_OF_MEMORY(name) TIME_AT_HEADER(name)
#define TIME_OF_SAMPLE(name) TIME_AT_HEADER(name)
#define TIME_OF_FACT(name)
#define TIME_OF_SUM(name)
#define TIME_OF_CAPTURE(name)
#define TIME_OF(kind, name, number, bytes, least, strings, role) TIME_OF_##role(name)
PERFX_RECORDS(TIME_OF)
#undef TIME_OF

/* When it happened: of EVENT, STATE, MEMORY and SAMPLE. */
static inline uint64_t event_time_ns(const struct event *event)
{
	return event->usage.time_ns;
}

/* Is it a state at the end of a recording rather than a sum of a segment? */
static inline bool event_is_final_state(const struct event *event)
{
	return event->kind == PERFX_KIND_LOSS &&
	       (event->loss.loss == PERFX_LOSS_UNMATCHED_ENTRIES ||
		event->loss.loss == PERFX_LOSS_DETACHED_PROBES);
}

static inline uint64_t stack_address(const struct event *event, uint32_t frame)
{
	uint64_t address;

	memcpy(&address, event->addresses + frame * sizeof(address), sizeof(address));
	return address;
}

/* Decodes the record at data. Returns its size, so that the next one lies at data + size.
 *   -EAGAIN   the record is longer than the bytes that are there: a cut tail
 *   -EBADMSG  not a record: nothing that follows can be trusted
 *   -ENOTSUP  a kind or a form of one that is not known here; *skip is its size, go on there
 * *event is valid only on success; its strings live as long as data. */
ssize_t decode_event(const void *data, size_t size, struct event *event, size_t *skip);

/* The next event of `size` > 0 bytes of records. A record that is not understood, or all that
 * follows one without a size, is a LOSS of one record (PERFX_LOSS_UNDECODED), so that no loss stays
 * uncounted. Returns how many bytes it takes. */
size_t decode_next(const void *data, size_t size, struct event *event);

/* PERFX_ROLE_NONE: not a kind that is known here. */
enum perfx_role role_of(enum perfx_kind kind);

/* How many sums a record from a map of sums has; 0: the kind comes from elsewhere. */
unsigned record_sums(enum perfx_kind kind);

/* When a record of a role that has a time was made, a call when it ended; 0: that is not known. */
uint64_t record_time_ns(const struct perfx_record *record);

/*
 * Which fields of a record are ids of its capture, and which are times (PERFX_FIELDS_<name>).
 * merge/ moves records into another capture by them; exports and keyframes find a record's process.
 */

/* Ids of different kinds are counted apart. Those that a process has for itself (threads, stacks,
 * addresses, calls of a GPU's library) stay as they are. */
enum id_space {
	ID_PROCESS = 0,
	ID_FUNCTION,
	ID_CONTEXT,
	ID_PROBE,
	ID_ALLOCATOR,
	ID_OBJECT_COST,
	ID_VALUE,
	ID_FILE_GROUP,
	ID_GPU_NAME,
	ID_GPU_DEVICE, /* from 0 on, as domains of energy are; the others have 0 for none */
	ID_ENERGY_DOMAIN,
	ID_SPACES,
	FIELD_TIME = ID_SPACES, /* CLOCK_MONOTONIC; 0: none */
	FIELD_BOOT_TIME,	/* CLOCK_BOOTTIME; 0: none */
};

struct field {
	uint16_t offset;
	uint8_t bytes;
	uint8_t space; /* enum id_space */
};

/* The fields of a kind, side by side. *count: their number. */
const struct field *fields_of(enum perfx_kind kind, size_t *count);

/* The field of a whole record. A field that an older record lacks is 0, and is not written. */
uint64_t field_get(const struct field *field, const void *record);
void field_set(const struct field *field, void *record, uint64_t value);

/* The first id of a kind in a record, the process of most; 0: it has none. */
uint64_t record_id(const struct perfx_record *record, enum id_space space);

static inline uint32_t event_process(const struct event *event)
{
	return (uint32_t)record_id(&event->hdr, ID_PROCESS);
}

#endif
