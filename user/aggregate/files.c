// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/process.h"

#include "base/order.h"

#include <stdlib.h>
#include <string.h>

/* Sums of the calls of processes on files and sockets. */
struct files {
	struct file_group {
		const char *name, *type; /* NULL: not described */
		bool is_socket;
	} * groups; /* by id */
	size_t groups_capacity;
	struct map64 ids; /* process, group → list[] */
	struct files_used {
		uint32_t process, group;
		struct profile_files sums;
	} * list;
	size_t capacity, count;
};

static int handle_file_group(struct aggregate *a, const struct event *event)
{
	struct files *files = a->files;
	uint32_t id = event->file_group.group;
	struct file_group *group;

	if (!id || id > AGGREGATE_FILE_GROUPS_MAX)
		return undecoded(a);
	if (grow_array(&files->groups, &files->groups_capacity, (size_t)id + 1,
		       sizeof(*files->groups)))
		return -ENOMEM;
	group = &files->groups[id];
	group->name = pool_add(&a->strings, event->strings[0]);
	group->type = intern(a, event->strings[1]);
	group->is_socket = event->file_group.flags & PERFX_FILE_GROUP_SOCKET;
	return group->name && group->type ? 0 : -ENOMEM;
}

static int handle_file_calls(struct aggregate *a, const struct event *event)
{
	struct files *files = a->files;
	const struct perfx_file_calls *record = &event->file_calls;
	uint64_t key = MAP64_PAIR(record->process, record->group);
	struct files_used *used = MAP64_FIND_OF(files, key);
	struct profile_files *sums;

	if (!used) {
		if (files->count >= AGGREGATE_FILE_GROUPS_MAX || !process_get(a, record->process))
			return undecoded(a);
		used = MAP64_ITEM_OF(files, key);
		if (!used)
			return -ENOMEM;
		*used = (struct files_used){.process = record->process, .group = record->group};
	}
	sums = &used->sums;
	add_up(&sums->ns,
	       add_capped(record->open_ns, add_capped(record->read_ns, record->write_ns)));
	add_up(&sums->opens_count, record->opens_count);
	add_up(&sums->open_ns, record->open_ns);
	add_up(&sums->reads_count, record->reads_count);
	add_up(&sums->read_bytes, record->read_bytes);
	add_up(&sums->read_ns, record->read_ns);
	add_up(&sums->sequential_count, record->sequential_count);
	add_up(&sums->stored_bytes, record->stored_bytes);
	add_up(&sums->writes_count, record->writes_count);
	add_up(&sums->write_bytes, record->write_bytes);
	add_up(&sums->write_ns, record->write_ns);
	add_up(&sums->answers_count, record->answers_count);
	add_up(&sums->answer_ns, record->answer_ns);
	add_up(&sums->errors_count, record->errors_count);
	return 0;
}

ORDER(by_time, struct profile_files, DESCENDING(a->ns, b->ns),
      DESCENDING(a->read_bytes, b->read_bytes), strcmp(a->name, b->name))

static int fill_files(struct finish_ctx *ctx)
{
	const struct files *files = ctx->a->files;

	FOR_EACH_OF (used, *files) {
		struct profile_process *process = process_at(ctx, used->process);

		if (process)
			process->files_count++;
	}
	FOR_EACH (process, ctx->profile->processes) {
		if (!process->files_count)
			continue;
		process->files = calloc(process->files_count, sizeof(*process->files));
		if (!process->files)
			return -ENOMEM;
		process->files_count = 0;
	}
	FOR_EACH_OF (used, *files) {
		struct profile_process *process = process_at(ctx, used->process);
		struct file_group group = {.name = "(not named)", .type = ""};

		if (used->group < files->groups_capacity && files->groups[used->group].name)
			group = files->groups[used->group];
		if (!process)
			continue;
		used->sums.name = group.name;
		used->sums.type = group.type;
		used->sums.is_socket = group.is_socket;
		process->files[process->files_count++] = used->sums;
	}
	FOR_EACH (process, ctx->profile->processes)
		SORT_ITEMS(process->files, process->files_count, by_time);
	return 0;
}

static void clear_files(void *state)
{
	struct files *files = state;

	map64_clear(&files->ids);
	free(files->groups);
	free(files->list);
}

const struct part part_files = {
	PART_STATE(files),
	.add = {TAKES(FILE_GROUP, file_group), TAKES(FILE_CALLS, file_calls)},
	.finish = fill_files,
	.clear = clear_files,
};
