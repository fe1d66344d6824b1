// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory of a JSON report. A frame is one line there (analyze/location.h):
 *
 *     function (file:line)    function (file)    function (module)    module+0xoffset    0xaddress
 */
#include "report/json_report_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* --- frames ----------------------------------------------------------------------------------- */

static const char *keep(struct json_report *report, const char *text, size_t length)
{
	char *copy = strndup(text, length);
	const char *kept = copy ? pool_add(&report->texts, copy) : NULL;

	free(copy);
	return kept;
}

/* ":12" at its end; into line, and its length without. */
static size_t without_line(const char *text, size_t length, uint32_t *line)
{
	size_t digits = 0;

	while (digits < length && digits < 9 && text[length - 1 - digits] >= '0' &&
	       text[length - 1 - digits] <= '9')
		digits++;
	if (!digits || digits == length || text[length - 1 - digits] != ':')
		return length;
	*line = (uint32_t)strtoul(text + length - digits, NULL, 10);
	return length - digits - 1;
}

/* The path of an allocator's module of that name: by it frames inside the allocator are known. */
static const char *path_of(const struct profile_memory *memory, const char *module_base)
{
	for (size_t i = 0; i < memory->allocators_count; i++)
		if (!strcmp(base_of(memory->allocators[i].module), module_base))
			return memory->allocators[i].module;
	return module_base;
}

/* " (…)" at its end; NULL: it has none. */
static const char *last_bracket(const char *text, size_t length)
{
	if (length < 4 || text[length - 1] != ')')
		return NULL;
	for (size_t i = length - 2; i-- > 1;)
		if (text[i] == ' ' && text[i + 1] == '(')
			return text + i;
	return NULL;
}

static int read_where(struct json_report *report, const struct profile_memory *memory,
		      struct profile_frame *frame, const char *where, size_t length)
{
	size_t file = without_line(where, length, &frame->line);
	const char *kept = keep(report, where, file);

	if (!kept)
		return -ENOMEM;
	/* a source file has a path or a line, a module is a base name */
	if (frame->line || strchr(kept, '/')) {
		frame->file = kept;
		return 0;
	}
	frame->module_base = kept;
	frame->module = path_of(memory, kept);
	return 0;
}

static int read_frame(struct json_report *report, const struct profile_memory *memory,
		      struct profile_frame *frame, const char *text)
{
	size_t length = strlen(text);
	const char *bracket = last_bracket(text, length), *offset = strstr(text, "+0x");

	*frame =
		(struct profile_frame){.function = "", .module = "", .module_base = "", .file = ""};
	if (bracket) {
		frame->function = keep(report, text, (size_t)(bracket - text));
		return frame->function ? read_where(report, memory, frame, bracket + 2,
						    (size_t)(text + length - bracket) - 3)
				       : -ENOMEM;
	}
	if (offset) {
		frame->module_base = keep(report, text, (size_t)(offset - text));
		frame->module = frame->module_base ? path_of(memory, frame->module_base) : NULL;
		frame->offset = strtoull(offset + 3, NULL, 16);
		return frame->module ? 0 : -ENOMEM;
	}
	if (!strncmp(text, "0x", 2))
		frame->address = strtoull(text + 2, NULL, 16);
	else
		frame->function = text;
	return 0;
}

/* The frames lie behind their pointers, in one piece. */
static int read_stack(struct json_report *report, const struct profile_memory *memory,
		      struct profile_hotspot *hotspot, const json_t *stack)
{
	size_t count = json_array_size(stack);
	struct profile_frame *frames;
	const struct profile_frame **pointers;

	pointers = calloc(count + 1, sizeof(*pointers) + sizeof(*frames));
	if (!pointers)
		return -ENOMEM;
	frames = (struct profile_frame *)(void *)(pointers + count + 1);
	hotspot->frames = pointers;
	for (size_t i = 0; i < count; i++) {
		const char *text = json_string_value(json_array_get(stack, i));

		pointers[i] = &frames[i];
		if (read_frame(report, memory, &frames[i], text ? text : ""))
			return -ENOMEM;
		hotspot->frames_count++;
	}
	return 0;
}

/* --- domains ---------------------------------------------------------------------------------- */

static struct profile_estimate exact(uint64_t value)
{
	return (struct profile_estimate){value, value, value};
}

static uint32_t function_named(const struct json_report *report,
			       const struct profile_process *process, const char *name)
{
	for (size_t i = 0; name[0] && i < process->rows_count; i++) {
		const struct profile_function *function =
			profile_function(&report->profile, process->rows[i].function);

		if (!strcmp(function->name, name))
			return function->id;
	}
	return 0;
}

static int read_hotspots(struct json_report *report, const struct profile_process *process,
			 struct profile_memory *memory, const json_t *from)
{
	const json_t *hotspots = json_object_get(from, "hotspots"), *hotspot;
	size_t at;
	int err = 0;

	memory->hotspots = calloc(json_array_size(hotspots) + 1, sizeof(*memory->hotspots));
	if (!memory->hotspots)
		return -ENOMEM;
	json_array_foreach(hotspots, at, hotspot)
	{
		struct profile_hotspot *into = &memory->hotspots[at];

		if (err)
			break;
		into->allocator = json_text_of(hotspot, "allocator");
		into->function = function_named(report, process, json_text_of(hotspot, "function"));
		into->allocs = exact(json_count_of(hotspot, "allocs"));
		into->allocated_bytes = exact(json_count_of(hotspot, "allocated_bytes"));
		into->live_bytes = json_number_of(hotspot, "live_bytes");
		into->live_at_peak_bytes = json_number_of(hotspot, "live_at_peak_bytes");
		err = read_stack(report, memory, into, json_object_get(hotspot, "stack"));
		memory->hotspots_count++;
	}
	return err;
}

static int read_allocators(struct profile_memory *memory, const json_t *from)
{
	const json_t *allocators = json_object_get(from, "allocators"), *allocator;
	size_t at;

	memory->allocators = calloc(json_array_size(allocators) + 1, sizeof(*memory->allocators));
	if (!memory->allocators)
		return -ENOMEM;
	json_array_foreach(allocators, at, allocator)
	{
		memory->allocators[memory->allocators_count++] =
			(struct profile_allocator){.name = json_text_of(allocator, "name"),
						   .module = json_text_of(allocator, "module")};
	}
	return 0;
}

static enum perfx_domain domain_of(const json_t *from)
{
	for (int domain = PERFX_DOMAIN_HOST; domain <= PERFX_DOMAIN_USER; domain++)
		if (!strcmp(profile_domain_name((enum perfx_domain)domain),
			    json_text_of(from, "domain")))
			return (enum perfx_domain)domain;
	return PERFX_DOMAIN_INVALID;
}

static int read_domain(struct json_report *report, const struct profile_process *process,
		       struct profile_memory *memory, const json_t *from)
{
	int err;

	*memory = (struct profile_memory){
		.domain = domain_of(from),
		.allocs = exact(json_count_of(from, "allocs")),
		.allocated_bytes = exact(json_count_of(from, "allocated_bytes")),
		.current_bytes = json_number_of(from, "current_bytes"),
		.peak_bytes = json_number_of(from, "peak_bytes"),
		.peak_ns = PROFILE_ABSENT,
		.sampled = json_is_true(json_object_get(from, "sampled")),
		.recorded_ns = json_count_of(from, "recorded_ns"),
		.bound = json_object_get(from, "bound") ? PROFILE_MEMORY_LOST_ALLOCS : 0,
	};
	err = read_allocators(memory, from);
	return err ? err : read_hotspots(report, process, memory, from);
}

int json_read_memory(struct json_report *report, struct profile_process *process,
		     const json_t *from)
{
	const json_t *domains = json_object_get(from, "memory"), *domain;
	size_t at;
	int err = 0;

	process->memory = calloc(json_array_size(domains) + 1, sizeof(*process->memory));
	if (!process->memory)
		return -ENOMEM;
	json_array_foreach(domains, at, domain)
	{
		if (err || domain_of(domain) == PERFX_DOMAIN_INVALID)
			continue;
		err = read_domain(report, process, &process->memory[process->memory_count++],
				  domain);
	}
	return err;
}

void json_free_memory(struct profile_process *process)
{
	for (size_t i = 0; i < process->memory_count; i++) {
		struct profile_memory *memory = &process->memory[i];

		for (size_t j = 0; j < memory->hotspots_count; j++)
			free((void *)memory->hotspots[j].frames);
		free(memory->hotspots);
		free(memory->allocators);
	}
	free(process->memory);
}
