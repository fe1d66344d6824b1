// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/rule_set.h"

#include "analyze/location.h"
#include "analyze/roofline.h"
#include "analyze/rules_ctx.h"
#include "elf/glob.h"

#include <stddef.h>

/* A metric of a field of the object's struct. */
#define METRIC(object, type, name, unit, how, field)                                             \
	{                                                                                        \
		OWN_##object, name, THRESHOLD_##unit, METRIC_##how, offsetof(struct type, field) \
	}
#define OF_FUNCTION(...) METRIC(FUNCTION, profile_row, __VA_ARGS__)
#define OF_STEPS(...)	 METRIC(STEPS, profile_steps, __VA_ARGS__)
#define OF_MEMORY(...)	 METRIC(MEMORY, profile_memory, __VA_ARGS__)
#define OF_PROCESS(...)	 METRIC(PROCESS, profile_process, __VA_ARGS__)

const struct own_metric own_metrics[] = {
	OF_FUNCTION("calls", COUNT, FIELD, calls_count),
	OF_FUNCTION("calls_per_s", PER_S, RATE, calls_count),
	OF_FUNCTION("unwound", COUNT, FIELD, unwound_count),
	OF_FUNCTION("self_ns", TIME, TIMED, self_ns),
	OF_FUNCTION("total_ns", TIME, TIMED, total_ns),
	OF_FUNCTION("self_share", SHARE, TIMED_SHARE, self_ns),
	OF_FUNCTION("total_share", SHARE, TIMED_SHARE, total_ns),
	OF_FUNCTION("avg_ns", TIME, FIELD, avg_ns),
	OF_FUNCTION("p50_ns", TIME, FIELD, p50_ns),
	OF_FUNCTION("p95_ns", TIME, FIELD, p95_ns),
	OF_FUNCTION("p99_ns", TIME, FIELD, p99_ns),
	OF_FUNCTION("max_ns", TIME, FIELD, max_ns),
	OF_FUNCTION("off_cpu_ns", TIME, TIMED, off_cpu_ns),
	OF_FUNCTION("alloc_bytes", BYTES, ALLOCATED, alloc_bytes),
	OF_STEPS("count", COUNT, FIELD, count),
	OF_STEPS("avg_ns", TIME, FIELD, avg_ns),
	OF_STEPS("p50_ns", TIME, FIELD, p50_ns),
	OF_STEPS("p95_ns", TIME, FIELD, p95_ns),
	OF_STEPS("max_ns", TIME, FIELD, max_ns),
	{OWN_STEPS, "data_ns", THRESHOLD_TIME, METRIC_PHASE, PROFILE_PHASE_DATA},
	{OWN_STEPS, "forward_ns", THRESHOLD_TIME, METRIC_PHASE, PROFILE_PHASE_FORWARD},
	{OWN_STEPS, "backward_ns", THRESHOLD_TIME, METRIC_PHASE, PROFILE_PHASE_BACKWARD},
	{OWN_STEPS, "optimizer_ns", THRESHOLD_TIME, METRIC_PHASE, PROFILE_PHASE_OPTIMIZER},
	{OWN_STEPS, "untraced_ns", THRESHOLD_TIME, METRIC_PHASE, PROFILE_PHASE_UNTRACED},
	{OWN_STEPS, "mfu", THRESHOLD_SHARE, METRIC_MFU, 0},
	OF_MEMORY("allocs", COUNT, FIELD, allocs.value),
	OF_MEMORY("allocs_per_s", PER_S, RECORDED_RATE, allocs.value),
	OF_MEMORY("allocated_bytes", BYTES, FIELD, allocated_bytes.value),
	OF_MEMORY("allocated_bytes_per_s", BYTES_PER_S, RECORDED_RATE, allocated_bytes.value),
	OF_MEMORY("current_bytes", BYTES, FIELD, current_bytes),
	OF_MEMORY("peak_bytes", BYTES, FIELD, peak_bytes),
	{OWN_PROCESS, "cpu_share", THRESHOLD_SHARE, METRIC_CPU_SHARE, 0},
	OF_PROCESS("rss_bytes", BYTES, FIELD, rss_bytes),
	OF_PROCESS("rss_peak_bytes", BYTES, FIELD, rss_peak_bytes),
	OF_PROCESS("read_bytes", BYTES, FIELD, read_bytes),
	OF_PROCESS("write_bytes", BYTES, FIELD, write_bytes),
	OF_PROCESS("net_rx_bytes", BYTES, FIELD, net_rx_bytes),
	OF_PROCESS("net_tx_bytes", BYTES, FIELD, net_tx_bytes),
	OF_PROCESS("major_faults", COUNT, FIELD, major_faults_count),
	OF_PROCESS("throttled_ns", TIME, FIELD, throttled_ns),
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

/* < 0: not known. A call that was only counted has no time. item: as the metric's object. */
static double value_of(const struct rules_ctx *ctx, const struct own_metric *metric,
		       const void *item)
{
	const struct profile_memory *memory = item;
	const struct profile_row *row = item;
	uint64_t field = 0;

	if (metric->how < METRIC_PHASE)
		field = *(const uint64_t *)(const void *)((const char *)item + metric->at);
	switch (metric->how) {
	case METRIC_RATE:
		return rate_of(ctx->process, field);
	case METRIC_TIMED:
		return row->timed_count && field != PROFILE_ABSENT ? (double)field : -1;
	case METRIC_TIMED_SHARE:
		return row->timed_count ? wall_share(ctx->process, field) : -1;
	case METRIC_RECORDED_RATE:
		/* a duty cycle sees a part of the time */
		return memory->recorded_ns ? (double)field * 1e9 / (double)memory->recorded_ns : -1;
	case METRIC_PHASE:
		return steps_phase_ns(item, (enum profile_phase)metric->at);
	case METRIC_MFU:
		return steps_rates(ctx->profile, ctx->process).mfu;
	case METRIC_CPU_SHARE:
		return cpu_share(ctx->process);
	case METRIC_ALLOCATED:
		if (!ctx->process->memory_count)
			return -1;
		break;
	case METRIC_FIELD:
		break;
	}
	return field == PROFILE_ABSENT ? -1 : (double)field;
}

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
		double value = value_of(ctx, rule->metric, row);
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
		double value = value_of(ctx, rule->metric, memory);
		struct note note = {.look = "Memory"};

		if (!is_named(rule, name_of_domain(memory->domain)) || !is_passed(rule, value))
			continue;
		text_printf(&note.subject, "%s of ", memory_words(memory));
		add_process_name(&note.subject, ctx->process);
		file(ctx, rule, value, &note);
	}
}

/* The process, or its steps. */
static void judge_process(struct rules_ctx *ctx, const struct own_rule *rule, const void *item,
			  const char *name)
{
	double value = value_of(ctx, rule->metric, item);
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
		judge_process(ctx, rule, steps, function ? function->name : "");
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
			judge_process(ctx, rule, ctx->process, ctx->process->comm);
			break;
		case OWN_OBJECTS:
			break;
		}
	}
}
