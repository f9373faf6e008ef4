/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_DVK_CALLS_H
#define M3IPC_COMPAT_KERNEL_MINIX_DVK_CALLS_H

#include "../../minix/dvk_calls.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_DVK_CALLS_H */
