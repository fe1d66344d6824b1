// SPDX-License-Identifier: BSD-2-Clause
/* Rules about the heap as a whole: what it grows by, how much allocating goes on. */
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "analyze/trend.h"

#include <math.h>

/* Traced memory that accounts for growth: this part of it. */
#define GROWTH_EXPLAINED 0.50
/* Allocations and frees of the host heap. A pair costs an allocator some 50 ns when no other thread
 * wants the same arena, and more in caches that it spoils. */
#define CHURN_PER_S   200000
#define CHURN_MEDIUM  1000000
#define CHURN_PAIR_NS 50
/* Device memory: each call waits for the device. */
#define CHURN_GPU_PER_S 10
/* Tensors that come and go as pages of the kernel: bytes a second, and system time of CPU time. A
 * page of 4 KiB costs some 0.25 µs to fault in: 1 GiB costs 65 ms. */
#define TENSOR_BYTES_PER_S (512ULL << 20)
#define TENSOR_SYSTEM	   0.20

/* What is known of all blocks since the trace began. */
static bool is_complete(const struct rules_ctx *ctx, const struct profile_memory *memory)
{
	return memory->current_bytes != PROFILE_ABSENT && !memory->bound &&
	       (double)memory->recorded_ns >= LEAK_RECORDED * (double)profile_wall_ns(ctx->process);
}

/* The domain whose blocks are host memory: the heap, else tensors. */
static const struct profile_memory *traced_memory(const struct rules_ctx *ctx)
{
	for (size_t i = 0; i < ctx->process->memory_count; i++) {
		const struct profile_memory *memory = &ctx->process->memory[i];

		if (domain_is_resident(memory->domain) && is_complete(ctx, memory))
			return memory;
	}
	return NULL;
}

/* Leaks already say where resident memory goes. */
static bool leaks_explain(const struct rules_ctx *ctx, const struct line *line)
{
	double seconds = (double)profile_wall_ns(ctx->process) / 1e9, most = 0;

	for (size_t i = 0; i < ctx->process->memory_count; i++) {
		if (domain_is_resident(ctx->process->memory[i].domain))
			most = fmax(most, ctx->memory[i].leaks_bytes_per_s * seconds);
	}
	return most >= GROWTH_EXPLAINED * line->growth;
}

static void add_growth(struct text *text, const struct rules_ctx *ctx, const struct line *line,
		       bool anon)
{
	const struct profile_usage_point *points = ctx->process->points;
	const struct profile_usage_point *last = &points[line->points_count - 1];

	text_add(text,
		 anon ? "anonymous resident memory went from " : "resident memory went from ");
	add_bytes(text, (uint64_t)line->first);
	text_add(text, " to ");
	add_bytes(text, anon ? last->rss_anon_bytes : last->rss_bytes);
	text_add(text, ", steadily: ");
	add_bytes(text, (uint64_t)rate_of(ctx->process, (uint64_t)line->growth));
	text_printf(text, " a second (R² %.2f over %zu samples)", line->straightness,
		    line->points_count);
}

static void add_growth_threshold(struct text *text)
{
	text_printf(text, "%llu MiB and %.0f %% in the window, R² from %.1f", GROWTH_BYTES >> 20,
		    GROWTH_SHARE * 100, GROWTH_STRAIGHT);
}

static void memory_growth(struct rules_ctx *ctx, const struct line *line)
{
	struct note note = {0};

	add_process_name(&note.subject, ctx->process);
	add_growth(&note.evidence, ctx, line, false);
	add_growth_threshold(&note.threshold);
	text_add(&note.suggestion,
		 "A leak or a cache without a limit: in training loops often tensors kept with "
		 "their graph (append loss.item(), not loss) or lists that only grow. A longer "
		 "capture shows whether it levels off.");
	rules_ctx_add(ctx, "MemoryGrowth", FINDING_MEDIUM, line->growth / (line->first + 1), &note);
}

static void suggest_for_untraced(struct text *text, enum perfx_domain domain)
{
	if (domain == PERFX_DOMAIN_HOST)
		text_add(text,
			 "Blocks from before the trace that are touched only now, a heap that "
			 "fragments (try jemalloc, or MALLOC_ARENA_MAX=2), thread stacks, or an "
			 "allocator that is not traced: `perfx-trace probes` lists those that "
			 "are.");
	else
		text_add(text,
			 "This growth is not in tracked tensors: other blocks of the heap, or a "
			 "heap that fragments between the tensors that stay. Trace the host heap, "
			 "too (--memory all, or --memory sampled where that is too slow).");
}

/* Resident memory grows, and for the most part not by what is traced. Returns whether it is so. */
static bool untraced_memory(struct rules_ctx *ctx)
{
	const struct profile_memory *memory = traced_memory(ctx);
	struct line line = trend_rss(ctx->process, true);
	struct note note = {0};
	bool leaks;
	double rest;

	if (!memory || !growth_is_steady(&line))
		return false;
	rest = line.growth - (double)memory->current_bytes;
	if (rest <= GROWTH_EXPLAINED * line.growth || rest < (double)GROWTH_BYTES)
		return false;
	leaks = ctx->memory[memory - ctx->process->memory].leaks_count;
	add_process_name(&note.subject, ctx->process);
	add_growth(&note.evidence, ctx, &line, true);
	text_printf(&note.evidence, "; the traced %s grew by ", domain_words(memory->domain));
	add_bytes(&note.evidence, (uint64_t)rate_of(ctx->process, memory->current_bytes));
	text_printf(&note.evidence, " a second%s, the other ", leaks ? " (see the leak)" : "");
	add_bytes(&note.evidence, (uint64_t)rate_of(ctx->process, (uint64_t)rest));
	text_add(&note.evidence, " a second are not in it");
	add_growth_threshold(&note.threshold);
	text_printf(&note.threshold, ", %.0f %% of that and %llu MiB not in traced memory",
		    (1 - GROWTH_EXPLAINED) * 100, GROWTH_BYTES >> 20);
	suggest_for_untraced(&note.suggestion, memory->domain);
	rules_ctx_add(ctx, "UntracedMemory", leaks ? FINDING_LOW : FINDING_MEDIUM,
		      rest / (line.first + 1), &note);
	return true;
}

static const struct profile_hotspot *busiest(const struct profile_memory *memory, bool by_bytes)
{
	const struct profile_hotspot *best = NULL;

	for (size_t i = 0; i < memory->hotspots_count; i++) {
		const struct profile_hotspot *hotspot = &memory->hotspots[i];

		if (!best ||
		    (by_bytes ? hotspot->allocated_bytes.value > best->allocated_bytes.value
			      : hotspot->allocs.value > best->allocs.value))
			best = hotspot;
	}
	return best;
}

static void add_busiest(struct text *text, const struct rules_ctx *ctx,
			const struct profile_memory *memory, bool by_bytes)
{
	const struct profile_hotspot *hotspot = busiest(memory, by_bytes);
	double part, whole;

	if (!hotspot)
		return;
	part = (double)(by_bytes ? hotspot->allocated_bytes.value : hotspot->allocs.value);
	whole = (double)(by_bytes ? memory->allocated_bytes.value : memory->allocs.value);
	text_add(text, "; ");
	add_percent(text, whole > 0 ? part / whole : 0);
	text_add(text, by_bytes ? " of the bytes in " : " of them in ");
	location_hotspot(text, ctx->profile, memory, hotspot);
}

/* While it was recorded: a duty cycle sees a part of the time. */
static double recorded_rate(const struct profile_memory *memory, uint64_t count)
{
	return memory->recorded_ns ? (double)count * 1e9 / (double)memory->recorded_ns : 0;
}

static void add_temporary(struct text *text, const struct profile_memory *memory)
{
	if (memory->current_bytes == PROFILE_ABSENT || !memory->allocs.value || memory->sampled)
		return;
	text_add(text, ", ");
	add_percent(text, (double)memory->temporary_count / (double)memory->allocs.value);
	text_add(text, " of them freed by the same thread's next call of the allocator");
}

static void host_churn(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	double rate = recorded_rate(memory, memory->allocs.value);
	struct note note = {0};

	if (rate < CHURN_PER_S)
		return;
	add_process_name(&note.subject, ctx->process);
	add_count(&note.evidence, (uint64_t)rate);
	text_add(&note.evidence, " heap allocations a second");
	add_temporary(&note.evidence, memory);
	add_busiest(&note.evidence, ctx, memory, false);
	text_printf(&note.evidence, "; at %d ns for a malloc and its free that is ", CHURN_PAIR_NS);
	add_percent(&note.evidence, rate * CHURN_PAIR_NS / 1e9);
	text_add(&note.evidence, " of a CPU");
	text_printf(&note.threshold, "from %d a second (medium: %d)", CHURN_PER_S, CHURN_MEDIUM);
	text_add(&note.suggestion,
		 "Reuse buffers instead of allocating them anew, reserve containers' space, or "
		 "preload a faster allocator (jemalloc, tcmalloc). Tiny operators of a framework "
		 "allocate in each call: fuse or batch them.");
	rules_ctx_add(ctx, "MemoryChurn", rate >= CHURN_MEDIUM ? FINDING_MEDIUM : FINDING_LOW, rate,
		      &note);
}

static void gpu_churn(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	double rate = recorded_rate(memory, memory->allocs.value);
	struct note note = {0};

	if (rate < CHURN_GPU_PER_S)
		return;
	add_process_name(&note.subject, ctx->process);
	add_count(&note.evidence, (uint64_t)rate);
	text_add(&note.evidence, " allocations of device memory a second");
	add_busiest(&note.evidence, ctx, memory, false);
	text_printf(&note.threshold, "from %d a second", CHURN_GPU_PER_S);
	text_add(&note.suggestion,
		 "Taking and freeing device memory waits for the device: keep the blocks and use "
		 "them again, use a caching or stream-ordered allocator (cudaMallocAsync), and in "
		 "PyTorch do not call empty_cache() in the loop.");
	rules_ctx_add(ctx, "MemoryChurn", FINDING_MEDIUM, rate, &note);
}

static void tensor_churn(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	const struct profile_process *p = ctx->process;
	double rate = recorded_rate(memory, memory->allocated_bytes.value), system;
	struct note note = {0};

	if (p->cpu_ns == PROFILE_ABSENT || !p->cpu_ns || p->cpu_system_ns == PROFILE_ABSENT)
		return;
	system = (double)p->cpu_system_ns / (double)p->cpu_ns;
	if (rate < (double)TENSOR_BYTES_PER_S || system < TENSOR_SYSTEM)
		return;
	add_process_name(&note.subject, p);
	add_bytes(&note.evidence, (uint64_t)rate);
	text_add(&note.evidence, " of tensors a second, ");
	add_bytes(&note.evidence,
		  memory->allocs.value ? memory->allocated_bytes.value / memory->allocs.value : 0);
	text_add(&note.evidence, " each on average, while ");
	add_percent(&note.evidence, system);
	text_add(&note.evidence, " of the CPU time is the kernel's");
	add_busiest(&note.evidence, ctx, memory, true);
	text_printf(&note.threshold, "%llu MiB a second with system time from %.0f %% of CPU time",
		    TENSOR_BYTES_PER_S >> 20, TENSOR_SYSTEM * 100);
	text_add(
		&note.suggestion,
		"The C library gives large blocks back to the kernel at each free, and their pages "
		"are faulted in and cleared anew: start it with MALLOC_MMAP_THRESHOLD_=33554432 "
		"(the most that takes effect everywhere) and MALLOC_TRIM_THRESHOLD_=1073741824, "
		"preload jemalloc, or write into tensors that exist (out=, in-place operations).");
	rules_ctx_add(ctx, "TensorChurn", FINDING_MEDIUM, system, &note);
}

static void churn(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	switch (memory->domain) {
	case PERFX_DOMAIN_HOST:
		host_churn(ctx, memory);
		break;
	case PERFX_DOMAIN_TENSOR:
		tensor_churn(ctx, memory);
		break;
	case PERFX_DOMAIN_GPU:
		gpu_churn(ctx, memory);
		break;
	case PERFX_DOMAIN_USER:
	case PERFX_DOMAIN_INVALID:
		break;
	}
}

void rules_heap(struct rules_ctx *ctx)
{
	struct line line = trend_rss(ctx->process, false);

	if (profile_wall_ns(ctx->process) < WALL_MIN_NS)
		return;
	if (!untraced_memory(ctx) && growth_is_steady(&line) && !leaks_explain(ctx, &line))
		memory_growth(ctx, &line);
	for (size_t i = 0; i < ctx->process->memory_count; i++)
		churn(ctx, &ctx->process->memory[i]);
}
