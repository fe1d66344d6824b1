// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/account.h"

#include "analyze/stack_kind.h"

void lines_add(struct lines *lines, const struct profile_frame *frame, uint64_t ns)
{
	if (!frame)
		return;
	for (size_t i = 0; i < lines->count; i++) {
		if (frame_is_same_line(lines->lines[i].frame, frame)) {
			lines->lines[i].ns += ns;
			return;
		}
	}
	if (lines->count < LINES_MAX)
		lines->lines[lines->count++] = (struct place){frame, ns, ns};
}

struct place lines_lead(const struct lines *lines)
{
	struct place lead = {0};

	for (size_t i = 0; i < lines->count; i++) {
		const struct place *line = &lines->lines[i];
		uint64_t function_ns = 0;

		for (size_t j = 0; j < lines->count; j++)
			if (frame_is_same_function(lines->lines[j].frame, line->frame))
				function_ns += lines->lines[j].ns;
		if (function_ns < lead.ns || (function_ns == lead.ns && line->ns <= lead.line_ns))
			continue;
		lead = (struct place){line->frame, function_ns, line->ns};
	}
	return lead;
}
