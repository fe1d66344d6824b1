// SPDX-License-Identifier: BSD-2-Clause
/* Rules about processes that failed: the one that ended, and its parent, which lost it. */
#include "analyze/death.h"
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "base/escape.h"
#include "base/units.h"
#include "remedy_texts.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static const char *headline_class(enum death death)
{
	switch (death) {
	case DEATH_OF_MEMORY:
		return "OUT OF MEMORY";
	case DEATH_CRASHED:
		return "CRASHED";
	case DEATH_KILLED:
		return "KILLED";
	case DEATH_NONE:
	case DEATH_ASKED:
	case DEATH_STATUS:
		break;
	}
	return NULL;
}

/* The function whose instruction failed, if that is not the place itself; NULL: it is, or no
 * instruction failed, or a handler has run since. */
static const struct profile_frame *failed_function(const struct profile_process *process,
						   const struct profile_last_sample *sample,
						   const struct profile_frame *place)
{
	uint32_t flags = death_signal(process)->flags;
	const struct profile_frame *first = sample->what.stack->frames[0];

	if (!(flags & PERFX_SIGNAL_FAULT) || flags & PERFX_SIGNAL_HANDLED || first == place)
		return NULL;
	return first->function[0] ? first : NULL;
}

/* "; in memcpy (libc.so.6), called from decode (data.py:12)": by the sample that its signal caused;
 * else "; its main thread was last seen in decode (data.py:12), 40 ms before". */
static void add_place(struct text *text, const struct profile_process *process,
		      const struct profile_frame **place)
{
	const struct profile_last_sample *sample = death_sample(process);
	const struct profile_frame *failed;

	*place = death_place(process);
	if (!*place)
		return;
	if (death_sample_is_exact(process, sample)) {
		failed = failed_function(process, sample, *place);
		location_after(text, "; in ", failed);
		location_after(text, failed ? ", called from " : "; in ", *place);
		return;
	}
	location_after(text, "; its main thread was last seen in ", *place);
	text_printf(text, ", %s before", as_ns(sample->before_ns));
}

/* "; after 412 steps, the last of which ended 1.20 s before" */
static void add_steps(struct text *text, const struct profile_process *process)
{
	const struct profile_steps *steps = &process->steps;
	uint64_t last_ns;

	if (!steps->ends_count || !steps->series_count)
		return;
	last_ns = steps->series[steps->series_count - 1].to_ns;
	text_printf(text, "; after %s steps here, the last of which ended %s before",
		    as_count(steps->ends_count),
		    as_ns(process->to_ns > last_ns ? process->to_ns - last_ns : 0));
}

static void add_what(struct text *text, const struct rules_ctx *ctx,
		     const struct profile_process *process, const struct profile_frame **place)
{
	death_add(text, ctx->profile, process);
	add_place(text, process, place);
	add_steps(text, process);
}

/* abort() does, too, but that is a way to crash. */
static bool sent_itself(const struct profile_process *process, const struct perfx_signal *signal)
{
	return signal->flags & PERFX_SIGNAL_SENT && signal->sender_pid == process->pid &&
	       signal->signal != SIGABRT;
}

static const char *crash_advice(const struct profile_process *process,
				const struct perfx_signal *signal)
{
	if (signal && signal->signal == SIGBUS && signal->flags & PERFX_SIGNAL_TMPFS)
		return TRY_FULL_SHM;
	return signal && sent_itself(process, signal) ? TRY_SENT_TO_ITSELF : TRY_CRASHED;
}

/* The advice for a kind of death. */
static const char *advice(const struct profile_process *process, enum death death)
{
	switch (death) {
	case DEATH_OF_MEMORY:
		return TRY_OUT_OF_MEMORY;
	case DEATH_KILLED:
		return TRY_KILLED;
	case DEATH_CRASHED:
		return crash_advice(process, death_signal(process));
	case DEATH_NONE:
	case DEATH_ASKED:
	case DEATH_STATUS:
		break;
	}
	return TRY_EXIT_STATUS;
}

/* Of failures that follow another one, such as the other ranks', that is the cause. */
static void add_finding(struct rules_ctx *ctx, const char *kind,
			const struct profile_process *process, struct note *note)
{
	const struct profile_process *first = death_first(ctx->profile);
	/* its parent's finding says it, too */
	bool is_first = process == first &&
			(process != ctx->process || !profile_parent(ctx->profile, process));

	if (process != first && first) {
		text_add(&note->evidence, "; before, ");
		add_process_name(&note->evidence, first);
		text_add(&note->evidence, " ended: ");
		death_add_brief(&note->evidence, ctx->profile, first, true);
	}
	note->urgent = is_first;
	note->confidence = 1;
	rules_suggest(note, ctx, advice(process, death_of(ctx->profile, process)));
	rules_ctx_add(ctx, kind, high_if(is_first), process == ctx->process ? 1 : 2, note);
}

static void died(struct rules_ctx *ctx)
{
	enum death death = death_of(ctx->profile, ctx->process);
	struct note note = {.bottleneck = BOTTLENECK_DEATH};

	add_what(&note.evidence, ctx, ctx->process, &note.place);
	add_process_name(&note.headline, ctx->process);
	text_printf(&note.headline, " %s", text_peek(&note.evidence));
	note.headline_class = headline_class(death);
	add_finding(ctx, "Died", ctx->process, &note);
}

static void lost(struct rules_ctx *ctx, const struct profile_process *child, size_t others)
{
	struct note note = {.bottleneck = BOTTLENECK_DEATH};

	add_process_name(&note.evidence, child);
	text_add(&note.evidence, " ");
	add_what(&note.evidence, ctx, child, &note.place);
	add_process_name(&note.headline, ctx->process);
	text_printf(&note.headline, " lost a child: %s", text_peek(&note.evidence));
	if (others)
		text_printf(&note.evidence, "; %zu more failed after it", others);
	note.headline_class = headline_class(death_of(ctx->profile, child));
	add_finding(ctx, "LostChild", child, &note);
}

void rules_death(struct rules_ctx *ctx)
{
	const struct profile *profile = ctx->profile;
	const struct profile_process *first = NULL;
	size_t count = 0;

	FOR_EACH (process, profile->processes) {
		if (!process->status || process == ctx->process ||
		    !profile_is_child(profile, process, ctx->process) ||
		    !death_is_failure(profile, process))
			continue;
		count++;
		if (!first || process->to_ns < first->to_ns)
			first = process;
	}
	if (first)
		lost(ctx, first, count - 1);
	if (death_is_failure(profile, ctx->process))
		died(ctx);
}
