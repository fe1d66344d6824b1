// SPDX-License-Identifier: BSD-2-Clause
/* Memory: who allocates, who holds. */
#include "aggregate/internal.h"

int memory_allocation(struct aggregate *aggregate, const struct perfx_allocation *record)
{
	saw_time(aggregate, record->time_ns);
	return 0;
}

int memory_free(struct aggregate *aggregate, const struct perfx_free *record)
{
	saw_time(aggregate, record->time_ns);
	return 0;
}

int memory_stack(struct aggregate *aggregate, const struct event *event)
{
	(void)aggregate;
	(void)event;
	return 0;
}

int memory_allocator(struct aggregate *aggregate, const struct event *event)
{
	(void)aggregate;
	(void)event;
	return 0;
}

int memory_mode(struct aggregate *aggregate, const struct perfx_memory_mode *record)
{
	saw_time(aggregate, record->time_ns);
	return 0;
}

int memory_frame(struct aggregate *aggregate, const struct event *event)
{
	(void)aggregate;
	(void)event;
	return 0;
}

int memory_book(struct aggregate *aggregate, const struct perfx_memory_book *record)
{
	(void)aggregate;
	(void)record;
	return 0;
}
