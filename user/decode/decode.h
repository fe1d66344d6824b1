/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes → events. The only door to untrusted bytes, whether from a ring or from a file: everything
 * behind it may rely on sizes, terminators and enum ranges.
 */
#ifndef PERFX_DECODE_DECODE_H
#define PERFX_DECODE_DECODE_H

#include "decode/event.h"

#include <stddef.h>
#include <sys/types.h>

/* Decodes the record at data. Returns its size, so that the next one lies at data + size.
 *   -EAGAIN   the record is longer than what is there: a cut tail
 *   -EBADMSG  not a record: nothing that follows can be trusted
 *   -ENOTSUP  a kind or a form of one that is not known here; *skip is its size, go on there
 * *event is valid only on success; its strings live as long as data. */
ssize_t decode_event(const void *data, size_t size, struct event *event, size_t *skip);

/* PERFX_ROLE_NONE: not a kind that is known here. */
enum perfx_role role_of(enum perfx_kind kind);

#endif
