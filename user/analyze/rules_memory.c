// SPDX-License-Identifier: BSD-2-Clause
/* Rules about places that hold memory: what leaks, what the peak was made of. leaks.h judges what
 * a leak is. */
#include "analyze/judge.h"
#include "analyze/place.h"

#include <math.h>

/* What a leak would be after an hour. */
#define LEAK_MEDIUM (64ULL << 20)
#define LEAK_HIGH   (1ULL << 30)
/* A domain. */
#define LEAK_FINDINGS_MAX 3
/* Tensors are blocks of the heap as well: a heap's leak so near to one of tensors is the same. */
#define LEAK_SAME 0.25
/* A peak worth a word: absolute, and of the peak of resident memory. On a GPU there is no such. */
#define PEAK_BYTES     (64ULL << 20)
#define PEAK_SHARE     0.25
#define PEAK_GPU_BYTES (1ULL << 30)
/* Resident memory of what the machine has. */
#define PEAK_MACHINE 0.80
#define PEAK_PLACES  3

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
static void add_sample(struct text *text, const struct profile_memory *memory,
		       const struct profile_hotspot *hotspot)
{
	double blocks = (double)hotspot->live_count, draws;

	if (!memory->sampled || !memory->sample_bytes)
		return;
	draws = (double)hotspot->live_bytes / (double)memory->sample_bytes;
	blocks = fmax(fmin(blocks, draws), 1);
	text_printf(text, "; estimated from about %.0f sampled blocks (± %.0f %%)", blocks,
		    196 / sqrt(blocks));
}

static void leak_evidence(struct text *text, const struct judge *j,
			  const struct profile_memory *memory,
			  const struct profile_hotspot *hotspot, const struct hotspot_trend *trend)
{
	text_add(text, "keeps ");
	add_bytes(text, (uint64_t)trend->slope_bytes_per_s);
	text_printf(text, " of %s a second, ", domain_words(memory->domain));
	add_bytes(text, (uint64_t)(trend->slope_bytes_per_s * 3600));
	text_add(text, " an hour at this rate; ");
	add_count(text, hotspot->live_count);
	text_add(text, " blocks of ");
	add_bytes(text, hotspot->live_count ? hotspot->live_bytes / hotspot->live_count : 0);
	text_add(text, " on average live, from all parts of the trace, the oldest for ");
	add_ns(text, j->process->to_ns - hotspot->oldest_ns);
	if (place_first(memory, hotspot) < hotspot->frames_count &&
	    profile_function(j->profile, hotspot->function)) {
		text_add(text, "; allocated in ");
		add_function_name(text, j->profile, hotspot->function);
	}
	add_sample(text, memory, hotspot);
	if (trend->unseen)
		text_add(text,
			 "; resident memory did not grow with it: its pages were not touched, "
			 "or it replaces what was there before");
}

static enum finding_severity leak_severity(const struct hotspot_trend *trend)
{
	double hour = trend->slope_bytes_per_s * 3600;

	if (trend->unseen || hour < (double)LEAK_MEDIUM)
		return FINDING_LOW;
	return hour < (double)LEAK_HIGH ? FINDING_MEDIUM : FINDING_HIGH;
}

static void file_leak(struct judge *j, const struct profile_memory *memory,
		      const struct profile_hotspot *hotspot, const struct hotspot_trend *trend,
		      size_t unsaid)
{
	struct note note = {.of_function = true};

	place_hotspot(&note.subject, j->profile, memory, hotspot);
	leak_evidence(&note.evidence, j, memory, hotspot, trend);
	if (unsaid)
		text_printf(&note.evidence, "; %zu smaller suspect%s: see the JSON report", unsaid,
			    unsaid == 1 ? "" : "s");
	text_printf(&note.threshold,
		    "blocks that stay, %.0f %% of an even share of them in each quarter of the "
		    "trace, from %llu MiB an hour (medium: %llu MiB, high: %llu GiB)",
		    LEAK_PART_SHARE * 100, LEAK_HOUR_BYTES >> 20, LEAK_MEDIUM >> 20,
		    LEAK_HIGH >> 30);
	text_add(&note.suggestion, leak_remedy(memory->domain));
	judge_file(j, LEAK_KIND, leak_severity(trend), trend->slope_bytes_per_s, &note);
}

/* Is this leak of the heap the one that a framework's tensors show? */
static bool is_told(const struct judge *j, const struct profile_hotspot *hotspot,
		    const struct hotspot_trend *trend)
{
	for (size_t i = 0; i < j->process->memory_count; i++) {
		const struct profile_memory *memory = &j->process->memory[i];

		for (size_t k = 0;
		     memory->domain == PERFX_DOMAIN_TENSOR && k < memory->hotspots_count; k++) {
			const struct hotspot_trend *other = &j->memory[i].trends[k];

			if (other->leak && memory->hotspots[k].context == hotspot->context &&
			    fabs(other->slope_bytes_per_s - trend->slope_bytes_per_s) <=
				    LEAK_SAME * trend->slope_bytes_per_s)
				return true;
		}
	}
	return false;
}

static bool is_worth_saying(const struct judge *j, size_t domain, size_t hotspot)
{
	const struct profile_memory *memory = &j->process->memory[domain];
	const struct hotspot_trend *trend = &j->memory[domain].trends[hotspot];

	if (!trend->leak)
		return false;
	return memory->domain != PERFX_DOMAIN_HOST ||
	       !is_told(j, &memory->hotspots[hotspot], trend);
}

static void leaks_of(struct judge *j, size_t domain)
{
	const struct profile_memory *memory = &j->process->memory[domain];
	const struct hotspot_trend *trends = j->memory[domain].trends;
	size_t largest[LEAK_FINDINGS_MAX], said = 0, all = 0;

	for (size_t i = 0; j->memory[domain].leaks_count && i < memory->hotspots_count; i++) {
		size_t at;

		if (!is_worth_saying(j, domain, i))
			continue;
		all++;
		if (said < LEAK_FINDINGS_MAX)
			said++;
		else if (trends[i].slope_bytes_per_s <= trends[largest[said - 1]].slope_bytes_per_s)
			continue;
		for (at = said - 1;
		     at && trends[largest[at - 1]].slope_bytes_per_s < trends[i].slope_bytes_per_s;
		     at--)
			largest[at] = largest[at - 1];
		largest[at] = i;
	}
	for (size_t i = 0; i < said; i++)
		file_leak(j, memory, &memory->hotspots[largest[i]], &trends[largest[i]],
			  i + 1 == said ? all - said : 0);
}

static bool is_large_peak(const struct profile_process *p, const struct profile_memory *memory)
{
	/* what the program calls its own is not told as a part of anything */
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

static void add_places(struct text *text, const struct judge *j,
		       const struct profile_memory *memory)
{
	for (size_t i = 0; i < memory->hotspots_count && i < PEAK_PLACES; i++) {
		const struct profile_hotspot *hotspot = &memory->hotspots[i];

		if (hotspot->live_at_peak_bytes == PROFILE_ABSENT || !hotspot->live_at_peak_bytes)
			break;
		text_add(text, i ? ", " : ": ");
		add_percent(text, (double)hotspot->live_at_peak_bytes / (double)memory->peak_bytes);
		text_add(text, " from ");
		place_hotspot(text, j->profile, memory, hotspot);
	}
}

static void peak_memory(struct judge *j, const struct profile_memory *memory)
{
	double machine = (double)((uint64_t)j->profile->memory_mib << 20);
	bool tight = machine > 0 && j->process->rss_peak_bytes != PROFILE_ABSENT &&
		     memory->domain != PERFX_DOMAIN_GPU &&
		     (double)j->process->rss_peak_bytes >= PEAK_MACHINE * machine;
	struct note note = {0};

	if (!is_large_peak(j->process, memory))
		return;
	text_printf(&note.subject, "%s of ", domain_words(memory->domain));
	add_process_name(&note.subject, j->process);
	text_add(&note.evidence, "its peak was ");
	add_bytes(&note.evidence, memory->peak_bytes);
	text_add(&note.evidence, ", ");
	add_ns(&note.evidence,
	       memory->peak_ns > j->profile->start_ns ? memory->peak_ns - j->profile->start_ns : 0);
	text_add(&note.evidence, " after the start");
	add_share_of_rss(&note.evidence, j->process, memory);
	add_places(&note.evidence, j, memory);
	if (memory->domain == PERFX_DOMAIN_GPU)
		text_printf(&note.threshold, "a peak from %llu GiB", PEAK_GPU_BYTES >> 30);
	else
		text_printf(&note.threshold,
			    "a peak from %llu MiB and %.0f %% of resident memory's (medium: that "
			    "is %.0f %% of the machine's)",
			    PEAK_BYTES >> 20, PEAK_SHARE * 100, PEAK_MACHINE * 100);
	text_add(&note.suggestion,
		 "To lower the peak: smaller or accumulated batches, activation checkpointing, "
		 "freeing what the places above hold before the next phase begins.");
	judge_file(j, "PeakMemory", tight ? FINDING_MEDIUM : FINDING_LOW,
		   (double)memory->peak_bytes, &note);
}

void rules_memory(struct judge *j)
{
	for (size_t i = 0; i < j->process->memory_count; i++) {
		leaks_of(j, i);
		peak_memory(j, &j->process->memory[i]);
	}
}
