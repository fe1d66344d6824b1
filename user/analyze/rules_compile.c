// SPDX-License-Identifier: BSD-2-Clause
/* A rule about compilers that keep working: those of frameworks (XLA, torch.compile), and C++ and
 * other compilers that the program starts and waits for. Samples of the framework's Python code
 * that traces, lowers and compiles, whether it runs or waits for the compiler's threads, give the
 * time that compilation takes from the thread of the steps. Calls of XLA's compiler give the number
 * and the times of compilations. */
#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/rules_ctx.h"
#include "analyze/stack_kind.h"
#include "analyze/wait_class.h"
#include "base/escape.h"
#include "base/units.h"
#include "elf/glob.h"
#include "remedy_texts.h"

#include <math.h>
#include <string.h>

bool is_compiler_of_another(const struct profile *profile, const struct profile_process *process)
{
	/* as the kernel cuts names to 15 bytes; below a driver with another name one of these runs
	 */
	static const char *const compilers[] = {
		"cc1*",	    "g++*",	"gcc*",	 "c++*",	"cc",	  "as",	    "ld",   "ld.*",
		"mold",	    "collect2", "lto1",	 "lto-wrapper", "f951",	  "clang*", "lld*", "nvcc",
		"cudafe++", "cicc",	"ptxas", "fatbinary",	"nvlink", "rustc",  "cmake"};
	/* the process pools of torch.compile, and the process that tries to load the results */
	static const char *const pythons[] = {"/torch/_inductor/", "cdll.LoadLibrary(\""};
	bool is_compiler = false;

	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++)
		is_compiler |= glob_matches(compilers[i], process->comm);
	for (size_t i = 0; i < sizeof(pythons) / sizeof(pythons[0]); i++)
		is_compiler |= strstr(process->cmdline, pythons[i]) != NULL;
	return is_compiler && profile_parent(profile, process);
}

struct compilation {
	bool whole;	    /* in the whole recording, also outside of the steps */
	double wall_ns;	    /* of that period */
	uint64_t ns, count; /* number of samples */
	double squares;
	struct lines callers;		     /* lines of the program that lead to the compilation */
	struct lines functions;		     /* functions of the program that are traced again */
	const struct profile_row *row;	     /* the calls of the compiler; NULL: not traced */
	const struct profile_process *child; /* the compiler for which it waits; NULL: its own */
};

static void add_stack(struct compilation *found, const struct profile_stack *stack, size_t compiler,
		      uint64_t ns)
{
	const struct profile_frame *const *outer = stack->frames + compiler;
	size_t outer_count = stack->frames_count - compiler;
	size_t caller = location_python(outer, outer_count);

	/* the frame may be missing from a deep stack that was cut */
	if (caller < outer_count && location_is_own_python(outer[caller]))
		lines_add(&found->callers, outer[caller], ns);
	while (compiler-- > 0) {
		if (!location_is_own_python(stack->frames[compiler]))
			continue;
		lines_add(&found->functions, stack->frames[compiler], ns);
		return;
	}
}

/* The compile time that counts for the finding. */
static uint64_t add_time(struct compilation *found, const struct profile_activity *sample)
{
	uint64_t count = found->whole ? sample->count : activity_judged_count(sample);
	uint64_t ns = found->whole ? sample->ns : activity_judged_ns(sample);

	if (!count)
		return 0;
	found->ns += ns;
	found->count += count;
	found->squares += (double)ns * (double)ns / (double)count;
	return ns;
}

static void add_thread(struct compilation *found, const struct profile_process *p, uint32_t tid)
{
	FOR_EACH_OF (sample, p->samples) {
		size_t compiler = sample->tid == tid ? stack_compiler(sample->stack) : NO_COMPILER;
		uint64_t ns = compiler == NO_COMPILER ? 0 : add_time(found, sample);

		if (ns)
			add_stack(found, sample->stack, compiler, ns);
	}
}

/* Share of the time that it waits for its children in which they must compile. */
#define CHILDREN_COMPILE 0.50

/* Maximum depth: Python, make, a shell, a driver, its compiler. It also ends cycles of reused pids.
 */
#define COMPILERS_DEPTH 8

/* Adds up the CPU time of all compilers below a process. longest: the compiler with the most CPU
 * time; NULL: none. */
static uint64_t compilers_ns(const struct profile *profile, const struct profile_process *above,
			     const struct profile_process **longest, unsigned depth)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < profile->processes_count && depth; i++) {
		const struct profile_process *child = &profile->processes[i];

		if (!profile_is_child(profile, child, above))
			continue;
		ns += compilers_ns(profile, child, longest, depth - 1);
		if (!is_compiler_of_another(profile, child))
			continue;
		ns += process_busy_ns(child);
		if (!*longest || process_busy_ns(child) > process_busy_ns(*longest))
			*longest = child;
	}
	return ns;
}

/* Waiting for children that are compilers also counts as compiling. */
static void add_children(struct compilation *found, const struct rules_ctx *ctx)
{
	const struct profile_activities *samples = &ctx->process->samples;
	uint64_t ns = compilers_ns(ctx->profile, ctx->process, &found->child, COMPILERS_DEPTH);

	for (size_t i = 0; found->child && i < samples->count; i++) {
		const struct profile_activity *sample = &samples->list[i];
		uint64_t waited_ns;

		if (sample->tid != ctx->process->pid || sample->state != PERFX_SAMPLE_WAITING ||
		    !wait_is_for_child(sample))
			continue;
		waited_ns = add_time(found, sample);
		if (sample->stack && waited_ns)
			add_stack(found, sample->stack, 0, waited_ns);
	}
	/* processes between the program and its compilers (make, a shell) give no finding of their
	 * own */
	if ((double)ns < CHILDREN_COMPILE * (double)found->ns ||
	    (!found->callers.count && profile_parent(ctx->profile, ctx->process)))
		*found = (struct compilation){.whole = found->whole, .wall_ns = found->wall_ns};
}

/* A thread that only waits for compiling threads may not be the one that drives the process. */
static void find_compilation(struct compilation *found, const struct rules_ctx *ctx, bool whole)
{
	const struct profile_process *p = ctx->process;

	*found = (struct compilation){.whole = whole,
				      .wall_ns = (double)(whole ? ctx->driver->wall_ns
								: ctx->driver->judged_ns)};
	add_thread(found, p, ctx->driver->tid);
	if (!found->count && ctx->driver->tid != p->pid)
		add_thread(found, p, p->pid);
	if (!found->count)
		add_children(found, ctx);
	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_function *function =
			profile_function(ctx->profile, p->rows[i].function);

		if (function && (!found->row || p->rows[i].total_ns > found->row->total_ns) &&
		    remedy_of_name(function) == REMEDY_COMPILE)
			found->row = &p->rows[i];
	}
}

/* The mean time of its compilations, relative to the process's wall time; < 0: unknown. */
static double center_of(const struct rules_ctx *ctx, const struct compilation *found)
{
	const struct profile_steps *steps = &ctx->process->steps;
	double from = (double)ctx->process->from_ns, ns = 0, moment = 0;
	double wall = (double)profile_wall_ns(ctx->process);

	if (found->row && found->row->center_ns != PROFILE_ABSENT)
		return ((double)found->row->center_ns - from) / wall;
	FOR_EACH (sample, steps->samples) {
		if (stack_compiler(sample->what.stack) == NO_COMPILER)
			continue;
		ns += (double)sample->what.ns;
		moment += (double)sample->what.ns * ((double)sample->time_ns - from);
	}
	return ns > 0 ? moment / ns / wall : -1;
}

/* The age of the process when the recording begins. */
static double age_ns(const struct rules_ctx *ctx)
{
	return (double)ctx->profile->start_boot_ns - (double)ctx->process->start_boot_ns;
}

/* True if it compiles beyond the warm-up that every program has. */
static bool is_steady(const struct rules_ctx *ctx, const struct compilation *found)
{
	double center = center_of(ctx, found);

	if (found->row && found->row->calls_count < 2)
		return false;
	if (center >= 0)
		return center >= ctx->thresholds->recompilation_center;
	return ctx->process->start_boot_ns && age_ns(ctx) >= ctx->thresholds->recompilation_age_ns;
}

/* True if compilations have ended: small ones before a large one, which takes most of the time, do
 * not count. */
static bool has_compiled(const struct compilation *found)
{
	const struct profile_row *row = found->row;

	return row && row->calls_count > 1 && row->total_ns >= found->ns / 2 &&
	       row->max_ns != PROFILE_ABSENT && row->max_ns < row->total_ns / 2;
}

/* True if it does little else, and there is no evidence that it has compiled before. By samples,
 * because a call may be of another thread. */
static bool is_first(const struct rules_ctx *ctx, const struct compilation *found)
{
	const struct thresholds *t = ctx->thresholds;

	return (double)found->count >= t->recompilation_samples &&
	       (double)found->ns >= t->recompilation_compiling * found->wall_ns &&
	       (double)ctx->process->steps.count < t->all_steps && !has_compiled(found);
}

/* A short recording that began with the program may be all warm-up. */
static bool is_young(const struct rules_ctx *ctx)
{
	return ctx->process->start_boot_ns && age_ns(ctx) < ctx->thresholds->recompilation_young_ns;
}

/* Sampled; otherwise the duration of the compiler's calls, of which the part before the first step
 * is unknown. */
static double share_of(const struct rules_ctx *ctx, const struct compilation *found)
{
	if ((double)found->count >= ctx->thresholds->recompilation_samples)
		return fmin((double)found->ns / found->wall_ns, 1);
	return found->row && !ctx->process->steps.outside_ns
		       ? fmin((double)found->row->total_ns / found->wall_ns, 1)
		       : 0;
}

static void add_what(struct text *text, const struct compilation *found)
{
	if (!found->child) {
		text_add(text, "traces, lowers and compiles");
		return;
	}
	text_add(text, "waits for compilers (");
	escape_name(text, found->child->comm);
	text_add(text, ")");
}

static void add_evidence(struct text *text, struct rules_ctx *ctx, const struct compilation *found,
			 double share)
{
	struct place traced = lines_lead(&found->functions);

	add_what(text, found);
	text_printf(text, " for %s%s", as_percent(share),
		    found->whole ? " of the wall time" : rules_of_judged(ctx));
	add_step_part(text, ctx, share);
	if ((double)found->count >= ctx->thresholds->recompilation_samples)
		text_printf(text, ", by %llu samples (standard error %.1f points)",
			    (unsigned long long)found->count,
			    100 * sqrt(found->squares) / found->wall_ns);
	add_slow_period(text, ctx);
	if (found->row) {
		text_printf(text, "; %s compilations", as_count(found->row->calls_count));
		if (found->row->avg_ns != PROFILE_ABSENT)
			text_printf(text, " of %s on average", as_ns(found->row->avg_ns));
	}
	location_after(text, ", of ", traced.frame);
}

static void add_headline(struct note *note, const struct rules_ctx *ctx,
			 const struct compilation *found, bool steady)
{
	if (steady) {
		rules_headline(note, ctx, rules_of_judged(ctx), "compiles again and again",
			       "called in");
		return;
	}
	note->headline_class = "COMPILING";
	text_printf(&note->headline, "%s of the wall time ", as_percent(note->share));
	add_what(&note->headline, found);
	location_after(&note->headline, ", called in ", note->place);
}

void rules_compile(struct rules_ctx *ctx)
{
	struct note note = {.bottleneck = BOTTLENECK_RECOMPILATION};
	const struct thresholds *t = ctx->thresholds;
	enum finding_severity severity;
	struct compilation found;
	double error, least;
	bool steady;

	if (!ctx->driver->wall_ns)
		return;
	find_compilation(&found, ctx, true);
	steady = !is_first(ctx, &found);
	if (steady)
		find_compilation(&found, ctx, false);
	note.share = share_of(ctx, &found);
	if (note.share < t->recompilation_share || (steady && !is_steady(ctx, &found)))
		return;
	least = steady ? t->recompilation_share : t->recompilation_compiling;
	error = sqrt(found.squares) / found.wall_ns;
	note.place = lines_lead(&found.callers).frame;
	/* that it still compiles is reported before other shortages, such as of CPUs */
	note.gain_ns = (steady ? note.share : 1) * rules_unit_ns(ctx);
	note.gain_unknown = !steady;
	note.confidence = confidence_above(note.share - least, error);
	rules_subject(&note, ctx);
	add_evidence(&note.evidence, ctx, &found, note.share);
	/* warm-up is expected, but a program that has done little else needs an explanation */
	rules_suggest(&note, ctx, steady ? TRY_STABLE_SHAPES : TRY_COMPILE_ONCE);
	add_headline(&note, ctx, &found, steady);
	if (steady)
		add_slow_period(&note.headline, ctx);
	if (steady && is_young(ctx))
		text_add(&note.evidence, "; the program began with the recording, and this may be "
					 "its warm-up");
	severity = steady ? rules_severity(ctx, note.gain_ns) : FINDING_HIGH;
	/* no other finding explains a program that does little else */
	if (steady && is_young(ctx) && note.share < t->recompilation_compiling)
		severity = FINDING_LOW;
	rules_ctx_add(ctx, "Recompilation", severity, note.share, &note);
}
