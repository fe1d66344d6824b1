// SPDX-License-Identifier: BSD-2-Clause
/*
 * What happened between two recordings of a process, before any table:
 *
 *     gone: MemoryLeak, host heap of trainer (pid 42): keeps 6.50 MiB a second, 22.9 GiB an hour
 *     new: DataBound, trainer (pid 51): waited for the next batch in 41.0 % of the time of 60 steps
 *     peak of host heap: 64.0 MiB → 96.0 MiB (+50.0 %)
 *     no longer called: memcpy (1.0 % of the time)
 *     called now: memmove (1.0 % of the time)
 *     steps: no significant change (75.2 ms → 50.3 ms, noisy)
 */
#include "analyze/location.h"
#include "base/escape.h"
#include "base/text.h"
#include "base/units.h"
#include "diff/compose.h"

#include <math.h>
#include <string.h>

#define FINDINGS_SHOWN	5
#define FUNCTIONS_SHOWN 3
/* A mean that moved so much, and not significantly: the steps differ much from each other. */
#define NOISY_CHANGE 0.05
#define NAME_COLUMNS 80

/* The head of the evidence, up to its first semicolon, says what was found. */
void story_add_finding(struct text *into, const struct finding *finding)
{
	struct text subject = {0}, evidence = {0};

	escape_unmarked(&subject, finding->subject);
	escape_unmarked(&evidence, finding->evidence);
	escape_display(into, finding->kind);
	text_printf(into, ", %s: ", text_peek(&subject));
	text_add_bytes(into, text_peek(&evidence), strcspn(text_peek(&evidence), ";"));
	into->failed |= subject.failed | evidence.failed;
	text_clear(&subject);
	text_clear(&evidence);
}

void story_add_steps(struct text *into, const struct diff_steps *steps)
{
	double change = diff_change(steps->avg_ns);

	if (steps->time == DIFF_SAME)
		text_add(into, "no significant change (");
	else if (steps->time == DIFF_UNJUDGED)
		text_add(into, "too few to compare (");
	else
		text_printf(into, "%s, %+.1f %% (", diff_time_word(steps->time), 100 * change);
	add_both(into, steps->avg_ns, add_time);
	text_add(into, steps->time == DIFF_SAME && fabs(change) >= NOISY_CHANGE ? ", noisy)" : ")");
}

void story_add_peak(struct text *into, const struct diff_memory *memory)
{
	text_printf(into, "peak of %s: ",
		    memory->domain ? domain_words(memory->domain) : "resident memory");
	add_both(into, memory->peak_bytes, add_size);
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
		story_add_finding(&text, p->findings[i].finding);
		document_add(c->document, BLOCK_PARAGRAPH, &text);
	}
	if (count <= FINDINGS_SHOWN)
		return;
	document_printf(c->document, BLOCK_PARAGRAPH, "%s: %zu more findings",
			in == DIFF_IN_A ? "gone" : "new", count - FINDINGS_SHOWN);
}

static void compose_peaks(struct comparer *c, const struct diff_process *p)
{
	struct text text = {0};

	for (size_t i = 0; i < p->memory_count; i++) {
		const struct diff_memory *memory = &p->memory[i];

		if (memory->verdict != DIFF_WORSE && memory->verdict != DIFF_BETTER)
			continue;
		story_add_peak(&text, memory);
		document_add(c->document, BLOCK_PARAGRAPH, &text);
	}
}

static double share_of(const struct diff_function *f)
{
	return f->in == DIFF_IN_A ? f->total_share.a : f->total_share.b;
}

static void add_function(struct text *into, const struct diff_function *f)
{
	struct text name = {0};

	utf8_shorten(&name, f->function->name[0] ? f->function->name : "?", NAME_COLUMNS);
	escape_name(into, text_peek(&name));
	text_printf(into, " (%s of the time)", as_percent(share_of(f)));
	into->failed |= name.failed;
	text_clear(&name);
}

/* They come in the order of their shares. */
static void compose_functions(struct comparer *c, const struct diff_process *p, unsigned in)
{
	struct text text = {0};
	size_t count = 0;

	for (size_t i = 0; i < p->functions_count; i++) {
		const struct diff_function *f = &p->functions[i];

		if (f->in != in || isnan(share_of(f)) || count++ >= FUNCTIONS_SHOWN)
			continue;
		if (count == 1)
			text_add(&text, in == DIFF_IN_A ? "no longer called: " : "newly called: ");
		text_add(&text, count > 1 ? ", " : "");
		add_function(&text, f);
	}
	if (count > FUNCTIONS_SHOWN)
		text_printf(&text, ", %zu more", count - FUNCTIONS_SHOWN);
	if (count)
		document_add(c->document, BLOCK_PARAGRAPH, &text);
}

void compose_story(struct comparer *c, const struct diff_process *p)
{
	struct text text = {0};

	compose_findings(c, p, DIFF_IN_A);
	compose_findings(c, p, DIFF_IN_B);
	compose_peaks(c, p);
	compose_functions(c, p, DIFF_IN_A);
	compose_functions(c, p, DIFF_IN_B);
	if (p->steps.in != (DIFF_IN_A | DIFF_IN_B))
		return;
	text_add(&text, "steps: ");
	story_add_steps(&text, &p->steps);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

/* --- the verdict ------------------------------------------------------------------------------ */

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

/* The first of a process is the one with the largest impact. */
static const struct diff_function *largest(const struct diff *diff, enum diff_verdict verdict)
{
	const struct diff_function *found = NULL;

	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_process *p = &diff->processes[i];

		for (size_t j = 0; j < p->functions_count; j++) {
			const struct diff_function *f = &p->functions[j];

			if (f->time == verdict && (!found || fabs(f->impact) > fabs(found->impact)))
				found = f;
		}
	}
	return found;
}

static double growth(const struct diff_memory *memory)
{
	return memory->peak_bytes.b - memory->peak_bytes.a;
}

static const struct diff_memory *more_memory(const struct diff *diff)
{
	const struct diff_memory *found = NULL;

	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_process *p = &diff->processes[i];

		for (size_t j = 0; j < p->memory_count; j++) {
			const struct diff_memory *m = &p->memory[j];

			if (m->verdict == DIFF_WORSE && (!found || growth(m) >= growth(found)))
				found = m;
		}
	}
	return found;
}

static void add_verdict_of(struct text *into, const struct diff_function *f)
{
	escape_name(into, f->function->name[0] ? f->function->name : "?");
	text_printf(into, " is %s: %+.1f %% per call (", diff_time_word(f->time),
		    100 * diff_change(f->avg_ns));
	add_both(into, f->avg_ns, add_time);
	text_add(into, ").");
}

/* The most severe of those of one side, and how many there are. */
static const struct finding *first_finding(const struct diff *diff, unsigned in, size_t *count)
{
	const struct finding *first = NULL;

	*count = 0;
	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_process *p = &diff->processes[i];

		for (size_t j = 0; j < p->findings_count; j++) {
			const struct finding *finding = p->findings[j].finding;

			if (p->findings[j].in != in)
				continue;
			++*count;
			if (!first || finding->severity < first->severity)
				first = finding;
		}
	}
	return first;
}

static void add_findings(struct text *into, const struct diff *diff, unsigned in)
{
	size_t count;
	const struct finding *finding = first_finding(diff, in, &count);

	if (!finding)
		return;
	text_add(into, in == DIFF_IN_A ? "Gone: " : "New: ");
	story_add_finding(into, finding);
	if (count > 1)
		text_printf(into, " (and %zu more finding%s)", count - 1, count == 2 ? "" : "s");
	text_add(into, ". ");
}

static void add_memory(struct text *into, const struct diff_memory *m)
{
	text_add(into, "The ");
	story_add_peak(into, m);
	text_add(into, ". ");
}

/* Of processes with steps on both sides the one whose changed most, in time. */
static const struct diff_steps *changed_steps(const struct diff *diff)
{
	const struct diff_steps *found = NULL;

	for (size_t i = 0; i < diff->processes_count; i++) {
		const struct diff_steps *s = &diff->processes[i].steps;

		if (s->time == DIFF_UNJUDGED)
			continue;
		if (!found || fabs(diff_change(s->avg_ns)) > fabs(diff_change(found->avg_ns)))
			found = s;
	}
	return found;
}

static void add_steps(struct text *into, const struct diff_steps *steps)
{
	text_add(into, "Steps: ");
	story_add_steps(into, steps);
	text_add(into, ". ");
}

void diff_say_verdict(struct text *into, const struct diff *diff)
{
	const struct diff_function *f = largest(diff, DIFF_WORSE);
	const struct diff_memory *m = more_memory(diff);
	const struct diff_steps *steps = changed_steps(diff);

	if (!f)
		f = largest(diff, DIFF_BETTER);
	add_findings(into, diff, DIFF_IN_A);
	add_findings(into, diff, DIFF_IN_B);
	if (m)
		add_memory(into, m);
	if (steps)
		add_steps(into, steps);
	if (f)
		add_verdict_of(into, f);
	else if (!diff->compared_count)
		text_add(into, "No function was called in both recordings.");
	else if (!diff->tested_count)
		text_add(into, "No function has enough calls to compare.");
	else
		text_add(into, "No function changed significantly.");
	if (!diff->compared_count)
		return;
	text_printf(into, " Of %s function%s in both, %zu slower, %zu faster.",
		    as_count(diff->compared_count), diff->compared_count == 1 ? "" : "s",
		    diff->worse_count, diff->better_count);
}
