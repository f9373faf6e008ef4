/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_DVS_ERRNO_H
#define M3IPC_COMPAT_KERNEL_MINIX_DVS_ERRNO_H

#include "../../minix/dvs_errno.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_DVS_ERRNO_H */
