/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_MOLDEBUG_H
#define M3IPC_COMPAT_KERNEL_MINIX_MOLDEBUG_H

#include "../../minix/moldebug.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_MOLDEBUG_H */
