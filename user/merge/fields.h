/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What in a record is an id of its capture, and what a time: the one table by which a record is
 * moved into another capture.
 */
#ifndef PERFX_MERGE_FIELDS_H
#define PERFX_MERGE_FIELDS_H

#include "perfx_record.h"

#include <stddef.h>
#include <stdint.h>

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
	ID_GPU_NAME,
	ID_GPU_DEVICE, /* from 0 on, as domains of energy are; the others have 0 for none */
	ID_ENERGY_DOMAIN,
	ID_SPACES,
	FIELD_TIME = ID_SPACES, /* CLOCK_MONOTONIC; 0: none */
	FIELD_BOOT_TIME,	/* CLOCK_BOOTTIME; 0: none */
	FIELD_NONE,		/* a kind without any has one row of this */
};

struct field {
	uint16_t kind; /* enum perfx_kind */
	uint16_t offset;
	uint8_t bytes;
	uint8_t space; /* enum id_space */
};

/* By kind: they lie side by side. *count: how many. */
const struct field *fields_of(enum perfx_kind kind, size_t *count);

/* Of a whole record. A field that an older record lacks is 0, and is not written. */
uint64_t field_get(const struct field *field, const void *record);
void field_set(const struct field *field, void *record, uint64_t value);

/* The largest id of a space; what is beyond is not decoded. */
uint64_t id_max(enum id_space space);

#endif
