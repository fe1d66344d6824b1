// SPDX-License-Identifier: BSD-2-Clause
#include "elf/mapped_image.h"

#include <stddef.h>
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
