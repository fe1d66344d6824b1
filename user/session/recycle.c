// SPDX-License-Identifier: BSD-2-Clause
/*
 * Indices of processes and calling contexts are reused in an endless recording (--flight, top,
 * serve): tables have limited room, and processes come and go by the thousand. Ended processes are
 * removed from the kernel's tables and from this program's.
 *
 * An index is reused only when nothing can confuse the two processes: records in the flight buffer
 * and watchers of the recording (known_from_ns in recorder.h) know processes by their index alone.
 */
#include "session/recording.h"

#include "attach/reader.h"
#include "attach/sampler.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/order.h"
#include "session/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Tables are searched as a whole, for all that are due by then. */
#define PERIOD_NS 5000000000u

/* Grace period for records that reach the flight buffer or a watcher late. */
#define LATE_NS 10000000000u

struct ended {
	uint64_t time_ns;
	uint32_t process;
};

struct recycle {
	const struct recording *recording;
	struct ended *waiting; /* in the order in which they ended */
	size_t waiting_count, waiting_capacity;
	uint64_t next_ns, next_renewal_ns;
	bool ended[PERFX_MAX_PROCESS_INDICES + 1]; /* is waiting */
	bool gone[PERFX_MAX_PROCESS_INDICES + 1];  /* its time has come */
	bool contexts[PERFX_MAX_CONTEXTS];	   /* of those that are gone just now */
	bool free_contexts[PERFX_MAX_CONTEXTS];	   /* to be given */
	uint32_t last_context;			   /* that was given */
};

void recycle__ended(struct recycle *recycle, uint32_t process, uint64_t time_ns)
{
	if (!recycle || !process || process > PERFX_MAX_PROCESS_INDICES || recycle->ended[process])
		return;
	/* without memory the index is not used again */
	recycle->ended[process] =
		!LIST_ADD(recycle->waiting, (struct ended){.time_ns = time_ns, .process = process});
}

/* Those from an index on, in order. */
static void give_contexts_from(struct recycle *recycle, uint32_t first)
{
	for (uint32_t id = first; id < PERFX_MAX_CONTEXTS; id++) {
		if (!recycle->free_contexts[id])
			continue;
		recycle->free_contexts[id] = false;
		recycle->last_context = id;
		reader__forget_context(recycle->recording->reader, id);
		tracer__give(recycle->recording->tracer, PERFX_ID_CONTEXT, id);
	}
}

/* With fewer in the queue it goes on with the lowest. */
#define CONTEXTS_LOW 8192

static void release(struct recycle *recycle, uint64_t now_ns)
{
	const struct recording *recording = recycle->recording;
	const struct recorder_watcher *watcher = recording->options->watcher;
	const struct perfx_free_ids *ids = tracer__free_ids(recording->tracer, PERFX_ID_CONTEXT);
	/* no record and no watcher refers to processes that ended before this */
	uint64_t known_from_ns = now_ns - min_u64(recording->options->flight_ns, now_ns);
	size_t count = 0;

	if (watcher && watcher->known_from_ns)
		known_from_ns = min_u64(known_from_ns, watcher->known_from_ns(watcher->ctx));
	memset(recycle->gone, 0, sizeof(recycle->gone));
	while (count < recycle->waiting_count &&
	       recycle->waiting[count].time_ns + LATE_NS < known_from_ns)
		recycle->gone[recycle->waiting[count++].process] = true;
	/* if that fails: once more, with those that come until then */
	if (!count || tracer__forget(recording->tracer, recycle->gone, recycle->contexts))
		return;
	totals__forget(recording->totals, recycle->gone);
	/* Each index above the last one, as long as that is possible: a context's is above its
	 * parent's, or it cannot be used for it. */
	for (uint32_t id = 1; id < PERFX_MAX_CONTEXTS; id++)
		recycle->free_contexts[id] |= recycle->contexts[id];
	give_contexts_from(recycle, recycle->last_context + 1);
	if (ids->given - ids->taken < CONTEXTS_LOW)
		give_contexts_from(recycle, 1);
	for (size_t i = 0; i < count; i++) {
		uint32_t process = recycle->waiting[i].process;

		frames__forget(recording->frames, process);
		reader__forget_process(recording->reader, process);
		recycle->ended[process] = false;
		tracer__give(recording->tracer, PERFX_ID_PROCESS, process);
	}
	recycle->waiting_count -= count;
	memmove(recycle->waiting, recycle->waiting + count,
		recycle->waiting_count * sizeof(*recycle->waiting));
}

static void tick(struct recording *recording)
{
	uint64_t now_ns = recording->now_ns;
	struct recycle *recycle = recording->recycle;

	if (!recycle || now_ns < recycle->next_ns)
		return;
	recycle->next_ns = now_ns + PERIOD_NS;
	release(recycle, now_ns);
	if (now_ns < recycle->next_renewal_ns)
		return;
	recycle->next_renewal_ns = now_ns + recycle->recording->options->flight_ns + LATE_NS;
	/* describes everything in use again, so that old descriptions need not be kept */
	sampler__renew(recycle->recording->sampler);
	frames__forget_stacks(recycle->recording->frames);
	waits__renew(recycle->recording->waits);
}

static int open_recycle(struct recording *recording)
{
	if (!recording->options->flight_ns)
		return 0;
	recording->recycle = calloc(1, sizeof(*recording->recycle));
	if (recording->recycle) /* without memory, indices are not used again */
		recording->recycle->recording = recording;
	return 0;
}

static void close_recycle(struct recording *recording)
{
	const struct tracer *tracer = recording->tracer;
	uint32_t contexts_count;

	if (!recording->recycle)
		return;
	tracer__contexts(tracer, &contexts_count);
	if (getenv("PERFX_DEBUG"))
		msg_say("indices: %u of processes, used again %u times; %u of contexts, %u times",
			tracer__processes_count(tracer) - 1,
			tracer__free_ids(tracer, PERFX_ID_PROCESS)->taken, contexts_count - 1,
			tracer__free_ids(tracer, PERFX_ID_CONTEXT)->taken);
	free(recording->recycle->waiting);
	free(recording->recycle);
}

const struct recording_part recycle_part = {
	.name = "indices", .open = open_recycle, .tick = tick, .close = close_recycle};
