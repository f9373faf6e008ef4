/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_CONFIG_H
#define M3IPC_COMPAT_KERNEL_MINIX_CONFIG_H

#include "../../minix/config.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_CONFIG_H */
