// SPDX-License-Identifier: BSD-2-Clause
/* What the threads did last, between context switches (--timeline): a figure. */
#include "base/units.h"
#include "report/document/compose.h"

void compose_timeline(struct composer *c, const struct profile_process *p)
{
	size_t count = 0;

	FOR_EACH (slice, c->profile->last_slices)
		count += slice->process == p->index;
	if (!count || !c->limits->charts)
		return;
	document_printf(c->document, BLOCK_SECTION, "Timeline");
	if (c->profile->last_slices_count < c->profile->slices_count)
		document_printf(c->document, BLOCK_NOTE,
				"The last %s of %s slices of all processes: --since and --until "
				"choose another time, perfx-trace export -f perfetto shows all.",
				as_count(c->profile->last_slices_count),
				as_count(c->profile->slices_count));
	document_add_chart(c->document, (struct chart){.kind = CHART_TIMELINE, .process = p});
}
