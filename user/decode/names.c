// SPDX-License-Identifier: BSD-2-Clause
#include "decode/names.h"

#include <stddef.h>

/* A table of names by value; one that has none is `otherwise`. */
static const char *name_in(const char *const *names, size_t count, unsigned value,
			   const char *otherwise)
{
	return value < count && names[value] ? names[value] : otherwise;
}

#define COUNT(names)			 (sizeof(names) / sizeof(*(names)))
#define NAME_IN(names, value, otherwise) name_in((names), COUNT(names), (value), (otherwise))

const char *name_of_kind(enum perfx_kind kind)
{
	static const char *const names[] = {
#define KIND_NAME(upper, lower, ...) [PERFX_KIND_##upper] = #lower,
		PERFX_RECORDS(KIND_NAME)
#undef KIND_NAME
	};

	return NAME_IN(names, kind, NULL);
}

const char *name_of_source(enum perfx_source source)
{
	static const char *const names[] = {
		[PERFX_SOURCE_PERFX] = "perfx", [PERFX_SOURCE_SYMBOL] = "symbol",
		[PERFX_SOURCE_TORCH] = "torch", [PERFX_SOURCE_JAX] = "jax",
		[PERFX_SOURCE_XLA] = "xla",	[PERFX_SOURCE_TF] = "tf",
		[PERFX_SOURCE_NVTX] = "nvtx",	[PERFX_SOURCE_ROCTX] = "roctx",
		[PERFX_SOURCE_ITT] = "itt",	[PERFX_SOURCE_USDT] = "usdt",
		[PERFX_SOURCE_BLAS] = "blas",	[PERFX_SOURCE_CUDA] = "cuda",
		[PERFX_SOURCE_NCCL] = "nccl",	[PERFX_SOURCE_MPI] = "mpi"};
	_Static_assert(COUNT(names) == PERFX_SOURCES, "a source has no name");

	return NAME_IN(names, source, "symbol");
}

const char *name_of_alignment(enum perfx_alignment alignment)
{
	static const char *const names[] = {[PERFX_ALIGNMENT_REFERENCE] = "reference",
					    [PERFX_ALIGNMENT_SAME_BOOT] = "same_boot",
					    [PERFX_ALIGNMENT_COLLECTIVES] = "collectives",
					    [PERFX_ALIGNMENT_BACKWARD] = "backward",
					    [PERFX_ALIGNMENT_WALL_CLOCK] = "wall_clock"};

	return NAME_IN(names, alignment, "unknown");
}

const char *name_of_dtype(enum perfx_dtype dtype)
{
	static const char *const names[] = {
		[PERFX_DTYPE_F64] = "f64",  [PERFX_DTYPE_F32] = "f32",
		[PERFX_DTYPE_F16] = "f16",  [PERFX_DTYPE_BF16] = "bf16",
		[PERFX_DTYPE_F8] = "f8",    [PERFX_DTYPE_C128] = "c128",
		[PERFX_DTYPE_C64] = "c64",  [PERFX_DTYPE_INTEGER] = "integer",
		[PERFX_DTYPE_TF32] = "tf32"};
	_Static_assert(COUNT(names) == PERFX_DTYPES, "a type has no name");

	return NAME_IN(names, dtype, "unknown");
}

const char *name_of_peak_origin(enum perfx_peak_origin origin)
{
	static const char *const names[] = {[PERFX_PEAK_MEASURED] = "measured",
					    [PERFX_PEAK_CACHED] = "cached",
					    [PERFX_PEAK_ESTIMATED] = "estimated"};

	return NAME_IN(names, origin, "given");
}

const char *name_of_domain(enum perfx_domain domain)
{
	static const char *const names[] = {[PERFX_DOMAIN_HOST] = "host",
					    [PERFX_DOMAIN_TENSOR] = "tensor",
					    [PERFX_DOMAIN_GPU] = "gpu",
					    [PERFX_DOMAIN_USER] = "user"};
	_Static_assert(COUNT(names) == PERFX_DOMAINS, "a domain has no name");

	return NAME_IN(names, domain, "unknown");
}

const char *name_of_link(enum perfx_link link)
{
	static const char *const names[] = {[PERFX_LINK_SESSION] = "session",
					    [PERFX_LINK_MULTI] = "multi",
					    [PERFX_LINK_PERF] = "perf",
					    [PERFX_LINK_SINGLE] = "single"};

	return NAME_IN(names, link, "none");
}

const char *name_of_return(enum perfx_return ret)
{
	static const char *const names[] = {
		[PERFX_RETURN_EXIT] = "exit", [PERFX_RETURN_PROBE] = "probe"};

	return NAME_IN(names, ret, "none");
}

const char *name_of_site(enum perfx_site site)
{
	static const char *const names[] = {[PERFX_SITE_NOP5] = "nop5",
					    [PERFX_SITE_NOP] = "nop",
					    [PERFX_SITE_PUSH] = "push",
					    [PERFX_SITE_BRANCH] = "branch",
					    [PERFX_SITE_STEPPED] = "stepped"};

	return NAME_IN(names, site, "none");
}

const char *name_of_memory_level(enum perfx_memory_level level)
{
	static const char *const names[] = {[PERFX_MEMORY_EXACT] = "exact",
					    [PERFX_MEMORY_SAMPLED] = "sampled",
					    [PERFX_MEMORY_SAMPLED_IN] = "sampled_in",
					    [PERFX_MEMORY_FREES_INFERRED] = "frees_inferred"};

	return NAME_IN(names, level, "off");
}

const char *name_of_language(enum perfx_language language)
{
	return language == PERFX_LANGUAGE_PYTHON ? "python" : "native";
}

struct named {
	const char *name, *meaning;
};

static const struct named *named_stack_end(enum perfx_stack_end end)
{
	static const struct named ends[PERFX_STACK_ENDS] = {
		[PERFX_STACK_END_UNKNOWN] = {"unknown", "not recorded"},
		[PERFX_STACK_END_START] = {"start", "the thread's start"},
		[PERFX_STACK_END_DEPTH] = {"depth", "deeper than what is recorded"},
		[PERFX_STACK_END_NO_MAPPING] = {"no_mapping",
						"code without a file, compiled at run time"},
		[PERFX_STACK_END_NO_TABLE] = {"no_table", "unwind table not loaded yet"},
		[PERFX_STACK_END_NO_RULE] = {"no_rule", "code without unwind information"},
		[PERFX_STACK_END_BAD_RULE] = {"bad_rule",
					      "unwind information that is not supported"},
		[PERFX_STACK_END_UNREADABLE] = {"unreadable", "stack memory not readable"},
		[PERFX_STACK_END_NOT_RISING] = {"not_rising", "frames out of order"},
		[PERFX_STACK_END_FRAME_POINTER] = {"frame_pointer",
						   "end of the chain of frame pointers"},
		[PERFX_STACK_END_LEFT_OUT] = {"left_out", "not followed, to save time"},
		[PERFX_STACK_END_BAD_ADDRESS] = {"bad_address",
						 "return address outside of all code"},
	};

	return &ends[end < PERFX_STACK_ENDS && ends[end].name ? end : PERFX_STACK_END_UNKNOWN];
}

const char *name_of_stack_end(enum perfx_stack_end end)
{
	return named_stack_end(end)->name;
}

const char *meaning_of_stack_end(enum perfx_stack_end end)
{
	return named_stack_end(end)->meaning;
}

const char *name_of_target(enum perfx_target_kind kind)
{
	static const char *const names[PERFX_TARGET_KINDS] = {
		[PERFX_TARGET_UNKNOWN] = "unknown",	[PERFX_TARGET_FILE] = "file",
		[PERFX_TARGET_PIPE] = "pipe",		[PERFX_TARGET_SOCKET] = "socket",
		[PERFX_TARGET_EVENTS] = "events",	[PERFX_TARGET_CHILD] = "child",
		[PERFX_TARGET_TIMER] = "timer",		[PERFX_TARGET_MUTEX] = "mutex",
		[PERFX_TARGET_RWLOCK] = "rwlock",	[PERFX_TARGET_GIL] = "gil",
		[PERFX_TARGET_CONDITION] = "condition", [PERFX_TARGET_LOCK] = "lock",
		[PERFX_TARGET_THREAD] = "thread",	[PERFX_TARGET_FILE_LOCK] = "file_lock",
		[PERFX_TARGET_TERMINAL] = "terminal",	[PERFX_TARGET_GPU] = "gpu",
		[PERFX_TARGET_TRACER] = "tracer",
	};

	return names[kind < PERFX_TARGET_KINDS ? kind : PERFX_TARGET_UNKNOWN];
}

const char *name_of_wait(enum perfx_wait_reason reason)
{
	static const char *const names[PERFX_WAIT_REASONS] = {
		[PERFX_WAIT_READ] = "read",	    [PERFX_WAIT_WRITE] = "write",
		[PERFX_WAIT_POLL] = "poll",	    [PERFX_WAIT_EPOLL] = "epoll",
		[PERFX_WAIT_FUTEX] = "futex",	    [PERFX_WAIT_GIL] = "gil",
		[PERFX_WAIT_SLEEP] = "sleep",	    [PERFX_WAIT_WAIT] = "wait",
		[PERFX_WAIT_DISK] = "disk",	    [PERFX_WAIT_PAGE_FAULT] = "page_fault",
		[PERFX_WAIT_RUNNABLE] = "runnable", [PERFX_WAIT_SYSCALL] = "syscall",
		[PERFX_WAIT_STOPPED] = "stopped"};

	return NAME_IN(names, reason, "none");
}

const char *name_of_gpu_op(enum perfx_gpu_op op)
{
	static const char *const names[] = {[PERFX_GPU_OP_KERNEL] = "kernel",
					    [PERFX_GPU_OP_COPY] = "copy",
					    [PERFX_GPU_OP_MEMSET] = "memset",
					    [PERFX_GPU_OP_GRAPH] = "graph",
					    [PERFX_GPU_OP_SYNC] = "sync"};

	return NAME_IN(names, op, "unknown");
}

const char *name_of_gpu_direction(enum perfx_gpu_direction direction)
{
	static const char *const names[] = {[PERFX_GPU_HOST_TO_DEVICE] = "host_to_device",
					    [PERFX_GPU_DEVICE_TO_HOST] = "device_to_host",
					    [PERFX_GPU_DEVICE_TO_DEVICE] = "device_to_device",
					    [PERFX_GPU_HOST_TO_HOST] = "host_to_host",
					    [PERFX_GPU_PEER] = "peer"};

	return NAME_IN(names, direction, "unknown");
}

const char *name_of_gpu_copy(enum perfx_gpu_op op, enum perfx_gpu_direction direction)
{
	return op == PERFX_GPU_OP_MEMSET ? "memset" : name_of_gpu_direction(direction);
}

const char *name_of_gpu_host_memory(enum perfx_gpu_host_memory memory)
{
	static const char *const names[] = {[PERFX_GPU_HOST_MEMORY_PAGEABLE] = "pageable",
					    [PERFX_GPU_HOST_MEMORY_PINNED] = "pinned",
					    [PERFX_GPU_HOST_MEMORY_NONE] = "none",
					    [PERFX_GPU_HOST_MEMORY_MANAGED] = "managed"};

	return NAME_IN(names, memory, "unknown");
}

const char *name_of_gpu_agent_state(enum perfx_gpu_agent_state state)
{
	static const char *const names[] = {[PERFX_GPU_AGENT_ON] = "on",
					    [PERFX_GPU_AGENT_REFUSED] = "refused",
					    [PERFX_GPU_AGENT_STEPPED_ASIDE] = "stepped_aside",
					    [PERFX_GPU_AGENT_STOPPED] = "stopped",
					    [PERFX_GPU_AGENT_FAILED] = "failed"};

	return NAME_IN(names, state, "unknown");
}

static const struct named losses[] = {
#define LOSS_NAMES(kind, name, by, meaning) {name, meaning},
	PERFX_LOSSES(LOSS_NAMES)
#undef LOSS_NAMES
};

const char *name_of_loss(enum perfx_loss_kind loss)
{
	return loss < PERFX_LOSS_KINDS ? losses[loss].name : "unknown";
}

const char *meaning_of_loss(enum perfx_loss_kind loss)
{
	return loss < PERFX_LOSS_KINDS ? losses[loss].meaning : "";
}
