// SPDX-License-Identifier: BSD-2-Clause
/*
 * A dump: what each thread does at one moment, as a very short recording without probes.
 *
 * Rounds of the iterator over tasks record the state and the stack of each thread (THREAD_STATE);
 * between two rounds the unwind tables that stacks have missed are loaded. Threads on a CPU are
 * sampled meanwhile. When no stack is cut any more, or time is up, the recording ends, and what
 * each waiting thread waits for is read from /proc and the memory of its process (WAIT_TARGET).
 */
#include "session/dump.h"

#include "attach/reader.h"
#include "attach/sampler.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/message.h"
#include "base/text.h"
#include "base/units.h"
#include "proc/process.h"
#include "session/frames.h"
#include "session/process_table.h"
#include "session/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --watch: from the end of one dump to the next. */
#define WATCH_PERIOD_NS 1000000000u
/* Threads on a CPU are sampled for so long at least. */
#define SAMPLED_NS 40000000u
/* Stacks that are cut by then stay so: each round loads the tables of one frame more. */
#define ROUNDS_NS 500000000u

/* Further rounds for threads that were on a CPU, and were not sampled there. */
#define MISSED_ROUNDS 3

struct thread_seen {
	struct perfx_thread_state state; /* the last; size 0: none yet */
	uint32_t first_stack;		 /* of the first dump; 0: unknown */
	bool sampled;			 /* on a CPU */
};

struct dump {
	struct map64 ids; /* process, tid → list[] */
	struct thread_seen *list;
	size_t count, capacity;
	unsigned missed_rounds;
	struct map64 holders; /* process, tid in its pid namespace → tid */
	bool running;
	uint64_t begin_ns; /* its first round; 0: it is to come */
	size_t unfinished_count;
	uint64_t first_ns, next_ns; /* --watch: end of the first dump; when the next begins */
	bool done;
	struct pack_buffer buffer;
};

/* The thread that holds the GIL: the process may number it as its container does. */
static uint32_t holder_of(struct dump *dump, pid_t pid, const struct perfx_thread_state *state)
{
	uint64_t key = MAP64_PAIR(state->process, state->holder_tid);
	uint32_t tid;

	if (!state->holder_tid)
		return 0;
	tid = map64_get(&dump->holders, key);
	if (tid != MAP64_NONE)
		return tid;
	tid = (uint32_t)process_thread_by_own_id(pid, (pid_t)state->holder_tid);
	map64_put(&dump->holders, key, tid); /* without memory it is asked again */
	return tid;
}

void dump__on_state(struct recording *recording, struct perfx_thread_state *state)
{
	struct dump *dump = recording->dump;
	struct thread_seen *seen;

	if (!dump)
		return;
	state->holder_tid =
		holder_of(dump, process_table__pid(recording->processes, state->process), state);
	dump->unfinished_count += !!(state->flags & PERFX_THREAD_STATE_UNFINISHED);
	seen = MAP64_ITEM_OF(dump, MAP64_PAIR(state->process, state->tid));
	if (seen)
		seen->state = *state;
}

void dump__on_sample(struct recording *recording, const struct perfx_sample *sample)
{
	struct dump *dump = recording->dump;
	struct thread_seen *seen =
		dump && dump->running
			? MAP64_FIND_OF(dump, MAP64_PAIR(sample->process, sample->tid))
			: NULL;

	if (seen)
		seen->sampled = true;
}

/* Is there a thread that nothing shows where it runs? */
static bool some_missed(const struct dump *dump)
{
	FOR_EACH_OF (seen, *dump)
		if (seen->state.flags & PERFX_THREAD_STATE_ON_CPU && !seen->sampled)
			return true;
	return false;
}

static void find_targets(struct recording *recording)
{
	struct dump *dump = recording->dump;
	struct wait_targets *targets = wait_targets__new();

	FOR_EACH_OF (seen, *dump) {
		const struct perfx_thread_state *state = &seen->state;
		struct perfx_wait_target record = {
			.time_ns = state->time_ns, .process = state->process, .tid = state->tid};
		pid_t pid = process_table__pid(recording->processes, state->process);
		char *text;

		if (!targets || !pid || !state->reason)
			continue;
		text = wait_targets__find(targets, pid, state, &record);
		if (text || record.kind)
			SINK_PACK(recording->sink, &dump->buffer, PERFX_KIND_WAIT_TARGET, record,
				  text ? text : "");
		free(text);
	}
	wait_targets__free(targets);
	frames__emit_tasks(recording->frames);
}

static void visit_threads(struct recording *recording)
{
	int err;

	recording->dump->unfinished_count = 0;
	err = sampler__visit_threads(recording->sampler);
	if (err)
		msg_say("threads cannot be visited: %s", strerror(-err));
	reader__drain(recording->reader);
}

/* A scheduler of BPF programs (sched_ext) runs threads of the fair class, and keeps other times. */
static bool has_own_scheduler(void)
{
	char *state = NULL;
	bool enabled = proc_read("/sys/kernel/sched_ext/state", &state, 64) > 0 &&
		       begins_with(state, "enabled");

	free(state);
	return enabled;
}

/* A step of the dump in progress. True: it has ended. */
static bool go_on(struct recording *recording)
{
	struct dump *dump = recording->dump;
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t since_ns = dump->begin_ns ? now_ns - dump->begin_ns : 0;

	if (!dump->begin_ns) {
		dump->begin_ns = now_ns;
		tracer__begin_dump(recording->tracer, !has_own_scheduler());
		frames__find_threads(recording->frames);
		visit_threads(recording);
	} else if (since_ns < ROUNDS_NS && dump->unfinished_count) {
		visit_threads(recording);
	} else if (since_ns >= SAMPLED_NS) {
		if (dump->missed_rounds++ >= MISSED_ROUNDS || !some_missed(dump))
			return true;
		visit_threads(recording);
	}
	return false;
}

/* Has a thread that waited in the first dump come to another place since? The kernel numbers stacks
 * by their content. Threads that compute move all the time, or spin. */
static bool some_moved(const struct dump *dump)
{
	FOR_EACH_OF (seen, *dump)
		if (seen->first_stack && seen->state.stack &&
		    seen->first_stack != seen->state.stack)
			return true;
	return false;
}

static void begin(struct dump *dump)
{
	dump->running = true;
	dump->begin_ns = 0;
	dump->missed_rounds = 0;
	FOR_EACH_OF (seen, *dump)
		seen->sampled = false;
}

static void end(struct recording *recording)
{
	struct dump *dump = recording->dump;
	uint64_t watch_ns = recording->options->dump_watch_ns, now_ns = clock_monotonic_ns();

	dump->running = false;
	if (!recording->options->dump) {
		find_targets(recording);
		return;
	}
	if (!dump->first_ns) {
		dump->first_ns = now_ns;
		FOR_EACH_OF (seen, *dump)
			seen->first_stack = seen->state.stack;
	}
	dump->next_ns = now_ns + WATCH_PERIOD_NS;
	dump->done = some_moved(dump) || now_ns - dump->first_ns >= watch_ns;
	if (dump->done)
		find_targets(recording);
	else
		msg_status("nothing has moved for %s…", as_ns(now_ns - dump->first_ns));
}

static void tick(struct recording *recording)
{
	struct dump *dump = recording->dump;

	if (!dump || dump->done)
		return;
	if (recording->options->dump && !dump->running && clock_monotonic_ns() >= dump->next_ns)
		begin(dump);
	if (dump->running && go_on(recording))
		end(recording);
}

static void forget_threads(struct dump *dump)
{
	map64_clear(&dump->ids);
	map64_clear(&dump->holders);
	free(dump->list);
	dump->list = NULL;
	dump->count = dump->capacity = 0;
}

bool dump__begin(struct recording *recording)
{
	struct dump *dump = recording->dump;

	if (!dump || tracer__dump_fd(recording->tracer) < 0)
		return false;
	if (dump->running)
		return true;
	forget_threads(dump);
	begin(dump);
	return true;
}

bool dump__is_running(const struct recording *recording)
{
	return recording->dump && recording->dump->running;
}

bool dump__done(const struct recording *recording)
{
	return recording->dump && recording->dump->done;
}

/* Interrupted: what is known so far is the dump. */
static void stop(struct recording *recording)
{
	struct dump *dump = recording->dump;

	if (dump && recording->options->dump && !dump->done)
		find_targets(recording);
}

static int open_dump(struct recording *recording)
{
	if (!recording->options->dump && !recording->options->dumps)
		return 0;
	recording->dump = calloc(1, sizeof(*recording->dump));
	return recording->dump ? 0 : -ENOMEM;
}

static void close_dump(struct recording *recording)
{
	struct dump *dump = recording->dump;

	if (!dump)
		return;
	forget_threads(dump);
	free(dump);
}

const struct recording_part dump_part = {.name = "states of threads",
					 .open = open_dump,
					 .tick = tick,
					 .stop = stop,
					 .close = close_dump};
