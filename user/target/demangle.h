/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PERFX_TARGET_DEMANGLE_H
#define PERFX_TARGET_DEMANGLE_H

/* C++ (Itanium) and Rust names without return type and argument list, template arguments kept:
 * "_ZN2at4_ops2mm4callERKNS_6TensorES4_" → "at::_ops::mm::call". A name that is not mangled comes
 * back as it is. The caller frees; NULL only when out of memory. Compiler suffixes (.cold, .part.0,
 * .isra.0, .constprop.0) are kept as " [.cold]" and so on. */
char *demangle(const char *symbol_name);

#endif
