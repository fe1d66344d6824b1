// SPDX-License-Identifier: BSD-2-Clause
/*
 * pprof: time by calling context, and allocations by call stack. Every sample has all values;
 * `pprof -sample_index` chooses one:
 *
 *     calls, time          of calling contexts
 *     host_allocs, host_alloc_space, host_inuse_space, host_peak_space    and tensor_…, gpu_…
 *                          of hotspots, for each domain that was recorded; never summed over them
 *     step_time            of a training's steps, by what it went into; where there are any
 *     samples, cpu         of threads on the CPU; cpu: the time that the samples stand for
 *     off_cpu              the same of threads that wait
 *
 * Labels name the process; class=spinning is on samples of threads that only wait on a CPU
 * (`pprof -tagfocus=class=spinning`). The fields of a message may come in any order, so strings,
 * functions and locations are written when they are met first. Field numbers: pprof.proto.
 */
#include "analyze/spinning.h"
#include "base/escape.h"
#include "base/grow.h"
#include "export/formats.h"
#include "export/wire.h"

#include <errno.h>
#include <zlib.h>

enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE = 2, PROFILE_MAPPING = 3, PROFILE_LOCATION = 4 };
enum { PROFILE_FUNCTION = 5, PROFILE_STRING = 6, PROFILE_TIME = 9, PROFILE_DURATION = 10 };
enum { PROFILE_COMMENT = 13, PROFILE_DEFAULT_TYPE = 14 };
enum { TYPE_TYPE = 1, TYPE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_STRING = 2, LABEL_NUMBER = 3 };
enum { MAPPING_ID = 1, MAPPING_FILE = 5, MAPPING_BUILD_ID = 6, MAPPING_HAS_FUNCTIONS = 7 };
enum { LOCATION_ID = 1, LOCATION_MAPPING = 2, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3, FUNCTION_FILE = 4 };

/* Values of a sample: calls and time, four for each domain, the steps', those of samples. */
#define DOMAIN_VALUES 4
#define VALUES_MAX    (2 + DOMAIN_VALUES * PERFX_DOMAINS + 1 + 3)

struct pprof {
	const struct export *export;
	struct text out, message, inner;
	uint64_t strings_count, locations_count, mappings_count;
	struct map64 locations;		     /* function id, or address of a profile_frame → id */
	struct map64 mappings;		     /* address of a module's name → id */
	unsigned first_value[PERFX_DOMAINS]; /* of a domain; 0: not recorded */
	/* Places of values + 1; 0: none of these. CPU has two: samples, and their time. */
	unsigned step_value, cpu_value, off_cpu_value;
	unsigned values_count;
	uint64_t key_pid, key_process, key_allocator; /* strings */
	uint64_t key_class, spinning;		      /* strings */
	const struct profile_process *process;	      /* whose samples are written */
	uint64_t process_name;			      /* string */
};

/* Its number. */
static uint64_t add_string(struct pprof *p, const char *string)
{
	struct text shown = {0};

	escape_display(&shown, string);
	wire_string(&p->out, PROFILE_STRING, text_peek(&shown));
	text_finish(&shown, &p->out.failed);
	return p->strings_count++;
}

static void add_type(struct pprof *p, const char *name, const char *unit)
{
	wire_integer(&p->message, TYPE_TYPE, add_string(p, name));
	wire_integer(&p->message, TYPE_UNIT, add_string(p, unit));
	wire_message(&p->out, PROFILE_SAMPLE_TYPE, &p->message);
	p->values_count++;
}

static bool has_domain(const struct profile *profile, enum perfx_domain domain)
{
	for (size_t i = 0; i < profile->processes_count; i++)
		for (size_t j = 0; j < profile->processes[i].memory_count; j++)
			if (profile->processes[i].memory[j].domain == domain)
				return true;
	return false;
}

static void add_types(struct pprof *p)
{
	static const char *const domain_types[DOMAIN_VALUES] = {"allocs", "alloc_space",
								"inuse_space", "peak_space"};
	const struct profile *profile = p->export->profile;
	const enum export_of of = p->export->of;
	const char *default_type = of == EXPORT_OF_CPU	     ? "cpu"
				   : of == EXPORT_OF_OFF_CPU ? "off_cpu"
							     : "time";
	char name[64];

	if (of == EXPORT_OF_ALLOC)
		default_type = has_domain(profile, PERFX_DOMAIN_TENSOR) ? "tensor_alloc_space"
									: "host_alloc_space";
	add_string(p, "");
	if (export_has(p->export, EXPORT_OF_CALLS)) {
		add_type(p, "calls", "count");
		add_type(p, "time", "nanoseconds");
	}
	for (int domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++) {
		if (!export_has(p->export, EXPORT_OF_ALLOC) || !has_domain(profile, domain))
			continue;
		p->first_value[domain] = p->values_count;
		for (int i = 0; i < DOMAIN_VALUES; i++) {
			snprintf(name, sizeof(name), "%s_%s",
				 name_of_domain((enum perfx_domain)domain), domain_types[i]);
			add_type(p, name, i ? "bytes" : "count");
		}
	}
	if (export_has(p->export, EXPORT_OF_CALLS) && export_any_steps(profile)) {
		p->step_value = p->values_count + 1;
		add_type(p, "step_time", "nanoseconds");
	}
	if (of != EXPORT_OF_ALL || export_any_samples(profile)) {
		if (export_has(p->export, EXPORT_OF_CPU)) {
			p->cpu_value = p->values_count + 1;
			add_type(p, "samples", "count");
			add_type(p, "cpu", "nanoseconds");
		}
		if (export_has(p->export, EXPORT_OF_OFF_CPU)) {
			p->off_cpu_value = p->values_count + 1;
			add_type(p, "off_cpu", "nanoseconds");
		}
	}
	wire_integer(&p->out, PROFILE_TIME, profile->start_unix_ns);
	wire_integer(&p->out, PROFILE_DURATION, profile->duration_ns);
	wire_integer(&p->out, PROFILE_DEFAULT_TYPE, add_string(p, default_type));
	wire_integer(&p->out, PROFILE_COMMENT, add_string(p, profile->command));
	p->key_pid = add_string(p, "pid");
	p->key_process = add_string(p, "process");
	p->key_allocator = add_string(p, "allocator");
	if (p->cpu_value) {
		p->key_class = add_string(p, "class");
		p->spinning = add_string(p, "spinning");
	}
}

static uint64_t mapping_of(struct pprof *p, const char *module, const char *build_id)
{
	uint64_t key = (uint64_t)(uintptr_t)module;
	uint32_t id = map64_get(&p->mappings, key);

	if (!module[0])
		return 0;
	if (id != MAP64_NONE)
		return id;
	id = (uint32_t)++p->mappings_count;
	p->out.failed |= map64_put(&p->mappings, key, id) != 0;
	wire_integer(&p->message, MAPPING_ID, id);
	wire_integer(&p->message, MAPPING_FILE, add_string(p, module));
	wire_integer(&p->message, MAPPING_BUILD_ID, add_string(p, build_id));
	wire_integer(&p->message, MAPPING_HAS_FUNCTIONS, true);
	wire_message(&p->out, PROFILE_MAPPING, &p->message);
	return id;
}

/* A location with one line, in a function of the same number. */
static uint64_t add_location(struct pprof *p, uint64_t key, uint64_t mapping, const char *name,
			     const char *file, uint32_t line)
{
	uint64_t id = ++p->locations_count, string = add_string(p, name[0] ? name : "?");

	p->out.failed |= map64_put(&p->locations, key, (uint32_t)id) != 0;
	wire_integer(&p->message, FUNCTION_ID, id);
	wire_integer(&p->message, FUNCTION_NAME, string);
	wire_integer(&p->message, FUNCTION_SYSTEM_NAME, string);
	if (file[0])
		wire_integer(&p->message, FUNCTION_FILE, add_string(p, file));
	wire_message(&p->out, PROFILE_FUNCTION, &p->message);
	wire_integer(&p->inner, LINE_FUNCTION, id);
	if (line)
		wire_integer(&p->inner, LINE_LINE, line);
	wire_integer(&p->message, LOCATION_ID, id);
	if (mapping)
		wire_integer(&p->message, LOCATION_MAPPING, mapping);
	wire_message(&p->message, LOCATION_LINE, &p->inner);
	wire_message(&p->out, PROFILE_LOCATION, &p->message);
	return id;
}

static uint64_t location_of_function(struct pprof *p, uint32_t function_id)
{
	const struct profile_function *function = profile_function(p->export->profile, function_id);
	uint32_t id = map64_get(&p->locations, function_id);
	uint64_t mapping;

	if (id != MAP64_NONE)
		return id;
	if (!function)
		return add_location(p, function_id, 0, "?", "", 0);
	mapping = mapping_of(p, function->module, function->build_id);
	return add_location(p, function_id, mapping, function_label(function), "", 0);
}

/* Addresses of user space are beyond all function ids. */
static uint64_t location_of_frame(struct pprof *p, const struct profile_frame *frame)
{
	uint64_t key = (uint64_t)(uintptr_t)frame, mapping;
	uint32_t id = map64_get(&p->locations, key);
	char name[64];

	if (id != MAP64_NONE)
		return id;
	mapping = mapping_of(p, frame->module, "");
	if (frame->language == PERFX_LANGUAGE_PYTHON)
		snprintf(name, sizeof(name), "(Python code that is gone)");
	else
		snprintf(name, sizeof(name), "0x%llx",
			 (unsigned long long)(frame->module[0] ? frame->offset : frame->address));
	return add_location(p, key, mapping, frame->function[0] ? frame_label(frame) : name,
			    frame->file, frame->line);
}

struct sample {
	uint64_t locations[EXPORT_PATH_MAX]; /* innermost first */
	size_t locations_count;
	uint64_t values[VALUES_MAX];
	bool spins;
};

static void add_label(struct pprof *p, uint64_t key, unsigned field, uint64_t value)
{
	wire_integer(&p->inner, LABEL_KEY, key);
	wire_integer(&p->inner, field, value);
	wire_message(&p->message, SAMPLE_LABEL, &p->inner);
}

static void put_sample(struct pprof *p, const struct sample *sample, const char *allocator)
{
	uint64_t string = allocator ? add_string(p, allocator) : 0;

	for (size_t i = 0; i < sample->locations_count; i++)
		wire_varint(&p->inner, sample->locations[i]);
	wire_message(&p->message, SAMPLE_LOCATION, &p->inner);
	for (unsigned i = 0; i < p->values_count; i++)
		wire_varint(&p->inner, min_u64(sample->values[i], INT64_MAX));
	wire_message(&p->message, SAMPLE_VALUE, &p->inner);
	add_label(p, p->key_pid, LABEL_NUMBER, p->process->pid);
	add_label(p, p->key_process, LABEL_STRING, p->process_name);
	if (allocator)
		add_label(p, p->key_allocator, LABEL_STRING, string);
	if (sample->spins)
		add_label(p, p->key_class, LABEL_STRING, p->spinning);
	wire_message(&p->out, PROFILE_SAMPLE, &p->message);
}

static int put_contexts(struct pprof *p)
{
	const struct profile_process *process = p->process;
	struct export_contexts contexts;
	int err = export_contexts_make(&contexts, process);

	for (size_t i = 0; i < process->contexts_count && !err; i++) {
		const struct profile_context *context = &process->contexts[i];
		struct sample sample = {.values = {context->calls_count, context->self_ns}};
		struct export_frame path[EXPORT_PATH_MAX];

		sample.locations_count = export_path(&contexts, i, path);
		for (size_t j = 0; j < sample.locations_count; j++)
			sample.locations[j] = path[j].python
						      ? location_of_frame(p, path[j].python)
						      : location_of_function(p, path[j].function);
		if (context->calls_count)
			put_sample(p, &sample, NULL);
	}
	map64_clear(&contexts.places);
	return err;
}

static void put_hotspots(struct pprof *p, const struct profile_memory *memory)
{
	for (size_t i = 0; i < memory->hotspots_count; i++) {
		const struct profile_hotspot *h = &memory->hotspots[i];
		struct sample sample = {0};
		uint64_t *values = sample.values + p->first_value[memory->domain];

		for (size_t j = 0; j < h->frames_count && j < EXPORT_PATH_MAX; j++)
			sample.locations[sample.locations_count++] =
				location_of_frame(p, h->frames[j]);
		if (!h->frames_count)
			sample.locations[sample.locations_count++] =
				location_of_function(p, h->function);
		values[0] = h->allocs.value;
		values[1] = h->allocated_bytes.value;
		values[2] = h->live_bytes == PROFILE_ABSENT ? 0 : h->live_bytes;
		values[3] = h->live_at_peak_bytes == PROFILE_ABSENT ? 0 : h->live_at_peak_bytes;
		put_sample(p, &sample, h->allocator);
	}
}

static void put_activities(struct pprof *p)
{
	const struct profile_activities *samples = &p->process->samples;
	const struct spinning spinning = spinning_of(p->process);

	for (size_t i = 0; i < samples->count; i++) {
		const struct profile_activity *activity = &samples->list[i];
		bool on_cpu = export_is_of(activity, EXPORT_OF_CPU);
		struct sample sample = {.spins = sample_spins(&spinning, activity)};

		if (!activity->stack || !(on_cpu ? p->cpu_value : p->off_cpu_value))
			continue;
		for (size_t j = 0; j < activity->stack->frames_count && j < EXPORT_PATH_MAX; j++)
			sample.locations[sample.locations_count++] =
				location_of_frame(p, activity->stack->frames[j]);
		if (on_cpu)
			sample.values[p->cpu_value - 1] = activity->count;
		sample.values[on_cpu ? p->cpu_value : p->off_cpu_value - 1] = activity->ns;
		put_sample(p, &sample, NULL);
	}
}

static void put_steps(struct pprof *p)
{
	const struct profile_steps *steps = &p->process->steps;

	for (int phase = PROFILE_PHASES - 1; phase >= 0 && steps->count; phase--) {
		/* phases have names of ours; their addresses distinguish them */
		const char *name = profile_phase_name((enum profile_phase)phase);
		uint64_t key = (uint64_t)(uintptr_t)name;
		uint32_t id = map64_get(&p->locations, key);
		struct sample sample = {.locations_count = 2};

		if (!steps->phases[phase])
			continue;
		sample.locations[0] = id != MAP64_NONE ? id : add_location(p, key, 0, name, "", 0);
		sample.locations[1] = location_of_function(p, steps->function);
		sample.values[p->step_value - 1] = steps->phases[phase];
		put_sample(p, &sample, NULL);
	}
}

static int put_process(struct pprof *p, const struct profile_process *process)
{
	int err;

	p->process = process;
	p->process_name = add_string(p, process->comm);
	if (export_has(p->export, EXPORT_OF_CALLS)) {
		err = put_contexts(p);
		if (err)
			return err;
	}
	if (export_has(p->export, EXPORT_OF_ALLOC))
		for (size_t i = 0; i < process->memory_count; i++)
			put_hotspots(p, &process->memory[i]);
	if (p->step_value)
		put_steps(p);
	put_activities(p);
	return 0;
}

int export_pprof(const struct export *export)
{
	struct pprof p = {.export = export};
	int err = 0;

	add_types(&p);
	for (size_t i = 0; i < export->profile->processes_count && !err; i++)
		err = put_process(&p, &export->profile->processes[i]);
	if (!err && (p.out.failed || p.message.failed || p.inner.failed))
		err = -ENOMEM;
	err = err ?: export_gzip(export->out, &p.out);
	map64_clear(&p.locations);
	map64_clear(&p.mappings);
	text_clear(&p.out);
	text_clear(&p.message);
	text_clear(&p.inner);
	return err;
}
