// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/rule_set.h"

#include "analyze/location.h"
#include "analyze/roofline.h"
#include "analyze/rules_ctx.h"
#include "elf/glob.h"

static double known(uint64_t number)
{
	return number == PROFILE_ABSENT ? -1 : (double)number;
}

/* A metric of a kind of item: `name` becomes its function. */
#define METRIC(name, declaration, ...)                                    \
	static double name(const struct rules_ctx *ctx, const void *item) \
	{                                                                 \
		declaration;                                              \
		(void)ctx;                                                \
		return __VA_ARGS__;                                       \
	}
#define OF_FUNCTION(name, ...) METRIC(name, const struct profile_row *row = item, __VA_ARGS__)
#define OF_STEPS(name, ...)                                                    \
	METRIC(name, const struct profile_steps *steps = &ctx->process->steps; \
	       (void)item, __VA_ARGS__)
#define OF_MEMORY(name, ...) METRIC(name, const struct profile_memory *memory = item, __VA_ARGS__)
#define OF_PROCESS(name, ...) \
	METRIC(name, const struct profile_process *process = ctx->process; (void)item, __VA_ARGS__)

/* A call that was only counted has no time. */
static double timed(const struct profile_row *row, uint64_t number)
{
	return row->timed_count ? known(number) : -1;
}

static double share_of(const struct rules_ctx *ctx, const struct profile_row *row, uint64_t ns)
{
	return row->timed_count ? wall_share(ctx->process, ns) : -1;
}

static double per_step(const struct profile_steps *steps, enum profile_phase phase)
{
	return steps_phase_ns(steps, phase);
}

/* While it was recorded: a duty cycle sees a part of the time. */
static double per_s(const struct profile_memory *memory, uint64_t count)
{
	return memory->recorded_ns ? (double)count * 1e9 / (double)memory->recorded_ns : -1;
}

OF_FUNCTION(function_calls, known(row->calls_count))
OF_FUNCTION(function_calls_per_s, rate_of(ctx->process, row->calls_count))
OF_FUNCTION(function_unwound, known(row->unwound_count))
OF_FUNCTION(function_self, timed(row, row->self_ns))
OF_FUNCTION(function_total, timed(row, row->total_ns))
OF_FUNCTION(function_self_share, share_of(ctx, row, row->self_ns))
OF_FUNCTION(function_total_share, share_of(ctx, row, row->total_ns))
OF_FUNCTION(function_avg, known(row->avg_ns))
OF_FUNCTION(function_p50, known(row->p50_ns))
OF_FUNCTION(function_p95, known(row->p95_ns))
OF_FUNCTION(function_p99, known(row->p99_ns))
OF_FUNCTION(function_max, known(row->max_ns))
OF_FUNCTION(function_off_cpu, timed(row, row->off_cpu_ns))
OF_FUNCTION(function_alloc, ctx->process->memory_count ? known(row->alloc_bytes) : -1)
OF_STEPS(steps_count, known(steps->count))
OF_STEPS(steps_avg, known(steps->avg_ns))
OF_STEPS(steps_p50, known(steps->p50_ns))
OF_STEPS(steps_p95, known(steps->p95_ns))
OF_STEPS(steps_max, known(steps->max_ns))
OF_STEPS(steps_data, per_step(steps, PROFILE_PHASE_DATA))
OF_STEPS(steps_forward, per_step(steps, PROFILE_PHASE_FORWARD))
OF_STEPS(steps_backward, per_step(steps, PROFILE_PHASE_BACKWARD))
OF_STEPS(steps_optimizer, per_step(steps, PROFILE_PHASE_OPTIMIZER))
OF_STEPS(steps_untraced, per_step(steps, PROFILE_PHASE_UNTRACED))
METRIC(steps_utilization, (void)item, steps_rates(ctx->profile, ctx->process).mfu)
OF_MEMORY(memory_allocs, known(memory->allocs.value))
OF_MEMORY(memory_allocs_per_s, per_s(memory, memory->allocs.value))
OF_MEMORY(memory_allocated, known(memory->allocated_bytes.value))
OF_MEMORY(memory_allocated_per_s, per_s(memory, memory->allocated_bytes.value))
OF_MEMORY(memory_current, known(memory->current_bytes))
OF_MEMORY(memory_peak, known(memory->peak_bytes))
OF_PROCESS(process_cpu, cpu_share(process))
OF_PROCESS(process_rss, known(process->rss_bytes))
OF_PROCESS(process_rss_peak, known(process->rss_peak_bytes))
OF_PROCESS(process_read, known(process->read_bytes))
OF_PROCESS(process_write, known(process->write_bytes))
OF_PROCESS(process_rx, known(process->net_rx_bytes))
OF_PROCESS(process_tx, known(process->net_tx_bytes))
OF_PROCESS(process_faults, known(process->major_faults_count))
OF_PROCESS(process_throttled, known(process->throttled_ns))

const struct own_metric own_metrics[] = {
	{OWN_FUNCTION, "calls", THRESHOLD_COUNT, function_calls},
	{OWN_FUNCTION, "calls_per_s", THRESHOLD_PER_S, function_calls_per_s},
	{OWN_FUNCTION, "unwound", THRESHOLD_COUNT, function_unwound},
	{OWN_FUNCTION, "self_ns", THRESHOLD_TIME, function_self},
	{OWN_FUNCTION, "total_ns", THRESHOLD_TIME, function_total},
	{OWN_FUNCTION, "self_share", THRESHOLD_SHARE, function_self_share},
	{OWN_FUNCTION, "total_share", THRESHOLD_SHARE, function_total_share},
	{OWN_FUNCTION, "avg_ns", THRESHOLD_TIME, function_avg},
	{OWN_FUNCTION, "p50_ns", THRESHOLD_TIME, function_p50},
	{OWN_FUNCTION, "p95_ns", THRESHOLD_TIME, function_p95},
	{OWN_FUNCTION, "p99_ns", THRESHOLD_TIME, function_p99},
	{OWN_FUNCTION, "max_ns", THRESHOLD_TIME, function_max},
	{OWN_FUNCTION, "off_cpu_ns", THRESHOLD_TIME, function_off_cpu},
	{OWN_FUNCTION, "alloc_bytes", THRESHOLD_BYTES, function_alloc},
	{OWN_STEPS, "count", THRESHOLD_COUNT, steps_count},
	{OWN_STEPS, "avg_ns", THRESHOLD_TIME, steps_avg},
	{OWN_STEPS, "p50_ns", THRESHOLD_TIME, steps_p50},
	{OWN_STEPS, "p95_ns", THRESHOLD_TIME, steps_p95},
	{OWN_STEPS, "max_ns", THRESHOLD_TIME, steps_max},
	{OWN_STEPS, "data_ns", THRESHOLD_TIME, steps_data},
	{OWN_STEPS, "forward_ns", THRESHOLD_TIME, steps_forward},
	{OWN_STEPS, "backward_ns", THRESHOLD_TIME, steps_backward},
	{OWN_STEPS, "optimizer_ns", THRESHOLD_TIME, steps_optimizer},
	{OWN_STEPS, "untraced_ns", THRESHOLD_TIME, steps_untraced},
	{OWN_STEPS, "mfu", THRESHOLD_SHARE, steps_utilization},
	{OWN_MEMORY, "allocs", THRESHOLD_COUNT, memory_allocs},
	{OWN_MEMORY, "allocs_per_s", THRESHOLD_PER_S, memory_allocs_per_s},
	{OWN_MEMORY, "allocated_bytes", THRESHOLD_BYTES, memory_allocated},
	{OWN_MEMORY, "allocated_bytes_per_s", THRESHOLD_BYTES_PER_S, memory_allocated_per_s},
	{OWN_MEMORY, "current_bytes", THRESHOLD_BYTES, memory_current},
	{OWN_MEMORY, "peak_bytes", THRESHOLD_BYTES, memory_peak},
	{OWN_PROCESS, "cpu_share", THRESHOLD_SHARE, process_cpu},
	{OWN_PROCESS, "rss_bytes", THRESHOLD_BYTES, process_rss},
	{OWN_PROCESS, "rss_peak_bytes", THRESHOLD_BYTES, process_rss_peak},
	{OWN_PROCESS, "read_bytes", THRESHOLD_BYTES, process_read},
	{OWN_PROCESS, "write_bytes", THRESHOLD_BYTES, process_write},
	{OWN_PROCESS, "net_rx_bytes", THRESHOLD_BYTES, process_rx},
	{OWN_PROCESS, "net_tx_bytes", THRESHOLD_BYTES, process_tx},
	{OWN_PROCESS, "major_faults", THRESHOLD_COUNT, process_faults},
	{OWN_PROCESS, "throttled_ns", THRESHOLD_TIME, process_throttled},
};
const size_t own_metrics_count = sizeof(own_metrics) / sizeof(own_metrics[0]);

const char *own_object_name(enum own_object object)
{
	static const char *const names[] = {"function", "steps", "memory", "process"};

	return object < OWN_OBJECTS ? names[object] : NULL;
}

const struct own_metric *own_metric_named(enum own_object object, const char *name)
{
	for (size_t i = 0; i < own_metrics_count; i++)
		if (own_metrics[i].object == object && !strcmp(own_metrics[i].name, name))
			return &own_metrics[i];
	return NULL;
}

/* For one rule and process: the objects with the most self time come first. */
#define OWN_FINDINGS_MAX 5

static bool is_passed(const struct own_rule *rule, double value)
{
	return value >= 0 && (rule->below ? value < rule->value : value > rule->value);
}

static bool is_named(const struct own_rule *rule, const char *name)
{
	return !rule->glob || glob_matches(rule->glob, name);
}

static void file(struct rules_ctx *ctx, const struct own_rule *rule, double value,
		 struct note *note)
{
	struct text limit = {0};

	text_printf(&note->evidence, "%s is ", rule->metric->name);
	threshold_add_shown(&note->evidence, value, rule->metric->unit);
	threshold_add_value(&limit, rule->value, rule->metric->unit);
	text_printf(&note->threshold, "%s %s %s, a rule of your own (line %zu)", rule->metric->name,
		    rule->below ? "<" : ">", text_peek(&limit), rule->line);
	text_clear(&limit);
	text_add(&note->suggestion, rule->text);
	rules_ctx_add(ctx, rule->name, rule->severity,
		      rule->below ? rule->value / (value + 1) : value / (rule->value + 1), note);
}

static void judge_functions(struct rules_ctx *ctx, const struct own_rule *rule)
{
	unsigned count = 0;

	for (size_t i = 0; i < ctx->process->rows_count && count < OWN_FINDINGS_MAX; i++) {
		const struct profile_row *row = &ctx->process->rows[i];
		const struct profile_function *function =
			profile_function(ctx->profile, row->function);
		double value = rule->metric->get(ctx, row);
		struct note note = {.of_function = true, .look = "Functions"};

		if (!function ||
		    !(is_named(rule, function->name) || is_named(rule, function_label(function))) ||
		    !is_passed(rule, value))
			continue;
		add_function_name(&note.subject, ctx->profile, row->function);
		file(ctx, rule, value, &note);
		count++;
	}
}

static void judge_memory(struct rules_ctx *ctx, const struct own_rule *rule)
{
	FOR_EACH (memory, ctx->process->memory) {
		double value = rule->metric->get(ctx, memory);
		struct note note = {.look = "Memory"};

		if (!is_named(rule, name_of_domain(memory->domain)) || !is_passed(rule, value))
			continue;
		text_printf(&note.subject, "%s of ", memory_words(memory));
		add_process_name(&note.subject, ctx->process);
		file(ctx, rule, value, &note);
	}
}

/* The process, or its steps. */
static void judge_process(struct rules_ctx *ctx, const struct own_rule *rule, const char *name)
{
	double value = rule->metric->get(ctx, NULL);
	struct note note = {0};

	if (!is_named(rule, name) || !is_passed(rule, value))
		return;
	add_process_name(&note.subject, ctx->process);
	file(ctx, rule, value, &note);
}

static void judge_steps(struct rules_ctx *ctx, const struct own_rule *rule)
{
	const struct profile_steps *steps = &ctx->process->steps;
	const struct profile_function *function = profile_function(ctx->profile, steps->function);

	if (steps->count)
		judge_process(ctx, rule, function ? function->name : "");
}

void rules_own(struct rules_ctx *ctx)
{
	FOR_EACH (rule, ctx->rules->own) {
		switch (rule->metric->object) {
		case OWN_FUNCTION:
			judge_functions(ctx, rule);
			break;
		case OWN_STEPS:
			judge_steps(ctx, rule);
			break;
		case OWN_MEMORY:
			judge_memory(ctx, rule);
			break;
		case OWN_PROCESS:
			judge_process(ctx, rule, ctx->process->comm);
			break;
		case OWN_OBJECTS:
			break;
		}
	}
}
