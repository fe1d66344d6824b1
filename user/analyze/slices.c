// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/slices.h"

#include "base/hash.h"
#include "decode/names.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t key_of(uint32_t process, enum perfx_wait_reason reason, uint64_t object)
{
	const uint64_t words[] = {process, reason, object};

	return fnv1a(words, sizeof(words));
}

int wait_names_make(struct wait_names *names, const struct profile *profile)
{
	*names = (struct wait_names){0};
	FOR_EACH (process, profile->processes) {
		FOR_EACH_OF (wait, process->blocked) {
			uint64_t key = key_of(process->index, wait->reason, wait->object);

			if (!wait->object_name[0] || wait->reason == PERFX_WAIT_RUNNABLE ||
			    map64_get(&names->places, key) != MAP64_NONE)
				continue;
			if (map64_put(&names->places, key, (uint32_t)names->list_count) ||
			    LIST_ADD(names->list, (const struct profile_activity *)wait))
				return -ENOMEM;
		}
	}
	return 0;
}

void wait_names_clear(struct wait_names *names)
{
	map64_clear(&names->places);
	free(names->list);
}

void slice_wait_words(struct text *into, const struct wait_names *names,
		      const struct perfx_slice *slice)
{
	uint64_t key = key_of(slice->process, slice->reason, slice->object);
	uint32_t place = map64_get(&names->places, key);

	if (slice->reason == PERFX_WAIT_RUNNABLE)
		return;
	text_add(into, name_of_wait(slice->reason));
	if (slice->reason == PERFX_WAIT_SYSCALL)
		text_printf(into, " %u", slice->syscall);
	if (place == MAP64_NONE)
		return;
	text_add(into, ": ");
	text_add(into, names->list[place]->object_name);
}

void slice_waker_words(struct text *into, const struct profile *profile,
		       const struct perfx_slice *slice)
{
	if (slice->flags & PERFX_SLICE_INTERRUPT) {
		text_add(into, "an interrupt");
		return;
	}
	if (!slice->waker_tid)
		return;
	text_printf(into, "%.*s", PERFX_COMM_BYTES, slice->waker_comm);
	text_printf(into, " (tid %u", slice->waker_tid);
	FOR_EACH (process, profile->processes)
		if (slice->waker_process && process->index == slice->waker_process &&
		    slice->waker_process != slice->process)
			text_printf(into, " of pid %u", process->pid);
	text_add(into, ")");
}
