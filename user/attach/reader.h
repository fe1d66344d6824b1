/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the rings into a sink. Their number is private to this file: a span is emitted after the
 * process and the calling context that it names have been described, whichever ring these came by.
 * Control records and objects are copied out of their rings before they are acted upon: no callback
 * of a ring reads /proc or attaches.
 */
#ifndef PERFX_ATTACH_READER_H
#define PERFX_ATTACH_READER_H

#include "attach/tracer.h"
#include "decode/pack.h"

struct reader;

/* on_record sees each control record when the sink has it, and each STACK, CONTEXT, ALLOCATION and
 * SAMPLE record before, which it may change; on_object what the sink never has. NULL with errno. */
struct reader *reader__new(struct tracer *tracer, struct sink *sink,
			   void (*on_record)(void *ctx, struct perfx_record *record),
			   void (*on_object)(void *ctx, const struct perfx_object_record *record),
			   void *ctx);
void reader__free(struct reader *reader);
/* Ranges of that name are steps (PERFX_FUNCTION_STEP); borrowed. NULL: none is. */
void reader__name_steps(struct reader *reader, const char *name);

/* A descriptor for epoll: readable when there is something to drain. */
int reader__fd(const struct reader *reader);
/* Takes what is there; where more comes than can be taken, two million records of a kind and not
 * for ever: then true, there is more. */
bool reader__drain(struct reader *reader);
/* All calls that ended, and all samples and allocations, before this time have been taken. */
uint64_t reader__drained_ns(const struct reader *reader);
/* Reads all that is left. To be called after the last write. */
void reader__finish(struct reader *reader);
uint64_t reader__spans_count(const struct reader *reader); /* taken so far */

/* An index is free: what is next known by it is described anew. */
void reader__forget_context(struct reader *reader, uint32_t context);
void reader__forget_process(struct reader *reader, uint32_t process);

#endif
