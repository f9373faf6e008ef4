/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_KIPC_H
#define M3IPC_COMPAT_KERNEL_MINIX_KIPC_H

#include "../../minix/kipc.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_KIPC_H */
