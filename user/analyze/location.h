/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of a source location: the same in findings, tables and JSON. */
#ifndef PERFX_ANALYZE_LOCATION_H
#define PERFX_ANALYZE_LOCATION_H

#include "aggregate/profile.h"
#include "base/text.h"

/* Adds, from the traced program and not escaped, what is known of
 *     function (file:line)    function (file)    function (module)    module+0xoffset    0xaddress
 */
enum location_style {
	LOCATION_FULL,
	LOCATION_BRIEF, /* files without their folders */
	LOCATION_LINE,	/* and a module only where nothing else is known */
};
void location_frame(struct text *text, const struct profile_frame *frame,
		    enum location_style style);

/* The same for a line, as LOCATION_BRIEF. */
void location_line(struct text *text, const struct profile_line *line);

/* Adds it as LOCATION_BRIEF, shortened and marked. */
void location_place(struct text *text, const struct profile_frame *frame);
/* The same after some words: ", in train (train.py:12)". Nothing if the frame is NULL. */
void location_after(struct text *text, const char *words, const struct profile_frame *frame);

/* The innermost Python frame of the program's own; count: none is. Where the program is a package,
 * started by -m or by its entry point, that package is its own. */
size_t location_own_python(const struct profile_frame *const *frames, size_t count);
/* The same or, without one, the innermost Python frame of any code. */
size_t location_python(const struct profile_frame *const *frames, size_t count);

/* The innermost native frame of the program's own; count: none is. Frames with a source line are
 * preferred, then those with a name. */
size_t location_native(const struct profile_frame *const *frames, size_t count);
/* A native frame with a source line outside of libraries, or of code that was compiled at run time.
 */
bool location_is_own_native(const struct profile_frame *frame);

/* Where to begin reading a stack: the innermost Python frame of the program's own, or of any; in a
 * stack without Python the innermost frame outside the allocator's own library and the C++
 * library's wrappers; frames_count when there is none. */
size_t location_first(const struct profile_memory *memory, const struct profile_hotspot *hotspot);

/* A Python frame outside of the interpreter's library and of installed packages. */
bool location_is_own_python(const struct profile_frame *frame);
/* "torch" of /usr/lib/python3/dist-packages/torch/serialization.py: returns its length, 0 outside
 * of site-packages and dist-packages. Points into file. */
size_t location_package(const char *file, const char **package);
/* The same of torch/serialization.py, or "threading" of threading.py. */
size_t location_module(const char *path, const char **package);

/* Adds where a hotspot allocates, marked: its first frame, and also the first frame with a line if
 * that one has none; else the traced function that was running; else any frame. */
void location_hotspot(struct text *text, const struct profile *profile,
		      const struct profile_memory *memory, const struct profile_hotspot *hotspot);

/* Are its blocks in resident memory? A GPU's are not, those of the program's own allocators may be
 * elsewhere. */
bool domain_is_resident(enum perfx_domain domain);
/* Was less resident than these bytes, or than the domain's peak? An allocator's reservations are no
 * memory yet. */
bool bytes_are_reserved(const struct profile_process *process, enum perfx_domain domain,
			uint64_t bytes);
bool memory_is_reserved(const struct profile_process *process, const struct profile_memory *memory);
/* Did NumPy alone allocate it, also for libraries such as pandas and scikit-learn? */
bool memory_is_of_arrays(const struct profile_memory *memory);
/* "host heap", "tensor memory", "GPU memory" */
const char *domain_words(enum perfx_domain domain);
/* domain_words(), but "array memory" if memory_is_of_arrays(). */
const char *memory_words(const struct profile_memory *memory);
/* "host to device", "memset" */
const char *copy_words(enum perfx_gpu_op op, enum perfx_gpu_direction direction);
/* "pinned"; "-": it does not matter, or is not known */
const char *host_memory_words(enum perfx_gpu_host_memory memory);

#endif
