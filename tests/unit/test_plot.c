// SPDX-License-Identifier: BSD-2-Clause
/* The roofline's drawing, whole. */
#include "base/text.h"
#include "report/document/plot.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *draw(unsigned columns, const struct plot_roof *roofs, size_t roofs_count,
		  const struct plot_point *points, size_t points_count)
{
	struct text text = {0};

	plot_roofline(&text, columns, roofs, roofs_count, points, points_count);
	return text_take(&text);
}

/* A roof of 10 with its ridge at 1, over three decades to the right and two up; one point on the
 * slope, one on the flat part, a third that shares its place, one below. */
Test(plot, whole)
{
	static const struct plot_roof roof = {10, 10};
	static const struct plot_point points[] = {
		{0.1, 1, 'A'}, {10, 9.9, 'B'}, {10.1, 9.9, 'C'}, {99, 1.1, 'D'}};
	char *got = draw(38, &roof, 1, points, 4);
	const char *want = "   100 ┤\n"
			   "       │\n"
			   "       │\n"
			   "       │\n"
			   "       │\n"
			   "    10 ┤          ⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀\n"
			   "       │        ⢠⠊          BC\n"
			   "       │      ⢀⠔⠁\n"
			   "       │     ⡠⠃\n"
			   "       │   ⢀⠎\n"
			   "       │ ⢀⠔⠁\n"
			   "     1 ┤A⠊                           D\n"
			   "       └┬─────────┬─────────┬────────┬\n"
			   "        0.1       1        10      100\n";

	cr_expect_str_eq(got, want, "got:\n%s", got);
	free(got);
}

/* Whatever is drawn: fourteen lines, none beyond the width, the marks all there. */
Test(plot, keeps_its_place)
{
	static const struct plot_roof roofs[] = {{1e15, 1e-3}, {1, 1e12}};
	static const struct plot_point points[] = {{1e-12, 1e-9, 'A'}, {1e18, 1e18, 'B'}};

	for (unsigned columns = 0; columns < 120; columns++) {
		char *got = draw(columns, roofs, 2, points, 2), *rest = got, *line;
		unsigned lines = 0, width = columns > PLOT_COLUMNS_MIN ? columns : PLOT_COLUMNS_MIN;

		cr_expect(strchr(got, 'A') && strchr(got, 'B'), "%s", got);
		while ((line = strsep(&rest, "\n")) && *line) {
			cr_expect_leq(utf8_width(line), width, "%s", line);
			lines++;
		}
		cr_expect_eq(lines, 14);
		free(got);
	}
}

/* More letters at one place than there is room for beside it: the rest is left out. */
Test(plot, crowd)
{
	struct plot_point points[9];
	char *got;

	for (size_t i = 0; i < 9; i++)
		points[i] = (struct plot_point){i ? 999 : 10, 5, (char)('A' + i)};
	got = draw(30, NULL, 0, points, 9);
	cr_expect(strchr(got, 'A') && strchr(got, 'B'));
	cr_expect_null(strchr(got, 'C'), "%s", got);
	free(got);
}
