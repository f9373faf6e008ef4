/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_DVK_IOCTL_H
#define M3IPC_COMPAT_KERNEL_MINIX_DVK_IOCTL_H

#include "../../minix/dvk_ioctl.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_DVK_IOCTL_H */
