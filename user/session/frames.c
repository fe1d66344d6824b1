// SPDX-License-Identifier: BSD-2-Clause
#include "session/frames.h"

#include "aggregate/profile_stack.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/text.h"
#include "cpython/collector.h"
#include "decode/pack.h"
#include "elf/file_cache.h"
#include "elf/symbolize.h"
#include "proc/perf_map.h"
#include "proc/process.h"
#include "session/address_map.h"
#include "session/recording.h"
#include "site/site.h"
#include "site/spin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Former mappings kept of a process; the oldest are forgotten. */
enum { GONE_MAX = 4096 };

/* An address in stacks, with the code that lay there. */
struct call {
	uint64_t address; /* as in the STACK record that the sink has */
	uint64_t at;	  /* of the instruction: of a return address the call before it */
	uint64_t offset;  /* of the instruction in the file */
	uint64_t vaddr;	  /* in the file; frames__emit knows */
	uint64_t time_ns; /* of the first stack */
	uint32_t file;
	uint32_t process;
	uint32_t next; /* 1 + index of the one at this address with other code; 0: none */
	bool bound, emitted;
};

/* A STACK record that the sink has got. */
struct shown_stack {
	uint32_t process, id, flags, frames_count;
	size_t first;	     /* in shown_addresses */
	uint64_t checked_ns; /* when its addresses were compared with the mappings last */
	uint32_t now;	     /* id of the stack that showed the same code then */
};

struct space {
	uint32_t process;
	/* of its perf map: */
	uint32_t root; /* in the file cache */
	pid_t own_pid; /* in its own pid namespace; 0: not known */
	uid_t owner;
	struct address_map *map;   /* NULL: never seen */
	struct mapped_range *gone; /* with a file; the newest last */
	size_t gone_count, gone_capacity;
	uint64_t seen_ns;     /* when its mappings were read last */
	uint64_t replaced_ns; /* when code at addresses was last replaced by other code; 0: never */
	struct call *calls;
	size_t calls_count, calls_capacity;
	size_t bound_count;
	struct map64 known; /* address → index of the first in calls */
};

/* The effort of finding the source lines of a file. */
struct lines {
	uint64_t cpu_ns;
	bool refused; /* no lines: a system library's, or reading them exceeded a limit */
};

struct frames {
	struct sink *sink;
	struct skipped_list *skipped;
	struct file_cache *files;
	struct python_frames *python;
	struct lines *lines; /* by file */
	size_t lines_count, lines_capacity, lines_refused_count;
	uint64_t lines_ns, begin_ns; /* CPU time for lines of all files; start, monotonic */
	struct space *spaces;
	size_t spaces_count, spaces_capacity;
	struct map64 by_process;
	/* for records that name a stack from before code was replaced: */
	struct shown_stack *shown;
	size_t shown_count, shown_capacity;
	uint64_t *shown_addresses;
	size_t shown_addresses_count, shown_addresses_capacity;
	struct map64 shown_ids;	     /* id → index in shown */
	struct map64 shown_contents; /* hash → likewise */
	uint32_t made_count;	     /* stacks with an id of our own */
	bool any_replaced;
	struct pack_buffer buffer;
};

struct frames *frames__new(struct sink *sink, struct tracer *tracer, struct skipped_list *skipped)
{
	struct frames *frames = calloc(1, sizeof(*frames));

	if (!frames)
		return NULL;
	frames->sink = sink;
	frames->skipped = skipped;
	frames->begin_ns = clock_monotonic_ns();
	frames->files = file_cache__new();
	frames->python = python_frames__new(tracer, sink);
	if (frames->files && frames->python)
		return frames;
	frames__free(frames);
	errno = ENOMEM;
	return NULL;
}

static void clear_space(struct space *space)
{
	address_map__put(space->map);
	free(space->gone);
	free(space->calls);
	map64_clear(&space->known);
	*space = (struct space){0};
}

void frames__forget_stacks(struct frames *frames)
{
	free(frames->shown);
	free(frames->shown_addresses);
	map64_clear(&frames->shown_ids);
	map64_clear(&frames->shown_contents);
	frames->shown = NULL;
	frames->shown_addresses = NULL;
	frames->shown_count = frames->shown_capacity = 0;
	frames->shown_addresses_count = frames->shown_addresses_capacity = 0;
}

void frames__free(struct frames *frames)
{
	if (!frames)
		return;
	for (size_t i = 0; i < frames->spaces_count; i++)
		clear_space(&frames->spaces[i]);
	free(frames->spaces);
	frames__forget_stacks(frames);
	free(frames->lines);
	map64_clear(&frames->by_process);
	file_cache__free(frames->files);
	python_frames__free(frames->python);
	free(frames);
}

/* Valid until the next call. */
static struct space *space_of(struct frames *frames, uint32_t process)
{
	struct space *space = MAP64_ITEM(frames->by_process, process, frames->spaces);

	if (space)
		space->process = process;
	return space;
}

/* Not code without a file: it has no names, and a JIT would fill the list. */
static void forget_range(struct space *space, const struct mapped_range *range)
{
	if (range->file == FILE_CACHE_NONE)
		return;
	if (space->gone_count == GONE_MAX)
		memmove(space->gone, space->gone + 1, --space->gone_count * sizeof(*space->gone));
	(void)LIST_ADD(space->gone, *range); /* without memory it is forgotten at once */
}

/* Have both the same code at the addresses that they share? */
static bool is_same_code(const struct frames *frames, const struct mapped_range *a,
			 const struct mapped_range *b)
{
	return mapped_range_overlaps(a, b) && a->start - a->offset == b->start - b->offset &&
	       file_cache__same(frames->files, a->file, b->file);
}

/* Ends the former mappings at a range's addresses, at until_ns at the latest; ago: they were seen
 * then for the last time. Sets range->from_ns: now_ns if other code lay there before. */
static void replace_gone(struct frames *frames, struct space *space, struct mapped_range *range,
			 uint64_t until_ns, bool ago, uint64_t now_ns)
{
	bool replaced = false;

	range->from_ns = 0;
	FOR_EACH (gone, space->gone) {
		if (!mapped_range_overlaps(gone, range))
			continue;
		if (gone->until_ns == UINT64_MAX && is_same_code(frames, gone, range)) {
			range->from_ns = gone->from_ns;
			continue;
		}
		if (gone->until_ns == UINT64_MAX || (gone->ended_ago && !ago)) {
			gone->until_ns = until_ns;
			gone->ended_ago = ago;
		}
		replaced = true;
	}
	if (!replaced)
		return;
	range->from_ns = space->replaced_ns = now_ns;
	frames->any_replaced = true;
}

/* Binds a call whose code was not known, where the range was there by its time. */
static void bind_to(struct space *space, struct call *call, const struct mapped_range *range)
{
	if (call->bound || !range || range->from_ns > call->time_ns)
		return;
	call->bound = true;
	call->file = range->file;
	if (range->file != FILE_CACHE_NONE)
		call->offset = call->at - range->start + range->offset;
	space->bound_count++;
}

/* Takes over a map, and binds addresses that stacks showed before the mapping was seen. */
static void set_map(struct space *space, struct address_map *map)
{
	address_map__put(space->map);
	space->map = map;
	for (size_t i = 0; space->bound_count < space->calls_count && i < space->calls_count; i++)
		bind_to(space, &space->calls[i], address_map__find(space->map, space->calls[i].at));
}

static const struct mapped_range *same_code_in(const struct frames *frames,
					       const struct address_map *map,
					       const struct mapped_range *range)
{
	const struct mapped_range *found = address_map__find(map, range->start);

	if (!found)
		found = address_map__find(map, range->end - 1);
	return found && is_same_code(frames, found, range) ? found : NULL;
}

/* Takes over the map of a process as it was read at now_ns. Code that is new at an address came
 * after the mappings were read last; which code lay there in between is not known. */
static void change_address_map(struct frames *frames, struct space *space, struct address_map *map,
			       uint64_t now_ns)
{
	const struct address_map *old = space->map;

	for (size_t i = 0; old && i < old->count; i++)
		if (!same_code_in(frames, map, &old->ranges[i]))
			forget_range(space, &old->ranges[i]);
	for (size_t i = 0; i < map->count; i++) {
		struct mapped_range *range = &map->ranges[i];
		const struct mapped_range *before = same_code_in(frames, old, range);

		if (before)
			range->from_ns = before->from_ns;
		else
			replace_gone(frames, space, range, space->seen_ns, true, now_ns);
	}
	set_map(space, map);
}

/* Code without a file matters only where it replaces a file's code. */
static bool replaces_file(const struct space *space, const struct mapped_range *range)
{
	for (size_t i = 0; i < space->map->count; i++)
		if (space->map->ranges[i].file != FILE_CACHE_NONE &&
		    mapped_range_overlaps(&space->map->ranges[i], range))
			return true;
	FOR_EACH (gone, space->gone)
		if (mapped_range_overlaps(gone, range))
			return true;
	return false;
}

int frames__mapped(struct frames *frames, uint32_t process, const struct new_mapping *mapping)
{
	struct space *space = space_of(frames, process);
	struct mapped_range range;
	const struct mapped_range *now;
	struct address_map *map;

	if (!space)
		return -ENOMEM;
	if (!space->map)
		return 0; /* it will be read */
	range = mapped_range_of(frames->files, mapping->pid, space->root, &mapping->mapping);
	now = same_code_in(frames, space->map, &range);
	if ((now && now->from_ns <= mapping->time_ns) ||
	    (range.file == FILE_CACHE_NONE && !replaces_file(space, &range)))
		return 0;
	for (size_t i = 0; !now && i < space->map->count; i++)
		if (mapped_range_overlaps(&space->map->ranges[i], &range))
			forget_range(space, &space->map->ranges[i]);
	replace_gone(frames, space, &range, mapping->time_ns, false, mapping->time_ns);
	map = address_map__with(space->map, &range);
	if (!map)
		return -ENOMEM;
	set_map(space, map);
	return 0;
}

/* Notes where the process's perf map would be, while the process still exists. */
static void note_owner(struct frames *frames, struct space *space, pid_t pid)
{
	gid_t group;

	space->root = file_cache__root(frames->files, pid);
	space->own_pid = process_own_id(pid);
	if (process_owner(pid, &space->owner, &group))
		space->own_pid = 0;
}

int frames__map(struct frames *frames, uint32_t process, pid_t pid)
{
	uint64_t begin_ns = clock_monotonic_ns();
	struct maps *maps = maps__read(pid);
	struct space *space;
	struct address_map *map;

	if (!maps)
		return -errno;
	map = address_map__new(frames->files, pid, maps);
	python_frames__map(frames->python, process, pid, maps);
	maps__free(maps);
	space = space_of(frames, process);
	if (!map || !space) {
		address_map__put(map);
		return -ENOMEM;
	}
	note_owner(frames, space, pid);
	/* a process that is exiting: its memory is gone, its pid is not */
	if (!map->count || address_map__same(space->map, map))
		address_map__put(map);
	else
		change_address_map(frames, space, map, clock_monotonic_ns());
	space->seen_ns = begin_ns;
	return 0;
}

int frames__fork(struct frames *frames, uint32_t child, pid_t pid, uint32_t parent)
{
	struct address_map *map;
	struct space *space = space_of(frames, parent);

	if (!space)
		return -ENOMEM;
	python_frames__fork(frames->python, child, pid, parent);
	map = space->map;
	space = space_of(frames, child);
	if (!space)
		return -ENOMEM;
	note_owner(frames, space, pid);
	if (!space->map && map)
		set_map(space, address_map__get(map));
	return 0;
}

void frames__forget(struct frames *frames, uint32_t process)
{
	uint32_t index = map64_get(&frames->by_process, process), last;

	python_frames__forget(frames->python, process);
	if (index == MAP64_NONE)
		return;
	clear_space(&frames->spaces[index]);
	frames__forget_stacks(frames);
	map64_remove(&frames->by_process, process);
	last = (uint32_t)--frames->spaces_count;
	if (index == last)
		return;
	frames->spaces[index] = frames->spaces[last];
	frames->spaces[last] = (struct space){0};
	map64_remove(&frames->by_process, frames->spaces[index].process);
	map64_put(&frames->by_process, frames->spaces[index].process, index); /* there is room */
}

/* The mapping at an address at a time. NULL: not known. */
static const struct mapped_range *range_at(const struct space *space, uint64_t at, uint64_t time_ns)
{
	const struct mapped_range *range = address_map__find(space->map, at);

	if (range && range->from_ns <= time_ns)
		return range;
	for (size_t i = space->gone_count; i-- > 0;) {
		range = &space->gone[i];
		if (at >= range->start && at < range->end && range->from_ns <= time_ns &&
		    time_ns < range->until_ns)
			return range;
	}
	return NULL;
}

/*
 * Makes an address at a time what the sink gets: numbered where it had other code before. An
 * address that is once a return address and once an instruction being executed is what it was
 * first: both are in one function, but behind a call that never returns.
 */
static int show_address(const struct frames *frames, struct space *space, uint64_t *address,
			bool executing, uint64_t time_ns)
{
	uint32_t first = map64_get(&space->known, *address), last = MAP64_NONE;
	struct call call = {.address = *address,
			    .at = executing ? *address : *address - 1,
			    .time_ns = time_ns,
			    .file = FILE_CACHE_NONE,
			    .process = space->process};
	const struct mapped_range *range;
	uint64_t number = 0;

	if (first != MAP64_NONE)
		call.at = space->calls[first].at;
	range = range_at(space, call.at, time_ns);
	for (uint32_t i = first; i != MAP64_NONE; number++) {
		struct call *known = &space->calls[i];
		bool is_same;

		bind_to(space, known, range);
		is_same = known->bound && range
				  ? file_cache__same(frames->files, known->file, range->file) &&
					    (range->file == FILE_CACHE_NONE ||
					     known->offset ==
						     known->at - range->start + range->offset)
				  : !known->bound && !range;
		if (is_same) {
			*address = known->address;
			return 0;
		}
		last = i;
		i = known->next ? known->next - 1 : MAP64_NONE;
	}
	if (number && (!range || number >= PERFX_FRAME_NUMBER_UNKNOWN))
		number = PERFX_FRAME_NUMBER_UNKNOWN;
	*address = PERFX_FRAME_NUMBERED(*address, number);
	if (number == PERFX_FRAME_NUMBER_UNKNOWN)
		return 0;
	call.address = *address;
	if (GROW_BY_ONE(space->calls) ||
	    (last == MAP64_NONE &&
	     map64_put(&space->known, call.address, (uint32_t)space->calls_count)))
		return -ENOMEM;
	if (last != MAP64_NONE)
		space->calls[last].next = (uint32_t)space->calls_count + 1;
	space->calls[space->calls_count++] = call;
	bind_to(space, &space->calls[space->calls_count - 1], range);
	return 0;
}

/* The stack's Python frames are resolved already. */
static int show_addresses(const struct frames *frames, struct space *space, uint64_t *addresses,
			  size_t count, bool is_pc, uint64_t time_ns)
{
	int err = 0;

	for (size_t i = 0; !err && i < count; i++) {
		if (addresses[i] & PERFX_FRAME_PYTHON)
			continue;
		/* the innermost native one; Python frames that it runs come before it */
		addresses[i] = PERFX_FRAME_ADDRESS(addresses[i]);
		err = show_address(frames, space, &addresses[i], is_pc, time_ns);
		is_pc = false;
	}
	return err;
}

/* Addresses that are kept, 8 bytes each; then the list begins anew, and stacks that are not in it
 * are unknown once code was replaced. */
#define SHOWN_ADDRESSES_MAX (1u << 20)
/* Ids of stacks that are made here; those of the programs are below. */
#define MADE_STACKS 0x80000000u

static uint64_t content_of(uint32_t process, uint32_t flags, const uint64_t *addresses,
			   size_t count)
{
	return fnv1a(addresses, count * sizeof(*addresses)) ^ (uint64_t)process << 32 ^ flags;
}

static void keep_stack(struct frames *frames, const struct perfx_stack *stack,
		       const uint64_t *addresses, uint64_t time_ns)
{
	uint64_t content = content_of(stack->process, stack->flags, addresses, stack->frames_count);
	size_t needed = frames->shown_addresses_count + stack->frames_count;
	uint32_t index;

	if (needed > SHOWN_ADDRESSES_MAX) {
		frames__forget_stacks(frames);
		needed = stack->frames_count;
	}
	index = (uint32_t)frames->shown_count;
	if (GROW_BY_ONE(frames->shown) ||
	    grow_array(&frames->shown_addresses, &frames->shown_addresses_capacity, needed,
		       sizeof(uint64_t)) ||
	    map64_put(&frames->shown_ids, stack->stack, index))
		return;
	/* one that is missing is made once more */
	if (map64_get(&frames->shown_contents, content) == MAP64_NONE)
		map64_put(&frames->shown_contents, content, index);
	memcpy(frames->shown_addresses + frames->shown_addresses_count, addresses,
	       stack->frames_count * sizeof(*addresses));
	frames->shown[frames->shown_count++] =
		(struct shown_stack){.process = stack->process,
				     .id = stack->stack,
				     .flags = stack->flags,
				     .frames_count = stack->frames_count,
				     .first = frames->shown_addresses_count,
				     .checked_ns = time_ns,
				     .now = stack->stack};
	frames->shown_addresses_count = needed;
}

/* The id of a stack with these addresses, which the sink gets if it is new. */
static uint32_t id_of(struct frames *frames, const struct shown_stack *like,
		      const uint64_t *addresses, uint64_t time_ns)
{
	size_t bytes = like->frames_count * sizeof(*addresses);
	struct {
		struct perfx_stack fixed;
		uint64_t addresses[PERFX_STACK_FRAMES_MAX];
	} made = {.fixed = {.hdr = {.kind = PERFX_KIND_STACK,
				    .size = (uint32_t)(sizeof(made.fixed) + bytes),
				    .fixed = sizeof(made.fixed)},
			    .process = like->process,
			    .flags = like->flags,
			    .frames_count = like->frames_count}};
	uint32_t index =
		map64_get(&frames->shown_contents,
			  content_of(like->process, like->flags, addresses, like->frames_count));
	const struct shown_stack *shown = index == MAP64_NONE ? NULL : &frames->shown[index];

	if (shown && shown->process == like->process && shown->flags == like->flags &&
	    shown->frames_count == like->frames_count &&
	    !memcmp(frames->shown_addresses + shown->first, addresses, bytes))
		return shown->id;
	made.fixed.stack = MADE_STACKS + ++frames->made_count;
	memcpy(made.addresses, addresses, bytes);
	sink_record(frames->sink, &made, made.fixed.hdr.size);
	keep_stack(frames, &made.fixed, addresses, time_ns);
	return made.fixed.stack;
}

void frames__name_stack(struct frames *frames, uint32_t process, uint32_t *stack, uint64_t time_ns)
{
	uint64_t addresses[PERFX_STACK_FRAMES_MAX];
	struct shown_stack *shown, like;
	struct space *space;
	uint32_t index, now;

	if (!frames->any_replaced || !*stack)
		return;
	index = map64_get(&frames->shown_ids, *stack);
	if (index == MAP64_NONE) {
		space = space_of(frames, process);
		*stack = space && space->replaced_ns ? 0 : *stack;
		return;
	}
	shown = &frames->shown[index];
	space = space_of(frames, shown->process);
	if (space && (shown->checked_ns > time_ns || shown->checked_ns < space->replaced_ns)) {
		like = *shown;
		memcpy(addresses, frames->shown_addresses + like.first,
		       like.frames_count * sizeof(*addresses));
		show_addresses(frames, space, addresses, like.frames_count,
			       like.flags & PERFX_STACK_PC, time_ns);
		now = id_of(frames, &like, addresses, time_ns);
		/* the list may have begun anew */
		index = map64_get(&frames->shown_ids, like.id);
		*stack = now;
		if (index == MAP64_NONE)
			return;
		shown = &frames->shown[index];
		shown->checked_ns = time_ns;
		shown->now = now;
	}
	*stack = shown->now;
}

uint64_t frames__stack_time_ns(const struct perfx_stack *stack)
{
	const uint64_t *addresses = (const uint64_t *)((const char *)stack + stack->hdr.fixed);
	size_t room = (stack->hdr.size - stack->hdr.fixed) / sizeof(uint64_t);

	return stack->frames_count < room ? addresses[stack->frames_count] : clock_monotonic_ns();
}

/* In the BPF programs' record the frames are followed by the time, then by the code objects of the
 * Python frames, as many as had room. */
int frames__stack(struct frames *frames, struct perfx_stack *stack)
{
	uint64_t *addresses = (uint64_t *)((char *)stack + stack->hdr.fixed);
	size_t room = (stack->hdr.size - stack->hdr.fixed) / sizeof(uint64_t);
	size_t count = stack->frames_count < room ? stack->frames_count : room;
	const uint32_t *codes = (const uint32_t *)(addresses + count + 1),
		       *codes_end = (const uint32_t *)(addresses + room);
	uint64_t time_ns = frames__stack_time_ns(stack);
	struct space *space = space_of(frames, stack->process);
	int err = space ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < count; i++)
		if (addresses[i] & PERFX_FRAME_PYTHON)
			err = python_frames__add(frames->python, stack->process, &addresses[i],
						 codes < codes_end ? codes++ : NULL);
	if (!err)
		err = show_addresses(frames, space, addresses, count, stack->flags & PERFX_STACK_PC,
				     time_ns);
	stack->hdr.size = (uint32_t)(stack->hdr.fixed + count * sizeof(uint64_t));
	if (!err && count == stack->frames_count)
		keep_stack(frames, stack, addresses, time_ns);
	return err;
}

int frames__caller(struct frames *frames, struct perfx_context *context)
{
	uint64_t caller = context->caller;
	uint32_t code = context->pad;
	int err = 0;

	if (caller & PERFX_FRAME_PYTHON)
		err = python_frames__add(frames->python, context->process, &caller, &code);
	context->caller = caller;
	context->pad = 0;
	return err;
}

/* The calls in one file. */
struct batch {
	struct frames *frames;
	const char *module;
	struct image *image;
	struct call **calls; /* by vaddr */
	size_t count;
	uint64_t *vaddrs; /* distinct */
	size_t *first;	  /* of each vaddr, in calls */
	size_t vaddrs_count;
	struct collector collector;
};

static void send_frame(struct frames *frames, const struct call *call, const char *module,
		       size_t depth, const struct symbolized_place *place, uint16_t operator_bytes,
		       uint16_t flags)
{
	struct perfx_frame record = {.address = call->address,
				     .offset = call->offset,
				     .process = call->process,
				     .line = place->line,
				     .depth = (uint16_t)depth,
				     .flags = flags,
				     .operator_bytes = operator_bytes};
	SINK_PACK(frames->sink, &frames->buffer, PERFX_KIND_FRAME, record, place->function, module,
		  place->file);
}

/* Is an executed instruction, not a call, in a loop that only waits? */
static bool spins(const struct batch *batch, const struct call *call)
{
	size_t before = SPIN_LOOP_BYTES_MAX, available = 0;
	const uint8_t *code;

	if (call->at != PERFX_FRAME_ADDRESS(call->address))
		return false;
	code = image__code(batch->image, call->vaddr - before, &available);
	if (!code) {
		before = 0;
		code = image__code(batch->image, call->vaddr, &available);
	}
	return code && spin_loop_at(code, available, before);
}

static void on_symbolized(size_t index, const struct symbolized_place *places, size_t count,
			  void *ctx)
{
	static const struct symbolized_place collector = {.function = COLLECTOR_NAME, .file = ""};
	const struct batch *batch = ctx;
	size_t end = index + 1 < batch->vaddrs_count ? batch->first[index + 1] : batch->count;
	uint64_t vaddr = batch->vaddrs[index];
	uint16_t operator_bytes = 0;
	struct symbol symbol;

	if (begins_with(places[count - 1].function, "at::_ops::") &&
	    !image__function_at(batch->image, vaddr, &symbol))
		operator_bytes =
			operator_name_bytes(batch->image, symbol.name, symbol.vaddr, symbol.size);
	if (vaddr - batch->collector.vaddr < batch->collector.bytes && !places[0].function[0])
		places = &collector;
	for (size_t i = batch->first[index]; i < end; i++) {
		uint16_t flags = spins(batch, batch->calls[i]) ? PERFX_FRAME_SPINS : 0;

		for (size_t depth = 0; depth < count; depth++)
			send_frame(batch->frames, batch->calls[i], batch->module, depth,
				   &places[depth], depth + 1 == count ? operator_bytes : 0, flags);
	}
}

ORDER(compare_vaddrs, typeof(struct call *), ASCENDING((*a)->vaddr, (*b)->vaddr),
      ASCENDING((*a)->process, (*b)->process))

/* Reading crafted debug information can take any CPU time. These are the limits for one file and
 * for all files. A share of the recording's time is added: 1/LINES_SHARE for all files, half of
 * that for one. */
#define LINES_FILE_NS  (UINT64_C(3) * 1000000000)
#define LINES_ALL_NS   (UINT64_C(5) * 1000000000)
#define LINES_SHARE    50 /* 2 % */
#define LINES_SAID_MAX 32 /* files reported to have no lines */

static uint64_t remaining_ns(uint64_t allowed_ns, uint64_t used_ns)
{
	return allowed_ns > used_ns ? allowed_ns - used_ns : 0;
}

/* Symbolizes the distinct addresses of a batch; charges the CPU time to its file. */
static int symbolize_vaddrs(struct batch *batch, struct image *image)
{
	struct frames *frames = batch->frames;
	uint64_t share_ns = (clock_monotonic_ns() - frames->begin_ns) / LINES_SHARE, begin_ns;
	uint32_t file = batch->calls[0]->file;
	struct symbolize_budget budget;
	struct lines *lines;
	char *reason;
	int err;

	for (uint32_t i = (uint32_t)frames->lines_count; i <= file; i++) {
		const char *path = file_cache__path(frames->files, i);

		if (LIST_ADD(frames->lines,
			     (struct lines){.refused = module_is_of_system(base_name(path))}))
			return -ENOMEM;
	}
	lines = &frames->lines[file];
	budget = (struct symbolize_budget){
		.left_ns = min_u64(remaining_ns(LINES_ALL_NS + share_ns, frames->lines_ns),
				   remaining_ns(LINES_FILE_NS + share_ns / 2, lines->cpu_ns)),
		.exceeded = lines->refused};
	begin_ns = budget.left_ns;
	err = symbolize(image, &budget, batch->vaddrs, batch->vaddrs_count, on_symbolized, batch);
	lines->cpu_ns += begin_ns - budget.left_ns;
	frames->lines_ns += begin_ns - budget.left_ns;
	if (!budget.exceeded || lines->refused)
		return err;
	lines->refused = true;
	if (!frames->skipped || frames->lines_refused_count++ >= LINES_SAID_MAX ||
	    asprintf(&reason,
		     "no lines of %s: its debug information takes more than %u MiB of memory or "
		     "%u s of CPU time to read, or it is damaged",
		     batch->module, SYMBOLIZE_MEMORY_MAX >> 20,
		     (unsigned)(SYMBOLIZE_CPU_NS_MAX / 1000000000)) < 0)
		return err;
	skipped_hint(frames->skipped, "source lines", reason);
	free(reason);
	return err;
}

static int symbolize_batch(struct batch *batch)
{
	struct image *image = batch->image;
	int err = -ENOMEM;

	/* those outside its segments get (uint64_t)-1, which no function has */
	for (size_t i = 0; i < batch->count; i++)
		batch->calls[i]->vaddr = (uint64_t)image__vaddr(image, batch->calls[i]->offset);
	qsort(batch->calls, batch->count, sizeof(*batch->calls), compare_vaddrs);
	batch->vaddrs = calloc(batch->count, sizeof(*batch->vaddrs));
	batch->first = calloc(batch->count, sizeof(*batch->first));
	for (size_t i = 0; batch->vaddrs && batch->first && i < batch->count; i++) {
		if (i && batch->calls[i]->vaddr == batch->calls[i - 1]->vaddr)
			continue;
		batch->vaddrs[batch->vaddrs_count] = batch->calls[i]->vaddr;
		batch->first[batch->vaddrs_count++] = i;
	}
	batch->collector = collector_find(image);
	if (batch->vaddrs && batch->first) {
		image__focus(image, batch->vaddrs, batch->vaddrs_count);
		err = symbolize_vaddrs(batch, image);
	}
	free(batch->vaddrs);
	free(batch->first);
	return err;
}

/* Names calls in generated code, which has no ELF file, by the perf map of each process. */
static void emit_generated(struct frames *frames, struct call **calls, size_t count,
			   const char *module)
{
	uint32_t process = 0;
	struct perf_map *map = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct space *space = space_of(frames, calls[i]->process);
		struct symbolized_place place = {.function = "", .file = ""};
		const char *name;

		if (space && (!i || calls[i]->process != process)) {
			perf_map__free(map);
			map = space->own_pid ? perf_map__read(file_cache__root_path(frames->files,
										    space->root)
								      .text,
							      space->own_pid, space->owner)
					     : NULL;
		}
		process = calls[i]->process;
		name = map ? perf_map__name(map, calls[i]->at) : NULL;
		if (name)
			place.function = name;
		send_frame(frames, calls[i], name ? perf_map__path(map) : module, 0, &place, 0, 0);
	}
	perf_map__free(map);
}

bool frames__locate(struct frames *frames, uint32_t process, uint64_t address,
		    struct code_place *place)
{
	const struct space *space = space_of(frames, process);
	const struct mapped_range *range =
		space ? range_at(space, address, clock_monotonic_ns()) : NULL;

	if (!range || range->file == FILE_CACHE_NONE)
		return false;
	*place = (struct code_place){range->file, address - range->start + range->offset};
	return true;
}

const char *frames__path(const struct frames *frames, uint32_t file)
{
	return file_cache__path(frames->files, file);
}

struct image *frames__image(const struct frames *frames, uint32_t file)
{
	return file_cache__image(frames->files, file);
}

ORDER(compare_files, typeof(struct call *), ASCENDING((*a)->file, (*b)->file),
      ASCENDING((*a)->process, (*b)->process), ASCENDING((*a)->address, (*b)->address))

/* All calls that have not been emitted, by file. NULL: out of memory, or none. */
static struct call **gather(struct frames *frames, size_t *count)
{
	struct call **calls;

	*count = 0;
	for (size_t i = 0; i < frames->spaces_count; i++)
		*count += frames->spaces[i].calls_count;
	calls = *count ? calloc(*count, sizeof(struct call *)) : NULL;
	if (!calls)
		return NULL;
	*count = 0;
	FOR_EACH (space, frames->spaces) {
		for (size_t k = 0; k < space->calls_count; k++) {
			if (space->calls[k].emitted)
				continue;
			space->calls[k].emitted = true;
			/* its code may have been seen later than the stack */
			if (!space->calls[k].bound)
				bind_to(space, &space->calls[k],
					range_at(space, space->calls[k].at,
						 space->calls[k].time_ns));
			calls[(*count)++] = &space->calls[k];
		}
	}
	qsort(calls, *count, sizeof(struct call *), compare_files);
	return calls;
}

void frames__find_threads(struct frames *frames)
{
	python_frames__find_threads(frames->python);
}

void frames__emit_tasks(struct frames *frames)
{
	python_frames__emit_tasks(frames->python);
}

int frames__emit(struct frames *frames)
{
	size_t count, end;
	struct call **calls = gather(frames, &count);
	int first_err = 0;

	python_frames__emit(frames->python);
	if (!calls)
		return count ? -ENOMEM : 0;
	for (size_t i = 0; i < count; i = end) {
		uint32_t file = calls[i]->file;
		struct batch batch = {.frames = frames, .module = "", .calls = calls + i};
		int err = 0;

		for (end = i + 1; end < count && calls[end]->file == file; end++)
			;
		batch.count = end - i;
		if (file != FILE_CACHE_NONE) {
			batch.module = file_cache__path(frames->files, file);
			batch.image = file_cache__image(frames->files, file);
		}
		if (batch.image)
			err = symbolize_batch(&batch);
		else
			emit_generated(frames, batch.calls, batch.count, batch.module);
		image__free(batch.image);
		first_err = first_err ?: err;
	}
	free(calls);
	return first_err;
}

static int open_frames(struct recording *recording)
{
	recording->frames = frames__new(recording->sink, recording->tracer, &recording->skipped);
	return recording->frames ? 0 : -errno;
}

VERB(tick, python_frames__tick(recording->frames->python, recording->now_ns))
VERB(end, frames__emit(recording->frames))
VERB(close_frames, frames__free(recording->frames))

const struct recording_part frames_part = {.name = "call stacks",
					   .open = open_frames,
					   .tick = tick,
					   .end = end,
					   .close = close_frames};
