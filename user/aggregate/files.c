// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/process.h"

#include "base/order.h"

#include <stdlib.h>
#include <string.h>

/* Sums of the calls of threads on files and sockets, and samples of these calls. */
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

/* A group of files in a process keeps so many threads and samples. Further ones are added to one
 * entry, which has no thread or stack. */
#define USERS_MAX   4096
#define SAMPLES_MAX 1024

/* NULL with errno: ENOSPC, ENOMEM, or as process_get(). */
static struct files_used *used_get(struct aggregate *a, uint32_t process, uint32_t group)
{
	struct files *files = a->files;
	uint64_t key = MAP64_PAIR(process, group);
	struct files_used *used = MAP64_FIND_OF(files, key);

	if (used)
		return used;
	errno = ENOSPC;
	if (files->count >= AGGREGATE_FILE_GROUPS_MAX || !process_get(a, process))
		return NULL;
	used = MAP64_ITEM_OF(files, key);
	if (used)
		*used = (struct files_used){.process = process, .group = group};
	return used;
}

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

static void add_calls(struct profile_file_calls *sums, const struct perfx_file_calls *record)
{
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
	add_up(&sums->faults_count, record->faults_count);
	add_up(&sums->fault_bytes, record->fault_bytes);
}

static struct profile_file_user *user_get(struct profile_files *files, uint32_t tid)
{
	if (files->users_count >= USERS_MAX)
		tid = 0;
	FOR_EACH (user, files->users)
		if (user->tid == tid)
			return user;
	if (LIST_ADD(files->users, (struct profile_file_user){.tid = tid}))
		return NULL;
	return &files->users[files->users_count - 1];
}

static int handle_file_calls(struct aggregate *a, const struct event *event)
{
	const struct perfx_file_calls *record = &event->file_calls;
	struct files_used *used = used_get(a, record->process, record->group);
	struct profile_file_user *user;

	if (!used)
		return rejected(a);
	user = user_get(&used->sums, record->tid);
	if (!user)
		return -ENOMEM;
	add_calls(&used->sums.calls, record);
	add_calls(&user->calls, record);
	return 0;
}

static int handle_file_sample(struct aggregate *a, const struct event *event)
{
	const struct perfx_file_sample *record = &event->file_sample;
	struct files_used *used = used_get(a, record->process, record->group);
	struct profile_files *sums;
	uint32_t stack;

	if (!used)
		return rejected(a);
	saw_time(a, record->time_ns);
	sums = &used->sums;
	stack = sums->samples_count < SAMPLES_MAX ? record->stack : 0;
	FOR_EACH (sample, sums->samples) {
		if (sample->id != stack)
			continue;
		add_up(&sample->ns, record->ns);
		sample->count++;
		return 0;
	}
	return LIST_ADD(sums->samples,
			(struct profile_file_sample){.id = stack, .ns = record->ns, .count = 1});
}

ORDER(by_time, struct profile_files, DESCENDING(a->calls.ns, b->calls.ns),
      DESCENDING(a->calls.fault_bytes, b->calls.fault_bytes),
      DESCENDING(a->calls.read_bytes, b->calls.read_bytes), strcmp(a->name, b->name))
ORDER(user_by_time, struct profile_file_user, DESCENDING(a->calls.ns, b->calls.ns),
      DESCENDING(a->calls.fault_bytes, b->calls.fault_bytes), ASCENDING(a->tid, b->tid))
ORDER(sample_by_time, struct profile_file_sample, DESCENDING(a->ns, b->ns), ASCENDING(a->id, b->id))

static void fill_samples(const struct finish_ctx *ctx, struct files_used *used)
{
	struct profile_files *sums = &used->sums;

	FOR_EACH (sample, sums->samples)
		sample->stack = stack_of(ctx, used->process, sample->id);
	SORT_ITEMS(sums->samples, sums->samples_count, sample_by_time);
}

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
		SORT_ITEMS(used->sums.users, used->sums.users_count, user_by_time);
		fill_samples(ctx, used);
		process->files[process->files_count++] = used->sums;
	}
	FOR_EACH (process, ctx->profile->processes)
		SORT_ITEMS(process->files, process->files_count, by_time);
	return 0;
}

static void clear_files(void *state)
{
	struct files *files = state;

	FOR_EACH_OF (used, *files) {
		free(used->sums.users);
		free(used->sums.samples);
	}
	map64_clear(&files->ids);
	free(files->groups);
	free(files->list);
}

const struct part part_files = {
	PART_STATE(files),
	.add = {TAKES(FILE_GROUP, file_group), TAKES(FILE_CALLS, file_calls),
		TAKES(FILE_SAMPLE, file_sample)},
	.finish = fill_files,
	.clear = clear_files,
};
