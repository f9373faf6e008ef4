/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_COM_H
#define M3IPC_COMPAT_KERNEL_MINIX_COM_H

#include "../../minix/com.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_COM_H */
