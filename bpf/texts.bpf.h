/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How an argument of a marking function is a name, and which id that has. Included by ranges.bpf.h
 * alone.
 */
#ifndef PERFX_TEXTS_BPF_H
#define PERFX_TEXTS_BPF_H

#include "frames.bpf.h"

/* The program may wait for a page of the target: a literal that has not been touched yet is not in
 * memory, and reading it without faults is refused. */
const volatile bool perfx_annotations_sleep = false;

/* Text up to a NUL, or to the room there is. */
static __always_inline bool read_text(struct thread *t, __u64 address)
{
	t->unread = address;
	return address &&
	       bpf_probe_read_user_str(t->name.text, PERFX_NAME_BYTES + 2, (void *)address) >= 0;
}

/* Text of a known length. A NUL in it ends it. */
static __always_inline bool read_bytes(struct thread *t, __u64 address, __u64 length)
{
	__u32 bytes = length > PERFX_NAME_BYTES + 1 ? PERFX_NAME_BYTES + 1 : length;

	/* no string has as many bytes: what is read is none */
	if (length >> 40)
		return false;
	barrier_var(bytes);
	bytes &= 2 * PERFX_NAME_BYTES - 1;
	if (bytes > PERFX_NAME_BYTES + 1)
		return false;
	t->unread = address;
	return !bytes || !bpf_probe_read_user(t->name.text, bytes, (void *)address);
}

static __always_inline __u64 read_word_at(__u64 address)
{
	__u64 word = 0;

	if (address)
		bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

/* nvtxEventAttributes_t (nvToolsExt.h, versions 2 and 3): what its message is, and where. */
#define NVTX_MESSAGE_TYPE  32
#define NVTX_MESSAGE	   40
#define NVTX_MESSAGE_ASCII 1

static __always_inline bool read_string(struct thread *t, const struct perfx_annotation *annotation,
					__u64 argument)
{
	__u64 text;

	for (int i = 0; i < PERFX_PATH_MAX; i++)
		if (i < annotation->path_count)
			argument = read_word_at(argument ? argument + annotation->path[i] : 0);
	if (argument)
		argument += annotation->text_offset;
	switch (annotation->text) {
	case PERFX_TEXT_C:
		return read_text(t, argument);
	case PERFX_TEXT_NVTX:
		return argument &&
		       (__u32)read_word_at(argument + NVTX_MESSAGE_TYPE) == NVTX_MESSAGE_ASCII &&
		       read_text(t, read_word_at(argument + NVTX_MESSAGE));
	case PERFX_TEXT_STRING:
		return argument &&
		       read_bytes(t, read_word_at(argument), read_word_at(argument + 8));
	case PERFX_TEXT_OLD_STRING:
		text = read_word_at(argument);
		return text && read_bytes(t, text, read_word_at(text - 24));
	case PERFX_TEXT_VIEW:
		text = read_word_at(argument + 8);
		return text && read_bytes(t, text, read_word_at(argument));
	default:
		return false;
	}
}

/* The id of a mark's name: that of the function which all ranges of this name are; `own` where the
 * name is not to be emitted. t->vm.arguments are the marking function's. 0: its name cannot be
 * read, perhaps because t->unread is not in memory. */
static __noinline int name_of_annotation(struct thread *t,
					 const struct perfx_annotation *annotation, __u32 own)
{
	if (!t || !annotation)
		return 0;
	t->unread = 0;
	__builtin_memset(&t->name, 0, sizeof(t->name));
	t->name.source = annotation->source;
	if (!read_string(t, annotation, t->vm.arguments[annotation->text_arg & 7]))
		return 0;
	t->unread = 0;
	if ((annotation->flags & PERFX_ANNOTATION_F_UNDERSCORES) &&
	    (t->name.text[0] != '_' || t->name.text[1] != '_'))
		return own;
	return name_id(t);
}

static __noinline int name_of_unreadable(struct thread *t,
					 const struct perfx_annotation *annotation)
{
	if (!t || !annotation)
		return 0;
	counter_add(PERFX_COUNTER_READ_FAULTS, 1);
	t->name.source = annotation->source;
	SET_TEXT(&t->name, "(unreadable)");
	return name_id(t);
}

/* Brings the pages of what could not be read into memory. In no function of its own: a kernel that
 * may not sleep here refuses to call one that might. */
static __always_inline void touch(const struct thread *t)
{
	__u64 address = t->unread;
	char byte;

	if (!address)
		return;
	bpf_copy_from_user(&byte, 1, (void *)address);
	bpf_copy_from_user(&byte, 1, (void *)(address + PERFX_NAME_BYTES));
}

#endif
