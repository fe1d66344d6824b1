/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan: which functions of which files are traced, how each is timed, on which instructions.
 * Reads processes and files, changes neither. It grows as libraries and children arrive. Planned
 * functions never change or move, so indices stay valid. If attaching must choose differently, it
 * keeps its own choice: struct placed in attach/.
 */
#ifndef PERFX_PLAN_PLAN_H
#define PERFX_PLAN_PLAN_H

#include "base/grow.h"
#include "elf/pattern.h"
#include "perfx_config.h"
#include "perfx_record.h"
#include "plan/skipped.h"
#include "proc/maps.h"
#include "site/site.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct image;

enum return_mode { RETURN_AUTO = 0, RETURN_EXIT, RETURN_PROBE };

/* --memory. TENSOR: allocation probes of the tensor and gpu domains are planned; OFF: none; the
 * others: all. */
enum memory_choice {
	MEMORY_DEFAULT = 0,
	MEMORY_OFF,
	MEMORY_TENSOR,
	MEMORY_ALL,
	MEMORY_SAMPLED,
};

/* --host-level. */
enum host_level {
	HOST_DEFAULT = 0, /* OPERATORS */
	HOST_OFF,	  /* only functions that -F names */
	HOST_ANNOTATIONS, /* also functions and ranges that programs mark */
	HOST_OPERATORS,	  /* also the operators that do most of the work */
	HOST_EVERYTHING,  /* also all other operators of the frameworks */
};

/* --gpu: the recorded part of GPU work. */
enum gpu_level {
	GPU_DEFAULT = 0, /* CALLS, unless -F or --host-level leave out what is traced by default */
	GPU_OFF,
	GPU_CALLS,	 /* level 0: the calls that hand it over, by their arguments */
	GPU_AGENT,	 /* level 1: also what the device does, by an agent in the process */
	GPU_AGENT_NODES, /* level 2: also what graphs consist of */
};

struct plan_options {
	struct pattern *const *patterns; /* -F; borrowed. None that includes: the defaults */
	size_t patterns_count;
	enum return_mode return_mode;
	struct site_options site; /* entry_only, optimized_nop5, nop5_kills */
	/* Session links: an entry can decline its return probe. Without, the kernel drops those
	 * nested deeper than 64 a thread, and logs each. */
	bool return_guard;
	size_t functions_max; /* allocation probes not counted */
	enum memory_choice memory;
	const struct cost_model *cost_model; /* borrowed; NULL: no known cost */
	const struct operators *operators;   /* borrowed; NULL: no rules */
	/* Default functions with a known cost are traced beside those that the patterns name. */
	bool flops_too;
	enum host_level host_level;
	enum gpu_level gpu;
	const char *const *usdt; /* --usdt, globs of provider:name; borrowed */
	size_t usdt_count;
	const char *step_range; /* --step-range; NULL: none */
	/* This machine has no NVIDIA driver: CUDA's libraries, which packages load all the same,
	 * are skipped unless a pattern names them or the process maps a libcuda.so. */
	bool no_cuda;
	bool nvtx_injected;    /* NVTX 3 goes to our library: its own functions are not probed */
	bool python_functions; /* are recorded as ranges */
	bool files_only;       /* finds ML libraries, and no functions */
	bool wait;	       /* --wait: the program's marks that start and stop it are read */
	bool files;	       /* calls of the C library on files and sockets are recorded */
	/* The folder where findings of big files are kept (image__keep_facts); borrowed. NULL: they
	 * are not. */
	const char *facts_folder;
};

/* The purpose of a probe: an entry for each, though they may share an offset. */
enum plan_role {
	PLAN_CALLS = 1,	  /* its calls are recorded */
	PLAN_HINT,	  /* a place in a function, where perfx_flops() was written */
	PLAN_ALLOC_PROBE, /* an allocator's function; one entry for each thing that it reports */
	PLAN_ANNOTATION,  /* an annotation function (NVTX, …) */
	PLAN_USDT,	  /* annotates, or was asked for; places of one probe have one name */
	PLAN_FILE_CALL,	  /* a call of the C library on files and sockets */
};

/* Functions that need the same BPF programs; bits. */
enum plan_kind {
	PLAN_KIND_CALLS = 1,
	PLAN_KIND_CALL_RETURNS = 2, /* may be timed by return probes */
	PLAN_KIND_ALLOCS = 4,
	PLAN_KIND_ALLOC_RETURNS = 8,
	PLAN_KIND_ANNOTATIONS = 16,
	PLAN_KIND_FILE_CALLS = 32,
};

struct plan_function {
	enum plan_role role;
	uint32_t module; /* index */
	char *name;	 /* demangled */
	char *symbol;	 /* as in the file */
	uint64_t vaddr, offset, size;
	enum perfx_source source;
	struct site_plan site;
	enum perfx_return ret;	 /* how it may be timed in any process; see plan_return */
	const char *ret_why;	 /* static: why it is timed this way */
	bool return_if_c;	 /* by return probe, as long as nothing unwinds (plan.c_alone) */
	bool by_default;	 /* not asked for: may be dropped when it is too expensive */
	uint32_t cost_program;	 /* index into plan.cost_programs; 0: none */
	const char *cost_origin; /* where it is written; borrowed from options.cost_model */
	const char *cost_why;	 /* static: why it has none, though its work is known; or NULL */
	bool is_entry_point;	 /* of its file: it has no return address */
	unsigned stream_flags;	 /* PERFX_FUNCTION_, of its FUNCTION record */
	uint16_t operator_bytes; /* operator_name_bytes(), of its FUNCTION record */
	union {			 /* by role */
		struct {	 /* CALLS; read by plan_object_arg and the like */
			/* XLA's executor: the argument, from 1, that points to the thunk it runs,
			 * at the site; 0: another function. */
			uint8_t object_arg;
			/* And the one that says where its result goes; 0: not known there. */
			uint8_t event_arg;
			/* Works for what that executor runs: of use by default only where the
			 * thunks cannot be read. */
			bool is_worker;
		} calls;
		struct {	       /* ALLOC_PROBE */
			bool is_usual; /* most blocks of its allocator pass here */
			/* allocator: index into plan.allocators + 1 */
			struct perfx_alloc_probe alloc_probe;
		};
		struct { /* ANNOTATION, USDT, FILE_CALL */
			struct perfx_annotation annotation;
			uint64_t semaphore_offset; /* USDT: in the file; 0: none */
		};
	};
};

/* Has the function a rule in the table of annotations? */
static inline bool plan_is_annotation(const struct plan_function *function)
{
	return function->role == PLAN_ANNOTATION || function->role == PLAN_USDT ||
	       function->role == PLAN_FILE_CALL;
}

/* Does the function end ranges of PyTorch, of which other functions have ended nearly all? */
static inline bool plan_ends_again(const struct plan_function *function)
{
	return plan_is_annotation(function) && function->source == PERFX_SOURCE_TORCH &&
	       function->by_default;
}

static inline uint8_t plan_object_arg(const struct plan_function *function)
{
	return function->role == PLAN_CALLS ? function->calls.object_arg : 0;
}

static inline uint8_t plan_event_arg(const struct plan_function *function)
{
	return function->role == PLAN_CALLS ? function->calls.event_arg : 0;
}

static inline bool plan_is_worker(const struct plan_function *function)
{
	return function->role == PLAN_CALLS && function->calls.is_worker;
}

static inline bool plan_is_go(const struct plan_function *function)
{
	return function->stream_flags & PERFX_FUNCTION_GO;
}

static inline uint64_t plan_semaphore(const struct plan_function *function)
{
	return function->role == PLAN_USDT ? function->semaphore_offset : 0;
}

struct plan_module {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	char *path, *base, *soname, *build_id;
	int fd;		     /* kept while it has functions; -1 otherwise */
	bool is_ml;	     /* an ML library, or annotated: -a traces its processes */
	bool exports_malloc; /* other modules may call it */
	bool defines_malloc; /* exported or not */
	size_t functions_first, functions_count; /* in plan.functions */
	struct plan_file_state {
		uint64_t size_bytes;
		struct timespec written, changed;
		bool linked;
		bool overlay; /* it is seen through an overlay, as roots of containers are */
	} state;	      /* of the file when it was planned */
	bool overwritten;     /* its content has been replaced since */
	bool successor;	      /* it is the new content of an overwritten module */
};

static inline struct module_names plan_module_names(const struct plan_module *module)
{
	return (struct module_names){.base = module->base, .soname = module->soname};
}

/* Another name of a module: the same file of an image, seen through the overlays of several
 * containers. A probe in the one is a probe in all. */
struct plan_alias {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	size_t module;
};

/* An allocator: of one file, in one domain. */
struct plan_allocator {
	char *name;
	uint32_t module;
	enum perfx_domain domain;
};

struct plan {
	struct plan_options options;
	bool c_alone;	  /* all processes so far are C and nothing else, on one stack a thread */
	bool many_stacks; /* some file switches stacks (coroutines) */
	struct plan_module *modules;
	size_t modules_count, modules_capacity;
	struct plan_alias *aliases;
	size_t aliases_count, aliases_capacity;
	struct plan_function *functions;
	size_t functions_count, functions_capacity; /* allocation probes too */
	size_t alloc_probes_count, annotations_count;
	_Atomic uint32_t kinds; /* enum plan_kind; read by another thread meanwhile */
	bool has_python;	/* an interpreter is mapped */
	bool has_framework;	/* a file is mapped whose tensors are probed */
	struct plan_allocator *allocators;
	size_t allocators_count, allocators_capacity;
	struct perfx_cost_program *cost_programs; /* index 0 unused */
	size_t cost_programs_count;
	size_t cost_programs_capacity;
	struct skipped_list skipped;
	/* per pattern: did it see a module of its name, did it match a function */
	bool *pattern_saw_module, *pattern_matched;
	struct prefixes interest; /* of the mangled names that are known */
	uint64_t tool_id;	  /* of this program's own build; 0: not known */
};

/* Is a function's work known? Its program (0: none) may only remember or count something. */
static inline bool plan_knows_work(const struct plan *plan, uint32_t cost_program)
{
	return cost_program && !(plan->cost_programs[cost_program].flags & PERFX_COST_F_NOTES);
}

/* Do FLOPs depend on a function's calls? Its program counts FLOPs, or keeps an operand (a matrix's
 * shape) for one that does. Programs that only describe launches and copies count none. */
bool plan_flops_rest_on(const struct plan *plan, uint32_t cost_program);

/* NULL with errno. options is copied, the patterns it points to are borrowed. */
struct plan *plan__new(const struct plan_options *options);
void plan__free(struct plan *plan);

/*
 * Reads which files a process maps, and plans the new ones. Returns how many of its modules have
 * functions, or with files_only are ML libraries, in *modules their indices (malloc'd), or -errno:
 *   -ESRCH, -EACCES  the process;  -E2BIG  more functions than functions_max
 */
ssize_t plan__scan(struct plan *plan, pid_t pid, size_t **modules);

/* Plans a file that no process needs to map. inode: of the expected file, 0: any.
 * Returns the index of its module, -ENOENT, -ENOMEM or -E2BIG. */
ssize_t plan__add_file(struct plan *plan, const char *path, uint64_t inode);

/* The module of a file, by its identity in /proc/PID/maps; -ENOENT: not planned yet. */
ssize_t plan__find(const struct plan *plan, uint64_t inode, uint32_t dev_major, uint32_t dev_minor);

/* Has a file been written to since it was planned? */
bool plan__has_changed(const struct plan *plan, size_t module);
/* Forgets a changed file: it is planned anew for the next process that maps it. */
void plan__forget(struct plan *plan, size_t module);

/* Does a hit begin a range, or mark an instant? */
bool plan_annotation_begins(const struct perfx_annotation *annotation);

/* How a function is timed, by the processes seen so far. */
enum perfx_return plan_return(const struct plan *plan, const struct plan_function *function);

/* The index of a pattern that matches nothing though its module is mapped, or -1. *why gets the
 * reason (malloc'd; NULL: out of memory): the file cannot be read or has no symbols, or it has no
 * such function, with similar names. Reads the process's mappings again. */
int plan__unmatched(struct plan *plan, pid_t pid, char **why);

/*
 * The module whose malloc a process calls: the first in the dynamic linker's search order. If the
 * program defines malloc without exporting it, only the program calls that one: *own is then its
 * module, otherwise -1. *guessed: the order could not be read; then the executable comes first, the
 * C library last. -ENOENT: no known one; -errno. To be called after plan__scan of the process.
 */
ssize_t plan__provider(const struct plan *plan, pid_t pid, ssize_t *own, bool *guessed);

/* Has no process mapped the pattern's module yet? */
bool plan__waits(const struct plan *plan, size_t pattern);

#endif
