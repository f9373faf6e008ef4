/* Proxies of the later releases. In m3ipc the node daemon does their work. */
#ifndef M3IPC_COMPAT_MINIX_PROXY_USR_H
#define M3IPC_COMPAT_MINIX_PROXY_USR_H

#include "../../../m3ipc.h"

#define MAXBUFSIZE 1432 /* payload of one frame, in bytes */

#endif /* M3IPC_COMPAT_MINIX_PROXY_USR_H */
