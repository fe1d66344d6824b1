// SPDX-License-Identifier: BSD-2-Clause
/*
 * The time of a process's main thread that was in no traced call. Spans of one thread nest, so the
 * sum of their self times is the time that their union takes.
 */
#include "aggregate/calls.h"

int untraced_span(struct aggregate *a, const struct perfx_span *span)
{
	struct process *proc = a->processes->list[span->process];
	struct traced *traced;
	int64_t at;

	if (span->flags & PERFX_SPAN_ASYNC)
		return 0;
	at = process_thread(proc, span->tid);
	if (at < 0 || at == AGGREGATE_THREADS_MAX)
		return at < 0 ? (int)at : 0;
	traced = &proc->threads[at].traced;
	if (!traced->seen || span->start_ns < traced->first_ns)
		traced->first_ns = span->start_ns;
	traced->last_ns = max_u64(traced->last_ns, add_capped(span->start_ns, span->duration_ns));
	traced->seen = true;
	add_up(&traced->self_ns, span->self_ns);
	if (span->depth == 0) {
		traced->has_inner = false;
		return 0;
	}
	if (!traced->has_inner) {
		traced->has_inner = true;
		traced->inner_context = span->context;
		traced->inner_from_ns = span->start_ns;
		traced->inner_self_ns = 0;
	} else if (span->start_ns < traced->inner_from_ns) {
		traced->inner_from_ns = span->start_ns;
	}
	add_up(&traced->inner_self_ns, span->self_ns);
	return 0;
}

/* The one that runs the steps; otherwise the main thread, if it called anything; otherwise the one
 * that was in traced calls the longest. NULL: none was in any. */
static const struct thread *counting_thread(const struct process *proc, uint32_t steps_tid)
{
	const struct thread *main = NULL, *most = NULL;

	for (size_t i = 0; i < proc->threads_count; i++) {
		const struct thread *thread = &proc->threads[i];

		if (!thread->traced.seen)
			continue;
		if (steps_tid && thread->tid == steps_tid)
			return thread;
		if (thread->tid == proc->pid)
			main = thread;
		if (!most || thread->traced.self_ns > most->traced.self_ns)
			most = thread;
	}
	return main ? main : most;
}

/* When it was there: the main thread as long as the process, others from the first to the last that
 * was seen of them. */
static struct profile_interval life_of(const struct thread *thread, const struct profile_process *p)
{
	struct profile_interval life = {p->from_ns, p->to_ns};

	if (thread->tid == p->pid)
		return life;
	life.from_ns = thread->traced.first_ns;
	life.to_ns = thread->traced.last_ns;
	if (thread->samples_count && thread->first.time_ns < life.from_ns)
		life.from_ns = thread->first.time_ns;
	if (thread->samples_count && thread->last.time_ns > life.to_ns)
		life.to_ns = thread->last.time_ns;
	life.from_ns = max_u64(life.from_ns, p->from_ns);
	life.to_ns = min_u64(life.to_ns, p->to_ns);
	return life;
}

/* Its own time in calls that had not ended: since the first call that one of them made. Where no
 * call is known to run, or the overflow sums have some, the outer one's record may have been lost;
 * where the budget removed its probes, it may have ended long before.
 */
static uint64_t running_ns(const struct aggregate *a, const struct profile *profile,
			   const struct process *proc, const struct thread *thread, uint64_t to_ns)
{
	const struct traced *traced = &thread->traced;
	const struct context *outer = context_find(a, traced->inner_context);

	if (!traced->has_inner || !a->losses[PERFX_LOSS_UNMATCHED_ENTRIES] ||
	    proc->overflow_self_ns)
		return 0;
	while (outer && outer->parent)
		outer = &a->calls->contexts[outer->parent];
	if (outer && calls_seen_until(a, outer->process, outer->function, NULL) > 0)
		return 0;
	return sub_capped(profile_recorded_between(profile, traced->inner_from_ns, to_ns),
			  traced->inner_self_ns);
}

static void find_untraced(const struct aggregate *a, const struct profile *profile,
			  struct profile_process *p)
{
	const struct process *proc = a->processes->list[p->index];
	const struct thread *thread = counting_thread(proc, p->steps.count ? p->steps.tid : 0);
	struct profile_untraced *untraced = &p->untraced;
	struct profile_interval life;
	uint64_t rest_ns;

	if (!thread || !p->self_ns)
		return;
	life = life_of(thread, p);
	untraced->tid = thread->tid;
	untraced->comm = thread->comm ? thread->comm : "";
	untraced->wall_ns = rest_ns = profile_recorded_between(profile, life.from_ns, life.to_ns);
	FOR_EACH (other, proc->threads)
		untraced->at_least |=
			proc->overflow_self_ns && other != thread && other->traced.seen;
	rest_ns = sub_capped(rest_ns, add_capped(thread->traced.self_ns, proc->overflow_self_ns));
	untraced->running_ns = running_ns(a, profile, proc, thread, life.to_ns);
	untraced->running_ns = min_u64(untraced->running_ns, rest_ns);
	untraced->self_ns = rest_ns - untraced->running_ns;
	/* All of the thread's CPU time may have been in traced calls, or as much as there is room
	 * for outside of them. */
	untraced->on_cpu_min_ns = untraced->on_cpu_max_ns = PROFILE_ABSENT;
	for (size_t i = 0; i < p->threads_count; i++) {
		uint64_t cpu_ns = p->threads[i].on_cpu_ns;

		if (p->threads[i].tid != untraced->tid || cpu_ns == PROFILE_ABSENT)
			continue;
		untraced->on_cpu_min_ns =
			sub_capped(cpu_ns, sub_capped(untraced->wall_ns, untraced->self_ns));
		untraced->on_cpu_max_ns = min_u64(cpu_ns, untraced->self_ns);
		untraced->on_cpu_min_ns = min_u64(untraced->on_cpu_min_ns, untraced->on_cpu_max_ns);
	}
}

/* When rows, threads and steps of the processes are filled. */
static int untraced_fill(struct finish_ctx *ctx)
{
	for (size_t i = 0; i < ctx->profile->processes_count; i++)
		find_untraced(ctx->a, ctx->profile, &ctx->profile->processes[i]);
	return 0;
}

const struct part part_untraced = {.finish = untraced_fill};
