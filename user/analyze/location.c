// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/location.h"

#include "analyze/stack_kind.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/text.h"
#include "decode/names.h"

#include <string.h>

/* The file's name in code that cloudpickle sends to another process. */
#define PICKLED "<dynamic-code>"

void location_frame(struct text *text, const struct profile_frame *frame, enum location_style style)
{
	const char *file = frame->file;

	if (style != LOCATION_FULL) {
		file = base_name(file);
		/* a package's own file is named with its folder: "autograd/__init__.py" */
		if (!strcmp(file, "__init__.py") && file - 1 > frame->file)
			for (file--; file > frame->file && file[-1] != '/';)
				file--;
	}
	if (!frame->function[0] && frame->language == PERFX_LANGUAGE_PYTHON) {
		text_add(text, "(Python code that is gone)");
		return;
	}
	if (!frame->function[0] && frame->module_base[0]) {
		text_add(text, frame->module_base);
		text_printf(text, "+0x%llx", (unsigned long long)frame->offset);
		return;
	}
	if (!frame->function[0]) {
		text_printf(text, "0x%llx", (unsigned long long)frame->address);
		return;
	}
	text_add(text, style == LOCATION_FULL ? frame->function : frame_label(frame));
	if (!file[0] && style != LOCATION_LINE)
		file = frame->module_base;
	if (!file[0])
		return;
	/* cloudpickle leaves out the name of the file */
	if (style != LOCATION_FULL && !strcmp(file, PICKLED) && frame->line) {
		text_printf(text, " (line %u of its file, pickled)", frame->line);
		return;
	}
	text_printf(text, " (%s", file);
	if (frame->file[0] && frame->line)
		text_printf(text, ":%u", frame->line);
	text_add(text, ")");
}

void location_line(struct text *text, const struct profile_line *line)
{
	const struct profile_frame frame = {.function = line->function,
					    .label = line->label,
					    .module_base =
						    line->module_base ? line->module_base : "",
					    .offset = line->offset,
					    .file = line->file,
					    .line = line->line,
					    .language = line->language};

	location_frame(text, &frame, LOCATION_BRIEF);
}

#define INDUCTOR_NAME_BYTES 55

/* Below any prefix: "/opt/conda/lib/python3.12/json/decoder.py", "/usr/lib64/python3.13t/…", as an
 * archive "/usr/lib/python311.zip/…". */
static bool is_standard_library(const char *file)
{
	static const char *const folders[] = {"/lib/python3", "/lib64/python3"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *at = strstr(file, folders[i]);
		size_t version;

		if (!at)
			continue;
		at += strlen(folders[i]);
		version = strspn(at, ".0123456789t");
		if (version && (at[version] == '/' || begins_with(at + version, "zip/")))
			return true;
	}
	return false;
}

/* "<string>", "<frozen importlib._bootstrap>", "<__array_function__ internals>": generated. The
 * user typed code into an interpreter or behind its -c. cloudpickle sends functions of the main
 * program to other processes (joblib, Ray, Dask) as "<dynamic-code>". */
static bool is_generated(const struct profile_frame *frame)
{
	static const char *const own[] = {"<stdin>", "<ipython-input-", PICKLED, NULL};

	return begins_with(frame->file, "<") && !frame->of_command &&
	       !text_begins_with_one_of(frame->file, own);
}

/* Not code of the interpreter, of an installed package or written by torch.compile. Captures from
 * before packages were recorded tell them by their folders alone. */
bool location_is_own_python(const struct profile_frame *frame)
{
	const char *file = frame->file, *name = base_name(file);
	/* wherever TORCHINDUCTOR_CACHE_DIR is: "iu/ciuoqj….py", where the folder has the first two
	 * letters of the name, which is a hash */
	bool is_of_inductor =
		strstr(file, "/torchinductor_") ||
		(strlen(name) == INDUCTOR_NAME_BYTES && name - file > 3 && name[-4] == '/' &&
		 name[0] == 'c' && !strncmp(name - 3, name + 1, 2));

	return frame->language == PERFX_LANGUAGE_PYTHON && frame->function[0] &&
	       !frame->of_package && !strstr(file, "/site-packages/") &&
	       !strstr(file, "/dist-packages/") && !is_standard_library(file) && !is_of_inductor &&
	       !is_generated(frame);
}

size_t location_module(const char *path, const char **package)
{
	size_t length = strcspn(path, "/");

	*package = path;
	return length > 3 && !strncmp(path + length - 3, ".py", 3) ? length - 3 : length;
}

size_t location_package(const char *file, const char **package)
{
	static const char *const folders[] = {"/site-packages/", "/dist-packages/"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *folder = strstr(file, folders[i]);

		if (folder)
			return location_module(folder + strlen(folders[i]), package);
	}
	return 0;
}

/* "bin/train", which pip makes of an entry point: it calls one function of its package. */
#define ENTRY_POINT_LINES 12

static bool is_entry_point(const struct profile_frame *frame)
{
	const char *name = base_name(frame->file);

	return !strcmp(frame->function, "<module>") && frame->line <= ENTRY_POINT_LINES &&
	       !strchr(name, '.') && name - frame->file >= 4 && begins_with(name - 4, "bin/");
}

/* The package that is the program: the outermost code is its module, by -m or by its entry point,
 * or a function that it runs in a process of multiprocessing.
 * 0: the program is in no package, or in another process, of which this is a pool's worker. */
static size_t program_package(const struct profile_frame *const *frames, size_t count,
			      const char **package)
{
	bool entered = false;

	for (size_t i = 0; i < count; i++)
		if ((frame_is(frames[i], CODE_POOL_LOOP) ||
		     frame_is(frames[i], CODE_LOADER_WORKER)))
			return 0;
	for (size_t i = count; i-- > 0;) {
		const struct profile_frame *frame = frames[i];
		size_t length = location_package(frame->file, package);

		entered |= frame_is(frame, CODE_PROCESS_START);
		if (frame->language != PERFX_LANGUAGE_PYTHON ||
		    (!length && (is_standard_library(frame->file) || is_generated(frame))))
			continue;
		if (!is_entry_point(frame))
			return entered || !strcmp(frame->function, "<module>") ? length : 0;
		entered = true;
	}
	return 0;
}

size_t location_own_python(const struct profile_frame *const *frames, size_t count)
{
	const char *program, *package;
	size_t own = 0, length;

	while (own < count && !location_is_own_python(frames[own]))
		own++;
	if (own < count && !is_entry_point(frames[own]))
		return own;
	length = program_package(frames, count, &program);
	for (size_t i = 0; i < own && length; i++)
		if (frames[i]->language == PERFX_LANGUAGE_PYTHON && frames[i]->function[0] &&
		    location_package(frames[i]->file, &package) == length &&
		    !strncmp(package, program, length))
			return i;
	return own;
}

size_t location_python(const struct profile_frame *const *frames, size_t count)
{
	size_t at = location_own_python(frames, count);

	if (at < count)
		return at;
	for (at = 0; at < count; at++)
		if (frames[at]->language == PERFX_LANGUAGE_PYTHON && frames[at]->function[0])
			break;
	return at;
}

/* A library of the system or of a package. A program may keep its own libraries in "lib", too:
 * those have source lines. */
static bool is_library(const struct profile_frame *frame)
{
	static const char *const folders[] = {"/lib/",	  "/lib32/",	    "/lib64/",
					      "/usr/lib", "/usr/local/lib", NULL};

	return text_begins_with_one_of(frame->module, folders) ||
	       strstr(frame->module, "/site-packages/") ||
	       strstr(frame->module, "/dist-packages/") || frame_is_system_library(frame) ||
	       frame_is_interpreter(frame) ||
	       (!frame->file[0] && strstr(frame->module, "/lib/lib"));
}

enum own_rank { NOT_OWN, WITHOUT_NAME, WITH_NAME, WITH_SOURCE };

/* Static libraries mostly lack the source lines that the program itself has. Compilers that run
 * with the program give names to what they make of its code, and no lines. */
static enum own_rank own_rank_of(const struct profile_frame *frame)
{
	if (frame->language == PERFX_LANGUAGE_PYTHON || is_library(frame))
		return NOT_OWN;
	if (frame->file[0])
		return profile_is_library_source(frame) ? NOT_OWN : WITH_SOURCE;
	if (!frame->module[0])
		return frame->function[0] ? WITH_SOURCE : NOT_OWN;
	if (!frame->function[0])
		return WITHOUT_NAME;
	return profile_is_library_code(frame) ? NOT_OWN : WITH_NAME;
}

bool location_is_own_native(const struct profile_frame *frame)
{
	return own_rank_of(frame) == WITH_SOURCE;
}

size_t location_native(const struct profile_frame *const *frames, size_t count)
{
	enum own_rank best = NOT_OWN;
	size_t at = count;

	for (size_t i = 0; i < count && best != WITH_SOURCE; i++) {
		enum own_rank rank = own_rank_of(frames[i]);

		if (rank <= best)
			continue;
		best = rank;
		at = i;
	}
	return at;
}

size_t location_first(const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	/* operator new and what containers wrap around it; PyTorch's allocator and storage */
	static const char *const wrappers[] = {
		"operator new",	   "std::allocator",  "std::__new_allocator",
		"__gnu_cxx::",	   "std::_Vector_",   "std::_Rb_tree",
		"std::__detail::", "std::__allocate", NULL};
	size_t python = location_python(hotspot->frames, hotspot->frames_count), i, caller;

	if (python < hotspot->frames_count)
		return python;
	for (i = 0; i < hotspot->frames_count; i++) {
		const struct profile_frame *frame = hotspot->frames[i];
		bool is_allocator = false;

		/* an allocator that is linked into the program has no library to skip */
		FOR_EACH (allocator, memory->allocators)
			is_allocator |= begins_with(frame->module_base, "lib") &&
					!strcmp(allocator->name, hotspot->allocator) &&
					!strcmp(allocator->module, frame->module);
		if (!is_allocator && !text_begins_with_one_of(frame->function, wrappers) &&
		    !begins_with(frame->module_base, "libstdc++.") &&
		    !begins_with(frame->module_base, "libc10"))
			break;
	}
	caller = i;
	while (caller < hotspot->frames_count && profile_is_library_code(hotspot->frames[caller]))
		caller++;
	return caller < hotspot->frames_count && hotspot->frames[caller]->function[0] ? caller : i;
}

/* A template's name can be thousands of characters long; JSON has it whole. */
#define PLACE_COLUMNS 100

static void add_shortened(struct text *text, const char *name)
{
	struct text shortened = {0};

	utf8_shorten(&shortened, name, PLACE_COLUMNS);
	escape_name(text, text_peek(&shortened));
	text->failed |= shortened.failed;
	text_clear(&shortened);
}

/* Longer names are shown without the arguments of templates. */
#define FOLDED_BYTES 48

void location_place(struct text *text, const struct profile_frame *frame)
{
	struct profile_frame shown = *frame;
	struct text name = {0}, folded = {0};

	if (frame->language == PERFX_LANGUAGE_NATIVE && strlen(frame_label(frame)) > FOLDED_BYTES) {
		name_fold(&folded, frame_label(frame));
		shown.label = text_peek(&folded);
	}
	location_frame(&name, &shown, LOCATION_BRIEF);
	text_clear(&folded);
	add_shortened(text, text_peek(&name));
	text->failed |= name.failed;
	text_clear(&name);
}

void location_after(struct text *text, const char *words, const struct profile_frame *frame)
{
	if (!frame)
		return;
	text_add(text, words);
	location_place(text, frame);
}

void location_hotspot(struct text *text, const struct profile *profile,
		      const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	const struct profile_function *function = profile_function(profile, hotspot->function);
	size_t first = location_first(memory, hotspot), with_line = first;

	if (first < hotspot->frames_count) {
		location_place(text, hotspot->frames[first]);
		/* where that is a library without lines, also the first frame around it that has */
		while (with_line < hotspot->frames_count && !hotspot->frames[with_line]->line)
			with_line++;
		if (with_line != first && with_line < hotspot->frames_count)
			location_after(text, " ← ", hotspot->frames[with_line]);
	} else if (function)
		add_shortened(text, function_label(function)[0] ? function_label(function) : "?");
	else if (hotspot->frames_count)
		location_place(text, hotspot->frames[0]);
	else
		text_add(text, "(no stack)");
}

bool domain_is_resident(enum perfx_domain domain)
{
	return domain == PERFX_DOMAIN_HOST || domain == PERFX_DOMAIN_TENSOR;
}

/* RSS is known every tenth of a second or so: less may be its peak's error. */
#define RESERVED_SHARE 1.25

bool bytes_are_reserved(const struct profile_process *process, enum perfx_domain domain,
			uint64_t bytes)
{
	return domain_is_resident(domain) && bytes != PROFILE_ABSENT &&
	       process->rss_peak_bytes != PROFILE_ABSENT &&
	       (double)bytes > RESERVED_SHARE * (double)process->rss_peak_bytes;
}

bool memory_is_reserved(const struct profile_process *process, const struct profile_memory *memory)
{
	return bytes_are_reserved(process, memory->domain, memory->peak_bytes);
}

const char *copy_words(enum perfx_gpu_op op, enum perfx_gpu_direction direction)
{
	static const char *const directions[PERFX_GPU_DIRECTIONS] = {
		[PERFX_GPU_HOST_TO_DEVICE] = "host to device",
		[PERFX_GPU_DEVICE_TO_HOST] = "device to host",
		[PERFX_GPU_DEVICE_TO_DEVICE] = "on the device",
		[PERFX_GPU_HOST_TO_HOST] = "host to host",
		[PERFX_GPU_PEER] = "device to device",
	};

	if (op == PERFX_GPU_OP_MEMSET)
		return "memset";
	return direction < PERFX_GPU_DIRECTIONS && directions[direction] ? directions[direction]
									 : "unknown";
}

const char *host_memory_words(enum perfx_gpu_host_memory memory)
{
	bool known =
		memory != PERFX_GPU_HOST_MEMORY_UNKNOWN && memory != PERFX_GPU_HOST_MEMORY_NONE;

	return known ? name_of_gpu_host_memory(memory) : "-";
}

bool memory_is_of_arrays(const struct profile_memory *memory)
{
	bool found = false;

	FOR_EACH (allocator, memory->allocators) {
		if (allocator->allocs_count && strcmp(allocator->name, "numpy") != 0)
			return false;
		found |= allocator->allocs_count > 0;
	}
	return found && memory->domain == PERFX_DOMAIN_TENSOR;
}

const char *memory_words(const struct profile_memory *memory)
{
	return memory_is_of_arrays(memory) ? "array memory" : domain_words(memory->domain);
}

const char *domain_words(enum perfx_domain domain)
{
	return domain == PERFX_DOMAIN_TENSOR ? "tensor memory"
	       : domain == PERFX_DOMAIN_GPU  ? "GPU memory"
	       : domain == PERFX_DOMAIN_USER ? "memory of custom allocators"
					     : "host heap";
}
