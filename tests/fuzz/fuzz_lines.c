// SPDX-License-Identifier: BSD-2-Clause
/* What is read of a Python interpreter: line tables, and _PyRuntime's description of itself. */
#include "fuzz.h"

#include "cpython/lines.h"
#include "cpython/release.h"

/* Offsets that are used without asking again. */
static void describe(const uint8_t *data, size_t size)
{
	static uint8_t runtime[CPYTHON_RUNTIME_BYTES];
	struct cpython_release release;

	memset(runtime, 0, sizeof(runtime));
	memcpy(runtime, data, size < sizeof(runtime) ? size : sizeof(runtime));
	if (cpython_release(runtime, 0x030b02f0, &release))
		return;
	if (release.frames.frame_bytes > PERFX_PYTHON_WORDS * sizeof(uint64_t) ||
	    release.frames.frame_code + 8u > release.frames.frame_bytes ||
	    release.frames.frame_back + 8u > release.frames.frame_bytes ||
	    release.frames.frame_instruction + 4u > release.frames.frame_bytes ||
	    release.frames.frame_entry >= release.frames.frame_bytes)
		abort();
}

/* The format of a table, or 0: a runtime; the first line, in 3 bytes; what is looked at. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct code_lines lines;

	if (size < 4)
		return 0;
	if (!data[0]) {
		describe(data + 1, size - 1);
		return 0;
	}
	lines = (struct code_lines){.format = data[0] % (LINE_TABLE_LOCATIONS + 1),
				    .first_line = data[1] | data[2] << 8 | data[3] << 16,
				    .bytes = data + 4,
				    .length = size - 4};
	for (uint32_t at = 0; at < 300; at += 7)
		line_of_instruction(&lines, at);
	line_of_instruction(&lines, UINT32_MAX);
	return 0;
}
