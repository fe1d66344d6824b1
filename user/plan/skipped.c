// SPDX-License-Identifier: BSD-2-Clause
#include "plan/skipped.h"

#include "base/grow.h"
#include "perfx_record.h"

#include <stdlib.h>
#include <string.h>

static void add(struct skipped_list *list, const char *name, const char *reason, uint32_t flags)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i].flags == flags && !strcmp(list->items[i].reason, reason)) {
			list->items[i].count++;
			return;
		}
	}
	if (grow_array(&list->items, &list->capacity, list->count + 1, sizeof(*list->items)))
		return;
	list->items[list->count++] = (struct skipped){
		.name = strdup(name), .reason = strdup(reason), .count = 1, .flags = flags};
}

void skipped_add(struct skipped_list *list, const char *name, const char *reason)
{
	add(list, name, reason, 0);
}

void skipped_hint(struct skipped_list *list, const char *name, const char *reason)
{
	add(list, name, reason, PERFX_NOT_ATTACHED_BY_DESIGN);
}

void skipped_waits(struct skipped_list *list, const char *reason)
{
	add(list, "time off the CPU", reason, PERFX_NOT_ATTACHED_WAITS);
}

void skipped_clear(struct skipped_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].name);
		free(list->items[i].reason);
	}
	free(list->items);
	*list = (struct skipped_list){0};
}
