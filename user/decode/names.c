// SPDX-License-Identifier: BSD-2-Clause
#include "decode/names.h"

/* No default anywhere: the compiler finds the value that has no name yet. */

const char *name_of_source(enum perfx_source source)
{
	switch (source) {
	case PERFX_SOURCE_PERFX:
		return "perfx";
	case PERFX_SOURCE_SYMBOL:
		return "symbol";
	case PERFX_SOURCE_TORCH:
		return "torch";
	case PERFX_SOURCE_JAX:
		return "jax";
	case PERFX_SOURCE_XLA:
		return "xla";
	case PERFX_SOURCE_TF:
		return "tf";
	case PERFX_SOURCE_NVTX:
		return "nvtx";
	case PERFX_SOURCE_ROCTX:
		return "roctx";
	case PERFX_SOURCE_ITT:
		return "itt";
	case PERFX_SOURCE_USDT:
		return "usdt";
	case PERFX_SOURCE_BLAS:
		return "blas";
	case PERFX_SOURCE_CUDA:
		return "cuda";
	case PERFX_SOURCE_NCCL:
		return "nccl";
	case PERFX_SOURCE_INVALID:
		break;
	}
	return "symbol";
}

const char *name_of_dtype(enum perfx_dtype dtype)
{
	switch (dtype) {
	case PERFX_DTYPE_F64:
		return "f64";
	case PERFX_DTYPE_F32:
		return "f32";
	case PERFX_DTYPE_F16:
		return "f16";
	case PERFX_DTYPE_BF16:
		return "bf16";
	case PERFX_DTYPE_F8:
		return "f8";
	case PERFX_DTYPE_C128:
		return "c128";
	case PERFX_DTYPE_C64:
		return "c64";
	case PERFX_DTYPE_INTEGER:
		return "integer";
	case PERFX_DTYPE_TF32:
		return "tf32";
	case PERFX_DTYPE_UNKNOWN:
		break;
	}
	return "unknown";
}

const char *name_of_peak_origin(enum perfx_peak_origin origin)
{
	switch (origin) {
	case PERFX_PEAK_MEASURED:
		return "measured";
	case PERFX_PEAK_CACHED:
		return "cached";
	case PERFX_PEAK_ESTIMATED:
		return "estimated";
	case PERFX_PEAK_GIVEN:
		break;
	}
	return "given";
}

const char *name_of_domain(enum perfx_domain domain)
{
	switch (domain) {
	case PERFX_DOMAIN_HOST:
		return "host";
	case PERFX_DOMAIN_TENSOR:
		return "tensor";
	case PERFX_DOMAIN_GPU:
		return "gpu";
	case PERFX_DOMAIN_USER:
		return "user";
	case PERFX_DOMAIN_INVALID:
		break;
	}
	return "unknown";
}

const char *name_of_link(enum perfx_link link)
{
	switch (link) {
	case PERFX_LINK_SESSION:
		return "session";
	case PERFX_LINK_MULTI:
		return "multi";
	case PERFX_LINK_PERF:
		return "perf";
	case PERFX_LINK_TRACEPOINT:
		return "tracepoint";
	case PERFX_LINK_INVALID:
		break;
	}
	return "none";
}

const char *name_of_return(enum perfx_return ret)
{
	switch (ret) {
	case PERFX_RETURN_EXIT:
		return "exit";
	case PERFX_RETURN_PROBE:
		return "probe";
	case PERFX_RETURN_NONE:
		break;
	}
	return "none";
}

const char *name_of_site(enum perfx_site site)
{
	switch (site) {
	case PERFX_SITE_NOP5:
		return "nop5";
	case PERFX_SITE_NOP:
		return "nop";
	case PERFX_SITE_PUSH:
		return "push";
	case PERFX_SITE_BRANCH:
		return "branch";
	case PERFX_SITE_STEPPED:
		return "stepped";
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
#define NAMED(name, meaning) ((struct loss_name){name, meaning})
	switch (loss) {
	case PERFX_LOSS_RING_DROPS:
		return NAMED("ring_drops", "spans dropped, ring full; totals include them");
	case PERFX_LOSS_MAP_FULL:
		return NAMED("map_full", "calls without thread state or calling context, map full");
	case PERFX_LOSS_UNMATCHED_ENTRIES:
		return NAMED("unmatched_entries", "calls still running at the end");
	case PERFX_LOSS_UNMATCHED_RETURNS:
		return NAMED("unmatched_returns", "returns of calls that began before tracing");
	case PERFX_LOSS_STACK_FAILURES:
		return NAMED("stack_failures", "call stacks that could not be unwound");
	case PERFX_LOSS_READ_FAULTS:
		return NAMED("read_faults", "failed reads of the program's memory");
	case PERFX_LOSS_UNTIMED_CALLS:
		return NAMED("untimed_calls", "calls counted but not timed");
	case PERFX_LOSS_NMISSED:
		return NAMED("nmissed", "probe hits that the kernel did not deliver");
	case PERFX_LOSS_DETACHED_PROBES:
		return NAMED("detached_probes", "probes removed while tracing");
	case PERFX_LOSS_UNDECODED:
		return NAMED("undecoded", "records that could not be decoded");
	case PERFX_LOSS_TRUNCATED_BYTES:
		return NAMED("truncated_bytes", "bytes lost at a damaged or cut end");
	case PERFX_LOSS_CONTROL_DROPS:
		return NAMED("control_drops", "process events dropped, ring full");
	case PERFX_LOSS_FOREIGN_HITS:
		return NAMED("foreign_hits", "hits in processes that are not traced");
	case PERFX_LOSS_MEMORY_DROPS:
		return NAMED("memory_drops", "allocations and frees dropped, ring full");
	case PERFX_LOSS_VALUE_DROPS:
		return NAMED("value_drops", "counter samples dropped, ring full; counted");
	case PERFX_LOSS_KINDS:
		break;
	}
#undef NAMED
	return (struct loss_name){"unknown", ""};
}

const char *name_of_memory_level(enum perfx_memory_level level)
{
	switch (level) {
	case PERFX_MEMORY_EXACT:
		return "exact";
	case PERFX_MEMORY_SAMPLED:
		return "sampled";
	case PERFX_MEMORY_SAMPLED_IN:
		return "sampled_in";
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
