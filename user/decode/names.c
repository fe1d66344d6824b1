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
	case PERFX_SOURCE_INVALID:
		break;
	}
	return "symbol";
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
		NAME(PERFX_LINK_TRACEPOINT, "tracepoint");
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

struct loss_name {
	const char *name, *meaning;
};

static struct loss_name loss_names(enum perfx_loss_kind loss)
{
#define LOSS(value, name, meaning) \
	case value:                \
		return ((struct loss_name){name, meaning})
	switch (loss) {
		LOSS(PERFX_LOSS_RING_DROPS, "ring_drops",
		     "spans dropped, ring full; totals include them");
		LOSS(PERFX_LOSS_MAP_FULL, "map_full",
		     "calls without thread state or calling context, map full");
		LOSS(PERFX_LOSS_UNMATCHED_ENTRIES, "unmatched_entries",
		     "calls still running at the end");
		LOSS(PERFX_LOSS_UNMATCHED_RETURNS, "unmatched_returns",
		     "returns of calls that began before tracing");
		LOSS(PERFX_LOSS_STACK_FAILURES, "stack_failures",
		     "call stacks that could not be unwound");
		LOSS(PERFX_LOSS_READ_FAULTS, "read_faults", "failed reads of the program's memory");
		LOSS(PERFX_LOSS_UNTIMED_CALLS, "untimed_calls", "calls counted but not timed");
		LOSS(PERFX_LOSS_NMISSED, "nmissed", "probe hits that the kernel did not deliver");
		LOSS(PERFX_LOSS_DETACHED_PROBES, "detached_probes", "probes removed while tracing");
		LOSS(PERFX_LOSS_UNDECODED, "undecoded", "records that could not be decoded");
		LOSS(PERFX_LOSS_TRUNCATED_BYTES, "truncated_bytes",
		     "bytes lost at a damaged or cut end");
		LOSS(PERFX_LOSS_CONTROL_DROPS, "control_drops",
		     "process events dropped, ring full");
		LOSS(PERFX_LOSS_FOREIGN_HITS, "foreign_hits",
		     "hits in processes that are not traced");
		LOSS(PERFX_LOSS_MEMORY_DROPS, "memory_drops",
		     "allocations and frees dropped, ring full");
		LOSS(PERFX_LOSS_VALUE_DROPS, "value_drops",
		     "counter samples dropped, ring full; counted");
		LOSS(PERFX_LOSS_SAMPLE_DROPS, "sample_drops",
		     "samples of threads dropped, ring full");
	case PERFX_LOSS_KINDS:
		break;
	}
#undef LOSS
	return (struct loss_name){"unknown", ""};
}

const char *name_of_memory_level(enum perfx_memory_level level)
{
	switch (level) {
		NAME(PERFX_MEMORY_EXACT, "exact");
		NAME(PERFX_MEMORY_SAMPLED, "sampled");
		NAME(PERFX_MEMORY_SAMPLED_IN, "sampled_in");
	case PERFX_MEMORY_OFF:
		break;
	}
	return "off";
}

const char *name_of_loss(enum perfx_loss_kind loss)
{
	return loss_names(loss).name;
}

const char *meaning_of_loss(enum perfx_loss_kind loss)
{
	return loss_names(loss).meaning;
}
