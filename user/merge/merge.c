// SPDX-License-Identifier: BSD-2-Clause
#include "merge/internal.h"

#include "base/order.h"
#include "base/text.h"
#include "decode/decode.h"
#include "decode/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* No recorder makes more between two segments: a hostile capture must not fill the memory. */
#define SUMS_BYTES_MAX (64u << 20)
/* The number of a device or domain that has no room: decode rejects it. */
#define NO_PLACE UINT32_MAX

/* A capture that is read. */
struct input {
	struct survey survey;
	struct alignment alignment;
	uint64_t base[ID_SPACES]; /* what is added to ids */
	uint32_t gpus[PERFX_GPU_DEVICES_MAX];
	bool same_machine;     /* as that of a capture before: its energy is measured already */
	bool counters_differ;  /* perf counters, from the first capture's */
	int64_t boot_shift_ns; /* CLOCK_BOOTTIME, beside what the clock is moved by */

	struct capture_reader *reader;
	const char *at; /* records that are not read yet */
	size_t left;
	struct event next;
	bool has_next;
	uint64_t clock_ns; /* the latest time seen, moved */

	struct text sums;    /* records of the segment that is read */
	struct text closing; /* records of states at the end */
	uint64_t segment_ns; /* when that segment began, moved */
	uint64_t undecoded_count, left_out_count;
};

struct merger {
	struct input *inputs;
	size_t inputs_count, inputs_capacity;
	struct capture_writer *writer;
	uint64_t start_ns, end_ns;
	struct pack_buffer buffer;
	_Alignas(8) char record[PERFX_RECORD_MAX];
};

struct merger *merger__new(void)
{
	return calloc(1, sizeof(struct merger));
}

void merger__free(struct merger *merge)
{
	if (!merge)
		return;
	FOR_EACH (input, merge->inputs) {
		survey_clear(&input->survey);
		capture_reader__free(input->reader);
		text_clear(&input->sums);
		text_clear(&input->closing);
	}
	free(merge->inputs);
	free(merge);
}

int merger__add(struct merger *merge, const char *path)
{
	if (GROW_BY_ONE(merge->inputs))
		return -ENOMEM;
	return survey_make(&merge->inputs[merge->inputs_count++].survey, path);
}

static bool is_same_boot(const struct survey *a, const struct survey *b)
{
	const char *boot = a->host_strings[2];

	return boot[0] && !strcmp(boot, b->host_strings[2]);
}

/* A process that both have was traced twice. */
static const struct survey_process *common_process(const struct survey *a, const struct survey *b)
{
	FOR_EACH (of_a, a->processes)
		FOR_EACH (of_b, b->processes)
			if (of_a->pid == of_b->pid && of_a->start_boot_ns == of_b->start_boot_ns)
				return of_a;
	return NULL;
}

static const struct survey_rank *common_rank(const struct survey *a, const struct survey *b,
					     bool same_rank)
{
	FOR_EACH (of_a, a->ranks)
		FOR_EACH (of_b, b->ranks)
			if (of_a->world_size == of_b->world_size && !strcmp(of_a->job, of_b->job) &&
			    (!same_rank || of_a->rank == of_b->rank))
				return of_a;
	return NULL;
}

static void say_job(struct text *text, const struct survey *survey)
{
	const struct survey_rank *rank = survey->ranks;

	if (!survey->ranks_count)
		text_printf(text, "%s has none", survey->path);
	else
		text_printf(text, "%s has ranks of %u%s%s", survey->path, rank->world_size,
			    rank->job[0] ? " of " : "", rank->job);
}

static void check_two(struct text *why, const struct survey *a, const struct survey *b)
{
	bool same_boot = is_same_boot(a, b);
	const struct survey_process *process = same_boot ? common_process(a, b) : NULL;
	const struct survey_rank *rank = common_rank(a, b, true);

	if (same_boot && a->host.start_ns == b->host.start_ns) {
		text_printf(why, "%s and %s are the same capture", a->path, b->path);
	} else if (process) {
		text_printf(why, "%s and %s both have process %u of %s: it would count twice",
			    a->path, b->path, process->pid, a->host_strings[0]);
	} else if (rank) {
		text_printf(why, "%s and %s both have rank %u: they are of two runs of the job",
			    a->path, b->path, rank->rank);
	} else if (!same_boot && !common_rank(a, b, false)) {
		text_printf(why, "%s and %s have no job in common: ", a->path, b->path);
		say_job(why, a);
		text_add(why, ", ");
		say_job(why, b);
	}
}

/* The captures of one machine have one clock. */
static bool is_more_precise(const struct alignment *a, const struct alignment *b)
{
	if ((a->by == PERFX_ALIGNMENT_WALL_CLOCK) != (b->by == PERFX_ALIGNMENT_WALL_CLOCK))
		return b->by == PERFX_ALIGNMENT_WALL_CLOCK;
	return a->error_ns < b->error_ns;
}

/* Aligns each capture to the first one, or through another one whose ranks it met. */
static void align_all(struct merger *merge)
{
	merge->inputs[0].alignment.by = PERFX_ALIGNMENT_REFERENCE;
	for (size_t i = 1; i < merge->inputs_count; i++) {
		struct input *input = &merge->inputs[i];

		for (size_t j = 0; j < i; j++) {
			const struct input *to = &merge->inputs[j];
			struct alignment found = align_through(
				&to->alignment, align_captures(&to->survey, &input->survey));

			if (!j || is_more_precise(&found, &input->alignment))
				input->alignment = found;
			if (input->alignment.by < PERFX_ALIGNMENT_WALL_CLOCK && !j)
				break;
		}
	}
}

static bool counters_differ(const struct survey *a, const struct survey *b)
{
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++) {
		const char *of_a = a->counters[i].text, *of_b = b->counters[i].text;

		if (of_b && (!of_a || strcmp(of_a, of_b) != 0))
			return true;
	}
	return false;
}

/* The GPUs of a machine are the same ones for each of its captures. */
static uint32_t known_gpu(const struct merger *merge, size_t before, const char *uuid)
{
	for (size_t i = 0; i < before && uuid[0]; i++) {
		const struct input *input = &merge->inputs[i];

		FOR_EACH (gpu, input->survey.gpus)
			if (!strcmp(gpu->text, uuid))
				return input->gpus[gpu->id];
	}
	return NO_PLACE;
}

static void place_gpus(struct merger *merge, size_t at, uint32_t *next)
{
	struct input *input = &merge->inputs[at];

	for (uint32_t i = 0; i < PERFX_GPU_DEVICES_MAX; i++)
		input->gpus[i] = NO_PLACE;
	FOR_EACH (gpu, input->survey.gpus)
		if (input->gpus[gpu->id] == NO_PLACE)
			input->gpus[gpu->id] = known_gpu(merge, at, gpu->text);
	for (uint32_t i = 0; i < input->survey.ids[ID_GPU_DEVICE]; i++)
		if (input->gpus[i] == NO_PLACE && *next < PERFX_GPU_DEVICES_MAX)
			input->gpus[i] = (*next)++;
}

/* Places ids behind those of the captures before, and finds how the machines relate. */
static void prepare(struct merger *merge, struct text *why)
{
	static const char *const names[ID_SPACES] = {
		"processes",  "functions", "calling contexts", "probes", "allocators",
		"operations", "values",	   "GPU names",	       "GPUs",	 "domains of energy"};
	const struct survey *first = &merge->inputs[0].survey;
	uint64_t next[ID_SPACES] = {0};
	uint32_t next_gpu = 0;

	merge->start_ns = UINT64_MAX;
	for (size_t i = 0; i < merge->inputs_count; i++) {
		struct input *input = &merge->inputs[i];
		const struct perfx_host *host = &input->survey.host;
		uint64_t start_ns = align_time(&input->alignment, host->start_ns);
		uint64_t end_ns = align_time(&input->alignment, input->survey.end_ns);

		merge->start_ns = min_u64(merge->start_ns, start_ns);
		merge->end_ns = max_u64(merge->end_ns, end_ns);
		/* boot clocks run on through suspends, each by its own machine's */
		input->boot_shift_ns = (int64_t)(first->host.start_boot_ns - first->host.start_ns) -
				       (int64_t)(host->start_boot_ns - host->start_ns);
		input->counters_differ = counters_differ(first, &input->survey);
		for (size_t j = 0; j < i; j++)
			input->same_machine |=
				is_same_boot(&merge->inputs[j].survey, &input->survey);
		place_gpus(merge, i, &next_gpu);
		for (int space = 0; space < ID_SPACES; space++) {
			uint64_t room = id_max(space) - next[space];

			input->base[space] = next[space];
			if (space == ID_GPU_DEVICE || input->survey.ids[space] <= room)
				next[space] += input->survey.ids[space];
			else if (!why->length)
				text_printf(why, "%s: no room for its %s: too many in all captures",
					    input->survey.path, names[space]);
		}
	}
}

char *merger__check(struct merger *merge)
{
	struct text why = {0};

	if (merge->inputs_count < 2 || merge->inputs_count > PERFX_MERGED_MAX)
		text_printf(&why, "merge needs two captures at least, and takes %d at most",
			    PERFX_MERGED_MAX);
	for (size_t i = 0; i < merge->inputs_count && !why.length; i++) {
		const struct survey *survey = &merge->inputs[i].survey;

		if (!survey->has_host)
			text_printf(&why,
				    "%s: the capture does not say when and where it was recorded",
				    survey->path);
		else if (survey->is_merged)
			text_printf(
				&why,
				"%s is a merged capture already: merge all of its captures anew",
				survey->path);
	}
	for (size_t i = 1; i < merge->inputs_count && !why.length; i++)
		for (size_t j = 0; j < i && !why.length; j++)
			check_two(&why, &merge->inputs[j].survey, &merge->inputs[i].survey);
	if (!why.length) {
		align_all(merge);
		prepare(merge, &why);
	}
	if (why.failed)
		return strdup("out of memory");
	return why.length ? text_take(&why) : NULL;
}

static uint64_t move_id(const struct input *input, enum id_space space, uint64_t id)
{
	if (space == ID_GPU_DEVICE)
		return id < PERFX_GPU_DEVICES_MAX ? input->gpus[id] : NO_PLACE;
	if (space == ID_ENERGY_DOMAIN)
		return id + input->base[space];
	if (!id || (space == ID_ALLOCATOR && id == PERFX_ALLOCATOR_MMAP))
		return id;
	return id <= id_max(space) ? id + input->base[space] : NO_PLACE;
}

/* False: it has no place in the merged capture. */
static bool move_fields(struct input *input, enum perfx_kind kind, void *record)
{
	size_t count;
	const struct field *field = fields_of(kind, &count);

	for (; count; count--, field++) {
		uint64_t value = field_get(field, record), moved = 0;

		if (field->space < ID_SPACES)
			moved = move_id(input, field->space, value);
		else if (value && field->space == FIELD_TIME)
			moved = align_time(&input->alignment, value);
		else if (value) /* without the drift: a process may have begun long before */
			moved = value + (uint64_t)input->alignment.offset_ns +
				(uint64_t)input->boot_shift_ns;
		if (field->space == ID_GPU_DEVICE && moved == NO_PLACE) {
			input->left_out_count++;
			return false;
		}
		field_set(field, record, moved);
	}
	return true;
}

static int write_record(struct merger *merge, const struct perfx_record *record)
{
	return capture_writer__add(merge->writer, record, record->size);
}

#define WRITE(merge, kind, ...) \
	write_record(merge, PACK(&(merge)->buffer, PERFX_KIND_##kind, __VA_ARGS__))

static int append_record(struct text *records, const struct perfx_record *record)
{
	text_add_bytes(records, (const char *)record, record->size);
	return records->failed ? -ENOMEM : 0;
}

static int write_all(struct merger *merge, struct text *records)
{
	int err = 0;

	for (size_t at = 0; at < records->length && !err;) {
		const struct perfx_record *record = (const void *)(records->data + at);

		err = write_record(merge, record);
		at += record->size;
	}
	records->length = 0;
	return err;
}

/* Writes the sums of a capture's segment together, so that no other capture's segment is among
 * them. */
static int end_segment(struct merger *merge, struct input *input, uint64_t time_ns)
{
	struct perfx_segment segment = {.time_ns = time_ns, .since_ns = input->segment_ns};
	int err = write_all(merge, &input->sums);

	input->segment_ns = time_ns;
	return err ?: WRITE(merge, SEGMENT, segment);
}

static uint32_t id_of(const struct merger *merge, const struct input *input)
{
	return (uint32_t)(input - merge->inputs) + 1;
}

/* Kinds that say which capture they are of. */
static const struct perfx_record *with_capture(struct merger *merge, const struct input *input,
					       const struct event *event)
{
	struct event to = *event;

	switch (event->kind) {
	case PERFX_KIND_PROCESS:
		to.process.merged = id_of(merge, input);
		return PACK(&merge->buffer, PERFX_KIND_PROCESS, to.process, event->strings[0],
			    event->strings[1]);
	case PERFX_KIND_MEMORY_MODE:
		to.memory_mode.merged = id_of(merge, input);
		return PACK(&merge->buffer, PERFX_KIND_MEMORY_MODE, to.memory_mode);
	case PERFX_KIND_REDUCED:
		to.reduced.merged = id_of(merge, input);
		return PACK(&merge->buffer, PERFX_KIND_REDUCED, to.reduced);
	case PERFX_KIND_LOSS:
		to.loss.merged = id_of(merge, input);
		return PACK(&merge->buffer, PERFX_KIND_LOSS, to.loss);
	default:
		return event->record;
	}
}

/* True for records that would count twice or mean something else in each capture. The machine's
 * performance is that of the first capture. */
static bool is_left_out(const struct merger *merge, const struct input *input, enum perfx_kind kind)
{
	switch (kind) {
	case PERFX_KIND_HOST: /* written before */
	case PERFX_KIND_TIME_SLICE:
	case PERFX_KIND_END: /* after all */
		return true;
	case PERFX_KIND_PEAK:
	case PERFX_KIND_CALIBRATION:
	case PERFX_KIND_PERF_COUNTER:
	case PERFX_KIND_NOT_ATTACHED:
		return input != merge->inputs;
	case PERFX_KIND_CALL_COUNTERS:
	case PERFX_KIND_PROCESS_COUNTERS:
		return input->counters_differ;
	case PERFX_KIND_HOST_ENERGY:
		return input->same_machine;
	default:
		return false;
	}
}

static int write_moved(struct merger *merge, struct input *input, const struct perfx_record *record)
{
	struct event moved;
	size_t skip;

	/* a record that its new ids make invalid is not written */
	if (decode_event(record, record->size, &moved, &skip) < 0) {
		input->undecoded_count++;
		return 0;
	}
	record = with_capture(merge, input, &moved);
	if (event_is_final_state(&moved))
		return append_record(&input->closing, record);
	if (role_of(moved.kind) != PERFX_ROLE_SUM)
		return write_record(merge, record);
	if (input->sums.length > SUMS_BYTES_MAX) {
		int err = end_segment(merge, input, input->clock_ns);

		if (err)
			return err;
	}
	return append_record(&input->sums, record);
}

static int write_event(struct merger *merge, struct input *input)
{
	const struct event *event = &input->next;
	struct perfx_record *record = (struct perfx_record *)merge->record;
	struct perfx_span *span = (struct perfx_span *)merge->record;

	if (event->kind == PERFX_KIND_SEGMENT || event->kind == PERFX_KIND_END)
		return end_segment(merge, input, input->clock_ns);
	if (is_left_out(merge, input, event->kind))
		return 0;
	memcpy(record, event->record, event->hdr.size);
	if (!move_fields(input, event->kind, record))
		return 0;
	/* the id of a compiled operation stands where other calls have their FLOPs */
	if (event->kind == PERFX_KIND_SPAN && span->cost_state == PERFX_COST_BY_OBJECT &&
	    span->hdr.fixed >= PERFX_SPAN_COST_BYTES)
		span->flops = move_id(input, ID_OBJECT_COST, span->flops);
	return write_moved(merge, input, record);
}

/* When a record was made; 0: that is not known. */
static uint64_t time_of(const struct event *event)
{
	if (event->kind == PERFX_KIND_SEGMENT)
		return event->segment.time_ns;
	if (event->kind == PERFX_KIND_END)
		return event->end.time_ns;
	return record_time_ns(&event->hdr);
}

/* The next event that is understood; has_next false: that was all. 0 or -errno. */
static int read_next(struct input *input)
{
	input->has_next = false;
	while (!input->has_next) {
		size_t skip = 0;
		ssize_t used;

		if (!input->left) {
			const void *records;
			int found = capture_reader__next(input->reader, &records, &input->left);

			if (found <= 0) {
				input->left = 0;
				return found;
			}
			input->at = records;
			continue;
		}
		used = decode_event(input->at, input->left, &input->next, &skip);
		input->has_next = used >= 0;
		input->undecoded_count += used < 0;
		/* no size: nothing after it in this block can be trusted */
		used = used >= 0 ? used : used == -ENOTSUP ? (ssize_t)skip : (ssize_t)input->left;
		input->at += used;
		input->left -= (size_t)used;
	}
	if (time_of(&input->next)) {
		uint64_t time_ns = align_time(&input->alignment, time_of(&input->next));

		input->clock_ns = max_u64(input->clock_ns, time_ns);
	}
	return 0;
}

/* The input whose turn it is: the one that is behind; NULL: all are read. *until_ns: as far as it
 * may go before the next one's turn. */
static struct input *most_behind(struct merger *merge, uint64_t *until_ns)
{
	struct input *first = NULL;

	*until_ns = UINT64_MAX;
	FOR_EACH (input, merge->inputs) {
		if (!input->has_next)
			continue;
		if (!first || input->clock_ns < first->clock_ns) {
			*until_ns = first ? first->clock_ns : UINT64_MAX;
			first = input;
		} else if (input->clock_ns < *until_ns) {
			*until_ns = input->clock_ns;
		}
	}
	return first;
}

static int write_host(struct merger *merge)
{
	const struct survey *first = &merge->inputs[0].survey;
	struct perfx_host host = first->host;
	struct text names = {0};
	int err;

	host.start_unix_ns -= host.start_ns - merge->start_ns;
	host.start_boot_ns -= host.start_ns - merge->start_ns;
	host.start_ns = merge->start_ns;
	host.cpus_count = host.memory_mib = 0;
	FOR_EACH (input, merge->inputs) {
		if (input->same_machine)
			continue;
		text_printf(&names, "%s%s", names.length ? ", " : "",
			    input->survey.host_strings[0]);
		host.cpus_count += input->survey.host.cpus_count;
		host.memory_mib += input->survey.host.memory_mib;
	}
	err = names.failed ? -ENOMEM
			   : WRITE(merge, HOST, host, text_peek(&names), first->host_strings[1],
				   first->host_strings[2], first->host_strings[3],
				   first->host_strings[4]);
	text_clear(&names);
	return err;
}

static int write_description(struct merger *merge, struct input *input)
{
	const struct survey *survey = &input->survey;
	const struct alignment *alignment = &input->alignment;
	struct perfx_merged merged = {.start_ns = align_time(alignment, survey->host.start_ns),
				      .end_ns = align_time(alignment, survey->end_ns),
				      .start_unix_ns = survey->host.start_unix_ns,
				      .error_ns = alignment->error_ns,
				      .drift_ppb = (int64_t)(alignment->drift * 1e9),
				      .pairs_count = alignment->pairs_count,
				      .merged = id_of(merge, input),
				      .alignment = alignment->by,
				      .cpus_count = survey->host.cpus_count,
				      .memory_mib = survey->host.memory_mib,
				      .ring_bytes = survey->host.ring_bytes,
				      .flags = survey->host.flags};

	merged.offset_ns = (int64_t)(merged.start_ns - survey->host.start_ns);
	input->segment_ns = input->clock_ns = merged.start_ns;
	return WRITE(merge, MERGED, merged, survey->host_strings[0], survey->host_strings[1],
		     survey->host_strings[2], survey->host_strings[3], survey->host_strings[4]);
}

static int write_loss(struct merger *merge, const struct input *input, enum perfx_loss_kind kind,
		      uint64_t count)
{
	struct perfx_loss loss = {.loss = kind, .count = count, .merged = id_of(merge, input)};

	return count ? WRITE(merge, LOSS, loss) : 0;
}

/* Writes the sums that were left when a capture was cut off, and its reader's losses. */
static int close_input(struct merger *merge, struct input *input)
{
	const struct capture_damage *damage = capture_reader__damage(input->reader);
	int err = input->sums.length ? end_segment(merge, input, input->clock_ns) : 0;

	err = err ?: write_loss(merge, input, PERFX_LOSS_TRUNCATED_BYTES, damage->bytes);
	err = err
		      ?: write_loss(merge, input, PERFX_LOSS_UNDECODED,
				    input->undecoded_count + damage->strange_blocks);
	return err ?: write_all(merge, &input->closing);
}

/* The merged capture of slices is a slice. */
static int write_slice(struct merger *merge)
{
	struct perfx_time_slice slice = {.recording_ns = UINT64_MAX};
	const char *why = "";
	bool any = false;

	FOR_EACH (input, merge->inputs) {
		const struct perfx_time_slice *of = &input->survey.slice;
		uint64_t recording_ns =
			of->recording_ns ? align_time(&input->alignment, of->recording_ns) : 0;

		if (!of->hdr.size)
			continue;
		any = true;
		slice.recording_ns = min_u64(slice.recording_ns, recording_ns);
		slice.left_out_count += of->left_out_count;
		slice.flags |= of->flags;
		slice.left_out |= of->left_out;
		why = why[0] ? why : input->survey.slice_why;
	}
	return any ? WRITE(merge, TIME_SLICE, slice, why) : 0;
}

/* UINT64_MAX: not measured. */
static void add_measured(__u64 *sum, uint64_t more)
{
	*sum = *sum == UINT64_MAX || more == UINT64_MAX ? UINT64_MAX : *sum + more;
}

/* All tracers together. The merged capture has an end where each of them has. */
static int write_end(struct merger *merge)
{
	struct perfx_end end = {.time_ns = merge->end_ns};

	FOR_EACH (input, merge->inputs) {
		const struct perfx_end *of = &input->survey.end;

		if (!input->survey.has_end)
			return 0;
		end.flags |= of->flags;
		add_measured(&end.tracer_cpu_ns, of->tracer_cpu_ns);
		add_measured(&end.tracer_rss_anon_bytes, of->tracer_rss_anon_bytes);
		add_measured(&end.maps_read_count, of->maps_read_count);
		add_measured(&end.untraced_read_count, of->untraced_read_count);
		add_measured(&end.recording_cpu_ns, of->recording_cpu_ns);
		add_measured(&end.tracer_rss_peak_bytes, of->tracer_rss_peak_bytes);
	}
	return WRITE(merge, END, end);
}

int merger__write(struct merger *merge, struct capture_writer *writer)
{
	struct input *behind;
	uint64_t until_ns;
	int err;

	merge->writer = writer;
	err = write_host(merge);
	FOR_EACH (input, merge->inputs)
		err = err ?: write_description(merge, input);
	for (size_t i = 0; i < merge->inputs_count && !err; i++) {
		struct input *input = &merge->inputs[i];

		input->reader = capture_reader__open(input->survey.path);
		err = input->reader ? read_next(input) : -errno;
	}
	while (!err && (behind = most_behind(merge, &until_ns)))
		while (!err && behind->has_next && behind->clock_ns <= until_ns)
			err = write_event(merge, behind) ?: read_next(behind);
	FOR_EACH (input, merge->inputs)
		err = err ?: close_input(merge, input);
	return err ?: write_slice(merge) ?: write_end(merge);
}

size_t merger__count(const struct merger *merge)
{
	return merge->inputs_count;
}

struct merge_part merger__part(const struct merger *merge, size_t part)
{
	const struct input *input = &merge->inputs[part];

	return (struct merge_part){
		.path = input->survey.path,
		.host_name = input->survey.host_strings[0],
		.alignment = input->alignment,
		.ranks_count = input->survey.ranks_count,
		.damaged_bytes = input->reader ? capture_reader__damage(input->reader)->bytes : 0,
		.undecoded_count = input->undecoded_count,
		.left_out_count = input->left_out_count,
		.counters_left_out = input->counters_differ,
		.ended = input->survey.has_end,
	};
}
