// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/memory_sum.h"

#include "base/grow.h"
#include "base/order.h"

#include <string.h>

static const struct {
	const char *key, *words;
} part_names[PERFX_MEMORY_PARTS] = {
	[PERFX_MEMORY_HEAP_USED] = {"heap_used", "malloc: blocks in use"},
	[PERFX_MEMORY_HEAP_FREE] = {"heap_free", "malloc: free, kept"},
	[PERFX_MEMORY_HEAP_MAPPED] = {"heap_mapped", "malloc: large blocks (mapped)"},
	[PERFX_MEMORY_PYTHON_USED] = {"python_used", "Python: small objects"},
	[PERFX_MEMORY_PYTHON_FREE] = {"python_free", "Python: free in its arenas"},
	[PERFX_MEMORY_STACKS] = {"stacks", "stacks of threads"},
	[PERFX_MEMORY_FILES] = {"files", "files mapped"},
	[PERFX_MEMORY_FILES_DATA] = {"files_data", "data of programs, libraries"},
	[PERFX_MEMORY_SHARED] = {"shared", "shared memory (/dev/shm, memfd)"},
	[PERFX_MEMORY_HUGE_PADDING] = {"huge_padding", "zeros in huge pages (estimate)"},
	[PERFX_MEMORY_INHERITED] = {"inherited", "parent's, shared since the fork"},
	[PERFX_MEMORY_COPIED] = {"copied", "parent's, copied since the fork"},
	[PERFX_MEMORY_OTHER] = {"not_explained", "other mappings: not explained"},
};

const char *memory_part_key(int part)
{
	return part_names[part].key;
}

const char *memory_part_words(int part)
{
	return part_names[part].words;
}

const char *memory_moment_name(enum memory_moment moment)
{
	static const char *const names[MEMORY_MOMENTS] = {"begin", "peak", "end"};

	return names[moment];
}

size_t memory_sum_allocators(const struct perfx_memory_sum *sum, bool were_read, struct text *names)
{
	static const struct {
		const char *name;
		uint32_t is_read, is_unread;
	} allocators[] = {
		{"glibc", PERFX_MEMORY_SUM_GLIBC, PERFX_MEMORY_SUM_GLIBC_UNREAD},
		{"jemalloc", PERFX_MEMORY_SUM_JEMALLOC, PERFX_MEMORY_SUM_JEMALLOC_UNREAD},
		{"tcmalloc", PERFX_MEMORY_SUM_TCMALLOC, PERFX_MEMORY_SUM_TCMALLOC_UNREAD},
		{"mimalloc", PERFX_MEMORY_SUM_MIMALLOC, PERFX_MEMORY_SUM_MIMALLOC_UNREAD},
	};
	size_t count = 0;

	for (size_t i = 0; i < sizeof(allocators) / sizeof(*allocators); i++)
		if (sum->flags & (were_read ? allocators[i].is_read : allocators[i].is_unread))
			text_printf(names, "%s%s", count++ ? ", " : "", allocators[i].name);
	return count;
}

const struct perfx_memory_sum *memory_sum_at(const struct profile_process *process,
					     enum memory_moment moment)
{
	const struct profile_memory_sums *sums = process->memory_sums;

	return moment == MEMORY_BEGIN  ? &sums->first
	       : moment == MEMORY_PEAK ? &sums->peak
				       : &sums->last;
}

uint64_t memory_sum_traced(const struct profile_process *process,
			   const struct perfx_memory_sum *sum)
{
	FOR_EACH (memory, process->memory) {
		size_t i = PARTITION_POINT(at, memory->points_count,
					   memory->points[at].time_ns <= sum->time_ns);

		if (memory->domain != PERFX_DOMAIN_HOST)
			continue;
		if (memory->current_bytes == PROFILE_ABSENT || memory->bound)
			return PROFILE_ABSENT;
		return min_u64(i ? memory->points[i - 1].live_bytes : 0,
			       sum->resident[PERFX_MEMORY_HEAP_USED] +
				       sum->resident[PERFX_MEMORY_HEAP_MAPPED]);
	}
	return PROFILE_ABSENT;
}

/* The last reading of a process at a time; NULL: there was none yet, or it had ended. */
static const struct perfx_memory_sum *latest(const struct profile_process *process,
					     uint64_t time_ns)
{
	const struct profile_memory_sums *sums = process->memory_sums;
	size_t i = PARTITION_POINT(at, sums->points_count, sums->points[at].time_ns <= time_ns);

	if (process->exited && process->to_ns < time_ns)
		return NULL;
	if (sums->last.time_ns <= time_ns)
		return &sums->last;
	return i ? &sums->points[i - 1] : NULL;
}

static size_t sum_at(const struct profile *profile, uint64_t time_ns, struct perfx_memory_sum *sum)
{
	size_t count = 0;

	*sum = (struct perfx_memory_sum){.time_ns = time_ns,
					 .flags = PERFX_MEMORY_SUM_PROPORTIONAL};
	FOR_EACH (process, profile->processes) {
		const struct perfx_memory_sum *own =
			process->memory_sums ? latest(process, time_ns) : NULL;

		if (!own)
			continue;
		count++;
		sum->flags &= own->flags;
		sum->private_bytes += own->private_bytes;
		sum->swapped_bytes += own->swapped_bytes;
		sum->reserved_bytes += own->reserved_bytes;
		for (int i = 0; i < PERFX_MEMORY_PARTS; i++) {
			sum->resident[i] += own->resident[i];
			sum->proportional[i] += own->proportional[i];
		}
	}
	return count;
}

/* When all processes that had begun with the recording have been read. */
static uint64_t begin_of(const struct profile *profile)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0;

	FOR_EACH (process, profile->processes)
		if (process->memory_sums)
			first_ns = min_u64(first_ns, process->memory_sums->first.time_ns);
	FOR_EACH (process, profile->processes)
		if (process->memory_sums && process->from_ns <= first_ns)
			last_ns = max_u64(last_ns, process->memory_sums->first.time_ns);
	return last_ns;
}

size_t memory_sum_of_job(const struct profile *profile, enum memory_moment moment,
			 struct perfx_memory_sum *sum)
{
	uint64_t most = 0, last_ns = 0;
	struct perfx_memory_sum at;
	size_t count = 0;

	if (moment == MEMORY_BEGIN)
		return sum_at(profile, begin_of(profile), sum);
	FOR_EACH (process, profile->processes) {
		const struct profile_memory_sums *sums = process->memory_sums;

		if (sums)
			last_ns = max_u64(last_ns, sums->last.time_ns);
		for (size_t i = 0; sums && moment == MEMORY_PEAK && i <= sums->points_count; i++) {
			const struct perfx_memory_sum *point =
				i < sums->points_count ? &sums->points[i] : &sums->last;
			size_t n = sum_at(profile, point->time_ns, &at);

			if (memory_sum_proportional(&at) <= most)
				continue;
			most = memory_sum_proportional(&at);
			*sum = at;
			count = n;
		}
	}
	return moment == MEMORY_PEAK && count ? count : sum_at(profile, last_ns, sum);
}
