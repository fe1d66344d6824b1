// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto: a track for each process, in it one for each thread with its calls as nested slices,
 * and counters; steps and ranges that any thread may end have tracks of their own. Times are
 * CLOCK_MONOTONIC's, with a snapshot that relates them to the others. Names are sent once and then
 * referred to by number. Field numbers: perfetto.proto.
 *
 * 10 million calls are 20 million packets in a few seconds, so a packet of the many is built in
 * place, not from a tree of objects.
 */
#include "analyze/location.h"
#include "analyze/memory_sum.h"
#include "analyze/slices.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/units.h"
#include "decode/decode.h"
#include "decode/names.h"
#include "export/formats.h"
#include "export/timeline.h"
#include "export/wire.h"

#include <errno.h>
#include <stdlib.h>

enum { TRACE_PACKET = 1 };
enum { PACKET_CLOCKS = 6, PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_EVENT = 11 };
enum { PACKET_INTERNED = 12, PACKET_FLAGS = 13, PACKET_DEFAULTS = 59, PACKET_TRACK = 60 };
enum { PACKET_SAMPLE = 66, PACKET_FIRST = 87 };
enum { DEFAULTS_CLOCK = 58 };
enum { CLOCKS_CLOCK = 1, CLOCKS_PRIMARY = 2 };
enum { CLOCK_ID = 1, CLOCK_TIMESTAMP = 2 };
enum { INTERNED_CATEGORIES = 1, INTERNED_NAMES = 2, INTERNED_ARGUMENTS = 3, INTERNED_TEXTS = 29 };
enum { NAME_IID = 1, NAME_NAME = 2 };
enum { ARGUMENT_NAME = 1, ARGUMENT_STRING = 6, ARGUMENT_PLAIN_NAME = 10, ARGUMENT_TEXT = 17 };
enum { EVENT_CATEGORY = 3, EVENT_ARGUMENT = 4, EVENT_TYPE = 9, EVENT_NAME = 10 };
enum { EVENT_TRACK = 11, EVENT_CATEGORY_NAME = 22, EVENT_NAME_NAME = 23, EVENT_COUNTER = 30 };
enum { EVENT_DOUBLE = 44, EVENT_FLOW = 47 };
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5 };
enum { TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_CMDLINE = 2, PROCESS_SORT_INDEX = 3, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3, COUNTER_UNIT_NAME = 6 };
enum { UNIT_BYTES = 3 };
enum { INTERNED_FUNCTIONS = 5, INTERNED_FRAMES = 6, INTERNED_CALLSTACKS = 7 };
enum { INTERNED_PATHS = 17, INTERNED_MAPPINGS = 19 };
enum { STRING_IID = 1, STRING_STR = 2 };
enum { MAPPING_IID = 1, MAPPING_PATHS = 7 };
enum { FRAME_IID = 1, FRAME_FUNCTION = 2, FRAME_MAPPING = 3, FRAME_REL_PC = 4 };
enum { CALLSTACK_IID = 1, CALLSTACK_FRAMES = 2 };
enum { SAMPLE_PID = 2, SAMPLE_TID = 3, SAMPLE_CALLSTACK = 4 };

/* Arguments of a slice, by the numbers of their names. */
enum { ARGUMENT_CALLER = 1, ARGUMENT_STACK = 2, ARGUMENTS };

#define SEQUENCE      1
#define FLAGS_CLEARED 1
#define FLAGS_NEEDED  2

/* Bytes that are written at once. */
#define BUFFER_BYTES (1 << 20)

/*
 * Call stacks as Perfetto has them: a stack is numbers of frames, a frame a name in a mapping, a
 * mapping a path; each is sent once.
 */
struct perfetto_stacks {
	const struct profile *profile;
	struct map64 places;   /* process << 32 | id → profile->stacks[] */
	bool *sent;	       /* by place */
	struct map64 frames;   /* address of a profile_frame → number */
	struct map64 mappings; /* address of a path → number */
	uint32_t frames_count, mappings_count;
	struct text interned, sample; /* messages that perfetto_sample has made */
	struct text inner;
};

static int perfetto_stacks_make(struct perfetto_stacks *stacks, const struct profile *profile)
{
	int err = 0;

	*stacks = (struct perfetto_stacks){.profile = profile};
	stacks->sent = calloc(profile->stacks_count + 1, sizeof(*stacks->sent));
	if (!stacks->sent)
		return -ENOMEM;
	for (size_t i = 0; i < profile->stacks_count && !err; i++)
		err = map64_put(&stacks->places,
				MAP64_PAIR(profile->stacks[i].process, profile->stacks[i].id),
				(uint32_t)i);
	return err;
}

static void perfetto_stacks_clear(struct perfetto_stacks *stacks)
{
	free(stacks->sent);
	map64_clear(&stacks->places);
	map64_clear(&stacks->frames);
	map64_clear(&stacks->mappings);
	text_clear(&stacks->interned);
	text_clear(&stacks->sample);
	text_clear(&stacks->inner);
}

/* A name made harmless. */
static void add_name(struct text *to, unsigned field, const char *name)
{
	struct text shown = {0};

	escape_display(&shown, name);
	wire_string(to, field, text_peek(&shown));
	text_finish(&shown, &to->failed);
}

/* Numbers count from 1. */
static void add_string(struct perfetto_stacks *stacks, unsigned field, uint64_t iid,
		       const char *plain)
{
	wire_integer(&stacks->inner, STRING_IID, iid);
	add_name(&stacks->inner, STRING_STR, plain);
	wire_message(&stacks->interned, field, &stacks->inner);
}

/* Its number; 0: memory is out. Perfetto puts a slash before each part of a path: it is one. */
static uint32_t mapping_of(struct perfetto_stacks *stacks, const char *path)
{
	uint32_t iid = map64_get(&stacks->mappings, (uintptr_t)path);

	if (iid != MAP64_NONE)
		return iid;
	iid = ++stacks->mappings_count;
	if (map64_put(&stacks->mappings, (uintptr_t)path, iid))
		return 0;
	if (path[0])
		add_string(stacks, INTERNED_PATHS, iid, path[0] == '/' ? path + 1 : path);
	wire_integer(&stacks->inner, MAPPING_IID, iid);
	if (path[0])
		wire_integer(&stacks->inner, MAPPING_PATHS, iid);
	wire_message(&stacks->interned, INTERNED_MAPPINGS, &stacks->inner);
	return iid;
}

/* Likewise. Python's code is in its file, and has no address there. */
static uint32_t frame_of(struct perfetto_stacks *stacks, const struct profile_frame *frame)
{
	uint32_t iid = map64_get(&stacks->frames, (uintptr_t)frame), mapping;
	bool is_python = frame->language == PERFX_LANGUAGE_PYTHON;
	struct text name = {0};

	if (iid != MAP64_NONE)
		return iid;
	mapping = mapping_of(stacks, is_python ? frame->file : frame->module);
	iid = ++stacks->frames_count;
	if (!mapping || map64_put(&stacks->frames, (uintptr_t)frame, iid))
		return 0;
	location_frame(&name, frame, LOCATION_BRIEF);
	add_string(stacks, INTERNED_FUNCTIONS, iid, text_peek(&name));
	wire_integer(&stacks->inner, FRAME_IID, iid);
	wire_integer(&stacks->inner, FRAME_FUNCTION, iid);
	wire_integer(&stacks->inner, FRAME_MAPPING, mapping);
	wire_integer(&stacks->inner, FRAME_REL_PC,
		     is_python		? iid
		     : frame->module[0] ? frame->offset
					: frame->address);
	wire_message(&stacks->interned, INTERNED_FRAMES, &stacks->inner);
	text_finish(&name, &stacks->interned.failed);
	return iid;
}

/* The outermost frame first. */
static int add_stack(struct perfetto_stacks *stacks, uint32_t place)
{
	const struct profile_stack *stack = &stacks->profile->stacks[place];
	struct text numbers = {0};
	bool failed = false;

	for (size_t i = stack->frames_count; i-- > 0 && !failed;) {
		uint32_t frame = frame_of(stacks, stack->frames[i]);

		wire_integer(&numbers, CALLSTACK_FRAMES, frame);
		failed = !frame || numbers.failed;
	}
	wire_integer(&stacks->inner, CALLSTACK_IID, place + 1);
	text_add_bytes(&stacks->inner, text_peek(&numbers), numbers.length);
	wire_message(&stacks->interned, INTERNED_CALLSTACKS, &stacks->inner);
	text_clear(&numbers);
	stacks->sent[place] = true;
	return failed ? -ENOMEM : 0;
}

/* A sample as a PerfSample, and InternedData (may be empty) that comes with it. 0 or -ENOMEM. */
static int perfetto_sample(struct perfetto_stacks *stacks, const struct perfx_sample *sample,
			   const struct profile_process *process)
{
	uint32_t place = map64_get(&stacks->places, MAP64_PAIR(sample->process, sample->stack));
	bool known = place != MAP64_NONE && stacks->profile->stacks[place].frames_count;
	int err = known && !stacks->sent[place] ? add_stack(stacks, place) : 0;

	wire_integer(&stacks->sample, SAMPLE_PID, export_pid(process, process->pid));
	wire_integer(&stacks->sample, SAMPLE_TID, export_pid(process, sample->tid));
	if (known)
		wire_integer(&stacks->sample, SAMPLE_CALLSTACK, place + 1);
	return err;
}

struct called {
	const struct profile_context *context;
	bool sent; /* its arguments' texts */
};

struct perfetto {
	const struct export *export;
	struct nesting *nesting;
	struct export_steps *steps;
	struct map64 processes;	 /* index → place in the profile */
	uint64_t *process_uuids; /* by place */
	uint64_t *step_uuids;	 /* likewise; 0: no step yet */
	bool *sent;		 /* by function: its name has been sent */
	struct map64 contexts;	 /* id of a context → index in `called` */
	struct called *called;	 /* contexts whose caller or stack is known */
	size_t called_count, called_capacity;
	uint64_t uuids_count; /* given so far */
	struct value_tracks values;
	struct perfetto_stacks stacks;
	struct gpu_tracks gpu;
	struct nesting *streams;	    /* a track of gpu is a thread of it */
	struct perfx_gpu_activity activity; /* that goes out now */
	struct wait_names waits;
	struct map64 states; /* process << 32 | tid → what the thread did, a track in its own */
	struct text out, packet, message, inner;
};

static int write_out(struct perfetto *p, size_t at_least)
{
	if (p->out.failed || p->packet.failed)
		return -ENOMEM;
	if (p->out.length < at_least)
		return 0;
	fwrite(p->out.data, 1, p->out.length, p->export->out);
	p->out.length = 0;
	return export_error(p->export->out);
}

/* The packet that was built goes out. */
static int put_packet(struct perfetto *p)
{
	wire_integer(&p->packet, PACKET_SEQUENCE, SEQUENCE);
	wire_message(&p->out, TRACE_PACKET, &p->packet);
	return write_out(p, BUFFER_BYTES);
}

/* The event that was built in p->message goes out. */
static int put_message(struct perfetto *p, uint64_t time_ns)
{
	wire_integer(&p->packet, PACKET_TIMESTAMP, time_ns);
	wire_integer(&p->packet, PACKET_FLAGS, FLAGS_NEEDED);
	wire_message(&p->packet, PACKET_EVENT, &p->message);
	return put_packet(p);
}

static int put_beginning(struct perfetto *p)
{
	const struct profile *profile = p->export->profile;
	const uint64_t clocks[][2] = {
		{1, profile->start_unix_ns}, {3, profile->start_ns}, {6, profile->start_boot_ns}};
	int err;

	wire_integer(&p->packet, PACKET_FIRST, true);
	wire_integer(&p->packet, PACKET_FLAGS, FLAGS_CLEARED);
	wire_integer(&p->message, DEFAULTS_CLOCK, 3);
	wire_message(&p->packet, PACKET_DEFAULTS, &p->message);
	for (int source = PERFX_SOURCE_PERFX; source < PERFX_SOURCES; source++) {
		wire_integer(&p->inner, NAME_IID, (uint64_t)source);
		wire_string(&p->inner, NAME_NAME, name_of_source(source));
		wire_message(&p->message, INTERNED_CATEGORIES, &p->inner);
	}
	for (int i = ARGUMENT_CALLER; i < ARGUMENTS && p->called_count; i++) {
		wire_integer(&p->inner, NAME_IID, (uint64_t)i);
		wire_string(&p->inner, NAME_NAME,
			    i == ARGUMENT_CALLER ? "called from" : "stack of the first call");
		wire_message(&p->message, INTERNED_ARGUMENTS, &p->inner);
	}
	wire_message(&p->packet, PACKET_INTERNED, &p->message);
	err = put_packet(p);
	if (err)
		return err;
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		wire_integer(&p->inner, CLOCK_ID, clocks[i][0]);
		wire_integer(&p->inner, CLOCK_TIMESTAMP, clocks[i][1]);
		wire_message(&p->message, CLOCKS_CLOCK, &p->inner);
	}
	wire_integer(&p->message, CLOCKS_PRIMARY, 3);
	wire_message(&p->packet, PACKET_CLOCKS, &p->message);
	return put_packet(p);
}

static int put_process(struct perfetto *p, size_t i)
{
	const struct profile_process *process = &p->export->profile->processes[i];
	char *cmdline = strdup(process->cmdline), *rest = *process->cmdline ? cmdline : NULL;
	struct text name = {0};

	p->process_uuids[i] = ++p->uuids_count;
	wire_integer(&p->inner, PROCESS_PID, export_pid(process, process->pid));
	p->inner.failed |= !cmdline;
	for (char *word; (word = strsep(&rest, (char[]){PROFILE_ARGUMENT_END, '\0'}));)
		add_name(&p->inner, PROCESS_CMDLINE, word);
	free(cmdline);
	if (process->rank.world_size)
		wire_integer(&p->inner, PROCESS_SORT_INDEX, process->rank.rank);
	export_rank_name(&name, p->export->profile, process);
	if (name.length)
		add_name(&p->inner, PROCESS_NAME, text_peek(&name));
	text_finish(&name, &p->inner.failed);
	wire_integer(&p->message, TRACK_UUID, p->process_uuids[i]);
	wire_message(&p->message, TRACK_PROCESS, &p->inner);
	wire_message(&p->packet, PACKET_TRACK, &p->message);
	if (map64_put(&p->processes, process->index, (uint32_t)i))
		return -ENOMEM;
	return put_packet(p);
}

/* In a process's; tracks of one name are shown as one. */
static int put_process_track(struct perfetto *p, uint32_t place, uint64_t uuid, const char *name)
{
	wire_integer(&p->message, TRACK_UUID, uuid);
	wire_string(&p->message, TRACK_NAME, name);
	if (place != MAP64_NONE)
		wire_integer(&p->message, TRACK_PARENT, p->process_uuids[place]);
	wire_message(&p->packet, PACKET_TRACK, &p->message);
	return put_packet(p);
}

/* Lane 0 is the thread's own track, the others are in it. */
static int put_thread(struct perfetto *p, struct nesting_thread *thread, unsigned lane)
{
	uint32_t place = map64_get(&p->processes, thread->process);
	const struct profile_process *process =
		place == MAP64_NONE ? NULL : &p->export->profile->processes[place];
	char name[64];

	thread->data[lane] = ++p->uuids_count;
	if (thread->async)
		return put_process_track(p, place, thread->data[lane], "Overlapping ranges");
	wire_integer(&p->message, TRACK_UUID, thread->data[lane]);
	if (lane) {
		snprintf(name, sizeof(name), "thread %u, overlapping (%u)", thread->tid, lane);
		wire_string(&p->message, TRACK_NAME, name);
		wire_integer(&p->message, TRACK_PARENT, thread->data[0]);
	} else if (process) {
		wire_integer(&p->inner, THREAD_PID, export_pid(process, process->pid));
		wire_integer(&p->inner, THREAD_TID, export_pid(process, thread->tid));
		if (profile_thread_name(process, thread->tid)[0])
			add_name(&p->inner, THREAD_NAME, profile_thread_name(process, thread->tid));
		wire_integer(&p->message, TRACK_PARENT, p->process_uuids[place]);
		wire_message(&p->message, TRACK_THREAD, &p->inner);
	} else {
		snprintf(name, sizeof(name), "thread %u", thread->tid);
		wire_string(&p->message, TRACK_NAME, name);
	}
	wire_message(&p->packet, PACKET_TRACK, &p->message);
	return put_packet(p);
}

static int track_of(struct perfetto *p, struct nesting_thread *thread, unsigned lane)
{
	int err = thread->data[0] ? 0 : put_thread(p, thread, 0);

	return err || thread->data[lane] ? err : put_thread(p, thread, lane);
}

/* The number of an argument's text: two for each context. */
static uint64_t text_number(const struct called *called, unsigned argument)
{
	return (uint64_t)called->context->id * ARGUMENTS + argument;
}

static void add_text(struct perfetto *p, const struct called *called, unsigned argument,
		     const struct profile_frame *const *frames, size_t count)
{
	struct text plain = {0};

	for (size_t i = 0; i < count; i++) {
		text_add(&plain, i ? " \xe2\x86\x90 " : "");
		location_frame(&plain, frames[i], LOCATION_BRIEF);
	}
	wire_integer(&p->inner, NAME_IID, text_number(called, argument));
	add_name(&p->inner, NAME_NAME, text_peek(&plain));
	wire_message(&p->message, INTERNED_TEXTS, &p->inner);
	text_finish(&plain, &p->packet.failed);
}

/* A text that is met for the first time is sent with the packet that refers to it. */
static void add_interned(struct perfetto *p, uint32_t function, struct called *called)
{
	const struct profile_context *context = called && !called->sent ? called->context : NULL;

	if (!p->sent[function]) {
		p->sent[function] = true;
		wire_integer(&p->inner, NAME_IID, function);
		add_name(&p->inner, NAME_NAME,
			 export_label(profile_function(p->export->profile, function)));
		wire_message(&p->message, INTERNED_NAMES, &p->inner);
	}
	if (context)
		called->sent = true;
	if (context && context->caller)
		add_text(p, called, ARGUMENT_CALLER, &context->caller, 1);
	if (context && context->stack)
		add_text(p, called, ARGUMENT_STACK, context->stack->frames,
			 context->stack->frames_count);
	if (p->message.length)
		wire_message(&p->packet, PACKET_INTERNED, &p->message);
}

static char *put_argument(char *at, const struct called *called, unsigned argument)
{
	char message[32], *end = wire_put_integer(message, ARGUMENT_NAME, argument);

	end = wire_put_integer(end, ARGUMENT_TEXT, text_number(called, argument));
	at = wire_put_varint(at, EVENT_ARGUMENT << 3 | WIRE_BYTES);
	at = wire_put_varint(at, (uint64_t)(end - message));
	memcpy(at, message, (size_t)(end - message));
	return at + (end - message);
}

/* Most of a trace, therefore put together in place: at most 4 + 6 integers of 12 bytes, and two
 * arguments of 34. */
static int put_event(struct perfetto *p, uint64_t time_ns, uint64_t track, unsigned type,
		     const struct perfx_span *span)
{
	const struct profile_function *function =
		span ? profile_function(p->export->profile, span->function) : NULL;
	/* NULL: neither caller nor stack are known */
	struct called *called = function && p->called_count
					? MAP64_FIND(p->contexts, span->context, p->called)
					: NULL;
	char event[128], packet[192], *e = event, *at = packet;

	if (function) {
		add_interned(p, span->function, called);
		e = wire_put_integer(e, EVENT_CATEGORY, function->source);
		if (called && called->context->caller)
			e = put_argument(e, called, ARGUMENT_CALLER);
		if (called && called->context->stack)
			e = put_argument(e, called, ARGUMENT_STACK);
		e = wire_put_integer(e, EVENT_NAME, span->function);
	}
	e = wire_put_integer(e, EVENT_TYPE, type);
	e = wire_put_integer(e, EVENT_TRACK, track);
	at = wire_put_integer(at, PACKET_TIMESTAMP, time_ns);
	at = wire_put_integer(at, PACKET_FLAGS, FLAGS_NEEDED);
	at = wire_put_integer(at, PACKET_SEQUENCE, SEQUENCE);
	at = wire_put_varint(at, PACKET_EVENT << 3 | WIRE_BYTES);
	at = wire_put_varint(at, (uint64_t)(e - event));
	memcpy(at, event, (size_t)(e - event));
	at += e - event;
	/* after a name that is sent with it */
	text_add_bytes(&p->packet, packet, (size_t)(at - packet));
	wire_message(&p->out, TRACE_PACKET, &p->packet);
	return write_out(p, BUFFER_BYTES);
}

static int on_begin(void *ctx, struct nesting_thread *thread, unsigned lane,
		    const struct perfx_span *span)
{
	struct perfetto *p = ctx;
	int err = track_of(p, thread, lane);

	return err ?: put_event(p, span->start_ns, thread->data[lane], TYPE_BEGIN, span);
}

static int on_end(void *ctx, struct nesting_thread *thread, unsigned lane, uint64_t end_ns)
{
	return put_event(ctx, end_ns, thread->data[lane], TYPE_END, NULL);
}

/* An event that is no call, with its name in it. name NULL: an end. flow: of an arrow; 0: none. */
static int put_named_event(struct perfetto *p, uint64_t time_ns, uint64_t track, unsigned type,
			   const char *category, const char *name, uint64_t flow)
{
	if (name) {
		wire_string(&p->message, EVENT_CATEGORY_NAME, category);
		add_name(&p->message, EVENT_NAME_NAME, name);
	}
	wire_integer(&p->message, EVENT_TYPE, type);
	wire_integer(&p->message, EVENT_TRACK, track);
	if (flow)
		wire_fixed64(&p->message, EVENT_FLOW, flow);
	return put_message(p, time_ns);
}

static int put_step(struct perfetto *p, const struct export_step *step)
{
	uint64_t *track = &p->step_uuids[step->place];
	char name[32];
	int err = 0;

	if (!*track) {
		*track = ++p->uuids_count;
		err = put_process_track(p, (uint32_t)step->place, *track, "Steps");
	}
	snprintf(name, sizeof(name), "Step %llu", (unsigned long long)step->number);
	err = err ?: put_named_event(p, step->from_ns, *track, TYPE_BEGIN, "step", name, 0);
	return err ?: put_named_event(p, step->to_ns, *track, TYPE_END, NULL, NULL, 0);
}

/* A call whose time is not known is an instant. */
static int on_span(void *ctx, const struct event *event)
{
	const struct perfx_span *span = &event->span;
	struct perfetto *p = ctx;
	struct nesting_thread *thread;
	struct export_step step;
	int err = 0;

	if (event->kind != PERFX_KIND_SPAN)
		return 0;
	if (export_steps__ends(p->steps, span, &step))
		err = put_step(p, &step);
	if (err)
		return err;
	if (!(span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED)))
		return nesting__add(p->nesting, span);
	thread = nesting__thread(p->nesting, span);
	err = thread ? track_of(p, thread, 0) : -ENOMEM;
	return err ?: put_event(p, span->start_ns, thread->data[0], TYPE_INSTANT, span);
}

/* parent 0: of the machine; unit NULL: bytes. */
static int put_track(struct perfetto *p, uint64_t parent, const char *name, const char *unit)
{
	wire_integer(&p->message, TRACK_UUID, ++p->uuids_count);
	wire_string(&p->message, TRACK_NAME, name);
	if (parent)
		wire_integer(&p->message, TRACK_PARENT, parent);
	if (unit)
		wire_string(&p->inner, COUNTER_UNIT_NAME, unit);
	else
		wire_integer(&p->inner, COUNTER_UNIT, UNIT_BYTES);
	wire_message(&p->message, TRACK_COUNTER, &p->inner);
	wire_message(&p->packet, PACKET_TRACK, &p->message);
	return put_packet(p);
}

static int put_count(struct perfetto *p, uint64_t time_ns, uint64_t value)
{
	wire_integer(&p->message, EVENT_TYPE, TYPE_COUNTER);
	wire_integer(&p->message, EVENT_TRACK, p->uuids_count);
	wire_integer(&p->message, EVENT_COUNTER, min_u64(value, INT64_MAX));
	return put_message(p, time_ns);
}

static int put_resident(struct perfetto *p, size_t i)
{
	const struct profile_process *process = &p->export->profile->processes[i];
	int err = 0;

	if (process->points_count)
		err = put_track(p, p->process_uuids[i], "Resident memory", NULL);
	FOR_EACH (point, process->points)
		if (!err && point->rss_bytes != PROFILE_ABSENT)
			err = put_count(p, point->time_ns, point->rss_bytes);
	return err;
}

/* Of one CPU, between two samples; it stands at the first of them. */
static int put_cpu(struct perfetto *p, size_t i)
{
	const struct profile_process *process = &p->export->profile->processes[i];
	int err = process->points_count > 1 ? put_track(p, p->process_uuids[i], "CPU", "%") : 0;

	for (size_t j = 1; j < process->points_count && !err; j++) {
		const struct profile_usage_point *a = &process->points[j - 1], *b = a + 1;

		if (a->cpu_ns == PROFILE_ABSENT || b->cpu_ns == PROFILE_ABSENT ||
		    b->time_ns <= a->time_ns || b->cpu_ns < a->cpu_ns)
			continue;
		err = put_count(p, a->time_ns,
				u64_of(100.0 * (double)(b->cpu_ns - a->cpu_ns) /
				       (double)(b->time_ns - a->time_ns)));
	}
	return err;
}

static int put_memory(struct perfetto *p, size_t i, const struct profile_memory *memory)
{
	bool held = memory->current_bytes != PROFILE_ABSENT;
	char name[64];
	int err;

	snprintf(name, sizeof(name), "%s: %s", name_of_domain(memory->domain),
		 held ? "live bytes" : "allocated so far");
	err = put_track(p, p->process_uuids[i], name, NULL);
	for (size_t j = 0; j < memory->points_count && !err; j++)
		err = put_count(p, memory->points[j].time_ns,
				held ? memory->points[j].live_bytes
				     : memory->points[j].allocated_bytes);
	return err;
}

/* A track for each part of resident memory. */
static int put_memory_sums(struct perfetto *p, size_t i)
{
	const struct profile_memory_sums *sums = p->export->profile->processes[i].memory_sums;
	char name[64];
	int err = 0;

	for (int part = 0; sums && part < PERFX_MEMORY_PARTS && !err; part++) {
		if (!sums->first.resident[part] && !sums->peak.resident[part] &&
		    !sums->last.resident[part])
			continue;
		snprintf(name, sizeof(name), "memory: %s", memory_part_words(part));
		err = put_track(p, p->process_uuids[i], name, NULL);
		for (size_t j = 0; j < sums->points_count && !err; j++)
			err = put_count(p, sums->points[j].time_ns, sums->points[j].resident[part]);
	}
	return err;
}

enum gpu_counter { GPU_UTILISATION, GPU_MEMORY, GPU_POWER, GPU_COUNTERS };

static int put_gpu_counter(struct perfetto *p, const struct profile_gpu_device *device, int counter)
{
	static const char *const names[][2] = {
		{"utilization", "%"}, {"memory", NULL}, {"power", "mW"}};
	bool has_track = false;
	char name[64];
	int err = 0;

	snprintf(name, sizeof(name), "GPU %u %s", device->index, names[counter][0]);
	for (size_t i = 0; i < device->points_count && !err; i++) {
		const struct profile_gpu_point *point = &device->points[i];
		uint64_t value = counter == GPU_MEMORY	? point->memory_used_bytes
				 : counter == GPU_POWER ? point->power_mw
							: point->utilisation_percent;

		if (value == (counter == GPU_MEMORY ? UINT64_MAX : UINT32_MAX)) /* not measured */
			continue;
		if (!has_track)
			err = put_track(p, 0, name, names[counter][1]);
		has_track = true;
		err = err ?: put_count(p, point->time_ns, value);
	}
	return err;
}

static int on_value(void *ctx, const struct event *event)
{
	const struct perfx_user_value *record = &event->user_value;
	struct perfetto *p = ctx;
	struct value_track *track = event->kind == PERFX_KIND_USER_VALUE
					    ? value_tracks_follow(&p->values, record)
					    : NULL;
	int err = 0;

	if (!track)
		return 0;
	if (!track->data) {
		track->data = ++p->uuids_count;
		wire_integer(&p->message, TRACK_UUID, track->data);
		add_name(&p->message, TRACK_NAME, track->value->name[0] ? track->value->name : "?");
		wire_integer(&p->message, TRACK_PARENT, p->process_uuids[track->process]);
		wire_message(&p->message, TRACK_COUNTER, &p->inner); /* empty: of no unit */
		wire_message(&p->packet, PACKET_TRACK, &p->message);
		err = put_packet(p);
	}
	wire_integer(&p->message, EVENT_TYPE, TYPE_COUNTER);
	wire_integer(&p->message, EVENT_TRACK, track->data);
	wire_double(&p->message, EVENT_DOUBLE, track->now);
	return err ?: put_message(p, record->time_ns);
}

/* Perfetto takes each sample for time on a CPU, so those of waiting threads are left out. */
static int on_sample(void *ctx, const struct event *event)
{
	const struct perfx_sample *sample = &event->sample;
	const struct profile_process *process;
	struct nesting_thread *thread;
	struct perfetto *p = ctx;
	int err;

	if (event->kind != PERFX_KIND_SAMPLE || sample->state != PERFX_SAMPLE_ON_CPU)
		return 0;
	process = export_process(p->export->profile, sample->process);
	if (!process)
		return 0;
	thread = nesting__thread(p->nesting, &(struct perfx_span){.process = sample->process,
								  .tid = sample->tid});
	err = thread ? track_of(p, thread, 0) : -ENOMEM; /* its name, if it has made no call */
	err = err ?: perfetto_sample(&p->stacks, sample, process);
	if (err)
		return err;
	wire_integer(&p->packet, PACKET_TIMESTAMP, sample->time_ns);
	if (p->stacks.interned.length)
		wire_message(&p->packet, PACKET_INTERNED, &p->stacks.interned);
	wire_integer(&p->packet, PACKET_FLAGS, FLAGS_NEEDED);
	wire_message(&p->packet, PACKET_SAMPLE, &p->stacks.sample);
	return put_packet(p);
}

/* An arrow leads from the launching call, an instant on its thread, to the slice of its work. */

static uint64_t flow_of(uint32_t process, uint64_t call)
{
	const uint64_t words[] = {process, call};

	return fnv1a(words, sizeof(words));
}

static int put_gpu_call(struct perfetto *p, const struct perfx_gpu_call *call)
{
	const struct perfx_span of_thread = {.process = call->process, .tid = call->tid};
	struct nesting_thread *thread = nesting__thread(p->nesting, &of_thread);
	int err = thread ? track_of(p, thread, 0) : -ENOMEM;

	if (err || call->op == PERFX_GPU_OP_SYNC)
		return err;
	return put_named_event(p, call->time_ns, thread->data[0], TYPE_INSTANT, "gpu_call",
			       gpu_name_of(p->export->profile, call->name),
			       flow_of(call->process, call->call));
}

/* The span's function is the place of its track. Lane 0 is the stream's own track; overlapping work
 * gets further tracks of its name. */
static int on_stream_begin(void *ctx, struct nesting_thread *thread, unsigned lane,
			   const struct perfx_span *span)
{
	struct perfetto *p = ctx;
	const struct perfx_gpu_activity *activity = &p->activity;
	const struct gpu_track *track = &p->gpu.list[span->function];
	uint64_t flow = activity->call ? flow_of(activity->process, activity->call) : 0;
	struct text name = {0};
	char track_name[64];
	int err = 0;

	if (!thread->data[lane]) {
		thread->data[lane] = ++p->uuids_count;
		snprintf(track_name, sizeof(track_name), "GPU %u stream %u", track->device,
			 track->stream);
		err = put_process_track(p, map64_get(&p->processes, track->process),
					thread->data[lane], track_name);
	}
	gpu_activity_name(&name, p->export->profile, activity);
	err = err ?: name.failed ? -ENOMEM : 0;
	err = err
		      ?: put_named_event(p, span->start_ns, thread->data[lane], TYPE_BEGIN,
					 gpu_activity_category(activity), text_peek(&name), flow);
	text_clear(&name);
	return err;
}

static int on_stream_end(void *ctx, struct nesting_thread *thread, unsigned lane, uint64_t end_ns)
{
	return put_named_event(ctx, end_ns, thread->data[lane], TYPE_END, NULL, NULL, 0);
}

/* Depth 0: it goes out at once, while it is p->activity. */
static int put_activity(struct perfetto *p, const struct perfx_gpu_activity *activity)
{
	struct gpu_track *track =
		gpu_activity_category(activity) ? gpu_tracks_get(&p->gpu, activity) : NULL;
	struct perfx_span span = {.start_ns = activity->time_ns,
				  .duration_ns = activity->end_ns - activity->time_ns,
				  .process = activity->process};

	if (!track)
		return gpu_activity_category(activity) ? -ENOMEM : 0;
	p->activity = *activity;
	span.function = (uint32_t)(track - p->gpu.list);
	span.tid = span.function + 1;
	return nesting__add(p->streams, &span);
}

static int on_gpu(void *ctx, const struct event *event)
{
	if (event->kind == PERFX_KIND_GPU_CALL)
		return put_gpu_call(ctx, &event->gpu_call);
	return event->kind == PERFX_KIND_GPU_ACTIVITY ? put_activity(ctx, &event->gpu_activity) : 0;
}

/* --timeline: what a thread did, on a track below its calls: slices of running, waiting and
 * readiness, with an arrow from the thread that woke it. */

static int put_state_track(struct perfetto *p, uint32_t process, uint32_t tid, uint64_t *track)
{
	const struct perfx_span of_thread = {.process = process, .tid = tid};
	uint32_t uuid = map64_get(&p->states, MAP64_PAIR(process, tid));
	struct nesting_thread *thread;
	int err;

	*track = uuid;
	if (uuid != MAP64_NONE)
		return 0;
	thread = nesting__thread(p->nesting, &of_thread);
	err = thread ? track_of(p, thread, 0) : -ENOMEM;
	*track = ++p->uuids_count;
	err = err ?: map64_put(&p->states, MAP64_PAIR(process, tid), (uint32_t)*track);
	if (err)
		return err;
	wire_integer(&p->message, TRACK_UUID, *track);
	wire_string(&p->message, TRACK_NAME, "State");
	wire_integer(&p->message, TRACK_PARENT, thread->data[0]);
	wire_message(&p->packet, PACKET_TRACK, &p->message);
	return put_packet(p);
}

static void add_plain_argument(struct perfetto *p, const char *name, const char *value)
{
	add_name(&p->inner, ARGUMENT_STRING, value);
	wire_string(&p->inner, ARGUMENT_PLAIN_NAME, name);
	wire_message(&p->message, EVENT_ARGUMENT, &p->inner);
}

/* An empty one is left out. */
static int put_state(struct perfetto *p, uint64_t track, uint64_t from_ns, uint64_t to_ns,
		     const char *name, uint64_t flow)
{
	int err = from_ns < to_ns
			  ? put_named_event(p, from_ns, track, TYPE_BEGIN, "state", name, flow)
			  : 0;

	return err || from_ns >= to_ns ? err
				       : put_named_event(p, to_ns, track, TYPE_END, NULL, NULL, 0);
}

static uint64_t flow_of_slice(const struct perfx_slice *slice)
{
	const uint64_t words[] = {slice->tid, slice->woken_ns};

	return fnv1a(words, sizeof(words));
}

/* The beginning of the arrow: an instant of the waker. 0: none. */
static int put_waker(struct perfetto *p, const struct perfx_slice *slice, uint64_t *flow)
{
	uint64_t track;
	char name[32];
	int err;

	*flow = 0;
	if (!slice->waker_process || !slice->waker_tid ||
	    map64_get(&p->processes, slice->waker_process) == MAP64_NONE)
		return 0;
	*flow = flow_of_slice(slice);
	err = put_state_track(p, slice->waker_process, slice->waker_tid, &track);
	snprintf(name, sizeof(name), "wakes %u", slice->tid);
	return err
		       ?: put_named_event(p, slice->woken_ns, track, TYPE_INSTANT, "state", name,
					  *flow);
}

static int on_slice(void *ctx, const struct event *event)
{
	const struct perfx_slice *slice = &event->slice;
	struct text waits = {0}, waker = {0};
	struct perfetto *p = ctx;
	uint64_t track, flow;
	char running[32];
	int err;

	if (event->kind != PERFX_KIND_SLICE ||
	    map64_get(&p->processes, slice->process) == MAP64_NONE)
		return 0;
	err = put_state_track(p, slice->process, slice->tid, &track);
	snprintf(running, sizeof(running), "CPU %u", slice->cpu);
	err = err ?: put_state(p, track, slice->on_ns, slice->left_ns, running, 0);
	slice_wait_words(&waits, &p->waits, slice);
	err = err ?: put_state(p, track, slice->left_ns, slice->woken_ns, text_peek(&waits), 0);
	err = err ?: put_waker(p, slice, &flow);
	slice_waker_words(&waker, p->export->profile, slice);
	if (!err && waker.length && slice->woken_ns < slice->time_ns)
		add_plain_argument(p, "woken by", text_peek(&waker));
	err = err ?: put_state(p, track, slice->woken_ns, slice->time_ns, "runnable", flow);
	text_finish(&waits, &p->packet.failed);
	text_finish(&waker, &p->packet.failed);
	return err;
}

static int put_all(struct perfetto *p)
{
	const struct export *export = p->export;
	const struct profile *profile = export->profile;
	int err = 0;

	FOR_EACH (process, profile->processes)
		FOR_EACH (context, process->contexts)
			if (!err && (context->caller || context->stack))
				err = map64_put(&p->contexts, context->id,
						(uint32_t)p->called_count)
					      ?: LIST_ADD(p->called,
							  (struct called){.context = context});
	err = err ?: put_beginning(p);
	for (size_t i = 0; i < profile->processes_count && !err; i++) {
		const struct profile_process *process = &profile->processes[i];

		err = put_process(p, i) ?: put_resident(p, i) ?: put_cpu(p, i) ?: put_memory_sums(p, i);
		for (size_t j = 0; j < process->memory_count && !err; j++)
			err = put_memory(p, i, &process->memory[j]);
	}
	for (size_t i = 0; i < profile->gpu_devices_count; i++)
		for (int counter = 0; counter < GPU_COUNTERS && !err; counter++)
			err = put_gpu_counter(p, &profile->gpu_devices[i], counter);
	err = err ?: export->read(export->capture, on_span, p) ?: nesting__flush(p->nesting);
	if (!err && export->has_samples)
		err = perfetto_stacks_make(&p->stacks, export->profile)
			      ?: export->read(export->capture, on_sample, p);
	if (!err && export->has_gpu) {
		p->streams =
			nesting__new(&(struct nesting_output){on_stream_begin, on_stream_end, p});
		err = p->streams ? p->export->read(p->export->capture, on_gpu, p) : -ENOMEM;
		err = err ?: nesting__flush(p->streams);
		nesting__free(p->streams);
	}
	if (!err && export->has_slices)
		err = wait_names_make(&p->waits, profile)
			      ?: export->read(export->capture, on_slice, p);
	if (!err && export->has_values)
		err = value_tracks_make(&p->values, export->profile)
			      ?: export->read(export->capture, on_value, p);
	return err ?: write_out(p, 0);
}

int export_perfetto(const struct export *export)
{
	struct perfetto p = {.export = export, .gpu = {.profile = export->profile}};
	int err = -ENOMEM;

	p.nesting = nesting__new(&(struct nesting_output){on_begin, on_end, &p});
	p.steps = export_steps__new(export->profile);
	p.process_uuids = calloc(export->profile->processes_count + 1, sizeof(*p.process_uuids));
	p.step_uuids = calloc(export->profile->processes_count + 1, sizeof(*p.step_uuids));
	p.sent = calloc(export->profile->functions_count + 1, sizeof(*p.sent));
	if (p.nesting && p.steps && p.process_uuids && p.step_uuids && p.sent)
		err = put_all(&p);
	nesting__free(p.nesting);
	export_steps__free(p.steps);
	free(p.process_uuids);
	free(p.step_uuids);
	free(p.sent);
	free(p.called);
	map64_clear(&p.contexts);
	map64_clear(&p.processes);
	map64_clear(&p.states);
	wait_names_clear(&p.waits);
	value_tracks_clear(&p.values);
	perfetto_stacks_clear(&p.stacks);
	gpu_tracks_clear(&p.gpu);
	text_clear(&p.out);
	text_clear(&p.packet);
	text_clear(&p.message);
	text_clear(&p.inner);
	return err;
}
