// SPDX-License-Identifier: BSD-2-Clause
#include "session/follow_internal.h"

#include <string.h>

#define PERIOD_NS 10000000000u

static bool was_missing(const struct lost *lost, pid_t pid)
{
	for (size_t i = 0; i < lost->missing_count; i++)
		if (lost->missing[i] == pid)
			return true;
	return false;
}

size_t lost_find(struct lost *lost, const struct tracer *tracer, const pid_t *pids, size_t count,
		 uint64_t now_ns, pid_t found[LOST_MAX])
{
	size_t missing_count = 0, found_count = 0;
	struct perfx_traced_process traced;
	pid_t missing[LOST_MAX];

	if (now_ns < lost->next_ns)
		return 0;
	lost->next_ns = now_ns + PERIOD_NS;
	for (size_t i = 0; i < count && missing_count < LOST_MAX; i++) {
		if (!tracer__traced_process(tracer, pids[i], &traced))
			continue;
		if (was_missing(lost, pids[i]))
			found[found_count++] = pids[i];
		else
			missing[missing_count++] = pids[i];
	}
	memcpy(lost->missing, missing, missing_count * sizeof(missing[0]));
	lost->missing_count = missing_count;
	return found_count;
}
