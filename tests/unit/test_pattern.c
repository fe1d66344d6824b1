// SPDX-License-Identifier: BSD-2-Clause
#include "elf/demangle.h"
#include "elf/pattern.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pattern *parse(const char *text)
{
	char why[128] = "";
	struct pattern *pattern = pattern__parse(text, why, sizeof(why));

	cr_assert_not_null(pattern, "%s: %s", text, why);
	return pattern;
}

#define ADDMM "_ZN2at4_ops5addmm4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_"
#define MM    "_ZN2at4_ops2mm4callERKNS_6TensorES4_"
#define BMM   "_ZN2at4_ops3bmm4callERKNS_6TensorES4_"
#define VIEW  "_ZNSt17basic_string_viewIcSt11char_traitsIcEE4findEPKcmm"
#define STR   "_ZNSs6appendEPKc"
#define RUST  "_ZN4core3fmt5write17h0123456789abcdefE"

Test(pattern, names)
{
	static const struct {
		const char *pattern, *name;
		bool wanted;
	} rows[] = {
		{"at::_ops::{mm,addmm}::call", MM, true},
		{"at::_ops::{mm,addmm}::call", ADDMM, true},
		{"at::_ops::{mm,addmm}::call", BMM, false},
		{"at::*", MM, true},
		{"t::*", MM, false},
		{"*mm::call", BMM, true},
		{"*", "", true},
		{"*", MM, true},
		{"malloc", "malloc", true},
		{"malloc", "xmalloc", false},
		{"_ZN2at4_ops2mm*", MM, true},
		{"_ZN2at4_ops2mm4call", MM, false},
		{"::at::_ops::mm::call", MM, true},
		{"core::fmt::write", RUST, true},
		/* words that only the demangler has written */
		{"std::basic_string_view<*>::find", VIEW, true},
		{"std::string::append", STR, true},
		{"*string*append", STR, true},
		{"*anonymous*work", "_ZN12_GLOBAL__N_14workEi", true},
		{"*operator new*", "_ZN2ns1AnaEm", true},
		{"*unsigned long*", "_Z3fooImEvv", true},
		{"*lambda*", "_ZZ4mainENKUlvE_clEv", true},
		{"foo<(bool)1>", "_Z3fooILb1EEvv", false},
		{"foo<true>", "_Z3fooILb1EEvv", true},
		{"foo<-5>", "_Z3fooILin5EEvv", true},
		{"at::foo [[].cold]", "_ZN2at3fooEi.cold", true},
		{"f(int)::{lambda(auto:1)#1}::*", "_ZZ1fiENKUlT_E_clIiEEDaS_", true},
		{"ns::A::str\\[abi:cxx11\\]", "_ZN2ns1A3strB5cxx11Ev", true},
		{"/^at::_ops::(mm|addmm)::call$/", ADDMM, true},
		{"/^at::_ops::(mm|addmm)::call$/", BMM, false},
		{"/_ops2mm/", MM, true},
		{"/^foo_(a|b)$/", "foo_b", true},
		{"/^foo_(a|b)$/", "foo_bc", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct pattern *pattern = parse(rows[i].pattern);

		cr_expect_eq(pattern__matches_name(pattern, rows[i].name), rows[i].wanted,
			     "%s on %s", rows[i].pattern, rows[i].name);
		cr_expect_not(pattern__names_module(pattern), "%s", rows[i].pattern);
		pattern__free(pattern);
	}
}

Test(pattern, operators_with_and_without_their_overload)
{
	static const struct {
		const char *pattern, *joined, *label;
		bool wanted;
	} rows[] = {
		{"aten::mm", "mm", "aten::mm", true},
		{"aten::mm", "mm_out", "aten::mm.out", true},
		{"aten::mm", "mmm", "aten::mmm", false},
		{"aten::add", "add_Tensor", "aten::add.Tensor", true},
		{"aten::add", "add_relu_Tensor", "aten::add_relu.Tensor", false},
		{"aten::add.Tensor", "add_Tensor", "aten::add.Tensor", true},
		{"aten::add.Tensor", "add_Scalar", "aten::add.Scalar", false},
		{"aten::add_*", "add__Tensor", "aten::add_.Tensor", true},
		{"aten::{mm,bmm}", "bmm", "aten::bmm", true},
		{"aten::[ab]mm", "bmm", "aten::bmm", true},
		{"libtorch_cpu*:aten::*", "_softmax", "aten::_softmax", true},
		{"at::_ops::mm::call", "mm", "aten::mm", false},
		{"*", "mm", "aten::mm", false},
		{"/aten::mm/", "mm", "aten::mm", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct pattern *pattern = parse(rows[i].pattern);
		bool matches = pattern__names_operators(pattern) &&
			       pattern__may_match_operator(pattern, rows[i].joined) &&
			       pattern__matches_operator(pattern, rows[i].label);

		cr_expect_eq(matches, rows[i].wanted, "%s on %s", rows[i].pattern, rows[i].label);
		pattern__free(pattern);
	}
}

Test(pattern, modules)
{
	static const struct {
		const char *pattern, *base, *name;
		bool wanted;
	} rows[] = {
		{"libtorch_cpu*:at::_ops::mm::call", "libtorch_cpu.so", MM, true},
		{"libtorch_cpu*:at::_ops::mm::call", "libtorch.so", MM, false},
		{"train:*", "train", "main", true},
		{"train:*", "trainer", "main", false},
		{"{a,b}:*", "b", "main", true},
		{"lib[x:y]:*", "lib:", "main", true},
		{"libfoo.so:/^foo_(a|b)$/", "libfoo.so", "foo_a", true},
		{"libfoo.so:/^foo_(a|b)$/", "libfoo.so", "foo_c", false},
		{"lib:::at::*", "lib", MM, true},
		{"!libc*:str*", "libc.so.6", "strlen", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct module_names module = {.base = rows[i].base};
		struct pattern *pattern = parse(rows[i].pattern);

		cr_expect_eq(pattern__matches_module(pattern, &module) &&
				     pattern__matches_name(pattern, rows[i].name),
			     rows[i].wanted, "%s", rows[i].pattern);
		cr_expect(pattern__names_module(pattern));
		cr_expect_str_eq(pattern__text(pattern), rows[i].pattern);
		cr_expect_eq(pattern__excludes(pattern), rows[i].pattern[0] == '!');
		pattern__free(pattern);
	}
}

Test(pattern, modules_by_soname)
{
	static const struct {
		const char *pattern, *base, *soname;
		bool wanted;
	} rows[] = {
		{"libgomp.so.1:*", "libgomp.so.1.0.0", "libgomp.so.1", true},
		{"!libgomp.so.1:*", "libgomp.so.1.0.0", "libgomp.so.1", true},
		{"libgomp.so.1.0.0:*", "libgomp.so.1.0.0", "libgomp.so.1", true},
		{"libgomp.so.2:*", "libgomp.so.1.0.0", "libgomp.so.1", false},
		{"libgomp.so.1:*", "libgomp.so.1.0.0", NULL, false},
		{"{a,}:*", "plugin", "", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct module_names module = {.base = rows[i].base, .soname = rows[i].soname};
		struct pattern *pattern = parse(rows[i].pattern);

		cr_expect_eq(pattern__matches_module(pattern, &module), rows[i].wanted, "%s",
			     rows[i].pattern);
		pattern__free(pattern);
	}
}

Test(pattern, without_module_any_file)
{
	const struct module_names module = {.base = "anything.so"};
	struct pattern *pattern = parse("at::_ops::*");

	cr_expect(pattern__matches_module(pattern, &module));
	cr_expect_not(pattern__excludes(pattern));
	pattern__free(pattern);
}

Test(pattern, refuses)
{
	static const char *const rows[][2] = {
		{"", "empty pattern"},
		{"!", "empty pattern"},
		{":malloc", "no file name before ':'"},
		{"libc:", "no function name after ':'"},
		{"/lib/libc.so.6:malloc", "a file is named by its last component, without '/'"},
		{"libc:/mal", "a regular expression must be between two '/'"},
		{"libc:/(/", "Unmatched ( or \\("},
		{"libc:/a++++++++++++++++++++++++++++++/",
		 "too many repeats ('+', '{n,m}') of repeats"},
		{"/x(ab{1,99}){2,200}y/", "too many repeats ('+', '{n,m}') of repeats"},
		{"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
		 "more than 1024 alternatives"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char why[128] = "";

		errno = 0;
		cr_expect_null(pattern__parse(rows[i][0], why, sizeof(why)), "%s", rows[i][0]);
		cr_expect_eq(errno, EINVAL);
		cr_expect_str_eq(why, rows[i][1], "%s: %s", rows[i][0], why);
	}
	pattern__free(NULL);
}

/* The demangled text as a pattern, whole and with any part of it starred out, must match: the
 * filter in front of the demangler may not lose a name. */
Test(pattern, filter_loses_nothing)
{
	static const char *const names[] = {
		MM,
		VIEW,
		STR,
		RUST,
		"_ZNSt6vectorIN2at6TensorESaIS1_EE9push_backERKS1_",
		"_ZNSaIcEC1Ev",
		"_ZN12_GLOBAL__N_14workEi.constprop.0",
		"_ZZN2ns1A3getIiEET_iENKUlvE_clEv",
		"_Z3barIfLi3EDF16_DnEvT_",
		"_ZThn16_N2ns1A3fooEi",
		"_ZN2ns1AcvSbIwSt11char_traitsIwESaIwEEEv",
		"_ZN2nsli2_kEy",
		"_RINvNtC3std3mem8align_ofjdE",
		"_RNvMC1aINtB2_4_ringhE4call",
		"_ZN102_$LT$core..iter..adapters..map..Map$LT$I$C$F$GT$$u20$as$u20$core..iter.."
		"traits..iterator..Iterator$GT$4fold17h51c4f824ccde7d9eE",
	};

	for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++) {
		char *text = demangle(names[n]), glob[1024], why[64];
		size_t size = strlen(text);

		cr_expect_neq(strcmp(text, names[n]), 0, "%s is not demangled", names[n]);
		for (size_t from = 0; from <= size; from++) {
			for (size_t to = from; to <= size; to += 1 + size / 16) {
				struct pattern *pattern;

				snprintf(glob, sizeof(glob), "%.*s*%s", (int)from, text, text + to);
				pattern = pattern__parse(glob, why, sizeof(why));
				if (!pattern || pattern__names_module(pattern) ||
				    strpbrk(glob, "[{")) {
					pattern__free(pattern);
					continue;
				}
				cr_expect(pattern__matches_name(pattern, names[n]), "%s on %s",
					  glob, names[n]);
				pattern__free(pattern);
			}
		}
		free(text);
	}
}

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

Test(nearest, operators)
{
	static const char *const operators[] = {"aten::addmm", "aten::add", "aten::softmax", NULL};
	char why[64];
	struct pattern *pattern = pattern__parse("aten::addd", why, sizeof(why));
	struct nearest *nearest = nearest__new(pattern, 1);

	for (size_t i = 0; operators[i]; i++)
		nearest__offer(nearest, operators[i]);
	cr_expect_str_eq(nearest__list(nearest), "aten::add");
	nearest__free(nearest);
	pattern__free(pattern);
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
