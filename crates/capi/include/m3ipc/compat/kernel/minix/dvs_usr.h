/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_DVS_USR_H
#define M3IPC_COMPAT_KERNEL_MINIX_DVS_USR_H

#include "../../minix/dvs_usr.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_DVS_USR_H */
