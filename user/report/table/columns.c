// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tables and their columns, in the order of CSV and of JSON. Where the two differ a column is
 * there twice, each in one of them only.
 */
#include "report/table/columns.h"

#include "analyze/location.h"
#include "analyze/roofline.h"
#include "base/syscalls.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/json/output.h"

#include <stdarg.h>
#include <string.h>

struct value column_process(struct data_table *s, const struct data_table_row *r)
{
	(void)s;
	return integer(r->process->index);
}

struct value column_pid(struct data_table *s, const struct data_table_row *r)
{
	(void)s;
	return integer(r->process->pid);
}

struct value column_comm(struct data_table *s, const struct data_table_row *r)
{
	(void)s;
	return words(r->process->comm);
}

struct value made(struct data_table *s, const char *fmt, ...)
{
	va_list ap;

	text_clear(&s->made);
	va_start(ap, fmt);
	text_vprintf(&s->made, fmt, ap);
	va_end(ap);
	return words(text_peek(&s->made));
}

struct value column_frames(struct data_table *s, const struct profile_frame *const *frames,
			   size_t count)
{
	text_clear(&s->made);
	for (size_t i = 0; i < count; i++) {
		text_add(&s->made, i ? ";" : "");
		location_frame(&s->made, frames[i], LOCATION_BRIEF);
	}
	return words(text_peek(&s->made));
}

static const void *process_of(const struct data_table_row *r)
{
	return r->process;
}

ITEM(function_row, profile_row, &r->process->rows[r->item])

static const struct profile_function *function_of(const struct data_table *s,
						  const struct data_table_row *r)
{
	static const struct profile_function unknown = {
		.name = "", .label = "", .module = "", .module_base = "", .build_id = ""};
	const struct profile_function *function =
		profile_function(s->profile, function_row(r)->function);

	return function ? function : &unknown;
}

static struct value timed(const struct data_table_row *r, uint64_t number)
{
	return function_row(r)->timed_count ? integer(number) : absent();
}

VALUE(get_stddev, rounded(function_row(r)->stddev_ns))
VALUE(get_source,
      function_of(s, r)->source ? words(name_of_source(function_of(s, r)->source)) : absent())
VALUE(get_self_percent, function_row(r)->timed_count &&profile_wall_ns(r->process)
				? real(100.0 * ((double)function_row(r)->self_ns /
						(double)profile_wall_ns(r->process)))
				: absent())
VALUE(get_name, words(function_of(s, r)->name))
VALUE(get_label, words(function_label(function_of(s, r))))
VALUE(get_module, words(function_of(s, r)->module_base))
VALUE(get_path, words(function_of(s, r)->module))
VALUE(get_offset, integer(function_of(s, r)->offset))
VALUE(get_total, timed(r, function_row(r)->total_ns))
VALUE(get_self, timed(r, function_row(r)->self_ns))
VALUE(get_alloc_bytes, r->process->memory_count ? integer(function_row(r)->alloc_bytes) : absent())

/* Callees included, as in total_ns. */
static const struct profile_cost *cost_of(const struct data_table_row *r)
{
	return &function_row(r)->inclusive;
}

static struct roofline line_of(const struct data_table *s, const struct data_table_row *r)
{
	return roofline_of_row(s->profile, r->process, function_row(r));
}

VALUE(get_roofline, words_if(roofline_class_name(line_of(s, r).bound)))
VALUE(get_withheld, words_if(roofline_withheld_name(line_of(s, r).withheld)))
VALUE(get_gflops, real(line_of(s, r).flops_per_s / 1e9))
VALUE(get_intensity, real(line_of(s, r).intensity))

static struct value positive(double number)
{
	return real(number > 0 ? number : -1);
}

/* Of a number that is known only together with the function's operations. */
static struct value computed(const struct data_table_row *r, uint64_t number)
{
	return cost_of(r)->counted_count ? integer(number) : absent();
}

static struct value computed_per_s(const struct data_table_row *r, uint64_t number)
{
	uint64_t wall_ns = profile_wall_ns(r->process);

	if (!cost_of(r)->counted_count || !wall_ns)
		return absent();
	return positive((double)number / (double)wall_ns / 1e-9);
}

static bool moves(const struct data_table_row *r)
{
	return cost_of(r)->counted_count && cost_of(r)->moved_bytes;
}

static bool has_bus(const struct data_table_row *r)
{
	return moves(r) && profile_bus_known(cost_of(r));
}

/* Without callees. */
static const struct profile_cost *own_cost(const struct data_table_row *r)
{
	return &function_row(r)->cost;
}

static struct value get_own(const struct data_table_row *r, uint64_t number)
{
	return own_cost(r)->counted_count ? computed(r, number) : absent();
}

VALUE(get_dtype, cost_of(r)->counted_count &&function_row(r)->dtype != PERFX_DTYPE_UNKNOWN
			 ? words(name_of_dtype(function_row(r)->dtype))
			 : absent())

static struct value get_call_costs(struct data_table *s, const struct data_table_row *r)
{
	const struct profile_cost *cost = own_cost(r);

	(void)s;
	if (cost->counted_count || cost->unread_count || cost->nested_count || cost->opaque_count)
		return nested(json_of_call_costs(cost));
	return absent();
}

static struct value get_parents(struct data_table *s, const struct data_table_row *r)
{
	struct data_table callers = {.kind = data_table_kind_named("callers"),
				     .profile = s->profile};
	struct data_table_row row = *r;
	json_t *array = json_array();

	for (; row.part < function_row(r)->callers_count; row.part++)
		json_array_append_new(array, json_of_row(&callers, &row));
	data_table_clear(&callers);
	return nested(array);
}

VALUE(get_function_kind,
      (function_of(s, r)->flags & PERFX_FUNCTION_RANGE) ? words("range") : absent())
VALUE(get_flops, computed(r, cost_of(r)->flops))
VALUE(get_bytes, computed(r, cost_of(r)->bytes))
VALUE(get_work, computed(r, function_row(r)->computing_ns))
VALUE(get_moved, moves(r) ? integer(cost_of(r)->moved_bytes) : absent())
VALUE(get_moved_per_s, moves(r) ? computed_per_s(r, cost_of(r)->moved_bytes) : absent())
VALUE(get_bus, has_bus(r) ? integer(cost_of(r)->bus_bytes) : absent())
VALUE(get_bus_per_s, has_bus(r) ? computed_per_s(r, cost_of(r)->bus_bytes) : absent())
VALUE(get_own_flops, get_own(r, own_cost(r)->flops))
VALUE(get_own_bytes, get_own(r, own_cost(r)->bytes))
VALUE(get_attainable, positive(line_of(s, r).attainable_flops_per_s / 1e9))
VALUE(get_off_cpu, timed(r, function_row(r)->off_cpu_ns))
VALUE(get_python_callers, function_row(r)->python_callers_count
				  ? nested(json_of_python_callers(function_row(r)))
				  : absent())
VALUE(get_perf_counters,
      function_row(r)->perf ? nested(json_of_perf_counters(s->profile, function_row(r))) : absent())

static const struct data_table_column functions_columns[] = {
	OF_PROCESS,
	{"function", AT(profile_row, function), SQL},
	{"name", .get = get_name, WORDS},
	{"module", .get = get_module, WORDS},
	{"path", .get = get_path, WORDS},
	{"offset", .get = get_offset},
	{"source", .get = get_source, WORDS},
	{"kind", .get = get_function_kind, WORDS, JSON},
	{"calls", COUNT_AT(profile_row, calls_count)},
	{"timed", COUNT_AT(profile_row, timed_count)},
	{"unwound", COUNT_AT(profile_row, unwound_count)},
	{"booked", COUNT_AT(profile_row, overflow_count)},
	{"self_percent", .get = get_self_percent, RATIO, CSV},
	{"self_ns", .get = get_self, CSV},
	{"total_ns", .get = get_total},
	{"self_ns", .get = get_self, JSON},
	{"avg_ns", AT(profile_row, avg_ns)},
	{"min_ns", AT(profile_row, min_ns)},
	{"max_ns", AT(profile_row, max_ns)},
	{"stddev_ns", .get = get_stddev},
	{"p50_ns", AT(profile_row, p50_ns)},
	{"p95_ns", AT(profile_row, p95_ns)},
	{"p99_ns", AT(profile_row, p99_ns)},
	{"threads", COUNT_AT(profile_row, threads_count)},
	{"alloc_bytes", .get = get_alloc_bytes, CSV},
	{"figures", .get = get_call_costs, NESTED, JSON},
	{"flops", .get = get_flops},
	{"bytes", .get = get_bytes},
	{"work_ns", .get = get_work, JSON},
	{"moved_bytes", .get = get_moved, JSON},
	{"moved_bytes_per_s", .get = get_moved_per_s, RATIO, JSON},
	{"bus_bytes", .get = get_bus, JSON},
	{"bus_bytes_per_s", .get = get_bus_per_s, RATIO, JSON},
	{"own_flops", .get = get_own_flops, JSON},
	{"own_bytes", .get = get_own_bytes, JSON},
	{"dtype", .get = get_dtype, WORDS, JSON},
	{"gflops_per_s", .get = get_gflops, RATIO},
	{"intensity", .get = get_intensity, RATIO},
	{"attainable_gflops_per_s", .get = get_attainable, RATIO, JSON},
	{"roofline", .get = get_roofline, WORDS},
	{"rate_withheld", .get = get_withheld, WORDS, JSON},
	{"perf_counters", .get = get_perf_counters, NESTED, JSON},
	{"alloc_bytes", .get = get_alloc_bytes, JSON},
	{"off_cpu_ns", .get = get_off_cpu},
	{"gpu_ns", AT(profile_row, gpu_ns)},
	{"parents", .get = get_parents, NESTED, JSON},
	{"python_callers", .get = get_python_callers, NESTED, JSON},
	/* last: scripts select CSV columns by number */
	{"label", .get = get_label, WORDS},
};

ITEM(caller_of, profile_caller, &function_row(r)->callers[r->part])

static const char *name_without_caller(const struct data_table_row *r)
{
	return caller_of(r)->caller == PROFILE_CALLER_UNTRACED ? "[untraced]" : "[unknown]";
}

static const struct profile_function *calling(const struct data_table *s,
					      const struct data_table_row *r)
{
	return profile_function(s->profile, caller_of(r)->caller);
}

VALUE(get_function, integer(function_row(r)->function))
VALUE(get_caller_function, calling(s, r) ? integer(caller_of(r)->caller) : absent())
VALUE(get_caller, words(calling(s, r) ? calling(s, r)->name : name_without_caller(r)))
VALUE(get_caller_label,
      words(calling(s, r) ? function_label(calling(s, r)) : name_without_caller(r)))
VALUE(get_caller_total, timed(r, caller_of(r)->total_ns))

static const struct data_table_column callers_columns[] = {
	OF_PROCESS,
	{"function", .get = get_function, SQL},
	{"caller_function", .get = get_caller_function, SQL},
	{"name", .get = get_name, WORDS, CSV},
	{"module", .get = get_module, WORDS, CSV},
	{"offset", .get = get_offset, CSV},
	{"caller", .get = get_caller, WORDS, CSV},
	{"name", .get = get_caller, WORDS, JSON},
	{"label", .get = get_caller_label, WORDS, JSON},
	{"calls", AT(profile_caller, calls_count)},
	{"total_ns", .get = get_caller_total},
};

static int fill_callers(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; i < r->process->rows_count; i++)
		for (size_t j = 0; j < r->process->rows[i].callers_count && !err; j++)
			err = data_table_add(s, r, i, j);
	return err;
}

ITEM(thread_of, profile_thread, &r->process->threads[r->item])

VALUE(get_state, thread_of(r)->state ? made(s, "%c", thread_of(r)->state) : absent())

static const struct data_table_column threads_columns[] = {
	OF_PROCESS,
	{"tid", AT(profile_thread, tid)},
	{"thread", AT(profile_thread, comm), CSV},
	{"comm", AT(profile_thread, comm), JSON},
	{"state", .get = get_state, WORDS},
	{"wall_ns", AT(profile_thread, wall_ns)},
	{"on_cpu_ns", AT(profile_thread, on_cpu_ns)},
	{"runnable_ns", AT(profile_thread, runnable_ns)},
	{"blocked_ns", AT(profile_thread, blocked_ns)},
};

ITEM(code_line, profile_line, &r->process->lines[r->item])

VALUE(get_line_language, words(name_of_language(code_line(r)->language)))
VALUE(get_line_spinning, r->analysis && r->analysis->lines_spinning_ns[r->item]
				 ? integer(r->analysis->lines_spinning_ns[r->item])
				 : absent())
VALUE(get_line_domain,
      code_line(r)->domain ? words(name_of_domain(code_line(r)->domain)) : absent())

static const struct data_table_column lines_columns[] = {
	OF_PROCESS,
	{"file", AT(profile_line, file)},
	{"line", AT(profile_line, line)},
	{"function", AT(profile_line, function)},
	{"language", .get = get_line_language, WORDS},
	{"samples", AT(profile_line, samples_count)},
	{"on_cpu_ns", AT(profile_line, on_cpu_ns)},
	{"off_cpu_ns", AT(profile_line, off_cpu_ns)},
	{"calls_ns", AT(profile_line, calls_ns)},
	{"allocs", AT(profile_line, allocs_count)},
	{"alloc_bytes", AT(profile_line, alloc_bytes)},
	{"domain", .get = get_line_domain, WORDS},
	{"module", AT(profile_line, module_base), NONZERO},
	{"offset", AT(profile_line, offset), NONZERO},
	{"spinning_ns", .get = get_line_spinning},
};

ITEM(wait_of, profile_activity, &r->process->blocked.list[r->item])

static struct value get_reason(struct data_table *s, const struct data_table_row *r)
{
	const struct profile_activity *wait = wait_of(r);
	const char *syscall =
		wait->reason == PERFX_WAIT_SYSCALL ? syscall_name(wait->syscall) : NULL;

	if (wait->reason != PERFX_WAIT_SYSCALL || syscall)
		return words(syscall ? syscall : name_of_wait(wait->reason));
	return made(s, "syscall_%u", wait->syscall);
}

/* Its name or, where it has none, its number. */
static struct value get_object(struct data_table *s, const struct data_table_row *r)
{
	const struct profile_activity *wait = wait_of(r);

	if (!wait->object || wait->object_name[0])
		return words(wait->object_name);
	return made(s, "0x%llx", (unsigned long long)wait->object);
}

static const struct profile_stack *stack_of(const struct data_table_row *r)
{
	static const struct profile_stack none;

	return wait_of(r)->stack ? wait_of(r)->stack : &none;
}

VALUE(get_wait_thread, words(profile_thread_name(r->process, wait_of(r)->tid)))
VALUE(get_holder, wait_of(r)->holder_tid
			  ? words(profile_thread_name(r->process, wait_of(r)->holder_tid))
			  : absent())
VALUE(get_wait_stack, column_frames(s, stack_of(r)->frames, stack_of(r)->frames_count))
VALUE(get_wait_frames, nested(json_of_frames(stack_of(r)->frames, stack_of(r)->frames_count)))

static const struct data_table_column blocked_columns[] = {
	OF_PROCESS,
	{"reason", .get = get_reason, WORDS},
	{"ns", AT(profile_activity, ns)},
	{"count", AT(profile_activity, count)},
	{"max_ns", AT(profile_activity, max_ns)},
	{"thread", .get = get_wait_thread, WORDS},
	{"tid", AT(profile_activity, tid)},
	{"object", .get = get_object, WORDS},
	{"holder", .get = get_holder, WORDS},
	{"holder_tid", AT(profile_activity, holder_tid), NONZERO},
	{"stack", .get = get_wait_stack, WORDS, CSV},
	{"stack", .get = get_wait_frames, NESTED, JSON},
};

ITEM(finding_of, finding, &r->analysis->findings[r->item])

VALUE(get_severity, (struct value){.kind = VALUE_RANK,
				   .integer = finding_of(r)->severity,
				   .text = finding_severity_name(finding_of(r)->severity)})
VALUE(get_class,
      finding_of(r)->bottleneck ? words(bottleneck_name(finding_of(r)->bottleneck)) : absent())
VALUE(get_gain, r->process->steps.count &&finding_of(r)->gain_ns > 0 && !finding_of(r)->gain_unknown
			? integer(u64_of(finding_of(r)->gain_ns))
			: absent())

VALUE(get_place,
      finding_of(r)->place.function ? nested(json_of_place(&finding_of(r)->place)) : absent())

static const struct data_table_column findings_columns[] = {
	OF_PROCESS,
	{"severity", .get = get_severity, WORDS, CSV},
	{"kind", AT(finding, kind)},
	{"severity", .get = get_severity, WORDS, JSON},
	{"subject", SENTENCE_AT(finding, subject)},
	{"evidence", SENTENCE_AT(finding, evidence)},
	{"threshold", SENTENCE_AT(finding, threshold)},
	{"suggestion", SENTENCE_AT(finding, suggestion)},
	{"partial", AT(finding, partial)},
	{"class", .get = get_class, WORDS},
	{"gain_ns_per_step", .get = get_gain},
	{"confidence", AT(finding, confidence), NONZERO},
	{"function", AT(finding, place.function), CSV},
	{"file", AT(finding, place.file), CSV},
	{"line", AT(finding, place.line), NONZERO, CSV},
	{"place", .get = get_place, NESTED, JSON},
	{"look", SENTENCE_AT(finding, look), NONZERO},
};

static int fill_findings(struct data_table *s, const struct data_table_row *r)
{
	int err = 0;

	for (size_t i = 0; r->analysis && i < r->analysis->findings_count && !err; i++)
		err = data_table_add(s, r, i, 0);
	return err;
}

VALUE(get_wall, integer(profile_wall_ns(r->process)))
VALUE(get_arguments, nested(json_of_arguments(r->process->cmdline)))
VALUE(get_wait_status, r->process->exited ? integer((uint32_t)r->process->status) : absent())

VALUE(get_io, nested(json_unless_empty(json_object_of(
		      {"read_bytes", json_of_measured(r->process->read_bytes)},
		      {"write_bytes", json_of_measured(r->process->write_bytes)},
		      {"net_rx_bytes", json_of_measured(r->process->net_rx_bytes)},
		      {"net_tx_bytes", json_of_measured(r->process->net_tx_bytes)}))))
VALUE(get_rank, r->process->rank.world_size ? integer(r->process->rank.rank) : absent())

VALUE(get_container_name, words_if(r->process->place.of[PERFX_PLACE_CONTAINER]
					   ?: r->process->place.of[PERFX_PLACE_CONTAINER_ID]))

static struct value get_container(struct data_table *s, const struct data_table_row *r)
{
	static const struct {
		const char *key;
		enum perfx_place_part part;
	} parts[] = {
		{"id", PERFX_PLACE_CONTAINER_ID},
		{"name", PERFX_PLACE_CONTAINER},
		{"runtime", PERFX_PLACE_RUNTIME},
		{"pod", PERFX_PLACE_POD},
		{"namespace", PERFX_PLACE_NAMESPACE},
		{"pod_uid", PERFX_PLACE_POD_UID},
		{"job", PERFX_PLACE_JOB},
		{"step", PERFX_PLACE_JOB_STEP},
		{"host_name", PERFX_PLACE_HOST_NAME},
	};
	json_t *container = json_object();

	(void)s;
	for (size_t i = 0; i < COUNT(parts); i++)
		if (r->process->place.of[parts[i].part])
			json_set_string(container, parts[i].key,
					r->process->place.of[parts[i].part]);
	return nested(json_unless_empty(container));
}
VALUE(get_energy_estimated,
      r->process->energy.gpu_mj == PROFILE_ABSENT ? absent() : flag(r->process->energy.estimated))

static const struct data_table_column processes_columns[] = {
	{"process", .get = column_process, SQL},
	{"pid", .get = column_pid},
	{"comm", .get = column_comm, WORDS, CSV},
	{"ppid", AT(profile_process, ppid)},
	{"start_ns", AT(profile_process, start_boot_ns), NONZERO, JSON},
	{"exec", AT(profile_process, exec_count)},
	{"comm", .get = column_comm, WORDS, JSON},
	{"cmdline", .get = get_arguments, NESTED, JSON},
	{"wall_ns", .get = get_wall},
	{"cpu_user_ns", AT(profile_process, cpu_user_ns)},
	{"cpu_system_ns", AT(profile_process, cpu_system_ns)},
	{"calls", AT(profile_process, calls_count), CSV},
	{"self_ns", AT(profile_process, self_ns), CSV},
	{"rss_bytes", AT(profile_process, rss_bytes)},
	{"rss_peak_bytes", AT(profile_process, rss_peak_bytes)},
	{"rss_anon_bytes", AT(profile_process, rss_anon_bytes)},
	{"rss_file_bytes", AT(profile_process, rss_file_bytes)},
	{"rss_shmem_bytes", AT(profile_process, rss_shmem_bytes)},
	{"read_bytes", AT(profile_process, read_bytes), CSV},
	{"write_bytes", AT(profile_process, write_bytes), CSV},
	{"net_rx_bytes", AT(profile_process, net_rx_bytes), CSV},
	{"net_tx_bytes", AT(profile_process, net_tx_bytes), CSV},
	{"major_faults", AT(profile_process, major_faults_count)},
	{"throttled_ns", AT(profile_process, throttled_ns)},
	{"cpus", AT(profile_process, limits.cpus_count), NONZERO},
	{"cpu_limit_milli", AT(profile_process, limits.cpu_limit_milli)},
	{"memory_limit_bytes", AT(profile_process, limits.memory_limit_bytes)},
	{"memory_limit_used_bytes", AT(profile_process, limits.memory_used_bytes)},
	{"address_limit_bytes", AT(profile_process, limits.address_limit_bytes)},
	{"host_available_bytes", AT(profile_process, limits.host_available_bytes)},
	{"gpu_energy_mj", AT(profile_process, energy.gpu_mj)},
	{"gpu_steps_energy_mj", AT(profile_process, energy.steps_mj)},
	{"gpu_energy_estimated", .get = get_energy_estimated},
	{"io", .get = get_io, NESTED, JSON},
	{"unmatched_entries", AT(profile_process, unmatched_entries)},
	{"wait_status", .get = get_wait_status, JSON},
	{"rank", .get = get_rank},
	{"cgroup", AT(profile_process, place.of[PERFX_PLACE_CGROUP])},
	{"unit", AT(profile_process, place.of[PERFX_PLACE_UNIT])},
	{"container", .get = get_container, NESTED, JSON},
	{"container", .get = get_container_name, WORDS, CSV},
	{"pod", AT(profile_process, place.of[PERFX_PLACE_POD]), CSV},
	{"namespace", AT(profile_process, place.of[PERFX_PLACE_NAMESPACE]), CSV},
	{"job", AT(profile_process, place.of[PERFX_PLACE_JOB]), CSV},
};

static int fill_processes(struct data_table *s, const struct data_table_row *r)
{
	return data_table_add(s, r, 0, 0);
}

ITEM(step_of, profile_step, &r->process->steps.series[r->item])

static bool has_flops(const struct data_table_row *r)
{
	const struct profile_step *step = step_of(r);

	return r->process->steps.cost.counted_count > 0 && step->computed_count == step->count;
}

VALUE(get_step, integer(r->item * r->process->steps.series_each + 1))
VALUE(get_step_at, integer(profile_since_start(s->profile, step_of(r)->from_ns)))
VALUE(get_breakdown, nested(json_of_phases(step_of(r)->phases)))
VALUE(get_step_off_cpu,
      r->process->steps.off_cpu_ns == PROFILE_ABSENT || step_of(r)->waited_count < step_of(r)->count
	      ? absent()
	      : integer(step_of(r)->off_cpu_ns))
VALUE(get_slow, flag(steps_slow(&r->process->steps, step_of(r))))
VALUE(get_step_flops, has_flops(r) ? integer(step_of(r)->flops) : absent())
VALUE(get_step_gflops, has_flops(r) && step_of(r)->total_ns
			       ? real((double)step_of(r)->flops / (double)step_of(r)->total_ns)
			       : absent())
VALUE(get_step_mfu, real(steps_mfu(s->profile, &r->process->steps, step_of(r))))

static const struct data_table_column steps_columns[] = {
	OF_PROCESS,
	{"step", .get = get_step, CSV},
	{"steps", AT(profile_step, count), CSV},
	{"at_ns", .get = get_step_at},
	{"steps", AT(profile_step, count), JSON},
	{"total_ns", AT(profile_step, total_ns)},
	{"max_ns", AT(profile_step, max_ns)},
	{"data_ns", AT(profile_step, phases[PROFILE_PHASE_DATA]), CSV},
	{"forward_ns", AT(profile_step, phases[PROFILE_PHASE_FORWARD]), CSV},
	{"backward_ns", AT(profile_step, phases[PROFILE_PHASE_BACKWARD]), CSV},
	{"optimizer_ns", AT(profile_step, phases[PROFILE_PHASE_OPTIMIZER]), CSV},
	{"other_ns", AT(profile_step, phases[PROFILE_PHASE_OTHER]), CSV},
	{"untraced_ns", AT(profile_step, phases[PROFILE_PHASE_UNTRACED]), CSV},
	{"slow", .get = get_slow},
	{"flops", .get = get_step_flops},
	{"gflops_per_s", .get = get_step_gflops, RATIO, CSV},
	{"mfu", .get = get_step_mfu, RATIO},
	{"off_cpu_ns", .get = get_step_off_cpu},
	{"breakdown", .get = get_breakdown, NESTED, JSON},
};

const struct data_table_kind functions_table = {COLUMNS(functions), "self_ns", function_row_item,
						EACH(rows_count)};
static const struct data_table_kind callers_table = {COLUMNS(callers), "total_ns", caller_of_item,
						     .fill = fill_callers};
static const struct data_table_kind threads_table = {COLUMNS(threads), "on_cpu_ns", thread_of_item,
						     EACH(threads_count)};
static const struct data_table_kind steps_table = {COLUMNS(steps), NULL, step_of_item,
						   EACH(steps.series_count)};
static const struct data_table_kind lines_table = {COLUMNS(lines), NULL, code_line_item,
						   EACH(lines_count)};
static const struct data_table_kind blocked_table = {COLUMNS(blocked), "ns", wait_of_item,
						     EACH(blocked.count)};
static const struct data_table_kind findings_table = {COLUMNS(findings), "severity",
						      finding_of_item, .fill = fill_findings};
const struct data_table_kind processes_table = {COLUMNS(processes), NULL, process_of,
						.fill = fill_processes};

static const struct data_table_kind *const kinds[] = {
	&functions_table, &callers_table,  &threads_table,  &steps_table,	&memory_table,
	&hotspots_table,  &lines_table,	   &blocked_table,  &gpu_kernels_table, &gpu_copies_table,
	&gpu_syncs_table, &findings_table, &processes_table};

const struct data_table_kind *data_table_kind_named(const char *name)
{
	for (size_t i = 0; i < COUNT(kinds); i++)
		if (!strcmp(kinds[i]->name, name))
			return kinds[i];
	return NULL;
}

const struct data_table_kind *data_table_kind_at(size_t number)
{
	return number < COUNT(kinds) ? kinds[number] : NULL;
}

const char *data_table_kind_names(void)
{
	return "functions, callers, threads, steps, memory, hotspots, lines, blocked, "
	       "gpu_kernels, gpu_copies, gpu_syncs, findings, processes";
}
