// SPDX-License-Identifier: BSD-2-Clause
#include "report/report.h"

#include "analyze/roofline.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "cost/operator_label.h"
#include "decode/names.h"
#include "report/json/output.h"
#include "report/table/columns.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct json_report {
	json_t *root; /* most texts of the profile are its */
	struct pool texts;
	void **arrays; /* all that the profile has */
	size_t arrays_count, arrays_capacity;
	bool failed; /* memory was out */
	struct profile profile;
	struct profile_function *functions;
	/* By function: the Python line with most of its time. */
	struct profile_frame *lines;
	struct profile_python_caller *callers;
	struct perfx_peak *peaks;
};

/* An array, all zero, that lives as long as the report. NULL: out of memory. */
static void *make_array(struct json_report *report, size_t count, size_t item_size)
{
	void *array = calloc(count + 1, item_size);

	if (array && !LIST_ADD(report->arrays, array))
		return array;
	free(array);
	report->failed = true;
	return NULL;
}

/* Room for an item for each element of a member of `from`. Returns how many: 0 without memory. */
static size_t make_room(struct json_report *report, const json_t *from, const char *key,
			size_t item_size, void *items)
{
	size_t count = json_array_size(json_object_get(from, key));
	void *array = make_array(report, count, item_size);

	memcpy(items, &array, sizeof(array));
	return array ? count : 0;
}

#define MAKE_ROOM(report, from, key, items) \
	make_room((report), (from), (key), sizeof(*(items)), &(items))

static const json_t *element_of(const json_t *from, const char *key, size_t index)
{
	return json_array_get(json_object_get(from, key), index);
}

/* Members, whatever they are: "" and PROFILE_ABSENT where they are not of that type; negative
 * numbers are absent, too. */
static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return json_to_u64(json_object_get(object, key));
}

/* 0 where it is absent. */
static uint64_t count_of(const json_t *object, const char *key)
{
	uint64_t number = number_of(object, key);

	return number == PROFILE_ABSENT ? 0 : number;
}

/* Defines a function that finds the enum value, from first to last, of a name. */
#define NAMED(function, type, name_of, first, last, otherwise)      \
	static type function(const char *name)                      \
	{                                                           \
		for (int value = (first); value <= (last); value++) \
			if (!strcmp(name_of((type)value), name))    \
				return (type)value;                 \
		return otherwise;                                   \
	}

NAMED(domain_named, enum perfx_domain, name_of_domain, PERFX_DOMAIN_HOST, PERFX_DOMAIN_USER,
      PERFX_DOMAIN_INVALID)
NAMED(dtype_named, enum perfx_dtype, name_of_dtype, 1, PERFX_DTYPES - 1, PERFX_DTYPE_UNKNOWN)
NAMED(source_named, enum perfx_source, name_of_source, 1, PERFX_SOURCES - 1, PERFX_SOURCE_INVALID)
NAMED(origin_named, enum perfx_peak_origin, name_of_peak_origin, 1, PERFX_PEAK_ESTIMATED, 0)
NAMED(op_named, enum perfx_gpu_op, name_of_gpu_op, 1, PERFX_GPU_OPS - 1, PERFX_GPU_OP_INVALID)
NAMED(direction_named, enum perfx_gpu_direction, name_of_gpu_direction, 1, PERFX_GPU_DIRECTIONS - 1,
      0)
NAMED(host_memory_named, enum perfx_gpu_host_memory, name_of_gpu_host_memory, 1,
      PERFX_GPU_HOST_MEMORIES - 1, 0)
NAMED(severity_named, enum finding_severity, finding_severity_name, FINDING_HIGH, FINDING_LOW,
      FINDING_LOW)
NAMED(bottleneck_named, enum bottleneck, bottleneck_name, BOTTLENECK_NONE + 1, BOTTLENECKS - 1,
      BOTTLENECK_NONE)
/* Older reports have no found_by: their steps come from marks. */
NAMED(found_by_named, enum profile_steps_by, profile_steps_by_name, 0, PROFILE_STEPS_BY_RANGE,
      PROFILE_STEPS_BY_RANGE)

/*
 * Memory of a JSON report. A frame is one line there (analyze/location.h):
 *
 *     function (file:line)    function (file)    function (module)    module+0xoffset    0xaddress
 */

static const char *keep_text(struct json_report *report, const char *text, size_t length)
{
	char *copy = strndup(text, length);
	const char *kept = copy ? pool_add(&report->texts, copy) : NULL;

	free(copy);
	report->failed |= !kept;
	return kept ?: "";
}

/* Reads ":12" at the end into line. Returns the length of the text before it. */
static size_t read_line(const char *text, size_t length, uint32_t *line)
{
	const char *colon = memrchr(text, ':', length);
	size_t digits = colon ? (size_t)(text + length - colon) - 1 : 0;

	if (!digits || digits > 9 || strspn(colon + 1, "0123456789") < digits)
		return length;
	*line = (uint32_t)strtoul(colon + 1, NULL, 10);
	return (size_t)(colon - text);
}

/* The path of the allocator's module with that name: frames inside the allocator have it. */
static const char *path_of(const struct profile_memory *memory, const char *module_base)
{
	for (size_t i = 0; i < memory->allocators_count; i++)
		if (!strcmp(base_name(memory->allocators[i].module), module_base))
			return memory->allocators[i].module;
	return module_base;
}

/* The " (…)" at the end; NULL: none. */
static const char *last_bracket(const char *text, size_t length)
{
	if (length < 4 || text[length - 1] != ')')
		return NULL;
	for (size_t i = length - 2; i-- > 1;)
		if (text[i] == ' ' && text[i + 1] == '(')
			return text + i;
	return NULL;
}

/* Stacks in JSON have names of functions but no labels. NULL: users know it by its name. */
static const char *label_of(struct json_report *report, const char *function)
{
	struct text label = {0};
	const char *kept = NULL;

	if (operator_label(&label, function, 0))
		kept = keep_text(report, text_peek(&label), label.length);
	text_clear(&label);
	return kept;
}

static void read_frame(struct json_report *report, const struct profile_memory *memory,
		       struct profile_frame *frame, const char *text)
{
	size_t length = strlen(text);
	const char *bracket = last_bracket(text, length), *offset = strstr(text, "+0x"), *where;

	*frame = (struct profile_frame){
		.function = "", .label = "", .module = "", .module_base = "", .file = ""};
	if (bracket) {
		frame->function = keep_text(report, text, (size_t)(bracket - text));
		frame->label = label_of(report, frame->function);
		length = (size_t)(text + length - bracket) - 3;
		where = keep_text(report, bracket + 2,
				  read_line(bracket + 2, length, &frame->line));
		/* a source file has a path or a line, a module is a base name */
		if (frame->line || strchr(where, '/')) {
			frame->file = where;
			frame->language = ends_with(where, ".py") ? PERFX_LANGUAGE_PYTHON
								  : PERFX_LANGUAGE_NATIVE;
		} else {
			frame->module_base = where;
			frame->module = path_of(memory, where);
		}
	} else if (offset) {
		frame->module_base = keep_text(report, text, (size_t)(offset - text));
		frame->module = path_of(memory, frame->module_base);
		frame->offset = strtoull(offset + 3, NULL, 16);
	} else if (begins_with(text, "0x")) {
		frame->address = strtoull(text + 2, NULL, 16);
	} else {
		frame->function = text;
		frame->label = label_of(report, text);
	}
}

static void read_stack(struct json_report *report, const struct profile_memory *memory,
		       struct profile_hotspot *hotspot, const json_t *from)
{
	struct profile_frame *frames;
	size_t count = MAKE_ROOM(report, from, "stack", frames);
	const struct profile_frame **pointers = make_array(report, count, sizeof(*pointers));

	hotspot->frames = pointers;
	hotspot->frames_count = pointers ? count : 0;
	for (size_t i = 0; i < hotspot->frames_count; i++) {
		const char *text = json_string_value(element_of(from, "stack", i));

		pointers[i] = &frames[i];
		read_frame(report, memory, &frames[i], text ? text : "");
	}
}

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

static void read_memory(struct json_report *report, struct profile_process *process,
			const json_t *of_process)
{
	size_t count = MAKE_ROOM(report, of_process, "memory", process->memory);

	for (size_t i = 0; i < count; i++) {
		const json_t *from = element_of(of_process, "memory", i);
		enum perfx_domain domain = domain_named(text_of(from, "domain"));
		struct profile_memory *memory;

		if (domain == PERFX_DOMAIN_INVALID)
			continue;
		memory = &process->memory[process->memory_count++];
		data_table_read(&memory_table, memory, from);
		memory->domain = domain;
		memory->allocs = exact(memory->allocs.value);
		memory->allocated_bytes = exact(memory->allocated_bytes.value);
		memory->peak_ns = PROFILE_ABSENT;
		memory->bound = json_object_get(from, "bound") ? PROFILE_MEMORY_LOST_ALLOCS : 0;
		memory->allocators_count =
			MAKE_ROOM(report, from, "allocators", memory->allocators);
		for (size_t k = 0; k < memory->allocators_count; k++) {
			const json_t *allocator = element_of(from, "allocators", k);

			memory->allocators[k].name = text_of(allocator, "name");
			memory->allocators[k].module = text_of(allocator, "module");
		}
		memory->hotspots_count = MAKE_ROOM(report, from, "hotspots", memory->hotspots);
		for (size_t k = 0; k < memory->hotspots_count; k++) {
			const json_t *hotspot = element_of(from, "hotspots", k);
			struct profile_hotspot *into = &memory->hotspots[k];

			data_table_read(&hotspots_table, into, hotspot);
			into->function =
				function_named(report, process, text_of(hotspot, "function"));
			into->allocs = exact(into->allocs.value);
			into->allocated_bytes = exact(into->allocated_bytes.value);
			read_stack(report, memory, into, hotspot);
		}
	}
}

static enum perfx_dtype dtype_of(const json_t *object)
{
	return dtype_named(text_of(object, "dtype"));
}

static void read_capture(struct json_report *report)
{
	const json_t *capture = json_object_get(report->root, "capture");
	const json_t *host = json_object_get(capture, "host");
	const json_t *overhead = json_object_get(report->root, "overhead");
	const json_t *percent = json_object_get(overhead, "estimated_percent");
	struct profile *p = &report->profile;

	p->host_name = text_of(host, "name");
	p->kernel = text_of(host, "kernel");
	p->boot_id = text_of(host, "boot_id");
	p->command = "";
	p->tool_version = text_of(json_object_get(report->root, "tool"), "version");
	p->cpus_count = (uint32_t)count_of(host, "cpus");
	p->start_unix_ns = count_of(capture, "start_unix_ns");
	p->duration_ns = count_of(capture, "duration_ns");
	p->partial = json_is_true(json_object_get(capture, "partial")) ? PROFILE_PARTIAL_LOSSY : 0;
	p->ended = true;
	p->compensated = json_is_true(json_object_get(overhead, "compensated"));
	p->overhead_percent = json_is_number(percent) ? json_number_value(percent) : -1;
}

static uint64_t per_s_of(const json_t *object, const char *key, double unit)
{
	double value = json_number_value(json_object_get(object, key)) * unit;

	return value > 0 && value < 0x1p63 ? (uint64_t)(value + 0.5) : 0;
}

static void read_peaks(struct json_report *report)
{
	report->profile.peaks_count = MAKE_ROOM(report, report->root, "peaks", report->peaks);
	for (size_t i = 0; i < report->profile.peaks_count; i++) {
		const json_t *peak = element_of(report->root, "peaks", i);

		report->peaks[i] = (struct perfx_peak){
			.flops_per_s = per_s_of(peak, "gflops_per_s", 1e9),
			.bytes_per_s = per_s_of(peak, "bytes_per_s", 1),
			.threads = (uint32_t)count_of(peak, "threads"),
			.dtype = (uint8_t)dtype_of(peak),
			.origin = origin_named(text_of(peak, "origin")),
		};
	}
	report->profile.peaks = report->peaks;
}

static void read_functions(struct json_report *report, struct profile_process *process,
			   const json_t *of_process)
{
	process->rows_count = MAKE_ROOM(report, of_process, "functions", process->rows);
	for (size_t i = 0; i < process->rows_count; i++) {
		const json_t *from = element_of(of_process, "functions", i);
		size_t at = report->profile.functions_count++;
		bool is_range = !strcmp(text_of(from, "kind"), "range");
		/* the first of the lines, which has most of the time */
		const json_t *line = element_of(from, "python_callers", 0);
		struct profile_row *row = &process->rows[i];

		report->functions[at] = (struct profile_function){
			.id = (uint32_t)at + 1,
			.source = source_named(text_of(from, "source")),
			.name = text_of(from, "name"),
			.label = text_of(from, json_object_get(from, "label") ? "label" : "name"),
			.module = text_of(from, "path"),
			.module_base = text_of(from, "module"),
			.build_id = "",
			.offset = count_of(from, "offset"),
			.flags = is_range ? PERFX_FUNCTION_RANGE : 0,
		};
		data_table_read(&functions_table, row, from);
		row->function = (uint32_t)at + 1;
		row->overflow_count = min_u64(row->overflow_count, row->timed_count);
		row->total_ns = count_of(from, "total_ns");
		row->self_ns = count_of(from, "self_ns");
		row->stddev_ns = json_is_number(json_object_get(from, "stddev_ns"))
					 ? (double)count_of(from, "stddev_ns")
					 : -1;
		row->alloc_bytes = number_of(from, "alloc_bytes");
		row->inclusive.flops = count_of(from, "flops");
		row->inclusive.bytes = count_of(from, "bytes");
		row->inclusive.counted_count = json_is_integer(json_object_get(from, "flops"));
		/* a report does not say of how many calls */
		row->inclusive.submitted_count = !strcmp(
			text_of(from, "rate_withheld"), roofline_withheld_name(ROOFLINE_SUBMITTED));
		row->computing_ns = count_of(from, "work_ns");
		row->dtype = dtype_of(from);
		if (!line)
			continue;
		report->lines[at] = (struct profile_frame){.function = text_of(line, "function"),
							   .module = "",
							   .module_base = "",
							   .file = text_of(line, "file"),
							   .line = (uint32_t)count_of(line, "line"),
							   .language = PERFX_LANGUAGE_PYTHON};
		report->callers[at] =
			(struct profile_python_caller){.frame = &report->lines[at],
						       .total_ns = count_of(line, "total_ns"),
						       .calls_count = count_of(line, "calls")};
		row->python_callers = &report->callers[at];
		row->python_callers_count = 1;
	}
}

static void read_phases(const json_t *from, uint64_t phases[PROFILE_PHASES])
{
	const json_t *breakdown = json_object_get(from, "breakdown");

	for (int i = 0; i < PROFILE_PHASES; i++)
		phases[i] = count_of(breakdown, profile_phase_name((enum profile_phase)i));
}

static void read_steps(struct profile_process *process, const json_t *from)
{
	const json_t *steps = json_object_get(from, "steps");
	const json_t *by_state = json_object_get(steps, "figures");
	const json_t *gpu = json_object_get(from, "gpu");
	bool has_whole =
		json_object_get(steps, "whole"); /* older reports count whole steps alone */
	struct profile_steps *into = &process->steps;

	*into = (struct profile_steps){
		.ends_count = count_of(steps, "count"),
		.count = count_of(steps, has_whole ? "whole" : "count"),
		.tid = (uint32_t)count_of(steps, "tid"),
		.total_ns = count_of(steps, "total_ns"),
		.avg_ns = count_of(steps, "avg_ns"),
		.p50_ns = count_of(steps, "p50_ns"),
		.p95_ns = count_of(steps, "p95_ns"),
		.max_ns = count_of(steps, "max_ns"),
		.startup_ns = count_of(steps, "startup_ns"),
		.off_cpu_ns = PROFILE_ABSENT,
		.stddev_ns = -1,
		.cost = {.steps_count = count_of(steps, "computed"),
			 .ns = count_of(steps, "computed_ns"),
			 .flops = count_of(steps, "flops"),
			 .thread_flops = count_of(steps, "thread_flops"),
			 .dtype = dtype_of(steps),
			 .counted_count = json_object_get(steps, "flops")
						  ? count_of(by_state, "counted")
						  : 0,
			 .unread_count = count_of(by_state, "unread"),
			 .opaque_count = count_of(by_state, "opaque")},
	};
	into->found_by = found_by_named(text_of(steps, "found_by"));
	into->confidence = 1;
	if (json_is_number(json_object_get(steps, "confidence")))
		into->confidence = json_number_value(json_object_get(steps, "confidence"));
	if (json_is_number(json_object_get(steps, "stddev_ns")))
		into->stddev_ns = (double)count_of(steps, "stddev_ns");
	read_phases(steps, into->phases);
	into->divided.count = count_of(steps, has_whole ? "divided" : "count");
	into->divided.ns = count_of(steps, has_whole ? "divided_ns" : "total_ns");
	read_phases(steps, into->divided.phases);
	/* at some time */
	into->backward_until_ns = !json_object_get(json_object_get(steps, "breakdown"), "backward");
	into->optimizer_until_ns =
		!json_object_get(json_object_get(steps, "breakdown"), "optimizer");
	into->gpu_used = json_is_object(json_object_get(steps, "gpu"));
	into->gpu.busy_ns = number_of(json_object_get(steps, "gpu"), "busy_ns");
	into->gpu.kernels_count = number_of(json_object_get(steps, "gpu"), "kernels");
	into->gpu.wait_ns = number_of(json_object_get(steps, "gpu"), "wait_ns");
	/* whose peak its MFU is against */
	into->gpu.computes = count_of(gpu, "flops") > 0;
	into->gpu.peak_flops_per_s = (double)per_s_of(gpu, "peak_gflops_per_s", 1e9);
}

static void read_kernels(struct json_report *report, struct profile_gpu *gpu, const json_t *from)
{
	gpu->kernels_count = MAKE_ROOM(report, from, "kernels", gpu->kernels);
	for (size_t i = 0; i < gpu->kernels_count; i++) {
		struct profile_gpu_kernel *kernel = &gpu->kernels[i];
		const json_t *object = element_of(from, "kernels", i);
		const json_t *stddev = json_object_get(object, "stddev_ns");

		data_table_read(&gpu_kernels_table, kernel, object);
		kernel->op = op_named(text_of(object, "op"));
		kernel->name = text_of(object, "name");
		kernel->module = "";
		/* a report does not say how many of the calls it has by themselves */
		kernel->recorded_count = kernel->count;
		kernel->stddev_ns = json_is_number(stddev) ? json_number_value(stddev) : -1;
	}
}

static void read_copies(struct json_report *report, struct profile_gpu *gpu, const json_t *from)
{
	gpu->copies_count = MAKE_ROOM(report, from, "copies", gpu->copies);
	for (size_t i = 0; i < gpu->copies_count; i++) {
		struct profile_gpu_copy *copy = &gpu->copies[i];
		const json_t *object = element_of(from, "copies", i);
		const char *direction = text_of(object, "direction");

		data_table_read(&gpu_copies_table, copy, object);
		copy->op = strcmp(direction, "memset") ? PERFX_GPU_OP_COPY : PERFX_GPU_OP_MEMSET;
		copy->direction = direction_named(direction);
		copy->host_memory = host_memory_named(text_of(object, "host_memory"));
	}
}

static void read_devices(struct json_report *report, struct profile_gpu *gpu, const json_t *from)
{
	struct profile *p = &report->profile;
	size_t count = MAKE_ROOM(report, from, "devices", gpu->places);

	if (!p->gpu_devices)
		p->gpu_devices = make_array(report, PERFX_GPU_DEVICES_MAX, sizeof(*p->gpu_devices));
	for (size_t i = 0; p->gpu_devices && i < count; i++) {
		const json_t *device = element_of(from, "devices", i);
		uint64_t index = number_of(device, "index");
		struct profile_gpu_device *into;

		if (index >= PERFX_GPU_DEVICES_MAX || gpu->places_count == PERFX_GPU_DEVICES_MAX)
			continue;
		into = &p->gpu_devices[index];
		into->metrics[PROFILE_GPU_UTILISATION].avg =
			number_of(device, "utilisation_percent_avg");
		gpu->places[gpu->places_count++] = (struct profile_gpu_place){
			.device = into,
			.communicating_ns = number_of(device, "communicating_ns"),
			.exposed_ns = number_of(device, "exposed_communication_ns")};
	}
}

static void read_gpu(struct json_report *report, struct profile_process *process,
		     const json_t *of_process)
{
	const json_t *from = json_object_get(of_process, "gpu");
	struct profile_gpu *gpu = &process->gpu;

	*gpu = (struct profile_gpu){
		.used = json_is_object(from),
		.why = "",
		.launches_count = count_of(from, "launches"),
		.wait_ns = count_of(from, "wait_ns"),
		.busy_ns = number_of(from, "busy_ns"),
		.latency_p50_ns = number_of(from, "launch_latency_p50_ns"),
		.latency_p99_ns = number_of(from, "launch_latency_p99_ns"),
		.flops = count_of(from, "flops"),
		.flops_ns = count_of(from, "flops_ns"),
		.dtype = dtype_of(from),
		.peak_flops_per_s = (double)per_s_of(from, "peak_gflops_per_s", 1e9),
	};
	if (!gpu->used)
		return;
	read_kernels(report, gpu, from);
	read_copies(report, gpu, from);
	gpu->syncs_count = MAKE_ROOM(report, from, "syncs", gpu->syncs);
	for (size_t i = 0; i < gpu->syncs_count; i++) {
		const json_t *object = element_of(from, "syncs", i);

		data_table_read(&gpu_syncs_table, &gpu->syncs[i], object);
		gpu->syncs[i].function =
			function_named(report, process, text_of(object, "function"));
	}
	read_devices(report, gpu, from);
}

static const char *command_line(struct json_report *report, const json_t *from)
{
	const json_t *arguments = json_object_get(from, "cmdline"), *argument;
	struct text line = {0};
	const char *kept;
	size_t at;

	json_array_foreach(arguments, at, argument)
	{
		if (at)
			text_printf(&line, "%c", PROFILE_ARGUMENT_END);
		text_add(&line, json_is_string(argument) ? json_string_value(argument) : "");
	}
	kept = keep_text(report, text_peek(&line), line.length);
	text_finish(&line, &report->failed);
	return kept;
}

static void read_process(struct json_report *report, struct profile_process *process,
			 const json_t *from)
{
	const json_t *compute = json_object_get(from, "compute");

	data_table_read(&processes_table, process, from);
	process->index = (uint32_t)(process - report->profile.processes) + 1;
	process->pid = (uint32_t)count_of(from, "pid");
	process->comm = text_of(from, "comm");
	process->cmdline = command_line(report, from);
	process->to_ns = count_of(from, "wall_ns");
	process->cpu_ns = PROFILE_ABSENT;
	if (process->cpu_user_ns != PROFILE_ABSENT && process->cpu_system_ns != PROFILE_ABSENT)
		process->cpu_ns = process->cpu_user_ns + process->cpu_system_ns;
	process->compute.measured = compute != NULL;
	process->compute.cost.flops = count_of(compute, "flops");
	process->compute.cost.counted_count =
		count_of(json_object_get(compute, "figures"), "counted");
	process->compute.until_flops = count_of(compute, "measured_flops");
	process->compute.until_ns = count_of(compute, "measured_ns");
	read_steps(process, from);
	read_functions(report, process, from);
	/* whose ends the steps are: a report has its name instead of its number */
	process->steps.function =
		function_named(report, process, text_of(json_object_get(from, "steps"), "by"));
	read_gpu(report, process, from);
	read_memory(report, process, from);
}

static void read_processes(struct json_report *report)
{
	const json_t *processes = json_object_get(report->root, "processes"), *process;
	struct profile *p = &report->profile;
	size_t at, functions = 0;

	json_array_foreach(processes, at, process)
	{
		functions += json_array_size(json_object_get(process, "functions"));
	}
	report->functions = make_array(report, functions, sizeof(*report->functions));
	report->lines = make_array(report, functions, sizeof(*report->lines));
	report->callers = make_array(report, functions, sizeof(*report->callers));
	p->processes_count = MAKE_ROOM(report, report->root, "processes", p->processes);
	p->functions = report->functions;
	for (size_t i = 0; !report->failed && i < p->processes_count; i++)
		read_process(report, &p->processes[i], json_array_get(processes, i));
}

/* A sentence whose text is all from the report: it has no marked names. */
static char *sentence_of(const json_t *from, const char *key)
{
	struct text text = {0};

	escape_display(&text, text_of(from, key));
	return text_take(&text);
}

static int read_findings(struct process_analysis *into, const json_t *process)
{
	const json_t *findings = json_object_get(process, "findings"), *from;
	size_t at;

	into->findings = calloc(json_array_size(findings) + 1, sizeof(*into->findings));
	if (!into->findings)
		return -ENOMEM;
	json_array_foreach(findings, at, from)
	{
		struct finding *finding = &into->findings[into->findings_count++];
		const json_t *place = json_object_get(from, "place");

		*finding = (struct finding){
			.kind = text_of(from, "kind"),
			.bottleneck = bottleneck_named(text_of(from, "class")),
			.severity = severity_named(text_of(from, "severity")),
			.gain_ns = json_number_value(json_object_get(from, "gain_ns_per_step")),
			.confidence = json_number_value(json_object_get(from, "confidence")),
			.subject = sentence_of(from, "subject"),
			.evidence = sentence_of(from, "evidence"),
			.threshold = sentence_of(from, "threshold"),
			.suggestion = sentence_of(from, "suggestion"),
			.look = sentence_of(from, "look")};
		if (place) {
			finding->place.function = strdup(text_of(place, "function"));
			finding->place.file = strdup(text_of(place, "file"));
			finding->place.line = (uint32_t)count_of(place, "line");
		}
		if ((place && (!finding->place.function || !finding->place.file)) ||
		    !finding->look || !finding->subject || !finding->evidence ||
		    !finding->threshold || !finding->suggestion)
			return -ENOMEM;
	}
	return 0;
}

struct analysis *json_report__analysis(const struct json_report *report,
				       const struct profile *selected)
{
	const json_t *processes = json_object_get(report->root, "processes");
	struct analysis *analysis = calloc(1, sizeof(*analysis));
	int err = 0;

	if (!analysis)
		return NULL;
	analysis->processes = calloc(selected->processes_count + 1, sizeof(*analysis->processes));
	err = analysis->processes ? 0 : -ENOMEM;
	for (size_t i = 0; i < selected->processes_count && !err; i++) {
		analysis->processes_count++;
		/* indices begin with 1, as those of captures */
		err = read_findings(&analysis->processes[i],
				    json_array_get(processes, selected->processes[i].index - 1));
	}
	if (!err)
		return analysis;
	analysis__free(analysis);
	return NULL;
}

bool json_report_is(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	int letter = 0;
	struct stat st;

	/* regular files only: a device may be endless, and a FIFO may have no writer */
	while (file && !fstat(fd, &st) && S_ISREG(st.st_mode) && (letter = fgetc(file)) > 0 &&
	       strchr(" \t\r\n", letter))
		;
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	return letter == '{';
}

struct json_report *json_report__read(const char *path, char why[JSON_REPORT_WHY])
{
	struct json_report *report = calloc(1, sizeof(*report));
	json_error_t error = {.line = -1};

	if (report)
		report->root = json_load_file(path, 0, &error);
	if (report && !report->root)
		snprintf(why, JSON_REPORT_WHY, "not JSON: line %d: %s", error.line, error.text);
	else if (report && strcmp(text_of(report->root, "schema"), "perfx.report/1"))
		snprintf(why, JSON_REPORT_WHY,
			 "not a report of perfx-trace: its schema is not perfx.report/1");
	else if (report) {
		read_peaks(report);
		read_processes(report);
		read_capture(report);
		if (!report->failed)
			return report;
	}
	if (!report || report->failed)
		snprintf(why, JSON_REPORT_WHY, "out of memory");
	json_report__free(report);
	return NULL;
}

const struct profile *json_report__profile(const struct json_report *report)
{
	return &report->profile;
}

void json_report__free(struct json_report *report)
{
	if (!report)
		return;
	for (size_t i = 0; i < report->arrays_count; i++)
		free(report->arrays[i]);
	free(report->arrays);
	pool_clear(&report->texts);
	json_decref(report->root);
	free(report);
}
