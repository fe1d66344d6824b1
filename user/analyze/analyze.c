// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/analyze.h"

#include "analyze/catalogue.h"
#include "analyze/location.h"
#include "analyze/remedy.h"
#include "analyze/rules_ctx.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double wall_share(const struct profile_process *process, uint64_t ns)
{
	uint64_t wall_ns = profile_wall_ns(process);

	if (!wall_ns || ns == PROFILE_ABSENT)
		return -1;
	return (double)ns / (double)wall_ns;
}

/* A hundred ticks: their rounding is hardly seen. */
#define EXACT_NS 1000000000u

/* CPU time is counted in ticks (10 ms): in a short time they may be more than the process's CPUs or
 * threads had. The CPUs of a process that ended early are not known (0). */
double cpu_share(const struct profile_process *process)
{
	double share = wall_share(process, process->cpu_ns);

	if (process->limits.cpus_count)
		share = fmin(share, process->limits.cpus_count);
	if (profile_wall_ns(process) < EXACT_NS)
		share = fmin(share, fmax((double)process->threads_count, 1));
	return share;
}

void add_wall_share(struct text *text, double share)
{
	if (share > 1) {
		text_printf(text, "%.1f times the wall time", share);
		return;
	}
	text_printf(text, "%s of the wall time", as_percent(share));
}

uint64_t watched_ns(const struct profile *profile, const struct profile_process *process,
		    uint32_t function, enum perfx_reduced_to until)
{
	uint64_t to_ns = process->to_ns;

	FOR_EACH (reduced, profile->reduced)
		if (reduced->function == function && reduced->to >= until &&
		    reduced->time_ns > process->from_ns && reduced->time_ns < to_ns)
			to_ns = reduced->time_ns;
	return to_ns > process->from_ns ? to_ns - process->from_ns : 0;
}

double timed_share(const struct profile *profile, const struct profile_process *process,
		   uint32_t function, uint64_t ns)
{
	uint64_t timed_ns = watched_ns(profile, process, function, PERFX_REDUCED_COUNTED);

	return timed_ns && ns != PROFILE_ABSENT ? (double)ns / (double)timed_ns : -1;
}

void add_timed_share(struct text *text, const struct profile *profile,
		     const struct profile_process *process, uint32_t function, uint64_t ns)
{
	uint64_t timed_ns = watched_ns(profile, process, function, PERFX_REDUCED_COUNTED);
	double share = timed_share(profile, process, function, ns);

	if (timed_ns == profile_wall_ns(process) || share > 1) {
		add_wall_share(text, share);
		return;
	}
	text_printf(text, "%s of the %s in which it was timed", as_percent(share), as_ns(timed_ns));
}

void add_cpu_use(struct text *text, const struct profile_process *process)
{
	double cpus = cpu_share(process);

	if (cpus < 0)
		return;
	if (cpus <= 1) {
		text_printf(text, "%s of one CPU", as_percent(cpus));
	} else if (process->limits.cpus_count) {
		text_printf(text, "%.2f of %u CPUs", cpus, process->limits.cpus_count);
	} else {
		text_printf(text, "%.2f CPUs", cpus);
	}
}

double rate_of(const struct profile_process *process, uint64_t count)
{
	double share = wall_share(process, count);

	return share < 0 ? 0 : share * 1e9;
}

void add_process_name(struct text *text, const struct profile_process *process)
{
	escape_name(text, process->comm[0] ? process->comm : "?");
	text_printf(text, " (pid %u)", process->pid);
}

/* A template's name can be thousands of characters long; the table has it whole. */
#define NAME_COLUMNS 100

void add_function_name(struct text *text, const struct profile *profile, uint32_t id)
{
	const struct profile_function *function = profile_function(profile, id);

	struct text name = {0};

	if (!function) {
		text_printf(text, "function %u", id);
		return;
	}
	utf8_shorten(&name, function_label(function)[0] ? function_label(function) : "?",
		     NAME_COLUMNS);
	escape_name(text, text_peek(&name));
	text_clear(&name);
}

double rules_unit_ns(const struct rules_ctx *ctx)
{
	const struct profile_steps *steps = &ctx->process->steps;

	return steps->count && steps->avg_ns ? (double)steps->avg_ns : 1e9;
}

const char *rules_of_judged(const struct rules_ctx *ctx)
{
	return ctx->process->steps.outside_ns ? " of the steps' time" : " of the wall time";
}

enum finding_severity rules_severity(const struct rules_ctx *ctx, double gain_ns)
{
	double share = gain_ns / rules_unit_ns(ctx);

	if (share >= ctx->thresholds->all_high)
		return FINDING_HIGH;
	return share >= ctx->thresholds->all_medium ? FINDING_MEDIUM : FINDING_LOW;
}

void finding_clear(struct finding *finding)
{
	free(finding->place.function);
	free(finding->place.file);
	free(finding->look);
	free(finding->subject);
	free(finding->evidence);
	free(finding->threshold);
	free(finding->suggestion);
	free(finding->headline);
}

void rules_suggest(struct note *note, const struct rules_ctx *ctx, const char *words)
{
	framework_add(&note->suggestion, framework_of(ctx->profile, ctx->process), words);
}

struct note rules_note(const struct rules_ctx *ctx, enum bottleneck bottleneck, double share)
{
	return (struct note){.bottleneck = bottleneck,
			     .gain_ns = share * rules_unit_ns(ctx),
			     .confidence = 1,
			     .share = share};
}

/* The part of its time that the driving thread would not need without a lock: nobody waits for the
 * work of the threads that take the lock, but they take CPUs, and so would those that wait for it.
 */
static double most_without_lock(const struct rules_ctx *ctx, double cpus)
{
	double wall_ns = (double)ctx->driver->wall_ns, own_ns = 0, others_ns = 0, others, share;

	FOR_EACH (thread, ctx->account->threads) {
		uint64_t runs_ns = thread->ns[ACCOUNT_COMPUTING] + thread->ns[ACCOUNT_SPINNING];

		if (thread->tid == ctx->driver->tid)
			own_ns = (double)runs_ns;
		else
			others_ns +=
				(double)(runs_ns + thread->ns[ACCOUNT_GIL] +
					 thread->ns[ACCOUNT_LOCK] + thread->ns[ACCOUNT_RUNNABLE]);
	}
	others = others_ns / wall_ns;
	share = fmin(fmax(cpus - others, cpus / (1 + others)), 1);
	return fmax(1 - own_ns / wall_ns / share, 0);
}

/* Remedies of these have the same work done with less waiting. */
static const bool is_waiting[BOTTLENECKS] = {
	[BOTTLENECK_INPUT] = true,     [BOTTLENECK_GIL] = true,
	[BOTTLENECK_LOCK] = true,      [BOTTLENECK_DISK] = true,
	[BOTTLENECK_OUTPUT] = true,    [BOTTLENECK_CHILD] = true,
	[BOTTLENECK_SLEEP] = true,     [BOTTLENECK_CONTENTION] = true,
	[BOTTLENECK_THROTTLED] = true, [BOTTLENECK_OVERSUBSCRIBED] = true,
	[BOTTLENECK_STOPPED] = true,   [BOTTLENECK_IMBALANCE] = true,
};

double rules_most_gain_ns(const struct rules_ctx *ctx, enum bottleneck bottleneck)
{
	double unit_ns = rules_unit_ns(ctx), cpus = rules_allowed_cpus(ctx);
	double wall_ns = (double)ctx->driver->wall_ns;
	double computing_ns = (double)ctx->account->all.ns[ACCOUNT_COMPUTING];

	if (!is_waiting[bottleneck] || cpus < 1 || wall_ns <= 0)
		return unit_ns;
	if (bottleneck == BOTTLENECK_GIL || bottleneck == BOTTLENECK_LOCK)
		return unit_ns * most_without_lock(ctx, cpus);
	return unit_ns * fmax(1 - computing_ns / cpus / wall_ns, 0);
}

/* Adds what the rule did not write: the process as the subject, the class of the headline, and the
 * texts of the kind. */
static void complete(struct note *note, const struct rules_ctx *ctx, const char *kind)
{
	const struct finding_kind *of = finding_kind_named(kind);
	struct text headline = note->headline;

	if (!note->subject.length)
		add_process_name(&note->subject, ctx->process);
	if (headline.length && !headline.failed) {
		note->headline = (struct text){0};
		text_printf(&note->headline, "%s: %s",
			    note->headline_class ?: bottleneck_headline(note->bottleneck),
			    text_peek(&headline));
		text_clear(&headline);
	}
	if (!of)
		return;
	if (of->threshold && !note->threshold.length)
		threshold_add_sentence(&note->threshold, of->threshold, kind, ctx->thresholds);
	if (of->suggestion && !note->suggestion.length)
		rules_suggest(note, ctx, of->suggestion);
	if (!note->look)
		note->look = of->sections;
}

void rules_ctx_add(struct rules_ctx *ctx, const char *kind, enum finding_severity severity,
		   double weight, struct note *note)
{
	const struct profile_frame *place = note->place;
	double most_ns = note->is_work ? INFINITY : rules_most_gain_ns(ctx, note->bottleneck);
	struct finding finding;

	complete(note, ctx, kind);
	finding = (struct finding){
		.kind = kind,
		.bottleneck = note->bottleneck,
		.severity = severity,
		.weight = weight,
		.gain_ns = fmin(note->gain_ns, most_ns),
		.gain_unknown = note->gain_unknown,
		.urgent = note->urgent,
		.confidence = note->confidence,
		.of_function = note->of_function,
		.partial = ctx->profile->partial & PROFILE_PARTIAL_LOSSY,
		.subject = text_take(&note->subject),
		.evidence = text_take(&note->evidence),
		.threshold = text_take(&note->threshold),
		.suggestion = text_take(&note->suggestion),
		.headline = text_take(&note->headline),
		.share = note->share,
		.look = strdup(note->look ?: ""),
	};
	/* a copy, for findings outlive the profile */
	if (place)
		finding.place = (struct finding_place){.function = strdup(place->function),
						       .file = strdup(place->file),
						       .line = place->line,
						       .is_own = location_is_own_python(place)};
	if ((place && (!finding.place.function || !finding.place.file)) || !finding.look ||
	    !finding.subject || !finding.evidence || !finding.threshold || !finding.suggestion ||
	    !finding.headline ||
	    grow_array(&ctx->findings, &ctx->findings_capacity, ctx->findings_count + 1,
		       sizeof(finding))) {
		finding_clear(&finding);
		ctx->failed = true;
		return;
	}
	ctx->findings[ctx->findings_count++] = finding;
}

/* A rule adds what it finds about a process. */
static const struct rule {
	void (*find)(struct rules_ctx *ctx);
	bool of_brief; /* also of a process that was recorded too briefly to judge shares */
	bool of_main;  /* only of the main process: it is about the whole capture */
	bool of_launcher;
} all_rules[] = {
	{.find = rules_death, .of_brief = true, .of_launcher = true},
	{.find = rules_functions, .of_brief = true},
	{.find = rules_process},
	{.find = rules_contention, .of_brief = true},
	{.find = rules_parallel, .of_brief = true},
	{.find = rules_imbalance},
	{.find = rules_driver},
	{.find = rules_input, .of_brief = true},
	{.find = rules_steps, .of_brief = true},
	{.find = rules_stalls, .of_brief = true},
	{.find = rules_compute},
	{.find = rules_operators},
	{.find = rules_compile},
	{.find = rules_gpu},
	{.find = rules_memory, .of_brief = true},
	{.find = rules_heap},
	{.find = rules_limits, .of_brief = true},
	{.find = rules_fragmentation, .of_brief = true},
	{.find = rules_memory_sum, .of_brief = true},
	{.find = rules_capture, .of_brief = true, .of_main = true},
	/* it names the places of the other findings */
	{.find = rules_straggler, .of_brief = true},
};

/* ctx: of the process, with what was found of it before. */
static int analyze_process(struct rules_ctx *ctx, struct process_analysis *out)
{
	const struct profile_process *process = ctx->process;
	int err = 0;

	out->growth = growth_find(process, ctx->thresholds);
	out->memory = calloc(process->memory_count + 1, sizeof(*out->memory));
	if (!out->memory || parallel_functions_find(&out->parallel, process, ctx->driver->tid))
		return -ENOMEM;
	out->memory_count = process->memory_count;
	for (size_t i = 0; i < process->memory_count && !err; i++)
		err = leaks_judge(&out->memory[i], process, &process->memory[i], &out->growth,
				  ctx->thresholds);
	if (err)
		return err;
	ctx->memory = out->memory;
	ctx->growth = &out->growth;
	ctx->account = &out->account;
	ctx->time = &out->time;
	ctx->parallel = &out->parallel;
	ctx->requests = requests_find(ctx);
	if (!is_compiler_of_another(ctx->profile, process)) {
		/* a launcher only waits, as it should; its own work is not the job */
		for (size_t i = 0; i < sizeof(all_rules) / sizeof(all_rules[0]); i++)
			if ((ctx->role != PROCESS_LAUNCHER || all_rules[i].of_launcher) &&
			    (all_rules[i].of_brief || !rules_is_short(ctx)) &&
			    (!all_rules[i].of_main || ctx->is_main))
				all_rules[i].find(ctx);
		rules_own(ctx);
		rules_rank(ctx);
	}
	out->silenced_count = ctx->silenced_count;
	out->findings = ctx->findings;
	out->findings_count = ctx->findings_count;
	if (!process->calls_count)
		out->silence = silence_of(ctx->profile, process, &out->account);
	return ctx->failed || (!process->calls_count && !out->silence) ? -ENOMEM : 0;
}

static bool is_job(const struct analysis *analysis, const struct profile *profile,
		   const struct profile_process *process)
{
	const struct process_analysis *of = &analysis->processes[process - profile->processes];

	return of->role == PROCESS_JOB && !of->account.joins_children;
}

/* There for less of the recording, as each of a build's processes, it does not stand for the job.
 */
#define BRIEF_SHARE 0.10

static bool is_brief(const struct profile *profile, const struct profile_process *process)
{
	return (double)profile_wall_ns(process) < BRIEF_SHARE * (double)profile->duration_ns;
}

/* One that is the job itself, with the most traced time, else with the most calls, else with the
 * most CPU time. */
static bool is_more(const struct analysis *analysis, const struct profile *profile,
		    const struct profile_process *a, const struct profile_process *b)
{
	bool a_works = is_job(analysis, profile, a), b_works = is_job(analysis, profile, b);

	if (is_compiler_of_another(profile, a) != is_compiler_of_another(profile, b))
		return is_compiler_of_another(profile, b);
	if (is_brief(profile, a) != is_brief(profile, b))
		return is_brief(profile, b);
	if (a_works != b_works)
		return a_works;
	if (a->self_ns != b->self_ns)
		return a->self_ns > b->self_ns;
	if (a->calls_count != b->calls_count)
		return a->calls_count > b->calls_count;
	/* absent wraps to 0 */
	return a->cpu_ns + 1 > b->cpu_ns + 1;
}

/* In a job of several ranks, the rank for which the others wait. */
static const struct profile_process *main_process(const struct profile *profile,
						  const struct analysis *analysis)
{
	const struct ranks *ranks = &analysis->ranks;
	const struct profile_process *main = NULL;
	const struct rank_row *row;

	for (size_t i = 0; i < profile->processes_count; i++) {
		if (!main || is_more(analysis, profile, &profile->processes[i], main))
			main = &profile->processes[i];
	}
	row = main ? ranks_of_process(ranks, (size_t)(main - profile->processes)) : NULL;
	return row ? &profile->processes[row->leader] : main;
}

/* Beside the main process it only waits or helps. */
static bool is_minor(const struct profile_process *process, const struct profile_process *main)
{
	return process != main && !process->steps.count && process->cpu_ns != PROFILE_ABSENT &&
	       main->cpu_ns != PROFILE_ABSENT && process->cpu_ns <= main->cpu_ns / 2;
}

/* Where the time of steps goes is known of all processes before one is judged. drivers: one for
 * each process, to be filled. */
static int find_times(struct analysis *analysis, const struct profile *profile,
		      struct driver *drivers)
{
	struct step_time *times = calloc(profile->processes_count + 1, sizeof(*times));
	int err = times ? 0 : -ENOMEM;

	for (size_t i = 0; i < profile->processes_count && !err; i++) {
		const struct profile_process *process = &profile->processes[i];

		err = account_find(&analysis->processes[i].account, profile, process)
			      ?: driver_find(&drivers[i], profile, process,
					     &analysis->processes[i].account);
		if (!err)
			err = step_time_find(&times[i], profile, process, &drivers[i]);
		analysis->processes[i].time = times[i];
		analysis->processes[i].lines_spinning_ns = spinning_of_lines(process);
		if (!analysis->processes[i].lines_spinning_ns)
			err = -ENOMEM;
	}
	/* a worker that a package starts may run nothing but packages, for a line of its parent */
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *parent =
			profile_parent(profile, &profile->processes[i]);
		struct process_account *account = &analysis->processes[i].account;
		const struct process_account *of_parent =
			parent ? &analysis->processes[parent - profile->processes].account : NULL;

		if (of_parent && of_parent->joins_children && !account->main_line)
			account->job_line = of_parent->main_line;
	}
	if (!err)
		err = ranks_find(&analysis->ranks, profile, times);
	free(times);
	return err;
}

static bool is_graver(const struct finding *a, const struct finding *b)
{
	if (finding_is_asked(a) != finding_is_asked(b))
		return finding_is_asked(a);
	if (a->urgent != b->urgent)
		return a->urgent;
	return a->severity < b->severity;
}

/* The gravest problem of all processes, of those that are as grave the main one's, or else the
 * first one whose place is known. */
static void find_first(struct analysis *analysis, const struct profile *profile, size_t main)
{
	analysis->first_process = main;
	analysis->first = first_problem(&analysis->processes[main]);
	for (size_t i = 0; i < analysis->processes_count; i++) {
		const struct finding *problem = first_problem(&analysis->processes[i]);
		bool placed = problem && analysis->first && analysis->first_process != main &&
			      !is_graver(analysis->first, problem) && problem->place.function &&
			      !analysis->first->place.function;

		if (!problem || (i != main && is_brief(profile, &profile->processes[i])) ||
		    (analysis->first && !placed && !is_graver(problem, analysis->first)))
			continue;
		analysis->first = problem;
		analysis->first_process = i;
	}
}

static bool has_states(const struct profile *profile)
{
	FOR_EACH (process, profile->processes)
		if (process->states_count)
			return true;
	return false;
}

struct analysis *analyze(const struct profile *profile, const struct rule_set *rules)
{
	struct driver *drivers = calloc(profile->processes_count + 1, sizeof(*drivers));
	struct analysis *analysis = calloc(1, sizeof(*analysis));
	const struct profile_process *main;
	bool evidence_lost = rules_evidence_lost(profile);

	if (!analysis || !drivers)
		goto fail;
	rules = rules ? rules : &rule_set_builtin;
	analysis->rules_file = rules->file;
	analysis->processes = calloc(profile->processes_count + 1, sizeof(*analysis->processes));
	if (!analysis->processes)
		goto fail;
	analysis->processes_count = profile->processes_count;
	if (find_times(analysis, profile, drivers))
		goto fail;
	if (find_roles(analysis, profile, &rules->thresholds))
		goto fail;
	if (has_states(profile) && !(analysis->dump = dump__new(profile)))
		goto fail;
	main = main_process(profile, analysis);
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];
		struct process_analysis *out = &analysis->processes[i];
		struct rules_ctx ctx = {.profile = profile,
					.rules = rules,
					.thresholds = &rules->thresholds,
					.process = process,
					.driver = &drivers[i],
					.role = out->role,
					.is_main = process == main,
					.is_minor = is_minor(process, main),
					.ranks = &analysis->ranks,
					.evidence_lost = evidence_lost};

		if (analyze_process(&ctx, out))
			goto fail;
		analysis->silenced_count += out->silenced_count;
	}
	if (main)
		find_first(analysis, profile, (size_t)(main - profile->processes));
	analysis->verdict = verdict_of(profile, analysis, &rules->thresholds);
	if (!analysis->verdict)
		goto fail;
	free(drivers);
	return analysis;
fail:
	free(drivers);
	analysis__free(analysis);
	errno = ENOMEM;
	return NULL;
}

const char *finding_severity_name(enum finding_severity severity)
{
	switch (severity) {
	case FINDING_HIGH:
		return "high";
	case FINDING_MEDIUM:
		return "medium";
	case FINDING_LOW:
		break;
	}
	return "low";
}

/* The classes of time: one row each. */
static const struct {
	const char *name, *headline;
} bottlenecks[BOTTLENECKS] = {
	[BOTTLENECK_INPUT] = {"input", "INPUT-BOUND"},
	[BOTTLENECK_PYTHON] = {"python", "PYTHON-BOUND"},
	[BOTTLENECK_GIL] = {"gil", "GIL-BOUND"},
	[BOTTLENECK_LOCK] = {"lock", "LOCK-BOUND"},
	[BOTTLENECK_LAUNCH] = {"launch", "LAUNCH-BOUND"},
	[BOTTLENECK_OPERATORS] = {"operators", "OPERATOR-BOUND"},
	[BOTTLENECK_COPIES] = {"copies", "COPY-BOUND"},
	[BOTTLENECK_GPU_STARVED] = {"gpu_starved", "GPU-STARVED"},
	[BOTTLENECK_GPU_SYNC] = {"gpu_sync", "SYNC-BOUND"},
	[BOTTLENECK_COMPUTE] = {"compute", "COMPUTE-BOUND"},
	[BOTTLENECK_BANDWIDTH] = {"bandwidth", "BANDWIDTH-BOUND"},
	[BOTTLENECK_COMMUNICATION] = {"communication", "COMMUNICATION-BOUND"},
	[BOTTLENECK_STALL] = {"stall", "STALLED"},
	[BOTTLENECK_RECOMPILATION] = {"recompilation", "RECOMPILING"},
	[BOTTLENECK_DISK] = {"disk", "DISK-BOUND"},
	[BOTTLENECK_OUTPUT] = {"output", "OUTPUT-BOUND"},
	[BOTTLENECK_CHILD] = {"child", "CHILD-BOUND"},
	[BOTTLENECK_SLEEP] = {"sleep", "SLEEPING"},
	[BOTTLENECK_CONTENTION] = {"contention", "CPU CONTENTION"},
	[BOTTLENECK_OVERSUBSCRIBED] = {"oversubscribed", "OVERSUBSCRIBED"},
	[BOTTLENECK_THROTTLED] = {"throttled", "THROTTLED"},
	[BOTTLENECK_MEMORY] = {"memory", "MEMORY"},
	[BOTTLENECK_IDLE] = {"idle", "IDLE"},
	[BOTTLENECK_HEALTHY] = {"healthy", "HEALTHY"},
	[BOTTLENECK_STOPPED] = {"stopped", "STOPPED"},
	[BOTTLENECK_IMBALANCE] = {"imbalance", "IMBALANCED"},
	[BOTTLENECK_DEATH] = {"death", "FAILED"},
};

const char *bottleneck_name(enum bottleneck bottleneck)
{
	return bottlenecks[bottleneck].name;
}

const char *bottleneck_headline(enum bottleneck bottleneck)
{
	const char *headline = bottlenecks[bottleneck].headline;

	return headline ? headline : "";
}

void analysis__free(struct analysis *analysis)
{
	if (!analysis)
		return;
	FOR_EACH (process, analysis->processes) {
		for (size_t k = 0; k < process->findings_count; k++)
			finding_clear(&process->findings[k]);
		for (size_t k = 0; k < process->memory_count; k++)
			memory_analysis_clear(&process->memory[k]);
		parallel_functions_clear(&process->parallel);
		account_clear(&process->account);
		free(process->lines_spinning_ns);
		free(process->memory);
		free(process->findings);
		free(process->silence);
	}
	ranks_clear(&analysis->ranks);
	free(analysis->processes);
	free(analysis->verdict);
	dump__free(analysis->dump);
	free(analysis);
}
