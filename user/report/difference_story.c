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
#include "report/difference_cells.h"

#include "analyze/location.h"
#include "base/escape.h"
#include "base/quantity.h"
#include "base/utf8.h"

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
	text_add(into, ", ");
	text_add(into, text_peek(&subject));
	text_add(into, ": ");
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
		text_printf(into, "%s, %+.1f %% (", difference_of_time(steps->time), 100 * change);
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
	text_printf(&text, "%s: %zu more findings", in == DIFF_IN_A ? "gone" : "new",
		    count - FINDINGS_SHOWN);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
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
	text_add(into, " (");
	add_percent(into, share_of(f));
	text_add(into, " of the time)");
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
			text_add(&text, in == DIFF_IN_A ? "no longer called: " : "called now: ");
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
