// SPDX-License-Identifier: BSD-2-Clause
/* What make fuzz begins with: the stories of tests/golden in each of the forms that fuzz_capture.c
 * takes. Argument: a folder. */
#include "capture/block.h"
#include "golden_cases.h"

#include <stdio.h>
#include <stdlib.h>

struct part {
	const void *bytes;
	size_t size;
};

static void save(const char *folder, const char *name, char form, const struct part *parts,
		 size_t count)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s-%d", folder, name, form);
	file = fopen(path, "we");
	if (!file)
		exit(1);
	fputc(form, file);
	for (size_t i = 0; i < count; i++)
		fwrite(parts[i].bytes, 1, parts[i].size, file);
	if (fclose(file))
		exit(1);
}

static void save_columns(const char *folder, const char *name, struct column_encoder *encoder,
			 const struct stream *s, size_t size)
{
	const struct columns *columns = column_encoder__encode(encoder, s->bytes.data, size);
	struct part parts[COLUMNS + 1];
	uint16_t sizes[COLUMNS + 1];

	parts[0] = (struct part){sizes, sizeof(sizes)};
	for (int i = 0; i < COLUMNS; i++) {
		sizes[i] = (uint16_t)columns->sizes[i];
		parts[i + 1] = (struct part){columns->bytes[i], columns->sizes[i]};
	}
	sizes[COLUMNS] = (uint16_t)(size / 8);
	save(folder, name, 2, parts, COLUMNS + 1);
}

/* The truncated story ends within a record. */
static size_t whole_records(const struct stream *s)
{
	struct perfx_record hdr;
	size_t at = 0;

	for (; at + sizeof(hdr) <= s->bytes.length; at += hdr.size) {
		memcpy(&hdr, s->bytes.data + at, sizeof(hdr));
		if (hdr.size > s->bytes.length - at)
			break;
	}
	return at;
}

int main(int argc, char **argv)
{
	struct packer *packer = packer__new();
	struct column_encoder *encoder = column_encoder__new();

	if (argc != 2 || !packer || !encoder)
		return 1;
	for (size_t i = 0; i < GOLDEN_CASES; i++) {
		const char *name = golden_cases[i].name;
		struct stream s = {0};
		struct part part;
		size_t size;

		golden_cases[i].build(&s);
		size = whole_records(&s);
		part.bytes = packer__pack(packer, s.bytes.data, size, 0, &part.size);
		save(argv[1], name, 0, &part, 1);
		save(argv[1], name, 1, &part, 1);
		save_columns(argv[1], name, encoder, &s, size);
		part = (struct part){s.bytes.data, s.bytes.length};
		save(argv[1], name, 3, &part, 1);
		stream_clear(&s);
	}
	column_encoder__free(encoder);
	packer__free(packer);
	return 0;
}
