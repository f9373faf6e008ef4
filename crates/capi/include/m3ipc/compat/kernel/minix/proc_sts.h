/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_PROC_STS_H
#define M3IPC_COMPAT_KERNEL_MINIX_PROC_STS_H

#include "../../minix/proc_sts.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_PROC_STS_H */
