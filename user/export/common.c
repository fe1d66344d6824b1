// SPDX-License-Identifier: BSD-2-Clause
/* What several writers need. */
#include "base/escape.h"
#include "export/formats.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <zlib.h>

int export_error(FILE *out)
{
	if (!ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}

const char *export_label(const struct profile_function *function)
{
	return function && function_label(function)[0] ? function_label(function) : "?";
}

void export_function_name(struct text *into, const struct profile *profile, uint32_t id)
{
	escape_display(into, export_label(profile_function(profile, id)));
}

void export_json_string(struct text *into, const char *name)
{
	struct text shown = {0};
	json_t *json = NULL;
	char *dumped = NULL;

	escape_display(&shown, name);
	if (!shown.failed)
		json = json_string(text_peek(&shown));
	if (json)
		dumped = json_dumps(json, JSON_ENCODE_ANY);
	if (dumped)
		text_add(into, dumped);
	else
		into->failed = true;
	free(dumped);
	json_decref(json);
	text_clear(&shown);
}

void export_process_name(struct text *into, const struct profile_process *process)
{
	escape_display(into, process->comm[0] ? process->comm : "?");
	text_printf(into, " (pid %u", process->pid);
	if (process->exec_count)
		text_printf(into, ", exec %u", process->exec_count);
	text_add(into, ")");
}

/* Pids of machines fall together: those of each capture get a range of their own. Thread ids
 * likewise. */
#define PIDS_OF_A_CAPTURE (1u << 22) /* PID_MAX_LIMIT of Linux */

uint32_t export_pid(const struct profile_process *process, uint32_t pid)
{
	return process->merged > 1 ? pid + (process->merged - 1) * PIDS_OF_A_CAPTURE : pid;
}

void export_rank_name(struct text *into, const struct profile *profile,
		      const struct profile_process *process)
{
	struct text host = {0};

	if (!process->rank.world_size) {
		text_add(into, process->comm);
		return;
	}
	text_printf(into, "rank %u (pid %u)", process->rank.rank, process->pid);
	escape_display(&host, profile_host_name(profile, process));
	if (host.length)
		text_printf(into, " %s", text_peek(&host));
	text_finish(&host, &into->failed);
}

const struct profile_process *export_process(const struct profile *profile, uint32_t index)
{
	FOR_EACH (process, profile->processes)
		if (process->index == index)
			return process;
	return NULL;
}

bool export_any_steps(const struct profile *profile)
{
	FOR_EACH (process, profile->processes)
		if (process->steps.count)
			return true;
	return false;
}

bool export_any_samples(const struct profile *profile)
{
	FOR_EACH (process, profile->processes)
		if (process->samples.count)
			return true;
	return false;
}

int export_contexts_make(struct export_contexts *contexts, const struct profile_process *process)
{
	int err = 0;

	*contexts = (struct export_contexts){.process = process};
	for (size_t i = 0; i < process->contexts_count && !err; i++)
		err = map64_put(&contexts->places, process->contexts[i].id, (uint32_t)i);
	return err;
}

/* Ids of parents are smaller than their children's, so it ends. */
size_t export_path(const struct export_contexts *contexts, size_t i,
		   struct export_frame path[EXPORT_PATH_MAX])
{
	const struct profile_context *all = contexts->process->contexts;
	size_t count = 0;

	for (uint32_t at = (uint32_t)i; at != MAP64_NONE && count + 1 < EXPORT_PATH_MAX;
	     at = map64_get(&contexts->places, all[at].parent)) {
		path[count++] = (struct export_frame){.function = all[at].function};
		if (all[at].caller)
			path[count++] = (struct export_frame){.python = all[at].caller};
	}
	return count;
}

bool export_has(const struct export *export, enum export_of of)
{
	return export->of == EXPORT_OF_ALL || export->of == of;
}

bool export_is_of(const struct profile_activity *sample, enum export_of of)
{
	return (sample->state == PERFX_SAMPLE_ON_CPU) == (of == EXPORT_OF_CPU);
}

const struct profile_memory *export_memory(const struct profile_process *process)
{
	static const enum perfx_domain order[] = {PERFX_DOMAIN_TENSOR, PERFX_DOMAIN_HOST,
						  PERFX_DOMAIN_GPU, PERFX_DOMAIN_USER};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		for (size_t j = 0; j < process->memory_count; j++)
			if (process->memory[j].domain == order[i] &&
			    process->memory[j].allocs.value)
				return &process->memory[j];
	return NULL;
}

void export_labels(const struct profile *profile, const struct profile_process *process,
		   enum export_label_names names,
		   void (*add)(void *ctx, const char *name, const char *value), void *ctx)
{
	const char *const *place = process->place.of;
	char pid[16], rank[16];
	const struct {
		const char *names[2];
		const char *value;
	} labels[] = {
		{{"service_name", "service.name"}, process->comm},
		{{"host", "host.name"}, profile_host_name(profile, process)},
		{{"pid", "process.pid"}, pid},
		{{"rank", "perfx.rank"}, process->rank.world_size ? rank : NULL},
		{{"job", "perfx.job"}, place[PERFX_PLACE_JOB] ?: process->rank.job},
		{{"pod", "k8s.pod.name"}, place[PERFX_PLACE_POD]},
		{{"namespace", "k8s.namespace.name"}, place[PERFX_PLACE_NAMESPACE]},
		{{"container", "container.name"}, place[PERFX_PLACE_CONTAINER]},
		{{"container_id", "container.id"}, place[PERFX_PLACE_CONTAINER_ID]},
	};

	snprintf(pid, sizeof(pid), "%u", process->pid);
	snprintf(rank, sizeof(rank), "%u", process->rank.rank);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		if (labels[i].value && *labels[i].value)
			add(ctx, labels[i].names[names], labels[i].value);
}

int export_gzip(FILE *out, const struct text *data)
{
	z_stream z = {.next_in = (Bytef *)(data->data ? data->data : ""),
		      .avail_in = (uInt)data->length};
	unsigned char buffer[16384];
	int code;

	if (data->length > UINT32_MAX)
		return -EFBIG;
	/* 16: the format is gzip */
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY))
		return -ENOMEM;
	do {
		z.next_out = buffer;
		z.avail_out = sizeof(buffer);
		code = deflate(&z, Z_FINISH);
		fwrite(buffer, 1, sizeof(buffer) - z.avail_out, out);
	} while (code == Z_OK);
	deflateEnd(&z);
	return export_error(out);
}
