/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory: allocations, frees and live blocks.
 *
 * struct domain_stats has the statistics of one domain in one process: a table of live blocks by
 * address and a tree of mapped intervals (live_blocks.c), what each thread did last, and hotspots:
 * the statistics of one way of allocating.
 *
 * Units. Of sampled blocks each stands for 1/p of its kind (statistics.h). So that what an
 * allocation adds its free takes off again, exactly, counts and bytes of what lives and ends are
 * integers in units of 1/1024; an exact block counts 1024. Live bytes up to MEMORY_LIVE_MAX are
 * taken; an allocation that leads beyond is undecoded.
 *
 * Live at the peak. A domain's peaks are numbered. Before it changes, a hotspot notes its live
 * bytes for the last peak, so that no peak needs a walk over all hotspots. Likewise it fills the
 * windows since its last change with the live bytes that it had.
 *
 * Memory: 32 bytes a live block and 5 to 11 for its place in the table, 40 in all with a million of
 * them; some 600 a hotspot, 100 a mapping. The maxima are in aggregate.h.
 */
#ifndef PERFX_AGGREGATE_MEMORY_H
#define PERFX_AGGREGATE_MEMORY_H

#include "aggregate/state.h"
#include "aggregate/statistics.h"

#define MEMORY_UNIT_SHIFT 10
#define MEMORY_UNIT	  (1ULL << MEMORY_UNIT_SHIFT)
#define MEMORY_LIVE_MAX	  (1ULL << 62)	     /* units: 4 PiB */
#define MEMORY_BYTES_MAX  ((1ULL << 48) - 1) /* of a block; no address space gives more */
#define ALLOC_WINDOW_NS	  50000000ULL	     /* the shortest window: 50 ms */
#define MEMORY_POINT_NS	  1000000ULL	     /* points are this far apart at least: 1 ms */

/* How a domain is recorded from time_ns on. */
struct memory_mode {
	uint64_t time_ns, sample_bytes, on_ns, period_ns;
	enum perfx_memory_level level;
};

struct memory_domain {
	struct memory_mode *modes; /* in the order of the stream; none: exact all along */
	size_t modes_capacity, modes_count;
	uint32_t blind_count;	/* modes under which blocks are freed unseen */
	uint32_t sampling_mode; /* the last that samples: index + 1 */
};

struct block {
	uint64_t address;
	uint64_t size_bytes : 48, rate : 16; /* rate: 0: exact; n: sampled under modes[n - 1] */
	uint64_t time_ns;
	uint32_t hotspot;
	uint32_t next; /* of its bucket, or of the free ones; 0: none */
};
_Static_assert(sizeof(struct block) == 32, "the bytes a block that are stated above");

/* The blocks of all domains and processes. Index 0 is none. */
struct block_pool {
	struct chunks chunks;
	uint32_t free_head;
	uint32_t count; /* in use */
	uint32_t max;	/* 0: AGGREGATE_BLOCKS_MAX */
};

struct block_table {
	uint32_t *heads;
	size_t heads_count; /* a power of two, or 0 */
	size_t count;
};

struct mapping {
	uint64_t from, to; /* [from, to) */
	uint64_t time_ns;
	uint64_t units; /* its weight */
	uint32_t hotspot;
	uint32_t rests;	      /* taken out: how many parts of it stayed */
	struct mapping *next; /* taken out: list */
};

/* No two overlap. */
struct mapping_tree {
	void *root; /* of tsearch(3) */
};

enum pending_realloc {
	REALLOC_NONE = 0,
	REALLOC_UNKNOWN, /* a block that is not known is being reallocated */
	REALLOC_BLOCK,
	REALLOC_MAPPINGS,
};

/* Last call of a thread in the domain, by which its next one is classified. */
struct memory_thread {
	uint32_t tid;
	/* Number of the exact mode under which its last call allocated the block of last_address
	 * and last_time_ns; 0: it did not. */
	uint32_t last_mode;
	uint64_t last_address, last_time_ns;

	enum pending_realloc pending_realloc;
	bool realloc_temporary;
	uint32_t realloc_block;
	struct mapping *realloc_mappings;
};

struct hotspot {
	struct hotspot *next; /* of its domain */
	uint32_t index, stack, context;
	uint16_t allocator;
	uint16_t level; /* of alloc_window_ns when alloc_windows[] were filled: see memory_clock */
	uint32_t alloc_window; /* of the last change: windows before it are filled */
	uint64_t peak_number;  /* the domain's peak that live_at_peak is of */
	uint64_t live_count, live_bytes, live_at_peak, peak_bytes; /* units */
	uint64_t frees, temporary, freed_bytes;			   /* units */
	uint64_t ended;						   /* units, with a lifetime */
	unsigned __int128 lifetimes;				   /* units × ns */
	struct tally tally;
	uint64_t left_out_count; /* allocations whose own stacks were left out */
	uint64_t alloc_windows[PROFILE_ALLOC_WINDOWS]; /* units */
	/* made at the end */
	uint64_t oldest_ns, old_bytes /* units */;
	uint32_t place; /* among its domain's */
};

/* The stack that was followed last of allocations that are alike: those of which none was followed
 * are taken for the same. */
struct alike {
	struct map64 ids; /* key → stacks[] */
	uint32_t *stacks;
	size_t capacity, count;
};

struct domain_stats {
	struct memory *memory;
	uint32_t process;
	enum perfx_domain domain;
	const struct memory_domain *recorded; /* how */
	uint32_t modes_seen, blind_seen;
	bool blind;	     /* blocks were freed unseen */
	bool frees_inferred; /* at any time */
	bool retired;
	uint64_t records_count;

	struct block_table blocks;
	struct mapping_tree mappings;
	struct map64 thread_ids; /* tid → threads[] */
	struct memory_thread *threads;
	size_t threads_capacity, threads_count;
	size_t last_thread;
	struct map64 hotspot_ids;		 /* key → index */
	struct hotspot *hotspots, *last_hotspot; /* in the order of their first allocations */
	size_t hotspots_count;
	struct alike alike;

	struct tally tally;
	uint64_t frees, temporary;			 /* units */
	uint64_t unknown_frees, replaced;		 /* records */
	uint64_t unknown_windows[PROFILE_ALLOC_WINDOWS]; /* unknown_frees by window */
	uint16_t unknown_level;				 /* of alloc_window_ns, for these windows */
	uint64_t live_count, live_bytes, peak_bytes;	 /* units */
	uint64_t peak_ns, peak_number;
	uint64_t sizes[PROFILE_SIZES]; /* units */
	unsigned bound;		       /* PROFILE_MEMORY_LOST_ */
	uint64_t lost_allocs, lost_bytes, lost_frees;

	struct profile_memory_point *points;
	size_t points_capacity, points_count;
	uint64_t point_step_ns, point_slot, point_due_ns;
};

/* How many blocks and bytes a recorded allocation stands for, in units. */
struct weight {
	uint64_t count, bytes;
};

struct memory_allocator {
	const char *name, *module; /* NULL: not described */
	enum perfx_domain domain;
};

/* Windows of all hotspots: alloc_window_ns = ALLOC_WINDOW_NS << level. */
struct memory_clock {
	bool started;
	uint64_t start_ns;
	uint16_t level;
	uint32_t alloc_window;	 /* of the time seen last */
	uint64_t from_ns, to_ns; /* of that window */
};

struct memory {
	struct memory_domain **domains; /* by capture (struct perfx_process: merged), then domain */
	size_t domains_capacity;
	bool has_allocator[PERFX_DOMAINS];
	struct domain_stats **stats; /* by process, then domain; NULL: nothing happened in it */
	size_t stats_count, stats_capacity;
	struct memory_clock clock;
	uint64_t records_count;
	uint64_t dropped_count; /* blocks that had no room */

	struct block_pool blocks;
	size_t mappings_count;
	struct chunks hotspots;

	struct memory_allocator *allocators; /* by id */
	size_t allocators_capacity;
};

static inline uint64_t memory_whole(uint64_t units)
{
	return (units + MEMORY_UNIT / 2) >> MEMORY_UNIT_SHIFT;
}

/* live_blocks.c: heap blocks by address */
static inline struct block *block_at(const struct block_pool *pool, uint32_t index)
{
	return chunks_at(&pool->chunks, index, sizeof(struct block));
}

/* One that is in no table. 0: none, errno ENOSPC (AGGREGATE_BLOCKS_MAX) or ENOMEM. */
uint32_t block_new(struct block_pool *pool);
void block_release(struct block_pool *pool, uint32_t index);
/* Its address must not be in the table. 0 or -ENOMEM. */
int block_insert(struct block_pool *pool, struct block_table *table, uint32_t index);
/* Out of the table, not released. 0: none is at this address. */
uint32_t block_remove(struct block_pool *pool, struct block_table *table, uint64_t address);
/* Releases all of them. */
void block_table_clear(struct block_pool *pool, struct block_table *table);

/* live_blocks.c: mappings */
/* Takes [from, to) out, as a list that is the caller's. A mapping that reaches over an end is cut
 * there, and the part outside stays. 0, -ENOMEM, or -ENOSPC when there was no room for a part that
 * should have stayed, which is then in the list. The list is always valid. */
int mapped_remove(struct memory *memory, struct mapping_tree *tree, uint64_t from, uint64_t to,
		  struct mapping **list);
/* Takes out all that have a byte in [from, to), uncut, as a list that is the caller's. */
struct mapping *mapped_remove_whole(struct mapping_tree *tree, uint64_t from, uint64_t to);
/* Adds a mapping that overlaps none. 0, -ENOMEM or -ENOSPC (AGGREGATE_MAPPINGS_MAX). */
int mapped_add(struct memory *memory, struct mapping_tree *tree, const struct mapping *mapping);
/* Frees one that was taken out; returns the next of its list. */
struct mapping *mapping_release(struct memory *memory, struct mapping *mapping);
void mapped_clear(struct memory *memory, struct mapping_tree *tree);

/* domain_stats.c: hotspots */
/* The hotspot of an allocation; NULL: memory is out. */
struct hotspot *hotspot_of_allocation(struct aggregate *aggregate, struct domain_stats *stats,
				      const struct perfx_allocation *record);
static inline struct hotspot *hotspot_at(const struct memory *memory, uint32_t index)
{
	return chunks_at(&memory->hotspots, index, sizeof(struct hotspot));
}
/* Notes the hotspot's live bytes for the last peak and for the windows that are over at a time. */
void hotspot_touch(const struct domain_stats *stats, struct hotspot *hotspot, uint64_t time_ns);
/* The number of the window at a time; makes windows longer when they are too many. */
uint32_t alloc_window_at(struct memory *memory, uint64_t time_ns);
/* Adds to, subtracts from, the live units. */
void live_add(struct domain_stats *stats, struct hotspot *hotspot, struct weight weight,
	      uint64_t time_ns);
void live_sub(struct domain_stats *stats, struct hotspot *hotspot, struct weight weight,
	      uint64_t time_ns);

/* memory.c */
/* sample_bytes 0: exact */
struct weight memory_weigh(uint64_t size_bytes, uint64_t sample_bytes);
/* domain_stats.c */
/* NULL with errno: ERANGE, ENOMEM. */
struct domain_stats *domain_stats_get(struct aggregate *aggregate, uint32_t process,
				      enum perfx_domain domain);
/* NULL: nothing happened in it. */
static inline struct domain_stats *domain_stats_find(const struct memory *memory, uint32_t process,
						     enum perfx_domain domain)
{
	size_t at = (size_t)process * PERFX_DOMAINS + domain;

	return at < memory->stats_count ? memory->stats[at] : NULL;
}
void domain_stats__free(struct domain_stats *stats);
/* The statistics as they are now. */
struct profile_memory_point domain_stats_point(const struct domain_stats *stats, uint64_t time_ns);
/* To be called before anything changes at a time: notes modes and points. 0 or -ENOMEM. */
int domain_stats_tick(struct domain_stats *stats, uint64_t time_ns);
/* A free of a block that is not known. */
void domain_stats_note_unknown(struct domain_stats *stats, uint64_t time_ns);
/* Its windows become as long as the clock's. */
void domain_stats_level_unknown(struct domain_stats *stats);
/* Frees are inferred from here on: live bytes are an upper bound. */
void domain_stats_infer_frees(struct domain_stats *stats);
/* Whether blocks may have been freed unseen since the last call. */
void domain_stats_note_modes(struct domain_stats *stats);
/* NULL with errno: ENOSPC (AGGREGATE_THREADS_MAX reallocations at once), ENOMEM. */
struct memory_thread *domain_stats_thread(struct domain_stats *stats, uint32_t tid);
/* How a capture recorded a domain; made when it is new. NULL with errno ENOMEM, ERANGE. */
struct memory_domain *memory_domain_get(struct memory *memory, uint32_t merged,
					enum perfx_domain domain);
/* Without any mode where nothing was said. */
const struct memory_domain *memory_domain_of(const struct memory *memory, uint32_t merged,
					     enum perfx_domain domain);
/* The mode of a domain now; PERFX_MEMORY_EXACT where there is none. */
const struct memory_mode *memory_mode_now(const struct memory_domain *domain);
bool mode_is_blind(const struct memory_mode *mode);
bool mode_infers_frees(const struct memory_mode *mode);

/* memory.c */
/* With empty names when it was never described. */
const struct memory_allocator *memory_allocator_of(const struct memory *memory, uint16_t id);

/* live_blocks.c: all that is live now */
/* Bytes that live, in units, by the window in which they were allocated. */
struct kept {
	uint64_t alloc_windows[PROFILE_ALLOC_WINDOWS];
};

/* The hotspots' oldest_ns and old_bytes: allocated before a time. kept: by their place, added to;
 * NULL: not wanted. */
void live_ages(struct domain_stats *stats, uint64_t old_ns, struct kept *kept);
/* No room for blocks: gives back those of ended processes. False: there was nothing. */
bool memory_retire(struct aggregate *aggregate);

/* memory_finish.c: fills the processes' memory and the rows' alloc_bytes. 0 or -ENOMEM. */
int memory_fill(struct finish_ctx *ctx);
void profile_memory_clear(struct profile_memory *memory, size_t count);

#endif
