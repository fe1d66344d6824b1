// SPDX-License-Identifier: BSD-2-Clause
/* Rules of --operators, built in and of a file. */
#include "interest_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct operators *operators;
static char why[256];

static void load(const char *text)
{
	char path[] = "/tmp/perfx-operators-XXXXXX";
	int fd = mkstemp(path);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	operators__free(operators);
	operators = operators__load(path, why, sizeof(why));
	unlink(path);
}

static enum operator_kind kind_of(const char *base, const char *symbol)
{
	const struct module_names module = {.base = base};
	const struct operator_rule *rule = operators__find(operators, &module, symbol);

	return rule ? rule->kind : 0;
}

Test(operators, built_in_rules)
{
	static const char catboost[] =
		"_Z17TrainOneIterationRKN3NCB22TTrainingDataProvidersEP13TLearnContext";
	static const char infer[] = "_ZN2ov12InferRequest5inferEv";

	operators = operators__load(NULL, why, sizeof(why));
	cr_assert(operators, "%s", why);
	cr_expect_eq(kind_of("_catboost.so", catboost), OPERATOR_STEP);
	cr_expect(interests("_catboost.so", catboost));
	cr_expect_eq(kind_of("libxgboost.so", "XGBoosterUpdateOneIter"), OPERATOR_STEP);
	cr_expect_eq(kind_of("libxgboost.so", "XGBoosterPredictFromDMatrix"), OPERATOR_INFERENCE);
	cr_expect(interests("libxgboost.so", "XGBoosterPredictFromDMatrix"));
	cr_expect_not(kind_of("libxgboost.so", "XGBoosterSaveModel"));
	cr_expect_eq(kind_of("libopenvino.so.2641", infer), OPERATOR_INFERENCE);
	cr_expect(interests("libopenvino.so.2641", infer));
	/* what only prepares calls is none; nor is a function of that name elsewhere */
	cr_expect_not(kind_of("lib_lightgbm.so", "LGBM_BoosterPredictForMatSingleRowFastInit"));
	cr_expect_not(kind_of("libmine.so", "XGBoosterUpdateOneIter"));
	/* found by its text alone */
	cr_expect_not(kind_of("libonnxruntime.so.1", "onnxruntime::InferenceSession::Run"));
	operators__free(operators);
}

Test(operators, rules_of_a_file)
{
	const struct module_names mine = {.base = "libmine.so"};

	load("# mine\nlibmine.so:round_* step\n"
	     "libmine.so:serve\n  inference # continued\n"
	     "libxgboost.so:XGBoosterUpdateOneIter operator\n"
	     "libmine.so:engine inference text \"Running # it\"\n");
	cr_assert(operators, "%s", why);
	cr_expect_eq(kind_of("libmine.so", "round_1"), OPERATOR_STEP);
	cr_expect_eq(kind_of("libmine.so", "serve"), OPERATOR_INFERENCE);
	/* before the built-in ones, which remain */
	cr_expect_eq(kind_of("libxgboost.so", "XGBoosterUpdateOneIter"), OPERATOR_CALLS);
	cr_expect_eq(kind_of("libxgboost.so", "XGBoosterBoostOneIter"), OPERATOR_STEP);
	cr_expect_str_eq(operators__rule(operators, 3)->text, "Running # it");
	cr_expect(operators__name_module(operators, &mine, true));
	cr_expect_not(operators__name_module(
		operators, &(struct module_names){.base = "lib_lightgbm.so"}, true));
	operators__free(operators);
}

Test(operators, mistakes_are_named_with_their_line)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{"\nlibmine.so:f\n", ":2: after MODULE:GLOB comes step, inference or operator"},
		{"libmine.so:f steps\n", ":1: after MODULE:GLOB comes"},
		{"f step\n", ":1: MODULE is missing"},
		{"libmine.so:f step\n!libmine.so:g step\n", ":2: '!' is not supported"},
		{"libmine.so:f step 3\n", "only text"},
		{"libmine.so:f step text \"ab\"\n", "at least four letters"},
		{"libmine.so:f step text \"abcd\" e\n", "nothing may follow"},
		{"  libmine.so:f step\n", "must begin at the start of its line"},
		{"# nothing\n", "no rule in this file"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		load(rows[i].text);
		cr_expect_null(operators, "%s", rows[i].text);
		cr_expect(strstr(why, rows[i].says), "%s: %s", rows[i].text, why);
	}
	cr_expect_null(operators__load("/nonexistent/rules", why, sizeof(why)));
}
