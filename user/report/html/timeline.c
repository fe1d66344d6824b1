// SPDX-License-Identifier: BSD-2-Clause
/*
 * The last slices of a process's threads (--timeline), with their calls. The script draws them:
 *
 *     {"ns": 81234567,   the whole width
 *      "names": ["CPU 1", "futex: lock at …", …],
 *      "threads": [{"name": "python3 (tid 12)",
 *                   "slices": [[0, 1200, 0, 0], …],      from, to, kind, name
 *                   "calls": [[100, 900, 0, 2], …]}],     from, to, depth, name
 *      "wakes": [[1500, 0, 1], …]}                        when, by thread, of thread
 *
 * Kinds: 0 runs, 1 waits for an event, 2 waits for a CPU. Times are nanoseconds from the left edge.
 */
#include "report/html/chart_data.h"

#include "analyze/slices.h"
#include "base/order.h"
#include "base/units.h"
#include "report/document/document.h"
#include "report/json/output.h"

#include <errno.h>
#include <stdlib.h>

/* Rows of the figure: the threads that ran longest. */
#define ROWS_MAX 64

enum { RUNS, WAITS, RUNNABLE };

struct row {
	uint32_t tid;
	uint64_t run_ns;
	json_t *slices, *calls;
};

struct timeline {
	const struct profile *profile;
	const struct profile_process *process;
	struct chart_names names;
	struct wait_names waits;
	struct map64 places; /* tid → rows[] */
	struct row *rows;
	size_t rows_count, rows_capacity;
	uint64_t from_ns, to_ns;
	json_t *wakes;
};

ORDER(by_run_time, struct row, DESCENDING(a->run_ns, b->run_ns), ASCENDING(a->tid, b->tid))

static struct row *row_of(struct timeline *t, uint32_t tid)
{
	uint32_t place = map64_get(&t->places, tid);

	return place == MAP64_NONE ? NULL : &t->rows[place];
}

/* 0 or -ENOMEM. */
static int find_rows(struct timeline *t)
{
	const struct profile *profile = t->profile;

	t->from_ns = UINT64_MAX;
	FOR_EACH (slice, profile->last_slices) {
		struct row *row;

		if (slice->process != t->process->index)
			continue;
		row = row_of(t, slice->tid);
		if (!row) {
			if (map64_put(&t->places, slice->tid, (uint32_t)t->rows_count) ||
			    LIST_ADD(t->rows, (struct row){.tid = slice->tid}))
				return -ENOMEM;
			row = &t->rows[t->rows_count - 1];
		}
		row->run_ns += slice->left_ns - slice->on_ns;
		t->from_ns = min_u64(t->from_ns, slice->time_ns);
		t->to_ns = max_u64(t->to_ns, slice->time_ns);
	}
	SORT_ITEMS(t->rows, t->rows_count, by_run_time);
	t->rows_count = t->rows_count < ROWS_MAX ? t->rows_count : ROWS_MAX;
	map64_clear(&t->places);
	for (size_t i = 0; i < t->rows_count; i++) {
		t->rows[i].slices = json_array();
		t->rows[i].calls = json_array();
		if (map64_put(&t->places, t->rows[i].tid, (uint32_t)i))
			return -ENOMEM;
	}
	return 0;
}

/* The part of it within the figure; an empty one is left out. */
static void add_box(struct timeline *t, json_t *boxes, uint64_t from_ns, uint64_t to_ns,
		    unsigned kind, const char *name)
{
	from_ns = max_u64(from_ns, t->from_ns);
	to_ns = min_u64(to_ns, t->to_ns);
	if (from_ns < to_ns)
		json_array_append_new(boxes,
				      json_pack("[I,I,I,I]", (json_int_t)(from_ns - t->from_ns),
						(json_int_t)(to_ns - t->from_ns), (json_int_t)kind,
						(json_int_t)chart_name(&t->names, name)));
}

static void add_slice(struct timeline *t, const struct perfx_slice *slice, struct row *row)
{
	uint32_t waker = map64_get(&t->places, slice->waker_tid);
	struct text words = {0}, by = {0};
	char cpu[16];

	snprintf(cpu, sizeof(cpu), "CPU %u", slice->cpu);
	slice_wait_words(&words, &t->waits, slice);
	slice_waker_words(&by, t->profile, slice);
	add_box(t, row->slices, slice->on_ns, slice->left_ns, RUNS, cpu);
	add_box(t, row->slices, slice->left_ns, slice->woken_ns, WAITS, text_peek(&words));
	words.length = 0;
	text_printf(&words, "runnable%s%s", by.length ? ", woken by " : "", text_peek(&by));
	add_box(t, row->slices, slice->woken_ns, slice->time_ns, RUNNABLE, text_peek(&words));
	if (waker != MAP64_NONE && slice->waker_process == slice->process &&
	    slice->woken_ns >= t->from_ns)
		json_array_append_new(
			t->wakes, json_pack("[I,I,I]", (json_int_t)(slice->woken_ns - t->from_ns),
					    (json_int_t)waker, (json_int_t)(row - t->rows)));
	text_clear(&words);
	text_clear(&by);
}

static json_t *data_of(struct timeline *t)
{
	json_t *threads = json_array();

	for (size_t i = 0; i < t->rows_count; i++) {
		const char *name = profile_thread_name(t->process, t->rows[i].tid);
		struct text text = {0};

		text_printf(&text, "%s%stid %u", name, name[0] ? ", " : "", t->rows[i].tid);
		json_array_append_new(threads,
				      json_object_of({"name", json_of_name(text_peek(&text))},
						     {"slices", t->rows[i].slices},
						     {"calls", t->rows[i].calls}));
		text_clear(&text);
	}
	return json_object_of({"ns", json_of_integer(t->to_ns - t->from_ns)},
			      {"names", t->names.list ?: json_array()}, {"threads", threads},
			      {"wakes", t->wakes});
}

void chart_timeline(struct text *into, const struct profile *profile, const struct chart *chart)
{
	struct timeline t = {.profile = profile, .process = chart->process, .wakes = json_array()};

	into->failed |= wait_names_make(&t.waits, profile) || find_rows(&t);
	FOR_EACH (slice, profile->last_slices) {
		struct row *row =
			slice->process == chart->process->index ? row_of(&t, slice->tid) : NULL;

		if (row)
			add_slice(&t, slice, row);
	}
	FOR_EACH (span, profile->slice_spans) {
		struct row *row =
			span->process == chart->process->index ? row_of(&t, span->tid) : NULL;
		const struct profile_function *function = profile_function(profile, span->function);

		if (row)
			add_box(&t, row->calls, span->start_ns, span->start_ns + span->duration_ns,
				span->depth, function ? function_label(function) : "?");
	}
	chart_open(into, "timeline", "");
	text_printf(into,
		    "The last %s: what each thread did, and its calls. Drag to move, use the "
		    "buttons or + and − to zoom.",
		    as_ns(t.to_ns - t.from_ns));
	chart_write_data(into, data_of(&t));
	free(t.rows);
	map64_clear(&t.places);
	map64_clear(&t.names.places);
	wait_names_clear(&t.waits);
}
