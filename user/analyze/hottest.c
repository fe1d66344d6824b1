// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/hottest.h"

#include "analyze/location.h"
#include "analyze/stack_kind.h"
#include "analyze/thread_pool.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct profile_frame *lead_of(const struct account_place *place)
{
	if (place->own)
		return place->own;
	return place->python ? place->python : place->native;
}

/* Polling is said where nothing computes. */
static bool is_hot(const struct account_place *place, uint32_t tid, enum account_class class)
{
	return (!tid || place->tid == tid) && (place->class == class || place->python);
}

/* Sums by function of traced calls. Places are in the order of their time. */
#define CALLS_MAX 64

struct calls {
	struct {
		uint32_t function;
		uint64_t ns;
	} list[CALLS_MAX];
	size_t count;
};

static void calls_add(struct calls *calls, uint32_t function, uint64_t ns)
{
	size_t i = 0;

	while (i < calls->count && calls->list[i].function != function)
		i++;
	if (!function || i == CALLS_MAX)
		return;
	calls->count += i == calls->count;
	calls->list[i].function = function;
	calls->list[i].ns += ns;
}

static void find_function(struct hottest *hottest, const struct calls *calls)
{
	for (size_t i = 0; i < calls->count; i++) {
		if (calls->list[i].ns <= hottest->function_ns)
			continue;
		hottest->function = calls->list[i].function;
		hottest->function_ns = calls->list[i].ns;
	}
}

/* The package's line, or the native callee, that a place of the program's own lies in; NULL: none.
 */
static const struct profile_frame *inside_of(const struct account_place *place)
{
	if (place->own && place->python && place->own != place->python)
		return place->python;
	return place->callee;
}

static bool is_in(const struct account_place *place, const struct profile_frame *lead)
{
	return lead_of(place) && frame_is_same_function(lead_of(place), lead);
}

/* A part of the place that is worth naming. */
#define HOTTEST_PART 0.10

static bool is_worth_naming(const struct hottest *hottest, const struct place *part)
{
	return part->frame && (double)part->ns >= HOTTEST_PART * (double)hottest->place.ns &&
	       !frame_is_same_function(part->frame, hottest->place.frame) &&
	       (part == &hottest->inside || !hottest->inside.frame ||
		!frame_is_same_function(part->frame, hottest->inside.frame));
}

static struct hottest hottest_in(const struct process_account *account, uint32_t tid,
				 enum account_class class)
{
	struct lines leads = {0}, inside = {0}, native = {0}, polling = {0};
	struct hottest hottest = {.tid = tid};
	struct calls calls = {0};
	bool names_inside;

	FOR_EACH (place, account->places) {
		if (!is_hot(place, tid, class))
			continue;
		hottest.all_ns += place->ns;
		lines_add(&leads, lead_of(place), place->ns);
	}
	hottest.place = lines_lead(&leads);
	if (!hottest.place.frame)
		return hottest;
	FOR_EACH (place, account->places) {
		if (!is_hot(place, tid, class) || !is_in(place, hottest.place.frame))
			continue;
		calls_add(&calls, place->function, place->ns);
		lines_add(&inside, inside_of(place), place->ns);
		hottest.polling_ns += place->class == ACCOUNT_SPINNING ? place->ns : 0;
	}
	find_function(&hottest, &calls);
	hottest.inside = lines_lead(&inside);
	names_inside = is_worth_naming(&hottest, &hottest.inside);
	FOR_EACH (place, account->places) {
		const struct profile_frame *within = inside_of(place);

		if (!is_hot(place, tid, class) || !is_in(place, hottest.place.frame) ||
		    !place->native || place->native == lead_of(place) ||
		    place->native == place->callee)
			continue;
		/* if hottest.inside is named, the native function is one of those in it */
		if (place->class == ACCOUNT_SPINNING)
			lines_add(&polling, place->native, place->ns);
		else if (!names_inside ||
			 (within && frame_is_same_function(within, hottest.inside.frame)))
			lines_add(&native, place->native, place->ns);
	}
	hottest.polling = lines_lead(&polling);
	hottest.native = lines_lead(&native);
	return hottest;
}

struct hottest hottest_of(const struct process_account *account, uint32_t tid)
{
	struct hottest hottest = hottest_in(account, tid, ACCOUNT_COMPUTING);

	return hottest.place.frame ? hottest : hottest_in(account, tid, ACCOUNT_SPINNING);
}

uint32_t hottest_function(const struct process_account *account)
{
	struct hottest hottest = {0};
	struct calls calls = {0};

	FOR_EACH (place, account->places)
		if (place->class == ACCOUNT_COMPUTING)
			calls_add(&calls, place->function, place->ns);
	find_function(&hottest, &calls);
	return hottest.function;
}

static uint64_t running_ns(const struct account *account)
{
	return account->ns[ACCOUNT_COMPUTING] + account->ns[ACCOUNT_SPINNING];
}

struct hottest hottest_of_process(const struct process_account *account)
{
	const struct account *thread = account_of_thread(account, account->tid);
	struct hottest hottest = {0};

	/* threads that are joined come and go */
	if (!account->joins && thread && 2 * running_ns(thread) >= running_ns(&account->all))
		hottest = hottest_of(account, account->tid);
	return hottest.place.frame ? hottest : hottest_of(account, 0);
}

/* A function's time below a Python line, or below another function. */
struct native_pair {
	uint32_t function; /* → functions->list[] */
	uint32_t caller;   /* the same; MAP64_NONE: `below` is */
	const struct profile_frame *below;
	uint64_t ns;
	size_t seen; /* the last sample */
};

struct native_making {
	struct native_functions *functions;
	struct map64 ids; /* → functions->list[] */
	struct map64 pair_ids;
	struct native_pair *pairs;
	size_t capacity, pairs_count, pairs_capacity;
	bool by_library;
};

/* 0 or -ENOMEM. A sample counts once, however often its stack has the pair. */
static int add_pair(struct native_making *m, const struct native_pair *pair)
{
	const struct profile_frame *below = pair->below;
	const uintptr_t words[] = {pair->function, pair->caller,
				   below ? (uintptr_t)below->function : 0,
				   below ? (uintptr_t)below->file : 0, below ? below->line : 0};
	struct native_pair *known = MAP64_ITEM(m->pair_ids, fnv1a(words, sizeof(words)), m->pairs);

	if (!known)
		return -ENOMEM;
	if (!known->seen)
		*known = *pair;
	else if (known->seen != pair->seen)
		known->ns += pair->ns;
	known->seen = pair->seen;
	return 0;
}

static int add_native_stack(struct native_making *m, const struct thread_pool *pool,
			    const struct profile_activity *sample, size_t number)
{
	static const char *const starts[] = {"_start",
					     "__libc_start_main",
					     "__libc_start_call_main",
					     "__libc_start_main_impl",
					     "start_thread",
					     "clone",
					     "clone3",
					     "__clone",
					     "__clone3",
					     NULL};
	const struct profile_stack *stack = sample->stack;
	size_t python = location_python(stack->frames, stack->frames_count);
	bool spins = stack_spins(&pool->spinning, stack);
	uint32_t callee = MAP64_NONE;
	int err = 0;

	for (size_t i = 0; i < stack->frames_count && !err; i++) {
		const struct profile_frame *frame = stack->frames[i];
		bool named = !m->by_library && frame->function[0];
		const uintptr_t words[] = {(uintptr_t)(named ? frame->function : ""),
					   (uintptr_t)frame->module};
		struct native_function *function;
		uint32_t at;

		if (frame->language == PERFX_LANGUAGE_PYTHON || frame_is_interpreter(frame) ||
		    (frame_is_system_library(frame) && text_is_one_of(frame->function, starts))) {
			callee = MAP64_NONE;
			continue;
		}
		function = map64_item(&m->ids, fnv1a(words, sizeof(words)), &m->functions->list,
				      &m->capacity, &m->functions->count, sizeof(*function));
		if (!function)
			return -ENOMEM;
		at = (uint32_t)(function - m->functions->list);
		function->frame = function->frame ?: frame;
		function->self_ns += i ? 0 : sample->ns;
		if (function->seen != number) {
			function->seen = number;
			function->total_ns += sample->ns;
			function->spinning_ns += spins ? sample->ns : 0;
		}
		if (i < python && python < stack->frames_count)
			err = add_pair(m,
				       &(struct native_pair){at, MAP64_NONE, stack->frames[python],
							     sample->ns, number});
		if (callee != MAP64_NONE && callee != at && !err)
			err = add_pair(m,
				       &(struct native_pair){callee, at, NULL, sample->ns, number});
		callee = at;
	}
	return err;
}

/* A caller or callee with this share of a function's time stands for all of it. */
#define PASSED_ON 0.90

/* A function that its caller passes nearly all of its time on to says what the caller says, and so
 * does a function that Python or a thread's start calls and that passes on its own. */
static void judge_pairs(struct native_making *m)
{
	struct native_function *list = m->functions->list;

	FOR_EACH (pair, m->pairs) {
		struct native_function *function = &list[pair->function], *caller;
		bool passes_on;

		if (pair->caller == MAP64_NONE) {
			if (pair->ns > function->below_ns) {
				function->below_ns = pair->ns;
				function->below = pair->below;
			}
			continue;
		}
		caller = &list[pair->caller];
		function->called_ns += pair->ns;
		passes_on = (double)pair->ns >= PASSED_ON * (double)caller->total_ns;
		caller->passes_on |= passes_on;
		function->continues |=
			passes_on && (double)pair->ns >= PASSED_ON * (double)function->total_ns;
	}
}

ORDER(by_self, struct native_function, DESCENDING(a->self_ns, b->self_ns),
      DESCENDING(a->total_ns, b->total_ns), strcmp(a->frame->function, b->frame->function))

ORDER(by_total, struct native_function, DESCENDING(a->total_ns, b->total_ns), by_self(left, right))

/* Keeps the functions with the most time of their own, and behind them callers. */
static void choose_functions(struct native_functions *functions)
{
	size_t kept = 0;

	qsort(functions->list, functions->count, sizeof(*functions->list), by_self);
	while (kept < functions->count && kept < NATIVE_ROWS &&
	       (double)functions->list[kept].self_ns >=
		       NATIVE_ROW_SHARE * (double)functions->all_ns)
		kept++;
	functions->leaves_count = kept;
	for (size_t i = kept; i < functions->count; i++) {
		const struct native_function *function = &functions->list[i];
		bool is_outermost = 2 * function->called_ns < function->total_ns;

		if (!function->continues && !(is_outermost && function->passes_on) &&
		    !frame_is_system_library(function->frame) &&
		    !frame_is(function->frame, CODE_POOL_RUNTIME) &&
		    (double)function->total_ns >= NATIVE_ROW_SHARE * (double)functions->all_ns)
			functions->list[kept++] = *function;
	}
	functions->count = kept;
	qsort(functions->list + functions->leaves_count, kept - functions->leaves_count,
	      sizeof(*functions->list), by_total);
	if (functions->count > functions->leaves_count + NATIVE_ROWS)
		functions->count = functions->leaves_count + NATIVE_ROWS;
}

int native_functions_find(struct native_functions *functions, const struct profile_process *process,
			  bool by_library)
{
	struct native_making m = {.functions = functions, .by_library = by_library};
	struct thread_pool pool;
	int err = thread_pool_find(&pool, process, process->pid);

	*functions = (struct native_functions){0};
	for (size_t i = 0; i < process->samples.count && !err; i++) {
		const struct profile_activity *sample = &process->samples.list[i];

		if (sample->state != PERFX_SAMPLE_ON_CPU)
			continue;
		functions->all_ns += sample->ns;
		if (sample->stack)
			err = add_native_stack(&m, &pool, sample, i + 1);
	}
	judge_pairs(&m);
	map64_clear(&m.ids);
	map64_clear(&m.pair_ids);
	free(m.pairs);
	if (functions->count)
		choose_functions(functions);
	return err;
}

void add_native(struct text *text, const struct profile_frame *frame)
{
	if (frame->function[0]) {
		location_place(text, frame);
	} else if (frame->module_base[0]) {
		escape_name(text, frame->module_base);
		text_add(text, " (no symbols)");
	} else {
		text_add(text, "code that was generated at run time");
	}
}

/* "torch ": of site-packages/torch/nn/modules/linear.py; "": of no package */
static void add_package(struct text *text, const struct profile_frame *frame)
{
	const char *package;
	size_t length = location_package(frame->file, &package);
	struct text name = {0};

	if (!length)
		return;
	text_add_bytes(&name, package, length < 64 ? length : 64);
	escape_name(text, text_peek(&name));
	text_add(text, " ");
	text_clear(&name);
}

/* A part of at least this share is "in" the whole without a figure. */
#define NEARLY_ALL 0.95

/* ", 62.0 % of it in ", ", in " */
static void add_share_in(struct text *text, const struct place *part, uint64_t whole_ns,
			 const char *of_whole)
{
	double share = (double)part->ns / (double)whole_ns;

	text_add(text, ",");
	if (share < NEARLY_ALL)
		text_printf(text, " %s %s", as_percent(share), of_whole);
	text_add(text, " in ");
}

void add_line_share(struct text *text, const struct place *place)
{
	double share = (double)place->line_ns / (double)place->ns;

	if (!place->frame->line || share >= NEARLY_ALL)
		return;
	text_printf(text, ", %s of it at that line", as_percent(share));
}

void add_hottest(struct text *text, const struct hottest *hottest)
{
	const struct place *around = &hottest->place;
	bool has_inside = is_worth_naming(hottest, &hottest->inside);
	/* by its share, what is inside the place is all that its line does */
	bool is_the_line = fabs((double)hottest->inside.ns - (double)around->line_ns) <=
			   (1 - NEARLY_ALL) * (double)around->ns;

	if (!location_is_own_python(hottest->place.frame))
		add_package(text, hottest->place.frame);
	add_native(text, hottest->place.frame);
	if (!has_inside || !is_the_line)
		add_line_share(text, &hottest->place);
	if (has_inside) {
		add_share_in(text, &hottest->inside, around->ns, "of it");
		around = &hottest->inside;
		add_package(text, around->frame);
		add_native(text, around->frame);
	}
	if (is_worth_naming(hottest, &hottest->native)) {
		add_share_in(text, &hottest->native, around->ns,
			     around == &hottest->inside ? "of that" : "of it");
		add_native(text, hottest->native.frame);
	}
}

void add_polling(struct text *text, const struct hottest *hottest)
{
	const struct profile_frame *frame = hottest->polling.frame;

	if (!is_worth_naming(hottest, &hottest->polling))
		return;
	text_printf(text, "; %s of it only polls for %s, %sin ",
		    as_percent((double)hottest->polling_ns / (double)hottest->place.ns),
		    begins_with(frame->module_base, "libcuda") ? "the GPU" : "other threads",
		    hottest->polling.ns < hottest->polling_ns ? "mostly " : "");
	add_native(text, frame);
}
