// SPDX-License-Identifier: BSD-2-Clause
/* Call stacks for flame graphs: two formats. */
#include "analyze/location.h"
#include "analyze/spinning.h"
#include "base/escape.h"
#include "base/grow.h"
#include "export/formats.h"

#include <errno.h>
#include <string.h>

/*
 * Folded stacks, for flamegraph.pl, inferno and the like: outermost first, then nanoseconds of self
 * time, or of the time that samples stand for, or allocated bytes. A semicolon in a name is \x3b.
 *
 *     trainer (pid 4242);train_step (train.py:57);at::_ops::mm::call 5800500000
 *
 * Samples of a thread that only waits on a CPU end in a frame of their own, [spinning], in both
 * formats: flame graphs show it by that name, and a search for it says how much that is in all.
 */
#define SPINNING_FRAME "[spinning]"

/* "Model.forward (train.py:41)", harmless */
static void add_place(struct text *name, const struct profile_frame *frame)
{
	struct text plain = {0};

	location_frame(&plain, frame, LOCATION_BRIEF);
	escape_display(name, text_peek(&plain));
	text_finish(&plain, &name->failed);
}

static void add_frame(struct text *line, const char *name)
{
	for (const char *p = name; *p; p++)
		text_add_bytes(line, *p == ';' ? "\\x3b" : p, *p == ';' ? 4 : 1);
}

/* Callers first. */
static void add_path(struct text *line, const struct profile *profile,
		     const struct export_contexts *contexts, size_t i)
{
	struct export_frame path[EXPORT_PATH_MAX];
	size_t count = export_path(contexts, i, path);
	struct text name = {0};

	while (count--) {
		name.length = 0;
		if (path[count].python)
			add_place(&name, path[count].python);
		else
			export_function_name(&name, profile, path[count].function);
		text_add(line, ";");
		add_frame(line, text_peek(&name));
	}
	text_finish(&name, &line->failed);
}

static void add_frames(struct text *line, const struct profile_frame *const *frames, size_t count)
{
	struct text name = {0};

	if (!count)
		text_add(line, ";(no stack)");
	while (count--) {
		name.length = 0;
		add_place(&name, frames[count]);
		text_add(line, ";");
		add_frame(line, text_peek(&name));
	}
	text_finish(&name, &line->failed);
}

/* Writes lines, one after another, of a process. */
struct folded {
	const struct export *export;
	struct text line;
	size_t start; /* of a line: behind the process's name */
	int err;
};

/* The stack is in `line`. */
static void put_folded(struct folded *folded, uint64_t value)
{
	struct text *line = &folded->line;

	if (value) {
		text_printf(line, " %llu\n", (unsigned long long)value);
		fwrite(text_peek(line), 1, line->length, folded->export->out);
	}
	folded->err = line->failed ? -ENOMEM : export_error(folded->export->out);
	line->length = folded->start;
}

static int fold_calls(struct folded *folded, const struct profile_process *process)
{
	struct export_contexts contexts;
	int err = export_contexts_make(&contexts, process);

	for (size_t i = 0; i < process->contexts_count && !err; i++) {
		if (!process->contexts[i].self_ns)
			continue;
		add_path(&folded->line, folded->export->profile, &contexts, i);
		put_folded(folded, process->contexts[i].self_ns);
		err = folded->err;
	}
	map64_clear(&contexts.places);
	return err;
}

static int fold_samples(struct folded *folded, const struct profile_process *process)
{
	const struct spinning spinning = spinning_of(process);

	for (size_t i = 0; i < process->samples.count && !folded->err; i++) {
		const struct profile_activity *sample = &process->samples.list[i];

		if (!export_is_of(sample, folded->export->of))
			continue;
		add_frames(&folded->line, sample->stack ? sample->stack->frames : NULL,
			   sample->stack ? sample->stack->frames_count : 0);
		text_add(&folded->line, sample_spins(&spinning, sample) ? ";" SPINNING_FRAME : "");
		put_folded(folded, sample->ns);
	}
	return folded->err;
}

static int fold_blocks(struct folded *folded, const struct profile_process *process)
{
	const struct profile_memory *memory = export_memory(process);

	for (size_t i = 0; memory && i < memory->hotspots_count && !folded->err; i++) {
		const struct profile_hotspot *hotspot = &memory->hotspots[i];

		add_frames(&folded->line, hotspot->frames, hotspot->frames_count);
		put_folded(folded, hotspot->allocated_bytes.value);
	}
	return folded->err;
}

int export_folded(const struct export *export)
{
	int err = 0;

	for (size_t i = 0; i < export->profile->processes_count && !err; i++) {
		const struct profile_process *process = &export->profile->processes[i];
		struct folded folded = {.export = export};
		struct text name = {0};

		export_process_name(&name, process);
		add_frame(&folded.line, text_peek(&name));
		text_finish(&name, &folded.line.failed);
		folded.start = folded.line.length;
		if (export->of == EXPORT_OF_CPU || export->of == EXPORT_OF_OFF_CPU)
			err = fold_samples(&folded, process);
		else
			err = export->of == EXPORT_OF_ALLOC ? fold_blocks(&folded, process)
							    : fold_calls(&folded, process);
		text_clear(&folded.line);
	}
	return err;
}

/*
 * speedscope.app: for each process a profile of time by calling context, one of the steps of a
 * training in their order, each with its time by phase, two of the samples (CPU, waiting),
 * and of each domain of memory one of live bytes at its peak (of allocated bytes where frees were
 * not seen), by call stack. Stacks are indices of frames, outermost first.
 */

/* Beyond all ids and addresses. */
#define KEY_SPINNING (1ULL << 61)
#define KEY_PHASE    (1ULL << 62)
#define KEY_STEP     (1ULL << 63)

/* A profile, as far as it is known: frames are shared by all. */
struct speedscope {
	const struct export *export;
	struct map64 frames; /* function id, address of a profile_frame, or KEY_… → index */
	size_t frames_count, profiles_count;
	struct text frames_json, profiles_json;
};

/* One profile while its stacks are gathered. */
struct stacks {
	struct text samples, weights;
	uint64_t sum;
	size_t count;
};

static uint32_t new_frame(struct speedscope *s, uint64_t key)
{
	if (map64_put(&s->frames, key, (uint32_t)s->frames_count))
		s->frames_json.failed = true;
	text_add(&s->frames_json, s->frames_count ? ",\n{\"name\": " : "\n{\"name\": ");
	return (uint32_t)s->frames_count++;
}

static uint32_t function_frame(struct speedscope *s, uint32_t id)
{
	const struct profile_function *function = profile_function(s->export->profile, id);
	uint32_t index = map64_get(&s->frames, id);

	if (index != MAP64_NONE)
		return index;
	index = new_frame(s, id);
	export_json_string(&s->frames_json, export_label(function));
	if (function && function->module[0]) {
		text_add(&s->frames_json, ", \"file\": ");
		export_json_string(&s->frames_json, function->module);
	}
	text_add(&s->frames_json, "}");
	return index;
}

/* Addresses of user space are beyond all function ids. */
static uint32_t frame_index(struct speedscope *s, const struct profile_frame *frame)
{
	uint64_t key = (uint64_t)(uintptr_t)frame;
	uint32_t index = map64_get(&s->frames, key);
	struct text name = {0};

	if (index != MAP64_NONE)
		return index;
	index = new_frame(s, key);
	location_frame(&name, frame, LOCATION_BRIEF);
	export_json_string(&s->frames_json, text_peek(&name));
	text_clear(&name);
	if (frame->file[0]) {
		text_add(&s->frames_json, ", \"file\": ");
		export_json_string(&s->frames_json, frame->file);
		text_printf(&s->frames_json, ", \"line\": %u", frame->line);
	}
	text_add(&s->frames_json, "}");
	return index;
}

static void open_stack(struct stacks *stacks)
{
	text_add(&stacks->samples, stacks->count ? ",[" : "[");
}

static void close_stack(struct stacks *stacks, uint64_t weight)
{
	text_add(&stacks->samples, "]");
	text_printf(&stacks->weights, "%s%llu", stacks->count ? "," : "",
		    (unsigned long long)weight);
	stacks->count++;
	if (__builtin_add_overflow(stacks->sum, weight, &stacks->sum))
		stacks->sum = UINT64_MAX;
}

static void put_frames(struct speedscope *s, struct stacks *stacks,
		       const struct profile_frame *const *frames, size_t count)
{
	while (count--)
		text_printf(&stacks->samples, "%u%s", frame_index(s, frames[count]),
			    count ? "," : "");
}

static void put_profile(struct speedscope *s, const struct profile_process *process,
			const char *what, const char *unit, struct stacks *stacks)
{
	struct text name = {0};

	if (stacks->count) {
		export_process_name(&name, process);
		text_printf(&name, ": %s", what);
		text_printf(&s->profiles_json, "%s\n{\"type\": \"sampled\", \"name\": ",
			    s->profiles_count++ ? "," : "");
		export_json_string(&s->profiles_json, text_peek(&name));
		text_printf(&s->profiles_json,
			    ", \"unit\": \"%s\", \"startValue\": 0, \"endValue\": %llu,\n"
			    "\"samples\": [%s],\n\"weights\": [%s]}",
			    unit, (unsigned long long)stacks->sum, text_peek(&stacks->samples),
			    text_peek(&stacks->weights));
	}
	s->profiles_json.failed |= name.failed || stacks->samples.failed || stacks->weights.failed;
	text_clear(&name);
	text_clear(&stacks->samples);
	text_clear(&stacks->weights);
}

static int put_time(struct speedscope *s, const struct profile_process *process)
{
	struct export_contexts contexts;
	struct stacks stacks = {0};
	int err = export_contexts_make(&contexts, process);

	for (size_t i = 0; i < process->contexts_count && !err; i++) {
		struct export_frame path[EXPORT_PATH_MAX];

		if (!process->contexts[i].self_ns)
			continue;
		open_stack(&stacks);
		for (size_t j = export_path(&contexts, i, path); j-- > 0;)
			text_printf(&stacks.samples, "%u%s",
				    path[j].python ? frame_index(s, path[j].python)
						   : function_frame(s, path[j].function),
				    j ? "," : "");
		close_stack(&stacks, process->contexts[i].self_ns);
	}
	put_profile(s, process, "time", "nanoseconds", &stacks);
	map64_clear(&contexts.places);
	return err;
}

/* A frame with a name of ours. */
static uint32_t own_frame(struct speedscope *s, uint64_t key, const char *name)
{
	uint32_t index = map64_get(&s->frames, key);

	if (index != MAP64_NONE)
		return index;
	index = new_frame(s, key);
	text_printf(&s->frames_json, "\"%s\"}", name);
	return index;
}

static void put_steps(struct speedscope *s, const struct profile_process *process)
{
	struct stacks stacks = {0};
	uint64_t number = 1;

	for (size_t i = 0; i < process->steps.series_count; i++) {
		const struct profile_step *step = &process->steps.series[i];
		char name[64];
		uint32_t frame;

		if (step->count > 1)
			snprintf(name, sizeof(name), "Steps %llu to %llu",
				 (unsigned long long)number,
				 (unsigned long long)(number + step->count - 1));
		else
			snprintf(name, sizeof(name), "Step %llu", (unsigned long long)number);
		/* the same name, whichever process's it is */
		frame = own_frame(s, KEY_STEP | step->count << 40 | number, name);
		for (size_t j = 0; j < PROFILE_PHASES; j++) {
			enum profile_phase phase = profile_phases_in_order[j];

			if (!step->phases[phase])
				continue;
			open_stack(&stacks);
			text_printf(&stacks.samples, "%u,%u", frame,
				    own_frame(s, KEY_PHASE | phase, profile_phase_name(phase)));
			close_stack(&stacks, step->phases[phase]);
		}
		number += step->count;
	}
	put_profile(s, process, "steps", "nanoseconds", &stacks);
}

static void put_memory(struct speedscope *s, const struct profile_process *process,
		       const struct profile_memory *memory)
{
	bool held = memory->current_bytes != PROFILE_ABSENT;
	struct stacks stacks = {0};
	struct text what = {0};

	for (size_t i = 0; i < memory->hotspots_count; i++) {
		const struct profile_hotspot *h = &memory->hotspots[i];
		uint64_t bytes = held ? h->live_at_peak_bytes : h->allocated_bytes.value;

		if (!bytes)
			continue;
		open_stack(&stacks);
		put_frames(s, &stacks, h->frames, h->frames_count);
		close_stack(&stacks, bytes);
	}
	text_printf(&what, "%s, %s", memory_words(memory), held ? "at its peak" : "allocated");
	put_profile(s, process, text_peek(&what), "bytes", &stacks);
	text_clear(&what);
}

static void put_samples(struct speedscope *s, const struct profile_process *process,
			enum export_of of)
{
	const struct spinning spinning = spinning_of(process);
	struct stacks stacks = {0};

	for (size_t i = 0; i < process->samples.count; i++) {
		const struct profile_activity *sample = &process->samples.list[i];

		if (!sample->stack || !export_is_of(sample, of))
			continue;
		open_stack(&stacks);
		put_frames(s, &stacks, sample->stack->frames, sample->stack->frames_count);
		if (sample_spins(&spinning, sample))
			text_printf(&stacks.samples, ",%u",
				    own_frame(s, KEY_SPINNING, SPINNING_FRAME));
		close_stack(&stacks, sample->ns);
	}
	put_profile(s, process, of == EXPORT_OF_CPU ? "CPU (sampled)" : "waiting (sampled)",
		    "nanoseconds", &stacks);
}

int export_speedscope(const struct export *export)
{
	const struct profile *profile = export->profile;
	struct speedscope s = {.export = export};
	FILE *out = export->out;
	int err = 0;

	FOR_EACH (process, profile->processes) {
		if (export_has(export, EXPORT_OF_CALLS)) {
			err = put_time(&s, process);
			if (err)
				break;
			put_steps(&s, process);
		}
		if (export_has(export, EXPORT_OF_CPU))
			put_samples(&s, process, EXPORT_OF_CPU);
		if (export_has(export, EXPORT_OF_OFF_CPU))
			put_samples(&s, process, EXPORT_OF_OFF_CPU);
		if (export_has(export, EXPORT_OF_ALLOC))
			FOR_EACH (memory, process->memory)
				put_memory(&s, process, memory);
	}
	if (!err && (s.frames_json.failed || s.profiles_json.failed))
		err = -ENOMEM;
	if (!err) {
		fprintf(out,
			"{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\",\n"
			"\"exporter\": \"perfx-trace\",\n\"shared\": {\"frames\": [");
		fwrite(text_peek(&s.frames_json), 1, s.frames_json.length, out);
		fputs("\n]},\n\"profiles\": [", out);
		fwrite(text_peek(&s.profiles_json), 1, s.profiles_json.length, out);
		fputs("\n]}\n", out);
		err = export_error(out);
	}
	map64_clear(&s.frames);
	text_clear(&s.frames_json);
	text_clear(&s.profiles_json);
	return err;
}
