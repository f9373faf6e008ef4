/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_CALLNR_H
#define M3IPC_COMPAT_KERNEL_MINIX_CALLNR_H

#include "../../minix/callnr.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_CALLNR_H */
