// SPDX-License-Identifier: BSD-2-Clause
/*
 * The JSON of chrome://tracing as PyTorch's profiler (Kineto) writes it, for Perfetto's UI, Chrome
 * and HolisticTraceAnalysis. A call is a complete event; times are microseconds since the start of
 * the capture, which baseTimeNanoseconds gives:
 *
 *     {"ph": "X", "cat": "cpu_op", "name": "at::_ops::mm::call", "pid": 4242, "tid": 4242,
 *      "ts": 1000.250, "dur": 502.000},
 *
 * A step is an event "ProfilerStep#17". Events of one tid nest; what would not is on tids of its
 * own, beyond those of the kernel.
 */
#include "analyze/location.h"
#include "decode/decode.h"
#include "export/formats.h"
#include "export/timeline.h"

#include <errno.h>
#include <stdlib.h>

/* In the upper half of a tid. */
enum { TID_STEPS = NESTING_LANES, TID_ASYNC };

struct chrome {
	const struct export *export;
	struct nesting *nesting;
	struct export_steps *steps;
	char **names; /* by function: the JSON of name and category, once it was needed */
	bool begun;   /* an event was written */
	struct value_tracks values;
	struct gpu_tracks gpu;
};

static void begin_event(struct chrome *c)
{
	fputs(c->begun ? ",\n" : "\n", c->export->out);
	c->begun = true;
}

/* "cat": …, "name": … ; NULL: memory is out. The categories are HolisticTraceAnalysis's: operators,
 * and ranges that the user marked. */
static const char *name_of(struct chrome *c, uint32_t id)
{
	const struct profile_function *function = profile_function(c->export->profile, id);
	const unsigned markers = 1u << PERFX_SOURCE_PERFX | 1u << PERFX_SOURCE_NVTX |
				 1u << PERFX_SOURCE_ROCTX | 1u << PERFX_SOURCE_ITT;
	const char *category = "cpu_op";
	uint32_t at = function ? id : 0;
	struct text text = {0};

	if (c->names[at])
		return c->names[at];
	if (function &&
	    ((function->flags & PERFX_FUNCTION_RANGE) || markers >> function->source & 1))
		category = "user_annotation";
	else if (function && function->source == PERFX_SOURCE_CUDA)
		category = "cuda_runtime";
	text_printf(&text, "\"cat\": \"%s\", \"name\": ", category);
	export_json_string(&text, export_label(function));
	return c->names[at] = text_take(&text);
}

static uint32_t pid_of(const struct chrome *c, uint32_t process)
{
	const struct profile_process *p = export_process(c->export->profile, process);

	return p ? export_pid(p, p->pid) : 0;
}

static void put_us(FILE *out, const char *key, uint64_t ns)
{
	fprintf(out, ", \"%s\": %llu.%03u", key, (unsigned long long)(ns / 1000),
		(unsigned)(ns % 1000));
}

static int put_meta(struct chrome *c, const char *what, uint32_t pid, uint64_t tid,
		    const char *name)
{
	struct text json = {0};
	int err;

	if (!name[0])
		return 0;
	export_json_string(&json, name);
	begin_event(c);
	fprintf(c->export->out,
		"{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %u, \"tid\": %llu, \"args\": "
		"{\"name\": %s}}",
		what, pid, (unsigned long long)tid, text_peek(&json));
	err = json.failed ? -ENOMEM : export_error(c->export->out);
	text_clear(&json);
	return err;
}

/* name: "cat": …, "name": … ; the caller adds arguments and the closing brace. */
static void begin_complete(struct chrome *c, const char *name, uint64_t pid, uint64_t tid,
			   uint64_t start_ns, uint64_t duration_ns)
{
	begin_event(c);
	fprintf(c->export->out, "{\"ph\": \"X\", %s, \"pid\": %llu, \"tid\": %llu", name,
		(unsigned long long)pid, (unsigned long long)tid);
	put_us(c->export->out, "ts", profile_since_start(c->export->profile, start_ns));
	put_us(c->export->out, "dur", duration_ns);
}

static int put_complete(struct chrome *c, const char *name, uint64_t pid, uint64_t tid,
			uint64_t start_ns, uint64_t duration_ns)
{
	begin_complete(c, name, pid, tid, start_ns, duration_ns);
	fputc('}', c->export->out);
	return export_error(c->export->out);
}

static uint64_t tid_of(const struct nesting_thread *thread, unsigned lane)
{
	if (thread->async)
		return (TID_ASYNC + thread->async - 1ULL) << 32;
	return thread->tid + ((uint64_t)lane << 32);
}

/* thread->data[0]: pid + 1, once it was looked up. */
static int on_begin(void *ctx, struct nesting_thread *thread, unsigned lane,
		    const struct perfx_span *span)
{
	struct chrome *c = ctx;
	const char *name = name_of(c, span->function);
	int err = 0;

	if (!name)
		return -ENOMEM;
	if (!thread->data[0]) {
		thread->data[0] = pid_of(c, thread->process) + 1ULL;
		if (thread->async)
			err = put_meta(c, "thread_name", (uint32_t)(thread->data[0] - 1),
				       tid_of(thread, 0), "overlapping ranges");
	}
	return err
		       ?: put_complete(c, name, thread->data[0] - 1, tid_of(thread, lane),
				       span->start_ns, span->duration_ns);
}

static int put_step(struct chrome *c, const struct export_step *step)
{
	const struct profile_process *process = &c->export->profile->processes[step->place];
	uint64_t tid = process->steps.tid + ((uint64_t)TID_STEPS << 32);
	uint32_t pid = export_pid(process, process->pid);
	int err = 0;
	char name[96];

	if (step->number == 1)
		err = put_meta(c, "thread_name", pid, tid, "steps");
	snprintf(name, sizeof(name),
		 "\"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%llu\"",
		 (unsigned long long)step->number);
	return err ? err
		   : put_complete(c, name, pid, tid, step->from_ns, step->to_ns - step->from_ns);
}

static int on_span(void *ctx, const struct event *event)
{
	const struct perfx_span *span = &event->span;
	struct chrome *c = ctx;
	struct export_step step;
	int err = 0;

	if (event->kind != PERFX_KIND_SPAN)
		return 0;
	if (export_steps__ends(c->steps, span, &step))
		err = put_step(c, &step);
	if (err)
		return err;
	if (span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED)) {
		const char *name = name_of(c, span->function);

		if (!name)
			return -ENOMEM;
		begin_event(c);
		fprintf(c->export->out,
			"{\"ph\": \"i\", \"s\": \"t\", %s, \"pid\": %u, \"tid\": %u", name,
			pid_of(c, span->process), span->tid);
		put_us(c->export->out, "ts",
		       profile_since_start(c->export->profile, span->start_ns));
		fputc('}', c->export->out);
		return export_error(c->export->out);
	}
	return nesting__add(c->nesting, span);
}

static int on_value(void *ctx, const struct event *event)
{
	const struct perfx_user_value *record = &event->user_value;
	struct chrome *c = ctx;
	struct value_track *track = event->kind == PERFX_KIND_USER_VALUE
					    ? value_tracks_follow(&c->values, record)
					    : NULL;
	struct text name = {0};

	if (!track)
		return 0;
	export_json_string(&name, track->value->name[0] ? track->value->name : "?");
	begin_event(c);
	fprintf(c->export->out, "{\"ph\": \"C\", \"name\": %s, \"pid\": %u, \"tid\": 0",
		text_peek(&name), pid_of(c, record->process));
	put_us(c->export->out, "ts", profile_since_start(c->export->profile, record->time_ns));
	fprintf(c->export->out, ", \"args\": {\"value\": %.17g}}", track->now);
	text_clear(&name);
	return name.failed ? -ENOMEM : export_error(c->export->out);
}

/*
 * As in PyTorch's profiler: work of a device has the device's number as pid and the stream's as
 * tid; the call on its thread; an arrow from one to the other; "correlation" is in both.
 *
 *     {"ph": "X", "cat": "kernel", "name": "…", "pid": 0, "tid": 7, "ts": …, "dur": …,
 *      "args": {"External id": 12, "device": 0, "stream": 7, "correlation": 12, "grid": [1, 1, 1]}}
 */

/* Unique in the file; the first process's are as they came. */
static uint64_t correlation_of(const struct chrome *c, uint32_t process, uint64_t call)
{
	return call + ((uint64_t)map64_get(&c->gpu.ordinals, process) << 40);
}

static void put_arrow(struct chrome *c, char phase, uint64_t id, uint64_t pid, uint64_t tid,
		      uint64_t time_ns)
{
	begin_event(c);
	fprintf(c->export->out,
		"{\"ph\": \"%c\", \"cat\": \"ac2g\", \"name\": \"ac2g\", \"id\": %llu, "
		"\"pid\": %llu, \"tid\": %llu%s",
		phase, (unsigned long long)id, (unsigned long long)pid, (unsigned long long)tid,
		phase == 'f' ? ", \"bp\": \"e\"" : "");
	put_us(c->export->out, "ts", profile_since_start(c->export->profile, time_ns));
	fputc('}', c->export->out);
}

static int put_gpu_call(struct chrome *c, const struct perfx_gpu_call *call)
{
	const char *name = gpu_name_of(c->export->profile, call->name);
	bool driver = begins_with(name, "cu") && !begins_with(name, "cuda");
	uint64_t correlation;
	struct text json = {0};

	if (gpu_tracks_ordinal(&c->gpu, call->process) == MAP64_NONE)
		return -ENOMEM;
	correlation = correlation_of(c, call->process, call->call);
	text_printf(&json, "\"cat\": \"cuda_%s\", \"name\": ", driver ? "driver" : "runtime");
	export_json_string(&json, name);
	begin_complete(c, text_peek(&json), pid_of(c, call->process), call->tid, call->time_ns,
		       call->end_ns - call->time_ns);
	fprintf(c->export->out, ", \"args\": {\"External id\": %llu, \"correlation\": %llu}}",
		(unsigned long long)correlation, (unsigned long long)correlation);
	if (call->op != PERFX_GPU_OP_SYNC)
		put_arrow(c, 's', correlation, pid_of(c, call->process), call->tid, call->time_ns);
	text_clear(&json);
	return json.failed ? -ENOMEM : export_error(c->export->out);
}

/* The shape of a kernel, bytes of a copy or memset. Kineto's name of the rate has its unit in it.
 */
static void put_shape(FILE *out, const struct perfx_gpu_activity *activity)
{
	uint64_t ns = activity->end_ns - activity->time_ns;
	const uint32_t *grid = activity->grid, *block = activity->block;

	if (activity->op == PERFX_GPU_OP_KERNEL)
		fprintf(out,
			", \"registers per thread\": %u, \"shared memory\": %u, "
			"\"grid\": [%u, %u, %u], \"block\": [%u, %u, %u]",
			activity->registers,
			activity->static_shared_bytes + activity->dynamic_shared_bytes, grid[0],
			grid[1], grid[2], block[0], block[1], block[2]);
	if (activity->op != PERFX_GPU_OP_COPY && activity->op != PERFX_GPU_OP_MEMSET)
		return;
	fprintf(out, ", \"bytes\": %llu", (unsigned long long)activity->bytes);
	if (ns)
		fprintf(out, ", \"memory bandwidth (GB/s)\": %.6g",
			(double)activity->bytes / (double)ns);
}

static int put_stream(struct chrome *c, struct gpu_track *track, uint64_t tid)
{
	char name[64];
	int err;

	track->data = 1;
	snprintf(name, sizeof(name), "GPU %u", track->device);
	err = put_meta(c, "process_name", track->device, 0, name);
	snprintf(name, sizeof(name), "stream %u", track->stream);
	return err ?: put_meta(c, "thread_name", track->device, tid, name);
}

static int put_activity(struct chrome *c, const struct perfx_gpu_activity *activity)
{
	const char *category = gpu_activity_category(activity);
	struct gpu_track *track = category ? gpu_tracks_get(&c->gpu, activity) : NULL;
	uint64_t tid, correlation;
	struct text name = {0}, json = {0};
	int err = 0;

	if (!category)
		return 0;
	if (!track)
		return -ENOMEM;
	tid = activity->stream + ((uint64_t)track->ordinal << 32);
	if (!track->data)
		err = put_stream(c, track, tid);
	correlation = correlation_of(c, activity->process, activity->call);
	gpu_activity_name(&name, c->export->profile, activity);
	text_printf(&json, "\"cat\": \"%s\", \"name\": ", category);
	export_json_string(&json, text_peek(&name));
	begin_complete(c, text_peek(&json), activity->device, tid, activity->time_ns,
		       activity->end_ns - activity->time_ns);
	fprintf(c->export->out,
		", \"args\": {\"External id\": %llu, \"device\": %u, \"context\": 1, "
		"\"stream\": %u, \"correlation\": %llu",
		(unsigned long long)correlation, activity->device, activity->stream,
		(unsigned long long)correlation);
	put_shape(c->export->out, activity);
	fputs("}}", c->export->out);
	if (activity->call)
		put_arrow(c, 'f', correlation, activity->device, tid, activity->time_ns);
	text_clear(&name);
	text_clear(&json);
	return err ?: export_error(c->export->out);
}

static int on_gpu(void *ctx, const struct event *event)
{
	if (event->kind == PERFX_KIND_GPU_CALL)
		return put_gpu_call(ctx, &event->gpu_call);
	return event->kind == PERFX_KIND_GPU_ACTIVITY ? put_activity(ctx, &event->gpu_activity) : 0;
}

static int put_devices(struct chrome *c)
{
	const struct profile *profile = c->export->profile;
	struct text name = {0};

	fputs("\"deviceProperties\": [", c->export->out);
	for (size_t i = 0; i < profile->gpu_devices_count; i++) {
		const struct profile_gpu_device *device = &profile->gpu_devices[i];

		text_clear(&name);
		export_json_string(&name, device->name);
		fprintf(c->export->out,
			"%s{\"id\": %u, \"name\": %s, \"totalGlobalMem\": %llu, "
			"\"computeMajor\": %u, \"computeMinor\": %u, \"numSms\": %u}",
			i ? ", " : "", device->index, text_peek(&name),
			(unsigned long long)device->facts.memory_bytes, device->facts.compute_major,
			device->facts.compute_minor, device->facts.multiprocessors);
	}
	fputs("],\n", c->export->out);
	text_clear(&name);
	return name.failed ? -ENOMEM : 0;
}

static void put_counter(struct chrome *c, const struct profile_process *process, const char *name,
			uint64_t time_ns, uint64_t bytes)
{
	if (bytes == PROFILE_ABSENT)
		return;
	begin_event(c);
	fprintf(c->export->out, "{\"ph\": \"C\", \"name\": \"%s\", \"pid\": %u, \"tid\": 0", name,
		export_pid(process, process->pid));
	put_us(c->export->out, "ts", profile_since_start(c->export->profile, time_ns));
	fprintf(c->export->out, ", \"args\": {\"bytes\": %llu}}", (unsigned long long)bytes);
}

static int put_process(struct chrome *c, const struct profile_process *process)
{
	uint32_t pid = export_pid(process, process->pid);
	struct text name = {0};
	int err;

	export_rank_name(&name, c->export->profile, process);
	err = name.failed ? -ENOMEM
			  : put_meta(c, "process_name", pid, process->pid, text_peek(&name));
	text_clear(&name);
	if (!err && process->rank.world_size) {
		begin_event(c);
		fprintf(c->export->out,
			"{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %u, "
			"\"tid\": %u, \"args\": {\"sort_index\": %u}}",
			pid, process->pid, process->rank.rank);
	}
	for (size_t i = 0; i < process->threads_count && !err; i++)
		err = put_meta(c, "thread_name", pid, process->threads[i].tid,
			       process->threads[i].comm);
	for (size_t i = 0; i < process->points_count; i++)
		put_counter(c, process, "resident memory", process->points[i].time_ns,
			    process->points[i].rss_bytes);
	for (size_t i = 0; i < process->memory_count; i++) {
		const struct profile_memory *memory = &process->memory[i];

		for (size_t j = 0; j < memory->points_count; j++)
			put_counter(c, process, memory_words(memory), memory->points[j].time_ns,
				    memory->points[j].live_bytes);
	}
	return err ?: export_error(c->export->out);
}

/* A process of the one rank of the profile; NULL: it has several ranks, or none. */
static const struct profile_process *only_rank(const struct profile *profile)
{
	const struct profile_process *found = NULL;

	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		if (!process->rank.world_size)
			continue;
		if (found && found->rank.rank != process->rank.rank)
			return NULL;
		found = process;
	}
	return found;
}

/* Readers look for the spaces after the colons. */
static int put_beginning(struct chrome *c)
{
	const struct profile *profile = c->export->profile;
	const struct profile_process *ranked = only_rank(profile);
	struct text host = {0};
	int err;

	export_json_string(&host, ranked ? profile_host_name(profile, ranked) : profile->host_name);
	fputs("{\n\"schemaVersion\": 1,\n", c->export->out);
	if (put_devices(c))
		host.failed = true;
	fprintf(c->export->out,
		"\"distributedInfo\": {\"backend\": \"\", \"rank\": %u, \"world_size\": %u},\n"
		"\"hostname\": %s,\n\"baseTimeNanoseconds\": %llu,\n\"displayTimeUnit\": \"ms\",\n"
		"\"traceName\": \"perfx-trace\",\n\"traceEvents\": [",
		ranked ? ranked->rank.rank : 0, ranked ? ranked->rank.world_size : 1,
		text_peek(&host), (unsigned long long)profile->start_unix_ns);
	err = host.failed ? -ENOMEM : export_error(c->export->out);
	text_clear(&host);
	return err;
}

static int put_all(struct chrome *c)
{
	const struct export *export = c->export;
	int err = put_beginning(c);

	for (size_t i = 0; i < export->profile->processes_count && !err; i++)
		err = put_process(c, &export->profile->processes[i]);
	err = err ?: export->read(export->capture, on_span, c) ?: nesting__flush(c->nesting);
	if (!err && export->has_gpu)
		err = export->read(export->capture, on_gpu, c);
	if (!err && export->has_values)
		err = value_tracks_make(&c->values, export->profile)
			      ?: export->read(export->capture, on_value, c);
	fputs("\n]}\n", export->out);
	return err ?: export_error(export->out);
}

int export_chrome(const struct export *export)
{
	struct chrome c = {.export = export, .gpu = {.profile = export->profile}};
	int err = -ENOMEM;

	c.nesting = nesting__new(&(struct nesting_output){on_begin, NULL, &c});
	c.steps = export_steps__new(export->profile);
	c.names = calloc(export->profile->functions_count + 1, sizeof(*c.names));
	if (c.nesting && c.steps && c.names)
		err = put_all(&c);
	nesting__free(c.nesting);
	value_tracks_clear(&c.values);
	gpu_tracks_clear(&c.gpu);
	export_steps__free(c.steps);
	for (size_t i = 0; c.names && i <= export->profile->functions_count; i++)
		free(c.names[i]);
	free(c.names);
	return err;
}
