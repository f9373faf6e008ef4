/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_SYSLIB_H
#define M3IPC_COMPAT_KERNEL_MINIX_SYSLIB_H

#include "../../minix/syslib.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_SYSLIB_H */
