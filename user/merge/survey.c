// SPDX-License-Identifier: BSD-2-Clause
#include "merge/internal.h"

#include "aggregate/aggregate.h"
#include "base/order.h"
#include "base/text.h"
#include "capture/capture.h"
#include "cost/collectives.h"
#include "decode/decode.h"
#include "replay/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t id_max(enum id_space space)
{
	switch (space) {
	case ID_PROCESS:
		return AGGREGATE_PROCESSES_MAX;
	case ID_FUNCTION:
		return AGGREGATE_FUNCTIONS_MAX;
	case ID_CONTEXT:
		return AGGREGATE_CONTEXTS_MAX;
	case ID_ALLOCATOR:
		return PERFX_ALLOCATOR_MMAP - 1;
	case ID_OBJECT_COST:
	case ID_PROBE:
		return UINT32_MAX - 1;
	case ID_VALUE:
		return AGGREGATE_VALUES_MAX;
	case ID_FILE_GROUP:
		return AGGREGATE_FILE_GROUPS_MAX;
	case ID_GPU_NAME:
		return AGGREGATE_GPU_NAMES_MAX;
	case ID_GPU_DEVICE:
		return PERFX_GPU_DEVICES_MAX - 1;
	case ID_ENERGY_DOMAIN:
		return PERFX_ENERGY_DOMAINS_MAX - 1;
	case ID_SPACES:
	case FIELD_BOOT_TIME:
		break;
	}
	return 0;
}

static void note_time(struct survey *survey, uint64_t time_ns)
{
	if (!survey->has_end && time_ns > survey->end_ns)
		survey->end_ns = time_ns;
}

static void note_fields(struct survey *survey, const struct event *event)
{
	size_t count;
	const struct field *field = fields_of(event->kind, &count);

	for (; count; count--, field++) {
		uint64_t value = field_get(field, event->record);

		if (field->space < ID_SPACES) {
			bool from_zero =
				field->space == ID_GPU_DEVICE || field->space == ID_ENERGY_DOMAIN;

			if (value <= id_max(field->space) &&
			    value + from_zero > survey->ids[field->space])
				survey->ids[field->space] = value + from_zero;
		} else if (field->space == FIELD_TIME)
			note_time(survey, value);
	}
}

static int survey_function(struct survey *survey, const struct event *event)
{
	bool backward = begins_with(event->strings[0], "torch::autograd::Engine::execute");
	uint32_t id = event->function.function;
	struct survey_label name;

	if ((!backward && !collective_meets(event->strings[0])) ||
	    map64_get(&survey->functions, id) != MAP64_NONE)
		return 0;
	name = (struct survey_label){backward ? PERFX_ALIGNMENT_BACKWARD
					      : PERFX_ALIGNMENT_COLLECTIVES,
				     pool_add(&survey->strings, event->strings[0])};
	if (!name.text || LIST_ADD(survey->names, name))
		return -ENOMEM;
	return map64_put(&survey->functions, id, (uint32_t)survey->names_count - 1);
}

/* NULL with errno: ENOMEM, or ENOSPC. */
static struct series *series_get(struct survey *survey, const struct perfx_span *span,
				 uint32_t function)
{
	uint64_t key = MAP64_PAIR(span->process, span->function);
	struct series *series;

	errno = ENOSPC;
	if (survey->series_count == SURVEY_SERIES_MAX &&
	    map64_get(&survey->series_ids, key) == MAP64_NONE)
		return NULL;
	series = MAP64_ITEM(survey->series_ids, key, survey->series);
	if (!series)
		return NULL;
	series->process = span->process;
	series->by = (enum perfx_alignment)survey->names[function].id;
	series->name = survey->names[function].text;
	return series;
}

static int survey_span(struct survey *survey, const struct perfx_span *span)
{
	uint32_t function = map64_get(&survey->functions, span->function);
	uint64_t end_ns = span->start_ns + span->duration_ns;
	struct series *series;

	if (end_ns >= span->start_ns)
		note_time(survey, end_ns);
	if (function == MAP64_NONE || end_ns < span->start_ns ||
	    span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED))
		return 0;
	series = series_get(survey, span, function);
	if (!series)
		return errno == ENOMEM ? -ENOMEM : 0;
	if (series->count == SURVEY_ENDS_MAX)
		LIST_DROP_FROM(series, SURVEY_ENDS_MAX / 2); /* the older half */
	return LIST_ADD_TO(series, end_ns);
}

static int survey_event(void *ctx, const struct event *event)
{
	struct survey *survey = ctx;
	struct survey_rank rank;
	struct survey_label gpu, *counter;

	note_fields(survey, event);
	switch (event->kind) {
	case PERFX_KIND_HOST:
		survey->has_host = true;
		survey->host = event->host;
		for (int i = 0; i < 5; i++) {
			survey->host_strings[i] = pool_add(&survey->strings, event->strings[i]);
			if (!survey->host_strings[i])
				return -ENOMEM;
		}
		return 0;
	case PERFX_KIND_END:
		survey->has_end = true;
		survey->end = event->end;
		survey->end_ns = event->end.time_ns;
		return 0;
	case PERFX_KIND_TIME_SLICE:
		survey->slice = event->time_slice;
		survey->slice_why = pool_add(&survey->strings, event->strings[0]);
		return survey->slice_why ? 0 : -ENOMEM;
	case PERFX_KIND_MERGED:
		survey->is_merged = true;
		return 0;
	case PERFX_KIND_PROCESS:
		return LIST_ADD(survey->processes,
				(struct survey_process){event->process.process, event->process.pid,
							event->process.start_boot_ns});
	case PERFX_KIND_RANK:
		rank = (struct survey_rank){event->rank.process, event->rank.rank,
					    event->rank.world_size,
					    pool_add(&survey->strings, event->strings[1])};
		return rank.job ? LIST_ADD(survey->ranks, rank) : -ENOMEM;
	case PERFX_KIND_GPU_DEVICE:
		gpu = (struct survey_label){event->gpu_device.device,
					    pool_add(&survey->strings, event->strings[1])};
		return gpu.text ? LIST_ADD(survey->gpus, gpu) : -ENOMEM;
	case PERFX_KIND_PERF_COUNTER:
		if (event->perf_counter.kind == PERFX_PERF_COUNTER_MISSING)
			return 0;
		counter = &survey->counters[event->perf_counter.counter];
		counter->text = pool_add(&survey->strings, event->strings[0]);
		return counter->text ? 0 : -ENOMEM;
	case PERFX_KIND_FUNCTION:
		return survey_function(survey, event);
	case PERFX_KIND_SPAN:
		return survey_span(survey, &event->span);
	default:
		return 0;
	}
}

int survey_make(struct survey *survey, const char *path)
{
	struct pipeline pipeline = {.on_event = survey_event, .ctx = survey};
	struct capture_reader *reader = capture_reader__open(path);
	int err = reader ? pipeline_replay(&pipeline, reader) : -errno;

	capture_reader__free(reader);
	survey->path = path;
	FOR_EACH (series, survey->series)
		SORT_ITEMS(series->list, series->count, compare_u64);
	return err;
}

void survey_clear(struct survey *survey)
{
	FOR_EACH (series, survey->series)
		free(series->list);
	free(survey->series);
	free(survey->processes);
	free(survey->ranks);
	free(survey->gpus);
	free(survey->names);
	map64_clear(&survey->functions);
	map64_clear(&survey->series_ids);
	pool_clear(&survey->strings);
	*survey = (struct survey){0};
}
