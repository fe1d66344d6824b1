/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the service manager how a service is: sd_notify(3), which is one datagram. */
#ifndef PERFX_SERVE_NOTIFY_H
#define PERFX_SERVE_NOTIFY_H

/* "READY=1": to the socket that $NOTIFY_SOCKET names; without it nothing happens. */
void notify_manager(const char *state);

#endif
