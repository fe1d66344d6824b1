// SPDX-License-Identifier: BSD-2-Clause
/*
 * Findings that one side has and the other has not. A finding is the same one when its kind is, and
 * what it is about: subjects are compared without the numbers of processes and threads, which
 * differ from run to run.
 */
#include "diff/internal.h"

#include "base/escape.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where " (pid 42)" or " (tid 42)" that begins here ends; NULL: it is something else. */
static const char *id_end(const char *text)
{
	const char *at = text + strlen(" (pid ");

	if (strncmp(text, " (pid ", 6) != 0 && strncmp(text, " (tid ", 6) != 0)
		return NULL;
	while (isdigit((unsigned char)*at))
		at++;
	return *at == ')' ? at + 1 : NULL;
}

static char *subject_without_ids(const struct finding *finding)
{
	struct text subject = {0}, key = {0};
	const char *at;

	escape_unmarked(&subject, finding->subject);
	for (at = text_peek(&subject); *at;) {
		const char *end = id_end(at);

		if (!end)
			text_add_bytes(&key, at, 1);
		at = end ? end : at + 1;
	}
	key.failed |= subject.failed;
	text_clear(&subject);
	return text_take(&key);
}

/* 1, 0 or -ENOMEM */
static int is_same(const struct finding *x, const struct finding *y)
{
	char *a, *b;
	int same;

	if (strcmp(x->kind, y->kind) != 0)
		return 0;
	a = subject_without_ids(x);
	b = subject_without_ids(y);
	same = a && b ? !strcmp(a, b) : -ENOMEM;
	free(a);
	free(b);
	return same;
}

/* Is it among them? */
static int has(const struct process_analysis *analysis, const struct finding *finding)
{
	int found = 0;

	for (size_t i = 0; i < analysis->findings_count && !found; i++)
		found = is_same(&analysis->findings[i], finding);
	return found;
}

static int add_missing(struct diff_process *process, unsigned in, const struct process_analysis *of,
		       const struct process_analysis *other)
{
	for (size_t i = 0; i < of->findings_count; i++) {
		int found = has(other, &of->findings[i]);

		if (found < 0)
			return found;
		if (!found)
			process->findings[process->findings_count++] =
				(struct diff_finding){in, &of->findings[i]};
	}
	return 0;
}

static int compare(struct diff_process *process, const struct process_analysis *a,
		   const struct process_analysis *b)
{
	int err;

	process->findings =
		calloc(a->findings_count + b->findings_count + 1, sizeof(*process->findings));
	if (!process->findings)
		return -ENOMEM;
	err = add_missing(process, DIFF_IN_A, a, b);
	return err ? err : add_missing(process, DIFF_IN_B, b, a);
}

int diff_findings(struct diff *diff, const struct analysis *a, const struct analysis *b)
{
	int err = 0;

	for (size_t i = 0; i < diff->processes_count && !err; i++) {
		struct diff_process *process = &diff->processes[i];

		if (process->a && process->b)
			err = compare(process, &a->processes[process->a - diff->a->processes],
				      &b->processes[process->b - diff->b->processes]);
	}
	return err;
}
