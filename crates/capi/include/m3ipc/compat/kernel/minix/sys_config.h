/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_SYS_CONFIG_H
#define M3IPC_COMPAT_KERNEL_MINIX_SYS_CONFIG_H

#include "../../minix/sys_config.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_SYS_CONFIG_H */
