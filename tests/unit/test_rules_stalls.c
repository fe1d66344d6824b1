// SPDX-License-Identifier: BSD-2-Clause
/* Slow steps, periodic or not, what they did, and the garbage collector. */
#include "analyze/analyze.h"
#include "analyze/slow_steps.h"
#include "analyze/stack_kind.h"
#include "base/escape.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS    1000000ULL
#define S     1000000000ULL
#define STEPS 400
#define TID   42
#define START (5 * S)

static const struct profile_frame forward_frame = {.function = "forward",
						   .file = "/home/me/train.py",
						   .line = 10,
						   .module = "",
						   .module_base = "",
						   .language = PERFX_LANGUAGE_PYTHON},
				  save_frame = {.function = "checkpoint",
						.file = "/home/me/train.py",
						.line = 88,
						.module = "",
						.module_base = "",
						.language = PERFX_LANGUAGE_PYTHON},
				  evaluate_frame = {.function = "evaluate",
						    .file = "/home/me/train.py",
						    .line = 31,
						    .module = "",
						    .module_base = "",
						    .language = PERFX_LANGUAGE_PYTHON},
				  score_frame = {.function = "evaluate.<locals>.<genexpr>",
						 .file = "/home/me/train.py",
						 .line = 32,
						 .module = "",
						 .module_base = "",
						 .language = PERFX_LANGUAGE_PYTHON},
				  torch_frame = {.function = "save",
						 .file = "/usr/lib/python3/dist-packages/torch/"
							 "serialization.py",
						 .line = 423,
						 .module = "",
						 .module_base = "",
						 .language = PERFX_LANGUAGE_PYTHON},
				  collector_frame = {.function = "gc_collect_main",
						     .file = "",
						     .module = "/usr/bin/python3.11",
						     .module_base = "python3.11"};

static const struct profile_stack
	forward = {.frames = (const struct profile_frame *[]){&forward_frame}, .frames_count = 1},
	saving = {.frames = (const struct profile_frame *[]){&torch_frame, &save_frame},
		  .frames_count = 2},
	evaluating = {.frames = (const struct profile_frame *[]){&forward_frame, &score_frame,
								 &evaluate_frame},
		      .frames_count = 3},
	collecting = {.frames = (const struct profile_frame *[]){&collector_frame, &forward_frame},
		      .frames_count = 2};

/* What a step does beside its 10 ms of forward. */
enum slowness { PLAIN, SAVES, EVALUATES, COLLECTS, NO_CPU, STOPPED, WORKS };

struct training {
	struct profile profile;
	struct profile_process process;
	struct profile_thread thread;
	struct profile_step_time times[STEPS];
	struct profile_step_sample samples[STEPS * 10];
	struct profile_activity rows[4];
	struct profile_activity rival;
	const struct profile_stack *ordinary, *extra; /* of ordinary steps; of WORKS */
	enum perfx_wait_reason extra_reason;
	uint64_t now_ns;
};

static void sample(struct training *t, uint64_t time_ns, const struct profile_stack *stack,
		   enum perfx_wait_reason reason, const char *name)
{
	struct profile_steps *steps = &t->process.steps;

	t->samples[steps->samples_count++] = (struct profile_step_sample){
		.time_ns = time_ns,
		.what = {.tid = TID,
			 .stack = stack,
			 .state = reason == PERFX_WAIT_NONE	  ? PERFX_SAMPLE_ON_CPU
				  : reason == PERFX_WAIT_RUNNABLE ? PERFX_SAMPLE_RUNNABLE
								  : PERFX_SAMPLE_WAITING,
			 .reason = reason,
			 .object_name = name,
			 .count = 1,
			 .ns = 10 * MS},
	};
}

/* A step of 10 ms ± 2 %, and what it does more. */
static void step(struct training *t, uint64_t extra_ns, enum slowness slowness)
{
	struct profile_steps *steps = &t->process.steps;
	uint64_t from_ns = t->now_ns, wobble_ns = (steps->times_count * 7919 % 41) * MS / 100;
	uint64_t at_ns = from_ns + 10 * MS + wobble_ns;

	sample(t, from_ns + 5 * MS, t->ordinary, PERFX_WAIT_NONE, "");
	for (uint64_t ns = 0; ns < extra_ns; ns += 10 * MS, at_ns += 10 * MS) {
		if (slowness == SAVES && ns < extra_ns / 2)
			sample(t, at_ns + MS, &saving, PERFX_WAIT_NONE, "");
		else if (slowness == SAVES)
			sample(t, at_ns + MS, &saving, PERFX_WAIT_DISK, "/data/last.pt");
		else if (slowness == EVALUATES)
			sample(t, at_ns + MS, &evaluating, PERFX_WAIT_NONE, "");
		else if (slowness == COLLECTS)
			sample(t, at_ns + MS, &collecting, PERFX_WAIT_NONE, "");
		else if (slowness == NO_CPU)
			sample(t, at_ns + MS, &forward, PERFX_WAIT_RUNNABLE, "");
		else if (slowness == STOPPED)
			sample(t, at_ns + MS, &forward, PERFX_WAIT_STOPPED, "");
		else if (slowness == WORKS)
			sample(t, at_ns + MS, t->extra, t->extra_reason, "");
	}
	t->now_ns = from_ns + 10 * MS + wobble_ns + extra_ns;
	t->times[steps->times_count++] =
		(struct profile_step_time){.from_ns = from_ns,
					   .to_ns = t->now_ns,
					   .phases = {[PROFILE_PHASE_FORWARD] = 10 * MS + wobble_ns,
						      [PROFILE_PHASE_UNTRACED] = extra_ns}};
	steps->total_ns += t->now_ns - from_ns;
	if (t->now_ns - from_ns > steps->max_ns)
		steps->max_ns = t->now_ns - from_ns;
}

static struct training *training_new(void)
{
	struct training *t = calloc(1, sizeof(*t));

	cr_assert_not_null(t);
	t->now_ns = START;
	t->ordinary = &forward;
	return t;
}

/* After the last step. */
static void training_end(struct training *t)
{
	struct profile_steps *steps = &t->process.steps;
	uint64_t wall_ns = t->now_ns - START;

	t->thread = (struct profile_thread){.tid = TID,
					    .comm = "main",
					    .state = 'R',
					    .wall_ns = wall_ns,
					    .on_cpu_ns = wall_ns * 9 / 10,
					    .blocked_ns = wall_ns / 10};
	t->process.index = 1;
	t->process.pid = TID;
	t->process.comm = "python3";
	t->process.cmdline = "";
	t->process.from_ns = START;
	t->process.to_ns = t->now_ns;
	t->process.cpu_ns = t->process.cpu_user_ns = wall_ns * 9 / 10;
	t->process.throttled_ns = PROFILE_ABSENT;
	t->process.threads = &t->thread;
	t->process.threads_count = 1;
	steps->tid = TID;
	steps->count = steps->ends_count = steps->times_count;
	steps->avg_ns = steps->total_ns / steps->count;
	steps->p50_ns = 10 * MS + 200000;
	steps->p95_ns = steps->max_ns;
	steps->times = t->times;
	steps->samples = t->samples;
	t->profile = (struct profile){.host_name = "",
				      .kernel = "",
				      .boot_id = "",
				      .command = "",
				      .tool_version = "",
				      .start_ns = START,
				      .duration_ns = wall_ns,
				      .cpus_count = 4,
				      .ended = true,
				      .processes = &t->process,
				      .processes_count = 1,
				      .host_busy_ns = PROFILE_ABSENT,
				      .host_steal_ns = PROFILE_ABSENT};
}

/* The finding of that kind; the caller frees. NULL: there is none. */
static const struct finding *finding_of(const struct training *t, const char *kind,
					struct analysis **analysis)
{
	const struct finding *found = NULL;

	*analysis = analyze(&t->profile, NULL);
	cr_assert_not_null(*analysis);
	for (size_t i = 0; i < (*analysis)->processes[0].findings_count; i++)
		if (!strcmp((*analysis)->processes[0].findings[i].kind, kind))
			found = &(*analysis)->processes[0].findings[i];
	return found;
}

static void expect_none(const struct training *t, const char *kind)
{
	struct analysis *analysis;
	const struct finding *finding = finding_of(t, kind, &analysis);

	cr_expect_null(finding, "%s", finding ? finding->evidence : "");
	analysis__free(analysis);
}

/* Does a sentence have this part, its marks aside? */
static bool says(const char *sentence, const char *part)
{
	struct text plain = {0};
	bool found;

	escape_unmarked(&plain, sentence);
	found = strstr(text_peek(&plain), part) != NULL;
	text_clear(&plain);
	return found;
}

static const struct slow_limits limits = {
	.least = 1.25, .deviations = 6, .covered = 0.75, .confidence = 0.95};

Test(slow_steps, every_twentieth)
{
	struct training *t = training_new();
	struct slow_steps slow;

	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 60 * MS : 0, SAVES);
	training_end(t);
	cr_assert_eq(slow_steps_find(&slow, &t->process.steps, &limits), 0);
	cr_expect_eq(slow.count, 20);
	cr_expect_eq(slow.period, 20);
	cr_expect_eq(slow.first, 8);
	cr_expect_eq(slow.periodic_count, 20);
	cr_expect_eq(slow.expected_count, 20);
	cr_expect_float_eq(slow.periodic_ns, 20 * 60e6, 20 * 1e6);
	cr_expect_gt(slow.confidence, 0.999);
	free(t);
}

/* The period is 50: the list that users read by eye today. One is missing, two others are slow. */
Test(slow_steps, one_missing_and_others_between)
{
	struct training *t = training_new();
	struct slow_steps slow;

	for (size_t i = 0; i < 350; i++)
		step(t, (i % 50 == 8 && i != 158) || i == 77 || i == 290 ? 60 * MS : 0, SAVES);
	training_end(t);
	cr_assert_eq(slow_steps_find(&slow, &t->process.steps, &limits), 0);
	cr_expect_eq(slow.period, 50);
	cr_expect_eq(slow.first, 8);
	cr_expect_eq(slow.periodic_count, 6);
	cr_expect_eq(slow.expected_count, 7);
	cr_expect_float_eq(slow.periodic_ns, 6 * 60e6, 6 * 1e6);
	free(t);
}

/* Near misses: slow now and then; every 20th, but a little; too few periods; all alike. */
Test(slow_steps, no_period)
{
	static const size_t when[] = {3, 41, 55, 120, 128, 190, 263, 301, 377};
	struct training *t = training_new();
	struct slow_steps slow;

	for (size_t i = 0, next = 0; i < STEPS; i++) {
		bool is_slow = next < 9 && when[next] == i;

		next += is_slow;
		step(t, is_slow ? 60 * MS : 0, PLAIN);
	}
	training_end(t);
	cr_assert_eq(slow_steps_find(&slow, &t->process.steps, &limits), 0);
	cr_expect_eq(slow.count, 9);
	cr_expect_eq(slow.period, 0, "%zu", slow.period);
	free(t);

	t = training_new();
	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 2 * MS : 0, SAVES);
	training_end(t);
	cr_assert_eq(slow_steps_find(&slow, &t->process.steps, &limits), 0);
	cr_expect_eq(slow.count, 0);
	cr_expect_eq(slow.period, 0);
	free(t);

	t = training_new();
	for (size_t i = 0; i < STEPS; i++)
		step(t, i == 100 || i == 300 ? 60 * MS : 0, SAVES);
	training_end(t);
	cr_assert_eq(slow_steps_find(&slow, &t->process.steps, &limits), 0);
	cr_expect_eq(slow.count, 2);
	cr_expect_eq(slow.period, 0);
	free(t);

	t = training_new();
	for (size_t i = 0; i < SLOW_STEPS_MIN - 1; i++)
		step(t, i % 2 ? 60 * MS : 0, SAVES);
	training_end(t);
	cr_assert_eq(slow_steps_find(&slow, &t->process.steps, &limits), 0);
	cr_expect_eq(slow.count, 0);
	free(t);
}

/* Of each fit, all of which the program calls in one line, the first round makes the data set. */
Test(stalls, of_a_package_are_for_the_line_that_calls_it)
{
	static const struct profile_frame construct = {.function = "Dataset.construct",
						       .file = "/v/site-packages/lightgbm/basic.py",
						       .line = 2574,
						       .module = "",
						       .module_base = "",
						       .language = PERFX_LANGUAGE_PYTHON};
	const struct profile_stack constructing = {
		.frames = (const struct profile_frame *[]){&construct, &forward_frame},
		.frames_count = 2};
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	t->extra = &constructing;
	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 25 == 8 ? 60 * MS : 0, WORKS);
	training_end(t);
	finding = finding_of(t, "PeriodicStall", &analysis);
	cr_assert_not_null(finding);
	cr_expect(says(finding->headline,
		       "Dataset.construct (basic.py:2574), for forward (train.py:10)"),
		  "%s", finding->headline);
	analysis__free(analysis);
	free(t);
}

Test(stalls, checkpoint)
{
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 60 * MS : 0, SAVES);
	training_end(t);
	finding = finding_of(t, "PeriodicStall", &analysis);
	cr_assert_not_null(finding);
	cr_expect_eq(finding->bottleneck, BOTTLENECK_STALL);
	cr_expect_eq(finding->severity, FINDING_MEDIUM);
	cr_expect_float_eq(finding->gain_ns, 3e6, 1e5, "%f", finding->gain_ns);
	cr_expect_gt(finding->confidence, 0.99);
	cr_expect(says(finding->subject, "checkpoint (train.py:88)"));
	cr_expect_str_eq(finding->place.function, "checkpoint");
	cr_expect_eq(finding->place.line, 88);
	cr_expect(says(finding->evidence, "every 20th step takes "));
	cr_expect(says(finding->evidence, "checkpoint (train.py:88), which calls torch.save"));
	cr_expect(says(finding->evidence, "waits for the disk (/data/last.pt)"), "%s",
		  finding->evidence);
	cr_expect(says(finding->suggestion, "checkpoints less often"));
	cr_expect_eq(strncmp(finding->headline, "STALLED: ", 9), 0, "%s", finding->headline);
	analysis__free(analysis);
	expect_none(t, "UnevenSteps");
	expect_none(t, "GarbageCollection");
	free(t);
}

/* The layer of the model in which it is most of the time is in each step. */
Test(stalls, evaluation)
{
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 60 * MS : 0, EVALUATES);
	training_end(t);
	finding = finding_of(t, "PeriodicStall", &analysis);
	cr_assert_not_null(finding);
	cr_expect_str_eq(finding->place.function, "evaluate");
	cr_expect_eq(finding->place.line, 31);
	cr_expect(says(finding->suggestion, "Evaluate less often"));
	analysis__free(analysis);
	free(t);
}

/* Without persistent_workers each epoch forks them. */
Test(stalls, workers_of_each_epoch)
{
	static const struct profile_frame iter = {.function = "DataLoader.__iter__",
						  .file = "/usr/lib/python3/dist-packages/torch/"
							  "utils/data/dataloader.py",
						  .line = 505,
						  .module = "",
						  .module_base = "",
						  .language = PERFX_LANGUAGE_PYTHON};
	const struct profile_stack starting = {
		.frames = (const struct profile_frame *[]){&iter, &forward_frame},
		.frames_count = 2};
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	t->extra = &starting;
	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 60 * MS : 0, WORKS);
	training_end(t);
	finding = finding_of(t, "PeriodicStall", &analysis);
	cr_assert_not_null(finding);
	cr_expect(says(finding->suggestion, "keep them (persistent_workers=True)"));
	analysis__free(analysis);
	free(t);
}

/* The place of a training whose every 20th step runs a stack for 60 ms more than the other stack;
 * expects it and what it calls (NULL: nothing). Frames: innermost first. */
static void expect_place(const struct profile_stack *ordinary, const struct profile_stack *extra,
			 enum perfx_wait_reason reason, const char *place, const char *callee)
{
	struct training *t = training_new();
	struct slow_cause cause;
	struct slow_steps slow;

	t->ordinary = ordinary;
	t->extra = extra;
	t->extra_reason = reason;
	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 600 * MS : 0, WORKS);
	training_end(t);
	cr_assert_eq(slow_steps_find(&slow, &t->process.steps,
				     &(struct slow_limits){1.2, 4, 0.9, 0.95}),
		     0);
	cr_assert_eq(slow_steps_cause(&cause, &slow, &t->process, true), 0);
	cr_assert_not_null(cause.place, "%s", place);
	cr_expect_str_eq(cause.place->function, place);
	cr_expect_str_eq(cause.callee ? cause.callee->function : "(nothing)",
			 callee ?: "(nothing)");
	free(t);
}

#define FRAME(path, name, at)                              \
	(&(const struct profile_frame){.function = (name), \
				       .file = (path),     \
				       .line = (at),       \
				       .module = "",       \
				       .module_base = "",  \
				       .language = PERFX_LANGUAGE_PYTHON})
#define OWN(name, at)	  FRAME("/home/me/train.py", name, at)
#define PACKAGE(name, at) FRAME("/venv/lib/python3.11/site-packages/lib/trainer.py", name, at)
#define STACK(...)                                                       \
	(&(const struct profile_stack){                                  \
		.frames = (const struct profile_frame *[]){__VA_ARGS__}, \
		.frames_count =                                          \
			sizeof((const struct profile_frame *[]){__VA_ARGS__}) / sizeof(void *)})

/* A package's trainer evaluates: its public function is named, not the hook around it, and neither
 * the loop below it nor the program's model. */
Test(stalls, evaluation_in_a_package)
{
	const struct profile_stack *ordinary =
		STACK(OWN("Net.forward", 5), PACKAGE("Trainer.training_step", 50),
		      PACKAGE("Trainer.train", 20), OWN("<module>", 9));

	expect_place(ordinary,
		     STACK(OWN("Net.forward", 5), PACKAGE("Trainer.evaluation_loop", 90),
			   PACKAGE("Trainer.evaluate", 80),
			   PACKAGE("Trainer._maybe_log_save_evaluate", 70),
			   PACKAGE("Trainer.train", 20), OWN("<module>", 9)),
		     PERFX_WAIT_NONE, "Trainer.evaluate", NULL);
	/* a decorator's wrapper says nothing */
	expect_place(ordinary,
		     STACK(OWN("Net.forward", 5), PACKAGE("Trainer.evaluate", 80),
			   PACKAGE("traced.<locals>.wrapper", 12), PACKAGE("Trainer.train", 20),
			   OWN("<module>", 9)),
		     PERFX_WAIT_NONE, "Trainer.evaluate", NULL);
	/* the program's own measure is the better name where it takes the time */
	expect_place(ordinary,
		     STACK(OWN("exact_match", 30), PACKAGE("Trainer.evaluate", 80),
			   PACKAGE("Trainer.train", 20), OWN("<module>", 9)),
		     PERFX_WAIT_NONE, "exact_match", "(nothing)");
}

/* Where slow steps are in the same functions as others, the trainer's loop is named, not the
 * wrapper around it. */
Test(stalls, wrapper_around_a_trainer)
{
	const struct profile_stack *stack =
		STACK(PACKAGE("execute", 50), PACKAGE("Trainer.fit", 20),
		      PACKAGE("traced.<locals>.wrapper", 12), OWN("main", 9));

	expect_place(stack, stack, PERFX_WAIT_FUTEX, "main", "Trainer.fit");
}

/* The program's function of any name, not a layer below it that is hardly ever sampled in ordinary
 * steps, and with the function for which a hook alone is there. */
Test(stalls, evaluation_of_any_name)
{
	const struct profile_stack *ordinary =
		STACK(OWN("Net.forward", 5), OWN("fit", 20), OWN("<module>", 9));

	expect_place(ordinary,
		     STACK(OWN("Net.block", 6), OWN("Net.forward", 5), OWN("dev_loop", 40),
			   OWN("fit", 21), OWN("<module>", 9)),
		     PERFX_WAIT_NONE, "dev_loop", "Net.block");
	/* the class's name says as much of each of its methods */
	expect_place(ordinary,
		     STACK(PACKAGE("save", 300), OWN("Saver.save", 61), OWN("Saver.end", 51),
			   OWN("fit", 21), OWN("<module>", 9)),
		     PERFX_WAIT_NONE, "Saver.save", "save");
	expect_place(ordinary,
		     STACK(PACKAGE("savefig", 300), OWN("plot.<locals>.<genexpr>", 32),
			   OWN("plot", 31), OWN("after_step", 41), OWN("fit", 21),
			   OWN("<module>", 9)),
		     PERFX_WAIT_NONE, "after_step", "plot");
}

/* A loop without a function of its own is a line that only slow steps reach. */
Test(stalls, evaluation_without_a_function)
{
	expect_place(STACK(OWN("Net.forward", 5), OWN("fit", 20), OWN("<module>", 9)),
		     STACK(OWN("Net.forward", 5), OWN("fit", 27), OWN("<module>", 9)),
		     PERFX_WAIT_NONE, "fit", NULL);
}

/* Other programs have the CPUs while it evaluates: it is slow as it evaluates. */
Test(stalls, evaluation_beside_others)
{
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	t->extra = &evaluating;
	t->extra_reason = PERFX_WAIT_RUNNABLE;
	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 60 * MS : 0, WORKS);
	training_end(t);
	finding = finding_of(t, "PeriodicStall", &analysis);
	cr_assert_not_null(finding);
	cr_expect(says(finding->headline, "in evaluate (train.py:31)"), "%s", finding->headline);
	analysis__free(analysis);
	free(t);
}

/* Near miss: every 200th step saves nothing worth a word. */
Test(stalls, rare_checkpoint)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 100 == 8 ? 20 * MS : 0, SAVES);
	training_end(t);
	expect_none(t, "PeriodicStall");
	expect_none(t, "UnevenSteps");
	free(t);
}

/* A few steps that come irregularly take much of the time: the first sentence says so. Others that
 * are slow take little. */
Test(stalls, a_few_slow_steps)
{
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	for (size_t i = 0; i < STEPS; i++)
		step(t,
		     i == 37 || i == 101 || i == 230  ? 300 * MS
		     : i == 12 || i == 55 || i == 310 ? 6 * MS
						      : 0,
		     SAVES);
	training_end(t);
	finding = finding_of(t, "UnevenSteps", &analysis);
	cr_assert_not_null(finding);
	cr_expect_eq(finding->severity, FINDING_MEDIUM);
	cr_expect(says(finding->suggestion, "Write checkpoints less often"), "%s",
		  finding->suggestion);
	cr_expect(says(finding->headline,
		       "STALLED: 18.0 % of each 12.5 ms step, as 3 of 400 steps "
		       "take 300 ms more on average, in checkpoint (train.py:88), "
		       "which calls torch.save"),
		  "%s", finding->headline);
	cr_expect_str_eq(finding->place.function, "checkpoint");
	analysis__free(analysis);
	free(t);
}

/* Near miss: they take less than a tenth of the time. */
Test(stalls, a_few_steps_that_are_not_slow_enough)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++)
		step(t, i == 37 || i == 101 || i == 230 ? 130 * MS : 0, SAVES);
	training_end(t);
	expect_none(t, "UnevenSteps");
	free(t);
}

/* Near miss: they take an eighth of the time, and each four times as long as the others. */
Test(stalls, a_few_steps_that_vary)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++)
		step(t, i * i % 397 < 20 ? 30 * MS : 0, SAVES);
	training_end(t);
	expect_none(t, "UnevenSteps");
	free(t);
}

/* Near miss: rounds of boosting vary by themselves; a step of the program's own may not. */
Test(stalls, steps_that_are_one_call)
{
	for (unsigned by_call = 0; by_call < 2; by_call++) {
		struct training *t = training_new();
		struct analysis *analysis;

		for (size_t i = 0; i < STEPS; i++)
			step(t, i * i % 397 < 52 ? 30 * MS : 0, PLAIN);
		training_end(t);
		t->process.steps.found_by =
			by_call ? PROFILE_STEPS_BY_CALL : PROFILE_STEPS_BY_PERIOD;
		cr_expect_eq(!finding_of(t, "UnevenSteps", &analysis), by_call);
		analysis__free(analysis);
		free(t);
	}
}

/* Near miss: a few steps lack a CPU, and less than a fifth of the time is lost by that. */
Test(stalls, a_few_steps_without_a_cpu)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++)
		step(t, i == 37 || i == 101 || i == 230 ? 300 * MS : 0, NO_CPU);
	training_end(t);
	expect_none(t, "UnevenSteps");
	free(t);
}

/* Without samples the phase is all that is known. */
Test(stalls, without_samples)
{
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 60 * MS : 0, PLAIN);
	training_end(t);
	t->process.steps.samples_count = 0;
	finding = finding_of(t, "PeriodicStall", &analysis);
	cr_assert_not_null(finding);
	cr_expect_null(finding->place.function);
	cr_expect(says(finding->evidence, "most of it is untraced"));
	analysis__free(analysis);
	free(t);
}

/* The optimizer of every 4th backward pass is work. */
Test(stalls, accumulated_gradients)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++) {
		struct profile_step_time *last;

		step(t, i % 4 == 3 ? 10 * MS : 0, PLAIN);
		last = &t->times[t->process.steps.times_count - 1];
		last->phases[PROFILE_PHASE_OPTIMIZER] = last->phases[PROFILE_PHASE_UNTRACED];
		last->phases[PROFILE_PHASE_UNTRACED] = 0;
	}
	training_end(t);
	expect_none(t, "PeriodicStall");
	free(t);
}

/* Irregular, while another program has the CPU: it is named, and no line of the program is. */
Test(stalls, contention)
{
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	for (size_t i = 0; i < STEPS; i++)
		step(t, i * i % 17 == 13 ? 60 * MS : 0, NO_CPU);
	training_end(t);
	t->rival = (struct profile_activity){.tid = TID,
					     .state = PERFX_SAMPLE_RUNNABLE,
					     .reason = PERFX_WAIT_RUNNABLE,
					     .object_name = "rival",
					     .count = 10,
					     .ns = 10 * MS};
	t->process.blocked = (struct profile_activities){&t->rival, 1};
	finding = finding_of(t, "UnevenSteps", &analysis);
	cr_assert_not_null(finding);
	cr_expect_eq(finding->bottleneck, BOTTLENECK_CONTENTION);
	cr_expect_null(finding->place.function);
	cr_expect(says(finding->evidence, "without a CPU (rival)"), "%s", finding->evidence);
	analysis__free(analysis);
	free(t);
}

/* A debugger stopped the program in one step: no line of the program is to blame. */
Test(stalls, stopped)
{
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	for (size_t i = 0; i < STEPS; i++)
		step(t, i == STEPS / 2 ? 4000 * MS : 0, STOPPED);
	training_end(t);
	finding = finding_of(t, "UnevenSteps", &analysis);
	cr_assert_not_null(finding);
	cr_expect_null(finding->place.function);
	cr_expect(says(finding->evidence, "100 % stopped by a signal, a debugger or a freezer"),
		  "%s", finding->evidence);
	cr_expect(says(finding->suggestion, "docker pause"), "%s", finding->suggestion);
	analysis__free(analysis);
	free(t);
}

/* The verdict of a flight recorder's capture is the step for which it was written, though another
 * one is slower. */
Test(stalls, a_captured_step)
{
	struct training *t = training_new();
	const struct profile_step_time *step_time;
	const struct finding *finding;
	struct analysis *analysis;

	for (size_t i = 0; i < STEPS; i++)
		step(t,
		     i == 123	? 400 * MS
		     : i == 300 ? 900 * MS
				: 0,
		     i == 123 ? SAVES : EVALUATES);
	training_end(t);
	step_time = &t->times[123];
	t->profile.time_slice = (struct profile_time_slice){.why = "",
							    .step_process = 1,
							    .step_from_ns = step_time->from_ns,
							    .step_to_ns = step_time->to_ns};
	finding = finding_of(t, "SlowStep", &analysis);
	cr_assert_not_null(finding);
	cr_expect_eq(analysis->first, finding);
	cr_expect(says(analysis->verdict, "STALLED: the step for which this was recorded took"),
		  "%s", analysis->verdict);
	cr_expect(says(finding->evidence, "40.2 times the median of 10.2 ms; 100 % of that in "),
		  "%s", finding->evidence);
	cr_expect_str_eq(finding->place.function, "checkpoint");
	analysis__free(analysis);
	/* a capture of another process's step, or of none */
	t->profile.time_slice.step_process = 2;
	expect_none(t, "SlowStep");
	t->profile.time_slice = (struct profile_time_slice){.why = "", .step_process = 1};
	expect_none(t, "SlowStep");
	free(t);
}

Test(garbage, in_stacks)
{
	static const struct profile_frame generations = {.function = "gc_collect_generations",
							 .module = "",
							 .module_base = "libpython3.12.so.1.0"},
					  other = {.function = "gc_collect_main",
						   .module = "",
						   .module_base = "libruby.so"},
					  finalize = {.function = "Py_FinalizeEx",
						      .module = "",
						      .module_base = "python3.11"};

	cr_expect(stack_collects_garbage(&collecting));
	cr_expect_not(stack_collects_garbage(&saving));
	cr_expect_not(stack_collects_garbage(NULL));
	cr_expect(stack_collects_garbage(&(struct profile_stack){
		.frames = (const struct profile_frame *[]){&generations, &forward_frame},
		.frames_count = 2}));
	cr_expect_not(stack_collects_garbage(&(struct profile_stack){
		.frames = (const struct profile_frame *[]){&other, &forward_frame},
		.frames_count = 2}));
	/* a finalizer that runs Python */
	cr_expect_not(stack_collects_garbage(&(struct profile_stack){
		.frames = (const struct profile_frame *[]){&save_frame, &collector_frame,
							   &forward_frame},
		.frames_count = 3}));
	/* the last collection of an interpreter that ends */
	cr_expect_not(stack_collects_garbage(&(struct profile_stack){
		.frames = (const struct profile_frame *[]){&collector_frame, &finalize},
		.frames_count = 2}));
}

/* Each of `count` samples stands for a hundredth of the wall time. */
static void collect(struct training *t, uint64_t count)
{
	uint64_t wall_ns = t->now_ns - START;

	t->rows[0] = (struct profile_activity){.tid = TID,
					       .state = PERFX_SAMPLE_ON_CPU,
					       .stack = &collecting,
					       .object_name = "",
					       .count = count,
					       .ns = wall_ns / 100 * count};
	t->process.samples = (struct profile_activities){t->rows, 1};
}

Test(garbage, share_of_a_step)
{
	struct training *t = training_new();
	const struct finding *finding;
	struct analysis *analysis;

	for (size_t i = 0; i < STEPS; i++)
		step(t, 0, PLAIN);
	training_end(t);
	collect(t, 40);
	finding = finding_of(t, "GarbageCollection", &analysis);
	cr_assert_not_null(finding);
	cr_expect_eq(finding->severity, FINDING_HIGH);
	cr_expect_eq(finding->bottleneck, BOTTLENECK_STALL);
	cr_expect_float_eq(finding->gain_ns, 0.4 * (double)t->process.steps.avg_ns, 1e4);
	cr_expect_str_eq(finding->place.function, "forward");
	cr_expect(says(finding->suggestion, "gc.freeze()"));
	analysis__free(analysis);
	expect_none(t, "PythonBound");
	free(t);
}

/* Near miss: what imports collect is no part of a step. */
Test(garbage, before_the_first_step)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++)
		step(t, 0, PLAIN);
	training_end(t);
	collect(t, 40);
	t->rows[0].outside_count = 39;
	t->rows[0].outside_ns = t->rows[0].ns / 40 * 39;
	t->process.steps.outside_ns = (t->now_ns - START) / 2;
	expect_none(t, "GarbageCollection");
	free(t);
}

/* Near miss: it has no CPU for it. */
Test(garbage, without_a_cpu)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++)
		step(t, 0, PLAIN);
	training_end(t);
	collect(t, 40);
	t->rows[0].state = PERFX_SAMPLE_RUNNABLE;
	t->rows[0].reason = PERFX_WAIT_RUNNABLE;
	expect_none(t, "GarbageCollection");
	free(t);
}

/* Near miss: a healthy trainer collects a little. */
Test(garbage, a_little)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++)
		step(t, 0, PLAIN);
	training_end(t);
	collect(t, 3);
	expect_none(t, "GarbageCollection");
	free(t);
}

/* Every 20th step collects: one finding, not two. */
Test(garbage, that_is_periodic)
{
	struct training *t = training_new();

	for (size_t i = 0; i < STEPS; i++)
		step(t, i % 20 == 8 ? 60 * MS : 0, COLLECTS);
	training_end(t);
	collect(t, 23);
	expect_none(t, "PeriodicStall");
	free(t);
}
