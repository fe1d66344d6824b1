// SPDX-License-Identifier: BSD-2-Clause
/* Which function gets which remedy. */
#include "analyze/remedy.h"
#include "profile_parts.h"

#include <string.h>

/* One process that computes all the time, in one function called by another. */
struct scene {
	struct profile profile;
	struct profile_process process;
	struct profile_row row;
	struct profile_function functions[2];
	struct profile_caller caller;
	struct profile_thread thread;
};

static void scene_set(struct scene *s, enum perfx_source source, const char *name, unsigned flags)
{
	*s = (struct scene){0};
	for (uint32_t i = 0; i < 2; i++)
		s->functions[i] = (struct profile_function){.id = i + 1,
							    .source = source,
							    .name = name,
							    .flags = flags,
							    .module = "",
							    .module_base = ""};
	s->caller = (struct profile_caller){.caller = PROFILE_CALLER_UNTRACED, .calls_count = 100};
	s->row = part_row();
	s->row.calls_count = s->row.timed_count = 100;
	s->row.total_ns = s->row.self_ns = 8 * S;
	s->row.avg_ns = S / 12;
	s->row.callers = &s->caller;
	s->row.callers_count = 1;
	s->thread = part_thread();
	s->process = part_process(&s->row, &s->thread);
	s->profile = part_profile(&s->process, s->functions, 2);
}

static enum remedy_kind kind_of(const struct scene *s)
{
	return remedy_kind(&s->profile, &s->process, &s->row);
}

Test(remedy, by_name)
{
	static const struct {
		enum perfx_source source;
		const char *name;
		unsigned flags;
		enum remedy_kind kind;
	} cases[] = {
		{PERFX_SOURCE_TORCH, "at::_ops::mm::call", 0, REMEDY_OPERATOR},
		{PERFX_SOURCE_TORCH, "at::_ops::copy_::call", 0, REMEDY_COPY},
		{PERFX_SOURCE_TORCH, "at::_ops::topk::call", 0, REMEDY_OPERATOR},
		{PERFX_SOURCE_TORCH, "at::_ops::to_dtype_layout::call", 0, REMEDY_COPY},
		{PERFX_SOURCE_TORCH, "torch::autograd::Engine::execute", 0, REMEDY_AUTOGRAD},
		{PERFX_SOURCE_TORCH, "Optimizer.step#SGD.step", PERFX_FUNCTION_RANGE,
		 REMEDY_OPTIMIZER},
		{PERFX_SOURCE_TORCH, "enumerate(DataLoader)#_X.__next__", PERFX_FUNCTION_RANGE,
		 REMEDY_DATA},
		{PERFX_SOURCE_TORCH, "forward", PERFX_FUNCTION_RANGE, REMEDY_RANGE},
		{PERFX_SOURCE_JAX, "xla::PjRtCpuClient::CompileAndLoad", 0, REMEDY_COMPILE},
		{PERFX_SOURCE_JAX, "xla::CommonPjRtClient::BufferFromHostBuffer", 0, REMEDY_COPY},
		{PERFX_SOURCE_XLA, "jit_train_step/dot.1", 0, REMEDY_OPERATOR},
		{PERFX_SOURCE_XLA, "jit_train_step/transpose.3", 0, REMEDY_COPY},
		{PERFX_SOURCE_NVTX, "CompiledFunction", PERFX_FUNCTION_RANGE, REMEDY_RANGE},
		{PERFX_SOURCE_BLAS, "cblas_sgemm", 0, REMEDY_BLAS},
		{PERFX_SOURCE_NCCL, "ncclAllReduce", 0, REMEDY_COLLECTIVE},
		{PERFX_SOURCE_CUDA, "cudaMemcpyAsync", 0, REMEDY_COPY},
		{PERFX_SOURCE_CUDA, "cudaStreamSynchronize", 0, REMEDY_SYNCHRONIZE},
		{PERFX_SOURCE_CUDA, "cudaLaunchKernel", 0, REMEDY_NEUTRAL},
		{PERFX_SOURCE_SYMBOL, "pthread_cond_timedwait", 0, REMEDY_SYNCHRONIZE},
		{PERFX_SOURCE_SYMBOL, "usleep", 0, REMEDY_SLEEP},
		{PERFX_SOURCE_SYMBOL, "clock_nanosleep", 0, REMEDY_SLEEP},
		{PERFX_SOURCE_SYMBOL, "asleep_or_not", 0, REMEDY_USER},
		{PERFX_SOURCE_PERFX, "train_step", 0, REMEDY_USER},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scene s;

		scene_set(&s, cases[i].source, cases[i].name, cases[i].flags);
		cr_expect_eq(kind_of(&s), cases[i].kind, "%s: %d", cases[i].name, kind_of(&s));
	}
}

Test(remedy, every_kind_has_a_text_of_its_own)
{
	for (int a = 0; a < REMEDY_KINDS; a++)
		for (int b = 0; b < a; b++)
			cr_expect_str_neq(remedy_text((enum remedy_kind)a),
					  remedy_text((enum remedy_kind)b), "%d and %d", a, b);
}

/* An operator that the optimizer calls is the optimizer's, not one to compute in less precision. */
Test(remedy, by_caller)
{
	struct scene s;

	scene_set(&s, PERFX_SOURCE_TORCH, "at::_ops::mul_::call", 0);
	s.functions[1].name = "Optimizer.step#Adam.step";
	s.caller.caller = 2;
	cr_expect_eq(kind_of(&s), REMEDY_OPTIMIZER);
	s.caller.calls_count = 49;
	cr_expect_eq(kind_of(&s), REMEDY_OPERATOR);
}

/* On a CPU for a third of the time that it takes: no advice about computing. */
Test(remedy, by_time_on_cpu)
{
	struct scene s;

	scene_set(&s, PERFX_SOURCE_TORCH, "at::_ops::mm::call", 0);
	s.process.cpu_ns = 3 * S;
	cr_expect_eq(kind_of(&s), REMEDY_WAITING);
	s.process.cpu_ns = PROFILE_ABSENT;
	cr_expect_eq(kind_of(&s), REMEDY_OPERATOR);
	scene_set(&s, PERFX_SOURCE_SYMBOL, "usleep", 0);
	s.process.cpu_ns = 3 * S;
	cr_expect_eq(kind_of(&s), REMEDY_SLEEP);
}

static void expect_blocked(const struct scene *s, const char *has, const char *lacks)
{
	struct analysis *analysis = analyze(&s->profile, NULL);
	const struct process_analysis *process = &analysis->processes[0];
	const struct finding *blocked = NULL;

	for (size_t i = 0; i < process->findings_count; i++)
		if (!strcmp(process->findings[i].kind, "BlockedThread"))
			blocked = &process->findings[i];
	cr_assert_not_null(blocked);
	cr_expect(strstr(blocked->suggestion, has), "%s", blocked->suggestion);
	cr_expect(!strstr(blocked->suggestion, lacks), "%s", blocked->suggestion);
	analysis__free(analysis);
}

/* Workers of a data loader help a thread that waits for data, not one that sleeps. */
Test(remedy, of_a_blocked_thread)
{
	struct scene s;

	scene_set(&s, PERFX_SOURCE_SYMBOL, "usleep", 0);
	s.thread.blocked_ns = 8 * S;
	expect_blocked(&s, "sleeps deliberately", "data loader");
	scene_set(&s, PERFX_SOURCE_TORCH, "enumerate(DataLoader)#_X.__next__",
		  PERFX_FUNCTION_RANGE);
	s.thread.blocked_ns = 8 * S;
	expect_blocked(&s, "num_workers=4", "sleeps");
	scene_set(&s, PERFX_SOURCE_SYMBOL, "usleep", 0);
	s.thread.blocked_ns = 8 * S;
	s.row.self_ns = 3 * S;
	expect_blocked(&s, "what the other threads do", "data loader");
}

static void expect_words(enum framework framework, const char *words, const char *expected)
{
	struct text text = {0};

	framework_add(&text, framework, words);
	cr_expect_str_eq(text_peek(&text), expected);
	text_clear(&text);
}

Test(remedy, in_the_words_of_a_framework)
{
	expect_words(FRAMEWORK_TORCH, "compile it{ (torch.compile)| (jax.jit)||}.",
		     "compile it (torch.compile).");
	expect_words(FRAMEWORK_JAX, "{a|b|c|d} and {e|f|g|h}", "b and f");
	expect_words(FRAMEWORK_TENSORFLOW, "{a|b|c|d}", "c");
	expect_words(FRAMEWORK_NONE, "{a|b|c|d}!", "d!");
	expect_words(FRAMEWORK_NONE, "less of it", "less of it");
}

/* No remedy names another framework than the one in use. */
Test(remedy, of_other_frameworks_nothing_is_said)
{
	static const char *const of[FRAMEWORKS] = {"torch", "jax", "tf."};

	for (int kind = 0; kind < REMEDY_KINDS; kind++) {
		for (int framework = 0; framework < FRAMEWORKS; framework++) {
			struct text text = {0};

			framework_add(&text, (enum framework)framework,
				      remedy_text((enum remedy_kind)kind));
			cr_expect_null(strpbrk(text_peek(&text), "{|}"), "%s", text_peek(&text));
			for (int other = 0; other < FRAMEWORK_NONE; other++)
				if (other != framework && kind != REMEDY_AUTOGRAD)
					cr_expect_null(strstr(text_peek(&text), of[other]), "%s",
						       text_peek(&text));
			text_clear(&text);
		}
	}
}

Test(remedy, the_framework_is_the_one_that_computes)
{
	static const struct {
		enum perfx_source source;
		enum framework framework;
	} cases[] = {{PERFX_SOURCE_TORCH, FRAMEWORK_TORCH},
		     {PERFX_SOURCE_JAX, FRAMEWORK_JAX},
		     {PERFX_SOURCE_TF, FRAMEWORK_TENSORFLOW},
		     {PERFX_SOURCE_SYMBOL, FRAMEWORK_NONE}};
	struct profile_frame frame = {
		.function = "", .file = "", .module = "", .module_base = "libjax_common.so"};
	const struct profile_frame *frames[] = {&frame};
	const struct profile_stack stack = {.frames = frames, .frames_count = 1};
	struct profile_activity sample = {.stack = &stack, .ns = S};
	struct scene s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scene_set(&s, cases[i].source, "f", 0);
		cr_expect_eq(framework_of(&s.profile, &s.process), cases[i].framework);
	}
	s.process.samples = (struct profile_activities){&sample, 1};
	cr_expect_eq(framework_of(&s.profile, &s.process), FRAMEWORK_JAX);
	frame.language = PERFX_LANGUAGE_PYTHON;
	cr_expect_eq(framework_of(&s.profile, &s.process), FRAMEWORK_NONE);
	frame.file = "/venv/lib/python3.11/site-packages/torch/_dynamo/convert_frame.py";
	cr_expect_eq(framework_of(&s.profile, &s.process), FRAMEWORK_TORCH);
}
