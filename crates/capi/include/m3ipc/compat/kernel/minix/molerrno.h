/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_MOLERRNO_H
#define M3IPC_COMPAT_KERNEL_MINIX_MOLERRNO_H

#include "../../minix/molerrno.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_MOLERRNO_H */
