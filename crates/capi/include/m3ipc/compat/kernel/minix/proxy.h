/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_PROXY_H
#define M3IPC_COMPAT_KERNEL_MINIX_PROXY_H

#include "../../minix/proxy.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_PROXY_H */
