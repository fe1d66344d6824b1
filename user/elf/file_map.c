// SPDX-License-Identifier: BSD-2-Clause
#include "elf/file_map.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A mapping, for the handler, which may not wait for a lock: nodes are never freed, and those whose
 * file is unmapped (end 0) are used again. */
struct mapping_node {
	_Atomic(uintptr_t) start, end;
	struct mapping_node *next;
};

static _Atomic(struct mapping_node *) mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of who maps and unmaps */

static struct mapping_node *mapping_at(uintptr_t address)
{
	struct mapping_node *node = atomic_load(&mappings);

	while (node && (address < node->start || address >= node->end))
		node = node->next;
	return node;
}

/* From the page that is not there up to the end. */
static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	struct mapping_node *node = mapping_at(page);
	int err = errno;

	(void)context;
	/* another's fault, or no memory: it happens again when this returns, and ends the program
	 */
	if (!node || mmap((void *)page, node->end - page, PROT_READ,
			  MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		(void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	errno = err;
}

static void install_handler(void)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &action, NULL);
}

static struct mapping_node *unused_node(void)
{
	struct mapping_node *node = atomic_load(&mappings);

	while (node && node->end)
		node = node->next;
	if (node)
		return node;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	node->next = atomic_load(&mappings);
	atomic_store(&mappings, node);
	return node;
}

/* Whole pages, and a byte more at least. */
static size_t mapped_size(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size / page + 1) * page;
}

/* MAP_SHARED: into private mappings of a file the kernel writes the breakpoints of the tracer that
 * traces it. */
static void *map_pages(int fd, size_t size)
{
	size_t whole = mapped_size(size);
	void *bytes = mmap(NULL, whole, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return NULL;
	if (mmap(bytes, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
		return bytes;
	munmap(bytes, whole);
	return NULL;
}

const void *file_map(int fd, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void *bytes = map_pages(fd, size);
	struct mapping_node *node;

	if (!bytes)
		return NULL;
	pthread_once(&once, install_handler);
	pthread_mutex_lock(&lock);
	node = unused_node();
	if (node) {
		atomic_store(&node->start, (uintptr_t)bytes);
		atomic_store(&node->end, (uintptr_t)bytes + mapped_size(size));
	}
	pthread_mutex_unlock(&lock);
	if (node)
		return bytes;
	munmap(bytes, mapped_size(size));
	errno = ENOMEM;
	return NULL;
}

void file_unmap(const void *bytes, size_t size)
{
	struct mapping_node *node;

	pthread_mutex_lock(&lock);
	node = mapping_at((uintptr_t)bytes);
	if (node)
		atomic_store(&node->end, 0);
	pthread_mutex_unlock(&lock);
	munmap((void *)bytes, mapped_size(size));
}
