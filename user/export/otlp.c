// SPDX-License-Identifier: BSD-2-Clause
/*
 * OpenTelemetry's profiles (otlp.proto): an ExportProfilesServiceRequest, as a collector gets it at
 * /v1development/profiles. A process is a resource; each of its kinds of values is a profile.
 * Tables of the dictionary begin with an empty entry, which index 0 names.
 */
#include "base/escape.h"
#include "base/hash.h"
#include "base/order.h"
#include "decode/names.h"
#include "export/formats.h"
#include "export/wire.h"

#include <errno.h>
#include <stdlib.h>

enum { REQUEST_RESOURCES = 1, REQUEST_DICTIONARY };
enum { RESOURCE_RESOURCE = 1, RESOURCE_SCOPES };
enum { SCOPE_SCOPE = 1, SCOPE_PROFILES };
enum { PROFILE_TYPE = 1, PROFILE_SAMPLES, PROFILE_TIME, PROFILE_DURATION, PROFILE_ID = 7 };
enum { SAMPLE_STACK = 1, SAMPLE_VALUES = 4 };
enum { LOCATION_MAPPING = 1, LOCATION_LINES = 3 };
enum {
	DICTIONARY_MAPPINGS = 1,
	DICTIONARY_LOCATIONS,
	DICTIONARY_FUNCTIONS,
	DICTIONARY_LINKS,
	DICTIONARY_STRINGS,
	DICTIONARY_ATTRIBUTES,
	DICTIONARY_STACKS
};

struct otlp {
	const struct export *export;
	struct text out, dictionary; /* the request; its dictionary */
	struct text resource, scope, profile;
	struct text message, inner;
	struct map64 locations; /* function's id, or address of a frame */
	struct map64 mappings;	/* address of a module's name */
	uint32_t strings_count, locations_count, mappings_count, stacks_count;
	size_t samples_count; /* of the profile */
};

static uint32_t add_string(struct otlp *o, const char *string)
{
	struct text shown = {0};

	escape_display(&shown, string);
	wire_string(&o->dictionary, DICTIONARY_STRINGS, text_peek(&shown));
	text_finish(&shown, &o->dictionary.failed);
	return o->strings_count++;
}

static uint32_t mapping_of(struct otlp *o, const char *module)
{
	uint32_t index = map64_get(&o->mappings, (uintptr_t)module);

	if (!module[0])
		return 0;
	if (index != MAP64_NONE)
		return index;
	index = ++o->mappings_count;
	o->out.failed |= map64_put(&o->mappings, (uintptr_t)module, index) != 0;
	wire_integer(&o->message, 4, add_string(o, module)); /* filename */
	wire_message(&o->dictionary, DICTIONARY_MAPPINGS, &o->message);
	return index;
}

/* With a function of the same index. */
static uint32_t add_location(struct otlp *o, uint64_t key, const char *name, const char *module,
			     const char *file, uint32_t line)
{
	uint32_t mapping = mapping_of(o, module), string = add_string(o, name[0] ? name : "?");
	uint32_t index = ++o->locations_count;

	o->out.failed |= map64_put(&o->locations, key, index) != 0;
	wire_integer(&o->message, 1, string); /* name, system_name, filename */
	wire_integer(&o->message, 2, string);
	if (file[0])
		wire_integer(&o->message, 3, add_string(o, file));
	wire_message(&o->dictionary, DICTIONARY_FUNCTIONS, &o->message);
	wire_integer(&o->inner, 1, index); /* function_index, line */
	if (line)
		wire_integer(&o->inner, 2, line);
	if (mapping)
		wire_integer(&o->message, LOCATION_MAPPING, mapping);
	wire_message(&o->message, LOCATION_LINES, &o->inner);
	wire_message(&o->dictionary, DICTIONARY_LOCATIONS, &o->message);
	return index;
}

static uint32_t location_of_function(struct otlp *o, uint32_t id)
{
	const struct profile_function *function = profile_function(o->export->profile, id);
	uint32_t index = map64_get(&o->locations, id);

	if (index != MAP64_NONE)
		return index;
	return add_location(o, id, export_label(function), function ? function->module : "", "", 0);
}

static uint32_t location_of_frame(struct otlp *o, const struct profile_frame *frame)
{
	uint32_t index = map64_get(&o->locations, (uintptr_t)frame);
	char name[64];

	if (index != MAP64_NONE)
		return index;
	snprintf(name, sizeof(name), "0x%llx",
		 (unsigned long long)(frame->module[0] ? frame->offset : frame->address));
	return add_location(o, (uintptr_t)frame, frame->function[0] ? frame_label(frame) : name,
			    frame->module, frame->file, frame->line);
}

/* locations: innermost first */
static void add_sample(struct otlp *o, const uint32_t *locations, size_t count, uint64_t value)
{
	if (!value)
		return;
	for (size_t i = 0; i < count; i++)
		wire_varint(&o->inner, locations[i]);
	wire_message(&o->message, 1, &o->inner);
	wire_message(&o->dictionary, DICTIONARY_STACKS, &o->message);
	wire_varint(&o->inner, min_u64(value, INT64_MAX));
	wire_integer(&o->message, SAMPLE_STACK, ++o->stacks_count);
	wire_message(&o->message, SAMPLE_VALUES, &o->inner);
	wire_message(&o->profile, PROFILE_SAMPLES, &o->message);
	o->samples_count++;
}

static void add_frames(struct otlp *o, const struct profile_frame *const *frames, size_t count,
		       uint64_t value)
{
	uint32_t locations[EXPORT_PATH_MAX];

	count = min_u64(count, EXPORT_PATH_MAX);
	for (size_t i = 0; i < count && value; i++)
		locations[i] = location_of_frame(o, frames[i]);
	add_sample(o, locations, count, value);
}

/* The profile's samples have been added. Its id is the same each time that it is sent, so that a
 * receiver can tell a repetition. */
static void end_profile(struct otlp *o, const struct profile_process *process, const char *type,
			const char *unit)
{
	const struct profile *p = o->export->profile;
	struct text key = {0};
	uint64_t id[2];

	text_printf(&key, "%s %llu %u %s", p->boot_id, (unsigned long long)p->start_ns,
		    process->index, type);
	id[0] = fnv1a(text_peek(&key), key.length);
	text_add(&key, "!");
	id[1] = fnv1a(text_peek(&key), key.length);
	text_finish(&key, &o->out.failed);
	if (o->samples_count) {
		wire_integer(&o->message, 1, add_string(o, type));
		wire_integer(&o->message, 2, add_string(o, unit));
		wire_message(&o->profile, PROFILE_TYPE, &o->message);
		wire_fixed64(&o->profile, PROFILE_TIME, p->start_unix_ns);
		wire_integer(&o->profile, PROFILE_DURATION, p->duration_ns);
		wire_bytes(&o->profile, PROFILE_ID, (const char *)id, sizeof(id));
		wire_message(&o->scope, SCOPE_PROFILES, &o->profile);
	}
	o->profile.length = 0;
	o->samples_count = 0;
}

static int put_contexts(struct otlp *o, const struct profile_process *process)
{
	struct export_contexts contexts;
	int err = export_contexts_make(&contexts, process);

	for (size_t i = 0; i < process->contexts_count && !err; i++) {
		struct export_frame path[EXPORT_PATH_MAX];
		size_t count = export_path(&contexts, i, path);
		uint32_t locations[EXPORT_PATH_MAX];

		for (size_t j = 0; j < count; j++)
			locations[j] = path[j].python ? location_of_frame(o, path[j].python)
						      : location_of_function(o, path[j].function);
		add_sample(o, locations, count, process->contexts[i].self_ns);
	}
	map64_clear(&contexts.places);
	end_profile(o, process, "time", "nanoseconds");
	return err;
}

static void put_samples(struct otlp *o, const struct profile_process *process, enum export_of of)
{
	for (size_t i = 0; i < process->samples.count; i++) {
		const struct profile_activity *sample = &process->samples.list[i];

		if (sample->stack && export_is_of(sample, of))
			add_frames(o, sample->stack->frames, sample->stack->frames_count,
				   sample->ns);
	}
	end_profile(o, process, of == EXPORT_OF_CPU ? "cpu" : "off_cpu", "nanoseconds");
}

static void put_memory(struct otlp *o, const struct profile_process *process,
		       const struct profile_memory *memory)
{
	char type[64];

	snprintf(type, sizeof(type), "%s_alloc_space", name_of_domain(memory->domain));
	FOR_EACH (h, memory->hotspots)
		add_frames(o, h->frames, h->frames_count, h->allocated_bytes.value);
	end_profile(o, process, type, "bytes");
	snprintf(type, sizeof(type), "%s_inuse_space", name_of_domain(memory->domain));
	FOR_EACH (h, memory->hotspots)
		if (h->live_bytes != PROFILE_ABSENT)
			add_frames(o, h->frames, h->frames_count, h->live_bytes);
	end_profile(o, process, type, "bytes");
}

/* OpenTelemetry's names of what is known of a process. */
static void add_label(void *ctx, const char *name, const char *value)
{
	struct otlp *o = ctx;
	struct text shown = {0};

	escape_display(&shown, value);
	wire_string(&o->inner, 1, text_peek(&shown)); /* AnyValue.string_value */
	text_finish(&shown, &o->out.failed);
	wire_string(&o->message, 1, name);
	wire_message(&o->message, 2, &o->inner);
	wire_message(&o->profile, 1, &o->message); /* Resource.attributes */
}

static int put_process(struct otlp *o, const struct profile_process *process)
{
	int err;

	wire_string(&o->message, 1, "perfx-trace");
	wire_string(&o->message, 2, o->export->profile->tool_version);
	wire_message(&o->scope, SCOPE_SCOPE, &o->message);
	err = put_contexts(o, process);
	put_samples(o, process, EXPORT_OF_CPU);
	put_samples(o, process, EXPORT_OF_OFF_CPU);
	FOR_EACH (memory, process->memory)
		put_memory(o, process, memory);
	export_labels(o->export->profile, process, EXPORT_LABELS_OPENTELEMETRY, add_label, o);
	wire_message(&o->resource, RESOURCE_RESOURCE, &o->profile);
	wire_message(&o->resource, RESOURCE_SCOPES, &o->scope);
	wire_message(&o->out, REQUEST_RESOURCES, &o->resource);
	return err;
}

int export_otlp(const struct export *export)
{
	struct otlp o = {.export = export};
	int err = 0;

	add_string(&o, "");
	for (unsigned table = DICTIONARY_MAPPINGS; table <= DICTIONARY_STACKS; table++)
		if (table != DICTIONARY_STRINGS)
			wire_bytes(&o.dictionary, table, "", 0);
	FOR_EACH (process, export->profile->processes)
		err = err ?: put_process(&o, process);
	wire_message(&o.out, REQUEST_DICTIONARY, &o.dictionary);
	if (!err && o.out.failed)
		err = -ENOMEM;
	err = err ?: text_write(&o.out, export->out);
	text_clear(&o.out);
	text_clear(&o.dictionary);
	text_clear(&o.resource);
	text_clear(&o.scope);
	text_clear(&o.profile);
	text_clear(&o.message);
	text_clear(&o.inner);
	map64_clear(&o.locations);
	map64_clear(&o.mappings);
	return err;
}
