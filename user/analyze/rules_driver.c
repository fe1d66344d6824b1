// SPDX-License-Identifier: BSD-2-Clause
/* Rules about the thread that drives a process: it runs Python instead of operators, or waits. */
#include "analyze/account.h"
#include "analyze/hottest.h"
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "analyze/wait_class.h"
#include "base/escape.h"
#include "remedy_texts.h"

#include <math.h>

void add_step_part(struct text *text, const struct rules_ctx *ctx, double share)
{
	uint64_t step_ns = ctx->process->steps.count ? ctx->process->steps.avg_ns : 0;

	/* waits and steps are measured by two clocks: together they may be more than all of it */
	if (step_ns)
		text_printf(text, " (%s of each %s step)",
			    as_ns(u64_of(fmin(share, 1) * (double)step_ns)), as_ns(step_ns));
}

void rules_subject(struct note *note, const struct rules_ctx *ctx)
{
	note->of_function = note->place;
	if (note->place)
		location_place(&note->subject, note->place);
	else
		add_process_name(&note->subject, ctx->process);
}

void rules_headline(struct note *note, const struct rules_ctx *ctx, const char *of,
		    const char *words, const char *where)
{
	text_printf(&note->headline, "%s%s", as_percent(note->share), of);
	add_step_part(&note->headline, ctx, note->share);
	text_printf(&note->headline, " %s", words);
	if (!note->place)
		return;
	text_printf(&note->headline, ", %s ", where);
	location_place(&note->headline, note->place);
}

double confidence_above(double distance, double error)
{
	return error > 0 ? 0.5 * erfc(-distance / error / sqrt(2)) : 1;
}

/* Most of the Python is that of a start. */
static bool starts_up(const struct rules_ctx *ctx)
{
	return 2 * ctx->driver->importing.ns > ctx->driver->python.ns;
}

/* Is the function the program's own, and what it runs Python of packages? */
static bool calls_packages(const struct rules_ctx *ctx, const struct place *lead)
{
	const struct own_python *own = &ctx->driver->own;

	return own->runs_packages && lead->frame &&
	       frame_is_same_function(lead->frame, own->lead.frame);
}

static void add_python_time(struct text *text, const struct rules_ctx *ctx,
			    const struct sampled *python, double share)
{
	text_printf(text, "%s%s", as_percent(share), rules_of_judged(ctx));
	add_step_part(text, ctx, share);
	text_add(text,
		 starts_up(ctx) ? " imports modules" : " runs Python, outside of traced calls");
	if (!python->lead.frame)
		return;
	text_printf(text, ", most of it %s", calls_packages(ctx, &python->lead) ? "below " : "");
	location_place(text, python->lead.frame);
	text_add(text, ": ");
	add_percent(text, (double)python->lead.ns / (double)ctx->driver->judged_ns);
	add_line_share(text, &python->lead);
}

/* A line with this share of the CPU time may wait for a flag in a loop. */
#define ONE_LINE 0.95

static const char *python_remedy(const struct rules_ctx *ctx, const struct place *lead)
{
	uint64_t line_ns = 0, all_ns = 0;

	if (starts_up(ctx))
		return TRY_IMPORT_LATER;
	if (!lead->frame)
		return TRY_VECTORISE;
	if (!location_is_own_python(lead->frame))
		return TRY_SMALL_OPERATORS;
	/* does it run one line of the program that calls nothing but the interpreter? */
	FOR_EACH_OF (sample, ctx->process->samples) {
		const struct profile_stack *stack = sample->stack;

		if (sample->tid != ctx->driver->tid || sample->state != PERFX_SAMPLE_ON_CPU ||
		    !stack)
			continue;
		all_ns += sample->ns;
		if (stack_runs_python(stack) &&
		    frame_is_same_line(stack->frames[stack_innermost_python(stack)], lead->frame))
			line_ns += sample->ns;
	}
	if ((double)line_ns >= ONE_LINE * (double)all_ns)
		return TRY_ONE_LINE_LOOP;
	return calls_packages(ctx, lead) ? TRY_SMALL_OPERATORS : TRY_VECTORISE;
}

/* The gain, and the share to which that standard error belongs. */
struct python_share {
	double share, error;
};

/* Samples divide the time outside of traced calls, which is known exactly; unless they contradict
 * it, where a thread waits and nothing says so. */
static struct python_share own_share(const struct rules_ctx *ctx)
{
	const struct driver *driver = ctx->driver;
	const struct step_time *time = ctx->time;
	double wall = (double)driver->judged_ns, outside = (double)driver->outside.ns / wall;
	double error = driver->outside.error_ns / wall;
	double exact = (time->ns[TIME_PYTHON] + time->ns[TIME_NATIVE]) / time->unit_ns;
	double part = driver->outside.ns ? (double)driver->own.ns / (double)driver->outside.ns : 0;

	if (part > 0 && fabs(exact - outside) <= 2 * error) {
		outside = exact;
		error = outside *
			sqrt((1 - part) / (part * fmax((double)driver->outside.count, 1)));
	}
	return (struct python_share){.share = outside * part, .error = error * part};
}

/* Samples differ by so much from one recording to the next. */
#define OWN_NOISE 0.05

/* Is a function of the program, with what it calls, at least all of the Python that runs? A
 * function that calls nothing is named already. */
static bool own_is_all(const struct driver *driver)
{
	const struct own_python *own = &driver->own;
	double noise = OWN_NOISE * (double)driver->python.ns, more;

	if (!own->function)
		return false;
	more = (double)own->ns - (double)driver->python.ns;
	return frame_is_same_function(own->function, own->lead.frame) ? more > noise
								      : more > -noise;
}

/* A function that takes so much of the time is what the program is there for: nobody knows what is
 * left of it when it is written in another way. */
#define WHOLE_WORK 0.50

/* The threshold for the program's own functions is as low as that of DataBound: they can be
 * rewritten. Python that prepares the next batch belongs to DataBound, if that fires. */
static void python_bound(struct rules_ctx *ctx)
{
	const struct driver *driver = ctx->driver;
	const struct thresholds *t = ctx->thresholds;
	const struct sampled *python = &driver->python;
	double wall = (double)driver->judged_ns, share = (double)python->ns / wall;
	double error = python->error_ns / wall, least = share - t->python_bound_deviations * error;
	struct python_share own = own_share(ctx);
	double own_least = own.share - t->python_bound_deviations * own.error;
	bool is_own = driver->own.function && own_least >= t->python_bound_own;
	struct note note = {.bottleneck = BOTTLENECK_PYTHON,
			    .place = is_own ? driver->own.lead.frame : python->lead.frame,
			    .share = is_own ? fmax(own.share, share) : share};

	if (rules_data_bound(ctx))
		least -= (double)driver->data.ns / wall;
	if (gpu_is_limit(ctx->process, ctx->thresholds) ||
	    (double)python->count < t->python_bound_samples ||
	    (!is_own && least < t->python_bound_medium))
		return;
	note.gain_ns = (is_own ? own.share : share) * rules_unit_ns(ctx);
	note.gain_unknown = !is_own || own.share >= WHOLE_WORK || starts_up(ctx);
	note.confidence = is_own ? confidence_above(own.share - t->python_bound_own, own.error)
				 : confidence_above(share - t->python_bound_medium, error);
	rules_subject(&note, ctx);
	add_python_time(&note.evidence, ctx, python, share);
	if (own_is_all(driver)) {
		location_after(&note.evidence, "; ", driver->own.function);
		text_printf(&note.evidence, " and what it calls take %s", as_percent(own.share));
	}
	text_printf(&note.evidence, " (%llu samples, standard error %.1f points)",
		    (unsigned long long)python->count, 100 * error);
	text_printf(
		&note.threshold,
		"at least %g %% of the wall time in a function of the program, or %g %% in all, "
		"with a confidence of %.3g %% (high: %g %%)",
		t->python_bound_own * 100, t->python_bound_medium * 100,
		confidence_above(t->python_bound_deviations, 1) * 100, t->python_bound_high * 100);
	rules_suggest(&note, ctx, python_remedy(ctx, &python->lead));
	if (is_own && own_is_all(driver) && !starts_up(ctx)) {
		/* "21.4 % of the wall time (2.12 ms of each 9.88 ms step) is Python.batch
		 * (train.py:142) and what it calls, most of it Python in normalize (train.py:112)"
		 */
		text_printf(&note.headline, "%s%s", as_percent(own.share), rules_of_judged(ctx));
		add_step_part(&note.headline, ctx, own.share);
		location_after(&note.headline, " is ", driver->own.function);
		location_after(&note.headline, " and what it calls, most of it Python in ",
			       driver->own.lead.frame);
	} else {
		add_python_time(&note.headline, ctx, python, share);
	}
	rules_ctx_add(ctx, "PythonBound",
		      fmax(least, is_own ? own_least : 0) >= t->python_bound_high ? FINDING_HIGH
										  : FINDING_MEDIUM,
		      note.share, &note);
}

/*
 * Who else uses the lock for which a thread waits, and who has it meanwhile.
 *
 * The holder of Python's GIL is recorded, and of a lock the thread that woke the waiting one, as it
 * released it. In older captures it is one of the threads that wait for the same lock at other
 * times: of these the one that runs most, if it runs the very function in which it waits for the
 * lock. All that do so may hold it as well.
 */

struct lock_use {
	unsigned waiters_count; /* threads, the one that was asked for included */
	uint64_t waited_ns;	/* of all of them */
	uint32_t holder_tid;	/* 0: not known */
	unsigned holders_count; /* threads that may be meant: it is the one that runs most */
	bool holder_recorded;	/* otherwise it is likely by what it runs */
	struct place holder;	/* what that runs; frame NULL: not known */
};

static bool is_same_lock(const struct profile_activity *a, const struct profile_activity *b)
{
	return a->object && a->object == b->object && a->reason == b->reason;
}

static struct lock_use lock_use_of(const struct profile_process *process,
				   const struct profile_activity *wait)
{
	const struct profile_activities *waits = &process->blocked;
	struct lock_use use = {.holder_tid = wait->holder_tid,
			       .holder_recorded = wait->holder_tid != 0};

	if (use.holder_recorded) {
		use.holder = thread_place(process, use.holder_tid);
		use.holders_count = 1;
	}
	for (size_t i = 0; i < waits->count; i++) {
		const struct profile_activity *other = &waits->list[i];
		const struct profile_frame *waits_in;
		bool is_counted = false;
		struct place runs;

		if (!is_same_lock(other, wait))
			continue;
		use.waited_ns += other->ns;
		/* a thread's waits for one lock are several rows where several threads held it */
		for (size_t k = 0; k < i && !is_counted; k++)
			is_counted = waits->list[k].tid == other->tid &&
				     is_same_lock(&waits->list[k], other);
		if (is_counted)
			continue;
		use.waiters_count++;
		if (other->tid == wait->tid)
			continue;
		runs = thread_place(process, other->tid);
		waits_in = wait_place(process, other);
		if (!waits_in || !runs.frame || !frame_is_same_function(waits_in, runs.frame))
			continue;
		/* it may have the lock when another one waits for it */
		if (use.holder_recorded) {
			use.holders_count += other->tid != use.holder_tid && use.holder.frame &&
					     frame_is_same_function(runs.frame, use.holder.frame);
			continue;
		}
		use.holders_count++;
		if (runs.ns <= use.holder.ns)
			continue;
		use.holder_tid = other->tid;
		use.holder = runs;
	}
	return use;
}

static const struct wait_rule {
	enum account_class wait;
	enum bottleneck bottleneck;
	const char *kind, *words, *remedy;
} wait_rules[] = {
	{ACCOUNT_GIL, BOTTLENECK_GIL, "GilWait", "Python's global interpreter lock (GIL)", NULL},
	{ACCOUNT_LOCK, BOTTLENECK_LOCK, "LockWait", "a lock that another thread held", NULL},
	{ACCOUNT_INPUT, BOTTLENECK_INPUT, "InputWait", "input", NULL},
	{ACCOUNT_INPUT, BOTTLENECK_IDLE, "InputWait", "requests", TRY_REQUESTS},
	{ACCOUNT_OUTPUT, BOTTLENECK_OUTPUT, "OutputWait", "the reader of its output", NULL},
	{ACCOUNT_DISK, BOTTLENECK_DISK, "DiskWait", "the disk", NULL},
	{ACCOUNT_SLEEP, BOTTLENECK_SLEEP, "SleepWait", "a fixed time to pass (sleep)", NULL},
	{ACCOUNT_CHILD, BOTTLENECK_CHILD, "ChildWait", "a child process to end", NULL},
};

#define LOOP_WORDS "the next timer or event of its event loop"
/* Does it sleep in an event loop? Its tasks' lines are in no stack meanwhile. */
static bool is_in_loop(const struct wait_rule *rule, const struct driver_wait *wait)
{
	return rule->wait == ACCOUNT_SLEEP && wait_is_for_own_events(wait->most);
}

/* Sleeps that are so short only let other threads run before the next look, */
#define POLL_NS 1000000
/* if the thread runs for no more than this part of them in between. */
#define POLL_WORK 0.25

/* Does it hardly do more than sleep? Its work elsewhere counts, too: then there is no finding. The
 * CPU time outside of system calls counts: going to sleep and waking up may take longer than a
 * short sleep. */
static bool is_polling(const struct rules_ctx *ctx, const struct driver_wait *wait)
{
	const struct profile_thread *thread = profile_thread(ctx->process, ctx->driver->tid);
	double judged = (double)ctx->driver->judged_ns / (double)ctx->driver->wall_ns;
	double outside = 0, all = 0;

	if (!wait->count || wait->extended || wait->ns / wait->count >= POLL_NS)
		return false;
	if (!thread || thread->on_cpu_ns == PROFILE_ABSENT)
		return true;
	FOR_EACH_OF (sample, ctx->process->samples) {
		const struct profile_stack *stack = sample->stack;

		if (sample->tid != ctx->driver->tid || sample->state != PERFX_SAMPLE_ON_CPU)
			continue;
		all += (double)sample->ns;
		if (!stack || !stack->frames_count || !frame_is_system_call(stack->frames[0]))
			outside += (double)sample->ns;
	}
	return judged * (all > 0 ? outside / all : 1) * (double)thread->on_cpu_ns <=
	       POLL_WORK * (double)wait->ns;
}

static bool is_for_requests(const struct wait_rule *rule)
{
	return rule->bottleneck == BOTTLENECK_IDLE;
}

static bool is_lock(const struct wait_rule *rule)
{
	return rule->wait == ACCOUNT_GIL || rule->wait == ACCOUNT_LOCK;
}

/* Where nobody is known to have the lock, it may belong to a thread of another process. */
static const char *lock_words(const struct rules_ctx *ctx, const struct wait_rule *rule,
			      const struct driver_wait *wait, const struct lock_use *use)
{
	if (wait_is_for_file_lock(wait->most))
		return "a file lock that another process held";
	if (rule->wait != ACCOUNT_LOCK)
		return rule->words;
	return !use->holder_tid			     ? "a lock"
	       : use->holder_tid == ctx->driver->tid ? "a lock that it held itself"
						     : rule->words;
}

static void add_wait(struct text *text, struct rules_ctx *ctx, const struct wait_rule *rule,
		     const struct driver_wait *wait, const struct lock_use *use, double share)
{
	bool is_file = wait_is_for_file_lock(wait->most);
	const char *holder =
		use->holder_tid ? profile_thread_name(ctx->process, use->holder_tid) : "";
	struct sampled python;

	text_printf(text, "%s, %s%s",
		    is_in_loop(rule, wait) ? LOOP_WORDS : lock_words(ctx, rule, wait, use),
		    as_percent(share), rules_of_judged(ctx));
	add_step_part(text, ctx, share);
	if (is_in_loop(rule, wait)) {
		text_add(text, ", before which it has nothing to run");
	} else if (is_for_requests(rule) && ctx->requests.client) {
		text_add(text, "; another thread sends them, and waits for each answer");
		location_after(text, " in ", stack_place(ctx->requests.client->stack));
	} else if (rule->wait != ACCOUNT_GIL && wait->most->object_name[0]) {
		text_printf(text, ", %s of it for ",
			    as_percent((double)wait->most_ns / (double)wait->ns));
		escape_name(text, wait->most->object_name);
	}
	if (rule->wait == ACCOUNT_INPUT && !is_for_requests(rule))
		add_feeder(text, ctx);
	if (is_lock(rule) && !is_file) {
		if (rule->wait != ACCOUNT_GIL && use->waiters_count > 1)
			text_printf(text, ", for which %u threads wait, %.1f at a time",
				    use->waiters_count,
				    (double)use->waited_ns / (double)ctx->driver->wall_ns);
		if (use->holder_tid && use->holder_tid != ctx->driver->tid) {
			/* ", held mostly by thread loader (tid 43), which runs spin (train.py:12)"
			 */
			text_printf(text, ", %s by thread ",
				    use->holder_recorded ? "held mostly" : "probably held");
			escape_name(text, holder[0] ? holder : "?");
			text_printf(text, " (tid %u)", use->holder_tid);
			if (use->holders_count > 1)
				text_printf(text, " and %u more", use->holders_count - 1);
			location_after(text,
				       use->holders_count > 1 ? ", which run " : ", which runs ",
				       use->holder.frame);
		} else if (rule->wait != ACCOUNT_GIL && !use->holder_tid) {
			text_add(text, "; who holds it is not known");
		}
	}
	if (rule->wait == ACCOUNT_SLEEP && is_polling(ctx, wait))
		text_printf(text, ", in %s sleeps of %s: it polls", as_count(wait->count),
			    as_ns(wait->ns / wait->count));
	if (rule->wait == ACCOUNT_GIL && !use->holder_tid) {
		/* "; meanwhile another thread runs mostly spin (train.py:12)" */
		if (sampled_python(&python, ctx->profile, ctx->process, ctx->driver->tid))
			ctx->failed = true;
		if ((double)python.count >= ctx->thresholds->all_cause_samples)
			location_after(text, "; meanwhile another thread runs mostly ",
				       python.lead.frame);
	}
}

/* The least part of the waits for a CPU that is printed. */
#define MUTEX_SAID 0.10

static void waits(struct rules_ctx *ctx, const struct wait_rule *rule)
{
	const struct driver_wait *wait = &ctx->driver->waits[rule->wait];
	double share = (double)wait->ns / (double)ctx->driver->judged_ns;
	double least = threshold_of(ctx->thresholds, rule->kind, "medium");
	struct note note = {.bottleneck = rule->bottleneck,
			    .gain_ns = (double)(wait->ns + wait->running_ns) /
				       (double)ctx->driver->judged_ns * rules_unit_ns(ctx),
			    .confidence = 1,
			    .look = "Waiting",
			    .share = share};
	const struct profile_frame *waiting_line;
	struct lock_use use = {0};
	double mutex = rule->wait == ACCOUNT_LOCK ? rules_mutex_part(ctx) : 0;

	bool in_loop, in_python;
	enum finding_severity severity;
	const char *remedy = rule->remedy;

	if (!wait->most || share < least)
		return;
	/* the line that waits; in an event loop the program's own that runs it, not the loop's */
	in_loop = is_in_loop(rule, wait);
	in_python = wait->place && wait->place->language == PERFX_LANGUAGE_PYTHON;
	waiting_line =
		in_loop && in_python && !location_is_own_python(wait->place) ? NULL : wait->place;
	note.place = waiting_line;
	note.gain_ns += mutex * (double)ctx->driver->runnable_ns / (double)ctx->driver->judged_ns *
			rules_unit_ns(ctx);
	/* a child's work takes its time, and requests come when they come */
	note.gain_unknown = rule->wait == ACCOUNT_CHILD || is_for_requests(rule) ||
			    (rule->wait == ACCOUNT_INPUT && !ctx->process->steps.count);
	rules_subject(&note, ctx);
	if (is_lock(rule))
		use = lock_use_of(ctx->process, wait->most);
	/* no line of the waiting thread asks for the interpreter: the cause is what has it */
	if (rule->wait == ACCOUNT_GIL && use.holder.frame)
		note.place = use.holder.frame;
	text_printf(&note.evidence, "waited %s for ", as_ns(wait->ns));
	add_wait(&note.evidence, ctx, rule, wait, &use, share);
	text_printf(&note.evidence, "; the longest of %s%s%s", as_count(wait->count),
		    wait->extended     ? " recorded waits "
		    : wait->count == 1 ? " wait "
				       : " waits ",
		    as_ns(wait->max_ns));
	if (wait->extended)
		text_add(&note.evidence, " (samples say how long it waited after the budget "
					 "stopped recording waits)");
	if (mutex >= MUTEX_SAID)
		text_printf(&note.evidence, "; %s of its waiting for a CPU was at a mutex, too",
			    as_percent(mutex));
	if (wait->running_ns)
		text_printf(&note.evidence, "; its system calls there ran for another %s",
			    as_ns(wait->running_ns));
	/* without a remedy the finding has the suggestion of its kind */
	if (in_loop)
		remedy = in_python ? TRY_EVENT_LOOP : TRY_NATIVE_EVENT_LOOP;
	else if (wait_is_for_file_lock(wait->most))
		remedy = TRY_FILE_LOCK;
	if (remedy)
		rules_suggest(&note, ctx, remedy);
	add_process_name(&note.headline, ctx->process);
	text_add(&note.headline, " waits for ");
	add_wait(&note.headline, ctx, rule, wait, &use, share);
	if (wait->place && use.holder.frame && frame_is_same_line(wait->place, use.holder.frame)) {
		text_add(&note.headline, "; it waits there, too");
	} else {
		location_after(&note.headline,
			       in_loop ? "; it runs the loop in " : "; it waits in ", waiting_line);
	}
	severity = high_if(share >= threshold_of(ctx->thresholds, rule->kind, "high"));
	/* a process that does not train may wait for requests */
	if (rule->wait == ACCOUNT_INPUT && (!ctx->process->steps.count || is_for_requests(rule)))
		severity = FINDING_MEDIUM;
	/* a process beside the working one has to wait */
	if (ctx->is_minor || (!ctx->is_main && rules_is_idle(ctx)))
		severity = FINDING_LOW;
	rules_ctx_add(ctx, rule->kind, severity, share, &note);
}

/* Threads that poll for a lock use CPUs for nothing, whichever of them drives the process. */
static void spins(struct rules_ctx *ctx)
{
	const struct profile_activities *samples = &ctx->process->samples;
	const struct thresholds *t = ctx->thresholds;
	struct note note = {
		.bottleneck = BOTTLENECK_LOCK, .confidence = 1, .look = "Native functions"};
	uint64_t cpu_ns = 0, spin_ns = 0;
	struct lines places = {0};
	double share;

	FOR_EACH_OF (sample, *samples) {
		const struct profile_stack *stack = sample->stack;

		if (sample->state != PERFX_SAMPLE_ON_CPU)
			continue;
		cpu_ns += sample->ns;
		if (!stack || !stack->frames_count || !frame_is(stack->frames[0], CODE_SPIN_LOCK))
			continue;
		spin_ns += sample->ns;
		lines_add(&places, place_native(stack), sample->ns);
	}
	if (!spin_ns)
		return;
	share = (double)spin_ns / fmax((double)cpu_ns, (double)ctx->driver->wall_ns);
	if (share < t->lock_wait_medium)
		return;
	note.share = share;
	note.gain_ns = share * rules_unit_ns(ctx);
	note.gain_unknown = true;
	note.place = lines_lead(&places).frame;
	rules_subject(&note, ctx);
	add_percent(&note.evidence, (double)spin_ns / (double)cpu_ns);
	text_add(&note.evidence, " of all threads' CPU time only polls for a lock");
	text_add(&note.headline, text_peek(&note.evidence));
	location_after(&note.headline, ", in ", note.place);
	text_printf(&note.threshold, "at least %g %% of the CPU time, and of the wall time",
		    t->lock_wait_medium * 100);
	rules_suggest(&note, ctx, TRY_SPIN_LOCK);
	rules_ctx_add(ctx, "LockWait", high_if(share >= t->lock_wait_high), share, &note);
}

/* Threads take turns in running Python, while the one that drives the process waits for them. */
static void gil_of_threads(struct rules_ctx *ctx)
{
	double threads = (double)ctx->driver->gil_ns / (double)ctx->driver->wall_ns;
	double used = cpu_share(ctx->process);
	double share = (double)ctx->driver->waits[ACCOUNT_GIL].ns / (double)ctx->driver->judged_ns;
	struct sampled python = {0};
	struct note note = {.bottleneck = BOTTLENECK_GIL, .confidence = 1};
	enum finding_severity severity;

	if (share >= ctx->thresholds->gil_wait_medium ||
	    threads < ctx->thresholds->gil_wait_threads_medium)
		return;
	if (sampled_python(&python, ctx->profile, ctx->process, 0))
		ctx->failed = true;
	note.place = python.lead.frame;
	rules_subject(&note, ctx);
	text_printf(&note.evidence, "threads waited %s for %s, %.1f of them at a time on average",
		    as_ns(ctx->driver->gil_ns), wait_rules[0].words, threads);
	location_after(&note.evidence, "; Python runs mostly in ", python.lead.frame);
	text_printf(&note.threshold, "at least %.3g threads on average (high: %.3g)",
		    ctx->thresholds->gil_wait_threads_medium,
		    ctx->thresholds->gil_wait_threads_high);
	/* without the lock its waiting threads would run, too, as far as CPUs are free */
	if (used > 0)
		note.gain_ns = fmax(1 - used / fmin(rules_allowed_cpus(ctx), used + threads), 0) *
			       rules_unit_ns(ctx);
	severity = rules_severity(ctx, note.gain_ns);
	if (severity < FINDING_MEDIUM && threads < ctx->thresholds->gil_wait_threads_high)
		severity = FINDING_MEDIUM;
	rules_ctx_add(ctx, "GilWait", severity, threads, &note);
}

/* Less often it may only look whether it has to end. */
#define SERVER_READS_PER_S 5

/* A process that does hardly anything, and nothing traced, may be a server, which should wait for
 * requests: IdleTarget reports it. One that reads again and again needs what it reads. */
static bool is_servers_wait(const struct rules_ctx *ctx, enum account_class class)
{
	const struct driver_wait *wait = &ctx->driver->waits[class];
	bool receives = false;

	if (!wait->most || !rules_is_idle(ctx))
		return false;
	/* an event loop that no timer wakes up, or whose requests another thread receives, waits
	 * for something to do */
	FOR_EACH (thread, ctx->account->threads)
		receives |= thread->tid != ctx->driver->tid &&
			    2 * thread->ns[ACCOUNT_INPUT] > thread->wall_ns;
	if (class == ACCOUNT_SLEEP)
		return wait_is_for_own_events(wait->most) && (wait->count < 2 || receives);
	return class == ACCOUNT_INPUT && !ctx->process->calls_count &&
	       (wait->most->reason == PERFX_WAIT_EPOLL || wait->most->reason == PERFX_WAIT_POLL ||
		rate_of(ctx->process, wait->count) < SERVER_READS_PER_S);
}

void rules_driver(struct rules_ctx *ctx)
{
	if (!ctx->driver->wall_ns || rules_is_helper(ctx))
		return;
	/* a loader's worker is judged by what its parent waits for */
	if (rules_is_worker(ctx) && !ctx->process->steps.count)
		return;
	python_bound(ctx);
	gil_of_threads(ctx);
	spins(ctx);
	for (size_t i = 0; i < sizeof(wait_rules) / sizeof(wait_rules[0]); i++)
		if ((wait_rules[i].wait != ACCOUNT_INPUT ||
		     is_for_requests(&wait_rules[i]) == ctx->requests.awaited) &&
		    !is_servers_wait(ctx, wait_rules[i].wait))
			waits(ctx, &wait_rules[i]);
}
