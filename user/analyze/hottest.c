// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/hottest.h"

#include "analyze/location.h"
#include "analyze/thread_pool.h"
#include "base/escape.h"
#include "base/hash.h"
#include "base/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the hottest place --- */

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

static struct hottest hottest_in(const struct process_account *account, uint32_t tid,
				 enum account_class class)
{
	struct lines leads = {0}, inside = {0}, native = {0}, polling = {0};
	struct hottest hottest = {.tid = tid};
	struct calls calls = {0};

	for (size_t i = 0; i < account->places_count; i++) {
		if (!is_hot(&account->places[i], tid, class))
			continue;
		hottest.all_ns += account->places[i].ns;
		lines_add(&leads, lead_of(&account->places[i]), account->places[i].ns);
	}
	hottest.place = lines_lead(&leads);
	for (size_t i = 0; i < account->places_count && hottest.place.frame; i++) {
		const struct account_place *place = &account->places[i];
		const struct profile_frame *lead = lead_of(place);

		if (!is_hot(place, tid, class) || !lead ||
		    !frame_is_same_function(lead, hottest.place.frame))
			continue;
		calls_add(&calls, place->function, place->ns);
		if (place->own && place->python && place->own != place->python)
			lines_add(&inside, place->python, place->ns);
		lines_add(&inside, place->callee, place->ns);
		if (place->native && place->native != lead && place->native != place->callee)
			lines_add(place->class == ACCOUNT_SPINNING ? &polling : &native,
				  place->native, place->ns);
	}
	hottest.polling = lines_lead(&polling);
	hottest.inside = lines_lead(&inside);
	hottest.native = lines_lead(&native);
	find_function(&hottest, &calls);
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

	for (size_t i = 0; i < account->places_count; i++)
		if (account->places[i].class == ACCOUNT_COMPUTING)
			calls_add(&calls, account->places[i].function, account->places[i].ns);
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

/* --- native functions --- */

static bool is_start(const struct profile_frame *frame)
{
	static const char *const names[] = {"_start",
					    "__libc_start_main",
					    "__libc_start_call_main",
					    "__libc_start_main_impl",
					    "start_thread",
					    "clone",
					    "clone3",
					    "__clone",
					    "__clone3",
					    NULL};

	return frame_is_system_library(frame) && text_is_one_of(frame->function, names);
}

struct native_making {
	struct native_functions *functions;
	struct map64 ids; /* → functions->list[] */
	size_t capacity;
	bool by_library;
};

/* NULL: memory is out. */
static struct native_function *native_function_of(struct native_making *m,
						  const struct profile_frame *frame)
{
	bool named = !m->by_library && frame->function[0];
	const uintptr_t words[] = {(uintptr_t)(named ? frame->function : ""),
				   (uintptr_t)frame->module};
	uint64_t hash = fnv1a(words, sizeof(words));
	uint32_t at = map64_get(&m->ids, hash);

	if (at != MAP64_NONE)
		return &m->functions->list[at];
	at = (uint32_t)m->functions->count;
	if (grow_array(&m->functions->list, &m->capacity, at + 1, sizeof(*m->functions->list)) ||
	    map64_put(&m->ids, hash, at))
		return NULL;
	m->functions->count++;
	m->functions->list[at].frame = frame;
	return &m->functions->list[at];
}

static int add_native_stack(struct native_making *m, const struct thread_pool *pool,
			    const struct profile_activity *sample, size_t number)
{
	const struct profile_stack *stack = sample->stack;
	size_t python = location_python(stack->frames, stack->frames_count);

	for (size_t i = 0; i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];
		struct native_function *function;

		if (frame->language == PERFX_LANGUAGE_PYTHON || is_start(frame) ||
		    frame_is_interpreter(frame))
			continue;
		function = native_function_of(m, frame);
		if (!function)
			return -ENOMEM;
		if (function->seen != number)
			function->total_ns += sample->ns;
		function->seen = number;
		if (!function->below && python < stack->frames_count)
			function->below = stack->frames[python];
		if (i)
			continue;
		function->self_ns += sample->ns;
		function->spinning_ns += stack_spins(pool, stack) ? sample->ns : 0;
	}
	return 0;
}

static int by_self(const void *left, const void *right)
{
	const struct native_function *a = left, *b = right;

	if (a->self_ns != b->self_ns)
		return a->self_ns < b->self_ns ? 1 : -1;
	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	return strcmp(a->frame->function, b->frame->function);
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
	map64_clear(&m.ids);
	if (functions->count)
		qsort(functions->list, functions->count, sizeof(*functions->list), by_self);
	return err;
}

/* --- words --- */

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

/* A part of the place that is worth naming. */
#define HOTTEST_PART 0.10

static bool is_worth_naming(const struct hottest *hottest, const struct place *part)
{
	return part->frame && (double)part->ns >= HOTTEST_PART * (double)hottest->place.ns &&
	       !frame_is_same_function(part->frame, hottest->place.frame) &&
	       (part == &hottest->inside || !hottest->inside.frame ||
		!frame_is_same_function(part->frame, hottest->inside.frame));
}

void add_hottest(struct text *text, const struct hottest *hottest)
{
	add_native(text, hottest->place.frame);
	if (is_worth_naming(hottest, &hottest->inside)) {
		text_add(text, ", in ");
		add_package(text, hottest->inside.frame);
		add_native(text, hottest->inside.frame);
	}
	if (is_worth_naming(hottest, &hottest->native)) {
		text_add(text, ", in ");
		add_native(text, hottest->native.frame);
	}
	if (is_worth_naming(hottest, &hottest->polling)) {
		text_add(text, "; ");
		add_percent(text, (double)hottest->polling.ns / (double)hottest->place.ns);
		text_add(text, " of it only polls for other threads, in ");
		add_native(text, hottest->polling.frame);
	}
}
