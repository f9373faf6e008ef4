/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_TYPES_H
#define M3IPC_COMPAT_KERNEL_MINIX_TYPES_H

#include "../../minix/types.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_TYPES_H */
