// SPDX-License-Identifier: BSD-2-Clause
#include "session/address_map.h"

#include "base/order.h"

#include <stdlib.h>

struct mapped_range mapped_range_of(struct file_cache *files, pid_t pid, uint32_t root,
				    const struct mapping *mapping)
{
	struct mapped_range range = {.start = mapping->start,
				     .end = mapping->end,
				     .offset = mapping->file_offset,
				     .until_ns = UINT64_MAX,
				     .file = FILE_CACHE_NONE};

	if (mapping_has_file(mapping))
		range.file = file_cache__add(files, pid, root, mapping);
	return range;
}

struct address_map *address_map__new(struct file_cache *files, pid_t pid, const struct maps *maps)
{
	uint32_t root = file_cache__root(files, pid);
	size_t count = maps__count(maps), executable = 0;
	struct address_map *map;

	for (size_t i = 0; i < count; i++)
		executable += maps__at(maps, i)->executable;
	map = calloc(1, sizeof(*map) + executable * sizeof(map->ranges[0]));
	if (!map)
		return NULL;
	map->users = 1;
	for (size_t i = 0; i < count; i++) {
		const struct mapping *mapping = maps__at(maps, i);

		if (mapping->executable)
			map->ranges[map->count++] = mapped_range_of(files, pid, root, mapping);
	}
	return map;
}

bool mapped_range_overlaps(const struct mapped_range *a, const struct mapped_range *b)
{
	return a->start < b->end && b->start < a->end;
}

bool address_map__same(const struct address_map *a, const struct address_map *b)
{
	bool same = a && a->count == b->count;

	for (size_t i = 0; same && i < a->count; i++)
		same = a->ranges[i].start == b->ranges[i].start &&
		       a->ranges[i].end == b->ranges[i].end &&
		       a->ranges[i].offset == b->ranges[i].offset &&
		       a->ranges[i].file == b->ranges[i].file;
	return same;
}

const struct mapped_range *address_map__find(const struct address_map *map, uint64_t at)
{
	size_t count = map ? map->count : 0;
	size_t index = PARTITION_POINT(i, count, map->ranges[i].end <= at);

	return index < count && map->ranges[index].start <= at ? &map->ranges[index] : NULL;
}

struct address_map *address_map__get(struct address_map *map)
{
	map->users++;
	return map;
}

void address_map__put(struct address_map *map)
{
	if (map && !--map->users)
		free(map);
}

struct address_map *address_map__with(const struct address_map *map,
				      const struct mapped_range *range)
{
	struct address_map *copy =
		calloc(1, sizeof(*copy) + (map->count + 1) * sizeof(map->ranges[0]));
	size_t i = 0;

	if (!copy)
		return NULL;
	copy->users = 1;
	for (; i < map->count && map->ranges[i].end <= range->start; i++)
		copy->ranges[copy->count++] = map->ranges[i];
	copy->ranges[copy->count++] = *range;
	for (; i < map->count; i++)
		if (map->ranges[i].start >= range->end)
			copy->ranges[copy->count++] = map->ranges[i];
	return copy;
}
