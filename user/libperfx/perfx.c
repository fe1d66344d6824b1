// SPDX-License-Identifier: BSD-2-Clause
/*
 * libperfx: the functions of perfx.h for languages that call functions of a library (Python, Rust,
 * Go, Julia, …). Each jumps to the library's own copy of the marker. It needs no other library, not
 * even the C library, and runs nothing when it is loaded.
 */
#define PERFX_API_ __attribute__((visibility("default")))
#include <perfx.h>
