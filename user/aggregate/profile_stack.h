/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the profile (aggregate/profile.h) that says where: frames, stacks and lines. */
#ifndef PERFX_AGGREGATE_PROFILE_STACK_H
#define PERFX_AGGREGATE_PROFILE_STACK_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "Not measured"; writers leave such a field out. */
#define PROFILE_ABSENT UINT64_MAX

/* A place in the program. Inlined functions are frames of their own. */
struct profile_frame {
	const char *function; /* demangled; Python: qualified; "": unknown */
	const char *label;    /* shown to users: cost/operator_label.h; NULL: function */
	const char *module, *module_base; /* "": code without a file */
	const char *file;		  /* source; "": unknown */
	uint32_t line;			  /* 0: unknown */
	uint64_t address, offset;	  /* in the process; in the module's file */
	enum perfx_language language;
	bool gone;	   /* Python: the code object was no longer there when it was to be named */
	bool of_package;   /* its file was found to be of an installed package */
	bool is_generator; /* Python: its caller resumes it */
	bool spins;	   /* its instruction is in a loop that only waits (site/spin.h) */
	bool of_command;   /* python -c: the code of "<string>" is the main program */
};

/* The name that reports show. */
static inline const char *frame_label(const struct profile_frame *frame)
{
	return frame->label ? frame->label : frame->function;
}

struct profile_stack {
	const struct profile_frame *const *frames; /* innermost first */
	size_t frames_count;
	uint32_t flags;	      /* PERFX_STACK_ */
	uint32_t process, id; /* as records refer to it */
};

/* Is it libc, a part of it, or a library of the compiler? An interpreter calls these without being
 * in an extension, and nobody looks for source lines in them. */
bool module_is_of_system(const char *base_name);
bool frame_is_system_library(const struct profile_frame *frame);
/* Is its source that of a standard library or of another package? By its file, in Go's standard
 * library by its function. */
bool profile_is_library_source(const struct profile_frame *frame);
/* The same; where no source line is known, by its name. */
bool profile_is_library_code(const struct profile_frame *frame);

/* The frame that a stack's line is: the innermost of the language; of native ones the innermost
 * with a source line, where there is one outside of standard libraries and packages. NULL: there is
 * none. */
const struct profile_frame *profile_line_frame(const struct profile_frame *const *frames,
					       size_t count, enum perfx_language language);

/* The frame of a sample's line in `lines`: the same, or that of a native function without a known
 * line. stack NULL, or NULL: there is none. */
const struct profile_frame *profile_sample_line(const struct profile_stack *stack,
						enum perfx_language language);

#define PROFILE_INTERPRETER "(interpreter)"

/* Where stacks ended that did not reach the thread's start. */
struct profile_stack_ends {
	enum perfx_stack_end end;
	const char *module, *module_base; /* of the last frame; "": code without a file */
	uint64_t count;
};

#define PROFILE_STACK_ENDS_MAX 32

/* Over all that names a stack: allocations, samples, the first call of each calling context. */
struct profile_stack_quality {
	uint64_t taken_count, complete_count, guessed_count, cut_count;
	uint64_t left_out_count; /* not taken, because too many cost too much */
	bool known;		 /* otherwise of a capture from before this was recorded */
	struct profile_stack_ends ends[PROFILE_STACK_ENDS_MAX]; /* count descending */
	size_t ends_count;
	uint64_t gone_count; /* code objects that could not be named */
};

/* A line of the program. */
struct profile_line {
	const char *file, *function; /* "": unknown */
	const char *label;	     /* of the function, shown to users; NULL: function */
	/* Code without a known line has its module and, if its name is not known either, its offset
	 * in the module. Otherwise "" and 0. */
	const char *module_base;
	uint64_t offset;
	uint32_t line;
	enum perfx_language language;
	bool of_package, of_command; /* as of its frames */
	/* Sampled. */
	uint64_t samples_count, on_cpu_ns, off_cpu_ns;
	/* In the outermost traced calls that the line made; PROFILE_ABSENT: native. */
	uint64_t calls_ns;
	/* Allocations at this line, in one domain. */
	enum perfx_domain domain; /* PERFX_DOMAIN_INVALID: nothing */
	uint64_t allocs_count, alloc_bytes;
};

#endif
