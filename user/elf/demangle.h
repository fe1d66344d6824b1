/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Readable names. Symbol names come from the traced program and are hostile: a short
 * one can stand for an endless text, so results stop at 64 KiB.
 */
#ifndef PERFX_ELF_DEMANGLE_H
#define PERFX_ELF_DEMANGLE_H

#include <stdbool.h>

/* C++ (Itanium) and Rust names without return type and argument list, template arguments kept:
 * "_ZN2at4_ops2mm4callERKNS_6TensorES4_" → "at::_ops::mm::call". A name that is not mangled comes
 * back as it is. The caller frees; NULL only when out of memory. Compiler suffixes (.cold, .part.0,
 * .isra.0, .constprop.0) of mangled names are kept as " [.cold]" and so on. The arguments of a
 * function that a local class or lambda is in are kept, for they are part of that one's name:
 * "f(int)::{lambda()#1}::operator()". */
char *demangle(const char *symbol_name);

/* The name of the GPU kernel that a host stub launches, which compilers mangle with the stub's or
 * which is its own: "__device_stub__Z3fooPf" → "foo", "ns::__device_stub__foo" → "ns::foo". As
 * demangle. */
char *demangle_kernel(const char *symbol_name);

/* Does the name look mangled? "_Z…", "_R…". */
bool demangle_applies(const char *symbol_name);

/* The same for a compiler's __PRETTY_FUNCTION__: "int ns::f(T) [with T = char]" → "ns::f". */
char *demangle_pretty(const char *pretty_function);

#endif
