/* Proxies: here the node daemon does their work. */
#ifndef M3IPC_COMPAT_MINIX_PROXY_STS_H
#define M3IPC_COMPAT_MINIX_PROXY_STS_H

#include "../../../m3ipc.h"

#endif /* M3IPC_COMPAT_MINIX_PROXY_STS_H */
