/* Proxies: here the node daemon does their work. */
#ifndef M3IPC_COMPAT_MINIX_PROXY_H
#define M3IPC_COMPAT_MINIX_PROXY_H

#include "proxy_usr.h"

#endif /* M3IPC_COMPAT_MINIX_PROXY_H */
