// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/period.h"
#include "aggregate/calls.h"
#include "aggregate/steps.h"
#include "base/hash.h"
#include "base/order.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* A call's place in the sequence. Those of one key lie side by side, in order. */
struct occurrence {
	uint32_t key, at; /* key: a context or a function */
};

struct candidate {
	uint32_t function, context; /* context 0: in all of its contexts */
	size_t periods_count;
	double alike; /* share of the periods */
	double median_ns;
	double total_ns; /* in its own calls */
	unsigned depth;
	bool compiled;
};

/* While a period is looked for. */
struct search {
	const struct outer_call *calls;
	size_t count;
	struct occurrence *occurrences; /* by key, then in order of time */
	struct occurrence *scratch;
	uint64_t *sums;	  /* of what was called up to each, as hashes: a difference is a multiset */
	uint32_t *counts; /* how often the function of each is called */
	uint64_t *values; /* of one candidate's periods */
	struct candidate *candidates;
	size_t candidates_count;
	period_depth_fn *depth_of;
	void *ctx;
};

static uint64_t end_of(const struct search *search, const struct occurrence *occurrence)
{
	return search->calls[occurrence->at].end_ns;
}

/* How often the value comes that more than half of them have (Boyer and Moore, 1981). At most half
 * of them: there is no such value. */
static size_t count_majority(const uint64_t *values, size_t count)
{
	uint64_t value = 0;
	size_t lead = 0, same = 0;

	for (size_t i = 0; i < count; i++) {
		if (!lead)
			value = values[i];
		if (values[i] == value)
			lead++;
		else
			lead--;
	}
	for (size_t i = 0; i < count; i++)
		same += values[i] == value;
	return same;
}

/* Functions that come in less than this part of the periods are done now and then. */
#define OFTEN 0.5

/* How many consist of the same calls. count_majority() is exact for more than half, as PERIOD_ALIKE
 * demands. Periods of a compiled function are alike if they contain the same calls of other
 * compiled functions that come often: a call at the begin or end of a pass over the data, or in an
 * evaluation, is no part of a step. */
static size_t count_same_calls(struct search *search, const struct occurrence *first,
			       size_t periods_count)
{
	bool compiled = search->calls[first->at].compiled;

	for (size_t period = 0; period < periods_count; period++) {
		uint32_t from = first[period].at, to = first[period + 1].at;
		uint64_t sum = compiled ? 0 : search->sums[to] - search->sums[from];

		for (uint32_t i = from + 1; compiled && i <= to; i++) {
			const struct outer_call *call = &search->calls[i];

			if (call->compiled &&
			    (double)search->counts[i] >= OFTEN * (double)periods_count)
				sum += fnv1a(&call->function, sizeof(call->function));
		}
		search->values[period] = sum;
	}
	return count_majority(search->values, periods_count);
}

/* Does a library's operation follow itself, with no other call in between? Any loop repeats one,
 * such as that of a solver, so that a step shows by a second call. */
static bool is_repetition(const struct search *search, const struct occurrence *first,
			  size_t periods_count)
{
	size_t alone = 0;

	for (size_t i = 0; i < periods_count; i++)
		alone += first[i + 1].at == first[i].at + 1;
	return search->calls[first->at].is_operation && 2 * alone > periods_count;
}

/* How many take about as long as the median: half of it to twice as long. Those of a compiled
 * function, which is a step by itself, take what they take. */
static size_t count_same_time(const struct search *search, const struct occurrence *first,
			      size_t periods_count, double *median_ns)
{
	const double factor = 2;
	size_t same = 0;

	for (size_t i = 0; i < periods_count; i++)
		search->values[i] = end_of(search, &first[i + 1]) - end_of(search, &first[i]);
	SORT_ITEMS(search->values, periods_count, compare_u64);
	*median_ns = (double)search->values[(periods_count - 1) / 2];
	if (search->calls[first->at].compiled)
		return periods_count;
	for (size_t i = 0; i < periods_count; i++)
		same += (double)search->values[i] >= *median_ns / factor &&
			(double)search->values[i] <= *median_ns * factor;
	return same;
}

/* Do its calls come in most of the time? */
static bool covers(const struct search *search, const struct occurrence *first,
		   size_t periods_count)
{
	double all_ns = (double)(search->calls[search->count - 1].end_ns -
				 search->calls[0].start_ns),
	       ns = (double)(end_of(search, &first[periods_count]) - end_of(search, first));

	return ns >= PERIOD_COVERS * all_ns;
}

/* The outermost of its contexts counts. */
static void sum_calls(struct search *search, const struct occurrence *first, size_t count,
		      struct candidate *candidate)
{
	uint32_t before = 0;

	candidate->depth = UINT_MAX;
	for (size_t i = 0; i < count; i++) {
		const struct outer_call *call = &search->calls[first[i].at];
		unsigned depth;

		candidate->total_ns += (double)(call->end_ns - call->start_ns);
		if (call->context == before)
			continue;
		before = call->context;
		depth = search->depth_of(search->ctx, call->context);
		candidate->depth = min_u64(depth, candidate->depth);
	}
}

static void try_key(struct search *search, const struct occurrence *first, size_t count,
		    bool is_context)
{
	const struct outer_call *call = &search->calls[first->at];
	struct candidate candidate = {.function = call->function,
				      .context = is_context ? call->context : 0,
				      .periods_count = count - 1,
				      .compiled = call->compiled};
	size_t same_calls, same_time;

	if (!call->function || count <= PERIODS_MIN || !covers(search, first, count - 1) ||
	    is_repetition(search, first, count - 1))
		return;
	same_calls = count_same_calls(search, first, count - 1);
	if ((double)same_calls / (double)candidate.periods_count < PERIOD_ALIKE)
		return;
	same_time = count_same_time(search, first, count - 1, &candidate.median_ns);
	candidate.alike = (double)min_u64(same_calls, same_time) / (double)candidate.periods_count;
	if (candidate.alike < PERIOD_ALIKE ||
	    candidate.median_ns < (call->compiled ? PERIOD_COMPILED_NS : PERIOD_LEAST_NS))
		return;
	sum_calls(search, first, count, &candidate);
	search->candidates[search->candidates_count++] = candidate;
}

#define KEY_DIGIT_BITS 11
_Static_assert(AGGREGATE_CONTEXTS_MAX >> (2 * KEY_DIGIT_BITS) == 0 &&
		       AGGREGATE_FUNCTIONS_MAX >> (2 * KEY_DIGIT_BITS) == 0,
	       "a key has two digits");

/* Sorts by one digit of the key: equal ones stay in their order. */
static void sort_by_digit(const struct occurrence *from, struct occurrence *to, size_t count,
			  unsigned shift)
{
	const uint32_t mask = (1u << KEY_DIGIT_BITS) - 1;
	uint32_t places[(1u << KEY_DIGIT_BITS) + 1] = {0};

	for (size_t i = 0; i < count; i++)
		places[(from[i].key >> shift & mask) + 1]++;
	for (size_t i = 1; i <= mask; i++)
		places[i] += places[i - 1];
	for (size_t i = 0; i < count; i++)
		to[places[from[i].key >> shift & mask]++] = from[i];
}

static void sort_occurrences(struct search *search, bool by_contexts)
{
	for (size_t i = 0; i < search->count; i++) {
		const struct outer_call *call = &search->calls[i];

		search->occurrences[i] = (struct occurrence){
			by_contexts ? call->context : call->function, (uint32_t)i};
	}
	sort_by_digit(search->occurrences, search->scratch, search->count, 0);
	sort_by_digit(search->scratch, search->occurrences, search->count, KEY_DIGIT_BITS);
}

/* Where the sorted occurrences of another key begin. */
static size_t end_of_key(const struct search *search, size_t first)
{
	uint32_t key = search->occurrences[first].key;

	while (first < search->count && search->occurrences[first].key == key)
		first++;
	return first;
}

static void try_keys(struct search *search, bool are_contexts)
{
	for (size_t i = 0, end; i < search->count; i = end) {
		end = end_of_key(search, i);
		try_key(search, &search->occurrences[i], end - i, are_contexts);
	}
}

/* Functions, then contexts: of equal ones a function counts. What was called is distinguished by
 * function, for a step that compiles comes from other lines than one that runs. */
static void try_all(struct search *search)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < search->count; i++) {
		sum += fnv1a(&search->calls[i].function, sizeof(search->calls[i].function));
		search->sums[i] = sum;
	}
	sort_occurrences(search, false);
	for (size_t i = 0, end; i < search->count; i = end) {
		end = end_of_key(search, i);
		for (size_t k = i; k < end; k++)
			search->counts[search->occurrences[k].at] = (uint32_t)(end - i);
	}
	try_keys(search, false);
	sort_occurrences(search, true);
	try_keys(search, true);
}

/* Scores that differ by less are the same. */
#define ALIKE_ERROR 0.02

/* A compiled function of the program's is more than an operation or a library's call. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
	if (a->compiled != b->compiled)
		return a->compiled;
	if (a->depth != b->depth)
		return a->depth < b->depth;
	if (fabs(a->alike - b->alike) > ALIKE_ERROR)
		return a->alike > b->alike;
	if (2 * a->periods_count <= b->periods_count || 2 * b->periods_count <= a->periods_count)
		return a->periods_count < b->periods_count;
	return a->total_ns > b->total_ns;
}

/* The share of the rarer one's period that the more frequent ones may leave over. */
#define MULTIPLE_REST 0.1

/* An operator that comes several times in a period is a repeated layer. A compiled function of the
 * program's is not: then the rarer one is done once in so many steps. */
static bool divides(const struct candidate *often, const struct candidate *rare)
{
	double times = floor((double)often->periods_count / (double)rare->periods_count + 0.5);

	return often->compiled && times >= 2 && often->depth == rare->depth &&
	       fabs(rare->median_ns - times * often->median_ns) <= MULTIPLE_REST * rare->median_ns;
}

static const struct candidate *choose(const struct search *search)
{
	const struct candidate *best = NULL, *often = NULL;

	FOR_EACH (candidate, search->candidates)
		if (!best || is_better(candidate, best))
			best = candidate;
	FOR_EACH (candidate, search->candidates)
		if (divides(candidate, best) && (!often || is_better(candidate, often)))
			often = candidate;
	return often ?: best;
}

/* The expected share of periods that are alike, by Laplace's rule. */
static double confidence_of(const struct candidate *candidate)
{
	return (candidate->alike * (double)candidate->periods_count + 1) /
	       ((double)candidate->periods_count + 2);
}

/* 1: found, 0: there is none, -ENOMEM. */
static int find_among(struct period *found, const struct outer_call *calls, size_t count,
		      period_depth_fn *depth_of, void *ctx)
{
	struct search search = {.calls = calls, .count = count, .depth_of = depth_of, .ctx = ctx};
	const struct candidate *best = NULL;
	bool is_found = false;

	if (count <= PERIODS_MIN)
		return 0;
	search.occurrences = calloc(count, sizeof(*search.occurrences));
	search.scratch = calloc(count, sizeof(*search.scratch));
	search.sums = calloc(count, sizeof(*search.sums));
	search.counts = calloc(count, sizeof(*search.counts));
	search.values = calloc(count, sizeof(*search.values));
	search.candidates = calloc(2 * count / PERIODS_MIN + 1, sizeof(*search.candidates));
	if (search.occurrences && search.scratch && search.sums && search.counts && search.values &&
	    search.candidates) {
		try_all(&search);
		best = choose(&search);
		is_found = best && confidence_of(best) >= PERIOD_CONFIDENCE;
	} else {
		found = NULL;
	}
	if (is_found)
		*found = (struct period){.function = best->function,
					 .context = best->context,
					 .confidence = confidence_of(best),
					 .compiled = best->compiled};
	free(search.occurrences);
	free(search.scratch);
	free(search.sums);
	free(search.counts);
	free(search.values);
	free(search.candidates);
	return found ? is_found : -ENOMEM;
}

int period_find(struct period *found, const struct period_calls *calls, period_depth_fn *depth_of,
		void *ctx)
{
	int result = calls->list ? find_among(found, calls->list + calls->before_last,
					      calls->count - calls->before_last, depth_of, ctx)
				 : 0;

	return result ? result : find_among(found, calls->list, calls->before_first, depth_of, ctx);
}

/* Threads whose calls are kept, of all processes. */
#define PERIOD_THREADS_MAX 256
/* When that many are kept, a period is looked for; then after twice as many. */
#define PERIOD_FIRST_SEARCH 512

struct period_thread {
	struct period_calls calls;
	struct period period; /* function 0: none was found yet */
	size_t search_at;
	bool decided;
};

struct periods {
	struct period_thread *list;
	size_t count, capacity;
	struct map64 ids; /* process << 32 | tid */
};

/* NULL with errno: ERANGE (there are too many), ENOMEM. */
static struct period_thread *thread_of(struct periods *periods, uint32_t process, uint32_t tid)
{
	uint64_t key = MAP64_PAIR(process, tid);
	struct period_thread *thread = MAP64_FIND_OF(periods, key);

	if (thread)
		return thread;
	errno = ERANGE;
	if (periods->count == PERIOD_THREADS_MAX)
		return NULL;
	thread = MAP64_ITEM_OF(periods, key);
	if (thread)
		*thread = (struct period_thread){.calls = {.process = process, .tid = tid},
						 .search_at = PERIOD_FIRST_SEARCH};
	return thread;
}

static void forget_calls(struct period_calls *calls)
{
	free(calls->list);
	calls->list = NULL;
	calls->count = calls->capacity = 0;
}

static bool is_main(const struct aggregate *a, const struct period_calls *calls)
{
	return a->processes->list[calls->process]->pid == calls->tid;
}

/* A library has named the function: neither the program, by a range, nor the user, by a pattern. */
static bool is_operation(const struct profile_function *function)
{
	return function->source != PERFX_SOURCE_PERFX && function->source != PERFX_SOURCE_SYMBOL &&
	       !(function->flags & PERFX_FUNCTION_RANGE);
}

/* Calls inside of it have ended before it. */
static int add_call(struct period_calls *calls, const struct perfx_span *span,
		    const struct profile_function *function)
{
	bool unwound = span->flags & PERFX_SPAN_UNWOUND;

	while (calls->count && calls->list[calls->count - 1].start_ns >= span->start_ns)
		calls->count--;
	calls->before_first = min_u64(calls->before_first, calls->count);
	calls->before_last = min_u64(calls->before_last, calls->count);
	return LIST_ADD_TO(calls, (struct outer_call){.start_ns = span->start_ns,
						      .end_ns = span->start_ns + span->duration_ns,
						      .off_cpu_ns = span->off_cpu_ns,
						      .context = unwound ? 0 : span->context,
						      .function = unwound ? 0 : span->function,
						      .compiled = function->flags &
								  PERFX_FUNCTION_COMPILED,
						      .is_operation = is_operation(function),
						      .untimed = span->flags & PERFX_SPAN_UNTIMED});
}

/* More than any: a context that is not described yet is no outermost one. */
#define DEPTH_UNKNOWN 1000

/* By the stack of its first call. */
static unsigned python_depth(void *ctx, uint32_t id)
{
	const struct aggregate *a = ctx;
	const struct context *context = context_find(a, id);
	const struct stack *stack =
		context ? stack_find(a->stacks, context->process, context->stack) : NULL;
	unsigned depth = 0;

	for (uint32_t i = 0; stack && i < stack->frames_count; i++)
		depth += (stack_addresses(a->stacks, stack)[i] & PERFX_FRAME_PYTHON) != 0;
	return stack && stack->frames_count ? depth : DEPTH_UNKNOWN;
}

/* A data loader's worker repeats calls, too, but the steps are its parent's. */
static bool is_worker(const struct aggregate *a, uint32_t process)
{
	const struct process *worker = a->processes->list[process];

	for (size_t i = 0; i < a->processes->count; i++) {
		const struct process *parent = a->processes->list[i];

		if (parent && parent->has_rows && parent->pid && parent->pid == worker->ppid)
			return true;
	}
	return false;
}

static size_t count_ends(const struct period_calls *calls, const struct period *period)
{
	size_t count = 0;

	for (size_t i = 0; i < calls->count; i++)
		count += calls->list[i].function == period->function &&
			 (!period->context || calls->list[i].context == period->context);
	return count;
}

/* Threads of a pool make the same calls, and any of these may score best. A thread takes the end of
 * its first sibling, so that rules see that the threads are alike. */
static void end_as_siblings(const struct aggregate *a, const struct period_calls *calls,
			    struct period *period)
{
	for (size_t i = 0; i < a->periods->count && !calls->is_main; i++) {
		const struct period_thread *sibling = &a->periods->list[i];

		if (sibling->calls.process != calls->process || sibling->calls.tid == calls->tid ||
		    sibling->calls.is_main || !sibling->period.function ||
		    2 * count_ends(calls, &sibling->period) < count_ends(calls, period))
			continue;
		period->function = sibling->period.function;
		period->context = sibling->period.context;
		period->compiled = sibling->period.compiled;
		return;
	}
}

static int find_period(struct aggregate *a, struct period_thread *thread)
{
	struct period_calls *calls = &thread->calls;
	int found = period_find(&thread->period, calls, python_depth, a);

	calls->is_main = is_main(a, calls);
	if (found > 0)
		end_as_siblings(a, calls, &thread->period);
	else
		thread->period.function = 0;
	return found;
}

static int search_period(struct aggregate *a, struct period_thread *thread)
{
	struct period_calls *calls = &thread->calls;
	int found = is_worker(a, calls->process) ? 0 : find_period(a, thread);

	if (found > 0) {
		thread->decided = true;
		found = steps_by_period(a->steps, calls, &thread->period);
		forget_calls(calls);
		return found;
	}
	if (thread->search_at < PERIOD_CALLS_MAX)
		thread->search_at *= 2;
	if (calls->count >= PERIOD_CALLS_MAX) {
		size_t dropped = calls->count / 2;

		LIST_DROP_FROM(calls, dropped);
		calls->before_first -= min_u64(calls->before_first, dropped);
		calls->before_last -= min_u64(calls->before_last, dropped);
	}
	return found;
}

int periods_span(struct aggregate *a, const struct perfx_span *span)
{
	struct period_thread *thread;

	if ((span->flags & PERFX_SPAN_ASYNC) || !span->context || !span->function ||
	    span->function > a->calls->functions_count ||
	    a->processes->list[span->process]->has_steps ||
	    span->start_ns + span->duration_ns < span->start_ns)
		return 0;
	thread = thread_of(a->periods, span->process, span->tid);
	if (!thread)
		return errno == ENOMEM ? -ENOMEM : 0;
	if (thread->decided)
		return 0;
	if (add_call(&thread->calls, span, &a->calls->functions[span->function - 1]))
		return -ENOMEM;
	return thread->calls.count < thread->search_at ? 0 : search_period(a, thread);
}

void periods_reduced(struct periods *periods, uint32_t process)
{
	FOR_EACH_OF (thread, *periods) {
		struct period_calls *calls = &thread->calls;

		if (calls->process != process)
			continue;
		if (!calls->before_last)
			calls->before_first = calls->count;
		calls->before_last = calls->count;
	}
}

/* Is the process's period known already, or is there nothing to be found? A thread of a pool that
 * makes more calls than the main one is decided before it, and is none of the program's loop. */
static bool is_settled(const struct aggregate *a, const struct period_calls *calls)
{
	if (a->processes->list[calls->process]->has_steps || is_worker(a, calls->process))
		return true;
	FOR_EACH_OF (thread, *a->periods)
		if (thread->calls.process == calls->process && thread->decided &&
		    (!is_main(a, calls) || is_main(a, &thread->calls)))
			return true;
	return false;
}

static int periods_fill(struct finish_ctx *ctx)
{
	struct aggregate *a = ctx->a;
	int found = 0;

	steps_hide_periods(a->steps);
	for (size_t i = 0; i < a->periods->count && found >= 0; i++) {
		struct period_thread *thread = &a->periods->list[i];

		if (is_settled(a, &thread->calls))
			continue;
		found = find_period(a, thread);
		if (found > 0)
			found = steps_show_period(a->steps, &thread->calls, &thread->period);
	}
	return found < 0 ? found : 0;
}

/* Calls of threads that have no period yet are taken over, of processes that go on. */
static int periods_take_over(struct aggregate *a, struct aggregate *before, uint64_t from_ns)
{
	(void)from_ns;
	FOR_EACH_OF (thread, *before->periods) {
		struct period_thread *into;

		if (!process_goes_on(a, thread->calls.process))
			continue;
		into = MAP64_ITEM_OF(a->periods,
				     MAP64_PAIR(thread->calls.process, thread->calls.tid));
		if (!into)
			return -ENOMEM;
		*into = *thread;
		thread->calls.list = NULL;
		thread->calls.count = thread->calls.capacity = 0;
	}
	return 0;
}

static void periods_clear(void *state)
{
	struct periods *periods = state;

	FOR_EACH_OF (thread, *periods)
		free(thread->calls.list);
	free(periods->list);
	map64_clear(&periods->ids);
}

const struct part part_periods = {
	PART_STATE(periods),
	.take_over = periods_take_over,
	.finish = periods_fill,
	.clear = periods_clear,
};
