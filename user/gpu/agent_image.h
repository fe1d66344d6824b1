/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of libperfx-gpu.so, which is put into a running process from here: attaching needs no
 * file beside the program. */
#ifndef PERFX_GPU_AGENT_IMAGE_H
#define PERFX_GPU_AGENT_IMAGE_H

#include <stddef.h>

/* For as long as the program runs; the bytes are not to be changed. */
const void *agent_image(size_t *bytes);

#endif
