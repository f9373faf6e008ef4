/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_PROC_H
#define M3IPC_COMPAT_KERNEL_MINIX_PROC_H

#include "../../minix/proc.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_PROC_H */
