/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_DVS_DEBUG_H
#define M3IPC_COMPAT_KERNEL_MINIX_DVS_DEBUG_H

#include "../../minix/dvs_debug.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_DVS_DEBUG_H */
