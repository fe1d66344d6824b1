// SPDX-License-Identifier: BSD-2-Clause
/*
 * Separate debug files, as gdb looks for them ("Debugging Information in Separate Files"): by
 * build-id under /usr/lib/debug/.build-id, then by .gnu_debuglink beside the file, in .debug/
 * beside it, and under /usr/lib/debug; all of it inside the target's own root.
 */
#include "elf/image_internal.h"

#include "proc/maps.h"

#include <elfutils/libdwelf.h>
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

static void drop_debug(struct image *image)
{
	elf_view__unmap(&image->debug);
	if (image->debug_fd >= 0)
		close(image->debug_fd);
	image->debug_fd = -1;
}

void image__close_debug(struct image *image)
{
	drop_debug(image);
	if (image->alt_fd >= 0)
		close(image->alt_fd);
	image->alt_fd = -1;
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
	if (err) {
		close(fd);
		return false;
	}
	image->debug_fd = fd;
	elf_view__build_id(&image->debug, build_id, sizeof(build_id));
	fits = has_symbols(&image->debug);
	if (crc)
		fits = fits && crc_fits(&image->debug, *crc);
	else
		fits = fits && strcmp(build_id, image->build_id) == 0;
	if (!fits)
		drop_debug(image);
	return fits;
}

#define BUILD_ID_PATH "/usr/lib/debug/.build-id/%.2s/%s.debug"

static bool try_build_id(struct image *image)
{
	char path[sizeof(image->build_id) + sizeof(BUILD_ID_PATH)];

	if (strlen(image->build_id) < 4)
		return false;
	snprintf(path, sizeof(path), BUILD_ID_PATH, image->build_id, image->build_id + 2);
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

/* --- DWARF ----------------------------------------------------------------------------------- */

static bool has_dwarf(const struct elf_view *view)
{
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	return elf_view__section(view, ".debug_info", &shdr, &bytes) ||
	       elf_view__section(view, ".zdebug_info", &shdr, &bytes);
}

/* By libelf, for dwz's files are neither programs nor libraries. */
static bool has_build_id(int fd, const uint8_t *id, size_t id_size)
{
	Elf *elf;
	const void *found;
	bool same;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	same = elf && dwelf_elf_gnu_build_id(elf, &found) == (ssize_t)id_size &&
	       memcmp(found, id, id_size) == 0;
	elf_end(elf);
	return same;
}

/* .gnu_debugaltlink: a path and, behind its NUL, the build-id of that file (dwz -m). libdw would
 * open whatever the path says, from our root; so it is opened here. */
static int open_alt(const struct image *image, const uint8_t *bytes, size_t size)
{
	size_t path_size = strnlen((const char *)bytes, size) + 1;
	const uint8_t *id = bytes + path_size;
	size_t id_size = size > path_size ? size - path_size : 0;
	char path[sizeof(image->build_id) + sizeof(BUILD_ID_PATH)], hex[sizeof(image->build_id)];
	int fd;

	if (id_size < 2 || 2 * id_size >= sizeof(hex))
		return -ENOENT;
	for (size_t i = 0; i < id_size; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	snprintf(path, sizeof(path), BUILD_ID_PATH, hex, hex + 2);
	fd = rootfs_open(image->root, path);
	if (fd < 0 && bytes[0] == '/')
		fd = rootfs_open(image->root, (const char *)bytes);
	if (fd >= 0 && !has_build_id(fd, id, id_size)) {
		close(fd);
		fd = -ENOENT;
	}
	return fd;
}

int image__debug_info(struct image *image, int *fd, int *alt_fd)
{
	bool own = has_dwarf(&image->file);
	const uint8_t *bytes;
	Elf64_Shdr shdr;

	if (!own && !image->debug.bytes && !image__open_debug(image))
		return -ENOENT;
	if (!own && !has_dwarf(&image->debug))
		return -ENOENT;
	*fd = own ? image->fd : image->debug_fd;
	*alt_fd = -1;
	if (!elf_view__section(own ? &image->file : &image->debug, ".gnu_debugaltlink", &shdr,
			       &bytes))
		return 0;
	if (image->alt_fd < 0)
		image->alt_fd = open_alt(image, bytes, shdr.sh_size);
	*alt_fd = image->alt_fd;
	return image->alt_fd < 0 ? -ENOENT : 0;
}
