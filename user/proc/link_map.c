// SPDX-License-Identifier: BSD-2-Clause
/*
 * auxv says where the program headers are, these where the dynamic section is, DT_DEBUG there
 * where the list's head is. All of it is the program's own memory: nothing read is trusted, the
 * list's length is bounded.
 */
#include "proc/link_map.h"

#include "proc/proc.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define HEADERS_MAX 64
#define DYNAMIC_MAX 256
#define FILES_MAX   8192
#define PAGE_BYTES  4096ull

static int read_memory(pid_t pid, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = {to, bytes};
	struct iovec remote = {(void *)(uintptr_t)address, bytes}; /* never followed here */
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EFAULT;
}

static int read_auxv(pid_t pid, uint64_t *headers, uint64_t *count)
{
	char *text;
	ssize_t size = proc_read_pid(pid, "auxv", &text, 0);
	Elf64_auxv_t entry;

	*headers = *count = 0;
	if (size < 0)
		return (int)size;
	for (size_t at = 0; at + sizeof(entry) <= (size_t)size; at += sizeof(entry)) {
		memcpy(&entry, text + at, sizeof(entry));
		if (entry.a_type == AT_PHDR)
			*headers = entry.a_un.a_val;
		else if (entry.a_type == AT_PHNUM)
			*count = entry.a_un.a_val;
	}
	free(text);
	return *headers && *count && *count <= HEADERS_MAX ? 0 : -ENOENT;
}

/* Where the executable's dynamic section is mapped. */
static int find_dynamic(pid_t pid, uint64_t *address)
{
	uint64_t headers, count, bias = 0, dynamic = 0;
	Elf64_Phdr phdr[HEADERS_MAX];
	int err = read_auxv(pid, &headers, &count);

	if (!err)
		err = read_memory(pid, headers, phdr, count * sizeof(phdr[0]));
	if (err)
		return err;
	for (uint64_t i = 0; i < count; i++) {
		/* the headers lie in the file's first page; a static file does not say where */
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_offset == 0 && !bias)
			bias = (headers & ~(PAGE_BYTES - 1)) - phdr[i].p_vaddr;
		if (phdr[i].p_type == PT_PHDR)
			bias = headers - phdr[i].p_vaddr;
		if (phdr[i].p_type == PT_DYNAMIC)
			dynamic = phdr[i].p_vaddr;
	}
	*address = bias + dynamic;
	return dynamic ? 0 : -ENOENT;
}

static int find_head(pid_t pid, uint64_t *head)
{
	struct r_debug debug;
	Elf64_Dyn entry;
	uint64_t at;
	int err = find_dynamic(pid, &at);

	for (int i = 0; !err && i < DYNAMIC_MAX; i++, at += sizeof(entry)) {
		err = read_memory(pid, at, &entry, sizeof(entry));
		if (err || entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag != DT_DEBUG || !entry.d_un.d_ptr)
			continue;
		err = read_memory(pid, entry.d_un.d_ptr, &debug, sizeof(debug));
		*head = (uint64_t)(uintptr_t)debug.r_map;
		return err ? err : (*head ? 0 : -ENOENT);
	}
	return err ? err : -ENOENT;
}

ssize_t link_map_read(pid_t pid, uint64_t **out)
{
	uint64_t *files = NULL, at;
	size_t count = 0;
	int err = find_head(pid, &at);

	*out = NULL;
	if (err)
		return err;
	files = calloc(FILES_MAX, sizeof(*files));
	if (!files)
		return -ENOMEM;
	while (at && count < FILES_MAX) {
		struct link_map map = {0};

		err = read_memory(pid, at, &map, sizeof(map));
		if (err)
			break;
		files[count++] = (uint64_t)(uintptr_t)map.l_ld;
		at = (uint64_t)(uintptr_t)map.l_next;
	}
	if (!count) {
		free(files);
		return err ? err : -ENOENT;
	}
	*out = files;
	return (ssize_t)count;
}
