/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_MACROS_H
#define M3IPC_COMPAT_KERNEL_MINIX_MACROS_H

#include "../../minix/macros.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_MACROS_H */
