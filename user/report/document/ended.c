// SPDX-License-Identifier: BSD-2-Clause
/*
 * The processes that ended, and where the threads of one that failed were last:
 *
 *     Count    Wall  Peak memory  Process             End                           Last line
 *         1  2.10 s      305 MiB  python3 (pid 4712)  SIGKILL from kill (pid 4800)  load
 * (data.py:12) 64  210 ms     41.0 MiB  python3             status 0                      -
 */
#include "analyze/death.h"
#include "analyze/location.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/units.h"
#include "report/document/compose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Those that ended alike, or one that failed. */
struct ended {
	const struct profile_process *one; /* the first */
	bool failed;
	size_t count;
	uint64_t wall_ns, peak_bytes; /* the longest, the most */
};

struct ended_list {
	struct ended *list;
	size_t capacity, count;
};

static bool are_alike(const struct ended *row, const struct profile_process *p)
{
	return !row->failed && row->one->status == p->status && !strcmp(row->one->comm, p->comm);
}

static int add_ended(struct ended_list *ended, const struct profile *profile,
		     const struct profile_process *p)
{
	bool failed = death_is_failure(profile, p);
	struct ended *row = NULL;

	FOR_EACH_OF (old, *ended)
		if (!row && !failed && are_alike(old, p))
			row = old;
	if (!row) {
		if (LIST_ADD_TO(ended, (struct ended){.one = p, .failed = failed}))
			return -ENOMEM;
		row = &ended->list[ended->count - 1];
	}
	row->count++;
	row->wall_ns = max_u64(row->wall_ns, profile_wall_ns(p));
	if (p->rss_peak_bytes != PROFILE_ABSENT)
		row->peak_bytes = max_u64(row->peak_bytes, p->rss_peak_bytes);
	return 0;
}

ORDER(by_end, struct ended, DESCENDING(a->failed, b->failed),
      ASCENDING(!a->one->status, !b->one->status), DESCENDING(a->count, b->count),
      ASCENDING(a->one->to_ns, b->one->to_ns), ASCENDING(a->one->index, b->one->index))

static void compose_row(struct composer *c, const struct ended *row)
{
	struct text name = {0}, end = {0}, place = {0};

	escape_name(&name, row->one->comm);
	if (row->count == 1)
		text_printf(&name, " (pid %u)", row->one->pid);
	death_add_brief(&end, c->profile, row->one, row->count == 1);
	if (row->failed)
		location_after(&place, "", death_place(row->one));
	document_row(c->document, document_format(c->document, "%zu", row->count),
		     cell_ns(row->wall_ns), cell_bytes(row->peak_bytes ?: PROFILE_ABSENT),
		     text_peek(&name), text_peek(&end), place.length ? text_peek(&place) : "-");
	text_finish(&name, &c->document->failed);
	text_finish(&end, &c->document->failed);
	text_finish(&place, &c->document->failed);
}

#define ROWS_BRIEF 8
#define ROWS	   50

void compose_ended(struct composer *c)
{
	size_t shown = c->limits->brief ? ROWS_BRIEF : ROWS;
	struct ended_list ended = {0};

	FOR_EACH (p, c->profile->processes)
		if (p->exited && add_ended(&ended, c->profile, p))
			c->document->failed = true;
	SORT_ITEMS(ended.list, ended.count, by_end);
	/* of a single process its own section says it; one that failed is first */
	if (ended.count && c->profile->processes_count > 1 &&
	    (ended.list[0].failed || !c->limits->brief)) {
		document_say(c->document, BLOCK_HEADING, "Ended processes");
		document_headings(c->document, 0, NUMBERS("Count"), NUMBERS("Wall", .rank = 2),
				  NUMBERS("Peak memory", .rank = 1), WORDS("Process"), WORDS("End"),
				  REST("Last line"));
		for (size_t i = 0; i < ended.count && i < shown; i++)
			compose_row(c, &ended.list[i]);
		if (ended.count > shown)
			compose_left_out(c, ended.count - shown, "", "JSON");
		document_say(c->document, BLOCK_NOTE,
			     "Wall and peak memory of several are those of the longest and the "
			     "largest.");
	}
	free(ended.list);
}

static const char *state_words(enum perfx_sample_state state)
{
	switch (state) {
	case PERFX_SAMPLE_ON_CPU:
		return "running";
	case PERFX_SAMPLE_RUNNABLE:
		return "wants a CPU";
	case PERFX_SAMPLE_WAITING:
	case PERFX_SAMPLE_INVALID:
		break;
	}
	return "waiting";
}

void compose_last_lines(struct composer *c, const struct profile_process *p)
{
	const struct profile_end *end = &p->end;
	size_t shown =
		end->samples_count < c->limits->threads ? end->samples_count : c->limits->threads;

	if (!shown || !p->status)
		return;
	document_printf(c->document, BLOCK_FOLD, "Where its threads were last (%zu)",
			end->samples_count);
	document_headings(c->document, 0, NUMBERS("Before the end"), NUMBERS("TID"), WORDS("State"),
			  WORDS("Thread"), REST("Line"));
	for (size_t i = 0; i < shown; i++) {
		const struct profile_last_sample *sample = &end->samples[i];
		struct text line = {0};

		location_after(&line, "", death_place_of(sample));
		document_row(c->document, cell_ns(sample->before_ns),
			     document_format(c->document, "%u", sample->tid),
			     state_words(sample->what.state), compose_name(c, sample->comm),
			     text_peek(&line));
		text_finish(&line, &c->document->failed);
	}
	compose_left_out(c, end->samples_count - shown, "", "JSON");
	document_say(c->document, BLOCK_UNFOLD, "");
}
