// SPDX-License-Identifier: BSD-2-Clause
#include "live/live.h"

#include "aggregate/aggregate.h"
#include "base/clock.h"
#include "live/run.h"
#include "replay/keyframe.h"

#include <errno.h>
#include <stdlib.h>

/* An epoch is judged by itself when it is that old, until then its predecessor is. */
#define JUDGE_FROM_NS 10000000000u
/* Of the time, at most, that judging takes. */
#define JUDGE_SHARE 0.01

/*
 * Findings, which outlive their profile: an analysis costs more than a snapshot (16 ms for a minute
 * of a PyTorch trainer, where the rest takes 1 ms), so it is made less often. All-zero: none.
 */
struct judgement {
	struct analysis *analysis; /* NULL: none */
	struct profile who;	   /* its processes: index, pid, comm and cmdline, no more */
	struct pool names;
	struct map64 places; /* index → place among the processes */
};

struct live {
	struct live_options options;
	struct keyframe *keyframe;
	struct {
		struct aggregate *aggregate;
		uint64_t number, from_ns;
	} epoch;
	struct growth growth; /* of the epoch */
	struct run run;
	struct live_snapshot snapshot; /* number 0: there is none yet */
	/* The epoch before: the snapshot may be of it, the judgement is while the epoch is young.
	 */
	struct aggregate *before;
	struct judgement judgement;
	uint64_t before_from_ns; /* when the epoch before began */
	uint64_t run_from_ns, next_ns, next_judge_ns;
	uint64_t segment_ns; /* of the last one; 0: none yet */
	int err;
};

static void judgement_clear(struct judgement *judgement)
{
	analysis__free(judgement->analysis);
	free(judgement->who.processes);
	pool_clear(&judgement->names);
	map64_clear(&judgement->places);
	*judgement = (struct judgement){0};
}

static int copy_processes(struct judgement *judgement, const struct profile *profile)
{
	struct profile *who = &judgement->who;

	who->processes = calloc(profile->processes_count + 1, sizeof(*who->processes));
	if (!who->processes)
		return -ENOMEM;
	FOR_EACH (process, profile->processes) {
		uint32_t at = (uint32_t)who->processes_count++;

		who->processes[at] = (struct profile_process){
			.index = process->index,
			.pid = process->pid,
			.comm = pool_add(&judgement->names, process->comm),
			.cmdline = pool_add(&judgement->names, process->cmdline),
		};
		if (!who->processes[at].comm || !who->processes[at].cmdline ||
		    map64_put(&judgement->places, process->index, at))
			return -ENOMEM;
	}
	return 0;
}

struct live *live__new(const struct live_options *options)
{
	struct live *live = calloc(1, sizeof(*live));

	if (!live)
		return NULL;
	live->options = *options;
	if (!live->options.period_ns)
		live->options.period_ns = LIVE_PERIOD_NS;
	if (!live->options.epoch_ns)
		live->options.epoch_ns = LIVE_EPOCH_NS;
	if (live->options.own_share <= 0)
		live->options.own_share = LIVE_OWN_SHARE;
	live->keyframe = keyframe__new(0);
	live->epoch.aggregate = aggregate__new();
	growth_reset(&live->growth);
	if (live->keyframe && live->epoch.aggregate) {
		keyframe__goes_on(live->keyframe);
		keyframe__borrow_memory(live->keyframe, live->epoch.aggregate);
		return live;
	}
	live__free(live);
	errno = ENOMEM;
	return NULL;
}

void live__free(struct live *live)
{
	if (!live)
		return;
	judgement_clear(&live->judgement);
	aggregate__free(live->before);
	aggregate__free(live->epoch.aggregate);
	keyframe__free(live->keyframe);
	growth_reset(&live->growth);
	run_clear(&live->run);
	free(live->snapshot.processes);
	free(live->snapshot.rows);
	free(live->snapshot.lines);
	free(live->snapshot.threads);
	free(live->snapshot.waits);
	free(live);
}

int live__event(void *ctx, const struct event *event)
{
	struct live *live = ctx;
	int err = live->err;

	if (event->kind == PERFX_KIND_HOST && !live->run_from_ns)
		live->run_from_ns = live->epoch.from_ns = live->before_from_ns =
			event->host.start_ns;
	if (event->kind == PERFX_KIND_SEGMENT)
		live->segment_ns = event->segment.time_ns;
	if (!err)
		err = keyframe__add(live->keyframe, event);
	return err ? err : aggregate__add(live->epoch.aggregate, event);
}

/* The last snapshot of an epoch? A process takes some 12 KB of an epoch's aggregate. */
static bool is_last(const struct live *live, const struct profile *profile, uint64_t now_ns)
{
	return now_ns >= live->epoch.from_ns + live->options.epoch_ns ||
	       profile->processes_count > LIVE_EPOCH_PROCESSES;
}

/* Is the epoch too short to be judged? The first has no predecessor, and each is judged once at
 * least. */
static bool is_young(const struct live *live, const struct profile *profile, uint64_t now_ns)
{
	return live->epoch.number && now_ns < live->epoch.from_ns + JUDGE_FROM_NS &&
	       !is_last(live, profile, now_ns);
}

static int add_record(void *ctx, const struct perfx_record *record)
{
	struct event event;

	decode_next(record, record->size, &event);
	return aggregate__add(ctx, &event);
}

/* The last snapshot has all of the old epoch, so nothing is missed or counted again, and goes on to
 * show the old epoch. 0 or -ENOMEM. */
static int next_epoch(struct live *live, uint64_t from_ns)
{
	struct aggregate *next = aggregate__new();
	int err = next ? keyframe__write_all(live->keyframe, from_ns, add_record, next) : -ENOMEM;

	err = err ?: aggregate__continue(next, live->epoch.aggregate, from_ns);
	err = err ?: run_forget(&live->run, live->epoch.number);
	if (err) {
		aggregate__free(next);
		return err;
	}
	keyframe__borrow_memory(live->keyframe, next);
	live->before = live->epoch.aggregate;
	live->before_from_ns = live->epoch.from_ns;
	growth_reset(&live->growth);
	live->epoch.aggregate = next;
	live->epoch.number++;
	live->epoch.from_ns = from_ns;
	return 0;
}

/* The last judgement holds until the next one is due. */
static int judge(struct live *live, const struct profile *profile, uint64_t now_ns)
{
	struct judgement *judgement = &live->judgement;
	bool is_due =
		!is_young(live, profile, now_ns) && (live->before || now_ns >= live->next_judge_ns);

	if (is_due || !judgement->analysis) {
		uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), took_ns;

		judgement_clear(judgement);
		judgement->analysis = analyze(profile, live->options.rules);
		if (!judgement->analysis || copy_processes(judgement, profile)) {
			judgement_clear(judgement);
			return -ENOMEM;
		}
		took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
		live->next_judge_ns = now_ns + (uint64_t)((double)took_ns / JUDGE_SHARE);
	}
	/* NULL: the judgement does not know the process */
	FOR_EACH (process, live->snapshot.processes)
		process->analysis = MAP64_FIND(judgement->places, process->process->index,
					       judgement->analysis->processes);
	return 0;
}

static int make_snapshot(struct live *live, uint64_t now_ns)
{
	const struct profile *profile = aggregate__finish(live->epoch.aggregate);
	struct live_snapshot *snapshot = &live->snapshot;
	int err = profile ? run_snapshot(&live->run, snapshot, &live->growth, profile,
					 live->epoch.number, now_ns)
			  : -ENOMEM;

	if (!err && live->options.judges)
		err = judge(live, profile, now_ns);
	if (err)
		return err;
	snapshot->number++;
	snapshot->run_from_ns = live->run_from_ns;
	snapshot->from_ns = snapshot->to_ns ? snapshot->to_ns : live->run_from_ns;
	snapshot->to_ns = now_ns;
	snapshot->profile = profile;
	snapshot->analysis = live->judgement.analysis;
	snapshot->analyzed = live->judgement.analysis ? &live->judgement.who : NULL;
	snapshot->functions = live->run.functions;
	snapshot->functions_count = live->run.functions_count;
	snapshot->totals = live->run.totals;
	/* the judgement no longer borrows from it */
	if (!is_young(live, profile, now_ns)) {
		aggregate__free(live->before);
		live->before = NULL;
	}
	return 0;
}

bool live__tick(struct live *live, uint64_t now_ns)
{
	uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), least_ns;
	uint64_t last_ns = live->snapshot.to_ns, period_ns = live->options.period_ns;

	if (live->err || !live->run_from_ns)
		return false;
	if (!live->next_ns)
		live->next_ns = live->run_from_ns + period_ns;
	/* at the end of a segment, where there are any: then all sums have been emitted */
	if (now_ns < live->next_ns ||
	    (live->segment_ns <= last_ns && now_ns < live->next_ns + period_ns / 2))
		return false;
	live->err = make_snapshot(live, now_ns);
	if (live->err)
		return false;
	live->snapshot.own_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	least_ns = (uint64_t)((double)live->snapshot.own_ns / live->options.own_share);
	live->next_ns = now_ns + max_u64(least_ns, period_ns);
	if (is_last(live, live->snapshot.profile, now_ns))
		live->err = next_epoch(live, now_ns);
	return true;
}

const struct live_snapshot *live__finish(struct live *live, uint64_t now_ns)
{
	if (live->run_from_ns && !live->err)
		live->err = make_snapshot(live, now_ns);
	return live->err ? NULL : live__snapshot(live);
}

uint64_t live__known_from_ns(const struct live *live)
{
	return live->before_from_ns;
}

const struct live_snapshot *live__snapshot(const struct live *live)
{
	return live->snapshot.number ? &live->snapshot : NULL;
}
