// SPDX-License-Identifier: BSD-2-Clause
/* The table of steps: item is one of the process's, or some that follow each other. */
#include "analyze/steps.h"
#include "report/data_table_values.h"

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

const struct data_table_kind data_table_steps = {
	.name = "steps",
	.columns = steps_columns,
	.columns_count = COUNT(steps_columns),
	.fill = fill_steps,
	.item = step_item,
};
