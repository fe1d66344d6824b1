// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/steps.h"

#include "aggregate/aggregate.h"
#include "aggregate/statistics.h"
#include "aggregate/step_series.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Kept at most of a thread that ends steps, and of another one; what is older is no longer divided,
 * and is "untraced". */
#define INTERVALS_MAX	     65536
#define INTERVALS_OTHERS_MAX 8192
/* Functions and optimizers that end steps on one thread; optimizers have half of the places: where
 * each parameter has its own, a few show the step. */
#define ENDERS_MAX 16
/* Depths of calls that are counted separately; deeper ones count as the last. */
#define DEPTHS_MAX  64
#define THREADS_MAX 4096

/* A time in which a phase holds, or (OTHER) traced code ran; those of a thread lie one after
 * another.
 */
struct interval {
	uint64_t from_ns, to_ns;
	enum profile_phase phase;
};

/* A function whose calls end steps, or one of its optimizers: PyTorch calls the same function for
 * all optimizers of a class. */
struct ender {
	uint32_t function;
	unsigned rank;
	uint16_t object; /* perfx_span.object; 0: all of the function's calls */
	uint16_t last_object;
	uint64_t again_count; /* ends that followed its own, without one of another object */
	uint64_t last_ns;
	struct step_series series;
	struct step_times times;
	struct profile_step_sums run;
	struct step_tally at; /* when it ended last */
	bool at_unknown;
	uint64_t at_off_cpu_ns;
	double confidence;
	struct sketch *durations;
	struct step_picks picks;
	bool by_entry; /* its last call had no time, and ended the step at its entry */
	bool of_evaluation;
};

struct step_thread {
	uint32_t process, tid;
	uint64_t first_ns;   /* of the first range; UINT64_MAX */
	uint64_t opened_ns;  /* when the last range's recording window was opened; 0 */
	uint64_t flops;	     /* of its calls */
	uint64_t off_cpu_ns; /* in its calls, each wait once */
	/* By depth: in calls that have ended inside one that has not. */
	uint64_t inner_off_cpu_ns[DEPTHS_MAX + 1];
	struct interval *intervals;
	size_t count, capacity;
	struct ender enders[ENDERS_MAX];
	size_t enders_count;
	struct period period; /* function 0: none is known */
	bool is_main;
	bool has_backward;
	bool has_closure; /* its optimizer called what had a backward pass in it */
};

/* TensorFlow ends the name of a traced function with a number: "train_function_506". */
static bool is_traced_function(const char *name, const char *function)
{
	size_t length = strlen(function);

	return begins_with(name, function) &&
	       (!name[length] ||
		(name[length] == '_' && name[length + 1] &&
		 name[length + 1 + strspn(name + length + 1, "0123456789")] == '\0'));
}

/* A call is a step: rounds of boosting, a TensorFlow session's run, the functions that Keras' loops
 * call. */
static bool is_natural_step(unsigned source, const char *name)
{
	static const char *const symbols[] = {
		"XGBoosterUpdateOneIter",
		"XGBoosterBoostOneIter",
		"XGBoosterTrainOneIter",
		"LGBM_BoosterUpdateOneIter",
		"LGBM_BoosterUpdateOneIterCustom",
		"TrainOneIteration",
		NULL,
	};
	static const char *const traced[] = {
		"TF_SessionRun",
		"one_step_on_iterator",
		"multi_step_on_iterator",
		"one_step_on_data",
		"one_step_on_data_distributed",
		"multi_step_on_data",
		"train_function",
		"test_function",
		"predict_function",
		NULL,
	};
	bool found = false;

	if (source == PERFX_SOURCE_SYMBOL)
		return text_is_one_of(name, symbols);
	for (size_t i = 0; source == PERFX_SOURCE_TF && traced[i]; i++)
		found |= is_traced_function(name, traced[i]);
	return found;
}

unsigned step_class(unsigned source, const char *name, unsigned flags)
{
	unsigned class = flags & PERFX_FUNCTION_RANGE ? STEP_RANGE : 0;

	if (source == PERFX_SOURCE_TORCH && (flags & PERFX_FUNCTION_RANGE)) {
		if (begins_with(name, "Optimizer."))
			class |= PROFILE_PHASE_OPTIMIZER;
		if (begins_with(name, "Optimizer.step#"))
			class |= STEP_BY_OPTIMIZER << STEP_RANK_SHIFT;
		if (begins_with(name, "enumerate(DataLoader)"))
			class |= PROFILE_PHASE_DATA;
	} else if ((source == PERFX_SOURCE_TORCH &&
		    !strcmp(name, "torch::autograd::Engine::execute")) ||
		   (source == PERFX_SOURCE_TF && !strcmp(name, "TFE_Py_TapeGradient"))) {
		class = PROFILE_PHASE_BACKWARD | STEP_RANGE | STEP_BY_BACKWARD << STEP_RANK_SHIFT;
	} else if (is_natural_step(source, name)) {
		class = STEP_RANGE | STEP_BY_CALL << STEP_RANK_SHIFT;
	}
	if (flags & PERFX_FUNCTION_STEP)
		class = (class & ~STEP_RANK_MASK) | STEP_RANGE | STEP_BY_NAME << STEP_RANK_SHIFT;
	return class;
}

void step_classes_add(struct step_classes *classes, const struct perfx_function *function,
		      const char *name)
{
	if (function->function > AGGREGATE_FUNCTIONS_MAX ||
	    grow_array(&classes->list, &classes->capacity, (size_t)function->function + 1,
		       sizeof(*classes->list)))
		return;
	classes->list[function->function] = step_class(function->source, name, function->flags);
}

unsigned step_classes_of(const struct step_classes *classes, const struct perfx_span *span)
{
	if (span->function >= classes->capacity ||
	    (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED)))
		return 0;
	return classes->list[span->function];
}

void step_classes_clear(struct step_classes *classes)
{
	free(classes->list);
	*classes = (struct step_classes){0};
}

static int add_interval(struct step_thread *thread, uint64_t from_ns, uint64_t to_ns,
			enum profile_phase phase)
{
	if (from_ns >= to_ns)
		return 0;
	if (grow_array(&thread->intervals, &thread->capacity, thread->count + 1,
		       sizeof(*thread->intervals)))
		return -ENOMEM;
	thread->intervals[thread->count++] = (struct interval){from_ns, to_ns, phase};
	return 0;
}

static void drop_oldest(struct step_thread *thread, size_t count)
{
	thread->count -= count;
	memmove(thread->intervals, thread->intervals + count,
		thread->count * sizeof(*thread->intervals));
}

/* Puts an interval among those that it overlaps, `rest`; what takes precedence stays whole. */
static int merge(struct step_thread *thread, const struct interval *rest, size_t rest_count,
		 struct interval new)
{
	struct interval after = {0};
	int err = 0;

	for (size_t i = 0; !err && i < rest_count; i++) {
		struct interval old = rest[i];

		if (old.from_ns >= new.to_ns) {
			err = add_interval(thread, new.from_ns, new.to_ns, new.phase);
			if (!err)
				err = add_interval(thread, after.from_ns, after.to_ns, after.phase);
			if (!err)
				err = add_interval(thread, old.from_ns, old.to_ns, old.phase);
			new.from_ns = new.to_ns;
			after = (struct interval){0};
			continue;
		}
		if (old.phase >= new.phase) {
			err = add_interval(thread, new.from_ns,
					   old.from_ns < new.to_ns ? old.from_ns : new.to_ns,
					   new.phase);
			if (!err)
				err = add_interval(thread, old.from_ns, old.to_ns, old.phase);
			if (old.to_ns > new.from_ns)
				new.from_ns = old.to_ns;
			continue;
		}
		err = add_interval(thread, old.from_ns,
				   old.to_ns < new.from_ns ? old.to_ns : new.from_ns, old.phase);
		if (old.to_ns > new.to_ns)
			after = (struct interval){new.to_ns, old.to_ns, old.phase};
	}
	if (!err)
		err = add_interval(thread, new.from_ns, new.to_ns, new.phase);
	return err ? err : add_interval(thread, after.from_ns, after.to_ns, after.phase);
}

/* Calls inside a call add nothing to its interval. */
static void drop_inner(struct step_thread *thread, const struct interval *outer)
{
	while (thread->count) {
		const struct interval *last = &thread->intervals[thread->count - 1];

		if (last->from_ns < outer->from_ns || last->phase != outer->phase)
			break;
		thread->count--;
	}
}

/* Spans come by their ends, so most of what a new one overlaps are the last. */
static int insert_one(struct step_thread *thread, struct interval new)
{
	size_t first, rest_count;
	struct interval *rest;
	int err;

	first = thread->count;
	while (first && thread->intervals[first - 1].to_ns > new.from_ns)
		first--;
	rest_count = thread->count - first;
	if (!rest_count)
		return add_interval(thread, new.from_ns, new.to_ns, new.phase);
	rest = malloc(rest_count * sizeof(*rest));
	if (!rest)
		return -ENOMEM;
	memcpy(rest, thread->intervals + first, rest_count * sizeof(*rest));
	thread->count = first;
	err = merge(thread, rest, rest_count, new);
	free(rest);
	return err;
}

/* The work of an optimizer that was given a closure, which it calls for forward and backward
 * passes. */
#define OWN_PARTS_MAX 64

struct own_work {
	struct interval parts[OWN_PARTS_MAX];
	size_t count;
	uint64_t from_ns; /* of the next part; 0: in the closure */
	/* Closures reset the gradients first, or (Lightning's) between forward and backward. */
	uint64_t reset_from_ns, reset_to_ns; /* the first; 0: none yet */
	bool resets_first, has_backward;
};

static void end_part(struct own_work *own, uint64_t to_ns)
{
	if (own->from_ns && own->count < OWN_PARTS_MAX)
		own->parts[own->count++] =
			(struct interval){own->from_ns, to_ns, PROFILE_PHASE_OPTIMIZER};
	own->from_ns = 0;
}

/* After a backward pass the optimizer works until the closure resets the gradients anew; where that
 * does not show when the closure begins, only after the last backward pass. */
static struct own_work own_work_of(const struct step_thread *thread, const struct interval *new)
{
	struct own_work own = {0};
	size_t i = thread->count;

	while (i && thread->intervals[i - 1].to_ns > new->from_ns)
		i--;
	for (; i < thread->count; i++) {
		const struct interval *inner = &thread->intervals[i];

		if (inner->phase == PROFILE_PHASE_BACKWARD) {
			if (!own.has_backward)
				own.resets_first =
					own.reset_to_ns && own.reset_from_ns - new->from_ns <
								   inner->from_ns - own.reset_to_ns;
			own.has_backward = true;
			own.from_ns = inner->to_ns;
		} else if (inner->phase == PROFILE_PHASE_OPTIMIZER && !own.has_backward) {
			own.reset_from_ns = inner->from_ns;
			own.reset_to_ns = inner->to_ns;
		} else if (inner->phase == PROFILE_PHASE_OPTIMIZER && own.resets_first) {
			end_part(&own, inner->from_ns);
		}
	}
	if (!own.has_backward)
		own.from_ns = new->from_ns;
	end_part(&own, new->to_ns);
	return own;
}

static int insert(struct step_thread *thread, struct interval new)
{
	struct own_work own;
	int err = 0;

	if (new.phase != PROFILE_PHASE_OPTIMIZER) {
		thread->has_backward |= new.phase == PROFILE_PHASE_BACKWARD;
		drop_inner(thread, &new);
		return insert_one(thread, new);
	}
	own = own_work_of(thread, &new);
	if (!own.has_backward)
		drop_inner(thread, &new);
	thread->has_closure |= own.has_backward;
	for (size_t i = 0; i < own.count && !err; i++)
		err = insert_one(thread, own.parts[i]);
	return err;
}

/* While a step is gone through. */
struct division {
	uint64_t *phases;
	uint64_t at_ns;	     /* up to where it is divided */
	uint64_t waiting_ns; /* traced code: forward, if a backward pass follows */
	bool knows_forward;
};

static void pass_gap(struct division *d, uint64_t to_ns)
{
	if (to_ns > d->at_ns)
		d->phases[PROFILE_PHASE_UNTRACED] += to_ns - d->at_ns;
}

static void settle_waiting(struct division *d, enum profile_phase phase)
{
	d->phases[phase] += d->waiting_ns;
	d->waiting_ns = 0;
}

static void pass_interval(struct division *d, const struct interval *interval, uint64_t from_ns,
			  uint64_t to_ns)
{
	pass_gap(d, from_ns);
	if (interval->phase == PROFILE_PHASE_OTHER && d->knows_forward)
		d->waiting_ns += to_ns - from_ns;
	else
		d->phases[interval->phase] += to_ns - from_ns;
	d->at_ns = to_ns;
	if (interval->phase == PROFILE_PHASE_BACKWARD)
		settle_waiting(d, PROFILE_PHASE_FORWARD);
	else if (interval->phase == PROFILE_PHASE_DATA)
		settle_waiting(d, PROFILE_PHASE_OTHER);
}

static bool has_phase(const struct step_thread *thread, size_t from, enum profile_phase phase)
{
	for (size_t i = from; i < thread->count; i++)
		if (thread->intervals[i].phase == phase)
			return true;
	return false;
}

static void divide(const struct step_thread *thread, uint64_t from_ns, uint64_t to_ns,
		   const struct ender *ender, uint64_t phases[PROFILE_PHASES])
{
	struct division d = {.phases = phases, .at_ns = from_ns};
	size_t i = thread->count;

	while (i && thread->intervals[i - 1].to_ns > from_ns)
		i--;
	d.knows_forward =
		ender->rank != STEP_BY_BACKWARD || has_phase(thread, i, PROFILE_PHASE_DATA);
	for (; i < thread->count && thread->intervals[i].from_ns < to_ns; i++) {
		const struct interval *interval = &thread->intervals[i];

		pass_interval(&d, interval,
			      interval->from_ns > from_ns ? interval->from_ns : from_ns,
			      interval->to_ns < to_ns ? interval->to_ns : to_ns);
	}
	pass_gap(&d, to_ns);
	settle_waiting(&d, PROFILE_PHASE_OTHER);
}

/* What has been named is one, also where several functions have that name (a function that was
 * traced anew for other shapes). */
static struct ender *ender_of(struct step_thread *thread, uint32_t function, uint16_t object,
			      unsigned rank)
{
	struct ender *ender;

	for (size_t i = 0; i < thread->enders_count; i++) {
		ender = &thread->enders[i];
		if (ender->rank == rank && (rank == STEP_BY_NAME || (ender->function == function &&
								     ender->object == object)))
			return ender;
	}
	if (thread->enders_count >= (object ? ENDERS_MAX / 2 : ENDERS_MAX))
		return NULL;
	ender = &thread->enders[thread->enders_count];
	*ender = (struct ender){
		.function = function, .rank = rank, .object = object, .durations = sketch__new()};
	thread->enders_count += ender->durations != NULL;
	return ender->durations ? ender : NULL;
}

/* Is there a step before it? What was before its window was not recorded. */
static bool follows_another(const struct step_thread *thread, const struct ender *ender)
{
	return ender->last_ns && ender->last_ns >= thread->opened_ns;
}

/* Adds up all calls of the process, and as thread_flops those of the thread. */
static struct step_tally sum_of(const struct steps *steps, const struct step_thread *thread)
{
	struct step_tally sum = step_costs_sum(&steps->costs, thread->process);

	sum.thread_flops = thread->flops;
	return sum;
}

/* The sum at the end of a step. A step that ends at the entry of a call ended before now: the calls
 * since then are subtracted, if they are still kept. */
static struct step_tally sum_until(const struct steps *steps, const struct step_thread *thread,
				   const struct ender *ender, uint64_t end_ns)
{
	struct step_tally sum = sum_of(steps, thread), later;

	if (ender->by_entry &&
	    step_costs_since(&steps->costs, thread->process, thread->tid, end_ns, &later))
		step_tally_subtract(&sum, &later);
	return sum;
}

/* Subtracts the sum at the last end from the sum `now`; false: the last one is not known. */
static bool tally_step(const struct steps *steps, const struct step_thread *thread,
		       const struct ender *ender, uint64_t from_ns, const struct step_tally *now,
		       struct step_tally *into)
{
	if (!follows_another(thread, ender))
		return step_costs_since(&steps->costs, thread->process, thread->tid, from_ns, into);
	*into = *now;
	step_tally_subtract(into, &ender->at);
	return !ender->at_unknown;
}

static void add_to_run(struct profile_step_sums *run, const struct profile_step *step,
		       const struct step_tally *tally)
{
	run->count++;
	run->total_ns += step->total_ns;
	run->flops += tally ? tally->flops : 0;
	for (int i = 0; i < PROFILE_PHASES; i++)
		run->phases[i] += step->phases[i];
}

static void join_untraced(uint64_t phases[PROFILE_PHASES], enum profile_phase phase)
{
	phases[PROFILE_PHASE_UNTRACED] += phases[phase];
	phases[phase] = 0;
}

static bool is_within(uint64_t limit_ns, uint64_t end_ns)
{
	return !limit_ns || end_ns <= limit_ns;
}

/* Is the optimizer's time known without that of backward passes? */
static bool knows_optimizer(const struct step_thread *thread)
{
	return thread->has_backward && !thread->has_closure;
}

/* A step from one time to another, with what its thread waited; tally NULL: not known. is_past: it
 * belongs to the run alone. */
static int add_step(const struct steps *steps, const struct step_thread *thread,
		    struct ender *ender, struct profile_step *step, const struct step_tally *tally,
		    bool is_past)
{
	struct step_limits limits = step_costs_limits(&steps->costs, thread->process);

	if (!is_within(limits.costs_ns, step->to_ns) ||
	    step_costs_changed(&steps->costs, thread->process, step->from_ns, step->to_ns))
		tally = NULL;
	step->count = 1;
	step->computed_count = tally != NULL;
	step->divided_count = is_within(limits.times_ns, step->to_ns);
	step->total_ns = step->max_ns = step->to_ns - step->from_ns;
	step->waited_count = is_within(limits.waits_ns, step->to_ns);
	if (step->off_cpu_ns > step->total_ns)
		step->off_cpu_ns = step->total_ns;
	divide(thread, step->from_ns, step->to_ns, ender, step->phases);
	/* forward and other are known only as long as all functions are timed; ranges stay */
	if (!step->divided_count) {
		join_untraced(step->phases, PROFILE_PHASE_FORWARD);
		join_untraced(step->phases, PROFILE_PHASE_OTHER);
	}
	if (!is_within(limits.backward_ns, step->to_ns)) {
		join_untraced(step->phases, PROFILE_PHASE_BACKWARD);
		if (!knows_optimizer(thread))
			join_untraced(step->phases, PROFILE_PHASE_OPTIMIZER);
	}
	add_to_run(&ender->run, step, tally);
	if (is_past)
		return 0;
	if (step_series_add(&ender->series, step, tally) || step_times_add(&ender->times, step) ||
	    step_picks_add(&ender->picks, step->total_ns))
		return -ENOMEM;
	return sketch__add(ender->durations, step->total_ns);
}

/* Counts the end of any step, whole or not. */
static void count_end(struct ender *ender, bool is_past)
{
	ender->run.ends_count++;
	ender->series.ends_count += !is_past;
}

static void note_end(const struct step_thread *thread, struct ender *ender, uint64_t end_ns,
		     const struct step_tally *at)
{
	ender->last_ns = end_ns;
	ender->at = *at;
	ender->at_off_cpu_ns = thread->off_cpu_ns;
	ender->at_unknown = false;
}

/* Between an end and an entry there is no step. */
static void set_by_entry(struct ender *ender, bool by_entry)
{
	if (ender->by_entry != by_entry)
		ender->last_ns = 0;
	ender->by_entry = by_entry;
}

/* Did calls that are steps of another kind, those of an evaluation, end between the step's begin
 * and its own call? Their operations are not this step's. */
static bool holds_other_steps(const struct step_thread *thread, const struct ender *ender,
			      uint64_t from_ns, uint64_t called_ns)
{
	for (size_t i = 0; i < thread->enders_count && ender->rank == STEP_BY_CALL; i++) {
		const struct ender *other = &thread->enders[i];

		if (other != ender && other->rank == STEP_BY_CALL && other->last_ns > from_ns &&
		    other->last_ns <= called_ns)
			return true;
	}
	return false;
}

/* begun_ns: when a step that follows no other one began; UINT64_MAX: that was not seen. Then it is
 * not whole, and only its end counts. */
static int end_step(struct steps *steps, struct step_thread *thread, struct ender *ender,
		    uint64_t begun_ns, uint64_t end_ns)
{
	bool follows = follows_another(thread, ender);
	uint64_t from_ns = follows ? ender->last_ns : begun_ns;
	struct profile_step step = {
		.from_ns = from_ns,
		.to_ns = end_ns > from_ns ? end_ns : from_ns,
		.off_cpu_ns = thread->off_cpu_ns - (follows ? ender->at_off_cpu_ns : 0),
	};
	struct step_tally now = sum_until(steps, thread, ender, step.to_ns), tally;
	bool known;

	count_end(ender, false);
	if (from_ns == UINT64_MAX) {
		note_end(thread, ender, end_ns, &now);
		return 0;
	}
	known = tally_step(steps, thread, ender, from_ns, &now, &tally) &&
		!holds_other_steps(thread, ender, from_ns, begun_ns < end_ns ? begun_ns : end_ns);
	if (add_step(steps, thread, ender, &step, known ? &tally : NULL, false))
		return -ENOMEM;
	note_end(thread, ender, step.to_ns, &now);
	return 0;
}

/* The end of a call, or its entry where its end is not known, ends a step; arguments as end_step's.
 * It is one of its function's, and one of the steps of its optimizer alone. */
static int end_steps(struct steps *steps, struct step_thread *thread, const struct perfx_span *span,
		     unsigned rank, uint64_t begun_ns, uint64_t end_ns)
{
	struct ender *all = ender_of(thread, span->function, 0, rank), *one;
	bool by_entry = span->flags & PERFX_SPAN_UNTIMED, again;
	int err;

	if (!all)
		return 0;
	set_by_entry(all, by_entry);
	err = end_step(steps, thread, all, begun_ns, end_ns);
	one = !err && span->object ? ender_of(thread, span->function, span->object, rank) : NULL;
	again = all->last_object == span->object;
	all->last_object = span->object;
	if (!one || one == all)
		return err;
	one->again_count += again;
	set_by_entry(one, by_entry);
	return end_step(steps, thread, one, begun_ns, end_ns);
}

/* What lies before all steps that are not over is not looked at again. */
static void forget_old(struct step_thread *thread)
{
	uint64_t oldest_ns = UINT64_MAX;
	size_t done = 0, most;

	for (size_t i = 0; i < thread->enders_count; i++)
		if (thread->enders[i].last_ns < oldest_ns)
			oldest_ns = thread->enders[i].last_ns;
	while (thread->enders_count && done < thread->count &&
	       thread->intervals[done].to_ns <= oldest_ns)
		done++;
	if (done > 64)
		drop_oldest(thread, done);
	most = thread->enders_count ? INTERVALS_MAX : INTERVALS_OTHERS_MAX;
	if (thread->count > most)
		drop_oldest(thread, most / 2);
}

static struct step_thread *thread_of(struct steps *steps, uint32_t process, uint32_t tid)
{
	uint64_t key = (uint64_t)process << 32 | tid;
	uint32_t at = map64_get(&steps->thread_ids, key);
	struct step_thread *thread;

	if (at != MAP64_NONE)
		return &steps->threads[at];
	if (steps->threads_count == THREADS_MAX) {
		errno = ERANGE;
		return NULL;
	}
	thread = MAP64_ITEM(steps->thread_ids, key, steps->threads);
	if (thread)
		*thread = (struct step_thread){
			.process = process, .tid = tid, .first_ns = UINT64_MAX};
	return thread;
}

int steps_recording_window(struct steps *steps, uint64_t opened_ns)
{
	if (GROW_BY_ONE(steps->recording_windows))
		return -ENOMEM;
	steps->recording_windows[steps->recording_windows_count++] = opened_ns;
	return 0;
}

int steps_gap(struct steps *steps, uint32_t process, uint64_t until_ns)
{
	return step_costs_gap(&steps->costs, process, until_ns);
}

/* Since when calls of a process were seen at a time; 0: from the start on. */
static uint64_t opened_of(const struct steps *steps, uint32_t process, uint64_t time_ns)
{
	uint64_t gap_ns = step_costs_gap_end(&steps->costs, process);
	uint64_t opened_ns = gap_ns <= time_ns ? gap_ns : 0;

	for (size_t i = steps->recording_windows_count; i-- > 0;)
		if (steps->recording_windows[i] <= time_ns)
			return steps->recording_windows[i] > opened_ns ? steps->recording_windows[i]
								       : opened_ns;
	return opened_ns;
}

/* A call's waits contain those of the calls inside it, which have ended before it. */
static void add_off_cpu(struct step_thread *thread, const struct perfx_span *span)
{
	size_t depth = span->depth < DEPTHS_MAX ? span->depth : DEPTHS_MAX - 1;
	uint64_t inner_ns = thread->inner_off_cpu_ns[depth + 1];

	if (span->flags & PERFX_SPAN_ASYNC)
		return;
	if (span->off_cpu_ns > inner_ns)
		thread->off_cpu_ns += span->off_cpu_ns - inner_ns;
	thread->inner_off_cpu_ns[depth + 1] = 0;
	thread->inner_off_cpu_ns[depth] += span->off_cpu_ns;
}

static bool is_period(const struct period *period, uint32_t function, uint32_t context)
{
	return function == period->function && (!period->context || context == period->context);
}

/* The function whose period is that of the steps was called again. There is no step before the
 * first call, nor between recording windows. */
static int end_period(struct steps *steps, struct step_thread *thread,
		      const struct perfx_span *span)
{
	bool by_entry = thread->period.compiled || (span->flags & PERFX_SPAN_UNTIMED);
	struct ender *ender = ender_of(thread, span->function, 0, STEP_BY_PERIOD);

	if (!ender)
		return 0;
	thread->opened_ns = opened_of(steps, span->process, span->start_ns);
	set_by_entry(ender, by_entry);
	return end_step(steps, thread, ender, UINT64_MAX,
			span->start_ns + (by_entry ? 0 : span->duration_ns));
}

/* Where a thread has shown no range yet, there is no step to be divided. */
static int traced_span(struct steps *steps, const struct perfx_span *span)
{
	uint32_t at = map64_get(&steps->thread_ids, (uint64_t)span->process << 32 | span->tid);
	uint64_t end_ns = span->start_ns + span->duration_ns;
	int err;

	if (at == MAP64_NONE || end_ns < span->start_ns || (span->flags & PERFX_SPAN_ASYNC))
		return 0;
	add_off_cpu(&steps->threads[at], span);
	err = insert(&steps->threads[at],
		     (struct interval){span->start_ns, end_ns, PROFILE_PHASE_OTHER});
	if (!err && is_period(&steps->threads[at].period, span->function, span->context))
		err = end_period(steps, &steps->threads[at], span);
	forget_old(&steps->threads[at]);
	return err;
}

static int range_span(struct steps *steps, const struct perfx_span *span, unsigned class)
{
	struct step_thread *thread = thread_of(steps, span->process, span->tid);
	uint64_t end_ns = span->start_ns + span->duration_ns;
	enum profile_phase phase = class & STEP_PHASE_MASK;
	unsigned rank = (class & STEP_RANK_MASK) >> STEP_RANK_SHIFT;
	uint64_t opened_ns;
	int err = 0;

	if (!thread)
		return errno == ENOMEM ? -ENOMEM : 0;
	if (end_ns < span->start_ns) /* damage */
		return 0;
	add_off_cpu(thread, span);
	opened_ns = opened_of(steps, span->process, span->start_ns);
	if (span->start_ns < thread->first_ns)
		thread->first_ns = span->start_ns;
	if (opened_ns > thread->opened_ns)
		thread->opened_ns = opened_ns;
	/* a range that is a step is no part of one */
	if (phase || ((class & STEP_TRACED) && (!rank || rank == STEP_BY_CALL) &&
		      !(span->flags & PERFX_SPAN_ASYNC)))
		err = insert(thread, (struct interval){span->start_ns, end_ns, phase});
	if (!err && rank)
		/* what has a phase is the end of a step; other ranges are the step */
		err = end_steps(steps, thread, span, rank, phase ? UINT64_MAX : span->start_ns,
				end_ns);
	else if (!err && is_period(&thread->period, span->function, span->context))
		err = end_period(steps, thread, span);
	forget_old(thread);
	return err;
}

/* A call that is only counted: its end, and its time, are not known. */
static int untimed_span(struct steps *steps, const struct perfx_span *span, unsigned class)
{
	uint32_t at = map64_get(&steps->thread_ids, (uint64_t)span->process << 32 | span->tid);
	unsigned rank = (class & STEP_RANK_MASK) >> STEP_RANK_SHIFT;
	struct step_thread *thread = at == MAP64_NONE ? NULL : &steps->threads[at];

	if (!thread)
		return 0;
	thread->opened_ns = opened_of(steps, span->process, span->start_ns);
	if (rank)
		return end_steps(steps, thread, span, rank, UINT64_MAX, span->start_ns);
	if (is_period(&thread->period, span->function, span->context))
		return end_period(steps, thread, span);
	return 0;
}

int steps_span(struct steps *steps, const struct perfx_span *span, unsigned class)
{
	if (span->flags & PERFX_SPAN_UNTIMED)
		return untimed_span(steps, span, class);
	return class == STEP_TRACED ? traced_span(steps, span) : range_span(steps, span, class);
}

void steps_of_evaluation(struct steps *steps, uint32_t process, uint32_t function)
{
	for (size_t i = 0; i < steps->threads_count; i++) {
		struct step_thread *thread = &steps->threads[i];

		for (size_t j = 0; thread->process == process && j < thread->enders_count; j++)
			thread->enders[j].of_evaluation |= thread->enders[j].function == function;
	}
}

/* What was computed between two times; false: not known. */
static bool tally_between(const struct steps *steps, const struct step_thread *thread,
			  uint64_t from_ns, uint64_t to_ns, struct step_tally *into)
{
	struct step_tally later;

	if (!step_costs_since(&steps->costs, thread->process, thread->tid, from_ns, into))
		return false;
	step_costs_since(&steps->costs, thread->process, thread->tid, to_ns, &later);
	step_tally_subtract(into, &later);
	return true;
}

/* What had been computed when a step of the past ended. */
static void note_past_end(const struct steps *steps, const struct step_thread *thread,
			  struct ender *ender, uint64_t off_cpu_ns)
{
	uint64_t end_ns = ender->last_ns;
	struct step_tally at = sum_of(steps, thread), later;
	bool known = tally_between(steps, thread, end_ns, UINT64_MAX, &later);

	step_tally_subtract(&at, &later);
	note_end(thread, ender, end_ns, &at);
	ender->at_unknown = !known;
	ender->at_off_cpu_ns -= off_cpu_ns;
}

/* The steps of the past, from the calls of that time. is_new: of a thread that has shown no
 * interval yet. */
static int replay_period(const struct steps *steps, struct step_thread *thread, bool is_new,
			 const struct period_calls *calls, const struct period *period)
{
	struct ender *ender = ender_of(thread, period->function, 0, STEP_BY_PERIOD);
	uint64_t off_cpu_ns = 0; /* since the end of the last step */
	int err = 0;

	if (!ender)
		return 0;
	thread->period = *period;
	ender->confidence = period->confidence;
	for (size_t i = 0; i < calls->count && !err; i++) {
		const struct outer_call *call = &calls->list[i];
		bool by_entry = period->compiled || call->untimed, known, is_past;
		struct profile_step step = {.from_ns = ender->last_ns,
					    .to_ns = by_entry ? call->start_ns : call->end_ns};
		struct step_tally tally;

		if (is_new)
			err = insert(thread, (struct interval){call->start_ns, call->end_ns,
							       PROFILE_PHASE_OTHER});
		if (is_new)
			thread->off_cpu_ns += call->off_cpu_ns;
		off_cpu_ns += call->off_cpu_ns;
		if (err || !is_period(period, call->function, call->context))
			continue;
		thread->opened_ns = opened_of(steps, thread->process, call->start_ns);
		step.off_cpu_ns = off_cpu_ns;
		off_cpu_ns = 0;
		is_past = step.to_ns <= steps->from_ns;
		set_by_entry(ender, by_entry);
		count_end(ender, is_past);
		if (follows_another(thread, ender)) {
			known = tally_between(steps, thread, step.from_ns, step.to_ns, &tally);
			err = add_step(steps, thread, ender, &step, known ? &tally : NULL, is_past);
		}
		ender->last_ns = step.to_ns;
	}
	if (ender->last_ns)
		note_past_end(steps, thread, ender, off_cpu_ns);
	return err;
}

/* FLOPs of the thread's calls so far, where these are known. */
static void set_thread_flops(const struct steps *steps, struct step_thread *thread)
{
	struct step_tally all;

	if (tally_between(steps, thread, 0, UINT64_MAX, &all))
		thread->flops = all.thread_flops;
}

int steps_by_period(struct steps *steps, const struct period_calls *calls,
		    const struct period *period)
{
	bool is_new = map64_get(&steps->thread_ids, (uint64_t)calls->process << 32 | calls->tid) ==
		      MAP64_NONE;
	struct step_thread *thread = thread_of(steps, calls->process, calls->tid);

	if (!thread)
		return errno == ENOMEM ? -ENOMEM : 0;
	thread->is_main = calls->is_main;
	if (is_new)
		set_thread_flops(steps, thread);
	return replay_period(steps, thread, is_new, calls, period);
}

int steps_show_period(struct steps *steps, const struct period_calls *calls,
		      const struct period *period)
{
	struct step_thread *thread;

	if (GROW_BY_ONE(steps->shown))
		return -ENOMEM;
	thread = &steps->shown[steps->shown_count++];
	*thread = (struct step_thread){.process = calls->process,
				       .tid = calls->tid,
				       .first_ns = UINT64_MAX,
				       .is_main = calls->is_main};
	set_thread_flops(steps, thread);
	return replay_period(steps, thread, true, calls, period);
}

static void step_thread_clear(struct step_thread *thread)
{
	free(thread->intervals);
	for (size_t i = 0; i < thread->enders_count; i++) {
		sketch__free(thread->enders[i].durations);
		free(thread->enders[i].picks.ns);
		free(thread->enders[i].series.steps);
		free(thread->enders[i].times.list);
	}
}

void steps_hide_periods(struct steps *steps)
{
	for (size_t i = 0; i < steps->shown_count; i++)
		step_thread_clear(&steps->shown[i]);
	steps->shown_count = 0;
}

/* Calls of which it was learned late what they do: those that have ended in a step are put there.
 */
static void cost_late(const struct steps *steps, const struct perfx_span *span, uint64_t end_ns)
{
	for (size_t i = 0; i < steps->threads_count; i++) {
		struct step_thread *thread = &steps->threads[i];

		for (size_t j = 0; thread->process == span->process && j < thread->enders_count;
		     j++) {
			struct ender *ender = &thread->enders[j];
			struct step_tally call = {0};

			if (!ender->run.ends_count || end_ns > ender->last_ns)
				continue;
			step_tally_call(&call, span->cost_state, span->dtype, span->flops);
			if (span->tid == thread->tid)
				call.thread_flops = call.flops;
			step_tally_merge(&ender->at, &call);
			if (step_series_late(&ender->series, end_ns, &call) ||
			    end_ns <= steps->from_ns)
				ender->run.flops += call.flops;
		}
	}
}

int steps_cost(struct steps *steps, const struct perfx_span *span, bool late)
{
	uint64_t end_ns = span->start_ns + span->duration_ns;
	uint32_t at;

	if (!step_counts(span) || end_ns < span->start_ns)
		return 0;
	if (step_costs_add(&steps->costs, span))
		return -ENOMEM;
	if (late)
		cost_late(steps, span, end_ns);
	at = map64_get(&steps->thread_ids, (uint64_t)span->process << 32 | span->tid);
	if (at != MAP64_NONE && span->cost_state == PERFX_COST_COUNTED)
		steps->threads[at].flops += span->flops;
	return 0;
}

/* Where one thread ends steps and another one has the same rank. */
struct best_ender {
	const struct step_thread *thread;
	const struct ender *ender; /* NULL: none yet */
};

/* A period of the main thread is that of the program; of others the one with the most time. */
static bool is_better_period(const struct step_thread *thread, const struct ender *ender,
			     const struct best_ender *best)
{
	if (thread->is_main != best->thread->is_main)
		return thread->is_main;
	return ender->run.total_ns > best->ender->run.total_ns;
}

/* If optimizers take turns, at most one in so many ends of an optimizer follows its own last end.
 */
#define TURNS_AGAIN 10

/* Do optimizers of this one's class step between its steps? */
static bool takes_turns(const struct ender *ender)
{
	return !ender->object || TURNS_AGAIN * ender->again_count <= ender->run.ends_count;
}

/* The optimizer that steps least often, unless it did so in less than half of the time: then it is
 * one of another part of the program. */
static bool is_better_optimizer(const struct ender *ender, const struct ender *best)
{
	bool rarer = ender->run.ends_count < best->run.ends_count;
	const struct ender *rare = rarer ? ender : best, *often = rarer ? best : ender;
	bool covers = rare->run.total_ns >= often->run.total_ns / 2;

	return rarer ? covers : often->run.ends_count > rare->run.ends_count && !covers;
}

static bool is_compiled_period(const struct step_thread *thread, const struct ender *ender)
{
	return ender->rank == STEP_BY_PERIOD && thread->period.compiled;
}

/* TensorFlow takes a gradient also while it traces a function, whose calls are the steps. */
static bool is_better_rank(const struct step_thread *thread, const struct ender *ender,
			   const struct best_ender *best)
{
	if ((is_compiled_period(thread, ender) && best->ender->rank == STEP_BY_BACKWARD) ||
	    (is_compiled_period(best->thread, best->ender) && ender->rank == STEP_BY_BACKWARD))
		return ender->run.ends_count > best->ender->run.ends_count;
	return ender->rank > best->ender->rank;
}

static bool is_better(const struct step_thread *thread, const struct ender *ender,
		      const struct best_ender *best)
{
	if (!ender->run.ends_count || !takes_turns(ender))
		return false;
	if (!best->ender)
		return true;
	if (ender->of_evaluation != best->ender->of_evaluation)
		return !ender->of_evaluation;
	if (ender->rank != best->ender->rank)
		return is_better_rank(thread, ender, best);
	if (ender->rank == STEP_BY_PERIOD)
		return is_better_period(thread, ender, best);
	if (ender->rank == STEP_BY_OPTIMIZER)
		return is_better_optimizer(ender, best->ender);
	/* Evaluations come less often than training steps. */
	if (ender->rank == STEP_BY_CALL)
		return ender->run.ends_count > best->ender->run.ends_count;
	return ender->run.ends_count < best->ender->run.ends_count;
}

static void find_best(const struct step_thread *threads, size_t count, uint32_t process,
		      struct best_ender *best)
{
	for (size_t i = 0; i < count; i++) {
		const struct step_thread *thread = &threads[i];

		for (size_t j = 0; thread->process == process && j < thread->enders_count; j++)
			if (is_better(thread, &thread->enders[j], best))
				*best = (struct best_ender){thread, &thread->enders[j]};
	}
}

/* Threads of a pool make the same calls: each comes at least half as often to its end. */
static unsigned count_alike(const struct step_thread *threads, size_t count, uint32_t process,
			    const struct best_ender *best)
{
	unsigned alike = 0;

	for (size_t i = 0; i < count; i++) {
		const struct step_thread *thread = &threads[i];

		if (thread->process != process || thread->tid == best->thread->tid)
			continue;
		for (size_t j = 0; j < thread->enders_count; j++)
			alike += thread->enders[j].rank == STEP_BY_PERIOD &&
				 thread->enders[j].function == best->ender->function &&
				 2 * thread->enders[j].series.ends_count >=
					 best->ender->series.ends_count;
	}
	return alike;
}

/* How many threads repeat the same calls, none of them the main one: each has units of work of its
 * own, and the process has no steps. 0: it is one thread, whose steps they are. */
static unsigned repeating_threads(const struct steps *steps, uint32_t process,
				  const struct best_ender *best)
{
	unsigned alike;

	if (best->ender->rank != STEP_BY_PERIOD || best->thread->is_main)
		return 0;
	alike = count_alike(steps->threads, steps->threads_count, process, best) +
		count_alike(steps->shown, steps->shown_count, process, best);
	return alike ? alike + 1 : 0;
}

static uint64_t quantile_of(const struct ender *ender, double q)
{
	uint64_t value = sketch__quantile(ender->durations, q);

	return value < ender->series.max_ns ? value : ender->series.max_ns;
}

struct profile_steps steps_of_process(const struct steps *steps, uint32_t process)
{
	struct profile_steps result = {0};
	struct best_ender found = {0};
	struct step_limits limits;
	const struct ender *best;
	unsigned repeating;

	find_best(steps->threads, steps->threads_count, process, &found);
	if (found.ender)
		result.run = found.ender->run;
	find_best(steps->shown, steps->shown_count, process, &found);
	best = found.ender;
	if (!best || !best->series.ends_count)
		return result;
	repeating = repeating_threads(steps, process, &found);
	if (repeating)
		return (struct profile_steps){.repeating_threads = repeating,
					      .repeated = best->function};
	limits = step_costs_limits(&steps->costs, process);
	result.times_until_ns = limits.times_ns;
	result.costs_until_ns = limits.costs_ns;
	result.backward_until_ns = limits.backward_ns;
	result.optimizer_until_ns = knows_optimizer(found.thread) ? 0 : limits.backward_ns;
	result.ends_count = best->series.ends_count;
	result.first_ns = found.thread->first_ns;
	result.tid = found.thread->tid;
	result.found_by = (enum profile_steps_by)best->rank;
	result.context = best->rank == STEP_BY_PERIOD ? found.thread->period.context : 0;
	result.confidence = best->rank == STEP_BY_PERIOD ? best->confidence : 1;
	result.function = best->function;
	if (!best->series.count)
		return result;
	step_series_show(&best->series, &result);
	result.p50_ns = quantile_of(best, 0.50);
	result.p95_ns = quantile_of(best, 0.95);
	result.times = best->times.list;
	result.times_count = best->times.count;
	return result;
}

/* Consecutive parts of a recording. In order of their medians, the lowest and the highest part are
 * left out: the first part may have probes that the budget removed. */
#define PARTS 8
/* The others of eight normal values are so many standard deviations apart. */
#define PARTS_APART 1.70

static uint64_t drift_of(const struct step_picks *picks)
{
	uint64_t medians_ns[PARTS];

	if (picks->count < PARTS)
		return 0;
	for (size_t i = 0; i < PARTS; i++) {
		size_t from = picks->count * i / PARTS, to = picks->count * (i + 1) / PARTS;

		medians_ns[i] = median_u64(picks->ns + from, to - from);
	}
	qsort(medians_ns, PARTS, sizeof(*medians_ns), compare_u64);
	return (uint64_t)(2 / PARTS_APART * (double)(medians_ns[PARTS - 2] - medians_ns[1]));
}

struct steps_middle steps_middle_of(const struct steps *steps, uint32_t process, uint32_t tid,
				    uint32_t function)
{
	uint32_t at = map64_get(&steps->thread_ids, (uint64_t)process << 32 | tid);

	for (size_t i = 0; at != MAP64_NONE && i < steps->threads[at].enders_count; i++) {
		const struct ender *ender = &steps->threads[at].enders[i];

		if (ender->function == function)
			return (struct steps_middle){
				.count = ender->series.count,
				.median_ns = median_u64(ender->picks.ns, ender->picks.count),
				.spread_ns = quantile_of(ender, 0.75) - quantile_of(ender, 0.25),
				.drift_ns = drift_of(&ender->picks)};
	}
	return (struct steps_middle){0};
}

/* What it has counted belongs to the run alone from now on. */
static int ender_continue(struct ender *ender)
{
	ender->series = (struct step_series){0};
	ender->times = (struct step_times){0};
	ender->picks = (struct step_picks){0};
	ender->durations = sketch__new();
	return ender->durations ? 0 : -ENOMEM;
}

/* Of a thread that ends no steps nothing can be missed if it has made no call since. */
static bool is_idle(const struct step_thread *thread, uint64_t since_ns)
{
	return !thread->enders_count &&
	       (!thread->count || thread->intervals[thread->count - 1].to_ns < since_ns);
}

static int thread_continue(struct steps *steps, struct step_thread *before)
{
	struct step_thread *thread = thread_of(steps, before->process, before->tid);

	if (!thread)
		return -ENOMEM;
	*thread = *before;
	before->intervals = NULL;
	before->count = before->capacity = 0;
	thread->enders_count = 0;
	for (; thread->enders_count < before->enders_count; thread->enders_count++)
		if (ender_continue(&thread->enders[thread->enders_count]))
			return -ENOMEM;
	return 0;
}

int steps_continue(struct steps *steps, struct steps *before, uint64_t from_ns,
		   bool (*goes_on)(void *ctx, uint32_t process), void *ctx)
{
	uint64_t since_ns = before->from_ns;
	int err = 0;

	steps->from_ns = from_ns;
	steps->recording_windows_count = 0;
	for (size_t i = 0; i < before->recording_windows_count && !err; i++)
		err = steps_recording_window(steps, before->recording_windows[i]);
	for (size_t i = 0; i < before->threads_count && !err; i++)
		if (goes_on(ctx, before->threads[i].process) &&
		    !is_idle(&before->threads[i], since_ns))
			err = thread_continue(steps, &before->threads[i]);
	if (!err)
		err = step_costs_continue(&steps->costs, &before->costs, from_ns, goes_on, ctx);
	/* where steps end, those to come have no calls of the past */
	for (size_t i = 0; i < steps->threads_count && !err; i++)
		if (steps->threads[i].enders_count)
			step_costs_forget_calls(&steps->costs, steps->threads[i].process, from_ns);
	return err;
}

void steps_clear(struct steps *steps)
{
	for (size_t i = 0; i < steps->threads_count; i++)
		step_thread_clear(&steps->threads[i]);
	steps_hide_periods(steps);
	free(steps->shown);
	free(steps->threads);
	free(steps->recording_windows);
	map64_clear(&steps->thread_ids);
	step_costs_clear(&steps->costs);
	*steps = (struct steps){0};
}
