/* Proxies of the later releases. In m3ipc the program m3-proxy does their work. */
#ifndef M3IPC_COMPAT_MINIX_PROXY_USR_H
#define M3IPC_COMPAT_MINIX_PROXY_USR_H

#include "../../../m3ipc.h"

#define MAXBUFSIZE 1432 /* payload of one frame, in bytes */

/* The status of a proxy, for mnx_proxy_conn. */
#define CONNECT_SPROXY    1
#define CONNECT_RPROXY    2
#define DISCONNECT_SPROXY 3
#define DISCONNECT_RPROXY 4

#define HELLO_PERIOD 30000 /* default limit of mnx_get2rmt, in ms */

#endif /* M3IPC_COMPAT_MINIX_PROXY_USR_H */
