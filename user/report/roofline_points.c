// SPDX-License-Identifier: BSD-2-Clause
#include "report/roofline_points.h"

static void find_roofs(struct roofline_points *marks)
{
	size_t at;

	for (size_t i = 0; i < marks->count; i++) {
		const struct roof *roof = &marks->marks[i].line.roof;

		for (at = 0; at < marks->roofs_count && marks->roofs[at].dtype != roof->dtype; at++)
			;
		if (at == marks->roofs_count && roof->flops_per_s > 0 && roof->bytes_per_s > 0)
			marks->roofs[marks->roofs_count++] = *roof;
	}
}

void roofline_points_find(struct roofline_points *marks, const struct profile *profile,
			  const struct profile_process *process)
{
	*marks = (struct roofline_points){0};
	for (size_t i = 0; i < process->rows_count && marks->count < MARKS; i++) {
		const struct profile_row *row = &process->rows[i];
		struct roofline line;

		if (!row->cost.flops)
			continue;
		line = roofline_of_row(profile, process, row);
		if (line.flops_per_s > 0 && line.intensity > 0)
			marks->marks[marks->count++] = (struct roofline_point){row, line};
	}
	find_roofs(marks);
}

void roofline_points_plot(const struct roofline_points *marks, struct plot_point *points,
			  struct plot_roof *roofs)
{
	for (size_t i = 0; i < marks->count; i++) {
		const struct roofline *line = &marks->marks[i].line;

		points[i] = (struct plot_point){line->intensity, line->flops_per_s, plot_label(i)};
	}
	for (size_t i = 0; i < marks->roofs_count; i++)
		roofs[i] = (struct plot_roof){marks->roofs[i].flops_per_s,
					      marks->roofs[i].bytes_per_s};
}
