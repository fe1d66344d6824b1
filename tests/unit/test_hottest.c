// SPDX-License-Identifier: BSD-2-Clause
/* The hottest place of a process: which frame names it, for which kind of program. */
#include "account_fixture.h"

#include <sys/syscall.h>

#include "analyze/hottest.h"
#include "report/report.h"

#define IN_TORCH 42
#define NO_NAME	 43

Test(hottest, the_hottest_place_has_the_programs_own_line_first)
{
	struct stream s = {0};
	struct report report;
	struct hottest hottest;
	struct text text = {0};

	begin(&s);
	stream_stack(&s, 1, IN_TORCH, PERFX_STACK_PC, 0x3000, 0x1000, MODULE, LOOP, 0x1000);
	samples(&s, (struct perfx_sample){.stack = IN_TORCH}, 300);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
	report = end(&s);
	hottest = hottest_of(account_of(&report), MAIN);
	add_hottest(&text, &hottest);
	cr_expect(contains(text_peek(&text),
			   "main (train.py:12), in torch Module._call_impl (module.py:1194), in "
			   "Tensor.add (libtorch_python.so)"));
	cr_expect_eq(hottest.place.ns, 3 * S);
	cr_expect_eq(hottest.all_ns, 4 * S);
	text_clear(&text);
	forget(&report);
}

/* Code behind python -c is the program's own, code of exec() and of multiprocessing's is not. */
Test(hottest, the_code_of_a_command_is_the_programs_own)
{
	static const struct {
		const char *cmdline;
		bool is_own;
	} commands[] = {
		{"/usr/bin/python3\x1f-c\x1fimport train", true},
		{"python3.11\x1f-u\x1f-X\x1f"
		 "dev\x1f-Ic\x1fimport train\x1f--all",
		 true},
		{"python3\x1f-W\x1f"
		 "c\x1ftrain.py",
		 false},
		{"python3\x1ftrain.py\x1f-c\x1f"
		 "config",
		 false},
		{"python3\x1f-m\x1f"
		 "train\x1f-c\x1f"
		 "config",
		 false},
		{"python3\x1f--check-hash-based-pycs\x1f"
		 "always\x1ftrain.py",
		 false},
		{"gdb\x1f-c\x1f"
		 "core",
		 false},
		{"python3\x1f-c\x1f"
		 "from multiprocessing.spawn import spawn_main",
		 false},
		{"python3", false},
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct stream s = {0};
		struct report report;

		stream_host(&s);
		stream_process(&s, 1, MAIN, "python3", commands[i].cmdline);
		stream_stack(&s, 1, PYTHON_CODE, PERFX_STACK_PC, LOOP);
		stream_python_frame(&s, 1, LOOP, "work", "<string>", 4);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
		report = end_of_pool(&s, 0);
		cr_assert_eq(account_of(&report)->places_count, 1);
		cr_expect_eq(account_of(&report)->places[0].own != NULL, commands[i].is_own, "%s",
			     commands[i].cmdline);
		forget(&report);
	}
}

/* Only a perf map names what a just-in-time compiler wrote, and these programs can write one. */
Test(hottest, how_generated_code_gets_names)
{
	static const struct {
		const char *cmdline, *advice;
	} commands[] = {
		{"/usr/bin/java\x1fTrain",
		 "run `jcmd 4242 Compiler.perfmap`, then trace it again."},
		{"node\x1ftrain.js", "start it with `node --perf-basic-prof`."},
		{"/opt/engine", NULL},
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct stream s = {0};
		struct report report;
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		stream_host(&s);
		stream_process(&s, 1, MAIN, "engine", commands[i].cmdline);
		stream_frame(&s, 1, 0x7000, 0, "", "", 0, "", 0);
		stream_frame(&s, 1, 0x7100, 0, "JavaCalls::call", "/lib/libjvm.so", 0x71, "", 0);
		stream_stack(&s, 1, PYTHON_CODE, PERFX_STACK_PC, 0x7000, 0x7100);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
		report = end_of_pool(&s, 0);
		cr_assert_eq(report_writer_named("text")->write(
				     out, report.profile, report.analysis,
				     &(struct report_options){.full = true, .width = 200}),
			     0);
		fclose(out);
		cr_expect_eq(strstr(text, "names") != NULL, commands[i].advice != NULL, "%s", text);
		cr_expect(strstr(text, commands[i].advice ?: "code that was generated"), "%s",
			  text);
		free(text);
		forget(&report);
	}
}

/* Started by -m or by its entry point, a package is the program: its own lines are no library's. */
Test(hottest, a_package_that_is_the_program)
{
	static const struct {
		const char *outermost;
		uint32_t line;
		const char *place;
	} starts[] = {
		{"/home/me/venv/bin/serve", 8, "handle (serve.py:30)"},
		{PACKAGES "server/__main__.py", 3, "handle (serve.py:30)"},
		/* a program of many lines, and one that is a file */
		{"/home/me/bin/serve", 80, "<module> (serve:80)"},
		{"/home/me/serve.py", 8, "<module> (serve.py:8)"},
	};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct stream s = {0};
		struct report report;
		struct hottest hottest;
		struct text text = {0};

		stream_host(&s);
		stream_process(&s, 1, MAIN, "serve", starts[i].outermost);
		stream_stack(&s, 1, PYTHON_CODE, PERFX_STACK_PC, MODULE, GET, LOOP, WAITS);
		stream_python_frame(&s, 1, MODULE, "Tokenizer.encode", PACKAGES "other/encode.py",
				    7);
		stream_python_frame(&s, 1, GET, "handle", PACKAGES "server/serve.py", 30);
		stream_python_frame(&s, 1, LOOP, "<module>", starts[i].outermost, starts[i].line);
		stream_python_frame(&s, 1, WAITS, "_run_module_as_main", "<frozen runpy>", 198);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
		report = end_of_pool(&s, 0);
		hottest = hottest_of_process(account_of(&report));
		add_hottest(&text, &hottest);
		cr_expect(contains(text_peek(&text), starts[i].place), "%s", starts[i].outermost);
		text_clear(&text);
		forget(&report);
	}
}

/* So is the package whose function a process of multiprocessing runs; not one that only serves the
 * program's own code there. */
Test(hottest, a_package_that_is_a_process)
{
	static const struct {
		const char *function, *file, *place;
	} targets[] = {
		{"Worker.main", PACKAGES "server/worker.py", "server handle (serve.py:30)"},
		{"_worker_loop", PACKAGES "torch/utils/data/_utils/worker.py",
		 "other Tokenizer.encode (encode.py:7)"},
	};

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct stream s = {0};
		struct report report;
		struct hottest hottest;
		struct text text = {0};

		stream_host(&s);
		stream_process(&s, 1, MAIN, "worker", "python3 -c 'from multiprocessing.spawn'");
		stream_stack(&s, 1, PYTHON_CODE, PERFX_STACK_PC, MODULE, GET, LOOP, WAITS);
		stream_python_frame(&s, 1, MODULE, "Tokenizer.encode", PACKAGES "other/encode.py",
				    7);
		stream_python_frame(&s, 1, GET, "handle", PACKAGES "server/serve.py", 30);
		stream_python_frame(&s, 1, LOOP, targets[i].function, targets[i].file, 40);
		stream_python_frame(&s, 1, WAITS, "BaseProcess._bootstrap",
				    "/usr/lib/python3.11/multiprocessing/process.py", 314);
		samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 100);
		report = end_of_pool(&s, 0);
		hottest = hottest_of_process(account_of(&report));
		add_hottest(&text, &hottest);
		cr_expect(contains(text_peek(&text), targets[i].place), "%s: %s",
			  targets[i].function, text_peek(&text));
		text_clear(&text);
		forget(&report);
	}
}

/* Of a package's many small functions none is where a worker runs: the function is that calls them
 * all, which is neither the loop that takes the tasks nor a decorator's wrapper. */
Test(hottest, a_worker_whose_time_is_spread)
{
	for (unsigned common = 0; common < 2; common++) {
		struct stream s = {0};
		struct report report;
		struct hottest hottest;
		struct text text = {0};
		const char *expected;

		stream_host(&s);
		stream_process(&s, 1, MAIN, "python3", "python3 -m joblib.externals.loky");
		stream_python_frame(&s, 1, WAITS, "_process_worker",
				    PACKAGES "joblib/externals/loky/process_executor.py", 490);
		stream_python_frame(&s, 1, GET, "_fit_and_score",
				    PACKAGES "sklearn/model_selection/_validation.py", 859);
		stream_python_frame(&s, 1, MODULE, "_fit_context.<locals>.wrapper",
				    PACKAGES "sklearn/base.py", 1403);
		for (unsigned i = 0; i < 4; i++) {
			char function[] = "loss_0";

			function[sizeof(function) - 2] += (char)i;
			stream_python_frame(&s, 1, python_frame(0x7f0000007000, i), function,
					    PACKAGES "sklearn/loss.py", 10 * (i + 1));
			stream_stack(&s, 1, PYTHON_CODE + i, PERFX_STACK_PC,
				     python_frame(0x7f0000007000, i), common ? MODULE : WAITS,
				     common ? GET : WAITS, WAITS);
			samples(&s, (struct perfx_sample){.stack = PYTHON_CODE + i}, 100 + i);
		}
		report = end_of_pool(&s, 0);
		hottest = hottest_of_process(account_of(&report));
		add_hottest(&text, &hottest);
		expected = common ? "sklearn _fit_and_score (_validation.py:859)"
				  : "sklearn loss_3 (loss.py:40)";
		cr_expect(contains(text_peek(&text), expected), "%s", text_peek(&text));
		cr_expect_eq(hottest.place.ns, common ? 4060 * MS : 1030 * MS);
		text_clear(&text);
		forget(&report);
	}
}

Test(hottest, a_library_without_symbols_is_a_place)
{
	struct stream s = {0};
	struct report report;
	struct hottest hottest;
	struct text text = {0};

	begin(&s);
	for (uint64_t i = 0; i < 2; i++) {
		stream_stack(&s, 1, NO_NAME + (uint32_t)i, PERFX_STACK_PC, 0x9200 + i);
		stream_frame(&s, 1, 0x9200 + i, 0, "", "/opt/libonnxruntime.so", 0x92 + i, "", 0);
		samples(&s, (struct perfx_sample){.stack = NO_NAME + (uint32_t)i, .tid = POOL}, 20);
	}
	samples(&s, (struct perfx_sample){.stack = NATIVE, .tid = POOL}, 30);
	report = end(&s);
	hottest = hottest_of(account_of(&report), POOL);
	add_hottest(&text, &hottest);
	cr_expect(contains(text_peek(&text), "libonnxruntime.so (no symbols)"));
	cr_expect_eq(hottest.place.ns, 400 * MS);
	text_clear(&text);
	forget(&report);
}

static void in(struct stream *s, uint32_t stack, unsigned count)
{
	samples(s, (struct perfx_sample){.stack = stack}, count);
}

#define XGBOOST "/opt/xgboost/libxgboost.so"
#define OPENMP	"/usr/lib/libgomp.so.1"
#define OTHER	python_frame(0x7f0000008000, 15)

enum { SPLITS_POLL = 60, SPLITS_RUN, SPLITS_RUN_TOO, HISTOGRAMS, SPLITS_OF_OTHER };

static const struct native_function *find_native(const struct native_functions *functions,
						 const char *name)
{
	for (size_t i = 0; i < functions->count; i++)
		if (!strcmp(functions->list[i].frame->function, name))
			return &functions->list[i];
	return NULL;
}

/* LOOP calls Update(), which passes all on to Grow(): of that, BuildHist() computes, and
 * EvaluateSplits() has OpenMP share its work, and mostly waits. */
static struct report trees(void)
{
	struct stream s = {0};

	begin(&s);
	stream_python_frame(&s, 1, OTHER, "check", "/home/me/train.py", 30);
	stream_frame(&s, 1, 0xa100, 0, "gomp_barrier_wait", OPENMP, 0xa1, "", 0);
	stream_frame(&s, 1, 0xa200, 0, "GOMP_parallel", OPENMP, 0xa2, "", 0);
	stream_frame(&s, 1, 0xb100, 0, "EvaluateSplits", XGBOOST, 0xb1, "", 0);
	stream_frame(&s, 1, 0xb200, 0, "Split", XGBOOST, 0xb2, "", 0);
	stream_frame(&s, 1, 0xb300, 0, "BuildHist", XGBOOST, 0xb3, "", 0);
	stream_frame(&s, 1, 0xb400, 0, "Grow", XGBOOST, 0xb4, "", 0);
	stream_frame(&s, 1, 0xb500, 0, "Update", XGBOOST, 0xb5, "", 0);
	stream_stack(&s, 1, SPLITS_POLL, PERFX_STACK_PC, 0xa100, 0xa200, 0xb100, 0xb400, 0xb500,
		     LOOP);
	stream_stack(&s, 1, SPLITS_RUN, PERFX_STACK_PC, 0xb200, 0xa200, 0xb100, 0xb400, 0xb500,
		     LOOP);
	stream_stack(&s, 1, SPLITS_RUN_TOO, PERFX_STACK_PC, 0xb200, 0xb100, 0xb400, 0xb500, LOOP);
	stream_stack(&s, 1, HISTOGRAMS, PERFX_STACK_PC, 0xb300, 0xb400, 0xb500, LOOP);
	stream_stack(&s, 1, SPLITS_OF_OTHER, PERFX_STACK_PC, 0xb200, 0xa200, 0xb100, 0xb400, 0xb500,
		     OTHER);
	/* the other line has the most frequent stack of Split(), and not most of its time */
	in(&s, SPLITS_OF_OTHER, 16);
	in(&s, SPLITS_RUN, 14);
	in(&s, SPLITS_RUN_TOO, 10);
	in(&s, SPLITS_POLL, 160);
	in(&s, HISTOGRAMS, 200);
	return end_of_pool(&s, 0);
}

Test(hottest, callers_of_native_functions)
{
	struct report report = trees();
	const struct native_function *splits, *split;
	struct native_functions functions;

	cr_assert_eq(native_functions_find(&functions, &report.profile->processes[0], false), 0);
	cr_expect_eq(functions.all_ns, 4 * S);
	cr_expect_eq(functions.leaves_count, 3);
	cr_expect_str_eq(functions.list[0].frame->function, "BuildHist");
	cr_expect_str_eq(functions.list[1].frame->function, "gomp_barrier_wait");
	cr_expect_str_eq(functions.list[2].frame->function, "Split");
	/* where Python enters the library and OpenMP's own functions say nothing more */
	cr_expect_eq(functions.count, 4);
	splits = find_native(&functions, "EvaluateSplits");
	cr_assert_not_null(splits);
	cr_expect_eq(splits->self_ns, 0);
	cr_expect_eq(splits->total_ns, 2 * S);
	cr_expect_eq(splits->spinning_ns, 1600 * MS);
	split = find_native(&functions, "Split");
	cr_expect_eq(split->self_ns, 400 * MS);
	cr_expect_eq(split->spinning_ns, 0);
	free(functions.list);
	forget(&report);
}

Test(hottest, the_python_line_with_most_of_a_native_function)
{
	struct report report = trees();
	const struct native_function *split;
	struct native_functions functions;

	cr_assert_eq(native_functions_find(&functions, &report.profile->processes[0], false), 0);
	split = find_native(&functions, "Split");
	cr_assert_not_null(split);
	cr_assert_not_null(split->below);
	cr_expect_str_eq(split->below->function, "main");
	free(functions.list);
	forget(&report);
}

/* All of it, in whatever function of OpenMP. */
Test(hottest, the_share_that_only_polls)
{
	struct report report = trees();
	struct hottest hottest = hottest_of_process(account_of(&report));
	struct text text = {0};

	add_hottest(&text, &hottest);
	add_polling(&text, &hottest);
	cr_expect(contains(text_peek(&text), "main (train.py:12)"));
	cr_expect(contains(text_peek(&text), "; 41.7 % of it only polls for other threads, in "
					     "gomp_barrier_wait (libgomp.so.1)"));
	text_clear(&text);
	forget(&report);
}

/* The calls are those of the place, and not of what polls. */
Test(hottest, calls_are_named_before_what_polls)
{
	enum { POLLS = 60 };
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_frame(&s, 1, 0xa100, 0, "gomp_barrier_wait", OPENMP, 0xa1, "", 0);
	stream_stack(&s, 1, POLLS, PERFX_STACK_PC, 0xa100, NORMALIZE, LOOP, 0x1000);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .context = CONV}, 300);
	samples(&s, (struct perfx_sample){.stack = POLLS, .context = CONV}, 100);
	report = end_after(&s, 0);
	cr_expect(contains(report.analysis->verdict,
			   "normalize (features.py:88) (1 call of aten::convolution, 10.0 ms); "
			   "25.0 % of it only polls for other threads, in gomp_barrier_wait "
			   "(libgomp.so.1)"));
	forget(&report);
}

/* Python is a seventh of it: the rest is in a function of libc that it calls. */
Test(hottest, libc_below_python_is_named)
{
	enum { ASKS = 60 };
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_frame(&s, 1, 0xa100, 0, "clock_gettime", LIBC, 0xa1, "", 0);
	stream_stack(&s, 1, ASKS, PERFX_STACK_PC, 0xa100, NORMALIZE, LOOP, 0x1000);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE}, 140);
	samples(&s, (struct perfx_sample){.stack = ASKS}, 860);
	report = end_after(&s, 0);
	cr_expect(
		contains(report.analysis->verdict,
			 "normalize (features.py:88), 86.0 % of it in clock_gettime (libc.so.6)."));
	forget(&report);
}

#define STL "/usr/include/c++/12/bits/stl_algo.h"
#define APP "/home/me/app/rank"

enum { IN_SORT = 50, IN_OWN_CODE, IN_LIBC, IN_MAIN, IN_LINE };

/* rank_items() calls std::sort, parts of which the compiler has inlined, and memmove(). */
static void begin_native(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, MAIN, "rank", APP);
	stream_stack(s, 1, IN_SORT, PERFX_STACK_PC, 0x5000, 0x6000, 0x7000);
	stream_stack(s, 1, IN_OWN_CODE, PERFX_STACK_PC, 0x5100, 0x7000);
	stream_stack(s, 1, IN_LIBC, PERFX_STACK_PC, 0x5200, 0x5100, 0x7000);
	stream_stack(s, 1, IN_MAIN, PERFX_STACK_PC, 0x7000);
	stream_frame(s, 1, 0x5200, 0, "__memmove_avx", LIBC, 0x52, "", 0);
	stream_frame(s, 1, 0x7000, 0, "main", APP, 0x70, "rank.cpp", 40);
}

static void expect_hottest(struct stream *s, const char *words, uint64_t place_ns)
{
	struct report report = end_of_pool(s, 0);
	struct hottest hottest = hottest_of(account_of(&report), MAIN);
	struct text text = {0};

	add_hottest(&text, &hottest);
	cr_expect(contains(text_peek(&text), words));
	cr_expect_eq(hottest.place.ns, place_ns);
	text_clear(&text);
	forget(&report);
}

/* The standard library's time is its caller's, as that of PyTorch is a Python line's. */
Test(hottest, a_native_program_has_its_own_function_first)
{
	struct stream s = {0};

	begin_native(&s);
	stream_frame(&s, 1, 0x5000, 0, "std::__unguarded_partition<Item*, by_score>", APP, 0x50,
		     STL, 1890);
	stream_frame(&s, 1, 0x5000, 1, "std::__introsort_loop<Item*, long, by_score>", APP, 0x50,
		     STL, 1945);
	stream_frame(&s, 1, 0x6000, 0,
		     "std::sort<__gnu_cxx::__normal_iterator<Item*, std::vector<Item> >, by_score>",
		     APP, 0x60, STL, 4821);
	stream_frame(&s, 1, 0x6000, 1, "rank_items", APP, 0x60, "rank.cpp", 12);
	stream_frame(&s, 1, 0x5100, 0, "rank_items", APP, 0x51, "rank.cpp", 14);
	in(&s, IN_SORT, 200);
	in(&s, IN_OWN_CODE, 50);
	in(&s, IN_LIBC, 50);
	in(&s, IN_MAIN, 100);
	expect_hottest(
		&s,
		"rank_items (rank.cpp:12), 66.7 % of it in std::sort<…> (stl_algo.h:4821), in "
		"std::__unguarded_partition<Item*, by_score> (stl_algo.h:1890)",
		3 * S);
}

/* The share of a function is not that of the line it is named with. */
Test(hottest, the_share_of_the_line)
{
	for (unsigned spread = 0; spread < 2; spread++) {
		struct stream s = {0};

		begin_native(&s);
		stream_stack(&s, 1, IN_LINE, PERFX_STACK_PC, 0x5300, 0x7000);
		stream_frame(&s, 1, 0x5100, 0, "rank_items", APP, 0x51, "rank.cpp", 14);
		stream_frame(&s, 1, 0x5300, 0, "rank_items", APP, 0x51, "rank.cpp", 19);
		in(&s, IN_OWN_CODE, 290);
		in(&s, IN_LINE, spread ? 210 : 10);
		expect_hottest(&s,
			       spread ? "rank_items (rank.cpp:14), 58.0 % of it at that line"
				      : "rank_items (rank.cpp:14)",
			       spread ? 5 * S : 3 * S);
	}
}

/* No accessor of a header, and no main() into which everything was inlined. */
Test(hottest, inlined_functions_of_a_program)
{
	struct stream s = {0};

	begin_native(&s);
	stream_frame(&s, 1, 0x5000, 0, "Matrix<double>::at", APP, 0x50, "./matrix.h", 9);
	stream_frame(&s, 1, 0x5000, 1, "multiply", APP, 0x50, "rank.cpp", 20);
	stream_frame(&s, 1, 0x5000, 2, "solve", APP, 0x50, "rank.cpp", 30);
	stream_frame(&s, 1, 0x5000, 3, "main", APP, 0x50, "rank.cpp", 41);
	stream_frame(&s, 1, 0x5100, 0, "multiply", APP, 0x51, "rank.cpp", 19);
	stream_frame(&s, 1, 0x5100, 1, "solve", APP, 0x51, "rank.cpp", 30);
	stream_frame(&s, 1, 0x5100, 2, "main", APP, 0x51, "rank.cpp", 41);
	stream_frame(&s, 1, 0x6000, 0, "main", APP, 0x60, "rank.cpp", 41);
	in(&s, IN_SORT, 150);
	in(&s, IN_OWN_CODE, 100);
	in(&s, IN_MAIN, 10);
	expect_hottest(&s,
		       "multiply (rank.cpp:20), 60.0 % of it in Matrix<double>::at (matrix.h:9)",
		       2500 * MS);
}

/* Rust's library has source lines where the program itself has none. */
Test(hottest, a_rust_program_without_debug_information)
{
	struct stream s = {0};

	stream_host(&s);
	stream_process(&s, 1, MAIN, "rank", APP);
	stream_stack(&s, 1, IN_SORT, PERFX_STACK_PC, 0x5000, 0x6000, 0x7000);
	stream_frame(&s, 1, 0x5000, 0, "rank::count", APP, 0x50, "", 0);
	stream_frame(&s, 1, 0x6000, 0, "std::panic::catch_unwind", APP, 0x60,
		     "library/std/src/panic.rs", 359);
	stream_frame(&s, 1, 0x7000, 0, "std::rt::lang_start_internal", APP, 0x70,
		     "library/std/src/rt.rs", 171);
	in(&s, IN_SORT, 100);
	expect_hottest(&s, "rank::count (rank)", 1 * S);
}

/* Go's library lies wherever Go was installed. */
Test(hottest, a_go_program_has_its_own_function_first)
{
	/* its own file, and what the compiler makes for an interface's methods */
	static const struct {
		const char *function, *file, *shown;
	} libraries[] = {
		{"sort.insertionSort_func", "/home/me/sdk/go1.22/src/sort/zsortfunc.go",
		 "sort.insertionSort_func (zsortfunc.go:12)"},
		{"sort.(*Float64Slice).Less", "/home/me/rank/<autogenerated>",
		 "sort.(*Float64Slice).Less (<autogenerated>:12)"},
	};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		struct stream s = {0};
		char expected[128];

		begin_native(&s);
		stream_frame(&s, 1, 0x5000, 0, libraries[i].function, APP, 0x50, libraries[i].file,
			     12);
		stream_frame(&s, 1, 0x6000, 0, "main.sortRecords", APP, 0x60,
			     "/home/me/rank/main.go", 7);
		stream_frame(&s, 1, 0x5100, 0, "main.makeRecords", APP, 0x51,
			     "/home/me/rank/main.go", 5);
		in(&s, IN_SORT, 200);
		in(&s, IN_OWN_CODE, 100);
		snprintf(expected, sizeof(expected), "main.sortRecords (main.go:7), in %s",
			 libraries[i].shown);
		expect_hottest(&s, expected, 2 * S);
	}
}

/* Without source lines: by the names of the standard libraries. */
Test(hottest, a_native_program_without_debug_information)
{
	struct stream s = {0};

	stream_host(&s);
	stream_process(&s, 1, MAIN, "rank", APP);
	stream_stack(&s, 1, IN_SORT, PERFX_STACK_PC, 0x5000, 0x6000, 0x7000);
	stream_stack(&s, 1, IN_LIBC, PERFX_STACK_PC, 0x5200, 0x6000, 0x7000);
	stream_frame(&s, 1, 0x5000, 0, "std::__introsort_loop", APP, 0x50, "", 0);
	stream_frame(&s, 1, 0x5200, 0, "__memmove_avx", LIBC, 0x52, "", 0);
	stream_frame(&s, 1, 0x6000, 0, "rank_items", APP, 0x60, "", 0);
	stream_frame(&s, 1, 0x7000, 0, "main", APP, 0x70, "", 0);
	in(&s, IN_SORT, 200);
	in(&s, IN_LIBC, 100);
	expect_hottest(&s, "rank_items (rank), 66.7 % of it in std::__introsort_loop (rank)",
		       3 * S);
}

/* A stripped program's functions have no names: its file is the place. */
Test(hottest, a_stripped_program)
{
	struct stream s = {0};

	begin_native(&s);
	stream_stack(&s, 1, NO_NAME, PERFX_STACK_PC, 0x5200, 0x9000);
	stream_frame(&s, 1, 0x9000, 0, "", APP, 0x90, "", 0);
	in(&s, NO_NAME, 100);
	expect_hottest(&s, "rank (no symbols), in __memmove_avx (libc.so.6)", 1 * S);
}

/* Of a compiler at run time, as Julia's: names of a perf map, without a file. */
Test(hottest, code_that_was_compiled_at_run_time)
{
	struct stream s = {0};

	begin_native(&s);
	stream_stack(&s, 1, NO_NAME, PERFX_STACK_PC, 0x9000, 0x7000);
	stream_frame(&s, 1, 0x9000, 0, "julia_kernel_12", "", 0, "", 0);
	in(&s, NO_NAME, 100);
	expect_hottest(&s, "julia_kernel_12", 1 * S);
}

/* What main() takes from a queue comes from a thread that sleeps: that is the cause. Without its
 * name as the one that ends the waits, nothing is said of it. */
Test(hottest, who_is_given_something_by_a_thread_that_sleeps)
{
	for (uint32_t holder = 0; holder <= POOL; holder += POOL) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		stream_wait_object(&s, 1, PERFX_WAIT_FUTEX, 0x66, "lock at 0x66 (heap)");
		stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1,
			     .tid = MAIN, .reason = PERFX_WAIT_FUTEX, .object = 0x66,
			     .holder_tid = holder, .blocked_ns = 7 * S, .count = 100,
			     .max_ns = 90 * MS);
		samples(&s,
			(struct perfx_sample){.stack = NATIVE,
					      .state = PERFX_SAMPLE_WAITING,
					      .reason = PERFX_WAIT_FUTEX,
					      .object = 0x66},
			70);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, 300);
		blocked(&s, POOL, PERFX_WAIT_SLEEP, 9000, 900);
		report = end_of_ms(&s, 3000, 0, 100);
		cr_expect_eq(account_of(&report)->tid, holder ? POOL : MAIN);
		cr_expect_eq(find(&report, "SleepWait") != NULL, holder != 0);
		forget(&report);
	}
}

Test(hottest, until_a_vforked_child_executes)
{
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_plain(&s, PERFX_KIND_BLOCKED, struct perfx_blocked, .process = 1, .tid = MAIN,
		     .reason = PERFX_WAIT_SYSCALL, .syscall = SYS_clone, .blocked_ns = 4 * S,
		     .count = 10, .max_ns = 400 * MS);
	report = end(&s);
	expect_ms(account_of_thread(account_of(&report), MAIN), ACCOUNT_CHILD, 4000);
	cr_expect_not_null(find(&report, "ChildWait"));
	forget(&report);
}

/* Of a native program without line information: ten small functions below decode(). */
static void small_functions(struct stream *s)
{
	begin(s);
	stream_frame(s, 1, 0xb000, 0, "decode", "/opt/server", 0xb0, "", 0);
	stream_frame(s, 1, 0xb100, 0, "serve", "/opt/server", 0xb1, "", 0);
	stream_frame(s, 1, 0xb200, 0, "_start", "/opt/server", 0xb2, "", 0);
	for (uint32_t i = 0; i < 10; i++) {
		char name[16];

		snprintf(name, sizeof(name), "small_%u", i);
		stream_frame(s, 1, 0xc000 + 0x100 * i, 0, name, "/opt/server", 0xc0 + i, "", 0);
		stream_stack(s, 1, 70 + i, PERFX_STACK_PC, 0xc000 + 0x100 * i, 0xb000, 0xb100,
			     0xb200);
		samples(s, (struct perfx_sample){.stack = 70 + i}, 60);
	}
	stream_stack(s, 1, 80, PERFX_STACK_PC, 0xb100, 0xb200);
	samples(s, (struct perfx_sample){.stack = 80}, 300);
}

Test(hottest, a_caller_stands_for_many_small_functions)
{
	struct stream s = {0};
	struct report report;

	small_functions(&s);
	report = end(&s);
	cr_expect(contains(report.analysis->verdict, " CPU time in decode (server)"), "%s",
		  report.analysis->verdict);
	forget(&report);
	/* beside Python it may be a pool, which runs parts of all that Python calls */
	small_functions(&s);
	samples(&s, (struct perfx_sample){.stack = PYTHON_CODE, .tid = POOL}, 1);
	report = end(&s);
	cr_expect_null(strstr(report.analysis->verdict, "decode"));
	forget(&report);
}

/* A loop that yields until something changes polls in the very function that computes. */
Test(hottest, the_place_itself_polls)
{
	enum { YIELDS = 60, WORKS };
	struct stream s = {0};
	struct report report;

	begin(&s);
	stream_frame(&s, 1, 0x9000, 0, "__sched_yield", LIBC, 0x90, "", 0);
	stream_frame(&s, 1, 0xb000, 0, "main", "/opt/server", 0xb0, "", 0);
	stream_stack(&s, 1, YIELDS, PERFX_STACK_PC, 0x9000, 0xb000);
	stream_stack(&s, 1, WORKS, PERFX_STACK_PC, 0xb000);
	samples(&s, (struct perfx_sample){.stack = YIELDS}, 100);
	samples(&s, (struct perfx_sample){.stack = WORKS}, 300);
	report = end(&s);
	cr_expect(contains(
		report.analysis->verdict,
		"in main (server); 20.8 % of all threads' CPU time only polls, in main (server)."));
	forget(&report);
}

Test(hottest, what_the_kernel_runs)
{
	for (uint64_t system_ms = 2000; system_ms <= 4000; system_ms += 2000) {
		struct stream s = {0};
		struct report report;

		begin(&s);
		samples(&s, (struct perfx_sample){.stack = NATIVE}, 500);
		stream_thread(&s, 1, MAIN, "python3", 'R', 10 * S, 5 * S, 0);
		stream_usage(&s, 1, 0, 0, 0, 200 << 20);
		stream_usage(&s, 1, 10 * S, 5 * S - system_ms * MS, system_ms * MS, 200 << 20);
		stream_end(&s, 10 * S, 0);
		report.aggregate = replay(&s);
		report.profile = aggregate__finish(report.aggregate);
		report.analysis = analyze(report.profile, NULL);
		cr_expect_eq(strstr(report.analysis->verdict, "of it in the kernel") != NULL,
			     system_ms == 4000, "%s", report.analysis->verdict);
		forget(&report);
	}
}
