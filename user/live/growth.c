// SPDX-License-Identifier: BSD-2-Clause
#include "live/growth.h"

#include <errno.h>

void growth_init(struct growth *growth)
{
	*growth = (struct growth){
		.rows.width = GROWTH_ROW_WIDTH,
		.lines.width = GROWTH_LINE_WIDTH,
		.waits.width = GROWTH_WAIT_WIDTH,
		.threads.width = GROWTH_THREAD_WIDTH,
		.processes.width = GROWTH_PROCESS_WIDTH,
		.reasons.width = GROWTH_REASON_WIDTH,
		.domains.width = GROWTH_DOMAIN_WIDTH,
	};
}

void growth_clear(struct growth *growth)
{
	emitted_clear(&growth->rows);
	emitted_clear(&growth->lines);
	emitted_clear(&growth->waits);
	emitted_clear(&growth->threads);
	emitted_clear(&growth->processes);
	emitted_clear(&growth->reasons);
	emitted_clear(&growth->domains);
}

int grown(struct emitted *table, uint64_t key, void *sums)
{
	uint64_t *list = sums;
	bool any = false;

	for (size_t i = 0; i < table->width; i++)
		if (list[i] == PROFILE_ABSENT)
			list[i] = 0;
	if (!emitted_subtract(table, key, sums))
		return 0;
	if (emitted_add(table, key, sums))
		return -ENOMEM;
	for (size_t i = 0; i < table->width; i++) {
		if ((int64_t)list[i] < 0)
			list[i] = 0;
		any = any || list[i];
	}
	return any;
}

uint64_t grown_by(uint64_t *before, uint64_t now)
{
	uint64_t more = now > *before ? now - *before : 0;

	*before = now;
	return more;
}
