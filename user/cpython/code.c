// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/code.h"

#include "base/text.h"
#include "proc/process.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Longer names are cut; longer line tables are not read. */
#define TEXT_CHARACTERS_MAX 1024
#define LINES_BYTES_MAX	    (1u << 20)

/* Every object begins with a reference count and its type; then comes, of what has one, its length.
 * These have not changed from 3.8 to 3.14. */
#define OBJECT_TYPE   8
#define OBJECT_LENGTH 16
#define STRING_STATE  32
#define BYTES_DATA    32

static void add_character(struct text *text, uint32_t code)
{
	char bytes[4];
	size_t count = 0;

	if (code >= 0x110000 || (code >= 0xd800 && code < 0xe000) || !code)
		code = 0xfffd;
	if (code < 0x80) {
		bytes[count++] = (char)code;
	} else if (code < 0x800) {
		bytes[count++] = (char)(0xc0 | code >> 6);
	} else if (code < 0x10000) {
		bytes[count++] = (char)(0xe0 | code >> 12);
		bytes[count++] = (char)(0x80 | (code >> 6 & 0x3f));
	} else {
		bytes[count++] = (char)(0xf0 | code >> 18);
		bytes[count++] = (char)(0x80 | (code >> 12 & 0x3f));
		bytes[count++] = (char)(0x80 | (code >> 6 & 0x3f));
	}
	if (code >= 0x80)
		bytes[count++] = (char)(0x80 | (code & 0x3f));
	text_add_bytes(text, bytes, count);
}

/* The text of a str object; NULL with errno. */
static char *read_string(pid_t pid, const struct code_offsets *code, uint64_t address)
{
	uint8_t characters[TEXT_CHARACTERS_MAX * sizeof(uint32_t)];
	struct text text = {0};
	unsigned character_bytes;
	bool compact, ascii;
	uint64_t length;
	uint32_t state;
	int err = process_read(pid, address + OBJECT_LENGTH, &length, sizeof(length));

	if (!err)
		err = process_read(pid, address + STRING_STATE, &state, sizeof(state));
	if (err) {
		errno = -err;
		return NULL;
	}
	/* interned:2, kind:3, compact:1, ascii:1: the same from 3.8 to 3.14 */
	character_bytes = state >> 2 & 7;
	compact = state >> 5 & 1;
	ascii = state >> 6 & 1;
	errno = ESTALE;
	if (!compact || (ascii && character_bytes != 1) ||
	    (character_bytes != 1 && character_bytes != 2 && character_bytes != 4))
		return NULL;
	if (length > TEXT_CHARACTERS_MAX)
		length = TEXT_CHARACTERS_MAX;
	address += ascii ? code->string_data : code->string_wide_data;
	if (length && process_read(pid, address, characters, length * character_bytes))
		return NULL;
	for (uint64_t i = 0; i < length; i++) {
		uint32_t character = 0;

		memcpy(&character, characters + i * character_bytes, character_bytes);
		add_character(&text, character);
	}
	return length ? text_take(&text) : strdup("");
}

char *code_string(pid_t pid, const struct cpython *python, uint64_t address)
{
	return read_string(pid, &python->release.code, address);
}

/* The beginning of a code object, up to its bytecode. */
#define CODE_BYTES 256

/* Of its flags (Include/cpython/code.h). */
#define CO_GENERATOR	   0x20
#define CO_ASYNC_GENERATOR 0x200

struct code_head {
	uint8_t bytes[CODE_BYTES];
};

static uint64_t pointer_at(const struct code_head *head, uint16_t offset)
{
	uint64_t pointer = 0;

	if (offset <= CODE_BYTES - sizeof(pointer))
		memcpy(&pointer, head->bytes + offset, sizeof(pointer));
	return pointer;
}

/* As much of it as there is in every release: up to the pointer that lies last. */
static int read_head(pid_t pid, const struct cpython *python, uint64_t address,
		     struct code_head *head)
{
	const struct code_offsets *code = &python->release.code;
	uint16_t last = code->name;
	int err;

	if (last < code->qualname)
		last = code->qualname;
	if (last < code->lines)
		last = code->lines;
	if (last > CODE_BYTES - sizeof(uint64_t))
		return -EINVAL;
	*head = (struct code_head){0};
	err = process_read(pid, address, head->bytes, last + sizeof(uint64_t));
	if (err == -EFAULT)
		return -ESTALE;
	if (!err && pointer_at(head, OBJECT_TYPE) != python->code_type)
		return -ESTALE;
	return err;
}

/* The line table, a bytes object. */
static int read_lines(pid_t pid, uint64_t address, struct code_lines *lines)
{
	uint64_t length;
	uint8_t *bytes;
	int err = process_read(pid, address + OBJECT_LENGTH, &length, sizeof(length));

	if (err || length > LINES_BYTES_MAX)
		return -ESTALE;
	bytes = malloc(length + 1);
	if (!bytes)
		return -ENOMEM;
	if (length && process_read(pid, address + BYTES_DATA, bytes, length)) {
		free(bytes);
		return -ESTALE;
	}
	lines->bytes = bytes;
	lines->length = length;
	return 0;
}

int code_read(pid_t pid, const struct cpython *python, uint64_t address, struct code *code)
{
	const struct code_offsets *at = &python->release.code;
	struct code_head head;
	int err = read_head(pid, python, address, &head);

	*code = (struct code){.lines.format = at->format};
	if (err)
		return err;
	code->lines.first_line = (uint32_t)pointer_at(&head, at->first_line);
	code->is_generator = pointer_at(&head, at->flags) & (CO_GENERATOR | CO_ASYNC_GENERATOR);
	code->file = read_string(pid, at, pointer_at(&head, at->file));
	if (code->file)
		code->function = read_string(
			pid, at, pointer_at(&head, at->qualname ? at->qualname : at->name));
	err = code->function ? read_lines(pid, pointer_at(&head, at->lines), &code->lines) : -errno;
	if (err)
		code_clear(code);
	return err == -EFAULT ? -ESTALE : err;
}

void code_clear(struct code *code)
{
	free(code->function);
	free(code->file);
	free((uint8_t *)(uintptr_t)code->lines.bytes);
	*code = (struct code){0};
}

static int mix_string(pid_t pid, const struct perfx_python_layout *layout, uint64_t address,
		      uint64_t *hash)
{
	__u64 head[PERFX_PYTHON_STRING_WORDS], text[PERFX_PYTHON_TEXT_WORDS] = {0}, from;
	uint32_t bytes;
	int err = process_read(pid, address + PERFX_PYTHON_STRING_HEAD, head, sizeof(head));

	if (err)
		return err;
	bytes = perfx_python_text(layout, head, &from);
	if (bytes)
		err = process_read(pid, address + PERFX_PYTHON_STRING_HEAD + from, text, bytes);
	*hash = perfx_python_mix(*hash, head[0]);
	for (size_t i = 0; i < PERFX_PYTHON_TEXT_WORDS; i++)
		*hash = perfx_python_mix(*hash, text[i]);
	return err;
}

int code_identity(pid_t pid, const struct cpython *python, uint64_t address, uint32_t *identity)
{
	const struct perfx_python_layout *layout = &python->release.frames;
	uint64_t words[PERFX_PYTHON_CODE_WORDS] = {0}, hash = 0;
	int err = process_read(pid, address + layout->code_from, words, layout->code_bytes);

	for (size_t i = 0; !err && i < PERFX_PYTHON_CODE_WORDS; i++)
		hash = perfx_python_mix(hash, words[i]);
	if (!err && layout->code_file)
		err = mix_string(pid, layout, words[layout->code_file], &hash);
	if (!err && layout->code_file)
		err = mix_string(pid, layout, words[layout->code_name], &hash);
	*identity = (uint32_t)(hash ^ hash >> 32);
	return err == -EFAULT ? -ESTALE : err;
}
