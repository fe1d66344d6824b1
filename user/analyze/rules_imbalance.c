// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that meet at a barrier, or at the end of a parallel region of OpenMP: each waits for the
 * slowest. With the same work for each, a round would take their average instead.
 */
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "analyze/thread_pool.h"
#include "analyze/wait_class.h"
#include "base/escape.h"
#include "remedy_texts.h"

#include <math.h>
#include <stdlib.h>

/* Its work counts while it lacks a CPU, too: the others wait for it then. */
struct party {
	uint32_t tid;
	uint64_t work_ns;
};

struct parties {
	struct party *list;
	size_t count;
	uint64_t meeting_ns;		   /* of the threads' time, that of one of them */
	uint64_t waited_ns;		   /* for each other, of all of them */
	const struct profile_frame *place; /* where they wait; NULL: not known */
	const char *words, *time;
	const char *remedy;
};

/* In a parallel region of the program's own: of a framework's operators others judge. */
static bool is_in_region(const struct profile_stack *stack)
{
	return !stack_has_python(stack) && stack_has(stack, CODE_POOL_RUNTIME);
}

/* NULL: there is no room. */
static struct party *party_of(struct parties *parties, uint32_t tid, size_t room)
{
	for (size_t i = 0; i < parties->count; i++)
		if (parties->list[i].tid == tid)
			return &parties->list[i];
	if (parties->count == room)
		return NULL;
	parties->list[parties->count] = (struct party){.tid = tid};
	return &parties->list[parties->count++];
}

static void find_barrier(struct parties *parties, const struct rules_ctx *ctx, size_t room)
{
	const struct profile_activities *blocked = &ctx->process->blocked;

	FOR_EACH_OF (wait, *blocked) {
		if (wait->reason != PERFX_WAIT_FUTEX || !stack_has(wait->stack, CODE_BARRIER))
			continue;
		/* the slowest one, which hardly waits itself, wakes the others */
		if (!party_of(parties, wait->tid, room) ||
		    (account_of_thread(ctx->account, wait->holder_tid) &&
		     !party_of(parties, wait->holder_tid, room)))
			return;
		parties->waited_ns += wait->ns;
		if (!parties->place)
			parties->place = stack_place(wait->stack);
	}
	FOR_EACH_OF (party, *parties) {
		const struct account *account = account_of_thread(ctx->account, party->tid);

		party->work_ns =
			account ? account->ns[ACCOUNT_COMPUTING] + account->ns[ACCOUNT_RUNNABLE]
				: 0;
		if (account && account->wall_ns > parties->meeting_ns)
			parties->meeting_ns = account->wall_ns;
	}
}

/* The program's own thread that begins the regions waits for the others at their ends alone; its
 * pool waits between them, too. */
static void find_regions(struct parties *parties, struct rules_ctx *ctx, size_t room)
{
	const struct profile_activities *samples = &ctx->process->samples;
	const struct profile_activities *blocked = &ctx->process->blocked;
	struct thread_pool pool;

	if (thread_pool_find(&pool, ctx->process, ctx->driver->tid)) {
		ctx->failed = true;
		return;
	}
	parties->waited_ns = UINT64_MAX; /* in the regions' time: no thread waits longer */
	FOR_EACH_OF (sample, *samples) {
		struct party *party;

		if (sample->state == PERFX_SAMPLE_WAITING || !is_in_region(sample->stack))
			continue;
		party = party_of(parties, sample->tid, room);
		if (!party)
			return;
		if (!stack_spins(&pool.spinning, sample->stack))
			party->work_ns += sample->ns;
		if (sample->tid == ctx->driver->tid)
			parties->meeting_ns += sample->ns;
	}
	for (size_t i = 0; i < blocked->count; i++)
		if (blocked->list[i].tid == ctx->driver->tid &&
		    blocked->list[i].reason == PERFX_WAIT_FUTEX &&
		    is_in_region(blocked->list[i].stack))
			parties->meeting_ns += blocked->list[i].ns;
}

static uint64_t work_of(const struct parties *parties, const struct party **most)
{
	uint64_t all_ns = 0;

	*most = &parties->list[0];
	for (size_t i = 0; i < parties->count; i++) {
		all_ns += parties->list[i].work_ns;
		if (parties->list[i].work_ns > (*most)->work_ns)
			*most = &parties->list[i];
	}
	return all_ns;
}

/* One that works so many times as long as the average is the slowest, round after round. */
#define SLOWEST 1.2

/* ": thread bar (tid 43) works for 98.0 % of the time, the others for 20.0 % on average; …" */
static void add_slowest(struct text *text, const struct rules_ctx *ctx,
			const struct parties *parties, const struct party *most, uint64_t all_ns)
{
	double meeting_ns = (double)parties->meeting_ns, count = (double)parties->count;
	double others_ns = (double)(all_ns - most->work_ns) / (count - 1);
	bool is_slowest = (double)most->work_ns >= SLOWEST * (double)all_ns / count;
	struct place place = thread_place(ctx->process, most->tid);
	const char *name = profile_thread_name(ctx->process, most->tid);

	if (!is_slowest) {
		text_add(text, ", of which now one is the slowest and now another");
	} else {
		text_add(text, ": thread ");
		escape_name(text, name[0] ? name : "?");
		text_printf(text, " (tid %u) works for %s of %s, the other%s for %s%s", most->tid,
			    as_percent(fmin((double)most->work_ns / meeting_ns, 1)), parties->time,
			    count > 2 ? "s" : "", as_percent(fmin(others_ns / meeting_ns, 1)),
			    count > 2 ? " on average" : "");
	}
	if (!place.frame)
		return;
	text_printf(text, "; %s mostly ", is_slowest ? "it runs" : "they run");
	location_place(text, place.frame);
}

static void judge_parties(struct rules_ctx *ctx, const struct parties *parties)
{
	struct note note = {.bottleneck = BOTTLENECK_IMBALANCE, .confidence = 1};
	double wall_ns = (double)ctx->driver->wall_ns, ideal_ns;
	double least = ctx->thresholds->imbalance_medium;
	unsigned cpus = rules_allowed_cpus(ctx);
	const struct party *most;
	uint64_t all_ns;

	/* more threads than CPUs wait for each other because of that */
	if (parties->count < 2 || (cpus && parties->count > cpus) || wall_ns <= 0)
		return;
	all_ns = work_of(parties, &most);
	ideal_ns = (double)all_ns / (double)parties->count;
	/* what else they wait for is no matter of the others */
	note.share = fmin((double)parties->meeting_ns - ideal_ns,
			  (double)parties->waited_ns / (double)parties->count) /
		     wall_ns;
	if (!all_ns || note.share < least)
		return;
	note.gain_ns = note.share * rules_unit_ns(ctx);
	note.place = thread_place(ctx->process, most->tid).frame;
	rules_subject(&note, ctx);
	text_printf(&note.evidence, "%zu threads wait for each other %s", parties->count,
		    parties->words);
	if (parties->place) {
		location_after(&note.evidence, " (", parties->place);
		text_add(&note.evidence, ")");
	}
	add_slowest(&note.evidence, ctx, parties, most, all_ns);
	text_add(&note.suggestion, parties->remedy);
	add_percent(&note.headline, note.share);
	text_printf(&note.headline, " of the wall time is lost as %s", text_peek(&note.evidence));
	rules_ctx_add(ctx, "Imbalance", high_if(note.share >= ctx->thresholds->imbalance_high),
		      note.share, &note);
}

void rules_imbalance(struct rules_ctx *ctx)
{
	size_t room = ctx->account->threads_count;
	struct parties barrier = {
		.words = "at a barrier", .time = "the time", .remedy = TRY_EVEN_PARTS};
	struct parties regions = {.words = "at the ends of parallel regions",
				  .time = "the regions' time",
				  .remedy = TRY_OPENMP_SCHEDULE};

	barrier.list = calloc(room + 1, sizeof(*barrier.list));
	regions.list = calloc(room + 1, sizeof(*regions.list));
	if (barrier.list && regions.list) {
		find_barrier(&barrier, ctx, room);
		find_regions(&regions, ctx, room);
		judge_parties(ctx, &barrier);
		judge_parties(ctx, &regions);
	} else {
		ctx->failed = true;
	}
	free(barrier.list);
	free(regions.list);
}
