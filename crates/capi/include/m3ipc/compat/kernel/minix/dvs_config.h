/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_DVS_CONFIG_H
#define M3IPC_COMPAT_KERNEL_MINIX_DVS_CONFIG_H

#include "../../minix/dvs_config.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_DVS_CONFIG_H */
