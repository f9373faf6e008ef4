/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_PROXY_STS_H
#define M3IPC_COMPAT_KERNEL_MINIX_PROXY_STS_H

#include "../../minix/proxy_sts.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_PROXY_STS_H */
