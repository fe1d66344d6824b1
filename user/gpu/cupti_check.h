/* SPDX-License-Identifier: BSD-2-Clause */
/* The CUPTI that is installed on this machine, for perfx-trace doctor. Traced programs may have
 * another one: an agent takes theirs. */
#ifndef PERFX_GPU_CUPTI_CHECK_H
#define PERFX_GPU_CUPTI_CHECK_H

#include <stdbool.h>
#include <stddef.h>

enum cupti_state {
	CUPTI_WORKS = 0,
	CUPTI_ABSENT,
	CUPTI_NO_GPU,
	CUPTI_FAILS, /* known to be bad, or it crashes */
};

/* Can an agent use it? what: "CUPTI 13.0 (130001), /usr/local/cuda/…", as far as it is known;
 * otherwise why: one clause. It is called in a child: one release crashes without a GPU. */
enum cupti_state cupti_check(char *what, char *why, size_t size);

/* Is no other profiler where an agent would be, in any process? why: which one, and where. */
bool profilers_check(char *why, size_t size);

/* May processes of the same user be traced by ptrace (Yama)? why: what forbids it. */
bool ptrace_check(char *why, size_t size);

#endif
