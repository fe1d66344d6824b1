// SPDX-License-Identifier: BSD-2-Clause
#include "decode/decode.h"

#include <string.h>

#define IS_ID(member, space) FIELD(member, ID_##space)
#define IS_TIME(member)	     FIELD(member, FIELD_TIME)
#define IS_BOOT_TIME(member) FIELD(member, FIELD_BOOT_TIME)
#define IS_WITHIN(member, first, last)
#define IS_TRUE(condition)
#define HAS_SUMS(count)
#define FIELD(member, space) \
	{offsetof(__typeof__(*record), member), sizeof(record->member), (space)},

const struct field *fields_of(enum perfx_kind kind, size_t *count)
{
	switch (kind) {
#define FIELDS(kind, name, ...)                                             \
	case PERFX_KIND_##kind: {                                           \
		static const struct perfx_##name record[1];                 \
		static const struct field fields[] = {PERFX_FIELDS_##name}; \
                                                                            \
		(void)record;                                               \
		*count = sizeof(fields) / sizeof(fields[0]);                \
		return fields;                                              \
	}
		PERFX_RECORDS(FIELDS)
#undef FIELDS
	case PERFX_KIND_INVALID:
		break;
	}
	*count = 0;
	return NULL;
}

static bool is_there(const struct field *field, const void *record)
{
	struct perfx_record hdr;

	memcpy(&hdr, record, sizeof(hdr));
	return field->offset + field->bytes <= hdr.fixed;
}

uint64_t field_get(const struct field *field, const void *record)
{
	uint64_t value = 0;

	/* little endian, as the records are */
	if (is_there(field, record))
		memcpy(&value, (const char *)record + field->offset, field->bytes);
	return value;
}

void field_set(const struct field *field, void *record, uint64_t value)
{
	if (is_there(field, record))
		memcpy((char *)record + field->offset, &value, field->bytes);
}

uint64_t record_id(const struct perfx_record *record, enum id_space space)
{
	size_t count;
	const struct field *field = fields_of(record->kind, &count);

	for (; count; count--, field++)
		if (field->space == space)
			return field_get(field, record);
	return 0;
}

#undef IS_ID
#define IS_ID(member, space)
#undef IS_TIME
#define IS_TIME(member)
#undef IS_BOOT_TIME
#define IS_BOOT_TIME(member)
#undef HAS_SUMS
#define HAS_SUMS(count) +(count)

unsigned record_sums(enum perfx_kind kind)
{
	static const unsigned sums[] = {
#define SUMS_OF(kind, name, ...) [PERFX_KIND_##kind] = 0 PERFX_FIELDS_##name,
		PERFX_RECORDS(SUMS_OF)
#undef SUMS_OF
	};

	return kind < sizeof(sums) / sizeof(*sums) ? sums[kind] : 0;
}
