/* SPDX-License-Identifier: BSD-2-Clause */
/* The classes of a thread's time, which exclude each other. */
#ifndef PERFX_ANALYZE_ACCOUNT_CLASS_H
#define PERFX_ANALYZE_ACCOUNT_CLASS_H

enum account_class {
	ACCOUNT_COMPUTING = 0,
	ACCOUNT_SPINNING, /* on a CPU, but only polling for another thread or an event */
	ACCOUNT_JOIN,	  /* for its own threads or children, which work meanwhile */
	ACCOUNT_GIL,
	ACCOUNT_LOCK, /* that another thread has: no condition, no queue */
	ACCOUNT_INPUT,
	ACCOUNT_OUTPUT,
	ACCOUNT_DISK,
	ACCOUNT_SLEEP,
	ACCOUNT_CHILD,
	ACCOUNT_OTHER, /* for a condition, a device, in a traced call: no fault by itself */
	ACCOUNT_RUNNABLE,
	ACCOUNT_STOPPED,
	ACCOUNT_UNKNOWN,
	ACCOUNT_CLASSES
};
/* "computing": of JSON. "waiting for the disk": of reports. */
const char *account_class_name(enum account_class class);
const char *account_class_words(enum account_class class);

#endif
