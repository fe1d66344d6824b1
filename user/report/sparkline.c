// SPDX-License-Identifier: BSD-2-Clause
#include "report/sparkline.h"

void spark(struct text *text, const uint64_t *values, size_t count)
{
	static const char *const bars[] = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	uint64_t largest = 0;

	for (size_t i = 0; i < count; i++)
		largest = values[i] > largest ? values[i] : largest;
	for (size_t i = 0; i < count; i++) {
		double share = values[i] ? (double)values[i] / (double)largest : 0;
		unsigned height = (unsigned)(share * 8);

		/* (0, 1/8] is the lowest bar, (7/8, 1] the highest */
		if (height < 8 && values[i] && (share * 8 > height || !height))
			height++;
		text_add(text, bars[height]);
	}
}
