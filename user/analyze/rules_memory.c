// SPDX-License-Identifier: BSD-2-Clause
/* Rules about places that hold memory: what leaks, one finding a domain, what the peak was made of.
 * leaks.h judges what a leak is. */
#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "analyze/trend.h"

#include <math.h>

/* What a leak would be after an hour. */
#define LEAK_MEDIUM (64ULL << 20)
#define LEAK_HIGH   (1ULL << 30)
/* Named in a finding. */
#define LEAK_PLACES_MAX 3
/* Tensors are blocks of the heap as well: a heap's leak so near to one of tensors is the same. */
#define LEAK_SAME 0.25
/* A peak worth a word: absolute, and of the peak of resident memory. On a GPU there is no such. */
#define PEAK_BYTES     (64ULL << 20)
#define PEAK_SHARE     0.25
#define PEAK_GPU_BYTES (1ULL << 30)
/* Resident memory of what the machine has. */
#define PEAK_HOST   0.80
#define PEAK_PLACES 3

static const char *leak_remedy(enum perfx_domain domain)
{
	switch (domain) {
	case PERFX_DOMAIN_TENSOR:
		return "Something keeps tensors of every step: a list that grows, a loss kept with "
		       "its graph (append loss.item(), not loss), a cache without a limit. A trace "
		       "of some minutes (-d 3m) shows whether it levels off; a step that lasts as "
		       "long as the trace looks the same.";
	case PERFX_DOMAIN_GPU:
		return "Device memory is taken again and again and not given back: look for what "
		       "keeps it, and free it or let the framework's allocator cache it. A trace "
		       "of "
		       "some minutes (-d 3m) shows whether it levels off.";
	case PERFX_DOMAIN_HOST:
	case PERFX_DOMAIN_USER:
	case PERFX_DOMAIN_INVALID:
		break;
	}
	return "What is allocated there is not freed: look for a missing free, a container that "
	       "only grows, a cache without a limit. A trace of some minutes (-d 3m) shows whether "
	       "it levels off; a step that lasts as long as the trace looks the same.";
}

/* "; estimated from about 80 sampled blocks (± 22 %)": of N that a Poisson process gives */
static void add_sample(struct text *text, const struct profile_memory *memory, uint64_t live_count,
		       uint64_t live_bytes)
{
	double blocks = (double)live_count, draws;

	if (!memory->sampled || !memory->sample_bytes)
		return;
	draws = (double)live_bytes / (double)memory->sample_bytes;
	blocks = fmax(fmin(blocks, draws), 1);
	text_printf(text, "; estimated from about %.0f sampled blocks (± %.0f %%)", blocks,
		    196 / sqrt(blocks));
}

/* The leaks of a domain: what loses memory in several places has one cause more often than not. */
struct leak {
	const struct profile_memory *memory;
	double bytes_per_s; /* of all places */
	size_t places_count;
	bool unseen; /* every one of them */
	/* the largest, their hotspots by index */
	size_t largest[LEAK_PLACES_MAX], largest_count;
	uint64_t live_count, live_bytes, oldest_ns;
};

static const struct hotspot_trend *trend_of(const struct rules_ctx *ctx, const struct leak *leak,
					    size_t hotspot)
{
	return &ctx->memory[leak->memory - ctx->process->memory].trends[hotspot];
}

/* "6.10 MiB in append (train.cc:12), …" */
static void add_leak_places(struct text *text, const struct rules_ctx *ctx, const struct leak *leak)
{
	text_printf(text, "; in %zu places: ", leak->places_count);
	for (size_t i = 0; i < leak->largest_count; i++) {
		size_t at = leak->largest[i];

		text_add(text, i ? ", " : "");
		add_bytes(text, (uint64_t)trend_of(ctx, leak, at)->slope_bytes_per_s);
		text_add(text, " a second in ");
		location_hotspot(text, ctx->profile, leak->memory, &leak->memory->hotspots[at]);
	}
	if (leak->places_count > leak->largest_count)
		text_printf(text, ", %zu smaller: see the JSON report",
			    leak->places_count - leak->largest_count);
}

/* What of resident memory's growth it is, where that grew by more. */
static void add_resident_growth(struct text *text, const struct rules_ctx *ctx,
				const struct leak *leak)
{
	struct line line = trend_rss(ctx->process, true);
	double per_s;

	if (!growth_is_steady(&line) || !domain_is_resident(leak->memory->domain))
		return;
	per_s = rate_of(ctx->process, (uint64_t)line.growth);
	text_add(text, "; resident memory grew by ");
	add_bytes(text, (uint64_t)per_s);
	text_add(text, " a second");
	if (leak->bytes_per_s < per_s) {
		text_add(text, ", of which this is ");
		add_percent(text, leak->bytes_per_s / per_s);
	}
}

static void leak_evidence(struct text *text, const struct rules_ctx *ctx, const struct leak *leak)
{
	const struct profile_memory *memory = leak->memory;
	const struct profile_hotspot *first = &memory->hotspots[leak->largest[0]];

	text_add(text, "keeps ");
	add_bytes(text, (uint64_t)leak->bytes_per_s);
	text_printf(text, " of %s a second, ", domain_words(memory->domain));
	add_bytes(text, (uint64_t)(leak->bytes_per_s * 3600));
	text_add(text, " an hour at this rate; ");
	add_count(text, leak->live_count);
	text_add(text, " blocks of ");
	add_bytes(text, leak->live_count ? leak->live_bytes / leak->live_count : 0);
	text_add(text, " on average live, from all parts of the trace, the oldest for ");
	add_ns(text, ctx->process->to_ns - leak->oldest_ns);
	if (leak->places_count > 1) {
		add_leak_places(text, ctx, leak);
	} else if (location_first(memory, first) < first->frames_count &&
		   profile_function(ctx->profile, first->function)) {
		text_add(text, "; allocated in ");
		add_function_name(text, ctx->profile, first->function);
	}
	add_sample(text, memory, leak->live_count, leak->live_bytes);
	if (leak->unseen)
		text_add(text,
			 "; resident memory did not grow with it: its pages were not touched, "
			 "or it replaces what was there before");
	else
		add_resident_growth(text, ctx, leak);
}

static enum finding_severity leak_severity(const struct leak *leak)
{
	double hour = leak->bytes_per_s * 3600;

	if (leak->unseen || hour < (double)LEAK_MEDIUM)
		return FINDING_LOW;
	return hour < (double)LEAK_HIGH ? FINDING_MEDIUM : FINDING_HIGH;
}

static void file_leak(struct rules_ctx *ctx, const struct leak *leak)
{
	struct note note = {.of_function = true};

	location_hotspot(&note.subject, ctx->profile, leak->memory,
			 &leak->memory->hotspots[leak->largest[0]]);
	if (leak->places_count > 1)
		text_printf(&note.subject, " and %zu more place%s", leak->places_count - 1,
			    leak->places_count == 2 ? "" : "s");
	leak_evidence(&note.evidence, ctx, leak);
	text_printf(
		&note.threshold,
		"blocks allocated evenly over the trace and never freed (in each quarter %.0f %% "
		"of an even share), from %llu MiB an hour (medium: %llu MiB, high: %llu GiB)",
		LEAK_PART_SHARE * 100, LEAK_HOUR_BYTES >> 20, LEAK_MEDIUM >> 20, LEAK_HIGH >> 30);
	text_add(&note.suggestion, leak_remedy(leak->memory->domain));
	rules_ctx_add(ctx, LEAK_KIND, leak_severity(leak), leak->bytes_per_s, &note);
}

/* Is this leak of the heap the one that a framework's tensors show? */
static bool is_reported(const struct rules_ctx *ctx, const struct profile_hotspot *hotspot,
			const struct hotspot_trend *trend)
{
	for (size_t i = 0; i < ctx->process->memory_count; i++) {
		const struct profile_memory *memory = &ctx->process->memory[i];

		for (size_t k = 0;
		     memory->domain == PERFX_DOMAIN_TENSOR && k < memory->hotspots_count; k++) {
			const struct hotspot_trend *other = &ctx->memory[i].trends[k];

			if (other->leak && memory->hotspots[k].context == hotspot->context &&
			    fabs(other->slope_bytes_per_s - trend->slope_bytes_per_s) <=
				    LEAK_SAME * trend->slope_bytes_per_s)
				return true;
		}
	}
	return false;
}

static bool is_worth_saying(const struct rules_ctx *ctx, size_t domain, size_t hotspot)
{
	const struct profile_memory *memory = &ctx->process->memory[domain];
	const struct hotspot_trend *trend = &ctx->memory[domain].trends[hotspot];

	if (!trend->leak)
		return false;
	return memory->domain != PERFX_DOMAIN_HOST ||
	       !is_reported(ctx, &memory->hotspots[hotspot], trend);
}

/* Into the largest, descending, if it is one of them. */
static void rank_place(const struct rules_ctx *ctx, struct leak *leak, size_t hotspot)
{
	double slope = trend_of(ctx, leak, hotspot)->slope_bytes_per_s;
	size_t at = leak->largest_count;

	while (at && trend_of(ctx, leak, leak->largest[at - 1])->slope_bytes_per_s < slope)
		at--;
	if (at == LEAK_PLACES_MAX)
		return;
	if (leak->largest_count < LEAK_PLACES_MAX)
		leak->largest_count++;
	for (size_t i = leak->largest_count - 1; i > at; i--)
		leak->largest[i] = leak->largest[i - 1];
	leak->largest[at] = hotspot;
}

static void leaks_of(struct rules_ctx *ctx, size_t domain)
{
	const struct profile_memory *memory = &ctx->process->memory[domain];
	struct leak leak = {.memory = memory, .unseen = true, .oldest_ns = UINT64_MAX};

	for (size_t i = 0; i < memory->hotspots_count; i++) {
		const struct profile_hotspot *hotspot = &memory->hotspots[i];

		if (!is_worth_saying(ctx, domain, i))
			continue;
		leak.places_count++;
		leak.bytes_per_s += trend_of(ctx, &leak, i)->slope_bytes_per_s;
		leak.unseen &= trend_of(ctx, &leak, i)->unseen;
		leak.live_count += hotspot->live_count;
		leak.live_bytes += hotspot->live_bytes;
		if (hotspot->oldest_ns < leak.oldest_ns)
			leak.oldest_ns = hotspot->oldest_ns;
		rank_place(ctx, &leak, i);
	}
	if (leak.places_count)
		file_leak(ctx, &leak);
}

static bool is_large_peak(const struct profile_process *p, const struct profile_memory *memory)
{
	/* what the program calls its own is not reported as a part of anything */
	if (memory->peak_bytes == PROFILE_ABSENT || memory->domain == PERFX_DOMAIN_USER)
		return false;
	if (memory->domain == PERFX_DOMAIN_GPU)
		return memory->peak_bytes >= PEAK_GPU_BYTES;
	return memory->peak_bytes >= PEAK_BYTES && p->rss_peak_bytes != PROFILE_ABSENT &&
	       (double)memory->peak_bytes >= PEAK_SHARE * (double)p->rss_peak_bytes;
}

static void add_share_of_rss(struct text *text, const struct profile_process *p,
			     const struct profile_memory *memory)
{
	if (memory->domain == PERFX_DOMAIN_GPU)
		return;
	text_add(text, " (resident memory had its own at ");
	add_bytes(text, p->rss_peak_bytes);
	text_add(text, ")");
}

static void add_places(struct text *text, const struct rules_ctx *ctx,
		       const struct profile_memory *memory)
{
	for (size_t i = 0; i < memory->hotspots_count && i < PEAK_PLACES; i++) {
		const struct profile_hotspot *hotspot = &memory->hotspots[i];

		if (hotspot->live_at_peak_bytes == PROFILE_ABSENT || !hotspot->live_at_peak_bytes)
			break;
		text_add(text, i ? ", " : ": ");
		add_percent(text, (double)hotspot->live_at_peak_bytes / (double)memory->peak_bytes);
		text_add(text, " from ");
		location_hotspot(text, ctx->profile, memory, hotspot);
	}
}

static void peak_memory(struct rules_ctx *ctx, const struct profile_memory *memory)
{
	double host_bytes = (double)((uint64_t)ctx->profile->memory_mib << 20);
	bool tight = host_bytes > 0 && ctx->process->rss_peak_bytes != PROFILE_ABSENT &&
		     memory->domain != PERFX_DOMAIN_GPU &&
		     (double)ctx->process->rss_peak_bytes >= PEAK_HOST * host_bytes;
	struct note note = {0};

	if (!is_large_peak(ctx->process, memory))
		return;
	text_printf(&note.subject, "%s of ", domain_words(memory->domain));
	add_process_name(&note.subject, ctx->process);
	text_add(&note.evidence, "its peak was ");
	add_bytes(&note.evidence, memory->peak_bytes);
	text_add(&note.evidence, ", ");
	add_ns(&note.evidence, memory->peak_ns > ctx->profile->start_ns
				       ? memory->peak_ns - ctx->profile->start_ns
				       : 0);
	text_add(&note.evidence, " after the start");
	add_share_of_rss(&note.evidence, ctx->process, memory);
	add_places(&note.evidence, ctx, memory);
	if (memory->domain == PERFX_DOMAIN_GPU)
		text_printf(&note.threshold, "a peak from %llu GiB", PEAK_GPU_BYTES >> 30);
	else
		text_printf(&note.threshold,
			    "a peak from %llu MiB and %.0f %% of resident memory's (medium: that "
			    "is %.0f %% of the machine's)",
			    PEAK_BYTES >> 20, PEAK_SHARE * 100, PEAK_HOST * 100);
	text_add(&note.suggestion,
		 "To lower the peak: smaller or accumulated batches, activation checkpointing, "
		 "freeing what the places above hold before the next phase begins.");
	rules_ctx_add(ctx, "PeakMemory", tight ? FINDING_MEDIUM : FINDING_LOW,
		      (double)memory->peak_bytes, &note);
}

void rules_memory(struct rules_ctx *ctx)
{
	for (size_t i = 0; i < ctx->process->memory_count; i++) {
		leaks_of(ctx, i);
		peak_memory(ctx, &ctx->process->memory[i]);
	}
}
