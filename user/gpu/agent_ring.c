// SPDX-License-Identifier: BSD-2-Clause
#include "base/order.h"
#include "gpu/internal.h"
#include "perfx_record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char *data_of(const struct agent_ring *ring)
{
	return (const unsigned char *)ring->shared + PERFX_AGENT_RING_DATA;
}

/* Never the header's own word: the process could change it. */
static size_t data_bytes(const struct agent_ring *ring)
{
	return ring->bytes - PERFX_AGENT_RING_DATA;
}

void agent_ring_init(struct agent_ring *ring, void *memory, size_t bytes)
{
	*ring = (struct agent_ring){.shared = memory, .bytes = bytes};
	ring->shared->magic = PERFX_AGENT_RING_MAGIC;
	ring->shared->version = PERFX_AGENT_VERSION;
	ring->shared->data_bytes = data_bytes(ring);
}

int agent_ring_make(struct agent_ring *ring, size_t bytes)
{
	int fd = memfd_create("perfx-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;
	void *memory = MAP_FAILED;

	*ring = (struct agent_ring){0};
	if (fd >= 0 && !ftruncate(fd, (off_t)bytes) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory != MAP_FAILED) {
		agent_ring_init(ring, memory, bytes);
		return fd;
	}
	err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

void agent_ring_unmap(struct agent_ring *ring)
{
	if (ring->shared)
		munmap(ring->shared, ring->bytes);
	*ring = (struct agent_ring){0};
}

/* Sums that are read while they are written: each word is whole. */
struct perfx_agent_losses agent_ring_losses(const struct agent_ring *ring)
{
	struct perfx_agent_losses losses = {0};

	if (ring->shared)
		memcpy(&losses, &ring->shared->losses, sizeof(losses));
	return losses;
}

static bool is_good(union agent_record *record)
{
	size_t size = record->hdr.size;

	switch (record->hdr.kind) {
	case PERFX_AGENT_NAME:
		if (size <= sizeof(record->name) || size > sizeof(*record) || !record->name.name)
			return false;
		record->text[size - sizeof(record->name) - 1] = '\0';
		return true;
	case PERFX_AGENT_DEVICE:
		return record->device.hdr.size == sizeof(record->device) &&
		       record->device.device < PERFX_GPU_DEVICES_MAX;
	case PERFX_AGENT_ACTIVITY:
		return record->activity.hdr.size == sizeof(record->activity) &&
		       record->activity.op > PERFX_GPU_OP_INVALID &&
		       record->activity.op < PERFX_GPU_OPS &&
		       record->activity.direction < PERFX_GPU_DIRECTIONS &&
		       record->activity.host_memory < PERFX_GPU_HOST_MEMORIES &&
		       record->activity.device < PERFX_GPU_DEVICES_MAX &&
		       record->activity.end_ns >= record->activity.start_ns;
	case PERFX_AGENT_CALL:
		return record->call.hdr.size == sizeof(record->call) &&
		       record->call.op > PERFX_GPU_OP_INVALID && record->call.op < PERFX_GPU_OPS &&
		       record->call.end_ns >= record->call.start_ns;
	default:
		return false;
	}
}

/* One record, which may be padding. */
static int read_record(struct agent_ring *ring, union agent_record *record)
{
	uint64_t head = __atomic_load_n(&ring->shared->head, __ATOMIC_ACQUIRE), bits;
	uint64_t unread = head - ring->tail;
	size_t at = ring->tail & (data_bytes(ring) - 1), there;
	struct perfx_agent_record header;

	if (!unread)
		return 0;
	if (unread > data_bytes(ring) || unread % 8)
		return -EBADMSG;
	there = min_u64(data_bytes(ring) - at, unread); /* a record does not wrap */
	/* read once: the process may change it while it is checked */
	bits = __atomic_load_n((const uint64_t *)(data_of(ring) + at), __ATOMIC_RELAXED);
	_Static_assert(sizeof(header) == sizeof(bits), "struct perfx_agent_record");
	memcpy(&header, &bits, sizeof(header));
	if (header.size < sizeof(header) || header.size > there || header.size % 8)
		return -EBADMSG;
	if (header.kind != PERFX_AGENT_PAD) {
		if (header.size > sizeof(*record))
			return -EBADMSG;
		memcpy(record, data_of(ring) + at, header.size);
	}
	record->hdr = header;
	if (header.kind != PERFX_AGENT_PAD && !is_good(record))
		return -EBADMSG;
	ring->tail += header.size;
	__atomic_store_n(&ring->shared->tail, ring->tail, __ATOMIC_RELEASE);
	return 1;
}

int agent_ring_next(struct agent_ring *ring, union agent_record *record)
{
	int found = ring->is_damaged || !ring->shared ? 0 : 1;

	while (found > 0) {
		found = read_record(ring, record);
		if (found > 0 && record->hdr.kind != PERFX_AGENT_PAD)
			return 1;
	}
	if (found < 0)
		ring->is_damaged = true;
	return found;
}
