// SPDX-License-Identifier: BSD-2-Clause
#include "session/recording.h"

#include "attach/links.h"
#include "base/message.h"
#include "base/units.h"
#include "elf/file_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lacking_programs(const struct tracer *tracer, struct skipped_list *skipped)
{
	static const char *const names[TRACER_PARTS] = {
		[TRACER_ANNOTATIONS] = "annotated ranges and values",
		[TRACER_MEMORY] = "allocations",
		[TRACER_SOCKETS] = "network I/O",
		[TRACER_ON_CPU] = "samples of threads that run",
		[TRACER_OFF_CPU] = "samples of threads that wait",
		[TRACER_WAITING] = "time off the CPU",
	};

	for (int part = 0; part < TRACER_PARTS; part++) {
		if (!tracer__lacks(tracer, (enum tracer_part)part))
			continue;
		msg_say("%s: not recorded: this kernel rejects the BPF program for it "
			"(PERFX_DEBUG=1 shows why)",
			names[part]);
		skipped_add(skipped, names[part], "this kernel rejects the BPF program for it");
	}
}

void start_waiting(struct waiting *waiting, struct skipped_list *skipped, uint64_t from_ns)
{
	int err = waiting ? waiting__start(waiting, from_ns) : 0;

	if (!err)
		return;
	msg_say("time off the CPU is not recorded: %s", strerror(-err));
	skipped_add(skipped, "time off the CPU", strerror(-err));
	waiting__stop(waiting);
}

void lacking_files(const struct unwind_tables *unwind_tables, struct skipped_list *skipped)
{
	size_t count = unwind_tables ? unwind_tables__usage(unwind_tables).left_out : 0;
	char reason[128];

	if (!count)
		return;
	snprintf(reason, sizeof(reason),
		 "of %zu files that were mapped after %d others: stacks end at their functions",
		 count, FILE_CACHE_FILES_MAX);
	skipped_add(skipped, "unwind tables", reason);
}

void hint_detaching(struct skipped_list *skipped)
{
	uint64_t left_ns = detaching_left_ns();
	char reason[160];

	if (left_ns <= DETACHING_PATIENCE_MS * 1000000ull)
		return;
	snprintf(reason, sizeof(reason),
		 "without effect, for about %s after the recording: this kernel removes them one "
		 "by one",
		 as_ns(left_ns));
	skipped_hint(skipped, "probes stay in the program", reason);
}

/* Processes reported to have used up their share of names. */
enum { NAMES_SAID_MAX = 16 };

void lacking_names(const struct tracer *tracer, struct skipped_list *skipped)
{
	struct perfx_name_share shares[NAMES_SAID_MAX];
	size_t count = tracer__name_shares(tracer, shares, NAMES_SAID_MAX);
	char reason[160];

	for (size_t i = 0; i < count; i++) {
		snprintf(reason, sizeof(reason),
			 "process %u brought %u, all that it may have of %u: its further ones are "
			 "\"(other)\", %" PRIu64 " times",
			 shares[i].tgid, shares[i].count, PERFX_MAX_NAMES - PERFX_NAMES_KEPT,
			 (uint64_t)shares[i].refused);
		skipped_hint(skipped, "names of ranges and values", reason);
	}
}

void say_unwind_tables(const struct unwind_tables *unwind_tables)
{
	struct unwind_usage usage;

	if (!unwind_tables || !getenv("PERFX_DEBUG"))
		return;
	usage = unwind_tables__usage(unwind_tables);
	msg_say("unwind tables: %zu files, %zu pages of code, %zu KiB, %" PRIu64 " ms of CPU time",
		usage.files, usage.pages, usage.bytes >> 10, usage.cpu_ns / 1000000);
}
