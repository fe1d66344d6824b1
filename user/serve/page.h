/* SPDX-License-Identifier: BSD-2-Clause */
/* The live page: the HTML report's style and script, and its own, which ask for live.json. */
#ifndef PERFX_SERVE_PAGE_H
#define PERFX_SERVE_PAGE_H

#include <stddef.h>

/* malloc'd; NULL: memory is out. */
char *page_new(size_t *size);
/* The Content-Security-Policy by which it, and an HTML report, work: nothing but their own styles
 * and scripts, and of the network only this server. */
const char *page_policy(void);

#endif
