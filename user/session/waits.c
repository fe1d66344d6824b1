// SPDX-License-Identifier: BSD-2-Clause
/*
 * Waits of threads, as records: BLOCKED has the growth of the sums that the BPF programs keep
 * (attach/waiting.h), WAIT_OBJECT the name of the object that a thread waits for. A name is looked
 * up soon after the first wait, while the process still has the object.
 */
#include "session/recording.h"

#include "attach/tracer.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "proc/address_name.h"
#include "proc/descriptor.h"
#include "proc/process.h"
#include "session/process_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct waits {
	const struct recording *recording;
	struct waiting *waiting; /* the tracer's */
	struct map64 named;	 /* by process, reason and object */
	struct map64 holders;	 /* tids, by process and as that numbers them */
	uint64_t claimed_count;	 /* of the sums, when new ones were named last */
	uint64_t taken_count;	 /* of the sums, when they were taken last */
	struct address_names names;
	struct pipe_users pipe_users; /* while names are found */
	struct pack_buffer buffer;
};

/* "lock at libfoo.so+0x4040" */
static char *lock_name(struct waits *waits, const struct perfx_wait *wait)
{
	char *where = address_name(&waits->names, (pid_t)wait->tgid, wait->object), *name = NULL;

	if (where && asprintf(&name, "lock at %s", where) < 0)
		name = NULL;
	free(where);
	return name;
}

static bool is_for_file_lock(const struct perfx_wait *wait)
{
	return wait->reason == PERFX_WAIT_SYSCALL &&
	       (wait->syscall == __NR_flock || wait->syscall == __NR_fcntl);
}

/* NULL: out of memory, or the object has no name. */
static char *object_name(struct waits *waits, const struct perfx_wait *wait,
			 struct descriptor_facts *facts)
{
	if (wait->reason == PERFX_WAIT_RUNNABLE && wait->object == (uint64_t)getpid())
		return strdup(PERFX_TRACER_NAME);
	if (wait->reason == PERFX_WAIT_RUNNABLE)
		return *wait->comm ? strndup(wait->comm, sizeof(wait->comm)) : NULL;
	if (wait->reason == PERFX_WAIT_GIL)
		return strdup("GIL");
	if (wait->reason == PERFX_WAIT_FUTEX)
		return lock_name(waits, wait);
	/* pipes lead to the program's other processes as a rule */
	waits->pipe_users.near =
		process_table__pids(waits->recording->processes, &waits->pipe_users.near_count);
	return descriptor_name(&(struct descriptor){.pid = (pid_t)wait->tgid,
						    .fd = wait->fd,
						    .inode = wait->inode,
						    .device = wait->device,
						    .mode = (mode_t)wait->mode,
						    .reads = wait->reason != PERFX_WAIT_WRITE,
						    .locks = is_for_file_lock(wait)},
			       &waits->pipe_users, facts);
}

static uint64_t name_key(const struct perfx_wait *wait)
{
	uint64_t key = (uint64_t)wait->process << 8 | wait->reason;

	return (key * 0x9e3779b97f4a7c15u) ^ wait->object;
}

static void name_object(struct waits *waits, const struct perfx_wait *wait)
{
	struct perfx_wait_object record = {
		.process = wait->process, .reason = wait->reason, .object = wait->object};
	struct descriptor_facts facts = {.kind = PERFX_OBJECT_OTHER};
	char *name;

	if (!wait->object || map64_get(&waits->named, name_key(wait)) != MAP64_NONE)
		return;
	name = object_name(waits, wait, &facts);
	record.kind = (uint8_t)facts.kind;
	/* a file lock without a holder is named again: a later wait may find one */
	if (!(name && is_for_file_lock(wait) && !strstr(name, DESCRIPTOR_HELD_BY)) &&
	    map64_put(&waits->named, name_key(wait), 0)) {
		free(name);
		return;
	}
	if (name)
		SINK_PACK(waits->recording->sink, &waits->buffer, PERFX_KIND_WAIT_OBJECT, record,
			  name);
	free(name);
}

void waits__renew(struct waits *waits)
{
	if (!waits)
		return;
	map64_clear(&waits->named);
	map64_clear(&waits->holders);
}

/* The thread that holds the lock: the process may number it as its container does. */
static uint32_t holder_of(struct waits *waits, const struct perfx_wait *wait)
{
	uint64_t key = (uint64_t)wait->process << 32 | wait->holder_tid;
	uint32_t tid;

	if (!wait->holder_tid)
		return 0;
	tid = map64_get(&waits->holders, key);
	if (tid != MAP64_NONE)
		return tid;
	tid = (uint32_t)process_thread_by_own_id((pid_t)wait->tgid, (pid_t)wait->holder_tid);
	map64_put(&waits->holders, key, tid); /* without memory it is asked again */
	return tid;
}

static void emit_waited(void *ctx, const struct waited *waited)
{
	const struct perfx_wait *wait = waited->wait;
	struct perfx_blocked record = {.process = wait->process,
				       .tid = wait->tid,
				       .reason = wait->reason,
				       .syscall = wait->syscall,
				       .holder_tid = waited->waker_tid ?: holder_of(ctx, wait),
				       .object = wait->object,
				       .blocked_ns = waited->blocked_ns,
				       .count = waited->count,
				       .max_ns = waited->max_ns};
	struct waits *waits = ctx;

	name_object(waits, wait);
	SINK_PACK(waits->recording->sink, &waits->buffer, PERFX_KIND_BLOCKED, record);
}

void waits__start(struct recording *recording, uint64_t from_ns)
{
	int err = recording->waits ? waiting__start(recording->waits->waiting, from_ns) : 0;

	if (!err)
		return;
	msg_say("time off the CPU is not recorded: %s", strerror(-err));
	skipped_add(&recording->skipped, "time off the CPU", strerror(-err));
	waiting__stop(recording->waits->waiting);
}

void waits__emit(struct waits *waits, uint64_t now_ns, bool ended)
{
	if (!waits)
		return;
	waits->taken_count = tracer__counter(waits->recording->tracer, PERFX_COUNTER_WAITS);
	waiting__drain(waits->waiting, now_ns, ended, emit_waited, waits);
	pipe_users__forget(&waits->pipe_users);
}

void waits__give_up(struct waits *waits, uint64_t now_ns)
{
	struct perfx_reduced record = {.time_ns = now_ns, .to = PERFX_REDUCED_REMOVED};

	if (!waits)
		return;
	SINK_PACK(waits->recording->sink, &waits->buffer, PERFX_KIND_REDUCED, record);
	waits__emit(waits, now_ns, true);
	waiting__give_up(waits->waiting);
}

bool waits__stop_timeline(struct waits *waits)
{
	if (!waits || !waiting__has_timeline(waits->waiting))
		return false;
	waiting__stop_timeline(waits->waiting);
	return true;
}

static void name_waited(void *ctx, const struct waited *waited)
{
	name_object(ctx, waited->wait);
}

/* Emits the names of objects that are new, and the sums where the kernel's table would be full
 * before the next waits__emit. */
static void tick(struct recording *recording)
{
	struct waits *waits = recording->waits;
	uint64_t claimed_count;

	if (!waits)
		return;
	claimed_count = tracer__counter(recording->tracer, PERFX_COUNTER_WAITS);
	if (claimed_count == waits->claimed_count)
		return;
	waits->claimed_count = claimed_count;
	/* many short-lived threads would use up the slots before the segment ends */
	if (claimed_count - waits->taken_count + waiting__retired_count(waits->waiting) >
	    PERFX_MAX_WAIT_SUMS / 4) {
		waits__emit(waits, recording->now_ns, false);
		return;
	}
	waiting__each(waits->waiting, name_waited, waits);
	pipe_users__forget(&waits->pipe_users);
}

static int open_waits(struct recording *recording)
{
	struct waits *waits;

	if (!tracer__waiting(recording->tracer))
		return 0;
	waits = recording->waits = calloc(1, sizeof(*waits));
	if (!waits)
		return -ENOMEM;
	waits->recording = recording;
	waits->waiting = tracer__waiting(recording->tracer);
	return 0;
}

static void stop(struct recording *recording)
{
	if (recording->waits)
		waiting__stop(recording->waits->waiting);
}

static void close_waits(struct recording *recording)
{
	struct waits *waits = recording->waits;

	if (!waits)
		return;
	address_names__clear(&waits->names);
	pipe_users__forget(&waits->pipe_users);
	map64_clear(&waits->named);
	map64_clear(&waits->holders);
	free(waits);
}

const struct recording_part waits_part = {.name = "time off the CPU",
					  .open = open_waits,
					  .tick = tick,
					  .stop = stop,
					  .close = close_waits};
