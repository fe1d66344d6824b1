// SPDX-License-Identifier: BSD-2-Clause
#include "base/clock.h"

#include <stdio.h>

void phases_begin(struct phases *phases, const char *name)
{
	if (phases->count < PHASES_MAX)
		phases->list[phases->count++] = (struct phase){name, clock_monotonic_ns()};
}

static unsigned between_ms(uint64_t begin_ns, uint64_t end_ns)
{
	return (unsigned)((end_ns - begin_ns + 500000) / 1000000);
}

void phases_format(const struct phases *phases, uint64_t end_ns, char *text, size_t size)
{
	FILE *out = fmemopen(text, size, "w");

	if (!out)
		return;
	if (phases->count)
		fprintf(out, "ready in %u ms", between_ms(phases->list[0].begin_ns, end_ns));
	for (size_t i = 0; i < phases->count; i++) {
		const struct phase *phase = &phases->list[i];
		uint64_t phase_end_ns =
			i + 1 < phases->count ? phases->list[i + 1].begin_ns : end_ns;

		fprintf(out, "%s %s %u", i ? "," : ":", phase->name,
			between_ms(phase->begin_ns, phase_end_ns));
	}
	fclose(out);
}
