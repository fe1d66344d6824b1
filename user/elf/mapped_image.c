// SPDX-License-Identifier: BSD-2-Clause
#include "elf/image.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct image *mapped_image_open(pid_t pid, const struct mapping *mapping, uint64_t *bias)
{
	struct module_ref ref = module_of(mapping);
	int fd = module_open(pid, &ref);
	struct image *image = fd < 0 ? NULL : image__open(fd, mapping->path, "");

	if (fd >= 0)
		close(fd);
	if (image && image__bias(image, mapping->start, mapping->file_offset, bias))
		return image;
	image__free(image);
	return NULL;
}

uint64_t mapped_symbol(const struct image *image, uint64_t bias, const char *name, uint64_t *bytes)
{
	uint64_t vaddr, size;

	if (!image__exported(image, name, &vaddr, &size))
		return 0;
	if (bytes)
		*bytes = size;
	return bias + vaddr;
}

static const struct mapping *executable_of(pid_t pid, const struct maps *maps)
{
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &status))
		return NULL;
	for (size_t i = 0; i < maps__count(maps); i++) {
		const struct mapping *mapping = maps__at(maps, i);

		if (mapping->executable && mapping->inode == status.st_ino)
			return mapping;
	}
	return NULL;
}

uint64_t mapped_variable(pid_t pid, const struct maps *maps, const struct image *image,
			 uint64_t bias, const char *name)
{
	const struct mapping *mapping = executable_of(pid, maps);
	uint64_t program_bias, address = 0;
	struct image *program = mapping ? mapped_image_open(pid, mapping, &program_bias) : NULL;

	if (program)
		address = mapped_symbol(program, program_bias, name, NULL);
	image__free(program);
	return address ? address : mapped_symbol(image, bias, name, NULL);
}
