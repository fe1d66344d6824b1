// SPDX-License-Identifier: BSD-2-Clause
/*
 * The comparison of two recordings as a document:
 *
 *     gemm is slower: +20.0 % per call (10.0 ms → 12.0 ms). Of 34 functions in both, 1 slower, …
 *     A: before.perfx, 10.0 s. B: after.perfx, 12.1 s.
 *
 *     trainer (pid 4242, then 5151)
 *     Change  Ratio   Avg A   Avg B  Significant  Time A  Time B  …  Function
 *     +20.0 %  1.20  10.0 ms 12.0 ms  slower     62.0 %  66.1 %     gemm
 */
#include "analyze/location.h"
#include "base/escape.h"
#include "base/units.h"
#include "decode/names.h"
#include "diff/internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/*
 * Changes of a process between two recordings, before any table:
 *
 *     gone: MemoryLeak, host heap of trainer (pid 42): keeps 6.50 MiB a second, 22.9 GiB an hour
 *     new: DataBound, trainer (pid 51): waited for the next batch in 41.0 % of the time of 60 steps
 *     peak of host heap: 64.0 MiB → 96.0 MiB (+50.0 %)
 *     no longer called: memcpy (1.0 % of the time)
 *     called now: memmove (1.0 % of the time)
 *     steps: no significant change (75.2 ms → 50.3 ms, noisy)
 */

#define FINDINGS_SHOWN	5
#define FUNCTIONS_SHOWN 3
/* An insignificant change of the mean by this share is called noisy: the steps vary much. */
#define NOISY_CHANGE 0.05
#define NAME_WIDTH   80

/* GitHub refuses comments of more than 65,536 characters; a workflow may add a few. */
#define COMMENT_BYTES 65000

/* How much of a comparison a comment shows. */
struct shape {
	size_t rows, processes;
	bool details; /* folded tables */
	bool shortened;
};

static void add_finding(struct text *into, const struct finding *finding)
{
	struct text subject = {0}, evidence = {0};
	size_t length = 0;
	int depth = 0;

	escape_unmarked(&subject, finding->subject);
	escape_unmarked(&evidence, finding->evidence);
	escape_display(into, finding->kind);
	text_printf(into, ", %s: ", text_peek(&subject));
	/* the finding itself ends at the first semicolon outside brackets */
	for (const char *at = text_peek(&evidence); *at && (depth > 0 || *at != ';'); at++) {
		depth += (*at == '(') - (*at == ')');
		length++;
	}
	text_add_bytes(into, text_peek(&evidence), length);
	text_finish(&subject, &into->failed);
	text_finish(&evidence, &into->failed);
}

static void add_steps(struct text *into, const struct diff_steps *steps)
{
	double change = diff_change(steps->avg_ns);

	if (steps->time == DIFF_SAME)
		text_add(into, "no significant change (");
	else if (steps->time == DIFF_UNJUDGED)
		text_add(into, "too few to compare (");
	else
		text_printf(into, "%s, %+.1f %% (", diff_time_word(steps->time), 100 * change);
	diff_add_both(into, steps->avg_ns, diff_add_time);
	text_add(into, steps->time == DIFF_SAME && fabs(change) >= NOISY_CHANGE ? ", noisy)" : ")");
}

static void add_peak(struct text *into, const struct diff_memory *memory)
{
	text_printf(into, "peak of %s: ",
		    memory->domain ? domain_words(memory->domain) : "resident memory");
	diff_add_both(into, memory->peak_bytes, diff_add_size);
	if (!isnan(diff_change(memory->peak_bytes)))
		text_printf(into, " (%+.1f %%)", 100 * diff_change(memory->peak_bytes));
}

static void compose_findings(struct comparer *c, const struct diff_process *p, unsigned in)
{
	struct text text = {0};
	size_t count = 0;

	for (size_t i = 0; i < p->findings_count; i++) {
		if (p->findings[i].in != in || count++ >= FINDINGS_SHOWN)
			continue;
		text_add(&text, in == DIFF_IN_A ? "gone: " : "new: ");
		add_finding(&text, p->findings[i].finding);
		document_add(c->document, BLOCK_PARAGRAPH, &text);
	}
	if (count <= FINDINGS_SHOWN)
		return;
	document_printf(c->document, BLOCK_PARAGRAPH, "%s: %zu more findings",
			in == DIFF_IN_A ? "gone" : "new", count - FINDINGS_SHOWN);
}

/* Of wall time, for a function of one side. */
static double share_of(const struct diff_function *f)
{
	return f->in == DIFF_IN_A ? f->total_share.a : f->total_share.b;
}

/* Functions are in the order of their shares. */
static void compose_functions(struct comparer *c, const struct diff_process *p, unsigned in)
{
	struct text text = {0};
	size_t count = 0;

	for (size_t i = 0; i < p->functions_count; i++) {
		const struct diff_function *f = &p->functions[i];
		struct text name = {0};

		if (f->in != in || isnan(share_of(f)) || count++ >= FUNCTIONS_SHOWN)
			continue;
		if (count == 1)
			text_add(&text, in == DIFF_IN_A ? "no longer called: " : "newly called: ");
		text_add(&text, count > 1 ? ", " : "");
		utf8_shorten(&name,
			     function_label(f->function)[0] ? function_label(f->function) : "?",
			     NAME_WIDTH);
		escape_name(&text, text_peek(&name));
		text_printf(&text, " (%s of the time)", as_share(share_of(f)));
		text_finish(&name, &text.failed);
	}
	if (count > FUNCTIONS_SHOWN)
		text_printf(&text, ", %zu more", count - FUNCTIONS_SHOWN);
	if (count)
		document_add(c->document, BLOCK_PARAGRAPH, &text);
}

static void compose_changes(struct comparer *c, const struct diff_process *p)
{
	struct text text = {0};

	compose_findings(c, p, DIFF_IN_A);
	compose_findings(c, p, DIFF_IN_B);
	for (size_t i = 0; i < p->memory_count; i++) {
		const struct diff_memory *memory = &p->memory[i];

		if (memory->verdict != DIFF_WORSE && memory->verdict != DIFF_BETTER)
			continue;
		add_peak(&text, memory);
		document_add(c->document, BLOCK_PARAGRAPH, &text);
	}
	compose_functions(c, p, DIFF_IN_A);
	compose_functions(c, p, DIFF_IN_B);
	if (p->steps.in != (DIFF_IN_A | DIFF_IN_B))
		return;
	text_add(&text, "steps: ");
	add_steps(&text, &p->steps);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

const char *diff_time_word(enum diff_verdict verdict)
{
	static const char *const names[] = {"unknown", "same", "faster", "slower"};

	return names[verdict];
}

const char *diff_memory_word(enum diff_verdict verdict)
{
	static const char *const names[] = {"unknown", "same", "less", "more"};

	return names[verdict];
}

/* The changes that the verdict names; NULL: none. */
struct highlights {
	/* with the largest impact; by enum diff_verdict */
	const struct diff_function *functions[DIFF_WORSE + 1];
	const struct diff_gpu_work *kernels[DIFF_WORSE + 1];
	const struct diff_memory *memory; /* the peak that grew most */
	const struct diff_steps *steps;	  /* whose time changed most, of those on both sides */
	/* the most severe; by DIFF_IN_ */
	const struct finding *findings[DIFF_IN_B + 1];
	size_t findings_count[DIFF_IN_B + 1];
};

static double growth_of(const struct diff_memory *memory)
{
	return memory->peak_bytes.b - memory->peak_bytes.a;
}

static struct highlights highlights_of(const struct diff *diff)
{
	struct highlights h = {0};

	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_process *p = &diff->processes[i];
		const struct diff_steps *steps = &p->steps;

		for (size_t j = 0; j < p->functions_count; j++) {
			const struct diff_function *f = &p->functions[j];
			const struct diff_function **found = &h.functions[f->time];

			if (!*found || fabs(f->impact) > fabs((*found)->impact))
				*found = f;
		}
		for (size_t j = 0; j < p->gpu.works_count; j++) {
			const struct diff_gpu_work *work = &p->gpu.works[j];
			const struct diff_gpu_work **found = &h.kernels[work->time];

			if (!*found || fabs(work->impact) > fabs((*found)->impact))
				*found = work;
		}
		for (size_t j = 0; j < p->memory_count; j++) {
			const struct diff_memory *m = &p->memory[j];

			if (m->verdict == DIFF_WORSE &&
			    (!h.memory || growth_of(m) >= growth_of(h.memory)))
				h.memory = m;
		}
		for (size_t j = 0; j < p->findings_count; j++) {
			unsigned in = p->findings[j].in;
			const struct finding **found = &h.findings[in];

			h.findings_count[in]++;
			if (!*found || p->findings[j].finding->severity < (*found)->severity)
				*found = p->findings[j].finding;
		}
		if (steps->time != DIFF_UNJUDGED &&
		    (!h.steps ||
		     fabs(diff_change(steps->avg_ns)) > fabs(diff_change(h.steps->avg_ns))))
			h.steps = steps;
	}
	return h;
}

void diff_say_verdict(struct text *into, const struct diff *diff)
{
	struct highlights h = highlights_of(diff);
	const struct diff_function *f = h.functions[DIFF_WORSE] ?: h.functions[DIFF_BETTER];
	const struct diff_gpu_work *kernel = h.kernels[DIFF_WORSE] ?: h.kernels[DIFF_BETTER];

	for (unsigned in = DIFF_IN_A; in <= DIFF_IN_B; in++) {
		size_t more = h.findings_count[in] - 1;

		if (!h.findings[in])
			continue;
		text_add(into, in == DIFF_IN_A ? "Gone: " : "New: ");
		add_finding(into, h.findings[in]);
		if (more)
			text_printf(into, " (and %zu more finding%s)", more, plural(more));
		text_add(into, ". ");
	}
	if (h.memory) {
		text_add(into, "The ");
		add_peak(into, h.memory);
		text_add(into, ". ");
	}
	if (h.steps) {
		text_add(into, "Steps: ");
		add_steps(into, h.steps);
		text_add(into, ". ");
	}
	if (kernel) {
		struct text name = {0};

		utf8_shorten(&name, *kernel->name ? kernel->name : "?", NAME_WIDTH);
		text_add(into, "The kernel ");
		escape_name(into, text_peek(&name));
		text_printf(into, " is %s: %+.1f %% (", diff_time_word(kernel->time),
			    100 * diff_change(kernel->avg_ns));
		diff_add_both(into, kernel->avg_ns, diff_add_time);
		text_add(into, "). ");
		text_finish(&name, &into->failed);
	}
	if (f) {
		escape_name(into,
			    function_label(f->function)[0] ? function_label(f->function) : "?");
		text_printf(into, " is %s: %+.1f %% per call (", diff_time_word(f->time),
			    100 * diff_change(f->avg_ns));
		diff_add_both(into, f->avg_ns, diff_add_time);
		text_add(into, ")");
		if (f->line) {
			text_add(into, ", called in ");
			location_place(into, f->line);
		}
		text_add(into, ".");
	} else if (!diff->compared_count) {
		text_add(into, "No function was called in both recordings.");
	} else {
		text_add(into, !diff->tested_count ? "No function has enough calls to compare."
						   : "No function changed significantly.");
	}
	if (!diff->compared_count)
		return;
	text_printf(into, " Of %s function%s in both, %zu slower, %zu faster.",
		    as_count(diff->compared_count), diff->compared_count == 1 ? "" : "s",
		    diff->worse_count, diff->better_count);
}

/*
 * The steps of two recordings:
 *
 *     steps 40 → 60 · a step computes 6.00 GFLOP → 6.00 GFLOP · at 60.0 GFLOP/s → 50.0 GFLOP/s
 *
 *      Change  Ratio        A        B  Significant  Step
 *     +20.0 %   1.20   100 ms   120 ms  slower       mean
 *      +5.0 %   1.05   100 ms   105 ms               median
 *     +40.0 %   1.40  50.0 ms  70.0 ms               mean, data
 */

static void add_count_of(struct text *text, double count)
{
	add_count(text, u64_of(count));
}

static void add_operations(struct text *text, double flops)
{
	add_si(text, flops, "FLOP");
}

static void add_joules(struct text *text, double joules)
{
	add_si(text, joules, "J");
}

static void compose_pair(struct comparer *c, struct diff_pair pair, const char *verdict,
			 const char *what, const char *part)
{
	document_row(c->document, DIFF_CHANGE_CELLS(c, pair),
		     DIFF_PAIR_CELLS(c, pair, diff_add_time), verdict,
		     document_format(c->document, "%s%s", what, part));
}

/* Nothing where there is none on either side. */
static void compose_part(struct comparer *c, struct diff_pair pair, const char *part)
{
	if (pair.a > 0 || pair.b > 0)
		compose_pair(c, pair, "", "mean, ", part);
}

static void compose_steps(struct comparer *c, const struct diff_steps *steps)
{
	struct text facts = {0};

	if (!steps->in)
		return;
	document_say(c->document, BLOCK_CAPTION, "Steps");
	diff_add_fact(&facts, "steps", steps->count, add_count_of);
	diff_add_fact(&facts, "FLOP per step", steps->flops, add_operations);
	diff_add_fact(&facts, "at", steps->flops_per_s, diff_add_flops);
	diff_add_fact(&facts, "of the peak (MFU)", steps->mfu, add_share);
	diff_add_fact(&facts, "kernels per step", steps->gpu_kernels, diff_add_rate);
	diff_add_fact(&facts, "GPU energy per step", steps->gpu_energy_j, add_joules);
	document_add(c->document, BLOCK_PARAGRAPH, &facts);
	document_headings(c->document, 0, DIFF_CHANGE_COLUMNS, NUMBERS("A"), NUMBERS("B"),
			  WORDS("Significant"), REST("Step"));
	compose_pair(c, steps->avg_ns,
		     diff_cell_verdict(c, diff_time_word(steps->time), steps->time,
				       steps->regressed, "too few steps"),
		     "mean", "");
	compose_pair(c, steps->p50_ns, "", "median", "");
	compose_pair(c, steps->p95_ns, "", "p95", "");
	compose_pair(c, steps->max_ns, "", "longest", "");
	for (size_t i = 0; i < PROFILE_PHASES; i++) {
		enum profile_phase phase = profile_phases_in_order[i];

		compose_part(c, steps->phases_ns[phase], profile_phase_name(phase));
	}
	compose_part(c, steps->gpu_busy_ns, "GPU busy");
	compose_part(c, steps->gpu_wait_ns, "waited for the GPU");
}

#define TOO_FEW_CALLS "too few calls"

#define SIGNIFICANT_SHOWN 10u

static bool is_significant(enum diff_verdict verdict)
{
	return verdict == DIFF_BETTER || verdict == DIFF_WORSE;
}

static void compose_significant_row(struct comparer *c, struct diff_pair avg_ns,
				    enum diff_verdict verdict, bool regressed, const char *name)
{
	document_row(c->document, diff_cell_change(c, avg_ns),
		     DIFF_PAIR_CELLS(c, avg_ns, diff_add_time),
		     diff_cell_verdict(c, diff_time_word(verdict), verdict, regressed, ""),
		     diff_name(c, name));
}

/* Functions and kernels whose calls take significantly more or less time; they are the first ones
 * of their lists. */
static void compose_significant(struct comparer *c, const struct diff_process *p)
{
	const struct diff_function *f = p->functions;
	const struct diff_gpu_work *work = p->gpu.works;
	size_t functions = 0, works = 0;
	size_t most = c->functions < SIGNIFICANT_SHOWN ? c->functions : SIGNIFICANT_SHOWN;

	while (functions < p->functions_count && is_significant(f[functions].time))
		functions++;
	while (works < p->gpu.works_count && is_significant(work[works].time))
		works++;
	if (!functions && !works)
		return;
	document_headings(c->document, 0, NUMBERS("Change"), NUMBERS("A"), NUMBERS("B"),
			  WORDS("Per call"), REST("What"));
	for (size_t i = 0; i < functions && i < most; i++)
		compose_significant_row(c, f[i].avg_ns, f[i].time, f[i].regressed,
					function_label(f[i].function));
	for (size_t i = 0; i < works && i < most; i++)
		compose_significant_row(c, work[i].avg_ns, work[i].time, work[i].regressed,
					work[i].name);
	if (functions > most || works > most)
		document_printf(c->document, BLOCK_PARAGRAPH, "%zu functions changed, %zu kernels",
				functions, works);
}

#define NAME_COLUMNS REST("Function"), WORDS("Module", .rank = 6)

#define NAME_CELLS(c, f)                               \
	diff_name((c), function_label((f)->function)), \
		document_module((c)->document, (f)->function, (c)->name_columns)

enum { HAS_LINES = 1 };

static void compose_times(struct comparer *c, const struct diff_process *p)
{
	unsigned has = 0;

	for (size_t i = 0; i < p->functions_count; i++)
		has |= p->functions[i].line ? HAS_LINES : 0;
	document_headings(c->document, has, DIFF_CHANGE_COLUMNS, NUMBERS("Avg A"), NUMBERS("Avg B"),
			  WORDS("Significant"), NUMBERS("Time", .rank = 2),
			  NUMBERS("Self", .rank = 3), NUMBERS("Calls/s", .rank = 4), NAME_COLUMNS,
			  WORDS("Called in", .rank = 1, .where = HAS_LINES));
	for (size_t i = 0; i < p->functions_count && i < c->functions; i++) {
		const struct diff_function *f = &p->functions[i];

		if (f->in != (DIFF_IN_A | DIFF_IN_B))
			break;
		document_row(c->document, DIFF_CHANGE_CELLS(c, f->avg_ns),
			     DIFF_PAIR_CELLS(c, f->avg_ns, diff_add_time),
			     diff_cell_verdict(c, diff_time_word(f->time), f->time, f->regressed,
					       TOO_FEW_CALLS),
			     diff_cell_both(c, f->total_share, add_share),
			     diff_cell_both(c, f->self_share, add_share),
			     diff_cell_both(c, f->calls_per_s, diff_add_rate), NAME_CELLS(c, f),
			     document_frame(c->document, f->line, c->name_columns));
	}
}

static void compose_rates(struct comparer *c, const struct diff_process *p)
{
	size_t shown = 0;

	for (size_t i = 0; i < p->functions_count && shown < c->functions; i++) {
		const struct diff_function *f = &p->functions[i];

		if (isnan(diff_change(f->flops_per_s)))
			continue;
		if (!shown++) {
			document_say(c->document, BLOCK_CAPTION,
				     "Operations: rates, and the change of FLOP per call");
			document_headings(c->document, 0, DIFF_CHANGE_COLUMNS, NUMBERS("GFLOP/s A"),
					  NUMBERS("GFLOP/s B"), WORDS("Significant"),
					  NUMBERS("FLOP a call", .rank = 1), NAME_COLUMNS);
		}
		document_row(c->document, DIFF_CHANGE_CELLS(c, f->flops_per_s),
			     cell_gflops(f->flops_per_s.a), cell_gflops(f->flops_per_s.b),
			     diff_cell_verdict(c, diff_time_word(f->rate), f->rate, false,
					       TOO_FEW_CALLS),
			     diff_cell_change(c, f->flops_per_call), NAME_CELLS(c, f));
	}
}

/* Functions that were called in one recording only. */
static void compose_alone(struct comparer *c, const struct diff_process *p, unsigned in)
{
	size_t shown = 0;

	for (size_t i = 0; i < p->functions_count && shown < c->functions; i++) {
		const struct diff_function *f = &p->functions[i];

		if (f->in != in)
			continue;
		if (!shown++) {
			document_say(c->document, BLOCK_CAPTION,
				     in == DIFF_IN_A ? "Called in A only" : "Called in B only");
			document_headings(c->document, 0, NUMBERS("Time"), NUMBERS("Calls/s"),
					  NUMBERS("Avg"), NAME_COLUMNS);
		}
		document_row(c->document, diff_cell_one(c, share_of(f), add_share),
			     diff_cell_one(c, in == DIFF_IN_A ? f->calls_per_s.a : f->calls_per_s.b,
					   diff_add_rate),
			     diff_cell_one(c, in == DIFF_IN_A ? f->avg_ns.a : f->avg_ns.b,
					   diff_add_time),
			     NAME_CELLS(c, f));
	}
}

static void compose_memory(struct comparer *c, const struct diff_process *p)
{
	if (!p->memory_count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Memory: peaks, and allocation rates");
	document_headings(c->document, 0, DIFF_CHANGE_COLUMNS, NUMBERS("Peak A"), NUMBERS("Peak B"),
			  WORDS("Significant"), NUMBERS("Allocated/s", .rank = 2),
			  NUMBERS("Allocations/s", .rank = 4), REST("Memory"));
	for (size_t i = 0; i < p->memory_count; i++) {
		const struct diff_memory *m = &p->memory[i];

		document_row(c->document, DIFF_CHANGE_CELLS(c, m->peak_bytes),
			     DIFF_PAIR_CELLS(c, m->peak_bytes, diff_add_size),
			     diff_cell_verdict(c, diff_memory_word(m->verdict), m->verdict,
					       m->regressed, "not exact"),
			     diff_cell_both(c, m->allocated_per_s, diff_add_size),
			     diff_cell_both(c, m->allocs_per_s, diff_add_rate),
			     m->domain ? domain_words(m->domain) : "resident");
	}
}

static void compose_places(struct comparer *c, const struct diff_process *p)
{
	if (!p->places_count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Allocating places, by the change at the peak");
	document_headings(c->document, 0, DIFF_CHANGE_COLUMNS, NUMBERS("At peak A"),
			  NUMBERS("At peak B"), NUMBERS("Allocated/s", .rank = 1), REST("Place"),
			  WORDS("Memory", .rank = 6));
	for (size_t i = 0; i < p->places_count && i < c->places; i++) {
		const struct diff_place *place = &p->places[i];
		struct text name = {0};

		location_hotspot(&name, place->profile, place->memory, place->hotspot);
		document_row(c->document, DIFF_CHANGE_CELLS(c, place->live_at_peak_bytes),
			     DIFF_PAIR_CELLS(c, place->live_at_peak_bytes, diff_add_size),
			     diff_cell_both(c, place->allocated_per_s, diff_add_size),
			     document_words(c->document, &name), memory_words(place->memory));
	}
}

static void add_capture(struct text *text, const char *side, const char *name,
			const struct profile *profile)
{
	text_printf(text, "%s: ", side);
	escape_name(text, name);
	text_printf(text, ", %s", as_ns(profile->duration_ns));
	if (profile->overhead_percent >= 0)
		text_printf(text, ", estimated slowdown by tracing %s",
			    as_slowdown(profile->overhead_percent / 100));
	text_add(text, ".");
}

static void compose_process(struct comparer *c, const struct diff_process *p)
{
	struct text facts = {0};
	const struct profile_process *named = p->b ? p->b : p->a;

	if (!p->a || !p->b) {
		document_printf(c->document, BLOCK_HEADING, "%s (pid %u), in %s only",
				document_name(c->document, named->comm, 0), named->pid,
				p->a ? "A" : "B");
		return;
	}
	document_printf(c->document, BLOCK_HEADING, "%s (pid %u, then %u)",
			document_name(c->document, named->comm, 0), p->a->pid, p->b->pid);
	diff_add_fact(&facts, "wall", p->wall_ns, diff_add_time);
	diff_add_fact(&facts, "CPUs", p->cores, diff_add_number);
	diff_add_fact(&facts, "computed", p->flops_per_s, diff_add_flops);
	document_add(c->document, BLOCK_PARAGRAPH, &facts);
	compose_changes(c, p);
	if (c->comment)
		compose_significant(c, p);
	if (c->comment && !c->shape->details)
		return;
	if (c->comment)
		document_say(c->document, BLOCK_FOLD, "All that was compared");
	compose_steps(c, &p->steps);
	if (p->functions_count && p->functions[0].in == (DIFF_IN_A | DIFF_IN_B))
		compose_times(c, p);
	compose_rates(c, p);
	diff_compose_gpu(c, &p->gpu);
	compose_memory(c, p);
	compose_places(c, p);
	compose_alone(c, p, DIFF_IN_A);
	compose_alone(c, p, DIFF_IN_B);
	if (c->comment)
		document_say(c->document, BLOCK_UNFOLD, "");
}

static void compose_gate(struct comparer *c)
{
	document_printf(
		c->document, BLOCK_NOTE,
		"Regressions: %zu. A regression is a function whose calls take significantly "
		"longer, by more than %.4g %%, and which has at least %.0f %% of wall time in A or "
		"B; a kernel likewise; steps that take longer by as much; or memory whose exact "
		"peak grew by more than that and by at least 1 MiB.",
		c->diff->regressions_count, c->diff->threshold * 100, DIFF_WEIGHT_MIN * 100);
}

static void compose_note(struct comparer *c)
{
	document_say(c->document, c->comment ? BLOCK_FOLD : BLOCK_HEADING,
		     "How changes are judged");
	document_printf(
		c->document, BLOCK_NOTE,
		"Avg: per call. Time: share of wall time, nested calls included; Self: without "
		"them. Threads add up. Significant: for functions, steps and kernels, by Welch's "
		"t-test (at least %d calls on both sides), p < %.2g, corrected for %zu tests, and "
		"a change of at least %.0f %%; for memory, a change of at least %.0f %% and 1 MiB, "
		"where it is exact. The test knows only the variation within a recording. Two "
		"recordings of the same program vary more: record it twice to see how much.",
		WELCH_COUNT_MIN, DIFF_ALPHA, c->diff->tested_count, DIFF_SHARE_MIN * 100,
		DIFF_MEMORY_SHARE_MIN * 100);
	if (c->options->fails)
		compose_gate(c);
	if (c->comment)
		document_say(c->document, BLOCK_UNFOLD, "");
}

static int compose(struct comparer *c)
{
	const struct profile *a = c->diff->a, *b = c->diff->b;
	struct text verdict = {0}, captures = {0};
	struct document *d = c->document;
	size_t processes = c->diff->processes_count;

	if (c->comment && processes > c->shape->processes)
		processes = c->shape->processes;

	diff_say_verdict(&verdict, c->diff);
	document_add(d, c->verdict, &verdict);
	add_capture(&captures, "A", c->options->name_a, a);
	text_add(&captures, " ");
	add_capture(&captures, "B", c->options->name_b, b);
	document_add(d, BLOCK_PARAGRAPH, &captures);
	/* Differences in how the two were recorded. */
	if (a->partial || b->partial)
		document_say(d, BLOCK_WARNING,
			     a->partial && b->partial
				     ? "Both recordings are partial: see the report of each."
			     : a->partial ? "A is partial: see its report."
					  : "B is partial: see its report.");
	if (strcmp(a->host_name, b->host_name) || a->cpus_count != b->cpus_count)
		document_say(d, BLOCK_WARNING, "The recordings are of different machines.");
	if (a->compensated != b->compensated)
		document_say(
			d, BLOCK_WARNING,
			"The cost of probes is subtracted in one recording only (--compensate).");
	if (c->comment && c->options->fails)
		document_printf(d, BLOCK_PARAGRAPH, "Regressions of more than %.4g %%: %zu",
				c->diff->threshold * 100, c->diff->regressions_count);
	for (size_t i = 0; i < processes; i++)
		compose_process(c, &c->diff->processes[i]);
	if (processes < c->diff->processes_count)
		document_printf(d, BLOCK_PARAGRAPH, "%zu more processes",
				c->diff->processes_count - processes);
	compose_note(c);
	if (c->comment && c->shape->shortened)
		document_say(d, BLOCK_NOTE,
			     "Shortened to fit into a comment: -f text shows more, -f json all.");
	return d->failed ? -ENOMEM : 0;
}

static struct comparer comparer_of(struct document *document, const struct diff *diff,
				   const struct diff_options *options)
{
	return (struct comparer){.document = document,
				 .diff = diff,
				 .options = options,
				 .functions = options->top ?: 20,
				 .places = options->top ?: 8,
				 .verdict = BLOCK_VERDICT};
}

int diff_compose_inside(struct document *document, const struct diff *diff,
			const struct diff_options *options, unsigned name_columns)
{
	struct comparer c = comparer_of(document, diff, options);

	c.name_columns = name_columns;
	c.verdict = BLOCK_PARAGRAPH;
	return compose(&c);
}

static int write_text(FILE *out, const struct diff *diff, const struct diff_options *options)
{
	struct document document = {0};
	struct comparer c = comparer_of(&document, diff, options);
	int err = compose(&c);

	if (!err)
		err = document_write_text(out, &document, options->color, options->width ?: 80);
	document_clear(&document);
	return err;
}

/* 0 or -errno. */
static int make_comment(const struct diff *diff, const struct diff_options *options,
			const struct shape *shape, char **text, size_t *size)
{
	struct document document = {0};
	struct comparer c = comparer_of(&document, diff, options);
	FILE *out = open_memstream(text, size);
	int err = -ENOMEM;

	c.comment = true;
	c.shape = shape;
	c.functions = options->top && options->top < shape->rows ? options->top : shape->rows;
	c.places = c.functions < 10 ? c.functions : 10;
	c.name_columns = 80;
	if (out)
		err = compose(&c);
	if (!err)
		err = document_write_md(out, &document);
	if (out && fclose(out) && !err)
		err = -ENOMEM;
	document_clear(&document);
	return err;
}

static int write_md(FILE *out, const struct diff *diff, const struct diff_options *options)
{
	static const struct shape shapes[] = {
		{20, SIZE_MAX, true, false},
		{8, SIZE_MAX, true, true},
		{8, 40, false, true},
		{3, 5, false, true},
	};
	const size_t count = sizeof(shapes) / sizeof(shapes[0]);
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		char *text = NULL;
		size_t size = 0;

		err = make_comment(diff, options, &shapes[i], &text, &size);
		if (!err && (size <= COMMENT_BYTES || i == count - 1)) {
			if (fwrite(text, 1, size, out) != size)
				err = -EIO;
			free(text);
			break;
		}
		free(text);
	}
	return err;
}

static const struct diff_writer writers[] = {
	{{"text", " .txt .text "}, write_text},
	{{"md", " .md .markdown "}, write_md},
	{{"json", " .json "}, diff_write_json},
};

struct format_table diff_formats = FORMAT_TABLE(writers);
