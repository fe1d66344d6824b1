// SPDX-License-Identifier: BSD-2-Clause
/* Seccomp filters of a traced process: a struct seccomp_data, then instructions. */
#include "fuzz.h"

#include "inject/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seccomp_data call = {0};
	size_t count = size > sizeof(call) ? (size - sizeof(call)) / sizeof(struct sock_filter) : 0;
	struct sock_filter *program = malloc(count * sizeof(*program) + 1);

	if (!program)
		abort();
	if (count) {
		memcpy(&call, data, sizeof(call));
		memcpy(program, data + sizeof(call), count * sizeof(*program));
	}
	if (!count && seccomp_run(program, 0, &call) != SECCOMP_RET_KILL_PROCESS)
		abort();
	seccomp_run(program, count, &call);
	free(program);
	return 0;
}
