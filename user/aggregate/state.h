/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State that the parts of an aggregate share, and functions of the small ones. A larger part has a
 * header, which parts that ask it include. The state of a part is its own. A part asks only those
 * above it in this list, and those in its own line:
 *
 *	aggregate, capture             the capture's times, windows, machine
 *	process                        who is who
 *	stacks, energy, user_values    names and frames, joules, the program's own numbers
 *	calls, steps                   functions, rows and calling contexts; steps
 *	memory, costs, periods, gpu    blocks; what calls compute; which calls repeat; devices
 *	reductions                     which calls were not seen
 *	samples, steps_fill, untraced  what threads wait for; a process's steps; untraced time
 *	dump, files, slices            what each thread does at one moment; calls on files; context
 *	                               switches
 *	ends                           how processes ended
 *	spans                          gives each call to the parts above
 *	lines, overhead                at the end alone
 */
#ifndef PERFX_AGGREGATE_STATE_H
#define PERFX_AGGREGATE_STATE_H

#include "aggregate/aggregate.h"
#include "aggregate/profile.h"
#include "base/grow.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

struct finish_ctx;
struct row;

typedef unsigned __int128 u128;

/* More than the number of any kind of record. */
#define PART_KINDS 128

/* Adds an event of one kind. 0 or -ENOMEM. */
typedef int part_add(struct aggregate *aggregate, const struct event *event);

struct part {
	size_t offset, size; /* the pointer to its state in struct aggregate; size 0: it has none */
	part_add *add[PART_KINDS]; /* NULL: it does not take the kind */
	/* aggregate__continue: takes over what goes on in the stream. 0 or -ENOMEM. */
	int (*take_over)(struct aggregate *aggregate, struct aggregate *before, uint64_t from_ns);
	/* Fills its share of the profile, after the parts before it in the table. 0 or -ENOMEM. */
	int (*finish)(struct finish_ctx *ctx);
	void (*clear)(void *state);
};

/* A kind that a part takes, and the name of its handle_…() */
#define TAKES(kind, name) [PERFX_KIND_##kind] = handle_##name
#define PART_STATE(member)                            \
	.offset = offsetof(struct aggregate, member), \
	.size = sizeof(*((struct aggregate *)NULL)->member)

extern const struct part part_capture, part_spans, part_object_costs, part_process, part_periods,
	part_steps, part_energy, part_stacks, part_calls, part_costs, part_reductions, part_memory,
	part_samples, part_slices, part_thread_states, part_ends, part_files, part_lines,
	part_values, part_gpu, part_untraced, part_overhead;

struct aggregate {
	part_add *add[PART_KINDS];
	struct pool strings;
	struct {
		struct map64 ids; /* hash → list[] */
		const char **list;
		size_t capacity, count;
	} texts;		    /* that come often, once each */
	uint64_t first_ns, last_ns; /* times seen in records */
	uint64_t losses[PERFX_LOSS_KINDS];

	struct captures *captures;
	struct stacks *stacks;
	struct processes *processes;
	struct samples *samples;
	struct slices *slices;
	struct thread_states *thread_states;
	struct ends *ends;
	struct files *files;
	struct memory *memory;
	struct energy *energy;
	struct steps *steps;
	struct periods *periods;
	struct object_costs *costs;
	struct calls *calls;
	struct reductions *reductions;
	struct gpu *gpu;
	struct values *values;
	struct overhead *overhead;

	struct profile profile;
};

/* State that the parts share while they make a profile. */
struct finish_ctx {
	struct aggregate *a;
	struct profile *profile;
	uint32_t *places;	 /* by process index: where in profile->processes, or MAP64_NONE */
	uint64_t hidden_records; /* of processes and functions never described */
};

/* Counts a record that cannot be used. */
static inline int undecoded(struct aggregate *aggregate)
{
	aggregate->losses[PERFX_LOSS_UNDECODED]++;
	return 0;
}

/* The result of a handler that could not make what its record needs, for the reason in errno:
 * without memory it fails, else it counts the record as undecoded. */
static inline int rejected(struct aggregate *aggregate)
{
	return errno == ENOMEM ? -ENOMEM : undecoded(aggregate);
}

static inline void saw_time(struct aggregate *aggregate, uint64_t time_ns)
{
	aggregate->first_ns = min_u64(aggregate->first_ns, time_ns);
	aggregate->last_ns = max_u64(aggregate->last_ns, time_ns);
}

/* The profile's process of an index; NULL: it was never described. */
static inline struct profile_process *process_at(const struct finish_ctx *ctx, uint32_t process)
{
	uint32_t place = ctx->places[process];

	return place == MAP64_NONE ? NULL : &ctx->profile->processes[place];
}

void profile_clear(struct profile *profile);

/*
 * capture.c: the capture, and those of several machines or tracers that became one. A process
 * belongs to one of them (struct perfx_process: merged); 0: the capture itself.
 */

/* NULL: no record described the machine. */
const struct perfx_host *capture_host(const struct aggregate *aggregate);
/* Where the capture of a process begins and ends, in the time of this one. */
uint64_t capture_start_ns(const struct aggregate *aggregate, uint32_t merged);
uint64_t capture_end_ns(const struct aggregate *aggregate, uint32_t merged);
/* --wait: in order of time; to_ns UINT64_MAX: open. */
const struct profile_interval *capture_windows(const struct aggregate *aggregate, size_t *count);
/* 1: a window opens; 0; -ENOMEM. */
int capture_window(struct aggregate *aggregate, const struct perfx_recording_window *record);
/* Adds to the losses of a merged capture, and to its machine's usage. 0 or -ENOMEM. */
int capture_lose(struct aggregate *aggregate, const struct perfx_loss *record);
int capture_usage(struct aggregate *aggregate, uint32_t merged, const struct perfx_usage *record);

/* aggregate.c */
/* The one copy of a text. NULL: memory is out. */
const char *intern(struct aggregate *aggregate, const char *text);
/* The name shown to users: an operator's name, or `function` itself. NULL: out of memory. */
const char *intern_label(struct aggregate *aggregate, const char *function,
			 uint16_t operator_bytes);

/* stacks.c: call stacks and what their frames mean, of allocations, samples and calling contexts
 * alike. */

struct stack {
	uint32_t process, id, frames_count, flags;
	size_t first; /* in addresses[] */
};

/* NULL: it is not known. */
const struct stack *stack_find(const struct stacks *stacks, uint32_t process, uint32_t stack);
/* Of its frames, the innermost first. */
const uint64_t *stack_addresses(const struct stacks *stacks, const struct stack *stack);
/* Has a stack come that the kernel did not follow (PERFX_STACK_END_LEFT_OUT)? */
bool stacks_some_left_out(const struct stacks *stacks);
/* Is there a frame of that kind in it? Of addresses with several frames the innermost counts. 1, 0
 * or -ENOMEM. */
int stack_has_frame(struct aggregate *aggregate, uint32_t process, uint32_t stack,
		    bool (*is_it)(const struct profile_frame *frame));
/* At the end. NULL: it is not known. */
const struct profile_stack *stack_of(const struct finish_ctx *ctx, uint32_t process,
				     uint32_t stack);
/* The innermost frame of an address; NULL: it is 0, or not described. */
const struct profile_frame *frame_of(const struct finish_ctx *ctx, uint32_t process,
				     uint64_t address);
void profile_stacks_clear(struct profile *profile);

/* samples.c: activity of threads that is not counted by call, which is samples of running and
 * waiting threads, and the exact sums of the time that they waited. */
/* The last sample of each thread of a process in a time, newest first; before_ns is the time of it.
 * How many, or -ENOMEM. */
ssize_t samples_last(const struct finish_ctx *ctx, uint32_t process, uint64_t from_ns,
		     uint64_t to_ns, struct profile_last_sample *last, size_t most);
/* A timed call of a row has ended: its samples came before it. 0 or -ENOMEM. */
int samples_span(struct aggregate *aggregate, const struct row *row, const struct perfx_span *span);

/* The samples on a CPU in a time, of the last 2^18 samples. */
void samples_on_cpu(const struct aggregate *aggregate, uint64_t from_ns, uint64_t to_ns,
		    void (*visit)(void *ctx, uint32_t process, uint32_t tid, uint32_t stack),
		    void *ctx);

/* energy.c */
/* A process is on a GPU; the GPU's next record of usage ends the sample. 0 or -ENOMEM. */
int energy_share(struct aggregate *aggregate, const struct perfx_gpu_memory *record);
int energy_usage(struct aggregate *aggregate, const struct perfx_gpu_usage *record);
/* At the end: the device's energy_mj and energy_ns. */
void energy_fill_device(const struct aggregate *aggregate, struct profile_gpu_device *device);

/* period.c */
/* A call of a thread: whether it has shown a period is tried now and then. 0 or -ENOMEM. */
int periods_span(struct aggregate *aggregate, const struct perfx_span *span);
/* The budget has reduced a probe of the process. */
void periods_reduced(struct periods *periods, uint32_t process);

/* slices.c: what threads did between two context switches (--timeline), and the calls beside it.
 * The last ones are kept, by count: [count % SLICES_MAX] is the oldest. */
struct slices {
	uint64_t count, spans_count;
	struct perfx_slice *last;      /* PROFILE_SLICES_MAX; NULL: there was none */
	struct perfx_span *last_spans; /* PROFILE_SLICE_SPANS_MAX; NULL: no slice came */
};

static inline void slices_span(struct slices *slices, const struct perfx_span *span)
{
	if (__builtin_expect(slices->last_spans != NULL, 0))
		slices->last_spans[slices->spans_count++ % PROFILE_SLICE_SPANS_MAX] = *span;
}

/* untraced.c */
/* A call of a known process: its thread was in traced code. 0 or -ENOMEM. */
int untraced_span(struct aggregate *aggregate, const struct perfx_span *span);

/*
 * reductions.c. The overhead budget reduces a function: its calls are only counted, or not seen at
 * all. Their times are lost then. Their FLOPs are kept if all measured calls of the function had
 * the same cost: each counted call is taken to have that cost. Nothing is lost with a function that
 * was always called by another one with a cost, because the other one's cost contains its work. In
 * all other cases the costs of the processes that called the function end at that time
 * (step_costs.c).
 */

/* Of fewer measured calls nobody knows whether the others are like them. By the rule of three, at a
 * confidence of 95 %, at most 3 % of all calls are not. */
#define USUAL_CALLS_MIN 100
/* That calls are made by another one whose cost is known follows from the code rather than from
 * their arguments: fewer show it. */
#define USUAL_INSIDE_MIN 20

/* A measured call of the row's function. 0 or -ENOMEM. */
int usual_cost_add(struct aggregate *aggregate, struct row *row, const struct perfx_span *span);
/* Is the work of the row's calls a part of others', although it looks as if they were alone? */
bool usual_cost_is_part(const struct aggregate *aggregate, struct row *row);
/* Gives a call that was only counted the cost that is assumed for it. false: there is none. */
bool usual_cost_assume(const struct aggregate *aggregate, struct perfx_span *span);
/* When the overhead budget removed the probes that show the process's calls of a function; 0: it
 * did not. with: whose probes these are; may be NULL. */
uint64_t calls_seen_until(const struct aggregate *aggregate, uint32_t process, uint32_t function,
			  uint32_t *with);

#endif
