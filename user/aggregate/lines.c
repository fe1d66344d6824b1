// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stacks → lines, Python callers, and how whole the stacks are.
 *
 * A sample or a block belongs to two lines: that of its innermost Python frame, and that of its
 * innermost native frame whose source line is known, outside of the C library if there is one. A
 * sample without such frames belongs to its innermost native frame. Time in traced calls belongs to
 * the Python line that made the outermost of them; ranges only mark such calls and take no part.
 * Native callers are known only for a context's first call, so native lines have no time in calls.
 */
#include "aggregate/state.h"
#include "base/order.h"
#include "base/text.h"

#include <stdlib.h>

struct line {
	struct profile_line line;
	uint64_t allocs_count[PERFX_DOMAINS], alloc_bytes[PERFX_DOMAINS];
};

struct lines {
	struct line *list;
	size_t capacity, count;
	struct map64 ids; /* hash → list[]; of one that is taken, the next key */
};

/* Frames with neither a line nor a function are distinguished by their offset in the file. */
static uint64_t offset_of(const struct profile_frame *frame)
{
	return frame->line || frame->function[0] ? 0 : frame->offset;
}

static const char *module_of(const struct profile_frame *frame)
{
	return frame->line ? "" : frame->module_base;
}

/* Texts of frames are interned: compared by address. */
static uint64_t hash_of(const struct profile_frame *frame)
{
	uint64_t hash = (uint64_t)(uintptr_t)frame->file * 0x9e3779b97f4a7c15ULL;

	hash = (hash ^ (uint64_t)(uintptr_t)frame->function) * 0xc2b2ae3d27d4eb4fULL;
	hash ^= offset_of(frame);
	return (hash ^ frame->line ^ hash >> 32) * 0x9e3779b97f4a7c15ULL;
}

/* NULL: memory is out. Valid until the next call. */
static struct line *line_of(struct lines *lines, const struct profile_frame *frame)
{
	uint64_t hash = hash_of(frame);
	struct line *line;
	uint32_t at;

	for (; (at = map64_get(&lines->ids, hash)) != MAP64_NONE; hash++) {
		const struct profile_line *known = &lines->list[at].line;

		if (known->file == frame->file && known->function == frame->function &&
		    known->line == frame->line && known->language == frame->language &&
		    known->offset == offset_of(frame) &&
		    !strcmp(known->module_base, module_of(frame)))
			return &lines->list[at];
	}
	line = MAP64_ITEM_OF(lines, hash);
	if (!line)
		return NULL;
	line->line = (struct profile_line){
		.file = frame->file,
		.function = frame->function,
		.label = frame->label,
		.module_base = module_of(frame),
		.offset = offset_of(frame),
		.line = frame->line,
		.language = frame->language,
		.of_package = frame->of_package,
		.of_command = frame->of_command,
		.calls_ns = frame->language == PERFX_LANGUAGE_PYTHON ? 0 : PROFILE_ABSENT,
	};
	return line;
}

/*
 * Code of libraries: its time is that of the program's own line that calls it. It is known by the
 * module that the code lies in, else by its source file, else by the function's name: a program may
 * have a library linked into it.
 */

/* glibc's, musl's, the compiler's, and the code that calls a function for ctypes. */
static const char *const system_modules[] = {
	"libc.so",    "libc-2.",    "libc.musl",  "ld-linux",	  "ld-musl",
	"libm.so",    "libm-2.",    "libmvec.",	  "libpthread",	  "libdl.so",
	"librt.so",   "linux-vdso", "[vdso]",	  "libstdc++.",	  "libc++.",
	"libc++abi.", "libgcc_s.",  "libffi.so.", "libatomic.so", NULL};

bool module_is_of_system(const char *base_name)
{
	return text_begins_with_one_of(base_name, system_modules);
}

bool frame_is_system_library(const struct profile_frame *frame)
{
	return module_is_of_system(frame->module_base);
}

/* Folders of a compiler's headers, of installed packages, and of packages that are built with the
 * program. */
static const char *const library_folders[] = {
	"/usr/include/", "/usr/local/include/", "/usr/lib/",	     "/usr/share/",
	"/rustc/",	 "library/std/src/",	"library/core/src/", "library/alloc/src/",
	"external/",	 "third_party/",	"vendor/",	     NULL};
static const char *const library_parts[] = {
	"/include/c++/", "/rustlib/src/",     "/.cargo/", "/pkg/mod/",	   "@v",
	"/external/",	 "/_deps/",	      "/vendor/", "/third_party/", "/third-party/",
	"/3rdparty/",	 "/vcpkg_installed/", "/.conan",  "/eigen3/",	   NULL};

static const char *const library_functions[] = {
	/* C++ */
	"std::", "__gnu_cxx::", "__cxxabiv1::", "operator new", "operator delete",
	"Eigen::", "boost::", "absl::",
	/* Rust */
	"core::slice::", "core::iter::", "core::ops::", "core::ptr::", "core::fmt::", "core::str::",
	"core::num::", "core::hash::", "alloc::vec::", "alloc::string::", "alloc::raw_vec::",
	"alloc::collections::", "alloc::sync::", "alloc::rc::", "alloc::boxed::", "hashbrown::",
	"<std::", "<core::", "<alloc::", "<hashbrown::", NULL};

/* Go's packages, by the first part of a function's name: "sort.Slice", "encoding/json.Unmarshal".
 * Functions in assembly, such as "memeqbody", have none. */
static bool is_go_library(const char *function)
{
	static const char *const packages[] = {
		"archive",  "bufio",	"bytes",   "cmp",     "compress", "container", "context",
		"crypto",   "database", "debug",   "embed",   "encoding", "errors",    "expvar",
		"flag",	    "fmt",	"go",	   "hash",    "html",	  "image",     "index",
		"internal", "io",	"iter",	   "log",     "maps",	  "math",      "mime",
		"net",	    "os",	"path",	   "plugin",  "reflect",  "regexp",    "runtime",
		"slices",   "sort",	"strconv", "strings", "sync",	  "syscall",   "testing",
		"text",	    "time",	"type",	   "unicode", "unique",	  "unsafe",    "vendor",
		NULL};
	size_t length = strcspn(function, "./(");

	if (!function[length])
		return true;
	for (size_t i = 0; packages[i]; i++)
		if (strlen(packages[i]) == length && !strncmp(function, packages[i], length))
			return true;
	return false;
}

bool profile_is_library_source(const struct profile_frame *frame)
{
	for (const char *const *part = library_parts; *part; part++)
		if (strstr(frame->file, *part))
			return true;
	return text_begins_with_one_of(frame->file, library_folders) ||
	       ((ends_with(frame->file, ".go") || ends_with(frame->file, "<autogenerated>")) &&
		is_go_library(frame->function));
}

bool profile_is_library_code(const struct profile_frame *frame)
{
	return frame->file[0] ? profile_is_library_source(frame)
			      : text_begins_with_one_of(frame->function, library_functions);
}

/* The standard libraries run for their caller: the program's own line around them is the place. */
static bool is_runtime(const struct profile_frame *frame)
{
	return frame_is_system_library(frame) || profile_is_library_source(frame);
}

/* Functions that start a thread are in all of its stacks and tell none of them apart. */
static bool is_start(const struct profile_frame *frame)
{
	return is_runtime(frame) && (!strcmp(frame->function, "start_thread") ||
				     begins_with(frame->function, "__libc_start") ||
				     begins_with(frame->function, "clone"));
}

static const struct profile_frame *native_line(const struct profile_frame *const *frames,
					       size_t count)
{
	const struct profile_frame *runtime = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct profile_frame *frame = frames[i];

		if (frame->language != PERFX_LANGUAGE_NATIVE || !frame->line || is_start(frame))
			continue;
		if (!is_runtime(frame))
			return frame;
		if (!runtime)
			runtime = frame;
	}
	return runtime;
}

const struct profile_frame *profile_line_frame(const struct profile_frame *const *frames,
					       size_t count, enum perfx_language language)
{
	if (language == PERFX_LANGUAGE_NATIVE)
		return native_line(frames, count);
	for (size_t i = 0; i < count; i++)
		if (frames[i]->language == language)
			return frames[i];
	return NULL;
}

/* The native frame of a sample that has no line in any language; NULL: it has one, or no frame. */
static const struct profile_frame *frame_without_line(const struct profile_stack *stack)
{
	const struct profile_frame *runtime = NULL;

	if (native_line(stack->frames, stack->frames_count))
		return NULL;
	for (size_t i = 0; i < stack->frames_count; i++) {
		const struct profile_frame *frame = stack->frames[i];

		if (frame->language != PERFX_LANGUAGE_NATIVE)
			return NULL;
		if (is_start(frame) || !frame->module_base[0])
			continue;
		if (!is_runtime(frame))
			return frame;
		if (!runtime)
			runtime = frame;
	}
	return runtime;
}

const struct profile_frame *profile_sample_line(const struct profile_stack *stack,
						enum perfx_language language)
{
	const struct profile_frame *frame =
		stack ? profile_line_frame(stack->frames, stack->frames_count, language) : NULL;

	return stack && !frame && language == PERFX_LANGUAGE_NATIVE ? frame_without_line(stack)
								    : frame;
}

static int add_samples(struct lines *lines, const struct profile_process *process,
		       enum perfx_language language)
{
	FOR_EACH_OF (sample, process->samples) {
		const struct profile_frame *frame = profile_sample_line(sample->stack, language);
		struct line *line;
		uint64_t *ns;

		if (!frame)
			continue;
		line = line_of(lines, frame);
		if (!line)
			return -ENOMEM;
		ns = sample->state == PERFX_SAMPLE_ON_CPU ? &line->line.on_cpu_ns
							  : &line->line.off_cpu_ns;
		add_up(ns, sample->ns);
		add_up(&line->line.samples_count, sample->count);
	}
	return 0;
}

static int add_blocks(struct lines *lines, const struct profile_memory *memory,
		      enum perfx_language language)
{
	FOR_EACH (hotspot, memory->hotspots) {
		const struct profile_frame *frame =
			profile_line_frame(hotspot->frames, hotspot->frames_count, language);
		struct line *line = frame ? line_of(lines, frame) : NULL;

		if (!frame)
			continue;
		if (!line)
			return -ENOMEM;
		add_up(&line->allocs_count[memory->domain], hotspot->allocs.value);
		add_up(&line->alloc_bytes[memory->domain], hotspot->allocated_bytes.value);
	}
	return 0;
}

static int add_calls(const struct finish_ctx *ctx, struct lines *lines,
		     const struct profile_process *process)
{
	FOR_EACH (context, process->contexts) {
		const struct profile_function *function =
			profile_function(ctx->profile, context->function);
		struct line *line;

		if (!context->caller || (function && function->flags & PERFX_FUNCTION_RANGE))
			continue;
		line = line_of(lines, context->caller);
		if (!line)
			return -ENOMEM;
		add_up(&line->line.calls_ns, context->total_ns);
	}
	return 0;
}

/* The cost of a line: CPU time by samples or time in traced calls, whichever is more. */
static uint64_t weight_of(const struct profile_line *line)
{
	if (line->calls_ns == PROFILE_ABSENT || line->calls_ns < line->on_cpu_ns)
		return line->on_cpu_ns;
	return line->calls_ns;
}

ORDER(by_weight, struct profile_line, DESCENDING(weight_of(a), weight_of(b)),
      DESCENDING(a->alloc_bytes, b->alloc_bytes), DESCENDING(a->off_cpu_ns, b->off_cpu_ns),
      strcmp(a->file, b->file), ASCENDING(a->line, b->line), strcmp(a->function, b->function))

static int lines_of_process(const struct finish_ctx *ctx, struct profile_process *process)
{
	/* domains overlap and are never summed: a line has the last of these in which it allocated
	 */
	static const enum perfx_domain order[] = {PERFX_DOMAIN_USER, PERFX_DOMAIN_HOST,
						  PERFX_DOMAIN_GPU, PERFX_DOMAIN_TENSOR};
	struct lines lines = {0};
	int err = add_calls(ctx, &lines, process);

	for (int language = PERFX_LANGUAGE_NATIVE; language <= PERFX_LANGUAGE_PYTHON; language++) {
		err = err ?: add_samples(&lines, process, language);
		FOR_EACH (memory, process->memory)
			err = err ?: add_blocks(&lines, memory, language);
	}
	process->lines = err ? NULL : calloc(lines.count + 1, sizeof(*process->lines));
	for (size_t i = 0; process->lines && i < lines.count; i++) {
		const struct line *from = &lines.list[i];
		struct profile_line *line = &process->lines[process->lines_count++];

		*line = from->line;
		for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
			if (!from->allocs_count[order[k]])
				continue;
			line->domain = order[k];
			line->allocs_count = from->allocs_count[order[k]];
			line->alloc_bytes = from->alloc_bytes[order[k]];
		}
	}
	map64_clear(&lines.ids);
	free(lines.list);
	if (!process->lines)
		return -ENOMEM;
	SORT_ITEMS(process->lines, process->lines_count, by_weight);
	return 0;
}

struct call {
	uint32_t function;
	struct profile_python_caller caller;
};

ORDER(by_function_and_line, struct call, ASCENDING(a->function, b->function),
      ASCENDING(a->caller.frame->line, b->caller.frame->line),
      strcmp(a->caller.frame->file, b->caller.frame->file),
      strcmp(a->caller.frame->function, b->caller.frame->function))

ORDER(by_total, struct profile_python_caller, DESCENDING(a->total_ns, b->total_ns),
      DESCENDING(a->calls_count, b->calls_count), ASCENDING(a->frame->line, b->frame->line),
      strcmp(a->frame->function, b->frame->function))

/* The line of each context: its own caller or, inside a traced function, that of the one around
 * it. Contexts come after those around them. */
static size_t find_callers(const struct profile_process *process, struct call *calls,
			   const struct profile_frame **callers, struct map64 *places)
{
	size_t count = 0;

	for (size_t i = 0; i < process->contexts_count; i++) {
		const struct profile_context *context = &process->contexts[i];
		uint32_t parent = map64_get(places, context->parent);

		callers[i] = context->caller;
		if (!callers[i] && parent != MAP64_NONE)
			callers[i] = callers[parent];
		if (map64_put(places, context->id, (uint32_t)i))
			return SIZE_MAX;
		if (callers[i] && context->calls_count)
			calls[count++] = (struct call){.function = context->function,
						       .caller = {callers[i], context->calls_count,
								  context->total_ns}};
	}
	return count;
}

/* One for each function and line. */
static size_t merge_calls(struct call *calls, size_t count)
{
	size_t kept = 0;

	SORT_ITEMS(calls, count, by_function_and_line);
	for (size_t i = 0; i < count; i++) {
		struct profile_python_caller *last = kept ? &calls[kept - 1].caller : NULL;

		if (!last || by_function_and_line(&calls[kept - 1], &calls[i])) {
			calls[kept++] = calls[i];
			continue;
		}
		add_up(&last->calls_count, calls[i].caller.calls_count);
		add_up(&last->total_ns, calls[i].caller.total_ns);
	}
	return kept;
}

/* The callers lie in the order of functions; a row gets its own of them, the most time first. */
static int give_callers(struct profile_process *process, const struct call *calls, size_t count)
{
	struct map64 firsts = {0}; /* function → its first call */
	int err = 0;

	process->python_callers = calloc(count + 1, sizeof(*process->python_callers));
	if (!process->python_callers)
		return -ENOMEM;
	for (size_t i = 0; i < count && !err; i++) {
		process->python_callers[i] = calls[i].caller;
		if (!i || calls[i - 1].function != calls[i].function)
			err = map64_put(&firsts, calls[i].function, (uint32_t)i);
	}
	for (size_t i = 0; i < process->rows_count && !err; i++) {
		struct profile_row *row = &process->rows[i];
		uint32_t at = map64_get(&firsts, row->function);
		size_t end = at;

		if (at == MAP64_NONE)
			continue;
		while (end < count && calls[end].function == row->function)
			end++;
		row->python_callers = &process->python_callers[at];
		row->python_callers_count = end - at;
		qsort(&process->python_callers[at], end - at, sizeof(*process->python_callers),
		      by_total);
	}
	map64_clear(&firsts);
	return err;
}

static int callers_of_process(struct profile_process *process)
{
	size_t most = process->contexts_count + 1, count = SIZE_MAX;
	const struct profile_frame **callers = calloc(most, sizeof(*callers));
	struct call *calls = calloc(most, sizeof(*calls));
	struct map64 places = {0};
	int err = -ENOMEM;

	if (callers && calls)
		count = find_callers(process, calls, callers, &places);
	if (count != SIZE_MAX)
		err = give_callers(process, calls, merge_calls(calls, count));
	map64_clear(&places);
	free(callers);
	free(calls);
	return err;
}

static void count_end(struct profile_stack_quality *quality, const struct profile_frame *outermost,
		      enum perfx_stack_end end, uint64_t count)
{
	/* the code below a Python frame is the interpreter's, whichever file that is in */
	bool python = outermost->language == PERFX_LANGUAGE_PYTHON;
	const char *module = python ? PROFILE_INTERPRETER : outermost->module;

	for (size_t i = 0; i < quality->ends_count; i++) {
		struct profile_stack_ends *known = &quality->ends[i];

		if (known->end == end && known->module == module) {
			add_up(&known->count, count);
			return;
		}
	}
	if (quality->ends_count < PROFILE_STACK_ENDS_MAX)
		quality->ends[quality->ends_count++] = (struct profile_stack_ends){
			.end = end,
			.module = module,
			.module_base = python ? module : outermost->module_base,
			.count = count};
}

/* Go's scheduler runs on stacks of its own, which begin here (topofstack() in its runtime). */
static bool begins_stack(const struct profile_frame *frame)
{
	static const char *const names[] = {"runtime.goexit",
					    "runtime.mcall",
					    "runtime.morestack",
					    "runtime.mstart",
					    "runtime.rt0_go",
					    "runtime.goexit.abi0",
					    "runtime.mcall.abi0",
					    "runtime.mstart.abi0",
					    "runtime.morestack.abi0",
					    "runtime.rt0_go.abi0",
					    NULL};

	return text_is_one_of(frame->function, names);
}

/* `count` references to a stack. */
static void count_stack(struct profile_stack_quality *quality,
			const struct profile_frame *const *frames, size_t frames_count,
			uint32_t flags, uint64_t count)
{
	enum perfx_stack_end end = PERFX_STACK_END(flags);

	if (!frames_count || !count)
		return;
	if (end >= PERFX_STACK_ENDS)
		end = PERFX_STACK_END_UNKNOWN;
	if (end == PERFX_STACK_END_LEFT_OUT) {
		add_up(&quality->left_out_count, count);
		return;
	}
	add_up(&quality->taken_count, count);
	if (flags & PERFX_STACK_GUESSED)
		add_up(&quality->guessed_count, count);
	if (flags & PERFX_STACK_CUT)
		add_up(&quality->cut_count, count);
	quality->known |= end != PERFX_STACK_END_UNKNOWN;
	if (flags & PERFX_STACK_COMPLETE || begins_stack(frames[frames_count - 1]))
		add_up(&quality->complete_count, count);
	else
		count_end(quality, frames[frames_count - 1], end, count);
}

ORDER(by_count, struct profile_stack_ends, DESCENDING(a->count, b->count),
      ASCENDING(a->end, b->end), strcmp(a->module, b->module))

static void quality_of_process(struct profile_process *process)
{
	struct profile_stack_quality *quality = &process->stacks;

	FOR_EACH (memory, process->memory) {
		FOR_EACH (hotspot, memory->hotspots) {
			add_up(&quality->left_out_count, hotspot->left_out_count);
			count_stack(quality, hotspot->frames, hotspot->frames_count,
				    hotspot->stack_flags,
				    sub_capped(hotspot->allocs.value, hotspot->left_out_count));
		}
	}
	FOR_EACH_OF (sample, process->samples)
		if (sample->stack)
			count_stack(quality, sample->stack->frames, sample->stack->frames_count,
				    sample->stack->flags, sample->count);
	FOR_EACH (context, process->contexts)
		if (context->stack)
			count_stack(quality, context->stack->frames, context->stack->frames_count,
				    context->stack->flags, 1);
	SORT_ITEMS(quality->ends, quality->ends_count, by_count);
}

/* Lines, Python callers and how whole the stacks are, when all else is filled. */
static int lines_fill(struct finish_ctx *ctx)
{
	int err = 0;

	for (size_t i = 0; i < ctx->profile->processes_count && !err; i++) {
		struct profile_process *process = &ctx->profile->processes[i];

		quality_of_process(process);
		err = lines_of_process(ctx, process);
		err = err ?: callers_of_process(process);
	}
	return err;
}

const struct part part_lines = {.finish = lines_fill};
