// SPDX-License-Identifier: BSD-2-Clause
#include "cost/cost_model.h"
#include "cost_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/perfx-rules-XXXXXX";

static void make_file(void)
{
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
}

static void drop_file(void)
{
	unlink(path);
}

TestSuite(model, .init = make_file, .fini = drop_file);

static struct cost_model *load_rules(const char *text, char *why, size_t why_size)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
	return cost_model__load(path, why, why_size);
}

static uint64_t flops_of(const struct cost_model *model, const char *base, const char *symbol)
{
	struct call call = {.args = {0, 2, 3, 5, 7, 11, 13}};
	struct perfx_cost_program cost;
	const char *origin;

	if (cost_model__find(model, &(struct module_names){.base = base}, symbol, &cost, &origin))
		return 0;
	return run_cost_program(&cost, &call).flops;
}

Test(model, rules)
{
	static const char text[] = "# a comment\n"
				   "\n"
				   "libfast*:fast_{gemm,dot}  flops = 2*arg1 # and another\n"
				   "  ; flops = arg2;\n"
				   "\tflops = arg3\n"
				   "libfast*:fast_*\tflops = arg1\n"
				   "*:cblas_sgemm flops = 1\r\n"
				   "ns::solve flops = arg6";
	struct perfx_cost_program cost;
	const char *origin;
	char why[512], want[64];
	struct cost_model *model = load_rules(text, why, sizeof(why));

	cr_assert_not_null(model, "%s", why);
	cr_expect_eq(flops_of(model, "libfast.so", "fast_gemm"), 4 + 3 + 5);
	cr_expect_eq(flops_of(model, "libfast.so", "fast_dot"), 12);
	cr_expect_eq(flops_of(model, "libfast.so", "fast_other"), 2);
	cr_expect_eq(flops_of(model, "x", "_ZN2ns5solveEi"), 13);
	cr_expect_eq(flops_of(model, "libslow.so", "fast_gemm"), 0);
	/* before what is built in, which is there beside them */
	cr_expect_eq(flops_of(model, "libblas.so", "cblas_sgemm"), 1);
	cr_expect_eq(flops_of(model, "libblas.so", "cblas_dgemm"), 2 * 7 * 11 * 13);
	cr_expect(cost_model__names(model, &(struct module_names){.base = "libfast.so"},
				    "fast_gemm"));
	cr_expect_not(cost_model__names(model, &(struct module_names){.base = "libblas.so"},
					"cblas_dgemm"));
	cr_expect(cost_model__names_module(model, &(struct module_names){.base = "libfast.so"}));
	snprintf(want, sizeof(want), "%s:3", path);
	cr_expect_eq(cost_model__find(model, &(struct module_names){.base = "libfast.so"},
				      "fast_dot", &cost, &origin),
		     0);
	cr_expect_str_eq(origin, want);
	cr_expect_eq(cost_model__find(model, &(struct module_names){.base = "libblas.so"},
				      "cblas_dgemm", &cost, &origin),
		     0);
	cr_expect_str_eq(origin, "built in");
	cost_model__free(model);
}

Test(model, none)
{
	struct perfx_cost_program cost;
	const char *origin;
	char why[512];
	struct cost_model *model = cost_model__load(NULL, why, sizeof(why));

	cr_assert_not_null(model);
	cr_expect_not(
		cost_model__names_module(model, &(struct module_names){.base = "libfast.so"}));
	cr_expect_eq(cost_model__find(model, &(struct module_names){.base = "x"}, "main", &cost,
				      &origin),
		     -ENOENT);
	cr_expect_eq(flops_of(model, "x", "cblas_sgemm"), 2 * 7 * 11 * 13);
	cost_model__free(model);
	/* the cost model is off */
	cr_expect_eq(cost_model__find(NULL, &(struct module_names){.base = "x"}, "cblas_sgemm",
				      &cost, &origin),
		     -ENOENT);
	cr_expect_not(cost_model__names(NULL, &(struct module_names){.base = "x"}, "cblas_sgemm"));
	cost_model__free(NULL);
}

Test(model, mistakes)
{
	static const struct {
		const char *text, *why; /* after the file's name */
	} rows[] = {
		{"", ":0: no rule in this file"},
		{"# nothing\n\n", ":2: no rule in this file"},
		{"  flops = 1\n", ":1: a rule must begin at the start of its line"},
		{"a:b\n", ":1: MODULE:GLOB must be followed by statements: flops = …"},
		{"a:b flops = 1\na:c flops = 2 *\n# end\n", ":2: a value is missing, at the end"},
		{"a:b flops = 1\n\na:c\n  flops = foo; \n", ":3: unknown word 'foo', before ';'"},
		{"!a:b flops = 1\n", ":1: '!' is not supported in a rule"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char why[512] = "", want[512];

		cr_expect_null(load_rules(rows[i].text, why, sizeof(why)), "%s", rows[i].text);
		cr_expect_eq(errno, EINVAL);
		snprintf(want, sizeof(want), "%s%s", path, rows[i].why);
		cr_expect_str_eq(why, want, "%s", why);
	}
}

Test(model, no_such_file)
{
	char why[512];

	cr_expect_null(cost_model__load("/nonexistent/rules", why, sizeof(why)));
	cr_expect_eq(errno, ENOENT);
	cr_expect_str_eq(why, "/nonexistent/rules: No such file or directory");
	cr_expect_null(cost_model__load("/", why, sizeof(why)));
	cr_expect_str_eq(why, "/: Is a directory");
}
