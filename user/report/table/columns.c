// SPDX-License-Identifier: BSD-2-Clause
/* The tables and their columns. To show a new number, add a line where it should stand. */
#include "analyze/location.h"
#include "analyze/roofline.h"
#include "decode/names.h"
#include "report/table/table.h"

#include <string.h>

static struct value absent(void)
{
	return (struct value){.kind = VALUE_ABSENT};
}

static struct value integer(uint64_t number)
{
	return (struct value){.kind = number == PROFILE_ABSENT ? VALUE_ABSENT : VALUE_INTEGER,
			      .integer = number};
}

static struct value flag(bool set)
{
	return (struct value){.kind = VALUE_FLAG, .integer = set};
}

/* "" is shown as "?": a reader of CSV would take it for "absent". */
static struct value words(const char *text)
{
	return (struct value){.kind = VALUE_TEXT, .text = text[0] ? text : "?"};
}

static struct value real(double number)
{
	return (struct value){.kind = number < 0 ? VALUE_ABSENT : VALUE_REAL, .real = number};
}

static struct value sentence(const char *text)
{
	return (struct value){.kind = VALUE_SENTENCE, .text = text};
}

/* A column's function: `VALUE(name, expression)` with table s and row r. */
#define VALUE(name, ...)                                                               \
	static struct value name(struct data_table *s, const struct data_table_row *r) \
	{                                                                              \
		(void)s;                                                               \
		(void)r;                                                               \
		return __VA_ARGS__;                                                    \
	}

#define AT(type, field) .offset = offsetof(struct type, field)
#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))

/* --- of every table --------------------------------------------------------------------------- */

VALUE(get_pid, integer(r->process->pid))
VALUE(get_comm, words(r->process->comm))

#define OF_PROCESS                  \
	{"pid", get_pid, 0},        \
	{                           \
		"comm", get_comm, 0 \
	}

static const void *process_of(const struct data_table_row *r)
{
	return r->process;
}

/* --- functions: item is a row of the process -------------------------------------------------- */

static const struct profile_row *function_row(const struct data_table_row *r)
{
	return &r->process->rows[r->item];
}

static const void *function_item(const struct data_table_row *r)
{
	return function_row(r);
}

static const struct profile_function *function_of(const struct data_table *s,
						  const struct data_table_row *r)
{
	static const struct profile_function unknown = {
		.name = "", .module = "", .module_base = "", .build_id = ""};
	const struct profile_function *function =
		profile_function(s->profile, function_row(r)->function);

	return function ? function : &unknown;
}

static struct value timed(const struct data_table_row *r, uint64_t number)
{
	return function_row(r)->timed_count ? integer(number) : absent();
}

static struct value get_stddev(struct data_table *s, const struct data_table_row *r)
{
	double stddev = function_row(r)->stddev_ns;

	(void)s;
	return stddev < 0 ? absent() : integer((uint64_t)(stddev + 0.5));
}

static struct value get_self_percent(struct data_table *s, const struct data_table_row *r)
{
	uint64_t wall_ns = profile_wall_ns(r->process);

	(void)s;
	if (!function_row(r)->timed_count || !wall_ns)
		return absent();
	return (struct value){.kind = VALUE_REAL,
			      .real = 100.0 * (double)function_row(r)->self_ns / (double)wall_ns};
}

static struct value get_source(struct data_table *s, const struct data_table_row *r)
{
	enum perfx_source source = function_of(s, r)->source;

	return source ? words(name_of_source(source)) : absent();
}

VALUE(get_name, words(function_of(s, r)->name))
VALUE(get_module, words(function_of(s, r)->module_base))
VALUE(get_path, words(function_of(s, r)->module))
VALUE(get_offset, integer(function_of(s, r)->offset))
VALUE(get_total, timed(r, function_row(r)->total_ns))
VALUE(get_self, timed(r, function_row(r)->self_ns))
VALUE(get_alloc_bytes, r->process->memory_count ? integer(function_row(r)->alloc_bytes) : absent())

/* With all that it calls, as in total_ns. */
static const struct profile_cost *cost_of(const struct data_table_row *r)
{
	return &function_row(r)->inclusive;
}

static struct roofline line_of(const struct data_table *s, const struct data_table_row *r)
{
	return roofline_of_row(s->profile, r->process, function_row(r));
}

static struct value get_roofline(struct data_table *s, const struct data_table_row *r)
{
	const char *bound = roofline_class_name(line_of(s, r).bound);

	return bound ? words(bound) : absent();
}

VALUE(get_flops, cost_of(r)->counted_count ? integer(cost_of(r)->flops) : absent())
VALUE(get_bytes, cost_of(r)->counted_count ? integer(cost_of(r)->bytes) : absent())
VALUE(get_gflops, real(line_of(s, r).flops_per_s / 1e9))
VALUE(get_intensity, real(line_of(s, r).intensity))

static const struct data_table_column functions_columns[] = {
	OF_PROCESS,
	{"name", get_name, 0},
	{"module", get_module, 0},
	{"path", get_path, 0},
	{"offset", get_offset, 0},
	{"source", get_source, 0},
	{"calls", AT(profile_row, calls_count)},
	{"timed", AT(profile_row, timed_count)},
	{"unwound", AT(profile_row, unwound_count)},
	{"booked", AT(profile_row, overflow_count)},
	{"self_percent", get_self_percent, 0},
	{"self_ns", get_self, 0},
	{"total_ns", get_total, 0},
	{"avg_ns", AT(profile_row, avg_ns)},
	{"min_ns", AT(profile_row, min_ns)},
	{"max_ns", AT(profile_row, max_ns)},
	{"stddev_ns", get_stddev, 0},
	{"p50_ns", AT(profile_row, p50_ns)},
	{"p95_ns", AT(profile_row, p95_ns)},
	{"p99_ns", AT(profile_row, p99_ns)},
	{"threads", AT(profile_row, threads_count)},
	{"alloc_bytes", get_alloc_bytes, 0},
	{"flops", get_flops, 0},
	{"bytes", get_bytes, 0},
	{"gflops_per_s", get_gflops, 0},
	{"intensity", get_intensity, 0},
	{"roofline", get_roofline, 0},
};

static int fill_functions(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; i < r->process->rows_count && !err; i++)
		err = data_table_add(s, r, i, 0);
	return err;
}

/* --- callers: part is one of the function's --------------------------------------------------- */

static const struct profile_caller *caller_of(const struct data_table_row *r)
{
	return &function_row(r)->callers[r->part];
}

static const void *caller_item(const struct data_table_row *r)
{
	return caller_of(r);
}

static struct value get_caller(struct data_table *s, const struct data_table_row *r)
{
	const struct profile_function *function =
		profile_function(s->profile, caller_of(r)->caller);

	if (function)
		return words(function->name);
	return words(caller_of(r)->caller == PROFILE_CALLER_UNTRACED ? "[untraced]" : "[unknown]");
}

VALUE(get_caller_total, timed(r, caller_of(r)->total_ns))

static const struct data_table_column callers_columns[] = {
	OF_PROCESS,
	{"name", get_name, 0},
	{"module", get_module, 0},
	{"offset", get_offset, 0},
	{"caller", get_caller, 0},
	{"calls", AT(profile_caller, calls_count)},
	{"total_ns", get_caller_total, 0},
};

static int fill_callers(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; i < r->process->rows_count; i++) {
		for (size_t j = 0; j < r->process->rows[i].callers_count && !err; j++)
			err = data_table_add(s, r, i, j);
	}
	return err;
}

/* --- threads ---------------------------------------------------------------------------------- */

static const struct profile_thread *thread_of(const struct data_table_row *r)
{
	return &r->process->threads[r->item];
}

static const void *thread_item(const struct data_table_row *r)
{
	return thread_of(r);
}

static struct value get_state(struct data_table *s, const struct data_table_row *r)
{
	if (!thread_of(r)->state)
		return absent();
	text_clear(&s->made);
	text_printf(&s->made, "%c", thread_of(r)->state);
	return words(text_peek(&s->made));
}

VALUE(get_tid, integer(thread_of(r)->tid))
VALUE(get_thread, words(thread_of(r)->comm))

static const struct data_table_column threads_columns[] = {
	OF_PROCESS,
	{"tid", get_tid, 0},
	{"thread", get_thread, 0},
	{"state", get_state, 0},
	{"wall_ns", AT(profile_thread, wall_ns)},
	{"on_cpu_ns", AT(profile_thread, on_cpu_ns)},
	{"runnable_ns", AT(profile_thread, runnable_ns)},
	{"blocked_ns", AT(profile_thread, blocked_ns)},
};

static int fill_threads(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; i < r->process->threads_count && !err; i++)
		err = data_table_add(s, r, i, 0);
	return err;
}

/* --- memory: item is one of the process's domains ----------------------------------------------
 */

static const struct profile_memory *memory_of(const struct data_table_row *r)
{
	return &r->process->memory[r->item];
}

static const void *memory_item(const struct data_table_row *r)
{
	return memory_of(r);
}

static bool sees_frees(const struct data_table_row *r)
{
	return memory_of(r)->current_bytes != PROFILE_ABSENT;
}

static struct value get_allocators(struct data_table *s, const struct data_table_row *r)
{
	const struct profile_memory *memory = memory_of(r);

	text_clear(&s->made);
	for (size_t i = 0; i < memory->allocators_count; i++)
		text_printf(&s->made, "%s%s", i ? " " : "", memory->allocators[i].name);
	return words(text_peek(&s->made));
}

static struct value get_peak_at(struct data_table *s, const struct data_table_row *r)
{
	uint64_t at_ns = memory_of(r)->peak_ns;

	if (at_ns == PROFILE_ABSENT)
		return absent();
	return integer(at_ns > s->profile->start_ns ? at_ns - s->profile->start_ns : 0);
}

VALUE(get_domain, words(profile_domain_name(memory_of(r)->domain)))
VALUE(get_level, words(name_of_memory_level(memory_of(r)->level)))
VALUE(get_sampled, flag(memory_of(r)->sampled))
VALUE(get_frees, sees_frees(r) ? integer(memory_of(r)->frees_count) : absent())
VALUE(get_unknown_frees, sees_frees(r) ? integer(memory_of(r)->unknown_frees_count) : absent())
VALUE(get_temporary, sees_frees(r) ? integer(memory_of(r)->temporary_count) : absent())

static const struct data_table_column memory_columns[] = {
	OF_PROCESS,
	{"domain", get_domain, 0},
	{"allocator", get_allocators, 0},
	{"level", get_level, 0},
	{"sampled", get_sampled, 0},
	{"allocs", AT(profile_memory, allocs.value)},
	{"frees", get_frees, 0},
	{"unknown_frees", get_unknown_frees, 0},
	{"temporary", get_temporary, 0},
	{"allocated_bytes", AT(profile_memory, allocated_bytes.value)},
	{"current_count", AT(profile_memory, current_count)},
	{"current_bytes", AT(profile_memory, current_bytes)},
	{"peak_bytes", AT(profile_memory, peak_bytes)},
	{"peak_at_ns", get_peak_at, 0},
	{"lost_allocs", AT(profile_memory, lost_allocs_count)},
	{"lost_frees", AT(profile_memory, lost_frees_count)},
};

static int fill_memory(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; i < r->process->memory_count && !err; i++)
		err = data_table_add(s, r, i, 0);
	return err;
}

/* --- hotspots: part is one of the domain's ------------------------------------------------------
 */

static const struct profile_hotspot *hotspot_of(const struct data_table_row *r)
{
	return &memory_of(r)->hotspots[r->part];
}

static const void *hotspot_item(const struct data_table_row *r)
{
	return hotspot_of(r);
}

/* Innermost first: "append (train.c:12);main (main.c:9)" */
static struct value get_stack(struct data_table *s, const struct data_table_row *r)
{
	const struct profile_hotspot *hotspot = hotspot_of(r);

	text_clear(&s->made);
	for (size_t i = 0; i < hotspot->frames_count; i++) {
		text_add(&s->made, i ? ";" : "");
		location_frame(&s->made, hotspot->frames[i], LOCATION_BRIEF);
	}
	return words(text_peek(&s->made));
}

static struct value get_running(struct data_table *s, const struct data_table_row *r)
{
	const struct profile_function *function =
		profile_function(s->profile, hotspot_of(r)->function);

	return function ? words(function->name) : absent();
}

static struct value get_slope(struct data_table *s, const struct data_table_row *r)
{
	double slope = r->analysis->memory[r->item].trends[r->part].slope_bytes_per_s;

	(void)s;
	return slope < 0 ? absent() : integer((uint64_t)(slope + 0.5));
}

VALUE(get_allocator, words(hotspot_of(r)->allocator))
VALUE(get_hotspot_frees, sees_frees(r) ? integer(hotspot_of(r)->frees_count) : absent())
VALUE(get_leak, flag(r->analysis->memory[r->item].trends[r->part].leak))

static const struct data_table_column hotspots_columns[] = {
	OF_PROCESS,
	{"domain", get_domain, 0},
	{"allocator", get_allocator, 0},
	{"stack", get_stack, 0},
	{"function", get_running, 0},
	{"allocs", AT(profile_hotspot, allocs.value)},
	{"frees", get_hotspot_frees, 0},
	{"allocated_bytes", AT(profile_hotspot, allocated_bytes.value)},
	{"live_count", AT(profile_hotspot, live_count)},
	{"live_bytes", AT(profile_hotspot, live_bytes)},
	{"live_at_peak_bytes", AT(profile_hotspot, live_at_peak_bytes)},
	{"peak_bytes", AT(profile_hotspot, peak_bytes)},
	{"lifetime_ns", AT(profile_hotspot, lifetime_ns)},
	{"slope_bytes_per_s", get_slope, 0},
	{"leak", get_leak, 0},
};

static int fill_hotspots(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; i < r->process->memory_count; i++) {
		for (size_t j = 0; j < r->process->memory[i].hotspots_count && !err; j++)
			err = data_table_add(s, r, i, j);
	}
	return err;
}

/* --- findings --------------------------------------------------------------------------------- */

static const struct finding *finding_of(const struct data_table_row *r)
{
	return &r->analysis->findings[r->item];
}

VALUE(get_kind, words(finding_of(r)->kind))
VALUE(get_severity, (struct value){.kind = VALUE_RANK,
				   .integer = finding_of(r)->severity,
				   .text = finding_severity_name(finding_of(r)->severity)})
VALUE(get_subject, sentence(finding_of(r)->subject))
VALUE(get_evidence, sentence(finding_of(r)->evidence))
VALUE(get_threshold, sentence(finding_of(r)->threshold))
VALUE(get_suggestion, sentence(finding_of(r)->suggestion))
VALUE(get_partial, flag(finding_of(r)->partial))

static const struct data_table_column findings_columns[] = {
	OF_PROCESS,
	{"severity", get_severity, 0},
	{"kind", get_kind, 0},
	{"subject", get_subject, 0},
	{"evidence", get_evidence, 0},
	{"threshold", get_threshold, 0},
	{"suggestion", get_suggestion, 0},
	{"partial", get_partial, 0},
};

static int fill_findings(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; r->analysis && i < r->analysis->findings_count && !err; i++)
		err = data_table_add(s, r, i, 0);
	return err;
}

/* --- processes -------------------------------------------------------------------------------- */

VALUE(get_ppid, integer(r->process->ppid))
VALUE(get_exec, integer(r->process->exec_count))
VALUE(get_wall, integer(profile_wall_ns(r->process)))

static const struct data_table_column processes_columns[] = {
	OF_PROCESS,
	{"ppid", get_ppid, 0},
	{"exec", get_exec, 0},
	{"wall_ns", get_wall, 0},
	{"cpu_user_ns", AT(profile_process, cpu_user_ns)},
	{"cpu_system_ns", AT(profile_process, cpu_system_ns)},
	{"calls", AT(profile_process, calls_count)},
	{"self_ns", AT(profile_process, self_ns)},
	{"rss_bytes", AT(profile_process, rss_bytes)},
	{"rss_peak_bytes", AT(profile_process, rss_peak_bytes)},
	{"rss_anon_bytes", AT(profile_process, rss_anon_bytes)},
	{"rss_file_bytes", AT(profile_process, rss_file_bytes)},
	{"rss_shmem_bytes", AT(profile_process, rss_shmem_bytes)},
	{"read_bytes", AT(profile_process, read_bytes)},
	{"write_bytes", AT(profile_process, write_bytes)},
	{"net_rx_bytes", AT(profile_process, net_rx_bytes)},
	{"net_tx_bytes", AT(profile_process, net_tx_bytes)},
	{"major_faults", AT(profile_process, major_faults_count)},
	{"throttled_ns", AT(profile_process, throttled_ns)},
	{"unmatched_entries", AT(profile_process, unmatched_entries)},
};

static int fill_processes(struct data_table *s, const struct data_table_row *r)
{
	return data_table_add(s, r, 0, 0);
}

/* --- steps: item is one of the process's, or some that follow each other ---------------------- */

static const struct profile_step *step_of(const struct data_table_row *r)
{
	return &r->process->steps.series[r->item];
}

static const void *step_item(const struct data_table_row *r)
{
	return step_of(r);
}

static bool computed(const struct data_table_row *r)
{
	return r->process->steps.cost.counted_count > 0;
}

static double step_rate(const struct data_table_row *r)
{
	const struct profile_step *step = step_of(r);

	return computed(r) && step->total_ns ? (double)step->flops / (double)step->total_ns : -1;
}

static struct value get_step_at(struct data_table *s, const struct data_table_row *r)
{
	uint64_t at_ns = step_of(r)->from_ns;

	return integer(at_ns > s->profile->start_ns ? at_ns - s->profile->start_ns : 0);
}

VALUE(get_step, integer(r->item * r->process->steps.series_each + 1))
VALUE(get_slow, flag(steps_slow(&r->process->steps, step_of(r))))
VALUE(get_step_flops, computed(r) ? integer(step_of(r)->flops) : absent())
VALUE(get_step_gflops, real(step_rate(r)))
VALUE(get_step_mfu, real(steps_mfu(s->profile, &r->process->steps, step_of(r))))

static const struct data_table_column steps_columns[] = {
	OF_PROCESS,
	{"step", get_step, 0},
	{"steps", AT(profile_step, count)},
	{"at_ns", get_step_at, 0},
	{"total_ns", AT(profile_step, total_ns)},
	{"max_ns", AT(profile_step, max_ns)},
	{"data_ns", AT(profile_step, phases[PROFILE_PHASE_DATA])},
	{"forward_ns", AT(profile_step, phases[PROFILE_PHASE_FORWARD])},
	{"backward_ns", AT(profile_step, phases[PROFILE_PHASE_BACKWARD])},
	{"optimizer_ns", AT(profile_step, phases[PROFILE_PHASE_OPTIMIZER])},
	{"other_ns", AT(profile_step, phases[PROFILE_PHASE_OTHER])},
	{"untraced_ns", AT(profile_step, phases[PROFILE_PHASE_UNTRACED])},
	{"slow", get_slow, 0},
	{"flops", get_step_flops, 0},
	{"gflops_per_s", get_step_gflops, 0},
	{"mfu", get_step_mfu, 0},
};

static int fill_steps(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; i < r->process->steps.series_count && !err; i++)
		err = data_table_add(s, r, i, 0);
	return err;
}

/* --- all of them ------------------------------------------------------------------------------ */

static const struct data_table_kind kinds[] = {
	{"functions", functions_columns, COUNT(functions_columns), "self_ns", fill_functions,
	 function_item},
	{"callers", callers_columns, COUNT(callers_columns), "total_ns", fill_callers, caller_item},
	{"threads", threads_columns, COUNT(threads_columns), "on_cpu_ns", fill_threads,
	 thread_item},
	{"steps", steps_columns, COUNT(steps_columns), NULL, fill_steps, step_item},
	{"memory", memory_columns, COUNT(memory_columns), NULL, fill_memory, memory_item},
	{"hotspots", hotspots_columns, COUNT(hotspots_columns), NULL, fill_hotspots, hotspot_item},
	{"findings", findings_columns, COUNT(findings_columns), "severity", fill_findings, NULL},
	{"processes", processes_columns, COUNT(processes_columns), NULL, fill_processes,
	 process_of},
};

const struct data_table_kind *data_table_kind_named(const char *name)
{
	for (size_t i = 0; i < COUNT(kinds); i++) {
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	}
	return NULL;
}

const char *data_table_kind_names(void)
{
	return "functions, callers, threads, steps, memory, hotspots, findings, processes";
}
