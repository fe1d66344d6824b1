// SPDX-License-Identifier: BSD-2-Clause
#include "attach/reader.h"

#include "attach/rings.h"
#include "base/grow.h"
#include "decode/decode.h"
#include "decode/pack.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Records copied out of a ring, to be acted upon when all are out: that takes time (it reads /proc,
 * opens files), in which the kernel would find no room in the ring. */
struct backlog {
	unsigned char *bytes; /* each record: its size, then itself, rounded up to 8 bytes */
	size_t length, capacity;
};

/* The records emitted for a context so far. Its stack may become known after the context. */
enum context_state { CONTEXT_NEW, CONTEXT_DESCRIBED, CONTEXT_WITH_STACK };

struct reader {
	struct tracer *tracer;
	struct sink *sink;
	void (*on_record)(void *ctx, struct perfx_record *record);
	void (*on_object)(void *ctx, const struct perfx_object_record *record);
	void *ctx;
	struct rings *spans, *memory;
	struct ring_buffer *control, *objects;
	struct backlog control_backlog, objects_backlog;
	const char *step_range;
	int epoll_fd;
	bool draining_control;
	uint64_t spans_count;
	bool processes_known[PERFX_MAX_PROCESS_INDICES + 1]; /* described */
	uint64_t recording_windows_known;		     /* tracer__recording_windows() */
	uint32_t contexts_low;				     /* below: all described */
	uint32_t contexts_taken;			     /* of the free ones: likewise */
	uint8_t context_states[PERFX_MAX_CONTEXTS];	     /* enum context_state */
	uint32_t names_low;				     /* below: all described */
	bool names_known[PERFX_MAX_NAMES];
	struct pack_buffer buffer;
	union {
		struct perfx_record record;
		uint64_t words[sizeof(struct perfx_stack) / 8 + PERFX_STACK_FRAMES_MAX + 1];
	} changed; /* by on_record, before the sink gets it */
};

/* JAX calls the module that it makes of a function jit_FUNCTION, TensorFlow what it traces of one
 * __inference_FUNCTION_NUMBER. */
static const char *without_prefix(const struct perfx_name *name, const char *text)
{
	static const struct {
		uint32_t source;
		const char *prefix;
	} prefixes[] = {{PERFX_SOURCE_JAX, "jit_"}, {PERFX_SOURCE_TF, "__inference_"}};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t length = strlen(prefixes[i].prefix);

		if (name->key.source == prefixes[i].source &&
		    !strncmp(text, prefixes[i].prefix, length) && text[length])
			return text + length;
	}
	return text;
}

/* TensorFlow's number may be left out. */
static bool is_step(const struct reader *reader, const struct perfx_name *name, const char *text)
{
	size_t length = reader->step_range ? strlen(reader->step_range) : 0;

	if (!length || strncmp(reader->step_range, text, length) != 0)
		return false;
	if (!text[length])
		return true;
	text += length;
	return name->key.source == PERFX_SOURCE_TF && text[0] == '_' && text[1] &&
	       text[1 + strspn(text + 1, "0123456789")] == '\0';
}

static void describe_name(struct reader *reader, uint32_t at, const struct perfx_name *name)
{
	struct perfx_user_value_name value = {.value = name->id};
	struct perfx_allocator allocator = {.allocator = (uint16_t)name->id,
					    .domain = PERFX_DOMAIN_USER};
	struct perfx_function range = {.function = name->id,
				       .source =
					       (uint16_t)(name->key.source & ~PERFX_NAME_OF_KERNEL),
				       .flags = PERFX_FUNCTION_RANGE};
	const struct perfx_record *packed;
	char text[PERFX_NAME_BYTES + 8];
	size_t length = strnlen(name->key.text, sizeof(name->key.text));
	const char *plain;

	memcpy(text, name->key.text, length);
	text[length] = '\0';
	/* a longer text is cut between two characters, and ends with an ellipsis */
	if (length > PERFX_NAME_BYTES) {
		length = PERFX_NAME_BYTES;
		while (length && ((unsigned char)text[length] & 0xc0) == 0x80)
			length--;
		strcpy(text + length, "…");
	}
	if (name->key.source & PERFX_NAME_OF_VALUE) {
		packed = PACK(&reader->buffer, PERFX_KIND_USER_VALUE_NAME, value, text);
	} else if (name->key.source & PERFX_NAME_OF_ALLOCATOR) {
		packed = PACK(&reader->buffer, PERFX_KIND_ALLOCATOR, allocator, text, "");
	} else {
		plain = without_prefix(name, text);
		if (plain != text || name->key.source == PERFX_SOURCE_JAX)
			range.flags |= PERFX_FUNCTION_COMPILED;
		if (is_step(reader, name, plain))
			range.flags |= PERFX_FUNCTION_STEP;
		packed = PACK(&reader->buffer, PERFX_KIND_FUNCTION, range, plain, "", "");
	}
	sink_packed(reader->sink, packed);
	reader->on_record(reader->ctx, (struct perfx_record *)packed);
	reader->names_known[at] = true;
}

/* As describe_contexts, for names of ranges, values and allocators. */
static void describe_names(struct reader *reader)
{
	uint32_t count;
	const struct perfx_name *names = tracer__names(reader->tracer, &count);

	for (uint32_t at = reader->names_low; at < count; at++)
		if (!reader->names_known[at] && __atomic_load_n(&names[at].id, __ATOMIC_ACQUIRE))
			describe_name(reader, at, &names[at]);
	while (reader->names_low < count && reader->names_known[reader->names_low])
		reader->names_low++;
}

/* Is it named for the first time? The record of its beginning is in its ring by then. */
static bool is_new_process(struct reader *reader, uint32_t process)
{
	if (process > PERFX_MAX_PROCESS_INDICES || reader->processes_known[process])
		return false;
	reader->processes_known[process] = true;
	return true;
}

static void drain_control(struct reader *reader);

/* After its process. */
static void describe_context(struct reader *reader, uint32_t id,
			     const struct perfx_context_node *node)
{
	struct perfx_context record = {.context = id,
				       .parent = node->parent,
				       .function = node->function,
				       .process = node->process,
				       .caller = node->caller,
				       .stack = node->stack,
				       .pad = node->caller_code};

	if (is_new_process(reader, node->process))
		drain_control(reader);
	record.hdr.kind = PERFX_KIND_CONTEXT;
	reader->on_record(reader->ctx, &record.hdr);
	SINK_PACK(reader->sink, &reader->buffer, PERFX_KIND_CONTEXT, record);
	reader->context_states[id] = record.stack ? CONTEXT_WITH_STACK : CONTEXT_DESCRIBED;
}

/* Describes new nodes. A node without a function is being made on another CPU just now, and no
 * span names it yet: it is left for the next time. */
static void describe_contexts(struct reader *reader)
{
	const struct perfx_free_ids *ids = tracer__free_ids(reader->tracer, PERFX_ID_CONTEXT);
	uint32_t taken = __atomic_load_n(&ids->taken, __ATOMIC_ACQUIRE), count;
	const struct perfx_context_node *nodes = tracer__contexts(reader->tracer, &count);
	bool all_described = true;

	describe_names(reader);
	for (uint32_t id = reader->contexts_low; id < count; id++) {
		uint32_t function = __atomic_load_n(&nodes[id].function, __ATOMIC_ACQUIRE);

		if (!reader->context_states[id] && function)
			describe_context(reader, id, &nodes[id]);
	}
	while (reader->contexts_low < count && reader->context_states[reader->contexts_low])
		reader->contexts_low++;
	/* nodes whose indices were free */
	for (uint32_t at = reader->contexts_taken; at != taken; at++) {
		uint32_t id = ids->ids[at % PERFX_FREE_PLACES];

		if (reader->context_states[id])
			continue;
		if (__atomic_load_n(&nodes[id].function, __ATOMIC_ACQUIRE))
			describe_context(reader, id, &nodes[id]);
		else
			all_described = false;
	}
	if (all_described)
		reader->contexts_taken = taken;
}

/* Control records go to the sink, objects to on_object alone, which emits records of its own. */
static void act_on(struct reader *reader, struct backlog *backlog, void *record, size_t size)
{
	if (backlog == &reader->objects_backlog) {
		reader->on_object(reader->ctx, record);
		return;
	}
	sink_record(reader->sink, record, size);
	reader->on_record(reader->ctx, record);
}

/* Out of memory: acts at once. */
static void keep_record(struct reader *reader, struct backlog *backlog, void *record, uint64_t size)
{
	size_t padded = (size + 7) / 8 * 8;

	if (grow_array(&backlog->bytes, &backlog->capacity, backlog->length + sizeof(size) + padded,
		       1)) {
		act_on(reader, backlog, record, size);
		return;
	}
	memcpy(backlog->bytes + backlog->length, &size, sizeof(size));
	memcpy(backlog->bytes + backlog->length + sizeof(size), record, size);
	backlog->length += sizeof(size) + padded;
}

static int on_control_record(void *ctx, void *record, size_t size)
{
	struct reader *reader = ctx;

	keep_record(reader, &reader->control_backlog, record, size);
	return 0;
}

static int on_object_record(void *ctx, void *record, size_t size)
{
	struct reader *reader = ctx;

	keep_record(reader, &reader->objects_backlog, record, size);
	return 0;
}

static void work_off(struct reader *reader, struct backlog *backlog)
{
	for (size_t at = 0; at < backlog->length;) {
		uint64_t size;

		memcpy(&size, backlog->bytes + at, sizeof(size));
		act_on(reader, backlog, backlog->bytes + at + sizeof(size), size);
		at += sizeof(size) + (size + 7) / 8 * 8;
	}
	backlog->length = 0;
}

static void drain_control(struct reader *reader)
{
	if (reader->draining_control)
		return;
	reader->draining_control = true;
	reader->recording_windows_known = tracer__recording_windows(reader->tracer);
	ring_buffer__consume(reader->control);
	work_off(reader, &reader->control_backlog);
	reader->draining_control = false;
}

/* Describes what a record names, before it, and the window that it lies in. */
static void introduce(struct reader *reader, uint32_t process, uint32_t context)
{
	if (is_new_process(reader, process) ||
	    reader->recording_windows_known != tracer__recording_windows(reader->tracer))
		drain_control(reader);
	if (context < PERFX_MAX_CONTEXTS && !reader->context_states[context])
		describe_contexts(reader);
}

/* From the rings of calls. */
static void on_span(void *ctx, const void *data, size_t size)
{
	struct reader *reader = ctx;
	const struct perfx_span *span = data;

	if (span->hdr.kind == PERFX_KIND_SPAN) {
		introduce(reader, span->process, span->context);
		reader->spans_count++;
	} else {
		introduce(reader, (uint32_t)record_id(data, ID_PROCESS),
			  (uint32_t)record_id(data, ID_CONTEXT));
	}
	sink_record(reader->sink, data, size);
}

static void on_memory(void *ctx, const void *data, size_t size)
{
	struct reader *reader = ctx;
	const struct perfx_record *record = data;

	if (record->kind != PERFX_KIND_FREE && record->kind != PERFX_KIND_STACK)
		introduce(reader, (uint32_t)record_id(record, ID_PROCESS),
			  (uint32_t)record_id(record, ID_CONTEXT));
	if (record->kind != PERFX_KIND_FREE && size <= sizeof(reader->changed)) {
		memcpy(&reader->changed, data, size);
		reader->on_record(reader->ctx, &reader->changed.record);
		data = &reader->changed;
		size = reader->changed.record.size;
	}
	sink_record(reader->sink, data, size);
}

/* An untimed call has no time, and counts as old as the record before it. A STACK goes out at once:
 * records that name it follow. */
static uint64_t time_of_record(const void *data)
{
	return record_time_ns(data);
}

struct reader *reader__new(struct tracer *tracer, struct sink *sink,
			   void (*on_record)(void *ctx, struct perfx_record *record),
			   void (*on_object)(void *ctx, const struct perfx_object_record *record),
			   void *ctx)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	const struct tracer_rings *spans = tracer__spans(tracer), *memory = tracer__memory(tracer);
	struct epoll_event event = {.events = EPOLLIN};
	int err = 0;

	if (!reader)
		return NULL;
	reader->tracer = tracer;
	reader->sink = sink;
	reader->on_record = on_record;
	reader->on_object = on_object;
	reader->ctx = ctx;
	reader->contexts_low = 1;
	reader->context_states[0] = CONTEXT_DESCRIBED; /* "no context" */
	reader->spans = rings__new(&(struct rings_options){.fds = spans->fds,
							   .count = spans->count,
							   .time_of = time_of_record,
							   .take = on_span,
							   .ctx = reader});
	reader->memory = rings__new(&(struct rings_options){.fds = memory->fds,
							    .count = memory->count,
							    .time_of = time_of_record,
							    .exact_times = true,
							    .take = on_memory,
							    .ctx = reader});
	reader->control =
		ring_buffer__new(tracer__control_fd(tracer), on_control_record, reader, NULL);
	reader->objects =
		ring_buffer__new(tracer__objects_fd(tracer), on_object_record, reader, NULL);
	reader->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!reader->spans || !reader->memory || !reader->control || !reader->objects ||
	    reader->epoll_fd < 0) {
		err = errno;
	} else {
		const int fds[] = {rings__fd(reader->spans), rings__fd(reader->memory),
				   ring_buffer__epoll_fd(reader->control),
				   ring_buffer__epoll_fd(reader->objects)};

		for (size_t i = 0; !err && i < sizeof(fds) / sizeof(fds[0]); i++)
			if (epoll_ctl(reader->epoll_fd, EPOLL_CTL_ADD, fds[i], &event))
				err = errno;
	}
	if (!err)
		return reader;
	reader__free(reader);
	errno = err;
	return NULL;
}

void reader__free(struct reader *reader)
{
	if (!reader)
		return;
	rings__free(reader->spans);
	rings__free(reader->memory);
	ring_buffer__free(reader->control);
	ring_buffer__free(reader->objects);
	free(reader->control_backlog.bytes);
	free(reader->objects_backlog.bytes);
	if (reader->epoll_fd >= 0)
		close(reader->epoll_fd);
	free(reader);
}

void reader__name_steps(struct reader *reader, const char *name)
{
	reader->step_range = name;
}

int reader__fd(const struct reader *reader)
{
	return reader->epoll_fd;
}

uint64_t reader__spans_count(const struct reader *reader)
{
	return reader->spans_count;
}

bool reader__drain(struct reader *reader)
{
	bool more;

	drain_control(reader);
	ring_buffer__consume(reader->objects);
	work_off(reader, &reader->objects_backlog);
	more = rings__drain(reader->memory);
	more |= rings__drain(reader->spans);
	/* nodes whose calls are all in the overflow sums */
	describe_contexts(reader);
	return more;
}

uint64_t reader__drained_ns(const struct reader *reader)
{
	uint64_t spans_ns = rings__drained_ns(reader->spans),
		 memory_ns = rings__drained_ns(reader->memory);

	return spans_ns < memory_ns ? spans_ns : memory_ns;
}

void reader__finish(struct reader *reader)
{
	uint32_t count;
	const struct perfx_context_node *nodes;

	while (reader__drain(reader))
		;
	/* describes once more those whose first call was being followed when they were described */
	nodes = tracer__contexts(reader->tracer, &count);
	for (uint32_t id = 1; id < count; id++)
		if (reader->context_states[id] == CONTEXT_DESCRIBED && nodes[id].stack)
			describe_context(reader, id, &nodes[id]);
	rings__flush(reader->memory);
	rings__flush(reader->spans);
}

void reader__forget_context(struct reader *reader, uint32_t context)
{
	reader->context_states[context] = CONTEXT_NEW;
}

void reader__forget_process(struct reader *reader, uint32_t process)
{
	reader->processes_known[process] = false;
}
