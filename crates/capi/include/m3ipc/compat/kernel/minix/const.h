/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_CONST_H
#define M3IPC_COMPAT_KERNEL_MINIX_CONST_H

#include "../../minix/const.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_CONST_H */
