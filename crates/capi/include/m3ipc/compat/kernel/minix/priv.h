/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_PRIV_H
#define M3IPC_COMPAT_KERNEL_MINIX_PRIV_H

#include "../../minix/priv.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_PRIV_H */
