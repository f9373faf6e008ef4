/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_IPC_H
#define M3IPC_COMPAT_KERNEL_MINIX_IPC_H

#include "../../minix/ipc.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_IPC_H */
