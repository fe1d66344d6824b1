// SPDX-License-Identifier: BSD-2-Clause
#include "elf/pattern.h"

#include <criterion/criterion.h>

static const char *const symbols[] = {
	"malloc",
	"calloc",
	"free",
	"main",
	"cblas_sgemm",
	"sgemm_",
	"_ZN2at4_ops5addmm4callERKNS_6TensorES4_",
	"_ZN2at4_ops5addmm4callERKNS_6TensorES4_.cold",
	"_ZN2at4_ops2mm4callERKNS_6TensorES4_",
	"_ZN2at4_ops11convolution10redispatchEv",
	"_ZN3c108FunctionIiE4callEv",
	"_ZN4core3fmt5write17h0123456789abcdefE",
};

static void expect(const char *text, size_t keep, const char *wanted)
{
	char why[64];
	struct pattern *pattern = pattern__parse(text, why, sizeof(why));
	struct nearest *nearest = nearest__new(pattern, keep);

	cr_assert_not_null(nearest);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		nearest__offer(nearest, symbols[i]);
	nearest__offer(nearest, symbols[0]); /* each once */
	cr_expect_str_eq(nearest__list(nearest), wanted, "%s: %s", text, nearest__list(nearest));
	cr_expect_str_eq(nearest__list(nearest), wanted, "asked twice");
	nearest__free(nearest);
	pattern__free(pattern);
}

Test(nearest, typing_errors)
{
	expect("mallok", 3, "malloc, calloc");
	expect("mallok", 1, "malloc");
	expect("MALLOC", 1, "malloc");
	expect("xyzzy_nothing", 3, "");
}

Test(nearest, whole_name_decides_among_equals)
{
	expect("at::_ops::adddmm::call", 1, "at::_ops::addmm::call");
	expect("libtorch*:at::_ops::adddmm::call*", 2, "at::_ops::addmm::call, at::_ops::mm::call");
}

Test(nearest, part_of_a_longer_name)
{
	expect("sgemm", 3, "sgemm_, cblas_sgemm");
}

Test(nearest, alternatives_and_expressions)
{
	expect("{mallok,mein}", 2, "malloc, main");
	expect("/^wrlte$/", 1, "core::fmt::write");
	expect("*", 3, "");
}
