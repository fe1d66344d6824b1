// SPDX-License-Identifier: BSD-2-Clause
#include "decode/names.h"

#include <stddef.h>

/* No default anywhere: the compiler finds the value that has no name yet. */
#define NAME(value, text) \
	case value:       \
		return text

const char *name_of_kind(enum perfx_kind kind)
{
#define KIND_NAME(upper, lower, ...) NAME(PERFX_KIND_##upper, #lower);
	switch (kind) {
		PERFX_RECORDS(KIND_NAME)
	case PERFX_KIND_INVALID:
		break;
	}
#undef KIND_NAME
	return NULL;
}

const char *name_of_source(enum perfx_source source)
{
	switch (source) {
		NAME(PERFX_SOURCE_PERFX, "perfx");
		NAME(PERFX_SOURCE_SYMBOL, "symbol");
		NAME(PERFX_SOURCE_TORCH, "torch");
		NAME(PERFX_SOURCE_JAX, "jax");
		NAME(PERFX_SOURCE_XLA, "xla");
		NAME(PERFX_SOURCE_TF, "tf");
		NAME(PERFX_SOURCE_NVTX, "nvtx");
		NAME(PERFX_SOURCE_ROCTX, "roctx");
		NAME(PERFX_SOURCE_ITT, "itt");
		NAME(PERFX_SOURCE_USDT, "usdt");
		NAME(PERFX_SOURCE_BLAS, "blas");
		NAME(PERFX_SOURCE_CUDA, "cuda");
		NAME(PERFX_SOURCE_NCCL, "nccl");
		NAME(PERFX_SOURCE_MPI, "mpi");
	case PERFX_SOURCE_INVALID:
		break;
	}
	return "symbol";
}

const char *name_of_alignment(enum perfx_alignment alignment)
{
	switch (alignment) {
		NAME(PERFX_ALIGNMENT_REFERENCE, "reference");
		NAME(PERFX_ALIGNMENT_SAME_BOOT, "same_boot");
		NAME(PERFX_ALIGNMENT_COLLECTIVES, "collectives");
		NAME(PERFX_ALIGNMENT_BACKWARD, "backward");
		NAME(PERFX_ALIGNMENT_WALL_CLOCK, "wall_clock");
	case PERFX_ALIGNMENT_INVALID:
		break;
	}
	return "unknown";
}

const char *name_of_dtype(enum perfx_dtype dtype)
{
	switch (dtype) {
		NAME(PERFX_DTYPE_F64, "f64");
		NAME(PERFX_DTYPE_F32, "f32");
		NAME(PERFX_DTYPE_F16, "f16");
		NAME(PERFX_DTYPE_BF16, "bf16");
		NAME(PERFX_DTYPE_F8, "f8");
		NAME(PERFX_DTYPE_C128, "c128");
		NAME(PERFX_DTYPE_C64, "c64");
		NAME(PERFX_DTYPE_INTEGER, "integer");
		NAME(PERFX_DTYPE_TF32, "tf32");
	case PERFX_DTYPE_UNKNOWN:
		break;
	}
	return "unknown";
}

const char *name_of_peak_origin(enum perfx_peak_origin origin)
{
	switch (origin) {
		NAME(PERFX_PEAK_MEASURED, "measured");
		NAME(PERFX_PEAK_CACHED, "cached");
		NAME(PERFX_PEAK_ESTIMATED, "estimated");
	case PERFX_PEAK_GIVEN:
		break;
	}
	return "given";
}

const char *name_of_domain(enum perfx_domain domain)
{
	switch (domain) {
		NAME(PERFX_DOMAIN_HOST, "host");
		NAME(PERFX_DOMAIN_TENSOR, "tensor");
		NAME(PERFX_DOMAIN_GPU, "gpu");
		NAME(PERFX_DOMAIN_USER, "user");
	case PERFX_DOMAIN_INVALID:
		break;
	}
	return "unknown";
}

const char *name_of_link(enum perfx_link link)
{
	switch (link) {
		NAME(PERFX_LINK_SESSION, "session");
		NAME(PERFX_LINK_MULTI, "multi");
		NAME(PERFX_LINK_PERF, "perf");
		NAME(PERFX_LINK_SINGLE, "single");
	case PERFX_LINK_INVALID:
		break;
	}
	return "none";
}

const char *name_of_return(enum perfx_return ret)
{
	switch (ret) {
		NAME(PERFX_RETURN_EXIT, "exit");
		NAME(PERFX_RETURN_PROBE, "probe");
	case PERFX_RETURN_NONE:
		break;
	}
	return "none";
}

const char *name_of_site(enum perfx_site site)
{
	switch (site) {
		NAME(PERFX_SITE_NOP5, "nop5");
		NAME(PERFX_SITE_NOP, "nop");
		NAME(PERFX_SITE_PUSH, "push");
		NAME(PERFX_SITE_BRANCH, "branch");
		NAME(PERFX_SITE_STEPPED, "stepped");
	case PERFX_SITE_NONE:
		break;
	}
	return "none";
}

struct named {
	const char *name, *meaning;
};

#define NAMED(value, name, meaning) \
	case value:                 \
		return ((struct named){name, meaning})

const char *name_of_memory_level(enum perfx_memory_level level)
{
	switch (level) {
		NAME(PERFX_MEMORY_EXACT, "exact");
		NAME(PERFX_MEMORY_SAMPLED, "sampled");
		NAME(PERFX_MEMORY_SAMPLED_IN, "sampled_in");
		NAME(PERFX_MEMORY_FREES_INFERRED, "frees_inferred");
	case PERFX_MEMORY_OFF:
		break;
	}
	return "off";
}

const char *name_of_language(enum perfx_language language)
{
	return language == PERFX_LANGUAGE_PYTHON ? "python" : "native";
}

static struct named stack_end_names(enum perfx_stack_end end)
{
	switch (end) {
		NAMED(PERFX_STACK_END_START, "start", "the thread's start");
		NAMED(PERFX_STACK_END_DEPTH, "depth", "deeper than what is recorded");
		NAMED(PERFX_STACK_END_NO_MAPPING, "no_mapping",
		      "code without a file, compiled at run time");
		NAMED(PERFX_STACK_END_NO_TABLE, "no_table", "unwind table not loaded yet");
		NAMED(PERFX_STACK_END_NO_RULE, "no_rule", "code without unwind information");
		NAMED(PERFX_STACK_END_BAD_RULE, "bad_rule",
		      "unwind information that is not supported");
		NAMED(PERFX_STACK_END_UNREADABLE, "unreadable", "stack memory not readable");
		NAMED(PERFX_STACK_END_NOT_RISING, "not_rising", "frames out of order");
		NAMED(PERFX_STACK_END_FRAME_POINTER, "frame_pointer",
		      "end of the chain of frame pointers");
		NAMED(PERFX_STACK_END_LEFT_OUT, "left_out", "not followed, to save time");
		NAMED(PERFX_STACK_END_BAD_ADDRESS, "bad_address",
		      "return address outside of all code");
	case PERFX_STACK_END_UNKNOWN:
		break;
	}
	return (struct named){"unknown", "not recorded"};
}

const char *name_of_stack_end(enum perfx_stack_end end)
{
	return stack_end_names(end).name;
}

const char *meaning_of_stack_end(enum perfx_stack_end end)
{
	return stack_end_names(end).meaning;
}

const char *name_of_wait(enum perfx_wait_reason reason)
{
	switch (reason) {
		NAME(PERFX_WAIT_READ, "read");
		NAME(PERFX_WAIT_WRITE, "write");
		NAME(PERFX_WAIT_POLL, "poll");
		NAME(PERFX_WAIT_EPOLL, "epoll");
		NAME(PERFX_WAIT_FUTEX, "futex");
		NAME(PERFX_WAIT_GIL, "gil");
		NAME(PERFX_WAIT_SLEEP, "sleep");
		NAME(PERFX_WAIT_WAIT, "wait");
		NAME(PERFX_WAIT_DISK, "disk");
		NAME(PERFX_WAIT_PAGE_FAULT, "page_fault");
		NAME(PERFX_WAIT_RUNNABLE, "runnable");
		NAME(PERFX_WAIT_SYSCALL, "syscall");
		NAME(PERFX_WAIT_STOPPED, "stopped");
	case PERFX_WAIT_NONE:
		break;
	}
	return "none";
}

const char *name_of_gpu_op(enum perfx_gpu_op op)
{
	switch (op) {
		NAME(PERFX_GPU_OP_KERNEL, "kernel");
		NAME(PERFX_GPU_OP_COPY, "copy");
		NAME(PERFX_GPU_OP_MEMSET, "memset");
		NAME(PERFX_GPU_OP_GRAPH, "graph");
		NAME(PERFX_GPU_OP_SYNC, "sync");
	case PERFX_GPU_OP_INVALID:
		break;
	}
	return "unknown";
}

const char *name_of_gpu_direction(enum perfx_gpu_direction direction)
{
	switch (direction) {
		NAME(PERFX_GPU_HOST_TO_DEVICE, "host_to_device");
		NAME(PERFX_GPU_DEVICE_TO_HOST, "device_to_host");
		NAME(PERFX_GPU_DEVICE_TO_DEVICE, "device_to_device");
		NAME(PERFX_GPU_HOST_TO_HOST, "host_to_host");
		NAME(PERFX_GPU_PEER, "peer");
	case PERFX_GPU_DIRECTION_UNKNOWN:
		break;
	}
	return "unknown";
}

const char *name_of_gpu_copy(enum perfx_gpu_op op, enum perfx_gpu_direction direction)
{
	return op == PERFX_GPU_OP_MEMSET ? "memset" : name_of_gpu_direction(direction);
}

const char *name_of_gpu_host_memory(enum perfx_gpu_host_memory memory)
{
	switch (memory) {
		NAME(PERFX_GPU_HOST_MEMORY_PAGEABLE, "pageable");
		NAME(PERFX_GPU_HOST_MEMORY_PINNED, "pinned");
		NAME(PERFX_GPU_HOST_MEMORY_NONE, "none");
		NAME(PERFX_GPU_HOST_MEMORY_MANAGED, "managed");
	case PERFX_GPU_HOST_MEMORY_UNKNOWN:
		break;
	}
	return "unknown";
}

const char *name_of_gpu_agent_state(enum perfx_gpu_agent_state state)
{
	switch (state) {
		NAME(PERFX_GPU_AGENT_ON, "on");
		NAME(PERFX_GPU_AGENT_REFUSED, "refused");
		NAME(PERFX_GPU_AGENT_STEPPED_ASIDE, "stepped_aside");
		NAME(PERFX_GPU_AGENT_STOPPED, "stopped");
		NAME(PERFX_GPU_AGENT_FAILED, "failed");
	case PERFX_GPU_AGENT_INVALID:
		break;
	}
	return "unknown";
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
