/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rewrites a capture as from another machine, for test_merge.py:
 *
 *	shift IN OUT NAME SHIFT_NS DRIFT_PPB
 *
 * Its clock is SHIFT_NS ahead at the start and runs DRIFT_PPB faster; host and boot id differ; the
 * time of day is unchanged.
 */
#include "capture/capture.h"
#include "decode/decode.h"
#include "decode/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t shift_ns, drift_ppb;
static uint64_t start_ns;
static const char *name;
static struct capture_writer *writer;

static void need(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	exit(1);
}

static uint64_t moved(uint64_t time_ns)
{
	double since_ns = start_ns ? (double)(int64_t)(time_ns - start_ns) : 0;

	return time_ns + (uint64_t)shift_ns +
	       (uint64_t)(int64_t)(since_ns * (double)drift_ppb * 1e-9);
}

static void move(struct perfx_record *record, enum perfx_kind kind)
{
	size_t count;
	const struct field *field = fields_of(kind, &count);

	for (; count; count--, field++) {
		uint64_t time_ns = field_get(field, record);

		if (time_ns && (field->space == FIELD_TIME || field->space == FIELD_BOOT_TIME))
			field_set(field, record, moved(time_ns));
	}
}

static void put(const struct event *event)
{
	static struct pack_buffer buffer;
	static _Alignas(8) char record[PERFX_RECORD_MAX];
	struct perfx_host host = event->host;
	const struct perfx_record *packed = (const void *)record;

	memcpy(record, event->record, event->hdr.size);
	move((struct perfx_record *)record, event->kind);
	if (event->kind == PERFX_KIND_HOST) {
		host.start_ns = moved(host.start_ns);
		host.start_boot_ns = moved(host.start_boot_ns);
		packed = PACK(&buffer, PERFX_KIND_HOST, host, name, event->strings[1], name,
			      event->strings[3], event->strings[4]);
	}
	need(capture_writer__add(writer, packed, packed->size), "write");
}

int main(int argc, char **argv)
{
	struct capture_reader *reader = argc == 6 ? capture_reader__open(argv[1]) : NULL;
	const void *records;
	size_t size;

	need(reader ? 0 : -EINVAL, "shift IN OUT NAME SHIFT_NS DRIFT_PPB");
	name = argv[3];
	shift_ns = strtoll(argv[4], NULL, 10);
	drift_ppb = strtoll(argv[5], NULL, 10);
	writer = capture_writer__new(open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
	need(writer ? 0 : -errno, argv[2]);
	while (capture_reader__next(reader, &records, &size) > 0) {
		for (const char *at = records; size;) {
			struct event event;
			size_t skip;
			ssize_t used = decode_event(at, size, &event, &skip);

			need(used < 0 ? (int)used : 0, "decode");
			if (!start_ns && event.kind == PERFX_KIND_SPAN)
				start_ns = event.span.start_ns;
			put(&event);
			at += used;
			size -= (size_t)used;
		}
	}
	capture_reader__free(reader);
	need(capture_writer__free(writer), "write");
	return 0;
}
