// SPDX-License-Identifier: BSD-2-Clause
#include "report/document/compose.h"

#include "analyze/account.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/units.h"

enum { HAS_FILES = 1, HAS_PEERS = 2, HAS_WRITES = 4, HAS_FAULTS = 8 };

static uint64_t mean(uint64_t sum, uint64_t count)
{
	return count ? sum / count : PROFILE_ABSENT;
}

void compose_files(struct composer *c, const struct profile_process *p)
{
	struct text incomplete = {0};
	unsigned has = 0;
	size_t shown = 0;

	if (!p->files_count)
		return;
	FOR_EACH (f, p->files)
		has |= (f->is_socket ? HAS_PEERS : HAS_FILES) |
		       (f->calls.writes_count ? HAS_WRITES : 0) |
		       (f->calls.faults_count ? HAS_FAULTS : 0);
	document_say(c->document, BLOCK_SECTION, "Files and peers");
	document_headings(c->document, has, NUMBERS("Time"), NUMBERS("Opens", .rank = 2),
			  NUMBERS("An open", .rank = 3, .where = HAS_FILES),
			  NUMBERS("Reads", .rank = 2), NUMBERS("Read"),
			  NUMBERS("Not cached", .where = HAS_FILES),
			  NUMBERS("Sequential", .rank = 2, .where = HAS_FILES),
			  NUMBERS("Faulted in", .where = HAS_FAULTS),
			  NUMBERS("Written", .where = HAS_WRITES),
			  NUMBERS("First byte", .where = HAS_PEERS),
			  WORDS("On", .rank = 1, .where = HAS_FILES), NUMBERS("Threads", .rank = 2),
			  WORDS("Mostly in"), REST("Files", .cut_end = true));
	FOR_EACH (f, p->files) {
		struct lines lines = {0};

		if (shown++ >= c->limits->functions)
			break;
		lines_add_files(&lines, f);
		/* what was read ahead for others counts once, here or there */
		document_row(
			c->document, cell_ns(f->calls.ns), cell_count(f->calls.opens_count),
			cell_ns(mean(f->calls.open_ns, f->calls.opens_count)),
			cell_count(f->calls.reads_count), cell_bytes(f->calls.read_bytes),
			cell_share(f->is_socket || !f->calls.read_bytes
					   ? PROFILE_ABSENT
					   : min_u64(f->calls.stored_bytes, f->calls.read_bytes),
				   f->calls.read_bytes),
			cell_share(f->is_socket || !f->calls.reads_count
					   ? PROFILE_ABSENT
					   : f->calls.sequential_count,
				   f->calls.reads_count),
			cell_bytes(f->calls.faults_count ? f->calls.fault_bytes : PROFILE_ABSENT),
			cell_bytes(f->calls.writes_count ? f->calls.write_bytes : PROFILE_ABSENT),
			cell_ns(mean(f->calls.answer_ns, f->calls.answers_count)),
			compose_name(c, f->type), cell_count(f->users_count),
			compose_frame(c, lines_lead(&lines).frame), compose_name(c, f->name));
	}
	for (size_t i = 0; i < c->profile->reduced_count; i++) {
		const struct perfx_reduced *reduced = &c->profile->reduced[i];
		const struct profile_function *function =
			profile_function(c->profile, reduced->function);

		if (function && function->flags & PERFX_FUNCTION_FILES)
			text_printf(&incomplete, "%s %s after %s",
				    incomplete.length ? "," : "Incomplete:", function->name,
				    as_ns(sub_capped(reduced->time_ns, c->profile->start_ns)));
	}
	if (incomplete.length)
		text_add(&incomplete, " not recorded (--max-overhead).");
	document_add_any(c->document, BLOCK_NOTE, &incomplete);
	if (has & HAS_PEERS)
		document_say(c->document, BLOCK_NOTE,
			     "First byte: from a write to the next bytes that the same thread "
			     "reads from "
			     "that peer; in a server, the client's pause.");
	if (has & HAS_FILES)
		document_say(c->document, BLOCK_NOTE,
			     "Time is the sum over all threads. Mostly in: the line with most of "
			     "the time, by samples of the calls. Not cached: fetched from "
			     "storage during the reads, of the bytes read.");
	if (has & HAS_FAULTS)
		document_say(
			c->document, BLOCK_NOTE,
			"Faulted in: fetched from storage at major faults of mapped files; their "
			"time is not known.");
}
