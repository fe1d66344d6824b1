/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where CPython keeps the frames of its threads: addresses in one process, and offsets in the
 * structures of its release. User space finds them (user/cpython/) for the BPF programs, which walk
 * the frames (bpf/python.bpf.h). Not part of a capture.
 */
#ifndef PERFX_PYTHON_H
#define PERFX_PYTHON_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/*
 * Which native frame of the interpreter (_PyEval_EvalFrameDefault) runs which Python frames. An
 * entry is a marker in that native frame for the Python frames that it runs.
 */
enum perfx_python_entry {
	PERFX_PYTHON_ENTRY_NONE = 0,
	/* 3.8, 3.9: no marker; each native frame runs one Python frame */
	PERFX_PYTHON_ENTRY_CODE = 1,
	/* 3.10: a CFrame; each native frame runs one Python frame */
	PERFX_PYTHON_ENTRY_CFRAME_EACH = 2,
	/* 3.11: a _PyCFrame, whose last Python frame has is_entry */
	PERFX_PYTHON_ENTRY_CFRAME = 3,
	/* 3.12 and later: a _PyInterpreterFrame without code, last of those that it runs */
	PERFX_PYTHON_ENTRY_SHIM = 4,
};

#define PERFX_PYTHON_OWNER_SHIM 3 /* enum _frameowner: 3 and above have no code */

/* Words of a frame, or of a thread state, that are read at most: a power of two. */
#define PERFX_PYTHON_WORDS 32

/* Offsets are in bytes. */
struct perfx_python_layout {
	/* Address of the pointer to the first interpreter, which the pointer to the main one
	 * follows. */
	__u64 interpreters;
	__u64 eval_start, eval_end; /* ENTRY_CODE: the interpreter's code */
	__u64 gil;		    /* address of the main interpreter's GIL; 0: unknown */
	__u32 version;		    /* PY_VERSION_HEX */
	__u32 entry;		    /* enum perfx_python_entry */
	__u16 interpreter_next, interpreter_threads;
	__u16 thread_next, thread_id;
	/* Pointer to the innermost frame; 0: the CFrame has it. */
	__u16 thread_frame;
	__u16 thread_cframe; /* pointer to the innermost CFrame; 0: there are none */
	__u16 cframe_frame, cframe_previous;
	__u16 frame_bytes; /* read from each frame */
	__u16 frame_code, frame_back;
	__u16 frame_instruction; /* address; up to 3.10 index */
	__u16 frame_entry;	 /* byte: 3.11 is_entry, then owner */
	/* First instruction in the code object; 0: frame_instruction is an index in units of
	 * index_bytes. */
	__u16 code_first;
	__u16 index_bytes;
	/* GIL: struct _gil_runtime_state */
	__u16 gil_locked, gil_holder;
	/* A code object is identified by code_bytes of its bytes, from code_from on. Before 3.12
	 * the texts of two strings, to which these words of the bytes point, are part of the
	 * identity; 0: the bytes contain a unique version number. */
	__u16 code_from, code_bytes;
	__u16 code_file, code_name;
	__u16 string_data, string_wide_data; /* of ASCII; of other texts */
	__u16 interpreter_gil;		     /* pointer to an interpreter's GIL; 0: all share one */
	__u16 frame_locals;		     /* first local variable */
	__u16 pad;
};

/* Key of a thread's state. */
struct perfx_python_state {
	__u64 thread_id; /* pthread_self() */
	__u32 tgid;
	__u32 pad;
};
#define PERFX_MAX_PYTHON_STATES 65536

#define PERFX_PYTHON_CODE_WORDS 16 /* of code_bytes, at most; a power of two */
/* A string: its length, its hash, and its kind of characters. */
#define PERFX_PYTHON_STRING_HEAD  16
#define PERFX_PYTHON_STRING_WORDS 3
/* The last characters tell file names apart. */
#define PERFX_PYTHON_TEXT_WORDS 8

static inline __u64 perfx_python_mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

/* Returns the number of bytes of a string's text that are hashed; *from: their start, in bytes
 * after the string's head. */
static inline __u32 perfx_python_text(const struct perfx_python_layout *layout,
				      const __u64 head[PERFX_PYTHON_STRING_WORDS], __u64 *from)
{
	__u64 state = head[2], bytes = head[0] * (state >> 2 & 7);
	__u32 counted = 8 * PERFX_PYTHON_TEXT_WORDS;

	if (bytes < counted)
		counted = (__u32)bytes;
	*from = (state >> 6 & 1 ? layout->string_data : layout->string_wide_data) + bytes -
		counted - PERFX_PYTHON_STRING_HEAD;
	return counted;
}

#endif
