// SPDX-License-Identifier: BSD-2-Clause
#include "elf/demangle.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
	const char *in, *out;
};

static void check(char *(*simplify)(const char *), const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *text = simplify(rows[i].in);

		cr_expect_str_eq(text, rows[i].out, "%s\n  gives %s\n  wanted %s", rows[i].in, text,
				 rows[i].out);
		free(text);
	}
}

#define COUNT(rows) (sizeof(rows) / sizeof(*(rows)))

Test(demangle, symbols)
{
	static const struct row rows[] = {
		{"_ZN2at4_ops2mm4callERKNS_6TensorES4_", "at::_ops::mm::call"},
		{"_Z3fooIiET_S0_", "foo<int>"},
		{"_ZNK3xla23PjRtCpuLoadedExecutable7ExecuteEv",
		 "xla::PjRtCpuLoadedExecutable::Execute"},
		{"_ZN12_GLOBAL__N_14workEi", "(anonymous namespace)::work"},
		{"_ZN2ns1AclEi", "ns::A::operator()"},
		{"_ZN2ns1AC2Ev", "ns::A::A"},
		{"_ZN2ns1AD0Ev", "ns::A::~A"},
		{"_ZN2ns1AltERKS0_", "ns::A::operator<"},
		{"_ZN2ns1AlsIdEEbT_", "ns::A::operator<< <double>"},
		{"_ZN2ns1AcvbEv", "ns::A::operator bool"},
		{"_ZN2ns1AnaEm", "ns::A::operator new[]"},
		{"_ZN2ns1A3strB5cxx11Ev", "ns::A::str[abi:cxx11]"},
		/* a local class keeps the arguments of the function that it is in, not its type */
		{"_ZZN2ns1A3getIiEET_iENKUlvE_clEv",
		 "ns::A::get<int>(int)::{lambda()#1}::operator()"},
		{"_ZThn16_N2ns1A3fooEi", "non-virtual thunk to ns::A::foo"},
	};
	check(demangle, rows, COUNT(rows));
}

Test(demangle, rust)
{
	static const struct row rows[] = {
		{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
		{"_ZN58_$LT$alloc..boxed..Box$LT$T$GT$$u20$as$u20$core..x..Tr$GT$1f"
		 "17h51c4f824ccde7d9eE.llvm.12",
		 "<alloc::boxed::Box<T> as core::x::Tr>::f [.llvm.12]"},
		{"_RNvC6_123foo3bar", "123foo::bar"},
		{"_RINvNtC3std3mem8align_ofjdE", "std::mem::align_of::<usize, f64>"},
	};
	check(demangle, rows, COUNT(rows));
}

/* libiberty prints an identifier without letters as no bytes at NULL. */
Test(demangle, empty_identifier)
{
	char *readable = demangle("_RNvC0_1a");

	cr_expect_str_eq(readable, "::a");
	free(readable);
}

Test(demangle, suffixes)
{
	static const struct row rows[] = {
		{"_ZN2at3fooEi.cold", "at::foo [.cold]"},
		{"_Z3foov.constprop.0.isra.0", "foo [.constprop.0.isra.0]"},
		{"foo.cold", "foo.cold"},
	};
	check(demangle, rows, COUNT(rows));
}

Test(demangle, leaves_other_names_alone)
{
	static const struct row rows[] = {
		{"malloc", "malloc"}, {"", ""},
		{"_Z", "_Z"},	      {"_R", "_R"},
		{"_Z999x", "_Z999x"}, {"_ZGVcN4v_Sleef_acos_u10", "_ZGVcN4v_Sleef_acos_u10"},
	};
	check(demangle, rows, COUNT(rows));
}

/* f<A<int, int>, A<S1, S1>, A<S2, S2>, …>: each argument names the one before it twice, so that
 * the text doubles 33 times. */
Test(demangle, bomb_ends, .timeout = 5)
{
	static const char digits[] = "123456789ABCDEFGHIJKLMNOPQRSTUVWXY";
	char bomb[1024] = "_Z1fI1AIiiE", part[16], *text;

	for (const char *d = digits; *d; d++) {
		snprintf(part, sizeof(part), "S0_IS%c_S%c_E", *d, *d);
		strcat(bomb, part);
	}
	strcat(bomb, "Evv");
	text = demangle(bomb);
	cr_assert_eq(strncmp(text, "f<A<int, int>, A<A<int, int>, A<int, int> >, ", 45), 0);
	cr_expect_leq(strlen(text), 64 * 1024);
	cr_expect_gt(strlen(text), 60 * 1024);
	free(text);
}

Test(demangle, endless_input)
{
	size_t size = 1024 * 1024;
	char *name = malloc(size + 1), *text;

	memset(name, 'P', size);
	memcpy(name, "_Z1f", 4);
	name[size] = '\0';
	text = demangle(name);
	cr_expect_str_eq(text, name);
	free(text);
	free(name);
}

Test(demangle, pretty_gcc)
{
	static const struct row rows[] = {
		{"int main(int, char**)", "main"},
		{"T ns::A::get(int) const [with T = int]", "ns::A::get"},
		{"static void* ns::A::operator new [](size_t)", "ns::A::operator new []"},
		{"const T* ns::{anonymous}::anon(std::function<void(T)>, T (*)[3]) [with T = int; "
		 "int N = 3]",
		 "ns::{anonymous}::anon"},
		{"void (* ns::fp(int))(double)", "ns::fp"},
		{"ns::A::operator std::vector<T>() [with T = long int]",
		 "ns::A::operator std::vector<T>"},
		{"bool ns::A::operator()(int) const", "ns::A::operator()"},
		{"ns::A::A()", "ns::A::A"},
		{"main(int, char**)::<lambda()> mutable", "main(int, char**)::<lambda()>"},
		{"ns::A::get<int>(int) const::<lambda(auto:1)> [with auto:1 = int]",
		 "ns::A::get<int>(int) const::<lambda(auto:1)>"},
		{"std::string ns::A::str()", "ns::A::str"},
		{"long unsigned int f(std::map<int, int>)", "f"},
	};
	check(demangle_pretty, rows, COUNT(rows));
}

Test(demangle, pretty_clang)
{
	static const struct row rows[] = {
		{"T ns::A::get(int) const [T = int]", "ns::A::get"},
		{"const T *ns::(anonymous namespace)::anon(std::function<void (T)>, T (*)[3]) [T = "
		 "int, N = 3]",
		 "ns::(anonymous namespace)::anon"},
		{"void (*ns::fp(int))(double)", "ns::fp"},
		{"bool ns::A::operator bool() const", "ns::A::operator bool"},
		{"auto ns::A::get(int)::(anonymous class)::operator()(auto) const [x:auto = int]",
		 "ns::A::get(int)::(anonymous class)::operator()"},
		{"int *ns::A::operator->()", "ns::A::operator->"},
		{"bool ns::A::operator<(const ns::A &) const", "ns::A::operator<"},
	};
	check(demangle_pretty, rows, COUNT(rows));
}

/* Whatever the text, the reader stays inside it (seen by the address sanitizer). */
Test(demangle, pretty_survives_fragments)
{
	const char *text =
		"static const A<(1>2)>* n::{x}::operator<<(B<C> (*)[3]) const && [with T]";
	size_t length = strlen(text);

	for (size_t from = 0; from < length; from++) {
		for (size_t size = 0; size <= length - from; size++) {
			char *part = strndup(text + from, size), *name = demangle_pretty(part);

			cr_assert_not_null(name);
			cr_assert_leq(strlen(name), size);
			free(name);
			free(part);
		}
	}
}

Test(demangle, kernels)
{
	static const struct row rows[] = {
		{"_Z5scalePfi", "scale"},
		{"__device_stub__Z5scalePfi", "scale"},
		{"_ZL38__device_stub__ZN5tools3addEPfS0_PfS_", "tools::add"},
		{"_ZN5tools18__device_stub__addEPf", "tools::add"},
		{"__device_stub__plain", "plain"},
		{"__device_stub__Zebra", "Zebra"},
		{"__device_stub__", ""},
		{"triton_poi_fused_add_0", "triton_poi_fused_add_0"},
	};
	check(demangle_kernel, rows, COUNT(rows));
}
