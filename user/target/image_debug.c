// SPDX-License-Identifier: BSD-2-Clause
/*
 * Separate debug files, as gdb looks for them ("Debugging Information in Separate Files"): by
 * build-id under /usr/lib/debug/.build-id, then by .gnu_debuglink beside the file, in .debug/
 * beside it, and under /usr/lib/debug; all of it inside the target's own root.
 */
#include "target/image_internal.h"

#include "target/rootfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static bool has_symbols(const struct elf_view *view)
{
	Elf64_Shdr shdr;

	return elf_view__section_of_type(view, SHT_SYMTAB, &shdr);
}

static bool crc_fits(const struct elf_view *view, uint32_t crc)
{
	return crc32_z(0, view->bytes, view->size) == crc;
}

/* crc NULL: the build-id decides. */
static bool try_file(struct image *image, const char *path, const uint32_t *crc)
{
	char build_id[sizeof(image->build_id)];
	int fd = rootfs_open(image->root, path);
	bool fits;
	int err;

	if (fd < 0)
		return false;
	err = elf_view__map(&image->debug, fd);
	close(fd);
	if (err)
		return false;
	elf_view__build_id(&image->debug, build_id, sizeof(build_id));
	fits = has_symbols(&image->debug);
	if (crc)
		fits = fits && crc_fits(&image->debug, *crc);
	else
		fits = fits && strcmp(build_id, image->build_id) == 0;
	if (!fits)
		elf_view__unmap(&image->debug);
	return fits;
}

static bool try_build_id(struct image *image)
{
	char path[sizeof(image->build_id) + 64];

	if (strlen(image->build_id) < 4)
		return false;
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", image->build_id,
		 image->build_id + 2);
	return try_file(image, path, NULL);
}

static bool try_beside(struct image *image, const char *name, uint32_t crc)
{
	static const char *const places[][2] = {{"", ""}, {"", ".debug/"}, {"/usr/lib/debug", ""}};
	const char *slash = strrchr(image->path, '/');
	int dir_size = slash ? (int)(slash - image->path) : 0;
	bool found = false;

	for (size_t i = 0; slash && !found && i < sizeof(places) / sizeof(*places); i++) {
		char *path = NULL;

		if (asprintf(&path, "%s%.*s/%s%s", places[i][0], dir_size, image->path,
			     places[i][1], name) < 0)
			return false;
		found = try_file(image, path, &crc);
		free(path);
	}
	return found;
}

/* .gnu_debuglink: a file name, padded to four bytes, and the CRC-32 of that file. */
static bool try_debuglink(struct image *image)
{
	const uint8_t *bytes;
	Elf64_Shdr shdr;
	uint32_t crc;
	size_t size;

	if (!elf_view__section(&image->file, ".gnu_debuglink", &shdr, &bytes) ||
	    !memchr(bytes, 0, shdr.sh_size))
		return false;
	size = (strlen((const char *)bytes) + 4) & ~(size_t)3;
	if (size + sizeof(crc) > shdr.sh_size || bytes[0] == '\0' ||
	    strchr((const char *)bytes, '/'))
		return false;
	memcpy(&crc, bytes + size, sizeof(crc));
	return try_beside(image, (const char *)bytes, crc);
}

bool image__open_debug(struct image *image)
{
	return try_build_id(image) || try_debuglink(image);
}
