/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_ENDPOINT_H
#define M3IPC_COMPAT_KERNEL_MINIX_ENDPOINT_H

#include "../../minix/endpoint.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_ENDPOINT_H */
